/* driver.h: the body of Gpu and the driver's function table; for the files that need cuda.h.
 *
 * Goes in: cuda.h, for types only. Comes out: what device.c, memory.c, launch.c, timing.c and
 * tmap_encode.c share. Always holds: after a sticky error g->lost is set and no driver function is
 * called any more.
 */
#ifndef TILESH_GPU_DRIVER_H
#define TILESH_GPU_DRIVER_H

#include <cuda.h>

#include "private.h"

struct Driver {
  GpuLib lib;
  bool ready; /* initialised: functions may be called */
  char error[640];
  int version;
  CUdevice warm; /* whose context gpu_start_async holds */
  bool warmed;
#define DRIVER(member, symbol, args) CUresult(CUDAAPI *member) args;
#define DRIVER_LATER DRIVER
#include "driver.def"
#undef DRIVER_LATER
#undef DRIVER
};

struct GpuEvent {
  CUevent e;
};

struct GpuKernel {
  CUfunction f;
  size_t shared_set; /* dynamic shared memory opted in to */
  GpuKernel *next;   /* of the same module */
  char name[];
};

struct GpuModule {
  CUmodule m;
  GpuKernel *kernels;
  GpuModule *next;
};

enum { STAGING_BYTES = 4 << 20, DIRECT_BYTES = 64 << 10 };

typedef struct Staging { /* pinned host memory that copies go through */
  void *p;
  CUevent done; /* recorded after the copy that uses it last */
  bool busy;
} Staging;

/* Small memory given back and not handed out again yet, all of one size. */
enum { KEPT_SIZES = 64, KEPT_UNIT = 512, KEPT_BLOCK = 1 << 20, KEPT_ALL = 64 << 20 };
typedef struct Kept {
  size_t bytes; /* of each; a multiple of KEPT_UNIT, at most KEPT_BLOCK */
  size_t n, cap;
  CUdeviceptr *p;
} Kept;

/* What host and device share. The stop word itself is device memory, written by copying one of
 * these by the copy engine: a fill would be a kernel, and find no room beside one that does not
 * end. */
typedef struct GpuWords {
  GpuFault fault;
  uint32_t run, stop; /* 0 and 1 */
} GpuWords;

struct Gpu {
  GpuRt *rt;
  const Driver *d;
  CUdevice device;
  CUcontext context;
  GpuProps props;
  CUstream main, stopper;
  CUmemoryPool pool; /* NULL: plain allocation */
  Kept kept[KEPT_SIZES];
  size_t kept_bytes; /* of all of them, at most KEPT_ALL */
  CUdeviceptr stop_word;
  GpuWords *words; /* pinned memory of the host, mapped */
  CUdeviceptr fault_device;
  CUdeviceptr ring; /* print.c; 0 until wanted */
  bool stopping;    /* the stop word is set, and work that should see it still runs */
  Staging staging[2];
  GpuModule *modules;
  GpuKernel *spin; /* timing.c; NULL until wanted */
  bool no_spin;
  Map *tmaps;        /* tmap_encode.c */
  CUdeviceptr empty; /* what maps of empty tensors point to; 0 until wanted */
  Arena *tmap_arena;
  Arena *why_arena;
  Str why;
  bool lost;
};

/* ST_OK for CUDA_SUCCESS; else leaves "call: NAME, words" (and the detail, if any) in gpu_why, sets
 * g->lost after a sticky error, and gives ST_NOMEM or ST_DEVICE. */
Status gpu_result(Gpu *g, CUresult r, const char *call, const char *detail);
/* Whether g may be used; leaves the reason. */
bool gpu_alive(Gpu *g);
/* Sets gpu_why. */
Status gpu_refuse(Gpu *g, Status st, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Memory that was given back goes to the driver. */
void gpu_kept_drop(Gpu *g);
/* Waits for an event, or with e NULL for a stream, polling for interrupts; ST_INTERRUPTED then,
 * with the work still running. */
Status gpu_wait(Gpu *g, CUevent e, CUstream s);

#define GPU_TRY(g, call, ...)                                                                      \
  do {                                                                                             \
    Status try_st = gpu_result((g), (call), #call, __VA_ARGS__);                                   \
    if (try_st != ST_OK)                                                                           \
      return try_st;                                                                               \
  } while (0)

#endif
