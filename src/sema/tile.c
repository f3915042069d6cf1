/* tile.c: whole-tile values: reductions, scans, other shapes, snapshots, assignment.
 *
 * In: tiles and where they go. Out: nodes of the typed tree with the result's constant shape, and
 * statements. A product that goes straight into (or is added to) a place of its own type becomes
 * one TS_DOT here, so that it accumulates where the language says it does.
 * A reduction of all axes gives a scalar, which is the same for the whole block; along an axis it
 * gives a tile with that axis gone, or of extent 1 with keepdims. Views (reshape, transpose) make
 * no copy: they say where an element of theirs lies in the operand. Tests: tests/lang/tile_*.tile,
 * tests/errors/tile_*.tile.
 */
#include "private.h"

/* Operations on tiles are the block's; an iteration or an element's fn is one thread's. */
bool sema_tile_allowed(Check *c, Span span, const char *what) {
  if (!c->parallel && !(c->fn && c->fn->apply))
    return true;
  diag_add(c->sink, E0303, span, "%s is an operation on tiles; %s works on elements", what,
           c->parallel ? "the body of a parallel loop" : "this fn, called element by element,");
  return false;
}

/* The tile a word takes as its first argument; NULL where it was reported. */
static TExpr *tile_arg(Check *c, const AstExpr *arg, const char *name) {
  TExpr *x = sema_check_value(c, arg);
  if (sema_is_error(x) || !sema_tile_allowed(c, arg->span, name))
    return NULL;
  if (sema_is_tile(x))
    return sema_convert(c, x, x->type.dtype);
  diag_add(c->sink, E0214, arg->span, "%s takes a tile, this is %s", name, sema_describe(c, x));
  return NULL;
}

/* From the end where negative, as in NumPy. */
static bool axis_of(Check *c, const AstExpr *e, const TExpr *x, int *axis) {
  int64_t v;
  if (!sema_check_const_int(c, e, "an axis", &v))
    return false;
  int rank = x->type.rank;
  if (v >= -rank && v < rank) {
    *axis = (int)(v < 0 ? v + rank : v);
    return true;
  }
  if (rank == 1)
    diag_add(c->sink, E0220, e->span, "%s has axis 0 alone, no axis %lld", sema_describe(c, x),
             (long long)v);
  else
    diag_add(c->sink, E0220, e->span, "%s has the axes 0 to %d, no axis %lld", sema_describe(c, x),
             rank - 1, (long long)v);
  return false;
}

/* ---------------------------------------------------------------- reductions and scans */

/* What a hint puts in for the operand. */
static const char *text_of(Check *c, const TExpr *x) {
  const char *s = sema_span_text(c, x->span);
  return s ? s : "x";
}

/* An empty argmax has no index to give; other empty reductions have an identity. */
static bool reducible(Check *c, OpCode op, const TExpr *x, int axis, const char *name, Span span) {
  if (!op_takes(op, x->type.dtype)) {
    Diag *d = diag_add(c->sink, E0208, span, "%s does not take %s", name, sema_describe(c, x));
    if (op == OP_ANY || op == OP_ALL)
      diag_hint(c->sink, d, "%s(%s != 0)", name, text_of(c, x));
    return false;
  }
  if (op != OP_ARGMAX && op != OP_ARGMIN)
    return true;
  bool empty = false;
  for (int i = 0; i < x->type.rank; i++)
    empty = empty || ((axis < 0 || axis == i) && x->type.extent[i] == 0);
  if (empty)
    diag_add(c->sink, E0221, span, "%s of no elements: %s", name, sema_describe(c, x));
  return !empty;
}

/* All axes reduced but kept: a tile of one element that broadcasts. */
static TExpr *keep_all(Check *c, TExpr *scalar, int rank, Span span) {
  SemaType t = {.kind = TY_TILE, .dtype = scalar->type.dtype, .rank = rank};
  TExpr *e = sema_texpr_wrap1(c, TE_NEWAXIS, t, scalar, span);
  for (int i = 0; i < rank; i++) {
    e->type.extent[i] = 1;
    e->as.new_axis[i] = true;
  }
  return e;
}

/* Narrow floats are summed in f32, narrow integers in i32; max and min keep their type. */
static SemaType reduced_type(const TExpr *x, OpCode op, int axis, bool keepdims) {
  SemaType t = {.kind = TY_TILE, .dtype = op_reduce_type(op, x->type.dtype)};
  for (int i = 0; i < x->type.rank && axis >= 0; i++) {
    if (i == axis && !keepdims)
      continue;
    t.extent[t.rank++] = i == axis ? 1 : x->type.extent[i];
  }
  if (!t.rank)
    t.kind = TY_NUM;
  return t;
}

/* A vector's only axis is the whole of it: a scalar. */
static TExpr *reduce_tile(Check *c, OpCode op, TExpr *x, int axis, bool keepdims, Span span) {
  /* sum(v, axis = 0) of a vector is a scalar, too. */
  bool all = axis < 0 || (x->type.rank == 1 && !keepdims);
  TExpr *e =
      sema_texpr_wrap1(c, TE_REDUCE, reduced_type(x, op, all ? -1 : axis, keepdims), x, span);
  e->as.fold.op = op;
  e->as.fold.axis = all ? -1 : axis;
  e->as.fold.keepdims = keepdims;
  return all && keepdims ? keep_all(c, e, x->type.rank, span) : e;
}

/* sum(x), sum(x, axis = k), sum(x, axis = k, keepdims = true). */
TExpr *sema_check_reduce(Check *c, const AstExpr *e, OpCode op, const char *name) {
  static const char *const params[] = {"x", "axis", "keepdims", NULL};
  Args args;
  if (!sema_take_args(c, e, name, params, 1, 1, &args))
    return sema_texpr_error(c, e->span);
  TExpr *x = tile_arg(c, args.v[0], name);
  int axis = -1;
  bool keepdims = false;
  if (!x || sema_is_error(x) || (args.v[1] && !axis_of(c, args.v[1], x, &axis)) ||
      (args.v[2] && !sema_check_const_bool(c, args.v[2], "keepdims", &keepdims)) ||
      !reducible(c, op, x, axis, name, e->span))
    return sema_texpr_error(c, e->span);
  return reduce_tile(c, op, x, axis, keepdims, e->span);
}

/* Running sums and maxima; along the only axis of a vector, else the axis must be said. */
TExpr *sema_check_scan(Check *c, const AstExpr *e, OpCode op) {
  static const char *const params[] = {"x", "axis", "reverse", "exclusive", NULL};
  const char *name = op == OP_SUM ? "cumsum" : "cummax";
  Args args;
  if (!sema_take_args(c, e, name, params, 1, 1, &args))
    return sema_texpr_error(c, e->span);
  TExpr *x = tile_arg(c, args.v[0], name);
  int axis = 0;
  bool reverse = false, exclusive = false;
  if (!x || sema_is_error(x) || (args.v[1] && !axis_of(c, args.v[1], x, &axis)) ||
      (args.v[2] && !sema_check_const_bool(c, args.v[2], "reverse", &reverse)) ||
      (args.v[3] && !sema_check_const_bool(c, args.v[3], "exclusive", &exclusive)) ||
      !reducible(c, op, x, axis, name, e->span))
    return sema_texpr_error(c, e->span);
  if (!args.v[1] && x->type.rank > 1) {
    Diag *d = diag_add(c->sink, E0220, e->span, "%s needs the axis to run along: this is %s", name,
                       sema_describe(c, x));
    diag_hint(c->sink, d, "%s(%s, axis = %d)", name, text_of(c, x), x->type.rank - 1);
    return sema_texpr_error(c, e->span);
  }
  SemaType t = x->type;
  t.dtype = op_reduce_type(op, x->type.dtype);
  TExpr *r = sema_texpr_wrap1(c, TE_SCAN, t, x, e->span);
  r->as.fold.op = op;
  r->as.fold.axis = axis;
  r->as.fold.reverse = reverse;
  r->as.fold.exclusive = exclusive;
  return r;
}

/* ---------------------------------------------------------------- other shapes */

/* The constant integers after the first argument. */
static bool int_args(Check *c, const AstExpr *e, const char *what, int *n, int64_t *v) {
  const AstArgs *args = &e->as.call.args;
  *n = (int)args->n - 1;
  if (args->npos != args->n || *n < 1 || *n > SEMA_MAX_RANK) {
    diag_add(c->sink, E0110, e->span, "%s takes a tile and 1 to %d integers",
             e->as.call.fn->as.name, SEMA_MAX_RANK);
    return false;
  }
  for (int i = 0; i < *n; i++)
    if (!sema_check_const_int(c, args->v[i + 1].value, what, &v[i]))
      return false;
  return true;
}

/* What reshape and transpose see another way: a tile or a tensor. */
static TExpr *view_arg(Check *c, const AstExpr *e, const char *name) {
  if (!e->as.call.args.npos) {
    diag_add(c->sink, E0110, e->span, "%s takes a tile first", name);
    return NULL;
  }
  TExpr *x = sema_check_expr(c, e->as.call.args.v[0].value);
  if (x->type.kind == TY_GLOBAL)
    return x;
  if (sema_is_error(x))
    return NULL;
  if (sema_is_tile(x))
    return sema_tile_allowed(c, e->span, name) ? x : NULL;
  diag_add(c->sink, E0214, e->span, "%s takes a tile, this is %s", name, sema_describe(c, x));
  return NULL;
}

/* The same elements in row-major order. */
TExpr *sema_check_reshape(Check *c, const AstExpr *e) {
  TExpr *x = view_arg(c, e, "reshape");
  SemaType t = sema_type_kind(TY_TILE);
  if (x && x->type.kind == TY_GLOBAL)
    return sema_view_reshape(c, x, &e->as.call.args, e->span);
  if (!x || !int_args(c, e, "an extent", &t.rank, t.extent))
    return sema_texpr_error(c, e->span);
  int64_t from = 1, to = 1;
  bool bad = false;
  for (int i = 0; i < x->type.rank; i++)
    from *= x->type.extent[i];
  for (int i = 0; i < t.rank; i++) {
    bad = bad || t.extent[i] < 0 || __builtin_mul_overflow(to, t.extent[i], &to);
  }
  t.dtype = x->type.dtype;
  t.untyped = x->type.untyped;
  if (!bad && from == to)
    return sema_texpr_wrap1(c, TE_RESHAPE, t, x, e->span);
  diag_add(c->sink, E0225, e->span, "%s has %lld elements, %s would not have as many",
           sema_describe(c, x), (long long)from, sema_type_name(c->a, &t));
  return sema_texpr_error(c, e->span);
}

/* Any permutation of the axes. */
TExpr *sema_check_transpose(Check *c, const AstExpr *e) {
  TExpr *x = view_arg(c, e, "transpose");
  int64_t p[SEMA_MAX_RANK];
  int n;
  if (!x || !int_args(c, e, "an axis", &n, p))
    return sema_texpr_error(c, e->span);
  bool seen[SEMA_MAX_RANK] = {false}, ok = n == x->type.rank;
  for (int i = 0; i < n && ok; i++) {
    ok = p[i] >= 0 && p[i] < n && !seen[p[i]];
    if (ok)
      seen[p[i]] = true;
  }
  if (!ok) {
    diag_add(c->sink, E0220, e->span, "transpose takes each axis of %s once", sema_describe(c, x));
    return sema_texpr_error(c, e->span);
  }
  if (x->type.kind == TY_GLOBAL)
    return sema_view_permute(c, x, p, n, e->span);
  TExpr *r = sema_texpr_wrap1(c, TE_PERMUTE, x->type, x, e->span);
  for (int i = 0; i < n; i++) {
    r->as.perm[i] = (int)p[i];
    r->type.extent[i] = x->type.extent[p[i]];
  }
  return r;
}

/* ---------------------------------------------------------------- assignment */

/* Options are left at their defaults; gemm sets them. */
static TStmt *dot_stmt(Check *c, const TRegion *dst, TExpr *dot, bool accumulate, Span span) {
  TStmt *s = sema_tstmt_new(c, TS_DOT, span);
  s->as.dot.c = *dst;
  s->as.dot.a = dot->arg[0];
  s->as.dot.b = dot->arg[1];
  s->as.dot.accumulate = accumulate;
  s->as.dot.promote = -1;
  return s;
}

/* Whether the expression reads exactly the place: `c + a @ b` with c on the left. */
static bool is_place(const TExpr *e, const TRegion *dst) {
  if (e->kind != TE_REGION)
    return false;
  TExpr place = {.kind = TE_REGION, .type = e->type, .as.region = *dst};
  return sema_texpr_same(e, &place);
}

/* x += a @ b, or x = a @ b, without a conversion between. */
static bool assign_product(Check *c, const TRegion *dst, TExpr *v, const SemaType *to, Span span) {
  if (v->type.dtype != dst->buf->dtype || !sema_type_same_shape(&v->type, to))
    return false;
  /* c = a @ b */
  if (v->kind == TE_DOT) {
    dot_stmt(c, dst, v, false, span);
    return true;
  }
  if (v->kind != TE_OP || v->as.op != OP_ADD)
    return false;
  /* c = c + a @ b, in either order. */
  int dot = v->arg[1]->kind == TE_DOT ? 1 : 0;
  if (v->arg[dot]->kind != TE_DOT || !is_place(v->arg[1 - dot], dst) ||
      !sema_type_same_shape(&v->arg[dot]->type, to))
    return false;
  dot_stmt(c, dst, v->arg[dot], true, span);
  return true;
}

/* `place = value` of a tile: product, or a conversion and an assignment. */
void sema_assign_region(Check *c, const TRegion *dst, TExpr *value, Span span) {
  SemaType to = sema_type_tile(dst->buf->dtype, 0, dst->buf->extent);
  sema_region_shape(dst, &to);
  if (sema_is_error(value))
    return;
  if (!sema_is_num(value) && !sema_is_tile(value)) {
    Diag *d = diag_add(c->sink, E0211, value->span, "%s is assigned a number or tile, this is %s",
                       dst->buf->name, sema_describe(c, value));
    if (value->type.kind == TY_GLOBAL)
      diag_hint(c->sink, d, "a region comes in by copy(A[…], %s)", dst->buf->name);
    return;
  }
  if (sema_is_tile(value) && !sema_broadcasts_to(&value->type, &to)) {
    diag_add(c->sink, E0226, span, "%s of shape %s cannot hold %s", dst->buf->name,
             sema_type_name(c->a, &to), sema_describe(c, value));
    return;
  }
  if (assign_product(c, dst, value, &to, span))
    return;
  TStmt *s = sema_tstmt_new(c, TS_ASSIGN, span);
  s->as.assign.dst = *dst;
  s->as.assign.value = sema_convert(c, value, to.dtype);
}

/* A fragment of the value's own; it never changes afterwards. */
TBuf *sema_snapshot(Check *c, const char *name, TExpr *value, SemaType type, Span span) {
  TBuf *b = sema_tbuf_new(c, TB_FRAGMENT, name, &type, span);
  b->immutable = true;
  sema_tstmt_new(c, TS_ALLOC, span)->as.alloc = b;
  TRegion r = sema_region_whole(c, b, span);
  sema_assign_region(c, &r, value, span);
  return b;
}

/* Constants need no name. */
TExpr *sema_bind_value(Check *c, const char *name, TExpr *value, Span span) {
  if (sema_is_tile(value)) {
    if (!sema_tile_allowed(c, span, "a tile kept aside"))
      return sema_texpr_error(c, span);
    TExpr *e = sema_texpr_whole(
        c, sema_snapshot(c, name, value, sema_type_definite(value->type), span), span);
    e->type.untyped = value->type.untyped;
    return e;
  }
  if (!sema_is_num(value) || sema_is_const(value))
    return value;
  TVar *v = sema_tvar_new(c, TV_LET, name, value->type.dtype, span);
  TStmt *s = sema_tstmt_new(c, TS_LET, span);
  s->as.let.var = v;
  s->as.let.value = value;
  return sema_texpr_var(c, v, value->type.untyped, span);
}
