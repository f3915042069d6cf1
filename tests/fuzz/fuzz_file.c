/* fuzz_file.c: any bytes as a file of tensors; one program a format (FUZZ_FORMAT).
 *
 * In: a file, or what is meant to be one. Holds: no crash, no endless loop, no memory beyond what
 * the bytes can fill; what is refused has words; a name finds its tensor, and every element that a
 * tensor names is there.
 */
#include <stdlib.h>
#include <string.h>

#include "tensor/impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Input {
  const uint8_t *data;
  size_t n;
  Arena *arena; /* freed by who made the input, also after a jump */
  TensorFile *file;
} Input;

static void require(bool ok, const char *what) {
  if (ok)
    return;
  fprintf(stderr, "fuzz_file: %s\n", what);
  abort();
}

/* Every element is read, so that a tensor which reaches outside its bytes is seen. */
static uint64_t sum_of(const Tensor *t, Str *why) {
  Tensor *flat = tensor_cast(t, t->dtype, why);
  require(flat != NULL, "no copy of what was read");
  uint64_t sum = hash_bytes(tensor_data(flat), (size_t)tensor_count(t) * dtype_size(t->dtype), 1);
  tensor_release(flat);
  return sum;
}

static void run(Guard *guard, void *ctx) {
  Input *in = ctx;
  arena_set_guard(in->arena, guard);
  Str why = str_new(in->arena);
  in->file = tensor_file_new(in->arena);
  if (!tensor_file_open_bytes(in->file, in->data, in->n, FUZZ_FORMAT, &why)) {
    require(why.n > 0, "refused without a word");
    return;
  }
  for (size_t i = 0; i < tensor_file_count(in->file); i++) {
    const char *name = tensor_file_name(in->file, i);
    require(tensor_file_find(in->file, name) == i, "a name finds another tensor");
    str_clear(&why);
    Tensor *t = tensor_file_read(in->file, i, &why);
    require(t || why.n > 0, "refused without a word");
    if (t && tensor_count(t) > 0)
      sum_of(t, &why);
    tensor_release(t);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Input in = {data, size, arena_new(NULL, "fuzz"), NULL};
  guard_run(run, &in);
  tensor_file_close(in.file);
  arena_free(in.arena);
  return 0;
}
