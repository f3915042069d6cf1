/* fn.c: host `fn`s called in kernels: inlined, always.
 *
 * In: a call of a fn. Out: its value; the statements of its body stand before the statement that
 * calls. A fn whose parameters are scalars and that is given a tile runs once an element
 * (TE_APPLY). An early return makes the rest of the body the other way of the branch. Always holds:
 * fns are pure, do not call themselves, and see nothing of the kernel.
 * A body is typed anew for every call, with the argument's own types, shapes and constants: a fn
 * without types is a template. That makes compile-time branches inside it work, and leaves nothing
 * to be called: the tree holds the body's statements. What a parameter stands for is the argument
 * itself if it costs nothing to repeat, else a name for its value. Tests: tests/lang/fn_*.tile,
 * tests/errors/fn_*.tile.
 */
#include "private.h"

/* ALIAS_MAX: nodes of an argument that may be repeated wherever its parameter stands. */
enum { FN_MAX_PARAMS = 32, ALIAS_MAX = 32 };

/* A call while it is being inlined: arguments by parameter, typed in the caller's scope. */
typedef struct Call {
  const AstExpr *ast;
  const AstFn *fn;
  TExpr *arg[FN_MAX_PARAMS];
  const AstExpr *source[FN_MAX_PARAMS];
  bool apply;
} Call;

/* ---------------------------------------------------------------- arguments */

/* Finds the parameter of one argument, by position or name. */
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

/* Every parameter gets exactly one argument; fns have no defaults. */
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

/* `x: f32`: given a tile, the fn runs element by element. */
static bool scalar_param(const AstDecl *p) {
  return p->type && !p->type->has_extents;
}

/* Arguments are typed in the caller's scope, left to right, before the fn's own begins. */
static bool check_args(Check *c, Call *call) {
  bool ok = true;
  for (size_t i = 0; i < call->fn->params.n; i++) {
    const AstDecl *p = &call->fn->params.v[i];
    TExpr *x = p->type ? sema_check_value(c, call->source[i]) : sema_check_expr(c, call->source[i]);
    call->arg[i] = x;
    ok = ok && !sema_is_error(x);
    /* One tile for a scalar parameter makes the whole call one per element. */
    call->apply = call->apply || (scalar_param(p) && sema_is_tile(x));
  }
  return ok;
}

/* ---------------------------------------------------------------- parameters */

/* Nodes of an expression, counted up to a limit: shared parts count each time. */
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

/* What a parameter's name means in the body: the argument itself where that costs nothing to
 * repeat, else a name for its value, computed once before the body. */
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
  /* A parameter with a type has a typed value, whatever it was given. */
  bool untyped = !p->type && (*x)->type.untyped;
  *x = sema_convert(c, *x, t);
  TVar *v = sema_tvar_new(c, TV_LET, p->name.text, t, p->span);
  sema_sym_value(c, p->name, sema_is_error(*x) ? *x : sema_texpr_var(c, v, untyped, p->span),
                 "a parameter");
  return sema_is_error(*x) ? NULL : v;
}

/* ---------------------------------------------------------------- results */

/* The value carries the call's place, for messages about what is done with it. */
static TExpr *result(Check *c, const Call *call) {
  TExpr *v = sema_fn_body(c, &call->fn->body);
  if (!v)
    v = sema_no_value(c, call->ast->span);
  v = sema_typed_result(c, v, call->fn->result);
  if (v->kind == TE_TUPLE || sema_is_error(v))
    return v;
  TExpr *r = ARENA_NEW(c->a, TExpr); /* the call's place is what messages show */
  *r = *v;
  r->span = call->ast->span;
  return r;
}

/* The result is a scalar for each element; its tile has the arguments' common shape. */
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

/* Parameters become scalars of the body, bound anew for each element; constants stay what they
 * are, so that they may decide compile-time branches. */
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

/* Parameters stand for whole values: the body is typed for exactly these arguments. */
static TExpr *call_whole(Check *c, Call *call) {
  for (size_t i = 0; i < call->fn->params.n; i++) {
    const AstDecl *p = &call->fn->params.v[i];
    sema_sym_value(c, p->name, whole_param(c, p, call->arg[i]), "a parameter");
  }
  return result(c, call);
}

/* Through any number of others: the chain of calls being inlined is looked through. */
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

/* The body is typed anew for every call, as a template would be; it sees host fns only. */
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
  /* The fn sees none of the kernel's names. */
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
