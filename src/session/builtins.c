/* builtins.c: the table of builtins, access to arguments, and the builtins about values.
 *
 * In: evaluated arguments. Out: values. Rows of builtins.def and the callable operations of ops.def
 * make one table; functions on tensors are in make.c, reduce.c, shape.c. Every misuse names the
 * call, the argument and what it was. Tests: tests/lang.
 */
#include "impl.h"

#include <inttypes.h>
#include <string.h>

/* The table -------------------------------------------------------------------------------- */

static const Builtin table[] = {
#define BUILTIN(name, fn, signature, doc) {name, builtin_##fn, OP_NONE, signature, doc},
#include "builtins.def"
#undef BUILTIN
#define PURE(E, name, arity, rule, acc, cuda, doc) {name, NULL, OP_##E, NULL, doc},
#define REDUCE(E, name, rule, doc)
#define ATOMIC(E, name, doc)
#define THREAD(E, name, sig, effects, arch, doc)
#include "ops/ops.def"
#undef PURE
#undef REDUCE
#undef ATOMIC
#undef THREAD
};

enum { COUNT = sizeof table / sizeof *table };

/* Rows of ops.def that are operators or belong to threads have no name on the host. */
static bool callable(const Builtin *b) {
  return b->fn || sema_builtin(b->name) == b->op;
}

/* Linear: some ninety short names, looked for only when no variable has the name. */
const Builtin *builtin_find(const char *name) {
  for (size_t i = 0; i < COUNT; i++)
    if (strcmp(table[i].name, name) == 0 && callable(&table[i]))
      return &table[i];
  return NULL;
}

const char *builtin_name(const Builtin *b) {
  return b->name;
}

/* For completion and for "did you mean": the callable rows in the order of the table. */
const Builtin *builtin_at(size_t i) {
  for (size_t k = 0; k < COUNT; k++)
    if (callable(&table[k]) && i-- == 0)
      return &table[k];
  return NULL;
}

/* Rows without a function of their own are elementwise operations with as many operands as their
 * row says. */
Value builtin_call(const Builtin *b, Args *a) {
  if (b->fn)
    return b->fn(a);
  size_t arity = (size_t)op_info(b->op)->arity;
  args_names(a, NULL, 0);
  args_count(a, arity, arity);
  return arith_apply(a->s, &(Operation){b->op, b->name, a->span, a->spans}, a->v, (int)arity);
}

/* Arguments -------------------------------------------------------------------------------- */

/* The signature of the row is the hint: it shows what was forgotten. */
void args_count(const Args *a, size_t least, size_t most) {
  if (a->npos >= least && a->npos <= most)
    return;
  const Builtin *b = builtin_find(a->name);
  const char *hint = b && b->signature ? b->signature : NULL;
  if (least == most)
    host_fail_hint(a->s, E0804, a->span, hint, "%s takes %zu argument%s, not %zu", a->name, least,
                   least == 1 ? "" : "s", a->npos);
  host_fail_hint(a->s, E0804, a->span, hint, "%s takes %s%zu argument%s, not %zu", a->name,
                 a->npos < least ? "at least " : "at most ", a->npos < least ? least : most,
                 (a->npos < least ? least : most) == 1 ? "" : "s", a->npos);
}

/* Refuses every named argument that is not in the list; NULL and 0 refuse all. */
void args_names(const Args *a, const char *const *allowed, size_t n) {
  for (size_t i = a->npos; i < a->n; i++) {
    size_t k = 0;
    while (k < n && strcmp(allowed[k], a->names[i]) != 0)
      k++;
    if (k < n)
      continue;
    const char *near = names_closest(a->names[i], allowed, n);
    const Builtin *b = builtin_find(a->name);
    const char *hint = near                ? arena_printf(a->s->line, "did you mean %s?", near)
                       : b && b->signature ? b->signature
                                           : NULL;
    bool written = a->call && a->call->kind == EXPR_CALL && i < a->call->as.call.args.n;
    host_fail_hint(a->s, E0804, written ? a->call->as.call.args.v[i].name_span : a->spans[i], hint,
                   "%s has no argument named %s", a->name, a->names[i]);
  }
}

/* SIZE_MAX: not given. Names come after the positional arguments and never twice (parser.h). */
static size_t named_at(const Args *a, const char *name) {
  for (size_t i = a->npos; i < a->n; i++)
    if (strcmp(a->names[i], name) == 0)
      return i;
  return SIZE_MAX;
}

/* For arguments that need more than one of the typed readers below. */
const Value *args_named(const Args *a, const char *name) {
  size_t i = named_at(a, name);
  return i == SIZE_MAX ? NULL : &a->v[i];
}

/* The whole call stands in for an argument that was not given. */
Span args_span(const Args *a, size_t i) {
  return i < a->n ? a->spans[i] : a->span;
}

/* The one place where data comes back from a device: whoever reads elements asks here first, so
 * a fault of a queued call is reported at the latest here. */
Tensor *host_tensor(Session *s, Value v, Span span, const char *what) {
  if (v.kind != VAL_TENSOR)
    host_fail_hint(s, E0801, span,
                   v.kind == VAL_LIST ? "tensor(f32, [...]) makes a tensor of a list" : NULL,
                   "%s must be a tensor, not %s", what, val_describe(s, v));
  Str why = session_str(s);
  if (device_settle(s, v.as.tensor, &why))
    return v.as.tensor;
  diag_add(&s->diags, E0420, span, "%s", str_text(&why));
  host_fail_with(s, device_fetch_status(v.as.tensor));
}

/* The argument is numbered from 1 in messages. */
Tensor *args_tensor(const Args *a, size_t i) {
  const char *what = arena_printf(session_scratch(a->s), "argument %zu of %s", i + 1, a->name);
  return host_tensor(a->s, a->v[i], a->spans[i], what);
}

/* A tensor of rank 0 counts as its element; a bool or float does not become an int by itself. */
int64_t host_int(Session *s, Value v, Span span, const char *what) {
  if (v.kind == VAL_TENSOR && tensor_count(v.as.tensor) == 1 && v.as.tensor->rank == 0)
    v = val_scalar(tensor_get(host_tensor(s, v, span, what), NULL), false);
  if (v.kind != VAL_INT)
    host_fail(s, E0801, span, "%s must be an int, not %s", what, val_describe(s, v));
  if (v.big)
    host_fail(s, E0811, span, "%s is too large: %" PRIu64, what, v.as.u);
  return v.as.i;
}

/* Numbered from 1 in the message, as people count arguments. */
int64_t args_int(const Args *a, size_t i) {
  const char *what = arena_printf(session_scratch(a->s), "argument %zu of %s", i + 1, a->name);
  return host_int(a->s, a->v[i], a->spans[i], what);
}

/* The dtype that a name of NumPy's means, or what to do without one; or NULL. */
static const char *dtype_hint(Session *s, const char *name) {
  const char *meant = sema_foreign_dtype(name);
  if (sema_later_dtype(name))
    return sema_later_dtype(name);
  return meant ? arena_printf(s->line, "did you mean \"%s\"?", meant) : NULL;
}

/* The dtype is first everywhere, so a call that begins with an extent is told so. */
DType args_dtype(const Args *a, size_t i) {
  if (a->v[i].kind == VAL_DTYPE)
    return a->v[i].as.dtype;
  bool method = strcmp(a->name, "to") == 0;
  if (!a->call && a->v[i].kind == VAL_STRING) /* Lua names dtypes by strings */
    host_fail_hint(a->s, E0801, a->spans[i], dtype_hint(a->s, val_text(a->v[i])),
                   "\"%s\" is not a dtype", val_text(a->v[i]));
  host_fail_hint(
      a->s, E0801, a->spans[i], method ? "x.to(f16)" : "a dtype comes first: zeros(f32, 3, 4)",
      "argument %zu of %s must be a dtype, not %s", i + 1, a->name, val_describe(a->s, a->v[i]));
}

/* Ints are taken too: rtol = 0 is common. */
double args_number_named(const Args *a, const char *name, double otherwise) {
  size_t i = named_at(a, name);
  if (i == SIZE_MAX)
    return otherwise;
  if (!val_is_number(a->v[i]))
    host_fail(a->s, E0801, a->spans[i], "%s must be a number, not %s", name,
              val_describe(a->s, a->v[i]));
  return scalar_convert(val_to_scalar(a->v[i]), DT_F64).as.f;
}

/* keepdims = 1 is refused: a bool is a bool. */
bool args_bool_named(const Args *a, const char *name, bool otherwise) {
  size_t i = named_at(a, name);
  if (i == SIZE_MAX)
    return otherwise;
  if (a->v[i].kind != VAL_BOOL)
    host_fail(a->s, E0801, a->spans[i], "%s must be a bool, not %s", name,
              val_describe(a->s, a->v[i]));
  return a->v[i].as.b;
}

/* False, and *out as it was, where it is not given. */
bool args_int_named(const Args *a, const char *name, int64_t *out) {
  size_t i = named_at(a, name);
  if (i == SIZE_MAX)
    return false;
  *out = host_int(a->s, a->v[i], a->spans[i], name);
  return true;
}

/* zeros(f32, 3, 4) and zeros(f32, x.shape) alike. */
int args_extents(const Args *a, size_t i, int64_t *extent) {
  const Value *v = a->v + i;
  size_t n = a->npos - i;
  if (n == 1 && val_is_sequence(*v)) {
    n = v->as.obj->as.list.n;
    v = v->as.obj->as.list.v;
  }
  if (n > TENSOR_MAX_RANK)
    host_fail(a->s, E0807, a->span, "a tensor has at most %d axes, not %zu", TENSOR_MAX_RANK, n);
  for (size_t k = 0; k < n; k++)
    extent[k] = host_int(a->s, v[k], args_span(a, i + k < a->npos ? i + k : i), "an extent");
  return (int)n;
}

/* Takes over the reference, or fails with the words that making it left in why. */
Value host_new_tensor(Session *s, Tensor *t, const Str *why, Span span) {
  if (!t)
    host_fail(s, E0807, span, "%s", str_text(why));
  return val_tensor(s, t);
}

/* Values ----------------------------------------------------------------------------------- */

/* A tensor starts on a line of its own, below its header; other values share a line, parted by
 * blanks. */
Value builtin_print(Args *a) {
  Session *s = a->s;
  Str out = session_str(s);
  bool line = true; /* at the start of a line */
  args_names(a, NULL, 0);
  for (size_t i = 0; i < a->n; i++) {
    bool tensor = a->v[i].kind == VAL_TENSOR;
    if (tensor)
      args_tensor(a, i);
    if (!line)
      str_addc(&out, tensor ? '\n' : ' ');
    val_print(s, a->v[i], false, &out);
    line = tensor && i + 1 < a->n;
    if (line)
      str_addc(&out, '\n');
  }
  str_addc(&out, '\n');
  session_print(s, &out);
  return val_nil();
}

/* A tensor has the length of its first axis: what a loop over it would count. */
Value builtin_len(Args *a) {
  args_names(a, NULL, 0);
  args_count(a, 1, 1);
  Value v = a->v[0];
  if (v.kind == VAL_STRING)
    return val_int((int64_t)v.as.obj->as.string.n);
  if (host_has_length(v))
    return val_int((int64_t)host_length(v));
  host_fail(a->s, E0801, a->spans[0], "%s has no length", val_describe(a->s, v));
}

/* The same text as print shows. */
Value builtin_str(Args *a) {
  args_names(a, NULL, 0);
  args_count(a, 1, 1);
  if (a->v[0].kind == VAL_TENSOR)
    args_tensor(a, 0);
  Str out = session_str(a->s);
  val_print(a->s, a->v[0], false, &out);
  return val_string(a->s, str_text(&out), out.n);
}

/* The number a string spells, blanks around it allowed. */
static double number_in(Args *a) {
  const char *text = val_text(a->v[0]), *end;
  size_t n = a->v[0].as.obj->as.string.n;
  while (*text == ' ' || *text == '\t' || *text == '\n')
    text++;
  double x = str_read_f64(text, &end);
  bool any = end != text;
  while (*end == ' ' || *end == '\t' || *end == '\n')
    end++;
  if (!any || end != val_text(a->v[0]) + n)
    host_fail(a->s, E0801, a->spans[0], "the string does not hold a number");
  return x;
}

/* Decimal digits with a sign, nothing else; false also where the number does not fit. */
static bool int_in(const char *text, int64_t *out) {
  bool minus = *text == '-';
  uint64_t u = 0;
  text += *text == '-' || *text == '+';
  const char *first = text;
  for (; *text >= '0' && *text <= '9'; text++)
    if (__builtin_mul_overflow(u, 10, &u) || __builtin_add_overflow(u, (uint64_t)(*text - '0'), &u))
      return false;
  if (text == first || *text || u > (uint64_t)INT64_MAX + minus)
    return false;
  *out = minus ? (int64_t)(0 - u) : (int64_t)u;
  return true;
}

/* A tensor of one element counts as that element, whatever its rank. */
static Value only_scalar(Args *a) {
  args_names(a, NULL, 0);
  args_count(a, 1, 1);
  Value v = a->v[0];
  if (v.kind == VAL_TENSOR && tensor_count(v.as.tensor) == 1) {
    const int64_t first[TENSOR_MAX_RANK] = {0};
    return val_scalar(tensor_get(args_tensor(a, 0), first), false);
  }
  if (!val_is_scalar(v) && v.kind != VAL_STRING)
    host_fail(a->s, E0801, a->spans[0], "%s does not take %s", a->name, val_describe(a->s, v));
  return v;
}

/* Truncates as a conversion does, but says so where a float has no int: on the host nobody asked
 * for saturation. */
Value builtin_int(Args *a) {
  Value v = only_scalar(a);
  int64_t i = 0;
  if (v.kind == VAL_STRING) {
    if (!int_in(val_text(v), &i))
      host_fail(a->s, E0801, a->spans[0], "the string does not hold an int");
    return val_int(i);
  }
  if (v.kind == VAL_INT)
    return val_uint(v.as.u).big && v.big ? val_uint(v.as.u) : val_int(v.as.i);
  return val_int(scalar_convert(val_to_scalar(v), DT_I64).as.i);
}

/* The dtype first, as in kernels. */
Value builtin_bitcast(Args *a) {
  args_names(a, NULL, 0);
  args_count(a, 2, 2);
  return arith_bitcast(a->s, a->v[1], args_dtype(a, 0), a->span, a->spans[1]);
}

/* Strings are read independently of the locale. */
Value builtin_float(Args *a) {
  Value v = only_scalar(a);
  if (v.kind == VAL_STRING)
    return val_float(number_in(a));
  return val_float(scalar_convert(val_to_scalar(v), DT_F64).as.f);
}

/* For timing pieces of a program; `bench` is better at kernels. */
Value builtin_time(Args *a) {
  args_names(a, NULL, 0);
  args_count(a, 0, 0);
  return val_float(base_now());
}

/* Draws are counted from here: the n-th call after seed(k) gives the same numbers for ever. */
Value builtin_seed(Args *a) {
  args_names(a, NULL, 0);
  args_count(a, 1, 1);
  a->s->random.seed = (uint64_t)args_int(a, 0);
  a->s->random.draw = 0;
  return val_nil();
}

/* Tensors stay where they are and move when they must. */
Value builtin_use_device(Args *a) {
  args_names(a, NULL, 0);
  args_count(a, 1, 1);
  if (a->v[0].kind != VAL_STRING)
    host_fail(a->s, E0801, a->spans[0], "use_device takes a string such as \"cpu\"");
  device_use(a->s, val_text(a->v[0]), a->spans[0]);
  return val_nil();
}
