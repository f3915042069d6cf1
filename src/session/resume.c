/* resume.c: a session put into a folder, and taken up again by another process: `:device reset`.
 *
 * In: a session. Out: `session.tile`, a program of its imports, definitions and plain values, and
 * `tensors.safetensors`; or the names found there. What cannot be written is named: tensors that
 * lived only on a device that is lost, records, kernels of IR text, values of Lua. Always holds:
 * the folder is the caller's, private and new. Tests: tests/repl/run (test_device_reset).
 */
#include "kernel.h"

#include <string.h>

typedef struct Store {
  const char *folder;
  Str program, tensors; /* the text; `, a = a` of the tensors */
  Str *lost;            /* names that cannot be kept, with why */
} Store;

static void lose(Store *st, const char *name, const char *why) {
  str_addf(st->lost, "%s: %s\n", name, why);
}

/* Numbers, texts, dtypes and lists of them have a text that reads back. */
static bool is_plain(Value v) {
  if (val_is_scalar(v) || v.kind == VAL_NIL || v.kind == VAL_STRING || v.kind == VAL_DTYPE)
    return true;
  if (!val_is_sequence(v))
    return false;
  for (size_t i = 0; i < v.as.obj->as.list.n; i++)
    if (!is_plain(v.as.obj->as.list.v[i]))
      return false;
  return true;
}

static void store_plain(Session *s, Store *st, const char *name, Value v) {
  str_addf(&st->program, "let %s", name);
  if (val_is_scalar(v) && v.typed != DT_NONE)
    str_addf(&st->program, ": %s", dtype_name(v.typed));
  str_add(&st->program, " = ");
  val_print(s, v, true, &st->program);
  str_addc(&st->program, '\n');
}

/* As written: comment, attributes, header and body. */
static void store_text(Store *st, const char *doc, Span header, Span body) {
  const char *text = header.file->text;
  for (const char *p = doc; p && *p;) {
    size_t n = strcspn(p, "\n");
    str_addf(&st->program, "## %.*s\n", (int)n, p);
    p += n + (p[n] == '\n');
  }
  str_addn(&st->program, text + header.begin, body.end - header.begin);
  str_addc(&st->program, '\n');
}

/* Another name of a kernel, or one with settings, is not what its text defines. */
static void store_definition(Store *st, const char *name, Value v) {
  const Object *o = v.as.obj;
  if (v.kind == VAL_FN) {
    store_text(st, o->as.fn.doc, o->as.fn.ast->header, o->as.fn.ast->body.span);
    return;
  }
  const AstKernel *k = o->as.kernel.ast;
  if (!k || o->as.kernel.nsettings > 0 || strcmp(k->name.text, name) != 0) {
    lose(st, name, k ? "another name of a kernel" : "a kernel of IR text");
    return;
  }
  for (size_t i = 0; i < k->nattributes; i++)
    str_addf(&st->program, "@%s ", k->attributes[i].text);
  store_text(st, o->as.kernel.doc, k->header, k->body.span);
}

/* A tensor whose device is gone is gone with it. */
static void store_tensor(Session *s, Store *st, const char *name, Tensor *t) {
  Str why = session_str(s);
  if (!tensor_to_host(t, &why)) {
    lose(st, name, "a tensor that was only on the device");
    return;
  }
  str_addf(&st->tensors, ", %s = %s", name, name);
  str_addf(&st->program, "let %s = load(\"%s/tensors.safetensors\", \"%s\")\n", name, st->folder,
           name);
}

static void store_value(Session *s, Store *st, const char *name, Value v) {
  if (is_plain(v))
    store_plain(s, st, name, v);
  else if (v.kind == VAL_FN || v.kind == VAL_KERNEL)
    store_definition(st, name, v);
  else if (v.kind == VAL_MODULE && v.as.obj->as.module->key)
    str_addf(&st->program, "import \"%s\" as %s\n", v.as.obj->as.module->key, name);
  else if (v.kind == VAL_TENSOR)
    store_tensor(s, st, name, v.as.tensor);
  else
    lose(st, name, val_describe(s, v));
}

/* In order of definition. */
static void store(Session *s, void *ctx) {
  Store *st = ctx;
  const Map *names = s->main->globals;
  for (size_t i = 0; i < map_count(names); i++)
    store_value(s, st, map_key(names, i), *(Value *)map_value(names, i));
}

Status session_store(Session *s, const char *folder, Str *lost) {
  session_begin(s);
  Arena *a = arena_new(NULL, "store");
  Store st = {.folder = folder, .program = str_new(a), .tensors = str_new(a), .lost = lost};
  Status status = session_protect(s, store, &st);
  const char *why = NULL;
  if (status == ST_OK && st.tensors.n) {
    const char *text =
        arena_printf(a, "save(\"%s/tensors.safetensors\"%s)\n", folder, str_text(&st.tensors));
    bool safe = s->options.safe;
    s->options.safe = false; /* these files are ours, not the program's */
    status = session_run_text(s, "<reset>", text, strlen(text));
    s->options.safe = safe;
  }
  const char *path = arena_printf(a, "%s/session.tile", folder);
  if (status == ST_OK && !io_write_file(a, path, str_text(&st.program), st.program.n, &why)) {
    diag_add(&s->diags, E0832, (Span){NULL, 0, 0}, "%s cannot be written: %s", path, why);
    status = ST_USAGE;
  }
  arena_free(a);
  return status;
}

Status session_restore(Session *s, const char *folder) {
  Arena *a = arena_new(NULL, "restore");
  bool safe = s->options.safe;
  s->options.safe = false;
  Status status = session_run_file(s, arena_printf(a, "%s/session.tile", folder));
  s->options.safe = safe;
  s->main->directory = ".";
  arena_free(a);
  return status;
}

void session_random(Session *s, uint64_t *seed, uint64_t *draw, bool set) {
  if (set) {
    s->random.seed = *seed;
    s->random.draw = *draw;
  }
  *seed = s->random.seed;
  *draw = s->random.draw;
}
