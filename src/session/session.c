/* session.c: a session's life, its boundaries, and running texts and files in it.
 *
 * In: options, texts, files. Out: statuses and diagnostics. The one place where a jump is caught:
 * session_protect runs a function under a guard of base and, however it ends, gives back the
 * variables and temporaries made below. Tests: tests/unit/check_session.c.
 */
#include "impl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { POLL_EVERY = 64 };

/* Failure ---------------------------------------------------------------------------------- */

/* Input and output that failed has an exit status of its own (tilesh(1)). */
static Status failure_status(DiagCode code) {
  switch (code) {
  case E0813:
  case E0830:
  case E0831:
  case E0832:
  case E0833:
  case E0834:
    return ST_USAGE;
  default:
    return ST_FAIL;
  }
}

/* The text is made before the diagnostic is added: arguments may lie in memory that adding it
 * moves. */
void host_fail(Session *s, DiagCode code, Span span, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *text = arena_vprintf(s->line, fmt, ap);
  va_end(ap);
  diag_add(&s->diags, code, span, "%s", text);
  guard_raise(s->guard, failure_status(code));
}

/* A hint is legal text of the language wherever it can be; NULL adds none. */
void host_fail_hint(Session *s, DiagCode code, Span span, const char *hint, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *text = arena_vprintf(s->line, fmt, ap);
  va_end(ap);
  Diag *d = diag_add(&s->diags, code, span, "%s", text);
  if (hint)
    diag_hint(&s->diags, d, "%s", hint);
  guard_raise(s->guard, failure_status(code));
}

/* The reason is in the sink already, or is the status itself (an interrupt). */
void host_fail_with(Session *s, Status why) {
  guard_raise(s->guard, why);
}

/* ir_bind and the like know parameters but no places: the call is the place. */
void session_fail_at(Session *s, Span span) {
  for (size_t i = 0; i < s->diags.n; i++) {
    Diag *d = s->diags.v[i];
    if (d->span.file)
      diag_also(&s->diags, d, d->span, NULL); /* the parameter, below the call */
    d->span = span;
  }
  guard_raise(s->guard, ST_FAIL);
}

/* A fault inside a kernel is shown where it is, with the call underlined as well. */
void session_fail_call(Session *s, Status why, Span span, const char *name) {
  if (s->diags.n > 0) {
    Diag *d = s->diags.v[s->diags.n - 1];
    if (!d->span.file)
      d->span = span;
    else
      diag_also(&s->diags, d, span, "in this call of %s", name);
  }
  guard_raise(s->guard, why);
}

/* Data is looked for from the current folder, as a shell user expects, then beside the program. */
const char *session_path(Session *s, const char *path) {
  const char *from = s->module->directory;
  if (path[0] == '/' || access(path, F_OK) == 0 || strcmp(from, ".") == 0)
    return arena_strdup(s->line, path);
  return arena_printf(s->line, "%s/%s", from, path);
}

void session_interrupt(Session *s, Span span, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *text = arena_vprintf(s->line, fmt, ap);
  va_end(ap);
  diag_add(&s->diags, E0422, span, "%s", text);
  guard_raise(s->guard, ST_INTERRUPTED);
}

/* Who raised it knew no better place than the statement. */
void session_say_interrupted(Session *s) {
  if (s->diags.n == 0 || s->diags.v[s->diags.n - 1]->code != E0422)
    diag_add(&s->diags, E0422, s->doing, "interrupted");
}

/* As it stands in the program, so that nothing is looked up to decide. */
void session_allow(Session *s, const char *path, Span span) {
  if (!s->options.safe)
    return;
  for (size_t i = 0; i < s->options.nargs; i++)
    if (strcmp(s->options.args[i], path) == 0)
      return;
  host_fail(s, E0834, span, "--safe opens no file that the command line does not name: %s", path);
}

/* A read of a volatile flag each statement would be cheap too; counting keeps it out of the
 * profile. */
void session_poll(Session *s) {
  if (++s->ticks % POLL_EVERY == 0 && s->options.interrupt && *s->options.interrupt)
    guard_raise(s->guard, ST_INTERRUPTED);
}

/* Bounded by bytes, not by depth: frames differ in size between builds, most of all under
 * sanitizers. */
bool session_has_stack(const Session *s) {
  char *here = __builtin_frame_address(0);
  size_t used = (size_t)(here < s->stack_base ? s->stack_base - here : here - s->stack_base);
  return used <= s->stack_room;
}

void session_stack(Session *s, Span span) {
  if (!session_has_stack(s))
    host_too_deep(s, span);
}

void host_too_deep(Session *s, Span span) {
  host_fail_hint(s, E0810, span, "does a function call itself without an end?",
                 "calls are nested too deeply");
}

/* Boundaries ------------------------------------------------------------------------------- */

typedef struct Protected {
  Session *s;
  void (*fn)(Session *s, void *ctx);
  void *ctx;
} Protected;

/* All arenas that the run allocates from leave to the same boundary when memory is short. */
static void set_guard(Session *s, Guard *guard) {
  s->guard = guard;
  arena_set_guard(s->arena, guard);
  arena_set_guard(s->line, guard);
  for (size_t i = 0; i < s->nscratch; i++)
    arena_set_guard(s->scratches[i], guard);
  if (s->current)
    arena_set_guard(s->current->arena, guard);
}

/* guard_run takes one pointer; this unpacks it. */
static void trampoline(Guard *guard, void *ctx) {
  Protected *p = ctx;
  set_guard(p->s, guard);
  p->fn(p->s, p->ctx);
}

/* Everything that is a stack is cut back to where it was: locals, temporaries, the running
 * function and module. */
Status session_protect(Session *s, void (*fn)(Session *s, void *ctx), void *ctx) {
  Guard *outer = s->guard;
  size_t vars = s->vars.n, temps = s->temps.n, frame = s->frame, depth = s->depth;
  size_t block = s->block;
  int importing = s->importing;
  const CallFrame *calls = s->calls;
  Rest rest = s->rest;
  Module *module = s->module;
  Unit *unit = s->current;
  if (!outer)
    s->stack_base = __builtin_frame_address(0);
  Protected p = {s, fn, ctx};
  Status status = guard_run(trampoline, &p);
  s->current = unit;
  set_guard(s, outer);
  s->module = module;
  s->frame = frame;
  s->block = block;
  s->importing = importing;
  s->calls = calls;
  s->rest = rest;
  s->depth = depth;
  host_drop_vars(s, vars);
  host_drop_temps(s, temps);
  if (!outer && status == ST_INTERRUPTED)
    session_say_interrupted(s);
  return status;
}

/* Life ------------------------------------------------------------------------------------- */

/* Three quarters of what the system allows: the rest is for what the deepest call still calls. */
static size_t stack_room(void) {
  struct rlimit limit;
  size_t room = (size_t)8 << 20;
  if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    room = (size_t)limit.rlim_cur;
  return room - room / 4;
}

/* Modules are never freed before the session: values may refer to them. */
Module *session_module(Session *s, const char *name, const char *path, const char *key) {
  Module *m = ARENA_NEW(s->arena, Module);
  const char *slash = path ? strrchr(path, '/') : NULL;
  m->name = arena_strdup(s->arena, name);
  m->key = key ? arena_strdup(s->arena, key) : NULL;
  m->directory = slash ? arena_strndup(s->arena, path, (size_t)(slash - path)) : ".";
  m->globals = map_new(s->arena);
  m->next = s->modules;
  s->modules = m;
  return m;
}

/* Nothing of threads, CUDA or Lua is touched here: start-up is budgeted (6 ms, 10 MB). */
Session *session_new(const SessionOptions *options) {
  Session *s = calloc(1, sizeof *s);
  if (!s)
    return NULL;
  s->options = *options;
  s->random.stop = options->interrupt;
  if (!s->options.out)
    s->options.out = stdout;
  s->arena = arena_new(NULL, "session");
  s->line = arena_new(NULL, "line");
  s->names = names_new(s->arena);
  diag_init(&s->diags, s->line);
  s->stack_room = stack_room();
  s->last = val_nil();
  s->main = session_module(s, "main", NULL, NULL);
  s->module = s->main;
  return s;
}

/* Values first, while the session that counts them is whole. */
static void release_globals(Session *s) {
  for (Module *m = s->modules; m; m = m->next)
    for (size_t i = 0; i < map_count(m->globals); i++) {
      Value *v = map_value(m->globals, i);
      Value old = *v;
      *v = val_nil();
      val_release(old);
    }
}

/* The session stays; its names are the caller's to clear. */
void session_forget(Session *s) {
  release_globals(s);
  cycles_collect(s);
}

/* In the order of who needs whom: values, specialisations, the device, texts, arenas. */
void session_free(Session *s) {
  if (!s)
    return;
  if (s->lua)
    s->options.lua->close(s->lua);
  host_drop_vars(s, 0);
  host_drop_temps(s, 0);
  debug_free(s);
  val_release(s->last);
  release_globals(s);
  cycles_break(s); /* what is left is held by nothing else */
  units_free(s);
  device_free(s);
  for (size_t i = 0; i < s->nscratch; i++)
    arena_free(s->scratches[i]);
  for (size_t i = 0; i < s->nentries; i++)
    arena_free(s->entries[i]);
  free(s->vars.v);
  free(s->temps.v);
  pool_free(s->pool);
  arena_free(s->line);
  arena_free(s->arena);
  free(s);
}

/* Threads start with the first piece of work that is large enough, not before. */
Pool *session_pool(Session *s) {
  if (!s->pool)
    s->pool = pool_new(s->options.threads);
  return s->pool;
}

/* Made when a depth is first reached, then kept: calls are frequent, arenas are not free. */
Arena *session_scratch(Session *s) {
  if (s->depth >= MAX_DEPTH)
    guard_raise(s->guard, ST_FAIL); /* host_call_fn refused long before */
  while (s->nscratch <= s->depth) {
    s->scratches[s->nscratch] = arena_new(s->guard, "statement"); /* may leave */
    s->nscratch++;
  }
  return s->scratches[s->depth];
}

/* For messages and output of the running statement. */
Str session_str(Session *s) {
  return str_new(session_scratch(s));
}

bool session_emitted(const Session *s) {
  return s->emitted;
}

/* Cleared by session_begin. */
DiagSink *session_diags(Session *s) {
  return &s->diags;
}

/* An interrupt gives what shells give for SIGINT. */
int session_exit_status(Status status) {
  static const int codes[] = {
      [ST_OK] = 0,     [ST_FAIL] = 1,          [ST_USAGE] = 2, [ST_COMPILE] = 3,
      [ST_DEVICE] = 4, [ST_INTERRUPTED] = 130, [ST_NOMEM] = 1};
  return codes[status];
}

/* After the first failure nothing more is written: half a result must not look whole. */
bool session_write(Session *s, const char *text, size_t n) {
  if (!s->write_failed && !io_write(s->options.out, text, n))
    s->write_failed = true;
  return !s->write_failed;
}

/* It is reported once; the exit status is 2. */
static _Noreturn void output_failed(Session *s) {
  host_fail(s, E0830, (Span){NULL, 0, 0}, "the output cannot be written");
}

void session_print(Session *s, const Str *text) {
  if (!session_write(s, str_text(text), text->n))
    output_failed(s);
}

/* Apart from what the program prints, so that the text can be used as it is. */
void session_print_stage(Session *s, const Str *text) {
  FILE *out = s->options.out;
  if (s->options.emit_out)
    s->options.out = s->options.emit_out;
  bool ok = session_write(s, str_text(text), text->n);
  s->options.out = out;
  s->emitted = true;
  if (!ok)
    output_failed(s);
}

/* Running ---------------------------------------------------------------------------------- */

/* Diagnostics of a run live until the next one begins, so that the caller can show them. */
void session_begin(Session *s) {
  if (s->guard)
    return; /* inside another run: its diagnostics and texts stay */
  diag_clear(&s->diags);
  arena_reset(s->line);
  diag_init(&s->diags, s->line);
  s->current = NULL;
  for (size_t i = 0; i < s->nscratch; i++) /* commands of the prompt are no statements */
    if (arena_bytes(s->scratches[i]) > 0)
      arena_reset(s->scratches[i]);
  device_forget(s); /* of a run that failed: its places lie in texts that go now */
  s->doing = (Span){NULL, 0, 0};
  session_free_units(s, NULL);
}

static bool defines(const AstStmt *st) {
  return st->kind == STMT_KERNEL || st->kind == STMT_FN || st->kind == STMT_IMPORT;
}

/* Kernels are checked first: a file that does not compile runs nothing (declare.c). */
void session_run_block(Session *s, const AstFile *f, Module *m) {
  Value result = val_nil();
  Module *outer = s->module;
  Rest rest = s->rest;
  kernels_declare(s, f, m);
  s->module = m;
  for (size_t i = 0; i < f->body.n; i++)
    if (s->options.mode != MODE_DEFINE || defines(f->body.v[i])) {
      s->rest = (Rest){&f->body, i};
      host_stmt(s, f->body.v[i], true, &result);
    }
  s->rest = rest;
  s->module = outer;
}

typedef struct Text {
  const char *name, *text;
  size_t n;
  bool prompt;
  ParseStatus status;
} Text;

/* Parse, then run; the end of a text waits for the device, so that its faults are reported here. */
static void run_text(Session *s, void *ctx) {
  Text *t = ctx;
  AstFile *f = session_parse(s, t->name, t->text, t->n, t->prompt, &t->status);
  if (t->status == PARSE_ERROR)
    host_fail_with(s, ST_COMPILE);
  if (t->status == PARSE_PENDING)
    return;
  if (s->options.emit == EMIT_AST) {
    Str out = session_str(s);
    ast_print(f, &out);
    session_print_stage(s, &out);
    return;
  }
  bool named = s->options.device && !s->options.emit;
  if (named && !device_expect_again(s))
    device_is_gpu(s);
  session_run_block(s, f, s->main);
  if (named)
    device_is_gpu(s); /* it must be there, used or not */
  device_finish(s);
}

/* What an unwinding without words needs said. */
static Status finish(Session *s, Status status) {
  if (s->emitted && s->diags.errors == 0)
    return ST_OK; /* --emit printed its stage, and left */
  if (status == ST_NOMEM && s->diags.errors == 0)
    diag_add(&s->diags, E0811, (Span){NULL, 0, 0}, "memory is short");
  return status;
}

/* A text has no folder of its own: its imports start at the current one. */
Status session_run_text(Session *s, const char *name, const char *text, size_t n) {
  session_begin(s);
  Text t = {name, text, n, false, PARSE_OK};
  return finish(s, session_protect(s, run_text, &t));
}

/* The file counts as loading while it runs, so that an import of it is found to be a circle. */
Status session_run_file(Session *s, const char *path) {
  session_begin(s);
  size_t n = 0;
  const char *why = NULL, *slash = strrchr(path, '/');
  char *text = io_read_file(s->line, path, &n, &why);
  if (!text) {
    diag_add(&s->diags, E0831, (Span){NULL, 0, 0}, "%s cannot be read: %s", path, why);
    return ST_USAGE;
  }
  char *real = realpath(path, NULL);
  s->main->key = real ? arena_strdup(s->arena, real) : NULL;
  free(real);
  size_t length = strlen(path);
  bool lua = length > 4 && strcmp(path + length - 4, ".lua") == 0;
  s->main->directory = slash ? arena_strndup(s->arena, path, (size_t)(slash - path)) : ".";
  if (lua)
    return finish(s, session_lua_file(s, path, text, n));
  Text t = {path, text, n, false, PARSE_OK};
  s->main->loading = true;
  Status status = finish(s, session_protect(s, run_text, &t));
  s->main->loading = false;
  return status;
}

/* Blanks and newlines after it do not count. */
static bool ends_in_semicolon(const char *text, size_t n) {
  while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\n' || text[n - 1] == '\t'))
    n--;
  return n > 0 && text[n - 1] == ';';
}

/* An unfinished text adds no diagnostics and runs nothing; the caller asks again with more
 * lines. */
PromptResult session_prompt(Session *s, const char *name, const char *text, size_t n,
                            Status *status) {
  session_begin(s);
  Text t = {name, text, n, true, PARSE_OK};
  s->prompt = true;
  s->quiet = ends_in_semicolon(text, n);
  *status = finish(s, session_protect(s, run_text, &t));
  s->prompt = false;
  return t.status == PARSE_PENDING ? PROMPT_PENDING : PROMPT_DONE;
}
