/* io.c: whole files in, and writes that tell when they failed.
 *
 * In: paths and bytes. Out: bytes, or why not. Always holds: no descriptor is left open whatever
 * happens, also when the arena runs out of memory. Files are written by io_out.c. Tests:
 * tests/unit/check_base_io.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "io.h"
#include "str.h"

/* ---- writing ------------------------------------------------------------------------------- */

/* Waits until a descriptor that was set non-blocking takes bytes again. */
static bool wait_writable(int fd) {
  struct pollfd p = {.fd = fd, .events = POLLOUT};
  return poll(&p, 1, -1) >= 0 || errno == EINTR;
}

/* A signal without SA_RESTART ends a write early or with EINTR; neither is a failure. Nor is
 * a descriptor that somebody (a shell, ssh) left non-blocking. */
bool io_write_fd(int fd, const void *p, size_t n) {
  const char *s = p;
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
  return flush(f) && io_write_fd(fd, s, n);
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

/* strerror's buffer is shared; this is not. */
const char *io_explain(Arena *a, int error) {
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
    return *why = io_explain(a, errno), NULL;
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
    return *why = io_explain(a, status != ST_OK ? ENOMEM : r.error), NULL;
  *n = r.text.n;
  return r.text.s;
}

/* ---- folders ------------------------------------------------------------------------------- */

void io_make_folders(char *path) {
  for (char *p = path; *p; p++)
    if (p > path && *p == '/') {
      *p = '\0';
      (void)mkdir(path, 0700);
      *p = '/';
    }
  (void)mkdir(path, 0700);
}
