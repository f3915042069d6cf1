/* ring.c: pass: products of warpgroups whose operands the block's own threads write.
 *
 * In: a scheduled kernel whose products are marked `unit wgmma` (select.c), with one that reads a
 * tile which a parallel loop fills: nothing that the tensor memory accelerator could bring. Out:
 * the same with operands' tiles swizzled as the products' descriptors say; all warps load and
 * multiply, in one role. Always holds: between what threads write and a product that reads it
 * stand each writer's proxy fence and a barrier. Tests: tests/unit/check_lower.c.
 */
#include "ring.h"

#include "hopper.h"

enum { LINE = 128, CHUNK = 16 };

/* ---------------------------------------------------------------- the pass */

typedef struct Ring {
  IrKernel *k;
  const LowerRequest *r;
  const IrBuffer *tile; /* in hand */
  int products;
  bool filled, declined;
} Ring;

static bool decline(Ring *x, const char *why, const IrBuffer *b) {
  if (!x->declined)
    lower_note(x->r, "one role: `%s` %s", b->name, why);
  x->declined = true;
  return false;
}

static bool finds_other(IrStmt *st, void *ctx) {
  Ring *x = ctx;
  for (int i = 0; st->kind == IRK_REPORT && i < st->as.report.nparts; i++)
    if (st->as.report.part[i].region && st->as.report.part[i].region->buf == x->tile)
      decline(x, "is printed", x->tile);
  return true;
}

static bool finds_fill(IrStmt *st, void *ctx) {
  Ring *x = ctx;
  x->filled |= st->kind == IRK_STORE && st->as.access.at.buf == x->tile;
  return true;
}

/* Rows as the program writes them; 16-bit operands may lie either way, others only with K side by
 * side. */
static void lay(Ring *x, const IrRegion *r, bool first) {
  IrBuffer *b = r->buf;
  int64_t bytes = sched_extent(b, 1) * (int64_t)dtype_size(b->dtype);
  bool along = r->trans != first;
  x->tile = b;
  ir_walk(&x->k->body, finds_other, x);
  ir_walk(&x->k->body, finds_fill, x);
  if (b->layout && b->layout->kind != IRL_SWIZZLE)
    decline(x, "has a layout that the program states", b);
  if ((dtype_size(b->dtype) != 2 && !along) || bytes % CHUNK || sched_extent(b, 0) % 8)
    decline(x, "is no operand as it lies", b);
  IrLayout *l = ARENA_NEW(x->k->arena, IrLayout);
  *l = (IrLayout){.kind = IRL_SWIZZLE, .amount = bytes > 64 ? LINE : bytes > 32 ? 64 : 32};
  b->layout = l;
}

static bool take_dot(IrStmt *st, void *ctx) {
  Ring *x = ctx;
  if (st->kind != IRK_DOT)
    return true;
  x->products++;
  if (st->as.dot.a.buf->space == IRS_FRAGMENT)
    decline(x, "lies in registers", st->as.dot.a.buf);
  if (sched_promotes(&st->as.dot))
    decline(x, "adds up in parts", st->as.dot.c.buf);
  if (x->declined)
    return false;
  lay(x, &st->as.dot.a, true);
  lay(x, &st->as.dot.b, false);
  return true;
}

IrKernel *low_ring(Arena *a, const IrKernel *from, const LowerRequest *r, DiagSink *sink) {
  (void)sink;
  IrKernel *k = ir_kernel_clone(a, from);
  Ring x = {.k = k, .r = r};
  ir_walk(&k->body, take_dot, &x);
  if (x.declined || x.products != 1 || !x.filled)
    return NULL;
  lower_note(r, "warpgroups multiply what all warps bring to shared memory");
  return k;
}

/* ---------------------------------------------------------------- two blocks */

typedef struct Results {
  int64_t elements; /* of the largest */
} Results;

static bool finds_result(IrStmt *st, void *ctx) {
  Results *x = ctx;
  if (st->kind == IRK_DOT) {
    const IrRegion *c = &st->as.dot.c;
    int64_t n = ir_region_extent(c, 0) * ir_region_extent(c, 1);
    x->elements = n > x->elements ? n : x->elements;
  }
  return true;
}

/* While one block begins, waits, unpacks or stores its results, the other multiplies. */
IrKernel *low_ring_share(Arena *a, const IrKernel *from, const LowerRequest *r, DiagSink *sink) {
  enum { MOST_RESULTS = 64 }; /* registers of a thread */
  (void)sink;
  IrKernel *k = ir_kernel_clone(a, from);
  Results x = {0};
  ir_walk(&k->body, finds_result, &x);
  if (k->min_blocks || x.elements > MOST_RESULTS * k->threads || k->threads > 2 * GROUP_THREADS) {
    lower_note(r, "one role: two blocks would not have the registers");
    return NULL;
  }
  k->min_blocks = 2;
  return k;
}

/* ---------------------------------------------------------------- tiles */

typedef struct Operand {
  const IrBuffer *tile;
  bool found;
} Operand;

static bool finds_operand(IrStmt *st, void *ctx) {
  Operand *x = ctx;
  if (st->kind == IRK_DOT && st->as.dot.unit == IRU_WGMMA)
    x->found |= st->as.dot.a.buf == x->tile || st->as.dot.b.buf == x->tile;
  return true;
}

bool ring_operand(const IrKernel *k, const IrBuffer *b) {
  Operand x = {b, false};
  IrBlock body = k->body;
  if (b->space == IRS_SHARED && !k->channels.n && !expand_author_roles(k))
    ir_walk(&body, finds_operand, &x);
  return x.found;
}

void ring_lay(Place *p, const IrBuffer *b) {
  int64_t span = b->layout->amount;
  p->panel = span / (int64_t)dtype_size(b->dtype);
  p->chunks = (int)(span / CHUNK);
  p->chunk_rows = (int)(LINE / span);
}

/* ---------------------------------------------------------------- products */

void ring_open(Simple *s) {
  bool any = false;
  for (size_t i = 0; i < s->place.n; i++)
    any |= s->place.v[i]->operand;
  if (any)
    hopper_open_block(s);
}

void ring_fence(Simple *s) {
  hopper_op(s, OP_FENCE_PROXY_ASYNC, 0, NULL);
}

void ring_start(Simple *s, IrStmt *st) {
  (void)hopper_dot(s, st);
}

void ring_wait(Simple *s) {
  hopper_op(s, OP_WGMMA_WAIT, 1, (IrOperand[]){hopper_i(s, 0)});
}

bool expand_ring_dot(Simple *s, IrStmt *st) {
  const IrDot *d = &st->as.dot;
  if (d->unit != IRU_WGMMA || !low_place_of(s, d->b.buf)->operand)
    return false;
  ring_fence(s);
  low_barrier(s);
  low_note_buffer(s, d->a.buf, IR_READS);
  low_note_buffer(s, d->b.buf, IR_READS);
  low_fence(s);
  ring_start(s, st);
  ring_wait(s);
  return true;
}
