/* zip_write.c: .npz archives.
 *
 * In: tensors by name. Out: a zip archive with a member NAME.npy for each, stored or deflated,
 * which NumPy reads. Sizes are always written with 64 bits, so there is one form whatever the size;
 * a stored member's elements lie at a multiple of 64 bytes, so that they can be mapped; dates are
 * those of the format's first day, so that equal tensors make equal files. Tests:
 * tests/unit/check_tensor_file.c, tests/files/run.
 */
#include "file.h"
#include "zip.h"

enum { ALIGNMENT = 64, FIRST_DAY = 1 << 5 | 1, EXTRA64_BYTES = 4 + 16, PAD_BYTES = 6 };

typedef struct Member {
  const char *name; /* with .npy */
  const Tensor *tensor;
  Str header; /* of the .npy file inside */
  uint32_t crc;
  uint64_t at, packed, size;
} Member;

typedef struct Archive {
  FileWriter *w;
  Member *v;
  size_t n;
  bool deflate;
} Archive;

/* All that needs the arena comes before the file is opened. */
static bool prepare(Arena *a, const TensorSave *what, Archive *z, Str *why) {
  z->n = what->n;
  z->deflate = what->compress;
  z->v = ARENA_ARRAY(a, Member, what->n);
  for (size_t i = 0; i < z->n; i++) {
    Member *m = &z->v[i];
    m->name = arena_printf(a, "%s.npy", what->v[i].name);
    if (strlen(m->name) > ZIP_MOST16) {
      tensor_why(why, "a name of more than 65535 bytes does not go into an archive");
      return false;
    }
    m->tensor = what->v[i].tensor;
    m->header = str_new(a);
    npy_add_header(m->tensor, &m->header);
    m->size = m->header.n + (uint64_t)tensor_count(m->tensor) * dtype_size(m->tensor->dtype);
  }
  return true;
}

/* Checksums ------------------------------------------------------------------------------------ */

typedef struct Sum {
  uint32_t crc;
  const volatile sig_atomic_t *stop;
} Sum;

static bool add_to_sum(void *ctx, const void *p, size_t n) {
  Sum *sum = ctx;
  for (const unsigned char *from = p; n > 0;) {
    size_t piece = n < FILE_PIECE ? n : FILE_PIECE;
    if (file_stopped(sum->stop, NULL))
      return false;
    sum->crc = (uint32_t)crc32(sum->crc, from, (uInt)piece);
    from += piece;
    n -= piece;
  }
  return true;
}

/* A stored member is read twice: its checksum stands before it. */
static bool sum_member(Archive *z, Member *m) {
  Sum sum = {.stop = z->w->stop};
  bool ok =
      add_to_sum(&sum, m->header.s, m->header.n) && elements_each(m->tensor, add_to_sum, &sum);
  m->crc = sum.crc;
  return ok;
}

/* Members -------------------------------------------------------------------------------------- */

/* Bytes of padding, in an extra field of its own, that bring what follows to its alignment. */
static size_t padding(uint64_t at, const Member *m) {
  uint64_t end = at + ZIP_LOCAL_BYTES + strlen(m->name) + EXTRA64_BYTES + PAD_BYTES;
  return (size_t)((ALIGNMENT - end % ALIGNMENT) % ALIGNMENT);
}

/* Deflated members do not yet know their sizes; theirs follow them. */
static bool put_local(Archive *z, const Member *m) {
  unsigned char head[ZIP_LOCAL_BYTES] = {0}, extra[EXTRA64_BYTES + PAD_BYTES + ALIGNMENT] = {0};
  size_t name = strlen(m->name), pad = z->deflate ? 0 : padding(z->w->at, m);
  size_t length = z->deflate ? EXTRA64_BYTES : EXTRA64_BYTES + PAD_BYTES + pad;
  zip_set(head, ZIP_LOCAL, 4);
  zip_set(head + ZIP_LOCAL_VERSION, ZIP_VERSION64, 2);
  zip_set(head + ZIP_LOCAL_FLAGS, ZIP_FLAG_UTF8 | (z->deflate ? ZIP_FLAG_LATE : 0), 2);
  zip_set(head + ZIP_LOCAL_METHOD, z->deflate ? ZIP_DEFLATED : ZIP_STORED, 2);
  zip_set(head + ZIP_LOCAL_DATE, FIRST_DAY, 2);
  zip_set(head + ZIP_LOCAL_CRC, m->crc, 4);
  zip_set(head + ZIP_LOCAL_PACKED, ZIP_MOST32, 4);
  zip_set(head + ZIP_LOCAL_SIZE, ZIP_MOST32, 4);
  zip_set(head + ZIP_LOCAL_NAME, name, 2);
  zip_set(head + ZIP_LOCAL_EXTRA, length, 2);
  zip_set(extra, ZIP_EXTRA64, 2);
  zip_set(extra + 2, 16, 2);
  zip_set(extra + 4, z->deflate ? 0 : m->size, 8);
  zip_set(extra + 12, z->deflate ? 0 : m->size, 8);
  zip_set(extra + EXTRA64_BYTES, ZIP_EXTRA_PAD, 2);
  zip_set(extra + EXTRA64_BYTES + 2, PAD_BYTES - 4 + pad, 2);
  zip_set(extra + EXTRA64_BYTES + 4, ALIGNMENT, 2);
  return file_put(z->w, head, sizeof head) && file_put(z->w, m->name, name) &&
         file_put(z->w, extra, length);
}

static bool put_stored(Archive *z, Member *m) {
  m->packed = m->size;
  return sum_member(z, m) && put_local(z, m) && file_put(z->w, m->header.s, m->header.n) &&
         file_put_tensor(z->w, m->tensor);
}

/* What one deflated member is made with. */
typedef struct Deflater {
  z_stream z;
  FileWriter *w;
  Sum sum;
  unsigned char out[FILE_BUFFER];
} Deflater;

/* Writes what zlib gives until it wants more. */
static bool drain(Deflater *d, int flush) {
  int status;
  do {
    d->z.next_out = d->out;
    d->z.avail_out = sizeof d->out;
    status = deflate(&d->z, flush);
    if (!file_put(d->w, d->out, sizeof d->out - d->z.avail_out))
      return false;
  } while (d->z.avail_out == 0 || (flush == Z_FINISH && status == Z_OK));
  return true;
}

static bool deflate_piece(void *ctx, const void *p, size_t n) {
  Deflater *d = ctx;
  for (const unsigned char *from = p; n > 0;) {
    size_t piece = n < FILE_BUFFER ? n : FILE_BUFFER;
    if (!add_to_sum(&d->sum, from, piece))
      return false;
    d->z.next_in = (unsigned char *)(uintptr_t)from;
    d->z.avail_in = (uInt)piece;
    if (!drain(d, Z_NO_FLUSH))
      return false;
    from += piece;
    n -= piece;
  }
  return true;
}

static bool put_descriptor(Archive *z, const Member *m) {
  unsigned char tail[ZIP_DESCRIPTOR_BYTES];
  zip_set(tail, ZIP_DESCRIPTOR, 4);
  zip_set(tail + 4, m->crc, 4);
  zip_set(tail + 8, m->packed, 8);
  zip_set(tail + 16, m->size, 8);
  return file_put(z->w, tail, sizeof tail);
}

static bool put_deflated(Archive *z, Member *m, Str *why) {
  Deflater d = {.w = z->w, .sum = {.stop = z->w->stop}};
  if (!put_local(z, m))
    return false;
  if (deflateInit2(&d.z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    tensor_why(why, "there is no memory to deflate it");
    return false;
  }
  uint64_t start = z->w->at;
  bool ok = deflate_piece(&d, m->header.s, m->header.n) &&
            elements_each(m->tensor, deflate_piece, &d) && drain(&d, Z_FINISH);
  deflateEnd(&d.z);
  m->crc = d.sum.crc;
  m->packed = z->w->at - start;
  return ok && put_descriptor(z, m);
}

/* The directory -------------------------------------------------------------------------------- */

static bool put_central(Archive *z, const Member *m) {
  unsigned char head[ZIP_CENTRAL_BYTES] = {0}, extra[4 + 24];
  size_t name = strlen(m->name);
  zip_set(head, ZIP_CENTRAL, 4);
  zip_set(head + ZIP_CENTRAL_MADE, ZIP_VERSION64, 2);
  zip_set(head + ZIP_CENTRAL_VERSION, ZIP_VERSION64, 2);
  zip_set(head + ZIP_CENTRAL_FLAGS, ZIP_FLAG_UTF8 | (z->deflate ? ZIP_FLAG_LATE : 0), 2);
  zip_set(head + ZIP_CENTRAL_METHOD, z->deflate ? ZIP_DEFLATED : ZIP_STORED, 2);
  zip_set(head + ZIP_CENTRAL_DATE, FIRST_DAY, 2);
  zip_set(head + ZIP_CENTRAL_CRC, m->crc, 4);
  zip_set(head + ZIP_CENTRAL_PACKED, ZIP_MOST32, 4);
  zip_set(head + ZIP_CENTRAL_SIZE, ZIP_MOST32, 4);
  zip_set(head + ZIP_CENTRAL_NAME, name, 2);
  zip_set(head + ZIP_CENTRAL_EXTRA, sizeof extra, 2);
  zip_set(head + ZIP_CENTRAL_OFFSET, ZIP_MOST32, 4);
  zip_set(extra, ZIP_EXTRA64, 2);
  zip_set(extra + 2, 24, 2);
  zip_set(extra + 4, m->size, 8);
  zip_set(extra + 12, m->packed, 8);
  zip_set(extra + 20, m->at, 8);
  return file_put(z->w, head, sizeof head) && file_put(z->w, m->name, name) &&
         file_put(z->w, extra, sizeof extra);
}

static bool put_end(Archive *z, uint64_t start) {
  unsigned char end64[ZIP_END64_BYTES] = {0}, locator[ZIP_LOCATOR_BYTES] = {0};
  unsigned char end[ZIP_END_BYTES] = {0};
  uint64_t at = z->w->at;
  zip_set(end64, ZIP_END64, 4);
  zip_set(end64 + ZIP_END64_REST, ZIP_END64_BYTES - 12, 8);
  zip_set(end64 + ZIP_END64_MADE, ZIP_VERSION64, 2);
  zip_set(end64 + ZIP_END64_VERSION, ZIP_VERSION64, 2);
  zip_set(end64 + ZIP_END64_HERE, z->n, 8);
  zip_set(end64 + ZIP_END64_COUNT, z->n, 8);
  zip_set(end64 + ZIP_END64_SIZE, at - start, 8);
  zip_set(end64 + ZIP_END64_OFFSET, start, 8);
  zip_set(locator, ZIP_LOCATOR, 4);
  zip_set(locator + ZIP_LOCATOR_OFFSET, at, 8);
  zip_set(locator + ZIP_LOCATOR_DISKS, 1, 4);
  zip_set(end, ZIP_END, 4);
  zip_set(end + ZIP_END_COUNT - 2, ZIP_MOST16, 2);
  zip_set(end + ZIP_END_COUNT, ZIP_MOST16, 2);
  zip_set(end + ZIP_END_SIZE, ZIP_MOST32, 4);
  zip_set(end + ZIP_END_OFFSET, ZIP_MOST32, 4);
  return file_put(z->w, end64, sizeof end64) && file_put(z->w, locator, sizeof locator) &&
         file_put(z->w, end, sizeof end);
}

bool zip_write(Arena *a, FileWriter *w, const TensorSave *what, Str *why) {
  Archive z = {.w = w};
  bool ok = prepare(a, what, &z, why);
  if (!ok)
    return false;
  file_begin(a, w);
  for (size_t i = 0; i < z.n && ok; i++) {
    z.v[i].at = w->at;
    ok = z.deflate ? put_deflated(&z, &z.v[i], why) : put_stored(&z, &z.v[i]);
  }
  uint64_t start = w->at;
  for (size_t i = 0; i < z.n && ok; i++)
    ok = put_central(&z, &z.v[i]);
  return ok && put_end(&z, start);
}
