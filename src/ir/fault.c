/* fault.c: what faults say, on the evaluator and on a GPU.
 *
 * In: the code and the words that a kernel has for a check; the program's block. Out: the number of
 * the site, and its words again; the block's words. Tests: tests/lang/fault_at_*.tile, on both.
 */
#include <inttypes.h>
#include <string.h>

#include "impl.h"

/* Sites are few, so a search does; equal ones share a number, the FAULT's second operand. */
int ir_site(IrKernel *k, DiagCode code, const char *text) {
  for (size_t i = 0; i < k->sites.n; i++)
    if (k->sites.v[i].code == code && strcmp(k->sites.v[i].text, text) == 0)
      return (int)i;
  IrSite site = {code, arena_printf(k->arena, "%s", text)};
  VEC_PUSH(k->arena, &k->sites, site);
  return (int)k->sites.n - 1;
}

IrSite ir_site_said(Arena *a, const IrKernel *k, int64_t n) {
  if (k && n >= 0 && (uint64_t)n < k->sites.n)
    return k->sites.v[n];
  return (IrSite){E0478, arena_printf(a, "check %" PRId64 " failed: {0}, {1}", n)};
}

void ir_say_block(const int64_t *index, int rank, Str *out) {
  for (int i = 0; i < rank; i++)
    str_addf(out, "%s%lld",
             i > 0      ? ", "
             : rank > 1 ? ", in block ("
                        : ", in block ",
             (long long)index[i]);
  str_add(out, rank > 1 ? ")" : "");
}
