/* sched.h: what the scheduled level adds to the machine; private to src/eval.
 *
 * Roles are agents of a block: agent 0 runs what stands outside ROLES, agent i + 1 the i-th role.
 * A channel is a ring of instances of its tiles; which instance a tile's name means is up to the
 * agent, so block->mem[tile] is set to its instance whenever an agent begins to run and whenever
 * its place in the ring changes. Tests: tests/unit/check_scheduled.c.
 */
#ifndef TILESH_EVAL_SCHED_H
#define TILESH_EVAL_SCHED_H

#include "program.h"

/* Tiles that a statement touches, how (IR_READS …); `chain`: as the accumulator of an asynchronous
 * product, which may follow another on the same one. */
typedef struct SchedUse {
  uint32_t buf;
  unsigned how;
  bool chain;
} SchedUse;
typedef struct SchedTouch {
  SchedUse *v;
  size_t n, cap;
} SchedTouch;

/* The bodies of a ROLES: where each begins, relative to the BC_FORK. */
typedef struct SchedFork {
  const IrRoles *roles;
  int32_t *entry;
} SchedFork;

typedef struct SchedTiles { /* TILE_LOOP */
  int naxes, group;
  bool turning;
  EvalInt count[3];
  Reg index[3], tile; /* tile: the number, i64 */
  DType type[3];
} SchedTiles;

/* ARRIVE, AWAIT: one barrier of an array. */
typedef struct SchedBarrier {
  const IrBuffer *buf;
  EvalInt index[IR_MAX_RANK];
  EvalInt parity; /* AWAIT */
} SchedBarrier;

/* compile_sched.c */
bool eval_sched_channel_tile(const IrKernel *k, const IrBuffer *b, int *stages);

/* sched_tile.c: false: no tile is left. */
void eval_sched_tile_start(EvalAgent *a, const SchedTiles *t);
bool eval_sched_tile(EvalAgent *a, const SchedTiles *t);
EvalResult eval_sched_tile_next(EvalAgent *a, const SchedTiles *t);

/* sched.c. State of a block, from block->arena. */
struct EvalSched *eval_sched_new(EvalBlock *b);
void eval_sched_start(EvalBlock *b);
/* The agent is about to run: tiles' names mean its instances. */
void eval_sched_enter(EvalAgent *a);
EvalResult eval_sched_run(EvalAgent *a, const EvalInsn *in);
/* The agent's code has ended. */
EvalResult eval_sched_end(EvalAgent *a);
EvalResult eval_sched_deadlock(EvalBlock *b);
/* "producer", or "the block" outside roles. */
const char *eval_sched_role(const EvalAgent *a);

/* barrier.c: BC_BARRIER, BC_ARRIVE, BC_AWAIT; what a blocked BC_AWAIT waits for, as text (false:
 * it is none). */
EvalResult eval_barrier_run(EvalAgent *a, const EvalInsn *in);
bool eval_barrier_waits_for(EvalAgent *a, const EvalInsn *in, Str *out);

/* dot.c: operands and result of a product with all checks, then the product itself. */
EvalResult eval_dot_views(EvalAgent *a, const EvalDotCode *c, EvalView *x, EvalView *y,
                          EvalView *z);
EvalResult eval_dot_product(EvalAgent *a, const EvalDotCode *c, EvalView *x, EvalView *y,
                            EvalView *z);

#endif
