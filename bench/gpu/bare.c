/* bare.c: what the driver itself takes for the calls that tilesh makes, for comparison in one run.
 *
 * bare CUBIN KERNEL [once]: starts the driver, loads the cubin, allocates three vectors of 1024
 * f32, launches once, copies back: milliseconds of each. Then, without `once`, microseconds of a
 * launch, queued in a row. The kernel is `add` of latency.tile: its parameters are told by their
 * number alone, for all are words of 8 bytes or fewer. Build: cc -O2 bare.c -o bare -lcuda
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

int main(int argc, char **argv) {
  enum { N = 1024, ROUNDS = 20000 };
  if (argc < 3 || argc > 4)
    return 2;
  char *image = read_file(argv[1]);
  static float host[N];
  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction f;
  CUdeviceptr p[3];
  CUstream stream;
  double start = now();
  must(cuInit(0), "cuInit");
  double inited = now();
  must(cuDeviceGet(&device, 0), "device");
  must(cuDevicePrimaryCtxRetain(&context, device), "context");
  must(cuCtxSetCurrent(context), "context");
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "stream");
  double opened = now();
  must(cuModuleLoadData(&module, image), "module");
  must(cuModuleGetFunction(&f, module, argv[2]), argv[2]);
  for (int i = 0; i < 3; i++)
    must(cuMemAlloc(&p[i], sizeof host), "memory");
  must(cuMemcpyHtoD(p[0], host, sizeof host), "copy");
  uint64_t word[16] = {p[0], p[1], p[2]};
  void *args[16];
  for (int i = 0; i < 16; i++)
    args[i] = &word[i < 3 ? i : 15];
  must(cuLaunchKernel(f, 1, 1, 1, 128, 1, 1, 0, stream, args, NULL), "launch");
  must(cuStreamSynchronize(stream), "wait");
  must(cuMemcpyDtoH(host, p[2], sizeof host), "copy");
  double done = now();
  printf("bare: init %.1f ms, context %.1f, the rest %.1f, all %.1f\n", inited - start,
         opened - inited, done - opened, done - start);
  if (argc == 4)
    return 0;
  double best = 1e9;
  for (int round = 0; round < 5; round++) {
    double t = now();
    for (int i = 0; i < ROUNDS / 20; i++)
      must(cuLaunchKernel(f, 1, 1, 1, 128, 1, 1, 0, stream, args, NULL), "launch");
    t = now() - t;
    must(cuStreamSynchronize(stream), "wait");
    if (t < best)
      best = t;
  }
  printf("bare: a launch takes %.2f us\n", 1e3 * best / (ROUNDS / 20));
  return 0;
}
