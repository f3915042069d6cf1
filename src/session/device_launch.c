/* device_launch.c: launches on the CUDA device.
 *
 * In: launches with everything bound. Out: queued launches, data moved where it must be; times of
 * repeated launches for bench. Tests: tests/gpu.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "device.h"

enum { MAX_QUEUED = 1024 }; /* calls remembered before the host waits by itself */

/* Moving data ------------------------------------------------------------------------------ */

/* Views share a device copy: theirs begins at an offset. */
GpuPtr device_address(const Tensor *t) {
  Buffer *b = storage_device_handle(t->storage);
  return b->p + (uint64_t)(t->offset * (int64_t)dtype_size(t->dtype));
}

/* NULL: memory is short, though Lua gave back what it no longer uses; gpu_why says how short. */
static Buffer *try_buffer(Session *s, size_t bytes, const char *name, Span where) {
  Gpu *gpu = s->gpu->gpu;
  Buffer *b = session_alloc(s, sizeof *b);
  b->g = s->gpu;
  b->bytes = bytes;
  Status status = gpu_alloc(gpu, bytes, name, &b->p);
  if (status == ST_NOMEM && session_collect(s))
    status = gpu_alloc(gpu, bytes, name, &b->p);
  if (status == ST_OK)
    return b;
  free(b);
  if (status != ST_NOMEM)
    device_failed(s, where);
  return NULL;
}

/* NULL: memory is short. */
static Buffer *room_for(Launch *l, Storage *storage, const char *name, Span where) {
  SessionGpu *g = l->s->gpu;
  Buffer *b = storage_device_handle(storage);
  if (b && b->g == g)
    return b; /* a copy on another device goes: the caller has seen to what it held */
  b = try_buffer(l->s, storage_bytes(storage), name, where);
  if (b)
    storage_set_device(storage, &g->device, b, false);
  return b;
}

/* Room on the device for a whole storage, not filled. */
Buffer *device_buffer(Launch *l, Storage *storage, const char *name, Span where) {
  Buffer *b = room_for(l, storage, name, where);
  if (!b)
    device_failed(l->s, where);
  return b;
}

/* Host memory comes only when somebody looks at the result there. */
Tensor *device_tensor_if_room(Session *s, DType t, int rank, const int64_t *extent,
                              const char *name, Span where) {
  Str why = session_str(s);
  int64_t bytes = (int64_t)dtype_size(t);
  for (int i = 0; i < rank; i++)
    bytes *= extent[i]; /* of a shape that an earlier call had: cannot overflow */
  Buffer *b = try_buffer(s, (size_t)bytes, name, where);
  if (!b)
    return NULL;
  Tensor *out = tensor_new_on_device(t, rank, extent, &s->gpu->device, b, &why);
  return host_new_tensor(s, out, &why, where).as.tensor;
}

Tensor *device_tensor(Session *s, DType t, int rank, const int64_t *extent, const char *name,
                      Span where) {
  Tensor *out = device_tensor_if_room(s, t, rank, extent, name, where);
  if (!out)
    device_failed(s, where);
  return out;
}

/* A device copy of the whole storage, filled from the host where it is not the kernel's to write.
 */
static void to_device(Launch *l, size_t i) {
  Tensor *t = l->tensor[i];
  const IrBuffer *buf = l->ir->params.v[i].buf;
  Storage *storage = t->storage;
  Buffer *b = storage_device_handle(storage);
  Str why = session_str(l->s);
  bool here = b && b->g == l->s->gpu;
  if (here && storage_on_device(storage))
    return;
  if (b && !here && !tensor_to_host(t, &why))
    host_fail(l->s, E0807, l->where[i], "%s", str_text(&why));
  b = device_buffer(l, storage, buf->name, l->where[i]);
  if (l->fresh[i] && buf->role == IRR_OUT && !buf->init)
    return; /* nothing there that the kernel could read */
  double start = base_now();
  Status status = gpu_upload(b->g->gpu, b->p, tensor_storage_data(t), storage_bytes(storage));
  l->s->times.copy += base_now() - start;
  if (status != ST_OK)
    device_failed(l->s, l->where[i]);
  storage_device_synced(storage);
}

/* Launching -------------------------------------------------------------------------------- */

/* Extents and strides of tensor maps are expressions of the bound extents. */
static uint64_t host_number(const IrExpr *e, const IrBinding *b) {
  Scalar x = {DT_I64, {.i = 0}};
  ir_host_eval(e, b, &x);
  return scalar_convert(x, DT_I64).as.u;
}

/* The driver wants a map at a multiple of 64. */
static void *map_room(Arena *a) {
  enum { ALIGN = 64 };
  uintptr_t at = (uintptr_t)arena_alloc(a, GPU_TMAP_BYTES + ALIGN - 1);
  return (void *)((at + ALIGN - 1) / ALIGN * ALIGN);
}

GpuTmap device_map(const IrTmap *m, const IrBinding *b, GpuPtr base) {
  GpuTmap t = {.dtype = m->buf->dtype, .rank = m->rank, .base = base, .swizzle = (int)m->swizzle};
  for (int i = 0; i < m->rank; i++) {
    t.extent[i] = host_number(m->dim[i], b);
    t.stride[i] = i ? host_number(m->stride[i], b) : 0;
    t.box[i] = (uint32_t)m->box[i];
  }
  return t;
}

/* Checked before it is encoded: the driver's own error names no axis. */
static void *encode_map(Launch *l, const IrTmap *m, const IrBinding *b, GpuPtr base) {
  GpuTmap t = device_map(m, b, base);
  void *out = map_room(session_scratch(l->s));
  Str why = session_str(l->s);
  if (!gpu_tmap_check(&t, &why))
    host_fail(l->s, E0820, l->span, "the tensor map %s: %s", m->name, str_text(&why));
  if (gpu_tmap_encode(l->s->gpu->gpu, &t, out) != ST_OK)
    device_failed(l->s, l->span);
  return out;
}

/* A parameter of the thread level has the same place as the launch's. */
size_t device_param(const IrKernel *k, const IrBuffer *buf) {
  size_t i = 0;
  while (i < k->params.n && k->params.v[i].buf != buf)
    i++;
  return i;
}

/* Address of a thread-level buffer's tensor; what lowering added stands behind the launch's. */
static GpuPtr buffer_address(Launch *l, const IrKernel *k, const IrBuffer *buf) {
  size_t i = device_param(k, buf);
  if (i >= l->n + l->nscratch)
    return 0;
  if (i >= l->n)
    return device_address(l->scratch[i - l->n]);
  return device_address(l->pack && l->pack[i] ? l->packed[i] : l->tensor[i]);
}

/* Each argument in a word of its own, since the driver takes addresses of values. */
static void *argument(Launch *l, const DeviceProgram *p, const CudaArg *a, const IrBinding *b) {
  Gpu *g = l->s->gpu->gpu;
  if (a->kind == CUDA_ARG_TMAP)
    return encode_map(l, a->tmap, b, buffer_address(l, p->ir, a->tmap->buf));
  uint64_t *word = arena_alloc(session_scratch(l->s), sizeof *word);
  switch (a->kind) {
  case CUDA_ARG_SCALAR:
    scalar_store(b->value[a->var->id], word);
    break;
  case CUDA_ARG_TENSOR:
    *word = buffer_address(l, p->ir, a->buf);
    break;
  case CUDA_ARG_FAULT:
    *word = gpu_fault_slot(g);
    break;
  case CUDA_ARG_CALL:
    *word = l->s->gpu->nqueued;
    break; /* its place when it is remembered */
  case CUDA_ARG_PRINT:
    if (gpu_print_ring(g, word) != ST_OK)
      device_failed(l->s, l->span);
    break;
  default:
    *word = gpu_stop_word(g);
  }
  return word;
}

/* FALSE: memory is short, and the scratch that had room is given back. */
static bool scratch_to_device(Launch *l) {
  for (size_t i = 0; i < l->nscratch; i++)
    if (!room_for(l, l->scratch[i]->storage, "scratch", l->span)) {
      while (i-- > 0)
        storage_set_device(l->scratch[i]->storage, NULL, NULL, false);
      return false;
    }
  return true;
}

/* Room for what only this launch needs. Packed copies go where the rest has no room beside them:
 * the program that reads the tensors themselves is another, with scratch of its own. */
static DeviceProgram *own_memory(Launch *l, DeviceProgram *p, IrBinding **b) {
  if (!device_pack(l))
    p = device_program(l);
  *b = launch_rebind(l, p->ir);
  if (scratch_to_device(l))
    return p;
  if (!l->pack)
    device_failed(l->s, l->span);
  device_pack_not(l);
  p = device_program(l);
  *b = launch_rebind(l, p->ir);
  if (!scratch_to_device(l))
    device_failed(l->s, l->span);
  return p;
}

/* Moves what the kernel reads to the device, then collects what the launch needs. Nothing is
 * queued yet, so that bench can queue it many times. */
static void prepare(Launch *l, DevicePrepared *out) {
  Session *s = l->s;
  DeviceProgram *p = device_program(l);
  IrBinding *b;
  for (size_t i = 0; i < l->n; i++)
    if (l->tensor[i])
      to_device(l, i);
  p = own_memory(l, p, &b);
  if (p->at_a_time > 0)
    launch_resident(l, p->ir, b, p->at_a_time);
  *out = (DevicePrepared){.l = l, .program = p, .binding = b};
  out->launch.kernel = p->kernel;
  for (int i = 0; i < 3; i++) {
    int64_t blocks = i < p->ir->grid_rank ? b->grid[i] : 1;
    if (blocks > UINT32_MAX)
      host_fail(s, E0820, l->span, "the grid has %" PRId64 " blocks along axis %d", blocks, i);
    out->empty |= blocks == 0;
    out->launch.grid[i] = (unsigned)blocks;
    out->launch.cluster[i] = (unsigned)(p->text->cluster[i] > 1 ? p->text->cluster[i] : 0);
  }
  out->launch.block[0] = (unsigned)p->text->threads;
  out->launch.shared = (size_t)p->text->shared_bytes;
  out->launch.where = arena_printf(s->line, "%s", l->name);
  out->launch.args = ARENA_ARRAY(session_scratch(s), void *, p->text->nargs);
  for (int i = 0; i < p->text->nargs; i++)
    out->launch.args[i] = argument(l, p, &p->text->arg[i], b);
}

/* The host copies are stale from the moment of the launch on, not of its end. */
static void wrote(Launch *l) {
  for (size_t i = 0; i < l->n; i++)
    if (l->tensor[i] && launch_writes(l, i))
      storage_device_wrote(l->tensor[i]->storage);
}

/* Faults come back with the number of the call. What a kernel prints stands before what the host
 * prints next. */
void device_remember(Session *s, Span span, const char *name, const CudaText *text) {
  SessionGpu *g = s->gpu;
  if (g->nqueued == g->cap) {
    size_t cap = g->cap ? g->cap * 2 : 16;
    Queued *grown = realloc(g->queued, cap * sizeof *grown);
    if (!grown)
      host_fail_with(s, ST_NOMEM);
    g->queued = grown;
    g->cap = cap;
  }
  g->queued[g->nqueued++] = (Queued){span, name, text};
  if (text->nprints > 0 || g->nqueued >= MAX_QUEUED)
    device_finish(s);
}

/* What the kernel reads through copies is copied each time. */
static Status queue(const DevicePrepared *p) {
  Status st = p->empty ? ST_OK : device_pack_queue(p->l);
  return p->empty || st != ST_OK ? st : gpu_launch(p->l->s->gpu->gpu, &p->launch);
}

/* Returns at once; what the host still holds of the outputs is stale from here on. */
void device_launch(Launch *l, DevicePrepared *p) {
  prepare(l, p);
  double start = base_now();
  Status status = queue(p);
  l->s->times.launch += base_now() - start;
  if (status != ST_OK)
    device_failed(l->s, l->span);
  device_unpack(l);
  wrote(l);
  device_remember(l->s, l->span, l->name, p->program->text);
}

/* One round for gpu_time. */
static Status launch_once(void *ctx) {
  return queue(ctx);
}

/* Waits at the end: faults of timed launches are reported too. */
void device_time(Launch *l, const GpuTimeOptions *o, GpuTiming *out) {
  DevicePrepared p;
  prepare(l, &p);
  Status status = gpu_time(l->s->gpu->gpu, o, launch_once, &p, out);
  if (status == ST_INTERRUPTED)
    session_interrupt(l->s, l->span, "interrupted while %s was timed", l->name);
  if (status != ST_OK)
    device_failed(l->s, l->span);
  device_unpack(l);
  wrote(l);
  device_remember(l->s, l->span, l->name, p.program->text);
  device_finish(l->s);
}
