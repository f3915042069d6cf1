/* device.c: where kernels run: the evaluator, or a CUDA device through src/gpu.
 *
 * In: launches with everything bound. Out: queued GPU launches; data moved where it must be. The
 * device is opened when the first kernel is called, never before. Queued calls are remembered with
 * their places until the host waits: a fault that the device recorded is then reported at the call
 * and at the line of the kernel. Tests: tests/gpu; without a device tests/cli/run.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"
#include "kernel.h"

enum { MAX_QUEUED = 1024 }; /* calls remembered before the host waits by itself */

typedef struct Queued { /* a call whose end has not been waited for */
  Span span;
  const char *name;
  const CudaText *text;
} Queued;

struct SessionGpu {
  GpuRt *rt;
  Gpu *gpu; /* NULL: kernels run on the evaluator */
  bool decided;
  char name[32]; /* "cuda:0" */
  StorageDevice device;
  Queued *queued;
  size_t nqueued, cap;
};

typedef struct Buffer { /* a storage's device copy */
  SessionGpu *g;
  GpuPtr p;
} Buffer;

struct GpuProgram {
  SessionGpu *g;
  const IrKernel *ir; /* thread level */
  CudaText *text;
  GpuModule *module;
  GpuKernel *kernel;
};

/* Opening ---------------------------------------------------------------------------------- */

/* Polled by src/gpu in every wait. */
static bool interrupted(void *ctx) {
  const Session *s = ctx;
  return s->options.interrupt && *s->options.interrupt;
}

/* Made on first use: a program without kernels never touches src/gpu. */
static SessionGpu *state(Session *s) {
  if (s->gpu)
    return s->gpu;
  s->gpu = session_alloc(s, sizeof *s->gpu);
  s->gpu->rt = gpu_rt_new(&(GpuConfig){.interrupted = interrupted, .ctx = s});
  return s->gpu;
}

/* StorageDevice.fetch: the wait for queued work happens inside the download. */
static bool fetch(void *handle, void *host, size_t bytes, Str *why) {
  Buffer *b = handle;
  if (gpu_download(b->g->gpu, host, b->p, bytes) == ST_OK)
    return true;
  if (why)
    str_add(why, gpu_why(b->g->gpu));
  return false;
}

/* StorageDevice.release: freed in stream order, so a launch that still uses it is safe. */
static void release(void *handle) {
  Buffer *b = handle;
  if (b->g->gpu)
    gpu_free(b->g->gpu, b->p);
  free(b);
}

/* A failure leaves no device; the reason is in why. */
static Status open_device(Session *s, int ordinal, Str *why) {
  SessionGpu *g = state(s);
  Status status = gpu_open(g->rt, ordinal, &g->gpu, why);
  if (status != ST_OK) {
    g->gpu = NULL;
    return status;
  }
  snprintf(g->name, sizeof g->name, "cuda:%d", ordinal);
  g->device = (StorageDevice){g->name, fetch, release};
  return ST_OK;
}

enum { MOST_DEVICES = 1023 };
/* "cuda", "cuda:3"; -1 where it names no CUDA device, MOST_DEVICES where none can be that far. */
static int ordinal_of(const char *name) {
  if (strncmp(name, "cuda", 4) != 0 || (name[4] && name[4] != ':'))
    return -1;
  if (!name[4])
    return 0;
  char *end = NULL;
  long n = strtol(name + 5, &end, 10);
  return end == name + 5 || *end || n < 0 ? -1 : n < MOST_DEVICES ? (int)n : MOST_DEVICES;
}

/* Names are checked before anything is opened. */
static _Noreturn void bad_name(Session *s, const char *name, Span span) {
  host_fail_hint(s, E0822, span, "\"cpu\", \"cuda\" or \"cuda:1\"", "there is no device named %s",
                 name);
}

/* The status makes the exit status 4. */
static _Noreturn void no_device(Session *s, const Str *why, Span span) {
  diag_add(&s->diags, E0822, span, "%s", str_text(why));
  host_fail_with(s, ST_DEVICE);
}

/* Without --device a missing GPU is no error: kernels run on the evaluator. With it, it is. */
bool device_is_gpu(Session *s) {
  const char *want = s->options.device;
  if (want && strcmp(want, "cpu") == 0)
    return false;
  SessionGpu *g = state(s);
  if (g->decided)
    return g->gpu != NULL;
  Str why = session_str(s);
  const Span none = {NULL, 0, 0};
  g->decided = true;
  if (want && ordinal_of(want) < 0)
    bad_name(s, want, none);
  Status status = open_device(s, want ? ordinal_of(want) : 0, &why);
  if (status != ST_OK && want) {
    g->decided = false;
    no_device(s, &why, none);
  }
  return g->gpu != NULL;
}

/* Switching to the CPU keeps the device open: tensors may still live there. */
void device_use(Session *s, const char *name, Span span) {
  int ordinal = ordinal_of(name);
  if (strcmp(name, "cpu") != 0 && ordinal < 0)
    bad_name(s, name, span);
  if (s->gpu && s->gpu->gpu) {
    device_finish(s);
    if (ordinal >= 0 && strcmp(s->gpu->name, arena_printf(s->line, "cuda:%d", ordinal)) != 0)
      host_fail(s, E0822, span, "one session uses one CUDA device, and %s is open", s->gpu->name);
  } else if (ordinal >= 0) {
    Str why = session_str(s);
    if (open_device(s, ordinal, &why) != ST_OK)
      no_device(s, &why, span);
    s->gpu->decided = true;
  }
  s->options.device = arena_strdup(s->arena, name);
}

/* What kernels are compiled for: --arch, else the open device, else sm_90a. */
const Target *session_target(Session *s) {
  const char *arch = s->options.arch;
  if (!arch && s->gpu && s->gpu->gpu)
    arch = gpu_props(s->gpu->gpu)->arch;
  const Target *t = arch ? target_find(arch) : NULL;
  return t ? t : target_find("sm_90a");
}

/* The figure of the open device, so that `sms` in a kernel is what it runs on. */
int64_t session_sms(Session *s) {
  return s->gpu && s->gpu->gpu ? gpu_props(s->gpu->gpu)->sms : session_target(s)->sms;
}

/* After all tensors are gone: their device copies need the device to be freed. */
void device_free(Session *s) {
  SessionGpu *g = s->gpu;
  if (!g)
    return;
  gpu_close(g->gpu);
  gpu_rt_free(g->rt);
  free(g->queued);
  free(g);
  s->gpu = NULL;
}

/* The module goes only while its device is open; closing it frees the rest. */
void gpu_program_free(GpuProgram *p) {
  if (!p)
    return;
  if (p->module && p->g->gpu)
    gpu_module_unload(p->g->gpu, p->module);
  free(p);
}

/* Waiting and faults ----------------------------------------------------------------------- */

/* The driver's own words, at the call. */
static _Noreturn void device_failed(Session *s, Span span) {
  diag_add(&s->diags, E0822, span, "%s", gpu_why(s->gpu->gpu));
  host_fail_with(s, ST_DEVICE);
}

/* A value of 64 bits as an integer or, of a float, as its f64. */
static void add_bits(uint64_t bits, bool is_float, Str *out) {
  Scalar x = {.type = is_float ? DT_F64 : DT_I64, .as.u = bits};
  scalar_print(x, out);
}

/* Replaces {0} and {1}, {0f} and {1f} where they are floats, in a site's text. */
static void add_site_text(const char *text, const int64_t value[2], Str *out) {
  for (; *text; text++) {
    size_t n = text[0] == '{' && (text[1] == '0' || text[1] == '1') ? 2 + (text[2] == 'f') : 0;
    if (n > 0 && text[n] == '}') {
      add_bits((uint64_t)value[text[1] - '0'], n == 3, out);
      text += n;
    } else {
      str_addc(out, *text);
    }
  }
}

/* The record names the call and the check in it; the text of the check is the printer's, with
 * the index and extent put in. */
static void report_fault(Session *s, const GpuFault *f) {
  SessionGpu *g = s->gpu;
  const Queued *q = f->call < g->nqueued ? &g->queued[f->call] : NULL;
  Str text = session_str(s);
  Span span = {NULL, 0, 0};
  if (q && f->site < (uint32_t)q->text->nsites) {
    const CudaSite *place = &q->text->site[f->site];
    add_site_text(place->text, f->value, &text);
    span = place->span;
  } else {
    str_add(&text, "a fault was recorded on the device");
  }
  str_addf(&text, " (block %u, %u, %u)", f->block[0], f->block[1], f->block[2]);
  diag_add(&s->diags, E0421, span, "%s", str_text(&text));
  Span call = q ? q->span : span;
  const char *name = q ? q->name : "the kernel";
  g->nqueued = 0;
  session_fail_call(s, ST_FAIL, call, name);
}

/* What the evaluator would print: texts and values, blanks between. */
static void add_line(const CudaPrint *print, const GpuPrintLine *line, Str *out) {
  const IrReport *r = print->report;
  size_t k = 0;
  for (int i = 0; i < r->nparts; i++) {
    const IrReportPart *part = &r->part[i];
    if (i > 0)
      str_addc(out, ' ');
    if (part->text)
      str_add(out, part->text);
    else if (part->value && k < line->nvalues) {
      Scalar x = {.type = dtype_is_float(part->value->type) ? DT_F64 : DT_I64,
                  .as.u = line->value[k++]};
      scalar_print(scalar_convert(x, part->value->type), out);
    }
  }
  str_addc(out, '\n');
}

/* Writes what the queued calls printed. */
static void show_prints(Session *s) {
  SessionGpu *g = s->gpu;
  GpuPrintLine *line = NULL;
  size_t n = 0;
  uint32_t dropped = 0;
  Str out = session_str(s);
  bool any = false;
  for (size_t i = 0; i < g->nqueued; i++)
    any = any || g->queued[i].text->nprints > 0;
  if (!any || gpu_print_take(g->gpu, s->line, &line, &n, &dropped) != ST_OK)
    return;
  for (size_t i = 0; i < n; i++) {
    const CudaText *text = line[i].call < g->nqueued ? g->queued[line[i].call].text : NULL;
    if (text && line[i].line < (uint32_t)text->nprints)
      add_line(&text->print[line[i].line], &line[i], &out);
  }
  if (dropped > 0)
    str_addf(&out, "(%u more lines were printed than there is room for)\n", dropped);
  (void)session_write(s, str_text(&out), out.n);
}

/* After every wait: nothing is queued any more. */
static void check_faults(Session *s) {
  GpuFault fault;
  if (gpu_fault_take(s->gpu->gpu, &fault))
    report_fault(s, &fault);
  s->gpu->nqueued = 0;
}

/* Cheap where nothing is queued, so it is called at the end of every text, test and prompt
 * entry. */
void device_finish(Session *s) {
  if (!s->gpu || !s->gpu->gpu || s->gpu->nqueued == 0)
    return;
  Span last = s->gpu->queued[s->gpu->nqueued - 1].span;
  Status status = gpu_sync(s->gpu->gpu, NULL);
  if (status == ST_INTERRUPTED)
    host_fail_with(s, status);
  if (status != ST_OK)
    device_failed(s, last);
  show_prints(s);
  check_faults(s);
}

/* A fault of the call that made the data comes before the data. */
bool device_settle(Session *s, Tensor *t, Str *why) {
  if (storage_on_host(t->storage))
    return true;
  device_finish(s);
  return tensor_to_host(t, why);
}

/* Moving data ------------------------------------------------------------------------------ */

/* Views share a device copy: theirs begins at an offset. */
static GpuPtr address(Launch *l, const Tensor *t) {
  Buffer *b = storage_device_handle(t->storage);
  (void)l;
  return b->p + (uint64_t)(t->offset * (int64_t)dtype_size(t->dtype));
}

/* A device copy of the whole storage, filled from the host where it is not the kernel's to write.
 */
static Buffer *device_buffer(Launch *l, Storage *storage, const char *name, Span where) {
  Session *s = l->s;
  SessionGpu *g = s->gpu;
  Buffer *b = storage_device_handle(storage);
  if (b)
    return b;
  b = session_alloc(s, sizeof *b);
  b->g = g;
  Status status = gpu_alloc(g->gpu, storage_bytes(storage), name, &b->p);
  if (status != ST_OK) {
    free(b);
    device_failed(s, where);
  }
  storage_set_device(storage, &g->device, b, false);
  return b;
}

/* A device copy of the whole storage, filled from the host where it is not the kernel's to write.
 */
static void to_device(Launch *l, size_t i) {
  Tensor *t = l->tensor[i];
  Storage *storage = t->storage;
  if (storage_on_device(storage))
    return;
  Buffer *b = device_buffer(l, storage, l->ir->params.v[i].buf->name, l->where[i]);
  const IrBuffer *buf = l->ir->params.v[i].buf;
  if (l->fresh[i] && buf->role == IRR_OUT && !buf->init)
    return; /* nothing there that the kernel could read */
  if (gpu_upload(b->g->gpu, b->p, tensor_storage_data(t), storage_bytes(storage)) != ST_OK)
    device_failed(l->s, l->where[i]);
  storage_device_synced(storage);
}

/* Compiling -------------------------------------------------------------------------------- */

/* Needs no device. */
static CudaText *cuda_text(Launch *l, const IrKernel **thread) {
  Session *s = l->s;
  *thread = launch_thread(l, &l->s->diags);
  CudaText *text =
      *thread ? cuda_print(l->spec->arena, *thread, session_target(s), &s->diags) : NULL;
  if (!text)
    session_fail_call(s, ST_COMPILE, l->span, l->name);
  return text;
}

/* From the cache on disk where the same text was compiled before; the gate's verdict is in the
 * image. */
static GpuImage *compile(Launch *l, const CudaText *text, bool ptx) {
  Session *s = l->s;
  GpuImage *image = NULL;
  Str why = session_str(s);
  GpuCompile job = {.name = arena_printf(s->line, "%s.cu", l->name),
                    .text = text->text,
                    .arch = session_target(s)->name,
                    .want_ptx = ptx};
  Status status = gpu_compile(state(s)->rt, &job, l->spec->arena, &image, &why);
  if (status == ST_OK)
    return image;
  diag_add(&s->diags, status == ST_DEVICE ? E0822 : E0823, l->span, "%s", str_text(&why));
  host_fail_with(s, status);
}

/* Once a specialisation; the module stays loaded as long as the session. */
static GpuProgram *device_program(Launch *l) {
  if (l->spec->gpu)
    return l->spec->gpu;
  SessionGpu *g = l->s->gpu;
  const IrKernel *ir;
  CudaText *text = cuda_text(l, &ir);
  GpuImage *image = compile(l, text, false);
  GpuProgram *p = session_alloc(l->s, sizeof *p);
  *p = (GpuProgram){.g = g, .ir = ir, .text = text};
  l->spec->gpu = p;
  if (gpu_module_load(g->gpu, image, &p->module) != ST_OK ||
      gpu_module_kernel(g->gpu, p->module, text->entry, &p->kernel) != ST_OK) {
    l->spec->gpu = NULL;
    gpu_program_free(p);
    device_failed(l->s, l->span);
  }
  return p;
}

/* Launching -------------------------------------------------------------------------------- */

typedef struct Prepared { /* a launch whose arguments lie ready */
  Launch *l;
  GpuLaunch launch;
  bool empty; /* a grid without blocks: nothing runs */
} Prepared;

/* Extents and strides of tensor maps are expressions of the bound extents. */
static uint64_t host_number(const IrExpr *e, const IrBinding *b) {
  Scalar x = {DT_I64, {.i = 0}};
  ir_host_eval(e, b, &x);
  return scalar_convert(x, DT_I64).as.u;
}

/* Checked before it is encoded: the driver's own error names no axis. */
static void *encode_map(Launch *l, const IrTmap *m, const IrBinding *b, GpuPtr base) {
  GpuTmap t = {.dtype = m->buf->dtype, .rank = m->rank, .base = base, .swizzle = (int)m->swizzle};
  void *out = arena_alloc(session_scratch(l->s), 4096); /* so large because that aligns it to 64 */
  for (int i = 0; i < m->rank; i++) {
    t.extent[i] = host_number(m->dim[i], b);
    t.stride[i] = i ? host_number(m->stride[i], b) : 0;
    t.box[i] = (uint32_t)m->box[i];
  }
  Str why = session_str(l->s);
  if (!gpu_tmap_check(&t, &why))
    host_fail(l->s, E0820, l->span, "the tensor map %s: %s", m->name, str_text(&why));
  if (gpu_tmap_encode(l->s->gpu->gpu, &t, out) != ST_OK)
    device_failed(l->s, l->span);
  return out;
}

/* Address of a thread-level buffer's tensor: its parameter has the same place as the launch's. */
static GpuPtr buffer_address(Launch *l, const IrKernel *k, const IrBuffer *buf) {
  for (size_t i = 0; i < l->n && i < k->params.n; i++)
    if (k->params.v[i].buf == buf)
      return address(l, l->tensor[i]);
  for (size_t i = 0; i < l->nscratch; i++)
    if (k->params.v[l->n + i].buf == buf)
      return address(l, l->scratch[i]);
  return 0;
}

/* Each argument in a word of its own, since the driver takes addresses of values. */
static void *argument(Launch *l, const GpuProgram *p, const CudaArg *a, const IrBinding *b) {
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

/* Moves what the kernel reads to the device, then collects what the launch needs. Nothing is
 * queued yet, so that bench can queue it many times. */
static void prepare(Launch *l, Prepared *out) {
  Session *s = l->s;
  GpuProgram *p = device_program(l);
  for (size_t i = 0; i < l->n; i++)
    if (l->tensor[i])
      to_device(l, i);
  IrBinding *b = launch_rebind(l, p->ir);
  for (size_t i = 0; i < l->nscratch; i++)
    device_buffer(l, l->scratch[i]->storage, "scratch", l->span);
  *out = (Prepared){.l = l};
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

/* Faults come back with the number of the call. */
static void remember(Launch *l, const CudaText *text) {
  SessionGpu *g = l->s->gpu;
  if (g->nqueued == g->cap) {
    size_t cap = g->cap ? g->cap * 2 : 16;
    Queued *grown = realloc(g->queued, cap * sizeof *grown);
    if (!grown)
      host_fail_with(l->s, ST_NOMEM);
    g->queued = grown;
    g->cap = cap;
  }
  g->queued[g->nqueued++] = (Queued){l->span, l->name, text};
}

/* Returns at once; what the host still holds of the outputs is stale from here on. */
void device_launch(Launch *l) {
  Prepared p;
  prepare(l, &p);
  if (!p.empty && gpu_launch(l->s->gpu->gpu, &p.launch) != ST_OK)
    device_failed(l->s, l->span);
  wrote(l);
  remember(l, l->spec->gpu->text);
  /* what a kernel prints stands before what the host prints next */
  if (l->spec->gpu->text->nprints > 0 || l->s->gpu->nqueued >= MAX_QUEUED)
    device_finish(l->s);
}

/* One round for gpu_time. */
static Status launch_once(void *ctx) {
  Prepared *p = ctx;
  return p->empty ? ST_OK : gpu_launch(p->l->s->gpu->gpu, &p->launch);
}

/* Waits at the end: faults of timed launches are reported too. */
void device_time(Launch *l, const GpuTimeOptions *o, GpuTiming *out) {
  Prepared p;
  prepare(l, &p);
  Status status = gpu_time(l->s->gpu->gpu, o, launch_once, &p, out);
  if (status == ST_INTERRUPTED)
    host_fail_with(l->s, status);
  if (status != ST_OK)
    device_failed(l->s, l->span);
  wrote(l);
  remember(l, l->spec->gpu->text);
  device_finish(l->s);
}

/* For figures only: bench's roofline. */
const GpuProps *device_props(Session *s) {
  return s->gpu && s->gpu->gpu ? gpu_props(s->gpu->gpu) : NULL;
}

/* Text of the later stages ----------------------------------------------------------------- */

/* Needs no GPU: CUDA text is printed and compiled for the target alone. */
void device_emit(Launch *l, SessionEmit stage, Str *out) {
  const IrKernel *ir;
  CudaText *text = cuda_text(l, &ir);
  if (stage == EMIT_CUDA) {
    str_add(out, text->text);
    return;
  }
  GpuImage *image = compile(l, text, stage == EMIT_PTX);
  if (stage == EMIT_PTX)
    str_add(out, image->ptx ? image->ptx : "");
  else
    str_addn(out, image->cubin, image->cubin_n);
}

/* What print shows after "on" for a fresh result. */
const char *session_device(Session *s) {
  return s->gpu && s->gpu->gpu && !(s->options.device && strcmp(s->options.device, "cpu") == 0)
             ? s->gpu->name
             : "cpu";
}

/* For the prompt, which has no place in a program to name. */
static void use_named(Session *s, void *ctx) {
  device_use(s, ctx, (Span){NULL, 0, 0});
}

/* For the prompt's :device. */
Status session_use_device(Session *s, const char *name) {
  session_begin(s);
  return session_protect(s, use_named, (void *)(uintptr_t)name);
}
