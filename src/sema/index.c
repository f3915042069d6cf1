/* index.c: subscripts and `.T`: elements, regions, slices, new axes.
 *
 * In: x[…] and x.T. Out: one element (TE_ELEM) where every axis has a single index, else a region
 * of the buffer, or a view of a value that is no buffer. Slices of tiles have constant extents;
 * `k:k+BN` is recognised by subtracting its ends. Origins of global tensors are for copy alone.
 * Three things can be indexed: a buffer by its name, which gives an element or a region of it; a
 * slice or computed tile, which gives a view of the value; and either behind `.T`, where the index
 * is turned round so that it ends at the buffer all the same. Regions matter because every
 * operation takes them as they are: `As[:, k:+8] @ Bs` copies nothing. Tests:
 * tests/lang/index_*.tile, tests/errors/shape_index_*.tile, shape_slice_*.tile.
 */
#include "private.h"

#include <string.h>

typedef struct Subject { /* what is indexed */
  TExpr *base;
  const TBuf *buf; /* NULL: a value */
  int rank;
  bool global;
} Subject;

/* The tile's name, else its text, for messages. */
static const char *subject_name(Check *c, const Subject *s) {
  const char *text = s->buf ? s->buf->name : sema_span_text(c, s->base->span);
  return text ? text : "this";
}

/* Of a tensor only where it is a constant; -1 where it is a value. */
static int64_t extent_of(const Subject *s, int axis) {
  if (s->global) {
    int64_t v;
    const TExpr *n = s->buf ? s->buf->shape[axis] : sema_view_extent(s->base, axis);
    return sema_is_const_int(n, &v) ? v : -1;
  }
  return s->base->type.extent[axis];
}

/* ---------------------------------------------------------------- one axis */

/* An index that is known now and outside would be a fault at every run. Tensors are left to the
 * run. */
static bool outside(Check *c, const Subject *s, int axis, int64_t at, Span span) {
  int64_t n = extent_of(s, axis);
  if (s->global || (at >= 0 && at < n))
    return false;
  diag_add(c->sink, E0218, span, "index %lld is outside axis %d of %s, whose extent is %lld",
           (long long)at, axis, subject_name(c, s), (long long)n);
  return true;
}

/* One index: drops the axis, or is one of an element's. */
static bool single(Check *c, const Subject *s, int axis, const AstAxis *a, TAxis *out) {
  TExpr *i = sema_check_int(c, a->start, "an index");
  int64_t at;
  /* What is known to be outside is an error before anything runs. */
  if (sema_is_error(i) || (sema_is_const_int(i, &at) && outside(c, s, axis, at, a->span)))
    return false;
  *out = (TAxis){.origin = i, .extent = 1, .step = 1};
  return true;
}

/* Steps are constants, for they are part of a region. */
static bool step_of(Check *c, const AstAxis *a, int64_t *step) {
  *step = 1;
  if (!a->step)
    return true;
  if (!sema_check_const_int(c, a->step, "the step of a slice", step))
    return false;
  if (0 < *step && *step <= UINT32_MAX)
    return true;
  Diag *d = diag_add(c->sink, E0219, a->step->span, "the step of a slice is %s, this is %lld",
                     *step > 0 ? "at most 4294967295" : "positive", (long long)*step);
  diag_hint(c->sink, d, "0:8:2 takes every second one");
  return false;
}

/* Elements that a slice of some length has. */
static int64_t steps_in(int64_t length, int64_t step) {
  return length <= 0 ? 0 : (length - 1) / step + 1;
}

/* origin:stop with a stop that is only known at run time: fine for copy, whose other side gives the
 * extent. */
static bool open_stop(Check *c, const Subject *s, int axis, const AstAxis *a, TExpr *stop,
                      TAxis *out) {
  (void)axis;
  if (s->global) {
    out->extent = 0;
    out->stop = stop;
    return true;
  }
  Diag *d = diag_add(c->sink, E0217, a->span,
                     "the extent of a slice of a tile must be known when the kernel is compiled");
  const char *start = a->start ? sema_span_text(c, a->start->span) : "0";
  diag_hint(c->sink, d, "write the extent itself: %s:+n", start ? start : "start");
  return false;
}

/* What can be known now: a slice longer than its axis never fits. */
static bool check_fit(Check *c, const Subject *s, int axis, const AstAxis *a, TAxis *out) {
  int64_t from, n = extent_of(s, axis);
  if (out->extent < 0) {
    diag_add(c->sink, E0217, a->span, "this slice would have the extent %lld",
             (long long)out->extent);
    return false;
  }
  if (s->global || n < 0)
    return true;
  if (out->extent && sema_is_const_int(out->origin, &from) &&
      (from < 0 || (out->extent - 1) * out->step >= n - from)) {
    diag_add(c->sink, E0218, a->span,
             "the slice from %lld with extent %lld leaves axis %d of %s, "
             "whose extent is %lld",
             (long long)from, (long long)out->extent, axis, subject_name(c, s), (long long)n);
    return false;
  }
  if (out->extent > n) {
    diag_add(c->sink, E0218, a->span,
             "a slice of extent %lld does not fit axis %d of %s, whose extent is %lld",
             (long long)out->extent, axis, subject_name(c, s), (long long)n);
    return false;
  }
  return true;
}

/* `k:+n` says the extent itself. */
static bool width(Check *c, const Subject *s, int axis, const AstAxis *a, TAxis *out) {
  if (!sema_check_const_int(c, a->stop, "the extent of a slice", &out->extent))
    return false;
  if (out->extent >= 0)
    out->extent = steps_in(out->extent, out->step);
  return check_fit(c, s, axis, a, out);
}

/* The rest of the axis, from a start that may be left out. */
static bool to_the_end(Check *c, const Subject *s, int axis, const AstAxis *a, TAxis *out) {
  int64_t from, n = extent_of(s, axis);
  if (s->global) { /* the other side says how much; what lies outside is outside */
    out->extent = 0;
    return true;
  }
  if (!sema_is_const_int(out->origin, &from))
    return open_stop(c, s, axis, a, NULL, out);
  int64_t length;
  length = __builtin_sub_overflow(n, from, &length) ? INT64_MAX : length;
  out->extent = steps_in(length, out->step);
  return check_fit(c, s, axis, a, out);
}

/* `start:stop`: the extent is their difference, found by taking both apart
 * (sema_texpr_difference); a start at run time is fine, a difference at run time only where the
 * other side gives the extent. */
static bool slice(Check *c, const Subject *s, int axis, const AstAxis *a, TAxis *out) {
  *out = (TAxis){.keep = true, .step = 1};
  out->origin = a->start ? sema_check_int(c, a->start, "the start of a slice")
                         : sema_texpr_i64(c, 0, a->span);
  if (!step_of(c, a, &out->step) || sema_is_error(out->origin))
    return false;
  if (a->kind == AXIS_WIDTH)
    return width(c, s, axis, a, out);
  if (!a->stop)
    return to_the_end(c, s, axis, a, out);
  TExpr *stop = sema_check_int(c, a->stop, "the stop of a slice");
  if (sema_is_error(stop))
    return false;
  int64_t length;
  /* k*BN and (k + 1)*BN differ by BN. */
  if (!sema_texpr_difference(stop, out->origin, &length))
    return open_stop(c, s, axis, a, stop, out);
  if (length < 0) {
    diag_add(c->sink, E0217, a->span, "this slice stops before it starts");
    return false;
  }
  out->extent = steps_in(length, out->step);
  return check_fit(c, s, axis, a, out);
}

/* New axes never come here: they are no axes of the subject. */
static bool one_axis(Check *c, const Subject *s, int axis, const AstAxis *a, TAxis *out) {
  if (a->kind == AXIS_SINGLE)
    return single(c, s, axis, a, out);
  return slice(c, s, axis, a, out);
}

/* ---------------------------------------------------------------- all axes */

/* All of one bracket, after typing. */
typedef struct Axes {
  TAxis axis[SEMA_MAX_RANK];
  bool new_axis[SEMA_MAX_RANK]; /* per axis of the result */
  int nnew, nsingle, given;
  int rank; /* of the result */
} Axes;

/* More indices than axes. */
static bool too_many(Check *c, const AstExpr *e, const Subject *s, int given) {
  diag_add(c->sink, E0215, e->span, "%s has %d %s, this gives %d indices", subject_name(c, s),
           s->rank, s->rank == 1 ? "axis" : "axes", given);
  return false;
}

/* Counts before anything is typed, so that a wrong number is said first. */
static bool count_axes(Check *c, const AstExpr *e, const Subject *s, Axes *out) {
  int made = 0;
  for (size_t i = 0; i < e->as.index.n; i++) {
    const AstAxis *a = &e->as.index.axes[i];
    out->nnew += a->kind == AXIS_NONE;
    out->nsingle += a->kind == AXIS_SINGLE;
    if (a->kind != AXIS_SINGLE && made < SEMA_MAX_RANK)
      out->new_axis[made] = a->kind == AXIS_NONE;
    made += a->kind != AXIS_SINGLE;
  }
  out->given = (int)e->as.index.n - out->nnew;
  if (out->given > s->rank)
    return too_many(c, e, s, out->given);
  out->rank = made + s->rank - out->given;
  if (out->rank <= SEMA_MAX_RANK)
    return true;
  diag_add(c->sink, E0223, e->span, "a tile has at most %d axes, this would have %d", SEMA_MAX_RANK,
           out->rank);
  return false;
}

/* Axes that are left out are whole, as in NumPy. */
static bool read_axes(Check *c, const AstExpr *e, const Subject *s, Axes *out) {
  /* Axes without an index are filled in below. */
  memset(out, 0, sizeof *out);
  if (!count_axes(c, e, s, out))
    return false;
  int axis = 0;
  bool ok = true;
  for (size_t i = 0; i < e->as.index.n; i++) {
    const AstAxis *a = &e->as.index.axes[i];
    if (a->kind == AXIS_NONE)
      continue;
    ok = one_axis(c, s, axis, a, &out->axis[axis]) && ok;
    axis++;
  }
  /* t[i] of a matrix is its row. */
  for (; axis < s->rank; axis++) {
    int64_t n = s->global ? 0 : extent_of(s, axis);
    out->axis[axis] =
        (TAxis){.origin = sema_texpr_i64(c, 0, e->span), .extent = n, .step = 1, .keep = true};
  }
  return ok;
}

/* A name by itself, and slices of it, are indexed as a buffer; computed tiles as values. */
static Subject subject(TExpr *base) {
  Subject s = {.base = base, .rank = base->type.rank};
  bool region = base->kind == TE_REGION;
  if (region && !base->as.region.trans) {
    const TRegion *r = &base->as.region;
    bool whole = true;
    for (int i = 0; i < r->buf->rank; i++) {
      int64_t o;
      whole = whole && r->axis[i].keep && r->axis[i].step == 1 && !r->axis[i].stop &&
              sema_is_const_int(r->axis[i].origin, &o) && o == 0 &&
              r->axis[i].extent == r->buf->extent[i];
    }
    s.buf = whole ? r->buf : NULL;
  }
  s.global = base->type.kind == TY_GLOBAL;
  if (s.global && s.buf)
    s.rank = s.buf->rank;
  return s;
}

/* The kept axes. */
static void shape_of(const TAxis *axis, int n, SemaType *t) {
  t->rank = 0;
  for (int i = 0; i < n; i++)
    if (axis[i].keep)
      t->extent[t->rank++] = axis[i].extent;
}

/* None puts an axis of extent 1 in; it is a view of the sliced value. */
static TExpr *with_new_axes(Check *c, const Axes *x, TExpr *e, Span span) {
  if (!x->nnew)
    return e;
  SemaType t = e->type;
  int from = 0;
  t.kind = TY_TILE;
  t.rank = x->rank;
  for (int i = 0; i < x->rank; i++)
    t.extent[i] = x->new_axis[i] ? 1 : e->type.extent[from++];
  TExpr *r = sema_texpr_wrap1(c, TE_NEWAXIS, t, e, span);
  memcpy(r->as.new_axis, x->new_axis, sizeof x->new_axis);
  return r;
}

/* Every axis has a single index. */
static TExpr *element(Check *c, const Subject *s, const Axes *x, Span span) {
  TExpr *e = sema_texpr_new(c, s->buf ? TE_ELEM : TE_SLICE,
                            sema_type_num(s->base->type.dtype, false), span);
  if (!s->buf) {
    e->arg = ARENA_NEW(c->a, TExpr *);
    e->arg[0] = s->base;
    e->nargs = 1;
    e->type.untyped = s->base->type.untyped;
  }
  e->as.region.buf = (TBuf *)(uintptr_t)s->buf;
  memcpy(e->as.region.axis, x->axis, sizeof x->axis);
  return e;
}

/* origin + step * i, folded where all are known. */
static TExpr *origin_in(Check *c, const TAxis *outer, TExpr *i, Span span) {
  SemaType t = sema_type_num(DT_I64, false);
  TExpr *step[] = {i, sema_texpr_i64(c, outer->step, span)};
  TExpr *sum[] = {outer->origin, outer->step == 1 ? i : sema_texpr_op(c, OP_MUL, t, step, 2, span)};
  return sema_texpr_op(c, OP_ADD, t, sum, 2, span);
}

/* A slice of a slice of a tile is a slice of the tile: the subject becomes the buffer, its axes
 * those of both put together. New axes and the count of indices stay what they were. */
static void compose(Check *c, const TRegion *outer, Subject *s, Axes *x, Span span) {
  TAxis inner[SEMA_MAX_RANK];
  memcpy(inner, x->axis, sizeof inner);
  s->buf = outer->buf;
  s->rank = outer->buf->rank;
  for (int i = 0, at = 0; i < s->rank; i++) {
    const TAxis *o = &outer->axis[i];
    if (!o->keep) {
      x->axis[i] = *o;
      x->given++;
      x->nsingle++;
      continue;
    }
    x->axis[i] = inner[at];
    x->axis[i].origin = origin_in(c, o, inner[at].origin, span);
    x->axis[i].step = inner[at++].step * o->step;
  }
}

/* A slice of `.T` or of a computed tile. */
static TExpr *value_slice(Check *c, const Subject *s, const Axes *x, Span span) {
  SemaType t = s->base->type;
  shape_of(x->axis, s->rank, &t);
  TExpr *e = sema_texpr_wrap1(c, TE_SLICE, t, s->base, span);
  memcpy(e->as.region.axis, x->axis, sizeof x->axis);
  return e;
}

/* A slice of a buffer stays one: operations take regions directly. */
static TExpr *region(Check *c, const Subject *s, const Axes *x, Span span) {
  SemaType t = s->base->type;
  shape_of(x->axis, s->rank, &t);
  TExpr *e = sema_texpr_new(c, TE_REGION, t, span);
  e->as.region.buf = (TBuf *)(uintptr_t)s->buf;
  e->as.region.span = span;
  memcpy(e->as.region.axis, x->axis, sizeof x->axis);
  return e;
}

/* None and `.T` do not commute. */
static bool has_new_axes(const AstExpr *e) {
  for (size_t i = 0; i < e->as.index.n; i++)
    if (e->as.index.axes[i].kind == AXIS_NONE)
      return true;
  return false;
}

/* A tensor is indexed once: what lies outside a region of one has no meaning of its own. New axes
 * are put into tiles. */
static bool tensor_indexable(Check *c, const TExpr *base, const AstExpr *e) {
  Subject s = subject((TExpr *)(uintptr_t)base);
  bool trans = base->kind == TE_REGION && base->as.region.trans;
  if (has_new_axes(e)) {
    diag_add(c->sink, E0224, e->span, "a new axis is put into a tile, not into %s",
             sema_is_view(base) ? "a view of a tensor" : sema_describe(c, base));
    return false;
  }
  if (s.buf || trans || sema_is_view(base))
    return true;
  Diag *d = diag_add(c->sink, E0224, e->span, "a region of a global tensor is not indexed again");
  diag_hint(c->sink, d, "write all indices in one bracket");
  return false;
}

/* Only tiles and tensors have axes. */
static bool indexable(Check *c, const TExpr *base, const AstExpr *e) {
  if (base->type.kind == TY_TILE)
    return true;
  if (base->type.kind == TY_GLOBAL)
    return tensor_indexable(c, base, e);
  if (sema_is_error(base))
    return false;
  Diag *d = diag_add(c->sink, E0214, e->as.index.base->span, "%s has no axes to index",
                     sema_describe(c, base));
  if (base->type.kind == TY_DTYPE)
    diag_hint(c->sink, d, "a type follows a name: shared t: f32[64]");
  return false;
}

/* x.T[i, j] is x[j, i].T: the index is turned round and applied to what `.T` stands on. */
static TExpr *untransposed(Check *c, TExpr *base) {
  TExpr *e = ARENA_NEW(c->a, TExpr);
  *e = *base;
  e->as.region.trans = false;
  sema_region_shape(&e->as.region, &e->type);
  return e;
}

/* The index as it would be written without `.T`; axes left out become whole ones first. */
static AstExpr *swapped_index(Check *c, const AstExpr *e, int rank) {
  AstExpr *r = ARENA_NEW(c->a, AstExpr);
  *r = *e;
  AstAxis *axes = ARENA_ARRAY(c->a, AstAxis, rank);
  for (int i = 0; i < rank; i++)
    axes[i] = (size_t)i < e->as.index.n ? e->as.index.axes[i]
                                        : (AstAxis){.kind = AXIS_SLICE, .span = e->span};
  AstAxis last = axes[rank - 1];
  axes[rank - 1] = axes[rank - 2];
  axes[rank - 2] = last;
  r->as.index.axes = axes;
  r->as.index.n = (size_t)rank;
  return r;
}

/* Whether the last two axes of what is indexed are left, so that they can be swapped back. */
static bool keeps_last_two(const AstExpr *e) {
  size_t n = e->as.index.n;
  return e->as.index.axes[n - 1].kind != AXIS_SINGLE && e->as.index.axes[n - 2].kind != AXIS_SINGLE;
}

static TExpr *transpose(Check *c, TExpr *x, Span span);

/* Indexing `x.T` is indexing x the other way round, so that a transposed region stays a region of
 * its buffer. */
static TExpr *index_base(Check *c, const AstExpr *e, TExpr *base) {
  if (base->kind == TE_REGION && base->as.region.trans && !has_new_axes(e) &&
      e->as.index.n <= (size_t)base->type.rank) {
    AstExpr *swapped = swapped_index(c, e, base->type.rank);
    TExpr *r = index_base(c, swapped, untransposed(c, base));
    bool both = !sema_is_error(r) && keeps_last_two(swapped);
    if (r->kind == TE_ELEM)
      r->as.region.trans = true; /* should copy take it for an origin */
    return both ? transpose(c, r, e->span) : r;
  }
  Subject s = subject(base);
  Axes x;
  if (!read_axes(c, e, &s, &x))
    return sema_texpr_error(c, e->span);
  if (!s.buf && !s.global && base->kind == TE_REGION && !base->as.region.trans)
    compose(c, &base->as.region, &s, &x, e->span);
  /* A single index for every axis: one element. */
  if (x.given == x.nsingle && x.given == s.rank && !x.nnew)
    return element(c, &s, &x, e->span);
  TExpr *r = s.buf ? region(c, &s, &x, e->span) : value_slice(c, &s, &x, e->span);
  return with_new_axes(c, &x, r, e->span);
}

/* An index of a view: one element, or (for copy) a TE_SLICE of it. */
static TExpr *view_index(Check *c, const AstExpr *e, TExpr *base, bool side, bool *origin) {
  Subject s = subject(base);
  Axes x;
  if (!read_axes(c, e, &s, &x))
    return sema_texpr_error(c, e->span);
  bool all = x.nsingle == s.rank;
  if (all && !side)
    return sema_view_element(c, base, x.axis, e->span);
  *origin = all;
  return value_slice(c, &s, &x, e->span);
}

static TExpr *index_of(Check *c, const AstExpr *e, bool side, bool *origin) {
  TExpr *base = sema_check_expr(c, e->as.index.base);
  if (!indexable(c, base, e))
    return sema_texpr_error(c, e->span);
  return sema_is_view(base) ? view_index(c, e, base, side, origin) : index_base(c, e, base);
}

/* The base is typed first: its axes decide what the indices mean. */
TExpr *sema_check_index(Check *c, const AstExpr *e) {
  bool origin;
  return index_of(c, e, false, &origin);
}

/* ---------------------------------------------------------------- .T */

/* Of a region it is a flag, of a value a view. */
static TExpr *transpose(Check *c, TExpr *x, Span span) {
  SemaType t = x->type;
  int64_t last = t.extent[t.rank - 1];
  t.extent[t.rank - 1] = t.extent[t.rank - 2];
  t.extent[t.rank - 2] = last;
  if (x->kind == TE_REGION) {
    TExpr *e = sema_texpr_new(c, TE_REGION, t, span);
    e->as.region = x->as.region;
    e->as.region.span = span;
    e->as.region.trans = !x->as.region.trans;
    return e;
  }
  if (x->type.kind == TY_GLOBAL && !sema_is_view(x)) {
    diag_add(c->sink, E0224, span, "`.T` of a region of a tensor has no meaning of its own");
    return sema_texpr_error(c, span);
  }
  TExpr *e = sema_texpr_wrap1(c, TE_PERMUTE, t, x, span);
  for (int i = 0; i < t.rank; i++)
    e->as.perm[i] = i;
  e->as.perm[t.rank - 1] = t.rank - 2;
  e->as.perm[t.rank - 2] = t.rank - 1;
  return e;
}

/* `.T` is all there is. */
TExpr *sema_check_attr(Check *c, const AstExpr *e) {
  TExpr *x = sema_check_expr(c, e->as.attr.base);
  if (sema_is_error(x))
    return x;
  const char *attr = e->as.attr.name.text;
  if (strcmp(attr, "T") != 0) {
    Diag *d = diag_add(c->sink, E0108, e->as.attr.name.span, "a kernel's values have no .%s", attr);
    diag_hint(c->sink, d, "tiles have .T; f32(x) converts");
    return sema_texpr_error(c, e->span);
  }
  if ((sema_is_tile(x) || x->type.kind == TY_GLOBAL) && x->type.rank >= 2)
    return transpose(c, x, e->span);
  Diag *d = diag_add(c->sink, E0214, e->span, ".T swaps the last two axes, this is %s",
                     sema_describe(c, x));
  if (sema_is_tile(x))
    diag_hint(c->sink, d, "[:, None] makes a column of it");
  return sema_texpr_error(c, e->span);
}

/* ---------------------------------------------------------------- places and sides of copy */

/* The hint is the declaration that would allow it. */
static bool writable(Check *c, const TExpr *e, const AstExpr *ast) {
  const TBuf *b = e->as.region.buf;
  if (e->kind != TE_REGION && e->kind != TE_ELEM) {
    diag_add(c->sink, E0103, ast->span, "this is a value, there is nothing to assign to");
    return false;
  }
  if (b->immutable) {
    Diag *d = diag_add(c->sink, E0103, ast->span, "%s is %s: it does not change", b->name,
                       b->space == TB_GLOBAL ? "an input" : "a snapshot");
    if (b->space == TB_GLOBAL)
      diag_hint(c->sink, d, "an input is written only as `%s: inout …`", b->name);
    else
      diag_hint(c->sink, d, "`let` names a snapshot; declare it as `fragment %s: …`", b->name);
    if (b->span.file)
      diag_also(c->sink, d, b->span, NULL);
    return false;
  }
  return true;
}

/* Pure fns write nothing but their own variables. */
TExpr *sema_check_place(Check *c, const AstExpr *e) {
  TExpr *x = sema_check_expr(c, e);
  if (sema_is_error(x))
    return x;
  if (c->fn && (x->kind == TE_REGION || x->kind == TE_ELEM)) {
    diag_add(c->sink, E0106, e->span, "a fn that a kernel calls is pure: it cannot write %s",
             x->as.region.buf->name);
    return sema_texpr_error(c, e->span);
  }
  return writable(c, x, e) ? x : sema_texpr_error(c, e->span);
}

/* A[i, j] of a global tensor is an origin here, not an element. */
TExpr *sema_check_side(Check *c, const AstExpr *e, bool *origin) {
  *origin = false;
  TExpr *x = e->kind == EXPR_INDEX ? index_of(c, e, true, origin) : sema_check_expr(c, e);
  if (sema_is_error(x))
    return x;
  if (x->kind == TE_ELEM && x->as.region.buf->space == TB_GLOBAL) {
    *origin = true;
    x->kind = TE_REGION;
    x->type = sema_type_tile(x->type.dtype, 0, x->type.extent);
    x->type.kind = TY_GLOBAL;
    return x;
  }
  return x;
}
