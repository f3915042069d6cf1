/* device_build.c: from a launch's kernel to CUDA text, an image, a program on the device.
 *
 * In: launches with everything bound. Out: what `--emit cuda|ptx|cubin` shows, which needs no GPU,
 * and loaded programs, each made once a specialisation. The target is --arch's, else that of the
 * open device. Tests: tests/gpu, tests/lower.
 */
#include <stdlib.h>

#include "device.h"

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

/* The module goes only while its device is open; closing it frees the rest. */
void gpu_program_free(GpuProgram *p) {
  if (!p)
    return;
  if (p->module && p->g->gpu)
    gpu_module_unload(p->g->gpu, p->module);
  free(p);
}

/* Needs no device. */
CudaText *device_text(Launch *l, const IrKernel **thread) {
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
  Status status = gpu_compile(device_state(s)->rt, &job, l->spec->arena, &image, &why);
  if (status == ST_OK)
    return image;
  diag_add(&s->diags, status == ST_DEVICE ? E0822 : E0823, l->span, "%s", str_text(&why));
  host_fail_with(s, status);
}

/* Once a specialisation; the module stays loaded as long as the session. */
GpuProgram *device_program(Launch *l) {
  if (l->spec->gpu)
    return l->spec->gpu;
  SessionGpu *g = l->s->gpu;
  const IrKernel *ir;
  CudaText *text = device_text(l, &ir);
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

/* Needs no GPU: CUDA text is printed and compiled for the target alone. */
void device_emit(Launch *l, SessionEmit stage, Str *out) {
  const IrKernel *ir;
  CudaText *text = device_text(l, &ir);
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
