/* expand_side.h: one side of a copy; shared by the files that move elements. Private. */
#ifndef TILESH_LOWER_EXPAND_SIDE_H
#define TILESH_LOWER_EXPAND_SIDE_H

#include "expand.h"

enum { VECTOR_BYTES = 16, MOST_STAGED = 64 };

typedef struct Side {
  const IrRegion *r;
  const Frag *frag;                             /* registers; NULL: memory */
  int64_t width;                                /* elements of one access … */
  int axis;                                     /* … along this axis of the copy; -1: not known */
  IrExpr *low[IR_MAX_RANK], *high[IR_MAX_RANK]; /* coordinates that lie inside, i32; NULL: all */
} Side;

/* The side of a copy that goes over `iter`. */
Side side_of(Simple *s, const IrRegion *r, const Frag *iter);
/* The buffer's axis whose neighbours lie next to each other in memory; -1: not known. */
int side_unit_axis(Simple *s, const IrBuffer *b);
/* Linear element offset in a tensor. */
IrExpr *side_global_offset(Simple *s, IrBuffer *b, IrExpr *const *at);
/* One vector between registers (of b's dtype, or words of its bits) and memory. */
void side_move(Simple *s, bool load, IrBuffer *b, IrExpr *const *at, IrOperand regs);

/* Emits the computation of x's limits. */
void side_set_limits(Simple *s, Side *x, const Shape *shape);
/* Whether nothing of it lies outside; NULL: certainly not. */
IrExpr *side_all_inside(Simple *s, const Side *x, const Shape *shape);
/* Whether the elements from the e-th to the one before the f-th along the vectors' axis lie inside;
 * NULL: always. */
IrExpr *side_inside(Simple *s, const Side *x, const Point *p, int64_t e, int64_t f);

/* The layout in which threads copy between memory and memory, widest along one side's vectors. */
Frag side_layout(Simple *s, const IrCopy *c, const Shape *shape);

#endif
