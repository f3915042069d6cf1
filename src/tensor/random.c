/* random.c: random numbers that are the same on every machine and device.
 *
 * In: a seed and a draw number. Out: elements that depend on nothing else: Philox 4x32-10 is a
 * function of key and counter, so element i needs no element before it. randn uses only + - * /
 * and sqrt in f64, which IEEE 754 rounds alike everywhere; libm's log and cos would not do. The
 * mapping from words to elements is written in tensor.h. Tests: tests/unit/check_tensor.c.
 */
#include "impl.h"

#include <math.h>
#include <string.h>

static uint32_t mulhilo(uint32_t a, uint32_t b, uint32_t *lo) {
  uint64_t p = (uint64_t)a * b;
  *lo = (uint32_t)p;
  return (uint32_t)(p >> 32);
}

void tensor_philox(uint64_t seed, uint64_t block, uint64_t draw, uint32_t out[4]) {
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  uint32_t c[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)draw,
                   (uint32_t)(draw >> 32)};
  for (int round = 0; round < 10; round++) {
    uint32_t lo0, lo1;
    uint32_t hi0 = mulhilo(0xD2511F53u, c[0], &lo0);
    uint32_t hi1 = mulhilo(0xCD9E8D57u, c[2], &lo1);
    c[0] = hi1 ^ c[1] ^ k0;
    c[1] = lo1;
    c[2] = hi0 ^ c[3] ^ k1;
    c[3] = lo0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  memcpy(out, c, sizeof c);
}

/* The natural logarithm of x in (0, 1], off by less than 2^-50 of it: x = m 2^e with m around 1,
 * and ln m = 2 atanh((m - 1) / (m + 1)) by its series. */
static double plain_log(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  int e = (int)(bits >> 52) - 1023;
  bits = (bits & 0xFFFFFFFFFFFFFu) | ((uint64_t)1023 << 52);
  double m;
  memcpy(&m, &bits, sizeof m);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    e++;
  }
  double s = (m - 1.0) / (m + 1.0), q = s * s, sum = 1.0 / 21.0;
  for (int k = 19; k > 0; k -= 2)
    sum = sum * q + 1.0 / (double)k;
  return (double)e * 0.6931471805599453 + 2.0 * s * sum;
}

/* cos and sin of 2 pi v for v in [0, 1): reduced to an eighth of a turn, then Taylor's series. */
static void plain_sincos(double v, double *c, double *s) {
  double quarter = v * 4.0;
  int q = (int)(quarter + 0.5);
  double x = (quarter - (double)q) * 1.5707963267948966, z = x * x;
  double sine = 1.0, cosine = 1.0;
  for (int k = 17; k > 1; k -= 2)
    sine = 1.0 - sine * z / (double)(k * (k - 1));
  for (int k = 18; k > 0; k -= 2)
    cosine = 1.0 - cosine * z / (double)(k * (k - 1));
  sine *= x;
  *c = q & 1 ? -sine : cosine;
  *s = q & 1 ? cosine : sine;
  if (q & 2) {
    *c = -*c;
    *s = -*s;
  }
}

/* One pair of normal numbers from u in (0, 1] and v in [0, 1). */
static void box_muller(double u, double v, double out[2]) {
  double r = sqrt(-2.0 * plain_log(u)), c, s;
  plain_sincos(v, &c, &s);
  out[0] = r * c;
  out[1] = r * s;
}

static uint64_t wide(const uint32_t *w) {
  return (uint64_t)w[1] << 32 | w[0];
}

/* Bits that a fraction of 1 keeps in a float type: its significand, the hidden bit included. */
static int fraction_bits(DType t) {
  switch (t) {
  case DT_F16:
    return 11;
  case DT_BF16:
    return 8;
  case DT_F8E4M3:
    return 4;
  case DT_F8E5M2:
    return 3;
  default:
    return 24;
  }
}

/* The up to four values of one block, in f64. Returns how many elements it serves. */
typedef int (*BlockFn)(DType t, const uint32_t w[4], double out[4]);

static int rand_block(DType t, const uint32_t w[4], double out[4]) {
  if (t == DT_F64) {
    out[0] = (double)(wide(w) >> 11) * 0x1p-53;
    out[1] = (double)(wide(w + 2) >> 11) * 0x1p-53;
    return 2;
  }
  int bits = fraction_bits(t);
  for (int i = 0; i < 4; i++)
    out[i] = (double)(w[i] >> (32 - bits)) / (double)(1u << bits);
  return 4;
}

static int randn_block(DType t, const uint32_t w[4], double out[4]) {
  if (t == DT_F64) {
    box_muller(((double)(wide(w) >> 11) + 1.0) * 0x1p-53, (double)(wide(w + 2) >> 11) * 0x1p-53,
               out);
    return 2;
  }
  for (int i = 0; i < 4; i += 2)
    box_muller(((double)w[i] + 1.0) * 0x1p-32, (double)w[i + 1] * 0x1p-32, out + i);
  return 4;
}

static void fill_floats(Tensor *t, TensorRandom *random, BlockFn fn) {
  int64_t n = tensor_count(t);
  char *p = tensor_data_write(t);
  size_t size = dtype_size(t->dtype);
  int step = 4;
  for (int64_t i = 0, block = 0; i < n; i += step, block++) {
    uint32_t w[4];
    double x[4];
    tensor_philox(random->seed, (uint64_t)block, random->draw, w);
    step = fn(t->dtype, w, x);
    int64_t m = n - i < step ? n - i : step;
    dtype_convert(DT_F64, x, t->dtype, p + (size_t)i * size, (size_t)m);
  }
  random->draw++;
}

void tensor_rand(Tensor *t, TensorRandom *random) {
  fill_floats(t, random, rand_block);
}
void tensor_randn(Tensor *t, TensorRandom *random) {
  fill_floats(t, random, randn_block);
}

/* The high 64 bits of a 64 by 64 bit product. */
static uint64_t mulhi64(uint64_t a, uint64_t b) {
  uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
  uint64_t mid = ah * bl + (al * bl >> 32);
  uint64_t low = al * bh + (uint32_t)mid;
  return ah * bh + (mid >> 32) + (low >> 32);
}

void tensor_randint(Tensor *t, Scalar low, Scalar high, TensorRandom *random) {
  int64_t n = tensor_count(t);
  uint64_t range = high.as.u - low.as.u;
  char *p = tensor_data_write(t);
  Scalar x = {dtype_is_unsigned(t->dtype) ? DT_U64 : DT_I64, {.i = 0}};
  for (int64_t i = 0; i < n; i++, p += dtype_size(t->dtype)) {
    uint32_t w[4];
    tensor_philox(random->seed, (uint64_t)(i / 2), random->draw, w);
    x.as.u = low.as.u + mulhi64(wide(w + 2 * (i % 2)), range);
    scalar_store(scalar_convert(x, t->dtype), p);
  }
  random->draw++;
}
