/* file.h: what the readers and writers of tensor files share.
 *
 * A Source is where bytes come from, a Stream a run of them that may be deflated, a FileLayout what
 * a header says of a tensor. A reader turns names into FileEntry rows; file.c does the rest.
 * Nothing that a file says is believed before it was checked against how long the file is.
 */
#ifndef TILESH_TENSOR_FILE_H
#define TILESH_TENSOR_FILE_H

#include <jansson.h>
#include <zlib.h>

#include "impl.h"

/* Bytes to be read, or bytes written, between two looks at the flag that stops. */
enum { FILE_PIECE = 1 << 22, FILE_BUFFER = 1 << 16 };

/* Where bytes come from: a regular file, or memory. */
typedef struct Source {
  int fd;            /* -1: memory */
  const char *bytes; /* of memory */
  uint64_t size;
  const volatile sig_atomic_t *stop; /* NULL, or not 0 there ends what runs */
} Source;

/* n bytes from `at` on. The caller has checked that they are inside; a file that became shorter
 * meanwhile is an error like any other. */
bool source_read(const Source *s, uint64_t at, void *p, size_t n, Str *why);
/* True, with words in why, where the flag says that the user wants no more. */
bool file_stopped(const volatile sig_atomic_t *stop, Str *why);

/* What a header says of a tensor's elements. */
typedef struct FileLayout {
  DType dtype;
  bool swap, fortran; /* big endian; first axis fastest */
  int rank;
  int64_t extent[TENSOR_MAX_RANK];
} FileLayout;

/* One tensor of a file. */
typedef struct FileEntry {
  const char *name;  /* "" where the format has none */
  uint64_t at, size; /* its bytes in the source */
  uint64_t length;   /* of them when they are inflated; else the size */
  uint32_t crc;      /* of the inflated bytes */
  bool deflated, checked;
  FileLayout layout; /* safetensors: known from the directory */
} FileEntry;

typedef VEC(FileEntry) FileEntries;

/* Bytes in the order of a file, inflated where they are deflated. */
typedef struct Stream {
  const Source *source;
  uint64_t at, end; /* what was not yet taken from the source */
  uint64_t left;    /* bytes that are still to be given */
  bool deflated, checked;
  uint32_t crc; /* of what was given, where it is checked */
  z_stream *z;
  unsigned char *buffer; /* FILE_BUFFER bytes for z */
} Stream;

/* Exactly n bytes; fails where fewer are left. */
bool stream_read(Stream *s, void *p, size_t n, Str *why);

/* The tensor that a layout describes, from the stream. A large one that lies in the file as it must
 * lie in memory is mapped, copy-on-write. NULL with words added to why. */
Tensor *layout_read(const FileLayout *l, Stream *s, Str *why);
/* Bytes of all elements; false where that is more than 64 bits can say. */
bool layout_bytes(const FileLayout *l, uint64_t *bytes);

/* Reads a .npy header and leaves the stream at the first element. */
bool npy_read_header(Arena *a, Stream *s, FileLayout *out, Str *why);
/* Adds a header whose length is a multiple of 64. */
void npy_add_header(const Tensor *t, Str *out);

/* The directory of an archive: one entry a member `NAME.npy`; others are passed over. */
bool zip_read_directory(Arena *a, const Source *s, FileEntries *out, Str *why);
/* The directory of a .safetensors file. *json is what the caller has to give back, also after a
 * failure or a jump. */
bool safetensors_read_directory(Arena *a, const Source *s, json_t **json, FileEntries *out,
                                Str *why);

/* A file that is written. */
typedef struct FileWriter {
  const char *path;
  IoOut *out;  /* NULL until file_begin */
  uint64_t at; /* bytes written so far */
  bool failed; /* the writing: io_out_commit says how */
  const volatile sig_atomic_t *stop;
} FileWriter;

/* Opens the file: what needs the arena was done before. What fails is said in the end. */
void file_begin(Arena *a, FileWriter *w);
bool file_put(FileWriter *w, const void *p, size_t n);
/* Gives the elements in row-major order to fn, in pieces; false as soon as fn says so. */
bool elements_each(const Tensor *t, bool (*fn)(void *ctx, const void *p, size_t n), void *ctx);
bool file_put_tensor(FileWriter *w, const Tensor *t); /* its elements, in row-major order */
/* Writers of a whole file's bytes. False where writing failed or was stopped, or, with words added
 * to why, something else did. */
bool npy_write(Arena *a, FileWriter *w, const TensorSave *what, Str *why);
bool zip_write(Arena *a, FileWriter *w, const TensorSave *what, Str *why);
bool safetensors_write(Arena *a, FileWriter *w, const TensorSave *what, Str *why);

#endif
