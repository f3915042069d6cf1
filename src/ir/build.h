/* build.h: from the typed tree of src/sema to tile-level IR. */
#ifndef TILESH_IR_BUILD_H
#define TILESH_IR_BUILD_H

#include "ir.h"
#include "sema/sema.h"

/* The kernel as tile-level IR, in the arena (names are kept by pointer), verified. NULL with
 * diagnostics where the tree asks for what cannot be built yet. */
IrKernel *ir_build(Arena *a, Names *names, const SemaTree *tree, DiagSink *sink);

#endif
