/* emit.c: the text of a stage, for --emit and the prompt's `:ir`, `:cuda` and the like.
 *
 * In: a prepared launch and a stage. Out: its text (or the cubin's bytes). Tests:
 * tests/cli/run, and the goldens beside programs in tests/lang and tests/lower (.ir, .lowered,
 * .cu).
 */
#include "device.h"

/* By the schedule that the variant stands at, where the kernel is not given at that level: the one
 * that runs if the gate has been asked (the kernel was launched, or its cubin made), else the first
 * one, which the gate may yet refuse. */
static void emit_level(Launch *l, IrLevel level, Str *out) {
  const IrKernel *k = l->ir;
  if (k->level < level) {
    Variant *v = launch_variant(l);
    LowerRequest r = variant_request(v);
    r.notes = NULL; /* they are in the variant's already, or come when it is lowered to run */
    k = level == IR_THREAD ? variant_thread(l, v, &l->s->diags)
                           : lower_to(spec_arena(l), k, level, &r, &l->s->diags);
    if (!k)
      session_fail_call(l->s, ST_COMPILE, l->span, l->name);
  }
  ir_print(k, out);
}

/* One case a stage; the later ones need src/lower's printer and NVRTC. */
void launch_emit(Launch *l, SessionEmit stage, Str *out) {
  switch (stage) {
  case EMIT_IR:
    ir_print(l->ir, out);
    break;
  case EMIT_SCHEDULED:
    emit_level(l, IR_SCHEDULED, out);
    break;
  case EMIT_LOWERED:
    emit_level(l, IR_THREAD, out);
    break;
  case EMIT_CUDA:
  case EMIT_PTX:
  case EMIT_CUBIN:
    device_emit(l, stage, out);
    break;
  default:
    break;
  }
}

/* A launch without arguments: what the settings and defaults alone make of the kernel. */
static void bare_launch(Session *s, Value kernel, Args *a, Launch *l) {
  const SemaKernel *k = kernel_sema(s, kernel);
  size_t n = k ? k->ninputs + k->noutputs : 0;
  SemaArg *args = ARENA_ARRAY(session_scratch(s), SemaArg, n);
  *l = (Launch){.s = s, .span = a->span, .name = a->name};
  l->spec = kernel_spec(s, kernel, args, a->span);
  l->ir = l->spec->ir;
  l->n = l->ir->params.n;
  l->tensor = ARENA_ARRAY(session_scratch(s), Tensor *, l->n);
}

/* For another language: k:source("ir", a, b); for the prompt's `:ir f`. */
void kernel_emit_call(Session *s, Value kernel, Args *a, SessionEmit stage, Str *out) {
  Launch l;
  a->name = kernel.as.obj->as.kernel.ast ? kernel.as.obj->as.kernel.ast->name.text : a->name;
  if (a->n == 0)
    bare_launch(s, kernel, a, &l);
  else
    launch_prepare(s, kernel, a, &l);
  launch_emit(&l, stage, out);
}

typedef struct Job {
  const char *text;
  size_t n;
  SessionEmit stage;
  Str *out;
} Job;

/* The text is parsed as at the prompt: a lone expression is enough. */
static void emit_call(Session *s, void *ctx) {
  Job *j = ctx;
  const AstExpr *e =
      session_expression(s, "<emit>", j->text, j->n, "a kernel or a call of one", NULL);
  if (j->stage == EMIT_AST) {
    ast_print_expr(e, j->out);
    str_addc(j->out, '\n');
    return;
  }
  bool call = e->kind == EXPR_CALL;
  Value kernel = host_eval(s, call ? e->as.call.fn : e);
  if (kernel.kind != VAL_KERNEL)
    host_fail(s, E0805, e->span, "a kernel or a call of one is wanted, not %s",
              val_describe(s, kernel));
  Args a = {.span = e->span, .name = "emit"};
  if (!call) {
    kernel_emit_call(s, kernel, &a, j->stage, j->out);
    return;
  }
  Launch l;
  host_eval_args(s, e, &a);
  launch_prepare(s, kernel, &a, &l);
  launch_emit(&l, j->stage, j->out);
}

/* Nothing is run but what the arguments need. */
Status session_emit_call(Session *s, const char *text, size_t n, SessionEmit stage, Str *out) {
  session_begin(s);
  Job j = {text, n, stage, out};
  return session_protect(s, emit_call, &j);
}
