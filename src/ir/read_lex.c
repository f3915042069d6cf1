/* read_lex.c: tokens of the IR's text.
 *
 * In: the file. Out: one token at a time; white space, `;` and `#` comments skipped. Always holds:
 * a token lies within the file whatever its bytes; a bad one is reported once and skipped.
 * Tests: tests/unit/check_ir.c, tests/fuzz.
 */
#include <stdarg.h>

#include "read.h"

/* Where the text ends in the middle, every open block would say the same of the same place. */
static bool said(const DiagSink *sink, DiagCode code, Span at, const char *text) {
  const Diag *last = sink->n ? sink->v[sink->n - 1] : NULL;
  return last && last->code == code && last->span.file == at.file && last->span.begin == at.begin &&
         strcmp(last->text, text) == 0;
}

/* Counted apart from the sink, which others may have filled before.
 * `at` need not be the current token. */
void ir_read_error(Reader *r, DiagCode code, Span at, const char *fmt, ...) {
  Str text = str_new(r->sink->arena);
  va_list ap;
  va_start(ap, fmt);
  str_vaddf(&text, fmt, ap);
  va_end(ap);
  r->errors++;
  if (!said(r->sink, code, at, str_text(&text)))
    diag_add(r->sink, code, at, "%s", str_text(&text));
}

/* ---------------------------------------------------------------- characters */

/* NUL past the end; a NUL inside the text is no token either.
 * So that no look ahead needs a test of its own. */
static char peek(const Reader *r, size_t ahead) {
  return r->at + ahead < r->file->n ? r->file->text[r->at + ahead] : '\0';
}

/* ASCII only, whatever the locale. */
static bool is_alpha(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
static bool is_word(char c) {
  return is_alpha(c) || is_digit(c);
}

static bool ends_line(char c) {
  return c == '\n' || c == '\r';
}

/* Lines are counted here and nowhere else.
 * Semicolons are white space: statements end where their grammar does. */
static void skip_space(Reader *r) {
  while (r->at < r->file->n) {
    char c = r->file->text[r->at];
    if (c == '\n' || (c == '\r' && peek(r, 1) != '\n'))
      r->line++;
    if (c == '#') {
      while (r->at < r->file->n && !ends_line(r->file->text[r->at]))
        r->at++;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ';') {
      r->at++;
    } else {
      return;
    }
  }
}

/* Up to where the reader is now. */
static Span span_from(const Reader *r, size_t begin) {
  return (Span){r->file, (uint32_t)begin, (uint32_t)r->at};
}

/* ---------------------------------------------------------------- numbers */

/* `:u32` right after a number, if a dtype's name follows.
 * `x:+4` has no dtype after the colon and is left alone. */
static DType read_suffix(Reader *r) {
  if (peek(r, 0) != ':' || !is_alpha(peek(r, 1)))
    return DT_NONE;
  size_t n = 1;
  while (is_word(peek(r, n)))
    n++;
  DType t;
  if (!dtype_parse(r->file->text + r->at + 1, n - 1, &t))
    return DT_NONE;
  r->at += n;
  return t;
}

/* 16 for what is no digit in any base. */
static unsigned digit_value(char c) {
  if (is_digit(c))
    return (unsigned)(c - '0');
  if (c >= 'a' && c <= 'f')
    return (unsigned)(c - 'a') + 10;
  return c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10 : 16;
}

/* Digits of a base, `_` between them allowed; false if the value passes 2^64 - 1.
 * Reading goes on past an overflow, so that one number is one message. */
static bool read_digits(Reader *r, unsigned base, uint64_t *value) {
  bool fits = true;
  *value = 0;
  for (; peek(r, 0) == '_' || digit_value(peek(r, 0)) < base; r->at++) {
    if (peek(r, 0) == '_')
      continue;
    fits &= !__builtin_mul_overflow(*value, (uint64_t)base, value);
    fits &= !__builtin_add_overflow(*value, (uint64_t)digit_value(peek(r, 0)), value);
  }
  return fits;
}

/* A point or an exponent, with digits after it: `1.` and `1e` are no floats.
 * Looks ahead only; nothing is taken. */
static bool float_follows(const Reader *r) {
  size_t n = 0;
  while (is_digit(peek(r, n)))
    n++;
  if (peek(r, n) == '.')
    return is_digit(peek(r, n + 1));
  if (peek(r, n) != 'e' && peek(r, n) != 'E')
    return false;
  n += peek(r, n + 1) == '-' || peek(r, n + 1) == '+' ? 2 : 1;
  return is_digit(peek(r, n));
}

/* 0x… or decimal; the value must fit in 64 bits, its type is checked where it is used.
 * A suffix belongs to the token, so `3:u32` is one. */
static void lex_number(Reader *r, Token *t) {
  size_t begin = r->at;
  if (float_follows(r)) {
    const char *end;
    t->kind = TK_FLOAT;
    t->f = str_read_f64(r->file->text + begin, &end);
    r->at = (size_t)(end - r->file->text);
  } else {
    unsigned base = peek(r, 0) == '0' && (peek(r, 1) == 'x' || peek(r, 1) == 'X') ? 16 : 10;
    r->at += base == 16 ? 2 : 0;
    t->kind = TK_INT;
    if (!read_digits(r, base, &t->u))
      ir_read_error(r, E0602, span_from(r, begin), "the number does not fit in 64 bits");
  }
  t->suffix = read_suffix(r);
}

/* ---------------------------------------------------------------- strings */

/* False: the backslash stands for itself.
 * NUL bytes become `?`: texts are C strings. */
static bool read_escape(Reader *r, Str *out) {
  char c = peek(r, 1);
  const char *from = "ntr0\"\\", *to = "\n\t\r\0\"\\", *found = c ? strchr(from, c) : NULL;
  if (c == 'x' && digit_value(peek(r, 2)) < 16 && digit_value(peek(r, 3)) < 16) {
    char byte = (char)(digit_value(peek(r, 2)) * 16 + digit_value(peek(r, 3)));
    str_addc(out, byte ? byte : '?'); /* texts are C strings */
    r->at += 4;
    return true;
  }
  if (!found)
    return false;
  str_addc(out, c == '0' ? '?' : to[found - from]);
  r->at += 2;
  return true;
}

/* On one line, as in the language.
 * The text is kept with its escapes resolved. */
static void lex_string(Reader *r, Token *t) {
  Str out = str_new(r->arena);
  size_t begin = r->at++;
  t->kind = TK_STRING;
  while (peek(r, 0) != '"') {
    if (r->at >= r->file->n || ends_line(peek(r, 0))) {
      ir_read_error(r, E0602, span_from(r, begin), "the string is not closed on its line");
      t->kind = TK_BAD;
      break;
    }
    if (peek(r, 0) == '\\' && read_escape(r, &out))
      continue;
    str_addc(&out, peek(r, 0) ? peek(r, 0) : '?');
    r->at++;
  }
  if (t->kind == TK_STRING)
    r->at++;
  t->string = str_text(&out);
}

/* ---------------------------------------------------------------- tokens */

/* Two characters before one, so that `//` is no division twice.
 * A byte of a longer character takes the rest with it. */
static void lex_punct(Reader *r, Token *t) {
  static const char *const two[] = {"==", "!=", "<=", ">=", "<<", ">>", "//", "->", "+="};
  size_t begin = r->at;
  t->kind = TK_PUNCT;
  for (size_t i = 0; i < sizeof two / sizeof *two; i++)
    if (peek(r, 0) == two[i][0] && peek(r, 1) == two[i][1]) {
      r->at += 2;
      return;
    }
  char c = peek(r, 0);
  r->at++;
  if (c && strchr("(){}[],:.=<>+-*/%&|^~@", c))
    return;
  while (((unsigned char)peek(r, 0) & 0xc0) == 0x80)
    r->at++; /* the rest of a character */
  t->kind = TK_BAD;
  ir_read_error(r, E0602, span_from(r, begin), "no token begins with this character");
}

/* inf and nan may carry a suffix like numbers.
 * `inf:f64` is one token. */
static void lex_name(Reader *r, Token *t) {
  size_t begin = r->at;
  while (is_word(peek(r, 0)))
    r->at++;
  t->kind = TK_NAME;
  size_t n = r->at - begin;
  if (n == 3 &&
      (!memcmp(r->file->text + begin, "inf", 3) || !memcmp(r->file->text + begin, "nan", 3)))
    t->suffix = read_suffix(r);
}

/* Bad characters are reported and skipped, so the parser never sees them. */
void ir_tok_next(Reader *r) {
  r->last = r->tok;
  do {
    skip_space(r);
    Token t = {.kind = TK_END, .suffix = DT_NONE, .line = r->line};
    size_t begin = r->at;
    if (r->at < r->file->n) {
      char c = peek(r, 0);
      if (is_alpha(c))
        lex_name(r, &t);
      else if (is_digit(c))
        lex_number(r, &t);
      else if (c == '"')
        lex_string(r, &t);
      else
        lex_punct(r, &t);
    }
    t.text = r->file->text + begin;
    t.n = r->at - begin;
    t.span = span_from(r, begin);
    r->tok = t;
  } while (r->tok.kind == TK_BAD);
}

/* Tokens are compared as they stand in the file; nothing is copied. */
static bool text_is(const Token *t, TokenKind kind, const char *text) {
  return t->kind == kind && t->n == strlen(text) && memcmp(t->text, text, t->n) == 0;
}

bool ir_tok_is(const Reader *r, const char *punct) {
  return text_is(&r->tok, TK_PUNCT, punct);
}
bool ir_tok_word(const Reader *r, const char *word) {
  return text_is(&r->tok, TK_NAME, word);
}

/* Takes the token if it is this one. */
bool ir_tok_accept(Reader *r, const char *punct) {
  bool yes = ir_tok_is(r, punct);
  if (yes)
    ir_tok_next(r);
  return yes;
}

bool ir_tok_accept_word(Reader *r, const char *word) {
  bool yes = ir_tok_word(r, word);
  if (yes)
    ir_tok_next(r);
  return yes;
}

/* Once a statement: what follows a syntax error in it says nothing.
 * Long tokens are cut in the message. */
void ir_read_unexpected(Reader *r, const char *wanted) {
  if (r->broken)
    return;
  r->broken = true;
  if (r->tok.kind == TK_END)
    ir_read_error(r, E0601, r->tok.span, "expected %s, but the text ends here", wanted);
  else
    ir_read_error(r, E0601, r->tok.span, "expected %s, not `%.*s`", wanted,
                  (int)(r->tok.n > 40 ? 40 : r->tok.n), r->tok.text);
}

/* Takes it, or reports and marks the statement broken; callers give up at once. */
bool ir_tok_expect(Reader *r, const char *punct) {
  if (ir_tok_accept(r, punct))
    return true;
  ir_read_unexpected(r, arena_printf(r->arena, "`%s`", punct));
  return false;
}

bool ir_tok_expect_word(Reader *r, const char *word) {
  if (ir_tok_accept_word(r, word))
    return true;
  ir_read_unexpected(r, arena_printf(r->arena, "`%s`", word));
  return false;
}

/* Interned, so that names can be compared and kept. */
const char *ir_tok_name(Reader *r, const char *what) {
  if (r->tok.kind != TK_NAME) {
    ir_read_unexpected(r, what);
    return NULL;
  }
  const char *name = names_get(r->names, r->tok.text, r->tok.n);
  ir_tok_next(r);
  return name;
}

/* dtypes are no keywords: a variable may be called f32. */
DType ir_tok_dtype(Reader *r) {
  DType t;
  if (r->tok.kind != TK_NAME || !dtype_parse(r->tok.text, r->tok.n, &t)) {
    ir_read_unexpected(r, "a dtype");
    return DT_NONE;
  }
  ir_tok_next(r);
  return t;
}

/* For numbers that are part of the statement, not values: stages, warps, offsets.
 * A sign is part of the number; out of range is an error and gives lo. */
int64_t ir_tok_int(Reader *r, int64_t lo, int64_t hi, const char *what) {
  bool minus = ir_tok_accept(r, "-");
  if (r->tok.kind != TK_INT) {
    ir_read_unexpected(r, what);
    return lo;
  }
  Token t = r->tok;
  ir_tok_next(r);
  bool fits = t.u <= (uint64_t)INT64_MAX;
  int64_t v = fits ? (minus ? -(int64_t)t.u : (int64_t)t.u) : 0;
  if (fits && v >= lo && v <= hi)
    return v;
  ir_read_error(r, E0602, t.span, "%s lies between %lld and %lld", what, (long long)lo,
                (long long)hi);
  return lo;
}
