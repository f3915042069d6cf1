/* simple_loop.c: bounds of loops at thread level.
 *
 * In: a loop's bounds and step, of any size. Out: the share of a persistent loop that falls to this
 * block; sums that stay where the type ends. Always holds: nothing computed here wraps where the
 * loop, whose index is a number without end, would not; what ranges prove costs nothing. Tests:
 * tests/lang/loop_ends_far.tile.
 */
#include "simple.h"

/* Whether every block's first index and its step fit the index' type. */
static bool shares_fit(Simple *s, const IrFor *f) {
  IrRange lo, end;
  int64_t step, least, blocks, way;
  if (!ir_range(f->lo, &lo.lo, &lo.hi) || !ir_is_const(f->step, &step))
    return false;
  if (!ir_range(s->blocks, &least, &blocks))
    blocks = s->k->grid_rank > 1 ? INT64_MAX : INT32_MAX;
  return !__builtin_mul_overflow(step, blocks, &way) &&
         !__builtin_add_overflow(lo.lo, way < 0 ? way : 0, &end.lo) &&
         !__builtin_add_overflow(lo.hi, way > 0 ? way : 0, &end.hi) &&
         ir_range_fits(end, f->index->type) && ir_range_fits((IrRange){way, way}, f->index->type);
}

/* As a number modulo 2^64: with its sign, where it has one. */
static IrExpr *word(Simple *s, IrExpr *e) {
  return ir_cast(s->k, dtype_is_signed(e->type) ? ir_cast(s->k, e, DT_I64) : e, DT_U64);
}

/* How many rounds the whole loop has, u64: even from one end of i64 to the other they fit. */
static IrExpr *rounds(Simple *s, const IrFor *f) {
  IrKernel *k = s->k;
  IrExpr *lo = word(s, f->lo), *hi = word(s, f->hi), *step = word(s, f->step);
  IrExpr *zero = ir_int_of(k, DT_U64, 0), *one = ir_int_of(k, DT_U64, 1);
  IrExpr *up = ir_op2(k, OP_GT, f->step, ir_int_of(k, f->step->type, 0));
  IrExpr *some =
      ir_op3(k, OP_SELECT, up, ir_op2(k, OP_LT, f->lo, f->hi), ir_op2(k, OP_GT, f->lo, f->hi));
  IrExpr *way = ir_op3(k, OP_SELECT, up, ir_op2(k, OP_SUB, hi, lo), ir_op2(k, OP_SUB, lo, hi));
  IrExpr *size = ir_op3(k, OP_SELECT, up, step, ir_op2(k, OP_SUB, zero, step));
  IrExpr *before = ir_op2(k, OP_FLOORDIV, ir_op2(k, OP_SUB, way, one), size);
  return ir_op3(k, OP_SELECT, some, ir_op2(k, OP_ADD, before, one), zero);
}

IrExpr *low_share_out(Simple *s, IrFor *f) {
  IrKernel *k = s->k;
  DType t = f->index->type;
  if (shares_fit(s, f)) {
    IrExpr *first = ir_op2(k, OP_MUL, ir_cast(k, s->block, t), f->step);
    f->lo = ir_op2(k, OP_ADD, f->lo, first);
    f->step = ir_op2(k, OP_MUL, f->step, ir_cast(k, s->blocks, t));
    return NULL;
  }
  IrExpr *lo = word(s, f->lo), *step = word(s, f->step);
  IrVar *turn = ir_var(k, IRV_INDEX, "turn", DT_U64);
  IrExpr *way = ir_op2(k, OP_MUL, ir_ref(k, turn), step);
  f->hi = ir_ref(k, low_emit_let(s, "turns", rounds(s, f)));
  f->lo = word(s, s->block);
  f->step = word(s, s->blocks);
  f->index = turn;
  return ir_cast(k, ir_op2(k, OP_ADD, lo, way), t);
}

IrExpr *low_with_room(IrKernel *k, IrExpr *e, int64_t n) {
  int64_t lo, hi, end;
  bool known = ir_range(e, &lo, &hi) && !__builtin_add_overflow(hi, n, &end) &&
               end <= ir_range_of_type(e->type).hi;
  return known ? e : ir_op2(k, OP_MIN2, e, ir_int_of(k, e->type, ir_range_of_type(e->type).hi - n));
}

int64_t low_way(const IrStmt *loop, int64_t n) {
  int64_t step = 1;
  (void)ir_is_const(loop->as.loop.step, &step);
  return n * step;
}

IrExpr *low_goes_on(IrKernel *k, IrExpr *index, IrExpr *end, IrExpr *step) {
  int64_t lo, hi, n = 1;
  if (ir_range(index, &lo, &hi) && lo >= 0)
    return ir_op2(k, OP_GT, ir_op2(k, OP_SUB, end, index), step);
  (void)ir_is_const(step, &n);
  return ir_op2(k, OP_LT, ir_op2(k, OP_ADD, low_with_room(k, index, n), step), end);
}
