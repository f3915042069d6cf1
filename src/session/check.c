/* check.c: `check f(a, b)`: the same call at every level and on the device, compared.
 *
 * In: a kernel call. Out: whether all runs agree with the evaluator's tile level, and where they do
 * not. Every run works on outputs of its own and on copies of inout arguments. Integers must be
 * equal; floats may differ by what their type can: a relative bound a dtype, against the greatest
 * magnitude of the output, since sums of products are taken in another order on the device. Tests:
 * tests/lang/check_*.tile.
 */
#include <math.h>
#include <string.h>

#include "kernel.h"

typedef struct Outcome {
  bool ok;
  double max_abs, max_rel;
  TensorDiff diff;     /* of the worst output */
  const char *output;  /* its name */
  const char *against; /* the run that differs */
  Str runs;            /* "cpu tile, cpu threads, cuda:0" */
} Outcome;

static double relative_bound(DType t) {
  switch (t) {
  case DT_F64:
    return 1e-12;
  case DT_F32:
    return 2e-6;
  case DT_F16:
    return 2e-3;
  case DT_BF16:
    return 1.6e-2;
  case DT_F8E4M3:
    return 0.13;
  case DT_F8E5M2:
    return 0.26;
  default:
    return 0.0;
  }
}

static double greatest(const Tensor *t) {
  Tensor *zero;
  TensorDiff d;
  zero = tensor_new(t->dtype, 0, NULL, TENSOR_ZERO, NULL);
  double most = zero && tensor_maxdiff(t, zero, &d, NULL) ? d.max_abs : 0.0;
  tensor_release(zero);
  return isfinite(most) ? most : 0.0;
}

/* Compares one run's outputs with the reference's. */
static void compare(Launch *l, Tensor *const *reference, const char *run, Outcome *o) {
  Session *s = l->s;
  str_addf(&o->runs, o->runs.n ? ", %s" : "%s", run);
  for (size_t i = 0; i < l->n; i++) {
    if (!l->tensor[i] || !launch_writes(l, i))
      continue;
    TensorDiff d;
    Str why = session_str(s);
    if (!tensor_maxdiff(launch_host_tensor(l, i), reference[i], &d, &why))
      host_fail(s, E0802, l->span, "%s", str_text(&why));
    double bound = relative_bound(l->tensor[i]->dtype) * greatest(reference[i]);
    o->max_rel = d.max_rel > o->max_rel ? d.max_rel : o->max_rel;
    if (d.max_abs > o->max_abs || !o->output) {
      o->max_abs = d.max_abs;
      o->diff = d;
      o->output = l->ir->params.v[i].buf->name;
      o->against = run;
    }
    if (d.max_abs > bound)
      o->ok = false;
  }
}

static Tensor **snapshot(Launch *l) {
  Tensor **kept = ARENA_ARRAY(session_scratch(l->s), Tensor *, l->n);
  for (size_t i = 0; i < l->n; i++)
    kept[i] = l->tensor[i];
  return kept;
}

/* All runs of a launch; the first is the reference. */
static Outcome run_all(Launch *l) {
  Session *s = l->s;
  Outcome o = {.ok = true, .runs = str_new(s->line)};
  Launch copy = *l;
  EvalChecks checks = s->options.checks_set ? s->options.checks : CHECKS_ALL;
  copy.tensor = ARENA_ARRAY(session_scratch(s), Tensor *, l->n);
  copy.original = ARENA_ARRAY(session_scratch(s), Tensor *, l->n);
  memcpy(copy.tensor, l->tensor, l->n * sizeof *l->tensor);
  launch_isolate(&copy);
  launch_evaluate(&copy, l->ir->level, checks);
  Tensor **reference = snapshot(&copy);
  str_add(&o.runs, l->ir->level == IR_TILE ? "cpu" : "cpu threads");
  if (l->ir->level == IR_TILE && launch_thread(l)) {
    memcpy(copy.tensor, l->tensor, l->n * sizeof *l->tensor);
    launch_isolate(&copy);
    launch_evaluate(&copy, IR_THREAD, checks);
    compare(&copy, reference, "cpu threads", &o);
  }
  if (device_is_gpu(s)) {
    memcpy(copy.tensor, l->tensor, l->n * sizeof *l->tensor);
    launch_isolate(&copy);
    device_launch(&copy);
    device_finish(s);
    compare(&copy, reference, session_device(s), &o);
  }
  return o;
}

static void add_place(const Outcome *o, Str *out) {
  tensor_add_shape(o->diff.rank, o->diff.where, out);
  str_add(out, ": ");
  scalar_print(o->diff.a, out);
  str_add(out, " against ");
  scalar_print(o->diff.b, out);
}

static void report(Launch *l, const Outcome *o) {
  Session *s = l->s;
  Str text = session_str(s);
  if (o->ok) {
    str_addf(&text, "check %s: ok (%s", l->name, str_text(&o->runs));
    if (o->max_abs > 0) {
      str_add(&text, "; greatest difference ");
      str_add_f64(&text, o->max_abs);
    }
    str_add(&text, ")\n");
    session_print(s, &text);
    return;
  }
  add_place(o, &text);
  host_fail(s, E0402, l->span,
            "%s on %s differs from the evaluator: %lld of %lld elements of %s, most at %s", l->name,
            o->against, (long long)o->diff.count, (long long)o->diff.total, o->output,
            str_text(&text));
}

static Value record(Session *s, const Outcome *o) {
  Value where[TENSOR_MAX_RANK];
  for (int i = 0; i < o->diff.rank; i++)
    where[i] = val_int(o->diff.where[i]);
  const Field fields[] = {
      {names_get(s->names, "ok", 2), val_bool(o->ok)},
      {names_get(s->names, "max_abs", 7), val_float(o->max_abs)},
      {names_get(s->names, "max_rel", 7), val_float(o->max_rel)},
      {names_get(s->names, "where", 5), val_tuple(s, where, (size_t)o->diff.rank)},
  };
  return val_record(s, fields, sizeof fields / sizeof *fields);
}

void launch_of_call(Session *s, const AstExpr *call, const char *what, Launch *l) {
  Value kernel = host_eval(s, call->as.call.fn);
  if (kernel.kind != VAL_KERNEL)
    host_fail(s, E0805, call->as.call.fn->span, "%s takes a call of a kernel, not of %s", what,
              val_describe(s, kernel));
  Args a = {.name = what};
  host_eval_args(s, call, &a);
  launch_prepare(s, kernel, &a, l);
}

void launch_check(Launch *l) {
  Outcome o = run_all(l);
  report(l, &o);
}

Value kernel_check(Session *s, const AstExpr *call, bool as_value) {
  Launch l;
  bool skip = s->importing || s->options.mode == MODE_BENCH;
  if (!as_value && skip)
    return val_nil();
  launch_of_call(s, call, "check", &l);
  Outcome o = run_all(&l);
  if (!as_value)
    report(&l, &o);
  return as_value ? record(s, &o) : val_nil();
}
