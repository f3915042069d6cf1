/* declare.c: kernels are checked when their text is read, before any of it runs.
 *
 * In: a file's tree, or a line of the prompt. Out: nothing, or every error of its kernels, and the
 * run ends there. A function may be defined later than the kernel that calls it: functions of the
 * same text count as there, and what an import or a `let` will bind is left to the first call,
 * which checks the kernel again with what is there then. Tests: tests/errors (name_*, type_*,
 * shape_* …), tests/unit/check_session.c.
 */
#include "kernel.h"

typedef struct Declared {
  const AstFile *file;
  Module *module; /* whose globals are there already */
  bool prompt;
  SemaScope scope;
} Declared;

static const AstFn *fn_of(const AstFile *f, const char *name) {
  for (size_t i = f->body.n; i-- > 0;)
    if (f->body.v[i]->kind == STMT_FN && f->body.v[i]->as.fn->name.text == name)
      return f->body.v[i]->as.fn;
  return NULL;
}

static SemaFn find_fn(void *ctx, const char *module, const char *name) {
  Declared *d = ctx;
  const AstFn *fn = module ? NULL : fn_of(d->file, name);
  if (fn)
    return (SemaFn){fn, &d->scope};
  return kernel_fn(d->module, module, name);
}

bool decls_have(const AstDecls *names, const char *name) {
  for (size_t i = 0; i < names->n; i++)
    if (names->v[i].name.text == name)
      return true;
  return false;
}

/* Whether running the text binds the name outside functions. */
static bool block_binds(const AstBlock *b, const char *name);

static bool stmt_binds(const AstStmt *s, const char *name) {
  switch (s->kind) {
  case STMT_LET:
    return decls_have(&s->as.let.names, name);
  case STMT_IMPORT:
    return s->as.import.name.text == name;
  case STMT_FN:
    return s->as.fn->name.text == name;
  case STMT_IF:
    for (size_t i = 0; i < s->as.branch.n; i++)
      if (block_binds(&s->as.branch.arms[i].body, name))
        return true;
    return s->as.branch.has_other && block_binds(&s->as.branch.other, name);
  case STMT_FOR:
    return block_binds(&s->as.loop.body, name);
  default:
    return false;
  }
}

static bool block_binds(const AstBlock *b, const char *name) {
  for (size_t i = 0; i < b->n; i++)
    if (stmt_binds(b->v[i], name))
      return true;
  return false;
}

/* At the prompt the next line may define it. */
static bool comes_later(void *ctx, const char *module, const char *name) {
  const Declared *d = ctx;
  return d->prompt || block_binds(&d->file->body, module ? module : name);
}

static const char *visible_name(void *ctx, size_t n) {
  const Declared *d = ctx;
  for (size_t i = 0; i < d->file->body.n; i++)
    if (d->file->body.v[i]->kind == STMT_FN && n-- == 0)
      return d->file->body.v[i]->as.fn->name.text;
  return kernel_visible_name(d->module, n);
}

void kernels_declare(Session *s, const AstFile *f, Module *m) {
  Declared d = {f, m, s->prompt, {NULL, NULL, NULL, NULL}};
  size_t errors = s->diags.errors;
  d.scope = (SemaScope){&d, find_fn, visible_name, comes_later};
  for (size_t i = 0; i < f->body.n; i++)
    if (f->body.v[i]->kind == STMT_KERNEL) {
      device_expect(s);
      sema_declare(s->line, f->body.v[i]->as.kernel, &d.scope, &s->diags);
    }
  if (s->diags.errors != errors)
    host_fail_with(s, ST_COMPILE);
}
