/* atomic.c: read-modify-write of one element, device-wide.
 *
 * In: the element's address and operands in compute form. Out: the new element, in one step that no
 * other block can divide; the old one where asked. Blocks whose result hangs on the order of their
 * atomics run one after the other (compile.c), so the bits are the same every time.
 * The order between an atomic and plain accesses of other blocks needs no fence of its own: blocks
 * that read what others stored run on one thread, see compile.c.
 * Tests: tests/unit/check_eval.c (blocks, atomics).
 */
#include <string.h>

#include "run.h"

/* Old to new, both in compute form. */
static void combine(OpCode op, OpStrip step, DType t, const void *old, const void *value,
                    const void *expected, void *out) {
  size_t size = dtype_compute_size(t);
  const void *src[2] = {old, value};
  if (op == OP_ATOMIC_EXCHANGE) {
    memcpy(out, value, size);
  } else if (op == OP_ATOMIC_CAS) {
    memcpy(out, memcmp(old, expected, size) == 0 ? value : old, size);
  } else if (op == OP_ATOMIC_INC) {
    uint64_t x = (uint64_t)eval_int_at(t, old), limit = (uint64_t)eval_int_at(t, value);
    eval_int_to(t, out, x >= limit ? 0 : (int64_t)(x + 1));
  } else {
    step(1, out, src);
  }
}

#define REPLACE(T)                                                                                 \
  {                                                                                                \
    T have, want;                                                                                  \
    memcpy(&have, seen, sizeof have);                                                              \
    memcpy(&want, next, sizeof want);                                                              \
    bool done = __atomic_compare_exchange_n((T *)at, &have, want, false, __ATOMIC_SEQ_CST,         \
                                            __ATOMIC_SEQ_CST);                                     \
    memcpy(seen, &have, sizeof have);                                                              \
    return done;                                                                                   \
  }

/* Replaces what was seen, or sees anew and returns false. */
static bool replace(size_t size, void *at, void *seen, const void *next) {
  switch (size) {
  case 1:
    REPLACE(uint8_t)
  case 2:
    REPLACE(uint16_t)
  case 4:
    REPLACE(uint32_t)
  default:
    REPLACE(uint64_t)
  }
}

/* An atomic load of the element's width. */
void eval_atomic_load(size_t size, const void *at, void *out) {
  switch (size) {
  case 1:
    *(uint8_t *)out = __atomic_load_n((const uint8_t *)at, __ATOMIC_SEQ_CST);
    break;
  case 2:
    *(uint16_t *)out = __atomic_load_n((const uint16_t *)at, __ATOMIC_SEQ_CST);
    break;
  case 4:
    *(uint32_t *)out = __atomic_load_n((const uint32_t *)at, __ATOMIC_SEQ_CST);
    break;
  default:
    *(uint64_t *)out = __atomic_load_n((const uint64_t *)at, __ATOMIC_SEQ_CST);
  }
}

/* Narrow floats are combined in f32 and rounded once, like any other operation on them. The loop
 * ends because another block must have succeeded whenever this one did not. */
void eval_atomic_apply(OpCode op, OpStrip step, DType t, bool stored, void *at, const void *value,
                       const void *expected, void *old) {
  bool narrow = stored && dtype_compute(t) != t;
  size_t size = stored ? dtype_size(t) : dtype_compute_size(t);
  uint64_t seen = 0, next = 0, from, to;
  eval_atomic_load(size, at, &seen);
  do {
    if (narrow)
      dtype_unpack(t, &seen, &from, 1);
    else
      memcpy(&from, &seen, sizeof from);
    combine(op, step, t, &from, value, expected, &to);
    if (narrow)
      dtype_pack(t, &to, &next, 1);
    else
      memcpy(&next, &to, sizeof next);
  } while (!replace(size, at, &seen, &next));
  if (old)
    memcpy(old, &from, dtype_compute_size(t));
}
