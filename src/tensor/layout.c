/* layout.c: a tensor from a header's words and the bytes that follow.
 *
 * In: a FileLayout and a Stream at the first element. Out: a tensor. Always holds: no memory is
 * asked for that the stream cannot fill; bools hold 0 or 1; a mapping outlives its descriptor and
 * is private, so a store never reaches the file. Tests: tests/unit/check_tensor_file.c.
 */
#include "file.h"

#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

/* Below this a copy costs little, and a file that somebody writes over is no danger. */
static const uint64_t least_mapped = (uint64_t)64 << 20;

bool layout_bytes(const FileLayout *l, uint64_t *bytes) {
  bool fits = true, empty = false;
  *bytes = dtype_size(l->dtype);
  for (int i = 0; i < l->rank; i++) {
    empty |= l->extent[i] == 0;
    if (l->extent[i] > 0)
      fits &= !__builtin_mul_overflow(*bytes, (uint64_t)l->extent[i], bytes);
  }
  if (empty)
    *bytes = 0;
  return fits || empty;
}

/* Files of big-endian machines. */
static void swap_bytes(char *p, uint64_t bytes, size_t size) {
  for (char *end = p + bytes; p < end; p += size)
    for (size_t k = 0; k < size / 2; k++) {
      char c = p[k];
      p[k] = p[size - 1 - k];
      p[size - 1 - k] = c;
    }
}

/* Some writers store any byte but 0 for true. */
static void settle_bools(char *p, uint64_t n) {
  for (uint64_t i = 0; i < n; i++)
    p[i] = p[i] != 0;
}

/* Column-major data is a view with its axes in reverse order. */
static Tensor *from_fortran(Tensor *t, Str *why) {
  int axes[TENSOR_MAX_RANK];
  for (int i = 0; i < t->rank; i++)
    axes[i] = t->rank - 1 - i;
  Tensor *view = t ? tensor_permute(t, axes, t->rank, why) : NULL;
  tensor_release(t);
  return view;
}

/* Mapping ------------------------------------------------------------------------------------ */

/* Elements must lie in the file as they must lie in memory. */
static bool can_map(const FileLayout *l, const Stream *s, uint64_t bytes) {
  return bytes >= least_mapped && bytes <= SIZE_MAX / 2 && s->source->fd >= 0 && !s->deflated &&
         !l->swap && l->dtype != DT_BOOL && s->at % dtype_size(l->dtype) == 0;
}

/* Pages are reserved first, so that the readable bytes after the last element are there also where
 * the file ends at the end of a page. No swap is reserved: untouched pages stay the file's. */
static Storage *map_elements(const Stream *s, uint64_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (size_t)(s->at % page);
  size_t used = before + (size_t)bytes, length = (used / page + 2) * page;
  char *base = mmap(NULL, length, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return NULL;
  void *file = mmap(base, used, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
                    s->source->fd, (off_t)(s->at - before));
  Storage *made =
      file != MAP_FAILED ? storage_new_mapped(base, length, before, (size_t)bytes) : NULL;
  if (!made)
    munmap(base, length);
  return made;
}

/* Checking reads the pages once; they stay the system's to drop. */
static bool check_mapped(Stream *s, const char *p, uint64_t bytes, Str *why) {
  for (uint64_t done = 0; done < bytes && s->checked;) {
    size_t piece = bytes - done < FILE_PIECE ? (size_t)(bytes - done) : FILE_PIECE;
    if (file_stopped(s->source->stop, why))
      return false;
    s->crc = (uint32_t)crc32(s->crc, (const unsigned char *)p + done, (uInt)piece);
    done += piece;
  }
  s->at += bytes;
  s->left -= bytes;
  return true;
}

/* Reading ------------------------------------------------------------------------------------ */

/* NULL with *again set: mapping is refused here, and reading may do. */
static Tensor *make_mapped(const FileLayout *l, const int64_t *extent, Stream *s, uint64_t bytes,
                           bool *again, Str *why) {
  Storage *mapped = can_map(l, s, bytes) ? map_elements(s, bytes) : NULL;
  *again = mapped == NULL;
  Tensor *t = mapped ? tensor_of_storage(l->dtype, l->rank, extent, mapped, why) : NULL;
  if (t && !check_mapped(s, tensor_address(t), bytes, why)) {
    tensor_release(t);
    return NULL;
  }
  return t;
}

static Tensor *make_read(const FileLayout *l, const int64_t *extent, Stream *s, uint64_t bytes,
                         Str *why) {
  Tensor *t = tensor_new(l->dtype, l->rank, extent, TENSOR_UNSET, why);
  if (!t)
    return NULL;
  char *p = tensor_address(t);
  if (!stream_read(s, p, (size_t)bytes, why)) {
    tensor_release(t);
    return NULL;
  }
  if (l->swap)
    swap_bytes(p, bytes, dtype_size(l->dtype));
  if (l->dtype == DT_BOOL)
    settle_bools(p, bytes);
  return t;
}

/* With the numbers, because a file that was not copied whole is the common case. */
static void add_early_end(const FileLayout *l, uint64_t bytes, uint64_t left, Str *why) {
  tensor_why(why, "it ends early: %s", dtype_name(l->dtype));
  if (why)
    tensor_add_shape(l->rank, l->extent, why);
  tensor_why(why, " takes %" PRIu64 " bytes, and %" PRIu64 " are there", bytes, left);
}

/* A shape beyond all machines is refused by tensor_new, in its own words. */
Tensor *layout_read(const FileLayout *l, Stream *s, Str *why) {
  int64_t extent[TENSOR_MAX_RANK];
  bool fortran = l->fortran && l->rank > 1, again;
  uint64_t bytes;
  for (int i = 0; i < l->rank; i++)
    extent[i] = l->extent[fortran ? l->rank - 1 - i : i];
  if (layout_bytes(l, &bytes) && bytes > s->left) { /* before any memory is asked for */
    add_early_end(l, bytes, s->left, why);
    return NULL;
  }
  Tensor *t = make_mapped(l, extent, s, bytes, &again, why);
  if (!t && again)
    t = make_read(l, extent, s, bytes, why);
  return t && fortran ? from_fortran(t, why) : t;
}
