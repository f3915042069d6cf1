/* expand_fma.c: products without tensor cores, their results in registers.
 *
 * In: DOT into a fragment of what the product adds up in, of shapes or types that no instruction
 * takes (f32 above all); operands in shared memory. Out: steps of K, each with a thread's elements
 * of A and of B by accesses of 16 bytes, then their products: an operand whose neighbours lie along
 * K comes some of K at a time, the other by its rows' or columns' neighbours, which the result's
 * layout gives to one thread. Always holds: a chain of fused steps, K ascending, each element by
 * one thread: the bits of the plain product. Tests: tests/unit/check_lower.c.
 */
#include "expand_dot.h"
#include "expand_side.h"

enum { LANES = 16, UNROLLED = 8, MOST_WIDTH = 4 };

bool expand_is_fma(Simple *s, const IrDot *d) {
  DType t = op_product_type(d->a.buf->dtype, d->b.buf->dtype);
  return (d->unit == IRU_AUTO || d->unit == IRU_FMA) && d->c.buf->dtype == t &&
         d->c.buf->space == IRS_FRAGMENT && d->c.buf->rank == 2 && expand_whole(s, &d->c) &&
         ir_region_extent(&d->c, 0) > 0 && ir_region_extent(&d->c, 1) > 0 && d->c.buf != d->a.buf &&
         d->c.buf != d->b.buf && mma_operand_ok(s, &d->a) && mma_operand_ok(s, &d->b);
}

/* ---------------------------------------------------------------- who has which part */

/* How an operand comes from shared memory. */
typedef struct Way {
  int64_t width; /* elements of an access … */
  bool along_k;  /* … along K; else along the result's rows, or columns */
} Way;

static Way way_of(Simple *s, const IrRegion *r, int side) {
  int axis = -1;
  int64_t width = expand_vector_axis(s, r, &axis);
  int64_t most = VECTOR_BYTES / (int64_t)dtype_size(r->buf->dtype);
  width = width > most ? most : width;
  width = width > MOST_WIDTH ? MOST_WIDTH : width;
  return axis < 0 ? (Way){1, false} : (Way){width, axis == (side ? 0 : 1)};
}

bool expand_fma_along_k(Simple *s, const IrRegion *r, int side) {
  return way_of(s, r, side).along_k;
}

/* Threads of four rows and eight columns to a warp. Of any sixteen lanes of it that an access of 16
 * bytes serves at once, neighbours meet one column, and every other pair one row: so each row, and
 * each column, is read once. */
static Frag of_lanes(const int64_t *extent, const int64_t *width, int64_t warp_rows,
                     int64_t warp_columns) {
  Frag f = {.rank = 2, .extent = {extent[0], extent[1]}};
  int64_t rows = width[0] * FMA_LANE_ROWS * warp_rows,
          columns = width[1] * FMA_LANE_COLUMNS * warp_columns;
  frag_push(f.reg, &f.nreg, (FragDigit){1, width[1], 1});
  frag_push(f.reg, &f.nreg, (FragDigit){1, extent[1] / columns, columns});
  frag_push(f.reg, &f.nreg, (FragDigit){0, width[0], 1});
  frag_push(f.reg, &f.nreg, (FragDigit){0, extent[0] / rows, rows});
  frag_push(f.thread, &f.nthread, (FragDigit){0, 2, width[0]});
  frag_push(f.thread, &f.nthread, (FragDigit){1, FMA_LANE_COLUMNS, width[1]});
  frag_push(f.thread, &f.nthread, (FragDigit){0, FMA_LANE_ROWS / 2, 2 * width[0]});
  frag_push(f.thread, &f.nthread, (FragDigit){0, warp_rows, FMA_LANE_ROWS * width[0]});
  frag_push(f.thread, &f.nthread, (FragDigit){1, warp_columns, FMA_LANE_COLUMNS * width[1]});
  return f;
}

/* Rows and columns of warps whose threads load the least; FALSE where none fits. */
bool fma_split_warps(int warps, bool whole_rows, const int64_t *extent, const int64_t *width,
                     int64_t *rows, int64_t *columns) {
  int64_t best = -1;
  for (int64_t r = 1; r <= warps; r++) {
    int64_t c = warps / r, m = FMA_LANE_ROWS * r, n = FMA_LANE_COLUMNS * c;
    if (r * c != warps || extent[0] % (m * width[0]) || extent[1] % (n * width[1]) ||
        (whole_rows && c > 1))
      continue;
    int64_t loads = extent[0] / m + extent[1] / n;
    if (best < 0 || loads < best) {
      best = loads;
      *rows = r;
      *columns = c;
    }
  }
  return best >= 0;
}

/* Where no warps of such threads fit, neighbouring threads have neighbouring columns. */
Frag expand_fma_frag(Simple *s, const IrDot *d) {
  int64_t extent[] = {ir_region_extent(&d->c, 0), ir_region_extent(&d->c, 1)};
  int64_t rows = 0, columns = 0;
  Way a = way_of(s, &d->a, 0), b = way_of(s, &d->b, 1);
  int64_t width[] = {a.along_k ? 1 : a.width, b.along_k ? 1 : b.width};
  expand_know_rows(s);
  for (int64_t most = MOST_WIDTH; most > 0; most /= 2) {
    for (int i = 0; i < 2; i++)
      width[i] = width[i] < most ? width[i] : most;
    if (fma_split_warps(s->threads / 32, s->whole_rows, extent, width, &rows, &columns))
      return of_lanes(extent, width, rows, columns);
  }
  return frag_rows_of(2, extent, 1, 1, s->threads, LANES);
}

/* ---------------------------------------------------------------- products */

typedef struct Fma {
  Simple *s;
  const IrDot *d;
  DType type;
  const Frag *frag; /* of the result */
  Frag side[2];     /* its rows, its columns */
  Way way[2];       /* of A, of B */
  int64_t step;     /* of K, all of whose elements are there at once where they come along K */
  IrBuffer *v[2];   /* elements of A, of B */
} Fma;

/* `width` elements from the operand's element (p, k) on to registers from `to` on, converted. */
static void load_elements(Fma *x, int side, const Point *p, IrExpr *k, IrExpr *to) {
  Simple *s = x->s;
  const IrRegion *r = side ? &x->d->b : &x->d->a;
  IrExpr *index[] = {side ? k : p->index[0], side ? p->index[0] : k}, *at[IR_MAX_RANK];
  int64_t n = x->way[side].width;
  DType t = r->buf->dtype;
  if (n == 1) {
    IrVar *v = low_load_region(s, side ? "b" : "a", r, index);
    low_emit_store(s, (IrAccess){.buf = x->v[side], .index = {to}},
                   ir_cast(s->k, ir_ref(s->k, v), x->type));
    return;
  }
  low_region_index(s, r, index, at);
  if (t == x->type) {
    side_move(s, true, r->buf, at, low_regs(x->v[side], to, n));
    return;
  }
  IrBuffer *raw = low_registers(s, "raw", t, n);
  side_move(s, true, r->buf, at, low_regs(raw, low_i32(s, 0), n));
  for (int64_t e = 0; e < n; e++) {
    IrVar *v = low_emit_load(s, "x", (IrAccess){.buf = raw, .index = {low_i32(s, e)}});
    low_emit_store(s, (IrAccess){.buf = x->v[side], .index = {low_add(s, to, low_i32(s, e))}},
                   ir_cast(s->k, ir_ref(s->k, v), x->type));
  }
}

/* This thread's elements from k on: a step of K, or one. */
static void load_side(Fma *x, int side, IrExpr *k) {
  Simple *s = x->s;
  const Way *w = &x->way[side];
  Point p;
  IrBlock *before;
  expand_open(s, &x->side[side], w->along_k ? 1 : w->width, &p, &before);
  IrExpr *to = expand_register(s, &p, 1, NULL);
  for (int64_t e = 0; w->along_k && e < x->step; e += w->width)
    load_elements(x, side, &p, low_add(s, k, low_i64(s, e)),
                  low_add(s, low_mul(s, to, low_i32(s, x->step)), low_i32(s, e)));
  if (!w->along_k)
    load_elements(x, side, &p, k, to);
  low_enter(s, before);
}

static IrExpr *loaded(Fma *x, IrBuffer *b, IrExpr *r) {
  return ir_ref(x->s->k, low_emit_load(x->s, "x", (IrAccess){.buf = b, .index = {r}}));
}

/* The register of an operand for a row, or column, at the e-th of the step. */
static IrExpr *operand(Fma *x, int side, const Point *p, IrExpr *e) {
  Simple *s = x->s;
  IrExpr *r = expand_register(s, p, 1, &side);
  if (x->way[side].along_k)
    r = low_add(s, low_mul(s, r, low_i32(s, x->step)), e);
  return loaded(x, x->v[side], r);
}

/* Opens loops over the thread's sums; the one in hand. */
static IrAccess open_sums(Fma *x, Point *p, IrBlock **before) {
  expand_open(x->s, x->frag, 1, p, before);
  return (IrAccess){.buf = low_place_of(x->s, x->d->c.buf)->home,
                    .index = {expand_register(x->s, p, 2, NULL)}};
}

static void multiply(Fma *x, IrExpr *e) {
  Simple *s = x->s;
  Point p;
  IrBlock *before;
  IrAccess c = open_sums(x, &p, &before);
  IrExpr *sum = loaded(x, c.buf, c.index[0]);
  IrExpr *a = operand(x, 0, &p, e), *b = operand(x, 1, &p, e);
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
  IrAccess c = open_sums(x, &p, &before);
  low_emit_store(s, c, low_zero_of(s, x->type));
  low_enter(s, before);
}

/* What each side brings at a time, and so how much of K a step is. */
static void plan(Fma *x) {
  const IrDot *d = x->d;
  int64_t k = ir_region_extent(&d->a, 1);
  x->step = 1;
  for (int i = 0; i < 2; i++) {
    Way *w = &x->way[i];
    *w = way_of(x->s, i ? &d->b : &d->a, i);
    x->side[i] = frag_project(x->frag, 1, &i, &x->frag->extent[i]);
    int64_t run = w->along_k ? k & -k : frag_run(&x->side[i], 0);
    w->width = w->width < run ? w->width : run;
    x->step = w->along_k && w->width > x->step ? w->width : x->step;
  }
}

/* A step: what comes along K, then one of K after the other. */
static void emit_step(Fma *x, IrExpr *k) {
  Simple *s = x->s;
  for (int i = 0; i < 2; i++)
    if (x->way[i].along_k)
      load_side(x, i, k);
  IrBlock *before = s->out;
  IrExpr *e = mma_unrolled(s, "e", x->step, 1);
  for (int i = 0; i < 2; i++)
    if (!x->way[i].along_k)
      load_side(x, i, low_add(s, k, ir_cast(s->k, e, DT_I64)));
  multiply(x, e);
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
  plan(&x);
  for (int i = 0; i < 2; i++)
    x.v[i] = low_registers(s, i ? "b" : "a", x.type,
                           frag_registers(&x.side[i]) * (x.way[i].along_k ? x.step : 1));
  if (!d->accumulate)
    clear(&x);
  IrVar *k = low_emit_for(s, "k", low_i64(s, 0), low_i64(s, ir_region_extent(&d->a, 1)),
                          low_i64(s, x.step), &loop);
  loop->as.loop.loop = IRF_UNROLL;
  loop->as.loop.stages = UNROLLED / (int)x.step;
  k->hi = ir_region_extent(&d->a, 1) - x.step;
  low_enter(s, &loop->as.loop.body);
  emit_step(&x, ir_ref(s->k, k));
  low_enter(s, before);
  return true;
}
