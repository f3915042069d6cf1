/* dot.c: DOT, and products of host matrices.
 *
 * In: views of rank 2 or host matrices of any strides. Out: c, each element one chain of fused
 * multiply-adds with k ascending. Operands that the kernel cannot read where they lie (stored form,
 * integers of other widths, b without unit columns) are unpacked to scratch first. Tests:
 * tests/unit/check_eval_product.c, check_eval.c.
 * Fragments of narrow floats are f32 on their grid, so most operands are read where they lie; a
 * transposed one is turned first, because the kernel wants the columns of b side by side.
 * Integers of 8 bits are widened to 32, others to 64: their products wrap, in any order the same.
 */
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include "run.h"
#include "sched.h"
#include "noise.h"
#include "watch.h"

/* ---------------------------------------------------------------- transposing */

#if defined(__SSE2__)
static void transpose4(const float *src, int64_t ss, float *dst, int64_t ds) {
  __m128 a = _mm_loadu_ps(src), b = _mm_loadu_ps(src + ss), c = _mm_loadu_ps(src + 2 * ss),
         d = _mm_loadu_ps(src + 3 * ss);
  _MM_TRANSPOSE4_PS(a, b, c, d);
  _mm_storeu_ps(dst, a);
  _mm_storeu_ps(dst + ds, b);
  _mm_storeu_ps(dst + 2 * ds, c);
  _mm_storeu_ps(dst + 3 * ds, d);
}
#else
static void transpose4(const float *src, int64_t ss, float *dst, int64_t ds) {
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++)
      dst[j * ds + i] = src[i * ss + j];
}
#endif

/* Four by four in registers; the ragged rest by elements. */
void eval_transpose(const float *src, int64_t stride, float *dst, int64_t k, int64_t n) {
  int64_t j = 0;
  for (; j + 4 <= n; j += 4) {
    int64_t p = 0;
    for (; p + 4 <= k; p += 4)
      transpose4(src + j * stride + p, stride, dst + p * n + j, n);
    for (; p < k; p++)
      for (int64_t i = j; i < j + 4; i++)
        dst[p * n + i] = src[i * stride + p];
  }
  for (; j < n; j++)
    for (int64_t p = 0; p < k; p++)
      dst[p * n + j] = src[j * stride + p];
}

/* ---------------------------------------------------------------- operands */

/* rows x cols elements of compute type t, at row and col strides. */
typedef struct Operand {
  const void *p;
  int64_t row, col;
} Operand;

/* All of it as elements of type `acc`'s operands, row-major, at `to`. */
static void unpack(const EvalMem *m, int64_t base, int64_t row, int64_t col, int64_t rows,
                   int64_t cols, DType to, void *room, void *line, OpIsa isa) {
  OpStrip cast = dtype_compute(m->dtype) == to ? NULL : op_strip_on(isa, OP_CAST, m->dtype, to);
  size_t size = dtype_size(to);
  const void *one[1] = {line};
  for (int64_t i = 0; i < rows; i++) {
    char *dst = (char *)room + (size_t)(i * cols) * size;
    eval_mem_gather(m, base + i * row, col, cast ? line : dst, cols);
    if (cast)
      cast((size_t)cols, dst, one);
  }
}

/* Where an operand of the product can be read; room has space for all of it, line for a row.
 * unit: its columns must be neighbours. */
static Operand operand(const EvalView *v, DType to, bool unit, void *room, void *line, OpIsa isa) {
  const EvalMem *m = v->mem;
  int64_t rows = v->extent[0], cols = v->extent[1];
  bool as_is = !mem_packed(m) && dtype_compute(m->dtype) == to;
  if (as_is && (!unit || v->stride[1] == 1))
    return (Operand){eval_mem_at(m, v->base), v->stride[0], v->stride[1]};
  if (as_is && to == DT_F32 && v->stride[0] == 1) {
    eval_transpose(eval_mem_at(m, v->base), v->stride[1], room, rows, cols);
    return (Operand){room, cols, 1};
  }
  unpack(m, v->base, v->stride[0], v->stride[1], rows, cols, to, room, line, isa);
  return (Operand){room, cols, 1};
}

/* Whether products of any two elements are exact in f32 and far from its ends: then rounding after
 * the product and after the sum equals rounding once. */
static bool moderate(const Operand *x, int64_t rows, int64_t cols) {
  const float *p = x->p;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++) {
      float f = p[i * x->row + j * x->col];
      f = f < 0 ? -f : f;
      if (f != 0 && !(f > 0x1p-50f && f < 0x1p60f))
        return false;
    }
  return true;
}

/* Asked for machines without fused multiply-add only: with it nothing has to be exact. */
static bool exact_products(const EvalTile *t, DType type) {
  if (type == DT_F16 || type == DT_F8E4M3 || type == DT_F8E5M2)
    return true;
  if (type != DT_BF16)
    return false;
  Operand a = {t->a, t->ars, t->acs}, b = {t->b, t->brs, 1};
  return moderate(&a, t->m, t->k) && moderate(&b, t->k, t->n);
}

/* The accumulator's type chooses the kernel. */
static void run_tile(const EvalKernels *kernels, bool baseline, EvalTile *t, DType type) {
  t->exact = baseline && exact_products(t, type);
  switch (op_product_type(type, type)) {
  case DT_F32:
    kernels->f32(t);
    break;
  case DT_F64:
    kernels->f64(t);
    break;
  case DT_I32:
    kernels->i32(t);
    break;
  default:
    kernels->i64(t);
  }
}

/* ---------------------------------------------------------------- DOT */

/* Parts of the scratch start on cache lines. */
static size_t to_line(size_t n) {
  return (n + 63) & ~(size_t)63;
}

/* Sema checks extents it knows; regions in hand-written IR come here. */
static EvalResult fault_extents(EvalAgent *a, const EvalView *x, const EvalView *y) {
  return eval_fault(a, E0456, "the inner extents of this product differ: %lld and %lld",
                    (long long)x->extent[1], (long long)y->extent[0]);
}

/* c where it lies, or set aside in the accumulator's type. */
static void *open_result(const EvalView *v, DType acc, bool apart, bool accumulate, void *room,
                         void *line, OpIsa isa, int64_t *row) {
  const EvalMem *m = v->mem;
  *row = v->stride[0];
  if (!apart && !mem_packed(m) && m->dtype == acc && v->stride[1] == 1)
    return eval_mem_at(m, v->base);
  *row = v->extent[1];
  if (accumulate)
    unpack(m, v->base, v->stride[0], v->stride[1], v->extent[0], v->extent[1], acc, room, line,
           isa);
  return room;
}

/* A result set aside is converted once, at the end. */
static void close_result(const EvalView *v, DType acc, const void *from, void *line, OpIsa isa) {
  const EvalMem *m = v->mem;
  if (from == eval_mem_at(m, v->base))
    return;
  OpStrip cast = m->dtype == acc ? NULL : op_strip_on(isa, OP_CAST, acc, m->dtype);
  size_t size = dtype_size(acc);
  for (int64_t i = 0; i < v->extent[0]; i++) {
    const void *row = (const char *)from + (size_t)(i * v->extent[1]) * size;
    if (cast)
      cast((size_t)v->extent[1], line, &row);
    eval_mem_scatter(m, v->base + i * v->stride[0], v->stride[1], cast ? line : row, v->extent[1]);
  }
}

/* One piece of scratch holds what must be unpacked of all three. */
EvalResult eval_dot_product(EvalAgent *a, const EvalDotCode *c, EvalView *x, EvalView *y,
                            EvalView *z) {
  DType type = x->mem->dtype, acc = op_product_type(type, type);
  int64_t m = x->extent[0], k = x->extent[1], n = y->extent[1];
  size_t size = dtype_size(acc);
  size_t as = to_line((size_t)(m * k) * size), bs = to_line((size_t)(k * n) * size),
         cs = to_line((size_t)(m * n) * size), longest = (size_t)(k > n ? k : n);
  char *room = eval_block_scratch(a->block, as + bs + cs + longest * 8 + 64);
  if (!room)
    return eval_fault(a, E0459, "out of memory");
  char *line = room + as + bs + cs;
  OpIsa isa = a->block->isa;
  Operand p = operand(x, acc, false, room, line, isa);
  Operand q = operand(y, acc, true, room + as, line, isa);
  EvalTile t = {.m = m, .n = n, .k = k, .a = p.p, .b = q.p, .ars = p.row, .acs = p.col};
  t.brs = q.row;
  t.accumulate = c->accumulate;
  bool apart = z->mem == x->mem || z->mem == y->mem;
  t.c = open_result(z, acc, apart, c->accumulate, room + as + bs, line, isa, &t.crs);
  run_tile(a->block->kernels, isa == OPS_BASELINE, &t, type);
  close_result(z, acc, t.c, line, isa);
  return EVAL_OK;
}

/* Operands must be written whole; so must an accumulator that is added to. */
EvalResult eval_dot_views(EvalAgent *a, const EvalDotCode *c, EvalView *x, EvalView *y,
                          EvalView *z) {
  EvalResult r = eval_region_resolve(a, &c->a, NULL, x);
  if (r == EVAL_OK)
    r = eval_region_read(a, x);
  if (r == EVAL_OK)
    r = eval_region_resolve(a, &c->b, NULL, y);
  if (r == EVAL_OK)
    r = eval_region_read(a, y);
  if (r == EVAL_OK)
    r = eval_region_resolve(a, &c->c, NULL, z);
  if (r == EVAL_OK && c->accumulate)
    r = eval_region_read(a, z);
  if (r != EVAL_OK)
    return r;
  if (x->rank != 2 || y->rank != 2 || z->rank != 2 || x->extent[1] != y->extent[0])
    return fault_extents(a, x, y);
  if (z->extent[0] != x->extent[0] || z->extent[1] != y->extent[1])
    return eval_fault(a, E0456, "the result of this product has another shape");
  return EVAL_OK;
}

/* The operands are looked at only where the result holds something special. */
static void watch_product(EvalAgent *a, const EvalView *x, const EvalView *y, const EvalView *z,
                          unsigned had) {
  if (eval_watch_look(z) & ~had)
    eval_watch_result(a, "the product", z, had | eval_watch_look(x) | eval_watch_look(y));
}

/* At once: nothing else can see what lies between. */
EvalResult eval_dot_run(EvalAgent *a, const EvalDotCode *c) {
  EvalView x, y, z;
  EvalResult r = eval_dot_views(a, c, &x, &y, &z);
  if (r != EVAL_OK)
    return r;
  unsigned had = a->block->watch && c->accumulate ? eval_watch_look(&z) : 0;
  r = eval_dot_product(a, c, &x, &y, &z);
  if (r == EVAL_OK && a->block->watch)
    watch_product(a, &x, &y, &z, had);
  if (r == EVAL_OK && a->block->noise)
    r = eval_noise_product(a, c, &x, &y, &z);
  if (r == EVAL_OK)
    eval_region_mark_written(&z);
  return r;
}
