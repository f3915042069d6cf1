/* roofline.c: what a device could do at best, to hold a measured time against.
 *
 * In: a launch, its time, operations and bytes. Out: the share of the roofline that was reached:
 * the time that its operations or its bytes alone would take, whichever is longer, over the time
 * taken. Bytes: a large copy on this device, measured once a session. Operations: the device's
 * dense rate for the kernel's first product (by tensor cores where its types have them), or for
 * what it computes without one, at its highest clock (CUDA programming guide, arithmetic
 * throughput; vendors' data sheets for the tensor cores), since no card holds that clock under full
 * load. Tests: tests/unit/check_session.c (rates), scripts/gpu-check.
 */
#include "device.h"

/* Dense 16-bit tensor-core operations a clock and multiprocessor. */
static double tensor16(const GpuProps *p) {
  if (p->major >= 9)
    return 4096;
  return p->minor == 9 ? 1024 : 2048;
}

/* The same on the plain cores: a fused multiply-add is two. Narrow floats are f32 there. */
static double plain(const GpuProps *p, DType t) {
  bool first = p->major == 8 && p->minor == 0;
  if (t == DT_F64) /* a data-centre card, or another */
    return p->minor == 0 ? first ? 64 : 128 : 4;
  return first ? 128 : 256;
}

/* A product by tensor cores, of operands of that many bytes; f8 is multiplied as f16 where there is
 * no instruction for it, and f64 at twice the plain rate. */
static double tensor(const GpuProps *p, const LowerProduct *x) {
  bool f8 = x->size == 1 && dtype_is_float(x->type);
  bool narrow = x->size == 1 && !(f8 && p->major == 8 && p->minor < 9);
  if (x->type == DT_F64)
    return plain(p, DT_F64) * (p->minor == 0 ? 2 : 1);
  return tensor16(p) * (narrow ? 2 : 1) / (x->size == 4 ? 2 : 1);
}

/* The dtype of a kernel without products. */
static DType first_dtype(const Launch *l) {
  for (size_t i = 0; i < l->n; i++)
    if (l->tensor[i])
      return l->tensor[i]->dtype;
  return DT_F32;
}

/* Of f32 only what asks for tf32, of f64 only what adds up in it, has tensor cores. */
double device_rate(const GpuProps *p, const LowerProduct *x) {
  bool wide = x->type == DT_F64 && x->result == DT_F64;
  return x->size || wide ? tensor(p, x) : plain(p, x->result);
}

static double peak_flops(const GpuProps *p, const Launch *l) {
  LowerProduct x;
  double rate = lower_product(l->ir, &x) ? device_rate(p, &x) : plain(p, first_dtype(l));
  return rate * p->sms * p->clock_khz * 1e3;
}

typedef struct Copy {
  Gpu *g;
  GpuPtr from, to;
  size_t n;
} Copy;

static Status copy_once(void *ctx) {
  const Copy *c = ctx;
  return gpu_copy(c->g, c->to, c->from, c->n);
}

/* A few times what L2 holds, read and written; 0 where there is no room for it. */
static double measure_bytes(Gpu *g) {
  Copy c = {.g = g, .n = (size_t)512 << 20};
  GpuTiming t = {0};
  GpuTimeOptions o = {.bursts = 3, .launches = 4};
  Status st = gpu_alloc(g, c.n, "a copy that is timed", &c.from);
  if (st == ST_OK)
    st = gpu_alloc(g, c.n, "a copy that is timed", &c.to);
  if (st == ST_OK)
    st = gpu_fill(g, c.from, 4, 0x3c003c01, c.n / 4);
  if (st == ST_OK)
    st = gpu_time(g, &o, copy_once, &c, &t);
  (void)gpu_free(g, c.from, c.n);
  (void)gpu_free(g, c.to, c.n);
  return st == ST_OK && t.min_ms > 0 ? 2 * (double)c.n / (t.min_ms * 1e-3) : 0;
}

double device_roofline(Launch *l, double ms, double flops, double bytes) {
  SessionGpu *g = l->s->gpu;
  const GpuProps *p = gpu_props(g->gpu);
  if (g->bytes_per_s == 0)
    g->bytes_per_s = measure_bytes(g->gpu);
  if (ms <= 0 || g->bytes_per_s <= 0)
    return 0;
  double compute = flops / peak_flops(p, l), memory = bytes / g->bytes_per_s;
  return 1e3 * (compute > memory ? compute : memory) / ms;
}
