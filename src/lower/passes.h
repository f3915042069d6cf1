/* passes.h: the passes of lowering, as passes.c lists them. Private.
 *
 * Each takes a kernel and gives a new one in the arena. NULL without a diagnostic: it cannot do
 * this kernel, and a note says why; NULL with one: nothing can.
 */
#ifndef TILESH_LOWER_PASSES_H
#define TILESH_LOWER_PASSES_H

#include "lower.h"

/* The tile level named a scheduled one: nothing is chosen (simple.c). */
IrKernel *low_relabel(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink);
/* Scalar code of one block of threads, barriers between all that conflicts (simple.c). */
IrKernel *low_simple(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink);
/* e, or less where e + n would wrap: the sum then is the greatest number of the type, which no loop
 * reaches. Not of u64; n is not negative (simple_loop.c). */
IrExpr *low_with_room(IrKernel *k, IrExpr *e, int64_t n);
/* low_simple with fragments in registers, vectors of memory and products of the tensor cores
 * (expand.h); takes every statement of the scheduled level. */
IrKernel *low_expand_dense(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink);
IrKernel *low_expand(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink);

/* From the tile level to the Hopper schedule, in this order; each says in its file what goes in and
 * what comes out (sched.h is what they share). */
IrKernel *low_select(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink);
IrKernel *low_turns(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink);
IrKernel *low_tile_loop(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink);
IrKernel *low_copies(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink);
IrKernel *low_channels(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink);
IrKernel *low_roles(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink);
IrKernel *low_rotate(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink);
IrKernel *low_waits(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink);
IrKernel *low_guards(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink);

/* Behind low_select: products of warpgroups in one role, whose operands its threads write (ring.c).
 */
IrKernel *low_ring_share(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink);
IrKernel *low_ring(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink);

/* The grid as the hardware takes it; the kernel itself where there is nothing to do (grid.c). */
IrKernel *low_grid(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink);
/* Of the author's roles; NULL without a note where there are none, or no products (author.c). */
/* copies.c: results of the author's roles through staging tiles; the kernel itself: there are none.
 */
IrKernel *low_results(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink);
IrKernel *low_author(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink);
/* Of the thread level (approx.c): what may be rounded otherwise, or only powers of two. */
IrKernel *low_powers(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink);
IrKernel *low_approx(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink);

#endif
