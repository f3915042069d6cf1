/* check_roles.c: what the author schedules (`specialize`, barriers, `cluster`), lowered to threads:
 * the bits of the tile level at ragged extents, the registers that roles ask for, and what is said
 * where a better way is declined.
 */
#include "lower_support.h"

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
  const TTest *const tests[] = {registers_of_roles, registers_left_out, clusters, NULL};
  return run_suite("roles", tests);
}
