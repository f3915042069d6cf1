/* device_build.c: from a launch's kernel to CUDA text, an image, a program on the device.
 *
 * In: launches with everything bound. Out: what `--emit cuda|ptx|cubin` shows, which needs no GPU,
 * and loaded programs, each made once a specialisation. Tests: tests/gpu, tests/lower.
 */
#include <stdlib.h>
#include <string.h>

#include "device.h"

/* The module goes only while its device is open; closing it frees the rest. */
void device_program_free(DeviceProgram *p) {
  if (!p)
    return;
  if (p->module && p->g->gpu)
    gpu_module_unload(p->g->gpu, p->module);
  free(p);
}

/* Needs no device. */
static CudaText *text_of(Launch *l, Variant *v, const IrKernel **thread) {
  Session *s = l->s;
  *thread = variant_thread(l, v, &s->diags);
  if (*thread && !v->text)
    v->text = cuda_print(spec_arena(l), *thread, v->target, &s->diags);
  if (!*thread || !v->text)
    session_fail_call(s, ST_COMPILE, l->span, l->name);
  return v->text;
}

/* Text for an older architecture than the open device's is compiled for the device, so that --arch
 * shows and runs what the older one would get; a cubin of the older one would not load. */
static const char *compile_arch(Session *s) {
  const char *want = session_target(s)->name;
  const char *open = device_arch(s), *have = open ? open : want;
  return strtol(want + 3, NULL, 10) <= strtol(have + 3, NULL, 10) ? have : want; /* after "sm_" */
}

static GpuCompile job_of(Launch *l, const CudaText *text, bool ptx) {
  return (GpuCompile){.name = arena_printf(l->s->line, "%s.cu", l->name),
                      .text = text->text,
                      .arch = compile_arch(l->s),
                      .want_ptx = ptx};
}

GpuStart device_begin(Launch *l) {
  const IrKernel *thread;
  GpuCompile job = job_of(l, text_of(l, launch_variant(l), &thread), false);
  return gpu_compile_start(device_state(l->s)->rt, &job);
}

/* From the cache on disk where the same text was compiled before; the gate's verdict is in the
 * image. What follows in the program compiles meanwhile. */
static GpuImage *compile(Launch *l, const CudaText *text, bool ptx) {
  Session *s = l->s;
  GpuImage *image = NULL;
  Str why = session_str(s);
  GpuCompile job = job_of(l, text, ptx);
  session_look_ahead(l);
  double start = base_now();
  Status status = gpu_compile(device_state(s)->rt, &job, spec_arena(l), &image, &why);
  s->times.compile += base_now() - start;
  if (status == ST_OK)
    return image;
  if (status == ST_INTERRUPTED)
    session_interrupt(s, l->span, "interrupted while %s was compiled", l->name);
  diag_add(&s->diags, status == ST_DEVICE ? E0822 : E0823, l->span, "%s", str_text(&why));
  host_fail_with(s, status);
}

typedef struct Built { /* what a variant came to */
  int candidate;
  const IrKernel *thread;
  CudaText *text;
  GpuImage *image;
} Built;

/* Bytes of local memory a thread that are cheaper than plain code: as much as its registers hold,
 * which the first cache has. (128 of them cost 3 % of a product on an H200.) */
enum { LITTLE_LOCAL = 1024 };

/* So few that more threads at a time are worth them: normalisation of rows of 4096 f32 runs at 3.94
 * TB/s on an H200 with 64 bytes in two blocks of 512 threads, at 3.51 without in one. */
enum { LEAST_LOCAL = 64 };

/* What local memory a thread takes; 0: none, or the gate found worse. */
static unsigned local_bytes(const Built *b) {
  const GpuFacts *f = gpu_image_kernel(b->image, b->text->entry);
  for (int i = 0; i < b->image->nwarnings; i++)
    if (b->image->warnings[i].refused)
      return 0;
  return f ? f->local_bytes : 0;
}

/* The refused one that spills least, where it is to run rather than plain code. */
static void keep_least(Built *kept, const Built *b) {
  unsigned n = local_bytes(b);
  if (n > 0 && n <= LITTLE_LOCAL && (!kept->image || n < local_bytes(kept)))
    *kept = *b;
}

/* Threads that a multiprocessor holds at a time, by their registers and shared memory. */
static int64_t resident(const Target *t, const Built *b) {
  const GpuFacts *f = gpu_image_kernel(b->image, b->text->entry);
  int64_t threads = b->text->threads, blocks = t->threads / threads;
  int64_t registers = f ? (int64_t)f->registers * threads : 0;
  int64_t shared = b->text->shared_bytes + (f ? f->shared_bytes : 0);
  if (registers > 0 && blocks > t->registers / registers)
    blocks = t->registers / registers;
  if (shared > 0 && blocks > (int64_t)t->shared / shared)
    blocks = (int64_t)t->shared / shared;
  return blocks * threads;
}

/* Whether what is kept, which spills, is better than what passes. */
static bool crowds_out(const Target *t, const Built *kept, const Built *b) {
  return kept->image && local_bytes(kept) <= LEAST_LOCAL && resident(t, kept) > resident(t, b);
}

/* The variant goes back to it, and stays there. */
static Built go_back(Variant *v, Built kept) {
  LowerRequest r = variant_request(v);
  v->candidate = kept.candidate;
  v->thread = (IrKernel *)(uintptr_t)kept.thread;
  v->text = kept.text;
  v->kept = true;
  lower_note(&r, "schedule: number %d after all: the next would cost more than %u bytes",
             kept.candidate + 1, local_bytes(&kept));
  return kept;
}

/* A cubin that the gate refuses is the schedule's fault: the next one is tried, unless it comes to
 * the same text, but not instead of one that spills little and keeps more threads at work. The last
 * one is plain code, which runs whatever the gate says, but not instead of a better one either. */
static Built build(Launch *l, Variant *v, bool ptx) {
  Built b = {0}, kept = {0};
  for (const char *before = NULL;; before = b.text->text) {
    b.text = text_of(l, v, &b.thread);
    b.candidate = v->candidate;
    if (v->last && kept.image)
      return go_back(v, kept);
    bool same = before && strcmp(before, b.text->text) == 0;
    if (!same)
      b.image = compile(l, b.text, ptx);
    if (!same && b.image->gate && crowds_out(v->target, &kept, &b))
      return go_back(v, kept);
    if ((!same && b.image->gate) || v->last || v->kept || l->ir->level != IR_TILE)
      return b;
    if (!same) {
      LowerRequest r = variant_request(v);
      lower_note(&r, "refused: %s", b.image->gate_why);
      keep_least(&kept, &b);
    }
    variant_next(v);
  }
}

/* Once a variant; the module stays loaded as long as the session. */
DeviceProgram *device_program(Launch *l) {
  Variant *v = launch_variant(l);
  if (v->gpu)
    return v->gpu;
  SessionGpu *g = l->s->gpu;
  Built b = build(l, v, false);
  DeviceProgram *p = session_alloc(l->s, sizeof *p);
  *p = (DeviceProgram){.g = g, .ir = b.thread, .text = b.text};
  const GpuFacts *f = gpu_image_kernel(b.image, b.text->entry);
  if (f)
    p->at_a_time = device_at_a_time(v->target, f, b.text->threads, (size_t)b.text->shared_bytes);
  v->gpu = p;
  if (gpu_module_load(g->gpu, b.image, &p->module) != ST_OK ||
      gpu_module_kernel(g->gpu, p->module, b.text->entry, &p->kernel) != ST_OK) {
    v->gpu = NULL;
    device_program_free(p);
    device_failed(l->s, l->span);
  }
  return p;
}

const GpuFacts *device_facts(Launch *l, int *threads, size_t *dynamic) {
  Built b = build(l, launch_variant(l), false);
  const GpuFacts *f = b.image ? gpu_image_kernel(b.image, b.text->entry) : NULL;
  if (!f)
    host_fail(l->s, E0823, l->span, "the compiled text of %s has no kernel", l->name);
  *threads = b.text->threads;
  *dynamic = (size_t)b.text->shared_bytes;
  return f;
}

/* Needs no GPU. CUDA text alone needs no compiler either: without one the gate is not asked. */
void device_emit(Launch *l, SessionEmit stage, Str *out) {
  Variant *v = launch_variant(l);
  if (stage == EMIT_CUDA && !gpu_nvrtc_version(device_state(l->s)->rt, NULL)) {
    const IrKernel *thread;
    str_add(out, text_of(l, v, &thread)->text);
    return;
  }
  Built b = build(l, v, stage == EMIT_PTX);
  if (stage == EMIT_CUDA)
    str_add(out, b.text->text);
  else if (stage == EMIT_PTX)
    str_add(out, b.image->ptx ? b.image->ptx : "");
  else
    str_addn(out, b.image->cubin, b.image->cubin_n);
}
