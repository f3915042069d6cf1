/* zip.h: the places of what tilesh reads and writes of a zip archive (PKWARE's APPNOTE 4.3, 4.5).
 *
 * All numbers are little endian; offsets are in bytes from the start of a record, and each record
 * begins with its signature.
 */
#ifndef TILESH_TENSOR_ZIP_H
#define TILESH_TENSOR_ZIP_H

#include <stdint.h>

enum {
  ZIP_LOCAL = 0x04034b50, /* before a member's bytes; its name and extra fields follow */
  ZIP_LOCAL_BYTES = 30,
  ZIP_LOCAL_VERSION = 4,
  ZIP_LOCAL_FLAGS = 6,
  ZIP_LOCAL_METHOD = 8,
  ZIP_LOCAL_DATE = 12,
  ZIP_LOCAL_CRC = 14,
  ZIP_LOCAL_PACKED = 18,
  ZIP_LOCAL_SIZE = 22,
  ZIP_LOCAL_NAME = 26,
  ZIP_LOCAL_EXTRA = 28,

  ZIP_DESCRIPTOR = 0x08074b50, /* after a member's bytes, where they were not known before */
  ZIP_DESCRIPTOR_BYTES = 24,   /* with 64-bit sizes */

  ZIP_CENTRAL = 0x02014b50, /* a member in the directory; name, extra fields, comment follow */
  ZIP_CENTRAL_BYTES = 46,
  ZIP_CENTRAL_MADE = 4,
  ZIP_CENTRAL_VERSION = 6,
  ZIP_CENTRAL_FLAGS = 8,
  ZIP_CENTRAL_METHOD = 10,
  ZIP_CENTRAL_DATE = 14,
  ZIP_CENTRAL_CRC = 16,
  ZIP_CENTRAL_PACKED = 20,
  ZIP_CENTRAL_SIZE = 24,
  ZIP_CENTRAL_NAME = 28,
  ZIP_CENTRAL_EXTRA = 30,
  ZIP_CENTRAL_COMMENT = 32,
  ZIP_CENTRAL_OFFSET = 42,

  ZIP_END = 0x06054b50, /* of the archive; a comment follows */
  ZIP_END_BYTES = 22,
  ZIP_END_DISK = 4,
  ZIP_END_COUNT = 10,
  ZIP_END_SIZE = 12,
  ZIP_END_OFFSET = 16,
  ZIP_END_COMMENT = 20,

  ZIP_LOCATOR = 0x07064b50, /* just before the end: where the 64-bit end is */
  ZIP_LOCATOR_BYTES = 20,
  ZIP_LOCATOR_OFFSET = 8,
  ZIP_LOCATOR_DISKS = 16,

  ZIP_END64 = 0x06064b50,
  ZIP_END64_BYTES = 56,
  ZIP_END64_REST = 4, /* bytes after this field */
  ZIP_END64_MADE = 12,
  ZIP_END64_VERSION = 14,
  ZIP_END64_HERE = 24, /* members on this disk */
  ZIP_END64_COUNT = 32,
  ZIP_END64_SIZE = 40,
  ZIP_END64_OFFSET = 48,

  ZIP_EXTRA64 = 0x0001,    /* extra field: the 64-bit values of fields that hold 2^32 - 1 */
  ZIP_EXTRA_PAD = 0xd935,  /* extra field: alignment, then padding */
  ZIP_FLAG_SECRET = 1,     /* encrypted */
  ZIP_FLAG_LATE = 8,       /* a descriptor follows the bytes */
  ZIP_FLAG_UTF8 = 1 << 11, /* the name is UTF-8 */
  ZIP_STORED = 0,
  ZIP_DEFLATED = 8,
  ZIP_VERSION64 = 45,
  ZIP_MOST16 = 0xffff
};

#define ZIP_MOST32 UINT32_C(0xffffffff)

static inline uint64_t zip_get(const unsigned char *p, int bytes) {
  uint64_t x = 0;
  while (bytes-- > 0)
    x = x << 8 | p[bytes];
  return x;
}

static inline void zip_set(unsigned char *p, uint64_t x, int bytes) {
  for (int i = 0; i < bytes; i++)
    p[i] = (unsigned char)(x >> 8 * i);
}

#endif
