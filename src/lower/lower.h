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
  int max_threads;     /* of a block */
  /* of a multiprocessor: */
  int registers;
  int threads, blocks; /* that it holds at a time */
  int lanes;           /* fused steps of f32 a cycle */
  size_t shared;       /* bytes; of each block's share 1 KiB is the system's */
} Target;

/* Of what is loaded ahead for warpgroups: two would leave the tensor cores waiting. */
enum { LOWER_LEAST_STAGES = 3 };

/* By its name; NULL if unknown. */
const Target *target_find(const char *name);
const Target *target_at(size_t i); /* NULL past the last */
/* Whether a block may have that many bytes of shared memory: what the program asks for (limits.c of
 * src/session), what a schedule adds, and, last, what a hand-written thread level says of itself
 * (cuda_print.c) are judged by this alone. */
bool target_has_shared(const Target *t, int64_t bytes);

/* What is known of a global tensor's place in memory. A kernel lowered with facts may only be given
 * tensors that have them. */
typedef struct LowerFact {
  int8_t unit_axis; /* the axis whose stride is 1 element; -1: none is known */
  uint8_t align;    /* bytes: a power of two, at most 16, that divides the address of element 0 and
                       the stride of every axis but unit_axis; 0 or 1: not known */
  bool index32;     /* every element's offset, in elements, fits i32 */
} LowerFact;

/* Where a tile of the program lies, for :layout and :smem. */
typedef enum LowerHome { LOWER_SHARED, LOWER_REGISTERS, LOWER_SCRATCH } LowerHome;
typedef struct LowerTile {
  const char *name; /* the program's */
  DType dtype;
  int rank;
  int64_t extent[IR_MAX_RANK];
  LowerHome home;
  bool fragment;           /* declared so */
  int64_t offset, bytes;   /* SHARED: from the start of shared memory; of one stage */
  int stages;              /* copies, one behind the other */
  int chunks, chunk_rows;  /* 16-byte parts of a row that change places, and every how many rows */
  bool twist;              /* by 0, 2, … and then 1, 3, … of them */
  bool columns;            /* the last two axes lie the other way round */
  int64_t pad;             /* elements between rows */
  const int64_t *map;      /* or the place of each element, in elements; NULL: row by row */
  int64_t swizzle;         /* bytes: 32, 64, 128, as tensor maps have it; 0: none */
  const struct Frag *frag; /* REGISTERS; private to src/lower */
} LowerTile;

/* Reasons and choices, one line each, for :explain; where the tiles lie. */
typedef struct LowerNotes {
  Arena *arena;
  VEC(const char *) text;
  VEC(LowerTile) tile;
} LowerNotes;

/* Byte of an element (of the first stage) in shared memory. */
int64_t lower_tile_byte(const LowerTile *t, const int64_t *index);
/* Registers of each thread and threads that hold it; 0 where it is not in registers. */
int64_t lower_tile_registers(const LowerTile *t);
int64_t lower_tile_threads(const LowerTile *t);
/* Who holds the first rows and columns (leading axes flattened); -1: nobody. */
typedef struct LowerHolder {
  int64_t thread, reg;
} LowerHolder;
void lower_tile_holders(const LowerTile *t, int64_t rows, int64_t columns, LowerHolder *out);

/* Sees the kernel before and after each pass of a schedule (--verify-each); where it returns false
 * lowering ends with NULL. */
typedef struct LowerHook {
  bool (*after)(IrKernel *after, const char *schedule, const char *pass, void *ctx);
  void *ctx;
} LowerHook;

/* How many blocks the program's grid has, against what the hardware takes: 2^31 - 1 along its first
 * axis, 65,535 along each other. */
typedef enum LowerGrid {
  LOWER_GRID_FITS,
  LOWER_GRID_LONG, /* too many along a later axis, but no more than LOWER_MOST_BLOCKS in all */
  LOWER_GRID_HUGE  /* more than that in all */
} LowerGrid;

/* Blocks that stay walk the program's by i32; the step past the last fits it too. */
enum { LOWER_ROOM_BLOCKS = 1 << 20, LOWER_MOST_BLOCKS = INT32_MAX - LOWER_ROOM_BLOCKS };

typedef struct LowerRequest {
  const Target *target;
  const LowerFact *fact; /* by id of the kernel's buffers (of the global ones); NULL: none known */
  int candidate;     /* 0: the best schedule that can do it; n: the n best that can are passed over
                        (their cubins were refused); beyond the last the scalar one */
  bool *last;        /* or NULL: gets whether that was the scalar one, behind which there is none */
  bool each;         /* every schedule that can do it is made for the hook to see, best first; what
                        comes out is the last, the scalar one */
  LowerNotes *notes; /* or NULL */
  const LowerHook *hook; /* or NULL */
  LowerGrid grid;
} LowerRequest;

/* A note, where somebody wants it. */
void lower_note(const LowerRequest *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* What is known of a buffer; nothing where the request knows nothing. */
LowerFact lower_fact(const LowerRequest *r, const IrBuffer *b);

/* The kernel at `level`, in the arena; k itself is unchanged. The scheduled level is the one that
 * the thread level of the same request is made from. NULL with diagnostics where it cannot be done
 * (shared memory beyond the target's: every tile, its bytes, and what would fit). */
IrKernel *lower_to(Arena *a, const IrKernel *k, IrLevel level, const LowerRequest *r,
                   DiagSink *sink);

/* The first product of a tile-level kernel, and how many it has; false: none. */
typedef struct LowerProduct {
  int products;
  int64_t m, n, k; /* of its tiles */
  int stages;      /* of the loop around it; 0: not said, or no loop */
  int size;        /* bytes of an operand's element; 0: warpgroups do not multiply such */
  DType type;      /* of the operands */
  DType result;    /* that it adds up in */
} LowerProduct;
bool lower_product(const IrKernel *k, LowerProduct *out);
/* Cycles that a bound call takes on the target's tensor cores, by a model that serves to compare
 * tile sizes; less than 0 where its best schedule of products cannot take the kernel, or would not
 * hold it in registers and shared memory. The binding says which axes of the tensors have stride 1.
 */
double lower_cost(const IrKernel *k, const IrBinding *b, const Target *t, int64_t sms);

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
  DiagCode code;
  const char *text; /* for scalar_print_in: "element [{0}] of A is outside its extents [{1}]" */
  int rank; /* axes of the program's block in the record; 0: it has none, or is not the launch's */
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
