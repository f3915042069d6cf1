/* storage.c: the memory behind tensors, and on which side it is valid.
 *
 * In: sizes in bytes, device handles. Out: reference-counted storages. Host bytes that
 * were allocated are 64-byte aligned, those of a mapped file aligned to their elements; both are
 * followed by 64 readable bytes, so that vector loops need no tail of their own. What would not fit
 * in memory is refused before it is asked for: Linux hands out more than it has, and a killed
 * process is no error message. Tests: tests/unit/check_tensor.c.
 */
#include "impl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGN = 64, PAD = 64 };

/* Sizes below this are not checked against free memory: reading /proc costs more than they do. */
static const size_t unchecked_bytes = (size_t)64 << 20;

struct Storage {
  size_t refs;
  size_t bytes;
  void *block;   /* what malloc or mmap gave; NULL until the host copy is first needed */
  size_t mapped; /* bytes that mmap gave, or 0: malloc's */
  char *host;    /* the first byte inside block */
  bool host_valid, device_valid;
  const StorageDevice *device;
  void *handle;
};

/* why may be NULL everywhere: some callers only want to know whether. */
void tensor_why(Str *why, const char *fmt, ...) {
  if (!why)
    return;
  va_list ap;
  va_start(ap, fmt);
  str_vaddf(why, fmt, ap);
  va_end(ap);
}

/* A number after `key` in a /proc or cgroup file; false if it is not there. */
static bool read_number(const char *path, const char *key, uint64_t *out) {
  FILE *f = fopen(path, "re");
  if (!f)
    return false;
  char line[256];
  bool found = false;
  while (!found && fgets(line, sizeof line, f)) {
    size_t n = strlen(key);
    if (strncmp(line, key, n) != 0)
      continue;
    char *end = NULL;
    *out = strtoull(line + n, &end, 10);
    found = end != line + n;
  }
  fclose(f);
  return found;
}

/* The machine's limit, and the control group's. */
uint64_t storage_free_memory(void) {
  uint64_t kib = 0, limit = 0, used = 0, room = UINT64_MAX;
  if (read_number("/proc/meminfo", "MemAvailable:", &kib))
    room = kib * 1024;
  if (read_number("/sys/fs/cgroup/memory.max", "", &limit) &&
      read_number("/sys/fs/cgroup/memory.current", "", &used)) {
    uint64_t cache = 0;
    if (read_number("/sys/fs/cgroup/memory.stat", "inactive_file ", &cache) && cache <= used)
      used -= cache;
    uint64_t left = limit > used ? limit - used : 0;
    room = left < room ? left : room;
  }
  return room;
}

/* "3.6 TiB": one digit after the point, as people size memory. */
static void add_bytes(Str *why, double bytes) {
  static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t u = 0;
  while (bytes >= 1024.0 && u + 1 < sizeof unit / sizeof *unit) {
    bytes /= 1024.0;
    u++;
  }
  tensor_why(why, u == 0 ? "%.0f %s" : "%.1f %s", bytes, unit[u]);
}

/* The request is refused before it is made where it is larger than what is free. */
static bool host_alloc(Storage *s, TensorFill fill, Str *why) {
  uint64_t room = s->bytes >= unchecked_bytes ? storage_free_memory() : UINT64_MAX;
  if (s->bytes <= room && s->bytes <= SIZE_MAX - ALIGN - PAD) {
    size_t n = s->bytes + ALIGN + PAD;
    s->block = fill == TENSOR_ZERO ? calloc(1, n) : malloc(n);
  }
  if (!s->block) {
    tensor_why(why, "needs ");
    add_bytes(why, (double)s->bytes);
    tensor_why(why, ", more memory than is free");
    return false;
  }
  s->host = (char *)s->block + (ALIGN - (uintptr_t)s->block % ALIGN) % ALIGN;
  if (fill != TENSOR_ZERO) /* the pad is read by vector loops: no uninitialised bytes there */
    memset(s->host + s->bytes, 0, PAD);
  return true;
}

/* The host copy is made at once and is valid. */
Storage *storage_new(size_t bytes, TensorFill fill, Str *why) {
  Storage *s = calloc(1, sizeof *s);
  if (!s) {
    tensor_why(why, "needs memory, and there is none");
    return NULL;
  }
  s->refs = 1;
  s->bytes = bytes;
  s->host_valid = true;
  if (!host_alloc(s, fill, why)) {
    free(s);
    return NULL;
  }
  return s;
}

/* The storage owns the mapping from now on; it is private, so writing to it stays here. */
Storage *storage_new_mapped(void *base, size_t length, size_t before, size_t bytes) {
  Storage *s = calloc(1, sizeof *s);
  if (!s)
    return NULL;
  *s = (Storage){.refs = 1, .bytes = bytes, .block = base, .mapped = length, .host_valid = true};
  s->host = (char *)base + before;
  return s;
}

/* Only the device has the data; host memory is asked for when the host first reads. The handle is
 * taken over also where this fails. */
Storage *storage_new_device(size_t bytes, const StorageDevice *device, void *handle, Str *why) {
  Storage *s = calloc(1, sizeof *s);
  if (!s) {
    tensor_why(why, "needs memory, and there is none");
    device->release(handle);
    return NULL;
  }
  s->refs = 1;
  s->bytes = bytes;
  storage_set_device(s, device, handle, true);
  return s;
}

/* One more tensor shares it. */
Storage *storage_retain(Storage *s) {
  s->refs++;
  return s;
}

/* The device copy is the storage's own and goes with it. */
void storage_release(Storage *s) {
  if (!s || --s->refs > 0)
    return;
  if (s->device)
    s->device->release(s->handle);
  if (s->mapped)
    munmap(s->block, s->mapped);
  else
    free(s->block);
  free(s);
}

/* What a copy to a device moves. */
size_t storage_bytes(const Storage *s) {
  return s->bytes;
}
/* Residency: host, device, or both; never neither. */
bool storage_on_host(const Storage *s) {
  return s->host_valid;
}
bool storage_on_device(const Storage *s) {
  return s->device_valid;
}
void *storage_device_handle(const Storage *s) {
  return s->handle;
}
void *storage_device_data(const Storage *s) {
  return s->device_valid ? s->handle : NULL;
}
const StorageDevice *storage_device(const Storage *s) {
  return s->device;
}
char *storage_host(const Storage *s) {
  return s->host;
}

/* A second device copy replaces the first. */
void storage_set_device(Storage *s, const StorageDevice *device, void *handle, bool valid) {
  if (s->device && (s->handle != handle || s->device != device))
    s->device->release(s->handle);
  s->device = device;
  s->handle = handle;
  s->device_valid = valid;
}

void storage_device_wrote(Storage *s) {
  s->device_valid = true;
  s->host_valid = false;
}

void storage_device_synced(Storage *s) {
  s->device_valid = true;
}

/* The device copy is kept, its memory can be filled again, but it is stale. */
void storage_host_wrote(Storage *s) {
  s->device_valid = false;
}

/* Idempotent; the fetch waits for what the device still has to do. */
bool storage_to_host(Storage *s, Str *why) {
  if (s->host_valid)
    return true;
  if (!s->block && !host_alloc(s, TENSOR_UNSET, why))
    return false;
  if (!s->device || !s->device_valid) {
    tensor_why(why, "lived only on a device that was lost");
    return false;
  }
  if (!s->device->fetch(s->handle, s->host, s->bytes, why))
    return false;
  s->host_valid = true;
  return true;
}
