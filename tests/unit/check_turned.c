/* check_turned.c: products of which an operand lies across, in elements that are not of 16 bits:
 * that operand goes through registers, and the bits are those of the tile level, reductions along
 * both axes of the result among them.
 */
#include "lower_support.h"

enum { ROOM = 4096 };

typedef struct Across {
  DType t;
  int m, n, k;        /* of a tile */
  int64_t extents[3]; /* M, N, K */
  const char *result; /* dtype of C */
} Across;

static const Across *now; /* what `give` gives */

/* One side's copy: rows and columns of the tile, and which indices they go with. */
static void copy_text(Str *out, const char *tile, const char *tensor, const char *row, int rows,
                      const char *column, int columns) {
  str_addf(out, "copy %s = %s[%s*%d:+%d, %s*%d:+%d]\n", tile, tensor, row, rows, rows, column,
           columns, columns);
}

/* second: B is [K, N], which lies across; else A is [K, M], and its tile is used as `.T`. */
static const char *text_of(Arena *a, const Across *x, bool second) {
  Str s = str_new(a);
  const char *t = dtype_name(x->t), *acc = dtype_is_int(x->t) ? "i32" : "f32";
  int m = x->m, n = x->n, k = x->k;
  str_addf(&s, "kernel k tile(A: %s[%s], B: %s[%s]) -> (C: %s[M, N], D: %s[M], E: %s[N]) {\n", t,
           second ? "M, K" : "K, M", t, second ? "K, N" : "N, K", x->result, acc, acc);
  str_addf(&s, "grid bx, by = ceildiv(N, %d), ceildiv(M, %d)\n", n, m);
  str_addf(&s, "shared As: %s[%d, %d]\nshared Bs: %s[%d, %d]\n", t, second ? m : k, second ? k : m,
           t, second ? k : n, second ? n : k);
  str_addf(&s, "fragment s: %s[%d, %d]\nfragment d: %s[%d]\nfragment e: %s[%d]\n", acc, m, n, acc,
           m, acc, n);
  str_addf(&s, "map i, j in [%d, %d] { store s[i, j] = %s(0) unchecked }\n", m, n, acc);
  str_addf(&s, "for k: i64 = 0, ceildiv(K, %d), 1 pipelined(2) {\n", k);
  copy_text(&s, "As", "A", second ? "by" : "k", second ? m : k, second ? "k" : "by",
            second ? k : m);
  copy_text(&s, "Bs", "B", second ? "k" : "bx", second ? k : n, second ? "bx" : "k",
            second ? n : k);
  str_addf(&s, "dot s += %s @ %s%s\n}\n", second ? "As" : "As.T", second ? "Bs" : "Bs.T",
           x->t == DT_F32 ? " tf32" : "");
  str_addf(&s,
           "reduce d = rmax(s) axis 1\nreduce e = rmax(s) axis 0\n"
           "map i, j in [%d, %d] { load x: %s = s[i, j] unchecked\nload y: %s = e[j] unchecked\n"
           "store s[i, j] = x + y unchecked }\n",
           m, n, acc, acc);
  str_addf(&s, "copy C[by*%d:+%d, bx*%d:+%d] = s\n", m, m, n, n);
  str_addf(&s, "if bx == 0 { copy D[by*%d:+%d] = d }\nif by == 0 { copy E[bx*%d:+%d] = e }\n}\n", m,
           m, n, n);
  return str_text(&s);
}

static double any_byte(int64_t i) {
  return (double)((i * 7 + i / 9 * 5 + 3) % 256);
}

static void give(Ev *e, bool second) {
  int64_t m = now->extents[0], n = now->extents[1], k = now->extents[2];
  double (*fill)(int64_t) = now->t == DT_U8 ? any_byte : ev_small;
  ev_give(e, "A", now->t, 2, (int64_t[]){second ? m : k, second ? k : m}, fill);
  ev_give(e, "B", now->t, 2, (int64_t[]){second ? k : n, second ? n : k}, fill);
}
static void give_second(Ev *e) {
  give(e, true);
}
static void give_first(Ev *e) {
  give(e, false);
}

static void check_across(const Across *x, bool second) {
  static const char *const outputs[] = {"C", "D", "E"};
  Arena *a = arena_new(NULL, "text");
  const char *text = text_of(a, x, second);
  now = x;
  for (int i = 0; i < 3; i++) {
    Lowered l = lower_text(text, "sm_90a", 0);
    has(&l, "wgmma_rs");
    same_output(&l, second ? give_second : give_first, outputs[i]);
    ev_free(l.plain);
  }
  arena_free(a);
}

/* Rows of the instruction along the side that lies across, so its tile's sides change places. */
static void check_both(Across x) {
  check_across(&x, true);
  check_across(&(Across){x.t, x.n, x.m, x.k, {x.extents[1], x.extents[0], x.extents[2]}, x.result},
               false);
}

START_TEST(tf32) {
  check_both((Across){DT_F32, 128, 128, 32, {200, 168, 104}, "f32"});
  check_both((Across){DT_F32, 64, 192, 16, {72, 200, 56}, "f32"});
  check_both((Across){DT_F32, 40, 256, 64, {80, 264, 136}, "f16"});
  check_both((Across){DT_F32, 256, 64, 8, {260, 136, 24}, "f32"});
}
END_TEST

START_TEST(integers) {
  check_both((Across){DT_I8, 128, 128, 128, {200, 160, 336}, "i32"});
  check_both((Across){DT_U8, 64, 192, 64, {80, 208, 144}, "i32"});
  check_both((Across){DT_I8, 24, 64, 32, {48, 80, 80}, "i8"});
  check_both((Across){DT_U8, 32, 256, 32, {32, 272, 96}, "i32"});
}
END_TEST

/* Results of one or two bytes of the transpose leave by way of panels, a warpgroup's each. */
START_TEST(staged_results) {
  static const Across staged[] = {
      {DT_F32, 128, 128, 32, {200, 168, 104}, "bf16"},
      {DT_F32, 48, 256, 32, {64, 272, 40}, "f8e5m2"},
      {DT_F8E4M3, 128, 128, 128, {200, 160, 336}, "f8e4m3"},
      {DT_F8E4M3, 64, 192, 64, {80, 400, 80}, "f16"},
      {DT_I8, 32, 256, 64, {48, 272, 80}, "i8"},
  };
  for (size_t i = 0; i < sizeof staged / sizeof *staged; i++) {
    Arena *a = arena_new(NULL, "text");
    Lowered l = lower_text(text_of(a, &staged[i], true), "sm_90a", 0);
    has(&l, "tma_store");
    ev_free(l.plain);
    arena_free(a);
    check_both(staged[i]);
  }
}
END_TEST

START_TEST(small_floats) {
  check_both((Across){DT_F8E4M3, 128, 128, 128, {200, 160, 336}, "f32"});
  check_both((Across){DT_F8E5M2, 176, 64, 64, {192, 80, 144}, "f32"});
  check_both((Across){DT_F8E4M3, 64, 192, 32, {80, 208, 80}, "f8e4m3"});
}
END_TEST

/* Both operands lie across, or rows of the one that does are too few: by single warps. */
START_TEST(what_is_not_turned) {
  static const char *const both =
      "kernel k tile(A: i8[K, M], B: i8[K, N]) -> (C: i32[M, N]) {\n"
      "shared As: i8[32, 64]\nshared Bs: i8[32, 64]\nfragment s: i32[64, 64]\n"
      "copy As = A[0:+32, 0:+64]\ncopy Bs = B[0:+32, 0:+64]\ndot s = As.T @ Bs\n"
      "copy C[0:+64, 0:+64] = s\n}\n";
  static const char *const few =
      "kernel k tile(A: i8[M, K], B: i8[K, N]) -> (C: i32[M, N]) {\n"
      "shared As: i8[64, 32]\nshared Bs: i8[32, 32]\nfragment s: i32[64, 32]\n"
      "copy As = A[0:+64, 0:+32]\ncopy Bs = B[0:+32, 0:+32]\ndot s = As @ Bs\n"
      "copy C[0:+64, 0:+32] = s\n}\n";
  const char *const text[] = {both, few};
  const char *const note[] = {"K is not the axis of stride 1", "columns by 64, rows by 8"};
  for (int i = 0; i < 2; i++) {
    Lowered l = lower_text(text[i], "sm_90a", 0);
    has(&l, "mma_sync");
    says(&l, note[i]);
    ev_free(l.plain);
  }
}
END_TEST

int main(void) {
  const TTest *const tests[] = {tf32,           integers,           small_floats,
                                staged_results, what_is_not_turned, NULL};
  return run_suite("turned", tests);
}
