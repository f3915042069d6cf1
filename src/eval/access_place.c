/* access_place.c: where the elements of an access lie.
 *
 * In: an EvalAccess and the registers it names. Out: offsets in memory, and in the map of what was
 * written, of a strip (base and strides), of each lane, or of one element; or the fault that names
 * the first lane outside. Always holds: no offset is given for a lane that is outside. Tests:
 * tests/unit/check_eval.c.
 */
#include <string.h>

#include "access.h"

/* ---------------------------------------------------------------- where the elements lie */

/* A full mask is as good as none, and cheaper. */
Lanes eval_lanes_of(const EvalAgent *a, const EvalInsn *in) {
  Lanes l = {NULL, a->lanes};
  if (in->mask) {
    const EvalMask *m = machine_reg(a, in->mask);
    if (m->n != a->lanes)
      l.on = m->on;
  }
  return l;
}

/* Coordinates of one lane. */
static void lane_indices(const EvalAgent *a, const EvalAccess *x, int64_t lane, int64_t *index) {
  int64_t point[4] = {0};
  int naxes = a->map && a->map->code ? a->map->code->naxes : 0;
  if (naxes)
    eval_map_point(a->map, lane, point);
  for (int d = 0; d < x->rank; d++) {
    const EvalAffine *f = &x->index[d];
    uint64_t v = (uint64_t)machine_int(a, &f->base);
    if (f->lanes)
      v += (uint64_t)((const int64_t *)machine_reg(a, f->lanes))[lane];
    for (int i = 0; i < naxes; i++)
      v += (uint64_t)machine_int(a, &f->coef[i]) * (uint64_t)point[i];
    index[d] = (int64_t)v;
  }
}

/* The text that the manual promises: indices and extents; the reporter adds line and block. */
static EvalResult fault_outside(EvalAgent *a, const EvalMem *m, const int64_t *index) {
  char at[160], extents[160];
  eval_list_text(index, m->rank, at, sizeof at);
  eval_list_text(m->extent, m->rank, extents, sizeof extents);
  return eval_fault(a, E0450, "element [%s] of %s is outside its extents [%s]", at, m->buf->name,
                    extents);
}

/* The strip as a whole; false where an index is not affine or a corner is outside. */
bool eval_place_strip(const EvalAgent *a, const EvalAccess *x, const EvalMem *m, Place *data,
                      Place *map) {
  const EvalMapState *s = a->map;
  int naxes = s->code->naxes;
  *data = *map = (Place){0};
  for (int d = 0; d < x->rank; d++) {
    const EvalAffine *f = &x->index[d];
    if (f->lanes)
      return false;
    int64_t first = machine_int(a, &f->base), low, high;
    for (int i = 0; i < naxes; i++) {
      int64_t coef = machine_int(a, &f->coef[i]);
      if (!coef)
        continue;
      int64_t offset;
      if (__builtin_mul_overflow(coef, s->pos[i], &offset) ||
          __builtin_add_overflow(first, offset, &first))
        return false;
      data->lane[i] += coef * m->stride[d];
      map->lane[i] += coef * m->map_stride[d];
    }
    low = high = first;
    for (int i = 0; i < naxes; i++) {
      int64_t reach;
      if (__builtin_mul_overflow(machine_int(a, &f->coef[i]), s->cnt[i] - 1, &reach) ||
          __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))
        return false;
    }
    if (low < 0 || high >= m->extent[d])
      return false;
    data->at += first * m->stride[d];
    map->at += first * m->map_stride[d];
  }
  return true;
}

/* The same for coordinates that are one register or one element each, all lanes at once; false
 * where a lane, perhaps one that does not take part, is outside. */
static bool place_quick(EvalAgent *a, const EvalAccess *x, const EvalMem *m, int n) {
  uint64_t outside = 0;
  memset(a->offsets, 0, (size_t)n * sizeof *a->offsets);
  for (int d = 0; d < x->rank; d++) {
    const EvalAffine *f = &x->index[d];
    uint64_t base = (uint64_t)machine_int(a, &f->base), extent = (uint64_t)m->extent[d];
    int64_t stride = m->stride[d];
    const int64_t *lanes = f->lanes ? machine_reg(a, f->lanes) : NULL;
    for (int i = 0; lanes && i < n; i++) {
      uint64_t v = base + (uint64_t)lanes[i];
      outside |= v >= extent;
      a->offsets[i] += (int64_t)(v * (uint64_t)stride);
    }
    for (int i = 0; !lanes && i < n; i++)
      a->offsets[i] += (int64_t)(base * (uint64_t)stride);
    outside |= !lanes && base >= extent;
  }
  return !outside;
}

/* Element offsets of the lanes that take part, into a->offsets; map offsets where `map` is given.
 */
EvalResult eval_place_lanes(EvalAgent *a, const EvalAccess *x, const EvalMem *m, Lanes l,
                            int64_t *map) {
  int64_t index[IR_MAX_RANK];
  if (!a->map->code && !map && place_quick(a, x, m, l.n))
    return EVAL_OK;
  for (int i = 0; i < l.n; i++) {
    if (l.on && !l.on[i])
      continue;
    lane_indices(a, x, i, index);
    int64_t at = 0, in_map = 0;
    for (int d = 0; d < x->rank; d++) {
      if (index[d] < 0 || index[d] >= m->extent[d])
        return fault_outside(a, m, index);
      at += index[d] * m->stride[d];
      in_map += index[d] * m->map_stride[d];
    }
    a->offsets[i] = at;
    if (map)
      map[i] = in_map;
  }
  return EVAL_OK;
}

/* Starts at the first point of the strip. */
Walk eval_walk_start(const EvalMapState *s, const Place *p) {
  return (Walk){.s = s, .at = p->at, .p = p};
}

/* Steps like an odometer, the innermost axis first, as lanes are numbered. */
void eval_walk_next(Walk *w) {
  for (int i = w->s->code->naxes - 1; i >= 0; i--) {
    w->at += w->p->lane[i];
    if (++w->done[i] < w->s->cnt[i])
      return;
    w->at -= w->p->lane[i] * w->s->cnt[i];
    w->done[i] = 0;
  }
}

/* All coordinates are found first, so that a fault can name them all. */
EvalResult eval_place_one(EvalAgent *a, const EvalAccess *x, const EvalMem *m, int64_t *at,
                          int64_t *map) {
  int64_t index[IR_MAX_RANK];
  *at = *map = 0;
  for (int d = 0; d < x->rank; d++)
    index[d] = machine_int(a, &x->index[d].base);
  for (int d = 0; d < x->rank; d++) {
    if (index[d] < 0 || index[d] >= m->extent[d])
      return fault_outside(a, m, index);
    *at += index[d] * m->stride[d];
    *map += index[d] * m->map_stride[d];
  }
  return EVAL_OK;
}
