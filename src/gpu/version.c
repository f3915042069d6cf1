/* version.c: NVRTC's version, which is part of every key of the cache, without opening NVRTC.
 *
 * Goes in: where the loader would look. Comes out: the version that the library there had when it
 * was last opened. Always holds: a version is known only of the very file (device, inode, size,
 * time of change) that was opened from the same places in the same state; whatever has changed, the
 * library is opened and asked. Opening it takes several milliseconds of a start whose kernels are
 * all in the cache. Tests: tests/unit/check_gpu.c.
 */
#include "private.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* As the cache holds it, padding zero. */
typedef struct Known {
  int64_t device, inode, size, seconds, nanoseconds;
  char path[512];
  char version[16];
} Known;

static bool identify(const char *path, Known *out) {
  struct stat s;
  if (stat(path, &s) != 0)
    return false;
  out->device = (int64_t)s.st_dev;
  out->inode = (int64_t)s.st_ino;
  out->size = (int64_t)s.st_size;
  out->seconds = (int64_t)s.st_mtim.tv_sec;
  out->nanoseconds = (int64_t)s.st_mtim.tv_nsec;
  return true;
}

/* A folder's time of change tells what came into it and went. */
static void hash_place(GpuHash *h, const char *path) {
  Known place;
  memset(&place, 0, sizeof place);
  (void)identify(path, &place);
  gpu_hash_text(h, path);
  gpu_hash_add(h, &place, sizeof place);
}

static void hash_folders(GpuHash *h, const char *list) {
  char folder[GPU_PATH];
  while (gpu_next_folder(&list, folder))
    hash_place(h, folder);
}

/* Whether the loader reads a list as it stands here: it takes `;` too, an empty part is the folder
 * that the program runs in, and $ORIGIN and its like are replaced. */
static bool is_plain(const char *list) {
  size_t n = strlen(list);
  return n == 0 ||
         (!strpbrk(list, ";$") && list[0] != ':' && list[n - 1] != ':' && !strstr(list, "::"));
}

/* Of all places from which the first name would be opened before any other; false: not all are
 * known. */
static bool find_places(const GpuRt *rt, const char *name, GpuKey *out) {
  const char *loader = getenv("LD_LIBRARY_PATH");
  GpuHash h;
  if (!rt->only_library_path && loader && !is_plain(loader))
    return false;
  gpu_hash_begin(&h);
  gpu_hash_text(&h, "NVRTC");
  gpu_hash_text(&h, rt->build_id);
  gpu_hash_text(&h, name);
  gpu_hash_text(&h, rt->library_path ? rt->library_path : "");
  if (rt->only_library_path)
    hash_folders(&h, rt->library_path ? rt->library_path : "");
  else
    hash_folders(&h, loader ? loader : "");
  hash_place(&h, "/etc/ld.so.cache");
  *out = gpu_hash_end(&h);
  return true;
}

/* ---- reading ------------------------------------------------------------------------------- */

typedef struct Reading {
  GpuRt *rt;
  GpuKey key;
  Known known;
  bool there;
} Reading;

static void read_entry(Guard *guard, void *ctx) {
  Reading *r = ctx;
  const void *data;
  size_t n;
  Arena *a = arena_new(guard, "version");
  r->there = gpu_known_get(r->rt, &r->key, a, &data, &n) && n == sizeof r->known;
  if (r->there)
    memcpy(&r->known, data, n);
  arena_free(a);
}

void gpu_version_recall(GpuRt *rt, const char *name) {
  Reading r = {.rt = rt};
  Known now;
  if (!find_places(rt, name, &r.key) || guard_run(read_entry, &r) != ST_OK || !r.there)
    return;
  r.known.path[sizeof r.known.path - 1] = '\0';
  r.known.version[sizeof r.known.version - 1] = '\0';
  now = r.known;
  if (identify(r.known.path, &now) && memcmp(&now, &r.known, sizeof now) == 0)
    memcpy(rt->known_version, r.known.version, sizeof rt->known_version);
}

/* ---- writing ------------------------------------------------------------------------------- */

/* Whether it is what the first name stands for, with no place left out that comes before. */
static bool is_first(const GpuRt *rt, const char *path, const char *name) {
  const char *slash = strrchr(path, '/');
  return rt->only_library_path ? slash && strcmp(slash + 1, name) == 0 : strcmp(path, name) == 0;
}

void gpu_version_keep(GpuRt *rt, const char *name) {
  const Nvrtc *t = &rt->nvrtc;
  Dl_info info;
  void *inside;
  Known now;
  memset(&now, 0, sizeof now);
  memcpy(&inside, &t->version, sizeof inside); /* as in gpu_lib_symbol */
  if (!is_first(rt, t->lib.path, name) || !dladdr(inside, &info) || !info.dli_fname ||
      strlen(info.dli_fname) >= sizeof now.path || !identify(info.dli_fname, &now))
    return;
  memcpy(now.path, info.dli_fname, strlen(info.dli_fname));
  memcpy(now.version, t->version_text, strlen(t->version_text));
  GpuKey key;
  if (find_places(rt, name, &key))
    gpu_known_put(rt, &key, &now, sizeof now);
}
