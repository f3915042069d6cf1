/* ir_verify_flow.c: what depends on uniformity: collective operations, barriers, warpgroups.
 *
 * In: a kernel that is otherwise right. Out: errors where threads that must act together may not.
 * Tests: tests/unit/check_ir.c.
 */
#include "verify.h"

static const char *const over[] = {"the block", "a warp", "single lanes"};

static void check_control(Verify *v, const IrOp *op, IrUniform control) {
  const OpInfo *info = op_info(op->op);
  if (op->op == OP_SYNCTHREADS && control != IR_BLOCK_UNIFORM)
    ir_verify_error(v, E0662,
                    "`syncthreads` is reached by all threads of the block or none; control here is "
                    "uniform over %s only",
                    over[control]);
  else if (info->effects & FX_COLLECTIVE && control == IR_LANE_VARYING)
    ir_verify_error(v, E0662,
                    "`%s` is executed by all lanes of a warp together, but control here may differ "
                    "between lanes",
                    info->name);
}

static void check_uniform_operand(Verify *v, const IrOp *op, int i, const char *what) {
  if (op->operand[i].expr->uniform == IR_LANE_VARYING)
    ir_verify_error(
        v, E0664,
        "%s of `%s` differs between the lanes of a warp; take it from warp-uniform values "
        "(warp(), not tid() // 32; shfl_idx broadcasts)",
        what, op_info(op->op)->name);
}

static void check_operands(Verify *v, const IrOp *op) {
  switch (op->op) {
  case OP_WGMMA_SS:
    check_uniform_operand(v, op, 1, "the descriptor of A");
    check_uniform_operand(v, op, 2, "the descriptor of B");
    check_uniform_operand(v, op, 3, "scale_d");
    break;
  case OP_WGMMA_RS:
    check_uniform_operand(v, op, 2, "the descriptor of B");
    check_uniform_operand(v, op, 3, "scale_d");
    break;
  case OP_BAR_SYNC:
  case OP_BAR_ARRIVE:
    check_uniform_operand(v, op, 0, "the barrier");
    break;
  default:
    break;
  }
}

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

/* ---------------------------------------------------------------- whole warpgroups */

typedef struct Groups {
  Verify *v;
  const IrRoleBody *role; /* the enclosing one */
} Groups;

static bool check_group(IrStmt *s, void *ctx) {
  Groups *g = ctx;
  if (s->kind == IRK_ROLES) {
    for (int i = 0; i < s->as.roles.nroles; i++) {
      Groups inner = {g->v, &s->as.roles.role[i]};
      ir_walk(&s->as.roles.role[i].body, check_group, &inner);
    }
    return false;
  }
  if (s->kind != IRK_OP || !(op_info(s->as.op.op)->effects & FX_WARPGROUP))
    return true;
  int first = g->role ? g->role->first_warp : 0;
  int warps = g->role ? g->role->warps : g->v->block_warps;
  g->v->at = s->span;
  if (first % 4 || warps % 4)
    ir_verify_error(
        g->v, E0663,
        "`%s` is executed by whole warpgroups (four warps from a multiple of four), but "
        "warps %d to %d run it",
        op_info(s->as.op.op)->name, first, first + warps - 1);
  return true;
}

static void check_stated(Verify *v, const IrUniform *inferred) {
  for (size_t i = 0; i < v->k->vars.n; i++) {
    const IrVar *x = v->k->vars.v[i];
    v->at = v->k->span;
    if (x->stated && inferred[i] > x->uniform)
      ir_verify_error(v, E0665, "`%s` is said to be uniform over %s, but it may differ over %s",
                      x->name, over[x->uniform], over[inferred[i]]);
  }
}

void ir_verify_flow(Verify *v) {
  UniformSeen seen = {check_stmt, v};
  const IrUniform *inferred = ir_uniform_run(v->arena, v->k, &seen);
  if (v->k->level != IR_THREAD)
    return;
  Groups g = {v, NULL};
  ir_walk(&v->k->body, check_group, &g);
  check_stated(v, inferred);
}
