/* interp.c: the statements of host programs.
 *
 * In: statements of the syntax tree. Out: what they do, and how control leaves them (Flow). A
 * variable lives on one stack of locals, cut back when its block ends; at top level it is a global
 * of the running module. Temporaries of a statement are released when it ends. Tests:
 * tests/unit/check_session.c, tests/lang/host_*.tile.
 */
#include "impl.h"

#include <stdlib.h>
#include <string.h>

/* Variables -------------------------------------------------------------------------------- */

/* Not an arena: the stack of locals shrinks and grows for as long as the session lives. */
void host_bind(Session *s, const char *name, Value v) {
  if (s->vars.n == s->vars.cap) {
    size_t cap = s->vars.cap ? s->vars.cap * 2 : 64;
    Var *grown = realloc(s->vars.v, cap * sizeof *grown);
    if (!grown)
      guard_raise(s->guard, ST_NOMEM);
    s->vars.v = grown;
    s->vars.cap = cap;
  }
  v.literal = false;
  s->vars.v[s->vars.n++] = (Var){name, val_retain(v), false};
}

/* From the top down, so that the stack is right at every step. */
void host_drop_vars(Session *s, size_t mark) {
  while (s->vars.n > mark)
    val_release(s->vars.v[--s->vars.n].value);
}

/* Values that nothing else holds are freed here. */
void host_drop_temps(Session *s, size_t mark) {
  while (s->temps.n > mark)
    val_release(s->temps.v[--s->temps.n]);
}

/* The new value is retained before the old one goes: they may be the same object. */
static void set(Value *place, Value v) {
  Value old = *place;
  v.literal = false;
  *place = val_retain(v);
  val_release(old);
}

/* NULL where the module has no such name. */
Value *host_global(Module *m, const char *name) {
  return map_get(m->globals, name);
}

/* A name keeps its place in the map: values are replaced there, and pointers to the place stay
 * good. */
void host_define(Session *s, Module *m, const char *name, Value v) {
  Value *place = host_global(m, name);
  if (!place) {
    place = ARENA_NEW(s->arena, Value);
    *place = val_nil();
    map_set(m->globals, name, place);
  }
  set(place, v);
}

/* Functions and imports may stand in blocks; their names then end with the block. */
void host_define_here(Session *s, const char *name, Value v, bool top) {
  if (top)
    host_define(s, s->module, name, v);
  else
    host_bind(s, name, v);
}

/* A global keeps its place, so the place found the last time is right. */
static Value *near_global(Module *m, const char *name) {
  uintptr_t at = (uintptr_t)name;
  Near *n = &m->near[(at ^ at >> 5) % NEAR_NAMES];
  if (n->name == name)
    return n->place;
  Value *place = host_global(m, name);
  if (place)
    *n = (Near){name, place};
  return place;
}

/* Locals of the running function, with those that it captured: functions do not see those of
 * their callers. */
Value *host_lookup(Session *s, const char *name) {
  for (size_t i = s->vars.n; i-- > s->frame;)
    if (s->vars.v[i].name == name) {
      Value *v = &s->vars.v[i].value;
      return v->kind == VAL_CELL ? &v->as.obj->as.cell : v;
    }
  return near_global(s->module, name);
}

/* A name that a `let` of this block has already bound. block: first local of the block. */
static void let_name(Session *s, const AstDecl *d, Value v, bool top, size_t block) {
  if (top) {
    host_define(s, s->module, d->name.text, v);
    return;
  }
  for (size_t i = block; i < s->vars.n; i++)
    if (s->vars.v[i].name == d->name.text)
      host_fail_hint(s, E0818, d->name.span, "leave out `let` to give it a new value",
                     "%s is already bound in this block", d->name.text);
  host_bind(s, d->name.text, v);
}

/* Temporaries and scratch memory of a statement go when it ends. */
static void end_statement(Session *s, size_t temps) {
  host_drop_temps(s, temps);
  Arena *scratch = session_scratch(s);
  if (arena_bytes(scratch) > 0)
    arena_reset(scratch);
}

/* Binding and assignment ------------------------------------------------------------------- */

/* A tensor unpacks along its first axis. */
void host_unpack(Session *s, Value v, size_t n, Span span, Value *out) {
  size_t have = 0;
  if (val_is_sequence(v))
    have = v.as.obj->as.list.n;
  else if (v.kind == VAL_TENSOR && v.as.tensor->rank > 0)
    have = (size_t)v.as.tensor->extent[0];
  else
    host_fail(s, E0809, span, "%s cannot be unpacked into %zu names", val_describe(s, v), n);
  if (have != n)
    host_fail(s, E0809, span, "%zu value%s for %zu names", have, have == 1 ? "" : "s", n);
  for (size_t i = 0; i < n; i++)
    out[i] = host_element(s, v, i, span);
}

/* The value under a written type: a scalar dtype converts it, `E[M, N]` only its elements. */
static Value typed_value(Session *s, const AstType *t, Value v, Span span) {
  if (!t || !t->base.text)
    return v;
  DType type;
  if (strcmp(t->base.text, "int") == 0)
    return val_int(host_int(s, v, span, "a value of type int"));
  if (dtype_parse(t->base.text, strlen(t->base.text), &type))
    return arith_convert(s, v, type, span);
  Value *named = host_lookup(s, t->base.text);
  if (named && named->kind == VAL_DTYPE)
    return arith_convert(s, v, named->as.dtype, span);
  host_fail(s, E0801, t->span, "%s is not a type", t->base.text);
}

/* All values are computed and converted before any name is bound: `let a, b = b, a` means what
 * it says. */
static void do_let(Session *s, const AstStmt *st, bool top, size_t block) {
  const AstDecls *names = &st->as.let.names;
  Value v = host_eval(s, st->as.let.value);
  Span span = st->as.let.value->span;
  Value *parts = ARENA_ARRAY(session_scratch(s), Value, names->n);
  if (names->n == 1)
    parts[0] = v;
  else
    host_unpack(s, v, names->n, span, parts);
  for (size_t i = 0; i < names->n; i++)
    parts[i] = typed_value(s, names->v[i].type, parts[i], span);
  for (size_t i = 0; i < names->n; i++)
    let_name(s, &names->v[i], parts[i], top, block);
}

/* An assignment never makes a variable, so that a misspelt name is found. */
static _Noreturn void no_such_variable(Session *s, const AstExpr *target) {
  const char *hint = arena_printf(s->line, "`let %s = …` makes a new variable", target->as.name);
  host_fail_hint(s, E0800, target->span, hint, "there is no variable %s to assign to",
                 target->as.name);
}

/* Assigning to a typed scalar keeps its type: stores convert. */
static void assign_name(Session *s, const AstExpr *target, Value v, Span span) {
  Value *place = host_lookup(s, target->as.name);
  if (!place)
    no_such_variable(s, target);
  if (val_is_scalar(*place) && place->typed != DT_NONE && val_is_scalar(v))
    v = arith_convert(s, v, place->typed, span);
  place = host_lookup(s, target->as.name);
  set(place, v);
}

/* NAME or INDEX, nothing else is a target (parser.h). */
static void assign_one(Session *s, const AstExpr *target, Value v, Span span) {
  if (target->kind == EXPR_NAME)
    assign_name(s, target, v, span);
  else
    index_set(s, target, host_eval(s, target->as.index.base), v, span);
}

/* `place op= value`: the place is found once. */
static void assign_augmented(Session *s, const AstStmt *st) {
  const AstExpr *target = st->as.assign.targets[0], *value = st->as.assign.value;
  const Span where[] = {target->span, value->span};
  if (target->kind == EXPR_NAME) {
    Value old = host_eval(s, target);
    Value v = host_eval(s, value);
    assign_name(s, target, arith_binary(s, st->as.assign.op, old, v, st->span, where), st->span);
    return;
  }
  Place place = index_place(s, target, host_eval(s, target->as.index.base));
  Value old = index_load(s, &place);
  Value v = host_eval(s, value);
  index_store(s, &place, arith_binary(s, st->as.assign.op, old, v, st->span, where), st->span);
}

/* Several targets take their values after all of them were computed. */
static void do_assign(Session *s, const AstStmt *st) {
  if (st->as.assign.op != AST_NO_OP) {
    assign_augmented(s, st);
    return;
  }
  size_t n = st->as.assign.ntargets;
  Value v = host_eval(s, st->as.assign.value);
  Span span = st->as.assign.value->span;
  if (n == 1) {
    assign_one(s, st->as.assign.targets[0], v, span);
    return;
  }
  Value *parts = ARENA_ARRAY(session_scratch(s), Value, n);
  host_unpack(s, v, n, span, parts);
  for (size_t i = 0; i < n; i++)
    assign_one(s, st->as.assign.targets[i], parts[i], span);
}

/* Blocks and control ----------------------------------------------------------------------- */

/* Names of a block go at its end, however control leaves it. */
Flow host_block(Session *s, const AstBlock *b, Value *result) {
  size_t mark = s->vars.n, outer = s->block;
  Rest rest = s->rest;
  Flow flow = FLOW_NEXT;
  s->block = mark;
  for (size_t i = 0; i < b->n && flow == FLOW_NEXT; i++) {
    s->rest = (Rest){b, i};
    flow = host_stmt(s, b->v[i], false, result);
  }
  s->rest = rest;
  s->block = outer;
  host_drop_vars(s, mark);
  return flow;
}

/* One bool, nothing else (the manual): numbers and tensors get a hint. */
bool host_condition(Session *s, const AstExpr *e) {
  size_t temps = s->temps.n;
  Value v = host_eval(s, e);
  if (v.kind != VAL_BOOL)
    host_fail_hint(s, E0806, e->span,
                   v.kind == VAL_TENSOR ? "any(x) and all(x) make one bool of a tensor"
                                        : "write a comparison, such as `x != 0`",
                   "a condition is a bool, not %s", val_describe(s, v));
  host_drop_temps(s, temps);
  return v.as.b;
}

/* A condition of a statement: its scratch memory goes at once. */
static bool statement_condition(Session *s, const AstExpr *e) {
  bool yes = host_condition(s, e);
  end_statement(s, s->temps.n);
  return yes;
}

/* The first arm whose condition holds, else the last block. */
static Flow do_if(Session *s, const AstStmt *st, Value *result) {
  for (size_t i = 0; i < st->as.branch.n; i++)
    if (statement_condition(s, st->as.branch.arms[i].cond))
      return host_block(s, &st->as.branch.arms[i].body, result);
  return st->as.branch.has_other ? host_block(s, &st->as.branch.other, result) : FLOW_NEXT;
}

/* Ctrl-C is looked at once an iteration, also where the body is empty. */
static Flow do_while(Session *s, const AstStmt *st, Value *result) {
  while (statement_condition(s, st->as.loop_while.cond)) {
    session_poll(s);
    Flow flow = host_block(s, &st->as.loop_while.body, result);
    if (flow == FLOW_BREAK)
      break;
    if (flow == FLOW_RETURN)
      return flow;
  }
  return FLOW_NEXT;
}

/* One iteration with the loop's names bound to v. */
static Flow iterate(Session *s, const AstStmt *st, Value v, Value *result) {
  size_t vars = s->vars.n, n = st->as.loop.n, temps = s->temps.n;
  session_poll(s);
  if (n == 1) {
    host_bind(s, st->as.loop.names[0].text, v);
  } else {
    Value *parts = ARENA_ARRAY(session_scratch(s), Value, n);
    host_unpack(s, v, n, st->as.loop.range->span, parts);
    for (size_t i = 0; i < n; i++)
      host_bind(s, st->as.loop.names[i].text, parts[i]);
  }
  end_statement(s, temps);
  Flow flow = host_block(s, &st->as.loop.body, result);
  host_drop_vars(s, vars);
  return flow;
}

/* The bounds of `range(…)` and its relatives, which on the host mean the same. */
typedef struct Range {
  int64_t lo, hi, step;
} Range;

/* A range is not a value: bounds are evaluated once and counted, so a long loop costs no list. A
 * variable named range hides it. */
static bool range_of(Session *s, const AstExpr *e, Range *r) {
  static const char *const names[] = {"range", "unroll", "pipelined", "parallel", "vectorized"};
  if (e->kind != EXPR_CALL || e->as.call.fn->kind != EXPR_NAME)
    return false;
  const char *name = e->as.call.fn->as.name;
  size_t k = 0, count = sizeof names / sizeof *names;
  while (k < count && strcmp(names[k], name) != 0)
    k++;
  if (k == count || host_lookup(s, name))
    return false;
  const AstArgs *a = &e->as.call.args;
  if (k > 0)
    host_fail_hint(s, E0804, e->span, "range(…) on the host", "%s(…) is a loop of kernels", name);
  if (a->n < 1 || a->n > 3 || a->npos != a->n)
    host_fail(s, E0804, e->span,
              "range takes 1 to 3 ints: range(n), range(a, b), range(a, b, step)");
  int64_t x[3] = {0, 0, 1};
  for (size_t i = 0; i < a->n; i++)
    x[i] = host_int(s, host_eval(s, a->v[i].value), a->v[i].value->span, "a bound of range");
  *r = a->n == 1 ? (Range){0, x[0], 1} : (Range){x[0], x[1], x[2]};
  if (r->step == 0)
    host_fail(s, E0804, e->span, "the step of a range cannot be 0");
  return true;
}

/* Ends also where the next index would pass the greatest int. */
static Flow for_range(Session *s, const AstStmt *st, const Range *r, Value *result) {
  int64_t i = r->lo;
  while (r->step > 0 ? i < r->hi : i > r->hi) {
    Flow flow = iterate(s, st, val_int(i), result);
    if (flow == FLOW_BREAK)
      break;
    if (flow == FLOW_RETURN)
      return flow;
    if (__builtin_add_overflow(i, r->step, &i))
      break;
  }
  return FLOW_NEXT;
}

/* The sequence is held for the whole loop; a list that grows meanwhile is walked to its new end. */
static Flow do_for(Session *s, const AstStmt *st, Value *result) {
  Range r;
  size_t temps = s->temps.n;
  const AstExpr *e = st->as.loop.range;
  if (range_of(s, e, &r)) {
    end_statement(s, temps);
    return for_range(s, st, &r, result);
  }
  Value v = host_eval(s, e);
  if (!host_has_length(v))
    host_fail_hint(s, E0815, e->span,
                   "for x in range(n), a list, a tuple, or a tensor's first axis",
                   "%s cannot be iterated", val_describe(s, v));
  Flow flow = FLOW_NEXT;
  for (size_t i = 0; flow != FLOW_BREAK && flow != FLOW_RETURN && i < host_length(v); i++) {
    size_t inner = s->temps.n;
    flow = iterate(s, st, host_element(s, v, i, e->span), result);
    host_drop_temps(s, inner);
  }
  host_drop_temps(s, temps);
  return flow == FLOW_RETURN ? flow : FLOW_NEXT;
}

/* Other statements ------------------------------------------------------------------------- */

/* At the prompt a value is shown and named `_`; nil is silent. */
static void do_expression(Session *s, const AstStmt *st, bool top) {
  const AstExpr *e = st->as.expr;
  if (e->kind == EXPR_BENCH || e->kind == EXPR_CHECK) {
    if (e->kind == EXPR_BENCH)
      kernel_bench(s, e->as.run, false);
    else
      kernel_check(s, e->as.run, false);
    return;
  }
  Value v = host_eval(s, e);
  if (!s->prompt || !top || v.kind == VAL_NIL)
    return;
  Value old = s->last;
  s->last = val_retain(v);
  val_release(old);
  if (s->quiet)
    return;
  Str out = session_str(s);
  val_print(s, v, true, &out);
  str_addc(&out, '\n');
  session_print(s, &out);
}

/* Kernels that inlined an older function of the name are specialised anew (generation). */
static void define_function(Session *s, const AstStmt *st, bool top) {
  Value v = val_object(s, st->kind == STMT_FN ? VAL_FN : VAL_KERNEL);
  const char *name;
  if (st->kind == STMT_FN) {
    v.as.obj->as.fn.ast = st->as.fn;
    v.as.obj->as.fn.doc = st->doc;
    v.as.obj->as.fn.module = s->module;
    Unit *u = v.as.obj->as.fn.unit = unit_enter(s, st->span.file);
    u->inlines = true;
    s->generation++;
    name = st->as.fn->name.text;
  } else {
    v.as.obj->as.kernel.ast = st->as.kernel;
    v.as.obj->as.kernel.doc = st->doc;
    v.as.obj->as.kernel.module = s->module;
    v.as.obj->as.kernel.unit = unit_enter(s, st->span.file);
    name = st->as.kernel->name.text;
  }
  host_define_here(s, name, v, top);
  if (!top && st->kind == STMT_FN)
    closure_define(s, v.as.obj);
}

/* Run later, when all of the file is defined; nothing under plain `tilesh FILE`. */
static void collect_test(Session *s, const AstStmt *st) {
  PendingTest t = {st, s->module};
  if (s->options.mode != MODE_TEST || s->importing)
    return;
  session_keep(s);
  VEC_PUSH(s->arena, &s->tests, t);
}

/* The value outlives the temporaries of this statement. */
static Flow do_return(Session *s, const AstStmt *st, Value *result) {
  *result = st->as.result ? host_eval(s, st->as.result) : val_nil();
  val_retain(*result); /* the caller of the function puts it among its own temporaries */
  return FLOW_RETURN;
}

/* Lua lives above the session (src/lua), which hands its entry in when a program first needs it. */
static void do_lua(Session *s, const AstStmt *st) {
  void *lua = session_lua(s, st->span);
  s->options.lua->block(lua, st->as.lua.text, st->as.lua.n, st->as.lua.span);
}

/* The statements that hold no other and can only go on to the next. */
static void do_simple(Session *s, const AstStmt *st, bool top) {
  switch (st->kind) {
  case STMT_EXPR:
    do_expression(s, st, top);
    break;
  case STMT_ASSIGN:
    do_assign(s, st);
    break;
  case STMT_LET:
  case STMT_VAR:
    do_let(s, st, top, s->block);
    break;
  case STMT_ASSERT:
    host_assert(s, st);
    break;
  case STMT_KERNEL:
  case STMT_FN:
    define_function(s, st, top);
    break;
  case STMT_IMPORT:
    host_import(s, st, top);
    break;
  case STMT_TEST:
    collect_test(s, st);
    break;
  case STMT_LUA:
    do_lua(s, st);
    break;
  default: /* statements of kernels: the parser lets none stand here */
    break;
  }
}

/* One statement. Statements that hold blocks end their own temporaries; the others do it here. */
Flow host_stmt(Session *s, const AstStmt *st, bool top, Value *result) {
  size_t temps = s->temps.n;
  Flow flow = FLOW_NEXT;
  s->doing = st->span;
  session_poll(s);
  switch (st->kind) {
  case STMT_IF:
    return do_if(s, st, result);
  case STMT_WHILE:
    return do_while(s, st, result);
  case STMT_FOR:
    return do_for(s, st, result);
  case STMT_BREAK:
    return FLOW_BREAK;
  case STMT_CONTINUE:
    return FLOW_CONTINUE;
  case STMT_RETURN:
    flow = do_return(s, st, result);
    break;
  default:
    do_simple(s, st, top);
    break;
  }
  end_statement(s, temps);
  return flow;
}
