/* item.c: kernels, functions, imports, tests and blocks of Lua.
 *
 * In: the stream at the item's first token. Out: the statement's fields. The grammar:
 *
 *   kernel = { '@' NAME } 'kernel' NAME [ '[' statics ']' ] '(' inputs ')'
 *            [ '->' '(' outputs ')' ] block
 *   fn     = 'fn' NAME '(' params ')' [ '->' ( type | '(' type { ',' type } ')' ) ] block
 *   test   = 'test' STRING block         lua = 'lua' '{' what Lua reads '}'
 *   import = 'import' ( NAME | STRING ) [ 'as' NAME ]
 *
 * Always holds: the place (file, function, kernel) and the count of loops are as before when an
 * item ends.
 * Tests: tests/unit/check_parser.c, tests/lang/syntax_*.tile, tests/errors.
 */
#include <string.h>

#include "state.h"

/* The body of an item, in which its own rules hold. */
static AstBlock parse_body(Parser *p, Place place, const char *what) {
  Place outer = p->place;
  unsigned loops = p->loops;
  p->place = place;
  p->loops = 0;
  AstBlock body = parse_block(p, what);
  p->place = outer;
  p->loops = loops;
  return body;
}

/* A list that is left out is empty. */
static AstDecls parse_bracketed(Parser *p, TokenKind open, DeclKind kind) {
  if (!parse_at(p, open))
    return (AstDecls){0};
  return parse_decls(p, kind, parse_open(p));
}

/* ---- kernels ---- */

/* The parentheses stand even around nothing: they tell a kernel from a word. */
static AstDecls parse_inputs(Parser *p, DeclKind kind, const char *what) {
  if (!p->failed && !parse_at(p, T_LPAREN))
    parse_hint(p, parse_fail_here(p, E0071, "expected `(`, found %s", parse_found(p)),
               "%s are listed in ( ), even where there are none", what);
  return parse_bracketed(p, T_LPAREN, kind);
}

/* A kernel may have none: then it works on `inout` inputs only. */
static AstDecls parse_outputs(Parser *p) {
  if (!parse_accept(p, T_ARROW))
    return (AstDecls){0};
  if (!p->failed && !parse_at(p, T_LPAREN))
    parse_hint(p, parse_fail_here(p, E0071, "expected `(`, found %s", parse_found(p)),
               "a kernel's outputs have names: -> (C: f32[M, N])");
  return parse_bracketed(p, T_LPAREN, DECL_OUTPUT);
}

/* The stream shows `kernel`. */
static void read_kernel(Parser *p, AstKernel *k) {
  Span header = parse_span(p);
  p->kernel_column = parse_column(p);
  parse_advance(p);
  k->name = parse_name(p, "the kernel's name");
  k->statics = parse_bracketed(p, T_LBRACKET, DECL_STATIC);
  k->inputs = parse_inputs(p, DECL_INPUT, "a kernel's inputs");
  k->outputs = parse_outputs(p);
  k->header = parse_span_from(p, header);
  k->body = parse_body(p, IN_KERNEL, "the kernel's body");
  for (size_t i = 0; i < k->body.n && !k->grid; i++) {
    if (k->body.v[i]->kind == STMT_GRID)
      k->grid = k->body.v[i];
  }
}

/* Without attributes; with them, parse_attributed reads the same. */
void parse_kernel(Parser *p, AstStmt *s) {
  s->as.kernel = ARENA_NEW(p->arena, AstKernel);
  read_kernel(p, s->as.kernel);
}

/* A wrong attribute does not make the kernel below it unreadable. */
static void check_attribute(Parser *p, AstKernel *k, AstName a) {
  static const char *const known[] = {"exact", "unchecked"};
  bool *flags[] = {&k->exact, &k->unchecked};
  for (size_t i = 0; i < 2; i++) {
    if (strcmp(a.text, known[i]) != 0)
      continue;
    if (*flags[i])
      parse_warn(p, E0040, a.span, "`@%s` is given twice", a.text);
    *flags[i] = true;
    return;
  }
  if (parse_at(p, T_DOT) || parse_at(p, T_LPAREN)) { /* Python's: what follows explains nothing */
    parse_hint(p, parse_fail(p, E0040, a.span, "kernels have no decorators such as `@%s`", a.text),
               "a kernel needs none: kernel name(A: f32[N]) -> (B: f32[N]) { … }");
    return;
  }
  Diag *d = parse_warn(p, E0040, a.span, "kernels have no attribute `@%s`", a.text);
  const char *close = names_closest(a.text, known, 2);
  if (close)
    parse_hint(p, d, "did you mean `@%s`?", close);
  else
    parse_hint(p, d, "there are @exact and @unchecked");
}

/* Attributes may stand on lines of their own. */
void parse_attributed(Parser *p, AstStmt *s) {
  AstKernel *k = ARENA_NEW(p->arena, AstKernel);
  VEC(AstName) v = {0};
  s->as.kernel = k;
  while (parse_accept(p, T_AT)) {
    AstName a = parse_name(p, "the name of an attribute");
    if (!p->failed)
      check_attribute(p, k, a);
    VEC_PUSH(p->arena, &v, a);
    parse_skip_newlines(p);
  }
  k->attributes = v.v;
  k->nattributes = v.n;
  if (!p->failed && !parse_at(p, T_KERNEL)) {
    parse_hint(p, parse_fail_here(p, E0041, "expected a kernel, found %s", parse_found(p)),
               "attributes such as @exact stand before `kernel`");
    return;
  }
  if (!p->failed)
    read_kernel(p, k);
}

/* ---- functions ---- */

/* The result's type is for the reader and for sema; the host needs none. */
void parse_fn(Parser *p, AstStmt *s) {
  AstFn *f = ARENA_NEW(p->arena, AstFn);
  Span header = parse_span(p);
  s->as.fn = f;
  parse_advance(p);
  f->name = parse_name(p, "the function's name");
  f->params = parse_inputs(p, DECL_PARAM, "a function's parameters");
  if (parse_accept(p, T_ARROW))
    f->result = parse_result_type(p);
  f->header = parse_span_from(p, header);
  f->body = parse_body(p, IN_FN, "the function's body");
}

/* ---- tests, imports, Lua ---- */

/* Its body is host text: no `return`, no kernel-only statements. */
void parse_test(Parser *p, AstStmt *s) {
  parse_advance(p);
  s->as.test.name = "";
  s->as.test.name_span = parse_span(p);
  if (parse_at(p, T_STRING)) {
    const Token *t = parse_token(p, 0);
    s->as.test.name = lex_string(p->arena, &p->t, t, &s->as.test.name_n);
  } else {
    parse_hint(p, parse_fail_here(p, E0044, "expected the test's name, found %s", parse_found(p)),
               "the name is a string: test \"small extents\" { … }");
  }
  parse_advance(p);
  s->as.test.body = parse_body(p, IN_FILE, "the test's body");
}

/* The file's name without folders and ending, if that can be a name. */
static const char *stem(Parser *p, const char *path, size_t n) {
  size_t begin = n, end;
  while (begin > 0 && path[begin - 1] != '/')
    begin--;
  for (end = begin; end < n && path[end] != '.'; end++) {
    char c = path[end];
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!letter && (end == begin || c < '0' || c > '9'))
      return NULL;
  }
  bool reserved = lex_word(path + begin, end - begin) != T_NAME;
  return end == begin || reserved ? NULL : names_get(p->in->names, path + begin, end - begin);
}

/* The path is resolved by the session, from where the importing file is. */
static void parse_import_path(Parser *p, AstStmt *s) {
  const Token *t = parse_token(p, 0);
  s->as.import.path = lex_string(p->arena, &p->t, t, &s->as.import.path_n);
  parse_advance(p);
}

/* One name; a module in a folder is imported by its path. */
static void parse_import_name(Parser *p, AstStmt *s) {
  if (!parse_at(p, T_NAME))
    parse_hint(p, parse_fail_here(p, E0042, "expected what to import, found %s", parse_found(p)),
               "write import matmul, or import \"dir/file.tile\" as f");
  s->as.import.name = parse_name(p, "the name of a module");
  s->as.import.module = s->as.import.name.text;
  if (parse_at(p, T_DOT) || parse_at(p, T_SLASH))
    parse_hint(p, parse_fail_here(p, E0042, "a module's name has one part"),
               "give a path as a string: import \"dir/file.tile\" as f");
}

/* What the module is bound to. */
static void parse_import_as(Parser *p, AstStmt *s) {
  if (parse_at_word(p, "as")) {
    parse_advance(p);
    s->as.import.name = parse_name(p, "a name for the module");
  } else if (s->as.import.path && !p->failed) {
    s->as.import.name.span = s->as.import.what;
    s->as.import.name.text = stem(p, s->as.import.path, s->as.import.path_n);
    if (!s->as.import.name.text)
      parse_hint(p, parse_fail(p, E0043, s->as.import.what, "this path gives the module no name"),
                 "add one: import \"…\" as f");
  }
}

/* Every import binds exactly one name. */
void parse_import(Parser *p, AstStmt *s) {
  parse_advance(p);
  s->as.import.what = parse_span(p);
  if (parse_at(p, T_STRING))
    parse_import_path(p, s);
  else
    parse_import_name(p, s);
  s->as.import.what = parse_span_from(p, s->as.import.what);
  parse_import_as(p, s);
}

/* The text goes to Lua as it stands, so its line ends and comments stay. */
void parse_lua(Parser *p, AstStmt *s) {
  parse_advance(p);
  /* The lexer read the text if the brace was there, on this line or the next. */
  if (parse_at(p, T_NEWLINE) && parse_token(p, 0)->kind == T_LBRACE)
    parse_advance(p);
  if (!parse_accept(p, T_LBRACE)) {
    parse_hint_brace(p, "the Lua text");
    return;
  }
  parse_skip_newlines(p);
  s->as.lua.span = parse_span(p);
  s->as.lua.text = p->t.file->text + parse_token(p, 0)->begin;
  s->as.lua.n = parse_token(p, 0)->end - parse_token(p, 0)->begin;
  parse_advance(p);
  parse_skip_newlines(p);
  /* Where the brace is missing, the text's lexical fault has said so. */
  parse_accept(p, T_RBRACE);
}
