/* build_assign.c: a tile into its place: MAP, COPY, REDUCE, SCAN, DOT, or a branch of these.
 *
 * In: a region of a tile and the TExpr that it gets. Out: statements. Always holds: no point of a
 * MAP reads what another point writes; what is computed into a temporary is copied after.
 * A MAP has four axes at most; tiles with more share the first. Reading and writing one buffer in
 * one MAP is allowed exactly where each point reads only what it writes itself: everything else
 * goes through a temporary and a copy, which the passes may remove again where they know better.
 * Tests: tests/lang (goldens .ir), tests/unit/check_sema.c.
 */
#include "build_impl.h"

/* ---------------------------------------------------------------- who reads what */

/* Expressions are hash-consed: equal ones are equal pointers. */
static bool same_region(const IrRegion *a, const IrRegion *b) {
  if (a->buf != b->buf || a->trans != b->trans)
    return false;
  for (int i = 0; i < a->buf->rank; i++) {
    const IrAxis *x = &a->axis[i], *y = &b->axis[i];
    if (x->origin != y->origin || x->extent != y->extent || x->step != y->step ||
        x->keep != y->keep || x->stop != y->stop)
      return false;
  }
  return true;
}

/* The place that is assigned, while its value is looked through. */
typedef struct Reads {
  const IrRegion *dst;
  const SemaType *shape; /* of the place */
} Reads;

static bool expr_touches(const TExpr *e, const IrBuffer *buf);

static bool stmts_touch(const TStmts *s, const IrBuffer *buf);
/* Statements of an inlined body; what is not listed counts as touching. */
static bool stmt_touches(const TStmt *s, const IrBuffer *buf) {
  switch (s->kind) {
  case TS_LET:
  case TS_SET:
  case TS_EVAL:
    return expr_touches(s->as.let.value, buf);
  case TS_FOR:
    return expr_touches(s->as.loop.hi[0], buf) || stmts_touch(&s->as.loop.body, buf);
  case TS_IF:
  case TS_WHILE:
    return expr_touches(s->as.branch.cond, buf) || stmts_touch(&s->as.branch.then, buf) ||
           stmts_touch(&s->as.branch.other, buf);
  case TS_ASSERT:
    return expr_touches(s->as.report.cond, buf);
  case TS_BREAK:
  case TS_CONTINUE:
    return false;
  default:
    return true;
  }
}

/* Any of them. */
static bool stmts_touch(const TStmts *s, const IrBuffer *buf) {
  for (size_t i = 0; i < s->n; i++)
    if (stmt_touches(s->v[i], buf))
      return true;
  return false;
}

/* Whether evaluating it reads the buffer at all. */
static bool expr_touches(const TExpr *e, const IrBuffer *buf) {
  if ((e->kind == TE_REGION || e->kind == TE_ELEM) && build_buf(e->as.region.buf) == buf)
    return true;
  if (e->kind == TE_APPLY || e->kind == TE_SEQ)
    if (stmts_touch(&e->as.inlined.body, buf) || expr_touches(e->as.inlined.value, buf))
      return true;
  for (int i = 0; i < e->nargs; i++)
    if (expr_touches(e->arg[i], buf))
      return true;
  return false;
}

/* The same region read point by point is read before it is written: that is safe. */
static bool region_elsewhere(const TExpr *e, const Reads *r, bool straight) {
  if (build_buf(e->as.region.buf) != r->dst->buf)
    return false;
  if (!straight || !sema_type_same_shape(&e->type, r->shape))
    return true;
  IrRegion own = {.buf = r->dst->buf, .trans = e->as.region.trans};
  for (int i = 0; i < own.buf->rank; i++) {
    const TAxis *a = &e->as.region.axis[i];
    const Ready *o = a->origin->ir;
    own.axis[i] = (IrAxis){o ? o->scalar : NULL, a->extent, a->step, a->keep, NULL};
  }
  return !same_region(&own, r->dst);
}

/* straight: the point read is the point written. Prepared nodes were read before. */
static bool reads_elsewhere(const TExpr *e, const Reads *r, bool straight) {
  /* Prepared nodes and scalars were read before the MAP begins. */
  if (e->ir || e->type.kind == TY_NUM)
    return false;
  if (e->kind == TE_REGION)
    return region_elsewhere(e, r, straight);
  if (e->kind == TE_APPLY && (stmts_touch(&e->as.inlined.body, r->dst->buf) ||
                              expr_touches(e->as.inlined.value, r->dst->buf)))
    return true;
  /* Below a view the point read is another one than the point written. */
  bool pass = straight && (e->kind == TE_OP || e->kind == TE_APPLY);
  for (int i = 0; i < e->nargs; i++)
    if (reads_elsewhere(e->arg[i], r, pass))
      return true;
  return false;
}

/* ---------------------------------------------------------------- maps */

/* The region's own axes, dropped ones gone, after `.T`. */
static SemaType shape_of(const IrRegion *r) {
  SemaType t = {.kind = TY_TILE, .dtype = r->buf->dtype, .rank = ir_region_rank(r)};
  for (int i = 0; i < t.rank; i++)
    t.extent[i] = ir_region_extent(r, i);
  return t;
}

/* The element that the region has at a point of its own axes. */
static IrAccess region_point(Build *b, const IrRegion *r, IrExpr *const *index) {
  IrAccess a = {.buf = r->buf};
  int rank = ir_region_rank(r), at = 0;
  for (int i = 0; i < r->buf->rank; i++) {
    const IrAxis *x = &r->axis[i];
    int64_t o;
    a.check = a.check || (!b->k->unchecked && !ir_is_const(x->origin, &o));
    a.index[i] = x->origin;
    if (!x->keep)
      continue;
    int from = at++;
    if (r->trans && from >= rank - 2)
      from = from == rank - 1 ? rank - 2 : rank - 1;
    IrExpr *step = ir_op2(b->k, OP_MUL, index[from], ir_int(b->k, x->step));
    a.index[i] = ir_op2(b->k, OP_ADD, step, x->origin);
  }
  return a;
}

/* Ranges of constant extents are known. */
static IrVar *axis_var(Build *b, int i, int64_t extent) {
  static const char *const names[] = {"i0", "i1", "i2", "i3"};
  IrVar *v = ir_var(b->k, IRV_INDEX, names[i], DT_I64);
  v->lo = 0;
  v->hi = extent > 0 ? extent - 1 : 0;
  return v;
}

/* A MAP has four axes at most: those that are more share the first. */
static void map_axes(Build *b, IrMap *m, const SemaType *t, IrExpr **index) {
  int lead = t->rank > 4 ? t->rank - 4 : 0;
  int64_t first = 1;
  for (int i = 0; i <= lead && i < t->rank; i++)
    first *= t->extent[i];
  m->naxes = t->rank - lead;
  for (int i = 0; i < m->naxes; i++) {
    int64_t n = i ? t->extent[lead + i] : first;
    m->index[i] = axis_var(b, i, n);
    m->extent[i] = ir_int(b->k, n);
    index[lead + i] = ir_ref(b->k, m->index[i]);
  }
  /* The shared first axis, taken apart: the last of its parts varies fastest. */
  for (int i = lead; i > 0; i--) {
    IrExpr *n = ir_int(b->k, t->extent[i] ? t->extent[i] : 1), *place = index[i];
    index[i] = ir_op2(b->k, OP_MOD, place, n);
    index[i - 1] = ir_op2(b->k, OP_FLOORDIV, place, n);
  }
}

/* The value at a point of the place, whose shape the value broadcasts to. */
static IrExpr *value_at(Build *b, const TExpr *e, const SemaType *t, IrExpr *const *index) {
  IrExpr *own[SEMA_MAX_RANK];
  int lead = t->rank - e->type.rank;
  if (e->type.kind == TY_NUM)
    return build_at(b, e, NULL);
  for (int i = 0; i < e->type.rank; i++)
    own[i] = e->type.extent[i] == 1 && t->extent[lead + i] != 1 ? ir_int(b->k, 0) : index[lead + i];
  return build_at(b, e, own);
}

/* The value converts to the buffer's dtype as it is stored. */
static void store_point(Build *b, const IrRegion *dst, const TExpr *e, const SemaType *t,
                        IrExpr *const *index) {
  IrExpr *v = ir_cast(b->k, value_at(b, e, t, index), dst->buf->dtype);
  IrAccess at = region_point(b, dst, index);
  IrStmt *s = build_add(b, IRK_STORE);
  s->as.access.at = at;
  s->as.access.value = v;
}

/* The loads of one MAP are its own: nothing is reused across statements. */
static void map_into(Build *b, const IrRegion *dst, const TExpr *e) {
  SemaType t = shape_of(dst);
  IrExpr *index[SEMA_MAX_RANK];
  IrStmt *s = build_add(b, IRK_MAP);
  map_axes(b, &s->as.map, &t, index);
  /* Loads of this MAP are found again inside it, and nowhere else. */
  IrBlock *out = b->out, *map = b->map;
  b->out = b->map = &s->as.map.body;
  b->loaded.n = 0;
  store_point(b, dst, e, &t, index);
  b->loaded.n = 0;
  b->out = out;
  b->map = map;
}

/* In an iteration of a parallel loop, where no MAP stands: loops over the local array. */
static void loops_into(Build *b, const IrRegion *dst, const TExpr *e) {
  SemaType t = shape_of(dst);
  IrExpr *index[SEMA_MAX_RANK];
  IrBlock *out = b->out;
  for (int i = 0; i < t.rank; i++) {
    IrStmt *s = build_add(b, IRK_FOR);
    s->as.loop.index = axis_var(b, i & 3, t.extent[i]);
    s->as.loop.lo = ir_int(b->k, 0);
    s->as.loop.hi = ir_int(b->k, t.extent[i]);
    s->as.loop.step = ir_int(b->k, 1);
    s->as.loop.loop = IRF_UNROLL;
    index[i] = ir_ref(b->k, s->as.loop.index);
    b->out = &s->as.loop.body;
  }
  store_point(b, dst, e, &t, index);
  b->out = out;
}

/* Whole regions of one shape; the dtype converts. */
static void copy_into(Build *b, const IrRegion *dst, const IrRegion *src) {
  IrStmt *s = build_add(b, IRK_COPY);
  s->as.copy.dst = *dst;
  s->as.copy.src = *src;
}

/* Everything inside that is no elementwise operation is computed first; then one MAP, into the
 * place itself unless that would change what other points still read. */
static void elementwise(Build *b, const IrRegion *dst, TExpr *e) {
  /* Only the initial value of a `local` comes here. */
  if (b->parallel) {
    loops_into(b, dst, e);
    return;
  }
  build_prepare(b, e);
  SemaType t = shape_of(dst);
  Reads r = {dst, &t};
  if (!reads_elsewhere(e, &r, true)) {
    map_into(b, dst, e);
    return;
  }
  IrRegion tmp = ir_whole(b->k, build_tile(b, IRS_FRAGMENT, "tmp", t.dtype, t.rank, t.extent));
  map_into(b, &tmp, e);
  copy_into(b, dst, &tmp);
}

/* ---------------------------------------------------------------- operations with a place */

/* Into a region, or to a scalar (dst NULL). */
static IrExpr *reduce_to(Build *b, TExpr *e, const IrRegion *dst) {
  IrRegion src = build_operand(b, e->arg[0], dst ? dst->buf : NULL);
  IrStmt *s = build_add(b, IRK_REDUCE);
  s->as.reduce.op = e->as.fold.op;
  s->as.reduce.src = src;
  s->as.reduce.axis = e->as.fold.axis;
  if (dst) {
    s->as.reduce.dst = *dst;
    return NULL;
  }
  s->as.reduce.scalar = ir_var(b->k, IRV_LET, op_info(e->as.fold.op)->name, e->type.dtype);
  return ir_ref(b->k, s->as.reduce.scalar);
}

/* A reduction of a whole tile is the block's: computed once, the same for all threads. */
IrExpr *build_reduce_scalar(Build *b, TExpr *e) {
  return reduce_to(b, e, NULL);
}

/* Never in place: the source would be overwritten while it is read. */
static void scan_to(Build *b, TExpr *e, const IrRegion *dst) {
  IrRegion src = build_operand(b, e->arg[0], dst->buf);
  IrStmt *s = build_add(b, IRK_SCAN);
  s->as.scan = (IrScan){.op = e->as.fold.op,
                        .src = src,
                        .dst = *dst,
                        .axis = e->as.fold.axis,
                        .reverse = e->as.fold.reverse,
                        .exclusive = e->as.fold.exclusive};
}

/* From zero; sums go through TS_DOT. */
static void dot_to(Build *b, TExpr *e, const IrRegion *dst) {
  IrRegion x = build_operand(b, e->arg[0], dst->buf), y = build_operand(b, e->arg[1], dst->buf);
  IrStmt *s = build_add(b, IRK_DOT);
  s->as.dot = (IrDot){.a = x, .b = y, .c = *dst, .promote = -1};
}

/* Each way assigns the place; only the one taken runs. */
static void branch_to(Build *b, TExpr *e, const IrRegion *dst) {
  IrExpr *cond = build_scalar(b, e->arg[1]);
  IrStmt *s = build_add(b, IRK_IF);
  IrBlock *out = b->out;
  s->as.if_.cond = cond;
  b->out = &s->as.if_.then;
  build_assign(b, dst, e->arg[0]);
  b->out = &s->as.if_.other;
  build_assign(b, dst, e->arg[2]);
  b->out = out;
}

/* Whether the operation can write the place itself. */
static bool fits(const TExpr *e, const IrRegion *dst) {
  SemaType t = shape_of(dst);
  return e->type.kind == TY_TILE && e->type.dtype == dst->buf->dtype &&
         sema_type_same_shape(&e->type, &t);
}

/* `x = y` of tiles: a copy says more to the passes than a MAP. */
static bool plain_region(const TExpr *e, const IrRegion *dst) {
  return e->kind == TE_REGION && fits(e, dst) && build_buf(e->as.region.buf) != dst->buf;
}

/* Operations that write a place take it directly, without a temporary between. */
void build_assign(Build *b, const IrRegion *dst, TExpr *e) {
  /* Otherwise a temporary of the operation's own type is made, and converted by a MAP. */
  bool fit = fits(e, dst) && !b->parallel;
  if (e->kind == TE_SEQ) {
    build_inlined(b, &e->as.inlined.body);
    build_assign(b, dst, e->as.inlined.value);
  } else if (e->kind == TE_COND && e->type.kind == TY_TILE && !b->parallel) {
    branch_to(b, e, dst);
  } else if (fit && e->kind == TE_REDUCE) {
    reduce_to(b, e, dst);
  } else if (fit && e->kind == TE_SCAN) {
    scan_to(b, e, dst);
  } else if (fit && e->kind == TE_DOT) {
    dot_to(b, e, dst);
  } else if (plain_region(e, dst) && !b->parallel) {
    IrRegion src = build_region(b, &e->as.region);
    copy_into(b, dst, &src);
  } else {
    elementwise(b, dst, e);
  }
}
