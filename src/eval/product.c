/* product.c: the product kernels of one instruction set; compiled once for each.
 *
 * In: -DEVAL_ISA=baseline, v3 or v4 and the matching -march. Out: eval_kernels_ISA. All give the
 * same bits: where the machine has no fused multiply-add it is emulated, or left out where the
 * products are exact. Tests: tests/unit/check_eval_product.c.
 * The instruction sets differ in the width of a vector and in the size of the register block, never
 * in the order of a chain. Integer products need no block: their order is free, the compiler
 * vectorises.
 */
#include "product.h"

#include <math.h>
#include <string.h>

#ifndef EVAL_ISA
#define EVAL_ISA baseline
#endif
#define PASTE2(a, b) a##b
#define PASTE(a, b) PASTE2(a, b)

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

/* ---------------------------------------------------------------- f32 */

#define T float
#define P(name) PASTE(f32_, name)
#if defined(__AVX512F__)
#define V __m512
#define VN 16
#define MR 14
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, x) _mm512_storeu_ps(p, x)
#define SPLAT(x) _mm512_set1_ps(x)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#elif defined(__AVX2__) && defined(__FMA__)
#define V __m256
#define VN 8
#define MR 6
#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, x) _mm256_storeu_ps(p, x)
#define SPLAT(x) _mm256_set1_ps(x)
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#else
typedef float F32x4 __attribute__((vector_size(16)));
/* Through memcpy: the address need not be aligned. */
static inline F32x4 f32_load(const float *p) {
  F32x4 v;
  memcpy(&v, p, sizeof v);
  return v;
}
static inline void f32_store(float *p, F32x4 v) {
  memcpy(p, &v, sizeof v);
}
#define V F32x4
#define VN 4
#define MR 6
#define LOAD(p) f32_load(p)
#define STORE(p, x) f32_store(p, x)
#define SPLAT(x) ((F32x4){x, x, x, x})
#define FMA(a, b, c) ((a) * (b) + (c))
#define EVAL_NO_FMA 1
#endif
#define NV 2
#include "product.inc"

#ifdef EVAL_NO_FMA
/* A fused multiply-add without the instruction: the product of two floats is exact in a double;
 * the sum is rounded to odd there (its error, found exactly, decides the last bit), and a value
 * rounded to odd with more than two spare bits rounds to float as the exact one would. */
static inline float f32_fused(float a, float b, float c) {
  double p = (double)a * (double)b, q = (double)c;
  double s = p + q;
  double t = s - p;
  double e = (p - (s - t)) + (q - t);
  uint64_t bits;
  memcpy(&bits, &s, sizeof bits);
  /* Not for infinities and NaN, where e is NaN. */
  if ((e > 0.0 || e < 0.0) && !(bits & 1)) {
    bits += (e > 0.0) == (s > 0.0) ? 1 : UINT64_MAX;
    memcpy(&s, &bits, sizeof s);
  }
  return (float)s;
}

/* In the order of the kernel: k outside columns, each element its own chain. */
static void f32_emulated(const EvalTile *t) {
  const float *a = t->a, *b = t->b;
  float *c = t->c;
  for (int64_t i = 0; i < t->m; i++) {
    float *row = c + i * t->crs;
    if (!t->accumulate)
      memset(row, 0, (size_t)t->n * sizeof *row);
    for (int64_t p = 0; p < t->k; p++) {
      float x = a[i * t->ars + p * t->acs];
      const float *y = b + p * t->brs;
      for (int64_t j = 0; j < t->n; j++)
        row[j] = f32_fused(x, y[j], row[j]);
    }
  }
}

static void f32_any(const EvalTile *t) {
  if (t->exact)
    f32_product(t);
  else
    f32_emulated(t);
}
#else
static void f32_any(const EvalTile *t) {
  f32_product(t);
}
#endif

/* ---------------------------------------------------------------- f64 */

#ifndef EVAL_NO_FMA
#define T double
#define P(name) PASTE(f64_, name)
#if defined(__AVX512F__)
#define V __m512d
#define VN 8
#define MR 14
#define LOAD(p) _mm512_loadu_pd(p)
#define STORE(p, x) _mm512_storeu_pd(p, x)
#define SPLAT(x) _mm512_set1_pd(x)
#define FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#else
#define V __m256d
#define VN 4
#define MR 6
#define LOAD(p) _mm256_loadu_pd(p)
#define STORE(p, x) _mm256_storeu_pd(p, x)
#define SPLAT(x) _mm256_set1_pd(x)
#define FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#endif
#define NV 2
#include "product.inc"
#else
/* fma() is correctly rounded everywhere, fast or not. */
static void f64_product(const EvalTile *t) {
  const double *a = t->a, *b = t->b;
  double *c = t->c;
  for (int64_t i = 0; i < t->m; i++) {
    double *row = c + i * t->crs;
    if (!t->accumulate)
      memset(row, 0, (size_t)t->n * sizeof *row);
    for (int64_t p = 0; p < t->k; p++) {
      double x = a[i * t->ars + p * t->acs];
      const double *y = b + p * t->brs;
      for (int64_t j = 0; j < t->n; j++)
        row[j] = fma(x, y[j], row[j]);
    }
  }
}
#endif

/* ---------------------------------------------------------------- integers: the order is free */

#define INTEGER_PRODUCT(name, S, U)                                                                \
  static void name(const EvalTile *t) {                                                            \
    const U *a = t->a, *b = t->b;                                                                  \
    U *c = t->c;                                                                                   \
    for (int64_t i = 0; i < t->m; i++) {                                                           \
      U *row = c + i * t->crs;                                                                     \
      if (!t->accumulate)                                                                          \
        memset(row, 0, (size_t)t->n * sizeof *row);                                                \
      for (int64_t p = 0; p < t->k; p++) {                                                         \
        U x = a[i * t->ars + p * t->acs];                                                          \
        const U *y = b + p * t->brs;                                                               \
        for (int64_t j = 0; j < t->n; j++)                                                         \
          row[j] += x * y[j];                                                                      \
      }                                                                                            \
    }                                                                                              \
  }
INTEGER_PRODUCT(i32_product, int32_t, uint32_t)
INTEGER_PRODUCT(i64_product, int64_t, uint64_t)

const EvalKernels PASTE(eval_kernels_, EVAL_ISA) = {f32_any, f64_product, i32_product, i64_product};
