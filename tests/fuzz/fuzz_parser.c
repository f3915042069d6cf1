/* fuzz_parser.c: any bytes through lexer, parser, printer and formatter.
 *
 * In: a program, or what is meant to be one. Holds: no crash, no endless loop; a text that parses
 * is formatted to one that parses to the same tree, keeps its comments, and formats to itself; a
 * text that does not parse has a diagnostic, or is PENDING at the prompt.
 */
#include <stdlib.h>
#include <string.h>

#include "parser/parser.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Input {
  const char *text;
  size_t n;
} Input;

static void require(bool ok, const char *what) {
  if (ok)
    return;
  fprintf(stderr, "fuzz_parser: %s\n", what);
  abort();
}

static ParseStatus parse(Arena *a, const char *text, size_t n, bool prompt, AstFile **out) {
  DiagSink *sink = ARENA_NEW(a, DiagSink);
  diag_init(sink, a);
  ParseInput in = {a, names_new(a), sink, src_new(a, "input.tile", text, n), prompt};
  ParseStatus status = parse_file(&in, out);
  require((status == PARSE_ERROR) == (sink->errors > 0), "status and diagnostics differ");
  require(prompt || status != PARSE_PENDING, "PENDING in a file");
  Str shown = str_new(a);
  diag_format_all(sink, false, &shown);
  return status;
}

/* Texts may hold NUL bytes. */
static bool holds(const char *text, size_t n, const char *word) {
  return memmem(text, n, word, strlen(word)) != NULL;
}

static void check_format(Arena *a, const AstFile *file) {
  Str tree = str_new(a), once = str_new(a), again = str_new(a), twice = str_new(a);
  AstFile *reread;
  ast_print(file, &tree);
  bool broken = holds(str_text(&tree), tree.n, "<error>") &&
                !holds(file->file->text, file->file->n, "<error>");
  require(!broken, "PARSE_OK with a node that could not be read");
  fmt_format(a, file, &once);
  bool ok = parse(a, str_text(&once), once.n, false, &reread) == PARSE_OK;
  require(ok, "the formatted text does not parse");
  ast_print(reread, &again);
  require(strcmp(str_text(&tree), str_text(&again)) == 0, "formatting changed the tree");
  require(file->tokens.ncomments == reread->tokens.ncomments, "formatting lost a comment");
  fmt_format(a, reread, &twice);
  require(strcmp(str_text(&once), str_text(&twice)) == 0, "formatting is not idempotent");
}

static void run(Guard *guard, void *ctx) {
  const Input *in = ctx;
  Arena *a = arena_new(guard, "fuzz");
  AstFile *file;
  ParseStatus at_prompt = parse(a, in->text, in->n, true, &file);
  ParseStatus status = parse(a, in->text, in->n, false, &file);
  require(at_prompt != PARSE_PENDING || status == PARSE_ERROR, "PENDING, but a whole file");
  Str tree = str_new(a);
  ast_print(file, &tree);
  if (status == PARSE_OK)
    check_format(a, file);
  arena_free(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Input in = {(const char *)data, size};
  require(guard_run(run, &in) == ST_OK, "left through the guard");
  return 0;
}
