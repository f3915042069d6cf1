/* sched.c: channels, products in flight, roles and barriers of the scheduled level.
 *
 * In: instructions of compile_sched.c. Out: each waits, goes on, or faults with its place. Always
 * holds: block->mem of a channel's tile is the instance that the running agent's place in the ring
 * means, or, where it has none, BC_TOUCH faults before anything is read or written.
 * A stage is used again and again: use u of stage s may be filled once use u - 1 was released by
 * all consumers, and read once it was committed by all producers. A role's release counts once for
 * each of its warpgroups; the agent outside roles is all producers and all consumers at once.
 * Products take effect as late as the program's waits allow. Until then their result belongs to
 * them, and their operands must stay as they are.
 * Tests: tests/unit/check_scheduled.c.
 */
#include "sched.h"

#include <stdio.h>
#include <string.h>

enum { IN_FLIGHT = 64, SYNCS = 16 };

/* What one role knows of a channel: its own counters. */
typedef struct Place {
  int64_t acquired, committed, waited;
  bool *held; /* by stage: waited for and not released */
} Place;

typedef struct Ring {
  const IrChannel *ir;
  EvalMem *instance; /* [stage][tile] */
  int bound;         /* the stage that block->mem shows; -1: none */
  /* By stage: uses that were opened by a producer, committed, released, and arrivals so far. */
  int64_t *opened, *full, *empty;
  int *commits, *releases;
  Place *place; /* by agent */
} Ring;

typedef struct Flight { /* a product that was issued */
  const EvalDotCode *code;
  EvalView x, y, z;
  EvalMem a, b; /* the operands' instances */
  uint32_t pc;
} Flight;

/* The products in flight of one agent, in order; `v` is a ring. */
typedef struct Flights {
  Flight *v;
  uint64_t first, next;
} Flights;

typedef struct Barrier { /* of one set of warps */
  int first, warps;
  int arrived;
  int64_t generation;
} Barrier;

typedef struct RoleState {
  const IrRoleBody *role; /* NULL: not in a role */
  bool at_barrier;
  int64_t generation;
} RoleState;

typedef struct EvalSched {
  Ring *ring;
  int nrings;
  Flights *flights; /* by agent */
  RoleState *role;  /* by agent */
  Barrier barrier[SYNCS];
  int nbarriers;
  int32_t *ring_of; /* by buffer id; -1: in no channel */
} EvalSched;

/* ---------------------------------------------------------------- places */

/* Faults name two places: the one where the agent is, and this. */
static const char *line_of(const EvalBlock *b, uint32_t pc, char *out, size_t size) {
  Span s = b->program->span[b->program->code[pc].place];
  uint32_t line = 0, column = 0;
  if (s.file)
    src_position(s.file, s.begin, &line, &column);
  snprintf(out, size, line ? "line %u" : "an earlier statement", line);
  return out;
}

/* As a fault's subject. */
const char *eval_sched_role(const EvalAgent *a) {
  const IrRoleBody *r = a->block->sched->role[a->id].role;
  return r ? r->name : "the block";
}

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
  const Place *p = &r->place[a->id];
  int n = r->ir->stages;
  if (p->acquired > p->committed)
    return (int)((p->acquired - 1) % n);
  int last = p->waited ? (int)((p->waited - 1) % n) : 0;
  return p->waited && p->held[last] ? last : -1;
}

/* Most switches between agents find what they need in place. */
static void rebind(EvalAgent *a, Ring *r) {
  int stage = stage_of(r, a);
  if (stage != r->bound)
    ring_bind(a->block, r, stage);
}

/* A block starts, or CHANNEL stands in a loop: everything is free. */
static void ring_reset(EvalBlock *b, Ring *r) {
  size_t n = (size_t)r->ir->stages;
  ring_bind(b, r, -1);
  memset(r->opened, 0, n * sizeof *r->opened);
  memset(r->full, 0, n * sizeof *r->full);
  memset(r->empty, 0, n * sizeof *r->empty);
  memset(r->commits, 0, n * sizeof *r->commits);
  memset(r->releases, 0, n * sizeof *r->releases);
  for (int i = 0; i < b->nagents; i++) {
    Place *p = &r->place[i];
    p->acquired = p->committed = p->waited = 0;
    memset(p->held, 0, n * sizeof *p->held);
  }
}

/* Agents run one at a time, so that one table of memory serves all of them. */
void eval_sched_enter(EvalAgent *a) {
  EvalSched *s = a->block->sched;
  for (int i = 0; i < s->nrings; i++)
    rebind(a, &s->ring[i]);
}

/* ---------------------------------------------------------------- a new block */

/* Instances lie one after the other, as compile_tile.c laid them out. */
static void ring_new(EvalBlock *b, Ring *r, const IrChannel *ir) {
  const EvalProgram *p = b->program;
  size_t n = (size_t)ir->stages;
  *r = (Ring){.ir = ir, .bound = -1};
  r->instance = ARENA_ARRAY(b->arena, EvalMem, n * (size_t)ir->ntiles + 1);
  r->opened = ARENA_ARRAY(b->arena, int64_t, 3 * n);
  r->full = r->opened + n;
  r->empty = r->full + n;
  r->commits = ARENA_ARRAY(b->arena, int, 2 * n);
  r->releases = r->commits + n;
  r->place = ARENA_ARRAY(b->arena, Place, b->nagents);
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

/* Once a worker: blocks allocate nothing. */
struct EvalSched *eval_sched_new(EvalBlock *b) {
  const IrKernel *k = b->program->kernel;
  EvalSched *s = ARENA_NEW(b->arena, EvalSched);
  s->nrings = (int)k->channels.n;
  s->ring = ARENA_ARRAY(b->arena, Ring, k->channels.n + 1);
  s->ring_of = ARENA_ARRAY(b->arena, int32_t, k->buffers.n + 1);
  s->role = ARENA_ARRAY(b->arena, RoleState, b->nagents);
  s->flights = ARENA_ARRAY(b->arena, Flights, b->nagents);
  for (int i = 0; i < b->nagents; i++)
    s->flights[i].v = ARENA_ARRAY(b->arena, Flight, IN_FLIGHT);
  for (size_t i = 0; i < k->buffers.n; i++)
    s->ring_of[i] = -1;
  for (int i = 0; i < s->nrings; i++) {
    const IrChannel *ir = k->channels.v[i];
    ring_new(b, &s->ring[i], ir);
    for (int t = 0; t < ir->ntiles; t++)
      s->ring_of[ir->tile[t]->id] = i;
  }
  return s;
}

/* Only the agent outside roles runs until a ROLES. */
void eval_sched_start(EvalBlock *b) {
  EvalSched *s = b->sched;
  for (int i = 0; i < s->nrings; i++)
    ring_reset(b, &s->ring[i]);
  for (int i = 0; i < b->nagents; i++) {
    s->flights[i].first = s->flights[i].next = 0;
    s->role[i] = (RoleState){0};
    if (i)
      b->agent[i].state = AGENT_DONE;
  }
  s->nbarriers = 0;
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
  Place *p = &r->place[a->id];
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
  rebind(a, r);
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
  Place *p = &r->place[a->id];
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
  rebind(a, r);
  return EVAL_OK;
}

/* A stage that this agent still holds comes round again only after its release. */
static EvalResult wait_full(EvalAgent *a, const EvalInsn *in) {
  const IrChannelOp *op;
  Ring *r = ring_at(a, in, &op);
  Place *p = &r->place[a->id];
  int n = r->ir->stages, stage = (int)(p->waited % n);
  if (p->held[stage] || r->full[stage] <= p->waited / n)
    return EVAL_BLOCKED;
  p->held[stage] = true;
  p->waited++;
  rebind(a, r);
  return EVAL_OK;
}

/* ---------------------------------------------------------------- products in flight */

/* Places in the queue are reused, so that views into them stay valid while they matter. */
static Flight *flight_at(const Flights *f, uint64_t i) {
  return &f->v[i % IN_FLIGHT];
}

/* The product of any agent that reads this instance, or NULL. */
static Flight *reader_of(EvalBlock *b, const void *data) {
  for (int i = 0; i < b->nagents; i++) {
    const Flights *f = &b->sched->flights[i];
    for (uint64_t n = f->first; n < f->next; n++)
      if (flight_at(f, n)->a.data == data || flight_at(f, n)->b.data == data)
        return flight_at(f, n);
  }
  return NULL;
}

/* The stage may be filled as soon as the last consumer has released it: nobody may read it any
 * more, the tensor cores neither. */
static EvalResult release(EvalAgent *a, const EvalInsn *in) {
  const IrChannelOp *op;
  char line[48];
  Ring *r = ring_at(a, in, &op);
  Place *p = &r->place[a->id];
  int n = r->ir->stages;
  int64_t wait = p->waited - 1 - op->behind;
  int stage = wait < 0 ? 0 : (int)(wait % n);
  if (wait < 0 || !p->held[stage])
    return eval_fault(a, E0480, "%s releases a stage of channel %s that it did not wait for",
                      eval_sched_role(a), r->ir->name);
  ring_bind(a->block, r, -1);
  for (int t = 0; t < r->ir->ntiles; t++) {
    const Flight *f = reader_of(a->block, r->instance[stage * r->ir->ntiles + t].data);
    if (f)
      return eval_fault(a, E0481,
                        "stage %d of channel %s is released while the product issued at %s may "
                        "still read %s",
                        stage, r->ir->name, line_of(a->block, f->pc, line, sizeof line),
                        r->ir->tile[t]->name);
  }
  const IrRoleBody *role = a->block->sched->role[a->id].role;
  int expected = r->ir->consumers > 1 ? r->ir->consumers : 1;
  int count = !role ? expected : role->warps >= 8 ? role->warps / 4 : 1;
  if (!arrive(&r->empty[stage], &r->releases[stage], wait / n, count, expected))
    return eval_fault(a, E0480, "stage %d of channel %s is released by more than its %d consumers",
                      stage, r->ir->name, expected);
  p->held[stage] = false;
  rebind(a, r);
  return EVAL_OK;
}

/* The oldest takes effect. */
static EvalResult complete(EvalAgent *a, Flights *f) {
  Flight *x = flight_at(f, f->first);
  EvalResult r = eval_dot_product(a, x->code, &x->x, &x->y, &x->z);
  f->first++;
  return r;
}

/* Everything is checked when it is issued; operands are named by their instances from here on. */
static EvalResult issue(EvalAgent *a, const EvalInsn *in) {
  Flights *f = &a->block->sched->flights[a->id];
  if (f->next - f->first == IN_FLIGHT)
    return eval_fault(a, E0481, "more than %d products are in flight", IN_FLIGHT);
  Flight *x = flight_at(f, f->next);
  x->code = in->as.data;
  x->pc = a->pc;
  EvalResult r = eval_dot_views(a, x->code, &x->x, &x->y, &x->z);
  if (r != EVAL_OK)
    return r;
  if (a->block->sched->ring_of[x->z.mem->buf->id] >= 0)
    return eval_fault(a, E0481, "the result of an asynchronous product is a tile of a channel");
  if (x->z.mem == x->x.mem || x->z.mem == x->y.mem)
    return eval_fault(a, E0481, "%s is an operand and the result of one product",
                      x->z.mem->buf->name);
  eval_region_mark_written(&x->z);
  x->a = *x->x.mem;
  x->b = *x->y.mem;
  x->x.mem = &x->a;
  x->y.mem = &x->b;
  f->next++;
  return EVAL_OK;
}

/* Products end in the order in which they were issued. */
static EvalResult dot_wait(EvalAgent *a, int64_t pending) {
  Flights *f = &a->block->sched->flights[a->id];
  EvalResult r = EVAL_OK;
  while (r == EVAL_OK && f->next - f->first > (uint64_t)pending)
    r = complete(a, f);
  return r;
}

/* ---------------------------------------------------------------- what statements touch */

/* Reading an operand disturbs nobody; the result is nobody's until the wait. */
static EvalResult touch_flight(EvalAgent *a, const SchedUse *u, const Flight *x, bool own) {
  const EvalMem *m = &a->block->mem[u->buf];
  char line[48];
  const char *what = NULL;
  if (x->z.mem->buf == m->buf && !(u->chain && own))
    what = "the result";
  else if (u->how != IR_READS && (x->a.data == m->data || x->b.data == m->data))
    what = "an operand";
  if (!what)
    return EVAL_OK;
  eval_fault(a, E0481, "%s is touched while it is %s of the product issued at %s", m->buf->name,
             what, line_of(a->block, x->pc, line, sizeof line));
  eval_fault_hint(a, "put a dot_wait between the two");
  return EVAL_FAULTED;
}

/* A channel's tile is read between WAIT and RELEASE and written between ACQUIRE and COMMIT. */
static EvalResult touch_channel(EvalAgent *a, const SchedUse *u, const Ring *r) {
  const Place *p = &r->place[a->id];
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

/* All agents' products: shared tiles are everybody's. */
static EvalResult touch(EvalAgent *a, const SchedTouch *t) {
  EvalSched *s = a->block->sched;
  EvalResult r = EVAL_OK;
  for (size_t i = 0; i < t->n && r == EVAL_OK; i++) {
    const SchedUse *u = &t->v[i];
    if (s->ring_of[u->buf] >= 0)
      r = touch_channel(a, u, &s->ring[s->ring_of[u->buf]]);
    for (int g = 0; g < a->block->nagents; g++) {
      const Flights *f = &s->flights[g];
      for (uint64_t n = f->first; n < f->next && r == EVAL_OK; n++)
        r = touch_flight(a, u, flight_at(f, n), g == a->id);
    }
  }
  return r;
}

/* ---------------------------------------------------------------- roles */

/* Every role starts with the registers as they are here. */
static EvalResult fork_roles(EvalAgent *a, const SchedFork *f) {
  EvalBlock *b = a->block;
  for (int i = 0; i < f->roles->nroles; i++) {
    EvalAgent *role = &b->agent[i + 1];
    memcpy(role->frame, a->frame, b->program->frame);
    role->pc = (uint32_t)((int64_t)a->pc + f->entry[i]);
    role->state = AGENT_READY;
    role->mask = NULL;
    role->lanes = 1;
    b->sched->role[i + 1] = (RoleState){.role = &f->roles->role[i]};
  }
  return EVAL_OK;
}

/* The bodies have ended; what follows belongs to the whole block again. */
static EvalResult join(EvalAgent *a) {
  EvalBlock *b = a->block;
  for (int i = 1; i < b->nagents; i++)
    if (b->agent[i].state != AGENT_DONE)
      return EVAL_BLOCKED;
  for (int i = 1; i < b->nagents; i++)
    b->sched->role[i].role = NULL;
  return EVAL_OK;
}

/* What was issued must be waited for by whoever issued it. The end of a role is no statement: the
 * place is the product's. */
EvalResult eval_sched_end(EvalAgent *a) {
  Flights *f = &a->block->sched->flights[a->id];
  if (f->first == f->next)
    return EVAL_OK;
  a->pc = flight_at(f, f->first)->pc;
  eval_fault(a, E0481, "%s ends while this product is in flight", eval_sched_role(a));
  eval_fault_hint(a, "dot_wait 0 waits for it");
  return EVAL_FAULTED;
}

/* ---------------------------------------------------------------- barriers */

/* A role takes part if any of its warps is named. */
static bool names(const Barrier *x, const IrRoleBody *r) {
  return r && (!x->warps ||
               (r->first_warp < x->first + x->warps && x->first < r->first_warp + r->warps));
}

/* Barriers are known by their warps: the same set meets at the same one. */
static Barrier *barrier_of(EvalSched *s, const IrSync *sync) {
  for (int i = 0; i < s->nbarriers; i++)
    if (s->barrier[i].first == sync->first_warp && s->barrier[i].warps == sync->warps)
      return &s->barrier[i];
  if (s->nbarriers == SYNCS)
    return NULL;
  s->barrier[s->nbarriers] = (Barrier){.first = sync->first_warp, .warps = sync->warps};
  return &s->barrier[s->nbarriers++];
}

/* Outside roles there is one agent, which waits for nobody. */
static EvalResult sync_roles(EvalAgent *a, const IrSync *sync) {
  EvalSched *s = a->block->sched;
  RoleState *me = &s->role[a->id];
  Barrier *x = barrier_of(s, sync);
  if (!x)
    return eval_fault(a, E0480, "more than %d different barriers", SYNCS);
  if (!me->role)
    return EVAL_OK;
  if (!me->at_barrier) {
    int expected = 0;
    for (int i = 1; i < a->block->nagents; i++)
      expected += names(x, s->role[i].role);
    if (!names(x, me->role))
      return eval_fault(a, E0480, "%s meets a barrier that does not name its warps",
                        eval_sched_role(a));
    me->at_barrier = true;
    me->generation = x->generation;
    if (++x->arrived == expected) {
      x->arrived = 0;
      x->generation++;
    }
  }
  if (me->generation == x->generation)
    return EVAL_BLOCKED;
  me->at_barrier = false;
  return EVAL_OK;
}

/* ---------------------------------------------------------------- instructions */

/* Only kernels of the scheduled level come here. */
EvalResult eval_sched_run(EvalAgent *a, const EvalInsn *in) {
  switch (in->code) {
  case BC_TOUCH:
    return touch(a, in->as.data);
  case BC_CHANNEL:
    ring_reset(a->block, &a->block->sched->ring[((const IrChannel *)in->as.data)->id]);
    return EVAL_OK;
  case BC_ACQUIRE:
    return acquire(a, in);
  case BC_COMMIT:
    return commit(a, in);
  case BC_WAIT:
    return wait_full(a, in);
  case BC_RELEASE:
    return release(a, in);
  case BC_DOT_ASYNC:
    return issue(a, in);
  case BC_DOT_WAIT:
    return dot_wait(a, in->as.imm);
  case BC_FORK:
    return fork_roles(a, in->as.data);
  case BC_JOIN:
    return join(a);
  case BC_SYNC:
    return sync_roles(a, in->as.data);
  default:
    return eval_barrier_run(a, in);
  }
}

/* ---------------------------------------------------------------- deadlock */

/* Which stage, and who of how many came: from these one sees who is missing. */
static void add_ring(const EvalAgent *a, const EvalInsn *in, Str *out) {
  const IrChannelOp *op = in->as.data;
  const Ring *r = &a->block->sched->ring[op->channel->id];
  const Place *p = &r->place[a->id];
  bool empty = in->code == BC_ACQUIRE;
  int expected = empty ? r->ir->consumers : r->ir->producers;
  int stage = (int)((empty ? p->acquired : p->waited) % r->ir->stages);
  str_addf(out, "stage %d of channel %s to be %s (%d of %d have)", stage, r->ir->name,
           empty ? "released" : "committed", empty ? r->releases[stage] : r->commits[stage],
           expected > 1 ? expected : 1);
}

/* "consumer for stage 1 of channel ch to be committed (0 of 1 have) at line 24" */
static void add_agent(EvalAgent *a, Str *out) {
  const EvalInsn *in = machine_insn(a);
  char line[48];
  str_addf(out, "%s%s for ", out->n ? "; " : "", eval_sched_role(a));
  if (in->code == BC_ACQUIRE || in->code == BC_WAIT)
    add_ring(a, in, out);
  else if (!eval_barrier_waits_for(a, in, out))
    str_add(out, in->code == BC_SYNC ? "the others at a barrier" : "another block");
  str_addf(out, " at %s", line_of(a->block, a->pc, line, sizeof line));
}

/* The block itself only waits for its roles: what they wait for says why. */
EvalResult eval_sched_deadlock(EvalBlock *b) {
  Str all = str_new(b->arena);
  EvalAgent *worst = NULL;
  for (int i = 0; i < b->nagents; i++) {
    EvalAgent *a = &b->agent[i];
    if (a->state != AGENT_BLOCKED || machine_insn(a)->code == BC_JOIN)
      continue;
    add_agent(a, &all);
    worst = worst ? worst : a;
  }
  if (!worst)
    return EVAL_FAULTED;
  return eval_fault(worst, E0455, "deadlock: everyone waits: %s", str_text(&all));
}
