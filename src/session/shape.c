/* shape.c: builtins that rearrange tensors.
 *
 * In: tensors. Out: views where strides allow it, new tensors elsewhere. Nothing is converted.
 * Tests: tests/lang/shape_*.tile.
 */
#include "impl.h"

#include <string.h>

/* A view where the strides allow it; the error shows both counts. */
Value builtin_reshape(Args *a) {
  int64_t extent[TENSOR_MAX_RANK];
  args_names(a, NULL, 0);
  args_count(a, 2, 1 + TENSOR_MAX_RANK);
  Tensor *t = args_tensor(a, 0);
  int rank = args_extents(a, 1, extent);
  Str why = session_str(a->s);
  Tensor *out = tensor_reshape(t, rank, extent, &why);
  if (!out)
    host_fail(a->s, E0802, a->span, "%s", str_text(&why));
  return val_tensor(a->s, out);
}

/* Without axes it swaps the last two, as .T does. */
Value builtin_transpose(Args *a) {
  int64_t named[TENSOR_MAX_RANK];
  int axes[TENSOR_MAX_RANK];
  args_names(a, NULL, 0);
  args_count(a, 1, 1 + TENSOR_MAX_RANK);
  Tensor *t = args_tensor(a, 0);
  Str why = session_str(a->s);
  int n = a->npos > 1 ? args_extents(a, 1, named) : 0;
  for (int i = 0; i < n; i++)
    axes[i] = named[i] < -100 || named[i] > 100 ? 100 : (int)named[i];
  Tensor *out = n ? tensor_permute(t, axes, n, &why) : tensor_swap_last(t, &why);
  if (!out)
    host_fail(a->s, E0803, a->span, "%s", str_text(&why));
  return val_tensor(a->s, out);
}

/* The argument itself, not a copy, where nothing is to be done. */
Value builtin_contiguous(Args *a) {
  args_names(a, NULL, 0);
  args_count(a, 1, 1);
  Str why = session_str(a->s);
  Tensor *t = args_tensor(a, 0);
  if (!tensor_is_contiguous(t))
    return host_cast(a->s, t, t->dtype, a->span);
  return host_new_tensor(a->s, tensor_contiguous(t, &why), &why, a->span);
}

/* cat ---------------------------------------------------------------------------------------------
 */

/* Elements are numbered from 0 in messages, as the list is. */
static Tensor *part(Args *a, size_t i) {
  const char *what = arena_printf(session_scratch(a->s), "element %zu of the list", i);
  return host_tensor(a->s, a->v[0].as.obj->as.list.v[i], a->spans[0], what);
}

/* Counted from the end where negative. */
static int cat_axis(Args *a, const Tensor *first) {
  int64_t axis = 0;
  args_int_named(a, "axis", &axis);
  int64_t at = axis < 0 ? axis + first->rank : axis;
  if (at < 0 || at >= first->rank)
    host_fail(a->s, E0803, a->span, "the tensors have no axis %lld", (long long)axis);
  return (int)at;
}

/* The joined extent; every part must agree with the first elsewhere. */
static int64_t joined(Args *a, const Tensor *first, int axis, size_t n) {
  int64_t total = 0;
  for (size_t i = 0; i < n; i++) {
    const Tensor *t = part(a, i);
    bool ok = t->rank == first->rank && t->dtype == first->dtype;
    for (int k = 0; ok && k < t->rank; k++)
      ok = k == axis || t->extent[k] == first->extent[k];
    if (!ok) {
      Str x = session_str(a->s), y = session_str(a->s);
      tensor_add_type(first, &x);
      tensor_add_type(t, &y);
      host_fail(a->s, E0802, a->spans[0], "%s and %s do not join along axis %d", str_text(&x),
                str_text(&y), axis);
    }
    if (__builtin_add_overflow(total, t->extent[axis], &total))
      host_fail(a->s, E0807, a->span, "the joined tensor is too large");
  }
  return total;
}

/* Dtypes must agree: joining is no arithmetic, so nothing is converted unasked. */
Value builtin_cat(Args *a) {
  static const char *const names[] = {"axis"};
  args_names(a, names, 1);
  args_count(a, 1, 1);
  Session *s = a->s;
  if (!val_is_sequence(a->v[0]) || a->v[0].as.obj->as.list.n == 0)
    host_fail(s, E0801, a->spans[0], "cat takes a list of tensors: cat([a, b], axis = 0)");
  size_t n = a->v[0].as.obj->as.list.n;
  const Tensor *first = part(a, 0);
  int axis = cat_axis(a, first);
  int64_t extent[TENSOR_MAX_RANK] = {0};
  memcpy(extent, first->extent, sizeof extent);
  extent[axis] = joined(a, first, axis, n);
  Str why = session_str(s);
  Value out = host_new_tensor(
      s, session_tensor(s, first->dtype, first->rank, extent, TENSOR_UNSET, &why), &why, a->span);
  TensorIndex ix[TENSOR_MAX_RANK];
  for (int k = 0; k < first->rank; k++)
    ix[k] = (TensorIndex){TIX_SLICE, 0, 0, 1, false, false};
  for (size_t i = 0; i < n; i++) {
    Tensor *t = part(a, i);
    ix[axis].has_start = ix[axis].has_stop = true;
    ix[axis].stop = ix[axis].start + t->extent[axis];
    Tensor *view = tensor_index(out.as.tensor, ix, first->rank, &why);
    if (t->extent[axis] > 0)
      host_copy(s, host_new_tensor(s, view, &why, a->span).as.tensor, t, &why);
    else
      tensor_release(view);
    ix[axis].start = ix[axis].stop;
  }
  return out;
}
