/* expand_side.c: what a copy's side in memory allows: vectors, addresses, what lies inside.
 *
 * In: a region of a tensor or tile. Out: how many neighbours one access can take, and along which
 * axis; byte addresses and element offsets; per axis the coordinates that lie inside. Always holds:
 * a width is claimed only where stride, base, pitch and origin are known to be multiples of it.
 * Tests: tests/unit/check_lower.c.
 */
#include "expand_side.h"

/* ---------------------------------------------------------------- what divides an expression */

/* A power of two that divides it, at most 2^20. */
int64_t expand_divisor(Simple *s, const IrExpr *e) {
  enum { MOST = 1 << 20 };
  int64_t c;
  if (ir_is_const(e, &c))
    return c == 0 ? MOST : base_least(c & -c, MOST);
  switch (e->op) {
  case OP_VAR:
    return e->as.var->id < s->divisor.n && s->divisor.v[e->as.var->id] ? s->divisor.v[e->as.var->id]
                                                                       : 1;
  case OP_MUL:
    return base_least(expand_divisor(s, e->arg[0]) * expand_divisor(s, e->arg[1]), MOST);
  case OP_ADD:
  case OP_SUB:
  case OP_MIN2:
  case OP_MAX2:
    return base_least(expand_divisor(s, e->arg[0]), expand_divisor(s, e->arg[1]));
  case OP_SELECT:
    return base_least(expand_divisor(s, e->arg[1]), expand_divisor(s, e->arg[2]));
  case OP_CAST:
    return dtype_is_int(e->arg[0]->type) ? expand_divisor(s, e->arg[0]) : 1;
  default:
    return 1;
  }
}

void expand_learn(Simple *s, const IrVar *v, const IrExpr *e) {
  if (v->kind != IRV_LET || !dtype_is_int(v->type))
    return;
  while (s->divisor.n <= v->id)
    VEC_PUSH(s->arena, &s->divisor, 0);
  s->divisor.v[v->id] = expand_divisor(s, e);
}

/* ---------------------------------------------------------------- vectors of a region */

/* The buffer's axis whose neighbours lie next to each other in memory; -1: not known. */
int side_unit_axis(Simple *s, const IrBuffer *b) {
  const Place *p = low_place_of(s, b);
  if (p->tile)
    return p->spilled ? -1 : p->columns ? p->rank - 2 : p->rank - 1;
  LowerFact fact = lower_fact(s->request, b);
  return fact.unit_axis >= 0 ? fact.unit_axis : -1;
}

/* Elements of one access that the memory of a buffer allows: a power of two. */
static int64_t aligned_elements(Simple *s, const IrBuffer *b) {
  const Place *p = low_place_of(s, b);
  int64_t size = (int64_t)dtype_size(b->dtype), align = VECTOR_BYTES;
  if (!p->tile)
    align = lower_fact(s->request, b).align;
  else if (p->map)
    return 1;
  else if (p->rank > 1) {
    int64_t pitch = (p->extent[p->columns ? p->rank - 2 : p->rank - 1] + p->pad) * size;
    align = base_least(align, pitch & -pitch);
  }
  return align > size ? align / size : 1;
}

/* The region's kept axis, in its order after .T, that is the buffer's axis. */
static int kept_axis(const IrRegion *r, int axis) {
  int kept = 0, rank = ir_region_rank(r);
  for (int d = 0; d < axis; d++)
    kept += r->axis[d].keep;
  if (r->trans && kept >= rank - 2)
    kept = kept == rank - 1 ? rank - 2 : rank - 1;
  return kept;
}

int64_t expand_vector_axis(Simple *s, const IrRegion *r, int *axis) {
  int unit = side_unit_axis(s, r->buf);
  if (unit < 0 || !r->axis[unit].keep)
    return 1;
  *axis = kept_axis(r, unit);
  if (r->axis[unit].step != 1)
    return 1;
  return base_least(aligned_elements(s, r->buf), expand_divisor(s, r->axis[unit].origin));
}

/* ---------------------------------------------------------------- one side of a copy */

Side side_of(Simple *s, const IrRegion *r, const Frag *iter) {
  Side x = {.r = r, .frag = low_place_of(s, r->buf)->frag, .width = 1, .axis = -1};
  if (!x.frag) {
    int64_t w = expand_vector_axis(s, r, &x.axis);
    x.width = x.axis < 0 ? 1 : base_least(w, frag_run(iter, x.axis));
    x.width = base_least(x.width, VECTOR_BYTES / (int64_t)dtype_size(r->buf->dtype));
  }
  return x;
}

/* ---------------------------------------------------------------- addresses */

/* Linear element offset in a tensor. */
IrExpr *side_global_offset(Simple *s, IrBuffer *b, IrExpr *const *at) {
  IrKernel *k = s->k;
  LowerFact fact = lower_fact(s->request, b);
  DType t = fact.index32 ? DT_I32 : DT_I64;
  IrExpr *sum = ir_int_of(k, t, 0), *row = ir_int_of(k, t, 1);
  for (int d = b->rank - 1; d >= 0; d--) {
    IrExpr *stride = fact.unit_axis == d ? ir_int_of(k, t, 1)
                     : b->stride[d]      ? ir_cast(k, ir_ref(k, b->stride[d]), t)
                                         : row;
    sum = low_add(s, sum, low_mul(s, ir_cast(k, at[d], t), stride));
    row = low_mul(s, row, ir_cast(k, b->extent[d], t));
  }
  return sum;
}

/* e % n, without the parts that n divides. */
static IrExpr *remainder_of(Simple *s, IrExpr *e, int64_t n) {
  if (expand_divisor(s, e) % n == 0)
    return low_i32(s, 0);
  if (e->op == OP_ADD && expand_divisor(s, e->arg[0]) % n == 0)
    return remainder_of(s, e->arg[1], n);
  if (e->op == OP_ADD && expand_divisor(s, e->arg[1]) % n == 0)
    return remainder_of(s, e->arg[0], n);
  return ir_op2(s->k, OP_MOD, e, low_i32(s, n));
}

/* The axis of a tile whose neighbours lie next to each other; of a tile that has one axis, that. */
static int inner_axis(const Place *p) {
  return p->columns ? p->rank - 2 : p->rank - 1;
}

/* The i-th axis from the slowest, in memory. */
static int axis_in_memory(const Place *p, int i) {
  return p->columns && i >= p->rank - 2 ? 2 * p->rank - 3 - i : i;
}

/* 0, 2, 4, … and then 1, 3, 5, … */
static IrExpr *twisted(Simple *s, IrExpr *turn, int64_t half) {
  IrExpr *even = low_mul(s, ir_op2(s->k, OP_MOD, turn, low_i32(s, half)), low_i32(s, 2));
  return low_add(s, even, low_quotient(s, turn, half));
}

IrExpr *expand_offset(Simple *s, const IrBuffer *b, IrExpr *const *at) {
  const Place *p = low_place_of(s, b);
  int64_t each = 16 / (int64_t)dtype_size(b->dtype);
  IrExpr *row = low_i32(s, 0), *col = low_i32(s, 0);
  for (int i = 0; i < p->rank; i++) {
    int d = axis_in_memory(p, i);
    IrExpr *x = ir_cast(s->k, at[d], DT_I32);
    if (i < p->rank - 1)
      row = low_add(s, low_mul(s, row, low_i32(s, p->extent[d])), x);
    else
      col = x;
  }
  if (p->chunks > 1) {
    IrExpr *turn = remainder_of(s, row, (int64_t)p->chunks * p->chunk_rows);
    turn = low_quotient(s, turn, p->chunk_rows);
    turn = low_mul(s, p->twist ? twisted(s, turn, p->chunks / 2) : turn, low_i32(s, each));
    col = ir_op2(s->k, OP_XOR, col, turn);
  }
  int64_t pitch = p->rank ? p->extent[inner_axis(p)] + p->pad : 1;
  IrExpr *panels = low_i32(s, 0);
  if (p->panel) {
    bool one = p->panel >= pitch;
    pitch = p->panel;
    if (!one) {
      panels = low_mul(s, low_quotient(s, col, pitch), low_i32(s, p->extent[0] * pitch));
      col = ir_op2(s->k, OP_MOD, col, low_i32(s, pitch));
    }
  }
  IrExpr *sum = low_add(s, panels, low_add(s, low_mul(s, row, low_i32(s, pitch)), col));
  if (p->map)
    sum = expand_mapped(s, p, at);
  if (p->stage)
    sum =
        low_add(s, low_mul(s, p->stage, low_i32(s, p->bytes / (int64_t)dtype_size(b->dtype))), sum);
  return sum;
}

/* Byte address of an element of a shared tile, u32 or i32. */
IrExpr *expand_shared_address(Simple *s, const IrBuffer *b, IrExpr *const *at) {
  IrExpr *offset = low_mul(s, expand_offset(s, b, at), low_i32(s, (int64_t)dtype_size(b->dtype)));
  return low_add(s, low_i32(s, b->offset), offset);
}

void side_move(Simple *s, bool load, IrBuffer *b, IrExpr *const *at, IrOperand regs) {
  bool global = b->space == IRS_GLOBAL;
  IrOperand *o = ARENA_ARRAY(s->k->arena, IrOperand, 2);
  IrOperand mem =
      global ? (IrOperand){.kind = IRO_GLOBAL, .buf = b, .expr = side_global_offset(s, b, at)}
             : (IrOperand){.kind = IRO_EXPR, .expr = expand_shared_address(s, b, at)};
  IrStmt *st = low_emit(s, IRK_OP);
  o[load ? 0 : 1] = regs;
  o[load ? 1 : 0] = mem;
  OpCode op = global ? (load ? OP_LD_GLOBAL : OP_ST_GLOBAL) : (load ? OP_LD_SHARED : OP_ST_SHARED);
  st->as.op = (IrOp){op, o, 2};
}

/* ---------------------------------------------------------------- inside */

static IrExpr *clamped(Simple *s, IrExpr *e, int64_t n) {
  IrExpr *c = ir_op3(s->k, OP_CLAMP, e, low_i64(s, 0), low_i64(s, n));
  return ir_cast(s->k, c, DT_I32);
}

/* Coordinates c of 0 <= o + c*step < end, within [0, n]: those from *low below *high; NULL where
 * it is known that nothing lies outside on that side. */
static void bounds(Simple *s, const IrAxis *x, IrExpr *end, int64_t n, IrExpr **low,
                   IrExpr **high) {
  IrKernel *k = s->k;
  int64_t lo, hi, e, e_hi, step = x->step < 0 ? -x->step : x->step;
  bool known = ir_range(x->origin, &lo, &hi), down = x->step < 0;
  int64_t way = (n - 1) * x->step, least, most;
  bool first = known && !__builtin_add_overflow(lo, down ? way : 0, &least) && least >= 0;
  bool last = known && ir_range(end, &e, &e_hi) &&
              !__builtin_add_overflow(hi, down ? 0 : way, &most) && most < e;
  IrExpr *size = low_i64(s, step), *zero = low_i64(s, 0);
  IrExpr *from = down ? ir_op2(k, OP_SUB, x->origin, end) : ir_op2(k, OP_SUB, zero, x->origin);
  IrExpr *to = down ? x->origin : ir_op2(k, OP_SUB, end, x->origin);
  *low = *high = NULL;
  if (down ? !last : !first)
    *low = clamped(s,
                   down ? low_add(s, ir_op2(k, OP_FLOORDIV, from, size), low_i64(s, 1))
                        : ir_op2(k, OP_CEILDIV, from, size),
                   n);
  if (down ? !first : !last)
    *high = clamped(s,
                    down ? low_add(s, ir_op2(k, OP_FLOORDIV, to, size), low_i64(s, 1))
                         : ir_op2(k, OP_CEILDIV, to, size),
                    n);
}

/* The whole region lies outside where a dropped axis' index does. */
static IrExpr *dropped_inside(Simple *s, const IrRegion *r) {
  IrExpr *in = NULL;
  for (int d = 0; d < r->buf->rank; d++) {
    IrExpr *low, *high;
    IrAxis x = r->axis[d];
    if (x.keep)
      continue;
    x.step = 1;
    bounds(s, &x, low_extent_of(s, r->buf, d), 1, &low, &high);
    if (low)
      in = low_both(s, in, ir_op2(s->k, OP_EQ, low, low_i32(s, 0)));
    if (high)
      in = low_both(s, in, ir_op2(s->k, OP_EQ, high, low_i32(s, 1)));
  }
  return in;
}

static IrExpr *named(Simple *s, const char *name, IrExpr *e) {
  return e && e->nargs ? ir_ref(s->k, low_emit_let(s, name, e)) : e;
}

/* One i64 computation a block and axis; each element then costs a 32-bit comparison. */
void side_set_limits(Simple *s, Side *x, const Shape *shape) {
  const IrRegion *r = x->r;
  for (int d = 0; d < r->buf->rank; d++) {
    const IrAxis *axis = &r->axis[d];
    if (!axis->keep || !(low_is_global(s, r) || axis->stop))
      continue;
    int j = kept_axis(r, d);
    IrExpr *end = low_extent_of(s, r->buf, d);
    end = axis->stop ? ir_op2(s->k, OP_MIN2, end, axis->stop) : end;
    bounds(s, axis, end, shape->extent[j], &x->low[j], &x->high[j]);
  }
  IrExpr *in = low_is_global(s, r) ? dropped_inside(s, r) : NULL;
  if (in) {
    IrExpr *most = x->high[0] ? x->high[0] : low_i32(s, shape->extent[0]);
    x->high[0] = ir_op3(s->k, OP_SELECT, in, most, low_i32(s, 0));
  }
  for (int j = 0; j < shape->rank; j++) {
    x->low[j] = named(s, "begin", x->low[j]);
    x->high[j] = named(s, "end", x->high[j]);
  }
}

/* Whether nothing of it lies outside; NULL: certainly not. */
IrExpr *side_all_inside(Simple *s, const Side *x, const Shape *shape) {
  IrExpr *in = NULL;
  for (int j = 0; j < shape->rank; j++) {
    if (x->low[j])
      in = low_both(s, in, ir_op2(s->k, OP_EQ, x->low[j], low_i32(s, 0)));
    if (x->high[j])
      in = low_both(s, in, ir_op2(s->k, OP_EQ, x->high[j], low_i32(s, shape->extent[j])));
  }
  return in;
}

/* Whether the elements from the e-th to the one before the f-th along the vectors' axis lie inside;
 * NULL: always. */
IrExpr *side_inside(Simple *s, const Side *x, const Point *p, int64_t e, int64_t f) {
  IrExpr *in = NULL;
  for (int j = 0; j < p->frag->rank; j++) {
    bool along = j == x->axis;
    IrExpr *last = along ? low_add(s, p->at[j], low_i32(s, f - 1)) : p->at[j];
    IrExpr *first = along ? low_add(s, p->at[j], low_i32(s, e)) : p->at[j];
    if (x->low[j])
      in = low_both(s, in, ir_op2(s->k, OP_GE, first, x->low[j]));
    if (x->high[j])
      in = low_both(s, in, ir_op2(s->k, OP_LT, last, x->high[j]));
  }
  return in;
}

/* ---------------------------------------------------------------- memory to memory */

/* A tensor's side decides, and of two the one that is read. */
Frag side_layout(Simple *s, const IrCopy *c, const Shape *shape) {
  int to = shape->rank - 1, from = shape->rank - 1;
  int64_t v = expand_vector_axis(s, &c->dst, &to), w = expand_vector_axis(s, &c->src, &from);
  bool read = low_is_global(s, &c->src) || !low_is_global(s, &c->dst);
  int axis = read ? from : to;
  int64_t width = base_least(read ? w : v, VECTOR_BYTES / (int64_t)dtype_size(c->src.buf->dtype));
  while (shape->extent[axis] % width)
    width /= 2;
  /* Across a tile's rows: 8 threads along the vectors and 4 across meet 32 banks, where the rows'
   * parts change places (expand_store.c). */
  bool turned = to != from && shape->rank > 1;
  return frag_rows_of(shape->rank, shape->extent, axis, width, s->threads, turned ? 8 : s->threads);
}
