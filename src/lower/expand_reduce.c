/* expand_reduce.c: reductions of fragments in registers.
 *
 * In: REDUCE of a fragment along an axis or as a whole. Out: each thread folds its registers in
 * ascending order, lanes fold by shuffles, warps through shared memory. Always holds: the order is
 * fixed, so that a kernel gives the same bits every time; threads that hold copies of a result all
 * have it. Tests: tests/unit/check_lower.c.
 */
#include "expand.h"

/* Lane digits and warp digits of a layout that belong to what is folded away. */
typedef struct Fold {
  const Frag *frag;
  int axis; /* -1: all axes */
  OpCode op;
  DType type; /* in which it is folded */
} Fold;

static bool folds(const Fold *f, const FragDigit *d) {
  return d->axis >= 0 && (f->axis < 0 || d->axis == f->axis);
}

/* ---------------------------------------------------------------- registers */

/* acc[to] = identity, for all of them. */
static void clear(Simple *s, const Fold *f, IrBuffer *acc, int64_t n) {
  IrStmt *loop;
  IrVar *r = low_emit_for(s, "r", low_i32(s, 0), low_i32(s, n), low_i32(s, 1), &loop);
  loop->as.loop.loop = IRF_UNROLL;
  IrBlock *before = low_enter(s, &loop->as.loop.body);
  IrAccess at = {.buf = acc, .index = {ir_ref(s->k, r)}};
  low_emit_store(s, at, ir_cast(s->k, ir_const(s->k, op_identity(f->op, f->type)), acc->dtype));
  low_enter(s, before);
}

/* Each register of the source into that of its result. */
static void fold_registers(Simple *s, const Fold *f, IrBuffer *src, IrBuffer *acc) {
  Point p;
  IrBlock *before;
  int from[IR_MAX_RANK], all[IR_MAX_RANK];
  for (int d = 0; d < f->frag->rank; d++) {
    all[d] = d;
    from[d] = f->axis < 0 || d == f->axis ? -1 : d;
  }
  expand_open(s, f->frag, 1, &p, &before);
  IrAccess x = {.buf = src, .index = {expand_register(s, &p, f->frag->rank, all)}};
  IrAccess a = {.buf = acc, .index = {expand_register(s, &p, f->frag->rank, from)}};
  IrVar *v = low_emit_load(s, "x", x), *run = low_emit_load(s, "run", a);
  low_emit_store(s, a, low_combine(s, f->op, ir_ref(s->k, run), ir_ref(s->k, v)));
  low_enter(s, before);
}

/* ---------------------------------------------------------------- lanes and warps */

/* acc[r] = acc[r] (op) the same of the lane `mask` away. */
static void fold_lanes(Simple *s, const Fold *f, IrBuffer *acc, int64_t n, int64_t mask) {
  IrStmt *loop;
  IrVar *r = low_emit_for(s, "r", low_i32(s, 0), low_i32(s, n), low_i32(s, 1), &loop);
  loop->as.loop.loop = IRF_UNROLL;
  IrBlock *before = low_enter(s, &loop->as.loop.body);
  IrAccess a = {.buf = acc, .index = {ir_ref(s->k, r)}};
  IrVar *mine = low_emit_load(s, "mine", a);
  IrVar *other = ir_var(s->k, IRV_LET, "other", acc->dtype);
  IrStmt *st = low_emit(s, IRK_OP);
  IrOperand *o = ARENA_ARRAY(s->k->arena, IrOperand, 3);
  o[0] = (IrOperand){.kind = IRO_VAR, .var = other};
  o[1] = (IrOperand){.kind = IRO_EXPR, .expr = ir_ref(s->k, mine)};
  o[2] = (IrOperand){.kind = IRO_EXPR, .expr = low_i32(s, mask)};
  st->as.op = (IrOp){OP_SHFL_XOR, o, 3};
  low_emit_store(s, a, low_combine(s, f->op, ir_ref(s->k, mine), ir_ref(s->k, other)));
  low_enter(s, before);
}

/* Where a thread's partial results go: parts along what is folded, times slots of the others. */
typedef struct Slots {
  IrExpr *part, *slot; /* this thread's, i32 */
  IrExpr *writes;      /* whether it is the lane that writes; NULL: always */
  int64_t parts, slots;
} Slots;

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* A digit that lies partly in the lanes and partly in the warps is cut at 32. */
static void slot_digit(Simple *s, const Fold *f, Slots *x, int i) {
  const FragDigit *d = &f->frag->thread[i];
  bool copies = d->axis < 0 && f->axis < 0; /* one of them speaks for all */
  int64_t stride = frag_thread_stride(f->frag, i), n = d->extent;
  int64_t lanes = stride < 32 ? least(n, 32 / stride) : 1, warps = n / lanes;
  IrExpr *t = ir_ref(s->k, s->tid);
  IrExpr *lane = ir_op2(s->k, OP_MOD, low_quotient(s, t, stride), low_i32(s, lanes));
  IrExpr *warp = ir_op2(s->k, OP_MOD, low_quotient(s, t, stride * lanes), low_i32(s, warps));
  IrExpr *digit = ir_op2(s->k, OP_MOD, low_quotient(s, t, stride), low_i32(s, n));
  if (copies) {
    x->writes = low_both(s, x->writes, ir_op2(s->k, OP_EQ, digit, low_i32(s, 0)));
    return;
  }
  if (!folds(f, d)) {
    x->slot = low_add(s, x->slot, low_mul(s, digit, low_i32(s, x->slots)));
    x->slots *= n;
    return;
  }
  if (lanes > 1)
    x->writes = low_both(s, x->writes, ir_op2(s->k, OP_EQ, lane, low_i32(s, 0)));
  if (warps > 1) {
    x->part = low_add(s, x->part, low_mul(s, warp, low_i32(s, x->parts)));
    x->parts *= warps;
  }
}

static Slots slots_of(Simple *s, const Fold *f) {
  Slots x = {low_i32(s, 0), low_i32(s, 0), NULL, 1, 1};
  for (int i = 0; i < f->frag->nthread; i++)
    slot_digit(s, f, &x, i);
  return x;
}

/* A tile of its own for each reduction, behind the program's. */
static IrBuffer *exchange_tile(Simple *s, DType t, int64_t n) {
  IrExpr *extent = low_i64(s, n);
  IrBuffer *b = ir_buffer(s->k, IRS_SHARED, "partial", t, 1, &extent);
  b->offset = s->peak;
  s->peak += (n * (int64_t)dtype_size(t) + 15) / 16 * 16;
  ir_add(s->k, &s->start, IRK_ALLOC, s->k->span)->as.alloc = b;
  return b;
}

/* The element of `part` that a register's partial result has. */
static IrAccess partial_at(Simple *s, IrBuffer *b, const Slots *x, IrExpr *part, IrExpr *r) {
  IrExpr *at = low_add(s, low_mul(s, part, low_i32(s, x->slots)), x->slot);
  at = low_add(s, at, low_mul(s, r, low_i32(s, x->slots * x->parts)));
  return (IrAccess){.buf = b, .index = {at}};
}

/* A loop over the results' registers, entered. */
static IrExpr *open_results(Simple *s, int64_t n, IrBlock **before) {
  IrStmt *loop;
  IrVar *r = low_emit_for(s, "r", low_i32(s, 0), low_i32(s, n), low_i32(s, 1), &loop);
  loop->as.loop.loop = IRF_UNROLL;
  *before = low_enter(s, &loop->as.loop.body);
  return ir_ref(s->k, r);
}

static IrAccess register_at(IrBuffer *b, IrExpr *r) {
  return (IrAccess){.buf = b, .index = {r}};
}

/* Each warp leaves its part. */
static IrBuffer *leave_parts(Simple *s, IrBuffer *acc, int64_t n, const Slots *x) {
  IrBuffer *b = exchange_tile(s, acc->dtype, n * x->parts * x->slots);
  IrBlock *before = s->out, *inner;
  low_note_buffer(s, b, IR_WRITES);
  low_fence(s);
  low_enter_if(s, x->writes);
  IrExpr *r = open_results(s, n, &inner);
  IrVar *mine = low_emit_load(s, "mine", register_at(acc, r));
  low_emit_store(s, partial_at(s, b, x, x->part, r), ir_ref(s->k, mine));
  low_enter(s, before);
  low_note_buffer(s, b, IR_READS);
  low_fence(s);
  return b;
}

/* Each thread folds all parts, in order. */
static IrExpr *fold_parts(Simple *s, const Fold *f, IrBuffer *b, const Slots *x, IrExpr *r) {
  IrExpr *sum = NULL;
  for (int64_t i = 0; i < x->parts; i++) {
    IrVar *v = low_emit_load(s, "part", partial_at(s, b, x, low_i32(s, i), r));
    sum = sum ? low_combine(s, f->op, sum, ir_ref(s->k, v)) : ir_ref(s->k, v);
  }
  return sum;
}

/* All lanes of a folded digit end with the same value: every step pairs them. */
static void fold_all_lanes(Simple *s, const Fold *f, IrBuffer *acc, int64_t n) {
  for (int i = 0; i < f->frag->nthread; i++) {
    int64_t stride = frag_thread_stride(f->frag, i), extent = f->frag->thread[i].extent;
    for (int64_t m = stride; folds(f, &f->frag->thread[i]) && m < stride * extent && m < 32; m *= 2)
      fold_lanes(s, f, acc, n, m);
  }
}

/* ---------------------------------------------------------------- the statement */

/* A value of the block is read from shared memory, where all threads find the same. */
static void finish_scalar(Simple *s, const Fold *f, IrBuffer *acc, IrVar *var) {
  Slots x = slots_of(s, f);
  IrExpr *zero = low_i32(s, 0), *sum = fold_parts(s, f, leave_parts(s, acc, 1, &x), &x, zero);
  IrStmt *st = low_emit(s, IRK_LET);
  st->as.let.var = var;
  st->as.let.value = ir_cast(s->k, sum, var->type);
}

/* Registers of the result have the layout of the source without the axis. */
static void finish_tile(Simple *s, const Fold *f, IrBuffer *acc, int64_t n, IrBuffer *dst) {
  Slots x = slots_of(s, f);
  IrBuffer *b = x.parts > 1 ? leave_parts(s, acc, n, &x) : NULL;
  IrBlock *before;
  IrExpr *r = open_results(s, n, &before);
  IrExpr *v =
      b ? fold_parts(s, f, b, &x, r) : ir_ref(s->k, low_emit_load(s, "x", register_at(acc, r)));
  low_emit_store(s, register_at(dst, r), ir_cast(s->k, v, dst->dtype));
  low_enter(s, before);
}

bool expand_reduce(Simple *s, IrStmt *st) {
  const IrReduce *r = &st->as.reduce;
  const Place *src = low_place_of(s, r->src.buf);
  if (!src->frag)
    return false;
  Fold f = {src->frag, r->scalar ? -1 : r->axis, r->op, r->src.buf->dtype};
  int64_t n = r->scalar ? 1 : frag_registers(low_place_of(s, r->dst.buf)->frag);
  IrExpr *extent = low_i64(s, n);
  IrBuffer *acc =
      ir_buffer(s->k, IRS_REG, op_info(r->op)->name, op_reduce_type(r->op, f.type), 1, &extent);
  low_emit(s, IRK_ALLOC)->as.alloc = acc;
  clear(s, &f, acc, n);
  fold_registers(s, &f, src->home, acc);
  fold_all_lanes(s, &f, acc, n);
  if (r->scalar)
    finish_scalar(s, &f, acc, r->scalar);
  else
    finish_tile(s, &f, acc, n, low_place_of(s, r->dst.buf)->home);
  return true;
}
