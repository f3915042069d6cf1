/* source.c: bytes of a file, as they lie there or inflated.
 *
 * In: a Source and places in it. Out: bytes, or why not. Always holds: what is given is exactly
 * what was asked for; a flag that stops is looked at every few megabytes. Tests:
 * tests/unit/check_tensor_file.c.
 */
#include "file.h"

#include <errno.h>
#include <unistd.h>

bool file_stopped(const volatile sig_atomic_t *stop, Str *why) {
  if (!stop || !*stop)
    return false;
  tensor_why(why, "interrupted");
  return true;
}

/* One read may give less than was asked for. */
static bool read_piece(const Source *s, uint64_t at, char *p, size_t n, Str *why) {
  while (n > 0) {
    ssize_t got = pread(s->fd, p, n, (off_t)at);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0) {
      char words[128];
      tensor_why(why, "%s", got < 0 ? strerror_r(errno, words, sizeof words) : "it became shorter");
      return false;
    }
    p += got;
    at += (uint64_t)got;
    n -= (size_t)got;
  }
  return true;
}

bool source_read(const Source *s, uint64_t at, void *p, size_t n, Str *why) {
  char *to = p;
  if (s->fd < 0) {
    if (n)
      memcpy(p, s->bytes + at, n);
    return true;
  }
  while (n > 0) {
    size_t piece = n < FILE_PIECE ? n : FILE_PIECE;
    if (file_stopped(s->stop, why) || !read_piece(s, at, to, piece, why))
      return false;
    to += piece;
    at += piece;
    n -= piece;
  }
  return true;
}

/* zlib is given input until the output is full. Fewer bytes than the directory promised, or more
 * compressed ones than it needs, are damage. */
static bool inflate_into(Stream *s, unsigned char *p, size_t n, Str *why) {
  z_stream *z = s->z;
  z->next_out = p;
  z->avail_out = (uInt)n;
  while (z->avail_out > 0) {
    if (z->avail_in == 0 && s->at < s->end) {
      uint64_t left = s->end - s->at;
      size_t piece = left < FILE_BUFFER ? (size_t)left : FILE_BUFFER;
      if (!source_read(s->source, s->at, s->buffer, piece, why))
        return false;
      s->at += piece;
      z->next_in = s->buffer;
      z->avail_in = (uInt)piece;
    }
    int status = inflate(z, Z_NO_FLUSH);
    if (status == Z_OK || (status == Z_STREAM_END && z->avail_out == 0))
      continue;
    tensor_why(why, status == Z_MEM_ERROR ? "there is no memory to inflate it"
                                          : "its compressed bytes are damaged");
    return false;
  }
  return true;
}

/* Pieces keep zlib's 32-bit counts and the flag's delay small. */
bool stream_read(Stream *s, void *p, size_t n, Str *why) {
  unsigned char *to = p;
  if (n > s->left) {
    tensor_why(why, "it ends early");
    return false;
  }
  while (n > 0) {
    size_t piece = n < FILE_PIECE ? n : FILE_PIECE;
    bool ok = !file_stopped(s->source->stop, why) &&
              (s->deflated ? inflate_into(s, to, piece, why)
                           : source_read(s->source, s->at, to, piece, why));
    if (!ok)
      return false;
    if (s->checked)
      s->crc = (uint32_t)crc32(s->crc, to, (uInt)piece);
    s->at += s->deflated ? 0 : piece;
    s->left -= piece;
    to += piece;
    n -= piece;
  }
  return true;
}
