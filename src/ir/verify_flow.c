/* verify_flow.c: what depends on uniformity: collective operations, barriers, warpgroups.
 *
 * In: a kernel that is otherwise right. Out: errors where threads that must act together may not.
 * Tests: tests/unit/check_ir.c.
 */
#include "verify.h"

/* Within what a value is the same, and between what it may then differ. */
static const char *const same_in[] = {"the block", "a warpgroup", "a warp", "a lane"};
static const char *const differs[] = {"", "between warpgroups", "between warps", "between lanes"};

/* Four warps from a multiple of four together: the block must consist of such, and control keep
 * them.
 * Warps of a group stand together: 4n to 4n + 3. */
static void check_group(Verify *v, const OpInfo *info, IrUniform control) {
  if (v->block_warps % 4)
    ir_verify_error(
        v, E0663, "`%s` is executed by whole warpgroups of four warps, but the block has %d warps",
        info->name, v->block_warps);
  else if (control > IR_GROUP_UNIFORM)
    ir_verify_error(
        v, E0663,
        "`%s` is executed by whole warpgroups (four warps from a multiple of four), but "
        "control here may differ between their warps",
        info->name);
}

static void check_control(Verify *v, const IrOp *op, IrUniform control) {
  const OpInfo *info = op_info(op->op);
  if (op->op == OP_SYNCTHREADS && control != IR_BLOCK_UNIFORM)
    ir_verify_error(
        v, E0662,
        "`syncthreads` is reached by all threads of the block or none; control here may "
        "differ %s",
        differs[control]);
  else if (info->effects & FX_COLLECTIVE && control == IR_LANE_VARYING)
    ir_verify_error(v, E0662,
                    "`%s` is executed by all lanes of a warp together, but control here may differ "
                    "between lanes",
                    info->name);
  else if (info->effects & FX_WARPGROUP)
    check_group(v, info, control);
}

/* most: over what the hardware needs the operand to be one value.
 * The message says how such a value is made. */
static void check_uniform_operand(Verify *v, const IrOp *op, int i, IrUniform most,
                                  const char *what) {
  if (op->operand[i].expr->uniform > most)
    ir_verify_error(v, E0664,
                    "%s of `%s` must be the same in %s, but may differ %s; warp() is the same in a "
                    "warp, warp() // 4 in a warpgroup",
                    what, op_info(op->op)->name, same_in[most],
                    differs[op->operand[i].expr->uniform]);
}

static void check_operands(Verify *v, const IrOp *op) {
  switch (op->op) {
  case OP_WGMMA_SS:
    check_uniform_operand(v, op, 1, IR_GROUP_UNIFORM, "the descriptor of A");
    check_uniform_operand(v, op, 2, IR_GROUP_UNIFORM, "the descriptor of B");
    check_uniform_operand(v, op, 3, IR_GROUP_UNIFORM, "scale_d");
    break;
  case OP_WGMMA_RS:
    check_uniform_operand(v, op, 2, IR_GROUP_UNIFORM, "the descriptor of B");
    check_uniform_operand(v, op, 3, IR_GROUP_UNIFORM, "scale_d");
    break;
  case OP_BAR_SYNC:
  case OP_BAR_ARRIVE:
    check_uniform_operand(v, op, 0, IR_WARP_UNIFORM, "the barrier");
    break;
  default:
    break;
  }
}

/* Called for each statement with its control, once the fixed point stands. */
static void check_stmt(IrStmt *s, IrUniform control, void *ctx) {
  Verify *v = ctx;
  v->at = s->span;
  if (s->kind == IRK_OP) {
    check_control(v, &s->as.op, control);
    check_operands(v, &s->as.op);
  } else if (s->kind == IRK_ROLES && control != IR_BLOCK_UNIFORM) {
    ir_verify_error(v, E0668, "roles stand under control that differs between the block's threads");
  }
}

/* What an author states is a promise to readers; the analysis must be able to keep it.
 * Less variation than stated is no error. */
static void check_stated(Verify *v, const IrUniform *inferred) {
  for (size_t i = 0; i < v->k->vars.n; i++) {
    const IrVar *x = v->k->vars.v[i];
    v->at = v->k->span;
    if (x->stated && (int)inferred[i] > x->stated - 1)
      ir_verify_error(v, E0665, "`%s` is said to be the same in %s, but it may differ %s", x->name,
                      same_in[x->stated - 1], differs[inferred[i]]);
  }
}

/* Runs last: it trusts that names and types are right. */
void ir_verify_flow(Verify *v) {
  UniformSeen seen = {check_stmt, v};
  const IrUniform *inferred = ir_uniform_run(v->arena, v->k, &seen);
  if (v->k->level != IR_THREAD)
    return;
  check_stated(v, inferred);
}
