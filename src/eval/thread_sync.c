/* thread_sync.c: barriers of warps, exchanges between lanes, registers of warpgroups.
 *
 * Always holds: a barrier takes the clocks of those that arrive and gives them to those that wait;
 * nobody may arrive at a meeting who cannot know that the one before is over, since in another
 * timing that arrival would have counted there. Tests: tests/unit/check_thread.c.
 */
#include <stdio.h>
#include <string.h>

#include "tensor/tensor.h"
#include "thread_device.h"

/* ---------------------------------------------------------------- named barriers */

/* What the warp did until now is released under its time; what follows has a later one. */
static void release_into(EvalAgent *a, Clock *gathered) {
  DevWarp *w = dev_warp(a);
  clock_join(gathered, &w->clock);
  w->clock.t[COMP_WARP + a->id]++;
}

/* One warp arrives with its 32 threads; the last one ends the meeting for all. */
static EvalResult arrive(EvalAgent *a, int id, int threads) {
  NamedBarrier *n = &dev_block(a)->named[id];
  DevWarp *w = dev_warp(a);
  if (n->arrived && n->expected != threads)
    return eval_fault(a, E0470,
                      "barrier %d is for %d threads here, and for %d where others have "
                      "arrived",
                      id, threads, n->expected);
  if (dev_block(a)->check && !clock_knows(&w->clock, stamp(COMP_NAMED + id, n->phase)))
    return eval_fault(a, E0470,
                      "warp %d arrives at barrier %d, and nothing tells it that the "
                      "meeting before, of other warps, is over",
                      a->id, id);
  if (n->members >> a->id & 1)
    return eval_fault(a, E0470,
                      "warp %d arrives a second time at barrier %d before the %d "
                      "threads have met",
                      a->id, id, threads);
  n->expected = threads;
  n->arrived += EVAL_WARP;
  n->members |= 1u << a->id;
  release_into(a, &n->gathered);
  if (n->arrived < threads)
    return EVAL_OK;
  n->arrived = 0;
  n->members = 0;
  n->phase++;
  clock_join(&n->done, &n->gathered);
  clock_learn(&n->done, stamp(COMP_NAMED + id, n->phase));
  memset(&n->gathered, 0, sizeof n->gathered);
  return EVAL_OK;
}

/* Arrives once, then comes back until the meeting is over: the agent runs the instruction again
 * each time it is scheduled. */
static EvalResult meet(EvalAgent *a, int id, int threads) {
  NamedBarrier *n = &dev_block(a)->named[id];
  DevWarp *w = dev_warp(a);
  if (!w->arrived) {
    uint32_t phase = n->phase;
    EvalResult r = arrive(a, id, threads);
    if (r != EVAL_OK)
      return r;
    w->arrived = true;
    w->named_phase = phase;
  }
  if (n->phase == w->named_phase)
    return eval_blocked(a, WAIT_NAMED, id, 0);
  w->arrived = false;
  clock_join(&w->clock, &n->done);
  return EVAL_OK;
}

/* The hardware counts whole warps, so lanes must agree on the barrier and all take part. */
static EvalResult check_named(EvalAgent *a, const EvalOperand *o, int *id, int *threads) {
  int64_t i = eval_operand_int(&o[0], 0), n = eval_operand_int(&o[1], 0);
  for (int l = 1; o[0].step && l < EVAL_WARP; l++)
    if (eval_lane_on(a, l) && eval_lane_on(a, 0) && eval_operand_int(&o[0], l) != i)
      return eval_fault(a, E0470, "lanes of warp %d name different barriers", a->id);
  if (i < 0 || i >= MOST_NAMED)
    return eval_fault(a, E0470, "there is no barrier %lld: they are 0 to 15", (long long)i);
  if (n <= 0 || n % EVAL_WARP || n > MOST_WARPS * EVAL_WARP)
    return eval_fault(a, E0470, "a barrier of %lld threads: it takes a multiple of 32",
                      (long long)n);
  *id = (int)i;
  *threads = (int)n;
  return eval_whole_warp(a, "a barrier");
}

/* Barrier 0 of all threads, as the hardware has it: a program that also names 0 meets itself
 * there. */
EVAL_ROW(syncthreads) {
  (void)o, (void)n;
  EvalResult r = eval_whole_warp(a, "syncthreads");
  return r == EVAL_OK ? meet(a, 0, a->block->nagents * EVAL_WARP) : r;
}

EVAL_ROW(bar_sync) {
  int id, threads;
  (void)n;
  EvalResult r = check_named(a, o, &id, &threads);
  return r == EVAL_OK ? meet(a, id, threads) : r;
}

/* Arrives for others that wait: it learns nothing, so it cannot come twice without another
 * order. */
EVAL_ROW(bar_arrive) {
  int id, threads;
  (void)n;
  EvalResult r = check_named(a, o, &id, &threads);
  return r == EVAL_OK ? arrive(a, id, threads) : r;
}

/* syncwarp, membar, grid_wait, grid_launch, tma_prefetch: the lanes of a warp run together, blocks
 * of one launch share no order that could be missed, and nothing is fetched ahead. */
EVAL_ROW(nothing) {
  (void)a, (void)o, (void)n;
  return EVAL_OK;
}

/* ---------------------------------------------------------------- lanes */

/* The lane whose value a lane gets. */
typedef int (*SourceLane)(int lane, int64_t by);

static int lane_xor(int lane, int64_t by) {
  return lane ^ (int)(by & 31);
}
static int lane_index(int lane, int64_t by) {
  return (void)lane, (int)(by & 31);
}
static int lane_up(int lane, int64_t by) {
  return lane < by ? lane : lane - (int)by;
}
static int lane_down(int lane, int64_t by) {
  return lane + by > 31 ? lane : lane + (int)by;
}

/* Reads all values before it writes any: the destination may be the source's register. */
static EvalResult shuffle(EvalAgent *a, const EvalOperand *o, SourceLane source) {
  size_t size = dtype_compute_size(o[0].type);
  char from[EVAL_WARP * 8], *to = o[0].out;
  for (int i = 0; i < EVAL_WARP; i++)
    memcpy(from + (size_t)i * size, (const char *)o[1].data + (size_t)i * o[1].step, size);
  for (int i = 0; i < EVAL_WARP; i++) {
    if (!eval_lane_on(a, i))
      continue;
    int64_t by = eval_operand_int(&o[2], i);
    if (by < 0 || by > 31)
      return eval_fault(a, E0473, "a shuffle by %lld: lanes are 0 to 31", (long long)by);
    int j = source(i, by);
    if (!eval_lane_on(a, j))
      return eval_fault(a, E0473,
                        "lane %d of warp %d takes the value of lane %d, which does not "
                        "take part",
                        i, a->id, j);
    memcpy(to + (o[0].uniform ? 0 : (size_t)i * size), from + (size_t)j * size, size);
  }
  return EVAL_OK;
}

EVAL_ROW(shfl_xor) {
  return (void)n, shuffle(a, o, lane_xor);
}
EVAL_ROW(shfl_idx) {
  return (void)n, shuffle(a, o, lane_index);
}
EVAL_ROW(shfl_up) {
  return (void)n, shuffle(a, o, lane_up);
}
EVAL_ROW(shfl_down) {
  return (void)n, shuffle(a, o, lane_down);
}

/* Lanes that do not take part have no vote. */
static EvalResult vote(EvalAgent *a, const EvalOperand *o, bool all) {
  bool result = all;
  for (int i = 0; i < EVAL_WARP; i++) {
    bool x = eval_operand_int(&o[1], i) != 0;
    if (eval_lane_on(a, i))
      result = all ? result && x : result || x;
  }
  memset(o[0].out, result, o[0].uniform ? 1 : EVAL_WARP);
  return EVAL_OK;
}

EVAL_ROW(vote_any) {
  return (void)n, vote(a, o, false);
}
EVAL_ROW(vote_all) {
  return (void)n, vote(a, o, true);
}

/* ---------------------------------------------------------------- registers */

/* The instruction encodes the count in steps of 8. */
static EvalResult check_registers(EvalAgent *a, int64_t count) {
  if (count % 8 || count < 24 || count > 256)
    return eval_fault(a, E0474, "%lld registers a thread: a multiple of 8 from 24 to 256",
                      (long long)count);
  return eval_whole_warp(a, "setmaxnreg");
}

/* Gives back at once; a warp that says "lower" and means "raise" would corrupt what others hold. */
EVAL_ROW(setmaxnreg_dec) {
  DevWarp *w = dev_warp(a);
  EvalResult r = check_registers(a, o[0].imm);
  (void)n;
  if (r != EVAL_OK)
    return r;
  if (o[0].imm > w->registers)
    return eval_fault(a, E0474, "setmaxnreg_dec to %lld registers, where a thread has %d",
                      (long long)o[0].imm, w->registers);
  dev_block(a)->free_registers += (w->registers - (int)o[0].imm) * EVAL_WARP;
  w->registers = (int)o[0].imm;
  return EVAL_OK;
}

/* Waits until others gave enough back: with wrong sums for ever, which the deadlock report
 * shows. */
EVAL_ROW(setmaxnreg_inc) {
  DevWarp *w = dev_warp(a);
  EvalResult r = check_registers(a, o[0].imm);
  (void)n;
  if (r != EVAL_OK)
    return r;
  int more = ((int)o[0].imm - w->registers) * EVAL_WARP;
  if (more < 0)
    return eval_fault(a, E0474, "setmaxnreg_inc to %lld registers, where a thread has %d",
                      (long long)o[0].imm, w->registers);
  if (more > dev_block(a)->free_registers)
    return eval_blocked(a, WAIT_REGISTERS, 0, o[0].imm);
  dev_block(a)->free_registers -= more;
  w->registers = (int)o[0].imm;
  return EVAL_OK;
}

/* ---------------------------------------------------------------- checks compiled in */

/* The words of a check, and the program's block where the operation says it. */
static EvalResult fault_site(EvalAgent *a, const EvalOperand *o, int n, int lane) {
  int64_t value[2] = {eval_operand_int(&o[2], lane), eval_operand_int(&o[3], lane)}, index[3] = {0};
  Arena *arena = arena_new(NULL, "fault");
  Str text = str_new(arena);
  IrSite site = ir_site_said(arena, a->block->program->kernel, eval_operand_int(&o[1], lane));
  scalar_print_in(site.text, value, &text);
  for (int i = 4; i < n && i < 7; i++)
    index[i - 4] = eval_operand_int(&o[i], lane);
  ir_say_block(index, n > 4 ? n - 4 : 0, &text);
  eval_fault(a, site.code, "%s", str_text(&text));
  a->block->fault.block_named = n > 4;
  arena_free(arena);
  return EVAL_FAULTED;
}

/* The first lane whose check fails is the fault, as on the device, where the record keeps the
 * first. */
EVAL_ROW(fault) {
  for (int i = 0; i < EVAL_WARP; i++)
    if (eval_lane_on(a, i) && eval_operand_int(&o[0], i))
      return fault_site(a, o, n, i);
  return EVAL_OK;
}
