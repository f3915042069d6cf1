/* guards.c: pass: masks that cannot hold anywhere in a tile cost one test, not one an element.
 *
 * In: a scheduled kernel. Out: a `parallel` loop whose whole body stands under one condition, and
 * whose axes enter that condition monotonically, stands under the condition that it holds for some
 * point. Always holds: the new condition is true wherever the old one is for any point.
 * Tests: tests/unit/check_schedule.c.
 */
#include "sched.h"

typedef struct Guard {
  IrKernel *k;
  const IrMap *m;
} Guard;

/* Least or greatest value over the points of the map; NULL where that is not plain to see. */
static IrExpr *bound(const Guard *g, IrExpr *e, bool greatest);

static IrExpr *bound_of_var(const Guard *g, IrExpr *e, bool greatest) {
  int64_t n;
  for (int i = 0; i < g->m->naxes; i++)
    if (g->m->index[i] == e->as.var) {
      if (!ir_is_const(g->m->extent[i], &n) || n < 1)
        return NULL;
      return ir_int_of(g->k, e->type, greatest ? n - 1 : 0);
    }
  return e;
}

/* A factor that is a constant decides the direction. */
static IrExpr *bound_of_product(const Guard *g, IrExpr *e, bool greatest) {
  for (int i = 0; i < 2; i++) {
    int64_t c;
    if (!ir_is_const(e->arg[i], &c))
      continue;
    IrExpr *x = bound(g, e->arg[1 - i], c < 0 ? !greatest : greatest);
    return x ? ir_op2(g->k, OP_MUL, x, e->arg[i]) : NULL;
  }
  return NULL;
}

static bool has_index(const Guard *g, const IrExpr *e) {
  bool has = false;
  for (int i = 0; e->op == OP_VAR && i < g->m->naxes; i++)
    has |= g->m->index[i] == e->as.var;
  for (int i = 0; i < e->nargs; i++)
    has |= has_index(g, e->arg[i]);
  return has;
}

static IrExpr *bound(const Guard *g, IrExpr *e, bool greatest) {
  if (!has_index(g, e))
    return e;
  if (e->op == OP_VAR)
    return bound_of_var(g, e, greatest);
  if (e->type != DT_I64) /* nothing narrower, whose sums could wrap */
    return NULL;
  if (e->op == OP_MUL)
    return bound_of_product(g, e, greatest);
  if (e->op != OP_ADD && e->op != OP_SUB && e->op != OP_MIN2 && e->op != OP_MAX2)
    return NULL;
  IrExpr *a = bound(g, e->arg[0], greatest);
  IrExpr *b = bound(g, e->arg[1], e->op == OP_SUB ? !greatest : greatest);
  return a && b ? ir_op2(g->k, e->op, a, b) : NULL;
}

/* What is true if the condition is for some point; NULL where that is not plain to see. */
static IrExpr *possible(const Guard *g, IrExpr *e) {
  if (!has_index(g, e))
    return e;
  if (e->op == OP_AND || e->op == OP_OR) {
    IrExpr *a = possible(g, e->arg[0]), *b = possible(g, e->arg[1]);
    return a && b ? ir_op2(g->k, e->op, a, b) : NULL;
  }
  bool more = e->op == OP_GE || e->op == OP_GT;
  if (!more && e->op != OP_LE && e->op != OP_LT)
    return NULL;
  IrExpr *a = bound(g, e->arg[0], more), *b = bound(g, e->arg[1], !more);
  return a && b ? ir_op2(g->k, e->op, a, b) : NULL;
}

/* The condition for the whole map; NULL: none. */
static IrExpr *guard_of(IrKernel *k, const IrStmt *st) {
  if (st->kind != IRK_MAP || st->as.map.body.n != 1)
    return NULL;
  const IrStmt *only = st->as.map.body.v[0];
  if (only->kind != IRK_IF || only->as.if_.other.n || only->as.if_.cond->may_fault ||
      only->as.if_.cond->type != DT_BOOL)
    return NULL;
  Guard g = {k, &st->as.map};
  IrExpr *c = possible(&g, only->as.if_.cond);
  return c && c->op != OP_CONST ? c : NULL;
}

static void guard_block(IrKernel *k, IrBlock *b) {
  IrBlock *inner;
  for (size_t i = 0; i < b->n; i++) {
    IrStmt *st = b->v[i];
    IrExpr *c = guard_of(k, st);
    for (int j = 0; st->kind != IRK_MAP && (inner = ir_nested(st, j)); j++)
      guard_block(k, inner);
    if (!c)
      continue;
    b->v[i] = sched_stmt(k, IRK_IF, st->span);
    b->v[i]->as.if_.cond = c;
    sched_push(k, &b->v[i]->as.if_.then, st);
  }
}

IrKernel *low_guards(Arena *a, const IrKernel *from, const LowerRequest *r, DiagSink *sink) {
  (void)r;
  (void)sink;
  IrKernel *k = ir_kernel_clone(a, from);
  guard_block(k, &k->body);
  return k;
}
