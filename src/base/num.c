/* num.c: floating-point numbers to text and back, whatever the locale.
 *
 * In: a double or float. Out: the shortest decimal text that reads back as the same value. Always
 * holds: of several shortest texts the closest one is taken; a number never looks like an integer.
 * A decimal of at most 15 digits (float: 6) survives the way through a normal number, so those
 * precisions need no search, only the removal of zeros; one or two more digits are tried in turn.
 * Tests: tests/unit/check_base_num.c.
 */
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "str.h"

/* Decimal digits d[0].d[1]d[2]… times 10^exp10. */
typedef struct Decimal {
  char digits[24];
  int n;
  int exp10;
} Decimal;

/* glibc gives its built-in C locale here, without allocating. */
static double read_f64(const char *text, char **end) {
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!c)
    return strtod(text, end);
  double x = strtod_l(text, end, c);
  freelocale(c);
  return x;
}

/* Not through double: that would round twice. */
static float read_f32(const char *text) {
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!c)
    return strtof(text, NULL);
  float x = strtof_l(text, NULL, c);
  freelocale(c);
  return x;
}

/* What strtod takes, whatever the locale; the lexer decides what a number may look like. */
double str_read_f64(const char *text, const char **end) {
  char *stop;
  double x = read_f64(text, &stop);
  if (end)
    *end = stop;
  return x;
}

/* x, positive and finite, correctly rounded to n digits. Whatever the locale's point is, it is not
 * a digit, so the digits are picked out of what printf writes. */
static Decimal decimal_of(double x, int n) {
  char text[48];
  snprintf(text, sizeof text, "%.*e", n - 1, x);
  Decimal d = {.n = 0};
  const char *s = text;
  for (; *s != 'e'; s++)
    if (*s >= '0' && *s <= '9')
      d.digits[d.n++] = *s;
  d.exp10 = (int)strtol(s + 1, NULL, 10);
  return d;
}

/* Zeros at the end say nothing. */
static void strip_zeros(Decimal *d) {
  while (d->n > 1 && d->digits[d->n - 1] == '0')
    d->n--;
}

/* The next decimal of the same precision, away from zero. */
static Decimal decimal_next(Decimal d) {
  int i = d.n - 1;
  while (i >= 0 && d.digits[i] == '9')
    d.digits[i--] = '0';
  if (i >= 0) {
    d.digits[i]++;
    return d;
  }
  d.digits[0] = '1';
  d.exp10++;
  return d;
}

/* Whether the decimal is inside the interval of reals that round to x. As an integer with an
 * exponent it needs no point, so no locale can misread it. */
static bool reads_back(const Decimal *d, double x, bool single) {
  char text[48];
  snprintf(text, sizeof text, "%.*se%d", d->n, d->digits, d->exp10 - (d->n - 1));
  return single ? (double)read_f32(text) == x : read_f64(text, NULL) == x;
}

/* From the precision that is sure to be enough for a short number upwards. Subnormal numbers have
 * fewer digits than that, so they start at one. */
static Decimal shortest(double x, bool single) {
  bool subnormal = x < (single ? (double)FLT_MIN : DBL_MIN);
  int sure = single ? FLT_DIG : DBL_DIG, most = single ? 9 : 17;
  for (int n = subnormal ? 1 : sure; n < most; n++) {
    Decimal d = decimal_of(x, n);
    if (reads_back(&d, x, single)) {
      strip_zeros(&d);
      return d;
    }
    /* Just above a power of two the interval is wider: the second closest may be inside. */
    Decimal up = decimal_next(d);
    if (n > sure && reads_back(&up, x, single))
      return up;
  }
  return decimal_of(x, most);
}

/* As Python prints: plain from 1e-4 up to 1e16, else with an exponent of at least two digits. */
static void add_decimal(Str *s, const Decimal *d) {
  int point = d->exp10 + 1; /* digits before the point */
  if (d->exp10 < -4 || d->exp10 >= 16) {
    str_addc(s, d->digits[0]);
    if (d->n > 1) {
      str_addc(s, '.');
      str_addn(s, d->digits + 1, (size_t)(d->n - 1));
    }
    str_addf(s, "e%+03d", d->exp10);
  } else if (point <= 0) {
    str_add(s, "0.");
    str_pad(s, '0', (size_t)-point);
    str_addn(s, d->digits, (size_t)d->n);
  } else if (d->n <= point) {
    str_addn(s, d->digits, (size_t)d->n);
    str_pad(s, '0', (size_t)(point - d->n));
    str_add(s, ".0");
  } else {
    str_addn(s, d->digits, (size_t)point);
    str_addc(s, '.');
    str_addn(s, d->digits + point, (size_t)(d->n - point));
  }
}

/* The words are those that the language itself reads. */
static void add_number(Str *s, double x, bool single) {
  if (isnan(x)) {
    str_add(s, "nan");
    return;
  }
  if (signbit(x))
    str_addc(s, '-');
  x = fabs(x);
  if (isinf(x)) {
    str_add(s, "inf");
  } else if (x == 0) {
    str_add(s, "0.0");
  } else {
    Decimal d = shortest(x, single);
    add_decimal(s, &d);
  }
}

void str_add_f64(Str *s, double x) {
  add_number(s, x, false);
}

void str_add_f32(Str *s, float x) {
  add_number(s, (double)x, true);
}
