/* variant.c: a specialisation lowered for a target and for what is known of a call's tensors.
 *
 * In: a launch with everything bound. Out: its thread-level kernel, made once for equal targets and
 * equal facts (unit-stride axis, alignment, 32-bit offsets), and the notes of what was chosen. A
 * cubin that the gate refuses moves the variant on to the next schedule. Tests: tests/lower,
 * tests/lang/param_views.tile.
 */
#include <string.h>

#include "device.h"

/* Bytes: the greatest power of two up to 16 that divides n. */
static uint8_t power_of(uint64_t n) {
  return (uint8_t)(n % 16 ? n & (0 - n) : 16);
}

/* The last axis of stride 1, since that is the innermost of a row-major tensor with extents of 1.
 * Views that run backwards or repeat elements are left to the general code: no copy engine takes
 * them. */
LowerFact tensor_fact(const Tensor *t) {
  LowerFact f = {.unit_axis = -1, .align = 1};
  int64_t least, most, size = (int64_t)dtype_size(t->dtype);
  f.index32 = tensor_reach(t, &least, &most) && least > INT32_MIN && most < INT32_MAX;
  for (int i = 0; i < t->rank; i++) {
    if (t->extent[i] > 1 && t->stride[i] <= 0)
      return f;
    if (t->stride[i] == 1)
      f.unit_axis = (int8_t)i;
  }
  uint64_t bits = (uint64_t)(t->offset * size);
  if (storage_on_host(t->storage)) /* a mapped file may begin anywhere */
    bits |= (uint64_t)(uintptr_t)tensor_storage_data(t) & 15;
  for (int i = 0; i < t->rank; i++)
    if (i != f.unit_axis)
      bits |= (uint64_t)(t->stride[i] * size);
  f.align = power_of(bits);
  return f;
}

/* By id of the kernel's buffers. */
static LowerFact *facts_of(const Launch *l, Arena *a) {
  LowerFact *f = ARENA_ARRAY(a, LowerFact, l->ir->buffers.n);
  for (size_t i = 0; i < l->ir->buffers.n; i++)
    f[i] = (LowerFact){.unit_axis = -1, .align = 1};
  for (size_t i = 0; i < l->n; i++)
    if (l->tensor[i])
      f[l->ir->params.v[i].buf->id] = launch_fact(l, i);
  return f;
}

static bool same_facts(const LowerFact *a, const LowerFact *b, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (a[i].unit_axis != b[i].unit_axis || a[i].align != b[i].align ||
        a[i].index32 != b[i].index32)
      return false;
  return true;
}

/* Rounded up to whole clusters. Without arguments nothing is known: one that fits. */
static LowerGrid grid_of(const Launch *l) {
  enum { MOST = 65535 };
  if (!l->b)
    return LOWER_GRID_FITS;
  int64_t all = 1;
  bool longs = false;
  for (int i = 0; i < l->ir->grid_rank; i++) {
    int64_t n = l->b->grid[i], c = l->ir->cluster[i] > 1 ? l->ir->cluster[i] : 1;
    longs |= i > 0 && n > MOST / c * c;
    if (n < 0 || n > INT32_MAX || all * n + c > LOWER_MOST_BLOCKS)
      return LOWER_GRID_HUGE;
    all *= n ? n : 1;
  }
  return longs ? LOWER_GRID_LONG : LOWER_GRID_FITS;
}

/* Found or made; nothing is lowered yet. */
Variant *launch_variant(Launch *l) {
  const Target *target = session_target(l->s);
  const SessionGpu *device = l->s->gpu && l->s->gpu->gpu ? l->s->gpu : NULL;
  size_t n = l->ir->buffers.n;
  LowerFact *fact = facts_of(l, session_scratch(l->s));
  LowerGrid grid = grid_of(l);
  for (Variant *v = l->spec->variants; v; v = v->next)
    if (v->target == target && (v->device == device || !v->gpu) && v->grid == grid &&
        same_facts(v->fact, fact, n)) {
      v->device = device;
      return v;
    }
  Variant *v = ARENA_NEW(spec_arena(l), Variant);
  v->target = target;
  v->device = device;
  v->grid = grid;
  v->fact = ARENA_ARRAY(spec_arena(l), LowerFact, n);
  if (n)
    memcpy(v->fact, fact, n * sizeof *fact);
  v->notes.arena = spec_arena(l);
  v->next = l->spec->variants;
  l->spec->variants = v;
  return v;
}

/* Without a hook. */
LowerRequest variant_request(Variant *v) {
  return (LowerRequest){.target = v->target,
                        .fact = v->fact,
                        .candidate = v->candidate,
                        .last = &v->last,
                        .notes = &v->notes,
                        .grid = v->grid};
}

const IrKernel *variant_thread(Launch *l, Variant *v, DiagSink *sink) {
  if (l->ir->level == IR_THREAD)
    return l->ir;
  LowerRequest r = variant_request(v);
  double start = base_now();
  if (!v->thread)
    v->thread = lower_to(spec_arena(l), l->ir, IR_THREAD, &r, sink);
  l->s->times.compile += base_now() - start;
  return v->thread;
}

/* Lowering may fail where a construct is not there yet: the caller's sink says why. */
const IrKernel *launch_thread(Launch *l, DiagSink *sink) {
  return variant_thread(l, launch_variant(l), sink);
}

/* The notes stay: they say why the better schedule is not the one that runs. */
void variant_next(Variant *v) {
  v->candidate++;
  v->thread = NULL;
  v->text = NULL;
  v->program = NULL;
}
