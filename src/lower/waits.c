/* waits.c: pass: products run on while the program goes on, until somebody needs them.
 *
 * In: a scheduled kernel whose products end where they stand. Out: products of the tensor cores
 * `async`, and a dot_wait before the first statement that touches a result or overwrites an
 * operand, which lets as many later products run on as were issued since. Always holds: nothing is
 * in flight where control branches or a block ends. Tests: tests/unit/check_schedule.c.
 */
#include "sched.h"

typedef struct Waits {
  IrKernel *k;
  VEC(const IrDot *) flying; /* in the order of their issue, which is that of their end */
} Waits;

/* A result in flight is nobody's, an operand may be read by others. */
static bool touches(IrStmt *s, const IrDot *d) {
  if (s->kind == IRK_ARRIVE) /* tells others that operands are read */
    return true;
  if (s->kind == IRK_RELEASE) {
    const IrChannel *ch = s->as.channel_op.channel;
    for (int i = 0; i < ch->ntiles; i++)
      if (ch->tile[i] == d->a.buf || ch->tile[i] == d->b.buf)
        return true;
    return false;
  }
  if (s->kind == IRK_DOT && s->as.dot.unit == IRU_WGMMA && s->as.dot.accumulate &&
      s->as.dot.c.buf == d->c.buf)
    return s->as.dot.a.buf == d->c.buf;
  return sched_reads(s, d->c.buf) || sched_writes(s, d->c.buf) || sched_writes(s, d->a.buf) ||
         sched_writes(s, d->b.buf);
}

/* All but the `pending` last ones end. */
static void wait_for(Waits *w, IrBlock *out, size_t pending, Span span) {
  if (w->flying.n <= pending)
    return;
  size_t done = w->flying.n - pending;
  for (size_t i = 0; i < pending; i++)
    w->flying.v[i] = w->flying.v[done + i];
  w->flying.n = pending;
  ir_add(w->k, out, IRK_DOT_WAIT, span)->as.wait = (int)pending;
}

/* The youngest product that the statement must not meet decides. */
static void wait_before(Waits *w, IrBlock *out, IrStmt *s) {
  for (size_t i = w->flying.n; i > 0; i--)
    if (touches(s, w->flying.v[i - 1])) {
      wait_for(w, out, w->flying.n - i, s->span);
      return;
    }
}

/* ---------------------------------------------------------------- late releases */

/* The product right before a release that reads what is released. */
static const IrDot *read_last(const IrBlock *b, size_t release) {
  const IrStmt *s = release ? b->v[release - 1] : NULL;
  bool own = s && s->kind == IRK_DOT && s->as.dot.unit == IRU_WGMMA;
  return own && touches(b->v[release], &s->as.dot) ? &s->as.dot : NULL;
}

/* What has no place in the order of stages. */
static bool passes(IrStmt *s) {
  return s->kind == IRK_MAP || s->kind == IRK_REDUCE || s->kind == IRK_ALLOC || ir_is_let(s) ||
         (s->kind == IRK_DOT && s->as.dot.unit == IRU_WGMMA);
}

/* A release waits for its product, and so does what comes between it and the next product, though
 * nothing of that needs the result: it stands behind that product then. */
static void delay_releases(IrBlock *b) {
  for (size_t i = b->n; i-- > 0;) {
    const IrDot *d = b->v[i]->kind == IRK_RELEASE ? read_last(b, i) : NULL;
    size_t to = i;
    for (size_t j = i + 1; d && j < b->n && passes(b->v[j]) && !touches(b->v[j], d); j++)
      if (b->v[j]->kind == IRK_DOT)
        to = j;
    IrStmt *release = b->v[i];
    for (size_t j = i; j < to; j++)
      b->v[j] = b->v[j + 1];
    b->v[to] = release;
  }
}

/* ---------------------------------------------------------------- the walk */

static void plan_block(Waits *w, IrBlock *b) {
  IrBlock out = {0}, *inner;
  Span span = w->k->span;
  delay_releases(b);
  for (size_t i = 0; i < b->n; i++) {
    IrStmt *s = b->v[i];
    span = s->span;
    if (s->kind != IRK_MAP && ir_nested(s, 0))
      wait_for(w, &out, 0, s->span);
    else
      wait_before(w, &out, s);
    for (int j = 0; s->kind != IRK_MAP && (inner = ir_nested(s, j)); j++)
      plan_block(w, inner);
    if (s->kind == IRK_DOT && s->as.dot.unit == IRU_WGMMA) {
      s->as.dot.async = true;
      VEC_PUSH(w->k->arena, &w->flying, &s->as.dot);
    }
    sched_push(w->k, &out, s);
  }
  wait_for(w, &out, 0, span);
  *b = out;
}

IrKernel *low_waits(Arena *a, const IrKernel *from, const LowerRequest *r, DiagSink *sink) {
  (void)r;
  (void)sink;
  IrKernel *k = ir_kernel_clone(a, from);
  Waits w = {.k = k};
  plan_block(&w, &k->body);
  return k;
}
