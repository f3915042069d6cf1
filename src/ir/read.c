/* read.c: kernels of the IR's text, and names in scope.
 *
 * In: a file. Out: its kernels, names unique; or up to 20 diagnostics with places. Always holds: a
 * hostile file costs time in proportion to its length, bounded stack, and never more than an error.
 * ir_read checks the grammar, names and the types of expressions; all else is ir_verify's.
 * Tests: tests/unit/check_ir.c, tests/fuzz.
 */
#include "read.h"

/* ---------------------------------------------------------------- scopes */

/* The innermost one, in one look-up: hidden entries are chained. */
Entry *ir_read_scope_find(Reader *r, const char *name) {
  uintptr_t at = (uintptr_t)map_getn(r->known, &name, sizeof name);
  return at ? &r->entries.v[at - 1] : NULL;
}

/* A second definition in one block is an error; it still takes the name.
 * `at`: where the definition stands, for the message. */
void ir_read_scope_add(Reader *r, Entry e, Span at) {
  e.hidden = (uintptr_t)map_getn(r->known, &e.name, sizeof e.name);
  e.block = r->block;
  if (e.hidden > r->block)
    ir_read_error(r, E0604, at, "`%s` is defined twice in this block", e.name);
  VEC_PUSH(r->arena, &r->entries, e);
  map_setn(r->known, &e.name, sizeof e.name, (void *)(uintptr_t)r->entries.n);
}

/* Blocks nest; the mark is the enclosing block's. */
size_t ir_read_scope_open(Reader *r) {
  size_t mark = r->block;
  r->block = r->entries.n;
  return mark;
}

/* Gives back what the block's entries hid, newest first. */
void ir_read_scope_close(Reader *r, size_t mark) {
  while (r->entries.n > r->block) {
    const Entry *e = &r->entries.v[--r->entries.n];
    map_setn(r->known, &e->name, sizeof e->name, (void *)e->hidden);
  }
  r->block = mark;
}

/* Made and in scope at once: for names that a head declares. */
IrVar *ir_read_scope_new_var(Reader *r, IrVarKind kind, const char *name, DType type, Span at) {
  IrVar *v = ir_var(r->k, kind, name, type);
  ir_read_scope_add(r, (Entry){.kind = EN_VAR, .name = v->name, .as.var = v}, at);
  return v;
}

/* Marks the statement broken: nothing after a missing buffer can be understood. */
IrBuffer *ir_read_scope_buffer(Reader *r) {
  Span at = r->tok.span;
  const char *name = ir_tok_name(r, "a tensor's or tile's name");
  if (!name)
    return NULL;
  Entry *e = ir_read_scope_find(r, name);
  if (e && e->kind == EN_BUFFER)
    return e->as.buf;
  ir_read_error(r, E0604, at, "there is no tensor or tile `%s` here", name);
  r->broken = true;
  return NULL;
}

/* ---------------------------------------------------------------- the signature */

/* A parameter as written; scalars are declared before any shape is looked at. */
typedef struct Param {
  const char *name;
  Span span;
  IrRole role;
  DType dtype;
  bool tensor, unchecked;
  int rank;
  Node *extent[IR_MAX_RANK];
  unsigned strided; /* a bit an axis */
  Node *init;
} Param;
typedef VEC(Param) Params;

/* Bare: every axis.
 * `strided`, `strided(0, 2)` */
static void read_strided(Reader *r, Param *p) {
  if (!ir_tok_accept_word(r, "strided"))
    return;
  if (!ir_tok_accept(r, "(")) {
    p->strided = (1u << p->rank) - 1;
    return;
  }
  do {
    int64_t axis = ir_tok_int(r, 0, p->rank ? p->rank - 1 : 0, "an axis of the tensor");
    if (r->broken)
      return;
    p->strided |= 1u << axis;
  } while (ir_tok_accept(r, ","));
  p->strided &= (1u << p->rank) - 1;
  ir_tok_expect(r, ")");
}

/* Extents stay untyped until all scalars are known, whatever their order.
 * `A: inout f16[M, 2*N + 1] strided unchecked = 0`, `n: i32` */
static bool read_param(Reader *r, Param *p) {
  p->span = r->tok.span;
  if (!(p->name = ir_tok_name(r, "a parameter's name")) || !ir_tok_expect(r, ":"))
    return false;
  if (p->role == IRR_IN && ir_tok_accept_word(r, "inout"))
    p->role = IRR_INOUT;
  p->dtype = ir_tok_dtype(r);
  if (p->dtype == DT_NONE)
    return false;
  p->tensor = ir_tok_is(r, "[");
  if (!p->tensor) {
    if (p->role != IRR_IN)
      ir_read_unexpected(r, "the extents of a tensor");
    return !r->broken;
  }
  if (!ir_read_extents(r, p->extent, &p->rank))
    return false;
  read_strided(r, p);
  p->unchecked = !r->broken && ir_tok_accept_word(r, "unchecked");
  if (!r->broken && ir_tok_accept(r, "="))
    p->init = ir_node_parse(r);
  return !r->broken;
}

/* A comma may end the list.
 * The opening parenthesis is the current token. */
static bool read_params(Reader *r, IrRole role, Params *out) {
  if (!ir_tok_expect(r, "("))
    return false;
  while (!ir_tok_is(r, ")")) {
    Param p = {.role = role};
    if (!read_param(r, &p))
      return false;
    VEC_PUSH(r->arena, out, p);
    if (!ir_tok_accept(r, ","))
      break;
  }
  return ir_tok_expect(r, ")");
}

/* A parameter's variable has a value before anything else. */
static void declare_scalar(Reader *r, const Param *p) {
  IrVar *v = ir_read_scope_new_var(r, IRV_PARAM, p->name, p->dtype, p->span);
  IrParam param = {.var = v};
  VEC_PUSH(r->k->arena, &r->k->params, param);
}

/* Unknown names in an extent become symbolic extents; scratch can bind none.
 * `at`: the parameter's place in the signature. */
static void declare_tensor(Reader *r, Param *p, size_t at) {
  IrExpr *extent[IR_MAX_RANK];
  for (int i = 0; i < p->rank; i++)
    extent[i] = ir_node_typed(r, p->extent[i], DT_I64, p->role != IRR_SCRATCH);
  IrBuffer *b = ir_buffer(r->k, IRS_GLOBAL, p->name, p->dtype, p->rank, extent);
  b->role = p->role;
  b->span = p->span;
  b->unchecked = p->unchecked;
  if (p->init)
    b->init = ir_node_typed(r, p->init, p->dtype, false);
  for (int i = 0; i < p->rank; i++)
    if (p->strided >> i & 1)
      ir_stride(r->k, b, i);
  ir_read_scope_add(r, (Entry){.kind = EN_BUFFER, .name = b->name, .as.buf = b}, p->span);
  r->k->params.v[at].buf = b;
}

/* Parameters keep the order of the text; scalars' slots are filled first. Scratch comes last, and
 * is declared after `pre`, whose variables its extents may use. */
static void declare_params(Reader *r, Params *params) {
  for (size_t i = 0; i < params->n; i++) {
    if (!params->v[i].tensor)
      declare_scalar(r, &params->v[i]);
    else if (params->v[i].role != IRR_SCRATCH)
      VEC_PUSH(r->k->arena, &r->k->params, (IrParam){0});
  }
  for (size_t i = 0; i < params->n; i++)
    if (params->v[i].tensor && params->v[i].role != IRR_SCRATCH)
      declare_tensor(r, &params->v[i], i);
}

/* After `pre`: slabs are as many as `pre` says. */
static void declare_scratch(Reader *r, Params *params) {
  for (size_t i = 0; i < params->n; i++)
    if (params->v[i].role == IRR_SCRATCH) {
      VEC_PUSH(r->k->arena, &r->k->params, (IrParam){0});
      declare_tensor(r, &params->v[i], r->k->params.n - 1);
    }
}

/* ---------------------------------------------------------------- the head of the body */

/* As many as the map has strides; a missing one is an error of grammar. */
static void read_expr_list(Reader *r, IrExpr **out, int n) {
  if (!ir_tok_expect(r, "["))
    return;
  for (int i = 0; i < n; i++) {
    if (i && !ir_tok_expect(r, ","))
      return;
    out[i] = ir_read_expr_of(r, DT_I64);
    if (r->broken)
      return;
  }
  ir_tok_expect(r, "]");
}

/* A box is known when the kernel is made: its bytes are part of the program.
 * `box [64, 128] swizzle 128` */
static void read_box(Reader *r, IrTmap *t) {
  if (!ir_tok_expect_word(r, "box") || !ir_tok_expect(r, "["))
    return;
  for (int i = 0; i < t->rank && !r->broken; i++) {
    if (i && !ir_tok_expect(r, ","))
      return;
    t->box[i] = ir_tok_int(r, 0, INT32_MAX, "an extent of the box");
  }
  if (!r->broken && ir_tok_expect(r, "]") && ir_tok_expect_word(r, "swizzle"))
    t->swizzle = ir_tok_int(r, 0, 128, "the swizzle's span");
}

/* The rank follows from the list of dimensions.
 * `tmap ta = A dim [K, M] stride [K*2] box [64, 128] swizzle 128` */
static void read_tmap(Reader *r) {
  Node *dim[IR_MAX_RANK];
  int rank;
  Span at = r->tok.span;
  const char *name = ir_tok_name(r, "the tensor map's name");
  IrBuffer *buf = name && ir_tok_expect(r, "=") ? ir_read_scope_buffer(r) : NULL;
  if (!buf || !ir_tok_expect_word(r, "dim") || !ir_read_extents(r, dim, &rank))
    return;
  if (rank < 1 || rank > 5) {
    ir_read_error(r, E0607, at, "a tensor map has 1 to 5 dimensions, not %d", rank);
    r->broken = true;
    return;
  }
  IrTmap *t = ir_tmap(r->k, name, buf, rank);
  t->span = span_join(at, r->last.span);
  for (int i = 0; i < rank; i++) {
    t->dim[i] = ir_node_typed(r, dim[i], DT_I64, false);
    t->stride[i] = ir_int(r->k, 0);
    t->box[i] = 1;
  }
  t->stride[0] = NULL;
  if (ir_tok_expect_word(r, "stride"))
    read_expr_list(r, t->stride + 1, rank - 1);
  if (!r->broken)
    read_box(r, t);
  ir_read_scope_add(r, (Entry){.kind = EN_TMAP, .name = t->name, .as.tmap = t}, at);
}

/* Names first, then their extents, so that no extent sees an index.
 * `grid bx, by = ceildiv(N, 128), ceildiv(M, 128)` */
static void read_grid(Reader *r) {
  IrKernel *k = r->k;
  const char *name[3];
  Span at[3];
  DType type[3];
  do {
    if (k->grid_rank == 3) {
      ir_read_unexpected(r, "at most three axes of the grid");
      return;
    }
    int i = k->grid_rank;
    at[i] = r->tok.span;
    if (!(name[i] = ir_tok_name(r, "a block index' name")))
      return;
    type[i] = ir_tok_accept(r, ":") ? ir_tok_dtype(r) : DT_I64;
    if (r->broken)
      return;
    k->grid_rank++;
  } while (ir_tok_accept(r, ","));
  ir_tok_expect(r, "=");
  for (int i = 0; i < k->grid_rank; i++) {
    if (i && !r->broken)
      ir_tok_expect(r, ",");
    k->grid[i] = r->broken ? ir_int(k, 1) : ir_read_expr_of(r, DT_I64);
  }
  for (int i = 0; i < k->grid_rank; i++) {
    k->grid_index[i] = ir_read_scope_new_var(r, IRV_GRID, name[i], type[i], at[i]);
    k->grid_index[i]->axis = i;
  }
}

/* One to three extents.
 * `cluster 2, 1, 1` */
static void read_cluster(Reader *r) {
  for (int i = 0; i < 3; i++) {
    r->k->cluster[i] = (int)ir_tok_int(r, 0, 16, "a cluster's extent");
    if (r->broken || !ir_tok_accept(r, ","))
      return;
  }
}

/* One line of the head; false where the body begins. */
static bool read_head_number(Reader *r) {
  IrKernel *k = r->k;
  if (ir_tok_accept_word(r, "threads"))
    k->threads = (int)ir_tok_int(r, 1, 1024, "a number of threads");
  else if (ir_tok_accept_word(r, "shared_bytes"))
    k->shared_bytes = ir_tok_int(r, 0, INT32_MAX, "a number of bytes");
  else if (ir_tok_accept_word(r, "raster"))
    k->raster = (int)ir_tok_int(r, 0, 1 << 20, "a group of tiles");
  else if (ir_tok_accept_word(r, "min_blocks"))
    k->min_blocks = (int)ir_tok_int(r, 0, 32, "a number of blocks");
  else if (ir_tok_accept_word(r, "cluster"))
    read_cluster(r);
  else if (ir_tok_accept_word(r, "cooperative"))
    k->cooperative = true;
  else if (ir_tok_accept_word(r, "resident"))
    k->resident = true;
  else
    return false;
  return true;
}

/* `site E0450 "text"`: the next number of a FAULT; without a code it is E0478. */
static void read_site(Reader *r) {
  IrSite site = {E0478, NULL};
  if (r->tok.kind == TK_NAME &&
      diag_find(arena_printf(r->arena, "%.*s", (int)r->tok.n, r->tok.text), &site.code))
    ir_tok_next(r);
  if (r->tok.kind != TK_STRING) {
    ir_read_unexpected(r, "the text of a fault");
    return;
  }
  site.text = names_get(r->names, r->tok.string, strlen(r->tok.string));
  VEC_PUSH(r->k->arena, &r->k->sites, site);
  ir_tok_next(r);
}

/* The two that the language has.
 * `@exact`, `@unchecked` */
static void read_attribute(Reader *r) {
  if (ir_tok_accept_word(r, "exact"))
    r->k->exact = true;
  else if (ir_tok_accept_word(r, "unchecked"))
    r->k->unchecked = true;
  else
    ir_read_unexpected(r, "`exact` or `unchecked`");
}

/* `pre { … }`: its variables belong to the body's scope, so it opens none.
 * `pre { let tiles: i64 = … }` */
static void read_pre(Reader *r) {
  if (!ir_tok_expect(r, "{"))
    return;
  ir_read_stmts(r, &r->k->pre);
  ir_tok_expect(r, "}");
}

/* Attributes and `pre`, which scratch parameters wait for; then the rest of the head.
 * `@exact @unchecked pre { … }` */
static void read_opening(Reader *r, Params *params) {
  while (!r->broken && (ir_tok_is(r, "@") || ir_tok_word(r, "pre"))) {
    if (ir_tok_accept(r, "@"))
      read_attribute(r);
    else if (ir_tok_accept_word(r, "pre"))
      read_pre(r);
  }
  declare_scratch(r, params);
}

/* Lines in any order; the first word that is none of them begins the body. */
static void read_head(Reader *r) {
  for (;;) {
    if (ir_tok_accept_word(r, "tmap"))
      read_tmap(r);
    else if (ir_tok_accept_word(r, "site"))
      read_site(r);
    else if (ir_tok_word(r, "grid") && r->k->grid_rank == 0) {
      ir_tok_next(r);
      read_grid(r);
    } else if (!read_head_number(r))
      return;
    if (r->broken)
      return;
  }
}

/* ---------------------------------------------------------------- kernels */

/* The level decides what a lone integer is, and what the verifier allows.
 * `tile`, `scheduled`, `thread` */
static bool read_level(Reader *r, IrLevel *level) {
  static const char *const words[] = {"tile", "scheduled", "thread"};
  for (int i = 0; i < 3; i++)
    if (ir_tok_accept_word(r, words[i])) {
      *level = (IrLevel)i;
      return true;
    }
  ir_read_unexpected(r, "`tile`, `scheduled` or `thread`");
  return false;
}

/* Three lists, of which only the first must be there.
 * `(inputs) -> (outputs) scratch (buffers)` */
static bool read_signature(Reader *r, Params *params) {
  if (!read_params(r, IRR_IN, params))
    return false;
  if (ir_tok_accept(r, "->") && !read_params(r, IRR_OUT, params))
    return false;
  return !ir_tok_accept_word(r, "scratch") || read_params(r, IRR_SCRATCH, params);
}

/* From the word `kernel` to its closing brace; NULL where not even the signature can be read. */
static IrKernel *read_kernel(Reader *r) {
  IrLevel level;
  Params params = {0};
  Span at = r->tok.span;
  ir_tok_next(r);
  const char *name = ir_tok_name(r, "the kernel's name");
  if (!name || !read_level(r, &level))
    return NULL;
  IrKernel *k = r->k = ir_kernel_new(r->arena, r->names, name, level);
  k->span = span_join(at, r->last.span);
  if (!read_signature(r, &params) || !ir_tok_expect(r, "{"))
    return NULL;
  declare_params(r, &params);
  read_opening(r, &params);
  if (!r->broken)
    read_head(r);
  while (r->broken || (!ir_tok_is(r, "}") && r->tok.kind != TK_END && !ir_tok_word(r, "kernel"))) {
    if (r->broken) { /* in the head: go on at the next line that can be a statement */
      uint32_t line = r->tok.line;
      r->broken = false;
      while (r->tok.kind != TK_END && r->tok.line == line && !ir_tok_is(r, "}"))
        ir_tok_next(r);
      read_head(r);
    } else {
      ir_read_stmts(r, &k->body);
    }
  }
  ir_tok_expect(r, "}");
  return k;
}

/* After an error outside kernels.
 * Everything up to the next `kernel` is lost. */
static void skip_to_kernel(Reader *r) {
  while (r->tok.kind != TK_END && !ir_tok_word(r, "kernel"))
    ir_tok_next(r);
  r->broken = false;
}

static void read_file_const(Reader *r) {
  Span at = r->tok.span;
  const char *name = ir_tok_name(r, "a constant's name");
  Node *n = name && ir_tok_expect(r, "=") ? ir_node_parse(r) : NULL;
  if (n)
    ir_read_scope_add(r, (Entry){.kind = EN_CONST, .name = name, .as.value = n}, at);
}

/* Stops when the sink is full: more errors would not be kept.
 * Kernels and constants in any order. */
static void read_items(Reader *r, IrKernels *out) {
  while (r->tok.kind != TK_END && r->errors <= r->sink->limit) {
    if (ir_tok_word(r, "kernel")) {
      size_t mark = ir_read_scope_open(r);
      IrKernel *k = read_kernel(r);
      ir_read_scope_close(r, mark);
      if (k) {
        ir_name_apart(k);
        VEC_PUSH(r->arena, out, k);
      }
    } else if (ir_tok_accept_word(r, "const")) {
      read_file_const(r);
    } else {
      ir_read_unexpected(r, "`kernel` or `const`");
    }
    if (r->broken)
      skip_to_kernel(r);
  }
}

/* False where anything was wrong; kernels that could be read are in `out` all the same. */
bool ir_read(Arena *a, Names *names, const SrcFile *file, DiagSink *sink, IrKernels *out) {
  Reader r = {.file = file, .sink = sink, .arena = a, .names = names, .known = map_new(a)};
  ir_tok_next(&r);
  read_items(&r, out);
  if (r.errors == 0 && out->n == 0)
    ir_read_error(&r, E0601, r.tok.span, "there is no kernel in this text");
  return r.errors == 0;
}
