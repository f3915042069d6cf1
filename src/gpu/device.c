/* device.c: the driver, opening and closing a device, errors, waiting.
 *
 * Goes in: a GpuRt and an ordinal. Comes out: a Gpu. Always holds: libcuda is opened by the first
 * call that needs it, once; the primary context is used, so other CUDA code in the process shares
 * it; every failure has the call, the driver's name for it and its words.
 * Tests: tests/unit/check_gpu.c (no driver), check_gpu_fake.c, check_gpu_device.c (with a GPU).
 */
#include "driver.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- loading ------------------------------------------------------------------------------- */

/* All rows but the later ones, which older drivers lack, must be there. */
static bool resolve(Driver *d) {
#define DRIVER(member, symbol, args)                                                               \
  if (!gpu_lib_symbol(&d->lib, symbol, &d->member))                                                \
    return false;
#define DRIVER_LATER(member, symbol, args) (void)gpu_lib_symbol(&d->lib, symbol, &d->member);
#include "driver.def"
#undef DRIVER_LATER
#undef DRIVER
  return true;
}

/* What the user can do; the name of the error alone helps nobody. */
static const char *advice(CUresult r) {
  switch (r) {
  case CUDA_ERROR_NO_DEVICE:
    return "the driver shows no GPU: check CUDA_VISIBLE_DEVICES, and in a container --gpus all";
  case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    return "libcuda and the kernel module differ in version: reboot, or install the same for both";
  case CUDA_ERROR_STUB_LIBRARY:
    return "this libcuda is a stub to link with: install NVIDIA's driver";
  default:
    return "is the nvidia kernel module loaded? nvidia-smi says more";
  }
}

/* The driver's own spelling, to be searched for. */
static const char *error_name(const Driver *d, CUresult r) {
  const char *name = NULL;
  return d->error_name(r, &name) == CUDA_SUCCESS && name ? name : "unknown error";
}

/* Opens the library, resolves it and initialises it, leaving the reason where one of them fails. */
static void start_driver(GpuRt *rt, Driver *d) {
  static const char *const names[] = {"libcuda.so.1", NULL};
  if (!gpu_lib_open(rt, &d->lib, names) || !resolve(d)) {
    snprintf(d->error, sizeof d->error,
             "no CUDA driver: %s; install NVIDIA's driver (Debian: nvidia-driver; in a container "
             "the host's, with --gpus all)",
             d->lib.error);
    return;
  }
  CUresult r = d->init(0);
  if (r != CUDA_SUCCESS) {
    snprintf(d->error, sizeof d->error, "the CUDA driver does not start: %s; %s", error_name(d, r),
             advice(r));
    return;
  }
  (void)d->version_of(&d->version);
  rt->driver_version = d->version;
  d->ready = true;
}

/* The driver, loaded and initialised; NULL with a reason.
 * The lock is held while the driver starts: a second thread waits instead of starting it twice. */
static const Driver *driver_of(GpuRt *rt, Str *why) {
  pthread_mutex_lock(&rt->driver_lock);
  if (!rt->driver) {
    rt->driver = calloc(1, sizeof *rt->driver);
    if (rt->driver)
      start_driver(rt, rt->driver);
  }
  Driver *d = rt->driver;
  pthread_mutex_unlock(&rt->driver_lock);
  if (d && d->ready)
    return d;
  gpu_say(why, "%s", d ? d->error : "out of memory");
  return NULL;
}

/* What the helper thread is told; it frees it. */
typedef struct StartJob {
  GpuRt *rt;
  int ordinal;
} StartJob;

/* Retains the device's context, which is what takes long; gpu_open then only adds to its count. */
static void *start_thread(void *arg) {
  StartJob job = *(StartJob *)arg;
  CUcontext context;
  CUdevice device;
  free(arg);
  Driver *d = (Driver *)(uintptr_t)driver_of(job.rt, NULL);
  if (!d || d->device_get(&device, job.ordinal) != CUDA_SUCCESS)
    return NULL;
  if (d->primary_retain(&context, device) != CUDA_SUCCESS)
    return NULL;
  d->warm = device; /* read only after the join */
  d->warmed = true;
  return NULL;
}

/* A thread that cannot be made costs start-up time later, nothing else. */
void gpu_start_async(GpuRt *rt, int ordinal) {
  StartJob *job = rt->started ? NULL : malloc(sizeof *job);
  if (!job)
    return;
  *job = (StartJob){rt, ordinal};
  rt->started = gpu_thread(&rt->starter, start_thread, job);
  rt->joined = !rt->started;
  if (!rt->started)
    free(job);
}

/* Only the thread that opens devices joins, so no lock is needed. */
static void join_starter(GpuRt *rt) {
  if (rt->started && !rt->joined)
    pthread_join(rt->starter, NULL);
  rt->joined = true;
}

/* The tables only: the library itself stays, for it does not survive being unloaded. */
void gpu_driver_free(GpuRt *rt) {
  join_starter(rt);
  Driver *d = rt->driver;
  if (!d)
    return;
  if (d->warmed)
    (void)d->primary_release(d->warm);
  gpu_lib_close(&d->lib);
  free(d);
  rt->driver = NULL;
}

/* ---- errors -------------------------------------------------------------------------------- */

/* After these the context is gone and no new one of this process works: measured, not read.
 * Anything else (out of memory, a bad argument) leaves the device as it was. */
static bool is_sticky(CUresult r) {
  switch (r) {
  case CUDA_ERROR_ILLEGAL_ADDRESS:
  case CUDA_ERROR_LAUNCH_FAILED:
  case CUDA_ERROR_LAUNCH_TIMEOUT:
  case CUDA_ERROR_ASSERT:
  case CUDA_ERROR_HARDWARE_STACK_ERROR:
  case CUDA_ERROR_ILLEGAL_INSTRUCTION:
  case CUDA_ERROR_MISALIGNED_ADDRESS:
  case CUDA_ERROR_INVALID_ADDRESS_SPACE:
  case CUDA_ERROR_INVALID_PC:
  case CUDA_ERROR_ECC_UNCORRECTABLE:
  case CUDA_ERROR_NVLINK_UNCORRECTABLE:
  case CUDA_ERROR_CONTEXT_IS_DESTROYED:
  case CUDA_ERROR_DEINITIALIZED:
    return true;
  default:
    return false;
  }
}

/* The one place that sets the reason, so that it is always that of the last failure. */
Status gpu_refuse(Gpu *g, Status st, const char *fmt, ...) {
  va_list ap;
  str_clear(&g->why);
  va_start(ap, fmt);
  str_vaddf(&g->why, fmt, ap);
  va_end(ap);
  return st;
}

/* The expression that failed is part of the message, as it stands in the source. */
Status gpu_result(Gpu *g, CUresult r, const char *call, const char *detail) {
  const char *words = NULL;
  if (r == CUDA_SUCCESS)
    return ST_OK;
  if (g->d->error_text(r, &words) != CUDA_SUCCESS || !words)
    words = "no more is known";
  g->lost = g->lost || is_sticky(r);
  /* "g->d->mem_alloc(&p, n)" reads better as "mem_alloc(&p, n)" */
  const char *name = strncmp(call, "g->d->", 6) == 0 ? call + 6 : call;
  return gpu_refuse(g, r == CUDA_ERROR_OUT_OF_MEMORY ? ST_NOMEM : ST_DEVICE, "%s%s%s: %s, %s%s",
                    detail ? detail : "", detail ? ": " : "", name, error_name(g->d, r), words,
                    is_sticky(r) ? "; the device is lost until the program starts anew" : "");
}

/* Asked at the head of every call, so that a lost device is never touched again. */
bool gpu_alive(Gpu *g) {
  if (!g->lost && g->rt->current != g && g->context) { /* another device was used since */
    CUresult r = g->d->set_current(g->context);
    g->rt->current = r == CUDA_SUCCESS ? g : NULL;
    if (gpu_result(g, r, "turning to the device", NULL) != ST_OK)
      return false;
  }
  if (!g->lost)
    return true;
  if (g->why.n == 0)
    (void)gpu_refuse(g, ST_DEVICE, "the device was lost");
  return false;
}

const char *gpu_why(const Gpu *g) {
  return str_text(&g->why);
}
bool gpu_lost(const Gpu *g) {
  return g->lost;
}
const GpuProps *gpu_props(const Gpu *g) {
  return &g->props;
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* Woken early by a signal, which is then seen by the caller's poll. */
static void pause_us(long us) {
  struct timespec t = {0, us * 1000};
  (void)nanosleep(&t, NULL);
}

/* Short work is met by polling, long work by ever longer naps of up to 1 ms. */
Status gpu_wait(Gpu *g, CUevent e, CUstream s) {
  double start = base_now();
  long nap = 20;
  for (;;) {
    CUresult r = e ? g->d->event_query(e) : g->d->stream_query(s);
    if (r != CUDA_ERROR_NOT_READY)
      return gpu_result(g, r, "waiting for the device", NULL);
    if (gpu_interrupted(g->rt))
      return gpu_refuse(g, ST_INTERRUPTED, "interrupted");
    if (base_now() - start < 0.3e-3) {
      sched_yield();
      continue;
    }
    pause_us(nap);
    nap = nap < 1000 ? nap + nap / 4 : nap;
  }
}

/* From a stream of its own, so that it overtakes a running kernel.
 * Waits for the write itself, so that clearing cannot overtake setting. */
static Status set_stop(Gpu *g, bool stop) {
  if (!gpu_alive(g))
    return ST_DEVICE;
  const uint32_t *word = stop ? &g->words->stop : &g->words->run;
  GPU_TRY(g, g->d->upload(g->stop_word, word, sizeof *word, g->stopper), NULL);
  GPU_TRY(g, g->d->stream_sync(g->stopper), NULL);
  g->stopping = stop;
  return ST_OK;
}

/* Asks kernels to leave, and gives them 2 seconds; those that take longer find the word still set.
 */
static Status stop_work(Gpu *g, CUstream s) {
  double start = base_now();
  CUresult r = CUDA_ERROR_NOT_READY;
  Status st = set_stop(g, true);
  while (st == ST_OK && r == CUDA_ERROR_NOT_READY && base_now() - start < 2) {
    r = g->d->stream_query(s);
    if (r == CUDA_ERROR_NOT_READY)
      pause_us(200);
  }
  if (st == ST_OK && r == CUDA_ERROR_NOT_READY)
    return gpu_refuse(g, ST_INTERRUPTED, "interrupted; the kernel still runs: it does not stop");
  if (st == ST_OK)
    st = gpu_result(g, r, "waiting for the device", NULL);
  if (st == ST_OK)
    st = set_stop(g, false);
  return st == ST_OK ? gpu_refuse(g, ST_INTERRUPTED, "interrupted") : st;
}

Status gpu_sync(Gpu *g) {
  CUstream s = g->main;
  Status st;
  if (!gpu_alive(g))
    return ST_DEVICE;
  if (g->rt->cfg.interrupted)
    st = gpu_wait(g, NULL, s);
  else
    st = gpu_result(g, g->d->stream_sync(s), "waiting for the device", NULL);
  if (st == ST_INTERRUPTED)
    return stop_work(g, s);
  if (st == ST_OK && g->stopping) /* what an earlier interrupt left behind has ended */
    st = set_stop(g, false);
  return st;
}

GpuPtr gpu_stop_word(const Gpu *g) {
  return g->stop_word;
}
/* The device's address of host memory: under unified addressing it is the same number. */
GpuPtr gpu_fault_slot(const Gpu *g) {
  return g->fault_device;
}

/* volatile: the device wrote it behind the compiler's back. Called after a wait only. */
bool gpu_fault_take(Gpu *g, GpuFault *out) {
  if (!g->words || *(volatile uint32_t *)&g->words->fault.claimed == 0)
    return false;
  *out = g->words->fault;
  memset(&g->words->fault, 0, sizeof g->words->fault);
  return true;
}

/* ---- opening ------------------------------------------------------------------------------- */

/* `otherwise` for what this driver does not know: an older driver has fewer attributes. */
static int attribute(const Driver *d, CUdevice device, CUdevice_attribute which, int otherwise) {
  int value = 0;
  return d->device_attribute(&value, which, device) == CUDA_SUCCESS ? value : otherwise;
}

/* What every driver knows; without them programs would be compiled for another device. */
static CUresult read_needed(const Driver *d, CUdevice device, GpuProps *p) {
  int shared = 0;
  const struct {
    CUdevice_attribute which;
    int *out;
  } row[] = {{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &p->major},
             {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &p->minor},
             {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &p->sms},
             {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &shared}};
  CUresult r = d->device_memory(&p->memory, device);
  for (size_t i = 0; i < sizeof row / sizeof *row && r == CUDA_SUCCESS; i++)
    r = d->device_attribute(row[i].out, row[i].which, device);
  p->shared_block = (size_t)shared;
  return r;
}

/* Every figure that the compiler, `tilesh doctor` or the roofline asks for. */
static CUresult read_props(const Driver *d, CUdevice device, int ordinal, GpuProps *p) {
#define ASK(what) attribute(d, device, CU_DEVICE_ATTRIBUTE_##what, 0)
  memset(p, 0, sizeof *p);
  if (d->device_name(p->name, (int)sizeof p->name, device) != CUDA_SUCCESS)
    snprintf(p->name, sizeof p->name, "cuda:%d", ordinal);
  CUresult r = read_needed(d, device, p);
  p->ordinal = ordinal;
  p->driver = d->version;
  gpu_arch_name(p->major, p->minor, p->arch, sizeof p->arch);
  p->regs_per_sm = ASK(MAX_REGISTERS_PER_MULTIPROCESSOR);
  p->threads_per_sm = ASK(MAX_THREADS_PER_MULTIPROCESSOR);
  p->shared_sm = (size_t)ASK(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  p->shared_reserved = (size_t)ASK(RESERVED_SHARED_MEMORY_PER_BLOCK);
  p->l2 = (size_t)ASK(L2_CACHE_SIZE);
  p->clock_khz = ASK(CLOCK_RATE);
  p->memory_clock_khz = ASK(MEMORY_CLOCK_RATE);
  p->memory_bus_bits = ASK(GLOBAL_MEMORY_BUS_WIDTH);
  p->tma = d->tmap_encode != NULL &&
           attribute(d, device, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, p->major >= 9);
  p->clusters = d->launch_ex != NULL &&
                attribute(d, device, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, p->major >= 9);
  p->pools = ASK(MEMORY_POOLS_SUPPORTED) != 0 && d->alloc_async != NULL && d->pool_default != NULL;
  return r;
#undef ASK
}

/* Memory once taken stays ours until it is trimmed: allocation then costs a microsecond. */
static Status open_pool(Gpu *g) {
  cuuint64_t keep = UINT64_MAX;
  if (!g->props.pools)
    return ST_OK;
  GPU_TRY(g, g->d->pool_default(&g->pool, g->device), NULL);
  GPU_TRY(g, g->d->pool_set(g->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep), NULL);
  return ST_OK;
}

/* The stop word is device memory: polling mapped memory is a hundred times slower. */
static Status open_words(Gpu *g) {
  void *host = NULL;
  GPU_TRY(g, g->d->mem_alloc(&g->stop_word, 256), NULL);
  GPU_TRY(g, g->d->fill32(g->stop_word, 0, 64, g->main), NULL);
  GPU_TRY(g, g->d->host_alloc(&host, sizeof *g->words, CU_MEMHOSTALLOC_DEVICEMAP), NULL);
  memset(host, 0, sizeof *g->words);
  g->words = host;
  g->words->stop = 1;
  GPU_TRY(g, g->d->host_address(&g->fault_device, host, 0), NULL);
  return ST_OK;
}

/* Streams do not wait for the legacy stream, which other libraries in the process may use. */
static Status open_context(Gpu *g) {
  GPU_TRY(g, g->d->primary_retain(&g->context, g->device), NULL);
  GPU_TRY(g, g->d->set_current(g->context), NULL);
  g->rt->current = g;
  GPU_TRY(g, g->d->stream_new(&g->main, CU_STREAM_NON_BLOCKING), NULL);
  GPU_TRY(g, g->d->stream_new(&g->stopper, CU_STREAM_NON_BLOCKING), NULL);
  Status st = open_pool(g);
  if (st == ST_OK)
    st = open_words(g);
  return st;
}

/* Everything that needs no driver call; the rest is zero until open_context. */
static Gpu *gpu_make(GpuRt *rt, const Driver *d) {
  Gpu *g = calloc(1, sizeof *g);
  if (!g)
    return NULL;
  g->rt = rt;
  g->d = d;
  g->why_arena = arena_new(NULL, "gpu messages");
  g->tmap_arena = arena_new(NULL, "gpu tensor maps");
  g->why = str_new(g->why_arena);
  return g;
}

/* 0 with a reason where it shows none. */
static int count_devices(const Driver *d, Str *why) {
  int count = 0;
  CUresult r = d->device_count(&count);
  if (r == CUDA_SUCCESS && count > 0)
    return count;
  if (r == CUDA_SUCCESS || r == CUDA_ERROR_NO_DEVICE)
    gpu_say(why, "%s", advice(CUDA_ERROR_NO_DEVICE));
  else
    gpu_say(why, "the driver does not count its devices: %s; %s", error_name(d, r), advice(r));
  return 0;
}

/* The ordinal is checked here, for the driver would only say "invalid device". */
static Status find_device(const Driver *d, int ordinal, CUdevice *device, Str *why) {
  int count = count_devices(d, why);
  if (count == 0)
    return ST_DEVICE;
  if (ordinal < 0 || ordinal >= count) {
    gpu_say(why, "there is no device cuda:%d: the driver shows %d, from cuda:0 to cuda:%d", ordinal,
            count, count - 1);
    return ST_DEVICE;
  }
  CUresult r = d->device_get(device, ordinal);
  if (r == CUDA_SUCCESS)
    return ST_OK;
  gpu_say(why, "the driver does not give cuda:%d: %s; %s", ordinal, error_name(d, r), advice(r));
  return ST_DEVICE;
}

Status gpu_open(GpuRt *rt, int ordinal, Gpu **out, Str *why) {
  CUdevice device = 0;
  join_starter(rt);
  const Driver *d = driver_of(rt, why);
  *out = NULL;
  if (!d)
    return ST_DEVICE;
  Status st = find_device(d, ordinal, &device, why);
  if (st != ST_OK)
    return st;
  Gpu *g = gpu_make(rt, d);
  if (!g) {
    gpu_say(why, "out of memory");
    return ST_NOMEM;
  }
  g->device = device;
  st = gpu_result(g, read_props(d, device, ordinal, &g->props), "asking what it is", NULL);
  if (st == ST_OK)
    st = open_context(g);
  if (st != ST_OK) {
    gpu_say(why, "%s does not open: %s", g->props.name, gpu_why(g));
    gpu_close(g);
    return st;
  }
  gpu_guess_keep(rt, &g->props);
  *out = g;
  return ST_OK;
}

/* ---- closing ------------------------------------------------------------------------------- */

/* On a lost device the driver would refuse; what it holds ends with the process. Errors are not
 * looked at: there is nobody to tell. */
static void close_driver_side(Gpu *g) {
  const Driver *d = g->d;
  gpu_kept_drop(g);
  if (g->main)
    (void)d->stream_sync(g->main);
  for (size_t i = 0; i < 2; i++) {
    if (g->staging[i].done)
      (void)d->event_free(g->staging[i].done);
    if (g->staging[i].p)
      (void)d->host_free(g->staging[i].p);
  }
  if (g->words)
    (void)d->host_free(g->words);
  if (g->ring)
    (void)d->mem_free(g->ring);
  if (g->empty)
    (void)d->mem_free(g->empty);
  if (g->stop_word)
    (void)d->mem_free(g->stop_word);
  if (g->main)
    (void)d->stream_free(g->main);
  if (g->stopper)
    (void)d->stream_free(g->stopper);
  if (g->context) {
    (void)d->set_current(NULL);
    (void)d->primary_release(g->device);
  }
}

/* Modules first, while their context is there. */
void gpu_close(Gpu *g) {
  if (!g)
    return;
  (void)gpu_alive(g); /* its context is the current one from here on */
  while (g->modules)
    gpu_module_unload(g, g->modules);
  if (!g->lost)
    close_driver_side(g);
  else if (g->rt->driver->warm == g->device)
    g->rt->driver->warmed = false; /* gpu_driver_free leaves it alone too */
  if (g->rt->current == g)
    g->rt->current = NULL;
  for (size_t i = 0; i < KEPT_SIZES; i++)
    free(g->kept[i].p);
  arena_free(g->tmap_arena);
  arena_free(g->why_arena);
  free(g);
}

/* ---- without a device ---------------------------------------------------------------------- */

bool gpu_built(void) {
  return true;
}

/* 0 with a reason rather than an error: callers fall back to the CPU. */
int gpu_count(GpuRt *rt, Str *why) {
  join_starter(rt);
  const Driver *d = driver_of(rt, why);
  return d ? count_devices(d, why) : 0;
}

/* One line a device. */
static void doctor_device(const GpuProps *p, Str *out) {
  char memory[24], shared[24], l2[24];
  str_addf(
      out, "device      cuda:%d %s: %s, %d multiprocessors, %s, L2 %s, shared memory a block %s\n",
      p->ordinal, p->name, p->arch, p->sms, gpu_size_text(p->memory, memory, sizeof memory),
      gpu_size_text(p->l2, l2, sizeof l2), gpu_size_text(p->shared_block, shared, sizeof shared));
  if (p->major < 8)
    str_add(out, "            too old: tilesh compiles for sm_80 and later\n");
}

void gpu_doctor_driver(GpuRt *rt, Str *out) {
  Arena *a = arena_new(NULL, "doctor");
  Str why = str_new(a);
  int count = gpu_count(rt, &why);
  const Driver *d = driver_of(rt, NULL);
  if (d)
    str_addf(out, "driver      CUDA %d.%d (%s)\n", d->version / 1000, d->version % 1000 / 10,
             d->lib.path);
  if (count == 0)
    str_addf(out, "%s      missing: %s\n", d ? "device" : "driver", str_text(&why));
  for (int i = 0; i < count; i++) {
    CUdevice device;
    GpuProps p;
    CUresult r = d->device_get(&device, i);
    if (r == CUDA_SUCCESS)
      r = read_props(d, device, i, &p);
    if (r == CUDA_SUCCESS)
      doctor_device(&p, out);
    else
      str_addf(out, "device      cuda:%d: %s\n", i, error_name(d, r));
  }
  arena_free(a);
}
