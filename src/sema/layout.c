/* layout.c: `layout tile = …`: stated layouts of shared tiles.
 *
 * In: a tile's name and swizzle(…), padded(…) or a map of its indices. Out: the layout at the TBuf.
 * A map is tried on every element: it must send each to a place of its own. A layout says where
 * elements lie, never what they are.
 * swizzle(n) permutes 16-byte groups of rows over a span of n bytes; padded(n) puts n elements
 * after each row. Stating one is for kernels that know their banks better than the compiler;
 * everything else about the tile stays the same, and leaving the statement out changes no result.
 * Tests: tests/lang/layout_kinds.tile, tests/errors/layout_*.tile.
 */
#include "private.h"

#include <stdlib.h>
#include <string.h>

enum { LAYOUT_MAX = 1 << 21 }; /* elements; no shared memory holds as many */

/* ---------------------------------------------------------------- maps of indices to offsets */

/* The value of a map at the indices of v, in b's variables; false: it divides by zero, or holds
 * what is no constant and no index. */
static bool layout_value(const TBuf *b, const int64_t *v, const TExpr *e, Scalar *out);

/* Arithmetic of the base, as everywhere: what is checked is what will run. */
static bool layout_operation(const TBuf *b, const int64_t *v, const TExpr *e, Scalar *out) {
  Scalar arg[4];
  for (int i = 0; i < e->nargs; i++)
    if (!layout_value(b, v, e->arg[i], &arg[i]))
      return false;
  return op_eval(e->as.op, e->type.dtype, arg, e->nargs, out);
}

/* `and`, `or`, `x if c else y`: the side that is not asked for is not looked at. */
static bool layout_choice(const TBuf *b, const int64_t *v, const TExpr *e, Scalar *out) {
  Scalar c;
  if (!layout_value(b, v, e->arg[e->kind == TE_COND ? 1 : 0], &c))
    return false;
  bool yes = c.as.i != 0;
  if (e->kind == TE_COND)
    return layout_value(b, v, e->arg[yes ? 0 : 2], out);
  /* Decided by the left side. */
  if (yes == (e->kind == TE_OR)) {
    *out = c;
    return true;
  }
  return layout_value(b, v, e->arg[1], out);
}

static bool layout_value(const TBuf *b, const int64_t *v, const TExpr *e, Scalar *out) {
  switch (e->kind) {
  case TE_CONST:
    *out = e->as.value;
    return true;
  case TE_VAR:
    for (int i = 0; i < b->rank; i++)
      if (b->layout_index[i] == e->as.var) {
        *out = (Scalar){.type = DT_I64, .as.i = v[i]};
        return true;
      }
    return false;
  case TE_OP:
    return layout_operation(b, v, e, out);
  case TE_AND:
  case TE_OR:
  case TE_COND:
    return layout_choice(b, v, e, out);
  default:
    return false;
  }
}

typedef struct Placed { /* an element and where the map sends it */
  int64_t offset;
  int64_t element; /* row-major number */
} Placed;

/* By place, then by element, so that the message does not depend on qsort. */
static int by_offset(const void *x, const void *y) {
  const Placed *a = x, *b = y;
  if (a->offset != b->offset)
    return a->offset < b->offset ? -1 : 1;
  return a->element < b->element ? -1 : a->element > b->element;
}

/* The indices of the element with a row-major number. */
static void indices_of(const TBuf *b, int64_t element, int64_t *v) {
  for (int i = b->rank - 1; i >= 0; i--) {
    v[i] = element % b->extent[i];
    element /= b->extent[i];
  }
}

/* As it would be indexed: [1, 32]. */
static const char *element_text(Check *c, const TBuf *b, int64_t element) {
  int64_t v[SEMA_MAX_RANK];
  Str s = str_new(c->a);
  indices_of(b, element, v);
  for (int i = 0; i < b->rank; i++)
    str_addf(&s, "%s%lld", i ? ", " : "[", (long long)v[i]);
  str_addc(&s, ']');
  return str_text(&s);
}

/* After sorting, two elements at one place are neighbours. */
static bool one_to_one(Check *c, const TBuf *b, Placed *p, int64_t n, Span span) {
  qsort(p, (size_t)n, sizeof *p, by_offset);
  for (int64_t i = 1; i < n; i++)
    if (p[i].offset == p[i - 1].offset) {
      diag_add(c->sink, E0311, span, "this layout of %s sends %s and %s to one place: offset %lld",
               b->name, element_text(c, b, p[i - 1].element), element_text(c, b, p[i].element),
               (long long)p[i].offset);
      return false;
    }
  return true;
}

/* Every element is tried: maps with XORs have no simpler test, and tiles are small. */
static bool check_map(Check *c, const TBuf *b, const TExpr *map, Span span) {
  int64_t n = 1, v[SEMA_MAX_RANK];
  for (int i = 0; i < b->rank; i++)
    n *= b->extent[i];
  if (n > LAYOUT_MAX) {
    diag_add(c->sink, E0311, span, "%s has too many elements for a map", b->name);
    return false;
  }
  Placed *p = ARENA_ARRAY(c->a, Placed, n);
  for (int64_t e = 0; e < n; e++) {
    Scalar at;
    indices_of(b, e, v);
    if (!layout_value(b, v, map, &at)) {
      diag_add(c->sink, E0311, span,
               "a layout is computed of its indices and constants, and has a "
               "value for each element");
      return false;
    }
    /* Before the tile's own memory. */
    if (at.as.i < 0) {
      diag_add(c->sink, E0311, span, "this layout of %s sends %s to the offset %lld", b->name,
               element_text(c, b, e), (long long)at.as.i);
      return false;
    }
    p[e] = (Placed){at.as.i, e};
  }
  return one_to_one(c, b, p, n, span);
}

/* ---------------------------------------------------------------- statements */

/* Layouts of fragments are the compiler's; those of shared tiles may be stated. */
static TBuf *layout_target(Check *c, const AstDecl *d) {
  Sym *s = sema_sym_find(c, d->name.text);
  if (!s)
    sema_unknown_name(c, d->name.text, d->name.span);
  if (!s || s->kind == SYM_POISON)
    return NULL;
  if (s->kind == SYM_VALUE && s->value->kind == TE_REGION &&
      s->value->as.region.buf->space == TB_SHARED)
    return s->value->as.region.buf;
  diag_add(c->sink, E0311, d->name.span, "a layout is stated of a shared tile, %s is %s",
           d->name.text, s->kind == SYM_VALUE ? sema_describe(c, s->value) : s->what);
  return NULL;
}

/* The two layouts with names. */
static void layout_call(Check *c, TBuf *b, const AstExpr *e) {
  const char *name = e->as.call.fn->kind == EXPR_NAME ? e->as.call.fn->as.name : "";
  bool swizzle = strcmp(name, "swizzle") == 0, padded = strcmp(name, "padded") == 0;
  int64_t v;
  if ((!swizzle && !padded) || e->as.call.args.n != 1 || e->as.call.args.npos != 1) {
    Diag *d = diag_add(c->sink, E0311, e->span, "there is no such layout");
    diag_hint(c->sink, d, "swizzle(128), padded(8) or (i, j) -> offset");
    return;
  }
  if (!sema_check_const_int(c, e->as.call.args.v[0].value, "the amount of a layout", &v))
    return;
  if (swizzle && v != 32 && v != 64 && v != 128) {
    diag_add(c->sink, E0311, e->span, "a swizzle spans 32, 64 or 128 bytes, this says %lld",
             (long long)v);
    return;
  }
  if (padded && (v < 0 || v > 65536)) {
    diag_add(c->sink, E0311, e->span, "padding is 0 to 65536 elements, this says %lld",
             (long long)v);
    return;
  }
  b->layout = swizzle ? TL_SWIZZLE : TL_PADDED;
  b->layout_amount = v;
}

/* A map of the indices to an element offset; two elements at one place would overwrite each other.
 */
static void layout_map(Check *c, TBuf *b, const AstExpr *e) {
  if ((int)e->as.lambda.n != b->rank) {
    diag_add(c->sink, E0311, e->span, "%s has %s, this map takes %zu", b->name,
             sema_axes(c, b->rank), e->as.lambda.n);
    return;
  }
  Block scope;
  sema_block_push(c, &scope);
  for (int i = 0; i < b->rank; i++) {
    TVar *v = sema_tvar_new(c, TV_INDEX, e->as.lambda.params[i].text, DT_I64,
                            e->as.lambda.params[i].span);
    v->lo = 0;
    v->hi = b->extent[i] - 1;
    b->layout_index[i] = v;
    sema_sym_value(c, e->as.lambda.params[i], sema_texpr_var(c, v, true, v->span),
                   "a layout's index");
  }
  TExpr *offset = sema_check_int(c, e->as.lambda.body, "an offset");
  sema_block_pop(c);
  if (sema_is_error(offset))
    return;
  if (!check_map(c, b, offset, e->span))
    return;
  b->layout = TL_MAP;
  b->layout_map = offset;
}

/* A second layout of one tile is an error: which would hold? */
void sema_check_layout(Check *c, const AstStmt *s) {
  for (size_t i = 0; i < s->as.layout.v.n; i++) {
    const AstDecl *d = &s->as.layout.v.v[i];
    TBuf *b = layout_target(c, d);
    if (!b)
      continue;
    if (b->layout != TL_NONE)
      diag_add(c->sink, E0311, d->span, "the layout of %s is stated twice", b->name);
    else if (d->init->kind == EXPR_LAMBDA)
      layout_map(c, b, d->init);
    else if (d->init->kind == EXPR_CALL)
      layout_call(c, b, d->init);
    else
      diag_add(c->sink, E0311, d->init->span, "a layout is swizzle(…), padded(…) or a map");
  }
}
