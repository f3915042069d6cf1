/* expand_count.h: rounds divided by what is the same in all of them. Private. */
#ifndef TILESH_LOWER_EXPAND_COUNT_H
#define TILESH_LOWER_EXPAND_COUNT_H

#include "expand.h"

enum { COUNT_MOST = 6 };

typedef struct Count { /* quotient = of // by, rest = of % by, of the round to come */
  IrExpr *of, *by;
  IrVar *quotient, *rest;
} Count;

typedef struct Counts {
  const IrStmt *loop; /* NULL: nothing is counted */
  bool *inside;       /* by variable id: the loop defines it */
  size_t nvars;
  Count v[COUNT_MOST];
  int n;
} Counts;

/* Whether it is a LET that a round can compute before its copies: divisors that could be zero are
 * the same in all rounds. changes: by variable id, what is not; notes it of this one. */
bool count_plain_let(const IrStmt *st, bool *changes);
/* For a loop whose index goes from 0 on by 1; others' are not counted. */
void count_begin(Simple *s, Counts *c, const IrStmt *loop);
/* The expression of the loop's body with counters for its divisions of the round's number. */
IrExpr *count_replace(Simple *s, Counts *c, IrExpr *e);
/* Declares the counters that were asked for so far, as of round 0; goes on to the next round. */
void count_declare(Simple *s, Counts *c);
void count_advance(Simple *s, const Counts *c);

#endif
