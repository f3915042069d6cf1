/* check_base_pool.c: every index once, nesting, many callers. Run with the thread
 * sanitizer too: ./configure --enable-sanitize=thread. */
#include "base_suite.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { MOST = 10000 };

typedef struct Counts {
  Pool *pool;
  atomic_int seen[MOST];
  int *by_worker; /* [threads], each written by its own worker only */
  int threads;
  atomic_int done;
} Counts;

static Counts counts;

static void count_one(void *ctx, size_t i, int worker) {
  Counts *c = ctx;
  c->seen[i]++;
  c->by_worker[worker]++;
}

START_TEST(every_index_once) {
  for (int threads = 1; threads <= 9; threads += 2) {
    Pool *p = pool_new(threads);
    int by_worker[9] = {0};
    ck_assert_int_eq(pool_threads(p), threads);
    size_t total = 0;
    for (size_t n = 0; n < MOST; n = n * 2 + 1) {
      memset(&counts, 0, sizeof counts);
      counts.by_worker = by_worker;
      pool_run(p, n, count_one, &counts);
      for (size_t i = 0; i < MOST; i++)
        ck_assert_int_eq(counts.seen[i], i < n);
      total += n;
    }
    size_t sum = 0;
    for (int i = 0; i < 9; i++) {
      sum += (size_t)by_worker[i];
      ck_assert(i < threads || by_worker[i] == 0);
    }
    ck_assert_uint_eq(sum, total);
    pool_free(p);
  }
}
END_TEST

START_TEST(many_short_runs) {
  Pool *p = pool_new(4);
  int by_worker[4] = {0};
  memset(&counts, 0, sizeof counts);
  counts.by_worker = by_worker;
  for (int i = 0; i < 2000; i++)
    pool_run(p, 7, count_one, &counts);
  for (size_t i = 0; i < 7; i++)
    ck_assert_int_eq(counts.seen[i], 2000);
  pool_free(p);
}
END_TEST

static void wait_for_another(void *ctx, size_t i, int worker) {
  Counts *c = ctx;
  (void)i;
  (void)worker;
  c->done++;
  while (c->done < 2)
    usleep(1000);
}

/* Two indices that wait for each other end only if two threads run them. */
START_TEST(threads_really_run_together) {
  Pool *p = pool_new(2);
  memset(&counts, 0, sizeof counts);
  pool_run(p, 2, wait_for_another, &counts);
  ck_assert_int_eq(counts.done, 2);
  pool_free(p);
}
END_TEST

typedef struct Outer {
  Pool *pool;
  atomic_int inner;
  atomic_int wrong;
} Outer;

typedef struct Inner {
  Outer *outer;
  int worker;
} Inner;

static void run_inner(void *ctx, size_t i, int worker) {
  Inner *in = ctx;
  (void)i;
  in->outer->inner++;
  if (worker != in->worker) /* serial, by the same worker, so that its scratch is its own */
    in->outer->wrong++;
}

static void run_outer(void *ctx, size_t i, int worker) {
  Outer *o = ctx;
  Inner in = {o, worker};
  (void)i;
  pool_run(o->pool, 50, run_inner, &in);
}

START_TEST(a_run_inside_a_run_is_serial) {
  Pool *p = pool_new(4);
  Outer o = {.pool = p};
  pool_run(p, 40, run_outer, &o);
  ck_assert_int_eq(o.inner, 2000);
  ck_assert_int_eq(o.wrong, 0);
  pool_free(p);
}
END_TEST

static void *run_from_a_thread(void *arg) {
  Counts *c = arg;
  for (int i = 0; i < 200; i++)
    pool_run(c->pool, 20, count_one, c);
  return NULL;
}

/* The counters of a worker are its own only while runs do not overlap. */
START_TEST(callers_take_turns) {
  Pool *p = pool_new(3);
  int by_worker[3] = {0};
  pthread_t threads[4];
  memset(&counts, 0, sizeof counts);
  counts.pool = p;
  counts.by_worker = by_worker;
  for (int i = 0; i < 4; i++)
    pthread_create(&threads[i], NULL, run_from_a_thread, &counts);
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  ck_assert_int_eq(by_worker[0] + by_worker[1] + by_worker[2], 4 * 200 * 20);
  pool_free(p);
}
END_TEST

static int threads_of_process(void) {
  FILE *f = fopen("/proc/self/status", "r");
  char line[256];
  int n = -1;
  while (f && fgets(line, sizeof line, f))
    if (strncmp(line, "Threads:", 8) == 0)
      n = (int)strtol(line + 8, NULL, 10);
  fclose(f);
  return n;
}

START_TEST(threads_start_late_and_all_end) {
  int by_worker[5] = {0};
  memset(&counts, 0, sizeof counts);
  counts.by_worker = by_worker;
  Pool *p = pool_new(2); /* a sanitizer starts a thread of its own with our first */
  pool_run(p, 2, count_one, &counts);
  pool_free(p);
  int before = threads_of_process();
  p = pool_new(5);
  pool_run(p, 1, count_one, &counts);
  ck_assert_int_eq(threads_of_process(), before);
  pool_run(p, 2, count_one, &counts);
  ck_assert_int_eq(threads_of_process(), before + 4);
  pool_free(p);
  ck_assert_int_eq(threads_of_process(), before);
  pool_free(pool_new(0));
  pool_free(NULL);
}
END_TEST

int main(void) {
  const TTest *const tests[] = {every_index_once,
                                many_short_runs,
                                threads_really_run_together,
                                a_run_inside_a_run_is_serial,
                                callers_take_turns,
                                threads_start_late_and_all_end,
                                NULL};
  return run_suite("base_pool", tests);
}
