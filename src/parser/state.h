/* state.h: the parser's state and the small steps every part of it is made of; private.
 *
 * Always holds: after a fault (`failed`) the stream shows T_ERROR and does not move, so that every
 * loop and list ends by itself and nothing more is reported, until recover() finds the next
 * statement. Line ends show as T_NEWLINE outside brackets only.
 */
#ifndef TILESH_PARSER_STATE_H
#define TILESH_PARSER_STATE_H

#include "parser.h"

typedef enum Place { IN_FILE, IN_FN, IN_KERNEL } Place;

typedef struct Parser {
  const ParseInput *in;
  Arena *arena;
  Tokens t;
  size_t i;          /* the token shown, below the newline if there is one */
  bool newline;      /* T_NEWLINE is shown before it */
  unsigned brackets; /* open ( and [ : line ends mean nothing */
  Span inner;        /* the innermost of them */
  unsigned level;    /* of expressions, brackets and blocks being read */
  unsigned blocks;   /* of them, blocks */
  unsigned loops;    /* around the statement being read, in this body */
  Place place;
  bool failed;  /* in this statement */
  bool stopped; /* nested too deeply: nothing more is read */
  bool pending;
  size_t errors;     /* in the sink when we began */
  size_t fault;      /* the first lexical fault not yet reported */
  size_t comment;    /* the first comment after the last statement begun */
  bool headless;     /* the fault is a block that is missing behind its header */
  size_t start;      /* the first token of the statement being read */
  uint32_t odd_open; /* a `{` and the `}` that closed it at another indentation; 0, 0: none */
  uint32_t odd_close;
  uint32_t kernel_column; /* of the kernel being read */
  size_t lost;            /* the token before which a missing `}` was reported */
} Parser;

/* The token shown, T_NEWLINE and T_ERROR (after a fault) included. */
TokenKind parse_kind(const Parser *p);
static inline bool parse_at(const Parser *p, TokenKind kind) {
  return parse_kind(p) == kind;
}
/* The token `ahead` places on, line ends not counted. */
const Token *parse_token(const Parser *p, size_t ahead);
/* Shown and spelled so: for words that are reserved only where the grammar has them. */
bool parse_at_word(const Parser *p, const char *word);
void parse_advance(Parser *p);
bool parse_accept(Parser *p, TokenKind kind);
void parse_skip_newlines(Parser *p);

Span parse_span(const Parser *p);                          /* of the token shown */
Span parse_span_from(const Parser *p, Span begin);         /* from begin to the last token read */
const char *parse_text(const Parser *p, const Token *tok); /* interned */

/* Reports a fault, once a statement, and makes the stream stand still. NULL where nothing was
 * added: a second fault, or the text at the prompt is only unfinished. */
Diag *parse_fail(Parser *p, DiagCode code, Span span, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The same at the token shown; a lexical fault there is reported instead. */
Diag *parse_fail_here(Parser *p, DiagCode code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* For faults after which reading can go on. */
Diag *parse_warn(Parser *p, DiagCode code, Span span, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void parse_hint(Parser *p, Diag *d, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void parse_also(Parser *p, Diag *d, Span span, const char *text); /* text may be NULL */
/* "the name `x`", "`)`", "the end of the line": the token shown. */
const char *parse_found(Parser *p);

/* One level deeper; false, reported, at the limit. Each true one is left again. */
bool parse_enter(Parser *p);
void parse_leave(Parser *p);
/* Reports that and ends the reading of the file. */
void parse_too_deep(Parser *p, Span span);

/* An opened bracket: what closes it, and where it stands. */
typedef struct Bracket {
  TokenKind close;
  Span open;
  Span outer; /* the one it stands in */
} Bracket;
Bracket parse_open(Parser *p); /* reads the ( or [ shown */
void parse_close(Parser *p, Bracket b);
/* Notes the innermost open bracket, if there is one, at a fault. */
void parse_still_open(Parser *p, Diag *d);
/* Between elements: reads a comma; true if another element follows. */
bool parse_more(Parser *p, Bracket b);

/* A name that is being bound; `what` is "the kernel's name". */
AstName parse_name(Parser *p, const char *what);

/* expr.c */
AstExpr *parse_expr(Parser *p);
AstExpr *parse_expr_list(Parser *p); /* a TUPLE where there are commas */
AstExpr *parse_layout_value(Parser *p);
AstArgs parse_args(Parser *p, Bracket b); /* up to the bracket's end, that included */
AstArgs parse_loose_args(Parser *p);      /* without brackets: of a grid */
AstExpr *parse_error_expr(Parser *p);

/* decl.c */
typedef enum DeclKind { DECL_STATIC, DECL_INPUT, DECL_OUTPUT, DECL_PARAM, DECL_TILE } DeclKind;
AstType *parse_type(Parser *p);
AstType *parse_result_type(Parser *p);
AstDecls parse_decls(Parser *p, DeclKind kind, Bracket b); /* up to the end of b, that included */
AstDecls parse_loose_decls(Parser *p, DeclKind kind);
AstDecls parse_barriers(Parser *p);

/* item.c */
void parse_kernel(Parser *p, AstStmt *s);
void parse_attributed(Parser *p, AstStmt *s);
void parse_fn(Parser *p, AstStmt *s);
void parse_import(Parser *p, AstStmt *s);
void parse_test(Parser *p, AstStmt *s);
void parse_lua(Parser *p, AstStmt *s);

/* stmt.c */
AstStmt *parse_statement(Parser *p);

/* block.c */
/* Statements up to `}` or the end of the file. */
AstBlock parse_statements(Parser *p, bool in_braces, Span open);
/* `{ … }` after a header; a faulty header's block is read too. */
AstBlock parse_block(Parser *p, const char *what);
void parse_unclosed(Parser *p, Span open); /* the file ends in the block: reports */
void parse_recover(Parser *p);             /* moves to where a next statement seems to begin */
void parse_skip_separators(Parser *p);     /* line ends and `;` */
bool parse_at_end(const Parser *p);        /* of a statement */
uint32_t parse_column(const Parser *p);    /* of the token shown, from 0 */

/* hints.c: what a reader who knows other languages meant */
const char *parse_hint_foreign_word(const char *word);
const char *parse_hint_string(const Parser *p); /* of a string where none fits; or NULL */
void parse_hint_operand(Parser *p);             /* an expression was wanted: reports */
void parse_hint_statement_end(Parser *p);       /* the statement should have ended: reports */
bool parse_hint_operator(
    Parser *p); /* reports an operator of another language; false: it is none */
bool parse_hint_increment(Parser *p);               /* reports `x++`; false: it is none */
void parse_hint_brace(Parser *p, const char *what); /* `{` was wanted: reports */

#endif
