/* fuzz_sema.c: any bytes as a program whose kernels are checked and built.
 *
 * In: a program, or what is meant to be one. Holds: no crash, no endless loop; a kernel that is
 * refused has a diagnostic; what the checks accept is built, the verifier accepts what was built,
 * and its text reads back and prints the same.
 */
#include <stdlib.h>
#include <string.h>

#include "ir/build.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Input {
  const char *text;
  size_t n;
  Arena *arena; /* freed by who made the input, also after a jump */
  const AstFile *file;
  SemaScope scope;
} Input;

static void require(bool ok, const char *what) {
  if (ok)
    return;
  fprintf(stderr, "fuzz_sema: %s\n", what);
  abort();
}

static SemaFn find_fn(void *ctx, const char *module, const char *name) {
  const Input *in = ctx;
  for (size_t i = 0; !module && i < in->file->body.n; i++) {
    const AstStmt *s = in->file->body.v[i];
    if (s->kind == STMT_FN && s->as.fn->name.text == name)
      return (SemaFn){s->as.fn, &in->scope};
  }
  return (SemaFn){NULL, NULL};
}

/* What is printed reads back, and prints the same. */
static void check_text(Arena *a, IrKernel *k) {
  DiagSink sink;
  IrKernels again = {0};
  Str once = str_new(a), twice = str_new(a);
  diag_init(&sink, a);
  ir_print(k, &once);
  bool read = ir_read(a, names_new(a), src_new(a, "once.ir", once.s, once.n), &sink, &again);
  require(read && again.n == 1, "the printed kernel does not read");
  ir_print(again.v[0], &twice);
  require(strcmp(str_text(&once), str_text(&twice)) == 0, "printing and reading changed the text");
}

static void check_kernel(Input *in, Names *names, const AstKernel *ast) {
  DiagSink *sink = ARENA_NEW(in->arena, DiagSink);
  diag_init(sink, in->arena);
  SemaKernel *k = sema_declare(in->arena, ast, &in->scope, sink);
  Str shown = str_new(in->arena);
  diag_format_all(sink, false, &shown);
  require((k && k->ok) == (sink->errors == 0), "result and diagnostics differ");
  if (!k || !k->ok)
    return;
  SemaSpec *spec = sema_spec_new(in->arena, k);
  for (size_t i = 0; i < k->nextents; i++)
    spec->extents[i] = 48;
  SemaTree *tree = sema_check(in->arena, k, spec, sink);
  require(tree || sink->errors, "refused without a word");
  IrKernel *ir = tree ? ir_build(in->arena, names, tree, sink) : NULL;
  require(ir || sink->errors, "not built, without a word");
  if (!ir || sink->errors)
    return;
  require(ir_verify(ir, sink), "the verifier refuses what was built");
  check_text(in->arena, ir);
}

static void run(Guard *guard, void *ctx) {
  Input *in = ctx;
  AstFile *file;
  DiagSink *sink = ARENA_NEW(in->arena, DiagSink);
  arena_set_guard(in->arena, guard);
  diag_init(sink, in->arena);
  Names *names = names_new(in->arena);
  ParseInput parse = {in->arena, names, sink, src_new(in->arena, "input.tile", in->text, in->n),
                      false};
  if (parse_file(&parse, &file) != PARSE_OK)
    return;
  in->file = file;
  in->scope = (SemaScope){in, find_fn, NULL, NULL};
  for (size_t i = 0; i < file->body.n; i++)
    if (file->body.v[i]->kind == STMT_KERNEL)
      check_kernel(in, names, file->body.v[i]->as.kernel);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Input in = {.text = (const char *)data, .n = size, .arena = arena_new(NULL, "fuzz")};
  guard_run(run, &in);
  arena_free(in.arena);
  return 0;
}
