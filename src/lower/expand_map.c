/* expand_map.c: iterations over the registers of a layout.
 *
 * In: a MAP whose iteration has a layout. Out: loops that are wholly unrolled, one a register
 * digit, in which indices of the thread are computed once and registers are numbered by the loops'
 * own indices. Always holds: a point beyond the tile runs nothing; threads that hold copies all
 * compute, and one of them writes to memory. Tests: tests/unit/check_lower.c.
 */
#include "expand.h"

/* ---------------------------------------------------------------- coordinates */

/* The part of the coordinate along an axis that the thread decides, i32. */
static IrExpr *thread_part(Simple *s, const Frag *f, int axis) {
  IrKernel *k = s->k;
  IrExpr *sum = low_i32(s, 0), *t = ir_ref(k, s->tid);
  for (int i = 0; i < f->nthread; i++) {
    const FragDigit *d = &f->thread[i];
    if (d->axis != axis)
      continue;
    IrExpr *digit = low_quotient(s, t, frag_thread_stride(f, i));
    if (i < f->nthread - 1)
      digit = ir_op2(k, OP_MOD, digit, low_i32(s, d->extent));
    sum = low_add(s, sum, low_mul(s, digit, low_i32(s, d->step)));
  }
  return sum;
}

IrExpr *expand_is_owner(Simple *s, const Frag *f) {
  IrExpr *is = NULL, *t = ir_ref(s->k, s->tid);
  for (int i = 0; i < f->nthread; i++) {
    if (f->thread[i].axis >= 0)
      continue;
    IrExpr *digit = low_quotient(s, t, frag_thread_stride(f, i));
    if (i < f->nthread - 1)
      digit = ir_op2(s->k, OP_MOD, digit, low_i32(s, f->thread[i].extent));
    is = low_both(s, is, ir_op2(s->k, OP_EQ, digit, low_i32(s, 0)));
  }
  return is;
}

static const char *const names[IR_MAX_RANK] = {"row", "col", "at2", "at3",
                                               "at4", "at5", "at6", "at7"};

/* Names the thread's part of each coordinate, so that the text says it once. */
static void thread_parts(Simple *s, const Frag *f, IrExpr **base) {
  for (int d = 0; d < f->rank; d++) {
    IrExpr *e = thread_part(s, f, d);
    base[d] = e->nargs ? ir_ref(s->k, low_emit_let(s, f->rank == 1 ? "at" : names[d], e)) : e;
  }
}

/* The loop of one digit, entered; registers from one round to the next: `by`. */
static IrExpr *open_digit(Simple *s, int64_t n, int64_t by) {
  IrStmt *loop;
  if (n <= by)
    return low_i32(s, 0);
  IrVar *v = low_emit_for(s, "r", low_i32(s, 0), low_i32(s, n), low_i32(s, by), &loop);
  loop->as.loop.loop = s->rolled ? IRF_SERIAL : IRF_UNROLL;
  v->hi = n - by;
  low_enter(s, &loop->as.loop.body);
  return ir_ref(s->k, v);
}

/* The condition under which a point lies in the tile; NULL: always. */
static IrExpr *alive(Simple *s, const Frag *f, IrExpr *const *at) {
  IrExpr *in = NULL;
  for (int d = 0; d < f->rank; d++)
    if (frag_reach(f, d) > f->extent[d])
      in = low_both(s, in, ir_op2(s->k, OP_LT, at[d], low_i32(s, f->extent[d])));
  return in;
}

void expand_open(Simple *s, const Frag *f, int64_t width, Point *p, IrBlock **before) {
  IrExpr *at[IR_MAX_RANK];
  *p = (Point){.frag = f};
  thread_parts(s, f, at);
  *before = s->out;
  for (int i = f->nreg - 1; i >= 0; i--)
    p->digit[i] = open_digit(s, f->reg[i].extent, i == 0 ? width : 1);
  for (int i = f->nreg - 1; i >= 0; i--)
    at[f->reg[i].axis] =
        low_add(s, at[f->reg[i].axis], low_mul(s, p->digit[i], low_i32(s, f->reg[i].step)));
  low_enter_if(s, alive(s, f, at));
  for (int d = 0; d < f->rank; d++)
    p->index[d] = ir_cast(s->k, p->at[d] = at[d], DT_I64);
}

IrExpr *expand_register(Simple *s, const Point *p, int rank, const int *from) {
  IrExpr *r = low_i32(s, 0);
  int64_t stride = 1;
  for (int i = 0; i < p->frag->nreg; i++) {
    const FragDigit *d = &p->frag->reg[i];
    bool kept = false;
    for (int j = 0; j < rank; j++)
      kept |= (from ? from[j] : j) == d->axis;
    if (!kept)
      continue;
    r = low_add(s, r, low_mul(s, p->digit[i], low_i32(s, stride)));
    stride *= d->extent;
  }
  return r;
}

/* ---------------------------------------------------------------- where a MAP stores */

/* For ir_walk: whether an element of the buffer is read. */
typedef struct Reads {
  const IrBuffer *buf;
  bool found;
} Reads;

static bool finds_read(IrStmt *st, void *ctx) {
  Reads *r = ctx;
  r->found |= st->kind == IRK_LOAD && st->as.access.at.buf == r->buf;
  return !r->found;
}

/* Where a MAP's body stores. */
typedef struct Stores {
  Simple *s;
  IrBlock *body;
  bool registers, again; /* again: into memory that it also reads */
} Stores;

static bool find_store(IrStmt *st, void *ctx) {
  Stores *x = ctx;
  if (st->kind != IRK_STORE || st->as.access.at.buf->space == IRS_LOCAL)
    return true;
  Reads r = {.buf = st->as.access.at.buf};
  x->registers |= low_place_of(x->s, r.buf)->frag != NULL;
  if (!low_place_of(x->s, r.buf)->frag)
    ir_walk(x->body, finds_read, &r);
  x->again |= r.found;
  return true;
}

static Stores stores_of(Simple *s, IrStmt *st) {
  Stores x = {.s = s, .body = &st->as.map.body};
  ir_walk(x.body, find_store, &x);
  return x;
}

bool expand_only_memory(Simple *s, IrStmt *st) {
  return !stores_of(s, st).registers;
}

bool expand_copies_differ(Simple *s, IrStmt *st) {
  Stores x = stores_of(s, st);
  return x.registers && x.again && frag_copies(expand_map_frag(s, st));
}

/* ---------------------------------------------------------------- MAP */

/* The element of a fragment in registers that an access of the MAP's body means. */
IrExpr *expand_element(Simple *s, const IrAccess *a) {
  const Point *p = s->point;
  int from[IR_MAX_RANK];
  if (!p || !p->var || !expand_mapping(s, p->var, p->frag->extent, p->frag->rank, a, from)) {
    lower_note(s->request, "registers: an element of %s is used by itself", a->buf->name);
    s->failed = true; /* without a diagnostic: the next candidate can */
    return low_i32(s, 0);
  }
  return expand_register(s, p, low_place_of(s, a->buf)->rank, from);
}

/* The MAP's indices become the point's coordinates. */
static void define_indices(Simple *s, const IrMap *m, const Point *p) {
  for (int d = 0; d < m->naxes; d++) {
    IrVar *v = m->index[d];
    IrStmt *st = low_emit(s, IRK_LET);
    v->kind = IRV_LET;
    v->lo = 0;
    v->hi = p->frag->extent[d] - 1;
    st->as.let.var = v;
    st->as.let.value = ir_cast(s->k, p->index[d], v->type);
  }
}

/* For ir_walk: loops of the body have jumps of their own. */
static bool finds_continue(IrStmt *st, void *ctx) {
  *(bool *)ctx |= st->kind == IRK_CONTINUE;
  return st->kind != IRK_FOR && st->kind != IRK_WHILE;
}

/* What ends an iteration must have a loop to go on with, even over one register. */
static void open_once(Simple *s, const Frag *f, IrStmt *st) {
  bool found = false;
  IrStmt *loop;
  ir_walk(&st->as.map.body, finds_continue, &found);
  if (!found || f->nreg > 0)
    return;
  low_emit_for(s, "once", low_i32(s, 0), low_i32(s, 1), low_i32(s, 1), &loop);
  low_enter(s, &loop->as.loop.body);
}

bool expand_map(Simple *s, IrStmt *st) {
  const IrMap *m = &st->as.map;
  const Frag *f = expand_map_frag(s, st);
  Point p;
  IrBlock *before;
  if (!f)
    return false;
  ir_walk(&st->as.map.body, low_note_inner, s);
  low_fence(s);
  IrBlock *outer = s->out;
  bool one = expand_only_memory(s, st);
  open_once(s, f, st);
  low_enter_if(s, one ? expand_is_owner(s, f) : NULL);
  expand_open(s, f, 1, &p, &before);
  p.one = one;
  p.var = m->index;
  define_indices(s, m, &p);
  s->in_map = true;
  s->point = &p;
  low_points(s, &m->body);
  s->point = NULL;
  s->in_map = false;
  low_enter(s, outer);
  return true;
}
