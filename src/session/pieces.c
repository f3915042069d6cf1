/* pieces.c: filling, copying and converting large tensors, in pieces between which Ctrl-C is seen.
 *
 * In: tensors of any strides. Out: what tensor_fill, tensor_copy and tensor_cast give. Always
 * holds: a piece takes a few milliseconds; an interrupt leaves the elements of the pieces done so
 * far. Tests: tests/interrupt/run.
 */
#include "impl.h"

enum { PIECE = 1 << 20 };

void session_stop(Session *s) {
  if (session_interrupted(s))
    guard_raise(s->guard, ST_INTERRUPTED);
}

/* The tensor with one axis narrowed, as a struct that owns nothing. */
static Tensor part(const Tensor *t, int axis, int64_t from, int64_t n) {
  Tensor x = *t;
  x.extent[axis] = n;
  x.offset += from * t->stride[axis];
  return x;
}

/* Halves the first axis that can be halved; src is NULL for a fill. */
static void each_piece(Session *s, Tensor *dst, const Tensor *src, Scalar x) {
  int axis = 0;
  while (axis < dst->rank && dst->extent[axis] < 2)
    axis++;
  if (axis == dst->rank || tensor_count(dst) <= PIECE) {
    session_stop(s);
    if (src)
      tensor_copy(dst, src, NULL);
    else
      tensor_fill(dst, x);
    return;
  }
  int64_t n = dst->extent[axis], half = n / 2;
  for (int i = 0; i < 2; i++) {
    int64_t from = i ? half : 0, count = i ? n - half : half;
    Tensor to = part(dst, axis, from, count);
    Tensor of = src ? part(src, axis, from, count) : to;
    each_piece(s, &to, src ? &of : NULL, x);
  }
}

void host_fill(Session *s, Tensor *t, Scalar x) {
  each_piece(s, t, NULL, x);
}

/* Where the two share memory a copy of the source is made first: all is read before anything is
 * written. Whether they really overlap would take longer to find out. */
bool host_copy(Session *s, Tensor *dst, const Tensor *src, Str *why) {
  if (tensor_count(dst) <= PIECE)
    return tensor_copy(dst, src, why);
  if (dst->storage == src->storage)
    src = host_cast(s, src, src->dtype, (Span){NULL, 0, 0}).as.tensor;
  each_piece(s, dst, src, (Scalar){0});
  return true;
}

Value host_cast(Session *s, const Tensor *t, DType to, Span span) {
  Str why = session_str(s);
  Value out =
      host_new_tensor(s, session_tensor(s, to, t->rank, t->extent, TENSOR_UNSET, &why), &why, span);
  if (tensor_count(t) > 0)
    each_piece(s, out.as.tensor, t, (Scalar){0});
  return out;
}

/* Strides and the place within 16 bytes are what a kernel is compiled for. */
Value host_copy_as_it_lies(Session *s, const Tensor *t, Span span) {
  Str why = session_str(s);
  int64_t least, most;
  if (tensor_count(t) == 0 || !tensor_reach(t, &least, &most))
    return host_cast(s, t, t->dtype, span);
  int64_t step = 16 / (int64_t)dtype_size(t->dtype);
  int64_t first = -least + ((t->offset + least) % step + step) % step, all = first + most + 1;
  Tensor *room = session_tensor(s, t->dtype, 1, &all, TENSOR_ZERO, &why);
  host_new_tensor(s, room, &why, span);
  Value out = host_new_tensor(s, tensor_laid_out(room, first, t, &why), &why, span);
  each_piece(s, out.as.tensor, t, (Scalar){0});
  return out;
}
