/* thread_mbar.c: mbarriers: arrivals, bytes, phases.
 *
 * Always holds: a phase ends when its arrivals and its bytes are all in; the clocks of those that
 * arrived go to those that wait; a wait of parity p passes when the last ended phase has parity p
 * (a fresh barrier lets parity 1 pass). Tests: tests/unit/check_thread.c.
 */
#include <string.h>

#include "thread_device.h"

/* The barrier at an address, if the warp may know that it is initialised; NULL after a fault. */
Mbar *eval_mbar_find(EvalAgent *a, int64_t offset) {
  DevBlock *d = dev_block(a);
  if (eval_shared_place(a, offset, 8, 8) != EVAL_OK)
    return NULL;
  int i = d->mbar_at[offset / 8];
  if (!i) {
    eval_fault(a, E0469, "there is no initialised mbarrier at the shared address %lld",
               (long long)offset);
    return NULL;
  }
  Mbar *m = &d->mbar[i - 1];
  if (d->check && !clock_knows(&dev_warp(a)->clock, m->made)) {
    eval_fault(a, E0469,
               "warp %d uses the mbarrier at %lld, which warp %d initialised, and no "
               "barrier orders the two",
               a->id, (long long)offset, m->warp);
    return NULL;
  }
  return m;
}

/* One barrier a lane that takes part: usually one lane does, for each barrier of a ring. */
EVAL_ROW(mbar_init) {
  DevBlock *d = dev_block(a);
  (void)n;
  for (int i = 0; i < EVAL_WARP; i++) {
    if (!eval_lane_on(a, i))
      continue;
    int64_t at = eval_operand_int(&o[0], i), count = eval_operand_int(&o[1], i);
    if (eval_shared_place(a, at, 8, 8) != EVAL_OK)
      return EVAL_FAULTED;
    if (count < 1 || count > (1 << 20) - 1)
      return eval_fault(a, E0469, "an mbarrier of %lld arrivals: 1 to 1048575", (long long)count);
    if (d->mbar_at[at / 8])
      return eval_fault(a, E0469, "the mbarrier at %lld is initialised a second time",
                        (long long)at);
    if (d->nmbars == MOST_MBARS)
      return eval_fault(a, E0490, "more than %d mbarriers in a block", MOST_MBARS);
    Mbar *m = &d->mbar[d->nmbars++];
    d->mbar_at[at / 8] = (uint8_t)d->nmbars;
    *m = (Mbar){.address = (uint32_t)at,
                .count = (int)count,
                .pending = (int)count,
                .warp = a->id,
                .made = dev_now(a)};
    if (d->check)
      d->granule[at / GRANULE].flags |= GR_BARRIER;
  }
  return EVAL_OK;
}

/* What this warp initialised is now visible to the copy engine. */
EVAL_ROW(mbar_fence_init) {
  DevBlock *d = dev_block(a);
  (void)o, (void)n;
  for (int i = 0; i < d->nmbars; i++)
    if (d->mbar[i].warp == a->id)
      d->mbar[i].fenced = true;
  return EVAL_OK;
}

/* Orders generic writes before the asynchronous proxy, an initialisation among them. */
EVAL_ROW(fence_proxy_async) {
  if (dev_block(a)->check)
    eval_shadow_fence(a);
  return eval_row_mbar_fence_init(a, o, n);
}

static int number_of(const DevBlock *d, const Mbar *m) {
  return (int)(m - d->mbar);
}

/* A phase that ends while its own loads are under way was promised too few bytes: whoever waits
 * would read a stage that is not there yet, on the hardware now and then only. */
EvalResult eval_mbar_settle(EvalAgent *a, Mbar *m, uint32_t pc) {
  DevBlock *d = dev_block(a);
  if (m->pending || m->bytes)
    return EVAL_OK;
  if (d->check && m->loads)
    return eval_fault_at(a, pc, E0469,
                         "the phase of the mbarrier at %u ends with %lld bytes of its "
                         "loads still under way: %lld were announced",
                         m->address, (long long)m->under_way, (long long)m->expected);
  m->phase++;
  m->pending = m->count;
  m->expected = 0;
  clock_join(&m->done, &m->gathered);
  clock_learn(&m->done, stamp(COMP_MBAR + number_of(d, m), m->phase));
  memset(&m->gathered, 0, sizeof m->gathered);
  return EVAL_OK;
}

/* One arrival of one lane, with more bytes to come. */
static EvalResult arrive(EvalAgent *a, Mbar *m, int64_t bytes) {
  DevBlock *d = dev_block(a);
  DevWarp *w = dev_warp(a);
  if (m->pending == 0)
    return eval_fault(a, E0469, "the mbarrier at %u gets more than its %d arrivals in phase %u",
                      m->address, m->count, m->phase);
  if (d->check && !clock_knows(&w->clock, stamp(COMP_MBAR + number_of(d, m), m->phase)))
    return eval_fault(a, E0469,
                      "warp %d arrives at the mbarrier at %u in phase %u, and nothing "
                      "tells it that the phase before, of %d arrivals, is over",
                      a->id, m->address, m->phase, m->count);
  if (bytes < 0 || m->bytes + bytes > (1 << 20) - 1)
    return eval_fault(a, E0469,
                      "the mbarrier at %u is to count %lld bytes in one phase: at most "
                      "1048575",
                      m->address, (long long)(m->bytes + bytes));
  m->pending--;
  m->bytes += bytes;
  m->expected += bytes;
  clock_join(&m->gathered, &w->clock);
  return EVAL_OK;
}

/* What the warp did before is released once, whatever the number of lanes; so its time steps
 * once. */
static EvalResult arrive_lanes(EvalAgent *a, const EvalOperand *o, int n) {
  DevWarp *w = dev_warp(a);
  for (int i = 0; i < EVAL_WARP; i++) {
    if (!eval_lane_on(a, i))
      continue;
    Mbar *m = eval_mbar_find(a, eval_operand_int(&o[0], i));
    EvalResult r = m ? arrive(a, m, n > 1 ? eval_operand_int(&o[1], i) : 0) : EVAL_FAULTED;
    if (r == EVAL_OK)
      r = eval_mbar_settle(a, m, a->pc);
    if (r != EVAL_OK)
      return r;
    /* Lanes run in lockstep: the arrival that ended the phase is known to those after it only if
     * the warp waits, so nothing is learnt here. */
  }
  w->clock.t[COMP_WARP + a->id]++;
  return EVAL_OK;
}

EVAL_ROW(mbar_arrive) {
  return arrive_lanes(a, o, n);
}
/* The same with bytes: the second operand. */
EVAL_ROW(mbar_expect_tx) {
  return arrive_lanes(a, o, n);
}

/* Phase `known` is over as this warp knows; it waits for the one after, and others have gone on. */
static EvalResult check_lag(EvalAgent *a, const Mbar *m, int64_t parity) {
  uint32_t known = dev_warp(a)->clock.t[COMP_MBAR + number_of(dev_block(a), m)];
  if (m->phase < known + 2 || (known & 1) != (uint32_t)parity)
    return EVAL_OK;
  return eval_fault(a, E0469,
                    "warp %d waits for phase %u of the mbarrier at %u, which has gone on "
                    "to phase %u: it lags by two, and parities cannot tell them apart",
                    a->id, known, m->address, m->phase);
}

/* First every lane must pass, then the warp learns: a blocked instruction must not have changed
 * anything. */
EVAL_ROW(mbar_wait) {
  DevBlock *d = dev_block(a);
  DevWarp *w = dev_warp(a);
  (void)n;
  bool uniform = !o[0].step && !o[1].step;
  for (int i = 0; i < EVAL_WARP; i++) {
    if (!eval_lane_on(a, i))
      continue;
    Mbar *m = eval_mbar_find(a, eval_operand_int(&o[0], i));
    int64_t parity = eval_operand_int(&o[1], i);
    if (!m)
      return EVAL_FAULTED;
    if (parity != 0 && parity != 1)
      return eval_fault(a, E0469, "a parity of %lld: 0 or 1", (long long)parity);
    if (d->check && check_lag(a, m, parity) != EVAL_OK)
      return EVAL_FAULTED;
    if (((m->phase + 1) & 1) != (uint32_t)parity)
      return eval_blocked(a, WAIT_MBAR, number_of(d, m), parity);
    if (uniform)
      break;
  }
  for (int i = 0; i < EVAL_WARP; i++) {
    if (!eval_lane_on(a, i))
      continue;
    clock_join(&w->clock, &eval_mbar_find(a, eval_operand_int(&o[0], i))->done);
    if (uniform)
      break;
  }
  return EVAL_OK;
}
