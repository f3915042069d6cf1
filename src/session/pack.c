/* pack.c: the arguments of a lowered kernel: the launch's, scratch that lowering added, and packed
 * copies of what products read.
 *
 * In: a bound launch. Out: which of its tensors are read through a copy whose rows begin at
 * multiples of 128 bytes, those copies on the host or the device, and bindings of lowered kernels.
 * A tensor whose rows or first element do not lie at multiples of 16 bytes can be loaded only
 * element by element; where a product reads it often, a copy costs less than that, and the tensor
 * memory accelerator takes it. Always holds: only inputs are copied, after everything that was
 * queued before the launch; who asks for the tensor sees the tensor. Tests: tests/gpu/packed.tile,
 * tests/lower/packed.tile.
 */
#include <string.h>

#include "device.h"

enum { PACK_BYTES = 128, BULK_BYTES = 16, MOST_COPIES = 64, MOST_PITCH = INT32_MAX };
/* Seconds: of an operation of a product whose operands come by elements, above one by bulk copies
 * (90 and 600 TFLOP/s); of a byte that is copied; of starting a copy. */
static const double slower = 1 / 90e12 - 1 / 600e12, copied_byte = 2 / 1.5e12, copy_start = 4e-6;
static const int64_t most_bytes = (int64_t)4 << 30;

/* ---------------------------------------------------------------- layout of a copy */

/* Axes from the innermost on: the one of stride 1, then by strides. */
static void order_axes(const Tensor *t, int unit, int *axis) {
  int n = 0;
  axis[n++] = unit;
  for (int d = t->rank - 1; d >= 0; d--) {
    int at = n;
    if (d == unit)
      continue;
    for (; at > 1 && t->stride[axis[at - 1]] > t->stride[d]; at--)
      axis[at] = axis[at - 1];
    axis[at] = d;
    n++;
  }
}

typedef struct Packing {
  int64_t stride[TENSOR_MAX_RANK]; /* of the copy, elements */
  int64_t elements;                /* of its room */
  int64_t wide;                    /* from row to row */
  int64_t rows, pitch;             /* of one copy of rows, and from row to row of the tensor */
  int64_t copies, from, to;        /* so many, so far apart in the tensor and in the copy */
} Packing;

/* FALSE: not so few rectangles, or rows further apart than the driver's copies take. unit: its axis
 * of stride 1; strides are positive. */
static bool packing_of(const Tensor *t, int unit, Packing *p) {
  int axis[TENSOR_MAX_RANK], d = 1;
  int64_t unit_bytes = (int64_t)dtype_size(t->dtype), row = PACK_BYTES / unit_bytes;
  order_axes(t, unit, axis);
  *p = (Packing){.wide = (t->extent[unit] + row - 1) / row * row, .rows = 1, .copies = 1};
  p->elements = p->wide;
  p->stride[unit] = 1;
  p->pitch = t->rank > 1 ? t->stride[axis[1]] : 1;
  for (int i = 1; i < t->rank; i++) {
    p->stride[axis[i]] = p->elements;
    p->elements *= t->extent[axis[i]];
  }
  for (; d < t->rank && t->stride[axis[d]] == p->rows * p->pitch; d++)
    p->rows *= t->extent[axis[d]];
  if (d < t->rank) {
    p->copies = t->extent[axis[d]];
    p->from = t->stride[axis[d]];
    p->to = p->stride[axis[d]];
  }
  return d + 1 >= t->rank && p->copies <= MOST_COPIES && t->extent[unit] <= p->pitch &&
         p->pitch <= MOST_PITCH / unit_bytes && p->wide <= MOST_PITCH / unit_bytes;
}

/* What is known of the copy. */
static LowerFact packed_fact(LowerFact f) {
  f.align = BULK_BYTES;
  return f;
}

/* ---------------------------------------------------------------- which tensors */

typedef struct Reader {
  const IrBuffer *buf;
  bool found;
} Reader;

static bool see_load(IrStmt *s, void *ctx) {
  Reader *r = ctx;
  r->found |= s->kind == IRK_COPY && s->as.copy.src.buf == r->buf &&
              s->as.copy.dst.buf->space == IRS_SHARED;
  return !r->found;
}

static bool loads_tiles(const Launch *l, const IrBuffer *b) {
  Reader r = {.buf = b};
  ir_walk((IrBlock *)(uintptr_t)&l->ir->body, see_load, &r);
  return r.found;
}

static bool may_pack(const Launch *l, size_t i, Packing *p) {
  const IrBuffer *b = l->ir->params.v[i].buf;
  const Tensor *t = l->tensor[i];
  if (!t || b->role != IRR_IN || t->rank < 2 || tensor_count(t) == 0)
    return false;
  LowerFact f = tensor_fact(t);
  return f.unit_axis >= 0 && f.align < BULK_BYTES && f.index32 && packing_of(t, f.unit_axis, p) &&
         p->elements < INT32_MAX && p->elements * (int64_t)dtype_size(t->dtype) <= most_bytes &&
         loads_tiles(l, b);
}

void launch_pack(Launch *l) {
  LowerProduct product;
  Packing p;
  double cost = 0;
  if (session_target(l->s)->arch < ARCH_SM90A || l->ir->level != IR_TILE ||
      !lower_product(l->ir, &product) || !product.size)
    return;
  bool *pack = ARENA_ARRAY(session_scratch(l->s), bool, l->n);
  for (size_t i = 0; i < l->n; i++) {
    pack[i] = may_pack(l, i, &p);
    if (pack[i])
      cost += (double)p.copies * copy_start +
              (double)(p.elements * (int64_t)dtype_size(l->tensor[i]->dtype)) * copied_byte;
  }
  if (cost > 0 && launch_flops(l, false) * slower > cost) {
    l->pack = pack;
    l->packed = ARENA_ARRAY(session_scratch(l->s), Tensor *, l->n);
  }
}

LowerFact launch_fact(const Launch *l, size_t i) {
  LowerFact f = tensor_fact(l->tensor[i]);
  return l->pack && l->pack[i] ? packed_fact(f) : f;
}

/* ---------------------------------------------------------------- the copies */

static void find_packing(const Launch *l, size_t i, Packing *p) {
  packing_of(l->tensor[i], tensor_fact(l->tensor[i]).unit_axis, p);
}

/* On the host, for the evaluator: made anew for each run. */
static void pack_here(Launch *l, size_t i, IrTensorArg *a) {
  Session *s = l->s;
  Packing p;
  Str why = session_str(s);
  find_packing(l, i, &p);
  Tensor *room = session_tensor(s, l->tensor[i]->dtype, 1, &p.elements, TENSOR_ZERO, &why);
  room = host_new_tensor(s, room, &why, l->span).as.tensor;
  Tensor like = *l->tensor[i];
  memcpy(like.stride, p.stride, sizeof like.stride);
  Tensor *copy = host_new_tensor(s, tensor_laid_out(room, 0, &like, &why), &why, l->span).as.tensor;
  if (!tensor_copy(copy, launch_host_tensor(l, i), &why))
    host_fail(s, E0807, l->where[i], "%s", str_text(&why));
  a->data = tensor_data_write(copy);
}

void launch_pack_here(Launch *l, const IrKernel *k, IrBinding *b) {
  for (size_t i = 0; l->pack && k != l->ir && i < l->n; i++)
    if (l->pack[i])
      pack_here(l, i, &b->tensor[k->params.v[i].buf->id]);
}

void device_unpack(Launch *l) {
  for (size_t i = 0; l->pack && i < l->n; i++)
    if (l->packed[i])
      storage_set_device(l->packed[i]->storage, NULL, NULL, false);
}

void device_pack_not(Launch *l) {
  device_unpack(l);
  l->pack = NULL;
}

/* What makes a call faster must not make it fail. */
bool device_pack(Launch *l) {
  for (size_t i = 0; l->pack && i < l->n; i++) {
    Packing p;
    if (!l->pack[i])
      continue;
    find_packing(l, i, &p);
    l->packed[i] = device_tensor_if_room(l->s, l->tensor[i]->dtype, 1, &p.elements,
                                         l->ir->params.v[i].buf->name, l->where[i]);
    if (!l->packed[i]) {
      device_pack_not(l);
      return false;
    }
  }
  return true;
}

static Status copy_rows(Launch *l, size_t i) {
  const Tensor *t = l->tensor[i];
  Packing p;
  Status st = ST_OK;
  uint64_t size = (uint64_t)dtype_size(t->dtype);
  int unit = tensor_fact(t).unit_axis;
  packing_of(t, unit, &p);
  for (int64_t c = 0; c < p.copies && st == ST_OK; c++) {
    GpuRows to = {device_address(l->packed[i]) + (uint64_t)(c * p.to) * size,
                  (size_t)p.wide * size};
    GpuRows from = {device_address(t) + (uint64_t)(c * p.from) * size, (size_t)p.pitch * size};
    st = gpu_copy_rows(l->s->gpu->gpu, to, from, (size_t)t->extent[unit] * size, (size_t)p.rows);
  }
  return st;
}

Status device_pack_queue(Launch *l) {
  Status st = ST_OK;
  for (size_t i = 0; l->pack && i < l->n && st == ST_OK; i++)
    if (l->pack[i])
      st = copy_rows(l, i);
  return st;
}

/* ---------------------------------------------------------------- bindings of lowered kernels */

/* Parameters that lowering added: what had no room in shared memory. */
static void make_scratch(Launch *l, const IrKernel *k, IrBinding *b) {
  Session *s = l->s;
  Str why = session_str(s);
  l->nscratch = k->params.n - l->n;
  l->scratch = ARENA_ARRAY(session_scratch(s), Tensor *, l->nscratch);
  for (size_t i = 0; i < l->nscratch; i++) {
    const IrBuffer *buf = k->params.v[l->n + i].buf;
    IrTensorArg *a = &b->tensor[buf->id];
    Tensor *t = session_tensor(s, buf->dtype, buf->rank, a->extent, TENSOR_ZERO, &why);
    l->scratch[i] = host_new_tensor(s, t, &why, l->span).as.tensor;
    *a = tensor_arg(t);
    a->data = tensor_data_write(t);
  }
}

static void pack_strides(const Launch *l, size_t i, IrTensorArg *a) {
  Packing p;
  find_packing(l, i, &p);
  memcpy(a->stride, p.stride, sizeof *a->stride * (size_t)a->rank);
}

/* Binding of a lowered kernel: the same parameters in the same order, then scratch. */
IrBinding *launch_rebind(Launch *l, const IrKernel *k) {
  if (k == l->ir)
    return l->b;
  IrBinding *b = ir_binding_new(session_scratch(l->s), k);
  for (size_t i = 0; i < l->n && i < k->params.n; i++) {
    const IrParam *from = &l->ir->params.v[i], *to = &k->params.v[i];
    if (to->buf)
      b->tensor[to->buf->id] = l->b->tensor[from->buf->id];
    if (to->buf && l->pack && l->pack[i])
      pack_strides(l, i, &b->tensor[to->buf->id]);
    if (!to->buf)
      b->value[to->var->id] = l->b->value[from->var->id];
  }
  if (!ir_bind(k, b, session_sms(l->s), &l->s->diags))
    session_fail_at(l->s, l->span);
  make_scratch(l, k, b);
  return b;
}
