/* expand_reduce.c: reductions and scans of fragments in registers.
 *
 * In: REDUCE of a fragment along an axis or as a whole, SCAN from one fragment to another of its
 * layout. Out: each thread folds its registers in ascending order, lanes fold by shuffles, warps
 * through shared memory. Always holds: the order is fixed, so that a kernel gives the same bits
 * every time; threads that hold copies of a result all have it. Tests: tests/unit/check_lower.c.
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
  int from[IR_MAX_RANK];
  for (int d = 0; d < f->frag->rank; d++)
    from[d] = f->axis < 0 || d == f->axis ? -1 : d;
  expand_open(s, f->frag, 1, &p, &before);
  IrAccess x = {.buf = src, .index = {expand_register(s, &p, f->frag->rank, NULL)}};
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

/* A digit that lies partly in the lanes and partly in the warps is cut at 32. */
static void slot_digit(Simple *s, const Fold *f, Slots *x, int i) {
  const FragDigit *d = &f->frag->thread[i];
  bool copies = d->axis < 0 && f->axis < 0; /* one of them speaks for all */
  int64_t stride = frag_thread_stride(f->frag, i), n = d->extent;
  int64_t lanes = stride < 32 ? base_least(n, 32 / stride) : 1, warps = n / lanes;
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

/* ---------------------------------------------------------------- argmax, argmin */

/* Registers of results: the best elements, and where they stand. */
typedef struct Best {
  Simple *s;
  const IrReduce *r;
  IrBuffer *value, *at;
} Best;

/* The element goes where another is if it comes before that one. */
static void keep_better(Best *x, IrExpr *r, IrExpr *value, IrExpr *at) {
  Simple *s = x->s;
  IrKernel *k = s->k;
  IrAccess to = register_at(x->value, r), place = register_at(x->at, r);
  IrExpr *best = ir_ref(k, low_emit_load(s, "best", to));
  IrExpr *here = ir_ref(k, low_emit_load(s, "here", place));
  IrExpr *same = ir_op1(k, OP_NOT, low_better(s, x->r->op, best, value));
  IrExpr *earlier = ir_op2(k, OP_AND, same, ir_op2(k, OP_LT, at, here));
  IrExpr *take = ir_op2(k, OP_OR, low_better(s, x->r->op, value, best), earlier);
  take = ir_ref(k, low_emit_let(s, "take", take));
  low_emit_store(s, to, ir_op3(k, OP_SELECT, take, value, best));
  low_emit_store(s, place, ir_op3(k, OP_SELECT, take, at, here));
}

/* What any element comes before. */
static void clear_best(Best *x, int64_t n) {
  Simple *s = x->s;
  IrBlock *before;
  OpCode op = x->r->op == OP_ARGMAX ? OP_RMAX : OP_RMIN;
  IrExpr *r = open_results(s, n, &before);
  IrExpr *none = ir_const(s->k, op_identity(op, x->value->dtype));
  low_emit_store(s, register_at(x->value, r), ir_cast(s->k, none, x->value->dtype));
  low_emit_store(s, register_at(x->at, r), low_i32(s, INT32_MAX));
  low_enter(s, before);
}

static void find_in_registers(Best *x, const Frag *f, IrBuffer *src) {
  Simple *s = x->s;
  Point p;
  IrBlock *before;
  int from[IR_MAX_RANK];
  for (int d = 0; d < f->rank; d++)
    from[d] = d == x->r->axis ? -1 : d;
  expand_open(s, f, 1, &p, &before);
  IrVar *v = low_emit_load(s, "x", register_at(src, expand_register(s, &p, f->rank, NULL)));
  keep_better(x, expand_register(s, &p, f->rank, from),
              ir_cast(s->k, ir_ref(s->k, v), x->value->dtype), p.at[x->r->axis]);
  low_enter(s, before);
}

static IrExpr *from_lane(Simple *s, IrBuffer *b, IrExpr *r, int64_t mask) {
  IrVar *other = ir_var(s->k, IRV_LET, "other", b->dtype);
  IrOperand *o = ARENA_ARRAY(s->k->arena, IrOperand, 3);
  o[0] = (IrOperand){.kind = IRO_VAR, .var = other};
  o[1] = (IrOperand){.kind = IRO_EXPR,
                     .expr = ir_ref(s->k, low_emit_load(s, "mine", register_at(b, r)))};
  o[2] = (IrOperand){.kind = IRO_EXPR, .expr = low_i32(s, mask)};
  low_emit(s, IRK_OP)->as.op = (IrOp){OP_SHFL_XOR, o, 3};
  return ir_ref(s->k, other);
}

static void find_in_lanes(Best *x, const Fold *f, int64_t n) {
  Simple *s = x->s;
  IrBlock *before;
  for (int i = 0; i < f->frag->nthread; i++) {
    int64_t stride = frag_thread_stride(f->frag, i), end = stride * f->frag->thread[i].extent;
    for (int64_t m = stride; folds(f, &f->frag->thread[i]) && m < end && m < 32; m *= 2) {
      IrExpr *r = open_results(s, n, &before), *value = from_lane(s, x->value, r, m);
      keep_better(x, r, value, from_lane(s, x->at, r, m));
      low_enter(s, before);
    }
  }
}

static void find_in_warps(Best *x, const Slots *slots, int64_t n) {
  Simple *s = x->s;
  IrBlock *before;
  IrBuffer *values = leave_parts(s, x->value, n, slots), *places = leave_parts(s, x->at, n, slots);
  IrExpr *r = open_results(s, n, &before);
  for (int64_t i = 0; i < slots->parts; i++) {
    IrExpr *part = low_i32(s, i);
    IrVar *v = low_emit_load(s, "part", partial_at(s, values, slots, part, r));
    IrVar *at = low_emit_load(s, "place", partial_at(s, places, slots, part, r));
    keep_better(x, r, ir_ref(s->k, v), ir_ref(s->k, at));
  }
  low_enter(s, before);
}

static bool best_of(Simple *s, const IrReduce *r) {
  const Place *src = low_place_of(s, r->src.buf), *dst = low_place_of(s, r->dst.buf);
  Fold f = {src->frag, r->axis, r->op, r->src.buf->dtype};
  int64_t n = frag_registers(dst->frag);
  Best x = {.s = s, .r = r};
  x.value = low_registers(s, "best", expand_wide(r->src.buf->dtype), n);
  x.at = low_registers(s, "at", DT_I32, n);
  clear_best(&x, n);
  find_in_registers(&x, src->frag, src->home);
  find_in_lanes(&x, &f, n);
  Slots slots = slots_of(s, &f);
  if (slots.parts > 1)
    find_in_warps(&x, &slots, n);
  IrBlock *before;
  IrExpr *i = open_results(s, n, &before);
  IrVar *at = low_emit_load(s, "at", register_at(x.at, i));
  low_emit_store(s, register_at(dst->home, i), ir_cast(s->k, ir_ref(s->k, at), dst->home->dtype));
  low_enter(s, before);
  return true;
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
  if (r->op == OP_ARGMAX || r->op == OP_ARGMIN)
    return best_of(s, r);
  Fold f = {src->frag, r->scalar ? -1 : r->axis, r->op, r->src.buf->dtype};
  int64_t n = r->scalar ? 1 : frag_registers(low_place_of(s, r->dst.buf)->frag);
  IrBuffer *acc = low_registers(s, op_info(r->op)->name, op_reduce_type(r->op, f.type), n);
  clear(s, &f, acc, n);
  fold_registers(s, &f, src->home, acc);
  fold_all_lanes(s, &f, acc, n);
  if (r->scalar)
    finish_scalar(s, &f, acc, r->scalar);
  else
    finish_tile(s, &f, acc, n, low_place_of(s, r->dst.buf)->home);
  return true;
}

/* ---------------------------------------------------------------- scans */

/* How a layout goes along the scanned axis: `width` registers in a row, then lanes, warps, and
 * again, `rounds` times. */
typedef struct Scan {
  Simple *s;
  const IrScan *c;
  const Frag *frag;
  DType type;                         /* in which it is added up */
  int64_t width, rounds;              /* of registers … */
  int64_t width_stride, round_stride; /* … and from one register number to the next */
  int64_t stride, lanes, warps;       /* of threads */
  IrExpr *lane, *warp;                /* this thread's, in the scan's direction, i32 */
  IrBuffer *run;                      /* each register with those before it in its thread */
  IrBuffer *before, *all;             /* by round of a line: of the lanes before, of the warp */
} Scan;

/* The digits along the axis must follow each other; one of threads, at most. */
static bool find_digits(const Frag *f, int axis, Scan *x) {
  int64_t stride = 1, reach = 1, step = 0;
  *x = (Scan){.frag = f, .width = 1, .rounds = 1, .stride = 1, .lanes = 1, .warps = 1};
  int threads = 0;
  for (int i = 0; i < f->nthread; i++) {
    const FragDigit *d = &f->thread[i];
    if (d->axis != axis)
      continue;
    x->stride = frag_thread_stride(f, i);
    x->lanes = x->stride < 32 ? base_least(d->extent, 32 / x->stride) : 1;
    x->warps = d->extent / x->lanes;
    step = d->step;
    threads++;
  }
  bool fits = threads < 2;
  for (int i = 0; i < f->nreg; stride *= f->reg[i++].extent) {
    const FragDigit *d = &f->reg[i];
    bool above = d->axis == axis && step && d->step >= step;
    if (d->axis != axis)
      continue;
    fits = fits && (above ? x->rounds == 1 : x->width == 1 && d->step == 1);
    *(above ? &x->rounds : &x->width) = d->extent;
    *(above ? &x->round_stride : &x->width_stride) = stride;
    reach = above ? d->step : reach;
  }
  fits = fits && (!step || step == x->width);
  return fits && (x->rounds == 1 || reach == x->width * x->lanes * x->warps);
}

bool expand_scans(const Frag *f, int axis) {
  Scan x;
  return find_digits(f, axis, &x);
}

/* to[r] = from[r] for the registers that hold elements of the tile. */
static void copy_alive(Scan *x, IrBuffer *from, IrBuffer *to) {
  Simple *s = x->s;
  Point p;
  IrBlock *before;
  expand_open(s, x->frag, 1, &p, &before);
  IrExpr *r = expand_register(s, &p, x->frag->rank, NULL);
  IrVar *v = low_emit_load(s, "x", register_at(from, r));
  low_emit_store(s, register_at(to, r), ir_cast(s->k, ir_ref(s->k, v), to->dtype));
  low_enter(s, before);
}

/* Opens the loops over lines: register of a line's first element, number of its first round. */
static void open_scan_lines(Scan *x, IrExpr **base, IrExpr **line, IrBlock **before) {
  Simple *s = x->s;
  const Frag *f = x->frag;
  int64_t stride = 1, lines = 1;
  *before = s->out;
  *base = *line = low_i32(s, 0);
  for (int i = 0; i < f->nreg; stride *= f->reg[i++].extent) {
    IrBlock *outer;
    if (f->reg[i].axis == x->c->axis)
      continue;
    IrExpr *r = open_results(s, f->reg[i].extent, &outer);
    *base = low_add(s, *base, low_mul(s, r, low_i32(s, stride)));
    *line = low_add(s, *line, low_mul(s, r, low_i32(s, lines * x->rounds)));
    lines *= f->reg[i].extent;
  }
}

/* Opens a loop of n in the scan's direction. */
static IrExpr *open_along(Scan *x, int64_t n, IrBlock **before) {
  Simple *s = x->s;
  IrExpr *r = open_results(s, n, before);
  return x->c->reverse ? ir_op2(s->k, OP_SUB, low_i32(s, n - 1), r) : r;
}

static IrExpr *none_of(Scan *x) {
  IrExpr *e = ir_const(x->s->k, op_identity(x->c->op, x->c->src.buf->dtype));
  return ir_cast(x->s->k, e, x->type);
}

static IrExpr *shuffled(Scan *x, OpCode op, IrExpr *v, IrExpr *by) {
  IrVar *other = ir_var(x->s->k, IRV_LET, "other", v->type);
  IrOperand *o = ARENA_ARRAY(x->s->k->arena, IrOperand, 3);
  o[0] = (IrOperand){.kind = IRO_VAR, .var = other};
  o[1] = (IrOperand){.kind = IRO_EXPR, .expr = v};
  o[2] = (IrOperand){.kind = IRO_EXPR, .expr = by};
  low_emit(x->s, IRK_OP)->as.op = (IrOp){op, o, 3};
  return ir_ref(x->s->k, other);
}

/* The registers of a round, each with those before it; what all of them come to. */
static IrExpr *scan_registers(Scan *x, IrExpr *base) {
  Simple *s = x->s;
  IrBlock *before;
  IrVar *sum = low_emit_var(s, "sum", none_of(x));
  IrExpr *e = open_along(x, x->width, &before), *mine = ir_ref(s->k, sum);
  IrAccess at = register_at(x->run, low_add(s, base, low_mul(s, e, low_i32(s, x->width_stride))));
  IrExpr *v = ir_ref(s->k, low_emit_load(s, "x", at));
  if (x->c->exclusive)
    low_emit_store(s, at, mine);
  low_emit_set(s, sum, low_combine(s, x->c->op, mine, v));
  if (!x->c->exclusive)
    low_emit_store(s, at, mine);
  low_enter(s, before);
  return mine;
}

/* From what each lane has: of the lanes before it, and of them all. */
static void scan_lanes(Scan *x, IrExpr *mine, IrExpr *line) {
  Simple *s = x->s;
  IrKernel *k = s->k;
  IrExpr *none = none_of(x);
  OpCode back = x->c->reverse ? OP_SHFL_DOWN : OP_SHFL_UP;
  IrVar *sum = low_emit_var(s, "upto", mine);
  for (int64_t by = 1; by < x->lanes; by *= 2) {
    IrExpr *other = shuffled(x, back, ir_ref(k, sum), low_i32(s, by * x->stride));
    IrExpr *has = ir_op2(k, OP_GE, x->lane, low_i32(s, by));
    IrBlock *before = low_enter_if(s, has);
    low_emit_set(s, sum, low_combine(s, x->c->op, other, ir_ref(k, sum)));
    low_enter(s, before);
  }
  IrExpr *all = ir_ref(k, sum), *rest = none;
  if (x->lanes > 1) {
    IrExpr *lane = ir_op2(k, OP_MOD, ir_ref(k, s->tid), low_i32(s, 32));
    IrExpr *to =
        low_mul(s, ir_op2(k, OP_SUB, low_i32(s, x->lanes - 1), x->lane), low_i32(s, x->stride));
    IrExpr *last = x->c->reverse ? ir_op2(k, OP_SUB, lane, to) : low_add(s, lane, to);
    IrExpr *other = shuffled(x, back, all, low_i32(s, x->stride));
    rest = ir_op3(k, OP_SELECT, ir_op2(k, OP_EQ, x->lane, low_i32(s, 0)), none, other);
    all = shuffled(x, OP_SHFL_IDX, all, last);
  }
  low_emit_store(s, register_at(x->before, line), rest);
  low_emit_store(s, register_at(x->all, line), all);
}

/* The line up to this warp into *upto, and the round's sum: of warps that left theirs in b. */
static IrExpr *scan_warps(Scan *x, IrBuffer *b, const Slots *slots, IrExpr *line, IrExpr **upto) {
  Simple *s = x->s;
  IrKernel *k = s->k;
  IrVar *all = low_emit_var(s, "all", *upto), *mine = low_emit_var(s, "mine", *upto);
  for (int64_t i = 0; i < x->warps; i++) {
    int64_t part = x->c->reverse ? x->warps - 1 - i : i;
    IrExpr *here = ir_op2(k, OP_EQ, x->warp, low_i32(s, i));
    low_emit_set(s, mine, ir_op3(k, OP_SELECT, here, ir_ref(k, all), ir_ref(k, mine)));
    IrVar *v = low_emit_load(s, "part", partial_at(s, b, slots, low_i32(s, part), line));
    low_emit_set(s, all, low_combine(s, x->c->op, ir_ref(k, all), ir_ref(k, v)));
  }
  *upto = ir_ref(k, mine);
  return ir_ref(k, all);
}

/* What stands before a round goes into its registers. */
static void add_before(Scan *x, IrExpr *base, IrExpr *upto) {
  Simple *s = x->s;
  IrBlock *before;
  IrExpr *e = open_along(x, x->width, &before);
  IrAccess at = register_at(x->run, low_add(s, base, low_mul(s, e, low_i32(s, x->width_stride))));
  IrExpr *v = ir_ref(s->k, low_emit_load(s, "x", at));
  low_emit_store(s, at, low_combine(s, x->c->op, upto, v));
  low_enter(s, before);
}

/* Round after round of each line. */
static void scan_rounds(Scan *x, IrBuffer *b, const Slots *slots) {
  Simple *s = x->s;
  IrKernel *k = s->k;
  IrBlock *before, *inner;
  IrExpr *base, *line;
  open_scan_lines(x, &base, &line, &before);
  IrVar *carry = low_emit_var(s, "carry", none_of(x));
  IrExpr *c = open_along(x, x->rounds, &inner), *upto = ir_ref(k, carry);
  line = low_add(s, line, c);
  base = low_add(s, base, low_mul(s, c, low_i32(s, x->round_stride)));
  IrVar *rest = low_emit_load(s, "rest", register_at(x->before, line));
  IrExpr *all = NULL;
  if (b)
    all = scan_warps(x, b, slots, line, &upto);
  else
    all = low_combine(s, x->c->op, upto,
                      ir_ref(k, low_emit_load(s, "all", register_at(x->all, line))));
  IrVar *from = low_emit_let(s, "from", low_combine(s, x->c->op, upto, ir_ref(k, rest)));
  low_emit_set(s, carry, all);
  add_before(x, base, ir_ref(k, from));
  low_enter(s, before);
}

/* In the scan's direction. */
static IrExpr *place_of(Scan *x, int64_t stride, int64_t n) {
  Simple *s = x->s;
  IrExpr *t = low_quotient(s, ir_ref(s->k, s->tid), stride);
  IrExpr *at = ir_op2(s->k, OP_MOD, t, low_i32(s, n));
  return x->c->reverse ? ir_op2(s->k, OP_SUB, low_i32(s, n - 1), at) : at;
}

bool expand_scan_registers(Simple *s, IrStmt *st) {
  const IrScan *c = &st->as.scan;
  const Place *src = low_place_of(s, c->src.buf), *dst = low_place_of(s, c->dst.buf);
  Scan x;
  if (!src->frag || !dst->frag || !find_digits(src->frag, c->axis, &x))
    return false;
  Fold f = {src->frag, c->axis, c->op, c->src.buf->dtype};
  int64_t registers = frag_registers(src->frag), rounds = registers / x.width;
  x.s = s;
  x.c = c;
  x.type = expand_wide(op_reduce_type(c->op, c->src.buf->dtype));
  x.lane = ir_ref(s->k, low_emit_let(s, "lane", place_of(&x, x.stride, x.lanes)));
  x.warp = ir_ref(s->k, low_emit_let(s, "warp", place_of(&x, x.stride * x.lanes, x.warps)));
  x.run = low_registers(s, "run", x.type, registers);
  x.before = low_registers(s, "before", x.type, rounds);
  x.all = low_registers(s, "all", x.type, rounds);
  clear(s, &f, x.run, registers);
  copy_alive(&x, src->home, x.run);
  IrBlock *before, *inner;
  IrExpr *base, *line;
  open_scan_lines(&x, &base, &line, &before);
  IrExpr *r = open_results(s, x.rounds, &inner);
  base = low_add(s, base, low_mul(s, r, low_i32(s, x.round_stride)));
  scan_lanes(&x, scan_registers(&x, base), low_add(s, line, r));
  low_enter(s, before);
  Slots slots = slots_of(s, &f);
  scan_rounds(&x, x.warps > 1 ? leave_parts(s, x.all, rounds, &slots) : NULL, &slots);
  copy_alive(&x, x.run, dst->home);
  return true;
}
