/* private.h: the checker's own state and the calls between its files; not for other folders.
 *
 * One Check walks one kernel body under one specialisation. Statements go to `out`; expressions are
 * returned. An expression of type TY_ERROR was reported already (or depends on what is not known
 * yet) and silences everything it reaches. Lookups walk `block` outwards.
 */
#ifndef TILESH_SEMA_PRIVATE_H
#define TILESH_SEMA_PRIVATE_H

#include "sema.h"

typedef enum SymKind {
  SYM_VALUE, /* an immutable scalar, a compile-time value, a tile or tensor: `value` */
  SYM_VAR,   /* a `var` */
  SYM_POISON /* declared, but with an error: silent */
} SymKind;

typedef struct Sym {
  const char *name;
  SymKind kind;
  const char *what; /* "a loop variable", "a compile-time parameter": for messages */
  Span span;
  TExpr *value; /* VALUE */
  TVar *var;    /* VAR */
  int parallel; /* depth of parallel loops at its declaration */
} Sym;

typedef struct Block {
  struct Block *up; /* NULL at the outermost block of a kernel or fn */
  VEC(Sym) syms;
} Block;

/* What is to be done after the statements at hand, in a fn that returns early. */
typedef struct Rest {
  const AstBlock *block;
  size_t i;
  Block *scope;
  struct Rest *up;
} Rest;

/* A loop of a fn that returns from inside: `return e` sets result and done and leaves the loop. */
typedef struct LoopReturn {
  TVar *done;    /* a bool `var` */
  TStmts decls;  /* of what result names */
  TExpr *result; /* NULL until the first return was seen; then its type is fixed */
} LoopReturn;

typedef struct FnCall { /* the fn being inlined */
  const AstFn *fn;
  struct FnCall *up;
  bool apply;       /* element by element */
  LoopReturn *loop; /* inside such a loop, else NULL */
} FnCall;

typedef struct Check {
  Arena *a;
  DiagSink *sink;
  const SemaKernel *kernel;
  const SemaSpec *spec;
  const SemaScope *scope;
  SemaTree *tree;
  Block *block;
  TStmts *out;
  FnCall *fn;
  bool defining; /* at the definition: unknown values are TY_ERROR */
  bool pre;      /* before the grid: only lets */
  bool unchecked;
  int parallel;
  int loops;
  int depth;      /* of expressions and blocks, inlined fns included */
  size_t inlined; /* statements inlined so far */
} Check;

enum { CHECK_MAX_DEPTH = 900, CHECK_MAX_INLINED = 20000 };

/* --- tree.c: making nodes --- */
TExpr *sema_texpr_new(Check *c, TExprKind kind, SemaType type, Span span);
TExpr *sema_texpr_error(Check *c, Span span);
TExpr *sema_texpr_const(Check *c, Scalar v, bool untyped, Span span);
TExpr *sema_texpr_int(Check *c, int64_t v, Span span); /* untyped */
TExpr *sema_texpr_i64(Check *c, int64_t v, Span span); /* typed */
TExpr *sema_texpr_bool(Check *c, bool v, Span span);
TExpr *sema_texpr_var(Check *c, TVar *v, bool untyped, Span span);
TExpr *sema_texpr_op(Check *c, OpCode op, SemaType type, TExpr *const *args, int n, Span span);
TExpr *sema_texpr_whole(Check *c, TBuf *b, Span span); /* the whole tile or tensor */
TExpr *sema_texpr_wrap1(Check *c, TExprKind kind, SemaType type, TExpr *arg, Span span);
SemaType sema_type_num(DType t, bool untyped);
SemaType sema_type_kind(SemaKind k);
SemaType sema_type_tile(DType t, int rank, const int64_t *extent);
/* A value's own dtype made definite: int is i64, float is f64. */
SemaType sema_type_definite(SemaType t);
bool sema_type_same_shape(const SemaType *a, const SemaType *b);
TVar *sema_tvar_new(Check *c, TVarKind kind, const char *name, DType t, Span span);
TBuf *sema_tbuf_new(Check *c, TSpace space, const char *name, const SemaType *t, Span span);
TStmt *sema_tstmt_new(Check *c, TStmtKind kind, Span span); /* appended to c->out */
bool sema_is_error(const TExpr *e);
bool sema_is_const(const TExpr *e);
bool sema_is_const_int(const TExpr *e, int64_t *v);
bool sema_is_tile(const TExpr *e);
bool sema_is_num(const TExpr *e);
/* Cheap to repeat and without effect: constants, variables, regions, operations on them. */
bool sema_is_pure(const TExpr *e);
bool sema_texpr_same(const TExpr *a, const TExpr *b);
/* Whether a - b is known, as integers. */
bool sema_texpr_difference(const TExpr *a, const TExpr *b, int64_t *d);
TRegion sema_region_whole(Check *c, TBuf *b, Span span);

/* --- names.c: scopes and messages --- */
void sema_block_push(Check *c, Block *b);
void sema_block_pop(Check *c);
Sym *sema_sym_find(Check *c, const char *name);
/* Declares in the innermost block; twice in one block is an error. Never NULL. */
Sym *sema_sym_declare(Check *c, AstName name, SymKind kind, const char *what);
void sema_sym_value(Check *c, AstName name, TExpr *value, const char *what);
TExpr *sema_unknown_name(Check *c, const char *name, Span span);
const char *sema_source_text(Check *c, const AstExpr *e); /* short source of it, or NULL */
const char *sema_span_text(Check *c, Span span);
const char *closest(Check *c, const char *name, const char *const *list, size_t n);
const char *sema_describe(Check *c, const TExpr *e); /* its type, for messages */
SemaNum sema_num_of(Check *c, const TExpr *e, const AstExpr *ast);
bool sema_enter(Check *c, Span span); /* false: nested too deeply, reported */
void sema_leave(Check *c);

/* --- expr.c --- */
TExpr *sema_check_expr(Check *c, const AstExpr *e);
TExpr *sema_check_lazy(Check *c, const AstExpr *e);  /* statements it needs stay inside it */
TExpr *sema_check_value(Check *c, const AstExpr *e); /* a scalar or tile, no global tensor */
TExpr *sema_check_scalar(Check *c, const AstExpr *e, const char *what);
TExpr *sema_check_int(Check *c, const AstExpr *e, const char *what); /* any integer, as i64 */
TExpr *sema_check_cond(Check *c, const AstExpr *e);
bool sema_check_const_int(Check *c, const AstExpr *e, const char *what, int64_t *v);
bool sema_check_const_bool(Check *c, const AstExpr *e, const char *what, bool *v);
/* Where the value is a compile-time bool: *v. Unknown at the definition counts as not constant. */
bool sema_known_bool(const TExpr *e, bool *v);
/* Implicit conversion, as stores do; a literal must fit. */
TExpr *sema_convert(Check *c, TExpr *e, DType t);
TExpr *sema_cast(Check *c, TExpr *e, DType t); /* explicit */
/* Applies a typed rule to operands that are already shaped. */
TExpr *sema_apply_rule(Check *c, const SemaRule *r, TExpr **args, int n, Span span);
TExpr *sema_report_rule(Check *c, const SemaRule *r, Span span);
TExpr *sema_operate(Check *c, AstOp op, TExpr *x, TExpr *y, const AstExpr *ax, const AstExpr *ay,
                    Span span);
/* The shape two values broadcast to; false (reported) if there is none. */
bool sema_broadcast(Check *c, const TExpr *x, const TExpr *y, Span span, SemaType *out);
bool sema_broadcasts_to(const SemaType *from, const SemaType *to);

/* --- index.c --- */
TExpr *sema_check_index(Check *c, const AstExpr *e);
TExpr *sema_check_attr(Check *c, const AstExpr *e);
TExpr *sema_transpose(Check *c, TExpr *x, Span span);
/* What an assignment, copy or fill may write; TE_ELEM, TE_REGION or an error. */
TExpr *sema_check_place(Check *c, const AstExpr *e);
/* A side of copy: also origins of global tensors. `origin` tells those that take their extents
 * from the other side. */
TExpr *sema_check_side(Check *c, const AstExpr *e, bool *origin);
/* Kept axes of a region. */
int sema_region_rank(const TRegion *r);
void sema_region_shape(const TRegion *r, SemaType *t);

/* --- call.c, tile.c, product.c, copy.c, fn.c --- */
TExpr *sema_check_call(Check *c, const AstExpr *e);
TExpr *sema_check_reduce(Check *c, const AstExpr *e, OpCode op, const char *name);
TExpr *sema_check_scan(Check *c, const AstExpr *e, OpCode op);
TExpr *sema_reduce_tile(Check *c, OpCode op, TExpr *x, int axis, bool keepdims, Span span);
TExpr *sema_check_reshape(Check *c, const AstExpr *e);
TExpr *sema_check_transpose(Check *c, const AstExpr *e);
TExpr *sema_check_product(Check *c, TExpr *x, TExpr *y, const AstExpr *e, const AstExpr *ax,
                          const AstExpr *ay);
TExpr *sema_check_copy(Check *c, const AstExpr *e);
TExpr *sema_check_fill(Check *c, const AstExpr *e);
TExpr *sema_check_gemm(Check *c, const AstExpr *e);
TExpr *sema_check_atomic(Check *c, const AstExpr *e, OpCode op);
TExpr *sema_check_print(Check *c, const AstExpr *e);
/* A call of a host fn; NULL if there is none of that name. */
TExpr *sema_check_fn_call(Check *c, const AstExpr *e, const char *module, const char *name);
/* Whether a statement of a fn returns, itself or inside. */
bool sema_returns(const AstStmt *s);
/* `return` inside a loop of a fn. */
void sema_loop_return(Check *c, const AstStmt *s);
/* After an inner loop that may have returned: leaves the outer one too. */
void sema_loop_leave(Check *c, const AstStmt *s);
/* Whether a tile operation may stand here (not in parallel loops or fns of scalars). */
bool sema_tile_allowed(Check *c, Span span, const char *what);
/* Positional and named arguments against a list "x, y, axis=, keepdims="; false if reported. */
typedef struct Args {
  const AstExpr *v[8];
} Args;
bool sema_take_args(Check *c, const AstExpr *call, const char *name, const char *const *params,
                    size_t required, size_t positional, Args *out);
/* Assigns a tile or scalar to a region (`= value`), directly as a product where it is one. */
void sema_assign_region(Check *c, const TRegion *dst, TExpr *value, Span span);
/* A fresh fragment with this value. */
TBuf *sema_snapshot(Check *c, const char *name, TExpr *value, SemaType type, Span span);
/* A scalar or tile given a name for repeated use. */
TExpr *sema_bind_value(Check *c, const char *name, TExpr *value, Span span);

/* --- stmt.c, assign.c, loop.c, decl.c --- */
void sema_check_block(Check *c, const AstBlock *b); /* in a scope of its own */
/* The same, with its statements going to `out`. */
void sema_check_block_into(Check *c, const AstBlock *b, TStmts *out);
void sema_check_stmts(Check *c, const AstBlock *b);
void sema_check_stmt(Check *c, const AstStmt *s);
void sema_check_let(Check *c, const AstStmt *s);
void sema_check_var(Check *c, const AstStmt *s);
void sema_check_tiles(Check *c, const AstStmt *s, TSpace space);
void sema_check_layout(Check *c, const AstStmt *s);
void sema_check_for(Check *c, const AstStmt *s);
void sema_check_while(Check *c, const AstStmt *s);
void sema_check_assign(Check *c, const AstStmt *s);
void sema_check_grid(Check *c, const AstStmt *s);
/* The scalar dtype a written type's base names; DT_NONE (reported or unknown) otherwise. */
bool sema_check_dtype(Check *c, const AstType *t, DType *out);
/* A written type: scalar or tile with constant extents. */
bool sema_check_type(Check *c, const AstType *t, SemaType *out);
/* TE_COND or an IF with a result for two ways to a value. */
TExpr *sema_merge(Check *c, TExpr *cond, TStmts *then_body, TExpr *then, TStmts *other_body,
                  TExpr *other, Span span);

/* --- signature.c --- */
bool sema_signature_read(Arena *a, SemaKernel *k, DiagSink *sink);
/* Declares compile-time parameters, extents and parameters in c->block; fills the tree's. */
bool sema_signature_enter(Check *c);
TExpr *sema_value_expr(Check *c, const SemaValue *v, const SemaStatic *st, Span span);

#endif
