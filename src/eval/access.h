/* access.h: where the elements of a LOAD, STORE or ATOMIC lie; private to src/eval.
 *
 * A strip of a MAP whose coordinates are affine is a Place: base and strides, checked at its
 * corners. Everything else is one offset a lane. Each is known twice: in memory, and in the
 * row-major map of what was written, because a view need not be contiguous while its map is.
 */
#ifndef TILESH_EVAL_ACCESS_H
#define TILESH_EVAL_ACCESS_H

#include "run.h"

/* The elements of a strip: at + sum over axes of (point - pos) * lane. */
typedef struct Place {
  int64_t at, lane[4];
} Place;

typedef struct Lanes {
  const uint8_t *on; /* NULL: all */
  int n;
} Lanes;

/* Visits the lanes of a strip in order. */
typedef struct Walk {
  const EvalMapState *s;
  int64_t done[4];
  int64_t at;
  const Place *p;
} Walk;

/* The lanes that take part in the instruction. */
Lanes eval_lanes_of(const EvalAgent *a, const EvalInsn *in);
/* The strip as a whole, in memory and in the map; false where an index is not affine or a corner is
 * outside. */
bool eval_place_strip(const EvalAgent *a, const EvalAccess *x, const EvalMem *m, Place *data,
                      Place *map);
/* Offsets of the lanes that take part, into a->offsets; into `map` too where it is given. Faults at
 * the first one outside. */
EvalResult eval_place_lanes(EvalAgent *a, const EvalAccess *x, const EvalMem *m, Lanes l,
                            int64_t *map);
/* The element of an access that is the same for all lanes. Faults where it is outside. */
EvalResult eval_place_one(EvalAgent *a, const EvalAccess *x, const EvalMem *m, int64_t *at,
                          int64_t *map);
/* At the first point of the strip; then each next, as lanes are numbered. */
Walk eval_walk_start(const EvalMapState *s, const Place *p);
void eval_walk_next(Walk *w);

#endif
