/* noise.c: what a device may round otherwise, as noise (see noise.h).
 *
 * In: results that the evaluator has just computed, and what they were computed from. Out: the
 * same, each moved by a random part, uniform between its bounds, of what the manual allows. Always
 * holds: what is exact on every device stays (a product or a power of two without a rounding error,
 * integers, max and min, zeros); before the block's first noise conversions stay too, as devices
 * make them of the same bits. The bounds: a product 2^-22 of the sum of the magnitudes of its terms
 * (f8 2^-13, tf32 2^-9, f64 2^-51); a sum of n terms sqrt(n) roundings of that sum, about what
 * is exact; an atomic sum
 * one rounding of the element; a rounded product, which may be fused with an addition, its last
 * place; ex2 2 units of the last place. Tests: tests/unit/check_eval_noise.c.
 */
#include "noise.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 256 };

/* In [-1, 1). */
static double draw(EvalBlock *b) {
  return ldexp((double)(eval_random(&b->noise) >> 11), -52) - 1.0;
}

/* Every bit of x takes part in every bit of the result: the first draws of near states are near,
 * and a block that makes only one fold would have no other. */
static uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93u;
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93u;
  return x ^ (x >> 32);
}

/* 0 would mean no noise. */
void eval_noise_start(EvalBlock *b) {
  uint64_t seed = b->options->noise;
  b->noise = seed ? mixed(seed * 0x9E3779B97F4A7C15u + (uint64_t)b->linear) | 1 : 0;
  b->inexact = false;
}

/* ---------------------------------------------------------------- cells */

static void put(DType compute, void *cell, double x) {
  float f = (float)x;
  if (compute == DT_F64)
    memcpy(cell, &x, sizeof x);
  else
    memcpy(cell, &f, sizeof f);
}

/* One rounding of the compute type, relative. */
static double unit(DType compute) {
  return compute == DT_F64 ? 0x1p-53 : 0x1p-24;
}

/* A finite value stays finite: what is infinite or NaN on one device is so on all, or is found
 * without this. */
static void move(EvalBlock *b, DType compute, void *cell, double by) {
  double x = eval_float_at(compute, cell), y = x + by * draw(b);
  if (by == 0 || !isfinite(x) || !isfinite(by))
    return;
  b->inexact = true;
  if (compute == DT_F64 ? isfinite(y) : isfinite((float)y))
    put(compute, cell, y);
}

/* To one of the two neighbours in the narrow type, or nowhere. Its codes are ordered as their
 * magnitudes. */
static void step(EvalBlock *b, DType t, float *cell) {
  uint16_t code = 0;
  float next;
  double r = draw(b) * 1.5;
  dtype_pack(t, cell, &code, 1);
  if (*cell == 0 || !isfinite(*cell) || fabs(r) < 0.5)
    return;
  code = (uint16_t)(r < 0 ? code - 1 : code + 1);
  dtype_unpack(t, &code, &next, 1);
  if (isfinite(next))
    *cell = next;
}

/* ---------------------------------------------------------------- operations */

/* What rounding took from a * b; 0 where the device has the same whether it fuses or not. */
static double product_error(DType t, const void *a, const void *b, const void *out) {
  double x = eval_float_at(t, a), y = eval_float_at(t, b), p = eval_float_at(t, out);
  if (t == DT_F64)
    return fabs(fma(x, y, -p));
  return fabs(x * y - p); /* exact: 48 bits */
}

/* Of one lane. */
static double bound_of(const EvalInsn *in, DType t, const void *const *src, size_t at, void *out) {
  const char *x = (const char *)src[0] + at;
  if (in->op == OP_MUL) /* by less than a place nothing would move */
    return product_error(t, x, (const char *)src[1] + at, out) > 0
               ? dtype_ulp(t, eval_float_at(t, out))
               : 0;
  double power = eval_float_at(t, x);
  return power == rint(power) ? 0 : 4 * unit(t) * fabs(eval_float_at(t, out));
}

static bool narrows(const EvalInsn *in) {
  DType t = (DType)in->type, from = (DType)in->from;
  return in->op == OP_CAST && dtype_is_float(from) && dtype_size(t) < dtype_size(from);
}

/* Conversions from f64 to f32 keep what came before them. */
static void step_lanes(EvalBlock *b, DType t, const void *from, DType from_type, void *out, int n) {
  DType wide = dtype_compute(from_type);
  for (int i = 0; i < n && b->inexact; i++) {
    float *cell = (float *)out + i;
    if (eval_float_at(wide, (const char *)from + (size_t)i * dtype_size(wide)) != (double)*cell)
      step(b, t, cell);
  }
}

void eval_noise_values(EvalAgent *a, const EvalInsn *in, const void *const *src, void *out, int n) {
  DType t = (DType)in->type;
  bool wide = t == DT_F32 || t == DT_F64, exact = a->block->program->kernel->exact;
  size_t size = dtype_compute_size(t);
  if (narrows(in) && dtype_compute(t) != t)
    step_lanes(a->block, t, src[0], (DType)in->from, out, n);
  if (exact || !wide || (in->op != OP_MUL && (in->op != OP_EXP2 || t != DT_F32)))
    return;
  for (int i = 0; i < n; i++) {
    char *cell = (char *)out + (size_t)i * size;
    move(a->block, t, cell, bound_of(in, t, src, (size_t)i * size, cell));
  }
}

/* ---------------------------------------------------------------- products */

/* Row-major magnitudes of a view of rank 2. */
static void magnitudes(const EvalView *v, DType compute, char *to) {
  size_t size = dtype_size(compute);
  for (int64_t i = 0; i < v->extent[0]; i++) {
    char *row = to + (size_t)(i * v->extent[1]) * size;
    eval_mem_gather(v->mem, v->base + i * v->stride[0], v->stride[1], row, v->extent[1]);
    for (int64_t j = 0; j < v->extent[1]; j++)
      put(compute, row + (size_t)j * size, fabs(eval_float_at(compute, row + (size_t)j * size)));
  }
}

static double product_bound(const EvalDotCode *c, DType type) {
  if (type == DT_F64)
    return 0x1p-51;
  if (type == DT_F8E4M3 || type == DT_F8E5M2)
    return 0x1p-13;
  return type == DT_F32 && c->tf32 ? 0x1p-9 : 0x1p-22;
}

/* A row of the result, whose terms' magnitudes sum up to `sum`. */
static void move_row(EvalAgent *a, const EvalView *z, int64_t i, DType acc, const char *sum,
                     double bound) {
  uint64_t cells[CHUNK];
  DType t = dtype_compute(z->mem->dtype);
  size_t size = dtype_size(t), step_of_sum = dtype_size(acc);
  int64_t at = z->base + i * z->stride[0];
  for (int64_t j = 0; j < z->extent[1]; j += CHUNK) {
    int64_t n = z->extent[1] - j < CHUNK ? z->extent[1] - j : CHUNK;
    eval_mem_gather(z->mem, at + j * z->stride[1], z->stride[1], cells, n);
    for (int64_t k = 0; k < n; k++) {
      char *cell = (char *)cells + (size_t)k * size;
      double magnitude = eval_float_at(acc, sum + (size_t)(j + k) * step_of_sum);
      move(a->block, t, cell,
           magnitude > 0 ? bound * (magnitude + fabs(eval_float_at(t, cell))) : 0);
    }
    eval_mem_scatter(z->mem, at + j * z->stride[1], z->stride[1], cells, n);
  }
}

/* The sums of magnitudes are a product themselves. */
EvalResult eval_noise_product(EvalAgent *a, const EvalDotCode *c, const EvalView *x,
                              const EvalView *y, const EvalView *z) {
  DType type = x->mem->dtype, acc = op_product_type(type, type);
  if (!dtype_is_float(acc) || !dtype_is_float(z->mem->dtype))
    return EVAL_OK;
  int64_t m = x->extent[0], k = x->extent[1], n = y->extent[1];
  size_t size = dtype_size(acc), as = (size_t)(m * k) * size, bs = (size_t)(k * n) * size;
  char *room = eval_block_scratch(a->block, as + bs + (size_t)(m * n) * size + 64);
  if (!room)
    return eval_fault(a, E0459, "out of memory");
  char *sum = room + as + bs;
  magnitudes(x, acc, room);
  magnitudes(y, acc, room + as);
  EvalTile t = {.m = m, .n = n, .k = k, .a = room, .b = room + as, .c = sum};
  t.ars = k, t.acs = 1, t.brs = t.crs = n;
  (acc == DT_F64 ? a->block->kernels->f64 : a->block->kernels->f32)(&t);
  for (int64_t i = 0; i < m; i++)
    move_row(a, z, i, acc, sum + (size_t)(i * n) * size, product_bound(c, type));
  return EVAL_OK;
}

/* ---------------------------------------------------------------- folds */

/* Sums are taken in another order; a product of n factors has as many roundings. */
static bool rounds(OpCode op, DType t) {
  return dtype_is_float(t) && (op == OP_SUM || op == OP_PROD);
}

static void add_term(EvalNoiseTerms *x, OpCode op, double term) {
  x->magnitude += fabs(term);
  long double t = (long double)term;
  x->exact = x->n++ == 0 ? t : op == OP_PROD ? x->exact * t : x->exact + t;
}

/* n elements of a line. */
static void add_line(EvalNoiseTerms *x, OpCode op, const EvalView *s, int64_t at, int64_t step,
                     int64_t n) {
  uint64_t cells[CHUNK];
  DType t = dtype_compute(s->mem->dtype);
  for (int64_t i = 0; i < n; i += CHUNK) {
    int64_t k = n - i < CHUNK ? n - i : CHUNK;
    eval_mem_gather(s->mem, at + i * step, step, cells, k);
    for (int64_t j = 0; j < k; j++)
      add_term(x, op, eval_float_at(t, (const char *)cells + (size_t)j * dtype_size(t)));
  }
}

/* From the exact fold, not from the one that was computed: equal terms one after the other all
 * round to the same side, and other orders do not. What is not finite stays. */
static void move_fold(EvalAgent *a, OpCode op, const EvalNoiseTerms *x, DType compute, void *cell) {
  double have = eval_float_at(compute, cell), exact = (double)x->exact;
  double magnitude = op == OP_PROD ? fabs(have) : x->magnitude;
  if (x->n < 2 || !isfinite(have) || !isfinite(compute == DT_F64 ? exact : (double)(float)exact))
    return;
  put(compute, cell, exact);
  move(a->block, compute, cell, unit(compute) * sqrt((double)x->n) * magnitude);
}

/* The element of d at `to`, from n elements of s. */
static void move_at(EvalAgent *a, OpCode op, const EvalView *s, int64_t at, int64_t step, int64_t n,
                    const EvalMem *d, int64_t to) {
  uint64_t cell = 0;
  EvalNoiseTerms x = {0};
  add_line(&x, op, s, at, step, n);
  eval_mem_gather(d, to, 1, &cell, 1);
  move_fold(a, op, &x, dtype_compute(d->dtype), &cell);
  eval_mem_scatter(d, to, 1, &cell, 1);
}

/* A partial sum of terms that cancel later may be off as much as the terms so far make together.
 * The terms are summed on the way, since in place the elements are gone afterwards. */
void eval_noise_running(EvalAgent *a, OpCode op, DType t, const void *x, void *acc,
                        EvalNoiseTerms *line) {
  if (!rounds(op, t))
    return;
  add_term(line, op, eval_float_at(dtype_compute(t), x));
  move_fold(a, op, line, dtype_compute(op_reduce_type(op, t)), acc);
}

void eval_noise_fold(EvalAgent *a, OpCode op, const EvalView *s, int axis, const EvalView *d) {
  int64_t i[IR_MAX_RANK] = {0};
  if (!rounds(op, s->mem->dtype) || !dtype_is_float(d->mem->dtype))
    return;
  for (int k = 0; k < s->rank; k++)
    if (s->extent[k] == 0)
      return;
  for (;;) {
    int64_t at = s->base, to = d->base;
    for (int k = 0; k < s->rank; k++) {
      int other = d->rank == s->rank || k < axis ? k : k - 1;
      at += i[k] * s->stride[k];
      if (k != axis)
        to += i[k] * d->stride[other];
    }
    move_at(a, op, s, at, s->stride[axis], s->extent[axis], d->mem, to);
    int k = s->rank - 1;
    while (k >= 0 && (k == axis || ++i[k] == s->extent[k]))
      i[k--] = 0;
    if (k < 0)
      return;
  }
}

void eval_noise_scalar(EvalAgent *a, OpCode op, const EvalView *s, void *cell) {
  DType t = op_reduce_type(op, s->mem->dtype);
  int64_t i[IR_MAX_RANK] = {0};
  EvalNoiseTerms x = {0};
  int last = s->rank - 1;
  if (!rounds(op, s->mem->dtype) || !dtype_is_float(t) || s->rank == 0)
    return;
  for (int k = 0; k < s->rank; k++)
    if (s->extent[k] == 0)
      return;
  for (bool more = true; more;) {
    int64_t at = s->base;
    for (int k = 0; k < last; k++)
      at += i[k] * s->stride[k];
    add_line(&x, op, s, at, s->stride[last], s->extent[last]);
    int k = last - 1;
    while (k >= 0 && ++i[k] == s->extent[k])
      i[k--] = 0;
    more = k >= 0;
  }
  move_fold(a, op, &x, dtype_compute(t), cell);
}

/* ---------------------------------------------------------------- copies, atomics */

void eval_noise_copy(EvalAgent *a, DType from, const EvalView *d) {
  DType t = d->mem->dtype;
  EvalRow row;
  if (!a->block->inexact || !dtype_is_float(t) || dtype_compute(t) == t ||
      dtype_size(from) <= dtype_size(t))
    return;
  for (bool more = eval_rows_first(d, &row); more; more = eval_rows_next(d, &row)) {
    int64_t at = d->base;
    for (int k = 0; k < d->rank; k++)
      at += row.i[k] * d->stride[k];
    for (int64_t j = 0; j < row.n; j++) {
      float cell;
      int64_t to = at + (d->rank ? j * d->stride[d->rank - 1] : 0);
      eval_mem_gather(d->mem, to, 1, &cell, 1);
      step(a->block, t, &cell);
      eval_mem_scatter(d->mem, to, 1, &cell, 1);
    }
  }
}

const void *eval_noise_atomic(EvalAgent *a, OpCode op, const EvalMem *m, const void *at,
                              const void *value, void *room) {
  uint64_t seen = 0, now = 0;
  DType t = dtype_compute(m->dtype);
  if (op != OP_ATOMIC_ADD || !dtype_is_float(m->dtype))
    return value;
  eval_atomic_load(m->size, at, &seen);
  memcpy(&now, &seen, sizeof now);
  if (mem_packed(m))
    dtype_unpack(m->dtype, &seen, &now, 1);
  memcpy(room, value, dtype_size(t));
  double most = fabs(eval_float_at(t, &now)) + fabs(eval_float_at(t, value));
  double last = mem_packed(m) ? (m->dtype == DT_F16 ? 0x1p-11 : 0x1p-8) : unit(t);
  move(a->block, t, room, 2 * last * most);
  return room;
}
