/* turned.c: products of which an operand lies across, in elements that are not of 16 bits.
 *
 * In: a product and where its operands come from. Out: which of them goes through registers, since
 * wgmma takes such elements from shared memory only with K side by side, but its first operand from
 * registers. Where that is the program's second, the instruction computes the transpose: its rows
 * are the program's columns. Always holds: the other operand has K side by side.
 * Tests: tests/unit/check_schedule.c.
 */
#include "sched.h"

typedef struct Fill { /* the copy of a tensor into a tile */
  const IrBuffer *tile;
  const IrRegion *from;
} Fill;

static bool find_fill(IrStmt *st, void *ctx) {
  Fill *f = ctx;
  if (st->kind == IRK_COPY && st->as.copy.dst.buf == f->tile &&
      st->as.copy.src.buf->space == IRS_GLOBAL)
    f->from = &st->as.copy.src;
  return !f->from;
}

const IrRegion *sched_fill_of(const IrKernel *k, const IrBuffer *tile) {
  Fill f = {tile, NULL};
  IrBlock body = k->body;
  ir_walk(&body, find_fill, &f);
  return f.from;
}

/* Of a tile's two axes the one along which the tensor's axis lies. */
static int tile_axis(const IrRegion *from, int unit) {
  int place = 0;
  for (int i = 0; i < unit; i++)
    place += from->axis[i].keep;
  return from->trans ? 1 - place : place;
}

bool sched_along_k(const IrRegion *operand, const IrRegion *from, int unit, bool first) {
  return tile_axis(from, unit) == ((first ? 1 : 0) ^ (operand->trans ? 1 : 0));
}

/* What is not plainly across is left to those that look closer. */
static bool across(const IrKernel *k, const LowerRequest *r, const IrRegion *operand, bool first) {
  const IrRegion *from = sched_fill_of(k, operand->buf);
  if (!from || operand->buf->rank != 2)
    return false;
  int unit = lower_fact(r, from->buf).unit_axis;
  return unit >= 0 && unit < from->buf->rank && from->axis[unit].keep &&
         !sched_along_k(operand, from, unit, first);
}

static Turned which(bool a, bool b) {
  return a == b ? TURNED_NONE : a ? TURNED_A : TURNED_B;
}

/* Four for each step of 32 bytes, of which half take the place of what is counted as everything
 * else: as compiled kernels have them. */
int64_t sched_turned_registers(const IrDot *d) {
  return ir_region_extent(&d->a, 1) * (int64_t)dtype_size(d->a.buf->dtype) / 32 * 2;
}

Turned sched_turned(const IrKernel *k, const LowerRequest *r, const IrDot *d) {
  if (dtype_size(d->a.buf->dtype) == 2)
    return TURNED_NONE;
  return which(across(k, r, &d->a, true), across(k, r, &d->b, false));
}

/* Whether K is not the axis that lies side by side in the tile. */
static bool lies_across(const IrRegion *r, bool first) {
  const IrLayout *l = r->buf->layout;
  int k_axis = (first ? 1 : 0) ^ (r->trans ? 1 : 0);
  return l && l->kind == IRL_SWIZZLE && (l->columns ? 0 : 1) != k_axis;
}

Turned sched_lies_turned(const IrDot *d) {
  if (dtype_size(d->b.buf->dtype) == 2)
    return TURNED_NONE;
  return which(lies_across(&d->a, true), lies_across(&d->b, false));
}
