/* expand_operand.c: operands of mma.sync, from shared memory and from fragments.
 *
 * In: a step of K of a warp's product. Out: registers as the instruction wants them: by ldmatrix,
 * which takes 16 bytes along K of any dtype, and 16-bit elements also across; others across by
 * pairs of neighbours, where the result's layout has them so; else element by element. Always
 * holds: element e of register j is at K = each (lane % 4) + 4 each j/2 + e of A (j of B), at row
 * lane / 4 + 8 (j % 2) (column lane / 4), of pairs at row 2 (lane / 4) + j % 2. Tests:
 * tests/unit/check_lower.c.
 */
#include "expand_dot.h"
#include "expand_side.h"

static int64_t size_of(const IrRegion *r) {
  return (int64_t)dtype_size(r->buf->dtype);
}

/* Whether neighbours along the second axis of the operand, as the product sees it, are neighbours
 * in memory. */
static bool along_second(Simple *s, const IrRegion *r) {
  return r->trans == low_place_of(s, r->buf)->columns;
}

/* Rows of 16 bytes begin where 16 bytes do. */
static bool is_aligned(Simple *s, const IrRegion *r) {
  const Place *p = low_place_of(s, r->buf);
  int64_t each = 16 / size_of(r);
  int last = p->columns ? p->rank - 2 : p->rank - 1;
  return !p->map && p->pad % each == 0 && r->axis[last].keep && p->extent[last] % each == 0 &&
         expand_divisor(s, r->axis[last].origin) % each == 0;
}

bool mma_by_matrix(Simple *s, const MmaKind *kind, const IrRegion *r, bool first) {
  bool along_k = along_second(s, r) == first;
  return !kind->converted && size_of(r) <= 4 && is_aligned(s, r) && (along_k || size_of(r) == 2);
}

/* ---------------------------------------------------------------- by ldmatrix */

/* `count` matrices of 8 rows of 16 bytes from the element (i, j) of the operand, which is this
 * lane's row. */
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

/* (lane // div % mod) * step */
static IrExpr *part(Simple *s, IrExpr *lane, int64_t div, int64_t mod, int64_t step) {
  IrExpr *e = low_quotient(s, lane, div);
  if (div * mod < 32)
    e = ir_op2(s->k, OP_MOD, e, low_i32(s, mod));
  return low_mul(s, e, low_i32(s, step));
}

/* K of a lane's first element of register j. */
static IrExpr *lane_k(Mma *m, IrExpr *k, int64_t j) {
  Simple *s = m->s;
  IrExpr *at = low_add(s, k, part(s, m->lane, 1, 4, m->kind.each));
  return low_add(s, at, low_i32(s, 4 * m->kind.each * j));
}

static IrBuffer *words_of(Mma *m, int64_t n) {
  return low_registers(m->s, "w", DT_U32, n);
}

/* 16 rows, K from k on: the four matrices are rows, rows + 8, then 16 bytes further. */
static void matrices_a(Mma *m, IrOperand to, IrExpr *row, IrExpr *k) {
  Simple *s = m->s;
  int64_t far = 16 / size_of(&m->d->a);
  bool straight = along_second(s, &m->d->a);
  IrExpr *i = straight ? part(s, m->lane, 1, 16, 1) : part(s, m->lane, 8, 2, 8);
  IrExpr *j = straight ? part(s, m->lane, 16, 2, far)
                       : low_add(s, part(s, m->lane, 1, 8, 1), part(s, m->lane, 16, 2, 8));
  ldmatrix(m, &m->d->a, !straight, to, low_add(s, row, i), low_add(s, k, j));
}

/* K from k on, to.count / 2 blocks of 8 columns. */
static void matrices_b(Mma *m, IrOperand to, IrExpr *col, IrExpr *k) {
  Simple *s = m->s;
  int64_t far = 16 / size_of(&m->d->b);
  bool straight = along_second(s, &m->d->b);
  IrExpr *i = straight ? part(s, m->lane, 1, 16, 1) : part(s, m->lane, 8, 2, far);
  IrExpr *j = straight ? part(s, m->lane, 16, 2, 8)
                       : low_add(s, part(s, m->lane, 1, 8, 1), part(s, m->lane, 16, 2, 8));
  if (to.count == 2) /* lanes above 15 give no addresses, but may not leave the tile */
    j = straight ? low_i32(s, 0) : part(s, m->lane, 1, 8, 1);
  ldmatrix(m, &m->d->b, straight, to, low_add(s, k, i), low_add(s, col, j));
}

/* ---------------------------------------------------------------- by pairs */

/* Of f32 the registers of a block of columns are neighbours along K: pairs would only be moved. */
bool mma_by_pairs(Simple *s, const MmaKind *kind, const IrRegion *r, bool first) {
  int64_t size = size_of(r);
  return !kind->converted && (size == 1 || size == 8 || (size == 4 && first)) && is_aligned(s, r) &&
         along_second(s, r) != first;
}

/* Lanes of the later half of K in a matrix have the later pair of bytes in the first word. */
void mma_prepare(Mma *m) {
  Simple *s = m->s;
  static const int64_t early[] = {0x6420, 0x7531}, late[] = {0x2064, 0x3175};
  if (!(m->pairs.rows && size_of(&m->d->a) == 1) && !(m->pairs.columns && size_of(&m->d->b) == 1))
    return;
  IrExpr *is_late =
      ir_op2(s->k, OP_GE, ir_op2(s->k, OP_MOD, m->lane, low_i32(s, 4)), low_i32(s, 2));
  for (int i = 0; i < 2; i++) {
    IrExpr *e = ir_op3(s->k, OP_SELECT, is_late, ir_int_of(s->k, DT_U32, late[i]),
                       ir_int_of(s->k, DT_U32, early[i]));
    m->pick[i] = ir_ref(s->k, low_emit_let(s, "pick", e));
  }
}

/* A transposed matrix gives a lane two bytes next to each other, of two rows of K. The rows are
 * chosen so that two matrices have a word of both neighbours, and eight rows of one meet no bank
 * twice: the early or the late two of each four, of rows 0 to 15. */
static IrExpr *lane_row(Mma *m) {
  Simple *s = m->s;
  IrExpr *other = low_add(s, low_quotient(s, m->lane, 8), low_quotient(s, m->lane, 4));
  other = low_mul(s, ir_op2(s->k, OP_MOD, other, low_i32(s, 2)), low_i32(s, 2));
  IrExpr *row = low_add(s, part(s, m->lane, 16, 2, 16), part(s, m->lane, 2, 4, 4));
  return low_add(s, low_add(s, row, other), part(s, m->lane, 1, 2, 1));
}

/* K from k on, 16 rows of A or columns of B from `base` on: words of K 0 to 15 and 16 to 31, of the
 * first neighbours and of the second, in the order in which the instruction has them. */
static void bytes_across(Mma *m, bool first, IrBuffer *to, IrExpr *at, IrExpr *base, IrExpr *k) {
  Simple *s = m->s;
  IrBuffer *w = words_of(m, 4);
  IrExpr *row = low_add(s, k, lane_row(m)), *word[4];
  ldmatrix(m, first ? &m->d->a : &m->d->b, true, low_regs(w, low_i32(s, 0), 4), first ? base : row,
           first ? row : base);
  for (int i = 0; i < 4; i++)
    word[i] = ir_ref(s->k, low_emit_load(s, "w", (IrAccess){.buf = w, .index = {low_i32(s, i)}}));
  for (int i = 0; i < 4; i++) {
    int half = first ? i / 2 : i % 2, pair = first ? i % 2 : i / 2;
    IrExpr *e = ir_op3(s->k, OP_PRMT, word[2 * half], word[2 * half + 1], m->pick[pair]);
    low_emit_store(s, (IrAccess){.buf = to, .index = {low_add(s, at, low_i32(s, i))}}, e);
  }
}

/* The same of elements of 4 or 8 bytes: both neighbours by one access. */
static void vectors_across(Mma *m, bool first, IrExpr *at, IrExpr *base, IrExpr *k) {
  Simple *s = m->s;
  const IrRegion *r = first ? &m->d->a : &m->d->b;
  IrBuffer *regs = first ? m->a : m->b;
  IrExpr *i = low_add(s, base, part(s, m->lane, 4, 8, 2));
  for (int64_t j = 0; j < m->kind.nb; j++) {
    IrExpr *row = ir_cast(s->k, lane_k(m, k, j), DT_I64), *x = ir_cast(s->k, i, DT_I64);
    IrExpr *index[] = {first ? x : row, first ? row : x}, *place[IR_MAX_RANK];
    low_region_index(s, r, index, place);
    side_move(s, true, r->buf, place, low_regs(regs, low_add(s, at, low_i32(s, 2 * j)), 2));
  }
}

/* ---------------------------------------------------------------- by elements */

static IrExpr *element(Mma *m, const IrRegion *r, IrExpr *i, IrExpr *j) {
  Simple *s = m->s;
  IrExpr *index[] = {ir_cast(s->k, i, DT_I64), ir_cast(s->k, j, DT_I64)};
  return ir_ref(s->k, low_load_region(s, "x", r, index));
}

/* Neighbours along K in one register: two as halves, four as bytes. */
static IrExpr *word(Mma *m, IrExpr *const *v) {
  IrKernel *k = m->s->k;
  IrExpr *sum = NULL;
  if (m->kind.type == DT_F64)
    return v[0];
  if (m->kind.each == 1)
    return ir_expr(k, OP_BITCAST, DT_U32, v, 1);
  if (m->kind.each == 2)
    return ir_op2(k, m->kind.type == DT_F16 ? OP_PACK_F16 : OP_PACK_BF16, ir_cast(k, v[0], DT_F32),
                  ir_cast(k, v[1], DT_F32));
  for (int e = 0; e < 4; e++) {
    IrExpr *byte = ir_op2(k, OP_AND, ir_cast(k, v[e], DT_I32), low_i32(m->s, 255));
    byte = ir_op2(k, OP_SHL, ir_cast(k, byte, DT_U32), ir_int_of(k, DT_U32, 8 * e));
    sum = sum ? ir_op2(k, OP_OR, sum, byte) : byte;
  }
  return sum;
}

/* Register `at` of the operand: `each` elements from K = k on, at one row of A or column of B. */
static void by_elements(Mma *m, bool first, IrBuffer *to, IrExpr *at, IrExpr *across, IrExpr *k) {
  Simple *s = m->s;
  IrExpr *v[4];
  for (int e = 0; e < m->kind.each; e++) {
    IrExpr *j = low_add(s, k, low_i32(s, e));
    v[e] = first ? element(m, &m->d->a, across, j) : element(m, &m->d->b, j, across);
  }
  low_emit_store(s, (IrAccess){.buf = to, .index = {at}}, word(m, v));
}

static void elements_a(Mma *m, IrExpr *at, IrExpr *row, IrExpr *k) {
  Simple *s = m->s;
  IrExpr *across = low_add(s, row, low_quotient(s, m->lane, 4));
  for (int64_t j = 0; j < m->kind.na; j++)
    by_elements(m, true, m->a, low_add(s, at, low_i32(s, j)),
                low_add(s, across, low_i32(s, 8 * (j % 2))), lane_k(m, k, j / 2));
}

static void elements_b(Mma *m, IrExpr *at, IrExpr *col, IrExpr *k) {
  Simple *s = m->s;
  IrExpr *across = low_add(s, col, low_quotient(s, m->lane, 4));
  for (int64_t j = 0; j < m->kind.nb; j++)
    by_elements(m, false, m->b, low_add(s, at, low_i32(s, j)), across, lane_k(m, k, j));
}

/* ---------------------------------------------------------------- f8 as f16, by words */

static IrExpr *masked(IrKernel *k, IrExpr *e, int64_t mask) {
  return ir_op2(k, OP_AND, e, ir_int_of(k, DT_U32, mask));
}

static IrExpr *shifted(IrKernel *k, OpCode op, IrExpr *e, int64_t by) {
  return ir_op2(k, op, e, ir_int_of(k, DT_U32, by));
}

/* The low two bytes as the halves of a word: e5m2 is f16's upper byte; e4m3's exponent and fraction
 * are f16's with three bits fewer, 2^8 too small; its NaN gets f16's exponent. */
static IrExpr *halves(IrKernel *k, DType t, IrExpr *w) {
  IrExpr *low = masked(k, w, 0xFF), *high = shifted(k, OP_SHL, masked(k, w, 0xFF00), 8);
  IrExpr *pair = ir_op2(k, OP_OR, low, high);
  if (t == DT_F8E5M2)
    return shifted(k, OP_SHL, pair, 8);
  IrExpr *size = masked(k, pair, 0x7F007F), *sign = masked(k, pair, 0x800080);
  IrExpr *nan = masked(k, ir_op2(k, OP_ADD, size, ir_int_of(k, DT_U32, 0x10001)), 0x800080);
  nan = ir_op2(k, OP_MUL, shifted(k, OP_SHR, nan, 7), ir_int_of(k, DT_U32, 0x7C00));
  IrExpr *value = ir_op2(k, OP_OR, shifted(k, OP_SHL, sign, 8), shifted(k, OP_SHL, size, 7));
  return ir_op2(k, OP_OR, value, nan);
}

/* Word `from` of four f8 to two registers of f16, `apart` from each other. */
static void widen(Mma *m, DType t, IrBuffer *words, int64_t from, IrBuffer *to, IrExpr *at,
                  int64_t apart) {
  Simple *s = m->s;
  IrVar *w = low_emit_load(s, "w", (IrAccess){.buf = words, .index = {low_i32(s, from)}});
  IrExpr *word = ir_ref(s->k, w);
  low_emit_store(s, (IrAccess){.buf = to, .index = {at}}, halves(s->k, t, word));
  low_emit_store(s, (IrAccess){.buf = to, .index = {low_add(s, at, low_i32(s, apart))}},
                 halves(s->k, t, shifted(s->k, OP_SHR, word, 16)));
}

/* Four words of A: K of a thread's word is that of its two registers, in A as in B. */
static void words_a(Mma *m, IrExpr *at, IrExpr *row, IrExpr *k) {
  IrBuffer *w = words_of(m, 4);
  if (m->pairs.rows)
    bytes_across(m, true, w, low_i32(m->s, 0), row, k);
  else
    matrices_a(m, low_regs(w, low_i32(m->s, 0), 4), row, k);
  for (int64_t i = 0; i < 4; i++)
    widen(m, m->d->a.buf->dtype, w, i, m->a, low_add(m->s, at, low_i32(m->s, i / 2 * 4 + i % 2)),
          2);
}

static void words_b(Mma *m, IrExpr *at, IrExpr *col, IrExpr *k, int pair) {
  IrBuffer *w = words_of(m, 2 * pair);
  if (m->pairs.columns)
    bytes_across(m, false, w, low_i32(m->s, 0), col, k);
  else
    matrices_b(m, low_regs(w, low_i32(m->s, 0), 2 * pair), col, k);
  for (int64_t i = 0; i < 2 * pair; i++)
    widen(m, m->d->b.buf->dtype, w, i, m->b, low_add(m->s, at, low_i32(m->s, 2 * i)), 1);
}

/* ---------------------------------------------------------------- from a fragment */

/* The operand in registers has the accumulator's layout: two blocks of 8 columns are one step. */
static void pack_a(Mma *m, IrExpr *at, IrExpr *g, IrExpr *step) {
  Simple *s = m->s;
  IrBuffer *x = low_place_of(s, m->d->a.buf)->home;
  OpCode pack = m->d->a.buf->dtype == DT_F16 ? OP_PACK_F16 : OP_PACK_BF16;
  int64_t blocks = ir_region_extent(&m->d->a, 1) / MMA_COLUMNS;
  IrExpr *from = low_add(s, low_mul(s, g, low_i32(s, 4 * blocks)), low_mul(s, step, low_i32(s, 8)));
  for (int64_t w = 0; w < 4; w++) {
    IrExpr *v[2];
    for (int64_t e = 0; e < 2; e++) {
      IrAccess a = {.buf = x, .index = {low_add(s, from, low_i32(s, 2 * w + e))}};
      v[e] = ir_cast(s->k, ir_ref(s->k, low_emit_load(s, "x", a)), DT_F32);
    }
    IrAccess to = {.buf = m->a, .index = {low_add(s, at, low_i32(s, w))}};
    low_emit_store(s, to, ir_op2(s->k, pack, v[0], v[1]));
  }
}

/* ---------------------------------------------------------------- a step */

static void load_a(Mma *m, IrExpr *step, IrExpr *k) {
  Simple *s = m->s;
  IrBlock *before = s->out;
  IrExpr *g = mma_unrolled(s, "g", m->mg, 1);
  IrExpr *row = low_add(s, m->row0, low_mul(s, g, low_i32(s, MMA_ROWS * m->rows)));
  IrExpr *at = low_add(s, low_mul(s, step, low_i32(s, m->kind.na * m->mg)),
                       low_mul(s, g, low_i32(s, m->kind.na)));
  if (low_place_of(s, m->d->a.buf)->frag)
    pack_a(m, at, g, step);
  else if (m->kind.by_words)
    words_a(m, at, row, k);
  else if (m->pairs.rows && size_of(&m->d->a) == 1)
    bytes_across(m, true, m->a, at, row, k);
  else if (m->pairs.rows)
    vectors_across(m, true, at, row, k);
  else if (mma_by_matrix(s, &m->kind, &m->d->a, true))
    matrices_a(m, low_regs(m->a, at, 4), row, k);
  else
    elements_a(m, at, row, k);
  low_enter(s, before);
}

static void load_b(Mma *m, IrExpr *step, IrExpr *k) {
  Simple *s = m->s;
  IrBlock *before = s->out;
  bool matrix = mma_by_matrix(s, &m->kind, &m->d->b, false);
  int pair = m->pairs.columns || (matrix && m->ng % 2 == 0) ? 2 : 1;
  IrExpr *g = mma_unrolled(s, "g", m->ng, pair);
  IrExpr *col = low_add(s, m->col0, low_mul(s, g, low_i32(s, MMA_COLUMNS)));
  IrExpr *at = low_add(s, low_mul(s, step, low_i32(s, m->kind.nb * m->ng)),
                       low_mul(s, g, low_i32(s, m->kind.nb)));
  if (m->kind.by_words)
    words_b(m, at, col, k, pair);
  else if (m->pairs.columns && size_of(&m->d->b) == 1)
    bytes_across(m, false, m->b, at, col, k);
  else if (m->pairs.columns)
    vectors_across(m, false, at, col, k);
  else if (matrix)
    matrices_b(m, low_regs(m->b, at, 2 * pair), col, k);
  else
    elements_b(m, at, col, k);
  low_enter(s, before);
}

void mma_load(Mma *m, IrExpr *step) {
  IrExpr *k = low_mul(m->s, step, low_i32(m->s, m->kind.step));
  load_a(m, step, k);
  load_b(m, step, k);
}
