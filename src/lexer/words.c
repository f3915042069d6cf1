/* words.c: the fixed texts of tokens, the values of literals, and the words for lexical faults.
 *
 * In: tokens made by lexer.c. Out: names and values; diagnostics E0001 to E0014.
 * Values are read only when the parser asks, so a text that is only cut (for colours, for
 * completion) costs no more. Every fault has its own words: what is wrong, and in a hint how it is
 * written here. Tests: tests/unit/check_lexer.c, tests/errors.
 */
#include "lexer.h"

#include <string.h>

#include "chars.h"

static const struct TokenText {
  const char *text;
  bool word, fixed, joins;
} token_text[T_COUNT] = {
#define OTHER(kind, text) [T_##kind] = {text, false, false, false},
#define WORD(kind, text) [T_##kind] = {text, true, true, false},
#define PUNCT(kind, text, joins) [T_##kind] = {text, false, true, joins},
#include "tokens.def"
};

/* A word is looked for only if its length and first letter could be one of ours. */
TokenKind lex_word(const char *s, size_t n) {
  if (n < 2 || n > 10) /* the shortest is `fn`, the longest `specialize` */
    return T_NAME;
  for (TokenKind k = 0; k < T_COUNT; k++) {
    const struct TokenText *t = &token_text[k];
    if (t->word && t->text[0] == s[0] && strlen(t->text) == n && memcmp(t->text, s, n) == 0)
      return k;
  }
  return T_NAME;
}

/* Kinds such as T_NAME have descriptions in the table, which are no spellings. */
const char *lex_spelling(TokenKind kind) {
  return token_text[kind].fixed ? token_text[kind].text : NULL;
}

/* Built by the preprocessor from the same rows, so no text is made at run time. */
const char *lex_describe(TokenKind kind) {
  static const char *const quoted[T_COUNT] = {
#define OTHER(kind, text) [T_##kind] = text,
#define WORD(kind, text) [T_##kind] = "`" text "`",
#define PUNCT(kind, text, joins) [T_##kind] = "`" text "`",
#include "tokens.def"
  };
  return quoted[kind];
}

/* Of the words only those that are operators join lines. */
bool lex_joins(TokenKind kind) {
  return token_text[kind].joins || kind == T_AND || kind == T_OR || kind == T_NOT || kind == T_IF ||
         kind == T_ELSE;
}

/* Digits that do not belong to the base have been reported; they are left out. */
uint64_t lex_int(const Tokens *t, const Token *tok) {
  const char *s = t->file->text + tok->begin, *end = t->file->text + tok->end;
  unsigned base = 10;
  if (end - s > 2 && s[0] == '0' && !lex_is_digit(s[1]) && s[1] != '_') {
    base = s[1] == 'x' || s[1] == 'X' ? 16 : 2;
    s += 2;
  }
  uint64_t value = 0;
  for (; s < end; s++) {
    int d = lex_hex_value(*s);
    if (d >= 0 && (unsigned)d < base)
      value = value * base + (unsigned)d;
  }
  return value;
}

/* Underscores go, and a digit is put where one is missing, so that reading never fails. */
double lex_float(Arena *a, const Tokens *t, const Token *tok) {
  Str text = str_new(a);
  const char *s = t->file->text;
  if (s[tok->begin] == '.')
    str_addc(&text, '0');
  for (size_t i = tok->begin; i < tok->end; i++) {
    if (s[i] != '_')
      str_addc(&text, s[i]);
    if (s[i] == '.' && !lex_is_digit(s[i + 1]))
      str_addc(&text, '0');
  }
  const char *end;
  return str_read_f64(str_text(&text), &end);
}

/* No escape is longer than what it stands for, so the token's own length is room enough. */
const char *lex_string(Arena *a, const Tokens *t, const Token *tok, size_t *n) {
  const char *s = t->file->text + tok->begin + 1, *end = t->file->text + tok->end;
  bool raw = s[-1] != '"';
  if (end > s && end[-1] == s[-1])
    end--;
  char *out = arena_alloc(a, (size_t)(end - s) + 1);
  size_t k = 0;
  while (s < end) {
    size_t len = 0;
    uint32_t value = 0;
    if (*s != '\\' || raw) {
      out[k++] = *s++;
      continue;
    }
    if (lex_escape(s, (size_t)(end - s), &len, &value)) {
      if (s[1] == 'u')
        k += lex_utf8_write(value, out + k);
      else
        out[k++] = (char)value;
    }
    s += len;
  }
  *n = k;
  return out;
}

/* The character at the fault, for the message: itself, or its code where it cannot be shown. */
static void show(Str *out, const char *s, size_t n) {
  if ((unsigned char)*s < 0x20 || *s == 0x7F)
    str_addf(out, "the control character 0x%02x", (unsigned)(unsigned char)*s);
  else
    str_addf(out, "`%.*s`", (int)(n > 40 ? lex_utf8_length(s, n) : n), s);
}

/* The hints tell the three common cases apart: a line's end, another alphabet, a lone quote. */
static void report_character(DiagSink *sink, Span span, const char *s, size_t n) {
  Str what = str_new(sink->arena);
  show(&what, s, n);
  Diag *d = diag_add(sink, E0001, span, "%s has no meaning here", str_text(&what));
  if (*s == '\\')
    diag_hint(sink, d,
              "a line goes on by itself after an operator or a comma and inside ( ) or [ ]");
  else if ((unsigned char)*s >= 0x80)
    diag_hint(sink, d,
              "names are made of A-Z, a-z, 0-9 and `_`; other letters go into strings and "
              "comments");
  else if (*s == '\'' || *s == '`')
    diag_hint(sink, d, "strings stand between \" and \", on one line");
}

/* Of \x and \u the digits are wrong, of anything else the letter. */
static void report_escape(DiagSink *sink, Span span, const char *s, size_t n) {
  bool hex = n > 1 && (s[1] == 'x' || s[1] == 'u');
  bool surrogate = hex && s[1] == 'u' && n == 6;
  Diag *d = surrogate ? diag_add(sink, E0005, span, "`%.*s` is half of a UTF-16 pair, no character",
                                 (int)n, s)
            : hex     ? diag_add(sink, E0005, span, "`\\%c` wants %s hexadecimal digits", s[1],
                             s[1] == 'x' ? "two" : "four")
                      : diag_add(sink, E0005, span, "strings have no escape `%.*s`", (int)n, s);
  diag_hint(sink, d, "the escapes are \\n \\t \\r \\0 \\\\ \\\" \\xHH \\uHHHH");
}

/* The whole number where its base is wrong, else only what should not follow it. */
static void report_number(DiagSink *sink, Span span, const char *s, size_t n) {
  if (*s == '0' && n >= 2 && (s[1] == 'x' || s[1] == 'X' || s[1] == 'b' || s[1] == 'B')) {
    diag_add(sink, E0006, span,
             "`%.*s` is not a number: 0x wants hexadecimal digits, 0b wants 0 or 1",
             (int)(n > 40 ? 40 : n), s);
    return;
  }
  Diag *d = diag_add(sink, E0006, span, "`%.*s` cannot follow a number", (int)(n > 40 ? 40 : n), s);
  if (n == 1 && strchr("fFlLuUdD", *s))
    diag_hint(sink, d, "numbers have no suffix; write a conversion, as in f32(1.5) or u32(7)");
  else if (*s == 'o' || *s == 'O')
    diag_hint(sink, d, "there are no octal numbers; write 0x or 0b");
  else
    diag_hint(sink, d, "a name begins with a letter or `_`; a product is written with `*`");
}

/* Underlines the quote alone: the rest of the line may be anything. */
static void report_unclosed(DiagSink *sink, Span span) {
  span.end = span.begin + 1;
  Diag *d = diag_add(sink, E0004, span, "this string is not closed on its line");
  diag_hint(sink, d, "end it with \"; a line break in a string is written \\n");
}

/* The hint is the number as it should have been written. */
static void report_point(DiagSink *sink, Span span, const char *s) {
  Diag *d = diag_add(sink, E0008, span, "a float has digits on both sides of its point");
  if (*s == '.')
    diag_hint(sink, d, "write 0%.*s", (int)(span.end - span.begin), s);
  else
    diag_hint(sink, d, "write %.*s0", (int)(span.end - span.begin), s);
}

/* What is wrong with the text as such: bytes, names, blocks. */
static void report_text(DiagSink *sink, LexFaultKind kind, Span span) {
  switch (kind) {
  case LEX_UTF8:
    diag_hint(sink, diag_add(sink, E0002, span, "these bytes are not UTF-8"),
              "save the file as UTF-8; any byte of a string can be written \\xHH");
    break;
  case LEX_NUL:
    diag_hint(sink, diag_add(sink, E0003, span, "a NUL byte in the text"),
              "is this a program? in a string a NUL byte is written \\0");
    break;
  case LEX_LONG_NAME:
    span.end = span.begin + 20;
    diag_add(sink, E0009, span, "this name is longer than %d characters", LEX_MAX_NAME);
    break;
  default:
    diag_hint(sink, diag_add(sink, E0010, span, "this block of Lua is never closed"),
              "it ends at the `}` that Lua itself would match: braces in Lua strings and comments "
              "do not count");
    break;
  }
}

/* What is wrong with the digits of a number that is otherwise one. */
static void report_digits(DiagSink *sink, LexFaultKind kind, Span span) {
  if (kind == LEX_UNDERSCORE)
    diag_add(sink, E0006, span, "an underscore in a number stands between two digits");
  else if (kind == LEX_TOO_LARGE)
    diag_hint(sink, diag_add(sink, E0007, span, "this integer is larger than 2**64 - 1"),
              "the largest is 18446744073709551615; a float such as 1e20 can be larger");
  else
    diag_hint(sink, diag_add(sink, E0013, span, "a number does not begin with a further 0"),
              "leave the zeros out; hexadecimal is written 0x, binary 0b");
}

/* One case a kind; the kinds that share words share a function. */
void lex_report(const Tokens *t, const LexFault *f, DiagSink *sink) {
  Span span = {t->file, f->begin, f->end};
  const char *s = t->file->text + f->begin;
  size_t n = f->end - f->begin;
  const Lookalike *like = f->kind == LEX_LOOKALIKE ? lex_lookalike(s) : NULL;
  switch (f->kind) {
  case LEX_CHARACTER:
    report_character(sink, span, s, n);
    break;
  case LEX_LOOKALIKE:
    if (like)
      diag_hint(sink, diag_add(sink, E0014, span, "this is %s", like->what), "%s", like->hint);
    break;
  case LEX_UNCLOSED:
    report_unclosed(sink, span);
    break;
  case LEX_ESCAPE:
    report_escape(sink, span, s, n);
    break;
  case LEX_QUOTE:
    diag_hint(sink, diag_add(sink, E0012, span, "a string stands between double quotes"),
              "write \"…\" instead of %c…%c", *s, *s);
    break;
  case LEX_NUMBER:
    report_number(sink, span, s, n);
    break;
  case LEX_POINT:
    report_point(sink, span, s);
    break;
  case LEX_UNDERSCORE:
  case LEX_TOO_LARGE:
  case LEX_LEADING_ZERO:
    report_digits(sink, f->kind, span);
    break;
  default:
    report_text(sink, f->kind, span);
    break;
  }
}
