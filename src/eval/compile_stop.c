/* compile_stop.c: what stepping adds to the bytecode.
 *
 * In: the place that the compiler has reached. Out: a BC_STOP there, which knows the statement's
 * place in the program's text and the names that it sees. Always holds: nothing is emitted unless
 * the program is compiled for stepping, nor inside a MAP, whose points run together. Names are a
 * list that grows at its head; ending a scope is going back to an older head. Tests:
 * tests/repl/step*.txt.
 */
#include "compile.h"

void eval_compile_stop(Compiler *c) {
  if (!c->stops || c->map || c->failed)
    return;
  EvalStop *s = ARENA_NEW(c->arena, EvalStop);
  *s = (EvalStop){c->span, c->live};
  VEC_PUSH(c->arena, &c->stop_list, s);
  eval_emit(c, (EvalInsn){.code = BC_STOP, .as.data = s});
}

static void push(Compiler *c, EvalLive what) {
  EvalLive *l = ARENA_NEW(c->arena, EvalLive);
  *l = what;
  l->outer = c->live;
  c->live = l;
}

/* The register is the variable's for as long as it is in scope. */
void eval_live_var(Compiler *c, const IrVar *v, Reg r) {
  push(c, (EvalLive){.var = v, .reg = r});
}

void eval_live_tile(Compiler *c, const IrBuffer *b) {
  if (c->stops && !c->map)
    push(c, (EvalLive){.buf = b});
}
