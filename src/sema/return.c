/* return.c: bodies of inlined fns, and how their returns become one value.
 *
 * In: a body in the scope of its parameters. Out: its value; its statements go to `out`. The rest
 * of the body after a branch that returns is the other way of the branch; a return inside a loop
 * sets a variable and leaves the loop. Always holds: every way gives a value, or it is reported.
 * A structured tree has no jump to the end of a body. A branch that returns takes the rest of the
 * body as its other way, so that each way ends in a value and both are merged (TE_COND, or
 * variables for a tuple). The rest is then typed once for each way that reaches it; the bound on
 * what a kernel inlines (CHECK_MAX_INLINED) keeps that from growing without end. Tests:
 * tests/lang/fn_*.tile, tests/errors/fn_no_value.tile.
 */
#include "private.h"

static TExpr *run(Check *c, const AstBlock *b, size_t i, Rest *up);

static bool block_returns(const AstBlock *b);

/* Decides which statements need the care of early returns. */
static bool may_return(const AstStmt *s) {
  switch (s->kind) {
  case STMT_RETURN:
    return true;
  case STMT_IF:
    for (size_t i = 0; i < s->as.branch.n; i++)
      if (block_returns(&s->as.branch.arms[i].body))
        return true;
    return s->as.branch.has_other && block_returns(&s->as.branch.other);
  case STMT_FOR:
    return block_returns(&s->as.loop.body);
  case STMT_WHILE:
    return block_returns(&s->as.loop_while.body);
  default:
    return false;
  }
}

/* The same of a block. */
static bool block_returns(const AstBlock *b) {
  for (size_t i = 0; i < b->n; i++)
    if (may_return(b->v[i]))
      return true;
  return false;
}

/* The statements after the branch, in the scope where they stand; that scope is left as it was, for
 * they are looked at once for each way that reaches them. */
static TExpr *resume(Check *c, Rest *rest) {
  if (!rest)
    return NULL;
  Block *inner = c->block;
  /* Names that the rest declares are declared again on the next way. */
  size_t n = rest->scope->syms.n;
  c->block = rest->scope;
  TExpr *v = run(c, rest->block, rest->i, rest->up);
  rest->scope->syms.n = n;
  c->block = inner;
  return v;
}

/* A branch's block has a scope of its own; what follows it has the one outside (resume). */
static TExpr *run_arm(Check *c, const AstBlock *b, Rest *rest) {
  Block scope;
  sema_block_push(c, &scope);
  TExpr *v = run(c, b, 0, rest);
  sema_block_pop(c);
  return v;
}

/* Two ways to a tuple: each component gets a variable or fragment that both ways set. */
static TExpr *component(Check *c, TExpr *cond, TStmt *branch, TExpr *then, TExpr *other,
                        Span span) {
  TStmts *out = c->out;
  TExpr *m = sema_merge(c, cond, NULL, then, NULL, other, span);
  if (sema_is_error(m))
    return m;
  TExpr *r;
  if (sema_is_tile(m)) {
    TBuf *b = sema_tbuf_new(c, TB_FRAGMENT, "result", &m->type, span);
    sema_tstmt_new(c, TS_ALLOC, span)->as.alloc = b;
    r = sema_texpr_whole(c, b, span);
  } else {
    TVar *v = sema_tvar_new(c, TV_VAR, "result", m->type.dtype, span);
    TStmt *s = sema_tstmt_new(c, TS_LET, span);
    s->as.let.var = v;
    s->as.let.value =
        sema_texpr_const(c, scalar_convert((Scalar){.type = DT_I64}, v->type), false, span);
    r = sema_texpr_var(c, v, m->type.untyped, span);
  }
  for (int side = 0; side < 2; side++) {
    c->out = side ? &branch->as.branch.other : &branch->as.branch.then;
    TExpr *value = sema_convert(c, side ? other : then, m->type.dtype);
    if (sema_is_tile(m)) {
      sema_assign_region(c, &r->as.region, value, span);
    } else {
      TStmt *s = sema_tstmt_new(c, TS_SET, span);
      s->as.let.var = r->as.var;
      s->as.let.value = value;
    }
  }
  c->out = out;
  return r;
}

/* Tuples have no single value to choose: each component gets its place, and one IF sets them all.
 */
TExpr *sema_merge_tuples(Check *c, TExpr *cond, TStmts *tb, TExpr *then, TStmts *ob, TExpr *other,
                         Span span) {
  if (then->nargs != other->nargs) {
    diag_add(c->sink, E0229, span, "one way gives %d values and the other %d", then->nargs,
             other->nargs);
    return sema_texpr_error(c, span);
  }
  TStmt *branch = ARENA_NEW(c->a, TStmt);
  *branch = (TStmt){.kind = TS_IF, .span = span};
  branch->as.branch.cond = cond;
  branch->as.branch.then = *tb;
  branch->as.branch.other = *ob;
  TExpr *r = sema_texpr_new(c, TE_TUPLE, sema_type_kind(TY_TUPLE), span);
  r->nargs = then->nargs;
  r->arg = ARENA_ARRAY(c->a, TExpr *, r->nargs);
  for (int i = 0; i < r->nargs; i++) {
    r->arg[i] = component(c, cond, branch, then->arg[i], other->arg[i], span);
    if (sema_is_error(r->arg[i]))
      return r->arg[i];
  }
  VEC_PUSH(c->a, c->out, branch);
  return r;
}

/* Some way falls off the end. */
TExpr *sema_no_value(Check *c, Span span) {
  Diag *d = diag_add(c->sink, E0106, span, "not every way through this fn returns a value");
  diag_hint(c->sink, d, "end each way with `return x`");
  return sema_texpr_error(c, span);
}

/* The arms from the k-th on. With a compile-time condition only the arm taken is looked at; else
 * both ways are, and each goes on with the rest of the body to its own return. */
static TExpr *branch(Check *c, const AstStmt *s, size_t k, Rest *rest) {
  if (k == s->as.branch.n)
    return s->as.branch.has_other ? run_arm(c, &s->as.branch.other, rest) : resume(c, rest);
  const AstArm *arm = &s->as.branch.arms[k];
  TExpr *cond = sema_check_cond(c, arm->cond);
  bool known;
  if (sema_is_error(cond))
    return cond;
  if (sema_known_bool(cond, &known))
    return known ? run_arm(c, &arm->body, rest) : branch(c, s, k + 1, rest);
  /* Each way has statements of its own; what both need stands before, in out. */
  TStmts tb = {0}, ob = {0}, *out = c->out;
  c->out = &tb;
  TExpr *then = run_arm(c, &arm->body, rest);
  c->out = &ob;
  TExpr *other = branch(c, s, k + 1, rest);
  c->out = out;
  if (!then || !other)
    return sema_no_value(c, s->span);
  if (then->kind == TE_TUPLE && other->kind == TE_TUPLE)
    return sema_merge_tuples(c, cond, &tb, then, &ob, other, s->span);
  return sema_merge(c, cond, &tb, then, &ob, other, s->span);
}

/* ---------------------------------------------------------------- returns inside loops */

/* A variable or fragment that returns inside loops write; it starts at 0, which is never read. */
static TExpr *result_place(Check *c, const TExpr *v, Span span) {
  if (sema_is_tile(v)) {
    SemaType t = sema_type_definite(v->type);
    TBuf *b = sema_tbuf_new(c, TB_FRAGMENT, "result", &t, span);
    sema_tstmt_new(c, TS_ALLOC, span)->as.alloc = b;
    return sema_texpr_whole(c, b, span);
  }
  TVar *var = sema_tvar_new(c, TV_VAR, "result", v->type.dtype, span);
  TStmt *s = sema_tstmt_new(c, TS_LET, span);
  s->as.let.var = var;
  s->as.let.value =
      sema_texpr_const(c, scalar_convert((Scalar){.type = DT_I64}, var->type), false, span);
  return sema_texpr_var(c, var, v->type.untyped, span);
}

/* The first return decides what the others convert to. */
static void declare_result(Check *c, LoopReturn *l, const TExpr *v, Span span) {
  TStmts *out = c->out;
  c->out = &l->decls;
  if (v->kind != TE_TUPLE) {
    l->result = result_place(c, v, span);
  } else {
    l->result = sema_texpr_new(c, TE_TUPLE, sema_type_kind(TY_TUPLE), span);
    l->result->nargs = v->nargs;
    l->result->arg = ARENA_ARRAY(c->a, TExpr *, v->nargs);
    for (int i = 0; i < v->nargs; i++)
      l->result->arg[i] = result_place(c, v->arg[i], span);
  }
  c->out = out;
}

/* A variable of the inlined body, whose type is fixed. */
static void set_var(Check *c, TVar *var, TExpr *v, Span span) {
  v = sema_convert(c, v, var->type);
  if (sema_is_error(v))
    return;
  TStmt *s = sema_tstmt_new(c, TS_SET, span);
  s->as.let.var = var;
  s->as.let.value = v;
}

/* All returns of one loop go to one place, component by component. */
static void set_result(Check *c, TExpr *place, TExpr *v, Span span) {
  if (place->kind == TE_VAR && sema_is_num(v)) {
    set_var(c, place->as.var, v, span);
  } else if (place->kind == TE_REGION && (sema_is_tile(v) || sema_is_num(v))) {
    sema_assign_region(c, &place->as.region, v, span);
  } else if (place->kind == TE_TUPLE && v->kind == TE_TUPLE && v->nargs == place->nargs) {
    for (int i = 0; i < v->nargs; i++)
      set_result(c, place->arg[i], v->arg[i], span);
  } else {
    diag_add(c->sink, E0229, span, "this fn returns %s here and something else before",
             sema_describe(c, v));
  }
}

/* Sets the result, says so, and leaves the loop: `break` is what the IR has. */
void sema_loop_return(Check *c, const AstStmt *s) {
  LoopReturn *l = c->fn->loop;
  TExpr *v = s->as.result ? sema_check_expr(c, s->as.result) : sema_no_value(c, s->span);
  v = sema_typed_result(c, v, c->fn->fn->result);
  if (sema_is_error(v))
    return;
  if (!l->result)
    declare_result(c, l, v, s->span);
  set_result(c, l->result, v, s->span);
  set_var(c, l->done, sema_texpr_bool(c, true, s->span), s->span);
  sema_tstmt_new(c, TS_BREAK, s->span);
}

/* An inner loop that returned has only left itself. */
void sema_loop_leave(Check *c, const AstStmt *s) {
  if (!c->fn || !c->fn->loop || !c->loops || !may_return(s))
    return;
  TStmt *t = sema_tstmt_new(c, TS_IF, s->span);
  t->as.branch.cond = sema_texpr_var(c, c->fn->loop->done, false, s->span);
  TStmts *out = c->out;
  c->out = &t->as.branch.then;
  sema_tstmt_new(c, TS_BREAK, s->span);
  c->out = out;
}

/* Moves statements to where the fn's go. */
static void append(Check *c, const TStmts *s) {
  for (size_t i = 0; i < s->n; i++)
    VEC_PUSH(c->a, c->out, s->v[i]);
}

/* A loop with returns inside, then, where none was taken, the rest. */
static TExpr *loop(Check *c, const AstStmt *s, Rest *rest) {
  LoopReturn l = {.done = sema_tvar_new(c, TV_VAR, "done", DT_BOOL, s->span)};
  TStmts body = {0}, other_body = {0}, *out = c->out;
  size_t errors = c->sink->errors;
  c->out = &body;
  c->fn->loop = &l;
  sema_check_stmt(c, s);
  c->fn->loop = NULL;
  c->out = out;
  append(c, &l.decls);
  TStmt *done = sema_tstmt_new(c, TS_LET, s->span);
  done->as.let.var = l.done;
  done->as.let.value = sema_texpr_bool(c, false, s->span);
  append(c, &body);
  if (c->sink->errors != errors)
    return sema_texpr_error(c, s->span);
  /* Compile-time branches may have taken all returns away. */
  if (!l.result) /* no return was left in it */
    return resume(c, rest);
  c->out = &other_body;
  TExpr *other = resume(c, rest);
  c->out = out;
  if (!other)
    return sema_no_value(c, s->span);
  TExpr *cond = sema_texpr_var(c, l.done, false, s->span);
  TStmts none = {0};
  if (other->kind == TE_TUPLE && l.result->kind == TE_TUPLE)
    return sema_merge_tuples(c, cond, &none, l.result, &other_body, other, s->span);
  return sema_merge(c, cond, &none, l.result, &other_body, other, s->span);
}

/* Bounds what one kernel inlines: fns that call each other twice a level grow exponentially. */
static bool in_fn(Check *c, const AstStmt *s) {
  if (++c->inlined <= CHECK_MAX_INLINED)
    return true;
  if (c->inlined == CHECK_MAX_INLINED + 1)
    diag_add(c->sink, E0109, s->span,
             "the fns that this kernel calls would be inlined to more "
             "than %d statements",
             CHECK_MAX_INLINED);
  return false;
}

/* Statements from the i-th on, then the rest of the blocks around. Returns the value, or NULL
 * where the body ends without one. */
static TExpr *run(Check *c, const AstBlock *b, size_t i, Rest *up) {
  if (!sema_enter(c, b->span)) {
    sema_leave(c);
    return sema_texpr_error(c, b->span);
  }
  TExpr *v = NULL;
  for (; i < b->n && !v; i++) {
    const AstStmt *s = b->v[i];
    Rest rest = {.block = b, .i = i + 1, .scope = c->block, .up = up};
    if (!in_fn(c, s))
      v = sema_texpr_error(c, s->span);
    else if (s->kind == STMT_RETURN)
      v = s->as.result ? sema_check_expr(c, s->as.result) : sema_no_value(c, s->span);
    else if (s->kind == STMT_IF && may_return(s))
      v = branch(c, s, 0, &rest);
    else if (may_return(s))
      v = loop(c, s, &rest);
    else
      sema_check_stmt(c, s);
    if (!v && may_return(s))
      break; /* it went on with the rest */
  }
  if (!v && i == b->n)
    v = resume(c, up);
  sema_leave(c);
  return v;
}

/* A written result type converts, as a store does. */
TExpr *sema_typed_result(Check *c, TExpr *v, const AstType *t) {
  DType d;
  if (!t || sema_is_error(v))
    return v;
  if (!t->nparts)
    return sema_check_dtype(c, t, &d) ? sema_convert(c, v, d) : sema_texpr_error(c, v->span);
  if (v->kind != TE_TUPLE || (size_t)v->nargs != t->nparts) {
    diag_add(c->sink, E0229, v->span, "this fn says that it returns %zu values", t->nparts);
    return sema_texpr_error(c, v->span);
  }
  for (int i = 0; i < v->nargs; i++)
    v->arg[i] = sema_typed_result(c, v->arg[i], t->parts[i]);
  return v;
}

/* The whole body; NULL where its end is reached without a return. */
TExpr *sema_fn_body(Check *c, const AstBlock *b) {
  return run(c, b, 0, NULL);
}
