/* error.c: the boundary between Lua and the session, both ways.
 *
 * In: calls of either side. Out: errors of one as errors of the other. A failed entry of the
 * session is a Lua error whose message is the diagnostic's text; uncaught, it keeps its place,
 * caret and exit status, and Lua's stack is added below. A Lua error is a diagnostic at its line.
 * What always holds: Lua is unwound by Lua (lua_error to lua_pcall), the session by itself (a
 * boundary each entry); an interrupt, os.exit and --emit unwind all of it, also through pcall.
 * Tests: tests/lua.
 */
#include "impl.h"

#include <string.h>

/* Registry keys: their addresses. Access by address allocates nothing, and so raises nothing. */
static const char key_error; /* the text of the entry that failed last */
static const char key_trace; /* Lua's stack where the last error was raised */

/* Where Lua is ------------------------------------------------------------------------------ */

/* A name that comes again hides the older text. */
static const SrcFile *chunk_named(const Luat *t, const char *name) {
  for (const LuatChunk *c = t->chunks; c; c = c->next)
    if (strcmp(c->file->name, name) == 0)
      return c->file;
  return NULL;
}

static void free_chunk(LuatChunk *c) {
  arena_free(c->arena);
  free(c);
}

void luat_free_chunks(Luat *t) {
  for (LuatChunk *c = t->chunks, *next; c; c = next) {
    next = c->next;
    free_chunk(c);
  }
  t->chunks = NULL;
}

/* The prompt makes one an entry: the oldest goes. */
static void drop_oldest(Luat *t) {
  size_t n = 0;
  for (LuatChunk **at = &t->chunks; *at; at = &(*at)->next)
    if (++n > LUAT_CHUNKS) {
      free_chunk(*at);
      *at = NULL;
      return;
    }
}

/* Where memory is short, errors of the chunk are shown without their lines. */
void luat_chunk(Luat *t, const char *name, const char *text, size_t n) {
  const SrcFile *old = chunk_named(t, name);
  if (old && old->n == n && memcmp(old->text, text, n) == 0)
    return;
  LuatChunk *c = calloc(1, sizeof *c);
  if (!c)
    return;
  c->arena = arena_new(NULL, "chunk");
  c->file = src_new(c->arena, name, text, n);
  c->next = t->chunks;
  t->found = NULL;
  if (!c->file) {
    free_chunk(c);
    return;
  }
  t->chunks = c;
  drop_oldest(t);
}

/* The line without its indentation. */
static Span line_span(const SrcFile *f, long line) {
  Span none = {NULL, 0, 0};
  if (!f || line < (long)f->first_line || line - (long)f->first_line >= (long)f->nlines)
    return none;
  uint32_t at = (uint32_t)(line - (long)f->first_line);
  uint32_t begin = f->lines[at], end = at + 1 < f->nlines ? f->lines[at + 1] : (uint32_t)f->n;
  while (begin < end && (f->text[begin] == ' ' || f->text[begin] == '\t'))
    begin++;
  while (end > begin && strchr(" \t\r\n", f->text[end - 1]))
    end--;
  return (Span){f, begin, end};
}

/* The file and line found last are compared first: a call from a loop must cost little. */
static Span place_of_level(Luat *t, const lua_Debug *ar) {
  if (ar->source[0] != '@' && ar->source[0] != '=')
    return (Span){NULL, 0, 0};
  bool same = t->found && strcmp(t->found->name, ar->source + 1) == 0;
  if (!same)
    t->found = chunk_named(t, ar->source + 1);
  if (!same || t->found_line != ar->currentline)
    t->found_place = line_span(t->found, ar->currentline);
  t->found_line = ar->currentline;
  return t->found_place;
}

Span luat_place(lua_State *L) {
  Luat *t = luat_of(L);
  lua_Debug ar;
  for (int level = 0; level < LUAT_TRACE && lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "l", &ar);
    if (ar.currentline <= 0) /* of C; and what comes next costs most */
      continue;
    lua_getinfo(L, "S", &ar);
    Span span = place_of_level(t, &ar);
    if (span.file)
      return span;
  }
  return (Span){NULL, 0, 0};
}

/* From Lua into the session ----------------------------------------------------------------- */

/* Without the C function at the bottom, which is ours. */
static void push_trace(lua_State *L, int level) {
  static const char end[] = "\n\t[C]: in ?";
  size_t n = 0;
  luaL_traceback(L, L, NULL, level);
  const char *text = lua_tolstring(L, -1, &n);
  if (n < sizeof end || strcmp(text + n - (sizeof end - 1), end) != 0)
    return;
  lua_pushlstring(L, text, n - (sizeof end - 1));
  lua_replace(L, -2);
}

/* Where Lua is, and the functions that run there, from a level of its stack on. */
static void note_place(lua_State *L, int level) {
  luat_of(L)->place = luat_place(L);
  push_trace(L, level);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_trace);
}

/* A hook after every instruction raises again as soon as a pcall has caught. */
void luat_stop(lua_State *L) {
  Luat *t = luat_of(L);
  t->stop = true;
  lua_sethook(L, luat_hook, LUA_MASKCOUNT, 1);
  if (L != t->main)
    lua_sethook(t->main, luat_hook, LUA_MASKCOUNT, 1);
}

void luat_hook(lua_State *L, lua_Debug *ar) {
  Luat *t = luat_of(L);
  (void)ar;
  if (!t->stop && !session_interrupted(t->s))
    return;
  if (!t->stop) {
    note_place(L, 0);
    t->status = ST_INTERRUPTED;
    t->told = false;
    luat_stop(L);
  }
  lua_pushstring(L, "interrupted");
  lua_error(L);
}

/* The text is remembered with its status: if nobody catches it, it is not Lua's own. */
static void raise_text(lua_State *L, const HostRun *r) {
  Luat *t = luat_of(L);
  size_t n = strlen(r->text);
  while (n > 0 && r->text[n - 1] == '\n')
    n--;
  lua_pushlstring(L, n ? r->text : "interrupted", n ? n : strlen("interrupted"));
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_error);
  t->status = r->status;
  if (r->status == ST_INTERRUPTED || n == 0) {
    note_place(L, 0);
    t->told = n > 0;
    luat_stop(L);
  }
  lua_error(L);
}

/* HostRun.place. */
static Span place_of(void *where) {
  return luat_place(where);
}

void luat_enter(lua_State *L, void (*fn)(Session *s, void *ctx), void *ctx) {
  Luat *t = luat_of(L);
  lua_State *before = t->now;
  size_t pending = t->npending;
  HostRun r = {.fn = fn, .ctx = ctx, .place = place_of, .where = L};
  t->now = L;
  t->entered++;
  Status status = host_enter(t->s, &r);
  t->entered--;
  t->now = before;
  while (t->npending > pending) /* of calls that Lua left by an error */
    val_release(t->pending[--t->npending]);
  if (status != ST_OK)
    raise_text(L, &r);
}

/* From the session into Lua ----------------------------------------------------------------- */

lua_State *luat_begin(Luat *t, int slots) {
  lua_State *L = t->now;
  if (L && t->entered == 0)
    lua_settop(L, 0);
  if (!L || !lua_checkstack(L, slots))
    host_fail_with(t->s, ST_NOMEM);
  return L;
}

/* Error objects that are no strings are shown as tostring shows them. */
static void push_message(lua_State *L) {
  if (lua_type(L, 1) == LUA_TSTRING || luaL_getmetafield(L, 1, "__tostring") != LUA_TNIL)
    luaL_tolstring(L, 1, NULL);
  else
    lua_pushfstring(L, "an error object that is a %s", luaL_typename(L, 1));
}

/* Runs where the error was raised, before anything is unwound. An error that went through Lua once
 * and comes out of a second boundary has its stack already; where Lua was stopped was noted then.
 */
static int on_error(lua_State *L) {
  push_message(L);
  if (!luat_of(L)->stop)
    note_place(L, 1);
  return 1;
}

void luat_forget(lua_State *L) {
  luat_of(L)->place = (Span){NULL, 0, 0};
  lua_pushboolean(L, 0); /* not nil: the key stays, and setting it allocates nothing */
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_trace);
}

int luat_pcall(lua_State *L, int nargs, int nresults) {
  int at = lua_gettop(L) - nargs;
  luat_forget(L);
  lua_pushcfunction(L, on_error);
  lua_insert(L, at);
  int code = lua_pcall(L, nargs, nresults, at);
  lua_remove(L, at);
  return code;
}

/* "chunk:12: words": the line, and the words in *text; file NULL where it does not begin so. Lua
 * shortens long names to "...end". */
static Span message_place(const Luat *t, const char **text) {
  const Span none = {NULL, 0, 0};
  for (const LuatChunk *c = t->chunks; c; c = c->next) {
    const char *name = c->file->name, *message = *text;
    size_t n = strlen(name);
    if (strncmp(message, "...", 3) == 0) {
      size_t tail = strcspn(message + 3, ":");
      if (tail >= n || strncmp(name + n - tail, message + 3, tail) != 0)
        continue;
      n = tail + 3;
    } else if (strncmp(message, name, n) != 0) {
      continue;
    }
    char *end = NULL;
    long line = message[n] == ':' ? strtol(message + n + 1, &end, 10) : 0;
    Span span = end && strncmp(end, ": ", 2) == 0 ? line_span(c->file, line) : none;
    if (!span.file)
      continue;
    *text = end + 2;
    return span;
  }
  return none;
}

/* Ctrl-C: the first error told of it, whatever a pcall or a coroutine made of it since. */
static HostError read_interrupt(const Luat *t, lua_State *L) {
  HostError e = {.text = "interrupted", .interrupt = true, .ready = t->told, .span = t->place};
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_error); /* stays referenced by the registry */
  if (e.ready)
    e.text = lua_tostring(L, -1);
  lua_pop(L, 1);
  return e;
}

/* What luat_pcall left as an error of the session; the strings are Lua's. */
static HostError read_error(Luat *t, lua_State *L) {
  HostError e = {.text = "an error without words"};
  if (lua_type(L, -1) == LUA_TSTRING)
    e.text = lua_tostring(L, -1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_error);
  e.ready = lua_rawequal(L, -1, -2);
  lua_pop(L, 1);
  if (t->stop && t->status == ST_INTERRUPTED)
    e = read_interrupt(t, L);
  else if (!e.ready)
    e.span = message_place(t, &e.text);
  if (!e.ready && !e.span.file)
    e.span = t->place;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_trace); /* stays referenced by the registry */
  if (lua_type(L, -1) == LUA_TSTRING && !(e.ready && strstr(e.text, "stack traceback:")))
    e.trace = lua_tostring(L, -1);
  lua_pop(L, 1);
  return e;
}

/* The status of the command follows from the error that was not caught. */
static Status status_of(const Luat *t, int code, const HostError *e) {
  if (t->stop || e->ready)
    return t->status;
  return code == LUA_ERRMEM ? ST_NOMEM : code == LUA_ERRSYNTAX ? ST_COMPILE : ST_FAIL;
}

/* The unwinding is over: Lua may run again. */
static void end_stop(Luat *t, lua_State *L) {
  if (!t->stop)
    return;
  t->stop = false;
  lua_sethook(t->main, luat_hook, LUA_MASKCOUNT, LUAT_HOOK);
  lua_sethook(L, luat_hook, LUA_MASKCOUNT, LUAT_HOOK);
}

_Noreturn void luat_fail(Luat *t, lua_State *L, int code, Span place, const char *what) {
  HostError e = read_error(t, L);
  Status status = status_of(t, code, &e);
  e.call = place;
  e.what = what;
  if (!t->stop || e.interrupt)
    host_add_error(t->s, &e);
  end_stop(t, L);
  lua_pop(L, 1);
  host_fail_with(t->s, status);
}

Status luat_report(Luat *t, lua_State *L, int code) {
  HostError e = read_error(t, L);
  Status status = status_of(t, code, &e);
  if (!t->stop || e.interrupt)
    host_add_error(t->s, &e);
  end_stop(t, L);
  lua_pop(L, 1);
  return status;
}
