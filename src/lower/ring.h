/* ring.h: products of warpgroups in a block of one role (ring.c). Private. */
#ifndef TILESH_LOWER_RING_H
#define TILESH_LOWER_RING_H

#include "simple.h"

/* Whether a shared tile is an operand of such products; how it then lies. */
bool ring_operand(const IrKernel *k, const IrBuffer *b);
void ring_lay(Place *p, const IrBuffer *b);

/* Numbers the warpgroups, at the start of the kernel's body; nothing where it has no such products.
 */
void ring_open(Simple *s);

/* A product by itself: behind a barrier, and over where it ends. */
bool expand_ring_dot(Simple *s, IrStmt *st);

/* In a pipelined loop: what generic accesses wrote is there for the products of all warpgroups
 * behind the barrier that follows; the product begins; it is over. */
void ring_fence(Simple *s);
void ring_start(Simple *s, IrStmt *st);
void ring_wait(Simple *s);

#endif
