/* simple_reduce.c: reductions and scans.
 *
 * In: REDUCE, SCAN. Out: one thread for each line along the axis, elements in ascending order from
 * the identity, as the evaluator folds them; thread 0 for a whole tile. Always holds: argmax and
 * argmin take the first NaN, else the lowest index. Tests: tests/unit/check_lower.c.
 */
#include "simple.h"

/* ---------------------------------------------------------------- reductions */

/* These keep an index beside the best value. */
static bool is_arg(OpCode op) {
  return op == OP_ARGMAX || op == OP_ARGMIN;
}

/* acc (op) x in the reduction's type. */
IrExpr *low_combine(Simple *s, OpCode op, IrExpr *acc, IrExpr *x) {
  IrKernel *k = s->k;
  x = ir_cast(k, x, acc->type);
  switch (op) {
  case OP_SUM:
    return low_add(s, acc, x);
  case OP_PROD:
    return low_mul(s, acc, x);
  case OP_RMAX:
    return ir_op2(k, OP_MAX2, acc, x);
  case OP_RMIN:
    return ir_op2(k, OP_MIN2, acc, x);
  case OP_ABSMAX:
    return ir_op2(k, OP_MAX2, acc, dtype_is_unsigned(x->type) ? x : ir_op1(k, OP_ABS, x));
  case OP_ANY:
    return ir_op2(k, OP_OR, acc, x);
  default:
    return ir_op2(k, OP_AND, acc, x);
  }
}

/* Whether x comes before best: the first NaN, else strictly better. */
IrExpr *low_better(Simple *s, OpCode op, IrExpr *x, IrExpr *best) {
  IrKernel *k = s->k;
  IrExpr *yes = ir_op2(k, op == OP_ARGMAX ? OP_GT : OP_LT, x, best);
  if (!dtype_is_float(x->type))
    return yes;
  IrExpr *nan =
      ir_op2(k, OP_AND, ir_op1(k, OP_ISNAN, x), ir_op1(k, OP_NOT, ir_op1(k, OP_ISNAN, best)));
  return ir_op2(k, OP_OR, nan, yes);
}

/* Elements of a line or of a whole tile, by their number. */
typedef struct Line {
  const IrRegion *src;
  int axis;             /* -1: all of it, row-major */
  Shape shape;          /* of the source */
  IrExpr *const *index; /* of the other axes, the result's order */
} Line;

/* Elements that one fold goes over. */
static int64_t line_count(const Line *l) {
  return l->axis < 0 ? low_count_of(&l->shape) : l->shape.extent[l->axis];
}

/* The r-th element of the line. */
static IrVar *load_line(Simple *s, const Line *l, IrExpr *r) {
  IrExpr *index[IR_MAX_RANK];
  if (l->axis < 0)
    low_split(s, r, &l->shape, index);
  for (int d = 0, j = 0; l->axis >= 0 && d < l->shape.rank; d++)
    index[d] = d == l->axis ? r : l->index[j++];
  return low_load_region(s, "x", l->src, index);
}

/* From the identity upwards: the evaluator's order, and so its bits. */
static IrExpr *fold_line(Simple *s, OpCode op, const Line *l) {
  IrBlock *before;
  IrExpr *start = ir_const(s->k, op_identity(op, l->src->buf->dtype));
  IrVar *acc = low_emit_var(s, op_info(op)->name, start);
  IrExpr *r = low_open_serial(s, "r", 0, line_count(l), &before);
  IrExpr *x = ir_ref(s->k, load_line(s, l, r));
  low_emit_set(s, acc, low_combine(s, op, ir_ref(s->k, acc), x));
  low_enter(s, before);
  return ir_ref(s->k, acc);
}

/* No elements have no best one: a fault, as at tile level. */
static IrExpr *arg_line(Simple *s, OpCode op, const Line *l) {
  IrBlock *before, *then;
  if (line_count(l) == 0) {
    const char *text = arena_printf(s->arena, "%s of no elements has no answer", op_info(op)->name);
    low_emit_fault(s, ir_bool(s->k, true), (IrSite){E0457, text}, low_i64(s, 0), low_i64(s, 0));
    return low_i32(s, 0);
  }
  IrVar *best = low_emit_var(s, "best", ir_ref(s->k, load_line(s, l, low_i64(s, 0))));
  IrVar *at = low_emit_var(s, "at", low_i32(s, 0));
  IrExpr *r = low_open_serial(s, "r", 1, line_count(l), &before);
  IrExpr *x = ir_ref(s->k, load_line(s, l, r));
  then = low_enter(s, &low_emit_if(s, low_better(s, op, x, ir_ref(s->k, best)))->as.if_.then);
  low_emit_set(s, best, x);
  low_emit_set(s, at, ir_cast(s->k, r, DT_I32));
  low_enter(s, then);
  low_enter(s, before);
  return ir_ref(s->k, at);
}

/* The two families share how lines are walked. */
static IrExpr *reduce_line(Simple *s, OpCode op, const Line *l) {
  return is_arg(op) ? arg_line(s, op, l) : fold_line(s, op, l);
}

/* The result has the axis dropped, or kept with one element. */
static IrExpr *produce_reduce(Simple *s, const void *op, IrExpr *const *index) {
  const IrReduce *r = op;
  IrExpr *others[IR_MAX_RANK];
  int rank = ir_region_rank(&r->src), drank = ir_region_rank(&r->dst);
  for (int d = 0, j = 0; d < drank; d++)
    if (drank != rank || d != r->axis)
      others[j++] = index[d];
  Line l = {&r->src, r->axis, low_shape_of(s, &r->src, NULL), others};
  return reduce_line(s, r->op, &l);
}

/* Row-major, by the one thread that runs it. */
IrExpr *low_reduce_scalar(Simple *s, void *ctx) {
  const IrReduce *r = ctx;
  Line l = {&r->src, -1, low_shape_of(s, &r->src, NULL), NULL};
  return reduce_line(s, r->op, &l);
}

/* One thread an element of the result. */
void low_reduce(Simple *s, IrReduce *r) {
  Write w = {&r->dst, low_shape_of(s, &r->dst, NULL), produce_reduce, r, r->dst.buf == r->src.buf};
  low_write_elements(s, &w);
}

/* ---------------------------------------------------------------- scans */

/* One line: each element once, in the scan's direction; to the destination or to this thread's
 * hold. */
static void scan_line(Simple *s, const IrScan *c, const Line *l, IrBuffer *hold, IrExpr *place) {
  IrKernel *k = s->k;
  IrBlock *before;
  int64_t n = line_count(l);
  IrVar *acc = low_emit_var(s, "run", ir_const(k, op_identity(c->op, c->src.buf->dtype)));
  IrExpr *r = low_open_serial(s, "r", 0, n, &before), *index[IR_MAX_RANK], *at[IR_MAX_RANK];
  IrExpr *i = c->reverse ? ir_op2(k, OP_SUB, low_i64(s, n - 1), r) : r;
  IrExpr *x = ir_ref(k, load_line(s, l, i)), *run = ir_ref(k, acc);
  IrVar *out = c->exclusive ? low_emit_let(s, "out", run) : NULL;
  low_emit_set(s, acc, low_combine(s, c->op, run, x));
  IrExpr *value = out ? ir_ref(k, out) : run;
  for (int d = 0, j = 0; d < l->shape.rank; d++)
    index[d] = d == c->axis ? i : l->index[j++];
  low_region_index(s, &c->dst, index, at);
  IrExpr *slot = hold ? low_add(s, low_mul(s, place, low_i64(s, n)), i) : NULL;
  low_emit_store(s, hold ? low_access_at(s, hold, &slot) : low_access_at(s, c->dst.buf, at), value);
  low_enter(s, before);
}

/* What the line computed goes where its source was. */
static void unhold_line(Simple *s, const IrScan *c, const Line *l, IrBuffer *hold, IrExpr *place) {
  IrBlock *before;
  IrExpr *index[IR_MAX_RANK], *at[IR_MAX_RANK];
  IrExpr *r = low_open_serial(s, "r", 0, line_count(l), &before);
  IrExpr *slot = low_add(s, low_mul(s, place, low_i64(s, line_count(l))), r);
  for (int d = 0, j = 0; d < l->shape.rank; d++)
    index[d] = d == c->axis ? r : l->index[j++];
  low_region_index(s, &c->dst, index, at);
  low_emit_store(s, low_access_at(s, c->dst.buf, at),
                 ir_ref(s->k, low_emit_load(s, "held", low_access_at(s, hold, &slot))));
  low_enter(s, before);
}

/* One thread a line; the second time round it empties what the first held. */
static void scan_loop(Simple *s, const IrScan *c, IrBuffer *hold, bool compute) {
  IrExpr *index[IR_MAX_RANK];
  Line l = {&c->src, c->axis, low_shape_of(s, &c->src, NULL), index};
  Shape others = {0};
  for (int d = 0; d < l.shape.rank; d++)
    if (d != c->axis)
      others.extent[others.rank++] = l.shape.extent[d];
  IrBlock *before;
  IrExpr *e = low_open_elements(s, low_count_of(&others), &before);
  low_split(s, e, &others, index);
  IrExpr *place = ir_cast(s->k, low_quotient(s, e, s->threads), DT_I64);
  if (compute)
    scan_line(s, c, &l, hold, place);
  else
    unhold_line(s, c, &l, hold, place);
  low_enter(s, before);
}

/* In place needs holding: a line's neighbours may still be read by other threads. */
void low_scan(Simple *s, const IrScan *c) {
  Shape x = low_shape_of(s, &c->src, NULL);
  int64_t n = low_count_of(&x), threads = s->threads;
  if (n == 0)
    return;
  if (c->dst.buf != c->src.buf) {
    scan_loop(s, c, NULL, true);
    return;
  }
  int64_t lines = n / x.extent[c->axis], turns = (lines + threads - 1) / threads;
  IrBuffer *hold = low_hold(s, c->dst.buf->dtype, turns * x.extent[c->axis]);
  scan_loop(s, c, hold, true);
  low_between_phases(s, c->dst.buf);
  scan_loop(s, c, hold, false);
}
