/* host.c: the session as another language sees it (host.h).
 *
 * In: calls of src/lua. Out: values, statuses, the text of diagnostics. An entry runs under a
 * boundary, a sink and a line arena of its own, one of each a level of nesting: what it reports is
 * text when it returns, so that the other language may catch it, and the run around it never sees
 * it. Tests: tests/unit/check_lua.c, tests/lua.
 */
#include "host.h"

#include <string.h>

#include "kernel.h"

/* Entries ---------------------------------------------------------------------------------- */

/* One level deeper, so that statements run by the entry do not reset the scratch memory of the one
 * that is running. */
static void run_entry(Session *s, void *ctx) {
  HostRun *r = ctx;
  const Span none = {NULL, 0, 0};
  session_stack(s, none);
  if (s->depth + 2 >= MAX_DEPTH)
    host_too_deep(s, none);
  s->depth++;
  r->fn(s, r->ctx);
}

/* The line arena of the entry that opens; NULL where they are nested too deeply. Kept for the next
 * one at this level. */
static Arena *entry_arena(Session *s) {
  if (s->entry == MAX_ENTRIES)
    return NULL;
  if (s->entry == s->nentries)
    s->entries[s->nentries++] = arena_new(NULL, "entry");
  Arena *a = s->entries[s->entry];
  if (arena_bytes(a) > 0)
    arena_reset(a);
  return a;
}

/* Errors without a place are where the other language is. */
static void format(Session *s, void *ctx) {
  HostRun *r = ctx;
  Str out = str_new(s->line);
  for (size_t i = 0; i < s->diags.n; i++)
    if (!s->diags.v[i]->span.file && !s->diags.v[i]->ready)
      s->diags.v[i]->span = r->place(r->where);
  diag_format_all(&s->diags, false, &out);
  r->text = str_text(&out);
}

/* Formatting may run short of memory itself. */
static void explain(Session *s, HostRun *r) {
  r->text = r->status == ST_NOMEM ? "memory is short\n" : "";
  if (s->diags.n > 0 && session_protect(s, format, r) != ST_OK)
    r->text = "memory is short\n";
}

Status host_enter(Session *s, HostRun *r) {
  Arena *line = s->line, *mine = entry_arena(s);
  DiagSink diags = s->diags;
  const Unit *units = s->units;
  Span doing = s->doing;
  if (!mine) {
    r->text = "calls are nested too deeply\n";
    return r->status = ST_FAIL;
  }
  s->line = mine;
  diag_init(&s->diags, mine);
  s->entry++;
  r->status = session_protect(s, run_entry, r);
  if (r->status == ST_INTERRUPTED)
    session_say_interrupted(s);
  if (s->diags.n > 0 || r->status != ST_OK)
    explain(s, r);
  s->entry--;
  s->doing = doing; /* one of the entry's lies in a text that may go now */
  if (s->units != units)
    session_free_units(s, units);
  Arena *scratch = s->depth + 1 < s->nscratch ? s->scratches[s->depth + 1] : NULL;
  if (scratch && arena_bytes(scratch) > 0)
    arena_reset(scratch);
  s->line = line;
  s->diags = diags;
  return r->status;
}

bool session_interrupted(const Session *s) {
  return s->options.interrupt && *s->options.interrupt;
}

/* The functions of the language that run, as Lua shows its own. */
static const char *call_stack(Session *s) {
  enum { MOST = 10 };
  Str out = str_new(s->line);
  int n = 0;
  str_add(&out, "calls in the program:");
  for (const CallFrame *f = s->calls; f && n < MOST; f = f->up, n++) {
    uint32_t line = 0, column = 0;
    str_add(&out, "\n\t");
    if (f->span.file) {
      src_position(f->span.file, f->span.begin, &line, &column);
      str_addf(&out, "%s:%u:%u: %s", f->span.file->name, line, column, f->name);
    } else {
      str_addf(&out, "%s, called from Lua", f->name);
    }
  }
  if (n == MOST)
    str_add(&out, "\n\t...");
  return str_text(&out);
}

/* Whether the error's line already shows where the call is. */
static bool inside_call(const HostError *e) {
  if (e->ready || !e->span.file || strcmp(e->span.file->name, e->call.file->name) != 0)
    return false;
  return e->call.begin < e->span.end && e->span.begin < e->call.end;
}

/* The code of a ready text only makes it count as an error. */
void host_add_error(Session *s, const HostError *e) {
  Diag *d = diag_add(&s->diags, e->interrupt ? E0422 : E0840, e->span, "%s", e->text);
  d->ready = e->ready;
  if (e->ready && !e->trace)
    return; /* it came through such a call before, and has its stacks */
  if (e->call.file && !inside_call(e))
    diag_also(&s->diags, d, e->call, "%s", e->what);
  if (e->trace)
    diag_also(&s->diags, d, (Span){NULL, 0, 0}, "%s", e->trace);
  if (s->calls)
    diag_also(&s->diags, d, (Span){NULL, 0, 0}, "%s", call_stack(s));
}

/* The other language ----------------------------------------------------------------------- */

/* Opened once; a program that never mentions Lua does not pay for it. */
void *session_lua(Session *s, Span span) {
  if (!s->options.lua)
    host_fail(s, E0822, span, "this program runs without Lua");
  if (!s->lua)
    s->lua = s->options.lua->open(s);
  if (!s->lua)
    host_fail_with(s, ST_NOMEM);
  return s->lua;
}

static void open_lua(Session *s, void *ctx) {
  (void)ctx;
  session_lua(s, (Span){NULL, 0, 0});
}

/* What its kernels still do belongs to the program. */
static void wait_for_device(Session *s, void *ctx) {
  (void)ctx;
  device_finish(s);
}

/* Lua's own boundary is the outermost one: it calls the session, not the other way round. */
Status session_lua_file(Session *s, const char *path, const char *text, size_t n) {
  if (s->options.mode == MODE_DEFINE) {
    diag_add(&s->diags, E0822, (Span){NULL, 0, 0},
             "--args takes a kernel of a .tile file, and %s is Lua", path);
    return ST_USAGE;
  }
  Status status = session_protect(s, open_lua, NULL);
  if (status == ST_OK)
    status = s->options.lua->file(s->lua, path, text, n);
  Status waited = session_protect(s, wait_for_device, NULL);
  return status == ST_OK ? waited : status;
}

PromptResult session_prompt_lua(Session *s, const char *name, const char *text, size_t n,
                                Status *status) {
  session_begin(s);
  *status = session_protect(s, open_lua, NULL);
  if (*status != ST_OK)
    return PROMPT_DONE;
  if (s->options.lua->prompt(s->lua, name, text, n, status))
    return PROMPT_PENDING;
  Status waited = session_protect(s, wait_for_device, NULL);
  *status = *status == ST_OK ? waited : *status;
  return PROMPT_DONE;
}

void host_leave_with(Session *s, int status) {
  s->leaving = true;
  s->exit_status = status;
}

bool session_exit_wanted(const Session *s, int *status) {
  *status = s->exit_status;
  return s->leaving;
}

bool session_collect(Session *s) {
  if (s->lua)
    s->options.lua->collect(s->lua);
  return s->lua != NULL;
}

Tensor *session_tensor(Session *s, DType t, int rank, const int64_t *extent, TensorFill fill,
                       Str *why) {
  size_t words = why->n;
  Tensor *x = tensor_new(t, rank, extent, fill, why);
  if (x || !session_collect(s))
    return x;
  why->n = words;
  if (why->s)
    why->s[words] = '\0';
  return tensor_new(t, rank, extent, fill, why);
}

/* The handle is the object's from the moment there is one. */
Value val_foreign(Session *s, const ForeignOps *ops, void *handle) {
  Value v = val_object(s, VAL_FOREIGN);
  v.as.obj->as.foreign.ops = ops;
  v.as.obj->as.foreign.handle = handle;
  return v;
}

/* Names and places ------------------------------------------------------------------------- */

const char *host_intern(Session *s, const char *name, size_t n) {
  return names_get(s->names, name, n);
}

const char *host_module_name(const Module *m, size_t i) {
  return i < map_count(m->globals) ? map_key(m->globals, i) : NULL;
}

Value host_module_value(const Module *m, size_t i) {
  return *(const Value *)map_value(m->globals, i);
}

void host_set_global(Session *s, const char *name, Value v) {
  host_define(s, s->module, name, v);
}

const SessionOptions *host_options(const Session *s) {
  return &s->options;
}
