/* explain.h: a kernel that is explained; what explain.c and explain_layout.c share. */
#ifndef TILESH_SESSION_EXPLAIN_H
#define TILESH_SESSION_EXPLAIN_H

#include "debug.h"

typedef struct Explain {
  Session *s;
  const Target *target;
  const AstKernel *ast;   /* NULL: read from IR text */
  const SemaKernel *sema; /* NULL likewise */
  const Spec *spec;
  Value kernel;
  const IrKernel *ir, *thread; /* as written, and lowered for the target */
  const LowerNotes *notes;     /* or NULL */
  Launch *l;                   /* NULL: a kernel without a call */
  bool assumed;                /* static extents are */
} Explain;

/* Adds what holds which element of the tile, and in which bank. */
void explain_layout(Explain *x, const char *tile, Str *out);

#endif
