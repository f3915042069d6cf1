/* lower.h: from the tile level to what each GPU thread does, and its CUDA text.
 *
 * In: a verified tile-level kernel and a target. Out: kernels of the lower levels, each verified;
 * CUDA C text that is a plain printing of the thread level. The passes are listed in order in
 * passes.c. Tests: tests/lower.
 */
#ifndef TILESH_LOWER_H
#define TILESH_LOWER_H

#include "ir/ir.h"

typedef struct Target {
  const char *name;    /* "sm_90a" */
  OpArch arch;         /* greatest class of thread operations it has */
  int sms;             /* multiprocessors assumed where no device says otherwise */
  size_t shared_limit; /* dynamic shared memory a block may have, bytes */
  int registers;       /* of a multiprocessor */
  int max_threads;     /* of a block */
} Target;

/* "sm_80", "sm_89", "sm_90a"; NULL if unknown. */
const Target *target_find(const char *name);
const char *const *target_names(size_t *n);

/* The kernel at `level`, in the arena; k itself is unchanged. NULL with diagnostics where it cannot
 * be done (shared memory beyond the target's: every tile, its bytes, and what would fit). */
IrKernel *lower_to(Arena *a, const IrKernel *k, IrLevel level, const Target *t, DiagSink *sink);

/* The same, and `after` sees the kernel before and after each pass (--verify-each, --emit of what a
 * pass made); where it returns false lowering ends with NULL. */
typedef struct LowerHook {
  bool (*after)(const IrKernel *before, IrKernel *after, const char *pass, void *ctx);
  void *ctx;
} LowerHook;
IrKernel *lower_observed(Arena *a, const IrKernel *k, IrLevel level, const Target *t,
                         const LowerHook *hook, DiagSink *sink);

/* What the launcher must pass, in this order, as the printed kernel's parameters. */
typedef enum CudaArgKind {
  CUDA_ARG_TENSOR,
  CUDA_ARG_SCALAR,
  CUDA_ARG_TMAP,
  CUDA_ARG_FAULT, /* address of the fault record */
  CUDA_ARG_PRINT, /* address of the print ring */
  CUDA_ARG_CALL,  /* u32 of the launcher's choice, which comes back in faults and prints */
  CUDA_ARG_STOP   /* address of the stop word */
} CudaArgKind;
typedef struct CudaArg {
  CudaArgKind kind;
  const IrBuffer *buf; /* TENSOR: device address of element 0 */
  const IrVar *var;    /* SCALAR: value of its type (bool as one byte) */
  const IrTmap *tmap;  /* TMAP: 128 bytes, __grid_constant__ */
} CudaArg;
/* A place that a device fault can name, by its index in the fault record. */
typedef struct CudaSite {
  Span span;
  const char *text; /* "index {0} is outside axis 1 of A, whose extent is {1}" */
} CudaSite;
/* A print statement, by its index in a record of the print ring: its values come in order, 64 bits
 * each (integers extended, floats as f64). */
typedef struct CudaPrint {
  Span span;
  const IrReport *report;
} CudaPrint;
typedef struct CudaText {
  const char *text;  /* self-contained CUDA C */
  const char *entry; /* the kernel's name in it, extern "C" */
  CudaArg *arg;
  int nargs;
  CudaSite *site;
  int nsites;
  CudaPrint *print;
  int nprints;
  int threads;
  int64_t shared_bytes;
  int cluster[3];
} CudaText;
/* Prints a thread-level kernel; NULL with diagnostics if an operation does not exist on the target.
 */
CudaText *cuda_print(Arena *a, const IrKernel *k, const Target *t, DiagSink *sink);

#endif
