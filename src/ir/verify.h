/* verify.h: what the files of the verifier share. Private to src/ir.
 *
 * verify.c: the kernel's head, names, scopes, control; verify_expr.c: expressions;
 * verify_tile.c: accesses, regions, tile and scheduled operations; verify_op.c: thread-level
 * operations and tensor maps; verify_flow.c: what depends on uniformity.
 */
#ifndef TILESH_IR_VERIFY_H
#define TILESH_IR_VERIFY_H

#include "uniform.h"

typedef enum Definition { DEF_NONE, DEF_SCOPE, DEF_GONE } Definition;

typedef struct Verify {
  IrKernel *k;
  DiagSink *sink;
  Arena *arena;
  size_t errors;
  Span at;          /* of the statement being checked */
  uint8_t *var;     /* Definition, by id */
  uint8_t *buffer;  /* Definition, by id */
  uint8_t *channel; /* Definition, by id */
  uint32_t *stamp;  /* by expression id: the last statement that checked it */
  uint32_t now;
  const IrFor **unroll; /* by variable id: the unrolled loop whose index it is, or NULL */
  VEC(uint32_t) var_scope;
  VEC(uint32_t) buffer_scope; /* what is in scope, to take it out at the end of the block */
  const IrMap *map;           /* the enclosing one */
  size_t map_mark;            /* var_scope.n where its body began */
  int loops;                  /* enclosing loops that break may leave */
  bool in_roles, in_pre;
  int block_warps;
} Verify;

/* Appends an error at the statement being checked. */
void ir_verify_error(Verify *v, DiagCode code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Definitions. */
void ir_verify_define(Verify *v, const IrVar *var);
void ir_verify_declare(Verify *v, const IrBuffer *b);
bool ir_verify_buffer(Verify *v, const IrBuffer *b); /* NULL, foreign, or out of scope: an error */

/* An expression that this statement uses: its names in scope, its operations of this level. `what`
 * names its place in messages. False (reported) where it is missing or broken. */
bool ir_verify_expr(Verify *v, const IrExpr *e, const char *what);
bool ir_verify_typed(Verify *v, const IrExpr *e, DType type, const char *what);
bool ir_verify_int(Verify *v, const IrExpr *e, const char *what); /* i64 above thread level */
void ir_verify_all_types(Verify *v); /* every node of the table, once */

/* Statements; false where the kind is another file's. */
bool ir_verify_tile(Verify *v, IrStmt *s);
void ir_verify_op(Verify *v, const IrOp *op);
void ir_verify_tmap(Verify *v, const IrTmap *t);
/* Registers from `first` on, `count` of them: a static index inside the array. */
void ir_verify_regs(Verify *v, const IrBuffer *b, const IrExpr *first, int64_t count);
void ir_verify_flow(Verify *v);

#endif
