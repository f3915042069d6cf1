/* operate.c: conversions, broadcasting, and operations on typed operands.
 *
 * In: typed operands and what typing.c says of them. Out: the operation, its operands converted and
 * its shape broadcast; TY_ERROR where something was reported. Always holds: no value changes its
 * type but here, by a cast that the tree shows.
 * Shapes follow NumPy: axes are matched from the last one, and an extent of 1 goes with any. The
 * rule of an operation (SemaRule) comes from typing.c, which the host shares; what is done here is
 * only what a tree needs: a cast for each operand that is not yet of its type, and the common
 * shape. Tests: tests/unit/check_sema.c, tests/errors/type_*.tile, shape_broadcast*.tile.
 */
#include "private.h"

/* ---------------------------------------------------------------- conversions */

static TExpr *misfit(Check *c, const TExpr *e, DType t) {
  diag_add(c->sink, E0204, e->span, "%s", sema_misfit(c->a, sema_num_of(c, e, NULL).value, t));
  return sema_texpr_error(c, e->span);
}

/* A constant of another type; conversion is exact arithmetic of the base, not of this compiler.
 */
static TExpr *constant_as(Check *c, const TExpr *e, DType t) {
  TExpr *r = sema_texpr_const(c, scalar_convert(e->as.value, t), false, e->span);
  return r;
}

/* A cast of a run-time value. One that only loses its `untyped` costs no operation. */
static TExpr *retyped(Check *c, TExpr *e, DType t) {
  if (e->type.dtype == t) {
    TExpr *r = sema_texpr_new(c, e->kind, sema_type_definite(e->type), e->span);
    *r = *e;
    r->type.untyped = false;
    return r;
  }
  SemaType type = sema_type_definite(e->type);
  type.dtype = t;
  return sema_texpr_op(c, OP_CAST, type, &e, 1, e->span);
}

/* Strings, dtypes and tuples have no numeric value. */
static bool has_elements(Check *c, const TExpr *e) {
  if (sema_is_num(e) || sema_is_tile(e))
    return true;
  if (sema_is_error(e))
    return false;
  Diag *d =
      diag_add(c->sink, E0211, e->span, "a number is needed here, this is %s", sema_describe(c, e));
  if (e->type.kind == TY_GLOBAL)
    diag_hint(c->sink, d, "an index for each axis reads one element");
  return false;
}

/* A literal that does not fit is refused; a conversion that is written (sema_cast) is not. */
TExpr *sema_convert(Check *c, TExpr *e, DType t) {
  if (sema_is_error(e) || !has_elements(c, e))
    return sema_texpr_error(c, e->span);
  /* At run time nothing can be refused: it converts by the language's rules. */
  if (!sema_is_const(e))
    return e->type.dtype == t && !e->type.untyped ? e : retyped(c, e, t);
  if (e->type.untyped && !sema_fits(e->as.value, t))
    return misfit(c, e, t);
  return constant_as(c, e, t);
}

/* `i8(300)` wraps and `i8(1e9)` saturates, as the language's conversions do. */
TExpr *sema_cast(Check *c, TExpr *e, DType t) {
  if (sema_is_error(e) || !has_elements(c, e))
    return sema_texpr_error(c, e->span);
  return sema_is_const(e) ? constant_as(c, e, t) : retyped(c, e, t);
}

/* ---------------------------------------------------------------- shapes */

/* Whether assigning would do: extents equal or 1, matched from the last axis. */
bool sema_broadcasts_to(const SemaType *from, const SemaType *to) {
  if (from->rank > to->rank)
    return false;
  for (int i = 1; i <= from->rank; i++) {
    int64_t x = from->extent[from->rank - i];
    if (x != 1 && x != to->extent[to->rank - i])
      return false;
  }
  return true;
}

/* The slip that everyone makes: a vector of rows meets a matrix without [:, None]. */
static void hint_broadcast(Check *c, Diag *d, const TExpr *x, const TExpr *y) {
  const TExpr *small = x->type.rank < y->type.rank ? x : y, *big = small == x ? y : x;
  const char *text = sema_span_text(c, small->span);
  if (small->type.rank == 1 && big->type.rank == 2 &&
      small->type.extent[0] == big->type.extent[0] && text && small->span.file)
    diag_hint(c->sink, d, "axes are matched from the last one: %s[:, None] gives one a row",
              small->kind == TE_OP ? arena_printf(c->a, "(%s)", text) : text);
}

/* NumPy's rule. The two operands are underlined where they stand apart in the text. */
bool sema_broadcast(Check *c, const TExpr *x, const TExpr *y, Span span, SemaType *out) {
  const SemaType *a = &x->type, *b = &y->type;
  SemaType t = a->rank >= b->rank ? *a : *b;
  if (!sema_is_tile(x) || !sema_is_tile(y)) {
    t = sema_is_tile(x) ? *a : *b;
    *out = t;
    return true;
  }
  for (int i = 1; i <= t.rank; i++) {
    int64_t p = i <= a->rank ? a->extent[a->rank - i] : 1;
    int64_t q = i <= b->rank ? b->extent[b->rank - i] : 1;
    if (p != q && p != 1 && q != 1) {
      bool apart = x->span.file && x->span.end <= y->span.begin;
      Diag *d = diag_add(c->sink, E0212, apart ? x->span : span,
                         "shapes %s and %s do not broadcast: %lld against %lld",
                         sema_describe(c, x), sema_describe(c, y), (long long)p, (long long)q);
      if (apart)
        diag_also(c->sink, d, y->span, NULL);
      hint_broadcast(c, d, x, y);
      return false;
    }
    t.extent[t.rank - i] = p == 1 ? q : p;
  }
  *out = t;
  return true;
}

/* ---------------------------------------------------------------- applying a rule */

/* Typing gave the words; this gives them a place. */
TExpr *sema_report_rule(Check *c, const SemaRule *r, Span span) {
  Diag *d = diag_add(c->sink, r->code, span, "%s", r->error);
  if (r->hint)
    diag_hint(c->sink, d, "%s", r->hint);
  return sema_texpr_error(c, span);
}

/* Converts the operands as the rule says and gives the result the shape they broadcast to. */
TExpr *sema_apply_rule(Check *c, const SemaRule *r, TExpr **args, int n, Span span) {
  TExpr *v[4];
  SemaType t = sema_type_num(r->dtype, r->untyped);
  for (int i = 0; i < n; i++) {
    v[i] = sema_convert(c, args[i], i ? r->right : r->left);
    if (sema_is_error(v[i]))
      return v[i];
  }
  /* Operands are taken two at a time; the shape so far stands for those before. */
  const TExpr *shape = v[0];
  for (int i = 1; i < n; i++) {
    SemaType both;
    if (!sema_broadcast(c, shape, v[i], span, &both))
      return sema_texpr_error(c, span);
    TExpr *s = sema_texpr_new(c, TE_ERROR, both, span);
    shape = s;
  }
  if (shape->type.kind == TY_TILE) {
    t = shape->type;
    t.dtype = r->dtype;
    t.untyped = r->untyped;
  }
  if (r->op == OP_NONE)
    return v[0];
  return sema_texpr_op(c, r->op, t, v, n, span);
}

/* A value that operators take; anything else is reported. */
bool sema_operand_ok(Check *c, const TExpr *e) {
  if (sema_is_num(e) || sema_is_tile(e))
    return true;
  if (sema_is_error(e))
    return false;
  if (e->type.kind == TY_GLOBAL) {
    const char *name = e->kind == TE_REGION ? e->as.region.buf->name : "view";
    Diag *d = diag_add(c->sink, E0224, e->span,
                       "%s: a whole-tile expression takes tiles, not global tensors",
                       sema_describe(c, e));
    diag_hint(c->sink, d,
              "bring it in with copy(%s[…], tile); an index for each axis reads one element", name);
    return false;
  }
  diag_add(c->sink, E0211, e->span, "a number or tile is needed here, this is %s",
           sema_describe(c, e));
  return false;
}

/* The error of a rule underlines both operands: either may be the one to change. */
TExpr *sema_operate(Check *c, AstOp op, TExpr *x, TExpr *y, const AstExpr *ax, const AstExpr *ay,
                    Span span) {
  bool ok = sema_operand_ok(c, x);
  if (!sema_operand_ok(c, y) || !ok)
    return sema_texpr_error(c, span);
  SemaRule r;
  if (!sema_binary(c->a, SEMA_KERNEL, op, sema_num_of(c, x, ax), sema_num_of(c, y, ay), &r)) {
    TExpr *e = sema_report_rule(c, &r, x->span);
    Diag *d = c->sink->n ? c->sink->v[c->sink->n - 1] : NULL;
    if (d && d->code == r.code)
      diag_also(c->sink, d, y->span, NULL);
    return e;
  }
  TExpr *v[2] = {x, y};
  return sema_apply_rule(c, &r, v, 2, span);
}
