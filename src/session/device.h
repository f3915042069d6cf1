/* device.h: launches on the CUDA device: device.c (opening and choosing), device_build.c (CUDA text
 * to a loaded program), ahead.c (what will be compiled next), device_launch.c (data, launches,
 * times), device_fault.c (waiting; what queued calls reported and printed), plan.c (warm calls),
 * roofline.c and peer.c (what to compare with). What every file of the session asks (is a device in
 * use, wait for it) stands in impl.h.
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

struct SessionGpu {                /* one device; Session.gpu is the one in use */
  GpuRt *rt;                       /* of all */
  struct SessionGpu *first, *next; /* of those that were opened */
  Gpu *gpu;                        /* NULL: none is; kernels run on the evaluator */
  bool decided;
  GpuGuess guess; /* what it will probably be; used while Session.ahead is set and none is open */
  char name[32];  /* "cuda:0" */
  StorageDevice device;
  Queued *queued;
  size_t nqueued, cap;
  double bytes_per_s; /* of a large copy; 0: not measured yet (roofline.c) */
};

typedef struct Buffer { /* a storage's device copy */
  SessionGpu *g;
  GpuPtr p;
  size_t bytes;
  Status fetched; /* of the last copy to the host */
} Buffer;

struct DeviceProgram {
  SessionGpu *g;
  const IrKernel *ir; /* thread level */
  CudaText *text;
  GpuModule *module;
  GpuKernel *kernel;
  int64_t at_a_time; /* blocks that a multiprocessor holds; 0: not known */
};

/* A launch whose arguments lie ready. */
typedef struct DevicePrepared {
  Launch *l;
  DeviceProgram *program;
  const IrBinding *binding; /* of the program's IR */
  GpuLaunch launch;
  bool empty; /* a grid without blocks: nothing runs */
} DevicePrepared;

/* The session's device state, made on first use: a program without kernels never touches src/gpu.
 */
SessionGpu *device_state(Session *s);
/* Fails at the place with what src/gpu said last; the exit status is 4. */
_Noreturn void device_failed(Session *s, Span span);
/* The device copy of a storage, made where there is none; not filled. `name` is said when memory is
 * short, at `where`. */
Buffer *device_buffer(Launch *l, Storage *storage, const char *name, Span where);
/* Of a tensor whose storage has a device copy; views begin at an offset. */
GpuPtr device_address(const Tensor *t);
/* A new tensor on the device, its elements undefined; a temporary of the session. Fails, and names
 * the output, where memory is short. */
Tensor *device_tensor(Session *s, DType t, int rank, const int64_t *extent, const char *name,
                      Span where);
/* The same; NULL where memory is short. */
Tensor *device_tensor_if_room(Session *s, DType t, int rank, const int64_t *extent,
                              const char *name, Span where);
/* Room on the device for the launch's packed copies, and queues filling them: before each launch.
 * False: memory is short, and from here on the launch packs nothing: its program is another. */
bool device_pack(Launch *l);
Status device_pack_queue(Launch *l);
/* Gives the copies' room back, in the order of what is queued: later calls may have it. */
void device_unpack(Launch *l);
/* The same, and from here on the launch packs nothing. */
void device_pack_not(Launch *l);
/* Which parameter of the thread level a buffer is: the launch's have the same places, behind them
 * stands what lowering added; params.n: none. */
size_t device_param(const IrKernel *k, const IrBuffer *buf);
/* What a tensor map says for this binding, over a tensor at `base`. */
GpuTmap device_map(const IrTmap *m, const IrBinding *b, GpuPtr base);
/* Queues the launch; what it prepared goes to *p, which lives as long as the statement. */
void device_launch(Launch *l, DevicePrepared *p);
/* After a launch was queued: faults and prints of the text's kernel are reported at this place.
 * Waits where too many calls are queued or where the kernel prints. */
void device_remember(Session *s, Span span, const char *name, const CudaText *text);
/* Times launches of the kernel on the device; figures in milliseconds. */
void device_time(Launch *l, const GpuTimeOptions *o, GpuTiming *out);
/* Times cuBLASLt's product of the same arguments, after device_time; false with a reason where the
 * launch is none, or where the library is not there (peer.c). */
bool device_peer(Launch *l, const GpuTimeOptions *o, GpuTiming *out, Str *why);
/* Share of the open device's roofline that a launch reached in `ms`; 0 where unknown. */
double device_roofline(Launch *l, double ms, double flops, double bytes);
/* Operations a clock and multiprocessor of products of these types, by the unit that does them. */
double device_rate(const GpuProps *p, const LowerProduct *x);
const GpuProps *device_props(Session *s); /* NULL: no device is open */
/* Blocks of a compiled kernel that a multiprocessor of the target holds at a time (stats.c). */
int64_t device_at_a_time(const Target *t, const GpuFacts *f, int threads, size_t dynamic);
/* What the compiled kernel takes; needs the compiler, but no device. threads: of a block; dynamic:
 * bytes of shared memory beside facts->shared_bytes. */
const GpuFacts *device_facts(Launch *l, int *threads, size_t *dynamic);
/* CUDA text, PTX or cubin of the launch's kernel. */
void device_emit(Launch *l, SessionEmit stage, Str *out);
/* Lowers the launch's kernel, prints it, and begins to compile it beside (gpu_compile_start). Fails
 * with diagnostics. */
GpuStart device_begin(Launch *l);
/* Begins to compile the launch's kernel, and what the program's next statements will probably want
 * (ahead.c). Fails never, and changes nothing that the program could see. */
void session_look_ahead(Launch *l);
/* The same for a call that waits for the driver to start: by what the device was the last time. */
void session_look_ahead_of_driver(Session *s, Value kernel, const Args *a);
/* What is compiled for: the open device's architecture, or the one guessed; NULL: none is known. */
const char *device_arch(const Session *s);
/* Asks the last time's device into SessionGpu.guess; false where nothing is known of it. */
bool device_guess(Session *s);
/* The variant's program, loaded on the device; compiled where it is not there yet. Fails with
 * diagnostics. */
DeviceProgram *device_program(Launch *l);
void device_program_free(DeviceProgram *p);

/* plan.c: a warm call. plan_call: true if an earlier call's plan held; the launch is queued then.
 * plan_keep: after device_launch of a call with these arguments. */
bool plan_call(Session *s, Value kernel, Args *a, Value *result);
void plan_keep(Value kernel, const Args *a, const DevicePrepared *d);

#endif
