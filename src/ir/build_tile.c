/* build_tile.c: whole-tile expressions.
 *
 * In: a tile TExpr and where it goes. Out: one MAP whose body computes an element and stores it;
 * before it, in the order of evaluation, the reductions, scans, products and choices inside it into
 * temporaries, and its scalars once. The MAP writes the place itself unless some point would read
 * what another writes; then a temporary stands between.
 * A tile expression is never kept as a tree in the IR: at a point it is scalar arithmetic on loads.
 * Views (slices, new axes, `.T`, reshape) are arithmetic on the point's indices.
 * Tests: tests/lang (goldens .ir), tests/unit/check_sema.c.
 */
#include "build_impl.h"

/* Declared where it is first needed: in a loop it is new in each iteration. */
IrBuffer *build_tile(Build *b, IrSpace space, const char *name, DType t, int rank,
                     const int64_t *extent) {
  IrExpr *e[SEMA_MAX_RANK];
  for (int i = 0; i < rank; i++)
    e[i] = ir_int(b->k, extent[i]);
  IrBuffer *buf = ir_buffer(b->k, space, name, t, rank, e);
  buf->unchecked = b->k->unchecked;
  buf->span = b->span;
  build_add(b, IRK_ALLOC)->as.alloc = buf;
  return buf;
}

/* Axes as they are; extents of tensors were settled by the checker. */
IrRegion build_region(Build *b, const TRegion *r) {
  IrRegion out = {.buf = build_buf(r->buf), .trans = r->trans, .span = r->span};
  for (int i = 0; i < r->buf->rank; i++) {
    const TAxis *a = &r->axis[i];
    out.axis[i] = (IrAxis){.origin = build_index(b, a->origin),
                           .extent = a->extent,
                           .step = a->step,
                           .keep = a->keep,
                           .stop = a->stop ? build_index(b, a->stop) : NULL};
  }
  return out;
}

/* ---------------------------------------------------------------- temporaries */

/* A fragment of the expression's own dtype and shape. */
static IrBuffer *temporary(Build *b, const SemaType *t) {
  return build_tile(b, IRS_FRAGMENT, "tmp", t->dtype, t->rank, t->extent);
}

/* The value of any tile expression, in a tile. */
static IrBuffer *materialize(Build *b, TExpr *e) {
  IrBuffer *buf = temporary(b, &e->type);
  IrRegion r = ir_whole(b->k, buf);
  build_assign(b, &r, e);
  return buf;
}

/* `.T` of a computed tile: the tile is made as it is and read the other way round. */
static bool swaps_last(const TExpr *e) {
  int n = e->type.rank;
  if (e->kind != TE_PERMUTE)
    return false;
  for (int i = 0; i < n - 2; i++)
    if (e->as.perm[i] != i)
      return false;
  return n >= 2 && e->as.perm[n - 1] == n - 2;
}

/* Operations take regions: a tile's own where it can be, else that of a temporary. */
IrRegion build_operand(Build *b, TExpr *e, const IrBuffer *avoid) {
  if (e->kind == TE_REGION && build_buf(e->as.region.buf) != avoid)
    return build_region(b, &e->as.region);
  if (swaps_last(e)) {
    IrRegion r = build_operand(b, e->arg[0], avoid);
    r.trans = !r.trans;
    return r;
  }
  return ir_whole(b->k, materialize(b, e));
}

/* ---------------------------------------------------------------- preparing */

/* Marks a node as computed. */
static Ready *ready(Build *b, TExpr *e) {
  Ready *r = ARENA_NEW(b->k->arena, Ready);
  e->ir = r;
  return r;
}

/* Origins are scalars like others: once, before the MAP. */
static void prepare_axes(Build *b, const TRegion *r, int n) {
  for (int i = 0; i < n; i++)
    build_prepare(b, r->axis[i].origin);
}

/* Marks left by an earlier statement are taken off: a node may be shared between statements, and
 * what it reads may have changed. */
void build_prepare(Build *b, TExpr *e) {
  /* See above: a mark is good for one statement. */
  e->ir = NULL;
  if (e->type.kind == TY_NUM) {
    IrExpr *v = build_scalar(b, e);
    ready(b, e)->scalar = v;
    return;
  }
  switch (e->kind) {
  case TE_REDUCE:
  case TE_SCAN:
  case TE_DOT:
  case TE_COND:
  case TE_SEQ: {
    /* Computed here, in the order of evaluation; the MAP reads it. */
    IrBuffer *t = materialize(b, e);
    ready(b, e)->tile = t;
    return;
  }
  case TE_REGION:
    prepare_axes(b, &e->as.region, e->as.region.buf->rank);
    return;
  case TE_SLICE:
    prepare_axes(b, &e->as.region, e->arg[0]->type.rank);
    break;
  default:
    break;
  }
  for (int i = 0; i < e->nargs; i++)
    build_prepare(b, e->arg[i]);
}

/* ---------------------------------------------------------------- at a point */

/* origin + step * i */
static IrExpr *along(Build *b, IrExpr *origin, int64_t step, IrExpr *i) {
  IrExpr *x = step == 1 ? i : ir_op2(b->k, OP_MUL, i, ir_int(b->k, step));
  return ir_op2(b->k, OP_ADD, x, origin);
}

/* Whether every access of the region is inside, whatever the index: the checker has looked at
 * constant origins. */
static bool surely_inside(const TRegion *r) {
  for (int i = 0; i < r->buf->rank; i++)
    if (r->axis[i].origin->kind != TE_CONST)
      return false;
  return true;
}

/* The element of a region's buffer at a point of the region's own axes. */
static IrAccess tree_point(Build *b, const TRegion *r, IrExpr *const *index) {
  IrAccess a = {.buf = build_buf(r->buf), .check = !b->k->unchecked && !surely_inside(r)};
  int kept = 0, rank = 0, at = 0;
  for (int i = 0; i < r->buf->rank; i++)
    kept += r->axis[i].keep;
  rank = kept;
  for (int i = 0; i < r->buf->rank; i++) {
    const TAxis *x = &r->axis[i];
    a.index[i] = build_index(b, x->origin);
    if (!x->keep)
      continue;
    int from = at++;
    if (r->trans && from >= rank - 2)
      from = from == rank - 1 ? rank - 2 : rank - 1;
    a.index[i] = along(b, a.index[i], x->step, index[from]);
  }
  return a;
}

/* The element of an operand that broadcasts to the shape `to`. */
static IrExpr *operand_at(Build *b, const TExpr *e, const SemaType *to, IrExpr *const *index) {
  IrExpr *own[SEMA_MAX_RANK];
  int lead = to->rank - e->type.rank;
  for (int i = 0; i < e->type.rank; i++)
    own[i] =
        e->type.extent[i] == 1 && to->extent[lead + i] != 1 ? ir_int(b->k, 0) : index[lead + i];
  return build_at(b, e, own);
}

/* The new axes' indices are 0 and drop out. */
static IrExpr *new_axis_at(Build *b, const TExpr *e, IrExpr *const *index) {
  IrExpr *own[SEMA_MAX_RANK];
  int n = 0;
  for (int i = 0; i < e->type.rank; i++)
    if (!e->as.new_axis[i])
      own[n++] = index[i];
  return build_at(b, e->arg[0], own);
}

/* Axis i of the view is axis perm[i] of the operand. */
static IrExpr *permuted_at(Build *b, const TExpr *e, IrExpr *const *index) {
  IrExpr *own[SEMA_MAX_RANK];
  for (int i = 0; i < e->type.rank; i++)
    own[e->as.perm[i]] = index[i];
  return build_at(b, e->arg[0], own);
}

/* Origins and steps of a view of a value. */
static IrExpr *sliced_at(Build *b, const TExpr *e, IrExpr *const *index) {
  IrExpr *own[SEMA_MAX_RANK];
  int at = 0;
  for (int i = 0; i < e->arg[0]->type.rank; i++) {
    const TAxis *a = &e->as.region.axis[i];
    own[i] = build_index(b, a->origin);
    if (a->keep)
      own[i] = along(b, own[i], a->step, index[at++]);
  }
  return build_at(b, e->arg[0], own);
}

/* Row-major place in the result, taken apart again in the operand's shape. */
static IrExpr *reshaped_at(Build *b, const TExpr *e, IrExpr *const *index) {
  IrExpr *place = ir_int(b->k, 0), *own[SEMA_MAX_RANK];
  const SemaType *from = &e->arg[0]->type;
  for (int i = 0; i < e->type.rank; i++) {
    place = ir_op2(b->k, OP_MUL, place, ir_int(b->k, e->type.extent[i]));
    place = ir_op2(b->k, OP_ADD, place, index[i]);
  }
  for (int i = from->rank - 1; i >= 0; i--) {
    /* An empty tile has no element to ask for; its extent must still not divide by 0. */
    IrExpr *n = ir_int(b->k, from->extent[i] ? from->extent[i] : 1);
    own[i] = i ? ir_op2(b->k, OP_MOD, place, n) : place;
    place = ir_op2(b->k, OP_FLOORDIV, place, n);
  }
  return build_at(b, e->arg[0], own);
}

/* Operands broadcast on their own. */
static IrExpr *operation_at(Build *b, const TExpr *e, IrExpr *const *index) {
  IrExpr *arg[4];
  for (int i = 0; i < e->nargs; i++)
    arg[i] = operand_at(b, e->arg[i], &e->type, index);
  return build_op(b, e, arg);
}

/* Parameters are bound anew at each point. */
static IrExpr *applied_at(Build *b, const TExpr *e, IrExpr *const *index) {
  for (int i = 0; i < e->nargs; i++) {
    TVar *p = e->as.inlined.params[i];
    p->ir = build_let(b, IRV_LET, p->name, operand_at(b, e->arg[i], &e->type, index));
  }
  build_inlined(b, &e->as.inlined.body);
  return build_scalar(b, e->as.inlined.value);
}

/* Always inside: it has the node's own shape. */
static IrExpr *temporary_at(Build *b, const IrBuffer *t, IrExpr *const *index) {
  IrAccess a = {.buf = (IrBuffer *)(uintptr_t)t};
  for (int i = 0; i < t->rank; i++)
    a.index[i] = index[i];
  return build_load(b, &a);
}

/* Checked where the origin is a run-time value. */
static IrExpr *region_at(Build *b, const TExpr *e, IrExpr *const *index) {
  IrAccess a = tree_point(b, &e->as.region, index);
  a.span = e->span;
  return build_load(b, &a);
}

/* One case a kind; what is not elementwise was prepared. */
IrExpr *build_at(Build *b, const TExpr *e, IrExpr *const *index) {
  const Ready *r = e->ir;
  /* Marks are made only outside parallel loops. */
  if (r && (b->map || !b->parallel))
    return r->scalar ? r->scalar : temporary_at(b, r->tile, index);
  if (e->type.kind == TY_NUM)
    return build_scalar(b, e);
  switch (e->kind) {
  case TE_REGION:
    return region_at(b, e, index);
  case TE_OP:
    return operation_at(b, e, index);
  case TE_NEWAXIS:
    return new_axis_at(b, e, index);
  case TE_PERMUTE:
    return permuted_at(b, e, index);
  case TE_SLICE:
    return sliced_at(b, e, index);
  case TE_RESHAPE:
    return reshaped_at(b, e, index);
  case TE_IOTA:
    return ir_cast(b->k, index[0], DT_I32);
  case TE_APPLY:
    return applied_at(b, e, index);
  default: /* the checker lets none of these into a parallel loop */
    diag_add(b->sink, E0651, e->span, "this tile cannot be built here: please report it");
    return ir_const(b->k, scalar_convert((Scalar){.type = DT_I64}, e->type.dtype));
  }
}
