/* call.c: what a call of a kernel is.
 *
 * In: a kernel value and evaluated arguments. Out: its outputs as tensors. The steps: arguments to
 * parameters (by position, then by name), a specialisation (kernel.c), the IR's binding of extents
 * and strides, allocation of outputs, the run (evaluator here, GPU in device_launch.c), results
 * back into strided arguments. Every error names the arguments. Tests: tests/lang/kernel_*.tile.
 */
#include <stdlib.h>
#include <string.h>

#include "device.h"

/* Arguments to parameters ------------------------------------------------------------------ */

/* Which parameter each argument goes to, by position and then by name. */
typedef struct Slots {
  size_t ninputs, n;  /* inputs; inputs and outputs */
  const char **names; /* of all */
  Value *v;           /* by parameter */
  bool *given;
  Span *where;
} Slots;

/* Names the parameters: "takes 2 arguments (A, B)" shows which is missing. */
static _Noreturn void wrong_count(Args *a, const Slots *p) {
  Str names = session_str(a->s);
  for (size_t i = 0; i < p->ninputs; i++)
    str_addf(&names, i ? ", %s" : "%s", p->names[i]);
  Span where = a->npos > p->ninputs ? a->spans[p->ninputs] : a->span;
  host_fail(a->s, E0820, where, "%s takes %zu argument%s (%s), not %zu", a->name, p->ninputs,
            p->ninputs == 1 ? "" : "s", str_text(&names), a->npos);
}

/* A parameter gets one argument; position and name together would be two. */
static void give(Args *a, Slots *p, size_t at, Value v, Span where) {
  if (p->given[at])
    host_fail(a->s, E0820, where, "%s is given twice", p->names[at]);
  p->given[at] = true;
  p->v[at] = v;
  p->where[at] = where;
}

/* `out = c`, `out = (c, d)`. */
static void give_outputs(Args *a, Slots *p, Value v, Span where) {
  size_t n = p->n - p->ninputs;
  if (n == 1 && v.kind == VAL_TENSOR) {
    give(a, p, p->ninputs, v, where);
    return;
  }
  if (!val_is_sequence(v) || v.as.obj->as.list.n != n)
    host_fail(a->s, E0820, where, "%s has %zu output%s: out = takes %s, not %s", a->name, n,
              n == 1 ? "" : "s", n == 1 ? "a tensor" : "a tuple of so many", val_describe(a->s, v));
  for (size_t i = 0; i < n; i++)
    give(a, p, p->ninputs + i, v.as.obj->as.list.v[i], where);
}

/* Inputs by their names; `out` is reserved for the outputs, an input of that name comes first. */
static void give_named(Args *a, Slots *p, size_t i) {
  for (size_t k = 0; k < p->ninputs; k++)
    if (strcmp(p->names[k], a->names[i]) == 0) {
      give(a, p, k, a->v[i], a->spans[i]);
      return;
    }
  if (strcmp(a->names[i], "out") == 0) {
    give_outputs(a, p, a->v[i], a->spans[i]);
    return;
  }
  const char *near = names_closest(a->names[i], p->names, p->ninputs);
  const char *hint = near ? arena_printf(a->s->line, "did you mean %s?", near) : NULL;
  for (size_t k = p->ninputs; k < p->n; k++)
    if (strcmp(p->names[k], a->names[i]) == 0)
      hint = "it is an output: out = x writes into x";
  host_fail_hint(a->s, E0820, a->spans[i], hint, "%s has no parameter %s", a->name, a->names[i]);
}

/* Positional arguments first, then named ones, then a look at what is missing. Outputs may be
 * missing: the call allocates them. */
static void fill_slots(Args *a, Slots *p) {
  Arena *m = session_scratch(a->s);
  p->v = ARENA_ARRAY(m, Value, p->n);
  p->given = ARENA_ARRAY(m, bool, p->n);
  p->where = ARENA_ARRAY(m, Span, p->n);
  for (size_t i = 0; i < p->n; i++)
    p->where[i] = a->span;
  if (a->npos > p->ninputs)
    wrong_count(a, p);
  for (size_t i = 0; i < a->npos; i++)
    give(a, p, i, a->v[i], a->spans[i]);
  for (size_t i = a->npos; i < a->n; i++)
    give_named(a, p, i);
  for (size_t i = 0; i < p->ninputs; i++)
    if (!p->given[i])
      wrong_count(a, p);
}

/* The names of a kernel's parameters, from its definition or its IR. */
static Slots slots_of(Session *s, Value kernel) {
  Slots p = {0, 0, NULL, NULL, NULL, NULL};
  const SemaKernel *k = kernel_sema(s, kernel);
  const IrKernel *ir = kernel.as.obj->as.kernel.ir;
  size_t all = k ? k->ninputs + k->noutputs : ir->params.n;
  p.names = ARENA_ARRAY(session_scratch(s), const char *, all);
  for (size_t i = 0; i < all; i++) {
    const IrBuffer *b = k ? NULL : ir->params.v[i].buf;
    IrRole role = b ? b->role : IRR_IN;
    if (role == IRR_SCRATCH)
      break;
    p.names[p.n++] = k ? k->params[i].name.text : b ? b->name : ir->params.v[i].var->name;
    p.ninputs += k ? i < k->ninputs : role != IRR_OUT;
  }
  return p;
}

/* What the specialisation needs to know of an argument: dtype, rank, extents of a tensor; a
 * number with its kind. */
static SemaArg sema_arg(Session *s, const Slots *p, size_t i) {
  SemaArg a = {.given = p->given[i], .span = p->where[i]};
  Value v = p->v[i];
  if (!a.given)
    return a;
  if (v.kind == VAL_TENSOR) {
    a.tensor = true;
    a.dtype = v.as.tensor->dtype;
    a.rank = v.as.tensor->rank;
    memcpy(a.extent, v.as.tensor->extent, sizeof v.as.tensor->extent);
    memcpy(a.stride, v.as.tensor->stride, sizeof v.as.tensor->stride);
    a.strided = true;
    return a;
  }
  if (!val_is_scalar(v))
    host_fail(s, E0820, p->where[i], "%s cannot be %s", p->names[i], val_describe(s, v));
  a.number = arith_number(v);
  a.number.text = NULL;
  return a;
}

/* Binding ---------------------------------------------------------------------------------- */

/* The data pointer is filled in when a run begins: where it lies depends on the device. */
IrTensorArg tensor_arg(const Tensor *t) {
  IrTensorArg a = {.rank = t->rank, .dtype = t->dtype};
  for (int i = 0; i < t->rank; i++) {
    a.extent[i] = t->extent[i];
    a.stride[i] = t->stride[i];
  }
  return a;
}

/* Kernels read from IR text have no sema to check their arguments; for others this repeats what
 * sema_bind found right. */
static void check_tensor(Launch *l, const IrBuffer *b, Value v, Span where) {
  if (v.kind != VAL_TENSOR)
    host_fail(l->s, E0820, where, "%s must be a tensor, not %s", b->name, val_describe(l->s, v));
  const Tensor *t = v.as.tensor;
  if (t->dtype != b->dtype || t->rank != b->rank)
    host_fail(l->s, E0820, where, "%s of %s is %s of %d ax%s, not %s", b->name, l->name,
              dtype_name(b->dtype), b->rank, b->rank == 1 ? "is" : "es", val_describe(l->s, v));
}

/* Tensors and scalars that the caller gave go into the binding. */
static void bind_given(Launch *l, const Slots *p) {
  for (size_t i = 0; i < p->n; i++) {
    const IrParam *param = &l->ir->params.v[i];
    if (!p->given[i])
      continue;
    if (param->var) {
      l->b->value[param->var->id] = arith_fit(l->s, p->v[i], param->var->type, p->where[i]);
      continue;
    }
    check_tensor(l, param->buf, p->v[i], p->where[i]);
    l->tensor[i] = p->v[i].as.tensor;
    l->b->tensor[param->buf->id] = tensor_arg(l->tensor[i]);
  }
}

/* "C is f32[4]": the shape that the inputs give an output. */
static void add_extent(Str *out, const IrBuffer *b, const IrTensorArg *a) {
  str_addf(out, "%s is ", b->name);
  tensor_add_type_of(a->dtype, a->rank, a->extent, out);
}

/* Outputs given by `out =` must have the shape that the inputs say. */
static void check_given_output(Launch *l, size_t i) {
  const IrBuffer *b = l->ir->params.v[i].buf;
  const IrTensorArg *want = &l->b->tensor[b->id];
  const Tensor *t = l->tensor[i];
  bool same = want->rank == t->rank;
  for (int k = 0; same && k < t->rank; k++)
    same = want->extent[k] == t->extent[k];
  if (same)
    return;
  Str have = session_str(l->s), should = session_str(l->s);
  tensor_add_type(t, &have);
  add_extent(&should, b, want);
  host_fail(l->s, E0820, l->where[i], "out is %s, but %s by the inputs", str_text(&have),
            str_text(&should));
}

/* Zeroed, so that a run without checks gives the same bits every time even for elements that
 * nothing writes. */
static Tensor *new_output(Launch *l, size_t i) {
  Session *s = l->s;
  const IrBuffer *b = l->ir->params.v[i].buf;
  const IrTensorArg *a = &l->b->tensor[b->id];
  Str why = session_str(s);
  if (s->ahead)
    return ahead_tensor(s, b->dtype, b->rank, a->extent, l->span);
  Tensor *t = session_tensor(s, b->dtype, b->rank, a->extent, TENSOR_ZERO, &why);
  if (!t)
    host_fail(s, E0807, l->span, "the output %s: %s", b->name, str_text(&why));
  val_tensor(s, t);
  Scalar x;
  if (b->init && ir_host_eval(b->init, l->b, &x))
    host_fill(s, t, x);
  return t;
}

/* After a tensor was replaced: its strides may be others. `data` is only a mark here: ir_bind keeps
 * the strides of an output that has some, which may be a view. The address is set when the launch
 * moves its arguments. */
static void set_arg(Launch *l, size_t i) {
  const IrBuffer *b = l->ir->params.v[i].buf;
  IrTensorArg *a = &l->b->tensor[b->id];
  *a = tensor_arg(l->tensor[i]);
  a->data = l->tensor[i];
}

/* Outputs and inout tensors: what a run may change. */
bool launch_writes(const Launch *l, size_t i) {
  const IrBuffer *b = l->ir->params.v[i].buf;
  return b && (b->role == IRR_OUT || b->role == IRR_INOUT);
}

/* Waits for the device where the tensor was last written there. */
Tensor *launch_host_tensor(const Launch *l, size_t i) {
  return host_tensor(l->s, val_borrow(l->tensor[i]), l->where[i], "the argument");
}

/* Where the kernel takes no strides of a tensor, it must lie in row-major order: a copy of it does.
 * After the run launch_result copies results back. */
static void make_contiguous(Launch *l, size_t i) {
  const IrBuffer *b = l->ir->params.v[i].buf;
  Tensor *t = l->tensor[i];
  bool strided = false;
  for (int k = 0; k < t->rank; k++)
    strided |= b->stride[k] == NULL;
  if (!strided || tensor_is_contiguous(t))
    return;
  if (l->s->ahead)
    host_fail_with(l->s, ST_FAIL); /* nothing is copied for a call that may never be made */
  launch_host_tensor(l, i);
  l->original[i] = t;
  l->tensor[i] = host_cast(l->s, t, t->dtype, l->where[i]).as.tensor;
  set_arg(l, i);
}

/* Fresh outputs share memory with nothing; others are compared with every argument that is not
 * fresh. tensor_overlaps is exact, so two interleaved slices are fine. */
static void check_overlaps(Launch *l) {
  for (size_t i = 0; i < l->n; i++) {
    if (!l->tensor[i] || l->fresh[i] || !launch_writes(l, i))
      continue;
    for (size_t k = 0; k < l->n; k++)
      if (k != i && l->tensor[k] && !l->fresh[k] && tensor_overlaps(l->tensor[i], l->tensor[k]))
        host_fail_hint(l->s, E0821, l->where[i], "pass a copy: x.to(x.dtype)",
                       "%s, which %s writes, shares elements with %s", l->ir->params.v[i].buf->name,
                       l->name, l->ir->params.v[k].buf->name);
  }
}

/* Outputs that `out =` did not give. */
static void allocate(Launch *l) {
  for (size_t i = 0; i < l->n; i++) {
    const IrBuffer *b = l->ir->params.v[i].buf;
    if (!b)
      continue;
    if (l->tensor[i]) {
      if (b->role == IRR_OUT) {
        check_given_output(l, i);
        set_arg(l, i);
      }
      continue;
    }
    l->tensor[i] = new_output(l, i);
    l->fresh[i] = true;
    set_arg(l, i);
  }
}

/* ir_bind compares extents by the parameters' names; it is called again when the strides of the
 * outputs are known. */
static void bind(Launch *l, const IrKernel *k, IrBinding *b) {
  if (!ir_bind(k, b, session_sms(l->s), &l->s->diags))
    session_fail_at(l->s, l->span);
}

/* Everything lives in the scratch of the statement that calls: a launch does not outlive it. */
static void start(Launch *l, Session *s, Args *a, Spec *spec, const Slots *p) {
  Arena *m = session_scratch(s);
  const IrKernel *ir = spec->ir;
  *l = (Launch){.s = s, .span = a->span, .name = a->name, .spec = spec, .ir = ir};
  l->n = ir->params.n;
  l->tensor = ARENA_ARRAY(m, Tensor *, l->n);
  l->original = ARENA_ARRAY(m, Tensor *, l->n);
  l->fresh = ARENA_ARRAY(m, bool, l->n);
  l->written = ARENA_ARRAY(m, uint8_t *, l->n);
  Span *where = ARENA_ARRAY(m, Span, l->n);
  for (size_t i = 0; i < l->n; i++)
    where[i] = i < p->n ? p->where[i] : a->span;
  l->where = where;
  l->b = ir_binding_new(m, ir);
}

/* Binding happens twice: first extents and the shapes of outputs, then, once outputs and copies
 * exist, their strides. */
void launch_prepare(Session *s, Value kernel, Args *a, Launch *l) {
  const Object *o = kernel.as.obj;
  if (s->options.emit == EMIT_NOTHING && !s->ahead)
    (void)device_is_gpu(
        s); /* the device is chosen before `sms` is bound and shapes follow from it */
  a->name = o->as.kernel.ast ? o->as.kernel.ast->name.text : o->as.kernel.ir->name;
  Slots p = slots_of(s, kernel);
  fill_slots(a, &p);
  SemaArg *args = ARENA_ARRAY(session_scratch(s), SemaArg, p.n);
  for (size_t i = 0; i < p.n; i++)
    args[i] = sema_arg(s, &p, i);
  start(l, s, a, kernel_spec(s, kernel, args, a->span), &p);
  launch_fits(l, kernel_sema(s, kernel));
  bind_given(l, &p);
  bind(l, l->ir, l->b);
  allocate(l);
  check_overlaps(l);
  for (size_t i = 0; i < l->n; i++)
    if (l->tensor[i])
      make_contiguous(l, i);
  bind(l, l->ir, l->b);
  launch_resident_at_most(l);
  launch_pack(l);
}

/* Also what makes `check` and `bench` repeatable: the same inputs every time. */
void launch_isolate(Launch *l) {
  Session *s = l->s;
  for (size_t i = 0; i < l->n; i++) {
    if (!l->tensor[i] || !launch_writes(l, i))
      continue;
    Tensor *t = l->tensor[i];
    if (l->fresh[i])
      t = new_output(l, i);
    else
      t = host_copy_as_it_lies(s, launch_host_tensor(l, i), l->span).as.tensor;
    l->tensor[i] = t;
    l->original[i] = NULL;
    set_arg(l, i);
  }
  bind(l, l->ir, l->b);
}

/* Running on the evaluator ----------------------------------------------------------------- */

typedef struct Reading {
  const IrBuffer *buf;
  bool found;
} Reading;

static void see_buffer(IrBuffer **b, unsigned how, void *ctx) {
  Reading *r = ctx;
  r->found |= *b == r->buf && how & IR_READS;
}

static bool see_reading(IrStmt *st, void *ctx) {
  ir_visit(st, &(IrVisitor){.buffer = see_buffer, .ctx = ctx});
  return true;
}

static bool reads(const IrKernel *k, const IrBuffer *b) {
  Reading r = {.buf = b};
  ir_walk((IrBlock *)(uintptr_t)&k->body, see_reading, &r);
  return r.found;
}

/* One byte an element for outputs that start unwritten: reading one before it is written is an
 * error. NULL where everything counts as written: a quarter of a large f32 result is too much to
 * pay where the kernel never reads it and nobody wants to know what it left out. */
static uint8_t *unwritten(Launch *l, size_t i, EvalChecks checks) {
  const IrBuffer *b = l->ir->params.v[i].buf;
  bool wanted = checks == CHECKS_ALL || (checks == CHECKS_DEFAULT && l->s->options.checks_set);
  if (!l->fresh[i] || b->init || b->role != IRR_OUT || !(wanted || reads(l->ir, b)))
    return NULL;
  return session_alloc(l->s, (size_t)tensor_count(l->tensor[i]));
}

/* Compiled once; the bytecode lives as long as the specialisation. */
static EvalProgram *program(Launch *l, const IrKernel *k) {
  EvalProgram **slot = k == l->ir ? &l->spec->program : &launch_variant(l)->program;
  double start = base_now();
  if (!*slot)
    *slot = eval_compile(spec_arena(l), (IrKernel *)(uintptr_t)k, &l->s->diags);
  l->s->times.compile += base_now() - start;
  if (!*slot)
    host_fail_with(l->s, ST_COMPILE);
  return *slot;
}

/* The evaluator reads and writes host memory in place: writing marks a device copy as stale. */
void launch_arguments(Launch *l, EvalChecks checks) {
  for (size_t i = 0; i < l->n; i++) {
    const IrBuffer *b = l->ir->params.v[i].buf;
    if (!b)
      continue;
    Tensor *t = launch_host_tensor(l, i);
    IrTensorArg *a = &l->b->tensor[b->id];
    a->data = launch_writes(l, i) || b->role == IRR_SCRATCH ? tensor_data_write(t)
                                                            : (void *)(uintptr_t)tensor_data(t);
    a->written = l->written[i] = checks == CHECKS_NONE ? NULL : unwritten(l, i, checks);
  }
}

/* Safe to call twice, and before the first run. */
void launch_forget(Launch *l) {
  for (size_t i = 0; i < l->n; i++) {
    const IrBuffer *b = l->ir->params.v[i].buf;
    if (b)
      l->b->tensor[b->id].written = NULL;
    free(l->written[i]);
    l->written[i] = NULL;
  }
}

/* Every run on the evaluator takes its options from here, so that --cpu, --shake and Ctrl-C
 * reach all of them. */
EvalOptions session_eval_options(Session *s, EvalChecks checks) {
  return (EvalOptions){.pool = session_pool(s),
                       .isa = s->options.isa_set ? s->options.isa : OPS_BEST,
                       .checks = checks,
                       .shake = s->options.shake,
                       .interrupt = s->options.interrupt,
                       .print = s->options.out};
}

/* After a fault nothing of the run is kept; outputs hold what was stored until then. */
void launch_evaluate(Launch *l, IrLevel level, EvalChecks checks) {
  const IrKernel *k = level == l->ir->level ? l->ir : launch_thread(l, &l->s->diags);
  if (!k)
    host_fail(l->s, E0822, l->span, "%s cannot be lowered to threads", l->name);
  Status status = launch_evaluate_kernel(l, k, program(l, k), checks, &l->s->diags);
  if (status == ST_INTERRUPTED)
    session_interrupt(l->s, l->span, "interrupted while %s ran", l->name);
  if (status != ST_OK)
    session_fail_call(l->s, status, l->span, l->name);
}

Status launch_evaluate_quietly(Launch *l, DiagSink *sink) {
  return launch_evaluate_kernel(l, l->ir, program(l, l->ir), CHECKS_NONE, sink);
}

Status launch_evaluate_kernel(Launch *l, const IrKernel *k, EvalProgram *p, EvalChecks checks,
                              DiagSink *sink) {
  launch_forget(l);
  launch_arguments(l, checks);
  IrBinding *b = launch_rebind(l, k);
  launch_pack_here(l, k, b);
  EvalOptions o = session_eval_options(l->s, checks);
  o.budget = l->budget;
  o.together = l->together;
  o.lowered = k->level != l->ir->level;
  o.blocks_run = &l->blocks_run;
  o.counters = l->counters;
  o.print = l->print ? l->print : o.print;
  o.noise = l->noise;
  o.max_steps = l->max_steps;
  double start = base_now();
  Status status = eval_run(p, b, &o, sink);
  l->s->times.kernel += base_now() - start;
  if (status != ST_OK)
    launch_forget(l);
  return status;
}

/* A call of the program on the evaluator. */
static void run_here(Launch *l) {
  EvalChecks checks = l->s->options.checks_set ? l->s->options.checks : CHECKS_DEFAULT;
  bool roles = checks == CHECKS_ALL && launch_has_roles(l);
  Launch threads = roles ? launch_again(l) : (Launch){0}; /* with the arguments as they are now */
  launch_evaluate(l, l->ir->level, checks);
  launch_forget(l);
  if (roles)
    launch_check_roles(&threads);
}

/* Strided outputs were computed in a contiguous copy; their elements go back
 * here, one by one. */
Value launch_result(Launch *l) {
  Value *out = ARENA_ARRAY(session_scratch(l->s), Value, l->n);
  size_t n = 0;
  Str why = session_str(l->s);
  for (size_t i = 0; i < l->n; i++) {
    if (!l->tensor[i] || !launch_writes(l, i))
      continue;
    if (l->original[i] && !host_copy(l->s, l->original[i], launch_host_tensor(l, i), &why))
      host_fail(l->s, E0807, l->where[i], "%s", str_text(&why));
    if (l->ir->params.v[i].buf->role == IRR_OUT)
      out[n++] = val_borrow(l->original[i] ? l->original[i] : l->tensor[i]);
  }
  return n == 0 ? val_nil() : n == 1 ? out[0] : val_tuple(l->s, out, n);
}

/* On whichever device is chosen; a plan of an earlier call saves the way here. */
static Value run_call(Launch *l, Value kernel, const Args *a) {
  if (device_is_gpu(l->s)) {
    DevicePrepared d;
    device_launch(l, &d);
    plan_keep(kernel, a, &d);
  } else {
    run_here(l);
  }
  return launch_result(l);
}

/* Says that all is well, so that a program which verifies nothing is told from one that does. */
static void verify_each(Launch *l) {
  Str text = session_str(l->s), why = session_str(l->s);
  launch_verify_each(l, &why);
  if (why.n)
    str_addf(&text, "%s: not lowered to threads: %s\n", l->name, str_text(&why));
  else
    str_addf(&text, "%s: every pass of lowering keeps its result\n", l->name);
  session_print(l->s, &text);
}

/* With --emit the first call prints its stage and the program ends there. */
static void emit_first(Launch *l) {
  Session *s = l->s;
  if (s->options.emit < EMIT_IR || s->emitted)
    return;
  Str out = str_new(s->line);
  launch_emit(l, s->options.emit, &out);
  session_print_stage(s, &out);
  host_fail_with(s, ST_FAIL); /* session_run_* knows by `emitted` that all is well */
}

Value kernel_call(Session *s, Value kernel, Args *a) {
  Launch l;
  Value warm;
  bool plain =
      s->options.emit == EMIT_NOTHING && s->options.mode != MODE_CHECK && !s->options.verify_each;
  if (plain && s->gpu && !s->gpu->decided)
    session_look_ahead_of_driver(s, kernel, a);
  if (plain && device_is_gpu(s) && plan_call(s, kernel, a, &warm))
    return warm;
  launch_prepare(s, kernel, a, &l);
  emit_first(&l);
  if (s->options.mode == MODE_CHECK)
    launch_check(&l);
  if (s->options.verify_each)
    verify_each(&l);
  return run_call(&l, kernel, a);
}

/* Only a call of a kernel by itself: its arguments are evaluated once and used by every run. */
void launch_of_call(Session *s, const AstExpr *call, const char *what, Launch *l) {
  Value kernel = host_eval(s, call->as.call.fn);
  if (kernel.kind != VAL_KERNEL)
    host_fail(s, E0805, call->as.call.fn->span, "%s takes a call of a kernel, not of %s", what,
              val_describe(s, kernel));
  Args a = {.name = what};
  host_eval_args(s, call, &a);
  launch_prepare(s, kernel, &a, l);
  emit_first(l);
}
