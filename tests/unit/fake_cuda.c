/* fake_cuda.c: a libcuda.so.1 without a GPU, for tests and bench_call: memory is the host's, work
 * is done when it is queued, kernels are the functions of this file. It counts what is alive, so
 * that a test sees leaks, and fails on demand: $FAKE_CUDA_DEVICES devices (of them those that
 * $CUDA_VISIBLE_DEVICES numbers), $FAKE_CUDA_MEMORY bytes, no pool of memory where
 * $FAKE_CUDA_NO_POOL is set; a kernel named `illegal` loses the device, one named `endless` runs
 * until the word that it is given is set, one named `slow` takes half a second of the events' time;
 * any one call of a function fails where fake_cuda_fail says so. Streams, events, pools and memory
 * are those of one device: another's context does not take them. */
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
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
  long calls;                         /* of functions with an INJECT */
  const char *fails;                  /* the function whose nth call from now on fails, or NULL */
  int nth;
  CUresult with;
  pthread_t starter; /* who called cuInit */
  int current;       /* 1 + the device whose context is current; 0: none */
  size_t held;       /* bytes in the pool that nobody has */
} Fake;
static Fake fake;

/* The call that fake_cuda_fail asked for fails before it does anything; once. */
static CUresult injected(const char *name) {
  fake.calls++;
  if (!fake.fails || strcmp(fake.fails, name) != 0 || --fake.nth > 0)
    return CUDA_SUCCESS;
  fake.fails = NULL;
  if (fake.with == CUDA_ERROR_ILLEGAL_ADDRESS)
    fake.sticky = fake.with;
  return fake.with;
}
#define INJECT(name)                                                                               \
  do {                                                                                             \
    CUresult why = injected(name);                                                                 \
    if (why != CUDA_SUCCESS)                                                                       \
      return why;                                                                                  \
  } while (0)

/* In front of everything that is handed out; 256 bytes keep the alignment. Whatever is alive stays
 * reachable: what a lost device leaves behind is no leak of the program. */
typedef struct Block Block;
struct Block {
  Block *prev, *next;
  size_t n;
  int device;     /* as Fake.current, when it was made */
  unsigned alive; /* a mark */
  char pad[256 - 2 * sizeof(Block *) - sizeof(size_t) - 2 * sizeof(int)];
};
enum { ALIVE = 0xa11fe };
static Block *kept;

static Block *block_of(const void *p) {
  Block *b = (Block *)(uintptr_t)p - 1;
  if (b->alive != ALIVE)
    abort(); /* freed twice, or never made */
  return b;
}
static void *keep(size_t n) {
  Block *b = aligned_alloc(256, (sizeof(Block) + n + 255) / 256 * 256);
  if (!b)
    abort();
  *b = (Block){.next = kept, .n = n, .device = fake.current, .alive = ALIVE};
  if (kept)
    kept->prev = b;
  kept = b;
  fake.alive++;
  return b + 1;
}
static void drop(void *p) {
  Block *b = block_of(p);
  *(b->prev ? &b->prev->next : &kept) = b->next;
  if (b->next)
    b->next->prev = b->prev;
  b->alive = 0;
  fake.alive--;
  free(b);
}
/* A stream or event: that of another device's context is refused. Tests may pass none. */
#define ON(handle)                                                                                 \
  do {                                                                                             \
    if ((handle) && block_of(handle)->device != fake.current)                                      \
      return CUDA_ERROR_INVALID_CONTEXT;                                                           \
  } while (0)

static size_t memory(void) {
  const char *s = getenv("FAKE_CUDA_MEMORY");
  return s ? (size_t)strtoull(s, NULL, 10) : (size_t)1 << 30;
}

FAKE cuInit(unsigned flags) {
  INJECT("cuInit");
  (void)flags;
  fake.starter = pthread_self();
  return getenv("FAKE_CUDA_BROKEN") ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}
FAKE cuDriverGetVersion(int *v) {
  INJECT("cuDriverGetVersion");
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
enum { MOST_DEVICES = 8 };
/* As the driver does it: the numbers of $CUDA_VISIBLE_DEVICES up to the first that is none. */
static int visible(int device[MOST_DEVICES]) {
  const char *count = getenv("FAKE_CUDA_DEVICES"), *s = getenv("CUDA_VISIBLE_DEVICES");
  int all = count ? (int)strtol(count, NULL, 10) : 1, n = 0;
  for (; !s && n < all && n < MOST_DEVICES; n++)
    device[n] = n;
  while (s && *s && n < MOST_DEVICES) {
    char *end;
    long i = strtol(s, &end, 10);
    if (end == s || i < 0 || i >= all)
      break;
    device[n++] = (int)i;
    s = *end == ',' ? end + 1 : end;
  }
  return n;
}
FAKE cuDeviceGetCount(int *n) {
  INJECT("cuDeviceGetCount");
  int device[MOST_DEVICES];
  *n = visible(device);
  return CUDA_SUCCESS;
}
FAKE cuDeviceGet(CUdevice *d, int i) {
  INJECT("cuDeviceGet");
  int device[MOST_DEVICES] = {0}, n = visible(device);
  *d = i >= 0 && i < n ? device[i] : 0;
  return i >= 0 && i < n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
FAKE cuDeviceGetName(char *s, int n, CUdevice d) {
  INJECT("cuDeviceGetName");
  snprintf(s, (size_t)n, "Fake %d", d);
  return CUDA_SUCCESS;
}
FAKE cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice d) {
  INJECT("cuDeviceGetAttribute");
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
  case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    *v = !getenv("FAKE_CUDA_NO_POOL");
    break;
  default:
    *v = 1;
  }
  return CUDA_SUCCESS;
}
FAKE cuDeviceTotalMem_v2(size_t *n, CUdevice d) {
  INJECT("cuDeviceTotalMem_v2");
  (void)d;
  *n = memory();
  return CUDA_SUCCESS;
}
static const char *contexts; /* by device: their addresses are the handles */
FAKE cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) {
  INJECT("cuDevicePrimaryCtxRetain");
  static char context[MOST_DEVICES];
  *c = (CUcontext)(void *)&context[d];
  contexts = context;
  fake.alive++;
  return CUDA_SUCCESS;
}
FAKE cuDevicePrimaryCtxRelease_v2(CUdevice d) {
  INJECT("cuDevicePrimaryCtxRelease_v2");
  (void)d;
  fake.alive--;
  return CUDA_SUCCESS;
}
FAKE cuCtxSetCurrent(CUcontext c) {
  INJECT("cuCtxSetCurrent");
  fake.current = c ? 1 + (int)((const char *)(void *)c - contexts) : 0;
  return CUDA_SUCCESS;
}

/* ---- memory ---------------------------------------------------------------------------------- */

FAKE cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  INJECT("cuMemGetInfo_v2");
  *total = memory();
  *free_bytes = *total - fake.used - fake.held;
  return fake.sticky;
}
static CUresult take(CUdeviceptr *p, size_t n) {
  if (fake.sticky)
    return fake.sticky;
  if (fake.current == 0)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (n > memory() - fake.used - fake.held)
    return CUDA_ERROR_OUT_OF_MEMORY;
  void *data = keep(n);
  memset(data, 0xcd, n < 512 ? n : 512); /* what is read before it is written shows */
  fake.used += n;
  *p = (CUdeviceptr)(uintptr_t)data;
  return CUDA_SUCCESS;
}
static CUresult give(CUdeviceptr p) {
  Block *b = block_of((void *)(uintptr_t)p);
  if (fake.sticky || b->device != fake.current)
    return fake.sticky ? fake.sticky : CUDA_ERROR_INVALID_CONTEXT;
  fake.used -= b->n;
  drop(b + 1);
  return CUDA_SUCCESS;
}
FAKE cuMemAlloc_v2(CUdeviceptr *p, size_t n) {
  INJECT("cuMemAlloc_v2");
  return take(p, n);
}
FAKE cuMemFree_v2(CUdeviceptr p) {
  INJECT("cuMemFree_v2");
  return give(p);
}

/* The pool keeps what is given back until it is trimmed; it is in pieces, so that a request for
 * more than all of them needs memory of its own. */
FAKE cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice d) {
  INJECT("cuDeviceGetDefaultMemPool");
  (void)d;
  *pool = (CUmemoryPool)(void *)&fake;
  return CUDA_SUCCESS;
}
FAKE cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute a, void *value) {
  INJECT("cuMemPoolSetAttribute");
  (void)pool, (void)a, (void)value;
  return CUDA_SUCCESS;
}
FAKE cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute a, void *value) {
  INJECT("cuMemPoolGetAttribute");
  (void)pool;
  *(cuuint64_t *)value = a == CU_MEMPOOL_ATTR_USED_MEM_CURRENT ? fake.used : fake.held;
  return CUDA_SUCCESS;
}
FAKE cuMemPoolTrimTo(CUmemoryPool pool, size_t least) {
  INJECT("cuMemPoolTrimTo");
  (void)pool;
  if (fake.held > least)
    fake.held = least;
  return CUDA_SUCCESS;
}
FAKE cuMemAllocAsync(CUdeviceptr *p, size_t n, CUstream st) {
  INJECT("cuMemAllocAsync");
  ON(st);
  size_t from = n <= fake.held ? n : 0;
  fake.held -= from;
  CUresult r = take(p, n);
  if (r != CUDA_SUCCESS)
    fake.held += from;
  return r;
}
FAKE cuMemFreeAsync(CUdeviceptr p, CUstream st) {
  INJECT("cuMemFreeAsync");
  ON(st);
  size_t n = block_of((void *)(uintptr_t)p)->n;
  CUresult r = give(p);
  if (r == CUDA_SUCCESS)
    fake.held += n;
  return r;
}
FAKE cuMemHostAlloc(void **p, size_t n, unsigned flags) {
  INJECT("cuMemHostAlloc");
  (void)flags;
  *p = keep(n);
  return CUDA_SUCCESS;
}
FAKE cuMemFreeHost(void *p) {
  INJECT("cuMemFreeHost");
  drop(p);
  return CUDA_SUCCESS;
}
FAKE cuMemHostGetDevicePointer_v2(CUdeviceptr *d, void *p, unsigned flags) {
  INJECT("cuMemHostGetDevicePointer_v2");
  (void)flags;
  *d = (CUdeviceptr)(uintptr_t)p;
  return CUDA_SUCCESS;
}
FAKE cuMemcpyHtoDAsync_v2(CUdeviceptr d, const void *s, size_t n, CUstream st) {
  INJECT("cuMemcpyHtoDAsync_v2");
  ON(st);
  memcpy((void *)(uintptr_t)d, s, n);
  return fake.sticky;
}
FAKE cuMemcpyDtoHAsync_v2(void *d, CUdeviceptr s, size_t n, CUstream st) {
  INJECT("cuMemcpyDtoHAsync_v2");
  ON(st);
  memcpy(d, (const void *)(uintptr_t)s, n);
  return fake.sticky;
}
FAKE cuMemcpyDtoDAsync_v2(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream st) {
  INJECT("cuMemcpyDtoDAsync_v2");
  ON(st);
  memmove((void *)(uintptr_t)d, (const void *)(uintptr_t)s, n);
  return fake.sticky;
}
FAKE cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *c, CUstream st) {
  INJECT("cuMemcpy2DAsync_v2");
  ON(st);
  for (size_t i = 0; i < c->Height; i++)
    memmove((char *)(uintptr_t)c->dstDevice + i * c->dstPitch,
            (const char *)(uintptr_t)c->srcDevice + i * c->srcPitch, c->WidthInBytes);
  return fake.sticky;
}
FAKE cuMemsetD8Async(CUdeviceptr d, unsigned char x, size_t n, CUstream st) {
  INJECT("cuMemsetD8Async");
  ON(st);
  memset((void *)(uintptr_t)d, x, n);
  return fake.sticky;
}
FAKE cuMemsetD16Async(CUdeviceptr d, unsigned short x, size_t n, CUstream st) {
  INJECT("cuMemsetD16Async");
  ON(st);
  for (size_t i = 0; i < n; i++)
    memcpy((char *)(uintptr_t)d + 2 * i, &x, 2);
  return fake.sticky;
}
FAKE cuMemsetD32Async(CUdeviceptr d, unsigned x, size_t n, CUstream st) {
  INJECT("cuMemsetD32Async");
  ON(st);
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
  INJECT("cuModuleLoadData");
  if (memcmp(image, "\177ELF", 4) != 0)
    return CUDA_ERROR_INVALID_IMAGE;
  *m = keep(1);
  return fake.sticky;
}
FAKE cuModuleUnload(CUmodule m) {
  INJECT("cuModuleUnload");
  drop(m);
  return CUDA_SUCCESS;
}
/* Names of no function here do nothing; `missing` is not there. */
FAKE cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
  INJECT("cuModuleGetFunction");
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
  INJECT("cuFuncGetAttribute");
  (void)a, (void)f;
  *v = 0;
  return CUDA_SUCCESS;
}
FAKE cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int v) {
  INJECT("cuFuncSetAttribute");
  (void)f, (void)a, (void)v;
  return CUDA_SUCCESS;
}
FAKE cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction f, int threads, size_t shared) {
  INJECT("cuOccupancyMaxActiveBlocksPerMultiprocessor");
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
  INJECT("cuLaunchKernel");
  (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)extra;
  ON(s);
  return run(f, args);
}
FAKE cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **args, void **extra) {
  INJECT("cuLaunchKernelEx");
  (void)extra;
  ON(c->hStream);
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
  INJECT("cuStreamCreate");
  (void)flags;
  if (fake.current == 0)
    return CUDA_ERROR_INVALID_CONTEXT;
  *s = keep(1);
  return CUDA_SUCCESS;
}
FAKE cuStreamDestroy_v2(CUstream s) {
  INJECT("cuStreamDestroy_v2");
  ON(s);
  drop(s);
  return CUDA_SUCCESS;
}
FAKE cuStreamQuery(CUstream s) {
  INJECT("cuStreamQuery");
  ON(s);
  return done();
}
FAKE cuStreamSynchronize(CUstream s) {
  INJECT("cuStreamSynchronize");
  ON(s);
  return fake.sticky;
}
FAKE cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags) {
  INJECT("cuStreamWaitEvent");
  (void)s, (void)e, (void)flags;
  return CUDA_SUCCESS;
}
FAKE cuEventCreate(CUevent *e, unsigned flags) {
  INJECT("cuEventCreate");
  (void)flags;
  if (fake.current == 0)
    return CUDA_ERROR_INVALID_CONTEXT;
  *e = keep(1);
  return CUDA_SUCCESS;
}
FAKE cuEventDestroy_v2(CUevent e) {
  INJECT("cuEventDestroy_v2");
  drop(e);
  return CUDA_SUCCESS;
}
FAKE cuEventRecord(CUevent e, CUstream s) {
  INJECT("cuEventRecord");
  ON(e);
  ON(s);
  return fake.sticky;
}
FAKE cuEventQuery(CUevent e) {
  INJECT("cuEventQuery");
  ON(e);
  return fake.sticky;
}
#undef cuEventElapsedTime /* the first version: this driver has no other */
FAKE cuEventElapsedTime(float *ms, CUevent a, CUevent b);
FAKE cuEventElapsedTime(float *ms, CUevent a, CUevent b) {
  INJECT("cuEventElapsedTime");
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
  INJECT("cuTensorMapEncodeTiled");
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

/* For tests: what is alive, the launches and all calls so far. */
#define PROBE __attribute__((visibility("default")))
PROBE int fake_cuda_alive(void);
int fake_cuda_alive(void) {
  return fake.alive;
}
PROBE int fake_cuda_launches(void);
int fake_cuda_launches(void) {
  return fake.launches;
}
PROBE long fake_cuda_calls(void);
long fake_cuda_calls(void) {
  return fake.calls;
}
/* The nth call of the function from now on fails with this code; name NULL: none does. */
PROBE void fake_cuda_fail(const char *name, int nth, int with);
void fake_cuda_fail(const char *name, int nth, int with) {
  fake.fails = name;
  fake.nth = nth;
  fake.with = (CUresult)with;
}
/* Calls of that function until the one that fails; 0: it has failed. */
PROBE int fake_cuda_waiting(void);
int fake_cuda_waiting(void) {
  return fake.fails ? fake.nth : 0;
}
/* A device that was lost, and what it held, is as new: for the next session of a test. */
PROBE void fake_cuda_renew(void);
void fake_cuda_renew(void) {
  while (kept) {
    Block *next = kept->next;
    free(kept);
    kept = next;
  }
  fake = (Fake){.calls = fake.calls};
}
/* Whether another thread than the caller's started the driver. */
PROBE bool fake_cuda_started_elsewhere(void);
bool fake_cuda_started_elsewhere(void) {
  return !pthread_equal(fake.starter, pthread_self());
}
