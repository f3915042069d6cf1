/* special.c: strips of the mathematical functions, and of the pure operations of thread level.
 *
 * Out: the table strip_special, [operation][operand type]. In f32 our own functions of math.inc,
 * the same text as on the GPU; narrow floats are computed in f32 and rounded to their grid once;
 * f64 is the C library's, whose last bit may differ
 * from machine to machine (sqrt, fma, floor and the like are exact and are in arith.c). Tests:
 * tests/unit/check_math.c, check_ops.c.
 */
#include "math_c.h"
#include "tables.h"

GRIDS

/* ---- mathematics -------------------------------------------------------------------------------
 */

/* Strips of a MATH row of ops.def: ts_NAME and ts_NAME_f64 of math.inc. */
#define plain_1(f)                                                                                 \
  STRIP1(f##_f32, float, float, ts_##f(x))                                                         \
  STRIP1(f##_f64, double, double, ts_##f##_f64(x))                                                 \
  NARROW(f, 1)
#define plain_2(f)                                                                                 \
  STRIP2(f##_f32, float, float, ts_##f(x, y))                                                      \
  STRIP2(f##_f64, double, double, ts_##f##_f64(x, y))                                              \
  NARROW(f, 2)
/* Those of angles are written below, since what is near differs. */
#define turned_1(f)

#define PURE(...)
#define REDUCE(...)
#define ATOMIC(...)
#define THREAD(...)
#define MATH(E, f, arity, strips, acc, doc) strips##_##arity(f)
#include "ops.def"

/* The one function that takes integers too (arith.c has those). */
STRIP2(pow_f32, float, float, ts_pow(x, y))
STRIP2(pow_f64, double, double, ts_pow_f64(x, y))
NARROW(pow, 2)

/* Angles of moderate size go through a loop without branches; the others are seen to one by one.
 * Taken in pieces because the result may replace the angle. */
#define TURNING(f, near)                                                                           \
  static size_t f##_f32(size_t n, void *dst, const void *const *src) {                             \
    enum { PIECE = 256 };                                                                          \
    float *d = dst, at[PIECE];                                                                     \
    const float *s = src[0];                                                                       \
    for (size_t k = 0; k < n; k += PIECE) {                                                        \
      size_t m = n - k < PIECE ? n - k : PIECE;                                                    \
      int far = 0;                                                                                 \
      memcpy(at, s + k, m * sizeof *at);                                                           \
      for (size_t i = 0; i < m; i++) {                                                             \
        float x = at[i];                                                                           \
        d[k + i] = near;                                                                           \
        far |= !(x < 65536.0f && x > -65536.0f);                                                   \
      }                                                                                            \
      for (size_t i = 0; far && i < m; i++)                                                        \
        d[k + i] = ts_##f(at[i]);                                                                  \
    }                                                                                              \
    return n;                                                                                      \
  }                                                                                                \
  STRIP1(f##_f64, double, double, ts_##f##_f64(x))                                                 \
  NARROW(f, 1)
/* clang-format off */
TURNING(sin, x == 0.0f ? x : ts_turned(ts_angle_near(x), 0))
TURNING(cos, ts_turned(ts_angle_near(x), 1))
TURNING(tan, x == 0.0f ? x : ts_tan_part(ts_angle_near(x)))
/* clang-format on */

/* ---- packing, descriptors ------------------------------------------------------------------ */

/* The bits of a narrow float on whose grid x already is. */
static inline uint32_t bits_bf16(float x) {
  return f32_bits(x) >> 16;
}
/* Times 2^-112 the float's own exponent field is that of f16; subnormals shift into place. */
static inline uint32_t bits_f16(float x) {
  uint32_t u = f32_bits(x), m = u & 0x7FFFFFFFu;
  uint32_t normal = (m >> 13) - (112u << 10);
  uint32_t small = f32_bits(f32_from(m) + 0x1p-1f) - f32_bits(0x1p-1f);
  uint32_t code = f32_from(m) < 0x1p-14f ? small : normal;
  code = m >= 0x7F800000u ? (m > 0x7F800000u ? 0x7FFF : 0x7C00) : code;
  return (u >> 16 & 0x8000) | code;
}
static inline float float_f16(uint32_t h) {
  uint32_t m = h & 0x7FFF;
  uint32_t finite = f32_bits(f32_from(m << 13) * 0x1p112f);
  uint32_t special = m << 13 | (m > 0x7C00 ? 0x7FC00000u : 0x7F800000u);
  return f32_from((h & 0x8000) << 16 | (m >= 0x7C00 ? special : finite));
}

/* As registers of tensor cores want pairs: the first in the low half. */
STRIP2(pack_bf16, uint32_t, float, bits_bf16(round_bf16(x)) | bits_bf16(round_bf16(y)) << 16)
STRIP2(pack_f16, uint32_t, float, bits_f16(round_f16(x)) | bits_f16(round_f16(y)) << 16)
STRIP1(low_bf16, float, uint32_t, f32_from(x << 16))
STRIP1(high_bf16, float, uint32_t, f32_from(x & 0xFFFF0000u))
STRIP1(low_f16, float, uint32_t, float_f16(x))
STRIP1(high_f16, float, uint32_t, float_f16(x >> 16))

/* Bytes of a pair of words, as numbers in the digits of a selector say (PTX ISA, prmt). */
static inline uint32_t permuted(uint64_t bytes, uint32_t selector) {
  uint32_t out = 0;
  for (int i = 0; i < 4; i++) {
    uint32_t digit = selector >> (4 * i), byte = bytes >> (8 * (digit & 7)) & 0xFF;
    byte = digit & 8 ? (byte >> 7) * 0xFF : byte;
    out |= byte << (8 * i);
  }
  return out;
}
STRIP3(prmt, uint32_t, uint32_t, permuted(x | (uint64_t)y << 32, z))

/* The matrix descriptor of wgmma: the fields hold addresses and offsets divided by 16. The
 * address is relative to shared memory, whose base the evaluator puts at 1024. */
static inline uint64_t descriptor(int64_t address, int64_t leading, int64_t stride, int64_t code) {
  uint64_t at = (uint64_t)address + 1024;
  return (at >> 4 & 0x3FFF) | ((uint64_t)leading >> 4 & 0x3FFF) << 16 |
         ((uint64_t)stride >> 4 & 0x3FFF) << 32 | ((uint64_t)code & 3) << 62;
}
#define DESC(s, T)                                                                                 \
  static size_t desc_##s(size_t n, void *dst, const void *const *src) {                            \
    uint64_t *d = dst;                                                                             \
    const T *a = src[0], *b = src[1], *c = src[2], *e = src[3];                                    \
    for (size_t i = 0; i < n; i++)                                                                 \
      d[i] = descriptor((int64_t)a[i], (int64_t)b[i], (int64_t)c[i], (int64_t)e[i]);               \
    return n;                                                                                      \
  }
DESC(i32, int32_t)
DESC(u32, uint32_t)
DESC(i64, int64_t)
DESC(u64, uint64_t)

/* Stand-ins for hardware approximations: within their bounds, but the same bits everywhere. */
STRIP1(ex2_f32, float, float, ts_ex2(x))
STRIP1(rcp_f32, float, float, 1.0f / x)

const OpStrip ISA(strip_special)[OP_COUNT][DT_COUNT] = {
#define MATH(E, f, arity, strips, acc, doc) [OP_##E] = {ROW_ROUNDED(f)},
#include "ops.def"
    [OP_POW] = {ROW_ROUNDED(pow)},
    [OP_EX2] = {[DT_F32] = ex2_f32},
    [OP_RCP] = {[DT_F32] = rcp_f32},
    [OP_PACK_BF16] = {[DT_F32] = pack_bf16},
    [OP_PACK_F16] = {[DT_F32] = pack_f16},
    [OP_LOW_BF16] = {[DT_U32] = low_bf16},
    [OP_HIGH_BF16] = {[DT_U32] = high_bf16},
    [OP_LOW_F16] = {[DT_U32] = low_f16},
    [OP_HIGH_F16] = {[DT_U32] = high_f16},
    [OP_PRMT] = {[DT_U32] = prmt},
    [OP_DESC] =
        {[DT_I32] = desc_i32, [DT_U32] = desc_u32, [DT_I64] = desc_i64, [DT_U64] = desc_u64},
};
