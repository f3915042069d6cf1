/* ahead.c: what the program will compile next, begun while it waits for a compiler.
 *
 * In: a launch whose text is to be compiled, and the statements that follow in the block that runs
 * (Session.rest). Out: compilations on helper threads (gpu_compile_start) of the calls that can be
 * foreseen. The statements are walked as far as their values' dtypes and shapes say themselves:
 * names, numbers, new tensors, results of kernels, functions of the program. A tensor is foreseen
 * without its elements, in no memory.
 * Always holds: nothing that the program could see changes. No statement runs, variables bound here
 * go with the boundary, diagnostics with their sink; what is guessed wrong costs a thread's time.
 * Tests: tests/unit/check_fake_session.c.
 */
#include "device.h"

enum { MOST_STATEMENTS = 100, MOST_DEPTH = 8 };

typedef struct Walk {
  Session *s;
  Launch *l; /* to begin with, */
  Value kernel;
  const Args *args; /* or the call */
  int statements, depth;
  bool stop; /* as many compile as may, or what follows cannot be known */
} Walk;

/* Tensors without elements ----------------------------------------------------------------- */

static bool nothing_to_fetch(void *handle, void *host, size_t bytes, Str *why) {
  (void)handle, (void)host, (void)bytes;
  if (why)
    str_add(why, "is only foreseen");
  return false;
}

static void nothing_to_release(void *handle) {
  (void)handle;
}

Tensor *ahead_tensor(Session *s, DType t, int rank, const int64_t *extent, Span span) {
  static const StorageDevice nowhere = {"nowhere", nothing_to_fetch, nothing_to_release};
  Str why = session_str(s);
  Tensor *x = tensor_new_on_device(t, rank, extent, &nowhere, s, &why);
  return host_new_tensor(s, x, &why, span).as.tensor;
}

/* Expressions: nil is what is not known ------------------------------------------------------ */

static Value foresee(Walk *w, const AstExpr *e);

/* Begins what the call will compile, and gives tensors of its results' shapes. */
static Value foresee_kernel(Walk *w, Value kernel, Args *a) {
  Launch l;
  launch_prepare(w->s, kernel, a, &l);
  if (!launch_variant(&l)->gpu)
    w->stop |= device_begin(&l) == GPU_START_NONE;
  return launch_result(&l);
}

/* How many arguments of a builtin that makes a tensor come before its extents; 0: another one. */
static size_t before_extents(const Builtin *b) {
  if (b->fn == builtin_zeros || b->fn == builtin_ones || b->fn == builtin_empty ||
      b->fn == builtin_rand || b->fn == builtin_randn)
    return 1;
  return b->fn == builtin_full ? 2 : b->fn == builtin_randint ? 3 : 0;
}

static Value foresee_builtin(Walk *w, const Builtin *b, Args *a) {
  int64_t extent[TENSOR_MAX_RANK];
  size_t from = before_extents(b);
  w->stop |= b->fn == builtin_use_device;
  if (!from || a->npos != a->n || a->n <= from)
    return val_nil();
  int rank = args_extents(a, from, extent);
  return val_borrow(ahead_tensor(w->s, args_dtype(a, 0), rank, extent, a->span));
}

static Value foresee_block(Walk *w, const AstBlock *b, size_t from);

/* Its parameters as variables, as host_call_fn has them; typed numbers convert, which is not
 * followed. */
static Value foresee_fn(Walk *w, Value fn, const Args *a) {
  Session *s = w->s;
  const AstFn *ast = fn.as.obj->as.fn.ast;
  size_t vars = s->vars.n, frame = s->frame;
  Module *module = s->module;
  if (a->npos != ast->params.n || a->n != a->npos || w->depth == MOST_DEPTH)
    return val_nil();
  closure_enter(s, fn);
  for (size_t i = 0; i < a->n; i++)
    host_bind(s, ast->params.v[i].name.text, ast->params.v[i].type ? val_nil() : a->v[i]);
  s->frame = vars;
  s->module = fn.as.obj->as.fn.module;
  w->depth++;
  Value result = foresee_block(w, &ast->body, 0);
  w->depth--;
  s->module = module;
  s->frame = frame;
  host_drop_vars(s, vars);
  return ast->result ? val_nil() : result;
}

/* `x.to(d)`: row-major, whatever x is. */
static Value foresee_cast(Walk *w, const AstExpr *e) {
  const AstExpr *fn = e->as.call.fn;
  Value x = foresee(w, fn->as.attr.base);
  Value type = e->as.call.args.n == 1 ? foresee(w, e->as.call.args.v[0].value) : val_nil();
  if (x.kind != VAL_TENSOR || type.kind != VAL_DTYPE)
    return val_nil();
  const Tensor *t = x.as.tensor;
  return val_borrow(ahead_tensor(w->s, type.as.dtype, t->rank, t->extent, e->span));
}

/* The arguments of a call or of settings; whether all are known. */
static bool foresee_args(Walk *w, const AstExpr *e, Args *a) {
  const AstArgs *args = &e->as.call.args;
  Arena *scratch = session_scratch(w->s);
  *a = (Args){.s = w->s, .span = e->span, .name = "it", .n = args->n, .npos = args->npos};
  a->v = ARENA_ARRAY(scratch, Value, args->n);
  a->names = ARENA_ARRAY(scratch, const char *, args->n);
  a->spans = ARENA_ARRAY(scratch, Span, args->n);
  bool all = true;
  for (size_t i = 0; i < args->n; i++) {
    a->v[i] = foresee(w, args->v[i].value);
    a->names[i] = args->v[i].name;
    a->spans[i] = args->v[i].value->span;
    all &= a->v[i].kind != VAL_NIL;
  }
  return all;
}

static Value foresee_call(Walk *w, const AstExpr *e) {
  const AstExpr *fn = e->as.call.fn;
  if (fn->kind == EXPR_ATTR && strcmp(fn->as.attr.name.text, "to") == 0)
    return foresee_cast(w, e);
  Args a;
  session_stack(w->s, e->span);
  Value f = foresee(w, fn);
  bool all = foresee_args(w, e, &a);
  if (f.kind == VAL_FN)
    return foresee_fn(w, f, &a);
  if (!all || w->stop)
    return val_nil();
  return f.kind == VAL_KERNEL    ? foresee_kernel(w, f, &a)
         : f.kind == VAL_BUILTIN ? foresee_builtin(w, f.as.builtin, &a)
                                 : val_nil();
}

/* k[BM = 64]. */
static Value foresee_settings(Walk *w, const AstExpr *e) {
  Args a;
  Value f = foresee(w, e->as.call.fn);
  if (!foresee_args(w, e, &a) || f.kind != VAL_KERNEL)
    return val_nil();
  Field *settings = ARENA_ARRAY(session_scratch(w->s), Field, a.n);
  for (size_t i = 0; i < a.n; i++)
    settings[i] = (Field){a.names[i], a.v[i]};
  return kernel_with(w->s, f, settings, a.n, e->span);
}

/* Of numbers only. */
static Value foresee_binary(Walk *w, const AstExpr *e) {
  Value x = foresee(w, e->as.binary.x), y = foresee(w, e->as.binary.y);
  AstOp op = e->as.binary.op;
  if (!val_is_number(x) || !val_is_number(y) || op == AST_AND || op == AST_OR)
    return val_nil();
  Span where[2] = {e->as.binary.x->span, e->as.binary.y->span};
  return arith_binary(w->s, op, x, y, e->span, where);
}

/* Parts of a module and views: what costs nothing. */
static Value foresee_attr(Walk *w, const AstExpr *e) {
  bool plain = e->as.attr.base->kind == EXPR_NAME;
  Value base = plain ? foresee(w, e->as.attr.base) : val_nil();
  return base.kind == VAL_MODULE || base.kind == VAL_TENSOR ? host_eval(w->s, e) : val_nil();
}

static Value foresee_list(Walk *w, const AstExpr *e) {
  size_t n = e->as.list.n;
  bool all = true;
  Value *v = ARENA_ARRAY(session_scratch(w->s), Value, n);
  for (size_t i = 0; i < n; i++) {
    v[i] = foresee(w, e->as.list.v[i]);
    all &= v[i].kind != VAL_NIL;
  }
  return all ? val_tuple(w->s, v, n) : val_nil();
}

static Value foresee(Walk *w, const AstExpr *e) {
  switch (e->kind) {
  case EXPR_INT:
  case EXPR_FLOAT:
  case EXPR_BOOL:
  case EXPR_STRING:
  case EXPR_NAME:
    return host_eval(w->s, e);
  case EXPR_BINARY:
    return foresee_binary(w, e);
  case EXPR_COMPARE:
    for (size_t i = 0; i <= e->as.compare.n; i++)
      (void)foresee(w, e->as.compare.x[i]);
    return val_nil();
  case EXPR_CALL:
    return foresee_call(w, e);
  case EXPR_SPECIALIZE:
    return foresee_settings(w, e);
  case EXPR_ATTR:
    return foresee_attr(w, e);
  case EXPR_TUPLE:
  case EXPR_LIST:
    return foresee_list(w, e);
  case EXPR_BENCH:
  case EXPR_CHECK:
    (void)foresee(w, e->as.run);
    return val_nil();
  default:
    return val_nil();
  }
}

/* Statements ------------------------------------------------------------------------------- */

/* One name, or the parts of a tuple. */
static void bind_all(Walk *w, const AstDecls *names, Value v) {
  bool parts = names->n > 1 && v.kind == VAL_TUPLE && v.as.obj->as.list.n == names->n;
  for (size_t i = 0; i < names->n; i++) {
    Value part = names->v[i].type ? val_nil() : parts ? v.as.obj->as.list.v[i] : v;
    host_bind(w->s, names->v[i].name.text, names->n == 1 || parts ? part : val_nil());
  }
}

/* The variable itself stays; a new one hides it. */
static void assign(Walk *w, const AstStmt *st) {
  Value v = foresee(w, st->as.assign.value);
  for (size_t i = 0; i < st->as.assign.ntargets; i++) {
    const AstExpr *t = st->as.assign.targets[i];
    bool whole = st->as.assign.ntargets == 1 && st->as.assign.op == AST_NO_OP;
    if (t->kind == EXPR_NAME)
      host_bind(w->s, t->as.name, whole ? v : val_nil());
  }
}

/* A loop's body is taken to run, once; what a condition decides is not. */
static Value foresee_stmt(Walk *w, const AstStmt *st) {
  switch (st->kind) {
  case STMT_EXPR:
    (void)foresee(w, st->as.expr);
    break;
  case STMT_LET:
  case STMT_VAR:
    bind_all(w, &st->as.let.names, foresee(w, st->as.let.value));
    break;
  case STMT_ASSIGN:
    assign(w, st);
    break;
  case STMT_ASSERT:
    (void)foresee(w, st->as.assertion.cond);
    break;
  case STMT_FOR:
    for (size_t i = 0; i < st->as.loop.n; i++)
      host_bind(w->s, st->as.loop.names[i].text, val_nil());
    (void)foresee_block(w, &st->as.loop.body, 0);
    break;
  default:
    break;
  }
  return val_nil();
}

/* The value is that of a `return` in it. */
static Value foresee_block(Walk *w, const AstBlock *b, size_t from) {
  for (size_t i = from; i < b->n && !w->stop; i++) {
    if (w->statements++ == MOST_STATEMENTS)
      w->stop = true;
    else if (b->v[i]->kind == STMT_RETURN)
      return b->v[i]->as.result ? foresee(w, b->v[i]->as.result) : val_nil();
    else
      (void)foresee_stmt(w, b->v[i]);
  }
  return val_nil();
}

/* From the statement that runs now: its later calls are to come, and the variables that it will
 * bind are known. */
static void walk(Walk *w, Launch *l) {
  Rest rest = w->s->rest;
  if (!launch_variant(l)->gpu && device_begin(l) == GPU_START_BEGUN && rest.block)
    (void)foresee_block(w, rest.block, rest.at);
}

/* Under a boundary of its own, its errors told to nobody. */
static void quietly(Walk *w, void (*fn)(Session *s, void *ctx)) {
  Session *s = w->s;
  DiagSink told = s->diags;
  diag_init(&s->diags, s->line);
  s->ahead = true;
  (void)session_protect(s, fn, w);
  s->ahead = false;
  s->diags = told;
}

static void walk_from_launch(Session *s, void *ctx) {
  Walk *w = ctx;
  (void)s;
  walk(w, w->l);
}

void session_look_ahead(Launch *l) {
  Session *s = l->s;
  if (s->ahead || s->options.emit != EMIT_NOTHING || !s->gpu || !s->gpu->gpu)
    return;
  bool held = l->spec->held;
  l->spec->held = true;
  quietly(&(Walk){.s = s, .l = l}, walk_from_launch);
  l->spec->held = held;
  (void)spec_arena(l); /* under the boundary that is open now */
}

/* The driver is slower than this: there is time to lower what may have been compiled before. */
static void walk_from_call(Session *s, void *ctx) {
  Walk *w = ctx;
  Launch l;
  Args a = *w->args;
  launch_prepare(s, w->kernel, &a, &l);
  walk(w, &l);
}

void session_look_ahead_of_driver(Session *s, Value kernel, const Args *a) {
  if (!s->ahead && device_guess(s))
    quietly(&(Walk){.s = s, .kernel = kernel, .args = a}, walk_from_call);
}
