/* resume.c: `:device reset`: the session in a new process.
 *
 * In: a session whose device may be lost for the process. Out: the same program, started anew in
 * its place (exec), which finds the session in a private folder that the environment names: names,
 * settings, random numbers, the loaded file; history is in its file anyway. What could not be kept
 * is said. Tests: tests/repl/run (test_device_reset).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "impl.h"

static const char variable[] = "TILESH_RESUME";

/* The files of the folder, then the folder. */
static void remove_folder(Repl *r, const char *folder) {
  static const char *const files[] = {"session.tile", "tensors.safetensors", "settings", "lost"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    unlink(arena_printf(r->arena, "%s/%s", folder, files[i]));
  rmdir(folder);
}

static void add_setting(void *ctx, const char *name, const char *value) {
  if (!strchr(value, ' ')) /* "one a processor" is no number */
    str_addf(ctx, "%s %s\n", name, value);
}

/* A line each: a word, a blank, the rest. */
static bool write_settings(Repl *r, const char *folder, const Str *lost) {
  Str out = str_new(r->arena);
  uint64_t seed = 0, draw = 0;
  const char *why = NULL;
  session_each_setting(r->s, add_setting, &out);
  session_random(r->s, &seed, &draw, false);
  str_addf(&out, "random %" PRIu64 " %" PRIu64 "\n", seed, draw);
  str_addf(&out, "color %d\nhistory %d\n", r->color, r->history);
  if (r->loaded)
    str_addf(&out, "loaded %s\n", r->loaded);
  return io_write_file(r->arena, arena_printf(r->arena, "%s/settings", folder), str_text(&out),
                       out.n, &why) &&
         io_write_file(r->arena, arena_printf(r->arena, "%s/lost", folder), str_text(lost), lost->n,
                       &why);
}

/* Only comes back where it failed; the session is then as it was. */
void repl_restart(Repl *r) {
  const char *tmp = getenv("TMPDIR");
  char *folder = arena_printf(r->arena, "%s/tilesh-XXXXXX", tmp && *tmp ? tmp : "/tmp");
  Str lost = str_new(r->arena);
  if (!r->o->argv || !mkdtemp(folder)) {
    repl_say(r, arena_printf(r->arena, "no folder can be made: %s\n", strerror(errno)));
    return;
  }
  Status status = session_store(r->s, folder, &lost);
  if (status != ST_OK) {
    repl_report(r, status);
  } else if (!write_settings(r, folder, &lost)) {
    repl_say(r, arena_printf(r->arena, "%s cannot be written\n", folder));
  } else {
    fflush(stdout);
    setenv(variable, folder, 1);
    execv("/proc/self/exe", r->o->argv);
    repl_say(r, arena_printf(r->arena, "the program cannot start anew: %s\n", strerror(errno)));
    unsetenv(variable);
  }
  remove_folder(r, folder);
}

static void read_setting(Repl *r, const char *line) {
  Str why = str_new(r->arena);
  size_t n = strcspn(line, " ");
  const char *name = arena_strndup(r->arena, line, n), *value = line + n + (line[n] == ' ');
  if (strcmp(name, "random") == 0) {
    char *end = NULL;
    uint64_t seed = strtoull(value, &end, 10), draw = strtoull(end, NULL, 10);
    session_random(r->s, &seed, &draw, true);
  } else if (strcmp(name, "color") == 0) {
    r->color = *value == '1';
  } else if (strcmp(name, "history") == 0) {
    r->history = *value == '1';
  } else if (strcmp(name, "loaded") == 0) {
    free(r->loaded);
    r->loaded = strdup(value);
  } else {
    session_set(r->s, name, value, &why);
  }
}

static char *read_file(Repl *r, const char *folder, const char *name) {
  size_t n = 0;
  const char *why = NULL;
  return io_read_file(r->arena, arena_printf(r->arena, "%s/%s", folder, name), &n, &why);
}

/* Names first: restoring them draws no random numbers, but settings must not be theirs to change.
 */
bool repl_resume(Repl *r) {
  const char *named = getenv(variable);
  if (!named || !*named)
    return false;
  const char *folder = arena_strdup(r->arena, named);
  Str none = str_new(r->arena);
  unsetenv(variable);
  Status status = session_restore(r->s, folder);
  repl_show(r, status, &none);
  char *settings = read_file(r, folder, "settings"), *lost = read_file(r, folder, "lost");
  for (char *line = settings; line && *line;) {
    size_t n = strcspn(line, "\n");
    bool more = line[n] == '\n';
    line[n] = '\0';
    read_setting(r, line);
    line += n + more;
  }
  repl_say(r, lost && *lost ? arena_printf(r->arena, "begun anew; lost:\n%s", lost)
                            : "begun anew; nothing was lost\n");
  remove_folder(r, folder);
  return true;
}
