/* read.h: what the files of the reader share. Private to src/ir.
 *
 * read_lex.c makes tokens; read_expr.c parses expressions to untyped trees and gives them types;
 * read_stmt.c, read_tile.c and read_op.c read statements; read.c reads kernels and finds names.
 */
#ifndef TILESH_IR_READ_H
#define TILESH_IR_READ_H

#include <string.h>

#include "impl.h"

typedef enum TokenKind {
  TK_END,
  TK_NAME,
  TK_INT,
  TK_FLOAT,
  TK_STRING,
  TK_PUNCT, /* its text, longest first */
  TK_BAD    /* reported already */
} TokenKind;

typedef struct Token {
  TokenKind kind;
  Span span;
  const char *text; /* in the file */
  size_t n;
  uint64_t u;         /* INT */
  double f;           /* FLOAT */
  DType suffix;       /* INT, FLOAT, and the names inf, nan: `3:u32`; else DT_NONE */
  const char *string; /* STRING, escapes resolved */
  uint32_t line;      /* index, to find where a statement begins after an error */
} Token;

/* ---------------------------------------------------------------- names in scope */

typedef enum EntryKind { EN_VAR, EN_BUFFER, EN_TMAP, EN_CHANNEL, EN_CONST } EntryKind;

typedef struct Node Node;
typedef struct Entry {
  EntryKind kind;
  const char *name; /* interned */
  union {
    IrVar *var;
    IrBuffer *buf;
    IrTmap *tmap;
    IrChannel *channel;
    const Node *value;
  } as;
  uintptr_t hidden; /* the entry of the same name that this one hides, index + 1 */
  size_t block;     /* number of entries where its block began: a second one there is an error */
} Entry;

/* ---------------------------------------------------------------- untyped expressions */

typedef enum NodeKind { ND_INT, ND_FLOAT, ND_BOOL, ND_VAR, ND_OP } NodeKind;
struct Node {
  NodeKind kind;
  Span span;
  DType type;       /* literal's suffix, CAST's and BITCAST's target, else DT_NONE */
  DType natural;    /* set by type_node: what its leaves say, DT_NONE if only bare literals */
  bool floats;      /* set by type_node: a bare literal among them has a point */
  bool minus;       /* a literal's sign */
  uint64_t u;       /* ND_INT, ND_BOOL */
  double f;         /* ND_FLOAT */
  const char *name; /* ND_VAR: interned, until found */
  int axis;         /* ND_VAR: `name.strideN`; else -1 */
  IrVar *var;       /* ND_VAR: found */
  OpCode op;
  Node *arg[4];
  int nargs;
  int size; /* nodes of the tree, saturating */
};

typedef struct Reader {
  const SrcFile *file;
  DiagSink *sink;
  Arena *arena;
  Names *names;
  size_t at;     /* where the next token begins */
  uint32_t line; /* index of the line at `at` */
  Token tok;     /* the one to look at */
  Token last;    /* the one before */
  IrKernel *k;
  Map *known; /* name to index + 1 of its entry */
  VEC(Entry) entries;
  size_t block; /* entries when the innermost block began */
  int depth;    /* of blocks and expressions */
  bool broken;  /* a syntax error in this statement: skip to the next */
  size_t errors;
} Reader;

enum { READ_MAX_DEPTH = 200, READ_MAX_NODES = 2000 };

/* tokens */
void ir_tok_next(Reader *r);
bool ir_tok_is(const Reader *r, const char *punct);
bool ir_tok_word(const Reader *r, const char *word);
bool ir_tok_accept(Reader *r, const char *punct);
bool ir_tok_accept_word(Reader *r, const char *word);
/* Reports "expected …" and marks the statement broken where the token is another. */
bool ir_tok_expect(Reader *r, const char *punct);
bool ir_tok_expect_word(Reader *r, const char *word);
const char *ir_tok_name(Reader *r, const char *what); /* interned; NULL with an error */
DType ir_tok_dtype(Reader *r);                        /* DT_NONE with an error */
int64_t ir_tok_int(Reader *r, int64_t lo, int64_t hi,
                   const char *what); /* a literal; lo on error */
void ir_read_error(Reader *r, DiagCode code, Span at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void ir_read_unexpected(Reader *r, const char *wanted); /* E0601, marks the statement broken */

/* names */
Entry *ir_read_scope_find(Reader *r, const char *name);
void ir_read_scope_add(Reader *r, Entry e, Span at);
size_t ir_read_scope_open(Reader *r); /* to be given back to ir_read_scope_close */
void ir_read_scope_close(Reader *r, size_t mark);
IrBuffer *ir_read_scope_buffer(Reader *r); /* reads a name; NULL with an error */
IrVar *ir_read_scope_new_var(Reader *r, IrVarKind kind, const char *name, DType type, Span at);

/* expressions */
Node *ir_node_parse(Reader *r); /* NULL with an error */
/* Types of the tree for a place that wants `want` (DT_NONE: any). Never NULL: a constant stands in
 * after an error. extents: unknown names become symbolic extents. */
IrExpr *ir_node_typed(Reader *r, Node *n, DType want, bool extents);
IrExpr *ir_read_expr(Reader *r, DType want);
/* The same, then cast-free check that the type is `want`. */
IrExpr *ir_read_expr_of(Reader *r, DType want);
DType ir_read_index_type(const Reader *r); /* i32 at thread level, else i64 */

/* statements */
void ir_read_block(Reader *r, IrBlock *out);   /* between braces, a scope of its own */
void ir_read_stmts(Reader *r, IrBlock *out);   /* up to a closing brace or the end */
IrVar *ir_read_def(Reader *r, IrVarKind kind); /* `x: f32`, not yet in scope; NULL with an error */
void ir_read_scope_def(Reader *r, IrVar *v);   /* puts it in scope */
bool ir_read_access(Reader *r, IrAccess *a);
bool ir_read_region(Reader *r, IrRegion *out);
bool ir_read_extents(Reader *r, Node **node, int *rank); /* `[M, 64]`, untyped */
/* `i, j: i32 in [e, f]`, up to `max` axes, the variables not yet in scope; -1 with an error. */
int ir_read_axes(Reader *r, IrVar **index, IrExpr **extent, int max);
bool ir_read_memory(Reader *r, IrBlock *out, const char *word, Span at);    /* read_stmt.c */
bool ir_read_tile(Reader *r, IrBlock *out, const char *word, Span at);      /* read_tile.c */
bool ir_read_scheduled(Reader *r, IrBlock *out, const char *word, Span at); /* read_op.c */
bool ir_read_op(Reader *r, IrBlock *out, const char *word, Span at);        /* read_op.c */

#endif
