/* fn.c: host `fn`s called in kernels: inlined, always.
 *
 * In: a call of a fn. Out: its value; the statements of its body stand before the statement that
 * calls. A fn whose parameters are scalars and that is given a tile runs once an element
 * (TE_APPLY). An early return makes the rest of the body the other way of the branch. Always holds:
 * fns are pure, do not call themselves, and see nothing of the kernel. Tests: tests/lang/fn_*.tile,
 * tests/errors/fn_*.tile.
 */
#include "private.h"

#include <string.h>

enum { FN_MAX_PARAMS = 32, ALIAS_MAX = 32 };

typedef struct Call {
  const AstExpr *ast;
  const AstFn *fn;
  TExpr *arg[FN_MAX_PARAMS];
  const AstExpr *source[FN_MAX_PARAMS];
  bool apply;
} Call;

/* ---------------------------------------------------------------- arguments */

static bool place_arg(Check *c, Call *call, const AstArg *arg, size_t position) {
  const AstDecls *params = &call->fn->params;
  size_t i = position;
  for (i = arg->name ? 0 : position; arg->name && i < params->n; i++)
    if (params->v[i].name.text == arg->name)
      break;
  if (i >= params->n) {
    if (arg->name)
      diag_add(c->sink, E0111, arg->name_span, "%s has no parameter %s", call->fn->name.text,
               arg->name);
    else
      diag_add(c->sink, E0110, call->ast->span, "%s takes %zu arguments, this call gives %zu",
               call->fn->name.text, params->n, call->ast->as.call.args.n);
    return false;
  }
  if (call->source[i]) {
    diag_add(c->sink, E0110, arg->name_span, "%s gets %s twice", call->fn->name.text, arg->name);
    return false;
  }
  call->source[i] = arg->value;
  return true;
}

static bool place_args(Check *c, Call *call) {
  const AstArgs *args = &call->ast->as.call.args;
  const AstDecls *params = &call->fn->params;
  if (params->n > FN_MAX_PARAMS) {
    diag_add(c->sink, E0110, call->ast->span, "a kernel calls fns of at most %d parameters",
             FN_MAX_PARAMS);
    return false;
  }
  for (size_t i = 0; i < args->n; i++)
    if (!place_arg(c, call, &args->v[i], i))
      return false;
  for (size_t i = 0; i < params->n; i++)
    if (!call->source[i]) {
      diag_add(c->sink, E0110, call->ast->span, "%s needs the argument %s", call->fn->name.text,
               params->v[i].name.text);
      return false;
    }
  return true;
}

static bool scalar_param(const AstDecl *p) {
  return p->type && !p->type->has_extents;
}

static bool check_args(Check *c, Call *call) {
  bool ok = true;
  for (size_t i = 0; i < call->fn->params.n; i++) {
    const AstDecl *p = &call->fn->params.v[i];
    TExpr *x = p->type ? sema_check_value(c, call->source[i]) : sema_check_expr(c, call->source[i]);
    call->arg[i] = x;
    ok = ok && !sema_is_error(x);
    call->apply = call->apply || (scalar_param(p) && sema_is_tile(x));
  }
  return ok;
}

/* ---------------------------------------------------------------- parameters */

static size_t size_of(const TExpr *e, size_t limit) {
  size_t n = 1;
  for (int i = 0; i < e->nargs && n < limit; i++)
    n += size_of(e->arg[i], limit - n);
  return n;
}

/* What may stand wherever the parameter stands: nothing is computed anew that costs much. */
static bool may_alias(const TExpr *x) {
  if (sema_is_num(x))
    return x->kind == TE_CONST || x->kind == TE_VAR;
  return sema_is_pure(x) && size_of(x, ALIAS_MAX + 1) <= ALIAS_MAX;
}

/* Extents written as names are bound to the tile's. */
static bool bind_extents(Check *c, const AstDecl *p, const TExpr *x) {
  if ((int)p->type->nextents != x->type.rank) {
    diag_add(c->sink, E0228, x->span, "%s has %zu axes, the argument is %s", p->name.text,
             p->type->nextents, sema_describe(c, x));
    return false;
  }
  for (size_t i = 0; i < p->type->nextents; i++) {
    const AstExtent *a = &p->type->extents[i];
    int64_t v;
    if (a->value->kind == EXPR_NAME && !sema_sym_find(c, a->value->as.name)) {
      AstName n = {.text = a->value->as.name, .span = a->value->span};
      sema_sym_value(c, n, sema_texpr_int(c, x->type.extent[i], a->span), "an extent");
    } else if (!sema_check_const_int(c, a->value, "an extent", &v)) {
      return false;
    } else if (v != x->type.extent[i]) {
      diag_add(c->sink, E0228, x->span, "axis %zu of %s has the extent %lld, the argument is %s", i,
               p->name.text, (long long)v, sema_describe(c, x));
      return false;
    }
  }
  return true;
}

static TExpr *whole_param(Check *c, const AstDecl *p, TExpr *x) {
  DType t;
  if (p->type) {
    if (!sema_check_dtype(c, p->type, &t) || (p->type->has_extents && !bind_extents(c, p, x)))
      return sema_texpr_error(c, x->span);
    x = sema_convert(c, x, t);
  }
  if (!sema_is_num(x) && !sema_is_tile(x))
    return x; /* global tensors, dtypes, strings: names for them */
  return may_alias(x) ? x : sema_bind_value(c, p->name.text, x, x->span);
}

/* An element of the argument, as a scalar of the body. */
static TVar *element_param(Check *c, const AstDecl *p, TExpr **x) {
  DType t = (*x)->type.dtype;
  if (p->type && !sema_check_dtype(c, p->type, &t))
    return NULL;
  if (!sema_is_num(*x) && !sema_is_tile(*x))
    return NULL;
  bool untyped = !p->type && (*x)->type.untyped;
  *x = sema_convert(c, *x, t);
  TVar *v = sema_tvar_new(c, TV_LET, p->name.text, t, p->span);
  sema_sym_value(c, p->name, sema_is_error(*x) ? *x : sema_texpr_var(c, v, untyped, p->span),
                 "a parameter");
  return sema_is_error(*x) ? NULL : v;
}

/* ---------------------------------------------------------------- bodies */

static TExpr *run(Check *c, const AstBlock *b, size_t i, Rest *up);

static bool block_returns(const AstBlock *b);

bool sema_returns(const AstStmt *s) {
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

static bool block_returns(const AstBlock *b) {
  for (size_t i = 0; i < b->n; i++)
    if (sema_returns(b->v[i]))
      return true;
  return false;
}

/* The statements after the branch, in the scope where they stand; that scope is left as it was, for
 * they are looked at once for each way that reaches them. */
static TExpr *resume(Check *c, Rest *rest) {
  if (!rest)
    return NULL;
  Block *inner = c->block;
  size_t n = rest->scope->syms.n;
  c->block = rest->scope;
  TExpr *v = run(c, rest->block, rest->i, rest->up);
  rest->scope->syms.n = n;
  c->block = inner;
  return v;
}

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

static TExpr *merge_tuples(Check *c, TExpr *cond, TStmts *tb, TExpr *then, TStmts *ob, TExpr *other,
                           Span span) {
  if (then->nargs != other->nargs) {
    diag_add(c->sink, E0229, span, "this fn returns %d values on one way and %d on another",
             then->nargs, other->nargs);
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

static TExpr *no_value(Check *c, Span span) {
  diag_add(c->sink, E0106, span, "not every way through this fn returns a value");
  return sema_texpr_error(c, span);
}

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
  TStmts tb = {0}, ob = {0}, *out = c->out;
  c->out = &tb;
  TExpr *then = run_arm(c, &arm->body, rest);
  c->out = &ob;
  TExpr *other = branch(c, s, k + 1, rest);
  c->out = out;
  if (!then || !other)
    return no_value(c, s->span);
  if (then->kind == TE_TUPLE && other->kind == TE_TUPLE)
    return merge_tuples(c, cond, &tb, then, &ob, other, s->span);
  return sema_merge(c, cond, &tb, then, &ob, other, s->span);
}

/* ---------------------------------------------------------------- returns inside loops */

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

static void set_var(Check *c, TVar *var, TExpr *v, Span span) {
  v = sema_convert(c, v, var->type);
  if (sema_is_error(v))
    return;
  TStmt *s = sema_tstmt_new(c, TS_SET, span);
  s->as.let.var = var;
  s->as.let.value = v;
}

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

static TExpr *typed_result(Check *c, TExpr *v, const AstType *t);

void sema_loop_return(Check *c, const AstStmt *s) {
  LoopReturn *l = c->fn->loop;
  TExpr *v = s->as.result ? sema_check_expr(c, s->as.result) : no_value(c, s->span);
  v = typed_result(c, v, c->fn->fn->result);
  if (sema_is_error(v))
    return;
  if (!l->result)
    declare_result(c, l, v, s->span);
  set_result(c, l->result, v, s->span);
  set_var(c, l->done, sema_texpr_bool(c, true, s->span), s->span);
  sema_tstmt_new(c, TS_BREAK, s->span);
}

void sema_loop_leave(Check *c, const AstStmt *s) {
  if (!c->fn || !c->fn->loop || !c->loops || !sema_returns(s))
    return;
  TStmt *t = sema_tstmt_new(c, TS_IF, s->span);
  t->as.branch.cond = sema_texpr_var(c, c->fn->loop->done, false, s->span);
  TStmts *out = c->out;
  c->out = &t->as.branch.then;
  sema_tstmt_new(c, TS_BREAK, s->span);
  c->out = out;
}

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
  if (!l.result) /* no return was left in it */
    return resume(c, rest);
  c->out = &other_body;
  TExpr *other = resume(c, rest);
  c->out = out;
  if (!other)
    return no_value(c, s->span);
  TExpr *cond = sema_texpr_var(c, l.done, false, s->span);
  TStmts none = {0};
  if (other->kind == TE_TUPLE && l.result->kind == TE_TUPLE)
    return merge_tuples(c, cond, &none, l.result, &other_body, other, s->span);
  return sema_merge(c, cond, &none, l.result, &other_body, other, s->span);
}

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

static TExpr *run(Check *c, const AstBlock *b, size_t i, Rest *up) {
  if (!sema_enter(c, b->span)) {
    sema_leave(c);
    return sema_texpr_error(c, b->span);
  }
  TExpr *v = NULL;
  for (; i < b->n && !v; i++) {
    const AstStmt *s = b->v[i];
    Rest rest = {.block = b, .i = i + 1, .scope = c->block, .up = up};
    if (s->kind == STMT_RETURN)
      v = s->as.result ? sema_check_expr(c, s->as.result) : no_value(c, s->span);
    else if (s->kind == STMT_IF && sema_returns(s))
      v = branch(c, s, 0, &rest);
    else if (sema_returns(s))
      v = loop(c, s, &rest);
    else if (in_fn(c, s))
      sema_check_stmt(c, s);
    else
      v = sema_texpr_error(c, s->span);
    if (!v && sema_returns(s))
      break; /* it went on with the rest */
  }
  if (!v && i == b->n)
    v = resume(c, up);
  sema_leave(c);
  return v;
}

/* ---------------------------------------------------------------- results */

static TExpr *typed_result(Check *c, TExpr *v, const AstType *t) {
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
    v->arg[i] = typed_result(c, v->arg[i], t->parts[i]);
  return v;
}

static TExpr *result(Check *c, const Call *call) {
  TExpr *v = run(c, &call->fn->body, 0, NULL);
  if (!v)
    v = no_value(c, call->ast->span);
  v = typed_result(c, v, call->fn->result);
  if (v->kind == TE_TUPLE || sema_is_error(v))
    return v;
  TExpr *r = ARENA_NEW(c->a, TExpr); /* the call's place is what messages show */
  *r = *v;
  r->span = call->ast->span;
  return r;
}

static TExpr *apply_value(Check *c, const Call *call, const TExpr *proto, TExpr *value) {
  if (sema_is_error(value) || !sema_is_num(value)) {
    if (!sema_is_error(value))
      diag_add(c->sink, E0106, call->ast->span, "a fn called element by element returns scalars");
    return sema_texpr_error(c, call->ast->span);
  }
  TExpr *e = ARENA_NEW(c->a, TExpr);
  *e = *proto;
  e->type.dtype = value->type.dtype;
  e->type.untyped = value->type.untyped;
  e->as.inlined.value = value;
  return e;
}

static TExpr *call_elements(Check *c, Call *call) {
  size_t n = call->fn->params.n;
  TExpr *proto = sema_texpr_new(c, TE_APPLY, sema_type_kind(TY_NUM), call->ast->span);
  proto->arg = ARENA_ARRAY(c->a, TExpr *, n);
  proto->as.inlined.params = ARENA_ARRAY(c->a, TVar *, n);
  for (size_t i = 0; i < n; i++) {
    const AstDecl *p = &call->fn->params.v[i];
    if (sema_is_const(call->arg[i]) ||
        (!sema_is_num(call->arg[i]) && !sema_is_tile(call->arg[i]))) {
      sema_sym_value(c, p->name, whole_param(c, p, call->arg[i]), "a parameter");
      continue;
    }
    TVar *v = element_param(c, p, &call->arg[i]);
    SemaType both = call->arg[i]->type;
    if (!v || (proto->nargs && !sema_broadcast(c, proto, call->arg[i], call->ast->span, &both)))
      return sema_texpr_error(c, call->ast->span);
    proto->type = both;
    proto->arg[proto->nargs] = call->arg[i];
    proto->as.inlined.params[proto->nargs++] = v;
  }
  TStmts *out = c->out;
  c->out = &proto->as.inlined.body;
  TExpr *v = result(c, call);
  c->out = out;
  if (v->kind != TE_TUPLE)
    return apply_value(c, call, proto, v);
  for (int i = 0; i < v->nargs; i++)
    v->arg[i] = apply_value(c, call, proto, v->arg[i]);
  return v;
}

static TExpr *call_whole(Check *c, Call *call) {
  for (size_t i = 0; i < call->fn->params.n; i++) {
    const AstDecl *p = &call->fn->params.v[i];
    sema_sym_value(c, p->name, whole_param(c, p, call->arg[i]), "a parameter");
  }
  return result(c, call);
}

static bool calls_itself(Check *c, const AstFn *fn, Span span) {
  for (FnCall *f = c->fn; f; f = f->up)
    if (f->fn == fn) {
      diag_add(c->sink, E0105, span, "a fn that a kernel calls does not call itself: %s",
               fn->name.text);
      return true;
    }
  return false;
}

/* An error inside the fn shows the call that led there. */
static void note_call(Check *c, const AstFn *fn, Span call, size_t from) {
  for (size_t i = from; i < c->sink->n; i++) {
    Diag *d = c->sink->v[i];
    bool inside = d->span.file == fn->body.span.file && d->span.begin >= fn->body.span.begin &&
                  d->span.end <= fn->body.span.end;
    if (inside && d->nnotes < 3)
      diag_also(c->sink, d, call, NULL);
  }
}

TExpr *sema_check_fn_call(Check *c, const AstExpr *e, const char *module, const char *name) {
  if (!c->scope || !c->scope->find)
    return NULL;
  SemaFn f = c->scope->find(c->scope->ctx, module, name);
  if (!f.ast)
    return NULL;
  Call call = {.ast = e, .fn = f.ast};
  if (calls_itself(c, f.ast, e->span) || !place_args(c, &call) || !check_args(c, &call))
    return sema_texpr_error(c, e->span);
  if (call.apply && !sema_tile_allowed(c, e->span, "a fn of a tile"))
    return sema_texpr_error(c, e->span);
  Block *outer = c->block, scope;
  const SemaScope *from = c->scope;
  FnCall frame = {.fn = f.ast, .up = c->fn, .apply = call.apply || (c->fn && c->fn->apply)};
  int loops = c->loops;
  size_t diags = c->sink->n;
  c->loops = 0;
  c->block = NULL;
  sema_block_push(c, &scope);
  c->scope = f.scope ? f.scope : from;
  c->fn = &frame;
  TExpr *v = call.apply ? call_elements(c, &call) : call_whole(c, &call);
  c->fn = frame.up;
  c->scope = from;
  c->block = outer;
  c->loops = loops;
  note_call(c, f.ast, e->span, diags);
  return v;
}
