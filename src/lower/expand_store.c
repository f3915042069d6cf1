/* expand_store.c: results on their way from registers to tensors; how shared tiles lie for it.
 *
 * In: a COPY of a fragment whose threads hold shorter runs than an access could move, as products'
 * accumulators do. Out: a shared tile of the tensor's type between the two, so that memory sees
 * whole rows in 16-byte accesses. Always holds: the tile's rows change places so that neither
 * side's accesses meet in a bank. Tests: tests/unit/check_lower.c.
 */
#include "expand_side.h"
#include "hopper.h"

enum { MOST_BYTES = 65536, CHUNK = 16, SPAN = 128 };

/* Rows of 32 bytes or more, in parts of 16 bytes: as many parts as a row and 128 bytes have, a
 * power of two; rows that lie side by side in 128 bytes change together. */
void expand_set_swizzle(Simple *s, const IrBuffer *b) {
  Place *p = low_place_of(s, b);
  if (!p->tile || p->frag || p->rank < 2 || p->printed || p->spilled)
    return;
  int64_t pitch = p->extent[p->rank - 1] * (int64_t)dtype_size(b->dtype);
  int64_t span = pitch & -pitch;
  span = span > SPAN ? SPAN : span;
  if (span < 2 * CHUNK)
    return;
  p->chunks = (int)(span / CHUNK);
  p->chunk_rows = pitch >= SPAN ? 1 : (int)(SPAN / span);
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
  expand_set_swizzle(s, out);
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
