/* check_base_arena.c: arenas and the boundary, also when memory runs out. */
#include "base_suite.h"

#include <stdint.h>

START_TEST(blocks_are_zeroed_and_aligned) {
  Arena *a = arena_new(NULL, "test");
  for (size_t size = 0; size < 9000; size += 37) {
    unsigned char *p = arena_alloc(a, size);
    ck_assert_uint_eq((uintptr_t)p % (size >= 4096 ? 64 : 16), 0);
    for (size_t i = 0; i < size; i++)
      ck_assert_uint_eq(p[i], 0);
    memset(p, 0xA5, size);
  }
  arena_free(a);
}
END_TEST

START_TEST(reset_gives_zeroed_memory_again) {
  Arena *a = arena_new(NULL, "test");
  for (int round = 0; round < 5; round++) {
    for (size_t i = 0; i < 2000; i++) {
      unsigned char *p = arena_alloc(a, i % 300 + 1);
      for (size_t k = 0; k <= i % 300; k++)
        ck_assert_uint_eq(p[k], 0);
      memset(p, 0xFF, i % 300 + 1);
    }
    ck_assert_uint_gt(arena_bytes(a), 0);
    arena_reset(a);
    ck_assert_uint_eq(arena_bytes(a), 0);
  }
  arena_free(a);
  arena_free(NULL);
}
END_TEST

START_TEST(grow_keeps_contents_and_zeroes_the_rest) {
  Arena *a = arena_new(NULL, "test");
  size_t sizes[] = {0, 1, 15, 16, 17, 100, 101, 4095, 4096, 5000, 300000, 300001};
  unsigned char *p = NULL;
  for (size_t i = 1; i < sizeof sizes / sizeof *sizes; i++) {
    if (i % 3 == 0)
      arena_alloc(a, 8); /* something in the way */
    p = arena_grow(a, p, sizes[i - 1], sizes[i]);
    for (size_t k = 0; k < sizes[i]; k++)
      ck_assert_uint_eq(p[k], k < sizes[i - 1] ? 0x77 : 0);
    memset(p, 0x77, sizes[i]);
  }
  ck_assert_ptr_eq(arena_grow(a, p, 300001, 10), p);
  ck_assert_ptr_nonnull(arena_grow(a, NULL, 0, 0));
  arena_free(a);
}
END_TEST

START_TEST(growing_in_place_does_not_move) {
  Arena *a = arena_new(NULL, "test");
  char *p = arena_alloc(a, 100);
  ck_assert_ptr_eq(arena_grow(a, p, 100, 200), p);
  char *q = arena_alloc(a, 1);
  ck_assert_ptr_ne(arena_grow(a, p, 200, 400), p);
  ck_assert_ptr_ne(q, p);
  arena_free(a);
}
END_TEST

START_TEST(growing_big_blocks_gives_the_old_one_back) {
  Arena *a = arena_new(NULL, "test");
  char *p = arena_alloc(a, 8192);
  for (size_t size = 8192; size < 64 << 20; size *= 2)
    p = arena_grow(a, p, size, size * 2);
  ck_assert_uint_eq(arena_bytes(a), 64 << 20);
  arena_free(a);
}
END_TEST

START_TEST(texts) {
  Arena *a = arena_new(NULL, "test");
  ck_assert_str_eq(arena_strdup(a, "abc"), "abc");
  ck_assert_str_eq(arena_strndup(a, "abc", 2), "ab");
  ck_assert_str_eq(arena_strndup(a, "", 0), "");
  ck_assert_str_eq(arena_printf(a, "%d-%s", 7, "x"), "7-x");
  ck_assert_mem_eq(arena_copy(a, "a\0b", 3), "a\0b", 3);
  ck_assert_uint_eq(strlen(arena_printf(a, "%5000d", 1)), 5000);
  arena_free(a);
}
END_TEST

/* ---- the boundary --------------------------------------------------------------------------- */

typedef struct Seen {
  Arena *arena;
  int reached;
  Status inner;
  int depth;
} Seen;

static void ask_too_much(Guard *guard, void *ctx) {
  Seen *seen = ctx;
  arena_set_guard(seen->arena, guard);
  seen->reached = 1;
  arena_calloc(seen->arena, SIZE_MAX / 2, 16);
  seen->reached = 2;
}

static void ask_for_ten_to_the_fifteen(Guard *guard, void *ctx) {
  Seen *seen = ctx;
  arena_set_guard(seen->arena, guard);
  arena_alloc(seen->arena, (size_t)1000000000000000);
  seen->reached = 2;
}

START_TEST(running_out_of_memory_leaves_to_the_boundary) {
  Arena *a = arena_new(NULL, "test");
  Seen seen = {.arena = a};
  ck_assert_int_eq(guard_run(ask_too_much, &seen), ST_NOMEM);
  ck_assert_int_eq(seen.reached, 1);
  ck_assert_int_eq(guard_run(ask_for_ten_to_the_fifteen, &seen), ST_NOMEM);
  ck_assert_int_eq(seen.reached, 1);
  arena_set_guard(a, NULL);
  ck_assert_ptr_nonnull(arena_alloc(a, 100)); /* and the arena is still good */
  arena_free(a);
}
END_TEST

static void grow_a_vector_too_far(Guard *guard, void *ctx) {
  Seen *seen = ctx;
  arena_set_guard(seen->arena, guard);
  size_t cap = SIZE_MAX / 4;
  vec_grow(seen->arena, NULL, &cap, 16);
  seen->reached = 2;
}

START_TEST(a_vector_cannot_overflow) {
  Arena *a = arena_new(NULL, "test");
  Seen seen = {.arena = a};
  ck_assert_int_eq(guard_run(grow_a_vector_too_far, &seen), ST_NOMEM);
  ck_assert_int_eq(seen.reached, 0);
  arena_free(a);
}
END_TEST

static void do_nothing(Guard *guard, void *ctx) {
  (void)guard;
  ++*(int *)ctx;
}

static void raise_interrupt(Guard *guard, void *ctx) {
  (void)ctx;
  guard_raise(guard, ST_INTERRUPTED);
}

static void nest(Guard *guard, void *ctx) {
  Seen *seen = ctx;
  (void)guard;
  seen->inner = guard_run(raise_interrupt, NULL);
  seen->reached = 1;
}

static void raise_outer_from_inner(Guard *guard, void *ctx) {
  (void)guard;
  guard_raise(ctx, ST_DEVICE);
}

static void nest_and_raise_outer(Guard *guard, void *ctx) {
  guard_run(raise_outer_from_inner, guard);
  ((Seen *)ctx)->reached = 1;
}

START_TEST(boundaries_nest) {
  int n = 0;
  Seen seen = {0};
  ck_assert_int_eq(guard_run(do_nothing, &n), ST_OK);
  ck_assert_int_eq(n, 1);
  ck_assert_int_eq(guard_run(raise_interrupt, NULL), ST_INTERRUPTED);
  ck_assert_int_eq(guard_run(nest, &seen), ST_OK);
  ck_assert_int_eq(seen.inner, ST_INTERRUPTED);
  ck_assert_int_eq(seen.reached, 1);
  seen.reached = 0;
  ck_assert_int_eq(guard_run(nest_and_raise_outer, &seen), ST_DEVICE);
  ck_assert_int_eq(seen.reached, 0);
}
END_TEST

static void recurse(Guard *guard, Seen *seen) {
  if (!guard_enter(guard))
    return;
  seen->depth++;
  recurse(guard, seen);
  guard_leave(guard);
}

static void recurse_twice(Guard *guard, void *ctx) {
  Seen *seen = ctx;
  recurse(guard, seen);
  int first = seen->depth;
  seen->depth = 0;
  recurse(guard, seen); /* backing out has given all levels back */
  ck_assert_int_eq(seen->depth, first);
}

START_TEST(depth_is_bounded) {
  Seen seen = {0};
  ck_assert_int_eq(guard_run(recurse_twice, &seen), ST_OK);
  ck_assert_int_ge(seen.depth, 900);
  ck_assert_int_le(seen.depth, 1100);
}
END_TEST

int main(void) {
  const TTest *const tests[] = {blocks_are_zeroed_and_aligned,
                                reset_gives_zeroed_memory_again,
                                grow_keeps_contents_and_zeroes_the_rest,
                                growing_in_place_does_not_move,
                                growing_big_blocks_gives_the_old_one_back,
                                texts,
                                running_out_of_memory_leaves_to_the_boundary,
                                a_vector_cannot_overflow,
                                boundaries_nest,
                                depth_is_bounded,
                                NULL};
  return run_suite("base_arena", tests);
}
