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
  uint64_t max_steps; /* 0: no limit; else a fault after so many instructions a block */
  const volatile sig_atomic_t *interrupt; /* polled; non-zero stops with ST_INTERRUPTED */
  FILE *print;                            /* where the kernel's print goes */
  EvalCounters *counters;                 /* NULL: not counted */
  /* Seconds (0: no limit): where running all blocks would take longer, judged by the first, only
   * the corners of the grid, the middles of its edges and 8 others run. Not for kernels whose
   * blocks depend on each other's atomics. */
  double budget;
  int64_t *blocks_run; /* NULL, or set to how many blocks ran */
  size_t shared_limit; /* bytes of shared memory of the target; 0: no limit checked */
} EvalOptions;

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

#endif
