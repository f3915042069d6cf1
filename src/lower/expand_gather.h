/* expand_gather.h: elements that a parallel loop brings to a tile, or takes from it. Private. */
#ifndef TILESH_LOWER_EXPAND_GATHER_H
#define TILESH_LOWER_EXPAND_GATHER_H

#include "expand.h"

enum { GATHER_ROWS = 8, GATHER_GUARDS = 16, GATHER_ENDS = 4 };

/* What the rows alone decide of indices and conditions: computed once, kept in registers. */
typedef struct GatherRow {
  IrExpr *value; /* of the loop's indices and names outside */
  IrVar *name;   /* what stands for it */
  IrBuffer *regs;
} GatherRow;

typedef struct Gather {
  IrStmt *st; /* the MAP */
  const IrMap *map;
  IrBuffer *tile, *tensor;
  bool out;                     /* from the tile to the tensor */
  int64_t width;                /* neighbours at once, along the last axis of both */
  IrExpr *offset;               /* elements in the tensor, i32 or i64 */
  IrExpr *guard[GATHER_GUARDS]; /* each holds for a whole group, or for none of it */
  int nguards;
  IrExpr *end[GATHER_ENDS]; /* i64: so many elements from the group's first on are there */
  int nends;
  GatherRow row[GATHER_ROWS];
  int nrows;
  Frag iter;
} Gather;

/* Whether a MAP is one, `loop` NULL or the loop around it, whose rounds then change what is
 * computed inside it. */
bool gather_find(Simple *s, IrStmt *st, const IrStmt *loop, Gather *out);
/* Declares the rows' registers, and computes them with the checks that the MAP's own divisions
 * have. */
void gather_declare(Simple *s, Gather *g);
void gather_rows(Simple *s, const Gather *g);
/* Sends a tile on its way by cp.async, into the stage in hand. to: what stands for variables of
 * the loop's body, by id, n of them. */
void gather_send(Simple *s, const Gather *g, IrExpr *const *to, size_t n);

/* As a statement by itself. */
bool expand_gather(Simple *s, IrStmt *st);

#endif
