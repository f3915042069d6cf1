/* lexer.c: cuts source text into tokens, comments and faults.
 *
 * In: the bytes of a SrcFile. Out: Tokens. A fault never stops the cutting: it is noted at the
 * token it belongs to and the parser reports it when it gets there, so that diagnostics come in the
 * order of the text. Line ends are no tokens: each token says whether it begins a line and whether
 * that ends a statement (see Token.newline); only the parser knows which brackets are open.
 *
 * What belongs together is one token even where it is wrong: the letters behind a number, the rest
 * of a word with a strange letter, a row of bad bytes. So each mistake is one fault, and what
 * stands around it is still understood. Comments are kept for the formatter and the doc texts. The
 * text of a `lua` block is one token, found by Lua's own rules for strings and comments.
 *
 * Tests: tests/unit/check_lexer.c, tests/fuzz/fuzz_parser.c.
 */
#include "lexer.h"

#include <string.h>

#include "chars.h"

typedef struct Lexer {
  Arena *arena;
  const char *s; /* the text */
  size_t n, pos; /* its length; the next byte to be read */
  VEC(Token) tokens;
  VEC(Comment) comments;
  VEC(LexFault) faults;
  size_t told; /* faults that belong to tokens already made */
  /* Of the next token: it begins a line; something stands before it; the token before it joins. */
  bool line_start, spaced, joins;
} Lexer;

/* The byte `ahead` places on; NUL behind the end. */
static char peek(const Lexer *lx, size_t ahead) {
  return lx->n - lx->pos > ahead ? lx->s[lx->pos + ahead] : '\0';
}

/* Notes a fault of the token being read, or of the next one. */
static void fault(Lexer *lx, LexFaultKind kind, size_t begin, size_t end) {
  LexFault f = {(uint32_t)lx->tokens.n, (uint32_t)begin, (uint32_t)end, kind};
  VEC_PUSH(lx->arena, &lx->faults, f);
}

/* Tokens that no statement begins with, so that a line may begin with them and go on the one above.
 */
static bool carries_on(TokenKind kind) {
  return kind == T_ARROW || kind == T_DOT || kind == T_ELSE;
}

/* Ends the token that began at `begin` here. */
static void add(Lexer *lx, TokenKind kind, size_t begin) {
  Token t = {.begin = (uint32_t)begin, .end = (uint32_t)lx->pos, .kind = (uint8_t)kind};
  t.line_start = lx->line_start;
  t.newline = lx->line_start && !lx->joins && !carries_on(kind);
  t.spaced = lx->spaced;
  t.faulty = lx->faults.n > lx->told;
  VEC_PUSH(lx->arena, &lx->tokens, t);
  lx->told = lx->faults.n;
  lx->line_start = lx->spaced = false;
  lx->joins = lex_joins(kind);
}

/* Steps over one character inside a comment or string. Only the first fault of a kind in a row of
 * bad bytes is noted. */
static void text_char(Lexer *lx) {
  size_t len = lex_utf8_length(lx->s + lx->pos, lx->n - lx->pos);
  size_t begin = lx->pos;
  if (len == 0) {
    while (lx->pos < lx->n && lex_utf8_length(lx->s + lx->pos, lx->n - lx->pos) == 0)
      lx->pos++;
    fault(lx, LEX_UTF8, begin, lx->pos);
  } else if (lx->s[lx->pos] == '\0') {
    while (lx->pos < lx->n && lx->s[lx->pos] == '\0')
      lx->pos++;
    fault(lx, LEX_NUL, begin, lx->pos);
  } else {
    lx->pos += len;
  }
}

/* To the end of the line. */
static void comment(Lexer *lx) {
  size_t begin = lx->pos;
  while (lx->pos < lx->n && !lex_is_line_end(lx->s[lx->pos]))
    text_char(lx);
  Comment c = {(uint32_t)begin, (uint32_t)lx->pos, lx->line_start, false};
  c.doc = c.own_line && lx->pos - begin >= 2 && lx->s[begin + 1] == '#' &&
          !(lx->pos - begin > 2 && lx->s[begin + 2] == '#');
  VEC_PUSH(lx->arena, &lx->comments, c);
}

/* A backslash at the end of a line: a fault, but what it means elsewhere is clear. */
static void continuation(Lexer *lx) {
  fault(lx, LEX_CHARACTER, lx->pos, lx->pos + 1);
  lx->pos += peek(lx, 1) == '\r' && peek(lx, 2) == '\n' ? 3 : 2;
}

/* Skips white space and comments up to the next token. */
static void space(Lexer *lx) {
  for (; lx->pos < lx->n; lx->spaced = true) {
    char c = lx->s[lx->pos];
    if (lex_is_line_end(c))
      lx->line_start = true;
    if (c == '#')
      comment(lx);
    else if (c == '\\' && (peek(lx, 1) == '\n' || peek(lx, 1) == '\r'))
      continuation(lx);
    else if (lex_is_space(c) || lex_is_line_end(c))
      lx->pos++;
    else
      return;
  }
}

/* A name or a reserved word. */
static void word(Lexer *lx) {
  size_t begin = lx->pos;
  while (lx->pos < lx->n && lex_is_name(lx->s[lx->pos]))
    lx->pos++;
  if (lx->pos - begin > LEX_MAX_NAME)
    fault(lx, LEX_LONG_NAME, begin, lx->pos);
  add(lx, lex_word(lx->s + begin, lx->pos - begin), begin);
}

/* Digits and underscores of a number; letters only where the base is 16. */
static void digits(Lexer *lx, bool hex) {
  while (lex_is_digit(peek(lx, 0)) || peek(lx, 0) == '_' ||
         (hex && lex_hex_value(peek(lx, 0)) >= 0))
    lx->pos++;
}

/* Every underscore of a number stands between two digits. */
static void check_underscores(Lexer *lx, size_t begin, bool hex) {
  for (size_t i = begin; i < lx->pos; i++) {
    if (lx->s[i] != '_')
      continue;
    bool left = i > begin && (hex ? lex_hex_value(lx->s[i - 1]) >= 0 : lex_is_digit(lx->s[i - 1]));
    bool right =
        i + 1 < lx->pos && (hex ? lex_hex_value(lx->s[i + 1]) >= 0 : lex_is_digit(lx->s[i + 1]));
    if (!left || !right) {
      fault(lx, LEX_UNDERSCORE, i, i + 1);
      return;
    }
  }
}

/* 0x…, 0b…: everything that could belong to it is one token, right or wrong. */
static void number_in_base(Lexer *lx, size_t begin, unsigned base) {
  uint64_t value = 0;
  bool bad = false, large = false, any = false;
  for (lx->pos += 2; lex_is_name(peek(lx, 0)); lx->pos++) {
    int d = lex_hex_value(peek(lx, 0));
    if (peek(lx, 0) == '_')
      continue;
    bad |= d < 0 || (unsigned)d >= base;
    if (bad)
      continue;
    any = true;
    large |= value > (UINT64_MAX - (unsigned)d) / base;
    value = value * base + (unsigned)d;
  }
  if (bad || !any)
    fault(lx, LEX_NUMBER, begin, lx->pos);
  else if (large)
    fault(lx, LEX_TOO_LARGE, begin, lx->pos);
  else
    check_underscores(lx, begin + 2, base == 16);
  add(lx, T_INT, begin);
}

/* `1e5` has an exponent, `1else` and `1e` have not: the digits decide. */
static bool exponent_follows(const Lexer *lx) {
  char c = peek(lx, 0), d = peek(lx, 1);
  return (c == 'e' || c == 'E') &&
         (lex_is_digit(d) || ((d == '+' || d == '-') && lex_is_digit(peek(lx, 2))));
}

/* Checked here and not when the value is read, so that it is a fault like all others. */
static bool too_large(const Lexer *lx, size_t begin) {
  uint64_t value = 0;
  for (size_t i = begin; i < lx->pos; i++) {
    if (lx->s[i] == '_')
      continue;
    unsigned d = (unsigned)(lx->s[i] - '0');
    if (value > (UINT64_MAX - d) / 10)
      return true;
    value = value * 10 + d;
  }
  return false;
}

/* The fraction and exponent after the digits; true if there is any. A point without digits after it
 * is a fault, but `0..n` and `x.T` after a number are not ours. */
static bool fraction(Lexer *lx, size_t begin) {
  bool is_float = false;
  if (peek(lx, 0) == '.' && lex_is_digit(peek(lx, 1))) {
    is_float = true;
    lx->pos++;
    digits(lx, false);
  } else if (peek(lx, 0) == '.' && peek(lx, 1) != '.') {
    is_float = true;
    lx->pos++;
    fault(lx, LEX_POINT, begin, lx->pos);
  }
  if (exponent_follows(lx)) {
    is_float = true;
    lx->pos += lex_is_digit(peek(lx, 1)) ? 1 : 2;
    digits(lx, false);
  }
  return is_float;
}

/* Everything that touches a number belongs to its token, right or wrong: one mistake, one fault. */
static void number(Lexer *lx) {
  size_t begin = lx->pos, told = lx->faults.n;
  char mark = peek(lx, 1);
  if (peek(lx, 0) == '0' && (mark == 'x' || mark == 'X')) {
    number_in_base(lx, begin, 16);
    return;
  }
  if (peek(lx, 0) == '0' && (mark == 'b' || mark == 'B')) {
    number_in_base(lx, begin, 2);
    return;
  }
  digits(lx, false);
  size_t whole = lx->pos;
  bool is_float = fraction(lx, begin);
  if (lex_is_name(peek(lx, 0))) {
    size_t letters = lx->pos;
    while (lex_is_name(peek(lx, 0)))
      lx->pos++;
    if (lx->faults.n == told)
      fault(lx, LEX_NUMBER, letters, lx->pos);
  }
  if (lx->faults.n == told)
    check_underscores(lx, begin, false);
  if (lx->faults.n == told && lx->s[begin] == '0' && whole - begin > 1)
    fault(lx, LEX_LEADING_ZERO, begin, whole);
  if (lx->faults.n == told && !is_float && too_large(lx, begin))
    fault(lx, LEX_TOO_LARGE, begin, lx->pos);
  add(lx, is_float ? T_FLOAT : T_INT, begin);
}

/* `.5` where no value stands before it. */
static void point_number(Lexer *lx) {
  size_t begin = lx->pos++;
  digits(lx, false);
  if (exponent_follows(lx)) {
    lx->pos += lex_is_digit(peek(lx, 1)) ? 1 : 2;
    digits(lx, false);
  }
  fault(lx, LEX_POINT, begin, lx->pos);
  add(lx, T_FLOAT, begin);
}

/* True where `.` followed by a digit is a number missing its zero, not a member of a value. */
static bool point_starts_number(const Lexer *lx) {
  if (peek(lx, 0) != '.' || !lex_is_digit(peek(lx, 1)))
    return false;
  if (lx->spaced || lx->tokens.n == 0)
    return true;
  TokenKind k = lx->tokens.v[lx->tokens.n - 1].kind;
  return k != T_NAME && k != T_RPAREN && k != T_RBRACKET && k != T_STRING && k != T_INT &&
         k != T_FLOAT;
}

/* To the closing quote or the end of the line; escapes are only checked, not replaced. */
static void string(Lexer *lx, char quote) {
  size_t begin = lx->pos++;
  while (lx->pos < lx->n && lx->s[lx->pos] != quote && !lex_is_line_end(lx->s[lx->pos])) {
    if (lx->s[lx->pos] == '\\' && quote == '"') {
      size_t len = 0, start = lx->pos;
      uint32_t value;
      bool ok = lex_escape(lx->s + start, lx->n - start, &len, &value);
      lx->pos += len;
      if (!ok)
        fault(lx, LEX_ESCAPE, start, lx->pos);
    } else {
      text_char(lx);
    }
  }
  if (peek(lx, 0) == quote)
    lx->pos++;
  else
    fault(lx, LEX_UNCLOSED, begin, lx->pos);
  if (quote != '"')
    fault(lx, LEX_QUOTE, begin, lx->pos);
  add(lx, T_STRING, begin);
}

/* Without its partner a quote is a stray character, not a string of the rest of the line. */
static bool quote_closes(const Lexer *lx) {
  for (size_t i = lx->pos + 1; i < lx->n && !lex_is_line_end(lx->s[i]); i++) {
    if (lx->s[i] == lx->s[lx->pos])
      return true;
  }
  return false;
}

/* Bytes that begin no token; a row of them is one fault. */
static void stray(Lexer *lx) {
  size_t begin = lx->pos;
  size_t len = lex_utf8_length(lx->s + begin, lx->n - begin);
  LexFaultKind kind = len == 0                       ? LEX_UTF8
                      : lx->s[begin] == '\0'         ? LEX_NUL
                      : lex_lookalike(lx->s + begin) ? LEX_LOOKALIKE
                                                     : LEX_CHARACTER;
  lx->pos += len ? len : 1;
  while (kind == LEX_UTF8 && lx->pos < lx->n &&
         lex_utf8_length(lx->s + lx->pos, lx->n - lx->pos) == 0)
    lx->pos++;
  while (kind == LEX_NUL && lx->pos < lx->n && lx->s[lx->pos] == '\0')
    lx->pos++;
  /* The rest of a word with letters we do not have: `größe` is one fault. */
  while (kind == LEX_CHARACTER && len > 1 && lx->pos < lx->n) {
    size_t next = lex_utf8_length(lx->s + lx->pos, lx->n - lx->pos);
    if (next == 0 || (next == 1 && !lex_is_name(lx->s[lx->pos])))
      break;
    lx->pos += next;
  }
  fault(lx, kind, begin, lx->pos);
  add(lx, T_ERROR, begin);
}

static const struct Punct {
  uint8_t kind, n;
  char text[4];
} punct_table[] = {
#define PUNCT(kind, text, joins) {T_##kind, sizeof(text) - 1, text},
#include "tokens.def"
};

/* The longest operator that stands here; false if none does. */
static bool punct(Lexer *lx) {
  const struct Punct *best = NULL;
  size_t left = lx->n - lx->pos;
  for (size_t i = 0; i < sizeof punct_table / sizeof *punct_table; i++) {
    const struct Punct *p = &punct_table[i];
    if (p->text[0] == lx->s[lx->pos] && p->n <= left && (!best || p->n > best->n) &&
        memcmp(p->text, lx->s + lx->pos, p->n) == 0)
      best = p;
  }
  if (!best)
    return false;
  size_t begin = lx->pos;
  /* Sixty rows of a few bytes are compared faster than a tree of characters would be kept right. */
  lx->pos += best->n;
  add(lx, best->kind, begin);
  return true;
}

/* After `lua`: the brace, the text up to the brace that Lua itself would match, that brace. */
static void lua_text(Lexer *lx) {
  space(lx);
  if (peek(lx, 0) != '{')
    return;
  add(lx, T_LBRACE, lx->pos++);
  lx->tokens.v[lx->tokens.n - 1].end = (uint32_t)lx->pos;
  size_t begin = lx->pos;
  bool closed = lex_lua_end(lx->s, lx->n, &lx->pos);
  if (!closed)
    fault(lx, LEX_LUA, begin - 1, begin);
  add(lx, T_LUA_TEXT, begin);
}

/* What the first byte says; a byte that begins nothing is stray. */
static void token(Lexer *lx) {
  char c = lx->s[lx->pos];
  if (lex_is_digit(c)) {
    number(lx);
  } else if (lex_is_name(c)) {
    word(lx);
    if (lx->tokens.v[lx->tokens.n - 1].kind == T_LUA)
      lua_text(lx);
  } else if (c == '"' || ((c == '\'' || c == '`') && quote_closes(lx))) {
    string(lx, c);
  } else if (point_starts_number(lx)) {
    point_number(lx);
  } else if (!punct(lx)) {
    stray(lx);
  }
}

/* A byte order mark is no text; whatever comes after it is. */
Tokens lex_file(Arena *a, const SrcFile *file) {
  Lexer lx = {.arena = a, .s = file->text, .n = file->n, .line_start = true, .spaced = true};
  if (lx.n >= 3 && memcmp(lx.s, "\xef\xbb\xbf", 3) == 0)
    lx.pos = 3; /* a byte order mark */
  for (space(&lx); lx.pos < lx.n; space(&lx))
    token(&lx);
  lx.line_start = true;
  add(&lx, T_EOF, lx.pos);
  return (Tokens){.file = file,
                  .v = lx.tokens.v,
                  .n = lx.tokens.n,
                  .comments = lx.comments.v,
                  .ncomments = lx.comments.n,
                  .faults = lx.faults.v,
                  .nfaults = lx.faults.n};
}
