/* layout.c: layouts of fragments as digits of thread and register numbers (see layout.h).
 *
 * In: extents, vector widths, numbers of warps. Out: Frags. Always holds: the product of the thread
 * digits is the number of threads asked for; every element of the tile is held by some thread.
 * Tests: tests/unit/check_layout.c.
 */
#include "layout.h"

#include <inttypes.h>

static int64_t product(const FragDigit *d, int n) {
  int64_t p = 1;
  for (int i = 0; i < n; i++)
    p *= d[i].extent;
  return p;
}

int64_t frag_registers(const Frag *f) {
  return product(f->reg, f->nreg);
}
int64_t frag_threads(const Frag *f) {
  return product(f->thread, f->nthread);
}
int64_t frag_thread_stride(const Frag *f, int i) {
  return product(f->thread, i);
}

int64_t frag_reach(const Frag *f, int axis) {
  int64_t last = 0;
  for (int i = 0; i < f->nreg; i++)
    last += f->reg[i].axis == axis ? (f->reg[i].extent - 1) * f->reg[i].step : 0;
  for (int i = 0; i < f->nthread; i++)
    last += f->thread[i].axis == axis ? (f->thread[i].extent - 1) * f->thread[i].step : 0;
  return last + 1;
}

static bool same_digits(const FragDigit *a, const FragDigit *b, int n) {
  for (int i = 0; i < n; i++)
    if (a[i].axis != b[i].axis || a[i].extent != b[i].extent || a[i].step != b[i].step)
      return false;
  return true;
}

int64_t frag_run(const Frag *f, int axis) {
  if (f->nreg == 0 || f->reg[0].axis != axis || f->reg[0].step != 1)
    return 1;
  int64_t w = f->reg[0].extent & -f->reg[0].extent;
  for (int i = 1; i < f->nreg; i++)
    if (f->reg[i].axis == axis)
      w = base_least(w, f->reg[i].step & -f->reg[i].step);
  for (int i = 0; i < f->nthread; i++)
    if (f->thread[i].axis == axis)
      w = base_least(w, f->thread[i].step & -f->thread[i].step);
  return base_least(w, f->extent[axis] & -f->extent[axis]);
}

bool frag_copies(const Frag *f) {
  for (int i = 0; i < f->nthread; i++)
    if (f->thread[i].axis < 0 && f->thread[i].extent > 1)
      return true;
  return false;
}

bool frag_equal(const Frag *a, const Frag *b) {
  if (a->rank != b->rank || a->nreg != b->nreg || a->nthread != b->nthread)
    return false;
  for (int d = 0; d < a->rank; d++)
    if (a->extent[d] != b->extent[d])
      return false;
  return same_digits(a->reg, b->reg, a->nreg) && same_digits(a->thread, b->thread, a->nthread);
}

/* Digits of one value carry nothing. Neighbours that continue each other are one digit, so that
 * equal layouts look equal. */
void frag_push(FragDigit *v, int *n, FragDigit d) {
  if (d.extent == 1)
    return;
  FragDigit *last = *n ? &v[*n - 1] : NULL;
  if (last && last->axis == d.axis && (d.axis < 0 || d.step == last->step * last->extent)) {
    last->extent *= d.extent;
    return;
  }
  v[(*n)++] = d;
}

Frag frag_project(const Frag *f, int rank, const int *from, const int64_t *extent) {
  Frag g = {.rank = rank};
  int to[IR_MAX_RANK];
  for (int d = 0; d < f->rank; d++)
    to[d] = -1;
  for (int d = 0; d < rank; d++) {
    g.extent[d] = extent[d];
    if (from[d] >= 0)
      to[from[d]] = d;
  }
  for (int i = 0; i < f->nreg; i++)
    if (to[f->reg[i].axis] >= 0)
      frag_push(g.reg, &g.nreg, (FragDigit){to[f->reg[i].axis], f->reg[i].extent, f->reg[i].step});
  for (int i = 0; i < f->nthread; i++) {
    FragDigit d = f->thread[i];
    d.axis = d.axis < 0 ? -1 : to[d.axis];
    d.step = d.axis < 0 ? 0 : d.step;
    frag_push(g.thread, &g.nthread, d);
  }
  return g;
}

/* ---------------------------------------------------------------- rows of vectors */

static int64_t power_below(int64_t n) { /* the greatest power of two that is at most n; n >= 1 */
  int64_t p = 1;
  while (p * 2 <= n)
    p *= 2;
  return p;
}

static int64_t ceildiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/* Threads along an axis of n elements where at most `most` are there: a power of two that divides n
 * where that is most of what could be used, else one that reaches beyond. */
static int64_t share(int64_t n, int64_t most) {
  int64_t divides = n & -n, fits = n < 1 ? 1 : power_below(n);
  int64_t up = fits < n ? fits * 2 : fits;
  divides = divides > most ? most : divides;
  up = up > most ? most : up;
  return divides * 4 >= up ? divides : up;
}

/* Threads along the vectors' axis: a warp's worth, more only where the rows do not use the rest. */
static int64_t along(int64_t vectors, int64_t rows, int64_t threads) {
  int64_t spread = rows < 1 ? threads : threads / power_below(rows < threads ? rows : threads);
  int64_t most = spread > 32 ? spread : 32;
  return share(vectors, most > threads ? threads : most);
}

Frag frag_rows(int rank, const int64_t *extent, int axis, int64_t width, int threads) {
  return frag_rows_of(rank, extent, axis, width, threads, threads);
}

Frag frag_rows_of(int rank, const int64_t *extent, int axis, int64_t width, int threads,
                  int64_t lanes_most) {
  Frag f = {.rank = rank};
  int64_t rows = 1, power = threads & -threads, left = power;
  for (int d = 0; d < rank; d++) {
    f.extent[d] = extent[d];
    rows *= d == axis ? 1 : extent[d];
  }
  int64_t vectors = ceildiv(extent[axis], width), lanes = along(vectors, rows, power);
  lanes = lanes > lanes_most ? lanes_most : lanes;
  frag_push(f.reg, &f.nreg, (FragDigit){axis, width, 1});
  frag_push(f.thread, &f.nthread, (FragDigit){axis, lanes, width});
  frag_push(f.reg, &f.nreg, (FragDigit){axis, ceildiv(vectors, lanes), width * lanes});
  left /= lanes;
  for (int d = rank - 1; d >= 0; d--) {
    if (d == axis)
      continue;
    int64_t n = share(extent[d], left);
    frag_push(f.thread, &f.nthread, (FragDigit){d, n, 1});
    frag_push(f.reg, &f.nreg, (FragDigit){d, ceildiv(extent[d], n), n});
    left /= n;
  }
  frag_push(f.thread, &f.nthread, (FragDigit){-1, left * (threads / power), 0});
  return f;
}

/* ---------------------------------------------------------------- products */

bool frag_accumulator(Frag *f, int64_t m, int64_t n, int row_warps, int column_warps) {
  return frag_paired(f, m, n, row_warps, column_warps, (FragPairs){false, false});
}

bool frag_paired(Frag *f, int64_t m, int64_t n, int row_warps, int column_warps, FragPairs pairs) {
  int64_t block = pairs.columns ? 16 : 8; /* columns of four lanes */
  if (m % (16 * row_warps) || n % (block * column_warps))
    return false;
  *f = (Frag){.rank = 2, .extent = {m, n}};
  frag_push(f->reg, &f->nreg, (FragDigit){1, block / 4, 1});
  frag_push(f->reg, &f->nreg, (FragDigit){0, 2, pairs.rows ? 1 : 8});
  frag_push(f->reg, &f->nreg, (FragDigit){1, n / (block * column_warps), block});
  frag_push(f->reg, &f->nreg, (FragDigit){0, m / (16 * row_warps), 16 * row_warps});
  frag_push(f->thread, &f->nthread, (FragDigit){1, 4, block / 4});
  frag_push(f->thread, &f->nthread, (FragDigit){0, 8, pairs.rows ? 2 : 1});
  frag_push(f->thread, &f->nthread, (FragDigit){0, row_warps, 16});
  frag_push(f->thread, &f->nthread, (FragDigit){1, column_warps, n / column_warps});
  return true;
}

int64_t frag_turned_step(int i, bool wide) {
  static const int64_t near[] = {2, 4, 8, 16, 32}, apart[] = {2, 16, 4, 8, 32};
  return wide ? apart[i] : near[i];
}

bool frag_turned(Frag *f, int64_t m, int64_t n, int axis, int groups, bool wide) {
  int64_t rows = axis ? n : m, columns = axis ? m : n;
  if (rows % (64 * groups) || columns % 8)
    return false;
  *f = (Frag){.rank = 2, .extent = {m, n}};
  frag_push(f->reg, &f->nreg, (FragDigit){1 - axis, 2, 1});
  frag_push(f->reg, &f->nreg, (FragDigit){axis, 2, 1});
  frag_push(f->reg, &f->nreg, (FragDigit){1 - axis, columns / 8, 8});
  frag_push(f->reg, &f->nreg, (FragDigit){axis, rows / (64 * groups), 64 * groups});
  frag_push(f->thread, &f->nthread, (FragDigit){1 - axis, 4, 2});
  for (int i = 0; i < 5; i++)
    frag_push(f->thread, &f->nthread, (FragDigit){axis, 2, frag_turned_step(i, wide)});
  frag_push(f->thread, &f->nthread, (FragDigit){axis, groups, 64});
  return true;
}

void frag_print(const Frag *f, Str *out) {
  str_add(out, "thread");
  for (int i = 0; i < f->nthread; i++)
    str_addf(out, " %" PRId64 ":%d:%" PRId64, f->thread[i].extent, f->thread[i].axis,
             f->thread[i].step);
  str_add(out, " register");
  for (int i = 0; i < f->nreg; i++)
    str_addf(out, " %" PRId64 ":%d:%" PRId64, f->reg[i].extent, f->reg[i].axis, f->reg[i].step);
}
