/* timing.c: how long launches take.
 *
 * Goes in: a function that queues one round. Comes out: median and spread of one launch. Each burst
 * is: rest, a kernel that keeps the card busy so that the queue fills (else a short kernel's time
 * is the host's launch time), event, launches, event. Tests:
 * tests/unit/check_gpu_fake.c, check_gpu_device.c (with a GPU).
 */
#include "driver.h"

#include <stdlib.h>

enum { MAX_BURSTS = 1000 };

static const char spin_text[] =
    "extern \"C\" __global__ void tilesh_spin(unsigned long long ns) {\n"
    "  unsigned long long start, now;\n"
    "  asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(start));\n"
    "  do\n"
    "    asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(now));\n"
    "  while (now - start < ns);\n"
    "}\n";

/* Without the kernel (no NVRTC) bursts are timed all the same. */
static void make_spin(Gpu *g) {
  Arena *a = arena_new(NULL, "spin kernel");
  GpuCompile job = {.name = "spin.cu", .text = spin_text, .arch = g->props.arch};
  GpuImage *image;
  GpuModule *m;
  if (gpu_compile(g->rt, &job, a, &image, NULL) != ST_OK ||
      gpu_module_load(g, image, &m) != ST_OK ||
      gpu_module_kernel(g, m, "tilesh_spin", &g->spin) != ST_OK)
    g->no_spin = true;
  arena_free(a);
}

/* Behind it the launches of a burst pile up, and then run without a gap. */
static Status spin(Gpu *g, double ms) {
  unsigned long long ns = (unsigned long long)(ms * 1e6);
  void *args[] = {&ns};
  if (!g->spin && !g->no_spin)
    make_spin(g);
  if (!g->spin)
    return ST_OK;
  GpuLaunch l = {.kernel = g->spin, .grid = {1, 1, 1}, .block = {1, 1, 1}, .args = args};
  return gpu_launch(g, &l);
}

/* One measurement; too large for the stack of a small thread. */
typedef struct Timer {
  Gpu *g;
  GpuEvent *from, *to;
  Status (*launch)(void *);
  void *ctx;
  GpuTimeOptions o;
  GpuPtr cold; /* writing it drives everything else out of the L2 cache; 0: not wanted */
  size_t cold_bytes;
  double ms[MAX_BURSTS];
} Timer;

/* n launches one behind the other. */
static Status rounds(Timer *t, int n) {
  Status st = ST_OK;
  for (int i = 0; i < n && st == ST_OK; i++)
    st = t->launch(t->ctx);
  return st;
}

/* What one launch takes, the first one. */
static Status first_round(Timer *t, double *ms) {
  Status st = gpu_event_record(t->g, t->from);
  if (st == ST_OK)
    st = rounds(t, 1);
  if (st == ST_OK)
    st = gpu_event_record(t->g, t->to);
  if (st == ST_OK)
    st = gpu_sync(t->g);
  return st == ST_OK ? gpu_event_ms(t->g, t->from, t->to, ms) : st;
}

/* Launches that last need few of them: a burst ends in a fifth of a second, all bursts in about
 * four seconds, where that leaves three of one launch each. */
static void shorten(Timer *t, double ms) {
  enum { BURST_MS = 200, ALL_MS = 4000, LEAST = 3 };
  double launches = BURST_MS / (ms > 1e-3 ? ms : 1e-3);
  if (launches < t->o.warmup)
    t->o.warmup = launches > 1 ? (int)launches : 1;
  if (launches < t->o.launches)
    t->o.launches = launches > 1 ? (int)launches : 1;
  double bursts = ALL_MS / (ms * t->o.launches + 1e-3);
  if (bursts < t->o.bursts && t->o.bursts > LEAST)
    t->o.bursts = bursts > LEAST ? (int)bursts : LEAST;
}

/* Every burst is waited for, so that an interrupt ends the measurement between two. */
static Status burst(Timer *t, int i) {
  double ms = 0;
  Status st = spin(t->g, 0.8);
  if (st == ST_OK && t->cold)
    st = gpu_fill(t->g, t->cold, 4, (uint32_t)i, t->cold_bytes / 4);
  if (st == ST_OK)
    st = gpu_event_record(t->g, t->from);
  if (st == ST_OK)
    st = rounds(t, t->o.launches);
  if (st == ST_OK)
    st = gpu_event_record(t->g, t->to);
  if (st == ST_OK)
    st = gpu_sync(t->g);
  if (st == ST_OK)
    st = gpu_event_ms(t->g, t->from, t->to, &ms);
  t->ms[i] = ms / t->o.launches;
  return st;
}

static int by_value(const void *pa, const void *pb) {
  double a = *(const double *)pa, b = *(const double *)pb;
  return (a > b) - (a < b);
}

/* Linear between the two neighbours; v sorted. */
static double quantile(const double *v, int n, double q) {
  double at = q * (n - 1);
  int i = (int)at;
  double next = i + 1 < n ? v[i + 1] : v[i];
  return v[i] + (at - i) * (next - v[i]);
}

/* Median and quartiles: one disturbed burst must not move the result. */
static void summarise(Timer *t, GpuTiming *out) {
  int n = t->o.bursts;
  qsort(t->ms, (size_t)n, sizeof *t->ms, by_value);
  out->bursts = n;
  out->min_ms = t->ms[0];
  out->max_ms = t->ms[n - 1];
  out->median_ms = quantile(t->ms, n, 0.5);
  double width = quantile(t->ms, n, 0.75) - quantile(t->ms, n, 0.25);
  out->spread = out->median_ms > 0 ? width / 2 / out->median_ms : 0;
}

static Status run_timer(Timer *t, GpuTiming *out) {
  Status st = gpu_event_new(t->g, &t->from);
  if (st == ST_OK)
    st = gpu_event_new(t->g, &t->to);
  if (st == ST_OK && t->o.flush)
    st = gpu_alloc(t->g, t->cold_bytes, "what empties the cache", &t->cold);
  double ms = 0;
  if (st == ST_OK)
    st = first_round(t, &ms);
  if (st == ST_OK)
    shorten(t, ms);
  if (st == ST_OK)
    st = rounds(t, t->o.warmup - 1);
  if (st == ST_OK)
    st = gpu_sync(t->g);
  for (int i = 0; i < t->o.bursts && st == ST_OK; i++)
    st = burst(t, i);
  if (st == ST_OK)
    summarise(t, out);
  gpu_event_free(t->g, t->from);
  gpu_event_free(t->g, t->to);
  (void)gpu_free(t->g, t->cold, t->cold_bytes);
  return st;
}

/* The usual number where none is given, held to what fits. */
static int pick(int given, int usual, int most) {
  int n = given > 0 ? given : usual;
  return n < most ? n : most;
}

Status gpu_time(Gpu *g, const GpuTimeOptions *o, Status (*launch)(void *ctx), void *ctx,
                GpuTiming *out) {
  static const GpuTimeOptions none = {0};
  Timer *t = calloc(1, sizeof *t);
  if (!t)
    return gpu_refuse(g, ST_NOMEM, "out of memory");
  t->g = g;
  t->launch = launch;
  t->ctx = ctx;
  t->o = o ? *o : none;
  t->o.warmup = pick(t->o.warmup, 3, 1 << 20);
  t->o.bursts = pick(t->o.bursts, 10, MAX_BURSTS);
  t->o.launches = t->o.flush ? 1 : pick(t->o.launches, 10, 1 << 20);
  if (t->o.flush && t->o.bursts < 20)
    t->o.bursts = 20;
  t->cold_bytes = 2 * g->props.l2;
  Status st = run_timer(t, out);
  free(t);
  return st;
}
