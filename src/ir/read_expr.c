/* read_expr.c: expressions of the IR's text.
 *
 * In: tokens. Out: first an untyped tree (ir_node_parse), then the expression with its types
 * (ir_node_typed). Types of bare literals follow from the other operands, else from the place, else
 * i64 or f32; print.c leaves them out by the same rules. Always holds: an expression is built only
 * with operands that its operation takes; after an error a constant stands in, so reading goes on.
 * Tests: tests/unit/check_ir.c.
 */
#include <math.h>

#include "print.h"
#include "read.h"

/* ---------------------------------------------------------------- the untyped tree */

/* Nodes live in the arena of the kernel: constants of the file outlast a statement. */
static Node *node_new(Reader *r, NodeKind kind, Span span) {
  Node *n = ARENA_NEW(r->arena, Node);
  n->kind = kind;
  n->span = span;
  n->type = DT_NONE;
  n->axis = -1;
  n->size = 1;
  return n;
}

/* Sizes add up; the parser refuses trees that pass READ_MAX_NODES.
 * Operands are at most four, as in IrExpr. */
static Node *node_op(Reader *r, OpCode op, Span span, Node *const *arg, int nargs) {
  Node *n = node_new(r, ND_OP, span);
  n->op = op;
  n->nargs = nargs;
  for (int i = 0; i < nargs; i++) {
    n->arg[i] = arg[i];
    n->size += arg[i]->size;
  }
  return n;
}

static Node *parse_level(Reader *r, int level);

/* -1 for rows that are no expressions. */
static int op_arity(OpCode op) {
  return op_info(op)->cls == OPC_PURE ? op_info(op)->arity : -1;
}

/* Up to the closing parenthesis, which it takes.
 * `a, b, c)` */
static bool parse_args(Reader *r, Node **arg, int *n) {
  *n = 0;
  while (!ir_tok_is(r, ")")) {
    if (*n == 4) {
      ir_read_unexpected(r, "at most four operands");
      return false;
    }
    Node *a = parse_level(r, 1);
    if (!a)
      return false;
    arg[(*n)++] = a;
    if (!ir_tok_accept(r, ","))
      break;
  }
  return ir_tok_expect(r, ")");
}

/* `name(`: a cast, a bitcast, or an operation; the parenthesis is the current token.
 * `i32(x)`, `bitcast(u32, x)`, `max(a, b)` */
static Node *parse_call(Reader *r, const Token *name) {
  Node *arg[4];
  int n;
  DType type = DT_NONE;
  const char *text = names_get(r->names, name->text, name->n);
  OpCode op = dtype_parse(name->text, name->n, &type) ? OP_CAST : op_find(text);
  ir_tok_next(r);
  if (op == OP_BITCAST) {
    type = ir_tok_dtype(r);
    if (type == DT_NONE || !ir_tok_expect(r, ","))
      return NULL;
  }
  if (op == OP_NONE || op_arity(op) < 0 || op == OP_CONST || op == OP_VAR) {
    ir_read_error(r, E0603, name->span, "there is no operation `%s`", text);
    r->broken = true;
    return NULL;
  }
  if (!parse_args(r, arg, &n))
    return NULL;
  if (n != op_arity(op)) {
    ir_read_error(r, E0603, name->span, "`%s` takes %d operands, not %d", text, op_arity(op), n);
    r->broken = true;
    return NULL;
  }
  Node *node = node_op(r, op, span_join(name->span, r->last.span), arg, n);
  node->type = op == OP_CAST || op == OP_BITCAST ? type : DT_NONE;
  return node;
}

/* A suffix settles the type at once. */
static Node *parse_number(Reader *r) {
  Node *n = node_new(r, r->tok.kind == TK_INT ? ND_INT : ND_FLOAT, r->tok.span);
  n->type = r->tok.suffix;
  n->u = r->tok.u;
  n->f = r->tok.f;
  ir_tok_next(r);
  return n;
}

/* true, false, inf, nan; everything else is a name.
 * Words that are values of their own are reserved in the language too. */
static Node *parse_word(Reader *r, const Token *name) {
  bool bare = name->n == 3 || name->suffix != DT_NONE; /* inf, nan: perhaps with a suffix */
  bool is_inf = bare && name->n >= 3 && !memcmp(name->text, "inf", 3);
  bool is_true = name->n == 4 && !memcmp(name->text, "true", 4);
  if (is_true || (name->n == 5 && !memcmp(name->text, "false", 5))) {
    Node *n = node_new(r, ND_BOOL, name->span);
    n->u = is_true;
    return n;
  }
  if (is_inf || (bare && name->n >= 3 && !memcmp(name->text, "nan", 3))) {
    Node *n = node_new(r, ND_FLOAT, name->span);
    n->f = is_inf ? HUGE_VAL : (double)NAN;
    n->type = name->suffix;
    return n;
  }
  Node *n = node_new(r, ND_VAR, name->span);
  n->name = names_get(r->names, name->text, name->n);
  return n;
}

/* `A.stride0`: the dot and the word follow a name. */
static Node *parse_stride(Reader *r, Node *n) {
  ir_tok_next(r);
  Token t = r->tok;
  bool ok = t.kind == TK_NAME && t.n == 7 && !memcmp(t.text, "stride", 6) && t.text[6] >= '0' &&
            t.text[6] < '0' + IR_MAX_RANK;
  if (!ok) {
    ir_read_unexpected(r, "`stride0` to `stride7` after the point");
    return NULL;
  }
  n->axis = t.text[6] - '0';
  ir_tok_next(r);
  return n;
}

/* A number, a word, a call, or a parenthesis.
 * What no operator stands before. */
static Node *parse_primary(Reader *r) {
  Token t = r->tok;
  if (t.kind == TK_INT || t.kind == TK_FLOAT)
    return parse_number(r);
  if (t.kind == TK_NAME) {
    ir_tok_next(r);
    if (ir_tok_is(r, "("))
      return parse_call(r, &t);
    Node *n = parse_word(r, &t);
    return n->kind == ND_VAR && ir_tok_is(r, ".") ? parse_stride(r, n) : n;
  }
  if (ir_tok_accept(r, "(")) {
    Node *n = parse_level(r, 1);
    return n && ir_tok_expect(r, ")") ? n : NULL;
  }
  ir_read_unexpected(r, "an expression");
  return NULL;
}

static Node *parse_unary(Reader *r);

/* A minus before a literal belongs to it: -9223372036854775808 is one number.
 * `-x`, `~x` */
static Node *parse_minus(Reader *r, OpCode op) {
  Span at = r->tok.span;
  ir_tok_next(r);
  Node *n = parse_unary(r);
  if (!n)
    return NULL;
  bool literal = n->kind == ND_INT || n->kind == ND_FLOAT;
  if (op == OP_NEG && literal && !n->minus) {
    n->minus = true;
    n->span = span_join(at, n->span);
    return n;
  }
  return node_op(r, op, span_join(at, n->span), &n, 1);
}

/* Signs nest, so they count as depth. */
static Node *parse_unary(Reader *r) {
  bool minus = ir_tok_is(r, "-");
  if (!minus && !ir_tok_is(r, "~"))
    return parse_primary(r);
  if (++r->depth > READ_MAX_DEPTH) {
    ir_read_unexpected(r, "an expression that is nested less deeply");
    r->depth--;
    return NULL;
  }
  Node *n = parse_minus(r, minus ? OP_NEG : OP_NOT);
  r->depth--;
  return n;
}

/* Operators that bind at least as tightly as `level`; comparisons (level 1) do not chain.
 * Precedence climbing: the operand on the right binds more tightly, so that equals group to the
 * left. */
static Node *parse_infix(Reader *r, int level) {
  Node *left = parse_unary(r);
  while (left && r->tok.kind == TK_PUNCT) {
    const Infix *x = ir_infix_spelled(r->tok.text, r->tok.n);
    if (!x || x->level < level)
      break;
    ir_tok_next(r);
    Node *arg[] = {left, parse_level(r, x->level + 1)};
    if (!arg[1])
      return NULL;
    left = node_op(r, x->op, span_join(left->span, arg[1]->span), arg, 2);
    if (x->level == 1 && level <= 1)
      level = 2;
  }
  if (left && left->size > READ_MAX_NODES) {
    ir_read_error(r, E0603, left->span, "the expression is too large; name parts of it by `let`");
    r->broken = true;
    return NULL;
  }
  return left;
}

/* Each level of nesting passes here, and is counted.
 * READ_MAX_DEPTH keeps the stack small whatever the text. */
static Node *parse_level(Reader *r, int level) {
  if (++r->depth > READ_MAX_DEPTH) {
    ir_read_unexpected(r, "an expression that is nested less deeply");
    r->depth--;
    return NULL;
  }
  Node *n = parse_infix(r, level);
  r->depth--;
  return n;
}

Node *ir_node_parse(Reader *r) {
  return parse_level(r, 1);
}

/* ---------------------------------------------------------------- finding types */

typedef struct Typing {
  Reader *r;
  bool extents; /* unknown names become symbolic extents */
  int budget;   /* nodes that constants may still unfold to */
} Typing;

/* Made on first request: the tensor need not be contiguous any more.
 * Only tensors have strides; tiles have layouts. */
static IrVar *find_stride(Typing *t, const Node *n, const Entry *e) {
  if (e && e->kind == EN_BUFFER && e->as.buf->space == IRS_GLOBAL && n->axis < e->as.buf->rank)
    return ir_stride(t->r->k, e->as.buf, n->axis);
  ir_read_error(t->r, E0604, n->span, "`%s` is no tensor with an axis %d", n->name, n->axis);
  return NULL;
}

/* `sms`, a symbolic extent in a shape, or an error that says what the name is instead.
 * Tensors and tiles are no values: their elements come through `load`. */
static IrVar *unknown_name(Typing *t, const Node *n, const Entry *e) {
  if (!e && !strcmp(n->name, "sms"))
    return ir_sms(t->r->k);
  if (!e && t->extents)
    return ir_read_scope_new_var(t->r, IRV_EXTENT, n->name, DT_I64, n->span);
  if (e)
    ir_read_error(t->r, E0604, n->span, "`%s` is not a value; elements are read by `load`",
                  n->name);
  else
    ir_read_error(t->r, E0604, n->span, "there is no `%s` here", n->name);
  return NULL;
}

static Node *type_node(Typing *t, const Node *from);

/* A name: a variable, or the copy of what a `const` stands for.
 * A constant's tree is copied: types are found for each use. */
static Node *type_name(Typing *t, Node *n) {
  Entry *e = ir_read_scope_find(t->r, n->name);
  if (e && e->kind == EN_CONST && n->axis < 0) {
    Span at = n->span;
    t->budget -= e->as.value->size;
    Node *copy = t->budget < 0 ? NULL : type_node(t, e->as.value);
    if (t->budget < 0)
      ir_read_error(t->r, E0603, at, "the constants here unfold to too large an expression");
    if (copy)
      copy->span = at;
    return copy ? copy : node_new(t->r, ND_INT, at);
  }
  n->var = n->axis >= 0 ? find_stride(t, n, e)
                        : (e && e->kind == EN_VAR ? e->as.var : unknown_name(t, n, e));
  n->natural = n->var ? n->var->type : DT_NONE;
  return n;
}

/* What the printer and the reader share (text.c). */
static IrOperands operands_of(const Node *n) {
  IrOperands o = {.op = n->op, .n = n->nargs, .left = DT_NONE};
  for (int i = 0; i < n->nargs; i++) {
    o.said[i] = n->arg[i]->natural;
    o.floats |= n->arg[i]->floats;
  }
  return o;
}

/* By the rule of the operation's row. */
static void type_op(Node *n) {
  IrOperands o = operands_of(n);
  bool cast = n->op == OP_CAST || n->op == OP_BITCAST;
  n->natural = ir_said_type(&o, cast ? n->type : op_result(n->op, DT_I32));
  n->floats = n->natural == DT_NONE && o.floats;
}

/* A copy of the tree with names found and natural types set.
 * Recursion is bounded by the parser's depth and the budget of constants. */
static Node *type_node(Typing *t, const Node *from) {
  Node *n = arena_copy(t->r->arena, from, sizeof *from);
  n->natural = n->type;
  n->floats = n->kind == ND_FLOAT;
  if (n->kind == ND_BOOL)
    n->natural = DT_BOOL;
  if (n->kind == ND_VAR)
    return type_name(t, n);
  for (int i = 0; i < n->nargs; i++)
    n->arg[i] = type_node(t, n->arg[i]);
  if (n->kind == ND_OP)
    type_op(n);
  return n;
}

/* ---------------------------------------------------------------- building */

/* What the manual calls int and float, in the widths of the IR. */
static DType default_type(const Node *n) {
  return n->floats ? DT_F32 : DT_I64;
}

/* INT64_MIN has a magnitude of 2^63, one more than the greatest i64. */
static bool int_fits(const Node *n, DType t) {
  if (n->minus)
    return dtype_is_signed(t) && n->u <= (uint64_t)0 - (uint64_t)dtype_int_min(t);
  return n->u <= dtype_int_max(t);
}

/* A literal without a point serves floats too.
 * A literal too large for its type is an error, not a wrap. */
static IrExpr *build_int(Reader *r, const Node *n, DType t) {
  if (dtype_is_float(t)) {
    double f = (double)n->u;
    return ir_float(r->k, t, n->minus ? -f : f);
  }
  if (!dtype_is_int(t)) {
    ir_read_error(r, E0605, n->span, "a number stands where %s is wanted", dtype_name(t));
    return ir_bool(r->k, false);
  }
  if (!int_fits(n, t))
    ir_read_error(r, E0605, n->span, "the number does not fit in %s", dtype_name(t));
  return ir_int_of(r->k, t, (int64_t)(n->minus ? 0 - n->u : n->u));
}

/* An integer place takes no float: nothing is rounded silently. */
static IrExpr *build_float(Reader *r, const Node *n, DType t) {
  if (!dtype_is_float(t)) {
    ir_read_error(r, E0605, n->span, "a float stands where %s is wanted", dtype_name(t));
    return dtype_is_int(t) ? ir_int_of(r->k, t, 0) : ir_bool(r->k, false);
  }
  return ir_float(r->k, t, n->minus ? -n->f : n->f);
}

static IrExpr *build(Reader *r, const Node *n, DType want);

/* The IR converts nothing by itself. */
static bool same_types(IrExpr *const *arg, int from, int n) {
  for (int i = from + 1; i < n; i++)
    if (arg[i]->type != arg[from]->type)
      return false;
  return true;
}

static bool all_ints(IrExpr *const *arg, int n) {
  for (int i = 0; i < n; i++)
    if (!dtype_is_int(arg[i]->type))
      return false;
  return true;
}

/* Whether the operation takes operands of these types (also used by the verifier). */
bool ir_types_ok(OpCode op, DType type, IrExpr *const *arg, int nargs) {
  switch (op_info(op)->rule) {
  case RULE_LEAF:
    return true;
  case RULE_SHIFT:
    return all_ints(arg, nargs);
  case RULE_SELECT:
    return arg[0]->type == DT_BOOL && arg[1]->type == arg[2]->type;
  case RULE_CAST:
    return true;
  case RULE_BITCAST:
    return dtype_bits(arg[0]->type) == dtype_bits(type) && arg[0]->type != DT_BOOL &&
           type != DT_BOOL;
  case RULE_DESC:
    return all_ints(arg, nargs);
  default:
    return nargs == 0 || (same_types(arg, 0, nargs) && op_takes(op, arg[0]->type));
  }
}

/* A constant of the likely type stands in, so that one mistake is one message.
 * The message names the operation as it is written, and the types that stand there. */
static IrExpr *bad_types(Reader *r, const Node *n, IrExpr *const *arg) {
  Str types = str_new(r->arena);
  for (int i = 0; i < n->nargs; i++)
    str_addf(&types, "%s%s", i ? ", " : "", dtype_name(arg[i]->type));
  const Infix *x = ir_infix_of(n->op);
  ir_read_error(r, E0606, n->span, "`%s` does not take operands of types %s",
                x ? x->text : op_info(n->op)->name, str_text(&types));
  DType t = n->natural != DT_NONE ? n->natural : DT_I64;
  return t == DT_BOOL        ? ir_bool(r->k, false)
         : dtype_is_float(t) ? ir_float(r->k, t, 0.0)
                             : ir_int_of(r->k, t, 0);
}

/* Never hands ir_expr operands that the row does not take.
 * Operands left to right, so messages come in the order of the text. */
static IrExpr *build_op(Reader *r, const Node *n, DType want) {
  IrExpr *arg[4];
  IrOperands o = operands_of(n);
  for (int i = 0; i < n->nargs; i++) {
    arg[i] = build(r, n->arg[i], ir_operand_want(&o, i, want));
    o.left = arg[0]->type;
  }
  if (!ir_types_ok(n->op, n->type, arg, n->nargs))
    return bad_types(r, n, arg);
  IrExpr *e = ir_expr(r->k, n->op, n->type, arg, n->nargs);
  ir_place(r->k, e, n->span);
  return e;
}

/* `want` decides only where the tree does not.
 * Recursion as deep as the tree. */
static IrExpr *build(Reader *r, const Node *n, DType want) {
  DType t = n->natural != DT_NONE ? n->natural : want != DT_NONE ? want : default_type(n);
  switch (n->kind) {
  case ND_INT:
    return build_int(r, n, t);
  case ND_FLOAT:
    return build_float(r, n, t);
  case ND_BOOL:
    return ir_bool(r->k, n->u != 0);
  case ND_VAR:
    return n->var ? ir_ref(r->k, n->var) : ir_int_of(r->k, dtype_is_int(t) ? t : DT_I64, 0);
  default:
    return build_op(r, n, want);
  }
}

/* Trees are typed afresh at each use, so that a constant of the file takes the type of each place.
 * */
IrExpr *ir_node_typed(Reader *r, Node *n, DType want, bool extents) {
  if (!n)
    return want == DT_BOOL ? ir_bool(r->k, false) : ir_int(r->k, 0);
  Typing t = {r, extents, READ_MAX_NODES};
  return build(r, type_node(&t, n), want);
}

/* Where any type may stand. */
IrExpr *ir_read_expr(Reader *r, DType want) {
  return ir_node_typed(r, ir_node_parse(r), want, false);
}

/* One message where the type is another; none where the expression was wrong already. */
IrExpr *ir_read_expr_of(Reader *r, DType want) {
  size_t errors = r->errors;
  Node *n = ir_node_parse(r);
  IrExpr *e = ir_node_typed(r, n, want, false);
  if (n && want != DT_NONE && e->type != want && r->errors == errors)
    ir_read_error(r, E0605, n->span, "this is %s, but %s is wanted here", dtype_name(e->type),
                  dtype_name(want));
  return e;
}

DType ir_read_index_type(const Reader *r) {
  return r->k->level == IR_THREAD ? DT_I32 : DT_I64;
}
