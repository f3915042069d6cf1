/* reduce.c: reductions, running sums and sorting of tensors.
 *
 * In: a tensor, and an axis or none. Out: a tensor with the axis folded, or a number. Folding uses
 * the same steps as the evaluator (op_fold of src/ops) in a fixed order: 1024 neighbours at a time,
 * the partial results likewise, whatever the number of threads. Tests: tests/lang/reduce_*.tile.
 */
#include "impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP = 1024, GROUPS_A_LOOK = 256, SORTED = 1 << 15 };

/* Arguments -------------------------------------------------------------------------------------
 */

static const char *const axis_names[] = {"axis", "keepdims"};

typedef struct Reduction {
  Args *a;
  Tensor *t;
  int axis; /* -1: all */
  bool keepdims;
} Reduction;

/* Negative axes count from the last. */
static int read_axis(Args *a, const Tensor *t, int64_t axis) {
  int64_t at = axis < 0 ? axis + t->rank : axis;
  if (at < 0 || at >= t->rank)
    host_fail(a->s, E0803, a->span, "%s has no axis %lld", val_describe(a->s, a->v[0]),
              (long long)axis);
  return (int)at;
}

/* x, then axis = and keepdims =, by name only: a second positional argument of max is an
 * operand. */
static Reduction read_args(Args *a) {
  Reduction r = {.a = a, .axis = -1};
  int64_t axis = 0;
  args_names(a, axis_names, 2);
  args_count(a, 1, 1);
  r.t = args_tensor(a, 0);
  if (args_int_named(a, "axis", &axis))
    r.axis = read_axis(a, r.t, axis);
  r.keepdims = args_bool_named(a, "keepdims", false);
  return r;
}

/* Folding -----------------------------------------------------------------------------------------
 */

/* The identity, in compute form: what an empty axis gives. */
static void start(OpCode op, DType t, void *acc) {
  scalar_store_compute(op_identity(op, t), acc);
}

/* Folds n accumulators of type t into one, in groups of groups. */
static void fold_partials(OpCode op, DType t, char *v, size_t n) {
  size_t size = dtype_compute_size(t);
  OpFold fold = op_fold(op, t);
  while (n > 1) {
    size_t groups = (n + GROUP - 1) / GROUP;
    for (size_t g = 0; g < groups; g++) {
      char acc[8];
      size_t m = n - g * GROUP < GROUP ? n - g * GROUP : GROUP;
      start(op, t, acc);
      fold(m, acc, v + g * GROUP * size);
      memcpy(v + g * size, acc, size);
    }
    n = groups;
  }
}

/* One row of elements to one accumulator (compute form of the reduction's type). */
static void fold_row(Session *s, OpCode op, DType t, const char *p, ptrdiff_t step, int64_t n,
                     char *acc) {
  _Alignas(64) char x[GROUP * 8];
  DType to = op_reduce_type(op, t);
  size_t size = dtype_compute_size(to), groups = ((size_t)n + GROUP - 1) / GROUP;
  OpFold fold = op_fold(op, t);
  start(op, t, acc);
  if (n == 0)
    return;
  char one[8], *partial = groups > 1 ? arena_alloc(session_scratch(s), groups * size) : one;
  for (size_t g = 0; g < groups; g++, p += (ptrdiff_t)GROUP * step) {
    size_t m = (size_t)n - g * GROUP < GROUP ? (size_t)n - g * GROUP : GROUP;
    char sum[8];
    if (g % GROUPS_A_LOOK == 0)
      session_stop(s);
    start(op, t, sum);
    dtype_unpack_strided(t, p, step, x, m);
    fold(m, sum, x);
    memcpy(partial + g * size, sum, size);
  }
  fold_partials(op, to, partial, groups);
  memcpy(acc, partial, size);
}

/* The tensor with its folded axis last and the other axes in order. */
static Tensor *axis_last(Session *s, Tensor *t, int axis, Span span) {
  int order[TENSOR_MAX_RANK], n = 0;
  for (int i = 0; i < t->rank; i++)
    if (i != axis)
      order[n++] = i;
  order[n] = axis;
  Str why = session_str(s);
  return host_new_tensor(s, tensor_permute(t, order, t->rank, &why), &why, span).as.tensor;
}

/* Shape of the result: without the axis, or with 1 there. */
static Value new_result(const Reduction *r, DType t) {
  int64_t extent[TENSOR_MAX_RANK];
  int n = 0;
  for (int i = 0; i < r->t->rank; i++)
    if (i != r->axis && r->axis >= 0)
      extent[n++] = r->t->extent[i];
    else if (r->keepdims)
      extent[n++] = 1;
  Str why = session_str(r->a->s);
  return host_new_tensor(r->a->s, session_tensor(r->a->s, t, n, extent, TENSOR_UNSET, &why), &why,
                         r->a->span);
}

/* Calls fn(ctx, row, its index) for each row along the axis (all elements: one row). */
typedef struct Rows {
  const char *base;
  ptrdiff_t step;
  int64_t length, count;
  const Tensor *t; /* axis last */
} Rows;

/* No axis is one row of all elements in row-major order (copied where strides cannot say it). */
static Rows rows_of(const Reduction *r) {
  Session *s = r->a->s;
  Rows rows = {.count = 1};
  Str why = session_str(s);
  if (r->axis < 0) {
    int64_t all = tensor_count(r->t);
    rows.t = host_new_tensor(s, tensor_reshape(r->t, 1, &all, &why), &why, r->a->span).as.tensor;
  } else {
    rows.t = axis_last(s, r->t, r->axis, r->a->span);
  }
  int last = rows.t->rank - 1;
  rows.base = tensor_data(rows.t);
  rows.length = rows.t->extent[last];
  rows.step = (ptrdiff_t)(rows.t->stride[last] * (int64_t)dtype_size(rows.t->dtype));
  for (int i = 0; i < last; i++)
    rows.count *= rows.t->extent[i];
  return rows;
}

/* First byte of the i-th row. */
static const char *row_at(const Rows *rows, int64_t i) {
  int64_t at = 0;
  for (int a = rows->t->rank - 1; a-- > 0;) {
    at += i % rows->t->extent[a] * rows->t->stride[a];
    i /= rows->t->extent[a];
  }
  return rows->base + at * (int64_t)dtype_size(rows->t->dtype);
}

/* A result of rank 0 is a number. */
static Value number_if_scalar(Value v) {
  if (v.as.tensor->rank > 0)
    return v;
  return val_scalar(tensor_get(v.as.tensor, NULL), false);
}

/* any and all of numbers is the usual mistake. */
static void check_takes(Args *a, OpCode op, DType t) {
  if (op_takes(op, t))
    return;
  host_fail_hint(a->s, E0801, a->spans[0], t == DT_BOOL ? NULL : "compare first: any(x != 0)",
                 "%s does not take elements of type %s", a->name, dtype_name(t));
}

/* One result a row; Ctrl-C is looked at between rows. */
static Value reduce(Args *a, OpCode op) {
  Session *s = a->s;
  Reduction r = read_args(a);
  DType t = r.t->dtype;
  check_takes(a, op, t);
  DType to = op_reduce_type(op, t);
  Value out = new_result(&r, to);
  Rows rows = rows_of(&r);
  char *p = tensor_data_write(out.as.tensor);
  for (int64_t i = 0; i < rows.count; i++, p += dtype_size(to)) {
    char acc[8];
    session_poll(s);
    fold_row(s, op, t, row_at(&rows, i), rows.step, rows.length, acc);
    dtype_pack(to, acc, p, 1);
  }
  return number_if_scalar(out);
}

/* f32 of narrow floats, i32 of narrow integers and bools (the manual, Reductions). */
Value builtin_sum(Args *a) {
  return reduce(a, OP_SUM);
}
Value builtin_prod(Args *a) {
  return reduce(a, OP_PROD);
}
Value builtin_absmax(Args *a) {
  return reduce(a, OP_ABSMAX);
}
Value builtin_any(Args *a) {
  return reduce(a, OP_ANY);
}
Value builtin_all(Args *a) {
  return reduce(a, OP_ALL);
}

/* Two positional arguments are the elementwise operation (the manual). */
static Value max_or_min(Args *a, OpCode reduction, OpCode elementwise) {
  if (a->npos < 2)
    return reduce(a, reduction);
  args_names(a, NULL, 0);
  args_count(a, 2, 2);
  return arith_apply(a->s, &(Operation){elementwise, a->name, a->span, a->spans}, a->v, 2);
}

/* NaN wins, so that it is seen. */
Value builtin_max(Args *a) {
  return max_or_min(a, OP_RMAX, OP_MAX2);
}
Value builtin_min(Args *a) {
  return max_or_min(a, OP_RMIN, OP_MIN2);
}

/* sum / count, in the sum's type for floats, in f64 for integers. */
Value builtin_mean(Args *a) {
  Reduction r = read_args(a);
  int64_t n = r.axis < 0 ? tensor_count(r.t) : r.t->extent[r.axis];
  Value sum = reduce(a, OP_SUM);
  if (!dtype_is_float(op_reduce_type(OP_SUM, r.t->dtype)))
    sum = arith_cast(a->s, sum, DT_F64, a->span);
  const Span where[] = {a->span, a->span};
  if (sum.kind == VAL_TENSOR)
    return arith_binary(a->s, AST_DIV, sum, val_int(n), a->span, where);
  DType t = op_reduce_type(OP_SUM, r.t->dtype);
  Scalar x = {DT_F64, {.f = val_to_scalar(sum).as.f / (double)n}};
  return val_scalar(scalar_convert(x, dtype_is_float(t) ? t : DT_F64), false);
}

/* Index of the best -------------------------------------------------------------------------------
 */

/* NaN first, else the first of equal elements: op_better only says yes to what is strictly
 * better. */
static int32_t best_of(Session *s, OpCode op, DType t, const char *p, ptrdiff_t step, int64_t n) {
  _Alignas(64) char x[GROUP * 8];
  char best[8];
  size_t size = dtype_compute_size(t);
  int64_t at = 0;
  for (int64_t i = 0; i < n; i += GROUP) {
    size_t m = (size_t)(n - i < GROUP ? n - i : GROUP);
    if (i % (GROUP * GROUPS_A_LOOK) == 0)
      session_stop(s);
    dtype_unpack_strided(t, p + i * step, step, x, m);
    for (size_t k = 0; k < m; k++)
      if ((i == 0 && k == 0) || op_better(op, t, x + k * size, best)) {
        memcpy(best, x + k * size, size);
        at = i + (int64_t)k;
      }
  }
  return (int32_t)at;
}

/* Ties go to the lowest index; of a whole tensor it counts in row-major order. */
static Value arg_best(Args *a, OpCode op) {
  Reduction r = read_args(a);
  check_takes(a, op, r.t->dtype);
  Value out = new_result(&r, DT_I32);
  Rows rows = rows_of(&r);
  if (rows.length == 0 && rows.count > 0)
    host_fail(a->s, E0802, a->span, "%s of no elements", a->name);
  int32_t *p = tensor_data_write(out.as.tensor);
  for (int64_t i = 0; i < rows.count; i++)
    p[i] = best_of(a->s, op, r.t->dtype, row_at(&rows, i), rows.step, rows.length);
  return number_if_scalar(out);
}

Value builtin_argmax(Args *a) {
  return arg_best(a, OP_ARGMAX);
}
Value builtin_argmin(Args *a) {
  return arg_best(a, OP_ARGMIN);
}

/* Scans and sorting -------------------------------------------------------------------------------
 */

/* The axis of a scan or sort: the named one, else the last (a scan: only of a vector). */
static int whole_axis(Args *a, const Tensor *t, bool last) {
  int64_t axis = -1;
  if (t->rank == 0)
    host_fail(a->s, E0801, a->spans[0], "%s takes a tensor with at least one axis", a->name);
  if (!args_int_named(a, "axis", &axis) && t->rank > 1 && !last)
    host_fail_hint(a->s, E0804, a->span, "cumsum(x, axis = 0)",
                   "%s of a tensor of %d axes needs an axis", a->name, t->rank);
  return read_axis(a, t, axis);
}

/* In order of the elements, in the type of the sum: not by groups, since every partial sum is a
 * result. */
static void scan_row(Session *s, DType t, DType to, const char *p, ptrdiff_t step, char *out,
                     ptrdiff_t to_step, int64_t n) {
  OpFold fold = op_fold(OP_SUM, t);
  char acc[8], x[8];
  start(OP_SUM, t, acc);
  for (int64_t i = 0; i < n; i++, p += step, out += to_step) {
    if (i % (GROUP * GROUPS_A_LOOK) == 0)
      session_stop(s);
    dtype_unpack(t, p, x, 1);
    fold(1, acc, x);
    dtype_pack(to, acc, out, 1);
  }
}

/* out: a new tensor of t's shape; gives the rows of both along the axis. */
static Value paired_rows(Args *a, Tensor *t, int axis, DType to, Rows *from, Rows *into) {
  Session *s = a->s;
  Str why = session_str(s);
  Value out = host_new_tensor(s, session_tensor(s, to, t->rank, t->extent, TENSOR_ZERO, &why), &why,
                              a->span);
  Reduction r = {.a = a, .t = t, .axis = axis};
  *from = rows_of(&r);
  r.t = out.as.tensor;
  *into = rows_of(&r);
  return out;
}

/* The shape stays; the type is that of sum. */
Value builtin_cumsum(Args *a) {
  args_names(a, axis_names, 1);
  args_count(a, 1, 1);
  Tensor *t = args_tensor(a, 0);
  int axis = whole_axis(a, t, false);
  check_takes(a, OP_SUM, t->dtype);
  DType to = op_reduce_type(OP_SUM, t->dtype);
  Rows from, into;
  Value out = paired_rows(a, t, axis, to, &from, &into);
  char *base = tensor_data_write(out.as.tensor);
  for (int64_t i = 0; i < from.count && from.length > 0; i++) {
    session_poll(a->s);
    scan_row(a->s, t->dtype, to, row_at(&from, i), from.step, base + (row_at(&into, i) - into.base),
             into.step, from.length);
  }
  return out;
}

/* NaN after everything, whatever its sign; -0 and 0 are equal. */
static int order_f64(const void *x, const void *y) {
  double a, b;
  memcpy(&a, x, sizeof a);
  memcpy(&b, y, sizeof b);
  if (isnan(a) || isnan(b))
    return isnan(a) - isnan(b);
  return (a > b) - (a < b);
}

/* Differences would overflow; comparisons do not. */
static int order_i64(const void *x, const void *y) {
  int64_t a, b;
  memcpy(&a, x, sizeof a);
  memcpy(&b, y, sizeof b);
  return (a > b) - (a < b);
}

static int order_u64(const void *x, const void *y) {
  uint64_t a, b;
  memcpy(&a, x, sizeof a);
  memcpy(&b, y, sizeof b);
  return (a > b) - (a < b);
}

/* Every type sorts exactly as the widest of its class. */
static DType widest(DType t) {
  return dtype_is_float(t) ? DT_F64 : dtype_is_signed(t) ? DT_I64 : DT_U64;
}

typedef int (*Order)(const void *x, const void *y);

/* Two sorted neighbours, v[0, m) and v[m, n), into one. */
static void merge(Session *s, const uint64_t *v, size_t m, size_t n, uint64_t *out, Order order) {
  size_t i = 0, j = m;
  for (size_t k = 0; k < n; k++) {
    if (k % (GROUP * GROUPS_A_LOOK) == 0)
      session_stop(s);
    out[k] = j == n || (i < m && order(&v[i], &v[j]) <= 0) ? v[i++] : v[j++];
  }
}

/* Sorted pieces are merged pairwise; Ctrl-C is looked at between pieces. room is as large as v;
 * returns which of the two holds the result. */
static uint64_t *sort_keys(Session *s, uint64_t *v, uint64_t *room, size_t n, Order order) {
  for (size_t i = 0; i < n; i += SORTED) {
    session_stop(s);
    qsort(v + i, n - i < SORTED ? n - i : SORTED, sizeof *v, order);
  }
  for (size_t width = SORTED; width < n; width *= 2) {
    for (size_t i = 0; i < n; i += 2 * width) {
      size_t all = n - i < 2 * width ? n - i : 2 * width;
      merge(s, v + i, all < width ? all : width, all, room + i, order);
    }
    uint64_t *t = v;
    v = room;
    room = t;
  }
  return v;
}

/* dtype_convert in pieces: Ctrl-C again. */
static void convert_row(Session *s, DType from, const char *p, DType to, char *q, size_t n) {
  enum { MOST = GROUP * GROUPS_A_LOOK };
  for (size_t i = 0; i < n; i += MOST) {
    session_stop(s);
    dtype_convert(from, p + i * dtype_size(from), to, q + i * dtype_size(to),
                  n - i < MOST ? n - i : MOST);
  }
}

/* Rows are gathered, sorted as the widest type of their class and put back: exact for every
 * type. */
Value builtin_sort(Args *a) {
  args_names(a, axis_names, 1);
  args_count(a, 1, 1);
  Tensor *t = args_tensor(a, 0);
  Rows from, into;
  Value out = paired_rows(a, t, whole_axis(a, t, true), t->dtype, &from, &into);
  DType wide = widest(t->dtype);
  size_t n = (size_t)from.length, size = dtype_size(t->dtype);
  char *base = tensor_data_write(out.as.tensor);
  char *row = arena_alloc(session_scratch(a->s), n * size);
  uint64_t *keys = ARENA_ARRAY(session_scratch(a->s), uint64_t, n);
  uint64_t *room = ARENA_ARRAY(session_scratch(a->s), uint64_t, n > SORTED ? n : 1);
  Order order = wide == DT_F64 ? order_f64 : wide == DT_I64 ? order_i64 : order_u64;
  for (int64_t i = 0; i < from.count && n > 0; i++) {
    const char *p = row_at(&from, i);
    char *q = base + (row_at(&into, i) - into.base);
    session_poll(a->s);
    dtype_gather(size, p, from.step, row, n);
    convert_row(a->s, t->dtype, row, wide, (char *)keys, n);
    uint64_t *sorted = sort_keys(a->s, keys, room, n, order);
    convert_row(a->s, wide, (char *)sorted, t->dtype, row, n);
    dtype_scatter(size, row, q, into.step, n);
  }
  return out;
}
