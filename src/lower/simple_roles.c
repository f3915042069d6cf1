/* simple_roles.c: roles and barriers that the author wrote (`specialize`), in the simplest
 * lowering.
 *
 * In: ROLES, barriers, ARRIVE, AWAIT and signalling copies of the program. Out: roles of threads
 * and mbarriers: one thread arrives for its role once all of it is there, every thread waits by
 * itself. Always holds: inside a role its threads meet at a named barrier of their own, and have
 * one-element tiles of their own through which one tells the others; nothing is held at either end
 * of a role. `registers =` moves registers between warpgroups where the sums allow it. Tests:
 * tests/lang/specialize_*, tests/unit/check_cuda.c.
 */
#include "hopper.h"

#include <string.h>

/* An operation on the barrier at a shared address. */
static void emit_barrier_op(Simple *s, OpCode op, IrExpr *address, IrExpr *more) {
  IrStmt *st = low_emit(s, IRK_OP);
  IrOperand *o = ARENA_ARRAY(s->k->arena, IrOperand, 2);
  o[0] = (IrOperand){.kind = IRO_EXPR, .expr = address};
  o[1] = (IrOperand){.kind = IRO_EXPR, .expr = more};
  st->as.op = (IrOp){op, o, more ? 2 : 1};
}

static bool has_barriers(Simple *s) {
  if (s->target->arch >= ARCH_SM90A)
    return true;
  low_fail(s, E0713, "barriers that the program declares need sm_90a");
  return false;
}

/* One block after the other would begin them anew, which the hardware does not do. */
static bool begins_once(Simple *s) {
  if (s->slot && s->registers) /* the simplest schedule says it */
    s->failed = true;
  else if (s->slot)
    low_fail(s, E0713, "the tiles do not fit into shared memory, as a program with roles needs it");
  return !s->slot;
}

/* Where it lies. Outside its array a fault is recorded, and the first is taken in its place. */
IrExpr *low_barrier_address(Simple *s, const IrAccess *a) {
  IrExpr *bad = low_check_access(s, a), *at = expand_shared_address(s, a->buf, a->index);
  return bad ? ir_op3(s->k, OP_SELECT, bad, low_i32(s, a->buf->offset), at) : at;
}

/* All of an array at once, before anyone names one. */
void low_init_barriers(Simple *s, const IrBuffer *b) {
  int64_t n = low_place_of(s, b)->bytes / 8;
  if (!has_barriers(s) || !begins_once(s))
    return;
  low_flush(s);
  IrBlock *before = low_enter(s, &low_emit_if(s, low_is_first(s))->as.if_.then), *inner;
  IrExpr *e = low_open_serial(s, "e", 0, n, &inner);
  IrExpr *at = low_mul(s, ir_cast(s->k, e, DT_I32), low_i32(s, 8));
  emit_barrier_op(s, OP_MBAR_INIT, low_add(s, low_i32(s, b->offset), at),
                  low_i32(s, b->arrivals * (s->registers ? hopper_arrivals(s->k, b) : 1)));
  low_enter(s, inner);
  low_emit_op(s, OP_MBAR_FENCE_INIT);
  low_enter(s, before);
  low_barrier(s);
}

/* What the threads before it did is seen by whoever waits: they meet, then one arrives. */
void low_arrive(Simple *s, const IrAccess *a) {
  if (!has_barriers(s) || hopper_arrive(s, a))
    return;
  IrExpr *at = low_barrier_address(s, a);
  low_barrier(s);
  IrBlock *before = low_enter(s, &low_emit_if(s, low_is_first(s))->as.if_.then);
  emit_barrier_op(s, OP_MBAR_ARRIVE, at, NULL);
  low_enter(s, before);
}

/* Each thread for itself, so that each sees what was done before the arrivals. */
void low_await(Simple *s, const IrStmt *st) {
  if (!has_barriers(s))
    return;
  IrExpr *bit = ir_op2(s->k, OP_AND, st->as.barrier.parity, low_i64(s, 1));
  emit_barrier_op(s, OP_MBAR_WAIT, low_barrier_address(s, &st->as.barrier.at),
                  ir_cast(s->k, bit, DT_I32));
}

/* ---------------------------------------------------------------- registers */

enum { GROUP = 4, MOST = 255, STEP = 8 }; /* warps of a warpgroup; registers of a thread */

/* What each thread has at launch: the launch bounds let the compiler share out all of them. */
static int entry_registers(const Simple *s) {
  int n = s->target->registers / s->threads / STEP * STEP;
  return n > MOST ? MOST : n;
}

/* Why the roles' counts cannot be set; NULL: they can. A warpgroup that raises its count waits for
 * what others gave back, so together they may not want more than there is at launch. */
static const char *registers_trouble(const Simple *s, const IrRoles *r) {
  int entry = entry_registers(s), left = entry * s->threads;
  if (s->target->arch < ARCH_SM90A)
    return "the target cannot move registers between warpgroups";
  for (int i = 0; i < r->nroles; i++) {
    const IrRoleBody *b = &r->role[i];
    if (b->registers && (b->first_warp % GROUP || b->warps % GROUP))
      return "the roles are no whole warpgroups";
    left -= (b->registers ? b->registers : entry) * 32 * b->warps;
  }
  return left < 0 ? "together the warpgroups would wait for more than the block has" : NULL;
}

/* At the role's start, before anything lives in registers. */
static void set_registers(Simple *s, const IrRoleBody *from, bool can) {
  int entry = entry_registers(s);
  if (!can || !from->registers || from->registers == entry)
    return;
  OpCode op = from->registers < entry ? OP_SETMAXNREG_DEC : OP_SETMAXNREG_INC;
  IrStmt *st = low_emit(s, IRK_OP);
  IrOperand *o = ARENA_NEW(s->k->arena, IrOperand);
  *o = (IrOperand){.kind = IRO_EXPR, .expr = low_i32(s, from->registers)};
  st->as.op = (IrOp){op, o, 1};
}

static bool may_set_registers(Simple *s, const IrRoles *r) {
  bool asked = false;
  for (int i = 0; i < r->nroles; i++)
    asked |= r->role[i].registers > 0;
  const char *why = asked ? registers_trouble(s, r) : NULL;
  if (why)
    lower_note(s->request, "registers = of the roles is left out: %s", why);
  return asked && !why;
}

/* ---------------------------------------------------------------- roles */

/* One role, in its own warps. */
static void lower_role(Simple *s, IrRoleBody *from, IrRoleBody *out, int barrier, bool can) {
  IrBlock *before = low_enter(s, &out->body);
  set_registers(s, from, can);
  s->role_registers = can ? from->registers : 0;
  ExpandRole outer = expand_enter_role(s, out->first_warp, out->warps, barrier);
  IrBuffer *once[DT_COUNT];
  memcpy(once, s->once, sizeof once);
  memset(s->once, 0, sizeof s->once);
  IrBlock *role = s->out;
  bool opened = s->registers && hopper_open_author(s, from, &role);
  low_points(s, &from->body);
  low_flush(s);
  if (opened)
    s->hopper = NULL;
  s->alone = false;
  low_enter(s, role);
  memcpy(s->once, once, sizeof once);
  s->role_registers = 0;
  expand_leave_role(s, &outer);
  low_enter(s, before);
}

/* What follows waits for all of them. */
void low_author_roles(Simple *s, const IrStmt *st) {
  const IrRoles *from = &st->as.roles;
  low_flush(s);
  IrRoleBody *role = ARENA_ARRAY(s->k->arena, IrRoleBody, from->nroles);
  IrStmt *out = low_emit(s, IRK_ROLES);
  out->as.roles = (IrRoles){role, from->nroles};
  bool can = may_set_registers(s, from);
  for (int i = 0; i < from->nroles; i++) {
    role[i] = from->role[i];
    role[i].registers = 0;
    role[i].body = (IrBlock){0};
    lower_role(s, &from->role[i], &role[i], 1 + i, can);
  }
  low_barrier(s);
}
