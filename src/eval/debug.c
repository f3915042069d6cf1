/* debug.c: a kernel run statement by statement, one block after the other.
 *
 * In: a program compiled with stops, and what it is bound to. Out: a pause before each statement,
 * at the end of each block, at a fault; and what the statement sees: variables and tiles. Always
 * holds: between two pauses the machine runs as it always does, so the results are those of a run
 * in the order of the blocks; nothing here is reached by programs without stops.
 * A BC_STOP makes its agent return as one that waits; resuming lets it pass. Roles take turns, each
 * until it waits; blocks that wait for each other all exist, and the others move on while the one
 * that is watched waits. Tests: tests/repl/step*.txt.
 */
#include <stdlib.h>
#include <string.h>

#include "run.h"
#include "sched.h"
#include "tensor/tensor.h"

struct EvalDebug {
  EvalOptions options;
  EvalLaunch launch;
  EvalBlock *block;     /* being stepped; NULL: none is left, or memory is short */
  int64_t next;         /* first block that has not begun */
  int turn;             /* agent whose turn it is */
  EvalAgent *at;        /* agent that is to pass its stop */
  EvalAgent *seen;      /* agent that stopped last */
  const EvalStop *stop; /* where; NULL before the first statement and after the last */
  bool stopping;        /* a BC_STOP has just returned */
  EvalPause pause;
  bool *live; /* cooperative: by block, that it has not ended */
};

/* Makes the agent return once; then it passes. Other blocks of a cooperative grid never stop. */
EvalResult eval_debug_stop(EvalAgent *a, const EvalInsn *in) {
  EvalDebug *d = a->block->launch->debug;
  if (!d || d->block != a->block)
    return EVAL_OK;
  if (d->at == a) {
    d->at = NULL;
    return EVAL_OK;
  }
  d->at = d->seen = a;
  d->stop = in->as.data;
  d->stopping = true;
  return EVAL_BLOCKED;
}

/* ---------------------------------------------------------------- life */

/* Every block of a cooperative grid exists at once. */
static bool start_all(EvalDebug *d) {
  EvalLaunch *l = &d->launch;
  d->live = calloc((size_t)l->blocks + 1, sizeof *d->live);
  for (int64_t i = 0; d->live && i < l->blocks; i++) {
    if (!eval_launch_worker(l, (size_t)i))
      return false;
    eval_block_start(&l->worker[i]->block, i);
    d->live[i] = true;
  }
  return d->live != NULL;
}

/* One worker serves all blocks, but for a cooperative grid. */
static bool open_launch(EvalDebug *d, EvalProgram *p, const IrBinding *binding) {
  EvalLaunch *l = &d->launch;
  *l = (EvalLaunch){.program = p, .binding = binding, .options = &d->options, .debug = d};
  l->blocks = 1;
  for (int i = 0; i < 3; i++)
    if (__builtin_mul_overflow(l->blocks, binding->grid[i], &l->blocks))
      return false;
  atomic_init(&l->faulty, l->blocks);
  atomic_init(&l->failed, 0);
  atomic_init(&l->ran, 0);
  pthread_mutex_init(&l->mutex, NULL);
  l->worker = calloc(p->interleave ? (size_t)l->blocks + 1 : 1, sizeof(EvalWorker *));
  return l->worker && (!p->interleave || start_all(d));
}

EvalDebug *eval_debug_new(EvalProgram *p, const IrBinding *binding, const EvalOptions *o,
                          int64_t first) {
  EvalDebug *d = calloc(1, sizeof *d);
  if (!d)
    return NULL;
  d->options = *o;
  d->options.pool = NULL;
  d->options.shake = 0;
  d->next = first;
  d->pause = EVAL_AT_BLOCK_END;
  if (open_launch(d, p, binding))
    return d;
  eval_debug_free(d);
  return NULL;
}

void eval_debug_free(EvalDebug *d) {
  if (!d)
    return;
  size_t n = d->launch.program->interleave ? (size_t)d->launch.blocks : 1;
  for (size_t i = 0; d->launch.worker && i < n; i++)
    eval_worker_free(d->launch.worker[i]);
  pthread_mutex_destroy(&d->launch.mutex);
  free(d->launch.worker);
  free(d->live);
  free(d);
}

/* ---------------------------------------------------------------- running on */

/* The next block in the order of the grid. */
static bool begin_block(EvalDebug *d) {
  EvalLaunch *l = &d->launch;
  size_t worker = l->program->interleave ? (size_t)d->next : 0;
  EvalWorker *w = eval_launch_worker(l, worker);
  if (!w)
    return false;
  d->block = &w->block;
  if (!l->program->interleave)
    eval_block_start(d->block, d->next);
  d->next++;
  d->turn = 0;
  return true;
}

/* The other blocks of a cooperative grid, each until it waits or ends; false where none moved. */
static bool others_move(EvalDebug *d) {
  EvalLaunch *l = &d->launch;
  bool moved = false;
  for (int64_t i = 0; d->live && i < l->blocks; i++) {
    EvalBlock *b = &l->worker[i]->block;
    if (b == d->block || !d->live[i] || atomic_load(&l->failed))
      continue;
    if (!eval_block_turn(b, &moved)) {
      d->live[i] = false;
      moved = true;
    }
  }
  return moved;
}

/* Nobody can go on. */
static EvalResult deadlock(EvalDebug *d) {
  EvalBlock *b = d->block;
  if (b->sched && b->nagents > 1)
    return eval_sched_deadlock(b);
  return eval_fault(&b->agent[0], E0455, "deadlock: every block that has not ended waits");
}

/* One agent until it stops, waits or ends; *moved: it got further. A `while` that only looks does
 * not: then it is the other blocks' turn. */
static EvalResult run_agent(EvalDebug *d, EvalAgent *a, bool *moved) {
  uint32_t pc = a->pc;
  uint64_t steps = a->steps, effects = a->effects;
  if (d->block->sched)
    eval_sched_enter(a);
  d->stopping = false;
  EvalResult result = eval_machine_run(a);
  if (result == EVAL_BLOCKED && !d->stopping)
    a->state = AGENT_BLOCKED;
  *moved = a->state == AGENT_DONE || a->pc != pc || a->steps > steps + 1;
  if (d->live && result == EVAL_BLOCKED)
    *moved = a->effects != effects;
  return result;
}

/* Everyone of the block waits: whether a round of the others lets it go on. */
static bool let_others(EvalDebug *d) {
  const EvalLaunch *l = &d->launch;
  return others_move(d) && atomic_load(&l->faulty) == l->blocks && !atomic_load(&l->failed);
}

/* To the next stop of whoever comes first. */
static EvalResult run_on(EvalDebug *d) {
  EvalBlock *b = d->block;
  const EvalLaunch *l = &d->launch;
  for (int waiting = 0;;) {
    EvalAgent *a = &b->agent[d->turn];
    bool moved = false;
    EvalResult result = EVAL_OK;
    if (a->state != AGENT_DONE)
      result = run_agent(d, a, &moved);
    if (result == EVAL_FAULTED || d->stopping || eval_block_done(b))
      return result;
    if (d->live && moved)
      others_move(d);
    waiting = moved ? 0 : waiting + 1;
    d->turn = (d->turn + 1) % b->nagents;
    if (waiting >= b->nagents && !let_others(d))
      return atomic_load(&l->faulty) < l->blocks || atomic_load(&l->failed) ? EVAL_FAULTED
                                                                            : deadlock(d);
    if (waiting >= b->nagents)
      waiting = 0;
  }
}

/* The fault of the block that is stepped, or of another one of a cooperative grid. */
static EvalPause failed(EvalDebug *d, DiagSink *sink) {
  EvalLaunch *l = &d->launch;
  if (atomic_load(&l->failed) == ST_INTERRUPTED) {
    atomic_store(&l->failed, 0);
    return EVAL_AT_INTERRUPT;
  }
  if (d->block->fault.set) {
    l->fault = d->block->fault;
    memcpy(l->fault_index, d->block->index, sizeof l->fault_index);
  }
  eval_launch_report(l, sink);
  return EVAL_AT_FAULT;
}

/* A cooperative grid ends as a whole. */
static EvalPause end_block(EvalDebug *d) {
  d->stop = NULL;
  if (!d->live)
    return EVAL_AT_BLOCK_END;
  d->live[d->block->linear] = false;
  while (others_move(d))
    ;
  d->next = d->launch.blocks;
  return EVAL_AT_BLOCK_END;
}

EvalPause eval_debug_next(EvalDebug *d, DiagSink *sink) {
  if (d->pause == EVAL_AT_FAULT || d->pause == EVAL_AT_END)
    return d->pause;
  if (d->pause == EVAL_AT_BLOCK_END) {
    if (d->next >= d->launch.blocks)
      return d->pause = EVAL_AT_END;
    if (!begin_block(d))
      return d->pause = EVAL_AT_END;
  }
  EvalResult result = run_on(d);
  if (result == EVAL_FAULTED)
    d->pause = failed(d, sink);
  else
    d->pause = d->stopping ? EVAL_AT_STMT : end_block(d);
  return d->pause;
}

/* ---------------------------------------------------------------- looking */

/* Where it stands; file NULL outside a block's statements. */
Span eval_debug_span(const EvalDebug *d) {
  return d->stop ? d->stop->span : (Span){NULL, 0, 0};
}

/* A loop's jump back can be run again; the middle of a tile operation cannot. */
bool eval_debug_resumes(const EvalDebug *d) {
  const EvalBlock *b = d->block;
  if (d->pause != EVAL_AT_INTERRUPT)
    return true;
  uint16_t code = b->program->code[b->agent[d->turn].pc].code;
  return code == BC_BACK || code == BC_SPIN_BACK;
}

void eval_debug_block(const EvalDebug *d, int64_t index[3]) {
  for (int i = 0; i < 3; i++)
    index[i] = d->block ? d->block->index[i] : 0;
}

/* Agent 0 is the block itself. */
const char *eval_debug_role(const EvalDebug *d) {
  const EvalAgent *a = d->stop ? d->seen : NULL;
  return a && a->id > 0 && d->block->sched ? eval_sched_role(a) : NULL;
}

const char *eval_debug_text(EvalDebug *d) {
  return d->block ? str_text(d->block->print) : "";
}

void eval_debug_forget_text(EvalDebug *d) {
  if (d->block)
    str_clear(d->block->print);
}

/* The registers of the agent that stands here; outside statements those of the whole block. */
static const EvalAgent *who(const EvalDebug *d) {
  return d->seen && d->stop ? d->seen : &d->block->agent[0];
}

void eval_debug_each(const EvalDebug *d, EvalDebugName fn, void *ctx) {
  if (!d->block)
    return;
  const EvalLive *l = d->stop ? d->stop->live : d->block->program->live;
  for (; l; l = l->outer)
    fn(ctx, l->var, l->buf);
}

/* Innermost first: the first entry of the variable is the one in scope. */
bool eval_debug_scalar(const EvalDebug *d, const IrVar *v, Scalar *out) {
  if (!d->block)
    return false;
  const EvalLive *l = d->stop ? d->stop->live : d->block->program->live;
  for (; l; l = l->outer)
    if (l->var == v) {
      *out = scalar_load_compute(v->type, machine_reg(who(d), l->reg));
      return true;
    }
  return false;
}

/* Unwritten elements hold anything: they read as zero here. */
static void clear_unwritten(const EvalMem *m, char *data, int64_t n) {
  size_t size = dtype_size(m->dtype);
  if (m->state == WRITTEN_ALL || !m->map)
    return;
  for (int64_t i = 0; i < n; i++)
    if (m->state == WRITTEN_NONE || !m->map[i])
      memset(data + (size_t)i * size, 0, size);
}

/* How many of its elements were written. */
static int64_t written_count(const EvalMem *m) {
  return m->state == WRITTEN_NONE ? 0 : m->state == WRITTEN_ALL || !m->map ? m->count : m->nwritten;
}

struct Tensor *eval_debug_tile(const EvalDebug *d, const IrBuffer *buf, int64_t *written,
                               Str *why) {
  if (!d->block)
    return NULL;
  if (d->block->sched && d->stop)
    eval_sched_enter(d->seen); /* a channel's tile is the agent's own instance */
  const EvalMem *m = &d->block->mem[buf->id];
  Tensor *t = tensor_new(m->dtype, m->rank, m->extent, TENSOR_ZERO, why);
  if (!t)
    return NULL;
  char *data = tensor_data_write(t);
  if (dtype_compute(m->dtype) != m->dtype)
    dtype_pack(m->dtype, m->data, data, (size_t)m->count);
  else
    memcpy(data, m->data, (size_t)m->count * dtype_size(m->dtype));
  clear_unwritten(m, data, m->count);
  *written = written_count(m);
  return t;
}

size_t eval_debug_stops(const EvalProgram *p) {
  return p->nstops;
}

Span eval_debug_stop_span(const EvalProgram *p, size_t i) {
  return p->stop[i]->span;
}
