/* debug_scope.c: names, values and expressions where a stepped kernel stands.
 *
 * In: names and expressions of the kernel's scope. Out: their values now. Tiles are copied to host
 * tensors, so an expression is one of the host language: `sum(acc)`, `As @ Bs`, `acc[0:4, 3]`. Only
 * names that the expression mentions are copied. Tests: tests/repl/step*.txt.
 */
#include <string.h>

#include "debug.h"

/* What the kernel's text declares -------------------------------------------------------------- */

static bool in_names(const AstName *v, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++)
    if (v[i].text == name)
      return true;
  return false;
}

/* The blocks of a statement, in order; NULL past the last. */
static const AstBlock *block_of(const AstStmt *st, size_t i) {
  switch (st->kind) {
  case STMT_FOR:
    return i == 0 ? &st->as.loop.body : NULL;
  case STMT_WHILE:
    return i == 0 ? &st->as.loop_while.body : NULL;
  case STMT_IF:
    if (i < st->as.branch.n)
      return &st->as.branch.arms[i].body;
    return i == st->as.branch.n && st->as.branch.has_other ? &st->as.branch.other : NULL;
  case STMT_ROLES:
    return i < st->as.roles.n ? &st->as.roles.v[i].body : NULL;
  default:
    return NULL;
  }
}

/* Of one statement, without what its blocks hold. */
static bool declares_here(const AstStmt *st, const char *name) {
  switch (st->kind) {
  case STMT_LET:
  case STMT_VAR:
    return decls_have(&st->as.let.names, name);
  case STMT_SHARED:
  case STMT_FRAGMENT:
  case STMT_LOCAL:
  case STMT_BARRIER:
    return decls_have(&st->as.decls, name);
  case STMT_GRID:
    return in_names(st->as.grid.names, st->as.grid.n, name);
  case STMT_FOR:
    return in_names(st->as.loop.names, st->as.loop.n, name);
  default:
    return false;
  }
}

static bool declares(const AstBlock *b, const char *name) {
  for (size_t i = 0; i < b->n; i++) {
    if (declares_here(b->v[i], name))
      return true;
    for (size_t k = 0; block_of(b->v[i], k); k++)
      if (declares(block_of(b->v[i], k), name))
        return true;
  }
  return false;
}

/* Scalar parameters and extents are found with the variables; any of their names may be asked. */
bool debug_declares(const AstKernel *k, const char *name) {
  return !k || declares(&k->body, name);
}

/* Whether the loop's iterations run together. */
static bool is_parallel(const AstStmt *st) {
  const AstExpr *e = st->kind == STMT_FOR ? st->as.loop.range : NULL;
  return e && e->kind == EXPR_CALL && e->as.call.fn->kind == EXPR_NAME &&
         strcmp(e->as.call.fn->as.name, "parallel") == 0;
}

const AstStmt *debug_stmt(const AstBlock *b, const SrcFile *file, uint32_t at) {
  for (size_t i = 0; i < b->n; i++) {
    const AstStmt *st = b->v[i];
    if (st->span.file != file || at < st->span.begin || at >= st->span.end)
      continue;
    for (size_t k = 0; !is_parallel(st) && block_of(st, k); k++) {
      const AstStmt *inner = debug_stmt(block_of(st, k), file, at);
      if (inner)
        return inner;
    }
    return st;
  }
  return NULL;
}

/* Names in scope ------------------------------------------------------------------------------- */

typedef struct Name { /* one of the names a statement sees */
  const char *name;
  const IrVar *var;    /* or */
  const IrBuffer *buf; /* a tile */
} Name;

typedef struct Scope { /* innermost first, hidden ones left out */
  const Debug *d;
  Arena *arena;
  VEC(Name) v;
} Scope;

/* Compiler-made names are no names of the program. */
static bool is_users(const Debug *d, const IrVar *var, const char *name) {
  if (var && (var->kind == IRV_PARAM || var->kind == IRV_EXTENT))
    return true;
  if (var && (var->kind == IRV_STRIDE || var->kind == IRV_SMS))
    return false;
  return debug_declares(d->ast, name);
}

/* EvalDebugName. */
static void collect(void *ctx, const IrVar *var, const IrBuffer *buf) {
  Scope *sc = ctx;
  const char *name = var ? var->name : buf->name;
  if (!is_users(sc->d, var, name))
    return;
  for (size_t i = 0; i < sc->v.n; i++)
    if (sc->v.v[i].name == name)
      return;
  VEC_PUSH(sc->arena, &sc->v, ((Name){name, var, buf}));
}

static Scope scope_of(Session *s) {
  Scope sc = {.d = s->debug, .arena = session_scratch(s)};
  if (s->debug->eval)
    eval_debug_each(s->debug->eval, collect, &sc);
  return sc;
}

static const Name *find(const Scope *sc, const char *name) {
  for (size_t i = 0; i < sc->v.n; i++)
    if (sc->v.v[i].name == name)
      return &sc->v.v[i];
  return NULL;
}

/* A tensor that the call gave or made. */
static Tensor *parameter(const Debug *d, const char *name) {
  for (size_t i = 0; i < d->l.n; i++)
    if (d->l.tensor[i] && d->l.ir->params.v[i].buf->name == name)
      return d->l.tensor[i];
  return NULL;
}

bool debug_has(Session *s, const char *name, size_t n) {
  if (!s->debug)
    return false;
  Scope sc = scope_of(s);
  name = host_intern(s, name, n);
  return find(&sc, name) || parameter(s->debug, name) ||
         (s->debug->ast && debug_declares(s->debug->ast, name));
}

/* A new tensor with the tile's elements; the session's list of temporaries owns it. */
static Tensor *tile(Session *s, const IrBuffer *buf, int64_t *written) {
  Str why = session_str(s);
  Tensor *t = eval_debug_tile(s->debug->eval, buf, written, &why);
  return host_new_tensor(s, t, &why, (Span){NULL, 0, 0}).as.tensor;
}

static Value value_of(Session *s, const Name *n) {
  Scalar x;
  int64_t written = 0;
  if (n->buf)
    return val_borrow(tile(s, n->buf, &written));
  if (!eval_debug_scalar(s->debug->eval, n->var, &x))
    return val_nil();
  return val_scalar(x, true);
}

/* Expressions ---------------------------------------------------------------------------------- */

/* Whether the text mentions the name. */
static bool mentions(const AstFile *f, const char *name) {
  size_t n = strlen(name);
  for (size_t i = 0; i < f->tokens.n; i++) {
    const Token *t = &f->tokens.v[i];
    if (t->kind == T_NAME && t->end - t->begin == n &&
        memcmp(f->file->text + t->begin, name, n) == 0)
      return true;
  }
  return false;
}

static Value static_value(Session *s, const SemaValue *v) {
  switch (v->kind) {
  case SV_INT:
  case SV_FLOAT:
  case SV_BOOL:
    return val_scalar(v->num, false);
  case SV_DTYPE:
    return val_dtype(v->dtype);
  case SV_STRING:
    return val_string(s, v->string, v->n);
  default:
    return val_nil();
  }
}

/* Compile-time parameters, then tensors, then what the statement sees: later ones hide. */
static void bind_names(Session *s, const AstFile *f) {
  const Debug *d = s->debug;
  const Launch *l = &d->l;
  for (size_t i = 0; d->sema && i < d->sema->nstatics; i++) {
    const char *name = d->sema->statics[i].name.text;
    if (mentions(f, name))
      host_bind(s, name, static_value(s, &d->l.spec->statics[i]));
  }
  for (size_t i = 0; i < l->n; i++) {
    const IrBuffer *b = l->ir->params.v[i].buf;
    if (b && mentions(f, b->name))
      host_bind(s, b->name, val_borrow(l->tensor[i]));
  }
  Scope sc = scope_of(s);
  for (size_t i = sc.v.n; i-- > 0;)
    if (mentions(f, sc.v.v[i].name))
      host_bind(s, sc.v.v[i].name, value_of(s, &sc.v.v[i]));
}

Value debug_eval(Session *s, const AstFile *f, const AstExpr *e) {
  s->frame = s->block = s->vars.n;
  bind_names(s, f);
  return host_eval(s, e);
}

/* Showing -------------------------------------------------------------------------------------- */

/* "As: shared f16[128, 64], 8192 of 8192 elements written" */
static void describe_tile(Session *s, const Name *n, const Tensor *t, int64_t written, Str *out) {
  (void)s;
  int64_t all = tensor_count(t);
  str_addf(out, "%s: %s ", n->name,
           n->buf->arrivals              ? "barrier"
           : n->buf->space == IRS_SHARED ? "shared"
                                         : "fragment");
  tensor_add_type(t, out);
  if (written == 0 && all)
    str_add(out, ", nothing written yet");
  else if (written < all)
    str_addf(out, ", %lld of %lld elements written (the others show as 0)", (long long)written,
             (long long)all);
  str_addc(out, '\n');
}

static void add_scalar(const char *name, Scalar x, Str *out) {
  str_addf(out, "%s = ", name);
  scalar_print(x, out);
}

static void show_name(Session *s, const Name *n, bool elements, Str *out) {
  Scalar x;
  int64_t written = 0;
  if (!n->buf) {
    if (eval_debug_scalar(s->debug->eval, n->var, &x))
      add_scalar(n->name, x, out);
    str_addc(out, '\n');
    return;
  }
  Tensor *t = tile(s, n->buf, &written);
  describe_tile(s, n, t, written, out);
  TensorPrint how = {.width = s->options.width};
  if (elements && written)
    tensor_print(t, &how, out);
}

bool debug_show(Session *s, const char *name, size_t len, Str *out) {
  Scope sc = scope_of(s);
  const Name *n = find(&sc, host_intern(s, name, len));
  if (n)
    show_name(s, n, true, out);
  return n != NULL;
}

void debug_names(Session *s, Str *out) {
  const Debug *d = s->debug;
  const Launch *l = &d->l;
  Scope sc = scope_of(s);
  for (size_t i = 0; i < sc.v.n; i++)
    show_name(s, &sc.v.v[i], false, out);
  for (size_t i = 0; i < l->n; i++) {
    if (!l->tensor[i])
      continue;
    str_addf(out, "%s: ", l->ir->params.v[i].buf->name);
    tensor_add_type(l->tensor[i], out);
    str_addc(out, '\n');
  }
  for (size_t i = 0; d->sema && i < d->sema->nstatics; i++) {
    str_addf(out, "%s = ", d->sema->statics[i].name.text);
    val_print(s, static_value(s, &l->spec->statics[i]), true, out);
    str_addc(out, '\n');
  }
}

/* Bits, so that NaN equals itself. */
static bool same(Scalar a, Scalar b) {
  return a.type == b.type && a.as.u == b.as.u;
}

static Scalar *last_seen(Debug *d, const IrVar *v) {
  for (size_t i = 0; i < d->seen.n; i++)
    if (d->seen.v[i].var == v)
      return &d->seen.v[i].value;
  return NULL;
}

/* Launch constants were known from the start. */
void debug_changes(Session *s, Str *out) {
  Debug *d = s->debug;
  Scope sc = scope_of(s);
  int n = 0;
  for (size_t i = sc.v.n; i-- > 0;) {
    const IrVar *v = sc.v.v[i].var;
    Scalar x;
    if (!v || v->kind == IRV_PARAM || v->kind == IRV_EXTENT || v->kind == IRV_GRID ||
        !eval_debug_scalar(d->eval, v, &x))
      continue;
    Scalar *before = last_seen(d, v);
    if (before && same(*before, x))
      continue;
    if (before)
      *before = x;
    else
      VEC_PUSH(d->arena, &d->seen, ((Seen){v, x}));
    str_add(out, n++ ? ", " : "  ");
    add_scalar(v->name, x, out);
  }
  if (n)
    str_addc(out, '\n');
}

/* Watching ------------------------------------------------------------------------------------- */

void debug_forget(Debug *d) {
  tensor_release(d->before);
  d->before = NULL;
  d->has_before = false;
}

/* "acc[0, 3]: 0. -> 1.5 (and 12 more elements)" */
static bool tile_changed(Session *s, const char *name, const Tensor *now, int64_t written,
                         Str *out) {
  Debug *d = s->debug;
  TensorDiff diff;
  Str why = session_str(s);
  int64_t index[TENSOR_MAX_RANK] = {0}, n = 0;
  Tensor *old = d->before;
  if (!tensor_maxdiff(old, now, NULL, &diff, &why) || (diff.count == 0 && written == d->written))
    return false;
  if (diff.count == 0) {
    str_addf(out, "%s: %lld elements written, %lld before\n", name, (long long)written,
             (long long)d->written);
    return true;
  }
  bool more = true;
  for (; more; more = tensor_next(now, index))
    if (!same(tensor_get(old, index), tensor_get(now, index))) {
      n = 1;
      break;
    }
  str_addf(out, "%s[", name);
  for (int i = 0; i < now->rank; i++)
    str_addf(out, i ? ", %lld" : "%lld", (long long)index[i]);
  str_add(out, "]: ");
  scalar_print(tensor_get(old, index), out);
  str_add(out, " -> ");
  scalar_print(tensor_get(now, index), out);
  if (diff.count > n)
    str_addf(out, " (and %lld more elements)", (long long)(diff.count - n));
  str_addc(out, '\n');
  return true;
}

static bool watch_tile(Session *s, const char *name, Tensor *now, int64_t written, Str *out) {
  Debug *d = s->debug;
  bool comparable = d->has_before && d->before && d->before->rank == now->rank;
  bool changed = comparable && tile_changed(s, name, now, written, out);
  debug_forget(d);
  d->before = tensor_retain(now);
  d->written = written;
  d->has_before = true;
  return changed;
}

static bool watch_scalar(Session *s, const char *name, Scalar x, Str *out) {
  Debug *d = s->debug;
  bool changed = d->has_before && !d->before && !same(d->scalar, x);
  if (changed) {
    str_addf(out, "%s: ", name);
    scalar_print(d->scalar, out);
    str_add(out, " -> ");
    scalar_print(x, out);
    str_addc(out, '\n');
  }
  debug_forget(d);
  d->scalar = x;
  d->has_before = true;
  return changed;
}

/* A name that is not in scope here keeps what is remembered of it; tensors can be watched too. */
bool debug_watch(Session *s, Str *out) {
  Debug *d = s->debug;
  if (!d->watched || !d->eval)
    return false;
  Scope sc = scope_of(s);
  const Name *n = find(&sc, d->watched);
  Scalar x;
  int64_t written = 0;
  if (n && !n->buf)
    return eval_debug_scalar(d->eval, n->var, &x) && watch_scalar(s, n->name, x, out);
  if (n) {
    Tensor *now = tile(s, n->buf, &written);
    return watch_tile(s, n->name, now, written, out);
  }
  Tensor *t = parameter(d, d->watched);
  Str why = session_str(s);
  if (!t)
    return false;
  Value copy = host_new_tensor(s, tensor_cast(t, t->dtype, &why), &why, (Span){NULL, 0, 0});
  return watch_tile(s, d->watched, copy.as.tensor, 0, out);
}
