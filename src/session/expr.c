/* expr.c: the expressions of host programs.
 *
 * In: expressions of the syntax tree. Out: values, kept by the session's temporaries until their
 * statement ends. Only the chosen side of `x if c else y`, `and`, `or` is evaluated. Operators on
 * values are arith.c's, indexing index.c's, calls of functions function.c's, of kernels call.c's.
 * Tests: tests/lang/host_*.tile.
 */
#include "impl.h"

#include <string.h>

/* Leaves ----------------------------------------------------------------------------------- */

/* Values and modules of other languages. */
static const char *foreign_name(const char *name) {
  static const NamePair as[] = {{"True", "write true"},
                                {"False", "write false"},
                                {"null", "write nil"},
                                {"NULL", "write nil"},
                                {"cpu", "devices are named by strings: use_device(\"cpu\")"},
                                {"cuda", "devices are named by strings: use_device(\"cuda\")"},
                                {"exit", "a program ends at its end; `assert` ends it early"},
                                {"input", "args holds the arguments of the program"},
                                {"map", "for x in l { … } goes through a list"},
                                {"dict", "lists and tensors are what there is: [1, 2]"}};
  static const char *const modules[] = {"np", "numpy", "torch", "tl", "T", "math", "cp", "jnp"};
  for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
    if (strcmp(name, modules[i]) == 0)
      return "functions stand without a module: zeros(f32, 3, 4), exp(x)";
  return names_here(name, as, sizeof as / sizeof *as);
}

/* Everything that the name could have been is a candidate: locals of this function, globals of
 * its file, builtins, dtypes. */
static _Noreturn void unknown_name(Session *s, const char *name, Span span) {
  VEC(const char *) known = {0};
  Arena *a = s->line;
  for (size_t i = s->vars.n; i-- > s->frame;)
    VEC_PUSH(a, &known, s->vars.v[i].name);
  for (size_t i = 0; i < map_count(s->module->globals); i++)
    VEC_PUSH(a, &known, map_key(s->module->globals, i));
  for (size_t i = 0; builtin_at(i); i++)
    VEC_PUSH(a, &known, builtin_at(i)->name);
  for (int t = 0; t < DT_COUNT; t++)
    VEC_PUSH(a, &known, dtype_name((DType)t));
  const char *near = names_closest(name, known.v, known.n), *doc, *type = sema_foreign_dtype(name);
  const char *hint = sema_later_dtype(name) ? sema_later_dtype(name) : foreign_name(name);
  if (!hint && (type || near))
    hint = arena_printf(a, "did you mean %s?", type ? type : near);
  Str form = session_str(s);
  if (session_signature(s, name, &form, &doc)) /* there is such a word, elsewhere */
    hint = arena_printf(a, "in kernels: %s", str_text(&form));
  host_fail_hint(s, E0800, span, hint, "nothing is named %s", name);
}

/* Names that are neither variables nor builtins: the session's own values. */
static bool special_name(Session *s, const char *name, Value *out) {
  if (strcmp(name, "_") == 0 && s->prompt) {
    *out = val_keep(s, s->last);
    return true;
  }
  if (strcmp(name, "args") == 0) {
    *out = val_list(s, NULL, 0);
    for (size_t i = 0; i < s->options.nargs; i++)
      val_push(s, out->as.obj, val_string(s, s->options.args[i], strlen(s->options.args[i])));
    return true;
  }
  DType t;
  if (!dtype_parse(name, strlen(name), &t))
    return false;
  *out = val_dtype(t);
  return true;
}

/* Innermost first: a variable hides a builtin of its name, and a dtype's name is looked at last. */
static Value eval_name(Session *s, const AstExpr *e) {
  Value *place = host_lookup(s, e->as.name), out;
  if (place)
    return val_keep(s, *place);
  const Builtin *b = builtin_find(e->as.name);
  if (b)
    return (Value){.kind = VAL_BUILTIN, .typed = DT_NONE, .as.builtin = b};
  if (special_name(s, e->as.name, &out))
    return out;
  unknown_name(s, e->as.name, e->span);
}

/* Elements are evaluated from left to right. */
static Value eval_sequence(Session *s, const AstExpr *e) {
  size_t n = e->as.list.n;
  Value *v = ARENA_ARRAY(session_scratch(s), Value, n);
  for (size_t i = 0; i < n; i++)
    v[i] = host_eval(s, e->as.list.v[i]);
  return e->kind == EXPR_TUPLE ? val_tuple(s, v, n) : val_list(s, v, n);
}

/* Operators -------------------------------------------------------------------------------- */

/* -9223372036854775808 is an int, though its digits alone are not. */
static bool least_int(const AstExpr *e) {
  const AstExpr *x = e->as.unary.x;
  return e->as.unary.op == AST_NEG && x->kind == EXPR_INT &&
         x->as.integer == (uint64_t)INT64_MAX + 1;
}

/* `not` is lazy logic on one bool; the others are arithmetic. */
static Value eval_unary(Session *s, const AstExpr *e) {
  if (least_int(e))
    return val_int(INT64_MIN);
  if (e->as.unary.op == AST_NOT)
    return val_bool(!host_condition(s, e->as.unary.x));
  Value x = host_eval(s, e->as.unary.x);
  return arith_unary(s, e->as.unary.op, x, e->span, e->as.unary.x->span);
}

/* `and` and `or` look at their right side only where the left does not decide. */
static Value eval_binary(Session *s, const AstExpr *e) {
  AstOp op = e->as.binary.op;
  if (op == AST_AND || op == AST_OR) {
    bool x = host_condition(s, e->as.binary.x);
    return val_bool(op == AST_AND ? x && host_condition(s, e->as.binary.y)
                                  : x || host_condition(s, e->as.binary.y));
  }
  const Span where[] = {e->as.binary.x->span, e->as.binary.y->span};
  Value x = host_eval(s, e->as.binary.x);
  Value y = host_eval(s, e->as.binary.y);
  if (op == AST_MATMUL)
    return arith_product(s, x, y, e->span, where);
  return arith_binary(s, op, x, y, e->span, where);
}

/* v gets the operands that were evaluated, for assert's message; those after the first false
 * comparison are not. */
Value host_compare_chain(Session *s, const AstExpr *e, Value *v) {
  Value out = val_bool(true);
  size_t n = e->as.compare.n;
  v[0] = host_eval(s, e->as.compare.x[0]);
  for (size_t i = 0; i < n; i++) {
    const Span where[] = {e->as.compare.x[i]->span, e->as.compare.x[i + 1]->span};
    v[i + 1] = host_eval(s, e->as.compare.x[i + 1]);
    out = arith_compare(s, e->as.compare.ops[i], v[i], v[i + 1], e->span, where);
    if (out.kind == VAL_TENSOR && n > 1)
      host_fail_hint(s, E0801, e->span, "(a < b) & (b < c)", "comparisons of tensors do not chain");
    if (out.kind == VAL_BOOL && !out.as.b)
      break; /* the rest is not evaluated, as in Python */
  }
  return out;
}

/* A chain of n operators has n + 1 operands, each evaluated at most once. */
static Value eval_compare(Session *s, const AstExpr *e) {
  Value *v = ARENA_ARRAY(session_scratch(s), Value, e->as.compare.n + 1);
  return host_compare_chain(s, e, v);
}

/* Attributes ------------------------------------------------------------------------------- */

/* A tuple, so that zeros(f32, x.shape) and comparisons with == work. */
static Value shape_of(Session *s, const Tensor *t) {
  Value v[TENSOR_MAX_RANK];
  for (int a = 0; a < t->rank; a++)
    v[a] = val_int(t->extent[a]);
  return val_tuple(s, v, (size_t)t->rank);
}

/* Members that tensors have in NumPy and PyTorch, as the language writes them. */
static const char *foreign_member(const char *name) {
  static const NamePair as[] = {{"astype", "x.to(f16) converts"},
                                {"type", "x.to(f16) converts"},
                                {"half", "x.to(f16) converts"},
                                {"float", "x.to(f32) converts"},
                                {"double", "x.to(f64) converts"},
                                {"item", "an element is x[0], of two axes x[0, 0]"},
                                {"numel", "x.size is the number of elements"},
                                {"ndim", "x.rank is the number of axes"},
                                {"dim", "x.rank is the number of axes"},
                                {"copy", "x.to(x.dtype) copies"},
                                {"clone", "x.to(x.dtype) copies"},
                                {"view", "reshape(x, 2, 3), or reshape(x, 6)"},
                                {"cuda", "use_device(\"cuda\") moves what kernels need"},
                                {"cpu", "the host reads any tensor as it is"},
                                {"numpy", "save(\"x.npy\", x) writes a file for NumPy"}};
  return names_here(name, as, sizeof as / sizeof *as);
}

/* What stands for a method that lists or strings have elsewhere. */
static const char *other_member(ValueKind kind, const char *name) {
  if (kind == VAL_LIST && (strcmp(name, "append") == 0 || strcmp(name, "push") == 0))
    return "l += [4] makes a list longer";
  if (kind == VAL_LIST || kind == VAL_TUPLE || kind == VAL_STRING)
    return strcmp(name, "size") == 0 || strcmp(name, "length") == 0 ? "len(l) counts" : NULL;
  return NULL;
}

/* Says what there is: the mistake is mostly a method of NumPy's that is a function here. */
static _Noreturn void no_attribute(Session *s, const AstExpr *e, Value base) {
  static const char *const tensors[] = {"T", "shape", "dtype", "to", "rank", "size"};
  const AstName *name = &e->as.attr.name;
  const char *near = NULL;
  if (base.kind == VAL_TENSOR)
    near = names_closest(name->text, tensors, sizeof tensors / sizeof *tensors);
  const char *hint = base.kind == VAL_TENSOR ? "a tensor has .T .shape .dtype .to(dtype)"
                                             : other_member(base.kind, name->text);
  const char *other = base.kind == VAL_TENSOR ? foreign_member(name->text) : NULL;
  if (other || near)
    hint = other ? other : arena_printf(s->line, "did you mean .%s?", near);
  const Builtin *fn = base.kind == VAL_TENSOR ? builtin_find(name->text) : NULL;
  if (fn) /* a method of NumPy's */
    hint = arena_printf(s->line, "it is a function: %s", fn->signature ? fn->signature : fn->name);
  host_fail_hint(s, E0814, name->span, hint, "%s has no .%s", val_describe(s, base), name->text);
}

/* False: not an attribute of tensors. rank and size are extras that cost nothing. */
bool host_attribute(Session *s, Tensor *t, const char *name, Span span, Value *out) {
  Str why = session_str(s);
  if (strcmp(name, "T") == 0)
    *out = host_new_tensor(s, tensor_swap_last(t, &why), &why, span);
  else if (strcmp(name, "shape") == 0)
    *out = shape_of(s, t);
  else if (strcmp(name, "dtype") == 0)
    *out = val_dtype(t->dtype);
  else if (strcmp(name, "rank") == 0)
    *out = val_int(t->rank);
  else if (strcmp(name, "size") == 0)
    *out = val_int(tensor_count(t));
  else
    return false;
  return true;
}

/* Tensors, records of check and bench, modules; nothing else has attributes. */
static Value eval_attribute(Session *s, const AstExpr *e) {
  Value base = host_eval(s, e->as.attr.base), out;
  const AstName *name = &e->as.attr.name;
  if (base.kind == VAL_TENSOR && host_attribute(s, base.as.tensor, name->text, e->span, &out))
    return out;
  if (base.kind == VAL_FOREIGN) {
    Object *o = base.as.obj;
    out = o->as.foreign.ops->attribute(s, o->as.foreign.handle, name->text, e->span);
    if (out.kind != VAL_NIL)
      return out;
  }
  if (base.kind == VAL_RECORD)
    for (size_t i = 0; i < base.as.obj->as.record.n; i++)
      if (base.as.obj->as.record.v[i].name == name->text)
        return val_keep(s, base.as.obj->as.record.v[i].value);
  if (base.kind == VAL_MODULE) {
    Value *place = host_global(base.as.obj->as.module, name->text);
    if (place)
      return val_keep(s, *place);
  }
  no_attribute(s, e, base);
}

/* Calls ------------------------------------------------------------------------------------ */

/* Arguments are evaluated from left to right, before anything of the call happens. */
static void eval_args(Session *s, const AstExpr *call, Args *a) {
  const AstArgs *args = &call->as.call.args;
  a->s = s;
  a->span = call->span;
  a->call = call;
  a->n = args->n;
  a->npos = args->npos;
  for (size_t i = 0; i < args->n; i++) {
    a->v[i] = host_eval(s, args->v[i].value);
    a->names[i] = args->v[i].name;
    a->spans[i] = args->v[i].value->span;
  }
}

void host_eval_args(Session *s, const AstExpr *call, Args *a) {
  size_t n = call->as.call.args.n;
  Arena *scratch = session_scratch(s);
  a->v = ARENA_ARRAY(scratch, Value, n);
  a->names = ARENA_ARRAY(scratch, const char *, n);
  a->spans = ARENA_ARRAY(scratch, Span, n);
  eval_args(s, call, a);
}

/* `x.to(d)`, the one method of the language. */
static bool eval_method(Session *s, const AstExpr *e, Value *out) {
  const AstExpr *fn = e->as.call.fn;
  if (fn->kind != EXPR_ATTR || strcmp(fn->as.attr.name.text, "to") != 0)
    return false;
  Value base = host_eval(s, fn->as.attr.base);
  if (base.kind != VAL_TENSOR)
    no_attribute(s, fn, base);
  Args a = {.name = "to"};
  host_eval_args(s, e, &a);
  args_count(&a, 1, 1);
  Tensor *t = host_tensor(s, base, fn->span, "what .to converts");
  *out = host_cast(s, t, args_dtype(&a, 0), e->span);
  return true;
}

/* The function is evaluated before its arguments, so an unknown name is reported first. A few
 * arguments lie on the stack: a warm call of a kernel then needs no scratch memory. */
static Value eval_call(Session *s, const AstExpr *e) {
  enum { FEW = 4 };
  Value out, v[FEW];
  const char *names[FEW];
  Span spans[FEW];
  if (eval_method(s, e, &out))
    return out;
  Value fn = host_eval(s, e->as.call.fn);
  Args a = {.name = "it", .v = v, .names = names, .spans = spans};
  if (e->as.call.args.n <= FEW)
    eval_args(s, e, &a);
  else
    host_eval_args(s, e, &a);
  return host_call(s, fn, &a);
}

/* After `import softmax` the kernel is softmax.softmax. */
static const char *module_hint(Session *s, Value fn) {
  if (fn.kind != VAL_MODULE)
    return NULL;
  Module *m = fn.as.obj->as.module;
  bool own = host_global(m, names_get(s->names, m->name, strlen(m->name))) != NULL;
  return arena_printf(s->line, "%s.%s(...) calls what the module has", m->name,
                      own ? m->name : "NAME");
}

/* One case a kind of value that can be called. */
Value host_call(Session *s, Value fn, Args *a) {
  switch (fn.kind) {
  case VAL_BUILTIN:
    a->name = fn.as.builtin->name;
    return builtin_call(fn.as.builtin, a);
  case VAL_DTYPE:
    a->name = dtype_name(fn.as.dtype);
    args_count(a, 1, 1);
    args_names(a, NULL, 0);
    return arith_cast(s, a->v[0], fn.as.dtype, args_span(a, 0));
  case VAL_FN:
    a->name = fn.as.obj->as.fn.ast->name.text;
    return host_call_fn(s, fn, a);
  case VAL_KERNEL:
    return kernel_call(s, fn, a);
  case VAL_FOREIGN:
    return fn.as.obj->as.foreign.ops->call(s, fn.as.obj->as.foreign.handle, a);
  default:
    host_fail_hint(s, E0805, a->call ? a->call->as.call.fn->span : a->span, module_hint(s, fn),
                   "%s cannot be called", val_describe(s, fn));
  }
}

/* All -------------------------------------------------------------------------------------- */

/* The kinds that recurse; the C stack is looked at once for each of them. */
static Value eval_rest(Session *s, const AstExpr *e) {
  switch (e->kind) {
  case EXPR_UNARY:
    return eval_unary(s, e);
  case EXPR_BINARY:
    return eval_binary(s, e);
  case EXPR_COMPARE:
    return eval_compare(s, e);
  case EXPR_COND:
    return host_eval(s, host_condition(s, e->as.cond.cond) ? e->as.cond.then : e->as.cond.other);
  case EXPR_CALL:
    return eval_call(s, e);
  case EXPR_INDEX:
    return index_get(s, e, host_eval(s, e->as.index.base));
  case EXPR_SPECIALIZE:
    return kernel_specialize(s, host_eval(s, e->as.call.fn), e);
  case EXPR_ATTR:
    return eval_attribute(s, e);
  case EXPR_TUPLE:
  case EXPR_LIST:
    return eval_sequence(s, e);
  case EXPR_BENCH:
    return kernel_bench(s, e->as.run, true);
  case EXPR_CHECK:
    return kernel_check(s, e->as.run, true);
  default: /* what only kernels have, and the parser lets stand nowhere else */
    return val_nil();
  }
}

/* Marks a number as written in the program: it adapts to the type it meets, where a computed one
 * must fit. */
static Value literal(Value v) {
  v.literal = true;
  return v;
}

/* Leaves are answered here, without a look at the stack. */
Value host_eval(Session *s, const AstExpr *e) {
  switch (e->kind) {
  case EXPR_INT:
    return literal(val_uint(e->as.integer));
  case EXPR_FLOAT:
    return literal(val_float(e->as.number));
  case EXPR_BOOL:
    return val_bool(e->as.boolean);
  case EXPR_NIL:
    return val_nil();
  case EXPR_STRING:
    return val_string(s, e->as.string.s, e->as.string.n);
  case EXPR_NAME:
    return eval_name(s, e);
  default:
    session_stack(s, e->span);
    return eval_rest(s, e);
  }
}
