/* bench.c: `bench f(a, b)`: how long the call takes, and what that is in operations and bytes.
 *
 * In: a kernel call. Out: median and spread over bursts, TFLOP/s from the operations of the tile
 * level (count.c), GB/s from the tensors each moved once, and the share of the device's roofline
 * (roofline.c). On the evaluator a burst is one run; on a GPU it is ten
 * launches queued between two events. Tests: tests/cli/run, tests/gpu.
 */
#include <stdlib.h>

#include "device.h"

enum { MIN_RUNS = 5, MAX_RUNS = 1000 };
static const double min_seconds = 0.2;

typedef struct Figures {
  double ms, min_ms, max_ms, spread;
  double flops, bytes;
  double roofline; /* share, or 0 where unknown */
  int bursts;
  double peer_ms;       /* of cuBLASLt's product; 0: not measured */
  const char *peer_why; /* NULL, or why not although it was asked for */
  const char *device;
} Figures;

/* For qsort. */
static int ascending(const void *x, const void *y) {
  double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

/* The call's own wish before the command line's; 0: as usual. */
static int bursts_wanted(const Launch *l) {
  return l->bursts ? l->bursts : l->s->options.bench_bursts;
}

/* At least five runs and a fifth of a second, so that the median of a short kernel means
 * something; one run more before, so that pages and caches are there. */
static void time_evaluator(Launch *l, Figures *f) {
  double *ms = ARENA_ARRAY(session_scratch(l->s), double, MAX_RUNS);
  EvalChecks checks = l->s->options.checks_set ? l->s->options.checks : CHECKS_DEFAULT;
  int most = bursts_wanted(l) ? bursts_wanted(l) : MAX_RUNS, n = 0;
  int least = most < MIN_RUNS ? most : MIN_RUNS;
  launch_evaluate(l, l->ir->level, checks); /* warms the caches */
  launch_forget(l);
  for (double begin = base_now(); n < most && (n < least || base_now() - begin < min_seconds);
       n++) {
    size_t temps = l->s->temps.n;
    double start = base_now();
    launch_evaluate(l, l->ir->level, checks);
    ms[n] = 1e3 * (base_now() - start);
    launch_forget(l);
    host_drop_temps(l->s, temps);
  }
  qsort(ms, (size_t)n, sizeof *ms, ascending);
  f->bursts = n;
  f->ms = n % 2 ? ms[n / 2] : (ms[n / 2 - 1] + ms[n / 2]) / 2;
  f->min_ms = ms[0];
  f->max_ms = ms[n - 1];
  f->spread = f->ms > 0 ? (ms[3 * n / 4] - ms[n / 4]) / 2 / f->ms : 0;
}

/* gpu_time queues its launches between two events: host time does not count. */
static void time_device(Launch *l, Figures *f) {
  GpuTiming t;
  GpuTimeOptions o = {.bursts = bursts_wanted(l) ? bursts_wanted(l) : 7};
  o.flush =
      launch_bytes(l) < (double)device_props(l->s)->l2; /* else the second run finds it all there */
  device_time(l, &o, &t);
  f->ms = t.median_ms;
  f->min_ms = t.min_ms;
  f->max_ms = t.max_ms;
  f->spread = t.spread;
  f->bursts = t.bursts;
  Str why = str_new(l->s->line);
  if (!l->s->options.vs_cublas)
    return;
  if (device_peer(l, &o, &t, &why))
    f->peer_ms = t.median_ms;
  else
    f->peer_why = str_text(&why);
}

/* Outputs are made once and reused by every run; inout arguments are copies, so the caller sees
 * no change. */
static Figures measure(Launch *l) {
  Figures f = {0};
  bool gpu = device_is_gpu(l->s);
  launch_isolate(l);
  if (gpu)
    time_device(l, &f);
  else
    time_evaluator(l, &f);
  if (l->s->options.vs_cublas && !gpu)
    f.peer_why = "this is the evaluator";
  f.device = session_device(l->s);
  f.flops = launch_flops(l, true);
  f.bytes = launch_bytes(l);
  f.roofline = gpu ? device_roofline(l, f.ms, f.flops, f.bytes) : 0;
  return f;
}

/* 0 where nothing was measured, rather than an infinity in a report. */
static double per_second(double x, double ms) {
  return ms > 0 ? x / (ms * 1e-3) : 0;
}

/* A fixed number of digits: columns of several bench lines stay comparable. */
static void add_fixed(Str *out, double x, int digits) {
  str_addf(out, "%.*f", digits, x);
}

/* One line a bench, for people; print_json has the same figures for programs. */
static void print_text(const Launch *l, const Figures *f, Str *out) {
  str_addf(out, "bench %s on %s: ", l->name, f->device);
  add_fixed(out, f->ms, f->ms < 1 ? 4 : 3);
  str_add(out, " ms +- ");
  add_fixed(out, 100 * f->spread, 1);
  str_add(out, " %");
  if (f->flops > 0) {
    str_add(out, ", ");
    add_fixed(out, per_second(f->flops, f->ms) * 1e-12, 3);
    str_add(out, " TFLOP/s");
  }
  str_add(out, ", ");
  add_fixed(out, per_second(f->bytes, f->ms) * 1e-9, 2);
  str_add(out, " GB/s");
  if (f->roofline > 0) {
    str_add(out, ", ");
    add_fixed(out, 100 * f->roofline, 1);
    str_add(out, " % of the roofline");
  }
  if (f->peer_ms > 0) {
    str_add(out, ", ");
    add_fixed(out, f->peer_ms / f->ms, 3);
    str_add(out, " of cuBLAS");
  } else if (f->peer_why) {
    str_addf(out, " (no cuBLAS: %s)", f->peer_why);
  }
  str_addc(out, '\n');
}

/* One object a line, so that several kernels need no list around them; names need no escapes,
 * they are identifiers. */
static void print_json(const Launch *l, const Figures *f, Str *out) {
  str_addf(out, "{\"kernel\": \"%s\", \"device\": \"%s\", \"ms\": ", l->name, f->device);
  str_add_f64(out, f->ms);
  str_add(out, ", \"min_ms\": ");
  str_add_f64(out, f->min_ms);
  str_add(out, ", \"max_ms\": ");
  str_add_f64(out, f->max_ms);
  str_add(out, ", \"spread\": ");
  str_add_f64(out, f->spread);
  str_addf(out, ", \"bursts\": %d, \"tflops\": ", f->bursts);
  str_add_f64(out, per_second(f->flops, f->ms) * 1e-12);
  str_add(out, ", \"gbps\": ");
  str_add_f64(out, per_second(f->bytes, f->ms) * 1e-9);
  if (f->roofline > 0) {
    str_add(out, ", \"roofline\": ");
    str_add_f64(out, f->roofline);
  }
  if (f->peer_ms > 0) {
    str_add(out, ", \"cublas_ms\": ");
    str_add_f64(out, f->peer_ms);
  }
  str_add(out, "}\n");
}

/* What `let r = bench f(x)` binds. */
static Value record(Session *s, const Figures *f) {
  const Field fields[] = {
      {names_get(s->names, "ms", 2), val_float(f->ms)},
      {names_get(s->names, "min_ms", 6), val_float(f->min_ms)},
      {names_get(s->names, "max_ms", 6), val_float(f->max_ms)},
      {names_get(s->names, "spread", 6), val_float(f->spread)},
      {names_get(s->names, "tflops", 6), val_float(per_second(f->flops, f->ms) * 1e-12)},
      {names_get(s->names, "gbps", 4), val_float(per_second(f->bytes, f->ms) * 1e-9)},
      {names_get(s->names, "roofline", 8), val_float(f->roofline)},
  };
  return val_record(s, fields, sizeof fields / sizeof *fields);
}

/* For another language: always runs, as where the program uses the value. */
Value kernel_bench_call(Session *s, Value kernel, Args *a, int bursts) {
  Launch l;
  launch_prepare(s, kernel, a, &l);
  l.bursts = bursts;
  Figures f = measure(&l);
  return record(s, &f);
}

/* As a statement it is skipped where the mode says so; as a value it always runs, since the
 * program uses it. */
Value kernel_bench(Session *s, const AstExpr *call, bool as_value) {
  Launch l;
  bool skip = s->importing || s->options.mode == MODE_TEST || s->options.mode == MODE_CHECK;
  if (!as_value && skip)
    return val_nil();
  launch_of_call(s, call, "bench", &l);
  Figures f = measure(&l);
  if (as_value)
    return record(s, &f);
  Str out = session_str(s);
  if (s->options.json)
    print_json(&l, &f, &out);
  else
    print_text(&l, &f, &out);
  session_print(s, &out);
  return val_nil();
}
