/* cuda_range.c: what the printer remembers of expressions: ranges, and whether they can wrap.
 *
 * Goes in: expressions of a kernel, after the ranges of the variables in them. Comes out: inclusive
 * ranges, found by ir_range_step from those of variables as the printer goes along and those of
 * what the hardware supplies. They serve readable text: plain C operators where nothing can wrap,
 * 32-bit variables where i64 is not needed. Always holds: without knowledge a range is that of the
 * type, so the text is right in any case. Tests: tests/unit/check_cuda.c.
 */
#include "cuda_print.h"

/* The hardware bounds its indices: grids have at most 2^31 - 1 blocks along x, 65535 along y and z;
 * a warp 32 lanes; a block as many threads as the kernel says. */
static bool leaf(const Printer *p, const IrExpr *e, IrRange *out) {
  int threads = p->k->threads > 0 ? p->k->threads : 1024;
  *out = (IrRange){0, 65534};
  switch (e->op) {
  case OP_VAR:
    *out = p->var_range[e->as.var->id];
    return true;
  case OP_TID:
    out->hi = threads - 1;
    return true;
  case OP_LANE:
    out->hi = 31;
    return true;
  case OP_WARP:
    out->hi = (threads + 31) / 32 - 1;
    return true;
  case OP_BLOCK_X:
    out->hi = INT32_MAX - 1;
    return true;
  case OP_BLOCKS_X:
    *out = (IrRange){1, p->few_blocks ? LOWER_ROOM_BLOCKS : INT32_MAX};
    return true;
  default:
    return e->op == OP_BLOCK_Y || e->op == OP_BLOCK_Z;
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

/* Of an operand. A u64 whose range is that of its type may be above it. */
static bool operand(void *ctx, const IrExpr *e, IrRange *out) {
  *out = cuda_range(ctx, e);
  return e->type != DT_U64 || out->hi < INT64_MAX;
}

/* Once a node: expressions do not change, and variables have their range before they are used. */
static void learn(Printer *p, const IrExpr *e) {
  IrRange r, type = ir_range_of_type(e->type);
  bool whole = dtype_is_int(e->type) || e->type == DT_BOOL;
  bool exact =
      whole && (leaf(p, e, &r) || ir_range_step(e, operand, p, &r)) && ir_range_fits(r, e->type);
  ExprFact *f = cuda_fact(p, e); /* only now: the table may have grown */
  f->known = true;
  f->exact = exact;
  f->range = exact ? r : type;
}

/* The type's own range where nothing better is known, so that callers need no other case. */
IrRange cuda_range(Printer *p, const IrExpr *e) {
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
static IrRange meet(IrRange a, IrRange b) {
  IrRange r = {base_most(a.lo, b.lo), base_least(a.hi, b.hi)};
  return r.lo <= r.hi ? r : a; /* a place that is never reached */
}

/* A let is bound once, so its range is that of its value wherever it is read. */
void cuda_range_let(Printer *p, const IrVar *v, const IrExpr *e) {
  if (dtype_is_int(v->type))
    p->var_range[v->id] = meet(p->var_range[v->id], cuda_range(p, e));
}

/* The index and the step past the end, which a text that just adds takes before it tests; false:
 * those are outside int64. A u64 up to INT64_MAX may be more. */
static bool with_step(Printer *p, const IrFor *f, IrRange *out) {
  IrRange step = cuda_range(p, f->step), hi = cuda_range(p, f->hi), r;
  *out = r = p->var_range[f->index->id];
  if (f->index->type == DT_U64 && hi.hi == INT64_MAX)
    return step.hi <= 1;
  int64_t last = hi.hi > INT64_MIN ? base_least(hi.hi - 1, r.hi) : hi.hi;
  int64_t first = hi.lo < INT64_MAX ? base_most(hi.lo + 1, r.lo) : hi.lo;
  if (step.hi >= 1 && __builtin_add_overflow(last, step.hi, &last))
    return false;
  if (step.lo <= -1 && __builtin_add_overflow(first, step.lo, &first))
    return false;
  *out = (IrRange){base_least(r.lo, first), base_most(r.hi, last)};
  return true;
}

/* The index stays between the bounds. A narrow variable needs room for where the loop begins,
 * though it may run no round, and for the step past its end. */
void cuda_range_loop(Printer *p, const IrFor *f) {
  IrRange lo = cuda_range(p, f->lo), hi = cuda_range(p, f->hi), step = cuda_range(p, f->step), all;
  IrRange r = {base_least(lo.lo, hi.lo), base_most(lo.hi, hi.hi)};
  bool open = f->index->type == DT_U64 && hi.hi == INT64_MAX;
  if (step.lo >= 1 && !open)
    r = (IrRange){lo.lo, base_most(lo.lo, hi.hi > INT64_MIN ? hi.hi - 1 : hi.hi)};
  p->var_range[f->index->id] = meet(p->var_range[f->index->id], r);
  p->var_wide[f->index->id] = !cuda_fits_int(lo) || !with_step(p, f, &all) || !cuda_fits_int(all);
}

/* In the type that the index has in the text: int and unsigned have 32 bits. */
bool cuda_loop_overflows(Printer *p, const IrFor *f) {
  CType t = cuda_var_ctype(p, f->index);
  IrRange all;
  if (!with_step(p, f, &all))
    return true;
  return (t == C_INT && !cuda_fits_int(all)) || (t == C_UINT && all.hi > UINT32_MAX);
}
