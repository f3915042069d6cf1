/* file.c: files of tensors, whatever their format.
 *
 * In: a path and a format. Out: tensors by name, or a file. The formats are npy.c, zip_read.c and
 * zip_write.c, and safetensors.c; here is what they share. Always holds: what is open is closed by
 * tensor_file_close, also after a jump; a name stands for one tensor. Tests:
 * tests/unit/check_tensor_file.c, tests/fuzz.
 */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_WHOLE = 1 << 28 };

struct TensorFile {
  Arena *arena;
  const char *path;
  TensorFormat format;
  Source source;
  FileEntries entries;
  Map *index;   /* name to FileEntry * */
  json_t *json; /* a header that is being read */
  z_stream z;
  bool inflating; /* z holds memory */
  unsigned char *buffer;
};

TensorFormat tensor_format(const char *path) {
  static const char *const ending[] = {".npy", ".npz", ".safetensors"};
  size_t n = strlen(path);
  for (int f = TENSOR_NPY; f < TENSOR_NO_FORMAT; f++) {
    size_t k = strlen(ending[f]);
    if (n >= k && strcmp(path + n - k, ending[f]) == 0)
      return (TensorFormat)f;
  }
  return TENSOR_NO_FORMAT;
}

/* Opening ------------------------------------------------------------------------------------ */

TensorFile *tensor_file_new(Arena *a) {
  TensorFile *f = ARENA_NEW(a, TensorFile);
  f->arena = a;
  f->source.fd = -1;
  return f;
}

/* Waits for bytes of what may be a pipe that nobody writes to, and looks at the flag meanwhile. */
static bool wait_readable(const Source *s, Str *why) {
  struct pollfd p = {.fd = s->fd, .events = POLLIN};
  while (poll(&p, 1, 100) <= 0)
    if (file_stopped(s->stop, why))
      return false;
  return true;
}

/* What is no regular file (a pipe, a device) cannot be read at places: it is read whole. The
 * descriptor is the source's while that lasts, so that a jump does not lose it. */
static bool read_whole(TensorFile *f, Str *bytes, Str *why) {
  while (wait_readable(&f->source, why)) {
    str_pad(bytes, '\0', FILE_BUFFER);
    bytes->n -= FILE_BUFFER;
    ssize_t got = read(f->source.fd, bytes->s + bytes->n, FILE_BUFFER);
    if (got == 0)
      return true;
    if (got < 0 && errno != EINTR && errno != EAGAIN) {
      tensor_why(why, "%s", io_explain(f->arena, errno));
      return false;
    }
    bytes->n += got > 0 ? (size_t)got : 0;
    if (bytes->n > MOST_WHOLE) { /* a device like /dev/zero has no end */
      tensor_why(why, "it is no regular file, and longer than %d bytes", MOST_WHOLE);
      return false;
    }
  }
  return false;
}

static bool open_whole(TensorFile *f, Str *why) {
  Str bytes = str_new(f->arena);
  f->source.fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (f->source.fd < 0) {
    tensor_why(why, "%s", io_explain(f->arena, errno));
    return false;
  }
  if (!read_whole(f, &bytes, why))
    return false;
  close(f->source.fd);
  f->source.fd = -1;
  f->source.bytes = str_text(&bytes);
  f->source.size = bytes.n;
  return true;
}

/* Opening a pipe to look at it would already take part in it, so its kind is asked for by name. */
static bool open_source(TensorFile *f, Str *why) {
  struct stat st;
  if (stat(f->path, &st) != 0 || !S_ISREG(st.st_mode))
    return open_whole(f, why);
  do {
    f->source.fd = open(f->path, O_RDONLY | O_CLOEXEC);
  } while (f->source.fd < 0 && errno == EINTR);
  if (f->source.fd >= 0 && fstat(f->source.fd, &st) == 0) {
    f->source.size = (uint64_t)st.st_size;
    return true;
  }
  tensor_why(why, "%s", io_explain(f->arena, errno));
  return false;
}

/* A .npy file is its own directory. */
static bool read_directory(TensorFile *f, Str *why) {
  switch (f->format) {
  case TENSOR_NPZ:
    return zip_read_directory(f->arena, &f->source, &f->entries, why);
  case TENSOR_SAFETENSORS:
    return safetensors_read_directory(f->arena, &f->source, &f->json, &f->entries, why);
  default:
    VEC_PUSH(f->arena, &f->entries,
             ((FileEntry){.name = "", .size = f->source.size, .length = f->source.size}));
    return true;
  }
}

static bool index_names(TensorFile *f, Str *why) {
  f->index = map_new(f->arena);
  for (size_t i = 0; i < f->entries.n; i++)
    if (map_set(f->index, f->entries.v[i].name, &f->entries.v[i])) {
      tensor_why(why, "it has two tensors named \"%s\"", f->entries.v[i].name);
      return false;
    }
  return true;
}

bool tensor_file_open(TensorFile *f, const char *path, TensorFormat format,
                      const volatile sig_atomic_t *stop, Str *why) {
  f->path = path;
  f->format = format;
  f->source.stop = stop;
  tensor_why(why, "%s: ", path);
  return open_source(f, why) && read_directory(f, why) && index_names(f, why);
}

bool tensor_file_open_bytes(TensorFile *f, const void *bytes, size_t n, TensorFormat format,
                            Str *why) {
  f->path = "bytes";
  f->format = format;
  f->source = (Source){.fd = -1, .bytes = bytes, .size = n};
  return read_directory(f, why) && index_names(f, why);
}

size_t tensor_file_count(const TensorFile *f) {
  return f->entries.n;
}

const char *tensor_file_name(const TensorFile *f, size_t i) {
  return f->entries.v[i].name;
}

size_t tensor_file_find(const TensorFile *f, const char *name) {
  const FileEntry *e = map_get(f->index, name);
  return e ? (size_t)(e - f->entries.v) : SIZE_MAX;
}

static void end_inflating(TensorFile *f) {
  if (f->inflating)
    inflateEnd(&f->z);
  f->inflating = false;
}

void tensor_file_close(TensorFile *f) {
  if (!f)
    return;
  end_inflating(f);
  json_decref(f->json);
  f->json = NULL;
  if (f->source.fd >= 0)
    close(f->source.fd);
  f->source.fd = -1;
}

/* Reading ------------------------------------------------------------------------------------ */

/* zlib's memory is the file's, so that a jump does not lose it. */
static bool open_stream(TensorFile *f, const FileEntry *e, Stream *s, Str *why) {
  *s = (Stream){.source = &f->source,
                .at = e->at,
                .end = e->at + e->size,
                .left = e->length,
                .deflated = e->deflated,
                .checked = e->checked};
  if (!e->deflated)
    return true;
  if (!f->buffer)
    f->buffer = arena_alloc(f->arena, FILE_BUFFER);
  f->z = (z_stream){.zalloc = NULL};
  f->inflating = inflateInit2(&f->z, -MAX_WBITS) == Z_OK;
  s->z = &f->z;
  s->buffer = f->buffer;
  if (!f->inflating)
    tensor_why(why, "there is no memory to inflate it");
  return f->inflating;
}

/* A member of an archive is exactly its tensor. What follows the tensor of a .npy file belongs to
 * others: NumPy writes several, one after the other. */
static bool finish_stream(const FileEntry *e, const Stream *s, Str *why) {
  if (!e->checked)
    return true;
  if (s->left > 0)
    tensor_why(why, "it is longer than its shape says");
  else if (s->crc != e->crc)
    tensor_why(why, "its bytes are damaged: the checksum is not that of the directory");
  else
    return true;
  return false;
}

static Tensor *read_entry(TensorFile *f, const FileEntry *e, Str *why) {
  Stream s;
  FileLayout layout = e->layout;
  if (!open_stream(f, e, &s, why) ||
      (f->format != TENSOR_SAFETENSORS && !npy_read_header(f->arena, &s, &layout, why)))
    return NULL;
  Tensor *t = layout_read(&layout, &s, why);
  if (t && !finish_stream(e, &s, why)) {
    tensor_release(t);
    return NULL;
  }
  return t;
}

Tensor *tensor_file_read(TensorFile *f, size_t i, Str *why) {
  const FileEntry *e = &f->entries.v[i];
  tensor_why(why, *e->name ? "%s: %s: " : "%s: ", f->path, e->name);
  Tensor *t = read_entry(f, e, why);
  end_inflating(f);
  return t;
}

/* Writing ------------------------------------------------------------------------------------ */

void file_begin(Arena *a, FileWriter *w) {
  w->out = io_out_new(a, w->path);
}

/* In pieces, so that a flag is seen in time. */
bool file_put(FileWriter *w, const void *p, size_t n) {
  const char *from = p;
  while (n > 0) {
    size_t piece = n < FILE_PIECE ? n : FILE_PIECE;
    if (file_stopped(w->stop, NULL))
      return false;
    w->failed = !io_out_put(w->out, from, piece);
    if (w->failed)
      return false;
    w->at += piece;
    from += piece;
    n -= piece;
  }
  return true;
}

/* Views are gathered piece by piece, so that saving one needs no copy of it. */
static bool gather_each(const Tensor *t, bool (*fn)(void *ctx, const void *p, size_t n),
                        void *ctx) {
  char buffer[FILE_BUFFER];
  size_t size = dtype_size(t->dtype), used = 0;
  TensorRuns r;
  tensor_runs_init(&r, &t, 1);
  for (int64_t i = 0; i < r.runs; i++) {
    const char *p;
    tensor_runs_at(&r, i, &p);
    for (int64_t k = 0; k < r.length; k++, p += r.step[0]) {
      memcpy(buffer + used, p, size);
      used += size;
      if (used == sizeof buffer) {
        if (!fn(ctx, buffer, used))
          return false;
        used = 0;
      }
    }
  }
  return used == 0 || fn(ctx, buffer, used);
}

bool elements_each(const Tensor *t, bool (*fn)(void *ctx, const void *p, size_t n), void *ctx) {
  size_t bytes = (size_t)tensor_count(t) * dtype_size(t->dtype);
  if (bytes == 0)
    return true;
  return tensor_is_contiguous(t) ? fn(ctx, tensor_data(t), bytes) : gather_each(t, fn, ctx);
}

static bool put_elements(void *ctx, const void *p, size_t n) {
  return file_put(ctx, p, n);
}

bool file_put_tensor(FileWriter *w, const Tensor *t) {
  return elements_each(t, put_elements, w);
}

/* Two tensors of one name could not be told apart again. */
static bool check_names(Arena *a, const TensorSave *what, Str *why) {
  Map *seen = map_new(a);
  for (size_t i = 0; i < what->n && what->format != TENSOR_NPY; i++) {
    const char *name = what->v[i].name;
    if (!*name || !str_is_utf8(name, strlen(name))) {
      tensor_why(why, "a tensor's name must be text, and not empty");
      return false;
    }
    if (map_set(seen, name, (void *)(uintptr_t)what->v[i].tensor)) {
      tensor_why(why, "two tensors are named \"%s\"", name);
      return false;
    }
  }
  return true;
}

static bool write_all(Arena *a, FileWriter *w, const TensorSave *what, Str *why) {
  switch (what->format) {
  case TENSOR_NPZ:
    return zip_write(a, w, what, why);
  case TENSOR_SAFETENSORS:
    return safetensors_write(a, w, what, why);
  default:
    return npy_write(a, w, what, why);
  }
}

/* A failed write is the writer's to tell; what else went wrong was said, or is the flag. */
bool tensor_save(Arena *scratch, const char *path, const TensorSave *what, Str *why) {
  FileWriter w = {.path = path, .stop = what->stop};
  const char *reason = NULL;
  tensor_why(why, "%s: ", path);
  if (!check_names(scratch, what, why))
    return false;
  if (!write_all(scratch, &w, what, why) && !w.failed) {
    file_stopped(what->stop, why);
    io_out_end(w.out);
    return false;
  }
  if (io_out_commit(w.out, &reason))
    return true;
  tensor_why(why, "%s", reason);
  return false;
}
