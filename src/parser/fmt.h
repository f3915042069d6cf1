/* fmt.h: what the two halves of the formatter share; private.
 *
 * fmt.c lays out statements and places comments, fmt_expr.c expressions, types and lists. Comments
 * are taken strictly in order, each once: `next` is the first one not yet placed.
 */
#ifndef TILESH_PARSER_FMT_H
#define TILESH_PARSER_FMT_H

#include "layout.h"
#include "parser.h"

typedef struct Fmt {
  Arena *arena;
  const AstFile *file;
  size_t depth;  /* of blocks */
  size_t next;   /* the first comment not yet placed */
  uint32_t last; /* where the last statement or comment placed ends in the source */
} Fmt;

/* The source from begin to end as it stands. */
const Box *fmt_source(Fmt *f, uint32_t begin, uint32_t end);
/* The first token that begins at `at` or later. */
const Token *fmt_token(const Fmt *f, uint32_t at);
/* True if a comment not yet placed begins before `at`. */
bool fmt_comment_before(const Fmt *f, uint32_t at);
/* Places the comments before `at` behind what was just added: one on its line at the end of that
 * line, the others on lines of their own. A line break must follow where it returns true. */
bool fmt_comments_behind(Fmt *f, Boxes *b, uint32_t at);

const Box *fmt_expr(Fmt *f, const AstExpr *e);
const Box *fmt_args(Fmt *f, const char *open, const AstArgs *args, const char *close);
const Box *fmt_barriers(Fmt *f, const AstDecls *d);
const Box *fmt_decls(Fmt *f, const char *open, const AstDecls *d, const char *close);
const Box *fmt_exprs(Fmt *f, const char *open, AstExpr *const *v, size_t n, const char *close);
const Box *fmt_type(Fmt *f, const AstType *t);
const Box *fmt_names(Fmt *f, const AstName *v, size_t n);

#endif
