/* expand_copy.c: copies by threads, in vectors.
 *
 * In: COPY between tensors, shared tiles and fragments. Out: accesses of up to 16 bytes where unit
 * stride, alignment and the origin allow them; everything is read before anything is written, so
 * that many loads are in flight. Always holds: a block whose part lies inside its tensor takes a
 * version without checks; at the edge each group of elements is checked once, and element by
 * element only where it crosses the edge. Tests: tests/unit/check_expand.c.
 */
#include "expand.h"

enum { VECTOR_BYTES = 16, MOST_STAGED = 64 };

/* ---------------------------------------------------------------- what divides an expression */

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* A power of two that divides it, at most 2^20. */
int64_t expand_divisor(Simple *s, const IrExpr *e) {
  enum { MOST = 1 << 20 };
  int64_t c;
  if (ir_is_const(e, &c))
    return c == 0 ? MOST : least(c & -c, MOST);
  switch (e->op) {
  case OP_VAR:
    return e->as.var->id < s->divisor.n && s->divisor.v[e->as.var->id] ? s->divisor.v[e->as.var->id]
                                                                       : 1;
  case OP_MUL:
    return least(expand_divisor(s, e->arg[0]) * expand_divisor(s, e->arg[1]), MOST);
  case OP_ADD:
  case OP_SUB:
  case OP_MIN2:
  case OP_MAX2:
    return least(expand_divisor(s, e->arg[0]), expand_divisor(s, e->arg[1]));
  case OP_SELECT:
    return least(expand_divisor(s, e->arg[1]), expand_divisor(s, e->arg[2]));
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
static int unit_axis(Simple *s, const IrBuffer *b) {
  const Place *p = low_place_of(s, b);
  if (p->tile)
    return p->spilled ? -1 : p->rank - 1;
  LowerFact fact = lower_fact(s->request, b);
  return fact.unit_axis >= 0 ? fact.unit_axis : -1;
}

/* Elements of one access that the memory of a buffer allows: a power of two. */
static int64_t aligned_elements(Simple *s, const IrBuffer *b) {
  const Place *p = low_place_of(s, b);
  int64_t size = (int64_t)dtype_size(b->dtype), align = VECTOR_BYTES;
  if (!p->tile)
    align = lower_fact(s->request, b).align;
  else if (p->rank > 1) {
    int64_t pitch = p->extent[p->rank - 1] * size;
    align = least(align, pitch & -pitch);
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
  int unit = unit_axis(s, r->buf);
  if (unit < 0 || !r->axis[unit].keep)
    return 1;
  *axis = kept_axis(r, unit);
  if (r->axis[unit].step != 1)
    return 1;
  return least(aligned_elements(s, r->buf), expand_divisor(s, r->axis[unit].origin));
}

/* ---------------------------------------------------------------- one side of a copy */

typedef struct Side {
  const IrRegion *r;
  const Frag *frag;                             /* registers; NULL: memory */
  int64_t width;                                /* elements of one access … */
  int axis;                                     /* … along this axis of the copy; -1: not known */
  IrExpr *low[IR_MAX_RANK], *high[IR_MAX_RANK]; /* coordinates that lie inside, i32; NULL: all */
} Side;

typedef struct Move {
  Simple *s;
  const IrCopy *c;
  Shape shape;
  Frag iter;
  Side dst, src;
  bool edge;       /* elements may lie outside */
  bool raw;        /* bits move as they are, as words */
  IrBuffer *stage; /* memory to memory: what is in flight */
} Move;

/* Elements next to each other in a thread's registers along an axis. */
static int64_t run_of(const Frag *f, int axis) {
  if (f->nreg == 0 || f->reg[0].axis != axis || f->reg[0].step != 1)
    return 1;
  int64_t w = f->reg[0].extent & -f->reg[0].extent;
  for (int i = 1; i < f->nreg; i++)
    if (f->reg[i].axis == axis)
      w = least(w, f->reg[i].step & -f->reg[i].step);
  for (int i = 0; i < f->nthread; i++)
    if (f->thread[i].axis == axis)
      w = least(w, f->thread[i].step & -f->thread[i].step);
  return least(w, f->extent[axis] & -f->extent[axis]);
}

static Side side_of(Simple *s, const IrRegion *r, const Frag *iter) {
  Side x = {.r = r, .frag = low_place_of(s, r->buf)->frag, .width = 1, .axis = -1};
  if (!x.frag) {
    int64_t w = expand_vector_axis(s, r, &x.axis);
    x.width = x.axis < 0 ? 1 : least(w, run_of(iter, x.axis));
    x.width = least(x.width, VECTOR_BYTES / (int64_t)dtype_size(r->buf->dtype));
  }
  return x;
}

static IrOperand regs_operand(IrBuffer *b, IrExpr *first, int64_t n) {
  return (IrOperand){.kind = IRO_REGS, .buf = b, .expr = first, .count = (int)n};
}

/* ---------------------------------------------------------------- addresses */

/* Linear element offset in a tensor. */
static IrExpr *global_offset(Simple *s, IrBuffer *b, IrExpr *const *at) {
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

/* Byte address of an element of a shared tile, u32 or i32. */
IrExpr *expand_shared_address(Simple *s, const IrBuffer *b, IrExpr *const *at) {
  const Place *p = low_place_of(s, b);
  int64_t size = (int64_t)dtype_size(b->dtype);
  IrExpr *sum = low_i32(s, 0);
  for (int d = 0; d < p->rank; d++)
    sum = low_add(s, low_mul(s, sum, low_i32(s, p->extent[d])), ir_cast(s->k, at[d], DT_I32));
  IrExpr *base = low_i32(s, b->offset);
  if (p->stage)
    base = low_add(s, base, low_mul(s, p->stage, low_i32(s, p->bytes)));
  return low_add(s, base, low_mul(s, sum, low_i32(s, size)));
}

/* One vector between registers (of b's dtype, or words of its bits) and memory. */
static void emit_vector(Simple *s, bool load, IrBuffer *b, IrExpr *const *at, IrOperand regs) {
  bool global = b->space == IRS_GLOBAL;
  IrOperand *o = ARENA_ARRAY(s->k->arena, IrOperand, 2);
  IrOperand mem = global
                      ? (IrOperand){.kind = IRO_GLOBAL, .buf = b, .expr = global_offset(s, b, at)}
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
  int64_t way = (n - 1) * x->step;
  bool first = known && lo + (down ? way : 0) >= 0;
  bool last = known && ir_range(end, &e, &e_hi) && hi + (down ? 0 : way) < e;
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
static void set_limits(Simple *s, Side *x, const Shape *shape) {
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
static IrExpr *all_inside(Simple *s, const Side *x, const Shape *shape) {
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
static IrExpr *inside(Simple *s, const Side *x, const Point *p, int64_t e, int64_t f) {
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

/* ---------------------------------------------------------------- reading a group */

static IrExpr *padding(Simple *s, const IrCopy *c) {
  Scalar zero = {.type = DT_I64};
  return c->pad ? c->pad : ir_const(s->k, scalar_convert(zero, c->src.buf->dtype));
}

/* Indices of the point's e-th neighbour, in the buffer. */
static void neighbour(Move *m, const Side *x, const Point *p, int64_t e, IrExpr **at) {
  low_region_index(m->s, x->r, p->index, at);
  int unit = unit_axis(m->s, x->r->buf);
  if (e && unit >= 0)
    at[unit] = low_add(m->s, at[unit], low_i64(m->s, e));
}

/* One element that may lie outside: a choice between a load and the padding. */
static void read_element(Move *m, const Point *p, int64_t e, IrBuffer *to, IrExpr *r) {
  Simple *s = m->s;
  IrExpr *at[IR_MAX_RANK];
  neighbour(m, &m->src, p, e, at);
  IrExpr *in = m->edge ? inside(s, &m->src, p, e, e + 1) : NULL;
  IrAccess reg = {.buf = to, .index = {r}};
  if (in)
    low_emit_store(s, reg, padding(s, m->c));
  IrBlock *before = low_enter_if(s, in);
  IrVar *v = low_emit_load(s, "x", low_access_at(s, m->src.r->buf, at));
  low_emit_store(s, reg, ir_ref(s->k, v));
  low_enter(s, before);
}

/* `width` elements of the source's dtype to registers from r on. */
static void read_group(Move *m, const Point *p, IrBuffer *to, IrExpr *r) {
  Simple *s = m->s;
  IrExpr *at[IR_MAX_RANK];
  int64_t w = m->src.width;
  IrBlock *before = s->out;
  neighbour(m, &m->src, p, 0, at);
  if (w > 1) {
    IrExpr *in = m->edge ? inside(s, &m->src, p, 0, w) : NULL;
    IrStmt *branch = in ? low_emit_if(s, in) : NULL;
    if (branch)
      low_enter(s, &branch->as.if_.then);
    emit_vector(s, true, m->src.r->buf, at, regs_operand(to, r, w));
    low_enter(s, before);
    if (!branch)
      return;
    low_enter(s, &branch->as.if_.other);
  }
  for (int64_t e = 0; e < w; e++)
    read_element(m, p, e, to, low_add(s, r, low_i32(s, e)));
  low_enter(s, before);
}

/* ---------------------------------------------------------------- writing a group */

static void write_element(Move *m, const Point *p, int64_t e, IrBuffer *from, IrExpr *r) {
  Simple *s = m->s;
  IrExpr *at[IR_MAX_RANK];
  neighbour(m, &m->dst, p, e, at);
  IrBlock *before = low_enter_if(s, m->edge ? inside(s, &m->dst, p, e, e + 1) : NULL);
  IrVar *v = low_emit_load(s, "x", (IrAccess){.buf = from, .index = {r}});
  low_emit_store(s, low_access_at(s, m->dst.r->buf, at), ir_ref(s->k, v));
  low_enter(s, before);
}

static void write_group(Move *m, const Point *p, IrBuffer *from, IrExpr *r) {
  Simple *s = m->s;
  IrExpr *at[IR_MAX_RANK];
  int64_t w = m->dst.width;
  IrBlock *before = s->out;
  neighbour(m, &m->dst, p, 0, at);
  if (w > 1) {
    IrExpr *in = m->edge ? inside(s, &m->dst, p, 0, w) : NULL;
    IrStmt *branch = in ? low_emit_if(s, in) : NULL;
    if (branch)
      low_enter(s, &branch->as.if_.then);
    emit_vector(s, false, m->dst.r->buf, at, regs_operand(from, r, w));
    low_enter(s, before);
    if (!branch)
      return;
    low_enter(s, &branch->as.if_.other);
  }
  for (int64_t e = 0; e < w; e++)
    write_element(m, p, e, from, low_add(s, r, low_i32(s, e)));
  low_enter(s, before);
}

/* ---------------------------------------------------------------- between dtypes */

static IrBuffer *registers(Simple *s, const char *name, DType t, int64_t n) {
  IrExpr *extent = low_i64(s, n);
  IrBuffer *b = ir_buffer(s->k, IRS_REG, name, t, 1, &extent);
  low_emit(s, IRK_ALLOC)->as.alloc = b;
  return b;
}

/* to[at + e] = from[r + e], converted. */
static void convert(Simple *s, IrBuffer *to, IrExpr *at, IrBuffer *from, IrExpr *r, int64_t n) {
  for (int64_t e = 0; e < n; e++) {
    IrVar *v =
        low_emit_load(s, "x", (IrAccess){.buf = from, .index = {low_add(s, r, low_i32(s, e))}});
    low_emit_store(s, (IrAccess){.buf = to, .index = {low_add(s, at, low_i32(s, e))}},
                   ir_cast(s->k, ir_ref(s->k, v), to->dtype));
  }
}

/* All axes of the iteration, in order. */
static IrExpr *register_of(Simple *s, const Point *p) {
  int all[IR_MAX_RANK];
  for (int d = 0; d < p->frag->rank; d++)
    all[d] = d;
  return expand_register(s, p, p->frag->rank, all);
}

/* From memory to registers of the source's dtype, then converted where they differ. */
static void load_all(Move *m, IrBuffer *to) {
  Simple *s = m->s;
  Point p;
  IrBlock *before;
  DType t = m->src.r->buf->dtype;
  expand_open(s, &m->iter, m->src.width, &p, &before);
  IrExpr *r = register_of(s, &p);
  if (to->dtype == t) {
    read_group(m, &p, to, r);
  } else {
    IrBuffer *x = registers(s, "in", t, m->src.width);
    read_group(m, &p, x, low_i32(s, 0));
    convert(s, to, r, x, low_i32(s, 0), m->src.width);
  }
  low_enter(s, before);
}

/* One of the threads that hold the same writes. */
static void store_all(Move *m, IrBuffer *from) {
  Simple *s = m->s;
  Point p;
  IrBlock *outer = s->out, *before;
  DType t = m->dst.r->buf->dtype;
  low_enter_if(s, expand_is_owner(s, &m->iter));
  expand_open(s, &m->iter, m->dst.width, &p, &before);
  IrExpr *r = register_of(s, &p);
  if (from->dtype == t) {
    write_group(m, &p, from, r);
  } else {
    IrBuffer *x = registers(s, "out", t, m->dst.width);
    convert(s, x, low_i32(s, 0), from, r, m->dst.width);
    write_group(m, &p, x, low_i32(s, 0));
  }
  low_enter(s, outer);
}

/* ---------------------------------------------------------------- the statement */

static IrBuffer *home_of(Move *m, const Side *x) {
  return low_place_of(m->s, x->r->buf)->home;
}

/* Registers to registers of one layout. */
static void move_registers(Move *m) {
  Simple *s = m->s;
  Point p;
  IrBlock *before;
  expand_open(s, &m->iter, 1, &p, &before);
  IrExpr *r = register_of(s, &p);
  convert(s, home_of(m, &m->dst), r, home_of(m, &m->src), r, 1);
  low_enter(s, before);
}

/* One version: with or without an edge. */
static void move(Move *m, bool edge) {
  Simple *s = m->s;
  m->edge = edge;
  if (m->dst.frag && m->src.frag)
    move_registers(m);
  else if (m->dst.frag)
    load_all(m, home_of(m, &m->dst));
  else if (m->src.frag)
    store_all(m, home_of(m, &m->src));
  else {
    IrBuffer *stage = registers(s, "stage", m->src.r->buf->dtype, frag_registers(&m->iter));
    load_all(m, stage);
    store_all(m, stage);
  }
}

/* Both versions where the block's place decides. */
static void move_by_place(Move *m) {
  Simple *s = m->s;
  IrExpr *in = NULL;
  if (!m->src.frag) {
    set_limits(s, &m->src, &m->shape);
    in = low_both(s, in, all_inside(s, &m->src, &m->shape));
  }
  if (!m->dst.frag) {
    set_limits(s, &m->dst, &m->shape);
    in = low_both(s, in, all_inside(s, &m->dst, &m->shape));
  }
  if (!in) {
    move(m, false);
    return;
  }
  IrStmt *branch = low_emit_if(s, ir_ref(s->k, low_emit_let(s, "inside", in)));
  IrBlock *before = low_enter(s, &branch->as.if_.then);
  move(m, false);
  low_enter(s, &branch->as.if_.other);
  move(m, true);
  low_enter(s, before);
}

/* Layout of a copy that touches no fragment: along the widest side. */
static bool plan_move(Simple *s, Move *m) {
  int axis = m->shape.rank - 1, other = m->shape.rank - 1;
  int64_t v = expand_vector_axis(s, m->dst.r, &axis);
  int64_t w = expand_vector_axis(s, m->src.r, &other);
  int64_t bytes = VECTOR_BYTES / (int64_t)dtype_size(m->src.r->buf->dtype);
  bool global = low_is_global(s, m->src.r) || !low_is_global(s, m->dst.r);
  axis = global ? other : axis;
  v = least(global ? w : v, bytes);
  while (m->shape.extent[axis] % v)
    v /= 2;
  m->iter = frag_rows(m->shape.rank, m->shape.extent, axis, v, s->threads);
  return frag_registers(&m->iter) <= MOST_STAGED;
}

/* A tile's region must be known to lie in it; one that runs over itself is held by simple.h. */
static bool lies_inside(Simple *s, const IrRegion *r) {
  if (low_is_global(s, r))
    return true;
  const Place *p = low_place_of(s, r->buf);
  for (int d = 0; d < p->rank; d++) {
    int64_t lo, hi;
    const IrAxis *x = &r->axis[d];
    if (x->stop || !ir_range(x->origin, &lo, &hi) || lo < 0 ||
        hi + (x->extent - 1) * x->step >= p->extent[d])
      return false;
  }
  return true;
}

bool expand_copy(Simple *s, IrStmt *st) {
  const IrCopy *c = &st->as.copy;
  Move m = {.s = s, .c = c, .shape = low_shape_of(s, &c->dst, &c->src)};
  const Frag *dst = low_place_of(s, c->dst.buf)->frag, *src = low_place_of(s, c->src.buf)->frag;
  m.dst.r = &c->dst;
  m.src.r = &c->src;
  if (c->dst.buf == c->src.buf || m.shape.rank == 0 || low_count_of(&m.shape) == 0 ||
      low_place_of(s, c->dst.buf)->spilled || low_place_of(s, c->src.buf)->spilled ||
      !lies_inside(s, &c->dst) || !lies_inside(s, &c->src))
    return false;
  if (dst || src)
    m.iter = dst ? *dst : *src;
  else if (!plan_move(s, &m))
    return false;
  m.dst = side_of(s, &c->dst, &m.iter);
  m.src = side_of(s, &c->src, &m.iter);
  low_note_buffer(s, c->dst.buf, IR_WRITES);
  low_note_buffer(s, c->src.buf, IR_READS);
  low_fence(s);
  move_by_place(&m);
  return true;
}
