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

/* Both halves of the 64-bit product. */
static uint32_t mulhilo(uint32_t a, uint32_t b, uint32_t *lo) {
  uint64_t p = (uint64_t)a * b;
  *lo = (uint32_t)p;
  return (uint32_t)(p >> 32);
}

/* Ten rounds, as Salmon and others (2011) define it; the known answers of their suite are in the
 * tests. */
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
  static const double c[] = {1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11,
                             1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,  1.0};
  double s = (m - 1.0) / (m + 1.0), q = s * s, sum = c[0];
  for (size_t k = 1; k < sizeof c / sizeof *c; k++)
    sum = sum * q + c[k];
  return (double)e * 0.6931471805599453 + 2.0 * s * sum;
}

/* cos and sin of 2 pi v for v in [0, 1): reduced to an eighth of a turn, then Taylor's series. */
static void plain_sincos(double v, double *c, double *s) {
  double quarter = v * 4.0;
  int q = (int)(quarter + 0.5);
  double x = (quarter - (double)q) * 1.5707963267948966, z = x * x;
  /* -1 / (k (k - 1)) of the series 1 - z/(2·3) (1 - z/(4·5) (…)) and 1 - z/(1·2) (1 - z/(3·4) …) */
  static const double odd[] = {-1.0 / (17 * 16), -1.0 / (15 * 14), -1.0 / (13 * 12),
                               -1.0 / (11 * 10), -1.0 / (9 * 8),   -1.0 / (7 * 6),
                               -1.0 / (5 * 4),   -1.0 / (3 * 2)};
  static const double even[] = {-1.0 / (18 * 17), -1.0 / (16 * 15), -1.0 / (14 * 13),
                                -1.0 / (12 * 11), -1.0 / (10 * 9),  -1.0 / (8 * 7),
                                -1.0 / (6 * 5),   -1.0 / (4 * 3),   -1.0 / (2 * 1)};
  double sine = 1.0, cosine = 1.0;
  for (size_t k = 0; k < sizeof odd / sizeof *odd; k++)
    sine = 1.0 + sine * z * odd[k];
  for (size_t k = 0; k < sizeof even / sizeof *even; k++)
    cosine = 1.0 + cosine * z * even[k];
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

/* Two words as one, the first the low half. */
static uint64_t wide_word(const uint32_t *w) {
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
  case DT_F8E5M2:
    return 3;
  default:
    return 24;
  }
}

/* The two (f64) or four values of one block, in f64. */
typedef void (*BlockFn)(DType t, const uint32_t w[4], double out[4]);

/* The top bits of a word, so many that the fraction is exact in the type. */
static void rand_block(DType t, const uint32_t w[4], double out[4]) {
  if (t == DT_F64) {
    out[0] = (double)(wide_word(w) >> 11) * 0x1p-53;
    out[1] = (double)(wide_word(w + 2) >> 11) * 0x1p-53;
    return;
  }
  int bits = fraction_bits(t);
  for (int i = 0; i < 4; i++)
    out[i] = (double)(w[i] >> (32 - bits)) / (double)(1u << bits);
}

/* Rounded once, from f64 to the type, by dtype_convert. */
static void randn_block(DType t, const uint32_t w[4], double out[4]) {
  if (t == DT_F64) {
    box_muller(((double)(wide_word(w) >> 11) + 1.0) * 0x1p-53,
               (double)(wide_word(w + 2) >> 11) * 0x1p-53, out);
    return;
  }
  for (int i = 0; i < 4; i += 2)
    box_muller(((double)w[i] + 1.0) * 0x1p-32, (double)w[i + 1] * 0x1p-32, out + i);
}

enum { BLOCKS_A_TASK = 1 << 13 };

typedef struct Fill {
  Tensor *t;
  TensorRandom random;
  BlockFn fn; /* of rand and randn */
  Scalar low; /* of randint, with the number of values from it on */
  uint64_t range;
  int per_block; /* elements that one block of four words serves */
  char *data;
} Fill;

/* Blocks [first, first + n) of a float draw. */
static void fill_floats(const Fill *f, int64_t first, int64_t n) {
  int64_t count = tensor_count(f->t);
  size_t size = dtype_size(f->t->dtype);
  for (int64_t block = first; block < first + n; block++) {
    int64_t i = block * f->per_block;
    int64_t m = count - i < f->per_block ? count - i : f->per_block;
    uint32_t w[4];
    double x[4];
    tensor_philox(f->random.seed, (uint64_t)block, f->random.draw, w);
    f->fn(f->t->dtype, w, x);
    dtype_convert(DT_F64, x, f->t->dtype, f->data + (size_t)i * size, (size_t)m);
  }
}

/* The high 64 bits of a 64 by 64 bit product. */
static uint64_t mulhi64(uint64_t a, uint64_t b) {
  uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
  uint64_t mid = ah * bl + (al * bl >> 32);
  uint64_t low = al * bh + (uint32_t)mid;
  return ah * bh + (mid >> 32) + (low >> 32);
}

/* Two words an element: the bias of a range of n values is below n / 2^64. */
static void fill_integers(const Fill *f, int64_t first, int64_t n) {
  int64_t count = tensor_count(f->t);
  DType wide = dtype_is_unsigned(f->t->dtype) ? DT_U64 : DT_I64;
  size_t size = dtype_size(f->t->dtype);
  for (int64_t block = first; block < first + n; block++) {
    uint32_t w[4];
    tensor_philox(f->random.seed, (uint64_t)block, f->random.draw, w);
    for (int64_t k = 0; k < 2 && 2 * block + k < count; k++) {
      Scalar x = {wide, {.u = f->low.as.u + mulhi64(wide_word(w + 2 * k), f->range)}};
      scalar_store(scalar_convert(x, f->t->dtype), f->data + (size_t)(2 * block + k) * size);
    }
  }
}

/* Tasks are ranges of blocks; a block depends on nothing but its number. */
static void fill_task(void *ctx, size_t i, int worker) {
  const Fill *f = ctx;
  int64_t blocks = (tensor_count(f->t) + f->per_block - 1) / f->per_block;
  int64_t first = (int64_t)i * BLOCKS_A_TASK;
  int64_t n = blocks - first < BLOCKS_A_TASK ? blocks - first : BLOCKS_A_TASK;
  (void)worker;
  if (f->random.stop && *f->random.stop)
    return;
  if (f->fn)
    fill_floats(f, first, n);
  else
    fill_integers(f, first, n);
}

/* Every block of a draw stands by itself, so any worker may do it. */
static void fill(Fill *f, TensorRandom *random, Pool *pool) {
  int64_t blocks = (tensor_count(f->t) + f->per_block - 1) / f->per_block;
  size_t tasks = (size_t)(blocks + BLOCKS_A_TASK - 1) / BLOCKS_A_TASK;
  f->random = *random;
  f->data = tensor_data_write(f->t);
  if (pool && tasks > 1)
    pool_run(pool, tasks, fill_task, f);
  else
    for (size_t i = 0; i < tasks; i++)
      fill_task(f, i, 0);
  random->draw++;
}

/* One draw, whatever the size. */
void tensor_rand(Tensor *t, TensorRandom *random, Pool *pool) {
  fill(&(Fill){.t = t, .fn = rand_block, .per_block = t->dtype == DT_F64 ? 2 : 4}, random, pool);
}

/* One draw, whatever the size. */
void tensor_randn(Tensor *t, TensorRandom *random, Pool *pool) {
  fill(&(Fill){.t = t, .fn = randn_block, .per_block = t->dtype == DT_F64 ? 2 : 4}, random, pool);
}

void tensor_randint(Tensor *t, Scalar low, Scalar high, TensorRandom *random, Pool *pool) {
  fill(&(Fill){.t = t, .low = low, .range = high.as.u - low.as.u, .per_block = 2}, random, pool);
}
