/* cost.c: how long a kernel of products takes, before it is lowered: to choose among tile sizes.
 *
 * In: a tile-level kernel with everything of a call bound. Out: cycles of the slowest block, by a
 * model fitted to measured products: full rounds of blocks times tensor-core time of a tile, plus
 * what a tile costs besides; narrow products and small tiles pay for the bytes that they move more
 * often. Always holds: only comparisons between kernels of one program mean anything.
 * Tests: tests/unit/check_schedule.c.
 */
#include <math.h>

#include "sched.h"

typedef struct Cost {
  const IrBinding *b;
  LowerProduct first;
  double cycles;     /* of a tile */
  double trips;      /* of the loops around */
  int64_t registers; /* of a thread, for each 64 rows */
  bool fits;
} Cost;

enum { UNKNOWN_TRIPS = 16, LOOP_CYCLES = 600, TILE_CYCLES = 2400 };

/* Depends on the block, or on what the kernel computes: some number. */
static double trips_of(const Cost *c, const IrFor *f) {
  Scalar lo, hi, step;
  if (!c->b || !ir_host_eval(f->lo, c->b, &lo) || !ir_host_eval(f->hi, c->b, &hi) ||
      !ir_host_eval(f->step, c->b, &step) || step.as.i <= 0)
    return UNKNOWN_TRIPS;
  return hi.as.i > lo.as.i ? (double)((hi.as.i - lo.as.i + step.as.i - 1) / step.as.i) : 0;
}

static void add_product(Cost *c, const IrDot *d) {
  int64_t m = ir_region_extent(&d->c, 0), n = ir_region_extent(&d->c, 1);
  int64_t k = ir_region_extent(&d->a, 1);
  DType t = d->a.buf->dtype;
  if (!c->first.products++)
    c->first.m = m, c->first.n = n, c->first.k = k;
  c->fits = c->fits && (t == DT_F16 || t == DT_BF16) && m == c->first.m && m % 64 == 0 &&
            n % 8 == 0 && n <= 256 && k % 16 == 0;
  c->registers += n / 2 + (d->a.buf->space == IRS_FRAGMENT ? k / 4 : 0);
  /* operands' bytes in shared memory for each operation, against the widest product's */
  double narrow = n ? (64.0 + (double)n) / (64.0 * (double)n) / (320.0 / 16384.0) - 1 : 0;
  c->cycles += c->trips * (double)m * (double)n * (double)k / 2048 * exp(0.084 * narrow);
}

static void add_block(Cost *c, IrBlock *b) {
  IrBlock *inner;
  for (size_t i = 0; i < b->n; i++) {
    IrStmt *s = b->v[i];
    double outer = c->trips;
    int products = c->first.products;
    if (s->kind == IRK_DOT)
      add_product(c, &s->as.dot);
    if (s->kind == IRK_FOR)
      c->trips *= trips_of(c, &s->as.loop);
    for (int j = 0; s->kind != IRK_MAP && (inner = ir_nested(s, j)); j++)
      add_block(c, inner);
    if (s->kind == IRK_FOR && c->first.products > products) {
      c->first.stages = s->as.loop.stages;
      c->cycles += c->first.products > products + 1 ? c->trips * LOOP_CYCLES : 0;
    }
    c->trips = outer;
  }
}

static Cost cost_of(const IrKernel *k, const IrBinding *b) {
  Cost c = {.b = b, .trips = 1, .fits = true};
  IrBlock body = k->body;
  add_block(&c, &body);
  return c;
}

bool lower_product(const IrKernel *k, LowerProduct *out) {
  Cost c = cost_of(k, NULL);
  *out = c.first;
  return c.first.products > 0;
}

double lower_cost(const IrKernel *k, const IrBinding *b, int64_t sms) {
  static const int limit[] = {0, 255, 232, 160};
  Cost c = cost_of(k, b);
  int64_t blocks = c.first.m / 64, groups = blocks == 4 ? 2 : blocks;
  if (!c.fits || !c.first.products || blocks < 1 || blocks > 4 ||
      c.registers * (blocks / groups) + 40 > limit[groups])
    return -1;
  double area = (double)c.first.m * (double)c.first.n;
  double tiles = (double)b->grid[0] * (double)b->grid[1] * (double)b->grid[2];
  double turns = ceil(tiles / (double)sms);
  if (turns < 1)
    return 0;
  double loads = (double)(c.first.m + c.first.n) / area / (384.0 / 32768.0) - 1;
  double tile = c.cycles * (groups == 1 ? 1.12 : 1.0) + TILE_CYCLES * area / 32768.0;
  return turns * tile * exp(0.032 * loads + 0.40 * (ceil(tiles / turns) / 128 - 1));
}
