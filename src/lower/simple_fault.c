/* simple_fault.c: what expressions themselves can do wrong.
 *
 * In: a statement about to be lowered. Out: before it, a FAULT for each integer division whose
 * divisor may be zero and each integer power whose exponent may be negative: the hardware gives
 * some number there and says nothing. Always holds: what a range proves costs nothing. Tests:
 * tests/unit/check_lower.c, tests/gpu_faults.
 */
#include "simple.h"

static bool is_division(OpCode op) {
  return op == OP_FLOORDIV || op == OP_MOD || op == OP_CEILDIV;
}

/* What was found, for those who go no further then. */
static void note(Simple *s, IrExpr *bad) {
  const IrExpr *e = s->wrong ? *s->wrong : NULL;
  while (e && e != bad && e->op == OP_OR && e->arg[1] != bad)
    e = e->arg[0];
  if (s->wrong && !(e && (e == bad || e->op == OP_OR)))
    *s->wrong = *s->wrong ? ir_op2(s->k, OP_OR, *s->wrong, bad) : bad;
}

static void check_own(Simple *s, IrExpr *e) {
  IrKernel *k = s->k;
  if (!op_can_fault(e->op, e->type) || e->nargs != 2)
    return;
  Span at = s->at;
  s->at = ir_place_of(e, at);
  IrExpr *x = ir_cast(k, e->arg[0], DT_I64), *y = e->arg[1];
  IrExpr *zero = ir_int_of(k, y->type, 0);
  int64_t lo, hi;
  bool known = ir_range(y, &lo, &hi);
  if (is_division(e->op) && !(known && (lo > 0 || hi < 0)))
    note(s, low_emit_fault(s, ir_op2(k, OP_EQ, y, zero),
                           (IrSite){E0452, "integer division by zero"}, x, ir_cast(k, y, DT_I64)));
  else if (e->op == OP_POW && dtype_is_signed(y->type) && !(known && lo >= 0))
    low_emit_fault(s, ir_op2(k, OP_LT, y, zero), (IrSite){E0453, "an integer to a negative power"},
                   x, ir_cast(k, y, DT_I64));
  s->at = at;
}

/* Operands first, as they are evaluated. */
static void check_expr(Simple *s, IrExpr *e) {
  if (!e->may_fault)
    return;
  for (int i = 0; i < e->nargs; i++)
    check_expr(s, e->arg[i]);
  check_own(s, e);
}

/* Equal expressions are one node, whose check is emitted once. */
static void check_new(Simple *s, IrExpr *e, LowChecked *seen) {
  if (!e->may_fault)
    return;
  for (size_t i = 0; i < seen->n; i++)
    if (seen->v[i] == e)
      return;
  VEC_PUSH(s->arena, seen, e);
  for (int i = 0; i < e->nargs; i++)
    check_new(s, e->arg[i], seen);
  check_own(s, e);
}

void low_check_once(Simple *s, IrExpr *e, LowChecked *seen) {
  if (!s->k->unchecked)
    check_new(s, e, seen);
}

static void check_slot(IrExpr **e, void *ctx) {
  check_expr(ctx, *e);
}

void low_check_exprs(Simple *s, IrStmt *st) {
  IrVisitor v = {check_slot, NULL, NULL, s};
  if (st->kind != IRK_WHILE && !s->k->unchecked)
    ir_visit(st, &v);
}

/* A loop's condition is evaluated at the end of its own block. */
void low_check_cond(Simple *s, IrExpr *cond) {
  if (!s->k->unchecked)
    check_expr(s, cond);
}
