/* tmap.c: the rules a tensor map must keep, checked before the driver is asked.
 *
 * Goes in: a GpuTmap. Comes out: whether the hardware can have it, and if not which rule it breaks.
 * Tests: tests/unit/check_gpu.c.
 */
#include "private.h"

static bool refuse(Str *why, const char *what, int axis, uint64_t value) {
  gpu_say(why, "a tensor map cannot have %s (axis %d: %llu)", what, axis,
          (unsigned long long)value);
  return false;
}

/* The rules that hold for each axis. An extent of 0, which the hardware does not know, is served.
 */
static bool check_axis(const GpuTmap *t, int i, Str *why) {
  if (t->extent[i] > (uint64_t)1 << 32)
    return refuse(why, "an extent above 2^32", i, t->extent[i]);
  if (t->box[i] < 1 || t->box[i] > 256)
    return refuse(why, "a box extent outside 1 to 256", i, t->box[i]);
  if (t->step[i] > 8)
    return refuse(why, "an element stride above 8", i, t->step[i]);
  if (i > 0 && (t->stride[i] % 16 != 0 || t->stride[i] >= (uint64_t)1 << 40))
    return refuse(why, "a stride that is no multiple of 16 bytes or is 2^40 or more", i,
                  t->stride[i]);
  return true;
}

/* What the swizzle asks of the innermost axis. */
static bool check_inner(const GpuTmap *t, Str *why) {
  uint64_t bytes = t->box[0] * dtype_size(t->dtype);
  if (bytes % 16 != 0)
    return refuse(why, "an inner box extent that is no multiple of 16 bytes", 0, bytes);
  if (t->swizzle != 0 && t->swizzle != 32 && t->swizzle != 64 && t->swizzle != 128)
    return refuse(why, "a swizzle other than 0, 32, 64 and 128 bytes", 0, (uint64_t)t->swizzle);
  if (t->swizzle != 0 && bytes > (uint64_t)t->swizzle)
    return refuse(why, "an inner box extent wider than its swizzle", 0, bytes);
  return true;
}

bool gpu_tmap_empty(const GpuTmap *t) {
  for (int i = 0; i < t->rank; i++)
    if (t->extent[i] == 0)
      return true;
  return false;
}

bool gpu_tmap_check(const GpuTmap *t, Str *why) {
  if (t->rank < 1 || t->rank > GPU_TMAP_RANK)
    return refuse(why, "a rank outside 1 to 5", 0, (uint64_t)t->rank);
  if (t->dtype >= DT_COUNT || t->dtype == DT_BOOL)
    return refuse(why, "this dtype", 0, (uint64_t)t->dtype);
  if (!gpu_tmap_empty(t) && (t->base == 0 || t->base % 16 != 0))
    return refuse(why, "an address that is no multiple of 16 bytes", 0, t->base);
  for (int i = 0; i < t->rank; i++)
    if (!check_axis(t, i, why))
      return false;
  return check_inner(t, why);
}
