/* cost_fma.c: how long a product without tensor cores takes, for tile sizes to be chosen.
 *
 * In: a tile-level kernel of one product of f32, integers, or types that are converted to these
 * (expand_fma.c multiplies them). Out: cycles of a multiprocessor that has the most blocks. A step
 * of K is what its schedulers issue or, with few warps, what each waits for; or what shared memory
 * reads. A round is its steps and the barrier, or what the second-level cache brings, or how long
 * that takes to come. Fitted to 95 products of f32 on an H200, 256^3 to 4096^3 and 16 x 4096 x 4096
 * in up to 19 tile sizes each: 8 % apart, and the best of each shape is what the model has as the
 * best (what is measured is in bench/RESULTS.md). Always holds: less than 0 where threads do not
 * share out the result as expand_fma.c does it best, or a thread's registers do not hold it. Tests:
 * tests/lower/auto_fma.tile.
 */
#include <math.h>

#include "cost.h"
#include "expand_dot.h"
#include "sched.h"

/* Of integers the compiler spills at more threads. */
enum { INTEGER_THREADS = 128 };
enum { OTHER_REGISTERS = 40 };
/* What a step waits for its elements where a scheduler has one warp; a block's start and end; a
 * round's barrier and addresses; a load from global memory. */
enum { READ_CYCLES = 6, BLOCK_CYCLES = 4600, ROUND_CYCLES = 280, LOAD_CYCLES = 800 };
/* Bytes a cycle from the second-level cache to each multiprocessor, of shared memory's accesses
 * that meet in one; instructions for 16 bytes on their way from global to shared memory. */
enum { LEVEL2_BYTES = 26, ACCESS_BYTES = 16, COPY_ISSUES = 13, SCHEDULERS = 4 };

typedef struct Fma {
  const Target *target;
  const IrDot *dot;
  int products, threads, warps;
  int stages;       /* of the loop around */
  double registers; /* of a thread, that fragments take */
  int64_t shared;   /* bytes */
  double loaded;    /* bytes of a round */
  double rm, rn;    /* rows and columns of a thread */
  double issues;    /* instructions of a step of K, of a warp */
  double reads;     /* cycles of shared memory for them */
  double copies;    /* instructions of a round that load the next, of a warp */
  int64_t k;        /* of a round */
  double rounds;    /* of a tile */
  int blocks;       /* that a multiprocessor holds */
} Fma;

/* Types that come as they lie; f8 has instructions of its own. */
static bool is_plain(DType t) {
  return dtype_bits(t) >= (dtype_is_float(t) ? 16 : 8) && t != DT_F64;
}

/* Cycles of a scheduler for one product of a warp; 0: not by such a kernel. */
static double product_issues(const Fma *x, DType sum) {
  if (sum == DT_F32)
    return 128.0 / x->target->lanes;
  if (dtype_is_float(sum))
    return 0;
  return dtype_size(sum) == 4 ? 2 : dtype_size(sum) == 8 ? 8 : 0;
}

static void note_tile(Fma *x, const IrBuffer *b) {
  double n = (double)dtype_size(b->dtype) / 4 / x->threads;
  for (int i = 0; i < b->rank; i++)
    n *= (double)sched_extent(b, i);
  if (b->space == IRS_FRAGMENT)
    x->registers += n;
  if (b->space == IRS_SHARED)
    x->shared += sched_tile_bytes(b);
}

static void note_copy(Fma *x, const IrCopy *c, int stages) {
  if (!stages || c->dst.buf->space != IRS_SHARED || c->src.buf->space != IRS_GLOBAL)
    return;
  int64_t bytes = sched_tile_bytes(c->dst.buf);
  x->shared += (stages - 1) * bytes;
  x->loaded += (double)bytes;
  x->stages = stages;
}

/* stages: of the loop around, 1 of one that loads nothing ahead; 0: none. */
static void note_block(Fma *x, IrBlock *b, int stages) {
  IrBlock *inner;
  for (size_t i = 0; i < b->n; i++) {
    IrStmt *st = b->v[i];
    int inside = stages;
    if (st->kind == IRK_DOT) {
      x->dot = &st->as.dot;
      x->products++;
    }
    if (st->kind == IRK_ALLOC)
      note_tile(x, st->as.alloc);
    if (st->kind == IRK_COPY)
      note_copy(x, &st->as.copy, stages);
    if (st->kind == IRK_FOR) {
      int said = st->as.loop.stages ? st->as.loop.stages : PIPE_STAGES;
      inside = st->as.loop.loop == IRF_PIPELINED ? said : 1;
    }
    for (int j = 0; st->kind != IRK_MAP && (inner = ir_nested(st, j)); j++)
      note_block(x, inner, inside);
  }
}

/* What a thread has of the result, and so what a step of it takes. */
static bool share_out(Fma *x, IrKernel *k) {
  const IrDot *d = x->dot;
  enum { WIDTH = 4 };
  int64_t extent[] = {ir_region_extent(&d->c, 0), ir_region_extent(&d->c, 1)}, rows, columns;
  double each = product_issues(x, d->c.buf->dtype);
  DType a = d->a.buf->dtype, b = d->b.buf->dtype, sum = d->c.buf->dtype;
  if (each <= 0 || (!dtype_is_float(sum) && x->threads > INTEGER_THREADS) || !is_plain(a) ||
      !is_plain(b) ||
      !fma_split_warps(x->warps, expand_keeps_rows(k), extent, (int64_t[]){WIDTH, WIDTH}, &rows,
                       &columns))
    return false;
  x->rm = (double)(extent[0] / (FMA_LANE_ROWS * rows));
  x->rn = (double)(extent[1] / (FMA_LANE_COLUMNS * columns));
  double wide = (double)dtype_size(sum) / 4;
  double bytes = x->rm * (double)dtype_size(a) + x->rn * (double)dtype_size(b);
  x->issues = x->rm * x->rn * each + (x->rm + x->rn) / WIDTH;
  x->issues += (a != sum ? x->rm : 0) + (b != sum ? x->rn : 0);
  x->reads = 2 * bytes / ACCESS_BYTES;
  x->k = ir_region_extent(&d->a, 1);
  x->copies = x->loaded / 16 / x->threads * COPY_ISSUES;
  double operands = (x->rm + x->rn) * wide, least = x->registers + 2 * operands + OTHER_REGISTERS;
  x->registers = fmin(x->registers + 4 * operands + OTHER_REGISTERS, THREAD_REGISTERS);
  return least <= THREAD_REGISTERS;
}

static bool fits(Fma *x) {
  const Target *t = x->target;
  if (!target_has_shared(t, x->shared + BARRIER_BYTES))
    return false;
  double n = fmin(t->registers / (x->registers * x->threads), (double)t->threads / x->threads);
  n = fmin(n, (double)t->shared / (double)(x->shared + BARRIER_BYTES));
  x->blocks = n < 1 ? 1 : (int)fmin(n, t->blocks);
  return true;
}

/* Of so many blocks that a multiprocessor has at a time. */
static double together(const Fma *x, double blocks) {
  double warps = blocks * x->warps, each = ceil(warps / SCHEDULERS), k = (double)x->k;
  double step = fmax(each * x->issues, x->issues + READ_CYCLES);
  step = fmax(step, warps * x->reads);
  double round = step * k + each * x->copies + ROUND_CYCLES;
  round = fmax(round, blocks * x->loaded / LEVEL2_BYTES);
  if (x->stages < 2)
    round += LOAD_CYCLES;
  else
    round = fmax(round, (double)LOAD_CYCLES / (x->stages - 1));
  return x->rounds * round + BLOCK_CYCLES + blocks * x->rm * x->rn * x->warps;
}

double cost_fma(const IrKernel *k, const Target *t, double rounds, double tiles, int64_t sms) {
  IrKernel *body = (IrKernel *)(uintptr_t)k;
  Fma x = {.target = t, .rounds = rounds};
  x.threads = k->threads ? k->threads : expand_threads(k);
  x.warps = x.threads / 32;
  note_block(&x, &body->body, 0);
  if (x.products != 1 || x.warps < 1 || !share_out(&x, body) || !fits(&x))
    return -1;
  double each = ceil(tiles / (double)sms), whole = floor(each / x.blocks);
  double rest = each - whole * x.blocks;
  return whole * together(&x, x.blocks) + (rest > 0 ? together(&x, rest) : 0);
}
