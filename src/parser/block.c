/* block.c: blocks, the statements in them, and recovery from faults.
 *
 * In: the stream at `{`, or at the start of a file. Out: an AstBlock. Recovery goes to the next
 * statement by line ends, words that begin statements, and indentation, so that one mistake is one
 * diagnostic. The rules, in the order in which they are tried after a fault:
 *
 *   - a header's block is still read, if its `{` is found before anything that begins a statement;
 *   - a line that begins with a statement's word, or not further in than the faulty statement, is
 *     the next statement, whatever brackets seem to be open;
 *   - so is what follows a line end or `;` outside brackets; `}` ends the block;
 *   - a `{ … }` met on the way is skipped whole: its header made no sense, so its text would not;
 *   - below a header that lacks its brace, lines that stand further in are skipped too.
 *
 * Always holds: every statement read moves the stream on.
 * Tests: tests/unit/check_parser.c, tests/errors, tests/fuzz/fuzz_parser.c.
 */

#include "state.h"

/* ---- recovery ---- */

/* Words that begin a statement and can stand nowhere inside one. */
static bool begins_statement(TokenKind k) {
  static const bool begins[T_COUNT] = {
      [T_KERNEL] = true, [T_FN] = true,       [T_LET] = true,    [T_VAR] = true,
      [T_SHARED] = true, [T_FRAGMENT] = true, [T_LOCAL] = true,  [T_BARRIER] = true,
      [T_GRID] = true,   [T_FOR] = true,      [T_WHILE] = true,  [T_BREAK] = true,
      [T_IMPORT] = true, [T_CONTINUE] = true, [T_RETURN] = true, [T_LUA] = true,
      [T_TEST] = true,   [T_ASSERT] = true,   [T_LAYOUT] = true, [T_SPECIALIZE] = true,
  };
  return begins[k];
}

/* Bytes between the start of the line and the token, tabs as one. */
static uint32_t column(const Parser *p, uint32_t at) {
  uint32_t begin = at;
  while (begin > 0 && p->t.file->text[begin - 1] != '\n' && p->t.file->text[begin - 1] != '\r')
    begin--;
  return at - begin;
}

/* The column of the first token on the line of token i. */
static uint32_t indent_of(const Parser *p, size_t i) {
  while (i > 0 && !p->t.v[i].line_start)
    i--;
  return column(p, p->t.v[i].begin);
}

/* Token i begins a line as a new statement would, judged from the statement begun at p->start. */
static bool looks_new(const Parser *p, size_t i) {
  const Token *t = &p->t.v[i];
  if (!t->line_start || t->kind == T_RPAREN || t->kind == T_RBRACKET)
    return false;
  return begins_statement(t->kind) || column(p, t->begin) <= indent_of(p, p->start);
}

/* Over `{ … }` whose header made no sense; what stands in it would only be misread. */
static void skip_braces(Parser *p) {
  size_t depth = 0;
  for (; p->i + 1 < p->t.n; p->i++) {
    TokenKind k = p->t.v[p->i].kind;
    depth += k == T_LBRACE;
    if (k == T_RBRACE && --depth == 0) {
      p->i++;
      return;
    }
  }
}

/* Shows the stream again, from token p->i on, outside all brackets. */
static void resume(Parser *p) {
  while (p->fault < p->t.nfaults && p->t.faults[p->fault].token < p->i)
    p->fault++;
  p->failed = p->headless = false;
  p->brackets = 0;
  p->newline = p->t.v[p->i].newline || p->t.v[p->i].line_start;
}

/* Below a header without its brace, or a line that ends with a colon, lines are indented further: a
 * block in which nothing would be read as it was meant. */
static bool in_bare_block(const Parser *p, uint32_t indent) {
  return p->t.v[p->i].line_start && p->i > p->start && p->t.v[p->i].kind != T_RBRACE &&
         column(p, p->t.v[p->i].begin) > indent;
}

/* By whole lines, as long as they stand further in than the statement that failed. */
static void skip_bare_block(Parser *p) {
  uint32_t indent = indent_of(p, p->start);
  while (p->i + 1 < p->t.n && in_bare_block(p, indent)) {
    do
      p->i++;
    while (p->i + 1 < p->t.n && !p->t.v[p->i].line_start);
  }
}

/* Every way out has moved on, so a fault can never be met twice. */
void parse_recover(Parser *p) {
  size_t depth = p->brackets;
  bool stuck = p->i == p->start && p->t.v[p->i].kind != T_LBRACE;
  if ((stuck || p->t.v[p->i].kind == T_ELSE) && p->i + 1 < p->t.n)
    p->i++;
  for (; p->i + 1 < p->t.n; p->i++) {
    const Token *t = &p->t.v[p->i];
    if (p->i > p->start && (looks_new(p, p->i) || (t->newline && depth == 0)))
      break;
    if (t->kind == T_RBRACE || (t->kind == T_SEMICOLON && depth == 0))
      break;
    if (t->kind == T_LBRACE) {
      skip_braces(p);
      break;
    }
    depth += t->kind == T_LPAREN || t->kind == T_LBRACKET;
    depth -= depth > 0 && (t->kind == T_RPAREN || t->kind == T_RBRACKET);
  }
  if (p->headless || (p->i > p->start && p->t.v[p->i - 1].kind == T_COLON))
    skip_bare_block(p);
  resume(p);
}

/* After a faulty header: moves to its block, if that can be seen. */
static bool recover_to_block(Parser *p) {
  if (p->stopped)
    return false;
  for (size_t i = p->i; i + 1 < p->t.n && p->t.v[i].kind != T_RBRACE; i++) {
    if (i > p->start && looks_new(p, i) && p->t.v[i].kind != T_LBRACE)
      return false;
    if (p->t.v[i].kind == T_SEMICOLON)
      return false;
    if (p->t.v[i].kind == T_LBRACE) {
      p->i = i;
      resume(p);
      p->newline = false;
      return true;
    }
  }
  return false;
}

/* ---- blocks ---- */

/* The first `}` that closed a block at another indentation hints at a missing brace. */
/* The indentation of braces is only ever used to explain, never to decide. */
static void note_odd_close(Parser *p, size_t open, size_t close) {
  const Token *c = &p->t.v[close];
  if (p->odd_close || !c->line_start)
    return;
  if (column(p, c->begin) != indent_of(p, open)) {
    p->odd_open = p->t.v[open].begin;
    p->odd_close = c->begin;
  }
}

/* Nothing can be read behind the end of the file, so this is the last fault told. */
void parse_unclosed(Parser *p, Span open) {
  open.end = open.begin + 1;
  /* At the prompt what follows a fault is not waited for, so that it is missing says nothing. */
  if (p->in->prompt && p->in->diags->errors > p->errors)
    p->failed = true;
  Diag *d = parse_fail_here(p, E0023, "expected `}`, found %s", parse_found(p));
  parse_also(p, d, open, "the block opens here");
  if (d && p->odd_close && p->odd_open != open.begin) {
    Span inner = {p->t.file, p->odd_open, p->odd_open + 1};
    Span close = {p->t.file, p->odd_close, p->odd_close + 1};
    parse_also(p, d, inner, "perhaps it is this one that is not closed:");
    parse_also(p, d, close, "its `}` stands at another indentation");
  }
  p->stopped = true;
}

/* A kernel in a kernel, not indented: the one above was never closed. Told at the innermost block;
 * the ones around it end here too. */
static bool lost_brace(Parser *p, Span open) {
  const Token *t = parse_token(p, 0);
  if (!parse_at(p, T_KERNEL) || p->place != IN_KERNEL || !t->line_start ||
      column(p, t->begin) > p->kernel_column)
    return false;
  if (p->lost != p->i) {
    Diag *d = parse_fail(p, E0023, parse_span(p), "expected `}` before this kernel");
    open.end = open.begin + 1;
    parse_also(p, d, open, "the block opens here");
    p->lost = p->i;
  }
  resume(p);
  return true;
}

/* T_ERROR is no end: a statement that failed is cleared up by parse_recover, not here. */
bool parse_at_end(const Parser *p) {
  TokenKind k = parse_kind(p);
  return k == T_NEWLINE || k == T_SEMICOLON || k == T_RBRACE || k == T_EOF;
}

/* Bytes will do: columns are only compared with each other. */
uint32_t parse_column(const Parser *p) {
  return column(p, parse_token(p, 0)->begin);
}

/* Empty statements are allowed, so `;;` and empty lines are the same as one end. */
void parse_skip_separators(Parser *p) {
  while (parse_at(p, T_NEWLINE) || parse_at(p, T_SEMICOLON))
    parse_advance(p);
}

/* The brace that closed too early was read long ago; its place was kept for this. */
static void fail_brace(Parser *p) {
  Diag *d = parse_fail_here(p, E0024, "this `}` closes nothing");
  if (d && p->odd_close) {
    Span close = {p->t.file, p->odd_close, p->odd_close + 1};
    parse_also(p, d, close, "this one, at another indentation than its block, closed too early?");
  }
}

/* The heart of the descent: read a statement, see that it ends, or find where the next one begins.
 */
AstBlock parse_statements(Parser *p, bool in_braces, Span open) {
  VEC(AstStmt *) v = {0};
  for (;;) {
    parse_skip_separators(p);
    if (parse_at(p, T_EOF) || p->stopped || (in_braces && parse_at(p, T_RBRACE)) ||
        (in_braces && lost_brace(p, open)))
      break;
    p->start = p->i;
    if (parse_at(p, T_RBRACE)) {
      fail_brace(p);
      p->i++;
      p->start = p->i;
      resume(p);
      continue;
    }
    AstStmt *s = parse_statement(p);
    VEC_PUSH(p->arena, &v, s);
    if (!parse_at_end(p))
      parse_hint_statement_end(p);
    if (p->failed && !p->stopped)
      parse_recover(p);
  }
  return (AstBlock){v.v, v.n, open};
}

/* The stream shows `{`. What was open outside has no meaning in the block. */
static AstBlock in_braces(Parser *p) {
  Span open = parse_span(p);
  size_t open_token = p->i;
  unsigned brackets = p->brackets;
  p->brackets = 0;
  parse_advance(p);
  AstBlock block = parse_statements(p, true, open);
  p->start = open_token;
  if (parse_at(p, T_RBRACE)) {
    note_odd_close(p, open_token, p->i);
    p->brackets = brackets;
    parse_advance(p);
  } else if (parse_at(p, T_EOF)) {
    parse_unclosed(p, open);
  }
  block.span = parse_span_from(p, open);
  return block;
}

/* A block is read even after a faulty header, so that the faults in it are told too. */
AstBlock parse_block(Parser *p, const char *what) {
  AstBlock none = {.span = parse_span(p)};
  /* The brace may stand on a line of its own. */
  if (parse_at(p, T_NEWLINE) && parse_token(p, 0)->kind == T_LBRACE)
    parse_advance(p);
  if (!parse_at(p, T_LBRACE))
    parse_hint_brace(p, what);
  if (p->failed && !recover_to_block(p))
    return none;
  if (p->blocks >= AST_MAX_BLOCK_DEPTH) {
    parse_too_deep(p, parse_span(p));
    return none;
  }
  if (!parse_enter(p))
    return none;
  p->blocks++;
  AstBlock block = in_braces(p);
  p->blocks--;
  parse_leave(p);
  return block;
}
