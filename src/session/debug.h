/* debug.h: what the files about stepping share: the call that is stepped and where it stands.
 *
 * One call is stepped at a time; it is kept, with its arguments, until another begins. A position
 * is a number of pauses since the start; going back is starting anew and pausing once less.
 */
#ifndef TILESH_SESSION_DEBUG_H
#define TILESH_SESSION_DEBUG_H

#include "kernel.h"

typedef struct Break {
  Span stmt;             /* the statement it stands at */
  uint32_t line;         /* of its start */
  const char *text;      /* of the condition, or NULL */
  const AstExpr *cond;   /* in a unit of its own … */
  Unit *unit;            /* … which stays as long as this does; NULL: no condition */
  const AstFile *parsed; /* where its names stand */
} Break;

typedef struct Seen { /* a scalar's last shown value */
  const IrVar *var;
  Scalar value;
} Seen;

struct Debug {
  Arena *arena;           /* of everything here, but what a run holds */
  const AstKernel *ast;   /* NULL: read from IR text */
  const SemaKernel *sema; /* NULL likewise */
  const Unit *units;      /* the newest when it began: what was compiled is of these */
  Launch l;               /* of the run: outputs and inout tensors are its own */
  Tensor **args;          /* by parameter: what the call gave */
  Value *held;            /* by parameter: what the run has made */
  EvalDebug *eval;        /* NULL: the run could not begin */
  int64_t first;          /* the block that it began with */
  uint64_t position;      /* pauses since then */
  EvalPause pause;
  Span shown;       /* the statement it stands at; file NULL: at none */
  bool interrupted; /* within that statement */
  VEC(Break) breaks;
  const char *watched; /* a name, or NULL */
  Tensor *before;      /* its tile's elements at the last pause, or NULL … */
  int64_t written;     /* … how many had been written … */
  Scalar scalar;       /* … or its value */
  bool has_before;
  VEC(Seen) seen;
};

/* debug_scope.c */

/* The value of an expression in the scope of the statement it stands at. Raises. */
Value debug_eval(Session *s, const AstFile *f, const AstExpr *e);
/* All names in scope with their values or types, a line each. */
void debug_names(Session *s, Str *out);
/* One name: a scalar's value, a tile with its type and how much of it was written; false where the
 * kernel has no such name here. */
bool debug_show(Session *s, const char *name, size_t n, Str *out);
/* Scalars whose value is not the one last shown: "  ko = 1, m = 2.5". */
void debug_changes(Session *s, Str *out);
/* Whether the kernel has a tile, variable or tensor of that name, here or elsewhere. */
bool debug_has(Session *s, const char *name, size_t n);
/* Remembers the watched value; true, with words, where it is not what was remembered. */
bool debug_watch(Session *s, Str *out);
void debug_forget(Debug *d); /* what was remembered */

/* The innermost statement of a kernel that holds the offset, but none inside a `parallel` loop;
 * NULL where none does. */
const AstStmt *debug_stmt(const AstBlock *b, const SrcFile *file, uint32_t at);
/* Whether the kernel's text declares the name (others are the compiler's). */
bool debug_declares(const AstKernel *k, const char *name);

#endif
