/* expand_fill.c: a round's copies of a pipelined loop on their way.
 *
 * In: a Pipe, the round's index, the stage that it fills. Out: groups of cp.async, with zeros for
 * what lies outside, and what gathers send, under the condition that the loop comes to that round.
 * Always holds: a round is a group of its own, empty where there is no such round; no address
 * leaves its tensor. Tests: tests/unit/check_lower.c.
 */
#include "expand_count.h"
#include "expand_gather.h"
#include "expand_pipe.h"
#include "expand_side.h"
#include "sched.h"

/* A name for what a LET says in another round, with all that is known of it. */
static IrExpr *named(Simple *s, const IrVar *like, IrExpr *value) {
  IrVar *v = low_emit_let(s, like->name, value);
  bool open = v->lo == IR_NO_RANGE_LO && v->hi == IR_NO_RANGE_HI;
  if (open && v->type == DT_I64 && sched_not_negative(s->k, value)) {
    v->lo = 0;
    v->hi = INT64_MAX - 1;
  }
  expand_learn(s, v, value);
  return ir_ref(s->k, v);
}

const IrStmt *pipe_next_let(const Pipe *p, size_t *i) {
  const IrBlock *body = &p->loop->as.loop.body;
  while (*i < body->n) {
    const IrStmt *b = body->v[(*i)++];
    if (ir_is_let(b))
      return b;
    if (b->kind != IRK_LET && b->kind != IRK_ALLOC && b->kind != IRK_COPY && !pipe_has(p, b))
      return NULL;
  }
  return NULL;
}

/* What stands for the loop's variables in round `index`, by id; gathers want names for it. */
static IrExpr **of_round(Simple *s, const Pipe *p, IrExpr *index, size_t *count) {
  size_t n = *count = s->k->vars.n;
  IrExpr **to = ARENA_ARRAY(s->arena, IrExpr *, n);
  const IrStmt *b;
  to[p->loop->as.loop.index->id] = index;
  for (size_t i = 0; (b = pipe_next_let(p, &i));) {
    IrExpr *value = p->prepares ? count_replace(s, p->counts, b->as.let.value) : b->as.let.value;
    value = ir_replace(s->k, value, to, n);
    if (p->prepares && (value->nargs || value->reads_mut))
      value = named(s, b->as.let.var, value);
    to[b->as.let.var->id] = value;
  }
  return to;
}

/* The copy as that round does it. */
static IrCopy copy_of_round(Simple *s, const IrCopy *c, IrExpr *const *to, size_t n) {
  IrCopy out = *c;
  for (int d = 0; d < c->src.buf->rank; d++) {
    IrAxis *x = &out.src.axis[d];
    x->origin = ir_replace(s->k, x->origin, to, n);
    if (x->stop)
      x->stop = ir_replace(s->k, x->stop, to, n);
  }
  return out;
}

typedef struct Fill {
  Simple *s;
  const IrCopy *c;
  Shape shape;
  Frag iter;
  Side src;
  int64_t width;
} Fill;

/* Bytes of a group that lie inside, i32; NULL: all. */
static IrExpr *valid_bytes(Fill *f, const Point *p) {
  Simple *s = f->s;
  int64_t size = (int64_t)dtype_size(f->c->src.buf->dtype), all = f->width * size;
  IrExpr *bytes = low_i32(s, all), *in = NULL;
  for (int j = 0; j < p->frag->rank; j++) {
    IrExpr *low = f->src.low[j], *high = f->src.high[j];
    if (low && j != f->src.axis)
      in = low_both(s, in, ir_op2(s->k, OP_GE, p->at[j], low));
    if (high && j == f->src.axis) {
      IrExpr *left = low_mul(s, ir_op2(s->k, OP_SUB, high, p->at[j]), low_i32(s, size));
      bytes = ir_op3(s->k, OP_CLAMP, left, low_i32(s, 0), low_i32(s, all));
    } else if (high) {
      in = low_both(s, in, ir_op2(s->k, OP_LT, p->at[j], high));
    }
  }
  return in ? ir_op3(s->k, OP_SELECT, in, bytes, low_i32(s, 0)) : bytes;
}

/* One group of elements on its way. Nothing is read where no byte is asked for, but the address
 * stays in the tensor. */
static void send_group(Fill *f, const Point *p, bool edge) {
  Simple *s = f->s;
  IrKernel *k = s->k;
  IrExpr *at[IR_MAX_RANK], *to[IR_MAX_RANK];
  IrOperand *o = ARENA_ARRAY(k->arena, IrOperand, 4);
  low_region_index(s, &f->c->src, p->index, at);
  low_region_index(s, &f->c->dst, p->index, to);
  IrExpr *from = side_global_offset(s, f->c->src.buf, at);
  IrExpr *bytes = low_i32(s, f->width * (int64_t)dtype_size(f->c->src.buf->dtype)), *n = bytes;
  if (edge) {
    n = valid_bytes(f, p);
    n = n->nargs ? ir_ref(k, low_emit_let(s, "bytes", n)) : n;
    IrExpr *none = ir_op2(k, OP_EQ, n, low_i32(s, 0));
    from = ir_op3(k, OP_SELECT, none, ir_int_of(k, from->type, 0), from);
  }
  o[0] = (IrOperand){.kind = IRO_EXPR, .expr = expand_shared_address(s, f->c->dst.buf, to)};
  o[1] = (IrOperand){.kind = IRO_GLOBAL, .buf = f->c->src.buf, .expr = from};
  o[2] = (IrOperand){.kind = IRO_EXPR, .expr = bytes};
  o[3] = (IrOperand){.kind = IRO_EXPR, .expr = n};
  low_emit(s, IRK_OP)->as.op = (IrOp){OP_CP_ASYNC, o, 4};
}

static void send_all(Fill *f, bool edge) {
  Point p;
  IrBlock *outer = f->s->out, *before;
  low_enter_if(f->s, expand_is_owner(f->s, &f->iter));
  f->s->rolled = edge;
  expand_open(f->s, &f->iter, f->width, &p, &before);
  f->s->rolled = false;
  send_group(f, &p, edge);
  low_enter(f->s, outer);
}

/* A block whose part lies inside computes no bounds. */
static void send(Simple *s, const IrCopy *c) {
  Fill f = {.s = s, .c = c, .shape = low_shape_of(s, &c->dst, &c->src)};
  f.iter = side_layout(s, c, &f.shape);
  f.src = side_of(s, &c->src, &f.iter);
  pipe_source(s, c, &f.width);
  side_set_limits(s, &f.src, &f.shape);
  IrExpr *in = side_all_inside(s, &f.src, &f.shape);
  if (!in) {
    send_all(&f, false);
    return;
  }
  IrStmt *branch = low_emit_if(s, ir_ref(s->k, low_emit_let(s, "inside", in)));
  IrBlock *before = low_enter(s, &branch->as.if_.then);
  send_all(&f, false);
  low_enter(s, &branch->as.if_.other);
  send_all(&f, true);
  low_enter(s, before);
}

void pipe_fill(Simple *s, const Pipe *p, IrExpr *index, IrExpr *end, IrExpr *stage) {
  IrStmt *branch = low_emit_if(s, ir_op2(s->k, OP_LT, index, end));
  IrBlock *before = low_enter(s, &branch->as.if_.then);
  size_t n;
  IrExpr **to = of_round(s, p, index, &n);
  for (int i = 0; i < p->ncopies; i++) {
    low_place_of(s, pipe_tile(p, i))->stage = stage;
    if (p->gather[i]) {
      gather_send(s, p->gather[i], to, n);
      continue;
    }
    IrCopy *c = ARENA_NEW(s->k->arena, IrCopy);
    *c = copy_of_round(s, &p->copy[i]->as.copy, to, n);
    send(s, c);
  }
  if (p->prepares)
    count_advance(s, p->counts);
  low_enter(s, before);
  low_emit_op(s, OP_CP_ASYNC_COMMIT);
}
