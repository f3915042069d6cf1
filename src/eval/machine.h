/* machine.h: the one machine that runs every level of the IR; private to src/eval.
 *
 * A program is flat bytecode (EvalInsn) over numbered registers. An agent is {pc, masks, registers,
 * role}: at tile level one agent runs a block, roles have one each, at thread level each warp of 32
 * lanes is one. A register holds either one element (uniform) or one element a lane, in compute
 * form (dtype_compute: narrow floats are f32 on their grid), unit stride:
 *   block-level scalars   one element
 *   inside a MAP          one element, or one a point of the strip (at most `strip` points)
 *   thread level          one element, or one a lane (32)
 * An agent that cannot go on returns from the run loop and later runs the same instruction again;
 * there is no second stack, no jump. A fault is latched in the block with its place, and ends the
 * block. Everything a block needs is allocated once a worker, before its first block.
 *
 * Who owns what: machine.c run loop, compile*.c bytecode, map*.c copy*.c dot*.c … tile operations;
 * thread_*.c the THREAD rows of ops.def and the devices behind them (the "hooks" below).
 * Tests: tests/unit/check_eval*.c.
 */
#ifndef TILESH_EVAL_MACHINE_H
#define TILESH_EVAL_MACHINE_H

#include <stdatomic.h>

#include "eval.h"

enum {
  EVAL_WARP = 32,         /* lanes of a thread-level agent */
  EVAL_STRIP = 512,       /* most lanes of a MAP's strip */
  EVAL_SHARED_BASE = 1024 /* thread level: address of byte 0 of a block's shared memory */
};

typedef struct EvalAgent EvalAgent;
typedef struct EvalBlock EvalBlock;
typedef struct EvalInsn EvalInsn;
typedef struct EvalArray EvalArray;
typedef struct EvalKernels EvalKernels;
typedef struct EvalMapState EvalMapState;
typedef struct EvalLaunch EvalLaunch;
typedef struct EvalRaces EvalRaces;
typedef struct EvalWatch EvalWatch;

/* How an instruction ended. BLOCKED: nothing has happened; the agent runs the instruction again
 * when the scheduler comes back to it. */
typedef enum EvalResult { EVAL_OK, EVAL_BLOCKED, EVAL_FAULTED } EvalResult;

/* ---------------------------------------------------------------- memory of a block */

/* Which elements of a tile, local array or output were written. `map` is one byte an element in
 * row-major order, and is looked at only while state is PARTLY. */
typedef enum EvalWritten { WRITTEN_NONE, WRITTEN_PARTLY, WRITTEN_ALL } EvalWritten;

/* A buffer as this block sees it, by buffer id. `data` is element 0. */
typedef struct EvalMem {
  void *data;
  const IrBuffer *buf;
  DType dtype;
  bool stored; /* elements in stored form (global; thread-level shared); else in compute form */
  size_t size; /* bytes of one element where it lies */
  int rank;
  int64_t extent[IR_MAX_RANK];
  int64_t stride[IR_MAX_RANK];     /* elements */
  int64_t map_stride[IR_MAX_RANK]; /* of `map`: row-major */
  int64_t count;                   /* elements */
  uint8_t *map;                    /* NULL: everything is written */
  EvalWritten state;
  int64_t nwritten;
} EvalMem;

/* A tensor map with its expressions evaluated for this launch. */
typedef struct EvalTmap {
  const IrTmap *ir;
  const EvalMem *mem;
  int64_t dim[5];    /* elements, innermost first */
  int64_t stride[5]; /* bytes; [0] the element's size */
} EvalTmap;

/* The first fault of a block. */
typedef struct EvalFault {
  bool set;
  DiagCode code;
  Span span;
  char text[512]; /* without the block, which the reporter adds */
  char hint[256];
  Span other; /* a second place, or file NULL */
  char other_text[64];
  bool block_named; /* the text names the block */
} EvalFault;

struct EvalBlock {
  const EvalProgram *program;
  const EvalOptions *options;
  const IrBinding *binding;
  int64_t index[3]; /* of the grid */
  int64_t linear;   /* x fastest */
  EvalMem *mem;     /* by buffer id */
  EvalTmap *tmap;   /* by tmap id */
  uint8_t *shared;  /* thread level: shared_bytes bytes, address EVAL_SHARED_BASE */
  EvalAgent *agent;
  int nagents;
  EvalFault fault;
  EvalCounters counters;
  uint64_t random;         /* state of the shaker; 0: not shaken */
  Arena *arena;            /* lives as long as the worker; blocks must not allocate from it */
  void *device;            /* thread level: THREAD's state of the block, from eval_device_new */
  struct EvalSched *sched; /* scheduled level: channels and products in flight (sched.c) */
  struct EvalRaces *races; /* NULL: not looked for (race.h) */
  struct EvalWatch *watch; /* NULL: values are not watched (watch.h) */
  uint64_t noise;          /* state of the noise; 0: none (noise.h) */
  bool inexact;            /* some result of this block has got noise */
  bool turn_over;          /* an agent waits for another block */
  Str *print;              /* where REPORT appends; flushed in block order */
  OpIsa isa;               /* of the launch, never OPS_BEST */
  const EvalKernels *kernels;
  EvalLaunch *launch; /* run.c's */
  void *scratch;      /* of tile operations, scratch_size bytes, grown by block_scratch */
  size_t scratch_size;
};

/* ---------------------------------------------------------------- agents */

typedef enum EvalAgentState { AGENT_READY, AGENT_BLOCKED, AGENT_DONE } EvalAgentState;

struct EvalAgent {
  EvalBlock *block;
  int id;    /* index in the block; thread level: the warp */
  int lanes; /* lanes in use now: 32, or points of the strip; threads 33… of a ragged last
                warp do not exist: `threads` is a multiple of 32 */
  uint32_t pc;
  EvalAgentState state;
  void **reg; /* register number to its elements */
  /* Lanes that take part in the current instruction: `lanes` bytes of 0 or 1, or NULL: all. */
  const uint8_t *mask;
  Span wait_span;    /* while BLOCKED: the instruction, for the deadlock report */
  uint64_t steps;    /* instructions run in this block */
  void *device;      /* THREAD's state of the agent (groups in flight …), or NULL */
  EvalMapState *map; /* tile level: the MAP being run */
  /* Private to the machine. */
  char *frame;      /* registers and arrays */
  EvalArray *array; /* by array number */
  int64_t *offsets; /* [lanes]: scratch of one access */
  void *scratch;    /* [lanes] elements of 8 bytes: scratch of one access */
  uint64_t effects; /* stores and atomics so far, for the deadlock report */
};

/* Records a fault at the current instruction, unless the block has one already. `fmt` names what
 * happened ("element [3, 70] of As is read before anything wrote it"); the block is added by the
 * reporter. Returns EVAL_FAULTED. */
EvalResult eval_fault(EvalAgent *a, DiagCode code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds a hint to the fault just recorded. */
void eval_fault_hint(EvalAgent *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* What is named ("element [3] of t"), of a tile, array or tensor, is read before it was written;
 * the hint shows how the buffer starts at a value. */
EvalResult eval_fault_unwritten(EvalAgent *a, const IrBuffer *b, const char *named);
/* The source place of the instruction that the agent is at. */
Span eval_here(const EvalAgent *a);

static inline bool eval_lane_on(const EvalAgent *a, int lane) {
  return !a->mask || a->mask[lane];
}

/* ---------------------------------------------------------------- THREAD rows of ops.def */

/* One operand as the row's function sees it; which fields hold follows from the signature letter.
 *   d  out[lane] of `type`, compute form (32 lanes, or one element if `uniform`)
 *   e  value of `type`, compute form, at data + lane * step (step 0: uniform)
 *   i  imm (a constant integer)
 *   s  a shared byte offset (without EVAL_SHARED_BASE), an integer of `type`, like e
 *   g  mem, and the linear element offset as i64 lanes at data + lane * step
 *   m  tmap
 *   t  type
 *   r R X  registers: `count` of them, the first at `out`; register i, lane l is element
 *      i * 32 + l, of `type`, in compute form (f32 for narrow floats). `first` is its index in the
 *      array, `array` the array itself (array->device is THREAD's: pending products and the like).
 */
struct EvalArray {
  const IrBuffer *buf;
  void *data;       /* [register][32 lanes] */
  int count;        /* registers of the array */
  uint8_t *written; /* one byte a register: written at least once; reset at its declaration */
  void *device;     /* THREAD's, made by eval_device_agent; NULL at first */
};

typedef struct EvalOperand {
  char letter;
  bool uniform;
  DType type;
  const void *data;
  size_t step;
  void *out;
  int64_t imm;
  int count, first;
  EvalArray *array;
  const EvalMem *mem;
  const EvalTmap *tmap;
} EvalOperand;

/* The row's function. Active lanes are a->mask. On EVAL_BLOCKED nothing may have changed (but
 * notes to itself that make the retry idempotent, kept in a->device). */
typedef EvalResult (*EvalThreadOp)(EvalAgent *a, const EvalOperand *operand, int noperands);

/* thread_table.c (THREAD): by OpCode; NULL where a row is not a THREAD row or cannot run here. */
EvalThreadOp eval_thread_op(OpCode op);

/* An integer operand's value in a lane (any integer type or bool). */
int64_t eval_operand_int(const EvalOperand *o, int lane);

/* ---------------------------------------------------------------- hooks, thread level (THREAD) */

/* State of a block of this program; allocated once a worker, from block->arena. */
void *eval_device_new(EvalBlock *block);
/* State of an agent and of its register arrays (arrays, narrays); the same lifetime. */
void *eval_device_agent(EvalAgent *a, EvalArray *arrays, int narrays);
/* A block starts: shared memory is as garbage, nothing is in flight. */
void eval_device_start(EvalBlock *block);
/* All agents have ended: what is still in flight, unread or unwaited is a fault of agent 0. */
EvalResult eval_device_finish(EvalBlock *block);
/* No agent can run: completes the oldest asynchronous operation that may complete (shaken: any),
 * true if that may have unblocked someone; false: nothing is left, a deadlock. */
bool eval_device_progress(EvalBlock *block);
/* No agent can run and nothing is under way: faults with every warp that waits and for what: "warps
 * 4 to 7 for parity 1 of the mbarrier at 196608 (its phase 0 has 1 of 2 arrivals) at line 78". */
EvalResult eval_device_deadlock(EvalBlock *block);
/* Generic accesses of LOAD, STORE and ATOMIC, before they happen; addresses of the active lanes
 * (shared: byte offsets; global: element offsets of mem), `bytes` each. */
EvalResult eval_device_shared(EvalAgent *a, const int64_t *offset, int bytes, bool write);
EvalResult eval_device_global(EvalAgent *a, const EvalMem *mem, const int64_t *element, bool write);
/* LOAD and STORE of registers first … first + count - 1 of an array. */
EvalResult eval_device_registers(EvalAgent *a, EvalArray *array, int first, int count, bool write);

/* ---------------------------------------------------------------- products */

/* One product of unpacked operands: c[i*crs + j] = chained fma over p ascending of
 * a[i*ars + p*acs] * b[p*brs + j], starting from c (accumulate) or zero. Strides in elements. */
typedef struct EvalTile {
  int64_t m, n, k;
  const void *a, *b;
  void *c;
  int64_t ars, acs, brs, crs;
  bool accumulate;
  bool exact; /* f32: products of any two elements are exact in f32 (operands on f16's or f8's
                 grid), so that a machine without FMA may multiply and add */
} EvalTile;

/* The kernels of one instruction set; all give the same bits. */
struct EvalKernels {
  void (*f32)(const EvalTile *t);
  void (*f64)(const EvalTile *t);
  void (*i32)(const EvalTile *t); /* operands and c are int32_t, wrapping */
  void (*i64)(const EvalTile *t);
};
/* isa: chosen, never OPS_BEST. */
const EvalKernels *eval_kernels(OpIsa isa);

#endif
