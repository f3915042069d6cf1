/* function.c: calls of the program's own functions.
 *
 * In: a function value and evaluated arguments. Out: its result. A function with typed scalar
 * parameters applies element by element to tensors: where its body only computes (lets and a
 * return) the body runs once on whole tensors, whose operators do the same; where it branches it
 * runs once an element. Tests: tests/lang/host_fn_*.tile.
 */
#include "impl.h"

#include <string.h>

/* Binding arguments ------------------------------------------------------------------------ */

/* A misspelt name is compared with the parameters'. */
static _Noreturn void wrong_argument(Args *a, const AstFn *fn, size_t i) {
  VEC(const char *) names = {0};
  for (size_t p = 0; p < fn->params.n; p++)
    VEC_PUSH(a->s->line, &names, fn->params.v[p].name.text);
  const char *near = names_closest(a->names[i], names.v, names.n);
  host_fail_hint(a->s, E0804, a->call ? a->call->as.call.args.v[i].name_span : a->spans[i],
                 near ? arena_printf(a->s->line, "did you mean %s?", near) : NULL,
                 "%s has no parameter %s", a->name, a->names[i]);
}

/* Arguments in the order of the parameters; each exactly once. */
static Value *order_args(Args *a, const AstFn *fn, Span *spans) {
  size_t n = fn->params.n;
  Value *v = ARENA_ARRAY(session_scratch(a->s), Value, n);
  bool *given = ARENA_ARRAY(session_scratch(a->s), bool, n);
  if (a->npos > n)
    host_fail(a->s, E0804, a->spans[n], "%s takes %zu argument%s, not %zu", a->name, n,
              n == 1 ? "" : "s", a->npos);
  for (size_t i = 0; i < a->n; i++) {
    size_t p = i;
    if (a->names[i])
      for (p = 0; p < n && fn->params.v[p].name.text != a->names[i]; p++)
        ;
    if (p == n)
      wrong_argument(a, fn, i);
    if (given[p])
      host_fail(a->s, E0804, a->spans[i], "%s is given twice", fn->params.v[p].name.text);
    given[p] = true;
    v[p] = a->v[i];
    spans[p] = a->spans[i];
  }
  for (size_t p = 0; p < n; p++)
    if (!given[p])
      host_fail(a->s, E0804, a->span, "%s needs an argument for %s", a->name,
                fn->params.v[p].name.text);
  return v;
}

/* DT_NONE for parameters without a scalar type. */
static DType scalar_type(const AstType *t) {
  DType type;
  if (t && t->base.text && !t->has_extents &&
      dtype_parse(t->base.text, strlen(t->base.text), &type))
    return type;
  return DT_NONE;
}

/* Running the body ------------------------------------------------------------------------- */

/* `-> f32` types what is returned; `-> (f32, i32)` each part of a tuple. */
static Value convert_result(Session *s, const AstType *t, Value v, Span span) {
  if (!t)
    return v;
  if (t->nparts > 0) {
    Value *parts = ARENA_ARRAY(session_scratch(s), Value, t->nparts);
    host_unpack(s, v, t->nparts, span, parts);
    for (size_t i = 0; i < t->nparts; i++)
      parts[i] = convert_result(s, t->parts[i], parts[i], span);
    return val_tuple(s, parts, t->nparts);
  }
  DType type = scalar_type(t);
  if (type != DT_NONE && v.kind == VAL_NIL)
    host_fail_hint(s, E0801, span, "`return x` gives the value",
                   "this function returned nothing, where its `->` says %s", dtype_name(type));
  return type == DT_NONE ? v : arith_convert(s, v, type, span);
}

/* A call: a frame of its own on the stack of locals, the globals of the file that defines it, a
 * scratch arena of its own. Depth is bounded by the guard and by the C stack, whichever ends
 * first. */
static Value run_body(Session *s, Value fn, const Value *v, Span span) {
  const AstFn *ast = fn.as.obj->as.fn.ast;
  size_t vars = s->vars.n, frame = s->frame, block = s->block;
  Module *module = s->module;
  Span doing = s->doing;
  session_stack(s, span);
  if (s->depth + 2 >= MAX_DEPTH || !guard_enter(s->guard))
    host_too_deep(s, span);
  CallFrame here = {ast->name.text, span, s->calls};
  s->calls = &here;
  val_keep(s, fn); /* the body may define the function anew */
  s->frame = vars;
  closure_enter(s, fn);
  s->block = s->vars.n;
  s->module = fn.as.obj->as.fn.module;
  for (size_t p = 0; p < ast->params.n; p++)
    host_bind(s, ast->params.v[p].name.text, v[p]);
  s->depth++;
  Value result = val_nil();
  Flow flow = host_block(s, &ast->body, &result);
  s->depth--;
  s->doing = doing;
  s->calls = here.up;
  host_drop_vars(s, vars);
  s->frame = frame;
  s->block = block;
  s->module = module;
  guard_leave(s->guard);
  if (flow == FLOW_RETURN) { /* do_return took a reference */
    val_keep(s, result);
    val_release(result);
  }
  return convert_result(s, ast->result, result, span);
}

/* Element by element ----------------------------------------------------------------------- */

static bool straight_expr(const AstExpr *e);

/* Arguments of an inner call; a call without any, such as time(), is no function of the
 * elements. */
static bool straight_args(const AstArgs *a) {
  for (size_t i = 0; i < a->n; i++)
    if (!straight_expr(a->v[i].value))
      return false;
  return true;
}

/* Does evaluating it on whole tensors mean the same as on each element? */
static bool straight_expr(const AstExpr *e) {
  switch (e->kind) {
  case EXPR_INT:
  case EXPR_FLOAT:
  case EXPR_BOOL:
  case EXPR_NAME:
    return true;
  case EXPR_UNARY:
    return e->as.unary.op != AST_NOT && straight_expr(e->as.unary.x);
  case EXPR_BINARY:
    return e->as.binary.op != AST_AND && e->as.binary.op != AST_OR &&
           e->as.binary.op != AST_MATMUL && straight_expr(e->as.binary.x) &&
           straight_expr(e->as.binary.y);
  case EXPR_COMPARE:
    return e->as.compare.n == 1 && straight_expr(e->as.compare.x[0]) &&
           straight_expr(e->as.compare.x[1]);
  case EXPR_CALL:
    return e->as.call.fn->kind == EXPR_NAME && straight_args(&e->as.call.args) &&
           e->as.call.args.n > 0;
  default:
    return false;
  }
}

/* Only lets of one name and a return; anything else may branch or have effects. */
static bool straight(const AstFn *fn) {
  for (size_t i = 0; i < fn->body.n; i++) {
    const AstStmt *st = fn->body.v[i];
    bool ok = st->kind == STMT_LET      ? st->as.let.names.n == 1 && straight_expr(st->as.let.value)
              : st->kind == STMT_RETURN ? st->as.result && straight_expr(st->as.result)
                                        : false;
    if (!ok)
      return false;
  }
  return true;
}

/* The arguments of one call for an element: tensors are replaced by their element there. */
static Value call_at(Session *s, Value fn, const Value *v, Tensor *const *views, size_t n,
                     const int64_t *index, Value *one, Span span) {
  for (size_t p = 0; p < n; p++)
    one[p] = views[p] ? val_scalar(tensor_get(views[p], index), true) : v[p];
  return run_body(s, fn, one, span);
}

/* views: the tensor arguments stretched to one shape, NULL for the others. */
static Value each_element(Session *s, Value fn, const Value *v, Tensor *const *views, size_t n,
                          const Tensor *shape, Span span) {
  const AstFn *ast = fn.as.obj->as.fn.ast;
  int64_t index[TENSOR_MAX_RANK] = {0};
  Value *one = ARENA_ARRAY(session_scratch(s), Value, n);
  DType type = scalar_type(ast->result);
  Tensor *out = NULL;
  Value result = val_nil();
  Str why = session_str(s);
  if (tensor_count(shape) == 0)
    return host_new_tensor(s,
                           session_tensor(s, type == DT_NONE ? DT_F32 : type, shape->rank,
                                          shape->extent, TENSOR_ZERO, &why),
                           &why, span);
  do {
    size_t temps = s->temps.n;
    session_poll(s);
    Value x = call_at(s, fn, v, views, n, index, one, span);
    if (!val_is_scalar(x))
      host_fail(s, E0801, span, "%s must give a scalar to be applied to tensors, not %s",
                ast->name.text, val_describe(s, x));
    if (!out) {
      out = session_tensor(s, val_to_scalar(x).type, shape->rank, shape->extent, TENSOR_ZERO, &why);
      result = host_new_tensor(s, out, &why, span);
      temps = s->temps.n;
    }
    tensor_set(out, index, val_to_scalar(x));
    host_drop_temps(s, temps);
  } while (tensor_next(shape, index));
  return result;
}

/* Stretches the tensor arguments of typed scalar parameters to one shape. */
static Value map_elements(Session *s, Value fn, const Value *v, Span span) {
  const AstFn *ast = fn.as.obj->as.fn.ast;
  size_t n = ast->params.n;
  Tensor **views = ARENA_ARRAY(session_scratch(s), Tensor *, n);
  Tensor *shape = NULL;
  Str why = session_str(s);
  for (size_t pass = 0; pass < 2; pass++)
    for (size_t p = 0; p < n; p++) {
      if (v[p].kind != VAL_TENSOR || scalar_type(ast->params.v[p].type) == DT_NONE)
        continue;
      Tensor *t = host_tensor(s, v[p], span, "the argument");
      if (pass == 1 || !shape) {
        views[p] = pass == 0
                       ? t
                       : host_new_tensor(s, tensor_broadcast(t, shape->rank, shape->extent, &why),
                                         &why, span)
                             .as.tensor;
        shape = shape ? shape : t;
        continue;
      }
      int rank;
      int64_t extent[TENSOR_MAX_RANK];
      if (!tensor_broadcast_shape(shape, t, &rank, extent, &why))
        host_fail(s, E0802, span, "%s", str_text(&why));
      shape = host_new_tensor(s, tensor_broadcast(shape, rank, extent, &why), &why, span).as.tensor;
    }
  return each_element(s, fn, v, views, n, shape, span);
}

/* Typed parameters convert their arguments first, tensors element by element. */
Value host_call_fn(Session *s, Value fn, Args *a) {
  const AstFn *ast = fn.as.obj->as.fn.ast;
  Span *spans = ARENA_ARRAY(session_scratch(s), Span, ast->params.n);
  Value *v = order_args(a, ast, spans);
  bool spread = false;
  for (size_t p = 0; p < ast->params.n; p++) {
    DType type = scalar_type(ast->params.v[p].type);
    if (type == DT_NONE)
      continue;
    v[p] = arith_convert(s, v[p], type, spans[p]);
    spread |= v[p].kind == VAL_TENSOR;
  }
  if (spread && !straight(ast))
    return map_elements(s, fn, v, a->span);
  return run_body(s, fn, v, a->span);
}
