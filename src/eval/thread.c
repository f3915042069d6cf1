/* thread.c: hands the operands of a THREAD row to its function.
 *
 * The row's function may say that it is blocked: then nothing has happened and the same instruction
 * runs again when the scheduler comes back to the agent.
 * Tests: tests/unit/check_thread.c.
 */
#include <string.h>

#include "run.h"

enum { MOST_OPERANDS = 16 };

/* Addresses for this agent; what the launch fixes is in the template. */
static void fill(EvalAgent *a, const EvalOpCode *c, int i, EvalOperand *o) {
  *o = c->operand[i];
  switch (o->letter) {
  case 'r':
  case 'R':
  case 'X': {
    EvalArray *x = &a->array[c->array[i]];
    if (c->offset[i])
      o->first = (int)*(int64_t *)machine_reg(a, c->offset[i]);
    o->array = x;
    o->out = (char *)x->data + (size_t)(o->first * EVAL_WARP) * dtype_compute_size(o->type);
    return;
  }
  case 'm':
    o->tmap = &a->block->tmap[c->id[i]];
    o->mem = o->tmap->mem;
    return;
  case 'g':
    o->mem = &a->block->mem[c->id[i]];
    o->data = machine_reg(a, c->reg[i]);
    return;
  case 'd':
    o->out = machine_reg(a, c->reg[i]);
    return;
  default:
    if (c->reg[i])
      o->data = machine_reg(a, c->reg[i]);
  }
}

/* Registers must exist, and be written before they are read. */
static EvalResult check(EvalAgent *a, const EvalOperand *o) {
  if (!o->array)
    return EVAL_OK;
  if (o->first < 0 || o->first + o->count > o->array->count)
    return eval_fault(a, E0450, "registers %d to %d of %s, which has %d", o->first,
                      o->first + o->count - 1, o->array->buf->name, o->array->count);
  for (int i = 0; o->letter == 'r' && i < o->count; i++)
    if (!o->array->written[o->first + i])
      return eval_fault(a, E0451, "register %d of %s is read before anything wrote it",
                        o->first + i, o->array->buf->name);
  return EVAL_OK;
}

/* Registers count as written once the operation has been done or issued. */
EvalResult eval_thread_run(EvalAgent *a, const EvalInsn *in) {
  const EvalOpCode *c = in->as.data;
  EvalOperand operand[MOST_OPERANDS];
  const EvalMask *m = in->mask ? machine_reg(a, in->mask) : NULL;
  a->mask = m && m->n != EVAL_WARP ? m->on : NULL;
  for (int i = 0; i < c->n && i < MOST_OPERANDS; i++) {
    fill(a, c, i, &operand[i]);
    EvalResult r = check(a, &operand[i]);
    if (r != EVAL_OK)
      return r;
  }
  EvalResult r = c->run(a, operand, c->n);
  for (int i = 0; r == EVAL_OK && i < c->n; i++)
    if (operand[i].letter == 'R' || operand[i].letter == 'X')
      memset(operand[i].array->written + operand[i].first, 1, (size_t)operand[i].count);
  return r;
}
