/* dtype.c: the scalar types, and one value at a time from one to another.
 *
 * In: a value of one type. Out: the same value on another type's grid, by the rules of dtype.h.
 * Always holds: one rounding only, whatever the way: integers of more than 53 bits go to narrow
 * floats through round-to-odd, doubles never through float; every NaN becomes the narrow type's one
 * NaN (sign clear), as NVIDIA's conversions give. Arrays are in dtype_array.c. Tests:
 * tests/unit/check_base_dtype.c.
 */
#include "dtype.h"

#include <limits.h>
#include <math.h>
#include <string.h>

typedef enum DTypeClass { CLASS_NONE, CLASS_B, CLASS_I, CLASS_U, CLASS_F } DTypeClass;

typedef struct DTypeRow {
  const char *name;
  size_t size, compute_size;
  unsigned bits;
  DTypeClass cls;
} DTypeRow;

static const DTypeRow rows[DT_COUNT + 1] = {
#define DTYPE(E, name, ctype, bits, cls, compute)                                                  \
  [DT_##E] = {name, sizeof(ctype), sizeof(compute), bits, CLASS_##cls},
#include "dtypes.def"
#undef DTYPE
    [DT_NONE] = {"none", 0, 0, 0, CLASS_NONE},
};

const char *dtype_name(DType t) {
  return rows[t].name;
}

/* Fifteen names: a search is faster than a table would be worth. */
bool dtype_parse(const char *s, size_t n, DType *t) {
  for (int i = 0; i < DT_COUNT; i++)
    if (strlen(rows[i].name) == n && memcmp(rows[i].name, s, n) == 0)
      return *t = (DType)i, true;
  return false;
}

size_t dtype_size(DType t) {
  return rows[t].size;
}

unsigned dtype_bits(DType t) {
  return rows[t].bits;
}

bool dtype_is_float(DType t) {
  return rows[t].cls == CLASS_F;
}

/* bool is neither signed nor unsigned: it takes no arithmetic. */
bool dtype_is_int(DType t) {
  return rows[t].cls == CLASS_I || rows[t].cls == CLASS_U;
}

bool dtype_is_signed(DType t) {
  return rows[t].cls == CLASS_I;
}

bool dtype_is_unsigned(DType t) {
  return rows[t].cls == CLASS_U;
}

DType dtype_compute(DType t) {
  return dtype_is_float(t) && rows[t].size < sizeof(float) ? DT_F32 : t;
}

size_t dtype_compute_size(DType t) {
  return rows[t].compute_size;
}

/* The shift of a negative number keeps its sign with every compiler we build with. */
int64_t dtype_int_min(DType t) {
  return rows[t].cls == CLASS_I ? INT64_MIN >> (64 - rows[t].bits) : 0;
}

/* One bit less where there is a sign. */
uint64_t dtype_int_max(DType t) {
  if (rows[t].cls == CLASS_B)
    return 1;
  return UINT64_MAX >> (64 - rows[t].bits + (rows[t].cls == CLASS_I));
}

/* The greatest finite value: what saturation gives. */
double dtype_float_max(DType t) {
  switch (t) {
  case DT_F16:
    return 65504;
  case DT_BF16:
    return 0x1.FEp127;
  case DT_F32:
    return 0x1.FFFFFEp127;
  case DT_F64:
    return 0x1.FFFFFFFFFFFFFp1023;
  case DT_F8E4M3:
    return 448;
  case DT_F8E5M2:
    return 57344;
  default:
    return 0;
  }
}

/* ---- narrow floats -----------------------------------------------------------------------------
 */

/* A float type of at most 16 bits: sign, exponent, `mantissa` bits. */
typedef struct Narrow {
  int mantissa;
  int bias;
  uint32_t sign; /* the bit */
  uint32_t last; /* code of the largest finite value */
  uint32_t over; /* code of what is beyond it: infinity, or `last` where the type saturates */
  uint32_t nan;
} Narrow;

static const Narrow f16 = {10, 15, 0x8000, 0x7BFF, 0x7C00, 0x7FFF};
static const Narrow bf16 = {7, 127, 0x8000, 0x7F7F, 0x7F80, 0x7FFF};
static const Narrow f8e4m3 = {3, 7, 0x80, 0x7E, 0x7E, 0x7F};
static const Narrow f8e5m2 = {2, 15, 0x80, 0x7B, 0x7B, 0x7F};

static const Narrow *narrow_of(DType t) {
  return t == DT_F16 ? &f16 : t == DT_BF16 ? &bf16 : t == DT_F8E4M3 ? &f8e4m3 : &f8e5m2;
}

/* Below the least normal number the last place is the same for all. */
double dtype_ulp(DType t, double x) {
  int mantissa = 52, least = -1022, at = x == 0 ? INT_MIN : ilogb(x);
  if (t == DT_F32) {
    mantissa = 23;
    least = -126;
  } else if (t != DT_F64) {
    mantissa = narrow_of(t)->mantissa;
    least = 1 - narrow_of(t)->bias;
  }
  return ldexp(1, (at > least ? at : least) - mantissa);
}

/* Rounds to nearest even. Above the least normal number, adding half of the last place (less one,
 * plus its parity) to the bits of the double does it, carries included. Below, the last place is
 * the same for all, and adding the power of two whose last place it is makes the addition round. */
static inline uint32_t narrow_from_f64(double x, const Narrow *f) {
  uint64_t bits, code;
  memcpy(&bits, &x, sizeof bits);
  uint32_t sign = bits >> 63 ? f->sign : 0;
  bits &= INT64_MAX;
  if (bits > UINT64_C(0x7FF) << 52)
    return f->nan;
  int drop = 52 - f->mantissa, least = 1 - f->bias; /* exponent of the least normal number */
  if (bits >= (uint64_t)(1023 + least) << 52) {
    uint64_t half = (UINT64_C(1) << (drop - 1)) - 1 + (bits >> drop & 1);
    code = ((bits + half) >> drop) - ((uint64_t)(1023 - f->bias) << f->mantissa);
  } else {
    uint64_t magic_bits = (uint64_t)(1023 + least + drop) << 52, sum_bits;
    double magic, sum;
    memcpy(&magic, &magic_bits, sizeof magic);
    memcpy(&x, &bits, sizeof x);
    sum = x + magic;
    memcpy(&sum_bits, &sum, sizeof sum_bits);
    code = sum_bits - magic_bits;
  }
  return sign | (code > f->last ? f->over : (uint32_t)code);
}

uint16_t f64_to_f16(double x) {
  return (uint16_t)narrow_from_f64(x, &f16);
}
uint16_t f64_to_bf16(double x) {
  return (uint16_t)narrow_from_f64(x, &bf16);
}
uint8_t f64_to_f8e4m3(double x) {
  return (uint8_t)narrow_from_f64(x, &f8e4m3);
}
uint8_t f64_to_f8e5m2(double x) {
  return (uint8_t)narrow_from_f64(x, &f8e5m2);
}

/* A float is a double exactly, so these round once too. */
uint16_t f32_to_f16(float x) {
  return (uint16_t)narrow_from_f64((double)x, &f16);
}
uint16_t f32_to_bf16(float x) {
  return (uint16_t)narrow_from_f64((double)x, &bf16);
}
uint8_t f32_to_f8e4m3(float x) {
  return (uint8_t)narrow_from_f64((double)x, &f8e4m3);
}
uint8_t f32_to_f8e5m2(float x) {
  return (uint8_t)narrow_from_f64((double)x, &f8e5m2);
}

/* memcpy is the way to reuse bits that every compiler takes for a move. */
static float from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* The exponent and mantissa moved to their places in a float, times the difference of the biases:
 * exact for subnormal codes too. */
static float widen(uint32_t code, uint32_t sign, int mantissa, float scale) {
  float magnitude = from_bits(code << (23 - mantissa)) * scale;
  return sign ? -magnitude : magnitude;
}

/* Exact; infinity and NaN have an exponent of their own, so the scaling cannot make them. */
float f16_to_f32(uint16_t x) {
  uint32_t code = x & 0x7FFFu, sign = x & 0x8000u;
  if (code > 0x7C00) /* NaN, made quiet, as the hardware does */
    return from_bits(sign << 16 | 0x7FC00000u | code << 13);
  if (code == 0x7C00)
    return from_bits(sign << 16 | 0x7F800000u);
  return widen(code, sign, 10, 0x1p112f);
}

/* A bf16 is the upper half of a float. */
float bf16_to_f32(uint16_t x) {
  return from_bits((uint32_t)x << 16);
}

float f8e4m3_to_f32(uint8_t x) {
  uint32_t code = x & 0x7Fu, sign = x & 0x80u;
  if (code == 0x7F)
    return from_bits(sign << 24 | 0x7FC00000u);
  return widen(code, sign, 3, 0x1p120f);
}

/* An e5m2 is the upper byte of a half. */
float f8e5m2_to_f32(uint8_t x) {
  return f16_to_f32((uint16_t)(x << 8));
}

/* ---- scalars -----------------------------------------------------------------------------------
 */

/* An integer as a double: exact up to 53 bits, above that rounded to odd, so that rounding the
 * result once more to at most 50 bits is the same as rounding the integer once. */
static double int_to_odd(uint64_t magnitude, bool negative) {
  if (magnitude >> 53) {
    int drop = 64 - 53 - __builtin_clzll(magnitude);
    uint64_t lost = magnitude & ((UINT64_C(1) << drop) - 1);
    magnitude = (magnitude >> drop | (lost != 0)) << drop;
  }
  return negative ? -(double)magnitude : (double)magnitude;
}

/* x rounded once to a float type, as a double. */
static double float_on_grid(double x, DType to) {
  switch (to) {
  case DT_F64:
    return x;
  case DT_F32:
    return (double)(float)x;
  case DT_F16:
    return (double)f16_to_f32(f64_to_f16(x));
  case DT_BF16:
    return (double)bf16_to_f32(f64_to_bf16(x));
  case DT_F8E4M3:
    return (double)f8e4m3_to_f32(f64_to_f8e4m3(x));
  default:
    return (double)f8e5m2_to_f32(f64_to_f8e5m2(x));
  }
}

/* To double the processor rounds once; to anything narrower through round-to-odd. */
static Scalar int_to_float(Scalar x, DType to) {
  bool negative = !dtype_is_unsigned(x.type) && x.as.i < 0;
  Scalar y = {.type = to};
  if (to == DT_F64)
    y.as.f = dtype_is_unsigned(x.type) ? (double)x.as.u : (double)x.as.i;
  else
    y.as.f = float_on_grid(int_to_odd(negative ? 0 - x.as.u : x.as.u, negative), to);
  return y;
}

/* Truncates and saturates; NaN gives 0. 2^bits and 2^(bits-1) are exact as doubles. */
static Scalar float_to_int(double x, DType to) {
  Scalar y = {.type = to};
  unsigned value_bits = rows[to].bits - (rows[to].cls == CLASS_I);
  if (isnan(x))
    y.as.i = 0;
  else if (x >= ldexp(1, (int)value_bits))
    y.as.u = dtype_int_max(to);
  else if (rows[to].cls == CLASS_U)
    y.as.u = x <= 0 ? 0 : (uint64_t)x;
  else
    y.as.i = x <= (double)dtype_int_min(to) ? dtype_int_min(to) : (int64_t)x;
  return y;
}

/* Keeps the low bits of u as the type stores them. */
static Scalar int_wrap(uint64_t u, DType to) {
  Scalar y = {.type = to};
  unsigned shift = 64 - rows[to].bits;
  if (rows[to].cls == CLASS_I)
    y.as.i = (int64_t)(u << shift) >> shift;
  else
    y.as.u = u << shift >> shift;
  return y;
}

/* Floats meet floats, integers meet integers, and the two ways across. */
Scalar scalar_convert(Scalar x, DType to) {
  bool from_float = dtype_is_float(x.type);
  Scalar y = {.type = to};
  if (x.type == to)
    return x;
  if (to == DT_BOOL)
    y.as.u = from_float ? x.as.f != 0 : x.as.u != 0;
  else if (dtype_is_float(to) && from_float)
    y.as.f = float_on_grid(x.as.f, to);
  else if (dtype_is_float(to))
    y = int_to_float(x, to);
  else if (from_float)
    y = float_to_int(x.as.f, to);
  else
    y = int_wrap(x.as.u, to);
  return y;
}

/* A stored float as a double, which holds every one exactly. */
static double load_float(DType t, const void *p) {
  uint64_t u = 0;
  memcpy(&u, p, rows[t].size);
  double x;
  switch (t) {
  case DT_F64:
    memcpy(&x, p, sizeof x);
    return x;
  case DT_F32:
    return (double)from_bits((uint32_t)u);
  case DT_F16:
    return (double)f16_to_f32((uint16_t)u);
  case DT_BF16:
    return (double)bf16_to_f32((uint16_t)u);
  case DT_F8E4M3:
    return (double)f8e4m3_to_f32((uint8_t)u);
  default:
    return (double)f8e5m2_to_f32((uint8_t)u);
  }
}

/* Signed types are extended by their sign, the others by zeros. */
Scalar scalar_load(DType t, const void *p) {
  Scalar x = {.type = t};
  uint64_t u = 0;
  if (dtype_is_float(t)) {
    x.as.f = load_float(t, p);
    return x;
  }
  memcpy(&u, p, dtype_size(t)); /* little endian, as every host we run on */
  if (t == DT_BOOL)
    x.as.u = u != 0;
  else
    x = int_wrap(u, t);
  return x;
}

/* The stored bits of a float of at most 32 bits. x is on the grid of t, or is rounded here. */
static uint64_t float_code(DType t, double x) {
  float single = (float)x;
  uint32_t bits;
  switch (t) {
  case DT_F32:
    memcpy(&bits, &single, sizeof bits);
    return bits;
  case DT_F16:
    return f64_to_f16(x);
  case DT_BF16:
    return f64_to_bf16(x);
  case DT_F8E4M3:
    return f64_to_f8e4m3(x);
  default:
    return f64_to_f8e5m2(x);
  }
}

/* Integers are already at their width; floats are rounded to the stored form. */
void scalar_store(Scalar x, void *p) {
  uint64_t u = x.as.u;
  if (dtype_is_float(x.type) && x.type != DT_F64)
    u = float_code(x.type, x.as.f);
  memcpy(p, &u, rows[x.type].size);
}

/* Scalars hold floats as doubles; compute form holds narrow ones as floats on their grid. */
Scalar scalar_load_compute(DType t, const void *cell) {
  if (dtype_compute(t) == t)
    return scalar_load(t, cell);
  float f;
  memcpy(&f, cell, sizeof f);
  return (Scalar){.type = t, .as.f = (double)f};
}

/* A value on its grid is exact as a float. */
void scalar_store_compute(Scalar x, void *cell) {
  if (dtype_compute(x.type) == x.type) {
    scalar_store(x, cell);
    return;
  }
  float f = (float)x.as.f;
  memcpy(cell, &f, sizeof f);
}
