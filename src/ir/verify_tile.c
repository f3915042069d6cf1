/* verify_tile.c: accesses, regions, tile and scheduled operations.
 *
 * Tests: tests/unit/check_ir.c.
 */
#include "verify.h"

#include <inttypes.h>

/* ---------------------------------------------------------------- accesses */

/* Inputs may be shared with other launches, and read through caches that never look again.
 * `inout` says that the caller expects its tensor to change. */
static bool check_writes(Verify *v, const IrBuffer *b) {
  if (b->space != IRS_GLOBAL || b->role != IRR_IN)
    return true;
  ir_verify_error(v, E0656, "`%s` is an input; it is written only as `inout`", b->name);
  return false;
}

/* Bounds are the run's to check, except of registers, which have none.
 * At thread level a fragment is registers, and none has this form. */
static void verify_access(Verify *v, const IrAccess *a, bool writes) {
  if (!ir_verify_buffer(v, a->buf))
    return;
  if (writes)
    check_writes(v, a->buf);
  bool ok = true;
  for (int i = 0; i < a->buf->rank; i++)
    ok &= ir_verify_int(v, a->index[i], "an index");
  if (v->k->level != IR_THREAD || !ok)
    return;
  if (a->buf->space == IRS_FRAGMENT)
    ir_verify_error(v, E0651, "fragment `%s` does not exist at thread level", a->buf->name);
  if (a->buf->space == IRS_REG && a->buf->rank == 1)
    ir_verify_regs(v, a->buf, a->index[0], 1);
}

/* Everything that reads an element names it.
 * A variable of the element's dtype. */
static void check_load(Verify *v, const IrStmt *s) {
  const IrVar *x = s->as.access.var;
  verify_access(v, &s->as.access.at, false);
  if (!x || x->kind != IRV_LET) {
    ir_verify_error(v, E0604, "`load` defines no variable");
    return;
  }
  if (s->as.access.at.buf && x->type != s->as.access.at.buf->dtype)
    ir_verify_error(v, E0653, "`%s` is %s, but the elements of `%s` are %s", x->name,
                    dtype_name(x->type), s->as.access.at.buf->name,
                    dtype_name(s->as.access.at.buf->dtype));
  ir_verify_define(v, x);
}

/* The IR converts nothing by itself.
 * In the order index, value. */
static void check_store(Verify *v, const IrStmt *s) {
  verify_access(v, &s->as.access.at, true);
  if (s->as.access.at.buf)
    ir_verify_typed(v, s->as.access.value, s->as.access.at.buf->dtype, "the stored value");
}

/* ---------------------------------------------------------------- declarations */

/* A map's parameters are variables of the layout alone.
 * Spans of swizzles are those of the hardware: 32, 64, 128 bytes. */
static void check_layout(Verify *v, const IrBuffer *b) {
  const IrLayout *l = b->layout;
  if (l->kind == IRL_SWIZZLE && l->amount != 32 && l->amount != 64 && l->amount != 128)
    ir_verify_error(v, E0654, "`%s`: a swizzle spans 32, 64 or 128 bytes, not %" PRId64, b->name,
                    l->amount);
  if (l->kind == IRL_PADDED && l->amount < 0)
    ir_verify_error(v, E0654, "`%s`: a layout is not padded by %" PRId64 " elements", b->name,
                    l->amount);
  if (l->columns && (b->rank != 2 || l->kind == IRL_MAP || v->k->level != IR_SCHEDULED))
    ir_verify_error(v, E0654, "`%s`: only a scheduled tile of two axes lies in columns", b->name);
  if (l->kind != IRL_MAP)
    return;
  size_t mark = v->var_scope.n;
  for (int i = 0; i < b->rank; i++) {
    if (!l->index[i]) {
      ir_verify_error(v, E0654, "`%s`: its layout takes %d parameters, one for each axis", b->name,
                      b->rank);
      return;
    }
    ir_verify_define(v, l->index[i]);
  }
  ir_verify_typed(v, l->offset, DT_I64, "the layout's offset");
  while (v->var_scope.n > mark)
    v->var[v->var_scope.v[--v->var_scope.n]] = DEF_GONE;
}

/* At thread level a shared tile says where it lies, and must lie inside.
 * Offsets come from the pass that plans shared memory. */
static void check_place(Verify *v, const IrBuffer *b, int64_t count) {
  int64_t bytes, size = (int64_t)dtype_size(b->dtype), end;
  if (b->space == IRS_FRAGMENT) {
    ir_verify_error(v, E0651, "fragment `%s` does not exist at thread level", b->name);
    return;
  }
  if (b->space == IRS_REG && b->rank != 1)
    ir_verify_error(v, E0660, "register array `%s` has one axis, not %d", b->name, b->rank);
  if (b->space != IRS_SHARED)
    return;
  if (b->offset < 0 || b->offset % size || __builtin_mul_overflow(count, size, &bytes) ||
      __builtin_add_overflow(b->offset, bytes, &end) || end > v->k->shared_bytes)
    ir_verify_error(v, E0666,
                    "`%s` lies at %" PRId64 " with %" PRId64 " elements of %s, beyond the "
                    "block's %" PRId64 " bytes or not aligned",
                    b->name, b->offset, count, dtype_name(b->dtype), v->k->shared_bytes);
}

/* Extents of tiles are constants at every level.
 * Zero is an extent like others. */
static void verify_alloc(Verify *v, const IrBuffer *b) {
  if (!b || b->rank < 0 || b->rank > IR_MAX_RANK || b->space == IRS_GLOBAL) {
    ir_verify_error(v, E0604, "a declaration of no tile");
    return;
  }
  if (b->space == IRS_REG && v->k->level != IR_THREAD) {
    ir_verify_error(v, E0651, "register array `%s` exists at thread level only", b->name);
    return;
  }
  for (int i = 0; i < b->rank; i++) {
    int64_t n;
    if (!ir_verify_typed(v, b->extent[i], DT_I64, "an extent"))
      return;
    if (!ir_is_const(b->extent[i], &n) || n < 0) {
      ir_verify_error(v, E0654, "`%s`: a tile's extents are constants of at least zero", b->name);
      return;
    }
  }
  int64_t count = ir_buffer_count(b);
  if (count < 0 || count > INT32_MAX)
    ir_verify_error(v, E0654, "`%s` has too many elements", b->name);
  else if (v->k->level == IR_THREAD)
    check_place(v, b, count);
  if (b->stages < 1)
    ir_verify_error(v, E0654, "`%s` has %d stages", b->name, b->stages);
  if (b->layout)
    check_layout(v, b);
  ir_verify_declare(v, b);
}

/* ---------------------------------------------------------------- regions */

/* Only where the origin is known; the rest is checked when it runs.
 * A region with a run-time stop may reach beyond: that part counts as outside. */
static void check_axis_range(Verify *v, const IrRegion *r, int i) {
  const IrAxis *x = &r->axis[i];
  int64_t origin, n = ir_buffer_extent(r->buf, i), last;
  if (r->buf->space == IRS_GLOBAL || n < 0 || !ir_is_const(x->origin, &origin))
    return;
  if (x->extent == 0 || x->stop)
    return;
  if (__builtin_mul_overflow(x->extent - 1, x->step, &last) ||
      __builtin_add_overflow(last, origin, &last) || origin < 0 || last >= n)
    ir_verify_error(v, E0654,
                    "axis %d of the region of `%s` reaches from %" PRId64 " to %" PRId64
                    ", but its extent is %" PRId64,
                    i, r->buf->name, origin, last, n);
}

/* Everything about one region that does not depend on the other side.
 * Dropped axes have extent and step one. */
static bool check_region(Verify *v, const IrRegion *r, bool writes) {
  if (!ir_verify_buffer(v, r->buf) || (writes && !check_writes(v, r->buf)))
    return false;
  for (int i = 0; i < r->buf->rank; i++) {
    const IrAxis *x = &r->axis[i];
    if (!ir_verify_int(v, x->origin, "a region's origin") ||
        (x->stop && !ir_verify_int(v, x->stop, "a region's stop")))
      return false;
    if (x->extent < 0 || x->step < 1 || (!x->keep && (x->extent != 1 || x->step != 1 || x->stop))) {
      ir_verify_error(v, E0654, "axis %d of the region of `%s` is malformed", i, r->buf->name);
      return false;
    }
    check_axis_range(v, r, i);
  }
  if (!r->trans || ir_region_rank(r) >= 2)
    return true;
  ir_verify_error(v, E0654, "`.T` needs a region of two axes or more");
  return false;
}

/* Extents of a region that a tile has: 0 is 0 there, and "from the other side" only on global.
 * A tile's own zero is a real zero. */
static bool extent_open(const IrRegion *r, int64_t e) {
  return e == 0 && r->buf->space == IRS_GLOBAL;
}

/* Where both sides say an extent they agree, and one of them says it.
 * In order of the kept axes, after `.T`. */
static void check_same_shape(Verify *v, const IrRegion *a, const IrRegion *b) {
  int rank = ir_region_rank(a);
  if (rank != ir_region_rank(b)) {
    ir_verify_error(v, E0655, "the regions of `%s` and `%s` have %d and %d axes", a->buf->name,
                    b->buf->name, rank, ir_region_rank(b));
    return;
  }
  for (int i = 0; i < rank; i++) {
    int64_t x = ir_region_extent(a, i), y = ir_region_extent(b, i);
    if (extent_open(a, x) && extent_open(b, y))
      ir_verify_error(v, E0655, "neither `%s` nor `%s` gives the extent of axis %d", a->buf->name,
                      b->buf->name, i);
    else if (x != y && !extent_open(a, x) && !extent_open(b, y))
      ir_verify_error(v, E0655,
                      "the regions of `%s` and `%s` differ on axis %d: %" PRId64 " and %" PRId64,
                      a->buf->name, b->buf->name, i, x, y);
  }
}

/* Which one is the run's to check, as of every access. */
static void check_barrier(Verify *v, const IrAccess *a) {
  verify_access(v, a, false);
  if (a->buf && a->buf->arrivals < 1)
    ir_verify_error(v, E0669, "`%s` is a tile, no barrier", a->buf->name);
}

/* The padding is read like an element of the source, so it has its dtype, or that of the target
 * where the source's cannot hold it.
 * At tile level no engine is chosen yet. */
static void check_copy(Verify *v, const IrCopy *c) {
  if (!check_region(v, &c->src, false) || !check_region(v, &c->dst, true))
    return;
  check_same_shape(v, &c->dst, &c->src);
  if (c->pad && c->pad->type != c->dst.buf->dtype)
    ir_verify_typed(v, c->pad, c->src.buf->dtype, "the padding");
  if (v->k->level == IR_TILE && c->engine != IRE_AUTO)
    ir_verify_error(v, E0651, "a copy's engine is chosen at scheduled level");
  if (c->signal.buf)
    check_barrier(v, &c->signal);
}

/* ---------------------------------------------------------------- reductions and scans */

/* The row's types, from the table.
 * any and all take bool, the others numbers. */
static bool reduction_ok(Verify *v, OpCode op, const IrRegion *src) {
  if (op >= OP_COUNT || op_info(op)->cls != OPC_REDUCE || !op_takes(op, src->buf->dtype)) {
    ir_verify_error(v, E0658, "`%s` does not reduce elements of %s",
                    op < OP_COUNT ? op_info(op)->name : "nothing", dtype_name(src->buf->dtype));
    return false;
  }
  return true;
}

/* Global memory is reached by copies and elements; tile operations work on tiles.
 * The message says how its elements come in. */
static void check_tile_operand(Verify *v, const IrRegion *r) {
  if (r->buf->space == IRS_GLOBAL)
    ir_verify_error(v, E0655, "`%s` is a global tensor; it comes into a tile by `copy`",
                    r->buf->name);
}

/* dst is src with the axis dropped, or kept with extent 1.
 * The axis is dropped, or kept with extent one (keepdims). */
static void check_reduced_shape(Verify *v, const IrReduce *r) {
  int rank = ir_region_rank(&r->src), drank = ir_region_rank(&r->dst);
  bool keep = drank == rank;
  if (drank != rank && drank != rank - 1) {
    ir_verify_error(v, E0655, "a reduction of %d axes gives %d or %d, not %d", rank, rank - 1, rank,
                    drank);
    return;
  }
  for (int i = 0, j = 0; i < rank; i++) {
    if (i == r->axis && !keep)
      continue;
    int64_t want = i == r->axis ? 1 : ir_region_extent(&r->src, i);
    if (ir_region_extent(&r->dst, j) != want)
      ir_verify_error(v, E0655,
                      "axis %d of the reduction's result has extent %" PRId64 ", not %" PRId64, j,
                      ir_region_extent(&r->dst, j), want);
    j++;
  }
}

/* Along an axis into a tile, or all of it into a variable.
 * A scalar is defined; a region is written. */
static void check_reduce(Verify *v, const IrReduce *r) {
  if (!check_region(v, &r->src, false) || !reduction_ok(v, r->op, &r->src))
    return;
  check_tile_operand(v, &r->src);
  DType t = op_reduce_type(r->op, r->src.buf->dtype);
  if (r->axis >= ir_region_rank(&r->src) || (r->axis < 0) != (r->scalar != NULL)) {
    ir_verify_error(v, E0658,
                    "a reduction is along one of the source's axes, or of all to a scalar");
    return;
  }
  if (r->scalar) {
    if (r->scalar->type != t || r->scalar->kind != IRV_LET)
      ir_verify_error(v, E0653, "`%s` of %s gives %s, not %s", op_info(r->op)->name,
                      dtype_name(r->src.buf->dtype), dtype_name(t), dtype_name(r->scalar->type));
    ir_verify_define(v, r->scalar);
    return;
  }
  if (!check_region(v, &r->dst, true))
    return;
  check_tile_operand(v, &r->dst);
  if (r->dst.buf->dtype != t)
    ir_verify_error(v, E0653, "`%s` of %s gives %s, not %s", op_info(r->op)->name,
                    dtype_name(r->src.buf->dtype), dtype_name(t), dtype_name(r->dst.buf->dtype));
  check_reduced_shape(v, r);
}

/* Running sums and maxima; the result has the reduction's type.
 * Source and result have one shape. */
static void check_scan(Verify *v, const IrScan *s) {
  if (!check_region(v, &s->src, false) || !check_region(v, &s->dst, true) ||
      !reduction_ok(v, s->op, &s->src))
    return;
  if (s->op != OP_SUM && s->op != OP_RMAX)
    ir_verify_error(v, E0658, "a scan is a running sum or maximum, not `%s`", op_info(s->op)->name);
  check_tile_operand(v, &s->src);
  check_tile_operand(v, &s->dst);
  check_same_shape(v, &s->dst, &s->src);
  if (s->axis < 0 || s->axis >= ir_region_rank(&s->src))
    ir_verify_error(v, E0658, "the scan's axis %d is none of its source's", s->axis);
  DType t = op_reduce_type(s->op, s->src.buf->dtype);
  if (s->dst.buf->dtype != t)
    ir_verify_error(v, E0653, "the scan of %s gives %s, not %s", dtype_name(s->src.buf->dtype),
                    dtype_name(t), dtype_name(s->dst.buf->dtype));
}

/* ---------------------------------------------------------------- products */

/* What a product accumulates in follows from its operands, not from its target.
 * Floats into floats, integers into integers. */
static void check_dot_types(Verify *v, const IrDot *d) {
  DType a = d->a.buf->dtype, b = d->b.buf->dtype, c = d->c.buf->dtype;
  if (op_product_type(a, b) == DT_NONE)
    ir_verify_error(v, E0658, "the operands of a product are %s and %s", dtype_name(a),
                    dtype_name(b));
  else if (dtype_is_float(a) != dtype_is_float(c) || c == DT_BOOL)
    ir_verify_error(v, E0658, "a product of %s does not go into %s", dtype_name(a), dtype_name(c));
}

/* m x k by k x n into m x n, after the transpositions.
 * Leading axes are single indices by now. */
static void check_dot(Verify *v, const IrDot *d) {
  if (!check_region(v, &d->a, false) || !check_region(v, &d->b, false) ||
      !check_region(v, &d->c, true))
    return;
  check_tile_operand(v, &d->a);
  check_tile_operand(v, &d->b);
  check_tile_operand(v, &d->c);
  if (ir_region_rank(&d->a) != 2 || ir_region_rank(&d->b) != 2 || ir_region_rank(&d->c) != 2) {
    ir_verify_error(v, E0655, "the three tiles of a product have two axes each");
    return;
  }
  int64_t m = ir_region_extent(&d->a, 0), ka = ir_region_extent(&d->a, 1);
  int64_t kb = ir_region_extent(&d->b, 0), n = ir_region_extent(&d->b, 1);
  if (ka != kb)
    ir_verify_error(v, E0655, "the inner extents of a product differ: %" PRId64 " and %" PRId64, ka,
                    kb);
  if (ir_region_extent(&d->c, 0) != m || ir_region_extent(&d->c, 1) != n)
    ir_verify_error(v, E0655,
                    "the product is %" PRId64 " by %" PRId64 ", but its target is %" PRId64
                    " by %" PRId64,
                    m, n, ir_region_extent(&d->c, 0), ir_region_extent(&d->c, 1));
  check_dot_types(v, d);
  if (d->async && v->k->level != IR_SCHEDULED)
    ir_verify_error(v, E0651, "a product is asynchronous at scheduled level only");
  if (d->unit != IRU_AUTO && v->k->level != IR_SCHEDULED)
    ir_verify_error(v, E0651, "what computes a product is chosen at scheduled level");
}

/* ---------------------------------------------------------------- atomics and reports */

/* The old value is optional; without it the hardware need not send it back.
 * expected is read, value is stored or combined. */
static void check_atomic_element(Verify *v, const IrAtomic *a) {
  const IrBuffer *b = a->at.buf;
  verify_access(v, &a->at, true);
  if (!b)
    return;
  ir_verify_typed(v, a->value, b->dtype, "the atomic's value");
  if ((a->expected != NULL) != (a->op == OP_ATOMIC_CAS))
    ir_verify_error(v, E0659, "`atomic_cas`, and only it, has an expected value");
  else if (a->expected)
    ir_verify_typed(v, a->expected, b->dtype, "the expected value");
  if (!a->old)
    return;
  if (a->old->type != b->dtype || a->old->kind != IRV_LET)
    ir_verify_error(v, E0653, "the old value of `%s` is %s", b->name, dtype_name(b->dtype));
  ir_verify_define(v, a->old);
}

/* Memory that several threads share: fragments and locals are not.
 * Regions only above thread level: below it they are loops. */
static void check_atomic(Verify *v, const IrAtomic *a) {
  if (a->op >= OP_COUNT || op_info(a->op)->cls != OPC_ATOMIC) {
    ir_verify_error(v, E0659, "an atomic without an operation");
    return;
  }
  if (a->region && v->k->level == IR_THREAD) {
    ir_verify_error(v, E0651, "an atomic of a region does not exist at thread level");
    return;
  }
  if (a->region && check_region(v, &a->dst, true) && check_region(v, &a->src, false))
    check_same_shape(v, &a->dst, &a->src);
  if (!a->region)
    check_atomic_element(v, a);
  const IrBuffer *b = a->region ? a->dst.buf : a->at.buf;
  if (!b)
    return;
  if (b->space != IRS_GLOBAL && b->space != IRS_SHARED)
    ir_verify_error(v, E0659, "an atomic is on a global tensor or shared tile, not on `%s`",
                    b->name);
  if (!op_atomic_takes(a->op, b->dtype))
    ir_verify_error(v, E0659, "`%s` does not exist for elements of %s", op_info(a->op)->name,
                    dtype_name(b->dtype));
}

/* Texts need no check; values any type but those that name the block. */
static void check_report(Verify *v, const IrReport *r) {
  if (r->kind == IRP_ASSERT)
    ir_verify_typed(v, r->cond, DT_BOOL, "the assertion");
  if (r->nblock > 3)
    ir_verify_error(v, E0653, "a block has up to three indices, not %d", r->nblock);
  for (int i = r->nparts - r->nblock; i < r->nparts; i++)
    if (!r->part[i].value || !dtype_is_int(r->part[i].value->type))
      ir_verify_error(v, E0653, "an index of the block is an integer");
  for (int i = 0; i < r->nparts; i++) {
    const IrReportPart *p = &r->part[i];
    if (p->value)
      ir_verify_expr(v, p->value, "a printed value");
    if (p->region)
      check_region(v, p->region, false);
    if (p->region && v->map)
      ir_verify_error(v, E0657, "a parallel iteration prints elements, not tiles");
  }
}

/* ---------------------------------------------------------------- schedules */

/* Its tiles are shared: the asynchronous engines reach nothing else.
 * Declared once; ids are for tables. */
static void check_channel(Verify *v, const IrChannel *c) {
  if (!c || c->id >= v->k->channels.n || v->k->channels.v[c->id] != c ||
      v->channel[c->id] != DEF_NONE) {
    ir_verify_error(v, E0669, "a channel is declared twice, or belongs to another kernel");
    return;
  }
  v->channel[c->id] = DEF_SCOPE;
  if (c->stages < 1 || c->producers < 0 || c->consumers < 0)
    ir_verify_error(v, E0669, "channel `%s` has %d stages, %d producers, %d consumers", c->name,
                    c->stages, c->producers, c->consumers);
  for (int i = 0; i < c->ntiles; i++)
    if (ir_verify_buffer(v, c->tile[i]) && c->tile[i]->space != IRS_SHARED)
      ir_verify_error(v, E0669, "`%s` of channel `%s` is no shared tile", c->tile[i]->name,
                      c->name);
}

/* A release names a stage that the ring still has.
 * Declared earlier in the text than used. */
static void check_channel_op(Verify *v, const IrChannelOp *o) {
  const IrChannel *c = o->channel;
  if (!c || c->id >= v->k->channels.n || v->channel[c->id] != DEF_SCOPE)
    ir_verify_error(v, E0669, "the channel is not declared before this statement");
  else if (o->behind < 0 || o->behind >= c->stages)
    ir_verify_error(v, E0669, "channel `%s` has %d stages: none is %d waits behind", c->name,
                    c->stages, o->behind);
}

/* Kinds that only a schedule has, and thread-level operations.
 * At thread level only operations come here. */
static void check_scheduled(Verify *v, const IrStmt *s) {
  switch (s->kind) {
  case IRK_CHANNEL:
    check_channel(v, s->as.channel);
    break;
  case IRK_ACQUIRE:
  case IRK_COMMIT:
  case IRK_WAIT:
  case IRK_RELEASE:
    check_channel_op(v, &s->as.channel_op);
    break;
  case IRK_DOT_WAIT:
  case IRK_STORE_WAIT:
    if (s->as.wait < 0)
      ir_verify_error(v, E0669, "a wait for %d pending operations", s->as.wait);
    break;
  case IRK_RELAYOUT:
    if (check_region(v, &s->as.relayout.src, false) && check_region(v, &s->as.relayout.dst, true))
      check_same_shape(v, &s->as.relayout.dst, &s->as.relayout.src);
    break;
  case IRK_SYNC:
    if (s->as.sync.warps < 0 || s->as.sync.first_warp < 0 ||
        (v->block_warps && s->as.sync.first_warp + s->as.sync.warps > v->block_warps))
      ir_verify_error(v, E0668, "a barrier of warps %d:+%d", s->as.sync.first_warp,
                      s->as.sync.warps);
    break;
  default:
    ir_verify_op(v, &s->as.op);
  }
}

/* Everything that is no control.
 * Returns true for every kind that it knows, which is all of them. */
bool ir_verify_tile(Verify *v, IrStmt *s) {
  switch (s->kind) {
  case IRK_LOAD:
    check_load(v, s);
    break;
  case IRK_STORE:
    check_store(v, s);
    break;
  case IRK_ATOMIC:
    check_atomic(v, &s->as.atomic);
    break;
  case IRK_REPORT:
    check_report(v, &s->as.report);
    break;
  case IRK_ALLOC:
    verify_alloc(v, s->as.alloc);
    break;
  case IRK_COPY:
    check_copy(v, &s->as.copy);
    break;
  case IRK_REDUCE:
    check_reduce(v, &s->as.reduce);
    break;
  case IRK_SCAN:
    check_scan(v, &s->as.scan);
    break;
  case IRK_DOT:
    check_dot(v, &s->as.dot);
    break;
  case IRK_ARRIVE:
  case IRK_AWAIT:
    check_barrier(v, &s->as.barrier.at);
    if (s->kind == IRK_AWAIT)
      ir_verify_typed(v, s->as.barrier.parity, DT_I64, "the parity");
    break;
  default:
    check_scheduled(v, s);
  }
  return true;
}
