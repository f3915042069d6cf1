/* stmt.c: statements and loops of kernels and of the fns they call.
 *
 * In: a block. Out: typed statements. Compile-time branches leave only what is taken. In parallel
 * loops: elements only, nothing from outside is assigned.
 * Tests: tests/lang/stmt_*.tile, loop_*.tile, tests/errors/stmt_*.tile, loop_*.tile.
 */
#include "private.h"

#include <string.h>

void check_stmts(Check *c, const AstBlock *b) {
  for (size_t i = 0; i < b->n; i++)
    check_stmt(c, b->v[i]);
}

void check_block(Check *c, const AstBlock *b) {
  Block scope;
  block_push(c, &scope);
  if (enter(c, b->span))
    check_stmts(c, b);
  leave(c);
  block_pop(c);
}

static void block_into(Check *c, const AstBlock *b, TStmts *out) {
  TStmts *saved = c->out;
  c->out = out;
  check_block(c, b);
  c->out = saved;
}

/* ---------------------------------------------------------------- assignment */

static void assign_var(Check *c, Sym *s, TExpr *v, Span span) {
  if (s->parallel != c->parallel) {
    Diag *d = diag_add(c->sink, E0107, span,
                       "a parallel loop does not assign to a `var` from outside: %s", s->name);
    diag_also(c->sink, d, s->span, NULL);
    diag_hint(c->sink, d, "keep it in a tile, or reduce a tile after the loop");
    return;
  }
  v = convert(c, v, s->var->type);
  if (is_error(v))
    return;
  if (is_tile(v)) {
    diag_add(c->sink, E0214, span, "%s is a scalar, it is assigned %s", s->name, describe(c, v));
    return;
  }
  TStmt *st = tstmt_new(c, TS_SET, span);
  st->as.let.var = s->var;
  st->as.let.value = v;
}

static void immutable(Check *c, const Sym *s, Span span) {
  Diag *d = diag_add(c->sink, E0103, span, "%s is %s: it does not change", s->name, s->what);
  if (s->span.file)
    diag_also(c->sink, d, s->span, NULL);
  if (strcmp(s->what, "a `let`") == 0 && is_num(s->value))
    diag_hint(c->sink, d, "var %s: %s = …", s->name,
              s->value->type.untyped ? "i32" : dtype_name(s->value->type.dtype));
}

/* Index expressions that load or count something are computed once. */
static void fix_place(Check *c, TExpr *p) {
  for (int i = 0; i < p->as.region.buf->rank; i++) {
    TAxis *a = &p->as.region.axis[i];
    if (!is_pure(a->origin))
      a->origin = bind_value(c, "index", a->origin, a->origin->span);
  }
}

static void assign_element(Check *c, const TExpr *p, TExpr *v, Span span) {
  v = convert(c, v, p->as.region.buf->dtype);
  if (is_error(v))
    return;
  if (is_tile(v)) {
    Diag *d = diag_add(c->sink, E0227, span, "this is one element of %s, it is assigned %s",
                       p->as.region.buf->name, describe(c, v));
    if (p->as.region.buf->space == TB_GLOBAL)
      diag_hint(c->sink, d, "a region is written by copy(tile, %s[…])", p->as.region.buf->name);
    return;
  }
  TStmt *s = tstmt_new(c, TS_STORE, span);
  s->as.assign.dst = p->as.region;
  s->as.assign.value = v;
}

static void global_target(Check *c, const TExpr *p, Span span) {
  const TBuf *b = p->as.region.buf;
  Diag *d = diag_add(c->sink, E0224, span,
                     "a region of %s is written by copy, an element has an index for each of its "
                     "%d axes",
                     b->name, b->rank);
  diag_hint(c->sink, d, "copy(tile, %s[…])", b->name);
}

static void assign_place(Check *c, TExpr *p, TExpr *v, Span span) {
  if (p->kind == TE_ELEM)
    assign_element(c, p, v, span);
  else if (p->type.kind == TY_GLOBAL)
    global_target(c, p, span);
  else if (tile_allowed(c, span, "an assignment to a tile"))
    assign_region(c, &p->as.region, v, span);
}

static TExpr *assigned(Check *c, const AstStmt *s, TExpr *old, TExpr *value) {
  AstOp op = s->as.assign.op;
  if (op == AST_NO_OP || is_error(value))
    return value;
  return binary(c, op, old, value, s->as.assign.targets[0], s->as.assign.value, s->span);
}

static bool is_tile_name(const Sym *s) {
  return s->kind == SYM_VALUE && (is_tile(s->value) || s->value->type.kind == TY_GLOBAL);
}

static void assign_name(Check *c, const AstStmt *s, const AstExpr *target, TExpr *value) {
  Sym *sym = sym_find(c, target->as.name);
  if (!sym) {
    unknown_name(c, target->as.name, target->span);
    return;
  }
  if (sym->kind == SYM_POISON)
    return;
  if (sym->kind == SYM_VAR) {
    TExpr *old = texpr_var(c, sym->var, false, target->span);
    assign_var(c, sym, assigned(c, s, old, value), s->span);
    return;
  }
  if (!is_tile_name(sym)) {
    immutable(c, sym, s->span);
    return;
  }
  TExpr *p = check_place(c, target);
  if (!is_error(p))
    assign_place(c, p, assigned(c, s, p, value), s->span);
}

static void assign_one(Check *c, const AstStmt *s, const AstExpr *target, TExpr *value) {
  if (is_error(value))
    return;
  if (target->kind == EXPR_NAME) {
    assign_name(c, s, target, value);
    return;
  }
  TExpr *p = check_place(c, target);
  if (is_error(p))
    return;
  assign_place(c, p, value, s->span);
}

/* x[…] op= v: the place is found before the right side, once. */
static void assign_op(Check *c, const AstStmt *s) {
  const AstExpr *target = s->as.assign.targets[0];
  if (target->kind == EXPR_NAME) {
    assign_name(c, s, target, check_expr(c, s->as.assign.value));
    return;
  }
  TExpr *p = check_place(c, target);
  if (is_error(p))
    return;
  fix_place(c, p);
  TExpr *v = check_expr(c, s->as.assign.value);
  if (!is_error(v))
    assign_place(c, p, assigned(c, s, p, v), s->span);
}

void check_assign(Check *c, const AstStmt *s) {
  size_t n = s->as.assign.ntargets;
  if (n == 1 && s->as.assign.op != AST_NO_OP) {
    assign_op(c, s);
    return;
  }
  TExpr *v = check_expr(c, s->as.assign.value);
  if (n == 1) {
    assign_one(c, s, s->as.assign.targets[0], v);
    return;
  }
  if (is_error(v))
    return;
  if (v->kind != TE_TUPLE || (size_t)v->nargs != n) {
    diag_add(c->sink, E0229, s->span, "%zu places are assigned %s", n,
             v->kind == TE_TUPLE ? arena_printf(c->a, "%d values", v->nargs) : describe(c, v));
    return;
  }
  for (int i = 0; i < v->nargs; i++)
    v->arg[i] = bind_value(c, "value", v->arg[i], s->span);
  for (size_t i = 0; i < n; i++)
    assign_one(c, s, s->as.assign.targets[i], v->arg[i]);
}

/* ---------------------------------------------------------------- loops */

typedef struct Range { /* the call after `in` */
  const AstExpr *call;
  const AstExpr *lo, *hi, *step, *stages;
  const char *name;
  TLoop loop;
} Range;

static const char *const loop_names[] = {
    [TF_RANGE] = "range",         [TF_UNROLL] = "unroll",         [TF_VECTORIZED] = "vectorized",
    [TF_PIPELINED] = "pipelined", [TF_PERSISTENT] = "persistent", [TF_PARALLEL] = "parallel"};

static bool range_kind(Check *c, const AstExpr *e, Range *r) {
  size_t n = sizeof loop_names / sizeof *loop_names;
  r->call = e;
  if (e->kind == EXPR_CALL && e->as.call.fn->kind == EXPR_NAME) {
    r->name = e->as.call.fn->as.name;
    for (size_t i = 0; i < n; i++)
      if (strcmp(loop_names[i], r->name) == 0) {
        r->loop = (TLoop)i;
        return true;
      }
  }
  Diag *d = diag_add(c->sink, E0310, e->span,
                     "a loop of a kernel runs over range, parallel, pipelined, unroll, vectorized "
                     "or persistent");
  const char *near = r->name ? names_closest(r->name, loop_names, n) : NULL;
  if (near)
    diag_hint(c->sink, d, "did you mean %s?", near);
  else
    diag_hint(c->sink, d, "for i in range(n) { … }");
  return false;
}

static bool range_named(Check *c, const AstArg *a, Range *r) {
  if (strcmp(a->name, "stages") == 0 && r->loop == TF_PIPELINED) {
    r->stages = a->value;
    return true;
  }
  if (strcmp(a->name, "step") == 0 && r->loop != TF_PARALLEL && !r->step) {
    r->step = a->value;
    return true;
  }
  Diag *d = diag_add(c->sink, E0111, a->name_span, "%s has no argument %s", r->name, a->name);
  if (strcmp(a->name, "stages") == 0)
    diag_hint(c->sink, d, "pipelined(n, stages)");
  return false;
}

/* n | a, b | a, b, step, where pipelined(n, s) means stages unless they are named. */
static bool range_args(Check *c, Range *r) {
  const AstArgs *args = &r->call->as.call.args;
  size_t n = args->npos;
  AstArg *v = args->v;
  for (size_t i = n; i < args->n; i++)
    if (!range_named(c, &v[i], r))
      return false;
  bool last = r->loop == TF_PIPELINED && !r->stages && (n == 2 || n == 4);
  if (last)
    r->stages = v[--n].value;
  if (n < 1 || n > 3 || (n == 3 && args->n > args->npos && r->step)) {
    diag_add(c->sink, E0110, r->call->span, "%s takes n, or a, b, or a, b, step%s", r->name,
             r->loop == TF_PIPELINED ? ", and stages" : "");
    return false;
  }
  r->hi = v[n == 1 ? 0 : 1].value;
  r->lo = n == 1 ? NULL : v[0].value;
  if (n == 3)
    r->step = v[2].value;
  return true;
}

static bool bound(Check *c, const AstExpr *e, TExpr **out) {
  *out = check_scalar(c, e, "a bound of a loop");
  if (is_error(*out))
    return false;
  if (dtype_is_int((*out)->type.dtype))
    return true;
  diag_add(c->sink, E0216, e->span, "a bound of a loop is an integer, this is %s",
           describe(c, *out));
  return false;
}

/* The bounds meet in one integer type, which is the variable's. */
static bool loop_bounds(Check *c, const Range *r, TStmt *s, SemaType *t) {
  TExpr *v[3];
  Span span = r->call->span;
  v[0] = texpr_int(c, 0, span);
  v[2] = texpr_int(c, 1, span);
  if ((r->lo && !bound(c, r->lo, &v[0])) || !bound(c, r->hi, &v[1]) ||
      (r->step && !bound(c, r->step, &v[2])))
    return false;
  SemaNum sum = num_of(c, v[0], r->lo);
  SemaRule rule;
  for (int i = 1; i < 3; i++) {
    if (!sema_meet(c->a, SEMA_KERNEL, sum, num_of(c, v[i], i == 1 ? r->hi : r->step), &rule)) {
      report_rule(c, &rule, span);
      return false;
    }
    sum = (SemaNum){.dtype = rule.dtype, .untyped = rule.untyped};
  }
  *t = type_num(sum.dtype, sum.untyped);
  for (int i = 0; i < 3; i++)
    v[i] = convert(c, v[i], sum.dtype);
  s->as.loop.lo = v[0];
  s->as.loop.hi[0] = v[1];
  s->as.loop.step = v[2];
  int64_t step;
  if (!is_const_int(v[2], &step) || step)
    return !is_error(v[0]) && !is_error(v[1]) && !is_error(v[2]);
  diag_add(c->sink, E0219, r->step->span, "the step of a loop is not 0");
  return false;
}

static void index_range(TVar *v, const TStmt *s) {
  int64_t lo, hi, step;
  if (!is_const_int(s->as.loop.step, &step))
    return;
  const TExpr *first = step > 0 ? s->as.loop.lo : s->as.loop.hi[0];
  const TExpr *past = step > 0 ? s->as.loop.hi[0] : s->as.loop.lo;
  if (is_const_int(first, &lo) && lo < INT64_MAX)
    v->lo = step > 0 ? lo : lo + 1;
  if (is_const_int(past, &hi) && hi > INT64_MIN)
    v->hi = step > 0 ? hi - 1 : hi;
  if (v->lo > v->hi) /* it never runs */
    v->lo = v->hi;
}

static bool loop_stages(Check *c, const Range *r, int *stages) {
  int64_t v = 0;
  if (r->stages && !check_const_int(c, r->stages, "the number of stages", &v))
    return false;
  if (r->stages && (v < 1 || v > 64)) {
    diag_add(c->sink, E0310, r->stages->span, "a pipeline has 1 to 64 stages, this says %lld",
             (long long)v);
    return false;
  }
  *stages = (int)v;
  return true;
}

static bool loop_allowed(Check *c, const Range *r) {
  if (!c->parallel || r->loop == TF_RANGE || r->loop == TF_UNROLL || r->loop == TF_VECTORIZED)
    return r->loop == TF_RANGE || r->loop == TF_UNROLL || r->loop == TF_VECTORIZED ||
           tile_allowed(c, r->call->span, arena_printf(c->a, "%s(…)", r->name));
  Diag *d =
      diag_add(c->sink, E0304, r->call->span, "no %s loop stands inside a parallel one", r->name);
  if (r->loop == TF_PARALLEL)
    diag_hint(c->sink, d, "for i, j in parallel(m, n) { … }");
  return false;
}

/* The body is checked even where the head is wrong, with a silent variable. */
static void loop_body(Check *c, const AstStmt *s, TExpr *const *index, TStmts *body) {
  Block scope;
  TStmts *out = c->out;
  block_push(c, &scope);
  c->out = body;
  for (size_t i = 0; i < s->as.loop.n; i++)
    sym_value(c, s->as.loop.names[i], index ? index[i] : texpr_error(c, s->span),
              "a loop variable");
  if (enter(c, s->span))
    check_block(c, &s->as.loop.body);
  leave(c);
  c->out = out;
  block_pop(c);
}

static void bad_loop(Check *c, const AstStmt *s) {
  TStmts body = {0};
  c->loops++;
  loop_body(c, s, NULL, &body);
  c->loops--;
}

static void serial_loop(Check *c, const AstStmt *s, Range *r) {
  TStmt *t = ARENA_NEW(c->a, TStmt);
  SemaType type;
  *t = (TStmt){.kind = TS_FOR, .span = s->span};
  if (s->as.loop.n != 1) {
    diag_add(c->sink, E0310, s->as.loop.names[1].span, "%s has one variable", r->name);
    bad_loop(c, s);
    return;
  }
  t->as.loop.loop = r->loop;
  t->as.loop.naxes = 1;
  if (!range_args(c, r) || !loop_bounds(c, r, t, &type) || !loop_stages(c, r, &t->as.loop.stages)) {
    bad_loop(c, s);
    return;
  }
  const AstName *n = &s->as.loop.names[0];
  TVar *v = tvar_new(c, TV_INDEX, n->text, type.dtype, n->span);
  index_range(v, t);
  t->as.loop.index[0] = v;
  TExpr *index = texpr_var(c, v, type.untyped, n->span);
  c->loops++;
  loop_body(c, s, &index, &t->as.loop.body);
  c->loops--;
  VEC_PUSH(c->a, c->out, t);
}

static bool parallel_head(Check *c, const AstStmt *s, const Range *r, TStmt *t, TExpr **index) {
  const AstArgs *args = &r->call->as.call.args;
  if (args->n != args->npos) {
    diag_add(c->sink, E0111, args->v[args->npos].name_span, "parallel has no argument %s",
             args->v[args->npos].name);
    return false;
  }
  if (args->n != s->as.loop.n || args->n > 4 || args->n == 0) {
    diag_add(c->sink, E0310, r->call->span,
             "parallel takes 1 to 4 extents, one for each variable: "
             "%zu variables, %zu extents",
             s->as.loop.n, args->n);
    return false;
  }
  bool ok = true;
  for (size_t i = 0; i < args->n; i++) {
    TExpr *n = check_int(c, args->v[i].value, "an extent of a parallel loop");
    TVar *v = tvar_new(c, TV_INDEX, s->as.loop.names[i].text, DT_I64, s->as.loop.names[i].span);
    int64_t extent;
    v->lo = 0;
    if (is_const_int(n, &extent))
      v->hi = extent > 0 ? extent - 1 : 0;
    t->as.loop.hi[i] = n;
    t->as.loop.index[i] = v;
    index[i] = texpr_var(c, v, true, v->span);
    ok = ok && !is_error(n);
  }
  t->as.loop.naxes = (int)args->n;
  return ok;
}

static void parallel_loop(Check *c, const AstStmt *s, Range *r) {
  TStmt *t = ARENA_NEW(c->a, TStmt);
  TExpr *index[4];
  *t = (TStmt){.kind = TS_FOR, .span = s->span};
  t->as.loop.loop = TF_PARALLEL;
  bool ok = parallel_head(c, s, r, t, index);
  int loops = c->loops;
  c->loops = 0;
  c->parallel++;
  loop_body(c, s, ok ? index : NULL, &t->as.loop.body);
  c->parallel--;
  c->loops = loops;
  if (ok)
    VEC_PUSH(c->a, c->out, t);
}

void check_for(Check *c, const AstStmt *s) {
  Range r = {0};
  if (!range_kind(c, s->as.loop.range, &r) || !loop_allowed(c, &r))
    bad_loop(c, s);
  else if (r.loop == TF_PARALLEL)
    parallel_loop(c, s, &r);
  else
    serial_loop(c, s, &r);
}

void check_while(Check *c, const AstStmt *s) {
  TStmt *t = ARENA_NEW(c->a, TStmt);
  *t = (TStmt){.kind = TS_WHILE, .span = s->span};
  TExpr *cond = check_lazy(c, s->as.loop_while.cond);
  bool ok = !is_error(cond) && is_num(cond) && cond->type.dtype == DT_BOOL;
  if (!ok && !is_error(cond))
    cond = check_cond(c, s->as.loop_while.cond); /* reports it */
  t->as.branch.cond = cond;
  c->loops++;
  block_into(c, &s->as.loop_while.body, &t->as.branch.then);
  c->loops--;
  if (ok)
    VEC_PUSH(c->a, c->out, t);
}

/* ---------------------------------------------------------------- the rest */

static void check_if(Check *c, const AstStmt *s, size_t k) {
  if (k == s->as.branch.n) {
    if (s->as.branch.has_other)
      check_block(c, &s->as.branch.other);
    return;
  }
  TExpr *cond = check_cond(c, s->as.branch.arms[k].cond);
  bool known;
  if (known_bool(cond, &known)) {
    if (known)
      check_block(c, &s->as.branch.arms[k].body);
    else
      check_if(c, s, k + 1);
    return;
  }
  if (is_error(cond))
    return;
  TStmt *t = ARENA_NEW(c->a, TStmt);
  *t = (TStmt){.kind = TS_IF, .span = s->span};
  t->as.branch.cond = cond;
  block_into(c, &s->as.branch.arms[k].body, &t->as.branch.then);
  TStmts *out = c->out;
  c->out = &t->as.branch.other;
  check_if(c, s, k + 1);
  c->out = out;
  VEC_PUSH(c->a, c->out, t);
}

static void check_assert(Check *c, const AstStmt *s) {
  TExpr *cond = check_cond(c, s->as.assertion.cond);
  TExpr *message = s->as.assertion.message ? check_expr(c, s->as.assertion.message) : NULL;
  if (is_error(cond) || (message && is_error(message)))
    return;
  if (message && message->kind != TE_STRING && !is_num(message)) {
    diag_add(c->sink, E0213, s->as.assertion.message->span,
             "the message of assert is a string or number, this is %s", describe(c, message));
    return;
  }
  TStmt *t = tstmt_new(c, TS_ASSERT, s->span);
  t->as.report.cond = cond;
  t->as.report.part = ARENA_NEW(c->a, TExpr *);
  t->as.report.part[0] = message;
  t->as.report.nparts = message ? 1 : 0;
}

static void check_call_stmt(Check *c, const AstStmt *s) {
  TExpr *v = check_expr(c, s->as.expr);
  if (is_error(v) || !is_num(v) || is_pure(v))
    return;
  TStmt *t = tstmt_new(c, v->kind == TE_ATOMIC ? TS_ATOMIC : TS_EVAL, s->span);
  t->as.let.value = v;
}

static void check_return(Check *c, const AstStmt *s) {
  if (s->as.result) {
    Diag *d = diag_add(c->sink, E0309, s->as.result->span,
                       "`return` of a kernel ends the block and gives no value");
    diag_hint(c->sink, d, "results are written to the outputs: copy(tile, C[…]) or C[i, j] = …");
  } else if (c->parallel) {
    Diag *d = diag_add(c->sink, E0304, s->span,
                       "`return` ends the block, not one iteration of a "
                       "parallel loop");
    diag_hint(c->sink, d, "continue");
  } else {
    tstmt_new(c, TS_RETURN, s->span);
  }
}

static void check_break(Check *c, const AstStmt *s) {
  if (c->parallel && !c->loops) {
    Diag *d = diag_add(c->sink, E0304, s->span,
                       "iterations of a parallel loop are independent: none can end the others");
    diag_hint(c->sink, d, "continue");
    return;
  }
  tstmt_new(c, TS_BREAK, s->span);
}

static void misplaced_grid(Check *c, const AstStmt *s) {
  if (s == c->kernel->ast->grid)
    return;
  Diag *d = diag_add(c->sink, E0301, s->span,
                     c->kernel->ast->grid ? "a kernel has one grid"
                                          : "grid stands directly in the kernel's body");
  if (c->kernel->ast->grid)
    diag_also(c->sink, d, c->kernel->ast->grid->span, NULL);
}

void check_stmt(Check *c, const AstStmt *s) {
  switch (s->kind) {
  case STMT_EXPR:
    check_call_stmt(c, s);
    break;
  case STMT_ASSIGN:
    check_assign(c, s);
    break;
  case STMT_LET:
    check_let(c, s);
    break;
  case STMT_VAR:
    check_var(c, s);
    break;
  case STMT_SHARED:
    check_tiles(c, s, TB_SHARED);
    break;
  case STMT_FRAGMENT:
    check_tiles(c, s, TB_FRAGMENT);
    break;
  case STMT_LOCAL:
    check_tiles(c, s, TB_LOCAL);
    break;
  case STMT_LAYOUT:
    check_layout(c, s);
    break;
  case STMT_GRID:
    misplaced_grid(c, s);
    break;
  case STMT_FOR:
    check_for(c, s);
    break;
  case STMT_WHILE:
    check_while(c, s);
    break;
  case STMT_IF:
    check_if(c, s, 0);
    break;
  case STMT_BREAK:
    check_break(c, s);
    break;
  case STMT_CONTINUE:
    tstmt_new(c, TS_CONTINUE, s->span);
    break;
  case STMT_RETURN:
    check_return(c, s);
    break;
  case STMT_ASSERT:
    check_assert(c, s);
    break;
  case STMT_BARRIER:
  case STMT_ROLES:
    diag_add(c->sink, E0312, s->span, "explicit warp specialisation is not there yet");
    for (size_t i = 0; s->kind == STMT_BARRIER && i < s->as.decls.n; i++)
      sym_declare(c, s->as.decls.v[i].name, SYM_POISON, "a barrier");
    break;
  default:
    break;
  }
}
