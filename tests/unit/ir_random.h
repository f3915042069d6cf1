/* ir_random.h: random kernels of each level, for tests that print and read them.
 *
 * In: a seed and a level. Out: a kernel whose expressions have the types their operations demand
 * and whose names are in scope, with every kind of the level; not one that makes sense otherwise
 * (the verifier may refuse it: shapes, uniformity and hardware limits are left to chance).
 */
#ifndef TILESH_TESTS_IR_RANDOM_H
#define TILESH_TESTS_IR_RANDOM_H

#include "ir/ir.h"

IrKernel *ir_random(Arena *a, Names *names, uint64_t seed, IrLevel level);

#endif
