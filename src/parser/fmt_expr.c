/* fmt_expr.c: boxes of expressions, types and lists.
 *
 * In: trees, and the source for what is kept as written: literals, and whether an operator stood
 * without spaces (`by*BM`) or a list was broken after its bracket. Out: boxes. Always holds: the
 * text parses to the same tree, because the author's parentheses are kept and lines only break
 * where they go on. Tests: tests/unit/check_parser.c.
 */
#include "fmt.h"

static const uint8_t precedence[AST_OP_COUNT] = {
#define BINARY(op, text, prec, token) [AST_##op] = prec,
#include "ast.def"
};

/* ---- lists ---- */

/* Elements between brackets, or none where open is "". */
typedef struct List {
  const char *open, *close;
  const void *v; /* the array of elements */
  size_t n;
  Span (*span)(const void *v, size_t i);
  const Box *(*item)(Fmt *f, const void *v, size_t i);
  bool fill;       /* as many on a line as fit, when broken */
  bool lone_comma; /* (x,) */
} List;

/* Where the list's closing bracket stands. */
static uint32_t list_end(Fmt *f, const List *list) {
  uint32_t end = list->span(list->v, list->n - 1).end;
  if (!*list->open)
    return end;
  const Token *t = fmt_token(f, end);
  return t->kind == T_COMMA ? fmt_token(f, t->end)->begin : t->begin;
}

/* Each element is a cell of its own with its comma and the comments behind that. */
static void list_items(Fmt *f, const List *list, uint32_t end, Boxes *b) {
  /* Without a bracket there is no place for a comment from before the first element. */
  bool place = *list->open || !fmt_comment_before(f, list->span(list->v, 0).begin);
  bool commented = false; /* then the line ends here */
  for (size_t i = 0; i < list->n; i++) {
    bool last = i + 1 == list->n;
    const Box *item = list->item(f, list->v, i);
    Boxes cell = fmt_boxes_new(f->arena);
    if (i > 0)
      fmt_boxes_add(&cell,
                    commented ? fmt_box_line(f->arena, BOX_NEWLINE) : fmt_box_break(f->arena, " "));
    fmt_boxes_add(&cell, item);
    if (!last || list->lone_comma)
      fmt_boxes_text(&cell, ",");
    commented = place && (!last || *list->open) &&
                fmt_comments_behind(f, &cell, last ? end : list->span(list->v, i + 1).begin);
    fmt_boxes_add(b, fmt_boxes_end(&cell, list->fill ? BOX_GROUP : BOX_ROW));
  }
}

/* Broken if the author broke it behind the bracket, if a comment stands in it, or if it does not
 * fit. */
static const Box *list_box(Fmt *f, const List *list) {
  Boxes all = fmt_boxes_new(f->arena), inner = fmt_boxes_new(f->arena);
  fmt_boxes_text(&all, list->open);
  if (list->n > 0) {
    uint32_t begin = list->span(list->v, 0).begin, end = list_end(f, list);
    if (*list->open) {
      fmt_comments_behind(f, &inner, begin);
      bool broken = fmt_token(f, begin)->line_start;
      fmt_boxes_add(&inner,
                    broken ? fmt_box_line(f->arena, BOX_NEWLINE) : fmt_box_break(f->arena, ""));
    }
    list_items(f, list, end, &inner);
    fmt_boxes_add(&all, fmt_boxes_end(&inner, BOX_INDENT));
    if (*list->open)
      fmt_boxes_add(&all, fmt_box_break(f->arena, ""));
  }
  fmt_boxes_text(&all, list->close);
  return fmt_boxes_end(&all, BOX_GROUP);
}

/* Lists hold elements of several types; these pairs say where one stands and what it looks like. */
static Span expr_span(const void *v, size_t i) {
  return ((AstExpr *const *)v)[i]->span;
}
static const Box *expr_item(Fmt *f, const void *v, size_t i) {
  return fmt_expr(f, ((AstExpr *const *)v)[i]);
}

/* Numbers and texts alone fill lines, as in a table; anything else gets a line an element. */
static bool literals(AstExpr *const *v, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const AstExpr *e = v[i]->kind == EXPR_UNARY ? v[i]->as.unary.x : v[i];
    if (e->kind != EXPR_INT && e->kind != EXPR_FLOAT && e->kind != EXPR_STRING &&
        e->kind != EXPR_BOOL)
      return false;
  }
  return true;
}

/* A tuple of one keeps the comma that makes it one. */
const Box *fmt_exprs(Fmt *f, const char *open, AstExpr *const *v, size_t n, const char *close) {
  List list = {open, close, v, n, expr_span, expr_item, !*open || literals(v, n), false};
  list.lone_comma = *open == '(' && n == 1;
  return list_box(f, &list);
}

/* From the name, if there is one, to the end of the value. */
static Span arg_span(const void *v, size_t i) {
  const AstArg *a = (const AstArg *)v + i;
  return a->name ? span_join(a->name_span, a->value->span) : a->value->span;
}

/* `name = value` keeps its spaces: a call's names should stand out. */
static const Box *arg_item(Fmt *f, const void *v, size_t i) {
  const AstArg *a = (const AstArg *)v + i;
  if (!a->name)
    return fmt_expr(f, a->value);
  Boxes b = fmt_boxes_new(f->arena);
  fmt_boxes_text(&b, a->name);
  fmt_boxes_text(&b, " = ");
  fmt_boxes_add(&b, fmt_expr(f, a->value));
  return fmt_boxes_end(&b, BOX_ROW);
}

/* Options of a grid fill their lines; the arguments of a call get a line each. */
const Box *fmt_args(Fmt *f, const char *open, const AstArgs *args, const char *close) {
  List list = {open, close, args->v, args->n, arg_span, arg_item, !*open, false};
  return list_box(f, &list);
}

/* ---- types and declarations ---- */

static Span extent_span(const void *v, size_t i) {
  return ((const AstExtent *)v)[i].span;
}

/* A static extent is its own value and is not printed twice. */
static const Box *extent_item(Fmt *f, const void *v, size_t i) {
  const AstExtent *x = (const AstExtent *)v + i;
  Boxes b = fmt_boxes_new(f->arena);
  if (x->is_static)
    fmt_boxes_text(&b, "static ");
  if (x->name && !x->is_static) {
    fmt_boxes_text(&b, x->name);
    fmt_boxes_text(&b, " = ");
  }
  fmt_boxes_add(&b, fmt_expr(f, x->value));
  return fmt_boxes_end(&b, BOX_ROW);
}

static Span part_span(const void *v, size_t i) {
  return ((AstType *const *)v)[i]->span;
}
static const Box *part_item(Fmt *f, const void *v, size_t i) {
  return fmt_type(f, ((AstType *const *)v)[i]);
}

/* At most one of parts and extents is there. */
const Box *fmt_type(Fmt *f, const AstType *t) {
  Boxes b = fmt_boxes_new(f->arena);
  if (t->base.text)
    fmt_boxes_text(&b, t->base.text);
  List parts = {"(", ")", t->parts, t->nparts, part_span, part_item, false, false};
  List extents = {"[", "]", t->extents, t->nextents, extent_span, extent_item, false, false};
  if (t->nparts)
    fmt_boxes_add(&b, list_box(f, &parts));
  if (t->has_extents)
    fmt_boxes_add(&b, list_box(f, &extents));
  return fmt_boxes_end(&b, BOX_ROW);
}

static Span decl_span(const void *v, size_t i) {
  return ((const AstDecl *)v)[i].span;
}

/* A barrier's type is its extents, right behind the name. */
static const Box *barrier_item(Fmt *f, const void *v, size_t i) {
  const AstDecl *d = (const AstDecl *)v + i;
  Boxes b = fmt_boxes_new(f->arena);
  fmt_boxes_text(&b, d->name.text);
  if (d->type)
    fmt_boxes_add(&b, fmt_type(f, d->type));
  if (d->init) {
    fmt_boxes_text(&b, "(arrivals = ");
    fmt_boxes_add(&b, fmt_expr(f, d->init));
    fmt_boxes_text(&b, ")");
  }
  return fmt_boxes_end(&b, BOX_ROW);
}

/* `name: inout type = value`, each part where it is written. */
static const Box *decl_item(Fmt *f, const void *v, size_t i) {
  const AstDecl *d = (const AstDecl *)v + i;
  Boxes b = fmt_boxes_new(f->arena);
  fmt_boxes_text(&b, d->name.text);
  if (d->type) {
    fmt_boxes_text(&b, d->is_inout ? ": inout " : ": ");
    fmt_boxes_add(&b, fmt_type(f, d->type));
  }
  if (d->init) {
    fmt_boxes_text(&b, " = ");
    fmt_boxes_add(&b, fmt_expr(f, d->init));
  }
  return fmt_boxes_end(&b, BOX_ROW);
}

/* They fill lines, like declarations of tiles. */
const Box *fmt_barriers(Fmt *f, const AstDecls *d) {
  List list = {"", "", d->v, d->n, decl_span, barrier_item, true, false};
  return list_box(f, &list);
}

/* Parameters get a line each when broken; declarations of a statement fill lines. */
const Box *fmt_decls(Fmt *f, const char *open, const AstDecls *d, const char *close) {
  List list = {open, close, d->v, d->n, decl_span, decl_item, !*open, false};
  return list_box(f, &list);
}

static Span name_span(const void *v, size_t i) {
  return ((const AstName *)v)[i].span;
}
static const Box *name_item(Fmt *f, const void *v, size_t i) {
  const char *s = ((const AstName *)v)[i].text;
  Boxes b = fmt_boxes_new(f->arena);
  fmt_boxes_text(&b, s);
  return fmt_boxes_end(&b, BOX_ROW);
}

/* Names of a loop, a grid or a layout's map. */
const Box *fmt_names(Fmt *f, const AstName *v, size_t n) {
  List list = {"", "", v, n, name_span, name_item, true, false};
  return list_box(f, &list);
}

/* ---- operators ---- */

/* An operator between two operands; the line may break behind it, but not where the author wrote it
 * without spaces, which shows only while both operands stand beside it. */
static void operator_box(Fmt *f, Boxes *b, const char *op, bool tight) {
  if (!tight)
    fmt_boxes_text(b, " ");
  fmt_boxes_text(b, op);
  if (!tight)
    fmt_boxes_add(b, fmt_box_break(f->arena, " "));
}

/* x op y op z, all of one precedence, break together. */
static void chain(Fmt *f, const AstExpr *e, Boxes *b) {
  const AstExpr *x = e->as.binary.x, *y = e->as.binary.y;
  AstOp op = e->as.binary.op;
  bool same = x->kind == EXPR_BINARY && !x->paren && op != AST_POW &&
              precedence[x->as.binary.op] == precedence[op];
  if (same)
    chain(f, x, b);
  else
    fmt_boxes_add(b, fmt_expr(f, x));
  bool word = op == AST_AND || op == AST_OR;
  bool tight =
      e->as.binary.op_span.begin == x->span.end && e->as.binary.op_span.end == y->span.begin;
  operator_box(f, b, ast_op_text(op), tight && !word);
  fmt_boxes_add(b, fmt_expr(f, y));
}

/* The places of these operators are not kept in the tree, so they always have spaces. */
static void compare(Fmt *f, const AstExpr *e, Boxes *b) {
  fmt_boxes_add(b, fmt_expr(f, e->as.compare.x[0]));
  for (size_t i = 0; i < e->as.compare.n; i++) {
    operator_box(f, b, ast_op_text(e->as.compare.ops[i]), false);
    fmt_boxes_add(b, fmt_expr(f, e->as.compare.x[i + 1]));
  }
}

/* One group a chain: it stands on one line or breaks behind each operator. */
static const Box *operators(Fmt *f, const AstExpr *e) {
  Boxes b = fmt_boxes_new(f->arena), group = fmt_boxes_new(f->arena);
  if (e->kind == EXPR_BINARY)
    chain(f, e, &b);
  else
    compare(f, e, &b);
  fmt_boxes_add(&group, fmt_boxes_end(&b, BOX_INDENT));
  return fmt_boxes_end(&group, BOX_GROUP);
}

/* Broken behind `else`, where a line may end. */
static const Box *conditional(Fmt *f, const AstExpr *e) {
  Boxes b = fmt_boxes_new(f->arena), group = fmt_boxes_new(f->arena);
  fmt_boxes_add(&b, fmt_expr(f, e->as.cond.then));
  fmt_boxes_text(&b, " if ");
  fmt_boxes_add(&b, fmt_expr(f, e->as.cond.cond));
  fmt_boxes_text(&b, " else");
  fmt_boxes_add(&b, fmt_box_break(f->arena, " "));
  fmt_boxes_add(&b, fmt_expr(f, e->as.cond.other));
  fmt_boxes_add(&group, fmt_boxes_end(&b, BOX_INDENT));
  return fmt_boxes_end(&group, BOX_GROUP);
}

/* ---- indices ---- */

static Span axis_span(const void *v, size_t i) {
  return ((const AstAxis *)v)[i].span;
}

/* No spaces around colons, whatever stands beside them. */
static const Box *axis_item(Fmt *f, const void *v, size_t i) {
  const AstAxis *x = (const AstAxis *)v + i;
  Boxes b = fmt_boxes_new(f->arena);
  if (x->kind == AXIS_NONE)
    fmt_boxes_text(&b, "None");
  if (x->start)
    fmt_boxes_add(&b, fmt_expr(f, x->start));
  if (x->kind == AXIS_SLICE || x->kind == AXIS_WIDTH)
    fmt_boxes_text(&b, x->kind == AXIS_WIDTH ? ":+" : ":");
  if (x->stop)
    fmt_boxes_add(&b, fmt_expr(f, x->stop));
  if (x->step) {
    fmt_boxes_text(&b, ":");
    fmt_boxes_add(&b, fmt_expr(f, x->step));
  }
  return fmt_boxes_end(&b, BOX_ROW);
}

/* The base may itself be long; its own groups break before the brackets do. */
static const Box *index_box(Fmt *f, const AstExpr *e) {
  List list = {"[", "]", e->as.index.axes, e->as.index.n, axis_span, axis_item, false, false};
  Boxes b = fmt_boxes_new(f->arena);
  fmt_boxes_add(&b, fmt_expr(f, e->as.index.base));
  fmt_boxes_add(&b, list_box(f, &list));
  return fmt_boxes_end(&b, BOX_ROW);
}

/* ---- the rest ---- */

/* A function and its arguments, which break independently. */
static const Box *two(Fmt *f, const Box *x, const Box *y) {
  Boxes b = fmt_boxes_new(f->arena);
  fmt_boxes_add(&b, x);
  fmt_boxes_add(&b, y);
  return fmt_boxes_end(&b, BOX_ROW);
}

/* A sign has no space behind it, a word has one. */
static const Box *worded(Fmt *f, const char *word, const AstExpr *e) {
  Boxes b = fmt_boxes_new(f->arena);
  fmt_boxes_text(&b, word);
  fmt_boxes_add(&b, fmt_expr(f, e));
  return fmt_boxes_end(&b, BOX_ROW);
}

/* Never broken at the point: chains of members are short. */
static const Box *member(Fmt *f, const AstExpr *e) {
  Boxes b = fmt_boxes_new(f->arena);
  fmt_boxes_add(&b, fmt_expr(f, e->as.attr.base));
  fmt_boxes_text(&b, ".");
  fmt_boxes_text(&b, e->as.attr.name.text);
  return fmt_boxes_end(&b, BOX_ROW);
}

/* Its parameters stay on one line, as they fit one. */
static const Box *lambda(Fmt *f, const AstExpr *e) {
  Boxes b = fmt_boxes_new(f->arena);
  fmt_boxes_text(&b, "(");
  fmt_boxes_add(&b, fmt_names(f, e->as.lambda.params, e->as.lambda.n));
  fmt_boxes_text(&b, ") -> ");
  fmt_boxes_add(&b, fmt_expr(f, e->as.lambda.body));
  return fmt_boxes_end(&b, BOX_ROW);
}

/* A literal or name as the author wrote it, without parentheses around it. */
static const Box *leaf(Fmt *f, const AstExpr *e) {
  const Token *t = fmt_token(f, e->span.begin);
  while (t->kind == T_LPAREN)
    t++;
  return fmt_source(f, t->begin, t->end);
}

/* Without the parentheses around it. */
static const Box *bare(Fmt *f, const AstExpr *e) {
  switch (e->kind) {
  case EXPR_UNARY:
    return worded(f, e->as.unary.op == AST_NOT ? "not " : ast_op_text(e->as.unary.op),
                  e->as.unary.x);
  case EXPR_BINARY:
  case EXPR_COMPARE:
    return operators(f, e);
  case EXPR_COND:
    return conditional(f, e);
  case EXPR_CALL: {
    const Box *fn = fmt_expr(f, e->as.call.fn);
    return two(f, fn, fmt_args(f, "(", &e->as.call.args, ")"));
  }
  case EXPR_SPECIALIZE: {
    const Box *fn = fmt_expr(f, e->as.call.fn);
    return two(f, fn, fmt_args(f, "[", &e->as.call.args, "]"));
  }
  case EXPR_INDEX:
    return index_box(f, e);
  case EXPR_ATTR:
    return member(f, e);
  case EXPR_TUPLE:
    return fmt_exprs(f, e->paren ? "(" : "", e->as.list.v, e->as.list.n, e->paren ? ")" : "");
  case EXPR_LIST:
    return fmt_exprs(f, "[", e->as.list.v, e->as.list.n, "]");
  case EXPR_LAMBDA:
    return lambda(f, e);
  case EXPR_BENCH:
    return worded(f, "bench ", e->as.run);
  case EXPR_CHECK:
    return worded(f, "check ", e->as.run);
  default:
    return leaf(f, e);
  }
}

/* The author's parentheses are kept: they are there for the reader. */
const Box *fmt_expr(Fmt *f, const AstExpr *e) {
  if (!e->paren || e->kind == EXPR_TUPLE)
    return bare(f, e);
  Boxes b = fmt_boxes_new(f->arena);
  fmt_boxes_text(&b, "(");
  fmt_boxes_add(&b, bare(f, e));
  fmt_boxes_text(&b, ")");
  return fmt_boxes_end(&b, BOX_ROW);
}
