/* doctor.c: what `tilesh doctor` says about the GPU side.
 *
 * Goes in: a GpuRt. Comes out: lines of text. Always holds: nothing that is missing is an error
 * here; every missing thing comes with how to get it. Tests: tests/unit/check_gpu.c.
 */
#include "private.h"

/* Also warns where the pair of driver and compiler cannot work together. */
static void doctor_nvrtc(GpuRt *rt, Str *out) {
  Arena *a = arena_new(NULL, "doctor");
  Str why = str_new(a);
  const Nvrtc *t = gpu_nvrtc(rt, &why);
  int archs[64], n = 0;
  if (!t) {
    str_addf(out, "NVRTC       missing: %s\n", str_text(&why));
    arena_free(a);
    return;
  }
  str_addf(out, "NVRTC       %s (%s)", t->version_text, t->lib.path);
  if (t->supported_count(&n) == 0 && n > 0 && n <= 64 && t->supported(archs) == 0)
    str_addf(out, ", for sm_%d to sm_%d", archs[0], archs[n - 1]);
  str_addc(out, '\n');
  if (rt->driver_version > 0 && t->major > rt->driver_version / 1000)
    str_addf(out, "            newer than the driver: its cubins may not load; use NVRTC %d\n",
             rt->driver_version / 1000);
  if (t->major < 12)
    str_add(out, "            too old for Hopper's tensor cores (sm_90a): use NVRTC 12 or later\n");
  arena_free(a);
}

/* The place is shown even where it cannot be used, with the reason. */
static void doctor_cache(GpuRt *rt, Str *out) {
  GpuCacheInfo c = gpu_cache_info(rt);
  char size[24], most[24];
  str_addf(out, "cache       %s: %u entries, %s of at most %s\n", c.dir[0] ? c.dir : "none",
           c.entries, gpu_size_text(c.bytes, size, sizeof size),
           gpu_size_text(rt->cfg.cache_bytes, most, sizeof most));
  if (!c.usable)
    str_addf(out, "            not used: %s\n", c.problem);
}

void gpu_doctor(GpuRt *rt, Str *out) {
  gpu_doctor_driver(rt, out);
  doctor_nvrtc(rt, out);
  doctor_cache(rt, out);
}
