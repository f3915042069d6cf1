/* expand_pipe.h: what expand_loop.c and expand_fill.c share. Private. */
#ifndef TILESH_LOWER_EXPAND_PIPE_H
#define TILESH_LOWER_EXPAND_PIPE_H

#include "expand.h"

/* expand_loop.c: the tile that the i-th of the copies fills; whether a statement is one of them. */
IrBuffer *pipe_tile(const Pipe *p, int i);
bool pipe_has(const Pipe *p, const IrStmt *st);
/* Whether where it copies from is known ahead, by 4 bytes at least, and not before the tensor along
 * the vectors' axis; how many elements at once. */
bool pipe_source(Simple *s, const IrCopy *c, int64_t *width);

/* Of what a round begins with, up to where it computes, the next LET from statement *i on, which
 * goes behind it; NULL: there is none. */
const IrStmt *pipe_next_let(const Pipe *p, size_t *i);
/* Round `index` into `stage`, where the loop reaches it; a group in any case. */
void pipe_fill(Simple *s, const Pipe *p, IrExpr *index, IrExpr *end, IrExpr *stage);

#endif
