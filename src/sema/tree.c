/* tree.c: making and comparing nodes of the typed tree.
 *
 * In: types and operands already checked. Out: nodes in the arena; operations on constants are
 * folded here, once for the whole checker. Never reports, but for a constant operation that faults.
 * Nodes are never changed once they are part of the tree, but by the one who made them; the same
 * node may hang in two places (the place of `x += y` is read and written), so nothing walks the
 * tree with marks of its own. Differences of indices are found by taking both apart into sums of
 * multiples of what cannot be taken apart: `k*BN` and `(k + 1)*BN` then differ by BN. Tests:
 * tests/unit/check_sema.c.
 */
#include "private.h"

#include <string.h>

/* Zeroed but for what is given. */
TExpr *sema_texpr_new(Check *c, TExprKind kind, SemaType type, Span span) {
  TExpr *e = ARENA_NEW(c->a, TExpr);
  e->kind = kind;
  e->type = type;
  e->span = span;
  return e;
}

/* For kinds without a dtype of their own. */
SemaType sema_type_kind(SemaKind k) {
  SemaType t = {.kind = k, .dtype = DT_NONE};
  return t;
}

/* Rank 0 by the initialiser. */
SemaType sema_type_num(DType d, bool untyped) {
  SemaType t = {.kind = TY_NUM, .dtype = d, .untyped = untyped};
  return t;
}

/* Extents beyond the rank stay 0, so that types can be copied whole. */
SemaType sema_type_tile(DType d, int rank, const int64_t *extent) {
  SemaType t = {.kind = TY_TILE, .dtype = d, .rank = rank};
  memcpy(t.extent, extent, sizeof *extent * (size_t)rank);
  return t;
}

/* int is i64 and float f64 where nothing else decides. */
SemaType sema_type_definite(SemaType t) {
  t.untyped = false;
  return t;
}

/* Exactly equal: broadcasting is asked elsewhere. */
bool sema_type_same_shape(const SemaType *a, const SemaType *b) {
  return a->rank == b->rank &&
         memcmp(a->extent, b->extent, sizeof *a->extent * (size_t)a->rank) == 0;
}

/* A node of its own each time, for it carries its place. */
TExpr *sema_texpr_error(Check *c, Span span) {
  return sema_texpr_new(c, TE_ERROR, sema_type_kind(TY_ERROR), span);
}

TExpr *sema_texpr_none(Check *c, Span span) {
  return sema_texpr_new(c, TE_ERROR, sema_type_kind(TY_NONE), span);
}

/* An int from 2^63 on keeps type U64 in its value, and is refused where it does not fit. */
TExpr *sema_texpr_const(Check *c, Scalar v, bool untyped, Span span) {
  DType t = untyped && v.type == DT_U64 ? DT_I64 : v.type;
  TExpr *e = sema_texpr_new(c, TE_CONST, sema_type_num(t, untyped), span);
  e->as.value = v;
  return e;
}

/* What a literal is, and a compile-time int. */
TExpr *sema_texpr_int(Check *c, int64_t v, Span span) {
  return sema_texpr_const(c, (Scalar){.type = DT_I64, .as.i = v}, true, span);
}

/* Origins and extents have left the world of untyped numbers. */
TExpr *sema_texpr_i64(Check *c, int64_t v, Span span) {
  return sema_texpr_const(c, (Scalar){.type = DT_I64, .as.i = v}, false, span);
}

/* Bools have one type; there are no untyped ones. */
TExpr *sema_texpr_bool(Check *c, bool v, Span span) {
  return sema_texpr_const(c, (Scalar){.type = DT_BOOL, .as.i = v}, false, span);
}

/* A read of the variable where the node is evaluated, not where it was made. */
TExpr *sema_texpr_var(Check *c, TVar *v, bool untyped, Span span) {
  TExpr *e = sema_texpr_new(c, TE_VAR, sema_type_num(v->type, untyped), span);
  e->as.var = v;
  return e;
}

/* For views, reductions, scans. */
TExpr *sema_texpr_wrap1(Check *c, TExprKind kind, SemaType type, TExpr *arg, Span span) {
  TExpr *e = sema_texpr_new(c, kind, type, span);
  e->arg = ARENA_NEW(c->a, TExpr *);
  e->arg[0] = arg;
  e->nargs = 1;
  return e;
}

/* Ranges are filled in by those who know them: loops, grids, extents. */
TVar *sema_tvar_new(Check *c, TVarKind kind, const char *name, DType t, Span span) {
  TVar *v = ARENA_NEW(c->a, TVar);
  *v =
      (TVar){.name = name, .span = span, .kind = kind, .type = t, .lo = INT64_MIN, .hi = INT64_MAX};
  return v;
}

/* The place in memory is the compiler's to find. */
TBuf *sema_tbuf_new(Check *c, TSpace space, const char *name, const SemaType *t, Span span) {
  TBuf *b = ARENA_NEW(c->a, TBuf);
  *b = (TBuf){.name = name, .span = span, .space = space, .dtype = t->dtype, .rank = t->rank};
  memcpy(b->extent, t->extent, sizeof b->extent);
  return b;
}

/* Filled in by the caller, who must not append another one in between where order matters. */
TStmt *sema_tstmt_new(Check *c, TStmtKind kind, Span span) {
  TStmt *s = ARENA_NEW(c->a, TStmt);
  s->kind = kind;
  s->span = span;
  VEC_PUSH(c->a, c->out, s);
  return s;
}

/* Already reported, or not known yet. */
bool sema_is_error(const TExpr *e) {
  return e->type.kind == TY_ERROR;
}
/* A number known when the kernel is compiled. */
bool sema_is_const(const TExpr *e) {
  return e->kind == TE_CONST;
}
/* Of rank 1 at least: a tile of rank 0 does not exist. */
bool sema_is_tile(const TExpr *e) {
  return e->type.kind == TY_TILE;
}
/* A scalar, typed or not, known or not. */
bool sema_is_num(const TExpr *e) {
  return e->type.kind == TY_NUM;
}

/* Not what lies beyond i64. */
bool sema_is_const_int(const TExpr *e, int64_t *v) {
  if (e->kind != TE_CONST || !dtype_is_int(e->type.dtype))
    return false;
  /* From 2^63 on. */
  if (dtype_is_unsigned(e->as.value.type) && e->as.value.as.i < 0)
    return false; /* beyond i64 */
  *v = e->as.value.as.i;
  return true;
}

/* Origins and stops of a region. */
static bool axes_pure(const TRegion *r, int n) {
  for (int i = 0; i < n; i++)
    if (!sema_is_pure(r->axis[i].origin) || (r->axis[i].stop && !sema_is_pure(r->axis[i].stop)))
      return false;
  return true;
}

/* Loads are not: between two evaluations the element may change. Tiles are, inside one statement.
 */
bool sema_is_pure(const TExpr *e) {
  switch (e->kind) {
  case TE_REGION:
    if (!axes_pure(&e->as.region, e->as.region.buf->rank))
      return false;
    break;
  case TE_SLICE:
    if (!axes_pure(&e->as.region, e->arg[0]->type.rank))
      return false;
    break;
  case TE_ELEM:
  case TE_REDUCE:
  case TE_SCAN:
  case TE_DOT:
  case TE_APPLY:
  case TE_SEQ:
  case TE_ATOMIC:
    return false;
  default:
    break;
  }
  for (int i = 0; i < e->nargs; i++)
    if (!sema_is_pure(e->arg[i]))
      return false;
  return true;
}

/* ---------------------------------------------------------------- operations and folding */

/* By op_eval, the only arithmetic there is. A division by zero that is certain is reported here.
 */
static bool fold(Check *c, TExpr *e) {
  Scalar v[4];
  for (int i = 0; i < e->nargs; i++) {
    if (e->arg[i]->kind != TE_CONST)
      return false;
    v[i] = e->arg[i]->as.value;
  }
  Scalar r;
  if (!op_eval(e->as.op, e->type.dtype, v, e->nargs, &r)) {
    if (e->as.op == OP_FLOORDIV || e->as.op == OP_MOD || e->as.op == OP_CEILDIV)
      diag_add(c->sink, E0209, e->span, "division by zero");
    return false;
  }
  e->kind = TE_CONST;
  e->as.value = r;
  e->nargs = 0;
  return true;
}

/* An operand with an error makes the result one, silently. */
TExpr *sema_texpr_op(Check *c, OpCode op, SemaType type, TExpr *const *args, int n, Span span) {
  TExpr *e = sema_texpr_new(c, TE_OP, type, span);
  e->as.op = op;
  e->arg = ARENA_ARRAY(c->a, TExpr *, n);
  for (int i = 0; i < n; i++) {
    e->arg[i] = args[i];
    if (sema_is_error(args[i]))
      return sema_texpr_error(c, span);
  }
  e->nargs = n;
  /* Tiles of constants are not folded: they have no node of their own. */
  if (type.kind == TY_NUM)
    fold(c, e);
  return e;
}

/* ---------------------------------------------------------------- regions */

/* Origins 0, every axis kept. */
TRegion sema_region_whole(Check *c, TBuf *b, Span span) {
  TRegion r = {.buf = b};
  for (int i = 0; i < b->rank; i++)
    r.axis[i] = (TAxis){
        .origin = sema_texpr_i64(c, 0, span), .extent = b->extent[i], .step = 1, .keep = true};
  return r;
}

/* A name by itself: `As`. */
TExpr *sema_texpr_whole(Check *c, TBuf *b, Span span) {
  SemaType t = sema_type_tile(b->dtype, b->rank, b->extent);
  if (b->space == TB_GLOBAL)
    t.kind = TY_GLOBAL;
  TExpr *e = sema_texpr_new(c, TE_REGION, t, span);
  e->as.region = sema_region_whole(c, b, span);
  return e;
}

/* Single indices drop their axes. */
int sema_region_rank(const TRegion *r) {
  int n = 0;
  for (int i = 0; i < r->buf->rank; i++)
    n += r->axis[i].keep;
  return n;
}

/* As seen from outside: after `.T`. */
void sema_region_shape(const TRegion *r, SemaType *t) {
  t->rank = 0;
  for (int i = 0; i < r->buf->rank; i++)
    if (r->axis[i].keep)
      t->extent[t->rank++] = r->axis[i].extent;
  if (r->trans && t->rank >= 2) {
    int64_t last = t->extent[t->rank - 1];
    t->extent[t->rank - 1] = t->extent[t->rank - 2];
    t->extent[t->rank - 2] = last;
  }
}

/* ---------------------------------------------------------------- equality and differences */

/* The same elements in the same order. */
static bool same_region(const TRegion *a, const TRegion *b) {
  if (a->buf != b->buf || a->trans != b->trans)
    return false;
  for (int i = 0; i < a->buf->rank; i++) {
    const TAxis *x = &a->axis[i], *y = &b->axis[i];
    if (x->keep != y->keep || x->extent != y->extent || x->step != y->step ||
        !sema_texpr_same(x->origin, y->origin) || !x->stop != !y->stop ||
        (x->stop && !sema_texpr_same(x->stop, y->stop)))
      return false;
  }
  return true;
}

/* True only where both surely have one value at one place; loads and atomics never have. */
bool sema_texpr_same(const TExpr *a, const TExpr *b) {
  if (a == b)
    return sema_is_pure(a);
  if (a->kind != b->kind || a->type.dtype != b->type.dtype || a->nargs != b->nargs)
    return false;
  switch (a->kind) {
  case TE_CONST:
    return a->as.value.type == b->as.value.type && a->as.value.as.u == b->as.value.as.u;
  case TE_VAR:
    return a->as.var == b->as.var;
  case TE_REGION:
    return same_region(&a->as.region, &b->as.region);
  case TE_OP:
    if (a->as.op != b->as.op)
      return false;
    for (int i = 0; i < a->nargs; i++)
      if (!sema_texpr_same(a->arg[i], b->arg[i]))
        return false;
    return true;
  default:
    return false;
  }
}

enum { LIN_MAX = 24 };
/* An index taken apart. Coefficients wrap as the program's own arithmetic does. */
typedef struct Lin { /* sum of coef * atom, and a constant */
  const TExpr *atom[LIN_MAX];
  int64_t coef[LIN_MAX];
  int n;
  int64_t constant;
  bool ok;
} Lin;

/* Sums wrap as the program's own 64-bit arithmetic does, so differences stay right. */
static int64_t wrap_add(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a + (uint64_t)b);
}
static int64_t wrap_mul(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a * (uint64_t)b);
}

/* Anything that is not taken apart further; equal ones are collected. */
static void lin_atom(Lin *l, const TExpr *e, int64_t k) {
  for (int i = 0; i < l->n; i++)
    if (sema_texpr_same(l->atom[i], e)) {
      l->coef[i] = wrap_add(l->coef[i], k);
      return;
    }
  /* More terms than any index has. */
  if (l->n == LIN_MAX) {
    l->ok = false;
    return;
  }
  l->atom[l->n] = e;
  l->coef[l->n++] = k;
}

/* i64, and i32, which wraps on its own: where `k + 8` does, no element of the slice is there. */
static bool lin_type(DType t) {
  return t == DT_I64 || t == DT_I32;
}

/* Adds k * e. */
static void lin_add(Lin *l, const TExpr *e, int64_t k) {
  int64_t v;
  if (sema_is_const_int(e, &v)) {
    l->constant = wrap_add(l->constant, wrap_mul(k, v));
    return;
  }
  if (e->kind != TE_OP || !lin_type(e->type.dtype)) {
    lin_atom(l, e, k);
    return;
  }
  switch (e->as.op) {
  case OP_ADD:
  case OP_SUB:
    lin_add(l, e->arg[0], k);
    lin_add(l, e->arg[1], e->as.op == OP_SUB ? wrap_mul(k, -1) : k);
    return;
  case OP_NEG:
    lin_add(l, e->arg[0], wrap_mul(k, -1));
    return;
  case OP_CAST:
    if (e->type.dtype != DT_I64 || !lin_type(e->arg[0]->type.dtype))
      break;
    lin_add(l, e->arg[0], k);
    return;
  /* Only by a constant: a product of two variables is an atom. */
  case OP_MUL: {
    int other = sema_is_const_int(e->arg[0], &v) ? 1 : 0;
    if (other || sema_is_const_int(e->arg[1], &v)) {
      lin_add(l, e->arg[other], wrap_mul(k, v));
      return;
    }
    break;
  }
  default:
    break;
  }
  lin_atom(l, e, k);
}

/* True where all atoms cancel: what is left is the constant. */
bool sema_texpr_difference(const TExpr *a, const TExpr *b, int64_t *d) {
  Lin l = {.ok = true};
  lin_add(&l, a, 1);
  lin_add(&l, b, -1);
  for (int i = 0; i < l.n; i++)
    l.ok = l.ok && l.coef[i] == 0;
  *d = l.constant;
  return l.ok;
}
