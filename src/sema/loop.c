/* loop.c: `for` and `while`.
 *
 * In: loops. Out: TS_FOR with bounds of one integer type, or TS_WHILE whose condition carries the
 * statements that it needs. The body of a loop whose head is wrong is still checked, with a silent
 * variable, so that one run shows its errors too.
 * Bounds are evaluated once and meet in one integer type, which is the variable's: int where they
 * have none. What is known of the range goes to the variable, for checks that can be dropped later.
 * In a parallel loop everything is one thread's: c->parallel counts them, and tile operations ask.
 * Tests: tests/lang, tests/errors/loop_*.tile, parallel_*.tile.
 */
#include "private.h"

#include <string.h>

/* ---------------------------------------------------------------- loops */

/* What the author wrote, not yet typed; NULL where left out. */
typedef struct Range { /* the call after `in` */
  const AstExpr *call;
  const AstExpr *lo, *hi, *step, *stages;
  const char *name;
  TLoop loop;
} Range;

static const char *const loop_names[] = {
    [TF_RANGE] = "range",         [TF_UNROLL] = "unroll",         [TF_VECTORIZED] = "vectorized",
    [TF_PIPELINED] = "pipelined", [TF_PERSISTENT] = "persistent", [TF_PARALLEL] = "parallel"};

/* The word after `in`; the rest of a loop depends on it. */
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

/* stages of pipelined, step of all serial loops. */
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
  static const char *const params[] = {"stages", "step"};
  bool stages = strstr(a->name, "stages") != NULL;
  const char *near = sema_meant_argument(a->name, params, 2);
  if (stages && r->loop != TF_PIPELINED)
    diag_hint(c->sink, d, "pipelined(n, stages)");
  else if (near)
    diag_hint(c->sink, d, "did you mean %s?", near);
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
  /* pipelined(n, 3) reads as three stages; with stages named, two numbers are bounds. */
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

/* An integer scalar of any type. */
static bool bound(Check *c, const AstExpr *e, TExpr **out) {
  *out = sema_check_scalar(c, e, "a bound of a loop");
  if (sema_is_error(*out))
    return false;
  if (dtype_is_int((*out)->type.dtype))
    return true;
  diag_add(c->sink, E0216, e->span, "a bound of a loop is an integer, this is %s",
           sema_describe(c, *out));
  return false;
}

/* The bounds meet in one integer type, which is the variable's. */
static bool loop_bounds(Check *c, const Range *r, TStmt *s, SemaType *t) {
  TExpr *v[3];
  Span span = r->call->span;
  v[0] = sema_texpr_int(c, 0, span);
  v[2] = sema_texpr_int(c, 1, span);
  if ((r->lo && !bound(c, r->lo, &v[0])) || !bound(c, r->hi, &v[1]) ||
      (r->step && !bound(c, r->step, &v[2])))
    return false;
  SemaNum sum = sema_num_of(c, v[0], r->lo);
  SemaRule rule;
  for (int i = 1; i < 3; i++) {
    if (!sema_meet(c->a, SEMA_KERNEL, sum, sema_num_of(c, v[i], i == 1 ? r->hi : r->step), &rule)) {
      sema_report_rule(c, &rule, span);
      return false;
    }
    sum = (SemaNum){.dtype = rule.dtype, .untyped = rule.untyped};
  }
  *t = sema_type_num(sum.dtype, sum.untyped);
  for (int i = 0; i < 3; i++)
    v[i] = sema_convert(c, v[i], sum.dtype);
  s->as.loop.lo = v[0];
  s->as.loop.hi[0] = v[1];
  s->as.loop.step = v[2];
  int64_t step;
  if (!sema_is_const_int(v[2], &step) || step)
    return !sema_is_error(v[0]) && !sema_is_error(v[1]) && !sema_is_error(v[2]);
  diag_add(c->sink, E0219, r->step->span, "the step of a loop is not 0");
  return false;
}

/* What is known of the variable, for bounds checks and index arithmetic later. */
static void index_range(TVar *v, const TStmt *s) {
  int64_t lo, hi, step;
  if (!sema_is_const_int(s->as.loop.step, &step))
    return;
  const TExpr *first = step > 0 ? s->as.loop.lo : s->as.loop.hi[0];
  const TExpr *past = step > 0 ? s->as.loop.hi[0] : s->as.loop.lo;
  if (sema_is_const_int(first, &lo) && lo < INT64_MAX)
    v->lo = step > 0 ? lo : lo + 1;
  if (sema_is_const_int(past, &hi) && hi > INT64_MIN)
    v->hi = step > 0 ? hi - 1 : hi;
  /* An empty range would have no meaning for those who use it. */
  if (v->lo > v->hi) /* it never runs */
    v->lo = v->hi;
}

/* A second number is stages, where another language's reader takes two for bounds. */
static bool unknown_stages(Check *c, const Range *r, const TExpr *v) {
  const AstArgs *args = &r->call->as.call.args;
  Diag *d = sema_not_constant(c, r->stages, v, "the number of stages");
  const char *n = sema_source_text(c, args->v[0].value), *m = sema_source_text(c, r->stages);
  if (d && args->npos == 2 && r->stages == args->v[1].value && n && m)
    diag_hint(c->sink, d, "with two bounds, name the stages: pipelined(%s, %s, stages = 2)", n, m);
  return false;
}

/* A wish of the author: how deep copies are overlapped. 0: the compiler's choice. */
static bool loop_stages(Check *c, const Range *r, int *stages) {
  int64_t v = 0;
  TExpr *x = r->stages ? sema_check_int(c, r->stages, "the number of stages") : NULL;
  if (x && !sema_is_const_int(x, &v))
    return unknown_stages(c, r, x);
  if (r->stages && (v < 1 || v > 64)) {
    diag_add(c->sink, E0310, r->stages->span, "a pipeline has 1 to 64 stages, this says %lld",
             (long long)v);
    return false;
  }
  *stages = (int)v;
  return true;
}

/* Inside parallel only serial loops stand: an iteration is one thread's. */
static bool loop_allowed(Check *c, const Range *r) {
  if (!c->parallel || r->loop == TF_RANGE || r->loop == TF_UNROLL || r->loop == TF_VECTORIZED)
    return r->loop == TF_RANGE || r->loop == TF_UNROLL || r->loop == TF_VECTORIZED ||
           sema_tile_allowed(c, r->call->span, arena_printf(c->a, "%s(…)", r->name));
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
  sema_block_push(c, &scope);
  c->out = body;
  for (size_t i = 0; i < s->as.loop.n; i++)
    sema_sym_value(c, s->as.loop.names[i], index ? index[i] : sema_texpr_error(c, s->span),
                   "a loop variable");
  if (sema_enter(c, s->span))
    sema_check_block(c, &s->as.loop.body);
  sema_leave(c);
  c->out = out;
  sema_block_pop(c);
}

/* A wrong head should not hide the body's errors. */
static void bad_loop(Check *c, const AstStmt *s) {
  TStmts body = {0};
  c->loops++;
  loop_body(c, s, NULL, &body);
  c->loops--;
}

/* Bounds are evaluated once, before the loop, in the order of writing. */
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
  TVar *v = sema_tvar_new(c, TV_INDEX, n->text, type.dtype, n->span);
  index_range(v, t);
  t->as.loop.index[0] = v;
  TExpr *index = sema_texpr_var(c, v, type.untyped, n->span);
  c->loops++;
  loop_body(c, s, &index, &t->as.loop.body);
  c->loops--;
  VEC_PUSH(c->a, c->out, t);
  sema_loop_leave(c, s);
}

/* Extents may be run-time values; each variable runs from 0. */
static bool parallel_head(Check *c, const AstStmt *s, const Range *r, TStmt *t, TExpr **index) {
  const AstArgs *args = &r->call->as.call.args;
  if (args->n != args->npos) {
    diag_add(c->sink, E0111, args->v[args->npos].name_span, "parallel has no argument %s",
             args->v[args->npos].name);
    return false;
  }
  if (args->n != s->as.loop.n || args->n > 4 || args->n == 0) {
    Diag *d =
        diag_add(c->sink, E0310, r->call->span,
                 "parallel takes 1 to 4 extents, one for each variable: "
                 "%zu variable%s, %zu extent%s",
                 s->as.loop.n, s->as.loop.n == 1 ? "" : "s", args->n, args->n == 1 ? "" : "s");
    if (s->as.loop.n == 1 && args->n == 2)
      diag_hint(c->sink, d, "its variables begin at 0: parallel(b - a) and a + %s",
                s->as.loop.names[0].text);
    return false;
  }
  bool ok = true;
  for (size_t i = 0; i < args->n; i++) {
    TExpr *n = sema_check_int(c, args->v[i].value, "an extent of a parallel loop");
    TVar *v =
        sema_tvar_new(c, TV_INDEX, s->as.loop.names[i].text, DT_I64, s->as.loop.names[i].span);
    int64_t extent;
    v->lo = 0;
    if (sema_is_const_int(n, &extent)) {
      v->hi = extent > 0 ? extent - 1 : 0;
      if (extent < 0) /* runs nothing, as a negative one that is known only at run time does */
        n = sema_texpr_int(c, 0, n->span);
    }
    t->as.loop.hi[i] = n;
    t->as.loop.index[i] = v;
    index[i] = sema_texpr_var(c, v, true, v->span);
    ok = ok && !sema_is_error(n);
  }
  t->as.loop.naxes = (int)args->n;
  return ok;
}

/* break and continue of outer loops do not reach into it. */
static void parallel_loop(Check *c, const AstStmt *s, Range *r) {
  TStmt *t = ARENA_NEW(c->a, TStmt);
  TExpr *index[4];
  *t = (TStmt){.kind = TS_FOR, .span = s->span};
  t->as.loop.loop = TF_PARALLEL;
  bool ok = parallel_head(c, s, r, t, index);
  /* A `break` inside belongs to serial loops inside. */
  int loops = c->loops;
  c->loops = 0;
  c->parallel++;
  loop_body(c, s, ok ? index : NULL, &t->as.loop.body);
  c->parallel--;
  c->loops = loops;
  if (ok)
    VEC_PUSH(c->a, c->out, t);
}

/* Names of the loop stand in a block around the body, so that the body may hide them. */
void sema_check_for(Check *c, const AstStmt *s) {
  Range r = {0};
  if (!range_kind(c, s->as.loop.range, &r) || !loop_allowed(c, &r))
    bad_loop(c, s);
  else if (r.loop == TF_PARALLEL)
    parallel_loop(c, s, &r);
  else
    serial_loop(c, s, &r);
}

/* The condition runs before each iteration, with the statements that it needs. */
void sema_check_while(Check *c, const AstStmt *s) {
  TStmt *t = ARENA_NEW(c->a, TStmt);
  *t = (TStmt){.kind = TS_WHILE, .span = s->span};
  /* Its statements go with it: they run before every iteration. */
  TExpr *cond = sema_check_lazy(c, s->as.loop_while.cond);
  bool ok = !sema_is_error(cond) && sema_is_num(cond) && cond->type.dtype == DT_BOOL;
  if (!ok && !sema_is_error(cond))
    cond = sema_check_cond(c, s->as.loop_while.cond); /* reports it */
  t->as.branch.cond = cond;
  c->loops++;
  sema_check_block_into(c, &s->as.loop_while.body, &t->as.branch.then);
  c->loops--;
  if (ok)
    VEC_PUSH(c->a, c->out, t);
  sema_loop_leave(c, s);
}
