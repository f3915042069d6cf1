/* range.c: least and greatest values of integer expressions.
 *
 * In: an expression, and what is known of its operands. Out: inclusive bounds of the mathematical
 * value of its operation (ir_range_step), which every analysis of ranges is made of: ir_range here,
 * over the stated ranges of variables; the indices of unrolled loops in verify_op.c; the C types of
 * the CUDA text in src/lower. Always holds: bounds are int64, and whatever leaves that is unknown;
 * bounds that fit the type hold for the computed value too, others tell that it can wrap. Tests:
 * tests/unit/check_ir.c, tests/unit/check_cuda.c.
 */
#include "ir.h"

enum { RANGE_DEPTH = 60 };

static bool known(IrRange *out, int64_t lo, int64_t hi) {
  *out = (IrRange){lo, hi};
  return true;
}

IrRange ir_range_of_type(DType t) {
  if (t == DT_BOOL)
    return (IrRange){0, 1};
  if (!dtype_is_int(t))
    return (IrRange){INT64_MIN, INT64_MAX};
  uint64_t hi = dtype_int_max(t);
  return (IrRange){dtype_int_min(t), hi > INT64_MAX ? INT64_MAX : (int64_t)hi};
}

bool ir_range_fits(IrRange r, DType t) {
  IrRange all = ir_range_of_type(t);
  return r.lo >= all.lo && r.hi <= all.hi;
}

/* ---------------------------------------------------------------- arithmetic */

static bool sum(IrRange a, IrRange b, IrRange *out) {
  return !__builtin_add_overflow(a.lo, b.lo, &out->lo) &&
         !__builtin_add_overflow(a.hi, b.hi, &out->hi);
}

/* Least minus greatest, greatest minus least. */
static bool difference(IrRange a, IrRange b, IrRange *out) {
  return !__builtin_sub_overflow(a.lo, b.hi, &out->lo) &&
         !__builtin_sub_overflow(a.hi, b.lo, &out->hi);
}

/* The extremes of a product lie at the corners, whatever the signs. */
static bool product(IrRange a, IrRange b, IrRange *out) {
  int64_t p[4];
  if (__builtin_mul_overflow(a.lo, b.lo, &p[0]) || __builtin_mul_overflow(a.lo, b.hi, &p[1]) ||
      __builtin_mul_overflow(a.hi, b.lo, &p[2]) || __builtin_mul_overflow(a.hi, b.hi, &p[3]))
    return false;
  return known(out, base_least(base_least(p[0], p[1]), base_least(p[2], p[3])),
               base_most(base_most(p[0], p[1]), base_most(p[2], p[3])));
}

/* C truncates; the language floors, and here only by what is positive. */
static int64_t quotient(int64_t a, int64_t b, bool up) {
  return a / b + (up ? a % b > 0 : -(a % b < 0));
}

/* The quotient is monotone in both operands as long as the divisor is positive: the dividend's
 * extremes over the divisor's. */
static bool divided(IrRange a, IrRange b, bool up, IrRange *out) {
  return b.lo >= 1 && known(out, base_least(quotient(a.lo, b.lo, up), quotient(a.lo, b.hi, up)),
                            base_most(quotient(a.hi, b.lo, up), quotient(a.hi, b.hi, up)));
}

/* By a positive divisor the remainder is not negative, and the dividend itself where that is less.
 */
static bool remainder_of(IrRange a, IrRange b, IrRange *out) {
  if (b.lo < 1)
    return false;
  if (a.lo >= 0 && a.hi < b.lo)
    return known(out, a.lo, a.hi);
  return known(out, 0, a.lo >= 0 ? base_least(b.hi - 1, a.hi) : b.hi - 1);
}

/* A bitwise or of numbers up to x stays below the next power of two. */
static int64_t all_ones(int64_t x) {
  int64_t m = 0;
  while (m < x)
    m = m * 2 + 1;
  return m;
}

/* Of operands that are not negative, else a sign bit could be anywhere; a mask is enough for AND,
 * which is how code takes a remainder. */
static bool bits(OpCode op, IrRange a, IrRange b, IrRange *out) {
  if (op == OP_AND && (a.lo >= 0 || b.lo >= 0))
    return known(out, 0, a.lo < 0 ? b.hi : b.lo < 0 ? a.hi : base_least(a.hi, b.hi));
  return a.lo >= 0 && b.lo >= 0 && known(out, 0, all_ones(base_most(a.hi, b.hi)));
}

/* A multiplication or division by a power of two. */
static bool shifted(OpCode op, IrRange a, IrRange n, IrRange *out) {
  if (n.lo < 0 || n.hi > 62)
    return false;
  IrRange power = {(int64_t)1 << n.lo, (int64_t)1 << n.hi};
  return op == OP_SHL ? product(a, power, out) : divided(a, power, false, out);
}

/* Operations that do not keep order in a simple way are unknown. */
static bool binary(OpCode op, IrRange a, IrRange b, IrRange *out) {
  switch (op) {
  case OP_ADD:
    return sum(a, b, out);
  case OP_SUB:
    return difference(a, b, out);
  case OP_MUL:
    return product(a, b, out);
  case OP_FLOORDIV:
  case OP_CEILDIV:
    return divided(a, b, op == OP_CEILDIV, out);
  case OP_MOD:
    return remainder_of(a, b, out);
  case OP_MIN2:
    return known(out, base_least(a.lo, b.lo), base_least(a.hi, b.hi));
  case OP_MAX2:
    return known(out, base_most(a.lo, b.lo), base_most(a.hi, b.hi));
  case OP_AND:
  case OP_OR:
  case OP_XOR:
    return bits(op, a, b, out);
  case OP_SHL:
  case OP_SHR:
    return shifted(op, a, b, out);
  default:
    return false;
  }
}

/* u64 beyond int64 is never known here. */
static bool constant(const IrExpr *e, IrRange *out) {
  int64_t c;
  return ir_is_const(e, &c) && (e->type != DT_U64 || c >= 0) && known(out, c, c);
}

/* A choice has the range of both sides; a cast of an integer keeps the value, or it does not fit.
 */
bool ir_range_step(const IrExpr *e, IrRangeOf *of, void *ctx, IrRange *out) {
  IrRange a, b, zero = {0, 0};
  switch (e->op) {
  case OP_CONST:
    return constant(e, out);
  case OP_CAST:
    return (e->arg[0]->type == DT_BOOL || dtype_is_int(e->arg[0]->type)) && of(ctx, e->arg[0], out);
  case OP_NEG:
    return of(ctx, e->arg[0], &a) && difference(zero, a, out);
  case OP_POPCOUNT:
  case OP_CLZ:
    return known(out, 0, (int64_t)dtype_bits(e->arg[0]->type));
  case OP_SELECT:
    return of(ctx, e->arg[1], &a) && of(ctx, e->arg[2], &b) &&
           known(out, base_least(a.lo, b.lo), base_most(a.hi, b.hi));
  default:
    return e->nargs == 2 && of(ctx, e->arg[0], &a) && of(ctx, e->arg[1], &b) &&
           binary(e->op, a, b, out);
  }
}

/* ---------------------------------------------------------------- over stated ranges */

/* Both ends must be known: half a range is of no use to a check of bounds. */
static bool of_var(const IrVar *v, IrRange *out) {
  return v->lo != IR_NO_RANGE_LO && v->hi != IR_NO_RANGE_HI && known(out, v->lo, v->hi);
}

/* Depth is bounded: beyond it nothing is known, which is always right. */
static bool stated(void *ctx, const IrExpr *e, IrRange *out) {
  int depth = *(int *)ctx + 1;
  if (!dtype_is_int(e->type) || depth > RANGE_DEPTH)
    return false;
  if (e->op == OP_VAR)
    return of_var(e->as.var, out);
  return ir_range_step(e, stated, &depth, out) && ir_range_fits(*out, e->type);
}

bool ir_range(const IrExpr *e, int64_t *lo, int64_t *hi) {
  IrRange r;
  int depth = 0;
  if (!stated(&depth, e, &r))
    return false;
  *lo = r.lo;
  *hi = r.hi;
  return true;
}
