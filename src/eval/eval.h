/* eval.h: the reference evaluator of every level of the IR.
 *
 * In: a verified kernel and bound arguments. Out: the outputs' elements, or the first fault with
 * its place. One machine for all levels: flat bytecode run by agents (tile level: one a block;
 * roles: one each; thread level: one a warp of 32 lanes). Results depend on neither thread count,
 * instruction set nor tile size. Tests: tests/unit/check_eval*.c, tests/lower, tests/mutants;
 * bench/eval.
 */
#ifndef TILESH_EVAL_H
#define TILESH_EVAL_H

#include <signal.h>

#include "ir/ir.h"

typedef struct EvalProgram EvalProgram;

typedef enum EvalChecks { CHECKS_NONE, CHECKS_DEFAULT, CHECKS_ALL } EvalChecks;

typedef struct EvalCounters { /* exact counts, thread level; per launch */
  uint64_t bank_conflicts;    /* extra shared-memory wavefronts beyond one an access */
  uint64_t shared_accesses;   /* warp-wide shared-memory instructions */
  uint64_t sectors;           /* 32-byte sectors of global memory touched */
  uint64_t barrier_waits;     /* times an agent had to wait */
  uint64_t instructions;      /* bytecode instructions run */
} EvalCounters;

typedef struct EvalOptions {
  Pool *pool; /* NULL: the calling thread alone */
  OpIsa isa;  /* as op_isa_choose takes it */
  EvalChecks checks;
  uint64_t shake;     /* 0: natural order; else a seed that permutes blocks, parallel iterations,
                         agents,     and the completion of asynchronous operations */
  uint64_t noise;     /* 0: none; else a seed: at tile level each result that devices may round
                         otherwise is moved by a random part of what it may be off by */
  uint64_t max_steps; /* 0: no limit; else the end (ST_FAIL, and no diagnostic) after so many
                         instructions a block */
  const volatile sig_atomic_t *interrupt; /* polled; non-zero stops with ST_INTERRUPTED */
  FILE *print;                            /* where the kernel's print goes */
  EvalCounters *counters;                 /* NULL: not counted */
  /* Seconds of work (0: no limit): where all blocks would take longer, judged by the processor time
   * of the first and shared by the pool's threads, only the corners of the grid, the middles of its
   * edges and 8 others run. Not for kernels whose blocks depend on each other's atomics. */
  double budget;
  int64_t *blocks_run; /* NULL, or set to how many blocks ran */
  bool lowered;        /* the kernel was written at a higher level: what its copies load in vain is
                          not its author's fault (E0476) */
  bool together;       /* CHECKS_ALL without what needs one block after the other: races, and where
                          special values come from */
} EvalOptions;

/* Bytes of shared memory that the tiles of a tile-level or scheduled kernel take, each stage of a
 * channel counted; `each`, unless NULL, is called for every tile. */
int64_t eval_shared_bytes(const IrKernel *k, void (*each)(void *ctx, const IrBuffer *b, int64_t n),
                          void *ctx);

/* Compiles a verified kernel of any level to bytecode in the arena. NULL with diagnostics if it
 * uses what the evaluator cannot do. */
EvalProgram *eval_compile(Arena *a, IrKernel *k, DiagSink *sink);
/* Runs all blocks. ST_FAIL with one diagnostic (E04xx, the first fault in block order) at a fault.
 */
Status eval_run(EvalProgram *p, const IrBinding *b, const EvalOptions *o, DiagSink *sink);

/* c[m, n] (+)= a[m, k] @ b[k, n]: host products use the same kernel. Elements of `t` in stored
 * form, strides in elements; c in the accumulator's type (f32; f64 of f64; i32 of 8-bit integers;
 * i64 of wider), chained fused multiply-adds, k ascending (the manual, Products). */
typedef struct EvalMatrix {
  void *data;
  int64_t row, col; /* strides */
} EvalMatrix;
Status eval_product(const EvalOptions *o, DType t, int64_t m, int64_t n, int64_t k, EvalMatrix a,
                    EvalMatrix b, EvalMatrix c, bool accumulate);

/* Stepping (debug.c) ------------------------------------------------------------------------- */

/* A kernel of the tile or scheduled level that pauses before each of its statements but those of
 * `parallel` loops and whole-tile expressions, which are one statement each. The blocks run one
 * after the other on the calling thread, from `first` on; those of a cooperative grid all exist,
 * and the pauses are those of `first`. */
typedef struct EvalDebug EvalDebug;
typedef enum EvalPause {
  EVAL_AT_STMT,      /* the statement at eval_debug_span is next */
  EVAL_AT_BLOCK_END, /* the block has ended; the next call begins the next one */
  EVAL_AT_END,       /* no block is left (or there is no memory for it) */
  EVAL_AT_FAULT,     /* the fault is in the sink; nothing goes on from here */
  EVAL_AT_INTERRUPT  /* options.interrupt was set; see eval_debug_resumes */
} EvalPause;

/* As eval_compile, for stepping only. */
EvalProgram *eval_compile_stepped(Arena *a, IrKernel *k, DiagSink *sink);
/* What the program pauses at, in the order of its text (one place may come several times). */
size_t eval_debug_stops(const EvalProgram *p);
Span eval_debug_stop_span(const EvalProgram *p, size_t i);
/* p and b must outlive it; outputs are written in place. NULL when memory is short. */
EvalDebug *eval_debug_new(EvalProgram *p, const IrBinding *b, const EvalOptions *o, int64_t first);
void eval_debug_free(EvalDebug *d); /* NULL is allowed */
/* Goes on to the next pause; a fault is added to the sink. */
EvalPause eval_debug_next(EvalDebug *d, DiagSink *sink);
Span eval_debug_span(const EvalDebug *d); /* of the statement that is next */
/* Whether an interrupted statement can be gone on with; else only a new run comes back here. */
bool eval_debug_resumes(const EvalDebug *d);
void eval_debug_block(const EvalDebug *d, int64_t index[3]); /* that runs, by grid axis */
const char *eval_debug_role(const EvalDebug *d);             /* "producer"; NULL: the whole block */
/* What the block printed and nobody forgot yet. */
const char *eval_debug_text(EvalDebug *d);
void eval_debug_forget_text(EvalDebug *d);
/* The names that the statement sees, innermost first: each a variable or a tile. */
typedef void (*EvalDebugName)(void *ctx, const IrVar *var, const IrBuffer *buf);
void eval_debug_each(const EvalDebug *d, EvalDebugName fn, void *ctx);
/* A variable's value now; false where it is not in scope. */
bool eval_debug_scalar(const EvalDebug *d, const IrVar *v, Scalar *out);
/* A copy of a tile that is in scope, unwritten elements as zero: a new tensor, the caller's. NULL
 * with words added to why. */
struct Tensor *eval_debug_tile(const EvalDebug *d, const IrBuffer *buf, int64_t *written, Str *why);

#endif
