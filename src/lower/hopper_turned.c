/* hopper_turned.c: operands that lie across, on their way to registers; results on their way back.
 *
 * In: an operand of elements of one byte or four in a swizzled tile, neighbours of M or N side by
 * side; a result that lies as the transpose. Out: registers as wgmma wants its first operand, rows
 * as frag_turned says; staging tiles, two neighbours an access. Four bytes: two
 * neighbours by one access. One byte: ldmatrix turns pairs of bytes, whose rows of K are chosen so
 * that two words have four of K of two neighbours. Always holds: no access of a row of 128 bytes
 * meets a bank twice. Tests: tests/unit/check_schedule.c.
 */
#include "hopper.h"

enum { ROWS = 64, CHUNK = 16, WARP_ROWS = 16 };

typedef struct Turning {
  Simple *s;
  int64_t size, span, rows; /* bytes of an element, of a panel's row; rows of K */
  IrExpr *lane, *warp;      /* i32 */
  IrExpr *base;             /* byte address of the tile */
  IrExpr *pick[2];          /* u32: bytes of two words that are a neighbour's word */
  IrBuffer *words;
} Turning;

static IrExpr *mod(Simple *s, IrExpr *e, int64_t n) {
  return ir_op2(s->k, OP_MOD, e, low_i32(s, n));
}

/* (e // div % n) * by */
static IrExpr *digit(Simple *s, IrExpr *e, int64_t div, int64_t n, int64_t by) {
  return low_mul(s, mod(s, low_quotient(s, e, div), n), low_i32(s, by));
}

/* Byte address of the chunk of 16 bytes in row k, whose panel and number in it are given. */
static IrExpr *chunk_at(const Turning *t, IrExpr *k, IrExpr *panel, IrExpr *chunk) {
  Simple *s = t->s;
  int64_t chunks = t->span / CHUNK;
  IrExpr *turn = digit(s, k, 8 / chunks, chunks, 1);
  IrExpr *at = low_mul(s, ir_op2(s->k, OP_XOR, chunk, turn), low_i32(s, CHUNK));
  at = low_add(s, at, low_mul(s, k, low_i32(s, t->span)));
  at = low_add(s, at, low_mul(s, panel, low_i32(s, t->rows * t->span)));
  return low_add(s, t->base, at);
}

/* First of the operand's rows of the warpgroup's i-th block of 64. */
static IrExpr *first_row(const Turning *t, int64_t i) {
  Simple *s = t->s;
  IrExpr *group = low_mul(s, ir_ref(s->k, s->hopper->group), low_i32(s, ROWS));
  return low_add(s, group, low_i32(s, i * ROWS * s->hopper->groups));
}

/* What is named here is never negative. */
static IrExpr *named(Simple *s, const char *name, IrExpr *e) {
  IrVar *v = low_emit_let(s, name, e);
  v->lo = v->lo < 0 ? 0 : v->lo;
  return ir_ref(s->k, v);
}

/* ---------------------------------------------------------------- bytes */

/* Lanes of the later half of K in a matrix have the later pair of bytes in the first word. */
static void find_picks(Turning *t) {
  Simple *s = t->s;
  static const int64_t early[] = {0x6420, 0x7531}, late[] = {0x2064, 0x3175};
  IrExpr *is_late = ir_op2(s->k, OP_GE, mod(s, t->lane, 4), low_i32(s, 2));
  for (int i = 0; i < 2; i++)
    t->pick[i] = named(s, "pick",
                       ir_op3(s->k, OP_SELECT, is_late, ir_int_of(s->k, DT_U32, late[i]),
                              ir_int_of(s->k, DT_U32, early[i])));
}

/* The row of K that a lane's address names: of the four matrices two have K 0 to 15, two 16 to 31;
 * of each four rows one matrix has the early two or the late two. */
static IrExpr *matrix_row(const Turning *t) {
  Simple *s = t->s;
  IrExpr *other = low_add(s, low_quotient(s, t->lane, 8), low_quotient(s, t->lane, 4));
  IrExpr *k = low_add(s, digit(s, t->lane, 16, 2, 16), digit(s, t->lane, 2, 4, 4));
  k = low_add(s, k, low_mul(s, mod(s, other, 2), low_i32(s, 2)));
  return low_add(s, k, mod(s, t->lane, 2));
}

static IrExpr *bytes_address(const Turning *t, int64_t block) {
  Simple *s = t->s;
  IrExpr *n = low_add(s, first_row(t, block), low_mul(s, t->warp, low_i32(s, WARP_ROWS)));
  IrExpr *k = named(s, "row", matrix_row(t));
  IrExpr *chunk = low_quotient(s, mod(s, n, t->span), CHUNK);
  return named(s, "from", chunk_at(t, k, low_quotient(s, n, t->span), chunk));
}

/* Words of K 0 to 15 and 16 to 31, of the even and of the odd neighbours. */
static void load_bytes(const Turning *t, IrExpr *from, int64_t step, int64_t to) {
  Simple *s = t->s;
  IrExpr *word[4];
  IrBuffer *w = low_registers(s, "w", DT_U32, 4);
  IrExpr *at = low_add(s, from, low_i32(s, step * 32 * t->span));
  hopper_op(s, OP_LDMATRIX_T, 2, (IrOperand[]){low_regs(w, low_i32(s, 0), 4), hopper_e(at)});
  for (int i = 0; i < 4; i++)
    word[i] = ir_ref(s->k, low_emit_load(s, "w", (IrAccess){.buf = w, .index = {low_i32(s, i)}}));
  for (int i = 0; i < 4; i++) {
    IrExpr *e = ir_op3(s->k, OP_PRMT, word[i / 2 * 2], word[i / 2 * 2 + 1], t->pick[i % 2]);
    low_emit_store(s, (IrAccess){.buf = t->words, .index = {low_i32(s, to + i)}}, e);
  }
}

/* ---------------------------------------------------------------- four bytes */

/* Neighbours of a lane in row lane % 4 of K, or four further. Half a warp meets 16 different places
 * of 8 bytes: which rows its lanes stand for is made so. */
static IrExpr *vectors_address(const Turning *t, int64_t block, int64_t further) {
  Simple *s = t->s;
  IrExpr *n = low_add(s, first_row(t, block), digit(s, t->warp, 2, 2, 32));
  IrExpr *chunk = low_add(s, digit(s, t->lane, 8, 2, 4), digit(s, t->lane, 16, 2, 1));
  chunk = low_add(s, chunk, digit(s, t->warp, 1, 2, 2));
  IrExpr *k = low_add(s, mod(s, t->lane, 4), low_i32(s, further));
  IrExpr *at = chunk_at(t, k, low_quotient(s, n, 32), chunk);
  return named(s, "from", low_add(s, at, digit(s, t->lane, 4, 2, 8)));
}

static void load_vector(const Turning *t, IrExpr *from, int64_t step, int64_t to) {
  Simple *s = t->s;
  IrExpr *at = low_add(s, from, low_i32(s, step * 8 * t->span));
  hopper_op(s, OP_LD_SHARED, 2, (IrOperand[]){low_regs(t->words, low_i32(s, to), 2), hopper_e(at)});
}

/* ---------------------------------------------------------------- all of it */

static void load_block(const Turning *t, int64_t block, int64_t steps) {
  IrExpr *from[2];
  if (t->size == 1)
    from[0] = bytes_address(t, block);
  for (int i = 0; i < 2 && t->size == 4; i++)
    from[i] = vectors_address(t, block, 4 * i);
  for (int64_t j = 0; j < steps; j++) {
    int64_t to = (block * steps + j) * 4;
    if (t->size == 1)
      load_bytes(t, from[0], j, to);
    for (int i = 0; i < 2 && t->size == 4; i++)
      load_vector(t, from[i], j, to + 2 * i);
  }
}

IrBuffer *hopper_load_turned(Simple *s, const IrRegion *r, int64_t blocks, int64_t steps) {
  const IrLayout *l = r->buf->layout;
  Turning t = {.s = s, .size = (int64_t)dtype_size(r->buf->dtype), .span = l->amount};
  t.rows = sched_side(r->buf, l->columns ? 1 : 0);
  t.base = hopper_region_at(s, r);
  t.lane = ir_expr(s->k, OP_LANE, DT_NONE, NULL, 0);
  t.warp = mod(s, low_quotient(s, ir_ref(s->k, s->tid), 32), GROUP_WARPS);
  t.words = low_registers(s, "words", DT_U32, blocks * steps * 4);
  if (t.size == 1)
    find_picks(&t);
  for (int64_t i = 0; i < blocks; i++)
    load_block(&t, i, steps);
  return t.words;
}

/* ---------------------------------------------------------------- results */

typedef struct Staged { /* the transpose of a product on its way to a staging tile */
  Simple *s;
  const IrCopy *c;
  int64_t rows, span; /* of the tile; bytes of a panel's row */
  IrExpr *at[2];      /* byte offset of the thread's pair in its row 0 and 1 of a panel */
} Staged;

/* The column, of a warpgroup's 64, of the first of a thread's neighbours, as frag_turned says. */
static IrExpr *own_column(Simple *s, bool wide) {
  IrExpr *sum = low_i32(s, 0);
  for (int i = 0; i < 5; i++)
    sum = low_add(s, sum, digit(s, ir_ref(s->k, s->tid), 4L << i, 2, frag_turned_step(i, wide)));
  return named(s, "col", sum);
}

static void find_places(Staged *x, bool wide) {
  Simple *s = x->s;
  int64_t size = (int64_t)dtype_size(x->c->dst.buf->dtype), chunks = x->span / CHUNK;
  IrExpr *byte = low_mul(s, own_column(s, wide), low_i32(s, size));
  IrExpr *two = low_mul(s, mod(s, ir_ref(s->k, s->tid), 4), low_i32(s, 2));
  for (int i = 0; i < 2; i++) {
    IrExpr *row = low_add(s, two, low_i32(s, i));
    IrExpr *turn = digit(s, row, 8 / chunks, chunks, 1);
    IrExpr *chunk = ir_op2(s->k, OP_XOR, low_quotient(s, byte, CHUNK), turn);
    IrExpr *at =
        low_add(s, low_mul(s, row, low_i32(s, x->span)), low_mul(s, chunk, low_i32(s, CHUNK)));
    x->at[i] = low_add(s, at, mod(s, byte, CHUNK));
  }
}

/* The i-th of a warpgroup's panels. */
static void stage_panel(const Staged *x, int64_t i) {
  Simple *s = x->s;
  IrExpr *panel = low_add(s, ir_ref(s->k, s->hopper->group), low_i32(s, i * s->hopper->groups));
  IrExpr *base = low_add(s, hopper_tile_at(s, x->c->dst.buf),
                         low_mul(s, panel, low_i32(s, x->rows * x->span)));
  for (int e = 0; e < 2; e++) {
    IrExpr *to = named(s, "to", low_add(s, base, x->at[e]));
    for (int64_t row = 0; row < x->rows; row += 8)
      hopper_store_pair(s, x->c, low_add(s, to, low_i32(s, row * x->span)),
                        low_i32(s, (i * x->rows + row) / 2 + e), 2);
  }
}

bool hopper_stage_turned(Simple *s, const IrCopy *c) {
  const Frag *f = low_place_of(s, c->src.buf)->frag;
  Staged x = {.s = s, .c = c, .rows = sched_extent(c->dst.buf, 0)};
  int64_t columns = sched_extent(c->dst.buf, 1);
  Frag g;
  bool wide = true, is = false;
  for (int i = 0; f && i < 2 && !is; i++) {
    wide = i == 0;
    is = frag_turned(&g, x.rows, columns, 1, s->hopper->groups, wide) && frag_equal(f, &g);
  }
  if (!is)
    return false;
  x.span = c->dst.buf->layout->amount;
  find_places(&x, wide);
  for (int64_t i = 0; i < columns / TURNED_COLUMNS / s->hopper->groups; i++)
    stage_panel(&x, i);
  return true;
}
