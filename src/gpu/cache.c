/* cache.c: compiled kernels on disk, shared by all processes of a user.
 *
 * Goes in: a 32-byte key and bytes. Comes out: the same bytes or nothing. Layout: DIR/cubin/S/KEY,
 * S the first hexadecimal digit of KEY; each of these 16 folders is kept below a sixteenth of the
 * bounds, so that the whole is bounded and a store looks at 256 names at most. DIR/known/KEY holds
 * what was found out about the machine, in the same way; users see neither counted nor listed.
 * Always holds: an entry appears by rename and carries the digest of key and bytes, so
 * half-written, damaged or misplaced ones are never believed; whatever fails costs time, never a
 * result. Entries used lately are touched, the longest untouched go first. Tests:
 * tests/unit/check_gpu.c (damage, read-only, bounds, two processes).
 */
#include "private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SHARDS = 16, KNOWN = SHARDS, FOLDERS, KEY_CHARS = 64, TEMPORARY_SECONDS = 3600 };

typedef struct EntryHead {
  char magic[8];
  uint64_t n;
  GpuKey digest; /* of the key and the bytes */
} EntryHead;

static const char entry_magic[8] = "tilesh1";

/* The key is digested too: an entry renamed to another key is no entry of that key. */
static GpuKey digest_of(const GpuKey *key, const void *data, size_t n) {
  GpuHash h;
  gpu_hash_begin(&h);
  gpu_hash_add(&h, key->b, sizeof key->b);
  gpu_hash_add(&h, data, n);
  return gpu_hash_end(&h);
}

/* File names are lower-case hexadecimal, so that they sort and need no quoting. */
static void key_name(const GpuKey *key, char name[KEY_CHARS + 1]) {
  static const char digits[] = "0123456789abcdef";
  for (int i = 0; i < 32; i++) {
    name[2 * i] = digits[key->b[i] >> 4];
    name[2 * i + 1] = digits[key->b[i] & 15];
  }
  name[KEY_CHARS] = '\0';
}

/* ---- folders ------------------------------------------------------------------------------- */

/* Others could plant code in a folder they can write to. */
static bool folder_is_ours(int fd) {
  struct stat st;
  return fstat(fd, &st) == 0 && (st.st_mode & S_IWOTH) == 0;
}

static int shard_of(const GpuKey *key) {
  return key->b[0] >> 4;
}

/* Of the cache's own folder: "cubin/7", "known". */
static const char *below(int shard, char path[16]) {
  if (shard == KNOWN)
    snprintf(path, 16, "known");
  else
    snprintf(path, 16, "cubin/%x", (unsigned)shard);
  return path;
}

/* A descriptor of the folder, -1 if it cannot be used; everything below works relative to it, so
 * that a folder moved meanwhile cannot send a name elsewhere. */
static int open_shard(const GpuRt *rt, int shard, bool make) {
  char path[GPU_PATH + 16], part[16];
  if (!rt->cache_dir[0])
    return -1;
  snprintf(path, sizeof path, "%s/%s", rt->cache_dir, below(shard, part));
  if (make)
    io_make_folders(path);
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0 && !folder_is_ours(fd)) {
    close(fd);
    errno = 0; /* the system has nothing against it */
    return -1;
  }
  return fd;
}

/* ---- reading ------------------------------------------------------------------------------- */

/* All n bytes, over short reads and signals. */
static bool read_all(int fd, void *buf, size_t n) {
  char *p = buf;
  while (n > 0) {
    ssize_t got = read(fd, p, n);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return false;
    p += got;
    n -= (size_t)got;
  }
  return true;
}

/* Damaged entries are removed at once; what is merely not there is left alone. */
typedef enum Found { FOUND_NONE, FOUND_GOOD, FOUND_DAMAGED } Found;

/* The size is checked before memory is taken for it: a damaged length must not ask for gigabytes.
 */
static Found read_entry(const GpuRt *rt, int fd, const GpuKey *key, Arena *a, const void **data,
                        size_t *n) {
  EntryHead head;
  struct stat st;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
    return FOUND_NONE;
  if (!read_all(fd, &head, sizeof head) || memcmp(head.magic, entry_magic, sizeof head.magic) != 0)
    return FOUND_DAMAGED;
  if (head.n > rt->cfg.cache_bytes || head.n + sizeof head != (uint64_t)st.st_size)
    return FOUND_DAMAGED;
  void *p = arena_alloc(a, (size_t)head.n + 1);
  if (!read_all(fd, p, (size_t)head.n))
    return FOUND_DAMAGED;
  GpuKey digest = digest_of(key, p, (size_t)head.n);
  if (memcmp(&digest, &head.digest, sizeof digest) != 0)
    return FOUND_DAMAGED;
  *data = p;
  *n = (size_t)head.n;
  return FOUND_GOOD;
}

/* One look, for who wants to know before the entry is wanted; reading it may still fail. */
bool gpu_cache_has(const GpuRt *rt, const GpuKey *key) {
  char name[KEY_CHARS + 1];
  int dir = rt->cfg.no_cache ? -1 : open_shard(rt, shard_of(key), false);
  if (dir < 0)
    return false;
  key_name(key, name);
  bool has = faccessat(dir, name, R_OK, 0) == 0;
  close(dir);
  return has;
}

static bool get(GpuRt *rt, int shard, const GpuKey *key, Arena *a, const void **data, size_t *n) {
  char name[KEY_CHARS + 1];
  if (rt->cfg.no_cache)
    return false;
  int dir = open_shard(rt, shard, false);
  if (dir < 0)
    return false;
  key_name(key, name);
  int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  Found found = FOUND_NONE;
  if (fd >= 0) {
    found = read_entry(rt, fd, key, a, data, n);
    if (found == FOUND_GOOD)
      (void)futimens(fd, NULL); /* used lately */
    close(fd);
  }
  if (found == FOUND_DAMAGED)
    (void)unlinkat(dir, name, 0);
  close(dir);
  return found == FOUND_GOOD;
}

bool gpu_cache_get(GpuRt *rt, const GpuKey *key, Arena *a, const void **data, size_t *n) {
  return get(rt, shard_of(key), key, a, data, n);
}

bool gpu_known_get(GpuRt *rt, const GpuKey *key, Arena *a, const void **data, size_t *n) {
  return get(rt, KNOWN, key, a, data, n);
}

/* ---- bounds -------------------------------------------------------------------------------- */

/* What a trim needs to know of one file. */
typedef struct Entry {
  char name[KEY_CHARS + 1];
  struct timespec used;
  uint64_t bytes;
} Entry;

typedef struct Shard {
  Entry *v;
  size_t n, cap;
  uint64_t bytes;
} Shard;

/* Nothing else in the folders is ours to remove. */
static bool is_key(const char *name) {
  return strlen(name) == KEY_CHARS && strspn(name, "0123456789abcdef") == KEY_CHARS;
}

static bool is_temporary(const char *name) {
  return strncmp(name, ".tmp-", 5) == 0;
}

/* A listing that does not fit in memory is cut: bounds are then kept a little later. */
static void shard_add(Shard *s, const char *name, const struct stat *st) {
  if (s->n == s->cap) {
    size_t cap = s->cap ? 2 * s->cap : 64;
    Entry *v = realloc(s->v, cap * sizeof *v);
    if (!v)
      return; /* a bound kept late */
    s->v = v;
    s->cap = cap;
  }
  Entry *e = &s->v[s->n++];
  memcpy(e->name, name, sizeof e->name); /* is_key: as long as that */
  e->used = st->st_mtim;
  e->bytes = (uint64_t)st->st_size;
  s->bytes += e->bytes;
}

/* Lists a folder, and removes what writers that died have left. Consumes dir. */
static Shard shard_scan(int dir) {
  Shard s = {0};
  DIR *d = fdopendir(dir);
  struct dirent *e;
  if (!d) {
    close(dir);
    return s;
  }
  while ((e = readdir(d)) != NULL) {
    struct stat st;
    if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
      continue;
    if (is_key(e->d_name))
      shard_add(&s, e->d_name, &st);
    else if (is_temporary(e->d_name) && st.st_mtim.tv_sec + TEMPORARY_SECONDS < time(NULL))
      (void)unlinkat(dirfd(d), e->d_name, 0);
  }
  closedir(d);
  return s;
}

/* Oldest first; the name does not matter. */
static int by_age(const void *pa, const void *pb) {
  const struct timespec *a = &((const Entry *)pa)->used, *b = &((const Entry *)pb)->used;
  if (a->tv_sec != b->tv_sec)
    return a->tv_sec < b->tv_sec ? -1 : 1;
  return (a->tv_nsec > b->tv_nsec) - (a->tv_nsec < b->tv_nsec);
}

/* Another process may remove the same files at the same time: a failing unlink is no matter. */
static void shard_trim(const GpuRt *rt, int dir) {
  uint64_t most_bytes = rt->cfg.cache_bytes / SHARDS;
  size_t most = rt->cfg.cache_entries / SHARDS > 0 ? rt->cfg.cache_entries / SHARDS : 1;
  int copy = dup(dir);
  if (copy < 0)
    return;
  Shard s = shard_scan(copy);
  if (s.n > most || s.bytes > most_bytes)
    qsort(s.v, s.n, sizeof *s.v, by_age);
  for (size_t i = 0; i < s.n && (s.n - i > most || s.bytes > most_bytes); i++) {
    (void)unlinkat(dir, s.v[i].name, 0);
    s.bytes -= s.v[i].bytes;
  }
  free(s.v);
}

/* ---- writing ------------------------------------------------------------------------------- */

/* All n bytes, over short writes and signals; false on a full disk too. */
static bool write_all(int fd, const void *data, size_t n) {
  const char *p = data;
  while (n > 0) {
    ssize_t put = write(fd, p, n);
    if (put < 0 && errno == EINTR)
      continue;
    if (put <= 0)
      return false;
    p += put;
    n -= (size_t)put;
  }
  return true;
}

/* No fsync: what a crash tears is caught by the digest. */
static bool write_entry(int fd, const GpuKey *key, const void *data, size_t n) {
  EntryHead head = {.n = n, .digest = digest_of(key, data, n)};
  memcpy(head.magic, entry_magic, sizeof head.magic);
  bool ok = write_all(fd, &head, sizeof head) && write_all(fd, data, n);
  return close(fd) == 0 && ok;
}

/* Through a temporary name in the same folder, which rename replaces in one step: readers see the
 * old entry, the new one, or none. */
static void put(GpuRt *rt, int shard, const GpuKey *key, const void *data, size_t n) {
  char name[KEY_CHARS + 1], part[16], path[GPU_PATH + 96], target[GPU_PATH + 96];
  if (rt->cfg.no_cache || n + sizeof(EntryHead) > rt->cfg.cache_bytes / SHARDS)
    return;
  int dir = open_shard(rt, shard, true);
  if (dir < 0)
    return;
  key_name(key, name);
  snprintf(path, sizeof path, "%s/%s/.tmp-XXXXXX", rt->cache_dir, below(shard, part));
  snprintf(target, sizeof target, "%s/%s/%s", rt->cache_dir, below(shard, part), name);
  int fd = mkstemp(path);
  if (fd >= 0) {
    bool ok = write_entry(fd, key, data, n) && rename(path, target) == 0;
    if (!ok)
      (void)unlink(path);
    shard_trim(rt, dir);
  }
  close(dir);
}

void gpu_cache_put(GpuRt *rt, const GpuKey *key, const void *data, size_t n) {
  put(rt, shard_of(key), key, data, n);
}

void gpu_known_put(GpuRt *rt, const GpuKey *key, const void *data, size_t n) {
  put(rt, KNOWN, key, data, n);
}

/* ---- what the user sees -------------------------------------------------------------------- */

/* Says why in the words of the system where it can. */
static void check_usable(const GpuRt *rt, GpuCacheInfo *info) {
  const char *why = NULL;
  char words[64];
  if (rt->cache_dir_bytes > 0) {
    snprintf(words, sizeof words, "its path of %zu bytes is too long", rt->cache_dir_bytes);
    why = words;
  } else if (!rt->cache_dir[0])
    why = "no place: set HOME, XDG_CACHE_HOME or TILESH_CACHE_DIR";
  else if (rt->cfg.no_cache)
    why = "switched off";
  else {
    int fd = open_shard(rt, 0, true);
    char path[GPU_PATH + 16];
    snprintf(path, sizeof path, "%s/cubin/0", rt->cache_dir);
    if (fd >= 0)
      why = access(path, R_OK | W_OK | X_OK) == 0 ? NULL : strerror(errno);
    else
      why = errno ? strerror(errno) : "writable by other users";
    if (fd >= 0)
      close(fd);
  }
  info->usable = !why;
  snprintf(info->problem, sizeof info->problem, "%s", why ? why : "");
}

GpuCacheInfo gpu_cache_info(GpuRt *rt) {
  GpuCacheInfo info = {0};
  info.dir = rt->cache_dir;
  errno = 0;
  check_usable(rt, &info);
  for (int i = 0; i < SHARDS; i++) {
    int dir = open_shard(rt, i, false);
    if (dir < 0)
      continue;
    Shard s = shard_scan(dir);
    info.entries += (unsigned)s.n;
    info.bytes += s.bytes;
    free(s.v);
  }
  return info;
}

/* Entries only: the folders stay, and so does whatever else a user keeps there. */
unsigned gpu_cache_clear(GpuRt *rt) {
  unsigned removed = 0;
  for (int i = 0; i < FOLDERS; i++) {
    int dir = open_shard(rt, i, false);
    int copy = dir < 0 ? -1 : dup(dir);
    if (copy >= 0) {
      Shard s = shard_scan(copy);
      for (size_t k = 0; k < s.n; k++)
        removed += unlinkat(dir, s.v[k].name, 0) == 0 && i != KNOWN;
      free(s.v);
    }
    if (dir >= 0)
      close(dir);
  }
  return removed;
}
