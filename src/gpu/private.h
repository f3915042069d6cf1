/* private.h: what the files of src/gpu share and nobody else sees.
 *
 * Goes in: nothing. Comes out: the body of GpuRt, the two tables of library functions, and the
 * helpers for reasons. Always holds: a table is either wholly resolved or its handle is NULL, and
 * everything behind rt->lock is written once.
 */
#ifndef TILESH_GPU_PRIVATE_H
#define TILESH_GPU_PRIVATE_H

#include <pthread.h>

#include "gpu.h"

/* ---- a library, opened on first use -------------------------------------------------------- */

typedef struct GpuLib {
  void *handle;
  bool tried;
  char path[512];  /* where it was found */
  char error[512]; /* why not, when tried and handle is NULL */
} GpuLib;

/* Opens the first that exists of `names` (a NULL ends them), in the places of the file head of
 * lib.c. Fills in lib; true if it is open. */
bool gpu_lib_open(GpuRt *rt, GpuLib *lib, const char *const *names);
void gpu_lib_close(GpuLib *lib);
/* Puts the address of a function into *fn (a pointer to function, of any type). */
bool gpu_lib_symbol(GpuLib *lib, const char *symbol, void *fn);

typedef struct NvrtcProgramBody *NvrtcProgram;

typedef struct Nvrtc {
  GpuLib lib;
  const char *(*error_text)(int);
#define NVRTC(member, symbol, args) int(*member) args;
#include "nvrtc.def"
#undef NVRTC
  int major, minor;
  char version_text[16];
} Nvrtc;

typedef struct Driver Driver; /* driver.h; needs cuda.h */

struct GpuRt {
  GpuConfig cfg;
  char cache_dir[512];
  char library_path[2048];
  bool only_library_path;
  char build_id[80];
  pthread_mutex_t lock; /* of nvrtc */
  Nvrtc nvrtc;
  pthread_mutex_t driver_lock; /* of driver; its own, for starting a driver takes long */
  Driver *driver;              /* NULL until first use */
  Gpu *current;                /* whose context the calling thread has */
  _Atomic int driver_version;  /* 13000; 0 until it is loaded */
  pthread_t starter;
  bool started, joined; /* the helper thread of gpu_start_async */
};

/* The table, opened if need be; NULL with a reason in why. */
const Nvrtc *gpu_nvrtc(GpuRt *rt, Str *why);
/* Waits for the helper thread of gpu_start_async and gives the driver's tables back. */
void gpu_driver_free(GpuRt *rt);

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
/* The hexadecimal build-id of this program, or a digest of its size and date where it has none. */
void gpu_build_id(char *out, size_t n);

#endif
