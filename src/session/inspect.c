/* inspect.c: looking at a session from outside: its globals, help, types, completion.
 *
 * In: names, prefixes, expressions. Out: text for the prompt. Tests: tests/unit/check_session.c.
 */
#include <string.h>

#include "kernel.h"

/* One line: kind or type, place of a tensor, value of a scalar. */
static void describe(Session *s, Value v, Str *out) {
  str_add(out, val_describe(s, v));
  if (v.kind == VAL_TENSOR) {
    const Storage *storage = v.as.tensor->storage;
    bool device = storage_on_device(storage) && storage_device(storage);
    str_addf(out, " on %s", device ? storage_device(storage)->name : "cpu");
  } else if (val_is_scalar(v) || v.kind == VAL_STRING || v.kind == VAL_DTYPE) {
    str_addc(out, ' ');
    val_print(s, v, true, out);
  }
}

/* An arena of its own: the caller may list while a run's diagnostics are still shown. */
void session_each_global(Session *s, void (*fn)(void *ctx, const char *name, const char *what),
                         void *ctx) {
  Arena *a = arena_new(NULL, "listing");
  for (size_t i = 0; i < map_count(s->main->globals); i++) {
    Str what = str_new(a);
    describe(s, *(Value *)map_value(s->main->globals, i), &what);
    fn(ctx, map_key(s->main->globals, i), str_text(&what));
  }
  arena_free(a);
}

typedef struct Job {
  const char *text;
  size_t n;
  Str *out;
} Job;

/* The expression is evaluated: types of host values are only known then. */
static void type_of(Session *s, void *ctx) {
  Job *j = ctx;
  describe(s, host_eval(s, session_expression(s, "<type>", j->text, j->n, "an expression", NULL)),
           j->out);
}

/* Errors are in session_diags, as after a run. */
Status session_type_of(Session *s, const char *text, size_t n, Str *out) {
  session_begin(s);
  Job j = {text, n, out};
  return session_protect(s, type_of, &j);
}

/* Help ----------------------------------------------------------------------------------------- */

typedef struct Form { /* a row of words.def */
  const char *name, *form, *doc;
} Form;

static const Form forms[] = {
#define FORM(name, form, doc) {name, form, doc},
#include "words.def"
#undef FORM
};
enum { FORMS = sizeof forms / sizeof *forms };

/* What only kernels call and ops.def has: reductions are on the host too. */
static const Form atomics[] = {
#define PURE(E, name, arity, rule, acc, cuda, doc)
#define REDUCE(E, name, rule, doc)
#define ATOMIC(E, name, doc) {name, name "(C[i, j], v)", "of an element: " doc},
#define THREAD(E, name, sig, effects, arch, doc)
#include "ops/ops.def"
#undef PURE
#undef REDUCE
#undef ATOMIC
#undef THREAD
};
enum { ATOMICS = sizeof atomics / sizeof *atomics };

static const Form *form_find(const char *name) {
  for (size_t i = 0; i < FORMS; i++)
    if (strcmp(forms[i].name, name) == 0)
      return &forms[i];
  for (size_t i = 0; i < ATOMICS; i++)
    if (strcmp(atomics[i].name, name) == 0)
      return &atomics[i];
  return NULL;
}

/* "f16: float of 16 bits" */
static bool dtype_help(const char *name, Str *out) {
  DType t;
  if (!dtype_parse(name, strlen(name), &t))
    return false;
  str_addf(out, "%s\na dtype: %s of %zu bits\n", name,
           t == DT_BOOL            ? "true or false"
           : dtype_is_float(t)     ? "float"
           : dtype_int_min(t) == 0 ? "unsigned integer"
                                   : "signed integer",
           8 * dtype_size(t));
  return true;
}

/* `name`, or `module.name` of something imported. */
static const Value *named(Session *s, const char *name) {
  const char *dot = strchr(name, '.');
  Module *m = s->main;
  if (dot) {
    const Value *v = host_global(m, names_get(s->names, name, (size_t)(dot - name)));
    if (!v || v->kind != VAL_MODULE)
      return NULL;
    m = v->as.obj->as.module;
    name = dot + 1;
  }
  return host_global(m, names_get(s->names, name, strlen(name)));
}

/* The header as it was written, on one line. */
static void add_header(Span header, Str *out) {
  bool blank = false;
  for (uint32_t i = header.begin; header.file && i < header.end; i++) {
    char c = header.file->text[i];
    bool white = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!white && blank)
      str_addc(out, ' ');
    if (!white)
      str_addc(out, c);
    blank = white;
  }
}

/* A kernel's or function's; false for other values. */
static bool add_definition(const Value *v, Str *out) {
  if (v->kind == VAL_FN)
    add_header(v->as.obj->as.fn.ast->header, out);
  else if (v->kind == VAL_KERNEL && v->as.obj->as.kernel.ast)
    add_header(v->as.obj->as.kernel.ast->header, out);
  else
    return false;
  return true;
}

static const char *doc_of(const Value *v) {
  return v->kind == VAL_FN ? v->as.obj->as.fn.doc : v->as.obj->as.kernel.doc;
}

/* A row of builtins.def, or an operation of ops.def by the number of its operands. */
static void add_builtin(const Builtin *b, Str *out) {
  static const char *const args[] = {"", "x", "x, y", "x, y, z"};
  if (b->signature)
    str_add(out, b->signature);
  else
    str_addf(out, "%s(%s)", b->name, args[op_info(b->op)->arity]);
}

/* Definitions of the program come before builtins, as in a lookup. */
bool session_signature(Session *s, const char *name, Str *out, const char **doc) {
  const Value *v = named(s, name);
  if (v && add_definition(v, out)) {
    *doc = doc_of(v);
    return true;
  }
  if (v)
    return false;
  const Builtin *b = builtin_find(name);
  const Form *f = b ? NULL : form_find(name);
  if (b)
    add_builtin(b, out);
  else if (f)
    str_add(out, f->form);
  else
    return false;
  *doc = b ? b->doc : f->doc;
  return true;
}

bool session_help(Session *s, const char *name, Str *out) {
  const char *doc = NULL;
  if (session_signature(s, name, out, &doc)) {
    str_addf(out, "\n%s%s", doc ? doc : "", doc ? "\n" : "");
    return true;
  }
  const Value *v = named(s, name);
  if (!v)
    return dtype_help(name, out);
  describe(s, *v, out);
  str_addc(out, '\n');
  return true;
}

/* :info ---------------------------------------------------------------------------------------- */

/* "defined at mm.tile:3" */
static void add_place(Span at, Str *out) {
  uint32_t line, column;
  if (!at.file)
    return;
  src_position(at.file, at.begin, &line, &column);
  str_addf(out, "\ndefined at %s:%u", at.file->name, line);
}

/* Bytes, and how the elements lie. */
static void add_tensor(const Tensor *t, Str *out) {
  str_addf(out, "\n%lld elements, %lld bytes, ", (long long)tensor_count(t),
           (long long)tensor_count(t) * (long long)dtype_size(t->dtype));
  if (tensor_is_contiguous(t)) {
    str_add(out, "row-major");
    return;
  }
  str_add(out, "a view with strides (");
  for (int i = 0; i < t->rank; i++)
    str_addf(out, i ? ", %lld" : "%lld", (long long)t->stride[i]);
  str_add(out, ")");
}

bool session_info(Session *s, const char *name, Str *out) {
  const Value *v = named(s, name);
  if (!v)
    return session_help(s, name, out);
  if (add_definition(v, out)) {
    const char *doc = doc_of(v);
    add_place(v->kind == VAL_FN ? v->as.obj->as.fn.ast->header : v->as.obj->as.kernel.ast->header,
              out);
    if (doc)
      str_addf(out, "\n%s", doc);
  } else {
    describe(s, *v, out);
    if (v->kind == VAL_TENSOR)
      add_tensor(v->as.tensor, out);
  }
  str_addc(out, '\n');
  return true;
}

/* Completion ----------------------------------------------------------------------------------- */

typedef struct Completion {
  const char *prefix;
  size_t n;
  void (*fn)(void *ctx, const char *name);
  void *ctx;
} Completion;

static void offer(const Completion *c, const char *name) {
  if (strncmp(name, c->prefix, c->n) == 0)
    c->fn(c->ctx, name);
}

/* `gemm.mat`: names of the module, written whole. */
static bool complete_module(Session *s, const Completion *c) {
  const char *dot = strchr(c->prefix, '.');
  char whole[256];
  if (!dot)
    return false;
  const Value *v = host_global(s->main, names_get(s->names, c->prefix, (size_t)(dot - c->prefix)));
  if (!v || v->kind != VAL_MODULE)
    return false;
  const Map *names = v->as.obj->as.module->globals;
  for (size_t i = 0; i < map_count(names); i++) {
    snprintf(whole, sizeof whole, "%.*s.%s", (int)(dot - c->prefix), c->prefix, map_key(names, i));
    offer(c, whole);
  }
  return true;
}

/* A name may come twice where a global hides a builtin; the editor drops doubles. */
void session_complete(Session *s, const char *prefix, void (*fn)(void *ctx, const char *name),
                      void *ctx) {
  Completion c = {prefix, strlen(prefix), fn, ctx};
  if (complete_module(s, &c))
    return;
  for (size_t i = 0; i < map_count(s->main->globals); i++)
    offer(&c, map_key(s->main->globals, i));
  for (size_t i = 0; builtin_at(i); i++)
    offer(&c, builtin_at(i)->name);
  for (size_t i = 0; i < FORMS; i++)
    offer(&c, forms[i].name);
  for (size_t i = 0; i < ATOMICS; i++)
    offer(&c, atomics[i].name);
  for (int t = 0; t < DT_COUNT; t++)
    offer(&c, dtype_name((DType)t));
  for (int k = 0; k < T_COUNT; k++) {
    const char *word = lex_spelling((TokenKind)k);
    if (word && lex_word(word, strlen(word)) != T_NAME)
      offer(&c, word);
  }
}
