/* stmt.c: statements.
 *
 * In: the stream at a statement. Out: its node, which holds ERROR nodes where it could not be read.
 * One table says which word begins which statement and where that may stand:
 *
 *   let var      NAME [ ':' type ] { ',' … } '=' expr { ',' expr }
 *   shared fragment local    NAME [ ':' type ] [ '=' expr ] { ',' … }
 *   barrier      NAME [ '[' extents ']' ] [ '(' 'arrivals' '=' expr ')' ] { ',' … }
 *   grid         NAME { ',' NAME } '=' expr { ',' expr } { ',' NAME '=' expr }
 *   layout       NAME '=' ( expr | '(' names ')' '->' expr ) { ',' … }
 *   for          NAME { ',' NAME } 'in' expr block          while expr block
 *   if           expr block { 'else' 'if' expr block } [ 'else' block ]
 *   specialize   '{' { ( 'producer' | 'consumer' ) [ '(' args ')' ] block } '}'
 *   break, continue, return [ expr { ',' expr } ], assert expr [ ',' expr ]
 *   otherwise    places ( '=' | '+=' | … ) expr { ',' expr }, or an expression that does something
 *
 * kernel, fn, import, test and lua are in item.c.
 * Tests: tests/unit/check_parser.c, tests/lang/syntax_*.tile, tests/errors.
 */
#include <string.h>

#include "state.h"

/* A condition or range before a block. */
static AstExpr *parse_header(Parser *p, const char *what) {
  AstExpr *e = parse_expr(p);
  if (parse_at(p, T_ASSIGN)) {
    Diag *d = parse_fail_here(p, E0028, "`=` assigns; %s wants a value", what);
    parse_hint(p, d, "to compare, write `==`");
  }
  return e;
}

/* `break` and `continue` are checked by counting the loops around them. */
static AstBlock parse_loop_block(Parser *p, const char *what) {
  p->loops++;
  AstBlock b = parse_block(p, what);
  p->loops--;
  return b;
}

/* ---- names and declarations ---- */

/* let and var differ in what may be done with the name, not in how they are written. */
static void parse_let(Parser *p, AstStmt *s) {
  const char *word = s->kind == STMT_LET ? "let" : "var";
  VEC(AstDecl) v = {0};
  parse_advance(p);
  do {
    AstDecl d = {.span = parse_span(p)};
    d.name = parse_name(p, "a name");
    if (parse_accept(p, T_COLON))
      d.type = parse_type(p);
    d.span = parse_span_from(p, d.span);
    VEC_PUSH(p->arena, &v, d);
  } while (parse_accept(p, T_COMMA));
  s->as.let.names = (AstDecls){v.v, v.n};
  if (!p->failed && !parse_at(p, T_ASSIGN)) {
    Diag *d = parse_fail_here(p, E0032, "expected `=` and a value, found %s", parse_found(p));
    if (v.n == 1 && strcmp(v.v[0].name.text, "mut") == 0)
      parse_hint(p, d, "a name that changes is declared with `var`");
    else
      parse_hint(p, d, "`%s` binds a name to a value: %s %s = …", word, word, v.v[0].name.text);
  }
  parse_advance(p);
  s->as.let.value = p->failed ? parse_error_expr(p) : parse_expr_list(p);
}

/* shared, fragment, local, barrier: a list of declarations. */
static void parse_tiles(Parser *p, AstStmt *s) {
  parse_advance(p);
  s->as.decls = s->kind == STMT_BARRIER ? parse_barriers(p) : parse_loose_decls(p, DECL_TILE);
}

/* Several names unpack what the loop or grid gives. */
static void parse_names(Parser *p, AstName **names, size_t *n, const char *what) {
  VEC(AstName) v = {0};
  do {
    AstName name = parse_name(p, what);
    VEC_PUSH(p->arena, &v, name);
  } while (parse_accept(p, T_COMMA));
  *names = v.v;
  *n = v.n;
}

/* Names on the left, as many extents on the right, then options by name. */
static void parse_grid(Parser *p, AstStmt *s) {
  parse_advance(p);
  if (parse_at(p, T_LPAREN) || parse_at(p, T_INT))
    parse_hint(
        p, parse_fail_here(p, E0029, "expected the name of a grid axis, found %s", parse_found(p)),
        "without ( ), names before extents: grid x, y = ceildiv(N, 64), ceildiv(M, 64)");
  parse_names(p, &s->as.grid.names, &s->as.grid.n, "the name of a grid axis");
  if (!p->failed && !parse_at(p, T_ASSIGN))
    parse_hint(p, parse_fail_here(p, E0046, "expected `=`, found %s", parse_found(p)),
               "a grid names its axes: grid x, y = ceildiv(N, BN), ceildiv(M, BM)");
  parse_advance(p);
  if (p->failed)
    return;
  s->as.grid.args = parse_loose_args(p);
  Span span = parse_span_from(p, s->span);
  if (s->as.grid.n > 3)
    parse_hint(p, parse_fail(p, E0046, s->as.grid.names[3].span, "a grid has one to three axes"),
               "fold the others into one: let i, j = x // n, x %% n");
  else if (s->as.grid.n != s->as.grid.args.npos)
    parse_fail(p, E0047, span, "this grid names %zu ax%s and gives %zu extent%s", s->as.grid.n,
               s->as.grid.n == 1 ? "is" : "es", s->as.grid.args.npos,
               s->as.grid.args.npos == 1 ? "" : "s");
}

/* `tile = value` pairs; the value may be a map of indices. */
static void parse_layout(Parser *p, AstStmt *s) {
  VEC(AstDecl) v = {0};
  parse_advance(p);
  do {
    AstDecl d = {.span = parse_span(p)};
    d.name = parse_name(p, "the name of a tile");
    if (!p->failed && !parse_at(p, T_ASSIGN))
      parse_hint(p, parse_fail_here(p, E0061, "expected `=`, found %s", parse_found(p)),
                 "write layout As = swizzle(128), or layout As = (i, j) -> i*BK + j");
    parse_advance(p);
    d.init = p->failed ? parse_error_expr(p) : parse_layout_value(p);
    d.span = parse_span_from(p, d.span);
    VEC_PUSH(p->arena, &v, d);
  } while (parse_accept(p, T_COMMA));
  s->as.layout.v = (AstDecls){v.v, v.n};
}

/* ---- control ---- */

/* What kind of loop it is, is said by the call behind `in`; sema knows those. */
static void parse_for(Parser *p, AstStmt *s) {
  parse_advance(p);
  if (parse_at(p, T_LPAREN))
    parse_hint(p, parse_fail_here(p, E0031, "expected the name of the loop's variable, found `(`"),
               "write for i in range(n) { … }");
  parse_names(p, &s->as.loop.names, &s->as.loop.n, "the name of the loop's variable");
  if (!p->failed && !parse_at(p, T_IN))
    parse_hint(p, parse_fail_here(p, E0031, "expected `in`, found %s", parse_found(p)),
               "write for %s in range(n) { … }", s->as.loop.names[0].text);
  parse_advance(p);
  s->as.loop.range = p->failed ? parse_error_expr(p) : parse_header(p, "`for`");
  s->as.loop.body = parse_loop_block(p, "the block of `for`");
}

/* The condition is an expression like any other. */
static void parse_while(Parser *p, AstStmt *s) {
  parse_advance(p);
  s->as.loop_while.cond = parse_header(p, "`while`");
  s->as.loop_while.body = parse_loop_block(p, "the block of `while`");
}

/* The stream shows `if`. */
static AstArm parse_arm(Parser *p) {
  AstArm arm;
  parse_advance(p);
  arm.cond = parse_header(p, "`if`");
  arm.body = parse_block(p, "the block of `if`");
  return arm;
}

/* A chain of arms, not nested statements, so that its length costs no depth. */
static void parse_if(Parser *p, AstStmt *s) {
  VEC(AstArm) arms = {0};
  AstArm arm = parse_arm(p);
  VEC_PUSH(p->arena, &arms, arm);
  while (parse_accept(p, T_ELSE)) {
    if (parse_at(p, T_IF)) {
      arm = parse_arm(p);
      VEC_PUSH(p->arena, &arms, arm);
      continue;
    }
    s->as.branch.other = parse_block(p, "the block of `else`");
    s->as.branch.has_other = true;
    break;
  }
  s->as.branch.arms = arms.v;
  s->as.branch.n = arms.n;
}

/* A fault here is no reason to stop reading: the statement itself is complete. */
static void parse_jump(Parser *p, AstStmt *s) {
  const char *word = s->kind == STMT_BREAK ? "break" : "continue";
  Span span = parse_span(p);
  parse_advance(p);
  if (p->loops == 0)
    parse_hint(p, parse_warn(p, E0054, span, "`%s` stands outside every loop", word),
               "it belongs into a `for` or `while` of the same body");
}

/* In a file or kernel a value is wrong, but what it says can still be read. */
static void parse_return(Parser *p, AstStmt *s) {
  Span span = parse_span(p);
  parse_advance(p);
  if (!parse_at_end(p))
    s->as.result = parse_expr_list(p);
  if (p->place == IN_FILE)
    parse_hint(p, parse_warn(p, E0055, span, "`return` stands outside every function and kernel"),
               "at top level, wrap what may end early in a function: fn main() { … }");
  else if (p->place == IN_KERNEL && s->as.result)
    parse_hint(p,
               parse_warn(p, E0055, s->as.result->span, "a kernel returns its outputs, no value"),
               "copy the value into an output listed after `->`; `return` alone ends the block");
}

/* The message is evaluated only if the condition fails, so it may be any expression. */
static void parse_assert(Parser *p, AstStmt *s) {
  parse_advance(p);
  s->as.assertion.cond = parse_header(p, "`assert`");
  if (parse_accept(p, T_COMMA))
    s->as.assertion.message = parse_expr(p);
}

/* A role is a body of its own: loops around `specialize` cannot be left from inside. */
static AstRole parse_role(Parser *p) {
  AstRole role = {.span = parse_span(p), .producer = parse_at_word(p, "producer")};
  if (!role.producer && !parse_at_word(p, "consumer")) {
    Diag *d =
        parse_fail_here(p, E0048, "expected `producer` or `consumer`, found %s", parse_found(p));
    parse_hint(p, d, "specialize holds roles only: producer(warpgroups = 1) { … }");
  }
  parse_advance(p);
  if (parse_at(p, T_LPAREN))
    role.options = parse_args(p, parse_open(p));
  unsigned loops = p->loops;
  p->loops = 0;
  role.body = parse_block(p, "the block of the role");
  p->loops = loops;
  role.span = parse_span_from(p, role.span);
  return role;
}

/* Roles need no separator: each ends with its brace. */
static void parse_roles(Parser *p, AstStmt *s) {
  VEC(AstRole) roles = {0};
  parse_advance(p);
  if (parse_at(p, T_NEWLINE) && parse_token(p, 0)->kind == T_LBRACE)
    parse_advance(p);
  if (!parse_at(p, T_LBRACE))
    parse_hint_brace(p, "the roles");
  Span open = parse_span(p);
  parse_advance(p);
  for (;;) {
    parse_skip_separators(p);
    if (p->failed || p->stopped || parse_at(p, T_RBRACE) || parse_at(p, T_EOF))
      break;
    p->start = p->i;
    AstRole role = parse_role(p);
    VEC_PUSH(p->arena, &roles, role);
    if (p->failed && !p->stopped)
      parse_recover(p);
  }
  if (parse_at(p, T_EOF))
    parse_unclosed(p, open);
  parse_accept(p, T_RBRACE);
  s->as.roles.v = roles.v;
  s->as.roles.n = roles.n;
  if (roles.n == 0)
    parse_warn(p, E0048, s->span, "`specialize` holds at least one role");
}

/* ---- expressions and assignments ---- */

static const struct AssignOp {
  uint8_t op;
  bool any;
} assign_ops[T_COUNT] = {
    [T_ASSIGN] = {AST_NO_OP, true},
#define ASSIGN_OP(op, token) [T_##token] = {AST_##op, true},
#include "ast.def"
};

/* Places are names, elements and slices, without parentheses around them. */
static void check_target(Parser *p, const AstExpr *e) {
  if ((e->kind == EXPR_NAME || e->kind == EXPR_INDEX) && !e->paren)
    return;
  Diag *d = parse_fail(p, E0027, e->span, "this cannot be assigned to");
  if (e->kind == EXPR_ATTR)
    parse_hint(p, d, "members cannot be changed; bind a new name with `let`");
  else if (e->kind == EXPR_COMPARE || e->kind == EXPR_BINARY)
    parse_hint(p, d, "the left side is a name, an element or a slice; to compare, write `==`");
  else
    parse_hint(p, d, "the left side is a name, an element x[i] or a slice x[a:b]");
}

/* The targets were read as an expression, because only now is it known that they are targets. */
static void parse_assign(Parser *p, AstStmt *s, AstExpr *left) {
  s->kind = STMT_ASSIGN;
  s->as.assign.op = assign_ops[parse_kind(p)].op;
  Span op = parse_span(p);
  bool several = left->kind == EXPR_TUPLE && !left->paren;
  s->as.assign.targets = several ? left->as.list.v : arena_copy(p->arena, &left, sizeof(left));
  s->as.assign.ntargets = several ? left->as.list.n : 1;
  if (several && s->as.assign.op != AST_NO_OP)
    parse_hint(p, parse_fail(p, E0056, op, "only `=` unpacks"), "update one name after the other");
  for (size_t i = 0; i < s->as.assign.ntargets; i++)
    check_target(p, s->as.assign.targets[i]);
  parse_advance(p);
  s->as.assign.value = p->failed ? parse_error_expr(p) : parse_expr_list(p);
}

/* A value that nothing uses is nearly always a slip: `==` for `=`, a call without its ( ). */
static void check_alone(Parser *p, const AstExpr *e) {
  bool runs = e->kind == EXPR_CALL || e->kind == EXPR_BENCH || e->kind == EXPR_CHECK;
  if (runs || (p->in->prompt && p->blocks == 0) || !parse_at_end(p))
    return;
  const Token *first = &p->t.v[p->start];
  if (first->kind == T_NAME && e->kind == EXPR_NAME && parse_hint_foreign_word(e->as.name)) {
    parse_hint(p,
               parse_fail(p, E0053, e->span, "`%s` is not a word of the tile language", e->as.name),
               "%s", parse_hint_foreign_word(e->as.name));
    return;
  }
  Diag *d = parse_warn(p, E0026, e->span, "this value is not used");
  if (e->kind == EXPR_COMPARE && e->as.compare.n == 1 && e->as.compare.ops[0] == AST_EQ)
    parse_hint(p, d, "to assign, write `=`; to test it, write assert");
  else
    parse_hint(p, d, "bind it with `let x = …`, or show it with print(…)");
}

/* An assignment is told from an expression only by what follows the first one. */
static void parse_simple(Parser *p, AstStmt *s) {
  AstExpr *e = parse_expr_list(p);
  if (!p->failed && assign_ops[parse_kind(p)].any) {
    parse_assign(p, s, e);
    return;
  }
  s->as.expr = e;
  if (!p->failed)
    check_alone(p, e);
}

/* ---- statements ---- */

/* An `else` that an `if` did not take; its block is skipped with it. */
static void parse_stray_else(Parser *p, AstStmt *s) {
  s->kind = STMT_ERROR;
  parse_hint_statement_end(p);
}

static const struct StatementRow {
  void (*parse)(Parser *p, AstStmt *s);
  uint8_t kind;
  bool in_kernels, outside; /* where it may stand */
} statement_rows[T_COUNT] = {
    /* names */
    [T_LET] = {parse_let, STMT_LET, true, true},
    [T_VAR] = {parse_let, STMT_VAR, true, true},
    /* what describes a block and its memory: in kernels only */
    [T_SHARED] = {parse_tiles, STMT_SHARED, true, false},
    [T_FRAGMENT] = {parse_tiles, STMT_FRAGMENT, true, false},
    [T_LOCAL] = {parse_tiles, STMT_LOCAL, true, false},
    [T_BARRIER] = {parse_tiles, STMT_BARRIER, true, false},
    [T_GRID] = {parse_grid, STMT_GRID, true, false},
    [T_LAYOUT] = {parse_layout, STMT_LAYOUT, true, false},
    [T_SPECIALIZE] = {parse_roles, STMT_ROLES, true, false},
    /* control: everywhere */
    [T_FOR] = {parse_for, STMT_FOR, true, true},
    [T_WHILE] = {parse_while, STMT_WHILE, true, true},
    [T_IF] = {parse_if, STMT_IF, true, true},
    [T_ELSE] = {parse_stray_else, STMT_ERROR, true, true},
    [T_BREAK] = {parse_jump, STMT_BREAK, true, true},
    [T_CONTINUE] = {parse_jump, STMT_CONTINUE, true, true},
    [T_RETURN] = {parse_return, STMT_RETURN, true, true},
    [T_ASSERT] = {parse_assert, STMT_ASSERT, true, true},
    /* what belongs to the host */
    [T_KERNEL] = {parse_kernel, STMT_KERNEL, false, true},
    [T_AT] = {parse_attributed, STMT_KERNEL, false, true},
    [T_FN] = {parse_fn, STMT_FN, false, true},
    [T_IMPORT] = {parse_import, STMT_IMPORT, false, true},
    [T_TEST] = {parse_test, STMT_TEST, false, true},
    [T_LUA] = {parse_lua, STMT_LUA, false, true},
};

/* Reported, and then read all the same: what stands in it is checked too. */
static void check_place(Parser *p, const struct StatementRow *row) {
  const char *word = lex_spelling(parse_kind(p));
  if (p->place == IN_KERNEL && !row->in_kernels)
    parse_hint(p, parse_warn(p, E0039, parse_span(p), "`%s` cannot stand inside a kernel", word),
               "put it at top level, before or after the kernel");
  else if (p->place != IN_KERNEL && !row->outside)
    parse_hint(p, parse_warn(p, E0038, parse_span(p), "`%s` only stands in a kernel", word),
               "host values are bound with `let`; tensors are made by zeros, randn, tensor, …");
}

/* One line end, and at most stray semicolons, from begin to end. */
static bool next_line(const Parser *p, uint32_t begin, uint32_t end) {
  const char *s = p->t.file->text;
  size_t lines = 0;
  for (uint32_t i = begin; i < end; i++)
    lines += s[i] == '\n' || (s[i] == '\r' && s[i + 1] != '\n');
  return lines == 1 && strspn(s + begin, " \t\r\n\f\v;") >= end - begin;
}

/* The first of the `##` lines that end just above the token shown. p->comment is left behind the
 * last; the same index where there are none. */
static size_t first_doc(Parser *p) {
  const Tokens *t = &p->t;
  uint32_t next = t->v[p->i].begin;
  while (p->comment < t->ncomments && t->comments[p->comment].begin < next)
    p->comment++;
  size_t first = p->comment;
  for (; first > 0; first--) {
    const Comment *c = &t->comments[first - 1];
    if (!c->doc || !next_line(p, c->end, next))
      break;
    next = c->begin;
  }
  return first;
}

/* Their text, or NULL. */
static const char *parse_doc(Parser *p) {
  size_t first = first_doc(p);
  if (first == p->comment)
    return NULL;
  Str doc = str_new(p->arena);
  for (size_t i = first; i < p->comment; i++) {
    const Comment *c = &p->t.comments[i];
    const char *s = p->t.file->text + c->begin + 2;
    size_t n = c->end - c->begin - 2;
    while (n > 0 && strchr(" \t\r\f\v", s[n - 1]))
      n--;
    bool blank = n > 0 && *s == ' ';
    str_addn(&doc, s + blank, n - blank);
    if (i + 1 < p->comment)
      str_addc(&doc, '\n');
  }
  return str_text(&doc);
}

/* The doc comes first: reading the statement moves on past it. */
AstStmt *parse_statement(Parser *p) {
  AstStmt *s = ARENA_NEW(p->arena, AstStmt);
  s->span = parse_span(p);
  s->doc = parse_doc(p);
  const struct StatementRow *row = &statement_rows[parse_kind(p)];
  s->kind = row->parse ? (AstStmtKind)row->kind : STMT_EXPR;
  if (row->parse) {
    check_place(p, row);
    row->parse(p, s);
  } else {
    parse_simple(p, s);
  }
  s->span = parse_span_from(p, s->span);
  return s;
}
