/* none.c: the device half of gpu.h in a build without cuda.h.
 *
 * Goes in: anything. Comes out: ST_DEVICE and the reason. Since gpu_open gives no Gpu, the
 * functions on one are never called with one; they are here so that callers need no conditions.
 * Tests: tests/unit/check_gpu.c, in a build configured --with-cuda=no.
 */
#include "private.h"

/* What is never called needs no parameters. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

static const char reason[] =
    "this tilesh was built without CUDA: configure it where cuda.h is found";

bool gpu_built(void) {
  return false;
}
void gpu_driver_free(GpuRt *rt) {}
void gpu_start_async(GpuRt *rt, int ordinal) {}

int gpu_count(GpuRt *rt, Str *why) {
  gpu_say(why, "%s", reason);
  return 0;
}

void gpu_doctor_driver(GpuRt *rt, Str *out) {
  str_addf(out, "device      missing: %s\n", reason);
}

Status gpu_open(GpuRt *rt, int ordinal, Gpu **out, Str *why) {
  *out = NULL;
  gpu_say(why, "%s", reason);
  return ST_DEVICE;
}

void gpu_close(Gpu *g) {}
const GpuProps *gpu_props(const Gpu *g) {
  return NULL;
}
const char *gpu_why(const Gpu *g) {
  return reason;
}
bool gpu_lost(const Gpu *g) {
  return true;
}

#define NONE(name, args)                                                                           \
  Status name args {                                                                               \
    return ST_DEVICE;                                                                              \
  }

NONE(gpu_alloc, (Gpu * g, size_t bytes, const char *what, GpuPtr *out))
NONE(gpu_free, (Gpu * g, GpuPtr p, size_t bytes))
NONE(gpu_upload, (Gpu * g, GpuPtr dst, const void *src, size_t n))
NONE(gpu_download, (Gpu * g, void *dst, GpuPtr src, size_t n))
NONE(gpu_copy, (Gpu * g, GpuPtr dst, GpuPtr src, size_t n))
NONE(gpu_copy_rows, (Gpu * g, GpuRows dst, GpuRows src, size_t n, size_t rows))
NONE(gpu_fill, (Gpu * g, GpuPtr dst, unsigned width, uint32_t value, size_t count))
NONE(gpu_memory, (Gpu * g, size_t *free_bytes, size_t *used))
NONE(gpu_module_load, (Gpu * g, const GpuImage *image, GpuModule **out))
NONE(gpu_module_kernel, (Gpu * g, GpuModule *m, const char *name, GpuKernel **out))
NONE(gpu_kernel_facts, (Gpu * g, GpuKernel *k, GpuFacts *out))
NONE(gpu_launch, (Gpu * g, const GpuLaunch *l))
NONE(gpu_event_new, (Gpu * g, GpuEvent **out))
NONE(gpu_event_record, (Gpu * g, GpuEvent *e))
NONE(gpu_event_ms, (Gpu * g, GpuEvent *from, GpuEvent *to, double *ms))
NONE(gpu_sync, (Gpu * g))
NONE(gpu_time,
     (Gpu * g, const GpuTimeOptions *o, Status (*launch)(void *), void *ctx, GpuTiming *out))
NONE(gpu_print_ring, (Gpu * g, GpuPtr *out))
NONE(gpu_print_take, (Gpu * g, Arena *a, GpuPrintLine **lines, size_t *n, uint32_t *dropped))
NONE(gpu_tmap_encode, (Gpu * g, const GpuTmap *t, void *out))
NONE(gpu_matmul_new, (Gpu * g, const GpuProduct *q, GpuMatmul **out))
NONE(gpu_matmul_run, (GpuMatmul * p))

void gpu_module_unload(Gpu *g, GpuModule *m) {}
void gpu_event_free(Gpu *g, GpuEvent *e) {}
void gpu_matmul_free(GpuMatmul *p) {}
GpuPtr gpu_stop_word(const Gpu *g) {
  return 0;
}
GpuPtr gpu_fault_slot(const Gpu *g) {
  return 0;
}
bool gpu_fault_take(Gpu *g, GpuFault *out) {
  return false;
}
