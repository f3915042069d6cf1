/* uniform.h: the uniformity analysis with what the verifier needs of it. Private to src/ir. */
#ifndef TILESH_IR_UNIFORM_H
#define TILESH_IR_UNIFORM_H

#include "impl.h"

typedef struct UniformSeen {
  /* Called for each statement once the fixed point stands: over what the control that leads to it
   * is the same. May be NULL. */
  void (*stmt)(IrStmt *s, IrUniform control, void *ctx);
  void *ctx;
} UniformSeen;

/* Sets `uniform` of variables and expressions; seen is told the control of each statement. Returns
 * what was inferred of each variable, by id (in the arena). */
const IrUniform *ir_uniform_run(Arena *a, IrKernel *k, const UniformSeen *seen);

#endif
