/* expand_fma.c: products without tensor cores, their results in registers.
 *
 * In: DOT into a fragment of what the product adds up in, of shapes or types that no instruction
 * takes (f32 above all); operands in shared memory. Out: for each step of K a thread's elements of
 * a column of A and of a row of B, then their products. Always holds: a chain of fused steps, K
 * ascending, each element by one thread: the bits of the plain product. Tests:
 * tests/unit/check_lower.c.
 */
#include "expand_dot.h"

enum { LANES = 16, UNROLLED = 4 };

bool expand_is_fma(Simple *s, const IrDot *d) {
  DType t = op_product_type(d->a.buf->dtype, d->b.buf->dtype);
  return (d->unit == IRU_AUTO || d->unit == IRU_FMA) && d->c.buf->dtype == t &&
         d->c.buf->space == IRS_FRAGMENT && d->c.buf->rank == 2 && expand_whole(s, &d->c) &&
         ir_region_extent(&d->c, 0) > 0 && ir_region_extent(&d->c, 1) > 0 && d->c.buf != d->a.buf &&
         d->c.buf != d->b.buf && mma_operand_ok(s, &d->a) && mma_operand_ok(s, &d->b);
}

/* Neighbouring threads have neighbouring columns, so that their reads of B share no bank. */
Frag expand_fma_frag(Simple *s, const IrDot *d) {
  int64_t extent[] = {ir_region_extent(&d->c, 0), ir_region_extent(&d->c, 1)};
  return frag_rows_of(2, extent, 1, 1, s->threads, LANES);
}

typedef struct Fma {
  Simple *s;
  const IrDot *d;
  DType type;
  const Frag *frag; /* of the result */
  Frag side[2];     /* its rows, its columns */
  IrBuffer *v[2];   /* elements of A, of B */
} Fma;

/* This thread's elements of one step of K. */
static void load_side(Fma *x, int side, IrExpr *k) {
  Simple *s = x->s;
  Point p;
  IrBlock *before;
  int whole[] = {0};
  expand_open(s, &x->side[side], 1, &p, &before);
  IrExpr *index[] = {side ? k : p.index[0], side ? p.index[0] : k};
  IrVar *v = low_load_region(s, side ? "b" : "a", side ? &x->d->b : &x->d->a, index);
  IrAccess to = {.buf = x->v[side], .index = {expand_register(s, &p, 1, whole)}};
  low_emit_store(s, to, ir_cast(s->k, ir_ref(s->k, v), x->type));
  low_enter(s, before);
}

static IrExpr *loaded(Fma *x, IrBuffer *b, IrExpr *r) {
  return ir_ref(x->s->k, low_emit_load(x->s, "x", (IrAccess){.buf = b, .index = {r}}));
}

static void multiply(Fma *x) {
  Simple *s = x->s;
  Point p;
  IrBlock *before;
  static const int all[] = {0, 1}, rows[] = {0}, columns[] = {1};
  expand_open(s, x->frag, 1, &p, &before);
  IrAccess c = {.buf = low_place_of(s, x->d->c.buf)->home,
                .index = {expand_register(s, &p, 2, all)}};
  IrExpr *sum = loaded(x, c.buf, c.index[0]);
  IrExpr *a = loaded(x, x->v[0], expand_register(s, &p, 1, rows));
  IrExpr *b = loaded(x, x->v[1], expand_register(s, &p, 1, columns));
  low_emit_store(s, c,
                 dtype_is_float(x->type) ? ir_op3(s->k, OP_FMA, a, b, sum)
                                         : low_add(s, sum, low_mul(s, a, b)));
  low_enter(s, before);
}

/* `=`: sums from zero. */
static void clear(Fma *x) {
  Simple *s = x->s;
  Point p;
  IrBlock *before;
  static const int all[] = {0, 1};
  expand_open(s, x->frag, 1, &p, &before);
  IrAccess c = {.buf = low_place_of(s, x->d->c.buf)->home,
                .index = {expand_register(s, &p, 2, all)}};
  low_emit_store(s, c, low_zero_of(s, x->type));
  low_enter(s, before);
}

bool expand_fma(Simple *s, IrStmt *st) {
  const IrDot *d = &st->as.dot;
  const Place *c = low_place_of(s, d->c.buf);
  Fma x = {.s = s, .d = d, .type = d->c.buf->dtype, .frag = c->frag};
  IrBlock *before = s->out;
  IrStmt *loop;
  if (!c->frag || low_place_of(s, d->a.buf)->frag || low_place_of(s, d->b.buf)->frag)
    return false;
  low_note_buffer(s, d->a.buf, IR_READS);
  low_note_buffer(s, d->b.buf, IR_READS);
  low_fence(s);
  for (int i = 0; i < 2; i++) {
    x.side[i] = frag_project(x.frag, 1, &i, &x.frag->extent[i]);
    IrExpr *n = low_i64(s, frag_registers(&x.side[i]));
    x.v[i] = ir_buffer(s->k, IRS_REG, i ? "b" : "a", x.type, 1, &n);
    low_emit(s, IRK_ALLOC)->as.alloc = x.v[i];
  }
  if (!d->accumulate)
    clear(&x);
  IrVar *k = low_emit_for(s, "k", low_i64(s, 0), low_i64(s, ir_region_extent(&d->a, 1)),
                          low_i64(s, 1), &loop);
  loop->as.loop.loop = IRF_UNROLL;
  loop->as.loop.stages = UNROLLED;
  low_enter(s, &loop->as.loop.body);
  load_side(&x, 0, ir_ref(s->k, k));
  load_side(&x, 1, ir_ref(s->k, k));
  multiply(&x);
  low_enter(s, before);
  return true;
}
