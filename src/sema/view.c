/* view.c: reshape and transpose of global tensors.
 *
 * In: a tensor and how it is to be seen. Out: a TY_GLOBAL node that says where an element of the
 * view lies in the tensor; nothing is moved. One element is an element of the tensor (TE_ELEM); a
 * copy becomes a parallel loop over the tile whose iterations ask whether their element is inside,
 * for regions of the IR know strides but no such maps. `.T` needs none of this: regions have it.
 * Always holds: an index outside the view is an error even where the tensor has an element there.
 * Tests: tests/lang/view_*.tile, tests/errors/view_*.tile.
 */
#include "private.h"

#include <string.h>

bool sema_is_view(const TExpr *e) {
  return e->type.kind == TY_GLOBAL && (e->kind == TE_PERMUTE || e->kind == TE_RESHAPE);
}

/* ---------------------------------------------------------------- arithmetic of indices */

static TExpr *op2(Check *c, OpCode op, DType t, TExpr *x, TExpr *y) {
  TExpr *v[2] = {x, y};
  return sema_texpr_op(c, op, sema_type_num(t, false), v, 2, x->span);
}

static TExpr *add(Check *c, TExpr *x, TExpr *y) {
  return op2(c, OP_ADD, DT_I64, x, y);
}

static TExpr *mul(Check *c, TExpr *x, TExpr *y) {
  return op2(c, OP_MUL, DT_I64, x, y);
}

static TExpr *both(Check *c, TExpr *x, TExpr *y) {
  return x ? op2(c, OP_AND, DT_BOOL, x, y) : y;
}

/* 0 <= i and i < n, as one condition: both sides are pure and cannot fault. */
static TExpr *inside(Check *c, TExpr *i, TExpr *n) {
  TExpr *low = op2(c, OP_GE, DT_BOOL, i, sema_texpr_i64(c, 0, i->span));
  return both(c, low, op2(c, OP_LT, DT_BOOL, i, n));
}

/* ---------------------------------------------------------------- shapes */

TExpr *sema_view_extent(const TExpr *view, int axis) {
  if (view->kind == TE_PERMUTE)
    return sema_view_extent(view->arg[0], view->as.perm[axis]);
  if (view->kind == TE_RESHAPE)
    return view->shape[axis];
  const TRegion *r = &view->as.region;
  int last = r->buf->rank - 1;
  if (r->trans && axis >= last - 1)
    axis = axis == last ? last - 1 : last;
  return r->buf->shape[axis];
}

static TExpr *count(Check *c, const TExpr *view, Span span) {
  TExpr *n = sema_texpr_i64(c, 1, span);
  for (int i = 0; i < view->type.rank; i++)
    n = mul(c, n, sema_view_extent(view, i));
  return n;
}

/* A condition of the run, with words for where it fails. */
static void demand(Check *c, TExpr *cond, const char *text, Span span) {
  /* What is surely so is not asked at run time. */
  bool known;
  if (sema_is_error(cond) || (sema_known_bool(cond, &known) && known))
    return;
  TExpr *message = sema_texpr_new(c, TE_STRING, sema_type_kind(TY_STRING), span);
  message->as.string.s = text;
  message->as.string.n = strlen(text);
  TStmt *s = sema_tstmt_new(c, TS_ASSERT, span);
  s->as.report.cond = cond;
  s->as.report.part = ARENA_NEW(c->a, TExpr *);
  s->as.report.part[0] = message;
  s->as.report.nparts = 1;
}

/* What may be seen another way: a whole tensor, or a view of one. */
static bool whole_tensor(Check *c, const TExpr *x, Span span) {
  if (sema_is_view(x))
    return true;
  const TRegion *r = &x->as.region;
  bool whole = x->kind == TE_REGION;
  for (int i = 0; whole && i < r->buf->rank; i++) {
    int64_t o;
    whole = r->axis[i].keep && !r->axis[i].extent && r->axis[i].step == 1 && !r->axis[i].stop &&
            sema_is_const_int(r->axis[i].origin, &o) && o == 0;
  }
  if (!whole)
    diag_add(c->sink, E0224, span, "a view is of a whole tensor, this is a region of one");
  return whole;
}

static TExpr *view_node(Check *c, TExprKind kind, TExpr *x, int rank, Span span) {
  SemaType t = x->type;
  t.rank = rank;
  return sema_texpr_wrap1(c, kind, t, x, span);
}

TExpr *sema_view_permute(Check *c, TExpr *x, const int64_t *perm, int n, Span span) {
  if (!whole_tensor(c, x, span))
    return sema_texpr_error(c, span);
  TExpr *e = view_node(c, TE_PERMUTE, x, n, span);
  for (int i = 0; i < n; i++)
    e->as.perm[i] = (int)perm[i];
  return e;
}

TExpr *sema_view_reshape(Check *c, TExpr *x, const AstArgs *args, Span span) {
  int n = (int)args->n - 1;
  if (!whole_tensor(c, x, span))
    return sema_texpr_error(c, span);
  if (args->npos != args->n || n < 1 || n > SEMA_MAX_RANK) {
    diag_add(c->sink, E0110, span, "reshape takes a tensor and 1 to %d extents", SEMA_MAX_RANK);
    return sema_texpr_error(c, span);
  }
  TExpr *e = view_node(c, TE_RESHAPE, x, n, span);
  e->shape = ARENA_ARRAY(c->a, TExpr *, n);
  for (int i = 0; i < n; i++) {
    e->shape[i] =
        sema_bind_value(c, "extent", sema_check_int(c, args->v[i + 1].value, "an extent"), span);
    if (sema_is_error(e->shape[i]))
      return e->shape[i];
  }
  demand(c, op2(c, OP_EQ, DT_BOOL, count(c, e, span), count(c, x, span)),
         "reshape keeps the number of elements", span);
  return e;
}

/* ---------------------------------------------------------------- elements */

/* The place in the tensor of an element of the view, in the tensor's own axes. */
static void place(Check *c, const TExpr *view, TExpr *const *index, TRegion *out) {
  TExpr *own[SEMA_MAX_RANK];
  if (view->kind == TE_REGION) {
    *out = view->as.region;
    for (int i = 0, last = out->buf->rank - 1; i <= last; i++) {
      int from = out->trans && i >= last - 1 ? (i == last ? last - 1 : last) : i;
      out->axis[i] = (TAxis){.origin = index[from], .extent = 1, .step = 1};
    }
    out->trans = false;
    return;
  }
  /* Views of views: each takes its own map off. */
  const TExpr *base = view->arg[0];
  if (view->kind == TE_PERMUTE) {
    for (int i = 0; i < view->type.rank; i++)
      own[view->as.perm[i]] = index[i];
    place(c, base, own, out);
    return;
  }
  TExpr *at = index[0]; /* the row-major number of the element, taken apart again */
  for (int i = 1; i < view->type.rank; i++)
    at = add(c, mul(c, at, view->shape[i]), index[i]);
  for (int i = base->type.rank - 1; i > 0; i--) {
    own[i] = op2(c, OP_MOD, DT_I64, at, sema_view_extent(base, i));
    at = op2(c, OP_FLOORDIV, DT_I64, at, sema_view_extent(base, i));
  }
  own[0] = at;
  place(c, base, own, out);
}

static TExpr *element(Check *c, const TExpr *view, TExpr *const *index, Span span) {
  TExpr *e = sema_texpr_new(c, TE_ELEM, sema_type_num(view->type.dtype, false), span);
  place(c, view, index, &e->as.region);
  return e;
}

TExpr *sema_view_element(Check *c, const TExpr *view, const TAxis *axis, Span span) {
  TExpr *index[SEMA_MAX_RANK], *ok = NULL;
  for (int i = 0; i < view->type.rank; i++) {
    index[i] = sema_bind_value(c, "index", axis[i].origin, span);
    ok = both(c, ok, inside(c, index[i], sema_view_extent(view, i)));
  }
  if (ok && !c->kernel->ast->unchecked)
    demand(c, ok, "the index is outside the view", span);
  return element(c, view, index, span);
}

/* ---------------------------------------------------------------- copies */

/* A parallel loop whose body is still empty. */
typedef struct Loop { /* over the points of the tile */
  TStmt *stmt;
  TExpr *index[4];
} Loop;

static Loop open_loop(Check *c, const SemaType *shape, Span span) {
  static const char *const names[] = {"i0", "i1", "i2", "i3"};
  Loop l = {.stmt = sema_tstmt_new(c, TS_FOR, span)};
  l.stmt->as.loop.loop = TF_PARALLEL;
  l.stmt->as.loop.naxes = shape->rank;
  for (int i = 0; i < shape->rank; i++) {
    TVar *v = sema_tvar_new(c, TV_INDEX, names[i], DT_I64, span);
    v->lo = 0;
    v->hi = shape->extent[i] > 0 ? shape->extent[i] - 1 : 0;
    l.stmt->as.loop.index[i] = v;
    l.stmt->as.loop.hi[i] = sema_texpr_i64(c, shape->extent[i], span);
    l.index[i] = sema_texpr_var(c, v, false, span);
  }
  return l;
}

/* The element of a tile's region at a point of the region's own axes. */
static TExpr *tile_element(Check *c, const TRegion *r, TExpr *const *index, Span span) {
  TExpr *e = sema_texpr_new(c, TE_ELEM, sema_type_num(r->buf->dtype, false), span);
  int rank = sema_region_rank(r), at = 0;
  e->as.region = *r;
  e->as.region.trans = false;
  for (int i = 0; i < r->buf->rank; i++) {
    const TAxis *a = &r->axis[i];
    TExpr *o = a->origin;
    if (a->keep) {
      int from = at++;
      if (r->trans && from >= rank - 2)
        from = from == rank - 1 ? rank - 2 : rank - 1;
      o = add(c, o, mul(c, index[from], sema_texpr_i64(c, a->step, span)));
    }
    e->as.region.axis[i] = (TAxis){.origin = o, .extent = 1, .step = 1};
  }
  return e;
}

/* The indices in the view of a point of the tile, and whether they are inside. */
static TExpr *view_point(Check *c, const TExpr *side, TExpr *const *point, TExpr **index) {
  const TExpr *view = side->kind == TE_SLICE ? side->arg[0] : side;
  TExpr *ok = NULL;
  int at = 0;
  for (int i = 0; i < view->type.rank; i++) {
    const TAxis *a = side->kind == TE_SLICE ? &side->as.region.axis[i] : NULL;
    index[i] = a ? a->origin : point[i];
    if (a && a->keep)
      index[i] = add(c, a->origin, mul(c, point[at++], sema_texpr_i64(c, a->step, side->span)));
    ok = both(c, ok, inside(c, index[i], sema_view_extent(view, i)));
    if (a && a->stop)
      ok = both(c, ok, op2(c, OP_LT, DT_BOOL, index[i], a->stop));
  }
  return ok;
}

static void store(Check *c, TStmts *into, const TExpr *to, TExpr *value, Span span) {
  TStmts *out = c->out;
  c->out = into;
  TStmt *s = sema_tstmt_new(c, TS_STORE, span);
  s->as.assign.dst = to->as.region;
  s->as.assign.value = sema_convert(c, value, to->type.dtype);
  c->out = out;
}

/* The axes that the tile gives: the last ones of an origin, the kept ones of slices. */
static bool side_shape(Check *c, TExpr *side, bool origin, const SemaType *shape) {
  const TExpr *view = side->kind == TE_SLICE ? side->arg[0] : side;
  int rank = view->type.rank, kept = side->kind == TE_SLICE ? 0 : rank, at = 0;
  for (int i = 0; side->kind == TE_SLICE && i < rank; i++) {
    TAxis *a = &side->as.region.axis[i];
    a->keep = a->keep || (origin && i >= rank - shape->rank);
    kept += a->keep;
  }
  bool ok = kept == shape->rank;
  for (int i = 0; ok && side->kind == TE_SLICE && i < rank; i++) {
    const TAxis *a = &side->as.region.axis[i];
    if (a->keep)
      ok = origin || !a->extent || a->extent == shape->extent[at];
    at += a->keep;
  }
  if (!ok)
    diag_add(c->sink, E0228, side->span, "copy moves equal extents: this view does not go with %s",
             sema_type_name(c->a, shape));
  return ok;
}

static bool side_is_view(const TExpr *e) {
  return sema_is_view(e) || (e->type.kind == TY_GLOBAL && e->kind == TE_SLICE);
}

bool sema_view_side(const TExpr *dst, const TExpr *src) {
  return side_is_view(dst) || side_is_view(src);
}

static bool view_copy_ok(Check *c, const TExpr *dst, const TExpr *src, Span span) {
  if (dst->type.kind == TY_GLOBAL && src->type.kind == TY_GLOBAL) {
    diag_add(c->sink, E0217, span, "a view is copied to or from a tile");
    return false;
  }
  const TExpr *tile = sema_is_tile(dst) ? dst : src;
  if (tile->type.rank <= 4)
    return true;
  diag_add(c->sink, E0223, span, "a view is copied to or from a tile of at most 4 axes, this is %s",
           sema_describe(c, tile));
  return false;
}

/* Tile from view: what is outside gets the padding. */
static void copy_in(Check *c, const TExpr *dst, TExpr *src, TExpr *pad, Span span) {
  const TExpr *view = src->kind == TE_SLICE ? src->arg[0] : src;
  TExpr *index[SEMA_MAX_RANK];
  Loop l = open_loop(c, &dst->type, span);
  TExpr *ok = view_point(c, src, l.index, index);
  TExpr *to = tile_element(c, &dst->as.region, l.index, span);
  /* The branch is the iteration's only statement. */
  TStmts *out = c->out;
  c->out = &l.stmt->as.loop.body;
  TStmt *s = sema_tstmt_new(c, TS_IF, span);
  s->as.branch.cond = ok;
  c->out = out;
  if (!pad)
    pad = sema_texpr_const(c, scalar_convert((Scalar){.type = DT_I64}, view->type.dtype), false,
                           span);
  store(c, &s->as.branch.then, to, element(c, view, index, span), span);
  store(c, &s->as.branch.other, to, pad, span);
}

/* View from tile: what is outside is neither written nor read. */
static void copy_out(Check *c, TExpr *dst, const TRegion *src, const SemaType *shape, Span span) {
  const TExpr *view = dst->kind == TE_SLICE ? dst->arg[0] : dst;
  TExpr *index[SEMA_MAX_RANK];
  Loop l = open_loop(c, shape, span);
  TExpr *ok = view_point(c, dst, l.index, index);
  TStmts *out = c->out;
  c->out = &l.stmt->as.loop.body;
  TStmt *s = sema_tstmt_new(c, TS_IF, span);
  s->as.branch.cond = ok;
  c->out = out;
  store(c, &s->as.branch.then, element(c, view, index, span), tile_element(c, src, l.index, span),
        span);
}

void sema_view_copy(Check *c, TExpr *dst, bool d_origin, TExpr *src, bool s_origin, TExpr *pad,
                    Span span) {
  if (!view_copy_ok(c, dst, src, span))
    return;
  if (side_is_view(src)) {
    if (side_shape(c, src, s_origin, &dst->type))
      copy_in(c, dst, src, pad, span);
    return;
  }
  if (!side_shape(c, dst, d_origin, &src->type))
    return;
  SemaType shape = src->type;
  TRegion from;
  if (src->kind == TE_REGION) {
    from = src->as.region;
  } else { /* a computed tile: made first, read element by element then */
    TBuf *b = sema_snapshot(c, "tmp", src, sema_type_definite(shape), span);
    from = sema_region_whole(c, b, span);
  }
  copy_out(c, dst, &from, &shape, span);
}
