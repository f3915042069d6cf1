/* dtype_simd.h: eight numbers at a time, for dtype_array.c; private to src/base.
 *
 * Each function does as many elements as fill whole vectors and returns how many those were; the
 * rest is the caller's. Same bits as the scalar conversions, NaN included. Call them only where
 * dtype_simd_here() is true.
 */
#ifndef TILESH_BASE_DTYPE_SIMD_H
#define TILESH_BASE_DTYPE_SIMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dtype.h"

/* Whether this machine has the instructions. */
bool dtype_simd_here(void);
/* n stored numbers of a narrow float type to floats, and back. */
size_t dtype_simd_unpack(DType t, const void *src, float *dst, size_t n);
size_t dtype_simd_pack(DType t, const float *src, void *dst, size_t n);

#endif
