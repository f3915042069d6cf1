/* copies.c: pass: which engine does each copy, and how shared tiles lie.
 *
 * In: a scheduled kernel with its products chosen. Out: copies that feed products by the tensor
 * memory accelerator (`engine tma`), their tiles swizzled with the axis side by side that is so in
 * global memory; results staged in shared memory and stored by it. Always holds: coordinates of
 * stores are not negative, and everything that the hardware demands of a tensor map is known of the
 * tensor (LowerFact). Tests: tests/unit/check_schedule.c.
 */

#include "expand.h"
#include "sched.h"

typedef struct Copies {
  IrKernel *k;
  const LowerRequest *r;
  bool declined;
  bool author;     /* roles of the author's, whose tiles may have an axis of stages */
  Turned turned;   /* operand of the one product that goes through registers */
  IrBlock allocs;  /* staging tiles */
  int64_t staging; /* bytes a staging tile may have */
} Copies;

/* ---------------------------------------------------------------- what the hardware demands */

/* The axis that lies side by side and everything else in units of 16 bytes. */
static const char *tensor_trouble(const Copies *c, const IrRegion *g) {
  LowerFact f = lower_fact(c->r, g->buf);
  if (f.unit_axis < 0 || f.unit_axis >= g->buf->rank || g->buf->rank > 5)
    return "no axis of stride 1 is known, or it has more than five axes";
  if (!g->axis[f.unit_axis].keep)
    return "the tile does not run along the axis of stride 1";
  if (f.align < 16)
    return "its address and strides are not known to be multiples of 16 bytes";
  if (!f.index32)
    return "its offsets are not known to fit 32 bits";
  for (int i = 0; i < g->buf->rank; i++)
    if (g->axis[i].step != 1 || g->axis[i].stop)
      return "the region has steps or ends early";
  return ir_region_rank(g) == 2 ? NULL : "the region has not two axes";
}

/* Of the tile's two axes the one that lies side by side in the tensor. */
static int inner_axis(const Copies *c, const IrRegion *g) {
  int unit = lower_fact(c->r, g->buf).unit_axis, place = 0;
  for (int i = 0; i < unit; i++)
    place += g->axis[i].keep;
  return g->trans ? 1 - place : place;
}

/* ---------------------------------------------------------------- loads for products */

/* The widest span that the rows fill: what is loaded beyond a tile's end is a neighbour's, which no
 * product reads. */
static IrLayout *swizzled(IrKernel *k, const IrBuffer *tile, int inner) {
  IrLayout *l = ARENA_NEW(k->arena, IrLayout);
  int64_t bytes = sched_side(tile, inner) * (int64_t)dtype_size(tile->dtype);
  l->kind = IRL_SWIZZLE;
  l->amount = bytes > 64 ? 128 : bytes > 32 ? 64 : 32;
  l->columns = inner == 0;
  return l;
}

typedef struct Along { /* K of the products that read a tile */
  const IrBuffer *tile;
  bool axis[2]; /* the tile's axes that are K of some product */
} Along;

static bool find_along(IrStmt *st, void *ctx) {
  Along *x = ctx;
  if (st->kind == IRK_DOT && st->as.dot.a.buf == x->tile)
    x->axis[st->as.dot.a.trans ? 0 : 1] = true;
  if (st->kind == IRK_DOT && st->as.dot.b.buf == x->tile)
    x->axis[st->as.dot.b.trans ? 1 : 0] = true;
  return true;
}

static bool is_turned(IrStmt *st, void *ctx) {
  Copies *c = ctx;
  if (st->kind == IRK_DOT)
    c->turned = sched_turned(c->k, c->r, &st->as.dot);
  return true;
}

/* Operands not of 16 bits only with K side by side, but the one that goes through registers. */
static bool turns(Copies *c, const IrBuffer *tile, int inner) {
  Along x = {tile, {false, false}};
  if (c->turned)
    return false;
  ir_walk(&c->k->body, find_along, &x);
  return dtype_size(tile->dtype) != 2 && x.axis[1 - inner];
}

/* 16-bit operands may lie either way; the patterns repeat by eight rows. */
static bool plan_load(Copies *c, IrCopy *x) {
  IrBuffer *tile = x->dst.buf;
  const char *why = tensor_trouble(c, &x->src);
  if (!why && (x->src.buf->role != IRR_IN || x->pad || x->src.buf->dtype != tile->dtype))
    why = "it is written, padded or converted";
  if (!why && !(c->author ? sched_matrix(&x->dst) && !x->dst.trans
                          : sched_whole(&x->dst) && tile->rank == 2))
    why = "its tile is not filled whole";
  if (!why && tile->layout && tile->layout->kind != IRL_SWIZZLE)
    why = "the program states a layout that tensor maps do not have";
  if (why) {
    c->declined = true;
    sched_decline(c->r, "the copy of `%s` into `%s`: %s", x->src.buf->name, tile->name, why);
    return false;
  }
  int inner = inner_axis(c, &x->src);
  if (sched_side(tile, 1 - inner) % 8 || turns(c, tile, inner)) {
    c->declined = true;
    sched_decline(c->r,
                  "`%s` has not a multiple of 8 rows, or elements not of 16 bits whose K is "
                  "not the axis of stride 1",
                  tile->name);
    return false;
  }
  const IrLayout *stated = tile->layout;
  if (inner == 0 && tile->rank != 2) {
    c->declined = true;
    sched_decline(c->r, "`%s` has stages, and its copies go across", tile->name);
    return false;
  }
  if (c->author && stated && stated->columns != (inner == 0)) {
    c->declined = true;
    sched_decline(c->r, "`%s` is filled by copies of which one goes across", tile->name);
    return false;
  }
  tile->layout = swizzled(c->k, tile, inner);
  if (stated && stated->amount < tile->layout->amount) /* as narrow as the program says */
    tile->layout->amount = stated->amount;
  x->engine = IRE_TMA;
  return true;
}

bool low_plan_author_load(IrKernel *k, const LowerRequest *r, IrCopy *x) {
  Copies c = {.k = k, .r = r, .author = true};
  return plan_load(&c, x);
}

/* ---------------------------------------------------------------- results */

/* Rows of a staging tile are exactly the box: the pattern is the widest that divides them. */
static IrLayout *staging_layout(IrKernel *k, int64_t bytes) {
  IrLayout *l = ARENA_NEW(k->arena, IrLayout);
  for (int64_t span = 128; span >= 32 && !l->amount; span /= 2)
    if (bytes % span == 0)
      *l = (IrLayout){.kind = IRL_SWIZZLE, .amount = span};
  return l; /* else in rows */
}

static IrBuffer *staging_tile(Copies *c, const IrCopy *x, int64_t columns) {
  IrExpr *extent[] = {ir_int(c->k, sched_extent(x->src.buf, 0)), ir_int(c->k, columns)};
  IrBuffer *b = ir_buffer(c->k, IRS_SHARED, "staging", x->dst.buf->dtype, 2, extent);
  if (c->turned) /* whose columns are shared out, 64 to a warpgroup */
    columns = TURNED_COLUMNS;
  b->layout = staging_layout(c->k, columns * (int64_t)dtype_size(b->dtype));
  ir_add(c->k, &c->allocs, IRK_ALLOC, c->k->span)->as.alloc = b;
  return b;
}

static int64_t result_bytes(const IrCopy *x) {
  return sched_extent(x->src.buf, 0) * sched_extent(x->src.buf, 1) *
         (int64_t)dtype_size(x->dst.buf->dtype);
}

/* Wider elements fill whole sectors as they lie in registers. */
static bool stages_type(DType t) {
  return dtype_size(t) == 2 || t == DT_F8E4M3 || t == DT_F8E5M2 || t == DT_I8 || t == DT_U8;
}

/* The author's tiles stay as they are, so a staging tile, or half of it, is to fit beside them. */
static bool has_room(const Copies *c, const IrCopy *x) {
  int64_t columns = sched_extent(x->src.buf, 1), bytes = result_bytes(x);
  return (columns % 128 == 0 ? bytes / 2 : bytes) <= c->staging;
}

/* A result that is the transpose of its product's only as a whole; of other products whose operand
 * goes through registers not at all. */
static bool turns_whole(const Copies *c, const IrCopy *x) {
  return c->turned == TURNED_NONE || (c->turned == TURNED_B && result_bytes(x) <= c->staging);
}

/* Whether a result goes to global memory through a staging tile. What the accelerator stores is
 * there at the end of the block only. */
static bool staged(Copies *c, const IrStmt *st) {
  const IrCopy *x = &st->as.copy;
  const IrRegion *g = &x->dst;
  if (x->src.buf->space != IRS_FRAGMENT || g->buf->space != IRS_GLOBAL ||
      !stages_type(g->buf->dtype) || !sched_whole(&x->src) || x->src.buf->rank != 2 ||
      tensor_trouble(c, g) || inner_axis(c, g) != 1 ||
      sched_extent(x->src.buf, 1) % (16 / (int64_t)dtype_size(g->buf->dtype)))
    return false;
  for (int i = 0; i < g->buf->rank; i++)
    if (!sched_not_negative(c->k, g->axis[i].origin))
      return false;
  return sched_stored_once(c->k, st) && turns_whole(c, x) && (!c->author || has_room(c, x));
}

/* The columns of the region, of which the tile is a part. */
static void narrow(IrKernel *k, IrRegion *g, int64_t from, int64_t columns) {
  for (int i = g->buf->rank - 1; i >= 0; i--) {
    IrAxis *x = &g->axis[i];
    if (!x->keep)
      continue;
    x->origin = ir_op2(k, OP_ADD, x->origin, ir_int(k, from));
    x->extent = columns;
    return;
  }
}

/* One part of the columns: the tile is free once the store before has read it. */
static void store_part(Copies *c, IrBlock *out, const IrStmt *st, IrBuffer *tile, int64_t from) {
  IrKernel *k = c->k;
  int64_t columns = sched_extent(tile, 1);
  IrCopy in = st->as.copy, away = st->as.copy;
  in.dst = away.src = ir_whole(k, tile);
  away.engine = IRE_TMA;
  narrow(k, &in.src, from, columns);
  narrow(k, &away.dst, from, columns);
  ir_add(k, out, IRK_STORE_WAIT, st->span)->as.wait = 0;
  ir_add(k, out, IRK_SYNC, st->span)->as.sync.groups = true;
  ir_add(k, out, IRK_COPY, st->span)->as.copy = in;
  ir_add(k, out, IRK_SYNC, st->span)->as.sync = (IrSync){.groups = true, .proxy_async = true};
  ir_add(k, out, IRK_COPY, st->span)->as.copy = away;
}

/* In one part, or two where the whole takes more shared memory than there is. */
static void store_staged(Copies *c, IrBlock *out, const IrStmt *st) {
  int64_t columns = sched_extent(st->as.copy.src.buf, 1), bytes = result_bytes(&st->as.copy);
  bool halves = bytes > c->staging && columns % 128 == 0;
  IrBuffer *tile = staging_tile(c, &st->as.copy, halves ? columns / 2 : columns);
  c->staging -= c->author ? halves ? bytes / 2 : bytes : 0;
  for (int64_t at = 0; at < columns; at += sched_extent(tile, 1))
    store_part(c, out, st, tile, at);
}

/* ---------------------------------------------------------------- the walk */

static bool feeds_product(Copies *c, const IrBuffer *tile) {
  SchedUses u = sched_uses(&c->k->body, tile);
  return u.dots > 0;
}

static void plan_block(Copies *c, IrBlock *b) {
  IrBlock out = {0}, *inner;
  for (size_t i = 0; i < b->n; i++) {
    IrStmt *st = b->v[i];
    bool copy = st->kind == IRK_COPY;
    if (copy && !c->author && st->as.copy.dst.buf->space == IRS_SHARED &&
        st->as.copy.src.buf->space == IRS_GLOBAL && feeds_product(c, st->as.copy.dst.buf))
      plan_load(c, &st->as.copy);
    if (copy && staged(c, st)) {
      store_staged(c, &out, st);
      continue;
    }
    for (int j = 0; (inner = ir_nested(st, j)) && st->kind != IRK_MAP; j++)
      plan_block(c, inner);
    sched_push(c->k, &out, st);
  }
  *b = out;
}

/* Shared tiles that products read come from copies alone. */
static bool check_operand(IrStmt *st, void *ctx) {
  Copies *c = ctx;
  if (st->kind != IRK_DOT || c->declined)
    return true;
  const IrBuffer *side[] = {st->as.dot.a.buf, st->as.dot.b.buf};
  for (int i = 0; i < 2; i++) {
    SchedUses u = sched_uses(&c->k->body, side[i]);
    if (side[i]->space != IRS_SHARED || (u.writes == 1 && u.copies == 1 && u.reads == u.dots))
      continue;
    c->declined = true;
    sched_decline(c->r, "`%s` is filled or read by more than one copy and products", side[i]->name);
  }
  return true;
}

/* What the operands take, with the stages asked for, of the shared memory. */
static int64_t operand_bytes(Copies *c) {
  int64_t bytes = 0;
  for (size_t i = 0; i < c->k->buffers.n; i++) {
    const IrBuffer *b = c->k->buffers.v[i];
    if (b->space == IRS_SHARED && feeds_product(c, b))
      bytes += sched_tile_bytes(b);
  }
  return bytes;
}

IrKernel *low_copies(Arena *a, const IrKernel *from, const LowerRequest *r, DiagSink *sink) {
  (void)sink;
  IrKernel *k = ir_kernel_clone(a, from);
  Copies c = {.k = k, .r = r};
  ir_walk(&k->body, check_operand, &c);
  ir_walk(&k->body, is_turned, &c);
  c.staging =
      (int64_t)r->target->shared_limit - BARRIER_BYTES - LOWER_LEAST_STAGES * operand_bytes(&c);
  plan_block(&c, &k->body);
  if (c.declined)
    return NULL;
  for (size_t i = 0; i < c.allocs.n; i++)
    sched_insert(k, &k->body, i, c.allocs.v[i]);
  if (c.allocs.n)
    ir_add(k, &k->body, IRK_STORE_WAIT, k->span)->as.wait = 0;
  return k;
}

/* ---------------------------------------------------------------- roles of the author's */

static bool multiplies(IrStmt *st, void *ctx) {
  *(bool *)ctx |= st->kind == IRK_DOT && st->as.dot.unit == IRU_WGMMA;
  return true;
}

/* What all tiles take, of which the rest is the staging tiles'. */
static int64_t shared_bytes(const IrKernel *k) {
  int64_t bytes = BARRIER_BYTES;
  for (size_t i = 0; i < k->buffers.n; i++) {
    const IrBuffer *b = k->buffers.v[i];
    int64_t n = (int64_t)dtype_size(b->dtype);
    for (int d = 0; d < b->rank; d++)
      n *= sched_extent(b, d);
    bytes += b->space == IRS_SHARED ? (n + 1023) / 1024 * 1024 : 0;
  }
  return bytes;
}

/* Its barriers and waits are the role's own. */
static void stage_role(Copies *c, IrRoleBody *role) {
  bool products = false;
  size_t before = c->allocs.n;
  ir_walk(&role->body, multiplies, &products);
  if (!products)
    return;
  plan_block(c, &role->body);
  ir_walk(&role->body, sched_narrow_sync, role);
  if (c->allocs.n > before)
    ir_add(c->k, &role->body, IRK_STORE_WAIT, c->k->span)->as.wait = 0;
}

IrKernel *low_results(Arena *a, const IrKernel *from, const LowerRequest *r, DiagSink *sink) {
  (void)sink;
  IrKernel *k = ir_kernel_clone(a, from);
  IrRoles *roles = expand_author_roles(k);
  Copies c = {.k = k, .r = r, .author = true};
  c.staging = (int64_t)r->target->shared_limit - shared_bytes(k);
  for (int i = 0; roles && i < roles->nroles; i++)
    stage_role(&c, &roles->role[i]);
  if (!c.allocs.n)
    return (IrKernel *)(uintptr_t)from;
  for (size_t i = 0; i < c.allocs.n; i++)
    sched_insert(k, &k->body, i, c.allocs.v[i]);
  sched_note(r, "results of the author's roles are staged and leave by TMA");
  return k;
}
