/* expand_count.c: the number of a round, divided by what is the same in all rounds.
 *
 * In: expressions of a loop's body like s // n, s % n and s // n % m, where s is the loop's index.
 * Out: the same with variables in their place, which go from round to round by additions and
 * comparisons. Always holds: only what is no negative number divides; where it is zero, which the
 * caller tells, the numbers mean nothing. Tests: tests/unit/check_lower.c, tests/lower.
 */
#include "expand_count.h"

#include "sched.h"

static bool mentions(const IrExpr *e, const bool *changes) {
  bool does = e->op == OP_VAR && changes[e->as.var->id];
  for (int i = 0; i < e->nargs; i++)
    does |= mentions(e->arg[i], changes);
  return does;
}

/* Divisors that could be zero are the same in all rounds, so that the first round's checks are
 * those of all. */
static bool checks_once(const IrExpr *e, const bool *changes) {
  bool division = e->op == OP_FLOORDIV || e->op == OP_MOD || e->op == OP_CEILDIV, ok = true;
  if (op_can_fault(e->op, e->type))
    ok = division && !mentions(e->arg[1], changes);
  for (int i = 0; i < e->nargs && ok; i++)
    ok = !e->arg[i]->may_fault || checks_once(e->arg[i], changes);
  return ok;
}

bool count_plain_let(const IrStmt *b, bool *changes) {
  if (!ir_is_let(b) || b->as.let.value->reads_mut)
    return false;
  changes[b->as.let.var->id] = mentions(b->as.let.value, changes);
  return !b->as.let.value->may_fault || checks_once(b->as.let.value, changes);
}

typedef struct Defined {
  bool *by; /* by variable id, n of them */
  size_t n;
} Defined;

static void note_definition(IrVar **v, void *ctx) {
  Defined *d = ctx;
  if ((*v)->id < d->n)
    d->by[(*v)->id] = true;
}

static bool note_definitions(IrStmt *st, void *ctx) {
  IrVisitor v = {NULL, note_definition, NULL, ctx};
  ir_visit(st, &v);
  return true;
}

void expand_definitions(IrBlock *b, bool *defined, size_t n) {
  Defined d = {defined, n};
  ir_walk(b, note_definitions, &d);
}

void count_begin(Simple *s, Counts *c, const IrStmt *loop) {
  int64_t lo, step;
  *c = (Counts){.nvars = s->k->vars.n};
  if (!ir_is_const(loop->as.loop.lo, &lo) || lo != 0 || !ir_is_const(loop->as.loop.step, &step) ||
      step != 1 || loop->as.loop.index->type != DT_I64)
    return;
  c->loop = loop;
  c->inside = ARENA_ARRAY(s->arena, bool, c->nvars + 1);
  c->inside[loop->as.loop.index->id] = true;
  expand_definitions(&((IrStmt *)(uintptr_t)loop)->as.loop.body, c->inside, c->nvars);
}

static bool is_outside(const Counts *c, const IrExpr *e) {
  bool out = e->op != OP_VAR || (e->as.var->id < c->nvars && !c->inside[e->as.var->id]);
  for (int i = 0; i < e->nargs; i++)
    out &= is_outside(c, e->arg[i]);
  return out && !e->reads_mut;
}

static bool divides(Simple *s, const Counts *c, const IrExpr *by) {
  return is_outside(c, by) && sched_not_negative(s->k, by);
}

/* Whether it grows by 0 or 1 from round to round, from 0 on. */
static bool counts(Simple *s, const Counts *c, const IrExpr *e) {
  if (e->op == OP_VAR)
    return e->as.var == c->loop->as.loop.index;
  return e->op == OP_FLOORDIV && counts(s, c, e->arg[0]) && divides(s, c, e->arg[1]);
}

static int find(const Counts *c, const IrExpr *of, const IrExpr *by) {
  int i = 0;
  while (i < c->n && (c->v[i].of != of || c->v[i].by != by))
    i++;
  return i;
}

static IrVar *counter(Simple *s, const char *name) {
  IrVar *v = ir_var(s->k, IRV_MUT, name, DT_I64);
  v->lo = 0;
  v->hi = INT64_MAX - 1;
  return v;
}

/* The counter of of // by, behind that of what it counts; -1: there are too many. */
static int add(Simple *s, Counts *c, IrExpr *of, IrExpr *by) {
  if (of->op == OP_FLOORDIV && add(s, c, of->arg[0], of->arg[1]) < 0)
    return -1;
  int i = find(c, of, by);
  if (i == COUNT_MOST)
    return -1;
  if (i == c->n)
    c->v[c->n++] = (Count){of, by, counter(s, "quotient"), counter(s, "rest")};
  return i;
}

IrExpr *count_replace(Simple *s, Counts *c, IrExpr *e) {
  IrExpr *arg[4];
  bool division = e->op == OP_FLOORDIV || e->op == OP_MOD;
  if (!c->loop || !e->nargs)
    return e;
  if (division && e->type == DT_I64 && counts(s, c, e->arg[0]) && divides(s, c, e->arg[1])) {
    int i = add(s, c, e->arg[0], e->arg[1]);
    if (i >= 0)
      return ir_ref(s->k, e->op == OP_MOD ? c->v[i].rest : c->v[i].quotient);
  }
  for (int i = 0; i < e->nargs; i++)
    arg[i] = count_replace(s, c, e->arg[i]);
  return ir_expr(s->k, e->op, e->type, arg, e->nargs);
}

static void declare(Simple *s, IrVar *v) {
  IrStmt *st = low_emit(s, IRK_LET);
  st->as.let.var = v;
  st->as.let.value = low_i64(s, 0);
}

void count_declare(Simple *s, Counts *c) {
  for (int i = 0; i < c->n; i++) {
    declare(s, c->v[i].quotient);
    declare(s, c->v[i].rest);
  }
}

/* All that count `of`, which has just grown by 1. */
static void advance(Simple *s, const Counts *c, const IrExpr *of) {
  IrKernel *k = s->k;
  IrExpr *one = low_i64(s, 1);
  for (int i = 0; i < c->n; i++) {
    const Count *x = &c->v[i];
    if (x->of != of)
      continue;
    low_emit_set(s, x->rest, low_add(s, ir_ref(k, x->rest), one));
    IrExpr *full = ir_op2(k, OP_EQ, ir_ref(k, x->rest), x->by);
    IrBlock *before = low_enter(s, &low_emit_if(s, full)->as.if_.then);
    low_emit_set(s, x->rest, low_i64(s, 0));
    low_emit_set(s, x->quotient, low_add(s, ir_ref(k, x->quotient), one));
    advance(s, c, ir_op2(k, OP_FLOORDIV, x->of, x->by));
    low_enter(s, before);
  }
}

void count_advance(Simple *s, const Counts *c) {
  if (c->loop)
    advance(s, c, ir_ref(s->k, c->loop->as.loop.index));
}
