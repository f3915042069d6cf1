/* cuda_print.h: what the files of the CUDA printer share; private to src/lower.
 *
 * cuda_print.c assembles the text, cuda_stmt.c prints statements, cuda_op.c thread operations,
 * cuda_expr.c expressions, cuda_cast.c conversions, cuda_range.c knows ranges of integers,
 * cuda_prelude.c the parts of the prelude. Always holds: the printer decides nothing about the
 * program; it spells it.
 */
#ifndef TILESH_LOWER_CUDA_PRINT_H
#define TILESH_LOWER_CUDA_PRINT_H

#include "lower.h"

/* What is known of an expression, by its id. */
typedef struct ExprFact {
  bool known;
  bool exact; /* the operation cannot wrap */
  IrRange range;
  uint32_t uses;    /* in the statement being printed */
  const char *temp; /* the name it was bound to in the statement being printed */
} ExprFact;

/* What a scalar is in the text. Narrow floats are floats on their grid; narrow integers are int or
 * unsigned in their range; an i64 that provably fits is an int. */
typedef enum CType { C_BOOL, C_INT, C_UINT, C_LONG, C_ULONG, C_FLOAT, C_DOUBLE } CType;

typedef struct Printer {
  Arena *a;
  const IrKernel *k;
  const Target *target;
  DiagSink *sink;
  Str body;
  int indent;
  VEC(ExprFact) fact;
  VEC(uint32_t) touched; /* facts with uses, to be cleared after the statement */
  IrRange *var_range;    /* by variable id */
  const char **var_name; /* by id, NULL until used */
  const char **buf_name;
  const char **tmap_name;
  bool *var_arg, *buf_arg, *tmap_arg; /* became a parameter */
  bool *var_wide;                     /* a loop's index that an int does not hold */
  bool few_blocks;                    /* as many as multiprocessors, or a few for each */
  bool *var_used;
  bool *buf_kept; /* registers that more than vector stores read */
  Map *names;     /* taken */
  int temps;
  Map *parts; /* of the prelude, asked for */
  Str prelude;
  VEC(CudaSite) sites;
  VEC(CudaPrint) prints;
  int whiles;  /* depth of WHILE loops */
  int watched; /* depth of FOR loops that look at the stop word */
  bool shared; /* the block's shared memory is used */
  bool stop, fault, print;
  bool waits; /* of some threads for others: who is stopped passes them, and leaves no loop alone */
  int role_barrier, role_threads; /* at which all threads of the role in hand can meet */
  const SrcFile *file;
  uint32_t line; /* of the last comment */
  bool failed;
} Printer;

/* ---- cuda_names.c ---------------------------------------------------------------------------- */

/* An identifier that nothing in the text has: the wish, or the wish with a number. Kept. */
const char *cuda_fresh(Printer *p, const char *wish);
/* The same for the kernel itself, which stands beside what NVRTC declares. */
const char *cuda_entry(Printer *p);

/* ---- cuda_prelude.c ------------------------------------------------------------------------- */

/* Adds a part and what it needs, once. False if there is none of that name. */
bool cuda_part(Printer *p, const char *name);
/* The same for "ts_min" of a type: "ts_min_i32"; returns the function's name, NULL if none. */
const char *cuda_part_of(Printer *p, const char *name, DType t);
/* Adds text of our own under a name, unless it is there. */
bool cuda_part_known(const Printer *p, const char *name);
void cuda_part_add(Printer *p, const char *name, const Str *text);

/* ---- cuda_range.c --------------------------------------------------------------------------- */

ExprFact *cuda_fact(Printer *p, const IrExpr *e);
IrRange cuda_range(Printer *p, const IrExpr *e);
/* Whether e's own operation cannot wrap. */
bool cuda_exact(Printer *p, const IrExpr *e);
/* Notes what a variable bound to e, or an index of a loop, can be. */
void cuda_range_let(Printer *p, const IrVar *v, const IrExpr *e);
void cuda_range_loop(Printer *p, const IrFor *f);
/* Behind it: whether the step past a loop's end may leave the C type of its index. */
bool cuda_loop_overflows(Printer *p, const IrFor *f);

/* ---- cuda_expr.c ---------------------------------------------------------------------------- */

CType cuda_ctype(Printer *p, const IrExpr *e);
CType cuda_var_ctype(Printer *p, const IrVar *v);
bool cuda_fits_int(IrRange r);
const char *cuda_cname(CType t);
/* The C type of a register that holds a value of t: "float" for f16. */
const char *cuda_register(DType t);
/* The C type of an element in memory, "unsigned short" for f16. */
const char *cuda_memory(DType t);
/* Appends e; parenthesised if it binds looser than `prec` (PREC_*). */
enum {
  PREC_COMMA,
  PREC_CHOICE = 3,
  PREC_OR,
  PREC_XOR,
  PREC_AND,
  PREC_EQ,
  PREC_REL,
  PREC_SHIFT,
  PREC_ADD,
  PREC_MUL,
  PREC_UNARY
};
void cuda_expr(Printer *p, const IrExpr *e, int prec, Str *out);
/* Appends an integer modulo 2^32 as an unsigned. */
void cuda_expr_u32(Printer *p, const IrExpr *e, int prec, Str *out);
/* Binds what the expressions share to temporaries, before the statement that holds them. */
void cuda_bind_shared(Printer *p, IrExpr *const *e, size_t n);
void cuda_unbind(Printer *p);
const char *cuda_var(Printer *p, const IrVar *v);
const char *cuda_buffer(Printer *p, const IrBuffer *b);
/* Element offset of an access or of a global operand. */
void cuda_offset(Printer *p, const IrBuffer *b, IrExpr *const *index, int prec, Str *out);

/* ---- cuda_cast.c ---------------------------------------------------------------------------- */

/* f16, bf16, f8: kept as floats on their grid. */
bool cuda_is_narrow(DType t);
/* The prelude function that rounds a float to the grid of t. */
const char *cuda_rounder(Printer *p, DType t);
void cuda_cast(Printer *p, const IrExpr *e, int prec, Str *out);
void cuda_bitcast(Printer *p, const IrExpr *e, Str *out);
/* Wraps the text of a loaded element in its conversion, and of a value to store. */
void cuda_from_memory(Printer *p, DType t, const char *text, Str *out);
void cuda_to_memory(Printer *p, DType t, const IrExpr *e, Str *out);

/* ---- cuda_stmt.c, cuda_op.c ------------------------------------------------------------------ */

void cuda_block(Printer *p, const IrBlock *b);
void cuda_op(Printer *p, const IrStmt *s);
const char *cuda_text_of(Printer *p, const IrExpr *e); /* of an expression, as an argument */
/* ---- cuda_report.c --------------------------------------------------------------------------- */

void cuda_report(Printer *p, const IrStmt *s);
/* Whether the target has an OP; else says so at its place. */
bool cuda_available(Printer *p, const IrStmt *s);
/* Of the two heights that products of f64 have, the one of sm_90. */
bool cuda_is_tall_f64(const IrOp *op);
/* Notes a place that a fault can name, and gives "fault, call, N" to name it with. */
const char *cuda_site(Printer *p, CudaSite site);
/* Axes of the program's block in a record that the launch's block fills: 0 where blocks stay and
 * walk the program's. */
int cuda_block_rank(const Printer *p);
/* A line of the body: indentation, text, newline. */
void cuda_line(Printer *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void cuda_fail(Printer *p, Span span, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
