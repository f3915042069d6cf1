/* ir.h: the one intermediate representation, at its three levels.
 *
 * A kernel is structured: blocks of statements over pure, hash-consed scalar expressions. The same
 * types serve the tile level (what the author wrote, names resolved), the scheduled level (roles,
 * channels, waits) and the thread level (what each GPU thread does); `level` says which kinds may
 * occur, and ir_verify holds to it. Any level prints as text, reads back to the same kernel, and
 * runs on the evaluator. Everything lives in the kernel's arena.
 *
 * Rules that always hold:
 * - An expression has no effect and no order; what can differ between two places (an element, a
 *   mutable variable's value) is read where the *statement* that holds the expression runs.
 *   Loads are statements. Hash-consing makes equal expressions equal pointers.
 * - Types are explicit: operands of an operation have the types its row of ops.def demands, with
 *   CASTs where the language converts.
 * - A tile operation is one statement whose operands are regions; one region type for all.
 * - Fragment, shared and local tiles have constant extents; global tensors may have symbolic ones.
 * Tests: tests/unit/check_ir.c; goldens tests/lower (every .ir file there is read, printed,
 * reread).
 */
#ifndef TILESH_IR_H
#define TILESH_IR_H

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
  VEC(const char *)
  sites;         /* thread level: what FAULT says, by its second operand: "index {0} is
                    outside axis 1 of A, whose extent is {1}" */
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
  int min_blocks; /* launch bounds: blocks a multiprocessor; 0: not said, 1 is printed */
  IrBlock body;
  struct IrTable *table; /* hash-consing; private to ir.c */
};

/* ---------------------------------------------------------------- building (ir.c) */

/* An empty kernel of that level, all of whose parts will lie in the arena. */
IrKernel *ir_kernel_new(Arena *a, Names *names, const char *name, IrLevel level);
/* Deep copy into another arena, with nothing shared. */
IrKernel *ir_kernel_clone(Arena *a, const IrKernel *k);

/* Each in the kernel's table, without a statement that declares it; arrays are copied. */
IrVar *ir_var(IrKernel *k, IrVarKind kind, const char *name, DType type);
IrBuffer *ir_buffer(IrKernel *k, IrSpace space, const char *name, DType dtype, int rank,
                    IrExpr *const *extent);
IrTmap *ir_tmap(IrKernel *k, const char *name, IrBuffer *buf, int rank);
IrChannel *ir_channel(IrKernel *k, const char *name, IrBuffer *const *tile, int ntiles);
/* The number of a FAULT's text in k->sites, added where it is new. */
int ir_site(IrKernel *k, const char *text);
/* The stride variable of an axis of a global buffer, made on first request. */
IrVar *ir_stride(IrKernel *k, IrBuffer *buf, int axis);
/* The number of multiprocessors, made on first request. */
IrVar *ir_sms(IrKernel *k);
/* Makes variables' and buffers' names unique by suffixes (`x`, `x_1`). */
void ir_name_apart(IrKernel *k);

/* Expressions: hash-consed, constants folded, and simplified where exact (x + 0, x * 1, nested
 * casts of integers, …). Operands must already have the row's types. */
IrExpr *ir_const(IrKernel *k, Scalar value);
IrExpr *ir_int(IrKernel *k, int64_t value); /* i64 */
IrExpr *ir_int_of(IrKernel *k, DType type, int64_t value);
IrExpr *ir_float(IrKernel *k, DType type, double value);
IrExpr *ir_bool(IrKernel *k, bool value);
IrExpr *ir_ref(IrKernel *k, IrVar *var);
IrExpr *ir_op1(IrKernel *k, OpCode op, IrExpr *a);
IrExpr *ir_op2(IrKernel *k, OpCode op, IrExpr *a, IrExpr *b);
IrExpr *ir_op3(IrKernel *k, OpCode op, IrExpr *a, IrExpr *b, IrExpr *c);
/* General form; type is used where the row does not decide it (CAST, BITCAST, leaves). */
IrExpr *ir_expr(IrKernel *k, OpCode op, DType type, IrExpr *const *args, int nargs);
IrExpr *ir_cast(IrKernel *k, IrExpr *e, DType type); /* e itself where it has the type */
bool ir_is_const(const IrExpr *e, int64_t *value);   /* an integer constant */

/* Inclusive bounds of an integer expression, from constants and the variables' lo and hi; false
 * where nothing is known, or where it may wrap. */
bool ir_range(const IrExpr *e, int64_t *lo, int64_t *hi);

/* For who knows more of the variables, or looks more closely (range.c). */
typedef struct IrRange { /* inclusive */
  int64_t lo, hi;
} IrRange;
/* Gives the range of the computed value of an operand; false where nothing is known of it. */
typedef bool IrRangeOf(void *ctx, const IrExpr *e, IrRange *out);
/* Bounds of the mathematical value of e's own operation, from what `of` says of its operands; false
 * where nothing is known, as of variables and what else has no operands but constants. Where they
 * do not fit e's type the operation can wrap. */
bool ir_range_step(const IrExpr *e, IrRangeOf *of, void *ctx, IrRange *out);
/* What a type holds: of a float, and of u64 above int64, as much as int64 does. */
IrRange ir_range_of_type(DType t);
bool ir_range_fits(IrRange r, DType t); /* whether t holds all of it */

/* Notes that the text has e at this place, where e is an operation that may fault itself; nothing
 * else needs one. A place without a file is none. */
void ir_place(IrKernel *k, IrExpr *e, Span span);
/* Notes for e the places that another node, also of another kernel, had. */
void ir_place_like(IrKernel *k, IrExpr *e, const IrPlace *places);
/* Where the text has e: its one place, or of several the one within this statement's span; the
 * statement's span where that does not tell. */
Span ir_place_of(const IrExpr *e, Span stmt);

/* A new statement appended to the block; fill in `as`. */
IrStmt *ir_add(IrKernel *k, IrBlock *block, IrKind kind, Span span);
/* A region of the whole buffer (constant extents; for global tensors extent 0). */
IrRegion ir_whole(IrKernel *k, IrBuffer *buf);
/* Number of kept axes, and the constant extent of the i-th kept axis after .trans. */
int ir_region_rank(const IrRegion *r);
int64_t ir_region_extent(const IrRegion *r, int i);

/* Calls fn on every statement, outermost first; fn returns false to skip a statement's blocks. */
void ir_walk(IrBlock *block, bool (*fn)(IrStmt *s, void *ctx), void *ctx);
/* The nested blocks of a statement: the i-th, or NULL past the last. */
IrBlock *ir_nested(IrStmt *s, int i);
/* Visits what one statement itself holds (not what its nested blocks hold), each as a slot that may
 * be replaced: expressions in the order in which they are printed, variables that it defines (SET:
 * changes), buffers with how they are used (IR_READS …; of an ALLOC IR_DECLARES). A callback may be
 * NULL. */
enum { IR_READS = 1, IR_WRITES = 2, IR_DECLARES = 4 };
typedef struct IrVisitor {
  void (*expr)(IrExpr **e, void *ctx);
  void (*def)(IrVar **v, void *ctx);
  void (*buffer)(IrBuffer **b, unsigned how, void *ctx);
  void *ctx;
} IrVisitor;
void ir_visit(IrStmt *s, const IrVisitor *v);
/* The same kernel with this expression's variables replaced: to[id] where not NULL, by variable id
 * (n of them). Rebuilt through ir_expr, so it folds. */
IrExpr *ir_replace(IrKernel *k, IrExpr *e, IrExpr *const *to, size_t n);

/* ---------------------------------------------------------------- text, checking, binding */

/* Canonical text; reading it back gives a kernel that prints the same. Grammar: src/ir/text.md. */
void ir_print(const IrKernel *k, Str *out);
void ir_print_expr(const IrKernel *k, const IrExpr *e, Str *out); /* as it writes one */
/* Reads the kernels of a file, in order; false (and diagnostics E06xx) if it has errors. */
typedef VEC(IrKernel *) IrKernels;
bool ir_read(Arena *a, Names *names, const SrcFile *file, DiagSink *sink, IrKernels *out);
/* Checks everything this header promises, for the kernel's level. Infers uniformity at thread level
 * (ir_uniform) and refuses divergent collectives, varying descriptors, dynamic register indices. */
bool ir_verify(IrKernel *k, DiagSink *sink);
/* Thread level: sets `uniform` of variables and expressions to the least fixed point. */
void ir_uniform(IrKernel *k);

/* What a launch binds: one value a variable (by id), one tensor a global buffer (by id). */
typedef struct IrTensorArg {
  void *data; /* host or device address of element 0 */
  int64_t extent[IR_MAX_RANK];
  int64_t stride[IR_MAX_RANK]; /* elements */
  int rank;
  DType dtype;
  uint8_t *written; /* evaluator: one byte an element in row-major order, for outputs that
                       start unwritten; NULL: everything is written */
} IrTensorArg;
typedef struct IrBinding {
  Scalar *value;       /* by variable id: params, extents, strides, sms, `pre` lets */
  IrTensorArg *tensor; /* by buffer id (global ones) */
  int64_t grid[3];     /* blocks along each axis */
} IrBinding;
/* Binds extents from the shapes in b->tensor (inputs and inouts given; outputs' shapes are computed
 * into it, data left alone), scalar parameters from b->value, then strides, `pre` and the grid.
 * sms: of the target. Reports mismatches by the parameters' names (E03xx). */
bool ir_bind(const IrKernel *k, IrBinding *b, int64_t sms, DiagSink *sink);
IrBinding *ir_binding_new(Arena *a, const IrKernel *k); /* nothing is bound yet */
/* Evaluates an expression of bound variables; false where it faults (division by zero). */
bool ir_host_eval(const IrExpr *e, const IrBinding *b, Scalar *out);

#endif
