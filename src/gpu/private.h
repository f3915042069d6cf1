/* private.h: what the files of src/gpu share and only its own tests see beside them.
 *
 * Goes in: nothing. Comes out: the body of GpuRt, the two tables of library functions, digests and
 * entries of the cache, what is read out of cubins, events, and the helpers for reasons. Always
 * holds: a table is either wholly resolved or its handle is NULL, and everything behind rt->lock is
 * written once.
 */
#ifndef TILESH_GPU_PRIVATE_H
#define TILESH_GPU_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "gpu.h"

/* ---- a library, opened on first use -------------------------------------------------------- */

enum { GPU_PATH = 4096 }; /* bytes of a path, with the NUL: the system takes no longer ones */

typedef struct GpuLib {
  void *handle;
  bool tried;
  char path[GPU_PATH]; /* where it was found */
  char error[512];     /* why not, when tried and handle is NULL */
} GpuLib;

/* Opens the first that exists of `names` (a NULL ends them), in the places of the file head of
 * lib.c. Fills in lib; true if it is open. */
bool gpu_lib_open(GpuRt *rt, GpuLib *lib, const char *const *names);
void gpu_lib_close(GpuLib *lib);
/* The next folder of a list separated by ':', and the list behind it; false at the end. One that is
 * longer than any path may be is passed over. */
bool gpu_next_folder(const char **list, char folder[GPU_PATH]);
/* Puts the address of a function into *fn (a pointer to function, of any type). */
bool gpu_lib_symbol(GpuLib *lib, const char *symbol, void *fn);

typedef struct NvrtcProgramBody *NvrtcProgram;

typedef struct Nvrtc {
  GpuLib lib;
  const char *(*error_text)(int);
#define NVRTC(member, symbol, args) int(*member) args;
#include "nvrtc.def"
#undef NVRTC
  /* Asked now and then while it compiles: anything but 0 ends that. NULL: too old to have it. */
  int (*set_flow)(NvrtcProgram, int (*)(void *, void *), void *);
  int major, minor;
  char version_text[16];
} Nvrtc;

typedef struct Driver Driver;     /* driver.h; needs cuda.h */
typedef struct GpuAhead GpuAhead; /* ahead.c: one compilation on a helper thread */

struct GpuRt {
  GpuConfig cfg;
  char cache_dir[GPU_PATH]; /* empty: there is none */
  size_t cache_dir_bytes;   /* of one that is too long to be a path, else 0 */
  char *library_path;
  bool only_library_path;
  char build_id[80];
  pthread_mutex_t lock; /* of nvrtc and of what is known of it */
  Nvrtc nvrtc;
  const char *recalled;        /* the name whose version was looked for last */
  char known_version[16];      /* of the NVRTC that would be opened by it; empty: not known */
  pthread_mutex_t driver_lock; /* of driver; its own, for starting a driver takes long */
  Driver *driver;              /* NULL until first use */
  Gpu *current;                /* whose context the calling thread has */
  _Atomic int driver_version;  /* 13000; 0 until it is loaded */
  _Atomic int driver_guess;    /* what it will be, by the last gpu_guess; 0: not known */
  pthread_t starter;
  bool started, joined; /* the helper thread of gpu_start_async */
  GpuGuess guess;       /* of gpu_guess; no arch: none */
  pthread_mutex_t ahead_lock;
  GpuAhead *ahead; /* begun and not taken yet, the oldest first */
};

/* The table, opened if need be; NULL with a reason in why. */
const Nvrtc *gpu_nvrtc(GpuRt *rt, Str *why);
/* Fills in rt->known_version where the cache says which version the NVRTC has that would be opened
 * now by that name; and remembers it of the one that was. */
void gpu_version_recall(GpuRt *rt, const char *name);
void gpu_version_keep(GpuRt *rt, const char *name);
/* Waits for the helper thread of gpu_start_async and gives the driver's tables back. */
void gpu_driver_free(GpuRt *rt);

/* ---- digests and entries of the cubin cache ------------------------------------------------ */

typedef struct GpuKey {
  unsigned char b[32];
} GpuKey;

typedef struct GpuHash { /* SHA-256 in progress */
  uint32_t h[8];
  uint64_t n;
  unsigned char block[64];
} GpuHash;

/* Begin, add, end: the digest of all bytes added, in order. */
void gpu_hash_begin(GpuHash *h);
void gpu_hash_add(GpuHash *h, const void *p, size_t n);
/* Adds the length and then the text, so that neighbouring texts cannot run together. */
void gpu_hash_text(GpuHash *h, const char *s);
GpuKey gpu_hash_end(GpuHash *h);

/* Whether there is an entry, good or not. */
bool gpu_cache_has(const GpuRt *rt, const GpuKey *key);
/* Reads the entry of `key` into the arena, checked against its own digest. False when there is
 * none or anything at all is wrong with it (a damaged entry is removed). */
bool gpu_cache_get(GpuRt *rt, const GpuKey *key, Arena *a, const void **data, size_t *n);
/* Stores an entry, whole or not at all, and drops the oldest ones past the bound. Failing to costs
 * time later, so there is nothing to report. */
void gpu_cache_put(GpuRt *rt, const GpuKey *key, const void *data, size_t n);
/* The same for what was found out about the machine: beside the entries, not one of them. */
bool gpu_known_get(GpuRt *rt, const GpuKey *key, Arena *a, const void **data, size_t *n);
void gpu_known_put(GpuRt *rt, const GpuKey *key, const void *data, size_t n);

/* ---- compiling ----------------------------------------------------------------------------- */

/* What a compilation came to, as the cache holds it. */
typedef struct GpuStored {
  const void *data;
  size_t n;
} GpuStored;
/* Who may end a compilation: GpuConfig.interrupted, and the flag. */
typedef struct GpuStop {
  GpuRt *rt;
  const atomic_bool *asked; /* or NULL */
} GpuStop;

/* The key of a job; the statuses of gpu_compile where it has none. */
Status gpu_compile_key(GpuRt *rt, const GpuCompile *job, GpuKey *out, Str *why);
/* Compiles, and stores in the cache; the statuses of gpu_compile. On any thread. */
Status gpu_nvrtc_make(const GpuCompile *job, GpuStop stop, Arena *a, GpuStored *out, Str *why);
/* After device `ordinal` was opened: what the next gpu_guess says. */
void gpu_guess_keep(GpuRt *rt, const GpuProps *p);
/* Waits for a compilation with that key that gpu_compile_start began, and copies what it came to
 * into the arena. False: there is none, or it failed; what failed is forgotten. */
bool gpu_ahead_take(GpuRt *rt, const GpuKey *key, Arena *a, GpuStored *out);
/* Ends them all and waits for their threads. */
void gpu_ahead_free(GpuRt *rt);
/* A thread that takes no signals, nor do those it makes: they are for the thread that waits for the
 * user. False where there is none to be had. */
bool gpu_thread(pthread_t *out, void *(*fn)(void *), void *arg);

/* ---- cubins -------------------------------------------------------------------------------- */

/* Parses a cubin and a log as gpu_compile does; false with a reason if it is no CUDA ELF. cubin is
 * not copied. */
bool gpu_image_read(const void *cubin, size_t n, const char *log, Arena *a, GpuImage *image,
                    const char **why);
/* How many instructions of the kernel have this opcode in their low 12 bits (0x9f0 is HGMMA, 0x983
 * a local load); for tests of code shape. sm_70 and later: 16 bytes an instruction. */
unsigned gpu_image_count(const GpuImage *image, const char *kernel, unsigned opcode);

/* ---- of a device --------------------------------------------------------------------------- */

/* Number of devices the driver shows (after CUDA_VISIBLE_DEVICES), 0 with a reason in why. */
int gpu_count(GpuRt *rt, Str *why);
/* Bytes free on the card and in use by us. */
Status gpu_memory(Gpu *g, size_t *free_bytes, size_t *used);
/* As the driver sees it; agrees with GpuFacts (check_gpu_device.c shows it). */
Status gpu_kernel_facts(Gpu *g, GpuKernel *k, GpuFacts *out);

typedef struct GpuEvent GpuEvent;
/* Events may be reused; wall time between two of them. */
Status gpu_event_new(Gpu *g, GpuEvent **out);
void gpu_event_free(Gpu *g, GpuEvent *e);
Status gpu_event_record(Gpu *g, GpuEvent *e);
/* Waits for both. */
Status gpu_event_ms(Gpu *g, GpuEvent *from, GpuEvent *to, double *ms);

/* ---- small helpers ------------------------------------------------------------------------- */

/* Appends to why unless it is NULL. */
void gpu_say(Str *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool gpu_interrupted(const GpuRt *rt);
/* "1.5 GiB", in a buffer of 24 bytes at least. */
const char *gpu_size_text(uint64_t bytes, char *buf, size_t n);
/* "sm_90a" and so on for compute capability 9.0. */
void gpu_arch_name(int major, int minor, char *out, size_t n);
/* Fills in image->warnings, gate and gate_why from its log and kernels. */
void gpu_gate(GpuImage *image, Arena *a);
/* The part of gpu_doctor that needs the driver. */
void gpu_doctor_driver(GpuRt *rt, Str *out);

#endif
