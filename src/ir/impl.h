/* impl.h: private to src/ir: the table of expressions, the table of names, small helpers.
 *
 * In and out: what ir.c, expr.c, print.c, read.c, verify.c share and nobody else sees.
 * Always holds: table.all lists every expression of the kernel by id, operands before users.
 */
#ifndef TILESH_IR_IMPL_H
#define TILESH_IR_IMPL_H

#include "ir.h"

struct IrTable {
  VEC(IrExpr *) all; /* by id */
  uint32_t *slots;   /* open addressing: id + 1, 0 free */
  size_t nslots;     /* a power of two, at most half full */
  IrVar *sms;        /* NULL until ir_sms */
};

/* The node itself, hash-consed, with no folding and no reordering. */
IrExpr *ir_intern(IrKernel *k, const IrExpr *like);
/* Whether the operation itself may fault, whatever its operands do. */
bool ir_own_fault(const IrExpr *e);
/* uniform, reads_mut and may_fault of a node from its operation and operands. */
void ir_facts(IrExpr *e);

/* Whether the operation takes operands of these types; type: the node's, for casts. */
bool ir_types_ok(OpCode op, DType type, IrExpr *const *arg, int nargs);

/* Names as printed: unique over variables, buffers, tensor maps and channels, in that order, by id.
 * Stride variables have none (they print as `A.stride0`). */
typedef struct IrNames {
  const char **var, **buffer, **tmap, **channel;
} IrNames;
IrNames ir_names_apart(Arena *a, const IrKernel *k);

/* One buffer's constant extent along an axis, or -1 where it is not constant. */
int64_t ir_buffer_extent(const IrBuffer *b, int axis);
/* Elements of a tile with constant extents; -1 where one is not, or on overflow. */
int64_t ir_buffer_count(const IrBuffer *b);
bool ir_region_is_whole(const IrRegion *r);

/* The words of IrEngine, IrUnit and IrPolicy in text, by value, NULL after the last (print_tile.c).
 */
extern const char *const ir_engine_names[], *const ir_unit_names[], *const ir_policy_names[];

/* The statement's name in text: "let", "copy", … (of IRK_OP the operation's). */
const char *ir_stmt_name(const IrStmt *s);

#endif
