/* check_math.c: the mathematical functions in f32 against the C library in double: the greatest
 * error in units of the last place over a dense sample of all floats, exact cases, special values.
 * By hand, over all 2^32 floats: `STRIDE=1 check_math`.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "quick.h"

static double sigmoid(double x) {
  return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}
static double rsqrt(double x) {
  return 1 / sqrt(x);
}

static const struct {
  OpCode op;
  double (*reference)(double);
  double bound;
} functions[] = {
    {OP_EXP, exp, 2},   {OP_EXP2, exp2, 2},       {OP_EXPM1, expm1, 2}, {OP_LOG, log, 2},
    {OP_LOG2, log2, 2}, {OP_LOG1P, log1p, 2},     {OP_SIN, sin, 2},     {OP_COS, cos, 2},
    {OP_TAN, tan, 4},   {OP_ASIN, asin, 2},       {OP_ACOS, acos, 2},   {OP_ATAN, atan, 2},
    {OP_CBRT, cbrt, 2}, {OP_RSQRT, rsqrt, 2},     {OP_SINH, sinh, 4},   {OP_COSH, cosh, 4},
    {OP_TANH, tanh, 2}, {OP_SIGMOID, sigmoid, 2}, {OP_ERF, erf, 2},
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0], STRIP = 512 };

static float from_bits(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* Distance from the exact value in units of its last place; where it overflows, of the largest. */
static double ulps(float got, double want) {
  if (isnan(want) || isnan(got))
    return isnan(want) && isnan(got) ? 0 : 1e9;
  bool beyond = fabs(want) >= 0x1.ffffffp127; /* rounds to infinity */
  if (isinf(got) || beyond) {
    bool near = beyond ? fabs((double)got) >= 0x1.fffffcp127 : fabs(want) >= 0x1.fffffcp127;
    return near && !!signbit(got) == !!signbit(want) ? 0 : 1e9;
  }
  int e;
  frexp(want, &e);
  return fabs((double)got - want) / ldexp(1, (e < -125 ? -125 : e) - 24);
}

START_TEST(accuracy) {
  OpStrip strip = op_strip(functions[_i].op, DT_F32, DT_F32);
  const char *by_hand = getenv("STRIDE");
  uint64_t step = by_hand ? strtoull(by_hand, NULL, 10) : 20011;
  float in[STRIP], out[STRIP];
  const void *src[1] = {in};
  for (uint64_t u = 0; u < UINT64_C(1) << 32;) {
    size_t n = 0;
    for (; n < STRIP && u < UINT64_C(1) << 32; n++, u += step)
      in[n] = from_bits((uint32_t)u);
    strip(n, out, src);
    for (size_t i = 0; i < n; i++) {
      double e = ulps(out[i], functions[_i].reference((double)in[i]));
      ck_assert_msg(e <= functions[_i].bound, "%s of %a: %a, off by %g",
                    op_info(functions[_i].op)->name, (double)in[i], (double)out[i], e);
    }
  }
}
END_TEST

static float call(OpCode op, double x, double y) {
  float a = (float)x, b = (float)y, r = 0;
  const void *src[2] = {&a, &b};
  op_strip(op, DT_F32, DT_F32)(1, &r, src);
  return r;
}

static const double special[] = {0.0,      -0.0,   1.0,   -1.0,     2.0,       -2.0,       3.0,
                                 -3.0,     0.5,    -0.5,  1.5,      -1.5,      1e-40,      -1e-40,
                                 1e-30,    -1e-30, 3e38,  -3e38,    1e10,      88.7,       -103.5,
                                 16777217, -1e7,   65536, HUGE_VAL, -HUGE_VAL, (double)NAN};
enum { SPECIAL = sizeof special / sizeof special[0] };

START_TEST(special_values) {
  for (int i = 0; i < SPECIAL; i++) {
    double x = (double)(float)special[i];
    for (int f = 0; f < FUNCTIONS; f++) {
      float got = call(functions[f].op, x, 0);
      double want = functions[f].reference(x);
      ck_assert_msg(ulps(got, want) <= functions[f].bound &&
                        (isnan(want) || !!signbit(got) == !!signbit(want)),
                    "%s of %a: %a", op_info(functions[f].op)->name, x, (double)got);
    }
    for (int j = 0; j < SPECIAL; j++) {
      double y = (double)(float)special[j];
      float p = call(OP_POW, x, y), a = call(OP_ATAN2, x, y);
      ck_assert_msg(ulps(p, pow(x, y)) <= 4, "pow of %a, %a: %a", x, y, (double)p);
      ck_assert(isnan(p) || !!signbit(p) == !!signbit(pow(x, y)));
      ck_assert_msg(ulps(a, atan2(x, y)) <= 2, "atan2 of %a, %a: %a", x, y, (double)a);
      ck_assert(isnan(a) || !!signbit(a) == !!signbit(atan2(x, y)));
      float h = call(OP_HYPOT, x, y);
      ck_assert_msg(ulps(h, hypot(x, y)) <= 2, "hypot of %a, %a: %a", x, y, (double)h);
    }
  }
}
END_TEST

START_TEST(two_operands) {
  uint64_t s = 88172645463325252u;
  for (int i = 0; i < 300000; i++) {
    s ^= s << 13, s ^= s >> 7, s ^= s << 17;
    double x = (double)from_bits((uint32_t)s), y = (double)from_bits((uint32_t)(s >> 32));
    if (i % 2) { /* near where the power is finite */
      x = (double)from_bits((uint32_t)(s & 0x03ffffff) + 0x3e000000);
      y = (double)from_bits((uint32_t)(s >> 32) % 0x06000000 + 0x3f000000) * (s >> 63 ? -1 : 1);
    }
    float p = call(OP_POW, x, y), a = call(OP_ATAN2, x, y);
    ck_assert_msg(ulps(p, pow(x, y)) <= 4, "pow of %a, %a: %a", x, y, (double)p);
    ck_assert_msg(ulps(a, atan2(x, y)) <= 2, "atan2 of %a, %a: %a", x, y, (double)a);
    float h = call(OP_HYPOT, x, y);
    ck_assert_msg(ulps(h, hypot(x, y)) <= 2, "hypot of %a, %a: %a", x, y, (double)h);
  }
}
END_TEST

START_TEST(exact) {
  ck_assert(call(OP_EXP, 0, 0) == 1 && call(OP_LOG, 1, 0) == 0 && call(OP_COS, 0, 0) == 1);
  ck_assert(call(OP_COSH, 0, 0) == 1 && call(OP_SIGMOID, 0, 0) == 0.5f);
  for (int n = -160; n < 130; n++) {
    ck_assert_msg(call(OP_EXP2, n, 0) == (float)ldexp(1, n), "exp2 of %d", n);
    if (n >= -149 && n < 128)
      ck_assert_msg(call(OP_LOG2, ldexp(1, n), 0) == (float)n, "log2 of 2 to %d", n);
  }
  const double large[] = {4, 10, 20, 100, 1e30, HUGE_VAL};
  for (int i = 0; i < 6; i++) {
    ck_assert(call(OP_ERF, large[i], 0) == 1 && call(OP_ERF, -large[i], 0) == -1);
    ck_assert(i == 0 || (call(OP_TANH, large[i], 0) == 1 && call(OP_TANH, -large[i], 0) == -1));
  }
  ck_assert(call(OP_EX2, -127, 0) == 0 && call(OP_EX2, -126, 0) == 0x1p-126f);
}
END_TEST

/* f16 by the f32 function and one rounding; f64 by the C library. */
START_TEST(other_types) {
  Scalar x = {.type = DT_F16, .as.f = 0.5}, y;
  ck_assert(op_eval(OP_EXP, DT_F16, &x, 1, &y));
  ck_assert_double_eq(y.as.f, (double)f16_to_f32(f64_to_f16(exp(0.5))));
  x.type = DT_F64;
  for (int f = 0; f < FUNCTIONS; f++) {
    ck_assert(op_eval(functions[f].op, DT_F64, &x, 1, &y));
    ck_assert_double_eq_tol(y.as.f, functions[f].reference(0.5), 1e-15);
  }
}
END_TEST

int main(void) {
  Suite *s = suite_create("math");
  TCase *c = tcase_create("math");
  tcase_set_timeout(c, 4000);
  tcase_add_loop_test(c, accuracy, 0, FUNCTIONS);
  tcase_add_test(c, special_values);
  tcase_add_test(c, two_operands);
  tcase_add_test(c, exact);
  tcase_add_test(c, other_types);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
