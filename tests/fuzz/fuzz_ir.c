/* fuzz_ir.c: any bytes through the reader, the verifier and the printer of IR text.
 *
 * In: IR text, or what is meant to be it. Holds: no crash, no endless loop; text that does not read
 * has a diagnostic; what reads prints to a text that reads back and prints the same, whether or not
 * the verifier accepts it.
 */
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Input {
  const char *text;
  size_t n;
  Arena *arena; /* freed by who made the input, also after a jump */
} Input;

static void require(bool ok, const char *what) {
  if (ok)
    return;
  fprintf(stderr, "fuzz_ir: %s\n", what);
  abort();
}

static bool read_kernels(Arena *a, const char *text, size_t n, IrKernels *out) {
  DiagSink *sink = ARENA_NEW(a, DiagSink);
  Str shown = str_new(a);
  diag_init(sink, a);
  bool ok = ir_read(a, names_new(a), src_new(a, "input.ir", text, n), sink, out);
  require(ok == (sink->errors == 0), "result and diagnostics differ");
  diag_format_all(sink, false, &shown);
  return ok;
}

static void print_kernels(const IrKernels *kernels, Str *out) {
  for (size_t i = 0; i < kernels->n; i++)
    ir_print(kernels->v[i], out);
}

static void verify_kernels(Arena *a, const IrKernels *kernels) {
  DiagSink *sink = ARENA_NEW(a, DiagSink);
  diag_init(sink, a);
  for (size_t i = 0; i < kernels->n; i++) {
    size_t before = sink->errors;
    bool ok = ir_verify(kernels->v[i], sink);
    require(ok == (sink->errors == before), "the verifier refuses without a word");
  }
}

static void run(Guard *guard, void *ctx) {
  const Input *in = ctx;
  Arena *a = in->arena;
  IrKernels first = {0}, second = {0};
  arena_set_guard(a, guard);
  if (!read_kernels(a, in->text, in->n, &first))
    return;
  Str once = str_new(a), twice = str_new(a);
  print_kernels(&first, &once);
  require(read_kernels(a, str_text(&once), once.n, &second), "the printed text does not read");
  print_kernels(&second, &twice);
  require(strcmp(str_text(&once), str_text(&twice)) == 0, "printing and reading changed the text");
  verify_kernels(a, &first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Input in = {(const char *)data, size, arena_new(NULL, "fuzz")};
  guard_run(run, &in);
  arena_free(in.arena);
  return 0;
}
