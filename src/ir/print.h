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

/* The type that a reader takes for the constants of e where nothing else says: i64, f32 or bool. */
DType ir_put_default(const IrExpr *e);
/* want: the type that the reader expects at this place; DT_NONE where it expects none. */
void ir_put_expr(Printer *p, const IrExpr *e, DType want);
void ir_put_exprs(Printer *p, IrExpr *const *e, int n, DType want);
void ir_put_type(Printer *p, const IrBuffer *b); /* f16[M, 64] */
/* The type of a lone integer where any integer may stand: i32 at thread level, else i64. */
DType ir_put_index_type(const Printer *p);
void ir_put_string(Printer *p, const char *s); /* quoted, with escapes */
void ir_put_block(Printer *p, const IrBlock *b, int level);

#endif
