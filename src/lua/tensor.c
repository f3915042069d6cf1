/* tensor.c: tensors in Lua: attributes, indexing, arithmetic, tables.
 *
 * In: userdata of value.c. Out: new tensors, views, numbers, stores. Everything follows the
 * language: typing, broadcasting, rounding, indices from 0, slices that are views. What the
 * language knows as a function of a tensor is a method here too: t:sum{axis = 0}. Tests: tests/lua.
 */
#include "impl.h"

#include <string.h>

static const Span nowhere = {NULL, 0, 0}; /* luat_enter puts Lua's line in its place */

/* Indices ----------------------------------------------------------------------------------- */

enum { MOST_INDICES = 2 * TENSOR_MAX_RANK }; /* new axes count too; tensor_index refuses more */

typedef struct Index {
  TensorIndex v[MOST_INDICES];
  size_t n;
} Index;

/* Raises, always of argument 2: what stands in the brackets. */
static void bad_index(lua_State *L) {
  luaL_argerror(L, 2,
                "an index is an integer, {start, stop, step}, or a string such as '1:3' or 'None'");
}

/* A bound of a slice: an integer, or nothing. */
static bool table_bound(lua_State *L, int table, int i, int64_t *out) {
  int whole = 1;
  lua_rawgeti(L, table, i);
  bool given = !lua_isnil(L, -1);
  if (given)
    *out = lua_tointegerx(L, -1, &whole);
  if (!whole)
    bad_index(L);
  lua_pop(L, 1);
  return given;
}

/* {start, stop, step}, each of which may be nil. */
static TensorIndex table_slice(lua_State *L, int table) {
  TensorIndex ix = {.kind = TIX_SLICE, .step = 1};
  ix.has_start = table_bound(L, table, 1, &ix.start);
  ix.has_stop = table_bound(L, table, 2, &ix.stop);
  table_bound(L, table, 3, &ix.step);
  return ix;
}

/* One number of "a:b:c"; false where there is none. */
static bool text_bound(const char **text, int64_t *out) {
  char *end = NULL;
  *text += strspn(*text, " ");
  long long x = strtoll(*text, &end, 10);
  if (end == *text)
    return false;
  *out = x;
  *text = end + strspn(end, " ");
  return true;
}

/* "a:b:c" with parts left out, ":", a number, or "None". */
static TensorIndex text_index(lua_State *L, const char *text) {
  TensorIndex ix = {.kind = TIX_SLICE, .step = 1};
  if (strcmp(text, "None") == 0) {
    ix.kind = TIX_NEW;
    return ix;
  }
  ix.has_start = text_bound(&text, &ix.start);
  if (!*text && ix.has_start)
    ix.kind = TIX_INT;
  if (*text == ':') {
    text++;
    ix.has_stop = text_bound(&text, &ix.stop);
    if (*text == ':') {
      text++;
      text_bound(&text, &ix.step);
    }
  } else if (ix.kind != TIX_INT) {
    bad_index(L);
  }
  if (*text)
    bad_index(L);
  return ix;
}

/* One axis of t[{…}], at the top of the stack. */
static TensorIndex read_axis(lua_State *L) {
  int whole = 0;
  TensorIndex ix = {.kind = TIX_INT, .step = 1};
  switch (lua_type(L, -1)) {
  case LUA_TNUMBER:
    ix.start = lua_tointegerx(L, -1, &whole);
    if (!whole)
      bad_index(L);
    return ix;
  case LUA_TTABLE:
    return table_slice(L, lua_absindex(L, -1));
  case LUA_TSTRING:
    return text_index(L, lua_tostring(L, -1));
  default:
    bad_index(L);
    return ix;
  }
}

/* t[i] or t[{i, {a, b}, ":"}]: what stands at index 2 of the stack. */
static void read_index(lua_State *L, Index *out) {
  out->n = 0;
  if (lua_type(L, 2) != LUA_TTABLE) {
    lua_pushvalue(L, 2);
    out->v[out->n++] = read_axis(L);
    lua_pop(L, 1);
    return;
  }
  lua_Unsigned n = lua_rawlen(L, 2);
  if (n > MOST_INDICES)
    luaL_argerror(L, 2, "there are more indices than a tensor has axes");
  for (lua_Unsigned i = 1; i <= n; i++) {
    lua_rawgeti(L, 2, (lua_Integer)i);
    out->v[out->n++] = read_axis(L);
    lua_pop(L, 1);
  }
}

typedef struct Access {
  Luat *t;
  lua_State *L;
  Value x;
  Index index;
  const char *name; /* of an attribute */
  Value out;        /* with a reference */
  bool found;
} Access;

static void run_index(Session *s, void *ctx) {
  Access *a = ctx;
  a->out = val_retain(host_index(s, a->x, a->index.v, a->index.n, nowhere));
}

static void run_store(Session *s, void *ctx) {
  Access *a = ctx;
  host_index_store(s, a->x, a->index.v, a->index.n, luat_value(a->t, a->L, 3), nowhere);
}

static void run_attribute(Session *s, void *ctx) {
  Access *a = ctx;
  a->found = host_attribute(s, a->x.as.tensor, a->name, nowhere, &a->out);
  if (a->found)
    val_retain(a->out);
}

static Access access_of(lua_State *L) {
  return (Access){.t = luat_of(L), .L = L, .x = *luat_check(L, 1, LUAT_TENSOR)};
}

/* "cpu" or "cuda:0": where the data is. */
static const char *place_of(const Tensor *t) {
  const StorageDevice *d = storage_on_device(t->storage) ? storage_device(t->storage) : NULL;
  return d ? d->name : "cpu";
}

/* Names: an attribute, else a method (the table that is this function's upvalue). */
static int index_name(lua_State *L, Access *a) {
  a->name = lua_tostring(L, 2);
  if (strcmp(a->name, "device") == 0) {
    lua_pushstring(L, place_of(a->x.as.tensor));
    return 1;
  }
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL)
    return 1;
  luat_enter(L, run_attribute, a);
  if (a->found)
    return luat_give(L, a->out, false);
  return luaL_error(L, "a tensor has no field '%s'", a->name);
}

/* __index. A string with a digit or a colon is an index: t["1:3"]. */
static int index_tensor(lua_State *L) {
  Access a = access_of(L);
  const char *name = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : NULL;
  if (name && strspn(name, " -0123456789:") == 0 && strcmp(name, "None") != 0)
    return index_name(L, &a);
  read_index(L, &a.index);
  luat_enter(L, run_index, &a);
  return luat_give(L, a.out, false);
}

/* __newindex. */
static int newindex_tensor(lua_State *L) {
  Access a = access_of(L);
  read_index(L, &a.index);
  luat_enter(L, run_store, &a);
  return 0;
}

/* __len: the first axis, as len(x) of the language. */
static int length(lua_State *L) {
  const Tensor *x = luat_check(L, 1, LUAT_TENSOR)->as.tensor;
  if (x->rank == 0)
    return luaL_error(L, "a tensor without axes has no length");
  lua_pushinteger(L, x->extent[0]);
  return 1;
}

/* (t, i) to i + 1 and t[i + 1], or nil behind the last. */
static int next_part(lua_State *L) {
  Access a = access_of(L);
  lua_Integer i = luaL_checkinteger(L, 2);
  if (i >= a.x.as.tensor->extent[0] - 1)
    return 0;
  i++;
  a.index = (Index){.v = {{.kind = TIX_INT, .start = i, .step = 1}}, .n = 1};
  luat_enter(L, run_index, &a);
  lua_pushinteger(L, i);
  return 1 + luat_give(L, a.out, false);
}

/* __pairs: the indices of the first axis, from 0 as everywhere, and what stands there. */
static int pairs_tensor(lua_State *L) {
  length(L);
  lua_settop(L, 1);
  lua_pushcfunction(L, next_part);
  lua_insert(L, 1);
  lua_pushinteger(L, -1);
  return 3;
}

/* Lua's own ipairs (the upvalue) goes from 1 to the first nil: a tensor has neither. */
static int ipairs(lua_State *L) {
  luaL_checkany(L, 1);
  if (luat_test(L, 1, LUAT_TENSOR))
    return pairs_tensor(L);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

/* Arithmetic -------------------------------------------------------------------------------- */

typedef struct Arith {
  Luat *t;
  lua_State *L;
  AstOp op;
  Value out;
} Arith;

static void run_arith(Session *s, void *ctx) {
  Arith *a = ctx;
  const Span where[] = {nowhere, nowhere};
  Value x = luat_value(a->t, a->L, 1), y = val_nil();
  if (a->op != AST_NEG && a->op != AST_BITNOT)
    y = luat_value(a->t, a->L, 2);
  switch (a->op) {
  case AST_NEG:
  case AST_BITNOT:
    a->out = arith_unary(s, a->op, x, nowhere, nowhere);
    break;
  case AST_MATMUL:
    a->out = arith_product(s, x, y, nowhere, where);
    break;
  case AST_EQ:
  case AST_NE:
  case AST_LT:
  case AST_LE:
  case AST_GT:
  case AST_GE:
    a->out = arith_compare(s, a->op, x, y, nowhere, where);
    break;
  default:
    a->out = arith_binary(s, a->op, x, y, nowhere, where);
    break;
  }
  val_retain(a->out);
}

static int arith(lua_State *L, AstOp op) {
  Arith a = {luat_of(L), L, op, val_nil()};
  if (lua_gettop(L) < 2 && op != AST_NEG && op != AST_BITNOT)
    return luaL_error(L, "two operands are wanted");
  luat_enter(L, run_arith, &a);
  return luat_give(L, a.out, false);
}

/* One function an operator: metamethods get no argument that could say which. */
#define OPERATOR(name, op)                                                                         \
  static int operator_##name(lua_State *L) {                                                       \
    return arith(L, op);                                                                           \
  }
OPERATOR(add, AST_ADD)
OPERATOR(sub, AST_SUB)
OPERATOR(mul, AST_MUL)
OPERATOR(div, AST_DIV)
OPERATOR(idiv, AST_FLOORDIV)
OPERATOR(mod, AST_MOD)
OPERATOR(pow, AST_POW)
OPERATOR(band, AST_BITAND)
OPERATOR(bor, AST_BITOR)
OPERATOR(bxor, AST_BITXOR)
OPERATOR(shl, AST_SHL)
OPERATOR(shr, AST_SHR)
OPERATOR(unm, AST_NEG)
OPERATOR(bnot, AST_BITNOT)
OPERATOR(matmul, AST_MATMUL)
OPERATOR(eq, AST_EQ)
OPERATOR(ne, AST_NE)
OPERATOR(lt, AST_LT)
OPERATOR(le, AST_LE)
OPERATOR(gt, AST_GT)
OPERATOR(ge, AST_GE)
#undef OPERATOR

/* Lua makes one bool of every comparison; a tensor has one an element. */
static int no_order(lua_State *L) {
  return luaL_error(L, "tensors compare element by element: tile.lt(a, b), tile.le, tile.gt, "
                       "tile.ge, tile.eq, tile.ne");
}

/* Tables ------------------------------------------------------------------------------------ */

static void to_host(Session *s, void *ctx) {
  host_tensor(s, *(const Value *)ctx, nowhere, "what t:table() reads");
}

/* The elements below index[0 … axis), as nested tables. */
static void push_elements(lua_State *L, const Tensor *x, int axis, int64_t *index) {
  if (axis == x->rank) {
    luat_push(L, val_scalar(tensor_get(x, index), false));
    return;
  }
  luaL_checkstack(L, 3, "a tensor is nested too deeply");
  int64_t n = x->extent[axis];
  lua_createtable(L, n < INT32_MAX ? (int)n : INT32_MAX, 0);
  for (int64_t i = 0; i < n; i++) {
    index[axis] = i;
    push_elements(L, x, axis + 1, index);
    lua_rawseti(L, -2, i + 1);
  }
}

/* t:table(): a number where there is no axis. */
static int table(lua_State *L) {
  Value *v = luat_check(L, 1, LUAT_TENSOR);
  int64_t index[TENSOR_MAX_RANK] = {0};
  luat_enter(L, to_host, v);
  push_elements(L, v->as.tensor, 0, index);
  return 1;
}

typedef struct Fill {
  Luat *t;
  lua_State *L;
  DType type;
  int rank;
  int64_t extent[TENSOR_MAX_RANK];
  Value out;
} Fill;

/* Every table on an axis must be as long as the first one. The table is at the top of the stack. */
static void fill(Session *s, Fill *f, Tensor *x, int axis, int64_t *index) {
  lua_State *L = f->L;
  bool is_table = lua_type(L, -1) == LUA_TTABLE;
  if (axis == f->rank) {
    if (is_table)
      host_fail(s, E0807, nowhere, "the tables are nested unevenly");
    tensor_set(x, index, arith_fit(s, luat_value(f->t, L, -1), f->type, nowhere));
    return;
  }
  if (!is_table || (int64_t)lua_rawlen(L, -1) != f->extent[axis])
    host_fail(s, E0807, nowhere, "the tables are uneven: %lld elements along axis %d, here %s%llu",
              (long long)f->extent[axis], axis, is_table ? "" : "a value, not ",
              is_table ? (unsigned long long)lua_rawlen(L, -1)
                       : (unsigned long long)f->extent[axis]);
  for (int64_t i = 0; i < f->extent[axis]; i++) {
    index[axis] = i;
    lua_rawgeti(L, -1, i + 1);
    fill(s, f, x, axis + 1, index);
    lua_pop(L, 1);
  }
}

static void run_fill(Session *s, void *ctx) {
  Fill *f = ctx;
  int64_t index[TENSOR_MAX_RANK] = {0};
  Str why = session_str(s);
  Tensor *x = tensor_new(f->type, f->rank, f->extent, TENSOR_ZERO, &why);
  f->out = host_new_tensor(s, x, &why, nowhere);
  if (!lua_checkstack(f->L, TENSOR_MAX_RANK + 2))
    host_fail_with(s, ST_NOMEM);
  lua_pushvalue(f->L, 2);
  fill(s, f, x, 0, index);
  lua_pop(f->L, 1);
  val_retain(f->out);
}

/* The shape that the first elements say. */
static int nested_shape(lua_State *L, int64_t *extent) {
  int rank = 0;
  lua_pushvalue(L, 2);
  while (lua_type(L, -1) == LUA_TTABLE) {
    luaL_argcheck(L, rank < TENSOR_MAX_RANK, 2, "tables nest at most 8 deep in a tensor");
    extent[rank++] = (int64_t)lua_rawlen(L, -1);
    if (lua_rawlen(L, -1) == 0)
      break;
    lua_rawgeti(L, -1, 1);
  }
  lua_settop(L, 2);
  return rank;
}

/* tile.tensor("f32", {{1, 2}, {3, 4}}); of a tensor: a copy in that type. */
static int tensor_of(lua_State *L) {
  size_t n = 0;
  const char *name = luaL_checklstring(L, 1, &n);
  Fill f = {.t = luat_of(L), .L = L};
  luaL_argcheck(L, dtype_parse(name, n, &f.type), 1, "a dtype is wanted, such as \"f32\"");
  lua_settop(L, 2);
  if (lua_type(L, 2) != LUA_TTABLE && lua_type(L, 2) != LUA_TNUMBER &&
      lua_type(L, 2) != LUA_TBOOLEAN) {
    luat_check(L, 2, LUAT_TENSOR);
    lua_getfield(L, 2, "to");
    lua_insert(L, 1);
    lua_insert(L, 2); /* to, t, dtype */
    lua_call(L, 2, 1);
    return 1;
  }
  f.rank = nested_shape(L, f.extent);
  luat_enter(L, run_fill, &f);
  return luat_give(L, f.out, false);
}

/* Methods ----------------------------------------------------------------------------------- */

typedef struct Cast {
  Value x, out;
  DType type;
} Cast;

static void run_cast(Session *s, void *ctx) {
  Cast *c = ctx;
  c->out = val_retain(arith_cast(s, c->x, c->type, nowhere));
}

/* t:to("f16"): always a new tensor. */
static int to(lua_State *L) {
  size_t n = 0;
  Cast c = {.x = *luat_check(L, 1, LUAT_TENSOR)};
  const char *name = luaL_checklstring(L, 2, &n);
  luaL_argcheck(L, dtype_parse(name, n, &c.type), 2, "a dtype is wanted, such as \"f32\"");
  luat_enter(L, run_cast, &c);
  return luat_give(L, c.out, false);
}

/* t:write(path): save(path, t) of the language. */
static int write_file(lua_State *L) {
  luat_check(L, 1, LUAT_TENSOR);
  luaL_checkstring(L, 2);
  lua_settop(L, 2);
  lua_insert(L, 1);
  const Value save = {.kind = VAL_BUILTIN, .typed = DT_NONE, .as.builtin = builtin_find("save")};
  return luat_call(L, save, 1, 2);
}

static const luaL_Reg methods[] = {
    {"to", to}, {"table", table}, {"write", write_file}, {"matmul", operator_matmul}, {NULL, NULL}};

static const luaL_Reg operators[] = {{"__add", operator_add},
                                     {"__sub", operator_sub},
                                     {"__mul", operator_mul},
                                     {"__div", operator_div},
                                     {"__idiv", operator_idiv},
                                     {"__mod", operator_mod},
                                     {"__pow", operator_pow},
                                     {"__band", operator_band},
                                     {"__bor", operator_bor},
                                     {"__bxor", operator_bxor},
                                     {"__shl", operator_shl},
                                     {"__shr", operator_shr},
                                     {"__unm", operator_unm},
                                     {"__bnot", operator_bnot},
                                     {"__lt", no_order},
                                     {"__le", no_order},
                                     {"__len", length},
                                     {"__pairs", pairs_tensor},
                                     {"__newindex", newindex_tensor},
                                     {NULL, NULL}};

static const luaL_Reg functions[] = {
    {"tensor", tensor_of}, {"matmul", operator_matmul}, {"eq", operator_eq},
    {"ne", operator_ne},   {"lt", operator_lt},         {"le", operator_le},
    {"gt", operator_gt},   {"ge", operator_ge},         {NULL, NULL}};

/* The module is at the top of the stack, with the builtins in it: they are methods as well. */
void luat_open_tensor(lua_State *L) {
  int module = lua_gettop(L);
  luaL_setfuncs(L, functions, 0);
  luat_push_meta(L, LUAT_TENSOR);
  luaL_setfuncs(L, operators, 0);
  lua_newtable(L);
  lua_pushnil(L);
  while (lua_next(L, module)) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -4);
  }
  luaL_setfuncs(L, methods, 0);
  lua_pushcclosure(L, index_tensor, 1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  lua_getglobal(L, "ipairs");
  lua_pushcclosure(L, ipairs, 1);
  lua_setglobal(L, "ipairs");
}
