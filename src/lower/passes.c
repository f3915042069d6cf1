/* passes.c: the passes of lowering, in order, and the verifier after each.
 *
 * In: a verified tile-level kernel. Out: the kernel at the level asked for. Always holds: what a
 * pass makes is verified before the next one sees it; a pass that breaks a kernel is our bug,
 * reported as such. Tests: tests/unit/check_lower.c.
 *
 * The order that is coming: bind, simplify, check marks, tile_loop, select,
 * layouts, copies, channels, interior/edge, roles, rotate, split, waits, plan shared, syncs, to
 * threads, clean up. Until then a scheduled kernel is the tile-level one relabelled: every
 * tile-level kind is a kind of the scheduled level too, with the same meaning, and nothing is
 * chosen yet.
 */
#include "simple.h"

typedef struct Pass {
  const char *name;
  IrKernel *(*run)(Arena *a, const IrKernel *k, const Target *t, DiagSink *sink);
} Pass;

/* Truthful because each tile-level kind means the same one level down. */
static IrKernel *relabel(Arena *a, const IrKernel *k, const Target *t, DiagSink *sink) {
  (void)t;
  (void)sink;
  IrKernel *out = ir_kernel_clone(a, k);
  out->level = IR_SCHEDULED;
  return out;
}

static const Pass to_scheduled[] = {{"relabel", relabel}};
/* The simplest lowering needs nothing that a schedule decides, and starts from either level. */
static const Pass to_threads[] = {{"simple", low_simple}};

/* A pass that made something wrong is named, so that a report can name it. */
static bool verified(IrKernel *k, const Pass *p, DiagSink *sink) {
  size_t before = sink->n;
  if (ir_verify(k, sink))
    return true;
  for (size_t i = before; i < sink->n; i++)
    diag_hint(sink, sink->v[i], "pass `%s` made this: please report it", p->name);
  return false;
}

/* Each pass makes a new kernel in the arena; the one before stays whole for the hook to compare. */
IrKernel *lower_observed(Arena *a, const IrKernel *k, IrLevel level, const Target *t,
                         const LowerHook *hook, DiagSink *sink) {
  const Pass *pass = level == IR_THREAD ? to_threads : to_scheduled;
  size_t n = level == IR_THREAD ? sizeof to_threads / sizeof *to_threads
                                : sizeof to_scheduled / sizeof *to_scheduled;
  if (k->level >= level)
    return ir_kernel_clone(a, k);
  IrKernel *now = NULL;
  for (size_t i = 0; i < n; i++) {
    const IrKernel *before = now ? now : k;
    now = pass[i].run(a, before, t, sink);
    if (!now || !verified(now, &pass[i], sink))
      return NULL;
    if (hook && !hook->after(before, now, pass[i].name, hook->ctx))
      return NULL;
  }
  return now;
}

/* Without anyone looking on. */
IrKernel *lower_to(Arena *a, const IrKernel *k, IrLevel level, const Target *t, DiagSink *sink) {
  return lower_observed(a, k, level, t, NULL, sink);
}
