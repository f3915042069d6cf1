/* assert.c: `assert c, "message"`, and why its condition was false.
 *
 * In: an assert statement. Out: nothing, or E0400 with the values that the form of the condition
 * tells: both sides of a comparison, the worst element that allclose or maxdiff found, the scalars
 * named in it. Nothing is evaluated twice. Tests: tests/errors/host_assert_*.tile.
 */
#include "impl.h"

/* A tensor is named by its type: its elements would drown the message. */
static void add_operand(Session *s, const char *which, Value v, Str *out) {
  str_addf(out, "%s is ", which);
  if (v.kind == VAL_TENSOR)
    str_add(out, val_describe(s, v));
  else
    val_print(s, v, true, out);
}

/* Names of scalars that occur in the condition, with their values; at most four. */
static void add_names(Session *s, const AstExpr *e, Str *out, int *n) {
  Value *place;
  switch (e->kind) {
  case EXPR_NAME:
    place = host_lookup(s, e->as.name);
    if (!place || *n >= 4 || !(val_is_scalar(*place) || place->kind == VAL_STRING))
      return;
    str_add(out, (*n)++ ? ", " : ": ");
    add_operand(s, e->as.name, *place, out);
    return;
  case EXPR_UNARY:
    add_names(s, e->as.unary.x, out, n);
    return;
  case EXPR_BINARY:
    add_names(s, e->as.binary.x, out, n);
    add_names(s, e->as.binary.y, out, n);
    return;
  case EXPR_COMPARE:
    for (size_t i = 0; i <= e->as.compare.n; i++)
      add_names(s, e->as.compare.x[i], out, n);
    return;
  case EXPR_CALL:
    for (size_t i = 0; i < e->as.call.args.n; i++)
      add_names(s, e->as.call.args.v[i].value, out, n);
    return;
  default:
    return;
  }
}

/* The worst element of the comparison that allclose or maxdiff has just made. */
static void add_close(Session *s, Str *out) {
  const TensorDiff *d = &s->close;
  Str at = session_str(s);
  tensor_add_shape(d->rank, d->where, &at);
  str_addf(out, ": %lld of %lld elements differ; the worst is at %s: ", (long long)d->count,
           (long long)d->total, str_text(&at));
  scalar_print(d->a, out);
  str_add(out, " against ");
  scalar_print(d->b, out);
}

/* What made the condition false, as far as its form tells. */
static void explain(Session *s, const AstExpr *e, const Value *operands, Str *out) {
  int n = 0;
  if (e->kind == EXPR_COMPARE && e->as.compare.n == 1) {
    str_add(out, ": ");
    add_operand(s, "the left side", operands[0], out);
    str_add(out, ", ");
    add_operand(s, "the right side", operands[1], out);
    if (s->close_set)
      add_close(s, out);
  } else if (s->close_set) {
    add_close(s, out);
  } else {
    add_names(s, e, out, &n);
  }
}

/* Operands of a single comparison are kept, so the message can show both sides without
 * evaluating them again. */
void host_assert(Session *s, const AstStmt *st) {
  const AstExpr *e = st->as.assertion.cond;
  Value operands[2] = {val_nil(), val_nil()}, v;
  s->close_set = false;
  if (e->kind == EXPR_COMPARE && e->as.compare.n == 1)
    v = host_compare_chain(s, e, operands);
  else
    v = host_eval(s, e);
  if (v.kind != VAL_BOOL)
    host_fail_hint(s, E0806, e->span,
                   v.kind == VAL_TENSOR ? "all(x) makes one bool of a tensor" : NULL,
                   "assert takes a bool, not %s", val_describe(s, v));
  if (v.as.b)
    return;
  Str text = session_str(s);
  if (st->as.assertion.message) {
    str_add(&text, ": ");
    val_print(s, host_eval(s, st->as.assertion.message), false, &text);
  }
  explain(s, e, operands, &text);
  host_fail(s, E0400, e->span, "assertion failed%s", str_text(&text));
}
