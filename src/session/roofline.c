/* roofline.c: what a device could do at best, to hold a measured time against.
 *
 * In: a launch, its time, operations and bytes. Out: the share of the roofline that was reached:
 * the time that its operations or its bytes alone would take, whichever is longer, over the time
 * taken. Bytes: a large copy on this device, measured once a session. Operations: the device's
 * dense rate for the dtype at its highest clock (CUDA programming guide, arithmetic throughput;
 * vendors' data sheets for the tensor cores), since no card holds that clock under full load.
 * Tests: scripts/gpu-check.
 */
#include "device.h"

/* Dense 16-bit tensor-core operations a clock and multiprocessor. */
static double tensor16(const GpuProps *p) {
  if (p->major >= 9)
    return 4096;
  return p->minor == 9 ? 1024 : 2048;
}

/* The same of f32 on the plain cores: a fused multiply-add is two. */
static double plain32(const GpuProps *p) {
  return p->major == 8 && p->minor == 0 ? 128 : 256;
}

static double peak_flops(const GpuProps *p, DType t) {
  double clock = p->sms * p->clock_khz * 1e3;
  if (t == DT_F32)
    return plain32(p) * clock;
  if (t == DT_F64)
    return (p->minor == 0 ? 128 : 4) * clock; /* a data-centre card, or another */
  return tensor16(p) * (dtype_bits(t) == 8 ? 2 : 1) * clock;
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
  (void)gpu_free(g, c.from);
  (void)gpu_free(g, c.to);
  return st == ST_OK && t.min_ms > 0 ? 2 * (double)c.n / (t.min_ms * 1e-3) : 0;
}

/* The dtype that a product would be of. */
static DType first_dtype(const Launch *l) {
  for (size_t i = 0; i < l->n; i++)
    if (l->tensor[i])
      return l->tensor[i]->dtype;
  return DT_F32;
}

double device_roofline(Launch *l, double ms, double flops, double bytes) {
  SessionGpu *g = l->s->gpu;
  const GpuProps *p = gpu_props(g->gpu);
  if (g->bytes_per_s == 0)
    g->bytes_per_s = measure_bytes(g->gpu);
  if (ms <= 0 || g->bytes_per_s <= 0)
    return 0;
  double compute = flops / peak_flops(p, first_dtype(l)), memory = bytes / g->bytes_per_s;
  return 1e3 * (compute > memory ? compute : memory) / ms;
}
