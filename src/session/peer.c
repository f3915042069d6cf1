/* peer.c: `bench --vs cublas`: the same product by cuBLASLt, timed on the same data in the same
 * run.
 *
 * In: a launch that was just timed on a device. Out: the peer's time, where the launch is a plain
 * product of two matrices (or a batch of them) into a third, which is found out by comparing the
 * results: names and code of the kernel do not matter. Tests: tests/cli/run, and
 * scripts/gpu-check on a GPU.
 */
#include "device.h"

/* The launch's tensors: two inputs and one output, in that order; NULL where there are others. */
static bool operands(const Launch *l, Tensor *t[3]) {
  size_t n = 0;
  for (size_t i = 0; i < l->n; i++)
    if (l->tensor[i]) {
      const IrBuffer *b = l->ir->params.v[i].buf;
      if (n == 3 || b->role != (n == 2 ? IRR_OUT : IRR_IN))
        return false;
      t[n++] = l->tensor[i];
    }
  return n == 3;
}

/* One matrix, or the first of a batch; rank 2 or 3. */
static GpuMatrix matrix(const Tensor *t) {
  int r = t->rank;
  return (GpuMatrix){.at = device_address(t),
                     .extent = {t->extent[r - 2], t->extent[r - 1]},
                     .stride = {t->stride[r - 2], t->stride[r - 1]},
                     .batch = r == 3 ? t->stride[0] : 0};
}

/* Ranks and extents of a product. */
static bool fits(Tensor *const t[3]) {
  int r = t[0]->rank;
  return (r == 2 || r == 3) && t[1]->rank == r && t[2]->rank == r && t[0]->dtype == t[1]->dtype &&
         t[0]->extent[r - 1] == t[1]->extent[r - 2] && t[2]->extent[r - 2] == t[0]->extent[r - 2] &&
         t[2]->extent[r - 1] == t[1]->extent[r - 1] &&
         (r == 2 || (t[0]->extent[0] == t[1]->extent[0] && t[0]->extent[0] == t[2]->extent[0]));
}

static Status run(void *plan) {
  return gpu_matmul_run(plan);
}

/* The peer's result, of the shape and dtype of ours. */
static Tensor *result_like(Launch *l, const Tensor *t) {
  Str why = session_str(l->s);
  Tensor *out = tensor_new(t->dtype, t->rank, t->extent, TENSOR_ZERO, &why);
  return host_new_tensor(l->s, out, &why, l->span).as.tensor;
}

/* Two right products of this dtype, in proportion to the greatest element: each adds in its own
 * order. A wrong operand, layout or extent is off by far more. */
static double loose_bound(DType t) {
  switch (t) {
  case DT_F64:
    return 4e-12;
  case DT_F32:
    return 8e-6;
  case DT_F16:
    return 8e-3;
  case DT_BF16:
    return 6e-2;
  default:
    return dtype_is_float(t) ? 0.5 : 0;
  }
}

static double greatest(const Tensor *t) {
  TensorDiff d;
  Tensor *zero = tensor_new(t->dtype, 0, NULL, TENSOR_ZERO, NULL);
  double most = zero && tensor_maxdiff(t, zero, NULL, &d, NULL) ? d.max_abs : 0;
  tensor_release(zero);
  return most;
}

/* Whether the peer computes the same. */
static bool agree(Launch *l, Tensor *mine, Tensor *theirs) {
  TensorDiff d;
  Str why = session_str(l->s);
  return device_settle(l->s, mine, &why) && tensor_to_host(theirs, &why) &&
         tensor_maxdiff(mine, theirs, NULL, &d, &why) &&
         d.max_abs <= loose_bound(mine->dtype) * greatest(mine);
}

/* Runs the plan once and compares, then times it. */
static bool measure(Launch *l, GpuMatmul *plan, Tensor *mine, Tensor *theirs,
                    const GpuTimeOptions *o, GpuTiming *out, Str *why) {
  Gpu *g = l->s->gpu->gpu;
  if (gpu_matmul_run(plan) != ST_OK || gpu_sync(g) != ST_OK) {
    str_add(why, gpu_why(g));
    return false;
  }
  storage_device_wrote(theirs->storage);
  if (!agree(l, mine, theirs)) {
    str_addf(why, "%s is not the product of its inputs", l->name);
    return false;
  }
  if (gpu_time(g, o, run, plan, out) == ST_OK)
    return true;
  str_add(why, gpu_why(g));
  return false;
}

bool device_peer(Launch *l, const GpuTimeOptions *o, GpuTiming *out, Str *why) {
  Tensor *t[3];
  Gpu *g = l->s->gpu->gpu;
  GpuMatmul *plan;
  if (!operands(l, t) || !fits(t)) {
    str_addf(why, "%s is no product of two matrices or batches of them", l->name);
    return false;
  }
  Tensor *theirs = result_like(l, t[2]);
  (void)device_buffer(l, theirs->storage, "the peer's result", l->span);
  GpuProduct q = {.dtype = t[0]->dtype,
                  .result = t[2]->dtype,
                  .batch = t[0]->rank == 3 ? t[0]->extent[0] : 1,
                  .a = matrix(t[0]),
                  .b = matrix(t[1]),
                  .c = matrix(theirs)};
  if (gpu_matmul_new(g, &q, &plan) != ST_OK) {
    str_add(why, gpu_why(g));
    return false;
  }
  bool ok = measure(l, plan, t[2], theirs, o, out, why);
  gpu_matmul_free(plan);
  return ok;
}
