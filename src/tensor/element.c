/* element.c: reading and writing elements, one by one and in runs.
 *
 * In: tensors whose storage is valid on the host. Out: elements converted by the rules of dtype.h.
 * Bulk copies go through dtype_convert on whole runs; strided runs are gathered into a small
 * buffer first. Tests: tests/unit/check_tensor.c.
 */
#include "impl.h"

#include <string.h>

enum { CHUNK = 512 }; /* elements gathered at a time */

/* No bounds are checked: the caller has. */
Scalar tensor_get(const Tensor *t, const int64_t *index) {
  int64_t at = 0;
  for (int a = 0; a < t->rank; a++)
    at += index[a] * t->stride[a];
  return scalar_load(t->dtype, tensor_address(t) + at * (int64_t)dtype_size(t->dtype));
}

/* The device copy, if there is one, is stale afterwards. */
void tensor_set(Tensor *t, const int64_t *index, Scalar x) {
  int64_t at = 0;
  for (int a = 0; a < t->rank; a++)
    at += index[a] * t->stride[a];
  storage_host_wrote(t->storage);
  scalar_store(scalar_convert(x, t->dtype), tensor_address(t) + at * (int64_t)dtype_size(t->dtype));
}

/* Runs ------------------------------------------------------------------------------------- */

/* Can axes a and a+1 of every operand be walked as one? */
static bool mergeable(const TensorRuns *r, int a) {
  for (int k = 0; k < r->noperands; k++)
    if (r->outer[k][a] != r->outer[k][a + 1] * r->extent[a + 1])
      return false;
  return true;
}

/* Closes the gap in extents and strides. */
static void drop_axis(TensorRuns *r, int a) {
  for (int b = a; b + 1 < r->rank; b++) {
    r->extent[b] = r->extent[b + 1];
    for (int k = 0; k < r->noperands; k++)
      r->outer[k][b] = r->outer[k][b + 1];
  }
  r->rank--;
}

/* From the inside out, so that three axes that lie as one become one. */
static void coalesce(TensorRuns *r) {
  for (int a = r->rank; a-- > 0;)
    if (r->extent[a] == 1)
      drop_axis(r, a);
  for (int a = r->rank - 1; a-- > 0;)
    if (mergeable(r, a)) {
      r->extent[a + 1] *= r->extent[a];
      drop_axis(r, a);
    }
}

/* A tensor without elements has no runs; one of rank 0 has one run of one element. */
void tensor_runs_init(TensorRuns *r, const Tensor *const *operands, int n) {
  memset(r, 0, sizeof *r);
  r->noperands = n;
  r->rank = operands[0]->rank;
  for (int a = 0; a < r->rank; a++)
    r->extent[a] = operands[0]->extent[a];
  for (int k = 0; k < n; k++) {
    r->base[k] = tensor_address(operands[k]);
    for (int a = 0; a < r->rank; a++)
      r->outer[k][a] = operands[k]->stride[a] * (ptrdiff_t)dtype_size(operands[k]->dtype);
  }
  if (tensor_count(operands[0]) == 0)
    return; /* no runs */
  coalesce(r);
  r->length = 1;
  if (r->rank > 0) {
    r->rank--;
    r->length = r->extent[r->rank];
    for (int k = 0; k < n; k++)
      r->step[k] = r->outer[k][r->rank];
  }
  r->runs = 1;
  for (int a = 0; a < r->rank; a++)
    r->runs *= r->extent[a];
}

/* Divisions per run, not per element. */
void tensor_runs_at(const TensorRuns *r, int64_t i, const char **p) {
  for (int k = 0; k < r->noperands; k++)
    p[k] = r->base[k];
  for (int a = r->rank; a-- > 0;) {
    int64_t at = i % r->extent[a];
    i /= r->extent[a];
    for (int k = 0; k < r->noperands; k++)
      p[k] += at * r->outer[k][a];
  }
}

/* Copies ----------------------------------------------------------------------------------- */

#define MOVE_CASE(size, T)                                                                         \
  case size:                                                                                       \
    for (int64_t i = 0; i < n; i++) {                                                              \
      T x;                                                                                         \
      memcpy(&x, from + i * from_step, size);                                                      \
      memcpy(to + i * to_step, &x, size);                                                          \
    }                                                                                              \
    break;

/* n elements of `size` bytes, each side with its own step. */
static void move(char *to, ptrdiff_t to_step, const char *from, ptrdiff_t from_step, int64_t n,
                 size_t size) {
  switch (size) {
    MOVE_CASE(1, uint8_t)
    MOVE_CASE(2, uint16_t)
    MOVE_CASE(4, uint32_t)
    MOVE_CASE(8, uint64_t)
  default:
    break;
  }
}

/* Same type: bytes move. Other type, both unit stride: one call of dtype_convert. Else in chunks
 * through two buffers on the stack. */
static void copy_run(DType to_type, char *to, ptrdiff_t to_step, DType from_type, const char *from,
                     ptrdiff_t from_step, int64_t n) {
  ptrdiff_t ts = (ptrdiff_t)dtype_size(to_type), fs = (ptrdiff_t)dtype_size(from_type);
  if (to_type == from_type) {
    if (to_step == ts && from_step == fs)
      memcpy(to, from, (size_t)(n * ts));
    else
      move(to, to_step, from, from_step, n, (size_t)ts);
    return;
  }
  if (to_step == ts && from_step == fs) {
    dtype_convert(from_type, from, to_type, to, (size_t)n);
    return;
  }
  _Alignas(64) char in[CHUNK * 8], out[CHUNK * 8];
  for (int64_t i = 0; i < n; i += CHUNK) {
    int64_t m = n - i < CHUNK ? n - i : CHUNK;
    move(in, fs, from + i * from_step, from_step, m, (size_t)fs);
    dtype_convert(from_type, in, to_type, out, (size_t)m);
    move(to + i * to_step, to_step, out, ts, m, (size_t)ts);
  }
}

/* Source and destination do not overlap. */
static void copy_apart(Tensor *dst, const Tensor *src) {
  const Tensor *const both[] = {dst, src};
  TensorRuns r;
  tensor_runs_init(&r, both, 2);
  for (int64_t i = 0; i < r.runs; i++) {
    const char *p[2];
    tensor_runs_at(&r, i, p);
    char *to = tensor_address(dst) + (p[0] - r.base[0]);
    copy_run(dst->dtype, to, r.step[0], src->dtype, p[1], r.step[1], r.length);
  }
}

/* Through a copy of the source where they overlap: the result is as if all was read first. */
bool tensor_copy(Tensor *dst, const Tensor *src, Str *why) {
  if (!tensor_overlaps(dst, src)) {
    copy_apart(dst, src);
    storage_host_wrote(dst->storage);
    return true;
  }
  Tensor *between = tensor_cast(src, src->dtype, why);
  if (!between)
    return false;
  copy_apart(dst, between);
  storage_host_wrote(dst->storage);
  tensor_release(between);
  return true;
}

/* Also the way to copy: to may be the tensor's own type. */
Tensor *tensor_cast(const Tensor *t, DType to, Str *why) {
  Tensor *out = tensor_new(to, t->rank, t->extent, TENSOR_UNSET, why);
  if (out)
    copy_apart(out, t);
  return out;
}

/* One stored element, repeated. */
void tensor_fill(Tensor *t, Scalar x) {
  size_t size = dtype_size(t->dtype);
  char one[8];
  scalar_store(scalar_convert(x, t->dtype), one);
  const Tensor *const only[] = {t};
  TensorRuns r;
  tensor_runs_init(&r, only, 1);
  storage_host_wrote(t->storage);
  for (int64_t i = 0; i < r.runs; i++) {
    const char *p;
    tensor_runs_at(&r, i, &p);
    move(tensor_address(t) + (p - r.base[0]), r.step[0], one, 0, r.length, size);
  }
}

/* Patterns --------------------------------------------------------------------------------- */

/* Elements of a, a + step, … before b. */
static bool arange_count(Scalar a, Scalar b, Scalar step, int64_t *n) {
  if (dtype_is_float(step.type)) {
    double d = (b.as.f - a.as.f) / step.as.f;
    if (!(d < 9e18)) /* NaN too */
      return false;
    *n = d <= 0 ? 0 : (int64_t)d + ((double)(int64_t)d < d);
    return true;
  }
  bool down = step.as.i < 0;
  if (down ? a.as.i <= b.as.i : a.as.i >= b.as.i) {
    *n = 0;
    return true;
  }
  uint64_t span = down ? (uint64_t)a.as.i - (uint64_t)b.as.i : (uint64_t)b.as.i - (uint64_t)a.as.i;
  uint64_t by = down ? 0 - (uint64_t)step.as.i : (uint64_t)step.as.i;
  uint64_t count = (span - 1) / by + 1;
  *n = (int64_t)count;
  return count <= INT64_MAX;
}

/* Integer arithmetic wraps in 64 bits; the count was checked, so no element does. */
static Scalar arange_element(Scalar a, Scalar step, int64_t i) {
  Scalar x = a;
  if (dtype_is_float(step.type))
    x.as.f = a.as.f + (double)i * step.as.f;
  else
    x.as.u = a.as.u + (uint64_t)i * step.as.u;
  return x;
}

/* Elements are computed from the index, not by adding up: no error accumulates. */
Tensor *tensor_arange(DType t, Scalar a, Scalar b, Scalar step, const volatile sig_atomic_t *stop,
                      Str *why) {
  bool real = dtype_is_float(a.type) || dtype_is_float(b.type) || dtype_is_float(step.type);
  DType work = real ? DT_F64 : DT_I64;
  a = scalar_convert(a, work);
  b = scalar_convert(b, work);
  step = scalar_convert(step, work);
  int64_t n = 0;
  if (!arange_count(a, b, step, &n)) {
    tensor_why(why, "arange would have no end, or more elements than can be counted");
    return NULL;
  }
  Tensor *out = tensor_new(t, 1, &n, TENSOR_UNSET, why);
  char *p = out ? tensor_data_write(out) : NULL;
  for (int64_t i = 0; out && i < n && !(stop && *stop); i++, p += dtype_size(t))
    scalar_store(scalar_convert(arange_element(a, step, i), t), p);
  return out;
}

/* Ones convert to every type. */
Tensor *tensor_eye(DType t, int64_t rows, int64_t columns, Str *why) {
  const int64_t extent[] = {rows, columns};
  Tensor *out = tensor_new(t, 2, extent, TENSOR_ZERO, why);
  Scalar one = {DT_I64, {.i = 1}};
  for (int64_t i = 0; out && i < rows && i < columns; i++) {
    const int64_t at[] = {i, i};
    tensor_set(out, at, one);
  }
  return out;
}
