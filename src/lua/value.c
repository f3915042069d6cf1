/* value.c: values between the session and Lua.
 *
 * In: Values, Lua values. Out: the other. Numbers, bools, strings and nil are copied; a dtype is
 * its name; lists, tuples and records become tables, tables of a sequence become lists; tensors,
 * kernels, functions and modules are userdata that hold one reference; functions and other tables
 * of Lua are foreign values of the session and come back as themselves. What always holds: a
 * reference is never lost, also where making the Lua value raises. Tests: tests/lua/value_*.lua.
 */
#include "impl.h"

#include <string.h>

static const char *const type_names[LUAT_TYPES] = {"tile.tensor", "tile.kernel", "tile.value"};

/* Lua's values in the session --------------------------------------------------------------- */

typedef struct Held { /* handle of a foreign value */
  Luat *t;
  int ref; /* in the registry */
} Held;

/* After the state is closed there is nothing to give back. */
static void release_held(void *handle) {
  Held *h = handle;
  if (h->t->main)
    luaL_unref(h->t->main, LUA_REGISTRYINDEX, h->ref);
  luat_unref(h->t);
  free(h);
}

/* A call of Lua from the session: what it takes and leaves. */
typedef struct Outcall {
  Held *held;
  const Args *args;
} Outcall;

/* Runs in Lua: named arguments come last, as one table. Leaves all results. */
static int do_call(lua_State *L) {
  const Outcall *c = lua_touserdata(L, 1);
  const Args *a = c->args;
  lua_settop(L, 0);
  luaL_checkstack(L, (int)a->npos + 4, "too many arguments");
  lua_rawgeti(L, LUA_REGISTRYINDEX, c->held->ref);
  for (size_t i = 0; i < a->npos; i++)
    luat_push(L, a->v[i]);
  if (a->n > a->npos)
    lua_newtable(L);
  for (size_t i = a->npos; i < a->n; i++) {
    luat_push(L, a->v[i]);
    lua_setfield(L, -2, a->names[i]);
  }
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

/* Several results are a tuple, as of a function of the language. */
static Value results(Luat *t, lua_State *L, int base) {
  int n = lua_gettop(L) - base;
  if (n == 0)
    return val_nil();
  if (n == 1)
    return luat_value(t, L, base + 1);
  if (n > HOST_MAX_ARGS)
    host_fail(t->s, E0804, (Span){NULL, 0, 0}, "a Lua function gave %d results; at most %d", n,
              HOST_MAX_ARGS);
  Value v[HOST_MAX_ARGS];
  for (int i = 0; i < n; i++)
    v[i] = luat_value(t, L, base + 1 + i);
  return val_tuple(t->s, v, (size_t)n);
}

/* ForeignOps.call: on the coroutine that called the session last. */
static Value call_held(Session *s, void *handle, Args *a) {
  (void)s;
  Held *h = handle;
  Luat *t = h->t;
  lua_State *L = luat_begin(t, 8);
  Outcall c = {h, a};
  int base = lua_gettop(L);
  lua_pushcfunction(L, do_call);
  lua_pushlightuserdata(L, &c);
  int code = luat_pcall(L, 1, LUA_MULTRET);
  if (code != LUA_OK)
    luat_fail(t, L, code, a->span, "in this call of Lua");
  Value v = results(t, L, base);
  lua_settop(L, base);
  return v;
}

typedef struct Outfield {
  const Held *held;
  const char *name;
} Outfield;

/* Runs in Lua: a table's own field, or its metatable's. */
static int do_field(lua_State *L) {
  const Outfield *f = lua_touserdata(L, 1);
  lua_rawgeti(L, LUA_REGISTRYINDEX, f->held->ref);
  lua_getfield(L, -1, f->name);
  return 1;
}

/* ForeignOps.attribute. */
static Value field_of_held(Session *s, void *handle, const char *name, Span span) {
  Held *h = handle;
  lua_State *L = luat_begin(h->t, 8);
  Outfield f = {h, name};
  (void)s;
  lua_pushcfunction(L, do_field);
  lua_pushlightuserdata(L, &f);
  int code = luat_pcall(L, 1, 1);
  if (code != LUA_OK)
    luat_fail(h->t, L, code, span, "in this use of a Lua value");
  Value v = luat_value(h->t, L, -1);
  lua_pop(L, 1);
  return v;
}

/* A function has no fields; Lua says so in its own words. */
static const ForeignOps function_ops = {"a Lua function", call_held, field_of_held, release_held};
static const ForeignOps table_ops = {"a Lua table", call_held, field_of_held, release_held};
static const ForeignOps other_ops = {"a Lua value", call_held, field_of_held, release_held};

/* The reference that a value of Lua's in the session holds; LUA_NOREF where it is none. */
static int reference_of(Value v) {
  if (v.kind != VAL_FOREIGN)
    return LUA_NOREF;
  const ForeignOps *ops = v.as.obj->as.foreign.ops;
  bool ours = ops == &function_ops || ops == &table_ops || ops == &other_ops;
  return ours ? ((Held *)v.as.obj->as.foreign.handle)->ref : LUA_NOREF;
}

/* Runs in Lua: its argument into the registry. */
static int do_ref(lua_State *L) {
  lua_pushinteger(L, luaL_ref(L, LUA_REGISTRYINDEX));
  return 1;
}

Value luat_foreign(Luat *t, lua_State *L, int index) {
  int type = lua_type(L, index);
  const ForeignOps *ops = type == LUA_TFUNCTION ? &function_ops
                          : type == LUA_TTABLE  ? &table_ops
                                                : &other_ops;
  Held *h = session_alloc(t->s, sizeof *h);
  index = lua_absindex(L, index);
  lua_pushcfunction(L, do_ref);
  lua_pushvalue(L, index);
  if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
    lua_pop(L, 1);
    free(h);
    host_fail_with(t->s, ST_NOMEM);
  }
  *h = (Held){t, (int)lua_tointeger(L, -1)};
  lua_pop(L, 1);
  t->refs++;
  return val_foreign(t->s, ops, h);
}

/* Lua to the session ------------------------------------------------------------------------ */

/* Ours at that index and, where the caller wants it, which; NULL: none of ours. */
static Value *userdata_at(lua_State *L, int index, LuatType *type) {
  const Luat *t = luat_of(L);
  if (lua_type(L, index) != LUA_TUSERDATA || !lua_getmetatable(L, index))
    return NULL;
  const void *meta = lua_topointer(L, -1);
  int k = 0;
  lua_pop(L, 1);
  while (k < LUAT_TYPES && meta != t->meta[k])
    k++;
  if (type)
    *type = (LuatType)k;
  return k < LUAT_TYPES ? lua_touserdata(L, index) : NULL;
}

static Value table_value(Luat *t, lua_State *L, int index, int depth);

static Value value_at(Luat *t, lua_State *L, int index, int depth) {
  size_t n = 0;
  const char *text;
  const Value *ours = userdata_at(L, index, NULL);
  if (ours)
    return val_keep(t->s, *ours);
  switch (lua_type(L, index)) {
  case LUA_TNIL:
    return val_nil();
  case LUA_TBOOLEAN:
    return val_bool(lua_toboolean(L, index));
  case LUA_TNUMBER:
    return lua_isinteger(L, index) ? val_int(lua_tointeger(L, index))
                                   : val_float(lua_tonumber(L, index));
  case LUA_TSTRING:
    text = lua_tolstring(L, index, &n);
    return val_string(t->s, text, n);
  case LUA_TTABLE:
    return table_value(t, L, index, depth);
  default:
    return luat_foreign(t, L, index);
  }
}

/* A sequence is a list; a table with other keys stays Lua's. */
static Value table_value(Luat *t, lua_State *L, int index, int depth) {
  index = lua_absindex(L, index);
  if (depth == LUAT_NEST)
    host_fail(t->s, E0801, (Span){NULL, 0, 0}, "tables are nested more than %d deep", LUAT_NEST);
  if (!lua_checkstack(L, 4))
    host_fail_with(t->s, ST_NOMEM);
  lua_Unsigned n = lua_rawlen(L, index);
  if (n == 0) {
    lua_pushnil(L);
    if (lua_next(L, index)) {
      lua_pop(L, 2);
      return luat_foreign(t, L, index);
    }
  }
  Value list = val_list(t->s, NULL, 0);
  for (lua_Unsigned i = 1; i <= n; i++) {
    lua_rawgeti(L, index, (lua_Integer)i);
    val_push(t->s, list.as.obj, value_at(t, L, -1, depth + 1));
    lua_pop(L, 1);
  }
  return list;
}

Value luat_value(Luat *t, lua_State *L, int index) {
  Value v = value_at(t, L, index, 0);
  v.literal = val_is_number(v); /* a number of Lua has no type: it takes the one it meets */
  return v;
}

/* Strings that name a dtype, in the places of dtypes. */
static Value dtype_value(Value v) {
  DType type;
  if (v.kind == VAL_STRING && dtype_parse(val_text(v), v.as.obj->as.string.n, &type))
    return val_dtype(type);
  return v;
}

/* A last table without a sequence but with names. */
static bool is_named(lua_State *L, int index) {
  if (lua_type(L, index) != LUA_TTABLE || lua_rawlen(L, index) > 0)
    return false;
  lua_pushnil(L);
  if (!lua_next(L, index))
    return false;
  bool named = lua_type(L, -2) == LUA_TSTRING;
  lua_pop(L, 2);
  return named;
}

/* One more argument of the call. */
static void add_arg(Luat *t, Args *a, const char *name, Value v) {
  if (a->n == HOST_MAX_ARGS)
    host_fail(t->s, E0804, a->span, "a call from Lua has at most %d arguments", HOST_MAX_ARGS);
  a->names[a->n] = name;
  a->spans[a->n] = a->span;
  a->v[a->n++] = v;
}

/* Named arguments in the order of the table; those of other keys are refused. */
static void add_named(Luat *t, lua_State *L, int index, bool dtypes, Args *a) {
  lua_pushnil(L);
  while (lua_next(L, index)) {
    size_t n = 0;
    if (lua_type(L, -2) != LUA_TSTRING)
      host_fail(t->s, E0804, a->span, "the names of arguments are strings");
    const char *name = lua_tolstring(L, -2, &n);
    Value v = luat_value(t, L, -1);
    add_arg(t, a, host_intern(t->s, name, n), dtypes ? dtype_value(v) : v);
    lua_pop(L, 1);
  }
}

void luat_args(Luat *t, lua_State *L, int first, int last, bool dtypes, Args *a) {
  if (!lua_checkstack(L, 8))
    host_fail_with(t->s, ST_NOMEM);
  bool named = last >= first && is_named(L, last);
  for (int i = first; i <= last - named; i++) {
    Value v = luat_value(t, L, i);
    add_arg(t, a, NULL, dtypes ? dtype_value(v) : v);
  }
  a->npos = a->n;
  if (named)
    add_named(t, L, last, dtypes, a);
}

/* The session to Lua ------------------------------------------------------------------------ */

/* A view counts by its own elements. */
static size_t bytes_of(const Tensor *x) {
  return (size_t)tensor_count(x) * dtype_size(x->dtype);
}

/* Lua's collector sees 24 bytes of a tensor of a gigabyte. So tensors have a pace of their own: a
 * full cycle each time that as many bytes were made as were alive after the last one. */
static void count_bytes(lua_State *L, const Tensor *x) {
  Luat *t = luat_of(L);
  t->alive += bytes_of(x);
  t->made += bytes_of(x);
  if (t->made < LUAT_BYTES || t->made < t->alive_before)
    return;
  t->made = 0;
  lua_gc(L, LUA_GCCOLLECT);
  t->alive_before = t->alive;
}

/* The userdata is there, empty, before it takes its reference. */
static void push_userdata(lua_State *L, Value v) {
  LuatType type = v.kind == VAL_TENSOR   ? LUAT_TENSOR
                  : v.kind == VAL_KERNEL ? LUAT_KERNEL
                                         : LUAT_VALUE;
  Value *place = lua_newuserdatauv(L, sizeof *place, 0);
  *place = val_nil();
  lua_rawgetp(L, LUA_REGISTRYINDEX, &type_names[type]);
  lua_setmetatable(L, -2);
  v.literal = false;
  *place = val_retain(v);
  if (type == LUAT_TENSOR)
    count_bytes(L, v.as.tensor);
}

static void push_value(lua_State *L, Value v, int depth);

static void push_list(lua_State *L, const Object *o, int depth) {
  lua_createtable(L, o->as.list.n < INT32_MAX ? (int)o->as.list.n : INT32_MAX, 0);
  for (size_t i = 0; i < o->as.list.n; i++) {
    push_value(L, o->as.list.v[i], depth + 1);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

static void push_record(lua_State *L, const Object *o, int depth) {
  lua_createtable(L, 0, (int)o->as.record.n);
  for (size_t i = 0; i < o->as.record.n; i++) {
    push_value(L, o->as.record.v[i].value, depth + 1);
    lua_setfield(L, -2, o->as.record.v[i].name);
  }
}

static void push_value(lua_State *L, Value v, int depth) {
  luaL_checkstack(L, 4, "a value is nested too deeply");
  if (depth > LUAT_NEST)
    luaL_error(L, "lists are nested more than %d deep", LUAT_NEST);
  switch (v.kind) {
  case VAL_NIL:
    lua_pushnil(L);
    break;
  case VAL_BOOL:
    lua_pushboolean(L, v.as.b);
    break;
  case VAL_INT: /* Lua has no integers from 2^63 on */
    if (v.big)
      lua_pushnumber(L, (lua_Number)v.as.u);
    else
      lua_pushinteger(L, v.as.i);
    break;
  case VAL_FLOAT:
    lua_pushnumber(L, v.as.f);
    break;
  case VAL_DTYPE:
    lua_pushstring(L, dtype_name(v.as.dtype));
    break;
  case VAL_STRING:
    lua_pushlstring(L, val_text(v), v.as.obj->as.string.n);
    break;
  case VAL_TUPLE:
  case VAL_LIST:
    push_list(L, v.as.obj, depth);
    break;
  case VAL_RECORD:
    push_record(L, v.as.obj, depth);
    break;
  default:
    if (reference_of(v) != LUA_NOREF)
      lua_rawgeti(L, LUA_REGISTRYINDEX, reference_of(v));
    else
      push_userdata(L, v);
    break;
  }
}

void luat_push(lua_State *L, Value v) {
  push_value(L, v, 0);
}

int luat_give(lua_State *L, Value v, bool spread) {
  Luat *t = luat_of(L);
  int n = 1;
  if (t->npending == LUAT_PENDING) {
    val_release(v);
    return luaL_error(L, "calls are nested too deeply");
  }
  size_t mark = t->npending;
  t->pending[t->npending++] = v; /* released here, or by luat_enter after an error */
  if (spread && v.kind == VAL_TUPLE) {
    const Object *o = v.as.obj;
    n = (int)o->as.list.n;
    luaL_checkstack(L, n, "too many results");
    for (int i = 0; i < n; i++)
      luat_push(L, o->as.list.v[i]);
  } else {
    luat_push(L, v);
  }
  t->npending = mark;
  val_release(v);
  return n;
}

/* Userdata ---------------------------------------------------------------------------------- */

Value *luat_test(lua_State *L, int index, LuatType type) {
  LuatType have;
  Value *v = userdata_at(L, index, &have);
  return v && have == type ? v : NULL;
}

Value *luat_check(lua_State *L, int index, LuatType type) {
  static const char *const words[LUAT_TYPES] = {"a tensor", "a kernel", "a value of tile"};
  Value *v = luat_test(L, index, type);
  if (v && v->kind == VAL_NIL)
    luaL_argerror(L, index, "the value was closed");
  if (v)
    return v;
  luaL_argerror(L, index,
                lua_pushfstring(L, "%s is wanted, not %s", words[type], luaL_typename(L, index)));
  return NULL;
}

/* The first argument, of whatever type; a metamethod may be called with anything. */
static Value *any_value(lua_State *L) {
  Value *v = userdata_at(L, 1, NULL);
  if (!v)
    luaL_argerror(L, 1, "a value of tile is wanted");
  return v;
}

/* __gc and __close: the value is nil from here on. */
static int collect(lua_State *L) {
  Value *v = any_value(L);
  Value old = *v;
  if (old.kind == VAL_TENSOR)
    luat_of(L)->alive -= bytes_of(old.as.tensor);
  *v = val_nil();
  val_release(old);
  return 0;
}

typedef struct Text {
  Value v;
  Value out;
} Text;

/* As print shows it. */
static void to_text(Session *s, void *ctx) {
  Text *t = ctx;
  if (t->v.kind == VAL_TENSOR)
    host_tensor(s, t->v, (Span){NULL, 0, 0}, "what is shown");
  Str out = session_str(s);
  val_print(s, t->v, false, &out);
  t->out = val_retain(val_string(s, str_text(&out), out.n));
}

static int tostring(lua_State *L) {
  Text t = {*any_value(L), val_nil()};
  luat_enter(L, to_text, &t);
  return luat_give(L, t.out, false);
}

/* f(x) of a function, builtin, or anything else that may be called. */
static int call(lua_State *L) {
  return luat_call(L, *luat_check(L, 1, LUAT_VALUE), 2, lua_gettop(L));
}

/* m.name of a module. */
static int index_value(lua_State *L) {
  const Value *v = luat_check(L, 1, LUAT_VALUE);
  const char *name = luaL_checkstring(L, 2), *have;
  if (v->kind != VAL_MODULE)
    return 0;
  const Module *m = v->as.obj->as.module;
  for (size_t i = 0; (have = host_module_name(m, i)) != NULL; i++)
    if (strcmp(have, name) == 0) {
      luat_push(L, host_module_value(m, i));
      return 1;
    }
  return 0;
}

void luat_push_meta(lua_State *L, LuatType type) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &type_names[type]);
}

void luat_open_values(lua_State *L) {
  static const luaL_Reg common[] = {
      {"__gc", collect}, {"__close", collect}, {"__tostring", tostring}, {NULL, NULL}};
  static const luaL_Reg value[] = {{"__call", call}, {"__index", index_value}, {NULL, NULL}};
  Luat *t = luat_of(L);
  for (int k = 0; k < LUAT_TYPES; k++) {
    lua_newtable(L);
    luaL_setfuncs(L, common, 0);
    if (k == LUAT_VALUE)
      luaL_setfuncs(L, value, 0);
    lua_pushstring(L, type_names[k]);
    lua_setfield(L, -2, "__name");
    lua_pushboolean(L, 0); /* getmetatable gives nothing that could be broken */
    lua_setfield(L, -2, "__metatable");
    t->meta[k] = lua_topointer(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &type_names[k]);
  }
}
