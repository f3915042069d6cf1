/* fault.c: latching the first fault of a block, and naming elements in it.
 *
 * A fault is text at once: what it names may be gone when it is reported. It lives in the block,
 * whose worker keeps it until a lower block's fault replaces it or the launch ends.
 * Tests: tests/unit/check_eval.c (faults).
 */
#include <stdarg.h>
#include <stdio.h>

#include "program.h"

/* Where the agent stands in the program's text. */
Span eval_here(const EvalAgent *a) {
  const EvalProgram *p = a->block->program;
  return a->pc < p->ncode ? p->span[p->code[a->pc].place] : p->kernel->span;
}

/* The first one stays: what follows from it says nothing new. */
EvalResult eval_fault(EvalAgent *a, DiagCode code, const char *fmt, ...) {
  EvalFault *f = &a->block->fault;
  if (f->set)
    return EVAL_FAULTED;
  f->set = true;
  f->code = code;
  f->span = eval_here(a);
  f->hint[0] = '\0';
  f->other = (Span){NULL, 0, 0};
  f->block_named = false;
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(f->text, sizeof f->text, fmt, ap);
  va_end(ap);
  return EVAL_FAULTED;
}

/* Belongs to the fault just recorded. */
void eval_fault_hint(EvalAgent *a, const char *fmt, ...) {
  EvalFault *f = &a->block->fault;
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(f->hint, sizeof f->hint, fmt, ap);
  va_end(ap);
}

/* The declaration of b with a value to start at. */
static void hint_value(EvalAgent *a, const IrBuffer *b) {
  static const char *const words[] = {
      [IRS_SHARED] = "shared ", [IRS_FRAGMENT] = "fragment ", [IRS_LOCAL] = "local "};
  const char *zero = b->dtype == DT_BOOL ? "false" : "0";
  bool out = b->space == IRS_GLOBAL;
  int64_t extent[IR_MAX_RANK] = {0};
  char list[160] = "…"; /* extents of tensors have names there */
  for (int i = 0; !out && i < b->rank; i++)
    ir_is_const(b->extent[i], &extent[i]);
  if (!out || !b->rank)
    eval_list_text(extent, b->rank, list, sizeof list);
  eval_fault_hint(a, "it may start at a value: %s%s: %s[%s] = %s%s", out ? "-> (" : words[b->space],
                  b->name, dtype_name(b->dtype), list, zero, out ? ")" : "");
}

/* Below the tile level names may be the compiler's: nothing is shown of those. */
EvalResult eval_fault_unwritten(EvalAgent *a, const IrBuffer *b, const char *named) {
  bool first = !a->block->fault.set;
  eval_fault(a, E0451, "%s is read before anything wrote it", named);
  if (first && a->block->program->kernel->level == IR_TILE)
    hint_value(a, b);
  return EVAL_FAULTED;
}

/* Cut where the room ends: eight axes always fit. */
void eval_list_text(const int64_t *v, int n, char *out, size_t size) {
  size_t used = 0;
  if (size)
    out[0] = '\0';
  for (int i = 0; i < n && used < size; i++) {
    int len = snprintf(out + used, size - used, i ? ", %lld" : "%lld", (long long)v[i]);
    used += len > 0 ? (size_t)len : 0;
  }
}

/* Back from the map's row-major place to coordinates. */
void eval_mem_name(const EvalMem *m, int64_t element, char *out, size_t size) {
  int64_t index[IR_MAX_RANK];
  char list[160];
  for (int i = m->rank - 1; i >= 0; i--) {
    index[i] = m->extent[i] ? element % m->extent[i] : 0;
    element = m->extent[i] ? element / m->extent[i] : 0;
  }
  eval_list_text(index, m->rank, list, sizeof list);
  snprintf(out, size, "element [%s] of %s", list, m->buf->name);
}
