/* compile_spin.c: recognises a `while` that waits for another block.
 *
 * In: a WHILE. Out: whether nothing that the loop itself does can end it. Such a loop is a deadlock
 * where no other block runs before it ends; where blocks take turns it gives up its turn. A loop
 * that is not recognised still ends at the step limit or at an interrupt.
 * Loads and atomics that cannot change what they look at count as looking; any store, any variable
 * set, any index or condition that moves means that the loop may end by its own doing. Where
 * blocks take turns every loop that looks at global memory gives up its own: one that counts its
 * tries, or that takes a maximum, and a lowered one, which has barriers and a shared element.
 * Tests: tests/unit/check_eval.c, tests/lang/check_cooperative.tile.
 */
#include "compile.h"

/* A `while` that only another block can end: its condition hangs on loads of global memory that
 * its body neither writes nor steers. */
static bool reads_set_variable(const IrExpr *e) {
  if (e->op == OP_VAR && e->as.var->kind == IRV_MUT)
    return true;
  for (int i = 0; i < e->nargs; i++)
    if (reads_set_variable(e->arg[i]))
      return true;
  return false;
}

typedef struct SpinScan {
  bool waits, moves;
} SpinScan;

/* An atomic by which a loop asks again and again without changing the answer itself: one that adds
 * nothing, or one that takes a lock which is not free. */
static bool only_looks(const IrAtomic *a) {
  int64_t n;
  if (a->region || a->at.buf->space != IRS_GLOBAL)
    return false;
  if (a->op == OP_ATOMIC_CAS || a->op == OP_ATOMIC_EXCHANGE)
    return true;
  bool adds = a->op == OP_ATOMIC_ADD || a->op == OP_ATOMIC_OR || a->op == OP_ATOMIC_XOR;
  return adds && ir_is_const(a->value, &n) && n == 0;
}

/* Anything but lets, conditions and looks means that the loop does something. */
static bool scan_spin(IrStmt *s, void *ctx) {
  SpinScan *x = ctx;
  switch (s->kind) {
  case IRK_LET:
  case IRK_IF:
    break;
  case IRK_LOAD:
    if (s->as.access.at.buf->space == IRS_GLOBAL)
      x->waits = true;
    for (int i = 0; i < s->as.access.at.buf->rank; i++)
      x->moves = x->moves || reads_set_variable(s->as.access.at.index[i]);
    break;
  case IRK_ATOMIC:
    if (only_looks(&s->as.atomic))
      x->waits = true;
    else
      x->moves = true;
    break;
  default:
    x->moves = true;
    break;
  }
  return true;
}

/* No lane, agent or block runs meanwhile that could end it, unless blocks take turns. */
bool eval_spins(IrStmt *s) {
  SpinScan x = {0};
  ir_walk(&s->as.while_.cond_block, scan_spin, &x);
  if (!x.waits || x.moves || reads_set_variable(s->as.while_.cond))
    return false;
  ir_walk(&s->as.while_.body, scan_spin, &x);
  return !x.moves;
}

static bool scan_asks(IrStmt *s, void *ctx) {
  bool *asks = ctx;
  *asks |= (s->kind == IRK_ATOMIC && s->as.atomic.at.buf->space == IRS_GLOBAL) ||
           (s->kind == IRK_LOAD && s->as.access.at.buf->space == IRS_GLOBAL);
  return !*asks;
}

bool eval_asks(IrStmt *s) {
  bool asks = false;
  ir_walk(&s->as.while_.cond_block, scan_asks, &asks);
  ir_walk(&s->as.while_.body, scan_asks, &asks);
  return asks;
}
