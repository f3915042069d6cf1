/* import.c: modules: other files, each run once in a scope of its own.
 *
 * In: an import statement. Out: the name bound to a module whose names live under `name.`. A path
 * starts at the importing file; a bare name is looked for in the library, then in $TILESH_PATH, and
 * last beside the folder that the program was built in.
 * Tests and benches of an imported file do not run. A file that ends in .lua is
 * src/lua's. Tests: tests/lang/import_*.tile, tests/lua.
 */
#include "impl.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An absolute path stands as it is; so does one from the current folder, without a "./" in
 * messages. */
static const char *join(Session *s, const char *directory, size_t n, const char *file) {
  bool alone = file[0] == '/' || (n == 1 && directory[0] == '.');
  return alone ? arena_strdup(s->line, file)
               : arena_printf(s->line, "%.*s/%s", (int)n, directory, file);
}

/* The first directory of a `:` list that has the file. */
static const char *search(Session *s, const char *list, const char *file) {
  while (list && *list) {
    size_t n = strcspn(list, ":");
    const char *path = n ? join(s, list, n, file) : NULL;
    if (path && access(path, R_OK) == 0)
      return path;
    list += n + (list[n] == ':');
  }
  return NULL;
}

/* What is imported, by a statement or by a call from another language. */
typedef struct Want {
  const char *name; /* of the module, for print */
  const char *path; /* NULL: `module` is looked for */
  const char *module;
  Span span;
} Want;

/* What needs no import here. */
static bool of_python(const char *module) {
  static const char *const names[] = {"numpy",    "torch", "math", "triton",
                                      "tilelang", "cupy",  "jax"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(module, names[i]) == 0)
      return true;
  return false;
}

static int is_module(const struct dirent *d) {
  return str_ends_in(d->d_name, ".tile");
}

/* How much of a path names the folder that it lies in. */
static ssize_t folder_of(const char *path, ssize_t n) {
  while (n > 0 && path[n - 1] != '/')
    n--;
  return n - 1;
}

/* The directories of modules, as a `:` list: the library, $TILESH_PATH, and the library of the
 * source tree whose `build` holds the running program, which need not be installed. */
static const char *module_places(Session *s) {
  const char *own = getenv("TILESH_PATH");
  Str list = session_str(s);
  str_addf(&list, "%s/stdlib:%s", TILESH_DATADIR, own ? own : "");
  char exe[4096];
  ssize_t n = readlink("/proc/self/exe", exe, sizeof exe);
  n = folder_of(exe, folder_of(exe, n)); /* …/build/tilesh */
  if (n > 0)
    str_addf(&list, ":%.*s/stdlib", (int)n, exe);
  return str_text(&list);
}

/* Whether the words of a list have this one. */
static bool listed(const Str *list, const char *word, size_t n) {
  for (const char *at = str_text(list); (at = strstr(at, word)); at += n)
    if ((at == str_text(list) || at[-1] == ' ') && (at[n] == ',' || !at[n]))
      return true;
  return false;
}

/* "attention, conv": the modules of each directory of a `:` list, each once. */
static void add_modules(Session *s, const char *list, Str *out) {
  while (list && *list) {
    size_t len = strcspn(list, ":");
    struct dirent **entries = NULL;
    const char *directory = arena_printf(s->line, "%.*s", (int)len, list);
    int n = scandir(directory, &entries, is_module, alphasort);
    for (int i = 0; i < n; i++) {
      size_t stem = strlen(entries[i]->d_name) - 5;
      entries[i]->d_name[stem] = '\0';
      if (!listed(out, entries[i]->d_name, stem))
        str_addf(out, "%s%s", out->n ? ", " : "", entries[i]->d_name);
      free(entries[i]);
    }
    free(entries);
    list += len + (list[len] == ':');
  }
}

/* The names that would do, or where to say them. */
static const char *module_hint(Session *s, const char *module) {
  Str there = session_str(s);
  if (of_python(module))
    return "its functions are built in: zeros(f32, 3, 4), exp(x), a @ b";
  add_modules(s, module_places(s), &there);
  if (there.n > 0 && there.n < 300)
    return arena_printf(s->line, "there are %s; a file is named by import \"x.tile\" as x",
                        str_text(&there));
  return "set TILESH_PATH, or name a file: import \"x.tile\" as x";
}

/* A bare name is a module of the library or of $TILESH_PATH. Second names give way to files. */
static const char *find_module(Session *s, const Want *w) {
  static const NamePair as[] = {{"gemm", "matmul"}};
  const char *places = module_places(s), *name = w->module, *path = NULL;
  for (; name && !path; name = names_here(name, as, sizeof as / sizeof *as))
    path = search(s, places, arena_printf(s->line, "%s.tile", name));
  if (!path)
    host_fail_hint(s, E0813, w->span, module_hint(s, w->module), "no module is named %s",
                   w->module);
  return path;
}

/* A quoted path starts at the importing file. */
static const char *find(Session *s, const Want *w) {
  const char *from = s->module->directory;
  return w->path ? join(s, from, strlen(from), w->path) : find_module(s, w);
}

/* By real path: two spellings of one file are one module. */
static Module *loaded(Session *s, const char *path) {
  for (Module *m = s->modules; m; m = m->next)
    if (m->key && strcmp(m->key, path) == 0)
      return m;
  return NULL;
}

typedef struct Load {
  const char *name, *path, *text;
  size_t n;
  Module *module;
} Load;

/* Tests, checks and benches of the file do not run, nor do its expressions print. */
static void run_module(Session *s, void *ctx) {
  Load *l = ctx;
  ParseStatus status;
  s->prompt = false;
  AstFile *f = session_parse(s, l->path, l->text, l->n, false, &status);
  if (status != PARSE_OK)
    host_fail_with(s, ST_COMPILE);
  session_keep(s); /* the module's values may point into its text */
  s->importing++;
  session_run_block(s, f, l->module);
}

/* The module runs in a scope of its own; if it fails, the import fails with its diagnostics, and
 * the next one reads the file again. */
static Module *run(Session *s, Load *l, const char *key) {
  bool prompt = s->prompt;
  l->module = session_module(s, l->name, l->path, key);
  l->module->loading = true;
  Status status = session_protect(s, run_module, l);
  s->prompt = prompt;
  l->module->loading = false;
  if (status != ST_OK) {
    l->module->key = NULL;
    host_fail_with(s, status);
  }
  return l->module;
}

/* A file's text, or failure at the place of the import. */
static char *read_text(Session *s, const char *path, Span span, size_t *n) {
  const char *why = NULL;
  char *text = io_read_file(s->line, path, n, &why);
  if (!text)
    host_fail(s, E0813, span, "%s cannot be read: %s", path, why);
  return text;
}

static Value module_value(Session *s, Module *m) {
  Value v = val_object(s, VAL_MODULE);
  v.as.obj->as.module = m;
  return v;
}

/* Lua modules are run once too; src/lua keeps them.
 * A file that is still running is a circle: its names are not all there yet. */
static Value import(Session *s, const Want *w) {
  if (w->path)
    session_allow(s, w->path, w->span);
  const char *path = find(s, w);
  char *real = realpath(path, NULL);
  const char *key = real ? arena_strdup(s->line, real) : path;
  free(real);
  size_t n = 0;
  if (str_ends_in(path, ".lua")) {
    void *lua = session_lua(s, w->span);
    const char *text = read_text(s, path, w->span, &n);
    return s->options.lua->import(lua, path, text, n, w->span);
  }
  Module *m = loaded(s, key);
  if (m && m->loading)
    host_fail(s, E0813, w->span, "%s imports itself in a circle", path);
  if (!m) {
    Load l = {.name = w->name, .path = path};
    l.text = read_text(s, path, w->span, &l.n);
    m = run(s, &l, key);
  }
  return module_value(s, m);
}

/* `import NAME` and `import "PATH" as NAME`. */
void host_import(Session *s, const AstStmt *st, bool top) {
  Want w = {st->as.import.name.text, st->as.import.path, st->as.import.module, st->as.import.what};
  if (w.path && strlen(w.path) != st->as.import.path_n)
    host_fail(s, E0813, w.span, "a path cannot hold a NUL byte");
  host_define_here(s, w.name, import(s, &w), top);
}

/* A name without a point or a slash is a module of the library. */
Value host_import_module(Session *s, const char *path, Span span) {
  bool bare = !strchr(path, '/') && !strchr(path, '.');
  Want w = {path, bare ? NULL : path, bare ? path : NULL, span};
  return import(s, &w);
}

/* Anew each time, so that an edited file is seen. */
Value host_load(Session *s, const char *path, Span span) {
  session_allow(s, path, span);
  Load l = {.name = path, .path = session_path(s, path)};
  l.text = read_text(s, l.path, span, &l.n);
  return module_value(s, run(s, &l, NULL));
}

/* Waits for its calls: their places may lie in the text. */
Value host_run_text(Session *s, const char *name, const char *text, size_t n) {
  Load l = {.name = name, .path = name, .text = text, .n = n};
  Module *m = run(s, &l, NULL);
  device_finish(s);
  return module_value(s, m);
}
