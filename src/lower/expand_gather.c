/* expand_gather.c: parallel loops that bring elements of a tensor to a shared tile, or take them
 * from it: which these are.
 *
 * In: a MAP over a whole tile whose body moves one element, maybe under a condition, else zero; the
 * last index runs along the stride of 1 in both. Out: a Gather: groups of neighbours that one
 * access moves, conditions a group, and what the rows alone decide of them. Always holds: every
 * index is known to lie in the tensor where the conditions hold; what could fault is computed once,
 * as often as the loop would compute it at all. Tests: tests/unit/check_lower.c, tests/lower.
 */
#include "expand_gather.h"

#include "expand_side.h"
#include "sched.h"

/* SIZE: nodes of an expression that is looked at; FACTORS: of a product; VECTORS: of a thread. */
enum { SIZE = 400, FACTORS = 8, VECTORS = 32 };

/* What an expression depends on. */
enum { ON_ROW = 1, ON_ALONG = 2, ON_ROUND = 4 };

typedef struct Find {
  Simple *s;
  Gather *g;
  const IrVar *along;
  bool *round;   /* by variable id: a round of the loop around it changes it */
  IrExpr **to;   /* by variable id: what LETs of the MAP say */
  IrExpr **deep; /* the same of the loop's body too */
  size_t nvars;
  const IrStmt *load, *store, *other; /* other: the store of zero; NULL: none */
  IrExpr *index[IR_MAX_RANK];         /* of the tensor */
  IrExpr *cond[GATHER_GUARDS];        /* all that holds where an element is moved */
  int nconds;
} Find;

/* ---------------------------------------------------------------- the statements */

static bool is_small_let(const IrStmt *st) {
  return ir_is_let(st) && !st->as.let.value->reads_mut && st->as.let.value->size < SIZE;
}

static void learn(Find *f, const IrStmt *st) {
  IrKernel *k = f->s->k;
  f->to[st->as.let.var->id] = ir_replace(k, st->as.let.value, f->to, f->nvars);
}

/* LETs, of which what could fault is left to the outermost block; how many. */
static size_t learn_lets(Find *f, const IrBlock *b, bool outermost) {
  size_t i = 0;
  for (; i < b->n && is_small_let(b->v[i]) && (outermost || !b->v[i]->as.let.value->may_fault); i++)
    learn(f, b->v[i]);
  return i;
}

/* `x = load A[…]; B[…] = x` */
static bool find_move(Find *f, const IrBlock *b) {
  size_t i = learn_lets(f, b, false);
  if (i + 2 != b->n || b->v[i]->kind != IRK_LOAD || b->v[i + 1]->kind != IRK_STORE)
    return false;
  f->load = b->v[i];
  f->store = b->v[i + 1];
  const IrExpr *value = f->store->as.access.value;
  return value->op == OP_VAR && value->as.var == f->load->as.access.var;
}

static bool same_index(const IrAccess *a, const IrAccess *b) {
  bool same = a->buf == b->buf;
  for (int d = 0; same && d < a->buf->rank; d++)
    same = a->index[d] == b->index[d];
  return same;
}

/* Takes a conjunction apart. */
static bool add_conds(Find *f, IrExpr *e) {
  if (e->op == OP_AND && e->type == DT_BOOL)
    return add_conds(f, e->arg[0]) && add_conds(f, e->arg[1]);
  if (f->nconds == GATHER_GUARDS || e->reads_mut || e->size > SIZE)
    return false;
  f->cond[f->nconds++] = e;
  return true;
}

static bool find_body(Find *f) {
  const IrBlock *b = &f->g->map->body;
  size_t i = learn_lets(f, b, true);
  if (i == b->n || b->v[i]->kind != IRK_IF) {
    IrBlock rest = {b->v + i, b->n - i, b->n - i};
    return find_move(f, &rest);
  }
  const IrIf *branch = &b->v[i]->as.if_;
  if (i + 1 != b->n || branch->cond->may_fault ||
      !add_conds(f, ir_replace(f->s->k, branch->cond, f->to, f->nvars)) ||
      !find_move(f, &branch->then) || branch->other.n > 1)
    return false;
  if (branch->other.n == 0)
    return true;
  f->other = branch->other.v[0];
  return f->other->kind == IRK_STORE && ir_is_zero_bits(f->other->as.access.value) &&
         same_index(&f->other->as.access.at, &f->store->as.access.at);
}

/* The tile's element is the loop's point. */
static bool is_point(Find *f, const IrAccess *a) {
  const IrMap *m = f->g->map;
  const Place *p = low_place_of(f->s, a->buf);
  if (!p->tile || p->fragment || p->spilled || p->frag || p->map || p->columns || p->printed ||
      p->rank != m->naxes || a->buf->arrivals)
    return false;
  for (int d = 0; d < p->rank; d++) {
    int64_t n;
    const IrExpr *e = a->index[d];
    if (e->op != OP_VAR || e->as.var != m->index[d] || !ir_is_const(m->extent[d], &n) ||
        n != p->extent[d] || n < 1)
      return false;
  }
  return true;
}

/* Which way it goes, and the tensor's index. */
static bool find_sides(Find *f) {
  const IrAccess *from = &f->load->as.access.at, *to = &f->store->as.access.at;
  f->g->out = to->buf->space == IRS_GLOBAL;
  const IrAccess *tile = f->g->out ? from : to, *tensor = f->g->out ? to : from;
  f->g->tile = tile->buf;
  f->g->tensor = tensor->buf;
  if (tensor->buf->space != IRS_GLOBAL || low_place_of(f->s, tensor->buf)->tile ||
      tile->buf->dtype != tensor->buf->dtype || (f->g->out ? f->other : 0) || !is_point(f, tile) ||
      (!f->g->out && !f->other && f->nconds))
    return false;
  for (int d = 0; d < tensor->buf->rank; d++) {
    f->index[d] = ir_replace(f->s->k, tensor->index[d], f->to, f->nvars);
    if (tensor->index[d]->may_fault || f->index[d]->reads_mut || f->index[d]->size > SIZE)
      return false;
  }
  return true;
}

/* ---------------------------------------------------------------- what depends on what */

static unsigned depends(const Find *f, const IrExpr *e) {
  unsigned on = 0;
  if (e->op == OP_VAR && e->as.var == f->along)
    return ON_ALONG;
  if (e->op == OP_VAR && e->as.var->id < f->nvars && f->round[e->as.var->id])
    return ON_ROUND;
  for (int i = 0; e->op == OP_VAR && i < f->g->map->naxes; i++)
    on |= e->as.var == f->g->map->index[i] ? ON_ROW : 0;
  for (int i = 0; i < e->nargs; i++)
    on |= depends(f, e->arg[i]);
  return on;
}

/* By how much an i64 grows from one neighbour to the next; false: not by a constant that is plain
 * to see. */
static bool slope_of(const Find *f, const IrExpr *e, int64_t *slope) {
  int64_t a, b;
  *slope = 0;
  if (!(depends(f, e) & ON_ALONG))
    return true;
  if (e->op == OP_VAR)
    *slope = 1;
  else if (e->op == OP_CAST && e->type == DT_I64 && e->arg[0]->type == DT_I32)
    return slope_of(f, e->arg[0], slope);
  else if ((e->op == OP_ADD || e->op == OP_SUB) && e->type == DT_I64 &&
           slope_of(f, e->arg[0], &a) && slope_of(f, e->arg[1], &b))
    *slope = e->op == OP_ADD ? a + b : a - b;
  else
    return false;
  return true;
}

/* ---------------------------------------------------------------- indices lie inside */

static bool has_cond(const Find *f, const IrExpr *e) {
  for (int i = 0; i < f->nconds; i++)
    if (f->cond[i] == e)
      return true;
  return false;
}

/* Adds the factors of a product; false: too many. */
static bool add_factors(const IrExpr *e, const IrExpr **v, int *n) {
  if (e->op == OP_MUL)
    return add_factors(e->arg[0], v, n) && add_factors(e->arg[1], v, n);
  if (*n < FACTORS)
    v[*n] = e;
  return (*n)++ < FACTORS;
}

/* Whether x = a * b but for the order of factors. */
static bool is_product(const IrExpr *x, const IrExpr *a, const IrExpr *b) {
  const IrExpr *all[FACTORS], *part[FACTORS];
  int n = 0, m = 0;
  if (!add_factors(x, all, &n) || !add_factors(a, part, &m) || !add_factors(b, part, &m) || n != m)
    return false;
  for (int i = 0; i < m; i++) {
    int j = 0;
    while (j < n && all[j] != part[i])
      j++;
    if (j == n)
      return false;
    all[j] = all[--n];
  }
  return true;
}

static bool below(const Find *f, IrExpr *e, IrExpr *end) {
  IrKernel *k = f->s->k;
  int64_t lo, hi, end_lo, end_hi;
  if (has_cond(f, ir_op2(k, OP_LT, e, end)) || has_cond(f, ir_op2(k, OP_GT, end, e)) ||
      (e->op == OP_MOD && e->arg[1] == end && sched_is_extent(k, end)))
    return true;
  if (ir_range(e, &lo, &hi) && ir_range(end, &end_lo, &end_hi) && hi < end_lo)
    return true;
  for (int i = 0; e->op == OP_FLOORDIV && i < f->nconds; i++) /* x < end * n, so x // n < end */
    if (f->cond[i]->op == OP_LT && f->cond[i]->arg[0] == e->arg[0] &&
        sched_not_negative(f->s->k, e->arg[1]) && is_product(f->cond[i]->arg[1], end, e->arg[1]))
      return true;
  return false;
}

static bool lies_inside(const Find *f) {
  IrKernel *k = f->s->k;
  const IrAccess *a = f->g->out ? &f->store->as.access.at : &f->load->as.access.at;
  if (!a->check || a->buf->unchecked || k->unchecked)
    return true;
  for (int d = 0; d < a->buf->rank; d++) {
    IrExpr *e = f->index[d], *zero = ir_int_of(k, e->type, 0);
    IrExpr *deep = ir_replace(k, e, f->deep, f->nvars), *end = a->buf->extent[d];
    bool low = sched_not_negative(f->s->k, deep) || has_cond(f, ir_op2(k, OP_GE, e, zero)) ||
               has_cond(f, ir_op2(k, OP_LE, zero, e));
    if (e->type != DT_I64 || !low || !(below(f, e, end) || below(f, deep, end)))
      return false;
  }
  return true;
}

/* ---------------------------------------------------------------- groups */

/* Neighbours that lie side by side in both, and begin where such accesses may. */
static bool find_width(Find *f) {
  Simple *s = f->s;
  Gather *g = f->g;
  const Place *p = low_place_of(s, g->tile);
  LowerFact fact = lower_fact(s->request, g->tensor);
  int64_t size = (int64_t)dtype_size(g->tile->dtype), slope, n = p->extent[p->rank - 1] + p->pad;
  if (fact.unit_axis < 0 || fact.unit_axis >= g->tensor->rank)
    return false;
  for (int d = 0; d < g->tensor->rank; d++)
    if (!slope_of(f, f->index[d], &slope) || slope != (d == fact.unit_axis))
      return false;
  IrExpr *first = ir_replace(s->k, f->index[fact.unit_axis], f->deep, f->nvars);
  IrExpr **zero = ARENA_ARRAY(s->arena, IrExpr *, f->nvars);
  zero[f->along->id] = ir_int_of(s->k, f->along->type, 0);
  g->width = base_least(base_least(fact.align, VECTOR_BYTES) / size,
                        expand_divisor(s, ir_replace(s->k, first, zero, f->nvars)));
  g->width = base_least(g->width, base_least(n & -n, p->extent[p->rank - 1]));
  g->width = base_least(g->width, p->extent[p->rank - 1] & -p->extent[p->rank - 1]);
  return g->width * size >= 4 && g->width >= 2;
}

/* `x < end` with x along the neighbours ends the group; what does not depend on them is a guard. */
static bool add_guard(Find *f, IrExpr *e) {
  IrKernel *k = f->s->k;
  Gather *g = f->g;
  int64_t a, b;
  if (!(depends(f, e) & ON_ALONG)) {
    g->guard[g->nguards++] = e;
    return true;
  }
  bool less = e->op == OP_LT || e->op == OP_LE, more = e->op == OP_GT || e->op == OP_GE;
  if (!(less || more) || e->arg[0]->type != DT_I64 || g->nends == GATHER_ENDS)
    return false;
  IrExpr *x = e->arg[less ? 0 : 1], *end = e->arg[less ? 1 : 0];
  if (!slope_of(f, x, &a) || !slope_of(f, end, &b) || a - b != 1)
    return false;
  IrExpr *left = ir_op2(k, OP_SUB, end, x);
  bool last = e->op == OP_LE || e->op == OP_GE;
  g->end[g->nends++] = last ? ir_op2(k, OP_ADD, left, ir_int(k, 1)) : left;
  return true;
}

/* 0 <= x and x < n, of an n that is not negative, is one comparison without signs. */
static void join_bounds(Find *f) {
  IrKernel *k = f->s->k;
  for (int i = 0; i < f->nconds; i++) {
    IrExpr *low = f->cond[i];
    int64_t zero;
    if (low->op != OP_GE || low->arg[0]->type != DT_I64 || !ir_is_const(low->arg[1], &zero) ||
        zero != 0)
      continue;
    for (int j = 0; j < f->nconds; j++) {
      IrExpr *high = f->cond[j];
      if (high->op != OP_LT || high->arg[0] != low->arg[0] ||
          !sched_not_negative(f->s->k, high->arg[1]) || depends(f, high) & ON_ALONG)
        continue;
      f->cond[i] =
          ir_op2(k, OP_LT, ir_cast(k, high->arg[0], DT_U64), ir_cast(k, high->arg[1], DT_U64));
      f->cond[j] = f->cond[--f->nconds];
      break;
    }
  }
}

/* ---------------------------------------------------------------- rows */

static bool divides(const IrExpr *e) {
  bool found = e->op == OP_FLOORDIV || e->op == OP_MOD || e->op == OP_CEILDIV;
  for (int i = 0; i < e->nargs; i++)
    found |= divides(e->arg[i]);
  return found;
}

/* Whether what divides is the same in all rows, so that one of them tells what could go wrong. */
static bool divides_alike(const Find *f, const IrExpr *e) {
  if (op_can_fault(e->op, e->type) && (!divides(e) || depends(f, e->arg[1])))
    return false;
  for (int i = 0; i < e->nargs; i++)
    if (e->arg[i]->may_fault && !divides_alike(f, e->arg[i]))
      return false;
  return true;
}

static IrExpr *row_name(Find *f, IrExpr *e) {
  Gather *g = f->g;
  int i = 0;
  while (i < g->nrows && g->row[i].value != e)
    i++;
  if (i == GATHER_ROWS || !divides_alike(f, e))
    return e; /* then it is computed where it is used */
  if (i == g->nrows)
    g->row[g->nrows++] = (GatherRow){e, ir_var(f->s->k, IRV_LET, "of_row", e->type), NULL};
  return ir_ref(f->s->k, g->row[i].name);
}

/* The expression with names for the largest parts that rows alone decide by divisions. */
static IrExpr *with_rows(Find *f, IrExpr *e) {
  IrExpr *arg[4];
  if (!divides(e))
    return e;
  if (dtype_is_int(e->type) && !(depends(f, e) & (ON_ALONG | ON_ROUND)))
    return row_name(f, e);
  for (int i = 0; i < e->nargs; i++)
    arg[i] = with_rows(f, e->arg[i]);
  return ir_expr(f->s->k, e->op, e->type, arg, e->nargs);
}

/* Puts the terms of a sum that rows alone decide into *rows, the others into *rest. */
static void split_sum(Find *f, IrExpr *e, bool minus, IrExpr **rows, IrExpr **rest) {
  IrKernel *k = f->s->k;
  if (e->type == DT_I64 && (e->op == OP_ADD || e->op == OP_SUB)) {
    split_sum(f, e->arg[0], minus, rows, rest);
    split_sum(f, e->arg[1], minus != (e->op == OP_SUB), rows, rest);
    return;
  }
  IrExpr **to = depends(f, e) == ON_ROW ? rows : rest;
  *to = ir_op2(k, minus ? OP_SUB : OP_ADD, *to, e);
}

/* The element's place: one number a row, and what the round adds to it. */
static void find_offset(Find *f) {
  Simple *s = f->s;
  IrExpr *rows[IR_MAX_RANK], *rest[IR_MAX_RANK];
  for (int d = 0; d < f->g->tensor->rank; d++) {
    rows[d] = rest[d] = ir_int(s->k, 0);
    split_sum(f, f->index[d], false, &rows[d], &rest[d]);
    rest[d] = with_rows(f, rest[d]);
  }
  IrExpr *row = side_global_offset(s, f->g->tensor, rows);
  if (row->size > 1 && !(depends(f, row) & (ON_ALONG | ON_ROUND)))
    row = row_name(f, row);
  f->g->offset = low_add(s, row, side_global_offset(s, f->g->tensor, rest));
}

/* What could fault is among the rows' values. */
static bool finds_faults(Find *f) {
  const IrBlock *b = &f->g->map->body;
  for (size_t i = 0; i < b->n && is_small_let(b->v[i]); i++)
    if (with_rows(f, f->to[b->v[i]->as.let.var->id])->may_fault)
      return false;
  for (int i = 0; i < f->g->nguards; i++)
    f->g->guard[i] = with_rows(f, f->g->guard[i]);
  for (int i = 0; i < f->g->nends; i++)
    f->g->end[i] = with_rows(f, f->g->end[i]);
  bool faults = f->g->offset->may_fault;
  for (int i = 0; i < f->g->nguards; i++)
    faults |= f->g->guard[i]->may_fault;
  for (int i = 0; i < f->g->nends; i++)
    faults |= f->g->end[i]->may_fault;
  return !faults;
}

/* ---------------------------------------------------------------- the loop around it */

static void look_around(Find *f, const IrStmt *loop) {
  IrFor *l = &((IrStmt *)(uintptr_t)loop)->as.loop;
  f->round[l->index->id] = true;
  expand_definitions(&l->body, f->round, f->nvars);
  for (int i = 0; i < f->g->map->naxes; i++)
    f->round[f->g->map->index[i]->id] = false;
  for (size_t i = 0; i < l->body.n && l->body.v[i] != f->g->st; i++)
    if (is_small_let(l->body.v[i]))
      f->deep[l->body.v[i]->as.let.var->id] =
          ir_replace(f->s->k, l->body.v[i]->as.let.value, f->deep, f->nvars);
}

bool gather_find(Simple *s, IrStmt *st, const IrStmt *loop, Gather *g) {
  *g = (Gather){.st = st, .map = &st->as.map};
  Find f = {.s = s, .g = g, .nvars = s->k->vars.n};
  if (g->map->naxes < 1 || s->alone || s->target->arch < ARCH_SM80)
    return false;
  f.along = g->map->index[g->map->naxes - 1];
  f.round = ARENA_ARRAY(s->arena, bool, f.nvars + 1);
  f.to = ARENA_ARRAY(s->arena, IrExpr *, f.nvars + 1);
  f.deep = ARENA_ARRAY(s->arena, IrExpr *, f.nvars + 1);
  if (loop)
    look_around(&f, loop);
  if (!find_body(&f) || !find_sides(&f) || !lies_inside(&f) || !find_width(&f))
    return false;
  join_bounds(&f);
  for (int i = 0; i < f.nconds; i++)
    if (!add_guard(&f, f.cond[i]))
      return false;
  find_offset(&f);
  if (!finds_faults(&f))
    return false;
  const Place *p = low_place_of(s, g->tile);
  g->iter = frag_rows(p->rank, p->extent, p->rank - 1, g->width, s->threads);
  return frag_registers(&g->iter) <= VECTORS * g->width;
}
