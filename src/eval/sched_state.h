/* sched_state.h: the state of a block at the scheduled level, of sched.c and ring.c alone.
 *
 * Rings of channels with each agent's place in them, products in flight, roles, barriers. All lies
 * in block->arena, made once a worker. Tests: tests/unit/check_scheduled.c.
 */
#ifndef TILESH_EVAL_SCHED_STATE_H
#define TILESH_EVAL_SCHED_STATE_H

#include "sched.h"

enum { IN_FLIGHT = 64, SYNCS = 16 };

/* What one role knows of a channel: its own counters. */
typedef struct RingPlace {
  int64_t acquired, committed, waited;
  bool *held; /* by stage: waited for and not released */
} RingPlace;

typedef struct Ring {
  const IrChannel *ir;
  EvalMem *instance; /* [stage][tile] */
  int bound;         /* the stage that block->mem shows; -1: none */
  /* By stage: uses that were opened by a producer, committed, released, and arrivals so far. */
  int64_t *opened, *full, *empty;
  int *commits, *releases;
  RingPlace *place; /* by agent */
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

/* ring.c */
void eval_ring_new(EvalBlock *b, Ring *r, const IrChannel *ir);
/* All stages are free. */
void eval_ring_reset(EvalBlock *b, Ring *r);
/* The channel's tiles mean what the agent's place in the ring says. */
void eval_ring_show(EvalAgent *a, Ring *r);
/* BC_ACQUIRE, BC_COMMIT, BC_WAIT, BC_RELEASE. */
EvalResult eval_ring_run(EvalAgent *a, const EvalInsn *in);
/* Whether the agent may use a tile of the channel so. */
EvalResult eval_ring_touch(EvalAgent *a, const SchedUse *u, const Ring *r);
/* What a blocked BC_ACQUIRE or BC_WAIT waits for, as text. */
void eval_ring_waits_for(const EvalAgent *a, const EvalInsn *in, Str *out);

/* sched.c */
/* The product of any agent that reads this instance, or NULL. */
Flight *eval_flight_reader(EvalBlock *b, const void *data);
/* "line 24" of an instruction, for faults that name two places, into the buffer. */
const char *eval_sched_line(const EvalBlock *b, uint32_t pc, char *out, size_t size);

#endif
