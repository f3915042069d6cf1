/* assign.c: assignments to names, elements and slices.
 *
 * In: places and values. Out: TS_SET, TS_STORE, or an assignment to a region. The place of `x[…] +=
 * v` is found once, before v: index expressions with loads or effects are named first. Always
 * holds: nothing immutable is written; a `var` is set only where it was declared, not inside a
 * parallel loop further in.
 * `x op= v` is `x = x op v` typed as written out; the place is the same node on both sides. Several
 * targets get values that were all computed before the first is written.
 * Tests: tests/lang, tests/errors/name_immutable_*.tile, parallel_var.
 */
#include "private.h"

#include <string.h>

/* ---------------------------------------------------------------- assignment */

/* `var` takes any number that its type can be given. In a parallel loop only variables of the
 * same iteration are set: one from outside would be written by all of them at once. */
static void assign_var(Check *c, Sym *s, TExpr *v, Span span) {
  if (s->parallel != c->parallel) {
    Diag *d = diag_add(c->sink, E0107, span,
                       "a parallel loop does not assign to a `var` from outside: %s", s->name);
    diag_also(c->sink, d, s->span, NULL);
    diag_hint(c->sink, d, "keep it in a tile, or reduce a tile after the loop");
    return;
  }
  if (s->role != c->role) {
    Diag *d = diag_add(c->sink, E0317, span, "a role does not assign to a `var` from outside: %s",
                       s->name);
    diag_also(c->sink, d, s->span, NULL);
    diag_hint(c->sink, d, "declare it in the role; roles tell each other through shared tiles");
    return;
  }
  /* As every store converts; a literal must fit. */
  v = sema_convert(c, v, s->var->type);
  if (sema_is_error(v))
    return;
  if (sema_is_tile(v)) {
    diag_add(c->sink, E0214, span, "%s is a scalar, it is assigned %s", s->name,
             sema_describe(c, v));
    return;
  }
  TStmt *st = sema_tstmt_new(c, TS_SET, span);
  st->as.let.var = s->var;
  st->as.let.value = v;
}

/* A name that stands for a value. For a scalar `let` the hint is the declaration that would do.
 */
static void immutable(Check *c, const Sym *s, Span span) {
  Diag *d = diag_add(c->sink, E0103, span, "%s is %s: it does not change", s->name, s->what);
  if (s->span.file)
    diag_also(c->sink, d, s->span, NULL);
  if (strcmp(s->what, "a `let`") == 0 && sema_is_num(s->value))
    diag_hint(c->sink, d, "var %s: %s = …", s->name,
              s->value->type.untyped ? "i32" : dtype_name(s->value->type.dtype));
}

/* Index expressions that load or count something are computed once. */
static void fix_place(Check *c, TExpr *p) {
  for (int i = 0; i < p->as.region.buf->rank; i++) {
    TAxis *a = &p->as.region.axis[i];
    if (!sema_is_pure(a->origin))
      a->origin = sema_bind_value(c, "index", a->origin, a->origin->span);
  }
}

/* One element: `C[i, j] = e` of a tensor or tile, converting as every store does. */
static void assign_element(Check *c, const TExpr *p, TExpr *v, Span span) {
  v = sema_convert(c, v, p->as.region.buf->dtype);
  if (sema_is_error(v))
    return;
  if (sema_is_tile(v)) {
    Diag *d = diag_add(c->sink, E0227, span, "this is one element of %s, it is assigned %s",
                       p->as.region.buf->name, sema_describe(c, v));
    if (p->as.region.buf->space == TB_GLOBAL)
      diag_hint(c->sink, d, "a region is written by copy(tile, %s[…])", p->as.region.buf->name);
    return;
  }
  TStmt *s = sema_tstmt_new(c, TS_STORE, span);
  s->as.assign.dst = p->as.region;
  s->as.assign.dst.span = p->span;
  s->as.assign.value = v;
}

/* A whole tensor or a slice of one on the left: what lies outside must be cut off, and that is
 * copy's work, so the language has no second way to do it. */
static void global_target(Check *c, const TExpr *p, Span span) {
  const TBuf *b = p->as.region.buf;
  Diag *d = diag_add(c->sink, E0224, span,
                     "%s has %s: an element takes an index for each, a region is written by copy",
                     b->name, sema_axes(c, b->rank));
  diag_hint(c->sink, d, "copy(tile, %s[…])", b->name);
}

/* Sorts a place that may be written by its kind: element, region of a tensor, region of a tile.
 */
static void assign_place(Check *c, TExpr *p, TExpr *v, Span span) {
  if (p->kind == TE_ELEM)
    assign_element(c, p, v, span);
  else if (p->type.kind == TY_GLOBAL)
    global_target(c, p, span);
  else if (sema_tile_allowed(c, span, "an assignment to a tile"))
    sema_assign_region(c, &p->as.region, v, span);
}

/* The value that goes to the place: of `x op= v` it is `x op v` typed as written out, so that the
 * two spellings cannot differ. */
static TExpr *assigned(Check *c, const AstStmt *s, TExpr *old, TExpr *value) {
  AstOp op = s->as.assign.op;
  /* A plain `=`, or something already reported. */
  if (op == AST_NO_OP || sema_is_error(value))
    return value;
  return sema_operate(c, op, old, value, s->as.assign.targets[0], s->as.assign.value, s->span);
}

/* Names of tiles and tensors are places; other values are not. */
static bool is_tile_name(const Sym *s) {
  return s->kind == SYM_VALUE && (sema_is_tile(s->value) || s->value->type.kind == TY_GLOBAL);
}

/* A name is found innermost first; what it stands for decides whether this sets a variable, fills
 * a tile, or is an error. */
static void assign_name(Check *c, const AstStmt *s, const AstExpr *target, TExpr *value) {
  Sym *sym = sema_sym_find(c, target->as.name);
  if (!sym) {
    /* After an error the name has no use that means more. */
    if (sema_is_error(value))
      sema_said(c, target->as.name);
    else
      sema_undeclared(c, target);
    return;
  }
  if (sym->kind == SYM_POISON || sema_is_error(value))
    return;
  if (sym->kind == SYM_VAR) {
    /* `x += v` reads x where it is set: a variable has no second place. */
    TExpr *old = sema_texpr_var(c, sym->var, false, target->span);
    assign_var(c, sym, assigned(c, s, old, value), s->span);
    return;
  }
  if (!is_tile_name(sym)) {
    immutable(c, sym, target->span);
    return;
  }
  TExpr *p = sema_check_place(c, target);
  if (!sema_is_error(p))
    assign_place(c, p, assigned(c, s, p, value), s->span);
}

/* One target of `=`; of several, the values were all computed before (sema_check_assign). */
static void assign_one(Check *c, const AstStmt *s, const AstExpr *target, TExpr *value) {
  if (target->kind == EXPR_NAME) {
    assign_name(c, s, target, value);
    return;
  }
  if (sema_is_error(value))
    return;
  TExpr *p = sema_check_place(c, target);
  if (sema_is_error(p))
    return;
  assign_place(c, p, value, s->span);
}

/* x[…] op= v: the place is found before the right side, once. */
static void assign_op(Check *c, const AstStmt *s) {
  const AstExpr *target = s->as.assign.targets[0];
  if (target->kind == EXPR_NAME) {
    assign_name(c, s, target, sema_check_expr(c, s->as.assign.value));
    return;
  }
  TExpr *p = sema_check_place(c, target);
  if (sema_is_error(p))
    return;
  /* From here on the place may be read and written: its indices are computed once. */
  fix_place(c, p);
  TExpr *v = sema_check_expr(c, s->as.assign.value);
  if (!sema_is_error(v))
    assign_place(c, p, assigned(c, s, p, v), s->span);
}

/* `a, b = b, a`: every value is computed and kept aside before the first place is written, as the
 * language says of tuples. */
void sema_check_assign(Check *c, const AstStmt *s) {
  size_t n = s->as.assign.ntargets;
  if (n == 1 && s->as.assign.op != AST_NO_OP) {
    assign_op(c, s);
    return;
  }
  TExpr *v = sema_check_expr(c, s->as.assign.value);
  if (n == 1) {
    assign_one(c, s, s->as.assign.targets[0], v);
    return;
  }
  if (sema_is_error(v))
    return;
  if (v->kind != TE_TUPLE || (size_t)v->nargs != n) {
    diag_add(c->sink, E0229, s->span, "%zu places are assigned %s", n,
             v->kind == TE_TUPLE ? arena_printf(c->a, "%d values", v->nargs) : sema_describe(c, v));
    return;
  }
  for (int i = 0; i < v->nargs; i++)
    v->arg[i] = sema_bind_value(c, "value", v->arg[i], s->span);
  for (size_t i = 0; i < n; i++)
    assign_one(c, s, s->as.assign.targets[i], v->arg[i]);
}
