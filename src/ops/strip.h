/* strip.h: what the strip files share; private to src/ops.
 *
 * Each strip file (arith.c, cast.c, special.c, fold.c) is compiled once per instruction set, with
 * OPS_ISA the set's name; ISA(x) is then x_baseline, x_v3 or x_v4, and every copy computes the same
 * bits. A strip reads and writes compute form: narrow floats are floats on their own grid. dst may
 * be one of the sources, which is why the loops are told that iterations do not depend on each
 * other rather than that pointers differ. Tests: tests/unit/check_ops.c.
 */
#ifndef TILESH_OPS_STRIP_H
#define TILESH_OPS_STRIP_H

/* Loops over a strip are worth every effort, whatever level the rest is compiled at. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#pragma GCC optimize("O3")
#endif

#include <string.h>

#include "ops.h"

#ifndef OPS_ISA
#define OPS_ISA baseline
#endif
#define OPS_JOIN_(a, b) a##_##b
#define OPS_JOIN(a, b) OPS_JOIN_(a, b)
#define ISA(name) OPS_JOIN(name, OPS_ISA)

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* a loop that stays scalar is no mistake */
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Elements moved by their bits alone, whatever wrote them. */
typedef uint8_t __attribute__((may_alias)) Bits8;
typedef uint16_t __attribute__((may_alias)) Bits16;
typedef uint32_t __attribute__((may_alias)) Bits32;
typedef uint64_t __attribute__((may_alias)) Bits64;

/* A strip of one, two, three operands of C type T with results of type R: x, y, z in expr. */
#define STRIP1(name, R, T, expr)                                                                   \
  static size_t name(size_t n, void *dst, const void *const *src) {                                \
    R *d = dst;                                                                                    \
    const T *a = src[0];                                                                           \
    INDEPENDENT                                                                                    \
    for (size_t i = 0; i < n; i++) {                                                               \
      T x = a[i];                                                                                  \
      d[i] = (R)(expr);                                                                            \
    }                                                                                              \
    return n;                                                                                      \
  }
#define STRIP2(name, R, T, expr)                                                                   \
  static size_t name(size_t n, void *dst, const void *const *src) {                                \
    R *d = dst;                                                                                    \
    const T *a = src[0], *b = src[1];                                                              \
    INDEPENDENT                                                                                    \
    for (size_t i = 0; i < n; i++) {                                                               \
      T x = a[i], y = b[i];                                                                        \
      d[i] = (R)(expr);                                                                            \
    }                                                                                              \
    return n;                                                                                      \
  }
#define STRIP3(name, R, T, expr)                                                                   \
  static size_t name(size_t n, void *dst, const void *const *src) {                                \
    R *d = dst;                                                                                    \
    const T *a = src[0], *b = src[1], *c = src[2];                                                 \
    INDEPENDENT                                                                                    \
    for (size_t i = 0; i < n; i++) {                                                               \
      T x = a[i], y = b[i], z = c[i];                                                              \
      d[i] = (R)(expr);                                                                            \
    }                                                                                              \
    return n;                                                                                      \
  }

/* M(suffix, C type, unsigned type that it wraps in) */
#define EACH_UNSIGNED(M)                                                                           \
  M(u8, uint8_t, uint32_t)                                                                         \
  M(u16, uint16_t, uint32_t) M(u32, uint32_t, uint32_t) M(u64, uint64_t, uint64_t)
#define EACH_SIGNED(M)                                                                             \
  M(i8, int8_t, uint32_t)                                                                          \
  M(i16, int16_t, uint32_t) M(i32, int32_t, uint32_t) M(i64, int64_t, uint64_t)
#define EACH_INT(M) EACH_SIGNED(M) EACH_UNSIGNED(M)

/* Entries of a row of a table by dtype. Signed and unsigned share code where only bits matter. */
#define ROW_WRAP(f)                                                                                \
  [DT_I8] = f##_u8, [DT_I16] = f##_u16, [DT_I32] = f##_u32, [DT_I64] = f##_u64, [DT_U8] = f##_u8,  \
  [DT_U16] = f##_u16, [DT_U32] = f##_u32, [DT_U64] = f##_u64
#define ROW_INT(f)                                                                                 \
  [DT_I8] = f##_i8, [DT_I16] = f##_i16, [DT_I32] = f##_i32, [DT_I64] = f##_i64, [DT_U8] = f##_u8,  \
  [DT_U16] = f##_u16, [DT_U32] = f##_u32, [DT_U64] = f##_u64
/* Floats: where the f32 result is already on the narrow grid, and where it must be rounded to it.
 */
#define ROW_FLOAT(f)                                                                               \
  [DT_F16] = f##_f32, [DT_BF16] = f##_f32, [DT_F8E4M3] = f##_f32, [DT_F8E5M2] = f##_f32,           \
  [DT_F32] = f##_f32, [DT_F64] = f##_f64
#define ROW_ROUNDED(f)                                                                             \
  [DT_F16] = f##_f16, [DT_BF16] = f##_bf16, [DT_F8E4M3] = f##_f8e4m3, [DT_F8E5M2] = f##_f8e5m2,    \
  [DT_F32] = f##_f32, [DT_F64] = f##_f64

/* The narrow versions of an f32 strip: computed in pieces that stay in the cache, then rounded. */
#define NARROW_OF(f, arity, t)                                                                     \
  static size_t f##_##t(size_t n, void *dst, const void *const *src) {                             \
    return in_pieces(n, dst, src, arity, f##_f32, grid_##t);                                       \
  }
#define NARROW(f, arity)                                                                           \
  NARROW_OF(f, arity, f16)                                                                         \
  NARROW_OF(f, arity, bf16) NARROW_OF(f, arity, f8e4m3) NARROW_OF(f, arity, f8e5m2)

static inline uint32_t f32_bits(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
static inline float f32_from(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* Nearest value of a narrow float type, ties to even. Above the least normal number the dropped
 * bits are rounded by adding to the bits; below, all values have one last place, and adding the
 * number `magic` with that last place makes the addition round. over: what magnitudes beyond `last`
 * become. Every NaN becomes the one that unpacking the narrow type's NaN gives. */
static inline float round_to_grid(float x, unsigned drop, float normal, float magic, float last,
                                  float over) {
  uint32_t u = f32_bits(x), sign = u & 0x80000000u, m = u & 0x7FFFFFFFu;
  float small = (f32_from(m) + magic) - magic;
  uint32_t rounded = (m + ((1u << (drop - 1)) - 1 + (m >> drop & 1))) & ~((1u << drop) - 1);
  float y = f32_from(m) < normal ? small : f32_from(rounded);
  y = y > last ? over : y;
  uint32_t nan = 0x7FFFFFFFu & ~((1u << drop) - 1);
  return f32_from(m > 0x7F800000u ? nan : f32_bits(y) | sign);
}
static inline float round_f16(float x) {
  return round_to_grid(x, 13, 0x1p-14f, 0x1p-1f, 65504.0f, __builtin_inff());
}
static inline float round_bf16(float x) {
  return round_to_grid(x, 16, 0.0f, 0.0f, 0x1.FEp127f, __builtin_inff());
}
static inline float round_f8e4m3(float x) {
  return round_to_grid(x, 20, 0x1p-6f, 0x1p14f, 448.0f, 448.0f);
}
static inline float round_f8e5m2(float x) {
  return round_to_grid(x, 21, 0x1p-14f, 0x1p7f, 57344.0f, 57344.0f);
}

#define GRID(t)                                                                                    \
  static void grid_##t(size_t n, float *d) {                                                       \
    INDEPENDENT                                                                                    \
    for (size_t i = 0; i < n; i++)                                                                 \
      d[i] = round_##t(d[i]);                                                                      \
  }
#define GRIDS GRID(f16) GRID(bf16) GRID(f8e4m3) GRID(f8e5m2)

/* src has `arity` pointers; PIECE floats of each stay in the first-level cache. */
static inline size_t in_pieces(size_t n, float *dst, const void *const *src, int arity,
                               OpStrip strip, void (*grid)(size_t n, float *d)) {
  enum { PIECE = 1024 };
  for (size_t i = 0; i < n; i += PIECE) {
    const void *at[3] = {NULL, NULL, NULL};
    for (int k = 0; k < arity; k++)
      at[k] = (const float *)src[k] + i;
    size_t m = n - i < PIECE ? n - i : PIECE;
    strip(m, dst + i, at);
    grid(m, dst + i);
  }
  return n;
}

#endif
