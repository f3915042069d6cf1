/* range.c: least and greatest values of integer expressions.
 *
 * In: an expression over constants and variables with known ranges. Out: inclusive bounds of its
 * mathematical value that also hold for its computed one: where the value may leave its type
 * nothing is known. Tests: tests/unit/check_ir.c.
 */
#include "impl.h"

enum { RANGE_DEPTH = 60 };

static bool range_of(const IrExpr *e, Range *out, int depth);

/* Bounds are int64; whatever leaves that is unknown. */
static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static int64_t most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* The extremes of a product lie at the corners, whatever the signs. */
static bool product(Range a, Range b, Range *out) {
  int64_t p[4];
  if (__builtin_mul_overflow(a.lo, b.lo, &p[0]) || __builtin_mul_overflow(a.lo, b.hi, &p[1]) ||
      __builtin_mul_overflow(a.hi, b.lo, &p[2]) || __builtin_mul_overflow(a.hi, b.hi, &p[3]))
    return false;
  *out = (Range){least(least(p[0], p[1]), least(p[2], p[3])),
                 most(most(p[0], p[1]), most(p[2], p[3]))};
  return true;
}

/* C truncates; the language floors. */
static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}

/* Division rounded up, by a positive constant.
 * By way of flooring, which the others use. */
static bool ceil_divided(Range a, Range b, Range *out) {
  if (b.lo != b.hi || b.lo <= 0)
    return false;
  if (a.lo == INT64_MIN)
    return false;
  *out = (Range){-floor_div(-a.lo, b.lo), -floor_div(-a.hi, b.lo)};
  return true;
}

/* Division and remainder by a positive constant.
 * A remainder has the divisor's sign. */
static bool divided(OpCode op, Range a, Range b, Range *out) {
  if (b.lo != b.hi || b.lo <= 0)
    return false;
  if (op == OP_FLOORDIV)
    *out = (Range){floor_div(a.lo, b.lo), floor_div(a.hi, b.lo)};
  else if (a.lo >= 0 && a.hi < b.lo)
    *out = a;
  else
    *out = (Range){0, b.lo - 1};
  return true;
}

/* Operations that do not keep order in a simple way are unknown.
 * AND with a mask is how code takes a remainder. */
bool ir_range_binary(OpCode op, Range a, Range b, Range *out) {
  switch (op) {
  case OP_ADD:
    return !__builtin_add_overflow(a.lo, b.lo, &out->lo) &&
           !__builtin_add_overflow(a.hi, b.hi, &out->hi);
  case OP_SUB:
    return !__builtin_sub_overflow(a.lo, b.hi, &out->lo) &&
           !__builtin_sub_overflow(a.hi, b.lo, &out->hi);
  case OP_MUL:
    return product(a, b, out);
  case OP_FLOORDIV:
  case OP_MOD:
    return divided(op, a, b, out);
  case OP_CEILDIV:
    return ceil_divided(a, b, out);
  case OP_MIN2:
    *out = (Range){least(a.lo, b.lo), least(a.hi, b.hi)};
    return true;
  case OP_MAX2:
    *out = (Range){most(a.lo, b.lo), most(a.hi, b.hi)};
    return true;
  case OP_AND: /* with a mask that is not negative */
    *out = (Range){0, b.hi};
    return b.lo >= 0;
  default:
    return false;
  }
}

/* Both ends must be known: half a range is of no use to a check of bounds. */
static bool range_var(const IrVar *v, Range *out) {
  *out = (Range){v->lo, v->hi};
  return v->lo != IR_NO_RANGE_LO && v->hi != IR_NO_RANGE_HI;
}

/* Whether every value of the range is one of the type.
 * u64 beyond int64 is never known here. */
static bool fits(Range r, DType t) {
  uint64_t hi = dtype_int_max(t);
  return r.lo >= dtype_int_min(t) && (r.hi < 0 || (uint64_t)r.hi <= hi);
}

/* A choice has the range of both sides; a cast keeps the value, or it does not fit.
 * Unary operations but casts are unknown. */
static bool range_op(const IrExpr *e, Range *out, int depth) {
  Range a, b;
  if (e->op == OP_SELECT) {
    if (!range_of(e->arg[1], &a, depth) || !range_of(e->arg[2], &b, depth))
      return false;
    *out = (Range){least(a.lo, b.lo), most(a.hi, b.hi)};
    return true;
  }
  if (!range_of(e->arg[0], &a, depth))
    return false;
  if (e->op == OP_CAST) {
    *out = a;
    return true;
  }
  return e->nargs == 2 && range_of(e->arg[1], &b, depth) && ir_range_binary(e->op, a, b, out);
}

/* Depth is bounded: beyond it nothing is known, which is always right. */
static bool range_of(const IrExpr *e, Range *out, int depth) {
  if (!dtype_is_int(e->type) || depth > RANGE_DEPTH)
    return false;
  int64_t c;
  if (ir_is_const(e, &c)) {
    *out = (Range){c, c};
    return e->type != DT_U64 || c >= 0;
  }
  if (e->op == OP_VAR)
    return range_var(e->as.var, out);
  if (e->nargs == 0)
    return false;
  return range_op(e, out, depth + 1) && fits(*out, e->type);
}

/* What it says holds for the computed value, wrapping included. */
bool ir_range(const IrExpr *e, int64_t *lo, int64_t *hi) {
  Range r;
  if (!range_of(e, &r, 0))
    return false;
  *lo = r.lo;
  *hi = r.hi;
  return true;
}
