/* print.c: the canonical text of a tree (--emit ast).
 *
 * In: a tree. Out: a line a statement, two spaces of indentation a block, expressions in prefix
 * form. Equal trees give equal text, whatever their layout in the source was: the tests compare
 * trees by it. The forms:
 *
 *   (+ a b) (- a) (not a)       operators           (chain 0 <= i < n)     comparisons
 *   (if c x y)                  x if c else y       (call f a axis=0)      calls
 *   (index x i (slice a b .))   x[i, a:b]           (width k n .)          k:+n
 *   (with k BM=64)              k[BM = 64]          (. x T)                x.T
 *   (tuple a b) (list a b)      (a, b) [a, b]       (lambda (i j) e)       (i, j) -> e
 *
 * Tests: tests/lang/syntax_*.ast, tests/unit/check_parser.c.
 */
#include "parser.h"

#include <string.h>

/* One table for all operators, since `-` the sign and `-` the difference print alike. */
const char *ast_op_text(AstOp op) {
  static const char *const text[AST_OP_COUNT] = {
      [AST_NO_OP] = "",
#define BINARY(op, text, prec, token) [AST_##op] = text,
#define COMPARE(op, text, token) [AST_##op] = text,
#define UNARY(op, text, token) [AST_##op] = text,
#include "ast.def"
  };
  return text[op];
}

/* The word that opens its form. */
static const char *expr_name(AstExprKind kind) {
  static const char *const names[EXPR_COUNT] = {
#define EXPR(kind, name) [EXPR_##kind] = name,
#include "ast.def"
  };
  return names[kind];
}

/* The word that opens its line. */
const char *ast_stmt_name(AstStmtKind kind) {
  static const char *const names[STMT_COUNT] = {
#define STMT(kind, name) [STMT_##kind] = name,
#include "ast.def"
  };
  return names[kind];
}

/* ---- expressions ---- */

/* In quotes, on one line, valid UTF-8 whatever the bytes are. */
static void print_string(Str *out, const char *s, size_t n) {
  bool utf8 = str_is_utf8(s, n);
  str_addc(out, '"');
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)s[i];
    if (c == '"' || c == '\\')
      str_addf(out, "\\%c", c);
    else if (c == '\n')
      str_add(out, "\\n");
    else if (c < 0x20 || c == 0x7F || (c >= 0x80 && !utf8))
      str_addf(out, "\\x%02x", c);
    else
      str_addc(out, s[i]);
  }
  str_addc(out, '"');
}

/* Positional ones as they come, the others as name=value. */
static void print_args(Str *out, const AstArgs *args) {
  for (size_t i = 0; i < args->n; i++) {
    str_addc(out, ' ');
    if (args->v[i].name)
      str_addf(out, "%s=", args->v[i].name);
    ast_print_expr(args->v[i].value, out);
  }
}

/* A part that may be left out. */
static void print_part(Str *out, const AstExpr *e) {
  str_addc(out, ' ');
  if (e)
    ast_print_expr(e, out);
  else
    str_addc(out, '.');
}

/* Slices are forms, so that a part that is left out shows as a point. */
static void print_axis(Str *out, const AstAxis *axis) {
  if (axis->kind == AXIS_NONE) {
    str_add(out, " None");
  } else if (axis->kind == AXIS_SINGLE) {
    print_part(out, axis->start);
  } else {
    str_add(out, axis->kind == AXIS_WIDTH ? " (width" : " (slice");
    print_part(out, axis->start);
    print_part(out, axis->stop);
    print_part(out, axis->step);
    str_addc(out, ')');
  }
}

/* One comparison is a form like any operator; a chain lists operands and operators in turn. */
static void print_compare(Str *out, const AstExpr *e) {
  bool chain = e->as.compare.n > 1;
  str_addf(out, "(%s", chain ? "chain" : ast_op_text(e->as.compare.ops[0]));
  for (size_t i = 0; i <= e->as.compare.n; i++) {
    if (chain && i > 0)
      str_addf(out, " %s", ast_op_text(e->as.compare.ops[i - 1]));
    print_part(out, e->as.compare.x[i]);
  }
  str_addc(out, ')');
}

/* Tuples and lists differ by their word only. */
static void print_list(Str *out, const AstExpr *e) {
  str_addf(out, "(%s", expr_name(e->kind));
  for (size_t i = 0; i < e->as.list.n; i++)
    print_part(out, e->as.list.v[i]);
  str_addc(out, ')');
}

/* The only form that binds names. */
static void print_lambda(Str *out, const AstExpr *e) {
  str_add(out, "(lambda (");
  for (size_t i = 0; i < e->as.lambda.n; i++)
    str_addf(out, "%s%s", i ? " " : "", e->as.lambda.params[i].text);
  str_addc(out, ')');
  print_part(out, e->as.lambda.body);
  str_addc(out, ')');
}

/* Names and literals stand for themselves; so does `error`, which only a failed parse leaves. */
static void print_leaf(Str *out, const AstExpr *e) {
  if (e->kind == EXPR_INT)
    str_addf(out, "%llu", (unsigned long long)e->as.integer);
  else if (e->kind == EXPR_FLOAT)
    str_add_f64(out, e->as.number);
  else if (e->kind == EXPR_STRING)
    print_string(out, e->as.string.s, e->as.string.n);
  else if (e->kind == EXPR_BOOL)
    str_add(out, e->as.boolean ? "true" : "false");
  else if (e->kind == EXPR_NAME)
    str_add(out, e->as.name);
  else
    str_add(out, expr_name(e->kind));
}

/* (word first rest…) */
static void print_form(Str *out, const char *word, const AstExpr *x, const AstExpr *y,
                       const AstExpr *z) {
  str_addf(out, "(%s", word);
  print_part(out, x);
  if (y)
    print_part(out, y);
  if (z)
    print_part(out, z);
  str_addc(out, ')');
}

/* `call` and `with` have the same shape. */
static void print_call(Str *out, const AstExpr *e) {
  str_addf(out, "(%s", expr_name(e->kind));
  print_part(out, e->as.call.fn);
  print_args(out, &e->as.call.args);
  str_addc(out, ')');
}

/* Base first, then an entry an axis. */
static void print_index(Str *out, const AstExpr *e) {
  str_add(out, "(index");
  print_part(out, e->as.index.base);
  for (size_t i = 0; i < e->as.index.n; i++)
    print_axis(out, &e->as.index.axes[i]);
  str_addc(out, ')');
}

/* Depth is bounded by the parser, so plain recursion is safe. */
void ast_print_expr(const AstExpr *e, Str *out) {
  switch (e->kind) {
  case EXPR_UNARY:
    print_form(out, ast_op_text(e->as.unary.op), e->as.unary.x, NULL, NULL);
    break;
  case EXPR_BINARY:
    print_form(out, ast_op_text(e->as.binary.op), e->as.binary.x, e->as.binary.y, NULL);
    break;
  case EXPR_COND:
    print_form(out, "if", e->as.cond.cond, e->as.cond.then, e->as.cond.other);
    break;
  case EXPR_BENCH:
  case EXPR_CHECK:
    print_form(out, expr_name(e->kind), e->as.run, NULL, NULL);
    break;
  case EXPR_ATTR:
    str_add(out, "(.");
    print_part(out, e->as.attr.base);
    str_addf(out, " %s)", e->as.attr.name.text);
    break;
  case EXPR_COMPARE:
    print_compare(out, e);
    break;
  case EXPR_CALL:
  case EXPR_SPECIALIZE:
    print_call(out, e);
    break;
  case EXPR_INDEX:
    print_index(out, e);
    break;
  case EXPR_TUPLE:
  case EXPR_LIST:
    print_list(out, e);
    break;
  case EXPR_LAMBDA:
    print_lambda(out, e);
    break;
  default:
    print_leaf(out, e);
    break;
  }
}

/* ---- types and declarations ---- */

/* E[M N], (f32 i32): as written, but for the commas. */
static void print_type(Str *out, const AstType *t) {
  if (t->base.text)
    str_add(out, t->base.text);
  for (size_t i = 0; i < t->nparts; i++) {
    str_add(out, i ? " " : "(");
    print_type(out, t->parts[i]);
  }
  if (t->nparts)
    str_addc(out, ')');
  if (!t->has_extents)
    return;
  str_addc(out, '[');
  for (size_t i = 0; i < t->nextents; i++) {
    const AstExtent *x = &t->extents[i];
    str_add(out, i ? " " : "");
    if (x->is_static)
      str_add(out, "static ");
    else if (x->name)
      str_addf(out, "%s=", x->name);
    ast_print_expr(x->value, out);
  }
  str_addc(out, ']');
}

/* name: type = init; a barrier's type is its extents alone. */
static void print_decl(Str *out, const AstDecl *d) {
  str_add(out, d->name.text);
  if (d->type) {
    str_add(out, d->is_inout ? ": inout " : ": ");
    print_type(out, d->type);
  }
  if (d->init) {
    str_add(out, " =");
    print_part(out, d->init);
  }
}

/* Declarations of one statement stay on its line. */
static void print_decls(Str *out, const AstDecls *d) {
  for (size_t i = 0; i < d->n; i++) {
    str_add(out, i ? ", " : " ");
    print_decl(out, &d->v[i]);
  }
}

/* ---- statements ---- */

/* The line end comes before a statement, so that the last has none to take away. */
static void print_stmt(Str *out, const AstStmt *s, size_t indent);

/* Begins a line of the output; print_stmt has begun the first of a statement. */
static void line(Str *out, size_t indent) {
  str_addc(out, '\n');
  str_pad(out, ' ', 2 * indent);
}

/* Only indentation shows where a block ends; an empty one shows nothing. */
static void print_block(Str *out, const AstBlock *b, size_t indent) {
  for (size_t i = 0; i < b->n; i++)
    print_stmt(out, b->v[i], indent);
}

/* Names need no quotes: they hold no spaces. */
static void print_names(Str *out, const AstName *v, size_t n) {
  for (size_t i = 0; i < n; i++)
    str_addf(out, " %s", v[i].text);
}

/* A header's parameters, a line each, so that a difference in one shows as one line. */
static void print_decl_lines(Str *out, const char *word, const AstDecls *d, size_t indent) {
  for (size_t i = 0; i < d->n; i++) {
    line(out, indent);
    str_addf(out, "%s ", word);
    print_decl(out, &d->v[i]);
  }
}

/* Parameters come before the body, at its indentation, each with a word for its kind. */
static void print_kernel(Str *out, const AstKernel *k, size_t indent) {
  str_addf(out, " %s", k->name.text);
  for (size_t i = 0; i < k->nattributes; i++)
    str_addf(out, " @%s", k->attributes[i].text);
  print_decl_lines(out, "static", &k->statics, indent + 1);
  print_decl_lines(out, "input", &k->inputs, indent + 1);
  print_decl_lines(out, "output", &k->outputs, indent + 1);
  print_block(out, &k->body, indent + 1);
}

/* As a kernel, with one kind of parameter. */
static void print_fn(Str *out, const AstFn *f, size_t indent) {
  str_addf(out, " %s", f->name.text);
  print_decl_lines(out, "input", &f->params, indent + 1);
  if (f->result) {
    line(out, indent + 1);
    str_add(out, "result ");
    print_type(out, f->result);
  }
  print_block(out, &f->body, indent + 1);
}

/* Targets, then the operator in front of its `=`. */
static void print_assign(Str *out, const AstStmt *s) {
  for (size_t i = 0; i < s->as.assign.ntargets; i++)
    print_part(out, s->as.assign.targets[i]);
  str_addf(out, " %s=", ast_op_text(s->as.assign.op));
  print_part(out, s->as.assign.value);
}

/* Arms stand side by side, however long the chain is. */
static void print_branch(Str *out, const AstStmt *s, size_t indent) {
  for (size_t i = 0; i < s->as.branch.n; i++) {
    if (i > 0) {
      line(out, indent);
      str_add(out, "elseif");
    }
    print_part(out, s->as.branch.arms[i].cond);
    print_block(out, &s->as.branch.arms[i].body, indent + 1);
  }
  if (s->as.branch.has_other) {
    line(out, indent);
    str_add(out, "else");
    print_block(out, &s->as.branch.other, indent + 1);
  }
}

/* A role is a line, its body below it. */
static void print_roles(Str *out, const AstStmt *s, size_t indent) {
  for (size_t i = 0; i < s->as.roles.n; i++) {
    const AstRole *r = &s->as.roles.v[i];
    line(out, indent + 1);
    str_add(out, r->producer ? "producer" : "consumer");
    print_args(out, &r->options);
    print_block(out, &r->body, indent + 2);
  }
}

/* The name is always printed, written or not. */
static void print_import(Str *out, const AstStmt *s) {
  str_addc(out, ' ');
  if (s->as.import.path)
    print_string(out, s->as.import.path, s->as.import.path_n);
  else
    str_add(out, s->as.import.module);
  str_addf(out, " as %s", s->as.import.name.text);
}

/* What follows the statement's word on its line. */
static void print_simple(Str *out, const AstStmt *s) {
  switch (s->kind) {
  case STMT_EXPR:
    print_part(out, s->as.expr);
    break;
  case STMT_ASSIGN:
    print_assign(out, s);
    break;
  case STMT_LET:
  case STMT_VAR:
    print_decls(out, &s->as.let.names);
    str_add(out, " =");
    print_part(out, s->as.let.value);
    break;
  case STMT_GRID:
    print_names(out, s->as.grid.names, s->as.grid.n);
    str_add(out, " =");
    print_args(out, &s->as.grid.args);
    break;
  case STMT_LAYOUT:
    print_decls(out, &s->as.layout.v);
    break;
  case STMT_RETURN:
    if (s->as.result)
      print_part(out, s->as.result);
    break;
  case STMT_ASSERT:
    print_part(out, s->as.assertion.cond);
    if (s->as.assertion.message)
      print_part(out, s->as.assertion.message);
    break;
  case STMT_IMPORT:
    print_import(out, s);
    break;
  case STMT_LUA:
    str_addc(out, ' ');
    print_string(out, s->as.lua.text, s->as.lua.n);
    break;
  case STMT_ERROR:
  case STMT_BREAK:
  case STMT_CONTINUE:
    break;
  default:
    print_decls(out, &s->as.decls);
    break;
  }
}

/* Statements with blocks; everything else is one line. */
static void print_compound(Str *out, const AstStmt *s, size_t indent) {
  switch (s->kind) {
  case STMT_FOR:
    print_names(out, s->as.loop.names, s->as.loop.n);
    str_add(out, " in");
    print_part(out, s->as.loop.range);
    print_block(out, &s->as.loop.body, indent + 1);
    break;
  case STMT_WHILE:
    print_part(out, s->as.loop_while.cond);
    print_block(out, &s->as.loop_while.body, indent + 1);
    break;
  case STMT_IF:
    print_branch(out, s, indent);
    break;
  case STMT_ROLES:
    print_roles(out, s, indent);
    break;
  case STMT_KERNEL:
    print_kernel(out, s->as.kernel, indent);
    break;
  case STMT_FN:
    print_fn(out, s->as.fn, indent);
    break;
  case STMT_TEST:
    str_addc(out, ' ');
    print_string(out, s->as.test.name, s->as.test.name_n);
    print_block(out, &s->as.test.body, indent + 1);
    break;
  default:
    print_simple(out, s);
    break;
  }
}

static void print_stmt(Str *out, const AstStmt *s, size_t indent) {
  if (out->n > 0)
    line(out, indent);
  if (s->doc) {
    str_add(out, "doc ");
    print_string(out, s->doc, strlen(s->doc));
    line(out, indent);
  }
  str_add(out, ast_stmt_name(s->kind));
  print_compound(out, s, indent);
}

/* An empty file prints nothing at all. */
void ast_print(const AstFile *f, Str *out) {
  print_block(out, &f->body, 0);
  if (out->n > 0)
    str_addc(out, '\n');
}
