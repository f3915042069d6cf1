/* kernel.c: calls from Lua: kernels, functions, builtins; settings, texts and figures of kernels.
 *
 * In: userdata or builtins, and arguments on Lua's stack. Out: what the call gives, several values
 * where it gives a tuple. A table at the end of the arguments that has names and no sequence holds
 * named arguments: sum(x, {axis = 0}), k(a, b, {out = c}). Tests: tests/lua.
 */
#include "impl.h"

#include <string.h>

typedef struct Call {
  Luat *t;
  lua_State *L;
  Value fn;
  int first, last;
  Span span;
  SessionEmit stage;
  int bursts;
  Value out; /* with a reference */
} Call;

typedef struct Room { /* of a call's arguments */
  Value v[HOST_MAX_ARGS];
  const char *names[HOST_MAX_ARGS];
  Span spans[HOST_MAX_ARGS];
} Room;

static Args args_in(Session *s, Room *r, Span span, const char *name) {
  return (Args){
      .s = s, .span = span, .name = name, .v = r->v, .names = r->names, .spans = r->spans};
}

/* Builtins for which a string is a string; for the others "f32" is the dtype. */
static bool takes_strings(const Builtin *b) {
  static const char *const names[] = {"print", "len",  "str",  "int",     "float",
                                      "load",  "save", "seed", "read_ir", "use_device"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(builtin_name(b), names[i]) == 0)
      return true;
  return false;
}

static void run_call(Session *s, void *ctx) {
  Call *c = ctx;
  Room room;
  Args a = args_in(s, &room, c->span, "it");
  bool dtypes = c->fn.kind == VAL_BUILTIN && !takes_strings(c->fn.as.builtin);
  luat_args(c->t, c->L, c->first, c->last, dtypes, &a);
  c->out = val_retain(host_call(s, c->fn, &a));
}

/* What `{out = c}` at the end of the arguments names is pushed, nil where there is none. */
static void push_given(lua_State *L, int first, int last) {
  if (last >= first && lua_type(L, last) == LUA_TTABLE) {
    lua_pushliteral(L, "out");
    lua_rawget(L, last);
  } else {
    lua_pushnil(L);
  }
}

/* A call that gave the tensor that is on top: it comes back as itself, for a new userdata costs as
 * much as the call. */
static bool gave(lua_State *L, Value v) {
  const Value *given = v.kind == VAL_TENSOR ? luat_test(L, -1, LUAT_TENSOR) : NULL;
  if (!given || given->kind != VAL_TENSOR || given->as.tensor != v.as.tensor)
    return false;
  val_release(v);
  return true;
}

/* Only calls of kernels are reported later than they are made: the others learn Lua's line when
 * they fail. */
int luat_call(lua_State *L, Value fn, int first, int last) {
  Call c = {.t = luat_of(L), .L = L, .fn = fn, .first = first, .last = last};
  if (fn.kind == VAL_KERNEL)
    c.span = luat_place(L);
  push_given(L, first, last);
  luat_enter(L, run_call, &c);
  return gave(L, c.out) ? 1 : luat_give(L, c.out, true);
}

/* Settings ---------------------------------------------------------------------------------- */

/* k{BM = 64}: names to values. */
static void run_settings(Session *s, void *ctx) {
  Call *c = ctx;
  lua_State *L = c->L;
  Field settings[HOST_MAX_ARGS];
  size_t n = 0, length = 0;
  if (!lua_checkstack(L, 4))
    host_fail_with(s, ST_NOMEM);
  for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING)
      host_fail_hint(s, E0804, c->span, "k{BM = 64}(a, b)", "settings of a kernel have names");
    if (n == HOST_MAX_ARGS)
      host_fail(s, E0804, c->span, "a kernel has at most %d settings", HOST_MAX_ARGS);
    const char *name = lua_tolstring(L, -2, &length);
    Field *f = &settings[n++];
    f->name = host_intern(s, name, length);
    f->value = luat_value(c->t, L, -1);
    DType type;
    if (f->value.kind == VAL_STRING && kernel_takes_dtype(s, c->fn, f->name) &&
        dtype_parse(val_text(f->value), f->value.as.obj->as.string.n, &type))
      f->value = val_dtype(type);
  }
  c->out = val_retain(kernel_with(s, c->fn, settings, n, c->span));
}

/* k(a, b), k{BM = 64}: no parameter of a kernel takes a table, so one alone is settings. */
static int call_kernel(lua_State *L) {
  const Value *k = luat_check(L, 1, LUAT_KERNEL);
  if (lua_gettop(L) != 2 || lua_type(L, 2) != LUA_TTABLE)
    return luat_call(L, *k, 2, lua_gettop(L));
  Call c = {.t = luat_of(L), .L = L, .fn = *k};
  luat_enter(L, run_settings, &c);
  return luat_give(L, c.out, false);
}

/* Texts and figures ------------------------------------------------------------------------- */

static void run_source(Session *s, void *ctx) {
  Call *c = ctx;
  Room room;
  Args a = args_in(s, &room, c->span, "source");
  luat_args(c->t, c->L, c->first, c->last, false, &a);
  Str out = session_str(s);
  kernel_emit_call(s, c->fn, &a, c->stage, &out);
  c->out = val_retain(val_string(s, str_text(&out), out.n));
}

/* k:source("cuda", a, b); without arguments: for the settings and defaults alone. */
static int source(lua_State *L) {
  static const char *const names[] = {"ir", "scheduled", "lowered", "cuda", "ptx", "cubin", NULL};
  Call c = {.t = luat_of(L), .L = L, .fn = *luat_check(L, 1, LUAT_KERNEL)};
  c.stage = (SessionEmit)(EMIT_IR + luaL_checkoption(L, 2, "ir", names));
  c.first = 3;
  c.last = lua_gettop(L);
  luat_enter(L, run_source, &c);
  return luat_give(L, c.out, false);
}

static void run_stats(Session *s, void *ctx) {
  Call *c = ctx;
  Room room;
  Args a = args_in(s, &room, c->span, "stats");
  luat_args(c->t, c->L, c->first, c->last, false, &a);
  c->out = val_retain(kernel_stats_call(s, c->fn, &a));
}

/* k:stats(a, b). */
static int stats(lua_State *L) {
  Call c = {.t = luat_of(L), .L = L, .fn = *luat_check(L, 1, LUAT_KERNEL)};
  c.first = 2;
  c.last = lua_gettop(L);
  luat_enter(L, run_stats, &c);
  return luat_give(L, c.out, false);
}

/* {a, b, out = c} at index 2: the sequence by position, then the names. */
static void table_args(Call *c, Args *a) {
  lua_State *L = c->L;
  if (!lua_checkstack(L, HOST_MAX_ARGS + 8))
    host_fail_with(c->t->s, ST_NOMEM);
  int top = lua_gettop(L);
  lua_Unsigned n = lua_rawlen(L, 2);
  if (n > HOST_MAX_ARGS)
    host_fail(c->t->s, E0804, c->span, "a call from Lua has at most %d arguments", HOST_MAX_ARGS);
  for (lua_Unsigned i = 1; i <= n; i++)
    lua_rawgeti(L, 2, (lua_Integer)i);
  luat_args(c->t, L, top + 1, lua_gettop(L), false, a);
  lua_settop(L, top);
  for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
    if (lua_type(L, -2) != LUA_TSTRING)
      continue;
    size_t length = 0;
    const char *name = lua_tolstring(L, -2, &length);
    if (a->n == HOST_MAX_ARGS)
      host_fail(c->t->s, E0804, c->span, "a call from Lua has at most %d arguments", HOST_MAX_ARGS);
    a->names[a->n] = host_intern(c->t->s, name, length);
    a->spans[a->n] = c->span;
    a->v[a->n++] = luat_value(c->t, L, -1);
  }
}

static void run_check(Session *s, void *ctx) {
  Call *c = ctx;
  Room room;
  Args a = args_in(s, &room, c->span, "check");
  table_args(c, &a);
  c->out = val_retain(kernel_check_call(s, c->fn, &a));
}

static void run_bench(Session *s, void *ctx) {
  Call *c = ctx;
  Room room;
  Args a = args_in(s, &room, c->span, "bench");
  table_args(c, &a);
  c->out = val_retain(kernel_bench_call(s, c->fn, &a, c->bursts));
}

/* The kernel, its table of arguments (none: {}), and the place of the call. */
static Call figures_call(lua_State *L) {
  Call c = {.t = luat_of(L), .L = L, .fn = *luat_check(L, 1, LUAT_KERNEL)};
  if (lua_gettop(L) < 2)
    lua_newtable(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  c.span = luat_place(L);
  return c;
}

int luat_kernel_check(lua_State *L) {
  luaL_argcheck(L, lua_gettop(L) <= 2, 3, "check takes a kernel and its arguments, no options");
  Call c = figures_call(L);
  luat_enter(L, run_check, &c);
  return luat_give(L, c.out, false);
}

/* A misspelt option would go unnoticed. */
static void only_bursts(lua_State *L) {
  for (lua_pushnil(L); lua_next(L, 3); lua_pop(L, 1))
    if (lua_type(L, -2) != LUA_TSTRING || strcmp(lua_tostring(L, -2), "bursts") != 0)
      luaL_argerror(L, 3,
                    lua_pushfstring(L, "the options are {bursts = n}, not '%s'",
                                    luaL_tolstring(L, -2, NULL)));
}

/* opts.bursts: how many are timed; 0, as many as usual, where it is not there. A string is none,
 * though Lua would convert it. */
static int read_bursts(lua_State *L) {
  enum { MOST = 10000 };
  int whole = 0;
  if (lua_getfield(L, 3, "bursts") == LUA_TNIL) {
    lua_pop(L, 1);
    return 0;
  }
  lua_Integer n = lua_type(L, -1) == LUA_TNUMBER ? lua_tointegerx(L, -1, &whole) : 0;
  if (!whole || n < 1 || n > MOST) {
    const char *what = luaL_typename(L, -1);
    if (lua_type(L, -1) == LUA_TNUMBER)
      what = luaL_tolstring(L, -1, NULL);
    luaL_argerror(L, 3,
                  lua_pushfstring(L, "bursts is a whole number from 1 to %d, not %s", MOST, what));
  }
  lua_pop(L, 1);
  return (int)n;
}

int luat_kernel_bench(lua_State *L) {
  Call c = figures_call(L);
  if (!lua_isnoneornil(L, 3)) {
    luaL_checktype(L, 3, LUA_TTABLE);
    only_bursts(L);
    c.bursts = read_bursts(L);
  }
  luat_enter(L, run_bench, &c);
  return luat_give(L, c.out, false);
}

/* k.name; else a method. */
static int index_kernel(lua_State *L) {
  const Value *k = luat_check(L, 1, LUAT_KERNEL);
  const char *name = luaL_checkstring(L, 2);
  if (strcmp(name, "name") == 0) {
    const Object *o = k->as.obj;
    lua_pushstring(L, o->as.kernel.ast ? o->as.kernel.ast->name.text : "kernel");
    return 1;
  }
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL)
    return 1;
  return luaL_error(L, "a kernel has no field '%s'", name);
}

void luat_open_kernel(lua_State *L) {
  static const luaL_Reg methods[] = {{"source", source}, {"stats", stats}, {NULL, NULL}};
  luat_push_meta(L, LUAT_KERNEL);
  lua_pushcfunction(L, call_kernel);
  lua_setfield(L, -2, "__call");
  luaL_newlib(L, methods);
  lua_pushcclosure(L, index_kernel, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}
