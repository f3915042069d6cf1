/* private.h: the checker's own state and the calls between its files; not for other folders.
 *
 * One Check walks one kernel body under one specialisation. Statements go to `out`; expressions are
 * returned. An expression of type TY_ERROR was reported already (or depends on what is not known
 * yet) and silences everything it reaches. Lookups walk `block` outwards.
 *
 * How `C[i, j] += f(x) @ y if c else z` goes through: stmt.c finds an assignment, assign.c types
 * the place (index.c) and the value (expr.c). The choice types its condition; if that is a
 * compile-time value only one side is looked at. The call (call.c) is of a fn (fn.c): its body is
 * typed here and now, its statements go to `out`; the product (product.c) checks shapes and dtypes.
 * operate.c adds the two, with what typing.c says of their dtypes, and converts to the element's
 * type. Errors: the first function that cannot go on reports and gives TY_ERROR; all others pass it
 * on. So a mistake is one message, and the rest of the kernel is still looked at.
 */
#ifndef TILESH_SEMA_PRIVATE_H
#define TILESH_SEMA_PRIVATE_H

#include "sema.h"

/* What a declared name can be. */
typedef enum SymKind {
  SYM_VALUE, /* an immutable scalar, a compile-time value, a tile or tensor: `value` */
  SYM_VAR,   /* a `var` */
  SYM_BARRIER,
  SYM_POISON /* declared, but with an error: silent */
} SymKind;

/* One declared name. Shadowed ones stay in their blocks, untouched. */
typedef struct Sym {
  const char *name;
  SymKind kind;
  const char *what; /* "a loop variable", "a compile-time parameter": for messages */
  Span span;
  TExpr *value; /* VALUE */
  TVar *var;    /* VAR */
  struct TBarrier *barrier;
  int parallel; /* depth of parallel loops at its declaration */
  int role;     /* in which it was declared */
} Sym;

/* A declared array of barriers. */
typedef struct TBarrier {
  TBuf *buf;
  Span waited; /* the first `wait` for one of them; no file: none */
} TBarrier;

typedef struct Block { /* names declared between two braces */
  struct Block *up;    /* NULL at the outermost block of a kernel or fn */
  VEC(Sym) syms;
} Block;

/* What is to be done after the statements at hand, in a fn that returns early. */
typedef struct Rest {
  const AstBlock *block;
  size_t i;        /* from this statement on */
  Block *scope;    /* where they stand */
  struct Rest *up; /* and after them; NULL: the fn ends */
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
  Arena *a; /* gets the tree */
  DiagSink *sink;
  const SemaKernel *kernel;
  const SemaSpec *spec;   /* NULL at the definition: defaults alone */
  const SemaScope *scope; /* of the text at hand: the kernel's, or the inlined fn's own */
  SemaTree *tree;
  Block *block;      /* innermost */
  TStmts *out;       /* where statements go */
  FnCall *fn;        /* innermost, or NULL */
  bool defining;     /* at the definition: unknown values are TY_ERROR */
  bool pre;          /* before the grid: only lets */
  int parallel;      /* parallel loops around */
  int loops;         /* serial loops around, up to a parallel one or the fn's beginning */
  int depth;         /* of expressions and blocks, inlined fns included */
  bool too_deep;     /* which was reported */
  size_t inlined;    /* statements inlined so far */
  int role;          /* 1 + the first warpgroup of the role around; 0: none */
  bool threads_said; /* by `grid` */
  VEC(TBarrier *) barriers;
  VEC(const char *) unknown; /* names reported already */
} Check;

/* The C stack bounds the first (each level is a few frames), patience the second. */
enum { CHECK_MAX_DEPTH = 900, CHECK_MAX_INLINED = 20000 };

/* --- tree.c: making and comparing nodes --- */

/* A new node, zeroed but for these. */
TExpr *sema_texpr_new(Check *c, TExprKind kind, SemaType type, Span span);
/* The node that stands for something already reported; everything made of it is silent. */
TExpr *sema_texpr_error(Check *c, Span span);
/* The value of a statement word: using it as a value is an error elsewhere. */
TExpr *sema_texpr_none(Check *c, Span span);
/* A constant of v's type; untyped: an `int` or `float`. */
TExpr *sema_texpr_const(Check *c, Scalar v, bool untyped, Span span);
/* An untyped int, as a literal gives. */
TExpr *sema_texpr_int(Check *c, int64_t v, Span span);
/* A typed i64, as origins and extents are. */
TExpr *sema_texpr_i64(Check *c, int64_t v, Span span);
TExpr *sema_texpr_bool(Check *c, bool v, Span span);
/* The value of a variable; untyped: it meets others as a number without a type does. */
TExpr *sema_texpr_var(Check *c, TVar *v, bool untyped, Span span);
/* A pure operation on operands of the row's types, folded where all are constants. An operand of
 * type TY_ERROR makes the result one. */
TExpr *sema_texpr_op(Check *c, OpCode op, SemaType type, TExpr *const *args, int n, Span span);
/* The whole of a tile (TY_TILE) or tensor (TY_GLOBAL). */
TExpr *sema_texpr_whole(Check *c, TBuf *b, Span span);
/* A node of one operand. */
TExpr *sema_texpr_wrap1(Check *c, TExprKind kind, SemaType type, TExpr *arg, Span span);

/* A scalar type. */
SemaType sema_type_num(DType t, bool untyped);
/* A type that its kind says all of. */
SemaType sema_type_kind(SemaKind k);
/* A tile of typed elements. */
SemaType sema_type_tile(DType t, int rank, const int64_t *extent);
/* The same with its dtype made definite: an int is i64, a float f64. */
SemaType sema_type_definite(SemaType t);

/* A variable without a known range. */
TVar *sema_tvar_new(Check *c, TVarKind kind, const char *name, DType t, Span span);
/* A tile or tensor of t's dtype, rank and extents; its TS_ALLOC is the caller's. */
TBuf *sema_tbuf_new(Check *c, TSpace space, const char *name, const SemaType *t, Span span);
/* A statement appended to c->out, to be filled in. */
TStmt *sema_tstmt_new(Check *c, TStmtKind kind, Span span);

bool sema_is_error(const TExpr *e);
bool sema_is_const(const TExpr *e);
/* Whether e is an integer constant that an i64 holds; *v is set then. */
bool sema_is_const_int(const TExpr *e, int64_t *v);
bool sema_is_tile(const TExpr *e);
bool sema_is_num(const TExpr *e); /* a scalar */
/* Cheap to repeat and without effect: constants, variables, regions, operations on them. */
bool sema_is_pure(const TExpr *e);
/* Whether both surely have one value where they stand; false where that is not known. */
bool sema_texpr_same(const TExpr *a, const TExpr *b);
/* Whether a - b is known, as integers; *d is set then. */
bool sema_texpr_difference(const TExpr *a, const TExpr *b, int64_t *d);
/* All of a buffer; extents of a tensor are left open (0). */
TRegion sema_region_whole(Check *c, TBuf *b, Span span);
/* The number of kept axes. */
int sema_region_rank(const TRegion *r);
/* Sets rank and extents of t to the kept axes', as seen after `.T`. */
void sema_region_shape(const TRegion *r, SemaType *t);

/* --- names.c: scopes and messages --- */

/* Opens a block; b is the caller's, and is used until block_pop. */
void sema_block_push(Check *c, Block *b);
void sema_block_pop(Check *c);
/* What a name stands for, innermost first; NULL: nothing of the kernel. */
Sym *sema_sym_find(Check *c, const char *name);
/* Declares in the innermost block; twice in one block is reported. Never NULL; good until the next
 * declaration there. what: "a loop variable", for messages. */
Sym *sema_sym_declare(Check *c, AstName name, SymKind kind, const char *what);
/* Declares a name for a value; silent ever after where the value is an error. */
void sema_sym_value(Check *c, AstName name, TExpr *value, const char *what);
/* Reports a name that nothing has, with the nearest one; gives a TY_ERROR. */
TExpr *sema_unknown_name(Check *c, const char *name, Span span);
/* The same of module.name, where no such module is. */
TExpr *sema_unknown_member(Check *c, const char *module, const char *name, Span span);
/* "1 axis", "2 axes". */
const char *sema_axes(Check *c, int n);
/* Whether the name was reported, or counts as reported, already; from now on it does. */
bool sema_said(Check *c, const char *name);
/* The same of a name that is assigned to. */
void sema_undeclared(Check *c, const AstExpr *target);
/* Whether kernels have a function of that name: a word of theirs or a row of ops.def. */
bool sema_is_word(const char *name);
bool sema_takes_axis(const char *word); /* a reduction or scan */
/* How the language calls an argument that others call `name`, if it is one of params; or NULL. */
const char *sema_meant_argument(const char *name, const char *const *params, size_t n);
/* The source of an expression, fit to be put into another one; NULL: too long. */
const char *sema_source_text(Check *c, const AstExpr *e);
/* The source of a span as it stands; NULL: too long. */
const char *sema_span_text(Check *c, Span span);
/* The type of e, for messages: "f16[128, 64]". */
const char *sema_describe(Check *c, const TExpr *e);
/* e as typing sees it; ast gives its text for hints, and may be NULL. */
SemaNum sema_num_of(Check *c, const TExpr *e, const AstExpr *ast);
/* Counts a level of nesting; false (reported): too deep. Each call is paired with sema_leave. */
bool sema_enter(Check *c, Span span);
void sema_leave(Check *c);

/* --- operate.c: conversions and operations --- */

/* "did you mean f32?" for a name that is no dtype; NULL where nothing is near. */
const char *sema_meant_dtype(Arena *a, const char *name);
/* "300 does not fit i8, whose range is -128 to 127": the number and the range, which is what the
 * reader needs. */
const char *sema_misfit(Arena *a, Scalar v, DType t);
/* Converts as stores do, without a word: a literal must fit. */
TExpr *sema_convert(Check *c, TExpr *e, DType t);
/* Converts as `f32(x)` does: anything goes, by the language's rules. */
TExpr *sema_cast(Check *c, TExpr *e, DType t);
/* Whether it is a number or tile; anything else is reported. */
bool sema_operand_ok(Check *c, const TExpr *e);
/* Applies a typed rule: operands are converted, the result has the shape they broadcast to. */
TExpr *sema_apply_rule(Check *c, const SemaRule *r, TExpr **args, int n, Span span);
/* Reports a rule that failed; gives a TY_ERROR. */
TExpr *sema_report_rule(Check *c, const SemaRule *r, Span span);
/* `x op y`, element by element; ax and ay are the operands' sources. */
TExpr *sema_operate(Check *c, AstOp op, TExpr *x, TExpr *y, const AstExpr *ax, const AstExpr *ay,
                    Span span);
/* The shape that two values broadcast to; false (reported) if there is none. */
bool sema_broadcast(Check *c, const TExpr *x, const TExpr *y, Span span, SemaType *out);
/* Whether a value of shape `from` may be assigned to a place of shape `to`. */
bool sema_broadcasts_to(const SemaType *from, const SemaType *to);

/* --- expr.c: expressions. All give a TY_ERROR, after reporting, where the syntax is wrong. --- */

TExpr *sema_check_expr(Check *c, const AstExpr *e);
/* An operand that may not be evaluated: the statements it needs stay inside it. */
TExpr *sema_check_lazy(Check *c, const AstExpr *e);
/* A scalar or tile; no global tensor. */
TExpr *sema_check_value(Check *c, const AstExpr *e);
/* A scalar; what: the place's name in messages ("a bound"). */
TExpr *sema_check_scalar(Check *c, const AstExpr *e, const char *what);
/* An integer scalar of any type, converted to i64. */
TExpr *sema_check_int(Check *c, const AstExpr *e, const char *what);
/* A bool scalar. */
TExpr *sema_check_cond(Check *c, const AstExpr *e);
/* An integer known when the kernel is compiled; false: reported, or not known at the definition. */
bool sema_check_const_int(Check *c, const AstExpr *e, const char *what, int64_t *v);
/* Reports v, which is e, as not known then; NULL if v is wrong already. */
Diag *sema_not_constant(Check *c, const AstExpr *e, const TExpr *v, const char *what);
/* The same for a bool. */
bool sema_check_const_bool(Check *c, const AstExpr *e, const char *what, bool *v);
/* Where the value is a compile-time bool: *v. Unknown at the definition counts as not constant. */
bool sema_known_bool(const TExpr *e, bool *v);
/* Two ways to one value, each with the statements that only it needs (or NULL): a TE_COND. */
TExpr *sema_merge(Check *c, TExpr *cond, TStmts *then_body, TExpr *then, TStmts *other_body,
                  TExpr *other, Span span);
/* The same of two tuples, by one IF: a tuple of what it sets. */
TExpr *sema_merge_tuples(Check *c, TExpr *cond, TStmts *tb, TExpr *then, TStmts *ob, TExpr *other,
                         Span span);

/* --- index.c: subscripts --- */

TExpr *sema_check_index(Check *c, const AstExpr *e);
/* x.T; there are no other attributes. */
TExpr *sema_check_attr(Check *c, const AstExpr *e);
/* What an assignment or fill may write: TE_ELEM, TE_REGION, or an error that was reported. */
TExpr *sema_check_place(Check *c, const AstExpr *e);
/* A side of copy: A[i, j] of a tensor is an origin there (*origin), whose extents the other side
 * gives. */
TExpr *sema_check_side(Check *c, const AstExpr *e, bool *origin);

/* --- view.c: reshape and transpose of global tensors --- */

/* Whether e is such a view; it is indexed like a tensor. */
bool sema_is_view(const TExpr *e);
/* The extent of an axis of a view or whole tensor, an i64. */
TExpr *sema_view_extent(const TExpr *view, int axis);
/* x with axis i being its axis perm[i]. */
TExpr *sema_view_permute(Check *c, TExpr *x, const int64_t *perm, int n, Span span);
/* x in row-major order in the shape of a call's arguments after the first. */
TExpr *sema_view_reshape(Check *c, TExpr *x, const AstArgs *args, Span span);
/* One element, by single indices: a TE_ELEM of the tensor. Outside the view is a fault of the run.
 */
TExpr *sema_view_element(Check *c, const TExpr *view, const TAxis *axis, Span span);
/* Whether a side of a copy is a view or a region of one (TE_SLICE of it). */
bool sema_view_side(const TExpr *dst, const TExpr *src);
/* The copy, as a loop; one side is a tile. pad: of the source's dtype, or NULL. */
void sema_view_copy(Check *c, TExpr *dst, bool d_origin, TExpr *src, bool s_origin, TExpr *pad,
                    Span span);

/* --- call.c: calls --- */

TExpr *sema_check_call(Check *c, const AstExpr *e);
/* Arguments by parameter, as written; NULL where not given. Nothing is evaluated yet: each word
 * decides in which order its arguments are. */
typedef struct Args {
  const AstExpr *v[8];
} Args;
/* Sorts a call's arguments into params (a list that NULL ends, at most 8): the first `positional`
 * may be given by position, the first `required` must be given. False: reported. */
bool sema_take_args(Check *c, const AstExpr *call, const char *name, const char *const *params,
                    size_t required, size_t positional, Args *out);

/* --- tile.c: whole tiles --- */

/* sum(x, axis =, keepdims =) and the like; name: the word, for messages. */
TExpr *sema_check_reduce(Check *c, const AstExpr *e, OpCode op, const char *name);
/* cumsum (OP_SUM) or cummax (OP_RMAX). */
TExpr *sema_check_scan(Check *c, const AstExpr *e, OpCode op);
TExpr *sema_check_reshape(Check *c, const AstExpr *e);
TExpr *sema_check_transpose(Check *c, const AstExpr *e);
/* Whether a tile operation may stand here: not in parallel loops or fns of scalars (reported). */
bool sema_tile_allowed(Check *c, Span span, const char *what);
/* `place = value` of a tile: a product that goes straight in, or an assignment. Reports. */
void sema_assign_region(Check *c, const TRegion *dst, TExpr *value, Span span);
/* A new fragment that holds the value and does not change. */
TBuf *sema_snapshot(Check *c, const char *name, TExpr *value, SemaType type, Span span);
/* The value under a name of its own, computed here and once. */
TExpr *sema_bind_value(Check *c, const char *name, TExpr *value, Span span);

/* --- product.c, copy.c: words --- */

/* x @ y, a TE_DOT; ax and ay are the operands' sources. */
TExpr *sema_check_product(Check *c, TExpr *x, TExpr *y, const AstExpr *e, const AstExpr *ax,
                          const AstExpr *ay);
/* These append statements and give TY_NONE. */
TExpr *sema_check_gemm(Check *c, const AstExpr *e);
TExpr *sema_check_copy(Check *c, const AstExpr *e);
TExpr *sema_check_fill(Check *c, const AstExpr *e);
TExpr *sema_check_print(Check *c, const AstExpr *e);
/* On an element a TE_ATOMIC, on a region a statement. */
TExpr *sema_check_atomic(Check *c, const AstExpr *e, OpCode op);

/* --- fn.c, return.c: inlining --- */

/* A call of a host fn; NULL if there is none of that name. */
TExpr *sema_check_fn_call(Check *c, const AstExpr *e, const char *module, const char *name);
/* The value of a fn's body, in the scope of its parameters; NULL where its end is reached. */
TExpr *sema_fn_body(Check *c, const AstBlock *b);
/* Converts to a written result type (NULL: none), component by component. */
TExpr *sema_typed_result(Check *c, TExpr *v, const AstType *t);
/* Reports a way through a fn without a value. */
TExpr *sema_no_value(Check *c, Span span);
/* `return` inside a loop of a fn. */
void sema_loop_return(Check *c, const AstStmt *s);
/* After an inner loop that may have returned: leaves the outer one too. */
void sema_loop_leave(Check *c, const AstStmt *s);

/* --- stmt.c, assign.c, loop.c, decl.c, layout.c: statements, appended to c->out --- */

/* The statements of a block, in a scope of its own. */
void sema_check_block(Check *c, const AstBlock *b);
/* The same, with its statements going to `out`. */
void sema_check_block_into(Check *c, const AstBlock *b, TStmts *out);
void sema_check_stmt(Check *c, const AstStmt *s);
void sema_check_let(Check *c, const AstStmt *s);
void sema_check_var(Check *c, const AstStmt *s);
/* shared, fragment, local. */
void sema_check_tiles(Check *c, const AstStmt *s, TSpace space);
void sema_check_layout(Check *c, const AstStmt *s);
void sema_check_for(Check *c, const AstStmt *s);
void sema_check_while(Check *c, const AstStmt *s);
void sema_check_assign(Check *c, const AstStmt *s);
/* Sets the tree's grid and options, and declares its indices. */
void sema_check_grid(Check *c, const AstStmt *s);
/* The scalar dtype that a written type's base names; false: reported, or not known yet. */
bool sema_check_dtype(Check *c, const AstType *t, DType *out);

/* --- roles.c: explicit specialisation --- */

void sema_check_barriers(Check *c, const AstStmt *s);
void sema_check_roles(Check *c, const AstStmt *s);
/* These append a statement and give TY_NONE. */
TExpr *sema_check_arrive(Check *c, const AstExpr *e);
TExpr *sema_check_wait(Check *c, const AstExpr *e);
/* A barrier by its name and indices; false: reported. */
bool sema_check_barrier(Check *c, const AstExpr *e, TRegion *out);
/* An arrival there. */
void sema_arrive(Check *c, const TRegion *at, Span span);
/* Whether the tile that s names may be used in the role at hand (reported). */
bool sema_role_owns(Check *c, const Sym *s, Span span);
/* Once the body is checked without errors: how many arrivals end the phases of each barrier. */
void sema_count_arrivals(Check *c);

/* --- signature.c --- */

/* Fills k from its syntax; false: reported. */
bool sema_signature_read(Arena *a, SemaKernel *k, DiagSink *sink);
/* Declares compile-time parameters, extents and parameters in c->block; fills the tree's. */
bool sema_signature_enter(Check *c);

#endif
