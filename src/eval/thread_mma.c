/* thread_mma.c: mma.sync, and how the operands of a product become numbers.
 *
 * In: registers of a warp as the instruction takes them: rows of 32 bytes of k, which are 8, 16 or
 * 32 elements. Out: D += A B, k ascending, one fused step an element, so that the bits are the tile
 * level's: the tensor cores keep fewer bits of f8 (the manual, Products). tf32 is f32 without its
 * low 13 bits; f64 comes as m8n8k4 and m16n8k4 to k16. Layouts: PTX ISA, matrix fragments for
 * mma.m16n8k8 to m16n8k32, and with .f64 for mma.m8n8k4 and m16n8k4 to m16n8k16. Tests:
 * tests/unit/check_thread.c.
 */
#include <string.h>

#include "thread_device.h"

bool eval_mma_takes(DType t) {
  return t == DT_F16 || t == DT_BF16 || t == DT_F32 || t == DT_F8E4M3 || t == DT_F8E5M2 ||
         t == DT_I8 || t == DT_U8;
}

/* f32 operands are read as tf32; 8-bit integers become i32 in the same cells. */
void eval_mma_unpack(DType t, const void *raw, float *out, size_t n) {
  const int8_t *bytes = raw;
  if (t == DT_I8 || t == DT_U8) {
    for (size_t i = 0; i < n; i++) {
      int32_t v = t == DT_I8 ? bytes[i] : (uint8_t)bytes[i];
      memcpy(out + i, &v, sizeof v);
    }
  } else if (t == DT_F32) {
    for (size_t i = 0; i < n; i++) {
      uint32_t bits;
      memcpy(&bits, (const char *)raw + 4 * i, sizeof bits);
      bits &= 0xFFFFE000u;
      memcpy(out + i, &bits, sizeof bits);
    }
  } else {
    dtype_unpack(t, raw, out, n);
  }
}

void eval_mma_multiply(const EvalBlock *b, DType t, EvalTile *x) {
  x->exact = t != DT_BF16 && t != DT_F32;
  if (t == DT_I8 || t == DT_U8)
    b->kernels->i32(x);
  else
    b->kernels->f32(x);
}

/* Registers of A and B of a shape: those of f64 say by D how many rows, by B how much of k. */
static void shape_of(const EvalOperand *o, int *na, int *nb) {
  bool wide = o[3].type == DT_F64, small = wide && o[0].count == 2;
  *nb = !wide ? 2 : small || o[2].count < 2 ? 1 : o[2].count < 4 ? 2 : 4;
  *na = small ? 1 : 2 * *nb;
}

/* Registers as the instruction wants them, and all written: D is always added to. */
static EvalResult check_mma(EvalAgent *a, const EvalOperand *o) {
  DType t = o[3].type, acc = t == DT_F64 ? DT_F64 : t == DT_I8 || t == DT_U8 ? DT_I32 : DT_F32;
  int wide = t == DT_F64, nd = wide && o[0].count == 2 ? 2 : 4, na, nb;
  size_t size = wide ? 8 : 4;
  shape_of(o, &na, &nb);
  if (!eval_mma_takes(t) && t != DT_U8 && !wide)
    return eval_fault(a, E0490, "there is no product of %s", dtype_name(t));
  if (o[0].count != nd || o[0].type != acc || o[1].count != na || o[2].count != nb ||
      dtype_compute_size(o[1].type) != size || dtype_compute_size(o[2].type) != size)
    return eval_fault(a, E0473, "mma_sync of %s takes %d registers of %s, %d and %d of %d bits",
                      dtype_name(t), nd, dtype_name(acc), na, nb, (int)(8 * size));
  for (int i = 0; i < o[0].count; i++)
    if (!o[0].array->written[o[0].first + i])
      return eval_fault(a, E0451, "the product adds to register %d of %s, which nothing wrote",
                        o[0].first + i, o[0].array->buf->name);
  for (int i = 0; i < 3; i++)
    if (eval_touch(a, o[i].array, o[i].first, o[i].count, i == 0) != EVAL_OK)
      return EVAL_FAULTED;
  return eval_whole_warp(a, "mma_sync");
}

/* A: register j of lane l is row l/4 + 8 (j%2), 4 bytes from 4 (l%4) + 16 (j/2) on; B, by columns:
 * column l/4, 4 bytes from 4 (l%4) + 16 j on. */
static void gather(const EvalOperand *o, uint8_t *a, uint8_t *b) {
  const uint32_t *fa = o[1].out, *fb = o[2].out;
  for (int l = 0; l < EVAL_WARP; l++) {
    int at = 4 * (l % 4);
    for (int j = 0; j < 4; j++)
      memcpy(a + (l / 4 + 8 * (j % 2)) * 32 + at + 16 * (j / 2), &fa[j * EVAL_WARP + l], 4);
    for (int j = 0; j < 2; j++)
      memcpy(b + l / 4 * 32 + at + 16 * j, &fb[j * EVAL_WARP + l], 4);
  }
}

/* D[16][8]: register j of lane l is row l/4 + 8 (j/2), column 2 (l%4) + j%2. */
static void accumulators(float *d, float *c, bool take) {
  for (int l = 0; l < EVAL_WARP; l++)
    for (int j = 0; j < 4; j++) {
      float *cell = &c[(l / 4 + 8 * (j / 2)) * 8 + 2 * (l % 4) + j % 2];
      if (take)
        memcpy(cell, &d[j * EVAL_WARP + l], sizeof *cell);
      else
        memcpy(&d[j * EVAL_WARP + l], cell, sizeof *cell);
    }
}

/* 8 or 16 rows, k of 4 for each register of B. A: register j of lane l is row l/4 + 8 (j%2), k l%4
 * + 4 (j/2); B: column l/4, k l%4 + 4 j; D: row l/4 + 8 (j/2), column 2 (l%4) + j%2. */
static void multiply_f64(EvalAgent *a, const EvalOperand *o) {
  enum { ROWS = 16, DEPTH = 16, COLUMNS = 8 };
  const double *fa = o[1].out, *fb = o[2].out;
  double x[ROWS * DEPTH], y[DEPTH * COLUMNS], c[ROWS * COLUMNS], *d = o[0].out;
  for (int l = 0; l < EVAL_WARP; l++) {
    for (int j = 0; j < o[1].count; j++)
      x[(l / 4 + 8 * (j % 2)) * DEPTH + l % 4 + 4 * (j / 2)] = fa[j * EVAL_WARP + l];
    for (int j = 0; j < o[2].count; j++)
      y[(l % 4 + 4 * j) * COLUMNS + l / 4] = fb[j * EVAL_WARP + l];
    for (int j = 0; j < o[0].count; j++)
      c[(l / 4 + 8 * (j / 2)) * COLUMNS + 2 * (l % 4) + j % 2] = d[j * EVAL_WARP + l];
  }
  EvalTile t = {.m = 4 * o[0].count, .n = COLUMNS, .k = 4 * o[2].count, .a = x, .b = y, .c = c};
  t.ars = DEPTH;
  t.acs = 1;
  t.brs = t.crs = COLUMNS;
  t.accumulate = true;
  a->block->kernels->f64(&t);
  for (int l = 0; l < EVAL_WARP; l++)
    for (int j = 0; j < o[0].count; j++)
      d[j * EVAL_WARP + l] = c[(l / 4 + 8 * (j / 2)) * COLUMNS + 2 * (l % 4) + j % 2];
}

EVAL_ROW(mma_sync) {
  uint8_t raw_a[16 * 32], raw_b[8 * 32];
  float x[16 * 32], columns[8 * 32], y[32 * 8], c[16 * 8];
  (void)n;
  EvalResult r = check_mma(a, o);
  if (r != EVAL_OK)
    return r;
  if (o[3].type == DT_F64) {
    multiply_f64(a, o);
    return EVAL_OK;
  }
  int k = 32 / (int)dtype_size(o[3].type);
  gather(o, raw_a, raw_b);
  eval_mma_unpack(o[3].type, raw_a, x, (size_t)(16 * k));
  eval_mma_unpack(o[3].type, raw_b, columns, (size_t)(8 * k));
  for (int i = 0; i < k; i++)
    for (int j = 0; j < 8; j++)
      memcpy(&y[i * 8 + j], &columns[j * k + i], sizeof *y);
  accumulators(o[0].out, c, true);
  EvalTile t = {.m = 16, .n = 8, .k = k, .a = x, .b = y, .c = c, .ars = k, .acs = 1, .brs = 8};
  t.crs = 8;
  t.accumulate = true;
  eval_mma_multiply(a->block, o[3].type, &t);
  accumulators(o[0].out, c, false);
  return EVAL_OK;
}
