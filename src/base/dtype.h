/* dtype.h: the scalar types of the language, and exact conversion between them.
 *
 * Rules (the manual, Types): to a narrower float rounds to nearest even; to f8 it saturates,
 * infinities too, NaN stays NaN (OCP 8-bit floating point, saturating mode); float to integer
 * truncates and saturates, NaN gives 0; integers wrap at their own width.
 */
#ifndef TILESH_BASE_DTYPE_H
#define TILESH_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum DType {
#define DTYPE(E, name, ctype, bits, cls, compute) DT_##E,
#include "dtypes.def"
#undef DTYPE
  DT_COUNT,
  DT_NONE = DT_COUNT
} DType;

/* Everything below takes DT_NONE too: "none", no bytes, of no class. */
const char *dtype_name(DType t);
/* The type of that name; false if there is none. */
bool dtype_parse(const char *s, size_t n, DType *t);
size_t dtype_size(DType t);   /* bytes of one stored element */
unsigned dtype_bits(DType t); /* of the same; of bool 8 */
bool dtype_is_float(DType t);
bool dtype_is_int(DType t); /* signed or unsigned, not bool */
bool dtype_is_signed(DType t);
bool dtype_is_unsigned(DType t);
/* The type that arithmetic on t is done in: f32 for f16, bf16, f8; t itself otherwise. */
DType dtype_compute(DType t);
size_t dtype_compute_size(DType t); /* bytes of one element of that type */
/* Least and greatest value of an integer type. */
int64_t dtype_int_min(DType t);
uint64_t dtype_int_max(DType t);
double dtype_float_max(DType t); /* greatest finite value of a float type */

/* One scalar of any type. Integers of up to 64 bits in i (u64 as its bits), floats in f. */
typedef struct Scalar {
  DType type;
  union {
    int64_t i;
    uint64_t u;
    double f;
  } as;
} Scalar;

/* Converts by the rules above. */
Scalar scalar_convert(Scalar x, DType to);
Scalar scalar_load(DType t, const void *p); /* one stored element */
void scalar_store(Scalar x, void *p);       /* of x.type, exactly */
/* The same for one cell in compute form (see dtype_unpack): a float on the grid of t, or stored
 * bits. */
Scalar scalar_load_compute(DType t, const void *cell);
void scalar_store_compute(Scalar x, void *cell);

/* Codes of the narrow floats, in the low bits, to the same value and back by the rules above. */
float f16_to_f32(uint16_t x);
uint16_t f32_to_f16(float x);
float bf16_to_f32(uint16_t x);
uint16_t f32_to_bf16(float x);
float f8e4m3_to_f32(uint8_t x);
uint8_t f32_to_f8e4m3(float x);
float f8e5m2_to_f32(uint8_t x);
uint8_t f32_to_f8e5m2(float x);
/* From double in one rounding (never through float). */
uint16_t f64_to_f16(double x);
uint16_t f64_to_bf16(double x);
uint8_t f64_to_f8e4m3(double x);
uint8_t f64_to_f8e5m2(double x);
/* The distance of values of t (a float type) around a finite x: a unit of its last place. */
double dtype_ulp(DType t, double x);

/* n stored elements of t at src, to and from compute form (dtype_compute(t)) at dst. Unit stride,
 * any alignment of the stored side; vectorised where the machine can, same bits everywhere. */
void dtype_unpack(DType t, const void *src, void *dst, size_t n);
void dtype_pack(DType t, const void *src, void *dst, size_t n);
/* n elements of 1, 2, 4 or 8 bytes that lie `step` bytes apart (any number, 0 and negative ones
 * too) side by side into dst, and back. Any alignment; nothing is converted. */
void dtype_gather(size_t size, const void *src, ptrdiff_t step, void *dst, size_t n);
void dtype_scatter(size_t size, const void *src, void *dst, ptrdiff_t step, size_t n);
/* dtype_unpack of elements that lie `step` bytes apart, and dtype_pack to such. */
void dtype_unpack_strided(DType t, const void *src, ptrdiff_t step, void *dst, size_t n);
void dtype_pack_strided(DType t, const void *src, void *dst, ptrdiff_t step, size_t n);
/* n stored elements of `from` to stored elements of `to`. */
void dtype_convert(DType from, const void *src, DType to, void *dst, size_t n);

#endif
