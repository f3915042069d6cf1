/* tensor.h: host tensors: strided views of reference-counted storage.
 *
 * In: dtypes, extents, scalars. Out: tensors of rank 0 to 8, their views, their text. A tensor is a
 * view (offset and strides, in elements) of a Storage; views of one storage share it. What always
 * holds: every element a tensor names lies inside its storage; host memory is 64-byte aligned (that
 * of a mapped file: aligned to its elements) and padded by 64 readable bytes; a storage is valid on
 * the host, on a device, or on both. Functions that touch elements need the storage on the host:
 * tensor_to_host first. Nothing here prints, exits, jumps or keeps state. Tests:
 * tests/unit/check_tensor.c.
 */
#ifndef TILESH_TENSOR_TENSOR_H
#define TILESH_TENSOR_TENSOR_H

#include <signal.h>

#include "base/base.h"

enum { TENSOR_MAX_RANK = 8, TENSOR_MAX_OPERANDS = 4 };

typedef struct Storage Storage;

typedef struct Tensor {
  DType dtype;
  int rank;
  int64_t extent[TENSOR_MAX_RANK]; /* elements per axis, each >= 0 */
  int64_t stride[TENSOR_MAX_RANK]; /* elements; may be 0 (broadcast) or negative (a[::-1]) */
  int64_t offset;                  /* elements from the start of the storage */
  Storage *storage;
  size_t refs; /* not atomic: a tensor belongs to the thread of its session */
} Tensor;

/* Storage ---------------------------------------------------------------------------------- */

/* What the owner of a device copy offers. `handle` is the owner's. */
typedef struct StorageDevice {
  const char *name; /* "cuda:0", as printed in `f16[3, 4] on cuda:0` */
  /* Copies the device's bytes to host; false with words added to why when the device failed. */
  bool (*fetch)(void *handle, void *host, size_t bytes, Str *why);
  void (*release)(void *handle);
} StorageDevice;

/* Bytes of host memory that this process can still get. */
uint64_t storage_free_memory(void);
/* Bytes of the storage, padding excluded. */
size_t storage_bytes(const Storage *s);
/* Whether the copy on that side is there and holds the data; both may. */
bool storage_on_host(const Storage *s);
bool storage_on_device(const Storage *s);
/* The device copy's handle, or NULL where there is none (it may be stale: storage_on_device). */
void *storage_device_handle(const Storage *s);
/* The same, but NULL also where it is stale. */
void *storage_device_data(const Storage *s);
const StorageDevice *storage_device(const Storage *s); /* whose that is, or NULL */
/* Gives the storage a device copy, which it owns from now on. valid: the copy holds the data. */
void storage_set_device(Storage *s, const StorageDevice *device, void *handle, bool valid);
/* The device copy was written: the host copy is stale from now on. */
void storage_device_wrote(Storage *s);
/* The device copy now equals the host's (after an upload). */
void storage_device_synced(Storage *s);

/* Making and sharing ----------------------------------------------------------------------- */

typedef enum TensorFill { TENSOR_UNSET, TENSOR_ZERO } TensorFill;

/* A new contiguous tensor with one reference. NULL, with words added to why, when the shape is
 * wrong, its size overflows, or memory is short. */
Tensor *tensor_new(DType t, int rank, const int64_t *extent, TensorFill fill, Str *why);
/* As tensor_new, but host memory is only allocated when first needed (a device result). The handle
 * is taken over, and released where this fails. */
Tensor *tensor_new_on_device(DType t, int rank, const int64_t *extent, const StorageDevice *device,
                             void *handle, Str *why);
/* One reference more, and one less: with the last one the tensor goes. */
Tensor *tensor_retain(Tensor *t);
void tensor_release(Tensor *t); /* NULL is allowed */
/* Number of elements. Never overflows: tensor_new refused what would. */
int64_t tensor_count(const Tensor *t);
/* Makes the host copy valid, fetching it from the device where needed. */
bool tensor_to_host(const Tensor *t, Str *why);
/* First element. Reading: the host copy must be valid. */
const void *tensor_data(const Tensor *t);
/* First byte of its whole storage (storage_bytes long), for copies to a device. */
const void *tensor_storage_data(const Tensor *t);
/* As tensor_data, for writing: any device copy is stale from now on. */
void *tensor_data_write(Tensor *t);
/* Whether elements lie side by side in row-major order. */
bool tensor_is_contiguous(const Tensor *t);
/* True if some byte belongs to an element of both. Exact. */
bool tensor_overlaps(const Tensor *a, const Tensor *b);
/* "f16[3, 4]"; a symbolic name can precede it in messages. */
void tensor_add_type(const Tensor *t, Str *out);
void tensor_add_type_of(DType t, int rank, const int64_t *extent, Str *out);
void tensor_add_shape(int rank, const int64_t *extent, Str *out); /* "[3, 4]" */

/* Views: new references to the same storage, or NULL with words added to why --------------- */

typedef enum TensorIndexKind { TIX_INT, TIX_SLICE, TIX_NEW } TensorIndexKind;

typedef struct TensorIndex {
  TensorIndexKind kind;
  int64_t start, stop, step; /* TIX_INT: start. Negative counts from the end, as in Python */
  bool has_start, has_stop;  /* TIX_SLICE: what is left out */
} TensorIndex;

/* x[i, a:b:c, None]: missing trailing axes are kept whole. Slice bounds are cut at the ends;
 * an integer outside its axis, too many indices and a step of 0 are errors. */
Tensor *tensor_index(const Tensor *t, const TensorIndex *index, int n, Str *why);
/* The first of the n that tensor_index refuses, or -1 where it is none of them alone. */
int tensor_index_refused(const Tensor *t, const TensorIndex *index, int n);
/* axes: a permutation of 0 … rank-1 (negative counts from the end). */
Tensor *tensor_permute(const Tensor *t, const int *axes, int n, Str *why);
Tensor *tensor_swap_last(const Tensor *t, Str *why); /* x.T: at least two axes */
/* Stretches axes of extent 1 and adds leading ones; strides of stretched axes are 0. */
Tensor *tensor_broadcast(const Tensor *t, int rank, const int64_t *extent, Str *why);
/* The common shape of two, by NumPy's rule; the error names both. */
bool tensor_broadcast_shape(const Tensor *a, const Tensor *b, int *rank, int64_t *extent, Str *why);
/* A view where the strides allow it, else a copy. One extent may be -1. */
Tensor *tensor_reshape(const Tensor *t, int rank, const int64_t *extent, Str *why);
/* How many elements before and behind its first one a tensor's others lie: least <= 0 <= most.
 * False where that is beyond 63 bits. */
bool tensor_reach(const Tensor *t, int64_t *least, int64_t *most);
/* A view of room, a vector, from element `first` on, with the extents and strides of t. The caller
 * sees to it that all of them are inside. */
Tensor *tensor_laid_out(const Tensor *room, int64_t first, const Tensor *t, Str *why);
/* t itself (retained) where it is contiguous, else a copy. */
Tensor *tensor_contiguous(Tensor *t, Str *why);

/* Elements --------------------------------------------------------------------------------- */

/* index: rank numbers, each inside its axis (the caller checked). */
Scalar tensor_get(const Tensor *t, const int64_t *index);
void tensor_set(Tensor *t, const int64_t *index, Scalar x); /* converts to the dtype */
void tensor_fill(Tensor *t, Scalar x);                      /* every element, converted once */
/* dst = src, converting; equal shapes (broadcast first). Overlap is safe. NULL-safe on why. */
bool tensor_copy(Tensor *dst, const Tensor *src, Str *why);
/* Always a new contiguous tensor. */
Tensor *tensor_cast(const Tensor *t, DType to, Str *why);
/* a, a + step, … below (above) b; step != 0. Integers: exact. Floats: a + i*step, one rounding of
 * the product, one of the sum, then to the dtype. */
Tensor *tensor_arange(DType t, Scalar a, Scalar b, Scalar step, const volatile sig_atomic_t *stop,
                      Str *why);
/* Ones on the diagonal, zeros elsewhere. */
Tensor *tensor_eye(DType t, int64_t rows, int64_t columns, Str *why);

/* Steps index to the next element in row-major order; false after the last (index is all zero
 * then). */
bool tensor_next(const Tensor *t, int64_t *index);

/* Walks the elements of up to four tensors of one shape in row-major order, in runs along a
 * coalesced innermost axis. Runs are numbered, so that workers can take ranges of them. */
typedef struct TensorRuns {
  int noperands, rank; /* rank of the outer axes, after coalescing */
  int64_t extent[TENSOR_MAX_RANK];
  ptrdiff_t outer[TENSOR_MAX_OPERANDS][TENSOR_MAX_RANK]; /* bytes */
  const char *base[TENSOR_MAX_OPERANDS];
  ptrdiff_t step[TENSOR_MAX_OPERANDS]; /* bytes between neighbours of a run */
  int64_t length;                      /* elements in a run */
  int64_t runs;
} TensorRuns;

/* operands: n of them, valid on the host, of equal shapes. */
void tensor_runs_init(TensorRuns *r, const Tensor *const *operands, int n);
/* Pointers to the first elements of run i, 0 <= i < runs. */
void tensor_runs_at(const TensorRuns *r, int64_t i, const char **p);

/* Random numbers --------------------------------------------------------------------------- */

/* Philox 4x32-10. The key is the seed; the counter of a block of four 32-bit words is {block
 * number, draw number} (64 bits each), draws counted from the seed, one a call. With w a word,
 * row-major: rand     32 bits and less: word i of the draw, its top bits: f32 24, f16 11, bf16 8,
 * f8e4m3 4, f8e5m2 3, as a fraction of 1; f64: words 2i (low) and 2i+1, top 53 bits. In [0, 1).
 *   randn    Box and Muller, in f64 by the four operations and sqrt only, so all machines agree:
 *            u = (w0 + 1) / 2^32, v = w1 / 2^32, r = sqrt(-2 ln u); elements r cos 2πv, r sin 2πv,
 *            rounded once; f64: u from words 0 and 1 (53 bits), v from words 2 and 3.
 *   randint  low + floor(x * (high - low) / 2^64), x = words 2i (low) and 2i+1. */
typedef struct TensorRandom {
  uint64_t seed;
  uint64_t draw;
  const volatile sig_atomic_t *stop; /* NULL; or where it is set a fill ends early */
} TensorRandom;

/* Each fills t (contiguous) and takes one draw; pool: NULL, or shares the work out. rand and randn:
 * float dtypes; randint: integers, low < high, both representable (the caller checked). */
void tensor_rand(Tensor *t, TensorRandom *random, Pool *pool);
void tensor_randn(Tensor *t, TensorRandom *random, Pool *pool);
void tensor_randint(Tensor *t, Scalar low, Scalar high, TensorRandom *random, Pool *pool);

/* Files --------------------------------------------------------------------------------------- */

typedef enum TensorFormat {
  TENSOR_NPY,         /* one tensor without a name */
  TENSOR_NPZ,         /* a zip archive of them, by name */
  TENSOR_SAFETENSORS, /* tensors by name, one after the other */
  TENSOR_NO_FORMAT
} TensorFormat;

/* By the end of the path: ".npy", ".npz", ".safetensors". */
TensorFormat tensor_format(const char *path);

/* A file being read. Its directory is read and checked first; elements come when they are asked
 * for. Nothing that it says is believed before it was checked against its size, so a damaged or
 * hostile file costs an error, not memory. A .npy file is of format 1 to 3, either byte order, C or
 * Fortran order; NumPy has no bf16 and f8, so theirs are the codes that ml_dtypes writes: two
 * bytes of kind V (`<V2`) are bf16, one (`<V1`) f8e4m3, and `<f1` is f8e5m2. */
typedef struct TensorFile TensorFile;
/* It lies in the arena, which also has the names. To be closed before the arena goes, also after a
 * jump out of one of the calls below. */
TensorFile *tensor_file_new(Arena *a);
/* stop: NULL, or a flag that ends a long read when it is not 0. False with words added to why,
 * beginning with the path. Opening a second time is a bug. */
bool tensor_file_open(TensorFile *f, const char *path, TensorFormat format,
                      const volatile sig_atomic_t *stop, Str *why);
size_t tensor_file_count(const TensorFile *f);
/* Of tensor i, 0 <= i < count, in the file's order; "" in a .npy file. */
const char *tensor_file_name(const TensorFile *f, size_t i);
size_t tensor_file_find(const TensorFile *f, const char *name); /* SIZE_MAX: not there */
/* A new tensor. 64 MiB and more that lie in the file as they must lie in memory are mapped and not
 * read: whoever shortens such a file in place takes the tensor's elements away (SIGBUS); replacing
 * it by rename, as tensor_save does, is no danger. NULL with words added to why. */
Tensor *tensor_file_read(TensorFile *f, size_t i, Str *why);
void tensor_file_close(TensorFile *f); /* more than once is allowed, NULL too */

/* What is saved: tensors by name (.npy: one, whose name is not looked at). */
typedef struct TensorNamed {
  const char *name;
  const Tensor *tensor; /* valid on the host */
} TensorNamed;

typedef struct TensorSave {
  TensorFormat format;
  const TensorNamed *v;
  size_t n;
  bool compress; /* .npz: deflated members */
  const volatile sig_atomic_t *stop;
} TensorSave;

/* Writes a file whole or not at all; views are written in row-major order of their own axes. Names
 * must differ. False with words added to why, beginning with the path. */
bool tensor_save(Arena *scratch, const char *path, const TensorSave *what, Str *why);

/* Comparing -------------------------------------------------------------------------------- */

typedef struct TensorDiff {
  double max_abs, max_rel;        /* rel: |a-b| / |b|; NaN against a number counts as infinite */
  int64_t where[TENSOR_MAX_RANK]; /* place of max_abs, in the broadcast shape */
  int rank;
  Scalar a, b;   /* the elements there */
  int64_t count; /* elements with a difference */
  int64_t total;
} TensorDiff;

/* Both end early, with any answer, once *stop is set (NULL: never). */
/* Compares with broadcasting, in f64 (integers exactly up to 2^53). NaN equals NaN here. */
bool tensor_maxdiff(const Tensor *a, const Tensor *b, const volatile sig_atomic_t *stop,
                    TensorDiff *out, Str *why);
/* Where a and b differ by more than `bound` has (f64, contiguous, of b's shape; a's too): *out has
 * the first such element in row-major order, how many there are, and their distance there. */
bool tensor_beyond(const Tensor *a, const Tensor *b, const Tensor *bound,
                   const volatile sig_atomic_t *stop, TensorDiff *out, Str *why);
/* |a - b| <= abs_tol + rel_tol * |b| everywhere; NaN is close to nothing. *close has the answer;
 * when it is false, *worst (may be NULL) has the place where the excess is greatest. */
bool tensor_allclose(const Tensor *a, const Tensor *b, double rel_tol, double abs_tol,
                     const volatile sig_atomic_t *stop, bool *close, TensorDiff *worst, Str *why);

/* Text ------------------------------------------------------------------------------------- */

typedef struct TensorPrint {
  size_t width;  /* columns of a line; 0: 80 */
  int64_t elide; /* elements above which it is elided; 0: 1000 */
  int64_t edge;  /* elements kept at each edge; 0: 3 */
  bool header;   /* the line `f16[3, 4] on cpu` */
} TensorPrint;

/* As NumPy prints: brackets, columns aligned on the decimal point; ends in a newline. */
void tensor_print(const Tensor *t, const TensorPrint *how, Str *out);
/* The shortest text that reads back as the same value of its type. */
void scalar_print(Scalar x, Str *out);
/* Appends a text with values in its places {0} and {1}; {0f}: the bits of an f64. */
void scalar_print_in(const char *text, const int64_t value[2], Str *out);

#endif
