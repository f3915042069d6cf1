/* check_base_dtype.c: every conversion against a definition that is written here in double.
 *
 * A narrow float is defined by its bits: (-1)^s 2^(e-bias) (1 + m/2^M), subnormals without the one.
 * Rounding is defined by searching all codes for the nearest value, even code on a tie.
 */
#include "base_suite.h"

#include <math.h>

#include "base/dtype_simd.h"

/* Check writes a line for every assertion it passes, too slow for millions of them. */
#define EXPECT_MSG(condition, ...)                                                                 \
  do {                                                                                             \
    if (!(condition))                                                                              \
      ck_abort_msg(__VA_ARGS__);                                                                   \
  } while (0)
#define EXPECT(condition) EXPECT_MSG(condition, "%s", #condition)

typedef struct Format {
  DType type;
  int exponent_bits, mantissa_bits, bias;
  bool has_infinity; /* the largest exponent is infinity and NaN; else only the last code is NaN */
  bool saturates;    /* on conversion into it */
  unsigned last;     /* code of the largest finite value */
} Format;

static const Format formats[] = {{DT_F16, 5, 10, 15, true, false, 0x7BFF},
                                 {DT_BF16, 8, 7, 127, true, false, 0x7F7F},
                                 {DT_F8E4M3, 4, 3, 7, false, true, 0x7E},
                                 {DT_F8E5M2, 5, 2, 15, true, true, 0x7B}};
enum { FORMATS = 4 };

static unsigned sign_bit(const Format *f) {
  return 1u << (f->exponent_bits + f->mantissa_bits);
}

/* The value of a code, by the definition. */
static double value_of(const Format *f, unsigned code) {
  unsigned magnitude = code & (sign_bit(f) - 1);
  int m = (int)(magnitude & ((1u << f->mantissa_bits) - 1));
  int e = (int)(magnitude >> f->mantissa_bits);
  double x = e ? ldexp(1 + ldexp(m, -f->mantissa_bits), e - f->bias)
               : ldexp(m, 1 - f->bias - f->mantissa_bits);
  if (magnitude > f->last)
    x = f->has_infinity && m == 0 ? (double)INFINITY : (double)NAN;
  return code & sign_bit(f) ? -x : x;
}

/* value_of for every code without a sign, filled by main: the searches below ask often. */
static double values[FORMATS][0x8000];

static void fill_values(void) {
  for (int k = 0; k < FORMATS; k++)
    for (unsigned code = 0; code < sign_bit(&formats[k]); code++)
      values[k][code] = value_of(&formats[k], code);
}

/* The code nearest to x, by binary search among the finite ones and the midpoint of two. */
static unsigned nearest(const Format *f, double x) {
  unsigned sign = signbit(x) ? sign_bit(f) : 0, low = 0, high = f->last;
  unsigned over = f->saturates ? f->last : f->last + 1;
  const double *value = values[f - formats];
  double a = fabs(x);
  if (isnan(x))
    return sign_bit(f) - 1;
  double step = value[f->last] - value[f->last - 1];
  if (a >= value[f->last])
    return sign | (a >= value[f->last] + step / 2 ? over : f->last);
  while (high - low > 1) {
    unsigned mid = (low + high) / 2;
    if (value[mid] <= a)
      low = mid;
    else
      high = mid;
  }
  double middle = (value[low] + value[high]) / 2;
  unsigned code = a < middle ? low : a > middle ? high : low % 2 == 0 ? low : high;
  return sign | code;
}

static float to_f32(const Format *f, unsigned code) {
  switch (f->type) {
  case DT_F16:
    return f16_to_f32((uint16_t)code);
  case DT_BF16:
    return bf16_to_f32((uint16_t)code);
  case DT_F8E4M3:
    return f8e4m3_to_f32((uint8_t)code);
  default:
    return f8e5m2_to_f32((uint8_t)code);
  }
}

static unsigned from_f64(const Format *f, double x) {
  switch (f->type) {
  case DT_F16:
    return f64_to_f16(x);
  case DT_BF16:
    return f64_to_bf16(x);
  case DT_F8E4M3:
    return f64_to_f8e4m3(x);
  default:
    return f64_to_f8e5m2(x);
  }
}

static unsigned from_f32(const Format *f, float x) {
  switch (f->type) {
  case DT_F16:
    return f32_to_f16(x);
  case DT_BF16:
    return f32_to_bf16(x);
  case DT_F8E4M3:
    return f32_to_f8e4m3(x);
  default:
    return f32_to_f8e5m2(x);
  }
}

static bool same(double a, double b) {
  return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

START_TEST(every_code_to_float) {
  for (int k = 0; k < FORMATS; k++)
    for (unsigned code = 0; code < 2 * sign_bit(&formats[k]); code++)
      EXPECT_MSG(same((double)to_f32(&formats[k], code), value_of(&formats[k], code)), "%s %x",
                 dtype_name(formats[k].type), code);
}
END_TEST

/* Each value, each midpoint between two neighbours, and the doubles and floats next to those. */
START_TEST(every_code_and_every_tie_from_float) {
  for (int k = 0; k < FORMATS; k++) {
    const Format *f = &formats[k];
    for (unsigned code = 0; code < f->last; code++) {
      double a = value_of(f, code), b = value_of(f, code + 1), middle = (a + b) / 2;
      double probes[] = {a, middle, nextafter(middle, 0), nextafter(middle, 1e300), -a, -middle};
      for (int i = 0; i < 6; i++) {
        EXPECT_MSG(from_f64(f, probes[i]) == nearest(f, probes[i]), "%s %a", dtype_name(f->type),
                   probes[i]);
        float x = (float)probes[i];
        EXPECT(from_f32(f, x) == nearest(f, (double)x));
        x = nextafterf(x, i % 2 ? 0.0f : INFINITY);
        EXPECT(from_f32(f, x) == nearest(f, (double)x));
      }
    }
  }
}
END_TEST

START_TEST(the_ends) {
  static const double probes[] = {0.0,        -0.0,      448,
                                  464,        464.5,     480,
                                  57344,      61440,     61441,
                                  65504,      65519,     65520,
                                  65536,      1e30,      3.4e38,
                                  3.5e38,     1e300,     1e-300,
                                  1e-45,      0x1p-1074, 0x1p-150,
                                  0x1p-25,    0x1.8p-25, 0x1p-10,
                                  0x1p-17,    0x1p-134,  (double)INFINITY,
                                  (double)NAN};
  for (int k = 0; k < FORMATS; k++)
    for (size_t i = 0; i < sizeof probes / sizeof *probes; i++) {
      EXPECT(from_f64(&formats[k], probes[i]) == nearest(&formats[k], probes[i]));
      EXPECT(from_f64(&formats[k], -probes[i]) == nearest(&formats[k], -probes[i]));
    }
  ck_assert_uint_eq(f32_to_f8e4m3(INFINITY), 0x7E); /* saturates, as the manual says */
  ck_assert_uint_eq(f32_to_f8e4m3(-INFINITY), 0xFE);
  ck_assert_uint_eq(f32_to_f8e5m2(INFINITY), 0x7B);
  ck_assert_uint_eq(f32_to_f16(INFINITY), 0x7C00);
  ck_assert_uint_eq(f32_to_f16(65520.0f), 0x7C00);
  ck_assert_uint_eq(f32_to_bf16(-INFINITY), 0xFF80);
  ck_assert_uint_eq(f32_to_f16(-NAN), 0x7FFF);
}
END_TEST

static uint64_t next_random(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *state ^ *state >> 33;
}

START_TEST(random_doubles) {
  uint64_t state = 1;
  for (int i = 0; i < 100000; i++) {
    uint64_t bits = next_random(&state);
    double x;
    if (i % 2) /* exponents that matter */
      bits = (bits & ~(UINT64_C(0x7FF) << 52)) | (uint64_t)(1023 - 30 + (int)(bits >> 52) % 50)
                                                     << 52;
    memcpy(&x, &bits, sizeof x);
    for (int k = 0; k < FORMATS; k++)
      EXPECT(from_f64(&formats[k], x) == nearest(&formats[k], x));
  }
}
END_TEST

/* ---- arrays ---------------------------------------------------------------------------------- */

START_TEST(unpack_every_code_at_any_alignment) {
  static unsigned char stored[65536 * 2 + 16];
  static float out[65536 + 8];
  for (int k = 0; k < FORMATS; k++) {
    const Format *f = &formats[k];
    size_t size = dtype_size(f->type), codes = 2 * sign_bit(f);
    for (size_t shift = 0; shift < 4; shift++) {
      for (size_t c = 0; c < codes; c++)
        memcpy(stored + shift + c * size, &c, size);
      dtype_unpack(f->type, stored + shift, out, codes);
      for (size_t c = 0; c < codes; c++) {
        float expect = to_f32(f, (unsigned)c);
        EXPECT_MSG(memcmp(&out[c], &expect, 4) == 0, "%s %zx", dtype_name(f->type), c);
      }
    }
  }
}
END_TEST

/* Floats of all exponents, with the tails of the mantissa that decide a rounding. */
START_TEST(pack_gives_the_bits_of_the_scalar) {
  enum { N = 4099 };
  static float in[N];
  static unsigned char out[N * 2 + 1];
  uint64_t state = 3;
  for (int round = 0; round < 200; round++) {
    for (int i = 0; i < N; i++) {
      uint32_t bits = (uint32_t)next_random(&state);
      if (i % 4 == 1)
        bits &= 0xFFF00000u;
      if (i % 4 == 2)
        bits = (bits & 0xFFF80000u) + (bits & 1) - (bits >> 1 & 1);
      if (i % 4 == 3)
        bits = (bits & 0x807FFFFFu) | (uint32_t)(127 - 30 + (int)(bits >> 23 & 63)) << 23;
      memcpy(&in[i], &bits, 4);
    }
    for (int k = 0; k < FORMATS; k++) {
      const Format *f = &formats[k];
      size_t size = dtype_size(f->type);
      dtype_pack(f->type, in, out + 1, N);
      for (size_t i = 0; i < N; i++) {
        unsigned code = 0;
        memcpy(&code, out + 1 + i * size, size);
        EXPECT_MSG(code == from_f32(f, in[i]), "%s %a", dtype_name(f->type), (double)in[i]);
      }
    }
  }
}
END_TEST

START_TEST(vectors_are_used_where_they_can_be) {
  float in[64] = {1.0f}, back[64];
  uint16_t out[64];
  if (!dtype_simd_here())
    return;
  for (int k = 0; k < FORMATS; k++) {
    ck_assert_uint_eq(dtype_simd_pack(formats[k].type, in, out, 64), 64);
    ck_assert_uint_eq(dtype_simd_unpack(formats[k].type, out, back, 63), 56);
    ck_assert(back[0] == 1.0f);
  }
}
END_TEST

/* What does not fill a vector takes the scalar way, and nothing behind the end is touched. */
START_TEST(short_arrays) {
  for (size_t n = 0; n < 40; n++)
    for (int k = 0; k < FORMATS; k++) {
      float in[41], back[41];
      uint16_t stored[41]; /* wide enough for every narrow type */
      for (size_t i = 0; i <= n; i++)
        in[i] = back[i] = 1.0f + (float)i * 0.0123f;
      dtype_pack(formats[k].type, in, stored, n);
      dtype_unpack(formats[k].type, stored, back, n);
      for (size_t i = 0; i < n; i++)
        ck_assert((double)back[i] == value_of(&formats[k], nearest(&formats[k], (double)in[i])));
      ck_assert(back[n] == in[n]);
    }
}
END_TEST

/* ---- any type to any other ------------------------------------------------------------------- */

/* Values near the ends of every type, and where a double rounding would show. */
static const double float_probes[] = {0.0,
                                      -0.0,
                                      0.4,
                                      -0.9,
                                      1,
                                      1.5,
                                      127,
                                      127.9,
                                      128,
                                      -128,
                                      -129,
                                      255,
                                      255.9,
                                      256,
                                      32767.9,
                                      32768,
                                      65535,
                                      65536,
                                      2147483647,
                                      2147483648.0,
                                      -2147483649.0,
                                      4294967295.0,
                                      4294967296.0,
                                      9.2e18,
                                      9.3e18,
                                      1.8e19,
                                      1.9e19,
                                      -1e30,
                                      1e300,
                                      0x1.0020000000001p0,
                                      0x1.0080000000001p0,
                                      0x1.1000000000001p0,
                                      (double)INFINITY,
                                      -(double)INFINITY,
                                      (double)NAN};
static const int64_t int_probes[] = {
    0, 1, -1, 127, 128, -128, 255, 256, 32768, 65535, 65536, INT32_MAX, INT32_MIN, UINT32_MAX,
    1 << 24, (1 << 24) + 1, (INT64_C(1) << 53) + 1, INT64_MAX, INT64_MIN,
    /* just above the middle of two bf16, too close for a double: */
    (INT64_C(0x8080) << 47) + 1, -((INT64_C(0x8080) << 47) + 1), (INT64_C(0x800001) << 38) - 1};

/* Integer value of x in long double, which holds every i64 and u64. */
static long double int_value(Scalar x) {
  return dtype_is_signed(x.type) ? (long double)x.as.i : (long double)x.as.u;
}

static const Format *format_of(DType t) {
  for (int k = 0; k < FORMATS; k++)
    if (formats[k].type == t)
      return &formats[k];
  return NULL;
}

/* The nearest value of a float type to a long double, found among a double and its neighbours. */
static double float_from_long(long double x, DType to) {
  if (to == DT_F64)
    return (double)x;
  if (to == DT_F32)
    return (double)(float)x;
  const Format *f = format_of(to);
  double d = (double)x;
  if ((long double)d != x) { /* keep off the ties of the narrow type that d may have landed on */
    double other = nextafter(d, (long double)d < x ? (double)INFINITY : -(double)INFINITY);
    d = fabs(remainder(d, ldexp(1, ilogb(d) - 9))) == 0 ? other : d;
  }
  return value_of(f, nearest(f, d));
}

static void expect_converted(Scalar x, DType to) {
  Scalar y = scalar_convert(x, to);
  bool from_float = dtype_is_float(x.type);
  ck_assert_int_eq(y.type, to);
  if (x.type == to)
    return;
  if (to == DT_BOOL) {
    ck_assert_uint_eq(y.as.u, from_float ? x.as.f != 0 : x.as.u != 0);
  } else if (dtype_is_float(to)) {
    double expect = from_float && format_of(to)
                        ? value_of(format_of(to), nearest(format_of(to), x.as.f))
                    : from_float ? (to == DT_F32 ? (double)(float)x.as.f : x.as.f)
                                 : float_from_long(int_value(x), to);
    EXPECT_MSG(same(y.as.f, expect), "%s %a %s: %a, not %a", dtype_name(x.type), x.as.f,
               dtype_name(to), y.as.f, expect);
  } else if (from_float) {
    long double low = (long double)dtype_int_min(to), high = (long double)dtype_int_max(to);
    long double v = isnan(x.as.f) ? 0 : truncl((long double)x.as.f);
    v = v < low ? low : v > high ? high : v;
    EXPECT_MSG(int_value(y) == v, "%a to %s", x.as.f, dtype_name(to));
  } else { /* equal modulo 2^bits, and in range */
    unsigned bits = dtype_bits(to);
    uint64_t mask = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    ck_assert_uint_eq(y.as.u & mask, x.as.u & mask);
    ck_assert(int_value(y) >= (long double)dtype_int_min(to) &&
              int_value(y) <= (long double)dtype_int_max(to));
  }
}

static size_t probe_count(DType t) {
  return dtype_is_float(t) ? sizeof float_probes / sizeof *float_probes
                           : sizeof int_probes / sizeof *int_probes;
}

static Scalar probe(DType t, size_t i) {
  Scalar x = {.type = dtype_is_float(t) ? DT_F64 : DT_I64};
  if (dtype_is_float(t))
    x.as.f = float_probes[i];
  else
    x.as.i = int_probes[i];
  return scalar_convert(x, t);
}

START_TEST(every_pair_of_types) {
  for (int from = 0; from < DT_COUNT; from++)
    for (int to = 0; to < DT_COUNT; to++)
      for (size_t i = 0; i < probe_count((DType)from); i++)
        expect_converted(probe((DType)from, i), (DType)to);
}
END_TEST

START_TEST(scalars_are_stored_and_loaded) {
  for (int t = 0; t < DT_COUNT; t++)
    for (size_t i = 0; i < probe_count((DType)t); i++) {
      unsigned char bytes[9];
      memset(bytes, 0xCC, sizeof bytes);
      Scalar x = probe((DType)t, i);
      scalar_store(x, bytes);
      ck_assert_uint_eq(bytes[dtype_size((DType)t)], 0xCC);
      Scalar y = scalar_load((DType)t, bytes);
      ck_assert(dtype_is_float((DType)t) ? same(x.as.f, y.as.f) : x.as.u == y.as.u);
    }
}
END_TEST

START_TEST(arrays_convert_as_scalars_do) {
  enum { N = 700 };
  static unsigned char in[N * 8 + 1], out[N * 8 + 1];
  for (int from = 0; from < DT_COUNT; from++)
    for (int to = 0; to < DT_COUNT; to++) {
      size_t count = probe_count((DType)from);
      for (size_t i = 0; i < N; i++)
        scalar_store(probe((DType)from, i * 7 % count), in + 1 + i * dtype_size((DType)from));
      dtype_convert((DType)from, in + 1, (DType)to, out + 1, N);
      for (size_t i = 0; i < N; i++) {
        unsigned char expect[8];
        Scalar x = scalar_load((DType)from, in + 1 + i * dtype_size((DType)from));
        scalar_store(scalar_convert(x, (DType)to), expect);
        bool equal =
            memcmp(expect, out + 1 + i * dtype_size((DType)to), dtype_size((DType)to)) == 0;
        EXPECT_MSG(equal, "%s to %s, %zu", dtype_name((DType)from), dtype_name((DType)to), i);
      }
    }
}
END_TEST

/* Every size at steps that are forward, backward and 0, over more than one block; unaligned. */
START_TEST(strided_elements_gather_and_scatter) {
  enum { N = 300, STEPS = 4 };
  static const int steps[STEPS] = {1, 3, -2, 0};
  static unsigned char memory[N * 8 * 3 * 2 + 1], back[sizeof memory], cells[N * 8];
  for (int t = 0; t < DT_COUNT; t++)
    for (int k = 0; k < STEPS; k++) {
      size_t size = dtype_size((DType)t), count = probe_count((DType)t);
      ptrdiff_t step = steps[k] * (ptrdiff_t)size;
      unsigned char *at = memory + 1 + (steps[k] < 0 ? (N - 1) * 2 * size : 0);
      for (size_t i = 0; i < N; i++)
        scalar_store(probe((DType)t, i % count), at + (ptrdiff_t)i * step);
      dtype_unpack_strided((DType)t, at, step, cells, N);
      memset(back, 0, sizeof back);
      dtype_pack_strided((DType)t, cells, back + (at - memory), step, N);
      for (size_t i = 0; i < N; i++) {
        ptrdiff_t here = (at - memory) + (ptrdiff_t)i * step;
        Scalar x = scalar_load((DType)t, memory + here);
        Scalar y = scalar_load_compute((DType)t, cells + i * dtype_compute_size((DType)t));
        bool equal = dtype_is_float((DType)t) ? same(x.as.f, y.as.f) : x.as.u == y.as.u;
        EXPECT_MSG(equal && memcmp(memory + here, back + here, size) == 0, "%s, step %d, %zu",
                   dtype_name((DType)t), steps[k], i);
      }
    }
}
END_TEST

START_TEST(cells_hold_what_was_stored) {
  for (int t = 0; t < DT_COUNT; t++)
    for (size_t i = 0; i < probe_count((DType)t); i++) {
      unsigned char stored[8], cell[9], unpacked[8];
      memset(cell, 0xCC, sizeof cell);
      Scalar x = probe((DType)t, i);
      scalar_store(x, stored);
      x = scalar_load((DType)t, stored);
      scalar_store_compute(x, cell);
      dtype_unpack((DType)t, stored, unpacked, 1);
      ck_assert_mem_eq(cell, unpacked, dtype_compute_size((DType)t));
      ck_assert_uint_eq(cell[dtype_compute_size((DType)t)], 0xCC);
    }
}
END_TEST

START_TEST(names_and_limits) {
  static const char *const names[] = {"bool", "i8",  "i16",  "i32", "i64", "u8",     "u16",   "u32",
                                      "u64",  "f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2"};
  ck_assert_int_eq(DT_COUNT, sizeof names / sizeof *names);
  for (int i = 0; i < DT_COUNT; i++) {
    DType t;
    ck_assert_str_eq(dtype_name((DType)i), names[i]);
    ck_assert(dtype_parse(names[i], strlen(names[i]), &t) && t == (DType)i);
    ck_assert_uint_eq(dtype_size((DType)i) * 8, dtype_bits((DType)i));
    ck_assert_int_eq(dtype_is_float((DType)i) + dtype_is_int((DType)i), i != DT_BOOL);
  }
  DType t;
  ck_assert(!dtype_parse("f3", 2, &t) && !dtype_parse("", 0, &t) && !dtype_parse("none", 4, &t));
  ck_assert(dtype_int_min(DT_I8) == -128 && dtype_int_max(DT_I8) == 127);
  ck_assert(dtype_int_max(DT_U64) == UINT64_MAX && dtype_int_min(DT_I64) == INT64_MIN);
  ck_assert(dtype_int_max(DT_BOOL) == 1 && dtype_int_max(DT_I64) == INT64_MAX);
  ck_assert(dtype_compute(DT_F8E4M3) == DT_F32 && dtype_compute(DT_I8) == DT_I8);
  ck_assert(dtype_compute_size(DT_F16) == 4 && dtype_compute_size(DT_F64) == 8);
  for (int k = 0; k < FORMATS; k++)
    ck_assert(dtype_float_max(formats[k].type) == value_of(&formats[k], formats[k].last));
}
END_TEST

int main(void) {
  const TTest *const tests[] = {every_code_to_float,
                                every_code_and_every_tie_from_float,
                                the_ends,
                                random_doubles,
                                unpack_every_code_at_any_alignment,
                                pack_gives_the_bits_of_the_scalar,
                                vectors_are_used_where_they_can_be,
                                short_arrays,
                                every_pair_of_types,
                                scalars_are_stored_and_loaded,
                                arrays_convert_as_scalars_do,
                                strided_elements_gather_and_scatter,
                                cells_hold_what_was_stored,
                                names_and_limits,
                                NULL};
  fill_values();
  return run_suite("base_dtype", tests);
}
