/* signature.c: kernels' signatures, compile-time parameters, symbolic extents.
 *
 * In: an AstKernel. Out: the SemaKernel, and for a specialisation the names of the signature in the
 * outermost block. A name in a shape that nothing binds is a symbolic extent.
 * The order in which the signature's names come to be is the order of what may use what:
 * compile-time parameters (each may use those before it), scalars, static extents, symbolic
 * extents, tensors and named extents, initial values. At the definition what no default gives is
 * TY_ERROR: it silences what depends on it, and the call, which knows everything, checks the kernel
 * again. Tests: tests/unit/check_sema.c, tests/errors/signature_*.tile.
 */
#include "private.h"

#include <string.h>

/* `str` is what the host's conversion is called. */
static const struct KindName {
  const char *name;
  SemaValueKind kind;
} kind_names[] = {{"dtype", SV_DTYPE}, {"int", SV_INT},       {"float", SV_FLOAT},
                  {"bool", SV_BOOL},   {"string", SV_STRING}, {"str", SV_STRING}};

/* Written types of compile-time parameters: words of the host, or a dtype for a typed number. */
static bool static_kind(const AstDecl *d, SemaStatic *out, DiagSink *sink) {
  out->type = DT_NONE;
  if (!d->type)
    return true;
  const char *text = d->type->base.text;
  for (size_t i = 0; text && i < sizeof kind_names / sizeof *kind_names; i++)
    if (!d->type->has_extents && strcmp(kind_names[i].name, text) == 0) {
      out->kind = kind_names[i].kind;
      return true;
    }
  if (text && !d->type->has_extents && dtype_parse(text, strlen(text), &out->type)) {
    out->kind = dtype_is_float(out->type) ? SV_FLOAT : SV_INT;
    return true;
  }
  Diag *g = diag_add(sink, E0315, d->type->span,
                     "a compile-time parameter is an int, float, bool, string or dtype");
  diag_hint(sink, g, "%s: int = …", d->name.text);
  return false;
}

/* `auto(v)`: the author promises that the choice does not change the result. */
static bool is_auto_call(const AstExpr *e) {
  return e && e->kind == EXPR_CALL && e->as.call.fn->kind == EXPR_NAME &&
         strcmp(e->as.call.fn->as.name, "auto") == 0;
}

/* Kinds that only the default tells are filled in at the first check (enter_statics). */
static bool read_statics(Arena *a, SemaKernel *k, DiagSink *sink) {
  const AstDecls *d = &k->ast->statics;
  k->nstatics = d->n;
  k->statics = ARENA_ARRAY(a, SemaStatic, d->n);
  bool ok = true;
  for (size_t i = 0; i < d->n; i++) {
    SemaStatic *s = &k->statics[i];
    s->name = d->v[i].name;
    s->decl = &d->v[i];
    s->is_auto = is_auto_call(d->v[i].init);
    s->has_default = d->v[i].init != NULL;
    ok = static_kind(&d->v[i], s, sink) && ok;
  }
  return ok;
}

/* Names are interned: equal text, equal pointer. */
static int static_index(const SemaKernel *k, const char *name) {
  for (size_t i = 0; i < k->nstatics; i++)
    if (k->statics[i].name.text == name)
      return (int)i;
  return -1;
}

/* Each name once, whichever parameters write it. */
static void add_static_extent(Arena *a, SemaKernel *k, const char *name) {
  for (size_t i = 0; i < k->nextents; i++)
    if (k->extents[i] == name)
      return;
  const char **v = ARENA_ARRAY(a, const char *, k->nextents + 1);
  for (size_t i = 0; i < k->nextents; i++)
    v[i] = k->extents[i];
  v[k->nextents++] = name;
  k->extents = v;
}

/* A plain name may be a symbol; `OH = H // 2` names an expression instead. */
static void read_extents(Arena *a, SemaKernel *k, SemaParam *p) {
  const AstType *t = p->decl->type;
  p->rank = (int)t->nextents;
  for (size_t i = 0; i < t->nextents; i++) {
    const AstExtent *x = &t->extents[i];
    SemaExtent *e = &p->extent[i];
    e->ast = x;
    e->is_static = x->is_static;
    if (x->value->kind == EXPR_NAME && (!x->name || x->is_static))
      e->name = x->value->as.name;
    if (x->is_static)
      add_static_extent(a, k, e->name);
  }
}

/* A dtype, or a compile-time parameter that stands for one and is bound by the argument. */
static bool param_dtype(const SemaKernel *k, SemaParam *p, DiagSink *sink) {
  const AstName *base = &p->decl->type->base;
  p->dtype = DT_NONE;
  p->dtype_static = base->text ? static_index(k, base->text) : -1;
  if (p->dtype_static >= 0) {
    SemaStatic *s = &k->statics[p->dtype_static];
    if (s->kind == SV_UNSET)
      s->kind = SV_DTYPE;
    s->from_argument = s->from_argument || !p->output;
    if (s->kind == SV_DTYPE)
      return true;
  } else if (base->text && dtype_parse(base->text, strlen(base->text), &p->dtype)) {
    return true;
  }
  Diag *d = diag_add(sink, E0222, p->decl->type->span, "%s is not a dtype",
                     base->text ? base->text : "this");
  const char *meant = base->text ? sema_meant_dtype(sink->arena, base->text) : NULL;
  if (meant)
    diag_hint(sink, d, "%s", meant);
  else if (base->text)
    diag_hint(sink, d, "kernel %s[%s: dtype = f32](…)", k->ast->name.text, base->text);
  return false;
}

/* What cannot be whatever the arguments are. */
static bool param_shape(const SemaParam *p, DiagSink *sink) {
  const AstType *t = p->decl->type;
  if (t->nextents > SEMA_MAX_RANK) {
    diag_add(sink, E0223, t->span, "a tensor has at most %d axes, this has %zu", SEMA_MAX_RANK,
             t->nextents);
    return false;
  }
  if (p->tensor)
    return true;
  if (p->output) {
    Diag *d =
        diag_add(sink, E0315, p->decl->span, "an output is a tensor, %s is a scalar", p->name.text);
    diag_hint(sink, d, "%s: %s[1]", p->name.text, t->base.text);
    return false;
  }
  if (p->inout) {
    Diag *d = diag_add(sink, E0315, p->decl->span, "`inout` is said of tensors, %s is a scalar",
                       p->name.text);
    diag_hint(sink, d, "%s: inout %s[1]", p->name.text, t->base.text);
    return false;
  }
  return true;
}

/* One input or output of the signature. */
static bool read_param(Arena *a, SemaKernel *k, const AstDecl *d, bool output, SemaParam *p,
                       DiagSink *sink) {
  p->name = d->name;
  p->decl = d;
  p->output = output;
  p->inout = d->is_inout;
  p->tensor = d->type->has_extents;
  if (!param_shape(p, sink) || !param_dtype(k, p, sink))
    return false;
  read_extents(a, k, p);
  return true;
}

/* Reads what the text says; nothing is evaluated yet. */
bool sema_signature_read(Arena *a, SemaKernel *k, DiagSink *sink) {
  const AstKernel *ast = k->ast;
  bool ok = read_statics(a, k, sink);
  k->ninputs = ast->inputs.n;
  k->noutputs = ast->outputs.n;
  k->params = ARENA_ARRAY(a, SemaParam, k->ninputs + k->noutputs);
  for (size_t i = 0; i < k->ninputs + k->noutputs; i++) {
    bool out = i >= k->ninputs;
    const AstDecl *d = out ? &ast->outputs.v[i - k->ninputs] : &ast->inputs.v[i];
    ok = read_param(a, k, d, out, &k->params[i], sink) && ok;
  }
  return ok;
}

/* ---------------------------------------------------------------- compile-time parameters */

/* A compile-time value as the body sees it: numbers without a type unless one is written. */
static TExpr *value_expr(Check *c, const SemaValue *v, const SemaStatic *st, Span span) {
  TExpr *e;
  switch (v->kind) {
  case SV_DTYPE:
    e = sema_texpr_new(c, TE_DTYPE, sema_type_kind(TY_DTYPE), span);
    e->type.dtype = v->dtype;
    return e;
  case SV_STRING:
    e = sema_texpr_new(c, TE_STRING, sema_type_kind(TY_STRING), span);
    e->as.string.s = v->string;
    e->as.string.n = v->n;
    return e;
  case SV_UNSET:
    return sema_texpr_error(c, span);
  default:
    e = sema_texpr_const(c, v->num, v->kind != SV_BOOL, span);
    return st->type != DT_NONE ? sema_convert(c, e, st->type) : e;
  }
}

/* The reverse; false for what is not known when compiling. */
static bool to_value(const TExpr *e, SemaValue *out) {
  memset(out, 0, sizeof *out);
  if (e->kind == TE_DTYPE) {
    out->kind = SV_DTYPE;
    out->dtype = e->type.dtype;
  } else if (e->kind == TE_STRING) {
    out->kind = SV_STRING;
    out->string = e->as.string.s;
    out->n = e->as.string.n;
  } else if (e->kind == TE_CONST) {
    out->num = e->as.value;
    out->kind = e->type.dtype == DT_BOOL        ? SV_BOOL
                : dtype_is_float(e->type.dtype) ? SV_FLOAT
                                                : SV_INT;
  }
  return out->kind != SV_UNSET;
}

/* Kinds, in the words of messages. */
static const char *kind_text(SemaValueKind k) {
  static const char *const text[] = {
      [SV_UNSET] = "nothing", [SV_INT] = "an int",      [SV_FLOAT] = "a float",
      [SV_BOOL] = "a bool",   [SV_STRING] = "a string", [SV_DTYPE] = "a dtype"};
  return text[k];
}

/* May use the parameters before it, which are declared already. */
static TExpr *default_value(Check *c, SemaStatic *s) {
  TExpr *e = sema_check_expr(c, s->decl->init);
  SemaValue v;
  if (sema_is_error(e))
    return e;
  if (!to_value(e, &v)) {
    diag_add(c->sink, E0210, s->decl->init->span,
             "the default of %s must be known when the kernel is compiled", s->name.text);
    return sema_texpr_error(c, s->decl->span);
  }
  /* `x: float = 1` is fine. */
  bool widens = s->kind == SV_FLOAT && v.kind == SV_INT;
  if (s->kind != SV_UNSET && v.kind != s->kind && !widens) {
    diag_add(c->sink, E0306, s->decl->init->span, "%s is %s, its default is %s", s->name.text,
             kind_text(s->kind), kind_text(v.kind));
    return sema_texpr_error(c, s->decl->span);
  }
  if (widens && sema_is_num(e)) {
    e = sema_convert(c, e, DT_F64);
    e->type.untyped = true;
  }
  return s->type != DT_NONE ? sema_convert(c, e, s->type) : e;
}

/* Set, else the default, else an error; at the definition unknown, and silent. */
static TExpr *static_value(Check *c, size_t i) {
  SemaStatic *s = &c->kernel->statics[i];
  const SemaValue *set = c->spec ? &c->spec->statics[i] : NULL;
  if (set && set->kind != SV_UNSET)
    return value_expr(c, set, s, s->name.span);
  if (s->has_default)
    return default_value(c, s);
  if (!c->defining) {
    Diag *d =
        diag_add(c->sink, E0305, s->name.span, "%s has no default and is not set", s->name.text);
    diag_hint(c->sink, d, "%s[%s = …](…)", c->kernel->ast->name.text, s->name.text);
  }
  return sema_texpr_error(c, s->name.span);
}

/* In order, so that defaults see those before. */
static void enter_statics(Check *c) {
  c->tree->statics = ARENA_ARRAY(c->a, SemaValue, c->kernel->nstatics);
  for (size_t i = 0; i < c->kernel->nstatics; i++) {
    SemaStatic *s = &c->kernel->statics[i];
    TExpr *v = static_value(c, i);
    /* The default's kind is the parameter's where no type says it. */
    if (c->defining && to_value(v, &s->value) && s->kind == SV_UNSET)
      s->kind = s->value.kind;
    to_value(v, &c->tree->statics[i]);
    sema_sym_value(c, s->name, v, "a compile-time parameter");
  }
}

/* ---------------------------------------------------------------- extents */

/* Symbolic extents are variables of the kernel, bound from the arguments' shapes. */
static TExpr *new_extent(Check *c, const char *name, Span span) {
  TVar *v = sema_tvar_new(c, TV_EXTENT, name, DT_I64, span);
  SemaTree *t = c->tree;
  TVar **all = ARENA_ARRAY(c->a, TVar *, t->nextents + 1);
  v->lo = 0;
  for (size_t i = 0; i < t->nextents; i++)
    all[i] = t->extent[i];
  all[t->nextents++] = v;
  t->extent = all;
  return sema_texpr_var(c, v, true, span);
}

/* Names that a shape gives to an extent (`OH = H // 2`). */
static bool named_extent(const SemaKernel *k, const char *name) {
  for (size_t i = 0; i < k->ninputs + k->noutputs; i++)
    for (int j = 0; k->params[i].tensor && j < k->params[i].rank; j++) {
      const AstExtent *x = k->params[i].extent[j].ast;
      if (x->name == name && !x->is_static)
        return true;
    }
  return false;
}

static void find_in_args(Check *c, const AstArgs *args, bool may_bind);

/* Declares the names in an extent that nothing binds. */
static void find_symbols(Check *c, const AstExpr *e, bool may_bind) {
  DType t;
  switch (e->kind) {
  case EXPR_NAME:
    if (sema_sym_find(c, e->as.name) || named_extent(c->kernel, e->as.name) ||
        strcmp(e->as.name, "sms") == 0 || dtype_parse(e->as.name, strlen(e->as.name), &t))
      return;
    if (may_bind) {
      AstName n = {.text = e->as.name, .span = e->span};
      sema_sym_value(c, n, new_extent(c, n.text, n.span), "an extent");
    }
    return;
  case EXPR_UNARY:
    find_symbols(c, e->as.unary.x, may_bind);
    return;
  case EXPR_BINARY:
    find_symbols(c, e->as.binary.x, may_bind);
    find_symbols(c, e->as.binary.y, may_bind);
    return;
  case EXPR_COMPARE:
    for (size_t i = 0; i <= e->as.compare.n; i++)
      find_symbols(c, e->as.compare.x[i], may_bind);
    return;
  case EXPR_COND:
    find_symbols(c, e->as.cond.cond, may_bind);
    find_symbols(c, e->as.cond.then, may_bind);
    find_symbols(c, e->as.cond.other, may_bind);
    return;
  case EXPR_CALL:
    find_in_args(c, &e->as.call.args, may_bind);
    return;
  default:
    return;
  }
}

/* Arguments of a call inside an extent, ceildiv(N, 4). */
static void find_in_args(Check *c, const AstArgs *args, bool may_bind) {
  for (size_t i = 0; i < args->n; i++)
    find_symbols(c, args->v[i].value, may_bind);
}

/* Before the shapes: they may use them. */
static void enter_static_extents(Check *c) {
  const SemaKernel *k = c->kernel;
  for (size_t i = 0; i < k->nextents; i++) {
    AstName n = {.text = k->extents[i]};
    for (size_t p = 0; p < k->ninputs + k->noutputs && !n.span.file; p++)
      for (int j = 0; k->params[p].tensor && j < k->params[p].rank; j++)
        if (k->params[p].extent[j].is_static && k->params[p].extent[j].name == n.text)
          n.span = k->params[p].extent[j].ast->span;
    int64_t v = c->spec ? c->spec->extents[i] : -1;
    if (v < 0 && !c->defining)
      diag_add(c->sink, E0308, n.span, "no argument binds the static extent %s", n.text);
    sema_sym_value(c, n, v < 0 ? sema_texpr_error(c, n.span) : sema_texpr_int(c, v, n.span),
                   "a static extent");
  }
}

/* All inputs are walked before any shape is typed, so that names bind in any order. */
static void enter_symbols(Check *c) {
  const SemaKernel *k = c->kernel;
  for (size_t i = 0; i < k->ninputs; i++)
    for (int j = 0; k->params[i].tensor && j < k->params[i].rank; j++)
      find_symbols(c, k->params[i].extent[j].ast->value, true);
}

/* ---------------------------------------------------------------- parameters */

/* Before the extents, which may use them whatever their order in the signature. */
static void enter_scalars(Check *c) {
  const SemaKernel *k = c->kernel;
  for (size_t i = 0; i < k->ninputs; i++) {
    const SemaParam *p = &k->params[i];
    DType t;
    if (p->tensor)
      continue;
    if (!sema_check_dtype(c, p->decl->type, &t)) {
      sema_sym_declare(c, p->name, SYM_POISON, "a parameter");
      continue;
    }
    c->tree->var[i] = sema_tvar_new(c, TV_PARAM, p->name.text, t, p->name.span);
    sema_sym_value(c, p->name, sema_texpr_var(c, c->tree->var[i], false, p->name.span),
                   "a parameter");
  }
}

/* An output has no argument to take an extent from. */
static bool extent_bound(Check *c, const SemaParam *p, const AstExpr *e) {
  if (e->kind != EXPR_NAME || sema_sym_find(c, e->as.name) || strcmp(e->as.name, "sms") == 0)
    return true;
  Diag *d = diag_add(c->sink, E0308, e->span, "no argument binds the extent %s of the output %s",
                     e->as.name, p->name.text);
  diag_hint(c->sink, d,
            "an output's extents are computed of the inputs': name %s in one of their "
            "shapes",
            e->as.name);
  return false;
}

/* Shapes are expressions of extents and scalars, evaluated at the launch. */
static bool enter_shape(Check *c, const SemaParam *p, TBuf *b) {
  bool ok = true;
  for (int j = 0; j < p->rank; j++) {
    const AstExtent *x = p->extent[j].ast;
    TExpr *e = p->output && !extent_bound(c, p, x->value)
                   ? sema_texpr_error(c, x->span)
                   : sema_check_int(c, x->value, "an extent");
    if (!sema_is_error(e) && !sema_is_pure(e)) {
      diag_add(c->sink, E0308, x->span, "an extent is computed of extents and scalars alone");
      e = sema_texpr_error(c, x->span);
    }
    /* Kept also where it is wrong: the rank is right. */
    b->shape[j] = e;
    if (x->name && !x->is_static) {
      TExpr *v = ARENA_NEW(c->a, TExpr);
      *v = *e;
      v->type.untyped = true;
      AstName n = {.text = x->name, .span = x->name_span};
      sema_sym_value(c, n, v, "an extent");
    }
    ok = ok && !sema_is_error(e);
  }
  return ok;
}

/* A parameter with an error stays declared, silently. */
static void enter_tensor(Check *c, size_t i) {
  const SemaParam *p = &c->kernel->params[i];
  SemaType t = {.kind = TY_GLOBAL, .rank = p->rank};
  bool typed = sema_check_dtype(c, p->decl->type, &t.dtype);
  TBuf *b = sema_tbuf_new(c, TB_GLOBAL, p->name.text, &t, p->name.span);
  bool shaped = enter_shape(c, p, b);
  /* Inputs are never written, so loads from them may be cached and moved. */
  b->immutable = !p->output && !p->inout;
  if (!typed || !shaped) {
    sema_sym_declare(c, p->name, SYM_POISON, "a parameter");
    return;
  }
  c->tree->buf[i] = b;
  sema_sym_value(c, p->name, sema_texpr_whole(c, b, p->name.span),
                 p->output ? "an output" : "a parameter");
}

/* `= 0` at an output: set before the first block runs. */
static void enter_init(Check *c, size_t i) {
  const SemaParam *p = &c->kernel->params[i];
  if (!p->decl->init || !c->tree->buf[i])
    return;
  TExpr *v = sema_check_scalar(c, p->decl->init, "an output's initial value");
  if (!sema_is_error(v) && !sema_is_pure(v)) {
    diag_add(c->sink, E0308, p->decl->init->span,
             "an output's initial value is computed of extents and scalars alone");
    return;
  }
  c->tree->init[i] = sema_convert(c, v, c->tree->buf[i]->dtype);
}

/* The order of the steps is the order of what may use what. */
bool sema_signature_enter(Check *c) {
  const SemaKernel *k = c->kernel;
  size_t n = k->ninputs + k->noutputs, errors = c->sink->errors;
  c->tree->buf = ARENA_ARRAY(c->a, TBuf *, n);
  c->tree->var = ARENA_ARRAY(c->a, TVar *, n);
  c->tree->init = ARENA_ARRAY(c->a, TExpr *, n);
  enter_statics(c);
  enter_scalars(c);
  enter_static_extents(c);
  enter_symbols(c);
  /* Outputs come after all inputs: their shapes may use any name. */
  for (size_t i = 0; i < n; i++)
    if (k->params[i].tensor)
      enter_tensor(c, i);
  for (size_t i = k->ninputs; i < n; i++)
    enter_init(c, i);
  return c->sink->errors == errors;
}
