/* call.c: calls by name: conversions, mathematics, reductions, and the words of tile programs.
 *
 * In: a call. Out: its value, or TY_NONE with statements appended. A name means, in this order:
 * what the kernel declares, a host `fn`, a dtype, a row of ops.def, a word of the table below.
 * Named arguments are sorted by sema_take_args, which every word uses, so that they are all refused
 * in the same words. The table holds what is no elementwise operation; those come from ops.def by
 * their own names. Adding a word is one row and one function. Tests: tests/lang/call_*.tile,
 * tests/errors/call_*.tile.
 */
#include "private.h"

#include <string.h>

/* What the function takes, and what this call gives, in one sentence. */
static Diag *too_many(Check *c, const AstExpr *call, const char *name, const char *want) {
  return diag_add(c->sink, E0110, call->span, "%s takes %s, this call gives %zu", name, want,
                  call->as.call.args.n);
}

static TExpr *count_error(Check *c, const AstExpr *call, const char *name, const char *want) {
  too_many(c, call, name, want);
  return sema_texpr_error(c, call->span);
}

/* Finds the parameter of one `name = value`; unknown names get the nearest one as a hint. */
static bool take_named(Check *c, const AstArg *arg, const char *name, const char *const *params,
                       size_t n, Args *out) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(params[i], arg->name) == 0) {
      if (!out->v[i]) {
        out->v[i] = arg->value;
        return true;
      }
      diag_add(c->sink, E0110, arg->name_span, "%s gets %s twice", name, arg->name);
      return false;
    }
  Diag *d = diag_add(c->sink, E0111, arg->name_span, "%s has no argument %s", name, arg->name);
  const char *near = sema_meant_argument(arg->name, params, n);
  if (near)
    diag_hint(c->sink, d, "did you mean %s?", near);
  return false;
}

/* Positional arguments fill the parameters in order, up to `positional` of them; named ones may
 * fill any. The first `required` parameters must be filled. Nothing is evaluated here. */
bool sema_take_args(Check *c, const AstExpr *call, const char *name, const char *const *params,
                    size_t required, size_t positional, Args *out) {
  const AstArgs *args = &call->as.call.args;
  size_t n = 0;
  memset(out, 0, sizeof *out);
  while (params[n])
    n++;
  /* Options are by name, always: copy(a, b, 0) would not say what the 0 is. */
  if (args->npos > positional) {
    Diag *d =
        too_many(c, call, name,
                 positional == 1 ? "1 argument by position"
                                 : arena_printf(c->a, "%zu arguments by position", positional));
    const char *value = sema_source_text(c, args->v[positional].value);
    if (args->npos == positional + 1 && params[positional] && value)
      diag_hint(c->sink, d, "is it meant as %s = %s?", params[positional], value);
    return false;
  }
  for (size_t i = 0; i < args->npos; i++)
    out->v[i] = args->v[i].value;
  for (size_t i = args->npos; i < args->n; i++)
    if (!take_named(c, &args->v[i], name, params, n, out))
      return false;
  for (size_t i = 0; i < required; i++)
    if (!out->v[i]) {
      diag_add(c->sink, E0110, call->span, "%s needs the argument %s", name, params[i]);
      return false;
    }
  return true;
}

/* The only positional argument of a call without named ones. */
static const AstExpr *one_arg(Check *c, const AstExpr *call, const char *name) {
  if (call->as.call.args.n == 1 && call->as.call.args.npos == 1)
    return call->as.call.args.v[0].value;
  count_error(c, call, name, "1 argument");
  return NULL;
}

/* ---------------------------------------------------------------- conversions */

/* `f32(x)`: the one conversion that is written, and the only one that may lose a value. */
static TExpr *conversion(Check *c, const AstExpr *call, DType t) {
  const AstExpr *arg = one_arg(c, call, dtype_name(t));
  if (!arg)
    return sema_texpr_error(c, call->span);
  TExpr *x = sema_cast(c, sema_check_value(c, arg), t);
  if (!sema_is_error(x))
    x->span = call->span;
  return x;
}

/* int(x) and float(x) take the type off: the result meets others as a number without one. */
static TExpr *untype(Check *c, const AstExpr *call, const char *name, DType t) {
  const AstExpr *arg = one_arg(c, call, name);
  if (!arg)
    return sema_texpr_error(c, call->span);
  TExpr *x = sema_cast(c, sema_check_value(c, arg), t);
  if (sema_is_error(x))
    return x;
  TExpr *r = ARENA_NEW(c->a, TExpr);
  *r = *x;
  /* The node is a copy: the operand's own type is someone else's. */
  r->type.untyped = true;
  return r;
}

/* Truncates, as i64(x) does. */
static TExpr *call_int(Check *c, const AstExpr *e) {
  return untype(c, e, "int", DT_I64);
}
/* An f64 that meets an f32 as a plain number does. */
static TExpr *call_float(Check *c, const AstExpr *e) {
  return untype(c, e, "float", DT_F64);
}

/* The bits are kept, so both types have the same number of them. */
static TExpr *bitcast(Check *c, const AstExpr *e) {
  static const char *const params[] = {"dtype", "x", NULL};
  Args args;
  if (!sema_take_args(c, e, "bitcast", params, 2, 2, &args))
    return sema_texpr_error(c, e->span);
  TExpr *t = sema_check_expr(c, args.v[0]), *x = sema_check_value(c, args.v[1]);
  if (sema_is_error(t) || sema_is_error(x))
    return sema_texpr_error(c, e->span);
  if (t->kind != TE_DTYPE) {
    Diag *d = diag_add(c->sink, E0222, args.v[0]->span, "bitcast takes a dtype first");
    diag_hint(c->sink, d, "bitcast(u32, x)");
    return sema_texpr_error(c, e->span);
  }
  x = sema_convert(c, x, x->type.dtype);
  if (dtype_bits(t->type.dtype) != dtype_bits(x->type.dtype)) {
    diag_add(c->sink, E0208, e->span, "bitcast keeps the bits: %s has %u of them, %s %u",
             sema_describe(c, x), dtype_bits(x->type.dtype), dtype_name(t->type.dtype),
             dtype_bits(t->type.dtype));
    return sema_texpr_error(c, e->span);
  }
  SemaType type = x->type;
  type.dtype = t->type.dtype;
  return sema_texpr_op(c, OP_BITCAST, type, &x, 1, e->span);
}

/* ---------------------------------------------------------------- rows of ops.def */

/* A row of ops.def by its name: its arity and operand types are the row's, so a new row needs
 * nothing here. */
static TExpr *apply(Check *c, const AstExpr *e, OpCode op) {
  const AstArgs *args = &e->as.call.args;
  const OpInfo *info = op_info(op);
  if ((int)args->n != info->arity || args->npos != args->n)
    return count_error(
        c, e, info->name,
        arena_printf(c->a, "%d argument%s", info->arity, info->arity == 1 ? "" : "s"));
  TExpr *x[4];
  SemaNum n[4];
  bool ok = true;
  for (int i = 0; i < info->arity; i++) {
    x[i] = sema_check_value(c, args->v[i].value);
    n[i] = sema_num_of(c, x[i], args->v[i].value);
    ok = ok && !sema_is_error(x[i]);
  }
  SemaRule r;
  if (!ok)
    return sema_texpr_error(c, e->span);
  if (!sema_apply(c->a, SEMA_KERNEL, op, n, info->arity, &r))
    return sema_report_rule(c, &r, e->span);
  return sema_apply_rule(c, &r, x, info->arity, e->span);
}

/* ---------------------------------------------------------------- words */

/* The i32 tile 0 … n-1. Its extent becomes part of a type, hence a constant. */
static TExpr *iota(Check *c, const AstExpr *e) {
  const AstExpr *arg = one_arg(c, e, "iota");
  int64_t n;
  if (!arg || !sema_tile_allowed(c, e->span, "iota") ||
      !sema_check_const_int(c, arg, "the extent of iota", &n))
    return sema_texpr_error(c, e->span);
  /* Its elements are i32. */
  if (n < 0 || n > INT32_MAX) {
    diag_add(c->sink, E0221, arg->span, "iota takes an extent from 0 to 2147483647, this is %lld",
             (long long)n);
    return sema_texpr_error(c, e->span);
  }
  return sema_texpr_new(c, TE_IOTA, sema_type_tile(DT_I32, 1, &n), e->span);
}

/* Two by position: element by element. One: a reduction. The names are NumPy's of both. */
static TExpr *max_or_min(Check *c, const AstExpr *e, OpCode two, OpCode reduce) {
  if (e->as.call.args.npos == 2 && e->as.call.args.n == 2)
    return apply(c, e, two);
  return sema_check_reduce(c, e, reduce, two == OP_MAX2 ? "max" : "min");
}

/* max(x, y) or max(t, axis = k). */
static TExpr *call_max(Check *c, const AstExpr *e) {
  return max_or_min(c, e, OP_MAX2, OP_RMAX);
}
/* min(x, y) or min(t, axis = k). */
static TExpr *call_min(Check *c, const AstExpr *e) {
  return max_or_min(c, e, OP_MIN2, OP_RMIN);
}
/* The rows of ops.def say which types a reduction takes and gives. */
static TExpr *call_sum(Check *c, const AstExpr *e) {
  return sema_check_reduce(c, e, OP_SUM, "sum");
}
static TExpr *call_prod(Check *c, const AstExpr *e) {
  return sema_check_reduce(c, e, OP_PROD, "prod");
}
static TExpr *call_absmax(Check *c, const AstExpr *e) {
  return sema_check_reduce(c, e, OP_ABSMAX, "absmax");
}
static TExpr *call_any(Check *c, const AstExpr *e) {
  return sema_check_reduce(c, e, OP_ANY, "any");
}
static TExpr *call_all(Check *c, const AstExpr *e) {
  return sema_check_reduce(c, e, OP_ALL, "all");
}
static TExpr *call_argmax(Check *c, const AstExpr *e) {
  return sema_check_reduce(c, e, OP_ARGMAX, "argmax");
}
static TExpr *call_argmin(Check *c, const AstExpr *e) {
  return sema_check_reduce(c, e, OP_ARGMIN, "argmin");
}
/* Scans keep the tile's shape. */
static TExpr *call_cumsum(Check *c, const AstExpr *e) {
  return sema_check_scan(c, e, OP_SUM);
}
static TExpr *call_cummax(Check *c, const AstExpr *e) {
  return sema_check_scan(c, e, OP_RMAX);
}

/* The choice of an `auto` is the compiler's; in a body it is the value. */
static TExpr *call_auto(Check *c, const AstExpr *e) {
  const AstExpr *arg = one_arg(c, e, "auto");
  return arg ? sema_check_expr(c, arg) : sema_texpr_error(c, e->span);
}

/* Loop words are plain calls to the parser; alone they mean nothing. */
static TExpr *only_in_for(Check *c, const AstExpr *e) {
  Diag *d =
      diag_add(c->sink, E0310, e->span, "%s(…) stands only after `in`", e->as.call.fn->as.name);
  diag_hint(c->sink, d, "for i in %s(n) { … }", e->as.call.fn->as.name);
  return sema_texpr_error(c, e->span);
}

/* The host has it, kernels have not: the count is the author's to say. */
static TExpr *call_mean(Check *c, const AstExpr *e) {
  const char *arg = e->as.call.args.n ? sema_source_text(c, e->as.call.args.v[0].value) : NULL;
  Diag *d = diag_add(c->sink, E0101, e->span, "kernels have no mean");
  diag_hint(c->sink, d, "sum(%s) / n, where n is the number of elements", arg ? arg : "x");
  return sema_texpr_error(c, e->span);
}

/* Words of tile programs. They are names like others: a kernel may declare its own. */
static const struct Word {
  const char *name;
  TExpr *(*fn)(Check *c, const AstExpr *e);
} table[] = {{"copy", sema_check_copy},
             {"fill", sema_check_fill},
             {"gemm", sema_check_gemm},
             {"print", sema_check_print},
             {"sum", call_sum},
             {"prod", call_prod},
             {"max", call_max},
             {"min", call_min},
             {"absmax", call_absmax},
             {"any", call_any},
             {"all", call_all},
             {"argmax", call_argmax},
             {"argmin", call_argmin},
             {"cumsum", call_cumsum},
             {"cummax", call_cummax},
             {"iota", iota},
             {"reshape", sema_check_reshape},
             {"transpose", sema_check_transpose},
             {"bitcast", bitcast},
             {"int", call_int},
             {"float", call_float},
             {"auto", call_auto},
             {"range", only_in_for},
             {"parallel", only_in_for},
             {"pipelined", only_in_for},
             {"unroll", only_in_for},
             {"vectorized", only_in_for},
             {"persistent", only_in_for},
             {"arrive", sema_check_arrive},
             {"wait", sema_check_wait},
             {"mean", call_mean}};

/* No such function: an error, unless it may be there by the time of the call. */
static TExpr *no_function(Check *c, const AstExpr *e, const char *module, const char *name) {
  if (c->defining && c->scope && c->scope->later && c->scope->later(c->scope->ctx, module, name))
    return sema_texpr_error(c, e->span);
  Span span = e->as.call.fn->span;
  return module ? sema_unknown_member(c, module, name, span) : sema_unknown_name(c, name, span);
}

/* The last resort of a name: the table's words, dtypes, rows of ops.def, atomics. */
static TExpr *builtin(Check *c, const AstExpr *e, const char *name) {
  /* The table is short, and a call is looked up once. */
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (strcmp(table[i].name, name) == 0)
      return table[i].fn(c, e);
  DType t;
  if (dtype_parse(name, strlen(name), &t))
    return conversion(c, e, t);
  OpCode op = sema_builtin(name);
  if (op != OP_NONE)
    return apply(c, e, op);
  op = op_find(name);
  if (op != OP_NONE && op_info(op)->cls == OPC_ATOMIC && op != OP_ATOMIC_INC)
    return sema_check_atomic(c, e, op);
  return no_function(c, e, NULL, name);
}

/* A declared name hides functions: only a dtype parameter can be called, as a conversion. */
static TExpr *call_symbol(Check *c, const AstExpr *e, const Sym *s) {
  if (s->kind == SYM_VALUE && s->value->kind == TE_DTYPE)
    return conversion(c, e, s->value->type.dtype);
  if (s->kind != SYM_POISON)
    diag_add(c->sink, E0104, e->as.call.fn->span, "%s is %s here, not a function", s->name,
             s->what);
  return sema_texpr_error(c, e->span);
}

/* `t.fill(1)` as `fill(t, 1)`; what follows the tile in a reduction is an axis, and has its name.
 */
static const char *as_function(Check *c, const AstExpr *e, const char *method) {
  const AstArgs *args = &e->as.call.args;
  const char *base = sema_span_text(c, e->as.call.fn->as.attr.base->span);
  if (args->n == 0)
    return arena_printf(c->a, "%s(%s)", method, base ? base : "x");
  Span all = args->v[0].name ? args->v[0].name_span : args->v[0].value->span;
  all.end = args->v[args->n - 1].value->span.end;
  const char *rest = sema_span_text(c, all);
  bool axis = args->npos == 1 && sema_takes_axis(method);
  return arena_printf(c->a, "%s(%s, %s%s)", method, base ? base : "x", axis ? "axis = " : "",
                      rest ? rest : "…");
}

/* `f(x)` or `module.f(x)`; nothing else is a function in a kernel. */
TExpr *sema_check_call(Check *c, const AstExpr *e) {
  const AstExpr *fn = e->as.call.fn;
  if (fn->kind == EXPR_ATTR && fn->as.attr.base->kind == EXPR_NAME &&
      !sema_sym_find(c, fn->as.attr.base->as.name)) {
    const char *module = fn->as.attr.base->as.name, *attr = fn->as.attr.name.text;
    TExpr *r = sema_check_fn_call(c, e, module, attr);
    return r ? r : no_function(c, e, module, attr);
  }
  if (fn->kind != EXPR_NAME) {
    Diag *d = diag_add(c->sink, E0104, fn->span, "this cannot be called in a kernel");
    const char *method = fn->kind == EXPR_ATTR ? fn->as.attr.name.text : "";
    if (strcmp(method, "to") == 0)
      diag_hint(c->sink, d, "f32(x) converts");
    else if (sema_is_word(method))
      diag_hint(c->sink, d, "it is a function: %s", as_function(c, e, method));
    return sema_texpr_error(c, e->span);
  }
  /* What the kernel declares hides functions and words of the same name. */
  Sym *s = sema_sym_find(c, fn->as.name);
  if (s)
    return call_symbol(c, e, s);
  TExpr *r = sema_check_fn_call(c, e, NULL, fn->as.name);
  return r ? r : builtin(c, e, fn->as.name);
}
