/* check_layout.c: layouts of fragments against what they promise, element by element. */
#include "lower/layout.h"
#include "quick.h"

#include <stdlib.h>
#include <string.h>

/* The coordinates of register r of thread t. */
static void place(const Frag *f, int64_t t, int64_t r, int64_t *at) {
  memset(at, 0, IR_MAX_RANK * sizeof *at);
  for (int i = 0; i < f->nreg; i++) {
    at[f->reg[i].axis] += r % f->reg[i].extent * f->reg[i].step;
    r /= f->reg[i].extent;
  }
  for (int i = 0; i < f->nthread; i++) {
    if (f->thread[i].axis >= 0)
      at[f->thread[i].axis] += t % f->thread[i].extent * f->thread[i].step;
    t /= f->thread[i].extent;
  }
}

static bool alive(const Frag *f, const int64_t *at) {
  for (int d = 0; d < f->rank; d++)
    if (at[d] >= f->extent[d])
      return false;
  return true;
}

static int64_t number(const Frag *f, const int64_t *at) {
  int64_t n = 0;
  for (int d = 0; d < f->rank; d++)
    n = n * f->extent[d] + at[d];
  return n;
}

/* How often each element is held; every one at least once. */
static void check_covers(const Frag *f, int64_t threads) {
  int64_t n = 1, at[IR_MAX_RANK];
  for (int d = 0; d < f->rank; d++)
    n *= f->extent[d];
  int *held = calloc((size_t)n, sizeof *held);
  ck_assert(frag_threads(f) == threads);
  for (int64_t t = 0; t < threads; t++)
    for (int64_t r = 0; r < frag_registers(f); r++) {
      place(f, t, r, at);
      if (alive(f, at))
        held[number(f, at)]++;
    }
  for (int64_t e = 0; e < n; e++)
    ck_assert_msg(held[e] > 0, "element %d of %d is held by nobody", (int)e, (int)n);
  free(held);
}

/* A thread's vectors are neighbours in memory. */
static void check_vectors(const Frag *f, int axis, int64_t width) {
  int64_t a[IR_MAX_RANK], b[IR_MAX_RANK];
  for (int64_t t = 0; t < frag_threads(f); t++)
    for (int64_t r = 0; r < frag_registers(f); r++) {
      place(f, t, r - r % width, a);
      place(f, t, r, b);
      ck_assert(a[axis] % width == 0 && b[axis] == a[axis] + r % width);
    }
}

/* Layout of the tile without an axis: the same registers, without that axis' digits. */
static void check_slice(const Frag *f, int axis) {
  int from[IR_MAX_RANK] = {0}, rank = 0;
  int64_t extent[IR_MAX_RANK] = {0}, at[IR_MAX_RANK];
  for (int d = 0; d < f->rank; d++)
    if (d != axis) {
      extent[rank] = f->extent[d];
      from[rank++] = d;
    }
  Frag g = frag_project(f, rank, from, extent);
  check_covers(&g, frag_threads(f));
  place(&g, 5 % frag_threads(f), 0, at);
  int64_t whole[IR_MAX_RANK];
  place(f, 5 % frag_threads(f), 0, whole);
  for (int d = 0; d < rank; d++)
    ck_assert(at[d] == whole[from[d]]);
}

START_TEST(rows_of_vectors) {
  static const int threads[] = {32, 64, 96, 128, 256, 384, 1024};
  static const int64_t extents[][3] = {{1, 1, 1},   {3, 5, 7},    {1, 4, 1024}, {8, 8, 12},
                                       {2, 33, 40}, {1, 1, 4096}, {4, 64, 100}};
  for (size_t t = 0; t < sizeof threads / sizeof *threads; t++)
    for (size_t e = 0; e < sizeof extents / sizeof *extents; e++)
      for (int axis = 0; axis < 3; axis++)
        for (int64_t width = 1; width <= 8; width *= 2) {
          if (extents[e][axis] % width)
            continue;
          Frag f = frag_rows(3, extents[e], axis, width, threads[t]);
          check_covers(&f, threads[t]);
          check_vectors(&f, axis, width);
          check_slice(&f, 2);
          check_slice(&f, 1);
          f = frag_rows_of(3, extents[e], axis, width, threads[t], 8);
          check_covers(&f, threads[t]);
        }
}
END_TEST

/* PTX ISA, fragments of mma.m16n8 and wgmma.m64nN. */
START_TEST(accumulators) {
  Frag f;
  int64_t at[IR_MAX_RANK];
  ck_assert(frag_accumulator(&f, 64, 96, 4, 1));
  for (int64_t t = 0; t < 128; t++)
    for (int64_t i = 0; i < frag_registers(&f); i++) {
      int64_t w = t / 32, l = t % 32;
      place(&f, t, i, at);
      ck_assert(at[0] == 16 * w + l / 4 + 8 * (i / 2 % 2));
      ck_assert(at[1] == 8 * (i / 4) + 2 * (l % 4) + i % 2);
    }
  for (int r = 1; r <= 4; r++)
    for (int c = 1; c <= 4; c++) {
      ck_assert(frag_accumulator(&f, 16 * r * 2, 8 * c * 3, r, c));
      ck_assert(frag_reach(&f, 0) == f.extent[0] && frag_reach(&f, 1) == f.extent[1]);
      check_covers(&f, 32 * r * c);
      check_slice(&f, 1);
    }
  ck_assert(!frag_accumulator(&f, 24, 8, 1, 1));
  ck_assert(!frag_accumulator(&f, 32, 8, 2, 2));
}
END_TEST

/* wgmma.m64nN, its rows along either axis, 16 to a warp, rows r and r + 8 neighbours. */
START_TEST(turned) {
  Frag f;
  int64_t at[IR_MAX_RANK], mate[IR_MAX_RANK];
  for (int axis = 0; axis < 2; axis++)
    for (int wide = 0; wide < 2; wide++)
      for (int groups = 1; groups <= 3; groups++) {
        int64_t rows = 128 * groups, m = axis ? 40 : rows, n = axis ? rows : 40;
        ck_assert(frag_turned(&f, m, n, axis, groups, wide));
        check_covers(&f, 128 * groups);
        check_slice(&f, 1);
        ck_assert(frag_reach(&f, 0) == m && frag_reach(&f, 1) == n);
        for (int64_t t = 0; t < 128 * groups; t++)
          for (int64_t i = 0; i < frag_registers(&f); i++) {
            place(&f, t, i, at);
            place(&f, t, i ^ 2, mate);
            ck_assert(at[1 - axis] == 8 * (i / 4 % 5) + 2 * (t % 4) + i % 2);
            ck_assert(at[axis] % (64 * groups) / 64 == t / 128 && mate[axis] == (at[axis] ^ 1));
          }
      }
  ck_assert(!frag_turned(&f, 64, 64, 0, 2, true) && !frag_turned(&f, 64, 60, 0, 1, true));
}
END_TEST

/* What two routes give is equal where it is the same. */
START_TEST(equality) {
  Frag s, o;
  const int64_t rows[] = {64};
  const int from[] = {0};
  ck_assert(frag_accumulator(&s, 64, 128, 4, 1) && frag_accumulator(&o, 64, 32, 4, 1));
  Frag a = frag_project(&s, 1, from, rows), b = frag_project(&o, 1, from, rows);
  ck_assert(frag_equal(&a, &b) && !frag_equal(&s, &o));
  Frag wide = frag_rows(1, rows, 0, 2, 32), scalar = frag_rows(1, rows, 0, 1, 32);
  ck_assert(!frag_equal(&wide, &scalar) && frag_equal(&wide, &wide));
}
END_TEST

int main(void) {
  Suite *s = suite_create("layout");
  TCase *c = tcase_create("fragments");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, rows_of_vectors);
  tcase_add_test(c, accumulators);
  tcase_add_test(c, turned);
  tcase_add_test(c, equality);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed != 0;
}
