/* files.c: load and save.
 *
 * In: a path, whose ending says the format, and a tensor. Out: a new tensor in host memory, or a
 * whole file. Reading and writing need as much memory as the file is long: it lives in an arena of
 * its own, under a boundary of its own, so that it is given back whatever happens. Tests:
 * tests/lang/npy_*.tile, tests/cli/run.
 */
#include "impl.h"

#include <string.h>

/* The format follows from the name, so a wrong one is refused before anything is opened. */
static const char *npy_path(Args *a, size_t i) {
  if (a->v[i].kind != VAL_STRING)
    host_fail(a->s, E0801, a->spans[i], "a path is a string, not %s", val_describe(a->s, a->v[i]));
  const char *path = val_text(a->v[i]);
  size_t n = a->v[i].as.obj->as.string.n;
  if (n < 4 || strlen(path) != n || strcmp(path + n - 4, ".npy") != 0)
    host_fail(a->s, E0832, a->spans[i], "the file's name must end in .npy");
  return path;
}

typedef struct FileJob {
  const char *path;
  Tensor *t; /* what is written, or what was read */
  bool write, ok;
  Arena *scratch;
  Str why;
} FileJob;

/* Allocations inside leave to this boundary, not past it. */
static void run_file_job(Guard *guard, void *ctx) {
  FileJob *j = ctx;
  j->scratch = arena_new(guard, "file");
  if (j->write) {
    j->ok = tensor_write_npy(j->scratch, j->t, j->path, &j->why);
  } else {
    j->t = tensor_read_npy(j->scratch, j->path, &j->why);
    j->ok = j->t != NULL;
  }
}

/* The arena goes before a failure is raised. */
static void run_file(Args *a, FileJob *j) {
  j->why = str_new(a->s->line);
  Status status = guard_run(run_file_job, j);
  arena_free(j->scratch);
  if (status != ST_OK)
    host_fail_with(a->s, status);
  if (!j->ok)
    host_fail(a->s, j->write ? E0833 : E0831, a->span, "%s", str_text(&j->why));
}

/* A new tensor in host memory. */
Value builtin_load(Args *a) {
  args_names(a, NULL, 0);
  args_count(a, 1, 1);
  FileJob j = {.path = session_path(a->s, npy_path(a, 0))};
  run_file(a, &j);
  return val_tensor(a->s, j.t);
}

/* The file is whole or not there: written beside and renamed. */
Value builtin_save(Args *a) {
  args_names(a, NULL, 0);
  args_count(a, 2, 2);
  bool tensor_first = a->v[0].kind == VAL_TENSOR; /* save(x, path) is what some will write */
  FileJob j = {.write = true, .path = npy_path(a, tensor_first ? 1 : 0)};
  j.t = args_tensor(a, tensor_first ? 0 : 1);
  run_file(a, &j);
  return val_nil();
}
