/* step.c: the commands that walk a kernel statement by statement.
 *
 * In: the text after the command. Out: what session_debug shows, then its diagnostics. Tests:
 * tests/repl/step*.txt.
 */
#include <string.h>

#include "impl.h"

/* The evaluator polls Ctrl-C. */
static void debug(Repl *r, SessionDebug what, const char *rest) {
  Str out = str_new(r->arena);
  Status status = session_debug(r->s, what, rest, strlen(rest), &out);
  repl_show(r, status, &out);
}

void prompt_step(Repl *r, const char *rest) {
  debug(r, DEBUG_STEP, rest);
}
void prompt_next(Repl *r, const char *rest) {
  (void)rest;
  debug(r, DEBUG_NEXT, "");
}
void prompt_continue(Repl *r, const char *rest) {
  (void)rest;
  debug(r, DEBUG_CONTINUE, "");
}
void prompt_back(Repl *r, const char *rest) {
  (void)rest;
  debug(r, DEBUG_BACK, "");
}
void prompt_break(Repl *r, const char *rest) {
  debug(r, DEBUG_BREAK, rest);
}
void prompt_block(Repl *r, const char *rest) {
  debug(r, DEBUG_BLOCK, rest);
}
void prompt_print(Repl *r, const char *rest) {
  debug(r, DEBUG_PRINT, rest);
}

/* A name that the stepped kernel sees, else a file. */
bool repl_watches(Repl *r, const char *rest) {
  if (!session_steps(r->s, *rest ? rest : NULL))
    return false;
  debug(r, DEBUG_WATCH, rest);
  return true;
}
