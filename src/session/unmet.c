/* unmet.c: what is said of an assert that no `auto` size meets.
 *
 * In: the kernel with the author's sizes and the shapes of a call. Out: the assert's message with
 * the values of the names in its condition, and what was tried; where only tiles larger than any
 * that is chosen would do, the setting with which every assert holds. Always holds: what the hint
 * sets was compiled, and its asserts looked at. Tests: tests/errors/auto_unmet*.tile.
 */
#include "tune.h"

#include <inttypes.h>
#include <string.h>

typedef struct Unmet {
  Tuning *t;
  const IrExpr *cond;
  const IrBinding *b;   /* values at the assert … */
  const bool *known;    /* … of these variables, by id */
  const char *seen[16]; /* names that the text has */
  int nseen;
  Str *out;
} Unmet;

/* What the program prints of an assert, as far as it is known before the run. */
static void add_message(const Unmet *u, const IrReport *r) {
  str_add(u->out, "assertion failed");
  for (int i = 0; i < r->nparts - r->nblock; i++) {
    Scalar x;
    const IrReportPart *p = &r->part[i];
    str_add(u->out, i ? " " : ": ");
    if (p->text)
      str_add(u->out, p->text);
    else if (p->value && ir_known_eval(p->value, u->b, u->known, &x))
      scalar_print(x, u->out);
    else
      str_add(u->out, "?");
  }
}

/* The variable of that name which the condition reads: others may have the same. */
static const IrVar *var_of(const IrExpr *e, const char *name) {
  const IrVar *v = e->op == OP_VAR ? e->as.var : NULL;
  if (v)
    return v->name && strcmp(v->name, name) == 0 ? v : NULL;
  for (int i = 0; i < e->nargs && !v; i++)
    v = var_of(e->arg[i], name);
  return v;
}

/* Of a parameter, an extent or the kernel's own scalar; false: not known. */
static bool value_of(const Unmet *u, const char *name, Scalar *x) {
  const IrVar *var = var_of(u->cond, name); /* it may have a parameter's name too */
  if (var) {
    *x = u->b->value[var->id];
    return u->known[var->id];
  }
  for (size_t i = 0; i < u->t->k->nstatics; i++) {
    SemaValue v = {.kind = SV_UNSET};
    if (u->t->k->statics[i].name.text != name)
      continue;
    bool has = sema_value(u->t->arena, u->t->k, u->t->spec, i, &v);
    *x = v.num;
    return has && (v.kind == SV_INT || v.kind == SV_FLOAT || v.kind == SV_BOOL);
  }
  return false;
}

static void add_value(const char *name, void *ctx) {
  Unmet *u = ctx;
  Scalar x;
  for (int i = 0; i < u->nseen; i++)
    if (u->seen[i] == name)
      return;
  if (u->nseen == sizeof u->seen / sizeof *u->seen || !value_of(u, name, &x))
    return;
  str_addf(u->out, "%s%s = ", u->nseen ? ", " : "; ", name);
  scalar_print(x, u->out);
  u->seen[u->nseen++] = name;
}

/* "BM, BN" of a mask. */
static void add_names(const Tuning *t, uint64_t mask, Str *out) {
  const char *sep = "";
  for (size_t i = 0; i < t->k->nstatics && i < 64; i++)
    if (mask >> i & 1) {
      str_addf(out, "%s%s", sep, t->k->statics[i].name.text);
      sep = ", ";
    }
}

static const char *hint_of(Tuning *t, uint64_t mask, const SpecStatic *over, size_t n) {
  Str s = str_new(t->keep);
  if (n) {
    str_addf(&s, "%s[", t->k->ast->name.text);
    for (size_t i = 0; i < n; i++)
      str_addf(&s, "%s%s = %" PRId64, i ? ", " : "", t->k->statics[over[i].at].name.text,
               over[i].value);
    str_add(&s, "] meets the asserts, with larger tiles than `auto` chooses");
  } else {
    str_add(&s, "`auto` doubled and halved ");
    add_names(t, mask, &s);
    str_addf(&s,
             " (up to %d) and met no values that the asserts allow "
             "and a block has room for",
             MOST_EXTENT);
  }
  return str_text(&s);
}

/* The first failing assert that a free parameter could change; NULL: there is none. */
static const IrStmt *first_of(Tuning *t, const Concerns *c, const KernelSuits *own,
                              uint64_t *mask) {
  uint64_t free = tune_free_mask(t);
  for (size_t i = 0; i < own->failing.n; i++) {
    *mask = tune_mask_at(c, free, own->failing.v[i]);
    if (*mask)
      return own->failing.v[i];
  }
  return NULL;
}

void tune_unmet(Tuning *t, const IrKernel *plain, const SpecStatic *over, size_t n, Tuned *out) {
  Concerns c;
  KernelSuits own;
  uint64_t mask = 0;
  IrBinding *b = tune_bind(t, plain);
  if (t->k->nstatics > 64 || !b->grid[0] || !b->grid[1] || !b->grid[2] ||
      kernel_suits(t->arena, plain, b, &own))
    return;
  concerns_find(&c, t->arena, t->k);
  const IrStmt *first = first_of(t, &c, &own, &mask);
  if (!first)
    return;
  Str why = str_new(t->keep);
  Unmet u = {.t = t, .cond = first->as.report.cond, .b = b, .out = &why};
  u.known = kernel_known_at(t->arena, plain, b, first);
  const Concern *at = concerns_at(&c, first->span);
  add_message(&u, &first->as.report);
  if (at)
    ast_mentions(at->stmt->as.assertion.cond, add_value, &u);
  for (size_t i = 0; i < t->k->nstatics && i < 64; i++)
    if (mask >> i & 1)
      add_value(t->k->statics[i].name.text, &u);
  out->why = str_text(&why);
  out->hint = hint_of(t, mask, over, n);
  out->at = first->span;
}
