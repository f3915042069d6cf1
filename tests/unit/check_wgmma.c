/* check_wgmma.c: products of warpgroups and the copy engine: every layout of an operand that a
 * descriptor can name, written by a second formula here, against a product in double; boxes of
 * tensor maps with every swizzle; the rules of both.
 */
#include "eval_support.h"

/* ---------------------------------------------------------------- operands by threads */

/* How a matrix of `rows` (M or N) by 16 of k lies in shared memory, as the reference has it: the
 * byte offset of element (r, k). span 0: 8x8 matrices of 128 bytes. */
typedef struct Layout {
  int span;
  bool trans;
  int rows;
  int size; /* bytes of an element: 2, 1 with 32 of k, 4 with 8 */
} Layout;

static int depth(const Layout *l) {
  return 32 / l->size;
}

static int offset_of(const Layout *l, int r, int k) {
  int line = l->trans ? k : r, along = (l->trans ? r : k) * l->size; /* bytes, contiguous */
  if (!l->span) {
    int other = l->trans ? 16 / 8 : l->rows / 8; /* matrices across */
    return (along / 16 * other + line / 8) * 128 + line % 8 * 16 + along % 16;
  }
  int lines = l->trans ? 16 : l->rows;
  int at = along / l->span * lines * l->span + line * l->span + along % l->span;
  int chunk = at / 16 % (l->span / 16), pattern = at / 128 % (l->span / 16);
  return at - chunk * 16 + (chunk ^ pattern) * 16;
}

/* Leading and stride byte offsets of that layout (hopper rules: PTX ISA, matrix descriptor). */
static void strides(const Layout *l, int *leading, int *stride) {
  if (!l->span) {
    int other = l->trans ? 2 : l->rows / 8;
    *leading = l->trans ? 128 : other * 128; /* next 8 of k */
    *stride = l->trans ? other * 128 : 128;  /* next 8 rows */
    return;
  }
  *stride = 8 * l->span;
  *leading = l->trans ? 16 * l->span : 16;
}

static int code_of(int span) {
  return span == 128 ? 1 : span == 64 ? 2 : span == 32 ? 3 : 0;
}

/* The reference's bytes: a permutation table, element of the operand to element of shared memory.
 */
static double place_table(const Layout *l, int i) {
  int k = depth(l);
  return offset_of(l, l->trans ? i % l->rows : i / k, l->trans ? i / l->rows : i % k) / l->size;
}

enum { B_AT = 8192, BYTES = 8192 + 32768 };

/* C = A B of one m64nNk16: operands placed in shared memory by tables, registers stored as
 * C[register][thread]. */
static Ev *one_product(const Layout *a, const Layout *b, const char *type) {
  static char text[4096];
  int la, sa, lb, sb, n = b->rows, k = depth(a);
  const char *acc = strcmp(type, "i8") ? "f32" : "i32";
  strides(a, &la, &sa);
  strides(b, &lb, &sb);
  snprintf(text, sizeof text,
           "kernel k thread(A: %s[%d], B: %s[%d], pa: i32[%d], pb: i32[%d]) -> (C: %s[%d, 128]) {\n"
           "threads 128\nshared_bytes %d\nshared as: %s[%d] at 0\nshared bs: %s[%d] at %d\n"
           "let t: i32 = tid()\nfor i: i32 = t, %d, 128 {\nload x: %s = A[i]\n"
           "load p: i32 = pa[i]\nstore as[p] = x }\nfor i: i32 = t, %d, 128 {\nload x: %s = B[i]\n"
           "load p: i32 = pb[i]\nstore bs[p] = x }\nfence_proxy_async\nsyncthreads\n"
           "reg c: %s[%d]\nwgmma_fence\n"
           "wgmma_ss c[0:+%d], desc(0, %d, %d, %d), desc(%d, %d, %d, %d), false, %d, %s, %d, %d\n"
           "wgmma_commit\nwgmma_wait 0\nfor i: i32 = 0, %d, 1 unroll {\nload x: %s = c[i]\n"
           "store C[i, t] = x }\n}\n",
           type, 64 * k, type, n * k, 64 * k, n * k, acc, n / 2, BYTES, type, 8192 / a->size, type,
           32768 / a->size, B_AT, 64 * k, type, n * k, type, acc, n / 2, n / 2, la, sa,
           code_of(a->span), B_AT, lb, sb, code_of(b->span), n, type, a->trans, b->trans, n / 2,
           acc);
  return ev_new(text);
}

static const Layout *table_layout;
static double from_table(int64_t i) {
  return place_table(table_layout, (int)i);
}

static void give_operand(Ev *e, const char *name, const char *places, const Layout *l, DType t,
                         double (*fill)(int64_t)) {
  int64_t n = l->rows * depth(l);
  ev_give(e, name, t, 1, &n, fill);
  table_layout = l;
  ev_give(e, places, DT_I32, 1, &n, from_table);
}

/* Element (r, k) of an operand given in the order of place_table. */
static double element(const Layout *l, double (*fill)(int64_t), int r, int k) {
  return fill(l->trans ? k * l->rows + r : r * depth(l) + k);
}

static void check_product(Ev *e, const Layout *a, const Layout *b) {
  for (int t = 0; t < 128; t++)
    for (int i = 0; i < b->rows / 2; i++) {
      int row = 16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2),
          col = 8 * (i / 4) + 2 * (t % 4) + i % 2;
      double sum = 0;
      for (int k = 0; k < depth(a); k++)
        sum += element(a, ev_small, row, k) * element(b, ev_positive, col, k);
      ck_assert_msg(ev_at(e, "C", i * 128 + t) == sum,
                    "a: span %d trans %d; b: span %d trans %d n %d: [%d, %d]", a->span, a->trans,
                    b->span, b->trans, b->rows, row, col);
    }
}

START_TEST(layouts) {
  static const int spans[] = {0, 32, 64, 128}, columns[] = {8, 24, 64, 96, 256};
  for (int v = 0; v < 8; v++)
    for (int w = 0; w < 8; w++) {
      Layout a = {spans[v / 2], v % 2, 64, 2}, b = {spans[w / 2], w % 2, columns[(v + w) % 5], 2};
      if (b.trans && b.span && b.rows % (b.span / 2)) /* whole panels */
        b.rows = 128;
      Ev *e = one_product(&a, &b, v % 3 ? "bf16" : "f16");
      DType t = v % 3 ? DT_BF16 : DT_F16;
      give_operand(e, "A", "pa", &a, t, ev_small);
      give_operand(e, "B", "pb", &b, t, ev_positive);
      ev_ok(e);
      check_product(e, &a, &b);
      ev_free(e);
    }
}
END_TEST

/* f8, i8 (into i32) and f32 as tf32, whose ten bits hold the small integers exactly. */
START_TEST(other_widths) {
  static const int spans[] = {0, 32, 64, 128};
  static const DType types[] = {DT_F8E4M3, DT_F8E5M2, DT_I8, DT_F32};
  for (int v = 0; v < 16; v++) {
    DType t = types[v % 4];
    int size = (int)dtype_size(t);
    Layout a = {spans[v / 4], false, 64, size},
           b = {spans[3 - v / 4], false, 48 + 64 * (v % 4), size};
    Ev *e = one_product(&a, &b, dtype_name(t));
    give_operand(e, "A", "pa", &a, t, ev_small);
    give_operand(e, "B", "pb", &b, t, ev_small);
    ev_ok(e);
    for (int i = 0; i < 128 * b.rows / 2; i++) {
      int th = i % 128, r = i / 128;
      int row = 16 * (th / 32) + th % 32 / 4 + 8 * (r / 2 % 2),
          col = 8 * (r / 4) + 2 * (th % 4) + r % 2;
      double sum = 0;
      for (int k = 0; k < 32 / size; k++)
        sum += ev_small(row * 32 / size + k) * ev_small(col * 32 / size + k);
      ck_assert_double_eq(ev_at(e, "C", i), sum);
    }
    ev_free(e);
  }
}
END_TEST

/* Chained fused steps, k ascending, from the accumulator: the order shows in the bits. */
START_TEST(order_of_sums) {
  Layout a = {128, false, 64, 2}, b = {128, false, 64, 2};
  Ev *e = one_product(&a, &b, "f16");
  give_operand(e, "A", "pa", &a, DT_F16, ev_real);
  give_operand(e, "B", "pb", &b, DT_F16, ev_real);
  ev_ok(e);
  for (int t = 0; t < 128; t++)
    for (int i = 0; i < 32; i++) {
      int row = 16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2),
          col = 8 * (i / 4) + 2 * (t % 4) + i % 2;
      float sum = 0;
      for (int k = 0; k < 16; k++)
        sum = fmaf(f16_to_f32(f64_to_f16(ev_real(row * 16 + k))),
                   f16_to_f32(f64_to_f16(ev_real(col * 16 + k))), sum);
      ck_assert_double_eq(ev_at(e, "C", i * 128 + t), (double)sum);
    }
  ev_free(e);
}
END_TEST

/* ---------------------------------------------------------------- registers as A, reports */

#define HEAD                                                                                       \
  "kernel k thread(B: bf16[16, 64]) -> (C: f32[32, 128] = 0) {\nthreads 128\nshared_bytes 4096\n"  \
  "shared bs: bf16[16, 64] at 0\nlet t: i32 = tid()\nreg a: u32[4]\nreg c: f32[32]\n"              \
  "for i: i32 = t, 1024, 128 {\nlet k: i32 = i // 64\nlet n: i32 = i % 64\n"                       \
  "load x: bf16 = B[k, n]\nstore bs[k, n % 8 + 8*(n // 8 ^ k % 8)] = x }\n"                        \
  "fence_proxy_async\nsyncthreads\nlet d: u64 = desc(0, 2048, 1024, 1)\n"                          \
  "for i: i32 = 0, 4, 1 unroll { store a[i] = pack_bf16(f32(t % 4), f32(i)) }\n"                   \
  "for i: i32 = 0, 32, 1 unroll { store c[i] = f32(i) }\n"
#define TAIL "for i: i32 = 0, 32, 1 unroll { load x: f32 = c[i]\nstore C[i, t] = x }\n}\n"
enum { BODY = 18 }; /* line of the first statement after HEAD */

static Ev *with_registers(const char *body) {
  static const int64_t extent[2] = {16, 64};
  static char text[8192];
  snprintf(text, sizeof text, "%s%s%s", HEAD, body, TAIL);
  Ev *e = ev_new(text);
  ev_give(e, "B", DT_BF16, 2, extent, ev_small);
  return e;
}

START_TEST(registers_as_a) {
  Ev *e = with_registers("wgmma_fence\nwgmma_rs c[0:+32], a[0:+4], d, true, 64, bf16, 1\n"
                         "wgmma_commit\nwgmma_wait 0\n");
  ev_ok(e);
  for (int t = 0; t < 128; t++)
    for (int i = 0; i < 32; i++) {
      int half = i / 2 % 2, col = 8 * (i / 4) + 2 * (t % 4) + i % 2;
      double sum = i;
      for (int k = 0; k < 16; k++) {
        double x = k % 2 ? half + 2 * (k / 8) : k % 8 / 2; /* lane's own or register number */
        sum += x * ev_small(k * 64 + col);
      }
      ck_assert_double_eq(ev_at(e, "C", i * 128 + t), sum);
    }
  ev_free(e);
}
END_TEST

static void report(const char *body, DiagCode code, const char *part, uint32_t line) {
  Ev *e = with_registers(body);
  ev_fault(e, code, part, BODY - 1 + line);
  ev_free(e);
}

#define PRODUCT "wgmma_rs c[0:+32], a[0:+4], d, true, 64, bf16, 1\n"

START_TEST(rules) {
  report(PRODUCT "wgmma_commit\nwgmma_wait 0\n", E0467, "no wgmma_fence", 1);
  report("wgmma_fence\nstore c[3] = 0.0\n" PRODUCT, E0467, "register 3 of c", 3);
  report("wgmma_fence\n" PRODUCT "wgmma_commit\nload x: f32 = c[5]\n", E0466,
         "register 5 of c is read", 4);
  report("wgmma_fence\n" PRODUCT "wgmma_commit\nstore a[1] = 0\n", E0466, "a is overwritten", 4);
  report("wgmma_fence\n" PRODUCT "wgmma_wait 0\nload x: f32 = c[5]\n", E0466, "is read", 4);
}
END_TEST

START_TEST(more_rules) {
  report("wgmma_fence\n" PRODUCT "wgmma_commit\nstore bs[0, 0] = 0.0:bf16\nwgmma_wait 0\n", E0465,
         "a product of warpgroup 0 may still read", 4);
  report("wgmma_fence\nwgmma_rs c[0:+32], a[0:+4], desc(3072, 2048, 1024, 1), true, 64, bf16, 1\n",
         E0451, "which nothing wrote", 2);
  report("wgmma_fence\nwgmma_rs c[0:+32], a[0:+4], desc(4096, 2048, 1024, 1), true, 64, bf16, 1\n",
         E0463, "outside the block's 4096", 2);
}
END_TEST

/* ---------------------------------------------------------------- boxes */

static double number(int64_t i) {
  return (double)(i % 2048);
}

/* Loads a box of a 2-D i16 tensor [13, 72] at (c0, c1), copies shared memory out as it lies. */
static Ev *box(int swizzle, int inner, int rows, int c0, int c1) {
  static char text[2048];
  static const int64_t extent[2] = {13, 72};
  int n = inner * rows;
  snprintf(text, sizeof text,
           "kernel k thread(A: i16[13, 72]) -> (y: i16[%d]) {\n"
           "tmap m = A dim [72, 13] stride [144] box [%d, %d] swizzle %d\nthreads 32\n"
           "shared_bytes 16384\nshared s: i16[%d] at 1024\nlet t: i32 = tid()\n"
           "if t == 0 {\nmbar_init 0, 1\nmbar_fence_init\nmbar_expect_tx 0, %d\n"
           "tma_load 1024, m, 0, %d, %d }\nsyncthreads\nmbar_wait 0, 0\n"
           "for i: i32 = t, %d, 32 { load x: i16 = s[i]\nstore y[i] = x }\n}\n",
           n, inner, rows, swizzle, n, 2 * n, c0, c1, n);
  Ev *e = ev_new(text);
  ev_give(e, "A", DT_I16, 2, extent, number);
  return e;
}

START_TEST(boxes) {
  static const int swizzles[] = {0, 32, 64, 128};
  for (int s = 0; s < 4; s++)
    for (int v = 0; v < 4; v++) {
      int inner = s ? swizzles[s] / 2 : 24, c0 = v * 30 - 9, c1 = v * 5 - 3;
      Ev *e = box(swizzles[s], inner, 11, c0, c1);
      ev_ok(e);
      for (int r = 0; r < 11; r++)
        for (int c = 0; c < inner; c++) {
          int at = r * inner * 2 + c * 2, bits = s ? swizzles[s] / 16 - 1 : 0;
          at ^= (at / 128 & bits) * 16;
          bool inside = c0 + c >= 0 && c0 + c < 72 && c1 + r >= 0 && c1 + r < 13;
          double want = inside ? number((c1 + r) * 72 + c0 + c) : 0;
          ck_assert_double_eq(ev_at(e, "y", at / 2), want);
        }
      ev_free(e);
    }
}
END_TEST

/* A box stored in part: what lies outside is not written, what is inside is, once. */
START_TEST(stores) {
  static const int64_t extent[1] = {256};
  const char *text =
      "kernel k thread(x: i32[256]) -> (C: i32[5, 20]) {\n"
      "tmap m = C dim [20, 5] stride [80] box [8, 4] swizzle 32\nthreads 32\nshared_bytes 4096\n"
      "shared s: i32[256] at 0\nlet t: i32 = tid()\n"
      "for i: i32 = t, 32, 32 { load v: i32 = x[i]\n"
      "store s[8*(i // 8) + i % 4 + 4*(i // 4 % 2 ^ i // 32)] = v "
      "}\nfence_proxy_async\nsyncthreads\n"
      "if t == 0 { tma_store m, 0, 16, 2\nbulk_commit\nbulk_wait 0 }\n}\n";
  Ev *e = ev_new(text);
  ev_give(e, "x", DT_I32, 1, extent, number);
  ev_ok(e);
  const uint8_t *written = ev_tensor(e, "C")->written;
  for (int r = 0; r < 5; r++)
    for (int c = 0; c < 20; c++) {
      bool inside = r >= 2 && c >= 16;
      ck_assert(!!written[r * 20 + c] == inside);
      if (inside)
        ck_assert_double_eq(ev_at(e, "C", r * 20 + c), (r - 2) * 8 + c - 16);
    }
  ev_free(e);
}
END_TEST

/* What two warps write in turn, again and again, does not crowd out what is staged in the end; what
 * is clipped need not have been written. */
START_TEST(many_writes) {
  Ev *e = ev_new("kernel k thread() -> (C: i32[4, 8]) {\ntmap m = C dim [8, 4] stride [32] box [8, "
                 "8] swizzle 0\n"
                 "threads 64\nshared_bytes 512\nshared s: i32[128] at 0\nlet t: i32 = tid()\n"
                 "for i: i32 = 0, 40, 1 {\nstore s[64 + 2*(t % 32) + t // 32] = i\nsyncthreads\n"
                 "store s[64 + 2*(t % 32) + 1 - t // 32] = i\nsyncthreads }\n"
                 "if t < 32 { store s[t] = t }\nfence_proxy_async\nsyncthreads\n"
                 "if t == 0 { tma_store m, 0, 0, 0\nbulk_commit\nbulk_wait_read 0 }\n}\n");
  ev_ok(e);
  for (int i = 0; i < 32; i++)
    ck_assert_double_eq(ev_at(e, "C", i), i);
  ev_free(e);
}
END_TEST

static void refused(const char *map, const char *ops, DiagCode code, const char *part) {
  static char text[2048];
  static const int64_t extent[2] = {16, 64};
  snprintf(text, sizeof text,
           "kernel k thread(A: inout i16[R, W], q: i32) -> (y: i32[1] = 0) {\ntmap m = A "
           "%s\nthreads 32\n"
           "shared_bytes 8192\nlet t: i32 = tid()\nif t == 0 {\nmbar_init 8184, "
           "1\nmbar_fence_init\n%s }\n"
           "}\n",
           map, ops);
  Ev *e = ev_new(text);
  ev_give(e, "A", DT_I16, 2, extent, number);
  ev_scalar(e, "q", 1);
  ev_fault(e, code, part, 9);
  ev_free(e);
}

START_TEST(refusals) {
  refused("dim [W, R] stride [W*2 + 8] box [16, 4] swizzle 0", "tma_load 0, m, 8184, 0, 0", E0471,
          "multiple of 16 bytes");
  refused("dim [W, R + 1] stride [W*2] box [16, 4] swizzle 0", "tma_load 0, m, 8184, 0, 0", E0471,
          "within the tensor");
  refused("dim [W - 65, R] stride [W*2] box [16, 4] swizzle 0", "tma_load 0, m, 8184, 0, 0", E0471,
          "at most 2^32, not -1");
  refused("dim [W, R] stride [W*2] box [16, 4] swizzle 32", "tma_load 128*q, m, 8184, 0, 0", E0462,
          "multiple of 256");
  refused("dim [W, R] stride [W*2] box [16, 4] swizzle 0", "tma_load 8160 * q, m, 8184, 0, 0",
          E0463, "outside");
  refused("dim [W, R] stride [W*2] box [16, 4] swizzle 0", "tma_store m, 0, -q, 0", E0471,
          "negative coordinate");
  refused("dim [W, R] stride [W*2] box [16, 4] swizzle 0", "tma_store m, 0, 0, 0", E0451,
          "which nothing wrote");
}
END_TEST

int main(void) {
  Suite *s = suite_create("wgmma");
  TCase *c = tcase_create("wgmma");
  tcase_set_timeout(c, 120);
  tcase_add_test(c, layouts);
  tcase_add_test(c, other_widths);
  tcase_add_test(c, order_of_sums);
  tcase_add_test(c, registers_as_a);
  tcase_add_test(c, rules);
  tcase_add_test(c, more_rules);
  tcase_add_test(c, boxes);
  tcase_add_test(c, stores);
  tcase_add_test(c, many_writes);
  tcase_add_test(c, refusals);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
