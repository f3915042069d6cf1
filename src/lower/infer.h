/* infer.h: what infer.c and infer_share.c share. Private. */
#ifndef TILESH_LOWER_INFER_H
#define TILESH_LOWER_INFER_H

#include "expand.h"

typedef struct Infer {
  Simple *s;
  IrBlock *body;     /* of the kernel or of a role, whose threads are s->threads */
  size_t iterations; /* of other roles */
  bool changed, restart;
} Infer;

/* The fragment lies in shared memory, which is noted with the reason; inference begins anew. Other
 * buffers, and those that lie there already, are let be. */
void infer_share(Infer *f, const IrBuffer *b, const char *why);
bool infer_open(Infer *f, const IrBuffer *b); /* still to be had in registers */
/* Constant extents of a MAP; false where one is not constant. */
bool infer_extents(const IrMap *m, int64_t *extent);

/* Shares what a statement of the block cannot take from registers, however it lies there … */
void infer_scan(Infer *f, IrBlock *b);
/* … and what one cannot take as it lies now. */
void infer_check(Infer *f, IrBlock *b);

#endif
