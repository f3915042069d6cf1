/* place.c: where the program's text has the operations that may fault.
 *
 * In: an expression and the span of its text. Out: that span again, for whoever says that the
 * expression went wrong. Expressions are hash-consed, so one node may stand at several places of
 * the text: each is kept, and the statement that runs tells which one is meant. Always holds: only
 * operations that may fault themselves have places, in the order in which they were noted, each
 * once. Tests: tests/lang/fault_at_the_operation*, tests/unit/check_lower.c.
 */
#include "impl.h"

static bool same_span(Span a, Span b) {
  return a.file == b.file && a.begin == b.begin && a.end == b.end;
}

static bool within(Span a, Span b) {
  return a.file == b.file && a.begin >= b.begin && a.end <= b.end;
}

/* The first kernel to note a node's place decides nothing: all are kept. */
void ir_place(IrKernel *k, IrExpr *e, Span span) {
  if (!span.file || !e->may_fault || !ir_own_fault(e))
    return;
  IrPlace **end = &e->places;
  for (; *end; end = &(*end)->next)
    if (same_span((*end)->span, span))
      return;
  *end = ARENA_NEW(k->arena, IrPlace);
  **end = (IrPlace){span, NULL};
}

/* The list is the other kernel's, or the other node's: spans are values. */
void ir_place_like(IrKernel *k, IrExpr *e, const IrPlace *places) {
  for (; places; places = places->next)
    ir_place(k, e, places->span);
}

/* One place is the place, also when a fn's text is not the statement's. */
Span ir_place_of(const IrExpr *e, Span stmt) {
  const IrPlace *found = NULL;
  if (e->places && !e->places->next)
    return e->places->span;
  for (const IrPlace *p = e->places; p; p = p->next) {
    if (!within(p->span, stmt))
      continue;
    if (found)
      return stmt;
    found = p;
  }
  return found ? found->span : stmt;
}
