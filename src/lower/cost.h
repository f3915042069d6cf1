/* cost.h: what cost.c asks of products that are not of warpgroups. Private. Tests:
 * tests/lower/auto_*.tile. */
#ifndef TILESH_LOWER_COST_H
#define TILESH_LOWER_COST_H

#include "lower.h"

enum { THREAD_REGISTERS = 255 }; /* of a thread */

typedef struct CostWarps { /* what a block of a kernel of mma.sync is */
  int warps;
  int blocks; /* that a multiprocessor holds at a time */
} CostWarps;

/* FALSE: its products have no such instruction, or a thread's registers or the shared memory do not
 * hold what they need. */
bool cost_find_warps(const IrKernel *k, const Target *t, CostWarps *out);

/* Cycles of a kernel of one product that no tensor core multiplies, of so many tiles, each in so
 * many rounds of K; less than 0: it is none, or no good way to share it out to threads fits. */
double cost_fma(const IrKernel *k, const Target *t, double rounds, double tiles, int64_t sms);

#endif
