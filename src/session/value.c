/* value.c: making, counting and printing the values of host programs.
 *
 * In: C values. Out: Values, counted as value.h says. Text of values: numbers read back as the same
 * value, strings raw at the top and quoted inside lists, tensors as tensor_print does. Tests:
 * tests/unit/check_session.c, tests/repl/values.txt.
 */
#include "value.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "impl.h"

enum { PRINT_DEPTH = 50 };

/* The value of a function without a return. */
Value val_nil(void) {
  return (Value){.kind = VAL_NIL, .typed = DT_NONE};
}
/* Never typed: a bool has one type. */
Value val_bool(bool b) {
  return (Value){.kind = VAL_BOOL, .typed = DT_NONE, .as.b = b};
}
/* Untyped: it adapts to what it meets. */
Value val_int(int64_t i) {
  return (Value){.kind = VAL_INT, .typed = DT_NONE, .as.i = i};
}
/* From 2^63 on only a u64 can take it; `big` says so. */
Value val_uint(uint64_t u) {
  return (Value){.kind = VAL_INT, .typed = DT_NONE, .big = u > INT64_MAX, .as.u = u};
}
/* Untyped, computed in f64. */
Value val_float(double f) {
  return (Value){.kind = VAL_FLOAT, .typed = DT_NONE, .as.f = f};
}
/* dtypes are values like others: they go through variables and arguments. */
Value val_dtype(DType t) {
  return (Value){.kind = VAL_DTYPE, .typed = DT_NONE, .as.dtype = t};
}

/* No reference is taken: for calls that end before anything could release it. */
Value val_borrow(Tensor *t) {
  return (Value){.kind = VAL_TENSOR, .typed = DT_NONE, .as.tensor = t};
}

/* typed: the value keeps its type, as inside functions with typed parameters. */
Value val_scalar(Scalar x, bool typed) {
  Value v;
  if (x.type == DT_BOOL)
    v = val_bool(x.as.i != 0);
  else if (dtype_is_float(x.type))
    v = val_float(x.as.f);
  else
    v = dtype_is_unsigned(x.type) ? val_uint(x.as.u) : val_int(x.as.i);
  if (typed)
    v.typed = x.type;
  return v;
}

/* Untyped numbers are i64 (u64 where big) and f64. */
Scalar val_to_scalar(Value v) {
  switch (v.kind) {
  case VAL_BOOL:
    return (Scalar){DT_BOOL, {.i = v.as.b}};
  case VAL_FLOAT:
    return (Scalar){v.typed != DT_NONE ? v.typed : DT_F64, {.f = v.as.f}};
  default:
    return (Scalar){v.typed != DT_NONE ? v.typed : v.big ? DT_U64 : DT_I64, {.i = v.as.i}};
  }
}

/* Objects ---------------------------------------------------------------------------------- */

/* Objects are freed one by one, so they come from malloc, not from an arena. */
void *session_alloc(Session *s, size_t n) {
  void *p = calloc(1, n ? n : 1);
  if (!p)
    guard_raise(s->guard, ST_NOMEM);
  return p;
}

/* Room for one more temporary. Grown by hand: an arena would keep every old array. */
static bool grow_temps(Session *s) {
  if (s->temps.n < s->temps.cap)
    return true;
  size_t cap = s->temps.cap ? s->temps.cap * 2 : 64;
  Value *grown = realloc(s->temps.v, cap * sizeof *grown);
  if (!grown)
    return false;
  s->temps.v = grown;
  s->temps.cap = cap;
  return true;
}

/* In the session's list from the start: a jump before it is filled frees it as it is. */
Value val_object(Session *s, ValueKind kind) {
  if (!grow_temps(s))
    guard_raise(s->guard, ST_NOMEM);
  Object *o = session_alloc(s, sizeof *o);
  o->kind = kind;
  o->session = s;
  o->refs = 1; /* the list of temporaries is its only owner */
  o->next = s->objects;
  if (s->objects)
    s->objects->prev = o;
  s->objects = o;
  return s->temps.v[s->temps.n++] = (Value){.kind = kind, .typed = DT_NONE, .as.obj = o};
}

/* The bytes are copied; a NUL follows them for C functions. */
Value val_string(Session *s, const char *text, size_t n) {
  Value v = val_object(s, VAL_STRING);
  v.as.obj->as.string.s = session_alloc(s, n + 1);
  if (n)
    memcpy(v.as.obj->as.string.s, text, n);
  v.as.obj->as.string.n = n;
  return v;
}

/* Filled element by element: if memory runs short on the way, what is there is counted right. */
static Value sequence(Session *s, ValueKind kind, const Value *v, size_t n) {
  Value out = val_object(s, kind);
  Object *o = out.as.obj;
  o->as.list.v = session_alloc(s, n * sizeof *v);
  o->as.list.cap = n;
  for (size_t i = 0; i < n; i++)
    o->as.list.v[o->as.list.n++] = val_retain(v[i]);
  return out;
}

/* Tuples never change after this. */
Value val_tuple(Session *s, const Value *v, size_t n) {
  return sequence(s, VAL_TUPLE, v, n);
}
/* Lists are shared by name, as in Python. */
Value val_list(Session *s, const Value *v, size_t n) {
  return sequence(s, VAL_LIST, v, n);
}

/* Field names are interned and outlive it. */
Value val_record(Session *s, const Field *v, size_t n) {
  Value out = val_object(s, VAL_RECORD);
  Object *o = out.as.obj;
  o->as.record.v = session_alloc(s, n * sizeof *v);
  for (size_t i = 0; i < n; i++) {
    o->as.record.v[o->as.record.n++] = v[i];
    val_retain(v[i].value);
  }
  return out;
}

/* Doubles its room; a reference of its own is taken. */
void val_push(Session *s, Object *list, Value v) {
  static const size_t large = (size_t)1 << 26;
  if (list->as.list.n == list->as.list.cap) {
    size_t cap = list->as.list.cap ? list->as.list.cap * 2 : 8, bytes = cap * sizeof(Value);
    bool room = bytes < large || bytes < storage_free_memory(); /* as for tensors */
    Value *grown = room ? realloc(list->as.list.v, bytes) : NULL;
    if (!grown)
      guard_raise(s->guard, ST_NOMEM);
    list->as.list.v = grown;
    list->as.list.cap = cap;
  }
  list->as.list.v[list->as.list.n++] = val_retain(v);
}

/* The reference that tensor_new gave goes to the list of temporaries; where that has no room the
 * tensor goes too, since nobody else knows of it. */
Value val_tensor(Session *s, Tensor *t) {
  if (!grow_temps(s)) {
    tensor_release(t);
    guard_raise(s->guard, ST_NOMEM);
  }
  return s->temps.v[s->temps.n++] = val_borrow(t);
}

/* Nothing to do for values without memory. */
Value val_retain(Value v) {
  if (v.kind == VAL_TENSOR)
    tensor_retain(v.as.tensor);
  else if (v.kind >= VAL_STRING)
    v.as.obj->refs++;
  return v;
}

/* Out of the list of living objects. */
static void unlink_object(Object *o) {
  if (o->prev)
    o->prev->next = o->next;
  else
    o->session->objects = o->next;
  if (o->next)
    o->next->prev = o->prev;
}

/* Releases what it holds, then itself. */
static void free_object(Object *o) {
  switch (o->kind) {
  case VAL_STRING:
    free(o->as.string.s);
    break;
  case VAL_TUPLE:
  case VAL_LIST:
    for (size_t i = 0; i < o->as.list.n; i++)
      val_release(o->as.list.v[i]);
    free(o->as.list.v);
    break;
  case VAL_KERNEL:
    for (size_t i = 0; i < o->as.kernel.nsettings; i++)
      val_release(o->as.kernel.settings[i].value);
    free(o->as.kernel.settings);
    plans_free(o->as.kernel.plans);
    unit_leave(o->as.kernel.unit);
    break;
  case VAL_FN:
    for (size_t i = 0; i < o->as.fn.ncaptured; i++)
      val_release(o->as.fn.captured[i].value);
    free(o->as.fn.captured);
    unit_leave(o->as.fn.unit);
    break;
  case VAL_CELL:
    val_release(o->as.cell);
    break;
  case VAL_RECORD:
    for (size_t i = 0; i < o->as.record.n; i++)
      val_release(o->as.record.v[i].value);
    free(o->as.record.v);
    break;
  case VAL_FOREIGN:
    if (o->as.foreign.ops)
      o->as.foreign.ops->release(o->as.foreign.handle);
    break;
  default:
    break;
  }
  free(o);
}

/* Objects whose last reference went wait in a list and are freed one after the other, so that lists
 * nested a million deep need no C stack. */
static void bury(Object *o) {
  Session *s = o->session;
  unlink_object(o);
  o->next = s->dead;
  s->dead = o;
  if (s->burying)
    return;
  s->burying = true;
  while (s->dead) {
    Object *next = s->dead;
    s->dead = next->next;
    free_object(next);
  }
  s->burying = false;
}

/* The last reference frees; see bury for why not at once. */
void val_release(Value v) {
  if (v.kind == VAL_TENSOR)
    tensor_release(v.as.tensor);
  else if (v.kind >= VAL_STRING && --v.as.obj->refs == 0)
    bury(v.as.obj);
}

/* What keeps a value alive until its statement ends, whatever happens to the variable it came
 * from. */
Value val_keep(Session *s, Value v) {
  if (v.kind < VAL_STRING)
    return v;
  if (!grow_temps(s))
    guard_raise(s->guard, ST_NOMEM);
  s->temps.v[s->temps.n++] = val_retain(v);
  return v;
}

/* Text ------------------------------------------------------------------------------------- */

/* For messages only: the text lies in the arena of the run. */
const char *val_describe(Session *s, Value v) {
  static const char *const plain[] = {"nil",      "a bool",    "an int",     "a float",
                                      "a dtype",  "a builtin", "a string",   "a tuple",
                                      "a list",   "a kernel",  "a function", "a module",
                                      "a record", "a value",   "a cell",     "a tensor"};
  if (v.kind == VAL_FOREIGN)
    return v.as.obj->as.foreign.ops->what;
  if (v.kind == VAL_TENSOR) {
    Str text = str_new(s->line);
    tensor_add_type(v.as.tensor, &text);
    return str_text(&text);
  }
  if (val_is_scalar(v) && v.typed != DT_NONE)
    return arena_printf(s->line, "a scalar of type %s", dtype_name(v.typed));
  return plain[v.kind];
}

/* Reads back as the same string: escapes as the lexer has them. */
static void print_quoted(const char *p, size_t n, Str *out) {
  str_addc(out, '"');
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)p[i];
    if (c == '"' || c == '\\')
      str_addf(out, "\\%c", c);
    else if (c == '\n')
      str_add(out, "\\n");
    else if (c == '\t')
      str_add(out, "\\t");
    else if (c < 32 || c == 127)
      str_addf(out, "\\x%02x", c);
    else
      str_addc(out, (char)c);
  }
  str_addc(out, '"');
}

static void print_value(Session *s, Value v, bool quoted, int depth, Str *out);

/* (1,) is a tuple of one, as in Python. */
static void print_sequence(Session *s, const Object *o, int depth, Str *out) {
  bool tuple = o->kind == VAL_TUPLE;
  str_addc(out, tuple ? '(' : '[');
  for (size_t i = 0; i < o->as.list.n; i++) {
    if (i)
      str_add(out, ", ");
    print_value(s, o->as.list.v[i], true, depth + 1, out);
  }
  if (tuple && o->as.list.n == 1)
    str_addc(out, ',');
  str_addc(out, tuple ? ')' : ']');
}

/* {name = value, ...}; not to be read back. */
static void print_record(Session *s, const Object *o, int depth, Str *out) {
  str_addc(out, '{');
  for (size_t i = 0; i < o->as.record.n; i++) {
    str_addf(out, i ? ", %s = " : "%s = ", o->as.record.v[i].name);
    print_value(s, o->as.record.v[i].value, true, depth + 1, out);
  }
  str_addc(out, '}');
}

/* Inside a list small ones are shown on one line, large ones by their type. */
static void print_tensor(Session *s, Value v, bool inside, Str *out) {
  const Tensor *t = v.as.tensor;
  TensorPrint how = {.width = s->options.width, .header = !inside};
  if (inside && tensor_count(t) > 20) {
    tensor_add_type(t, out);
    return;
  }
  host_tensor(s, v, (Span){NULL, 0, 0}, "what is shown");
  size_t from = out->n;
  tensor_print(t, &how, out);
  out->n--; /* the newline: print adds its own */
  out->s[out->n] = '\0';
  for (size_t i = from; inside && i < out->n; i++)
    if (out->s[i] == '\n')
      out->s[i] = ' ';
}

/* Kernels and functions show their names; :help shows more. */
static void print_object(Session *s, Value v, bool quoted, int depth, Str *out) {
  const Object *o = v.as.obj;
  switch (v.kind) {
  case VAL_STRING:
    if (quoted)
      print_quoted(o->as.string.s, o->as.string.n, out);
    else
      str_addn(out, o->as.string.s, o->as.string.n);
    break;
  case VAL_TUPLE:
  case VAL_LIST:
    print_sequence(s, o, depth, out);
    break;
  case VAL_KERNEL:
    str_addf(out, "kernel %s", o->as.kernel.ast ? o->as.kernel.ast->name.text : "from IR text");
    break;
  case VAL_FN:
    str_addf(out, "fn %s", o->as.fn.ast->name.text);
    break;
  case VAL_MODULE:
    str_addf(out, "module %s", o->as.module->name);
    break;
  case VAL_RECORD:
    print_record(s, o, depth, out);
    break;
  case VAL_FOREIGN:
    str_add(out, o->as.foreign.ops->what);
    break;
  default:
    print_tensor(s, v, depth > 0, out);
    break;
  }
}

/* Depth is bounded: a list may hold itself. */
static void print_value(Session *s, Value v, bool quoted, int depth, Str *out) {
  if (depth > PRINT_DEPTH) {
    str_add(out, "...");
    return;
  }
  switch (v.kind) {
  case VAL_NIL:
    str_add(out, "nil");
    break;
  case VAL_BOOL:
  case VAL_INT:
  case VAL_FLOAT:
    scalar_print(val_to_scalar(v), out);
    break;
  case VAL_DTYPE:
    str_add(out, dtype_name(v.as.dtype));
    break;
  case VAL_BUILTIN:
    str_addf(out, "builtin %s", v.as.builtin->name);
    break;
  default:
    print_object(s, v, quoted, depth, out);
    break;
  }
}

/* quoted: as at the prompt, where a string is told from a number. */
void val_print(Session *s, Value v, bool quoted, Str *out) {
  print_value(s, v, quoted, 0, out);
}
