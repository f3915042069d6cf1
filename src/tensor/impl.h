/* impl.h: what the files of src/tensor share among themselves. */
#ifndef TILESH_TENSOR_IMPL_H
#define TILESH_TENSOR_IMPL_H

#include "tensor.h"

/* A storage with one reference, or NULL with words added to why. */
Storage *storage_new(size_t bytes, TensorFill fill, Str *why);
Storage *storage_new_device(size_t bytes, const StorageDevice *device, void *handle, Str *why);
/* Over `bytes` bytes that begin `before` bytes into the `length` bytes that mmap gave at base, and
 * that it unmaps in the end; elements must be aligned there, and 64 bytes after them readable. NULL
 * where memory is short: the mapping is the caller's again. */
Storage *storage_new_mapped(void *base, size_t length, size_t before, size_t bytes);
/* A contiguous tensor over a storage of its size, which it takes over, also on failure. */
Tensor *tensor_of_storage(DType t, int rank, const int64_t *extent, Storage *s, Str *why);
Storage *storage_retain(Storage *s);
void storage_release(Storage *s);
bool storage_to_host(Storage *s, Str *why);
char *storage_host(const Storage *s);
void storage_host_wrote(Storage *s);

/* A new view of t's storage with t's dtype; rank 0 until the caller fills it. */
Tensor *tensor_view(const Tensor *t, Str *why);
void tensor_set_strides(Tensor *t); /* contiguous */
/* Byte address of the element at offset 0 of the view, without a residency check. */
char *tensor_address(const Tensor *t);
/* Four words of Philox 4x32-10: the key is the seed, the counter the block and the draw. */
void tensor_philox(uint64_t seed, uint64_t block, uint64_t draw, uint32_t out[4]);

/* tensor_file_open for bytes that stay where they are until the file is closed: the readers read
 * from memory too, and the tests give them what no file system would. */
bool tensor_file_open_bytes(TensorFile *f, const void *bytes, size_t n, TensorFormat format,
                            Str *why);
void tensor_why(Str *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
