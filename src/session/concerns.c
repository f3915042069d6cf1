/* concerns.c: which compile-time parameters an assert of a kernel depends on.
 *
 * In: a kernel's definition. Out: a bit for each parameter, by its index, that an assert mentions:
 * in its condition, in what the names there were made of, or in the conditions it stands under.
 * Always holds: a parameter whose bit is not set cannot change whether the assert holds (names are
 * told apart by their text alone, which only adds bits); an assert that is not in the kernel's own
 * text, but in that of a function, depends on all. Tests: tests/lang/auto_joint.tile.
 */
#include "concerns.h"

typedef struct Name {
  const char *text;
  uint64_t mask;
} Name;

typedef struct Walk {
  Concerns *c;
  VEC(Name) names;
  uint64_t mask;  /* of the expression at hand */
  uint64_t ended; /* of the conditions under which the kernel may have ended */
  bool moved;     /* a name has more than before */
} Walk;

static Name *name_of(Walk *w, const char *text) {
  for (size_t i = 0; i < w->names.n; i++)
    if (w->names.v[i].text == text)
      return &w->names.v[i];
  VEC_PUSH(w->c->arena, &w->names, ((Name){text, 0}));
  return &w->names.v[w->names.n - 1];
}

static void see(const char *text, void *ctx) {
  Walk *w = ctx;
  w->mask |= name_of(w, text)->mask;
}

static uint64_t mask_of(Walk *w, const AstExpr *e) {
  w->mask = 0;
  ast_mentions(e, see, w);
  return w->mask;
}

static void add(Walk *w, const char *text, uint64_t mask) {
  Name *n = name_of(w, text);
  w->moved |= (n->mask | mask) != n->mask;
  n->mask |= mask;
}

static void add_all(Walk *w, const AstName *names, size_t n, uint64_t mask) {
  for (size_t i = 0; i < n; i++)
    add(w, names[i].text, mask);
}

static void add_decls(Walk *w, const AstDecls *d, uint64_t mask) {
  for (size_t i = 0; i < d->n; i++)
    add(w, d->v[i].name.text, mask | mask_of(w, d->v[i].init));
}

/* `x[i] = e` changes x. */
static void add_targets(Walk *w, const AstStmt *s, uint64_t mask) {
  for (size_t i = 0; i < s->as.assign.ntargets; i++) {
    const AstExpr *e = s->as.assign.targets[i];
    mask |= mask_of(w, e);
    while (e->kind == EXPR_INDEX)
      e = e->as.index.base;
    if (e->kind == EXPR_NAME)
      add(w, e->as.name, mask);
  }
}

static void walk(Walk *w, const AstBlock *b, uint64_t under);

static void walk_if(Walk *w, const AstStmt *s, uint64_t under) {
  for (size_t i = 0; i < s->as.branch.n; i++) {
    under |= mask_of(w, s->as.branch.arms[i].cond);
    walk(w, &s->as.branch.arms[i].body, under);
  }
  walk(w, &s->as.branch.other, under);
}

static void walk_assert(Walk *w, const AstStmt *s, uint64_t under) {
  uint64_t mask = under | w->ended | mask_of(w, s->as.assertion.cond);
  Concern *at = NULL;
  for (size_t i = 0; i < w->c->v.n && !at; i++)
    at = w->c->v.v[i].stmt == s ? &w->c->v.v[i] : NULL;
  if (at)
    at->mask = mask;
  else
    VEC_PUSH(w->c->arena, &w->c->v, ((Concern){s, mask}));
}

static void walk_stmt(Walk *w, const AstStmt *s, uint64_t under) {
  switch (s->kind) {
  case STMT_LET:
  case STMT_VAR:
    add_decls(w, &s->as.let.names, under | mask_of(w, s->as.let.value));
    break;
  case STMT_SHARED:
  case STMT_FRAGMENT:
  case STMT_LOCAL:
    add_decls(w, &s->as.decls, under);
    break;
  case STMT_ASSIGN:
    add_targets(w, s, under | mask_of(w, s->as.assign.value));
    break;
  case STMT_FOR:
    under |= mask_of(w, s->as.loop.range);
    add_all(w, s->as.loop.names, s->as.loop.n, under);
    walk(w, &s->as.loop.body, under);
    break;
  case STMT_WHILE:
    walk(w, &s->as.loop_while.body, under | mask_of(w, s->as.loop_while.cond));
    break;
  case STMT_IF:
    walk_if(w, s, under);
    break;
  case STMT_ROLES:
    for (size_t i = 0; i < s->as.roles.n; i++)
      walk(w, &s->as.roles.v[i].body, under);
    break;
  case STMT_ASSERT:
    walk_assert(w, s, under);
    break;
  case STMT_RETURN:
    w->ended |= under;
    break;
  default:
    break;
  }
}

static void walk(Walk *w, const AstBlock *b, uint64_t under) {
  for (size_t i = 0; i < b->n; i++)
    walk_stmt(w, b->v[i], under);
}

/* A default may be made of other parameters. */
static void walk_statics(Walk *w, const SemaKernel *k) {
  for (size_t i = 0; i < k->nstatics; i++)
    add(w, k->statics[i].name.text,
        (i < 64 ? UINT64_C(1) << i : 0) | mask_of(w, k->statics[i].decl->init));
}

/* An extent's names have what its expression says of the argument's shape. */
typedef struct Shape {
  Walk *w;
  uint64_t mask;
} Shape;

static void see_extent(const char *text, void *ctx) {
  Shape *x = ctx;
  add(x->w, text, x->mask);
}

static void walk_shapes(Walk *w, const AstDecls *params) {
  for (size_t i = 0; i < params->n; i++)
    for (size_t d = 0; d < params->v[i].type->nextents; d++) {
      const AstExpr *e = params->v[i].type->extents[d].value;
      ast_mentions(e, see_extent, &(Shape){w, mask_of(w, e)});
    }
}

/* Until nothing has more: each round adds a bit to some name. */
void concerns_find(Concerns *c, Arena *a, const SemaKernel *k) {
  Walk w = {.c = c};
  *c = (Concerns){.arena = a};
  do {
    w.moved = false;
    walk_statics(&w, k);
    walk_shapes(&w, &k->ast->inputs);
    walk(&w, &k->ast->body, 0);
  } while (w.moved);
}

const Concern *concerns_at(const Concerns *c, Span at) {
  for (size_t i = 0; i < c->v.n; i++) {
    const Span s = c->v.v[i].stmt->span;
    if (s.file == at.file && s.begin <= at.begin && at.end <= s.end)
      return &c->v.v[i];
  }
  return NULL;
}
