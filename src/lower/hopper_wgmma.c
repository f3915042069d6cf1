/* hopper_wgmma.c: products of a warpgroup: descriptors, chains of wgmma.
 *
 * In: DOT of `unit wgmma`: operands in rings of swizzled tiles, or the first one in registers; the
 * result in the accumulator's layout. Out: for each block of 64 rows a chain over K in one group.
 * Always holds: K ascends, so that the bits are those of the plain product.
 * Tests: tests/unit/check_schedule.c.
 */
#include "hopper.h"

/* STEP_BYTES: of K in one instruction; UNIT: bytes that a descriptor counts in. */
enum { ROWS = 64, STEP_BYTES = 32, STEP = 16, UNIT = 16 };

/* An operand in shared memory. M or N stands for its axis that is not K. */
typedef struct Operand {
  IrVar *desc;
  int64_t span, rows; /* bytes of a panel's row; rows of a panel */
  bool across;        /* M or N lies side by side, not K */
} Operand;

/* Which axis of the tile is K: of A the last, of B the first, after `.T`. */
static Operand operand_of(const IrRegion *r, bool first) {
  const IrLayout *l = r->buf->layout;
  int k_axis = (first ? 1 : 0) ^ (r->trans ? 1 : 0), inner = l->columns ? 0 : 1;
  return (Operand){
      .span = l->amount, .rows = sched_side(r->buf, 1 - inner), .across = inner != k_axis};
}

/* Code of the swizzle in a descriptor, which is not that of a tensor map. */
static int swizzle_code(int64_t span) {
  return span == 128 ? 1 : span == 64 ? 2 : 3;
}

/* Bytes from a block of 64 rows of the operand to the next. */
static int64_t block_bytes(const Operand *o) {
  return o->across ? o->rows * o->span : ROWS * o->span;
}

/* Bytes from the first to the i-th step along K. */
static int64_t step_bytes(const Operand *o, int64_t i) {
  int64_t per = o->span / STEP_BYTES; /* steps in a panel's row */
  if (o->across)
    return i * STEP * o->span; /* 16-bit elements */
  return i / per * o->rows * o->span + i % per * STEP_BYTES;
}

/* The leading offset is that of panels; where K lies side by side one panel is enough. */
static void describe(Simple *s, Operand *o, const IrRegion *r, bool rows) {
  IrKernel *k = s->k;
  IrExpr *at = hopper_region_at(s, r);
  if (rows)
    at = low_add(s, at, low_mul(s, ir_ref(k, s->hopper->group), low_i32(s, block_bytes(o))));
  IrExpr *arg[] = {at, low_i32(s, o->across ? o->rows * o->span : UNIT), low_i32(s, 8 * o->span),
                   low_i32(s, swizzle_code(o->span))};
  o->desc = low_emit_let(s, "desc", ir_expr(k, OP_DESC, DT_NONE, arg, 4));
}

static IrOperand at_step(Simple *s, const Operand *o, int64_t bytes) {
  IrExpr *d = ir_ref(s->k, o->desc);
  return hopper_e(low_add(s, d, ir_int_of(s->k, DT_U64, bytes / UNIT)));
}

/* ---------------------------------------------------------------- chains */

typedef struct Chain {
  const IrDot *d;
  Operand a, b;
  IrBuffer *words; /* the first operand in registers, in words; NULL: in shared memory */
  int64_t n, steps, blocks;
} Chain;

/* As it lies, or packed here. */
static IrBuffer *words_of(Simple *s, const IrBuffer *operand) {
  IrBuffer *words = hopper_words(s, operand), *home = low_place_of(s, operand)->home;
  int64_t n = 0;
  if (words)
    return words;
  ir_is_const(home->extent[0], &n);
  words = low_registers(s, "words", DT_U32, n / 2);
  hopper_pack(s, operand->dtype, home, words);
  return words;
}

/* Of one block and step. */
static void multiply(Simple *s, const Chain *c, int64_t block, int64_t step) {
  int64_t regs = c->n / 2;
  IrOperand acc = low_regs(low_place_of(s, c->d->c.buf)->home, low_i32(s, block * regs), (int)regs);
  IrOperand b = at_step(s, &c->b, step_bytes(&c->b, step));
  IrOperand more = hopper_e(ir_bool(s->k, step > 0 || c->d->accumulate));
  IrOperand type = {.kind = IRO_DTYPE, .dtype = c->d->b.buf->dtype};
  if (c->words) {
    IrExpr *first = low_i32(s, (block * c->steps + step) * 4);
    hopper_op(s, OP_WGMMA_RS, 7,
              (IrOperand[]){acc, low_regs(c->words, first, 4), b, more, hopper_i(s, c->n), type,
                            hopper_i(s, c->b.across)});
    return;
  }
  int64_t at = block * s->hopper->groups * block_bytes(&c->a) + step_bytes(&c->a, step);
  hopper_op(s, OP_WGMMA_SS, 8,
            (IrOperand[]){acc, at_step(s, &c->a, at), b, more, hopper_i(s, c->n), type,
                          hopper_i(s, c->a.across), hopper_i(s, c->b.across)});
}

bool hopper_frag(const IrDot *d, const IrBuffer *side, int groups, Frag *f) {
  int64_t m = sched_extent(side, 0), n = sched_extent(side, 1);
  Turned turned = sched_lies_turned(d);
  if (turned)
    return frag_turned(f, m, n, turned == TURNED_B, groups, dtype_size(d->a.buf->dtype) == 4);
  return frag_accumulator(f, m, n, GROUP_WARPS * groups, 1);
}

bool hopper_dot(Simple *s, IrStmt *st) {
  const IrDot *d = &st->as.dot;
  if (!s->hopper || d->unit != IRU_WGMMA)
    return false;
  Turned turned = sched_lies_turned(d);
  Chain c = {.d = d, .n = ir_region_extent(&d->c, turned != TURNED_B)};
  c.steps = ir_region_extent(&d->b, 0) * (int64_t)dtype_size(d->b.buf->dtype) / STEP_BYTES;
  const Place *p = low_place_of(s, d->c.buf);
  if (!p->frag || !d->b.buf->layout || (!low_place_of(s, d->a.buf)->frag && !d->a.buf->layout)) {
    lower_note(s->request, "hopper: a product's result or operand is used as registers are not");
    s->failed = true; /* without a diagnostic: the next candidate can */
    return true;
  }
  c.blocks = p->extent[turned == TURNED_B] / ROWS / s->hopper->groups;
  IrRegion a = hopper_settled(s, &d->a), b = hopper_settled(s, &d->b);
  c.b = turned == TURNED_B ? operand_of(&d->a, true) : operand_of(&d->b, false);
  if (turned) {
    c.words = hopper_load_turned(s, turned == TURNED_B ? &b : &a, c.blocks, c.steps);
  } else if (low_place_of(s, d->a.buf)->frag) {
    c.words = words_of(s, d->a.buf);
  } else {
    c.a = operand_of(&d->a, true);
    describe(s, &c.a, &a, true);
  }
  describe(s, &c.b, turned == TURNED_B ? &a : &b, false);
  hopper_op(s, OP_WGMMA_FENCE, 0, NULL);
  for (int64_t i = 0; i < c.blocks; i++)
    for (int64_t j = 0; j < c.steps; j++)
      multiply(s, &c, i, j);
  hopper_op(s, OP_WGMMA_COMMIT, 0, NULL);
  s->hopper->product = s->out;
  return true;
}
