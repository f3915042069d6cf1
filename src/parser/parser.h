/* parser.h: tokens to the syntax tree; the printers of the tree.
 *
 * In: a SrcFile. Out: an AstFile and a status; every fault is a Diag (E0001 to E0099). The tree is
 * one tagged struct for expressions and one for statements (items are statements too: the host
 * interpreter walks one kind of list). Names are interned: equal names are equal pointers.
 * Always holds after PARSE_OK: no node of kind ERROR; no expression nests deeper than
 * AST_MAX_EXPR_DEPTH (long chains such as a + b + … included) and no block deeper than
 * AST_MAX_BLOCK_DEPTH, so that a recursive walk is safe; every node has the span of its text.
 * What the grammar alone can tell has been checked and is said at each field; what needs names,
 * types or values is left to sema and session. Tests: tests/unit/check_parser.c,
 * tests/lang/syntax_*.tile, tests/errors, tests/fuzz/fuzz_parser.c.
 */
#ifndef TILESH_PARSER_PARSER_H
#define TILESH_PARSER_PARSER_H

#include "base/base.h"
#include "lexer/lexer.h"

enum { AST_MAX_EXPR_DEPTH = 400, AST_MAX_BLOCK_DEPTH = 100 };

typedef enum AstExprKind {
#define EXPR(kind, name) EXPR_##kind,
#include "ast.def"
  EXPR_COUNT
} AstExprKind;

typedef enum AstStmtKind {
#define STMT(kind, name) STMT_##kind,
#include "ast.def"
  STMT_COUNT
} AstStmtKind;

/* Binary, compare and unary operators in one list: AST_ADD, AST_LT, AST_NOT … */
typedef enum AstOp {
  AST_NO_OP,
#define BINARY(op, text, prec, token) AST_##op,
#define COMPARE(op, text, token) AST_##op,
#define UNARY(op, text, token) AST_##op,
#include "ast.def"
  AST_OP_COUNT
} AstOp;

typedef struct AstExpr AstExpr;
typedef struct AstStmt AstStmt;

typedef struct AstName { /* a name where it is bound or spelled */
  const char *text;      /* interned; never NULL but where said */
  Span span;
} AstName;

/* One argument of a call, a role or a grid, or one setting of `k[BM = 64]`. */
typedef struct AstArg {
  const char *name; /* NULL: by position. Positional ones come first; no name comes twice */
  Span name_span;
  AstExpr *value;
} AstArg;

typedef struct AstArgs {
  AstArg *v;
  size_t n;
  size_t npos; /* how many come first, by position */
} AstArgs;

/* One axis of x[…]. */
typedef enum AstAxisKind {
  AXIS_SINGLE, /* x[start]: one index, or an origin */
  AXIS_SLICE,  /* x[start:stop:step], each NULL where left out */
  AXIS_WIDTH,  /* x[start:+stop:step]: stop holds the extent */
  AXIS_NONE    /* x[None]: a new axis */
} AstAxisKind;

typedef struct AstAxis {
  AstAxisKind kind;
  Span span;
  AstExpr *start, *stop, *step;
} AstAxis;

struct AstExpr {
  AstExprKind kind;
  uint16_t depth; /* 1 for a leaf */
  bool paren;     /* stood in parentheses of its own; means nothing but to the formatter */
  Span span;      /* with those parentheses */
  union {
    uint64_t integer; /* INT: 0 … 2^64 - 1, never negative: `-1` is UNARY NEG of 1 */
    double number;    /* FLOAT; `inf` and `nan` too */
    bool boolean;     /* BOOL */
    struct {          /* STRING: escapes replaced; may hold NUL bytes, has a NUL after n */
      const char *s;
      size_t n;
    } string;
    const char *name; /* NAME */
    struct {          /* UNARY */
      AstOp op;
      AstExpr *x;
    } unary;
    struct { /* BINARY; AST_AND and AST_OR are lazy */
      AstOp op;
      Span op_span;
      AstExpr *x, *y;
    } binary;
    struct { /* COMPARE: x[0] ops[0] x[1] ops[1] x[2] …; n >= 1 operators, n + 1 operands */
      AstOp *ops;
      AstExpr **x;
      size_t n;
    } compare;
    struct { /* COND: `then if cond else other` */
      AstExpr *cond, *then, *other;
    } cond;
    struct { /* CALL; SPECIALIZE: k[BM = 64], at least one, all with names */
      AstExpr *fn;
      AstArgs args;
    } call;
    struct { /* INDEX: 0 axes (x[]) is possible */
      AstExpr *base;
      AstAxis *axes;
      size_t n;
    } index;
    struct { /* ATTR: base.name, for `.T`, `.to(…)`, `module.name` */
      AstExpr *base;
      AstName name;
    } attr;
    struct { /* TUPLE (any n, parentheses or not) and LIST */
      AstExpr **v;
      size_t n;
    } list;
    struct { /* LAMBDA: (i, j) -> body; only as the value of a `layout` */
      AstName *params;
      size_t n;
      AstExpr *body;
    } lambda;
    AstExpr *run; /* BENCH, CHECK: a CALL */
  } as;
};

/* One axis of a written type. */
typedef struct AstExtent {
  const char *name; /* `OH = H // 2`: OH; `static D`: D; else NULL */
  Span name_span;
  bool is_static; /* `static D`: then value is the NAME D. Only in kernel and fn parameters */
  AstExpr *value; /* never NULL; a NAME that nothing bound is a symbolic extent */
  Span span;
} AstExtent;

/* A written type: `f32`, `E[M, K]`, `dtype`; in fn results also `(f32, i32)`. */
typedef struct AstType {
  Span span;
  AstName base;     /* the dtype, compile-time parameter or word (`dtype`, `int`, …) */
  bool has_extents; /* `f32[]` has them too, none */
  AstExtent *extents;
  size_t nextents;
  struct AstType **parts; /* of a tuple type; then base.text is NULL */
  size_t nparts;
} AstType;

/* A compile-time parameter, a parameter, a result, or one declared tile or variable:
 * `name: inout type = init`. */
typedef struct AstDecl {
  AstName name;
  Span span;
  bool is_inout;
  AstType *type; /* NULL where none is written (never so in kernel inputs and outputs) */
  AstExpr *init; /* the default, the initial value, or NULL (always NULL in kernel inputs and fn
                    parameters) */
} AstDecl;

typedef struct AstDecls {
  AstDecl *v;
  size_t n;
} AstDecls;

typedef struct AstBlock {
  AstStmt **v;
  size_t n;
  Span span; /* braces included; of a file: all of it */
} AstBlock;

typedef struct AstKernel {
  AstName name;
  AstName *attributes; /* `@exact`, `@unchecked`: known ones, each once */
  size_t nattributes;
  bool exact, unchecked;
  AstDecls statics; /* [ … ] */
  AstDecls inputs;  /* ( … ) */
  AstDecls outputs; /* -> ( … ); none is possible */
  AstBlock body;
  AstStmt *grid; /* the first GRID statement directly in the body, or NULL; it stays in body too */
  Span header;   /* from `kernel` to before `{` */
} AstKernel;

typedef struct AstFn {
  AstName name;
  AstDecls params;
  AstType *result; /* NULL where none is written */
  AstBlock body;
  Span header;
} AstFn;

typedef struct AstArm { /* one `if c { }` or `else if c { }` */
  AstExpr *cond;
  AstBlock body;
} AstArm;

typedef struct AstRole { /* producer(warpgroups = 1) { … } */
  bool producer;         /* else consumer */
  AstArgs options;
  AstBlock body;
  Span span;
} AstRole;

struct AstStmt {
  AstStmtKind kind;
  Span span;
  const char *doc; /* the `##` lines just above, without `## `, joined by \n; or NULL */
  union {
    AstExpr *expr; /* EXPR: in a file a CALL, BENCH or CHECK; at the prompt anything */
    struct {       /* ASSIGN: targets are NAME or INDEX; several unpack */
      AstExpr **targets;
      size_t ntargets;
      AstOp op; /* AST_NO_OP for `=`, else AST_ADD … with one target */
      AstExpr *value;
    } assign;
    struct {          /* LET, VAR: several names unpack; types stand at the names */
      AstDecls names; /* init is NULL in them */
      AstExpr *value; /* `a, b` without parentheses is a TUPLE */
    } let;
    AstDecls decls; /* SHARED, FRAGMENT, LOCAL: each has a type, an initial value, or both.
                       BARRIER: type has has_extents and base.text NULL, or type is NULL (one);
                       init is the number of arrivals, or NULL */
    struct {        /* GRID: 1 to 3 names, as many positional arguments; the named are options */
      AstName *names;
      size_t n;
      AstArgs args;
    } grid;
    struct { /* LAYOUT: one `tile = value` each; value may be a LAMBDA */
      AstDecls v;
    } layout;
    struct { /* FOR */
      AstName *names;
      size_t n;
      AstExpr *range; /* range(…), parallel(…), … are plain calls */
      AstBlock body;
    } loop;
    struct { /* WHILE */
      AstExpr *cond;
      AstBlock body;
    } loop_while;
    struct { /* IF */
      AstArm *arms;
      size_t n; /* >= 1 */
      AstBlock other;
      bool has_other;
    } branch;
    AstExpr *result; /* RETURN: NULL, or a value; `return a, b` is a TUPLE. Never at top level */
    struct {         /* ASSERT */
      AstExpr *cond;
      AstExpr *message; /* or NULL */
    } assertion;
    struct { /* ROLES: specialize { … } */
      AstRole *v;
      size_t n;
    } roles;
    AstKernel *kernel;    /* KERNEL */
    AstFn *fn;            /* FN */
    struct {              /* IMPORT */
      const char *module; /* `import gemm`: gemm; else NULL */
      const char *path;   /* `import "x.tile" as f`: the text of the string; else NULL */
      size_t path_n;
      Span what;    /* the module or path */
      AstName name; /* what it is bound to: after `as`, else the module or the file's stem */
    } import;
    struct { /* TEST */
      const char *name;
      size_t name_n;
      Span name_span;
      AstBlock body;
    } test;
    struct { /* LUA: the text between the braces, as it stands */
      const char *text;
      size_t n;
      Span span;
    } lua;
  } as;
};
/* BREAK and CONTINUE stand in a loop, always. SHARED, FRAGMENT, LOCAL, BARRIER, GRID, LAYOUT and
 * ROLES stand only in kernels; KERNEL, FN, IMPORT, TEST and LUA never do. */

typedef struct AstFile {
  const SrcFile *file;
  Tokens tokens; /* with the comments, for the formatter */
  AstBlock body;
  bool quiet; /* the text ends with `;`: the prompt does not show the last value */
} AstFile;

typedef struct ParseInput {
  Arena *arena; /* gets the tree; its guard bounds the recursion */
  Names *names; /* where names are interned */
  DiagSink *diags;
  const SrcFile *file;
  bool prompt; /* any expression may be a statement; unfinished text is PENDING, not an error */
} ParseInput;

typedef enum ParseStatus {
  PARSE_OK,
  PARSE_ERROR,  /* diagnostics were added */
  PARSE_PENDING /* only at the prompt: the text so far is right but unfinished (an open bracket, a
                   block, a Lua text, an operator at the end of the line); nothing was added */
} ParseStatus;

/* Parses a whole file, or what was typed at the prompt. *out is always set; after an error it holds
 * what could be read, with ERROR nodes. */
ParseStatus parse_file(const ParseInput *in, AstFile **out);

/* "+", "and", "=="; "" for AST_NO_OP. */
const char *ast_op_text(AstOp op);
/* "let", "if", …: the word of ast.def. */
const char *ast_stmt_name(AstStmtKind kind);

/* Calls `see` for each name that an expression mentions, in the order of the text, as often as it
 * stands there; NULL mentions none. */
typedef void (*AstSeeName)(const char *name, void *ctx);
void ast_mentions(const AstExpr *e, AstSeeName see, void *ctx);

/* The canonical text of the tree (--emit ast): a line a statement, indented by block, expressions
 * in prefix form. Comments and layout do not show in it. */
void ast_print(const AstFile *f, Str *out);
void ast_print_expr(const AstExpr *e, Str *out);

/* `tilesh fmt`: the file in canonical layout at 100 columns, comments kept. f must come from a
 * PARSE_OK. Formatting the result again changes nothing, and it parses to the same tree. */
void fmt_format(Arena *scratch, const AstFile *f, Str *out);

#endif
