/* thread_tma.c: the copy engine: tensor maps, loads and stores of boxes, groups of bulk stores.
 *
 * In: a tensor map (the hardware's own fields), coordinates, a place in shared memory. Out: the box
 * there or back, swizzled as the hardware does it, zero outside the tensor; bytes counted by the
 * mbarrier, always the whole box. The data move at issue; a load counts as arrived when the
 * scheduler says so, a store as read when its thread waits for its group. Rules: CUDA driver API,
 * cuTensorMapEncodeTiled; PTX ISA, cp.async.bulk.tensor. Tests: tests/unit/check_thread.c.
 */
#include <string.h>

#include "thread_device.h"

/* ---------------------------------------------------------------- tensor maps */

/* Views have strides: what lies between the first and the last element is taken as the tensor's. */
bool eval_global_inside(const EvalMem *mem, int64_t first, int64_t n) {
  int64_t last = 0;
  for (int i = 0; i < mem->rank; i++) {
    if (mem->extent[i] == 0)
      return false;
    last += (mem->extent[i] - 1) * mem->stride[i];
  }
  return first >= 0 && first <= last && n >= 1 && n - 1 <= last - first;
}

/* All rules of a map are reported alike: map, tensor, rule, and the value that breaks it. */
static EvalResult fault_map(EvalAgent *a, const EvalTmap *t, const char *rule, int64_t value) {
  return eval_fault(a, E0471, "the tensor map %s of %s: %s, not %lld", t->ir->name,
                    t->mem->buf->name, rule, (long long)value);
}

/* The bounds of cuTensorMapEncodeTiled, axis by axis; but for an extent of 0, for which the
 * launcher has a map that shows nothing (gpu_tmap_encode). */
static EvalResult check_axis(EvalAgent *a, const EvalTmap *t, int d) {
  if (t->dim[d] < 0 || t->dim[d] > (INT64_C(1) << 32))
    return fault_map(a, t, "an extent is at most 2^32", t->dim[d]);
  if (t->ir->box[d] < 1 || t->ir->box[d] > 256)
    return fault_map(a, t, "a box has 1 to 256 elements an axis", t->ir->box[d]);
  if (d && (t->stride[d] % 16 || t->stride[d] < 0 || t->stride[d] >= (INT64_C(1) << 40)))
    return fault_map(a, t, "a stride is a multiple of 16 bytes below 2^40", t->stride[d]);
  return EVAL_OK;
}

/* Once a block: what cuTensorMapEncodeTiled refuses, and maps that leave their tensor. */
static EvalResult check_map(EvalAgent *a, const EvalTmap *t) {
  DevBlock *b = dev_block(a);
  if (b->tmap_checked[t->ir->id])
    return EVAL_OK;
  int64_t size = t->stride[0], inner = t->ir->box[0] * size, last = 0, more;
  bool far = false, empty = false;
  for (int d = 0; d < t->ir->rank; d++) {
    EvalResult r = check_axis(a, t, d);
    if (r != EVAL_OK)
      return r;
    empty = empty || t->dim[d] == 0;
    far = far || __builtin_mul_overflow(t->dim[d] - 1, t->stride[d], &more) ||
          __builtin_add_overflow(last, more, &last);
  }
  if (!empty && (uintptr_t)t->mem->data % 16)
    return fault_map(a, t, "the address is a multiple of 16",
                     (int64_t)((uintptr_t)t->mem->data % 16));
  if (inner % 16)
    return fault_map(a, t, "the innermost axis of a box is a multiple of 16 bytes", inner);
  if (t->ir->swizzle && inner > t->ir->swizzle)
    return fault_map(a, t, "the innermost axis of a box is within the swizzle's span", inner);
  if (!empty && (far || last % size || !eval_global_inside(t->mem, last / size, 1)))
    return fault_map(a, t, "the last element lies within the tensor", last / size);
  b->tmap_checked[t->ir->id] = true;
  return EVAL_OK;
}

/* ---------------------------------------------------------------- boxes */

/* A box as one lane asks for it; refuses what the hardware would: place, alignment, number of
 * axes. */
static EvalResult make_box(EvalAgent *a, const EvalTmap *t, int64_t shared, const EvalOperand *at,
                           int n, int lane, Box *x) {
  EvalResult r = check_map(a, t);
  if (r != EVAL_OK)
    return r;
  if (n != t->ir->rank)
    return eval_fault(a, E0471, "%d coordinates for the tensor map %s of %d axes", n, t->ir->name,
                      t->ir->rank);
  *x = (Box){.map = t, .shared = shared, .size = t->stride[0], .rows = 1};
  x->inner = t->ir->box[0] * x->size;
  for (int d = 0; d < n; d++) {
    x->at[d] = eval_operand_int(&at[d], lane);
    if (x->at[d] != (int32_t)x->at[d])
      return eval_fault(a, E0471, "the coordinate %lld does not fit 32 bits", (long long)x->at[d]);
    x->rows *= d ? t->ir->box[d] : 1;
  }
  x->bits = t->ir->swizzle / 16 - 1;
  x->bits = x->bits < 0 ? 0 : x->bits;
  int64_t pattern = t->ir->swizzle * 8;
  return eval_shared_place(a, shared, x->inner * x->rows, pattern < 128 ? 128 : pattern);
}

/* Where a chunk of 16 bytes lies: offset bits 4… are XORed with bits 7…. */
static int64_t chunk_place(const Box *x, int64_t row, int64_t chunk) {
  int64_t at = x->shared + row * x->inner + chunk * 16;
  return at ^ (at >> 7 & x->bits) << 4;
}

/* The row's coordinates beyond the innermost: bytes from the tensor's start, and whether inside. */
static int64_t row_offset(const Box *x, int64_t row, bool *inside, int64_t coordinate[5]) {
  int64_t offset = 0;
  *inside = true;
  for (int d = 1; d < x->map->ir->rank; d++) {
    int64_t c = x->at[d] + row % x->map->ir->box[d];
    row /= x->map->ir->box[d];
    coordinate[d] = c;
    *inside = *inside && c >= 0 && c < x->map->dim[d];
    offset += c * x->map->stride[d];
  }
  return offset;
}

/* ---------------------------------------------------------------- loads */

/* Elements outside read as zero. */
static void load_chunk(const Box *x, char *to, int64_t offset, int64_t c, bool inside) {
  const char *data = x->map->mem->data;
  int64_t n = 16 / x->size;
  if (inside && c >= 0 && c + n <= x->map->dim[0]) {
    memcpy(to, data + offset, 16);
    return;
  }
  memset(to, 0, 16);
  for (int64_t i = 0; inside && i < n; i++)
    if (c + i >= 0 && c + i < x->map->dim[0])
      memcpy(to + i * x->size, data + offset + i * x->size, (size_t)x->size);
}

/* The swizzle changes bits 4 to 6 by bits 7 to 9, which it leaves alone: doing it again undoes
 * it. */
int64_t eval_box_coordinate(const Box *x, int64_t granule, bool second) {
  int64_t at = granule * GRANULE, c[5] = {0};
  bool inside;
  at = (at ^ (at >> 7 & x->bits) << 4) - x->shared;
  row_offset(x, at / x->inner, &inside, c);
  if (second)
    return c[1];
  int64_t sum = x->at[0] + at % x->inner / x->size;
  for (int d = 2; d < x->map->ir->rank; d++)
    if (x->map->stride[d] < x->map->stride[1])
      sum += c[d] * (x->map->stride[d] / x->size);
  return sum;
}

/* Only the latest loads are remembered; a granule of an older one has lost its origin. */
const Record *eval_load_record(const DevBlock *d, const Granule *g) {
  const Record *r = &d->record[g->load % RECORDS];
  return g->source && r->serial == g->load ? r : NULL;
}

/* Rows lie far apart: the cache is told of the one 8 rows on. */
static void fetch_ahead(const Box *x, int64_t offset, int64_t row) {
  if (x->map->ir->rank < 2 || row % x->map->ir->box[1] + 8 >= x->map->ir->box[1])
    return;
  uintptr_t at = (uintptr_t)x->map->mem->data + (uintptr_t)(offset + 8 * x->map->stride[1]);
  __builtin_prefetch((const void *)at);
  __builtin_prefetch((const void *)(at + 64));
}

/* One row of the box. */
static EvalResult load_row(EvalAgent *a, const Box *x, int64_t row, Stamp s, Alike *last) {
  DevBlock *d = dev_block(a);
  bool inside;
  int64_t c[5] = {0};
  int64_t offset = row_offset(x, row, &inside, c) + x->at[0] * x->size;
  int64_t each = 16 / x->size, origin = (offset - (offset & 15)) / 16;
  uint8_t source = (uint8_t)(x->map->ir->id + 1);
  fetch_ahead(x, offset, row);
  for (int64_t i = 0; i < x->inner / 16; i++) {
    int64_t at = chunk_place(x, row, i);
    load_chunk(x, (char *)a->block->shared + at, offset + i * 16, x->at[0] + i * each, inside);
    if (!d->check)
      continue;
    EvalResult r = eval_shadow_fill(a, (uint32_t)(at / GRANULE), s, last);
    if (r != EVAL_OK)
      return r;
    Granule *g = &d->granule[at / GRANULE];
    g->source = source;
    g->load = d->serial;
    g->origin = (int32_t)(origin + i);
  }
  return EVAL_OK;
}

/* Row by row; rows outside the tensor are zeros and count their bytes all the same. */
static EvalResult load_box(EvalAgent *a, const Box *x, Stamp s) {
  DevBlock *d = dev_block(a);
  Alike last = {.flags = GR_WORDS};
  d->serial++;
  d->record[d->serial % RECORDS] = (Record){*x, d->serial, a->pc};
  for (int64_t row = 0; row < x->rows; row++)
    if (load_row(a, x, row, s, &last) != EVAL_OK)
      return EVAL_FAULTED;
  return EVAL_OK;
}

/* A load's bytes arrive at its barrier. */
static EvalResult arrived(EvalBlock *b, const Load *l) {
  DevBlock *d = b->device;
  Mbar *m = &d->mbar[l->mbar];
  EvalAgent *a = &b->agent[l->warp];
  if (d->check && m->phase != l->phase)
    return eval_fault_at(a, l->pc, E0469,
                         "the %lld bytes of this load arrive at the mbarrier at "
                         "%u after the phase in which it was issued has ended",
                         (long long)l->bytes, m->address);
  m->loads--;
  m->under_way -= l->bytes;
  m->bytes -= l->bytes;
  return eval_mbar_settle(a, m, l->pc);
}

/* The scheduler lets loads arrive when no agent can run, so a program that forgot a wait is seen
 * to read too early in every run; shaken, they arrive out of order, as they may. */
bool eval_load_complete(EvalBlock *b) {
  DevBlock *d = b->device;
  uint32_t n = d->load_end - d->load_first, i = 0;
  if (!n)
    return false;
  if (b->random) {
    b->random = b->random * 6364136223846793005u + 1442695040888963407u;
    i = (uint32_t)(b->random >> 33) % n;
  }
  Load *first = &d->load[d->load_first % LOADS], *chosen = &d->load[(d->load_first + i) % LOADS];
  Load l = *chosen;
  *chosen = *first;
  d->load_first++;
  arrived(b, &l);
  return true;
}

/* Checked, moved, and noted as under way: only its arrival at the barrier comes later. */
static EvalResult load(EvalAgent *a, const EvalOperand *o, int n, int lane) {
  DevBlock *d = dev_block(a);
  Box x;
  Mbar *m = eval_mbar_find(a, eval_operand_int(&o[2], lane));
  if (!m)
    return EVAL_FAULTED;
  if (d->check && !m->fenced)
    return eval_fault(a, E0469,
                      "the mbarrier at %u counts a load, and no mbar_fence_init made its "
                      "initialisation visible to the copy engine",
                      m->address);
  EvalResult r = make_box(a, o[1].tmap, eval_operand_int(&o[0], lane), &o[3], n - 3, lane, &x);
  if (r != EVAL_OK)
    return r;
  int number = (int)(m - d->mbar);
  r = load_box(a, &x, stamp(COMP_MBAR + number, m->phase + 1));
  if (r != EVAL_OK)
    return r;
  if (d->load_end - d->load_first == LOADS && !eval_load_complete(a->block))
    return EVAL_FAULTED;
  Load l = {
      .mbar = number, .warp = a->id, .bytes = x.inner * x.rows, .phase = m->phase, .pc = a->pc};
  d->load[d->load_end++ % LOADS] = l;
  m->loads++;
  m->under_way += l.bytes;
  return a->block->fault.set ? EVAL_FAULTED : EVAL_OK;
}

/* Each lane that takes part issues a load of its own: forgetting to elect one lane is seen by
 * the barrier, which gets 32 times the bytes. */
EVAL_ROW(tma_load) {
  for (int i = 0; i < EVAL_WARP; i++)
    if (eval_lane_on(a, i) && load(a, o, n, i) != EVAL_OK)
      return EVAL_FAULTED;
  return EVAL_OK;
}

/* ---------------------------------------------------------------- stores */

/* The row-major number of the element at a memory offset. */
static int64_t map_element(const EvalMem *m, int64_t offset) {
  int64_t e = 0;
  bool used[IR_MAX_RANK] = {false};
  for (int k = 0; k < m->rank; k++) {
    int widest = -1;
    for (int i = 0; i < m->rank; i++)
      if (!used[i] && (widest < 0 || m->stride[i] > m->stride[widest]))
        widest = i;
    used[widest] = true;
    int64_t s = m->stride[widest], i = s > 0 && m->extent[widest] > 1 ? offset / s : 0;
    offset -= i * s;
    e += i * m->map_stride[widest];
  }
  return e;
}

/* Then memory order is row-major order, and `written` is indexed by the offset alone. */
static bool is_contiguous(const EvalMem *m) {
  for (int i = 0; i < m->rank; i++)
    if (m->stride[i] != m->map_stride[i] && m->extent[i] != 1)
      return false;
  return true;
}

/* Of an output: whether some thread or store wrote the element in this launch. */
bool eval_global_written(const EvalMem *m, int64_t element) {
  return !m->map || m->map[is_contiguous(m) ? element : map_element(m, element)];
}

/* Blocks run on several workers, and a fault may mark one byte from two of them: hence atomic. */
bool eval_mark_global(const EvalMem *m, int64_t element, int64_t n, bool bulk) {
  bool once = true;
  if (!m->map)
    return true;
  bool contiguous = is_contiguous(m);
  for (int64_t i = 0; i < n; i++) {
    uint8_t *at = &m->map[contiguous ? element + i : map_element(m, element + i)];
    uint8_t old = __atomic_exchange_n(at, bulk ? 2 : 1, __ATOMIC_RELAXED);
    once = once && !(bulk && old == 2);
  }
  return once;
}

/* Only the part inside the tensor is written, and marked. */
static EvalResult store_chunk(EvalAgent *a, const Box *x, const char *from, int64_t offset,
                              int64_t c) {
  char *data = x->map->mem->data;
  int64_t n = 16 / x->size, end = x->map->dim[0];
  int64_t lo = c < 0 ? -c : 0, hi = c + n > end ? end - c : n;
  if (lo >= hi)
    return EVAL_OK;
  memcpy(data + offset + lo * x->size, from + lo * x->size, (size_t)((hi - lo) * x->size));
  if (eval_mark_global(x->map->mem, offset / x->size + lo, hi - lo, true) || !dev_block(a)->check)
    return EVAL_OK;
  char name[200];
  eval_mem_name(x->map->mem, map_element(x->map->mem, offset / x->size + lo), name, sizeof name);
  return eval_fault(a, E0475, "%s is stored by a second bulk store of this launch", name);
}

/* Chunks that lie outside as a whole are not looked at: nothing comes of what they hold. */
static EvalResult store_row(EvalAgent *a, const Box *x, int64_t row, Stamp s) {
  bool inside;
  int64_t c[5] = {0};
  int64_t offset = row_offset(x, row, &inside, c) + x->at[0] * x->size, each = 16 / x->size;
  for (int64_t i = 0; inside && i < x->inner / 16; i++) {
    int64_t at = chunk_place(x, row, i), first = x->at[0] + i * each;
    if (first >= x->map->dim[0])
      break;
    EvalResult r = EVAL_OK;
    if (dev_block(a)->check)
      r = eval_shadow_engine_read(a, (uint32_t)(at / GRANULE), s, "a bulk store");
    if (r == EVAL_OK)
      r = store_chunk(a, x, (const char *)a->block->shared + at, offset + i * 16, first);
    if (r != EVAL_OK)
      return r;
  }
  return EVAL_OK;
}

static EvalResult store_box(EvalAgent *a, const Box *x, Stamp s) {
  for (int64_t row = 0; row < x->rows; row++)
    if (store_row(a, x, row, s) != EVAL_OK)
      return EVAL_FAULTED;
  return EVAL_OK;
}

/* Reading shared memory counts as going on until the thread's wait covers the group. */
static EvalResult store(EvalAgent *a, const EvalOperand *o, int n, int lane) {
  DevBlock *d = dev_block(a);
  DevWarp *w = dev_warp(a);
  Box x;
  EvalResult r = make_box(a, o[0].tmap, eval_operand_int(&o[1], lane), &o[2], n - 2, lane, &x);
  for (int i = 0; r == EVAL_OK && i < n - 2; i++)
    if (x.at[i] < 0)
      r = eval_fault(a, E0471, "a bulk store begins at the negative coordinate %lld of axis %d",
                     (long long)x.at[i], i);
  if (r == EVAL_OK)
    r = store_box(a, &x, stamp(COMP_BULK + a->id, ++w->bulk_time));
  if (r != EVAL_OK)
    return r;
  if (d->nstores == STORES)
    return eval_fault(a, E0477, "%d bulk stores whose reading nobody waited for", STORES);
  d->store[d->nstores++] = (Store){.warp = a->id, .lane = lane, .time = w->bulk_time, .pc = a->pc};
  return EVAL_OK;
}

EVAL_ROW(tma_store) {
  for (int i = 0; i < EVAL_WARP; i++)
    if (eval_lane_on(a, i) && store(a, o, n, i) != EVAL_OK)
      return EVAL_FAULTED;
  return EVAL_OK;
}

/* Groups belong to threads: another lane's commit or wait does nothing for this one's stores. */
EVAL_ROW(bulk_commit) {
  DevBlock *d = dev_block(a);
  DevWarp *w = dev_warp(a);
  (void)o, (void)n;
  for (int i = 0; i < EVAL_WARP; i++) {
    if (!eval_lane_on(a, i))
      continue;
    w->bulk_group[i]++;
    for (int k = 0; k < d->nstores; k++)
      if (d->store[k].warp == a->id && d->store[k].lane == i && !d->store[k].group)
        d->store[k].group = w->bulk_group[i];
  }
  return EVAL_OK;
}

/* Stores of the lane's groups but the last `keep` are read; what is then certain of the warp's
 * stores, in their order, is what it knows. */
EVAL_ROW(bulk_wait) {
  DevBlock *d = dev_block(a);
  DevWarp *w = dev_warp(a);
  uint32_t keep = (uint32_t)o[0].imm, sure = w->bulk_time;
  int kept = 0;
  (void)n;
  for (int k = 0; k < d->nstores; k++) {
    Store *s = &d->store[k];
    bool mine = s->warp == a->id && eval_lane_on(a, s->lane);
    if (mine && s->group && s->group + keep <= w->bulk_group[s->lane])
      continue;
    if (s->warp == a->id && s->time <= sure)
      sure = s->time - 1;
    d->store[kept++] = *s;
  }
  d->nstores = kept;
  clock_learn(&w->clock, stamp(COMP_BULK + a->id, sure));
  return EVAL_OK;
}
