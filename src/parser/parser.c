/* parser.c: the token stream, faults, recovery's small steps, and the ways in.
 *
 * In: the tokens of a file. Out: an AstFile. The grammar itself is in expr.c, decl.c, stmt.c and
 * item.c; this file holds what all of them stand on (state.h). Always holds: parse_advance moves on
 * or the stream has failed, so every loop over the grammar ends.
 *
 * A fault is told once a statement and then hides: the stream shows T_ERROR, which nothing accepts,
 * until the statement has been unwound and block.c has found the next one. At the prompt a fault at
 * the end of the text, with none before it, is no fault: the text is PENDING.
 * Tests: tests/unit/check_parser.c, tests/fuzz/fuzz_parser.c.
 */
#include "parser.h"

#include <string.h>

#include "state.h"

/* ---- the stream ---- */

/* A failed stream shows a token that no part of the grammar accepts: everything unwinds by itself.
 */
TokenKind parse_kind(const Parser *p) {
  if (p->failed)
    return T_ERROR;
  return p->newline ? T_NEWLINE : (TokenKind)p->t.v[p->i].kind;
}

/* Looking past the end shows the end. */
const Token *parse_token(const Parser *p, size_t ahead) {
  size_t left = p->t.n - 1 - p->i;
  return &p->t.v[p->i + (ahead < left ? ahead : left)];
}

/* By bytes: names that are not words of ours are not interned for this. */
static bool spells(const Parser *p, const Token *t, const char *word) {
  size_t n = strlen(word);
  return t->kind == T_NAME && t->end - t->begin == n &&
         memcmp(p->t.file->text + t->begin, word, n) == 0;
}

/* Such words stay ordinary names everywhere else. */
bool parse_at_word(const Parser *p, const char *word) {
  return parse_at(p, T_NAME) && spells(p, parse_token(p, 0), word);
}

/* Reports, or forgets, the lexical faults of the tokens up to the one shown. */
static void flush_faults(Parser *p, bool report) {
  for (; p->fault < p->t.nfaults && p->t.faults[p->fault].token <= p->i; p->fault++) {
    const LexFault *f = &p->t.faults[p->fault];
    if (f->kind == LEX_LUA && p->in->prompt && p->in->diags->errors == p->errors)
      p->pending = p->stopped = true;
    if (report && !p->stopped)
      lex_report(&p->t, f, p->in->diags);
  }
}

/* Decided when a token is reached, because it depends on the brackets that are open then. */
static void settle(Parser *p) {
  p->newline = p->t.v[p->i].newline && p->brackets == 0;
}

/* The line end before a token is a step of its own. The last token is never left. */
void parse_advance(Parser *p) {
  if (p->failed)
    return;
  if (p->newline) {
    p->newline = false;
    return;
  }
  if (p->t.v[p->i].faulty)
    flush_faults(p, true);
  if (p->i + 1 < p->t.n)
    p->i++;
  settle(p);
}

/* The usual way to read what may be left out. */
bool parse_accept(Parser *p, TokenKind kind) {
  if (!parse_at(p, kind))
    return false;
  parse_advance(p);
  return true;
}

/* For the few places where a line may end although nothing is open. */
void parse_skip_newlines(Parser *p) {
  while (parse_at(p, T_NEWLINE))
    parse_advance(p);
}

/* Tokens keep offsets only; the file is the same for all of them. */
static Span token_span(const Parser *p, const Token *t) {
  return (Span){p->t.file, t->begin, t->end};
}

/* A missing thing at the end of a line is shown there, not at the next line's first token. */
Span parse_span(const Parser *p) {
  if (p->newline && p->i > 0) { /* just behind the line's last token */
    uint32_t end = p->t.v[p->i - 1].end;
    return (Span){p->t.file, end, end};
  }
  return token_span(p, &p->t.v[p->i]);
}

/* What was just read ends with the token before the one shown. */
Span parse_span_from(const Parser *p, Span begin) {
  if (p->i > 0 && p->t.v[p->i - 1].end > begin.begin)
    begin.end = p->t.v[p->i - 1].end;
  return begin;
}

/* Interned, so that later stages compare names by pointer. */
const char *parse_text(const Parser *p, const Token *t) {
  return names_get(p->in->names, p->t.file->text + t->begin, t->end - t->begin);
}

/* ---- faults ---- */

__attribute__((format(printf, 4, 0))) static Diag *report(Parser *p, DiagCode code, Span span,
                                                          const char *fmt, va_list ap) {
  const char *text = arena_vprintf(p->in->diags->arena, fmt, ap);
  return diag_add(p->in->diags, code, span, "%s", text);
}

/* The first fault of a statement is the one that means something; the rest would be its echo. */
Diag *parse_fail(Parser *p, DiagCode code, Span span, const char *fmt, ...) {
  if (p->failed || p->stopped)
    return NULL;
  va_list ap;
  va_start(ap, fmt);
  Diag *d = report(p, code, span, fmt, ap);
  va_end(ap);
  p->failed = true;
  return d;
}

/* The token before is a string that its line does not close: reported, and what follows was meant
 * to follow it. */
static bool after_open_string(const Parser *p) {
  if (p->i == 0 || p->t.v[p->i - 1].kind != T_STRING)
    return false;
  const Token *t = &p->t.v[p->i - 1];
  const char *s = p->t.file->text;
  return t->end - t->begin < 2 || s[t->end - 1] != s[t->begin];
}

Diag *parse_fail_here(Parser *p, DiagCode code, const char *fmt, ...) {
  if (p->failed || p->stopped)
    return NULL;
  if (after_open_string(p)) {
    p->failed = true;
    return NULL;
  }
  TokenKind kind = parse_kind(p);
  if (kind == T_EOF && p->in->prompt && p->in->diags->errors == p->errors)
    p->pending = p->stopped = true;
  size_t before = p->in->diags->errors;
  if (kind == T_ERROR)
    flush_faults(p, true);
  p->failed = true;
  if (p->stopped || p->in->diags->errors > before)
    return NULL;
  va_list ap;
  va_start(ap, fmt);
  Diag *d = report(p, code, parse_span(p), fmt, ap);
  va_end(ap);
  return d;
}

/* Nothing stops: the statement is whole, only wrong. */
Diag *parse_warn(Parser *p, DiagCode code, Span span, const char *fmt, ...) {
  if (p->failed || p->stopped)
    return NULL;
  va_list ap;
  va_start(ap, fmt);
  Diag *d = report(p, code, span, fmt, ap);
  va_end(ap);
  return d;
}

/* NULL means that the fault was not told, so its hint is not either. */
void parse_hint(Parser *p, Diag *d, const char *fmt, ...) {
  if (!d)
    return;
  va_list ap;
  va_start(ap, fmt);
  diag_hint(p->in->diags, d, "%s", arena_vprintf(p->in->diags->arena, fmt, ap));
  va_end(ap);
}

/* Without text the place is only underlined. */
void parse_also(Parser *p, Diag *d, Span span, const char *text) {
  if (d && text)
    diag_also(p->in->diags, d, span, "%s", text);
  else if (d)
    diag_also(p->in->diags, d, span, NULL);
}

/* Long names and numbers are cut: the line is shown anyway. */
const char *parse_found(Parser *p) {
  const Token *t = parse_token(p, 0);
  TokenKind kind = parse_kind(p);
  int n = (int)(t->end - t->begin > 40 ? 40 : t->end - t->begin);
  const char *s = p->t.file->text + t->begin;
  if (kind == T_NAME)
    return arena_printf(p->in->diags->arena, "the name `%.*s`", n, s);
  if (kind == T_INT || kind == T_FLOAT)
    return arena_printf(p->in->diags->arena, "the number %.*s", n, s);
  return lex_describe(kind);
}

/* Our own limit makes the tree's promise, the guard's protects the stack of whoever called. */
bool parse_enter(Parser *p) {
  if (p->level < AST_MAX_EXPR_DEPTH && guard_enter(arena_guard(p->arena))) {
    p->level++;
    return true;
  }
  parse_too_deep(p, parse_span(p));
  return false;
}

/* Recovery would meet the same nest again, so reading ends. */
void parse_too_deep(Parser *p, Span span) {
  Diag *d = parse_fail(p, E0037, span, "this is nested too deeply");
  parse_hint(p, d, "give parts of it names of their own with `let` or `fn`");
  p->failed = p->stopped = true;
}

/* Keeps our count and the guard's together. */
void parse_leave(Parser *p) {
  p->level--;
  guard_leave(arena_guard(p->arena));
}

/* ---- brackets and names ---- */

/* The token behind it is reached with the bracket open already: a line end there means nothing. */
Bracket parse_open(Parser *p) {
  Bracket b = {parse_at(p, T_LPAREN) ? T_RPAREN : T_RBRACKET, parse_span(p), p->inner};
  p->brackets++;
  p->inner = b.open;
  parse_advance(p);
  return b;
}

/* Often the bracket stands lines above the place where something was missed. */
void parse_still_open(Parser *p, Diag *d) {
  if (d && p->brackets > 0)
    parse_also(p, d, p->inner,
               arena_printf(p->arena, "this `%c` is still open", p->t.file->text[p->inner.begin]));
}

/* The name just before. */
static bool stands_before(const Parser *p, const char *word) {
  const Token *t = p->i > 0 ? &p->t.v[p->i - 1] : NULL;
  return t && t->kind == T_NAME && strcmp(parse_text(p, t), word) == 0;
}

/* The token behind it is reached with the bracket closed: a line end there ends a statement. */
void parse_close(Parser *p, Bracket b) {
  if (parse_at(p, b.close)) {
    p->brackets--;
    p->inner = b.outer;
    parse_advance(p);
    return;
  }
  if (parse_hint_operator(p))
    return;
  if (b.close == T_RPAREN && parse_at(p, T_COLON)) {
    parse_hint(p, parse_fail_here(p, E0049, "a slice outside an index"),
               "slices stand in [ ]: x[a:b]");
    return;
  }
  Diag *d = parse_fail_here(p, E0021, "expected `,` or %s, found %s", lex_describe(b.close),
                            parse_found(p));
  parse_still_open(p, d);
  const char *string = parse_hint_string(p);
  if (string)
    parse_hint(p, d, "%s", string);
  else if (parse_at(p, T_ERROR) && b.close == T_RBRACKET && parse_token(p, 0)->kind == T_FOR)
    parse_hint(p, d, "a loop makes a list: for i in range(n) { x += [i] }");
  else if (stands_before(p, "lambda"))
    parse_hint(p, d, "%s", parse_hint_foreign_word("lambda"));
  else if (d && parse_token(p, 0)->kind == T_ASSIGN)
    parse_hint(p, d, "`=` gives an argument by name, as in f(x, axis = 1); to compare, write `==`");
}

/* A comma just before the end is allowed and adds nothing. */
bool parse_more(Parser *p, Bracket b) {
  return parse_accept(p, T_COMMA) && !parse_at(p, b.close);
}

/* A reserved word in a name's place is the commonest mistake, so it has words of its own. */
AstName parse_name(Parser *p, const char *what) {
  AstName name = {"", parse_span(p)};
  if (parse_at(p, T_NAME)) {
    name.text = parse_text(p, parse_token(p, 0));
    parse_advance(p);
    return name;
  }
  TokenKind kind = parse_kind(p);
  const char *word = lex_spelling(kind);
  if (word && lex_word(word, strlen(word)) == kind) {
    Diag *d =
        parse_fail(p, E0030, name.span, "`%s` is a reserved word and cannot be %s", word, what);
    parse_hint(p, d, "choose another name, such as `%s_`", word);
  } else {
    Diag *d = parse_fail_here(p, E0029, "expected %s, found %s", what, parse_found(p));
    TokenKind first = p->t.v[p->start].kind;
    if (kind == T_LPAREN && (first == T_LET || first == T_VAR))
      parse_hint(p, d, "names stand without parentheses: let a, b = (1, 2)");
  }
  return name;
}

/* ---- the ways in ---- */

/* Everything is cut before anything is parsed: the grammar may look ahead as far as it likes. */
static Parser start(const ParseInput *in) {
  Parser p = {.in = in, .arena = in->arena, .errors = in->diags->errors};
  p.t = lex_file(in->arena, in->file);
  settle(&p);
  return p;
}

/* Lexical faults behind the last token, in a comment at the end, are still to be told. */
static ParseStatus finish(Parser *p) {
  if (!p->pending && !p->stopped) {
    p->i = p->t.n - 1;
    flush_faults(p, p->in->diags->errors == p->errors);
  }
  if (p->pending)
    return PARSE_PENDING;
  return p->in->diags->errors > p->errors ? PARSE_ERROR : PARSE_OK;
}

/* The body may be incomplete after an error; its span never is. */
ParseStatus parse_file(const ParseInput *in, AstFile **out) {
  Parser p = start(in);
  AstFile *f = ARENA_NEW(in->arena, AstFile);
  f->file = in->file;
  f->tokens = p.t;
  f->body = parse_statements(&p, false, (Span){in->file, 0, 0});
  f->body.span = (Span){in->file, 0, (uint32_t)in->file->n};
  f->quiet = p.t.n > 1 && p.t.v[p.t.n - 2].kind == T_SEMICOLON;
  *out = f;
  return finish(&p);
}
