/* read_tile.c: declarations of tiles and the tile operations of the IR's text.
 *
 * In: tokens after a statement's first word. Out: the statement. Always holds: what print_tile.c
 * prints is read here with the options in the same order. Tests: tests/unit/check_ir.c.
 */
#include "read.h"

/* ---------------------------------------------------------------- layouts and declarations */

/* Its parameters hide other names inside the map only.
 * `(i, j) -> i*64 + j` */
static bool read_layout_map(Reader *r, IrLayout *l) {
  l->kind = IRL_MAP;
  size_t mark = ir_read_scope_open(r);
  for (int i = 0; i < IR_MAX_RANK && !r->broken; i++) {
    Span at = r->tok.span;
    const char *name = ir_tok_name(r, "a parameter of the layout");
    if (!name)
      break;
    l->index[i] = ir_read_scope_new_var(r, IRV_INDEX, name, DT_I64, at);
    if (!ir_tok_accept(r, ","))
      break;
  }
  if (!r->broken && ir_tok_expect(r, ")") && ir_tok_expect(r, "->"))
    l->offset = ir_read_expr_of(r, DT_I64);
  ir_read_scope_close(r, mark);
  return !r->broken;
}

/* rows, swizzle(bytes), padded(elements), or a map.
 * The word `layout` has been taken. */
static bool read_layout(Reader *r, IrLayout *l) {
  if (ir_tok_accept(r, "("))
    return read_layout_map(r, l);
  if (ir_tok_accept_word(r, "rows")) {
    l->kind = IRL_ROWS;
    l->columns = ir_tok_accept_word(r, "columns");
    return true;
  }
  l->kind = ir_tok_word(r, "padded") ? IRL_PADDED : IRL_SWIZZLE;
  if (!ir_tok_accept_word(r, "padded") && !ir_tok_expect_word(r, "swizzle"))
    return false;
  if (!ir_tok_expect(r, "("))
    return false;
  l->amount = ir_tok_int(r, 0, 1 << 20, "the layout's amount");
  if (!ir_tok_expect(r, ")"))
    return false;
  l->columns = ir_tok_accept_word(r, "columns");
  return true;
}

/* In the order in which they are printed.
 * `at 4096`, `layout …`, `stages 3`, `arrivals 2`, `unchecked` */
static bool read_tile_options(Reader *r, IrBuffer *b) {
  if (ir_tok_accept_word(r, "at"))
    b->offset = ir_tok_int(r, 0, INT32_MAX, "the tile's byte offset");
  if (!r->broken && ir_tok_accept_word(r, "layout")) {
    b->layout = ARENA_NEW(r->k->arena, IrLayout);
    if (!read_layout(r, b->layout))
      return false;
  }
  if (!r->broken && ir_tok_accept_word(r, "stages"))
    b->stages = (int)ir_tok_int(r, 1, 1 << 20, "a tile's number of stages");
  if (!r->broken && ir_tok_accept_word(r, "arrivals"))
    b->arrivals = (int)ir_tok_int(r, 1, 1 << 20, "a barrier's number of arrivals");
  b->unchecked = !r->broken && ir_tok_accept_word(r, "unchecked");
  return !r->broken;
}

/* The name is known even after an error, which spares its uses an error each.
 * `shared As: f16[128, 64] OPTIONS` */
static void read_alloc(Reader *r, IrBlock *out, IrSpace space, Span at) {
  Node *node[IR_MAX_RANK];
  IrExpr *extent[IR_MAX_RANK];
  int rank;
  Span name_at = r->tok.span;
  const char *name = ir_tok_name(r, "a tile's name");
  if (!name || !ir_tok_expect(r, ":"))
    return;
  DType t = ir_tok_dtype(r);
  if (t == DT_NONE || !ir_read_extents(r, node, &rank))
    return;
  for (int i = 0; i < rank; i++)
    extent[i] = ir_node_typed(r, node[i], DT_I64, false);
  IrBuffer *b = ir_buffer(r->k, space, name, t, rank, extent);
  b->span = name_at;
  if (read_tile_options(r, b))
    ir_add(r->k, out, IRK_ALLOC, at)->as.alloc = b;
  ir_read_scope_add(r, (Entry){.kind = EN_BUFFER, .name = name, .as.buf = b}, name_at);
}

/* ---------------------------------------------------------------- copy */

/* One of the words up to NULL, by its place; 0 and an error otherwise. */
static int read_one_of(Reader *r, const char *const *word, const char *expected) {
  for (int i = 0; word[i]; i++)
    if (ir_tok_accept_word(r, word[i]))
      return i;
  ir_read_unexpected(r, expected);
  return 0;
}

/* Each at most once, in the order of printing.
 * `pad e`, `engine tma`, `signal full[s]` */
static bool read_copy_options(Reader *r, IrCopy *c) {
  if (ir_tok_accept_word(r, "pad"))
    c->pad = ir_read_expr(r, c->src.buf->dtype);
  if (!r->broken && ir_tok_accept_word(r, "engine"))
    c->engine = (IrEngine)read_one_of(r, ir_engine_names, "auto or tma");
  if (!r->broken && ir_tok_accept_word(r, "signal"))
    return ir_read_access(r, &c->signal);
  return !r->broken;
}

/* Target first: `copy dst = src`.
 * `copy dst = src OPTIONS` */
static void read_copy(Reader *r, IrBlock *out, Span at) {
  IrCopy c = {0};
  if (ir_read_region(r, &c.dst) && ir_tok_expect(r, "=") && ir_read_region(r, &c.src) &&
      read_copy_options(r, &c))
    ir_add(r->k, out, IRK_COPY, at)->as.copy = c;
}

/* ---------------------------------------------------------------- map */

/* Names before `in`, extents after it, as many as there are names. */
int ir_read_axes(Reader *r, IrVar **index, IrExpr **extent, int max) {
  int n = 0;
  while (!ir_tok_word(r, "in")) {
    if (n == max) {
      ir_read_unexpected(r, "fewer axes");
      return -1;
    }
    const char *name = ir_tok_name(r, "an index' name");
    if (!name)
      return -1;
    DType t = ir_tok_accept(r, ":") ? ir_tok_dtype(r) : DT_I64;
    if (r->broken)
      return -1;
    index[n++] = ir_var(r->k, IRV_INDEX, name, t);
    if (!ir_tok_accept(r, ","))
      break;
  }
  if (!ir_tok_expect_word(r, "in") || !ir_tok_expect(r, "["))
    return -1;
  for (int i = 0; i < n; i++) {
    if (i && !ir_tok_expect(r, ","))
      return -1;
    extent[i] = ir_read_expr(r, DT_I64);
    if (r->broken)
      return -1;
  }
  return ir_tok_expect(r, "]") ? n : -1;
}

/* Indices are in scope in the body only; extents do not see them.
 * `map i, j in [128, 64] { … }` */
static void read_map(Reader *r, IrBlock *out, bool parallel, Span at) {
  IrMap m = {.parallel = parallel};
  m.naxes = ir_read_axes(r, m.index, m.extent, 4);
  if (m.naxes < 0)
    return;
  IrStmt *s = ir_add(r->k, out, IRK_MAP, at);
  s->as.map = m;
  size_t mark = ir_read_scope_open(r);
  for (int i = 0; i < m.naxes; i++)
    ir_read_scope_def(r, m.index[i]);
  ir_read_block(r, &s->as.map.body);
  ir_read_scope_close(r, mark);
}

/* ---------------------------------------------------------------- reductions, scans, products */

/* `name(region)`, the name being a row of the table.
 * The destination and `=` have been taken. */
static bool read_reduction(Reader *r, OpCode *op, IrRegion *src) {
  Span at = r->tok.span;
  const char *name = ir_tok_name(r, "a reduction");
  if (!name)
    return false;
  *op = op_find(name);
  if (*op == OP_NONE || op_info(*op)->cls != OPC_REDUCE) {
    ir_read_error(r, E0603, at, "there is no reduction `%s`", name);
    r->broken = true;
    return false;
  }
  return ir_tok_expect(r, "(") && ir_read_region(r, src) && ir_tok_expect(r, ")");
}

/* A scalar's definition is told from a region by the `:` after its name. */
static bool defines_scalar(const Reader *r) {
  return r->tok.kind == TK_NAME && r->at < r->file->n && r->file->text[r->at] == ':';
}

/* A definition or a region on the left tells whole from axis.
 * `reduce m = rmax(s) axis 1`, `reduce x: f32 = sum(s)` */
static void read_reduce(Reader *r, IrBlock *out, Span at) {
  IrReduce d = {.axis = -1};
  if (defines_scalar(r) ? !(d.scalar = ir_read_def(r, IRV_LET)) : !ir_read_region(r, &d.dst))
    return;
  if (!ir_tok_expect(r, "=") || !read_reduction(r, &d.op, &d.src))
    return;
  if (ir_tok_accept_word(r, "axis"))
    d.axis = (int)ir_tok_int(r, 0, IR_MAX_RANK - 1, "an axis");
  ir_add(r->k, out, IRK_REDUCE, at)->as.reduce = d;
  ir_read_scope_def(r, d.scalar);
}

/* Always along an axis.
 * `scan d = sum(s) axis 1 reverse exclusive` */
static void read_scan(Reader *r, IrBlock *out, Span at) {
  IrScan s = {.op = OP_NONE};
  if (!ir_read_region(r, &s.dst) || !ir_tok_expect(r, "=") || !read_reduction(r, &s.op, &s.src) ||
      !ir_tok_expect_word(r, "axis"))
    return;
  s.axis = (int)ir_tok_int(r, 0, IR_MAX_RANK - 1, "an axis");
  s.reverse = ir_tok_accept_word(r, "reverse");
  s.exclusive = ir_tok_accept_word(r, "exclusive");
  ir_add(r->k, out, IRK_SCAN, at)->as.scan = s;
}

/* The schedule's words; none of them changes what a product is, but `tf32`.
 * `policy rows`, `promote 128`, `tf32`, `unit wgmma`, `async` */
static void read_dot_options(Reader *r, IrDot *d) {
  if (ir_tok_accept_word(r, "policy"))
    d->policy = (IrPolicy)read_one_of(r, ir_policy_names, "auto, rows, columns or square");
  if (!r->broken && ir_tok_accept_word(r, "promote"))
    d->promote = (int)ir_tok_int(r, -1, 1 << 20, "a number of K");
  d->tf32 = !r->broken && ir_tok_accept_word(r, "tf32");
  if (!r->broken && ir_tok_accept_word(r, "unit"))
    d->unit = (IrUnit)read_one_of(r, ir_unit_names, "auto, fma or wgmma");
  d->async = !r->broken && ir_tok_accept_word(r, "async");
}

/* c (+)= a @ b.
 * The regions may be transposed by `.T`; the options come last. */
static void read_dot(Reader *r, IrBlock *out, Span at) {
  IrDot d = {.promote = -1};
  if (!ir_read_region(r, &d.c))
    return;
  d.accumulate = ir_tok_accept(r, "+=");
  if ((!d.accumulate && !ir_tok_expect(r, "=")) || !ir_read_region(r, &d.a) ||
      !ir_tok_expect(r, "@") || !ir_read_region(r, &d.b))
    return;
  read_dot_options(r, &d);
  if (!r->broken)
    ir_add(r->k, out, IRK_DOT, at)->as.dot = d;
}

/* Declarations by the word of their space. */
bool ir_read_tile(Reader *r, IrBlock *out, const char *word, Span at) {
  static const char *const spaces[] = {"global", "shared", "fragment", "local", "reg"};
  for (int i = IRS_SHARED; i <= IRS_REG; i++)
    if (!strcmp(word, spaces[i])) {
      read_alloc(r, out, (IrSpace)i, at);
      return true;
    }
  if (!strcmp(word, "copy"))
    read_copy(r, out, at);
  else if (!strcmp(word, "map") || !strcmp(word, "parallel"))
    read_map(r, out, word[0] == 'p', at);
  else if (!strcmp(word, "reduce"))
    read_reduce(r, out, at);
  else if (!strcmp(word, "scan"))
    read_scan(r, out, at);
  else if (!strcmp(word, "dot"))
    read_dot(r, out, at);
  else
    return false;
  return true;
}
