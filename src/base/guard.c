/* guard.c: the boundary that deep failures unwind to.
 *
 * In: a function to run. Out: ST_OK, or the status somebody below raised. Always holds: a boundary
 * lives on the stack of the thread that opened it, so raising on another thread's boundary, or
 * after guard_run returned, is a bug of ours. Nothing is freed here: memory belongs to arenas,
 * which their owners reset or free above the boundary. Tests: tests/unit/check_base_arena.c.
 */
#include <assert.h>
#include <setjmp.h>

#include "arena.h"

enum { GUARD_DEPTH = 1000 };

struct Guard {
  jmp_buf env;
  volatile Status why; /* written between setjmp and longjmp */
  int depth;
};

/* setjmp without the signal mask: a handler only sets a flag, so the mask never differs. */
Status guard_run(void (*fn)(Guard *guard, void *ctx), void *ctx) {
  Guard guard = {.why = ST_OK, .depth = 0};
  if (setjmp(guard.env) == 0)
    fn(&guard, ctx);
  return guard.why;
}

_Noreturn void guard_raise(Guard *guard, Status why) {
  assert(guard && why != ST_OK);
  guard->why = why;
  longjmp(guard->env, 1);
}

/* No boundary, no limit: for callers whose input is already bounded. */
bool guard_enter(Guard *guard) {
  if (!guard)
    return true;
  if (guard->depth >= GUARD_DEPTH)
    return false;
  guard->depth++;
  return true;
}

void guard_leave(Guard *guard) {
  if (!guard)
    return;
  assert(guard->depth > 0);
  guard->depth--;
}
