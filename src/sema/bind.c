/* bind.c: from a call's settings and arguments to a specialisation.
 *
 * In: values by name, arguments by parameter. Out: a SemaSpec in which every dtype parameter and
 * static extent that the arguments decide is set, or the diagnostic that says which argument does
 * not fit and why.
 * Only what must be known to compile is bound here: dtypes and static extents. Symbolic extents are
 * bound at the launch by ir_bind, so that one compiled kernel serves all shapes. Conversions of
 * scalar arguments are the session's; here it is only asked whether there is one. Tests:
 * tests/unit/check_sema.c, tests/errors/call_*.tile.
 */
#include "private.h"

#include <string.h>

/* Nothing set, no static extent known. */
SemaSpec *sema_spec_new(Arena *a, const SemaKernel *k) {
  SemaSpec *s = ARENA_NEW(a, SemaSpec);
  s->statics = ARENA_ARRAY(a, SemaValue, k->nstatics);
  s->extents = ARENA_ARRAY(a, int64_t, k->nextents);
  s->bound_by = ARENA_ARRAY(a, const char *, k->nstatics);
  for (size_t i = 0; i < k->nextents; i++)
    s->extents[i] = -1;
  return s;
}

/* The arrays are copied, the strings in them are shared: they belong to the session. */
SemaSpec *sema_spec_copy(Arena *a, const SemaKernel *k, const SemaSpec *from) {
  SemaSpec *s = sema_spec_new(a, k);
  for (size_t i = 0; i < k->nstatics; i++) {
    s->statics[i] = from->statics[i];
    s->bound_by[i] = from->bound_by[i];
  }
  for (size_t i = 0; i < k->nextents; i++)
    s->extents[i] = from->extents[i];
  return s;
}

/* ---------------------------------------------------------------- settings */

/* Kinds of compile-time values, in the words of messages. */
static const char *value_text(SemaValueKind k) {
  static const char *const text[] = {
      [SV_UNSET] = "nil",   [SV_INT] = "an int",      [SV_FLOAT] = "a float",
      [SV_BOOL] = "a bool", [SV_STRING] = "a string", [SV_DTYPE] = "a dtype"};
  return text[k];
}

/* Settings are by name, so a wrong name is the common slip; the hint is the nearest one. */
static bool no_static(const SemaKernel *k, const char *name, Span span, DiagSink *sink) {
  Diag *d =
      diag_add(sink, E0306, span, "%s has no compile-time parameter %s", k->ast->name.text, name);
  const char **names = ARENA_ARRAY(sink->arena, const char *, k->nstatics);
  for (size_t i = 0; i < k->nstatics; i++)
    names[i] = k->statics[i].name.text;
  const char *near = names_closest(name, names, k->nstatics);
  if (near)
    diag_hint(sink, d, "did you mean %s?", near);
  else if (k->nstatics)
    diag_hint(sink, d, "%s[%s = …]", k->ast->name.text, names[0]);
  return false;
}

/* An int stands for a float, as everywhere; otherwise kinds must agree. A parameter with a
 * written type (`x: f32`) refuses what does not fit it here, at the setting, where the reader
 * looks. */
static bool set_number(const SemaStatic *p, SemaValue *v, Span span, DiagSink *sink) {
  if (p->kind == SV_FLOAT && v->kind == SV_INT) {
    v->num = scalar_convert(v->num, DT_F64);
    v->kind = SV_FLOAT;
  }
  if (p->kind != SV_UNSET && v->kind != p->kind) {
    diag_add(sink, E0306, span, "%s is %s, this is %s", p->name.text, value_text(p->kind),
             value_text(v->kind));
    return false;
  }
  if (p->type != DT_NONE && v->kind != SV_STRING && !sema_fits(v->num, p->type)) {
    diag_add(sink, E0204, span, "%s: %s", p->name.text, sema_misfit(sink->arena, v->num, p->type));
    return false;
  }
  return true;
}

/* The last setting of a name wins: `k[BM = 64]` may be specialised further. */
bool sema_set(const SemaKernel *k, SemaSpec *s, const char *name, SemaValue value, Span span,
              DiagSink *sink) {
  for (size_t i = 0; i < k->nstatics; i++) {
    const SemaStatic *p = &k->statics[i];
    if (strcmp(p->name.text, name) != 0)
      continue;
    if (!set_number(p, &value, span, sink))
      return false;
    s->statics[i] = value;
    s->bound_by[i] = NULL;
    return true;
  }
  return no_static(k, name, span, sink);
}

/* ---------------------------------------------------------------- values under a specialisation */

/* What is set, else the default that was computed at the definition. */
bool sema_value(Arena *a, const SemaKernel *k, const SemaSpec *s, size_t i, SemaValue *out) {
  (void)a;
  *out = s && s->statics[i].kind != SV_UNSET ? s->statics[i] : k->statics[i].value;
  return out->kind != SV_UNSET;
}

/* A written dtype, or that of the dtype parameter under these settings. */
DType sema_param_dtype(Arena *a, const SemaKernel *k, const SemaSpec *s, size_t i) {
  const SemaParam *p = &k->params[i];
  SemaValue v;
  if (p->dtype_static < 0)
    return p->dtype;
  return sema_value(a, k, s, (size_t)p->dtype_static, &v) ? v.dtype : DT_NONE;
}

/* ---------------------------------------------------------------- arguments */

/* One call of sema_bind. */
typedef struct Bind {
  Arena *a;
  const SemaKernel *k;
  SemaSpec *s;
  DiagSink *sink;
  const SemaArg *args;
  const char **extent_by; /* static extents: the argument that bound each */
} Bind;

/* The parameter as its author wrote it: messages show both sides of the contract. */
static const char *param_text(const Bind *b, const SemaParam *p) {
  Span s = p->decl->type->span;
  return arena_printf(b->a, "%s: %.*s", p->name.text, (int)(s.end - s.begin),
                      s.file->text + s.begin);
}

/* The argument's type, written as the language writes types. */
static const char *arg_text(const Bind *b, const SemaArg *x) {
  if (!x->tensor)
    return sema_num_name(x->number);
  Str s = str_new(b->a);
  str_addf(&s, "%s[", dtype_name(x->dtype));
  for (int i = 0; i < x->rank; i++)
    str_addf(&s, "%s%lld", i ? ", " : "", (long long)x->extent[i]);
  str_addc(&s, ']');
  return str_text(&s);
}

/* A number where a tensor is wanted, or the reverse. */
static bool wrong_kind(const Bind *b, const SemaParam *p, const SemaArg *x) {
  Diag *d = diag_add(b->sink, E0307, x->span, "%s takes %s; the argument is %s",
                     b->k->ast->name.text, param_text(b, p), arg_text(b, x));
  if (p->tensor && !x->tensor && p->dtype != DT_NONE)
    diag_hint(b->sink, d, "full(%s, value, …) makes a tensor", dtype_name(p->dtype));
  return false;
}

/* Says why the dtype is expected: written, a default, or made so by an earlier argument. The hint
 * converts, for the kernel never does it by itself. */
static bool wrong_dtype(const Bind *b, const SemaParam *p, const SemaArg *x, DType want) {
  const char *by = p->dtype_static >= 0 ? b->s->bound_by[p->dtype_static] : NULL;
  Diag *d =
      by ? diag_add(b->sink, E0307, x->span, "%s takes %s, and %s made that %s; the argument is %s",
                    b->k->ast->name.text, param_text(b, p), by, dtype_name(want), arg_text(b, x))
         : diag_add(b->sink, E0307, x->span, "%s takes %s%s%s; the argument is %s",
                    b->k->ast->name.text, param_text(b, p),
                    p->dtype_static >= 0 ? ", which is " : "",
                    p->dtype_static >= 0 ? dtype_name(want) : "", arg_text(b, x));
  size_t n = x->span.end - x->span.begin;
  if (x->span.file && n < 40)
    diag_hint(b->sink, d, "%.*s.to(%s)", (int)n, x->span.file->text + x->span.begin,
              dtype_name(want));
  return false;
}

/* The first tensor whose type names a dtype parameter binds it; later ones, outputs given by `out
 * =` included, must agree. Outputs alone bind nothing: the default does. */
static bool bind_dtype(Bind *b, const SemaParam *p, const SemaArg *x) {
  DType want = p->dtype;
  if (p->dtype_static >= 0) {
    SemaValue *v = &b->s->statics[p->dtype_static];
    /* `out =` agrees with what the inputs said; it says nothing itself. */
    if (v->kind == SV_UNSET && p->output) {
      *v = b->k->statics[p->dtype_static].value;
    } else if (v->kind == SV_UNSET) {
      *v = (SemaValue){.kind = SV_DTYPE, .dtype = x->dtype};
      b->s->bound_by[p->dtype_static] = p->name.text;
    }
    want = v->dtype;
  }
  return want == x->dtype || wrong_dtype(b, p, x, want);
}

/* A static extent is bound by the first input that names it; others must have the same. */
static bool bind_extent(Bind *b, const SemaParam *p, const SemaArg *x, int axis) {
  for (size_t i = 0; i < b->k->nextents; i++) {
    if (b->k->extents[i] != p->extent[axis].name)
      continue;
    int64_t *v = &b->s->extents[i];
    if (*v < 0 && !p->output) {
      *v = x->extent[axis];
      b->extent_by[i] = p->name.text;
    }
    if (*v == x->extent[axis])
      return true;
    diag_add(b->sink, E0308, x->span, "%s is %lld in %s, but axis %d of %s has the extent %lld",
             p->extent[axis].name, (long long)*v, b->extent_by[i] ? b->extent_by[i] : "the call",
             axis, p->name.text, (long long)x->extent[axis]);
    return false;
  }
  return true;
}

/* Rank first: without it nothing about the axes can be said. */
static bool bind_tensor(Bind *b, const SemaParam *p, const SemaArg *x) {
  if (!x->tensor)
    return wrong_kind(b, p, x);
  if (x->rank != p->rank) {
    diag_add(b->sink, E0307, x->span, "%s takes %s with %d ax%s; the argument is %s",
             b->k->ast->name.text, param_text(b, p), p->rank, p->rank == 1 ? "is" : "es",
             arg_text(b, x));
    return false;
  }
  bool ok = bind_dtype(b, p, x);
  for (int i = 0; i < p->rank && ok; i++)
    ok = bind_extent(b, p, x, i);
  return ok;
}

/* The conversion is the session's; here only whether there is one without loss of kind. */
static bool bind_scalar(Bind *b, const SemaParam *p, const SemaArg *x, DType t) {
  if (x->tensor)
    return wrong_kind(b, p, x);
  DType n = x->number.dtype;
  bool kinds =
      t == DT_BOOL ? n == DT_BOOL : n != DT_BOOL && (dtype_is_float(t) || !dtype_is_float(n));
  if (!kinds)
    return wrong_kind(b, p, x);
  if (x->number.constant && !sema_fits(x->number.value, t)) {
    diag_add(b->sink, E0204, x->span, "the argument %s: %s", p->name.text,
             sema_misfit(b->a, x->number.value, t));
    return false;
  }
  return true;
}

/* Arguments that are not given are outputs that the call allocates. */
static bool bind_one(Bind *b, size_t i) {
  const SemaParam *p = &b->k->params[i];
  const SemaArg *x = &b->args[i];
  /* An output that the call allocates. */
  if (!x->given)
    return true;
  if (p->tensor)
    return bind_tensor(b, p, x);
  DType t = sema_param_dtype(b->a, b->k, b->s, i);
  return t == DT_NONE || bind_scalar(b, p, x, t);
}

/* Tensors go first, so that a scalar of a dtype parameter's type finds it bound. */
bool sema_bind(Arena *a, const SemaKernel *k, SemaSpec *s, const SemaArg *args, Span call,
               DiagSink *sink) {
  Bind b = {.a = a, .k = k, .s = s, .sink = sink, .args = args};
  bool ok = true;
  (void)call;
  b.extent_by = ARENA_ARRAY(a, const char *, k->nextents);
  /* Every argument is looked at, so that one call shows all that is wrong with it. */
  for (int tensors = 1; tensors >= 0; tensors--)
    for (size_t i = 0; i < k->ninputs + k->noutputs; i++)
      if (k->params[i].tensor == (tensors == 1))
        ok = bind_one(&b, i) && ok;
  return ok;
}
