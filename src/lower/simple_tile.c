/* simple_tile.c: tile operations as loops of the block's threads.
 *
 * In: COPY, MAP, REDUCE, SCAN, DOT, atomics of regions. Out: loops in which a thread computes whole
 * elements (whole lines for scans), each in the tile level's order. Always holds: where the
 * result's tile is also an operand, elements wait in `local` memory until all threads have read.
 * Tests: tests/unit/check_lower.c.
 */
#include "simple.h"

#include <string.h>

static IrExpr *i32(Simple *s, int64_t n) {
  return ir_int_of(s->k, DT_I32, n);
}
static IrExpr *i64(Simple *s, int64_t n) {
  return ir_int(s->k, n);
}
static IrExpr *add(Simple *s, IrExpr *a, IrExpr *b) {
  return ir_op2(s->k, OP_ADD, a, b);
}
static IrExpr *mul(Simple *s, IrExpr *a, IrExpr *b) {
  return ir_op2(s->k, OP_MUL, a, b);
}

/* The conjunction; NULL is "always". */
static IrExpr *both(Simple *s, IrExpr *a, IrExpr *b) {
  return !a ? b : !b ? a : ir_op2(s->k, OP_AND, a, b);
}

/* ---------------------------------------------------------------- shapes and indices */

typedef struct Shape {
  int rank;
  int64_t extent[IR_MAX_RANK];
} Shape;

static int64_t count_of(const Shape *x) {
  int64_t n = 1;
  for (int i = 0; i < x->rank; i++)
    n *= x->extent[i];
  return n;
}

static bool is_global(Simple *s, const IrRegion *r) {
  return !low_place_of(s, r->buf)->tile;
}

/* Of a region; an open extent comes from the other side. */
static Shape shape_of(Simple *s, const IrRegion *r, const IrRegion *other) {
  Shape x = {.rank = ir_region_rank(r)};
  for (int i = 0; i < x.rank; i++) {
    x.extent[i] = ir_region_extent(r, i);
    if (x.extent[i] == 0 && is_global(s, r) && other)
      x.extent[i] = ir_region_extent(other, i);
  }
  return x;
}

static const char *const index_names[IR_MAX_RANK] = {"i", "j", "k", "l", "i4", "i5", "i6", "i7"};

/* e // n, 0 where its range says so. */
static IrExpr *quotient(Simple *s, IrExpr *e, int64_t n) {
  int64_t lo, hi;
  IrExpr *q = ir_op2(s->k, OP_FLOORDIV, e, ir_int_of(s->k, e->type, n));
  return ir_range(q, &lo, &hi) && lo == hi ? ir_int_of(s->k, e->type, lo) : q;
}

/* Indices, as i64 variables, of the e-th element in row-major order. */
static void split(Simple *s, IrExpr *e, const Shape *x, IrExpr **index) {
  int64_t inner = count_of(x);
  for (int d = 0; d < x->rank; d++) {
    inner /= x->extent[d] ? x->extent[d] : 1;
    IrExpr *at = quotient(s, e, inner ? inner : 1);
    if (d > 0)
      at = ir_op2(s->k, OP_MOD, at, ir_int_of(s->k, e->type, x->extent[d] ? x->extent[d] : 1));
    at = ir_cast(s->k, at, DT_I64);
    bool plain = at->nargs == 0;
    index[d] = plain ? at : ir_ref(s->k, low_emit_let(s, index_names[d], at));
  }
}

/* Opens `for e = t, n, threads` and enters it; the caller enters *before again. */
static IrExpr *open_elements(Simple *s, int64_t n, IrBlock **before) {
  IrStmt *loop;
  IrVar *e = low_emit_for(s, "e", ir_ref(s->k, s->tid), i32(s, n), i32(s, s->k->threads), &loop);
  *before = low_enter(s, &loop->as.loop.body);
  return ir_ref(s->k, e);
}

static IrExpr *open_serial(Simple *s, const char *name, int64_t from, int64_t n, IrBlock **before) {
  IrStmt *loop;
  IrVar *r = low_emit_for(s, name, i64(s, from), i64(s, n), i64(s, 1), &loop);
  *before = low_enter(s, &loop->as.loop.body);
  return ir_ref(s->k, r);
}

/* ---------------------------------------------------------------- regions */

/* The index along each axis of the buffer, of the element with these indices along kept axes. */
static void region_index(Simple *s, const IrRegion *r, IrExpr *const *index, IrExpr **out) {
  int rank = ir_region_rank(r), kept = 0;
  for (int d = 0; d < r->buf->rank && d < IR_MAX_RANK; d++) {
    const IrAxis *x = &r->axis[d];
    out[d] = x->origin;
    if (!x->keep)
      continue;
    int i = kept++;
    if (r->trans && i >= rank - 2)
      i = i == rank - 1 ? rank - 2 : rank - 1;
    out[d] = add(s, x->origin, mul(s, index[i], i64(s, x->step)));
  }
}

static int program_rank(Simple *s, const IrBuffer *b) {
  const Place *p = low_place_of(s, b);
  return p->tile ? p->rank : b->rank;
}

/* Whether 0 <= i < n, NULL where that is certain. */
static IrExpr *within(Simple *s, IrExpr *i, IrExpr *n, bool low) {
  int64_t lo, hi, end, end_hi;
  bool known = ir_range(i, &lo, &hi);
  IrExpr *in = low && !(known && lo >= 0) ? ir_op2(s->k, OP_GE, i, i64(s, 0)) : NULL;
  if (known && ir_range(n, &end, &end_hi) && hi < end)
    return in;
  return both(s, in, ir_op2(s->k, OP_LT, i, n));
}

/* Whether the element lies inside; NULL where it always does. */
static IrExpr *inside(Simple *s, const IrRegion *r, IrExpr *const *at) {
  IrExpr *in = NULL;
  int rank = program_rank(s, r->buf);
  for (int d = 0; d < rank; d++) {
    const IrAxis *x = &r->axis[d];
    if (is_global(s, r) || x->stop)
      in = both(s, in, within(s, at[d], low_extent_of(s, r->buf, d), true));
    if (x->stop)
      in = both(s, in, within(s, at[d], x->stop, false));
  }
  return in;
}

static IrVar *load_region(Simple *s, const char *name, const IrRegion *r, IrExpr *const *index) {
  IrExpr *at[IR_MAX_RANK];
  region_index(s, r, index, at);
  return low_emit_load(s, name, low_access_at(s, r->buf, at));
}

/* Faults where a tile's region, whose origin is known at run time only, leaves the tile; the
 * conjunction of what must hold is added to *ok. */
static void check_region(Simple *s, const IrRegion *r, IrExpr **ok) {
  if (is_global(s, r))
    return;
  int rank = program_rank(s, r->buf);
  for (int d = 0; d < rank; d++) {
    const IrAxis *x = &r->axis[d];
    IrExpr *n = low_extent_of(s, r->buf, d);
    if (x->stop || (x->keep && x->extent == 0))
      continue;
    IrExpr *last = add(s, x->origin, i64(s, (x->extent - 1) * x->step));
    IrExpr *in = both(s, within(s, x->origin, n, true), within(s, last, n, false));
    if (!in)
      continue;
    IrVar *bad = low_emit_let(s, "outside", ir_op1(s->k, OP_NOT, in));
    low_emit_fault(s, ir_ref(s->k, bad),
                   arena_printf(s->arena,
                                "the region of %s begins at {0} on axis %d, whose extent is {1}",
                                r->buf->name, d),
                   x->origin, n);
    *ok = both(s, *ok, ir_op1(s->k, OP_NOT, ir_ref(s->k, bad)));
  }
}

/* ---------------------------------------------------------------- element by element */

/* What computes one element of a result, in the destination's dtype. */
typedef IrExpr *(*Produce)(Simple *s, const void *op, IrExpr *const *index);
typedef struct Write {
  const IrRegion *dst;
  Shape shape;
  Produce produce;
  const void *op;
  bool hold; /* an operand lies in the same tile: nothing is written before everything is read */
} Write;

static IrBuffer *hold_tile(Simple *s, DType t, int64_t n) {
  IrExpr *extent = i64(s, n ? n : 1);
  IrBuffer *b = ir_buffer(s->k, IRS_LOCAL, "hold", t, 1, &extent);
  low_emit(s, IRK_ALLOC)->as.alloc = b;
  return b;
}

/* The element's place in this thread's `hold`. */
static IrAccess hold_at(Simple *s, IrBuffer *hold, IrExpr *e) {
  IrExpr *at = quotient(s, e, s->k->threads);
  return low_access_at(s, hold, &at);
}

static IrBlock *enter_if(Simple *s, IrExpr *cond) {
  return cond ? low_enter(s, &low_emit_if(s, cond)->as.if_.then) : s->out;
}

static void write_loop(Simple *s, const Write *w, IrBuffer *hold, bool compute) {
  IrExpr *index[IR_MAX_RANK], *at[IR_MAX_RANK];
  IrBlock *before;
  IrExpr *e = open_elements(s, count_of(&w->shape), &before);
  split(s, e, &w->shape, index);
  region_index(s, w->dst, index, at);
  enter_if(s, inside(s, w->dst, at));
  IrExpr *value = compute ? w->produce(s, w->op, index)
                          : ir_ref(s->k, low_emit_load(s, "held", hold_at(s, hold, e)));
  if (compute && hold)
    low_emit_store(s, hold_at(s, hold, e), value);
  else
    low_emit_store(s, low_access_at(s, w->dst->buf, at), value);
  low_enter(s, before);
}

/* All have read; from here on the target is written. */
static void between_phases(Simple *s, const IrBuffer *dst) {
  low_barrier(s);
  low_note_buffer(s, dst, IR_WRITES);
  low_fence(s);
}

static void write_elements(Simple *s, const Write *w) {
  int64_t n = count_of(&w->shape), threads = s->k->threads;
  if (n == 0)
    return;
  if (!w->hold) {
    write_loop(s, w, NULL, true);
    return;
  }
  IrBuffer *hold = hold_tile(s, w->dst->buf->dtype, (n + threads - 1) / threads);
  write_loop(s, w, hold, true);
  between_phases(s, w->dst->buf);
  write_loop(s, w, hold, false);
}

/* ---------------------------------------------------------------- copy */

static IrExpr *produce_copy(Simple *s, const void *op, IrExpr *const *index) {
  const IrCopy *c = op;
  IrExpr *at[IR_MAX_RANK];
  region_index(s, &c->src, index, at);
  IrExpr *in = inside(s, &c->src, at);
  DType to = c->dst.buf->dtype;
  if (!in)
    return ir_cast(s->k, ir_ref(s->k, low_emit_load(s, "x", low_access_at(s, c->src.buf, at))), to);
  Scalar zero = {.type = DT_I64};
  DType from = c->src.buf->dtype;
  IrExpr *pad = c->pad ? c->pad : ir_const(s->k, scalar_convert(zero, from));
  IrVar *v = low_emit_var(s, "x", pad);
  IrBlock *before = enter_if(s, in);
  low_emit_set(s, v, ir_ref(s->k, low_emit_load(s, "element", low_access_at(s, c->src.buf, at))));
  low_enter(s, before);
  return ir_cast(s->k, ir_ref(s->k, v), to);
}

static void lower_copy(Simple *s, const IrCopy *c) {
  Write w = {&c->dst, shape_of(s, &c->dst, &c->src), produce_copy, c, c->dst.buf == c->src.buf};
  write_elements(s, &w);
}

/* ---------------------------------------------------------------- products */

static DType product_type(DType t) {
  if (dtype_is_float(t))
    return t == DT_F64 ? DT_F64 : DT_F32;
  return dtype_size(t) == 1 ? DT_I32 : DT_I64;
}

static IrExpr *zero_of(Simple *s, DType t) {
  Scalar zero = {.type = DT_I64};
  return ir_const(s->k, scalar_convert(zero, t));
}

static IrExpr *produce_dot(Simple *s, const void *op, IrExpr *const *index) {
  const IrDot *d = op;
  IrKernel *k = s->k;
  DType t = product_type(d->a.buf->dtype);
  IrExpr *start = zero_of(s, t);
  if (d->accumulate)
    start = ir_cast(k, ir_ref(k, load_region(s, "c", &d->c, index)), t);
  IrVar *acc = low_emit_var(s, "sum", start);
  IrBlock *before;
  IrExpr *r = open_serial(s, "r", 0, ir_region_extent(&d->a, 1), &before);
  IrExpr *ai[] = {index[0], r}, *bi[] = {r, index[1]};
  IrExpr *a = ir_cast(k, ir_ref(k, load_region(s, "a", &d->a, ai)), t);
  IrExpr *b = ir_cast(k, ir_ref(k, load_region(s, "b", &d->b, bi)), t);
  IrExpr *sum = ir_ref(k, acc);
  low_emit_set(s, acc,
               dtype_is_float(t) ? ir_op3(k, OP_FMA, a, b, sum) : add(s, sum, mul(s, a, b)));
  low_enter(s, before);
  return ir_cast(k, sum, d->c.buf->dtype);
}

static void lower_dot(Simple *s, const IrDot *d) {
  bool hold = d->c.buf == d->a.buf || d->c.buf == d->b.buf;
  Write w = {&d->c, shape_of(s, &d->c, NULL), produce_dot, d, hold};
  write_elements(s, &w);
}

/* ---------------------------------------------------------------- reductions */

static bool is_arg(OpCode op) {
  return op == OP_ARGMAX || op == OP_ARGMIN;
}

/* acc (op) x in the reduction's type. */
static IrExpr *combine(Simple *s, OpCode op, IrExpr *acc, IrExpr *x) {
  IrKernel *k = s->k;
  x = ir_cast(k, x, acc->type);
  switch (op) {
  case OP_SUM:
    return add(s, acc, x);
  case OP_PROD:
    return mul(s, acc, x);
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
static IrExpr *better(Simple *s, OpCode op, IrExpr *x, IrExpr *best) {
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

static int64_t line_count(const Line *l) {
  return l->axis < 0 ? count_of(&l->shape) : l->shape.extent[l->axis];
}

static IrVar *load_line(Simple *s, const Line *l, IrExpr *r) {
  IrExpr *index[IR_MAX_RANK];
  if (l->axis < 0)
    split(s, r, &l->shape, index);
  for (int d = 0, j = 0; l->axis >= 0 && d < l->shape.rank; d++)
    index[d] = d == l->axis ? r : l->index[j++];
  return load_region(s, "x", l->src, index);
}

static IrExpr *fold_line(Simple *s, OpCode op, const Line *l) {
  IrBlock *before;
  IrExpr *start = ir_const(s->k, op_identity(op, l->src->buf->dtype));
  IrVar *acc = low_emit_var(s, op_info(op)->name, start);
  IrExpr *r = open_serial(s, "r", 0, line_count(l), &before);
  IrExpr *x = ir_ref(s->k, load_line(s, l, r));
  low_emit_set(s, acc, combine(s, op, ir_ref(s->k, acc), x));
  low_enter(s, before);
  return ir_ref(s->k, acc);
}

static IrExpr *arg_line(Simple *s, OpCode op, const Line *l) {
  IrBlock *before, *then;
  if (line_count(l) == 0) {
    const char *text = arena_printf(s->arena, "%s of no elements has no answer", op_info(op)->name);
    low_emit_fault(s, ir_bool(s->k, true), text, i64(s, 0), i64(s, 0));
    return i32(s, 0);
  }
  IrVar *best = low_emit_var(s, "best", ir_ref(s->k, load_line(s, l, i64(s, 0))));
  IrVar *at = low_emit_var(s, "at", i32(s, 0));
  IrExpr *r = open_serial(s, "r", 1, line_count(l), &before);
  IrExpr *x = ir_ref(s->k, load_line(s, l, r));
  then = low_enter(s, &low_emit_if(s, better(s, op, x, ir_ref(s->k, best)))->as.if_.then);
  low_emit_set(s, best, x);
  low_emit_set(s, at, ir_cast(s->k, r, DT_I32));
  low_enter(s, then);
  low_enter(s, before);
  return ir_ref(s->k, at);
}

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
  Line l = {&r->src, r->axis, shape_of(s, &r->src, NULL), others};
  return reduce_line(s, r->op, &l);
}

static IrExpr *reduce_once(Simple *s, void *ctx) {
  const IrReduce *r = ctx;
  Line l = {&r->src, -1, shape_of(s, &r->src, NULL), NULL};
  return reduce_line(s, r->op, &l);
}

static void lower_reduce(Simple *s, IrReduce *r) {
  Write w = {&r->dst, shape_of(s, &r->dst, NULL), produce_reduce, r, r->dst.buf == r->src.buf};
  write_elements(s, &w);
}

/* ---------------------------------------------------------------- scans */

/* One line: each element once, in the scan's direction; to the destination or to this thread's
 * hold. */
static void scan_line(Simple *s, const IrScan *c, const Line *l, IrBuffer *hold, IrExpr *place) {
  IrKernel *k = s->k;
  IrBlock *before;
  int64_t n = line_count(l);
  IrVar *acc = low_emit_var(s, "run", ir_const(k, op_identity(c->op, c->src.buf->dtype)));
  IrExpr *r = open_serial(s, "r", 0, n, &before), *index[IR_MAX_RANK], *at[IR_MAX_RANK];
  IrExpr *i = c->reverse ? ir_op2(k, OP_SUB, i64(s, n - 1), r) : r;
  IrExpr *x = ir_ref(k, load_line(s, l, i)), *run = ir_ref(k, acc);
  IrVar *out = c->exclusive ? low_emit_let(s, "out", run) : NULL;
  low_emit_set(s, acc, combine(s, c->op, run, x));
  IrExpr *value = out ? ir_ref(k, out) : run;
  for (int d = 0, j = 0; d < l->shape.rank; d++)
    index[d] = d == c->axis ? i : l->index[j++];
  region_index(s, &c->dst, index, at);
  IrExpr *slot = hold ? add(s, mul(s, place, i64(s, n)), i) : NULL;
  low_emit_store(s, hold ? low_access_at(s, hold, &slot) : low_access_at(s, c->dst.buf, at), value);
  low_enter(s, before);
}

static void unhold_line(Simple *s, const IrScan *c, const Line *l, IrBuffer *hold, IrExpr *place) {
  IrBlock *before;
  IrExpr *index[IR_MAX_RANK], *at[IR_MAX_RANK];
  IrExpr *r = open_serial(s, "r", 0, line_count(l), &before);
  IrExpr *slot = add(s, mul(s, place, i64(s, line_count(l))), r);
  for (int d = 0, j = 0; d < l->shape.rank; d++)
    index[d] = d == c->axis ? r : l->index[j++];
  region_index(s, &c->dst, index, at);
  low_emit_store(s, low_access_at(s, c->dst.buf, at),
                 ir_ref(s->k, low_emit_load(s, "held", low_access_at(s, hold, &slot))));
  low_enter(s, before);
}

static void scan_loop(Simple *s, const IrScan *c, IrBuffer *hold, bool compute) {
  IrExpr *index[IR_MAX_RANK];
  Line l = {&c->src, c->axis, shape_of(s, &c->src, NULL), index};
  Shape others = {0};
  for (int d = 0; d < l.shape.rank; d++)
    if (d != c->axis)
      others.extent[others.rank++] = l.shape.extent[d];
  IrBlock *before;
  IrExpr *e = open_elements(s, count_of(&others), &before);
  split(s, e, &others, index);
  IrExpr *place = ir_cast(s->k, quotient(s, e, s->k->threads), DT_I64);
  if (compute)
    scan_line(s, c, &l, hold, place);
  else
    unhold_line(s, c, &l, hold, place);
  low_enter(s, before);
}

static void lower_scan(Simple *s, const IrScan *c) {
  Shape x = shape_of(s, &c->src, NULL);
  int64_t n = count_of(&x), threads = s->k->threads;
  if (n == 0)
    return;
  if (c->dst.buf != c->src.buf) {
    scan_loop(s, c, NULL, true);
    return;
  }
  int64_t lines = n / x.extent[c->axis], turns = (lines + threads - 1) / threads;
  IrBuffer *hold = hold_tile(s, c->dst.buf->dtype, turns * x.extent[c->axis]);
  scan_loop(s, c, hold, true);
  between_phases(s, c->dst.buf);
  scan_loop(s, c, hold, false);
}

/* ---------------------------------------------------------------- atomics of regions */

static void lower_atomic_region(Simple *s, const IrAtomic *a) {
  IrExpr *index[IR_MAX_RANK], *to[IR_MAX_RANK], *from[IR_MAX_RANK];
  Shape x = shape_of(s, &a->dst, &a->src);
  IrBlock *before;
  if (count_of(&x) == 0)
    return;
  split(s, open_elements(s, count_of(&x), &before), &x, index);
  region_index(s, &a->dst, index, to);
  region_index(s, &a->src, index, from);
  enter_if(s, both(s, inside(s, &a->dst, to), inside(s, &a->src, from)));
  IrVar *v = low_emit_load(s, "x", low_access_at(s, a->src.buf, from));
  IrStmt *st = low_emit(s, IRK_ATOMIC);
  st->as.atomic = (IrAtomic){.op = a->op};
  st->as.atomic.at = low_access_at(s, a->dst.buf, to);
  st->as.atomic.value = ir_cast(s->k, ir_ref(s->k, v), a->dst.buf->dtype);
  low_enter(s, before);
}

/* ---------------------------------------------------------------- parallel loops */

static void note_use(IrBuffer **b, unsigned how, void *ctx) {
  if (!(how & IR_DECLARES))
    low_note_buffer(ctx, *b, how);
}

static bool note_stmt(IrStmt *st, void *ctx) {
  IrVisitor v = {NULL, NULL, note_use, ctx};
  ir_visit(st, &v);
  return true;
}

static bool has_atomic(IrStmt *st, void *ctx) {
  *(bool *)ctx |= st->kind == IRK_ATOMIC;
  return true;
}

/* The point's indices, from the number of the iteration, by division. */
static void define_point(Simple *s, const IrMap *m, IrExpr *e, IrExpr *const *extent) {
  IrKernel *k = s->k;
  IrExpr *inner[5];
  inner[m->naxes] = ir_int_of(k, e->type, 1);
  for (int d = m->naxes - 1; d >= 0; d--)
    inner[d] = mul(s, inner[d + 1], ir_cast(k, extent[d], e->type));
  for (int d = 0; d < m->naxes; d++) {
    IrVar *v = m->index[d];
    IrExpr *at = ir_op2(k, OP_FLOORDIV, e, inner[d + 1]);
    if (d > 0)
      at = ir_op2(k, OP_MOD, at, ir_cast(k, extent[d], e->type));
    IrStmt *st = low_emit(s, IRK_LET);
    int64_t n;
    v->kind = IRV_LET;
    if (ir_is_const(extent[d], &n) && n > 0) {
      v->lo = 0;
      v->hi = n - 1;
    }
    st->as.let.var = v;
    st->as.let.value = ir_cast(k, at, v->type);
  }
}

/* Number of iterations: i32 where it is a constant that fits, else i64. */
static IrExpr *count_points(Simple *s, const IrMap *m, IrExpr **extent) {
  IrExpr *n = i64(s, 1);
  int64_t c;
  for (int d = 0; d < m->naxes; d++) {
    extent[d] = m->extent[d];
    if (extent[d]->op != OP_CONST)
      extent[d] =
          ir_ref(s->k, low_emit_let(s, "extent", ir_op2(s->k, OP_MAX2, extent[d], i64(s, 0))));
    n = mul(s, n, extent[d]);
  }
  return ir_is_const(n, &c) && c >= 0 && c < INT32_MAX ? i32(s, c) : n;
}

void low_map(Simple *s, IrStmt *st) {
  const IrMap *m = &st->as.map;
  IrExpr *extent[4];
  IrStmt *loop;
  bool atomic = false;
  ir_walk(&st->as.map.body, has_atomic, &atomic);
  if (atomic)
    low_flush(s); /* what the block did before is done before any of them */
  ir_walk(&st->as.map.body, note_stmt, s);
  low_fence(s);
  IrExpr *n = count_points(s, m, extent), *first = ir_cast(s->k, ir_ref(s->k, s->tid), n->type);
  IrVar *e = low_emit_for(s, "e", first, n, ir_int_of(s->k, n->type, s->k->threads), &loop);
  IrBlock *before = low_enter(s, &loop->as.loop.body);
  define_point(s, m, ir_ref(s->k, e), extent);
  s->in_map = true;
  low_points(s, &m->body);
  s->in_map = false;
  low_enter(s, before);
}

/* ---------------------------------------------------------------- dispatch */

static void dispatch(Simple *s, IrStmt *st) {
  switch (st->kind) {
  case IRK_COPY:
    lower_copy(s, &st->as.copy);
    break;
  case IRK_DOT:
    lower_dot(s, &st->as.dot);
    break;
  case IRK_REDUCE:
    lower_reduce(s, &st->as.reduce);
    break;
  case IRK_SCAN:
    lower_scan(s, &st->as.scan);
    break;
  default:
    lower_atomic_region(s, &st->as.atomic);
  }
}

static void check_regions(Simple *s, IrStmt *st, IrExpr **ok) {
  switch (st->kind) {
  case IRK_COPY:
    check_region(s, &st->as.copy.dst, ok);
    check_region(s, &st->as.copy.src, ok);
    break;
  case IRK_DOT:
    check_region(s, &st->as.dot.a, ok);
    check_region(s, &st->as.dot.b, ok);
    check_region(s, &st->as.dot.c, ok);
    break;
  case IRK_REDUCE:
    check_region(s, &st->as.reduce.src, ok);
    if (!st->as.reduce.scalar)
      check_region(s, &st->as.reduce.dst, ok);
    break;
  case IRK_SCAN:
    check_region(s, &st->as.scan.src, ok);
    check_region(s, &st->as.scan.dst, ok);
    break;
  default:
    check_region(s, &st->as.atomic.dst, ok);
    check_region(s, &st->as.atomic.src, ok);
  }
}

/* A region that leaves its tile is recorded, and the block ends there: nothing outside is touched,
 * and every low_barrier is still reached by all threads or none. */
static void leave_unless(Simple *s, IrExpr *ok) {
  if (!ok)
    return;
  IrBlock *before = low_enter(s, &low_emit_if(s, ir_op1(s->k, OP_NOT, ok))->as.if_.then);
  low_emit(s, IRK_RETURN);
  low_enter(s, before);
}

void low_tile(Simple *s, IrStmt *st) {
  IrExpr *ok = NULL;
  if (st->kind != IRK_COPY && st->kind != IRK_DOT && st->kind != IRK_REDUCE &&
      st->kind != IRK_SCAN && st->kind != IRK_ATOMIC) {
    low_fail(s, E0713, "a construct of explicit schedules has no simple lowering");
    return;
  }
  if (st->kind == IRK_ATOMIC)
    low_flush(s);
  check_regions(s, st, &ok);
  leave_unless(s, ok);
  note_stmt(st, s);
  if (st->kind == IRK_REDUCE && st->as.reduce.scalar) {
    low_broadcast(s, st->as.reduce.scalar, reduce_once, &st->as.reduce);
    return;
  }
  low_fence(s);
  dispatch(s, st);
}
