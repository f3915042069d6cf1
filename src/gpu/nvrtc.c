/* nvrtc.c: CUDA text to a cubin.
 *
 * Goes in: self-contained text, an architecture, options. Comes out: a GpuImage, from the cache or
 * from NVRTC. Always holds: NVRTC is asked for the cubin itself, so the driver's own compiler is
 * never used, and it needs no device; the gate judges cached images anew. The cache's key is the
 * digest of text, options, architecture, NVRTC's version and this program's build-id.
 * Tests: tests/unit/check_gpu.c.
 */
#include "private.h"

#include <string.h>

enum {
  MAX_OPTIONS = 32,
  RESULT_INVALID_OPTION = 5,
  RESULT_COMPILATION = 6,
  RESULT_BUILTINS = 7,
  RESULT_CANCELLED = 16
};

/* ---- the library --------------------------------------------------------------------------- */

/* Every row must be there: NVRTC has had them since CUDA 11. The flow callback came later. */
static bool resolve(Nvrtc *t) {
#define NVRTC(member, symbol, args)                                                                \
  if (!gpu_lib_symbol(&t->lib, symbol, &t->member))                                                \
    return false;
#include "nvrtc.def"
#undef NVRTC
  if (!gpu_lib_symbol(&t->lib, "nvrtcSetFlowCallback", &t->set_flow))
    t->set_flow = NULL;
  return gpu_lib_symbol(&t->lib, "nvrtcGetErrorString", &t->error_text);
}

/* A cubin of NVRTC 13 needs a driver of CUDA 13: with an older one the older compiler goes first.
 */
static const char *const *names_for(int driver) {
  static const char *const newest[] = {"libnvrtc.so.13",   "libnvrtc.so.12", "libnvrtc.so",
                                       "libnvrtc.so.11.2", "libnvrtc.so.*",  NULL};
  static const char *const older[] = {"libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so",
                                      "libnvrtc.so.13", "libnvrtc.so.*",    NULL};
  return driver > 0 && driver < 13000 ? older : newest;
}

/* While the driver starts: the one that was there the last time. */
static const char *const *names_now(const GpuRt *rt) {
  int driver = rt->driver_version;
  return names_for(driver > 0 ? driver : rt->driver_guess);
}

static void open_locked(GpuRt *rt) {
  const char *const *names = names_now(rt);
  Nvrtc *t = &rt->nvrtc;
  if (!gpu_lib_open(rt, &t->lib, names))
    return;
  if (!resolve(t) || t->version(&t->major, &t->minor) != 0) {
    gpu_lib_close(&t->lib);
    return;
  }
  snprintf(t->version_text, sizeof t->version_text, "%d.%d", t->major, t->minor);
  if (strcmp(t->version_text, rt->known_version) != 0)
    gpu_version_keep(rt, names[0]);
}

const Nvrtc *gpu_nvrtc(GpuRt *rt, Str *why) {
  Nvrtc *t = &rt->nvrtc;
  pthread_mutex_lock(&rt->lock);
  if (!t->lib.tried)
    open_locked(rt);
  pthread_mutex_unlock(&rt->lock);
  if (t->lib.handle)
    return t;
  gpu_say(why,
          "no CUDA compiler: %s; install NVRTC (Debian: libnvrtc12 or nvidia-cuda-toolkit; "
          "pip: nvidia-cuda-nvrtc) or point TILESH_CUDA_PATH at its folder",
          t->lib.error);
  return NULL;
}

/* For `tilesh doctor` and for tests that ask whether there is a compiler at all. */
const char *gpu_nvrtc_version(GpuRt *rt, Str *why) {
  const Nvrtc *t = gpu_nvrtc(rt, why);
  return t ? t->version_text : NULL;
}

/* The same for keys of the cache, without opening it where that is known. */
static bool version_for_keys(GpuRt *rt, char version[16], Str *why) {
  const char *name = names_now(rt)[0];
  pthread_mutex_lock(&rt->lock);
  if (!rt->nvrtc.lib.tried && rt->recalled != name) {
    rt->recalled = name;
    rt->known_version[0] = '\0';
    gpu_version_recall(rt, name);
  }
  memcpy(version, rt->nvrtc.lib.tried ? rt->nvrtc.version_text : rt->known_version, 16);
  pthread_mutex_unlock(&rt->lock);
  if (version[0])
    return true;
  const char *opened = gpu_nvrtc_version(rt, why);
  snprintf(version, 16, "%s", opened ? opened : "");
  return opened;
}

/* ---- options and key ----------------------------------------------------------------------- */

/* The options of one compilation, in the order NVRTC and the key see them. */
typedef struct Options {
  const char *v[MAX_OPTIONS];
  int n;
  char arch[64];
} Options;

/* Products and sums are contracted only where the text says fma: the same bits as the evaluator.
 * The cubin is asked for by a real architecture, so that the driver's compiler is never used. Names
 * that a printed kernel does not use (177, 550) are not worth a warning. */
static bool make_options(const GpuCompile *job, Options *o) {
  int n = snprintf(o->arch, sizeof o->arch, "--gpu-architecture=%s", job->arch);
  o->n = 0;
  if (n < 0 || (size_t)n >= sizeof o->arch || job->noptions > MAX_OPTIONS - 5)
    return false;
  o->v[o->n++] = o->arch;
  o->v[o->n++] = "-default-device";
  o->v[o->n++] = "--fmad=false";
  o->v[o->n++] = "-diag-suppress=177,550";
  if (job->lineinfo)
    o->v[o->n++] = "-lineinfo";
  for (int i = 0; i < job->noptions; i++)
    o->v[o->n++] = job->options[i];
  return true;
}

static GpuKey key_of(const GpuRt *rt, const char *version, const GpuCompile *job,
                     const Options *o) {
  GpuHash h;
  gpu_hash_begin(&h);
  gpu_hash_text(&h, "cubin");
  gpu_hash_text(&h, rt->build_id);
  gpu_hash_text(&h, version);
  gpu_hash_text(&h, job->want_ptx ? "ptx" : "");
  gpu_hash_text(&h, job->name); /* it is in the log and in line tables */
  for (int i = 0; i < o->n; i++)
    gpu_hash_text(&h, o->v[i]);
  gpu_hash_text(&h, job->text);
  return gpu_hash_end(&h);
}

/* ---- what is stored: three lengths (in 64 bytes, so that the cubin is aligned), cubin, PTX, log
 */

/* What one compilation gives. */
typedef struct Parts {
  const char *cubin, *ptx, *log;
  uint64_t cubin_n, ptx_n, log_n;
} Parts;

static void *pack(const Parts *p, Arena *a, size_t *n) {
  uint64_t head[8] = {p->cubin_n, p->ptx_n, p->log_n};
  *n = sizeof head + (size_t)(p->cubin_n + p->ptx_n + p->log_n);
  char *out = arena_alloc(a, *n), *at = out + sizeof head;
  memcpy(out, head, sizeof head);
  memcpy(at, p->cubin, (size_t)p->cubin_n);
  if (p->ptx_n)
    memcpy(at + p->cubin_n, p->ptx, (size_t)p->ptx_n);
  if (p->log_n)
    memcpy(at + p->cubin_n + p->ptx_n, p->log, (size_t)p->log_n);
  return out;
}

/* The lengths are checked against what is there, though the digest already vouches for them. */
static bool unpack(const void *data, size_t n, Arena *a, Parts *out) {
  uint64_t head[8];
  const char *at = (const char *)data + sizeof head;
  if (n < sizeof head)
    return false;
  memcpy(head, data, sizeof head);
  uint64_t left = n - sizeof head;
  if (head[0] > left || head[1] > left - head[0] || head[2] != left - head[0] - head[1])
    return false;
  out->cubin = at;
  out->cubin_n = head[0];
  out->ptx = arena_strndup(a, at + head[0], (size_t)head[1]);
  out->ptx_n = head[1];
  out->log = arena_strndup(a, at + head[0] + head[1], (size_t)head[2]);
  out->log_n = head[2];
  return true;
}

/* ---- compiling ----------------------------------------------------------------------------- */

typedef int (*SizeFn)(NvrtcProgram, size_t *);
typedef int (*TextFn)(NvrtcProgram, char *);

/* NVRTC's pattern: ask for the size, then for the bytes; NULL if either fails. */
static const char *take(NvrtcProgram p, SizeFn size, TextFn text, Arena *a, uint64_t *n) {
  size_t bytes = 0;
  if (size(p, &bytes) != 0)
    return NULL;
  char *out = arena_alloc(a, bytes + 1);
  if (bytes > 0 && text(p, out) != 0)
    return NULL;
  *n = bytes;
  return out;
}

/* Which of them is the user's to mend decides between ST_DEVICE and ST_COMPILE. */
static Status explain(const Nvrtc *t, const GpuCompile *job, int code, const char *log, Str *why) {
  if (code == RESULT_INVALID_OPTION)
    gpu_say(why, "NVRTC %s (%s) does not take %s or another option%s%s", t->version_text,
            t->lib.path, job->arch, *log ? ": " : "", log);
  else if (code == RESULT_BUILTINS)
    gpu_say(why,
            "NVRTC (%s) does not find libnvrtc-builtins: the two must lie in one folder, and "
            "that folder in LD_LIBRARY_PATH",
            t->lib.path);
  else
    gpu_say(why, "NVRTC refuses %s (%s):\n%s", job->name, t->error_text(code), log);
  return code == RESULT_COMPILATION ? ST_COMPILE : ST_DEVICE;
}

/* A success without a cubin happens for virtual architectures (compute_90). */
static Status collect(const Nvrtc *t, NvrtcProgram p, const GpuCompile *job, Arena *a, Parts *out,
                      Str *why) {
  out->cubin = take(p, t->cubin_size, t->cubin, a, &out->cubin_n);
  if (job->want_ptx)
    out->ptx = take(p, t->ptx_size, t->ptx, a, &out->ptx_n);
  if (out->cubin && out->cubin_n > 0 && (out->ptx || !job->want_ptx))
    return ST_OK;
  gpu_say(why, "NVRTC %s made no cubin for %s", t->version_text, job->arch);
  return ST_DEVICE;
}

/* Ctrl-C, or an end of its GpuRt, ends a compilation at the compiler's next step; its last one,
 * which makes the cubin, is the longest and is waited for. */
static int asked_to_end(void *payload, void *reserved) {
  const GpuStop *stop = payload;
  (void)reserved;
  return gpu_interrupted(stop->rt) || (stop->asked && atomic_load(stop->asked));
}

static Status run_nvrtc(const GpuCompile *job, const Options *o, GpuStop stop, Arena *a, Parts *out,
                        Str *why) {
  const Nvrtc *t = &stop.rt->nvrtc;
  NvrtcProgram p = NULL;
  int code = t->create(&p, job->text, job->name, 0, NULL, NULL);
  if (code != 0) {
    gpu_say(why, "NVRTC: %s", t->error_text(code));
    return ST_DEVICE;
  }
  if (t->set_flow)
    (void)t->set_flow(p, asked_to_end, &stop);
  code = t->compile(p, o->n, o->v);
  if (code == RESULT_CANCELLED) {
    t->destroy(&p);
    gpu_say(why, "interrupted");
    return ST_INTERRUPTED;
  }
  out->log = take(p, t->log_size, t->log, a, &out->log_n);
  if (!out->log)
    out->log = "";
  out->log_n = strlen(out->log); /* the size it gives counts the NUL */
  Status st = code == 0 ? collect(t, p, job, a, out, why) : explain(t, job, code, out->log, why);
  t->destroy(&p);
  return st;
}

/* Only what can be read goes to the disk, under the version that made it: the library may have been
 * replaced since the job's key was made. */
Status gpu_nvrtc_make(const GpuCompile *job, GpuStop stop, Arena *a, GpuStored *out, Str *why) {
  Options o;
  Parts parts = {0};
  GpuImage image = {0};
  const char *problem = NULL;
  if (!gpu_nvrtc(stop.rt, why))
    return ST_DEVICE;
  if (!make_options(job, &o))
    return ST_USAGE; /* gpu_compile_key has said so */
  Status st = run_nvrtc(job, &o, stop, a, &parts, why);
  if (st != ST_OK)
    return st;
  if (!gpu_image_read(parts.cubin, (size_t)parts.cubin_n, parts.log, a, &image, &problem)) {
    gpu_say(why, "the cubin of %s cannot be used: %s", job->name, problem);
    return ST_COMPILE;
  }
  out->data = pack(&parts, a, &out->n);
  GpuKey key = key_of(stop.rt, stop.rt->nvrtc.version_text, job, &o);
  gpu_cache_put(stop.rt, &key, out->data, out->n);
  return ST_OK;
}

Status gpu_compile_key(GpuRt *rt, const GpuCompile *job, GpuKey *out, Str *why) {
  Options o;
  char version[16];
  if (!version_for_keys(rt, version, why))
    return ST_DEVICE;
  if (!make_options(job, &o)) {
    gpu_say(why, "too many compiler options, or a too long name of an architecture");
    return ST_USAGE;
  }
  *out = key_of(rt, version, job, &o);
  return ST_OK;
}

Status gpu_compile(GpuRt *rt, const GpuCompile *job, Arena *a, GpuImage **out, Str *why) {
  double start = base_now();
  GpuKey key;
  GpuStored stored = {0};
  Parts parts = {0};
  const char *problem = NULL;
  Status st = gpu_compile_key(rt, job, &key, why);
  if (st != ST_OK)
    return st;
  GpuImage *image = ARENA_NEW(a, GpuImage);
  if (!gpu_ahead_take(rt, &key, a, &stored) || !unpack(stored.data, stored.n, a, &parts)) {
    image->cached = gpu_cache_get(rt, &key, a, &stored.data, &stored.n) &&
                    unpack(stored.data, stored.n, a, &parts);
    st = image->cached ? ST_OK : gpu_nvrtc_make(job, (GpuStop){rt, NULL}, a, &stored, why);
    if (st != ST_OK)
      return st;
    if (!image->cached)
      (void)unpack(stored.data, stored.n, a, &parts); /* what was packed just now */
  }
  image->name = arena_strdup(a, job->name);
  image->arch = arena_strdup(a, job->arch);
  image->ptx = job->want_ptx ? parts.ptx : NULL;
  if (!gpu_image_read(parts.cubin, (size_t)parts.cubin_n, parts.log, a, image, &problem)) {
    gpu_say(why, "the cubin of %s cannot be used: %s", job->name, problem);
    return ST_COMPILE;
  }
  image->ms = 1e3 * (base_now() - start);
  *out = image;
  return ST_OK;
}
