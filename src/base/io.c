/* io.c: whole files in and out, and writes that tell when they failed.
 *
 * In: paths and bytes. Out: bytes, or why not. Always holds: no descriptor is left open whatever
 * happens, also when the arena runs out of memory; a regular file is replaced whole or not at all.
 * Tests: tests/unit/check_base_io.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "str.h"

/* ---- writing ------------------------------------------------------------------------------- */

/* Waits until a descriptor that was set non-blocking takes bytes again. */
static bool wait_writable(int fd) {
  struct pollfd p = {.fd = fd, .events = POLLOUT};
  return poll(&p, 1, -1) >= 0 || errno == EINTR;
}

/* A signal without SA_RESTART ends a write early or with EINTR; neither is a failure. Nor is
 * a descriptor that somebody (a shell, ssh) left non-blocking. */
static bool write_all(int fd, const char *s, size_t n) {
  while (n > 0) {
    ssize_t wrote = write(fd, s, n < 0x40000000 ? n : 0x40000000);
    if (wrote > 0) {
      s += wrote;
      n -= (size_t)wrote;
    } else if (wrote == 0) {
      errno = EIO;
      return false;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_writable(fd))
        return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

/* Bytes that stdio still holds stay in its buffer when it is interrupted, so trying again is safe.
 */
static bool flush(FILE *f) {
  while (fflush(f) != 0) {
    if (errno != EINTR && errno != EAGAIN)
      return false;
    if (errno == EAGAIN && !wait_writable(fileno(f)))
      return false;
    clearerr(f);
  }
  return true;
}

/* Past stdio, because after a partial failure it cannot say how much was written. */
bool io_write(FILE *f, const char *s, size_t n) {
  int fd = fileno(f);
  if (fd < 0) /* a stream in memory */
    return fwrite(s, 1, n, f) == n && fflush(f) == 0;
  return flush(f) && write_all(fd, s, n);
}

/* ---- reading ------------------------------------------------------------------------------- */

/* What read_all needs, so that it can run under a boundary. */
typedef struct Reading {
  Arena *arena;
  int fd;
  size_t expected; /* of a regular file, else 0 */
  Str text;
  int error;
} Reading;

/* Of what does not say its size: a device like /dev/zero has no end. */
enum { MOST_BYTES = 1 << 28 };

/* Reads until the end under a boundary of its own, so that io_read_file can close the descriptor
 * when memory runs out. The expected size is only a hint: files grow, and /proc says 0. */
static void read_all(Guard *guard, void *ctx) {
  Reading *r = ctx;
  Guard *outer = arena_guard(r->arena);
  arena_set_guard(r->arena, guard);
  str_pad(&r->text, '\0', r->expected + 1); /* one more, to see the end without growing */
  r->text.n = 0;
  size_t most = r->expected ? SIZE_MAX : MOST_BYTES;
  while (r->text.n <= most) {
    if (r->text.cap - r->text.n < 2) {
      size_t had = r->text.n;
      str_pad(&r->text, '\0', 65536);
      r->text.n = had;
    }
    ssize_t got = read(r->fd, r->text.s + r->text.n, r->text.cap - r->text.n - 1);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0) {
      r->error = got < 0 ? errno : 0;
      break;
    }
    r->text.n += (size_t)got;
  }
  if (r->text.n > most)
    r->error = EFBIG;
  r->text.s[r->text.n] = '\0';
  arena_set_guard(r->arena, outer);
}

/* The words for an errno, in the arena. */
static char *explain(Arena *a, int error) {
  char buffer[128];
  return arena_strdup(a, strerror_r(error, buffer, sizeof buffer));
}

/* Out of memory is raised to the boundary of the arena's owner only after the file is closed. */
char *io_read_file(Arena *a, const char *path, size_t *n, const char **why) {
  int fd;
  do {
    fd = open(path, O_RDONLY | O_CLOEXEC);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0)
    return *why = explain(a, errno), NULL;
  Reading r = {.arena = a, .fd = fd, .text = str_new(a)};
  struct stat st;
  if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
    r.expected = (size_t)st.st_size;
  Guard *outer = arena_guard(a);
  Status status = guard_run(read_all, &r);
  arena_set_guard(a, outer);
  close(fd);
  if (status != ST_OK && outer)
    guard_raise(outer, status);
  if (status != ST_OK || r.error)
    return *why = explain(a, status != ST_OK ? ENOMEM : r.error), NULL;
  *n = r.text.n;
  return r.text.s;
}

/* ---- whole files --------------------------------------------------------------------------- */

/* Writes into something that cannot be replaced: a device, a pipe. */
static int write_into(const char *path, const void *data, size_t n) {
  int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0)
    return errno;
  int error = write_all(fd, data, n) ? 0 : errno;
  if (close(fd) != 0 && !error && errno != EINTR)
    error = errno;
  return error;
}

/* Opens a new file beside `path`; its name is left in `temporary`. */
static int open_beside(char *temporary, size_t size, const char *path, mode_t mode) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  unsigned long salt = (unsigned long)now.tv_nsec ^ (unsigned long)getpid() << 20;
  for (int attempt = 0; attempt < 100; attempt++) {
    snprintf(temporary, size, "%s.%lx.tmp", path, salt + (unsigned long)attempt);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd >= 0 || errno != EEXIST)
      return fd;
  }
  return -1;
}

/* Writes, syncs and renames; whatever fails, the new name is removed. Returns an errno or 0. */
static int replace(const char *path, char *temporary, size_t size, const struct stat *old,
                   const void *data, size_t n) {
  int fd = open_beside(temporary, size, path, 0666);
  if (fd < 0)
    return errno;
  int error = 0;
  if (!write_all(fd, data, n) || fsync(fd) != 0 || (old && fchmod(fd, old->st_mode & 07777) != 0))
    error = errno;
  if (close(fd) != 0 && !error)
    error = errno;
  if (!error && rename(temporary, path) != 0)
    error = errno;
  if (error)
    unlink(temporary);
  return error;
}

/* Follows symbolic links by hand, so that the file behind one is replaced and not the link. */
static const char *behind_links(Arena *a, const char *path) {
  struct stat st;
  for (int hops = 0; hops < 40 && lstat(path, &st) == 0 && S_ISLNK(st.st_mode); hops++) {
    char *target = arena_alloc(a, 4097);
    ssize_t n = readlink(path, target, 4096);
    if (n <= 0)
      break;
    const char *slash = strrchr(path, '/');
    path = target[0] == '/' || !slash
               ? target
               : arena_printf(a, "%.*s/%s", (int)(slash - path), path, target);
  }
  return path;
}

/* Only a regular file, or none, can be replaced: /dev/null must stay what it is. */
bool io_write_file(Arena *a, const char *path, const void *data, size_t n, const char **why) {
  struct stat st;
  bool there = stat(path, &st) == 0;
  int error;
  if (there && S_ISDIR(st.st_mode)) {
    error = EISDIR;
  } else if (there && !S_ISREG(st.st_mode)) {
    error = write_into(path, data, n);
  } else {
    path = behind_links(a, path);
    size_t size = strlen(path) + 32;
    error = replace(path, arena_alloc(a, size), size, there ? &st : NULL, data, n);
  }
  if (error)
    *why = explain(a, error);
  return error == 0;
}
