/* check_thread.c: the devices of the thread level, rule by rule: what they do, and what they
 * report. Products of warpgroups are in check_wgmma.c, whole kernels in tests/mutants.
 */
#include "eval_support.h"

static const int64_t one_warp[1] = {32};

static double zero(int64_t i) {
  return (void)i, 0;
}
static double number(int64_t i) {
  return (double)i;
}

/* A kernel of `threads` threads and 4096 bytes of shared memory over x, y: f32[32]; text on. */
static Ev *kernel(int threads, const char *body) {
  static char text[8192];
  snprintf(text, sizeof text,
           "kernel k thread(x: f32[32]) -> (y: f32[128] = 0) {\nthreads %d\nshared_bytes 4096\n"
           "shared s: f32[1024] at 0\nlet t: i32 = tid()\n%s\n}\n",
           threads, body);
  Ev *e = ev_new(text);
  ev_give(e, "x", DT_F32, 1, one_warp, number);
  return e;
}
enum { FIRST = 6 }; /* line of the body's first */

static void expect(int threads, const char *body, double (*y)(int64_t), int n) {
  Ev *e = kernel(threads, body);
  ev_ok(e);
  for (int i = 0; i < n; i++)
    ck_assert_msg(ev_at(e, "y", i) == y(i), "y[%d] = %g, not %g", i, ev_at(e, "y", i), y(i));
  ev_free(e);
}

static void report(int threads, const char *body, DiagCode code, const char *part, uint32_t line) {
  Ev *e = kernel(threads, body);
  ev_fault(e, code, part, FIRST - 1 + line);
  ev_free(e);
}

/* ---------------------------------------------------------------- lanes */

static double xor5(int64_t i) {
  return (double)(i ^ 5);
}
static double seven(int64_t i) {
  return (void)i, 7;
}
static double up3(int64_t i) {
  return (double)(i < 3 ? i : i - 3);
}
static double down3(int64_t i) {
  return (double)(i > 28 ? i : i + 3);
}
static double two(int64_t i) {
  return (void)i, 2;
}
static double votes(int64_t i) {
  return i == 0 ? 1 : 0;
}

START_TEST(shuffles) {
  expect(32, "load a: f32 = x[t]\nshfl_xor b: f32, a, 5\nstore y[t] = b", xor5, 32);
  expect(32, "load a: f32 = x[t]\nshfl_idx b: f32, a, 7\nstore y[t] = b", seven, 32);
  expect(32, "load a: f32 = x[t]\nshfl_up b: f32, a, 3\nstore y[t] = b", up3, 32);
  expect(32, "load a: f32 = x[t]\nshfl_down b: f32, a, 3\nstore y[t] = b", down3, 32);
}
END_TEST

START_TEST(voting) {
  expect(32,
         "vote_any a: bool, t == 31\nvote_all b: bool, t < 31\n"
         "if t == 0 { store y[0] = where(a, 1.0, 0.0)\nstore y[1] = where(b, 1.0, 0.0) }",
         votes, 2);
}
END_TEST

START_TEST(compiled_checks) {
  report(32, "fault t == 9, 4, t, 8", E0478, "check 4 failed: 9, 8", 1);
}
END_TEST

/* ---------------------------------------------------------------- shared memory, order */

static double reversed(int64_t i) {
  return (double)((127 - i) % 32);
}

START_TEST(ordered_by_barriers) {
  expect(128,
         "load a: f32 = x[t % 32]\nstore s[t] = a\nsyncthreads\nload b: f32 = s[127 - t]\n"
         "store y[t] = b",
         reversed, 128);
  expect(128,
         "load a: f32 = x[t % 32]\nstore s[t] = a\nbar_sync 3, 128\n"
         "load b: f32 = s[127 - t]\nstore y[t] = b",
         reversed, 128);
  /* warps 0 and 1 hand over to 2 and 3, which alone wait */
  expect(128,
         "load a: f32 = x[t % 32]\nroles { role p warps 0:+2 { store s[t] = a\n"
         "bar_arrive 1, 128 }\nrole c warps 2:+2 { bar_sync 1, 128\n"
         "load b: f32 = s[t - 64]\nstore y[t - 64] = b } }",
         xor5, 0);
}
END_TEST

START_TEST(unordered) {
  report(64, "store s[t] = 1.0\nload b: f32 = s[63 - t]\nstore y[t] = b", E0451, "before anything",
         2);
  report(64, "store s[t % 32] = 1.0", E0464, "warp 1 writes the shared byte 0", 1);
  report(64, "store s[t] = 1.0\nsyncthreads\nload b: f32 = s[63 - t]\nstore s[t] = b", E0464,
         "warp 0 reads the shared byte 252, written by warp 1", 3);
  /* a byte's neighbours in a word are another warp's */
  expect(64,
         "shared h: i8[64] at 0\nstore h[t] = i8(t)\nsyncthreads\n"
         "store h[63 - t] = 1\nsyncthreads\nlet o: i32 = t * 33 % 64\nload b: i8 = h[o]\n"
         "store h[o] = b + 1\nload c: i8 = h[o]\nstore y[t] = f32(c)",
         two, 64);
  report(64,
         "shared h: i8[64] at 0\nstore h[t] = i8(t)\nsyncthreads\n"
         "store h[63 - t] = 1\nload b: i8 = h[t]\nstore y[t] = f32(b)",
         E0464, "warp 0 reads the shared byte 0, written by warp 1", 5);
  /* two warps may write neighbouring words without a barrier */
  expect(64, "store s[2 * (t % 32) + t // 32] = 1.0", zero, 4);
}
END_TEST

/* What all lanes have in a register is one value: it decides and is assigned as one. */
START_TEST(registers_of_all) {
  expect(64,
         "reg r: f32[2]\nstore r[0] = 7.0\nlocal l: f32[1]\nstore l[0] = 1.0\n"
         "var w: f32 = 0.0\nload v: f32 = r[0]\nload u: f32 = l[0]\n"
         "if v > u { set w = v }\nfor i: i32 = 0, i32(u), 1 { store y[t % 32] = w }",
         seven, 32);
}
END_TEST

START_TEST(places) {
  report(32, "reg r: f32[4]\nld_shared r[0:+4], 4*t", E0462, "multiple of 16", 2);
  report(32, "reg r: f32[4]\nld_shared r[0:+4], 4096 - 16 + 16*t", E0463,
         "outside the block's 4096", 2);
  report(32, "reg r: f32[1]\nld_global r[0:+1], &x[t + 1]", E0450, "element 32", 2);
  report(32, "reg r: f32[4]\nld_global r[0:+4], &x[t % 2]", E0462, "element 1 of x", 2);
  report(32, "reg r: f32[1]\nst_global &y[t], r[0:+1]", E0451, "register 0 of r", 2);
}
END_TEST

static double doubled(int64_t i) {
  return (double)(2 * i);
}

START_TEST(vectors) {
  expect(32,
         "if t < 8 {\nreg r: f32[4]\nld_global r[0:+4], &x[4*t]\nst_shared 16*t, r[0:+4]\n"
         "}\nsyncwarp\nreg q: f32[2]\nif t < 16 {\nld_shared q[0:+2], 8*t\n"
         "load a: f32 = q[0]\nload b: f32 = q[1]\nstore q[0] = a * 2.0\n"
         "store q[1] = b * 2.0\nst_global &y[2*t], q[0:+2] }",
         doubled, 32);
}
END_TEST

/* ---------------------------------------------------------------- named barriers */

START_TEST(named_barriers) {
  report(64, "if warp() == 0 { bar_sync 1, 64 } else { bar_sync 1, 32 }", E0470, "for 32 threads",
         1);
  report(64, "if warp() == 0 { bar_sync 1, 64 }", E0455, "barrier 1 (32 of 64 threads", 1);
  report(32, "bar_sync 16 + warp(), 32", E0470, "there is no barrier 16", 1);
  report(64, "bar_sync 1, 32", E0470, "warp 1 arrives at barrier 1", 1);
}
END_TEST

/* ---------------------------------------------------------------- mbarriers */

#define BARRIER "if t == 0 { mbar_init 64, 2\nmbar_init 72, 1\nmbar_fence_init }\nsyncthreads\n"

START_TEST(mbarriers) {
  /* two arrivals end the phase; a fresh barrier lets parity 1 pass; data are ordered by it */
  expect(96,
         BARRIER "mbar_wait 64, 1\nif warp() < 2 {\nload a: f32 = x[t % 32]\n"
                 "store s[32 + t] = a\nif t % 32 == 0 { mbar_arrive 64 } } else {\n"
                 "mbar_wait 64, 0\nload b: f32 = s[t - 32]\nstore y[t - 64] = b }",
         number, 32);
  report(64, BARRIER "if warp() == 0 { mbar_wait 64, 0 }", E0455,
         "parity 0 of the mbarrier at 64 (its phase 0 has 0 of 2 arrivals)", 5);
  report(32, BARRIER "mbar_arrive 72", E0469, "nothing tells it that the phase before", 5);
  report(32, "mbar_init 64, 1", E0469, "a second time", 1);
  report(32, "if t == 0 { mbar_init 60 + t, 1 }", E0462, "multiple of 8", 1);
  report(32, "if t == 0 { mbar_init 64, 0 }", E0469, "0 arrivals", 1);
  report(32, "if t == 0 { mbar_arrive 80 }", E0469, "no initialised mbarrier", 1);
  report(32, BARRIER "store s[16] = 1.0", E0469, "where an mbarrier is", 5);
  report(64, "if t == 0 { mbar_init 64, 1 }\nmbar_wait 64, 1", E0469, "no barrier orders", 2);
}
END_TEST

/* Warp 1 knows of phase 0 and waits for it to end while warp 0 ends two. */
START_TEST(mbarrier_lag) {
  report(64,
         BARRIER "if warp() == 0 { if t == 0 {\nmbar_arrive 72\nmbar_wait 72, 0\n"
                 "mbar_arrive 72 }\nsyncwarp\nbar_arrive 1, 64 } else {\n"
                 "bar_sync 2, 32\nbar_arrive 2, 32\nmbar_wait 64, 1\nmbar_wait 72, 0 }",
         E0469, "lags by two", 14);
}
END_TEST

/* ---------------------------------------------------------------- cp.async */

#define CP "if t < 8 {\ncp_async 16*t, &x[4*t], 16, 16\ncp_async_commit\n"

static double tail(int64_t i) {
  return i < 2 ? (double)i : 0;
}

START_TEST(asynchronous_copies) {
  expect(32, CP "cp_async_wait 0 }\nsyncthreads\nload a: f32 = s[t]\nstore y[t] = a", number, 32);
  expect(32,
         "if t == 0 { cp_async 0, &x[0], 16, 8\ncp_async_commit\ncp_async_wait 0 }\n"
         "if t < 4 { load a: f32 = s[t]\nstore y[t] = a }",
         tail, 4);
  report(32, CP "}\nsyncthreads\nload a: f32 = s[t]\nstore y[t] = a", E0464, "cp_async of warp 0",
         6);
  report(32, CP "cp_async_wait 1 }\nload a: f32 = s[t]\nstore y[t] = a", E0464,
         "cp_async of warp 0", 5);
  report(32, "cp_async 16*t, &x[4*t], 16, 16", E0450, "not inside", 1);
}
END_TEST

/* ---------------------------------------------------------------- fragments */

/* Writes an 8x16 matrix of u16 numbers row by row, reads it as two fragments. */
static Ev *fragments(const char *load) {
  static char text[4096];
  snprintf(text, sizeof text,
           "kernel k thread() -> (y: u32[128] = 0) {\nthreads 32\nshared_bytes 1024\n"
           "shared s: u16[128] at 0\nlet t: i32 = tid()\nfor i: i32 = 0, 4, 1 {\n"
           "store s[32*i + t] = u16(32*i + t) }\nsyncwarp\nreg r: u32[2]\n"
           "%s r[0:+2], 32*(t %% 8) + 16*(t // 8 %% 2)\nload a: u32 = r[0]\nload b: u32 = r[1]\n"
           "store y[t] = a\nstore y[32 + t] = b\n}\n",
           load);
  Ev *e = ev_new(text);
  ev_ok(e);
  return e;
}

START_TEST(load_matrix) {
  Ev *e = fragments("ldmatrix"), *f = fragments("ldmatrix_t");
  for (int l = 0; l < 32; l++)
    for (int q = 0; q < 2; q++) {
      int row = l / 4, col = 2 * (l % 4) + 8 * q;
      double plain = 16 * row + col + 65536.0 * (16 * row + col + 1);
      int r0 = 2 * (l % 4), c0 = l / 4 + 8 * q;
      double turned = 16 * r0 + c0 + 65536.0 * (16 * (r0 + 1) + c0);
      ck_assert(ev_at(e, "y", 32 * q + l) == plain && ev_at(f, "y", 32 * q + l) == turned);
    }
  ev_free(e);
  ev_free(f);
}
END_TEST

START_TEST(store_matrix) {
  Ev *e = ev_new("kernel k thread() -> (y: u16[128] = 0) {\nthreads 32\nshared_bytes 1024\n"
                 "shared s: u16[128] at 0\nlet t: i32 = tid()\nreg r: u32[2]\n"
                 "store r[0] = u32(2*t) | u32(2*t + 1) << 16:u32\nstore r[1] = u32(100 + t)\n"
                 "stmatrix 32*(t % 8) + 16*(t // 8 % 2), r[0:+2]\nsyncwarp\n"
                 "for i: i32 = 0, 4, 1 { load a: u16 = s[32*i + t]\nstore y[32*i + t] = a }\n}\n");
  ev_ok(e);
  for (int l = 0; l < 32; l++) {
    int at = l / 4 * 16 + 2 * (l % 4);
    ck_assert(ev_at(e, "y", at) == 2 * l && ev_at(e, "y", at + 1) == 2 * l + 1);
    ck_assert(ev_at(e, "y", at + 8) == 100 + l && ev_at(e, "y", at + 9) == 0);
  }
  ev_free(e);
}
END_TEST

/* Fragments loaded from global memory element by element, after the PTX tables. */
START_TEST(warp_products) {
  static const int64_t ea[2] = {16, 16}, eb[2] = {16, 8};
  Ev *e =
      ev_new("kernel k thread(A: f16[16, 16], B: f16[16, 8]) -> (C: f32[16, 8]) {\nthreads 32\n"
             "let t: i32 = tid()\nlet g: i32 = t // 4\nlet q: i32 = 2*(t % 4)\n"
             "reg a: u32[4]\nreg b: u32[2]\nreg c: f32[4]\nfor i: i32 = 0, 4, 1 unroll {\n"
             "load x: f16 = A[g + 8*(i % 2), q + 8*(i // 2)]\n"
             "load z: f16 = A[g + 8*(i % 2), q + 8*(i // 2) + 1]\n"
             "store a[i] = pack_f16(f32(x), f32(z))\nstore c[i] = f32(i) }\n"
             "for i: i32 = 0, 2, 1 unroll {\nload x: f16 = B[q + 8*i, g]\nload z: f16 = B[q + 8*i "
             "+ 1, g]\n"
             "store b[i] = pack_f16(f32(x), f32(z)) }\nmma_sync c[0:+4], a[0:+4], b[0:+2], f16\n"
             "for i: i32 = 0, 4, 1 unroll {\nload v: f32 = c[i]\n"
             "store C[g + 8*(i // 2), q + i % 2] = v }\n}\n");
  ev_give(e, "A", DT_F16, 2, ea, ev_small);
  ev_give(e, "B", DT_F16, 2, eb, ev_positive);
  ev_ok(e);
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 8; j++) {
      double sum = 2 * (i / 8) + j % 2;
      for (int k = 0; k < 16; k++)
        sum += ev_small(i * 16 + k) * ev_positive(k * 8 + j);
      ck_assert_msg(ev_at(e, "C", i * 8 + j) == sum, "C[%d, %d]", i, j);
    }
  ev_free(e);
}
END_TEST

/* The j-th of the elements that lie in 32-bit word i. */
static double element_of_word(DType t, int64_t i, int j) {
  double x = ev_small(i * (4 / (int)dtype_size(t)) + j);
  return t == DT_U8 && x < 0 ? x + 256 : x; /* also bytes that i8 would read as negative */
}

/* Words of elements of t, as a tensor of u32 holds them. */
static double word_of(DType t, int64_t i) {
  uint8_t bytes[4] = {0};
  uint32_t w;
  int size = (int)dtype_size(t);
  for (int j = 0; j < 4 / size; j++) {
    Scalar x = {.type = DT_F64, .as.f = element_of_word(t, i, j)};
    scalar_store(scalar_convert(x, t), bytes + j * size);
  }
  memcpy(&w, bytes, sizeof w);
  return w;
}
static double words_e4m3(int64_t i) {
  return word_of(DT_F8E4M3, i);
}
static double words_e5m2(int64_t i) {
  return word_of(DT_F8E5M2, i);
}
static double words_i8(int64_t i) {
  return word_of(DT_I8, i);
}
static double words_u8(int64_t i) {
  return word_of(DT_U8, i);
}
static double words_f32(int64_t i) {
  return word_of(DT_F32, i);
}

/* Rows of A and columns of B are 32 bytes of k, 8 words (PTX ISA, fragments of mma). */
static void warp_product(DType t, double (*words)(int64_t)) {
  static const int64_t ea[2] = {16, 8}, eb[2] = {8, 8};
  const char *acc = dtype_is_int(t) ? "i32" : "f32";
  char text[1024];
  snprintf(text, sizeof text,
           "kernel k thread(A: u32[16, 8], B: u32[8, 8]) -> (C: %s[16, 8]) {\nthreads 32\n"
           "let t: i32 = tid()\nlet g: i32 = t // 4\nlet q: i32 = t %% 4\n"
           "reg a: u32[4]\nreg b: u32[2]\nreg c: %s[4]\nfor i: i32 = 0, 4, 1 unroll {\n"
           "load x: u32 = A[g + 8*(i %% 2), q + 4*(i // 2)]\nstore a[i] = x\n"
           "store c[i] = %s(i) }\nfor i: i32 = 0, 2, 1 unroll {\n"
           "load x: u32 = B[g, q + 4*i]\nstore b[i] = x }\n"
           "mma_sync c[0:+4], a[0:+4], b[0:+2], %s\nfor i: i32 = 0, 4, 1 unroll {\n"
           "load v: %s = c[i]\nstore C[g + 8*(i // 2), 2*q + i %% 2] = v }\n}\n",
           acc, acc, dtype_is_int(t) ? "" : "f32", dtype_name(t), acc);
  Ev *e = ev_new(text);
  ev_give(e, "A", DT_U32, 2, ea, words);
  ev_give(e, "B", DT_U32, 2, eb, words);
  ev_ok(e);
  int per_word = 4 / (int)dtype_size(t);
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 8; j++) {
      double sum = 2 * (i / 8) + j % 2;
      for (int k = 0; k < 8 * per_word; k++)
        sum += element_of_word(t, i * 8 + k / per_word, k % per_word) *
               element_of_word(t, j * 8 + k / per_word, k % per_word);
      ck_assert_msg(ev_at(e, "C", i * 8 + j) == sum, "%s: C[%d, %d]", dtype_name(t), i, j);
    }
  ev_free(e);
}

START_TEST(warp_products_of_other_widths) {
  warp_product(DT_F8E4M3, words_e4m3);
  warp_product(DT_F8E5M2, words_e5m2);
  warp_product(DT_I8, words_i8);
  warp_product(DT_U8, words_u8);
  warp_product(DT_F32, words_f32);
}
END_TEST

static double small(int64_t i) {
  return (double)(i * 7 % 11 - 5) * 0.5;
}

/* m8n8k4: a register each of A and B; m16n8k4, k8, k16: A's register j is at row l/4 + 8 (j%2), k
 * l%4 + 4 (j/2), B's at k l%4 + 4 j (PTX ISA, fragments of mma with .f64). */
static void product_of_f64(int rows, int depth) {
  int64_t ea[2] = {rows, depth}, eb[2] = {depth, 8};
  int na = rows * depth / 32, nb = depth / 4, nd = rows / 4, high = rows / 8;
  char text[1024];
  snprintf(text, sizeof text,
           "kernel k thread(A: f64[%d, %d], B: f64[%d, 8]) -> (C: f64[%d, 8]) {\nthreads 32\n"
           "let t: i32 = tid()\nlet g: i32 = t // 4\nlet q: i32 = t %% 4\n"
           "reg a: f64[%d]\nreg b: f64[%d]\nreg c: f64[%d]\nfor i: i32 = 0, %d, 1 unroll {\n"
           "load x: f64 = A[g + 8*(i %% %d), q + 4*(i // %d)]\nstore a[i] = x }\n"
           "for i: i32 = 0, %d, 1 unroll {\nload y: f64 = B[q + 4*i, g]\nstore b[i] = y }\n"
           "for i: i32 = 0, %d, 1 unroll {\nstore c[i] = f64(g + i) }\n"
           "mma_sync c[0:+%d], a[0:+%d], b[0:+%d], f64\nfor i: i32 = 0, %d, 1 unroll {\n"
           "load v: f64 = c[i]\nstore C[g + 8*(i // 2), 2*q + i %% 2] = v }\n}\n",
           rows, depth, depth, rows, na, nb, nd, na, high, high, nb, nd, nd, na, nb, nd);
  Ev *e = ev_new(text);
  ev_give(e, "A", DT_F64, 2, ea, small);
  ev_give(e, "B", DT_F64, 2, eb, small);
  ev_ok(e);
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < 8; j++) {
      double sum = i % 8 + i / 8 * 2 + j % 2;
      for (int k = 0; k < depth; k++)
        sum += small(i * depth + k) * small(k * 8 + j);
      ck_assert_msg(ev_at(e, "C", i * 8 + j) == sum, "m%dn8k%d: C[%d, %d]", rows, depth, i, j);
    }
  ev_free(e);
}

START_TEST(warp_product_of_f64) {
  product_of_f64(8, 4);
  product_of_f64(16, 4);
  product_of_f64(16, 8);
  product_of_f64(16, 16);
}
END_TEST

/* 1 + 2^-12 has more bits than tf32 keeps: products see 1. */
START_TEST(tf32_drops_low_bits) {
  Ev *e = ev_new("kernel k thread() -> (C: f32[32]) {\nthreads 32\nlet t: i32 = tid()\n"
                 "reg a: u32[4]\nreg b: u32[2]\nreg c: f32[4]\n"
                 "for i: i32 = 0, 4, 1 unroll { store a[i] = 1065355264:u32 store c[i] = 0.0 }\n"
                 "for i: i32 = 0, 2, 1 unroll { store b[i] = 1065355264:u32 }\n"
                 "mma_sync c[0:+4], a[0:+4], b[0:+2], f32\n"
                 "load v: f32 = c[0]\nstore C[t] = v\n}\n");
  ev_ok(e);
  for (int i = 0; i < 32; i++)
    ck_assert_double_eq(ev_at(e, "C", i), 8.0);
  ev_free(e);
}
END_TEST

/* ---------------------------------------------------------------- registers of warpgroups */

START_TEST(redistribution) {
  report(128, "setmaxnreg_inc 24", E0474, "where a thread has 255", 1);
  report(384, "setmaxnreg_inc 232", E0455, "232 registers a thread", 1);
  expect(384, "if warp() < 4 { setmaxnreg_dec 40 } else { setmaxnreg_inc 232 }", zero, 1);
}
END_TEST

/* ---------------------------------------------------------------- counters */

static EvalCounters count(const char *body) {
  EvalCounters n = {0};
  Ev *e = kernel(32, body);
  e->options.counters = &n;
  ev_ok(e);
  ev_free(e);
  return n;
}

START_TEST(counters) {
  ck_assert_uint_eq(count("store s[t] = 1.0").bank_conflicts, 0);
  ck_assert_uint_eq(count("store s[2*t] = 1.0").bank_conflicts, 1);
  ck_assert_uint_eq(count("store s[32*t] = 1.0").bank_conflicts, 31);
  ck_assert_uint_eq(count("store s[33*t % 1024] = 1.0").bank_conflicts, 0);
  /* 16 bytes a lane go in quarters of the warp: without conflict in rows, 8 ways in columns */
  const char *wide = "reg r: f32[4]\nfor i: i32 = 0, 4, 1 unroll { store r[i] = 0.0 }\n";
  char text[256];
  snprintf(text, sizeof text, "%sst_shared 16*t, r[0:+4]", wide);
  ck_assert_uint_eq(count(text).bank_conflicts, 0);
  snprintf(text, sizeof text, "%sst_shared 128*t, r[0:+4]", wide);
  ck_assert_uint_eq(count(text).bank_conflicts, 4 * 7);
  ck_assert_uint_eq(count("load a: f32 = x[t]\nstore y[t] = a").sectors, 8);
  ck_assert_uint_eq(count("load a: f32 = x[0]\nstore y[4*t] = a").sectors, 1 + 16);
}
END_TEST

int main(void) {
  Suite *s = suite_create("thread");
  TCase *c = tcase_create("thread");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, shuffles);
  tcase_add_test(c, voting);
  tcase_add_test(c, compiled_checks);
  tcase_add_test(c, ordered_by_barriers);
  tcase_add_test(c, unordered);
  tcase_add_test(c, registers_of_all);
  tcase_add_test(c, places);
  tcase_add_test(c, vectors);
  tcase_add_test(c, named_barriers);
  tcase_add_test(c, mbarriers);
  tcase_add_test(c, mbarrier_lag);
  tcase_add_test(c, asynchronous_copies);
  tcase_add_test(c, load_matrix);
  tcase_add_test(c, store_matrix);
  tcase_add_test(c, warp_products);
  tcase_add_test(c, warp_products_of_other_widths);
  tcase_add_test(c, warp_product_of_f64);
  tcase_add_test(c, tf32_drops_low_bits);
  tcase_add_test(c, redistribution);
  tcase_add_test(c, counters);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
