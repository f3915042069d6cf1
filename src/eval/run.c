/* run.c: a launch: workers, blocks, agents that take turns, the first fault.
 *
 * In: a program and what it is bound to. Out: the outputs' elements, the kernel's prints in the
 * order of its blocks, or the fault of the lowest block that has one. Always holds: no block above
 * that one decides anything, and every block below it runs to its end. Blocks whose result hangs on
 * their order run one after the other; those that may wait for each other take turns.
 * A worker has one block at a time and keeps its memory from block to block. Faults are ordered: a
 * block is skipped only when a lower one has a fault, so the fault that is reported does not depend
 * on the number of threads. Agents of one block run on one thread, in turns, each until it waits;
 * blocks that may wait for each other do the same one level up. Tests: tests/unit/check_eval.c.
 */
#include "race.h"
#include "sched.h"
#include "noise.h"
#include "watch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { SEGMENT = 1 << 20 };

/* ---------------------------------------------------------------- polling */

/* Cheap enough for every jump backwards: two loads and a comparison. */
EvalResult eval_run_poll(EvalAgent *a) {
  EvalLaunch *l = a->block->launch;
  const EvalOptions *o = l->options;
  if (o->interrupt && *o->interrupt) {
    atomic_store(&l->failed, ST_INTERRUPTED);
    return EVAL_FAULTED;
  }
  if (atomic_load_explicit(&l->faulty, memory_order_relaxed) < a->block->linear)
    return EVAL_FAULTED;
  if (o->max_steps && a->steps > o->max_steps) {
    atomic_store(&l->failed, ST_FAIL);
    return EVAL_FAULTED;
  }
  return EVAL_OK;
}

/* The lowest block's fault wins, whoever comes first. */
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

/* ---------------------------------------------------------------- a block */

/* Tiles need nothing: their ALLOCs run again. */
void eval_block_start(EvalBlock *b, int64_t linear) {
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
  if (!b->print->arena)
    *b->print = str_new(b->arena);
  str_clear(b->print);
  if (b->device)
    eval_device_start(b);
  b->races = l->races;
  b->watch = l->watch;
  eval_noise_start(b);
  if (b->races)
    eval_races_start(b);
  for (int i = 0; i < b->nagents; i++)
    eval_agent_start(&b->agent[i]);
  if (b->sched)
    eval_sched_start(b);
}

/* The next agent to run: round robin, or shaken any. */
static int pick(EvalBlock *b, int last) {
  if (!b->random)
    return (last + 1) % b->nagents;
  return (int)(eval_random(&b->random) % (uint64_t)b->nagents);
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
    if (b->sched)
      eval_sched_enter(a);
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

/* The block has ended when all its agents have. */
bool eval_block_done(const EvalBlock *b) {
  for (int i = 0; i < b->nagents; i++)
    if (b->agent[i].state != AGENT_DONE)
      return false;
  return true;
}

/* Asynchronous operations complete only when nobody can run: as late as the waits allow. Where
 * blocks wait for each other it is the others' turn as soon as a warp does. */
static EvalResult run_device_block(EvalBlock *b) {
  EvalResult result = EVAL_OK;
  b->turn_over = false;
  while (!eval_block_done(b)) {
    bool ran = run_agents(b, &result);
    if (result == EVAL_FAULTED)
      return result;
    if (b->turn_over)
      return EVAL_BLOCKED;
    if (ran)
      continue;
    if (eval_run_poll(&b->agent[0]) != EVAL_OK)
      return EVAL_FAULTED;
    if (!eval_device_progress(b))
      return eval_device_deadlock(b);
  }
  return eval_device_finish(b);
}

/* Roles take turns until all wait for each other. */
static EvalResult run_roles(EvalBlock *b) {
  EvalResult result = EVAL_OK;
  while (!eval_block_done(b)) {
    bool ran = run_agents(b, &result);
    if (result == EVAL_FAULTED || eval_run_poll(&b->agent[0]) != EVAL_OK)
      return EVAL_FAULTED;
    if (!ran)
      return eval_sched_deadlock(b);
  }
  return EVAL_OK;
}

/* However many agents it has. A block whose only agent waits, waits for another block. */
static EvalResult run_whole(EvalBlock *b) {
  if (b->device)
    return run_device_block(b);
  if (b->nagents > 1)
    return run_roles(b);
  if (b->sched)
    eval_sched_enter(&b->agent[0]);
  EvalResult result = eval_machine_run(&b->agent[0]);
  if (result != EVAL_BLOCKED || b->program->interleave || !b->sched)
    return result;
  b->agent[0].state = AGENT_BLOCKED;
  return eval_sched_deadlock(b);
}

/* A block stopped for another's sake has nothing to report. */
static void end_block(EvalBlock *b, EvalResult result) {
  EvalLaunch *l = b->launch;
  for (int i = 0; i < b->nagents; i++)
    b->counters.instructions += b->agent[i].steps;
  if (b->fault.set)
    keep_fault(b);
  else if (result == EVAL_FAULTED && !atomic_load(&l->failed) &&
           atomic_load(&l->faulty) >= b->linear)
    atomic_store(&l->failed, ST_FAIL);
  if (l->program->prints)
    eval_print_end(b);
}

/* Blocks above a fault cannot change the outcome any more. */
static bool skip(EvalLaunch *l, int64_t linear) {
  const EvalOptions *o = l->options;
  if (o->interrupt && *o->interrupt)
    atomic_store(&l->failed, ST_INTERRUPTED);
  return atomic_load(&l->failed) || atomic_load(&l->faulty) < linear;
}

/* Made by the worker itself, in memory near to it. */
EvalWorker *eval_launch_worker(EvalLaunch *l, size_t number) {
  if (!l->worker[number])
    l->worker[number] = eval_worker_new(l);
  if (!l->worker[number])
    atomic_store(&l->failed, ST_NOMEM);
  return l->worker[number];
}

/* One block from start to end on this worker. */
static void run_linear(EvalLaunch *l, int64_t linear, int number) {
  if (skip(l, linear))
    return;
  EvalWorker *w = eval_launch_worker(l, (size_t)number);
  if (!w)
    return;
  EvalBlock *b = &w->block;
  eval_block_start(b, linear);
  EvalResult result = run_whole(b);
  end_block(b, result);
  atomic_fetch_add(&l->ran, 1);
}

/* The i-th block in the launch's order. */
static void run_block(void *ctx, size_t i, int number) {
  EvalLaunch *l = ctx;
  int64_t linear = (int64_t)((l->first + i * l->stride) % (uint64_t)l->blocks);
  if (!l->first_done || linear != 0)
    run_linear(l, linear, number);
}

/* ---------------------------------------------------------------- a budget of time */

/* The i-th of the sample. */
static void run_chosen(void *ctx, size_t i, int number) {
  EvalLaunch *l = ctx;
  run_linear(l, l->chosen[i], number);
}

/* Each block once. */
static void choose(EvalLaunch *l, size_t *n, int64_t linear) {
  if (linear == 0)
    return; /* it ran */
  for (size_t i = 0; i < *n; i++)
    if (l->chosen[i] == linear)
      return;
  l->chosen[(*n)++] = linear;
}

/* Blocks race with those beside them more than with others. */
static void choose_neighbours(EvalLaunch *l, size_t *n) {
  size_t first = *n;
  for (size_t i = 0; i <= first; i++) {
    int64_t linear = i < first ? l->chosen[i] : 0, step = 1;
    for (int d = 0; d < 3; step *= l->binding->grid[d++])
      if (l->binding->grid[d] > 1 && step < l->blocks - linear)
        choose(l, n, linear + step);
  }
}

/* First, middle and last along each axis, and 8 anywhere. */
static size_t choose_blocks(EvalLaunch *l) {
  const int64_t *grid = l->binding->grid;
  size_t n = 0;
  uint64_t x = 0x9E3779B97F4A7C15u + l->options->shake;
  for (int p = 0; p < 27; p++) {
    int64_t at[3] = {p % 3, p / 3 % 3, p / 9};
    int middles = (at[0] == 1) + (at[1] == 1) + (at[2] == 1);
    int64_t linear = 0;
    for (int d = 2; d >= 0; d--)
      linear = linear * grid[d] + at[d] * (grid[d] - 1) / 2;
    if (middles <= 1)
      choose(l, &n, linear);
  }
  for (int i = 0; i < 8; i++)
    choose(l, &n, (int64_t)(eval_random(&x) % (uint64_t)l->blocks));
  if (l->races)
    choose_neighbours(l, &n);
  return n;
}

/* Runs block 0 by itself. Where the others would take too long, also those chosen for it, and true:
 * that was all. What else the machine does has no part in it. */
static bool run_within_budget(EvalLaunch *l) {
  const EvalOptions *o = l->options;
  int64_t room[160]; /* 27 and 8, and three neighbours of each and of block 0 */
  double start = base_worked();
  run_linear(l, 0, 0);
  l->first_done = true;
  Pool *pool = l->serial ? NULL : o->pool;
  int threads = pool ? pool_threads(pool) : 1;
  if ((base_worked() - start) * (double)l->blocks / threads <= o->budget)
    return false;
  l->chosen = room;
  size_t n = choose_blocks(l);
  if (pool)
    pool_run(pool, n, run_chosen, l);
  for (size_t i = 0; !pool && i < n; i++)
    run_chosen(l, i, 0);
  l->chosen = NULL;
  return true;
}

/* ---------------------------------------------------------------- blocks that take turns */

/* Until it ends or waits. Warps that wait also store what one of them has seen, so that at thread
 * level a look cannot be told from a step: there a deadlock ends at an interrupt. */
bool eval_block_turn(EvalBlock *b, bool *moved) {
  EvalAgent *a = &b->agent[0];
  uint64_t effects = a->effects;
  EvalResult result = run_whole(b);
  *moved = *moved || result != EVAL_BLOCKED || b->device || a->effects != effects;
  if (result == EVAL_BLOCKED)
    return true;
  end_block(b, result);
  return false;
}

/* Every block is resident: each gets memory of its own. A round in which nobody did anything but
 * look is a deadlock. */
static void run_turns(EvalLaunch *l) {
  bool *live = calloc((size_t)l->blocks, sizeof *live);
  int64_t left = l->blocks;
  for (int64_t i = 0; live && i < l->blocks; i++) {
    if (!eval_launch_worker(l, (size_t)i))
      break;
    live[i] = true;
    eval_block_start(&l->worker[i]->block, i);
  }
  while (live && left && !atomic_load(&l->failed)) {
    bool moved = false;
    EvalBlock *waiting = NULL;
    for (int64_t i = 0; i < l->blocks; i++) {
      if (!live[i])
        continue;
      if (skip(l, i) || !eval_block_turn(&l->worker[i]->block, &moved)) {
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

/* A stride without a common factor visits every block once. */
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

/* Nothing that is still to run matters. */
static bool over(const EvalLaunch *l) {
  bool fault = atomic_load(&l->faulty) < l->blocks && l->stride == 1;
  return fault || atomic_load(&l->failed);
}

/* i counts from the start of the segment. */
static void run_segment(void *ctx, size_t i, int number) {
  EvalLaunch *l = ctx;
  run_block(l, (size_t)l->segment + i, number);
}

/* In pieces, so that the rest of an enormous grid is not walked through after a fault. */
static void run_segments(EvalLaunch *l) {
  for (l->segment = 0; l->segment < l->blocks && !over(l); l->segment += SEGMENT) {
    int64_t n = l->blocks - l->segment < SEGMENT ? l->blocks - l->segment : SEGMENT;
    pool_run(l->options->pool, (size_t)n, run_segment, l);
  }
}

/* The order of blocks is free unless an atomic makes it visible. */
static void run_all(EvalLaunch *l) {
  const EvalProgram *p = l->program;
  if (p->interleave) {
    run_turns(l);
    return;
  }
  if (l->options->budget > 0 && !p->in_order && l->blocks > 1 && run_within_budget(l))
    return;
  if (l->options->pool && !l->serial && l->blocks > 1) {
    run_segments(l);
    return;
  }
  for (int64_t i = 0; i < l->blocks && !over(l); i++)
    run_block(l, (size_t)i, 0);
}

/* The grid's rank decides how a block is named. */
void eval_launch_report(EvalLaunch *l, DiagSink *sink) {
  const EvalFault *f = &l->fault;
  const IrKernel *k = l->program->kernel;
  Str where = str_new(sink->arena);
  if (!f->block_named)
    ir_say_block(l->fault_index, k->grid_rank, &where);
  Diag *d = diag_add(sink, f->code, f->span, "%s%s", f->text, str_text(&where));
  if (f->other.file)
    diag_also(sink, d, f->other, "%s", f->other_text);
  if (f->hint[0])
    diag_hint(sink, d, "%s", f->hint);
}

/* Workers count apart, so that no two touch one line. */
static void add_counters(EvalCounters *to, const EvalCounters *from) {
  to->bank_conflicts += from->bank_conflicts;
  to->shared_accesses += from->shared_accesses;
  to->sectors += from->sectors;
  to->barrier_waits += from->barrier_waits;
  to->instructions += from->instructions;
}

/* Tile extents are constants; a channel's tile stands there once a stage. */
int64_t eval_shared_bytes(const IrKernel *k, void (*each)(void *ctx, const IrBuffer *b, int64_t n),
                          void *ctx) {
  int64_t total = 0;
  for (size_t i = 0; i < k->buffers.n; i++) {
    const IrBuffer *b = k->buffers.v[i];
    int64_t n = (int64_t)dtype_size(b->dtype), extent;
    int stages = 1;
    if (b->space != IRS_SHARED)
      continue;
    for (int d = 0; d < b->rank; d++)
      if (ir_is_const(b->extent[d], &extent))
        n *= extent;
    eval_sched_channel_tile(k, b, &stages);
    n *= stages;
    total += n;
    if (each)
      each(ctx, b, n);
  }
  return total;
}

/* An interrupt or lack of memory comes before a fault: the fault may not be the lowest. */
static Status outcome(EvalLaunch *l, DiagSink *sink) {
  int failed = atomic_load(&l->failed);
  if (failed)
    return (Status)failed;
  if (atomic_load(&l->faulty) < l->blocks) {
    eval_launch_report(l, sink);
    return ST_FAIL;
  }
  return ST_OK;
}

/* What is found must not depend on timing: one block after the other. */
static void watch_all(EvalLaunch *l) {
  l->serial = true;
  l->races = eval_races_new(l);
  l->watch = eval_watch_new(l);
  if (!l->races)
    atomic_store(&l->failed, ST_NOMEM);
}

/* Warnings come before the fault, which the call is then named with. */
static void report_findings(EvalLaunch *l, DiagSink *sink) {
  if (l->races)
    eval_races_report(l->races, sink);
  if (l->watch)
    eval_watch_report(l->watch, sink);
  eval_races_free(l->races);
  eval_watch_free(l->watch);
}

/* All memory of the launch is given back, also after a fault. */
Status eval_run(EvalProgram *p, const IrBinding *binding, const EvalOptions *o, DiagSink *sink) {
  EvalLaunch l = {.program = p, .binding = binding, .options = o, .blocks = 1};
  for (int i = 0; i < 3; i++)
    l.blocks *= binding->grid[i]; /* no more than i64 counts (ir_bind) */
  if (l.blocks <= 0)
    return ST_OK;
  atomic_init(&l.faulty, l.blocks);
  atomic_init(&l.failed, 0);
  atomic_init(&l.ran, 0);
  size_t workers = p->interleave ? (size_t)l.blocks : (size_t)(o->pool ? pool_threads(o->pool) : 1);
  l.worker = calloc(workers, sizeof *l.worker);
  if (!l.worker)
    return ST_NOMEM;
  l.serial = p->in_order || !eval_print_open(&l);
  if (o->checks == CHECKS_ALL && !o->together && p->kernel->level != IR_THREAD)
    watch_all(&l);
  pthread_mutex_init(&l.mutex, NULL);
  set_order(&l);
  run_all(&l);
  eval_print_close(&l);
  for (size_t i = 0; i < workers; i++) {
    if (l.worker[i] && o->counters)
      add_counters(o->counters, &l.worker[i]->block.counters);
    eval_worker_free(l.worker[i]);
  }
  if (o->blocks_run)
    *o->blocks_run = p->interleave ? l.blocks : atomic_load(&l.ran);
  report_findings(&l, sink);
  Status status = outcome(&l, sink);
  pthread_mutex_destroy(&l.mutex);
  free(l.worker);
  return status;
}
