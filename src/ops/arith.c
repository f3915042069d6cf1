/* arith.c: strips of arithmetic, bits, comparison and choice, for every type that takes them.
 *
 * Out: the table strip_arith, [operation][operand type]; NULL where the type is not taken. Always
 * holds: integers wrap at their own width; floordiv and mod round to minus infinity, with the least
 * integer divided by -1 wrapping; a lane that divides by zero gives 0 and is returned. Exact on
 * every instruction set (see strip.h). Tests: tests/unit/check_ops.c.
 */
#include <math.h>

#include "tables.h"
#include "math_c.h"

GRIDS

/* ---- wrapping: only the bits matter ------------------------------------------------------------
 */

#define WRAPPING(s, T, W)                                                                          \
  STRIP2(add_##s, T, T, (W)x + (W)y)                                                               \
  STRIP2(sub_##s, T, T, (W)x - (W)y)                                                               \
  STRIP2(mul_##s, T, T, (W)x *(W)y)                                                                \
  STRIP1(neg_##s, T, T, (W)0 - (W)x)                                                               \
  STRIP2(and_##s, T, T, x &y)                                                                      \
  STRIP2(or_##s, T, T, x | y)                                                                      \
  STRIP2(xor_##s, T, T, x ^ y)                                                                     \
  STRIP1(not_##s, T, T, ~(W)x)                                                                     \
  STRIP1(popcount_##s, int32_t, T, __builtin_popcountll(x))                                        \
  STRIP1(clz_##s, int32_t, T,                                                                      \
         x ? __builtin_clzll(x) - (64 - 8 * (int)sizeof(T)) : 8 * (int)sizeof(T))
EACH_UNSIGNED(WRAPPING)

/* A bool is 0 or 1: its complement must be too. */
STRIP1(not_bool, uint8_t, uint8_t, x ^ 1)

/* ---- integers by sign --------------------------------------------------------------------------
 */

/* Order is the type's own, so signed and unsigned differ here. */
#define ORDERED(s, T, W)                                                                           \
  STRIP2(min_##s, T, T, x < y ? x : y)                                                             \
  STRIP2(max_##s, T, T, x > y ? x : y)                                                             \
  STRIP3(clamp_##s, T, T, (x > y ? x : y) < z ? (x > y ? x : y) : z)                               \
  STRIP2(lt_##s, uint8_t, T, x < y)                                                                \
  STRIP2(le_##s, uint8_t, T, x <= y)                                                               \
  STRIP2(gt_##s, uint8_t, T, x > y)                                                                \
  STRIP2(ge_##s, uint8_t, T, x >= y)                                                               \
  STRIP2(eq_##s, uint8_t, T, x == y)                                                               \
  STRIP2(ne_##s, uint8_t, T, x != y)
EACH_INT(ORDERED)

#define SIGNED_ONLY(s, T, W)                                                                       \
  STRIP1(abs_##s, T, T, x < 0 ? (T)((W)0 - (W)x) : x)                                              \
  STRIP1(sign_##s, T, T, (x > 0) - (x < 0))
EACH_SIGNED(SIGNED_ONLY)
#define UNSIGNED_ONLY(s, T, W)                                                                     \
  STRIP1(abs_##s, T, T, x)                                                                         \
  STRIP1(sign_##s, T, T, x > 0)
EACH_UNSIGNED(UNSIGNED_ONLY)

/* Upper halves of 64-bit products: the compiler's own double width. */
__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 WideU;
#define MULHI(s, T, W) STRIP2(mulhi_##s, T, T, (int64_t)x *(int64_t)y >> 8 * sizeof(T))
MULHI(i8, int8_t, )
MULHI(i16, int16_t, )
MULHI(i32, int32_t, )
MULHI(u8, uint8_t, )
MULHI(u16, uint16_t, )
STRIP2(mulhi_u32, uint32_t, uint32_t, (uint64_t)x *(uint64_t)y >> 32)
STRIP2(mulhi_i64, int64_t, int64_t, (Wide)x *(Wide)y >> 64)
STRIP2(mulhi_u64, uint64_t, uint64_t, (WideU)x *(WideU)y >> 64)

/* Divisions. quotient and remainder are for y other than 0 and -1, which come first: -1 so that
 * the least integer wraps instead of trapping. */
#define DIVISION(name, T, W, by_minus_one, value)                                                  \
  static size_t name(size_t n, void *dst, const void *const *src) {                                \
    T *d = dst;                                                                                    \
    const T *a = src[0], *b = src[1];                                                              \
    size_t fault = n;                                                                              \
    for (size_t i = 0; i < n; i++) {                                                               \
      T x = a[i], y = b[i];                                                                        \
      if (y == 0) {                                                                                \
        fault = i < fault ? i : fault;                                                             \
        d[i] = 0;                                                                                  \
      } else if ((T)-1 < (T)1 && y == (T)-1) {                                                     \
        d[i] = (T)(by_minus_one);                                                                  \
      } else {                                                                                     \
        T q = (T)(x / y), r = (T)(x % y);                                                          \
        (void)q, (void)r;                                                                          \
        d[i] = (T)(value);                                                                         \
      }                                                                                            \
    }                                                                                              \
    return fault;                                                                                  \
  }
#define DIVISIONS(s, T, W)                                                                         \
  DIVISION(floordiv_##s, T, W, (W)0 - (W)x, q - (r != 0 && (r < 0) != (y < 0)))                    \
  DIVISION(mod_##s, T, W, 0, r != 0 && (r < 0) != (y < 0) ? r + y : r)                             \
  DIVISION(ceildiv_##s, T, W, (W)0 - (W)x, q + (r != 0 && (r < 0) == (y < 0)))
/* C truncates: where the signs differ and something is left, floor is one less and ceil is C's. */
EACH_SIGNED(DIVISIONS)
#define DIVISIONS_U(s, T, W)                                                                       \
  DIVISION(floordiv_##s, T, W, 0, q)                                                               \
  DIVISION(mod_##s, T, W, 0, r)                                                                    \
  DIVISION(ceildiv_##s, T, W, 0, q + (r != 0))
EACH_UNSIGNED(DIVISIONS_U)

/* By squaring, wrapping; a negative exponent faults. */
#define POWER(s, T, W)                                                                             \
  static size_t pow_##s(size_t n, void *dst, const void *const *src) {                             \
    T *d = dst;                                                                                    \
    const T *a = src[0], *b = src[1];                                                              \
    size_t fault = n;                                                                              \
    for (size_t i = 0; i < n; i++) {                                                               \
      W base = (W)a[i], result = 1;                                                                \
      T e = b[i];                                                                                  \
      if (e < (T)1 && e != 0) {                                                                    \
        fault = i < fault ? i : fault;                                                             \
        result = 0;                                                                                \
      }                                                                                            \
      for (; e > 0; e = (T)(e >> 1), base *= base)                                                 \
        if (e & 1)                                                                                 \
          result *= base;                                                                          \
      d[i] = (T)result;                                                                            \
    }                                                                                              \
    return fault;                                                                                  \
  }
EACH_INT(POWER)

/* ---- floats ------------------------------------------------------------------------------------
 */

#define FLOATS(s, T)                                                                               \
  STRIP2(add_##s, T, T, x + y)                                                                     \
  STRIP2(sub_##s, T, T, x - y)                                                                     \
  STRIP2(mul_##s, T, T, x *y)                                                                      \
  STRIP2(div_##s, T, T, x / y)                                                                     \
  STRIP1(neg_##s, T, T, -x)                                                                        \
  STRIP1(sign_##s, T, T, x > 0 ? (T)1 : x < 0 ? (T)-1 : x == 0 ? (T)0 : x)                         \
  STRIP2(lt_##s, uint8_t, T, x < y)                                                                \
  STRIP2(le_##s, uint8_t, T, x <= y)                                                               \
  STRIP2(gt_##s, uint8_t, T, x > y)                                                                \
  STRIP2(ge_##s, uint8_t, T, x >= y)                                                               \
  STRIP2(eq_##s, uint8_t, T, x == y)                                                               \
  STRIP2(ne_##s, uint8_t, T, x != y)                                                               \
  STRIP1(isnan_##s, uint8_t, T, x != x)                                                            \
  STRIP1(isinf_##s, uint8_t, T, x == (T)INFINITY || x == -(T)INFINITY)
FLOATS(f32, float)
FLOATS(f64, double)

/* Fused by the instruction, or by the library where there is none: rounded once either way. */
STRIP3(fma_f32, float, float, __builtin_fmaf(x, y, z))
STRIP3(fma_f64, double, double, __builtin_fma(x, y, z))
STRIP1(abs_f32, float, float, __builtin_fabsf(x))
STRIP1(abs_f64, double, double, __builtin_fabs(x))
STRIP1(floor_f32, float, float, __builtin_floorf(x))
STRIP1(floor_f64, double, double, __builtin_floor(x))
STRIP1(ceil_f32, float, float, __builtin_ceilf(x))
STRIP1(ceil_f64, double, double, __builtin_ceil(x))
STRIP1(trunc_f32, float, float, __builtin_truncf(x))
STRIP1(trunc_f64, double, double, __builtin_trunc(x))
STRIP1(round_f32, float, float, __builtin_rintf(x))
STRIP1(round_f64, double, double, __builtin_rint(x))
STRIP1(sqrt_f32, float, float, __builtin_sqrtf(x))
STRIP1(sqrt_f64, double, double, __builtin_sqrt(x))

/* What C leaves open (NaN, the sign of zero) is settled in math.inc, as on the device. */
STRIP2(min_f32, float, float, ts_min(x, y))
STRIP2(max_f32, float, float, ts_max(x, y))
STRIP3(clamp_f32, float, float, ts_min(ts_max(x, y), z))
STRIP2(floordiv_f32, float, float, ts_floordiv(x, y))
STRIP2(mod_f32, float, float, ts_mod(x, y))
STRIP2(min_f64, double, double, ts_min_f64(x, y))
STRIP2(max_f64, double, double, ts_max_f64(x, y))
STRIP3(clamp_f64, double, double, ts_min_f64(ts_max_f64(x, y), z))
STRIP2(floordiv_f64, double, double, ts_floordiv_f64(x, y))
STRIP2(mod_f64, double, double, ts_mod_f64(x, y))

/* A fused result of narrow operands goes to its grid in one rounding: the sum is first rounded to
 * odd, which keeps what the second rounding must know. */
#define FMA_NARROW(t) STRIP3(fma_##t, float, float, round_##t(ts_fma_odd(x, y, z)))
FMA_NARROW(f16)
FMA_NARROW(bf16)
FMA_NARROW(f8e4m3)
FMA_NARROW(f8e5m2)

/* f32 has more than twice the digits of the narrow types and two more, so for these operations
 * rounding f32's rounded result is rounding once. */
NARROW(add, 2)
NARROW(sub, 2)
NARROW(mul, 2)
NARROW(div, 2)
NARROW(floordiv, 2)
NARROW(mod, 2)
NARROW(sqrt, 1)

/* ---- choice ------------------------------------------------------------------------------------
 */

#define CHOICE(s, T)                                                                               \
  static size_t select_##s(size_t n, void *dst, const void *const *src) {                          \
    T *d = dst;                                                                                    \
    const uint8_t *c = src[0];                                                                     \
    const T *a = src[1], *b = src[2];                                                              \
    INDEPENDENT                                                                                    \
    for (size_t i = 0; i < n; i++) {                                                               \
      T x = a[i], y = b[i];                                                                        \
      d[i] = c[i] ? x : y;                                                                         \
    }                                                                                              \
    return n;                                                                                      \
  }
CHOICE(8, Bits8)
CHOICE(16, Bits16)
CHOICE(32, Bits32)
CHOICE(64, Bits64)

/* ---- the table ---------------------------------------------------------------------------------
 */

/* Comparisons take bool too, as the bytes 0 and 1. */
#define ROW_COMPARE(f) ROW_INT(f), ROW_FLOAT(f), [DT_BOOL] = f##_u8

const OpStrip ISA(strip_arith)[OP_COUNT][DT_COUNT] = {
    [OP_ADD] = {ROW_WRAP(add), ROW_ROUNDED(add)},
    [OP_SUB] = {ROW_WRAP(sub), ROW_ROUNDED(sub)},
    [OP_MUL] = {ROW_WRAP(mul), ROW_ROUNDED(mul)},
    [OP_DIV] = {ROW_ROUNDED(div)},
    [OP_FLOORDIV] = {ROW_INT(floordiv), ROW_ROUNDED(floordiv)},
    [OP_MOD] = {ROW_INT(mod), ROW_ROUNDED(mod)},
    [OP_POW] = {ROW_INT(pow)}, /* floats: special.c */
    [OP_NEG] = {ROW_WRAP(neg), ROW_FLOAT(neg)},
    [OP_FMA] = {ROW_ROUNDED(fma)},
    [OP_ABS] = {ROW_INT(abs), ROW_FLOAT(abs)},
    [OP_SIGN] = {ROW_INT(sign), ROW_FLOAT(sign)},
    [OP_MIN2] = {ROW_INT(min), ROW_FLOAT(min)},
    [OP_MAX2] = {ROW_INT(max), ROW_FLOAT(max)},
    [OP_CLAMP] = {ROW_INT(clamp), ROW_FLOAT(clamp)},
    [OP_CEILDIV] = {ROW_INT(ceildiv)},
    [OP_MULHI] = {ROW_INT(mulhi)},
    [OP_AND] = {ROW_WRAP(and), [DT_BOOL] = and_u8},
    [OP_OR] = {ROW_WRAP(or), [DT_BOOL] = or_u8},
    [OP_XOR] = {ROW_WRAP(xor), [DT_BOOL] = xor_u8},
    [OP_NOT] = {ROW_WRAP(not ), [DT_BOOL] = not_bool},
    [OP_POPCOUNT] = {ROW_WRAP(popcount)},
    [OP_CLZ] = {ROW_WRAP(clz)},
    [OP_EQ] = {ROW_COMPARE(eq)},
    [OP_NE] = {ROW_COMPARE(ne)},
    [OP_LT] = {ROW_COMPARE(lt)},
    [OP_LE] = {ROW_COMPARE(le)},
    [OP_GT] = {ROW_COMPARE(gt)},
    [OP_GE] = {ROW_COMPARE(ge)},
    [OP_SELECT] = {[DT_BOOL] = select_8,
                   [DT_I8] = select_8,
                   [DT_I16] = select_16,
                   [DT_I32] = select_32,
                   [DT_I64] = select_64,
                   [DT_U8] = select_8,
                   [DT_U16] = select_16,
                   [DT_U32] = select_32,
                   [DT_U64] = select_64,
                   [DT_F16] = select_32,
                   [DT_BF16] = select_32,
                   [DT_F8E4M3] = select_32,
                   [DT_F8E5M2] = select_32,
                   [DT_F32] = select_32,
                   [DT_F64] = select_64},
    [OP_FLOOR] = {ROW_FLOAT(floor)},
    [OP_CEIL] = {ROW_FLOAT(ceil)},
    [OP_ROUND] = {ROW_FLOAT(round)},
    [OP_TRUNC] = {ROW_FLOAT(trunc)},
    [OP_ISNAN] = {ROW_FLOAT(isnan)},
    [OP_ISINF] = {ROW_FLOAT(isinf)},
    [OP_SQRT] = {ROW_ROUNDED(sqrt)},
};
