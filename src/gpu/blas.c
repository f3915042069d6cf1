/* blas.c: cuBLASLt as a peer to measure against; nothing that a kernel computes comes from it.
 *
 * Goes in: a product of device matrices by dtype, extents and strides. Comes out: a plan that
 * queues the library's own choice of algorithm on the main stream. The library is opened at run
 * time. It is column-major, so C = A B in rows is asked for as C' = B' A'. The numbers below are of
 * its public headers (cublasLt.h, cublas_api.h, library_types.h of CUDA 12 and 13). Tests:
 * tests/unit/check_gpu_device.c (with a GPU and the library).
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

enum { OP_N = 0, OP_T = 1, COMPUTE_32F = 68, COMPUTE_64F = 70, COMPUTE_32I = 72 };
enum { DESC_TRANSA = 3, DESC_TRANSB = 4, LAYOUT_BATCH = 5, LAYOUT_BATCH_STRIDE = 6 };
enum { PREF_WORKSPACE = 1 };
enum { WORKSPACE = 64 << 20 }; /* bytes; what the library asks for on Hopper is half of it */

typedef struct Heuristic { /* cublasLtMatmulHeuristicResult_t */
  uint64_t algo[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} Heuristic;

typedef struct Blas { /* the functions used, and the library's handle for the current context */
  void *handle;
  int (*create)(void **);
  int (*destroy)(void *);
  int (*desc_new)(void **, int, int);
  int (*desc_free)(void *);
  int (*desc_set)(void *, int, const void *, size_t);
  int (*layout_new)(void **, int, uint64_t, uint64_t, int64_t);
  int (*layout_free)(void *);
  int (*layout_set)(void *, int, const void *, size_t);
  int (*pref_new)(void **);
  int (*pref_free)(void *);
  int (*pref_set)(void *, int, const void *, size_t);
  int (*choose)(void *, void *, void *, void *, void *, void *, void *, int, Heuristic *, int *);
  int (*run)(void *, void *, const void *, const void *, void *, const void *, void *, const void *,
             const void *, void *, void *, void *, const void *, void *, size_t, CUstream);
} Blas;

struct GpuMatmul {
  Gpu *g;
  Blas f;
  void *desc, *layout[3], *pref; /* layouts of the library's A, B, C */
  GpuPtr at[3];
  GpuPtr workspace;
  Heuristic best;
  double one[2], zero[2]; /* of the scale type */
};

/* All or none. */
static bool resolve(GpuLib *lib, Blas *f) {
  const struct {
    const char *name;
    void *fn;
  } want[] = {
      {"cublasLtCreate", &f->create},
      {"cublasLtDestroy", &f->destroy},
      {"cublasLtMatmulDescCreate", &f->desc_new},
      {"cublasLtMatmulDescDestroy", &f->desc_free},
      {"cublasLtMatmulDescSetAttribute", &f->desc_set},
      {"cublasLtMatrixLayoutCreate", &f->layout_new},
      {"cublasLtMatrixLayoutDestroy", &f->layout_free},
      {"cublasLtMatrixLayoutSetAttribute", &f->layout_set},
      {"cublasLtMatmulPreferenceCreate", &f->pref_new},
      {"cublasLtMatmulPreferenceDestroy", &f->pref_free},
      {"cublasLtMatmulPreferenceSetAttribute", &f->pref_set},
      {"cublasLtMatmulAlgoGetHeuristic", &f->choose},
      {"cublasLtMatmul", &f->run},
  };
  for (size_t i = 0; i < sizeof want / sizeof *want; i++)
    if (!gpu_lib_symbol(lib, want[i].name, want[i].fn))
      return false;
  return true;
}

/* The library's number of a dtype, or -1. */
static int type_of(DType t) {
  switch (t) {
  case DT_F16:
    return 2;
  case DT_BF16:
    return 14;
  case DT_F32:
    return 0;
  case DT_F64:
    return 1;
  case DT_I8:
    return 3;
  case DT_I32:
    return 10;
  case DT_F8E4M3:
    return 28;
  case DT_F8E5M2:
    return 29;
  default:
    return -1;
  }
}

/* A matrix in rows is its transpose in columns: leading stride and whether the library must
 * transpose it back. False where neither axis is contiguous. */
static bool leading(const int64_t extent[2], const int64_t stride[2], int64_t *ld, bool *rows) {
  *rows = stride[1] == 1 || extent[1] <= 1;
  bool columns = stride[0] == 1 || extent[0] <= 1;
  *ld = *rows ? stride[0] : stride[1];
  int64_t least = *rows ? extent[1] : extent[0];
  if (*ld < least)
    *ld = least; /* of a single row the stride means nothing */
  return *rows || columns;
}

/* The layout of one operand as the library sees it. */
static bool add_layout(GpuMatmul *p, int slot, const GpuMatrix *m, DType t, int64_t batch,
                       bool *rows) {
  int64_t ld;
  if (!leading(m->extent, m->stride, &ld, rows) || type_of(t) < 0)
    return false;
  uint64_t r = (uint64_t)(*rows ? m->extent[1] : m->extent[0]);
  uint64_t c = (uint64_t)(*rows ? m->extent[0] : m->extent[1]);
  int32_t count = (int32_t)batch;
  p->at[slot] = m->at;
  return p->f.layout_new(&p->layout[slot], type_of(t), r, c, ld) == 0 &&
         (batch == 1 ||
          (p->f.layout_set(p->layout[slot], LAYOUT_BATCH, &count, sizeof count) == 0 &&
           p->f.layout_set(p->layout[slot], LAYOUT_BATCH_STRIDE, &m->batch, sizeof m->batch) == 0));
}

/* 1 and 0 in the type that the accumulator is scaled in. */
static void set_scales(GpuMatmul *p, DType t) {
  float one = 1;
  int32_t count = 1;
  if (t == DT_F64)
    p->one[0] = 1;
  else if (t == DT_I8)
    memcpy(p->one, &count, sizeof count);
  else
    memcpy(p->one, &one, sizeof one);
}

/* Operands swapped: the library's A is our B. */
static bool describe(GpuMatmul *p, const GpuProduct *q) {
  bool rows_a, rows_b, rows_c;
  int compute = q->dtype == DT_F64 ? COMPUTE_64F : q->dtype == DT_I8 ? COMPUTE_32I : COMPUTE_32F;
  int scale = type_of(q->dtype == DT_F64 ? DT_F64 : q->dtype == DT_I8 ? DT_I32 : DT_F32);
  size_t workspace = WORKSPACE;
  if (!add_layout(p, 0, &q->b, q->dtype, q->batch, &rows_b) ||
      !add_layout(p, 1, &q->a, q->dtype, q->batch, &rows_a) ||
      !add_layout(p, 2, &q->c, q->result, q->batch, &rows_c) || !rows_c)
    return false;
  int32_t op_a = rows_b ? OP_N : OP_T, op_b = rows_a ? OP_N : OP_T;
  set_scales(p, q->dtype);
  return p->f.desc_new(&p->desc, compute, scale) == 0 &&
         p->f.desc_set(p->desc, DESC_TRANSA, &op_a, sizeof op_a) == 0 &&
         p->f.desc_set(p->desc, DESC_TRANSB, &op_b, sizeof op_b) == 0 &&
         p->f.pref_new(&p->pref) == 0 &&
         p->f.pref_set(p->pref, PREF_WORKSPACE, &workspace, sizeof workspace) == 0;
}

/* The first that the library offers is the one it thinks fastest. */
static bool choose(GpuMatmul *p) {
  int found = 0;
  return p->f.choose(p->f.handle, p->desc, p->layout[0], p->layout[1], p->layout[2], p->layout[2],
                     p->pref, 1, &p->best, &found) == 0 &&
         found == 1 && p->best.state == 0;
}

Status gpu_matmul_new(Gpu *g, const GpuProduct *q, GpuMatmul **out) {
  static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so",
                                      NULL};
  GpuLib lib = {0};
  *out = NULL;
  if (!gpu_alive(g))
    return ST_DEVICE;
  if (!gpu_lib_open(g->rt, &lib, names))
    return gpu_refuse(g, ST_DEVICE, "%s", lib.error);
  GpuMatmul *p = calloc(1, sizeof *p);
  if (!p)
    return gpu_refuse(g, ST_NOMEM, "out of memory");
  p->g = g;
  Status st = ST_OK;
  if (!resolve(&lib, &p->f))
    st = gpu_refuse(g, ST_DEVICE, "%s", lib.error);
  else if (p->f.create(&p->f.handle) != 0)
    st = gpu_refuse(g, ST_DEVICE, "cuBLASLt does not start on this device");
  else if (!describe(p, q) || !choose(p))
    st = gpu_refuse(g, ST_DEVICE, "cuBLASLt has no product of these types and strides");
  else
    st = gpu_alloc(g, WORKSPACE, "the workspace of cuBLASLt", &p->workspace);
  if (st != ST_OK) {
    gpu_matmul_free(p);
    return st;
  }
  *out = p;
  return ST_OK;
}

Status gpu_matmul_run(GpuMatmul *p) {
  const void *a = (const void *)(uintptr_t)p->at[0], *b = (const void *)(uintptr_t)p->at[1];
  void *c = (void *)(uintptr_t)p->at[2];
  int r = p->f.run(p->f.handle, p->desc, p->one, a, p->layout[0], b, p->layout[1], p->zero, c,
                   p->layout[2], c, p->layout[2], p->best.algo, (void *)(uintptr_t)p->workspace,
                   WORKSPACE, p->g->main);
  return r == 0 ? ST_OK : gpu_refuse(p->g, ST_DEVICE, "cublasLtMatmul gives status %d", r);
}

void gpu_matmul_free(GpuMatmul *p) {
  if (!p)
    return;
  for (int i = 0; i < 3; i++)
    if (p->layout[i])
      p->f.layout_free(p->layout[i]);
  if (p->desc)
    p->f.desc_free(p->desc);
  if (p->pref)
    p->f.pref_free(p->pref);
  if (p->f.handle)
    p->f.destroy(p->f.handle);
  (void)gpu_free(p->g, p->workspace, WORKSPACE);
  free(p);
}
