/* grid.c: pass: the grid as the hardware takes it.
 *
 * In: a thread-level kernel with the program's grid. Out: the kernel itself where that can be
 * launched; else its axes folded into one number of blocks (of which the second axis holds what is
 * beyond 2^30), or its extents rounded up to whole clusters; blocks beyond the program's grid end
 * at once. A cluster that cannot be is left out with a note: nothing but the place of blocks
 * depends on it. Always holds: each block of the program runs once. Tests:
 * tests/unit/check_large.c, tests/unit/check_roles.c (clusters).
 */
#include "sched.h"

#include <string.h>

enum { FOLD_BITS = 30, MOST_CLUSTER = 8 }; /* of blocks that any card takes */

typedef struct Folding {
  IrKernel *k;
  IrBlock head; /* what stands before the body */
} Folding;

static bool has_cluster(const IrKernel *k) {
  return k->cluster[0] > 1 || k->cluster[1] > 1 || k->cluster[2] > 1;
}

/* The kernel's body comes after the head. */
static void put_before(Folding *f) {
  for (size_t i = 0; i < f->k->body.n; i++)
    sched_push(f->k, &f->head, f->k->body.v[i]);
  f->k->body = f->head;
}

static void end_where(Folding *f, IrExpr *beyond) {
  IrStmt *st = ir_add(f->k, &f->head, IRK_IF, f->k->span);
  st->as.if_.cond = beyond;
  ir_add(f->k, &st->as.if_.then, IRK_RETURN, f->k->span);
}

static void define(Folding *f, IrVar *v, IrExpr *value) {
  IrStmt *st = ir_add(f->k, &f->head, IRK_LET, f->k->span);
  v->kind = IRV_LET;
  v->lo = v->lo < 0 ? 0 : v->lo;
  st->as.let.var = v;
  st->as.let.value = ir_cast(f->k, value, v->type);
}

/* ---------------------------------------------------------------- one number for all axes */

/* The program's indices from the number of the block, the first axis fastest. */
static void define_indices(Folding *f, IrExpr *number, IrVar *const *index, int rank) {
  IrKernel *k = f->k;
  IrExpr *rest = number;
  for (int i = 0; i < rank; i++) {
    define(f, index[i], i == rank - 1 ? rest : ir_op2(k, OP_MOD, rest, k->grid[i]));
    rest = ir_op2(k, OP_FLOORDIV, rest, k->grid[i]);
  }
}

static IrExpr *count_blocks(IrKernel *k) {
  IrExpr *n = ir_int(k, 1);
  for (int i = 0; i < k->grid_rank; i++)
    n = ir_op2(k, OP_MUL, n, k->grid[i]);
  return n;
}

typedef struct Naming {
  IrKernel *k;
  IrVar *const *index;
  int rank;
} Naming;

static void name_fault(const Naming *x, IrOp *op) {
  IrOperand *o = ARENA_ARRAY(x->k->arena, IrOperand, 4 + x->rank);
  memcpy(o, op->operand, 4 * sizeof *o);
  for (int i = 0; i < x->rank; i++)
    o[4 + i] = (IrOperand){.kind = IRO_EXPR, .expr = ir_ref(x->k, x->index[i])};
  *op = (IrOp){OP_FAULT, o, 4 + x->rank};
}

static void name_assert(const Naming *x, IrReport *r) {
  IrReportPart *part = ARENA_ARRAY(x->k->arena, IrReportPart, r->nparts + x->rank);
  if (r->nparts)
    memcpy(part, r->part, (size_t)r->nparts * sizeof *part);
  for (int i = 0; i < x->rank; i++)
    part[r->nparts + i].value = ir_ref(x->k, x->index[i]);
  r->part = part;
  r->nparts += x->rank;
  r->nblock = x->rank;
}

/* What goes wrong names the program's block, not the launch's. */
static bool name_block(IrStmt *st, void *ctx) {
  const Naming *x = ctx;
  if (st->kind == IRK_OP && st->as.op.op == OP_FAULT && st->as.op.noperands == 4)
    name_fault(x, &st->as.op);
  if (st->kind == IRK_REPORT && st->as.report.kind == IRP_ASSERT && !st->as.report.nblock)
    name_assert(x, &st->as.report);
  return true;
}

static void fold(IrKernel *k, bool huge) {
  Folding f = {.k = k};
  int rank = k->grid_rank;
  IrVar *index[3], *number = ir_var(k, IRV_LET, "number", DT_I64);
  for (int i = 0; i < rank; i++)
    index[i] = k->grid_index[i];
  ir_walk(&k->body, name_block, &(Naming){k, index, rank});
  IrExpr *blocks = count_blocks(k), *row = ir_int(k, INT64_C(1) << FOLD_BITS);
  IrVar *x = ir_var(k, IRV_GRID, "column", DT_I64), *y = ir_var(k, IRV_GRID, "row", DT_I64);
  x->axis = 0;
  y->axis = 1;
  IrExpr *at = ir_op2(k, OP_ADD, ir_op2(k, OP_MUL, ir_ref(k, y), row), ir_ref(k, x));
  number->hi = huge ? IR_NO_RANGE_HI : INT32_MAX - 1;
  define(&f, number, huge ? at : ir_ref(k, x));
  if (huge)
    end_where(&f, ir_op2(k, OP_GE, ir_ref(k, number), blocks));
  define_indices(&f, ir_ref(k, number), index, rank);
  k->grid_rank = huge ? 2 : 1;
  k->grid[0] = huge ? ir_op2(k, OP_MIN2, blocks, row) : blocks;
  k->grid[1] = ir_op2(k, OP_CEILDIV, blocks, row);
  k->grid_index[0] = x;
  k->grid_index[1] = y;
  put_before(&f);
}

/* ---------------------------------------------------------------- clusters */

/* Why the blocks are launched without; NULL: with it. */
static const char *cluster_trouble(const IrKernel *k, const LowerRequest *r, bool folds) {
  int n = 1;
  for (int i = 0; i < 3; i++)
    n *= k->cluster[i] > 1 ? k->cluster[i] : 1;
  if (r->target->arch < ARCH_SM90A)
    return "the target has none";
  if (folds)
    return "the grid has more blocks along an axis than the card takes";
  return n > MOST_CLUSTER ? "more than 8 blocks are more than every card takes" : NULL;
}

/* Whole clusters; axes that the program's grid has not are those of one block. */
static void round_up(IrKernel *k) {
  Folding f = {.k = k};
  for (int i = 0; i < k->grid_rank; i++) {
    int64_t n;
    int c = k->cluster[i];
    if (c <= 1 || (ir_is_const(k->grid[i], &n) && n % c == 0))
      continue;
    IrExpr *size = ir_int(k, c), *index = ir_cast(k, ir_ref(k, k->grid_index[i]), DT_I64);
    end_where(&f, ir_op2(k, OP_GE, index, k->grid[i]));
    k->grid[i] = ir_op2(k, OP_MUL, ir_op2(k, OP_CEILDIV, k->grid[i], size), size);
  }
  for (int i = k->grid_rank; i < 3; i++)
    k->cluster[i] = 1;
  put_before(&f);
}

IrKernel *low_grid(Arena *a, const IrKernel *from, const LowerRequest *r, DiagSink *sink) {
  (void)sink;
  bool huge = r->grid == LOWER_GRID_HUGE && from->grid_rank > 0;
  bool folds = huge || (r->grid == LOWER_GRID_LONG && from->grid_rank > 1);
  if (!folds && !has_cluster(from))
    return (IrKernel *)(uintptr_t)from;
  IrKernel *k = ir_kernel_clone(a, from);
  const char *why = has_cluster(k) ? cluster_trouble(k, r, folds) : NULL;
  if (why) {
    lower_note(r, "cluster = is left out: %s", why);
    for (int i = 0; i < 3; i++)
      k->cluster[i] = 0;
  } else if (has_cluster(k)) {
    lower_note(r, "clusters of blocks are launched together; each loads its own tiles");
    round_up(k);
  }
  if (folds) {
    lower_note(r,
               "the axes of the grid are folded into one: it has more blocks than the card takes");
    fold(k, huge);
  }
  ir_name_apart(k);
  return k;
}
