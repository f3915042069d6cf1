/* module.c: the module `tile` (require "tile"): programs, tensors, kernels, devices.
 *
 * In: calls from Lua. Out: what the language would do. Every builtin of the language is a function
 * here: tile.zeros("f32", 3, 4), tile.sum(x, {axis = 0}), tile.exp(x). Tests: tests/lua.
 */
#include "impl.h"

#include <string.h>

static const Span nowhere = {NULL, 0, 0};

typedef struct Load {
  const char *text;
  size_t n;
  Value out; /* with a reference */
} Load;

static void run_load(Session *s, void *ctx) {
  Load *l = ctx;
  l->out = val_retain(host_load(s, l->text, nowhere));
}

static void run_eval(Session *s, void *ctx) {
  Load *l = ctx;
  l->out = val_retain(host_run_text(s, "<tile.eval>", l->text, l->n));
}

static void run_import(Session *s, void *ctx) {
  Load *l = ctx;
  l->out = val_retain(host_import_module(s, l->text, nowhere));
}

/* A module's items as a table of Lua; the module is below it on the stack and keeps them. */
static int items(lua_State *L, Value module) {
  const char *name;
  luat_give(L, module, false);
  const Value *v = luat_test(L, -1, LUAT_VALUE);
  if (!v)
    return 1; /* of a Lua file */
  lua_newtable(L);
  const Module *m = v->as.obj->as.module;
  for (size_t i = 0; (name = host_module_name(m, i)) != NULL; i++) {
    luat_push(L, host_module_value(m, i));
    lua_setfield(L, -2, name);
  }
  return 1;
}

static int program(lua_State *L, void (*fn)(Session *s, void *ctx)) {
  Load l = {NULL, 0, val_nil()};
  l.text = luaL_checklstring(L, 1, &l.n);
  luaL_argcheck(L, fn == run_eval || strlen(l.text) == l.n, 1, "a path cannot hold a NUL byte");
  luat_enter(L, fn, &l);
  return items(L, l.out);
}

/* tile.load(path): the items that the file defines; it is read anew each time. */
static int load(lua_State *L) {
  return program(L, run_load);
}
/* tile.eval(source). */
static int eval(lua_State *L) {
  return program(L, run_eval);
}
/* tile.import(name or path): as the statement; a file runs once. */
static int import(lua_State *L) {
  return program(L, run_import);
}

/* tile.device(). */
static int device(lua_State *L) {
  lua_pushstring(L, session_device(luat_of(L)->s));
  return 1;
}

static void run_finish(Session *s, void *ctx) {
  (void)ctx;
  device_finish(s);
}

/* tile.sync(): waits for queued calls, and raises their faults. */
static int wait_device(lua_State *L) {
  luat_enter(L, run_finish, NULL);
  return 0;
}

/* A builtin of the language: the upvalue is its row. */
static int builtin(lua_State *L) {
  const Builtin *b = lua_touserdata(L, lua_upvalueindex(1));
  const Value fn = {.kind = VAL_BUILTIN, .typed = DT_NONE, .as.builtin = b};
  return luat_call(L, fn, 1, lua_gettop(L));
}

static void set_builtin(lua_State *L, const char *name, const Builtin *b) {
  lua_pushlightuserdata(L, (void *)(uintptr_t)b);
  lua_pushcclosure(L, builtin, 1);
  lua_setfield(L, -2, name);
}

/* Names of the program --------------------------------------------------------------------- */

typedef struct Name {
  Luat *t;
  lua_State *L;
  const char *text;
  size_t n;
  Value out;
} Name;

static void run_get(Session *s, void *ctx) {
  Name *n = ctx;
  const Value *v = host_lookup(s, host_intern(s, n->text, n->n));
  n->out = v ? val_retain(*v) : val_nil();
}

static void run_set(Session *s, void *ctx) {
  Name *n = ctx;
  host_set_global(s, host_intern(s, n->text, n->n), luat_value(n->t, n->L, 3));
}

/* tile.globals.x, and what an unknown global of Lua means in `lua { }`. */
static int get_global(lua_State *L) {
  Name n = {.t = luat_of(L), .L = L};
  if (lua_type(L, 2) != LUA_TSTRING)
    return 0;
  n.text = lua_tolstring(L, 2, &n.n);
  luat_enter(L, run_get, &n);
  return luat_give(L, n.out, false);
}

/* tile.globals.x = v: the program's own variable. */
static int set_global(lua_State *L) {
  Name n = {.t = luat_of(L), .L = L};
  luaL_checktype(L, 2, LUA_TSTRING);
  n.text = lua_tolstring(L, 2, &n.n);
  luaL_argcheck(L,
                n.n > 0 &&
                    strspn(n.text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
                                   "0123456789") == n.n &&
                    !(n.text[0] >= '0' && n.text[0] <= '9'),
                2, "that is no name of the language");
  luat_enter(L, run_set, &n);
  return 0;
}

static void set_globals(lua_State *L) {
  lua_newtable(L);
  lua_newtable(L);
  lua_pushcfunction(L, get_global);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, set_global);
  lua_setfield(L, -2, "__newindex");
  lua_setmetatable(L, -2);
  lua_setfield(L, -2, "globals");
}

static const luaL_Reg functions[] = {{"load", load},
                                     {"eval", eval},
                                     {"import", import},
                                     {"device", device},
                                     {"sync", wait_device},
                                     {"check", luat_kernel_check},
                                     {"bench", luat_kernel_bench},
                                     {NULL, NULL}};

/* The builtins first: `load` of the language is tile.read here. */
int luat_open_module(lua_State *L) {
  const Builtin *b;
  lua_newtable(L);
  for (size_t i = 0; (b = builtin_at(i)) != NULL; i++)
    if (builtin_find(builtin_name(b)) == b) /* `max` has a second row */
      set_builtin(L, builtin_name(b), b);
  set_builtin(L, "read", builtin_find("load"));
  set_builtin(L, "write", builtin_find("save"));
  luat_open_tensor(L);
  luat_open_kernel(L);
  luaL_setfuncs(L, functions, 0);
  set_globals(L);
  return 1;
}
