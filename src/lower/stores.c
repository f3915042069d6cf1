/* stores.c: whether a result may leave by the tensor memory accelerator, which ends when it likes.
 *
 * In: a kernel, and a copy of a tile to a tensor in it. Out: whether nothing that the same block
 * does later reads or writes what the copy writes. Always holds: where that is not plain to see,
 * the answer is no. Tests: tests/lower/check_stored_once.tile.
 */
#include "expand.h"
#include "sched.h"

typedef struct Later {
  const IrStmt *store;
  const IrBuffer *to;
  int writes;  /* statements that write it */
  bool passed; /* the store stands before the statement in hand */
  bool read, read_later, arrives_later;
} Later;

static void see_buffer(IrBuffer **b, unsigned how, void *ctx) {
  Later *x = ctx;
  if (*b != x->to)
    return;
  x->writes += (how & IR_WRITES) != 0;
  x->read |= (how & IR_READS) != 0;
  x->read_later |= (how & IR_READS) != 0 && x->passed;
}

static bool see_stmt(IrStmt *s, void *ctx) {
  Later *x = ctx;
  IrVisitor v = {.buffer = see_buffer, .ctx = x};
  ir_visit(s, &v);
  x->arrives_later |= s->kind == IRK_ARRIVE && x->passed;
  x->passed |= s == x->store;
  return true;
}

/* ---------------------------------------------------------------- loops */

typedef struct Moves { /* variables that have another value in each round of a loop */
  uint8_t *var;        /* by id */
} Moves;

static bool mentions(const Moves *m, const IrExpr *e) {
  if (e->op == OP_VAR && m->var[e->as.var->id])
    return true;
  for (int i = 0; i < e->nargs; i++)
    if (mentions(m, e->arg[i]))
      return true;
  return false;
}

static bool note_let(IrStmt *s, void *ctx) {
  Moves *m = ctx;
  if (ir_is_let(s) && mentions(m, s->as.let.value))
    m->var[s->as.let.var->id] = true;
  return true;
}

/* The region goes on from round to round. */
static bool goes_on(IrKernel *k, const IrStmt *loop, const IrRegion *to) {
  Moves m = {ARENA_ARRAY(k->arena, uint8_t, k->vars.n + 1)};
  m.var[loop->as.loop.index->id] = true;
  ir_walk((IrBlock *)(uintptr_t)&loop->as.loop.body, note_let, &m);
  for (int i = 0; i < to->buf->rank; i++)
    if (mentions(&m, to->axis[i].origin))
      return true;
  return false;
}

/* The way down to the store; *loops: how many loops of the program are around it, -1: one of them
 * writes the same again. */
static bool find(IrKernel *k, IrBlock *b, const IrStmt *store, int *loops) {
  IrBlock *inner;
  for (size_t i = 0; i < b->n; i++) {
    IrStmt *s = b->v[i];
    if (s == store)
      return true;
    for (int j = 0; s->kind != IRK_MAP && (inner = ir_nested(s, j)); j++) {
      if (!find(k, inner, store, loops))
        continue;
      bool loop = s->kind == IRK_FOR || s->kind == IRK_WHILE, on = *loops >= 0;
      if (loop)
        on = on && s->kind == IRK_FOR && goes_on(k, s, &store->as.copy.dst);
      *loops = on ? *loops + loop : -1;
      return true;
    }
  }
  return false;
}

bool sched_stored_once(IrKernel *k, const IrStmt *store) {
  Later x = {.store = store, .to = store->as.copy.dst.buf};
  const IrRoles *r = expand_author_roles(k);
  int loops = 0, own = 0, all = 0;
  ir_walk(&k->body, see_stmt, &x);
  find(k, &k->body, store, &loops);
  if (loops < 0 || x.read_later || (x.read && (loops || r)))
    return false;
  if (x.writes == 1 || !r)
    return x.writes == 1;
  for (int i = 0; i < r->nroles; i++) { /* each role its own part, unless one tells another */
    Later y = {.store = store, .to = x.to};
    ir_walk(&r->role[i].body, see_stmt, &y);
    all += y.writes;
    own = y.passed ? y.writes : own;
    x.arrives_later = y.passed ? y.arrives_later : x.arrives_later;
  }
  return own == 1 && all == x.writes && !loops && !x.arrives_later;
}

/* ---------------------------------------------------------------- coordinates */

typedef struct Signs {
  const IrKernel *k;
  uint8_t *var; /* by id: not negative */
} Signs;

bool sched_is_extent(const IrKernel *k, const IrExpr *e) {
  for (size_t i = 0; i < k->params.n; i++)
    for (int d = 0; k->params.v[i].buf && d < k->params.v[i].buf->rank; d++)
      if (k->params.v[i].buf->extent[d] == e)
        return true;
  return false;
}

/* A division by zero is a fault already, whatever comes of it. */
static bool not_negative(const Signs *x, const IrExpr *e) {
  int64_t lo, hi;
  if ((ir_range(e, &lo, &hi) && lo >= 0) || sched_is_extent(x->k, e))
    return true;
  switch (e->op) {
  case OP_VAR:
    return x->var[e->as.var->id];
  case OP_MOD: /* has the divisor's sign */
    return not_negative(x, e->arg[1]);
  case OP_CAST:
    return e->type == DT_I64 && not_negative(x, e->arg[0]);
  case OP_ADD:
  case OP_MUL:
  case OP_FLOORDIV:
  case OP_CEILDIV:
  case OP_MIN2:
    return e->type == DT_I64 && not_negative(x, e->arg[0]) && not_negative(x, e->arg[1]);
  default:
    return false;
  }
}

static bool learn(IrStmt *s, void *ctx) {
  Signs *x = ctx;
  int64_t step;
  if (ir_is_let(s))
    x->var[s->as.let.var->id] = not_negative(x, s->as.let.value);
  if (s->kind == IRK_FOR && ir_is_const(s->as.loop.step, &step) && step > 0)
    x->var[s->as.loop.index->id] = not_negative(x, s->as.loop.lo);
  return true;
}

bool sched_not_negative(IrKernel *k, const IrExpr *e) {
  Signs x = {k, ARENA_ARRAY(k->arena, uint8_t, k->vars.n + 1)};
  ir_walk(&k->pre, learn, &x);
  ir_walk(&k->body, learn, &x);
  return not_negative(&x, e);
}
