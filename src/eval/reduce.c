/* reduce.c: REDUCE and SCAN.
 *
 * In: a view and an axis. Out: its fold along the axis, elements in ascending order, or the running
 * folds. The arithmetic is ops' (op_fold); order and grouping do not depend on the machine.
 * Three ways with the same order of elements: line by line; across, when the lanes are neighbours
 * along another axis; and turned, when many short rows are folded along their length, where a
 * serial chain of additions would otherwise wait for itself.
 * Tests: tests/unit/check_eval.c, tests/unit/check_eval_tiles.c (folds and scans).
 */
#include <string.h>

#include "run.h"
#include "noise.h"
#include "watch.h"

enum { CHUNK = 512, TURN = 64 };

/* These keep an index; ops has no fold for them. */
static bool is_arg(OpCode op) {
  return op == OP_ARGMAX || op == OP_ARGMIN;
}

/* One line of n elements at a stride, folded into acc. */
typedef struct Line {
  OpCode op;
  DType type;
  OpFold fold;
  int64_t index; /* argmax, argmin: of the next element, and of the best */
  int64_t best;
  uint64_t value; /* the best element */
} Line;

/* Only a better element replaces the best, so ties go to the lowest index. */
static void line_arg(Line *l, const char *p, int64_t n) {
  size_t size = dtype_compute_size(l->type);
  for (int64_t i = 0; i < n; i++, p += size, l->index++)
    if (l->best < 0 || op_better(l->op, l->type, p, &l->value)) {
      l->best = l->index;
      memcpy(&l->value, p, size);
    }
}

/* In place where elements are neighbours in compute form, else by chunks. */
static void line_fold(Line *l, const EvalMem *m, int64_t at, int64_t step, int64_t n, void *acc) {
  uint64_t room[CHUNK];
  bool in_place = step == 1 && (!m->stored || dtype_compute(m->dtype) == m->dtype);
  for (int64_t i = 0; i < n; i += CHUNK) {
    int64_t k = n - i < CHUNK ? n - i : CHUNK;
    const void *p = eval_mem_at(m, at + i);
    if (in_place)
      k = n;
    else
      eval_mem_gather(m, at + i * step, step, room, k);
    if (is_arg(l->op))
      line_arg(l, in_place ? p : (void *)room, k);
    else
      l->fold((size_t)k, acc, in_place ? p : (void *)room);
    if (in_place)
      return;
  }
}

/* Rows of f32 whose elements are neighbours, many at a time: turned, so that each step of the fold
 * takes one element of every row. The order within a row stays. */
static void fold_turned(EvalAgent *a, const EvalReduceCode *c, const float *src, int64_t row,
                        int64_t rows, int64_t n, float *acc) {
  float turned[TURN * TURN];
  DType a_type = c->type;
  OpFold fold = op_fold_lanes_on(a->block->isa, c->op, a_type);
  for (int64_t i = 0; i < n; i += TURN) {
    int64_t k = n - i < TURN ? n - i : TURN;
    eval_transpose(src + i, row, turned, k, rows);
    for (int64_t j = 0; j < k; j++)
      fold((size_t)rows, acc, turned + j * rows);
  }
}

/* The others have an identity to give. */
static EvalResult fault_empty(EvalAgent *a, OpCode op) {
  return eval_fault(a, E0457, "%s of no elements has no answer", op_info(op)->name);
}

/* ---------------------------------------------------------------- the whole */

/* One fold goes on over all rows, in row-major order. */
static EvalResult reduce_whole(EvalAgent *a, const EvalReduceCode *c, const EvalView *s) {
  uint64_t acc = 0;
  Line l = {.op = c->op, .type = s->mem->dtype, .best = -1};
  int64_t i[IR_MAX_RANK] = {0}, count = 1;
  l.fold = is_arg(c->op) ? NULL : op_fold_on(a->block->isa, c->op, l.type);
  if (!is_arg(c->op))
    scalar_store_compute(op_identity(c->op, l.type), &acc);
  for (int d = 0; d < s->rank; d++)
    count *= s->extent[d];
  int last = s->rank - 1;
  for (bool more = count > 0; more;) {
    int64_t at = s->base;
    for (int d = 0; d < last; d++)
      at += i[d] * s->stride[d];
    line_fold(&l, s->mem, at, last < 0 ? 1 : s->stride[last], last < 0 ? 1 : s->extent[last], &acc);
    int d = last - 1;
    while (d >= 0 && ++i[d] == s->extent[d])
      i[d--] = 0;
    more = d >= 0;
  }
  if (is_arg(c->op) && l.best < 0)
    return fault_empty(a, c->op);
  if (is_arg(c->op))
    eval_int_to(DT_I32, machine_reg(a, c->scalar), l.best);
  else
    memcpy(machine_reg(a, c->scalar), &acc, 8);
  return EVAL_OK;
}

/* ---------------------------------------------------------------- along an axis */

/* The lanes are neighbours along the last axis, the fold goes along another. */
static void fold_across(EvalAgent *a, const EvalReduceCode *c, const EvalView *s, int64_t at,
                        const EvalView *d, int64_t to) {
  uint64_t acc[CHUNK], room[CHUNK];
  DType t = s->mem->dtype, r = op_reduce_type(c->op, t);
  OpFold fold = op_fold_lanes_on(a->block->isa, c->op, t);
  int last = s->rank - 1;
  uint64_t identity = 0;
  scalar_store_compute(op_identity(c->op, t), &identity);
  int64_t dstep = d->stride[d->rank - 1];
  for (int64_t i = 0; i < s->extent[last]; i += CHUNK) {
    int64_t n = s->extent[last] - i < CHUNK ? s->extent[last] - i : CHUNK;
    eval_fill_lanes(dtype_compute_size(r), acc, &identity, n);
    for (int64_t k = 0; k < s->extent[c->axis]; k++) {
      eval_mem_gather(s->mem, at + k * s->stride[c->axis] + i * s->stride[last], s->stride[last],
                      room, n);
      fold((size_t)n, acc, room);
    }
    eval_mem_scatter(d->mem, to + i * dstep, dstep, acc, n);
  }
}

/* One result: a line along the axis. */
static EvalResult fold_along(EvalAgent *a, const EvalReduceCode *c, const EvalView *s, int64_t at,
                             EvalMem *dst, int64_t to) {
  uint64_t acc = 0;
  Line l = {.op = c->op, .type = s->mem->dtype, .best = -1};
  if (!is_arg(c->op)) {
    l.fold = op_fold_on(a->block->isa, c->op, l.type);
    scalar_store_compute(op_identity(c->op, l.type), &acc);
  }
  line_fold(&l, s->mem, at, s->stride[c->axis], s->extent[c->axis], &acc);
  if (is_arg(c->op)) {
    if (l.best < 0)
      return fault_empty(a, c->op);
    eval_int_to(DT_I32, &acc, l.best);
  }
  eval_mem_scatter(dst, to, 1, &acc, 1);
  return EVAL_OK;
}

/* Rank 2 along the last axis, f32 in compute form on both sides. */
static bool can_turn(const EvalReduceCode *c, const EvalView *s, const EvalView *d) {
  DType t = s->mem->dtype;
  bool plain = !is_arg(c->op) && dtype_compute(t) == DT_F32 && !s->mem->stored &&
               dtype_compute(op_reduce_type(c->op, t)) == DT_F32 && !d->mem->stored;
  return plain && s->rank == 2 && c->axis == 1 && s->stride[1] == 1 && s->extent[0] >= 8;
}

/* As many rows at a time as a turned square holds. */
static EvalResult reduce_turned(EvalAgent *a, const EvalReduceCode *c, const EvalView *s,
                                const EvalView *d) {
  float acc[TURN];
  uint64_t identity = 0;
  scalar_store_compute(op_identity(c->op, s->mem->dtype), &identity);
  for (int64_t i = 0; i < s->extent[0]; i += TURN) {
    int64_t rows = s->extent[0] - i < TURN ? s->extent[0] - i : TURN;
    eval_fill_lanes(sizeof *acc, acc, &identity, rows);
    fold_turned(a, c, eval_mem_at(s->mem, s->base + i * s->stride[0]), s->stride[0], rows,
                s->extent[1], acc);
    eval_mem_scatter(d->mem, d->base + i * d->stride[0], d->stride[0], acc, rows);
  }
  return EVAL_OK;
}

/* Axis of the destination that belongs to axis i of the source; -1: none. */
static int to_axis(const EvalView *s, const EvalView *d, int axis, int i) {
  if (d->rank == s->rank)
    return i;
  return i == axis ? -1 : i < axis ? i : i - 1;
}

/* Walks the destination in row-major order. */
static EvalResult reduce_axis(EvalAgent *a, const EvalReduceCode *c, const EvalView *s,
                              const EvalView *d) {
  int64_t i[IR_MAX_RANK] = {0};
  int last = s->rank - 1;
  bool across = c->axis != last && !is_arg(c->op);
  for (int k = 0; k < s->rank; k++)
    if (k != c->axis && s->extent[k] == 0)
      return EVAL_OK;
  for (;;) {
    int64_t at = s->base, to = d->base;
    for (int k = 0; k < s->rank; k++) {
      at += i[k] * s->stride[k];
      if (k != c->axis)
        to += i[k] * d->stride[to_axis(s, d, c->axis, k)];
    }
    if (across)
      fold_across(a, c, s, at, d, to);
    else if (fold_along(a, c, s, at, d->mem, to) != EVAL_OK)
      return EVAL_FAULTED;
    int k = last;
    while (k >= 0 && (k == c->axis || (across && k == last) || ++i[k] == s->extent[k]))
      i[k--] = 0;
    if (k < 0)
      return EVAL_OK;
  }
}

/* Only these make infinities and NaN of numbers. */
static bool sums(OpCode op) {
  return op == OP_SUM || op == OP_PROD;
}

/* The source must be written whole before anything is folded. */
EvalResult eval_reduce_run(EvalAgent *a, const EvalReduceCode *c) {
  EvalView s, d;
  EvalResult r = eval_region_resolve(a, &c->src, NULL, &s);
  if (r == EVAL_OK)
    r = eval_region_read(a, &s);
  if (r == EVAL_OK && c->axis < 0)
    r = reduce_whole(a, c, &s);
  if (r == EVAL_OK && c->axis < 0 && a->block->watch && sums(c->op))
    eval_watch_scalar(a, op_info(c->op)->name, op_reduce_type(c->op, s.mem->dtype),
                      machine_reg(a, c->scalar), eval_watch_look(&s));
  if (r == EVAL_OK && c->axis < 0 && a->block->noise)
    eval_noise_scalar(a, c->op, &s, machine_reg(a, c->scalar));
  if (r != EVAL_OK || c->axis < 0)
    return r;
  r = eval_region_resolve(a, &c->dst, NULL, &d);
  if (r == EVAL_OK)
    r = can_turn(c, &s, &d) ? reduce_turned(a, c, &s, &d) : reduce_axis(a, c, &s, &d);
  if (r == EVAL_OK && a->block->watch && sums(c->op))
    eval_watch_result(a, op_info(c->op)->name, &d, eval_watch_look(&s));
  if (r == EVAL_OK && a->block->noise)
    eval_noise_fold(a, c->op, &s, c->axis, &d);
  if (r == EVAL_OK)
    eval_region_mark_written(&d);
  return r;
}

/* ---------------------------------------------------------------- scans */

/* Each element is read before its place is written: the two may be the same tile. */
static void scan_line(EvalAgent *a, const EvalScanCode *c, const EvalView *s, int64_t at,
                      const EvalView *d, int64_t to) {
  DType t = s->mem->dtype;
  OpFold fold = op_fold_on(a->block->isa, c->op, t);
  uint64_t acc = 0, x = 0, out = 0;
  EvalNoiseTerms line = {0};
  scalar_store_compute(op_identity(c->op, t), &acc);
  int64_t n = s->extent[c->axis];
  for (int64_t k = 0; k < n; k++) {
    int64_t i = c->reverse ? n - 1 - k : k;
    eval_mem_gather(s->mem, at + i * s->stride[c->axis], 1, &x, 1);
    out = acc;
    fold(1, &acc, &x);
    if (a->block->noise)
      eval_noise_running(a, c->op, t, &x, &acc, &line);
    if (!c->exclusive)
      out = acc;
    eval_mem_scatter(d->mem, to + i * d->stride[c->axis], 1, &out, 1);
  }
}

/* Line by line; lines do not meet. */
EvalResult eval_scan_run(EvalAgent *a, const EvalScanCode *c) {
  EvalView s, d;
  int64_t i[IR_MAX_RANK] = {0};
  EvalResult r = eval_region_resolve(a, &c->src, NULL, &s);
  if (r == EVAL_OK)
    r = eval_region_read(a, &s);
  if (r == EVAL_OK)
    r = eval_region_resolve(a, &c->dst, NULL, &d);
  if (r != EVAL_OK)
    return r;
  for (int k = 0; k < s.rank; k++)
    if (s.extent[k] == 0)
      return EVAL_OK;
  unsigned had = a->block->watch ? eval_watch_look(&s) : 0;
  for (;;) {
    int64_t at = s.base, to = d.base;
    for (int k = 0; k < s.rank; k++) {
      at += i[k] * s.stride[k];
      to += i[k] * d.stride[k];
    }
    scan_line(a, c, &s, at, &d, to);
    int k = s.rank - 1;
    while (k >= 0 && (k == c->axis || ++i[k] == s.extent[k]))
      i[k--] = 0;
    if (k < 0)
      break;
  }
  if (a->block->watch && sums(c->op))
    eval_watch_result(a, op_info(c->op)->name, &d, had);
  eval_region_mark_written(&d);
  return EVAL_OK;
}
