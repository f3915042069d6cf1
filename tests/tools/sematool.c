/* sematool.c: checks the kernels of a file and prints their tile-level IR, without a session.
 *
 *   sematool [-n] [-s NAME=VALUE]… FILE      -n: only the definitions; -s: static extents
 *
 * For tests and for looking at what the builder makes; exit status 3 where a kernel has errors.
 */
#include "ir/build.h"

#include <string.h>

typedef struct Tool {
  Arena *arena;
  Names *names;
  DiagSink sink;
  const AstFile *file;
  SemaScope scope;
  const char **set;
  int nset;
} Tool;

static SemaFn find_fn(void *ctx, const char *module, const char *name) {
  const Tool *t = ctx;
  SemaFn none = {NULL, NULL};
  for (size_t i = 0; !module && i < t->file->body.n; i++) {
    const AstStmt *s = t->file->body.v[i];
    if (s->kind == STMT_FN && s->as.fn->name.text == name)
      return (SemaFn){s->as.fn, &t->scope};
  }
  return none;
}

static const char *fn_name(void *ctx, size_t n) {
  const Tool *t = ctx;
  for (size_t i = 0; i < t->file->body.n; i++)
    if (t->file->body.v[i]->kind == STMT_FN && n-- == 0)
      return t->file->body.v[i]->as.fn->name.text;
  return NULL;
}

static void set_extents(const Tool *t, const SemaKernel *k, SemaSpec *s) {
  for (int i = 0; i < t->nset; i++) {
    const char *eq = strchr(t->set[i], '=');
    for (size_t j = 0; eq && j < k->nextents; j++)
      if (strlen(k->extents[j]) == (size_t)(eq - t->set[i]) &&
          strncmp(k->extents[j], t->set[i], (size_t)(eq - t->set[i])) == 0)
        s->extents[j] = (int64_t)str_read_f64(eq + 1, &eq);
  }
}

static void kernel(Tool *t, const AstStmt *s, bool only_declare) {
  SemaKernel *k = sema_declare(t->arena, s->as.kernel, &t->scope, &t->sink);
  if (!k || !k->ok || only_declare)
    return;
  SemaSpec *spec = sema_spec_new(t->arena, k);
  set_extents(t, k, spec);
  SemaTree *tree = sema_check(t->arena, k, spec, &t->sink);
  IrKernel *ir = tree ? ir_build(t->arena, t->names, tree, &t->sink) : NULL;
  if (!ir)
    return;
  Str out = str_new(t->arena);
  ir_print(ir, &out);
  io_write(stdout, str_text(&out), out.n);
}

static int run(Tool *t, const char *path, bool only_declare) {
  const char *why = NULL;
  size_t n;
  char *text = io_read_file(t->arena, path, &n, &why);
  if (!text) {
    fprintf(stderr, "sematool: %s: %s\n", path, why);
    return 2;
  }
  const char *slash = strrchr(path, '/');
  SrcFile *f = src_new(t->arena, slash ? slash + 1 : path, text, n);
  AstFile *ast;
  ParseInput in = {.arena = t->arena, .names = t->names, .diags = &t->sink, .file = f};
  bool parsed = parse_file(&in, &ast) == PARSE_OK;
  t->file = ast;
  for (size_t i = 0; parsed && i < ast->body.n; i++)
    if (ast->body.v[i]->kind == STMT_KERNEL)
      kernel(t, ast->body.v[i], only_declare);
  Str out = str_new(t->arena);
  diag_format_all(&t->sink, false, &out);
  io_write(stderr, str_text(&out), out.n);
  return t->sink.errors ? 3 : 0;
}

typedef struct Main {
  int argc;
  char **argv;
  int status;
} Main;

static void guarded(Guard *guard, void *ctx) {
  Main *m = ctx;
  Tool t = {.arena = arena_new(guard, "tool")};
  const char *path = NULL;
  bool only = false;
  t.names = names_new(t.arena);
  t.scope = (SemaScope){&t, find_fn, fn_name, NULL};
  t.set = ARENA_ARRAY(t.arena, const char *, m->argc);
  diag_init(&t.sink, t.arena);
  for (int i = 1; i < m->argc; i++) {
    if (strcmp(m->argv[i], "-n") == 0)
      only = true;
    else if (strcmp(m->argv[i], "-s") == 0 && i + 1 < m->argc)
      t.set[t.nset++] = m->argv[++i];
    else
      path = m->argv[i];
  }
  m->status = path ? run(&t, path, only) : 2;
  arena_free(t.arena);
}

int main(int argc, char **argv) {
  Main m = {argc, argv, 0};
  Status s = guard_run(guarded, &m);
  if (s != ST_OK)
    fprintf(stderr, "sematool: stopped with status %d\n", (int)s);
  return s == ST_OK ? m.status : 1;
}
