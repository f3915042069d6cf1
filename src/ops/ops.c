/* ops.c: the table of operations and the rules that follow from a row.
 *
 * In: ops.def. Out: names, types, effects, documentation. Always holds: row i of the table is
 * operation i, and every row has a name of its own. Values are computed in eval.c and the strip
 * files. Tests: tests/unit/check_ops.c.
 */
#include "ops.h"

#include <string.h>

static const OpInfo table[] = {
#define PURE(E, name, arity, rule, acc, cuda, doc)                                                 \
  [OP_##E] = {name, OPC_PURE, arity, rule, acc, cuda, "", 0, ARCH_ANY, doc},
#define REDUCE(E, name, rule, doc)                                                                 \
  [OP_##E] = {name, OPC_REDUCE, 1, rule, ACC_EXACT, "", "", 0, ARCH_ANY, doc},
#define ATOMIC(E, name, doc)                                                                       \
  [OP_##E] = {name, OPC_ATOMIC, 1, RULE_SAME, ACC_EXACT, "", "", 0, ARCH_ANY, doc},
#define THREAD(E, name, sig, effects, arch, doc)                                                   \
  [OP_##E] = {name, OPC_THREAD, 0, RULE_LEAF, ACC_EXACT, "", sig, effects, arch, doc},
#include "ops.def"
#undef PURE
#undef REDUCE
#undef ATOMIC
#undef THREAD
};
_Static_assert(sizeof table / sizeof table[0] == OP_COUNT, "one row an operation");

/* Rows are found by index: the enumeration and the table come from the same list. */
const OpInfo *op_info(OpCode op) {
  return &table[op];
}

/* Asked by readers and checkers, a few hundred times a program: a search is quick enough. */
OpCode op_find(const char *name) {
  for (int i = 0; i < OP_COUNT; i++)
    if (strcmp(table[i].name, name) == 0)
      return (OpCode)i;
  return OP_NONE;
}

/* bool computes nothing: it meets only bit operations, comparisons and choice. */
static bool is_number(DType t) {
  return dtype_is_int(t) || dtype_is_float(t);
}

/* One case a rule, so that a new rule is not forgotten here (no default). */
static bool rule_takes(OpRule rule, DType t) {
  switch (rule) {
  case RULE_SAME:
    return is_number(t);
  case RULE_FLOAT:
  case RULE_TEST:
    return dtype_is_float(t);
  case RULE_INT:
  case RULE_SHIFT:
  case RULE_COUNT:
    return dtype_is_int(t);
  case RULE_BITS:
    return dtype_is_int(t) || t == DT_BOOL;
  case RULE_COMPARE:
  case RULE_SELECT:
  case RULE_CAST:
  case RULE_BITCAST:
    return t < DT_COUNT;
  case RULE_BOOL:
    return t == DT_BOOL;
  case RULE_PACK:
    return t == DT_F32;
  case RULE_UNPACK:
  case RULE_WORDS:
    return t == DT_U32;
  case RULE_DESC:
    return dtype_is_int(t) && dtype_bits(t) >= 32;
  case RULE_LEAF:
  case RULE_I32:
    return false;
  }
  return false;
}

/* The rule column of a reduction tells its result; what it takes is its own. */
static bool reduce_takes(OpCode op, DType t) {
  if (op == OP_ANY || op == OP_ALL)
    return t == DT_BOOL;
  return is_number(t) || (t == DT_BOOL && (op == OP_SUM || op == OP_PROD));
}

/* Approximations exist for f32 only: other types have the exact functions. */
bool op_takes(OpCode op, DType t) {
  const OpInfo *i = &table[op];
  if (i->cls == OPC_REDUCE)
    return reduce_takes(op, t);
  if (op == OP_EX2 || op == OP_RCP)
    return t == DT_F32;
  return i->cls == OPC_PURE && rule_takes(i->rule, t);
}

/* Rules that the node decides (casts, leaves) give t, and the caller does not ask. */
DType op_result(OpCode op, DType t) {
  switch (table[op].rule) {
  case RULE_COMPARE:
  case RULE_BOOL:
  case RULE_TEST:
    return DT_BOOL;
  case RULE_COUNT:
  case RULE_I32:
    return DT_I32;
  case RULE_PACK:
  case RULE_WORDS:
    return DT_U32;
  case RULE_UNPACK:
    return DT_F32;
  case RULE_DESC:
    return DT_U64;
  default:
    return t;
  }
}

/* The accumulator never narrows inside the product. */
DType op_product_type(DType a, DType b) {
  bool f8 = (a == DT_F8E4M3 && b == DT_F8E5M2) || (a == DT_F8E5M2 && b == DT_F8E4M3);
  if ((a != b && !f8) || a == DT_BOOL)
    return DT_NONE;
  if (dtype_is_float(a))
    return a == DT_F64 ? DT_F64 : DT_F32;
  return dtype_bits(a) == 8 ? DT_I32 : DT_I64;
}

bool op_atomic_takes(OpCode op, DType t) {
  bool integers =
      op == OP_ATOMIC_AND || op == OP_ATOMIC_OR || op == OP_ATOMIC_XOR || op == OP_ATOMIC_INC;
  if (t == DT_F16 || t == DT_BF16)
    return op == OP_ATOMIC_ADD;
  if (dtype_bits(t) != 32 && dtype_bits(t) != 64)
    return false;
  return !integers || dtype_is_int(t);
}

/* the manual, Reductions: sums widen, extremes keep, indices and counts are i32. */
DType op_reduce_type(OpCode op, DType t) {
  switch (table[op].rule) {
  case RULE_FLOAT:
    if (t == DT_BOOL || (dtype_is_int(t) && dtype_bits(t) < 32))
      return DT_I32;
    return dtype_compute(t);
  case RULE_COUNT:
    return DT_I32;
  case RULE_BOOL:
    return DT_BOOL;
  default:
    return t;
  }
}

/* The printer orders operands of these, so that equal expressions read the same. */
bool op_is_commutative(OpCode op) {
  switch (op) {
  case OP_ADD:
  case OP_MUL:
  case OP_MIN2:
  case OP_MAX2:
  case OP_MULHI:
  case OP_AND:
  case OP_OR:
  case OP_XOR:
  case OP_EQ:
  case OP_NE:
    return true;
  default:
    return false;
  }
}

/* What may fault is not moved to where the program would not have computed it. */
bool op_can_fault(OpCode op, DType t) {
  if (op == OP_POW) /* a negative exponent */
    return dtype_is_signed(t);
  return dtype_is_int(t) && (op == OP_FLOORDIV || op == OP_MOD || op == OP_CEILDIV);
}
