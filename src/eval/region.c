/* region.c: regions with their run-time origins resolved to strided views, and what was written.
 *
 * In: an EvalRegion. Out: an EvalView: base, strides, and along each kept axis the range of indices
 * that lie inside. A region of a global tensor may reach beyond it; one of a tile may not.
 * The range that lies inside is found by axis, with origins as far out as i64 goes; no address is
 * formed from an index that is not in it.
 * Tests: tests/unit/check_eval.c (copies), tests/unit/check_eval_tiles.c (regions).
 */
#include <string.h>

#include "race.h"

/* b is positive. */
static int64_t ceil_div(int64_t a, int64_t b) {
  return a / b + (a % b > 0);
}

/* Indices i in [0, extent) with 0 <= origin + step * i < bound. */
static void inside_range(int64_t origin, int64_t step, int64_t bound, int64_t extent, int64_t *lo,
                         int64_t *hi) {
  if (step > 0) {
    *lo = origin >= 0 ? 0 : ceil_div(-(origin + 1) + 1, step);
    *hi = bound <= origin                            ? 0
          : origin < 0 && bound > INT64_MAX + origin ? extent
                                                     : ceil_div(bound - origin, step);
  } else {
    int64_t s = -(step + 1) + 1;
    *lo = origin < bound ? 0 : (origin - bound) / s + 1;
    *hi = origin < 0 ? 0 : origin / s + 1;
  }
  if (*lo > extent)
    *lo = extent;
  if (*hi > extent)
    *hi = extent;
  if (*hi < *lo)
    *hi = *lo;
}

/* A region of a tile is a slice of it: the manual, Safety. */
static EvalResult fault_region(EvalAgent *a, const EvalMem *m, int axis, int64_t first,
                               int64_t last) {
  return eval_fault(
      a, E0456, "the region reaches from %lld to %lld along axis %d of %s, whose extent is %lld",
      (long long)first, (long long)last, axis, m->buf->name, (long long)m->extent[axis]);
}

/* Adds n * stride without signed overflow: far origins are never dereferenced. */
static void advance(int64_t *at, int64_t n, int64_t stride) {
  *at = (int64_t)((uint64_t)*at + (uint64_t)n * (uint64_t)stride);
}

/* Outside a tensor a single index is a row of nothing; outside a tile an error. */
static EvalResult single(EvalAgent *a, const EvalMem *m, int axis, int64_t origin, EvalView *v) {
  if (origin >= 0 && origin < m->extent[axis]) {
    advance(&v->base, origin, m->stride[axis]);
    advance(&v->mbase, origin, m->map_stride[axis]);
    return EVAL_OK;
  }
  v->empty = true;
  v->inside = false;
  return m->buf->space == IRS_GLOBAL ? EVAL_OK : fault_region(a, m, axis, origin, origin);
}

/* The extent that the other side gives the k-th kept axis. */
static int64_t open_extent(const EvalRegion *r, const EvalView *other, int k, int kept) {
  if (!other || other->rank != kept)
    return -1;
  if (r->trans && k >= kept - 2)
    k = k == kept - 1 ? kept - 2 : kept - 1;
  return other->extent[k];
}

static EvalResult kept(EvalAgent *a, const EvalRegionAxis *x, int axis, int64_t extent,
                       EvalView *v) {
  const EvalMem *m = v->mem;
  int64_t origin = machine_int(a, &x->origin), stop = machine_int(a, &x->stop);
  int k = v->rank++;
  v->extent[k] = extent;
  inside_range(origin, x->step, m->extent[axis], extent, &v->lo[k], &v->hi[k]);
  bool global = m->buf->space == IRS_GLOBAL;
  if (!global && stop == INT64_MAX && (v->lo[k] > 0 || v->hi[k] < extent))
    return fault_region(a, m, axis, origin, origin + x->step * (extent - 1));
  if (stop < m->extent[axis])
    inside_range(origin, x->step, stop, extent, &v->lo[k], &v->hi[k]);
  v->stride[k] = m->stride[axis] * x->step;
  v->mstride[k] = m->map_stride[axis] * x->step;
  advance(&v->base, origin, m->stride[axis]);
  advance(&v->mbase, origin, m->map_stride[axis]);
  if (v->lo[k] > 0 || v->hi[k] < extent)
    v->inside = false;
  if (origin != 0 || x->step != 1 || extent != m->extent[axis])
    v->whole = false;
  return EVAL_OK;
}

/* For .T. */
static void swap(int64_t *v, int i, int j) {
  int64_t t = v[i];
  v[i] = v[j];
  v[j] = t;
}

/* Views are only strides: .T costs nothing. */
static void transpose(EvalView *v) {
  int i = v->rank - 1, j = v->rank - 2;
  if (j < 0)
    return;
  swap(v->extent, i, j);
  swap(v->stride, i, j);
  swap(v->mstride, i, j);
  swap(v->lo, i, j);
  swap(v->hi, i, j);
}

/* The fault's place is the region's text, not the whole statement. */
static EvalResult faulted_at(EvalAgent *a, const EvalRegion *r) {
  if (r->span.file)
    a->block->fault.span = r->span;
  return EVAL_FAULTED;
}

/* Kept axes in order, dropped ones added to the base. */
EvalResult eval_region_resolve(EvalAgent *a, const EvalRegion *r, const EvalView *other,
                               EvalView *v) {
  EvalMem *m = &a->block->mem[r->buf];
  int nkept = 0, k = 0;
  *v = (EvalView){.mem = m, .whole = true, .inside = true};
  for (int i = 0; i < r->rank; i++)
    nkept += r->axis[i].keep;
  for (int i = 0; i < r->rank; i++) {
    const EvalRegionAxis *x = &r->axis[i];
    EvalResult result;
    if (x->keep) {
      int64_t extent = x->extent;
      if (!extent && m->buf->space == IRS_GLOBAL) {
        extent = open_extent(r, other, k, nkept);
        if (extent < 0)
          extent = m->extent[i] - machine_int(a, &x->origin);
      }
      result = kept(a, x, i, extent < 0 ? 0 : extent, v);
      k++;
    } else {
      v->whole = v->whole && m->extent[i] == 1;
      result = single(a, m, i, machine_int(a, &x->origin), v);
    }
    if (result != EVAL_OK)
      return faulted_at(a, r);
  }
  if (r->trans)
    transpose(v);
  return EVAL_OK;
}

/* ---------------------------------------------------------------- what was written */

/* Where the row begins that the counters are at. */
static void place_row(const EvalView *v, EvalRow *r) {
  int last = v->rank - 1;
  r->at = v->mbase;
  for (int d = 0; d < v->rank; d++)
    advance(&r->at, r->i[d], v->mstride[d]);
  r->n = last < 0 ? 1 : v->hi[last] - v->lo[last];
  r->step = last < 0 ? 1 : v->mstride[last];
}

bool eval_rows_first(const EvalView *v, EvalRow *r) {
  if (v->empty)
    return false;
  for (int d = 0; d < v->rank; d++) {
    if (v->lo[d] >= v->hi[d])
      return false;
    r->i[d] = v->lo[d];
  }
  place_row(v, r);
  return true;
}

bool eval_rows_next(const EvalView *v, EvalRow *r) {
  int d = v->rank - 2;
  while (d >= 0 && ++r->i[d] == v->hi[d]) {
    r->i[d] = v->lo[d];
    d--;
  }
  if (d < 0)
    return false;
  place_row(v, r);
  return true;
}

/* The first element of the row that nothing wrote; -1: none. */
static int64_t unwritten(const EvalMem *m, const EvalRow *r) {
  for (int64_t i = 0; i < r->n; i++)
    if (m->state == WRITTEN_NONE || !m->map[r->at + i * r->step])
      return r->at + i * r->step;
  return -1;
}

/* A tile that is known to be whole costs one comparison. The first bad element is the first in
 * row-major order. */
EvalResult eval_region_check_written(EvalAgent *a, const EvalView *v) {
  EvalRow r;
  char name[256];
  bool known = !v->mem->map || v->mem->state == WRITTEN_ALL;
  for (bool more = !known && eval_rows_first(v, &r); more; more = eval_rows_next(v, &r)) {
    int64_t bad = unwritten(v->mem, &r);
    if (bad < 0)
      continue;
    eval_mem_name(v->mem, bad, name, sizeof name);
    return eval_fault_unwritten(a, v->mem->buf, name);
  }
  return EVAL_OK;
}

/* Other blocks' accesses of the same tensor are looked at too. */
EvalResult eval_region_read(EvalAgent *a, const EvalView *v) {
  EvalResult r = eval_region_check_written(a, v);
  return r == EVAL_OK && a->block->races ? eval_races_region(a, v, RACE_READ) : r;
}

/* Bytes of an output are set without a count: other blocks set theirs. */
static void row_mark(EvalMem *m, const EvalRow *r) {
  uint8_t *p = m->map + r->at;
  if (m->buf->space == IRS_GLOBAL) {
    if (r->step == 1)
      memset(p, 1, (size_t)r->n);
    for (int64_t i = 0; r->step != 1 && i < r->n; i++)
      p[i * r->step] = 1;
    return;
  }
  for (int64_t i = 0; i < r->n; i++, p += r->step) {
    m->nwritten += !*p;
    *p = 1;
  }
  if (m->nwritten == m->count)
    m->state = WRITTEN_ALL;
}

/* A tile written whole never needs its map. */
void eval_region_mark_written(EvalView *v) {
  EvalMem *m = v->mem;
  if (!m->map || m->state == WRITTEN_ALL)
    return;
  if (v->whole && v->inside && m->buf->space != IRS_GLOBAL) {
    m->state = WRITTEN_ALL;
    return;
  }
  eval_mem_begin_map(m);
  EvalRow r;
  for (bool more = eval_rows_first(v, &r); more; more = eval_rows_next(v, &r))
    row_mark(m, &r);
}
