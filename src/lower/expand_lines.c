/* expand_lines.c: lines of a tile in shared memory, each by a warp.
 *
 * In: argmax and argmin along an axis, and scans, of a whole tile in shared memory. Out: a warp
 * takes line after line, its lanes 32 neighbours at a time; what they find they tell each other by
 * shuffles. Always holds: argmax and argmin find the first NaN, else the lowest index, as one
 * thread would; a scan's sums of floats are in another order. Tests: tests/unit/check_lower.c.
 */
#include "expand.h"

enum { LANES = 32, HALF = 16 };

typedef struct Lines {
  Simple *s;
  const IrRegion *src;
  int axis;
  Shape shape;                /* of the source */
  IrExpr *lane;               /* i32 */
  IrExpr *index[IR_MAX_RANK]; /* i64, of the line in hand; the axis' own is left out */
} Lines;

static bool is_shared(Simple *s, const IrRegion *r) {
  const Place *p = low_place_of(s, r->buf);
  return p->tile && !p->frag && !p->spilled && expand_whole(s, r);
}

DType expand_wide(DType t) {
  if (dtype_is_float(t))
    return t == DT_F64 ? DT_F64 : DT_F32;
  return dtype_bits(t) < 32 || t == DT_BOOL ? DT_I32 : t;
}

static IrExpr *shuffle(Simple *s, OpCode op, IrExpr *x, int by) {
  IrOperand *o = ARENA_ARRAY(s->k->arena, IrOperand, 3);
  IrVar *v = ir_var(s->k, IRV_LET, "other", x->type);
  o[0] = (IrOperand){.kind = IRO_VAR, .var = v};
  o[1] = (IrOperand){.kind = IRO_EXPR, .expr = x};
  o[2] = (IrOperand){.kind = IRO_EXPR, .expr = low_i32(s, by)};
  low_emit(s, IRK_OP)->as.op = (IrOp){op, o, 3};
  return ir_ref(s->k, v);
}

/* This warp's lines, the loop's body entered. */
static void open_lines(Lines *x, IrBlock **before) {
  Simple *s = x->s;
  IrStmt *loop;
  Shape others = {0};
  IrExpr *first = low_i32(s, s->first_warp), *index[IR_MAX_RANK];
  IrExpr *warp = ir_op2(s->k, OP_SUB, ir_expr(s->k, OP_WARP, DT_NONE, NULL, 0), first);
  for (int d = 0; d < x->shape.rank; d++)
    if (d != x->axis)
      others.extent[others.rank++] = x->shape.extent[d];
  x->lane = ir_ref(s->k, low_emit_let(s, "lane", ir_expr(s->k, OP_LANE, DT_NONE, NULL, 0)));
  warp = ir_ref(s->k, low_emit_let(s, "warp", warp));
  IrVar *line = low_emit_for(s, "line", warp, low_i32(s, low_count_of(&others)),
                             low_i32(s, s->threads / LANES), &loop);
  *before = low_enter(s, &loop->as.loop.body);
  low_split(s, ir_ref(s->k, line), &others, index);
  for (int d = 0, j = 0; d < x->shape.rank; d++)
    if (d != x->axis)
      x->index[d] = index[j++];
}

/* The line's r-th element, r i32. */
static IrExpr *element(Lines *x, IrExpr *r, DType t) {
  x->index[x->axis] = ir_cast(x->s->k, r, DT_I64);
  return ir_cast(x->s->k, ir_ref(x->s->k, low_load_region(x->s, "x", x->src, x->index)), t);
}

/* ---------------------------------------------------------------- argmax, argmin */

static void keep_if(Simple *s, IrExpr *cond, IrVar *best, IrExpr *x, IrVar *at, IrExpr *r) {
  IrBlock *before = low_enter(s, &low_emit_if(s, cond)->as.if_.then);
  low_emit_set(s, best, x);
  low_emit_set(s, at, r);
  low_enter(s, before);
}

/* All lanes end with the best of the line. */
static void meet_lanes(Simple *s, OpCode op, IrVar *best, IrVar *at) {
  IrKernel *k = s->k;
  for (int by = HALF; by; by /= 2) {
    IrExpr *mine = ir_ref(k, best), *here = ir_ref(k, at);
    IrExpr *other = shuffle(s, OP_SHFL_XOR, mine, by), *there = shuffle(s, OP_SHFL_XOR, here, by);
    IrExpr *same = ir_op1(k, OP_NOT, low_better(s, op, mine, other));
    IrExpr *earlier = ir_op2(k, OP_AND, same, ir_op2(k, OP_LT, there, here));
    IrExpr *take = ir_op2(k, OP_OR, low_better(s, op, other, mine), earlier);
    keep_if(s, take, best, other, at, there);
  }
}

bool expand_arg(Simple *s, IrStmt *st) {
  const IrReduce *r = &st->as.reduce;
  Lines x = {.s = s, .src = &r->src, .axis = r->axis};
  IrBlock *before, *inner;
  IrExpr *to[IR_MAX_RANK], *result[IR_MAX_RANK];
  IrStmt *loop;
  if ((r->op != OP_ARGMAX && r->op != OP_ARGMIN) || r->scalar || r->axis < 0 || s->alone ||
      !is_shared(s, &r->src) || !is_shared(s, &r->dst) || r->src.buf == r->dst.buf ||
      ir_region_extent(&r->src, r->axis) < LANES)
    return false;
  x.shape = low_shape_of(s, &r->src, NULL);
  low_note_inner(st, s);
  low_fence(s);
  open_lines(&x, &before);
  DType t = expand_wide(r->src.buf->dtype);
  IrVar *best = low_emit_var(s, "best", element(&x, x.lane, t));
  IrVar *at = low_emit_var(s, "at", x.lane);
  IrVar *i = low_emit_for(s, "r", low_add(s, x.lane, low_i32(s, LANES)),
                          low_i32(s, x.shape.extent[r->axis]), low_i32(s, LANES), &loop);
  inner = low_enter(s, &loop->as.loop.body);
  IrExpr *v = element(&x, ir_ref(s->k, i), t);
  keep_if(s, low_better(s, r->op, v, ir_ref(s->k, best)), best, v, at, ir_ref(s->k, i));
  low_enter(s, inner);
  meet_lanes(s, r->op, best, at);
  bool kept = ir_region_rank(&r->dst) == x.shape.rank;
  for (int d = 0, j = 0; d < x.shape.rank; d++)
    if (d != r->axis || kept)
      to[j++] = d == r->axis ? low_i64(s, 0) : x.index[d];
  low_region_index(s, &r->dst, to, result);
  low_enter_if(s, ir_op2(s->k, OP_EQ, x.lane, low_i32(s, 0)));
  low_emit_store(s, low_access_at(s, r->dst.buf, result),
                 ir_cast(s->k, ir_ref(s->k, at), r->dst.buf->dtype));
  low_enter(s, before);
  return true;
}

/* ---------------------------------------------------------------- scans */

/* 32 elements, each with those before it. */
static void scan_lanes(Lines *x, OpCode op, IrVar *v) {
  Simple *s = x->s;
  for (int by = 1; by < LANES; by *= 2) {
    IrExpr *other = shuffle(s, OP_SHFL_UP, ir_ref(s->k, v), by);
    IrStmt *branch = low_emit_if(s, ir_op2(s->k, OP_GE, x->lane, low_i32(s, by)));
    IrBlock *before = low_enter(s, &branch->as.if_.then);
    low_emit_set(s, v, low_combine(s, op, other, ir_ref(s->k, v)));
    low_enter(s, before);
  }
}

static IrExpr *identity(Simple *s, const IrScan *c) {
  IrExpr *e = ir_const(s->k, op_identity(c->op, c->src.buf->dtype));
  return ir_cast(s->k, e, expand_wide(e->type));
}

/* One round of 32 elements from the r-th on: the line so far is `carry`. */
static void scan_round(Lines *x, const IrScan *c, IrExpr *r, IrVar *carry) {
  Simple *s = x->s;
  IrKernel *k = s->k;
  int64_t n = x->shape.extent[c->axis];
  IrExpr *none = identity(s, c), *at[IR_MAX_RANK];
  IrExpr *place = ir_ref(k, low_emit_let(s, "place", low_add(s, r, x->lane)));
  IrExpr *i = c->reverse ? ir_op2(k, OP_SUB, low_i32(s, n - 1), place) : place;
  IrExpr *in = n % LANES ? ir_op2(k, OP_LT, place, low_i32(s, n)) : NULL;
  IrVar *v = low_emit_var(s, "sum", none);
  IrBlock *before = low_enter_if(s, in);
  low_emit_set(s, v, element(x, i, none->type));
  low_enter(s, before);
  scan_lanes(x, c->op, v);
  IrExpr *mine = ir_ref(k, v), *all = shuffle(s, OP_SHFL_IDX, mine, LANES - 1);
  if (c->exclusive) {
    IrExpr *other = shuffle(s, OP_SHFL_UP, mine, 1);
    mine = ir_op3(k, OP_SELECT, ir_op2(k, OP_EQ, x->lane, low_i32(s, 0)), none, other);
  }
  IrVar *out = low_emit_let(s, "out", low_combine(s, c->op, ir_ref(k, carry), mine));
  x->index[c->axis] = ir_cast(k, i, DT_I64);
  low_region_index(s, &c->dst, x->index, at);
  low_enter_if(s, in);
  low_emit_store(s, low_access_at(s, c->dst.buf, at),
                 ir_cast(k, ir_ref(k, out), c->dst.buf->dtype));
  low_enter(s, before);
  low_emit_set(s, carry, low_combine(s, c->op, ir_ref(k, carry), all));
}

bool expand_scan(Simple *s, IrStmt *st) {
  const IrScan *c = &st->as.scan;
  Lines x = {.s = s, .src = &c->src, .axis = c->axis};
  IrBlock *before;
  IrStmt *loop;
  if (s->alone || !is_shared(s, &c->src) || !is_shared(s, &c->dst) ||
      ir_region_extent(&c->src, c->axis) < LANES)
    return false;
  x.shape = low_shape_of(s, &c->src, NULL);
  low_note_inner(st, s);
  low_fence(s);
  open_lines(&x, &before);
  IrVar *carry = low_emit_var(s, "carry", identity(s, c));
  IrVar *r = low_emit_for(s, "r", low_i32(s, 0), low_i32(s, x.shape.extent[c->axis]),
                          low_i32(s, LANES), &loop);
  low_enter(s, &loop->as.loop.body);
  scan_round(&x, c, ir_ref(s->k, r), carry);
  low_enter(s, before);
  return true;
}
