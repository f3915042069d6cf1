/* expr.c: expressions.
 *
 * In: the stream at an expression. Out: its tree; an ERROR node where it could not be read (then
 * the stream has failed). One loop over the table of binary operators in ast.def, the rest is plain
 * descent. The grammar, loosest first:
 *
 *   expr     = binary [ 'if' binary 'else' expr ]
 *   binary   = operands joined by or, and, | ^ & << >> + - * / // % @, by precedence (ast.def)
 *   not      = 'not' not | compare             compare = binary { ( == != < <= > >= ) binary }
 *   unary    = ( '-' | '+' | '~' ) unary | postfix [ '**' unary ]
 *   postfix  = primary { '(' args ')' | '[' axes ']' | '[' settings ']' | '.' NAME }
 *   primary  = literal | NAME | '(' [ expr { ',' expr } ] ')' | '[' … ']' | bench call | check call
 *   axis     = 'None' | expr | [ expr ] ':' [ expr ] [ ':' [ expr ] ] | [ expr ] ':+' expr …
 *   args     = { expr ',' } { NAME '=' expr ',' }   settings = NAME '=' expr { ',' … }
 *
 * Always holds: a node's depth is one more than its deepest child's, and at most
 * AST_MAX_EXPR_DEPTH. Tests: tests/unit/check_parser.c, tests/lang/syntax_*.tile.
 */
#include <math.h>

#include "state.h"

enum { PREC_OR = 1, PREC_NOT = 3, PREC_COMPARE = 4, PREC_TIGHTEST = 11, PREC_POW = 12 };

static const struct BinaryOp {
  uint8_t op, prec;
} binary_ops[T_COUNT] = {
#define BINARY(op, text, prec, token) [T_##token] = {AST_##op, prec},
#include "ast.def"
};
static const uint8_t compare_ops[T_COUNT] = {
#define COMPARE(op, text, token) [T_##token] = AST_##op,
#include "ast.def"
};
static const uint8_t unary_ops[T_COUNT] = {
#define UNARY(op, text, token) [T_##token] = AST_##op,
#include "ast.def"
};

/* Operators that bind at least as tightly as min_prec, by climbing: the right side takes only what
 * binds tighter, so equals group to the left. */
static AstExpr *parse_binary(Parser *p, unsigned min_prec);
/* Calls, indices and members bind tightest and follow each other at will. */
static AstExpr *parse_postfix(Parser *p);

/* A node that begins at `begin` and ends with the last token read. */
static AstExpr *node(Parser *p, AstExprKind kind, Span begin) {
  AstExpr *e = ARENA_NEW(p->arena, AstExpr);
  e->kind = kind;
  e->depth = 1;
  e->span = parse_span_from(p, begin);
  return e;
}

/* Makes e at least one deeper than a child. */
static void above(Parser *p, AstExpr *e, const AstExpr *child) {
  if (child && child->depth >= e->depth)
    e->depth = (uint16_t)(child->depth + 1);
  if (e->depth > AST_MAX_EXPR_DEPTH) {
    Span here = e->span; /* the end of a chain, not all of it */
    here.begin = here.end - 1;
    parse_too_deep(p, here);
  }
}

/* Where no expression could be read; never in the tree of a PARSE_OK. */
AstExpr *parse_error_expr(Parser *p) {
  return node(p, EXPR_ERROR, parse_span(p));
}

/* ---- literals, names, brackets ---- */

/* The lexer has checked the digits; here only the size of a float can be wrong. */
static AstExpr *parse_number(Parser *p) {
  bool is_int = parse_at(p, T_INT);
  const Token *t = parse_token(p, 0);
  Span span = parse_span(p);
  parse_advance(p);
  AstExpr *e = node(p, is_int ? EXPR_INT : EXPR_FLOAT, span);
  if (is_int) {
    e->as.integer = lex_int(&p->t, t);
    return e;
  }
  e->as.number = lex_float(p->arena, &p->t, t);
  if (isinf(e->as.number))
    parse_hint(p, parse_warn(p, E0007, span, "this number is too large for an f64"),
               "the largest is about 1.8e308; infinity is written `inf`");
  return e;
}

/* Escapes were checked by the lexer and are replaced here, once. */
static AstExpr *parse_string(Parser *p) {
  const Token *t = parse_token(p, 0);
  Span span = parse_span(p);
  parse_advance(p);
  AstExpr *e = node(p, EXPR_STRING, span);
  e->as.string.s = lex_string(p->arena, &p->t, t, &e->as.string.n);
  return e;
}

/* Names and the words that are values. */
static AstExpr *parse_word_value(Parser *p, AstExprKind kind) {
  TokenKind word = parse_kind(p);
  const Token *t = parse_token(p, 0);
  Span span = parse_span(p);
  parse_advance(p);
  AstExpr *e = node(p, kind, span);
  if (kind == EXPR_NAME)
    e->as.name = parse_text(p, t);
  else if (kind == EXPR_BOOL)
    e->as.boolean = word == T_TRUE;
  else if (kind == EXPR_FLOAT)
    e->as.number = word == T_INF ? (double)INFINITY : (double)NAN;
  return e;
}

/* A list or tuple of what was parsed. */
static AstExpr *sequence(Parser *p, AstExprKind kind, Span at, AstExpr **v, size_t n) {
  AstExpr *list = node(p, kind, at);
  list->as.list.v = v;
  list->as.list.n = n;
  for (size_t i = 0; i < n; i++)
    above(p, list, v[i]);
  return list;
}

/* Elements up to the closing bracket; *comma says whether one was written. */
static AstExpr *parse_elements(Parser *p, AstExprKind kind, Bracket b, bool *comma) {
  VEC(AstExpr *) v = {0};
  *comma = false;
  while (!parse_at(p, b.close) && !p->failed) {
    AstExpr *e = parse_expr(p);
    VEC_PUSH(p->arena, &v, e);
    if (!parse_at(p, T_COMMA))
      break;
    *comma = true;
    parse_advance(p);
  }
  parse_close(p, b);
  return sequence(p, kind, b.open, v.v, v.n);
}

/* `(x)`, `()`, `(x,)`, `(x, y)`. */
static AstExpr *parse_paren(Parser *p) {
  Bracket b = parse_open(p);
  bool comma;
  AstExpr *tuple = parse_elements(p, EXPR_TUPLE, b, &comma);
  tuple->paren = true;
  if (tuple->as.list.n != 1 || comma)
    return tuple;
  AstExpr *x = tuple->as.list.v[0];
  x->paren = true;
  x->span = tuple->span;
  return x;
}

/* A list needs no comma to be one, unlike a tuple. */
static AstExpr *parse_list(Parser *p) {
  Bracket b = parse_open(p);
  bool comma;
  return parse_elements(p, EXPR_LIST, b, &comma);
}

/* `bench f(x)`, `check f(x)`. */
static AstExpr *parse_run(Parser *p, AstExprKind kind) {
  Span span = parse_span(p);
  parse_advance(p);
  if (!parse_enter(p))
    return parse_error_expr(p);
  AstExpr *call = parse_postfix(p);
  parse_leave(p);
  AstExpr *e = node(p, kind, span);
  e->as.run = call;
  above(p, e, call);
  if (call->kind == EXPR_CALL || p->failed)
    return e;
  const char *word = kind == EXPR_BENCH ? "bench" : "check";
  Diag *d = parse_fail(p, E0045, call->span, "`%s` wants a kernel call", word);
  if (call->kind == EXPR_ATTR)
    parse_hint(p, d, "to use a figure of the result, write (%s f(x)).%s", word,
               call->as.attr.name.text);
  else
    parse_hint(p, d, "write %s f(x), with the kernel's arguments", word);
  return e;
}

/* What an expression begins with. */
static AstExpr *parse_primary(Parser *p) {
  switch (parse_kind(p)) {
  case T_INT:
  case T_FLOAT:
    return parse_number(p);
  case T_STRING:
    return parse_string(p);
  case T_NAME:
    return parse_word_value(p, EXPR_NAME);
  case T_TRUE:
  case T_FALSE:
    return parse_word_value(p, EXPR_BOOL);
  case T_NIL:
    return parse_word_value(p, EXPR_NIL);
  case T_INF:
  case T_NAN:
    return parse_word_value(p, EXPR_FLOAT);
  case T_LPAREN:
    return parse_paren(p);
  case T_LBRACKET:
    return parse_list(p);
  case T_BENCH:
    return parse_run(p, EXPR_BENCH);
  case T_CHECK:
    return parse_run(p, EXPR_CHECK);
  default:
    parse_hint_operand(p);
    return parse_error_expr(p);
  }
}

/* ---- calls, indices, members ---- */

/* `name = ` of an argument, if it is there. */
static bool parse_arg_name(Parser *p, AstArg *arg) {
  if (parse_token(p, 1)->kind != T_ASSIGN || p->failed || p->newline)
    return false;
  const Token *t = parse_token(p, 0);
  if (t->kind != T_NAME && lex_word(p->t.file->text + t->begin, t->end - t->begin) == T_NAME)
    return false;
  AstName name = parse_name(p, "the name of an argument");
  arg->name = name.text;
  arg->name_span = name.span;
  parse_advance(p);
  return true;
}

typedef struct ArgList {
  VEC(AstArg) v;
  size_t npos;
  Map *names; /* of the arguments so far, once there are some */
} ArgList;

/* A map keeps the check linear however many arguments there are. */
static void check_arg(Parser *p, ArgList *list, const AstArg *arg) {
  if (!arg->name) {
    if (list->npos < list->v.n) {
      Diag *d = parse_fail(p, E0035, arg->value->span, "an argument by position after one by name");
      parse_also(p, d, list->v.v[list->npos].name_span, "the first by name");
      parse_hint(p, d, "put the ones by position first");
    }
    list->npos++;
    return;
  }
  if (!list->names)
    list->names = map_new(p->arena);
  AstArg *copy = arena_copy(p->arena, arg, sizeof *arg);
  const AstArg *first = map_set(list->names, arg->name, copy);
  if (first)
    parse_also(p,
               parse_fail(p, E0036, arg->name_span, "the argument `%s` is given twice", arg->name),
               first->name_span, "first here");
}

/* A faulty argument is kept: the call has as many as were written. */
static void parse_arg(Parser *p, ArgList *list) {
  AstArg arg = {0};
  parse_arg_name(p, &arg);
  arg.value = parse_expr(p);
  if (!p->failed)
    check_arg(p, list, &arg);
  VEC_PUSH(p->arena, &list->v, arg);
}

/* The map was needed for the check alone. */
static AstArgs arg_list(const ArgList *list) {
  return (AstArgs){list->v.v, list->v.n, list->npos};
}

/* A trailing comma is allowed, as in every bracket. */
AstArgs parse_args(Parser *p, Bracket b) {
  ArgList list = {0};
  if (!parse_at(p, b.close)) {
    do
      parse_arg(p, &list);
    while (parse_more(p, b));
  }
  parse_close(p, b);
  return arg_list(&list);
}

/* They end with the statement. */
AstArgs parse_loose_args(Parser *p) {
  ArgList list = {0};
  do
    parse_arg(p, &list);
  while (parse_accept(p, T_COMMA));
  return arg_list(&list);
}

/* A call or settings: fn has been read, and the bracket behind it. */
static AstExpr *applied(Parser *p, AstExprKind kind, AstExpr *fn, Bracket b) {
  AstArgs args = parse_args(p, b);
  AstExpr *e = node(p, kind, fn->span);
  e->as.call.fn = fn;
  e->as.call.args = args;
  above(p, e, fn);
  for (size_t i = 0; i < args.n; i++)
    above(p, e, args.v[i].value);
  return e;
}

/* What may follow a part of a slice that was left out. */
static bool axis_ends(const Parser *p) {
  TokenKind k = parse_kind(p);
  return k == T_COMMA || k == T_RBRACKET || k == T_COLON;
}

/* After the first colon of a slice. */
static void parse_slice(Parser *p, AstAxis *axis) {
  axis->kind = AXIS_SLICE;
  if (parse_accept(p, T_PLUS))
    axis->kind = AXIS_WIDTH;
  if (axis->kind == AXIS_WIDTH || !axis_ends(p))
    axis->stop = parse_expr(p);
  if (parse_accept(p, T_COLON) && !axis_ends(p))
    axis->step = parse_expr(p);
}

/* Every part of a slice may be left out; `:+n` gives its extent instead of its stop. */
static AstAxis parse_axis(Parser *p) {
  AstAxis axis = {.kind = AXIS_SINGLE, .span = parse_span(p)};
  if (parse_accept(p, T_NONE)) {
    axis.kind = AXIS_NONE;
  } else {
    if (!parse_at(p, T_COLON))
      axis.start = parse_expr(p);
    if (parse_accept(p, T_COLON))
      parse_slice(p, &axis);
  }
  axis.span = parse_span_from(p, axis.span);
  return axis;
}

/* Left-out parts have no depth. */
static void above_axis(Parser *p, AstExpr *e, const AstAxis *axis) {
  above(p, e, axis->start);
  above(p, e, axis->stop);
  above(p, e, axis->step);
}

/* Indices, slices, or a kernel's settings: the first element tells which. */
static AstExpr *parse_index(Parser *p, AstExpr *base) {
  Bracket b = parse_open(p);
  if (parse_at(p, T_NAME) && parse_token(p, 1)->kind == T_ASSIGN)
    return applied(p, EXPR_SPECIALIZE, base, b);
  VEC(AstAxis) axes = {0};
  AstExpr *e = node(p, EXPR_INDEX, base->span);
  above(p, e, base);
  while (!parse_at(p, T_RBRACKET) && !p->failed) {
    AstAxis axis = parse_axis(p);
    above_axis(p, e, &axis);
    VEC_PUSH(p->arena, &axes, axis);
    if (!parse_more(p, b))
      break;
  }
  if (axes.n > 0 && parse_at(p, T_ASSIGN))
    parse_hint(
        p, parse_fail_here(p, E0051, "settings of a kernel and indices do not mix"),
        "k[BM = 64](x) sets compile-time parameters, each by name; x[i, j] takes an element");
  parse_close(p, b);
  e->as.index.base = base;
  e->as.index.axes = axes.v;
  e->as.index.n = axes.n;
  e->span = parse_span_from(p, base->span);
  return e;
}

/* Modules, shapes and results of bench all look like this; sema tells them apart. */
static AstExpr *parse_member(Parser *p, AstExpr *base) {
  parse_advance(p);
  if (parse_at(p, T_INF) || parse_at(p, T_NAN))
    parse_hint(p,
               parse_fail_here(p, E0030, "%s stands alone, without a module before it",
                               lex_describe(parse_kind(p))),
               "write %s", lex_spelling(parse_token(p, 0)->kind));
  AstName name = parse_name(p, "a name after `.`");
  AstExpr *e = node(p, EXPR_ATTR, base->span);
  e->as.attr.base = base;
  e->as.attr.name = name;
  above(p, e, base);
  return e;
}

static AstExpr *parse_postfix(Parser *p) {
  AstExpr *e = parse_primary(p);
  for (;;) {
    TokenKind kind = parse_kind(p);
    if (kind == T_LPAREN)
      e = applied(p, EXPR_CALL, e, parse_open(p));
    else if (kind == T_LBRACKET)
      e = parse_index(p, e);
    else if (kind == T_DOT)
      e = parse_member(p, e);
    else
      return e;
  }
}

/* ---- operators ---- */

/* The operator's own span serves diagnostics that underline it, and the formatter. */
static AstExpr *binary(Parser *p, AstOp op, Span op_span, AstExpr *x, AstExpr *y) {
  AstExpr *e = node(p, EXPR_BINARY, x->span);
  e->as.binary.op = op;
  e->as.binary.op_span = op_span;
  e->as.binary.x = x;
  e->as.binary.y = y;
  above(p, e, x);
  above(p, e, y);
  return e;
}

/* A prefix operator and what follows it; `prec` is how tightly that binds. */
static AstExpr *parse_prefix(Parser *p, unsigned prec) {
  Span span = parse_span(p);
  AstOp op = unary_ops[parse_kind(p)];
  parse_advance(p);
  if (!parse_enter(p))
    return parse_error_expr(p);
  AstExpr *x = parse_binary(p, prec);
  parse_leave(p);
  AstExpr *e = node(p, EXPR_UNARY, span);
  e->as.unary.op = op;
  e->as.unary.x = x;
  above(p, e, x);
  return e;
}

/* Prefix signs, and `**`, which binds tighter to its left and takes a sign on its right. */
static AstExpr *parse_unary(Parser *p) {
  TokenKind kind = parse_kind(p);
  if (unary_ops[kind] && kind != T_NOT)
    return parse_prefix(p, PREC_TIGHTEST);
  AstExpr *x = parse_postfix(p);
  if (!parse_at(p, T_POW))
    return x;
  Span op_span = parse_span(p);
  parse_advance(p);
  if (!parse_enter(p))
    return parse_error_expr(p);
  AstExpr *y = parse_unary(p);
  parse_leave(p);
  return binary(p, AST_POW, op_span, x, y);
}

/* x < y <= z …: all comparisons of one chain. */
static AstExpr *parse_comparison(Parser *p, AstExpr *first) {
  VEC(AstOp) ops = {0};
  VEC(AstExpr *) x = {0};
  VEC_PUSH(p->arena, &x, first);
  while (compare_ops[parse_kind(p)]) {
    VEC_PUSH(p->arena, &ops, (AstOp)compare_ops[parse_kind(p)]);
    parse_advance(p);
    AstExpr *y = parse_binary(p, PREC_COMPARE + 1);
    VEC_PUSH(p->arena, &x, y);
  }
  AstExpr *e = node(p, EXPR_COMPARE, first->span);
  e->as.compare.ops = ops.v;
  e->as.compare.x = x.v;
  e->as.compare.n = ops.n;
  for (size_t i = 0; i < x.n; i++)
    above(p, e, x.v[i]);
  return e;
}

static AstExpr *parse_binary(Parser *p, unsigned min_prec) {
  AstExpr *x =
      parse_at(p, T_NOT) && min_prec <= PREC_NOT ? parse_prefix(p, PREC_NOT) : parse_unary(p);
  for (;;) {
    TokenKind kind = parse_kind(p);
    struct BinaryOp op = binary_ops[kind];
    if (compare_ops[kind] && min_prec <= PREC_COMPARE) {
      x = parse_comparison(p, x);
    } else if (op.prec >= min_prec && op.prec < PREC_TIGHTEST && !parse_hint_increment(p)) {
      Span op_span = parse_span(p);
      parse_advance(p);
      x = binary(p, op.op, op_span, x, parse_binary(p, op.prec + 1u));
    } else {
      return x;
    }
  }
}

/* `then if cond else other`, after then. */
static AstExpr *parse_conditional(Parser *p, AstExpr *then) {
  Span word = parse_span(p);
  parse_advance(p);
  AstExpr *cond = parse_binary(p, PREC_OR);
  if (!p->failed && !parse_at(p, T_ELSE)) {
    Diag *d = parse_fail_here(p, E0057, "expected `else`, found %s", parse_found(p));
    parse_also(p, d, word, "of this `if`");
    parse_hint(p, d, "`x if c else y` always has both values");
  }
  parse_advance(p);
  AstExpr *other = parse_expr(p);
  AstExpr *e = node(p, EXPR_COND, then->span);
  e->as.cond.then = then;
  e->as.cond.cond = cond;
  e->as.cond.other = other;
  above(p, e, then);
  above(p, e, cond);
  above(p, e, other);
  return e;
}

/* The loosest operator is the conditional, which groups to the right. */
AstExpr *parse_expr(Parser *p) {
  if (!parse_enter(p))
    return parse_error_expr(p);
  AstExpr *e = parse_binary(p, PREC_OR);
  if (parse_at(p, T_IF))
    e = parse_conditional(p, e);
  parse_leave(p);
  return e;
}

/* Commas without brackets make a tuple only where a statement allows several values. */
AstExpr *parse_expr_list(Parser *p) {
  AstExpr *first = parse_expr(p);
  if (!parse_at(p, T_COMMA))
    return first;
  VEC(AstExpr *) v = {0};
  VEC_PUSH(p->arena, &v, first);
  while (parse_accept(p, T_COMMA)) {
    AstExpr *e = parse_expr(p);
    VEC_PUSH(p->arena, &v, e);
  }
  return sequence(p, EXPR_TUPLE, first->span, v.v, v.n);
}

/* ---- the value of a layout ---- */

/* `(i, j) ->` stands here. */
static bool at_lambda(const Parser *p) {
  size_t k = 1;
  if (!parse_at(p, T_LPAREN))
    return false;
  while (parse_token(p, k)->kind == T_NAME || parse_token(p, k)->kind == T_COMMA)
    k++;
  return parse_token(p, k)->kind == T_RPAREN && parse_token(p, k + 1)->kind == T_ARROW;
}

/* The arrow is seen before the names are read: `(i, j)` could be a tuple as well. */
AstExpr *parse_layout_value(Parser *p) {
  if (!at_lambda(p))
    return parse_expr(p);
  VEC(AstName) names = {0};
  Bracket b = parse_open(p);
  do {
    AstName name = parse_name(p, "an index of the layout");
    VEC_PUSH(p->arena, &names, name);
  } while (parse_more(p, b));
  parse_close(p, b);
  parse_advance(p);
  AstExpr *body = parse_expr(p);
  AstExpr *e = node(p, EXPR_LAMBDA, b.open);
  e->as.lambda.params = names.v;
  e->as.lambda.n = names.n;
  e->as.lambda.body = body;
  above(p, e, body);
  return e;
}
