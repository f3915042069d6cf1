/* view.c: new names for the same storage: slices, permutations, stretched and reshaped views.
 *
 * In: a tensor and how to look at it. Out: a view that shares its storage (reshape copies where
 * strides cannot say it). Every view stays inside its parent, so it stays inside the storage.
 * Tests: tests/unit/check_tensor.c.
 */
#include "impl.h"

#include <inttypes.h>
#include <string.h>

/* Slices ----------------------------------------------------------------------------------- */

static int64_t clamp(int64_t x, int64_t low, int64_t high) {
  return x < low ? low : x > high ? high : x;
}

/* A bound of a slice as Python resolves it: negative from the end, then cut. */
static int64_t bound(int64_t x, int64_t extent, bool backwards) {
  if (x < 0)
    x = x < -extent ? -1 : x + extent;
  return backwards ? clamp(x, -1, extent - 1) : clamp(x, 0, extent);
}

/* As Python's slice.indices: an empty result starts at 0. */
static bool slice(const TensorIndex *ix, int64_t extent, int64_t *start, int64_t *count, Str *why) {
  if (ix->step == 0) {
    tensor_why(why, "the step of a slice cannot be 0");
    return false;
  }
  bool back = ix->step < 0;
  int64_t from = ix->has_start ? ix->start : back ? extent - 1 : 0;
  int64_t to = ix->has_stop ? ix->stop : back ? -1 : extent;
  if (ix->has_start)
    from = bound(from, extent, back);
  if (ix->has_stop) /* below -extent means "before the first", both ways */
    to = to < -extent ? (back ? -1 : 0) : bound(to, extent, back);
  int64_t span = back ? from - to : to - from;
  uint64_t step = back ? 0 - (uint64_t)ix->step : (uint64_t)ix->step;
  *count = span <= 0 ? 0 : (int64_t)(((uint64_t)span - 1) / step) + 1;
  *start = *count ? from : 0;
  return true;
}

static bool outside(const TensorIndex *ix, int64_t extent) {
  return ix->start < -extent || ix->start >= extent;
}

/* One index drops its axis; a slice keeps it with another stride. */
static bool index_axis(const Tensor *t, Tensor *v, int axis, const TensorIndex *ix, Str *why) {
  int64_t extent = t->extent[axis], stride = t->stride[axis], start = 0, count = 0;
  if (ix->kind == TIX_INT) {
    if (outside(ix, extent)) {
      tensor_why(why, "the index %" PRId64 " is outside axis %d, which has the extent %" PRId64,
                 ix->start, axis, extent);
      return false;
    }
    v->offset += (ix->start < 0 ? ix->start + extent : ix->start) * stride;
    return true;
  }
  if (!slice(ix, extent, &start, &count, why))
    return false;
  v->offset += start * stride;
  v->extent[v->rank] = count;
  /* A stride is only used between two elements; with fewer it could overflow for a huge step. */
  v->stride[v->rank++] = count > 1 ? stride * ix->step : 1;
  return true;
}

/* Axes that no index names are kept whole. */
static bool index_all(const Tensor *t, Tensor *v, const TensorIndex *index, int n, Str *why) {
  static const TensorIndex whole = {TIX_SLICE, 0, 0, 1, false, false};
  int axis = 0;
  for (int i = 0; i < n; i++)
    if (index[i].kind == TIX_NEW) {
      v->extent[v->rank] = 1;
      v->stride[v->rank++] = 0;
    } else if (!index_axis(t, v, axis++, &index[i], why)) {
      return false;
    }
  while (axis < t->rank)
    if (!index_axis(t, v, axis++, &whole, why))
      return false;
  return true;
}

/* The rank is checked before anything is made: None can add axes past the limit. */
Tensor *tensor_index(const Tensor *t, const TensorIndex *index, int n, Str *why) {
  int taken = 0, rank = t->rank;
  for (int i = 0; i < n; i++) {
    taken += index[i].kind != TIX_NEW;
    rank += index[i].kind == TIX_NEW ? 1 : index[i].kind == TIX_INT ? -1 : 0;
  }
  if (taken > t->rank) {
    tensor_why(why, "%d indices for %d ax%s", taken, t->rank, t->rank == 1 ? "is" : "es");
    return NULL;
  }
  if (rank > TENSOR_MAX_RANK) {
    tensor_why(why, "a tensor has at most %d axes, not %d", TENSOR_MAX_RANK, rank);
    return NULL;
  }
  Tensor *v = tensor_view(t, why);
  if (!v)
    return NULL;
  v->rank = 0;
  if (!index_all(t, v, index, n, why)) {
    tensor_release(v);
    return NULL;
  }
  return v;
}

int tensor_index_refused(const Tensor *t, const TensorIndex *index, int n) {
  int axis = 0, refused = -1;
  for (int i = 0; i < n; i++) {
    const TensorIndex *ix = &index[i];
    if (ix->kind == TIX_NEW)
      continue;
    if (axis == t->rank) /* what tensor_index looks at first */
      return i;
    bool bad = ix->kind == TIX_INT ? outside(ix, t->extent[axis]) : ix->step == 0;
    refused = bad && refused < 0 ? i : refused;
    axis++;
  }
  return refused;
}

/* Permutations ----------------------------------------------------------------------------- */

/* Each axis exactly once. */
static bool check_axes(const Tensor *t, const int *axes, int n, int *out, Str *why) {
  bool seen[TENSOR_MAX_RANK] = {false};
  if (n != t->rank) {
    tensor_why(why, "%d axes named for a tensor of %d", n, t->rank);
    return false;
  }
  for (int i = 0; i < n; i++) {
    int a = axes[i] < 0 ? axes[i] + n : axes[i];
    if (a < 0 || a >= n || seen[a]) {
      tensor_why(why, a < 0 || a >= n ? "there is no axis %d" : "axis %d is named twice", axes[i]);
      return false;
    }
    seen[a] = true;
    out[i] = a;
  }
  return true;
}

/* Extents and strides move together. */
Tensor *tensor_permute(const Tensor *t, const int *axes, int n, Str *why) {
  int order[TENSOR_MAX_RANK];
  if (!check_axes(t, axes, n, order, why))
    return NULL;
  Tensor *v = tensor_view(t, why);
  for (int i = 0; v && i < n; i++) {
    v->extent[i] = t->extent[order[i]];
    v->stride[i] = t->stride[order[i]];
  }
  return v;
}

/* Vectors have no .T: it would be silent where a mistake is likely. */
Tensor *tensor_swap_last(const Tensor *t, Str *why) {
  int order[TENSOR_MAX_RANK];
  if (t->rank < 2) {
    tensor_why(why, ".T swaps the last two axes; this tensor has %d", t->rank);
    return NULL;
  }
  for (int i = 0; i < t->rank; i++)
    order[i] = i;
  order[t->rank - 1] = t->rank - 2;
  order[t->rank - 2] = t->rank - 1;
  return tensor_permute(t, order, t->rank, why);
}

/* Broadcasting ----------------------------------------------------------------------------- */

/* Axes are compared from the last; a missing one counts as 1. */
bool tensor_broadcast_shape(const Tensor *a, const Tensor *b, int *rank, int64_t *extent,
                            Str *why) {
  *rank = a->rank > b->rank ? a->rank : b->rank;
  for (int i = 1; i <= *rank; i++) {
    int64_t x = i <= a->rank ? a->extent[a->rank - i] : 1;
    int64_t y = i <= b->rank ? b->extent[b->rank - i] : 1;
    if (x != y && x != 1 && y != 1) {
      if (why) {
        tensor_add_type(a, why);
        str_add(why, " and ");
        tensor_add_type(b, why);
        str_addf(why, " do not broadcast: extents %" PRId64 " and %" PRId64, x, y);
      }
      return false;
    }
    extent[*rank - i] = x == 1 ? y : x;
  }
  return true;
}

/* Reading a stretched view is safe; writing would store several times to one element. */
Tensor *tensor_broadcast(const Tensor *t, int rank, const int64_t *extent, Str *why) {
  Tensor *v = tensor_view(t, why);
  if (!v)
    return NULL;
  bool ok = rank >= t->rank && rank <= TENSOR_MAX_RANK;
  v->rank = rank;
  for (int i = 1; ok && i <= rank; i++) {
    int64_t have = i <= t->rank ? t->extent[t->rank - i] : 1;
    ok = have == extent[rank - i] || have == 1;
    v->extent[rank - i] = extent[rank - i];
    v->stride[rank - i] = have == 1 ? 0 : t->stride[t->rank - i];
  }
  if (ok)
    return v;
  tensor_release(v);
  if (why) {
    tensor_add_type(t, why);
    str_add(why, " does not stretch to ");
    tensor_add_shape(rank, extent, why);
  }
  return NULL;
}

/* Reshaping -------------------------------------------------------------------------------- */

/* Fills in an extent of -1; false if the counts cannot agree. */
static bool resolve(const Tensor *t, int rank, const int64_t *extent, int64_t *out, Str *why) {
  int64_t known = 1, count = tensor_count(t);
  int hole = -1;
  bool ok = rank >= 0 && rank <= TENSOR_MAX_RANK;
  for (int i = 0; ok && i < rank; i++) {
    out[i] = extent[i];
    if (extent[i] == -1 && hole < 0)
      hole = i;
    else
      ok = extent[i] >= 0 && !__builtin_mul_overflow(known, extent[i], &known);
  }
  if (ok && hole >= 0) {
    ok = known > 0 && count % known == 0;
    if (ok)
      out[hole] = count / known;
  } else {
    ok = ok && known == count;
  }
  if (!ok && why) {
    tensor_add_type(t, why);
    str_addf(why, " has %" PRId64 " elements: it cannot take the shape ", count);
    tensor_add_shape(rank < 0 ? 0 : rank > TENSOR_MAX_RANK ? TENSOR_MAX_RANK : rank, extent, why);
  }
  return ok;
}

/* Strides for the new shape over the old memory: groups of old axes and of new axes with equal
 * products are matched; inside a group the old axes must lie as one. False if they do not. */
static bool restride(const Tensor *t, Tensor *v) {
  int64_t oe[TENSOR_MAX_RANK], os[TENSOR_MAX_RANK];
  int n = 0;
  for (int a = 0; a < t->rank; a++)
    if (t->extent[a] != 1) {
      oe[n] = t->extent[a];
      os[n++] = t->stride[a];
    }
  int i = 0, j = 0;
  while (i < n) {
    int64_t have = oe[i], want = 1;
    int i0 = i++, j0 = j;
    while (want != have) {
      if (want < have)
        want *= v->extent[j++];
      else
        have *= oe[i++];
    }
    for (int k = i0; k + 1 < i; k++)
      if (os[k] != os[k + 1] * oe[k + 1])
        return false;
    int64_t step = os[i - 1];
    for (int k = j; k-- > j0;) {
      v->stride[k] = step;
      step *= v->extent[k];
    }
  }
  for (; j < v->rank; j++)
    v->stride[j] = 1; /* trailing axes of extent 1 */
  return true;
}

/* The copy is in row-major order, so its reshape is a view. */
Tensor *tensor_reshape(const Tensor *t, int rank, const int64_t *extent, Str *why) {
  int64_t to[TENSOR_MAX_RANK];
  if (!resolve(t, rank, extent, to, why))
    return NULL;
  Tensor *v = tensor_view(t, why);
  if (!v)
    return NULL;
  v->rank = rank;
  if (rank)
    memcpy(v->extent, to, (size_t)rank * sizeof *to);
  if (tensor_count(t) == 0) {
    tensor_set_strides(v);
    return v;
  }
  if (restride(t, v))
    return v;
  tensor_release(v);
  Tensor *flat = tensor_cast(t, t->dtype, why);
  v = flat ? tensor_reshape(flat, rank, to, why) : NULL;
  tensor_release(flat);
  return v;
}

bool tensor_reach(const Tensor *t, int64_t *least, int64_t *most) {
  *least = *most = 0;
  for (int i = 0; i < t->rank; i++) {
    int64_t reach;
    if (t->extent[i] <= 1)
      continue;
    if (__builtin_mul_overflow(t->extent[i] - 1, t->stride[i], &reach) ||
        __builtin_add_overflow(reach < 0 ? *least : *most, reach, reach < 0 ? least : most))
      return false;
  }
  return true;
}

Tensor *tensor_laid_out(const Tensor *room, int64_t first, const Tensor *t, Str *why) {
  Tensor *v = tensor_view(t, why);
  if (!v)
    return NULL;
  Storage *own = v->storage;
  v->storage = room->storage;
  v->offset = room->offset + first;
  storage_retain(v->storage);
  storage_release(own);
  return v;
}

/* Retained, so that the caller releases the result either way. */
Tensor *tensor_contiguous(Tensor *t, Str *why) {
  return tensor_is_contiguous(t) ? tensor_retain(t) : tensor_cast(t, t->dtype, why);
}
