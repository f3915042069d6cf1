/* machine.c: the run loop.
 *
 * In: an agent that is ready. Out: it has ended, is blocked, or its block has a fault. Always
 * holds: a blocked instruction has changed nothing and is the next to run. The interrupt flag, the
 * other workers' faults and the step limit are looked at on every jump backwards and every strip.
 * There are three loops within each other: this one over instructions, the strips of a MAP
 * (BC_MAP_NEXT jumps back), and within an instruction its lanes, where the time goes: some 500
 * lanes pay for one dispatch. Every arithmetic instruction calls a strip function of ops, the same
 * for one element and for many. Tests: tests/unit/check_eval.c.
 */
#include <string.h>

#include "program.h"
#include "run.h"
#include "sched.h"
#include "noise.h"
#include "watch.h"

/* ---------------------------------------------------------------- values */

/* One element. */
static void move(DType t, void *dst, const void *src) {
  memcpy(dst, src, dtype_compute_size(t) == 8 ? 8 : dtype_compute_size(t));
}

#define BLEND(T)                                                                                   \
  {                                                                                                \
    T *d = dst;                                                                                    \
    const T *s = src;                                                                              \
    for (int i = 0; i < n; i++)                                                                    \
      d[i] = on[i] ? s[i] : d[i];                                                                  \
  }                                                                                                \
  break

/* By size only: bits move, whatever they mean. */
static void blend(size_t size, void *dst, const void *src, const uint8_t *on, int n) {
  switch (size) {
  case 1:
    BLEND(uint8_t);
  case 2:
    BLEND(uint16_t);
  case 4:
    BLEND(uint32_t);
  default:
    BLEND(uint64_t);
  }
}

/* SET of a variable in a branch keeps the other lanes. */
static void move_lanes(EvalAgent *a, const EvalInsn *in) {
  size_t size = dtype_compute_size((DType)in->type);
  const EvalMask *m = in->mask ? machine_reg(a, in->mask) : NULL;
  void *dst = machine_reg(a, in->dst);
  const void *src = machine_reg(a, in->src[0]);
  if (!m || m->n == a->lanes)
    memmove(dst, src, (size_t)a->lanes * size);
  else
    blend(size, dst, src, m->on, a->lanes);
}

#define FILL(T)                                                                                    \
  {                                                                                                \
    T *d = dst, x;                                                                                 \
    memcpy(&x, src, sizeof x);                                                                     \
    for (int64_t i = 0; i < n; i++)                                                                \
      d[i] = x;                                                                                    \
  }                                                                                                \
  break

/* The compiler makes vector stores of these loops. */
void eval_fill_lanes(size_t size, void *dst, const void *src, int64_t n) {
  switch (size) {
  case 1:
    FILL(uint8_t);
  case 2:
    FILL(uint16_t);
  case 4:
    FILL(uint32_t);
  default:
    FILL(uint64_t);
  }
}

/* Which faults an operation can have follows from the operation. */
static EvalResult arithmetic_fault(EvalAgent *a, const EvalInsn *in) {
  if (in->op == OP_POW)
    return eval_fault(a, E0453, "an integer to a negative power");
  return eval_fault(a, E0452, "integer division by zero");
}

/* What only some runs want of every result. */
static void look_at_values(EvalAgent *a, const EvalInsn *in, const void *const *src, void *out,
                           int n) {
  if (a->block->noise)
    eval_noise_values(a, in, src, out, n);
  if (a->block->watch)
    eval_watch_values(a, in, src, out, n);
}

/* The same function as for lanes, with n = 1: one arithmetic for everything. */
static EvalResult op_one(EvalAgent *a, const EvalInsn *in) {
  const void *src[4] = {a->reg[in->src[0]], a->reg[in->src[1]], a->reg[in->src[2]],
                        a->reg[in->src[3]]};
  if (a->block->watch || a->block->noise) {
    uint64_t out = 0;
    if (in->as.strip[a->block->isa](1, &out, src) != 1)
      return arithmetic_fault(a, in);
    look_at_values(a, in, src, &out, 1);
    memcpy(a->reg[in->dst], &out, dtype_compute_size((DType)in->type));
    return EVAL_OK;
  }
  if (in->as.strip[a->block->isa](1, a->reg[in->dst], src) == 1)
    return EVAL_OK;
  return arithmetic_fault(a, in);
}

/* Only lanes that take part may fault. */
static EvalResult lane_fault(EvalAgent *a, const EvalInsn *in, void *const *src, int first) {
  const EvalMask *m = in->mask ? machine_reg(a, in->mask) : NULL;
  size_t size = dtype_compute_size((DType)in->type);
  uint64_t result;
  for (int i = first; i < a->lanes; i++) {
    if (m && !m->on[i])
      continue;
    const void *one[2] = {(const char *)src[0] + (size_t)i * size,
                          (const char *)src[1] + (size_t)i * size};
    if (in->as.strip[a->block->isa](1, &result, one) != 1)
      return arithmetic_fault(a, in);
  }
  return EVAL_OK;
}

/* All lanes are computed, also those that are off: their results are never seen. */
static EvalResult op_lanes(EvalAgent *a, const EvalInsn *in) {
  void *src[4] = {a->reg[in->src[0]], a->reg[in->src[1]], a->reg[in->src[2]], a->reg[in->src[3]]};
  void *dst = a->reg[in->dst];
  size_t n = (size_t)a->lanes;
  /* Where it may fault or is watched the operands must survive. */
  bool same = dst == src[0] || dst == src[1];
  bool looks = a->block->watch || a->block->noise;
  bool keep = looks ? same || dst == src[2] : same && op_can_fault(in->op, (DType)in->type);
  size_t done = in->as.strip[a->block->isa](n, keep ? a->scratch : dst, (const void *const *)src);
  EvalResult r = done == n ? EVAL_OK : lane_fault(a, in, src, (int)done);
  if (looks && r == EVAL_OK)
    look_at_values(a, in, (const void *const *)src, keep ? a->scratch : dst, (int)n);
  if (keep)
    memcpy(dst, a->scratch, n * dtype_compute_size((DType)in->type));
  return r;
}

/* tid and lane; filled once an agent. */
static void thread_index(EvalAgent *a, const EvalInsn *in) {
  int32_t *d = machine_reg(a, in->dst);
  int32_t base = in->code == BC_TID ? a->id * EVAL_WARP : 0;
  for (int i = 0; i < EVAL_WARP; i++)
    d[i] = base + i;
}

/* Where this block or warp stands. */
static void block_value(EvalAgent *a, const EvalInsn *in) {
  int64_t v = in->code == BC_WARP          ? a->id
              : in->code == BC_BLOCK_INDEX ? a->block->index[in->as.imm]
                                           : a->block->binding->grid[in->as.imm];
  eval_int_to((DType)in->type, machine_reg(a, in->dst), v);
}

/* ---------------------------------------------------------------- loops */

/* The direction follows the sign of the step. */
static bool loop_over(DType t, const void *index, const void *hi, const void *step) {
  if (t == DT_U64)
    return *(const uint64_t *)index >= *(const uint64_t *)hi;
  int64_t i = eval_int_at(t, index), h = eval_int_at(t, hi);
  return eval_int_at(t, step) < 0 ? i <= h : i >= h;
}

/* False where the index would leave its type: the loop is over. */
static bool step_index(DType t, void *index, const void *step) {
  if (t == DT_U64) {
    uint64_t *i = index;
    return !__builtin_add_overflow(*i, *(const uint64_t *)step, i);
  }
  int64_t i = eval_int_at(t, index);
  if (__builtin_add_overflow(i, eval_int_at(t, step), &i))
    return false;
  if (i < dtype_int_min(t) || (i > 0 && (uint64_t)i > dtype_int_max(t)))
    return false;
  eval_int_to(t, index, i);
  return true;
}

/* lo is copied: the index changes, the bound may be shared. */
static EvalResult for_start(EvalAgent *a, const EvalInsn *in) {
  DType t = (DType)in->type;
  if (eval_int_at(t, machine_reg(a, in->src[2])) == 0)
    return eval_fault(a, E0454, "the step of this loop is 0");
  move(t, machine_reg(a, in->dst), machine_reg(a, in->src[0]));
  return EVAL_OK;
}

/* As a number modulo 2^64, with its sign. */
static uint64_t word_at(DType t, const void *at) {
  return t == DT_U64 ? *(const uint64_t *)at : (uint64_t)eval_int_at(t, at);
}

/* So many steps further; false where the loop is over before: the way that is left is no longer
 * than they are. */
static bool advance(DType t, void *index, const void *hi, const void *step, uint64_t times) {
  if (loop_over(t, index, hi, step))
    return false;
  bool down = t != DT_U64 && eval_int_at(t, step) < 0;
  uint64_t i = word_at(t, index), h = word_at(t, hi), s = word_at(t, step), far;
  if (__builtin_mul_overflow(down ? 0 - s : s, times, &far) || (down ? i - h : h - i) <= far)
    return false;
  eval_int_to(t, index, (int64_t)(down ? i - far : i + far));
  return true;
}

/* This block's share of a persistent loop begins at its own number. */
static void share(EvalAgent *a, const EvalInsn *in) {
  DType t = (DType)in->type;
  void *index = machine_reg(a, in->dst);
  const void *hi = machine_reg(a, in->src[1]);
  if (!advance(t, index, hi, machine_reg(a, in->src[2]), (uint64_t)a->block->linear))
    move(t, index, hi);
}

/* On by a step; in a persistent loop by as many as there are blocks. */
static bool next_index(EvalAgent *a, const EvalInsn *in) {
  DType t = (DType)in->type;
  const int64_t *grid = a->block->binding->grid;
  void *index = machine_reg(a, in->dst);
  const void *step = machine_reg(a, in->src[2]);
  if (!in->as.imm)
    return step_index(t, index, step);
  return advance(t, index, machine_reg(a, in->src[1]), step,
                 (uint64_t)(grid[0] * grid[1] * grid[2]));
}

/* Lanes whose loop is over leave its mask. */
static bool lanes_for_test(EvalAgent *a, const EvalInsn *in) {
  EvalMask *m = machine_reg(a, in->dst);
  DType t = (DType)in->type;
  size_t size = dtype_compute_size(t);
  const char *index = machine_reg(a, in->src[0]), *hi = machine_reg(a, in->src[1]),
             *step = machine_reg(a, in->src[2]);
  for (int i = 0; i < a->lanes; i++) {
    size_t at = (size_t)i * size;
    if (m->on[i] && loop_over(t, index + at, hi + at, step + at)) {
      m->on[i] = 0;
      m->n--;
    }
  }
  return m->n > 0;
}

/* A lane whose index would leave its type is done. */
static EvalResult lanes_for_next(EvalAgent *a, const EvalInsn *in) {
  EvalMask *m = machine_reg(a, in->mask);
  DType t = (DType)in->type;
  size_t size = dtype_compute_size(t);
  char *index = machine_reg(a, in->dst);
  const char *step = machine_reg(a, in->src[2]);
  for (int i = 0; i < a->lanes; i++) {
    if (!m->on[i])
      continue;
    if (eval_int_at(t, step + (size_t)i * size) == 0)
      return eval_fault(a, E0454, "the step of this loop is 0");
    if (!step_index(t, index + (size_t)i * size, step + (size_t)i * size)) {
      m->on[i] = 0;
      m->n--;
    }
  }
  return EVAL_OK;
}

/* ---------------------------------------------------------------- masks */

/* Strips differ in length: the mask is made for this one. */
static void mask_all(EvalAgent *a, Reg r) {
  EvalMask *m = machine_reg(a, r);
  m->n = a->lanes;
  memset(m->on, 1, (size_t)a->lanes);
}

/* No mask means all lanes. */
static void mask_copy(EvalAgent *a, Reg to, Reg from) {
  if (from == NO_REG) {
    mask_all(a, to);
    return;
  }
  EvalMask *m = machine_reg(a, to);
  const EvalMask *s = machine_reg(a, from);
  m->n = s->n;
  memcpy(m->on, s->on, (size_t)a->lanes);
}

/* flip is 1 for the other branch. False where nobody is left. */
static bool mask_and(EvalAgent *a, const EvalInsn *in, uint8_t flip) {
  EvalMask *m = machine_reg(a, in->dst);
  const EvalMask *outer = in->src[0] ? machine_reg(a, in->src[0]) : NULL;
  const uint8_t *cond = machine_reg(a, in->src[1]);
  int n = a->lanes, sum = 0;
  if (outer)
    for (int i = 0; i < n; i++)
      m->on[i] = outer->on[i] & (cond[i] ^ flip);
  else
    for (int i = 0; i < n; i++)
      m->on[i] = cond[i] ^ flip;
  for (int i = 0; i < n; i++)
    sum += m->on[i];
  m->n = sum;
  return sum > 0;
}

/* Lanes that leave a loop leave the masks around them too. */
static void mask_remove(EvalAgent *a, Reg from, Reg what) {
  EvalMask *m = machine_reg(a, from);
  const EvalMask *s = machine_reg(a, what);
  int sum = 0;
  for (int i = 0; i < a->lanes; i++) {
    m->on[i] = m->on[i] & (s->on[i] ^ 1);
    sum += m->on[i];
  }
  m->n = sum;
}

/* Everyone who was here has left. */
static void mask_clear(EvalAgent *a, Reg r) {
  EvalMask *m = machine_reg(a, r);
  m->n = 0;
  memset(m->on, 0, (size_t)a->lanes);
}

/* ---------------------------------------------------------------- tiles */

/* A tile without elements is whole. */
static void alloc_tile(EvalAgent *a, const EvalInsn *in) {
  EvalMem *m = &a->block->mem[in->as.imm];
  m->state = m->map && m->count ? WRITTEN_NONE : WRITTEN_ALL;
  m->nwritten = 0;
}

/* At thread level registers are noted as a whole, in a MAP by lane. */
static void reset_array(EvalAgent *a, const EvalInsn *in) {
  EvalArray *x = &a->array[in->as.imm];
  size_t lanes = a->block->program->kernel->level == IR_THREAD ? 1 : (size_t)a->lanes;
  memset(x->written, 0, (size_t)x->count * lanes);
}

/* Roles are ranges of warps. */
static bool in_role(const EvalAgent *a, const EvalInsn *in) {
  return a->id >= in->as.imm && a->id < in->as.imm + (int64_t)in->src[0];
}

/* ---------------------------------------------------------------- the loop */

/* Instructions with descriptors. */
static EvalResult run_memory(EvalAgent *a, const EvalInsn *in) {
  switch (in->code) {
  case BC_LOAD:
    return eval_access_load(a, in);
  case BC_STORE:
    return eval_access_store(a, in);
  case BC_ATOMIC:
    return eval_access_atomic(a, in);
  case BC_ARRAY_LOAD:
    return eval_access_array_load(a, in);
  case BC_ARRAY_STORE:
    return eval_access_array_store(a, in);
  case BC_REPORT:
    return eval_report_run(a, in);
  case BC_STOP:
    return eval_debug_stop(a, in);
  case BC_COPY:
    return eval_copy_run(a, in->as.data);
  case BC_REDUCE:
    return eval_reduce_run(a, in->as.data);
  case BC_SCAN:
    return eval_scan_run(a, in->as.data);
  case BC_DOT:
    return eval_dot_run(a, in->as.data);
  case BC_ATOMIC_REGION:
    return eval_copy_atomic(a, in->as.data);
  case BC_THREAD_OP:
    return eval_thread_run(a, in);
  case BC_TILE_START:
    eval_sched_tile_start(a, in->as.data);
    return EVAL_OK;
  case BC_TILE_NEXT:
    return eval_sched_tile_next(a, in->as.data);
  default:
    return eval_sched_run(a, in);
  }
}

/* Without any lane the value is nobody's. */
static void first_lane(EvalAgent *a, const EvalInsn *in) {
  size_t size = dtype_compute_size((DType)in->type);
  const EvalMask *m = in->mask ? machine_reg(a, in->mask) : NULL;
  int i = 0;
  while (m && i < a->lanes - 1 && !m->on[i])
    i++;
  memcpy(machine_reg(a, in->dst), (const char *)machine_reg(a, in->src[0]) + (size_t)i * size,
         size);
}

/* Instructions that neither jump nor touch memory. */
static EvalResult run_value(EvalAgent *a, const EvalInsn *in) {
  void **r = a->reg;
  switch (in->code) {
  case BC_OP_ONE:
    return op_one(a, in);
  case BC_OP_LANES:
    return op_lanes(a, in);
  case BC_MOVE_ONE:
    memcpy(r[in->dst], r[in->src[0]], 8);
    return EVAL_OK;
  case BC_MOVE_LANES:
    move_lanes(a, in);
    return EVAL_OK;
  case BC_FIRST:
    first_lane(a, in);
    return EVAL_OK;
  case BC_SPLAT: /* the whole register: strips differ in length */
    eval_fill_lanes(dtype_compute_size((DType)in->type), r[in->dst], r[in->src[0]],
                    a->block->program->lanes);
    return EVAL_OK;
  case BC_INDEX:
    eval_map_index(a, (int)in->as.imm, r[in->dst]);
    return EVAL_OK;
  case BC_TID:
  case BC_LANE:
    thread_index(a, in);
    return EVAL_OK;
  case BC_WARP:
  case BC_BLOCK_INDEX:
  case BC_GRID_SIZE:
    block_value(a, in);
    return EVAL_OK;
  case BC_FOR_START:
    return for_start(a, in);
  case BC_SHARE:
    share(a, in);
    return EVAL_OK;
  case BC_MASK_ALL:
    mask_all(a, in->dst);
    return EVAL_OK;
  case BC_MASK_COPY:
    mask_copy(a, in->dst, in->src[0]);
    return EVAL_OK;
  case BC_MASK_REMOVE:
    mask_remove(a, in->dst, in->src[0]);
    return EVAL_OK;
  case BC_MASK_CLEAR:
    mask_clear(a, in->dst);
    return EVAL_OK;
  case BC_LANES_FOR_NEXT:
    return lanes_for_next(a, in);
  case BC_ARRAY_RESET:
    reset_array(a, in);
    return EVAL_OK;
  case BC_ALLOC:
    alloc_tile(a, in);
    return EVAL_OK;
  default:
    return run_memory(a, in);
  }
}

/* Whether an instruction of control jumps. */
static bool jumps(EvalAgent *a, const EvalInsn *in) {
  void **r = a->reg;
  switch (in->code) {
  case BC_JUMP_UNLESS:
    return !*(const uint8_t *)r[in->src[0]];
  case BC_FOR_TEST:
    return loop_over((DType)in->type, r[in->dst], r[in->src[1]], r[in->src[2]]);
  case BC_FOR_NEXT:
    return !next_index(a, in);
  case BC_ROLE:
    return !in_role(a, in);
  case BC_MASK_AND:
    return !mask_and(a, in, 0);
  case BC_MASK_ANDNOT:
    return !mask_and(a, in, 1);
  case BC_JUMP_NONE:
    return ((const EvalMask *)r[in->src[0]])->n == 0;
  case BC_LANES_FOR_TEST:
    return !lanes_for_test(a, in);
  case BC_MAP:
    return !eval_map_start(a, in->as.data);
  case BC_TILE:
    return !eval_sched_tile(a, in->as.data);
  default: /* BC_MAP_NEXT */
    return eval_map_next(a);
  }
}

/* A `while` waits for another block. */
static EvalResult spin(EvalAgent *a) {
  if (a->block->program->interleave) {
    a->block->turn_over = true;
    return EVAL_BLOCKED;
  }
  eval_fault(a, E0455, "this `while` waits for another block, and none will run before it ends");
  eval_fault_hint(a, "write `grid … , cooperative = true`: all blocks are then resident");
  return EVAL_FAULTED;
}

/* The commonest instructions first; the others cost one more call. pc is kept up to date wherever a
 * fault could ask for it. */
EvalResult eval_machine_run(EvalAgent *a) {
  const EvalInsn *code = a->block->program->code, *in = code + a->pc;
  void **r = a->reg;
  EvalResult result;
  for (;; in++) {
    a->steps++;
    switch (in->code) {
    /* The end of the agent, or of the code that runs once a worker: prepare() comes back here. */
    case BC_END:
    case BC_NEXT_PHASE:
      a->pc = (uint32_t)(in - code);
      a->state = AGENT_DONE;
      return a->block->sched ? eval_sched_end(a) : EVAL_OK;
    /* Unsigned, so that index arithmetic wraps instead of being undefined. */
    case BC_ADD_I64:
      *(uint64_t *)r[in->dst] = *(uint64_t *)r[in->src[0]] + *(uint64_t *)r[in->src[1]];
      break;
    case BC_SUB_I64:
      *(uint64_t *)r[in->dst] = *(uint64_t *)r[in->src[0]] - *(uint64_t *)r[in->src[1]];
      break;
    case BC_MUL_I64:
      *(uint64_t *)r[in->dst] = *(uint64_t *)r[in->src[0]] * *(uint64_t *)r[in->src[1]];
      break;
    /* The loop adds one after every instruction, hence the minus one. */
    case BC_JUMP:
      in += in->jump - 1;
      break;
    /* The corners of the strip may spare the condition: false everywhere jumps past the branch,
     * true everywhere goes straight into it under the outer mask. */
    case BC_DECIDE: {
      int known = eval_map_decide(a, in->as.data);
      if (known == 0) {
        in += in->jump - 1;
      } else if (known == 1) {
        mask_copy(a, in->dst, in->src[0]);
        in += in->src[1];
      }
      break;
    }
    case BC_JUMP_UNLESS:
    case BC_FOR_TEST:
    case BC_FOR_NEXT:
    case BC_ROLE:
    case BC_MASK_AND:
    case BC_MASK_ANDNOT:
    case BC_JUMP_NONE:
    case BC_LANES_FOR_TEST:
    case BC_MAP:
    case BC_TILE:
      if (jumps(a, in))
        in += in->jump - 1;
      break;
    /* Every way back passes here, so an endless program can be stopped. */
    case BC_BACK:
    case BC_SPIN_BACK:
    case BC_MAP_NEXT:
      a->pc = (uint32_t)(in - code);
      if (in->code == BC_MAP_NEXT && !jumps(a, in))
        break;
      if ((result = eval_run_poll(a)) != EVAL_OK)
        return result;
      /* After a wait the loop starts again at its condition, not here. */
      if (in->code == BC_SPIN_BACK && (result = spin(a)) != EVAL_OK) {
        a->pc = (uint32_t)(in + in->jump - code);
        return result;
      }
      in += in->jump - 1;
      break;
    default:
      a->pc = (uint32_t)(in - code);
      if ((result = run_value(a, in)) != EVAL_OK)
        return result;
    }
  }
}
