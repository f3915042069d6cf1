/* mem.c: elements between memory and lanes.
 *
 * In: elements at a stride or at given offsets, in stored or compute form. Out: lanes in compute
 * form, or the reverse. Nothing is checked here.
 * Four widths serve all types: bits are moved. Only narrow floats change on the way, between their
 * 16 or 8 bits in a tensor and f32 in a register or tile.
 */
#include <string.h>

#include "run.h"

/* Also before element 0: strides may be negative. */
void *eval_mem_at(const EvalMem *m, int64_t element) {
  return (char *)m->data + element * (int64_t)m->size;
}

#define GATHER(T)                                                                                  \
  {                                                                                                \
    T *d = dst;                                                                                    \
    const T *s = src;                                                                              \
    for (int64_t i = 0; i < n; i++)                                                                \
      d[i] = s[i * stride];                                                                        \
  }                                                                                                \
  break
#define SCATTER(T)                                                                                 \
  {                                                                                                \
    T *d = dst;                                                                                    \
    const T *s = src;                                                                              \
    for (int64_t i = 0; i < n; i++)                                                                \
      d[i * stride] = s[i];                                                                        \
  }                                                                                                \
  break

/* Copying and filling are the library's business where they can be. */
static void gather(size_t size, void *dst, const void *src, int64_t stride, int64_t n) {
  if (stride == 1) {
    memcpy(dst, src, (size_t)n * size);
    return;
  }
  if (stride == 0) {
    eval_fill_lanes(size, dst, src, n);
    return;
  }
  switch (size) {
  case 1:
    GATHER(uint8_t);
  case 2:
    GATHER(uint16_t);
  case 4:
    GATHER(uint32_t);
  default:
    GATHER(uint64_t);
  }
}

/* The mirror of gather; a stride of 0 keeps the last. */
static void scatter(size_t size, void *dst, int64_t stride, const void *src, int64_t n) {
  if (stride == 1) {
    memcpy(dst, src, (size_t)n * size);
    return;
  }
  switch (size) {
  case 1:
    SCATTER(uint8_t);
  case 2:
    SCATTER(uint16_t);
  case 4:
    SCATTER(uint32_t);
  default:
    SCATTER(uint64_t);
  }
}

/* Narrow floats are picked as they are stored and unpacked together. */
void eval_mem_gather(const EvalMem *m, int64_t element, int64_t stride, void *dst, int64_t n) {
  const char *src = eval_mem_at(m, element);
  if (!mem_packed(m)) {
    gather(m->size, dst, src, stride, n);
    return;
  }
  if (stride == 1) {
    dtype_unpack(m->dtype, src, dst, (size_t)n);
    return;
  }
  uint16_t raw[256];
  float *d = dst;
  for (int64_t i = 0; i < n; i += 256) {
    int64_t k = n - i < 256 ? n - i : 256;
    gather(m->size, raw, src + i * stride * (int64_t)m->size, stride, k);
    dtype_unpack(m->dtype, raw, d + i, (size_t)k);
  }
}

/* Packed together, then put in their places. */
void eval_mem_scatter(const EvalMem *m, int64_t element, int64_t stride, const void *src,
                      int64_t n) {
  char *dst = eval_mem_at(m, element);
  if (!mem_packed(m)) {
    scatter(m->size, dst, stride, src, n);
    return;
  }
  if (stride == 1) {
    dtype_pack(m->dtype, src, dst, (size_t)n);
    return;
  }
  uint16_t raw[256];
  const float *s = src;
  for (int64_t i = 0; i < n; i += 256) {
    int64_t k = n - i < 256 ? n - i : 256;
    dtype_pack(m->dtype, s + i, raw, (size_t)k);
    scatter(m->size, dst + i * stride * (int64_t)m->size, stride, raw, k);
  }
}

#define TAKE(T)                                                                                    \
  {                                                                                                \
    const T *s = m->data;                                                                          \
    T *d = raw;                                                                                    \
    for (int i = 0; i < n; i++)                                                                    \
      d[i] = s[at[i]];                                                                             \
  }                                                                                                \
  break

/* The elements at n offsets, in compute form. */
void eval_mem_take(const EvalMem *m, const int64_t *at, int n, void *dst, void *room) {
  void *raw = mem_packed(m) ? room : dst;
  switch (m->size) {
  case 1:
    TAKE(uint8_t);
  case 2:
    TAKE(uint16_t);
  case 4:
    TAKE(uint32_t);
  default:
    TAKE(uint64_t);
  }
  if (mem_packed(m))
    dtype_unpack(m->dtype, raw, dst, (size_t)n);
}

#define PUT(T)                                                                                     \
  {                                                                                                \
    T *d = m->data;                                                                                \
    const T *s = raw;                                                                              \
    for (int i = 0; i < n; i++)                                                                    \
      d[at[i]] = s[i];                                                                             \
  }                                                                                                \
  break

/* Higher lanes win where two mean one element. */
void eval_mem_put(const EvalMem *m, const int64_t *at, int n, const void *src, void *room) {
  const void *raw = mem_packed(m) ? room : src;
  if (mem_packed(m))
    dtype_pack(m->dtype, src, room, (size_t)n);
  switch (m->size) {
  case 1:
    PUT(uint8_t);
  case 2:
    PUT(uint16_t);
  case 4:
    PUT(uint32_t);
  default:
    PUT(uint64_t);
  }
}
