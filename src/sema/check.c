/* check.c: a kernel under a specialisation, whole; the entry points of src/sema.
 *
 * In: a SemaKernel and the values of its compile-time parameters. Out: the typed tree, or
 * diagnostics. What stands before `grid` becomes the tree's `pre`.
 * A kernel is checked twice: at its definition with the defaults, so that the errors of a file show
 * before anything runs, and for every new specialisation with the values of the call, which gives
 * the tree. The second may find what the first could not know: a tile that does not fit, a branch
 * that the defaults do not take. Tests: tests/unit/check_sema.c.
 */
#include "private.h"

/* The number of blocks is needed before a block runs, so little can stand before `grid`. What it
 * declares is known, so that its uses are no further errors. */
static void not_before_grid(Check *c, const AstStmt *s) {
  Diag *d = diag_add(c->sink, E0301, s->span, "only `let` stands before `grid`");
  diag_also(c->sink, d, c->kernel->ast->grid->span, NULL);
  diag_hint(c->sink, d, "move it below `grid`");
  AstDecls none = {0};
  const AstDecls *names = s->kind == STMT_VAR ? &s->as.let.names
                          : s->kind == STMT_SHARED || s->kind == STMT_FRAGMENT ||
                                  s->kind == STMT_LOCAL || s->kind == STMT_BARRIER
                              ? &s->as.decls
                              : &none;
  for (size_t i = 0; i < names->n; i++)
    sema_sym_declare(c, names->v[i].name, SYM_POISON, "a tile");
}

/* A fn called there may have needed more than `let`s. */
static void check_pre(Check *c) {
  for (size_t i = 0; i < c->tree->pre.n; i++) {
    const TStmt *s = c->tree->pre.v[i];
    if (s->kind == TS_LET && s->as.let.var->kind == TV_LET && sema_is_pure(s->as.let.value))
      continue;
    diag_add(c->sink, E0301, s->span,
             "what stands before `grid`, and its extents, are computed by expressions alone");
    return;
  }
}

/* Statements before the grid, then the grid; returns the index of the first statement after it. */
static size_t check_head(Check *c) {
  const AstKernel *k = c->kernel->ast;
  size_t i = 0;
  if (!k->grid)
    return 0;
  c->out = &c->tree->pre;
  c->pre = true;
  /* The parser promises that the grid is one of the body's statements. */
  for (; k->body.v[i] != k->grid; i++) {
    if (k->body.v[i]->kind == STMT_LET)
      sema_check_let(c, k->body.v[i]);
    else
      not_before_grid(c, k->body.v[i]);
  }
  sema_check_grid(c, k->grid);
  check_pre(c);
  c->pre = false;
  return i + 1;
}

/* Tiles and statements after the head; without a grid there is one block. */
static void check_body(Check *c) {
  const AstBlock *b = &c->kernel->ast->body;
  size_t i = check_head(c);
  c->out = &c->tree->body;
  for (; i < b->n; i++)
    sema_check_stmt(c, b->v[i]);
}

/* Whether the defaults say everything, so that no branch was left out. */
static bool all_known(const SemaKernel *k) {
  for (size_t i = 0; i < k->nstatics; i++)
    if (!k->statics[i].has_default)
      return false;
  return k->nextents == 0;
}

/* Opens the walk: statements go to `nowhere` until the body begins. Parameters have a block of
 * their own, so that the body may hide their names. */
static void enter_kernel(Check *c, Block *params, TStmts *nowhere) {
  c->scope = c->kernel->scope;
  c->tree = ARENA_NEW(c->a, SemaTree);
  c->tree->kernel = c->kernel;
  c->out = nowhere;
  sema_block_push(c, params);
  sema_signature_enter(c);
}

/* One walk over a kernel under one specialisation. Errors in the signature do not stop it: the
 * body's own errors show in the same run. */
static SemaTree *check_kernel(Arena *a, const SemaKernel *k, const SemaSpec *s, bool defining,
                              DiagSink *sink) {
  Check c = {.a = a, .sink = sink, .kernel = k, .spec = s, .defining = defining};
  Block params, body;
  TStmts nowhere = {0};
  size_t errors = sink->errors;
  enter_kernel(&c, &params, &nowhere);
  sema_block_push(&c, &body);
  check_body(&c);
  if (sink->errors == errors && (!defining || all_known(k)))
    sema_count_arrivals(&c);
  return sink->errors == errors ? c.tree : NULL;
}

/* As it is written; values and kinds of defaults are not known yet. */
static SemaKernel *read_header(Arena *a, const AstKernel *ast, const SemaScope *scope,
                               DiagSink *sink) {
  SemaKernel *k = ARENA_NEW(a, SemaKernel);
  k->ast = ast;
  k->scope = scope;
  return sema_signature_read(a, k, sink) ? k : NULL;
}

/* Entering it as a definition computes the defaults. */
SemaKernel *sema_read(Arena *a, const AstKernel *ast, const SemaScope *scope, DiagSink *sink) {
  SemaKernel *k = read_header(a, ast, scope, sink);
  Check c = {.a = a, .sink = sink, .kernel = k, .defining = true};
  Block params;
  TStmts nowhere = {0};
  if (k)
    enter_kernel(&c, &params, &nowhere);
  return k;
}

/* The check at the definition throws its tree away: each call makes its own. */
SemaKernel *sema_declare(Arena *a, const AstKernel *ast, const SemaScope *scope, DiagSink *sink) {
  SemaKernel *k = read_header(a, ast, scope, sink);
  if (k)
    k->ok = check_kernel(a, k, NULL, true, sink) != NULL;
  return k;
}

/* At a call everything is known, and what is not is an error. */
SemaTree *sema_check(Arena *a, const SemaKernel *k, const SemaSpec *s, DiagSink *sink) {
  return check_kernel(a, k, s, false, sink);
}
