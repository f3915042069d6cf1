/* fake_cuda.c: a libcuda.so.1 without a GPU, for tests: memory is the host's, work is done when it
 * is queued, kernels are the functions of this file. It counts what is alive, so that a test sees
 * leaks, and fails on demand: $FAKE_CUDA_DEVICES devices, $FAKE_CUDA_MEMORY bytes; a kernel named
 * `illegal` loses the device, one named `endless` runs until the word that it is given is set, one
 * named `slow` takes half a second of the events' time. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cuda.h renames these; the library is asked for the plain symbols */
#undef cuDeviceTotalMem
#undef cuMemAlloc

#define FAKE __attribute__((visibility("default"))) CUresult

typedef struct Fake { /* one process, one thread at a time: tests only */
  CUresult sticky;
  size_t used;
  int alive; /* allocations, streams, events, modules */
  int launches;
  float slow_ms;                      /* of slow kernels since a time was asked for */
  const volatile unsigned *waits_for; /* of an endless kernel */
} Fake;
static Fake fake;

/* Whatever is alive stays reachable: what a lost device leaves behind is no leak of the program. */
static void *kept[4096];
static void *keep(void *p) {
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
    if (!kept[i]) {
      kept[i] = p;
      fake.alive++;
      return p;
    }
  abort();
}
static void drop(void *p) {
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
    if (kept[i] == p) {
      kept[i] = NULL;
      fake.alive--;
      free(p);
      return;
    }
  abort(); /* freed twice, or never made */
}

static size_t memory(void) {
  const char *s = getenv("FAKE_CUDA_MEMORY");
  return s ? (size_t)strtoull(s, NULL, 10) : (size_t)1 << 30;
}

FAKE cuInit(unsigned flags) {
  (void)flags;
  return getenv("FAKE_CUDA_BROKEN") ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}
FAKE cuDriverGetVersion(int *v) {
  *v = 13000;
  return CUDA_SUCCESS;
}
FAKE cuGetErrorName(CUresult r, const char **s) {
  *s = r == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR_FAKE";
  return CUDA_SUCCESS;
}
FAKE cuGetErrorString(CUresult r, const char **s) {
  (void)r;
  *s = "as the test asked";
  return CUDA_SUCCESS;
}
FAKE cuDeviceGetCount(int *n) {
  const char *s = getenv("FAKE_CUDA_DEVICES");
  *n = s ? (int)strtol(s, NULL, 10) : 1;
  return CUDA_SUCCESS;
}
FAKE cuDeviceGet(CUdevice *d, int i) {
  *d = i;
  return CUDA_SUCCESS;
}
FAKE cuDeviceGetName(char *s, int n, CUdevice d) {
  snprintf(s, (size_t)n, "Fake %d", d);
  return CUDA_SUCCESS;
}
FAKE cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice d) {
  (void)d;
  switch (a) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    *v = 9;
    break;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    *v = 0;
    break;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    *v = 132;
    break;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
    *v = 232448;
    break;
  default:
    *v = 1;
  }
  return CUDA_SUCCESS;
}
FAKE cuDeviceTotalMem_v2(size_t *n, CUdevice d) {
  (void)d;
  *n = memory();
  return CUDA_SUCCESS;
}
FAKE cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) {
  (void)d;
  *c = (CUcontext)(void *)&fake;
  fake.alive++;
  return CUDA_SUCCESS;
}
FAKE cuDevicePrimaryCtxRelease_v2(CUdevice d) {
  (void)d;
  fake.alive--;
  return CUDA_SUCCESS;
}
FAKE cuCtxSetCurrent(CUcontext c) {
  (void)c;
  return CUDA_SUCCESS;
}

/* ---- memory ---------------------------------------------------------------------------------- */

typedef struct Block { /* in front of each allocation; 256 bytes keep the alignment */
  size_t n;
  char pad[248];
} Block;

FAKE cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  *total = memory();
  *free_bytes = *total - fake.used;
  return fake.sticky;
}
FAKE cuMemAlloc_v2(CUdeviceptr *p, size_t n) {
  if (fake.sticky)
    return fake.sticky;
  if (n > memory() - fake.used)
    return CUDA_ERROR_OUT_OF_MEMORY;
  Block *b = aligned_alloc(256, (sizeof(Block) + n + 255) / 256 * 256);
  if (!b)
    return CUDA_ERROR_OUT_OF_MEMORY;
  memset(b + 1, 0xcd, n);
  b->n = n;
  fake.used += n;
  keep(b);
  *p = (CUdeviceptr)(uintptr_t)(b + 1);
  return CUDA_SUCCESS;
}
FAKE cuMemFree_v2(CUdeviceptr p) {
  Block *b = (Block *)(uintptr_t)p - 1;
  fake.used -= b->n;
  drop(b);
  return CUDA_SUCCESS;
}
FAKE cuMemHostAlloc(void **p, size_t n, unsigned flags) {
  (void)flags;
  *p = keep(malloc(n));
  return CUDA_SUCCESS;
}
FAKE cuMemFreeHost(void *p) {
  drop(p);
  return CUDA_SUCCESS;
}
FAKE cuMemHostGetDevicePointer_v2(CUdeviceptr *d, void *p, unsigned flags) {
  (void)flags;
  *d = (CUdeviceptr)(uintptr_t)p;
  return CUDA_SUCCESS;
}
FAKE cuMemcpyHtoDAsync_v2(CUdeviceptr d, const void *s, size_t n, CUstream st) {
  (void)st;
  memcpy((void *)(uintptr_t)d, s, n);
  return fake.sticky;
}
FAKE cuMemcpyDtoHAsync_v2(void *d, CUdeviceptr s, size_t n, CUstream st) {
  (void)st;
  memcpy(d, (const void *)(uintptr_t)s, n);
  return fake.sticky;
}
FAKE cuMemcpyDtoDAsync_v2(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream st) {
  (void)st;
  memmove((void *)(uintptr_t)d, (const void *)(uintptr_t)s, n);
  return fake.sticky;
}
FAKE cuMemsetD8Async(CUdeviceptr d, unsigned char x, size_t n, CUstream st) {
  (void)st;
  memset((void *)(uintptr_t)d, x, n);
  return fake.sticky;
}
FAKE cuMemsetD16Async(CUdeviceptr d, unsigned short x, size_t n, CUstream st) {
  (void)st;
  for (size_t i = 0; i < n; i++)
    memcpy((char *)(uintptr_t)d + 2 * i, &x, 2);
  return fake.sticky;
}
FAKE cuMemsetD32Async(CUdeviceptr d, unsigned x, size_t n, CUstream st) {
  (void)st;
  for (size_t i = 0; i < n; i++)
    memcpy((char *)(uintptr_t)d + 4 * i, &x, 4);
  return fake.sticky;
}

/* ---- kernels --------------------------------------------------------------------------------- */

typedef void (*FakeKernel)(void **args);

static void add(void **args) { /* a, b, c, n */
  const float *a = *(const float **)args[0], *b = *(const float **)args[1];
  float *c = *(float **)args[2];
  for (int i = 0, n = *(int *)args[3]; i < n; i++)
    c[i] = a[i] + b[i];
}
static void illegal(void **args) {
  (void)args;
  fake.sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
}
static void endless(void **args) {
  fake.waits_for = *(const volatile unsigned **)args[0];
}
static void slow(void **args) {
  (void)args;
  fake.slow_ms += 500.0f;
}
static void nothing(void **args) {
  (void)args;
}

FAKE cuModuleLoadData(CUmodule *m, const void *image) {
  if (memcmp(image, "\177ELF", 4) != 0)
    return CUDA_ERROR_INVALID_IMAGE;
  *m = keep(malloc(1));
  return fake.sticky;
}
FAKE cuModuleUnload(CUmodule m) {
  drop(m);
  return CUDA_SUCCESS;
}
/* Names of no function here do nothing; `missing` is not there. */
FAKE cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
  static const struct {
    const char *name;
    FakeKernel f;
  } row[] = {{"add", add}, {"illegal", illegal}, {"endless", endless}, {"slow", slow}};
  (void)m;
  FakeKernel k = nothing;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++)
    if (strcmp(name, row[i].name) == 0)
      k = row[i].f;
  memcpy(f, &k, sizeof k);
  return strcmp(name, "missing") == 0 ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
FAKE cuFuncGetAttribute(int *v, CUfunction_attribute a, CUfunction f) {
  (void)a, (void)f;
  *v = 0;
  return CUDA_SUCCESS;
}
FAKE cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int v) {
  (void)f, (void)a, (void)v;
  return CUDA_SUCCESS;
}
FAKE cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction f, int threads, size_t shared) {
  (void)f, (void)threads, (void)shared;
  *n = 2;
  return CUDA_SUCCESS;
}
static CUresult run(CUfunction f, void **args) {
  FakeKernel k;
  memcpy(&k, &f, sizeof k);
  if (fake.sticky)
    return fake.sticky;
  fake.launches++;
  k(args);
  return CUDA_SUCCESS;
}
FAKE cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                    unsigned bz, unsigned shared, CUstream s, void **args, void **extra) {
  (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)s, (void)extra;
  return run(f, args);
}
FAKE cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **args, void **extra) {
  (void)extra;
  return c->numAttrs > 2 ? CUDA_ERROR_INVALID_VALUE : run(f, args);
}

/* ---- streams and events ---------------------------------------------------------------------- */

static CUresult done(void) {
  if (fake.waits_for && *fake.waits_for == 0)
    return CUDA_ERROR_NOT_READY;
  fake.waits_for = NULL;
  return fake.sticky;
}

FAKE cuStreamCreate(CUstream *s, unsigned flags) {
  (void)flags;
  *s = keep(malloc(1));
  return CUDA_SUCCESS;
}
FAKE cuStreamDestroy_v2(CUstream s) {
  drop(s);
  return CUDA_SUCCESS;
}
FAKE cuStreamQuery(CUstream s) {
  (void)s;
  return done();
}
FAKE cuStreamSynchronize(CUstream s) {
  (void)s;
  return fake.sticky;
}
FAKE cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags) {
  (void)s, (void)e, (void)flags;
  return CUDA_SUCCESS;
}
FAKE cuEventCreate(CUevent *e, unsigned flags) {
  (void)flags;
  *e = keep(malloc(1));
  return CUDA_SUCCESS;
}
FAKE cuEventDestroy_v2(CUevent e) {
  drop(e);
  return CUDA_SUCCESS;
}
FAKE cuEventRecord(CUevent e, CUstream s) {
  (void)e, (void)s;
  return fake.sticky;
}
FAKE cuEventQuery(CUevent e) {
  (void)e;
  return fake.sticky;
}
#undef cuEventElapsedTime /* the first version: this driver has no other */
FAKE cuEventElapsedTime(float *ms, CUevent a, CUevent b);
FAKE cuEventElapsedTime(float *ms, CUevent a, CUevent b) {
  (void)a, (void)b;
  *ms = 2.0f + fake.slow_ms;
  fake.slow_ms = 0;
  return fake.sticky;
}

/* A tensor map as the test can look at it: the address, then the extents. */
FAKE cuTensorMapEncodeTiled(CUtensorMap *m, CUtensorMapDataType t, cuuint32_t rank, void *base,
                            const cuuint64_t *extent, const cuuint64_t *stride,
                            const cuuint32_t *box, const cuuint32_t *step, CUtensorMapInterleave i,
                            CUtensorMapSwizzle s, CUtensorMapL2promotion l2,
                            CUtensorMapFloatOOBfill fill) {
  (void)t, (void)stride, (void)box, (void)step, (void)i, (void)s, (void)l2, (void)fill;
  cuuint64_t *w = (cuuint64_t *)(void *)m;
  memset(m, 0, sizeof *m);
  w[0] = (cuuint64_t)(uintptr_t)base;
  for (cuuint32_t k = 0; k < rank; k++) {
    if (extent[k] == 0)
      return CUDA_ERROR_INVALID_VALUE;
    w[1 + k] = extent[k];
  }
  return CUDA_SUCCESS;
}

/* For tests: what is alive, and the launches so far. */
__attribute__((visibility("default"))) int fake_cuda_alive(void);
int fake_cuda_alive(void) {
  return fake.alive;
}
__attribute__((visibility("default"))) int fake_cuda_launches(void);
int fake_cuda_launches(void) {
  return fake.launches;
}
