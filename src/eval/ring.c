/* ring.c: channels of the scheduled level: rings of stages, each an instance of the tiles.
 *
 * In: ACQUIRE, COMMIT, WAIT, RELEASE of an agent. Out: it goes on, waits, or faults. Always holds:
 * block->mem of a channel's tile is the instance that the running agent's place in the ring means,
 * or, where it has none, BC_TOUCH faults before anything is read or written.
 * A stage is used again and again: use u of stage s may be filled once use u - 1 was released by
 * all consumers, and read once it was committed by all producers. A role's release counts once for
 * each of its warpgroups; the agent outside roles is all producers and all consumers at once.
 * Tests: tests/unit/check_scheduled.c.
 */
#include "sched_state.h"

#include <string.h>

/* ---------------------------------------------------------------- rings */

/* The instance in block->mem keeps what is known of its elements when another takes its place. */
static void ring_bind(EvalBlock *b, Ring *r, int stage) {
  int n = r->ir->ntiles;
  for (int t = 0; t < n; t++) {
    EvalMem *m = &b->mem[r->ir->tile[t]->id];
    if (r->bound >= 0)
      r->instance[r->bound * n + t] = *m;
    if (stage >= 0)
      *m = r->instance[stage * n + t];
  }
  r->bound = stage;
}

/* While it fills a stage that one; else the one it waited for last, unless it was released. */
static int stage_of(const Ring *r, const EvalAgent *a) {
  const RingPlace *p = &r->place[a->id];
  int n = r->ir->stages;
  if (p->acquired > p->committed)
    return (int)((p->acquired - 1) % n);
  int last = p->waited ? (int)((p->waited - 1) % n) : 0;
  return p->waited && p->held[last] ? last : -1;
}

/* Most switches between agents find what they need in place. */
void eval_ring_show(EvalAgent *a, Ring *r) {
  int stage = stage_of(r, a);
  if (stage != r->bound)
    ring_bind(a->block, r, stage);
}

/* A block starts, or CHANNEL stands in a loop: everything is free. */
void eval_ring_reset(EvalBlock *b, Ring *r) {
  size_t n = (size_t)r->ir->stages;
  ring_bind(b, r, -1);
  memset(r->opened, 0, n * sizeof *r->opened);
  memset(r->full, 0, n * sizeof *r->full);
  memset(r->empty, 0, n * sizeof *r->empty);
  memset(r->commits, 0, n * sizeof *r->commits);
  memset(r->releases, 0, n * sizeof *r->releases);
  for (int i = 0; i < b->nagents; i++) {
    RingPlace *p = &r->place[i];
    p->acquired = p->committed = p->waited = 0;
    memset(p->held, 0, n * sizeof *p->held);
  }
}

/* ---------------------------------------------------------------- a new block */

/* Instances lie one after the other, as compile_tile.c laid them out. */
void eval_ring_new(EvalBlock *b, Ring *r, const IrChannel *ir) {
  const EvalProgram *p = b->program;
  size_t n = (size_t)ir->stages;
  *r = (Ring){.ir = ir, .bound = -1};
  r->instance = ARENA_ARRAY(b->arena, EvalMem, n * (size_t)ir->ntiles + 1);
  r->opened = ARENA_ARRAY(b->arena, int64_t, 3 * n);
  r->full = r->opened + n;
  r->empty = r->full + n;
  r->commits = ARENA_ARRAY(b->arena, int, 2 * n);
  r->releases = r->commits + n;
  r->place = ARENA_ARRAY(b->arena, RingPlace, b->nagents);
  for (int i = 0; i < b->nagents; i++)
    r->place[i].held = ARENA_ARRAY(b->arena, bool, n);
  for (size_t s = 0; s < n; s++)
    for (int t = 0; t < ir->ntiles; t++) {
      uint32_t id = ir->tile[t]->id;
      EvalMem *m = &r->instance[s * (size_t)ir->ntiles + (size_t)t];
      *m = b->mem[id];
      m->data = (char *)m->data + s * p->tile[id].stage;
      m->map = m->map ? m->map + s * p->tile[id].map_stage : NULL;
    }
}

/* ---------------------------------------------------------------- channel operations */

/* The ring is found by the channel's id. */
static Ring *ring_at(EvalAgent *a, const EvalInsn *in, const IrChannelOp **op) {
  *op = in->as.data;
  return &a->block->sched->ring[(*op)->channel->id];
}

/* The first producer of a use finds its elements unwritten. */
static void open_stage(Ring *r, int stage, int64_t use) {
  if (r->opened[stage] > use)
    return;
  r->opened[stage] = use + 1;
  for (int t = 0; t < r->ir->ntiles; t++) {
    EvalMem *m = &r->instance[stage * r->ir->ntiles + t];
    m->state = m->map && m->count ? WRITTEN_NONE : WRITTEN_ALL;
    m->nwritten = 0;
  }
}

/* A stage that was never used is free. One stage at a time: a tile's name could not mean two. */
static EvalResult acquire(EvalAgent *a, const EvalInsn *in) {
  const IrChannelOp *op;
  Ring *r = ring_at(a, in, &op);
  RingPlace *p = &r->place[a->id];
  int n = r->ir->stages, stage = (int)(p->acquired % n);
  int64_t use = p->acquired / n;
  if (p->acquired > p->committed)
    return eval_fault(a, E0480, "%s acquires a stage of channel %s before it committed the last",
                      eval_sched_role(a), r->ir->name);
  if (r->empty[stage] < use)
    return EVAL_BLOCKED;
  ring_bind(a->block, r, -1);
  open_stage(r, stage, use);
  p->acquired++;
  eval_ring_show(a, r);
  return EVAL_OK;
}

/* Arrivals of one use; false where there are too many. */
static bool arrive(int64_t *phase, int *arrived, int64_t use, int count, int expected) {
  if (*phase != use)
    return false;
  *arrived += count;
  if (*arrived > expected)
    return false;
  if (*arrived == expected) {
    *arrived = 0;
    ++*phase;
  }
  return true;
}

/* One arrival a role, whatever its warps: one thread of it speaks for the copies. */
static EvalResult commit(EvalAgent *a, const EvalInsn *in) {
  const IrChannelOp *op;
  Ring *r = ring_at(a, in, &op);
  RingPlace *p = &r->place[a->id];
  int n = r->ir->stages, stage = (int)(p->committed % n);
  int producers = r->ir->producers > 1 ? r->ir->producers : 1;
  if (p->committed == p->acquired)
    return eval_fault(a, E0480, "%s commits a stage of channel %s that it did not acquire",
                      eval_sched_role(a), r->ir->name);
  int count = a->id ? 1 : producers;
  if (!arrive(&r->full[stage], &r->commits[stage], p->committed / n, count, producers))
    return eval_fault(a, E0480, "stage %d of channel %s is committed by more than its %d producers",
                      stage, r->ir->name, producers);
  p->committed++;
  eval_ring_show(a, r);
  return EVAL_OK;
}

/* A stage that this agent still holds comes round again only after its release. */
static EvalResult wait_full(EvalAgent *a, const EvalInsn *in) {
  const IrChannelOp *op;
  Ring *r = ring_at(a, in, &op);
  RingPlace *p = &r->place[a->id];
  int n = r->ir->stages, stage = (int)(p->waited % n);
  if (p->held[stage] || r->full[stage] <= p->waited / n)
    return EVAL_BLOCKED;
  p->held[stage] = true;
  p->waited++;
  eval_ring_show(a, r);
  return EVAL_OK;
}

/* The stage may be filled as soon as the last consumer has released it: nobody may read it any
 * more, the tensor cores neither. */
static EvalResult release(EvalAgent *a, const EvalInsn *in) {
  const IrChannelOp *op;
  char line[48];
  Ring *r = ring_at(a, in, &op);
  RingPlace *p = &r->place[a->id];
  int n = r->ir->stages;
  int64_t wait = p->waited - 1 - op->behind;
  int stage = wait < 0 ? 0 : (int)(wait % n);
  if (wait < 0 || !p->held[stage])
    return eval_fault(a, E0480, "%s releases a stage of channel %s that it did not wait for",
                      eval_sched_role(a), r->ir->name);
  ring_bind(a->block, r, -1);
  for (int t = 0; t < r->ir->ntiles; t++) {
    const Flight *f = eval_flight_reader(a->block, r->instance[stage * r->ir->ntiles + t].data);
    if (f)
      return eval_fault(a, E0481,
                        "stage %d of channel %s is released while the product issued at %s may "
                        "still read %s",
                        stage, r->ir->name, eval_sched_line(a->block, f->pc, line, sizeof line),
                        r->ir->tile[t]->name);
  }
  const IrRoleBody *role = a->block->sched->role[a->id].role;
  int expected = r->ir->consumers > 1 ? r->ir->consumers : 1;
  int count = !role ? expected : role->warps >= 8 ? role->warps / 4 : 1;
  if (!arrive(&r->empty[stage], &r->releases[stage], wait / n, count, expected))
    return eval_fault(a, E0480, "stage %d of channel %s is released by more than its %d consumers",
                      stage, r->ir->name, expected);
  p->held[stage] = false;
  eval_ring_show(a, r);
  return EVAL_OK;
}

/* ---------------------------------------------------------------- what statements touch */

/* A channel's tile is read between WAIT and RELEASE and written between ACQUIRE and COMMIT. */
EvalResult eval_ring_touch(EvalAgent *a, const SchedUse *u, const Ring *r) {
  const RingPlace *p = &r->place[a->id];
  const char *name = a->block->mem[u->buf].buf->name;
  if (u->how == IR_DECLARES || p->acquired > p->committed)
    return EVAL_OK;
  if (u->how & IR_WRITES)
    return eval_fault(a, E0479, "%s writes %s without having acquired a stage of channel %s",
                      eval_sched_role(a), name, r->ir->name);
  if (r->bound < 0)
    return eval_fault(a, E0479, "%s reads %s of a stage of channel %s that it %s",
                      eval_sched_role(a), name, r->ir->name,
                      p->waited ? "released" : "did not wait for");
  return EVAL_OK;
}

/* Which stage, and who of how many came: from these one sees who is missing. */
void eval_ring_waits_for(const EvalAgent *a, const EvalInsn *in, Str *out) {
  const IrChannelOp *op = in->as.data;
  const Ring *r = &a->block->sched->ring[op->channel->id];
  const RingPlace *p = &r->place[a->id];
  bool empty = in->code == BC_ACQUIRE;
  int expected = empty ? r->ir->consumers : r->ir->producers;
  int stage = (int)((empty ? p->acquired : p->waited) % r->ir->stages);
  str_addf(out, "stage %d of channel %s to be %s (%d of %d have)", stage, r->ir->name,
           empty ? "released" : "committed", empty ? r->releases[stage] : r->commits[stage],
           expected > 1 ? expected : 1);
}

EvalResult eval_ring_run(EvalAgent *a, const EvalInsn *in) {
  switch (in->code) {
  case BC_ACQUIRE:
    return acquire(a, in);
  case BC_COMMIT:
    return commit(a, in);
  case BC_WAIT:
    return wait_full(a, in);
  default:
    return release(a, in);
  }
}
