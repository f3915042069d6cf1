/* check_roles.c: races between the roles that a program writes, under all checks.
 *
 * In: copies of a launch at tile level, which has run without a fault. Out: nothing, or a fault of
 * the program. At tile level roles take turns, so what their barriers do not order is not seen to
 * race; the threads that they are lowered to are. They run for about two seconds at most where no
 * block needs another; what the kernel prints is left to the run that counts. What cannot be
 * lowered is not looked at. Tests: tests/races/roles_*.
 */
#include <stdio.h>

#include "impl.h"
#include "kernel.h"

static bool see_roles(IrStmt *st, void *ctx) {
  bool *found = ctx;
  *found |= st->kind == IRK_ROLES;
  return !*found;
}

bool launch_has_roles(const Launch *l) {
  bool found = false;
  if (l->ir->level == IR_TILE)
    ir_walk((IrBlock *)(uintptr_t)&l->ir->body, see_roles, &found);
  return found;
}

/* Of the run's outputs nothing is kept. */
static void run_threads(Launch *run, const IrKernel *k) {
  Session *s = run->s;
  EvalProgram *p = eval_compile(session_scratch(s), (IrKernel *)(uintptr_t)k, &s->diags);
  FILE *nowhere = p ? fopen("/dev/null", "we") : NULL;
  if (!nowhere)
    return;
  run->print = nowhere;
  Status status = launch_evaluate_kernel(run, k, p, CHECKS_ALL, &s->diags);
  fclose(nowhere);
  launch_forget(run);
  if (status != ST_OK)
    session_fail_call(s, status, run->span, run->name);
}

void launch_check_roles(Launch *l) {
  enum { SECONDS = 2 };
  DiagSink why;
  diag_init(&why, l->s->line);
  const IrKernel *k = launch_thread(l, &why);
  l->budget = launch_has_atomics(l) ? 0 : SECONDS;
  if (k)
    run_threads(l, k);
}
