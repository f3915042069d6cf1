/* dtype_array.c: arrays of one type to another.
 *
 * In and out: n elements of unit stride, the stored side of any alignment. Always holds: the result
 * of each element is that of scalar_convert. Types meet in three wide forms, int64_t, uint64_t and
 * double, each of which holds the values of its types exactly, so that 15 readers and 15 writers do
 * for all 225 pairs; floats of up to 32 bits meet in float. Tests: tests/unit/check_base_dtype.c.
 */
#include <string.h>

#include "dtype.h"
#include "dtype_simd.h"

enum { BLOCK = 256 }; /* elements that are wide at a time */

/* ---- narrow floats -----------------------------------------------------------------------------
 */

/* The tail of a vector loop, and everything on a machine without vectors. */
static void unpack_scalar(DType t, const unsigned char *src, float *dst, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint16_t code = 0;
    memcpy(&code, src + i * dtype_size(t), dtype_size(t));
    dst[i] = t == DT_F16      ? f16_to_f32(code)
             : t == DT_BF16   ? bf16_to_f32(code)
             : t == DT_F8E4M3 ? f8e4m3_to_f32((uint8_t)code)
                              : f8e5m2_to_f32((uint8_t)code);
  }
}

/* Rounds one by one; also the definition that the vectors are tested against. */
static void pack_scalar(DType t, const float *src, unsigned char *dst, size_t n) {
  for (size_t i = 0; i < n; i++) {
    uint16_t code = t == DT_F16      ? f32_to_f16(src[i])
                    : t == DT_BF16   ? f32_to_bf16(src[i])
                    : t == DT_F8E4M3 ? f32_to_f8e4m3(src[i])
                                     : f32_to_f8e5m2(src[i]);
    memcpy(dst + i * dtype_size(t), &code, dtype_size(t));
  }
}

/* Types that compute as themselves are copied. */
void dtype_unpack(DType t, const void *src, void *dst, size_t n) {
  if (dtype_compute(t) == t) {
    if (n)
      memcpy(dst, src, n * dtype_size(t));
    return;
  }
  float *out = dst;
  const unsigned char *in = src;
  size_t done = dtype_simd_here() ? dtype_simd_unpack(t, src, out, n) : 0;
  if (done < n)
    unpack_scalar(t, in + done * dtype_size(t), out + done, n - done);
}

/* The way back; the only place where tiles of narrow floats are rounded. */
void dtype_pack(DType t, const void *src, void *dst, size_t n) {
  if (dtype_compute(t) == t) {
    if (n)
      memcpy(dst, src, n * dtype_size(t));
    return;
  }
  const float *in = src;
  unsigned char *out = dst;
  size_t done = dtype_simd_here() ? dtype_simd_pack(t, in, dst, n) : 0;
  if (done < n)
    pack_scalar(t, in + done, out + done * dtype_size(t), n - done);
}

/* ---- any type to any other ---------------------------------------------------------------------
 */

/* A block in the wide form of its type. */
typedef union Wide {
  int64_t i[BLOCK];
  uint64_t u[BLOCK];
  double f[BLOCK];
} Wide;

#define READ(ctype, member)                                                                        \
  do {                                                                                             \
    const unsigned char *s = src;                                                                  \
    for (size_t k = 0; k < n; k++) {                                                               \
      ctype x;                                                                                     \
      memcpy(&x, s + k * sizeof x, sizeof x);                                                      \
      w->member[k] = x;                                                                            \
    }                                                                                              \
    return;                                                                                        \
  } while (0)

/* At most BLOCK stored elements to their wide form: int64_t for signed integers, uint64_t for
 * unsigned ones and bool, double for floats. */
static void read_wide(DType t, const void *src, Wide *w, size_t n) {
  float narrow[BLOCK];
  switch (t) {
  case DT_I8:
    READ(int8_t, i);
  case DT_I16:
    READ(int16_t, i);
  case DT_I32:
    READ(int32_t, i);
  case DT_I64:
    READ(int64_t, i);
  case DT_BOOL:
  case DT_U8:
    READ(uint8_t, u);
  case DT_U16:
    READ(uint16_t, u);
  case DT_U32:
    READ(uint32_t, u);
  case DT_U64:
    READ(uint64_t, u);
  case DT_F64:
    READ(double, f);
  default:
    dtype_unpack(t, src, narrow, n);
    for (size_t k = 0; k < n; k++)
      w->f[k] = (double)narrow[k];
  }
}

/* From integers only the bits below the width matter, so signed and unsigned share this. */
#define WRAP(ctype)                                                                                \
  do {                                                                                             \
    for (size_t k = 0; k < n; k++) {                                                               \
      ctype x = (ctype)w->u[k];                                                                    \
      memcpy(d + k * sizeof x, &x, sizeof x);                                                      \
    }                                                                                              \
  } while (0)

/* Stores the low bits: integers wrap at the width of what they are stored in. */
static void write_wrapped(DType to, const Wide *w, unsigned char *d, size_t n) {
  switch (dtype_size(to)) {
  case 1:
    WRAP(uint8_t);
    break;
  case 2:
    WRAP(uint16_t);
    break;
  case 4:
    WRAP(uint32_t);
    break;
  default:
    WRAP(uint64_t);
  }
}

/* What has no loop of its own goes one by one. */
static void write_each(DType wide, DType to, const Wide *w, unsigned char *d, size_t n) {
  for (size_t k = 0; k < n; k++) {
    Scalar x = {.type = wide};
    x.as.u = w->u[k];
    scalar_store(scalar_convert(x, to), d + k * dtype_size(to));
  }
}

/* A loop of a plain conversion, which the compiler can do in vectors. */
#define STORE(ctype, expression)                                                                   \
  do {                                                                                             \
    for (size_t k = 0; k < n; k++) {                                                               \
      ctype x = (ctype)(expression);                                                               \
      memcpy(d + k * sizeof x, &x, sizeof x);                                                      \
    }                                                                                              \
  } while (0)

/* Anything that is not zero is true; NaN is not zero. */
static void write_bool(DType wide, const Wide *w, unsigned char *d, size_t n) {
  if (wide == DT_F64)
    STORE(uint8_t, w->f[k] != 0);
  else
    STORE(uint8_t, w->u[k] != 0);
}

/* To float and double from either kind of integer the processor rounds once. */
static void write_float(DType wide, DType to, const Wide *w, unsigned char *d, size_t n) {
  if (to == DT_F32 && wide == DT_I64)
    STORE(float, w->i[k]);
  else if (to == DT_F32 && wide == DT_U64)
    STORE(float, w->u[k]);
  else if (to == DT_F32)
    STORE(float, w->f[k]);
  else if (to == DT_F64 && wide == DT_I64)
    STORE(double, w->i[k]);
  else if (to == DT_F64 && wide == DT_U64)
    STORE(double, w->u[k]);
  else
    write_each(wide, to, w, d, n);
}

/* At most BLOCK elements from wide form (I64, U64 or F64) to stored elements of `to`. */
static void write_wide(DType wide, DType to, const Wide *w, unsigned char *d, size_t n) {
  if (to == DT_BOOL)
    write_bool(wide, w, d, n);
  else if (dtype_is_float(to))
    write_float(wide, to, w, d, n);
  else if (wide == DT_F64)
    write_each(wide, to, w, d, n);
  else
    write_wrapped(to, w, d, n);
}

/* Both are floats of at most 32 bits. */
static void convert_small_floats(DType from, const unsigned char *s, DType to, unsigned char *d,
                                 size_t n) {
  float block[BLOCK];
  for (size_t i = 0; i < n; i += BLOCK) {
    size_t count = n - i < BLOCK ? n - i : BLOCK;
    dtype_unpack(from, s + i * dtype_size(from), block, count);
    dtype_pack(to, block, d + i * dtype_size(to), count);
  }
}

/* The two common ways, a copy and one float to another, do not go through 64 bits. */
void dtype_convert(DType from, const void *src, DType to, void *dst, size_t n) {
  const unsigned char *s = src;
  unsigned char *d = dst;
  if (from == to) {
    if (n)
      memcpy(dst, src, n * dtype_size(from));
    return;
  }
  if (dtype_compute(from) == DT_F32 && dtype_compute(to) == DT_F32) {
    convert_small_floats(from, s, to, d, n);
    return;
  }
  DType wide = dtype_is_float(from) ? DT_F64 : dtype_is_signed(from) ? DT_I64 : DT_U64;
  Wide w;
  for (size_t i = 0; i < n; i += BLOCK) {
    size_t count = n - i < BLOCK ? n - i : BLOCK;
    read_wide(from, s + i * dtype_size(from), &w, count);
    write_wide(wide, to, &w, d + i * dtype_size(to), count);
  }
}

/* Elements at a stride --------------------------------------------------------------------------
 */

/* A memcpy of constant size is a plain load and store; FROM and TO are where element i lies. */
#define MOVE_AS(SIZE, FROM, TO)                                                                    \
  for (size_t i = 0; i < n; i++)                                                                   \
    memcpy(d + (ptrdiff_t)i * (TO), s + (ptrdiff_t)i * (FROM), SIZE);                              \
  break

/* One loop an element size. */
void dtype_gather(size_t size, const void *src, ptrdiff_t step, void *dst, size_t n) {
  const char *s = src;
  char *d = dst;
  if (n && step == (ptrdiff_t)size) {
    memcpy(dst, src, n * size);
    return;
  }
  switch (size) {
  case 1:
    MOVE_AS(1, step, 1);
  case 2:
    MOVE_AS(2, step, 2);
  case 4:
    MOVE_AS(4, step, 4);
  default:
    MOVE_AS(8, step, 8);
  }
}

/* A step of 0 keeps the last. */
void dtype_scatter(size_t size, const void *src, void *dst, ptrdiff_t step, size_t n) {
  const char *s = src;
  char *d = dst;
  if (n && step == (ptrdiff_t)size) {
    memcpy(dst, src, n * size);
    return;
  }
  switch (size) {
  case 1:
    MOVE_AS(1, 1, step);
  case 2:
    MOVE_AS(2, 2, step);
  case 4:
    MOVE_AS(4, 4, step);
  default:
    MOVE_AS(8, 8, step);
  }
}

/* Types that are their own compute form are only moved; narrow floats are moved in blocks as they
 * are stored, then unpacked together. */
void dtype_unpack_strided(DType t, const void *src, ptrdiff_t step, void *dst, size_t n) {
  size_t size = dtype_size(t);
  uint16_t stored[BLOCK];
  if (dtype_compute(t) == t) {
    dtype_gather(size, src, step, dst, n);
    return;
  }
  if (step == (ptrdiff_t)size) {
    dtype_unpack(t, src, dst, n);
    return;
  }
  for (size_t i = 0; i < n; i += BLOCK) {
    size_t count = n - i < BLOCK ? n - i : BLOCK;
    dtype_gather(size, (const char *)src + (ptrdiff_t)i * step, step, stored, count);
    dtype_unpack(t, stored, (float *)dst + i, count);
  }
}

/* The mirror of dtype_unpack_strided. */
void dtype_pack_strided(DType t, const void *src, void *dst, ptrdiff_t step, size_t n) {
  size_t size = dtype_size(t);
  uint16_t stored[BLOCK];
  if (dtype_compute(t) == t) {
    dtype_scatter(size, src, dst, step, n);
    return;
  }
  if (step == (ptrdiff_t)size) {
    dtype_pack(t, src, dst, n);
    return;
  }
  for (size_t i = 0; i < n; i += BLOCK) {
    size_t count = n - i < BLOCK ? n - i : BLOCK;
    dtype_pack(t, (const float *)src + i, stored, count);
    dtype_scatter(size, stored, (char *)dst + (ptrdiff_t)i * step, step, count);
  }
}
