/* irtool.c: reads an .ir file, verifies each kernel, prints it: `irtool [-n] FILE…` (-n: no
 * verifying).
 *
 * In: files of IR text. Out: their canonical text, or diagnostics and exit status 1. For tests, and
 * for whoever writes IR by hand.
 */
#include "ir/ir.h"

#include <string.h>

static bool show(const IrKernels *kernels, DiagSink *sink, bool verify, Str *out) {
  bool ok = true;
  for (size_t i = 0; i < kernels->n; i++) {
    ok &= !verify || ir_verify(kernels->v[i], sink);
    ir_print(kernels->v[i], out);
  }
  return ok;
}

static bool run(Arena *a, const char *path, bool verify) {
  DiagSink sink;
  IrKernels kernels = {0};
  const char *why = NULL;
  size_t n;
  diag_init(&sink, a);
  char *text = io_read_file(a, path, &n, &why);
  if (!text) {
    fprintf(stderr, "%s: %s\n", path, why);
    return false;
  }
  SrcFile *file = src_new(a, path, text, n);
  Str out = str_new(a), errors = str_new(a);
  bool ok = file && ir_read(a, names_new(a), file, &sink, &kernels);
  ok = ok && show(&kernels, &sink, verify, &out);
  diag_format_all(&sink, false, &errors);
  fputs(str_text(&errors), stderr);
  return ok && io_write(stdout, str_text(&out), out.n);
}

int main(int argc, char **argv) {
  Arena *a = arena_new(NULL, "irtool");
  bool ok = true, verify = true;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "-n"))
      verify = false;
    else
      ok &= run(a, argv[i], verify);
  }
  arena_free(a);
  fflush(stdout);
  return ok ? 0 : 1;
}
