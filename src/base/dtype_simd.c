/* dtype_simd.c: narrow floats to floats and back with AVX2 and F16C.
 *
 * In and out: arrays of unit stride and any alignment. Always holds: bit for bit what dtype.c
 * gives; NaN becomes the narrow type's one NaN by a blend, because F16C would keep its payload. On
 * other machines dtype_simd_here says no. Tests: tests/unit/check_base_dtype.c runs both ways side
 * by side.
 */
#include "dtype_simd.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,f16c")))

bool dtype_simd_here(void) {
  /* libgcc and compiler-rt ask the processor once, when the program starts. */
#if defined(__clang__) && __clang_major__ < 19
  /* This compiler has no name for F16C here; every processor with these three has it. */
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi2");
#else
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
#endif
}

/* ---- to floats ---------------------------------------------------------------------------------
 */

AVX2 static inline __m128i load_half(const void *p) {
  return _mm_loadu_si128(p);
}

/* The instruction makes signalling NaN quiet, as the scalar does. */
AVX2 static size_t unpack_f16(const uint16_t *src, float *dst, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(load_half(src + i)));
  return i;
}

/* A shift, so every bit of a NaN stays. */
AVX2 static size_t unpack_bf16(const uint16_t *src, float *dst, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256i wide = _mm256_cvtepu16_epi32(load_half(src + i));
    _mm256_storeu_ps(dst + i, _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16)));
  }
  return i;
}

/* e5m2 is the upper byte of a half. */
AVX2 static size_t unpack_f8e5m2(const uint8_t *src, float *dst, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m128i code = _mm_cvtepu8_epi16(_mm_loadl_epi64((const void *)(src + i)));
    _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_slli_epi16(code, 8)));
  }
  return i;
}

/* e4m3 put into a half's fields is 2^8 too small, subnormal codes too. */
AVX2 static size_t unpack_f8e4m3(const uint8_t *src, float *dst, size_t n) {
  const __m128i magnitude = _mm_set1_epi16(0x7F), nan = _mm_set1_epi16(0x7E00);
  const __m256 scale = _mm256_set1_ps(256.0f);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m128i code = _mm_cvtepu8_epi16(_mm_loadl_epi64((const void *)(src + i)));
    __m128i sign = _mm_slli_epi16(_mm_andnot_si128(magnitude, code), 8);
    code = _mm_and_si128(code, magnitude);
    __m128i is_nan = _mm_cmpeq_epi16(code, magnitude);
    __m128i half = _mm_blendv_epi8(_mm_slli_epi16(code, 7), nan, is_nan);
    __m256 x = _mm256_cvtph_ps(_mm_or_si128(half, sign));
    _mm256_storeu_ps(dst + i, _mm256_mul_ps(x, scale));
  }
  return i;
}

/* Zero done for other types: the caller does all of it. */
size_t dtype_simd_unpack(DType t, const void *src, float *dst, size_t n) {
  switch (t) {
  case DT_F16:
    return unpack_f16(src, dst, n);
  case DT_BF16:
    return unpack_bf16(src, dst, n);
  case DT_F8E4M3:
    return unpack_f8e4m3(src, dst, n);
  case DT_F8E5M2:
    return unpack_f8e5m2(src, dst, n);
  default:
    return 0;
  }
}

/* ---- from floats -------------------------------------------------------------------------------
 */

/* Puts the lower half of each of 8 words side by side. */
AVX2 static inline __m128i words_to_halves(__m256i v) {
  __m256i packed = _mm256_packus_epi32(v, v);
  return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}

/* All ones where x is NaN: nothing else differs from itself. */
AVX2 static inline __m256i nan_lanes(__m256 x) {
  return _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

/* NaN is rare: the blend is skipped for vectors without one. */
AVX2 static size_t pack_f16(const float *src, uint16_t *dst, size_t n) {
  const __m128i nan = _mm_set1_epi16(0x7FFF);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256 x = _mm256_loadu_ps(src + i);
    __m128i half = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256i lanes = nan_lanes(x);
    if (_mm256_movemask_epi8(lanes)) {
      __m128i low = _mm256_castsi256_si128(lanes), high = _mm256_extracti128_si256(lanes, 1);
      half = _mm_blendv_epi8(half, nan, _mm_packs_epi32(low, high));
    }
    _mm_storeu_si128((void *)(dst + i), half);
  }
  return i;
}

/* x to the code of a float with `mantissa` bits, bias `bias`, whose largest code is `last`: the
 * method of narrow_from_f64 in dtype.c, on the bits of a float. */
AVX2 static inline __m256i narrow(__m256 x, int mantissa, int bias, int last) {
  const int drop = 23 - mantissa, least = 1 - bias;
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i u = _mm256_and_si256(bits, _mm256_set1_epi32(INT32_MAX));
  const __m128i count = _mm_cvtsi32_si128(drop);
  __m256i odd = _mm256_and_si256(_mm256_srl_epi32(u, count), _mm256_set1_epi32(1));
  __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32((1 << (drop - 1)) - 1));
  __m256i normal = _mm256_srl_epi32(_mm256_add_epi32(u, half), count);
  normal = _mm256_sub_epi32(normal, _mm256_set1_epi32((127 - bias) << mantissa));
  const __m256i magic = _mm256_set1_epi32((127 + least + drop) << 23);
  __m256 sum = _mm256_add_ps(_mm256_castsi256_ps(u), _mm256_castsi256_ps(magic));
  __m256i small = _mm256_sub_epi32(_mm256_castps_si256(sum), magic);
  __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32((127 + least) << 23), u);
  __m256i code = _mm256_blendv_epi8(normal, small, is_small);
  code = _mm256_min_epi32(code, _mm256_set1_epi32(last));
  __m256i sign = _mm256_and_si256(_mm256_srli_epi32(bits, 24), _mm256_set1_epi32(0x80));
  return _mm256_blendv_epi8(_mm256_or_si256(code, sign), _mm256_set1_epi32(0x7F), nan_lanes(x));
}

/* Puts the lowest byte of each of 8 words side by side. */
AVX2 static inline void store_bytes(uint8_t *dst, __m256i codes) {
  __m128i halves = words_to_halves(codes);
  _mm_storel_epi64((void *)dst, _mm_packus_epi16(halves, halves));
}

/* 3 bits of mantissa, bias 7, greatest code 0x7E. */
AVX2 static size_t pack_f8e4m3(const float *src, uint8_t *dst, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    store_bytes(dst + i, narrow(_mm256_loadu_ps(src + i), 3, 7, 0x7E));
  return i;
}

/* 2 bits, bias 15, greatest code 0x7B: what would be infinity saturates. */
AVX2 static size_t pack_f8e5m2(const float *src, uint8_t *dst, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    store_bytes(dst + i, narrow(_mm256_loadu_ps(src + i), 2, 15, 0x7B));
  return i;
}

/* The upper half of the float, rounded; overflow carries into infinity by itself. A NaN could carry
 * too, so it is blended. */
AVX2 static size_t pack_bf16(const float *src, uint16_t *dst, size_t n) {
  const __m256i one = _mm256_set1_epi32(1), half = _mm256_set1_epi32(0x7FFF);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256 x = _mm256_loadu_ps(src + i);
    __m256i u = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), one);
    u = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(u, half), odd), 16);
    u = _mm256_blendv_epi8(u, half, nan_lanes(x));
    _mm_storeu_si128((void *)(dst + i), words_to_halves(u));
  }
  return i;
}

size_t dtype_simd_pack(DType t, const float *src, void *dst, size_t n) {
  switch (t) {
  case DT_F16:
    return pack_f16(src, dst, n);
  case DT_BF16:
    return pack_bf16(src, dst, n);
  case DT_F8E4M3:
    return pack_f8e4m3(src, dst, n);
  case DT_F8E5M2:
    return pack_f8e5m2(src, dst, n);
  default:
    return 0;
  }
}

#else

bool dtype_simd_here(void) {
  return false;
}

size_t dtype_simd_unpack(DType t, const void *src, float *dst, size_t n) {
  return (void)t, (void)src, (void)dst, (void)n, 0;
}

size_t dtype_simd_pack(DType t, const float *src, void *dst, size_t n) {
  return (void)t, (void)src, (void)dst, (void)n, 0;
}

#endif
