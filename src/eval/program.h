/* program.h: bytecode and the descriptors that its instructions point to; private to src/eval.
 *
 * Registers are numbered; number 0 is NO_REG. Registers of one element hold 8 bytes, registers of
 * lanes hold `lanes` elements of up to 8 bytes. Jumps are relative to the instruction itself, so
 * that pieces of code can be moved. Built by compile*.c, run by machine.c and what it calls.
 */
#ifndef TILESH_EVAL_PROGRAM_H
#define TILESH_EVAL_PROGRAM_H

#include "machine.h"

typedef uint32_t Reg;
enum { NO_REG = 0 };

typedef enum EvalCode {
  BC_END,        /* the agent is done */
  BC_NEXT_PHASE, /* end of the code that runs once a worker */
  /* values; `one` acts on one element, `lanes` on all lanes */
  BC_OP_ONE, /* dst = strip(src…); a fault names the operation */
  BC_OP_LANES,
  BC_ADD_I64, /* one element, the commonest */
  BC_SUB_I64,
  BC_MUL_I64,
  BC_MOVE_ONE,   /* dst = src[0] */
  BC_MOVE_LANES, /* dst = src[0] where the mask is on */
  BC_FIRST,      /* dst = src[0] of the first lane where the mask is on: all have the same */
  BC_SPLAT,      /* lanes of dst = the one element src[0] */
  BC_INDEX,      /* lanes of dst = the MAP's index imm (i64) */
  BC_TID,        /* thread level: lanes of dst = thread index; BC_LANE: lane */
  BC_LANE,
  BC_WARP,
  BC_BLOCK_INDEX, /* dst = block index along imm, as `type` */
  BC_GRID_SIZE,   /* dst = blocks along imm, as `type` */
  /* control, uniform */
  BC_JUMP,
  BC_BACK,        /* jump backwards: polls the interrupt, counts steps */
  BC_SPIN_BACK,   /* the same for a `while` that waits for another block */
  BC_JUMP_UNLESS, /* src[0] */
  BC_FOR_START,   /* dst = src[0] (lo), checks the step src[2] */
  BC_FOR_TEST,    /* jumps unless dst < src[1] (step src[2]) */
  BC_FOR_NEXT,    /* dst += src[2] (imm: * blocks); ends the loop on overflow; then a BC_BACK */
  BC_SHARE,       /* PERSISTENT: dst += block * src[2], or src[1] where that is past it */
  BC_ROLE,        /* thread level: jumps unless warp in [imm, imm + src[0]) */
  /* control, by lanes; masks are registers holding an EvalMask */
  BC_MASK_ALL,  /* dst = all lanes */
  BC_MASK_COPY, /* dst = src[0] (NO_REG: all) */
  BC_MASK_AND,  /* dst = src[0] and src[1] (bool lanes); jumps if none */
  BC_MASK_ANDNOT,
  BC_MASK_REMOVE, /* dst -= src[0] */
  BC_MASK_CLEAR,
  /* condition decided for the whole strip: jumps if false everywhere; if true everywhere, dst =
   * src[0] and the next src[1] instructions are passed over */
  BC_DECIDE,
  BC_JUMP_NONE,      /* jumps if mask src[0] is empty */
  BC_LANES_FOR_TEST, /* mask dst keeps lanes whose src[0] < src[1] (step src[2]); jumps if none */
  BC_LANES_FOR_NEXT, /* dst += src[2] where the mask is on; leaves the mask on overflow */
  /* memory, one element or lanes */
  BC_LOAD,
  BC_STORE,
  BC_ATOMIC,
  BC_ARRAY_RESET, /* LOCAL and REG arrays: unwritten from here on */
  BC_ARRAY_LOAD,
  BC_ARRAY_STORE,
  BC_REPORT,
  BC_ALLOC,
  BC_STOP, /* stepping only (debug.c): a statement begins here */
  /* tile operations */
  BC_MAP,      /* starts: jumps over the body if there is no point */
  BC_MAP_NEXT, /* next strip: jumps back, or goes on */
  BC_COPY,
  BC_REDUCE,
  BC_SCAN,
  BC_DOT,
  BC_ATOMIC_REGION,
  /* thread level */
  BC_THREAD_OP,
  /* scheduled level (sched.c) */
  BC_TOUCH, /* before a statement: what it reads and writes */
  BC_CHANNEL,
  BC_ACQUIRE,
  BC_COMMIT,
  BC_WAIT,
  BC_RELEASE,
  BC_DOT_ASYNC,
  BC_DOT_WAIT,
  BC_FORK, /* starts the roles' agents */
  BC_JOIN, /* waits until they have ended */
  BC_SYNC,
  BC_BARRIER,    /* the author's barriers (barrier.c): declared, */
  BC_ARRIVE,     /* arrived at, */
  BC_AWAIT,      /* waited for */
  BC_TILE_START, /* TILE_LOOP: the first number; then its indices, or a jump; then the next */
  BC_TILE,
  BC_TILE_NEXT,
  BC_COUNT
} EvalCode;

/* Which lanes are on; the fast paths look at `n` first. */
typedef struct EvalMask {
  int64_t n; /* how many */
  uint8_t pad[56];
  uint8_t on[]; /* [lanes], 0 or 1 */
} EvalMask;

struct EvalInsn {
  uint16_t code;
  uint8_t type; /* DType */
  uint8_t nsrc;
  int32_t jump; /* relative to this instruction */
  Reg dst, src[4];
  Reg mask;       /* NO_REG: all lanes */
  uint32_t place; /* index in spans */
  union {
    const OpStrip *strip; /* [3], by instruction set */
    void *data;           /* a descriptor below */
    int64_t imm;
  } as;
  OpCode op;    /* BC_OP_*: for the words of a fault; BC_ATOMIC */
  uint8_t from; /* BC_OP_*: type of the first operand */
};

typedef struct EvalCodes {
  EvalInsn *v;
  size_t n, cap;
} EvalCodes;

/* An i64 of one element: a register, or a constant where reg is NO_REG. */
typedef struct EvalInt {
  Reg reg;
  int64_t imm;
} EvalInt;

/* An index inside a MAP: base + sum of coef[a] * (index of axis a), or the lanes of a register. */
typedef struct EvalAffine {
  EvalInt base;
  EvalInt coef[4];
  Reg lanes; /* added; NO_REG where the index is affine */
} EvalAffine;

/* A condition that the corners of a strip may decide. */
typedef struct EvalDecide {
  OpCode op; /* a comparison of `diff` with 0, AND, OR, NOT, or VAR: the one element `reg` */
  EvalAffine diff;
  Reg reg;
  struct EvalDecide *arg[2];
} EvalDecide;

/* LOAD, STORE, ATOMIC. */
typedef struct EvalAccess {
  uint32_t buf;
  int rank;
  bool check;
  bool lanes;    /* the value is one element a lane */
  bool vector;   /* some index differs between lanes */
  bool marks;    /* STORE: elements are to be marked written (false: the MAP does it as a whole) */
  bool in_place; /* LOAD: dst may point into the tile */
  bool once;     /* thread level: one lane's worth of access for a uniform address */
  bool races;    /* its MAP's iterations may race for the buffer, for all that is known */
  bool waits;    /* LOAD: of a `while` that waits for another block */
  EvalAffine index[IR_MAX_RANK];
  Reg value, expected, old;
  DType type;
  OpStrip combine[3]; /* ATOMIC: by instruction set; NULL: exchange, cas, inc */
} EvalAccess;

typedef struct EvalArrayAccess {
  uint32_t array;
  int rank;
  int64_t extent[IR_MAX_RANK];
  EvalAffine index[IR_MAX_RANK]; /* base, or lanes */
  bool vector;
  Reg value; /* dst of a load, src of a store: lanes */
} EvalArrayAccess;

typedef struct EvalMapCode {
  int naxes;
  EvalInt extent[4];
  int64_t strip; /* most lanes */
  bool parallel;
  uint32_t covers[8]; /* buffers that the body writes whole */
  int ncovers;
} EvalMapCode;

/* What a running MAP knows: the strip is the box pos … pos + cnt of the iteration space, its lanes
 * the points in row-major order. */
struct EvalMapState {
  const EvalMapCode *code;
  int64_t extent[4], pos[4], cnt[4];
  int64_t step[4];                /* points of a full strip along each axis */
  uint64_t number, total, stride; /* strips: done, in all, and the shaker's stride through them */
  uint64_t first;
};

typedef struct EvalRegionAxis {
  EvalInt origin;
  EvalInt stop; /* imm INT64_MAX: none */
  int64_t extent, step;
  bool keep;
} EvalRegionAxis;

typedef struct EvalRegion {
  uint32_t buf;
  int rank;
  EvalRegionAxis axis[IR_MAX_RANK];
  bool trans;
  Span span; /* of its text; without a file: the statement's */
} EvalRegion;

typedef struct EvalCopyCode {
  EvalRegion dst, src;
  Reg pad; /* NO_REG: zero; else one element of type pad_type */
  DType pad_type;
} EvalCopyCode;

typedef struct EvalReduceCode {
  OpCode op;
  EvalRegion src, dst;
  int axis;   /* -1: all */
  Reg scalar; /* then the result */
  DType type; /* of the elements */
} EvalReduceCode;

typedef struct EvalScanCode {
  OpCode op;
  EvalRegion src, dst;
  int axis;
  bool reverse, exclusive;
} EvalScanCode;

typedef struct EvalDotCode {
  EvalRegion a, b, c;
  bool accumulate;
  bool tf32; /* changes no bit here: what a device may round (noise.c) */
  int promote;
} EvalDotCode;

typedef struct EvalAtomicRegion {
  OpCode op;
  OpStrip combine[3];
  EvalRegion dst, src;
} EvalAtomicRegion;

typedef struct EvalReportPart {
  const char *text;
  Reg value;
  bool lanes;
  DType type;
  EvalRegion *region;
} EvalReportPart;

typedef struct EvalReportCode {
  IrReportKind kind;
  Reg cond;
  bool lanes;
  bool vector; /* once a lane */
  EvalReportPart *part;
  int nparts;
  int nblock; /* the last of them name the block of a failed assertion */
} EvalReportCode;

/* A name that a statement sees: a variable in its register, or a tile; innermost first. */
typedef struct EvalLive {
  const IrVar *var; /* or */
  const IrBuffer *buf;
  Reg reg;
  const struct EvalLive *outer;
} EvalLive;

/* BC_STOP: what stands where, and what it sees. */
typedef struct EvalStop {
  Span span;
  const EvalLive *live;
} EvalStop;

typedef struct EvalOpCode {
  EvalThreadOp run;
  EvalOperand *operand; /* template: what the launch does not change */
  Reg *reg;             /* by operand: data or out */
  Reg *offset;          /* REGS: index register, or NO_REG for first */
  int *array;           /* REGS: array number */
  uint32_t *id;         /* g: buffer, m: tensor map */
  int n;
} EvalOpCode;

/* Tiles lie in one block of memory a worker, reused from scope to scope. */
typedef struct EvalTileInfo {
  size_t offset, map_offset; /* bytes */
  size_t stage, map_stage;   /* from one instance of a channel's tile to the next */
} EvalTileInfo;

typedef struct EvalArrayInfo {
  const IrBuffer *buf;
  int64_t count;
  size_t offset, written_offset; /* in the frame */
} EvalArrayInfo;

struct EvalProgram {
  Arena *arena;
  IrKernel *kernel;
  EvalInsn *code;
  size_t ncode;
  uint32_t start; /* first instruction of the body; before it the code that runs once a worker */
  Span *span;     /* by EvalInsn.place */
  size_t nspans;
  size_t *home; /* by register: byte offset in the frame */
  size_t nregs;
  size_t frame; /* bytes of an agent's registers and arrays */
  int lanes;    /* capacity of a register of lanes: 1, EVAL_STRIP, or EVAL_WARP */
  Reg *var;     /* by variable id: where launch constants go (NO_REG: unused) */
  struct {
    Reg reg;
    Scalar value;
  } * constant; /* of one element */
  size_t nconstants;
  EvalTileInfo *tile; /* by buffer id; tiles only */
  size_t tile_bytes, map_bytes;
  EvalArrayInfo *array;
  int narrays;
  int agents;      /* of a block */
  bool sched;      /* roles, channels or barriers: agents wait for one another (sched.c) */
  bool in_order;   /* the result depends on the order of blocks: one after the other */
  bool interleave; /* blocks wait for each other: all at once, taking turns */
  bool orders;     /* some block looks at what an atomic found: blocks may be ordered by it */
  bool prints;
  const EvalLive *live; /* stepping: what the whole kernel sees */
  EvalStop **stop;      /* stepping: all stops, in the order of the text */
  size_t nstops;
};

/* ---------------------------------------------------------------- running (private) */

/* Runs the agent until it ends, blocks or faults. */
EvalResult eval_machine_run(EvalAgent *a);

static inline const EvalInsn *machine_insn(const EvalAgent *a) {
  return &a->block->program->code[a->pc];
}
static inline void *machine_reg(const EvalAgent *a, Reg r) {
  return a->reg[r];
}
static inline int64_t machine_int(const EvalAgent *a, const EvalInt *x) {
  if (x->reg == NO_REG)
    return x->imm;
  int64_t v;
  __builtin_memcpy(&v, a->reg[x->reg], sizeof v);
  return v;
}

/* Value of an integer (or bool) of type t at p. */
int64_t eval_int_at(DType t, const void *p);
void eval_int_to(DType t, void *p, int64_t value);
/* The value of a cell in compute form, of a float type. */
double eval_float_at(DType compute, const void *cell);
/* The next number of a sequence (xorshift): any order or noise will do, as long as its seed repeats
 * it. The state is never 0. */
static inline uint64_t eval_random(uint64_t *state) {
  uint64_t x = *state;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return *state = x;
}
/* At least n bytes, kept until the next call. NULL when memory is short. */
void *eval_block_scratch(EvalBlock *b, size_t n);
/* map.c */
bool eval_map_start(EvalAgent *a, const EvalMapCode *m); /* false: no point */
/* 0: false at every point of the strip; 1: true at every point; -1: neither, or not known. */
int eval_map_decide(const EvalAgent *a, const EvalDecide *d);
bool eval_map_next(EvalAgent *a); /* false: done */
void eval_map_index(const EvalAgent *a, int axis, int64_t *lanes);
/* The MAP's indices at a lane. */
void eval_map_point(const EvalMapState *m, int64_t lane, int64_t point[4]);
/* access.c */
EvalResult eval_access_load(EvalAgent *a, const EvalInsn *in);
EvalResult eval_access_store(EvalAgent *a, const EvalInsn *in);
EvalResult eval_access_atomic(EvalAgent *a, const EvalInsn *in);
EvalResult eval_access_array_load(EvalAgent *a, const EvalInsn *in);
EvalResult eval_access_array_store(EvalAgent *a, const EvalInsn *in);
/* Computes the byte-exact new value of one element and replaces it, atomically; old may be NULL. */
void eval_atomic_apply(OpCode op, OpStrip combine, DType t, bool stored, void *at,
                       const void *value, const void *expected, void *old);
/* size bytes (1, 2, 4 or 8) at once, as no other block can divide them. */
void eval_atomic_load(size_t size, const void *at, void *out);
/* copy.c, reduce.c, dot.c, report.c, thread.c */
EvalResult eval_copy_run(EvalAgent *a, const EvalCopyCode *c);
EvalResult eval_copy_atomic(EvalAgent *a, const EvalAtomicRegion *c);
EvalResult eval_reduce_run(EvalAgent *a, const EvalReduceCode *c);
EvalResult eval_scan_run(EvalAgent *a, const EvalScanCode *c);
/* dst[p * n + j] = src[j * stride + p]: n rows of k floats to k rows of n. */
void eval_transpose(const float *src, int64_t stride, float *dst, int64_t k, int64_t n);
EvalResult eval_dot_run(EvalAgent *a, const EvalDotCode *c);
EvalResult eval_report_run(EvalAgent *a, const EvalInsn *in);
EvalResult eval_debug_stop(EvalAgent *a, const EvalInsn *in); /* debug.c */
EvalResult eval_thread_run(EvalAgent *a, const EvalInsn *in);

/* ---------------------------------------------------------------- regions at run time (region.c)
 */

/* The kept axes of a region, after .T, resolved. Element i0, i1, … lies at
 * data + (base + sum of i * stride) * size; along axis k only lo[k] <= i < hi[k] are inside. */
typedef struct EvalView {
  EvalMem *mem;
  int rank;
  int64_t extent[IR_MAX_RANK], stride[IR_MAX_RANK], lo[IR_MAX_RANK], hi[IR_MAX_RANK];
  int64_t base;
  int64_t mstride[IR_MAX_RANK], mbase; /* the same in the map of what was written */
  bool empty;                          /* a single index is outside: nothing is inside */
  bool whole;                          /* the region is the whole buffer */
  bool inside;                         /* no element is outside */
} EvalView;

/* other: gives extents that the region leaves open; may be NULL. A region of a tile that leaves the
 * tile is a fault. */
EvalResult eval_region_resolve(EvalAgent *a, const EvalRegion *r, const EvalView *other,
                               EvalView *v);
/* The elements inside a view, one row of its last axis at a time, as places in the map. */
typedef struct EvalRow {
  int64_t at, step, n;
  int64_t i[IR_MAX_RANK];
} EvalRow;
bool eval_rows_first(const EvalView *v, EvalRow *r); /* false: there is none */
bool eval_rows_next(const EvalView *v, EvalRow *r);
/* Faults unless every inside element was written; marks them written. */
EvalResult eval_region_check_written(EvalAgent *a, const EvalView *v);
void eval_region_mark_written(EvalView *v);
/* Faults unless the inside elements may be read: written, and in no race. */
EvalResult eval_region_read(EvalAgent *a, const EvalView *v);
void *eval_mem_at(const EvalMem *m, int64_t element);
/* "3, 70" */
void eval_list_text(const int64_t *v, int n, char *out, size_t size);
/* "element [3, 70] of As", of a linear row-major element. */
void eval_mem_name(const EvalMem *m, int64_t element, char *out, size_t size);

/* Whether elements are narrow floats in stored form, so that they change on the way. */
static inline bool mem_packed(const EvalMem *m) {
  return m->stored && dtype_compute(m->dtype) != m->dtype;
}
/* The elements at n offsets to compute form, and back; room has n elements of 8 bytes. */
void eval_mem_take(const EvalMem *m, const int64_t *at, int n, void *dst, void *room);
void eval_mem_put(const EvalMem *m, const int64_t *at, int n, const void *src, void *room);
/* Gets a tile's map ready for marking single elements. */
void eval_mem_begin_map(EvalMem *m);
/* n elements from the strided memory form of m (element units) to compute form, and back. */
void eval_mem_gather(const EvalMem *m, int64_t element, int64_t stride, void *dst, int64_t n);
void eval_mem_scatter(const EvalMem *m, int64_t element, int64_t stride, const void *src,
                      int64_t n);

#endif
