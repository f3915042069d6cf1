/* fold.c: reductions of elements in compute form, along a strip and lane by lane.
 *
 * Out: fold_all and fold_lanes, [operation][element type]. Always holds: a fold takes the elements
 * in ascending order, one after the other, so that cutting a strip in two changes no bit; sums and
 * products widen (the manual, Reductions); NaN stays in max, min, absmax. argmax and argmin keep
 * an index and so are the caller's, by op_better. Tests: tests/unit/check_ops.c.
 */
#include "math_c.h"
#include "tables.h"

/* a: accumulator of type A; x: an element, of type T, converted to A. */
#define FOLD(name, A, T, expr)                                                                     \
  static void all_##name(size_t n, void *acc, const void *src) {                                   \
    const T *s = src;                                                                              \
    A a = *(A *)acc;                                                                               \
    for (size_t i = 0; i < n; i++) {                                                               \
      A x = (A)s[i];                                                                               \
      a = (A)(expr);                                                                               \
    }                                                                                              \
    *(A *)acc = a;                                                                                 \
  }                                                                                                \
  static void lanes_##name(size_t n, void *acc, const void *src) {                                 \
    A *d = acc;                                                                                    \
    const T *s = src;                                                                              \
    INDEPENDENT                                                                                    \
    for (size_t i = 0; i < n; i++) {                                                               \
      A a = d[i];                                                                                  \
      A x = (A)s[i];                                                                               \
      d[i] = (A)(expr);                                                                            \
    }                                                                                              \
  }

/* Sums wrap, so the unsigned type does for both signs. */
#define SUMS(s, A, T)                                                                              \
  FOLD(sum_##s, A, T, a + x)                                                                       \
  FOLD(prod_##s, A, T, a *x)
/* Narrow integers into 32 bits, signed ones by sign extension; floats in f32. */
SUMS(i8, uint32_t, int8_t)
SUMS(i16, uint32_t, int16_t)
SUMS(u8, uint32_t, uint8_t)
SUMS(u16, uint32_t, uint16_t)
SUMS(u32, uint32_t, uint32_t)
SUMS(u64, uint64_t, uint64_t)
SUMS(f32, float, float)
SUMS(f64, double, double)

#define ORDER(s, T, W)                                                                             \
  FOLD(rmax_##s, T, T, x > a ? x : a)                                                              \
  FOLD(rmin_##s, T, T, x < a ? x : a)
EACH_INT(ORDER)
#define ABSMAX_SIGNED(s, T, W)                                                                     \
  FOLD(absmax_##s, T, T, (x < 0 ? (T)((W)0 - (W)x) : x) > a ? (x < 0 ? (T)((W)0 - (W)x) : x) : a)
EACH_SIGNED(ABSMAX_SIGNED)
/* From math.inc: NaN stays whatever its place, +0 beats -0. */
FOLD(rmax_f32, float, float, ts_max(a, x))
FOLD(rmin_f32, float, float, ts_min(a, x))
FOLD(absmax_f32, float, float, ts_max(a, __builtin_fabsf(x)))
FOLD(rmax_f64, double, double, ts_max_f64(a, x))
FOLD(rmin_f64, double, double, ts_min_f64(a, x))
FOLD(absmax_f64, double, double, ts_max_f64(a, __builtin_fabs(x)))
FOLD(any, uint8_t, uint8_t, a | x)
FOLD(all, uint8_t, uint8_t, a &x)

#define FOLDS(way)                                                                                 \
  [OP_SUM] = {WIDENING(way##_sum)}, [OP_PROD] = {WIDENING(way##_prod)},                            \
  [OP_RMAX] = {ROW_INT(way##_rmax), ROW_FLOAT(way##_rmax)},                                        \
  [OP_RMIN] = {ROW_INT(way##_rmin), ROW_FLOAT(way##_rmin)},                                        \
  [OP_ABSMAX] =                                                                                    \
      {[DT_I8] = way##_absmax_i8,   [DT_I16] = way##_absmax_i16, [DT_I32] = way##_absmax_i32,      \
       [DT_I64] = way##_absmax_i64, [DT_U8] = way##_rmax_u8,     [DT_U16] = way##_rmax_u16,        \
       [DT_U32] = way##_rmax_u32,   [DT_U64] = way##_rmax_u64,   ROW_FLOAT(way##_absmax)},         \
  [OP_ANY] = {[DT_BOOL] = way##_any}, [OP_ALL] = {[DT_BOOL] = way##_all}
#define WIDENING(f)                                                                                \
  [DT_BOOL] = f##_u8, [DT_I8] = f##_i8, [DT_I16] = f##_i16, [DT_I32] = f##_u32,                    \
  [DT_I64] = f##_u64, [DT_U8] = f##_u8, [DT_U16] = f##_u16, [DT_U32] = f##_u32,                    \
  [DT_U64] = f##_u64, ROW_FLOAT(f)

const OpFold ISA(fold_all)[OP_COUNT][DT_COUNT] = {FOLDS(all)};
const OpFold ISA(fold_lanes)[OP_COUNT][DT_COUNT] = {FOLDS(lanes)};
