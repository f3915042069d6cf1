/* check_roles.c: what the author schedules (`specialize`, barriers, `cluster`), lowered to threads:
 * the bits of the tile level at ragged extents, the registers that roles ask for, and what is said
 * where a better way is declined.
 */
#include "lower_support.h"

/* A product whose copies run ahead. */
#define AHEAD                                                                                      \
  "kernel mm tile(A: f16[M, K] strided, B: f16[K, N] strided) -> (C: f32[M, N] strided) {\n"       \
  "  grid bx, by = ceildiv(N, 64), ceildiv(M, 128)\n  threads 128\n"                               \
  "  shared As: f16[128, 64]\n  shared Bs: f16[64, 64]\n  fragment acc: f32[128, 64]\n"            \
  "  map i, j in [128, 64] { store acc[i, j] = f32(0) }\n"                                         \
  "  for ko: i64 = 0, ceildiv(K, 64), 1 pipelined(3) {\n"                                          \
  "    copy As = A[by*128:+_, ko*64:+_]\n    copy Bs = B[ko*64:+_, bx*64:+_]\n"                    \
  "    dot acc += As @ Bs\n  }\n"                                                                  \
  "  copy C[by*128:+_, bx*64:+_] = acc\n}\n"

/* ---------------------------------------------------------------- registers */

#define HAND_OVER(producer, groups, consumer)                                                      \
  "kernel k tile(x: f32[N]) -> (y: f32[N]) {\nthreads 384\nshared t: f32[64]\n"                    \
  "shared full: u64[1] arrivals 1\nroles {\n"                                                      \
  "role producer warps 0:+4 registers " producer " { copy t = x[0:+64] signal full[0] }\n"         \
  "role consumer warps 4:+" groups " registers " consumer " { await full[0] parity 0\n"            \
  "copy y[0:+64] = t }\n}\n}\n"

START_TEST(registers_of_roles) {
  Lowered x = lower_text(HAND_OVER("24", "8", "240"), "sm_90a", 0);
  has(&x, "setmaxnreg_dec 24");
  has(&x, "setmaxnreg_inc 240");
  ev_free(x.plain);
  x = lower_text(HAND_OVER("168", "8", "160"), "sm_90a", 0); /* 168 is what there is at launch */
  ck_assert_ptr_null(strstr(x.text, "setmaxnreg_inc"));
  has(&x, "setmaxnreg_dec 160");
  ev_free(x.plain);
}
END_TEST

START_TEST(registers_left_out) {
  Lowered x = lower_text(HAND_OVER("40", "8", "240"), "sm_90a", 0);
  ck_assert_ptr_null(strstr(x.text, "setmaxnreg"));
  says(&x, "together the warpgroups would wait for more than the block has");
  ev_free(x.plain);
  x = lower_text(HAND_OVER("24", "6", "240"), "sm_90a", 0);
  ck_assert_ptr_null(strstr(x.text, "setmaxnreg"));
  says(&x, "no whole warpgroups");
  ev_free(x.plain);
}
END_TEST

/* ---------------------------------------------------------------- products in roles */

/* A producer and consumers of two warpgroups; `acc` declared where `in` or `out` says. */
#define PRODUCT(t, bm, bn, bk, out, in)                                                            \
  "kernel ws tile(A: " t "[M, K], B: " t "[K, N]) -> (C: f32[M, N]) {\n"                           \
  "grid bx, by = ceildiv(N, " bn "), ceildiv(M, " bm ")\nthreads 384\n"                            \
  "shared As: " t "[3, " bm ", " bk "]\nshared Bs: " t "[3, " bk ", " bn "]\n"                     \
  "shared full: u64[3] arrivals 2\nshared empty: u64[3] arrivals 1\n" out "roles {\n"              \
  "role producer warps 0:+4 registers 40 {\nfor k: i64 = 0, ceildiv(K, " bk "), 1 {\n"             \
  "let s: i64 = k % 3\nawait empty[s] parity k // 3 + 1\n"                                         \
  "copy As[s, 0:+" bm ", 0:+" bk "] = A[by*" bm ":+" bm ", k*" bk ":+" bk "] signal full[s]\n"     \
  "copy Bs[s, 0:+" bk ", 0:+" bn "] = B[k*" bk ":+" bk ", bx*" bn ":+" bn                          \
  "] signal full[s] }\n}\n"                                                                        \
  "role consumer warps 4:+8 registers 232 {\n" in "for k: i64 = 0, ceildiv(K, " bk                 \
  "), 1 {\nlet s: i64 = k % 3\n"                                                                   \
  "await full[s] parity k // 3\n"                                                                  \
  "dot acc += As[s, 0:+" bm ", 0:+" bk "] @ Bs[s, 0:+" bk ", 0:+" bn "]\narrive empty[s] }\n"      \
  "copy C[by*" bm ":+" bm ", bx*" bn ":+" bn "] = acc }\n}\n}\n"
#define START(bm, bn)                                                                              \
  "fragment acc: f32[" bm ", " bn "]\nmap i, j in [" bm ", " bn                                    \
  "] { store acc[i, j] = 1.0 unchecked }\n"

static void give_f16(Ev *e) {
  static const int64_t a[2] = {136, 200}, b[2] = {200, 168};
  ev_give(e, "A", DT_F16, 2, a, ev_small);
  ev_give(e, "B", DT_F16, 2, b, ev_small);
}

static void give_nothing(Ev *e) {
  static const int64_t a[2] = {136, 0}, b[2] = {0, 168};
  ev_give(e, "A", DT_F16, 2, a, ev_small);
  ev_give(e, "B", DT_F16, 2, b, ev_small);
}

/* Two warpgroups of 64 rows, and of 128; loops that run no time. */
START_TEST(products_of_warpgroups) {
  static const char *const texts[] = {PRODUCT("f16", "128", "72", "64", "", START("128", "72")),
                                      PRODUCT("f16", "256", "64", "32", START("256", "64"), "")};
  void (*const give[])(Ev *) = {give_f16, give_nothing};
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++) {
      Lowered x = lower_text(texts[i], "sm_90a", 0);
      has(&x, "wgmma_ss");
      has(&x, "tma_load");
      has(&x, "wgmma_wait 0\n        if first_thread {\n          mbar_arrive");
      ck_assert(!strstr(x.text, "ld_global"));
      says(&x, "schedule: warpgroup, roles of the author");
      same_output(&x, give[j], "C");
      ev_free(x.plain);
    }
}
END_TEST

/* The notes say why not, and another candidate does it. */
START_TEST(products_declined) {
  Lowered x = lower_text(PRODUCT("f16", "64", "32", "32", "", START("64", "32")), "sm_90a", 0);
  says(&x, "has not 64 or 128 rows a warpgroup");
  says(&x, "schedule: registers");
  ev_free(x.plain);
  x = lower_text(PRODUCT("i8", "128", "32", "32", "", "fragment acc: i32[128, 32]\n"), "sm_90a", 0);
  says(&x, "not the axis of stride 1");
  ev_free(x.plain);
}
END_TEST

/* A schedule that cannot do it is not counted: each number gives another text, down to the scalar
 * one, which says that it is the last. Of sm_80 the dense one takes no product. */
START_TEST(every_number_is_another_schedule) {
  static const char *const archs[] = {"sm_80", "sm_89", "sm_90a"};
  for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
    Lowered x = lower_text(AHEAD, archs[i], 0);
    int n = 0;
    for (; !x.last; n++) {
      Lowered next = lower_text(AHEAD, archs[i], n + 1);
      ck_assert_str_ne(x.text, next.text);
      ev_free(x.plain);
      x = next;
    }
    says(&x, "schedule: scalar");
    ck_assert_int_ge(n, 1);
    Lowered beyond = lower_text(AHEAD, archs[i], n + 5);
    ck_assert(beyond.last);
    ck_assert_str_eq(x.text, beyond.text);
    ev_free(beyond.plain);
    ev_free(x.plain);
  }
}
END_TEST

/* Declared within the role, and before it, where the role's threads come to hold it alone. */
START_TEST(products_of_warps) {
  static const char *const texts[] = {PRODUCT("f16", "64", "32", "32", "", START("64", "32")),
                                      PRODUCT("f16", "64", "32", "32", START("64", "32"), "")};
  for (int i = 0; i < 2; i++)
    for (int candidate = 0; candidate < 1000; candidate += 999) {
      Lowered x = lower_text(texts[i], "sm_90a", candidate);
      ck_assert_int_eq(!strstr(x.text, "mma_sync"), !!candidate);
      same_output(&x, give_f16, "C");
      ev_free(x.plain);
    }
}
END_TEST

/* ---------------------------------------------------------------- clusters */

START_TEST(clusters) {
  Lowered x = lower_text(BLOCKS("cluster 2, 3, 1\n"), "sm_90a", 0);
  has(&x, "cluster 2, 3, 1");
  has(&x, "grid bx, by, bz = ceildiv(m, 2) * 2, ceildiv(n, 3) * 3, 3");
  says(&x, "launched together");
  same_output(&x, give_blocks, "y");
  ev_free(x.plain);
  x = lower_text(BLOCKS("cluster 2, 3, 1\n"), "sm_80", 0);
  ck_assert_ptr_null(strstr(x.text, "cluster"));
  says(&x, "the target has none");
  ev_free(x.plain);
  x = lower_text(BLOCKS("cluster 4, 4, 1\n"), "sm_90a", 0);
  ck_assert_ptr_null(strstr(x.text, "cluster"));
  says(&x, "more than 8 blocks");
  ev_free(x.plain);
}
END_TEST

int main(void) {
  const TTest *const tests[] = {registers_of_roles,
                                registers_left_out,
                                products_of_warps,
                                every_number_is_another_schedule,
                                products_of_warpgroups,
                                products_declined,
                                clusters,
                                NULL};
  return run_suite("roles", tests);
}
