/* launch.c: modules, kernels, launches, events.
 *
 * Goes in: a GpuImage, launch geometry, argument pointers. Comes out: queued work. Always holds: a
 * launch does no allocation, and asks the driver one thing, the launch itself; the opt-in for more
 * than 48 KiB of shared memory is set once a kernel. Tests:
 * tests/unit/check_gpu_fake.c, check_gpu_device.c (with a GPU).
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

/* ---- modules ------------------------------------------------------------------------------- */

/* A cubin that does not load is nearly always one of a newer NVRTC than the driver. */
static Status load_failed(Gpu *g, CUresult r, const GpuImage *image) {
  Status st = gpu_result(g, r, "loading", image->name);
  if (r == CUDA_ERROR_UNSUPPORTED_PTX_VERSION || r == CUDA_ERROR_NO_BINARY_FOR_GPU ||
      r == CUDA_ERROR_INVALID_IMAGE || r == CUDA_ERROR_INVALID_SOURCE)
    str_addf(&g->why,
             "; it is for %s, the device is %s, the driver speaks CUDA %d.%d: a newer driver or an "
             "older NVRTC may be needed",
             image->arch, g->props.arch, g->props.driver / 1000, g->props.driver % 1000 / 10);
  return st;
}

/* Linked into the device's list, so that closing the device finds it. */
Status gpu_module_load(Gpu *g, const GpuImage *image, GpuModule **out) {
  *out = NULL;
  if (!gpu_alive(g))
    return ST_DEVICE;
  GpuModule *m = calloc(1, sizeof *m);
  if (!m)
    return gpu_refuse(g, ST_NOMEM, "out of memory");
  CUresult r = g->d->module_load(&m->m, image->cubin);
  if (r != CUDA_SUCCESS) {
    free(m);
    return load_failed(g, r, image);
  }
  m->next = g->modules;
  g->modules = m;
  *out = m;
  return ST_OK;
}

/* Unloading one that is not there any more does nothing: programs and devices are freed in any
 * order. */
void gpu_module_unload(Gpu *g, GpuModule *m) {
  GpuModule **at = &g->modules;
  while (*at && *at != m)
    at = &(*at)->next;
  if (!m || !*at)
    return;
  *at = m->next;
  if (!g->lost)
    (void)g->d->module_unload(m->m);
  while (m->kernels) {
    GpuKernel *next = m->kernels->next;
    free(m->kernels);
    m->kernels = next;
  }
  free(m);
}

/* The driver is asked once a name; kernels live as long as their module. */
Status gpu_module_kernel(Gpu *g, GpuModule *m, const char *name, GpuKernel **out) {
  size_t n = strlen(name) + 1;
  *out = NULL;
  for (GpuKernel *k = m->kernels; k; k = k->next)
    if (strcmp(k->name, name) == 0) {
      *out = k;
      return ST_OK;
    }
  if (!gpu_alive(g))
    return ST_DEVICE;
  GpuKernel *k = calloc(1, sizeof *k + n);
  if (!k)
    return gpu_refuse(g, ST_NOMEM, "out of memory");
  memcpy(k->name, name, n);
  Status st = gpu_result(g, g->d->module_function(&k->f, m->m, name), "finding kernel", name);
  if (st != ST_OK) {
    free(k);
    return st;
  }
  k->next = m->kernels;
  m->kernels = k;
  *out = k;
  return ST_OK;
}

/* For tests: the cubin's own account of itself must agree. */
Status gpu_kernel_facts(Gpu *g, GpuKernel *k, GpuFacts *out) {
  int v = 0;
  if (!gpu_alive(g))
    return ST_DEVICE;
  memset(out, 0, sizeof *out);
  out->name = k->name;
  GPU_TRY(g, g->d->func_get(&v, CU_FUNC_ATTRIBUTE_NUM_REGS, k->f), k->name);
  out->registers = (unsigned)v;
  GPU_TRY(g, g->d->func_get(&v, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, k->f), k->name);
  out->local_bytes = (unsigned)v;
  GPU_TRY(g, g->d->func_get(&v, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, k->f), k->name);
  out->shared_bytes = (unsigned)v;
  GPU_TRY(g, g->d->func_get(&v, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, k->f), k->name);
  out->max_threads = (unsigned)v;
  return ST_OK;
}

/* ---- launching ----------------------------------------------------------------------------- */

/* Above 48 KiB a kernel must ask; the driver remembers, and so do we. */
static Status opt_in(Gpu *g, GpuKernel *k, size_t shared) {
  if (shared <= k->shared_set || shared <= 48 << 10)
    return ST_OK;
  if (shared > g->props.shared_block)
    return gpu_refuse(g, ST_DEVICE,
                      "kernel `%s` needs %zu bytes of shared memory, a block can have %zu", k->name,
                      shared, g->props.shared_block);
  GPU_TRY(g, g->d->func_set(k->f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared),
          k->name);
  k->shared_set = shared;
  return ST_OK;
}

/* An extent left out counts as 1. */
static unsigned at_least_1(unsigned x) {
  return x ? x : 1;
}

/* Clusters and programmatic launch; most launches have neither and take the plain call. */
static unsigned attributes(const GpuLaunch *l, CUlaunchAttribute a[2]) {
  unsigned n = 0;
  if (l->cluster[0] | l->cluster[1] | l->cluster[2]) {
    a[n].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    a[n].value.clusterDim.x = at_least_1(l->cluster[0]);
    a[n].value.clusterDim.y = at_least_1(l->cluster[1]);
    a[n++].value.clusterDim.z = at_least_1(l->cluster[2]);
  }
  if (l->pdl) {
    a[n].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    a[n++].value.programmaticStreamSerializationAllowed = 1;
  }
  return n;
}

/* The driver reads the attributes during the call, so they may lie on the stack. */
static Status launch_with(Gpu *g, const GpuLaunch *l, CUlaunchAttribute *a, unsigned n) {
  CUlaunchConfig c = {
      .gridDimX = l->grid[0],
      .gridDimY = l->grid[1],
      .gridDimZ = l->grid[2],
      .blockDimX = at_least_1(l->block[0]),
      .blockDimY = at_least_1(l->block[1]),
      .blockDimZ = at_least_1(l->block[2]),
      .sharedMemBytes = (unsigned)l->shared,
      .hStream = g->main,
      .attrs = a,
      .numAttrs = n,
  };
  if (!g->d->launch_ex)
    return gpu_refuse(g, ST_DEVICE, "this driver launches no clusters: it is too old");
  return gpu_result(g, g->d->launch_ex(&c, l->kernel->f, l->args, NULL), "launching",
                    l->where ? l->where : l->kernel->name);
}

/* The plain call for plain launches: it is the faster of the two. */
Status gpu_launch(Gpu *g, const GpuLaunch *l) {
  CUlaunchAttribute a[2];
  if ((g->lost || g->rt->current != g) && !gpu_alive(g))
    return ST_DEVICE;
  if (!l->grid[0] || !l->grid[1] || !l->grid[2])
    return ST_OK;
  Status st = opt_in(g, l->kernel, l->shared);
  if (st != ST_OK)
    return st;
  unsigned n = attributes(l, a);
  if (n > 0)
    return launch_with(g, l, a, n);
  CUresult r = g->d->launch(l->kernel->f, l->grid[0], l->grid[1], l->grid[2],
                            at_least_1(l->block[0]), at_least_1(l->block[1]),
                            at_least_1(l->block[2]), (unsigned)l->shared, g->main, l->args, NULL);
  return r == CUDA_SUCCESS ? ST_OK
                           : gpu_result(g, r, "launching", l->where ? l->where : l->kernel->name);
}

/* ---- events -------------------------------------------------------------------- */

Status gpu_event_new(Gpu *g, GpuEvent **out) {
  *out = NULL;
  if (!gpu_alive(g))
    return ST_DEVICE;
  GpuEvent *e = calloc(1, sizeof *e);
  if (!e)
    return gpu_refuse(g, ST_NOMEM, "out of memory");
  Status st = gpu_result(g, g->d->event_new(&e->e, CU_EVENT_DEFAULT), "an event", NULL);
  if (st != ST_OK) {
    free(e);
    return st;
  }
  *out = e;
  return ST_OK;
}

void gpu_event_free(Gpu *g, GpuEvent *e) {
  if (e && !g->lost)
    (void)g->d->event_free(e->e);
  free(e);
}

Status gpu_event_record(Gpu *g, GpuEvent *e) {
  if (!gpu_alive(g))
    return ST_DEVICE;
  GPU_TRY(g, g->d->event_record(e->e, g->main), NULL);
  return ST_OK;
}

/* Both are waited for with interrupts seen; the driver alone would say "not ready". */
Status gpu_event_ms(Gpu *g, GpuEvent *from, GpuEvent *to, double *ms) {
  float x = 0;
  if (!gpu_alive(g))
    return ST_DEVICE;
  Status st = gpu_wait(g, from->e, NULL);
  if (st == ST_OK)
    st = gpu_wait(g, to->e, NULL);
  if (st != ST_OK)
    return st;
  GPU_TRY(g, g->d->event_ms(&x, from->e, to->e), NULL);
  *ms = (double)x;
  return ST_OK;
}
