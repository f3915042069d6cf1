/* count.c: how many floating-point operations a launch does, and how many bytes it must move.
 *
 * In: a bound launch with tile-level IR. Out: figures for bench. Products count two operations a
 * step; elementwise operations and reductions one an element. Loops are counted by evaluating their
 * bounds for each block, so causal attention counts what it does. A `while` or a bound that depends
 * on memory makes the count unknown (0). Tests: tests/unit/check_session.c.
 */
#include "kernel.h"

enum { MAX_BLOCKS = 1 << 14, MAX_STEPS = 1 << 16 };

typedef struct Count {
  IrBinding *b;
  double flops;
  bool unknown;
  long steps; /* iterations evaluated one by one, over all loops of the block */
} Count;

static void count_block(Count *c, const IrBlock *block, double times);

/* False where an expression depends on something that only a run knows. */
static bool number(const Count *c, const IrExpr *e, int64_t *out) {
  Scalar x;
  if (!e || !ir_host_eval(e, c->b, &x))
    return false;
  *out = scalar_convert(x, DT_I64).as.i;
  return true;
}

/* Floating-point operations in an expression. */
static double expr_flops(const IrExpr *e, int depth) {
  double n = 0;
  if (depth > 64)
    return 0;
  for (int i = 0; i < e->nargs; i++)
    n += expr_flops(e->arg[i], depth + 1);
  bool counts = e->nargs > 0 && dtype_is_float(e->type) && e->op != OP_CAST && e->op != OP_SELECT &&
                e->op != OP_BITCAST;
  return n + (counts ? e->op == OP_FMA ? 2 : 1 : 0);
}

/* Elements that a reduction or scan reads. */
static double region_size(const IrRegion *r) {
  double n = 1;
  for (int i = 0; i < ir_region_rank(r); i++)
    n *= (double)ir_region_extent(r, i);
  return n;
}

/* A multiplication and an addition for each step of each element. */
static void count_dot(Count *c, const IrDot *d, double times) {
  double m = (double)ir_region_extent(&d->c, 0), n = (double)ir_region_extent(&d->c, 1);
  c->flops += times * 2 * m * n * (double)ir_region_extent(&d->a, 1);
}

/* Axes multiply: a map of 64 by 32 points does its body 2048 times. */
static void count_map(Count *c, const IrMap *m, double times) {
  for (int i = 0; i < m->naxes; i++) {
    int64_t n = 0;
    if (!number(c, m->extent[i], &n))
      c->unknown = true;
    times *= n > 0 ? (double)n : 0;
  }
  count_block(c, &m->body, times);
}

/* How often a loop runs; unsigned, since the ends may be as far apart as integers go. */
static uint64_t loop_count(int64_t lo, int64_t hi, int64_t step) {
  if (step > 0 ? lo >= hi : lo <= hi)
    return 0;
  uint64_t far = step > 0 ? (uint64_t)hi - (uint64_t)lo : (uint64_t)lo - (uint64_t)hi;
  uint64_t by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
  return (far - 1) / by + 1;
}

/* Each iteration by itself where inner bounds may depend on the index; all at once in large loops.
 */
static void count_loop(Count *c, const IrFor *f, double times) {
  int64_t lo, hi, step;
  if (!number(c, f->lo, &lo) || !number(c, f->hi, &hi) || !number(c, f->step, &step) || step == 0) {
    c->unknown = true;
    return;
  }
  Scalar *index = &c->b->value[f->index->id];
  uint64_t n = loop_count(lo, hi, step);
  if (n > (uint64_t)(MAX_STEPS - c->steps)) {
    *index = (Scalar){f->index->type, {.i = lo}};
    c->steps = MAX_STEPS;
    count_block(c, &f->body, times * (double)n);
    return;
  }
  c->steps += (int64_t)n;
  for (uint64_t i = 0; i < n; i++) {
    *index = (Scalar){f->index->type, {.i = (int64_t)((uint64_t)lo + i * (uint64_t)step)}};
    count_block(c, &f->body, times);
  }
}

/* The branch is taken as it would be for this block and these loop indices. */
static void count_if(Count *c, const IrIf *f, double times) {
  Scalar x;
  if (!ir_host_eval(f->cond, c->b, &x)) { /* depends on memory: count the longer way */
    count_block(c, &f->then, times);
    return;
  }
  count_block(c, x.as.i ? &f->then : &f->other, times);
}

/* Values that can be computed are remembered: later bounds may depend on them. */
static void count_let(Count *c, const IrStmt *s, double times) {
  Scalar x;
  c->flops += times * expr_flops(s->as.let.value, 0);
  if (ir_host_eval(s->as.let.value, c->b, &x))
    c->b->value[s->as.let.var->id] = x;
}

/* Copies move bytes and do no arithmetic. */
static void count_stmt(Count *c, const IrStmt *s, double times) {
  switch (s->kind) {
  case IRK_LET:
  case IRK_SET:
    count_let(c, s, times);
    break;
  case IRK_STORE:
    c->flops += times * expr_flops(s->as.access.value, 0);
    break;
  case IRK_FOR:
    count_loop(c, &s->as.loop, times);
    break;
  case IRK_IF:
    count_if(c, &s->as.if_, times);
    break;
  case IRK_MAP:
    count_map(c, &s->as.map, times);
    break;
  case IRK_DOT:
    count_dot(c, &s->as.dot, times);
    break;
  case IRK_REDUCE:
    c->flops += times * region_size(&s->as.reduce.src);
    break;
  case IRK_SCAN:
    c->flops += times * region_size(&s->as.scan.src);
    break;
  case IRK_ROLES:
    for (int i = 0; i < s->as.roles.nroles; i++)
      count_block(c, &s->as.roles.role[i].body, times);
    break;
  case IRK_WHILE:
    c->unknown = true;
    break;
  default:
    break;
  }
}

/* times: how often the block runs for each run of the kernel's block. */
static void count_block(Count *c, const IrBlock *block, double times) {
  for (size_t i = 0; i < block->n && !c->unknown; i++)
    count_stmt(c, block->v[i], times);
}

/* One where the kernel states no grid. */
int64_t launch_blocks(const Launch *l) {
  int64_t n = 1;
  for (int i = 0; i < l->ir->grid_rank; i++)
    if (__builtin_mul_overflow(n, l->b->grid[i], &n))
      return INT64_MAX;
  return n;
}

/* At most 16384 blocks are looked at, evenly spread; the sum is scaled up. */
double launch_flops(const Launch *l) {
  const IrKernel *k = l->ir;
  Count c = {.b = l->b};
  if (k->level != IR_TILE)
    return 0;
  uint64_t blocks = (uint64_t)launch_blocks(l), stride = blocks / MAX_BLOCKS + 1, seen = 0;
  for (uint64_t at = 0; at < blocks && !c.unknown; at += stride, seen++) {
    int64_t rest = (int64_t)at;
    for (int i = 0; i < k->grid_rank; rest /= l->b->grid[i], i++)
      l->b->value[k->grid_index[i]->id] =
          (Scalar){k->grid_index[i]->type, {.i = rest % l->b->grid[i]}};
    c.steps = 0;
    count_block(&c, &k->body, 1);
  }
  return c.unknown || seen == 0 ? 0 : c.flops * ((double)blocks / (double)seen);
}

/* A lower bound of what must move: caches may hide more, nothing can need less. */
double launch_bytes(const Launch *l) {
  double n = 0;
  for (size_t i = 0; i < l->n; i++) {
    const IrBuffer *b = l->ir->params.v[i].buf;
    if (b && b->role != IRR_SCRATCH)
      n += (double)tensor_count(l->tensor[i]) * (double)dtype_size(b->dtype) *
           (b->role == IRR_INOUT ? 2 : 1);
  }
  return n;
}
