/* verify.c: `--verify-each`: every pass of every schedule, checked by running what it makes.
 *
 * In: a prepared launch. Out: the greatest difference, or a failure that names the schedule, the
 * pass and the first element that differs. Each kernel runs on the evaluator on copies of the
 * call's own arguments: all blocks while that takes about two seconds, else corners, edges and some
 * random ones. Integers must be equal, floats may differ as launch_beyond says, since lower levels
 * add in another order; the reference is the tile level throughout, so that small differences do
 * not add up. Tests: tests/lang/verify_each.tile, tests/fuzz/kernels.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "kernel.h"

typedef struct Verify {
  Launch *l;
  Tensor **reference; /* by parameter */
  EvalCounters plain; /* of the reference's run */
  LaunchBounds bounds;
  Tensor **before; /* outputs as they were before any run */
  Arena *arena;    /* of kernels and programs */
  double most;     /* greatest difference of any pass */
} Verify;

/* Bounds cost runs of their own, so they are made once something differs at all. */
static bool first_difference(Verify *v, Launch *run, size_t i, TensorDiff *d) {
  const volatile sig_atomic_t *stop = v->l->s->options.interrupt;
  Tensor *mine = launch_host_tensor(run, i), *reference = v->reference[i];
  Str why = session_str(v->l->s);
  bool ok = tensor_maxdiff(mine, reference, stop, d, &why);
  v->most = fmax(v->most, d->max_abs);
  if (ok && d->count == 0)
    return false;
  if (!ok)
    host_fail(v->l->s, E0802, v->l->span, "%s", str_text(&why));
  *d = launch_beyond(v->l, &v->bounds, i, mine);
  return d->count > 0;
}

/* "C[3, 5] is 2.0 after it, 3.0 at tile level". */
static void report(const Verify *v, size_t i, const TensorDiff *d, const char *schedule,
                   const char *pass) {
  Session *s = v->l->s;
  Str text = session_str(s);
  tensor_add_shape(d->rank, d->where, &text);
  str_add(&text, " is ");
  scalar_print(d->a, &text);
  str_add(&text, " after it, ");
  scalar_print(d->b, &text);
  host_fail(s, E0402, v->l->span,
            "pass `%s` of lowering %s (%s) changes its result: %s%s at tile level", pass,
            v->l->name, schedule, v->l->ir->params.v[i].buf->name, str_text(&text));
}

static void compare(Verify *v, Launch *run, const char *schedule, const char *pass) {
  TensorDiff d;
  for (size_t i = 0; i < run->n; i++)
    if (run->tensor[i] && launch_writes(run, i) && first_difference(v, run, i, &d))
      report(v, i, &d, schedule, pass);
}

/* A fault of what a pass made is the pass' too, unless the tile level has it. */
static bool run_pass(IrKernel *after, const char *schedule, const char *pass, void *ctx) {
  enum { SECONDS = 2 };
  Verify *v = ctx;
  Session *s = v->l->s;
  Launch run = launch_again(v->l);
  EvalProgram *p = eval_compile(v->arena, after, &s->diags);
  if (!p)
    host_fail(s, E0822, v->l->span, "what pass `%s` of lowering %s (%s) makes cannot run", pass,
              v->l->name, schedule);
  run.budget = launch_has_atomics(v->l) ? 0 : SECONDS;
  Status status = launch_evaluate_kernel(
      &run, after, p, s->options.checks_set ? s->options.checks : CHECKS_DEFAULT, &s->diags);
  if (status != ST_OK && s->diags.n)
    diag_hint(&s->diags, s->diags.v[s->diags.n - 1], "pass `%s` (%s) made this: please report it",
              pass, schedule);
  if (status != ST_OK)
    session_fail_call(s, status, v->l->span, v->l->name);
  launch_fill_unwritten(&run, v->reference, v->before);
  launch_forget(&run);
  compare(v, &run, schedule, pass);
  return true;
}

/* The references are kept by the scratch arena's temporaries, like those of `check`. */
static Tensor **outputs(const Launch *l) {
  return arena_copy(session_scratch(l->s), l->tensor, l->n * sizeof(Tensor *));
}

/* What a page of E07xx says cannot be lowered is no fault of a pass; what the verifier refuses is.
 */
void launch_lowered_right(Launch *l, const DiagSink *why) {
  for (size_t i = 0; i < why->n; i++)
    if (why->v[i]->code >= E0650 && why->v[i]->code <= E0669)
      host_fail_hint(l->s, E0822, l->span, "please report it with the kernel",
                     "a pass of lowering %s made a kernel that is wrong: %s", l->name,
                     why->v[i]->text);
}

double launch_verify_each(Launch *l, Str *not_lowered) {
  Session *s = l->s;
  if (l->ir->level != IR_TILE)
    return 0;
  Launch fresh = launch_again(l), first = launch_again(l);
  Verify v = {.l = l, .before = outputs(&fresh), .arena = session_scratch(s)};
  first.counters = &v.plain;
  launch_evaluate(&first, IR_TILE, s->options.checks_set ? s->options.checks : CHECKS_DEFAULT);
  launch_forget(&first);
  v.reference = outputs(&first);
  v.bounds = (LaunchBounds){.reference = v.reference, .steps = v.plain.instructions};
  LowerHook hook = {run_pass, &v};
  LowerRequest r = variant_request(launch_variant(l));
  r.hook = &hook;
  r.each = true;
  r.notes = NULL;
  DiagSink why;
  diag_init(&why, session_scratch(s));
  const IrKernel *k = lower_to(v.arena, l->ir, IR_THREAD, &r, &why);
  launch_lowered_right(l, &why);
  if (!k)
    str_add(not_lowered, why.n ? why.v[0]->text : "it cannot be lowered");
  return v.most;
}
