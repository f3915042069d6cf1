/* import.c: modules: other files, each run once in a scope of its own.
 *
 * In: an import statement. Out: the name bound to a module whose names live under `name.`. A path
 * starts at the importing file; a bare name is looked for in the library, then in $TILESH_PATH.
 * Tests and benches of an imported file do not run. Tests: tests/lang/import_*.tile.
 */
#include "impl.h"

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

/* A quoted path starts at the importing file; a bare name is a module of the library or of
 * $TILESH_PATH. */
static const char *find(Session *s, const AstStmt *st) {
  if (st->as.import.path) {
    if (strlen(st->as.import.path) != st->as.import.path_n)
      host_fail(s, E0813, st->as.import.what, "a path cannot hold a NUL byte");
    const char *from = s->module->directory;
    return join(s, from, strlen(from), st->as.import.path);
  }
  const char *file = arena_printf(s->line, "%s.tile", st->as.import.module);
  const char *path = search(s, TILESH_DATADIR "/stdlib", file);
  if (!path)
    path = search(s, getenv("TILESH_PATH"), file);
  if (!path)
    host_fail_hint(s, E0813, st->as.import.what,
                   "set TILESH_PATH, or name a file: import \"x.tile\" as x",
                   "no module is named %s", st->as.import.module);
  return path;
}

/* By real path: two spellings of one file are one module. */
static Module *loaded(Session *s, const char *path) {
  for (Module *m = s->modules; m; m = m->next)
    if (m->key && strcmp(m->key, path) == 0)
      return m;
  return NULL;
}

/* The module runs in a scope of its own; if it fails, the import fails with its diagnostics. */
static Module *load(Session *s, const char *path, const char *key, const AstStmt *st) {
  size_t n = 0;
  const char *why = NULL;
  char *text = io_read_file(s->line, path, &n, &why);
  if (!text)
    host_fail(s, E0813, st->as.import.what, "%s cannot be read: %s", path, why);
  Unit *outer = s->current;
  ParseStatus status;
  AstFile *f = session_parse(s, path, text, n, false, &status);
  if (status != PARSE_OK)
    host_fail_with(s, ST_COMPILE);
  session_keep(s); /* the module's values may point into its text */
  Module *m = session_module(s, st->as.import.name.text, path, key);
  m->loading = true;
  s->importing++;
  session_run_block(s, f, m);
  s->importing--;
  m->loading = false;
  s->current = outer;
  return m;
}

/* A file that is still running is a circle: its names are not all there yet. */
void host_import(Session *s, const AstStmt *st, bool top) {
  const char *path = find(s, st);
  char *real = realpath(path, NULL);
  const char *key = real ? arena_strdup(s->line, real) : path;
  free(real);
  Module *m = loaded(s, key);
  if (m && m->loading)
    host_fail(s, E0813, st->as.import.what, "%s imports itself in a circle", path);
  if (!m)
    m = load(s, path, key, st);
  Value v = val_object(s, VAL_MODULE);
  v.as.obj->as.module = m;
  host_define_here(s, st->as.import.name.text, v, top);
}
