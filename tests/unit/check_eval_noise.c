/* check_eval_noise.c: noisy runs: what may be rounded otherwise moves, by no more than the manual
 * allows, and nothing else does. Each kernel runs without noise and with several seeds.
 */
#include "eval_support.h"

enum { SEEDS = 4 };

/* Not on a coarse grid, so that products round. */
static double real(int64_t i) {
  return ldexp((double)((i * 7919 + 17) % 100003), -15) - 1.5;
}
static double whole(int64_t i) {
  return (double)(i % 7) - 3;
}

static Ev *start(const char *text, uint64_t seed) {
  Ev *e = ev_new(text);
  e->options.noise = seed;
  return e;
}

/* ---------------------------------------------------------------- operations */

static const char *const times =
    "kernel k tile(A: f32[N], B: f32[N]) -> (C: f32[N], D: f16[N], E: f32[N], F: i32[N], G: "
    "f32[N]) {\n"
    "  grid b = ceildiv(N, 64)\n"
    "  map i in [64] {\n"
    "    if b*64 + i < N {\n"
    "      load x: f32 = A[b*64 + i] load y: f32 = B[b*64 + i]\n"
    "      store D[b*64 + i] = f16(x)\n      store E[b*64 + i] = max(x, y) + x\n"
    "      store F[b*64 + i] = i32(x) * 3\n      store G[b*64 + i] = x * 2.0\n"
    "      store C[b*64 + i] = x * y\n    }\n  }\n}\n";

/* A product may be fused with what comes after it; sums, conversions of what is the same on every
 * device, integers and exact products stay. */
START_TEST(operations) {
  int64_t n = 1000;
  int moved = 0;
  Ev *plain = start(times, 0);
  ev_give(plain, "A", DT_F32, 1, &n, real);
  ev_give(plain, "B", DT_F32, 1, &n, real);
  ev_ok(plain);
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    Ev *e = start(times, seed);
    ev_give(e, "A", DT_F32, 1, &n, real);
    ev_give(e, "B", DT_F32, 1, &n, real);
    ev_ok(e);
    for (int64_t i = 0; i < n; i++) {
      double c = ev_at(plain, "C", i), d = fabs(ev_at(e, "C", i) - c);
      ck_assert_double_le(d, dtype_ulp(DT_F32, c));
      moved += d > 0;
      ck_assert_double_eq(ev_at(e, "E", i), ev_at(plain, "E", i));
      ck_assert_double_eq(ev_at(e, "F", i), ev_at(plain, "F", i));
      ck_assert_double_eq(ev_at(e, "G", i), ev_at(plain, "G", i));
      if (i < 64) /* the block's first operation: nothing has moved before it */
        ck_assert_double_eq(ev_at(e, "D", 0), ev_at(plain, "D", 0));
    }
    ev_free(e);
  }
  ck_assert_int_gt(moved, 100);
  ev_free(plain);
}
END_TEST

/* ---------------------------------------------------------------- products */

static const char *const product =
    "kernel k tile(A: f16[M, K], B: f16[K, N]) -> (C: f32[M, N]) {\n"
    "  grid bx, by = ceildiv(N, 16), ceildiv(M, 16)\n"
    "  shared x: f16[16, 16]\n  shared y: f16[16, 16]\n  fragment acc: f32[16, 16]\n"
    "  map i, j in [16, 16] { store acc[i, j] = 0.0 }\n"
    "  for k: i64 = 0, ceildiv(K, 16), 1 {\n"
    "    copy x = A[by*16:+16, k*16:+16]\n    copy y = B[k*16:+16, bx*16:+16]\n"
    "    dot acc += x @ y\n  }\n"
    "  copy C[by*16:+16, bx*16:+16] = acc\n}\n";

static Ev *run_product(uint64_t seed, int64_t m, int64_t n, int64_t k, double (*fill)(int64_t)) {
  int64_t as[2] = {m, k}, bs[2] = {k, n};
  Ev *e = start(product, seed);
  ev_give(e, "A", DT_F16, 2, as, fill);
  ev_give(e, "B", DT_F16, 2, bs, fill);
  ev_ok(e);
  return e;
}

/* Within 2^-22 of the sum of the magnitudes, of each of the K / 16 products, partial sums included;
 * of a row of zeros, exactly 0. */
START_TEST(products) {
  int64_t m = 21, n = 19, k = 70;
  double spread = 0;
  Ev *plain = run_product(0, m, n, k, real);
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    Ev *e = run_product(seed, m, n, k, real);
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int64_t l = 0; l < k; l++)
          sum += fabs(ev_at(plain, "A", i * k + l) * ev_at(plain, "B", l * n + j));
        double d = fabs(ev_at(e, "C", i * n + j) - ev_at(plain, "C", i * n + j));
        ck_assert_double_le(d, 5 * 0x1p-22 * sum * 1.1);
        spread = fmax(spread, d / (0x1p-22 * sum));
      }
    ev_free(e);
  }
  ck_assert_double_gt(spread, 0.25);
  ev_free(plain);
}
END_TEST

/* ---------------------------------------------------------------- folds, atomics */

static const char *const folds =
    "kernel k tile(A: f32[M, 64]) -> (S: f32[M], X: f32[M], C: f32[M, 64]) {\n"
    "  grid b = ceildiv(M, 4)\n"
    "  shared x: f32[4, 64]\n  fragment s: f32[4]\n  fragment t: f32[4]\n  fragment y: f32[4, 64]\n"
    "  copy x = A[b*4:+4, 0:+64]\n"
    "  reduce t = rmax(x) axis 1\n  copy X[b*4:+4] = t\n"
    "  reduce s = sum(x) axis 1\n  copy S[b*4:+4] = s\n"
    "  scan y = sum(x) axis 1\n  copy C[b*4:+4, 0:+64] = y\n}\n";

static Ev *run_folds(uint64_t seed, double (*fill)(int64_t), Pool *pool) {
  int64_t as[2] = {37, 64};
  Ev *e = start(folds, seed);
  e->options.pool = pool;
  ev_give(e, "A", DT_F32, 2, as, fill);
  ev_ok(e);
  return e;
}

/* The greatest stays; a sum moves by at most sqrt(64) roundings of the magnitudes. The same seed
 * gives the same bits with any number of threads. */
START_TEST(sums) {
  int moved = 0;
  Pool *pool = pool_new(3);
  Ev *plain = run_folds(0, real, NULL);
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    Ev *e = run_folds(seed, real, NULL), *same = run_folds(seed, real, pool);
    for (int64_t i = 0; i < 37; i++) {
      double sum = 0;
      for (int64_t j = 0; j < 64; j++) {
        sum += fabs(ev_at(plain, "A", i * 64 + j));
        double d = fabs(ev_at(e, "C", i * 64 + j) - ev_at(plain, "C", i * 64 + j));
        ck_assert_double_le(d, 64 * 0x1p-23 * sum);
        ck_assert_double_eq(ev_at(e, "C", i * 64 + j), ev_at(same, "C", i * 64 + j));
      }
      ck_assert_double_eq(ev_at(e, "X", i), ev_at(plain, "X", i));
      ck_assert_double_eq(ev_at(e, "S", i), ev_at(same, "S", i));
      double d = fabs(ev_at(e, "S", i) - ev_at(plain, "S", i));
      ck_assert_double_le(d, 8 * 0x1p-23 * sum);
      moved += d > 0;
    }
    ev_free(e);
    ev_free(same);
  }
  ck_assert_int_gt(moved, 37);
  ev_free(plain);
  pool_free(pool);
}
END_TEST

/* The first sum of each block too moves otherwise by each seed, by much of what it may. */
START_TEST(seeds) {
  enum { RUNS = 8, ROWS = 37 };
  double least[ROWS], most[ROWS];
  Ev *plain = run_folds(0, real, NULL);
  for (int r = 0; r < RUNS; r++) {
    Ev *e = run_folds((uint64_t)r + 1, real, NULL);
    for (int64_t i = 0; i < ROWS; i += 4) {
      double y = ev_at(e, "S", i);
      least[i] = r == 0 ? y : fmin(y, least[i]);
      most[i] = r == 0 ? y : fmax(y, most[i]);
    }
    ev_free(e);
  }
  for (int64_t i = 0; i < ROWS; i += 4) {
    double sum = 0;
    for (int64_t j = 0; j < 64; j++)
      sum += fabs(ev_at(plain, "A", i * 64 + j));
    ck_assert_double_gt(most[i] - least[i], 0.5 * 8 * 0x1p-24 * sum);
  }
  ev_free(plain);
}
END_TEST

/* What comes of a product and is rounded to f16 moves by at most one place; zeros stay. */
START_TEST(narrow) {
  static const char *const text =
      "kernel k tile(A: f16[16, 16]) -> (C: f16[16, 16]) {\n"
      "  shared x: f16[16, 16]\n  fragment acc: f32[16, 16]\n  shared y: f16[16, 16]\n"
      "  copy x = A[0:+16, 0:+16]\n  dot acc = x @ x\n  copy y = acc\n"
      "  copy C[0:+16, 0:+16] = y\n}\n";
  int64_t as[2] = {16, 16};
  int moved = 0;
  Ev *plain = start(text, 0);
  ev_give(plain, "A", DT_F16, 2, as, whole);
  ev_ok(plain);
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    Ev *e = start(text, seed);
    ev_give(e, "A", DT_F16, 2, as, whole);
    ev_ok(e);
    for (int64_t i = 0; i < 256; i++) {
      double c = ev_at(plain, "C", i), d = fabs(ev_at(e, "C", i) - c);
      double sum = 0;
      for (int64_t l = 0; l < 16; l++)
        sum += fabs(whole(i / 16 * 16 + l) * whole(l * 16 + i % 16));
      ck_assert_double_le(d, 2 * dtype_ulp(DT_F16, c) + 0x1p-21 * sum);
      moved += d > 0;
    }
    ev_free(e);
  }
  ck_assert_int_gt(moved, 100);
  ev_free(plain);
}
END_TEST

/* ---------------------------------------------------------------- units of the last place */

START_TEST(last_places) {
  ck_assert_double_eq(dtype_ulp(DT_F32, 1.0), 0x1p-23);
  ck_assert_double_eq(dtype_ulp(DT_F32, -1.999), 0x1p-23);
  ck_assert_double_eq(dtype_ulp(DT_F32, 0.0), 0x1p-149);
  ck_assert_double_eq(dtype_ulp(DT_F64, 1.0), 0x1p-52);
  ck_assert_double_eq(dtype_ulp(DT_F16, 1024.0), 1.0);
  ck_assert_double_eq(dtype_ulp(DT_F16, 0x1p-20), 0x1p-24);
  ck_assert_double_eq(dtype_ulp(DT_BF16, 256.0), 2.0);
  ck_assert_double_eq(dtype_ulp(DT_F8E4M3, 8.0), 1.0);
  ck_assert_double_eq(dtype_ulp(DT_F8E4M3, 0.0), 0x1p-9);
  ck_assert_double_eq(dtype_ulp(DT_F8E5M2, 8.0), 2.0);
}
END_TEST

int main(void) {
  Suite *s = suite_create("eval_noise");
  TCase *c = tcase_create("eval_noise");
  tcase_add_test(c, operations);
  tcase_add_test(c, products);
  tcase_add_test(c, sums);
  tcase_add_test(c, seeds);
  tcase_add_test(c, narrow);
  tcase_add_test(c, last_places);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
