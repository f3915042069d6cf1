/* product.c: X @ Y and gemm(…).
 *
 * In: two operands. Out: a TE_DOT of rank-2 tiles of one dtype whose inner extents agree; the
 * messages here are the ones that people who write kernels meet first.
 * Operands may be regions, with or without `.T`, or computed tiles. The result of `a @ b` is the
 * accumulator's dtype (f32 for floats up to 32 bits); only where it is added to a place of that
 * same dtype does it accumulate there, in one chain of fused steps, as the language promises.
 * Tests: tests/lang/product_*.tile, tests/errors/product_*.tile.
 */
#include "private.h"

#include <string.h>

/* Every message here shows both operands. */
typedef struct Sides {
  TExpr *x, *y;
  const char *xs, *ys; /* source texts, for messages */
} Sides;

/* Matrices only; the hints say how a vector becomes one. */
static bool product_operand(Check *c, const TExpr *e, const char *text) {
  if (sema_is_error(e))
    return false;
  if (e->type.kind == TY_GLOBAL) {
    Diag *d = diag_add(c->sink, E0224, e->span, "%s: a product takes tiles, not global tensors",
                       sema_describe(c, e));
    diag_hint(c->sink, d, "bring it in with copy(%s[…], tile)",
              e->kind == TE_REGION ? e->as.region.buf->name : "view");
    return false;
  }
  if (sema_is_tile(e) && e->type.rank == 2)
    return true;
  Diag *d = diag_add(c->sink, E0233, e->span, "a product takes tiles with two axes: %s is %s", text,
                     sema_describe(c, e));
  if (sema_is_tile(e) && e->type.rank == 1)
    diag_hint(c->sink, d, "%s[None, :] is a row, %s[:, None] a column", text, text);
  else if (sema_is_num(e))
    diag_hint(c->sink, d, "`*` multiplies by a scalar");
  return false;
}

/* The operand's text, or what it is called otherwise. */
static const char *name_of(Check *c, const AstExpr *ast, const char *otherwise) {
  const char *s = sema_source_text(c, ast);
  return s ? s : otherwise;
}

/* The hint of E0231: the product with the other side turned round. */
static void hint_transpose(Check *c, Diag *d, const Sides *s, const AstExpr *ay) {
  const int64_t k = s->x->type.extent[1], *e = s->y->type.extent;
  bool t = ay->kind == EXPR_ATTR && strcmp(ay->as.attr.name.text, "T") == 0;
  const char *other = t ? name_of(c, ay->as.attr.base, "Y") : arena_printf(c->a, "%s.T", s->ys);
  /* The plain case: y lies the other way round. */
  if (e[1] == k) {
    diag_hint(c->sink, d, "%s @ %s has equal inner extents; `tilesh explain E0231` says more",
              s->xs, other);
    return;
  }
  const char *base = t ? name_of(c, ay->as.attr.base, "Y") : s->ys;
  int64_t rows = t ? k : e[1], cols = t ? e[0] : k;
  diag_hint(c->sink, d, "%s @ %s needs %s to be %s[%lld, %lld]; `tilesh explain E0231` says more",
            s->xs, other, base, dtype_name(s->y->type.dtype), (long long)rows, (long long)cols);
}

/* The error of the README, word for word: tests/errors/product_inner.tile. */
static bool inner_extents(Check *c, const Sides *s, const AstExpr *ay) {
  if (s->x->type.extent[1] == s->y->type.extent[0])
    return true;
  Diag *d = diag_add(c->sink, E0231, s->x->span,
                     "the inner extents of a product differ: %s is %s, %s is %s", s->xs,
                     sema_describe(c, s->x), s->ys, sema_describe(c, s->y));
  diag_also(c->sink, d, s->y->span, NULL);
  hint_transpose(c, d, s, ay);
  return false;
}

/* A computed tile of plain numbers takes the other side's dtype. */
static TExpr *meet_untyped(Check *c, TExpr *x, const TExpr *y) {
  if (!x->type.untyped)
    return x;
  return sema_convert(c, x, y->type.untyped ? x->type.dtype : y->type.dtype);
}

/* Converting silently would hide a cost or a loss; the hint converts the wider side. */
static bool one_dtype(Check *c, const Sides *s) {
  DType x = s->x->type.dtype, y = s->y->type.dtype;
  if (op_product_type(x, y) != DT_NONE)
    return true;
  Diag *d = diag_add(c->sink, E0232, s->x->span,
                     "the operands of a product have one dtype: %s is %s, %s is %s", s->xs,
                     sema_describe(c, s->x), s->ys, sema_describe(c, s->y));
  diag_also(c->sink, d, s->y->span, NULL);
  if (x == DT_BOOL || y == DT_BOOL)
    return false;
  /* The wider side is converted: that is the usual p of an attention. */
  bool left = dtype_bits(x) >= dtype_bits(y);
  const char *xs = s->xs, *ys = s->ys;
  if (left)
    xs = arena_printf(c->a, "%s(%s)", dtype_name(y), xs);
  else
    ys = arena_printf(c->a, "%s(%s)", dtype_name(x), ys);
  diag_hint(c->sink, d, "%s @ %s", xs, ys);
  return false;
}

/* The result's dtype is the accumulator's, whatever it is stored into later. */
TExpr *sema_check_product(Check *c, TExpr *x, TExpr *y, const AstExpr *e, const AstExpr *ax,
                          const AstExpr *ay) {
  Sides s = {x, y, name_of(c, ax, "the left side"), name_of(c, ay, "the right side")};
  bool ok = product_operand(c, x, s.xs);
  if (!product_operand(c, y, s.ys) || !ok || !sema_tile_allowed(c, e->span, "a product"))
    return sema_texpr_error(c, e->span);
  s.x = meet_untyped(c, x, y);
  s.y = meet_untyped(c, y, x);
  if (sema_is_error(s.x) || sema_is_error(s.y) || !inner_extents(c, &s, ay) || !one_dtype(c, &s))
    return sema_texpr_error(c, e->span);
  int64_t extent[2] = {s.x->type.extent[0], s.y->type.extent[1]};
  DType t = op_product_type(s.x->type.dtype, s.y->type.dtype);
  TExpr *r = sema_texpr_new(c, TE_DOT, sema_type_tile(t, 2, extent), e->span);
  r->arg = ARENA_ARRAY(c->a, TExpr *, 2);
  r->arg[0] = s.x;
  r->arg[1] = s.y;
  r->nargs = 2;
  return r;
}

/* ---------------------------------------------------------------- gemm */

/* How warps share the product; a wish. Any string known when the kernel is compiled. */
static bool policy_of(Check *c, const AstExpr *e, TPolicy *out) {
  static const char *const names[] = {
      [TP_AUTO] = "auto", [TP_ROWS] = "rows", [TP_COLUMNS] = "columns", [TP_SQUARE] = "square"};
  TExpr *v = sema_check_expr(c, e);
  if (sema_is_error(v))
    return false;
  const char *text = v->kind == TE_STRING ? v->as.string.s : NULL;
  for (size_t i = 0; text && i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i], text) == 0) {
      *out = (TPolicy)i;
      return true;
    }
  Diag *d = text ? diag_add(c->sink, E0111, e->span, "there is no policy \"%s\"", text)
                 : diag_add(c->sink, E0111, e->span, "a policy is a string, this is %s",
                            sema_describe(c, v));
  diag_hint(c->sink, d, "policy = \"rows\", \"columns\", \"square\" or \"auto\"");
  return false;
}

/* promote, tf32: the only words that change a product's numbers, and so they are written. */
static bool gemm_options(Check *c, const Args *args, TStmt *s) {
  int64_t promote = -1;
  if (args->v[3] && !policy_of(c, args->v[3], &s->as.dot.policy))
    return false;
  if (args->v[4] && !sema_check_const_int(c, args->v[4], "promote", &promote))
    return false;
  if (args->v[4] && (promote < 0 || promote > INT32_MAX)) {
    Diag *d = diag_add(c->sink, E0111, args->v[4]->span, "promote is a number of steps along k");
    diag_hint(c->sink, d, "promote = 128; 0: never");
    return false;
  }
  s->as.dot.promote = (int)promote;
  return !args->v[5] || sema_check_const_bool(c, args->v[5], "tf32", &s->as.dot.tf32);
}

/* gemm writes into acc as it is: no conversion could keep the one rounding. */
static bool accumulator(Check *c, const TExpr *acc, const TExpr *dot, Span span) {
  if (acc->kind == TE_REGION && sema_is_tile(acc) && acc->type.dtype == dot->type.dtype &&
      sema_type_same_shape(&acc->type, &dot->type))
    return true;
  bool tile = acc->kind == TE_REGION && sema_is_tile(acc);
  Diag *d =
      diag_add(c->sink, E0234, tile ? acc->span : span, "this product is %s, its accumulator is %s",
               sema_describe(c, dot), sema_describe(c, acc));
  if (tile)
    diag_hint(c->sink, d, "fragment %s: %s = 0", acc->as.region.buf->name, sema_describe(c, dot));
  return false;
}

/* `acc += a @ b` with options; nothing is appended until all of them are right. */
TExpr *sema_check_gemm(Check *c, const AstExpr *e) {
  static const char *const params[] = {"a", "b", "acc", "policy", "promote", "tf32", NULL};
  Args args;
  TExpr *none = sema_texpr_error(c, e->span);
  if (!sema_take_args(c, e, "gemm", params, 3, 3, &args))
    return none;
  TExpr *x = sema_check_expr(c, args.v[0]), *y = sema_check_expr(c, args.v[1]);
  TExpr *acc = sema_check_place(c, args.v[2]);
  TExpr *dot = sema_check_product(c, x, y, e, args.v[0], args.v[1]);
  if (sema_is_error(acc) || sema_is_error(dot) || !accumulator(c, acc, dot, e->span))
    return none;
  /* Appended last, when every option is right. */
  TStmt *s = ARENA_NEW(c->a, TStmt);
  *s = (TStmt){.kind = TS_DOT, .span = e->span};
  s->as.dot.c = acc->as.region;
  s->as.dot.a = dot->arg[0];
  s->as.dot.b = dot->arg[1];
  s->as.dot.accumulate = true;
  s->as.dot.promote = -1;
  if (!gemm_options(c, &args, s))
    return none;
  VEC_PUSH(c->a, c->out, s);
  none->type = sema_type_kind(TY_NONE);
  return none;
}
