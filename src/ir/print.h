/* print.h: what print.c and print_stmt.c (and the reader, for the infix table) share. Private to
 * src/ir. */
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
void ir_put_block(Printer *p, const IrBlock *b, int level);

#endif
