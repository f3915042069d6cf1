/* target.c: what each target has.
 *
 * Goes in: a name. Comes out: a Target. The figures are the CUDA programming guide's tables of
 * compute capabilities; sms is that of the usual card (A100, A40, L40S, H100 or H200, B200, B300,
 * RTX PRO 6000). Tests: tests/unit/check_cuda.c.
 */
#include "lower.h"

#include <string.h>

/* wgmma is of sm_90a alone: what came later has other tensor core instructions, and is served as
 * sm_80 until the compiler knows them. */
static const Target targets[] = {
    {"sm_80", ARCH_SM80, 108, 163 << 10, 1024, 65536, 2048, 32, 64, 164 << 10},
    {"sm_86", ARCH_SM80, 84, 99 << 10, 1024, 65536, 1536, 16, 128, 100 << 10},
    {"sm_89", ARCH_SM89, 142, 99 << 10, 1024, 65536, 1536, 24, 128, 100 << 10},
    {"sm_90a", ARCH_SM90A, 132, 227 << 10, 1024, 65536, 2048, 32, 128, 228 << 10},
    {"sm_100a", ARCH_SM89, 148, 227 << 10, 1024, 65536, 2048, 32, 128, 228 << 10},
    {"sm_103a", ARCH_SM89, 148, 227 << 10, 1024, 65536, 2048, 32, 128, 228 << 10},
    {"sm_120a", ARCH_SM89, 188, 99 << 10, 1024, 65536, 1536, 24, 128, 100 << 10},
};
enum { TARGETS = sizeof targets / sizeof *targets };

const Target *target_find(const char *name) {
  for (int i = 0; i < TARGETS; i++)
    if (strcmp(targets[i].name, name) == 0)
      return &targets[i];
  return NULL;
}

bool target_has_shared(const Target *t, int64_t bytes) {
  return bytes <= (int64_t)t->shared_limit;
}

const Target *target_at(size_t i) {
  return i < TARGETS ? &targets[i] : NULL;
}
