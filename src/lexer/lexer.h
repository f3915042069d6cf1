/* lexer.h: source text to tokens.
 *
 * In: a SrcFile, any bytes at all. Out: the tokens, the comments beside them, and the lexical
 * faults found, each tied to a token so that the parser can report them in the order of the text.
 * Always holds: the last token is T_EOF; tokens do not overlap and ascend; nothing is ever read
 * outside the text; the work is linear in its length. Tests: tests/unit/check_lexer.c,
 * tests/errors, tests/fuzz/fuzz_parser.c.
 */
#ifndef TILESH_LEXER_LEXER_H
#define TILESH_LEXER_LEXER_H

#include "base/base.h"

typedef enum TokenKind {
#define OTHER(kind, text) T_##kind,
#define WORD(kind, text) T_##kind,
#define PUNCT(kind, text, joins) T_##kind,
#include "tokens.def"
  T_COUNT
} TokenKind;

enum { LEX_MAX_NAME = 1024 }; /* bytes of the longest legal name */

typedef struct Token {
  uint32_t begin, end; /* byte offsets */
  uint8_t kind;        /* TokenKind */
  /* First on its line, and the line before it does not go on here: it did not end with an
   * operator, comma, `->` or `=`, and this token is not `->`, `.` or `else`. Outside ( ) and [ ]
   * that ends a statement. */
  bool newline;
  bool line_start; /* first on its line, whatever the line before said */
  bool spaced;     /* white space, a comment or the start of the file stands before it */
  bool faulty;     /* `faults` has an entry for it */
} Token;

/* `# text`, without its line end. */
typedef struct Comment {
  uint32_t begin, end;
  bool own_line; /* nothing but white space before it on its line */
  bool doc;      /* begins with exactly two # and stands on its own line */
} Comment;

typedef enum LexFaultKind {
  LEX_CHARACTER,    /* a character the language does not have */
  LEX_LOOKALIKE,    /* a character that looks like one of ours, or an odd kind of space */
  LEX_UTF8,         /* bytes that are not UTF-8 */
  LEX_NUL,          /* a NUL byte */
  LEX_UNCLOSED,     /* a string that its line does not close */
  LEX_ESCAPE,       /* an escape that strings do not have, or one with digits missing */
  LEX_QUOTE,        /* '…' or `…` */
  LEX_NUMBER,       /* letters or stray digits in a number */
  LEX_UNDERSCORE,   /* an underscore that is not between two digits */
  LEX_TOO_LARGE,    /* an integer above 2^64 - 1 */
  LEX_POINT,        /* no digit on one side of the point */
  LEX_LEADING_ZERO, /* 007 */
  LEX_LONG_NAME,    /* more than LEX_MAX_NAME bytes */
  LEX_LUA           /* the brace of a lua block is never closed */
} LexFaultKind;

typedef struct LexFault {
  uint32_t token; /* index of the token it belongs to; ascends */
  uint32_t begin, end;
  LexFaultKind kind;
} LexFault;

/* A whole file, cut. Tokens, comments and faults each stand in the order of the text. */
typedef struct Tokens {
  const SrcFile *file; /* what the offsets point into */
  Token *v;
  size_t n; /* T_EOF included */
  Comment *comments;
  size_t ncomments;
  LexFault *faults; /* to be reported when their tokens are read */
  size_t nfaults;
} Tokens;

/* Cuts the whole file. Everything returned lives in the arena. Never fails; faults are listed. */
Tokens lex_file(Arena *a, const SrcFile *file);

/* Appends the diagnostic of one fault to the sink. */
void lex_report(const Tokens *t, const LexFault *fault, DiagSink *sink);

/* The kind of the reserved word that the n bytes at s spell, or T_NAME. */
TokenKind lex_word(const char *s, size_t n);
/* "`kernel`", "`+=`", "a name": for diagnostics. */
const char *lex_describe(TokenKind kind);
/* The text of a word or operator ("kernel"), NULL for tokens without a fixed one. */
const char *lex_spelling(TokenKind kind);
/* A line that ends with this token goes on in the next. */
bool lex_joins(TokenKind kind);

/* The value of a T_INT; a faulty one gives what could be read. */
uint64_t lex_int(const Tokens *t, const Token *tok);
/* The value of a T_FLOAT, rounded once; infinity if it is too large. The arena holds scratch text.
 */
double lex_float(Arena *a, const Tokens *t, const Token *tok);
/* The bytes of a T_STRING, escapes replaced; NUL-terminated, may hold NUL bytes; *n gets the
 * length. Lives in the arena. */
const char *lex_string(Arena *a, const Tokens *t, const Token *tok, size_t *n);

#endif
