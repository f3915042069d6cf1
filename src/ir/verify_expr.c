/* verify_expr.c: expressions: types, once for all; names in scope and level, at each use.
 *
 * Tests: tests/unit/check_ir.c.
 */
#include "verify.h"

/* ---------------------------------------------------------------- types */

/* The type that the row gives is the one that the node has.
 * Casts have the type that they were given. */
static bool result_ok(const IrExpr *e) {
  switch (op_info(e->op)->rule) {
  case RULE_LEAF:
    return e->op == OP_CONST ? e->as.value.type == e->type : e->as.var->type == e->type;
  case RULE_CAST:
  case RULE_BITCAST:
    return true;
  case RULE_SELECT:
    return e->type == e->arg[1]->type;
  default:
    return e->type == op_result(e->op, e->nargs ? e->arg[0]->type : DT_I32);
  }
}

/* Operands must be older than their user: so the table has no circles.
 * Called once a node, before any use of it. */
static void check_node(Verify *v, const IrExpr *e) {
  if (e->op >= OP_COUNT || op_info(e->op)->cls != OPC_PURE || e->type >= DT_COUNT) {
    ir_verify_error(v, E0653, "an expression without an operation or type");
    return;
  }
  const OpInfo *info = op_info(e->op);
  if (e->nargs != info->arity) {
    ir_verify_error(v, E0653, "`%s` has %d operands, not %d", info->name, info->arity, e->nargs);
    return;
  }
  for (int i = 0; i < e->nargs; i++)
    if (!e->arg[i] || e->arg[i]->id >= e->id || v->k->table->all.v[e->arg[i]->id] != e->arg[i]) {
      ir_verify_error(v, E0653, "an operand of `%s` belongs to another kernel", info->name);
      return;
    }
  if (!ir_types_ok(e->op, e->type, e->arg, e->nargs))
    ir_verify_error(v, E0653, "`%s` does not take operands of type %s%s%s", info->name,
                    dtype_name(e->arg[0]->type), e->nargs > 1 ? ", " : "",
                    e->nargs > 1 ? dtype_name(e->arg[1]->type) : "");
  else if (!result_ok(e))
    ir_verify_error(v, E0653, "the result of `%s` is not %s", info->name, dtype_name(e->type));
}

/* By id, operands first.
 * Nodes that nothing uses any more are checked as well: they cost nothing. */
void ir_verify_all_types(Verify *v) {
  const struct IrTable *t = v->k->table;
  for (size_t i = 0; i < t->all.n; i++)
    check_node(v, t->all.v[i]);
}

/* ---------------------------------------------------------------- uses */

/* What names a thread has no meaning where a block is one agent.
 * Approximations and packing are pure and allowed anywhere. */
static bool thread_only(OpCode op) {
  switch (op) {
  case OP_TID:
  case OP_LANE:
  case OP_WARP:
  case OP_BLOCK_X:
  case OP_BLOCK_Y:
  case OP_BLOCK_Z:
  case OP_BLOCKS_X:
  case OP_DESC:
    return true;
  default:
    return false;
  }
}

/* Visits each node once a statement, however often the expression shares it.
 * The mark is the statement's number. */
static bool check_use(Verify *v, const IrExpr *e) {
  if (v->stamp[e->id] == v->now)
    return true;
  v->stamp[e->id] = v->now;
  if (e->op == OP_VAR && v->var[e->as.var->id] != DEF_SCOPE) {
    ir_verify_error(v, E0604,
                    v->var[e->as.var->id] ? "`%s` is used outside the block that defines it"
                                          : "`%s` is used before it is defined",
                    e->as.var->name);
    return false;
  }
  if (thread_only(e->op) && (v->k->level != IR_THREAD || v->in_pre)) {
    ir_verify_error(v, E0651, "`%s` exists at thread level only", op_info(e->op)->name);
    return false;
  }
  for (int i = 0; i < e->nargs; i++)
    if (!check_use(v, e->arg[i]))
      return false;
  return true;
}

/* Before anything else of the expression is read. */
bool ir_verify_expr(Verify *v, const IrExpr *e, const char *what) {
  if (!e || e->id >= v->k->table->all.n || v->k->table->all.v[e->id] != e) {
    ir_verify_error(v, E0653, "%s is missing or belongs to another kernel", what);
    return false;
  }
  if (e->size > IR_MAX_NODES) {
    ir_verify_error(v, E0653, "%s is too large an expression; name its shared parts by `let`",
                    what);
    return false;
  }
  return check_use(v, e);
}

/* `what` is the place, as a message calls it: "the condition". */
bool ir_verify_typed(Verify *v, const IrExpr *e, DType type, const char *what) {
  if (!ir_verify_expr(v, e, what))
    return false;
  if (e->type == type)
    return true;
  ir_verify_error(v, E0653, "%s is %s, not %s", what, dtype_name(e->type), dtype_name(type));
  return false;
}

/* Indices and addresses.
 * i64 above thread level, where indices are the language's int. */
bool ir_verify_int(Verify *v, const IrExpr *e, const char *what) {
  if (!ir_verify_expr(v, e, what))
    return false;
  bool ok = v->k->level == IR_THREAD ? dtype_is_int(e->type) : e->type == DT_I64;
  if (!ok)
    ir_verify_error(v, E0653, "%s is %s, not %s", what, dtype_name(e->type),
                    v->k->level == IR_THREAD ? "an integer" : "i64");
  return ok;
}
