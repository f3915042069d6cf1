/* bare.c: what the driver itself takes for the calls that tilesh makes, for comparison in one run.
 *
 * bare CUBIN KERNEL [once]: starts the driver and makes what a session of tilesh makes on a device,
 * loads the cubin, takes three vectors of 1024 f32 from the pool, fills two, launches once, copies
 * back, gives all of it back: milliseconds of each. Then, without `once`, microseconds of a launch,
 * queued in a row. The kernel is `add` of latency.tile: its parameters are told by their number
 * alone, for all are words of 8 bytes or fewer. Build: cc -O2 bare.c -o bare -lcuda
 */
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void must(CUresult r, const char *what) {
  if (r != CUDA_SUCCESS) {
    fprintf(stderr, "bare: %s: error %d\n", what, (int)r);
    exit(1);
  }
}

static char *read_file(const char *path) {
  FILE *f = fopen(path, "rb");
  char *text = malloc(1 << 24);
  size_t n = f && text ? fread(text, 1, (1 << 24) - 1, f) : 0;
  if (n == 0) {
    fprintf(stderr, "bare: %s cannot be read\n", path);
    exit(1);
  }
  fclose(f);
  return text;
}

/* What a session makes before its first kernel: streams, the pool, the word that stops kernels, the
 * record of faults, which the host reads. */
typedef struct Session {
  CUdevice device;
  CUcontext context;
  CUstream stream, stopper;
  CUmemoryPool pool;
  CUdeviceptr stop, seen;
  void *record;
} Session;

static void open_session(Session *s) {
  uint64_t keep = UINT64_MAX;
  must(cuDevicePrimaryCtxRetain(&s->context, s->device), "context");
  must(cuCtxSetCurrent(s->context), "context");
  must(cuStreamCreate(&s->stream, CU_STREAM_NON_BLOCKING), "stream");
  must(cuStreamCreate(&s->stopper, CU_STREAM_NON_BLOCKING), "stream");
  must(cuDeviceGetDefaultMemPool(&s->pool, s->device), "pool");
  must(cuMemPoolSetAttribute(s->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep), "pool");
  must(cuMemAlloc(&s->stop, 256), "memory");
  must(cuMemsetD32Async(s->stop, 0, 64, s->stream), "fill");
  must(cuMemHostAlloc(&s->record, 4096, CU_MEMHOSTALLOC_DEVICEMAP), "host memory");
  must(cuMemHostGetDevicePointer(&s->seen, s->record, 0), "host memory");
}

static void close_session(Session *s) {
  must(cuStreamSynchronize(s->stream), "wait");
  must(cuMemFreeHost(s->record), "host memory");
  must(cuMemFree(s->stop), "memory");
  must(cuStreamDestroy(s->stream), "stream");
  must(cuStreamDestroy(s->stopper), "stream");
  must(cuDevicePrimaryCtxRelease(s->device), "context");
}

static void launch(CUfunction f, Session *s, void **args) {
  must(cuLaunchKernel(f, 1, 1, 1, 128, 1, 1, 0, s->stream, args, NULL), "launch");
}

/* Microseconds of a launch, the best of five rounds. */
static double launches(CUfunction f, Session *s, void **args) {
  enum { EACH = 1000 };
  double best = 1e9;
  for (int round = 0; round < 5; round++) {
    double t = now();
    for (int i = 0; i < EACH; i++)
      launch(f, s, args);
    t = now() - t;
    must(cuStreamSynchronize(s->stream), "wait");
    if (t < best)
      best = t;
  }
  return 1e3 * best / EACH;
}

int main(int argc, char **argv) {
  enum { N = 1024 };
  if (argc < 3 || argc > 4)
    return 2;
  char *image = read_file(argv[1]);
  static float host[N];
  Session s = {0};
  CUmodule module;
  CUfunction f;
  CUdeviceptr p[3];
  double start = now();
  must(cuInit(0), "cuInit");
  double inited = now();
  must(cuDeviceGet(&s.device, 0), "device");
  open_session(&s);
  double opened = now();
  must(cuModuleLoadData(&module, image), "module");
  must(cuModuleGetFunction(&f, module, argv[2]), argv[2]);
  for (int i = 0; i < 3; i++)
    must(cuMemAllocAsync(&p[i], sizeof host, s.stream), "memory");
  for (int i = 0; i < 2; i++)
    must(cuMemcpyHtoDAsync(p[i], host, sizeof host, s.stream), "copy");
  uint64_t word[16] = {p[0], p[1], p[2]};
  void *args[16];
  for (int i = 0; i < 16; i++)
    args[i] = &word[i < 3 ? i : 15];
  launch(f, &s, args);
  must(cuMemcpyDtoHAsync(host, p[2], sizeof host, s.stream), "copy");
  must(cuStreamSynchronize(s.stream), "wait");
  double done = now(), each = argc == 4 ? 0 : launches(f, &s, args), closing = now();
  for (int i = 0; i < 3; i++)
    must(cuMemFreeAsync(p[i], s.stream), "memory");
  must(cuModuleUnload(module), "module");
  close_session(&s);
  printf("bare: init %.1f ms, context %.1f, the rest %.1f, all %.1f, the end %.1f\n",
         inited - start, opened - inited, done - opened, done - start, now() - closing);
  if (argc == 3)
    printf("bare: a launch takes %.2f us\n", each);
  free(image);
  return 0;
}
