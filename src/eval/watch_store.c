/* watch_store.c: what tile operations make, what reaches a tensor, and the report.
 *
 * In: products, folds, copies and stores of a launch that is watched. Out: the first NaN and the
 * first infinity that reached a tensor, each with where it comes from; counts of what did not fit a
 * narrower type; all as warnings after the run. A NaN that came in with an argument has no mark and
 * is no finding. Tests: tests/races (special_*).
 */
#include <math.h>

#include "watch.h"

enum { CHUNK = 256 };

/* n cells in compute form: WATCH_NAN, WATCH_INF. Nearly always there is nothing special. */
static unsigned look(DType compute, const void *cells, int64_t n) {
  unsigned nan = 0, inf = 0;
  if (!eval_watch_special(compute, cells, n))
    return 0;
  if (compute == DT_F64) {
    const double *v = cells;
    for (int64_t i = 0; i < n; i++) {
      nan |= isnan(v[i]) != 0;
      inf |= isinf(v[i]) != 0;
    }
  } else {
    const float *v = cells;
    for (int64_t i = 0; i < n; i++) {
      nan |= isnan(v[i]) != 0;
      inf |= isinf(v[i]) != 0;
    }
  }
  return (nan ? WATCH_NAN : 0u) | (inf ? WATCH_INF : 0u);
}

/* ---------------------------------------------------------------- views */

/* Calls for each piece of a row: k cells in compute form; `at` is the element in memory, `i` the
 * piece's first index along the last axis. */
typedef struct Piece {
  const EvalRow *row;
  int64_t at, step, first, n;
  void *cells;
} Piece;
typedef void (*PieceVisit)(void *ctx, const EvalView *v, const Piece *p);

static int64_t memory_of(const EvalView *v, const EvalRow *r) {
  int64_t at = v->base;
  for (int d = 0; d < v->rank; d++)
    at += r->i[d] * v->stride[d];
  return at;
}

static void each_piece(const EvalView *v, PieceVisit fn, void *ctx) {
  uint64_t room[CHUNK];
  EvalRow r;
  int last = v->rank - 1;
  for (bool more = eval_rows_first(v, &r); more; more = eval_rows_next(v, &r)) {
    Piece p = {.row = &r, .cells = room, .step = last < 0 ? 1 : v->stride[last]};
    int64_t at = memory_of(v, &r);
    for (p.first = 0; p.first < r.n; p.first += CHUNK) {
      p.n = r.n - p.first < CHUNK ? r.n - p.first : CHUNK;
      p.at = at + p.first * p.step;
      eval_mem_gather(v->mem, p.at, p.step, room, p.n);
      fn(ctx, v, &p);
    }
  }
}

static void look_piece(void *ctx, const EvalView *v, const Piece *p) {
  unsigned *found = ctx;
  *found |= look(dtype_compute(v->mem->dtype), p->cells, p->n);
}

/* A tile's rows are looked at where they lie. */
static bool rows_in_place(const EvalView *v) {
  int last = v->rank - 1;
  return !mem_packed(v->mem) && last >= 0 && v->stride[last] == 1;
}

unsigned eval_watch_look(const EvalView *v) {
  unsigned found = 0;
  EvalRow r;
  if (!dtype_is_float(v->mem->dtype))
    return 0;
  if (!rows_in_place(v)) {
    each_piece(v, look_piece, &found);
    return found;
  }
  for (bool more = eval_rows_first(v, &r); more; more = eval_rows_next(v, &r))
    found |= look(dtype_compute(v->mem->dtype), eval_mem_at(v->mem, memory_of(v, &r)), r.n);
  return found;
}

/* ---------------------------------------------------------------- products and folds */

typedef struct Mark {
  EvalAgent *a;
  const char *what;
  unsigned had;
} Mark;

/* Where along the view the first special cell of the piece is. */
static const char *name_cell(const Mark *x, const EvalView *v, const Piece *p, int64_t i) {
  char name[256];
  const EvalMem *m = v->mem;
  int last = v->rank - 1;
  eval_mem_name(m, p->row->at + (p->first + i) * (last < 0 ? 1 : v->mstride[last]), name,
                sizeof name);
  Arena *arena = x->a->block->watch->arena;
  const char *value =
      eval_watch_text(x->a, m->dtype, (char *)p->cells + (size_t)i * dtype_compute_size(m->dtype));
  return arena_printf(arena, "%s gives %s for %s%s", x->what, value, name,
                      eval_watch_where(x->a, -1));
}

static void mark_piece(void *ctx, const EvalView *v, const Piece *p) {
  const Mark *x = ctx;
  DType c = dtype_compute(v->mem->dtype);
  size_t size = dtype_compute_size(v->mem->dtype);
  if (!look(c, p->cells, p->n))
    return;
  for (int64_t i = 0; i < p->n; i++) {
    char *cell = (char *)p->cells + (size_t)i * size;
    unsigned is = look(c, cell, 1);
    if (is & WATCH_INF & ~x->had && !eval_watch_find_inf(x->a, -1))
      eval_watch_new_inf(x->a, -1, name_cell(x, v, p, i));
    if (!(is & WATCH_NAN) || x->had & WATCH_NAN || eval_watch_mark(c, cell))
      continue;
    uint32_t mark = eval_watch_find_nan(x->a, -1);
    if (!mark)
      mark = eval_watch_new_nan(x->a, -1, name_cell(x, v, p, i));
    eval_watch_set_mark(c, cell, mark);
    eval_mem_scatter(v->mem, p->at + i * p->step, 1, cell, 1);
  }
}

void eval_watch_result(EvalAgent *a, const char *what, const EvalView *v, unsigned had) {
  Mark x = {a, what, had};
  if (dtype_is_float(v->mem->dtype))
    each_piece(v, mark_piece, &x);
}

void eval_watch_scalar(EvalAgent *a, const char *what, DType t, void *cell, unsigned had) {
  if (!dtype_is_float(t))
    return;
  DType c = dtype_compute(t);
  unsigned is = look(c, cell, 1) & ~had;
  if (!is || (is & WATCH_NAN && eval_watch_mark(c, cell)))
    return;
  uint32_t mark = is & WATCH_NAN ? eval_watch_find_nan(a, -1) : 0;
  if (mark)
    eval_watch_set_mark(c, cell, mark);
  if (mark || (is & WATCH_INF && eval_watch_find_inf(a, -1)))
    return;
  const char *text = arena_printf(a->block->watch->arena, "%s gives %s%s", what,
                                  eval_watch_text(a, t, cell), eval_watch_where(a, -1));
  if (is & WATCH_INF)
    eval_watch_new_inf(a, -1, text);
  else
    eval_watch_set_mark(c, cell, eval_watch_new_nan(a, -1, text));
}

/* ---------------------------------------------------------------- what reaches a tensor */

/* An infinity of this block comes from what made one in it. */
static void add_origins(const EvalAgent *a, uint32_t mark, bool nan, WatchReach *r) {
  const EvalWatch *w = a->block->watch;
  if (nan && mark && (int)mark <= w->nnan)
    r->origin[r->norigins++] = &w->nan[mark - 1];
  for (int i = 0; !nan && i < w->ninf; i++) {
    if (w->inf[i].block != a->block->linear)
      continue;
    if (r->norigins < WATCH_NAMED)
      r->origin[r->norigins] = &w->inf[i];
    r->norigins++;
  }
}

/* One special cell on its way to the element of m: noted if it is the first whose origin is known,
 * and its mark taken off. */
static void reach(EvalAgent *a, const EvalMem *m, int64_t element, DType compute, void *cell) {
  EvalWatch *w = a->block->watch;
  char name[256];
  bool nan = isnan(eval_float_at(compute, cell));
  uint32_t mark = nan ? eval_watch_mark(compute, cell) : 0;
  WatchReach *r = nan ? &w->nan_at : &w->inf_at;
  WatchReach found = {.place = machine_insn(a)->place};
  add_origins(a, mark, nan, &found);
  if (mark)
    eval_watch_set_mark(compute, cell, 0);
  if (r->element || !found.norigins)
    return;
  eval_mem_name(m, element, name, sizeof name);
  found.element = arena_strdup(w->arena, name);
  *r = found;
}

bool eval_watch_stores(const EvalAgent *a, const EvalInsn *in, const EvalAccess *x, Lanes l) {
  DType t = (DType)in->type;
  return dtype_is_float(t) &&
         eval_watch_special(dtype_compute(t), machine_reg(a, x->value), x->lanes ? l.n : 1);
}

void eval_watch_store(EvalAgent *a, const EvalInsn *in, const EvalAccess *x, const EvalMem *m,
                      Lanes l, const int64_t *map) {
  DType t = (DType)in->type, c = dtype_compute(t);
  size_t step = x->lanes ? dtype_compute_size(t) : 0;
  char *v = machine_reg(a, x->value);
  if (!eval_watch_stores(a, in, x, l))
    return;
  for (int i = 0; i < l.n; i++)
    if ((!l.on || l.on[i]) && look(c, v + (size_t)i * step, 1))
      reach(a, m, map[i], c, v + (size_t)i * step);
}

typedef struct CopyWatch {
  EvalAgent *a;
  const EvalView *d;
  bool global, narrows;
} CopyWatch;

/* Finite values of the piece that the destination's type has no place for. */
static void count_piece(const CopyWatch *x, const EvalView *s, const Piece *p) {
  DType from = s->mem->dtype, to = x->d->mem->dtype;
  double limit = eval_watch_limit(to);
  DType c = dtype_compute(from);
  size_t size = dtype_compute_size(from);
  WatchCount *count = NULL;
  for (int64_t i = 0; i < p->n; i++) {
    const char *cell = (const char *)p->cells + (size_t)i * size;
    double v = eval_float_at(c, cell);
    if (!(fabs(v) >= limit) || isinf(v))
      continue;
    count = count ? count : eval_watch_count(x->a, to, "were beyond its range");
    if (count && !count->n++)
      count->first = arena_printf(x->a->block->watch->arena, "%s%s",
                                  eval_watch_text(x->a, from, cell), eval_watch_where(x->a, -1));
  }
}

/* Marks are taken off where they lie: a tile keeps an ordinary NaN. */
static void copy_piece(void *ctx, const EvalView *s, const Piece *p) {
  const CopyWatch *x = ctx;
  DType c = dtype_compute(s->mem->dtype);
  size_t size = dtype_compute_size(s->mem->dtype);
  int last = s->rank - 1;
  if (x->narrows)
    count_piece(x, s, p);
  if (!x->global || !look(c, p->cells, p->n))
    return;
  int64_t element = x->d->mbase;
  for (int d = 0; d < s->rank; d++)
    element += p->row->i[d] * x->d->mstride[d];
  for (int64_t i = 0; i < p->n; i++) {
    char *cell = (char *)p->cells + (size_t)i * size;
    if (!look(c, cell, 1))
      continue;
    reach(x->a, x->d->mem, element + (p->first + i) * (last < 0 ? 0 : x->d->mstride[last]), c,
          cell);
    if (s->mem->buf->space != IRS_GLOBAL)
      eval_mem_scatter(s->mem, p->at + i * p->step, 1, cell, 1);
  }
}

void eval_watch_copy(EvalAgent *a, const EvalView *d, const EvalView *s) {
  DType from = s->mem->dtype, to = d->mem->dtype;
  CopyWatch x = {.a = a, .d = d, .global = d->mem->buf->space == IRS_GLOBAL};
  x.narrows = dtype_is_float(to) && dtype_size(to) < dtype_size(from);
  if (!dtype_is_float(from) || d->empty || (!x.global && !x.narrows))
    return;
  EvalView part = *s;
  for (int i = 0; i < s->rank; i++) {
    part.lo[i] = s->lo[i] > d->lo[i] ? s->lo[i] : d->lo[i];
    part.hi[i] = s->hi[i] < d->hi[i] ? s->hi[i] : d->hi[i];
  }
  each_piece(&part, copy_piece, &x);
}

/* ---------------------------------------------------------------- report */

/* Which of several it was, nothing tells: the place of the store, and all of them. */
static void report_several(const EvalWatch *w, const WatchReach *r, DiagCode code, DiagSink *sink) {
  Diag *d = diag_add(sink, code, w->program->span[r->place],
                     "an infinity reaches %s; %d operations of its block gave one", r->element,
                     r->norigins);
  for (int i = 0; i < r->norigins && i < WATCH_NAMED; i++)
    diag_also(sink, d, w->program->span[r->origin[i]->place], "%s", r->origin[i]->text);
}

static void report_reach(const EvalWatch *w, const WatchReach *r, DiagCode code, DiagSink *sink) {
  if (!r->element)
    return;
  if (r->norigins > 1) {
    report_several(w, r, code, sink);
    return;
  }
  const WatchOrigin *o = r->origin[0];
  Diag *d =
      diag_add(sink, code, w->program->span[o->place], "%s; it reaches %s", o->text, r->element);
  if (r->place != o->place)
    diag_also(sink, d, w->program->span[r->place], "stored here");
}

void eval_watch_report(const EvalWatch *w, DiagSink *sink) {
  report_reach(w, &w->nan_at, E0485, sink);
  report_reach(w, &w->inf_at, E0486, sink);
  for (int i = 0; i < w->ncounts; i++) {
    const WatchCount *c = &w->count[i];
    diag_add(sink, E0487, w->program->span[c->place], "%llu result%s in %s %s, the first: %s",
             (unsigned long long)c->n, c->n == 1 ? "" : "s", dtype_name(c->type), c->what,
             c->first);
  }
}
