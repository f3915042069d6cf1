/* expand_copy.c: copies by threads, in vectors.
 *
 * In: COPY between tensors, shared tiles and fragments. Out: accesses of up to 16 bytes where unit
 * stride, alignment and the origin allow them; everything is read before anything is written, so
 * that many loads are in flight. Always holds: a block whose part lies inside its tensor takes a
 * version without checks; at the edge each group of elements is checked once, and element by
 * element only where it crosses the edge. Tests: tests/unit/check_lower.c.
 */
#include "expand_side.h"
#include "hopper.h"

typedef struct Move {
  Simple *s;
  const IrCopy *c;
  Shape shape;
  Frag iter;
  IrBuffer *pairs; /* the source's registers in the order of iter; NULL: they are */
  Side dst, src;
  bool edge;       /* elements may lie outside */
  IrBuffer *stage; /* memory to memory: what is in flight */
} Move;

/* ---------------------------------------------------------------- moving a group */

/* The source's type cannot hold it: it takes its place where elements have the target's. */
static bool pads_late(const IrCopy *c) {
  return c->pad && c->pad->type != c->src.buf->dtype;
}

static IrExpr *padding(Simple *s, const IrCopy *c) {
  Scalar zero = {.type = DT_I64};
  return c->pad && !pads_late(c) ? c->pad : ir_const(s->k, scalar_convert(zero, c->src.buf->dtype));
}

/* Indices of the point's e-th neighbour, in the buffer. */
static void neighbour(Move *m, const Side *x, const Point *p, int64_t e, IrExpr **at) {
  low_region_index(m->s, x->r, p->index, at);
  int unit = side_unit_axis(m->s, x->r->buf);
  if (e && unit >= 0)
    at[unit] = low_add(m->s, at[unit], low_i64(m->s, e));
}

/* One element that may lie outside: a choice between a load and the padding. */
static void read_element(Move *m, const Point *p, int64_t e, IrBuffer *to, IrExpr *r) {
  Simple *s = m->s;
  IrExpr *at[IR_MAX_RANK];
  neighbour(m, &m->src, p, e, at);
  IrExpr *in = m->edge ? side_inside(s, &m->src, p, e, e + 1) : NULL;
  IrAccess reg = {.buf = to, .index = {r}};
  if (in)
    low_emit_store(s, reg, padding(s, m->c));
  IrBlock *before = low_enter_if(s, in);
  IrVar *v = low_emit_load(s, "x", low_access_at(s, m->src.r->buf, at));
  low_emit_store(s, reg, ir_ref(s->k, v));
  low_enter(s, before);
}

static void write_element(Move *m, const Point *p, int64_t e, IrBuffer *from, IrExpr *r) {
  Simple *s = m->s;
  IrExpr *at[IR_MAX_RANK];
  neighbour(m, &m->dst, p, e, at);
  IrBlock *before = low_enter_if(s, m->edge ? side_inside(s, &m->dst, p, e, e + 1) : NULL);
  IrVar *v = low_emit_load(s, "x", (IrAccess){.buf = from, .index = {r}});
  low_emit_store(s, low_access_at(s, m->dst.r->buf, at), ir_ref(s->k, v));
  low_enter(s, before);
}

/* The side's `width` elements to registers from r on, or from them: in one access where all lie
 * inside, else one by one. */
static void move_group(Move *m, bool reads, const Point *p, IrBuffer *regs, IrExpr *r) {
  Simple *s = m->s;
  const Side *side = reads ? &m->src : &m->dst;
  IrExpr *at[IR_MAX_RANK];
  int64_t w = side->width;
  IrBlock *before = s->out;
  neighbour(m, side, p, 0, at);
  if (w > 1) {
    IrExpr *in = m->edge ? side_inside(s, side, p, 0, w) : NULL;
    IrStmt *branch = in ? low_emit_if(s, in) : NULL;
    if (branch)
      low_enter(s, &branch->as.if_.then);
    side_move(s, reads, side->r->buf, at, low_regs(regs, r, w));
    low_enter(s, before);
    if (!branch)
      return;
    low_enter(s, &branch->as.if_.other);
  }
  for (int64_t e = 0; e < w; e++)
    (reads ? read_element : write_element)(m, p, e, regs, low_add(s, r, low_i32(s, e)));
  low_enter(s, before);
}

/* ---------------------------------------------------------------- between dtypes */

/* to[at + e] = from[r + e], converted. */
static void convert(Simple *s, IrBuffer *to, IrExpr *at, IrBuffer *from, IrExpr *r, int64_t n) {
  for (int64_t e = 0; e < n; e++) {
    IrVar *v =
        low_emit_load(s, "x", (IrAccess){.buf = from, .index = {low_add(s, r, low_i32(s, e))}});
    low_emit_store(s, (IrAccess){.buf = to, .index = {low_add(s, at, low_i32(s, e))}},
                   ir_cast(s->k, ir_ref(s->k, v), to->dtype));
  }
}

/* Of the source's n elements at p, now converted in registers from `at` on, those outside. */
static void pad_late(Move *m, const Point *p, IrBuffer *to, IrExpr *at, int64_t n) {
  Simple *s = m->s;
  for (int64_t e = 0; m->edge && pads_late(m->c) && e < n; e++) {
    IrExpr *in = side_inside(s, &m->src, p, e, e + 1);
    IrAccess reg = {.buf = to, .index = {low_add(s, at, low_i32(s, e))}};
    if (!in)
      continue;
    IrExpr *x = ir_ref(s->k, low_emit_load(s, "x", reg));
    low_emit_store(s, reg, ir_op3(s->k, OP_SELECT, in, x, m->c->pad));
  }
}

/* From memory to registers of the source's dtype, then converted where they differ. */
static void load_all(Move *m, IrBuffer *to) {
  Simple *s = m->s;
  Point p;
  IrBlock *before;
  DType t = m->src.r->buf->dtype;
  expand_open(s, &m->iter, m->src.width, &p, &before);
  IrExpr *r = expand_register(s, &p, p.frag->rank, NULL);
  if (to->dtype == t) {
    move_group(m, true, &p, to, r);
  } else {
    IrBuffer *x = low_registers(s, "in", t, m->src.width);
    move_group(m, true, &p, x, low_i32(s, 0));
    convert(s, to, r, x, low_i32(s, 0), m->src.width);
    pad_late(m, &p, to, r, m->src.width);
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
  IrExpr *r = expand_register(s, &p, p.frag->rank, NULL);
  if (from->dtype == t) {
    move_group(m, false, &p, from, r);
  } else {
    IrBuffer *x = low_registers(s, "out", t, m->dst.width);
    convert(s, x, low_i32(s, 0), from, r, m->dst.width);
    move_group(m, false, &p, x, low_i32(s, 0));
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
  IrExpr *r = expand_register(s, &p, p.frag->rank, NULL);
  convert(s, home_of(m, &m->dst), r, home_of(m, &m->src), r, 1);
  low_enter(s, before);
}

/* Group by group: at an edge little code is better than much in flight. */
static void move_rolled(Move *m) {
  Simple *s = m->s;
  Point p;
  IrBlock *outer = s->out, *before;
  int64_t width = m->src.width < m->dst.width ? m->src.width : m->dst.width;
  IrBuffer *in = low_registers(s, "group", m->src.r->buf->dtype, width), *out = in;
  if (m->dst.r->buf->dtype != in->dtype)
    out = low_registers(s, "out", m->dst.r->buf->dtype, width);
  m->src.width = m->dst.width = width;
  low_enter_if(s, expand_is_owner(s, &m->iter));
  s->rolled = true;
  expand_open(s, &m->iter, width, &p, &before);
  s->rolled = false;
  move_group(m, true, &p, in, low_i32(s, 0));
  if (out != in) {
    convert(s, out, low_i32(s, 0), in, low_i32(s, 0), width);
    pad_late(m, &p, out, low_i32(s, 0), width);
  }
  move_group(m, false, &p, out, low_i32(s, 0));
  low_enter(s, outer);
}

/* Elements that wait in a thread's registers: few where a role's threads have few. */
static int64_t most_in_flight(const Simple *s) {
  enum { ADDRESSES = 32 };
  int64_t room = s->role_registers - ADDRESSES;
  return !s->role_registers || room > MOST_STAGED ? MOST_STAGED : room;
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
    store_all(m, m->pairs ? m->pairs : home_of(m, &m->src));
  else if (edge || frag_registers(&m->iter) > most_in_flight(m->s))
    move_rolled(m);
  else {
    IrBuffer *stage = low_registers(s, "stage", m->src.r->buf->dtype, frag_registers(&m->iter));
    load_all(m, stage);
    store_all(m, stage);
  }
}

/* Both versions where the block's place decides. */
static void move_by_place(Move *m) {
  Simple *s = m->s;
  IrExpr *in = NULL;
  if (!m->src.frag) {
    side_set_limits(s, &m->src, &m->shape);
    in = low_both(s, in, side_all_inside(s, &m->src, &m->shape));
  }
  if (!m->dst.frag) {
    side_set_limits(s, &m->dst, &m->shape);
    in = low_both(s, in, side_all_inside(s, &m->dst, &m->shape));
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

bool expand_takes_copy(Simple *s, const IrCopy *c) {
  Shape shape = low_shape_of(s, &c->dst, &c->src);
  return c->dst.buf != c->src.buf && shape.rank > 0 && low_count_of(&shape) > 0 &&
         !low_place_of(s, c->dst.buf)->spilled && !low_place_of(s, c->src.buf)->spilled &&
         lies_inside(s, &c->dst) && lies_inside(s, &c->src);
}

/* The layout's first two register digits the other way round, where the second is one of
 * neighbours in memory and the first is not: those of a product whose operand turned. */
static bool neighbours_second(Simple *s, const IrRegion *to, const Frag *f, Frag *out) {
  int axis = -1;
  *out = *f;
  if (!low_is_global(s, to) || expand_vector_axis(s, to, &axis) < 2 || f->nreg < 2 ||
      f->reg[0].axis == axis || f->reg[1].axis != axis || f->reg[1].step != 1)
    return false;
  out->reg[0] = f->reg[1];
  out->reg[1] = f->reg[0];
  return true;
}

/* The source's registers in the order of the other layout: names, once the loops are unrolled. */
static IrBuffer *reordered(Move *m, const Frag *f) {
  Simple *s = m->s;
  IrBuffer *from = home_of(m, &m->src);
  IrBuffer *to = low_registers(s, "pairs", from->dtype, frag_registers(f));
  int64_t low = f->reg[0].extent, high = f->reg[1].extent;
  IrBlock *before = s->out;
  IrStmt *loop;
  IrVar *v = low_emit_for(s, "r", low_i32(s, 0), low_i32(s, frag_registers(f)),
                          low_i32(s, low * high), &loop);
  loop->as.loop.loop = IRF_UNROLL;
  low_enter(s, &loop->as.loop.body);
  for (int64_t i = 0; i < low * high; i++) {
    IrExpr *own = low_add(s, ir_ref(s->k, v), low_i32(s, i / low + i % low * high));
    IrExpr *other = low_add(s, ir_ref(s->k, v), low_i32(s, i));
    IrVar *x = low_emit_load(s, "x", (IrAccess){.buf = from, .index = {own}});
    low_emit_store(s, (IrAccess){.buf = to, .index = {other}}, ir_ref(s->k, x));
  }
  low_enter(s, before);
  return to;
}

bool expand_copy(Simple *s, IrStmt *st) {
  const IrCopy *c = &st->as.copy;
  Move m = {.s = s, .c = c, .shape = low_shape_of(s, &c->dst, &c->src)};
  const Frag *dst = low_place_of(s, c->dst.buf)->frag, *src = low_place_of(s, c->src.buf)->frag;
  m.dst.r = &c->dst;
  m.src.r = &c->src;
  if (!expand_takes_copy(s, c))
    return false;
  if (dst || src)
    m.iter = dst ? *dst : *src;
  else
    m.iter = side_layout(s, c, &m.shape);
  if (!dst && !src && frag_registers(&m.iter) > MOST_STAGED)
    return false;
  Frag other;
  bool turned = src && !dst && hopper_groups(s->k) && neighbours_second(s, &c->dst, src, &other);
  if (turned)
    m.iter = other;
  m.dst = side_of(s, &c->dst, &m.iter);
  m.src = side_of(s, &c->src, &m.iter);
  low_note_buffer(s, c->dst.buf, IR_WRITES);
  low_note_buffer(s, c->src.buf, IR_READS);
  low_fence(s);
  if (turned)
    m.pairs = reordered(&m, &m.iter);
  move_by_place(&m);
  if (c->signal.buf)
    low_arrive(s, &c->signal);
  return true;
}
