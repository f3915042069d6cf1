/* check.c: `check f(a, b)`: the same call at every level and on the device, compared.
 *
 * In: a kernel call. Out: whether all runs agree with the evaluator's tile level, and where they do
 * not. Every run works on outputs of its own and on copies of inout arguments. Where a run differs
 * at all, each element is held to the bound that the kernel's own arithmetic gives it (bound.c).
 * Tests: tests/lang/check_*.tile.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "device.h"

static const double thread_seconds = 2.0;

typedef struct Outcome {
  bool ok, compared;
  double max_abs, max_rel;
  TensorDiff worst;    /* of the output with the greatest difference */
  EvalCounters plain;  /* of the reference's run */
  LaunchBounds bounds; /* not made until something differs */
  TensorDiff first;    /* unless ok: the first element beyond its bound, */
  double explained;    /* the bound there, */
  const char *output;  /* the output's name, */
  const char *against; /* and the run that differs */
  Str runs;            /* "cpu tile, cpu threads, cuda:0" */
} Outcome;

/* After a run of some blocks only: elements that no block wrote take the reference's value, so that
 * they compare equal. Where the evaluator does not say what was written (outputs with an initial
 * value, inout), an element that still holds its value from before counts as not written. */
static void fill_one(Launch *l, Tensor *const *reference, Tensor *const *before, size_t i) {
  int64_t index[TENSOR_MAX_RANK] = {0}, at = 0;
  Tensor *t = launch_host_tensor(l, i);
  if (tensor_count(t) == 0)
    return;
  do {
    Scalar x = tensor_get(t, index);
    bool wrote = l->written[i] ? l->written[i][at] : x.as.u != tensor_get(before[i], index).as.u;
    if (!wrote)
      tensor_set(t, index, tensor_get(reference[i], index));
    at++;
  } while (tensor_next(t, index));
}

void launch_fill_unwritten(Launch *l, Tensor *const *reference, Tensor *const *before) {
  for (size_t i = 0; i < l->n; i++)
    if (l->tensor[i] && launch_writes(l, i))
      fill_one(l, reference, before, i);
}

/* Races are looked for one block after the other: of much work, only in some blocks. */
static bool much_work(const Launch *l) {
  return !l->s->options.checks_set && (launch_flops(l, true) > 2e10 || launch_bytes(l) > 2.5e8);
}

/* What rounding does not explain. */
static void judge(Launch *l, size_t i, const char *run, Outcome *o) {
  TensorDiff first = launch_beyond(l, &o->bounds, i, launch_host_tensor(l, i));
  if (first.count == 0 || !o->ok)
    return;
  o->ok = false;
  o->first = first;
  o->explained = tensor_get(o->bounds.bound[i], first.where).as.f;
  o->output = l->ir->params.v[i].buf->name;
  o->against = run;
}

/* Compares one run's outputs with the reference's. */
static void compare(Launch *l, Tensor *const *reference, const char *run, Outcome *o) {
  Session *s = l->s;
  for (size_t i = 0; i < l->n; i++) {
    if (!l->tensor[i] || !launch_writes(l, i))
      continue;
    TensorDiff d;
    Str why = session_str(s);
    if (!tensor_maxdiff(launch_host_tensor(l, i), reference[i], s->options.interrupt, &d, &why))
      host_fail(s, E0802, l->span, "%s", str_text(&why));
    o->max_rel = d.max_rel > o->max_rel ? d.max_rel : o->max_rel;
    if (d.max_abs > o->max_abs || !o->compared)
      o->worst = d;
    o->max_abs = d.max_abs > o->max_abs ? d.max_abs : o->max_abs;
    o->compared = true;
    if (d.count > 0)
      judge(l, i, run, o);
  }
}

/* Keeps the tensors of a run while the launch goes on to others; their references are the
 * temporaries'. */
static Tensor **snapshot(Launch *l) {
  Tensor **kept = ARENA_ARRAY(session_scratch(l->s), Tensor *, l->n);
  for (size_t i = 0; i < l->n; i++)
    kept[i] = l->tensor[i];
  return kept;
}

/* Elements of outputs that the whole run never wrote hold anything: a fault of the kernel. */
static void report_unwritten(Launch *l) {
  for (size_t i = 0; i < l->n; i++) {
    int64_t n = l->written[i] ? tensor_count(l->tensor[i]) : 0, missing = 0, first = -1;
    for (int64_t k = 0; k < n; k++)
      if (!l->written[i][k]) {
        first = missing++ ? first : k;
      }
    if (!missing)
      continue;
    Str at = session_str(l->s);
    int64_t where[TENSOR_MAX_RANK];
    const Tensor *t = l->tensor[i];
    for (int a = t->rank; a-- > 0; first /= t->extent[a])
      where[a] = first % t->extent[a];
    tensor_add_shape(t->rank, where, &at);
    launch_forget(l);
    host_fail(l->s, E0403, l->span,
              "%s never writes %" PRId64 " of %" PRId64 " elements of %s, the first at %s", l->name,
              missing, n, l->ir->params.v[i].buf->name, str_text(&at));
  }
  launch_forget(l);
}

Launch launch_again(const Launch *l) {
  Launch copy = *l;
  Arena *a = session_scratch(l->s);
  copy.tensor = ARENA_ARRAY(a, Tensor *, l->n);
  copy.original = ARENA_ARRAY(a, Tensor *, l->n);
  copy.written = ARENA_ARRAY(a, uint8_t *, l->n);
  memcpy(copy.tensor, l->tensor, l->n * sizeof *l->tensor);
  launch_isolate(&copy);
  return copy;
}

/* Stops at the first one. */
static bool see_atomic(IrStmt *st, void *ctx) {
  bool *found = ctx;
  *found |= st->kind == IRK_ATOMIC;
  return !*found;
}

bool launch_has_atomics(const Launch *l) {
  bool found = false;
  ir_walk((IrBlock *)(uintptr_t)&l->ir->body, see_atomic, &found);
  return found;
}

/* The lowered kernel on the evaluator: all blocks while that takes about two seconds, else corners,
 * edges and some random ones. */
static void check_threads(const Launch *l, Tensor *const *reference, EvalChecks checks,
                          Outcome *o) {
  Launch run = launch_again(l), before = launch_again(l);
  run.budget = launch_has_atomics(l) ? 0 : thread_seconds;
  launch_evaluate(&run, IR_THREAD, checks);
  int64_t all = launch_blocks(l);
  if (run.blocks_run < all) {
    launch_fill_unwritten(&run, reference, before.tensor);
    str_addf(&o->runs, ", cpu threads: %" PRId64 " of %" PRId64 " blocks", run.blocks_run, all);
  } else {
    str_add(&o->runs, ", cpu threads");
  }
  launch_forget(&run);
  compare(&run, reference, "cpu threads", o);
}

/* A kernel that cannot be lowered yet is still checked at tile level. */
static void check_lowered(Launch *l, Tensor *const *reference, EvalChecks checks, Outcome *o) {
  DiagSink why;
  diag_init(&why, l->s->line);
  if (!launch_thread(l, &why)) {
    launch_lowered_right(l, &why);
    str_addf(&o->runs, "; not at thread level: %s",
             why.n ? why.v[0]->text : "it cannot be lowered");
    return;
  }
  check_threads(l, reference, checks, o);
  if (l->s->options.verify_each) {
    Str why_not = session_str(l->s); /* it has a thread level */
    o->max_abs = fmax(o->max_abs, launch_verify_each(l, &why_not));
    str_add(&o->runs, ", every schedule");
  }
}

static void check_some(const Launch *l, Outcome *o) {
  if (launch_has_atomics(l)) {
    str_add(&o->runs, ", not looked for races");
    return;
  }
  Launch run = launch_again(l);
  run.budget = thread_seconds;
  launch_evaluate(&run, l->ir->level, CHECKS_ALL);
  str_addf(&o->runs, ", all checks: %" PRId64 " of %" PRId64 " blocks", run.blocks_run,
           launch_blocks(l));
  launch_forget(&run);
}

/* All runs of a launch; the first is the reference. */
static Outcome run_all(Launch *l) {
  Session *s = l->s;
  Outcome o = {.ok = true, .runs = str_new(s->line)};
  EvalChecks checks = s->options.checks_set ? s->options.checks : CHECKS_ALL;
  if (device_is_gpu(s))
    session_look_ahead(l); /* compiles while the evaluator runs */
  Launch first = launch_again(l);
  first.together = much_work(l);
  first.counters = &o.plain;
  launch_evaluate(&first, l->ir->level, checks);
  report_unwritten(&first);
  Tensor **reference = snapshot(&first);
  o.bounds = (LaunchBounds){
      .reference = reference, .steps = o.plain.instructions, .much_work = first.together};
  str_add(&o.runs, l->ir->level == IR_TILE ? "cpu" : "cpu threads");
  if (first.together)
    check_some(l, &o);
  if (l->ir->level == IR_TILE)
    check_lowered(l, reference, checks, &o);
  if (device_is_gpu(s)) {
    Launch run = launch_again(l);
    DevicePrepared d;
    device_launch(&run, &d);
    device_finish(s);
    str_addf(&o.runs, ", %s", session_device(s));
    compare(&run, reference, session_device(s), &o);
  }
  return o;
}

/* Units of the last place of the reference's element; 0 where that is no finite float. */
static double ulps(const TensorDiff *d) {
  bool counts = dtype_is_float(d->b.type) && isfinite(d->b.as.f) && d->max_abs > 0;
  return counts ? d->max_abs / dtype_ulp(d->b.type, d->b.as.f) : 0;
}

static void add_ulps(const TensorDiff *d, Str *out) {
  if (ulps(d) > 0)
    str_addf(out, " (%.*g ulp)", ulps(d) < 1e6 ? 6 : 2, ulps(d));
}

/* "[3, 7]: 1.5 against 1.25 (2048 ulp), where rounding explains 3e-05". */
static void add_first(const Outcome *o, Str *out) {
  tensor_add_shape(o->first.rank, o->first.where, out);
  str_add(out, ": ");
  scalar_print(o->first.a, out);
  str_add(out, " against ");
  scalar_print(o->first.b, out);
  add_ulps(&o->first, out);
  if (dtype_is_float(o->first.b.type))
    str_addf(out, ", where rounding explains %.3g", o->explained);
}

/* A statement `check` that finds a difference fails the program; as a value it only says so. */
static void report(Launch *l, const Outcome *o) {
  Session *s = l->s;
  Str text = session_str(s);
  if (o->ok) {
    str_addf(&text, "check %s: ok (%s", l->name, str_text(&o->runs));
    if (o->max_abs > 0)
      str_addf(&text, "; greatest difference %.3g", o->max_abs);
    add_ulps(&o->worst, &text);
    str_add(&text, ")\n");
    session_print(s, &text);
    return;
  }
  add_first(o, &text);
  host_fail(s, E0402, l->span,
            "%s on %s differs from the evaluator: %lld of %lld elements of %s, the first at %s",
            l->name, o->against, (long long)o->first.count, (long long)o->first.total, o->output,
            str_text(&text));
}

/* What `let r = check f(x)` binds. */
static Value record(Session *s, const Outcome *o) {
  Value where[TENSOR_MAX_RANK];
  const TensorDiff *d = o->ok ? &o->worst : &o->first;
  for (int i = 0; i < d->rank; i++)
    where[i] = val_int(d->where[i]);
  const Field fields[] = {
      {names_get(s->names, "ok", 2), val_bool(o->ok)},
      {names_get(s->names, "max_abs", 7), val_float(o->max_abs)},
      {names_get(s->names, "max_rel", 7), val_float(o->max_rel)},
      {names_get(s->names, "where", 5), val_tuple(s, where, (size_t)d->rank)},
      {names_get(s->names, "ulp", 3), val_float(ulps(&o->worst))},
      {names_get(s->names, "runs", 4), val_string(s, str_text(&o->runs), o->runs.n)},
  };
  return val_record(s, fields, sizeof fields / sizeof *fields);
}

/* For `tilesh check`: every call of the program goes through here before it runs. */
void launch_check(Launch *l) {
  Outcome o = run_all(l);
  report(l, &o);
}

/* For another language: always runs, and only says so. */
Value kernel_check_call(Session *s, Value kernel, Args *a) {
  Launch l;
  launch_prepare(s, kernel, a, &l);
  Outcome o = run_all(&l);
  return record(s, &o);
}

/* Not in an imported file, nor under `tilesh bench`. */
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
