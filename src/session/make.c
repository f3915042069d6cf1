/* make.c: builtins that make tensors, and those that compare them.
 *
 * In: dtypes, extents, values. Out: new tensors. Random numbers come from the session's Philox
 * stream, one draw a call. Tests: tests/lang.
 */
#include "impl.h"

/* dtype first, extents from argument `from` on; at least one extent. */
static Tensor *new_tensor(Args *a, size_t from, TensorFill fill, Value *out) {
  int64_t extent[TENSOR_MAX_RANK];
  args_names(a, NULL, 0);
  args_count(a, from + 1, from + TENSOR_MAX_RANK);
  DType t = args_dtype(a, 0);
  int rank = args_extents(a, from, extent);
  Str why = session_str(a->s);
  *out = host_new_tensor(a->s, session_tensor(a->s, t, rank, extent, fill, &why), &why, a->span);
  return out->as.tensor;
}

/* Memory comes zeroed from the system: large tensors cost pages only when touched. */
Value builtin_zeros(Args *a) {
  Value out;
  new_tensor(a, 1, TENSOR_ZERO, &out);
  return out;
}

/* The name promises nothing about the elements; this gives the same ones every time. */
Value builtin_empty(Args *a) {
  Value out;
  new_tensor(a, 1, TENSOR_ZERO, &out); /* "anything" is zero: the same on every run */
  return out;
}

/* true for bool. */
Value builtin_ones(Args *a) {
  Value out;
  Tensor *t = new_tensor(a, 1, TENSOR_UNSET, &out);
  host_fill(a->s, t,
            t->dtype == DT_BOOL ? (Scalar){DT_BOOL, {.i = 1}} : (Scalar){DT_I64, {.i = 1}});
  return out;
}

/* The value must fit as an argument of a kernel must: no silent truncation. */
Value builtin_full(Args *a) {
  Value out;
  args_count(a, 3, 2 + TENSOR_MAX_RANK);
  Scalar x = arith_fit(a->s, a->v[1], args_dtype(a, 0), a->spans[1]);
  host_fill(a->s, new_tensor(a, 2, TENSOR_UNSET, &out), x);
  return out;
}

/* randint is what makes integers. */
static void only_floats(Args *a) {
  if (a->npos > 0 && !dtype_is_float(args_dtype(a, 0)))
    host_fail_hint(a->s, E0801, a->spans[0], "randint(i32, low, high, ...) makes integers",
                   "%s makes floats, not %s", a->name, dtype_name(a->v[0].as.dtype));
}

/* Threads are only started for tensors that are worth it. */
static Pool *large_pool(Session *s, const Tensor *t) {
  return tensor_count(t) >= 1 << 16 ? session_pool(s) : NULL;
}

/* Uniform; the values are exact multiples of a power of two of the type. */
Value builtin_rand(Args *a) {
  Value out;
  only_floats(a);
  Tensor *t = new_tensor(a, 1, TENSOR_UNSET, &out);
  tensor_rand(t, &a->s->random, large_pool(a->s, t));
  session_stop(a->s);
  return out;
}

/* The same numbers on every machine (tensor.h). */
Value builtin_randn(Args *a) {
  Value out;
  only_floats(a);
  Tensor *t = new_tensor(a, 1, TENSOR_UNSET, &out);
  tensor_randn(t, &a->s->random, large_pool(a->s, t));
  session_stop(a->s);
  return out;
}

/* The end is excluded and may be one past the greatest value of the type, so that all values can
 * be drawn. */
Value builtin_randint(Args *a) {
  Value out;
  args_count(a, 4, 3 + TENSOR_MAX_RANK);
  DType t = args_dtype(a, 0);
  if (!dtype_is_int(t))
    host_fail(a->s, E0801, a->spans[0], "randint makes integers, not %s", dtype_name(t));
  Scalar low = arith_fit(a->s, a->v[1], t, a->spans[1]);
  Scalar high = {dtype_is_unsigned(t) ? DT_U64 : DT_I64, {.i = 0}};
  /* high is excluded, so it may be one past the type's greatest value */
  if (a->v[2].kind != VAL_INT)
    host_fail(a->s, E0801, a->spans[2], "the end of randint must be an int, not %s",
              val_describe(a->s, a->v[2]));
  high.as.u = a->v[2].as.u;
  bool less = dtype_is_unsigned(t) ? low.as.u < high.as.u : low.as.i < high.as.i;
  bool fits = dtype_is_unsigned(t) ? high.as.u - 1 <= dtype_int_max(t)
                                   : !a->v[2].big && high.as.i - 1 <= (int64_t)dtype_int_max(t);
  if (!less || !fits)
    host_fail(a->s, E0804, a->spans[2],
              less ? "the numbers do not fit in %s" : "randint of %s needs low < high",
              dtype_name(t));
  Tensor *x = new_tensor(a, 3, TENSOR_UNSET, &out);
  tensor_randint(x, low, high, &a->s->random, large_pool(a->s, x));
  session_stop(a->s);
  return out;
}

/* Rectangular with a second extent. */
Value builtin_eye(Args *a) {
  args_names(a, NULL, 0);
  args_count(a, 2, 3);
  int64_t n = args_int(a, 1), m = a->npos > 2 ? args_int(a, 2) : n;
  Str why = session_str(a->s);
  return host_new_tensor(a->s, tensor_eye(args_dtype(a, 0), n, m, &why), &why, a->span);
}

/* Bounds may be ints or floats; what the dtype takes is looked at by the caller. */
static Scalar number(Args *a, size_t i) {
  if (!val_is_number(a->v[i]))
    host_fail(a->s, E0801, a->spans[i], "arange takes numbers, not %s",
              val_describe(a->s, a->v[i]));
  return val_to_scalar(a->v[i]);
}

/* Elements are written, if not one by one: one that does not fit is an error, as for a literal. */
static void check_last(Args *a, Scalar from, Scalar step, const Tensor *t) {
  int64_t n = t->extent[0];
  if (n == 0)
    return;
  Scalar last = from;
  if (dtype_is_float(from.type) || dtype_is_float(step.type))
    last = (Scalar){DT_F64,
                    {.f = scalar_convert(from, DT_F64).as.f +
                          (double)(n - 1) * scalar_convert(step, DT_F64).as.f}};
  else
    last.as.u += (uint64_t)(n - 1) * step.as.u;
  const Scalar *bad = !sema_fits(from, t->dtype)   ? &from
                      : !sema_fits(last, t->dtype) ? &last
                                                   : NULL;
  if (!bad)
    return;
  Str text = session_str(a->s);
  scalar_print(*bad, &text);
  host_fail(a->s, E0811, a->span, "%s does not fit in %s, and arange would reach it",
            str_text(&text), dtype_name(t->dtype));
}

/* The step may be the fourth argument or named; a range that is empty is a tensor of no
 * elements. */
Value builtin_arange(Args *a) {
  static const char *const names[] = {"step"};
  args_names(a, names, 1);
  args_count(a, 2, 4);
  DType t = args_dtype(a, 0);
  Scalar zero = {DT_I64, {.i = 0}}, step = {DT_I64, {.i = 1}};
  Scalar from = a->npos > 2 ? number(a, 1) : zero, to = number(a, a->npos > 2 ? 2 : 1);
  if (a->npos > 3)
    step = number(a, 3);
  const Value *named = args_named(a, "step");
  if (named && val_is_number(*named))
    step = val_to_scalar(*named);
  if (scalar_convert(step, DT_F64).as.f == 0.0)
    host_fail(a->s, E0804, a->span, "the step of arange cannot be 0");
  if (dtype_is_int(t) && (dtype_is_float(from.type) || dtype_is_float(step.type)))
    host_fail(a->s, E0801, a->span, "arange of %s takes ints", dtype_name(t));
  Str why = session_str(a->s);
  Value out = host_new_tensor(a->s, tensor_arange(t, from, to, step, a->s->options.interrupt, &why),
                              &why, a->span);
  session_stop(a->s);
  check_last(a, from, step, out.as.tensor);
  return out;
}

/* Nested lists ----------------------------------------------------------------------------- */

/* The shape that the first elements say; the filling pass checks that the others agree. */
static int nested_shape(Args *a, Value v, int64_t *extent) {
  int rank = 0;
  while (val_is_sequence(v)) {
    if (rank == TENSOR_MAX_RANK)
      host_fail(a->s, E0807, a->spans[1], "lists nest at most %d deep in a tensor",
                TENSOR_MAX_RANK);
    extent[rank++] = (int64_t)v.as.obj->as.list.n;
    if (v.as.obj->as.list.n == 0)
      break;
    v = v.as.obj->as.list.v[0];
  }
  return rank;
}

/* Every list on an axis must be as long as the first one; numbers may be ints in a float tensor. */
static void fill_nested(Args *a, Tensor *t, Value v, int axis, int64_t *index) {
  if (axis == t->rank) {
    if (val_is_sequence(v))
      host_fail(a->s, E0807, a->spans[1], "the lists are nested unevenly");
    tensor_set(t, index, arith_fit(a->s, v, t->dtype, a->spans[1]));
    return;
  }
  if (!val_is_sequence(v) || (int64_t)v.as.obj->as.list.n != t->extent[axis])
    host_fail(a->s, E0807, a->spans[1],
              "the lists are uneven: %lld elements along axis %d, here %s%zu",
              (long long)t->extent[axis], axis, val_is_sequence(v) ? "" : "a number, not ",
              val_is_sequence(v) ? v.as.obj->as.list.n : (size_t)t->extent[axis]);
  for (int64_t i = 0; i < t->extent[axis]; i++) {
    index[axis] = i;
    fill_nested(a, t, v.as.obj->as.list.v[i], axis + 1, index);
  }
}

/* A tensor as argument is converted: tensor(f16, x) copies always. */
Value builtin_tensor(Args *a) {
  int64_t extent[TENSOR_MAX_RANK], index[TENSOR_MAX_RANK] = {0};
  args_names(a, NULL, 0);
  args_count(a, 2, 2);
  DType t = args_dtype(a, 0);
  Value v = a->v[1];
  if (v.kind == VAL_TENSOR)
    return arith_cast(a->s, v, t, a->spans[1]);
  if (!val_is_sequence(v) && !val_is_scalar(v))
    host_fail(a->s, E0801, a->spans[1], "tensor takes nested lists of numbers, not %s",
              val_describe(a->s, v));
  Str why = session_str(a->s);
  int rank = nested_shape(a, v, extent);
  Value out = host_new_tensor(a->s, session_tensor(a->s, t, rank, extent, TENSOR_ZERO, &why), &why,
                              a->span);
  fill_nested(a, out.as.tensor, v, 0, index);
  return out;
}

/* Comparing -------------------------------------------------------------------------------- */

/* A number in place of a tensor becomes one of a single element of the other's type. */
static Tensor *operand(Args *a, size_t i) {
  Value v = a->v[i], other = a->v[1 - i];
  if (!val_is_scalar(v))
    return args_tensor(a, i);
  DType t = other.kind == VAL_TENSOR ? other.as.tensor->dtype : val_to_scalar(v).type;
  if (v.kind == VAL_FLOAT && !dtype_is_float(t))
    t = DT_F64;
  Str why = session_str(a->s);
  Value out =
      host_new_tensor(a->s, session_tensor(a->s, t, 0, NULL, TENSOR_ZERO, &why), &why, a->span);
  tensor_fill(out.as.tensor, val_to_scalar(v));
  return out.as.tensor;
}

/* NaN is close to nothing; infinities are close to themselves. */
Value builtin_allclose(Args *a) {
  static const char *const names[] = {"rtol", "atol"};
  args_names(a, names, 2);
  args_count(a, 2, 4);
  double rel = args_number_named(a, "rtol", 1e-5), abs = args_number_named(a, "atol", 1e-8);
  if (a->npos > 2)
    rel = scalar_convert(val_to_scalar(a->v[2]), DT_F64).as.f;
  if (a->npos > 3)
    abs = scalar_convert(val_to_scalar(a->v[3]), DT_F64).as.f;
  Session *s = a->s;
  bool close = false;
  Str why = session_str(s);
  if (!tensor_allclose(operand(a, 0), operand(a, 1), rel, abs, s->options.interrupt, &close,
                       &s->close, &why))
    host_fail(s, E0802, a->span, "%s", str_text(&why));
  session_stop(s);
  s->close_set = !close;
  return val_bool(close);
}

/* A number, so that it can stand in a comparison. */
Value builtin_maxdiff(Args *a) {
  args_names(a, NULL, 0);
  args_count(a, 2, 2);
  Session *s = a->s;
  TensorDiff d;
  Str why = session_str(s);
  if (!tensor_maxdiff(operand(a, 0), operand(a, 1), s->options.interrupt, &d, &why))
    host_fail(s, E0802, a->span, "%s", str_text(&why));
  session_stop(s);
  s->close = d; /* an assert that fails on the number shows the place too */
  s->close_set = d.count > 0;
  return val_float(d.max_abs);
}
