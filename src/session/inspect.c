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
  ParseStatus status;
  AstFile *f = session_parse(s, "<type>", j->text, j->n, true, &status);
  if (status == PARSE_PENDING)
    host_fail(s, E0801, f->body.span, "the expression is not finished");
  if (status != PARSE_OK)
    host_fail_with(s, ST_COMPILE);
  if (f->body.n != 1 || f->body.v[0]->kind != STMT_EXPR)
    host_fail(s, E0801, f->body.span, "an expression is wanted");
  describe(s, host_eval(s, f->body.v[0]->as.expr), j->out);
}

/* Errors are in session_diags, as after a run. */
Status session_type_of(Session *s, const char *text, size_t n, Str *out) {
  session_begin(s);
  Job j = {text, n, out};
  return session_protect(s, type_of, &j);
}

/* The header of a kernel or function as it was written, and its comment. */
static void add_definition(Span header, const char *doc, Str *out) {
  if (header.file)
    str_addn(out, header.file->text + header.begin, header.end - header.begin);
  while (out->n && out->s[out->n - 1] == ' ')
    out->n--;
  str_addf(out, "\n%s%s", doc ? doc : "", doc ? "\n" : "");
}

/* Definitions of the program come before builtins, as in a lookup. */
bool session_help(Session *s, const char *name, Str *out) {
  const Value *v = host_global(s->main, names_get(s->names, name, strlen(name)));
  if (v && v->kind == VAL_FN) {
    add_definition(v->as.obj->as.fn.ast->header, v->as.obj->as.fn.doc, out);
    return true;
  }
  if (v && v->kind == VAL_KERNEL && v->as.obj->as.kernel.ast) {
    add_definition(v->as.obj->as.kernel.ast->header, v->as.obj->as.kernel.doc, out);
    return true;
  }
  const Builtin *b = builtin_find(name);
  if (!b)
    return false;
  static const char *const args[] = {"", "x", "x, y", "x, y, z"};
  if (b->signature)
    str_addf(out, "%s\n%s\n", b->signature, b->doc);
  else
    str_addf(out, "%s(%s)\n%s\n", b->name, args[op_info(b->op)->arity], b->doc);
  return true;
}

/* A name may come twice where a global hides a builtin; the editor drops doubles. */
void session_complete(Session *s, const char *prefix, void (*fn)(void *ctx, const char *name),
                      void *ctx) {
  size_t n = strlen(prefix);
  for (size_t i = 0; i < map_count(s->main->globals); i++)
    if (strncmp(map_key(s->main->globals, i), prefix, n) == 0)
      fn(ctx, map_key(s->main->globals, i));
  for (size_t i = 0; builtin_at(i); i++)
    if (strncmp(builtin_at(i)->name, prefix, n) == 0)
      fn(ctx, builtin_at(i)->name);
  for (int t = 0; t < DT_COUNT; t++)
    if (strncmp(dtype_name((DType)t), prefix, n) == 0)
      fn(ctx, dtype_name((DType)t));
  for (int k = 0; k < T_COUNT; k++) {
    const char *word = lex_spelling((TokenKind)k);
    if (word && lex_word(word, strlen(word)) != T_NAME && strncmp(word, prefix, n) == 0)
      fn(ctx, word);
  }
}
