/* run.c: a launch: workers, blocks, agents that take turns, the first fault.
 *
 * In: a program and what it is bound to. Out: the outputs' elements, the kernel's prints in the
 * order of its blocks, or the fault of the lowest block that has one. Always holds: no block above
 * that one decides anything, and every block below it runs to its end. Blocks whose result hangs on
 * their order run one after the other; those that may wait for each other take turns.
 * Tests: tests/unit/check_eval.c.
 */
#include "run.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct EvalLaunch {
  EvalProgram *program;
  const IrBinding *binding;
  const EvalOptions *options;
  int64_t blocks;
  uint64_t first, stride; /* order of the blocks, when shaken */
  atomic_llong faulty;    /* lowest block with a fault; blocks where none has */
  atomic_int failed;      /* a Status: interrupted, out of memory */
  pthread_mutex_t mutex;  /* over what follows */
  EvalFault fault;
  int64_t fault_index[3];
  EvalCounters counters;
  struct Worker **worker; /* by worker number; made on first use */
  Arena *text;            /* prints and their table */
  Str *print;             /* by block */
};

typedef struct Worker {
  EvalBlock block;
  Arena *arena;
  void *memory; /* tiles, maps, frames, tables */
} Worker;

/* ---------------------------------------------------------------- polling */

EvalResult eval_run_poll(EvalAgent *a) {
  EvalLaunch *l = a->block->launch;
  const EvalOptions *o = l->options;
  if (o->interrupt && *o->interrupt) {
    atomic_store(&l->failed, ST_INTERRUPTED);
    return EVAL_FAULTED;
  }
  if (atomic_load_explicit(&l->faulty, memory_order_relaxed) < a->block->linear)
    return EVAL_FAULTED;
  if (o->max_steps && a->steps > o->max_steps)
    return eval_fault(a, E0458, "the limit of %llu steps a block is reached",
                      (unsigned long long)o->max_steps);
  return EVAL_OK;
}

static void keep_fault(EvalBlock *b) {
  EvalLaunch *l = b->launch;
  pthread_mutex_lock(&l->mutex);
  if (b->linear < atomic_load(&l->faulty)) {
    atomic_store(&l->faulty, b->linear);
    l->fault = b->fault;
    memcpy(l->fault_index, b->index, sizeof b->index);
  }
  pthread_mutex_unlock(&l->mutex);
}

/* ---------------------------------------------------------------- memory of a worker */

typedef struct Carve {
  char *at; /* NULL: only counting */
  size_t n;
} Carve;

static void *carve(Carve *c, size_t bytes) {
  void *p = c->at ? c->at + c->n : NULL;
  c->n += (bytes + 63) & ~(size_t)63;
  return p;
}

static int64_t dtype_bytes(const IrBuffer *b, bool stored) {
  return (int64_t)(stored ? dtype_size(b->dtype) : dtype_compute_size(b->dtype));
}

static void row_major(const int64_t *extent, int rank, int64_t *stride) {
  int64_t n = 1;
  for (int i = rank - 1; i >= 0; i--) {
    stride[i] = n;
    n *= extent[i];
  }
}

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
    eval_compute_store(p->constant[i].value, a->reg[p->constant[i].reg]);
  for (size_t i = 0; i < k->vars.n; i++)
    if (p->var[i] && k->vars.v[i]->kind != IRV_GRID) {
      Scalar x = a->block->binding->value[i];
      x.type = k->vars.v[i]->type;
      eval_compute_store(x, a->reg[p->var[i]]);
    }
  a->lanes = p->kernel->level == IR_THREAD ? EVAL_WARP : 1;
  a->pc = 0;
  eval_machine_run(a);
}

static void start_agent(EvalAgent *a) {
  const EvalProgram *p = a->block->program;
  const IrKernel *k = p->kernel;
  for (int i = 0; i < k->grid_rank; i++)
    if (k->grid_index[i]) {
      Scalar x = {.type = k->grid_index[i]->type, .as.i = a->block->index[i]};
      eval_compute_store(x, a->reg[p->var[k->grid_index[i]->id]]);
    }
  a->pc = p->start;
  a->state = AGENT_READY;
  a->steps = 0;
  a->mask = NULL;
  a->lanes = k->level == IR_THREAD ? EVAL_WARP : 1;
}

/* ---------------------------------------------------------------- workers */

static void lay_out(Worker *w, Carve *c) {
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

static void worker_free(Worker *w) {
  if (!w)
    return;
  free(w->memory);
  free(w->block.scratch);
  arena_free(w->arena);
  free(w);
}

static void prepare(Worker *w) {
  EvalBlock *b = &w->block;
  if (b->program->kernel->level == IR_THREAD) {
    b->device = eval_device_new(b);
    for (int i = 0; i < b->nagents; i++)
      b->agent[i].device = eval_device_agent(&b->agent[i], b->agent[i].array, b->program->narrays);
  }
  for (int i = 0; i < b->nagents; i++)
    prepare_agent(&b->agent[i]);
}

static int isa_of(EvalCpu cpu) {
  if (cpu == CPU_AUTO || !eval_cpu_runs(cpu))
    cpu = eval_cpu_best();
  return cpu == CPU_V4 ? OPS_V4 : cpu == CPU_V3 ? OPS_V3 : OPS_BASELINE;
}

static Worker *worker_new(EvalLaunch *l) {
  Worker *w = calloc(1, sizeof *w);
  if (!w)
    return NULL;
  EvalBlock *b = &w->block;
  *b = (EvalBlock){.program = l->program, .options = l->options, .binding = l->binding};
  b->launch = l;
  b->isa = isa_of(l->options->cpu);
  b->kernels = eval_kernels(l->options->cpu);
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

/* ---------------------------------------------------------------- a block */

static void start_block(EvalBlock *b, int64_t linear) {
  const EvalLaunch *l = b->launch;
  b->linear = linear;
  for (int i = 0; i < 3; i++) {
    int64_t n = l->binding->grid[i] > 0 ? l->binding->grid[i] : 1;
    b->index[i] = linear % n;
    linear /= n;
  }
  b->fault.set = false;
  b->random =
      l->options->shake ? l->options->shake * 0x9E3779B97F4A7C15u + (uint64_t)b->linear + 1 : 0;
  if (l->program->prints)
    *b->print = str_new(b->arena);
  if (b->device)
    eval_device_start(b);
  for (int i = 0; i < b->nagents; i++)
    start_agent(&b->agent[i]);
}

static void fault_deadlock(EvalBlock *b) {
  Str text = str_new(b->arena);
  EvalAgent *first = NULL;
  for (int i = 0; i < b->nagents; i++) {
    EvalAgent *a = &b->agent[i];
    if (a->state != AGENT_BLOCKED)
      continue;
    if (text.n)
      str_add(&text, "; ");
    str_addf(&text, "warp %d for ", a->id);
    eval_device_waits_for(a, &text);
    if (!first)
      first = a;
  }
  if (first)
    eval_fault(first, E0455, "deadlock: every warp that has not ended waits: %s", str_text(&text));
}

/* The next agent to run: round robin, or shaken any. */
static int pick(EvalBlock *b, int last) {
  if (!b->random)
    return (last + 1) % b->nagents;
  b->random ^= b->random << 13;
  b->random ^= b->random >> 7;
  b->random ^= b->random << 17;
  return (int)(b->random % (uint64_t)b->nagents);
}

/* Runs each agent that is ready until it waits; false when none is left that could. */
static bool run_agents(EvalBlock *b, EvalResult *result) {
  bool ran = false;
  int start = b->random ? pick(b, 0) : 0;
  for (int n = 0; n < b->nagents; n++) {
    EvalAgent *a = &b->agent[(start + n) % b->nagents];
    if (a->state == AGENT_DONE)
      continue;
    uint32_t pc = a->pc;
    uint64_t steps = a->steps;
    *result = eval_machine_run(a);
    if (*result == EVAL_FAULTED)
      return false;
    if (*result == EVAL_BLOCKED) {
      a->state = AGENT_BLOCKED;
      b->counters.barrier_waits += a->pc != pc || a->steps > steps + 1;
    }
    ran = ran || a->state == AGENT_DONE || a->pc != pc || a->steps > steps + 1;
  }
  return ran;
}

static bool all_done(const EvalBlock *b) {
  for (int i = 0; i < b->nagents; i++)
    if (b->agent[i].state != AGENT_DONE)
      return false;
  return true;
}

static EvalResult run_device_block(EvalBlock *b) {
  EvalResult result = EVAL_OK;
  while (!all_done(b)) {
    bool ran = run_agents(b, &result);
    if (result == EVAL_FAULTED)
      return result;
    if (ran)
      continue;
    if (eval_run_poll(&b->agent[0]) != EVAL_OK)
      return EVAL_FAULTED;
    if (!eval_device_progress(b)) {
      fault_deadlock(b);
      return EVAL_FAULTED;
    }
  }
  return eval_device_finish(b);
}

static void end_block(EvalBlock *b, EvalResult result) {
  EvalLaunch *l = b->launch;
  for (int i = 0; i < b->nagents; i++)
    b->counters.instructions += b->agent[i].steps;
  if (b->fault.set)
    keep_fault(b);
  else if (result == EVAL_FAULTED && !atomic_load(&l->failed) &&
           atomic_load(&l->faulty) >= b->linear)
    atomic_store(&l->failed, ST_FAIL);
  if (!l->program->prints || !b->print->n)
    return;
  pthread_mutex_lock(&l->mutex);
  l->print[b->linear] = str_new(l->text);
  str_addn(&l->print[b->linear], b->print->s, b->print->n);
  pthread_mutex_unlock(&l->mutex);
}

static bool skip(const EvalLaunch *l, int64_t linear) {
  return atomic_load(&l->failed) || atomic_load(&l->faulty) < linear;
}

static Worker *worker_of(EvalLaunch *l, size_t number) {
  if (!l->worker[number])
    l->worker[number] = worker_new(l);
  if (!l->worker[number])
    atomic_store(&l->failed, ST_NOMEM);
  return l->worker[number];
}

static void run_block(void *ctx, size_t i, int number) {
  EvalLaunch *l = ctx;
  int64_t linear = (int64_t)((l->first + i * l->stride) % (uint64_t)l->blocks);
  if (skip(l, linear))
    return;
  Worker *w = worker_of(l, (size_t)number);
  if (!w)
    return;
  EvalBlock *b = &w->block;
  start_block(b, linear);
  EvalResult result = b->device ? run_device_block(b) : eval_machine_run(&b->agent[0]);
  end_block(b, result);
}

/* ---------------------------------------------------------------- blocks that take turns */

static bool turn(EvalLaunch *l, EvalBlock *b, bool *moved) {
  EvalAgent *a = &b->agent[0];
  uint64_t effects = a->effects;
  EvalResult result = b->device ? run_device_block(b) : eval_machine_run(a);
  *moved = *moved || result != EVAL_BLOCKED || a->effects != effects;
  if (result == EVAL_BLOCKED)
    return true;
  end_block(b, result);
  (void)l;
  return false;
}

static void run_turns(EvalLaunch *l) {
  bool *live = calloc((size_t)l->blocks, sizeof *live);
  int64_t left = l->blocks;
  for (int64_t i = 0; live && i < l->blocks; i++) {
    if (!worker_of(l, (size_t)i))
      break;
    live[i] = true;
    start_block(&l->worker[i]->block, i);
  }
  while (live && left && !atomic_load(&l->failed)) {
    bool moved = false;
    EvalBlock *waiting = NULL;
    for (int64_t i = 0; i < l->blocks; i++) {
      if (!live[i])
        continue;
      if (skip(l, i) || !turn(l, &l->worker[i]->block, &moved)) {
        live[i] = false;
        left--;
        moved = true;
      } else if (!waiting) {
        waiting = &l->worker[i]->block;
      }
    }
    if (!moved && waiting) {
      eval_fault(&waiting->agent[0], E0455, "deadlock: every block that has not ended waits");
      keep_fault(waiting);
      break;
    }
  }
  if (!live)
    atomic_store(&l->failed, ST_NOMEM);
  free(live);
}

/* ---------------------------------------------------------------- the launch */

static void set_order(EvalLaunch *l) {
  l->stride = 1;
  uint64_t n = (uint64_t)l->blocks, seed = l->options->shake;
  if (!seed || n < 2)
    return;
  l->first = seed % n;
  l->stride = 1 + (seed / n) % (n - 1);
  for (;; l->stride++) { /* coprime with n */
    uint64_t x = l->stride, y = n;
    while (y) {
      uint64_t t = x % y;
      x = y;
      y = t;
    }
    if (x == 1)
      return;
  }
}

static void run_all(EvalLaunch *l) {
  const EvalProgram *p = l->program;
  if (p->interleave) {
    run_turns(l);
    return;
  }
  if (l->options->pool && !p->in_order && l->blocks > 1) {
    pool_run(l->options->pool, (size_t)l->blocks, run_block, l);
    return;
  }
  for (int64_t i = 0; i < l->blocks && !atomic_load(&l->failed); i++)
    run_block(l, (size_t)i, 0);
}

static void report_fault(EvalLaunch *l, DiagSink *sink) {
  const EvalFault *f = &l->fault;
  const IrKernel *k = l->program->kernel;
  const char *where = "";
  const int64_t *i = l->fault_index;
  if (k->grid_rank == 1)
    where = arena_printf(sink->arena, ", in block %lld", (long long)i[0]);
  else if (k->grid_rank == 2)
    where = arena_printf(sink->arena, ", in block (%lld, %lld)", (long long)i[0], (long long)i[1]);
  else if (k->grid_rank == 3)
    where = arena_printf(sink->arena, ", in block (%lld, %lld, %lld)", (long long)i[0],
                         (long long)i[1], (long long)i[2]);
  Diag *d = diag_add(sink, f->code, f->span, "%s%s", f->text, where);
  if (f->hint[0])
    diag_hint(sink, d, "%s", f->hint);
}

static void flush_prints(EvalLaunch *l) {
  FILE *out = l->options->print ? l->options->print : stdout;
  int64_t last = atomic_load(&l->faulty);
  for (int64_t i = 0; l->print && i < l->blocks && i <= last; i++)
    if (l->print[i].n)
      io_write(out, l->print[i].s, l->print[i].n);
}

static void add_counters(EvalCounters *to, const EvalCounters *from) {
  to->bank_conflicts += from->bank_conflicts;
  to->shared_accesses += from->shared_accesses;
  to->sectors += from->sectors;
  to->barrier_waits += from->barrier_waits;
  to->instructions += from->instructions;
}

/* Shared memory of a tile-level kernel, as a target would hold it. */
static bool check_shared(const EvalLaunch *l, DiagSink *sink) {
  size_t limit = l->options->shared_limit, bytes = 0;
  const IrKernel *k = l->program->kernel;
  if (!limit || k->level == IR_THREAD)
    return true;
  Str list = str_new(sink->arena);
  for (size_t i = 0; i < k->buffers.n; i++) {
    const IrBuffer *b = k->buffers.v[i];
    if (b->space != IRS_SHARED)
      continue;
    int64_t n = (int64_t)dtype_size(b->dtype), extent;
    for (int d = 0; d < b->rank; d++)
      if (ir_is_const(b->extent[d], &extent))
        n *= extent;
    bytes += (size_t)n;
    str_addf(&list, "%s%s %lld bytes", list.n ? ", " : "", b->name, (long long)n);
  }
  if (bytes <= limit)
    return true;
  diag_add(sink, E0461, k->span, "the shared tiles take %zu bytes, the target has %zu: %s", bytes,
           limit, str_text(&list));
  return false;
}

static Status outcome(EvalLaunch *l, DiagSink *sink) {
  int failed = atomic_load(&l->failed);
  if (failed)
    return (Status)failed;
  if (atomic_load(&l->faulty) < l->blocks) {
    report_fault(l, sink);
    return ST_FAIL;
  }
  return ST_OK;
}

Status eval_run(EvalProgram *p, const IrBinding *binding, const EvalOptions *o, DiagSink *sink) {
  EvalLaunch l = {.program = p, .binding = binding, .options = o, .blocks = 1};
  for (int i = 0; i < 3; i++)
    if (__builtin_mul_overflow(l.blocks, binding->grid[i], &l.blocks))
      return ST_NOMEM;
  if (!check_shared(&l, sink))
    return ST_FAIL;
  if (l.blocks <= 0)
    return ST_OK;
  atomic_init(&l.faulty, l.blocks);
  atomic_init(&l.failed, 0);
  size_t workers = p->interleave ? (size_t)l.blocks : (size_t)(o->pool ? pool_threads(o->pool) : 1);
  l.worker = calloc(workers, sizeof *l.worker);
  if (!l.worker)
    return ST_NOMEM;
  if (p->prints) {
    l.text = arena_new(NULL, "prints");
    l.print = ARENA_ARRAY(l.text, Str, l.blocks);
  }
  pthread_mutex_init(&l.mutex, NULL);
  set_order(&l);
  run_all(&l);
  flush_prints(&l);
  for (size_t i = 0; i < workers; i++) {
    if (l.worker[i] && o->counters)
      add_counters(o->counters, &l.worker[i]->block.counters);
    worker_free(l.worker[i]);
  }
  Status status = outcome(&l, sink);
  pthread_mutex_destroy(&l.mutex);
  arena_free(l.text);
  free(l.worker);
  return status;
}
