/* check_eval_tiles.c: every tile operation in each dtype it takes, at extents of nothing, one,
 * primes and the tile's own plus and minus one, against double. Elements are small integers, so
 * that results are exact (or rounded once) and must agree bit for bit.
 */
#include "eval_support.h"

enum { T = 16 }; /* the tiles are T by T */

static const int64_t extents[] = {0, 1, 13, T - 1, T, T + 1, 37};
enum { EXTENTS = sizeof extents / sizeof *extents };

static const DType types[] = {DT_I8,  DT_I16, DT_I32,  DT_I64, DT_U8,  DT_U16,    DT_U32,
                              DT_U64, DT_F16, DT_BF16, DT_F32, DT_F64, DT_F8E4M3, DT_F8E5M2};
enum { TYPES = sizeof types / sizeof *types };

enum { FLOATS = 1, SIGNED = 2, UNSIGNED = 4, INTS = SIGNED | UNSIGNED, ALL = 7 };

static unsigned class_of(DType t) {
  return dtype_is_float(t) ? FLOATS : dtype_is_signed(t) ? SIGNED : UNSIGNED;
}

/* $ becomes the type, ! the operation, # its zero, ~ its one. */
static Ev *kernel(const char *format, DType t, const char *op) {
  Arena *a = arena_new(NULL, "text");
  Str s = str_new(a);
  for (const char *p = format; *p; p++) {
    if (*p == '$')
      str_add(&s, dtype_name(t));
    else if (*p == '!')
      str_add(&s, op);
    else if (*p == '#' || *p == '~')
      str_addf(&s, "%d%s", *p == '~', dtype_is_float(t) ? ".0" : "");
    else
      str_addc(&s, *p);
  }
  Ev *e = ev_new(str_text(&s));
  arena_free(a);
  return e;
}

/* Elements that the type has: none is negative where it has no sign, all are below 5. */
static double a_at(DType t, int64_t i) {
  double x = ev_small(i);
  return dtype_is_unsigned(t) && x < 0 ? -x : x;
}
static double b_at(int64_t i) {
  return (double)(i % 3 + 1);
}

static void give(Ev *e, DType t, int64_t m, int64_t n, bool both) {
  int64_t ex[2] = {m, n};
  IrTensorArg *x = ev_give(e, "A", t, 2, ex, ev_small);
  for (int64_t i = 0; i < m * n; i++)
    ev_put(x, i, a_at(t, i));
  if (both)
    ev_give(e, "B", t, 2, ex, b_at);
}

/* ---------------------------------------------------------------- elementwise */

typedef struct Binary {
  const char *text; /* of p and q */
  unsigned classes;
  double (*want)(double p, double q);
} Binary;

static double add(double p, double q) {
  return p + q;
}
static double sub(double p, double q) {
  return p - q;
}
static double mul(double p, double q) {
  return p * q;
}
static double least(double p, double q) {
  return p < q ? p : q;
}
static double greatest(double p, double q) {
  return p > q ? p : q;
}
static double floored(double p, double q) {
  return floor(p / q);
}
static double modulo(double p, double q) {
  return p - q * floor(p / q);
}
static double negated(double p, double q) {
  return (void)q, -p;
}
static double magnitude(double p, double q) {
  return (void)q, fabs(p);
}
static double chosen(double p, double q) {
  return p < q ? p + q : q;
}
static double fused(double p, double q) {
  return p * q + p;
}
static double rooted(double p, double q) {
  return (void)p, q;
}
static double clamped(double p, double q) {
  return p < 0 ? 0 : p > q ? q : p;
}
static double both_bits(double p, double q) {
  return (double)((int64_t)p & (int64_t)q);
}
static double any_bits(double p, double q) {
  return (double)((int64_t)p | (int64_t)q);
}
static double odd_bits(double p, double q) {
  return (double)((int64_t)p ^ (int64_t)q);
}
static double left(double p, double q) {
  return p * exp2(q);
}
static double right(double p, double q) {
  return floor(p / exp2(q));
}

static const Binary binaries[] = {
    {"p + q", ALL, add},
    {"max(p, q) - q", ALL, NULL}, /* unsigned types must not wrap: see want_of */
    {"p - q", FLOATS | SIGNED, sub},
    {"p * q", ALL, mul},
    {"min(p, q)", ALL, least},
    {"max(p, q)", ALL, greatest},
    {"p // q", ALL, floored},
    {"p % q", ALL, modulo},
    {"-p", FLOATS | SIGNED, negated},
    {"abs(p)", ALL, magnitude},
    {"where(p < q, p + q, q)", ALL, chosen},
    {"fma(p, q, p)", FLOATS, fused},
    {"sqrt(q * q)", FLOATS, rooted},
    {"clamp(p, #, q)", ALL, clamped},
    {"p & q", INTS, both_bits},
    {"p | q", INTS, any_bits},
    {"p ^ q", INTS, odd_bits},
    {"p << q", UNSIGNED, left},
    {"p >> q", INTS, right},
};

/* Rounded once, where the type is too narrow for the product. */
static double want_of(const Binary *b, DType t, double p, double q) {
  double x = b->want ? b->want(p, q) : greatest(p, q) - q;
  return scalar_convert(scalar_convert((Scalar){.type = DT_F64, .as.f = x}, t), DT_F64).as.f;
}

static const char *const elementwise_text =
    "kernel k tile(A: $[M, N], B: $[M, N]) -> (C: $[M, N]) {\n"
    "  grid bx, by = ceildiv(N, 16), ceildiv(M, 16)\n"
    "  shared x: $[16, 16]\n  fragment y: $[16, 16]\n"
    "  copy x = A[by*16:+16, bx*16:+16]\n  copy y = B[by*16:+16, bx*16:+16] pad ~\n"
    "  map i, j in [16, 16] { load p: $ = x[i, j] load q: $ = y[i, j] store x[i, j] = ! }\n"
    "  copy C[by*16:+16, bx*16:+16] = x\n}\n";

START_TEST(elementwise) {
  DType t = types[_i];
  for (size_t r = 0; r < sizeof binaries / sizeof *binaries; r++) {
    const Binary *b = &binaries[r];
    if (!(b->classes & class_of(t)))
      continue;
    const char *op =
        strchr(b->text, '#') ? dtype_is_float(t) ? "clamp(p, 0.0, q)" : "clamp(p, 0, q)" : b->text;
    for (int s = 0; s < EXTENTS; s++) {
      int64_t m = extents[s], n = extents[(s * 3 + (int)r) % EXTENTS];
      Ev *e = kernel(elementwise_text, t, op);
      give(e, t, m, n, true);
      ev_ok(e);
      for (int64_t i = 0; i < m * n; i++)
        ck_assert_msg(ev_at(e, "C", i) == want_of(b, t, a_at(t, i), b_at(i)), "%s of %s at %d", op,
                      dtype_name(t), (int)i);
      ev_free(e);
    }
  }
}
END_TEST

/* ---------------------------------------------------------------- regions */

static const char *const region_text =
    "kernel k tile(A: $[M, N]) -> (C: $[N, M], D: $[M, N], E: $[M]) {\n"
    "  grid bx, by = ceildiv(N, 16), ceildiv(M, 16)\n"
    "  shared x: $[16, 16]\n  fragment y: $[16, 16]\n  fragment z: $[8, 16]\n  fragment w: $[16]\n"
    "  copy x = A[by*16:+16, bx*16:+16]\n"
    "  copy y = x.T\n  copy C[bx*16:+16, by*16:+16] = y\n" /* turned */
    "  copy z = x[0:+8:2, 0:+16]\n"                        /* even rows, then odd ones */
    "  copy D[by*16:+8:2, bx*16:+16] = z\n"
    "  copy z = x[1:+8:2, 0:+16]\n  copy D[by*16 + 1:+8:2, bx*16:+16] = z\n"
    "  if bx == 0 { copy w = A[by*16:+16, 0]\n copy E[by*16:+16] = w }\n}\n"; /* a column */

START_TEST(regions) {
  DType t = types[_i];
  for (int s = 0; s < EXTENTS; s++) {
    int64_t m = extents[s], n = extents[(s * 2 + 1) % EXTENTS];
    Ev *e = kernel(region_text, t, "");
    give(e, t, m, n, false);
    ev_ok(e);
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) {
        double want = a_at(t, i * n + j);
        ck_assert_double_eq(ev_at(e, "C", j * m + i), want);
        ck_assert_double_eq(ev_at(e, "D", i * n + j), want);
        if (j == 0)
          ck_assert_double_eq(ev_at(e, "E", i), want);
      }
    ev_free(e);
  }
}
END_TEST

/* ---------------------------------------------------------------- folds and scans */

/* What lies outside the tensor is 0, in the fold as in the tile. */
static double outside_zero(DType t, int64_t m, int64_t n, int64_t i, int64_t j) {
  return i < m && j < n ? a_at(t, i * n + j) : 0;
}

static double fold(OpCode op, double acc, double x) {
  return op == OP_SUM    ? acc + x
         : op == OP_RMAX ? fmax(acc, x)
         : op == OP_RMIN ? fmin(acc, x)
                         : fmax(acc, fabs(x));
}

static double start_of(OpCode op) {
  return op == OP_SUM || op == OP_ABSMAX ? 0 : op == OP_RMAX ? -1e9 : 1e9;
}

static const char *const fold_text =
    "kernel k tile(A: $[M, N]) -> (C: %s[M, ceildiv(N, 16)], D: %s[ceildiv(M, 16), N],\n"
    "                              E: %s[ceildiv(M, 16), ceildiv(N, 16)], F: i32[M, ceildiv(N, "
    "16)]) {\n"
    "  grid bx, by = ceildiv(N, 16), ceildiv(M, 16)\n"
    "  shared x: $[16, 16]\n  copy x = A[by*16:+16, bx*16:+16]\n"
    "  fragment r: %s[16]\n  reduce r = %s(x) axis 1\n  copy C[by*16:+16, bx] = r\n"
    "  fragment c: %s[16]\n  reduce c = %s(x) axis 0\n  copy D[by, bx*16:+16] = c\n"
    "  reduce s: %s = %s(x)\n  store E[by, bx] = s\n"
    "  fragment g: i32[16]\n  reduce g = argmax(x) axis 1\n  copy F[by*16:+16, bx] = g\n}\n";

static void check_folds(Ev *e, DType t, OpCode op, int64_t m, int64_t n) {
  int64_t across = (n + T - 1) / T;
  for (int64_t by = 0; by < (m + T - 1) / T; by++)
    for (int64_t bx = 0; bx < across; bx++) {
      double all = start_of(op);
      for (int64_t i = 0; i < T; i++) {
        double row = start_of(op), column = row, best = -1e9;
        int64_t at = 0;
        for (int64_t j = 0; j < T; j++) {
          double x = outside_zero(t, m, n, by * T + i, bx * T + j);
          row = fold(op, row, x);
          column = fold(op, column, outside_zero(t, m, n, by * T + j, bx * T + i));
          at = x > best ? j : at;
          best = fmax(best, x);
        }
        all = fold(op, all, op == OP_SUM ? row : row);
        if (by * T + i < m) {
          ck_assert_double_eq(ev_at(e, "C", (by * T + i) * across + bx), row);
          ck_assert_double_eq(ev_at(e, "F", (by * T + i) * across + bx), (double)at);
        }
        if (bx * T + i < n)
          ck_assert_double_eq(ev_at(e, "D", by * n + bx * T + i), column);
      }
      ck_assert_double_eq(ev_at(e, "E", by * across + bx), all);
    }
}

START_TEST(folds) {
  static const OpCode ops[] = {OP_SUM, OP_RMAX, OP_RMIN, OP_ABSMAX};
  DType t = types[_i];
  for (int o = 0; o < 4; o++) {
    const char *r = dtype_name(op_reduce_type(ops[o], t)), *name = op_info(ops[o])->name;
    char text[2048];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof text, fold_text, r, r, r, r, name, r, name, r, name);
#pragma GCC diagnostic pop
    for (int s = 0; s < EXTENTS; s++) {
      int64_t m = extents[s], n = extents[(s + o) % EXTENTS];
      Ev *e = kernel(text, t, "");
      give(e, t, m, n, false);
      ev_ok(e);
      check_folds(e, t, ops[o], m, n);
      ev_free(e);
    }
  }
}
END_TEST

/* Along both axes, each way, with and without the element itself. */
START_TEST(running_folds) {
  DType t = types[_i], to = op_reduce_type(OP_SUM, t);
  for (int mode = 0; mode < 8; mode++) {
    int axis = mode & 1;
    bool reverse = mode & 2, exclusive = mode & 4;
    char text[512];
    snprintf(text, sizeof text,
             "kernel k tile(A: %s[M, N]) -> (C: %s[M, N]) {\n"
             "  grid bx, by = ceildiv(N, 16), ceildiv(M, 16)\n  shared x: %s[16, 16]\n"
             "  copy x = A[by*16:+16, bx*16:+16]\n  fragment y: %s[16, 16]\n"
             "  scan y = sum(x) axis %d%s%s\n  copy C[by*16:+16, bx*16:+16] = y\n}\n",
             dtype_name(t), dtype_name(to), dtype_name(t), dtype_name(to), axis,
             reverse ? " reverse" : "", exclusive ? " exclusive" : "");
    int64_t m = extents[mode % EXTENTS], n = extents[(mode + 3) % EXTENTS];
    Ev *e = ev_new(text);
    give(e, t, m, n, false);
    ev_ok(e);
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) {
        int64_t k = axis ? j : i, first = k / T * T;
        double want = 0;
        for (int64_t l = first; l < first + T; l++)
          if ((reverse ? l > k : l < k) || (l == k && !exclusive))
            want += outside_zero(t, m, n, axis ? i : l, axis ? l : j);
        ck_assert_double_eq(ev_at(e, "C", i * n + j), want);
      }
    ev_free(e);
  }
}
END_TEST

/* ---------------------------------------------------------------- products */

static const char *const product_text =
    "kernel k tile(A: $[M, K], B: $[K, N]) -> (C: %s[M, N]) {\n"
    "  grid bx, by = ceildiv(N, 16), ceildiv(M, 16)\n"
    "  shared x: $[16, 16]\n  shared y: $[16, 16]\n  fragment acc: %s[16, 16]\n"
    "  map i, j in [16, 16] { store acc[i, j] = %s }\n"
    "  for k: i64 = 0, ceildiv(K, 16), 1 {\n"
    "    copy x = A[by*16:+16, k*16:+16]\n    copy y = B[k*16:+16, bx*16:+16]\n"
    "    dot acc += x @ y\n  }\n"
    "  copy C[by*16:+16, bx*16:+16] = acc\n}\n";

START_TEST(products) {
  DType t = types[_i], acc = op_product_type(t, t);
  char text[1024];
  const char *to = dtype_name(acc);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  snprintf(text, sizeof text, product_text, to, to, dtype_is_float(acc) ? "0.0" : "0");
#pragma GCC diagnostic pop
  for (int s = 0; s < 3 * EXTENTS; s++) {
    int64_t m = extents[s % EXTENTS], n = extents[(s + s / EXTENTS) % EXTENTS],
            k = extents[(3 * s + 1) % EXTENTS], ae[2] = {m, k}, be[2] = {k, n};
    Ev *e = kernel(text, t, "");
    IrTensorArg *x = ev_give(e, "A", t, 2, ae, ev_small);
    for (int64_t i = 0; i < m * k; i++)
      ev_put(x, i, a_at(t, i));
    ev_give(e, "B", t, 2, be, b_at);
    ev_ok(e);
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) {
        double want = 0;
        for (int64_t l = 0; l < k; l++)
          want += a_at(t, i * k + l) * b_at(l * n + j);
        ck_assert_double_eq(ev_at(e, "C", i * n + j), want);
      }
    ev_free(e);
  }
}
END_TEST

/* ---------------------------------------------------------------- codes */

/* Every code of the narrow floats through a kernel: to f32, and from there back to itself. */
START_TEST(every_code_both_ways) {
  static const DType narrow[] = {DT_F8E4M3, DT_F8E5M2, DT_F16, DT_BF16};
  DType t = narrow[_i];
  int64_t n = (int64_t)1 << dtype_bits(t);
  size_t size = dtype_size(t);
  Ev *e = kernel("kernel k tile(A: $[N]) -> (C: f32[N], D: $[N]) {\n  grid b = ceildiv(N, 256)\n"
                 "  shared x: $[256]\n  fragment y: f32[256]\n  fragment z: $[256]\n"
                 "  copy x = A[b*256:+256]\n  copy y = x\n  copy C[b*256:+256] = y\n"
                 "  map i in [256] { load v: f32 = y[i] store z[i] = $(v) }\n"
                 "  copy D[b*256:+256] = z\n}\n",
                 t, "");
  IrTensorArg *x = ev_give(e, "A", t, 1, &n, ev_small);
  for (int64_t i = 0; i < n; i++)
    memcpy((char *)x->data + i * (int64_t)size, &i, size); /* the code itself */
  ev_ok(e);
  const char *back = ev_tensor(e, "D")->data;
  int exponent = t == DT_F8E4M3 ? 4 : t == DT_BF16 ? 8 : 5;
  int mantissa = (int)dtype_bits(t) - 1 - exponent, bias = (1 << (exponent - 1)) - 1;
  for (int64_t i = 0; i < n; i++) {
    int64_t m = i & ((1 << mantissa) - 1), p = i >> mantissa & ((1 << exponent) - 1), code = 0;
    double sign = i >> (dtype_bits(t) - 1) ? -1 : 1;
    bool top = p == (1 << exponent) - 1;
    bool nan = top && (t == DT_F8E4M3 ? m == 7 : m != 0), inf = top && t != DT_F8E4M3 && !m;
    double want = p ? ldexp(1 + (double)m / (1 << mantissa), (int)p - bias)
                    : ldexp((double)m / (1 << mantissa), 1 - bias);
    double got = ev_at(e, "C", i);
    memcpy(&code, back + i * (int64_t)size, size);
    if (nan) {
      ck_assert(isnan(got) && isnan(ev_at(e, "D", i)));
    } else if (inf && t == DT_F8E5M2) { /* to f8 infinities saturate (the manual, Types) */
      ck_assert(isinf(got) && ev_at(e, "D", i) == sign * 57344);
    } else {
      ck_assert_msg(got == sign * (inf ? (double)INFINITY : want) && code == i, "%s code %d",
                    dtype_name(t), (int)i);
    }
  }
  ev_free(e);
}
END_TEST

int main(void) {
  Suite *s = suite_create("eval_tiles");
  TCase *c = tcase_create("eval_tiles");
  tcase_set_timeout(c, 120);
  tcase_add_loop_test(c, elementwise, 0, TYPES);
  tcase_add_loop_test(c, regions, 0, TYPES);
  tcase_add_loop_test(c, folds, 0, TYPES);
  tcase_add_loop_test(c, running_folds, 0, TYPES);
  tcase_add_loop_test(c, products, 0, TYPES);
  tcase_add_loop_test(c, every_code_both_ways, 0, 4);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
