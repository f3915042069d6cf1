/* ahead.c: compilations that run beside what the program does, on threads of their own.
 *
 * Goes in: jobs that will probably be wanted. Comes out: for the gpu_compile of an equal job, what
 * NVRTC made of it meanwhile. Always holds: a job is known by the key of the cache, so what is
 * taken is what gpu_compile would have made; a thread touches nothing but its own GpuAhead, NVRTC
 * and the cache, and is joined by whoever takes the job out of the list. NVRTC compiles in parallel
 * since CUDA 12; an older one takes turns by itself. What a device was the last time is kept in the
 * cache, so that compiling need not wait for the driver's start. Tests: tests/unit/check_gpu.c.
 */
#include "private.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_AHEAD = 64 }; /* begun and not taken */

struct GpuAhead {
  GpuAhead *next;
  GpuRt *rt;
  GpuKey key;
  GpuCompile job; /* its texts are in `text` */
  pthread_t thread;
  atomic_bool stop, done;
  bool taken;     /* by a gpu_compile, which joins the thread; under the lock, as next */
  Status status;  /* valid after the join, as all below */
  Arena *arena;   /* of what it made */
  GpuStored made; /* where status is ST_OK */
  char text[];
};

/* Copies a text to *at, which moves behind it. */
static const char *keep(char **at, const char *text) {
  size_t n = strlen(text) + 1;
  char *copy = *at;
  memcpy(copy, text, n);
  *at += n;
  return copy;
}

static GpuAhead *ahead_new(GpuRt *rt, const GpuCompile *job, const GpuKey *key) {
  GpuAhead *x =
      calloc(1, sizeof *x + strlen(job->name) + strlen(job->text) + strlen(job->arch) + 3);
  if (!x)
    return NULL;
  char *at = x->text;
  x->rt = rt;
  x->key = *key;
  x->job = *job;
  x->job.name = keep(&at, job->name);
  x->job.text = keep(&at, job->text);
  x->job.arch = keep(&at, job->arch);
  atomic_init(&x->stop, false);
  atomic_init(&x->done, false);
  return x;
}

/* After the join. */
static void ahead_free(GpuAhead *x) {
  arena_free(x->arena);
  free(x);
}

/* ---- the thread ---------------------------------------------------------------------------- */

static void make(Guard *guard, void *ctx) {
  GpuAhead *x = ctx;
  x->arena = arena_new(guard, "compiled ahead");
  x->status = gpu_nvrtc_make(&x->job, (GpuStop){x->rt, &x->stop}, x->arena, &x->made, NULL);
  arena_set_guard(x->arena, NULL);
}

/* Out of memory leaves to the guard: then whoever wants the job compiles it. */
static void *compile(void *arg) {
  GpuAhead *x = arg;
  Status left = guard_run(make, x);
  if (left != ST_OK)
    x->status = left;
  atomic_store(&x->done, true);
  return NULL;
}

/* ---- the list, under its lock -------------------------------------------------------------- */

static GpuAhead **find(GpuRt *rt, const GpuKey *key) {
  GpuAhead **at = &rt->ahead;
  while (*at && memcmp(&(*at)->key, key, sizeof *key) != 0)
    at = &(*at)->next;
  return at;
}

/* Room for one more thread; among many that nobody took the oldest goes, its cubin is on the disk.
 */
static bool has_room(GpuRt *rt) {
  int running = 0, all = 0;
  GpuAhead **oldest = NULL;
  for (GpuAhead **at = &rt->ahead; *at; at = &(*at)->next) {
    bool done = atomic_load(&(*at)->done);
    running += !done;
    all++;
    if (done && !oldest && !(*at)->taken)
      oldest = at;
  }
  if (running >= rt->cfg.compilers)
    return false;
  if (all >= MOST_AHEAD && oldest) {
    GpuAhead *x = *oldest;
    *oldest = x->next;
    pthread_join(x->thread, NULL);
    ahead_free(x);
  }
  return true;
}

static GpuStart start_locked(GpuRt *rt, const GpuCompile *job, const GpuKey *key) {
  GpuAhead **end = find(rt, key);
  if (*end)
    return GPU_START_BEGUN;
  if (gpu_cache_has(rt, key))
    return GPU_START_CACHED;
  if (!has_room(rt))
    return GPU_START_NONE;
  GpuAhead *x = ahead_new(rt, job, key);
  if (!x)
    return GPU_START_NONE;
  if (!gpu_thread(&x->thread, compile, x)) {
    ahead_free(x);
    return GPU_START_NONE;
  }
  end = find(rt, key); /* has_room may have taken one out */
  *end = x;
  return GPU_START_BEGUN;
}

GpuStart gpu_compile_start(GpuRt *rt, const GpuCompile *job) {
  GpuKey key;
  if (rt->cfg.compilers < 2 || job->noptions || gpu_compile_key(rt, job, &key, NULL) != ST_OK)
    return GPU_START_NONE;
  pthread_mutex_lock(&rt->ahead_lock);
  GpuStart started = start_locked(rt, job, &key);
  pthread_mutex_unlock(&rt->ahead_lock);
  return started;
}

/* One thread gets a job. */
static GpuAhead *claim(GpuRt *rt, const GpuKey *key) {
  pthread_mutex_lock(&rt->ahead_lock);
  GpuAhead *x = *find(rt, key);
  if (x && x->taken)
    x = NULL;
  if (x)
    x->taken = true;
  pthread_mutex_unlock(&rt->ahead_lock);
  return x;
}

static void forget(GpuRt *rt, GpuAhead *x) {
  pthread_mutex_lock(&rt->ahead_lock);
  *find(rt, &x->key) = x->next;
  pthread_mutex_unlock(&rt->ahead_lock);
  ahead_free(x);
}

/* In the list until it is copied: where the caller's memory runs out, the copy leaves. */
bool gpu_ahead_take(GpuRt *rt, const GpuKey *key, Arena *a, GpuStored *out) {
  GpuAhead *x = claim(rt, key);
  if (!x)
    return false;
  pthread_join(x->thread, NULL);
  bool made = x->status == ST_OK;
  if (made)
    *out = (GpuStored){arena_copy(a, x->made.data, x->made.n), x->made.n};
  forget(rt, x);
  return made;
}

/* All are told before the first is waited for. */
void gpu_ahead_free(GpuRt *rt) {
  for (GpuAhead *x = rt->ahead; x; x = x->next)
    atomic_store(&x->stop, true);
  for (GpuAhead *x = rt->ahead, *next; x; x = next) {
    next = x->next;
    if (!x->taken)
      pthread_join(x->thread, NULL);
    ahead_free(x);
  }
  rt->ahead = NULL;
}

/* ---- what to compile for ------------------------------------------------------------------- */

static GpuKey guess_key(int ordinal) {
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  GpuHash h;
  gpu_hash_begin(&h);
  gpu_hash_text(&h, "device");
  gpu_hash_add(&h, &ordinal, sizeof ordinal);
  gpu_hash_text(&h, visible ? visible : "all");
  return gpu_hash_end(&h);
}

bool gpu_guess(GpuRt *rt, int ordinal, Arena *a, GpuGuess *out) {
  GpuKey key = guess_key(ordinal);
  const void *data;
  size_t n;
  memset(&rt->guess, 0, sizeof rt->guess);
  if (gpu_known_get(rt, &key, a, &data, &n) && n == sizeof *out) {
    memcpy(&rt->guess, data, n);
    rt->guess.arch[sizeof rt->guess.arch - 1] = '\0';
  }
  *out = rt->guess;
  rt->driver_guess = rt->guess.driver;
  return rt->guess.arch[0] != '\0';
}

/* Written only where it would guess wrong. */
void gpu_guess_keep(GpuRt *rt, const GpuProps *p) {
  GpuGuess now;
  memset(&now, 0, sizeof now); /* the padding is stored too */
  snprintf(now.arch, sizeof now.arch, "%s", p->arch);
  now.sms = p->sms;
  now.driver = rt->driver_version;
  GpuKey key = guess_key(p->ordinal);
  if (memcmp(&now, &rt->guess, sizeof now) != 0)
    gpu_known_put(rt, &key, &now, sizeof now);
  rt->guess = now;
}
