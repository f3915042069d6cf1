/* compile_thread.c: THREAD rows of ops.def to bytecode.
 *
 * In: an OP statement. Out: one BC_THREAD_OP with a template of its operands; thread.c fills in the
 * addresses when it runs. Which letter means what: ops.def, machine.h.
 * The template is shared by all agents and blocks; only addresses of registers differ. Reading a
 * register array that nothing wrote is caught in thread.c, before the row's function sees it.
 * Tests: tests/unit/check_thread.c.
 */
#include "compile.h"

/* Binds the destination variable; its register lasts as long as the block. */
static Reg destination(Compiler *c, IrVar *v, EvalOperand *o) {
  bool lanes = v->uniform == IR_LANE_VARYING;
  uint32_t depth = c->depth;
  c->depth = c->block_depth;
  Reg r = eval_reg_new(c, lanes, dtype_compute_size(v->type), false);
  eval_reg_hold(c, r);
  c->depth = depth;
  o->uniform = !lanes;
  o->type = v->type;
  return r;
}

/* A step of 0 serves lanes from one element. */
static Reg source(Compiler *c, IrExpr *e, EvalOperand *o) {
  o->type = e->type;
  o->uniform = !eval_value_varies(c, e);
  o->step = o->uniform ? 0 : dtype_compute_size(e->type);
  return o->uniform ? eval_value_one(c, e) : eval_value_lanes(c, e);
}

/* The first register may hang on an unrolled loop's index: then it is read when it runs. */
static void registers(Compiler *c, const IrOperand *from, EvalOpCode *x, int i) {
  EvalOperand *o = &x->operand[i];
  o->type = from->buf->dtype;
  o->count = from->count;
  x->array[i] = eval_compile_array(c, from->buf);
  EvalInt first = eval_value_int(c, from->expr);
  o->first = (int)first.imm;
  x->offset[i] = first.reg;
}

/* Constants given for `i` need no register. */
static void operand(Compiler *c, const IrOperand *from, char letter, EvalOpCode *x, int i) {
  EvalOperand *o = &x->operand[i];
  o->letter = letter;
  switch (from->kind) {
  case IRO_VAR:
    x->reg[i] = destination(c, from->var, o);
    break;
  case IRO_EXPR:
    if (letter == 'i' && ir_is_const(from->expr, &o->imm)) {
      o->uniform = true;
      o->type = DT_I64;
    } else {
      x->reg[i] = source(c, from->expr, o);
    }
    break;
  case IRO_REGS:
    registers(c, from, x, i);
    break;
  case IRO_GLOBAL:
    x->id[i] = from->buf->id;
    x->reg[i] = source(c, ir_cast(c->k, from->expr, DT_I64), o);
    break;
  case IRO_TMAP:
    x->id[i] = from->tmap->id;
    break;
  case IRO_DTYPE:
    o->type = from->dtype;
    break;
  }
}

/* Destinations are bound last: an operand may bear the name that the row binds anew. */
void eval_compile_thread_op(Compiler *c, IrStmt *s) {
  IrOp *op = &s->as.op;
  int n = op->noperands;
  EvalOpCode *x = ARENA_NEW(c->arena, EvalOpCode);
  x->run = eval_thread_op(op->op);
  x->n = n;
  x->operand = ARENA_ARRAY(c->arena, EvalOperand, n);
  x->reg = ARENA_ARRAY(c->arena, Reg, n);
  x->offset = ARENA_ARRAY(c->arena, Reg, n);
  x->array = ARENA_ARRAY(c->arena, int, n);
  x->id = ARENA_ARRAY(c->arena, uint32_t, n);
  if (!x->run) {
    eval_unsupported(c, op_info(op->op)->name);
    return;
  }
  const char *sig = op_info(op->op)->sig;
  for (int i = 0; i < n; i++) {
    operand(c, &op->operand[i], *sig, x, i);
    if (sig[1] != '*')
      sig++;
  }
  eval_emit(c, (EvalInsn){.code = BC_THREAD_OP, .op = op->op, .mask = c->mask, .as.data = x});
  for (int i = 0; i < n; i++)
    if (op->operand[i].kind == IRO_VAR)
      eval_var_bind(c, op->operand[i].var, x->reg[i], !x->operand[i].uniform);
}
