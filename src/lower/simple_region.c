/* simple_region.c: shapes, indices and regions as the threads of a block see them.
 *
 * In: regions of tile operations. Out: loops over their elements, the buffer's index of an element,
 * whether it lies inside; the writing of a result element by element. Always holds: where the
 * result's tile is also an operand, elements wait in `local` memory until all threads have read.
 * Tests: tests/unit/check_lower.c.
 */
#include "simple.h"

IrExpr *low_i32(Simple *s, int64_t n) {
  return ir_int_of(s->k, DT_I32, n);
}
IrExpr *low_i64(Simple *s, int64_t n) {
  return ir_int(s->k, n);
}
IrOperand low_regs(IrBuffer *b, IrExpr *first, int64_t n) {
  return (IrOperand){.kind = IRO_REGS, .buf = b, .expr = first, .count = (int)n};
}
IrBuffer *low_registers(Simple *s, const char *name, DType t, int64_t n) {
  IrExpr *extent = low_i64(s, n);
  IrBuffer *b = ir_buffer(s->k, IRS_REG, name, t, 1, &extent);
  low_emit(s, IRK_ALLOC)->as.alloc = b;
  return b;
}
IrExpr *low_add(Simple *s, IrExpr *a, IrExpr *b) {
  return ir_op2(s->k, OP_ADD, a, b);
}
IrExpr *low_mul(Simple *s, IrExpr *a, IrExpr *b) {
  return ir_op2(s->k, OP_MUL, a, b);
}

/* The conjunction; NULL is "always". */
IrExpr *low_both(Simple *s, IrExpr *a, IrExpr *b) {
  return !a ? b : !b ? a : ir_op2(s->k, OP_AND, a, b);
}

/* ---------------------------------------------------------------- shapes and indices */

/* Tiles are bounded by the verifier, so the product fits. */
int64_t low_count_of(const Shape *x) {
  int64_t n = 1;
  for (int i = 0; i < x->rank; i++)
    n *= x->extent[i];
  return n;
}

/* Decides whether leaving it is padding or a fault. */
bool low_is_global(Simple *s, const IrRegion *r) {
  return !low_place_of(s, r->buf)->tile;
}

/* Of a region; an open extent comes from the other side. */
Shape low_shape_of(Simple *s, const IrRegion *r, const IrRegion *other) {
  Shape x = {.rank = ir_region_rank(r)};
  for (int i = 0; i < x.rank; i++) {
    x.extent[i] = ir_region_extent(r, i);
    if (x.extent[i] == 0 && low_is_global(s, r) && other)
      x.extent[i] = ir_region_extent(other, i);
  }
  return x;
}

static const char *const index_names[IR_MAX_RANK] = {"i", "j", "k", "l", "i4", "i5", "i6", "i7"};

/* e // n, 0 where its range says so. */
IrExpr *low_quotient(Simple *s, IrExpr *e, int64_t n) {
  int64_t lo, hi;
  IrExpr *q = ir_op2(s->k, OP_FLOORDIV, e, ir_int_of(s->k, e->type, n));
  return ir_range(q, &lo, &hi) && lo == hi ? ir_int_of(s->k, e->type, lo) : q;
}

/* Indices, as i64 variables, of the e-th element in row-major order. */
void low_split(Simple *s, IrExpr *e, const Shape *x, IrExpr **index) {
  int64_t inner = low_count_of(x);
  for (int d = 0; d < x->rank; d++) {
    inner /= x->extent[d] ? x->extent[d] : 1;
    IrExpr *at = low_quotient(s, e, inner ? inner : 1);
    if (d > 0)
      at = ir_op2(s->k, OP_MOD, at, ir_int_of(s->k, e->type, x->extent[d] ? x->extent[d] : 1));
    at = ir_cast(s->k, at, DT_I64);
    bool plain = at->nargs == 0;
    index[d] = plain ? at : ir_ref(s->k, low_emit_let(s, index_names[d], at));
  }
}

/* Opens `for e = t, n, threads` and enters it; the caller enters *before again. */
IrExpr *low_open_elements(Simple *s, int64_t n, IrBlock **before) {
  IrStmt *loop;
  IrVar *e =
      low_emit_for(s, "e", ir_ref(s->k, s->tid), low_i32(s, n), low_i32(s, s->threads), &loop);
  *before = low_enter(s, &loop->as.loop.body);
  return ir_ref(s->k, e);
}

/* By one thread, in order. */
IrExpr *low_open_serial(Simple *s, const char *name, int64_t from, int64_t n, IrBlock **before) {
  IrStmt *loop;
  IrVar *r = low_emit_for(s, name, low_i64(s, from), low_i64(s, n), low_i64(s, 1), &loop);
  *before = low_enter(s, &loop->as.loop.body);
  return ir_ref(s->k, r);
}

/* ---------------------------------------------------------------- regions */

/* The index along each axis of the buffer, of the element with these indices along kept axes. */
void low_region_index(Simple *s, const IrRegion *r, IrExpr *const *index, IrExpr **out) {
  int rank = ir_region_rank(r), kept = 0;
  for (int d = 0; d < r->buf->rank && d < IR_MAX_RANK; d++) {
    const IrAxis *x = &r->axis[d];
    out[d] = x->origin;
    if (!x->keep)
      continue;
    int i = kept++;
    if (r->trans && i >= rank - 2)
      i = i == rank - 1 ? rank - 2 : rank - 1;
    out[d] = low_add(s, x->origin, low_mul(s, index[i], low_i64(s, x->step)));
  }
}

/* Whether 0 <= i < n, NULL where that is certain. */
static IrExpr *within(Simple *s, IrExpr *i, IrExpr *n, bool low) {
  int64_t lo, hi, end, end_hi;
  bool known = ir_range(i, &lo, &hi);
  IrExpr *in = low && !(known && lo >= 0) ? ir_op2(s->k, OP_GE, i, low_i64(s, 0)) : NULL;
  if (known && ir_range(n, &end, &end_hi) && hi < end)
    return in;
  return low_both(s, in, ir_op2(s->k, OP_LT, i, n));
}

/* Whether the element lies inside; NULL where it always does. */
IrExpr *low_inside(Simple *s, const IrRegion *r, IrExpr *const *at) {
  IrExpr *in = NULL;
  int rank = r->buf->rank;
  for (int d = 0; d < rank; d++) {
    const IrAxis *x = &r->axis[d];
    if (low_is_global(s, r) || x->stop)
      in = low_both(s, in, within(s, at[d], low_extent_of(s, r->buf, d), true));
    if (x->stop)
      in = low_both(s, in, within(s, at[d], x->stop, false));
  }
  return in;
}

/* Bounds were checked for the region as a whole. */
IrVar *low_load_region(Simple *s, const char *name, const IrRegion *r, IrExpr *const *index) {
  IrExpr *at[IR_MAX_RANK];
  low_region_index(s, r, index, at);
  return low_emit_load(s, name, low_access_at(s, r->buf, at));
}

/* Faults where a tile's region, whose origin is known at run time only, leaves the tile; the
 * conjunction of what must hold is added to *ok. */
void low_check_region(Simple *s, const IrRegion *r, IrExpr **ok) {
  if (low_is_global(s, r))
    return;
  Span at = s->at;
  if (r->span.file)
    s->at = r->span;
  int rank = r->buf->rank;
  for (int d = 0; d < rank; d++) {
    const IrAxis *x = &r->axis[d];
    IrExpr *n = low_extent_of(s, r->buf, d);
    if (x->stop || (x->keep && x->extent == 0))
      continue;
    IrExpr *last = low_add(s, x->origin, low_i64(s, (x->extent - 1) * x->step));
    IrExpr *in = low_both(s, within(s, x->origin, n, true), within(s, last, n, false));
    if (!in)
      continue;
    IrVar *bad = low_emit_let(s, "outside", ir_op1(s->k, OP_NOT, in));
    const char *text = arena_printf(s->arena,
                                    "the region reaches from {0} to {1} along axis %d of %s, whose "
                                    "extent is %s",
                                    d, r->buf->name, low_extent_text(s, r->buf, d));
    low_emit_fault(s, ir_ref(s->k, bad), (IrSite){E0456, text}, x->origin, last);
    *ok = low_both(s, *ok, ir_op1(s->k, OP_NOT, ir_ref(s->k, bad)));
  }
  s->at = at;
}

/* ---------------------------------------------------------------- element by element */

/* As many elements as one thread computes. */
IrBuffer *low_hold(Simple *s, DType t, int64_t n) {
  IrExpr *extent = low_i64(s, n ? n : 1);
  IrBuffer *b = ir_buffer(s->k, IRS_LOCAL, "hold", t, 1, &extent);
  low_emit(s, IRK_ALLOC)->as.alloc = b;
  return b;
}

/* The element's place in this thread's `hold`. */
static IrAccess hold_at(Simple *s, IrBuffer *hold, IrExpr *e) {
  IrExpr *at = low_quotient(s, e, s->threads);
  return low_access_at(s, hold, &at);
}

/* So that callers need no case for "always". */
IrBlock *low_enter_if(Simple *s, IrExpr *cond) {
  return cond ? low_enter(s, &low_emit_if(s, cond)->as.if_.then) : s->out;
}

/* The same loop computes (to the target or to hold) and empties hold. */
static void write_loop(Simple *s, const Write *w, IrBuffer *hold, bool compute) {
  IrExpr *index[IR_MAX_RANK], *at[IR_MAX_RANK];
  IrBlock *before;
  IrExpr *e = low_open_elements(s, low_count_of(&w->shape), &before);
  low_split(s, e, &w->shape, index);
  low_region_index(s, w->dst, index, at);
  low_enter_if(s, low_inside(s, w->dst, at));
  IrExpr *value = compute ? w->produce(s, w->op, index)
                          : ir_ref(s->k, low_emit_load(s, "held", hold_at(s, hold, e)));
  if (compute && hold)
    low_emit_store(s, hold_at(s, hold, e), value);
  else
    low_emit_store(s, low_access_at(s, w->dst->buf, at), value);
  low_enter(s, before);
}

/* All have read; from here on the target is written. */
void low_between_phases(Simple *s, const IrBuffer *dst) {
  low_barrier(s);
  low_note_buffer(s, dst, IR_WRITES);
  low_fence(s);
}

/* An empty result runs nothing. */
void low_write_elements(Simple *s, const Write *w) {
  int64_t n = low_count_of(&w->shape), threads = s->threads;
  if (n == 0)
    return;
  if (!w->hold) {
    write_loop(s, w, NULL, true);
    return;
  }
  IrBuffer *hold = low_hold(s, w->dst->buf->dtype, (n + threads - 1) / threads);
  write_loop(s, w, hold, true);
  low_between_phases(s, w->dst->buf);
  write_loop(s, w, hold, false);
}

/* Of any type, bool included. */
IrExpr *low_zero_of(Simple *s, DType t) {
  Scalar zero = {.type = DT_I64};
  return ir_const(s->k, scalar_convert(zero, t));
}
