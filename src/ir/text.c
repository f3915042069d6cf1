/* text.c: which types the text of an expression leaves out.
 *
 * In: an operation, and of each operand the type that its own text says. Out: the type that the
 * operation's text says, and what each operand is read as. The printer writes a constant's type
 * exactly where the reader would not find it, so both ask here. Tests: tests/unit/check_ir.c
 * (print, read, print is the identity).
 */
#include "print.h"

/* The first operand that says its type speaks for all; which operands must agree is the rule's. */
static DType first_said(const IrOperands *o, int from, int end) {
  for (int i = from; i < end; i++)
    if (o->said[i] != DT_NONE)
      return o->said[i];
  return DT_NONE;
}

DType ir_said_type(const IrOperands *o, DType fixed) {
  switch (op_info(o->op)->rule) {
  case RULE_SAME:
  case RULE_FLOAT:
  case RULE_INT:
  case RULE_BITS:
    return first_said(o, 0, o->n);
  case RULE_SELECT:
    return first_said(o, 1, o->n);
  case RULE_SHIFT:
    return o->said[0];
  default:
    return fixed;
  }
}

/* Of operands that have one type: what they say, else what the place wants, else the default. */
static DType common(const IrOperands *o, int from, DType want) {
  DType t = first_said(o, from, o->n);
  if (t != DT_NONE)
    return t;
  return want != DT_NONE ? want : o->floats ? DT_F32 : DT_I64;
}

DType ir_operand_want(const IrOperands *o, int i, DType want) {
  switch (op_info(o->op)->rule) {
  case RULE_SAME:
  case RULE_FLOAT:
  case RULE_INT:
  case RULE_BITS:
    return common(o, 0, want);
  case RULE_COMPARE: /* the place wants a bool, which says nothing of the operands */
    return common(o, 0, DT_NONE);
  case RULE_SELECT:
    return i == 0 ? DT_BOOL : common(o, 1, want);
  case RULE_SHIFT:
    if (i == 1)
      return o->left;
    return o->said[0] != DT_NONE ? o->said[0] : want;
  case RULE_BOOL:
    return DT_BOOL;
  case RULE_PACK:
    return DT_F32;
  case RULE_UNPACK:
  case RULE_WORDS:
    return DT_U32;
  case RULE_DESC:
    return DT_I32;
  default:
    return DT_NONE;
  }
}
