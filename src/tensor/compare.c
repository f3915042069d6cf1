/* compare.c: how far apart two tensors are, and where.
 *
 * In: two tensors that broadcast. Out: differences measured in f64. Runs are converted in small
 * blocks, so that a comparison of large tensors costs about what reading them does. Tests:
 * tests/unit/check_tensor.c.
 */
#include "impl.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 256 };

/* Both operands stretched to their common shape. */
typedef struct Pair {
  Tensor *a, *b;
} Pair;

/* Fetches both from the device where they must be, then stretches them; false leaves nothing to
 * close. */
static bool pair_open(Pair *p, const Tensor *a, const Tensor *b, Str *why) {
  int rank = 0;
  int64_t extent[TENSOR_MAX_RANK];
  *p = (Pair){NULL, NULL};
  if (!tensor_to_host(a, why) || !tensor_to_host(b, why) ||
      !tensor_broadcast_shape(a, b, &rank, extent, why))
    return false;
  p->a = tensor_broadcast(a, rank, extent, why);
  p->b = p->a ? tensor_broadcast(b, rank, extent, why) : NULL;
  if (!p->b)
    tensor_release(p->a);
  return p->b != NULL;
}

/* The views, not the tensors. */
static void pair_close(Pair *p) {
  tensor_release(p->a);
  tensor_release(p->b);
}

/* n elements to f64, through compact storage where they are strided. */
static void load(DType t, const char *p, ptrdiff_t step, int64_t n, double *out) {
  size_t size = dtype_size(t);
  if (step == (ptrdiff_t)size) {
    dtype_convert(t, p, DT_F64, out, (size_t)n);
    return;
  }
  _Alignas(64) char compact[BLOCK * 8];
  dtype_gather(size, p, step, compact, (size_t)n);
  dtype_convert(t, compact, DT_F64, out, (size_t)n);
}

/* Calls fn for each block of at most BLOCK elements; first is its row-major number. */
typedef void (*BlockFn)(void *ctx, const double *a, const double *b, int64_t n, int64_t first);

/* Runs of both together, cut into blocks that fit in registers and first-level cache. */
static void pair_each(const Pair *p, const volatile sig_atomic_t *stop, BlockFn fn, void *ctx) {
  const Tensor *const both[] = {p->a, p->b};
  TensorRuns r;
  double a[BLOCK], b[BLOCK];
  tensor_runs_init(&r, both, 2);
  for (int64_t i = 0; i < r.runs; i++) {
    const char *at[2];
    tensor_runs_at(&r, i, at);
    for (int64_t k = 0; k < r.length && !(stop && *stop); k += BLOCK) {
      int64_t n = r.length - k < BLOCK ? r.length - k : BLOCK;
      load(p->a->dtype, at[0] + k * r.step[0], r.step[0], n, a);
      load(p->b->dtype, at[1] + k * r.step[1], r.step[1], n, b);
      fn(ctx, a, b, n, i * r.length + k);
    }
  }
}

/* Where row-major element `flat` of the common shape is, and its two values. */
static void locate(const Pair *p, int64_t flat, TensorDiff *out) {
  out->rank = p->a->rank;
  for (int i = p->a->rank; i-- > 0;) {
    out->where[i] = flat % p->a->extent[i];
    flat /= p->a->extent[i];
  }
  out->a = tensor_get(p->a, out->where);
  out->b = tensor_get(p->b, out->where);
}

typedef struct Worst {
  TensorDiff *out;
  int64_t flat; /* -1: no difference yet */
} Worst;

/* NaN equals NaN: maxdiff asks whether two runs gave the same. */
static double distance(double a, double b) {
  if (a == b || (isnan(a) && isnan(b)))
    return 0.0;
  double d = fabs(a - b);
  return isnan(d) ? (double)INFINITY : d;
}

/* The first of equal maxima stays, so the place is the same on every run. */
static void diff_block(void *ctx, const double *a, const double *b, int64_t n, int64_t first) {
  Worst *w = ctx;
  for (int64_t i = 0; i < n; i++) {
    double d = distance(a[i], b[i]);
    if (d == 0.0)
      continue;
    w->out->count++;
    double rel = isinf(d) ? d : d / fabs(b[i]);
    w->out->max_rel = rel > w->out->max_rel ? rel : w->out->max_rel;
    if (d > w->out->max_abs) {
      w->out->max_abs = d;
      w->flat = first + i;
    }
  }
}

/* Where nothing differs the place is the first element. */
bool tensor_maxdiff(const Tensor *a, const Tensor *b, const volatile sig_atomic_t *stop,
                    TensorDiff *out, Str *why) {
  Pair p;
  memset(out, 0, sizeof *out);
  if (!pair_open(&p, a, b, why))
    return false;
  out->total = tensor_count(p.a);
  Worst w = {out, -1};
  pair_each(&p, stop, diff_block, &w);
  if (out->total > 0)
    locate(&p, w.flat < 0 ? 0 : w.flat, out);
  pair_close(&p);
  return true;
}

typedef struct Beyond {
  const double *bound;
  double first; /* distance */
  int64_t flat, count;
} Beyond;

static void beyond_block(void *ctx, const double *a, const double *b, int64_t n, int64_t first) {
  Beyond *y = ctx;
  for (int64_t i = 0; i < n; i++) {
    double d = distance(a[i], b[i]);
    if (d <= y->bound[first + i])
      continue;
    if (!y->count++) {
      y->flat = first + i;
      y->first = d;
    }
  }
}

bool tensor_beyond(const Tensor *a, const Tensor *b, const Tensor *bound,
                   const volatile sig_atomic_t *stop, TensorDiff *out, Str *why) {
  Pair p;
  memset(out, 0, sizeof *out);
  if (!pair_open(&p, a, b, why))
    return false;
  Beyond y = {tensor_data(bound), 0, 0, 0};
  pair_each(&p, stop, beyond_block, &y);
  out->total = tensor_count(p.a);
  out->count = y.count;
  out->max_abs = y.first;
  if (out->total > 0)
    locate(&p, y.flat, out);
  pair_close(&p);
  return true;
}

typedef struct Close {
  double rel_tol, abs_tol, excess;
  int64_t flat, bad;
} Close;

/* The worst is where the excess over the allowed difference is greatest. */
static void close_block(void *ctx, const double *a, const double *b, int64_t n, int64_t first) {
  Close *c = ctx;
  for (int64_t i = 0; i < n; i++) {
    if (a[i] == b[i])
      continue;
    double d = fabs(a[i] - b[i]), room = c->abs_tol + c->rel_tol * fabs(b[i]);
    if (d <= room && !isinf(b[i]))
      continue;
    double excess = isnan(d) || isinf(room) ? (double)INFINITY : d - room;
    c->bad++;
    if (c->flat < 0 || excess > c->excess) {
      c->excess = excess;
      c->flat = first + i;
    }
  }
}

/* An infinite tolerance never hides an infinity against a number. */
bool tensor_allclose(const Tensor *a, const Tensor *b, double rel_tol, double abs_tol,
                     const volatile sig_atomic_t *stop, bool *close, TensorDiff *worst, Str *why) {
  Pair p;
  if (!pair_open(&p, a, b, why))
    return false;
  Close c = {rel_tol, abs_tol, 0.0, -1, 0};
  pair_each(&p, stop, close_block, &c);
  *close = c.bad == 0;
  if (worst) {
    memset(worst, 0, sizeof *worst);
    worst->total = tensor_count(p.a);
    worst->count = c.bad;
    if (c.flat >= 0)
      locate(&p, c.flat, worst);
  }
  pair_close(&p);
  return true;
}
