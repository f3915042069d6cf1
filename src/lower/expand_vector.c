/* expand_vector.c: parallel loops over tensors, several neighbouring elements a thread.
 *
 * In: a MAP whose last index runs along tensors' unit strides, by itself or behind a condition that
 * holds up to some index. Out: each thread takes as many neighbours as 16 bytes of the narrowest
 * tensor hold: it reads all of their vectors, computes element by element in registers, and writes
 * the vectors. Always holds: a group that may leave the loop, the condition or a tensor goes
 * element by element, with every check where it was; what an element computes is the same. Tests:
 * tests/unit/check_lower.c.
 */
#include "expand_side.h"
#include "sched.h"

enum { MOST_ACCESSES = 12, MOST_GUARDS = 4, MOST_CONDITIONS = 24, MOST_SLOPE = 1 << 20 };

/* A vector of neighbours: one for all iterations of a group. */
typedef struct Neighbours {
  size_t at; /* which statement of the block */
  const IrAccess *access;
  IrExpr *index[IR_MAX_RANK]; /* of names outside the loop and its indices */
  int64_t width;              /* elements of one access of memory */
  int64_t shares;             /* neighbours that have one element together: of x // shares */
  IrBuffer *regs;             /* a group's elements */
} Neighbours;

typedef struct Vector {
  Simple *s;
  const IrMap *m;
  const IrVar *along; /* the index of neighbours */
  IrExpr **to;        /* by variable id: what a LET of the loop says */
  bool *inside;       /* by variable id: the loop's body defines it */
  size_t nvars;
  const IrBlock *body; /* what runs behind the conditions */
  IrExpr *guard[MOST_GUARDS];
  int nguards;
  Neighbours v[MOST_ACCESSES];
  int n;
  int64_t width; /* iterations of a group */
  IrExpr *base;  /* the group's first index, i64 */
} Vector;

/* ---------------------------------------------------------------- how an expression runs */

/* The expression with a value for the neighbours' index. */
static IrExpr *with_index(Vector *x, IrExpr *e, IrExpr *value) {
  x->to[x->along->id] = ir_cast(x->s->k, value, x->along->type);
  IrExpr *out = ir_replace(x->s->k, e, x->to, x->nvars);
  x->to[x->along->id] = NULL;
  return out;
}

static bool slope_of(const Vector *x, const IrExpr *e, int64_t *slope);

/* Of a sum, a difference, a product with a constant. */
static bool slope_of_two(const Vector *x, const IrExpr *e, int64_t *slope) {
  int64_t a, b, c = 0;
  if (!slope_of(x, e->arg[0], &a) || !slope_of(x, e->arg[1], &b))
    return false;
  bool scaled = ir_is_const(e->arg[0], &c) || ir_is_const(e->arg[1], &c);
  if (e->op == OP_MUL && (!scaled || c > MOST_SLOPE || c < -MOST_SLOPE))
    return false;
  *slope = e->op == OP_MUL ? c * (a + b) : e->op == OP_ADD ? a + b : a - b;
  return *slope <= MOST_SLOPE && *slope >= -MOST_SLOPE;
}

/* By how much it grows from one index to the next; false: not by a constant, or it is only known
 * inside the loop. */
static bool slope_of(const Vector *x, const IrExpr *e, int64_t *slope) {
  int64_t a;
  bool steady = true, wide = dtype_is_int(e->type) && dtype_bits(e->type) >= 32;
  *slope = e->op == OP_VAR && e->as.var == x->along;
  if (e->op == OP_VAR)
    return e->as.var->id < x->nvars && !x->inside[e->as.var->id];
  if (e->op == OP_CAST && wide && dtype_is_int(e->arg[0]->type) &&
      dtype_bits(e->type) >= dtype_bits(e->arg[0]->type))
    return slope_of(x, e->arg[0], slope);
  if (wide && (e->op == OP_ADD || e->op == OP_SUB || e->op == OP_MUL))
    return slope_of_two(x, e, slope);
  for (int i = 0; i < e->nargs; i++)
    steady &= slope_of(x, e->arg[i], &a) && a == 0;
  return steady;
}

/* A comparison that holds for a whole group where it holds at one of its ends: 1 the last, -1 the
 * first, 0 not of this kind. */
static int end_that_decides(const Vector *x, const IrExpr *e) {
  int64_t a, b;
  bool less = e->op == OP_LT || e->op == OP_LE, more = e->op == OP_GT || e->op == OP_GE;
  if (!(less || more) || !slope_of(x, e->arg[0], &a) || !slope_of(x, e->arg[1], &b))
    return 0;
  return (a > b) == less ? 1 : -1;
}

/* Takes a conjunction apart. */
static bool add_guards(Vector *x, IrExpr *e) {
  if (e->op == OP_AND)
    return add_guards(x, e->arg[0]) && add_guards(x, e->arg[1]);
  if (x->nguards == MOST_GUARDS || e->reads_mut || e->may_fault || !end_that_decides(x, e))
    return false;
  x->guard[x->nguards++] = e;
  return true;
}

/* ---------------------------------------------------------------- what the loop does */

static bool is_plain_let(const IrStmt *st) {
  return ir_is_let(st) && !st->as.let.value->reads_mut && !st->as.let.value->may_fault;
}

/* What LETs name is put in their place. */
static void learn_let(Vector *x, const IrStmt *st) {
  if (is_plain_let(st))
    x->to[st->as.let.var->id] = ir_replace(x->s->k, st->as.let.value, x->to, x->nvars);
}

/* Through `if`s that only say where the loop ends. */
static void find_body(Vector *x, const IrBlock *b) {
  x->body = b;
  for (size_t i = 0; i < b->n; i++) {
    const IrStmt *st = b->v[i];
    int n = x->nguards;
    if (is_plain_let(st))
      continue;
    if (st->kind != IRK_IF || i + 1 < b->n || st->as.if_.other.n)
      return;
    for (size_t j = 0; j < i; j++)
      learn_let(x, b->v[j]);
    if (!add_guards(x, ir_replace(x->s->k, st->as.if_.cond, x->to, x->nvars))) {
      x->nguards = n;
      return;
    }
    find_body(x, &st->as.if_.then);
  }
}

/* What touches a tensor, other than one access. */
typedef struct Others {
  const IrBuffer *buf;
  const IrStmt *but;
  int reads, writes;
  bool odd; /* iterations that end early, or that others see end */
} Others;

static void note_other(IrBuffer **b, unsigned how, void *ctx) {
  Others *o = ctx;
  o->reads += *b == o->buf && (how & IR_READS);
  o->writes += *b == o->buf && (how & IR_WRITES);
}

static bool look(IrStmt *st, void *ctx) {
  Others *o = ctx;
  IrVisitor v = {NULL, NULL, note_other, ctx};
  o->odd |= st->kind == IRK_ATOMIC || st->kind == IRK_REPORT || st->kind == IRK_CONTINUE ||
            st->kind == IRK_ALLOC || st->kind == IRK_RETURN;
  if (st != o->but)
    ir_visit(st, &v);
  return true;
}

static Others others(const Vector *x, const IrStmt *but, const IrBuffer *b) {
  Others o = {.buf = b, .but = but};
  ir_walk(&((IrMap *)(uintptr_t)x->m)->body, look, &o);
  return o;
}

/* An element's own value may be read before it is written, by a statement before it. */
static bool same_place(const Vector *x, const Neighbours *a, const IrAccess *b) {
  for (int d = 0; d < b->buf->rank; d++)
    if (ir_replace(x->s->k, b->index[d], x->to, x->nvars) != a->index[d])
      return false;
  return true;
}

/* All other accesses are reads of the same element that stand before it as vectors. */
static bool only_read_before(const Vector *x, const IrStmt *store) {
  int vectors = 0;
  const IrBuffer *b = store->as.access.at.buf;
  Others o = others(x, store, b);
  for (int i = 0; i < x->n; i++)
    vectors += x->v[i].access->buf == b && same_place(x, &x->v[i], &store->as.access.at);
  return o.writes == 0 && o.reads == vectors;
}

/* Reads come to before all writes of the group: nothing may write what they read, but vectors. */
static bool can_read_first(const Vector *x, const IrStmt *load, size_t at) {
  const IrBuffer *b = load->as.access.at.buf;
  Others o = others(x, load, b);
  if (o.writes == 0)
    return true;
  const IrStmt *st = NULL;
  for (size_t i = at + 1; i < x->body->n; i++)
    if (x->body->v[i]->kind == IRK_STORE && x->body->v[i]->as.access.at.buf == b)
      st = x->body->v[i];
  if (o.writes > 1 || o.reads > 0 || !st)
    return false;
  for (int d = 0; d < b->rank; d++)
    if (ir_replace(x->s->k, st->as.access.at.index[d], x->to, x->nvars) !=
        ir_replace(x->s->k, load->as.access.at.index[d], x->to, x->nvars))
      return false;
  return true;
}

/* The axis of stride 1, and what divides where it and the others begin, in elements; 0: not known.
 */
static int64_t memory_of(const Vector *x, const IrBuffer *b, int *unit) {
  const Place *p = low_place_of(x->s, b);
  int64_t size = (int64_t)dtype_size(b->dtype), n;
  if (!p->tile) {
    LowerFact fact = lower_fact(x->s->request, b);
    *unit = fact.unit_axis;
    return b->space == IRS_GLOBAL ? base_least(fact.align, VECTOR_BYTES) / size : 0;
  }
  *unit = p->rank - 1;
  if (b->space != IRS_SHARED || p->frag || p->spilled || p->map || p->columns || p->rank < 1)
    return 0;
  n = p->rank > 1 ? p->extent[p->rank - 1] + p->pad : VECTOR_BYTES;
  return base_least(VECTOR_BYTES / size, n & -n);
}

/* x of x // n, where neighbours share elements; the expression itself: they do not. */
static IrExpr *shared_index(const Vector *x, IrExpr *e, int64_t *n) {
  int64_t slope;
  *n = 1;
  if (e->op != OP_FLOORDIV || !ir_is_const(e->arg[1], n) || *n < 2 || *n > 8 || (*n & (*n - 1)) ||
      !slope_of(x, e->arg[0], &slope) || slope != 1)
    *n = 1;
  return *n > 1 ? e->arg[0] : e;
}

/* Elements that one access of memory takes where the group begins at a multiple of them; 1: only
 * by themselves. */
static int64_t width_of(Vector *x, const IrAccess *a, IrExpr *const *index, int64_t *shares) {
  Simple *s = x->s;
  int unit;
  int64_t slope, w = memory_of(x, a->buf, &unit);
  if (w < 1 || unit < 0)
    return 1;
  for (int d = 0; d < a->buf->rank; d++) {
    IrExpr *e = d == unit ? shared_index(x, index[d], shares) : index[d];
    if (index[d]->reads_mut || index[d]->may_fault || !slope_of(x, e, &slope) ||
        slope != (d == unit))
      return 1;
  }
  IrExpr *first = shared_index(x, index[unit], shares);
  int64_t begins = expand_divisor(s, with_index(x, first, low_i64(s, 0)));
  return begins < *shares ? 1 : base_least(w, begins / *shares);
}

static void add_access(Vector *x, const IrStmt *st, size_t at) {
  Neighbours v = {.at = at, .access = &st->as.access.at, .shares = 1};
  if (x->n == MOST_ACCESSES)
    return;
  for (int d = 0; d < v.access->buf->rank; d++)
    v.index[d] = ir_replace(x->s->k, v.access->index[d], x->to, x->nvars);
  v.width = width_of(x, v.access, v.index, &v.shares);
  if (v.width < 2 || (st->kind == IRK_LOAD ? !can_read_first(x, st, at) : !only_read_before(x, st)))
    return;
  if (v.shares > 1 && (st->kind == IRK_STORE || others(x, NULL, v.access->buf).writes))
    return;
  if (v.shares == 1 && v.width > x->width)
    x->width = v.width;
  x->v[x->n++] = v;
}

static bool shares_fit(const Vector *x) {
  for (int i = 0; i < x->n; i++)
    if (x->v[i].width < 1)
      return false;
  return true;
}

/* Tiles alone are close by: vectors of them pay where every thread has one. */
static bool keeps_busy(const Vector *x) {
  bool tensors = false;
  int64_t groups = 1, n;
  for (int i = 0; i < x->n; i++)
    tensors |= x->v[i].access->buf->space == IRS_GLOBAL;
  for (int i = 0; i < x->m->naxes; i++)
    groups *= ir_is_const(x->m->extent[i], &n) && groups < MOST_SLOPE ? n : 1;
  return tensors || groups / x->width >= x->s->threads;
}

/* A group reads ahead only what is known before it. */
static bool find_accesses(Vector *x) {
  Others o = others(x, NULL, NULL);
  for (size_t i = 0; i < x->body->n && !o.odd; i++) {
    const IrStmt *st = x->body->v[i];
    learn_let(x, st);
    if (st->kind == IRK_LOAD || st->kind == IRK_STORE)
      add_access(x, st, i);
  }
  for (int i = 0; i < x->n; i++) /* no more than the group has of them */
    if (x->v[i].shares > 1)
      x->v[i].width = base_least(x->v[i].width, x->width / x->v[i].shares);
  return x->n > 0 && x->width > 1 && shares_fit(x) && keeps_busy(x);
}

/* ---------------------------------------------------------------- a group that lies inside */

/* Conjunctions say nothing twice: tensors of one extent have the same bounds. */
typedef struct Conditions {
  IrExpr *v[MOST_CONDITIONS];
  int n;
  bool full;
} Conditions;

static void require(Conditions *c, IrExpr *e) {
  int64_t known;
  if (ir_is_const(e, &known) && known)
    return;
  for (int i = 0; i < c->n; i++)
    if (c->v[i] == e)
      return;
  if (c->n < MOST_CONDITIONS)
    c->v[c->n++] = e;
  else
    c->full = true;
}

/* 0 <= index < extent at both ends. */
static void require_inside(Vector *x, Conditions *c, const Neighbours *v) {
  Simple *s = x->s;
  IrExpr *last = low_add(s, x->base, low_i64(s, x->width - 1));
  if (!v->access->check || v->access->buf->unchecked || s->k->unchecked)
    return;
  for (int d = 0; d < v->access->buf->rank; d++) {
    IrExpr *n = low_extent_of(s, v->access->buf, d);
    IrExpr *low = ir_cast(s->k, with_index(x, v->index[d], x->base), DT_I64);
    IrExpr *high = ir_cast(s->k, with_index(x, v->index[d], last), DT_I64);
    int64_t lo, hi, end, end_hi;
    if (!ir_range(low, &lo, &hi) || lo < 0)
      require(c, ir_op2(s->k, OP_GE, low, low_i64(s, 0)));
    if (!ir_range(high, &lo, &hi) || !ir_range(n, &end, &end_hi) || hi >= end)
      require(c, ir_op2(s->k, OP_LT, high, n));
  }
}

/* What makes the group one of vectors; NULL: it always is. */
static IrExpr *is_whole(Vector *x, IrExpr *extent) {
  Simple *s = x->s;
  Conditions c = {.n = 0};
  int64_t n;
  IrExpr *last = low_add(s, x->base, low_i64(s, x->width - 1)), *all = NULL;
  if (!ir_is_const(extent, &n) || n % x->width)
    require(&c, ir_op2(s->k, OP_LT, last, extent));
  for (int i = 0; i < x->nguards; i++)
    require(&c, with_index(x, x->guard[i], end_that_decides(x, x->guard[i]) > 0 ? last : x->base));
  for (int i = 0; i < x->n; i++)
    require_inside(x, &c, &x->v[i]);
  for (int i = 0; i < c.n; i++)
    all = low_both(s, all, c.v[i]);
  return c.full ? ir_bool(s->k, false) : all;
}

/* ---------------------------------------------------------------- writing it out */

/* All of a group's elements between memory and registers. */
static void move(Vector *x, const Neighbours *v, bool load) {
  Simple *s = x->s;
  IrExpr *at[IR_MAX_RANK];
  int unit;
  (void)memory_of(x, v->access->buf, &unit);
  for (int d = 0; d < v->access->buf->rank; d++)
    at[d] = with_index(x, v->index[d], x->base);
  IrExpr *first = at[unit];
  for (int64_t e = 0; e < x->width / v->shares; e += v->width) {
    at[unit] = low_add(s, first, ir_int_of(s->k, first->type, e));
    IrOperand regs = {
        .kind = IRO_REGS, .buf = v->regs, .expr = low_i32(s, e), .count = (int)v->width};
    side_move(s, load, v->access->buf, at, regs);
  }
}

/* The statements of one iteration, as a copy. */
static void one_iteration(Vector *x, IrExpr *index) {
  Simple *s = x->s;
  IrExpr *value = ir_cast(s->k, index, x->along->type);
  IrBlock copy = sched_copy_block_with(s->k, &x->m->body, x->along, value);
  low_points(s, &copy);
}

/* The same behind its conditions, over registers. */
static void one_of_group(Vector *x, IrExpr *e) {
  Simple *s = x->s;
  IrExpr *value = ir_cast(s->k, low_add(s, x->base, ir_cast(s->k, e, DT_I64)), x->along->type);
  IrBlock copy = sched_copy_block_with(s->k, &x->m->body, x->along, value), *b = &copy;
  for (const IrBlock *from = &x->m->body; from != x->body;
       from = &from->v[from->n - 1]->as.if_.then) {
    IrBlock lets = {b->v, b->n - 1, b->n - 1};
    low_points(s, &lets);
    b = &b->v[b->n - 1]->as.if_.then;
  }
  for (int i = 0; i < x->n; i++) {
    IrAccess reg = {.buf = x->v[i].regs, .index = {low_quotient(s, e, x->v[i].shares)}};
    b->v[x->v[i].at]->as.access.at = reg;
  }
  low_points(s, b);
}

static void emit_group(Vector *x) {
  Simple *s = x->s;
  IrStmt *loop;
  for (int i = 0; i < x->n; i++) {
    const IrBuffer *b = x->v[i].access->buf;
    x->v[i].regs = low_registers(s, b->name, b->dtype, x->width);
  }
  for (int i = 0; i < x->n; i++)
    if (x->body->v[x->v[i].at]->kind == IRK_LOAD)
      move(x, &x->v[i], true);
  IrVar *e = low_emit_for(s, "r", low_i32(s, 0), low_i32(s, x->width), low_i32(s, 1), &loop);
  loop->as.loop.loop = IRF_UNROLL;
  IrBlock *before = low_enter(s, &loop->as.loop.body);
  one_of_group(x, ir_ref(s->k, e));
  low_enter(s, before);
  for (int i = 0; i < x->n; i++)
    if (x->body->v[x->v[i].at]->kind == IRK_STORE)
      move(x, &x->v[i], false);
}

static void emit_single(Vector *x, IrExpr *extent) {
  Simple *s = x->s;
  IrStmt *loop;
  IrExpr *end = low_add(s, x->base, low_i64(s, x->width));
  IrVar *i =
      low_emit_for(s, "i", x->base, ir_op2(s->k, OP_MIN2, end, extent), low_i64(s, 1), &loop);
  i->lo = 0;
  IrBlock *before = low_enter(s, &loop->as.loop.body);
  one_iteration(x, ir_ref(s->k, i));
  low_enter(s, before);
}

/* Groups instead of elements along the last axis. */
static void emit(Vector *x) {
  Simple *s = x->s;
  IrMap groups = *x->m;
  int last = groups.naxes - 1;
  IrBlock *before;
  IrExpr *extent = groups.extent[last];
  if (extent->op != OP_CONST)
    extent = ir_ref(s->k, low_emit_let(s, "extent", ir_op2(s->k, OP_MAX2, extent, low_i64(s, 0))));
  groups.index[last] = ir_var(s->k, IRV_LET, "group", DT_I64);
  groups.extent[last] = ir_op2(s->k, OP_CEILDIV, extent, low_i64(s, x->width));
  low_open_points(s, &groups, &before);
  IrVar *base =
      low_emit_let(s, "base", low_mul(s, ir_ref(s->k, groups.index[last]), low_i64(s, x->width)));
  expand_learn(s, base, low_i64(s, x->width));
  x->base = ir_ref(s->k, base);
  s->in_map = true;
  IrExpr *whole = is_whole(x, extent);
  if (whole) {
    IrStmt *branch = low_emit_if(s, whole);
    IrBlock *outer = low_enter(s, &branch->as.if_.then);
    emit_group(x);
    low_enter(s, &branch->as.if_.other);
    emit_single(x, extent);
    low_enter(s, outer);
  } else {
    emit_group(x);
  }
  s->in_map = false;
  low_enter(s, before);
}

bool expand_vector(Simple *s, IrStmt *st) {
  const IrMap *m = &st->as.map;
  Vector x = {.s = s, .m = m};
  if (m->naxes == 0 || s->alone)
    return false;
  x.along = m->index[m->naxes - 1];
  x.nvars = s->k->vars.n;
  x.to = ARENA_ARRAY(s->arena, IrExpr *, x.nvars + 1);
  x.inside = ARENA_ARRAY(s->arena, bool, x.nvars + 1);
  expand_definitions(&st->as.map.body, x.inside, x.nvars);
  find_body(&x, &m->body);
  if (!find_accesses(&x))
    return false;
  lower_note(s->request, "a parallel loop takes %d neighbours a thread", (int)x.width);
  ir_walk(&st->as.map.body, low_note_inner, s);
  low_fence(s);
  emit(&x);
  return true;
}

/* ---------------------------------------------------------------- a kernel that is one loop */

enum { WAVES = 8 }; /* blocks a multiprocessor */

/* Whether the host can work it out before the launch. */
static bool is_host(const IrExpr *e) {
  bool host = !e->reads_mut && !e->may_fault;
  if (e->op == OP_VAR)
    return e->as.var->kind == IRV_EXTENT || e->as.var->kind == IRV_PARAM ||
           e->as.var->kind == IRV_SMS;
  for (int i = 0; i < e->nargs; i++)
    host &= is_host(e->arg[i]);
  return host;
}

static bool finds_odd(IrStmt *st, void *ctx) {
  *(bool *)ctx |= st->kind == IRK_ATOMIC || st->kind == IRK_REPORT;
  return true;
}

/* The loop, if the kernel is nothing else; *to what its LETs say. */
static const IrMap *only_loop(IrKernel *k, IrExpr **to) {
  bool odd = k->grid_rank > 0 || k->cooperative || k->body.n == 0;
  for (size_t i = 0; i < k->body.n; i++) {
    const IrStmt *st = k->body.v[i];
    odd |= i + 1 < k->body.n ? !is_plain_let(st) : st->kind != IRK_MAP;
    if (!odd && st->kind == IRK_LET)
      to[st->as.let.var->id] = ir_replace(k, st->as.let.value, to, k->vars.n);
  }
  ir_walk(&k->body, finds_odd, &odd);
  return odd ? NULL : &k->body.v[k->body.n - 1]->as.map;
}

bool expand_spread(IrKernel *k, const LowerRequest *r, int threads) {
  IrExpr **to = ARENA_ARRAY(k->arena, IrExpr *, k->vars.n + 1), *n = ir_int(k, 1);
  const IrMap *m = only_loop(k, to);
  for (int i = 0; m && i < m->naxes; i++) {
    IrExpr *e = ir_replace(k, m->extent[i], to, k->vars.n);
    if (!is_host(e))
      return false;
    n = ir_op2(k, OP_MUL, n, ir_op2(k, OP_MAX2, e, ir_int(k, 0)));
  }
  if (!m)
    return false;
  IrExpr *most = ir_op2(k, OP_MUL, ir_ref(k, ir_sms(k)), ir_int(k, WAVES));
  k->grid[0] = ir_op2(k, OP_MIN2, ir_op2(k, OP_CEILDIV, n, ir_int(k, threads)), most);
  k->grid_rank = 1;
  k->stays = true;
  k->grid_index[0] = ir_var(k, IRV_GRID, "block", DT_I64);
  lower_note(r, "the kernel is one parallel loop: its iterations are spread over many blocks");
  return true;
}
