/* count.c: how many floating-point operations a launch does, and how many bytes it must move.
 *
 * In: a bound launch with tile-level IR. Out: figures for bench. Products count two operations a
 * step; elementwise operations and reductions one an element. Loops are counted by evaluating their
 * bounds for each block, so causal attention counts what it does, and attention over pages what its
 * tables of integers say. Always holds: bounds that are not known are not guessed; a `while`, or
 * one that depends on the points of a parallel loop or on what the kernel itself writes, makes the
 * count unknown (0). A condition that only a run knows counts as met. Tests:
 * tests/lang/bench_counts.tile.
 */
#include "kernel.h"

enum {
  MAX_BLOCKS = 1 << 14,
  MAX_STEPS = 1 << 16,
  MAX_ALL = 1 << 23,
  MOST_ALL = 1 << 25,
  MAX_FETCH = 1 << 20
};

typedef struct Count {
  const Launch *l;
  IrBinding *b;
  bool *known; /* by variable id: b->value has it */
  double flops;
  bool unknown;
  bool tables;  /* are read, for which a device may be waited for */
  uint64_t all; /* such iterations of all blocks */
  long steps;   /* iterations evaluated one by one, over all loops of the block */
  IrKind jump;  /* BREAK, CONTINUE or RETURN on its way; else LET */
} Count;

static void count_block(Count *c, const IrBlock *block, double times);

/* False where an expression depends on something that only a run knows. */
static bool number(const Count *c, const IrExpr *e, int64_t *out) {
  Scalar x;
  if (!e || !ir_known_eval(e, c->b, c->known, &x))
    return false;
  *out = scalar_convert(x, DT_I64).as.i;
  return true;
}

static void learn(Count *c, const IrVar *v, bool known, Scalar x) {
  c->known[v->id] = known;
  if (known)
    c->b->value[v->id] = x;
}

static void forget(IrVar **v, void *ctx) {
  Count *c = ctx;
  c->known[(*v)->id] = false;
}

/* Of a statement that runs or does not, or often: what it binds is not known behind it. */
static bool forget_defs(IrStmt *s, void *ctx) {
  ir_visit(s, &(IrVisitor){.def = forget, .ctx = ctx});
  return true;
}

static void forget_inside(Count *c, const IrBlock *b) {
  IrBlock block = *b;
  ir_walk(&block, forget_defs, c);
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
    c->known[m->index[i]->id] = false;
  }
  count_block(c, &m->body, times);
  forget_inside(c, &m->body);
  c->jump = IRK_LET; /* no more than a point ends */
}

/* How often a loop runs; unsigned, since the ends may be as far apart as integers go. */
static uint64_t loop_count(int64_t lo, int64_t hi, int64_t step) {
  if (step > 0 ? lo >= hi : lo <= hi)
    return 0;
  uint64_t far = step > 0 ? (uint64_t)hi - (uint64_t)lo : (uint64_t)lo - (uint64_t)hi;
  uint64_t by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
  return (far - 1) / by + 1;
}

/* False: the loop ends here, by `break` or with the block. */
static bool count_round(Count *c, const IrFor *f, double times) {
  count_block(c, &f->body, times);
  bool ends = c->jump == IRK_BREAK || c->jump == IRK_RETURN;
  if (c->jump != IRK_RETURN)
    c->jump = IRK_LET;
  return !ends;
}

/* All at once: of no round is known which it is. */
static void count_rounds(Count *c, const IrFor *f, double times) {
  c->steps = MAX_STEPS;
  c->known[f->index->id] = false;
  forget_inside(c, &f->body);
  (void)count_round(c, f, times);
  forget_inside(c, &f->body);
}

/* Each iteration by itself where inner bounds may depend on the index; not in large loops. */
static void count_loop(Count *c, const IrFor *f, double times) {
  int64_t lo, hi, step;
  if (!number(c, f->lo, &lo) || !number(c, f->hi, &hi) || !number(c, f->step, &step) || step == 0) {
    c->unknown = true;
    return;
  }
  uint64_t n = loop_count(lo, hi, step);
  if (n > (uint64_t)(MAX_STEPS - c->steps)) {
    count_rounds(c, f, times * (double)n);
    return;
  }
  c->steps += (int64_t)n;
  bool goes_on = true;
  for (uint64_t i = 0; i < n && goes_on; i++) {
    int64_t at = (int64_t)((uint64_t)lo + i * (uint64_t)step);
    learn(c, f->index, true, (Scalar){f->index->type, {.i = at}});
    goes_on = count_round(c, f, times);
  }
}

/* The branch is taken as it would be for this block and these loop indices. */
static void count_if(Count *c, const IrIf *f, double times) {
  Scalar x;
  if (ir_known_eval(f->cond, c->b, c->known, &x)) {
    count_block(c, x.as.i ? &f->then : &f->other, times);
    return;
  }
  count_block(c, &f->then, times); /* the longer way, as a rule */
  forget_inside(c, &f->then);
  forget_inside(c, &f->other);
  c->jump = IRK_LET;
}

/* Values that can be computed are remembered: later bounds may depend on them. */
static void count_let(Count *c, const IrStmt *s, double times) {
  Scalar x;
  c->flops += times * expr_flops(s->as.let.value, 0);
  bool known = ir_known_eval(s->as.let.value, c->b, c->known, &x);
  learn(c, s->as.let.var, known, x);
}

/* The tensor of a parameter that the kernel only reads and that is on the host, or small enough to
 * be fetched; NULL where it cannot be had. */
static const Tensor *table_of(const Count *c, const IrBuffer *b) {
  for (size_t i = 0; i < c->l->n && b->role == IRR_IN; i++) {
    const Tensor *t = c->l->tensor[i];
    if (c->l->ir->params.v[i].buf != b || !t || t->rank != b->rank)
      continue;
    bool small = tensor_count(t) <= MAX_FETCH;
    return (small || storage_on_host(t->storage)) && tensor_to_host(t, NULL) ? t : NULL;
  }
  return NULL;
}

/* Lengths, offsets and pages that bounds may depend on; elements of other types bound no loop. */
static void count_load(Count *c, const IrStmt *s) {
  const IrAccess *at = &s->as.access.at;
  bool table = c->tables && !dtype_is_float(at->buf->dtype);
  const Tensor *t = table ? table_of(c, at->buf) : NULL;
  int64_t index[IR_MAX_RANK];
  bool known = t != NULL;
  for (int i = 0; known && i < t->rank; i++)
    known = number(c, at->index[i], &index[i]) && index[i] >= 0 && index[i] < t->extent[i];
  learn(c, s->as.access.var, known, known ? tensor_get(t, index) : (Scalar){0});
}

static void count_roles(Count *c, const IrRoles *r, double times) {
  for (int i = 0; i < r->nroles; i++) {
    count_block(c, &r->role[i].body, times);
    c->jump = IRK_LET;
  }
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
    count_roles(c, &s->as.roles, times);
    break;
  case IRK_WHILE:
    c->unknown = true;
    break;
  case IRK_LOAD:
    count_load(c, s);
    break;
  case IRK_BREAK:
  case IRK_CONTINUE:
  case IRK_RETURN:
    c->jump = s->kind;
    break;
  default:
    break;
  }
}

/* times: how often the block runs for each run of the kernel's block. */
static void count_block(Count *c, const IrBlock *block, double times) {
  for (size_t i = 0; i < block->n && !c->unknown && c->jump == IRK_LET; i++) {
    IrKind kind = block->v[i]->kind;
    if (kind == IRK_ATOMIC || kind == IRK_REDUCE) /* bind what only a run knows */
      (void)forget_defs(block->v[i], c);
    count_stmt(c, block->v[i], times);
  }
}

/* One where the kernel states no grid. */
int64_t launch_blocks(const Launch *l) {
  int64_t n = 1;
  for (int i = 0; i < l->ir->grid_rank; i++)
    if (__builtin_mul_overflow(n, l->b->grid[i], &n))
      return INT64_MAX;
  return n;
}

static void count_one(Count *c, int64_t at) {
  const IrKernel *k = c->l->ir;
  for (int i = 0; i < k->grid_rank; at /= c->b->grid[i], i++)
    learn(c, k->grid_index[i], true, (Scalar){k->grid_index[i]->type, {.i = at % c->b->grid[i]}});
  c->steps = 0;
  c->jump = IRK_LET;
  count_block(c, &k->body, 1);
  c->all += (uint64_t)c->steps;
  c->unknown |= c->all > MOST_ALL; /* long blocks after a short first one */
}

/* What the call binds is known to begin with; each block binds the rest before it uses it. */
static bool *known_of(const IrKernel *k, Arena *a) {
  bool *known = ARENA_ARRAY(a, bool, k->vars.n + 1);
  for (size_t i = 0; i < k->vars.n; i++)
    known[i] = k->vars.v[i]->kind >= IRV_PARAM;
  for (size_t i = 0; i < k->pre.n; i++)
    known[k->pre.v[i]->as.let.var->id] = true;
  return known;
}

/* How many blocks are looked at: fewer where they are long, as the first is. */
static uint64_t count_blocks(Count *c, uint64_t blocks) {
  double flops = c->flops;
  count_one(c, 0);
  c->flops = flops;
  uint64_t most = MAX_ALL / (uint64_t)(c->steps + 1);
  most = most < MAX_BLOCKS ? most : MAX_BLOCKS;
  return blocks < most ? blocks : most;
}

/* At most 16384 blocks are looked at, evenly spread; the sum is scaled up. */
double launch_flops(const Launch *l, bool tables) {
  const IrKernel *k = l->ir;
  if (k->level != IR_TILE)
    return 0;
  Count c = {.l = l, .b = l->b, .tables = tables, .known = known_of(k, session_scratch(l->s))};
  uint64_t blocks = (uint64_t)launch_blocks(l), seen = 0;
  uint64_t stride = blocks > 0 ? (blocks - 1) / count_blocks(&c, blocks) + 1 : 1;
  for (uint64_t at = 0; at < blocks && !c.unknown; at += stride, seen++)
    count_one(&c, (int64_t)at);
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
