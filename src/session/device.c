/* device.c: where kernels run: the evaluator, or a CUDA device through src/gpu.
 *
 * In: --device, use_device, :device. Out: the device in use, or none; those that were used before
 * stay open, for tensors live there. One is opened when the first kernel is called, never before;
 * without --device a missing one is no error. Also what kernels are compiled for, which the
 * evaluator's way asks as well. Tests: tests/gpu; without a device tests/cli/run;
 * with two, scripts/gpu-check.
 */
#include <stdlib.h>
#include <string.h>

#include "device.h"

/* Polled by src/gpu in every wait. */
static bool interrupted(void *ctx) {
  const Session *s = ctx;
  return s->options.interrupt && *s->options.interrupt;
}

/* Made on first use, and only here. */
SessionGpu *device_state(Session *s) {
  if (s->gpu)
    return s->gpu;
  s->gpu = session_alloc(s, sizeof *s->gpu);
  const Pool *pool = session_pool(s);
  s->gpu->rt = gpu_rt_new(&(GpuConfig){
      .compilers = pool ? pool_threads(pool) : 0, .interrupted = interrupted, .ctx = s});
  s->gpu->first = s->gpu;
  return s->gpu;
}

/* StorageDevice.fetch: the wait for queued work happens inside the download. */
static bool fetch(void *handle, void *host, size_t bytes, Str *why) {
  Buffer *b = handle;
  b->fetched = gpu_download(b->g->gpu, host, b->p, bytes);
  if (b->fetched == ST_OK)
    return true;
  if (why)
    str_addf(why, "on %s cannot be read: %s", b->g->name, gpu_why(b->g->gpu));
  return false;
}

/* StorageDevice.release: freed in stream order, so a launch that still uses it is safe. */
static void release(void *handle) {
  Buffer *b = handle;
  if (b->g->gpu)
    gpu_free(b->g->gpu, b->p, b->bytes);
  free(b);
}

/* The device of that ordinal among those that are open. */
static SessionGpu *opened(SessionGpu *g, int ordinal) {
  for (g = g->first; g; g = g->next)
    if (g->gpu && gpu_props(g->gpu)->ordinal == ordinal)
      return g;
  return NULL;
}

/* Makes it the one in use. A failure changes nothing; the reason is in why. */
static Status open_device(Session *s, int ordinal, Str *why) {
  SessionGpu *g = device_state(s), *first = g->first;
  Gpu *gpu;
  (void)gpu_guess(g->rt, ordinal, session_scratch(s), &g->guess); /* written only if it is wrong */
  Status status = gpu_open(g->rt, ordinal, &gpu, why);
  if (status != ST_OK)
    return status;
  if (first->gpu) {
    g = session_alloc(s, sizeof *g);
    *g = (SessionGpu){.rt = first->rt, .first = first, .next = first->next};
    first->next = g;
  }
  g->gpu = gpu;
  g->decided = true;
  snprintf(g->name, sizeof g->name, "cuda:%d", ordinal);
  g->device = (StorageDevice){g->name, fetch, release};
  s->gpu = g;
  return ST_OK;
}

enum { MOST_DEVICES = 1023 };
/* "cuda", "cuda:3"; -1 where it names no CUDA device, MOST_DEVICES where none can be that far. */
static int ordinal_of(const char *name) {
  if (strncmp(name, "cuda", 4) != 0 || (name[4] && name[4] != ':'))
    return -1;
  if (!name[4])
    return 0;
  if (!name[5] || name[5 + strspn(name + 5, "0123456789")])
    return -1;
  long n = strtol(name + 5, NULL, 10);
  return n < MOST_DEVICES ? (int)n : MOST_DEVICES;
}

/* Names are checked before anything is opened. */
static _Noreturn void bad_name(Session *s, const char *name, Span span) {
  host_fail_hint(s, E0822, span, "\"cpu\", \"cuda\" or \"cuda:1\"", "there is no device named %s",
                 *name ? name : "\"\"");
}

/* The status makes the exit status 4. */
static _Noreturn void no_device(Session *s, const Str *why, Span span) {
  diag_add(&s->diags, E0822, span, "%s", str_text(why));
  host_fail_with(s, ST_DEVICE);
}

/* Without --device a missing GPU is no error: kernels run on the evaluator. With it, it is. */
bool device_is_gpu(Session *s) {
  const char *want = s->options.device;
  if (want && strcmp(want, "cpu") == 0)
    return false;
  SessionGpu *g = device_state(s);
  if (g->decided)
    return g->gpu != NULL;
  Str why = session_str(s);
  const Span none = {NULL, 0, 0};
  g->decided = true;
  if (want && ordinal_of(want) < 0)
    bad_name(s, want, none);
  Status status = open_device(s, want ? ordinal_of(want) : 0, &why);
  if (status != ST_OK && want) {
    g->decided = false;
    no_device(s, &why, none);
  }
  return s->gpu->gpu != NULL;
}

/* Starting the driver takes as long as compiling does: a helper thread does it meanwhile, and
 * device_is_gpu finds it ready. */
void device_expect(Session *s) {
  const char *want = s->options.device;
  int ordinal = want ? ordinal_of(want) : 0;
  if (s->options.emit == EMIT_NOTHING && ordinal >= 0 && !device_state(s)->decided)
    gpu_start_async(device_state(s)->rt, ordinal);
}

bool device_expect_again(Session *s) {
  if (!device_state(s)->decided && device_guess(s))
    gpu_start_async(s->gpu->rt, ordinal_of(s->options.device));
  return s->gpu->decided || s->gpu->guess.arch[0];
}

/* Devices stay open when another is chosen, the CPU too; what was queued is waited for, so that its
 * faults are told before anything else happens. */
void device_use(Session *s, const char *name, Span span) {
  int ordinal = ordinal_of(name);
  if (strcmp(name, "cpu") != 0 && ordinal < 0)
    bad_name(s, name, span);
  if (s->gpu && s->gpu->gpu)
    device_finish(s);
  if (ordinal >= 0) {
    SessionGpu *g = opened(device_state(s), ordinal);
    Str why = session_str(s);
    if (g)
      s->gpu = g;
    else if (open_device(s, ordinal, &why) != ST_OK)
      no_device(s, &why, span);
  }
  s->options.device = arena_strdup(s->arena, name);
}

/* After all tensors are gone: their device copies need the device to be freed. */
void device_free(Session *s) {
  SessionGpu *g = s->gpu ? s->gpu->first : NULL;
  GpuRt *rt = g ? g->rt : NULL;
  for (SessionGpu *next; g; g = next) {
    next = g->next;
    gpu_close(g->gpu);
    free(g->queued);
    free(g);
  }
  if (rt)
    gpu_rt_free(rt);
  s->gpu = NULL;
}

/* The driver's own words, at the call. */
_Noreturn void device_failed(Session *s, Span span) {
  Diag *d = diag_add(&s->diags, E0822, span, "%s", gpu_why(s->gpu->gpu));
  if (gpu_lost(s->gpu->gpu))
    diag_hint(&s->diags, d, "use_device(\"cpu\") goes on without it");
  host_fail_with(s, ST_DEVICE);
}

bool device_guess(Session *s) {
  const char *want = s->options.device;
  int ordinal = want ? ordinal_of(want) : 0;
  SessionGpu *g = device_state(s);
  return ordinal >= 0 && gpu_guess(g->rt, ordinal, session_scratch(s), &g->guess);
}

const char *device_arch(const Session *s) {
  if (s->gpu && s->gpu->gpu)
    return gpu_props(s->gpu->gpu)->arch;
  return s->gpu && s->ahead && s->gpu->guess.arch[0] ? s->gpu->guess.arch : NULL;
}

/* What kernels are compiled for: --arch, else the open device, else sm_90a. */
const Target *session_target(Session *s) {
  const char *arch = s->options.arch ? s->options.arch : device_arch(s);
  const Target *t = arch ? target_find(arch) : NULL;
  return t ? t : target_find("sm_90a");
}

/* The figure of the open device, so that `sms` in a kernel is what it runs on. */
int64_t session_sms(Session *s) {
  if (s->ahead && s->gpu && !s->gpu->gpu && s->gpu->guess.sms)
    return s->gpu->guess.sms;
  return s->gpu && s->gpu->gpu ? gpu_props(s->gpu->gpu)->sms : session_target(s)->sms;
}

/* For figures only: bench's roofline. */
const GpuProps *device_props(Session *s) {
  return s->gpu && s->gpu->gpu ? gpu_props(s->gpu->gpu) : NULL;
}

/* What print shows after "on" for a fresh result. */
const char *session_device(Session *s) {
  return s->gpu && s->gpu->gpu && !(s->options.device && strcmp(s->options.device, "cpu") == 0)
             ? s->gpu->name
             : "cpu";
}

/* For the prompt, which has no place in a program to name. */
static void use_named(Session *s, void *ctx) {
  device_use(s, ctx, (Span){NULL, 0, 0});
}

/* For the prompt's :device. */
Status session_use_device(Session *s, const char *name) {
  session_begin(s);
  return session_protect(s, use_named, (void *)(uintptr_t)name);
}
