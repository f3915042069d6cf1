/* nodes.h: what a kernel of the IR is made of, for whoever includes ir.h.
 *
 * Expressions, memory, statements, the kernel. ir.h says what always holds of them, and makes,
 * asks, prints and checks them. Tests: tests/unit/check_ir.c.
 */
#ifndef TILESH_IR_NODES_H
#define TILESH_IR_NODES_H

#include "ops/ops.h"

#define IR_MAX_RANK 8
#define IR_MAX_NODES 10000               /* of one expression */
#define IR_MAX_EXTENT (INT64_C(1) << 48) /* of one axis of a tensor */
#define IR_NO_RANGE_LO INT64_MIN
#define IR_NO_RANGE_HI INT64_MAX

typedef enum IrLevel { IR_TILE, IR_SCHEDULED, IR_THREAD } IrLevel;

/* Over what a value is the same: all threads of the block, of each warpgroup (four warps from a
 * multiple of four), of each warp, or of none. */
typedef enum IrUniform {
  IR_BLOCK_UNIFORM,
  IR_GROUP_UNIFORM,
  IR_WARP_UNIFORM,
  IR_LANE_VARYING
} IrUniform;

typedef struct IrKernel IrKernel;
typedef struct IrExpr IrExpr;
typedef struct IrVar IrVar;
typedef struct IrBuffer IrBuffer;
typedef struct IrStmt IrStmt;

typedef struct IrBlock {
  IrStmt **v;
  size_t n, cap;
} IrBlock;

/* ---------------------------------------------------------------- values */

typedef enum IrVarKind {
  IRV_LET,   /* bound once by LET, LOAD, ATOMIC, REDUCE to a scalar, or a thread op's destination */
  IRV_MUT,   /* a `var`: bound by LET, changed by SET */
  IRV_INDEX, /* of FOR, MAP, TILE_LOOP */
  IRV_GRID,  /* block index along a grid axis */
  IRV_PARAM, /* scalar parameter of the kernel */
  IRV_EXTENT, /* symbolic extent, bound from the arguments' shapes (i64) */
  IRV_STRIDE, /* element stride of axis `axis` of global buffer `buf` (i64) */
  IRV_SMS     /* number of multiprocessors of the target (i64) */
} IrVarKind;

struct IrVar {
  const char *name; /* interned; unique within the kernel after ir_name_apart */
  uint32_t id;      /* dense, from 0: index into tables by variable */
  DType type;
  IrVarKind kind;
  IrUniform uniform; /* thread level; tile level: IR_BLOCK_UNIFORM outside MAP bodies */
  int stated;     /* IRV_MUT: 1 + the uniformity that was written (`var x: i32 warp`), to which the
                     analysis is held; 0: none was */
  int64_t lo, hi; /* known inclusive range of an integer, or IR_NO_RANGE_* */
  IrBuffer *buf;  /* IRV_STRIDE */
  int axis;       /* IRV_STRIDE, IRV_GRID */
};

/* A place in the program's text. */
typedef struct IrPlace {
  Span span;
  struct IrPlace *next;
} IrPlace;

struct IrExpr {
  OpCode op; /* a PURE row */
  DType type;
  uint8_t nargs;
  bool reads_mut; /* depends on an IRV_MUT variable: not to be moved across a SET of it */
  bool may_fault; /* evaluating it can fault (a division by what may be zero): never dropped, nor
                     moved to where it would not have run */
  IrUniform uniform;
  uint32_t id; /* order of creation, for tables; never for printing order */
  uint32_t
      size; /* nodes when written out as a tree, saturating: at most IR_MAX_NODES (a LET names
               parts that are shared), so that whoever goes over the tree needs no memory of it */
  union {
    Scalar value; /* OP_CONST */
    IrVar *var;   /* OP_VAR */
  } as;
  IrExpr *arg[4];
  IrPlace *places; /* of an operation that may fault: where the text has it (ir_place_of) */
};

/* ---------------------------------------------------------------- memory */

typedef enum IrSpace {
  IRS_GLOBAL,   /* a tensor parameter, or scratch */
  IRS_SHARED,   /* a tile in shared memory */
  IRS_FRAGMENT, /* a tile spread over the block's registers (tile and scheduled level) */
  IRS_LOCAL,    /* private to each iteration of the enclosing MAP (each thread at thread level) */
  IRS_REG       /* thread level: an array of registers of each thread, static index only */
} IrSpace;

typedef enum IrRole { IRR_NONE, IRR_IN, IRR_OUT, IRR_INOUT, IRR_SCRATCH } IrRole;

/* A stated layout of a shared tile (the manual, `layout`); fragments' layouts are inferred. */
typedef enum IrLayoutKind { IRL_ROWS, IRL_SWIZZLE, IRL_PADDED, IRL_MAP } IrLayoutKind;
typedef struct IrLayout {
  IrLayoutKind kind;
  int64_t amount; /* swizzle: span in bytes (32, 64, 128); padded: elements */
  bool columns;   /* rows, swizzle, padded: axis 0 of a tile of two axes lies side by side, not axis
                     1; chosen at scheduled level */
  IrVar *index[IR_MAX_RANK]; /* map: its parameters … */
  IrExpr *offset;            /* … and the element offset they give */
} IrLayout;

struct IrBuffer {
  const char *name;
  uint32_t id;
  IrSpace space;
  IrRole role; /* global: of the parameter; others IRR_NONE */
  DType dtype;
  int rank; /* 0 for a 0-d tensor */
  IrExpr *extent[IR_MAX_RANK];
  /* Global: element strides. NULL means that axis' IRV_STRIDE variable was not asked for and the
   * tensor is row-major and contiguous: the caller makes it so (ir_stride gives the variable). */
  IrVar *stride[IR_MAX_RANK];
  IrExpr
      *init; /* `= 0`: initial value of an output; of a tile it is a MAP after its ALLOC instead */
  IrLayout *layout; /* NULL: inferred, row-major where nothing infers */
  int64_t offset;   /* thread level, IRS_SHARED: byte offset in the block's shared memory */
  int stages;       /* scheduled: copies of a channel's tile; else 1 */
  bool unchecked;   /* accesses are not bounds-checked (@unchecked) */
  int arrivals;     /* > 0: an array of barriers (shared, u64), and how many arrivals end a phase of
                       each. Only ARRIVE, AWAIT and a copy's signal name it */
  Span span;
};

/* One axis of a region. Kept axes have a constant extent on tiles and wherever the other side of
 * the operation does not give it; 0 means "from the other side" (copy to and from global). */
typedef struct IrAxis {
  IrExpr *origin; /* i64 */
  int64_t extent; /* 1 for a dropped axis */
  int64_t step;   /* 1 unless a stepped slice */
  bool keep;      /* false: a single index, not an axis of the region */
  IrExpr *stop;   /* NULL, or a run-time end: what lies at or past it counts as outside */
} IrAxis;

typedef struct IrRegion {
  IrBuffer *buf;
  IrAxis axis[IR_MAX_RANK]; /* buf->rank of them */
  bool trans;               /* the last two kept axes are swapped (`.T`) */
  Span span;                /* of its text; without a file: the statement's */
} IrRegion;

/* One element: LOAD, STORE, ATOMIC. */
typedef struct IrAccess {
  IrBuffer *buf;
  IrExpr *index[IR_MAX_RANK]; /* i64 (thread level: any integer type), buf->rank of them */
  bool check;                 /* bounds are checked at run time (cleared where proved) */
  Span span;                  /* of its text; without a file: the statement's */
} IrAccess;

/* A tensor map of the tensor memory accelerator, with the hardware's own fields (CUDA driver API,
 * cuTensorMapEncodeTiled). Host expressions of parameters and extents. Innermost axis first. */
typedef struct IrTmap {
  const char *name;
  uint32_t id;
  IrBuffer *buf;     /* the global tensor it maps */
  int rank;          /* 1 to 5 */
  IrExpr *dim[5];    /* elements (i64) */
  IrExpr *stride[5]; /* bytes (i64); [0] unused, implied */
  int64_t box[5];    /* elements */
  int64_t swizzle;   /* bytes: 0, 32, 64, 128 */
  Span span;
} IrTmap;

/* ---------------------------------------------------------------- statements */

typedef enum IrKind {
  /* any level */
  IRK_LET, /* var = value, where it stands; also declares an IRV_MUT */
  IRK_SET, /* changes an IRV_MUT */
  IRK_FOR,
  IRK_WHILE,
  IRK_IF,
  IRK_BREAK,
  IRK_CONTINUE, /* also: ends the iteration of the enclosing parallel MAP */
  IRK_RETURN,   /* ends the block */
  IRK_LOAD,     /* var = element. Thread level: of REG, LOCAL, GLOBAL, or SHARED with an offset */
  IRK_STORE,    /* element = value */
  IRK_ATOMIC,
  IRK_REPORT, /* print, assert */
  /* tile and scheduled level */
  IRK_ALLOC, /* a tile's declaration: its elements are unwritten from here on */
  IRK_COPY,
  IRK_MAP, /* whole-tile expressions, fill and `parallel` loops alike */
  IRK_REDUCE,
  IRK_SCAN,
  IRK_DOT,
  IRK_ARRIVE, /* at a barrier that the author declared (explicit specialisation) */
  IRK_AWAIT,  /* until a phase of it has ended */
  /* scheduled level */
  IRK_TILE_LOOP,
  IRK_ROLES, /* at every level; at tile level what `specialize` says */
  IRK_CHANNEL,
  IRK_ACQUIRE,
  IRK_COMMIT,
  IRK_WAIT,
  IRK_RELEASE,
  IRK_DOT_WAIT,
  IRK_STORE_WAIT,
  IRK_RELAYOUT,
  IRK_SYNC,
  /* thread level */
  IRK_OP, /* a THREAD row of ops.def */
  IRK_COUNT
} IrKind;

typedef enum IrLoop {
  IRF_SERIAL,
  IRF_UNROLL,
  IRF_VECTORIZED,
  IRF_PIPELINED,
  IRF_PERSISTENT
} IrLoop;

typedef struct IrFor { /* lo, hi, step are evaluated once; iterates while index < hi (> for step <
                          0) */
  IrVar *index;
  IrExpr *lo, *hi, *step; /* of the index' type; a step of 0 is a fault */
  Span step_span;         /* of its text, where it has one: the place of a step of 0 */
  IrLoop loop;
  int stages; /* PIPELINED: 0 = the compiler's choice. UNROLL: 0 = whole. SERIAL prints unroll 1 */
  IrBlock body;
} IrFor;

typedef struct IrWhile { /* cond_block, then cond; body while it holds */
  IrBlock cond_block, body;
  IrExpr *cond;
  IrUniform
      control; /* thread level, by ir_uniform: over what its rounds are the same in its role */
} IrWhile;

typedef struct IrIf {
  IrExpr *cond;
  IrBlock then, other;
} IrIf;

typedef struct IrAtomic {
  OpCode op;
  IrVar *old; /* NULL when the result is not used */
  IrAccess at;
  IrExpr *value;    /* of the element's type */
  IrExpr *expected; /* atomic_cas; the limit of atomic_inc is `value` */
  /* atomic_add(C[i, j], tile): element access unused, one atomic an element of the region */
  bool region;
  IrRegion dst, src;
} IrAtomic;

typedef struct IrReportPart { /* printed in order, separated by spaces */
  const char *text;           /* or */
  IrExpr *value;              /* or */
  IrRegion *region;
} IrReportPart;
typedef enum IrReportKind { IRP_PRINT, IRP_ASSERT } IrReportKind;
typedef struct IrReport {
  IrReportKind kind;
  IrExpr *cond; /* assert */
  IrReportPart *part;
  int nparts;
  int nblock; /* assert: so many values at the end are the program's block, where the launch has
                 other blocks; else 0 */
} IrReport;

typedef enum IrEngine { IRE_AUTO, IRE_TMA } IrEngine;
typedef struct IrCopy { /* converts the dtype; outside: reads pad, writes nothing */
  IrRegion dst, src;
  IrExpr *pad; /* NULL: zero */
  IrEngine engine;
  IrAccess signal; /* the author's barrier at which the end of the copy arrives; buf NULL: none */
} IrCopy;

/* For each point of the axes, in any order, the body. Whole-tile expressions (`parallel` false):
 * the builder guarantees that no point reads what another writes. In `parallel` loops two points
 * that touch the same element, one writing, are a race. */
typedef struct IrMap {
  int naxes; /* 0 to 4; 0: the body once */
  IrVar *index[4];
  IrExpr *extent[4]; /* i64; constant for whole-tile expressions */
  bool parallel;
  IrBlock body;
} IrMap;

typedef struct IrReduce { /* dst = reduction of src along kept axis `axis`, or of all (axis -1) */
  OpCode op;
  IrRegion src, dst; /* dst has the axis dropped, or kept with extent 1 */
  int axis;
  IrVar *scalar; /* axis -1: the result; dst.buf is NULL then */
} IrReduce;

typedef struct IrScan { /* cumsum: OP_SUM; cummax: OP_RMAX */
  OpCode op;
  IrRegion src, dst;
  int axis;
  bool reverse, exclusive;
} IrScan;

/* What computes a product, chosen at scheduled level. */
typedef enum IrUnit { IRU_AUTO, IRU_FMA, IRU_WGMMA } IrUnit;
typedef enum IrPolicy { IRG_AUTO, IRG_ROWS, IRG_COLUMNS, IRG_SQUARE } IrPolicy;
typedef struct IrDot { /* c (+)= a @ b: c[m,n], a[m,k], b[k,n] after .trans */
  IrRegion a, b, c;
  bool accumulate; /* false: c starts from zero */
  IrPolicy policy;
  int promote; /* f8: promote to f32 every so many of K; 0 never; -1 default */
  bool tf32;
  IrUnit unit; /* scheduled */
  bool async;  /* scheduled: issued, completed by DOT_WAIT */
} IrDot;

typedef struct IrTileLoop { /* scheduled: the persistent loop over the grid's tiles */
  int naxes;
  IrVar *index[3];
  IrExpr *count[3];
  int group;    /* grouped raster; 0: row by row */
  bool turning; /* every other round the other way, so that the last full one goes forward */
  bool dynamic; /* ticket instead of round robin */
  IrBlock body;
} IrTileLoop;

typedef struct IrRoleBody {
  const char *name; /* "producer", "consumer" */
  int first_warp, warps;
  int registers; /* 0: not set (setmaxnreg); scheduled level */
  IrBlock body;
} IrRoleBody;
typedef struct IrRoles { /* every warp of the block is in at most one role */
  IrRoleBody *role;
  int nroles;
} IrRoles;

typedef struct IrChannel { /* scheduled: a ring of `stages` between roles (or one role and its
                              copies) */
  const char *name;
  uint32_t id;
  IrBuffer **tile;
  int ntiles, stages;
  int producers, consumers; /* arrivals of full (besides bytes) and of empty, a phase */
} IrChannel;
typedef struct IrChannelOp { /* ACQUIRE, COMMIT, WAIT, RELEASE */
  IrChannel *channel;
  int behind; /* RELEASE: of the stage so many waits ago */
} IrChannelOp;
typedef struct IrSync {  /* barrier of some warps; proxy fence before it where asked */
  int first_warp, warps; /* warps 0: the whole block */
  bool groups;           /* of each warpgroup by itself: what it orders is the warpgroup's own */
  bool proxy_async;
} IrSync;
typedef struct IrRelayout {
  IrRegion dst, src;
} IrRelayout;

typedef enum IrOperandKind {
  IRO_EXPR,
  IRO_VAR,
  IRO_REGS,
  IRO_GLOBAL,
  IRO_TMAP,
  IRO_DTYPE
} IrOperandKind;
typedef struct IrOperand { /* which kind follows from the letter of the row's signature */
  IrOperandKind kind;
  IrExpr *expr;  /* e i s: value; REGS: first register (constant, or affine in unrolled indices);
                    GLOBAL: linear element offset */
  IrVar *var;    /* d */
  IrBuffer *buf; /* REGS, GLOBAL */
  int count;     /* REGS: number of registers */
  IrTmap *tmap;
  DType dtype;
} IrOperand;
typedef struct IrOp {
  OpCode op;
  IrOperand *operand;
  int noperands;
} IrOp;

struct IrStmt {
  IrKind kind;
  Span span; /* of the program's text: diagnostics, `.tile` lines in the CUDA text, :step */
  union {
    struct {
      IrVar *var;
      IrExpr *value;
    } let; /* LET, SET */
    IrFor loop;
    IrWhile while_;
    IrIf if_;
    struct {
      IrVar *var; /* LOAD */
      IrAccess at;
      IrExpr *value; /* STORE */
    } access;
    IrAtomic atomic;
    IrReport report;
    IrBuffer *alloc;
    IrCopy copy;
    IrMap map;
    IrReduce reduce;
    IrScan scan;
    IrDot dot;
    struct {
      IrAccess at;    /* which barrier */
      IrExpr *parity; /* AWAIT, i64: its lowest bit is that of the phase that must have ended */
    } barrier;        /* ARRIVE, AWAIT */
    IrTileLoop tile_loop;
    IrRoles roles;
    IrChannel *channel;
    IrChannelOp channel_op;
    int wait; /* DOT_WAIT, STORE_WAIT: at most so many pending */
    IrRelayout relayout;
    IrSync sync;
    IrOp op;
  } as;
};

/* ---------------------------------------------------------------- kernel */

typedef struct IrParam { /* in the order of the signature: inputs, then outputs, then scratch */
  IrBuffer *buf;         /* a tensor, or */
  IrVar *var;            /* a scalar (IRV_PARAM) */
} IrParam;

typedef struct IrSite {
  DiagCode code;    /* E0478 where the program's text gives none */
  const char *text; /* "element [{0}] of A is outside its extents [{1}]" */
} IrSite;

struct IrKernel {
  Arena *arena;
  Names *names;
  const char *name;
  IrLevel level;
  Span span;
  VEC(IrParam) params;
  VEC(IrVar *) vars;         /* by id */
  VEC(IrBuffer *) buffers;   /* by id */
  VEC(IrTmap *) tmaps;       /* by id */
  VEC(IrChannel *) channels; /* by id */
  VEC(IrSite) sites;         /* thread level: what FAULT says, by its second operand */
  IrBlock pre;   /* LETs of parameters and extents that the grid, tensor maps and scratch's
                    extents use; the body may use their variables too */
  int grid_rank; /* 0: one block */
  IrExpr *grid[3];
  IrVar *grid_index[3];
  int threads;          /* of a block; 0: the compiler's choice (tile level) */
  int64_t shared_bytes; /* thread level: dynamic shared memory of a block */
  int cluster[3];       /* 0 or 1: none */
  int raster;           /* grouped(n); 0: the compiler's choice */
  bool exact, unchecked, cooperative, resident;
  bool stays; /* lowered: its blocks are not the program's, which they walk or share; the text of
                 IR does not say so */
  int min_blocks; /* launch bounds: blocks a multiprocessor; 0: not said, 1 is printed */
  IrBlock body;
  struct IrTable *table; /* hash-consing; private to ir.c */
};

#endif
