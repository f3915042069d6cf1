/* noise.h: what a device may round otherwise, as noise; private to src/eval, for runs of the tile
 * level with EvalOptions.noise.
 *
 * The manual lets a GPU add sums and products in another order, keep fewer bits inside a tensor
 * core, fuse a product with the addition after it, and take 2^x from a special unit. A noisy run
 * moves each such result by a random part of what it may be off by, and each rounding to a narrower
 * type after that by at most one place, so that the spread of a few noisy runs shows how far two
 * right results may lie apart. Tests: tests/unit/check_eval_noise.c.
 */
#ifndef TILESH_EVAL_NOISE_H
#define TILESH_EVAL_NOISE_H

#include "run.h"

/* The block's own sequence: the same whatever the number of workers. */
void eval_noise_start(EvalBlock *b);
/* An operation's results at `out`, its operands still at src: n lanes, or one element. */
void eval_noise_values(EvalAgent *a, const EvalInsn *in, const void *const *src, void *out, int n);
/* z holds the product of x and y (or has it added). Faults only where memory is short. */
EvalResult eval_noise_product(EvalAgent *a, const EvalDotCode *c, const EvalView *x,
                              const EvalView *y, const EvalView *z);
/* The terms of a sum or product so far; {0}: none. */
typedef struct EvalNoiseTerms {
  int64_t n;
  double magnitude;  /* the sum of theirs */
  long double exact; /* their sum or product */
} EvalNoiseTerms;
/* *acc holds the running fold of a scan, *x the element of type t that it has just got. */
void eval_noise_running(EvalAgent *a, OpCode op, DType t, const void *x, void *acc,
                        EvalNoiseTerms *line);
/* d holds the folds of s along an axis. */
void eval_noise_fold(EvalAgent *a, OpCode op, const EvalView *s, int axis, const EvalView *d);
/* *cell holds the fold of all of s. */
void eval_noise_scalar(EvalAgent *a, OpCode op, const EvalView *s, void *cell);
/* d was copied from elements of type `from`. */
void eval_noise_copy(EvalAgent *a, DType from, const EvalView *d);
/* The value, in compute form, that an atomic combines with the element at `at`; room: 8 bytes. */
const void *eval_noise_atomic(EvalAgent *a, OpCode op, const EvalMem *m, const void *at,
                              const void *value, void *room);

#endif
