/* suits.c: what a kernel's asserts say of a call before it runs.
 *
 * In: a tile-level kernel and a binding of the call's shapes. Out: the asserts that are sure to
 * fail. Only what shapes, constants and the target decide counts: scalar arguments, elements and
 * the block may differ from one call to the next. Always holds: an assert that may not be reached,
 * or whose condition is not known, fails nothing. Tests: tests/lang/auto_asserts.tile.
 */
#include "kernel.h"

typedef struct Suits {
  IrBinding *b;
  bool *known;         /* by variable id */
  bool ended;          /* what follows may not be reached */
  const IrStmt *until; /* where it stops; NULL: nowhere */
  Arena *arena;
  KernelSuits *out;
} Suits;

static void forget(IrVar **v, void *ctx) {
  Suits *x = ctx;
  x->known[(*v)->id] = false;
}

/* Of a statement that may or may not run, once or often. */
static bool forget_inside(IrStmt *s, void *ctx) {
  Suits *x = ctx;
  IrVisitor v = {.def = forget, .ctx = ctx};
  ir_visit(s, &v);
  x->ended |= s->kind == IRK_RETURN;
  return true;
}

static void learn(Suits *x, const IrVar *v, const IrExpr *value) {
  Scalar out;
  x->known[v->id] = ir_known_eval(value, x->b, x->known, &out);
  if (x->known[v->id])
    x->b->value[v->id] = out;
}

static void run(Suits *x, IrBlock *block);

/* The branch that is taken; of one that may be, what it changes is not known any more. */
static void run_if(Suits *x, IrStmt *s) {
  Scalar cond;
  if (ir_known_eval(s->as.if_.cond, x->b, x->known, &cond)) {
    run(x, cond.as.i ? &s->as.if_.then : &s->as.if_.other);
    return;
  }
  ir_walk(&s->as.if_.then, forget_inside, x);
  ir_walk(&s->as.if_.other, forget_inside, x);
}

/* Loops, loads, tiles' operations: their results are not known. */
static void skip(Suits *x, IrStmt *s) {
  IrBlock *inner;
  forget_inside(s, x);
  for (int i = 0; (inner = ir_nested(s, i)); i++)
    ir_walk(inner, forget_inside, x);
}

static void run(Suits *x, IrBlock *block) {
  Scalar cond;
  for (size_t i = 0; i < block->n && !x->ended; i++) {
    IrStmt *s = block->v[i];
    if (s == x->until)
      x->ended = true;
    else if (s->kind == IRK_LET || s->kind == IRK_SET)
      learn(x, s->as.let.var, s->as.let.value);
    else if (s->kind == IRK_IF)
      run_if(x, s);
    else if (s->kind == IRK_REPORT && s->as.report.kind == IRP_ASSERT &&
             ir_known_eval(s->as.report.cond, x->b, x->known, &cond)) {
      if (!cond.as.i)
        VEC_PUSH(x->arena, &x->out->failing, s);
      x->out->asked |= s->as.report.cond->op != OP_CONST;
    } else if (s->kind == IRK_REPORT)
      continue;
    else
      skip(x, s);
  }
}

static void run_kernel(Arena *a, const IrKernel *k, IrBinding *b, const IrStmt *until,
                       KernelSuits *out) {
  Suits x = {
      .b = b, .known = ARENA_ARRAY(a, bool, k->vars.n + 1), .until = until, .arena = a, .out = out};
  *out = (KernelSuits){.known = x.known};
  for (size_t i = 0; i < k->vars.n; i++) {
    IrVarKind kind = k->vars.v[i]->kind;
    x.known[i] = kind == IRV_EXTENT || kind == IRV_SMS;
  }
  for (size_t i = 0; i < k->pre.n; i++)
    learn(&x, k->pre.v[i]->as.let.var, k->pre.v[i]->as.let.value);
  IrBlock body = k->body;
  run(&x, &body);
}

bool kernel_suits(Arena *a, const IrKernel *k, IrBinding *b, KernelSuits *out) {
  KernelSuits mine, *to = out ? out : &mine;
  run_kernel(a, k, b, NULL, to);
  return to->failing.n == 0;
}

/* What follows the assert may change what it read: the kernel is run anew as far as there. */
const bool *kernel_known_at(Arena *a, const IrKernel *k, IrBinding *b, const IrStmt *assert) {
  KernelSuits before;
  run_kernel(a, k, b, assert, &before);
  return before.known;
}
