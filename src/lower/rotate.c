/* rotate.c: pass: the second of two chained products runs while the next iteration's first does.
 *
 * In: a scheduled kernel with roles; a loop of a consumer whose body is product 1, statements,
 * product 2, each between the wait and the release of its channel. Out: iteration by iteration the
 * same operations on every value, in the same order, but product 2 is issued behind product 1 of
 * the iteration after it: the first iteration stands before the loop, the last product 2 behind it,
 * all of it where the loop runs at all; or NULL where there is no such loop. Always holds: nothing
 * between reads the result of product 2 or overwrites its operands before its release. Tests:
 * tests/unit/check_schedule.c.
 */
#include "sched.h"

/* Places in the loop's body. */
typedef struct Shape {
  size_t first, second; /* of the products */
  size_t touch;         /* first statement between that product 2 must be over for */
} Shape;

static bool is_product(const IrBlock *b, size_t i) {
  return i > 0 && i + 1 < b->n && b->v[i]->kind == IRK_DOT && b->v[i]->as.dot.unit == IRU_WGMMA &&
         b->v[i - 1]->kind == IRK_WAIT && b->v[i + 1]->kind == IRK_RELEASE &&
         b->v[i - 1]->as.channel_op.channel == b->v[i + 1]->as.channel_op.channel;
}

/* What may stand anywhere in the body without its place mattering to the products. */
static bool is_plain(const IrStmt *s) {
  bool tile = s->kind == IRK_MAP || s->kind == IRK_REDUCE || s->kind == IRK_ALLOC ||
              (s->kind == IRK_COPY && s->as.copy.dst.buf->space == IRS_FRAGMENT &&
               s->as.copy.src.buf->space == IRS_FRAGMENT);
  return tile || ir_is_let(s);
}

static bool touches(IrStmt *s, const IrDot *d) {
  return s->kind != IRK_ALLOC &&
         (sched_reads(s, d->c.buf) || sched_writes(s, d->c.buf) || sched_writes(s, d->a.buf));
}

/* Two products of different channels and results, the second one last. */
static bool find_shape(const IrBlock *b, Shape *x) {
  size_t products = 0;
  for (size_t i = 0; i < b->n; i++) {
    bool part = (i + 1 < b->n && is_product(b, i + 1)) || (i > 0 && is_product(b, i - 1));
    if (is_product(b, i))
      *(products++ ? &x->second : &x->first) = i;
    else if (!part && !is_plain(b->v[i]))
      return false;
  }
  if (products != 2 || x->second + 2 != b->n || x->second < x->first + 3)
    return false;
  const IrDot *d = &b->v[x->first]->as.dot, *e = &b->v[x->second]->as.dot;
  for (size_t i = 0; i < x->first; i++)
    if (!is_plain(b->v[i]) && b->v[i]->kind != IRK_WAIT)
      return false;
  x->touch = x->second - 1;
  for (size_t i = x->second - 1; i > x->first + 1; i--)
    if (touches(b->v[i - 1], e))
      x->touch = i - 1;
  return d->c.buf != e->c.buf && d->a.buf != e->c.buf && d->c.buf != e->a.buf &&
         e->a.buf->space == IRS_FRAGMENT && x->touch > x->first + 1;
}

/* ---------------------------------------------------------------- building */

static void push_range(IrKernel *k, IrBlock *out, const IrBlock *b, size_t from, size_t to) {
  for (size_t i = from; i < to; i++)
    sched_push(k, out, b->v[i]);
}

/* Fragments live across iterations now. */
static void hoist(IrKernel *k, IrBlock *out, IrBlock *b) {
  for (size_t i = 0; i < b->n;)
    if (b->v[i]->kind == IRK_ALLOC) {
      sched_push(k, out, b->v[i]);
      sched_remove(b, i);
    } else {
      i++;
    }
}

/* Product 1, then product 2 of the iteration before, then the rest. */
static IrBlock steady(IrKernel *k, const IrBlock *b, const Shape *x) {
  IrBlock out = {0};
  push_range(k, &out, b, 0, x->first + 1);
  push_range(k, &out, b, x->second - 1, x->second + 1); /* wait, product 2 */
  push_range(k, &out, b, x->first + 1, x->touch);
  sched_push(k, &out, b->v[x->second + 1]);
  push_range(k, &out, b, x->touch, x->second - 1);
  return out;
}

static IrStmt *rotated(IrKernel *k, IrStmt *loop) {
  IrFor *f = &loop->as.loop;
  Shape x;
  IrStmt *guard = sched_stmt(k, IRK_IF, loop->span);
  guard->as.if_.cond = ir_op2(k, OP_LT, f->lo, f->hi);
  IrBlock *out = &guard->as.if_.then;
  hoist(k, out, &f->body);
  find_shape(&f->body, &x);
  IrBlock before = {0}, after = {0};
  push_range(k, &before, &f->body, 0, x.second - 1);
  push_range(k, &after, &f->body, x.second - 1, x.second + 2);
  before = sched_copy_block_with(k, &before, f->index, f->lo);
  after = sched_copy_block(k, &after);
  push_range(k, out, &before, 0, before.n);
  f->body = steady(k, &f->body, &x);
  int64_t step = 1;
  (void)ir_is_const(f->step, &step);
  f->lo = ir_op2(k, OP_ADD, low_with_room(k, f->lo, step), f->step);
  sched_push(k, out, loop);
  push_range(k, out, &after, 0, after.n);
  return guard;
}

/* How many loops were rotated. */
static int rotate_block(IrKernel *k, IrBlock *b) {
  IrBlock *inner;
  int n = 0;
  Shape x;
  int64_t step;
  for (size_t i = 0; i < b->n; i++) {
    IrStmt *s = b->v[i];
    for (int j = 0; s->kind != IRK_MAP && (inner = ir_nested(s, j)); j++)
      n += rotate_block(k, inner);
    if (s->kind == IRK_FOR && s->as.loop.index->type != DT_U64 &&
        ir_is_const(s->as.loop.step, &step) && step > 0 && find_shape(&s->as.loop.body, &x)) {
      b->v[i] = rotated(k, s);
      n++;
    }
  }
  return n;
}

IrKernel *low_rotate(Arena *a, const IrKernel *from, const LowerRequest *r, DiagSink *sink) {
  (void)r;
  (void)sink;
  IrKernel *k = ir_kernel_clone(a, from);
  if (!rotate_block(k, &k->body))
    return NULL; /* nothing to overlap: the next candidate is the same without this pass */
  ir_name_apart(k);
  return k;
}
