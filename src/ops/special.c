/* special.c: strips of the mathematical functions, and of the pure operations of thread level.
 *
 * Out: the table strip_special, [operation][operand type]. In f32 our own functions of math.inc,
 * the same text as on the GPU; narrow floats are computed in f32 and rounded to their grid once;
 * f64 is the C library's. Tests: tests/unit/check_math.c, check_ops.c.
 */
#include "math_c.h"
#include "tables.h"

/* ---- packing, descriptors ----------------------------------------------------------------------
 */

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

STRIP2(pack_bf16, uint32_t, float, bits_bf16(round_bf16(x)) | bits_bf16(round_bf16(y)) << 16)
STRIP2(pack_f16, uint32_t, float, bits_f16(round_f16(x)) | bits_f16(round_f16(y)) << 16)
STRIP1(low_bf16, float, uint32_t, f32_from(x << 16))
STRIP1(high_bf16, float, uint32_t, f32_from(x & 0xFFFF0000u))
STRIP1(low_f16, float, uint32_t, float_f16(x))
STRIP1(high_f16, float, uint32_t, float_f16(x >> 16))

/* The matrix descriptor of wgmma: the fields hold addresses and offsets divided by 16. The
 * address is relative to shared memory, whose base the evaluator puts at 1024. */
static inline uint64_t descriptor(int64_t address, int64_t leading, int64_t stride, int64_t code) {
  uint64_t at = (uint64_t)(address + 1024);
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

STRIP1(rcp_f32, float, float, 1.0f / x)

const OpStrip ISA(strip_special)[OP_COUNT][DT_COUNT] = {
    [OP_RCP] = {[DT_F32] = rcp_f32},
    [OP_PACK_BF16] = {[DT_F32] = pack_bf16},
    [OP_PACK_F16] = {[DT_F32] = pack_f16},
    [OP_LOW_BF16] = {[DT_U32] = low_bf16},
    [OP_HIGH_BF16] = {[DT_U32] = high_bf16},
    [OP_LOW_F16] = {[DT_U32] = low_f16},
    [OP_HIGH_F16] = {[DT_U32] = high_f16},
    [OP_DESC] =
        {[DT_I32] = desc_i32, [DT_U32] = desc_u32, [DT_I64] = desc_i64, [DT_U64] = desc_u64},
};
