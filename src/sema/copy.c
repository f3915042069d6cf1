/* copy.c: copy, fill, atomics, print: what moves whole regions or names elements as places.
 *
 * In: calls. Out: statements whose regions have the extents of the tile on the other side. Origins
 * and open slices of global tensors get theirs here.
 * The tile decides: an origin `A[i, j]` becomes a region of the tile's extents, its leading axes
 * single indices; written slices must have the tile's extents; open ones (`:`, a stop at run time)
 * take them. What then lies outside the tensor is the run's business: it reads as zero or pad, and
 * is not written. Element atomics and regions of them are told apart by their value. Tests:
 * tests/lang/copy_*.tile, atomic_*.tile, tests/errors/copy_*.tile.
 */
#include <math.h>

#include "private.h"

/* ---------------------------------------------------------------- extents from the other side */

/* `A[i, j]` with a tile of fewer axes than A: leading indices are single, the last ones become
 * axes with the tile's extents. Of `A.T[i, j]` the extents go to the axes swapped back. */
static bool origin_takes(Check *c, TExpr *g, const SemaType *shape) {
  TRegion *r = &g->as.region;
  /* So many leading indices choose a slice; the others are where the tile begins. */
  int lead = r->buf->rank - shape->rank;
  if (lead < 0) {
    diag_add(c->sink, E0228, g->span, "%s has %s, too few for the %d of %s", r->buf->name,
             sema_axes(c, r->buf->rank), shape->rank, sema_type_name(c->a, shape));
    return false;
  }
  for (int i = lead; i < r->buf->rank; i++) {
    r->axis[i].keep = true;
    r->axis[i].extent = shape->extent[i - lead];
  }
  r->trans = r->trans && shape->rank >= 2;
  if (r->trans) {
    r->axis[r->buf->rank - 1].extent = shape->extent[shape->rank - 2];
    r->axis[r->buf->rank - 2].extent = shape->extent[shape->rank - 1];
  }
  sema_region_shape(r, &g->type);
  return true;
}

/* Says how many axes each side keeps; the usual cause is a single index meant as a slice. */
static bool wrong_count(Check *c, const TExpr *g, const SemaType *shape, int kept) {
  Diag *d = diag_add(c->sink, E0228, g->span, "this region of %s has %s, the other side %d: %s",
                     g->as.region.buf->name, sema_axes(c, kept), shape->rank,
                     sema_type_name(c->a, shape));
  if (kept < shape->rank)
    diag_hint(c->sink, d, "a single index drops its axis; i:+1 keeps it");
  return false;
}

/* Written slices keep their own extents, which must be the tile's; open ones (`:`, or a run-time
 * stop) take the tile's. */
static bool slices_take(Check *c, TExpr *g, const SemaType *shape) {
  TRegion *r = &g->as.region;
  SemaType want = *shape;
  int kept = sema_region_rank(r), at = 0;
  if (kept != shape->rank)
    return wrong_count(c, g, shape, kept);
  if (r->trans) {
    want.extent[kept - 1] = shape->extent[kept - 2];
    want.extent[kept - 2] = shape->extent[kept - 1];
  }
  for (int i = 0; i < r->buf->rank; i++) {
    TAxis *a = &r->axis[i];
    if (!a->keep)
      continue;
    int64_t n = want.extent[at++];
    /* An extent of 0 was left open. */
    if (a->extent && a->extent != n) {
      diag_add(c->sink, E0228, g->span,
               "copy moves equal extents: axis %d of this region of %s has %lld, the other side "
               "%s has %lld",
               i, r->buf->name, (long long)a->extent, sema_type_name(c->a, shape), (long long)n);
      return false;
    }
    a->extent = n;
  }
  sema_region_shape(r, &g->type);
  return true;
}

/* The extents of one side, given to a region of a global tensor on the other. */
static bool take_shape(Check *c, TExpr *g, bool origin, const SemaType *shape) {
  return origin ? origin_takes(c, g, shape) : slices_take(c, g, shape);
}

/* A region of a global tensor all of whose extents are written. */
static bool has_extents(const TExpr *g, bool origin) {
  if (origin)
    return false;
  for (int i = 0; i < g->as.region.buf->rank; i++)
    if (g->as.region.axis[i].keep && !g->as.region.axis[i].extent)
      return false;
  return true;
}

/* From tensor to tensor: one side must say all its extents, and gives them to the other. */
static bool settle_globals(Check *c, TExpr *dst, bool d_origin, TExpr *src, bool s_origin,
                           Span span) {
  SemaType t = src->type;
  /* The source first: it is what the reader reads first. */
  if (has_extents(src, s_origin)) {
    sema_region_shape(&src->as.region, &t);
    return take_shape(c, dst, d_origin, &t);
  }
  if (has_extents(dst, d_origin)) {
    sema_region_shape(&dst->as.region, &t);
    return take_shape(c, src, s_origin, &t);
  }
  Diag *d = diag_add(c->sink, E0217, span, "neither side of this copy says its extents");
  diag_hint(c->sink, d, "i:+n gives an axis the extent n");
  return false;
}

/* ---------------------------------------------------------------- copy */

/* Two tiles: copy moves equal extents, it does not broadcast. */
static bool same_tiles(Check *c, const TExpr *dst, const TExpr *src, Span span) {
  if (sema_type_same_shape(&dst->type, &src->type))
    return true;
  Diag *d = diag_add(c->sink, E0228, span,
                     "copy moves equal extents: the source is %s, the "
                     "destination %s",
                     sema_describe(c, src), sema_describe(c, dst));
  if (sema_broadcasts_to(&src->type, &dst->type) && dst->kind == TE_REGION)
    diag_hint(c->sink, d, "an assignment broadcasts: %s[…] = …", dst->as.region.buf->name);
  return false;
}

/* Which side gives the extents: the tile does, if there is one. */
static bool settle(Check *c, TExpr *dst, bool d_origin, TExpr *src, bool s_origin, Span span) {
  bool dg = dst->type.kind == TY_GLOBAL, sg = src->type.kind == TY_GLOBAL;
  if (dg && sg)
    return settle_globals(c, dst, d_origin, src, s_origin, span);
  if (sg)
    return take_shape(c, src, s_origin, &dst->type);
  if (dg)
    return take_shape(c, dst, d_origin, &src->type);
  return same_tiles(c, dst, src, span);
}

/* A scalar or element is no side of copy; the hints name what was meant. */
static bool copy_side(Check *c, const TExpr *e, const AstExpr *ast, bool is_dst) {
  if (sema_is_error(e))
    return false;
  if (sema_is_tile(e) || e->type.kind == TY_GLOBAL)
    return true;
  Diag *d = diag_add(c->sink, E0227, ast->span, "copy moves a region or tile, this is %s%s",
                     e->kind == TE_ELEM ? "an element, " : "", sema_describe(c, e));
  if (is_dst)
    diag_hint(c->sink, d, "an element is assigned: x[i, j] = …");
  else
    diag_hint(c->sink, d, "fill(tile, value) sets every element");
  return false;
}

/* What copy may write: not inputs, snapshots, or values. */
static bool copy_target(Check *c, const TExpr *e, const AstExpr *ast) {
  const TExpr *base = e;
  while (base->type.kind == TY_GLOBAL && base->kind != TE_REGION && base->nargs)
    base = base->arg[0]; /* views are written where their tensor is */
  const TBuf *b = base->as.region.buf;
  if (base->kind == TE_REGION && !b->immutable)
    return true;
  if (base->kind == TE_REGION) {
    Diag *d = diag_add(c->sink, E0103, ast->span, "%s cannot be written", b->name);
    diag_hint(c->sink, d,
              b->space == TB_GLOBAL ? "an input is written only as `%s: inout …`"
                                    : "declare it as `fragment %s: …`",
              b->name);
  } else {
    diag_add(c->sink, E0103, ast->span, "this is a value, copy cannot write it");
  }
  return false;
}

/* Whether `from` holds a constant as `to` would: no integer holds -inf. */
static bool holds(const TExpr *pad, DType from, DType to) {
  if (pad->kind != TE_CONST || !dtype_is_float(to))
    return true;
  Scalar direct = scalar_convert(pad->as.value, to);
  Scalar by = scalar_convert(scalar_convert(pad->as.value, from), to);
  return by.as.f == direct.as.f || isnan(direct.as.f);
}

/* `pad` is what a read outside gives, so it has the type of what is read, unless that cannot hold
 * it: then that of where it goes. */
static TExpr *copy_pad(Check *c, const AstExpr *pad, DType from, DType to) {
  if (!pad)
    return NULL;
  TExpr *e = sema_check_scalar(c, pad, "pad");
  return sema_convert(c, e, sema_is_error(e) || holds(e, from, to) ? from : to);
}

/* Sides are looked at as origins first (sema_check_side): the one place where `A[i, j]` is no
 * element. */
TExpr *sema_check_copy(Check *c, const AstExpr *e) {
  static const char *const params[] = {"src", "dst", "pad", "signal", NULL};
  Args args;
  bool s_origin, d_origin;
  if (!sema_take_args(c, e, "copy", params, 2, 2, &args) || !sema_tile_allowed(c, e->span, "copy"))
    return sema_texpr_error(c, e->span);
  TRegion signal = {0};
  TExpr *src = sema_check_side(c, args.v[0], &s_origin),
        *dst = sema_check_side(c, args.v[1], &d_origin);
  bool ok = copy_side(c, src, args.v[0], false);
  if (!copy_side(c, dst, args.v[1], true) || !ok || !copy_target(c, dst, args.v[1]))
    return sema_texpr_error(c, e->span);
  TExpr *pad = copy_pad(c, args.v[2], src->type.dtype, dst->type.dtype);
  if ((pad && sema_is_error(pad)) || (args.v[3] && !sema_check_barrier(c, args.v[3], &signal)))
    return sema_texpr_error(c, e->span);
  if (sema_view_side(dst, src)) {
    sema_view_copy(c, dst, d_origin, src, s_origin, pad, e->span);
    if (signal.buf)
      sema_arrive(c, &signal, e->span);
    return sema_texpr_none(c, e->span);
  }
  if (!settle(c, dst, d_origin, src, s_origin, e->span))
    return sema_texpr_error(c, e->span);
  TStmt *s = sema_tstmt_new(c, TS_COPY, e->span);
  s->as.copy.dst = dst->as.region;
  s->as.copy.pad = pad;
  if (src->kind == TE_REGION) {
    s->as.copy.src = src->as.region;
    s->as.copy.signal = signal;
    return sema_texpr_none(c, e->span);
  }
  s->as.copy.value = sema_convert(c, src, src->type.dtype);
  if (signal.buf) /* what is computed is there when the next statement runs */
    sema_arrive(c, &signal, e->span);
  return sema_texpr_none(c, e->span);
}

/* `fill(t, v)` is `t = v` for a scalar v; it exists because it reads better. */
TExpr *sema_check_fill(Check *c, const AstExpr *e) {
  static const char *const params[] = {"tile", "value", NULL};
  Args args;
  if (!sema_take_args(c, e, "fill", params, 2, 2, &args) || !sema_tile_allowed(c, e->span, "fill"))
    return sema_texpr_error(c, e->span);
  TExpr *dst = sema_check_place(c, args.v[0]);
  TExpr *v = sema_check_scalar(c, args.v[1], "the value of fill");
  if (sema_is_error(dst) || sema_is_error(v))
    return sema_texpr_error(c, e->span);
  if (!sema_is_tile(dst)) {
    diag_add(c->sink, E0214, args.v[0]->span, "fill sets a tile or a slice of one, this is %s",
             dst->kind == TE_ELEM ? "an element" : sema_describe(c, dst));
    return sema_texpr_error(c, e->span);
  }
  sema_assign_region(c, &dst->as.region, v, e->span);
  return sema_texpr_none(c, e->span);
}

/* ---------------------------------------------------------------- atomics */

/* Fragments and locals belong to one thread: an atomic on them would mean nothing. */
static bool atomic_place(Check *c, const TExpr *p, OpCode op, const AstExpr *ast) {
  if (sema_is_error(p))
    return false;
  if (p->kind != TE_ELEM && p->kind != TE_REGION) {
    diag_add(c->sink, E0227, ast->span, "%s takes an element or region first", op_info(op)->name);
    return false;
  }
  const TBuf *b = p->as.region.buf;
  if (b->space != TB_GLOBAL && b->space != TB_SHARED) {
    Diag *d = diag_add(c->sink, E0314, ast->span,
                       "%s works on global tensors and shared tiles, %s is neither",
                       op_info(op)->name, b->name);
    diag_hint(c->sink, d, "shared %s: …", b->name);
    return false;
  }
  if (!op_atomic_takes(op, b->dtype)) {
    diag_add(c->sink, E0314, ast->span, "%s does not work on %s elements", op_info(op)->name,
             dtype_name(b->dtype));
    return false;
  }
  return true;
}

/* Atomics write, so inputs are refused here too. */
static bool writable_element(Check *c, const TExpr *p, const AstExpr *ast) {
  const TBuf *b = p->as.region.buf;
  if (!b->immutable)
    return true;
  Diag *d = diag_add(c->sink, E0103, ast->span, "%s cannot be written", b->name);
  diag_hint(c->sink, d, "an input is written only as `%s: inout …`", b->name);
  return false;
}

/* The value converts to the element's type, as a store's does; the old value has that type. */
static TExpr *atomic_element(Check *c, TExpr *p, OpCode op, TExpr *v, TExpr *expected, Span span) {
  DType t = p->as.region.buf->dtype;
  TExpr *e = sema_texpr_new(c, TE_ATOMIC, sema_type_num(t, false), span);
  e->arg = ARENA_ARRAY(c->a, TExpr *, 2);
  e->arg[0] = sema_convert(c, v, t);
  e->nargs = expected ? 2 : 1;
  if (expected)
    e->arg[1] = sema_convert(c, expected, t);
  if (sema_is_error(e->arg[0]) || (expected && sema_is_error(e->arg[1])))
    return sema_texpr_error(c, span);
  e->as.atomic.op = op;
  e->as.atomic.at = p->as.region;
  e->as.atomic.at.span = p->span;
  return e;
}

/* One atomic an element of the region, no value: which old value would it be? */
static TExpr *atomic_tile(Check *c, TExpr *p, bool origin, OpCode op, TExpr *v, Span span) {
  if (!sema_tile_allowed(c, span, "an atomic on a region"))
    return sema_texpr_error(c, span);
  if (p->type.kind == TY_GLOBAL ? !take_shape(c, p, origin, &v->type) : !same_tiles(c, p, v, span))
    return sema_texpr_error(c, span);
  TExpr *value = sema_convert(c, v, p->type.dtype);
  TStmt *s = sema_tstmt_new(c, TS_ATOMIC_TILE, span);
  s->as.copy.dst = p->as.region;
  s->as.copy.op = op;
  s->as.copy.value = value;
  return sema_texpr_none(c, span);
}

/* An element and a tile to add: the element is the region's origin. */
static TExpr *as_origin(Check *c, const AstExpr *ast, TExpr *p, bool *origin) {
  *origin = p->kind == TE_ELEM && p->as.region.buf->space == TB_GLOBAL;
  if (*origin) {
    p->kind = TE_REGION;
    p->type = sema_type_tile(p->type.dtype, 0, p->type.extent);
    p->type.kind = TY_GLOBAL;
  } else if (p->kind == TE_ELEM) {
    diag_add(c->sink, E0227, ast->span, "a tile goes to a region, this is an element");
    return sema_texpr_error(c, ast->span);
  }
  return p;
}

/* Whether the value is a tile decides if the first argument is an element or an origin. */
TExpr *sema_check_atomic(Check *c, const AstExpr *e, OpCode op) {
  static const char *const two[] = {"place", "value", NULL};
  static const char *const three[] = {"place", "expected", "value", NULL};
  bool cas = op == OP_ATOMIC_CAS, origin;
  Args args;
  if (!sema_take_args(c, e, op_info(op)->name, cas ? three : two, cas ? 3 : 2, cas ? 3 : 2, &args))
    return sema_texpr_error(c, e->span);
  /* Inlining may repeat or drop a pure fn's work, never an effect. */
  if (c->fn) {
    diag_add(c->sink, E0106, e->span, "a fn that a kernel calls is pure: it has no atomics");
    return sema_texpr_error(c, e->span);
  }
  TExpr *p = sema_check_expr(c, args.v[0]);
  TExpr *expected = cas ? sema_check_scalar(c, args.v[1], "the expected value") : NULL;
  TExpr *v = sema_check_value(c, args.v[cas ? 2 : 1]);
  if (sema_is_error(v) || !atomic_place(c, p, op, args.v[0]) || !writable_element(c, p, args.v[0]))
    return sema_texpr_error(c, e->span);
  /* A comparison of whole regions has no one old value to tell of. */
  if (sema_is_tile(v) && !cas) {
    p = as_origin(c, args.v[0], p, &origin);
    return sema_is_error(p) ? p : atomic_tile(c, p, origin, op, v, e->span);
  }
  if (p->kind == TE_ELEM && sema_is_num(v))
    return atomic_element(c, p, op, v, expected, e->span);
  diag_add(c->sink, E0227, args.v[0]->span, "%s with a scalar takes an element, this is a region",
           op_info(op)->name);
  return sema_texpr_error(c, e->span);
}

/* ---------------------------------------------------------------- print */

/* Tensors are printed by the host. */
static bool print_part(Check *c, const AstExpr *e, Span print, TExpr **out) {
  TExpr *v = sema_check_expr(c, e);
  *out = v;
  if (v->kind == TE_STRING || v->kind == TE_DTYPE)
    return true;
  if (!sema_is_error(v) && !sema_is_num(v) && !sema_is_tile(v))
    *out = v = sema_check_value(c, e);
  return !sema_is_error(v) && (!sema_is_tile(v) || sema_tile_allowed(c, print, "printing a tile"));
}

/* Numbers, strings, dtypes and whole tiles, in the order given. */
TExpr *sema_check_print(Check *c, const AstExpr *e) {
  const AstArgs *args = &e->as.call.args;
  TExpr **part = ARENA_ARRAY(c->a, TExpr *, args->n);
  if (args->npos != args->n) {
    diag_add(c->sink, E0111, args->v[args->npos].name_span, "print has no argument %s",
             args->v[args->npos].name);
    return sema_texpr_error(c, e->span);
  }
  if (c->fn) {
    diag_add(c->sink, E0106, e->span, "a fn that a kernel calls is pure: it cannot print");
    return sema_texpr_error(c, e->span);
  }
  bool ok = true;
  for (size_t i = 0; i < args->n; i++)
    ok = print_part(c, args->v[i].value, e->span, &part[i]) && ok;
  if (!ok)
    return sema_texpr_error(c, e->span);
  TStmt *s = sema_tstmt_new(c, TS_PRINT, e->span);
  s->as.report.part = part;
  s->as.report.nparts = (int)args->n;
  return sema_texpr_none(c, e->span);
}
