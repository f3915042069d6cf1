/* files.c: load and save.
 *
 * In: a path, whose ending says the format, and tensors. Out: a tensor, a record of them by name,
 * or a whole file. What is open during a call belongs to its job, which is ended whatever happens
 * below it; elements go straight to where they stay. Tests: tests/lang/file_*.tile,
 * tests/errors/file_*.tile, tests/files/run.
 */
#include "impl.h"

#include <string.h>

/* A path as the program gave it, and what it says of the format. */
typedef struct FilePath {
  const char *text;
  TensorFormat format;
} FilePath;

/* The format follows from the name, so a wrong one is refused before anything is opened. */
static FilePath file_path(Args *a, size_t i) {
  if (a->v[i].kind != VAL_STRING)
    host_fail(a->s, E0801, a->spans[i], "a path is a string, not %s", val_describe(a->s, a->v[i]));
  FilePath p = {val_text(a->v[i]), TENSOR_NO_FORMAT};
  if (strlen(p.text) == a->v[i].as.obj->as.string.n)
    p.format = tensor_format(p.text);
  if (p.format == TENSOR_NO_FORMAT)
    host_fail(a->s, E0832, a->spans[i], "the file's name must end in .npy, .npz or .safetensors");
  session_allow(a->s, p.text, a->spans[i]);
  return p;
}

/* A failure that the interrupt flag asked for is none of the file's. */
static _Noreturn void file_failed(Args *a, DiagCode code, const Str *why) {
  Session *s = a->s;
  if (s->options.interrupt && *s->options.interrupt)
    guard_raise(s->guard, ST_INTERRUPTED);
  host_fail(s, code, a->span, "%s", str_text(why));
}

/* Loading ------------------------------------------------------------------------------------ */

typedef struct LoadJob {
  Args *a;
  FilePath path;
  const char *name; /* of the only tensor wanted, or NULL */
  Arena *arena;
  TensorFile *file;
  Value result; /* one reference */
} LoadJob;

static Value read_one(LoadJob *j, size_t i) {
  Str why = str_new(j->arena);
  Tensor *t = tensor_file_read(j->file, i, &why);
  if (!t)
    file_failed(j->a, E0831, &why);
  return val_tensor(j->a->s, t);
}

/* What is there is listed as far as a line takes it. */
static _Noreturn void no_such_tensor(LoadJob *j) {
  Session *s = j->a->s;
  size_t n = tensor_file_count(j->file), shown = n < 8 ? n : 8;
  const char **names = ARENA_ARRAY(j->arena, const char *, n);
  Str list = str_new(j->arena);
  for (size_t i = 0; i < n; i++) {
    names[i] = tensor_file_name(j->file, i);
    if (i < shown)
      str_addf(&list, i ? ", %s" : "%s", names[i]);
  }
  if (n > shown)
    str_addf(&list, " and %zu more", n - shown);
  const char *near = names_closest(j->name, names, n);
  host_fail_hint(s, E0831, args_span(j->a, 1),
                 near ? arena_printf(s->line, "did you mean \"%s\"?", near) : NULL,
                 "%s has no tensor named \"%s\"; it has %s", j->path.text, j->name,
                 n ? str_text(&list) : "none");
}

static Value read_named(LoadJob *j) {
  size_t i = tensor_file_find(j->file, j->name);
  if (i == SIZE_MAX)
    no_such_tensor(j);
  return read_one(j, i);
}

/* In the file's order. */
static Value read_all(LoadJob *j) {
  Session *s = j->a->s;
  size_t n = tensor_file_count(j->file);
  Field *v = ARENA_ARRAY(j->arena, Field, n);
  for (size_t i = 0; i < n; i++) {
    const char *name = tensor_file_name(j->file, i);
    v[i] = (Field){names_get(s->names, name, strlen(name)), read_one(j, i)};
  }
  return val_record(s, v, n);
}

static void run_load(Session *s, void *ctx) {
  LoadJob *j = ctx;
  arena_set_guard(j->arena, s->guard);
  Str why = str_new(j->arena);
  j->file = tensor_file_new(j->arena);
  if (!tensor_file_open(j->file, j->path.text, j->path.format, s->options.interrupt, &why))
    file_failed(j->a, E0831, &why);
  Value v = j->name ? read_named(j) : j->path.format == TENSOR_NPY ? read_one(j, 0) : read_all(j);
  j->result = val_retain(v);
}

/* The list of temporaries has room for the result: it was in it before it was cut back. */
Value builtin_load(Args *a) {
  Session *s = a->s;
  args_names(a, NULL, 0);
  args_count(a, 1, 2);
  LoadJob j = {.a = a, .path = file_path(a, 0)};
  j.path.text = session_path(s, j.path.text);
  if (a->npos == 2) {
    if (a->v[1].kind != VAL_STRING)
      host_fail(s, E0801, a->spans[1], "a tensor's name is a string, not %s",
                val_describe(s, a->v[1]));
    if (j.path.format == TENSOR_NPY)
      host_fail(s, E0804, a->spans[1], "the tensor in a .npy file has no name");
    j.name = val_text(a->v[1]);
  }
  j.arena = arena_new(s->guard, "file");
  Status status = session_protect(s, run_load, &j);
  tensor_file_close(j.file);
  arena_free(j.arena);
  if (status != ST_OK)
    host_fail_with(s, status);
  Value v = val_keep(s, j.result);
  val_release(j.result);
  return v;
}

/* Saving ------------------------------------------------------------------------------------- */

typedef VEC(TensorNamed) NamedTensors;

typedef struct SaveJob {
  Args *a;
  FilePath path;
  size_t path_at; /* among the positional arguments */
  bool compress;
  Arena *arena;
} SaveJob;

static const Tensor *saved_tensor(Args *a, size_t i, Value v, const char *name) {
  const char *what = arena_printf(session_scratch(a->s), "%s", name);
  return host_tensor(a->s, v, a->spans[i], what);
}

/* A record gives all its fields, as load made it. */
static void add_record(SaveJob *j, size_t i, NamedTensors *out) {
  const Object *o = j->a->v[i].as.obj;
  for (size_t k = 0; k < o->as.record.n; k++) {
    const Field *f = &o->as.record.v[k];
    VEC_PUSH(j->arena, out, ((TensorNamed){f->name, saved_tensor(j->a, i, f->value, f->name)}));
  }
}

/* ("a.b", x), for names that are none in the language. */
static bool is_pair(Value v) {
  return v.kind == VAL_TUPLE && v.as.obj->as.list.n == 2 &&
         v.as.obj->as.list.v[0].kind == VAL_STRING;
}

static void add_pair(SaveJob *j, size_t i, Value v, NamedTensors *out) {
  const Value *part = v.as.obj->as.list.v;
  const char *name = val_text(part[0]);
  if (strlen(name) != part[0].as.obj->as.string.n)
    host_fail(j->a->s, E0801, j->a->spans[i], "a tensor's name has no NUL in it");
  VEC_PUSH(j->arena, out, ((TensorNamed){name, saved_tensor(j->a, i, part[1], name)}));
}

/* Tensors by position are named as np.savez names them. */
static void add_positional(SaveJob *j, size_t i, NamedTensors *out) {
  Args *a = j->a;
  Value v = a->v[i];
  if (v.kind == VAL_RECORD) {
    add_record(j, i, out);
  } else if (is_pair(v)) {
    add_pair(j, i, v, out);
  } else if (val_is_sequence(v)) {
    for (size_t k = 0; k < v.as.obj->as.list.n; k++) {
      if (!is_pair(v.as.obj->as.list.v[k]))
        host_fail(a->s, E0801, a->spans[i], "element %zu is %s, not a pair (\"name\", tensor)", k,
                  val_describe(a->s, v.as.obj->as.list.v[k]));
      add_pair(j, i, v.as.obj->as.list.v[k], out);
    }
  } else {
    const char *name = arena_printf(j->arena, "arr_%zu", out->n);
    const Tensor *t = saved_tensor(a, i, v, arena_printf(j->arena, "argument %zu of save", i + 1));
    if (j->path.format == TENSOR_SAFETENSORS)
      host_fail_hint(a->s, E0804, a->spans[i], "save(\"m.safetensors\", x = x)",
                     "a tensor in a .safetensors file has a name");
    VEC_PUSH(j->arena, out, ((TensorNamed){name, t}));
  }
}

static void gather_named(SaveJob *j, NamedTensors *out) {
  Args *a = j->a;
  for (size_t i = 0; i < a->npos; i++)
    if (i != j->path_at)
      add_positional(j, i, out);
  for (size_t i = a->npos; i < a->n; i++)
    if (strcmp(a->names[i], "compress") == 0 && a->v[i].kind == VAL_BOOL)
      j->compress = a->v[i].as.b;
    else
      VEC_PUSH(j->arena, out,
               ((TensorNamed){a->names[i], saved_tensor(a, i, a->v[i], a->names[i])}));
  if (j->compress && j->path.format != TENSOR_NPZ)
    host_fail(a->s, E0804, a->span, "only .npz files are compressed");
}

static void run_save(Session *s, void *ctx) {
  SaveJob *j = ctx;
  NamedTensors v = {0};
  arena_set_guard(j->arena, s->guard);
  if (j->path.format == TENSOR_NPY) {
    args_names(j->a, NULL, 0);
    args_count(j->a, 2, 2);
    VEC_PUSH(j->arena, &v, ((TensorNamed){"", args_tensor(j->a, 1 - j->path_at)}));
  } else {
    gather_named(j, &v);
  }
  TensorSave what = {j->path.format, v.v, v.n, j->compress, s->options.interrupt};
  Str why = str_new(j->arena);
  if (!tensor_save(j->arena, j->path.text, &what, &why))
    file_failed(j->a, E0833, &why);
}

/* The file is whole or not there: written beside and renamed. */
Value builtin_save(Args *a) {
  args_count(a, 1, SIZE_MAX);
  SaveJob j = {.a = a};
  j.path_at = a->v[0].kind == VAL_TENSOR && a->npos > 1; /* save(x, path) is what some write */
  j.path = file_path(a, j.path_at);
  j.arena = arena_new(a->s->guard, "file");
  Status status = session_protect(a->s, run_save, &j);
  arena_free(j.arena);
  if (status != ST_OK)
    host_fail_with(a->s, status);
  return val_nil();
}
