/* cost.c: how long a kernel of products takes, before it is lowered: to choose among tile sizes.
 *
 * In: a tile-level kernel with everything of a call bound. Out: cycles of the slowest block, by a
 * model fitted to measured products: full rounds of blocks times tensor-core time of a tile, plus
 * what a tile costs besides; narrow products and small tiles pay for the bytes that they move more
 * often. Products of warpgroups and those of warps (cost_mma.c) differ in what fits a thread's
 * registers, and in how much of the tensor cores a small block keeps busy. Always holds: only
 * comparisons between kernels of one program mean anything.
 * Tests: tests/unit/check_schedule.c, tests/lower/auto_*.tile.
 */
#include <math.h>

#include "cost.h"
#include "sched.h"

typedef struct Cost {
  const IrKernel *k;
  const IrBinding *b;
  LowerProduct first;
  bool *known;            /* by variable id: the value in b is that of this block */
  double cycles;          /* of a tile */
  double longest;         /* of the longest tile; cycles is the mean then */
  double trips;           /* of the loops around */
  double rounds;          /* products of a tile, each behind the one before */
  int64_t rows;           /* of the first product's instructions: its own, or its columns */
  int64_t registers;      /* of a thread, for each 64 rows: of results … */
  int64_t operand;        /* … and of the largest operand that lies in registers */
  int64_t kept;           /* … and of tiles like the first result that its loop keeps beside it */
  const IrBuffer *result; /* of the first product */
  bool turned;            /* some product's operand goes through registers */
  int loops;              /* around the statement in hand */
  int64_t shared;         /* bytes, two stages of what loops load */
  bool fits;              /* what warpgroups multiply */
} Cost;

enum { UNKNOWN_TRIPS = 16, TILE_CYCLES = 2400 };
/* Of a single product of warpgroups: until its first operands are there, of 128 bytes of K; and
 * what passes from one round of its loop to the next, the less the more there is to multiply
 * meanwhile. */
enum { FIRST_CYCLES = 2400, FIRST_BYTES = 128, ROUND_MOST = 300, ROUND_LEAST = 50 };
enum { TURN_CYCLES = 120, TURN_BLOCK_CYCLES = 130 };

/* ---------------------------------------------------------------- what warpgroups take */

/* Whether K lies side by side in the tensor that an operand comes from, as elements not of 16 bits
 * have to lie in shared memory. */
static bool along_k(const Cost *c, const IrRegion *operand, bool first) {
  const IrRegion *from = sched_fill_of(c->k, operand->buf);
  int unit = 0;
  if (!from || !c->b || operand->buf->rank != 2)
    return false;
  const int64_t *stride = c->b->tensor[from->buf->id].stride;
  for (unit = from->buf->rank - 1; unit > 0 && stride[unit] != 1; unit--)
    ;
  return sched_along_k(operand, from, unit, first);
}

/* The bytes of an operand's element, where tensor cores multiply such; else 0. */
static int operand_size(const IrDot *d) {
  return sched_has_types(d) ? (int)dtype_size(d->a.buf->dtype) : 0;
}

/* The operand of which K lies so in neither tensor nor, then, in its tile. */
static Turned turned_of(const Cost *c, const IrDot *d) {
  bool a = along_k(c, &d->a, true), b = along_k(c, &d->b, false);
  return dtype_size(d->a.buf->dtype) == 2 || a == b ? TURNED_NONE : a ? TURNED_B : TURNED_A;
}

/* As low_select says it, for one product, by rows and columns of its instructions. */
static bool fits_groups(const Cost *c, const IrDot *d, int64_t rows, int64_t columns) {
  int size = operand_size(d);
  bool words = size == 1 && !dtype_is_float(d->a.buf->dtype);
  return size && rows == c->rows && rows % 64 == 0 && columns % (words ? 16 : 8) == 0 &&
         columns <= 256 && ir_region_extent(&d->a, 1) % (32 / size) == 0 &&
         !sched_adds_too_much(d) && (!c->turned || c->first.products == 1) &&
         (size == 2 || along_k(c, &d->a, true) || along_k(c, &d->b, false));
}

/* ---------------------------------------------------------------- the kernel's products */

static bool value_of(const Cost *c, const IrExpr *e, Scalar *out) {
  return ir_known_eval(e, c->b, c->known, out);
}

/* What the block computes of its indices and of what the host knows is known too. */
static void learn_let(Cost *c, const IrStmt *s) {
  IrVar *v = s->as.let.var;
  Scalar x;
  if (c->b && ir_is_let(s) && value_of(c, s->as.let.value, &x)) {
    c->b->value[v->id] = x;
    c->known[v->id] = true;
  }
}

/* Of this block; where it depends on what the kernel loads: some number. */
static double trips_of(const Cost *c, const IrFor *f) {
  Scalar lo, hi, step;
  if (!c->b || !value_of(c, f->lo, &lo) || !value_of(c, f->hi, &hi) ||
      !value_of(c, f->step, &step) || step.as.i <= 0)
    return UNKNOWN_TRIPS;
  return hi.as.i > lo.as.i ? ceil(((double)hi.as.i - (double)lo.as.i) / (double)step.as.i) : 0;
}

static void add_product(Cost *c, const IrDot *d) {
  int64_t m = ir_region_extent(&d->c, 0), n = ir_region_extent(&d->c, 1);
  int64_t k = ir_region_extent(&d->a, 1);
  int size = operand_size(d);
  Turned turned = turned_of(c, d);
  int64_t rows = turned == TURNED_B ? n : m, columns = turned == TURNED_B ? m : n;
  c->turned |= turned != TURNED_NONE;
  if (!c->first.products) {
    c->rows = rows;
    c->result = d->c.buf;
  }
  if (!c->first.products++)
    c->first = (LowerProduct){.products = 1,
                              .m = m,
                              .n = n,
                              .k = k,
                              .size = size,
                              .type = d->a.buf->dtype,
                              .result = d->c.buf->dtype};
  c->fits = c->fits && fits_groups(c, d, rows, columns);
  c->registers += columns / 2;
  if (d->a.buf->space == IRS_FRAGMENT && k / 4 > c->operand)
    c->operand = k / 4;
  c->registers += sched_promotes(d) && d->accumulate ? columns / 2 : 0;
  c->registers += turned ? sched_turned_registers(d) : 0;
  /* operands' bytes in shared memory for each operation, against the widest product's */
  double wide = (double)columns, base = 320.0 / 16384.0;
  double narrow = columns ? (64.0 + wide) / (64.0 * wide) / base - 1 : 0;
  double steps = (double)m * (double)n * (double)k / 4096 * (size ? size : 2);
  if (sched_promotes(d)) /* additions of parts, half of them behind other warps' products */
    steps += (double)m * (double)n / 128 / 2;
  if (turned) /* on the way to registers, which only the other warps' products hide */
    steps += TURN_CYCLES + TURN_BLOCK_CYCLES * (double)(rows > 192 ? 2 : 1);
  c->cycles += c->trips * steps * exp(0.084 * narrow);
  c->rounds += c->trips;
}

/* Rows of tiles that are loaded are whole spans of the swizzle; results are staged in halves where
 * these are spans. */
static void add_copy(Cost *c, const IrCopy *x) {
  enum { SPAN = 128 };
  const IrBuffer *to = x->dst.buf;
  if (x->src.buf->space == IRS_GLOBAL && to->space == IRS_SHARED && to->rank == 2) {
    int64_t row = sched_extent(to, 1) * (int64_t)dtype_size(to->dtype);
    c->shared += (row + SPAN - 1) / SPAN * SPAN * sched_extent(to, 0) * (c->loops ? 2 : 1);
  }
  if (x->src.buf->space == IRS_FRAGMENT && to->space == IRS_GLOBAL && x->src.buf->rank == 2) {
    int64_t columns = sched_extent(x->src.buf, 1), size = (int64_t)dtype_size(to->dtype);
    c->shared += sched_extent(x->src.buf, 0) * columns * size / (columns % SPAN ? 1 : 2);
  }
}

/* What a loop over chained products does between them, as attention was measured with D 64 and 256
 * at 128 x 64 to 128 x 192 and 192 x 96: results wider than 128 leave few registers for it. */
static double loop_cycles(const LowerProduct *p) {
  double m = (double)p->m, n = (double)p->n;
  return 424 + 0.038 * m * n + (n > 128 ? 0.041 * m * (n - 128) : 0);
}

/* Which tiles a loop has to do with, by buffer id: used in it, its own. */
typedef struct Tiles {
  const Cost *c;
  uint8_t *seen, *own;
  int64_t kept;
} Tiles;

static void note_tile(IrBuffer **b, unsigned how, void *ctx) {
  Tiles *t = ctx;
  const IrBuffer *x = *b, *r = t->c->result;
  if (how & IR_DECLARES)
    t->own[x->id] = true;
  if (t->own[x->id] || t->seen[x->id] || x == r || x->space != IRS_FRAGMENT || x->rank != 2)
    return;
  t->seen[x->id] = true;
  t->kept += sched_extent(x, 0) == sched_extent(r, 0) && sched_extent(x, 1) == sched_extent(r, 1);
}

static bool note_tiles(IrStmt *s, void *ctx) {
  ir_visit(s, &(IrVisitor){.buffer = note_tile, .ctx = ctx});
  return true;
}

/* Tiles of the first result's extents that a loop keeps: what sums of scaled products lie in. */
static int64_t tiles_kept(const Cost *c, IrBlock *loop) {
  size_t n = c->k->buffers.n;
  Tiles t = {c, ARENA_ARRAY(c->k->arena, uint8_t, n), ARENA_ARRAY(c->k->arena, uint8_t, n), 0};
  ir_walk(loop, note_tiles, &t);
  return t.kept;
}

static void add_block(Cost *c, IrBlock *b) {
  IrBlock *inner;
  for (size_t i = 0; i < b->n; i++) {
    IrStmt *s = b->v[i];
    double outer = c->trips;
    int products = c->first.products;
    if (s->kind == IRK_DOT)
      add_product(c, &s->as.dot);
    if (s->kind == IRK_LET)
      learn_let(c, s);
    if (s->kind == IRK_COPY)
      add_copy(c, &s->as.copy);
    if (s->kind == IRK_FOR)
      c->trips *= trips_of(c, &s->as.loop);
    c->loops += s->kind == IRK_FOR;
    for (int j = 0; s->kind != IRK_MAP && (inner = ir_nested(s, j)); j++)
      add_block(c, inner);
    if (s->kind == IRK_FOR && c->first.products > products) {
      c->first.stages = s->as.loop.stages;
      c->cycles += c->first.products > products + 1 ? c->trips * loop_cycles(&c->first) : 0;
      if (c->loops == 1 && products == 0 && c->rows > 0)
        c->kept = tiles_kept(c, &s->as.loop.body) * (c->first.m * c->first.n / c->rows) / 2;
    }
    c->loops -= s->kind == IRK_FOR;
    c->trips = outer;
  }
}

static bool know_let(IrStmt *s, void *ctx) {
  if (s->kind == IRK_LET)
    ((bool *)ctx)[s->as.let.var->id] = true;
  return true;
}

/* What a launch binds. */
static bool *known_of(const IrKernel *k) {
  bool *known = ARENA_ARRAY(k->arena, bool, k->vars.n + 1);
  IrBlock pre = k->pre;
  for (size_t i = 0; i < k->vars.n; i++)
    known[i] = k->vars.v[i]->kind >= IRV_GRID;
  ir_walk(&pre, know_let, known);
  return known;
}

static Cost cost_of(const IrKernel *k, const IrBinding *b) {
  Cost c = {.k = k, .b = b, .known = known_of(k), .trips = 1, .fits = true};
  IrBlock body = k->body;
  add_block(&c, &body);
  c.longest = c.cycles;
  return c;
}

/* Blocks may have work of unequal length: the mean over some of them, spread along the first axis
 * of the grid, and the longest. */
static Cost cost_of_blocks(const IrKernel *k, const IrBinding *b) {
  enum { SAMPLES = 16 };
  int64_t n = k->grid_rank > 0 ? b->grid[0] : 1, samples = n < SAMPLES ? n : SAMPLES;
  Cost sum = cost_of(k, b);
  if (samples < 2)
    return sum;
  Scalar *index = &b->value[k->grid_index[0]->id], first = *index;
  sum.cycles = 0;
  for (int64_t i = 0; i < samples; i++) {
    index->as.i = (2 * i + 1) * n / (2 * samples);
    Cost c = cost_of(k, b);
    sum.cycles += c.cycles / (double)samples;
    sum.longest = c.cycles > sum.longest ? c.cycles : sum.longest;
  }
  *index = first;
  return sum;
}

bool lower_product(const IrKernel *k, LowerProduct *out) {
  Cost c = cost_of(k, NULL);
  *out = c.first;
  return c.first.products > 0;
}

/* ---------------------------------------------------------------- cycles */

static double tiles_of(const IrBinding *b) {
  return (double)b->grid[0] * (double)b->grid[1] * (double)b->grid[2];
}

/* By how much more a tile loads for each operation than the widest one. */
static double loads_of(const LowerProduct *p) {
  double area = (double)p->m * (double)p->n;
  return (double)(p->m + p->n) / area / (384.0 / 32768.0) - 1;
}

/* Blocks that stay and have a multiprocessor each; tiles of unequal length even out, but for the
 * longest. */
static double rounds(const Cost *c, int64_t sms, double factor) {
  double tiles = tiles_of(c->b), turns = ceil(tiles / (double)sms);
  if (turns < 1)
    return 0;
  double besides = TILE_CYCLES * (double)c->first.m * (double)c->first.n / 32768.0;
  double all = turns * (c->cycles * factor + besides), longest = c->longest * factor + besides;
  if (c->longest > c->cycles * 1.05) {
    all = tiles / (double)sms * (c->cycles * factor + besides);
    all = all < longest ? longest : all;
  }
  return all * exp(0.032 * loads_of(&c->first) + 0.40 * (ceil(tiles / turns) / 128 - 1));
}

/* The same of a single product, of tiles of equal length; there is more to wait for. */
static double single_rounds(const Cost *c, int64_t sms, double factor) {
  double tiles = tiles_of(c->b), turns = ceil(tiles / (double)sms), cycles = c->cycles * factor;
  if (turns < 1 || c->rounds < 1)
    return rounds(c, sms, factor);
  double besides = TILE_CYCLES * (double)c->first.m * (double)c->first.n / 32768.0;
  double first = FIRST_CYCLES * fmax(1, (double)(c->first.k * c->first.size) / FIRST_BYTES);
  double waits = c->rounds * fmax(ROUND_LEAST, ROUND_MOST - 0.4 * cycles / c->rounds);
  double shared = exp(0.08 * loads_of(&c->first) + 0.40 * (ceil(tiles / turns) / 128 - 1));
  return turns * ((cycles + besides) * shared + waits) + first;
}

/* Rows by 64 to a warpgroup, their results in registers. */
static double cost_groups(const Cost *c, const Target *t, int64_t sms) {
  bool most = c->first.products > 2 || c->turned;
  int64_t blocks = c->rows / 64, groups = blocks == 4 ? 2 : blocks;
  int64_t kept = c->first.products == 1 ? c->kept : 0; /* chains are measured with theirs */
  if (!c->fits || blocks < 1 || blocks > 4 ||
      (c->registers + c->operand + kept) * (blocks / groups) +
              sched_other_registers(c->first.products) >
          sched_most_registers((int)groups, most))
    return -1;
  if (c->first.products > 1 && !target_has_shared(t, c->shared + BARRIER_BYTES))
    return -1; /* one stage would leave the tensor cores waiting for each */
  bool single = c->first.products == 1 && c->longest <= c->cycles * 1.05;
  return (single ? single_rounds : rounds)(c, sms, groups == 1 ? 1.12 : 1.0);
}

/* Small blocks share a multiprocessor; fewer than eight warps of them leave its tensor cores
 * waiting. Chained products are compared as those of warpgroups are. */
static double cost_warps(const Cost *c, const Target *t, int64_t sms) {
  CostWarps w;
  if (!cost_find_warps(c->k, t, &w))
    return -1;
  if (c->first.products > 1)
    return rounds(c, sms, 1.0);
  double each = ceil(tiles_of(c->b) / (double)sms);
  double warps = (each < w.blocks ? each : w.blocks) * w.warps;
  double busy = warps < 8 ? pow(warps / 8, 0.55) : 1;
  double tile = 2 * c->cycles + 800 + 1500 * (double)c->first.m * (double)c->first.n / 16384;
  return each * tile / busy * exp(0.08 * loads_of(&c->first));
}

double lower_cost(const IrKernel *k, const IrBinding *b, const Target *t, int64_t sms) {
  Cost c = cost_of_blocks(k, b);
  if (!c.first.size)
    return c.first.products == 1 ? cost_fma(k, t, c.rounds, tiles_of(b), sms) : -1;
  return t->arch < ARCH_SM90A ? cost_warps(&c, t, sms) : cost_groups(&c, t, sms);
}
