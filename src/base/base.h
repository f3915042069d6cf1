/* base.h: what every other folder stands on.
 *
 * Arenas, strings, vectors, hash maps, interned names, source files and spans, diagnostics, dtypes
 * with exact number conversion, the thread pool, and the one way to leave deep code early (Guard).
 * This is the umbrella; nothing outside src/base includes the parts one by one.
 */
#ifndef TILESH_BASE_H
#define TILESH_BASE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "clock.h"
#include "diag.h"
#include "dtype.h"
#include "io.h"
#include "pool.h"
#include "src.h"
#include "str.h"
#include "vec.h"

/* The lesser and the greater of two numbers. */
static inline int64_t base_least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
static inline int64_t base_most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* Their users forget lengths and errors. */
#pragma GCC poison sprintf vsprintf strcpy strcat strtok atoi atol atof

#endif
