/* guard.c: the boundary that deep failures unwind to.
 *
 * In: a function to run. Out: ST_OK, or the status somebody below raised. Always holds: a boundary
 * lives on the stack of the thread that opened it, so raising on another thread's boundary, or
 * after guard_run returned, is a bug of ours. Nothing is freed here: memory belongs to arenas,
 * which their owners reset or free above the boundary. Tests: tests/unit/check_base_arena.c.
 */
#include <assert.h>
#include <setjmp.h>
#include <sys/resource.h>

#include "arena.h"

/* Below SHALLOW levels the stack is not looked at: any stack holds these. */
enum { GUARD_DEPTH = 1000, SHALLOW = 32 };

struct Guard {
  jmp_buf env;
  volatile Status why; /* written between setjmp and longjmp */
  int depth;
  const char *base; /* of the stack, at the boundary */
  size_t room;      /* bytes that may lie below it; 0 until asked for */
};

/* setjmp without the signal mask: a handler only sets a flag, so the mask never differs. */
Status guard_run(void (*fn)(Guard *guard, void *ctx), void *ctx) {
  Guard guard = {.why = ST_OK, .depth = 0, .base = __builtin_frame_address(0)};
  if (setjmp(guard.env) == 0)
    fn(&guard, ctx);
  return guard.why;
}

_Noreturn void guard_raise(Guard *guard, Status why) {
  assert(guard && why != ST_OK);
  guard->why = why;
  longjmp(guard->env, 1);
}

/* Half of what the system allows: what reads the tree afterwards goes as deep again. */
static bool has_stack(Guard *guard) {
  if (guard->room == 0) {
    struct rlimit limit;
    bool told = getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    guard->room = (told ? (size_t)limit.rlim_cur : (size_t)8 << 20) / 2;
  }
  const char *here = __builtin_frame_address(0);
  size_t used = (size_t)(here < guard->base ? guard->base - here : here - guard->base);
  return used <= guard->room;
}

/* No boundary, no limit: for callers whose input is already bounded. */
bool guard_enter(Guard *guard) {
  if (!guard)
    return true;
  if (guard->depth >= GUARD_DEPTH || (guard->depth >= SHALLOW && !has_stack(guard)))
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
