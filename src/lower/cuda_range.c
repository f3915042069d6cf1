/* cuda_range.c: the least and greatest value of integer expressions, as far as they show.
 *
 * Goes in: expressions of a kernel, after the ranges of the variables in them. Comes out: inclusive
 * ranges, and whether an operation can wrap. They serve readable text: plain C operators where
 * nothing can wrap, 32-bit variables where i64 is not needed. Always holds: without knowledge a
 * range is that of the type, so the text is right in any case. Tests: tests/unit/check_cuda.c.
 */
#include "cuda_print.h"

#include <string.h>

typedef struct Wide { /* a range before it is held to its type; fits says that int64 held it */
  Range r;
  bool fits;
} Wide;

Range cuda_type_range(DType t) {
  if (t == DT_BOOL)
    return (Range){0, 1};
  if (!dtype_is_int(t))
    return (Range){INT64_MIN, INT64_MAX};
  uint64_t hi = dtype_int_max(t);
  return (Range){dtype_int_min(t), hi > INT64_MAX ? INT64_MAX : (int64_t)hi};
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static int64_t most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static Wide wide(int64_t lo, int64_t hi) {
  return (Wide){{lo, hi}, true};
}
static Wide no_range(void) {
  return (Wide){{INT64_MIN, INT64_MAX}, false};
}

/* An overflow of 64 bits means nothing is known. */
static Wide add(Range a, Range b) {
  Wide w = {{0, 0}, true};
  if (__builtin_add_overflow(a.lo, b.lo, &w.r.lo) || __builtin_add_overflow(a.hi, b.hi, &w.r.hi))
    return no_range();
  return w;
}

/* Least minus greatest, greatest minus least. */
static Wide sub(Range a, Range b) {
  Wide w = {{0, 0}, true};
  if (__builtin_sub_overflow(a.lo, b.hi, &w.r.lo) || __builtin_sub_overflow(a.hi, b.lo, &w.r.hi))
    return no_range();
  return w;
}

/* The corners are the extremes, whatever the signs. */
static Wide mul(Range a, Range b) {
  int64_t v[4];
  if (__builtin_mul_overflow(a.lo, b.lo, &v[0]) || __builtin_mul_overflow(a.lo, b.hi, &v[1]) ||
      __builtin_mul_overflow(a.hi, b.lo, &v[2]) || __builtin_mul_overflow(a.hi, b.hi, &v[3]))
    return no_range();
  return wide(least(least(v[0], v[1]), least(v[2], v[3])),
              most(most(v[0], v[1]), most(v[2], v[3])));
}

/* By a positive divisor. */
static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}

/* The dividend's extremes over the divisor's: the quotient is monotone in both as long as the
 * divisor is positive. Rounding up adds at most one. */
static Wide divide(Range a, Range b, bool up) {
  if (b.lo < 1 || a.lo == INT64_MIN || a.hi > INT64_MAX - b.hi)
    return no_range();
  Wide w = wide(least(floor_div(a.lo, b.lo), floor_div(a.lo, b.hi)),
                most(floor_div(a.hi, b.lo), floor_div(a.hi, b.hi)));
  w.r.hi += up;
  return w;
}

/* By a positive divisor the remainder is not negative, and not above the dividend. */
static Wide modulo(Range a, Range b) {
  if (b.lo < 1)
    return no_range();
  int64_t hi = b.hi - 1;
  return wide(0, a.lo >= 0 ? least(hi, a.hi) : hi);
}

/* A bitwise or of numbers up to x stays below the next power of two. */
static int64_t all_ones(int64_t x) {
  int64_t m = 0;
  while (m < x)
    m = m * 2 + 1;
  return m;
}

/* Of non-negative operands; a sign bit could be anywhere. */
static Wide bits(OpCode op, Range a, Range b) {
  if (op == OP_AND && a.lo >= 0 && b.lo >= 0)
    return wide(0, least(a.hi, b.hi));
  if (op == OP_AND && (a.lo >= 0 || b.lo >= 0))
    return wide(0, a.lo >= 0 ? a.hi : b.hi);
  if (a.lo >= 0 && b.lo >= 0)
    return wide(0, all_ones(most(a.hi, b.hi)));
  return no_range();
}

/* A multiplication or division by a power of two. */
static Wide shift(OpCode op, Range a, Range n) {
  if (n.lo < 0 || n.hi > 62)
    return no_range();
  Range power = {(int64_t)1 << n.lo, (int64_t)1 << n.hi};
  return op == OP_SHL ? mul(a, power) : divide(a, power, false);
}

/* The hardware bounds its indices: grids have at most 2^31 - 1 blocks along x, 65535 along y and z;
 * a warp 32 lanes; a block as many threads as the kernel says. */
static Wide leaf(const Printer *p, const IrExpr *e) {
  int threads = p->k->threads > 0 ? p->k->threads : 1024;
  switch (e->op) {
  case OP_CONST:
    return e->type == DT_U64 && e->as.value.as.i < 0 ? no_range()
                                                     : wide(e->as.value.as.i, e->as.value.as.i);
  case OP_VAR: {
    Range r = p->var_range[e->as.var->id];
    return wide(r.lo, r.hi);
  }
  case OP_TID:
    return wide(0, threads - 1);
  case OP_LANE:
    return wide(0, 31);
  case OP_WARP:
    return wide(0, (threads + 31) / 32 - 1);
  case OP_BLOCK_X:
    return wide(0, INT32_MAX - 1);
  case OP_BLOCK_Y:
  case OP_BLOCK_Z:
    return wide(0, 65534);
  case OP_BLOCKS_X:
    return wide(1, INT32_MAX);
  case OP_POPCOUNT:
  case OP_CLZ:
    return wide(0, 64);
  default:
    return no_range();
  }
}

/* An integer keeps its range; a float could be anything. */
static Wide cast(Printer *p, const IrExpr *e) {
  DType from = e->arg[0]->type;
  if (from != DT_BOOL && !dtype_is_int(from))
    return no_range();
  Range r = cuda_range(p, e->arg[0]);
  return wide(r.lo, r.hi);
}

/* By the operation, from both operands' ranges. */
static Wide two(Printer *p, const IrExpr *e) {
  Range a = cuda_range(p, e->arg[0]), b = cuda_range(p, e->arg[1]);
  switch (e->op) {
  case OP_ADD:
    return add(a, b);
  case OP_SUB:
    return sub(a, b);
  case OP_MUL:
    return mul(a, b);
  case OP_MIN2:
    return wide(least(a.lo, b.lo), least(a.hi, b.hi));
  case OP_MAX2:
    return wide(most(a.lo, b.lo), most(a.hi, b.hi));
  case OP_FLOORDIV:
    return divide(a, b, false);
  case OP_CEILDIV:
    return divide(a, b, true);
  case OP_MOD:
    return modulo(a, b);
  case OP_AND:
  case OP_OR:
  case OP_XOR:
    return bits(e->op, a, b);
  case OP_SHL:
  case OP_SHR:
    return shift(e->op, a, b);
  default:
    return no_range();
  }
}

/* Before it is held to the type: whether it fits tells if the operation can wrap. */
static Wide whole(Printer *p, const IrExpr *e) {
  Range zero = {0, 0}, b, c;
  if (!dtype_is_int(e->type) && e->type != DT_BOOL)
    return no_range();
  switch (e->op) {
  case OP_CAST:
    return cast(p, e);
  case OP_NEG:
    return sub(zero, cuda_range(p, e->arg[0]));
  case OP_SELECT:
    b = cuda_range(p, e->arg[1]), c = cuda_range(p, e->arg[2]);
    return wide(least(b.lo, c.lo), most(b.hi, c.hi));
  default:
    return e->nargs == 2 ? two(p, e) : leaf(p, e);
  }
}

/* The table grows with the ids that are asked for; pointers into it live until the next call. */
ExprFact *cuda_fact(Printer *p, const IrExpr *e) {
  while (p->fact.n <= e->id) {
    ExprFact none = {0};
    VEC_PUSH(p->a, &p->fact, none);
  }
  return &p->fact.v[e->id];
}

/* Once a node: expressions do not change, and variables have their range before they are used. */
static void learn(Printer *p, const IrExpr *e) {
  Range type = cuda_type_range(e->type);
  Wide w = whole(p, e);
  bool exact = w.fits && w.r.lo >= type.lo && w.r.hi <= type.hi;
  ExprFact *f = cuda_fact(p, e); /* only now: the table may have grown */
  f->known = true;
  f->exact = exact;
  f->range = exact ? w.r : type;
}

/* The type's own range where nothing better is known, so that callers need no other case. */
Range cuda_range(Printer *p, const IrExpr *e) {
  if (!cuda_fact(p, e)->known)
    learn(p, e);
  return cuda_fact(p, e)->range;
}

bool cuda_exact(Printer *p, const IrExpr *e) {
  (void)cuda_range(p, e);
  return cuda_fact(p, e)->exact;
}

/* Two facts about one value both hold. An empty meeting means code that never runs: either will do.
 */
static Range meet(Range a, Range b) {
  Range r = {most(a.lo, b.lo), least(a.hi, b.hi)};
  return r.lo <= r.hi ? r : a; /* a place that is never reached */
}

/* A let is bound once, so its range is that of its value wherever it is read. */
void cuda_range_let(Printer *p, const IrVar *v, const IrExpr *e) {
  if (dtype_is_int(v->type))
    p->var_range[v->id] = meet(p->var_range[v->id], cuda_range(p, e));
}

/* The index stays between the bounds; the last step may go past them before the test, so a narrow
 * variable needs room for it too. */
void cuda_range_loop(Printer *p, const IrFor *f) {
  Range lo = cuda_range(p, f->lo), hi = cuda_range(p, f->hi), step = cuda_range(p, f->step);
  Range r = {least(lo.lo, hi.lo), most(lo.hi, hi.hi)};
  if (step.lo >= 1)
    r = (Range){lo.lo, most(lo.lo, hi.hi > INT64_MIN ? hi.hi - 1 : hi.hi)};
  p->var_range[f->index->id] = meet(p->var_range[f->index->id], r);
}
