/* explain.c: how a kernel is compiled: `:explain`, `:smem`, `:layout`.
 *
 * In: a call, or a kernel alone (its extents are then assumed: what depends on them is not said),
 * and the session's target. Out: text: what was chosen and why, shared memory by name, who holds
 * which element. Needs no GPU. With a call, bank conflicts are counted by running the thread level
 * on the evaluator. Tests: tests/repl/run (test_explain).
 */
#include "explain.h"

#include <inttypes.h>
#include <string.h>

enum { ASSUMED_EXTENT = 64 };

/* The kernel ------------------------------------------------------------------------------- */

/* Every tensor row-major and aligned, of any extents; static ones are ASSUMED_EXTENT. */
static void assume(Explain *x, Value kernel, Span span) {
  Session *s = x->s;
  Arena *a = session_scratch(s);
  const SemaKernel *k = x->sema;
  size_t n = k ? k->ninputs + k->noutputs : 0;
  /* The check of the definition is what computes defaults. */
  const SemaKernel *defaults = k ? sema_declare(a, x->ast, k->scope, &s->diags) : NULL;
  if (k && (!defaults || s->diags.errors > 0))
    host_fail_with(s, ST_COMPILE);
  SemaSpec *spec = k ? kernel_settings(s, kernel, span) : NULL;
  SemaArg *args = ARENA_ARRAY(a, SemaArg, n);
  for (size_t i = 0; i < n; i++) {
    const SemaParam *p = &k->params[i];
    args[i] = (SemaArg){.given = !p->output, .tensor = p->tensor, .rank = p->rank, .span = span};
    args[i].dtype = sema_param_dtype(a, defaults, spec, i);
    if (args[i].dtype == DT_NONE)
      args[i].dtype = DT_F32; /* any will do: no default says which */
    args[i].number = (SemaNum){.dtype = args[i].dtype};
    for (int d = 0; d < p->rank; d++)
      args[i].extent[d] = ASSUMED_EXTENT;
  }
  x->spec = kernel_spec(s, kernel, args, span);
  x->ir = x->spec->ir;
  x->assumed = k && k->nextents > 0;
}

/* What the best code may count on. */
static LowerFact *best_facts(Arena *a, const IrKernel *k) {
  LowerFact *f = ARENA_ARRAY(a, LowerFact, k->buffers.n);
  for (size_t i = 0; i < k->buffers.n; i++)
    f[i] = (LowerFact){(int8_t)(k->buffers.v[i]->rank - 1), 16, true};
  return f;
}

/* At the level that runs. Fails with what lowering says. */
static void lower(Explain *x, Span span) {
  Session *s = x->s;
  Arena *a = session_scratch(s);
  if (x->l) {
    x->thread = launch_thread(x->l, &s->diags);
    x->notes = &launch_variant(x->l)->notes;
  } else if (x->ir->level == IR_THREAD) {
    x->thread = x->ir;
  } else {
    LowerNotes *notes = ARENA_NEW(a, LowerNotes);
    notes->arena = a;
    LowerRequest r = {.target = x->target, .fact = best_facts(a, x->ir), .notes = notes};
    x->thread = lower_to(a, x->ir, IR_THREAD, &r, &s->diags);
    x->notes = notes;
  }
  if (!x->thread)
    session_fail_call(s, ST_COMPILE, span, x->ir->name);
}

/* A call, or a kernel by its name or as k[BM = 64]. */
static void subject(Explain *x, const AstExpr *e) {
  Session *s = x->s;
  bool call = e->kind == EXPR_CALL;
  Value kernel = host_eval(s, call ? e->as.call.fn : e);
  if (kernel.kind != VAL_KERNEL)
    host_fail(s, E0805, e->span, "a kernel or a call of one is wanted, not %s",
              val_describe(s, kernel));
  x->kernel = kernel;
  x->target = session_target(s);
  x->ast = kernel.as.obj->as.kernel.ast;
  x->sema = x->ast ? kernel_sema(s, kernel) : NULL;
  if (call) {
    x->l = ARENA_NEW(session_scratch(s), Launch);
    launch_of_call(s, e, "explain", x->l);
    x->spec = x->l->spec;
    x->ir = x->l->ir;
  } else {
    assume(x, kernel, e->span);
  }
  lower(x, e->span);
}

/* Counting bank conflicts ---------------------------------------------------------------------- */

/* On copies of what it writes; of a large grid only some blocks run. */
static bool count_accesses(Explain *x, EvalCounters *c, int64_t *blocks) {
  Launch *l = x->l;
  Session *s = x->s;
  if (!l || x->thread->shared_bytes == 0)
    return false;
  launch_isolate(l);
  EvalProgram *p = eval_compile(session_scratch(s), (IrKernel *)(uintptr_t)x->thread, &s->diags);
  FILE *nowhere = fopen("/dev/null", "we"); /* the kernel's prints are not asked for */
  l->counters = c;
  l->budget = 1e-3;
  l->print = nowhere;
  Status status =
      p ? launch_evaluate_kernel(l, x->thread, p, CHECKS_NONE, &l->s->diags) : ST_COMPILE;
  if (nowhere)
    fclose(nowhere);
  l->print = NULL;
  *blocks = l->blocks_run;
  launch_forget(l);
  if (status != ST_OK)
    session_fail_call(s, status, l->span, l->name);
  return true;
}

static void add_conflicts(Explain *x, Str *out) {
  EvalCounters c = {0};
  int64_t ran = 0;
  if (!count_accesses(x, &c, &ran)) /* without a call there is nothing to run */
    return;
  int64_t all = launch_blocks(x->l);
  str_addf(out, "bank conflicts: %" PRIu64 " in %" PRIu64 " accesses of shared memory",
           c.bank_conflicts, c.shared_accesses);
  str_addf(out, ran < all ? " (%lld of %lld blocks were run)\n" : "\n", (long long)ran,
           (long long)all);
}

/* :explain ------------------------------------------------------------------------------------- */

/* By k[BM = 64]: then the compiler has no choice. */
static bool is_set(const Explain *x, const char *name) {
  const Object *o = x->kernel.as.obj;
  for (size_t i = 0; i < o->as.kernel.nsettings; i++)
    if (strcmp(o->as.kernel.settings[i].name, name) == 0)
      return true;
  return false;
}

static void add_statics(const Explain *x, Str *out) {
  const SemaKernel *k = x->sema;
  int n = 0;
  for (size_t i = 0; k && i < k->nstatics; i++) {
    SemaValue v = x->spec->statics[i];
    str_addf(out, "%s%s = ", n++ ? ", " : "  ", k->statics[i].name.text);
    if (v.kind == SV_DTYPE)
      str_add(out, dtype_name(v.dtype));
    else if (v.kind == SV_STRING)
      str_addf(out, "\"%s\"", v.string);
    else
      scalar_print(v.num, out);
    if (k->statics[i].is_auto && !is_set(x, k->statics[i].name.text))
      str_add(out, " (auto)");
  }
  if (n)
    str_addc(out, '\n');
  for (size_t i = 0; x->assumed && i < k->nextents; i++)
    str_addf(out, "  %s = %d is assumed; a call says what it is\n", k->extents[i], ASSUMED_EXTENT);
}

/* "  grid 10 x 8, 80 blocks of 128 threads" */
static void add_grid(const Explain *x, Str *out) {
  const IrKernel *t = x->thread;
  if (!x->l) {
    str_addf(out, "  blocks of %d threads\n", t->threads);
    return;
  }
  const int64_t *grid = x->l->b->grid;
  int64_t blocks = grid[0] * grid[1] * grid[2];
  str_add(out, "  grid ");
  for (int i = 0; i < (x->ir->grid_rank ? x->ir->grid_rank : 1); i++)
    str_addf(out, i ? " x %lld" : "%lld", (long long)grid[i]);
  str_addf(out, ", %lld block%s of %d threads\n", (long long)blocks, blocks == 1 ? "" : "s",
           t->threads);
  double flops = launch_flops(x->l, true), bytes = launch_bytes(x->l);
  if (flops > 0 && bytes > 0)
    str_addf(out, "  %.3g operations, %.3g bytes: %.3g operations a byte\n", flops, bytes,
             flops / bytes);
}

/* What the engines that copy can use of a tensor; what they cannot is why they are not used. */
static void add_tensor(const Explain *x, size_t i, Str *out) {
  const IrBuffer *b = x->ir->params.v[i].buf;
  const LowerFact *f = &launch_variant(x->l)->fact[b->id];
  str_addf(out, "  %s: ", b->name);
  tensor_add_type(x->l->tensor[i], out);
  if (f->unit_axis < 0)
    str_add(out, ", no axis contiguous: every element by itself, no asynchronous copies");
  else
    str_addf(out, ", axis %d contiguous, rows aligned to %d bytes%s", f->unit_axis, f->align,
             f->align < 16 ? ": no bulk copies, which need 16" : "");
  if (!f->index32)
    str_add(out, ", 64-bit offsets");
  if (x->l->pack && x->l->pack[i])
    str_add(out, ", read through a copy with such rows");
  if (x->l->original[i])
    str_add(out, ", copied to be contiguous");
  str_addc(out, '\n');
}

static void add_choices(Explain *x, Str *out) {
  str_addf(out, "%s for %s, %lld multiprocessors\n", x->ir->name, x->target->name,
           (long long)session_sms(x->s));
  add_statics(x, out);
  add_grid(x, out);
  str_addf(out, "  %lld of %zu bytes of shared memory a block\n",
           (long long)x->thread->shared_bytes, x->target->shared_limit);
  for (size_t i = 0; x->l && i < x->l->n; i++)
    if (x->l->tensor[i])
      add_tensor(x, i, out);
  for (size_t i = 0; x->notes && i < x->notes->text.n; i++)
    str_addf(out, "  %s\n", x->notes->text.v[i]);
  if (x->l) {
    str_add(out, "  ");
    size_t n = out->n;
    add_conflicts(x, out);
    if (out->n == n)
      str_add(out, "no shared memory is used\n");
  }
}

/* :smem ---------------------------------------------------------------------------------------- */

/* By offset; tiles that are never alive together may share bytes. */
static size_t shared_buffers(const Explain *x, const IrBuffer **v) {
  const IrKernel *k = x->thread;
  size_t n = 0;
  for (size_t i = 0; i < k->buffers.n; i++) {
    if (k->buffers.v[i]->space != IRS_SHARED)
      continue;
    size_t at = n++;
    for (; at > 0 && v[at - 1]->offset > k->buffers.v[i]->offset; at--)
      v[at] = v[at - 1];
    v[at] = k->buffers.v[i];
  }
  return n;
}

static int64_t bytes_of(const IrBuffer *b) {
  int64_t n = (int64_t)dtype_size(b->dtype), extent = 0;
  for (int d = 0; d < b->rank; d++)
    n *= ir_is_const(b->extent[d], &extent) ? extent : 0;
  return n;
}

/* The program's shape, where lowering knows the tile; else the buffer's. */
static void add_tile_type(const Explain *x, const IrBuffer *b, Str *out) {
  for (size_t i = 0; x->notes && i < x->notes->tile.n; i++) {
    const LowerTile *t = &x->notes->tile.v[i];
    if (t->home != LOWER_SHARED || t->offset != b->offset || strcmp(t->name, b->name) != 0)
      continue;
    if (t->stages > 1)
      str_addf(out, "%d x ", t->stages);
    tensor_add_type_of(t->dtype, t->rank, t->extent, out);
    return;
  }
  buffer_add_type(b, 0, out);
}

/* Lowering keeps names apart by `_1`, `_2`, … */
static bool is_users(const Explain *x, const IrBuffer *b) {
  size_t n = strlen(b->name), end = n;
  while (end > 0 && b->name[end - 1] >= '0' && b->name[end - 1] <= '9')
    end--;
  if (!x->ast || debug_declares(x->ast, b->name))
    return true;
  return end > 1 && end < n && b->name[end - 1] == '_' &&
         debug_declares(x->ast, names_get(x->s->names, b->name, end - 1));
}

static void add_shared(Explain *x, Str *out) {
  const IrKernel *k = x->thread;
  const IrBuffer **v = ARENA_ARRAY(session_scratch(x->s), const IrBuffer *, k->buffers.n + 1);
  size_t n = shared_buffers(x, v);
  int64_t end = 0;
  for (size_t i = 0; i < n; i++) {
    const IrBuffer *b = v[i];
    Str type = session_str(x->s);
    add_tile_type(x, b, &type);
    str_addf(out, "%-12s %-16s at %6lld, %6lld bytes%s%s\n", b->name, str_text(&type),
             (long long)b->offset, (long long)bytes_of(b),
             b->offset < end ? ", in bytes of an earlier one" : "",
             is_users(x, b) ? "" : ", the compiler's");
    if (b->offset + bytes_of(b) > end)
      end = b->offset + bytes_of(b);
  }
  str_addf(out, "%lld of %zu bytes a block on %s", (long long)k->shared_bytes,
           x->target->shared_limit, x->target->name);
  int64_t fit = blocks_at_a_time(x->target, 0, k->threads, (size_t)k->shared_bytes, false);
  if (fit > 0)
    str_addf(out, ": at most %lld block%s at a time on a multiprocessor", (long long)fit,
             fit == 1 ? "" : "s");
  str_addc(out, '\n');
  add_conflicts(x, out);
}

/* Commands ------------------------------------------------------------------------------------- */

typedef struct Job {
  SessionExplain what;
  const char *text;
  size_t n;
  Str *out;
} Job;

/* The last word of a `:layout` line; the rest is the kernel, nothing where the word is no name. */
static const char *last_word(Session *s, const char *text, size_t *n) {
  size_t end = *n, at;
  while (end > 0 && text[end - 1] == ' ')
    end--;
  for (at = end; at > 0 && text[at - 1] != ' '; at--)
    ;
  const char *word = arena_strndup(session_scratch(s), text + at, end - at);
  *n = strpbrk(word, "()[]") ? 0 : at;
  return word;
}

static void run(Session *s, void *ctx) {
  Job *j = ctx;
  const char *tile = j->what == EXPLAIN_LAYOUT ? last_word(s, j->text, &j->n) : NULL;
  if (j->n == 0) {
    str_add(j->out, ":layout f(a, b) TILE, or :layout f TILE\n");
    return;
  }
  Explain x = {.s = s};
  subject(&x, session_expression(s, "<explain>", j->text, j->n, "a kernel or a call of one", NULL));
  if (j->what == EXPLAIN_CHOICES)
    add_choices(&x, j->out);
  else if (j->what == EXPLAIN_SHARED)
    add_shared(&x, j->out);
  else
    explain_layout(&x, tile, j->out);
}

Status session_explain(Session *s, SessionExplain what, const char *text, size_t n, Str *out) {
  session_begin(s);
  Job j = {what, text, n, out};
  return session_protect(s, run, &j);
}
