/* state.c: a session's Lua: opening, libraries, running chunks, closing.
 *
 * In: blocks, files and prompt entries of Lua. Out: what SessionLua promises (host.h). A chunk is
 * text, never bytecode, and its lines are those of the file it stands in. Under --safe there is no
 * os, io, package or debug, and nothing that reads files. Tests: tests/lua.
 */
#include "impl.h"

#include <string.h>

static const char key_modules; /* registry key: real path to what a Lua file returned */

/* Chunks ------------------------------------------------------------------------------------ */

enum { CHUNK_NAME = 4096 + 1 }; /* as long as a path may be, behind "@" */

typedef struct Chunk {
  const char *name; /* "@x.lua" */
  const char *before;
  uint32_t newlines; /* so that the first line of the text has its number in the file */
  const char *text;
  size_t n;
} Chunk;

/* lua_Reader: first what stands before the text, then the text. */
static const char *read_chunk(lua_State *L, void *ctx, size_t *n) {
  static const char lines[] = "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n";
  Chunk *c = ctx;
  (void)L;
  if (c->newlines > 0) {
    *n = c->newlines < sizeof lines - 1 ? c->newlines : sizeof lines - 1;
    c->newlines -= (uint32_t)*n;
    return lines;
  }
  const char *piece = c->before ? c->before : c->text;
  *n = c->before ? strlen(c->before) : c->n;
  if (c->before)
    c->before = NULL;
  else
    c->n = 0;
  return piece;
}

/* Leaves the function or the message; raises nothing. */
static int load_chunk(lua_State *L, Chunk c) {
  luat_forget(L);
  return lua_load(L, read_chunk, &c, c.name, "t");
}

/* A `#!` line is not Lua's; its end stays, so that lines keep their numbers. */
static Chunk file_chunk(const char *name, const char *text, size_t n) {
  size_t skip = n > 0 && text[0] == '#' ? strcspn(text, "\r\n") : 0;
  return (Chunk){.name = name, .text = text + skip, .n = n - skip};
}

/* Libraries --------------------------------------------------------------------------------- */

static void run_print(Session *s, void *ctx) {
  session_print(s, ctx);
}

/* To the program's output, and checked; tabs between, as Lua's own. */
static int print(lua_State *L) {
  int n = lua_gettop(L);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (int i = 1; i <= n; i++) {
    if (i > 1)
      luaL_addchar(&b, '\t');
    luaL_tolstring(L, i, NULL);
    luaL_addvalue(&b);
  }
  luaL_addchar(&b, '\n');
  luaL_pushresult(&b);
  Str text = {0};
  text.s = (char *)(uintptr_t)lua_tolstring(L, -1, &text.n);
  luat_enter(L, run_print, &text);
  return 0;
}

/* os.exit: everything is unwound first. */
static int leave(lua_State *L) {
  int status = 0;
  if (lua_isboolean(L, 1))
    status = lua_toboolean(L, 1) ? 0 : 1;
  else
    status = (int)(luaL_optinteger(L, 1, 0) & 0xff);
  Luat *t = luat_of(L);
  host_leave_with(t->s, status);
  t->status = ST_FAIL;
  luat_stop(L);
  return luaL_error(L, "os.exit");
}

/* Under --safe: what is loaded already, by its name. */
static int safe_require(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, name) == LUA_TNIL)
    return luaL_error(L, "module '%s' is not loaded: --safe reads no files", name);
  return 1;
}

/* Under --safe: text only, since bytecode is not checked. */
static int safe_load(lua_State *L) {
  lua_settop(L, 4);
  lua_pushliteral(L, "t");
  lua_replace(L, 3);
  if (lua_isnil(L, 4))
    lua_settop(L, 3);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

static void open_safe(lua_State *L) {
  static const luaL_Reg libs[] = {{LUA_GNAME, luaopen_base},
                                  {LUA_STRLIBNAME, luaopen_string},
                                  {LUA_TABLIBNAME, luaopen_table},
                                  {LUA_MATHLIBNAME, luaopen_math},
                                  {LUA_UTF8LIBNAME, luaopen_utf8},
                                  {LUA_COLIBNAME, luaopen_coroutine},
                                  {NULL, NULL}};
  static const char *const gone[] = {"dofile", "loadfile"};
  for (const luaL_Reg *r = libs; r->name; r++) {
    luaL_requiref(L, r->name, r->func, 1);
    lua_pop(L, 1);
  }
  for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
    lua_pushnil(L);
    lua_setglobal(L, gone[i]);
  }
  lua_getglobal(L, "load");
  lua_pushcclosure(L, safe_load, 1);
  lua_setglobal(L, "load");
  lua_pushcfunction(L, safe_require);
  lua_setglobal(L, "require");
}

static void open_all(lua_State *L) {
  luaL_openlibs(L);
  lua_getglobal(L, "os");
  lua_pushcfunction(L, leave);
  lua_setfield(L, -2, "exit");
  lua_pop(L, 1);
}

/* `args` as the language has it, and `arg` as the lua program does. */
static void set_arguments(lua_State *L) {
  const SessionOptions *o = host_options(luat_of(L)->s);
  for (int k = 0; k < 2; k++) {
    lua_newtable(L);
    for (size_t i = 0; i < o->nargs; i++) {
      lua_pushstring(L, o->args[i]);
      lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setglobal(L, k ? "arg" : "args");
  }
}

/* An unknown global is a name of the program, so that `lua { }` sees what stands around it. */
static void link_globals(lua_State *L) {
  lua_pushglobaltable(L);
  lua_getglobal(L, "tile");
  lua_getfield(L, -1, "globals");
  lua_getmetatable(L, -1);
  lua_createtable(L, 0, 1);
  lua_getfield(L, -2, "__index");
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -5);
  lua_settop(L, 0);
}

/* Runs in Lua. */
static int do_open(lua_State *L) {
  const Luat *t = luat_of(L);
  if (host_options(t->s)->safe)
    open_safe(L);
  else
    open_all(L);
  lua_settop(L, 0);
  lua_pushcfunction(L, print);
  lua_setglobal(L, "print");
  lua_newtable(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key_modules);
  set_arguments(L);
  luat_open_values(L);
  luaL_requiref(L, "tile", luat_open_module, 1);
  link_globals(L);
  return 0;
}

/* Life -------------------------------------------------------------------------------------- */

void luat_unref(Luat *t) {
  if (--t->refs > 0)
    return;
  luat_free_chunks(t);
  free(t);
}

/* SessionLua.close: userdata give back what they hold. */
static void close_state(void *lua) {
  Luat *t = lua;
  lua_close(t->main);
  t->main = t->now = NULL;
  luat_unref(t);
}

/* SessionLua.open. */
static void *open_state(Session *s) {
  Luat *t = calloc(1, sizeof *t);
  lua_State *L = t ? luaL_newstate() : NULL;
  if (!L) {
    free(t);
    return NULL;
  }
  *t = (Luat){.main = L, .now = L, .s = s, .refs = 1};
  *(Luat **)lua_getextraspace(L) = t;
  lua_pushcfunction(L, do_open);
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) {
    close_state(t);
    return NULL;
  }
  lua_sethook(L, luat_hook, LUA_MASKCOUNT, LUAT_HOOK);
  return t;
}

/* Running ----------------------------------------------------------------------------------- */

/* SessionLua.block: in place, on the lines of the program's own file. */
static void run_block(void *lua, const char *text, size_t n, Span span) {
  Luat *t = lua;
  lua_State *L = luat_begin(t, 8);
  uint32_t line, column;
  char name[CHUNK_NAME];
  src_position(span.file, span.begin, &line, &column);
  snprintf(name, sizeof name, "@%s", span.file->name);
  luat_chunk(t, span.file->name, span.file->text, span.file->n);
  int code = load_chunk(L, (Chunk){.name = name, .newlines = line - 1, .text = text, .n = n});
  if (code == LUA_OK)
    code = luat_pcall(L, 0, 0);
  if (code != LUA_OK)
    luat_fail(t, L, code, span, "in this block of Lua");
}

typedef struct File {
  const char *path, *text;
  size_t n;
  bool bad; /* it does not compile */
} File;

/* The folder of a file comes first where `require` looks. */
static void add_package_path(lua_State *L, const char *path) {
  const char *slash = strrchr(path, '/');
  int top = lua_gettop(L);
  if (lua_getglobal(L, "package") != LUA_TTABLE || !slash) {
    lua_settop(L, top); /* under --safe there is none */
    return;
  }
  lua_pushlstring(L, path, (size_t)(slash - path));
  lua_pushliteral(L, "/?.lua;");
  lua_concat(L, 2);
  lua_getfield(L, -2, "path");
  const char *have = luaL_optstring(L, -1, "");
  if (!strstr(have, lua_tostring(L, -2))) {
    lua_concat(L, 2);
    lua_setfield(L, -2, "path");
  }
  lua_settop(L, top);
}

/* All of them, for `...` of the file. */
static int push_arguments(lua_State *L) {
  const SessionOptions *o = host_options(luat_of(L)->s);
  luaL_checkstack(L, (int)o->nargs, "too many arguments");
  for (size_t i = 0; i < o->nargs; i++)
    lua_pushstring(L, o->args[i]);
  return (int)o->nargs;
}

/* Runs in Lua: arguments are the file and its function. */
static int do_file(lua_State *L) {
  const File *f = lua_touserdata(L, 1);
  add_package_path(L, f->path);
  if (lua_getglobal(L, "arg") == LUA_TTABLE) {
    lua_pushstring(L, f->path);
    lua_rawseti(L, -2, 0);
  }
  lua_settop(L, 2);
  lua_call(L, push_arguments(L), 0);
  return 0;
}

static const char *chunk_name(char *room, size_t n, const char *path) {
  snprintf(room, n, "@%s", path);
  return room;
}

/* SessionLua.file. */
static Status run_file(void *lua, const char *path, const char *text, size_t n) {
  Luat *t = lua;
  lua_State *L = t->main;
  char name[CHUNK_NAME];
  File f = {.path = path};
  lua_settop(L, 0);
  luat_chunk(t, path, text, n);
  lua_pushcfunction(L, do_file);
  lua_pushlightuserdata(L, &f);
  int code = load_chunk(L, file_chunk(chunk_name(name, sizeof name, path), text, n));
  if (code == LUA_OK)
    code = luat_pcall(L, 2, 0);
  return code == LUA_OK ? ST_OK : luat_report(t, L, code);
}

/* Runs in Lua: the results of the function are shown, unless they are nothing. */
static int do_prompt(lua_State *L) {
  lua_call(L, 0, LUA_MULTRET);
  int n = lua_gettop(L);
  while (n > 0 && lua_isnil(L, n))
    n--;
  lua_settop(L, n);
  if (n == 0)
    return 0;
  lua_pushcfunction(L, print);
  lua_insert(L, 1);
  lua_call(L, n, 0);
  return 0;
}

/* The text may go on: Lua's parser met its end. */
static bool unfinished(lua_State *L, int code) {
  static const char end[] = "<eof>";
  size_t n = 0;
  if (code != LUA_ERRSYNTAX || lua_type(L, -1) != LUA_TSTRING)
    return false;
  const char *text = lua_tolstring(L, -1, &n);
  return n >= sizeof end - 1 && strcmp(text + n - (sizeof end - 1), end) == 0;
}

/* SessionLua.prompt: an expression first, then statements. */
static bool run_prompt(void *lua, const char *entry, const char *text, size_t n, Status *status) {
  Luat *t = lua;
  lua_State *L = t->main;
  char name[64];
  Chunk c = {
      .name = chunk_name(name, sizeof name, entry), .before = "return ", .text = text, .n = n};
  lua_settop(L, 0);
  lua_pushcfunction(L, do_prompt);
  int code = load_chunk(L, c);
  if (code != LUA_OK) {
    lua_pop(L, 1);
    c.before = NULL;
    code = load_chunk(L, c);
  }
  if (unfinished(L, code)) {
    lua_settop(L, 0);
    return true;
  }
  luat_chunk(t, entry, text, n);
  if (code == LUA_OK)
    code = luat_pcall(L, 1, 0);
  *status = code == LUA_OK ? ST_OK : luat_report(t, L, code);
  lua_settop(L, 0);
  return false;
}

/* Runs in Lua: what the file returned, from the first time on. */
static int do_import(lua_State *L) {
  File *f = lua_touserdata(L, 1);
  char name[CHUNK_NAME];
  add_package_path(L, f->path);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &key_modules);
  if (lua_getfield(L, 2, f->path) == LUA_TBOOLEAN)
    return luaL_error(L, "%s imports itself in a circle", f->path);
  if (!lua_isnil(L, -1))
    return 1;
  if (load_chunk(L, file_chunk(chunk_name(name, sizeof name, f->path), f->text, f->n)) != LUA_OK) {
    f->bad = true;
    return lua_error(L);
  }
  lua_pushboolean(L, 1); /* while it runs */
  lua_setfield(L, 2, f->path);
  int code = lua_pcall(L, 0, 1, 0);
  if (code == LUA_OK && lua_isnoneornil(L, -1)) {
    lua_pushfstring(L, "%s returns nothing; a module ends with `return {...}`", f->path);
    code = LUA_ERRRUN;
  }
  lua_pushvalue(L, -1);
  if (code != LUA_OK) {
    lua_pushnil(L);
    lua_replace(L, -2);
  }
  lua_setfield(L, 2, f->path);
  return code == LUA_OK ? 1 : lua_error(L);
}

/* SessionLua.import. */
static Value run_import(void *lua, const char *path, const char *text, size_t n, Span span) {
  Luat *t = lua;
  lua_State *L = luat_begin(t, 8);
  File f = {path, text, n, false};
  luat_chunk(t, path, text, n);
  lua_pushcfunction(L, do_import);
  lua_pushlightuserdata(L, &f);
  int code = luat_pcall(L, 1, 1);
  if (code != LUA_OK)
    luat_fail(t, L, f.bad ? LUA_ERRSYNTAX : code, span, "in this import");
  Value v = lua_type(L, -1) == LUA_TTABLE ? luat_foreign(t, L, -1) : luat_value(t, L, -1);
  lua_pop(L, 1);
  return v;
}

/* SessionLua.collect: a full cycle, whose finalizers give back tensors. */
static void collect(void *lua) {
  Luat *t = lua;
  lua_gc(t->now, LUA_GCCOLLECT);
}

const SessionLua *luat_language(void) {
  static const SessionLua language = {open_state, close_state, run_block, run_file,
                                      run_prompt, run_import,  collect};
  return &language;
}

const char *luat_version(void) {
  return LUA_RELEASE;
}
