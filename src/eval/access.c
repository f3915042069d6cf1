/* access.c: single elements of memory: LOAD and STORE.
 *
 * In: an EvalAccess and the registers it names. Out: elements in compute form, one or one a lane.
 * A strip of a MAP whose coordinates are affine is checked at its corners and moved row by row;
 * everything else goes lane by lane, over the lanes that take part. A fault names the first such
 * lane's indices. Tests: tests/unit/check_eval.c.
 * A coordinate of a strip is base + sum of coef * point. The base is found once a strip, the
 * strides once a strip and axis; no lane's own coordinate is computed unless it is a gather or a
 * fault. What was written is looked up by a second set of strides, because a view of a tensor need
 * not be contiguous while its map is. At thread level the same code serves warps: 32 lanes,
 * coordinates from registers, and the devices are told of each access before it happens.
 */
#include <string.h>

#include "noise.h"
#include "race.h"

/* ---------------------------------------------------------------- what was written */

/* The element is named by its coordinates, found from its place in the map. */
static EvalResult fault_unwritten(EvalAgent *a, const EvalMem *m, int64_t element) {
  char name[256];
  eval_mem_name(m, element, name, sizeof name);
  return eval_fault_unwritten(a, m->buf, name);
}

/* Inputs, and tiles once they are whole, need no look at the map. */
static bool tracked(const EvalMem *m) {
  return m->map && m->state != WRITTEN_ALL;
}

/* The map of a tile is cleared only when something is written to a part of it: most tiles are
 * written whole and never need it. */
void eval_mem_begin_map(EvalMem *m) {
  if (m->state == WRITTEN_NONE) {
    memset(m->map, 0, (size_t)m->count);
    m->state = WRITTEN_PARTLY;
  }
}

/* A tile that has become whole is not looked at again. Outputs are shared by blocks: no count. */
static void mark(EvalMem *m, int64_t at) {
  if (m->map[at])
    return;
  m->map[at] = 1;
  if (m->buf->space != IRS_GLOBAL && ++m->nwritten == m->count)
    m->state = WRITTEN_ALL;
}

/* Faults at the first lane whose element nothing wrote. */
static EvalResult check_strip(EvalAgent *a, const EvalMem *m, const Place *p, Lanes l) {
  if (m->state == WRITTEN_NONE)
    return fault_unwritten(a, m, p->at);
  Walk w = eval_walk_start(a->map, p);
  for (int i = 0; i < l.n; i++, eval_walk_next(&w))
    if ((!l.on || l.on[i]) && !m->map[w.at])
      return fault_unwritten(a, m, w.at);
  return EVAL_OK;
}

/* n map bytes of neighbours. */
static void mark_run(EvalMem *m, int64_t at, int64_t n) {
  if (m->buf->space == IRS_GLOBAL)
    memset(m->map + at, 1, (size_t)n);
  else
    for (int64_t i = 0; i < n; i++)
      mark(m, at + i);
}

/* Rows of neighbours are marked at once; masked strips lane by lane. */
static void mark_strip(EvalAgent *a, EvalMem *m, const Place *p, Lanes l) {
  eval_mem_begin_map(m);
  const EvalMapState *s = a->map;
  int last = s->code->naxes - 1;
  bool runs = !l.on && last >= 0 && p->lane[last] == 1;
  int64_t length = runs ? s->cnt[last] : 1;
  Walk w = eval_walk_start(s, p);
  for (int64_t i = 0; i < l.n; i += length) {
    if (runs)
      mark_run(m, w.at, length);
    else if (!l.on || l.on[i])
      mark(m, w.at);
    w.at += runs ? length - 1 : 0;
    w.done[last < 0 ? 0 : last] += runs ? length - 1 : 0;
    eval_walk_next(&w);
  }
}

/* ---------------------------------------------------------------- moving elements */

/* Rows of a strip: runs along the innermost axes that lie at one stride. */
typedef struct Rows {
  int64_t length, stride, count;
} Rows;

/* Joins axes from the inside as long as one stride goes on through them, so that a strip over a
 * whole tile is one row. */
static Rows rows_of(const EvalMapState *s, const Place *p) {
  int i = s->code->naxes - 1;
  while (i > 0 && s->cnt[i] == 1)
    i--;
  if (i < 0)
    return (Rows){1, 1, 1};
  Rows r = {s->cnt[i], p->lane[i], 1};
  while (i > 0 && (s->cnt[i - 1] == 1 || p->lane[i - 1] == r.stride * r.length))
    r.length *= s->cnt[--i];
  while (i > 0)
    r.count *= s->cnt[--i];
  return r;
}

/* ---------------------------------------------------------------- strips */

/* The innermost axis that a row does not cover. */
static int row_axis(const EvalMapState *s, int64_t length) {
  int inner = s->code->naxes - 1;
  for (int64_t n = 1; n < length;)
    n *= s->cnt[inner--];
  return inner;
}

/* To the start of the next row: axis `inner` and, where it is through, those outside it. */
static void next_row(const EvalMapState *s, const Place *p, int inner, Walk *w) {
  for (int d = inner; d >= 0; d--) {
    w->at += p->lane[d];
    if (++w->done[d] < s->cnt[d])
      return;
    w->at -= p->lane[d] * s->cnt[d];
    w->done[d] = 0;
  }
}

/* Broadcast operands (stride 0) are filled, strided ones gathered, row by row. */
static void load_rows(const EvalMapState *s, const EvalMem *m, const Place *p, char *dst) {
  size_t size = dtype_compute_size(m->dtype);
  Rows r = rows_of(s, p);
  if (r.count == 1) {
    eval_mem_gather(m, p->at, r.stride, dst, r.length);
    return;
  }
  /* The rows' starts are the lanes at multiples of the row length. */
  Walk w = eval_walk_start(s, p);
  int inner = row_axis(s, r.length);
  for (int64_t i = 0; i < r.count; i++) {
    eval_mem_gather(m, w.at, r.stride, dst + (size_t)(i * r.length) * size, r.length);
    next_row(s, p, inner, &w);
  }
}

/* The mirror of load_rows. */
static void store_rows(const EvalMapState *s, const EvalMem *m, const Place *p, const char *src) {
  size_t size = dtype_compute_size(m->dtype);
  Rows r = rows_of(s, p);
  Walk w = eval_walk_start(s, p);
  int inner = row_axis(s, r.length);
  for (int64_t i = 0; i < r.count; i++) {
    eval_mem_scatter(m, w.at, r.stride, src + (size_t)(i * r.length) * size, r.length);
    next_row(s, p, inner, &w);
  }
}

/* Lanes that are off may lie next to others' elements: nothing but the element is touched. */
static void store_masked(EvalAgent *a, const EvalMem *m, const Place *p, const char *src, Lanes l) {
  size_t size = dtype_compute_size(m->dtype);
  Walk w = eval_walk_start(a->map, p);
  for (int i = 0; i < l.n; i++, eval_walk_next(&w))
    if (l.on[i])
      eval_mem_scatter(m, w.at, 1, src + (size_t)i * size, 1);
}

/* ---------------------------------------------------------------- lane by lane */

/* Thread level: the devices count, and check, what each access touches. */
static EvalResult hooks(EvalAgent *a, const EvalMem *m, Lanes l, bool write) {
  if (a->block->program->kernel->level != IR_THREAD)
    return EVAL_OK;
  a->mask = l.on;
  if (m->buf->space == IRS_GLOBAL)
    return eval_device_global(a, m, a->offsets, write);
  int64_t bytes[EVAL_WARP];
  const char *shared = (const char *)a->block->shared;
  for (int i = 0; i < l.n; i++)
    bytes[i] =
        l.on && !l.on[i] ? 0 : (const char *)m->data - shared + a->offsets[i] * (int64_t)m->size;
  return eval_device_shared(a, bytes, (int)m->size, write);
}

/* Lane by lane where indices come from registers, at thread level, and on the way to a fault. */
static EvalResult load_lanes(EvalAgent *a, const EvalAccess *x, EvalMem *m, char *dst, Lanes l) {
  int64_t map[EVAL_STRIP];
  EvalResult r = eval_place_lanes(a, x, m, l, tracked(m) ? map : NULL);
  if (r == EVAL_OK)
    r = hooks(a, m, l, false);
  if (r != EVAL_OK)
    return r;
  if (!l.on && !tracked(m)) {
    eval_mem_take(m, a->offsets, l.n, dst, a->scratch);
    return EVAL_OK;
  }
  size_t size = dtype_compute_size(m->dtype);
  for (int i = 0; i < l.n; i++) {
    if (l.on && !l.on[i])
      continue;
    if (tracked(m) && (m->state == WRITTEN_NONE || !m->map[map[i]]))
      return fault_unwritten(a, m, map[i]);
    eval_mem_gather(m, a->offsets[i], 1, dst + (size_t)i * size, 1);
  }
  return EVAL_OK;
}

/* Where two lanes mean one element the higher lane stays, as in the order of iterations. */
static EvalResult store_lanes(EvalAgent *a, const EvalAccess *x, EvalMem *m, const char *src,
                              Lanes l) {
  int64_t map[EVAL_STRIP];
  bool marks = x->marks && tracked(m);
  EvalResult r = eval_place_lanes(a, x, m, l, marks ? map : NULL);
  if (r == EVAL_OK)
    r = hooks(a, m, l, true);
  if (r != EVAL_OK)
    return r;
  if (!l.on && !marks) {
    eval_mem_put(m, a->offsets, l.n, src, a->scratch);
    return EVAL_OK;
  }
  size_t size = dtype_compute_size(m->dtype);
  for (int i = 0; i < l.n; i++) {
    if (l.on && !l.on[i])
      continue;
    if (marks) {
      eval_mem_begin_map(m);
      mark(m, map[i]);
    }
    eval_mem_scatter(m, a->offsets[i], 1, src + (size_t)i * size, 1);
  }
  return EVAL_OK;
}

/* ---------------------------------------------------------------- one element */

/* At thread level a uniform address is accessed by every lane that takes part. */
static EvalResult hooks_one(EvalAgent *a, const EvalInsn *in, const EvalMem *m, int64_t at,
                            bool write) {
  if (a->block->program->kernel->level != IR_THREAD)
    return EVAL_OK;
  for (int i = 0; i < EVAL_WARP; i++)
    a->offsets[i] = at;
  return hooks(a, m, eval_lanes_of(a, in), write);
}

/* Outside a MAP, or where no index depends on the lane. */
static EvalResult load_one(EvalAgent *a, const EvalInsn *in, const EvalAccess *x, EvalMem *m) {
  int64_t at, map;
  EvalResult r = eval_place_one(a, x, m, &at, &map);
  if (r == EVAL_OK)
    r = hooks_one(a, in, m, at, false);
  if (r != EVAL_OK)
    return r;
  if (tracked(m) && (m->state == WRITTEN_NONE || !m->map[map]))
    return fault_unwritten(a, m, map);
  eval_mem_gather(m, at, 1, machine_reg(a, in->dst), 1);
  return EVAL_OK;
}

/* The counterpart of load_one. */
static EvalResult store_one(EvalAgent *a, const EvalInsn *in, const EvalAccess *x, EvalMem *m) {
  int64_t at, map;
  EvalResult r = eval_place_one(a, x, m, &at, &map);
  if (r == EVAL_OK)
    r = hooks_one(a, in, m, at, true);
  if (r != EVAL_OK)
    return r;
  if (x->marks && tracked(m)) {
    eval_mem_begin_map(m);
    mark(m, map);
  }
  eval_mem_scatter(m, at, 1, machine_reg(a, x->value), 1);
  return EVAL_OK;
}

/* ---------------------------------------------------------------- instructions */

/* The quick way needs affine coordinates whose corners are inside; a tile whose strip lies in one
 * piece is not even copied: the register then points into it. */
EvalResult eval_access_load(EvalAgent *a, const EvalInsn *in) {
  const EvalAccess *x = in->as.data;
  EvalMem *m = &a->block->mem[x->buf];
  if (a->block->races && eval_races_access(a, in, x, m, RACE_READ) != EVAL_OK)
    return EVAL_FAULTED;
  if (!x->lanes)
    return load_one(a, in, x, m);
  if (x->in_place)
    a->reg[in->dst] = a->frame + a->block->program->home[in->dst];
  char *dst = machine_reg(a, in->dst);
  Lanes l = eval_lanes_of(a, in);
  Place data, map;
  bool thread = a->block->program->kernel->level == IR_THREAD;
  if (thread || !eval_place_strip(a, x, m, &data, &map))
    return load_lanes(a, x, m, dst, l);
  if (tracked(m)) {
    EvalResult r = check_strip(a, m, &map, l);
    if (r != EVAL_OK)
      return r;
  }
  if (x->in_place && !mem_packed(m)) {
    Rows r = rows_of(a->map, &data);
    if (r.count == 1 && r.stride == 1) {
      a->reg[in->dst] = eval_mem_at(m, data.at);
      return EVAL_OK;
    }
  }
  load_rows(a->map, m, &data, dst);
  return EVAL_OK;
}

/* All lanes store to one element: the last that takes part stays. */
static EvalResult store_same(EvalAgent *a, const EvalAccess *x, EvalMem *m, Lanes l) {
  int last = l.n - 1;
  while (l.on && last >= 0 && !l.on[last])
    last--;
  int64_t at, map;
  EvalResult r = last < 0 ? EVAL_OK : eval_place_one(a, x, m, &at, &map);
  if (last < 0 || r != EVAL_OK)
    return r;
  if (x->marks && tracked(m)) {
    eval_mem_begin_map(m);
    mark(m, map);
  }
  const char *src = machine_reg(a, x->value);
  eval_mem_scatter(m, at, 1, src + (size_t)last * dtype_compute_size(m->dtype), 1);
  return EVAL_OK;
}

/* Marks before it writes: a fault in between cannot happen, the strip was placed. */
EvalResult eval_access_store(EvalAgent *a, const EvalInsn *in) {
  const EvalAccess *x = in->as.data;
  EvalMem *m = &a->block->mem[x->buf];
  a->effects++;
  if (a->block->races && eval_races_access(a, in, x, m, RACE_WRITE) != EVAL_OK)
    return EVAL_FAULTED;
  if (!x->lanes)
    return store_one(a, in, x, m);
  const char *src = machine_reg(a, x->value);
  Lanes l = eval_lanes_of(a, in);
  Place data, map;
  bool thread = a->block->program->kernel->level == IR_THREAD;
  if (!thread && !x->vector)
    return store_same(a, x, m, l);
  if (thread || !eval_place_strip(a, x, m, &data, &map))
    return store_lanes(a, x, m, src, l);
  if (x->marks && tracked(m))
    mark_strip(a, m, &map, l);
  if (l.on)
    store_masked(a, m, &data, src, l);
  else
    store_rows(a->map, m, &data, src);
  return EVAL_OK;
}

/* ---------------------------------------------------------------- atomics */

/* value, expected and old are lanes, or single elements at block level. */
static EvalResult atomic_lane(EvalAgent *a, const EvalInsn *in, const EvalAccess *x, EvalMem *m,
                              int lane, int64_t at) {
  size_t size = x->lanes ? dtype_compute_size(m->dtype) : 0;
  size_t offset = (size_t)lane * size;
  const char *value = machine_reg(a, x->value);
  const char *expected = x->expected ? machine_reg(a, x->expected) : NULL;
  char *old = x->old ? machine_reg(a, x->old) : NULL;
  uint64_t room;
  const void *v = value + offset;
  if (a->block->noise)
    v = eval_noise_atomic(a, in->op, m, eval_mem_at(m, at), v, &room);
  eval_atomic_apply(in->op, x->combine[a->block->isa], m->dtype, m->stored, eval_mem_at(m, at), v,
                    expected ? expected + offset : NULL, old ? old + offset : NULL);
  return EVAL_OK;
}

/* An atomic reads: its element must have been written. */
static EvalResult atomic_ready(EvalAgent *a, EvalMem *m, int64_t map) {
  if (!tracked(m) || (m->state == WRITTEN_PARTLY && m->map[map]))
    return EVAL_OK;
  return fault_unwritten(a, m, map);
}

/* Lanes take their turns in order, so that a block by itself is deterministic. */
EvalResult eval_access_atomic(EvalAgent *a, const EvalInsn *in) {
  const EvalAccess *x = in->as.data;
  EvalMem *m = &a->block->mem[x->buf];
  a->effects++;
  if (a->block->races && eval_races_access(a, in, x, m, RACE_ATOMIC) != EVAL_OK)
    return EVAL_FAULTED;
  if (!x->lanes) {
    int64_t at, map;
    EvalResult r = eval_place_one(a, x, m, &at, &map);
    if (r == EVAL_OK)
      r = atomic_ready(a, m, map);
    return r == EVAL_OK ? atomic_lane(a, in, x, m, 0, at) : r;
  }
  int64_t map[EVAL_STRIP];
  Lanes l = eval_lanes_of(a, in);
  EvalResult r = eval_place_lanes(a, x, m, l, map);
  if (r == EVAL_OK)
    r = hooks(a, m, l, true);
  for (int i = 0; r == EVAL_OK && i < l.n; i++) {
    if (l.on && !l.on[i])
      continue;
    r = atomic_ready(a, m, map[i]);
    if (r == EVAL_OK)
      r = atomic_lane(a, in, x, m, i, a->offsets[i]);
  }
  return r;
}
