/* mentions.c: the names that an expression mentions.
 *
 * In: an expression of the tree. Out: one call for each name in it, in the order of the text, as
 * often as it stands there; of `module.name` the module. Always holds: what a call names as its
 * function is among them; names of arguments (`axis = 0`) and attributes are not. Tests:
 * tests/unit/check_parser.c (names_of_expressions).
 */
#include "parser.h"

typedef struct Mentions {
  AstSeeName see;
  void *ctx;
} Mentions;

static void walk(const Mentions *m, const AstExpr *e);

static void walk_all(const Mentions *m, AstExpr *const *v, size_t n) {
  for (size_t i = 0; i < n; i++)
    walk(m, v[i]);
}

static void walk_args(const Mentions *m, const AstArgs *args) {
  for (size_t i = 0; i < args->n; i++)
    walk(m, args->v[i].value);
}

static void walk_axes(const Mentions *m, const AstAxis *axes, size_t n) {
  for (size_t i = 0; i < n; i++)
    walk_all(m, (AstExpr *[]){axes[i].start, axes[i].stop, axes[i].step}, 3);
}

/* Leaves but names have none. */
static void walk(const Mentions *m, const AstExpr *e) {
  switch (e ? e->kind : EXPR_ERROR) {
  case EXPR_NAME:
    m->see(e->as.name, m->ctx);
    break;
  case EXPR_UNARY:
    walk(m, e->as.unary.x);
    break;
  case EXPR_BINARY:
    walk_all(m, (AstExpr *[]){e->as.binary.x, e->as.binary.y}, 2);
    break;
  case EXPR_COMPARE:
    walk_all(m, e->as.compare.x, e->as.compare.n + 1);
    break;
  case EXPR_COND:
    walk_all(m, (AstExpr *[]){e->as.cond.then, e->as.cond.cond, e->as.cond.other}, 3);
    break;
  case EXPR_CALL:
  case EXPR_SPECIALIZE:
    walk(m, e->as.call.fn);
    walk_args(m, &e->as.call.args);
    break;
  case EXPR_INDEX:
    walk(m, e->as.index.base);
    walk_axes(m, e->as.index.axes, e->as.index.n);
    break;
  case EXPR_ATTR:
    walk(m, e->as.attr.base);
    break;
  case EXPR_TUPLE:
  case EXPR_LIST:
    walk_all(m, e->as.list.v, e->as.list.n);
    break;
  case EXPR_LAMBDA:
    walk(m, e->as.lambda.body);
    break;
  case EXPR_BENCH:
  case EXPR_CHECK:
    walk(m, e->as.run);
    break;
  default:
    break;
  }
}

void ast_mentions(const AstExpr *e, AstSeeName see, void *ctx) {
  walk(&(Mentions){see, ctx}, e);
}
