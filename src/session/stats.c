/* stats.c: what a kernel takes and does: k:stats(a, b) of Lua.
 *
 * In: a kernel value and the arguments of a call. Out: a record: registers of a thread, bytes of
 * shared memory of a block, threads of a block, blocks that a multiprocessor holds at a time, and
 * the call's operations and bytes. Needs the device's compiler, but no device. Tests:
 * tests/lua/run.
 */
#include <stdlib.h>
#include <string.h>

#include "device.h"

enum { RESERVED = 1 << 10 }; /* bytes: the system's share of each block */

/* Registers are given out to warps, 256 at a time; shared memory to blocks. */
int64_t blocks_at_a_time(const Target *t, unsigned registers, int threads, size_t bytes,
                         bool with_reserved) {
  if (threads <= 0)
    return 0;
  int64_t warps = (threads + 31) / 32, regs = ((int64_t)registers * 32 + 255) / 256 * 256;
  int64_t shared = (int64_t)(bytes + (with_reserved ? 0 : RESERVED));
  int64_t n = base_least(t->blocks, t->threads / (warps * 32));
  if (regs > 0)
    n = base_least(n, t->registers / (regs * warps));
  return base_least(n, (int64_t)t->shared / (shared > 0 ? shared : 1));
}

/* What the kernel itself takes of a block's shared memory: from sm_90 on a cubin's static part has
 * the system's share in it. */
static size_t own_shared(const Target *t, const GpuFacts *f, size_t dynamic) {
  bool counted = strtol(t->name + 3, NULL, 10) >= 90 && f->shared_bytes >= RESERVED; /* "sm_" */
  return f->shared_bytes - (counted ? RESERVED : 0) + dynamic;
}

int64_t device_at_a_time(const Target *t, const GpuFacts *f, int threads, size_t dynamic) {
  return blocks_at_a_time(t, f->registers, threads, own_shared(t, f, dynamic), false);
}

Value kernel_stats_call(Session *s, Value kernel, Args *a) {
  Launch l;
  int threads = 0;
  size_t dynamic = 0;
  launch_prepare(s, kernel, a, &l);
  const GpuFacts *f = device_facts(&l, &threads, &dynamic);
  const Target *t = session_target(s);
  size_t shared = own_shared(t, f, dynamic);
  const struct {
    const char *name;
    Value value;
  } rows[] = {
      {"registers", val_int(f->registers)},
      {"shared", val_int((int64_t)shared)},
      {"local_bytes", val_int(f->local_bytes)},
      {"threads", val_int(threads)},
      {"blocks", val_int(device_at_a_time(t, f, threads, dynamic))},
      {"flops", val_float(launch_flops(&l, true))},
      {"bytes", val_float(launch_bytes(&l))},
  };
  enum { ROWS = sizeof rows / sizeof *rows };
  Field fields[ROWS];
  for (size_t i = 0; i < ROWS; i++)
    fields[i] = (Field){names_get(s->names, rows[i].name, strlen(rows[i].name)), rows[i].value};
  return val_record(s, fields, ROWS);
}
