/* rt.c: the host side of the backend: configuration, environment, small helpers.
 *
 * Goes in: a GpuConfig and the environment, read here and nowhere else. Comes out: a GpuRt. Always
 * holds: making one opens no library and touches no file. Tests: tests/unit/check_gpu.c.
 */
#include "private.h"

#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* An empty variable counts as unset. */
static const char *env_or_null(const char *name) {
  const char *s = getenv(name);
  return s && *s ? s : NULL;
}

enum { ENTRY_NAME = 80 }; /* room for the names of entries */

/* A folder that does not fit is no place: dir stays empty and the cache says so. */
static void find_cache_dir(GpuRt *rt) {
  const char *dir = rt->cfg.cache_dir ? rt->cfg.cache_dir : env_or_null("TILESH_CACHE_DIR");
  const char *xdg = env_or_null("XDG_CACHE_HOME"), *home = env_or_null("HOME");
  size_t size = sizeof rt->cache_dir;
  int n = 0;
  if (dir)
    n = snprintf(rt->cache_dir, size, "%s", dir);
  else if (xdg && xdg[0] == '/') /* the specification says to ignore relative ones */
    n = snprintf(rt->cache_dir, size, "%s/tilesh", xdg);
  else if (home)
    n = snprintf(rt->cache_dir, size, "%s/.cache/tilesh", home);
  if (n < 0 || (size_t)n < size - ENTRY_NAME)
    return;
  rt->cache_dir_bytes = (size_t)n;
  rt->cache_dir[0] = '\0';
}

/* Given but empty, no place is searched: how tests take the libraries away. */
static void find_library_path(GpuRt *rt) {
  const char *path = rt->cfg.library_path ? rt->cfg.library_path : getenv("TILESH_CUDA_PATH");
  if (!path)
    return;
  rt->only_library_path = true;
  rt->library_path = strdup(path);
}

/* The hexadecimal build-id of this program, or a digest of its size and date where it has none. */
static void set_build_id(char *out, size_t n);

GpuRt *gpu_rt_new(const GpuConfig *cfg) {
  GpuRt *rt = calloc(1, sizeof *rt);
  if (!rt)
    return NULL;
  if (cfg)
    rt->cfg = *cfg;
  if (!rt->cfg.cache_bytes)
    rt->cfg.cache_bytes = (uint64_t)1 << 30;
  if (!rt->cfg.cache_entries)
    rt->cfg.cache_entries = 4096;
  find_cache_dir(rt);
  find_library_path(rt);
  set_build_id(rt->build_id, sizeof rt->build_id);
  pthread_mutex_init(&rt->lock, NULL);
  pthread_mutex_init(&rt->driver_lock, NULL);
  pthread_mutex_init(&rt->ahead_lock, NULL);
  return rt;
}

void gpu_rt_free(GpuRt *rt) {
  if (!rt)
    return;
  gpu_ahead_free(rt);
  gpu_driver_free(rt);
  gpu_lib_close(&rt->nvrtc.lib);
  free(rt->library_path);
  pthread_mutex_destroy(&rt->ahead_lock);
  pthread_mutex_destroy(&rt->driver_lock);
  pthread_mutex_destroy(&rt->lock);
  free(rt);
}

void gpu_say(Str *why, const char *fmt, ...) {
  if (!why)
    return;
  va_list ap;
  va_start(ap, fmt);
  str_vaddf(why, fmt, ap);
  va_end(ap);
}

bool gpu_interrupted(const GpuRt *rt) {
  return rt->cfg.interrupted && rt->cfg.interrupted(rt->cfg.ctx);
}

bool gpu_thread(pthread_t *out, void *(*fn)(void *), void *arg) {
  enum { STACK = 8 << 20 }; /* compilers recurse: not what the system happens to give */
  pthread_attr_t attr;
  sigset_t all, old;
  if (pthread_attr_init(&attr) != 0)
    return false;
  (void)pthread_attr_setstacksize(&attr, STACK);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  bool made = pthread_create(out, &attr, fn, arg) == 0;
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  pthread_attr_destroy(&attr);
  return made;
}

/* Three digits, in binary units; for people. */
const char *gpu_size_text(uint64_t bytes, char *buf, size_t n) {
  static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double x = (double)bytes;
  size_t u = 0;
  while (x >= 1024 && u + 1 < sizeof unit / sizeof *unit) {
    x /= 1024;
    u++;
  }
  /* tenths by integer arithmetic: the decimal point is not the locale's business */
  unsigned long long tenths = (unsigned long long)(x * 10 + 0.5);
  if (u == 0 || tenths >= 1000)
    snprintf(buf, n, "%llu %s", (tenths + 5) / 10, unit[u]);
  else
    snprintf(buf, n, "%llu.%llu %s", tenths / 10, tenths % 10, unit[u]);
  return buf;
}

/* From Hopper on, the tensor core instructions are in the 'a' targets only. */
void gpu_arch_name(int major, int minor, char *out, size_t n) {
  snprintf(out, n, "sm_%d%d%s", major, minor, major >= 9 ? "a" : "");
}

/* ---- the build-id -------------------------------------------------------------------------- */

typedef struct BuildId {
  char *out;
  size_t n;
  bool found;
} BuildId;

static void hex(char *out, size_t n, const unsigned char *p, size_t size) {
  static const char digits[] = "0123456789abcdef";
  size_t k = 0;
  for (size_t i = 0; i < size && k + 2 < n; i++) {
    out[k++] = digits[p[i] >> 4];
    out[k++] = digits[p[i] & 15];
  }
  out[k] = '\0';
}

/* The notes of one segment; their sizes are trusted no further than its end. */
static void scan_notes(const unsigned char *p, size_t n, BuildId *id) {
  size_t at = 0;
  while (at + 12 <= n && !id->found) {
    uint32_t h[3]; /* name size, value size, type */
    memcpy(h, p + at, sizeof h);
    size_t name = at + 12, value = name + (((size_t)h[0] + 3) & ~(size_t)3);
    size_t next = value + (((size_t)h[1] + 3) & ~(size_t)3);
    if (value > n || value + h[1] > n)
      return;
    if (h[2] == NT_GNU_BUILD_ID && h[0] == 4 && memcmp(p + name, "GNU", 4) == 0) {
      hex(id->out, id->n, p + value, h[1]);
      id->found = true;
    }
    at = next;
  }
}

/* The first object reported is the program itself; the walk ends there. */
static int scan_program(struct dl_phdr_info *info, size_t size, void *ctx) {
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
    if (ph->p_type != PT_NOTE)
      continue;
    uintptr_t p = (uintptr_t)info->dlpi_addr + (uintptr_t)ph->p_vaddr;
    scan_notes((const unsigned char *)p, (size_t)ph->p_memsz, ctx);
  }
  return 1;
}

static void set_build_id(char *out, size_t n) {
  BuildId id = {out, n, false};
  struct stat st;
  out[0] = '\0';
  dl_iterate_phdr(scan_program, &id);
  if (!id.found && stat("/proc/self/exe", &st) == 0)
    snprintf(out, n, "%llx-%llx.%lx", (unsigned long long)st.st_size,
             (unsigned long long)st.st_mtim.tv_sec, (unsigned long)st.st_mtim.tv_nsec);
}
