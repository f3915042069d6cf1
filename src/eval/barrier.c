/* barrier.c: the barriers that an author declares (`barrier full[3]`), and waiting for them.
 *
 * In: instructions of compile_sched.c. Out: each arrives, goes on, waits, or faults with its place.
 * A barrier is one element of its array, which lies in a tile like any other: its value packs the
 * number of phases that have ended (high half) and the arrivals of the one under way (low half).
 * Always holds: fewer arrivals are under way than end a phase. As in the hardware, a wait for a
 * parity passes when the phase under way has the other one, so that a fresh barrier lets 1 pass.
 * Tests: tests/lang/specialize_*.tile, tests/errors/specialize_*.tile.
 */
#include "sched.h"

#include <inttypes.h>
#include <string.h>

/* ---------------------------------------------------------------- the element */

/* NULL: outside, a fault. */
static uint64_t *element(EvalAgent *a, const SchedBarrier *x, int64_t *index) {
  EvalMem *m = &a->block->mem[x->buf->id];
  int64_t at = 0;
  for (int i = 0; i < m->rank; i++) {
    index[i] = machine_int(a, &x->index[i]);
    if (index[i] < 0 || index[i] >= m->extent[i]) {
      eval_fault(a, E0450,
                 "index %" PRId64 " is outside axis %d of barrier %s, whose extent is %" PRId64,
                 index[i], i, x->buf->name, m->extent[i]);
      return NULL;
    }
    at += index[i] * m->stride[i];
  }
  return (uint64_t *)m->data + at;
}

static uint64_t ended(uint64_t v) {
  return v >> 32;
}

static uint64_t arrived(uint64_t v) {
  return v & UINT32_MAX;
}

/* ---------------------------------------------------------------- instructions */

/* A declaration: no phase has ended, nobody has arrived. */
static EvalResult init(EvalAgent *a, const EvalInsn *in) {
  EvalMem *m = &a->block->mem[in->as.imm];
  memset(m->data, 0, (size_t)m->count * sizeof(uint64_t));
  m->state = WRITTEN_ALL;
  return EVAL_OK;
}

/* The last of a phase's arrivals begins the next one. */
static EvalResult arrive(EvalAgent *a, const EvalInsn *in) {
  const SchedBarrier *x = in->as.data;
  int64_t index[IR_MAX_RANK];
  uint64_t *v = element(a, x, index);
  if (!v)
    return EVAL_FAULTED;
  ++*v;
  if (arrived(*v) == (uint64_t)x->buf->arrivals)
    *v = (ended(*v) + 1) << 32;
  return EVAL_OK;
}

/* Only the lowest bit of the parity counts. */
static EvalResult await(EvalAgent *a, const EvalInsn *in) {
  const SchedBarrier *x = in->as.data;
  int64_t index[IR_MAX_RANK];
  const uint64_t *v = element(a, x, index);
  if (!v)
    return EVAL_FAULTED;
  return (ended(*v) & 1) == ((uint64_t)machine_int(a, &x->parity) & 1) ? EVAL_BLOCKED : EVAL_OK;
}

EvalResult eval_barrier_run(EvalAgent *a, const EvalInsn *in) {
  switch (in->code) {
  case BC_BARRIER:
    return init(a, in);
  case BC_ARRIVE:
    return arrive(a, in);
  default: /* BC_AWAIT */
    return await(a, in);
  }
}

/* ---------------------------------------------------------------- deadlock */

/* "phase 2 of full[1] to end, which has 1 of 2 arrivals": who is missing follows from it. */
bool eval_barrier_waits_for(EvalAgent *a, const EvalInsn *in, Str *out) {
  const SchedBarrier *x = in->as.data;
  int64_t index[IR_MAX_RANK];
  char list[160];
  const uint64_t *v = in->code == BC_AWAIT ? element(a, x, index) : NULL;
  if (!v)
    return false;
  eval_list_text(index, x->buf->rank, list, sizeof list);
  str_addf(out, "phase %" PRIu64 " of %s%s%s%s to end, which has %" PRIu64 " of %d arrivals",
           ended(*v), x->buf->name, x->buf->rank ? "[" : "", list, x->buf->rank ? "]" : "",
           arrived(*v), x->buf->arrivals);
  return true;
}
