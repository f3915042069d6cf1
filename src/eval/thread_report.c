/* thread_report.c: the words of the thread level's faults and of its deadlock report.
 * Tests: tests/unit/check_thread.c, tests/mutants.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "thread_device.h"

/* The place of any instruction, not only of the one that an agent is at. */
static Span span_of(const EvalBlock *b, uint32_t pc) {
  const EvalProgram *p = b->program;
  return pc < p->ncode ? p->span[p->code[pc].place] : p->kernel->span;
}

/* Recorded as the agent's fault, then moved: the load or product at fault was issued long
 * before. */
EvalResult eval_fault_at(EvalAgent *a, uint32_t pc, DiagCode code, const char *fmt, ...) {
  EvalFault *f = &a->block->fault;
  if (f->set)
    return EVAL_FAULTED;
  va_list ap;
  va_start(ap, fmt);
  char text[sizeof f->text];
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  eval_fault(a, code, "%s", text);
  f->span = span_of(a->block, pc);
  return EVAL_FAULTED;
}

const char *eval_line(const EvalBlock *b, uint32_t pc, char *out, size_t size) {
  Span s = span_of(b, pc);
  uint32_t line = 0, column = 0;
  if (s.file)
    src_position(s.file, s.begin, &line, &column);
  if (line)
    snprintf(out, size, "line %u", line);
  else
    snprintf(out, size, "an earlier statement");
  return out;
}

/* What it waits for is kept in plain numbers; words are made only if it comes to a deadlock. */
EvalResult eval_blocked(EvalAgent *a, WaitKind kind, int at, int64_t what) {
  DevWarp *w = dev_warp(a);
  w->wait = kind;
  w->wait_at = at;
  w->wait_for = what;
  a->wait_span = eval_here(a);
  return EVAL_BLOCKED;
}

EvalResult eval_whole_warp(EvalAgent *a, const char *what) {
  for (int i = 0; a->mask && i < EVAL_WARP; i++)
    if (!a->mask[i])
      return eval_fault(a, E0473,
                        "%s is for all 32 lanes of a warp together, and lane %d of warp "
                        "%d does not take part",
                        what, i, a->id);
  return EVAL_OK;
}

/* Expected against arrived, bytes too: from these one sees who did not come. */
static void add_mbar(const EvalAgent *a, const DevWarp *w, Str *out) {
  const Mbar *m = &dev_block(a)->mbar[w->wait_at];
  str_addf(out, "parity %lld of the mbarrier at %u (its phase %u has %d of %d arrivals",
           (long long)w->wait_for, m->address, m->phase, m->count - m->pending, m->count);
  if (m->bytes > 0)
    str_addf(out, " and lacks %lld of %lld bytes", (long long)m->bytes, (long long)m->expected);
  if (m->bytes < 0)
    str_addf(out, " and has %lld bytes more than were announced", (long long)-m->bytes);
  str_addc(out, ')');
}

/* The threads that came, of those that the barrier is for. */
static void add_named(const EvalAgent *a, const DevWarp *w, Str *out) {
  const NamedBarrier *n = &dev_block(a)->named[w->wait_at];
  str_addf(out, "barrier %d (%d of %d threads have arrived)", w->wait_at, n->arrived, n->expected);
}

/* A product starts when its four warps have issued it: how many have. */
static void add_product(const EvalAgent *a, Str *out) {
  const Warpgroup *g = &dev_block(a)->group[a->id / 4];
  const Product *p = &g->product[(g->done + 1) % PRODUCTS];
  int here = __builtin_popcount((unsigned)p->issued);
  str_addf(out, "a product that only %d of the 4 warps of warpgroup %d have issued", here,
           a->id / 4);
}

/* One line of the deadlock report, without the warp. */
static void add_wait(const EvalAgent *a, Str *out) {
  const DevWarp *w = dev_warp(a);
  char line[48];
  switch (w->wait) {
  case WAIT_MBAR:
    add_mbar(a, w, out);
    break;
  case WAIT_NAMED:
    add_named(a, w, out);
    break;
  case WAIT_PRODUCT:
    add_product(a, out);
    break;
  case WAIT_REGISTERS:
    str_addf(out, "%lld registers a thread (%d registers of the block are free)",
             (long long)w->wait_for, dev_block(a)->free_registers);
    break;
  case WAIT_NOTHING:
    str_add(out, "something");
    break;
  }
  str_addf(out, " at %s", eval_line(a->block, a->pc, line, sizeof line));
}

/* ---------------------------------------------------------------- deadlock */

/* Neighbours that wait for the same thing share a line: a warpgroup usually does. */
static void add_warps(int first, int last, const Str *what, Str *out) {
  if (out->n)
    str_add(out, "; ");
  if (first == last)
    str_addf(out, "warp %d for %s", first, str_text(what));
  else
    str_addf(out, "warps %d to %d for %s", first, last, str_text(what));
}

/* The report stands where the rarest kind of wait is: who waits for an mbarrier mostly waits for
 * someone who is stuck elsewhere. */
static EvalAgent *to_blame(EvalBlock *b) {
  EvalAgent *worst = NULL;
  for (int i = 0; i < b->nagents; i++) {
    EvalAgent *a = &b->agent[i];
    if (a->state == AGENT_BLOCKED && (!worst || dev_warp(a)->wait > dev_warp(worst)->wait))
      worst = a;
  }
  return worst;
}

EvalResult eval_device_deadlock(EvalBlock *b) {
  Str all = str_new(b->arena), last = str_new(b->arena);
  int from = -1, to = -1; /* warps whose words are in `last` */
  for (int i = 0; i < b->nagents; i++) {
    Str one = str_new(b->arena);
    if (b->agent[i].state != AGENT_BLOCKED)
      continue;
    add_wait(&b->agent[i], &one);
    if (from >= 0 && (i != to + 1 || strcmp(str_text(&one), str_text(&last)) != 0)) {
      add_warps(from, to, &last, &all);
      from = -1;
    }
    from = from < 0 ? i : from;
    to = i;
    last = one;
  }
  if (from >= 0)
    add_warps(from, to, &last, &all);
  EvalAgent *a = to_blame(b);
  return a ? eval_fault(a, E0455, "deadlock: every warp that has not ended waits: %s",
                        str_text(&all))
           : EVAL_FAULTED;
}
