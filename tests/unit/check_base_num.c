/* check_base_num.c: numbers to the shortest text and back, also under a locale with a comma. */
#include "base_suite.h"

#include <locale.h>
#include <math.h>

static const char *f64(Arena *a, double x) {
  Str s = str_new(a);
  str_add_f64(&s, x);
  return s.s;
}

static const char *f32(Arena *a, float x) {
  Str s = str_new(a);
  str_add_f32(&s, x);
  return s.s;
}

START_TEST(known_texts) {
  Arena *a = arena_new(NULL, "test");
  static const struct {
    double x;
    const char *text;
  } cases[] = {
      {0.0, "0.0"},
      {-0.0, "-0.0"},
      {1, "1.0"},
      {0.1, "0.1"},
      {-2.5, "-2.5"},
      {1e-5, "1e-05"},
      {0.0001, "0.0001"},
      {1e15, "1000000000000000.0"},
      {1e16, "1e+16"},
      {1e22, "1e+22"},
      {1e23, "1e+23"},
      {1e100, "1e+100"},
      {123456.789, "123456.789"},
      {0x1p-1074, "5e-324"},
      {0x1p-1022, "2.2250738585072014e-308"},
      {0x1.FFFFFFFFFFFFFp1023, "1.7976931348623157e+308"},
      {9007199254740993.0, "9007199254740992.0"},
      {0x1p-44, "5.684341886080802e-14"}, /* its closest 16 digits do not read back */
      {2.0 / 3, "0.6666666666666666"},
      {5e-324 * 3, "1.5e-323"},
      {(double)INFINITY, "inf"},
      {-(double)INFINITY, "-inf"},
      {(double)NAN, "nan"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    ck_assert_str_eq(f64(a, cases[i].x), cases[i].text);
  ck_assert_str_eq(f32(a, 0.1f), "0.1");
  ck_assert_str_eq(f32(a, 16777216.0f), "16777216.0");
  ck_assert_str_eq(f32(a, 0x1p-149f), "1e-45");
  ck_assert_str_eq(f32(a, 3.4028235e38f), "3.4028235e+38");
  ck_assert_str_eq(f32(a, 1.0f / 3), "0.33333334");
  ck_assert_str_eq(f32(a, 0x1p33f), "8589935000.0");
  arena_free(a);
}
END_TEST

static uint64_t next_random(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *state ^ *state >> 33;
}

/* How many digits the text has, leading and trailing zeros left out. */
static int digits_of(const char *s) {
  int n = 0, pending = 0;
  for (; *s && *s != 'e'; s++) {
    if (*s < '0' || *s > '9' || (*s == '0' && n == 0))
      continue;
    pending++;
    if (*s != '0') {
      n += pending;
      pending = 0;
    }
  }
  return n;
}

/* No text of fewer digits reads back, in either direction of rounding the last digit kept. */
static void expect_shortest(double x, int digits, bool single) {
  char text[64];
  for (int n = 1; n < digits; n++) {
    snprintf(text, sizeof text, "%.*e", n - 1, x);
    double back = single ? (double)strtof(text, NULL) : strtod(text, NULL);
    ck_assert_msg(back != x, "%s would do for %a", text, x);
  }
}

START_TEST(doubles_read_back_and_are_shortest) {
  Arena *a = arena_new(NULL, "test");
  uint64_t state = 42;
  for (int i = 0; i < 60000; i++) {
    uint64_t bits = next_random(&state);
    double x;
    if (i % 3 == 1)
      bits &= UINT64_C(0xFFF) << 52; /* a power of two, where the interval is lopsided */
    if (i % 3 == 2)
      bits &= UINT64_C(0xFFFFFFFFFF) << 24 | UINT64_C(1) << 63; /* few digits, some subnormal */
    memcpy(&x, &bits, sizeof x);
    if (!isfinite(x) || x == 0)
      continue;
    const char *end, *text = f64(a, x);
    ck_assert_msg(str_read_f64(text, &end) == x && *end == '\0', "%a %s", x, text);
    expect_shortest(fabs(x), digits_of(text), false);
    arena_reset(a);
  }
  arena_free(a);
}
END_TEST

START_TEST(floats_read_back_and_are_shortest) {
  Arena *a = arena_new(NULL, "test");
  uint64_t state = 43;
  for (int i = 0; i < 60000; i++) {
    uint32_t bits = (uint32_t)next_random(&state);
    float x;
    if (i % 3 == 1)
      bits &= 0xFF800000u;
    if (i % 3 == 2)
      bits &= 0x807FFFFFu; /* subnormal */
    memcpy(&x, &bits, sizeof x);
    if (!isfinite(x) || x == 0)
      continue;
    const char *text = f32(a, x);
    ck_assert_msg(strtof(text, NULL) == x, "%a %s", (double)x, text);
    expect_shortest(fabs((double)x), digits_of(text), true);
    arena_reset(a);
  }
  arena_free(a);
}
END_TEST

START_TEST(reading_stops_where_the_number_ends) {
  const char *end, *text = "1.5e3rest";
  ck_assert(str_read_f64(text, &end) == 1500);
  ck_assert_str_eq(end, "rest");
  text = "x";
  ck_assert(str_read_f64(text, &end) == 0);
  ck_assert_ptr_eq(end, text);
  ck_assert(str_read_f64("2,5", &end) == 2);
  ck_assert_str_eq(end, ",5");
  ck_assert(isinf(str_read_f64("1e999", NULL)));
}
END_TEST

/* A locale with a comma, made here from nothing installed: any of these that is there will do. */
START_TEST(the_locale_changes_nothing) {
  static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "nl_NL.UTF-8"};
  Arena *a = arena_new(NULL, "test");
  bool found = false;
  for (size_t i = 0; i < 4 && !found; i++)
    found = setlocale(LC_ALL, names[i]) && *localeconv()->decimal_point == ',';
  ck_assert_str_eq(f64(a, 1.5), "1.5");
  ck_assert_str_eq(f32(a, 1e-7f), "1e-07");
  ck_assert_str_eq(f64(a, 5e-324), "5e-324");
  ck_assert(str_read_f64("2.5", NULL) == 2.5);
  setlocale(LC_ALL, "C");
  arena_free(a);
}
END_TEST

int main(void) {
  const TTest *const tests[] = {known_texts,
                                doubles_read_back_and_are_shortest,
                                floats_read_back_and_are_shortest,
                                reading_stops_where_the_number_ends,
                                the_locale_changes_nothing,
                                NULL};
  return run_suite("base_num", tests);
}
