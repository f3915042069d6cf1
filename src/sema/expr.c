/* expr.c: operators, names, literals, choices.
 *
 * In: syntax of an expression. Out: a typed one, constants folded, conversions written, shapes
 * broadcast; TY_ERROR where something was reported. What can be decided when the kernel is compiled
 * is decided here: the side of a choice that is not taken is never looked at.
 * Operands are typed in the order of evaluation, left to right; the one place where that order
 * could not hold, operands that may not be evaluated at all, keeps its statements inside
 * (sema_check_lazy). Compile-time values are TE_CONST, TE_STRING and TE_DTYPE nodes: there is no
 * second evaluator. Tests: tests/unit/check_sema.c, tests/lang/expr_*.tile, tests/errors.
 */
#include "private.h"

#include <string.h>

/* ---------------------------------------------------------------- lazy operators, choices */

/* What the operand needs before it (an inlined body) must not run where the operand does not: it
 * is kept with it, as a TE_SEQ. */
TExpr *sema_check_lazy(Check *c, const AstExpr *e) {
  TStmts body = {0}, *out = c->out;
  c->out = &body;
  TExpr *v = sema_check_expr(c, e);
  c->out = out;
  /* Nothing had to be said before it: it may be evaluated like any other. */
  if (!body.n || sema_is_error(v))
    return v;
  TExpr *seq = sema_texpr_new(c, TE_SEQ, v->type, e->span);
  seq->as.inlined.body = body;
  seq->as.inlined.value = v;
  return seq;
}

/* Numbers and tiles are never conditions; the hints say how to make a bool of them. */
static bool want_bool(Check *c, const TExpr *e, const AstExpr *ast, const char *what) {
  if (sema_is_error(e))
    return false;
  if (sema_is_num(e) && e->type.dtype == DT_BOOL)
    return true;
  Diag *d = diag_add(c->sink, E0201, e->span, "%s is a bool scalar, this is %s", what,
                     sema_describe(c, e));
  const char *text = sema_source_text(c, ast);
  if (sema_is_num(e) && text)
    diag_hint(c->sink, d, "write %s != 0", text);
  else if (sema_is_tile(e) && e->type.dtype == DT_BOOL)
    diag_hint(c->sink, d, "any(…) or all(…) makes one of it; & | ~ and where work on tiles");
  return false;
}

/* Decides compile-time branches. */
bool sema_known_bool(const TExpr *e, bool *v) {
  if (e->kind != TE_CONST || e->type.dtype != DT_BOOL)
    return false;
  *v = e->as.value.as.i != 0;
  return true;
}

/* A condition of `if`, `while`, or of a conditional value. */
TExpr *sema_check_cond(Check *c, const AstExpr *e) {
  TExpr *v = sema_check_expr(c, e);
  return want_bool(c, v, e, "a condition") ? v : sema_texpr_error(c, e->span);
}

/* A side known when compiling decides alone: what it makes unreachable is not even looked at. */
static TExpr *logical(Check *c, const AstExpr *e) {
  bool is_or = e->as.binary.op == AST_OR, known;
  const char *what = is_or ? "an operand of `or`" : "an operand of `and`";
  TExpr *x = sema_check_expr(c, e->as.binary.x);
  bool ok = want_bool(c, x, e->as.binary.x, what);
  /* false and …, true or …: decided. */
  if (ok && sema_known_bool(x, &known) && known == is_or)
    return sema_texpr_bool(c, known, e->span);
  TExpr *y = sema_check_lazy(c, e->as.binary.y);
  if (!want_bool(c, y, e->as.binary.y, what) || !ok)
    return sema_texpr_error(c, e->span);
  if (sema_is_const(x))
    return y;
  TExpr *r = sema_texpr_new(c, is_or ? TE_OR : TE_AND, sema_type_num(DT_BOOL, false), e->span);
  r->arg = ARENA_ARRAY(c->a, TExpr *, 2);
  r->arg[0] = x;
  r->arg[1] = y;
  r->nargs = 2;
  return r;
}

/* The value after the statements it needs; just the value where there are none. */
static TExpr *in_seq(Check *c, const TStmts *body, TExpr *value) {
  if (!body || !body->n)
    return value;
  TExpr *e = sema_texpr_new(c, TE_SEQ, value->type, value->span);
  e->as.inlined.body = *body;
  e->as.inlined.value = value;
  return e;
}

/* Numbers and tiles may be chosen between, with broadcasting; other kinds must be decided early.
 */
static bool same_kinds(Check *c, const TExpr *x, const TExpr *y, Span span) {
  if (sema_is_error(x) || sema_is_error(y))
    return false;
  if ((sema_is_num(x) || sema_is_tile(x)) && (sema_is_num(y) || sema_is_tile(y)))
    return true;
  diag_add(c->sink, E0213, span, "the two sides of a choice do not go together: %s and %s",
           sema_describe(c, x), sema_describe(c, y));
  return false;
}

/* Two ways to one value, as for `x if c else y` and early returns: the types meet, and each side
 * keeps the statements that only it needs. */
TExpr *sema_merge(Check *c, TExpr *cond, TStmts *then_body, TExpr *then, TStmts *other_body,
                  TExpr *other, Span span) {
  if (sema_is_error(cond) || !same_kinds(c, then, other, span))
    return sema_texpr_error(c, span);
  SemaRule r;
  if (!sema_meet(c->a, SEMA_KERNEL, sema_num_of(c, then, NULL), sema_num_of(c, other, NULL), &r))
    return sema_report_rule(c, &r, span);
  SemaType t;
  if (!sema_broadcast(c, then, other, span, &t))
    return sema_texpr_error(c, span);
  t.dtype = r.dtype;
  t.untyped = r.untyped;
  then = sema_convert(c, then, r.dtype);
  other = sema_convert(c, other, r.dtype);
  if (sema_is_error(then) || sema_is_error(other))
    return sema_texpr_error(c, span);
  TExpr *e = sema_texpr_new(c, TE_COND, t, span);
  e->arg = ARENA_ARRAY(c->a, TExpr *, 3);
  e->arg[0] = in_seq(c, then_body, then);
  e->arg[1] = cond;
  e->arg[2] = in_seq(c, other_body, other);
  e->nargs = 3;
  return e;
}

/* The tuple that a side is, and the statements that it needs; NULL: it is none. */
static TExpr *tuple_after(TExpr *e, TStmts *body) {
  if (e->kind == TE_SEQ && e->as.inlined.value->kind == TE_TUPLE) {
    *body = e->as.inlined.body;
    return e->as.inlined.value;
  }
  return e->kind == TE_TUPLE ? e : NULL;
}

/* With a compile-time condition the other side may be nonsense: it is not checked. */
static TExpr *choice(Check *c, const AstExpr *e) {
  TExpr *cond = sema_check_cond(c, e->as.cond.cond);
  bool known;
  if (sema_known_bool(cond, &known))
    return sema_check_expr(c, known ? e->as.cond.then : e->as.cond.other);
  if (sema_is_error(cond))
    return cond;
  TExpr *then = sema_check_lazy(c, e->as.cond.then);
  TExpr *other = sema_check_lazy(c, e->as.cond.other);
  TStmts before = {0}, otherwise = {0};
  TExpr *x = tuple_after(then, &before), *y = tuple_after(other, &otherwise);
  if (x && y)
    return sema_merge_tuples(c, cond, &before, x, &otherwise, y, e->span);
  return sema_merge(c, cond, NULL, then, NULL, other, e->span);
}

/* ---------------------------------------------------------------- comparisons */

/* Strings and dtypes are compared while compiling. */
static bool equal_words(const TExpr *x, const TExpr *y) {
  if (x->kind == TE_DTYPE)
    return x->type.dtype == y->type.dtype;
  return x->as.string.n == y->as.string.n &&
         memcmp(x->as.string.s, y->as.string.s, x->as.string.n) == 0;
}

/* Strings and dtypes are known when the kernel is compiled. */
static TExpr *compare_words(Check *c, AstOp op, const TExpr *x, const TExpr *y, Span span) {
  if (x->kind != y->kind || (op != AST_EQ && op != AST_NE)) {
    diag_add(c->sink, E0205, span, "`%s` does not compare %s with %s", ast_op_text(op),
             sema_describe(c, x), sema_describe(c, y));
    return sema_texpr_error(c, span);
  }
  return sema_texpr_bool(c, equal_words(x, y) == (op == AST_EQ), span);
}

/* Values that exist only while compiling. */
static bool is_word(const TExpr *e) {
  return e->kind == TE_STRING || e->kind == TE_DTYPE;
}

/* Words with words, numbers with numbers. A parameter that no call has set yet may be either. */
static TExpr *compare_two(Check *c, AstOp op, TExpr *x, TExpr *y, const AstExpr *ax,
                          const AstExpr *ay, Span span) {
  if ((is_word(x) && sema_is_error(y)) || (is_word(y) && sema_is_error(x)))
    return sema_texpr_error(c, span);
  if (is_word(x) || is_word(y))
    return compare_words(c, op, x, y, span);
  return sema_operate(c, op, x, y, ax, ay, span);
}

/* Joins two parts of a chained comparison, without asking for the second where the first decides.
 */
static TExpr *both(Check *c, TExpr *x, TExpr *y, Span span) {
  bool known;
  if (sema_is_error(x) || sema_is_error(y))
    return sema_texpr_error(c, span);
  if (sema_known_bool(x, &known))
    return known ? y : x;
  TExpr *e = sema_texpr_new(c, TE_AND, sema_type_num(DT_BOOL, false), span);
  e->arg = ARENA_ARRAY(c->a, TExpr *, 2);
  e->arg[0] = x;
  e->arg[1] = y;
  e->nargs = 2;
  return e;
}

/* Element by element the joint is `&`, and the middle would be computed twice: the author says it.
 */
static void chained_tiles(Check *c, const AstExpr *e) {
  const char *a = sema_source_text(c, e->as.compare.x[0]);
  const char *b = sema_source_text(c, e->as.compare.x[1]);
  const char *z = sema_source_text(c, e->as.compare.x[2]);
  Diag *d = diag_add(c->sink, E0205, e->span, "comparisons of tiles do not chain");
  if (a && b && z)
    diag_hint(c->sink, d, "(%s %s %s) & (%s %s %s)", a, ast_op_text(e->as.compare.ops[0]), b, b,
              ast_op_text(e->as.compare.ops[1]), z);
}

/* `a < b < c` is two comparisons with b once: where b loads or calls something, it gets a name
 * first. */
static TExpr *compare(Check *c, const AstExpr *e) {
  AstExpr **x = e->as.compare.x;
  size_t n = e->as.compare.n;
  TExpr *left = sema_check_expr(c, x[0]), *result = NULL;
  for (size_t i = 0; i < n; i++) {
    TExpr *right = sema_check_expr(c, x[i + 1]);
    if (n > 1 && (sema_is_tile(left) || sema_is_tile(right))) {
      chained_tiles(c, e);
      return sema_texpr_error(c, e->span);
    }
    /* Both neighbours use it. */
    if (i + 1 < n && sema_is_num(right) && !sema_is_pure(right))
      right = sema_bind_value(c, "middle", right, x[i + 1]->span);
    TExpr *r = compare_two(c, e->as.compare.ops[i], left, right, x[i], x[i + 1],
                           span_join(x[i]->span, x[i + 1]->span));
    result = result ? both(c, result, r, e->span) : r;
    left = right;
  }
  return result;
}

/* ---------------------------------------------------------------- leaves */

/* From 2^63 on only a u64 can take it; it stays a constant of type U64 until it meets one. */
static TExpr *integer(Check *c, uint64_t v, Span span) {
  Scalar s = {.type = v > INT64_MAX ? DT_U64 : DT_I64, .as.u = v};
  return sema_texpr_const(c, s, true, span);
}

/* Declared names first, then dtypes and `sms`: a declaration hides them. */
static TExpr *name(Check *c, const AstExpr *e) {
  const char *text = e->as.name;
  Sym *s = sema_sym_find(c, text);
  /* A read of the variable as it is then. */
  if (s && s->kind == SYM_VAR)
    return sema_texpr_var(c, s->var, false, e->span);
  if (s && s->kind == SYM_BARRIER) {
    Diag *d = diag_add(c->sink, E0316, e->span, "%s is a barrier: it has no value", text);
    diag_hint(c->sink, d, "only arrive, wait and the signal of a copy name it");
    return sema_texpr_error(c, e->span);
  }
  if (s && (s->kind == SYM_POISON || !sema_role_owns(c, s, e->span)))
    return sema_texpr_error(c, e->span);
  if (s) {
    TExpr *v = ARENA_NEW(c->a, TExpr);
    /* A copy, for its place: messages point at the use, not at the declaration. */
    *v = *s->value;
    v->span = e->span;
    return v;
  }
  DType t;
  if (dtype_parse(text, strlen(text), &t)) {
    TExpr *v = sema_texpr_new(c, TE_DTYPE, sema_type_kind(TY_DTYPE), e->span);
    v->type.dtype = t;
    return v;
  }
  if (strcmp(text, "sms") == 0 && c->tree) {
    if (!c->tree->sms) {
      c->tree->sms = sema_tvar_new(c, TV_SMS, text, DT_I64, e->span);
      /* Any target has one at least. */
      c->tree->sms->lo = 1;
    }
    return sema_texpr_var(c, c->tree->sms, true, e->span);
  }
  return sema_unknown_name(c, text, e->span);
}

/* Only for compile-time choices, print and assert. */
static TExpr *string(Check *c, const AstExpr *e) {
  TExpr *v = sema_texpr_new(c, TE_STRING, sema_type_kind(TY_STRING), e->span);
  v->as.string.s = e->as.string.s;
  v->as.string.n = e->as.string.n;
  return v;
}

/* An error in one part silences the whole. */
static TExpr *tuple(Check *c, const AstExpr *e) {
  TExpr *v = sema_texpr_new(c, TE_TUPLE, sema_type_kind(TY_TUPLE), e->span);
  v->arg = ARENA_ARRAY(c->a, TExpr *, e->as.list.n);
  v->nargs = (int)e->as.list.n;
  for (size_t i = 0; i < e->as.list.n; i++) {
    v->arg[i] = sema_check_expr(c, e->as.list.v[i]);
    if (sema_is_error(v->arg[i]))
      v->type.kind = TY_ERROR;
  }
  return v;
}

/* -2^63 has no positive counterpart in 64 bits, and is the one such literal. */
static bool least_int(const AstExpr *e) {
  return e->as.unary.op == AST_NEG && e->as.unary.x->kind == EXPR_INT &&
         e->as.unary.x->as.integer == (uint64_t)INT64_MAX + 1;
}

/* A minus before a literal gives a negative literal: constants fold. */
static TExpr *unary(Check *c, const AstExpr *e) {
  if (least_int(e))
    return sema_texpr_int(c, INT64_MIN, e->span);
  TExpr *x = sema_check_expr(c, e->as.unary.x);
  if (!sema_operand_ok(c, x))
    return sema_texpr_error(c, e->span);
  SemaRule r;
  if (!sema_unary(c->a, SEMA_KERNEL, e->as.unary.op, sema_num_of(c, x, e->as.unary.x), &r))
    return sema_report_rule(c, &r, e->span);
  return sema_apply_rule(c, &r, &x, 1, e->span);
}

/* Operands are typed left to right, which is the order of evaluation. */
static TExpr *operation(Check *c, const AstExpr *e) {
  if (e->as.binary.op == AST_AND || e->as.binary.op == AST_OR)
    return logical(c, e);
  TExpr *x = sema_check_expr(c, e->as.binary.x);
  TExpr *y = sema_check_expr(c, e->as.binary.y);
  if (e->as.binary.op == AST_MATMUL)
    return sema_check_product(c, x, y, e, e->as.binary.x, e->as.binary.y);
  return sema_operate(c, e->as.binary.op, x, y, e->as.binary.x, e->as.binary.y, e->span);
}

/* Things of the host. */
static TExpr *misplaced(Check *c, const AstExpr *e) {
  static const char *const what[EXPR_COUNT] = {
      [EXPR_NIL] = "nil",     [EXPR_LIST] = "a list", [EXPR_LAMBDA] = "a map of indices",
      [EXPR_BENCH] = "bench", [EXPR_CHECK] = "check", [EXPR_SPECIALIZE] = "a kernel"};
  if (e->kind != EXPR_ERROR)
    diag_add(c->sink, E0104, e->span, "%s has no place inside a kernel",
             what[e->kind] ? what[e->kind] : "this");
  return sema_texpr_error(c, e->span);
}

/* One case a kind of the syntax tree. */
static TExpr *expression(Check *c, const AstExpr *e) {
  switch (e->kind) {
  case EXPR_INT:
    return integer(c, e->as.integer, e->span);
  case EXPR_FLOAT:
    return sema_texpr_const(c, (Scalar){.type = DT_F64, .as.f = e->as.number}, true, e->span);
  case EXPR_BOOL:
    return sema_texpr_bool(c, e->as.boolean, e->span);
  case EXPR_STRING:
    return string(c, e);
  case EXPR_NAME:
    return name(c, e);
  case EXPR_UNARY:
    return unary(c, e);
  case EXPR_BINARY:
    return operation(c, e);
  case EXPR_COMPARE:
    return compare(c, e);
  case EXPR_COND:
    return choice(c, e);
  case EXPR_CALL:
    return sema_check_call(c, e);
  case EXPR_INDEX:
    return sema_check_index(c, e);
  case EXPR_ATTR:
    return sema_check_attr(c, e);
  case EXPR_TUPLE:
    return tuple(c, e);
  default:
    return misplaced(c, e);
  }
}

/* Depth is counted across inlined fns too. */
TExpr *sema_check_expr(Check *c, const AstExpr *e) {
  TExpr *r = sema_enter(c, e->span) ? expression(c, e) : sema_texpr_error(c, e->span);
  sema_leave(c);
  return r;
}

/* ---------------------------------------------------------------- what a place demands */

/* A number or tile; global tensors come in by copy. */
TExpr *sema_check_value(Check *c, const AstExpr *e) {
  TExpr *v = sema_check_expr(c, e);
  return sema_operand_ok(c, v) ? v : sema_texpr_error(c, e->span);
}

/* what: the place's name in the message ("a bound"). */
TExpr *sema_check_scalar(Check *c, const AstExpr *e, const char *what) {
  TExpr *v = sema_check_value(c, e);
  if (!sema_is_tile(v))
    return v;
  diag_add(c->sink, E0214, e->span, "%s is a scalar, this is %s", what, sema_describe(c, v));
  return sema_texpr_error(c, e->span);
}

/* Indices and extents of any integer type become i64 here, once. */
TExpr *sema_check_int(Check *c, const AstExpr *e, const char *what) {
  TExpr *v = sema_check_scalar(c, e, what);
  if (sema_is_error(v))
    return v;
  if (!dtype_is_int(v->type.dtype)) {
    diag_add(c->sink, E0216, e->span, "%s is an integer, this is %s", what, sema_describe(c, v));
    return sema_texpr_error(c, e->span);
  }
  return sema_convert(c, v, DT_I64);
}

/* A symbolic extent can be made static: the hint says so. */
Diag *sema_not_constant(Check *c, const AstExpr *e, const TExpr *v, const char *what) {
  if (sema_is_error(v))
    return NULL;
  Diag *d = diag_add(c->sink, E0210, e->span, "%s must be known when the kernel is compiled", what);
  if (v->kind == TE_VAR && v->as.var->kind == TV_EXTENT)
    diag_hint(c->sink, d, "`static %s` where %s is bound makes it known", v->as.var->name,
              v->as.var->name);
  return d;
}

/* For extents, axes, stages: they are part of types or of the schedule. */
bool sema_check_const_int(Check *c, const AstExpr *e, const char *what, int64_t *v) {
  TExpr *x = sema_check_int(c, e, what);
  bool known = sema_is_const_int(x, v);
  if (!known)
    sema_not_constant(c, e, x, what);
  return known;
}

/* For options. */
bool sema_check_const_bool(Check *c, const AstExpr *e, const char *what, bool *v) {
  TExpr *x = sema_check_expr(c, e);
  if (!want_bool(c, x, e, what))
    return false;
  bool known = sema_known_bool(x, v);
  if (!known)
    sema_not_constant(c, e, x, what);
  return known;
}
