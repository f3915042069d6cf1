/* expand_dot.c: products by the tensor cores of each warp (mma.sync m16n8k16).
 *
 * In: DOT of f16 or bf16 into an f32 fragment; operands in shared memory, the first one also in
 * registers. Out: for each 16 of K the warp's operands by ldmatrix, then its products; K ascends,
 * so that the bits are those of the plain product. Always holds: the warps of a block share out the
 * result as frag_accumulator says, whole rows to a warp where rows are reduced or go on as an
 * operand. Tests: tests/unit/check_lower.c.
 */
#include "expand.h"

enum { STEP = 16, ROWS = 16, COLUMNS = 8 };

/* ---------------------------------------------------------------- which products */

/* The operand's memory has 16 bytes next to each other where ldmatrix wants them. */
static bool operand_ok(Simple *s, const IrRegion *r) {
  const Place *p = low_place_of(s, r->buf);
  if (ir_region_rank(r) != 2 || !p->tile || p->map || p->pad % 8 || r->buf->space == IRS_LOCAL)
    return false;
  for (int d = 0; d < r->buf->rank; d++) {
    const IrAxis *x = &r->axis[d];
    int64_t lo, hi;
    bool last = d == r->buf->rank - 1;
    if (x->stop || x->step != 1 || (last && !x->keep) || !ir_range(x->origin, &lo, &hi) || lo < 0 ||
        hi + x->extent > p->extent[d])
      return false;
    if (last && (expand_divisor(s, x->origin) % 8 || p->extent[d] % 8))
      return false;
  }
  return true;
}

bool expand_is_mma(Simple *s, const IrDot *d) {
  DType t = d->a.buf->dtype;
  int64_t m = ir_region_extent(&d->c, 0), n = ir_region_extent(&d->c, 1);
  int64_t k = ir_region_extent(&d->a, 1);
  return s->target->arch >= ARCH_SM80 && d->unit != IRU_FMA && (t == DT_F16 || t == DT_BF16) &&
         d->b.buf->dtype == t && d->c.buf->dtype == DT_F32 && d->c.buf->space == IRS_FRAGMENT &&
         expand_whole(s, &d->c) && d->c.buf->rank == 2 && m > 0 && n > 0 && k > 0 &&
         m % ROWS == 0 && n % COLUMNS == 0 && k % STEP == 0 && d->c.buf != d->a.buf &&
         d->c.buf != d->b.buf && operand_ok(s, &d->a) && operand_ok(s, &d->b);
}

/* Rows of the result stay in a warp where something goes along them. */
static bool goes_along(IrStmt *st, void *ctx) {
  bool *rows = ctx;
  if (st->kind == IRK_DOT)
    *rows |= st->as.dot.a.buf->space == IRS_FRAGMENT || st->as.dot.policy == IRG_ROWS;
  if (st->kind == IRK_REDUCE && st->as.reduce.src.buf->space == IRS_FRAGMENT)
    *rows |= st->as.reduce.axis == 1 && ir_region_rank(&st->as.reduce.src) == 2;
  return true;
}

bool expand_keeps_rows(IrKernel *k) {
  bool rows = false;
  ir_walk(&k->body, goes_along, &rows);
  return rows;
}

/* Rows and columns of warps: the shape that loads the least; false where none fits. */
static bool split_warps(Simple *s, const IrDot *d, int *rows, int *columns) {
  int64_t m = ir_region_extent(&d->c, 0), n = ir_region_extent(&d->c, 1), best = -1;
  int warps = s->threads / 32;
  if (!s->rows_known) /* once, while fragments are still named so */
    s->whole_rows = expand_keeps_rows(s->k);
  s->rows_known = true;
  for (int r = 1; r <= warps; r++) {
    int c = warps / r;
    if (r * c != warps || m % (ROWS * r) || n % (COLUMNS * c) || (s->whole_rows && c > 1) ||
        (d->policy == IRG_COLUMNS && r > 1))
      continue;
    int64_t cost = m / r + n / c + ((n / c) % 16 ? 8 : 0);
    if (best < 0 || cost < best) {
      best = cost;
      *rows = r;
      *columns = c;
    }
  }
  return best >= 0;
}

bool expand_dot_frag(Simple *s, const IrDot *d, Frag *f) {
  int rows, columns;
  return split_warps(s, d, &rows, &columns) &&
         frag_accumulator(f, ir_region_extent(&d->c, 0), ir_region_extent(&d->c, 1), rows, columns);
}

/* ---------------------------------------------------------------- operands */

typedef struct Mma {
  Simple *s;
  const IrDot *d;
  int rows, columns;          /* of warps */
  int64_t mg, ng, kg;         /* blocks of 16 rows, of 8 columns of a warp; steps of K */
  IrExpr *lane, *row0, *col0; /* i32: the lane; where the warp's part of the result begins */
  IrBuffer *a, *b;            /* words of one step */
} Mma;

static IrOperand regs(IrBuffer *b, IrExpr *first, int n) {
  return (IrOperand){.kind = IRO_REGS, .buf = b, .expr = first, .count = n};
}

static IrBuffer *words(Simple *s, const char *name, int64_t n) {
  IrExpr *extent = low_i64(s, n);
  IrBuffer *b = ir_buffer(s->k, IRS_REG, name, DT_U32, 1, &extent);
  low_emit(s, IRK_ALLOC)->as.alloc = b;
  return b;
}

/* Loop over unrolled rounds, entered. */
static IrExpr *unrolled(Simple *s, const char *name, int64_t n, int64_t by) {
  IrStmt *loop;
  if (n <= by)
    return low_i32(s, 0);
  IrVar *v = low_emit_for(s, name, low_i32(s, 0), low_i32(s, n), low_i32(s, by), &loop);
  loop->as.loop.loop = IRF_UNROLL;
  v->hi = n - by;
  low_enter(s, &loop->as.loop.body);
  return ir_ref(s->k, v);
}

/* Whether neighbours along the second axis of the operand, as the product sees it, are neighbours
 * in memory. */
static bool along_second(Simple *s, const IrRegion *r) {
  return r->trans == low_place_of(s, r->buf)->columns;
}

/* `count` matrices of 8x8 from the element (i, j) of the operand, which is this lane's row. */
static void ldmatrix(Mma *m, const IrRegion *r, bool transpose, IrOperand to, IrExpr *i,
                     IrExpr *j) {
  Simple *s = m->s;
  IrExpr *index[] = {ir_cast(s->k, i, DT_I64), ir_cast(s->k, j, DT_I64)}, *at[IR_MAX_RANK];
  IrOperand *o = ARENA_ARRAY(s->k->arena, IrOperand, 2);
  low_region_index(s, r, index, at);
  o[0] = to;
  o[1] = (IrOperand){.kind = IRO_EXPR, .expr = expand_shared_address(s, r->buf, at)};
  low_emit(s, IRK_OP)->as.op = (IrOp){transpose ? OP_LDMATRIX_T : OP_LDMATRIX, o, 2};
}

static IrExpr *part(Simple *s, IrExpr *lane, int64_t div, int64_t mod, int64_t step) {
  IrExpr *e = low_quotient(s, lane, div);
  if (div * mod < 32)
    e = ir_op2(s->k, OP_MOD, e, low_i32(s, mod));
  return low_mul(s, e, low_i32(s, step));
}

/* 16 rows from row0 + g, K from k on: the four matrices are rows, rows + 8, then K + 8. */
static void load_a(Mma *m, IrExpr *g, IrExpr *k) {
  Simple *s = m->s;
  IrExpr *row = low_add(s, m->row0, low_mul(s, g, low_i32(s, ROWS * m->rows)));
  bool straight = along_second(s, &m->d->a);
  IrExpr *i = straight ? part(s, m->lane, 1, 16, 1) : part(s, m->lane, 8, 2, 8);
  IrExpr *j = straight ? part(s, m->lane, 16, 2, 8)
                       : low_add(s, part(s, m->lane, 1, 8, 1), part(s, m->lane, 16, 2, 8));
  ldmatrix(m, &m->d->a, !straight, regs(m->a, low_mul(s, g, low_i32(s, 4)), 4), low_add(s, row, i),
           low_add(s, k, j));
}

/* K from k on, `count`/2 blocks of 8 columns from the g-th on. */
static void load_b(Mma *m, IrExpr *g, IrExpr *k, int count) {
  Simple *s = m->s;
  IrExpr *col = low_add(s, m->col0, low_mul(s, g, low_i32(s, COLUMNS)));
  bool straight = along_second(s, &m->d->b);
  IrExpr *i = straight ? part(s, m->lane, 1, 16, 1) : part(s, m->lane, 8, 2, 8);
  IrExpr *j = straight ? part(s, m->lane, 16, 2, 8)
                       : low_add(s, part(s, m->lane, 1, 8, 1), part(s, m->lane, 16, 2, 8));
  if (count == 2) /* lanes above 15 give no addresses, but may not leave the tile */
    j = straight ? low_i32(s, 0) : part(s, m->lane, 1, 8, 1);
  ldmatrix(m, &m->d->b, straight, regs(m->b, low_mul(s, g, low_i32(s, 2)), count), low_add(s, k, i),
           low_add(s, col, j));
}

/* The operand in registers has the accumulator's layout: two blocks of 8 columns are one step. */
static void pack_a(Mma *m, IrExpr *g, IrExpr *step) {
  Simple *s = m->s;
  IrBuffer *x = low_place_of(s, m->d->a.buf)->home;
  OpCode pack = m->d->a.buf->dtype == DT_F16 ? OP_PACK_F16 : OP_PACK_BF16;
  int64_t blocks = ir_region_extent(&m->d->a, 1) / COLUMNS;
  IrExpr *from = low_add(s, low_mul(s, g, low_i32(s, 4 * blocks)), low_mul(s, step, low_i32(s, 8)));
  for (int64_t w = 0; w < 4; w++) {
    IrExpr *v[2];
    for (int64_t e = 0; e < 2; e++) {
      IrAccess at = {.buf = x, .index = {low_add(s, from, low_i32(s, 2 * w + e))}};
      v[e] = ir_cast(s->k, ir_ref(s->k, low_emit_load(s, "x", at)), DT_F32);
    }
    IrAccess to = {.buf = m->a, .index = {low_add(s, low_mul(s, g, low_i32(s, 4)), low_i32(s, w))}};
    low_emit_store(s, to, ir_op2(s->k, pack, v[0], v[1]));
  }
}

/* ---------------------------------------------------------------- products */

static void load_step(Mma *m, IrExpr *step) {
  Simple *s = m->s;
  IrExpr *k = low_mul(s, step, low_i32(s, STEP));
  bool packed = low_place_of(s, m->d->a.buf)->frag;
  IrBlock *before = s->out;
  IrExpr *g = unrolled(s, "g", m->mg, 1);
  if (packed)
    pack_a(m, g, step);
  else
    load_a(m, g, k);
  low_enter(s, before);
  int pair = m->ng % 2 ? 1 : 2;
  g = unrolled(s, "g", m->ng, pair);
  load_b(m, g, k, 2 * pair);
  low_enter(s, before);
}

static void multiply(Mma *m) {
  Simple *s = m->s;
  IrBlock *before = s->out;
  IrExpr *g = unrolled(s, "g", m->mg, 1), *h = unrolled(s, "h", m->ng, 1);
  IrOperand *o = ARENA_ARRAY(s->k->arena, IrOperand, 4);
  IrExpr *c = low_add(s, low_mul(s, g, low_i32(s, 4 * m->ng)), low_mul(s, h, low_i32(s, 4)));
  o[0] = regs(low_place_of(s, m->d->c.buf)->home, c, 4);
  o[1] = regs(m->a, low_mul(s, g, low_i32(s, 4)), 4);
  o[2] = regs(m->b, low_mul(s, h, low_i32(s, 2)), 2);
  o[3] = (IrOperand){.kind = IRO_DTYPE, .dtype = m->d->a.buf->dtype};
  low_emit(s, IRK_OP)->as.op = (IrOp){OP_MMA_SYNC, o, 4};
  low_enter(s, before);
}

/* `=`: the sum starts from zero. */
static void clear(Mma *m) {
  Simple *s = m->s;
  IrBlock *before = s->out;
  IrExpr *r = unrolled(s, "r", 4 * m->mg * m->ng, 1);
  low_emit_store(s, (IrAccess){.buf = low_place_of(s, m->d->c.buf)->home, .index = {r}},
                 ir_float(s->k, DT_F32, 0));
  low_enter(s, before);
}

static void place_warp(Mma *m) {
  Simple *s = m->s;
  IrExpr *t = ir_ref(s->k, s->tid);
  IrExpr *warp = ir_ref(s->k, low_emit_let(s, "warp", low_quotient(s, t, 32)));
  m->lane = ir_ref(s->k, low_emit_let(s, "lane", ir_op2(s->k, OP_MOD, t, low_i32(s, 32))));
  IrExpr *row = m->columns > 1 ? ir_op2(s->k, OP_MOD, warp, low_i32(s, m->rows)) : warp;
  m->row0 = low_mul(s, row, low_i32(s, ROWS));
  m->col0 = m->columns > 1 ? low_mul(s, low_quotient(s, warp, m->rows), low_i32(s, m->ng * COLUMNS))
                           : low_i32(s, 0);
}

bool expand_dot(Simple *s, IrStmt *st) {
  const IrDot *d = &st->as.dot;
  Mma m = {.s = s, .d = d};
  const Place *a = low_place_of(s, d->a.buf), *b = low_place_of(s, d->b.buf);
  if (!low_place_of(s, d->c.buf)->frag || !split_warps(s, d, &m.rows, &m.columns))
    return false;
  if (!a->frag)
    low_note_buffer(s, d->a.buf, IR_READS);
  if (!b->frag)
    low_note_buffer(s, d->b.buf, IR_READS);
  low_fence(s);
  m.mg = ir_region_extent(&d->c, 0) / (ROWS * m.rows);
  m.ng = ir_region_extent(&d->c, 1) / (COLUMNS * m.columns);
  m.kg = ir_region_extent(&d->a, 1) / STEP;
  place_warp(&m);
  if (!d->accumulate)
    clear(&m);
  IrBlock *before = s->out;
  IrExpr *step = unrolled(s, "step", m.kg, 1);
  m.a = words(s, "a", 4 * m.mg);
  m.b = words(s, "b", 2 * m.ng);
  load_step(&m, step);
  multiply(&m);
  low_enter(s, before);
  return true;
}
