/* sched.c: products in flight, roles and barriers of the scheduled level; ring.c has its channels.
 *
 * In: instructions of compile_sched.c. Out: each waits, goes on, or faults with its place. Always
 * holds: products take effect as late as the program's waits allow. Until then their result belongs
 * to them, and their operands must stay as they are. Tests: tests/unit/check_scheduled.c.
 */
#include "sched_state.h"

#include <stdio.h>
#include <string.h>

/* ---------------------------------------------------------------- places */

/* Faults name two places: the one where the agent is, and this. */
const char *eval_sched_line(const EvalBlock *b, uint32_t pc, char *out, size_t size) {
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

/* Agents run one at a time, so that one table of memory serves all of them. */
void eval_sched_enter(EvalAgent *a) {
  EvalSched *s = a->block->sched;
  for (int i = 0; i < s->nrings; i++)
    eval_ring_show(a, &s->ring[i]);
}

/* ---------------------------------------------------------------- a new block */

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
    eval_ring_new(b, &s->ring[i], ir);
    for (int t = 0; t < ir->ntiles; t++)
      s->ring_of[ir->tile[t]->id] = i;
  }
  return s;
}

/* Only the agent outside roles runs until a ROLES. */
void eval_sched_start(EvalBlock *b) {
  EvalSched *s = b->sched;
  for (int i = 0; i < s->nrings; i++)
    eval_ring_reset(b, &s->ring[i]);
  for (int i = 0; i < b->nagents; i++) {
    s->flights[i].first = s->flights[i].next = 0;
    s->role[i] = (RoleState){0};
    if (i)
      b->agent[i].state = AGENT_DONE;
  }
  s->nbarriers = 0;
}

/* ---------------------------------------------------------------- products in flight */

/* Places in the queue are reused, so that views into them stay valid while they matter. */
static Flight *flight_at(const Flights *f, uint64_t i) {
  return &f->v[i % IN_FLIGHT];
}

/* The product of any agent that reads this instance, or NULL. */
Flight *eval_flight_reader(EvalBlock *b, const void *data) {
  for (int i = 0; i < b->nagents; i++) {
    const Flights *f = &b->sched->flights[i];
    for (uint64_t n = f->first; n < f->next; n++)
      if (flight_at(f, n)->a.data == data || flight_at(f, n)->b.data == data)
        return flight_at(f, n);
  }
  return NULL;
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
             what, eval_sched_line(a->block, x->pc, line, sizeof line));
  eval_fault_hint(a, "put a dot_wait between the two");
  return EVAL_FAULTED;
}

/* All agents' products: shared tiles are everybody's. */
static EvalResult touch(EvalAgent *a, const SchedTouch *t) {
  EvalSched *s = a->block->sched;
  EvalResult r = EVAL_OK;
  for (size_t i = 0; i < t->n && r == EVAL_OK; i++) {
    const SchedUse *u = &t->v[i];
    if (s->ring_of[u->buf] >= 0)
      r = eval_ring_touch(a, u, &s->ring[s->ring_of[u->buf]]);
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
    eval_ring_reset(a->block, &a->block->sched->ring[((const IrChannel *)in->as.data)->id]);
    return EVAL_OK;
  case BC_ACQUIRE:
  case BC_COMMIT:
  case BC_WAIT:
  case BC_RELEASE:
    return eval_ring_run(a, in);
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

/* "consumer for stage 1 of channel ch to be committed (0 of 1 have) at line 24" */
static void add_agent(EvalAgent *a, Str *out) {
  const EvalInsn *in = machine_insn(a);
  char line[48];
  str_addf(out, "%s%s for ", out->n ? "; " : "", eval_sched_role(a));
  if (in->code == BC_ACQUIRE || in->code == BC_WAIT)
    eval_ring_waits_for(a, in, out);
  else if (!eval_barrier_waits_for(a, in, out))
    str_add(out, in->code == BC_SYNC ? "the others at a barrier" : "another block");
  str_addf(out, " at %s", eval_sched_line(a->block, a->pc, line, sizeof line));
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
