/* tensor.c: making, sharing and describing tensors.
 *
 * In: dtypes and extents. Out: tensors that are views of a storage. Extents are checked here once,
 * with every product overflow-checked, so that all later index arithmetic fits in 64 bits. Tests:
 * tests/unit/check_tensor.c.
 */
#include "impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Tensors are small and made by the million: malloc, not an arena. */
static Tensor *alloc(Str *why) {
  Tensor *t = calloc(1, sizeof *t);
  if (!t)
    tensor_why(why, "needs memory, and there is none");
  else
    t->refs = 1;
  return t;
}

/* Row-major. */
void tensor_set_strides(Tensor *t) {
  int64_t step = 1;
  for (int a = t->rank; a-- > 0;) {
    t->stride[a] = step;
    step *= t->extent[a] > 1 ? t->extent[a] : 1; /* an empty axis must not zero the others */
  }
}

/* "[3, 4]"; "[]" of rank 0. */
void tensor_add_shape(int rank, const int64_t *extent, Str *out) {
  str_addc(out, '[');
  for (int a = 0; a < rank; a++)
    str_addf(out, a ? ", %" PRId64 : "%" PRId64, extent[a]);
  str_addc(out, ']');
}

/* "f16[3, 4]", the form that all messages use. */
void tensor_add_type_of(DType t, int rank, const int64_t *extent, Str *out) {
  str_add(out, dtype_name(t));
  tensor_add_shape(rank, extent, out);
}

void tensor_add_type(const Tensor *t, Str *out) {
  tensor_add_type_of(t->dtype, t->rank, t->extent, out);
}

/* Bytes of a shape. The product of the extents other than 0 must fit as well: strides use it. */
static bool shape_bytes(DType t, int rank, const int64_t *extent, size_t *bytes) {
  int64_t n = 1;
  bool empty = false;
  for (int a = 0; a < rank; a++) {
    empty |= extent[a] == 0;
    if (extent[a] > 0 && __builtin_mul_overflow(n, extent[a], &n))
      return false;
  }
  if (__builtin_mul_overflow(n, (int64_t)dtype_size(t), &n) || n > INT64_MAX / 4)
    return false;
  *bytes = empty ? 0 : (size_t)n;
  return true;
}

/* All that is wrong with a shape is said in its own words. */
static bool check_shape(DType t, int rank, const int64_t *extent, size_t *bytes, Str *why) {
  if (rank < 0 || rank > TENSOR_MAX_RANK) {
    tensor_why(why, "a tensor has at most %d axes, not %d", TENSOR_MAX_RANK, rank);
    return false;
  }
  for (int a = 0; a < rank; a++)
    if (extent[a] < 0) {
      tensor_why(why, "an extent cannot be negative: axis %d is %" PRId64, a, extent[a]);
      return false;
    }
  if (shape_bytes(t, rank, extent, bytes))
    return true;
  if (why) {
    str_add(why, dtype_name(t));
    tensor_add_shape(rank, extent, why);
    bool empty = false;
    for (int a = 0; a < rank; a++)
      empty |= extent[a] == 0;
    str_add(why, empty
                     ? " has no elements, but its other extents multiply to more than any machine "
                       "can count"
                     : " has more elements than any machine can hold");
  }
  return false;
}

/* Takes over the storage, also on failure. */
static Tensor *finish(DType t, int rank, const int64_t *extent, Storage *s, Str *why) {
  Tensor *out = s ? alloc(why) : NULL;
  if (!out) {
    storage_release(s);
    return NULL;
  }
  out->dtype = t;
  out->rank = rank;
  if (rank)
    memcpy(out->extent, extent, (size_t)rank * sizeof *extent);
  tensor_set_strides(out);
  out->storage = s;
  return out;
}

/* The words in why begin with the type, so that a caller can put the tensor's name before them. */
Tensor *tensor_new(DType t, int rank, const int64_t *extent, TensorFill fill, Str *why) {
  size_t bytes = 0;
  if (!check_shape(t, rank, extent, &bytes, why))
    return NULL;
  size_t mark = why ? why->n : 0;
  if (why) { /* the words of storage_new follow the type: "f32[…] needs …" */
    str_add(why, dtype_name(t));
    tensor_add_shape(rank, extent, why);
    str_addc(why, ' ');
  }
  Tensor *out = finish(t, rank, extent, storage_new(bytes, fill, why), why);
  if (out && why) {
    why->n = mark;
    why->s[mark] = '\0';
  }
  return out;
}

/* The shape was checked against the storage by whoever made it. */
Tensor *tensor_of_storage(DType t, int rank, const int64_t *extent, Storage *s, Str *why) {
  size_t bytes = 0;
  if (check_shape(t, rank, extent, &bytes, why))
    return finish(t, rank, extent, s, why);
  storage_release(s);
  return NULL;
}

/* Takes over the handle, also on failure. */
Tensor *tensor_new_on_device(DType t, int rank, const int64_t *extent, const StorageDevice *device,
                             void *handle, Str *why) {
  size_t bytes = 0;
  if (!check_shape(t, rank, extent, &bytes, why)) {
    device->release(handle);
    return NULL;
  }
  return finish(t, rank, extent, storage_new_device(bytes, device, handle, why), why);
}

/* Shares the storage; the caller narrows it. */
Tensor *tensor_view(const Tensor *t, Str *why) {
  Tensor *v = alloc(why);
  if (!v)
    return NULL;
  *v = *t;
  v->refs = 1;
  storage_retain(v->storage);
  return v;
}

Tensor *tensor_retain(Tensor *t) {
  t->refs++;
  return t;
}

/* Views hold their storage, not their parent. */
void tensor_release(Tensor *t) {
  if (!t || --t->refs > 0)
    return;
  storage_release(t->storage);
  free(t);
}

/* An extent of 0 makes it 0 whatever the others are, without an overflow on the way. */
int64_t tensor_count(const Tensor *t) {
  int64_t n = 1;
  for (int a = 0; a < t->rank; a++)
    if (t->extent[a] == 0)
      return 0;
  for (int a = 0; a < t->rank; a++)
    n *= t->extent[a];
  return n;
}

/* The type stands before the reason: "f16[3, 4] lived only on …". */
bool tensor_to_host(const Tensor *t, Str *why) {
  if (storage_on_host(t->storage))
    return true;
  if (why) {
    tensor_add_type(t, why);
    str_addc(why, ' ');
  }
  return storage_to_host(t->storage, why);
}

char *tensor_address(const Tensor *t) {
  return storage_host(t->storage) + t->offset * (int64_t)dtype_size(t->dtype);
}

const void *tensor_data(const Tensor *t) {
  return tensor_address(t);
}

const void *tensor_storage_data(const Tensor *t) {
  return storage_host(t->storage);
}

/* Asked for before each write: it is what makes a device copy stale. */
void *tensor_data_write(Tensor *t) {
  storage_host_wrote(t->storage);
  return tensor_address(t);
}

/* Axes of extent 1 may have any stride; an empty tensor is contiguous. */
bool tensor_is_contiguous(const Tensor *t) {
  int64_t step = 1;
  if (tensor_count(t) == 0)
    return true;
  for (int a = t->rank; a-- > 0;) {
    if (t->extent[a] != 1 && t->stride[a] != step)
      return false;
    step *= t->extent[a];
  }
  return true;
}

/* First and one past the last byte that t's elements take in its storage. */
static void byte_range(const Tensor *t, int64_t *low, int64_t *high) {
  int64_t size = (int64_t)dtype_size(t->dtype);
  *low = *high = t->offset;
  for (int a = 0; a < t->rank; a++) {
    int64_t last = (t->extent[a] - 1) * t->stride[a];
    *low += last < 0 ? last : 0;
    *high += last > 0 ? last : 0;
  }
  *low *= size;
  *high = (*high + 1) * size;
}

/* An odometer; callers start from zeros and a tensor that is not empty. */
bool tensor_next(const Tensor *t, int64_t *index) {
  for (int a = t->rank; a-- > 0;) {
    if (++index[a] < t->extent[a])
      return true;
    index[a] = 0;
  }
  return false;
}

/* Marks t's bytes in [low, high) in the map (mark), or looks for one that is marked. */
static bool visit_bytes(const Tensor *t, int64_t low, int64_t high, unsigned char *map, bool mark) {
  int64_t index[TENSOR_MAX_RANK] = {0}, size = (int64_t)dtype_size(t->dtype);
  do {
    int64_t at = t->offset;
    for (int a = 0; a < t->rank; a++)
      at += index[a] * t->stride[a];
    int64_t begin = at * size < low ? low : at * size;
    int64_t end = (at + 1) * size > high ? high : (at + 1) * size;
    for (int64_t b = begin; b < end; b++)
      if (mark)
        map[b - low] = 1;
      else if (map[b - low])
        return true;
  } while (tensor_next(t, index));
  return false;
}

/* Ranges decide most cases; where they meet and have gaps a map of the bytes does. */
bool tensor_overlaps(const Tensor *a, const Tensor *b) {
  if (a->storage != b->storage || tensor_count(a) == 0 || tensor_count(b) == 0)
    return false;
  int64_t al, ah, bl, bh;
  byte_range(a, &al, &ah);
  byte_range(b, &bl, &bh);
  int64_t low = al > bl ? al : bl, high = ah < bh ? ah : bh;
  if (low >= high)
    return false;
  if (tensor_is_contiguous(a) && tensor_is_contiguous(b))
    return true;
  unsigned char *map = calloc(1, (size_t)(high - low));
  if (!map)
    return true; /* no room to look: the safe answer */
  visit_bytes(a, low, high, map, true);
  bool hit = visit_bytes(b, low, high, map, false);
  free(map);
  return hit;
}
