/* expand_dot.c: products by the tensor cores of each warp (mma.sync).
 *
 * In: DOT into a fragment of what the product adds up in: f16, bf16, 8-bit integers, f8, f64, and
 * f32 where tf32 is asked for; operands in shared memory, 16-bit first ones also in registers. Out:
 * for each step of K the warp's operands, then its products, the next step's operands on their way
 * before; K ascends, so that the bits are those of the plain product. f8 is multiplied as f16
 * where there is no instruction for it, which is exact. Always holds: the warps of a block share
 * out the result as frag_accumulator says, whole rows to a warp where rows are reduced or go on as
 * an operand. Tests: tests/unit/check_lower.c.
 */
#include "expand_dot.h"

enum { PROMOTED = 128, MOST_PROMOTED = 64, F64_STEP = 8 };

/* ---------------------------------------------------------------- which products */

/* What is in bounds however it comes. */
bool mma_operand_ok(Simple *s, const IrRegion *r) {
  const Place *p = low_place_of(s, r->buf);
  if (ir_region_rank(r) != 2 || !p->tile || r->buf->space == IRS_LOCAL)
    return false;
  for (int d = 0; d < r->buf->rank; d++) {
    const IrAxis *x = &r->axis[d];
    int64_t lo, hi;
    if (x->stop || x->step != 1 || !ir_range(x->origin, &lo, &hi) || lo < 0 ||
        hi + x->extent > p->extent[d])
      return false;
  }
  return true;
}

static bool is_f8(DType t) {
  return t == DT_F8E4M3 || t == DT_F8E5M2;
}

/* Of f64 16 rows where the target has them, whose 8 rows go at half the rate; of K as much as
 * leaves registers for the operands of the next step, and one word where columns come in pairs. */
static MmaKind kind_of_f64(Simple *s, const IrDot *d, FragPairs pairs) {
  bool deep = !pairs.columns && ir_region_extent(&d->a, 1) % F64_STEP == 0;
  int step = s->target->arch >= ARCH_SM90A && deep ? F64_STEP : 4;
  return (MmaKind){.type = DT_F64, .step = step, .each = 1, .na = step / 2, .nb = step / 4};
}

/* The instruction for a product; step 0: there is none. f8: with the fewest demands. */
static MmaKind kind_of(Simple *s, const IrDot *d, FragPairs pairs) {
  DType t = d->a.buf->dtype, u = d->b.buf->dtype;
  if (is_f8(t) && is_f8(u))
    return (MmaKind){.type = DT_F16, .step = 16, .each = 2, .na = 4, .nb = 2, .converted = true};
  if (t != u || (t == DT_F32 && !d->tf32))
    return (MmaKind){.step = 0};
  if (t == DT_F64)
    return kind_of_f64(s, d, pairs);
  if (t != DT_F16 && t != DT_BF16 && t != DT_I8 && t != DT_U8 && t != DT_F32)
    return (MmaKind){.step = 0};
  int size = (int)dtype_size(t);
  return (MmaKind){.type = t, .step = 32 / size, .each = 4 / size, .na = 4, .nb = 2};
}

/* Whether both operands of f8 come four at a time, in whole steps of 32. */
static bool comes_by_words(Simple *s, const IrDot *d, const MmaKind *kind, FragPairs pairs) {
  return is_f8(d->a.buf->dtype) && is_f8(d->b.buf->dtype) &&
         ir_region_extent(&d->a, 1) % kind->step == 0 &&
         (pairs.rows || mma_by_matrix(s, kind, &d->a, true)) &&
         (pairs.columns || mma_by_matrix(s, kind, &d->b, false));
}

/* By how much the sums of f8 as f16 are too small, because e4m3 is. */
static double shrinks(const MmaKind *kind, const IrDot *d) {
  double a = d->a.buf->dtype == DT_F8E4M3 ? 256 : 1, b = d->b.buf->dtype == DT_F8E4M3 ? 256 : 1;
  return kind->by_words ? a * b : 1;
}

/* Whether sums go to registers of their own before the result: f8's instructions keep fewer bits.
 */
static bool has_parts(const MmaKind *kind, const IrDot *d) {
  return (is_f8(kind->type) && d->promote != 0) || shrinks(kind, d) > 1;
}

/* f8 by its own instruction or by words of f16, where its words and parts have registers. */
static MmaKind best_kind(Simple *s, const IrDot *d, int64_t sums, FragPairs pairs) {
  MmaKind own = {.type = d->a.buf->dtype, .step = 32, .each = 4, .na = 4, .nb = 2};
  MmaKind words = {.type = DT_F16, .step = 32, .each = 4, .na = 8, .nb = 4, .by_words = true};
  bool native = s->target->arch >= ARCH_SM89 && d->b.buf->dtype == own.type;
  const MmaKind *best = native ? &own : &words;
  bool fits = !has_parts(best, d) || sums <= MOST_PROMOTED;
  return fits && comes_by_words(s, d, best, pairs) ? *best : kind_of(s, d, pairs);
}

bool expand_is_mma(Simple *s, const IrDot *d) {
  int64_t m = ir_region_extent(&d->c, 0), n = ir_region_extent(&d->c, 1);
  int64_t k = ir_region_extent(&d->a, 1);
  MmaKind kind = kind_of(s, d, (FragPairs){false, false});
  return s->target->arch >= ARCH_SM80 && d->unit != IRU_FMA && kind.step &&
         d->c.buf->dtype == op_product_type(d->a.buf->dtype, d->b.buf->dtype) &&
         d->c.buf->space == IRS_FRAGMENT && expand_whole(s, &d->c) && d->c.buf->rank == 2 &&
         m > 0 && n > 0 && k > 0 && m % MMA_ROWS == 0 && n % MMA_COLUMNS == 0 &&
         k % kind.step == 0 && d->c.buf != d->a.buf && d->c.buf != d->b.buf &&
         mma_operand_ok(s, &d->a) && mma_operand_ok(s, &d->b);
}

bool expand_takes_fragment(const IrDot *d) {
  return d->a.buf->dtype == DT_F16 || d->a.buf->dtype == DT_BF16;
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

bool mma_split_warps(const IrDot *d, int warps, bool whole_rows, int *rows, int *columns) {
  int64_t m = ir_region_extent(&d->c, 0), n = ir_region_extent(&d->c, 1), best = -1;
  for (int r = 1; r <= warps; r++) {
    int c = warps / r;
    if (r * c != warps || m % (MMA_ROWS * r) || n % (MMA_COLUMNS * c) || (whole_rows && c > 1) ||
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

void expand_know_rows(Simple *s) {
  if (!s->rows_known)
    s->whole_rows = expand_keeps_rows(s->k);
  s->rows_known = true;
}

static bool split_warps(Simple *s, const IrDot *d, int *rows, int *columns) {
  expand_know_rows(s);
  return mma_split_warps(d, s->threads / 32, s->whole_rows, rows, columns);
}

/* The pairs in which operands would come, and the instruction for them. */
static FragPairs pairs_of(Simple *s, const IrDot *d, int rows, int columns, MmaKind *kind) {
  int64_t mg = ir_region_extent(&d->c, 0) / (MMA_ROWS * rows);
  int64_t ng = ir_region_extent(&d->c, 1) / (MMA_COLUMNS * columns);
  MmaKind any = {.step = 0};
  FragPairs p = {mma_by_pairs(s, &any, &d->a, true),
                 mma_by_pairs(s, &any, &d->b, false) && ng % 2 == 0};
  *kind = best_kind(s, d, 4 * mg * ng, p);
  return kind->converted ? (FragPairs){false, false} : p;
}

bool expand_dot_frag(Simple *s, const IrDot *d, Frag *f) {
  int rows, columns;
  MmaKind kind;
  if (!split_warps(s, d, &rows, &columns))
    return false;
  FragPairs pairs = pairs_of(s, d, rows, columns, &kind);
  if (s->no_pairs)
    pairs = (FragPairs){false, false};
  s->pairs |= pairs.rows || pairs.columns;
  return frag_paired(f, ir_region_extent(&d->c, 0), ir_region_extent(&d->c, 1), rows, columns,
                     pairs);
}

/* ---------------------------------------------------------------- products */

IrExpr *mma_unrolled(Simple *s, const char *name, int64_t n, int64_t by) {
  IrStmt *loop;
  if (n <= by)
    return low_i32(s, 0);
  IrVar *v = low_emit_for(s, name, low_i32(s, 0), low_i32(s, n), low_i32(s, by), &loop);
  loop->as.loop.loop = IRF_UNROLL;
  v->hi = n - by;
  low_enter(s, &loop->as.loop.body);
  return ir_ref(s->k, v);
}

/* One instruction's sums, which are every other one of eight where columns come in pairs; the
 * compiler names registers so that nothing is moved. */
static void move_sums(Mma *m, IrBuffer *sums, IrExpr *g, IrExpr *h, bool load) {
  Simple *s = m->s;
  IrExpr *pair = low_quotient(s, h, 2), *c = low_mul(s, g, low_i32(s, 4 * m->ng));
  c = low_add(s, low_add(s, c, low_mul(s, pair, low_i32(s, 8))),
              ir_op2(s->k, OP_MOD, h, low_i32(s, 2)));
  for (int i = 0; i < 4; i++) {
    IrAccess one = {.buf = sums, .index = {low_i32(s, i)}};
    IrAccess at = {.buf = m->c, .index = {low_add(s, c, low_i32(s, 2 * i))}};
    low_emit_store(s, load ? one : at, ir_ref(s->k, low_emit_load(s, "x", load ? at : one)));
  }
}

/* All blocks of the warp's result: before sm_90 f64 has instructions of 8 rows; words of f8 take
 * two. */
static void multiply(Mma *m, IrExpr *step) {
  Simple *s = m->s;
  IrBlock *before = s->out;
  bool rows = m->kind.type == DT_F64 && s->target->arch < ARCH_SM90A;
  int n = rows || m->kind.by_words ? 2 : 1, nc = rows ? 2 : 4, na = m->kind.na / n;
  IrExpr *g = mma_unrolled(s, "g", m->mg, 1), *h = mma_unrolled(s, "h", m->ng, 1);
  IrExpr *c = low_i32(s, 0);
  IrBuffer *sums = m->pairs.columns ? low_registers(s, "sum", m->c->dtype, 4) : m->c;
  if (m->pairs.columns)
    move_sums(m, sums, g, h, true);
  else
    c = low_add(s, low_mul(s, g, low_i32(s, 4 * m->ng)), low_mul(s, h, low_i32(s, 4)));
  IrExpr *a = low_add(s, low_mul(s, step, low_i32(s, m->kind.na * m->mg)),
                      low_mul(s, g, low_i32(s, m->kind.na)));
  IrExpr *b = low_add(s, low_mul(s, step, low_i32(s, m->kind.nb * m->ng)),
                      low_mul(s, h, low_i32(s, m->kind.nb)));
  for (int i = 0; i < n; i++) {
    IrOperand *o = ARENA_ARRAY(s->k->arena, IrOperand, 4);
    o[0] = low_regs(sums, low_add(s, c, low_i32(s, rows ? nc * i : 0)), nc);
    o[1] = low_regs(m->a, low_add(s, a, low_i32(s, na * i)), na);
    o[2] = m->kind.by_words ? low_regs(m->b, low_add(s, b, low_i32(s, 2 * i)), 2)
                            : low_regs(m->b, b, m->kind.nb);
    o[3] = (IrOperand){.kind = IRO_DTYPE, .dtype = m->kind.type};
    low_emit(s, IRK_OP)->as.op = (IrOp){OP_MMA_SYNC, o, 4};
  }
  if (m->pairs.columns)
    move_sums(m, sums, g, h, false);
  low_enter(s, before);
}

/* Sums from zero: those of `=`, and of parts. */
static void clear(Mma *m, IrBuffer *c) {
  Simple *s = m->s;
  IrBlock *before = s->out;
  IrExpr *r = mma_unrolled(s, "r", 4 * m->mg * m->ng, 1);
  low_emit_store(s, (IrAccess){.buf = c, .index = {r}}, low_zero_of(s, c->dtype));
  low_enter(s, before);
}

static void add_part(Mma *m, IrBuffer *c) {
  Simple *s = m->s;
  IrBlock *before = s->out;
  IrExpr *r = mma_unrolled(s, "r", 4 * m->mg * m->ng, 1);
  IrAccess to = {.buf = c, .index = {r}}, from = {.buf = m->c, .index = {r}};
  IrExpr *x = ir_ref(s->k, low_emit_load(s, "x", to));
  IrExpr *part = ir_ref(s->k, low_emit_load(s, "part", from));
  IrExpr *scale = ir_float(s->k, DT_F32, shrinks(&m->kind, m->d));
  low_emit_store(s, to, ir_op3(s->k, OP_FMA, part, scale, x));
  low_enter(s, before);
}

static void place_warp(Mma *m) {
  Simple *s = m->s;
  IrExpr *t = ir_ref(s->k, s->tid);
  IrExpr *warp = ir_ref(s->k, low_emit_let(s, "warp", low_quotient(s, t, 32)));
  m->lane = ir_ref(s->k, low_emit_let(s, "lane", ir_op2(s->k, OP_MOD, t, low_i32(s, 32))));
  IrExpr *row = m->columns > 1 ? ir_op2(s->k, OP_MOD, warp, low_i32(s, m->rows)) : warp;
  m->row0 = low_mul(s, row, low_i32(s, MMA_ROWS));
  m->col0 = m->columns > 1
                ? low_mul(s, low_quotient(s, warp, m->rows), low_i32(s, m->ng * MMA_COLUMNS))
                : low_i32(s, 0);
}

/* Whether a thread has registers for the operands of two steps. */
static bool has_room(const Mma *m) {
  int64_t words = m->kind.na * m->mg + m->kind.nb * m->ng;
  return words * (m->kind.type == DT_F64 ? 2 : 1) <= MMA_AHEAD;
}

/* Products of n steps but the last one's, each step's operands loaded before those of the one
 * before; the first's are there. */
static void run_ahead(Mma *m, int64_t from, int64_t n) {
  Simple *s = m->s;
  IrBlock *before = s->out;
  IrExpr *step = low_add(s, low_i32(s, from), mma_unrolled(s, "step", n - 1, 1));
  mma_load(m, low_add(s, step, low_i32(s, 1)));
  multiply(m, step);
  low_enter(s, before);
}

static void steps(Mma *m, int64_t from, int64_t n) {
  Simple *s = m->s;
  IrBlock *before = s->out;
  if (has_room(m) && n > 1) {
    mma_load(m, low_i32(s, from));
    run_ahead(m, from, n);
    multiply(m, low_i32(s, from + n - 1));
    return;
  }
  IrExpr *step = low_add(s, low_i32(s, from), mma_unrolled(s, "step", n, 1));
  mma_load(m, step);
  multiply(m, step);
  low_enter(s, before);
}

/* Sums of f8's instructions are taken to true f32 every so many of K. */
static void by_parts(Mma *m, IrBuffer *c) {
  int64_t each = (m->d->promote > 0 ? m->d->promote : PROMOTED) / m->kind.step;
  each = m->kind.by_words ? m->kg : each < 1 ? 1 : each;
  m->c = low_registers(m->s, "part", DT_F32, 4 * m->mg * m->ng);
  for (int64_t at = 0; at < m->kg; at += each) {
    clear(m, m->c);
    steps(m, at, m->kg - at < each ? m->kg - at : each);
    add_part(m, c);
  }
}

/* What the product is, if it is one of warps. */
static bool plan(Simple *s, const IrDot *d, Mma *m) {
  const Frag *c = low_place_of(s, d->c.buf)->frag;
  Frag plain, paired;
  int64_t rows = ir_region_extent(&d->c, 0), columns = ir_region_extent(&d->c, 1);
  *m = (Mma){.s = s, .d = d};
  if (!c || !expand_is_mma(s, d) || !split_warps(s, d, &m->rows, &m->columns))
    return false;
  m->pairs = pairs_of(s, d, m->rows, m->columns, &m->kind);
  if (!frag_paired(&paired, rows, columns, m->rows, m->columns, m->pairs) ||
      !frag_accumulator(&plain, rows, columns, m->rows, m->columns))
    return false;
  if (!frag_equal(c, &paired))
    m->pairs = (FragPairs){false, false};
  if (!frag_equal(c, m->pairs.rows || m->pairs.columns ? &paired : &plain))
    return false;
  m->mg = rows / (MMA_ROWS * m->rows);
  m->ng = columns / (MMA_COLUMNS * m->columns);
  m->kind = best_kind(s, d, 4 * m->mg * m->ng, m->pairs);
  m->kg = ir_region_extent(&d->a, 1) / m->kind.step;
  m->c = low_place_of(s, d->c.buf)->home;
  return true;
}

/* Where the warp is, and its registers. */
static void begin(Mma *m) {
  Simple *s = m->s;
  DType word = m->kind.type == DT_F64 ? DT_F64 : DT_U32;
  place_warp(m);
  mma_prepare(m);
  m->a = low_registers(s, "a", word, m->kg * m->kind.na * m->mg);
  m->b = low_registers(s, "b", word, m->kg * m->kind.nb * m->ng);
}

bool expand_dot(Simple *s, IrStmt *st) {
  const IrDot *d = &st->as.dot;
  Mma m;
  if (!plan(s, d, &m))
    return expand_fma(s, st);
  if (!low_place_of(s, d->a.buf)->frag)
    low_note_buffer(s, d->a.buf, IR_READS);
  low_note_buffer(s, d->b.buf, IR_READS);
  low_fence(s);
  begin(&m);
  if (!d->accumulate)
    clear(&m, m.c);
  if (has_parts(&m.kind, d))
    by_parts(&m, m.c);
  else
    steps(&m, 0, m.kg);
  return true;
}

bool mma_begin_ahead(Simple *s, const IrDot *d, Mma *m) {
  if (d->unit == IRU_WGMMA || !plan(s, d, m) || !d->accumulate || has_parts(&m->kind, d) ||
      m->kg < 2 || !has_room(m) || low_place_of(s, d->a.buf)->frag)
    return false;
  begin(m);
  return true;
}

void mma_run(Mma *m) {
  run_ahead(m, 0, m->kg);
}

void mma_finish(Mma *m) {
  multiply(m, low_i32(m->s, m->kg - 1));
}
