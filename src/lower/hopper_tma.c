/* hopper_tma.c: tensor maps, loads into rings, results through staging tiles.
 *
 * In: COPY with `engine tma`, and copies from an accumulator into a staging tile. Out: boxes as the
 * tiles lie: panels of one swizzle span, all rows of the tile; stmatrix of the accumulators' pairs,
 * or a store of each pair of one-byte elements. Always holds: each warpgroup writes and stores its
 * own rows of a staging tile. Tests: tests/unit/check_schedule.c.
 */
#include "hopper.h"

enum { ROWS = 64, MOST_BOX = 256 }; /* of a warpgroup's block; of a box along an axis */

/* ---------------------------------------------------------------- tensor maps */

/* How a tile's box lies over its tensor. */
typedef struct Box {
  int unit, row;       /* axes of the tensor: side by side, and the other one of the tile */
  int64_t inner, rows; /* elements of a box */
  int64_t swizzle;     /* bytes; 0: none */
} Box;

static int other_axis(const IrRegion *g, int unit) {
  for (int i = 0; i < g->buf->rank; i++)
    if (g->axis[i].keep && i != unit)
      return i;
  return -1;
}

/* Bytes from one element to the next along an axis: the tensor's stride where it has one. */
static IrExpr *stride_bytes(Simple *s, IrBuffer *b, int axis) {
  IrKernel *k = s->k;
  IrExpr *n = ir_int(k, (int64_t)dtype_size(b->dtype));
  if (b->stride[axis])
    return ir_op2(k, OP_MUL, ir_ref(k, b->stride[axis]), n);
  for (int i = b->rank - 1; i > axis; i--)
    n = ir_op2(k, OP_MUL, b->extent[i], n);
  return n;
}

/* Innermost first: the unit axis, then the others from the last one on. */
static int axis_order(const IrBuffer *b, int unit, int *order) {
  int n = 0;
  order[n++] = unit;
  for (int i = b->rank - 1; i >= 0; i--)
    if (i != unit)
      order[n++] = i;
  return n;
}

static bool same_map(const IrTmap *t, const IrBuffer *b, const Box *x, const int *order) {
  bool same = t->buf == b && t->swizzle == x->swizzle && t->box[0] == x->inner;
  for (int i = 0; i < b->rank && same; i++)
    same = t->box[i] == (order[i] == x->unit ? x->inner : order[i] == x->row ? x->rows : 1);
  return same;
}

static IrTmap *map_of(Simple *s, IrBuffer *b, const Box *x) {
  IrKernel *k = s->k;
  int order[IR_MAX_RANK], n = axis_order(b, x->unit, order);
  for (size_t i = 0; i < k->tmaps.n; i++)
    if (same_map(k->tmaps.v[i], b, x, order))
      return k->tmaps.v[i];
  IrTmap *t = ir_tmap(k, arena_printf(k->arena, "map_%s", b->name), b, n);
  for (int i = 0; i < n; i++) {
    t->dim[i] = b->extent[order[i]];
    t->stride[i] = i ? stride_bytes(s, b, order[i]) : NULL;
    t->box[i] = order[i] == x->unit ? x->inner : order[i] == x->row ? x->rows : 1;
  }
  t->swizzle = x->swizzle;
  return t;
}

/* Coordinates of a box, innermost first, as operands. */
static int coordinates(Simple *s, const IrRegion *g, const Box *x, IrExpr *inner, IrExpr *row,
                       IrOperand *out) {
  int order[IR_MAX_RANK], n = axis_order(g->buf, x->unit, order);
  for (int i = 0; i < n; i++) {
    IrExpr *at = ir_cast(s->k, g->axis[order[i]].origin, DT_I32);
    IrExpr *by = order[i] == x->unit ? inner : order[i] == x->row ? row : NULL;
    out[i] = hopper_e(by ? low_add(s, at, by) : at);
  }
  return n;
}

/* ---------------------------------------------------------------- loads */

/* The ring that a tile belongs to. */
static const HopperRing *ring_of(Simple *s, const IrBuffer *tile) {
  for (size_t i = 0; i < s->k->channels.n; i++)
    for (int j = 0; j < s->k->channels.v[i]->ntiles; j++)
      if (s->k->channels.v[i]->tile[j] == tile)
        return &s->hopper->ring[i];
  return NULL;
}

/* The greatest multiple of 8 that divides the rows and fits a box. */
static int64_t box_rows(int64_t rows) {
  int64_t n = rows < MOST_BOX ? rows : MOST_BOX;
  while (rows % n || n % 8)
    n--;
  return n;
}

/* The barrier that the bytes are counted at: the ring's, or the one that the author's copy signals.
 */
static IrExpr *barrier_of(Simple *s, const IrCopy *c) {
  if (c->signal.buf)
    return low_barrier_address(s, &c->signal);
  const HopperRing *r = ring_of(s, c->dst.buf);
  return hopper_barrier(s, r->full, r->stage);
}

static void load_box(Simple *s, const IrCopy *c, const Box *x, IrExpr *barrier, int64_t panel,
                     int64_t row) {
  int64_t rows = sched_side(c->dst.buf, c->dst.buf->layout->columns);
  IrOperand o[3 + IR_MAX_RANK];
  IrExpr *at = hopper_region_at(s, &c->dst);
  at = low_add(s, at, low_i32(s, (panel * rows + row) * x->swizzle));
  o[0] = hopper_e(at);
  o[1] = (IrOperand){.kind = IRO_TMAP, .tmap = map_of(s, c->src.buf, x)};
  o[2] = hopper_e(barrier);
  int n = coordinates(s, &c->src, x, low_i32(s, panel * x->inner), low_i32(s, row), o + 3);
  hopper_op(s, OP_TMA_LOAD, 3 + n, o);
}

/* Of an author's copy: it arrives once, with all its bytes. */
static void expect(Simple *s, const IrCopy *c, IrExpr *barrier) {
  if (c->signal.buf)
    hopper_op(s, OP_MBAR_EXPECT_TX, 2,
              (IrOperand[]){hopper_e(barrier), hopper_i(s, hopper_matrix_bytes(c->dst.buf))});
}

static void load(Simple *s, const IrCopy *from) {
  IrCopy settled = *from, *c = &settled;
  const IrBuffer *tile = c->dst.buf;
  int64_t span = tile->layout->amount, size = (int64_t)dtype_size(tile->dtype);
  int64_t rows = sched_side(tile, tile->layout->columns);
  int64_t inner = sched_side(tile, !tile->layout->columns) * size;
  Box x = {.unit = lower_fact(s->request, c->src.buf).unit_axis, .swizzle = span};
  x.row = other_axis(&c->src, x.unit);
  x.inner = span / size;
  x.rows = box_rows(rows);
  c->dst = hopper_settled(s, &from->dst);
  IrExpr *barrier = barrier_of(s, c);
  expect(s, c, barrier);
  for (int64_t panel = 0; panel * span < inner; panel++)
    for (int64_t row = 0; row < rows; row += x.rows)
      load_box(s, c, &x, barrier, panel, row);
}

/* ---------------------------------------------------------------- staging */

/* A tile of results as it lies: panels of `span` bytes a row, in chunks of 16 bytes. */
typedef struct Staging {
  IrBuffer *tile;
  int64_t rows, pitch; /* pitch: bytes of a row of a panel */
  int64_t chunks;      /* of a row of a panel */
  bool swizzled;
} Staging;

static Staging staging_of(IrBuffer *tile) {
  Staging x = {.tile = tile, .rows = sched_extent(tile, 0)};
  x.swizzled = tile->layout && tile->layout->kind == IRL_SWIZZLE;
  x.pitch =
      x.swizzled ? tile->layout->amount : sched_extent(tile, 1) * (int64_t)dtype_size(tile->dtype);
  x.chunks = x.pitch / 16;
  return x;
}

/* Byte offset of a lane's 16 bytes: pair is the number of a 16-column group, in one of whose
 * halves the lane's chunk lies; row: of the tile. */
static IrExpr *matrix_at(Simple *s, const Staging *x, IrExpr *row, IrExpr *pair) {
  IrKernel *k = s->k;
  IrExpr *lane = ir_expr(k, OP_LANE, DT_NONE, NULL, 0);
  IrExpr *half = ir_op2(k, OP_FLOORDIV, lane, low_i32(s, 16)), *two = low_i32(s, 2);
  IrExpr *at = low_mul(s, row, low_i32(s, x->pitch));
  if (!x->swizzled)
    return low_add(s, at, low_mul(s, low_add(s, low_mul(s, pair, two), half), low_i32(s, 16)));
  IrExpr *per = low_i32(s, x->chunks / 2);
  IrExpr *panel = low_mul(s, ir_op2(k, OP_FLOORDIV, pair, per), low_i32(s, x->rows * x->pitch));
  IrExpr *chunk = low_add(s, low_mul(s, ir_op2(k, OP_MOD, pair, per), two), half);
  IrExpr *turn = ir_op2(k, OP_MOD, ir_op2(k, OP_FLOORDIV, lane, low_i32(s, 8 / x->chunks)),
                        low_i32(s, x->chunks));
  chunk = ir_op2(k, OP_XOR, chunk, turn);
  return low_add(s, low_add(s, at, panel), low_mul(s, chunk, low_i32(s, 16)));
}

static IrExpr *load_f32(Simple *s, IrBuffer *b, IrExpr *at) {
  IrAccess a = {.buf = b, .index = {at}};
  return ir_cast(s->k, ir_ref(s->k, low_emit_load(s, "x", a)), DT_F32);
}

/* Pairs of columns as words: n of them, from register `first` on. */
static IrBuffer *pack_pairs(Simple *s, DType t, IrBuffer *from, IrExpr *first, int n) {
  IrBuffer *w = low_registers(s, "pairs", DT_U32, n);
  for (int q = 0; q < n; q++) {
    IrExpr *x = load_f32(s, from, low_add(s, first, low_i32(s, 2 * q)));
    IrExpr *y = load_f32(s, from, low_add(s, first, low_i32(s, 2 * q + 1)));
    IrAccess a = {.buf = w, .index = {low_i32(s, q)}};
    low_emit_store(s, a, ir_op2(s->k, t == DT_BF16 ? OP_PACK_BF16 : OP_PACK_F16, x, y));
  }
  return w;
}

/* One 16-column group, or the last 8 columns. */
static void store_matrices(Simple *s, const Staging *x, const IrCopy *c, IrExpr *row, IrExpr *pair,
                           IrExpr *first, int n) {
  IrBuffer *w = pack_pairs(s, x->tile->dtype, low_place_of(s, c->src.buf)->home, first, n);
  IrExpr *at = low_add(s, hopper_tile_at(s, x->tile), matrix_at(s, x, row, pair));
  hopper_op(s, OP_STMATRIX, 2, (IrOperand[]){hopper_e(at), low_regs(w, low_i32(s, 0), n)});
}

/* The columns of one block of 64 rows of each warpgroup. */
static void stage_block(Simple *s, const Staging *x, const IrCopy *c, IrExpr *row, int64_t base) {
  int64_t columns = sched_extent(x->tile, 1);
  IrStmt *loop;
  if (columns >= 16) {
    IrVar *pair =
        low_emit_for(s, "pair", low_i32(s, 0), low_i32(s, columns / 16), low_i32(s, 1), &loop);
    loop->as.loop.loop = IRF_UNROLL;
    IrBlock *before = low_enter(s, &loop->as.loop.body);
    IrExpr *p = ir_ref(s->k, pair);
    IrExpr *first = low_add(s, low_mul(s, p, low_i32(s, 8)), low_i32(s, base));
    store_matrices(s, x, c, row, p, first, 4);
    low_enter(s, before);
  }
  if (columns % 16)
    store_matrices(s, x, c, row, low_i32(s, columns / 16), low_i32(s, base + columns / 16 * 8), 2);
}

/* Byte offset of a row's element in column 0 of an 8-column group of one-byte elements. */
static IrExpr *group_at(Simple *s, const Staging *x, IrExpr *row, IrExpr *group) {
  IrKernel *k = s->k;
  IrExpr *two = low_i32(s, 2), *at = low_mul(s, row, low_i32(s, x->pitch));
  IrExpr *eight = low_mul(s, ir_op2(k, OP_MOD, group, two), low_i32(s, 8));
  IrExpr *chunk = ir_op2(k, OP_FLOORDIV, group, two);
  if (x->swizzled) {
    IrExpr *chunks = low_i32(s, x->chunks);
    IrExpr *panel =
        low_mul(s, ir_op2(k, OP_FLOORDIV, chunk, chunks), low_i32(s, x->rows * x->pitch));
    IrExpr *turn = ir_op2(k, OP_FLOORDIV, row, low_i32(s, 8 / x->chunks));
    chunk = ir_op2(k, OP_XOR, ir_op2(k, OP_MOD, chunk, chunks), ir_op2(k, OP_MOD, turn, chunks));
    at = low_add(s, at, panel);
  }
  return low_add(s, at, low_add(s, low_mul(s, chunk, low_i32(s, 16)), eight));
}

void hopper_store_pair(Simple *s, const IrCopy *c, IrExpr *at, IrExpr *first, int step) {
  IrBuffer *pair = low_registers(s, "pair", c->dst.buf->dtype, 2);
  for (int i = 0; i < 2; i++) {
    IrAccess from = {.buf = low_place_of(s, c->src.buf)->home,
                     .index = {low_add(s, first, low_i32(s, i * step))}};
    IrExpr *value = ir_ref(s->k, low_emit_load(s, "x", from));
    low_emit_store(s, (IrAccess){.buf = pair, .index = {low_i32(s, i)}},
                   ir_cast(s->k, value, pair->dtype));
  }
  hopper_op(s, OP_ST_SHARED, 2, (IrOperand[]){hopper_e(at), low_regs(pair, low_i32(s, 0), 2)});
}

/* One-byte elements of one block of 64 rows: rows of eight lanes' pairs meet all banks. */
static void stage_bytes(Simple *s, const Staging *x, const IrCopy *c, IrExpr *row, IrExpr *column,
                        int64_t base) {
  IrStmt *loop;
  IrVar *v = low_emit_for(s, "group", low_i32(s, 0), low_i32(s, sched_extent(x->tile, 1) / 8),
                          low_i32(s, 1), &loop);
  loop->as.loop.loop = IRF_UNROLL;
  IrBlock *before = low_enter(s, &loop->as.loop.body);
  for (int i = 0; i < 2; i++) {
    IrExpr *at = group_at(s, x, low_add(s, row, low_i32(s, 8 * i)), ir_ref(s->k, v));
    at = low_add(s, low_add(s, hopper_tile_at(s, x->tile), at), column);
    IrExpr *first =
        low_add(s, low_mul(s, ir_ref(s->k, v), low_i32(s, 4)), low_i32(s, base + 2 * i));
    hopper_store_pair(s, c, at, first, 1);
  }
  low_enter(s, before);
}

/* Of the matrices that a warp stores at once its lanes 0 to 15 address rows, all of pairs four
 * lanes have one. */
static void stage_plain(Simple *s, const IrCopy *c) {
  IrKernel *k = s->k;
  Staging x = staging_of(c->dst.buf);
  const Place *p = low_place_of(s, c->src.buf);
  bool bytes = dtype_size(x.tile->dtype) == 1;
  int64_t blocks = x.rows / ROWS / s->hopper->groups, origin = 0;
  IrExpr *warp = ir_op2(k, OP_FLOORDIV, ir_ref(k, s->tid), low_i32(s, 32));
  IrExpr *lane = ir_expr(k, OP_LANE, DT_NONE, NULL, 0);
  IrExpr *own = bytes ? low_quotient(s, lane, 4) : ir_op2(k, OP_MOD, lane, low_i32(s, 16));
  IrExpr *column = low_mul(s, ir_op2(k, OP_MOD, lane, low_i32(s, 4)), low_i32(s, 2));
  IrExpr *row = low_add(s, low_mul(s, warp, low_i32(s, 16)), own);
  row = ir_ref(k, low_emit_let(s, "row", row));
  ir_is_const(c->src.axis[1].origin, &origin);
  for (int64_t i = 0; i < blocks; i++) {
    IrExpr *at = low_add(s, row, low_i32(s, i * ROWS * s->hopper->groups));
    int64_t base = i * p->extent[1] / 2 + origin / 2;
    if (bytes)
      stage_bytes(s, &x, c, at, column, base);
    else
      stage_block(s, &x, c, at, base);
  }
}

/* ---------------------------------------------------------------- stores */

static void store_box(Simple *s, const IrCopy *c, const Staging *x, const Box *b, IrExpr *panel,
                      IrExpr *row) {
  IrOperand o[2 + IR_MAX_RANK];
  IrExpr *before = low_mul(s, panel, low_i32(s, x->rows * x->pitch));
  IrExpr *at = low_add(s, low_mul(s, row, low_i32(s, x->pitch)),
                       low_add(s, before, low_i32(s, x->tile->offset)));
  o[0] = (IrOperand){.kind = IRO_TMAP, .tmap = map_of(s, c->dst.buf, b)};
  o[1] = hopper_e(at);
  int n = coordinates(s, &c->dst, b, low_mul(s, panel, low_i32(s, b->inner)), row, o + 2);
  hopper_op(s, OP_TMA_STORE, 2 + n, o);
}

/* The rows of each warpgroup, panel by panel. */
static void store_rows(Simple *s, const IrCopy *c, const Staging *x, const Box *b) {
  for (int64_t i = 0; i < x->rows; i += ROWS * s->hopper->groups) {
    IrExpr *row =
        low_add(s, low_mul(s, ir_ref(s->k, s->hopper->group), low_i32(s, ROWS)), low_i32(s, i));
    for (int64_t at = 0; at < sched_extent(x->tile, 1); at += b->inner)
      store_box(s, c, x, b, low_i32(s, at / b->inner), row);
  }
}

/* The panels of each warpgroup, all rows of them. */
static void store_panels(Simple *s, const IrCopy *c, const Staging *x, const Box *b) {
  for (int64_t i = 0; i < sched_extent(x->tile, 1) / b->inner; i += s->hopper->groups) {
    IrExpr *panel = low_add(s, ir_ref(s->k, s->hopper->group), low_i32(s, i));
    store_box(s, c, x, b, panel, low_i32(s, 0));
  }
}

/* By one thread of each warpgroup, behind the barrier that stands before it. */
static void store(Simple *s, const IrCopy *c) {
  Staging x = staging_of(c->src.buf);
  bool turned = s->hopper->turned == TURNED_B;
  Box b = {.unit = lower_fact(s->request, c->dst.buf).unit_axis, .rows = turned ? x.rows : ROWS};
  b.row = other_axis(&c->dst, b.unit);
  b.inner = x.pitch / (int64_t)dtype_size(x.tile->dtype);
  b.swizzle = x.swizzled ? x.pitch : 0;
  IrStmt *st = low_emit_if(s, ir_ref(s->k, s->hopper->first));
  IrBlock *before = low_enter(s, &st->as.if_.then);
  if (turned)
    store_panels(s, c, &x, &b);
  else
    store_rows(s, c, &x, &b);
  hopper_op(s, OP_BULK_COMMIT, 0, NULL);
  low_enter(s, before);
}

/* Registers as a product leaves them: only these are staged. */
static bool is_accumulator(Simple *s, const IrBuffer *b) {
  const Place *p = low_place_of(s, b);
  Frag f;
  return p->frag && p->rank == 2 &&
         frag_accumulator(&f, p->extent[0], p->extent[1], GROUP_WARPS * s->hopper->groups, 1) &&
         frag_equal(&f, p->frag);
}

/* FALSE: its registers lie otherwise. */
static bool stage(Simple *s, const IrCopy *c) {
  if (s->hopper->turned == TURNED_B)
    return hopper_stage_turned(s, c);
  if (!is_accumulator(s, c->src.buf))
    return false;
  stage_plain(s, c);
  return true;
}

bool hopper_copy(Simple *s, IrStmt *st) {
  const IrCopy *c = &st->as.copy;
  if (!s->hopper)
    return false;
  bool staged = c->dst.buf->space == IRS_SHARED && c->src.buf->space == IRS_FRAGMENT &&
                s->owned.v[c->dst.buf->id];
  if (staged && !stage(s, c)) {
    lower_note(s->request, "hopper: `%s` does not lie as products leave it", c->src.buf->name);
    s->failed = true; /* without a diagnostic: the next candidate can */
  }
  if (staged)
    return true;
  if (c->engine != IRE_TMA)
    return false;
  if (c->dst.buf->space == IRS_SHARED)
    load(s, c);
  else
    store(s, c);
  return true;
}
