/* bound.c: how far two right results of a launch may lie apart.
 *
 * In: a launch and its outputs at tile level. Out: for each element of each output a bound, from
 * the arithmetic that made it: the launch runs again with noise (eval/noise.h: each result that a
 * device may round otherwise is moved by a random part of what it may be off by), and the bound is
 * twice the greatest distance that came of it there, or near there, and two units of the last
 * place. Near there: a few runs may leave one element as it was by chance, but not a whole row and
 * a whole column. Integers may differ where noise changes them: an index of the greatest of nearly
 * equal values. A noisy run that faults says nothing. Tests: tests/unit/check_eval_noise.c,
 * tests/lang/check_bound.tile.
 */
#include <math.h>
#include <string.h>

#include "device.h"

enum { RUNS = 3, MUCH_WORK_RUNS = 1, MANY_RUNS = 15, MORE_STEPS = 4, SOME_STEPS = 100000 };

/* Distances so far become the greater of them and those of one more run. */
static void add_run(const Tensor *run, const Tensor *reference, double *most) {
  int64_t index[TENSOR_MAX_RANK] = {0};
  for (int64_t e = 0; e < tensor_count(run); e++, tensor_next(run, index)) {
    double x = scalar_convert(tensor_get(run, index), DT_F64).as.f;
    double y = scalar_convert(tensor_get(reference, index), DT_F64).as.f;
    double d = fabs(x - y);
    if (isfinite(d) && d > most[e])
      most[e] = d;
  }
}

/* The greatest distance by index along each axis. */
typedef struct Slices {
  double *most[TENSOR_MAX_RANK];
  double all;
  int long_axes; /* of more than one element */
} Slices;

static Slices slices_of(Session *s, const Tensor *t, const double *most) {
  Slices x = {.all = 0};
  int64_t index[TENSOR_MAX_RANK] = {0};
  for (int k = 0; k < t->rank; k++) {
    x.most[k] = ARENA_ARRAY(session_scratch(s), double, (size_t)t->extent[k]);
    memset(x.most[k], 0, (size_t)t->extent[k] * sizeof(double));
    x.long_axes += t->extent[k] > 1;
  }
  for (int64_t e = 0; e < tensor_count(t); e++, tensor_next(t, index)) {
    x.all = most[e] > x.all ? most[e] : x.all;
    for (int k = 0; k < t->rank; k++)
      if (most[e] > x.most[k][index[k]])
        x.most[k][index[k]] = most[e];
  }
  return x;
}

/* The least over the axes: a row of small values keeps its own scale beside rows of large ones. */
static double near(const Slices *x, const Tensor *t, const int64_t *index) {
  double least = x->all;
  for (int k = 0; k < t->rank && x->long_axes > 1; k++)
    if (t->extent[k] > 1 && x->most[k][index[k]] < least)
      least = x->most[k][index[k]];
  return least;
}

static void settle_integers(const Tensor *t, double *most) {
  for (int64_t e = 0; e < tensor_count(t); e++)
    most[e] *= 2;
}

static void settle(Session *s, const Tensor *reference, double *most) {
  int64_t index[TENSOR_MAX_RANK] = {0};
  if (!dtype_is_float(reference->dtype)) {
    settle_integers(reference, most);
    return;
  }
  Slices x = slices_of(s, reference, most);
  for (int64_t e = 0; e < tensor_count(reference); e++, tensor_next(reference, index)) {
    double at = tensor_get(reference, index).as.f, spread = near(&x, reference, index);
    double ulp = isfinite(at) ? dtype_ulp(reference->dtype, at) : 0;
    most[e] = 2 * (spread > most[e] ? spread : most[e]) + 2 * ulp;
  }
}

/* Zeros, of the shapes of the outputs; NULL where a parameter is none. */
static Tensor **new_bounds(const Launch *l, Tensor *const *reference) {
  Session *s = l->s;
  Tensor **bound = ARENA_ARRAY(session_scratch(s), Tensor *, l->n);
  for (size_t i = 0; i < l->n; i++) {
    Str why = session_str(s);
    bound[i] = NULL;
    if (!l->tensor[i] || !launch_writes(l, i))
      continue;
    const Tensor *t = reference[i];
    Tensor *zeros = session_tensor(s, DT_F64, t->rank, t->extent, TENSOR_ZERO, &why);
    bound[i] = host_new_tensor(s, zeros, &why, l->span).as.tensor;
  }
  return bound;
}

/* What a noisy run prints, nobody wants to see; its faults neither. */
static void run_noisy(const Launch *l, uint64_t seed, uint64_t steps, Tensor *const *reference,
                      Tensor **bound) {
  DiagSink quiet;
  diag_init(&quiet, session_scratch(l->s));
  Launch run = launch_again(l);
  run.noise = seed;
  run.max_steps = MORE_STEPS * steps + SOME_STEPS;
  Status status = launch_evaluate_quietly(&run, &quiet);
  if (status == ST_INTERRUPTED)
    session_fail_call(l->s, status, l->span, l->name);
  launch_forget(&run);
  for (size_t i = 0; status == ST_OK && i < l->n; i++)
    if (bound[i])
      add_run(launch_host_tensor(&run, i), reference[i], tensor_data_write(bound[i]));
}

static void make(const Launch *l, LaunchBounds *b, int runs) {
  b->bound = new_bounds(l, b->reference);
  b->runs = runs;
  for (int r = 0; r < runs; r++)
    run_noisy(l, (uint64_t)r + 1, b->steps, b->reference, b->bound);
  for (size_t i = 0; i < l->n; i++)
    if (b->bound[i])
      settle(l->s, b->reference[i], tensor_data_write(b->bound[i]));
}

/* A few noisy runs may all stay near by chance, so before anything is said more are asked. */
TensorDiff launch_beyond(const Launch *l, LaunchBounds *b, size_t i, const Tensor *mine) {
  TensorDiff first;
  Str why = session_str(l->s);
  if (!b->bound)
    make(l, b, b->much_work ? MUCH_WORK_RUNS : RUNS);
  for (;;) {
    if (!tensor_beyond(mine, b->reference[i], b->bound[i], l->s->options.interrupt, &first, &why))
      host_fail(l->s, E0802, l->span, "%s", str_text(&why));
    if (first.count == 0 || b->runs == MANY_RUNS)
      return first;
    make(l, b, b->runs < RUNS ? RUNS : MANY_RUNS);
  }
}
