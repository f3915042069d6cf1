/* debug.c: a kernel call walked statement by statement, forwards and back.
 *
 * In: a call and the commands of the prompt that step it. Out: where it stands, what changed, what
 * the kernel printed. Always holds: the call's own tensors are never written (outputs and inout
 * arguments are copies); nothing here touches the session's globals. The evaluator gives the same
 * bits every time, so going back is running again from the start and stopping one pause earlier.
 * Tests: tests/repl/step*.txt.
 */
#include "debug.h"

#include <string.h>

/* Life ------------------------------------------------------------------------------------- */

static void release_run(Debug *d) {
  eval_debug_free(d->eval);
  d->eval = NULL;
  if (d->l.written)
    launch_forget(&d->l);
  for (size_t i = 0; d->held && i < d->l.n; i++) {
    val_release(d->held[i]);
    d->held[i] = val_nil();
  }
}

void debug_free(Session *s) {
  Debug *d = s->debug;
  if (!d)
    return;
  s->debug = NULL;
  release_run(d);
  debug_forget(d);
  if (d->l.spec)
    d->l.spec->held = false;
  for (size_t i = 0; i < d->breaks.n; i++)
    unit_leave(d->breaks.v[i].unit);
  for (size_t i = 0; d->args && i < d->l.n; i++)
    tensor_release(d->args[i]);
  arena_free(d->arena);
}

/* What launch_prepare laid into the scratch of a statement, copied to where it stays. */
static void keep_launch(Debug *d, const Launch *from) {
  Arena *a = d->arena;
  Launch *l = &d->l;
  size_t n = from->n;
  IrBinding *b = ir_binding_new(a, from->ir);
  memcpy(b->value, from->b->value, from->ir->vars.n * sizeof *b->value);
  memcpy(b->tensor, from->b->tensor, from->ir->buffers.n * sizeof *b->tensor);
  memcpy(b->grid, from->b->grid, sizeof b->grid);
  d->args = ARENA_ARRAY(a, Tensor *, n);
  d->held = ARENA_ARRAY(a, Value, n);
  *l = *from;
  l->spec->held = true;
  l->span = (Span){NULL, 0, 0}; /* the call's text goes */
  l->name = arena_strdup(a, from->name);
  l->b = b;
  l->tensor = ARENA_ARRAY(a, Tensor *, n);
  l->original = ARENA_ARRAY(a, Tensor *, n);
  l->fresh = arena_copy(a, from->fresh, n * sizeof *from->fresh);
  l->written = ARENA_ARRAY(a, uint8_t *, n);
  l->where = ARENA_ARRAY(a, Span, n);
  for (size_t i = 0; i < n; i++) {
    d->held[i] = val_nil();
    d->args[i] = from->tensor[i] ? tensor_retain(from->tensor[i]) : NULL;
  }
}

/* From the start of a block, with outputs as they are before any ran. */
static void restart(Session *s, int64_t first) {
  Debug *d = s->debug;
  Launch *l = &d->l;
  release_run(d);
  for (size_t i = 0; i < l->n; i++)
    l->tensor[i] = d->args[i];
  launch_isolate(l);
  for (size_t i = 0; i < l->n; i++)
    if (l->tensor[i] && launch_writes(l, i))
      d->held[i] = val_retain(val_borrow(l->tensor[i]));
  EvalChecks checks = s->options.checks_set ? s->options.checks : CHECKS_DEFAULT;
  launch_arguments(l, checks);
  EvalOptions o = session_eval_options(s, checks);
  d->eval = eval_debug_new(d->l.spec->stepped, l->b, &o, first);
  if (!d->eval)
    guard_raise(s->guard, ST_NOMEM);
  d->first = first;
  d->position = 0;
  d->pause = EVAL_AT_BLOCK_END;
  d->shown = (Span){NULL, 0, 0};
  d->interrupted = false;
  d->seen.n = 0;
  debug_forget(d);
}

/* Stepping ----------------------------------------------------------------------------------- */

static bool same_place(Span a, Span b) {
  return a.file == b.file && a.begin == b.begin;
}

/* The program's statement at a place of the IR; file NULL: of an inlined function, or none. */
static Span stmt_span(const Debug *d, Span at) {
  if (!d->ast || !at.file)
    return at;
  const AstStmt *st = debug_stmt(&d->ast->body, at.file, at.begin);
  return st ? st->span : (Span){NULL, 0, 0};
}

/* One statement of the program, which may be several of the IR. */
static EvalPause step_one(Session *s) {
  Debug *d = s->debug;
  for (;;) {
    d->pause = eval_debug_next(d->eval, &s->diags);
    if (d->pause == EVAL_AT_STMT) {
      Span st = stmt_span(d, eval_debug_span(d->eval));
      if (!st.file || same_place(st, d->shown))
        continue;
      d->shown = st;
    } else if (d->pause == EVAL_AT_BLOCK_END) {
      d->shown = (Span){NULL, 0, 0};
    } else {
      return d->pause;
    }
    d->position++;
    return d->pause;
  }
}

/* To a position, in silence. */
static void replay(Session *s, int64_t first, uint64_t position) {
  Debug *d = s->debug;
  Str none = session_str(s);
  restart(s, first);
  while (d->position < position) {
    EvalPause p = step_one(s);
    if (p == EVAL_AT_INTERRUPT)
      guard_raise(s->guard, ST_INTERRUPTED);
    if (p == EVAL_AT_FAULT || p == EVAL_AT_END)
      break;
    eval_debug_forget_text(d->eval);
  }
  debug_changes(s, &none); /* known from here on */
  debug_watch(s, &none);
}

/* "block (1, 0)", "block 3"; nothing where there is one block. */
static void add_block(const Debug *d, Str *out) {
  int64_t index[3];
  int rank = d->l.ir->grid_rank;
  eval_debug_block(d->eval, index);
  if (rank == 0)
    str_add(out, "the block");
  else if (rank == 1)
    str_addf(out, "block %lld", (long long)index[0]);
  for (int i = 0; rank > 1 && i < rank; i++)
    str_addf(out, "%s%lld%s", i ? ", " : "block (", (long long)index[i], i + 1 == rank ? ")" : "");
}

/* The first line of the statement, as diagnostics show a line. */
static void add_line(Span at, Str *out) {
  const SrcFile *f = at.file;
  uint32_t line, column, i = src_line_of(f, at.begin);
  src_position(f, at.begin, &line, &column);
  const char *text = f->text + f->lines[i];
  int n = (int)strcspn(text, "\r\n");
  str_addf(out, "%4u | %.*s\n", line, n, text);
}

static void add_place(const Debug *d, Str *out) {
  uint32_t line, column;
  if (!d->shown.file) {
    add_block(d, out);
    str_add(out, " has ended\n");
    return;
  }
  src_position(d->shown.file, d->shown.begin, &line, &column);
  str_addf(out, "%s:%u, ", d->shown.file->name, line);
  add_block(d, out);
  const char *role = eval_debug_role(d->eval);
  if (role)
    str_addf(out, ", %s", role);
  str_addc(out, '\n');
  add_line(d->shown, out);
}

/* What the kernel printed, then where it stands and what is new. */
static void add_pause(Session *s, Str *out) {
  Debug *d = s->debug;
  str_add(out, eval_debug_text(d->eval));
  eval_debug_forget_text(d->eval);
  switch (d->pause) {
  case EVAL_AT_STMT:
  case EVAL_AT_BLOCK_END:
    debug_changes(s, out);
    add_place(d, out);
    break;
  case EVAL_AT_END:
    str_addf(out, "%s has ended; :print shows its outputs, :back goes back\n", d->l.name);
    break;
  case EVAL_AT_INTERRUPT:
    str_add(out, "interrupted\n");
    add_place(d, out);
    break;
  default:
    break; /* the diagnostic says it */
  }
}

/* A statement that cannot be gone on with is begun anew. */
static void after_interrupt(Session *s) {
  Debug *d = s->debug;
  if (d->pause != EVAL_AT_INTERRUPT || eval_debug_resumes(d->eval))
    return;
  if (s->options.interrupt)
    *(volatile sig_atomic_t *)(uintptr_t)s->options.interrupt = 0;
  replay(s, d->first, d->position);
  d->pause = EVAL_AT_INTERRUPT;
}

static void fail_after(Session *s) {
  if (s->debug->pause == EVAL_AT_FAULT)
    host_fail_with(s, ST_FAIL);
}

/* Breaks --------------------------------------------------------------------------------------- */

/* Conditions are bools, as everywhere. */
static bool holds(Session *s, const Break *b) {
  if (!b->cond)
    return true;
  size_t vars = s->vars.n, temps = s->temps.n, frame = s->frame, block = s->block;
  Value v = debug_eval(s, b->parsed, b->cond);
  if (v.kind != VAL_BOOL)
    host_fail(s, E0801, b->cond->span, "a condition is a bool, not %s", val_describe(s, v));
  bool yes = v.as.b;
  s->frame = frame;
  s->block = block;
  host_drop_vars(s, vars);
  host_drop_temps(s, temps);
  return yes;
}

static bool at_break(Session *s) {
  Debug *d = s->debug;
  if (d->pause != EVAL_AT_STMT)
    return false;
  for (size_t i = 0; i < d->breaks.n; i++)
    if (same_place(d->breaks.v[i].stmt, d->shown) && holds(s, &d->breaks.v[i]))
      return true;
  return false;
}

/* The first statement that starts at the line or after it; else the last that holds it. */
static bool find_stop(const Debug *d, uint32_t want, Span *found, uint32_t *at) {
  uint32_t best = UINT32_MAX;
  for (size_t i = 0; i < eval_debug_stops(d->l.spec->stepped); i++) {
    Span st = stmt_span(d, eval_debug_stop_span(d->l.spec->stepped, i));
    uint32_t line, column;
    if (!st.file)
      continue;
    src_position(st.file, st.begin, &line, &column);
    uint32_t last, ignored;
    src_position(st.file, st.end ? st.end - 1 : 0, &last, &ignored);
    bool inside = line < want && want <= last && best == UINT32_MAX;
    if ((line >= want && line < best) || (inside && !found->file)) {
      *found = st;
      *at = line;
      best = line >= want ? line : best;
    }
  }
  return found->file != NULL;
}

static void list_breaks(const Debug *d, Str *out) {
  for (size_t i = 0; i < d->breaks.n; i++) {
    const Break *b = &d->breaks.v[i];
    str_addf(out, "line %u%s%s\n", b->line, b->text ? " if " : "", b->text ? b->text : "");
  }
  if (d->breaks.n == 0)
    str_add(out, "no breaks; :break LINE [if CONDITION] sets one\n");
}

/* A second one at a line replaces the first; `:break -LINE` takes it away. */
static void drop_break(Debug *d, Span at) {
  size_t n = 0;
  for (size_t i = 0; i < d->breaks.n; i++)
    if (same_place(d->breaks.v[i].stmt, at))
      unit_leave(d->breaks.v[i].unit);
    else
      d->breaks.v[n++] = d->breaks.v[i];
  d->breaks.n = n;
}

static void set_break(Session *s, const char *text, Str *out) {
  Debug *d = s->debug;
  char *end = NULL;
  bool away = *text == '-';
  unsigned long line = strtoul(text + away, &end, 10);
  end += strspn(end, " \t");
  bool condition = strncmp(end, "if ", 3) == 0;
  Break b = {.stmt = {NULL, 0, 0}};
  if (!*text) {
    list_breaks(d, out);
    return;
  }
  if (line == 0 || line > UINT32_MAX || (*end && !condition) || (away && *end)) {
    str_add(out, ":break LINE [if CONDITION], :break -LINE\n");
    return;
  }
  if (!find_stop(d, (uint32_t)line, &b.stmt, &b.line)) {
    str_addf(out, "%s has no statement at line %lu or after it\n", d->l.name, line);
    return;
  }
  if (condition) {
    end += 3;
    b.text = arena_strdup(d->arena, end);
    b.cond = session_expression(s, "<break>", b.text, strlen(b.text), "an expression", &b.parsed);
    b.unit = away ? NULL : unit_enter(s, b.parsed->file);
  }
  drop_break(d, b.stmt);
  if (!away)
    VEC_PUSH(d->arena, &d->breaks, b);
  str_add(out, away ? "no break any more at\n" : "break at\n");
  add_line(b.stmt, out);
}

/* Commands ------------------------------------------------------------------------------------- */

/* Breaks belong to the kernel's text: those of an earlier walk through it stay. */
static void keep_breaks(Session *s, Debug *d) {
  const Debug *old = s->debug;
  for (size_t i = 0; old && old->ast == d->ast && i < old->breaks.n; i++) {
    Break b = old->breaks.v[i];
    b.text = b.text ? arena_strdup(d->arena, b.text) : NULL;
    b.unit = b.unit ? unit_enter(s, b.parsed->file) : NULL;
    VEC_PUSH(d->arena, &d->breaks, b);
  }
}

/* The session's stepping begins anew. */
static void begin(Session *s, const AstExpr *call) {
  Value kernel = host_eval(s, call->as.call.fn);
  if (kernel.kind != VAL_KERNEL)
    host_fail(s, E0805, call->as.call.fn->span, ":step takes a call of a kernel, not of %s",
              val_describe(s, kernel));
  Args a = {.name = "step"};
  Launch l;
  host_eval_args(s, call, &a);
  launch_prepare(s, kernel, &a, &l);
  if (l.ir->level == IR_THREAD)
    host_fail(s, E0801, call->span, "%s is at thread level; :step walks what is above it", l.name);
  Arena *arena = arena_new(NULL, "stepping");
  Debug *d = ARENA_NEW(arena, Debug);
  d->arena = arena;
  d->ast = kernel.as.obj->as.kernel.ast;
  keep_breaks(s, d);
  debug_free(s);
  session_free_units(s, NULL); /* those that the last stepped call kept */
  s->debug = d;
  d->units = s->units;
  d->sema = d->ast ? kernel_sema(s, kernel) : NULL;
  keep_launch(d, &l);
  if (!l.spec->stepped)
    l.spec->stepped = eval_compile_stepped(spec_arena(&l), l.spec->ir, &s->diags);
  if (!l.spec->stepped)
    host_fail_with(s, ST_COMPILE);
  restart(s, 0);
}

/* The fault was told when it happened. */
static bool already_failed(Session *s, Str *out) {
  const Debug *d = s->debug;
  if (d->pause != EVAL_AT_FAULT)
    return false;
  add_block(d, out);
  str_add(out, " has failed; :back goes back, :block begins anew\n");
  return true;
}

static void step(Session *s, const char *text, size_t n, Str *out) {
  if (n > 0) {
    const AstExpr *e = session_expression(s, "<step>", text, n, "a call of a kernel", NULL);
    if (e->kind != EXPR_CALL)
      host_fail(s, E0801, e->span, "a call of a kernel is wanted: :step f(a, b)");
    begin(s, e);
  }
  if (already_failed(s, out))
    return;
  step_one(s);
  after_interrupt(s);
  debug_watch(s, out);
  add_pause(s, out);
  fail_after(s);
}

/* Until a break, a change of what is watched, the end, a fault or Ctrl-C. */
static void go_on(Session *s, Str *out) {
  if (already_failed(s, out))
    return;
  for (;;) {
    EvalPause p = step_one(s);
    if (debug_watch(s, out) || at_break(s) || (p != EVAL_AT_STMT && p != EVAL_AT_BLOCK_END))
      break;
    if (s->options.interrupt && *s->options.interrupt) {
      s->debug->pause = EVAL_AT_INTERRUPT;
      break;
    }
    str_add(out, eval_debug_text(s->debug->eval));
    eval_debug_forget_text(s->debug->eval);
    arena_reset(session_scratch(s)); /* of conditions: nothing else lies there now */
  }
  after_interrupt(s);
  add_pause(s, out);
  fail_after(s);
}

/* At the end and at a fault the last statement is the one to go back to. */
static void back(Session *s, Str *out) {
  Debug *d = s->debug;
  bool past = d->pause == EVAL_AT_END || d->pause == EVAL_AT_FAULT;
  uint64_t to = past ? d->position : d->position - 1;
  if (to == 0) {
    str_add(out, "this is the first statement\n");
    return;
  }
  replay(s, d->first, to);
  add_pause(s, out);
}

/* "1 0" or "1, 0" or "(1, 0)": as many numbers as the grid has axes; missing ones are 0. */
static void choose_block(Session *s, const char *text, Str *out) {
  Debug *d = s->debug;
  const int64_t *grid = d->l.b->grid;
  int64_t index[3] = {0};
  int n = 0;
  for (const char *p = text; *p && n < 3;) {
    char *end = NULL;
    p += strspn(p, " \t,()");
    if (!*p)
      break;
    index[n++] = strtoll(p, &end, 10);
    if (end == p) {
      str_add(out, ":block X [Y [Z]]\n");
      return;
    }
    p = end;
  }
  for (int i = 0; i < 3; i++)
    if (index[i] < 0 || index[i] >= grid[i]) {
      str_addf(out, "the grid has %lld x %lld x %lld blocks\n", (long long)grid[0],
               (long long)grid[1], (long long)grid[2]);
      return;
    }
  if (n > 0) {
    restart(s, index[0] + grid[0] * (index[1] + grid[1] * index[2]));
    step_one(s);
    debug_watch(s, out);
  }
  add_pause(s, out);
  fail_after(s);
}

static void print(Session *s, const char *text, size_t n, Str *out) {
  const AstFile *f;
  if (n == 0) {
    debug_names(s, out);
    return;
  }
  if (debug_show(s, text, n, out))
    return;
  const AstExpr *e = session_expression(s, "<print>", text, n, "an expression", &f);
  Value v = debug_eval(s, f, e);
  val_print(s, v, true, out);
  str_addc(out, '\n');
}

static void watch(Session *s, const char *text, size_t n, Str *out) {
  Debug *d = s->debug;
  d->watched = n ? names_get(s->names, text, n) : NULL;
  debug_forget(d);
  debug_watch(s, out);
  str_addf(out, n ? ":continue stops when %s changes\n" : "nothing is watched any more\n", text);
}

typedef struct Job {
  SessionDebug what;
  const char *text;
  size_t n;
  Str *out;
} Job;

static void run(Session *s, void *ctx) {
  Job *j = ctx;
  switch (j->what) {
  case DEBUG_STEP:
  case DEBUG_NEXT:
    step(s, j->text, j->what == DEBUG_STEP ? j->n : 0, j->out);
    break;
  case DEBUG_CONTINUE:
    go_on(s, j->out);
    break;
  case DEBUG_BACK:
    back(s, j->out);
    break;
  case DEBUG_BREAK:
    set_break(s, j->text, j->out);
    break;
  case DEBUG_BLOCK:
    choose_block(s, j->text, j->out);
    break;
  case DEBUG_PRINT:
    print(s, j->text, j->n, j->out);
    break;
  case DEBUG_WATCH:
    watch(s, j->text, j->n, j->out);
    break;
  }
}

bool session_steps(Session *s, const char *name) {
  return s->debug && s->debug->eval && (!name || debug_has(s, name, strlen(name)));
}

/* Where an error or Ctrl-C left the run half begun, stepping is over. */
Status session_debug(Session *s, SessionDebug what, const char *text, size_t n, Str *out) {
  session_begin(s);
  if (!session_steps(s, NULL) && (what != DEBUG_STEP || n == 0)) {
    str_add(out, "no kernel is being stepped; :step f(a, b) begins\n");
    return ST_OK;
  }
  Job j = {what, text, n, out};
  Status status = session_protect(s, run, &j);
  if (s->debug && !s->debug->eval)
    debug_free(s);
  return status;
}
