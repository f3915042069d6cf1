/* shim.c: makes one allocation or one write of a program fail; loaded before the C library.
 *
 * In, by the environment: FAULT_ALLOC=N fails the N-th allocation (from 1) and, with FAULT_STAY=1,
 * all after it; FAULT_WRITE=N the N-th write, fsync or rename with ENOSPC; FAULT_COUNT=FILE says at
 * the end how many of each there were. Those of libtinfo never fail: below readline it makes its
 * tables without looking whether it got them, and nobody above can. Used by tests/faults/run.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static atomic_long allocations, writes;
static long fail_alloc, fail_write;
static int stay;
static const char *count_file;

static long number(const char *name) {
  const char *text = getenv(name);
  return text ? strtol(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void begin(void) {
  stay = (int)number("FAULT_STAY");
  fail_write = number("FAULT_WRITE");
  count_file = getenv("FAULT_COUNT");
  atomic_store(&allocations, 0); /* those of the loader do not count */
  fail_alloc = number("FAULT_ALLOC");
}

__attribute__((destructor)) static void end(void) {
  if (!count_file)
    return;
  char text[64];
  int n = snprintf(text, sizeof text, "%ld %ld\n", atomic_load(&allocations), atomic_load(&writes));
  int fd = open(count_file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  syscall(SYS_write, fd, text, n);
  close(fd);
}

static int of_libtinfo(const void *caller) {
  Dl_info from;
  return dladdr(caller, &from) && strstr(from.dli_fname, "libtinfo");
}

static int fails(const void *caller) {
  long at = atomic_fetch_add(&allocations, 1) + 1;
  if (!fail_alloc || (stay ? at < fail_alloc : at != fail_alloc))
    return 0;
  if (of_libtinfo(caller))
    return 0;
  errno = ENOMEM;
  return 1;
}

void *malloc(size_t size) {
  return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size) {
  return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size) {
  return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(p, size);
}

/* The C library's own would hide who asks. */
char *strdup(const char *text) {
  size_t n = strlen(text) + 1;
  char *copy = fails(__builtin_return_address(0)) ? NULL : __libc_malloc(n);
  return copy ? memcpy(copy, text, n) : NULL;
}

void *aligned_alloc(size_t alignment, size_t size) {
  return fails(__builtin_return_address(0)) ? NULL : __libc_memalign(alignment, size);
}

ssize_t write(int fd, const void *data, size_t n) {
  if (atomic_fetch_add(&writes, 1) + 1 == fail_write && fd != 2) {
    errno = ENOSPC;
    return -1;
  }
  return syscall(SYS_write, fd, data, n);
}

static int write_fails(void) {
  if (atomic_fetch_add(&writes, 1) + 1 != fail_write)
    return 0;
  errno = ENOSPC;
  return 1;
}

int fsync(int fd) {
  return write_fails() ? -1 : (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to) {
  return write_fails() ? -1 : (int)syscall(SYS_renameat2, -100, from, -100, to, 0); /* AT_FDCWD */
}
