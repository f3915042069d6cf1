/* names.c: scopes of a kernel or fn, and the words of messages.
 *
 * In: names as written. Out: what they stand for (where nothing does, meant.c says so). Blocks
 * nest; the outermost of an inlined fn has no outer block, for a fn sees nothing of the kernel.
 * What a name stands for is an expression (a parameter, a constant, a whole tile), a `var`, or an
 * error that was reported. Blocks live on the C stack of the walk that opened them; they hold few
 * names, so looking through them in order is as fast as any table. Tests: tests/errors/name_*.tile.
 */
#include "private.h"

#include <string.h>

/* The block lives in the caller's frame, as long as it is open. */
void sema_block_push(Check *c, Block *b) {
  memset(b, 0, sizeof *b);
  b->up = c->block;
  c->block = b;
}

/* Names of the innermost block are gone; what they stood for stays in the tree. */
void sema_block_pop(Check *c) {
  c->block = c->block->up;
}

/* The newest first; there is only one, but for names after an error. */
static Sym *find_in(const Block *b, const char *name) {
  for (size_t i = b->syms.n; i-- > 0;)
    if (b->syms.v[i].name == name)
      return &b->syms.v[i];
  return NULL;
}

/* Innermost first: an inner name hides an outer one. */
Sym *sema_sym_find(Check *c, const char *name) {
  for (Block *b = c->block; b; b = b->up) {
    Sym *s = find_in(b, name);
    if (s)
      return s;
  }
  return NULL;
}

/* After a second declaration the new one holds, so that later uses fit what follows it. */
Sym *sema_sym_declare(Check *c, AstName name, SymKind kind, const char *what) {
  Sym *old = find_in(c->block, name.text);
  if (old) {
    Diag *d = diag_add(c->sink, E0102, name.span, "%s is declared twice in this block", name.text);
    if (old->span.file)
      diag_also(c->sink, d, old->span, NULL);
  }
  Sym s = {
      .name = name.text, .kind = kind, .what = what, .span = name.span, .parallel = c->parallel};
  s.role = c->role;
  VEC_PUSH(c->a, &c->block->syms, s);
  return &c->block->syms.v[c->block->syms.n - 1];
}

/* A name for a value; one with an error is declared silently. */
void sema_sym_value(Check *c, AstName name, TExpr *value, const char *what) {
  Sym *s = sema_sym_declare(c, name, sema_is_error(value) ? SYM_POISON : SYM_VALUE, what);
  s->value = value;
}

/* ---------------------------------------------------------------- words of messages */

const char *sema_axes(Check *c, int n) {
  return arena_printf(c->a, "%d ax%s", n, n == 1 ? "is" : "es");
}

/* Short texts on one line only: longer ones would bury the message. */
const char *sema_span_text(Check *c, Span span) {
  if (!span.file || span.end - span.begin > 48)
    return NULL;
  const char *s = span.file->text + span.begin;
  size_t n = span.end - span.begin;
  return src_breaks(s, n) || memchr(s, 0, n) ? NULL : arena_strndup(c->a, s, n);
}

/* In parentheses where it could be torn apart by what it is put into. */
const char *sema_source_text(Check *c, const AstExpr *e) {
  const char *s = e ? sema_span_text(c, e->span) : NULL;
  if (!s)
    return NULL;
  /* It is in parentheses already. */
  if (e->paren && *s == '(')
    return s;
  switch (e->kind) {
  case EXPR_UNARY:
  case EXPR_BINARY:
  case EXPR_COMPARE:
  case EXPR_COND:
    return arena_printf(c->a, "(%s)", s);
  default:
    return s;
  }
}

/* A number, a name, or … for what is computed. */
static void add_extent(Str *s, const TExpr *e) {
  int64_t v;
  if (sema_is_const_int(e, &v))
    str_addf(s, "%lld", (long long)v);
  else if (e->kind == TE_VAR)
    str_add(s, e->as.var->name);
  else
    str_add(s, "…");
}

/* With its symbolic extents, as the author wrote them. */
static const char *describe_global(Check *c, const TRegion *r) {
  Str s = str_new(c->a);
  str_addf(&s, "the global tensor %s: %s[", r->buf->name, dtype_name(r->buf->dtype));
  for (int i = 0; i < r->buf->rank; i++) {
    if (i)
      str_add(&s, ", ");
    add_extent(&s, r->buf->shape[i]);
  }
  str_addc(&s, ']');
  return str_text(&s);
}

/* As the language writes types; kinds without a written type in words. */
const char *sema_type_name(Arena *a, const SemaType *t) {
  static const char *const kinds[] = {
      [TY_ERROR] = "unknown",   [TY_NONE] = "no value",        [TY_NUM] = "",
      [TY_TILE] = "",           [TY_GLOBAL] = "global tensor", [TY_TUPLE] = "a tuple",
      [TY_STRING] = "a string", [TY_DTYPE] = "a dtype"};
  if (t->kind != TY_NUM && t->kind != TY_TILE)
    return kinds[t->kind];
  const char *base = sema_num_name((SemaNum){.dtype = t->dtype, .untyped = t->untyped});
  if (t->kind == TY_NUM)
    return base;
  Str s = str_new(a);
  str_addf(&s, "%s[", base);
  for (int i = 0; i < t->rank; i++)
    str_addf(&s, "%s%lld", i ? ", " : "", (long long)t->extent[i]);
  str_addc(&s, ']');
  return str_text(&s);
}

/* For "this is …". */
const char *sema_describe(Check *c, const TExpr *e) {
  if (e->type.kind == TY_GLOBAL)
    return e->kind == TE_REGION ? describe_global(c, &e->as.region) : "a view of a global tensor";
  return sema_type_name(c->a, &e->type);
}

/* What typing needs to know of an operand; ast: its text, for hints. */
SemaNum sema_num_of(Check *c, const TExpr *e, const AstExpr *ast) {
  SemaNum n = {.dtype = e->type.dtype,
               .untyped = e->type.untyped,
               .array = sema_is_tile(e),
               .constant = e->kind == TE_CONST,
               .text = sema_source_text(c, ast)};
  if (n.constant)
    n.value = e->as.value;
  return n;
}

/* ---------------------------------------------------------------- depth */

/* Reported once: the operands beside the deepest one are as deep. */
bool sema_enter(Check *c, Span span) {
  if (++c->depth <= CHECK_MAX_DEPTH)
    return true;
  /* Deeper calls back out without a word. */
  if (!c->too_deep)
    diag_add(c->sink, E0109, span, "this is nested too deeply, the fns it calls included");
  c->too_deep = true;
  return false;
}

/* Pairs with every sema_enter, also one that said false. */
void sema_leave(Check *c) {
  c->depth--;
}
