/* concerns.h: which compile-time parameters each assert of a kernel depends on. */
#ifndef TILESH_SESSION_CONCERNS_H
#define TILESH_SESSION_CONCERNS_H

#include "kernel.h"

typedef struct Concern {
  const AstStmt *stmt;
  uint64_t mask; /* bit i: the parameter of index i */
} Concern;

typedef struct Concerns { /* the asserts in the kernel's own text, in its order */
  Arena *arena;
  VEC(Concern) v;
} Concerns;

/* Of a kernel with at most 64 parameters; in the arena. */
void concerns_find(Concerns *c, Arena *a, const SemaKernel *k);
/* The assert that a place of the kernel's text is in; NULL: it is in a function's. */
const Concern *concerns_at(const Concerns *c, Span at);

#endif
