/* build_impl.h: the builder's own state; private to build*.c.
 *
 * Statements go to `out`, in the order of evaluation. A scalar becomes an IrExpr; what it loads is
 * loaded just before. A tile is evaluated at a point (build_at) inside a MAP, after everything in
 * it that is no elementwise operation was computed into a temporary (build_prepare).
 */
#ifndef TILESH_IR_BUILD_IMPL_H
#define TILESH_IR_BUILD_IMPL_H

#include "build.h"

/* A load made in the body of the MAP at hand: an element is loaded once. */
typedef struct Loaded {
  IrAccess at;
  IrVar *var;
} Loaded;

/* One run of ir_build. */
typedef struct Build {
  IrKernel *k;
  DiagSink *sink;
  const SemaTree *tree;
  IrBlock *out;
  Span span;    /* of the statement at hand */
  int parallel; /* inside a parallel MAP: no tile operations */
  bool pre;     /* in the kernel's `pre`: LETs only */
  IrBlock *map; /* the body of the whole-tile MAP at hand, or NULL */
  VEC(Loaded) loaded;
} Build;

/* What build_prepare left at a node for build_at: one of the two. */
typedef struct Ready {
  IrExpr *scalar;
  IrBuffer *tile; /* a temporary with the node's value */
} Ready;

IrStmt *build_add(Build *b, IrKind kind);
/* Declares a variable and appends its LET. */
IrVar *build_let(Build *b, IrVarKind kind, const char *name, IrExpr *value);
/* A new tile and its ALLOC. */
IrBuffer *build_tile(Build *b, IrSpace space, const char *name, DType t, int rank,
                     const int64_t *extent);

/* --- build_expr.c --- */
IrExpr *build_scalar(Build *b, const TExpr *e);
IrBuffer *build_buf(const TBuf *t);
IrVar *build_var(const TVar *v);
/* The operation of a TE_OP on these operands; what can go wrong in it is said at its text. */
IrExpr *build_op(Build *b, const TExpr *e, IrExpr *const *arg);
/* A load of an element, as a statement; its value. */
IrExpr *build_load(Build *b, const IrAccess *at);
/* An index or origin: what build_prepare computed, or else here. */
IrExpr *build_index(Build *b, const TExpr *e);
IrAccess build_access(Build *b, const TRegion *r);
/* The statement of an atomic operation on an element, without a variable for the old value. */
IrStmt *build_atomic(Build *b, const TExpr *e);
/* Runs the statements of an inlined fn here. */
void build_inlined(Build *b, const TStmts *body);

/* --- build_tile.c --- */
void build_prepare(Build *b, TExpr *e);
/* The element at `index` (one i64 an axis of e). */
IrExpr *build_at(Build *b, const TExpr *e, IrExpr *const *index);
IrRegion build_region(Build *b, const TRegion *r);
/* A region that holds the tile's value: its own, or a temporary's. avoid: a buffer that the region
 * must not be in, or NULL. */
IrRegion build_operand(Build *b, TExpr *e, const IrBuffer *avoid);
/* dst = e, where e broadcasts to dst. */
void build_assign(Build *b, const IrRegion *dst, TExpr *e);
IrExpr *build_reduce_scalar(Build *b, TExpr *e);

/* --- build_stmt.c --- */
void build_stmts(Build *b, const TStmts *s);

#endif
