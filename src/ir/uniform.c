/* uniform.c: over which threads each value is the same.
 *
 * In: a kernel. Out: `uniform` of every variable and expression: the least fixed point, from
 * "the same in the whole block" upwards. Always holds: what is set under divergent control inside
 * its scope varies like that control; a loop that is left under divergent control diverges as a
 * whole; an element of shared memory at a uniform address is uniform (a program without races reads
 * one value there); one of a global tensor only where the kernel does not write it. At tile and
 * scheduled level everything but what a `map` defines is uniform. Tests: tests/unit/check_ir.c.
 */
#include "uniform.h"

typedef struct Uniform {
  IrKernel *k;
  IrUniform *var;      /* inferred, by id */
  IrUniform *buffer;   /* contents of register and local arrays, by id */
  uint32_t *var_depth; /* nesting where it is defined, by id */
  uint32_t *buf_depth;
  VEC(IrUniform) control; /* of each enclosing statement, outermost first */
  VEC(IrStmt *) loops;    /* enclosing FOR and WHILE, and their depth */
  VEC(uint32_t) loop_depth;
  Map *escape;       /* loop to IrUniform: control under which it is left */
  IrUniform returns; /* control under which threads return */
  size_t role_depth; /* nesting of the body of the role in hand; 0 outside of roles */
  bool changed;
  bool report; /* the last round */
  const UniformSeen *seen;
  Arena *arena;
} Uniform;

/* The order of the enumeration is the lattice. */
static IrUniform join(IrUniform a, IrUniform b) {
  return a > b ? a : b;
}

/* Values only rise, so the rounds end. */
static void raise_var(Uniform *u, const IrVar *v, IrUniform to) {
  if (to > u->var[v->id]) {
    u->var[v->id] = to;
    u->changed = true;
  }
}

/* One value for the whole array: its elements are not told apart. */
static void raise_buffer(Uniform *u, const IrBuffer *b, IrUniform to) {
  if (to > u->buffer[b->id]) {
    u->buffer[b->id] = to;
    u->changed = true;
  }
}

/* The control of everything nested deeper than `depth`.
 * The stack of control is as deep as the nesting. */
static IrUniform control_above(const Uniform *u, size_t depth) {
  IrUniform c = IR_BLOCK_UNIFORM;
  for (size_t i = depth; i < u->control.n; i++)
    c = join(c, u->control.v[i]);
  return c;
}

/* A thread that has returned takes no part in what follows. */
static IrUniform control_now(const Uniform *u) {
  return join(u->returns, control_above(u, 0));
}

/* ---------------------------------------------------------------- statements */

/* Of an address: the join over its indices. */
static IrUniform index_uniform(const IrAccess *a) {
  IrUniform c = IR_BLOCK_UNIFORM;
  for (int i = 0; i < a->buf->rank; i++)
    c = join(c, a->index[i]->uniform);
  return c;
}

/* Registers and local arrays remember what was stored; inputs never change.
 * `local` arrays at thread level are each thread's own. */
static IrUniform loaded(const Uniform *u, const IrBuffer *b, IrUniform address) {
  if (b->space == IRS_REG || b->space == IRS_LOCAL)
    return join(u->buffer[b->id], address);
  if (b->space == IRS_GLOBAL && b->role != IRR_IN)
    return IR_LANE_VARYING;
  return address;
}

/* What a register holds varies like the value, its index, and whether it was stored at all. */
static void visit_store(Uniform *u, const IrBuffer *b, IrUniform value) {
  if (b->space == IRS_REG || b->space == IRS_LOCAL)
    raise_buffer(u, b, join(value, control_above(u, u->buf_depth[b->id])));
}

/* What a shuffle or vote leaves: what was the same in the warp stays so.
 * A shuffle by a uniform lane makes a value uniform: that is how programs broadcast. */
static IrUniform shuffled(const IrOp *op) {
  IrUniform value = op->operand[1].expr->uniform;
  if (value <= IR_GROUP_UNIFORM)
    return value;
  if (op->op == OP_VOTE_ANY || op->op == OP_VOTE_ALL)
    return IR_WARP_UNIFORM;
  if (op->op == OP_SHFL_IDX)
    return op->operand[2].expr->uniform <= IR_WARP_UNIFORM ? IR_WARP_UNIFORM : IR_LANE_VARYING;
  return value;
}

/* What an operation writes to registers: loads as their address, all else by lane.
 * Matrix loads and products leave other values in each lane. */
static IrUniform written(const Uniform *u, const IrOp *op) {
  if (op->op == OP_LD_SHARED)
    return op->operand[1].expr->uniform;
  if (op->op == OP_LD_GLOBAL)
    return loaded(u, op->operand[1].buf, op->operand[1].expr->uniform);
  return IR_LANE_VARYING;
}

/* Destinations, and register slices that the operation writes. */
static void visit_op(Uniform *u, const IrOp *op) {
  const char *sig = op_info(op->op)->sig;
  for (int i = 0; i < op->noperands && *sig; i++) {
    const IrOperand *o = &op->operand[i];
    if (o->kind == IRO_VAR)
      raise_var(u, o->var, shuffled(op));
    if (*sig == 'R' || *sig == 'X')
      visit_store(u, o->buf, written(u, op));
    sig += sig[1] == '*' ? 0 : 1;
  }
}

/* Of every variable that the statement defines. */
static void set_depth(IrVar **v, void *ctx) {
  Uniform *u = ctx;
  u->var_depth[(*v)->id] = (uint32_t)u->control.n;
}

/* Where variables and arrays are defined. A SET defines nothing. */
static void note_depth(Uniform *u, IrStmt *s) {
  IrVisitor v = {NULL, set_depth, NULL, u};
  if (s->kind != IRK_SET)
    ir_visit(s, &v);
  if (s->kind == IRK_ALLOC)
    u->buf_depth[s->as.alloc->id] = (uint32_t)u->control.n;
}

/* break, continue, return under control that diverges make their loop diverge.
 * `continue` too: the rest of the iteration runs for some threads only. */
static void visit_jump(Uniform *u, const IrStmt *s) {
  IrUniform all = control_above(u, 0);
  if (s->kind == IRK_RETURN && all > u->returns && u->control.n) {
    u->returns = all;
    u->changed = true;
  }
  if (u->loops.n == 0)
    return;
  IrStmt *loop = u->loops.v[u->loops.n - 1];
  IrUniform c = control_above(u, u->loop_depth.v[u->loop_depth.n - 1]);
  uintptr_t old = (uintptr_t)map_getn(u->escape, &loop, sizeof loop);
  if (c > (IrUniform)old) {
    map_setn(u->escape, &loop, sizeof loop, (void *)(uintptr_t)c);
    u->changed = true;
  }
}

/* Statements without nested blocks.
 * A LET gives what its value is; a SET may happen for some threads only. */
static void visit_simple(Uniform *u, IrStmt *s) {
  switch (s->kind) {
  case IRK_LET:
    raise_var(u, s->as.let.var, s->as.let.value->uniform);
    break;
  case IRK_SET: {
    const IrVar *v = s->as.let.var;
    raise_var(u, v, join(s->as.let.value->uniform, control_above(u, u->var_depth[v->id])));
    break;
  }
  case IRK_LOAD:
    raise_var(u, s->as.access.var, loaded(u, s->as.access.at.buf, index_uniform(&s->as.access.at)));
    break;
  case IRK_STORE:
    visit_store(u, s->as.access.at.buf,
                join(s->as.access.value->uniform, index_uniform(&s->as.access.at)));
    break;
  case IRK_ATOMIC:
    if (s->as.atomic.old)
      raise_var(u, s->as.atomic.old, IR_LANE_VARYING);
    break;
  case IRK_BREAK:
  case IRK_CONTINUE:
  case IRK_RETURN:
    visit_jump(u, s);
    break;
  case IRK_OP:
    visit_op(u, &s->as.op);
    break;
  default:
    break;
  }
}

/* ---------------------------------------------------------------- control */

static void visit_block(Uniform *u, IrBlock *b);

/* A role of whole warpgroups keeps each of them together.
 * What is set in a role outside its scope differs between roles. */
static void visit_roles(Uniform *u, IrStmt *s) {
  for (int i = 0; i < s->as.roles.nroles; i++) {
    IrRoleBody *r = &s->as.roles.role[i];
    bool whole = r->first_warp % 4 == 0 && r->warps % 4 == 0;
    VEC_PUSH(u->arena, &u->control, whole ? IR_GROUP_UNIFORM : IR_WARP_UNIFORM);
    u->role_depth = u->control.n;
    visit_block(u, &r->body);
    u->role_depth = 0;
    u->control.n--;
  }
}

/* The control of a statement holds for all of its blocks.
 * A loop's own exits count for its whole body. */
static void visit_nested(Uniform *u, IrStmt *s, IrUniform control) {
  bool loop = s->kind == IRK_FOR || s->kind == IRK_WHILE;
  if (loop) {
    control = join(control, (IrUniform)(uintptr_t)map_getn(u->escape, &s, sizeof s));
    VEC_PUSH(u->arena, &u->loops, s);
    VEC_PUSH(u->arena, &u->loop_depth, (uint32_t)u->control.n);
  }
  VEC_PUSH(u->arena, &u->control, control);
  if (s->kind == IRK_WHILE)
    s->as.while_.control = join(u->returns, control_above(u, u->role_depth));
  IrBlock *inner;
  for (int i = 0; (inner = ir_nested(s, i)); i++)
    visit_block(u, inner);
  u->control.n--;
  u->loops.n -= loop;
  u->loop_depth.n -= loop;
}

/* Definitions first: a loop's index belongs outside the loop's own control. */
static void visit_stmt(Uniform *u, IrStmt *s) {
  note_depth(u, s);
  switch (s->kind) {
  case IRK_FOR: {
    const IrFor *f = &s->as.loop;
    IrUniform index = join(f->lo->uniform, f->step->uniform);
    raise_var(u, f->index, index);
    visit_nested(u, s, join(index, f->hi->uniform));
    break;
  }
  case IRK_WHILE:
    visit_nested(u, s, s->as.while_.cond->uniform);
    break;
  case IRK_IF:
    visit_nested(u, s, s->as.if_.cond->uniform);
    break;
  case IRK_ROLES:
    visit_roles(u, s);
    break;
  case IRK_MAP:
  case IRK_TILE_LOOP:
    visit_nested(u, s, IR_BLOCK_UNIFORM);
    break;
  default:
    visit_simple(u, s);
  }
}

/* In the last round each statement is shown with the control that leads to it. */
static void visit_block(Uniform *u, IrBlock *b) {
  for (size_t i = 0; i < b->n; i++) {
    if (u->report && u->seen && u->seen->stmt)
      u->seen->stmt(b->v[i], control_now(u), u->seen->ctx);
    visit_stmt(u, b->v[i]);
  }
}

/* ---------------------------------------------------------------- the fixed point */

/* What was inferred becomes what variables and expressions say. */
static void apply(Uniform *u) {
  IrKernel *k = u->k;
  for (size_t i = 0; i < k->vars.n; i++) {
    IrVar *v = k->vars.v[i];
    v->uniform = u->var[i];
  }
  for (size_t i = 0; i < k->table->all.n; i++)
    ir_facts(k->table->all.v[i]);
}

/* Indices, and whatever the body defines. */
static void map_defs(IrVar **v, void *ctx) {
  Uniform *u = ctx;
  raise_var(u, *v, IR_LANE_VARYING);
}

/* A map's iterations differ, so everything that they define does. */
static bool in_map(IrStmt *s, void *ctx) {
  IrVisitor v = {NULL, map_defs, NULL, ctx};
  if (s->kind != IRK_SET)
    ir_visit(s, &v);
  return true;
}

/* Maps do not nest. */
static bool find_maps(IrStmt *s, void *ctx) {
  if (s->kind != IRK_MAP)
    return true;
  in_map(s, ctx);
  ir_walk(&s->as.map.body, in_map, ctx);
  return false;
}

/* Rounds until nothing rises, then one more that reports.
 * The lattice has four steps, so each variable rises three times at most. */
static void round_thread(Uniform *u) {
  do {
    u->changed = false;
    visit_block(u, &u->k->body);
    apply(u);
  } while (u->changed);
  u->report = true;
  visit_block(u, &u->k->body);
}

/* Above thread level control is the block's by construction, and one round does. */
const IrUniform *ir_uniform_run(Arena *a, IrKernel *k, const UniformSeen *seen) {
  Uniform u = {.k = k, .arena = a, .seen = seen, .escape = map_new(a)};
  u.var = ARENA_ARRAY(a, IrUniform, k->vars.n);
  u.buffer = ARENA_ARRAY(a, IrUniform, k->buffers.n);
  u.var_depth = ARENA_ARRAY(a, uint32_t, k->vars.n);
  u.buf_depth = ARENA_ARRAY(a, uint32_t, k->buffers.n);
  apply(&u);
  if (k->level == IR_THREAD) {
    round_thread(&u);
  } else {
    ir_walk(&k->body, find_maps, &u);
    apply(&u);
    u.report = true;
    visit_block(&u, &k->body);
  }
  return u.var;
}

void ir_uniform(IrKernel *k) {
  Arena *a = arena_new(arena_guard(k->arena), "uniform");
  ir_uniform_run(a, k, NULL);
  arena_free(a);
}
