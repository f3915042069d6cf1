/* lower_random.h: random tile-level programs that run.
 *
 * In: a seed. Out: the IR text of one kernel `random` with inputs A: f32[M, N] and n: i64 (0 to 3),
 * in which every access lies inside, every tile is written before it is read, and no parallel
 * iteration races; each tile that lives to the end is copied to an output of its own.
 */
#ifndef TILESH_TESTS_LOWER_RANDOM_H
#define TILESH_TESTS_LOWER_RANDOM_H

#include "ir/ir.h"

const char *lower_random(Arena *a, uint64_t seed);

#endif
