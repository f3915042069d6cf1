/* thread_access.c: vector accesses of threads, cp.async, matrix fragments of a warp.
 *
 * In: addresses by lane. Out: registers, or bytes. Always holds: an address outside its tensor or
 * shared memory, or misaligned, is a fault and touches nothing. Layouts: PTX ISA, ldmatrix,
 * stmatrix, mma.m16n8k16. Tests: tests/unit/check_thread.c.
 */
#include <string.h>

#include "thread_device.h"

enum { WIDEST = 64 }; /* bytes of a slice */

/* ---------------------------------------------------------------- registers to bytes */

/* As they lie in memory: narrow floats take their own width there. */
static int slice_bytes(const EvalOperand *r) {
  return r->count * (int)dtype_size(r->type);
}

/* One access moves a power of two of bytes, at most 16, like ld.v4. */
static EvalResult check_slice(EvalAgent *a, const EvalOperand *r, bool write) {
  int bytes = slice_bytes(r);
  if ((bytes & (bytes - 1)) || bytes > 16)
    return eval_fault(a, E0462, "a vector access of %d bytes: 1, 2, 4, 8 or 16", bytes);
  return eval_touch(a, r->array, r->first, r->count, write);
}

/* The slice of one lane, as it is stored. */
static void lane_to_bytes(const EvalOperand *r, int lane, char *out) {
  size_t size = dtype_compute_size(r->type), stored = dtype_size(r->type);
  for (int i = 0; i < r->count; i++)
    dtype_pack(r->type, (const char *)r->out + (size_t)(i * EVAL_WARP + lane) * size,
               out + (size_t)i * stored, 1);
}

/* The way back. */
static void bytes_to_lane(const EvalOperand *r, int lane, const char *in) {
  size_t size = dtype_compute_size(r->type), stored = dtype_size(r->type);
  for (int i = 0; i < r->count; i++)
    dtype_unpack(r->type, in + (size_t)i * stored,
                 (char *)r->out + (size_t)(i * EVAL_WARP + lane) * size, 1);
}

/* ---------------------------------------------------------------- shared and global */

/* Lanes that do not take part give no address. */
static EvalResult shared_offsets(EvalAgent *a, const EvalOperand *o, int64_t *offset) {
  for (int i = 0; i < EVAL_WARP; i++)
    offset[i] = eval_lane_on(a, i) ? eval_operand_int(o, i) : 0;
  return EVAL_OK;
}

/* Order: registers free, places and shadow, then the bytes. */
EVAL_ROW(ld_shared) {
  int64_t at[EVAL_WARP];
  (void)n;
  EvalResult r = check_slice(a, &o[0], true);
  shared_offsets(a, &o[1], at);
  if (r == EVAL_OK)
    r = eval_device_shared(a, at, slice_bytes(&o[0]), false);
  for (int i = 0; r == EVAL_OK && i < EVAL_WARP; i++)
    if (eval_lane_on(a, i))
      bytes_to_lane(&o[0], i, (const char *)a->block->shared + at[i]);
  return r;
}

/* The same, the other way. */
EVAL_ROW(st_shared) {
  int64_t at[EVAL_WARP];
  (void)n;
  EvalResult r = check_slice(a, &o[1], false);
  shared_offsets(a, &o[0], at);
  if (r == EVAL_OK)
    r = eval_device_shared(a, at, slice_bytes(&o[1]), true);
  for (int i = 0; r == EVAL_OK && i < EVAL_WARP; i++)
    if (eval_lane_on(a, i))
      lane_to_bytes(&o[1], i, (char *)a->block->shared + at[i]);
  return r;
}

/* The address of each active lane's element, `bytes` from it on inside the tensor and aligned. */
static EvalResult global_place(EvalAgent *a, const EvalOperand *g, int bytes, char **at) {
  const EvalMem *m = g->mem;
  int64_t element[EVAL_WARP] = {0}, n = bytes / (int64_t)m->size;
  for (int i = 0; i < EVAL_WARP; i++) {
    if (!eval_lane_on(a, i))
      continue;
    int64_t e = eval_operand_int(g, i);
    element[i] = e;
    if (bytes % (int)m->size || !eval_global_inside(m, e, n))
      return eval_fault(a, E0450,
                        "%d bytes from element %lld on of the memory of %s are not inside "
                        "it",
                        bytes, (long long)e, m->buf->name);
    at[i] = (char *)m->data + e * (int64_t)m->size;
    if ((uintptr_t)at[i] % (uintptr_t)bytes)
      return eval_fault(a, E0462, "element %lld of %s is not at a multiple of %d bytes",
                        (long long)e, m->buf->name, bytes);
  }
  return eval_device_global(a, m, element, false);
}

/* Outputs of this launch only: inputs have no map. */
static EvalResult check_written(EvalAgent *a, const EvalMem *m, int64_t e, int64_t n) {
  for (int64_t i = 0; m->map && i < n; i++)
    if (!eval_global_written(m, e + i))
      return eval_fault(a, E0451,
                        "element %lld of the memory of %s is read before anything wrote it",
                        (long long)(e + i), m->buf->name);
  return EVAL_OK;
}

/* Bounds are the tensor's memory; an access past it never happens, on no device. */
EVAL_ROW(ld_global) {
  char *at[EVAL_WARP];
  (void)n;
  EvalResult r = check_slice(a, &o[0], true);
  int bytes = slice_bytes(&o[0]);
  if (r == EVAL_OK)
    r = global_place(a, &o[1], bytes, at);
  for (int i = 0; r == EVAL_OK && i < EVAL_WARP; i++) {
    if (!eval_lane_on(a, i))
      continue;
    r = check_written(a, o[1].mem, eval_operand_int(&o[1], i), bytes / (int64_t)o[1].mem->size);
    if (r == EVAL_OK)
      bytes_to_lane(&o[0], i, at[i]);
  }
  return r;
}

/* Marks what it writes, so that reads and `check` know. */
EVAL_ROW(st_global) {
  char *at[EVAL_WARP];
  (void)n;
  EvalResult r = check_slice(a, &o[1], false);
  int bytes = slice_bytes(&o[1]);
  if (r == EVAL_OK)
    r = global_place(a, &o[0], bytes, at);
  for (int i = 0; r == EVAL_OK && i < EVAL_WARP; i++) {
    if (!eval_lane_on(a, i))
      continue;
    lane_to_bytes(&o[1], i, at[i]);
    eval_mark_global(o[0].mem, eval_operand_int(&o[0], i), bytes / (int64_t)o[0].mem->size, false);
  }
  return r;
}

/* ---------------------------------------------------------------- cp.async */

/* The bytes arrive now, but stand under a time of COMP_CP that a warp knows only once it waited. */
static EvalResult copy_lane(EvalAgent *a, int lane, int64_t to, const EvalOperand *g, int64_t bytes,
                            int64_t valid) {
  DevBlock *d = dev_block(a);
  DevWarp *w = dev_warp(a);
  const EvalMem *m = g->mem;
  int64_t e = eval_operand_int(g, lane), size = (int64_t)m->size;
  valid = valid < 0 ? 0 : valid > bytes ? bytes : valid;
  if (valid && (valid % size || !eval_global_inside(m, e, valid / size)))
    return eval_fault(a, E0450,
                      "%lld bytes from element %lld on of the memory of %s are not inside "
                      "it",
                      (long long)valid, (long long)e, m->buf->name);
  if (valid && (uintptr_t)((char *)m->data + e * size) % (uintptr_t)bytes)
    return eval_fault(a, E0462, "element %lld of %s is not at a multiple of %lld bytes",
                      (long long)e, m->buf->name, (long long)bytes);
  EvalResult r = eval_shared_place(a, to, bytes, bytes);
  if (r == EVAL_OK && d->check)
    r = eval_shadow_write(a, lane, to, (int)bytes);
  if (r != EVAL_OK)
    return r;
  if (d->check)
    eval_shadow_restamp(a, to, (int)bytes, stamp(COMP_CP + a->id, w->cp_time));
  memset(a->block->shared + to, 0, (size_t)bytes);
  if (valid)
    memcpy(a->block->shared + to, (const char *)m->data + e * size, (size_t)valid);
  return EVAL_OK;
}

/* One copy a lane; they share a time, since a warp issues them together. */
EVAL_ROW(cp_async) {
  int64_t bytes = o[2].imm;
  (void)n;
  if (bytes != 4 && bytes != 8 && bytes != 16)
    return eval_fault(a, E0462, "cp_async of %lld bytes: 4, 8 or 16", (long long)bytes);
  dev_warp(a)->cp_time++;
  for (int i = 0; i < EVAL_WARP; i++)
    if (eval_lane_on(a, i) && copy_lane(a, i, eval_operand_int(&o[0], i), &o[1], bytes,
                                        eval_operand_int(&o[3], i)) != EVAL_OK)
      return EVAL_FAULTED;
  return EVAL_OK;
}

/* Where the lane's group ends, in the warp's time. */
EVAL_ROW(cp_async_commit) {
  DevWarp *w = dev_warp(a);
  (void)o, (void)n;
  for (int i = 0; i < EVAL_WARP; i++)
    if (eval_lane_on(a, i))
      w->cp_end[i][++w->cp_group[i] % 16] = w->cp_time;
  return EVAL_OK;
}

/* What every lane has waited for is known to the warp. */
EVAL_ROW(cp_async_wait) {
  DevWarp *w = dev_warp(a);
  uint32_t keep = (uint32_t)o[0].imm, sure = w->cp_time;
  (void)n;
  if (o[0].imm < 0 || o[0].imm > 15)
    return eval_fault(a, E0462, "cp_async_wait %lld: at most 15 groups stay", (long long)o[0].imm);
  for (int i = 0; i < EVAL_WARP; i++) {
    if (!eval_lane_on(a, i))
      continue;
    uint32_t g = w->cp_group[i];
    uint32_t end = g > keep ? w->cp_end[i][(g - keep) % 16] : 0;
    sure = end < sure ? end : sure;
  }
  clock_learn(&w->clock, stamp(COMP_CP + a->id, sure));
  return EVAL_OK;
}

/* ---------------------------------------------------------------- matrix fragments */

/* The row addresses of the matrices, 8 lanes each. */
static EvalResult matrix_rows(EvalAgent *a, const EvalOperand *s, const EvalOperand *regs,
                              bool write, int64_t *at) {
  int n = regs->count;
  if ((n != 1 && n != 2 && n != 4) || dtype_compute_size(regs->type) != 4 ||
      dtype_size(regs->type) != 4)
    return eval_fault(a, E0462, "%d registers of %s: 1, 2 or 4 of 32 bits", n,
                      dtype_name(regs->type));
  EvalResult r = eval_whole_warp(a, "a matrix fragment");
  for (int i = 0; i < EVAL_WARP; i++)
    at[i] = eval_operand_int(s, i);
  for (int i = 0; r == EVAL_OK && i < 8 * n; i++) {
    r = eval_shared_place(a, at[i], 16, 16);
    if (r == EVAL_OK && dev_block(a)->check)
      r = write ? eval_shadow_write(a, i, at[i], 16) : eval_shadow_read(a, i, at[i], 16);
  }
  if (r == EVAL_OK && dev_block(a)->counting) {
    for (int i = 8 * n; i < EVAL_WARP; i++)
      at[i] = at[0]; /* these lanes give no address */
    eval_count_banks(a, at, 16);
  }
  return r == EVAL_OK ? eval_touch(a, regs->array, regs->first, n, !write) : r;
}

/* Lane l holds of each matrix row l/4, elements 2 (l%4) and the next; transposed: column l/4. */
static void fragment_place(int lane, bool trans, int e, int *row, int *col) {
  *row = trans ? 2 * (lane % 4) + e : lane / 4;
  *col = trans ? lane / 4 : 2 * (lane % 4) + e;
}

/* Two elements of a row make a register; transposed they come from two rows. */
static EvalResult load_matrix(EvalAgent *a, const EvalOperand *o, bool trans) {
  int64_t at[EVAL_WARP];
  EvalResult r = matrix_rows(a, &o[1], &o[0], false, at);
  for (int q = 0; r == EVAL_OK && q < o[0].count; q++)
    for (int l = 0; l < EVAL_WARP; l++)
      for (int e = 0; e < 2; e++) {
        int row, col;
        fragment_place(l, trans, e, &row, &col);
        memcpy((char *)o[0].out + (size_t)(q * EVAL_WARP + l) * 4 + (size_t)e * 2,
               a->block->shared + at[8 * q + row] + 2 * col, 2);
      }
  return r;
}

/* The inverse of load_matrix, lane by lane. */
static EvalResult store_matrix(EvalAgent *a, const EvalOperand *o, bool trans) {
  int64_t at[EVAL_WARP];
  EvalResult r = matrix_rows(a, &o[0], &o[1], true, at);
  for (int q = 0; r == EVAL_OK && q < o[1].count; q++)
    for (int l = 0; l < EVAL_WARP; l++)
      for (int e = 0; e < 2; e++) {
        int row, col;
        fragment_place(l, trans, e, &row, &col);
        memcpy(a->block->shared + at[8 * q + row] + 2 * col,
               (const char *)o[1].out + (size_t)(q * EVAL_WARP + l) * 4 + (size_t)e * 2, 2);
      }
  return r;
}

EVAL_ROW(ldmatrix) {
  return (void)n, load_matrix(a, o, false);
}
EVAL_ROW(ldmatrix_t) {
  return (void)n, load_matrix(a, o, true);
}
EVAL_ROW(stmatrix) {
  return (void)n, store_matrix(a, o, false);
}
EVAL_ROW(stmatrix_t) {
  return (void)n, store_matrix(a, o, true);
}
