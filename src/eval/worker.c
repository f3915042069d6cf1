/* worker.c: what one worker needs for the blocks it runs, made once a launch.
 *
 * In: a launch. Out: a block with its tiles, agents and registers in one piece of memory, constants
 * and bound variables in place. Always holds: running a block allocates nothing but the scratch of
 * tile operations, which is kept.
 * The code before the program's start runs here, once an agent: constants spread over lanes, and
 * what follows from the launch's extents alone.
 * Tests: tests/unit/check_eval.c, tests/unit/check_scheduled.c.
 */
#include <stdlib.h>

#include "run.h"
#include "sched.h"

/* ---------------------------------------------------------------- memory of a worker */

typedef struct Carve {
  char *at; /* NULL: only counting */
  size_t n;
} Carve;

/* Called twice with the same requests: first to count, then to hand out. */
static void *carve(Carve *c, size_t bytes) {
  void *p = c->at ? c->at + c->n : NULL;
  c->n += (bytes + 63) & ~(size_t)63;
  return p;
}

/* Where it lies: as stored, or in compute form. */
static int64_t dtype_bytes(const IrBuffer *b, bool stored) {
  return (int64_t)(stored ? dtype_size(b->dtype) : dtype_compute_size(b->dtype));
}

/* Strides of a contiguous tensor. */
static void row_major(const int64_t *extent, int rank, int64_t *stride) {
  int64_t n = 1;
  for (int i = rank - 1; i >= 0; i--) {
    stride[i] = n;
    n *= extent[i];
  }
}

/* Views keep their strides; what was written is known by row-major place. */
static void mem_global(EvalMem *m, const IrTensorArg *t) {
  m->data = t->data;
  m->stored = true;
  m->map = t->written;
  m->state = t->written ? WRITTEN_PARTLY : WRITTEN_ALL;
  m->count = 1;
  for (int i = 0; i < m->rank; i++) {
    m->extent[i] = t->extent[i];
    m->stride[i] = t->stride[i];
    m->count *= t->extent[i];
  }
}

/* At thread level the program sees bytes; above it elements in compute form. */
static void mem_tile(EvalBlock *b, EvalMem *m, char *tiles, uint8_t *maps) {
  const EvalProgram *p = b->program;
  m->count = 1;
  for (int i = 0; i < m->rank; i++) {
    ir_is_const(m->buf->extent[i], &m->extent[i]);
    m->count *= m->extent[i];
  }
  row_major(m->extent, m->rank, m->stride);
  if (p->kernel->level == IR_THREAD) {
    m->stored = true;
    m->data = b->shared + m->buf->offset;
    m->state = WRITTEN_ALL;
    return;
  }
  const EvalTileInfo *t = &p->tile[m->buf->id];
  m->data = tiles + t->offset;
  m->map = b->options->checks == CHECKS_NONE ? NULL : maps + t->map_offset;
}

/* Once a worker: tiles keep their places from block to block. */
static void set_memory(EvalBlock *b, char *tiles, uint8_t *maps) {
  IrKernel *k = b->program->kernel;
  for (size_t i = 0; i < k->buffers.n; i++) {
    const IrBuffer *buf = k->buffers.v[i];
    EvalMem *m = &b->mem[i];
    *m = (EvalMem){.buf = buf, .dtype = buf->dtype, .rank = buf->rank};
    if (buf->space == IRS_GLOBAL)
      mem_global(m, &b->binding->tensor[buf->id]);
    else if (buf->space == IRS_SHARED || buf->space == IRS_FRAGMENT)
      mem_tile(b, m, tiles, maps);
    m->size = (size_t)dtype_bytes(buf, m->stored);
    row_major(m->extent, m->rank, m->map_stride);
  }
}

/* As the host would encode them for the launch. */
static void set_tmaps(EvalBlock *b) {
  IrKernel *k = b->program->kernel;
  for (size_t i = 0; i < k->tmaps.n; i++) {
    const IrTmap *t = k->tmaps.v[i];
    EvalTmap *x = &b->tmap[i];
    *x = (EvalTmap){.ir = t, .mem = &b->mem[t->buf->id]};
    for (int d = 0; d < t->rank; d++) {
      Scalar s;
      if (t->dim[d] && ir_host_eval(t->dim[d], b->binding, &s))
        x->dim[d] = s.as.i;
      if (d && t->stride[d] && ir_host_eval(t->stride[d], b->binding, &s))
        x->stride[d] = s.as.i;
    }
    x->stride[0] = (int64_t)dtype_size(t->buf->dtype);
  }
}

/* ---------------------------------------------------------------- agents */

/* Registers are pointers, so that a load can point into a tile. */
static void set_agent(EvalAgent *a, Carve *c) {
  EvalBlock *b = a->block;
  const EvalProgram *p = b->program;
  a->reg = carve(c, p->nregs * sizeof *a->reg);
  a->array = carve(c, (size_t)p->narrays * sizeof *a->array);
  a->offsets = carve(c, (size_t)p->lanes * sizeof *a->offsets);
  a->scratch = carve(c, (size_t)p->lanes * 8);
  a->map = carve(c, sizeof *a->map);
  a->frame = carve(c, p->frame);
  if (!c->at)
    return;
  for (size_t i = 0; i < p->nregs; i++)
    a->reg[i] = a->frame + p->home[i];
  for (int i = 0; i < p->narrays; i++)
    a->array[i] = (EvalArray){.buf = p->array[i].buf,
                              .count = (int)p->array[i].count,
                              .data = a->frame + p->array[i].offset,
                              .written = (uint8_t *)a->frame + p->array[i].written_offset};
}

/* What the launch fixes: constants, bound variables, and what is computed from them once. */
static void prepare_agent(EvalAgent *a) {
  const EvalProgram *p = a->block->program;
  const IrKernel *k = p->kernel;
  for (size_t i = 0; i < p->nconstants; i++)
    scalar_store_compute(p->constant[i].value, a->reg[p->constant[i].reg]);
  for (size_t i = 0; i < k->vars.n; i++)
    if (p->var[i] && k->vars.v[i]->kind != IRV_GRID) {
      Scalar x = a->block->binding->value[i];
      x.type = k->vars.v[i]->type;
      scalar_store_compute(x, a->reg[p->var[i]]);
    }
  a->lanes = p->kernel->level == IR_THREAD ? EVAL_WARP : 1;
  a->pc = 0;
  eval_machine_run(a);
}

/* Only what differs between blocks. */
void eval_agent_start(EvalAgent *a) {
  const EvalProgram *p = a->block->program;
  const IrKernel *k = p->kernel;
  for (int i = 0; i < k->grid_rank; i++)
    if (k->grid_index[i]) {
      Scalar x = {.type = k->grid_index[i]->type, .as.i = a->block->index[i]};
      scalar_store_compute(x, a->reg[p->var[k->grid_index[i]->id]]);
    }
  a->pc = p->start;
  a->state = AGENT_READY;
  a->steps = 0;
  a->mask = NULL;
  a->lanes = k->level == IR_THREAD ? EVAL_WARP : 1;
}

/* ---------------------------------------------------------------- workers */

/* Everything of a worker in one allocation: near together, freed at once. */
static void lay_out(EvalWorker *w, Carve *c) {
  EvalBlock *b = &w->block;
  const EvalProgram *p = b->program;
  const IrKernel *k = p->kernel;
  bool thread = k->level == IR_THREAD;
  b->nagents = p->agents;
  b->mem = carve(c, k->buffers.n * sizeof *b->mem);
  b->tmap = carve(c, k->tmaps.n * sizeof *b->tmap);
  b->agent = carve(c, (size_t)p->agents * sizeof *b->agent);
  b->print = carve(c, sizeof *b->print);
  b->shared = carve(c, thread ? (size_t)k->shared_bytes : 0);
  char *tiles = carve(c, p->tile_bytes);
  uint8_t *maps = carve(c, p->map_bytes);
  EvalAgent none = {.block = b};
  for (int i = 0; i < p->agents; i++) {
    if (c->at)
      b->agent[i] = (EvalAgent){.block = b, .id = i};
    set_agent(c->at ? &b->agent[i] : &none, c);
  }
  if (c->at) {
    set_memory(b, tiles, maps);
    set_tmaps(b);
  }
}

/* Devices live in the arena. */
void eval_worker_free(EvalWorker *w) {
  if (!w)
    return;
  free(w->memory);
  free(w->block.scratch);
  arena_free(w->arena);
  free(w);
}

/* Devices first: the code that runs once an agent may already use its registers. */
static void prepare(EvalWorker *w) {
  EvalBlock *b = &w->block;
  if (b->program->kernel->level == IR_THREAD) {
    b->device = eval_device_new(b);
    for (int i = 0; i < b->nagents; i++)
      b->agent[i].device = eval_device_agent(&b->agent[i], b->agent[i].array, b->program->narrays);
  }
  for (int i = 0; i < b->nagents; i++)
    prepare_agent(&b->agent[i]);
  if (b->program->sched)
    b->sched = eval_sched_new(b);
}

/* Lack of memory is a status of the launch, never an exit. */
EvalWorker *eval_worker_new(EvalLaunch *l) {
  EvalWorker *w = calloc(1, sizeof *w);
  if (!w)
    return NULL;
  EvalBlock *b = &w->block;
  *b = (EvalBlock){.program = l->program, .options = l->options, .binding = l->binding};
  b->launch = l;
  b->isa = op_isa_choose(l->options->isa);
  b->kernels = eval_kernels(b->isa);
  Carve c = {0};
  lay_out(w, &c);
  w->memory = calloc(1, c.n + 64);
  if (!w->memory) {
    free(w);
    return NULL;
  }
  c = (Carve){.at = (char *)(((uintptr_t)w->memory + 63) & ~(uintptr_t)63)};
  lay_out(w, &c);
  w->arena = arena_new(NULL, "evaluator");
  b->arena = w->arena;
  prepare(w);
  return w;
}

/* Grows and stays: after the first tile operation nothing is allocated. */
void *eval_block_scratch(EvalBlock *b, size_t n) {
  if (n <= b->scratch_size)
    return b->scratch;
  free(b->scratch);
  b->scratch_size = 0;
  b->scratch = aligned_alloc(64, (n + 63) & ~(size_t)63);
  if (b->scratch)
    b->scratch_size = n;
  return b->scratch;
}
