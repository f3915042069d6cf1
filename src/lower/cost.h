/* cost.h: what cost.c asks of products of single warps. Private. Tests: tests/lower/auto_*.tile. */
#ifndef TILESH_LOWER_COST_H
#define TILESH_LOWER_COST_H

#include "lower.h"

typedef struct CostWarps { /* what a block of a kernel of mma.sync is */
  int warps;
  int blocks; /* that a multiprocessor holds at a time */
} CostWarps;

/* FALSE: its products have no such instruction, or a thread's registers or the shared memory do not
 * hold what they need. */
bool cost_find_warps(const IrKernel *k, const Target *t, CostWarps *out);

#endif
