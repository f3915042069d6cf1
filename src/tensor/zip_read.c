/* zip_read.c: the directory of a .npz archive.
 *
 * In: a Source. Out: an entry for each member `NAME.npy`. Only the directory at the end is
 * believed, and of it nothing that the members' own headers deny. Always holds: no two members
 * share a byte, and none reaches into the directory, so an archive cannot be larger inside than
 * deflate allows. No member is ever written to a file, yet names that would leave their folder are
 * refused. Tests: tests/unit/check_tensor_file.c, tests/fuzz.
 */
#include "file.h"
#include "zip.h"

#include <inttypes.h>

enum { MOST_DIRECTORY = 64 << 20, MOST_RATIO = 1032 /* of deflate: 258 bytes from two bits */ };

typedef struct Directory {
  uint64_t at, size, count;
  uint64_t end; /* where it must stop */
} Directory;

/* The bytes of a member, its own header included. */
typedef struct Range {
  uint64_t from, to;
  const char *name;
} Range;

typedef VEC(Range) Ranges;

static bool damaged(Str *why, const char *what) {
  tensor_why(why, "it is no .npz archive, or damaged: %s", what);
  return false;
}

/* The end -------------------------------------------------------------------------------------- */

/* The end record is followed by a comment of up to 64 KiB, so it is looked for backwards; its
 * comment must end with the file. */
static bool find_end(Arena *a, const Source *s, unsigned char *end, uint64_t *at, Str *why) {
  uint64_t most = ZIP_END_BYTES + ZIP_MOST16;
  size_t n = (size_t)(s->size < most ? s->size : most);
  unsigned char *tail = arena_alloc(a, n);
  if (!source_read(s, s->size - n, tail, n, why))
    return false;
  for (size_t i = n < ZIP_END_BYTES ? 0 : n - ZIP_END_BYTES + 1; i-- > 0;)
    if (zip_get(tail + i, 4) == ZIP_END &&
        zip_get(tail + i + ZIP_END_COMMENT, 2) == n - i - ZIP_END_BYTES) {
      memcpy(end, tail + i, ZIP_END_BYTES);
      *at = s->size - n + i;
      return true;
    }
  return damaged(why, "there is no end of a directory");
}

/* Large archives say their numbers once more, with 64 bits, in a record that a locator points to.
 */
static bool read_end64(const Source *s, uint64_t locator_at, const unsigned char *locator,
                       Directory *d, Str *why) {
  unsigned char end[ZIP_END64_BYTES];
  uint64_t at = zip_get(locator + ZIP_LOCATOR_OFFSET, 8);
  if (zip_get(locator + ZIP_LOCATOR_DISKS, 4) > 1)
    return damaged(why, "it has several parts");
  if (locator_at < ZIP_END64_BYTES || at > locator_at - ZIP_END64_BYTES)
    return damaged(why, "its 64-bit end is not where its locator says");
  if (!source_read(s, at, end, sizeof end, why))
    return false;
  if (zip_get(end, 4) != ZIP_END64 ||
      zip_get(end + ZIP_END64_HERE, 8) != zip_get(end + ZIP_END64_COUNT, 8))
    return damaged(why, "its 64-bit end is not where its locator says");
  *d = (Directory){.at = zip_get(end + ZIP_END64_OFFSET, 8),
                   .size = zip_get(end + ZIP_END64_SIZE, 8),
                   .count = zip_get(end + ZIP_END64_COUNT, 8),
                   .end = at};
  return true;
}

static bool read_end(Arena *a, const Source *s, Directory *d, Str *why) {
  unsigned char end[ZIP_END_BYTES], locator[ZIP_LOCATOR_BYTES] = {0};
  uint64_t at;
  if (!find_end(a, s, end, &at, why))
    return false;
  if (zip_get(end + ZIP_END_DISK, 4) != 0 && zip_get(end + ZIP_END_DISK, 4) != ZIP_MOST32)
    return damaged(why, "it has several parts");
  *d = (Directory){.at = zip_get(end + ZIP_END_OFFSET, 4),
                   .size = zip_get(end + ZIP_END_SIZE, 4),
                   .count = zip_get(end + ZIP_END_COUNT, 2),
                   .end = at};
  if (at >= sizeof locator && !source_read(s, at - sizeof locator, locator, sizeof locator, why))
    return false;
  if (zip_get(locator, 4) == ZIP_LOCATOR && !read_end64(s, at - sizeof locator, locator, d, why))
    return false;
  if (d->at > d->end || d->size != d->end - d->at)
    return damaged(why, "its directory is not just before its end");
  if (d->size <= MOST_DIRECTORY)
    return true;
  tensor_why(why, "its directory has %" PRIu64 " bytes; at most %d are read", d->size,
             MOST_DIRECTORY);
  return false;
}

/* Members -------------------------------------------------------------------------------------- */

typedef struct Member {
  const unsigned char *record; /* in the directory, checked to be whole */
  const char *name;
  unsigned flags, method;
  uint32_t crc;
  uint64_t packed, size, offset;
} Member;

/* Sizes and the offset stand here, in this order, where their own fields are all ones. */
static bool read_extra64(const unsigned char *p, size_t n, Member *m) {
  uint64_t *const field[] = {&m->size, &m->packed, &m->offset};
  while (n >= 4) {
    size_t length = (size_t)zip_get(p + 2, 2);
    if (length > n - 4)
      return false;
    if (zip_get(p, 2) == ZIP_EXTRA64) {
      for (size_t i = 0, at = 0; i < 3; i++)
        if (*field[i] == ZIP_MOST32) {
          if (at + 8 > length)
            return false;
          *field[i] = zip_get(p + 4 + at, 8);
          at += 8;
        }
      return true;
    }
    p += 4 + length;
    n -= 4 + length;
  }
  return true;
}

/* The names of np.savez may have slashes; those of an attack climb or start at the root. */
static bool name_is_safe(const char *name, size_t n) {
  if (n == 0 || strlen(name) != n || !str_is_utf8(name, n) || *name == '/' || strchr(name, '\\'))
    return false;
  for (const char *p = name; p; p = strchr(p, '/')) {
    p += *p == '/';
    if (p[0] == '.' && p[1] == '.' && (p[2] == '/' || p[2] == '\0'))
      return false;
  }
  return true;
}

/* The record at p, of which n bytes are there. Returns its length, or 0. */
static size_t read_member(Arena *a, const unsigned char *p, size_t n, Member *m, Str *why) {
  if (n < ZIP_CENTRAL_BYTES || zip_get(p, 4) != ZIP_CENTRAL)
    return damaged(why, "its directory ends early");
  size_t name = (size_t)zip_get(p + ZIP_CENTRAL_NAME, 2);
  size_t extra = (size_t)zip_get(p + ZIP_CENTRAL_EXTRA, 2);
  size_t whole = ZIP_CENTRAL_BYTES + name + extra + (size_t)zip_get(p + ZIP_CENTRAL_COMMENT, 2);
  if (whole > n)
    return damaged(why, "its directory ends early");
  *m = (Member){.record = p,
                .name = arena_strndup(a, (const char *)p + ZIP_CENTRAL_BYTES, name),
                .flags = (unsigned)zip_get(p + ZIP_CENTRAL_FLAGS, 2),
                .method = (unsigned)zip_get(p + ZIP_CENTRAL_METHOD, 2),
                .crc = (uint32_t)zip_get(p + ZIP_CENTRAL_CRC, 4),
                .packed = zip_get(p + ZIP_CENTRAL_PACKED, 4),
                .size = zip_get(p + ZIP_CENTRAL_SIZE, 4),
                .offset = zip_get(p + ZIP_CENTRAL_OFFSET, 4)};
  if (!read_extra64(p + ZIP_CENTRAL_BYTES + name, extra, m))
    return damaged(why, "a member's 64-bit sizes are cut off");
  if (!name_is_safe(m->name, name))
    return damaged(why, "a member's name is no text, or leaves the archive");
  return whole;
}

/* Where a field was known when the header was written, it says what the directory says. */
static bool agrees(const unsigned char *local, const Member *m) {
  bool late = m->flags & ZIP_FLAG_LATE;
  uint64_t packed = zip_get(local + ZIP_LOCAL_PACKED, 4), size = zip_get(local + ZIP_LOCAL_SIZE, 4);
  return zip_get(local, 4) == ZIP_LOCAL && zip_get(local + ZIP_LOCAL_METHOD, 2) == m->method &&
         zip_get(local + ZIP_LOCAL_NAME, 2) == zip_get(m->record + ZIP_CENTRAL_NAME, 2) &&
         (late || zip_get(local + ZIP_LOCAL_CRC, 4) == m->crc) &&
         (late || packed == ZIP_MOST32 || packed == m->packed) &&
         (late || size == ZIP_MOST32 || size == m->size);
}

/* The member's own header: where its bytes begin. */
static bool locate(Arena *a, const Source *s, const Directory *d, const Member *m, uint64_t *at,
                   Str *why) {
  unsigned char local[ZIP_LOCAL_BYTES];
  size_t n = strlen(m->name);
  if (m->offset > d->at || d->at - m->offset < sizeof local + n)
    return damaged(why, "a member is not where its directory says");
  if (!source_read(s, m->offset, local, sizeof local, why))
    return false;
  char *name = arena_alloc(a, n + 1);
  if (!agrees(local, m) || !source_read(s, m->offset + sizeof local, name, n, why) ||
      memcmp(name, m->name, n) != 0)
    return damaged(why, "a member's header and the directory differ");
  *at = m->offset + sizeof local + n + zip_get(local + ZIP_LOCAL_EXTRA, 2);
  if (*at > d->at || m->packed > d->at - *at)
    return damaged(why, "a member is longer than the archive");
  return true;
}

/* What can be read is decided before memory is asked for. */
static bool can_read(const Member *m, Str *why) {
  if (m->flags & ZIP_FLAG_SECRET)
    tensor_why(why, "%s is encrypted", m->name);
  else if (m->method != ZIP_STORED && m->method != ZIP_DEFLATED)
    tensor_why(why, "%s is compressed by method %u; only stored and deflated ones are read",
               m->name, m->method);
  else if (m->method == ZIP_STORED && m->packed != m->size)
    tensor_why(why, "%s is stored, but its sizes differ", m->name);
  else if (m->method == ZIP_DEFLATED && m->size / MOST_RATIO > m->packed)
    tensor_why(why, "%s says that %" PRIu64 " bytes inflate to %" PRIu64 ", more than they can",
               m->name, m->packed, m->size);
  else
    return true;
  return false;
}

static bool add_member(Arena *a, const Source *s, const Directory *d, const Member *m,
                       Ranges *ranges, FileEntries *out, Str *why) {
  uint64_t at;
  if (!locate(a, s, d, m, &at, why))
    return false;
  VEC_PUSH(a, ranges, ((Range){m->offset, at + m->packed, m->name}));
  if (!str_ends_in(m->name, ".npy"))
    return true;
  if (!can_read(m, why))
    return false;
  FileEntry e = {.name = arena_strndup(a, m->name, strlen(m->name) - 4),
                 .at = at,
                 .size = m->packed,
                 .length = m->size,
                 .crc = m->crc,
                 .deflated = m->method == ZIP_DEFLATED,
                 .checked = true};
  VEC_PUSH(a, out, e);
  return true;
}

static int by_start(const void *x, const void *y) {
  const Range *a = x, *b = y;
  return (a->from > b->from) - (a->from < b->from);
}

/* Members that share bytes are how a small archive becomes a huge one. */
static bool check_overlaps(Ranges *r, Str *why) {
  if (r->n)
    qsort(r->v, r->n, sizeof *r->v, by_start);
  for (size_t i = 1; i < r->n; i++)
    if (r->v[i].from < r->v[i - 1].to) {
      tensor_why(why, "its members %s and %s overlap", r->v[i - 1].name, r->v[i].name);
      return false;
    }
  return true;
}

bool zip_read_directory(Arena *a, const Source *s, FileEntries *out, Str *why) {
  Directory d;
  Ranges ranges = {0};
  Member m;
  if (!read_end(a, s, &d, why))
    return false;
  size_t at = 0, n = (size_t)d.size;
  unsigned char *p = arena_alloc(a, n);
  if (!source_read(s, d.at, p, n, why))
    return false;
  for (uint64_t i = 0; i < d.count; i++) {
    size_t length = read_member(a, p + at, n - at, &m, why);
    if (!length || !add_member(a, s, &d, &m, &ranges, out, why))
      return false;
    at += length;
  }
  if (at != n)
    return damaged(why, "its directory has more members than it says");
  return check_overlaps(&ranges, why);
}
