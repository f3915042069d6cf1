/* decl.c: written types, let, var, tiles, grid.
 *
 * In: declarations. Out: names in the innermost block, statements that make what they name. A `let`
 * of a compile-time value makes no statement: the name is the value.
 * A name is declared after its value was typed, so that `let x = x + 1` means the outer x, and it
 * is declared also where the value is wrong: then every use of it is silent, and one mistake gives
 * one message. Tests: tests/lang, tests/errors/signature_*.tile.
 */
#include "private.h"

#include <string.h>

/* ---------------------------------------------------------------- types */

/* As NumPy, C and others call them. */
const char *sema_foreign_dtype(const char *name) {
  static const NamePair as[] = {
      {"int", "i32 or i64"},    {"float", "f32"},   {"double", "f64"},         {"half", "f16"},
      {"float16", "f16"},       {"float32", "f32"}, {"float64", "f64"},        {"bfloat16", "bf16"},
      {"fp16", "f16"},          {"fp32", "f32"},    {"fp64", "f64"},           {"int8", "i8"},
      {"int16", "i16"},         {"int32", "i32"},   {"int64", "i64"},          {"uint8", "u8"},
      {"uint16", "u16"},        {"uint32", "u32"},  {"uint64", "u64"},         {"long", "i64"},
      {"short", "i16"},         {"char", "i8"},     {"unsigned", "u32"},       {"boolean", "bool"},
      {"fp8", "f8e4m3"},        {"e4m3", "f8e4m3"}, {"float8_e4m3", "f8e4m3"}, {"e5m2", "f8e5m2"},
      {"float8_e5m2", "f8e5m2"}};
  return names_here(name, as, sizeof as / sizeof *as);
}

const char *sema_later_dtype(const char *name) {
  static const char *const later[] = {"i4", "u4", "int4", "uint4", "f4e2m1", "fp4", "f4"};
  for (size_t i = 0; i < sizeof later / sizeof *later; i++)
    if (strcmp(name, later[i]) == 0)
      return "4 bits are no element yet: a u8 holds two, q & 15 and q >> 4";
  return NULL;
}

const char *sema_meant_dtype(Arena *a, const char *name) {
  if (sema_later_dtype(name))
    return sema_later_dtype(name);
  const char *names[(int)DT_COUNT], *other = sema_foreign_dtype(name);
  for (int i = 0; i < (int)DT_COUNT; i++)
    names[i] = dtype_name((DType)i);
  const char *near = other ? other : names_closest(name, names, (size_t)DT_COUNT);
  return near ? arena_printf(a, "did you mean %s?", near) : NULL;
}

static bool unknown_dtype(Check *c, const AstName *n) {
  Diag *d = diag_add(c->sink, E0222, n->span, "%s is not a dtype", n->text);
  const char *meant = sema_meant_dtype(c->a, n->text);
  if (meant)
    diag_hint(c->sink, d, "%s", meant);
  return false;
}

/* A dtype by its name, or by a compile-time parameter's (`E`). */
bool sema_check_dtype(Check *c, const AstType *t, DType *out) {
  *out = DT_NONE;
  if (!t->base.text) {
    diag_add(c->sink, E0222, t->span, "a tuple type stands only as a fn's result");
    return false;
  }
  Sym *s = sema_sym_find(c, t->base.text);
  if (s && s->kind == SYM_POISON)
    return false;
  if (s && s->kind == SYM_VALUE && s->value->kind == TE_DTYPE) {
    *out = s->value->type.dtype;
    return true;
  }
  if (dtype_parse(t->base.text, strlen(t->base.text), out))
    return true;
  return unknown_dtype(c, &t->base);
}

/* Constant and not negative; 0 is allowed, for generic code. */
static bool tile_extent(Check *c, const AstExtent *a, int64_t *v) {
  if (a->name) {
    diag_add(c->sink, E0221, a->span, "only tensor parameters name their extents");
    return false;
  }
  if (!sema_check_const_int(c, a->value, "an extent of a tile", v))
    return false;
  if (*v >= 0)
    return true;
  diag_add(c->sink, E0221, a->span, "an extent is not negative, this is %lld", (long long)*v);
  return false;
}

/* `f32`, or `f32[64, D]` with extents known when the kernel is compiled. */
static bool check_type(Check *c, const AstType *t, SemaType *out) {
  DType d;
  if (!sema_check_dtype(c, t, &d))
    return false;
  *out = sema_type_num(d, false);
  if (!t->has_extents)
    return true;
  if (t->nextents == 0 || t->nextents > SEMA_MAX_RANK) {
    diag_add(c->sink, E0223, t->span, "a tile has 1 to %d axes, this has %zu", SEMA_MAX_RANK,
             t->nextents);
    return false;
  }
  out->kind = TY_TILE;
  out->rank = (int)t->nextents;
  int64_t size = 1;
  for (size_t i = 0; i < t->nextents; i++) {
    int64_t *n = &out->extent[i];
    if (!tile_extent(c, &t->extents[i], n))
      return false;
    /* An empty axis must not hide that the others are far too large. */
    if (__builtin_mul_overflow(size, *n ? *n : 1, &size) || size > (int64_t)1 << 31) {
      diag_add(c->sink, E0221, t->span, "this tile would have more than 2147483648 elements");
      return false;
    }
  }
  return true;
}

/* ---------------------------------------------------------------- let */

/* A `let` of a tile is a snapshot: later changes of what it was made from do not show, so it gets
 * a fragment of its own. */
static TExpr *let_tile(Check *c, const AstDecl *d, TExpr *v, const SemaType *written, Span span) {
  SemaType t = written ? *written : sema_type_definite(v->type);
  if (!sema_tile_allowed(c, span, "a `let` of a tile"))
    return sema_texpr_error(c, span);
  if (c->pre) {
    diag_add(c->sink, E0301, span, "no tile stands before `grid`");
    return sema_texpr_error(c, span);
  }
  if (t.kind != TY_TILE) {
    Diag *g = diag_add(c->sink, E0213, span, "%s is said to be %s, its value is %s", d->name.text,
                       sema_type_name(c->a, &t), sema_describe(c, v));
    diag_hint(c->sink, g, "let %s: %s[…] names the extents too", d->name.text, dtype_name(t.dtype));
    return sema_texpr_error(c, span);
  }
  if (sema_is_tile(v) && !sema_broadcasts_to(&v->type, &t)) {
    diag_add(c->sink, E0226, span, "%s of shape %s cannot hold %s", d->name.text,
             sema_type_name(c->a, &t), sema_describe(c, v));
    return sema_texpr_error(c, span);
  }
  return sema_texpr_whole(c, sema_snapshot(c, d->name.text, v, t, d->name.span), d->name.span);
}

/* A value that is known now makes no statement; the name stands for it, so that it may serve as
 * an extent. */
static TExpr *let_scalar(Check *c, const AstDecl *d, TExpr *v, const SemaType *written) {
  if (written)
    v = sema_convert(c, v, written->dtype);
  /* Known now: no statement, and it may be an extent. */
  if (sema_is_error(v) || sema_is_const(v))
    return v;
  if (c->pre && !sema_is_pure(v)) {
    diag_add(c->sink, E0301, v->span,
             "what stands before `grid` is computed of parameters and extents alone");
    return sema_texpr_error(c, v->span);
  }
  TVar *var = sema_tvar_new(c, TV_LET, d->name.text, v->type.dtype, d->name.span);
  TStmt *s = sema_tstmt_new(c, TS_LET, d->span);
  s->as.let.var = var;
  s->as.let.value = v;
  return sema_texpr_var(c, var, v->type.untyped, d->name.span);
}

/* A tensor, string or dtype that is said to be a number or a tile. */
static TExpr *let_other(Check *c, const AstDecl *d, const TExpr *v, const SemaType *t, Span span) {
  Diag *g = diag_add(c->sink, E0213, span, "%s is said to be %s, its value is %s", d->name.text,
                     sema_type_name(c->a, t), sema_describe(c, v));
  if (v->type.kind == TY_GLOBAL)
    diag_hint(c->sink, g,
              "a region comes in by copy(A[…], t), one element by an index for each axis");
  return sema_texpr_error(c, span);
}

/* Sorts the value: tile, scalar, or another name for a tensor, string or dtype. */
static TExpr *let_value(Check *c, const AstDecl *d, TExpr *v, Span span) {
  SemaType t, *written = d->type ? &t : NULL;
  if (sema_is_error(v) || (d->type && !check_type(c, d->type, &t)))
    return sema_texpr_error(c, span);
  if (sema_is_tile(v) || (written && written->kind == TY_TILE && sema_is_num(v)))
    return let_tile(c, d, v, written, span);
  if (sema_is_num(v))
    return let_scalar(c, d, v, written);
  if (v->type.kind == TY_GLOBAL || v->kind == TE_STRING || v->kind == TE_DTYPE)
    return written ? let_other(c, d, v, written, span) : v;
  diag_add(c->sink, E0229, span, "`let %s` takes one value, this is %s", d->name.text,
           sema_describe(c, v));
  return sema_texpr_error(c, span);
}

/* The number of names and values must agree exactly. */
static bool unpacks(Check *c, const TExpr *v, size_t n, Span span) {
  if (sema_is_error(v))
    return false;
  if (v->kind == TE_TUPLE && (size_t)v->nargs == n)
    return true;
  diag_add(c->sink, E0229, span, "%zu names are given %s", n,
           v->kind == TE_TUPLE ? arena_printf(c->a, "%d values", v->nargs) : sema_describe(c, v));
  return false;
}

/* Values are typed before any name is declared: `let x = x + 1` means the outer x. */
void sema_check_let(Check *c, const AstStmt *s) {
  const AstDecls *names = &s->as.let.names;
  TExpr *v = sema_check_expr(c, s->as.let.value);
  if (names->n == 1) {
    TExpr *x = let_value(c, &names->v[0], v, s->span);
    sema_sym_value(c, names->v[0].name, x, "a `let`");
    return;
  }
  /* All values before any name, as for a single one. */
  bool ok = unpacks(c, v, names->n, s->span);
  TExpr **x = ARENA_ARRAY(c->a, TExpr *, names->n);
  for (size_t i = 0; i < names->n; i++)
    x[i] = ok ? let_value(c, &names->v[i], v->arg[i], s->span) : sema_texpr_error(c, s->span);
  for (size_t i = 0; i < names->n; i++)
    sema_sym_value(c, names->v[i].name, x[i], "a `let`");
}

/* ---------------------------------------------------------------- var */

/* A `var` keeps its type when it changes, so a number without one must be given it: silently
 * taking i64 or f64 would make slow kernels. */
static bool var_type(Check *c, const AstDecl *d, const TExpr *v, SemaType *t) {
  if (d->type && !check_type(c, d->type, t))
    return false;
  if (sema_is_tile(v) || (d->type && t->kind == TY_TILE)) {
    Diag *g = diag_add(c->sink, E0214, d->span, "a `var` is a scalar");
    diag_hint(c->sink, g, "fragment %s: … is a tile that changes", d->name.text);
    return false;
  }
  if (d->type)
    return true;
  *t = v->type;
  if (sema_is_num(v) && !v->type.untyped)
    return true;
  Diag *g = diag_add(c->sink, E0230, d->span,
                     "a `var` whose value has no type of its own must say its type: %s is %s",
                     d->name.text, sema_describe(c, v));
  if (sema_is_num(v))
    diag_hint(c->sink, g, "var %s: %s = …", d->name.text,
              dtype_is_float(v->type.dtype) ? "f32" : "i32");
  return false;
}

/* After an error the name is still declared, silently, or every use would be reported. */
static void one_var(Check *c, const AstDecl *d, TExpr *v, Span span) {
  SemaType t;
  bool ok = !sema_is_error(v) && var_type(c, d, v, &t);
  if (ok)
    v = sema_convert(c, v, t.dtype);
  if (!ok || sema_is_error(v)) {
    sema_sym_declare(c, d->name, SYM_POISON, "a `var`");
    return;
  }
  Sym *sym = sema_sym_declare(c, d->name, SYM_VAR, "a `var`");
  sym->var = sema_tvar_new(c, TV_VAR, d->name.text, t.dtype, d->name.span);
  TStmt *s = sema_tstmt_new(c, TS_LET, span);
  s->as.let.var = sym->var;
  s->as.let.value = v;
}

/* Several variables are set at once, from values kept aside. */
void sema_check_var(Check *c, const AstStmt *s) {
  const AstDecls *names = &s->as.let.names;
  TExpr *v = sema_check_expr(c, s->as.let.value);
  if (names->n == 1) {
    one_var(c, &names->v[0], v, s->span);
    return;
  }
  bool ok = unpacks(c, v, names->n, s->span);
  for (size_t i = 0; i < names->n; i++)
    one_var(c, &names->v[i],
            ok ? sema_bind_value(c, names->v[i].name.text, v->arg[i], s->span)
               : sema_texpr_error(c, s->span),
            s->span);
}

/* ---------------------------------------------------------------- tiles */

/* The word that declares tiles of the space. */
static const char *space_name(TSpace s) {
  return s == TB_SHARED ? "shared" : s == TB_FRAGMENT ? "fragment" : "local";
}

/* The written type, or that of the initial tile. A scalar says nothing about extents. */
static bool tile_type(Check *c, const AstDecl *d, const TExpr *init, TSpace space, SemaType *t) {
  if (d->type) {
    if (!check_type(c, d->type, t))
      return false;
    if (t->kind == TY_TILE)
      return true;
    Diag *g = diag_add(c->sink, E0214, d->type->span, "a %s tile has extents, %s is a scalar type",
                       space_name(space), dtype_name(t->dtype));
    diag_hint(c->sink, g, "var %s: %s = … is a scalar", d->name.text, dtype_name(t->dtype));
    return false;
  }
  if (init && sema_is_tile(init)) {
    *t = sema_type_definite(init->type);
    return true;
  }
  if (!init || !sema_is_error(init))
    diag_add(c->sink, E0230, d->span, "%s needs a type: its value is %s", d->name.text,
             init ? sema_describe(c, init) : "not given");
  return false;
}

/* The tile exists from here on; an initial value is an assignment of its own. */
static void one_tile(Check *c, const AstDecl *d, TSpace space) {
  SemaType t;
  TExpr *init = d->init ? sema_check_value(c, d->init) : NULL;
  if (!tile_type(c, d, init, space, &t)) {
    sema_sym_declare(c, d->name, SYM_POISON, "a tile");
    return;
  }
  TBuf *b = sema_tbuf_new(c, space, d->name.text, &t, d->name.span);
  sema_tstmt_new(c, TS_ALLOC, d->span)->as.alloc = b;
  sema_sym_value(c, d->name, sema_texpr_whole(c, b, d->name.span), "a tile");
  /* Its elements are unwritten until something writes them. */
  if (!init)
    return;
  TRegion r = sema_region_whole(c, b, d->span);
  sema_assign_region(c, &r, init, d->span);
}

/* shared and fragment belong to the block, local to an iteration of a parallel loop. */
void sema_check_tiles(Check *c, const AstStmt *s, TSpace space) {
  bool ok = space == TB_LOCAL || sema_tile_allowed(c, s->span, space_name(space));
  if (space == TB_LOCAL && !c->parallel) {
    Diag *d = diag_add(c->sink, E0313, s->span,
                       "`local` is private to an iteration of a parallel loop, here is none");
    diag_hint(c->sink, d, "fragment %s: …", s->as.decls.v[0].name.text);
    ok = false;
  }
  for (size_t i = 0; i < s->as.decls.n; i++)
    if (ok)
      one_tile(c, &s->as.decls.v[i], space);
    else
      sema_sym_declare(c, s->as.decls.v[i].name, SYM_POISON, "a tile");
}

/* ---------------------------------------------------------------- grid */

/* Whole warps, up to what a block can have. */
static void grid_threads(Check *c, const AstArg *a) {
  int64_t v;
  if (!sema_check_const_int(c, a->value, "threads", &v))
    return;
  if (v < 32 || v > 1024 || v % 32) {
    Diag *d =
        diag_add(c->sink, E0302, a->value->span,
                 "a block has 32 to 1024 threads, in steps of 32; this says %lld", (long long)v);
    diag_hint(c->sink, d, "threads = 128");
    return;
  }
  c->tree->threads = (int)v;
  c->threads_said = true;
}

/* The order in which blocks are walked; grouped(n) keeps n rows of blocks together. */
static void grid_raster(Check *c, const AstArg *a) {
  const AstExpr *e = a->value;
  int64_t v;
  if (e->kind != EXPR_CALL || e->as.call.fn->kind != EXPR_NAME || e->as.call.args.n != 1 ||
      strcmp(e->as.call.fn->as.name, "grouped") != 0) {
    Diag *d = diag_add(c->sink, E0302, e->span, "there is no such raster");
    diag_hint(c->sink, d, "raster = grouped(8)");
    return;
  }
  if (!sema_check_const_int(c, e->as.call.args.v[0].value, "the group", &v))
    return;
  if (v < 1 || v > INT32_MAX)
    diag_add(c->sink, E0302, e->span, "a group has at least one row, this says %lld", (long long)v);
  else
    c->tree->raster = (int)v;
}

/* Up to 16 blocks: the most that any target has. */
static void grid_cluster(Check *c, const AstArg *a) {
  const AstExpr *e = a->value;
  AstExpr *one = a->value, **v = e->kind == EXPR_TUPLE ? e->as.list.v : &one;
  size_t n = e->kind == EXPR_TUPLE ? e->as.list.n : 1;
  int64_t size = 1;
  if (n > 3 || n == 0) {
    diag_add(c->sink, E0302, e->span, "a cluster has 1 to 3 axes");
    return;
  }
  for (size_t i = 0; i < n; i++) {
    int64_t x;
    if (!sema_check_const_int(c, v[i], "an extent of the cluster", &x))
      return;
    size = x >= 1 && x <= 16 ? size * x : 17;
    c->tree->cluster[i] = (int)(x & 31);
  }
  if (size <= 16)
    return;
  diag_add(c->sink, E0302, e->span, "a cluster has 1 to 16 blocks");
  memset(c->tree->cluster, 0, sizeof c->tree->cluster);
}

/* Options change the schedule, never the result. */
static void grid_option(Check *c, const AstArg *a) {
  static const char *const names[] = {"threads", "raster", "cluster", "resident", "cooperative"};
  if (strcmp(a->name, names[0]) == 0)
    grid_threads(c, a);
  else if (strcmp(a->name, names[1]) == 0)
    grid_raster(c, a);
  else if (strcmp(a->name, names[2]) == 0)
    grid_cluster(c, a);
  else if (strcmp(a->name, names[3]) == 0)
    sema_check_const_bool(c, a->value, "resident", &c->tree->resident);
  else if (strcmp(a->name, names[4]) == 0)
    sema_check_const_bool(c, a->value, "cooperative", &c->tree->cooperative);
  else {
    Diag *d = diag_add(c->sink, E0302, a->name_span, "grid has no option %s", a->name);
    const char *near = names_closest(a->name, names, sizeof names / sizeof *names);
    if (near)
      diag_hint(c->sink, d, "did you mean %s?", near);
    else /* num_warps, block, num_stages: the threads are what they mostly mean */
      diag_hint(c->sink, d,
                "the options are threads = 128, raster, cluster, resident, cooperative");
  }
}

/* No loads: the launch computes it on the host. */
static TExpr *grid_extent(Check *c, const AstExpr *e) {
  TExpr *x = sema_check_int(c, e, "an extent of the grid");
  if (sema_is_error(x) || sema_is_pure(x))
    return x;
  diag_add(c->sink, E0301, e->span, "a grid is computed of parameters and extents alone");
  return sema_texpr_error(c, e->span);
}

/* Indices are declared after the extents are checked, which cannot use them. */
void sema_check_grid(Check *c, const AstStmt *s) {
  const AstArgs *args = &s->as.grid.args;
  size_t n = s->as.grid.n;
  for (size_t i = 0; i < n && i < args->npos && i < 3; i++) {
    c->tree->grid[i] = grid_extent(c, args->v[i].value);
    TVar *v = sema_tvar_new(c, TV_GRID, s->as.grid.names[i].text, DT_I64, s->as.grid.names[i].span);
    v->lo = 0;
    c->tree->grid_index[i] = v;
    c->tree->grid_rank = (int)i + 1;
  }
  for (size_t i = args->npos; i < args->n; i++)
    grid_option(c, &args->v[i]);
  for (int i = 0; i < c->tree->grid_rank; i++)
    sema_sym_value(c, s->as.grid.names[i],
                   sema_texpr_var(c, c->tree->grid_index[i], true, s->as.grid.names[i].span),
                   "a block index");
}
