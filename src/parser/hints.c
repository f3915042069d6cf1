/* hints.c: what a reader who knows other languages meant.
 *
 * In: the stream where the grammar does not go on. Out: one diagnostic whose hint shows how the
 * tile language writes it. Only faults come here, so correct programs pay nothing. A hint is legal
 * where it shows a piece of program, and never claims more than the tokens say: it is a guess. The
 * guess that explains most is tried first.
 *
 * Tests: tests/errors.
 */
#include <string.h>

#include "state.h"

/* Words of Python, C, CUDA, Lua and their like; all of them may be names here, so only faults ask.
 */
const char *parse_hint_foreign_word(const char *word) {
  static const NamePair rows[] = {
      /* functions and blocks */
      {"def", "functions are written fn name(x: f32) -> f32 { … }"},
      {"function", "functions are written fn name(x: f32) -> f32 { … }"},
      {"func", "functions are written fn name(x: f32) -> f32 { … }"},
      {"lambda", "functions have names: fn name(x: f32) -> f32 { return … }"},
      {"elif", "write else if c { … }"},
      {"elsif", "write else if c { … }"},
      {"elseif", "write else if c { … }"},
      {"then", "the block stands in { }: if c { … }"},
      {"do", "the block stands in { }: for i in range(n) { … }"},
      {"end", "blocks end with }"},
      {"begin", "blocks stand in { }"},
      {"pass", "an empty block is { }"},
      {"with", "nothing is opened or closed: grid x, y = … begins a kernel's body"},
      /* declarations */
      {"const", "a name that does not change is bound with let: let n = 3"},
      {"auto", "names are bound with let: let n = 3"},
      {"val", "names are bound with let: let n = 3"},
      {"class", "there are kernels and functions only"},
      {"struct", "there are kernels and functions only"},
      /* modules and control */
      {"from", "write import matmul, then use matmul.name"},
      {"include", "write import \"file.tile\" as f"},
      {"using", "write import matmul, then use matmul.name"},
      {"try", "there are no exceptions; assert stops the program"},
      {"raise", "there are no exceptions; assert stops the program"},
      {"throw", "there are no exceptions; assert stops the program"},
      {"switch", "write if x == 1 { … } else if x == 2 { … }"},
      {"match", "write if x == 1 { … } else if x == 2 { … }"},
      {"case", "write if x == 1 { … } else if x == 2 { … }"},
      {"foreach", "write for x in list { … }"},
      {"until", "write while not c { … }"},
      {"repeat", "write while true { … break … }"},
      {"loop", "write while true { … break … }"},
      {"unless", "write if not c { … }"},
      {"global", "a function sees the names of its file; arguments and results carry values"},
      {"del", "names end with their block"},
      /* CUDA and C */
      {"__global__", "kernels are written kernel name(A: f32[N]) -> (B: f32[N]) { … }"},
      {"__shared__", "write shared As: f32[BM, BK]"},
      {"void", "functions are written fn name(x: f32) { … }"},
      {"int", "names are bound with let: let n = 3, or var n: i32 = 3"},
      {"float", "names are bound with let: let x = 1.5, or var x: f32 = 1.5"},
      {"double", "names are bound with let: let x = 1.5, or var x: f64 = 1.5"},
  };
  return names_here(word, rows, sizeof rows / sizeof *rows);
}

/* ---- operators ---- */

/* The lexer reads these operators as tokens for this one purpose. */
bool parse_hint_operator(Parser *p) {
  static const char *const hints[T_COUNT] = {
      [T_BAD_NOT] = "write `not`",
      [T_BAD_AND] = "write `and`; on tensors and tiles, `&`",
      [T_BAD_OR] = "write `or`; on tensors and tiles, `|`",
      [T_BAD_DOTDOT] = "a range is range(a, b); a slice is x[a:b], all of an axis is x[:]",
      [T_BAD_QUESTION] = "write x if c else y",
      [T_BAD_WALRUS] = "bind the name before, with `let`",
      [T_BAD_EQ3] = "write `==`",
      [T_BAD_NE3] = "write `!=`",
      [T_BAD_LTGT] = "write `!=`",
      [T_BAD_FATARROW] = "write `->`, or `>=` to compare",
      [T_BAD_POW_ASSIGN] = "write x = x ** y",
      [T_BAD_AT_ASSIGN] = "write x = x @ y",
  };
  TokenKind kind = parse_kind(p);
  if (!hints[kind])
    return false;
  Diag *d = parse_fail_here(p, E0011, "there is no operator %s", lex_describe(kind));
  bool declares = kind == T_BAD_WALRUS && p->i == p->start + 1;
  parse_hint(p, d, "%s", declares ? "names are bound with `let`: let x = …" : hints[kind]);
  return true;
}

/* Two signs in a row are legal, but not at the end of a line with nothing between them. */
bool parse_hint_increment(Parser *p) {
  const Token *a = parse_token(p, 0), *b = parse_token(p, 1), *c = parse_token(p, 2);
  if ((a->kind != T_PLUS && a->kind != T_MINUS) || b->kind != a->kind || b->spaced)
    return false;
  bool ends = c->line_start || c->kind == T_SEMICOLON || c->kind == T_RBRACE ||
              c->kind == T_RPAREN || c->kind == T_EOF;
  if (!ends)
    return false;
  const char *op = a->kind == T_PLUS ? "+" : "-";
  Span span = {p->t.file, a->begin, b->end};
  parse_hint(p, parse_fail(p, E0067, span, "there is no operator `%s%s`", op, op), "write x %s= 1",
             op);
  return true;
}

/* f"…", r"…" and their like, and Python's strings of several lines: what is meant instead. */
const char *parse_hint_string(const Parser *p) {
  const Token *string = parse_token(p, 0), *before = p->i > 0 ? &p->t.v[p->i - 1] : NULL;
  if (!before || string->kind != T_STRING || string->spaced)
    return NULL;
  if (before->kind == T_NAME)
    return "strings have no prefix; print takes several values: print(\"x =\", x)";
  if (before->kind == T_STRING && before->end - before->begin == 2)
    return "a string stands on one line; a line break in it is written \\n";
  return NULL;
}

/* `//` or `/ *` where a comment of another language seems to begin. */
static bool comment_like(const Parser *p, size_t i) {
  const Token *a = &p->t.v[i], *b = &p->t.v[i + (i + 1 < p->t.n)];
  return a->kind == T_FLOORDIV || (a->kind == T_SLASH && !b->spaced && b->kind == T_STAR) ||
         (a->kind == T_MINUS && !b->spaced && b->kind == T_MINUS);
}

/* Behind the end of a comment that begins like C's: nothing in it is to be read. */
static size_t after_comment(const Parser *p, size_t i) {
  for (size_t k = i + 2; p->t.v[i].kind == T_SLASH && k + 1 < p->t.n; k++)
    if (p->t.v[k].kind == T_STAR && p->t.v[k + 1].kind == T_SLASH && !p->t.v[k + 1].spaced)
      return k + 2 < p->t.n ? k + 2 : k + 1;
  return p->i;
}

/* Reported at the place where the comment seems to begin. */
static bool hint_comment(Parser *p, size_t i) {
  if (p->failed || !comment_like(p, i))
    return false;
  Span span = {p->t.file, p->t.v[i].begin, p->t.v[i].end};
  parse_hint(p, parse_fail(p, E0064, span, "this looks like a comment of another language"),
             "comments begin with `#`");
  p->i = after_comment(p, i);
  return true;
}

/* What stands before this token began a comment, and this is its first word. */
static bool hint_comment_before(Parser *p) {
  TokenKind kind = parse_kind(p);
  const char *word = lex_spelling(kind);
  if (p->i == p->start || !word || lex_word(word, strlen(word)) != kind)
    return false;
  if (p->i - 1 > p->start && comment_like(p, p->i - 2) && p->t.v[p->i - 2].kind != T_FLOORDIV)
    return hint_comment(p, p->i - 2);
  return p->t.v[p->i - 1].kind == T_FLOORDIV && hint_comment(p, p->i - 1);
}

/* ---- where an expression was wanted ---- */

/* What to write instead, or NULL where nothing can be guessed. */
static const char *operand_hint(Parser *p, TokenKind kind) {
  const Token *before = p->i > 0 ? &p->t.v[p->i - 1] : NULL;
  if (kind == T_NONE)
    return "`None` only stands in an index, where it makes a new axis; no value is `nil`";
  if (kind == T_NOT)
    return "put it in parentheses: x == (not y)";
  if (kind == T_IF)
    return "a conditional value is x if c else y";
  if (kind == T_LBRACE)
    return "lists stand in [ ]; there are no sets or tables";
  if (kind == T_STAR || kind == T_POW)
    return "lists are not spread into arguments; write the elements out";
  if (kind == T_COLON)
    return "slices only stand in an index: x[a:b]";
  if (kind == T_AMP)
    return "an element needs no &: atomic_add(C[i, j], v)";
  if (before && before->kind == T_ASSIGN && kind == T_ASSIGN)
    return "to compare, write `==`";
  if (before && lex_joins(before->kind) && parse_token(p, 0)->line_start)
    return arena_printf(p->arena, "the line above goes on here, because it ends with %s",
                        lex_describe(before->kind));
  return NULL;
}

/* The likeliest mistakes first; a general message if none of them fits. */
void parse_hint_operand(Parser *p) {
  if (p->failed || parse_hint_operator(p) || (p->i == p->start && hint_comment(p, p->i)) ||
      hint_comment_before(p))
    return;
  TokenKind kind = parse_kind(p);
  DiagCode code = kind == T_NONE ? E0050 : kind == T_COLON ? E0049 : E0020;
  const char *hint = operand_hint(p, kind);
  Diag *d = kind == T_NONE
                ? parse_fail_here(p, code, "`None` is no value")
                : parse_fail_here(p, code, "expected an expression, found %s", parse_found(p));
  if (kind == T_EOF || kind == T_RBRACE || parse_token(p, 0)->line_start)
    parse_still_open(p, d);
  if (hint)
    parse_hint(p, d, "%s", hint);
}

/* ---- where a statement should have ended ---- */

/* The reserved word that the statement's first name was meant to be: `kernal f(…)`. */
static const char *misspelt(const char *word) {
  static const char *const words[] = {
#define WORD(kind, text) text,
#include "lexer/tokens.def"
  };
  return names_closest(word, words, sizeof words / sizeof *words);
}

/* The statement began with a name, and the next token follows it as no operator does. */
static bool hint_first_word(Parser *p) {
  const Token *first = &p->t.v[p->start];
  if (first->kind != T_NAME)
    return false;
  const char *word = parse_text(p, first);
  const char *hint = parse_hint_foreign_word(word);
  Span span = {p->t.file, first->begin, first->end};
  bool next = p->i == p->start + 1;
  const char *close = next ? misspelt(word) : NULL;
  DType type;
  if (hint || (next && parse_at(p, T_NAME) && dtype_parse(word, strlen(word), &type))) {
    Diag *d = parse_fail(p, E0053, span, "`%s` does not begin a statement", word);
    parse_hint(p, d, "%s", hint ? hint : "names are bound with let, or var x: f32 = 1.5");
    return true;
  }
  if (close) {
    Diag *d = parse_fail(p, E0053, span, "`%s` does not begin a statement", word);
    parse_hint(p, d, "did you mean `%s`?", close);
    return true;
  }
  return false;
}

/* A word of another language stands just before, or after a block: `} elif c {`. */
static bool hint_word_before(Parser *p) {
  const Token *t = p->i > 0 ? &p->t.v[p->i - 1] : NULL;
  if (t && t->kind == T_RBRACE && parse_at(p, T_NAME))
    t = parse_token(p, 0);
  const char *word = t && t->kind == T_NAME ? parse_text(p, t) : NULL;
  if (!word || !parse_hint_foreign_word(word))
    return false;
  Span span = {p->t.file, t->begin, t->end};
  parse_hint(p, parse_fail(p, E0053, span, "`%s` is not a word of the tile language", word), "%s",
             parse_hint_foreign_word(word));
  return true;
}

/* `is`, `in`, `not in` between two values. */
static const char *comparison_hint(const Parser *p) {
  if (parse_at_word(p, "is"))
    return "to compare, write `==` or `!=`";
  if (parse_at(p, T_IN) || (parse_at(p, T_NOT) && parse_token(p, 1)->kind == T_IN))
    return "`in` only stands in a `for`; to search a list, go through it";
  return NULL;
}

/* The same where a statement goes on in a way no operator explains. */
static const char *end_hint(const Parser *p, TokenKind kind) {
  const Token *before = p->i > 0 ? &p->t.v[p->i - 1] : NULL;
  bool call = before && before->kind == T_NAME && p->i == p->start + 1;
  if (kind == T_ASSIGN)
    return "one `=` a statement; to compare, write `==`";
  if (kind == T_COLON && call)
    return "names are declared with `let` or `var`: let x: f32 = …";
  if (kind == T_COLON)
    return "blocks stand in { }";
  if ((kind == T_STRING || kind == T_NAME || kind == T_INT || kind == T_FLOAT) && call)
    return "a call needs parentheses: print(x)";
  if (comparison_hint(p))
    return comparison_hint(p);
  if (kind == T_RPAREN || kind == T_RBRACKET)
    return "there is one closing bracket too many";
  if (before && before->kind == T_RBRACE)
    return "a statement after a block begins on a new line, or after `;`";
  return "end it with a line break or `;`";
}

/* A wrong first word explains more than the token it was noticed at. */
void parse_hint_statement_end(Parser *p) {
  if (p->failed || parse_hint_operator(p) || hint_first_word(p) || hint_word_before(p))
    return;
  for (size_t i = p->start; i < p->i; i++) {
    if (comment_like(p, i) && p->t.v[i].kind != T_MINUS) {
      hint_comment(p, i);
      return;
    }
  }
  TokenKind kind = parse_kind(p);
  if (kind == T_ELSE) {
    parse_hint(p, parse_fail_here(p, E0052, "this `else` belongs to no `if`"),
               "it follows the `}` of an `if`, on its line or the next");
    return;
  }
  DiagCode code = kind == T_RPAREN || kind == T_RBRACKET ? E0024 : E0025;
  const char *string = parse_hint_string(p), *hint = string ? string : end_hint(p, kind);
  Diag *d = parse_fail_here(p, code, "expected the end of the statement, found %s", parse_found(p));
  parse_hint(p, d, "%s", hint);
}

/* ---- where a block was wanted ---- */

/* `fn f(x: f32): f32 {`, as in TypeScript and Kotlin. */
static bool result_type(const Parser *p) {
  const Token *t = parse_token(p, 1);
  return parse_at(p, T_COLON) && t->kind == T_NAME && !t->line_start &&
         p->t.v[p->start].kind == T_FN;
}

/* At the prompt the end of the text is no fault yet: the block may come in the next line. */
void parse_hint_brace(Parser *p, const char *what) {
  if (p->failed || parse_hint_operator(p))
    return;
  TokenKind kind = parse_kind(p);
  const char *hint = comparison_hint(p) ? comparison_hint(p)
                     : result_type(p)
                         ? "a result's type stands behind ->: fn f(x: f32) -> f32 { … }"
                     : kind == T_COLON ? "blocks stand in { }, not behind a colon"
                     : kind == T_ARROW ? "outputs stand before the body: (A: f32[N]) -> (B: f32[N])"
                                       : "blocks stand in { }, also where they hold one statement";
  bool end = kind == T_NEWLINE && parse_token(p, 0)->kind == T_EOF && p->in->prompt;
  if (end) /* at the prompt the block may come in the next line */
    parse_advance(p);
  p->headless = true;
  Diag *d = parse_fail_here(p, E0022, "expected `{` and %s, found %s", what, parse_found(p));
  parse_hint(p, d, "%s", hint);
}
