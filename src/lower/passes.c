/* passes.c: the passes of lowering, in order, and the verifier after each.
 *
 * In: a verified kernel of the tile or scheduled level and what is known of its call. Out: the
 * kernel at the level asked for. Always holds: what a pass makes is verified before the next one
 * sees it; a pass that breaks a kernel is our bug, reported as such. A candidate is a way to lower
 * from the tile level to threads; the best comes first, and where a pass of it declines (NULL, no
 * diagnostic, a note that says why) the next one is tried. Tests: tests/unit/check_lower.c.
 */
#include "sched.h"

#include <stdarg.h>

typedef IrKernel *PassRun(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink);
typedef struct Pass {
  const char *name;
  IrLevel makes; /* level of what comes out */
  PassRun *run;
} Pass;
typedef struct Candidate {
  const char *name;
  OpArch arch; /* least target */
  const Pass *pass;
  size_t n;
  PassRun *without; /* a pass of the list that it leaves out, or NULL */
} Candidate;

/* The simplest lowering needs nothing that a schedule decides; each tile-level kind means the same
 * one level down. */
static const Pass scalar[] = {{"relabel", IR_SCHEDULED, low_relabel},
                              {"scalar", IR_THREAD, low_simple},
                              {"grid", IR_THREAD, low_grid}};

/* The Hopper schedule: one warpgroup loads by TMA, the others multiply; of two chained products one
 * runs while the other's result is worked on, or, without `rotate`, each iteration by itself, where
 * fewer registers are live at once. */
static const Pass warpgroup[] = {
    {"select", IR_SCHEDULED, low_select}, {"tile_loop", IR_SCHEDULED, low_tile_loop},
    {"copies", IR_SCHEDULED, low_copies}, {"channels", IR_SCHEDULED, low_channels},
    {"roles", IR_SCHEDULED, low_roles},   {"rotate", IR_SCHEDULED, low_rotate},
    {"waits", IR_SCHEDULED, low_waits},   {"guards", IR_SCHEDULED, low_guards},
    {"hopper", IR_THREAD, low_expand},    {"approx", IR_THREAD, low_approx},
    {"grid", IR_THREAD, low_grid},
};

/* The same instructions in the roles that the author wrote, at his barriers; without `results`,
 * where these cannot be staged. */
static const Pass author[] = {
    {"author", IR_SCHEDULED, low_author}, {"results", IR_SCHEDULED, low_results},
    {"waits", IR_SCHEDULED, low_waits},   {"guards", IR_SCHEDULED, low_guards},
    {"hopper", IR_THREAD, low_expand},    {"approx", IR_THREAD, low_approx},
    {"grid", IR_THREAD, low_grid},
};

/* One role that loads and multiplies, where its threads write what warpgroups multiply. */
static const Pass ring[] = {
    {"select", IR_SCHEDULED, low_select},    {"ring", IR_SCHEDULED, low_ring},
    {"share", IR_SCHEDULED, low_ring_share}, {"registers", IR_THREAD, low_expand},
    {"powers", IR_THREAD, low_powers},       {"grid", IR_THREAD, low_grid}};

/* One role; fragments in registers, memory in vectors. */
static const Pass registers[] = {{"relabel", IR_SCHEDULED, low_relabel},
                                 {"registers", IR_THREAD, low_expand},
                                 {"powers", IR_THREAD, low_powers},
                                 {"grid", IR_THREAD, low_grid}};

/* The same with so few registers a thread that several blocks share a multiprocessor. */
static const Pass dense[] = {{"relabel", IR_SCHEDULED, low_relabel},
                             {"dense", IR_THREAD, low_expand_dense},
                             {"powers", IR_THREAD, low_powers},
                             {"grid", IR_THREAD, low_grid}};

/* The same, blocks taking tile after tile in an order that shares the cache. */
static const Pass turns[] = {{"relabel", IR_SCHEDULED, low_relabel},
                             {"turns", IR_SCHEDULED, low_turns},
                             {"registers", IR_THREAD, low_expand},
                             {"powers", IR_THREAD, low_powers},
                             {"grid", IR_THREAD, low_grid}};

#define CANDIDATE(name, arch, list, without)                                                       \
  { name, arch, list, sizeof list / sizeof *list, without }
static const Candidate candidates[] = {
    CANDIDATE("warpgroup, overlapped", ARCH_SM90A, warpgroup, NULL),
    CANDIDATE("warpgroup", ARCH_SM90A, warpgroup, low_rotate),
    CANDIDATE("warpgroup, roles of the author", ARCH_SM90A, author, NULL),
    CANDIDATE("warpgroup, roles of the author", ARCH_SM90A, author, low_results),
    CANDIDATE("warpgroup, one role, two blocks", ARCH_SM90A, ring, NULL),
    CANDIDATE("warpgroup, one role", ARCH_SM90A, ring, low_ring_share),
    CANDIDATE("registers, dense", ARCH_ANY, dense, NULL),
    CANDIDATE("registers, in turns", ARCH_SM80, turns, NULL),
    CANDIDATE("registers", ARCH_ANY, registers, NULL),
    CANDIDATE("scalar", ARCH_ANY, scalar, NULL),
};
enum { CANDIDATES = sizeof candidates / sizeof *candidates };

void lower_note(const LowerRequest *r, const char *fmt, ...) {
  if (!r->notes)
    return;
  va_list ap;
  va_start(ap, fmt);
  const char *text = arena_vprintf(r->notes->arena, fmt, ap);
  va_end(ap);
  VEC_PUSH(r->notes->arena, &r->notes->text, text);
}

LowerFact lower_fact(const LowerRequest *r, const IrBuffer *b) {
  return r->fact && b->space == IRS_GLOBAL ? r->fact[b->id] : (LowerFact){-1, 1, false};
}

/* A pass that made something wrong is named, so that a report can name it. */
static bool verified(IrKernel *k, const Pass *p, DiagSink *sink) {
  size_t before = sink->n;
  if (ir_verify(k, sink))
    return true;
  for (size_t i = before; i < sink->n; i++)
    diag_hint(sink, sink->v[i], "pass `%s` made this: please report it", p->name);
  return false;
}

/* What one candidate made: the thread level, and the scheduled one that it came from. */
typedef struct Made {
  IrKernel *at[IR_THREAD + 1];
  bool stopped; /* by a diagnostic or the hook, so that no other candidate is to be tried */
} Made;

/* Each pass makes a new kernel in the arena; the one before stays whole for the hook to compare. A
 * kernel that is scheduled already only goes through the passes below that level. */
static Made run(const Candidate *c, Arena *a, const IrKernel *k, const LowerRequest *r,
                DiagSink *sink) {
  Made m = {0};
  const IrKernel *now = k;
  size_t errors = sink->errors;
  for (size_t i = 0; i < c->n; i++) {
    if (c->pass[i].run == c->without || (c->pass[i].makes <= k->level && k->level > IR_TILE))
      continue;
    IrKernel *next = c->pass[i].run(a, now, r, sink);
    m.stopped = sink->errors > errors;
    if (!next)
      return m;
    if (next == now) /* nothing to do */
      continue;
    m.stopped = !verified(next, &c->pass[i], sink) ||
                (r->hook && !r->hook->after(next, c->name, c->pass[i].name, r->hook->ctx));
    if (m.stopped)
      return m;
    m.at[next->level] = next;
    now = next;
  }
  return m;
}

IrKernel *lower_to(Arena *a, const IrKernel *k, IrLevel level, const LowerRequest *r,
                   DiagSink *sink) {
  if (k->level >= level)
    return ir_kernel_clone(a, k);
  int passed_over = 0;
  for (int i = 0; i < CANDIDATES; i++) {
    const Candidate *c = &candidates[i];
    if (c->arch > r->target->arch)
      continue;
    Made m = run(c, a, k, r, sink);
    if (m.stopped)
      return NULL;
    if (!m.at[IR_THREAD])
      continue; /* it cannot, and counts for nothing */
    bool over = r->each || passed_over++ < r->candidate, last = i == CANDIDATES - 1;
    if (over && !last)
      continue;
    if (r->last)
      *r->last = last;
    lower_note(r, "schedule: %s", c->name);
    return level == IR_SCHEDULED && !m.at[level] ? ir_kernel_clone(a, k) : m.at[level];
  }
  return NULL;
}
