/* check_eval_product.c: products: the chain of fused multiply-adds, bit for bit, in every type and
 * orientation, over instruction sets, threads and tile sizes. The reference is fma() of the C
 * library in a plain triple loop. */
#include "eval_support.h"

static const int64_t edges[] = {1, 7, 15, 16, 17, 33, 64, 100};
enum { EDGES = sizeof edges / sizeof *edges };

static const DType types[] = {DT_F16, DT_BF16, DT_F32, DT_F64, DT_F8E4M3, DT_F8E5M2,
                              DT_I8,  DT_U8,   DT_I16, DT_U32, DT_I64};
enum { TYPES = sizeof types / sizeof *types };

static bool runs(OpIsa cpu) {
  return op_isa_runs(cpu);
}

/* Elements of wide range, also where products underflow. */
static double wide(int64_t i) {
  return ldexp(ev_real(i), (int)(i * 37 % 160) - 80);
}

typedef struct Case {
  DType t, acc;
  int64_t m, n, k;
  bool at, bt;
  void *a, *b, *c, *d;
} Case;

static void *matrix(DType t, int64_t n, double (*fill)(int64_t), int64_t from) {
  char *p = malloc((size_t)n * dtype_size(t) + 64);
  ck_assert_ptr_nonnull(p);
  for (int64_t i = 0; i < n; i++) {
    Scalar s = {.type = DT_F64, .as.f = fill(i + from)};
    scalar_store(scalar_convert(s, t), p + i * (int64_t)dtype_size(t));
  }
  return p;
}

static Scalar element(const Case *c, const void *p, int64_t i) {
  return scalar_load(c->t, (const char *)p + i * (int64_t)dtype_size(c->t));
}

/* One element of the product as the language defines it, into stored form at out. */
static void chain(const Case *c, int64_t i, int64_t j, void *out) {
  float f = 0;
  double d = 0;
  uint64_t u = 0;
  for (int64_t p = 0; p < c->k; p++) {
    Scalar x = element(c, c->a, c->at ? p * c->m + i : i * c->k + p);
    Scalar y = element(c, c->b, c->bt ? j * c->k + p : p * c->n + j);
    if (c->acc == DT_F32)
      f = fmaf((float)x.as.f, (float)y.as.f, f);
    else if (c->acc == DT_F64)
      d = fma(x.as.f, y.as.f, d);
    else
      u += x.as.u * y.as.u;
  }
  if (c->acc == DT_F32)
    memcpy(out, &f, 4);
  else if (c->acc == DT_F64)
    memcpy(out, &d, 8);
  else
    memcpy(out, &u, dtype_size(c->acc));
}

/* every: checks each so-manieth element. */
static void check_case(Case *c, const EvalOptions *o, double (*fill)(int64_t), int64_t every) {
  size_t size = dtype_size(c->acc), bytes = (size_t)(c->m * c->n) * size;
  c->a = matrix(c->t, c->m * c->k, fill, 0);
  c->b = matrix(c->t, c->k * c->n, fill, 1000);
  c->c = malloc(bytes + 64);
  c->d = malloc(bytes + 64);
  EvalMatrix a = {c->a, c->at ? 1 : c->k, c->at ? c->m : 1};
  EvalMatrix b = {c->b, c->bt ? 1 : c->n, c->bt ? c->k : 1};
  EvalMatrix r = {c->c, c->n, 1};
  ck_assert_int_eq(eval_product(o, c->t, c->m, c->n, c->k, a, b, r, false), ST_OK);
  for (int64_t i = 0; i < c->m * c->n; i += every) {
    char *want = (char *)c->d + (size_t)i * size;
    chain(c, i / c->n, i % c->n, want);
    ck_assert_msg(memcmp((char *)c->c + (size_t)i * size, want, size) == 0,
                  "%s %dx%dx%d cpu %d %d%d element %d", dtype_name(c->t), (int)c->m, (int)c->n,
                  (int)c->k, (int)o->isa, c->at, c->bt, (int)i);
  }
  free(c->a);
  free(c->b);
  free(c->c);
  free(c->d);
}

START_TEST(host_products_are_chains) {
  for (OpIsa cpu = OPS_BASELINE; cpu <= OPS_V4; cpu++)
    for (int t = 0; t < TYPES && runs(cpu); t++)
      for (int e = 0; e < EDGES * EDGES; e += 3) {
        EvalOptions o = {.isa = cpu};
        Case c = {.t = types[t], .acc = op_product_type(types[t], types[t])};
        c.m = edges[e % EDGES];
        c.n = edges[e / EDGES];
        c.k = edges[(e * 3 + e / 8) % EDGES];
        c.at = e & 1;
        c.bt = e & 2;
        bool floats = dtype_is_float(c.t);
        check_case(&c, &o,
                   !floats                           ? ev_small
                   : c.t == DT_F32 || c.t == DT_BF16 ? wide
                                                     : ev_real,
                   1);
      }
}
END_TEST

START_TEST(deep_products_on_threads) {
  Pool *pool = pool_new(2);
  for (OpIsa cpu = OPS_BASELINE; cpu <= OPS_V4; cpu++)
    for (int t = 0; t < 3 && runs(cpu); t++) {
      EvalOptions o = {.isa = cpu, .pool = pool};
      Case c = {.t = types[t], .acc = DT_F32, .m = 230, .n = 530, .k = 400, .bt = t == 1};
      check_case(&c, &o, ev_real, 97);
    }
  pool_free(pool);
}
END_TEST

START_TEST(nothing_to_sum_gives_zero) {
  float c[6] = {1, 2, 3, 4, 5, 6}, a = 0;
  EvalOptions o = {.isa = OPS_BEST};
  EvalMatrix x = {&a, 0, 1}, r = {c, 3, 1};
  ck_assert_int_eq(eval_product(&o, DT_F32, 2, 3, 0, x, x, r, true), ST_OK);
  ck_assert(c[5] == 6);
  ck_assert_int_eq(eval_product(&o, DT_F32, 2, 3, 0, x, x, r, false), ST_OK);
  for (int i = 0; i < 6; i++)
    ck_assert(c[i] == 0);
}
END_TEST

/* ---------------------------------------------------------------- kernels */

static const char *const blocked =
    "kernel k tile(A: %s[M, K], B: %s[%s]) -> (C: %s[M, N]) {\n"
    "  grid bx, by = ceildiv(N, %d), ceildiv(M, %d)\n"
    "  shared As: %s[%d, %d]\n  shared Bs: %s[%d, %d]\n  fragment acc: %s[%d, %d]\n"
    "  map i, j in [%d, %d] { store acc[i, j] = %s }\n"
    "  for ko: i64 = 0, ceildiv(K, %d), 1 pipelined(3) {\n"
    "    copy As = A[by*%d:+%d, ko*%d:+%d]\n"
    "    copy Bs = B[%s]\n"
    "    dot acc += As @ Bs%s\n"
    "  }\n"
    "  copy C[by*%d:+%d, bx*%d:+%d] = acc\n"
    "}\n";

typedef struct Tiles {
  int m, n, k;
  bool bt;
} Tiles;

static Ev *product_kernel(DType t, const Tiles *x) {
  Arena *a = arena_new(NULL, "text");
  const char *name = dtype_name(t), *acc = dtype_name(op_product_type(t, t));
  const char *b = x->bt ? "N, K" : "K, N";
  const char *zero = dtype_is_float(t) ? "0.0" : "0";
  const char *from = x->bt ? arena_printf(a, "bx*%d:+%d, ko*%d:+%d", x->n, x->n, x->k, x->k)
                           : arena_printf(a, "ko*%d:+%d, bx*%d:+%d", x->k, x->k, x->n, x->n);
  int rows = x->bt ? x->n : x->k, cols = x->bt ? x->k : x->n;
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  const char *text =
      arena_printf(a, blocked, name, name, b, acc, x->n, x->m, name, x->m, x->k, name, rows, cols,
                   acc, x->m, x->n, x->m, x->n, zero, x->k, x->m, x->m, x->k, x->k, from,
                   x->bt ? ".T" : "", x->m, x->m, x->n, x->n);
  Ev *e = ev_new(text);
  arena_free(a);
  return e;
}

static void check_kernel(DType t, const Tiles *x, OpIsa cpu, Pool *pool) {
  Ev *e = product_kernel(t, x);
  Case c = {.t = t, .acc = op_product_type(t, t), .m = 45, .n = 70, .k = 53, .bt = x->bt};
  int64_t ae[2] = {c.m, c.k}, be[2] = {x->bt ? c.n : c.k, x->bt ? c.k : c.n};
  double (*fill)(int64_t) = dtype_is_float(t) ? ev_real : ev_small;
  c.a = ev_give(e, "A", t, 2, ae, fill)->data;
  c.b = ev_give(e, "B", t, 2, be, fill)->data;
  e->options.isa = cpu;
  e->options.pool = pool;
  ev_ok(e);
  const IrTensorArg *r = ev_tensor(e, "C");
  char want[8];
  size_t size = dtype_size(c.acc);
  for (int64_t i = 0; i < c.m * c.n; i++) {
    chain(&c, i / c.n, i % c.n, want);
    ck_assert_msg(memcmp(want, (char *)r->data + (size_t)i * size, size) == 0,
                  "%s tiles %d %d %d element %d", dtype_name(t), x->m, x->n, x->k, (int)i);
  }
  ev_free(e);
}

START_TEST(tiles_do_not_change_the_bits) {
  static const Tiles tiles[] = {{16, 16, 8, false},  {45, 70, 53, false}, {64, 32, 16, true},
                                {13, 29, 7, false},  {32, 64, 53, true},  {1, 1, 1, false},
                                {128, 128, 64, true}};
  Pool *pool = pool_new(2);
  for (int t = 0; t < TYPES; t++)
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
      for (OpIsa cpu = OPS_BASELINE; cpu <= OPS_V4; cpu++)
        if (runs(cpu) && (tiles[i].m > 1 || cpu == OPS_V4))
          check_kernel(types[t], &tiles[i], cpu, i & 1 ? pool : NULL);
  pool_free(pool);
}
END_TEST

START_TEST(slices_and_transposes) {
  /* c = a[2:+6, 1:+5].T @ b.T-like slices of larger tiles, an accumulator in f16, in place. */
  Ev *e = ev_new("kernel k tile(A: f32[9, 8], B: f32[11, 12]) -> (C: f32[5, 7], D: f32[6, 6]) {\n"
                 "  shared x: f32[9, 8] shared y: f32[11, 12] fragment z: f32[8, 9]\n"
                 "  copy x = A[0:+9, 0:+8] copy y = B[0:+11, 0:+12]\n"
                 "  map i, j in [8, 9] { store z[i, j] = 1.0 }\n"
                 "  dot z[2:+5, 1:+7] += x[2:+6, 1:+5].T @ y[3:+7, 4:+6].T\n"
                 "  copy C[0:+5, 0:+7] = z[2:+5, 1:+7]\n"
                 "  dot x[0:+6, 0:+6] = x[0:+6, 0:+6] @ x[0:+6, 0:+6]\n"
                 "  copy D[0:+6, 0:+6] = x[0:+6, 0:+6]\n"
                 "}\n");
  int64_t ae[2] = {9, 8}, be[2] = {11, 12};
  ev_give(e, "A", DT_F32, 2, ae, ev_small);
  ev_give(e, "B", DT_F32, 2, be, ev_small);
  ev_ok(e);
  for (int64_t i = 0; i < 5; i++)
    for (int64_t j = 0; j < 7; j++) {
      double want = 1;
      for (int64_t p = 0; p < 6; p++)
        want += ev_small((2 + p) * 8 + 1 + i) * ev_small((3 + j) * 12 + 4 + p);
      ck_assert_double_eq(ev_at(e, "C", i * 7 + j), want);
    }
  for (int64_t i = 0; i < 6; i++)
    for (int64_t j = 0; j < 6; j++) {
      double want = 0;
      for (int64_t p = 0; p < 6; p++)
        want += ev_small(i * 8 + p) * ev_small(p * 8 + j);
      ck_assert_double_eq(ev_at(e, "D", i * 6 + j), want);
    }
  ev_free(e);
}
END_TEST

START_TEST(unwritten_operand_is_a_fault) {
  Ev *e = ev_new("kernel k tile(A: f32[4, 4]) -> (C: f32[4, 4]) {\n"
                 "  shared x: f32[4, 4] fragment z: f32[4, 4]\n"
                 "  copy x[0:+4, 0:+3] = A[0:+4, 0:+3]\n"
                 "  dot z = x @ x\n"
                 "}\n");
  int64_t ae[2] = {4, 4};
  ev_give(e, "A", DT_F32, 2, ae, ev_small);
  ev_fault(e, E0451, "element [0, 3] of x", 4);
  ev_free(e);
}
END_TEST

int main(void) {
  const TTest *const tests[] = {host_products_are_chains,
                                deep_products_on_threads,
                                nothing_to_sum_gives_zero,
                                tiles_do_not_change_the_bits,
                                slices_and_transposes,
                                unwritten_operand_is_a_fault,
                                NULL};
  return run_suite("eval_product", tests);
}
