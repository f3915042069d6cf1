/* target.c: what each target has.
 *
 * Goes in: a name. Comes out: a Target. The figures are the CUDA programming guide's tables of
 * compute capabilities; sms is that of the usual card (A100, L40S, H100/H200).
 * Tests: tests/unit/check_cuda.c.
 */
#include "lower.h"

#include <string.h>

static const Target targets[] = {
    {.name = "sm_80",
     .arch = ARCH_SM80,
     .sms = 108,
     .shared_limit = 163 << 10,
     .registers = 65536,
     .max_threads = 1024},
    {.name = "sm_89",
     .arch = ARCH_SM80,
     .sms = 142,
     .shared_limit = 99 << 10,
     .registers = 65536,
     .max_threads = 1024},
    {.name = "sm_90a",
     .arch = ARCH_SM90A,
     .sms = 132,
     .shared_limit = 227 << 10,
     .registers = 65536,
     .max_threads = 1024},
};
enum { TARGETS = sizeof targets / sizeof *targets };

const Target *target_find(const char *name) {
  for (int i = 0; i < TARGETS; i++)
    if (strcmp(targets[i].name, name) == 0)
      return &targets[i];
  return NULL;
}

static const char *const names[TARGETS] = {"sm_80", "sm_89", "sm_90a"};

const char *const *target_names(size_t *n) {
  *n = TARGETS;
  return names;
}
