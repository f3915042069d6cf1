/* print.h: what the print*.c (and the reader, for the infix table) share. Private to src/ir. */
#ifndef TILESH_IR_PRINT_H
#define TILESH_IR_PRINT_H

#include <string.h>

#include "impl.h"

typedef struct Printer {
  const IrKernel *k;
  Str *out;
  IrNames names;
} Printer;

/* An operator that stands between its operands, and how tightly it binds (1 loosest). */
typedef struct Infix {
  OpCode op;
  const char *text;
  int level;
} Infix;
const Infix *ir_infix_of(OpCode op); /* NULL where the operation prints as a call */
const Infix *ir_infix_spelled(const char *text, size_t n);

/* What the text of an operation's operands says by itself (text.c). */
typedef struct IrOperands {
  OpCode op;
  int n;
  DType said[4]; /* by operand; DT_NONE: it is made of bare numbers */
  bool floats;   /* a bare number among those that must agree has a point */
  DType left;    /* of operand 0, once it is known: a shift's count is read so */
} IrOperands;
/* The type that the text of the operation says; fixed: its type where its rule looks at no operand.
 */
DType ir_said_type(const IrOperands *o, DType fixed);
/* What operand i is read as, where the operation is wanted as `want` (DT_NONE: nothing says). */
DType ir_operand_want(const IrOperands *o, int i, DType want);

/* want: the type that the reader expects at this place; DT_NONE where it expects none. */
void ir_put_expr(Printer *p, const IrExpr *e, DType want);
void ir_put_exprs(Printer *p, IrExpr *const *e, int n, DType want);
void ir_put_type(Printer *p, const IrBuffer *b); /* f16[M, 64] */
/* The type of a lone integer where any integer may stand: i32 at thread level, else i64. */
DType ir_put_index_type(const Printer *p);
void ir_put_string(Printer *p, const char *s); /* quoted, with escapes */

/* print_stmt.c: parts of a statement's line. */
/* The name that the text has for it: unique, where two have the same. */
const char *ir_var_shown(const Printer *p, const IrVar *v);
const char *ir_buffer_shown(const Printer *p, const IrBuffer *b);
void ir_put_def(Printer *p, const IrVar *v);       /* x: f32 */
void ir_put_access(Printer *p, const IrAccess *a); /* A[i, j] */
void ir_put_region(Printer *p, const IrRegion *r); /* A[i, k*64:+64] */
/* "i, j in [128, 64] " */
void ir_put_axes(Printer *p, IrVar *const *index, IrExpr *const *extent, int n);
void ir_put_indent(Printer *p, int level);
/* The statements of a block, each on its line; the same between braces, of a statement at `level`.
 */
void ir_put_block(Printer *p, const IrBlock *b, int level);
void ir_put_braced(Printer *p, const IrBlock *b, int level);

/* The statement of a kind of the tile level (print_tile.c), and of any that is left (print_op.c).
 */
void ir_put_tile(Printer *p, const IrStmt *s, int level);
void ir_put_op(Printer *p, const IrStmt *s, int level);

#endif
