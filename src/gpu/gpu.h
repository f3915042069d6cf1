/* gpu.h: the CUDA backend: compile CUDA text, run kernels, move memory, and say what is missing.
 *
 * Three handles, by what they need:
 *   GpuRt     the host side: where libcuda and NVRTC are, the cubin cache. Making one touches no
 *             CUDA library; each is opened on first use.
 *   GpuImage  a compiled cubin with its facts and the verdict of the gate. Needs NVRTC, no GPU.
 *   Gpu       an open device. Needs the driver.
 * A build without cuda.h (HAVE_CUDA undefined) has the same functions; those that need a device
 * return ST_DEVICE and say so. Nothing here prints, exits or raises.
 *
 * Failure: a function with a `Str *why` appends a sentence to it (why may be NULL). Functions on a
 * Gpu leave the sentence in gpu_why(). Tests: tests/unit/check_gpu.c, tests/gpu.
 */
#ifndef TILESH_GPU_GPU_H
#define TILESH_GPU_GPU_H

#include "base/base.h"

typedef struct GpuRt GpuRt;
typedef struct Gpu Gpu;
typedef struct GpuModule GpuModule;
typedef struct GpuKernel GpuKernel;
typedef uint64_t GpuPtr; /* an address in device memory; 0 is none */

/* ---- the host side ------------------------------------------------------------------------- */

typedef struct GpuConfig {
  const char *cache_dir;    /* NULL: $TILESH_CACHE_DIR, $XDG_CACHE_HOME/tilesh, ~/.cache/tilesh */
  const char *library_path; /* folders, ':' between, searched instead of the usual places;
                               NULL: $TILESH_CUDA_PATH, and where that is unset the usual places */
  uint64_t cache_bytes;     /* bound of the cache; 0: 1 GiB */
  unsigned cache_entries;   /* 0: 4096 */
  bool no_cache;            /* neither read nor write it */
  int compilers;            /* that gpu_compile_start lets run at a time; below 2: none */
  bool (*interrupted)(void *ctx); /* polled in every wait; true ends it. NULL: never */
  void *ctx;
} GpuConfig;

/* Never fails, costs microseconds, opens nothing. cfg may be NULL and is copied. A GpuRt may be
 * used by several threads at once. */
GpuRt *gpu_rt_new(const GpuConfig *cfg);
/* All Gpus of it must be closed. NULL is allowed. */
void gpu_rt_free(GpuRt *rt);
/* Whether this build has the CUDA backend. */
bool gpu_built(void);
/* Starts the driver and the device's context on a helper thread, so that a gpu_open that follows
 * finds them ready. Calling it twice, or without a driver, is harmless. */
void gpu_start_async(GpuRt *rt, int ordinal);
/* What a device was when it was last opened: enough to compile for it while it starts. */
typedef struct GpuGuess {
  char arch[16];
  int sms;
  int driver; /* its version, 13000 */
} GpuGuess;
/* From the cache, by ordinal and $CUDA_VISIBLE_DEVICES; gpu_open keeps it right. False: nothing is
 * known. The memory is for what is read. */
bool gpu_guess(GpuRt *rt, int ordinal, Arena *a, GpuGuess *out);
/* Appends what `tilesh doctor` shows: driver, devices, NVRTC, architecture, cache, and for each
 * thing that is missing how to get it. Never fails. Lines end in newlines. */
void gpu_doctor(GpuRt *rt, Str *out);

/* ---- the cubin cache ----------------------------------------------------------------------- */

typedef struct GpuCacheInfo {
  const char *dir; /* empty when there is no place for it; the GpuRt's */
  uint64_t bytes;  /* of all entries */
  unsigned entries;
  bool usable;       /* can be read and written */
  char problem[128]; /* when not usable: why */
} GpuCacheInfo;

/* What lies in it now; an empty `dir` is no error. */
GpuCacheInfo gpu_cache_info(GpuRt *rt);
/* Removes all entries (never anything else); returns how many. */
unsigned gpu_cache_clear(GpuRt *rt);

/* ---- compiling ----------------------------------------------------------------------------- */

typedef struct GpuCompile {
  const char *name;           /* shown in messages, as a file name: "matmul.cu" */
  const char *text;           /* self-contained CUDA C, NUL-terminated */
  const char *arch;           /* "sm_80", "sm_89", "sm_90a" */
  const char *const *options; /* more NVRTC options, after our own */
  int noptions;
  bool lineinfo; /* line tables for profilers: 2.6 times the size */
  bool want_ptx; /* keep the PTX too */
} GpuCompile;

typedef struct GpuFacts { /* of one kernel, read from the cubin itself */
  const char *name;
  unsigned registers;    /* a thread, at entry */
  unsigned local_bytes;  /* a thread: stack frame and spills; 0 in good code */
  unsigned shared_bytes; /* static, a block, with what the system reserves */
  unsigned param_bytes;  /* of the parameters */
  unsigned max_threads;  /* of __launch_bounds__, 0 if not given */
  unsigned code_bytes;
} GpuFacts;

typedef struct GpuWarning {
  int code;         /* of ptxas, 7510 for (C7510); 0 when it had none */
  bool refused;     /* one of those that make the gate fail */
  const char *text; /* the whole line */
} GpuWarning;

typedef struct GpuImage {
  const char *name, *arch;
  const void *cubin;
  size_t cubin_n;
  const char *ptx; /* NULL unless wanted */
  const char *log; /* all NVRTC said, "" if nothing */
  const GpuFacts *kernels;
  int nkernels;
  const GpuWarning *warnings;
  int nwarnings;
  bool gate;            /* fit to run: no local memory and none of the refused warnings */
  const char *gate_why; /* else the first reason, a sentence without its full stop */
  bool cached;          /* came from the disk */
  double ms;            /* what getting it took */
} GpuImage;

/* Compiles to a cubin, or takes it from the cache. The image and all it points to live in the
 * arena. ST_OK also when the gate refuses: ask image->gate. ST_COMPILE: the text is wrong (our
 * bug; the log is in why). ST_DEVICE: no NVRTC, or one that does not know the architecture.
 * ST_INTERRUPTED: GpuConfig.interrupted said so while it compiled; nothing is kept.
 * Safe to call from several threads, each with an arena of its own. */
Status gpu_compile(GpuRt *rt, const GpuCompile *job, Arena *a, GpuImage **out, Str *why);
/* Begins that compilation on a helper thread, with copies of all that the job says; a gpu_compile
 * of an equal job waits for it and takes the result. Nothing is reported: what fails is compiled
 * again there, and fails there. Those that nobody takes end with the GpuRt. */
typedef enum GpuStart {
  GPU_START_NONE,   /* no compiler, no memory, or as many compile already as may */
  GPU_START_CACHED, /* there is nothing to compile */
  GPU_START_BEGUN   /* now or before */
} GpuStart;
GpuStart gpu_compile_start(GpuRt *rt, const GpuCompile *job);
const GpuFacts *gpu_image_kernel(const GpuImage *image, const char *name); /* NULL if not there */
/* "13.0", or NULL with a reason in why. The text lives as long as rt. */
const char *gpu_nvrtc_version(GpuRt *rt, Str *why);

/* ---- a device ------------------------------------------------------------------------------ */

typedef struct GpuProps {
  char name[128];
  char arch[16]; /* what to compile for: "sm_90a" */
  int ordinal, major, minor;
  int driver; /* 13000 is CUDA 13.0 */
  int sms, regs_per_sm, threads_per_sm;
  size_t shared_block;               /* dynamic and static, the most a block can have (opt-in) */
  size_t shared_sm, shared_reserved; /* a multiprocessor has; the system takes of each block */
  size_t l2, memory;
  int clock_khz, memory_clock_khz, memory_bus_bits;
  bool tma, clusters, pools;
} GpuProps;

/* Opens device `ordinal` (in the order and with the filter of CUDA_VISIBLE_DEVICES). ST_DEVICE and
 * a sentence that says what to install or do when there is none. A Gpu belongs to the thread that
 * opened it, and all Gpus of a GpuRt to the same one: each call makes its device's context current.
 */
Status gpu_open(GpuRt *rt, int ordinal, Gpu **out, Str *why);
/* Frees everything still held on the device. NULL is allowed; safe on a lost device. */
void gpu_close(Gpu *g);
const GpuProps *gpu_props(const Gpu *g); /* as long as g is open */
/* Why the last failing call on g failed: the call, the driver's error name and its words. */
const char *gpu_why(const Gpu *g);
/* After a fault of the hardware the driver refuses everything until the process ends: true, and
 * every call returns ST_DEVICE at once. */
bool gpu_lost(const Gpu *g);

/* ---- memory -------------------------------------------------------------------------------- */

/* Stream-ordered on the main stream, 256-byte aligned, contents undefined. `what` names the tensor
 * in the message of ST_NOMEM; unused memory of the pool is given back before giving up. bytes 0
 * gives a pointer that may be freed. */
Status gpu_alloc(Gpu *g, size_t bytes, const char *what, GpuPtr *out);
/* After all work queued so far; `bytes` as it was asked for. p 0 is allowed. */
Status gpu_free(Gpu *g, GpuPtr p, size_t bytes);
/* Host to device; src may be reused on return, the device side is in order of the main stream. */
Status gpu_upload(Gpu *g, GpuPtr dst, const void *src, size_t n);
/* Device to host; waits for all that was queued before. */
Status gpu_download(Gpu *g, void *dst, GpuPtr src, size_t n);
Status gpu_copy(Gpu *g, GpuPtr dst, GpuPtr src, size_t n); /* on the device, queued */
/* Where rows begin: the first, and so many bytes from one to the next. */
typedef struct GpuRows {
  GpuPtr at;
  size_t pitch;
} GpuRows;
/* The same of `rows` rows of n bytes each; neither pitch is less. */
Status gpu_copy_rows(Gpu *g, GpuRows dst, GpuRows src, size_t n, size_t rows);
/* count words of 1, 2 or 4 bytes set to value; queued. */
Status gpu_fill(Gpu *g, GpuPtr dst, unsigned width, uint32_t value, size_t count);

/* ---- kernels ------------------------------------------------------------------------------- */

/* Loads a cubin; needs the image only during the call. */
Status gpu_module_load(Gpu *g, const GpuImage *image, GpuModule **out);
/* Its kernels go with it. One that is gone already, with its device or without, is allowed. */
void gpu_module_unload(Gpu *g, GpuModule *m);
/* The kernel of that name; it belongs to the module. Asking twice gives the same one. */
Status gpu_module_kernel(Gpu *g, GpuModule *m, const char *name, GpuKernel **out);

typedef struct GpuLaunch {
  GpuKernel *kernel;
  unsigned grid[3];    /* a 0 means no block at all: a success that does nothing */
  unsigned block[3];   /* 0 counts as 1 */
  unsigned cluster[3]; /* all 0: none; else 0 counts as 1 */
  size_t shared;       /* dynamic, bytes */
  bool pdl;            /* may start before its predecessor ends (griddepcontrol.wait) */
  void **args;         /* one pointer a parameter, to its value */
  const char *where;   /* "matmul.tile:12", for messages; NULL allowed */
} GpuLaunch;

/* Queues a launch. The opt-in for much shared memory is made here, once a kernel. */
Status gpu_launch(Gpu *g, const GpuLaunch *l);

/* Waits for all work on the main stream. Polls GpuConfig.interrupted: then sets the stop word,
 * gives kernels 2 seconds to leave and returns ST_INTERRUPTED; the word is cleared as soon as they
 * have left. */
Status gpu_sync(Gpu *g);

/* A word in device memory, 0 while kernels may run. Kernels poll it in loops no range bounds. */
GpuPtr gpu_stop_word(const Gpu *g);

/* What a kernel recorded of its first fault: CudaText's sites (src/lower) say which check it was.
 */
typedef struct GpuFault {
  uint32_t claimed; /* 0 while there is none; claimed by compare-and-swap */
  uint32_t site;
  int64_t value[2]; /* the index and the extent */
  uint32_t block[3];
  uint32_t call; /* CUDA_ARG_CALL of the launch */
} GpuFault;

/* The device's address of a GpuFault, zero while there is none. It is mapped memory of the host, so
 * that reading it costs no copy and works after the device was lost. */
GpuPtr gpu_fault_slot(const Gpu *g);
/* After a wait: copies the record and clears it; false if there is none. */
bool gpu_fault_take(Gpu *g, GpuFault *out);

/* The ring that kernels print to: a GpuPrintHead, then words (src/lower, CudaPrint). Made on first
 * request. */
Status gpu_print_ring(Gpu *g, GpuPtr *out);
typedef struct GpuPrintHead {
  uint32_t used, dropped, size,
      unused; /* words used (may exceed size), lines lost, words there are */
} GpuPrintHead;
/* One line: where it comes from, and its values. */
typedef struct GpuPrintLine {
  uint32_t line, call, thread;
  uint32_t block[3];
  const uint64_t *value;
  size_t nvalues;
} GpuPrintLine;
/* After a wait: the lines printed since the last time, by call and block, in each block in the
 * order they were printed; empties the ring. Memory from the arena. */
Status gpu_print_take(Gpu *g, Arena *a, GpuPrintLine **lines, size_t *n, uint32_t *dropped);

/* ---- timing -------------------------------------------------------------------------------- */

typedef struct GpuTimeOptions { /* zeros: the defaults in brackets */
  int warmup;                   /* launches before the first burst [3] */
  int bursts;                   /* [10] */
  int launches;                 /* of each burst [10] */
  bool flush; /* empty the L2 cache before each launch; bursts are of one launch then [at least 20]
               */
} GpuTimeOptions;

typedef struct GpuTiming {
  double median_ms; /* of one launch, over the bursts */
  double min_ms, max_ms;
  double spread; /* half the distance between the quartiles, as a share of the median */
  int bursts;
} GpuTiming;

/* Times launch(ctx), which queues one round on the main stream; where a round lasts long, with
 * fewer launches and bursts than asked for (at least three of one launch). */
Status gpu_time(Gpu *g, const GpuTimeOptions *o, Status (*launch)(void *ctx), void *ctx,
                GpuTiming *out);

/* ---- a peer -------------------------------------------------------------------------------- */

/* A matrix on the device: address of element (0, 0), extents, element strides. */
typedef struct GpuMatrix {
  GpuPtr at;
  int64_t extent[2], stride[2];
  int64_t batch; /* elements from one matrix to the next */
} GpuMatrix;
typedef struct GpuProduct { /* c = a @ b, `batch` times */
  DType dtype, result;      /* of a and b, of c */
  int64_t batch;            /* 1: a single product */
  GpuMatrix a, b, c;
} GpuProduct;
typedef struct GpuMatmul GpuMatmul;

/* cuBLASLt's product, to measure against: ST_DEVICE with a reason where the library is not there or
 * has none for these types and strides. The plan holds addresses, not memory. */
Status gpu_matmul_new(Gpu *g, const GpuProduct *q, GpuMatmul **out);
/* Queues it on the main stream. */
Status gpu_matmul_run(GpuMatmul *p);
/* NULL is allowed. */
void gpu_matmul_free(GpuMatmul *p);

/* ---- tensor maps --------------------------------------------------------------------------- */

enum { GPU_TMAP_BYTES = 128, GPU_TMAP_RANK = 5 };

typedef struct GpuTmap { /* axis 0 is the innermost, of unit stride; outside elements read as 0 */
  DType dtype;
  int rank; /* 1 to 5 */
  GpuPtr base;
  uint64_t extent[GPU_TMAP_RANK]; /* elements; 0 too: such a map loads zeros and stores nothing */
  uint64_t stride[GPU_TMAP_RANK]; /* bytes; [0] is ignored */
  uint32_t box[GPU_TMAP_RANK];    /* elements, 1 to 256 */
  uint32_t step[GPU_TMAP_RANK];   /* element strides, 1 to 8; 0 counts as 1 */
  int swizzle;                    /* 0, 32, 64 or 128 bytes */
  int l2;                         /* promotion: 64, 128, 256; -1 none; 0: as the rows lie */
} GpuTmap;

/* Checks the rules of the hardware; false with a sentence in why. Needs no device. */
bool gpu_tmap_check(const GpuTmap *t, Str *why);
/* Whether the tensor of a map has no element. */
bool gpu_tmap_empty(const GpuTmap *t);
/* Encodes into 128 bytes that are passed by value as a __grid_constant__ parameter; out must be
 * 64-byte aligned. Equal descriptions are encoded once. */
Status gpu_tmap_encode(Gpu *g, const GpuTmap *t, void *out);

#endif
