/* simple_tile.c: tile operations as loops of the block's threads.
 *
 * In: COPY, MAP, DOT, atomics of regions (reductions and scans: simple_reduce.c). Out: loops in
 * which a thread computes whole elements, each in the tile level's order. Always holds: a region of
 * a tile that leaves it is recorded, and the block ends before anything outside is touched. Tests:
 * tests/unit/check_lower.c.
 */
#include "expand.h"

/* ---------------------------------------------------------------- copy */

/* Outside its source an element is the padding, converted as an element would be. */
static IrExpr *produce_copy(Simple *s, const void *op, IrExpr *const *index) {
  const IrCopy *c = op;
  IrExpr *at[IR_MAX_RANK];
  low_region_index(s, &c->src, index, at);
  IrExpr *in = low_inside(s, &c->src, at);
  DType to = c->dst.buf->dtype;
  if (!in)
    return ir_cast(s->k, ir_ref(s->k, low_emit_load(s, "x", low_access_at(s, c->src.buf, at))), to);
  Scalar zero = {.type = DT_I64};
  DType from = c->src.buf->dtype;
  IrExpr *pad = c->pad ? c->pad : ir_const(s->k, scalar_convert(zero, from));
  IrVar *v = low_emit_var(s, "x", pad);
  IrBlock *before = low_enter_if(s, in);
  IrExpr *x = ir_ref(s->k, low_emit_load(s, "element", low_access_at(s, c->src.buf, at)));
  low_emit_set(s, v, ir_cast(s->k, x, pad->type));
  low_enter(s, before);
  return ir_cast(s->k, ir_ref(s->k, v), to);
}

/* A copy within one tile may overlap itself, so it is held. */
static void lower_copy(Simple *s, const IrCopy *c) {
  Write w = {&c->dst, low_shape_of(s, &c->dst, &c->src), produce_copy, c, c->dst.buf == c->src.buf};
  low_write_elements(s, &w);
}

/* ---------------------------------------------------------------- products */

/* One chain, k ascending, rounded once to the target's dtype. */
static IrExpr *produce_dot(Simple *s, const void *op, IrExpr *const *index) {
  const IrDot *d = op;
  IrKernel *k = s->k;
  DType t = op_product_type(d->a.buf->dtype, d->b.buf->dtype);
  IrExpr *start = low_zero_of(s, t);
  if (d->accumulate)
    start = ir_cast(k, ir_ref(k, low_load_region(s, "c", &d->c, index)), t);
  IrVar *acc = low_emit_var(s, "sum", start);
  IrBlock *before;
  IrExpr *r = low_open_serial(s, "r", 0, ir_region_extent(&d->a, 1), &before);
  IrExpr *ai[] = {index[0], r}, *bi[] = {r, index[1]};
  IrExpr *a = ir_cast(k, ir_ref(k, low_load_region(s, "a", &d->a, ai)), t);
  IrExpr *b = ir_cast(k, ir_ref(k, low_load_region(s, "b", &d->b, bi)), t);
  IrExpr *sum = ir_ref(k, acc);
  low_emit_set(
      s, acc, dtype_is_float(t) ? ir_op3(k, OP_FMA, a, b, sum) : low_add(s, sum, low_mul(s, a, b)));
  low_enter(s, before);
  return ir_cast(k, sum, d->c.buf->dtype);
}

/* A product into one of its operands reads all of it first. */
static void lower_dot(Simple *s, const IrDot *d) {
  bool hold = d->c.buf == d->a.buf || d->c.buf == d->b.buf;
  Write w = {&d->c, low_shape_of(s, &d->c, NULL), produce_dot, d, hold};
  low_write_elements(s, &w);
}

/* ---------------------------------------------------------------- atomics of regions */

/* One atomic of element `from` of the source, where its place in the destination lies inside. */
static void atomic_element(Simple *s, const IrAtomic *a, IrExpr *const *index, IrAccess from,
                           IrExpr *in) {
  IrExpr *to[IR_MAX_RANK];
  low_region_index(s, &a->dst, index, to);
  low_enter_if(s, low_both(s, low_inside(s, &a->dst, to), in));
  IrVar *v = low_emit_load(s, "x", from);
  IrStmt *st = low_emit(s, IRK_ATOMIC);
  st->as.atomic = (IrAtomic){.op = a->op};
  st->as.atomic.at = low_access_at(s, a->dst.buf, to);
  st->as.atomic.value = ir_cast(s->k, ir_ref(s->k, v), a->dst.buf->dtype);
}

/* Of a fragment, whole: each thread has its own elements, and one of those that hold the same. */
static void atomic_registers(Simple *s, const IrAtomic *a, const Place *p) {
  Point at;
  IrBlock *outer = s->out, *before;
  low_enter_if(s, expand_is_owner(s, p->frag));
  expand_open(s, p->frag, 1, &at, &before);
  IrAccess from = {.buf = p->home, .index = {expand_register(s, &at, p->rank, NULL)}};
  atomic_element(s, a, at.index, from, NULL);
  low_enter(s, outer);
}

/* Only where both sides lie inside. */
static void lower_atomic_region(Simple *s, const IrAtomic *a) {
  IrExpr *index[IR_MAX_RANK], *from[IR_MAX_RANK];
  Shape x = low_shape_of(s, &a->dst, &a->src);
  const Place *p = low_place_of(s, a->src.buf);
  IrBlock *before;
  if (low_count_of(&x) == 0)
    return;
  if (p->frag) {
    atomic_registers(s, a, p);
    return;
  }
  low_split(s, low_open_elements(s, low_count_of(&x), &before), &x, index);
  low_region_index(s, &a->src, index, from);
  atomic_element(s, a, index, low_access_at(s, a->src.buf, from), low_inside(s, &a->src, from));
  low_enter(s, before);
}

/* ---------------------------------------------------------------- parallel loops */

/* A declaration inside a map is each iteration's own. */
static void note_use(IrBuffer **b, unsigned how, void *ctx) {
  if (!(how & IR_DECLARES))
    low_note_buffer(ctx, *b, how);
}

bool low_note_inner(IrStmt *st, void *ctx) {
  IrVisitor v = {NULL, NULL, note_use, ctx};
  ir_visit(st, &v);
  return true;
}

/* What the block did before its atomics must be visible to who sees them. */
static bool has_atomic(IrStmt *st, void *ctx) {
  *(bool *)ctx |= st->kind == IRK_ATOMIC;
  return true;
}

/* No loop comes to so many iterations. */
static const int64_t MANY = INT64_C(1) << 52;

/* The point's indices, from the number of the iteration, by division. */
static void define_point(Simple *s, const IrMap *m, IrExpr *e, IrExpr *const *extent) {
  IrKernel *k = s->k;
  IrExpr *inner[5];
  inner[m->naxes] = ir_int_of(k, e->type, 1);
  for (int d = m->naxes - 1; d >= 0; d--)
    inner[d] = low_mul(s, inner[d + 1], ir_cast(k, extent[d], e->type));
  for (int d = 0; d < m->naxes; d++) {
    IrVar *v = m->index[d];
    IrExpr *at = ir_op2(k, OP_FLOORDIV, e, inner[d + 1]);
    if (d > 0)
      at = ir_op2(k, OP_MOD, at, ir_cast(k, extent[d], e->type));
    IrStmt *st = low_emit(s, IRK_LET);
    int64_t n = MANY;
    v->kind = IRV_LET;
    if (!ir_is_const(extent[d], &n) || n > 0) {
      v->lo = 0;
      v->hi = n - 1;
    }
    st->as.let.var = v;
    st->as.let.value = ir_cast(k, at, v->type);
  }
}

/* Number of iterations: i32 where it is a constant that fits, else i64. */
static IrExpr *count_points(Simple *s, const IrMap *m, IrExpr **extent) {
  IrExpr *n = low_i64(s, 1);
  int64_t c;
  for (int d = 0; d < m->naxes; d++) {
    extent[d] = m->extent[d];
    if (extent[d]->op != OP_CONST)
      extent[d] =
          ir_ref(s->k, low_emit_let(s, "extent", ir_op2(s->k, OP_MAX2, extent[d], low_i64(s, 0))));
    n = low_mul(s, n, extent[d]);
  }
  return ir_is_const(n, &c) && c >= 0 && c < INT32_MAX ? low_i32(s, c) : n;
}

/* Iterations are numbered row-major and dealt out to the threads in turn; each computes its indices
 * from its number. */
void low_open_points(Simple *s, const IrMap *m, IrBlock **before) {
  IrExpr *extent[4];
  IrStmt *loop;
  IrExpr *n = count_points(s, m, extent), *first = ir_cast(s->k, ir_ref(s->k, s->tid), n->type);
  IrExpr *step = ir_int_of(s->k, n->type, s->threads);
  if (s->spread) {
    first = low_add(s, first, low_mul(s, ir_cast(s->k, s->block, n->type), step));
    step = low_mul(s, step, ir_cast(s->k, s->blocks, n->type));
  }
  IrVar *e = low_emit_for(s, "e", first, n, step, &loop);
  *before = low_enter(s, &loop->as.loop.body);
  define_point(s, m, ir_ref(s->k, e), extent);
}

void low_map(Simple *s, IrStmt *st) {
  const IrMap *m = &st->as.map;
  IrBlock *before;
  bool atomic = false;
  ir_walk(&st->as.map.body, has_atomic, &atomic);
  if (atomic)
    low_flush(s); /* what the block did before is done before any of them */
  ir_walk(&st->as.map.body, low_note_inner, s);
  low_fence(s);
  low_open_points(s, m, &before);
  s->in_map = true;
  low_points(s, &m->body);
  s->in_map = false;
  low_enter(s, before);
}

/* ---------------------------------------------------------------- dispatch */

/* Regions are checked and barriers stand by now. */
static void dispatch(Simple *s, IrStmt *st) {
  switch (st->kind) {
  case IRK_COPY:
    lower_copy(s, &st->as.copy);
    break;
  case IRK_DOT:
    lower_dot(s, &st->as.dot);
    break;
  case IRK_REDUCE:
    low_reduce(s, &st->as.reduce);
    break;
  case IRK_SCAN:
    low_scan(s, &st->as.scan);
    break;
  default:
    lower_atomic_region(s, &st->as.atomic);
  }
}

/* Tiles only: a region of a tensor may reach beyond it. */
static void check_regions(Simple *s, IrStmt *st, IrExpr **ok) {
  switch (st->kind) {
  case IRK_COPY:
    low_check_region(s, &st->as.copy.dst, ok);
    low_check_region(s, &st->as.copy.src, ok);
    break;
  case IRK_DOT:
    low_check_region(s, &st->as.dot.a, ok);
    low_check_region(s, &st->as.dot.b, ok);
    low_check_region(s, &st->as.dot.c, ok);
    break;
  case IRK_REDUCE:
    low_check_region(s, &st->as.reduce.src, ok);
    if (!st->as.reduce.scalar)
      low_check_region(s, &st->as.reduce.dst, ok);
    break;
  case IRK_SCAN:
    low_check_region(s, &st->as.scan.src, ok);
    low_check_region(s, &st->as.scan.dst, ok);
    break;
  default:
    low_check_region(s, &st->as.atomic.dst, ok);
    low_check_region(s, &st->as.atomic.src, ok);
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

/* Checks, then the barrier that the operation needs, then the operation. */
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
  bool scalar = st->kind == IRK_REDUCE && st->as.reduce.scalar;
  /* A role that ended early would leave the others waiting: it goes on without the operation. */
  IrBlock *before = s->barrier && !scalar ? low_enter_if(s, ok) : s->out;
  if (!s->barrier || scalar)
    leave_unless(s, ok);
  low_note_inner(st, s);
  if (scalar) {
    low_broadcast(s, st->as.reduce.scalar, low_reduce_scalar, &st->as.reduce);
    return;
  }
  low_fence(s);
  dispatch(s, st);
  low_enter(s, before);
  if (st->kind == IRK_COPY && st->as.copy.signal.buf)
    low_arrive(s, &st->as.copy.signal);
}
