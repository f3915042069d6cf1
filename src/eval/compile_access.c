/* compile_access.c: loads, stores, atomics and reports to bytecode.
 *
 * In: statements that touch single elements. Out: instructions with an EvalAccess. Inside a MAP a
 * coordinate is taken apart into a uniform base and a multiple of each index where it can be, so
 * that a strip's elements lie at fixed strides and are checked at its corners.
 * Three things are found out about a store besides its place: whether every element of its tile is
 * written by the MAP it stands in (then the tile is marked once, not strip by strip), whether its
 * value varies, and whether its element does. A load whose tile nobody writes in the MAP may read
 * in place.
 * Tests: tests/unit/check_eval.c, tests/unit/check_eval_tiles.c.
 */
#include "compile.h"

/* ---------------------------------------------------------------- affine coordinates */

typedef struct Affine {
  IrExpr *base;    /* NULL: 0 */
  IrExpr *coef[4]; /* NULL: 0 */
} Affine;

/* NULL stands for 0, so that absent terms cost nothing. */
static IrExpr *add(Compiler *c, OpCode op, IrExpr *a, IrExpr *b) {
  if (!b)
    return a;
  if (!a)
    return op == OP_ADD ? b : ir_op1(c->k, OP_NEG, b);
  return ir_op2(c->k, op, a, b);
}

static bool take_apart(Compiler *c, IrExpr *e, Affine *out, int depth);

/* An index of the MAP, or a `let` of its body seen through. */
static bool take_variable(Compiler *c, IrExpr *e, Affine *out, int depth) {
  const VarValue *v = eval_var_value(c, e->as.var);
  if (v->axis >= 0) {
    out->coef[v->axis] = ir_int(c->k, 1);
    return true;
  }
  return v->def && take_apart(c, v->def, out, depth + 1);
}

/* Only i64: wrapping arithmetic then gives the same sum however it is grouped. Depth is limited
 * because a chain of lets may double at each step. */
static bool take_apart(Compiler *c, IrExpr *e, Affine *out, int depth) {
  Affine a = {0}, b = {0};
  *out = a;
  if (depth > 64 || e->type != DT_I64)
    return false;
  if (!eval_value_varies(c, e)) {
    out->base = e;
    return true;
  }
  switch (e->op) {
  case OP_VAR:
    return take_variable(c, e, out, depth);
  case OP_ADD:
  case OP_SUB:
    if (!take_apart(c, e->arg[0], &a, depth + 1) || !take_apart(c, e->arg[1], &b, depth + 1))
      return false;
    out->base = add(c, e->op, a.base, b.base);
    for (int i = 0; i < 4; i++)
      out->coef[i] = add(c, e->op, a.coef[i], b.coef[i]);
    return true;
  case OP_MUL: {
    int varying = eval_value_varies(c, e->arg[0]) ? 0 : 1;
    IrExpr *factor = e->arg[1 - varying];
    if (eval_value_varies(c, factor) || !take_apart(c, e->arg[varying], &a, depth + 1))
      return false;
    out->base = a.base ? ir_op2(c->k, OP_MUL, a.base, factor) : NULL;
    for (int i = 0; i < 4; i++)
      out->coef[i] = a.coef[i] ? ir_op2(c->k, OP_MUL, a.coef[i], factor) : NULL;
    return true;
  }
  default:
    return false;
  }
}

/* A coordinate as the sum of a uniform base and multiples of the MAP's indices. Where it cannot be
 * taken apart its lanes are computed. */
static void compile_affine(Compiler *c, IrExpr *e, EvalAffine *out) {
  Affine a = {0};
  *out = (EvalAffine){.base = {NO_REG, 0}};
  e = ir_cast(c->k, e, DT_I64);
  if (!eval_value_varies(c, e)) {
    out->base = eval_value_int(c, e);
    return;
  }
  if (c->map && take_apart(c, e, &a, 0)) {
    if (a.base)
      out->base = eval_value_int(c, a.base);
    for (int i = 0; i < 4; i++)
      if (a.coef[i])
        out->coef[i] = eval_value_int(c, a.coef[i]);
    return;
  }
  out->lanes = eval_value_lanes(c, e);
}

int eval_index_axis(Compiler *c, IrExpr *e) {
  Affine a = {0};
  int64_t n;
  int axis = -1;
  if (!take_apart(c, e, &a, 0) || (a.base && eval_value_level(c, a.base) == LEVEL_BODY))
    return -1;
  for (int i = 0; i < 4; i++) {
    if (!a.coef[i] || (ir_is_const(a.coef[i], &n) && n == 0))
      continue;
    if (axis >= 0 || !ir_is_const(a.coef[i], &n))
      return -1;
    axis = i;
  }
  return axis;
}

/* Both sides of the comparison brought to one: the difference is compared with 0. */
static EvalDecide *decide_leaf(Compiler *c, IrExpr *e, const Affine *a) {
  EvalDecide *d = ARENA_NEW(c->arena, EvalDecide);
  d->op = e->op;
  if (a->base)
    d->diff.base = eval_value_int(c, a->base);
  for (int i = 0; i < 4; i++)
    if (a->coef[i])
      d->diff.coef[i] = eval_value_int(c, a->coef[i]);
  return d;
}

/* Near the ends of i64 the corners do not decide (map.c looks for overflow). */
static EvalDecide *decide_compare(Compiler *c, IrExpr *e) {
  Affine a = {0}, b = {0};
  if (e->arg[0]->type != DT_I64 || !take_apart(c, e->arg[0], &a, 0) ||
      !take_apart(c, e->arg[1], &b, 0))
    return NULL;
  a.base = add(c, OP_SUB, a.base, b.base);
  for (int i = 0; i < 4; i++)
    a.coef[i] = add(c, OP_SUB, a.coef[i], b.coef[i]);
  return decide_leaf(c, e, &a);
}

/* `if n < N` around an access holds for all but the last strips: the corners tell. */
EvalDecide *eval_compile_decide(Compiler *c, IrExpr *e) {
  if (!c->map)
    return NULL;
  if (!eval_value_varies(c, e)) {
    EvalDecide *d = ARENA_NEW(c->arena, EvalDecide);
    d->op = OP_VAR;
    d->reg = eval_value_one(c, e);
    return d;
  }
  switch (e->op) {
  case OP_EQ:
  case OP_NE:
  case OP_LT:
  case OP_LE:
  case OP_GT:
  case OP_GE:
    return decide_compare(c, e);
  case OP_AND:
  case OP_OR:
  case OP_NOT: {
    EvalDecide *x = eval_compile_decide(c, e->arg[0]);
    EvalDecide *y = x && e->op != OP_NOT ? eval_compile_decide(c, e->arg[1]) : x;
    if (!x || !y)
      return NULL;
    EvalDecide *d = ARENA_NEW(c->arena, EvalDecide);
    *d = (EvalDecide){.op = e->op, .arg = {x, y}};
    return d;
  }
  default:
    return NULL;
  }
}

/* ---------------------------------------------------------------- accesses */

/* `vector` where the element differs between lanes. */
static EvalAccess *access_of(Compiler *c, const IrAccess *at) {
  EvalAccess *x = ARENA_NEW(c->arena, EvalAccess);
  x->buf = at->buf->id;
  x->rank = at->buf->rank;
  x->check = at->check;
  x->type = at->buf->dtype;
  for (int i = 0; i < x->rank; i++) {
    compile_affine(c, at->index[i], &x->index[i]);
    x->vector = x->vector || eval_value_varies(c, at->index[i]);
  }
  return x;
}

/* Such buffers live in the agent's frame, not in memory that others see. */
static bool is_array(const IrBuffer *b) {
  return b->space == IRS_LOCAL || b->space == IRS_REG;
}

/* Numbered on first mention; ALLOC and every access mean the same one. */
int eval_compile_array(Compiler *c, const IrBuffer *b) {
  EvalProgram *p = c->p;
  for (int i = 0; i < p->narrays; i++)
    if (p->array[i].buf == b)
      return i;
  size_t n = (size_t)p->narrays;
  p->array = arena_grow(c->arena, p->array, n * sizeof *p->array, (n + 1) * sizeof *p->array);
  EvalArrayInfo *a = &p->array[n];
  *a = (EvalArrayInfo){.buf = b, .count = 1};
  for (int i = 0; i < b->rank; i++) {
    int64_t extent = 0;
    ir_is_const(b->extent[i], &extent);
    a->count *= extent;
  }
  return p->narrays++;
}

/* The linear element of an array: rank 1 mostly; others row-major. */
static EvalArrayAccess *array_access(Compiler *c, const IrAccess *at) {
  EvalArrayAccess *x = ARENA_NEW(c->arena, EvalArrayAccess);
  x->array = (uint32_t)eval_compile_array(c, at->buf);
  x->rank = at->buf->rank;
  for (int i = 0; i < x->rank; i++) {
    ir_is_const(at->buf->extent[i], &x->extent[i]);
    IrExpr *e = ir_cast(c->k, at->index[i], DT_I64);
    if (eval_value_varies(c, e)) {
      x->vector = true;
      x->index[i] = (EvalAffine){.lanes = eval_value_lanes(c, e)};
    } else {
      x->index[i] = (EvalAffine){.base = eval_value_int(c, e)};
    }
  }
  return x;
}

/* Whether the block loads from the buffer, or stores to it; atomics do both. */
static bool touches(IrBlock *b, IrKind how, const IrBuffer *buf) {
  for (size_t i = 0; i < b->n; i++) {
    const IrStmt *s = b->v[i];
    if (s->kind == how && s->as.access.at.buf == buf)
      return true;
    if (s->kind == IRK_ATOMIC && s->as.atomic.at.buf == buf)
      return true;
    for (int n = 0; ir_nested(b->v[i], n); n++)
      if (touches(ir_nested(b->v[i], n), how, buf))
        return true;
  }
  return false;
}

/* Another block may write a global tensor; what is inside this one's tiles stays put. */
static bool stays(const Compiler *c, const IrBuffer *b) {
  if (!c->map || (b->space == IRS_GLOBAL && b->role != IRR_IN))
    return false;
  return !touches((IrBlock *)&c->map->as.map.body, IRK_STORE, b);
}

/* A fault's place is the element's text, not the whole statement. */
static void emit_access(Compiler *c, const IrAccess *at, EvalInsn in) {
  Span span = c->span;
  if (at->span.file)
    c->span = at->span;
  eval_emit(c, in);
  c->span = span;
}

/* The variable's register lasts as long as the block that the load stands in. */
void eval_compile_load(Compiler *c, IrStmt *s) {
  IrVar *v = s->as.access.var;
  const IrAccess *at = &s->as.access.at;
  size_t size = dtype_compute_size(at->buf->dtype);
  EvalInsn in = {.code = BC_LOAD, .type = (uint8_t)at->buf->dtype, .mask = c->mask};
  bool lanes;
  if (is_array(at->buf)) {
    lanes = true;
    in.code = BC_ARRAY_LOAD;
    in.as.data = array_access(c, at);
  } else {
    EvalAccess *x = access_of(c, at);
    lanes = x->vector || (c->thread && v->uniform == IR_LANE_VARYING);
    x->lanes = lanes;
    x->waits = c->waiting;
    in.as.data = x;
    eval_compile_race_use(c, x, at, false, false);
  }
  uint32_t depth = c->depth;
  c->depth = c->block_depth;
  bool in_place = lanes && in.code == BC_LOAD && stays(c, at->buf);
  if (in_place)
    ((EvalAccess *)in.as.data)->in_place = true;
  in.dst = eval_reg_new(c, lanes, size, in_place);
  if (!in_place) /* a register that may point elsewhere serves nothing else */
    eval_reg_hold(c, in.dst);
  emit_access(c, &s->as.access.at, in);
  if (is_array(at->buf) && c->thread && v->uniform != IR_LANE_VARYING) {
    Reg all = in.dst;
    lanes = false;
    in.dst = eval_reg_new(c, false, size, false);
    eval_reg_hold(c, in.dst);
    eval_emit(c,
              (EvalInsn){
                  .code = BC_FIRST, .dst = in.dst, .src = {all}, .type = in.type, .mask = c->mask});
  }
  c->depth = depth;
  eval_var_bind(c, v, in.dst, lanes);
}

/* ---------------------------------------------------------------- whole tiles written by a MAP */

/* Each index of the MAP once, over the whole extent; run at every point; not read by the body. */
static bool covers(Compiler *c, const IrStmt *s) {
  const IrBuffer *b = s->as.access.at.buf;
  const IrMap *m = &c->map->as.map;
  if (!c->map || b->space == IRS_GLOBAL || c->mask != NO_REG || b->rank != m->naxes)
    return false;
  if (c->exit->kind != EXIT_MAP || c->exit->nexts.n || c->uniform_ifs)
    return false;
  unsigned seen = 0;
  for (int i = 0; i < b->rank; i++) {
    const IrExpr *e = s->as.access.at.index[i];
    int64_t tile, points;
    if (e->op != OP_VAR || eval_var_value(c, e->as.var)->axis < 0)
      return false;
    int axis = eval_var_value(c, e->as.var)->axis;
    if (!ir_is_const(b->extent[i], &tile) || !ir_is_const(m->extent[axis], &points) ||
        tile != points)
      return false;
    seen |= 1u << axis;
  }
  if (seen != (1u << m->naxes) - 1)
    return false;
  return !m->parallel || !touches((IrBlock *)&m->body, IRK_LOAD, b);
}

/* False once the list is full: then the store marks by itself. */
static bool note_covered(Compiler *c, uint32_t buf) {
  EvalMapCode *m = c->map_code;
  for (int i = 0; i < m->ncovers; i++)
    if (m->covers[i] == buf)
      return true;
  if (m->ncovers == (int)(sizeof m->covers / sizeof m->covers[0]))
    return false;
  m->covers[m->ncovers++] = buf;
  return true;
}

/* A value that varies is computed before the coordinates are placed, because its register may be
 * the only thing still alive of its operands. */
void eval_compile_store(Compiler *c, IrStmt *s) {
  const IrAccess *at = &s->as.access.at;
  IrExpr *e = s->as.access.value;
  EvalInsn in = {.code = BC_STORE, .type = (uint8_t)at->buf->dtype, .mask = c->mask};
  if (is_array(at->buf)) {
    EvalArrayAccess *x = array_access(c, at);
    x->value = eval_value_lanes(c, e);
    in.code = BC_ARRAY_STORE;
    in.as.data = x;
    emit_access(c, at, in);
    eval_value_done(c, e);
    return;
  }
  bool varies = eval_value_varies(c, e);
  EvalAccess *x;
  Reg value = NO_REG;
  if (varies) /* before the coordinates: they are shared with other accesses, it is not */
    value = eval_value_lanes(c, e);
  x = access_of(c, at);
  x->lanes = varies || x->vector;
  if (x->lanes && !varies)
    value = eval_value_lanes(c, e);
  x->value = x->lanes ? value : eval_value_one(c, e);
  x->marks = !(c->map && covers(c, s) && note_covered(c, x->buf));
  in.as.data = x;
  eval_compile_race_use(c, x, at, true, false);
  emit_access(c, at, in);
  if (x->lanes)
    eval_value_done(c, e);
}

/* ---------------------------------------------------------------- atomics */

/* The pure operation whose strip makes the new value; none for exchange, cas and inc. */
static OpCode combining(OpCode op) {
  switch (op) {
  case OP_ATOMIC_ADD:
    return OP_ADD;
  case OP_ATOMIC_MAX:
    return OP_MAX2;
  case OP_ATOMIC_MIN:
    return OP_MIN2;
  case OP_ATOMIC_AND:
    return OP_AND;
  case OP_ATOMIC_OR:
    return OP_OR;
  case OP_ATOMIC_XOR:
    return OP_XOR;
  default:
    return OP_NONE;
  }
}

/* All three instruction sets, since the launch chooses. */
void eval_compile_combine(Compiler *c, OpCode op, DType t, OpStrip out[3]) {
  OpCode step = combining(op);
  if (step == OP_NONE)
    return;
  for (int isa = 0; isa < 3; isa++)
    out[isa] = op_strip_on((OpIsa)isa, step, t, t);
  if (!out[0])
    eval_unsupported(c, arena_printf(c->arena, "%s of %s", op_info(op)->name, dtype_name(t)));
}

/* Inside a MAP each iteration acts, even where element and value are the same for all. */
void eval_compile_atomic(Compiler *c, IrStmt *s) {
  IrAtomic *a = &s->as.atomic;
  if (a->region) {
    eval_compile_tile_op(c, s);
    return;
  }
  EvalInsn in = {.code = BC_ATOMIC, .op = a->op, .type = (uint8_t)a->at.buf->dtype};
  in.mask = c->mask;
  bool lanes = eval_in_lanes(c);
  EvalAccess *x = access_of(c, &a->at);
  x->lanes = lanes;
  eval_compile_combine(c, a->op, x->type, x->combine);
  x->value = lanes ? eval_value_lanes(c, a->value) : eval_value_one(c, a->value);
  if (a->expected)
    x->expected = lanes ? eval_value_lanes(c, a->expected) : eval_value_one(c, a->expected);
  if (a->old) {
    uint32_t depth = c->depth;
    c->depth = c->block_depth;
    x->old = eval_reg_new(c, lanes, dtype_compute_size(x->type), false);
    eval_reg_hold(c, x->old);
    c->depth = depth;
  }
  in.as.data = x;
  eval_compile_race_use(c, x, &a->at, true, true);
  emit_access(c, &a->at, in);
  if (lanes)
    eval_value_done(c, a->value);
  if (a->old)
    eval_var_bind(c, a->old, x->old, lanes);
}

/* ---------------------------------------------------------------- report */

/* In a MAP and at thread level each iteration, each thread, speaks for itself. */
void eval_compile_report(Compiler *c, IrStmt *s) {
  IrReport *r = &s->as.report;
  EvalReportCode *x = ARENA_NEW(c->arena, EvalReportCode);
  bool lanes = eval_in_lanes(c);
  x->kind = r->kind;
  x->lanes = lanes;
  if (r->cond)
    x->cond = lanes ? eval_value_lanes(c, r->cond) : eval_value_one(c, r->cond);
  x->nparts = r->nparts;
  x->nblock = r->nblock;
  x->part = ARENA_ARRAY(c->arena, EvalReportPart, r->nparts);
  for (int i = 0; i < r->nparts; i++) {
    EvalReportPart *p = &x->part[i];
    p->text = r->part[i].text;
    if (r->part[i].value) {
      p->type = r->part[i].value->type;
      p->value =
          lanes ? eval_value_lanes(c, r->part[i].value) : eval_value_one(c, r->part[i].value);
    }
    if (r->part[i].region) {
      p->region = ARENA_NEW(c->arena, EvalRegion);
      eval_compile_region(c, r->part[i].region, p->region);
    }
  }
  eval_emit(c, (EvalInsn){.code = BC_REPORT, .mask = c->mask, .as.data = x});
  if (lanes && r->cond)
    eval_value_done(c, r->cond);
  for (int i = 0; lanes && i < r->nparts; i++)
    if (r->part[i].value)
      eval_value_done(c, r->part[i].value);
}
