/* approx.c: passes: what the manual lets a kernel round otherwise unless it says @exact.
 *
 * In: a thread-level kernel. Out: powers of two are the special function unit's (low_powers); and
 * products that are added are one fused operation (low_approx). Always holds: an `@exact` kernel
 * stays as it is, and each result within the bounds that the manual gives. Tests:
 * tests/unit/check_schedule.c.
 */
#include "sched.h"

typedef struct Approx {
  IrKernel *k;
  bool fuse;
  VEC(IrExpr *) done; /* by id; NULL: not yet */
} Approx;

static IrExpr *rewrite(Approx *x, IrExpr *e);

/* a * b + c, with one rounding. `plus`: the product is added, not taken away. */
static IrExpr *fuse(Approx *x, IrExpr *product, IrExpr *other, bool plus, bool other_plus) {
  IrKernel *k = x->k;
  IrExpr *a = product->arg[0], *b = product->arg[1];
  if (!plus)
    a = ir_op1(k, OP_NEG, a);
  return ir_op3(k, OP_FMA, a, b, other_plus ? other : ir_op1(k, OP_NEG, other));
}

static IrExpr *simplify(Approx *x, IrExpr *e) {
  bool wide = e->type == DT_F32 || e->type == DT_F64;
  if (e->op == OP_EXP2 && e->type == DT_F32)
    return ir_op1(x->k, OP_EX2, e->arg[0]);
  if (!x->fuse || !wide || (e->op != OP_ADD && e->op != OP_SUB))
    return e;
  bool sub = e->op == OP_SUB;
  if (e->arg[0]->op == OP_MUL)
    return fuse(x, e->arg[0], e->arg[1], true, !sub);
  if (e->arg[1]->op == OP_MUL)
    return fuse(x, e->arg[1], e->arg[0], !sub, true);
  return e;
}

/* Operands first; each expression once. */
static IrExpr *rewrite(Approx *x, IrExpr *e) {
  IrExpr *arg[4] = {0};
  if (e->nargs == 0)
    return e;
  while (x->done.n <= e->id)
    VEC_PUSH(x->k->arena, &x->done, NULL);
  if (x->done.v[e->id])
    return x->done.v[e->id];
  for (int i = 0; i < e->nargs; i++)
    arg[i] = rewrite(x, e->arg[i]);
  IrExpr *y = simplify(x, ir_expr(x->k, e->op, e->type, arg, e->nargs));
  ir_place_like(x->k, y, e->places);
  x->done.v[e->id] = y;
  return y;
}

static void visit_expr(IrExpr **e, void *ctx) {
  *e = rewrite(ctx, *e);
}

static bool visit_stmt(IrStmt *s, void *ctx) {
  IrVisitor v = {.expr = visit_expr, .ctx = ctx};
  ir_visit(s, &v);
  return true;
}

static IrKernel *approximate(Arena *a, const IrKernel *from, bool fuse) {
  IrKernel *k = ir_kernel_clone(a, from);
  Approx x = {.k = k, .fuse = fuse};
  if (!k->exact)
    ir_walk(&k->body, visit_stmt, &x);
  return k;
}

IrKernel *low_approx(Arena *a, const IrKernel *from, const LowerRequest *r, DiagSink *sink) {
  (void)r;
  (void)sink;
  return approximate(a, from, true);
}

IrKernel *low_powers(Arena *a, const IrKernel *from, const LowerRequest *r, DiagSink *sink) {
  (void)r;
  (void)sink;
  return approximate(a, from, false);
}
