/* device.h: what the files about the CUDA device share: device.c (opening and choosing),
 * device_build.c (CUDA text to a loaded program), device_launch.c (data, launches, times) and
 * device_fault.c (waiting; what queued calls reported and printed).
 *
 * Queued calls are remembered with their places until the host waits: a fault that the device
 * recorded is then reported at the call and at the line of the kernel.
 */
#ifndef TILESH_SESSION_DEVICE_H
#define TILESH_SESSION_DEVICE_H

#include "gpu/gpu.h"
#include "kernel.h"

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

/* The session's device state, made on first use: a program without kernels never touches src/gpu.
 */
SessionGpu *device_state(Session *s);
/* Fails at the place with what src/gpu said last; the exit status is 4. */
_Noreturn void device_failed(Session *s, Span span);
/* The device copy of a storage, made where there is none; not filled. `name` is said when memory is
 * short, at `where`. */
Buffer *device_buffer(Launch *l, Storage *storage, const char *name, Span where);
/* The variant's program, loaded on the device; compiled where it is not there yet. Fails with
 * diagnostics. */
GpuProgram *device_program(Launch *l);

#endif
