/* check_eval.c: the tile level of the evaluator: scalars, control, maps, accesses, regions, folds,
 * atomics, faults. References are plain loops in double. */
#include "eval_support.h"

static const int64_t sizes[] = {0, 1, 7, 63, 64, 65, 127, 1000};
#define EACH_SIZE(n) for (size_t i_ = 0; i_ < sizeof sizes / sizeof *sizes; i_++)
#define SIZE sizes[i_]

static const DType all_types[] = {DT_I8,  DT_I16, DT_I32,  DT_I64, DT_U8,  DT_U16,    DT_U32,
                                  DT_U64, DT_F16, DT_BF16, DT_F32, DT_F64, DT_F8E4M3, DT_F8E5M2};
enum { TYPES = sizeof all_types / sizeof *all_types };

static char *text_of(Arena *a, const char *format, DType t) {
  Str s = str_new(a);
  for (const char *p = format; *p; p++) {
    if (*p == '$')
      str_add(&s, dtype_name(t));
    else
      str_addc(&s, *p);
  }
  return s.s;
}

static Ev *typed(const char *format, DType t) {
  Arena *a = arena_new(NULL, "text");
  Ev *e = ev_new(text_of(a, format, t));
  arena_free(a);
  return e;
}

/* ---------------------------------------------------------------- elementwise */

static double rounded(DType t, double x) {
  Scalar s = {.type = DT_F64, .as.f = x};
  return scalar_convert(scalar_convert(s, t), DT_F64).as.f;
}

static void check_sum(const char *format) {
  for (int t = 0; t < TYPES; t++)
    EACH_SIZE(n) {
      Ev *e = typed(format, all_types[t]);
      double (*fill)(int64_t) = dtype_is_unsigned(all_types[t]) ? ev_positive : ev_small;
      ev_give(e, "A", all_types[t], 1, &SIZE, fill);
      ev_give(e, "B", all_types[t], 1, &SIZE, ev_positive);
      ev_ok(e);
      for (int64_t i = 0; i < SIZE; i++)
        ck_assert_double_eq(ev_at(e, "C", i), rounded(all_types[t], fill(i) + ev_positive(i)));
      ev_free(e);
    }
}

START_TEST(add_by_tiles) {
  check_sum("kernel k tile(A: $[N], B: $[N]) -> (C: $[N]) {\n"
            "  grid b = ceildiv(N, 64)\n"
            "  shared x: $[64]\n"
            "  fragment y: $[64]\n"
            "  copy x = A[b*64:+64]\n"
            "  copy y = B[b*64:+64]\n"
            "  map i in [64] { load p: $ = x[i] load q: $ = y[i] store x[i] = p + q }\n"
            "  copy C[b*64:+64] = x\n"
            "}\n");
}
END_TEST

START_TEST(add_by_elements) {
  check_sum("kernel k tile(A: $[N], B: $[N]) -> (C: $[N]) {\n"
            "  grid b = ceildiv(N, 100)\n"
            "  parallel i in [100] {\n"
            "    let n: i64 = b*100 + i\n"
            "    if n < N { load p: $ = A[n] load q: $ = B[n] store C[n] = p + q }\n"
            "  }\n"
            "}\n");
}
END_TEST

START_TEST(broadcast_rows_and_columns) {
  Ev *e = ev_new("kernel k tile(A: f32[37, 53], r: f32[37], c: f32[53]) -> (C: f32[37, 53]) {\n"
                 "  fragment x: f32[37, 53] fragment y: f32[37] fragment z: f32[53]\n"
                 "  copy x = A[0:+37, 0:+53] copy y = r[0:+37] copy z = c[0:+53]\n"
                 "  map i, j in [37, 53] {\n"
                 "    load a: f32 = x[i, j] load b: f32 = y[i] load d: f32 = z[j]\n"
                 "    store x[i, j] = a * b + d\n"
                 "  }\n"
                 "  copy C[0:+37, 0:+53] = x\n"
                 "}\n");
  int64_t ex[2] = {37, 53};
  ev_give(e, "A", DT_F32, 2, ex, ev_small);
  ev_give(e, "r", DT_F32, 1, ex, ev_small);
  ev_give(e, "c", DT_F32, 1, ex + 1, ev_positive);
  ev_ok(e);
  for (int64_t i = 0; i < 37; i++)
    for (int64_t j = 0; j < 53; j++)
      ck_assert_double_eq(ev_at(e, "C", i * 53 + j),
                          ev_small(i * 53 + j) * ev_small(i) + ev_positive(j));
  ev_free(e);
}
END_TEST

/* ---------------------------------------------------------------- control by lanes */

START_TEST(branches_and_continue) {
  Ev *e = ev_new("kernel k tile(A: i32[N]) -> (C: i32[N]) {\n"
                 "  parallel i in [N] {\n"
                 "    load a: i32 = A[i]\n"
                 "    var r: i32 = 0\n"
                 "    if a == 3 { store C[i] = -1 continue }\n"
                 "    if a < 0 { set r = a * 2 } else {\n"
                 "      if a == 0 { set r = 100 } else { set r = a + 10 }\n"
                 "    }\n"
                 "    store C[i] = r\n"
                 "  }\n"
                 "}\n");
  int64_t n = 1500;
  ev_give(e, "A", DT_I32, 1, &n, ev_small);
  ev_ok(e);
  for (int64_t i = 0; i < n; i++) {
    double a = ev_small(i), r = a == 3 ? -1 : a < 0 ? a * 2 : a == 0 ? 100 : a + 10;
    ck_assert_double_eq(ev_at(e, "C", i), r);
  }
  ev_free(e);
}
END_TEST

START_TEST(loops_by_lanes) {
  /* Collatz steps, a triangular sum with break and continue. */
  Ev *e = ev_new("kernel k tile(A: i32[N]) -> (C: i32[N], D: i32[N]) {\n"
                 "  parallel i in [N] {\n"
                 "    load a: i32 = A[i]\n"
                 "    var x: i32 = a + 10\n"
                 "    var n: i32 = 0\n"
                 "    while {} cond x != 1 {\n"
                 "      if x % 2 == 0 { set x = x // 2 } else { set x = 3*x + 1 }\n"
                 "      set n = n + 1\n"
                 "    }\n"
                 "    store C[i] = n\n"
                 "    var s: i32 = 0\n"
                 "    for j: i32 = 0, a + 5, 1 {\n"
                 "      if j == 7 { break }\n"
                 "      if j % 2 == 1 { continue }\n"
                 "      for l: i32 = 0, j, 1 { if l > 3 { break } set s = s + l + 1 }\n"
                 "    }\n"
                 "    store D[i] = s\n"
                 "  }\n"
                 "}\n");
  int64_t n = 700;
  ev_give(e, "A", DT_I32, 1, &n, ev_positive);
  ev_ok(e);
  for (int64_t i = 0; i < n; i++) {
    int a = (int)ev_positive(i), x = a + 10, c = 0, s = 0;
    for (; x != 1; c++)
      x = x % 2 ? 3 * x + 1 : x / 2;
    for (int j = 0; j < a + 5 && j != 7; j++)
      for (int l = 0; j % 2 == 0 && l < j && l <= 3; l++)
        s += l + 1;
    ck_assert_double_eq(ev_at(e, "C", i), c);
    ck_assert_double_eq(ev_at(e, "D", i), s);
  }
  ev_free(e);
}
END_TEST

START_TEST(local_arrays) {
  Ev *e = ev_new("kernel k tile(A: i32[N]) -> (C: i32[N]) {\n"
                 "  parallel i in [N] {\n"
                 "    local v: i32[9]\n"
                 "    for j: i64 = 0, 9, 1 { store v[j] = i32(j * j) }\n"
                 "    load a: i32 = A[i]\n"
                 "    load x: i32 = v[i64(a + 4)]\n"
                 "    store v[i64(a + 4)] = -1\n"
                 "    var s: i32 = x\n"
                 "    for j: i64 = 0, 9, 1 { load y: i32 = v[j] set s = s + y }\n"
                 "    store C[i] = s\n"
                 "  }\n"
                 "}\n");
  int64_t n = 1200;
  ev_give(e, "A", DT_I32, 1, &n, ev_small);
  ev_ok(e);
  for (int64_t i = 0; i < n; i++)
    ck_assert_double_eq(ev_at(e, "C", i), 204 - 1);
  ev_free(e);
}
END_TEST

START_TEST(gather_and_run_time_extents) {
  Ev *e = ev_new("kernel k tile(A: f16[R, S], I: i64[N]) -> (C: f32[N, S]) {\n"
                 "  parallel i, j in [N, S] {\n"
                 "    load r: i64 = I[i]\n"
                 "    load a: f16 = A[r, j]\n"
                 "    store C[N - 1 - i, j] = f32(a)\n"
                 "  }\n"
                 "}\n");
  int64_t ex[2] = {9, 71}, n = 40;
  ev_give(e, "A", DT_F16, 2, ex, ev_small);
  IrTensorArg *index = ev_give(e, "I", DT_I64, 1, &n, ev_small);
  for (int64_t i = 0; i < n; i++)
    ev_put(index, i, (double)(i * 5 % 9));
  ev_ok(e);
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < 71; j++)
      ck_assert_double_eq(ev_at(e, "C", (n - 1 - i) * 71 + j), ev_small(i * 5 % 9 * 71 + j));
  ev_free(e);
}
END_TEST

/* ---------------------------------------------------------------- copies */

/* Every origin from before the tensor to past it, steps, a dropped axis, a stop, a pad. */
START_TEST(copies_of_every_form) {
  for (int64_t o = -6; o <= 9; o += 3)
    for (int64_t stop = 2; stop <= 12; stop += 5) {
      Ev *e = ev_new("kernel k tile(A: f16[P, 11, Q], o: i64, s: i64) -> (C: f32[5, 4]) {\n"
                     "  shared x: bf16[5, 4]\n"
                     "  copy x = A[o:+5 stop s, 3, o - 1:+4:2] pad -7.0\n"
                     "  copy C[0:+5, 0:+4] = x\n"
                     "}\n");
      int64_t ex[3] = {8, 11, 13};
      ev_give(e, "A", DT_F16, 3, ex, ev_small);
      ev_scalar(e, "o", (double)o);
      ev_scalar(e, "s", (double)stop);
      ev_ok(e);
      for (int64_t i = 0; i < 5; i++)
        for (int64_t j = 0; j < 4; j++) {
          int64_t r = o + i, c = o - 1 + 2 * j;
          bool in = r >= 0 && r < 8 && r < stop && c >= 0 && c < 13;
          ck_assert_double_eq(ev_at(e, "C", i * 4 + j),
                              in ? ev_small((r * 11 + 3) * 13 + c) : -7.0);
        }
      ev_free(e);
    }
}
END_TEST

START_TEST(copies_outside_write_nothing) {
  Ev *e = ev_new("kernel k tile(A: f32[4, 4], X: inout f32[5, 6]) {\n"
                 "  fragment x: f32[4, 4]\n"
                 "  copy x = A[0:+4, 0:+4]\n"
                 "  copy X[3:+4, -2:+4] = x\n"
                 "  copy X[-1:+4, 4:+4].T = x\n"
                 "}\n");
  int64_t ex[2] = {4, 4}, xs[2] = {5, 6};
  ev_give(e, "A", DT_F32, 2, ex, ev_small);
  ev_give(e, "X", DT_F32, 2, xs, ev_real);
  double want[30];
  for (int64_t i = 0; i < 30; i++)
    want[i] = ev_at(e, "X", i);
  for (int64_t i = 0; i < 4; i++)
    for (int64_t j = 0; j < 4; j++) {
      int64_t r = 3 + i, c = -2 + j;
      if (r < 5 && c >= 0)
        want[r * 6 + c] = ev_small(i * 4 + j);
    }
  for (int64_t i = 0; i < 4; i++) /* the transposed side: row i is column 4 + i */
    for (int64_t j = 0; j < 4; j++) {
      int64_t r = -1 + j, c = 4 + i;
      if (r >= 0 && c < 6)
        want[r * 6 + c] = ev_small(i * 4 + j);
    }
  ev_ok(e);
  for (int64_t i = 0; i < 30; i++)
    ck_assert_double_eq(ev_at(e, "X", i), want[i]);
  ev_free(e);
}
END_TEST

START_TEST(copies_convert_every_pair) {
  for (int t = 0; t < TYPES; t++)
    for (int u = 0; u < TYPES; u++) {
      Arena *a = arena_new(NULL, "text");
      const char *text = arena_printf(a,
                                      "kernel k tile(A: %s[N]) -> (C: %s[N]) {\n"
                                      "  shared x: %s[40]\n  fragment y: %s[40]\n"
                                      "  copy x = A[0:+40]\n  copy y = x\n  copy C[0:+40] = y\n}\n",
                                      dtype_name(all_types[t]), dtype_name(all_types[u]),
                                      dtype_name(all_types[t]), dtype_name(all_types[u]));
      Ev *e = ev_new(text);
      int64_t n = 33;
      IrTensorArg *x = ev_give(e, "A", all_types[t], 1, &n, ev_small);
      for (int64_t i = 0; i < n; i++)
        ev_put(x, i, ev_real(i) * 300);
      ev_ok(e);
      for (int64_t i = 0; i < n; i++) {
        Scalar s = scalar_load(all_types[t], (char *)x->data + i * (int64_t)dtype_size(x->dtype));
        Scalar want = scalar_convert(scalar_convert(s, all_types[u]), DT_F64);
        ck_assert_double_eq(ev_at(e, "C", i), want.as.f);
      }
      ev_free(e);
      arena_free(a);
    }
}
END_TEST

START_TEST(copy_within_a_tile) {
  Ev *e = ev_new("kernel k tile(A: i32[10]) -> (C: i32[10]) {\n"
                 "  shared x: i32[10]\n"
                 "  copy x = A[0:+10]\n"
                 "  copy x[2:+8] = x[0:+8]\n"
                 "  copy C[0:+10] = x\n"
                 "}\n");
  int64_t n = 10;
  ev_give(e, "A", DT_I32, 1, &n, ev_small);
  ev_ok(e);
  for (int64_t i = 0; i < n; i++)
    ck_assert_double_eq(ev_at(e, "C", i), ev_small(i < 2 ? i : i - 2));
  ev_free(e);
}
END_TEST

/* ---------------------------------------------------------------- folds and scans */

START_TEST(reductions) {
  static const char *const ops[] = {"sum", "rmax", "rmin", "absmax"};
  for (int o = 0; o < 4; o++)
    for (int axis = 0; axis < 2; axis++) {
      Arena *a = arena_new(NULL, "text");
      int64_t rows = 19, cols = 70, n = axis ? rows : cols;
      const char *text =
          arena_printf(a,
                       "kernel k tile(A: f32[19, 70]) -> (C: f32[%d], D: f32[1]) {\n"
                       "  shared x: f32[19, 70]\n  copy x = A[0:+19, 0:+70]\n"
                       "  fragment y: f32[%d]\n  reduce y = %s(x) axis %d\n"
                       "  reduce z: f32 = %s(x)\n  store D[0] = z\n  copy C[0:+%d] = y\n}\n",
                       (int)n, (int)n, ops[o], axis, ops[o], (int)n);
      Ev *e = ev_new(text);
      int64_t ex[2] = {rows, cols};
      ev_give(e, "A", DT_F32, 2, ex, ev_small);
      ev_ok(e);
      double all = o == 0 ? 0 : o == 2 ? (double)INFINITY : o == 3 ? 0 : -(double)INFINITY;
      for (int64_t i = 0; i < n; i++) {
        double want = o == 0 ? 0 : o == 2 ? (double)INFINITY : o == 3 ? 0 : -(double)INFINITY;
        for (int64_t j = 0; j < (axis ? cols : rows); j++) {
          double x = ev_small(axis ? i * cols + j : j * cols + i);
          want = o == 0   ? want + x
                 : o == 1 ? fmax(want, x)
                 : o == 2 ? fmin(want, x)
                          : fmax(want, fabs(x));
        }
        ck_assert_double_eq(ev_at(e, "C", i), want);
        all = o == 0 ? all + want : o == 2 ? fmin(all, want) : fmax(all, want);
      }
      ck_assert_double_eq(ev_at(e, "D", 0), all);
      ev_free(e);
      arena_free(a);
    }
}
END_TEST

START_TEST(argmax_takes_nan_then_the_first) {
  Ev *e = ev_new("kernel k tile(A: f32[6, 5]) -> (C: i32[6], D: i32[1], E: i32[5]) {\n"
                 "  shared x: f32[6, 5]\n  copy x = A[0:+6, 0:+5]\n"
                 "  fragment y: i32[6]\n  reduce y = argmax(x) axis 1\n  copy C[0:+6] = y\n"
                 "  fragment z: i32[5]\n  reduce z = argmin(x) axis 0\n  copy E[0:+5] = z\n"
                 "  reduce w: i32 = argmax(x)\n  store D[0] = w\n}\n");
  int64_t ex[2] = {6, 5};
  IrTensorArg *t = ev_give(e, "A", DT_F32, 2, ex, ev_small);
  ev_put(t, 3 * 5 + 2, (double)NAN);
  ev_put(t, 3 * 5 + 4, (double)NAN);
  ev_ok(e);
  for (int64_t i = 0; i < 6; i++) {
    int64_t best = 0;
    for (int64_t j = 1; j < 5; j++)
      if (ev_small(i * 5 + j) > ev_small(i * 5 + best))
        best = j;
    ck_assert_double_eq(ev_at(e, "C", i), i == 3 ? 2 : (double)best);
  }
  ck_assert_double_eq(ev_at(e, "D", 0), 17);
  ck_assert_double_eq(ev_at(e, "E", 2), 3);
  ev_free(e);
}
END_TEST

START_TEST(scans) {
  for (int mode = 0; mode < 4; mode++)
    for (int axis = 0; axis < 2; axis++) {
      Arena *a = arena_new(NULL, "text");
      const char *text = arena_printf(
          a,
          "kernel k tile(A: f32[6, 7]) -> (C: f32[6, 7]) {\n  shared x: f32[6, 7]\n"
          "  copy x = A[0:+6, 0:+7]\n  fragment y: f32[6, 7]\n  scan y = sum(x) axis %d%s%s\n"
          "  copy C[0:+6, 0:+7] = y\n}\n",
          axis, mode & 1 ? " reverse" : "", mode & 2 ? " exclusive" : "");
      Ev *e = ev_new(text);
      int64_t ex[2] = {6, 7}, n = ex[axis];
      ev_give(e, "A", DT_F32, 2, ex, ev_small);
      ev_ok(e);
      for (int64_t i = 0; i < ex[1 - axis]; i++)
        for (int64_t k = 0; k < n; k++) {
          double want = 0;
          for (int64_t j = 0; j < n; j++) {
            bool before = mode & 1 ? j > k : j < k;
            if (before || (j == k && !(mode & 2)))
              want += ev_small(axis ? i * 7 + j : j * 7 + i);
          }
          ck_assert_double_eq(ev_at(e, "C", axis ? i * 7 + k : k * 7 + i), want);
        }
      ev_free(e);
      arena_free(a);
    }
}
END_TEST

/* ---------------------------------------------------------------- blocks, atomics */

START_TEST(histogram_over_blocks) {
  Ev *e = ev_new("kernel k tile(A: i32[N], H: inout i32[9]) {\n"
                 "  grid b = ceildiv(N, 64)\n"
                 "  parallel i in [64] {\n"
                 "    let n: i64 = b*64 + i\n"
                 "    if n < N {\n"
                 "      load a: i32 = A[n]\n"
                 "      atomic _ = atomic_add(H[i64(a + 4)], 1)\n"
                 "    }\n"
                 "  }\n"
                 "}\n");
  int64_t n = 5000, bins = 9;
  double want[9] = {0};
  ev_give(e, "A", DT_I32, 1, &n, ev_small);
  IrTensorArg *h = ev_give(e, "H", DT_I32, 1, &bins, ev_small);
  for (int64_t i = 0; i < 9; i++)
    ev_put(h, i, 0);
  for (int64_t i = 0; i < n; i++)
    want[(int)ev_small(i) + 4]++;
  Pool *pool = pool_new(2);
  e->options.pool = pool;
  ev_ok(e);
  for (int64_t i = 0; i < 9; i++)
    ck_assert_double_eq(ev_at(e, "H", i), want[i]);
  pool_free(pool);
  ev_free(e);
}
END_TEST

START_TEST(the_last_block_sums_up) {
  Ev *e = ev_new("kernel k tile(A: f32[N], P: inout f32[40], D: inout i32[1]) -> (C: f32[1]) {\n"
                 "  grid b = 40\n"
                 "  shared x: f32[64]\n"
                 "  copy x = A[b*64:+64]\n"
                 "  reduce s: f32 = sum(x)\n"
                 "  store P[b] = s\n"
                 "  atomic old: i32 = atomic_add(D[0], 1)\n"
                 "  if old == 39 {\n"
                 "    shared y: f32[40]\n"
                 "    copy y = P[0:+40]\n"
                 "    reduce all: f32 = sum(y)\n"
                 "    store C[0] = all\n"
                 "  }\n"
                 "}\n");
  int64_t n = 2500, parts = 40, one = 1;
  double want = 0;
  ev_give(e, "A", DT_F32, 1, &n, ev_small);
  ev_give(e, "P", DT_F32, 1, &parts, ev_small);
  ev_put(ev_give(e, "D", DT_I32, 1, &one, ev_small), 0, 0);
  for (int64_t i = 0; i < n; i++)
    want += ev_small(i);
  Pool *pool = pool_new(2);
  e->options.pool = pool;
  ev_ok(e);
  ck_assert_double_eq(ev_at(e, "C", 0), want);
  pool_free(pool);
  ev_free(e);
}
END_TEST

static const char *const baton = "kernel k tile(F: inout i32[9]) -> (C: i32[8]) {\n"
                                 "  grid b = 8\n"
                                 "  %s\n"
                                 "  while { load f: i32 = F[b + 1] } cond f == 0 { }\n"
                                 "  load g: i32 = F[b + 1]\n"
                                 "  store C[b] = g\n"
                                 "  store F[b] = g + 1\n"
                                 "}\n";

START_TEST(blocks_wait_for_each_other) {
  Arena *a = arena_new(NULL, "text");
  for (int cooperative = 0; cooperative < 2; cooperative++) {
    Str s = str_new(a);
    const char *word = cooperative ? "cooperative" : "";
    const char *at = strchr(baton, '%');
    str_addn(&s, baton, (size_t)(at - baton));
    str_add(&s, word);
    str_add(&s, at + 2);
    Ev *e = ev_new(s.s);
    int64_t n = 9;
    IrTensorArg *f = ev_give(e, "F", DT_I32, 1, &n, ev_small);
    for (int64_t i = 0; i < 9; i++)
      ev_put(f, i, i == 8 ? 1 : 0);
    if (!cooperative) {
      ev_fault(e, E0455, "waits for another block", 4);
    } else {
      ev_ok(e);
      for (int64_t i = 0; i < 8; i++)
        ck_assert_double_eq(ev_at(e, "C", i), (double)(8 - i));
    }
    ev_free(e);
  }
  arena_free(a);
}
END_TEST

START_TEST(cooperative_deadlock) {
  Ev *e = ev_new("kernel k tile(F: inout i32[1]) {\n"
                 "  grid b = 3\n"
                 "  cooperative\n"
                 "  while { load f: i32 = F[0] } cond f == 0 { }\n"
                 "}\n");
  int64_t n = 1;
  ev_put(ev_give(e, "F", DT_I32, 1, &n, ev_small), 0, 0);
  ev_fault(e, E0455, "deadlock", 4);
  ev_free(e);
}
END_TEST

START_TEST(persistent_loops_share) {
  Ev *e = ev_new("kernel k tile(N: i64) -> (C: i64[N]) {\n"
                 "  grid b = 5\n"
                 "  for t: i64 = 0, N, 1 persistent { store C[t] = b }\n"
                 "}\n");
  ev_scalar(e, "N", 23);
  ev_ok(e);
  for (int64_t i = 0; i < 23; i++)
    ck_assert_double_eq(ev_at(e, "C", i), (double)(i % 5));
  ev_free(e);
}
END_TEST

/* ---------------------------------------------------------------- faults */

START_TEST(outside_is_a_fault) {
  Ev *e = ev_new("kernel k tile(A: f32[M, N]) -> (C: f32[M, N]) {\n"
                 "  grid b = M\n"
                 "  parallel i in [8] {\n"
                 "    load a: f32 = A[b, i]\n"
                 "    store C[b, i] = a\n"
                 "  }\n"
                 "}\n");
  int64_t ex[2] = {3, 5};
  ev_give(e, "A", DT_F32, 2, ex, ev_small);
  ev_fault(e, E0450, "element [0, 5] of A is outside its extents [3, 5], in block 0", 4);
  ev_free(e);
}
END_TEST

START_TEST(masked_lanes_do_not_fault) {
  Ev *e = ev_new("kernel k tile(A: i32[N]) -> (C: i32[N]) {\n"
                 "  parallel i in [100] {\n"
                 "    if i < N {\n"
                 "      load a: i32 = A[i]\n"
                 "      if a != 0 { store C[i] = 12 // a } else { store C[i] = 0 }\n"
                 "    }\n"
                 "  }\n"
                 "}\n");
  int64_t n = 77;
  ev_give(e, "A", DT_I32, 1, &n, ev_small);
  ev_ok(e);
  for (int64_t i = 0; i < n; i++) {
    double a = ev_small(i);
    ck_assert_double_eq(ev_at(e, "C", i), a == 0 ? 0 : floor(12 / a));
  }
  ev_free(e);
}
END_TEST

START_TEST(division_by_zero) {
  Ev *e = ev_new("kernel k tile(A: i32[N]) -> (C: i32[N]) {\n"
                 "  parallel i in [N] {\n"
                 "    load a: i32 = A[i]\n"
                 "    store C[i] = 12 // a\n"
                 "  }\n"
                 "}\n");
  int64_t n = 77;
  ev_give(e, "A", DT_I32, 1, &n, ev_small);
  ev_fault(e, E0452, "integer division by zero", 4);
  ev_free(e);
}
END_TEST

START_TEST(unwritten_is_a_fault) {
  Ev *e = ev_new("kernel k tile(A: f32[N]) -> (C: f32[N]) {\n"
                 "  shared x: f32[16]\n"
                 "  parallel i in [16] { if i != 9 { store x[i] = 1.0 } }\n"
                 "  map i in [16] { load a: f32 = x[i] store x[i] = a }\n"
                 "  copy C[0:+16] = x\n"
                 "}\n");
  int64_t n = 16;
  ev_give(e, "A", DT_F32, 1, &n, ev_small);
  ev_fault(e, E0451, "element [9] of x is read before", 4);
  ev_free(e);
  e = ev_new("kernel k tile(A: f32[N]) -> (C: f32[N]) {\n"
             "  for r: i64 = 0, 2, 1 {\n"
             "    fragment x: f32[4, 4]\n"
             "    if r == 0 { map i, j in [4, 4] { store x[i, j] = 1.0 } }\n"
             "    reduce s: f32 = sum(x)\n"
             "    store C[r] = s\n"
             "  }\n"
             "}\n");
  ev_give(e, "A", DT_F32, 1, &n, ev_small);
  ev_fault(e, E0451, "element [0, 0] of x", 5);
  ev_free(e);
  e = ev_new("kernel k tile(A: f32[N]) -> (C: f32[N]) {\n"
             "  store C[1] = 2.0\n"
             "  load a: f32 = C[1]\n"
             "  load b: f32 = C[2]\n"
             "}\n");
  ev_give(e, "A", DT_F32, 1, &n, ev_small);
  ev_fault(e, E0451, "element [2] of C", 4);
  ev_free(e);
}
END_TEST

START_TEST(assertions_and_regions) {
  int64_t n = 16;
  Ev *e = ev_new("kernel k tile(A: i32[N]) -> (C: i32[N]) {\n"
                 "  grid b = 4\n"
                 "  load a: i32 = A[b]\n"
                 "  assert (a > 100) | (b < 2), \"small\", a\n"
                 "}\n");
  ev_give(e, "A", DT_I32, 1, &n, ev_small);
  ev_fault(e, E0460, "assertion failed: small", 4);
  ck_assert_ptr_nonnull(strstr(e->sink.v[0]->text, "in block 2"));
  ev_free(e);
  e = ev_new("kernel k tile(A: i32[N], o: i64) -> (C: i32[N]) {\n"
             "  shared x: i32[16]\n"
             "  copy x = A[0:+16]\n"
             "  copy C[0:+4] = x[o:+4]\n"
             "}\n");
  ev_give(e, "A", DT_I32, 1, &n, ev_small);
  ev_scalar(e, "o", 13);
  ev_fault(e, E0456, "reaches from 13 to 16 along axis 0 of x, whose extent is 16", 4);
  ev_free(e);
}
END_TEST

START_TEST(endless_loops_end) {
  Ev *e = ev_new("kernel k tile(A: i32[N]) -> (C: i32[N]) {\n"
                 "  var n: i32 = 0\n"
                 "  while {} cond true { set n = n + 1 }\n"
                 "}\n");
  int64_t n = 1;
  ev_give(e, "A", DT_I32, 1, &n, ev_small);
  e->options.max_steps = 100000;
  ck_assert_int_eq(ev_run(e), ST_FAIL);
  ck_assert_uint_eq(e->sink.n, 0);
  static volatile sig_atomic_t stop = 1;
  e->options.max_steps = 0;
  e->options.interrupt = &stop;
  ck_assert_int_eq(ev_run(e), ST_INTERRUPTED);
  ev_free(e);
}
END_TEST

START_TEST(prints_come_in_block_order) {
  Ev *e = ev_new("kernel k tile(A: f32[N]) -> (C: f32[N]) {\n"
                 "  grid b = 6\n"
                 "  load a: f32 = A[b]\n"
                 "  print \"block\", b, a\n"
                 "  shared x: f32[2]\n"
                 "  copy x = A[b:+2]\n"
                 "  if b == 5 { print x }\n"
                 "}\n");
  int64_t n = 7;
  ev_give(e, "A", DT_F32, 1, &n, ev_small);
  char *text = NULL;
  size_t size = 0;
  Pool *pool = pool_new(2);
  e->options.pool = pool;
  e->options.print = open_memstream(&text, &size);
  ev_ok(e);
  fclose(e->options.print);
  ck_assert_str_eq(text, "block 0 -1.0\nblock 1 -3.0\nblock 2 4.0\nblock 3 2.0\nblock 4 0.0\n"
                         "block 5 -2.0\n[-2. -4.]\n");
  free(text);
  pool_free(pool);
  ev_free(e);
}
END_TEST

/* ---------------------------------------------------------------- shaking */

START_TEST(shaken_runs_agree) {
  for (uint64_t seed = 0; seed < 20; seed++) {
    Ev *e = ev_new("kernel k tile(A: i32[N]) -> (C: i32[N]) {\n"
                   "  grid b = ceildiv(N, 90)\n"
                   "  shared x: i32[90]\n"
                   "  copy x = A[b*90:+90]\n"
                   "  parallel i in [90] {\n"
                   "    let n: i64 = b*90 + i\n"
                   "    if n < N { load a: i32 = x[89 - i] store C[n] = a * i32(n) }\n"
                   "  }\n"
                   "}\n");
    int64_t n = 1000;
    ev_give(e, "A", DT_I32, 1, &n, ev_small);
    e->options.shake = seed;
    ev_ok(e);
    for (int64_t i = 0; i < n; i++) {
      int64_t from = i / 90 * 90 + 89 - i % 90;
      ck_assert_double_eq(ev_at(e, "C", i), (from < n ? ev_small(from) : 0) * (double)i);
    }
    ev_free(e);
  }
}
END_TEST

START_TEST(a_budget_runs_some_blocks) {
  int64_t n = 6400, ran = 0;
  for (int small = 0; small < 2; small++) {
    Ev *e = ev_new("kernel k tile(A: i32[N]) -> (C: i32[N]) {\n"
                   "  grid x, y, z = 10, 8, 5\n"
                   "  parallel i in [16] {\n"
                   "    let n: i64 = ((z*8 + y)*10 + x)*16 + i\n"
                   "    load a: i32 = A[n]\n"
                   "    store C[n] = a\n"
                   "  }\n"
                   "}\n");
    ev_give(e, "A", DT_I32, 1, &n, ev_small);
    e->options.budget = small ? 1e-12 : 1e6;
    e->options.blocks_run = &ran;
    ev_ok(e);
    const IrTensorArg *c = ev_tensor(e, "C");
    int64_t written = 0;
    for (int64_t i = 0; i < n; i++)
      written += c->written[i];
    ck_assert_int_eq(written, ran * 16);
    if (small)
      ck_assert(ran >= 20 && ran <= 28 && c->written[0] && c->written[n - 1]);
    else
      ck_assert_int_eq(ran, 400);
    ev_free(e);
  }
}
END_TEST

/* What needs one block after the other may be left out, or done in some blocks only. */
START_TEST(races_in_some_blocks) {
  for (int mode = 0; mode < 3; mode++) {
    Ev *e = ev_new("kernel k tile(A: f32[N]) -> (C: f32[N]) {\n  grid b = ceildiv(N, 8)\n"
                   "  parallel i in [9] { if b*8 + i < N { load x: f32 = A[b*8 + i]\n"
                   "    store C[b*8 + i] = x + f32(b) } }\n}\n");
    int64_t n = 4000, ran = 0;
    ev_give(e, "A", DT_F32, 1, &n, ev_small);
    e->options.checks = CHECKS_ALL;
    e->options.together = mode == 1;
    e->options.budget = mode == 2 ? 1e-9 : 0;
    e->options.blocks_run = &ran;
    if (mode == 1) {
      ev_ok(e);
      ck_assert_int_eq(ran, 500);
    } else {
      ck_assert_int_eq(ev_run(e), ST_FAIL);
      ck_assert_int_eq(e->sink.v[0]->code, E0483);
      ck_assert(ran < 160);
    }
    ev_free(e);
  }
}
END_TEST

int main(void) {
  const TTest *const tests[] = {add_by_tiles,
                                add_by_elements,
                                broadcast_rows_and_columns,
                                branches_and_continue,
                                loops_by_lanes,
                                local_arrays,
                                gather_and_run_time_extents,
                                copies_of_every_form,
                                copies_outside_write_nothing,
                                copies_convert_every_pair,
                                copy_within_a_tile,
                                reductions,
                                argmax_takes_nan_then_the_first,
                                scans,
                                histogram_over_blocks,
                                the_last_block_sums_up,
                                blocks_wait_for_each_other,
                                cooperative_deadlock,
                                persistent_loops_share,
                                outside_is_a_fault,
                                masked_lanes_do_not_fault,
                                division_by_zero,
                                unwritten_is_a_fault,
                                assertions_and_regions,
                                endless_loops_end,
                                prints_come_in_block_order,
                                shaken_runs_agree,
                                a_budget_runs_some_blocks,
                                races_in_some_blocks,
                                NULL};
  return run_suite("eval", tests);
}
