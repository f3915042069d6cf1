/* print.c: tensors as text, the way NumPy lays them out.
 *
 * In: a tensor valid on the host. Out: brackets, one column per element, aligned on the decimal
 * point, elided in the middle of long axes, wrapped at the terminal's width. All elements shown
 * share one format: plain decimals, or exponents where magnitudes are large, tiny or far apart
 * (the bounds are NumPy's: 1e8, 1e-4, a ratio of 1000). Digits are the fewest that read back as the
 * same value, at most 8 after the point. Tests: tests/unit/check_tensor.c.
 */
#include "impl.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MAX_DIGITS = 17, PRECISION = 8 };

/* Decimal numbers -------------------------------------------------------------------------- */

/* 0.d[0]d[1]… * 10^point; n digits, none trailing zero except a lone "0". */
typedef struct Decimal {
  char d[MAX_DIGITS + 1];
  int n, point;
  bool negative;
} Decimal;

/* x to n significant digits, read back from what printf writes, whatever the locale's point. */
static void decimal_of(double x, int n, Decimal *out) {
  char text[40];
  snprintf(text, sizeof text, "%.*e", n - 1, fabs(x));
  const char *p = text;
  out->n = 0;
  for (; *p && *p != 'e'; p++)
    if (*p >= '0' && *p <= '9' && out->n < MAX_DIGITS)
      out->d[out->n++] = *p;
  int exponent = 0;
  bool minus = p[0] && p[1] == '-';
  for (p += *p ? 2 : 0; *p >= '0' && *p <= '9'; p++)
    exponent = exponent * 10 + (*p - '0');
  out->point = (minus ? -exponent : exponent) + 1;
  while (out->n > 1 && out->d[out->n - 1] == '0')
    out->n--;
  out->negative = signbit(x);
}

/* Through text, exactly: the digits may not be a double times a power of ten. */
static double decimal_value(const Decimal *d) {
  char text[40];
  snprintf(text, sizeof text, "%s%.*se%d", d->negative ? "-" : "", d->n, d->d, d->point - d->n);
  const char *end;
  return str_read_f64(text, &end);
}

/* Does x, an exact value of t, come back from these digits? */
static bool same_value(DType t, double x, const Decimal *d) {
  Scalar y = {DT_F64, {.f = decimal_value(d)}};
  return scalar_convert(y, t).as.f == x;
}

/* At most 17 tries; each is exact, and a tensor shows at most a thousand elements. */
static void shortest(DType t, double x, Decimal *out) {
  for (int n = 1; n <= MAX_DIGITS; n++) {
    decimal_of(x, n, out);
    if (same_value(t, x, out))
      return;
  }
}

/* Cuts to `fraction` digits after the point, rounding x itself (never the rounded digits). */
static void cut(double x, int fraction, Decimal *d) {
  if (d->n - d->point <= fraction)
    return;
  int keep = d->point + fraction;
  if (keep > 0) {
    decimal_of(x, keep, d);
    return;
  }
  bool up = keep == 0 && d->d[0] >= '5';
  d->d[0] = up ? '1' : '0';
  d->n = 1;
  d->point = up ? 1 - fraction : 1;
}

/* The format of a tensor ------------------------------------------------------------------- */

typedef struct Format {
  DType type;
  bool exponent;
  int left, right; /* columns before the point, digits after it */
  int width;       /* of a whole element */
  Arena *arena;
} Format;

/* Zeros fill up what the digits do not reach: 1e5 has one digit. */
static void add_integer_part(const Decimal *d, Str *out) {
  if (d->point <= 0) {
    str_addc(out, '0');
    return;
  }
  for (int i = 0; i < d->point; i++)
    str_addc(out, i < d->n ? d->d[i] : '0');
}

/* Digits after the point that are not padding. */
static int fraction_digits(const Decimal *d) {
  if (d->n == 1 && d->d[0] == '0')
    return 0;
  return d->n > d->point ? d->n - d->point : 0;
}

/* "-12.5" in plain form; the fraction is padded with blanks so that points stay in a column. */
static void add_plain(const Decimal *d, const Format *f, Str *out) {
  size_t before = out->n;
  if (d->negative)
    str_addc(out, '-');
  add_integer_part(d, out);
  size_t have = out->n - before;
  char digits[64];
  int n = fraction_digits(d);
  str_addc(out, '.');
  for (int i = 0; i < n && i < (int)sizeof digits; i++) {
    int at = d->point + i;
    str_addc(out, at < 0 ? '0' : d->d[at]);
  }
  if (f->right > n)
    str_pad(out, ' ', (size_t)(f->right - n));
  if ((size_t)f->left > have) { /* shift right: insert the blanks in front */
    size_t shift = (size_t)f->left - have;
    str_pad(out, ' ', shift);
    memmove(out->s + before + shift, out->s + before, out->n - before - shift);
    memset(out->s + before, ' ', shift);
  }
}

/* One digit before the point, as many after it as the longest element needs. */
static void add_exponent(const Decimal *d, const Format *f, Str *out) {
  bool zero = d->n == 1 && d->d[0] == '0';
  int e = zero ? 0 : d->point - 1;
  str_pad(out, ' ', (size_t)(f->left - (d->negative ? 2 : 1)));
  str_addf(out, d->negative ? "-%c." : "%c.", d->d[0]);
  for (int i = 0; i < f->right; i++)
    str_addc(out, i + 1 < d->n ? d->d[i + 1] : '0');
  str_addf(out, "e%c%02d", e < 0 ? '-' : '+', e < 0 ? -e : e);
}

/* At most 8 digits after the point in either form, as NumPy's default. */
static void digits_of(const Format *f, double x, Decimal *d) {
  shortest(f->type, x, d);
  if (f->exponent && d->n > PRECISION + 1)
    decimal_of(x, PRECISION + 1, d);
  else if (!f->exponent)
    cut(x, PRECISION, d);
}

/* Words align with the numbers' right ends. */
static void add_word(const char *word, const Format *f, Str *out) {
  size_t n = strlen(word);
  if ((size_t)f->width > n)
    str_pad(out, ' ', (size_t)f->width - n);
  str_add(out, word);
}

/* The sign of NaN means nothing and is not shown. */
static const char *float_word(double x) {
  return isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
}

/* Exactly f->width columns, once the width is known. */
static void add_element(const Format *f, Scalar x, Str *out) {
  Decimal d;
  if (x.type == DT_BOOL) {
    add_word(x.as.i ? "true" : "false", f, out);
  } else if (dtype_is_int(x.type)) {
    char text[24];
    if (dtype_is_unsigned(x.type))
      snprintf(text, sizeof text, "%" PRIu64, x.as.u);
    else
      snprintf(text, sizeof text, "%" PRId64, x.as.i);
    add_word(text, f, out);
  } else if (!isfinite(x.as.f)) {
    add_word(float_word(x.as.f), f, out);
  } else {
    digits_of(f, x.as.f, &d);
    if (f->exponent)
      add_exponent(&d, f, out);
    else
      add_plain(&d, f, out);
  }
}

/* Shown elements --------------------------------------------------------------------------- */

typedef struct Printer {
  const Tensor *t;
  const TensorPrint *how;
  Format format;
  bool elided;
  int64_t edge;
  size_t width;
  Str *out;
  /* what the first pass over the elements finds */
  double least, most; /* magnitudes, 0 left out */
  bool any, words;
} Printer;

/* The place after i on an axis: i + 1, or past the hole. */
static int64_t next_shown(const Printer *p, int axis, int64_t i) {
  int64_t n = p->t->extent[axis];
  return p->elided && n > 2 * p->edge && i + 1 == p->edge ? n - p->edge : i + 1;
}

/* Visits what print shows, in order, the hole in long axes left out. */
static void each_shown(Printer *p, int axis, int64_t *index, void (*fn)(Printer *p, Scalar x)) {
  if (axis == p->t->rank) {
    fn(p, tensor_get(p->t, index));
    return;
  }
  for (int64_t i = 0; i < p->t->extent[axis]; i = next_shown(p, axis, i)) {
    index[axis] = i;
    each_shown(p, axis + 1, index, fn);
  }
}

/* The first pass: the least and greatest magnitude decide between the two forms. */
static void see_magnitude(Printer *p, Scalar x) {
  if (!dtype_is_float(x.type))
    return;
  double m = fabs(x.as.f);
  if (!isfinite(m)) {
    p->words = true;
  } else if (m != 0.0) {
    p->least = p->any && p->least < m ? p->least : m;
    p->most = p->any && p->most > m ? p->most : m;
    p->any = true;
  }
}

/* The second pass: how wide each element comes out in the chosen form. */
static void see_width(Printer *p, Scalar x) {
  Format *f = &p->format;
  if (dtype_is_float(x.type) && isfinite(x.as.f)) {
    Decimal d;
    digits_of(f, x.as.f, &d);
    int left = (d.negative ? 1 : 0) + (f->exponent || d.point < 1 ? 1 : d.point);
    int right = f->exponent ? d.n - 1 : fraction_digits(&d);
    f->left = left > f->left ? left : f->left;
    f->right = right > f->right ? right : f->right;
    return;
  }
  Str one = str_new(f->arena);
  int width = f->width;
  f->width = 0;
  add_element(f, x, &one);
  f->width = (int)one.n > width ? (int)one.n : width;
}

/* Zero has no magnitude: it decides nothing. */
static void choose_format(Printer *p) {
  int64_t index[TENSOR_MAX_RANK] = {0};
  Format *f = &p->format;
  f->type = p->t->dtype;
  each_shown(p, 0, index, see_magnitude);
  f->exponent = p->any && (p->most >= 1e8 || p->least < 1e-4 || p->most / p->least > 1000.0);
  each_shown(p, 0, index, see_width);
  if (!dtype_is_float(f->type))
    return;
  int number = f->left + 1 + f->right + (f->exponent ? 4 : 0);
  if (f->width > number) { /* a word like -inf is the widest */
    f->left += f->width - number;
    number = f->width;
  }
  f->width = number;
}

/* Layout ----------------------------------------------------------------------------------- */

/* Wraps at the width; the ellipsis takes the place of an element. */
static void add_last_axis(Printer *p, int64_t *index) {
  int axis = p->t->rank - 1;
  size_t indent = (size_t)p->t->rank, column = indent;
  for (int64_t i = 0; i < p->t->extent[axis]; i = next_shown(p, axis, i)) {
    bool hole = i > 0 && i != index[axis] + 1;
    size_t need = (size_t)p->format.width + (hole ? 4 : 0) + 1;
    if (i > 0 && column + need + 1 > p->width) { /* one column is kept for the bracket */
      str_addc(p->out, '\n');
      str_pad(p->out, ' ', indent);
      column = indent;
    } else if (i > 0) {
      str_addc(p->out, ' ');
      column++;
    }
    if (hole) {
      str_add(p->out, "... ");
      column += 4;
    }
    index[axis] = i;
    add_element(&p->format, tensor_get(p->t, index), p->out);
    column += (size_t)p->format.width;
  }
}

/* Blank lines part blocks: as many as there are axes below. */
static void add_axis(Printer *p, int axis, int64_t *index) {
  str_addc(p->out, '[');
  if (axis == p->t->rank - 1) {
    index[axis] = -1;
    add_last_axis(p, index);
  } else {
    int64_t last = -1;
    for (int64_t i = 0; i < p->t->extent[axis]; i = next_shown(p, axis, i)) {
      if (i > 0) {
        str_pad(p->out, '\n', (size_t)(p->t->rank - axis - 1));
        str_pad(p->out, ' ', (size_t)axis + 1);
      }
      if (i != last + 1) {
        str_add(p->out, "...");
        str_pad(p->out, '\n', (size_t)(p->t->rank - axis - 1));
        str_pad(p->out, ' ', (size_t)axis + 1);
      }
      index[axis] = last = i;
      add_axis(p, axis + 1, index);
    }
  }
  str_addc(p->out, ']');
}

/* Two passes find the format, a third writes; all three see only the elements that are shown. */
void tensor_print(const Tensor *t, const TensorPrint *how, Str *out) {
  int64_t index[TENSOR_MAX_RANK] = {0}, count = tensor_count(t);
  Printer p = {.t = t, .how = how, .out = out};
  p.edge = how->edge ? how->edge : 3;
  p.elided = count > (how->elide ? how->elide : 1000);
  p.width = how->width ? how->width : 80;
  p.format.arena = out->arena;
  if (how->header) {
    tensor_add_type(t, out);
    bool device = storage_on_device(t->storage) && storage_device(t->storage);
    str_addf(out, " on %s\n", device ? storage_device(t->storage)->name : "cpu");
  }
  choose_format(&p);
  if (t->rank == 0)
    add_element(&p.format, tensor_get(t, index), out);
  else if (count == 0)
    str_add(out, "[]");
  else
    add_axis(&p, 0, index);
  str_addc(out, '\n');
}

/* Narrow floats print their own shortest digits: 0.1 of f16 is 0.1, not 0.0999755859375. */
void scalar_print(Scalar x, Str *out) {
  if (x.type == DT_BOOL) {
    str_add(out, x.as.i ? "true" : "false");
  } else if (dtype_is_unsigned(x.type)) {
    str_addf(out, "%" PRIu64, x.as.u);
  } else if (dtype_is_int(x.type)) {
    str_addf(out, "%" PRId64, x.as.i);
  } else if (x.type == DT_F64 || !isfinite(x.as.f)) {
    str_add_f64(out, x.as.f);
  } else { /* the fewest digits of a narrow type are a double whose own text they are */
    Decimal d;
    shortest(x.type, x.as.f, &d);
    str_add_f64(out, decimal_value(&d));
  }
}

/* A value of 64 bits as an integer or, of a float, as its f64. */
static void add_bits(int64_t bits, bool is_float, Str *out) {
  Scalar x = {.type = is_float ? DT_F64 : DT_I64, .as.u = (uint64_t)bits};
  scalar_print(x, out);
}

void scalar_print_in(const char *text, const int64_t value[2], Str *out) {
  for (; *text; text++) {
    size_t n = text[0] == '{' && (text[1] == '0' || text[1] == '1') ? 2 + (text[2] == 'f') : 0;
    if (n > 0 && text[n] == '}') {
      add_bits(value[text[1] - '0'], n == 3, out);
      text += n;
    } else {
      str_addc(out, *text);
    }
  }
}
