/* tune.h: what the files that choose `auto` sizes share: tune.c (products, what is remembered),
 * meet.c (sizes that the asserts allow), unmet.c (what is said where there are none). */
#ifndef TILESH_SESSION_TUNE_H
#define TILESH_SESSION_TUNE_H

#include "concerns.h"

enum { MOST_AUTOS = 8, MOST_EXTENT = 65536, DOUBLINGS = 12 };

/* What a parameter may decide. */
typedef enum Side { ROWS, COLUMNS, STAGES, DEPTH, SIDES } Side;

typedef struct Tuned {
  int64_t *value;         /* by index of statics: the value, 0: as it was */
  const char *why, *hint; /* no value is allowed: what the call fails with; else NULL */
  Span at;                /* … and where */
} Tuned;

typedef struct Tuning {
  Session *s;
  const SemaKernel *k;
  const SemaSpec *spec;
  const SemaArg *args;
  Arena *keep;                 /* of what is chosen */
  Arena *arena;                /* of what is tried */
  int side[SIDES];             /* index of the parameter that decides it; -1: none */
  SpecStatic base[MOST_AUTOS]; /* what the asserts ask for */
  size_t nbase;
  int64_t tile; /* bytes of the greatest tile in registers by the author's sizes */
} Tuning;

/* The kernel with what the asserts ask for, then what is set here; NULL: it cannot be built so, or
 * Ctrl-C was pressed: then no other can, and kernel_tune raises once all that was tried is freed.
 */
const IrKernel *tune_build(Tuning *t, const SpecStatic *set, size_t n);
/* Scalars are 0, so that what is chosen does not change with them. NULL: the arguments do not fit,
 * which the call will say. */
IrBinding *tune_bind(Tuning *t, const IrKernel *k);
/* Bytes of the greatest tile in registers; INT64_MAX where the shared tiles do not fit. */
int64_t tune_tile(Tuning *t, const IrKernel *k);
bool tune_fits_shared(Tuning *t, const IrKernel *k);
/* Whether nothing sets a parameter that is `auto`. */
bool tune_is_free(const Tuning *t, size_t i);
/* The author's value of an integer parameter that nothing sets; 0: another kind. */
int64_t tune_own(Tuning *t, size_t i);

/* Sets t->base to the nearest values with which every assert holds that depends on them: of one
 * parameter where that is enough, else of those that the failing asserts need together. over, of
 * MOST_AUTOS: where only values were found whose tiles are larger than any that is chosen, these;
 * their number is returned, else 0. */
size_t tune_meet(Tuning *t, SpecStatic *over);
/* Where rows are shorter than half of the tile that an assert has hold them: sets t->base to a
 * shorter one, of more rows. */
void tune_shorten(Tuning *t);
/* Says of which assert no value is known that allows it, in out->why; over: as tune_meet gave it.
 * plain: with the author's sizes. Nothing where its grid is empty, or no assert fails that depends
 * on a parameter. */
void tune_unmet(Tuning *t, const IrKernel *plain, const SpecStatic *over, size_t n, Tuned *out);

/* The bits of the parameters that tune_own has a value of. */
uint64_t tune_free_mask(Tuning *t);
/* What of those a failing assert depends on. */
uint64_t tune_mask_at(const Concerns *c, uint64_t free, const IrStmt *assert);

#endif
