/* compile_sched.c: statements of the scheduled level to bytecode.
 *
 * In: ROLES, channels and their operations, waits, barriers; and for every statement that touches
 * tiles a BC_TOUCH before it, which checks that no product in flight owns them and that a channel's
 * tile is in the agent's hands. So the operations themselves know nothing of schedules, and the
 * other levels pay nothing for them. Tests: tests/unit/check_scheduled.c.
 */
#include "compile.h"
#include "sched.h"

/* Whether a tile belongs to a channel, and how many instances it has. */
bool eval_sched_channel_tile(const IrKernel *k, const IrBuffer *b, int *stages) {
  *stages = 1;
  for (size_t i = 0; i < k->channels.n; i++)
    for (int t = 0; t < k->channels.v[i]->ntiles; t++)
      if (k->channels.v[i]->tile[t] == b) {
        *stages = k->channels.v[i]->stages;
        return true;
      }
  return false;
}

/* ---------------------------------------------------------------- what statements touch */

typedef struct TouchScan {
  Compiler *c;
  SchedTouch *touch;
} TouchScan;

/* One entry a tile. */
static void add_use(TouchScan *x, const IrBuffer *b, unsigned how, bool chain) {
  SchedTouch *t = x->touch;
  if (!b || (b->space != IRS_SHARED && b->space != IRS_FRAGMENT))
    return;
  for (size_t i = 0; i < t->n; i++)
    if (t->v[i].buf == b->id && t->v[i].chain == chain) {
      t->v[i].how |= how;
      return;
    }
  SchedUse use = {b->id, how, chain};
  VEC_PUSH(x->c->arena, t, use);
}

/* For ir_visit. */
static void visit_buffer(IrBuffer **b, unsigned how, void *ctx) {
  add_use(ctx, *b, how, false);
}

/* Also for ir_walk: nested statements are looked at too. */
static bool visit_stmt(IrStmt *s, void *ctx) {
  IrVisitor v = {.buffer = visit_buffer, .ctx = ctx};
  ir_visit(s, &v);
  return true;
}

/* The accumulator of an asynchronous product is the only tile that products in flight share. */
static void scan_dot(TouchScan *x, const IrDot *d) {
  add_use(x, d->a.buf, IR_READS, false);
  add_use(x, d->b.buf, IR_READS, false);
  add_use(x, d->c.buf, IR_WRITES, d->async);
}

/* A MAP is checked once, for all that its body names. */
void eval_compile_touch(Compiler *c, IrStmt *s) {
  bool holds = s->kind == IRK_LOAD || s->kind == IRK_STORE || s->kind == IRK_ATOMIC ||
               s->kind == IRK_REPORT || (s->kind >= IRK_ALLOC && s->kind <= IRK_DOT) ||
               s->kind == IRK_RELAYOUT;
  if (c->k->level != IR_SCHEDULED || c->map || !holds)
    return;
  SchedTouch *t = ARENA_NEW(c->arena, SchedTouch);
  TouchScan x = {c, t};
  if (s->kind == IRK_DOT)
    scan_dot(&x, &s->as.dot);
  else
    visit_stmt(s, &x);
  if (s->kind == IRK_MAP)
    ir_walk(&s->as.map.body, visit_stmt, &x);
  if (t->n)
    eval_emit(c, (EvalInsn){.code = BC_TOUCH, .as.data = t});
}

/* ---------------------------------------------------------------- roles */

/* The bodies stand behind the join, each with an end of its own; every role runs on its own agent,
 * with a copy of the registers as they are here. */
void eval_compile_fork(Compiler *c, IrStmt *s) {
  const IrRoles *r = &s->as.roles;
  if (c->k->cooperative) {
    eval_unsupported(c, "roles in a cooperative kernel");
    return;
  }
  SchedFork *f = ARENA_NEW(c->arena, SchedFork);
  f->roles = r;
  f->entry = ARENA_ARRAY(c->arena, int32_t, r->nroles + 1);
  if (c->p->agents < r->nroles + 1)
    c->p->agents = r->nroles + 1;
  size_t fork = eval_emit(c, (EvalInsn){.code = BC_FORK, .as.data = f});
  eval_emit(c, (EvalInsn){.code = BC_JOIN});
  size_t end = eval_emit(c, (EvalInsn){.code = BC_JUMP});
  for (int i = 0; i < r->nroles; i++) {
    f->entry[i] = (int32_t)(c->code->n - fork);
    eval_compile_block(c, &r->role[i].body);
    eval_emit(c, (EvalInsn){.code = BC_END});
  }
  eval_patch(c, end);
}

/* ---------------------------------------------------------------- barriers */

/* Which one, and for AWAIT which phase of it. */
static void emit_barrier(Compiler *c, EvalCode code, const IrAccess *at, IrExpr *parity) {
  SchedBarrier *x = ARENA_NEW(c->arena, SchedBarrier);
  x->buf = at->buf;
  for (int i = 0; i < at->buf->rank; i++)
    x->index[i] = eval_value_int(c, at->index[i]);
  if (parity)
    x->parity = eval_value_int(c, parity);
  eval_emit(c, (EvalInsn){.code = (uint16_t)code, .as.data = x});
}

/* After the copy whose end it tells: here a copy has ended when the next instruction runs. */
void eval_compile_signal(Compiler *c, const IrAccess *at) {
  emit_barrier(c, BC_ARRIVE, at, NULL);
}

/* Whether agents of a tile-level kernel may wait for one another. */
bool eval_sched_needed(IrStmt *s, void *ctx) {
  *(bool *)ctx |= s->kind == IRK_ROLES || s->kind == IRK_ARRIVE || s->kind == IRK_AWAIT;
  return true;
}

/* ---------------------------------------------------------------- the others */

/* One instruction a statement. */
static EvalCode code_of(IrKind kind) {
  switch (kind) {
  case IRK_CHANNEL:
    return BC_CHANNEL;
  case IRK_ACQUIRE:
    return BC_ACQUIRE;
  case IRK_COMMIT:
    return BC_COMMIT;
  case IRK_WAIT:
    return BC_WAIT;
  case IRK_RELEASE:
    return BC_RELEASE;
  case IRK_DOT_WAIT:
    return BC_DOT_WAIT;
  default:
    return BC_SYNC;
  }
}

/* A tile's name means one instance: that of one ring. */
static void check_channel(Compiler *c, const IrChannel *ch) {
  for (size_t i = 0; i < c->k->channels.n; i++) {
    const IrChannel *other = c->k->channels.v[i];
    for (int t = 0; t < other->ntiles && other != ch; t++)
      for (int u = 0; u < ch->ntiles; u++)
        if (ch->tile[u] == other->tile[t])
          eval_unsupported(c, "a tile of two channels");
  }
}

/* STORE_WAIT orders what the evaluator does in order anyway. False: not of this level. */
bool eval_compile_scheduled(Compiler *c, IrStmt *s) {
  EvalInsn in = {.code = (uint16_t)code_of(s->kind)};
  switch (s->kind) {
  case IRK_STORE_WAIT:
    return true;
  case IRK_ARRIVE:
    emit_barrier(c, BC_ARRIVE, &s->as.barrier.at, NULL);
    return true;
  case IRK_AWAIT:
    emit_barrier(c, BC_AWAIT, &s->as.barrier.at, s->as.barrier.parity);
    return true;
  case IRK_CHANNEL:
    check_channel(c, s->as.channel);
    in.as.data = s->as.channel;
    break;
  case IRK_ACQUIRE:
  case IRK_COMMIT:
  case IRK_WAIT:
  case IRK_RELEASE:
    in.as.data = &s->as.channel_op;
    break;
  case IRK_DOT_WAIT:
    in.as.imm = s->as.wait;
    break;
  case IRK_SYNC:
    in.as.data = &s->as.sync;
    break;
  default:
    return false;
  }
  eval_emit(c, in);
  return true;
}

/* Counts are evaluated once, the indices anew for each tile. */
SchedTiles *eval_compile_tiles(Compiler *c, const IrTileLoop *l) {
  SchedTiles *t = ARENA_NEW(c->arena, SchedTiles);
  t->naxes = l->naxes;
  t->group = l->group;
  t->turning = l->turning;
  t->tile = eval_reg_new(c, false, 8, false);
  eval_reg_hold(c, t->tile);
  for (int i = 0; i < l->naxes; i++) {
    t->count[i] = eval_value_int(c, l->count[i]);
    t->type[i] = l->index[i] ? l->index[i]->type : DT_I64;
    t->index[i] = eval_reg_new(c, false, 8, false);
    eval_reg_hold(c, t->index[i]);
  }
  return t;
}
