/* math_c.h: math.inc for C, private to src/ops. The words that math.inc is written in, and the
 * text itself. The CUDA prelude defines the same words and includes the same text.
 */
#ifndef TILESH_OPS_MATH_C_H
#define TILESH_OPS_MATH_C_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define TS_FN static inline __attribute__((unused, always_inline))
#define TS_SLOW static __attribute__((unused, noinline))
#define TS_U32 uint32_t
#define TS_U64 uint64_t
#define TS_I32 int32_t
#define TS_FMA(a, b, c) __builtin_fmaf((a), (b), (c))
#define TS_FMA64(a, b, c) __builtin_fma((a), (b), (c))
#define TS_SQRT(x) __builtin_sqrtf(x)
#define TS_FLOOR(x) __builtin_floorf(x)
#define TS_TRUNC(x) __builtin_truncf(x)
#define TS_FLOOR64(x) __builtin_floor(x)
#define TS_TRUNC64(x) __builtin_trunc(x)
#define TS_BITS(x) ts_c_bits(x)
#define TS_FLOAT(u) ts_c_float(u)
#define TS_BITS64(x) ts_c_bits64(x)
#define TS_FLOAT64(u) ts_c_float64(u)

TS_FN uint32_t ts_c_bits(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
TS_FN float ts_c_float(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}
TS_FN uint64_t ts_c_bits64(double x) {
  uint64_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}
TS_FN double ts_c_float64(uint64_t u) {
  double x;
  memcpy(&x, &u, sizeof x);
  return x;
}

#include "math.inc"

#endif
