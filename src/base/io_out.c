/* io_out.c: files that are written whole or not at all.
 *
 * In: a path, then bytes. Out: the file, or why not. Always holds: a regular file is replaced by
 * rename, after its bytes are on the disk, so a reader sees the old one or the new one and a
 * failure leaves the old one and nothing beside it; between opening and closing no arena memory is
 * asked for, so nothing jumps away from an open descriptor. Tests: tests/unit/check_base_io.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "io.h"

struct IoOut {
  Arena *arena;
  int fd; /* -1: closed */
  int error;
  const char *path;
  char *temporary; /* NULL: path is written itself */
  bool made;       /* there is a file under that name, to be renamed or removed */
  bool keep_mode;
  mode_t mode; /* of the file that is replaced */
};

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

/* The name is short and in the same folder: a long name of the file must not make it too long. */
static char *temporary_name(Arena *a, const char *path) {
  const char *slash = strrchr(path, '/');
  size_t folder = slash ? (size_t)(slash - path) + 1 : 0, size = folder + 40;
  char *name = arena_alloc(a, size);
  memcpy(name, path, folder);
  return name;
}

/* Opens a new file; its name's last part, which is random, is left behind the folder's. */
static void open_temporary(IoOut *o) {
  char *last = strrchr(o->temporary, '/');
  last = last ? last + 1 : o->temporary;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  unsigned long salt = (unsigned long)now.tv_nsec ^ (unsigned long)getpid() << 20;
  for (int attempt = 0; attempt < 100; attempt++) {
    snprintf(last, 40, ".%lx.tmp", salt + (unsigned long)attempt);
    o->fd = open(o->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (o->fd >= 0 || errno != EEXIST)
      break;
  }
  o->made = o->fd >= 0;
  o->error = o->made ? 0 : errno;
}

/* Only a regular file, or none, can be replaced: /dev/null must stay what it is. */
IoOut *io_out_new(Arena *a, const char *path) {
  IoOut *o = ARENA_NEW(a, IoOut);
  struct stat st;
  bool there = stat(path, &st) == 0;
  *o = (IoOut){.arena = a, .fd = -1, .path = path};
  if (there && S_ISDIR(st.st_mode)) {
    o->error = EISDIR;
  } else if (there && !S_ISREG(st.st_mode)) {
    o->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    o->error = o->fd < 0 ? errno : 0;
  } else if (there && access(path, W_OK) != 0) { /* renaming would not ask */
    o->error = errno;
  } else {
    o->path = behind_links(a, path);
    o->temporary = temporary_name(a, o->path);
    o->keep_mode = there;
    o->mode = there ? st.st_mode & 07777 : 0;
    open_temporary(o);
  }
  return o;
}

bool io_out_put(IoOut *o, const void *p, size_t n) {
  if (!o->error && !io_write_fd(o->fd, p, n))
    o->error = errno;
  return o->error == 0;
}

/* Closing tells the errors of some file systems, so its answer counts; one who was interrupted is
 * closed all the same. */
static void close_it(IoOut *o) {
  if (o->fd >= 0 && close(o->fd) != 0 && !o->error && errno != EINTR)
    o->error = errno;
  o->fd = -1;
}

bool io_out_commit(IoOut *o, const char **why) {
  if (!o->error && o->temporary &&
      (fsync(o->fd) != 0 || (o->keep_mode && fchmod(o->fd, o->mode) != 0)))
    o->error = errno;
  close_it(o);
  if (!o->error && o->made) {
    o->made = rename(o->temporary, o->path) != 0;
    o->error = o->made ? errno : 0;
  }
  io_out_end(o);
  if (o->error)
    *why = io_explain(o->arena, o->error);
  return o->error == 0;
}

void io_out_end(IoOut *o) {
  if (!o)
    return;
  close_it(o);
  if (o->made)
    unlink(o->temporary);
  o->made = false;
}

/* The bytes are there already. */
bool io_write_file(Arena *a, const char *path, const void *data, size_t n, const char **why) {
  IoOut *o = io_out_new(a, path);
  io_out_put(o, data, n);
  return io_out_commit(o, why);
}
