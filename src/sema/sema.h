/* sema.h: names, types, shapes and constants: from the syntax tree of a kernel to its typed tree.
 *
 * In: an AstKernel, the `fn`s it can see, and a specialisation (values of its compile-time
 * parameters, static extents). Out: a SemaKernel (the signature, checked at the definition), and
 * for each specialisation a typed tree in which nothing is left to decide: names are variables and
 * buffers, every operation is a row of ops.def on operands of the row's types, conversions are
 * written, shapes are constants, compile-time choices are made, `fn`s are inlined. src/ir/build.h
 * turns it into IR.
 * Always holds: a tree is given out only without errors; everything lives in the arena of the call.
 *
 * A definition:  k = sema_declare(arena, ast, scope, sink);            errors of the file show at
 * once A call:        s = sema_spec_new(arena, k);                          nothing is set
 *                sema_set(k, s, "BM", value, span, sink);              k[BM = 64]
 *                sema_bind(arena, k, s, args, span, sink);             dtypes, static extents
 *                tree = sema_check(arena, k, s, sink);                 or NULL and diagnostics
 *                ir = ir_build(arena, names, tree, sink);              src/ir/build.h
 *
 * Typing of two numbers that meet is in one place (sema_binary …), which the host uses too.
 * Tests: tests/unit/check_sema.c, tests/lang, tests/errors. Codes: E0100 to E0379.
 */
#ifndef TILESH_SEMA_H
#define TILESH_SEMA_H

#include "ops/ops.h"
#include "parser/parser.h"

/* Axes of a tensor or tile; the same as IR_MAX_RANK, which sema may not include. */
enum { SEMA_MAX_RANK = 8 };

/* ---------------------------------------------------------------- numbers that meet (typing.c) */

/* Host numbers without a type are f64 where a kernel's become f32: the manual, Types. */
typedef enum SemaSide { SEMA_HOST, SEMA_KERNEL } SemaSide;

/* What typing knows of an operand. An untyped `int` has dtype I64, an untyped `float` F64. */
typedef struct SemaNum {
  DType dtype;
  bool untyped;
  bool array;       /* a tensor or tile */
  bool constant;    /* `value` is known when the kernel is compiled; on the host: a literal */
  Scalar value;     /* constant: of `dtype`; an int from 2^63 on has type U64 */
  const char *text; /* its source text for messages, or NULL */
} SemaNum;

/* How an operation on such operands is done. */
typedef struct SemaRule {
  OpCode op;         /* row of ops.def; OP_NONE for unary + */
  DType left, right; /* the types that the operands convert to (right: of all but the first) */
  DType dtype;       /* the result's */
  bool untyped;      /* the result is an `int` or `float` */
  DiagCode code;     /* where typing failed: the diagnostic, */
  const char *error; /* its text … */
  const char *hint;  /* … and hint (legal code), or NULL; in the arena */
} SemaRule;

/* `x op y` of operators + - * / // % ** & | ^ << >> and comparisons, on scalars, tiles and tensors
 * alike (shapes are not looked at; @, and, or are not here). False with code, error, hint set. */
bool sema_binary(Arena *a, SemaSide side, AstOp op, SemaNum x, SemaNum y, SemaRule *out);
/* `op x` of - + ~ not. */
bool sema_unary(Arena *a, SemaSide side, AstOp op, SemaNum x, SemaRule *out);
/* A pure operation called by name (sqrt, max of two, clamp, where …): n must be its arity. */
bool sema_apply(Arena *a, SemaSide side, OpCode op, const SemaNum *x, int n, SemaRule *out);
/* The common type of two numbers that meet, as for `+` but for any operands (also two bools). */
bool sema_meet(Arena *a, SemaSide side, SemaNum x, SemaNum y, SemaRule *out);
/* The pure operation that programs call by this name, or OP_NONE. */
OpCode sema_builtin(const char *name);
/* The dtype that NumPy, C or PyTorch call so ("float32" is f32), or NULL; a static text. */
const char *sema_foreign_dtype(const char *name);
/* What to do without a dtype of four bits, for a name of one; else NULL. */
const char *sema_later_dtype(const char *name);
/* The i-th name that sema_builtin knows, or NULL past the last: for completion. */
const char *sema_builtin_name(size_t i);
/* Whether an untyped constant may become t: an integer in its range; a finite float that stays
 * finite (any float for an integer type: it truncates). */
bool sema_fits(Scalar value, DType t);
/* "i32", "int", "float". */
const char *sema_num_name(SemaNum x);

/* ---------------------------------------------------------------- what a kernel can see */

typedef struct SemaScope SemaScope;
/* A function that a kernel may call. */
typedef struct SemaFn {
  const AstFn *ast;       /* NULL: there is none */
  const SemaScope *scope; /* where the names of its body are looked up */
} SemaFn;
/* Names of the host's `fn`s, looked up when a body is checked. */
struct SemaScope {
  void *ctx;
  /* module NULL: `name`; else `module.name`. */
  SemaFn (*find)(void *ctx, const char *module, const char *name);
  /* The i-th name that is visible, or NULL past the last: for "did you mean". May be NULL. */
  const char *(*name)(void *ctx, size_t i);
  /* Whether a function that `find` does not have may be there when the kernel is called: then a
   * definition does not complain of it. NULL: none may. */
  bool (*later)(void *ctx, const char *module, const char *name);
};

/* ---------------------------------------------------------------- signature */

/* Kinds of compile-time values. */
typedef enum SemaValueKind {
  SV_UNSET,
  SV_INT,
  SV_FLOAT,
  SV_BOOL,
  SV_STRING,
  SV_DTYPE
} SemaValueKind;

/* A compile-time value. */
typedef struct SemaValue {
  SemaValueKind kind;
  Scalar num;         /* INT (I64 or U64), FLOAT (F64), BOOL */
  DType dtype;        /* DTYPE */
  const char *string; /* STRING: n bytes and a NUL */
  size_t n;
} SemaValue;

/* Its kind follows from the written type, else from the default, else from what is set. */
typedef struct SemaStatic { /* a compile-time parameter */
  AstName name;
  const AstDecl *decl;
  SemaValueKind kind; /* SV_UNSET: neither type nor default say (any value) */
  DType type;         /* the written scalar type, or DT_NONE */
  bool is_auto;       /* `= auto(v)`: v is its default */
  bool has_default;
  bool from_argument; /* a dtype that an argument binds where the call does not */
  SemaValue value;    /* the default, where it could be computed at the definition */
} SemaStatic;

/* Symbolic extents are bound at the launch, static ones before compiling. */
typedef struct SemaExtent { /* one axis of a tensor parameter, as written */
  const AstExtent *ast;
  const char *name; /* the symbolic or static extent that it is (`M`, `static D`), or NULL */
  bool is_static;   /* `name` is a static extent, known when the kernel is compiled */
} SemaExtent;

/* Inputs in their order, then outputs; the launch binds them so. */
typedef struct SemaParam { /* an input or an output */
  AstName name;
  const AstDecl *decl;
  bool tensor;
  bool inout;
  bool output;
  DType dtype;      /* DT_NONE: that of compile-time parameter `dtype_static` */
  int dtype_static; /* index into statics, or -1 */
  int rank;
  SemaExtent extent[SEMA_MAX_RANK];
} SemaParam;

/* A kernel as it was defined: its signature. Specialisations do not change it. */
typedef struct SemaKernel {
  const AstKernel *ast;
  const SemaScope *scope;
  SemaStatic *statics;
  size_t nstatics;
  SemaParam *params; /* inputs, then outputs */
  size_t ninputs, noutputs;
  const char **extents; /* names of the static extents, each once */
  size_t nextents;
  bool ok; /* no errors were found in it */
} SemaKernel;

/* Reads the signature and checks the body with the defaults, as far as they go (what depends on a
 * parameter without a default or on a static extent is checked at the call). Errors go to the sink;
 * NULL if the signature itself is wrong. `ast` and `scope` must live as long. */
SemaKernel *sema_declare(Arena *a, const AstKernel *ast, const SemaScope *scope, DiagSink *sink);

/* Reads the signature alone, of a kernel whose body sema_declare has checked or sema_check will. */
SemaKernel *sema_read(Arena *a, const AstKernel *ast, const SemaScope *scope, DiagSink *sink);

/* ---------------------------------------------------------------- specialisation */

/* What makes one specialisation: two calls with equal ones share their compiled kernel. */
typedef struct SemaSpec {
  SemaValue *statics;    /* by index; SV_UNSET: the default */
  int64_t *extents;      /* static extents by index; -1: not known */
  const char **bound_by; /* by index of statics: the argument that bound a dtype, or NULL */
} SemaSpec;

/* One with nothing set, and a copy; in the arena. */
SemaSpec *sema_spec_new(Arena *a, const SemaKernel *k);
SemaSpec *sema_spec_copy(Arena *a, const SemaKernel *k, const SemaSpec *s);
/* `k[name = value]`. False with a diagnostic: no such parameter, or a value of the wrong kind. */
bool sema_set(const SemaKernel *k, SemaSpec *s, const char *name, SemaValue value, Span span,
              DiagSink *sink);

/* Tensors by their shape and dtype only: data are the session's. Shapes of outputs given by `out =`
 * are compared with what the inputs said. */
typedef struct SemaArg { /* the argument for an input; outputs of `out =` too */
  bool given;            /* false: skipped (an output that the call allocates) */
  bool tensor;
  DType dtype; /* tensor */
  int rank;
  int64_t extent[SEMA_MAX_RANK];
  bool strided;                  /* strides are known; false: as row-major */
  int64_t stride[SEMA_MAX_RANK]; /* elements */
  SemaNum number;                /* scalar */
  Span span;
} SemaArg;
/* Binds what the arguments decide: dtype parameters that are not set, static extents; checks that
 * every argument has its parameter's rank and dtype, that scalars fit (values are the session's to
 * convert). args: one for each of the ninputs + noutputs parameters. Symbolic extents are compared
 * by ir_bind. */
bool sema_bind(Arena *a, const SemaKernel *k, SemaSpec *s, const SemaArg *args, Span call,
               DiagSink *sink);
/* The value of a compile-time parameter under s (its default where unset); false if it has none. */
bool sema_value(Arena *a, const SemaKernel *k, const SemaSpec *s, size_t i, SemaValue *out);
/* dtype of the i-th parameter under s; DT_NONE where not known. */
DType sema_param_dtype(Arena *a, const SemaKernel *k, const SemaSpec *s, size_t i);

/* ---------------------------------------------------------------- typed tree */

/* What kind of value an expression of a kernel has. */
typedef enum SemaKind {
  TY_ERROR,  /* reported, or not known at the definition: silent */
  TY_NONE,   /* no value: copy(…), print(…) */
  TY_NUM,    /* a scalar */
  TY_TILE,   /* a tile, rank >= 1 */
  TY_GLOBAL, /* a global tensor or a region of one */
  TY_TUPLE,
  TY_STRING,
  TY_DTYPE
} SemaKind;

/* The type of an expression: a scalar's dtype, a tile's dtype and constant shape. Global tensors
 * have symbolic shapes, which stand at their TBuf. */
typedef struct SemaType {
  SemaKind kind;
  DType dtype;  /* NUM, TILE, GLOBAL; DTYPE: the value */
  bool untyped; /* `int` (dtype I64) or `float` (F64) */
  int rank;
  int64_t extent[SEMA_MAX_RANK]; /* TILE */
} SemaType;

typedef struct TExpr TExpr;
typedef struct TStmt TStmt;

/* Where a scalar of the tree comes from; only TV_VAR changes. An int's range is what loops, grids
 * and extents say; it only ever removes checks. */
typedef enum TVarKind { TV_LET, TV_VAR, TV_INDEX, TV_GRID, TV_PARAM, TV_EXTENT, TV_SMS } TVarKind;
typedef struct TVar { /* a scalar */
  const char *name;
  Span span;
  TVarKind kind;
  DType type;
  int64_t lo, hi; /* known inclusive range of an integer; INT64_MIN, INT64_MAX: none */
  void *ir;       /* the builder's */
} TVar;

/* Where a tile lives: the manual, Kernels. */
typedef enum TSpace { TB_GLOBAL, TB_SHARED, TB_FRAGMENT, TB_LOCAL } TSpace;
/* A stated layout; TL_NONE: the compiler's choice. */
typedef enum TLayoutKind { TL_NONE, TL_SWIZZLE, TL_PADDED, TL_MAP } TLayoutKind;
/* One buffer a declaration; a tile declared in a loop is one TBuf, new in each iteration. */
typedef struct TBuf { /* a tensor parameter or a tile */
  const char *name;
  Span span;
  TSpace space;
  DType dtype;
  int rank;
  int64_t extent[SEMA_MAX_RANK]; /* tiles */
  TExpr *shape[SEMA_MAX_RANK];   /* global: i64 */
  bool immutable;                /* a `let` of a tile */
  TLayoutKind layout;
  bool barrier;          /* an array of barriers (shared, u64): */
  int arrivals;          /* so many end a phase of each */
  int role;              /* a fragment declared outside: the role that uses it, counted from 1, */
  Span role_span;        /* and where; 0: none does */
  int64_t layout_amount; /* swizzle: bytes; padded: elements */
  TVar *layout_index[SEMA_MAX_RANK];
  TExpr *layout_map;
  void *ir;
} TBuf;

/* Regions as in ir.h: per axis of the buffer. */
typedef struct TAxis {
  TExpr *origin;  /* i64 */
  int64_t extent; /* kept; 0: from the other side (global only). 1 for a single index */
  int64_t step;
  bool keep;
  TExpr *stop; /* or NULL */
} TAxis;
/* A region never copies: operations read and write the buffer through it. Where it leaves the
 * buffer is known only at run time, unless its origins are constants. */
typedef struct TRegion {
  TBuf *buf;
  TAxis axis[SEMA_MAX_RANK];
  bool trans; /* the last two kept axes are swapped */
  Span span;  /* of an element that is written or changed: its text */
} TRegion;

/* A block. */
typedef struct TStmts {
  TStmt **v;
  size_t n, cap;
} TStmts;

/* Kinds of expression. Operands are in arg, in the order of evaluation; what else a kind needs
 * stands in `as`. Tiles are evaluated element by element but for REDUCE, SCAN, DOT, COND and SEQ,
 * which are computed whole, once, before the statement that holds them. */
typedef enum TExprKind {
  TE_ERROR,
  TE_CONST,
  TE_STRING,
  TE_DTYPE,
  TE_VAR,
  TE_OP,  /* a pure row, element by element; operands broadcast to the result's shape */
  TE_AND, /* lazy, scalars */
  TE_OR,
  TE_COND,   /* arg[0] if arg[1] else arg[2]: only the side chosen is evaluated; sides have the type
                of the result (tiles: its shape too) */
  TE_ELEM,   /* one element */
  TE_REGION, /* a tile or slice of one (TY_TILE), a region of a global tensor (TY_GLOBAL) */
  TE_NEWAXIS, /* arg[0] with extents of 1 put in where new_axis is set */
  TE_PERMUTE, /* axis i is axis perm[i] of arg[0] */
  TE_SLICE,   /* axes of arg[0], a tile that is no buffer */
  TE_RESHAPE, /* arg[0] in row-major order in another shape */
  TE_IOTA,    /* 0 … n-1, i32 */
  TE_REDUCE,  /* of arg[0]; axis -1: of all, a scalar */
  TE_SCAN,
  TE_DOT,    /* arg[0] @ arg[1], tiles of rank 2 */
  TE_APPLY,  /* an inlined fn of scalars: params bound to args, element by element; then body,
                then value, a scalar */
  TE_SEQ,    /* body, then value (once, outside maps): an inlined fn of anything */
  TE_ATOMIC, /* element; the value is the old one */
  TE_TUPLE
} TExprKind;

/* How the warps of a block share a product: a wish. */
typedef enum TPolicy { TP_AUTO, TP_ROWS, TP_COLUMNS, TP_SQUARE } TPolicy;

/* One expression. Nodes are shared: never change one that is in the tree. */
struct TExpr {
  TExprKind kind;
  SemaType type;
  Span span;
  void *ir; /* the builder's */
  TExpr **arg;
  int nargs;
  TExpr **shape; /* RESHAPE of a global tensor: its extents, i64; else NULL */
  union {
    Scalar value; /* CONST: of type.dtype; U64 with type int from 2^63 on */
    struct {
      const char *s;
      size_t n;
    } string;
    TVar *var;
    OpCode op; /* OP */
    /* Axes of a region are those of its buffer, `.T` is a flag: see TRegion. */
    TRegion region; /* REGION; ELEM: every axis dropped; SLICE: buf NULL, axes of arg[0] */
    bool new_axis[SEMA_MAX_RANK];
    int perm[SEMA_MAX_RANK];
    struct { /* REDUCE, SCAN */
      OpCode op;
      int axis;
      bool keepdims, reverse, exclusive;
    } fold;
    struct { /* APPLY (params one an arg), SEQ (no params) */
      TVar **params;
      TStmts body;
      TExpr *value;
    } inlined;
    struct { /* ATOMIC: arg[0] the value, arg[1] the expected one of atomic_cas */
      OpCode op;
      TRegion at;
    } atomic;
  } as;
};

/* Kinds of statement, nearly one for one those of ir.h. */
typedef enum TStmtKind {
  TS_LET, /* scalar; also declares a var */
  TS_SET,
  TS_ALLOC,
  TS_ASSIGN, /* region = value: a tile that broadcasts to it or a scalar, of the buffer's dtype */
  TS_STORE,  /* element = value, of the buffer's dtype */
  TS_COPY,
  TS_DOT,    /* region (+)= a @ b of the region's dtype */
  TS_ATOMIC, /* element form: value is a TE_ATOMIC whose result is not used */
  TS_ATOMIC_TILE,
  TS_FOR,
  TS_WHILE,
  TS_IF,
  TS_BREAK,
  TS_CONTINUE,
  TS_RETURN,
  TS_ROLES, /* explicit specialisation */
  TS_ARRIVE,
  TS_WAIT,
  TS_PRINT,
  TS_ASSERT,
  TS_EVAL /* evaluates a scalar for its faults: a call whose value is not used */
} TStmtKind;

/* The word after `in`. */
typedef enum TLoop {
  TF_RANGE,
  TF_UNROLL,
  TF_VECTORIZED,
  TF_PIPELINED,
  TF_PERSISTENT,
  TF_PARALLEL
} TLoop;

/* One role of `specialize`: warps in the order of the roles, four a warpgroup. */
typedef struct TRole {
  bool producer; /* else a consumer */
  int warpgroups;
  int registers; /* of a thread; 0: not said */
  TStmts body;
} TRole;

/* One statement; the span is the author's, for messages and for the IR. */
struct TStmt {
  TStmtKind kind;
  Span span;
  union {
    struct { /* LET, SET, EVAL (no var), ATOMIC (no var) */
      TVar *var;
      TExpr *value;
    } let;
    /* ALLOC: its elements are unwritten from here on. */
    TBuf *alloc;
    struct { /* ASSIGN, STORE */
      TRegion dst;
      TExpr *value;
    } assign;
    struct { /* COPY: one of src and value; ATOMIC_TILE: op */
      TRegion dst;
      TRegion src;
      TExpr *value; /* a whole-tile expression as source, else NULL */
      TExpr *pad;
      TRegion signal; /* COPY: the barrier at which its end arrives; buf NULL: none */
      OpCode op;
    } copy;
    struct { /* DOT */
      TRegion c;
      TExpr *a, *b; /* tiles of rank 2 */
      bool accumulate;
      TPolicy policy;
      int promote;
      bool tf32;
    } dot;
    struct { /* FOR: naxes > 1 only for PARALLEL, which uses hi alone */
      TLoop loop;
      int naxes;
      TVar *index[4];
      TExpr *lo, *step;
      TExpr *hi[4];
      int stages;
      TStmts body;
    } loop;
    struct { /* WHILE, IF */
      TExpr *cond;
      TStmts then, other;
    } branch;
    struct { /* ROLES */
      TRole *v;
      int n;
    } roles;
    struct {         /* ARRIVE, WAIT: one element of an array of barriers */
      TRegion at;    /* every axis dropped */
      TExpr *parity; /* WAIT: i64, its lowest bit counts */
    } barrier;
    struct { /* PRINT, ASSERT: parts are scalars, tiles or strings */
      TExpr *cond;
      TExpr **part;
      int nparts;
    } report;
  } as;
};

/* A kernel under one specialisation, ready for the builder. */
typedef struct SemaTree {
  const SemaKernel *kernel;
  SemaValue *statics; /* by index: the compile-time parameters' values here, defaults included */
  TBuf **buf;         /* by parameter (inputs, outputs): a tensor, or NULL */
  TVar **var;         /* by parameter: a scalar, or NULL */
  TExpr **init;       /* by parameter: an output's initial value, or NULL */
  TVar **extent;      /* symbolic extents, in order of first appearance */
  size_t nextents;
  TVar *sms;  /* or NULL */
  TStmts pre; /* lets before the grid */
  int grid_rank;
  TExpr *grid[3];
  TVar *grid_index[3];
  int threads, raster, cluster[3];
  bool resident, cooperative;
  TStmts body;
} SemaTree;

/* The typed tree of the kernel under the specialisation; NULL with diagnostics. */
SemaTree *sema_check(Arena *a, const SemaKernel *k, const SemaSpec *s, DiagSink *sink);

/* "f16[128, 64]", "int": for messages. */
const char *sema_type_name(Arena *a, const SemaType *t);
/* Whether rank and extents agree, whatever the dtypes. */
bool sema_type_same_shape(const SemaType *a, const SemaType *b);

#endif
