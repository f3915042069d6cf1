/* pool.c: the thread pool.
 *
 * In: a function and a count. Out: the function called once for every index below it. Always holds:
 * all that is shared is under one mutex or atomic; a worker touches a run only between taking its
 * number and reporting back, and pool_run returns after all have reported, so the caller's context
 * may live on its stack. Signals go to other threads than the workers. Tests:
 * tests/unit/check_base_pool.c, also run with the thread sanitizer.
 */
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_THREADS = 1024, CHUNKS_PER_THREAD = 16 };

/* A thread and its number, which is what fn gets. */
typedef struct Worker {
  Pool *pool;
  pthread_t thread;
  int number;
} Worker;

struct Pool {
  int threads;             /* wanted, the caller counted */
  Worker *workers;         /* [threads]; 0 is the caller of the moment */
  pthread_mutex_t one_run; /* held by whoever has the pool */
  pthread_mutex_t mutex;   /* over what follows, down to the gap, and over workers[].thread */
  pthread_cond_t wake, idle;
  int started;       /* helpers that run: numbers 1 to started */
  bool tried;        /* helpers were asked for once */
  bool caller_in;    /* workers[0].thread is inside a run */
  unsigned long run; /* counts the runs that helpers take part in */
  int busy;          /* helpers that have not reported back from this run */
  bool quit;

  void (*fn)(void *ctx, size_t i, int worker); /* of this run, set before helpers wake */
  void *ctx;
  size_t n, chunk;
  atomic_size_t next;
};

/* Processors this process may use. */
static int online(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    return CPU_COUNT(&set);
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 && n < MAX_THREADS ? (int)n : 1;
}

/* A pool that is never used starts no thread. */
Pool *pool_new(int threads) {
  if (threads <= 0)
    threads = online();
  if (threads > MAX_THREADS)
    threads = MAX_THREADS;
  Pool *p = calloc(1, sizeof *p);
  Worker *workers = calloc((size_t)threads, sizeof *workers);
  if (!p || !workers) {
    free(p);
    free(workers);
    return NULL;
  }
  p->threads = threads;
  p->workers = workers;
  pthread_mutex_init(&p->one_run, NULL);
  pthread_mutex_init(&p->mutex, NULL);
  pthread_cond_init(&p->wake, NULL);
  pthread_cond_init(&p->idle, NULL);
  return p;
}

/* Nobody may be inside pool_run. */
void pool_free(Pool *p) {
  if (!p)
    return;
  pthread_mutex_lock(&p->mutex);
  p->quit = true;
  pthread_cond_broadcast(&p->wake);
  pthread_mutex_unlock(&p->mutex);
  for (int i = 1; i <= p->started; i++)
    pthread_join(p->workers[i].thread, NULL);
  pthread_cond_destroy(&p->idle);
  pthread_cond_destroy(&p->wake);
  pthread_mutex_destroy(&p->mutex);
  pthread_mutex_destroy(&p->one_run);
  free(p->workers);
  free(p);
}

int pool_threads(const Pool *p) {
  return p->threads;
}

/* Takes chunks until there are none. */
static void work(Pool *p, int number) {
  size_t begin;
  while ((begin = atomic_fetch_add(&p->next, p->chunk)) < p->n) {
    size_t end = p->n - begin < p->chunk ? p->n : begin + p->chunk;
    for (size_t i = begin; i < end; i++)
      p->fn(p->ctx, i, number);
  }
}

/* What a helper does all its life: sleep, work on one run, report back. The mutex is held except
 * while working. */
static void *helper(void *arg) {
  Worker *w = arg;
  Pool *p = w->pool;
  unsigned long seen = 0;
  pthread_mutex_lock(&p->mutex);
  for (;;) {
    while (!p->quit && p->run == seen)
      pthread_cond_wait(&p->wake, &p->mutex);
    if (p->quit)
      break;
    seen = p->run;
    pthread_mutex_unlock(&p->mutex);
    work(p, w->number);
    pthread_mutex_lock(&p->mutex);
    if (--p->busy == 0)
      pthread_cond_signal(&p->idle);
  }
  pthread_mutex_unlock(&p->mutex);
  return NULL;
}

/* Starts the helpers; where the system gives fewer, fewer will do. The mutex is held. */
static void start_helpers(Pool *p) {
  sigset_t all, old;
  p->tried = true;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  for (int i = 1; i < p->threads; i++) {
    Worker *w = &p->workers[i];
    w->pool = p;
    w->number = i;
    if (pthread_create(&w->thread, NULL, helper, w) != 0)
      break;
    p->started = i;
  }
  pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* The number of the calling thread if it is inside a run of this pool, else -1. */
static int number_inside(Pool *p) {
  int number = -1;
  pthread_mutex_lock(&p->mutex);
  if (p->caller_in && pthread_equal(p->workers[0].thread, pthread_self()))
    number = 0;
  for (int i = 1; i <= p->started && number < 0; i++)
    if (pthread_equal(p->workers[i].thread, pthread_self()))
      number = i;
  pthread_mutex_unlock(&p->mutex);
  return number;
}

/* Makes the calling thread worker 0 and wakes the helpers, if there is work for more than one. */
static void begin_run(Pool *p, size_t n, void (*fn)(void *ctx, size_t i, int worker), void *ctx) {
  pthread_mutex_lock(&p->mutex);
  if (n > 1 && !p->tried)
    start_helpers(p);
  p->workers[0].thread = pthread_self();
  p->caller_in = true;
  p->fn = fn;
  p->ctx = ctx;
  p->n = n;
  p->chunk = n / ((size_t)(p->started + 1) * CHUNKS_PER_THREAD);
  if (p->chunk == 0)
    p->chunk = 1;
  atomic_store(&p->next, 0);
  if (n > 1 && p->started > 0) {
    p->busy = p->started;
    p->run++;
    pthread_cond_broadcast(&p->wake);
  }
  pthread_mutex_unlock(&p->mutex);
}

/* The caller has no more work; waits for the helpers that still have some. */
static void end_run(Pool *p) {
  pthread_mutex_lock(&p->mutex);
  while (p->busy > 0)
    pthread_cond_wait(&p->idle, &p->mutex);
  p->caller_in = false;
  pthread_mutex_unlock(&p->mutex);
}

/* A run inside a run: the caller's share of the pool is already this thread. A second caller from
 * outside waits its turn; work() alone does small runs, no helper is woken. */
void pool_run(Pool *p, size_t n, void (*fn)(void *ctx, size_t i, int worker), void *ctx) {
  int inside = number_inside(p);
  if (inside >= 0) {
    for (size_t i = 0; i < n; i++)
      fn(ctx, i, inside);
    return;
  }
  pthread_mutex_lock(&p->one_run);
  begin_run(p, n, fn, ctx);
  work(p, 0);
  end_run(p);
  pthread_mutex_unlock(&p->one_run);
}
