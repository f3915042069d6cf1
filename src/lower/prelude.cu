/* prelude.cu: the CUDA text that printed kernels stand on; cuda_prelude.c takes the parts a kernel uses.
 *
 * A line "//@ NAME: NEEDS" opens a part. In a part whose name ends in _@ these stand for a type:
 * @t its C name, @u the unsigned type of its width, @s its suffix (i32 u32 i64 u64), @w its width,
 * @a the type that CUDA's atomicAdd takes.
 * One part a row of ops.def; the mathematics of floats is src/ops/math.inc, the same text as on the CPU.
 * Synchronising operations clobber memory so that the compiler moves no access across them.
 */
//@ words:
#define TS_FN static __device__ __forceinline__
#define TS_SLOW static __device__
#define TS_U32 unsigned
#define TS_U64 unsigned long long
#define TS_I32 int
#define TS_FMA(a, b, c) __fmaf_rn((a), (b), (c))
#define TS_FMA64(a, b, c) __fma_rn((a), (b), (c))
#define TS_SQRT(x) __fsqrt_rn(x)
#define TS_FLOOR(x) floorf(x)
#define TS_TRUNC(x) truncf(x)
#define TS_FLOOR64(x) floor(x)
#define TS_TRUNC64(x) trunc(x)
#define TS_BITS(x) __float_as_uint(x)
#define TS_FLOAT(u) __uint_as_float(u)
#define TS_BITS64(x) ((unsigned long long)__double_as_longlong(x))
#define TS_FLOAT64(u) __longlong_as_double((long long)(u))
//@ fn:
#define TS_FN static __device__ __forceinline__
//@ ts_inf: fn
TS_FN float ts_inf() { return __int_as_float(0x7f800000); }
//@ ts_nan: fn
TS_FN float ts_nan() { return __int_as_float(0x7fc00000); }
//@ ts_inf_f64: fn
TS_FN double ts_inf_f64() { return __longlong_as_double(0x7ff0000000000000ll); }
//@ ts_nan_f64: fn
TS_FN double ts_nan_f64() { return __longlong_as_double(0x7ff8000000000000ll); }
//@ ts_div: fn
TS_FN float ts_div(float a, float b) { return __fdiv_rn(a, b); }
//@ ts_div_f64: fn
TS_FN double ts_div_f64(double a, double b) { return __ddiv_rn(a, b); }
//@ ts_fma: fn
TS_FN float ts_fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
//@ ts_fma_f64: fn
TS_FN double ts_fma_f64(double a, double b, double c) { return __fma_rn(a, b, c); }
//@ ts_abs: fn
TS_FN float ts_abs(float x) { return fabsf(x); }
//@ ts_abs_f64: fn
TS_FN double ts_abs_f64(double x) { return fabs(x); }
//@ ts_sign: fn
TS_FN float ts_sign(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x == 0.0f ? 0.0f : x; }
//@ ts_sign_f64: fn
TS_FN double ts_sign_f64(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x == 0.0 ? 0.0 : x; }
//@ ts_min: fn
/* NaN if either is; -0 is less than +0. */
TS_FN float ts_min(float a, float b) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
//@ ts_max: fn
TS_FN float ts_max(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
//@ ts_clamp: ts_min ts_max
TS_FN float ts_clamp(float x, float lo, float hi) { return ts_min(ts_max(x, lo), hi); }
//@ ts_clamp_f64: ts_min_f64 ts_max_f64
TS_FN double ts_clamp_f64(double x, double lo, double hi) { return ts_min_f64(ts_max_f64(x, lo), hi); }
//@ ts_floor: fn
TS_FN float ts_floor(float x) { return floorf(x); }
//@ ts_floor_f64: fn
TS_FN double ts_floor_f64(double x) { return floor(x); }
//@ ts_ceil: fn
TS_FN float ts_ceil(float x) { return ceilf(x); }
//@ ts_ceil_f64: fn
TS_FN double ts_ceil_f64(double x) { return ceil(x); }
//@ ts_round: fn
TS_FN float ts_round(float x) { return rintf(x); }
//@ ts_round_f64: fn
TS_FN double ts_round_f64(double x) { return rint(x); }
//@ ts_trunc: fn
TS_FN float ts_trunc(float x) { return truncf(x); }
//@ ts_trunc_f64: fn
TS_FN double ts_trunc_f64(double x) { return trunc(x); }
//@ ts_isnan: fn
TS_FN bool ts_isnan(float x) { return x != x; }
//@ ts_isnan_f64: fn
TS_FN bool ts_isnan_f64(double x) { return x != x; }
//@ ts_isinf: fn
TS_FN bool ts_isinf(float x) { return fabsf(x) == __int_as_float(0x7f800000); }
//@ ts_isinf_f64: fn
TS_FN bool ts_isinf_f64(double x) { return fabs(x) == __longlong_as_double(0x7ff0000000000000ll); }
//@ ts_sqrt: fn
TS_FN float ts_sqrt(float x) { return __fsqrt_rn(x); }
//@ ts_sqrt_f64: fn
TS_FN double ts_sqrt_f64(double x) { return __dsqrt_rn(x); }
//@ ts_ex2: fn
TS_FN float ts_ex2(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
//@ ts_rcp: fn
TS_FN float ts_rcp(float x) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
/* ---- integers; a division by zero gives 0, the least integer divided by -1 wraps ------------- */
//@ ts_min_@: fn
TS_FN @t ts_min_@s(@t a, @t b) { return a < b ? a : b; }
//@ ts_max_@: fn
TS_FN @t ts_max_@s(@t a, @t b) { return a > b ? a : b; }
//@ ts_clamp_@: fn
TS_FN @t ts_clamp_@s(@t x, @t lo, @t hi) {
  @t y = x > lo ? x : lo;
  return y < hi ? y : hi;
}
//@ ts_abs_@: fn
TS_FN @t ts_abs_@s(@t x) { return x < (@t)1 ? (@t)((@u)0 - (@u)x) : x; }
//@ ts_sign_u32: fn
TS_FN unsigned ts_sign_u32(unsigned x) { return x != 0u; }
//@ ts_sign_u64: fn
TS_FN unsigned long long ts_sign_u64(unsigned long long x) { return x != 0ull; }
//@ ts_shr_u32: fn
TS_FN unsigned ts_shr_u32(unsigned x, long long n) { return n >= 0 && n < 32 ? x >> (int)n : 0u; }
//@ ts_shr_u64: fn
TS_FN unsigned long long ts_shr_u64(unsigned long long x, long long n) {
  return n >= 0 && n < 64 ? x >> (int)n : 0ull;
}
//@ ts_abs_u32: fn
TS_FN unsigned ts_abs_u32(unsigned x) { return x; }
//@ ts_abs_u64: fn
TS_FN unsigned long long ts_abs_u64(unsigned long long x) { return x; }
//@ ts_sign_@: fn
TS_FN @t ts_sign_@s(@t x) { return x == (@t)0 ? x : x < (@t)1 ? (@t)-1 : (@t)1; }
//@ ts_floordiv_@: fn
TS_FN @t ts_floordiv_@s(@t a, @t b) {
  if (b == (@t)0) return (@t)0;
  if ((@t)-1 < (@t)1 && b == (@t)-1) return (@t)((@u)0 - (@u)a);
  @t q = a / b, r = a % b;
  return r != (@t)0 && (r < (@t)1) != (b < (@t)1) ? q - (@t)1 : q;
}
//@ ts_floordiv_u32: fn
TS_FN unsigned ts_floordiv_u32(unsigned a, unsigned b) { return b == 0u ? 0u : a / b; }
//@ ts_floordiv_u64: fn
TS_FN unsigned long long ts_floordiv_u64(unsigned long long a, unsigned long long b) {
  return b == 0ull ? 0ull : a / b;
}
//@ ts_mod_@: fn
TS_FN @t ts_mod_@s(@t a, @t b) {
  if (b == (@t)0 || b == (@t)-1) return (@t)0;
  @t r = a % b;
  return r != (@t)0 && (r < (@t)1) != (b < (@t)1) ? r + b : r;
}
//@ ts_mod_u32: fn
TS_FN unsigned ts_mod_u32(unsigned a, unsigned b) { return b == 0u ? 0u : a % b; }
//@ ts_mod_u64: fn
TS_FN unsigned long long ts_mod_u64(unsigned long long a, unsigned long long b) {
  return b == 0ull ? 0ull : a % b;
}
//@ ts_short: fn
/* Whether both are numbers of 31 bits, the divisor none of 0: these divide in a third of the time. */
TS_FN bool ts_short(long long a, long long b) { return (unsigned long long)(a | b) < 0x80000000ull && b != 0; }
//@ ts_floordiv_long: fn ts_short ts_floordiv_i64
TS_FN long long ts_floordiv_long(long long a, long long b) {
  return ts_short(a, b) ? (long long)((unsigned)a / (unsigned)b) : ts_floordiv_i64(a, b);
}
//@ ts_mod_long: fn ts_short ts_mod_i64
TS_FN long long ts_mod_long(long long a, long long b) {
  return ts_short(a, b) ? (long long)((unsigned)a % (unsigned)b) : ts_mod_i64(a, b);
}
//@ ts_ceildiv_@: fn
TS_FN @t ts_ceildiv_@s(@t a, @t b) {
  if (b == (@t)0) return (@t)0;
  if ((@t)-1 < (@t)1 && b == (@t)-1) return (@t)((@u)0 - (@u)a);
  @t q = a / b, r = a % b;
  return r != (@t)0 && (r < (@t)1) == (b < (@t)1) ? q + (@t)1 : q;
}
//@ ts_pow_@: fn
TS_FN @t ts_pow_@s(@t base, @t exponent) {
  @u b = (@u)base, r = 1;
  if (exponent < (@t)1 && exponent != (@t)0) return (@t)0;
  for (@u e = (@u)exponent; e != 0; e >>= 1, b *= b)
    if (e & 1) r *= b;
  return (@t)r;
}
//@ ts_mulhi_i32: fn
TS_FN int ts_mulhi_i32(int a, int b) { return __mulhi(a, b); }
//@ ts_mulhi_u32: fn
TS_FN unsigned ts_mulhi_u32(unsigned a, unsigned b) { return __umulhi(a, b); }
//@ ts_mulhi_i64: fn
TS_FN long long ts_mulhi_i64(long long a, long long b) { return __mul64hi(a, b); }
//@ ts_mulhi_u64: fn
TS_FN unsigned long long ts_mulhi_u64(unsigned long long a, unsigned long long b) {
  return __umul64hi(a, b);
}
//@ ts_shl_@: fn
TS_FN @t ts_shl_@s(@t x, long long n) { return n < 0 || n >= @w ? (@t)0 : (@t)((@u)x << (int)n); }
//@ ts_shr_@: fn
TS_FN @t ts_shr_@s(@t x, long long n) {
  return n >= 0 && n < @w ? x >> (int)n : x < (@t)1 && x != (@t)0 ? (@t)-1 : (@t)0;
}
//@ ts_popcount_@: fn
TS_FN int ts_popcount_@s(@t x) { return @w == 64 ? __popcll((long long)x) : __popc((int)x); }
//@ ts_clz_@: fn
TS_FN int ts_clz_@s(@t x) { return @w == 64 ? __clzll((long long)x) : __clz((int)x); }
/* ---- conversions: to nearest even; f8 saturates; floats to integers truncate and saturate ---- */
//@ ts_round_f16: fn
/* To the grid of f16: values of narrow types are kept as floats. */
TS_FN float ts_round_f16(float x) {
  float r;
  asm("{.reg .b16 h; cvt.rn.f16.f32 h, %1; cvt.f32.f16 %0, h;}" : "=f"(r) : "f"(x));
  return r;
}
//@ ts_round_bf16: fn
TS_FN float ts_round_bf16(float x) {
  unsigned short h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return __uint_as_float((unsigned)h << 16);
}
//@ ts_round_f8: fn
/* `bits` bits below the leading one, exponents from `least`, at most `most`. */
TS_FN float ts_round_f8(float x, int bits, int least, float most) {
  int e = (int)(__float_as_uint(x) >> 23 & 255u) - 127;
  e = e < least ? least : e;
  float r = rintf(ldexpf(x, bits - e));
  r = ldexpf(r, e - bits);
  r = r > most ? most : r < -most ? -most : r;
  return x != x ? x : fabsf(x) > most ? copysignf(most, x) : r;
}
//@ ts_round_f8e4m3: ts_round_f8
TS_FN float ts_round_f8e4m3(float x) {
#if __CUDA_ARCH__ >= 890
  float r;
  asm("{.reg .b16 h, l, u; .reg .b32 w; cvt.rn.satfinite.e4m3x2.f32 h, %1, %1;"
      "cvt.rn.f16x2.e4m3x2 w, h; mov.b32 {l, u}, w; cvt.f32.f16 %0, l;}" : "=f"(r) : "f"(x));
  return x != x ? x : r;
#else
  return ts_round_f8(x, 3, -6, 448.0f);
#endif
}
//@ ts_round_f8e5m2: ts_round_f8
TS_FN float ts_round_f8e5m2(float x) {
#if __CUDA_ARCH__ >= 890
  float r;
  asm("{.reg .b16 h, l, u; .reg .b32 w; cvt.rn.satfinite.e5m2x2.f32 h, %1, %1;"
      "cvt.rn.f16x2.e5m2x2 w, h; mov.b32 {l, u}, w; cvt.f32.f16 %0, l;}" : "=f"(r) : "f"(x));
  return x != x ? x : r;
#else
  return ts_round_f8(x, 2, -14, 57344.0f);
#endif
}
//@ ts_load_f16: fn
TS_FN float ts_load_f16(unsigned short h) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(h));
  return r;
}
//@ ts_store_f16: fn
TS_FN unsigned short ts_store_f16(float x) {
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
}
//@ ts_load_bf16: fn
TS_FN float ts_load_bf16(unsigned short h) { return __uint_as_float((unsigned)h << 16); }
//@ ts_store_bf16: fn
TS_FN unsigned short ts_store_bf16(float x) {
  unsigned short h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
}
//@ ts_load_f8: fn
/* A code without its sign bit: subnormals are multiples of the least one. */
TS_FN float ts_load_f8(unsigned code, int bits, int bias) {
  unsigned e = code >> bits, m = code & ((1u << bits) - 1u);
  return e == 0u ? ldexpf((float)m, 1 - bias - bits)
                 : ldexpf((float)(m | 1u << bits), (int)e - bias - bits);
}
//@ ts_load_f8e4m3: ts_load_f8
TS_FN float ts_load_f8e4m3(unsigned char c) {
#if __CUDA_ARCH__ >= 890
  float v;
  asm("{.reg .b16 l, u; .reg .b32 w; cvt.rn.f16x2.e4m3x2 w, %1; mov.b32 {l, u}, w;"
      "cvt.f32.f16 %0, l;}" : "=f"(v) : "h"((unsigned short)c));
  return v == v ? v : __uint_as_float(0x7fc00000u | (unsigned)c >> 7 << 31);
#else
  float r = (c & 127) == 127 ? __int_as_float(0x7fc00000) : ts_load_f8(c & 127u, 3, 7);
  return c & 128 ? -r : r;
#endif
}
//@ ts_load_f8e5m2: ts_load_f8
TS_FN float ts_load_f8e5m2(unsigned char c) {
#if __CUDA_ARCH__ >= 890
  float v;
  asm("{.reg .b16 l, u; .reg .b32 w; cvt.rn.f16x2.e5m2x2 w, %1; mov.b32 {l, u}, w;"
      "cvt.f32.f16 %0, l;}" : "=f"(v) : "h"((unsigned short)c));
  return v == v ? v : __uint_as_float(0x7fc00000u | (unsigned)c >> 7 << 31);
#else
  unsigned m = c & 127u;
  float r = m > 124u ? __int_as_float(0x7fc00000) : m == 124u ? __int_as_float(0x7f800000) : ts_load_f8(m, 2, 15);
  return c & 128 ? -r : r;
#endif
}
//@ ts_pair_f8e4m3: fn
/* Two codes, the first in the low byte, by the hardware; NaN is the code of the positive one. */
TS_FN unsigned ts_pair_f8e4m3(float x, float y) {
  unsigned short h = 0;
#if __CUDA_ARCH__ >= 890
  x = x != x ? __int_as_float(0x7fffffff) : x;
  y = y != y ? __int_as_float(0x7fffffff) : y;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(h) : "f"(y), "f"(x));
#endif
  return h;
}
//@ ts_pair_f8e5m2: fn
TS_FN unsigned ts_pair_f8e5m2(float x, float y) {
  unsigned short h = 0;
#if __CUDA_ARCH__ >= 890
  x = x != x ? __int_as_float(0x7fffffff) : x;
  y = y != y ? __int_as_float(0x7fffffff) : y;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(h) : "f"(y), "f"(x));
#endif
  return h;
}
//@ ts_two_f8e4m3: ts_store_f8e4m3 ts_round_f8e4m3
TS_FN unsigned ts_two_f8e4m3(float x, float y) {
#if __CUDA_ARCH__ >= 890
  return ts_pair_f8e4m3(x, y);
#else
  return ts_store_f8e4m3(ts_round_f8e4m3(x)) | (unsigned)ts_store_f8e4m3(ts_round_f8e4m3(y)) << 8;
#endif
}
//@ ts_two_f8e5m2: ts_store_f8e5m2 ts_round_f8e5m2
TS_FN unsigned ts_two_f8e5m2(float x, float y) {
#if __CUDA_ARCH__ >= 890
  return ts_pair_f8e5m2(x, y);
#else
  return ts_store_f8e5m2(ts_round_f8e5m2(x)) | (unsigned)ts_store_f8e5m2(ts_round_f8e5m2(y)) << 8;
#endif
}
//@ ts_store_f8: fn
/* x is on the grid already. */
TS_FN unsigned ts_store_f8(float x, int bits, int least) {
  int e = (int)(__float_as_uint(x) >> 23 & 255u) - 127;
  float m = fabsf(x);
  if (e < least) return (unsigned)ldexpf(m, bits - least);
  return (unsigned)(e - least + 1) << bits | ((unsigned)ldexpf(m, bits - e) & ((1u << bits) - 1u));
}
//@ ts_store_f8e4m3: ts_store_f8 ts_pair_f8e4m3
TS_FN unsigned char ts_store_f8e4m3(float x) {
#if __CUDA_ARCH__ >= 890
  return (unsigned char)ts_pair_f8e4m3(x, 0.0f);
#else
  unsigned sign = __float_as_uint(x) >> 24 & 128u;
  return (unsigned char)(x != x ? 127u : sign | ts_store_f8(x, 3, -6));
#endif
}
//@ ts_store_f8e5m2: ts_store_f8 ts_pair_f8e5m2
/* An infinity that came from memory saturates when it goes back. */
TS_FN unsigned char ts_store_f8e5m2(float x) {
#if __CUDA_ARCH__ >= 890
  return (unsigned char)ts_pair_f8e5m2(x, 0.0f);
#else
  unsigned sign = __float_as_uint(x) >> 24 & 128u;
  unsigned c = fabsf(x) > 57344.0f ? 123u : ts_store_f8(x, 2, -14);
  return (unsigned char)(x != x ? 127u : sign | c);
#endif
}
//@ ts_to_i32: fn
TS_FN int ts_to_i32(float x) {
  int r;
  asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return r;
}
//@ ts_to_u32: fn
TS_FN unsigned ts_to_u32(float x) {
  unsigned r;
  asm("cvt.rzi.u32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return r;
}
//@ ts_to_i64: fn
TS_FN long long ts_to_i64(float x) {
  long long r;
  asm("cvt.rzi.s64.f32 %0, %1;" : "=l"(r) : "f"(x));
  return x != x ? 0ll : r;
}
//@ ts_to_u64: fn
TS_FN unsigned long long ts_to_u64(float x) {
  unsigned long long r;
  asm("cvt.rzi.u64.f32 %0, %1;" : "=l"(r) : "f"(x));
  return x != x ? 0ull : r;
}
//@ ts_f64_to_i32: fn
TS_FN int ts_f64_to_i32(double x) {
  int r;
  asm("cvt.rzi.s32.f64 %0, %1;" : "=r"(r) : "d"(x));
  return x != x ? 0 : r;
}
//@ ts_f64_to_u32: fn
TS_FN unsigned ts_f64_to_u32(double x) {
  unsigned r;
  asm("cvt.rzi.u32.f64 %0, %1;" : "=r"(r) : "d"(x));
  return x != x ? 0u : r;
}
//@ ts_f64_to_i64: fn
TS_FN long long ts_f64_to_i64(double x) {
  long long r;
  asm("cvt.rzi.s64.f64 %0, %1;" : "=l"(r) : "d"(x));
  return x != x ? 0ll : r;
}
//@ ts_f64_to_u64: fn
TS_FN unsigned long long ts_f64_to_u64(double x) {
  unsigned long long r;
  asm("cvt.rzi.u64.f64 %0, %1;" : "=l"(r) : "d"(x));
  return x != x ? 0ull : r;
}
//@ ts_hold: fn
/* An integer held between the limits of a narrower type. */
TS_FN int ts_hold(int x, int lo, int hi) { return x < lo ? lo : x > hi ? hi : x; }
//@ ts_odd_i64: fn
/* An integer as a double that a later rounding treats as the integer itself: made odd where bits
 * are lost. */
TS_FN double ts_odd_i64(long long x) {
  double d = __ll2double_rz(x);
  return __double2ll_rz(d) == x ? d : __longlong_as_double(__double_as_longlong(d) | 1ll);
}
//@ ts_odd_u64: fn
TS_FN double ts_odd_u64(unsigned long long x) {
  double d = __ull2double_rz(x);
  return __double2ull_rz(d) == x ? d : __longlong_as_double(__double_as_longlong(d) | 1ll);
}
//@ ts_pack_bf16: fn
TS_FN unsigned ts_pack_bf16(float low, float high) {
  unsigned r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
//@ ts_pack_f16: fn
TS_FN unsigned ts_pack_f16(float low, float high) {
  unsigned r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}
//@ ts_prmt: fn
TS_FN unsigned ts_prmt(unsigned x, unsigned y, unsigned selector) {
  unsigned r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(selector));
  return r;
}
//@ ts_low_bf16: fn
TS_FN float ts_low_bf16(unsigned x) { return __uint_as_float(x << 16); }
//@ ts_high_bf16: fn
TS_FN float ts_high_bf16(unsigned x) { return __uint_as_float(x & 0xffff0000u); }
//@ ts_low_f16: ts_load_f16
TS_FN float ts_low_f16(unsigned x) { return ts_load_f16((unsigned short)x); }
//@ ts_high_f16: ts_load_f16
TS_FN float ts_high_f16(unsigned x) { return ts_load_f16((unsigned short)(x >> 16)); }
/* ---- where a thread is ----------------------------------------------------------------------- */
//@ ts_tid: fn
TS_FN int ts_tid() { return (int)threadIdx.x; }
//@ ts_lane: fn
TS_FN int ts_lane() { return (int)(threadIdx.x & 31u); }
//@ ts_warp: fn
/* Broadcast, so that the compiler knows it is the same in all lanes. */
TS_FN int ts_warp() { return __shfl_sync(0xffffffffu, (int)(threadIdx.x >> 5), 0); }
//@ ts_block_x: fn
TS_FN int ts_block_x() { return (int)blockIdx.x; }
//@ ts_block_y: fn
TS_FN int ts_block_y() { return (int)blockIdx.y; }
//@ ts_block_z: fn
TS_FN int ts_block_z() { return (int)blockIdx.z; }
//@ ts_blocks_x: fn
TS_FN int ts_blocks_x() { return (int)gridDim.x; }
//@ ts_smem: fn
extern __shared__ __align__(1024) unsigned char ts_shared[];
/* The address of the block's shared memory, as asynchronous instructions take it. */
TS_FN unsigned ts_smem() { return (unsigned)__cvta_generic_to_shared(ts_shared); }
//@ ts_desc: fn
/* wgmma's matrix descriptor. The high word is constant in most kernels. */
TS_FN unsigned long long ts_desc(unsigned address, unsigned leading, unsigned stride, unsigned swizzle) {
  unsigned low = (address & 0x3ffffu) >> 4 | (leading >> 4 & 0x3fffu) << 16;
  unsigned high = (stride >> 4 & 0x3fffu) | (swizzle & 3u) << 30;
  return (unsigned long long)high << 32 | low;
}
/* ---- faults ---------------------------------------------------------------------------------- */
//@ ts_fault: fn
struct ts_fault_record {
  unsigned claimed, site;
  long long value[2];
  unsigned block[3], call;
};
/* Keeps the first fault; the kernel runs on. The block is the program's. */
TS_FN void ts_fault(ts_fault_record *f, unsigned call, unsigned site, long long v0, long long v1, long long x,
                    long long y = 0, long long z = 0) {
  if (atomicCAS(&f->claimed, 0u, 1u) != 0u) return;
  f->site = site;
  f->value[0] = v0;
  f->value[1] = v1;
  f->block[0] = (unsigned)x;
  f->block[1] = (unsigned)y;
  f->block[2] = (unsigned)z;
  f->call = call;
}
TS_FN void ts_fault(ts_fault_record *f, unsigned call, unsigned site, long long v0, long long v1) {
  ts_fault(f, call, site, v0, v1, blockIdx.x, blockIdx.y, blockIdx.z);
}
//@ ts_print: fn
struct ts_print_ring {
  unsigned used, dropped, size, unused; /* in words; size is the host's */
  unsigned long long word[1];
};
/* Room for a line with n values, behind three words that say whose it is; none when the ring is full. */
TS_FN unsigned long long *ts_print(ts_print_ring *r, unsigned call, unsigned line, unsigned n) {
  unsigned at = *(volatile unsigned *)&r->used < r->size ? atomicAdd(&r->used, n + 3u) : r->size;
  if (at + n + 3u > r->size) {
    atomicAdd(&r->dropped, 1u);
    return 0;
  }
  unsigned long long *w = &r->word[at];
  w[0] = (unsigned long long)(n + 3u) << 32 | line;
  w[1] = (unsigned long long)blockIdx.z << 48 | (unsigned long long)blockIdx.y << 32 | blockIdx.x;
  w[2] = (unsigned long long)threadIdx.x << 32 | call;
  return w + 3;
}
//@ ts_inside: fn
TS_FN bool ts_inside(long long i, long long extent) {
  return (unsigned long long)i < (unsigned long long)extent;
}
//@ ts_stopped: fn
/* Whether the host asks to stop; looked up once in 1024 calls. */
TS_FN bool ts_stopped(const volatile unsigned *stop, unsigned &calls) {
  return (++calls & 1023u) == 0u && *stop != 0u;
}
//@ ts_leave: fn
/* The same for all threads of a role at once, at a barrier of their own: none of them goes on to wait for others
 * that have left. Looked up once in 16 rounds. */
TS_FN bool ts_leave(int id, int threads, const volatile unsigned *stop, unsigned &stopped, unsigned &rounds) {
  if ((++rounds & 15u) != 0u) return false;
  stopped |= *stop;
  asm volatile("{.reg .pred one, any; setp.ne.u32 one, %0, 0; bar.red.or.pred any, %1, %2, one; selp.u32 %0, 1, 0, any;}"
               : "+r"(stopped) : "r"(id), "r"(threads) : "memory");
  return stopped != 0u;
}
//@ ts_leave_warp: fn
/* The same for the lanes of a warp, which go the same rounds. */
TS_FN bool ts_leave_warp(const volatile unsigned *stop, unsigned &stopped, unsigned &rounds) {
  if ((++rounds & 255u) != 0u) return false;
  stopped = __any_sync(0xffffffffu, (stopped | *stop) != 0u);
  return stopped != 0u;
}
/* ---- synchronisation ------------------------------------------------------------------------- */
//@ ts_syncthreads: fn
TS_FN void ts_syncthreads() { __syncthreads(); }
//@ ts_syncwarp: fn
TS_FN void ts_syncwarp() { __syncwarp(); }
//@ ts_bar_sync: fn
TS_FN void ts_bar_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
//@ ts_bar_arrive: fn
TS_FN void ts_bar_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
//@ ts_shfl_xor: fn
template <class T> TS_FN T ts_shfl_xor(T x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
//@ ts_shfl_idx: fn
template <class T> TS_FN T ts_shfl_idx(T x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }
//@ ts_shfl_up: fn
template <class T> TS_FN T ts_shfl_up(T x, int by) { return __shfl_up_sync(0xffffffffu, x, (unsigned)by); }
//@ ts_shfl_down: fn
template <class T> TS_FN T ts_shfl_down(T x, int by) { return __shfl_down_sync(0xffffffffu, x, (unsigned)by); }
//@ ts_vote_any: fn
TS_FN bool ts_vote_any(bool x) { return __any_sync(0xffffffffu, x) != 0; }
//@ ts_vote_all: fn
TS_FN bool ts_vote_all(bool x) { return __all_sync(0xffffffffu, x) != 0; }
//@ ts_membar: fn
TS_FN void ts_membar() { __threadfence(); }
/* ---- vectors of bytes ------------------------------------------------------------------------ */
//@ ts_bytes: fn
struct __align__(8) ts_b64 { unsigned x, y; };
struct __align__(16) ts_b128 { unsigned x, y, z, w; };
//@ ts_cp_async: fn
/* `valid` bytes are copied, the rest of the 4, 8 or 16 becomes zero. */
TS_FN void ts_cp_async_4(unsigned to, const void *from, int valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(__cvta_generic_to_global(from)), "r"(valid) : "memory");
}
TS_FN void ts_cp_async_8(unsigned to, const void *from, int valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(__cvta_generic_to_global(from)), "r"(valid) : "memory");
}
TS_FN void ts_cp_async_16(unsigned to, const void *from, int valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(__cvta_generic_to_global(from)), "r"(valid) : "memory");
}
//@ ts_cp_async_commit: fn
TS_FN void ts_cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
//@ ts_cp_async_wait: fn
template <int N> TS_FN void ts_cp_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
/* ---- matrix fragments of a warp -------------------------------------------------------------- */
//@ ts_ldmatrix_1: fn
TS_FN void ts_ldmatrix_1(unsigned *r, unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(from) : "memory");
}
//@ ts_ldmatrix_2: fn
TS_FN void ts_ldmatrix_2(unsigned *r, unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(from) : "memory");
}
//@ ts_ldmatrix_4: fn
TS_FN void ts_ldmatrix_4(unsigned *r, unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}
//@ ts_ldmatrix_t_1: fn
TS_FN void ts_ldmatrix_t_1(unsigned *r, unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(from) : "memory");
}
//@ ts_ldmatrix_t_2: fn
TS_FN void ts_ldmatrix_t_2(unsigned *r, unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(from) : "memory");
}
//@ ts_ldmatrix_t_4: fn
TS_FN void ts_ldmatrix_t_4(unsigned *r, unsigned from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}
//@ ts_stmatrix_1: fn
TS_FN void ts_stmatrix_1(unsigned to, const unsigned *r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(to), "r"(r[0]) : "memory");
}
//@ ts_stmatrix_2: fn
TS_FN void ts_stmatrix_2(unsigned to, const unsigned *r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(r[0]), "r"(r[1]) : "memory");
}
//@ ts_stmatrix_4: fn
TS_FN void ts_stmatrix_4(unsigned to, const unsigned *r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               ::"r"(to), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}
//@ ts_stmatrix_t_1: fn
TS_FN void ts_stmatrix_t_1(unsigned to, const unsigned *r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(to), "r"(r[0]) : "memory");
}
//@ ts_stmatrix_t_2: fn
TS_FN void ts_stmatrix_t_2(unsigned to, const unsigned *r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(to), "r"(r[0]), "r"(r[1]) : "memory");
}
//@ ts_stmatrix_t_4: fn
TS_FN void ts_stmatrix_t_4(unsigned to, const unsigned *r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
               ::"r"(to), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}
//@ ts_mma_sync_bf16: fn
TS_FN void ts_mma_sync_bf16(float *d, const unsigned *a, const unsigned *b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
//@ ts_mma_sync_f32: fn
TS_FN void ts_mma_sync_f32(float *d, const unsigned *a, const unsigned *b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
//@ ts_mma_sync_f8e4m3: fn
TS_FN void ts_mma_sync_f8e4m3(float *d, const unsigned *a, const unsigned *b) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
//@ ts_mma_sync_f8e5m2: fn
TS_FN void ts_mma_sync_f8e5m2(float *d, const unsigned *a, const unsigned *b) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
//@ ts_mma_sync_i8: fn
TS_FN void ts_mma_sync_i8(int *d, const unsigned *a, const unsigned *b) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
//@ ts_mma_sync_u8: fn
TS_FN void ts_mma_sync_u8(int *d, const unsigned *a, const unsigned *b) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
//@ ts_mma_sync_f64: fn
TS_FN void ts_mma_sync_f64(double *d, const double *a, const double *b) {
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(d[0]), "+d"(d[1])
               : "d"(a[0]), "d"(b[0]));
}
//@ ts_mma_sync_f64_k4: fn
TS_FN void ts_mma_sync_f64_k4(double *d, const double *a, const double *b) {
  asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
               : "d"(a[0]), "d"(a[1]), "d"(b[0]));
}
//@ ts_mma_sync_f64_k8: fn
TS_FN void ts_mma_sync_f64_k8(double *d, const double *a, const double *b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
               : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
}
//@ ts_mma_sync_f64_k16: fn
TS_FN void ts_mma_sync_f64_k16(double *d, const double *a, const double *b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
               : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
               : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
}
//@ ts_mma_sync_f16: fn
TS_FN void ts_mma_sync_f16(float *d, const unsigned *a, const unsigned *b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/* ---- barriers of shared memory, the tensor memory accelerator -------------------------------- */
//@ ts_mbar_init: fn
TS_FN void ts_mbar_init(unsigned bar, unsigned arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}
//@ ts_mbar_fence_init: fn
TS_FN void ts_mbar_fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
//@ ts_mbar_expect_tx: fn
TS_FN void ts_mbar_expect_tx(unsigned bar, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
//@ ts_mbar_arrive: fn
TS_FN void ts_mbar_arrive(unsigned bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
//@ ts_mbar_wait: fn
/* A thread that has waited long asks whether the host wants it to end. It then goes on as if the phase had
 * ended, here and, after one try, at every later wait: whoever meets it at another barrier is not left alone
 * there. The first try stands alone in what is compiled: a wait that need not wait costs two instructions. */
TS_FN void ts_mbar_wait(unsigned bar, unsigned parity, const volatile unsigned *stop, unsigned &stopped) {
  asm volatile("{.reg .pred p; .reg .u32 n, w; mov.u32 n, 0;\n"
               "again: mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
               "@p bra done;\n"
               "setp.ne.u32 p, %0, 0;\n"
               "@p bra done;\n"
               "add.u32 n, n, 1;\n"
               "and.b32 w, n, 1023;\n"
               "setp.ne.u32 p, w, 0;\n"
               "@p bra again;\n"
               "ld.volatile.global.u32 %0, [%3];\n"
               "bra again;\n"
               "done:}"
               : "+r"(stopped) : "r"(bar), "r"(parity), "l"(stop) : "memory");
}
//@ ts_tmap: fn
struct __align__(64) ts_tmap { unsigned long long word[16]; };
//@ ts_tma_prefetch: ts_tmap
TS_FN void ts_tma_prefetch(const ts_tmap *map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }
//@ ts_tma_load_1: ts_tmap
TS_FN void ts_tma_load_1(unsigned to, const ts_tmap *map, unsigned bar, int x0) {
  asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3}], [%2];"
               ::"r"(to), "l"(map), "r"(bar), "r"(x0) : "memory");
}
//@ ts_tma_load_2: ts_tmap
TS_FN void ts_tma_load_2(unsigned to, const ts_tmap *map, unsigned bar, int x0, int x1) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
               ::"r"(to), "l"(map), "r"(bar), "r"(x0), "r"(x1) : "memory");
}
//@ ts_tma_load_3: ts_tmap
TS_FN void ts_tma_load_3(unsigned to, const ts_tmap *map, unsigned bar, int x0, int x1, int x2) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];"
               ::"r"(to), "l"(map), "r"(bar), "r"(x0), "r"(x1), "r"(x2) : "memory");
}
//@ ts_tma_load_4: ts_tmap
TS_FN void ts_tma_load_4(unsigned to, const ts_tmap *map, unsigned bar, int x0, int x1, int x2, int x3) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];"
               ::"r"(to), "l"(map), "r"(bar), "r"(x0), "r"(x1), "r"(x2), "r"(x3) : "memory");
}
//@ ts_tma_load_5: ts_tmap
TS_FN void ts_tma_load_5(unsigned to, const ts_tmap *map, unsigned bar, int x0, int x1, int x2, int x3, int x4) {
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2];"
               ::"r"(to), "l"(map), "r"(bar), "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
}
//@ ts_tma_store_1: ts_tmap
TS_FN void ts_tma_store_1(const ts_tmap *map, unsigned from, int x0) {
  asm volatile("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%0, {%2}], [%1];"
               ::"l"(map), "r"(from), "r"(x0) : "memory");
}
//@ ts_tma_store_2: ts_tmap
TS_FN void ts_tma_store_2(const ts_tmap *map, unsigned from, int x0, int x1) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
               ::"l"(map), "r"(from), "r"(x0), "r"(x1) : "memory");
}
//@ ts_tma_store_3: ts_tmap
TS_FN void ts_tma_store_3(const ts_tmap *map, unsigned from, int x0, int x1, int x2) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];"
               ::"l"(map), "r"(from), "r"(x0), "r"(x1), "r"(x2) : "memory");
}
//@ ts_tma_store_4: ts_tmap
TS_FN void ts_tma_store_4(const ts_tmap *map, unsigned from, int x0, int x1, int x2, int x3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];"
               ::"l"(map), "r"(from), "r"(x0), "r"(x1), "r"(x2), "r"(x3) : "memory");
}
//@ ts_tma_store_5: ts_tmap
TS_FN void ts_tma_store_5(const ts_tmap *map, unsigned from, int x0, int x1, int x2, int x3, int x4) {
  asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];"
               ::"l"(map), "r"(from), "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
}
//@ ts_bulk_commit: fn
TS_FN void ts_bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
//@ ts_bulk_wait: fn
template <int N> TS_FN void ts_bulk_wait() { asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory"); }
//@ ts_bulk_wait_read: fn
template <int N> TS_FN void ts_bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory"); }
//@ ts_fence_proxy_async: fn
TS_FN void ts_fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/* ---- products of a warpgroup; the products themselves are written by cuda_op.c --------------- */
//@ ts_wgmma_fence: fn
TS_FN void ts_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
//@ ts_wgmma_commit: fn
TS_FN void ts_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
//@ ts_wgmma_wait: fn
template <int N> TS_FN void ts_wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
//@ ts_setmaxnreg_inc: fn
template <int N> TS_FN void ts_setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
//@ ts_setmaxnreg_dec: fn
template <int N> TS_FN void ts_setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
//@ ts_grid_wait: fn
TS_FN void ts_grid_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
//@ ts_grid_launch: fn
TS_FN void ts_grid_launch() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
/* ---- atomics; each returns the old value ----------------------------------------------------- */
//@ ts_atomic_add_@: fn
TS_FN @t ts_atomic_add_@s(@t *p, @t x) { return (@t)atomicAdd((@a *)p, (@a)x); }
//@ ts_atomic_max_@: fn
TS_FN @t ts_atomic_max_@s(@t *p, @t x) { return atomicMax(p, x); }
//@ ts_atomic_min_@: fn
TS_FN @t ts_atomic_min_@s(@t *p, @t x) { return atomicMin(p, x); }
//@ ts_atomic_and_@: fn
TS_FN @t ts_atomic_and_@s(@t *p, @t x) { return (@t)atomicAnd((@u *)p, (@u)x); }
//@ ts_atomic_or_@: fn
TS_FN @t ts_atomic_or_@s(@t *p, @t x) { return (@t)atomicOr((@u *)p, (@u)x); }
//@ ts_atomic_xor_@: fn
TS_FN @t ts_atomic_xor_@s(@t *p, @t x) { return (@t)atomicXor((@u *)p, (@u)x); }
//@ ts_atomic_exchange_@: fn
TS_FN @t ts_atomic_exchange_@s(@t *p, @t x) { return (@t)atomicExch((@u *)p, (@u)x); }
//@ ts_atomic_cas_@: fn
TS_FN @t ts_atomic_cas_@s(@t *p, @t expected, @t x) { return (@t)atomicCAS((@u *)p, (@u)expected, (@u)x); }
//@ ts_atomic_inc_@: fn
/* (old >= limit ? 0 : old + 1) */
TS_FN @t ts_atomic_inc_@s(@t *p, @t limit) {
  @u *q = (@u *)p, old = *(volatile @u *)q, seen;
  do {
    seen = old;
    old = atomicCAS(q, seen, (@u)((@t)seen >= limit ? (@t)0 : (@t)(seen + 1)));
  } while (old != seen);
  return (@t)old;
}
//@ ts_atomic_inc_u32: fn
TS_FN unsigned ts_atomic_inc_u32(unsigned *p, unsigned limit) { return atomicInc(p, limit); }
//@ ts_atomic_add: fn
TS_FN float ts_atomic_add(float *p, float x) { return atomicAdd(p, x); }
//@ ts_atomic_add_f64: fn
TS_FN double ts_atomic_add_f64(double *p, double x) { return atomicAdd(p, x); }
//@ ts_atomic_max: ts_max
TS_FN float ts_atomic_max(float *p, float x) {
  unsigned *q = (unsigned *)p, old = *(volatile unsigned *)q, seen;
  do {
    seen = old;
    old = atomicCAS(q, seen, __float_as_uint(ts_max(__uint_as_float(seen), x)));
  } while (old != seen);
  return __uint_as_float(old);
}
//@ ts_atomic_min: ts_min
TS_FN float ts_atomic_min(float *p, float x) {
  unsigned *q = (unsigned *)p, old = *(volatile unsigned *)q, seen;
  do {
    seen = old;
    old = atomicCAS(q, seen, __float_as_uint(ts_min(__uint_as_float(seen), x)));
  } while (old != seen);
  return __uint_as_float(old);
}
//@ ts_atomic_exchange: fn
TS_FN float ts_atomic_exchange(float *p, float x) { return atomicExch(p, x); }
//@ ts_atomic_add_f16: ts_round_f16 ts_load_f16 ts_store_f16
TS_FN float ts_atomic_add_f16(unsigned short *p, float x) {
  unsigned short old = *(volatile unsigned short *)p, seen;
  do {
    seen = old;
    old = atomicCAS(p, seen, ts_store_f16(ts_load_f16(seen) + x));
  } while (old != seen);
  return ts_load_f16(old);
}
//@ ts_atomic_add_bf16: ts_load_bf16 ts_store_bf16
TS_FN float ts_atomic_add_bf16(unsigned short *p, float x) {
  unsigned short old = *(volatile unsigned short *)p, seen;
  do {
    seen = old;
    old = atomicCAS(p, seen, ts_store_bf16(ts_load_bf16(seen) + x));
  } while (old != seen);
  return ts_load_bf16(old);
}
//@ math:
/* Below: the parts of src/ops/math.inc. */
