/* mem.c: elements between memory and lanes.
 *
 * In: elements at a stride or at given offsets, in stored or compute form. Out: lanes in compute
 * form, or the reverse; of a single integer its value. Nothing is checked here.
 * Four widths serve all types: bits are moved. Only narrow floats change on the way, between their
 * 16 or 8 bits in a tensor and f32 in a register or tile.
 * Tests: tests/unit/check_eval.c, tests/unit/check_eval_tiles.c (every code of the narrow floats).
 */

#include "run.h"

/* Also before element 0: strides may be negative. */
void *eval_mem_at(const EvalMem *m, int64_t element) {
  return (char *)m->data + element * (int64_t)m->size;
}

/* Filling is the library's business where it can be. */
void eval_mem_gather(const EvalMem *m, int64_t element, int64_t stride, void *dst, int64_t n) {
  const char *src = eval_mem_at(m, element);
  ptrdiff_t step = (ptrdiff_t)(stride * (int64_t)m->size);
  if (mem_packed(m))
    dtype_unpack_strided(m->dtype, src, step, dst, (size_t)n);
  else if (stride == 0)
    eval_fill_lanes(m->size, dst, src, n);
  else
    dtype_gather(m->size, src, step, dst, (size_t)n);
}

void eval_mem_scatter(const EvalMem *m, int64_t element, int64_t stride, const void *src,
                      int64_t n) {
  char *dst = eval_mem_at(m, element);
  ptrdiff_t step = (ptrdiff_t)(stride * (int64_t)m->size);
  if (mem_packed(m))
    dtype_pack_strided(m->dtype, src, dst, step, (size_t)n);
  else
    dtype_scatter(m->size, src, dst, step, (size_t)n);
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

/* ---------------------------------------------------------------- one integer */

/* Sign or zero extended by the type. */
int64_t eval_int_at(DType t, const void *p) {
  switch (t) {
  case DT_BOOL:
  case DT_U8:
    return *(const uint8_t *)p;
  case DT_I8:
    return *(const int8_t *)p;
  case DT_I16:
    return *(const int16_t *)p;
  case DT_U16:
    return *(const uint16_t *)p;
  case DT_I32:
    return *(const int32_t *)p;
  case DT_U32:
    return *(const uint32_t *)p;
  default:
    return *(const int64_t *)p;
  }
}

double eval_float_at(DType compute, const void *cell) {
  double d;
  float f;
  if (compute == DT_F64) {
    memcpy(&d, cell, sizeof d);
    return d;
  }
  memcpy(&f, cell, sizeof f);
  return (double)f;
}

/* Wraps at the type's width. */
void eval_int_to(DType t, void *p, int64_t value) {
  switch (dtype_size(t)) {
  case 1:
    *(uint8_t *)p = (uint8_t)value;
    break;
  case 2:
    *(uint16_t *)p = (uint16_t)value;
    break;
  case 4:
    *(uint32_t *)p = (uint32_t)value;
    break;
  default:
    *(int64_t *)p = value;
  }
}

/* Immediates have no data. */
int64_t eval_operand_int(const EvalOperand *o, int lane) {
  if (!o->data)
    return o->imm;
  return eval_int_at(o->type, (const char *)o->data + (size_t)lane * o->step);
}
