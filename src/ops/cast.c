/* cast.c: strips of conversions, bit casts and shifts.
 *
 * Out: strip_cast and strip_bitcast, [from][to]; strip_shl and strip_shr, [operand][count]. Always
 * holds (the manual, Types): one rounding to nearest even, f8 saturating; float to integer
 * truncates and saturates, NaN gives 0; integers wrap; a shift by a negative count or beyond the
 * width gives 0, or the sign. Tests: tests/unit/check_ops.c.
 */
#include "math_c.h"
#include "tables.h"

/* ---- integers to integers and floats -----------------------------------------------------------
 */

#define TO_INT(s, T, d, D) STRIP1(cast_##s##_##d, D, T, (D)x)
#define TO_INTS(s, T, W)                                                                           \
  TO_INT(s, T, u8, uint8_t)                                                                        \
  TO_INT(s, T, u16, uint16_t)                                                                      \
  TO_INT(s, T, u32, uint32_t)                                                                      \
  TO_INT(s, T, u64, uint64_t)                                                                      \
  STRIP1(cast_##s##_bool, uint8_t, T, x != 0)                                                      \
  STRIP1(cast_##s##_f32, float, T, x)                                                              \
  STRIP1(cast_##s##_f64, double, T, x)
/* Between integers only bits move: sign extension is C's conversion of the source's type. */
EACH_INT(TO_INTS)

/* Integers of up to 24 bits are floats exactly. Wider ones are beyond f16 and f8 wherever a float
 * does not hold them, so there too rounding twice is rounding once; bf16 reaches further. */
#define TO_NARROW(s, T, W)                                                                         \
  STRIP1(cast_##s##_f16, float, T, round_f16((float)x))                                            \
  STRIP1(cast_##s##_f8e4m3, float, T, round_f8e4m3((float)x))                                      \
  STRIP1(cast_##s##_f8e5m2, float, T, round_f8e5m2((float)x))
EACH_INT(TO_NARROW)

/* Magnitudes of more than 53 bits, made odd where bits are lost, so that they are exact as doubles.
 */
static inline double odd_u64(uint64_t m) {
  uint64_t odd = (m >> 11 | ((m & 0x7FF) != 0)) << 11;
  return (double)(m >> 53 ? odd : m);
}
/* By magnitude, so that odd rounding is toward zero from both sides. */
static inline double odd_i64(int64_t x) {
  return x < 0 ? -odd_u64(0 - (uint64_t)x) : odd_u64((uint64_t)x);
}
/* Exact as floats: no detour. */
#define SMALL_TO_BF16(s, T) STRIP1(cast_##s##_bf16, float, T, round_bf16((float)x))
SMALL_TO_BF16(i8, int8_t)
SMALL_TO_BF16(i16, int16_t)
SMALL_TO_BF16(u8, uint8_t)
SMALL_TO_BF16(u16, uint16_t)
STRIP1(cast_i32_bf16, float, int32_t, round_bf16(ts_f64_to_odd((double)x)))
STRIP1(cast_u32_bf16, float, uint32_t, round_bf16(ts_f64_to_odd((double)x)))
STRIP1(cast_i64_bf16, float, int64_t, round_bf16(ts_f64_to_odd(odd_i64(x))))
STRIP1(cast_u64_bf16, float, uint64_t, round_bf16(ts_f64_to_odd(odd_u64(x))))

/* ---- floats ------------------------------------------------------------------------------------
 */

/* least and beyond are exact in F: the conversion sees only values that fit. */
#define SATURATE(s, F, d, D, least, beyond, min, max)                                              \
  STRIP1(cast_##s##_##d, D, F,                                                                     \
         x >= (F)beyond  ? max                                                                     \
         : x <= (F)least ? min                                                                     \
         : x == x        ? (D)(x > (F)least && x < (F)beyond ? x : 0)                              \
                         : (D)0)
#define TO_SATURATED(s, F)                                                                         \
  SATURATE(s, F, i8, int8_t, -128, 128, INT8_MIN, INT8_MAX)                                        \
  SATURATE(s, F, i16, int16_t, -32768, 32768, INT16_MIN, INT16_MAX)                                \
  SATURATE(s, F, i32, int32_t, -0x1p31, 0x1p31, INT32_MIN, INT32_MAX)                              \
  SATURATE(s, F, i64, int64_t, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX)                              \
  SATURATE(s, F, u8, uint8_t, 0, 256, 0, UINT8_MAX)                                                \
  SATURATE(s, F, u16, uint16_t, 0, 65536, 0, UINT16_MAX)                                           \
  SATURATE(s, F, u32, uint32_t, 0, 0x1p32, 0, UINT32_MAX)                                          \
  SATURATE(s, F, u64, uint64_t, 0, 0x1p64, 0, UINT64_MAX)                                          \
  STRIP1(cast_##s##_bool, uint8_t, F, x != 0)
TO_SATURATED(f32, float)
TO_SATURATED(f64, double)

/* Narrow to f32, and to wider narrow types, is what compute form already is. */
STRIP1(cast_f32_f32, float, float, x)
STRIP1(cast_f32_f64, double, float, x)
STRIP1(cast_f64_f32, float, double, x)
#define FLOAT_TO_NARROW(t)                                                                         \
  STRIP1(cast_f32_##t, float, float, round_##t(x))                                                 \
  STRIP1(cast_f64_##t, float, double, round_##t(ts_f64_to_odd(x)))
FLOAT_TO_NARROW(f16)
FLOAT_TO_NARROW(bf16)
FLOAT_TO_NARROW(f8e4m3)
FLOAT_TO_NARROW(f8e5m2)
/* A value of a type that the target holds exactly moves as it is; f64 to f64, u8 to u8 likewise. */
STRIP1(cast_f64_f64, double, double, x)

#define CASTS_INT(s)                                                                               \
  {                                                                                                \
    [DT_BOOL] = cast_##s##_bool, [DT_I8] = cast_##s##_u8, [DT_I16] = cast_##s##_u16,               \
    [DT_I32] = cast_##s##_u32, [DT_I64] = cast_##s##_u64, [DT_U8] = cast_##s##_u8,                 \
    [DT_U16] = cast_##s##_u16, [DT_U32] = cast_##s##_u32, [DT_U64] = cast_##s##_u64,               \
    [DT_F16] = cast_##s##_f16, [DT_BF16] = cast_##s##_bf16, [DT_F32] = cast_##s##_f32,             \
    [DT_F64] = cast_##s##_f64, [DT_F8E4M3] = cast_##s##_f8e4m3, [DT_F8E5M2] = cast_##s##_f8e5m2    \
  }
#define CASTS_FLOAT(s)                                                                             \
  {                                                                                                \
    [DT_BOOL] = cast_##s##_bool, [DT_I8] = cast_##s##_i8, [DT_I16] = cast_##s##_i16,               \
    [DT_I32] = cast_##s##_i32, [DT_I64] = cast_##s##_i64, [DT_U8] = cast_##s##_u8,                 \
    [DT_U16] = cast_##s##_u16, [DT_U32] = cast_##s##_u32, [DT_U64] = cast_##s##_u64,               \
    [DT_F16] = cast_##s##_f16, [DT_BF16] = cast_##s##_bf16, [DT_F32] = cast_##s##_f32,             \
    [DT_F64] = cast_##s##_f64, [DT_F8E4M3] = cast_##s##_f8e4m3, [DT_F8E5M2] = cast_##s##_f8e5m2    \
  }

const OpStrip ISA(strip_cast)[DT_COUNT][DT_COUNT] = {
    [DT_BOOL] = CASTS_INT(u8), /* a bool is 0 or 1 */
    [DT_I8] = CASTS_INT(i8),        [DT_I16] = CASTS_INT(i16),      [DT_I32] = CASTS_INT(i32),
    [DT_I64] = CASTS_INT(i64),      [DT_U8] = CASTS_INT(u8),        [DT_U16] = CASTS_INT(u16),
    [DT_U32] = CASTS_INT(u32),      [DT_U64] = CASTS_INT(u64),      [DT_F16] = CASTS_FLOAT(f32),
    [DT_BF16] = CASTS_FLOAT(f32),   [DT_F32] = CASTS_FLOAT(f32),    [DT_F64] = CASTS_FLOAT(f64),
    [DT_F8E4M3] = CASTS_FLOAT(f32), [DT_F8E5M2] = CASTS_FLOAT(f32),
};

/* ---- bit casts ---------------------------------------------------------------------------------
 */

STRIP1(bits_8, Bits8, Bits8, x)
STRIP1(bits_16, Bits16, Bits16, x)
STRIP1(bits_32, Bits32, Bits32, x)
STRIP1(bits_64, Bits64, Bits64, x)
/* Any bits but 0 are true. */
STRIP1(bits_to_bool, uint8_t, Bits8, x != 0)

/* To and from the stored form of a narrow float; several elements at a time through a buffer. */
static inline size_t through_stored(size_t n, const char *src, DType from, char *dst, DType to) {
  enum { PIECE = 512 };
  char stored[PIECE * 2];
  size_t in = dtype_compute_size(from), out = dtype_compute_size(to);
  for (size_t i = 0; i < n; i += PIECE) {
    size_t m = n - i < PIECE ? n - i : PIECE;
    dtype_pack(from, src + i * in, stored, m);
    dtype_unpack(to, stored, dst + i * out, m);
  }
  return n;
}
#define STORED(name, from, to)                                                                     \
  static size_t name(size_t n, void *dst, const void *const *src) {                                \
    return through_stored(n, src[0], from, dst, to);                                               \
  }
STORED(f16_to_bits, DT_F16, DT_U16)
STORED(bf16_to_bits, DT_BF16, DT_U16)
STORED(f8e4m3_to_bits, DT_F8E4M3, DT_U8)
STORED(f8e5m2_to_bits, DT_F8E5M2, DT_U8)
STORED(bits_to_f16, DT_U16, DT_F16)
STORED(bits_to_bf16, DT_U16, DT_BF16)
STORED(bits_to_f8e4m3, DT_U8, DT_F8E4M3)
STORED(bits_to_f8e5m2, DT_U8, DT_F8E5M2)
STORED(f16_to_bf16_bits, DT_F16, DT_BF16)
STORED(bf16_to_f16_bits, DT_BF16, DT_F16)
STORED(f8e4m3_to_f8e5m2_bits, DT_F8E4M3, DT_F8E5M2)
STORED(f8e5m2_to_f8e4m3_bits, DT_F8E5M2, DT_F8E4M3)
STORED(f8e4m3_to_bool_bits, DT_F8E4M3, DT_BOOL)
STORED(f8e5m2_to_bool_bits, DT_F8E5M2, DT_BOOL)

#define BITS_8                                                                                     \
  {                                                                                                \
    [DT_BOOL] = bits_to_bool, [DT_I8] = bits_8, [DT_U8] = bits_8, [DT_F8E4M3] = bits_to_f8e4m3,    \
    [DT_F8E5M2] = bits_to_f8e5m2                                                                   \
  }
#define BITS_16                                                                                    \
  { [DT_I16] = bits_16, [DT_U16] = bits_16, [DT_F16] = bits_to_f16, [DT_BF16] = bits_to_bf16 }
#define BITS_32                                                                                    \
  { [DT_I32] = bits_32, [DT_U32] = bits_32, [DT_F32] = bits_32 }
#define BITS_64                                                                                    \
  { [DT_I64] = bits_64, [DT_U64] = bits_64, [DT_F64] = bits_64 }

const OpStrip ISA(strip_bitcast)[DT_COUNT][DT_COUNT] = {
    [DT_BOOL] = BITS_8,
    [DT_I8] = BITS_8,
    [DT_U8] = BITS_8,
    [DT_F8E4M3] = {[DT_BOOL] = f8e4m3_to_bool_bits,
                   [DT_I8] = f8e4m3_to_bits,
                   [DT_U8] = f8e4m3_to_bits,
                   [DT_F8E4M3] = bits_32,
                   [DT_F8E5M2] = f8e4m3_to_f8e5m2_bits},
    [DT_F8E5M2] = {[DT_BOOL] = f8e5m2_to_bool_bits,
                   [DT_I8] = f8e5m2_to_bits,
                   [DT_U8] = f8e5m2_to_bits,
                   [DT_F8E4M3] = f8e5m2_to_f8e4m3_bits,
                   [DT_F8E5M2] = bits_32},
    [DT_I16] = BITS_16,
    [DT_U16] = BITS_16,
    [DT_F16] = {[DT_I16] = f16_to_bits,
                [DT_U16] = f16_to_bits,
                [DT_F16] = bits_32,
                [DT_BF16] = f16_to_bf16_bits},
    [DT_BF16] = {[DT_I16] = bf16_to_bits,
                 [DT_U16] = bf16_to_bits,
                 [DT_F16] = bf16_to_f16_bits,
                 [DT_BF16] = bits_32},
    [DT_I32] = BITS_32,
    [DT_U32] = BITS_32,
    [DT_F32] = BITS_32,
    [DT_I64] = BITS_64,
    [DT_U64] = BITS_64,
    [DT_F64] = BITS_64,
};

/* ---- shifts ------------------------------------------------------------------------------------
 */

/* y of any integer type: negative or beyond the width shifts everything out. */
#define SHIFT(op, s, T, c, C, inside, outside)                                                     \
  static size_t op##_##s##_##c(size_t n, void *dst, const void *const *src) {                      \
    T *d = dst;                                                                                    \
    const T *a = src[0];                                                                           \
    const C *b = src[1];                                                                           \
    INDEPENDENT                                                                                    \
    for (size_t i = 0; i < n; i++) {                                                               \
      T x = a[i];                                                                                  \
      uint32_t y = (uint64_t)b[i] < 8 * sizeof(T) ? (uint32_t)b[i] : 64;                           \
      d[i] = (T)(y < 64 ? inside : outside);                                                       \
    }                                                                                              \
    return n;                                                                                      \
  }
/* Left shifts in 64 bits: the mask keeps C's rule, the choice above the language's. */
#define SHL(s, T, c, C) SHIFT(shl, s, T, c, C, (uint64_t)x << (y & 63), 0)
#define SHR_U(s, T, c, C) SHIFT(shr, s, T, c, C, x >> (y & (8 * sizeof(T) - 1)), 0)
#define SHR_S(s, T, c, C) SHIFT(shr, s, T, c, C, x >> (y & (8 * sizeof(T) - 1)), x < 0 ? -1 : 0)
/* The count keeps its own type: converting it first could turn 256 into 0. */
#define COUNTS(M, s, T)                                                                            \
  M(s, T, i8, int8_t)                                                                              \
  M(s, T, i16, int16_t)                                                                            \
  M(s, T, i32, int32_t)                                                                            \
  M(s, T, i64, int64_t)                                                                            \
  M(s, T, u8, uint8_t) M(s, T, u16, uint16_t) M(s, T, u32, uint32_t) M(s, T, u64, uint64_t)
#define SHIFTS_U(s, T, W) COUNTS(SHL, s, T) COUNTS(SHR_U, s, T)
#define SHIFTS_S(s, T, W) COUNTS(SHR_S, s, T)
EACH_UNSIGNED(SHIFTS_U)
EACH_SIGNED(SHIFTS_S)

#define BY_COUNT(f)                                                                                \
  {                                                                                                \
    [DT_I8] = f##_i8, [DT_I16] = f##_i16, [DT_I32] = f##_i32, [DT_I64] = f##_i64,                  \
    [DT_U8] = f##_u8, [DT_U16] = f##_u16, [DT_U32] = f##_u32, [DT_U64] = f##_u64                   \
  }
const OpStrip ISA(strip_shl)[DT_COUNT][DT_COUNT] = {
    [DT_I8] = BY_COUNT(shl_u8),   [DT_I16] = BY_COUNT(shl_u16), [DT_I32] = BY_COUNT(shl_u32),
    [DT_I64] = BY_COUNT(shl_u64), [DT_U8] = BY_COUNT(shl_u8),   [DT_U16] = BY_COUNT(shl_u16),
    [DT_U32] = BY_COUNT(shl_u32), [DT_U64] = BY_COUNT(shl_u64)};
const OpStrip ISA(strip_shr)[DT_COUNT][DT_COUNT] = {
    [DT_I8] = BY_COUNT(shr_i8),   [DT_I16] = BY_COUNT(shr_i16), [DT_I32] = BY_COUNT(shr_i32),
    [DT_I64] = BY_COUNT(shr_i64), [DT_U8] = BY_COUNT(shr_u8),   [DT_U16] = BY_COUNT(shr_u16),
    [DT_U32] = BY_COUNT(shr_u32), [DT_U64] = BY_COUNT(shr_u64)};
