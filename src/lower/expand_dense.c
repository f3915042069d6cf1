/* expand_dense.c: kernels that reduce rows, with two blocks or more on a multiprocessor.
 *
 * In: a kernel without products whose threads load few elements: while one block waits for its
 * rows, another computes. Out: the kernel of low_expand with launch bounds of 64 registers a
 * thread; where they do not suffice the compiler's gate refuses it and low_expand's own is next.
 * A vector that all rows meet, read from a tensor once, lies in shared memory, where the block has
 * it once and not each thread its part of it. Always holds: nothing else differs. Tests:
 * tests/unit/check_gate.c, tests/unit/check_lower.c.
 */
#include "expand.h"
#include "sched.h"

enum { REGISTERS = 64, MOST_LOADED = 40, MOST_BLOCKS = 16, LEAST_SHARED = 256 };

typedef struct Rows {
  bool reduces, products;
  int64_t loaded; /* elements of fragments that copies fill */
} Rows;

static bool look(IrStmt *st, void *ctx) {
  Rows *r = ctx;
  r->reduces |= st->kind == IRK_REDUCE;
  r->products |= st->kind == IRK_DOT || st->kind == IRK_ROLES;
  const IrBuffer *b = st->as.copy.dst.buf;
  if (st->kind != IRK_COPY || b->space != IRS_FRAGMENT)
    return true;
  int64_t n = 1, c = 0;
  for (int d = 0; d < b->rank; d++)
    n *= ir_is_const(b->extent[d], &c) ? c : 1;
  r->loaded += n;
  return true;
}

static bool finds_rows(IrStmt *st, void *ctx) {
  *(bool *)ctx |=
      st->kind == IRK_ALLOC && st->as.alloc->space == IRS_FRAGMENT && st->as.alloc->rank == 2;
  return true;
}

/* Fragments of one axis that a copy of a tensor fills and nothing else writes. */
static void share_vectors(IrKernel *k) {
  bool rows = false;
  ir_walk(&k->body, finds_rows, &rows);
  for (size_t i = 0; i < k->body.n && rows; i++) {
    const IrStmt *st = k->body.v[i];
    const IrCopy *c = &st->as.copy;
    if (st->kind != IRK_COPY || c->dst.buf->space != IRS_FRAGMENT || c->dst.buf->rank != 1 ||
        c->src.buf->space != IRS_GLOBAL || sched_extent(c->dst.buf, 0) < LEAST_SHARED)
      continue;
    SchedUses u = sched_uses(&k->body, c->dst.buf);
    if (u.writes == 1 && u.reads > 0)
      c->dst.buf->space = IRS_SHARED;
  }
}

IrKernel *low_expand_dense(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink) {
  Rows rows = {false, false, 0};
  IrKernel *with = ir_kernel_clone(a, k);
  share_vectors(with);
  ir_walk(&with->body, look, &rows);
  if (!rows.reduces || rows.products || k->min_blocks) {
    lower_note(r, "dense: no rows are reduced, or the program says how many blocks");
    return NULL;
  }
  IrKernel *out = low_expand(a, with, r, sink);
  if (!out)
    return NULL;
  int blocks = r->target->registers / (REGISTERS * out->threads);
  blocks = blocks > MOST_BLOCKS ? MOST_BLOCKS : blocks;
  if (blocks < 2 || rows.loaded > MOST_LOADED * out->threads ||
      !target_has_shared(r->target, out->shared_bytes * blocks)) {
    lower_note(r, "dense: %d registers a thread would not hold what it loads", REGISTERS);
    return NULL;
  }
  out->min_blocks = blocks;
  return out;
}
