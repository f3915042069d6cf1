/* expand_store.c: results on their way from registers to tensors; how shared tiles lie for it.
 *
 * In: a COPY of a fragment whose threads hold shorter runs than an access could move, as products'
 * accumulators do. Out: a shared tile of the tensor's type between the two, so that memory sees
 * whole rows in 16-byte accesses. Always holds: the tile's rows change places so that neither
 * side's accesses meet in a bank. Tests: tests/unit/check_lower.c.
 */
#include "expand_gather.h"
#include "expand_side.h"
#include "hopper.h"

enum { MOST_BYTES = 65536, CHUNK = 16, SPAN = 128 };

/* The tile's rows change the places of their 16-byte parts, after so many rows each (0: as fits
 * rows that are read whole). Rows of 32 bytes or more, in parts of 16 bytes: as many parts as a row
 * and 128 bytes have, a power of two; rows that lie side by side in 128 bytes change together. */
static void set_swizzle(Simple *s, const IrBuffer *b, int rows) {
  Place *p = low_place_of(s, b);
  if (!p->tile || p->stated || p->frag || p->chunks > 1 || p->rank < 2 || p->printed || p->spilled)
    return;
  int64_t pitch = p->extent[p->columns ? p->rank - 2 : p->rank - 1] * (int64_t)dtype_size(b->dtype);
  int64_t span = pitch & -pitch;
  span = span > SPAN ? SPAN : span;
  if (span < 2 * CHUNK)
    return;
  p->chunks = (int)(span / CHUNK);
  p->chunk_rows = rows ? rows : pitch >= SPAN ? 1 : (int)(SPAN / span);
}

/* Loads of 4 and 8 bytes meet 32 bytes of each of four rows: these then lie in separate banks, and
 * so do eight rows of 16 bytes. */
static void set_twist(Simple *s, const IrBuffer *b) {
  Place *p = low_place_of(s, b);
  if (p->chunks > 2 && !p->stated && dtype_size(b->dtype) >= 4)
    p->twist = true;
}

/* ---------------------------------------------------------------- stores */

/* Whether the tensor could take twice the elements that the fragment's threads have in a row. */
static bool short_runs(Simple *s, const IrCopy *c) {
  const Frag *f = low_place_of(s, c->src.buf)->frag;
  int64_t bytes = 1, size = (int64_t)dtype_size(c->dst.buf->dtype), room = VECTOR_BYTES / size;
  int axis = -1;
  if (!f || f->rank != 2 || !low_is_global(s, &c->dst) || c->dst.trans)
    return false;
  int64_t could = expand_vector_axis(s, &c->dst, &axis);
  could = could > room ? room : could;
  for (int d = 0; d < f->rank; d++)
    bytes *= f->extent[d];
  return axis == 1 && side_of(s, &c->dst, f).width * 2 <= could && bytes * size <= MOST_BYTES &&
         f->extent[1] % could == 0 && f->extent[1] * size >= 2 * CHUNK;
}

/* How far apart rows of neighbouring lanes lie: two where rows come in pairs, four where they come
 * in vectors of four. */
static int64_t row_step(const Frag *f) {
  for (int i = 0; i < f->nthread; i++)
    if (f->thread[i].axis == 0)
      return f->thread[i].step;
  return 1;
}

/* `copy T = fragment` becomes `shared out; copy out = fragment; copy T = out`. */
static void stage_store(Simple *s, IrBlock *b, size_t i) {
  IrKernel *k = s->k;
  IrCopy *c = &b->v[i]->as.copy;
  const Place *p = low_place_of(s, c->src.buf);
  IrExpr *extent[] = {low_i64(s, p->extent[0]), low_i64(s, p->extent[1])};
  IrBuffer *out = ir_buffer(k, IRS_SHARED, "out", c->dst.buf->dtype, 2, extent);
  IrStmt *alloc = sched_stmt(k, IRK_ALLOC, b->v[i]->span);
  IrStmt *copy = sched_stmt(k, IRK_COPY, b->v[i]->span);
  alloc->as.alloc = out;
  copy->as.copy = (IrCopy){.dst = ir_whole(k, out), .src = c->src};
  c->src = ir_whole(k, out);
  sched_insert(k, b, i, copy);
  sched_insert(k, b, i, alloc);
  low_note_tile(s, out);
  int64_t step = row_step(p->frag);
  bool words = dtype_size(out->dtype) <= 4;
  set_swizzle(s, out, step == 4 && words ? 4 : 0);
  if (step == 1 || (step == 4 && words))
    set_twist(s, out);
}

static void stage_block(Simple *s, IrBlock *b) {
  for (size_t i = 0; i < b->n; i++) {
    IrStmt *st = b->v[i];
    IrBlock *inner;
    if (st->kind == IRK_COPY && short_runs(s, &st->as.copy)) {
      stage_store(s, b, i);
      i += 2;
      continue;
    }
    for (int j = 0; (inner = ir_nested(st, j)); j++)
      stage_block(s, inner);
  }
}

void expand_stage_stores(Simple *s) {
  if (!hopper_groups(s->k))
    stage_block(s, &s->k->body);
}

/* ---------------------------------------------------------------- tiles by columns */

/* Every use of a tile but its one copy is a product of registers. */
typedef struct Only {
  Simple *s;
  const IrBuffer *buf;
  int copies, others;
} Only;

static void note_other(IrBuffer **b, unsigned how, void *ctx) {
  Only *o = ctx;
  o->others += *b == o->buf && !(how & IR_DECLARES);
}

/* It is, or, before layouts are inferred, it is likely to be. */
static bool is_mma(Simple *s, const IrStmt *st) {
  return st->kind == IRK_DOT && st->as.dot.unit != IRU_WGMMA &&
         (low_place_of(s, st->as.dot.c.buf)->frag ||
          (!s->inferred && (expand_is_mma(s, &st->as.dot) || expand_is_fma(s, &st->as.dot))));
}

static bool straight_whole(Simple *s, IrRegion r) {
  r.trans = false;
  return expand_whole(s, &r);
}

static bool note_only(IrStmt *st, void *ctx) {
  Only *o = ctx;
  IrVisitor v = {NULL, NULL, note_other, ctx};
  bool whole = is_mma(o->s, st) &&
               (st->as.dot.a.buf != o->buf || straight_whole(o->s, st->as.dot.a)) &&
               (st->as.dot.b.buf != o->buf || straight_whole(o->s, st->as.dot.b));
  if (st->kind == IRK_COPY && st->as.copy.dst.buf == o->buf && st->as.copy.src.buf != o->buf)
    o->copies++;
  else if (!whole)
    ir_visit(st, &v);
  return true;
}

/* A tensor whose neighbours lie along the tile's rows' axis: the tile lies so too, and products
 * take it either way. */
static bool lay_columns(IrStmt *st, void *ctx) {
  Simple *s = ctx;
  if (st->kind != IRK_COPY)
    return true;
  const IrCopy *c = &st->as.copy;
  Place *p = low_place_of(s, c->dst.buf);
  Only only = {.s = s, .buf = c->dst.buf};
  int axis = -1;
  if (!p->tile || p->stated || p->frag || p->printed || p->rank != 2 ||
      !low_is_global(s, &c->src) || (!s->inferred && p->fragment) ||
      p->extent[0] % (CHUNK / (int64_t)dtype_size(c->dst.buf->dtype)) ||
      !expand_whole(s, &c->dst) || c->dst.buf->dtype != c->src.buf->dtype ||
      expand_vector_axis(s, &c->src, &axis) < 2 || axis != 0)
    return true;
  ir_walk(&s->k->body, note_only, &only);
  if (only.copies == 1 && !only.others)
    low_place_of(s, c->dst.buf)->columns = true;
  return true;
}

void expand_lay_columns(Simple *s) {
  if (!hopper_groups(s->k))
    ir_walk(&s->k->body, lay_columns, s);
}

/* ---------------------------------------------------------------- banks */

/* Without tensor cores what does not come along K comes by parts of one row. */
static bool swizzle_operands(IrStmt *st, void *ctx) {
  Simple *s = ctx;
  if (!is_mma(s, st))
    return true;
  const IrRegion *side[] = {&st->as.dot.a, &st->as.dot.b};
  bool mma = expand_is_mma(s, &st->as.dot);
  for (int i = 0; i < 2; i++)
    if (mma || expand_fma_along_k(s, side[i], i)) {
      set_swizzle(s, side[i]->buf, 0);
      set_twist(s, side[i]->buf);
    }
  return true;
}

/* A copy that goes across a tile's rows takes as many of them as its vectors have elements. */
static bool swizzle_turned(IrStmt *st, void *ctx) {
  Simple *s = ctx;
  if (st->kind != IRK_COPY)
    return true;
  const IrCopy *c = &st->as.copy;
  int to = -1, from = -1;
  (void)expand_vector_axis(s, &c->dst, &to);
  (void)expand_vector_axis(s, &c->src, &from);
  if (to < 0 || from < 0 || to == from)
    return true;
  const IrBuffer *tile = low_is_global(s, &c->src) ? c->dst.buf : c->src.buf;
  set_swizzle(s, tile, VECTOR_BYTES / (int)dtype_size(tile->dtype));
  return true;
}

/* Rows that a parallel loop takes whole to a tensor are written in short runs before. */
static bool swizzle_gathered(IrStmt *st, void *ctx) {
  Gather g;
  if (st->kind == IRK_MAP && gather_find(ctx, st, NULL, &g) && g.out)
    set_swizzle(ctx, g.tile, 0);
  return true;
}

void expand_lay_tiles(Simple *s) {
  if (hopper_groups(s->k))
    return;
  ir_walk(&s->k->body, swizzle_gathered, s);
  ir_walk(&s->k->body, swizzle_operands, s);
  ir_walk(&s->k->body, swizzle_turned, s);
}
