/* loop.c: the edit-run loop: `:load`, `:reload`, `:watch`, `:edit`, `:save`.
 *
 * In: files. Out: what they do in the session, whose data stays; for :save a file. What :save
 * writes is kept in a file without a name, so that a long session takes no memory. Tests:
 * tests/repl/run.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "impl.h"

enum { POLL_MS = 100, FILE_MARK = 1, END_MARK = 2 };

/* Loading -------------------------------------------------------------------------------------- */

/* Runs in the session's own scope: data stays between loads. */
static void load(Repl *r, const char *path) {
  Str none = str_new(r->arena);
  Status status = session_run_file(r->s, path);
  if (status == ST_OK)
    repl_note_file(r, path);
  repl_show(r, status, &none);
}

/* Remembered for :reload. */
void prompt_load(Repl *r, const char *rest) {
  if (!*rest) {
    repl_say(r, ":load FILE\n");
    return;
  }
  char *path = strdup(rest);
  free(r->loaded);
  r->loaded = path;
  load(r, rest);
}

void prompt_reload(Repl *r, const char *rest) {
  (void)rest;
  if (r->loaded)
    load(r, r->loaded);
  else
    repl_say(r, "nothing was loaded yet; :load FILE\n");
}

/* Watching ------------------------------------------------------------------------------------- */

typedef struct Stamp { /* what changes when a file is written */
  struct timespec time;
  off_t size;
  ino_t file;
} Stamp;

static Stamp stamp(const char *path) {
  struct stat st;
  if (stat(path, &st) != 0)
    return (Stamp){{0, 0}, -1, 0};
  return (Stamp){st.st_mtim, st.st_size, st.st_ino};
}

static bool same(Stamp a, Stamp b) {
  return a.time.tv_sec == b.time.tv_sec && a.time.tv_nsec == b.time.tv_nsec && a.size == b.size &&
         a.file == b.file;
}

/* Until the file is another one, and there; false: Ctrl-C. */
static bool wait_for_change(Repl *r, const char *path, Stamp before) {
  while (!*r->o->interrupt) {
    poll(NULL, 0, POLL_MS);
    Stamp now = stamp(path);
    if (now.size >= 0 && !same(now, before))
      return true;
  }
  return false;
}

/* A folder changes with every file in it, and can never be run. */
static bool can_watch(const char *path) {
  struct stat st;
  if (access(path, R_OK) != 0 || stat(path, &st) != 0)
    return false;
  if (S_ISDIR(st.st_mode))
    errno = EISDIR;
  return !S_ISDIR(st.st_mode);
}

void prompt_watch(Repl *r, const char *rest) {
  if (repl_watches(r, rest))
    return;
  const char *path = *rest ? rest : r->loaded;
  if (!path || !can_watch(path)) {
    repl_say(r, path ? arena_printf(r->arena, "%s cannot be read: %s\n", path, strerror(errno))
                     : ":watch FILE\n");
    return;
  }
  path = arena_strdup(r->arena, path);
  for (;;) {
    Stamp before = stamp(path);
    prompt_load(r, path);
    repl_say(r, arena_printf(r->arena, "watching %s; Ctrl-C ends\n", path));
    if (r->leave || !wait_for_change(r, path, before))
      break;
  }
  *r->o->interrupt = 0;
}

/* Editing -------------------------------------------------------------------------------------- */

/* The editor gets the terminal and its signals as a shell's child does. */
static int run_editor(Repl *r, const char *path) {
  const char *editor = getenv("VISUAL");
  if (!editor || !*editor)
    editor = getenv("EDITOR");
  if (!editor || !*editor)
    editor = "vi";
  const char *command = arena_printf(r->arena, "%s \"$1\"", editor);
  struct sigaction ignore = {.sa_handler = SIG_IGN}, old;
  sigaction(SIGINT, &ignore, &old);
  pid_t pid = fork();
  if (pid == 0) {
    signal(SIGINT, SIG_DFL);
    execl("/bin/sh", "sh", "-c", command, "sh", path, (char *)NULL);
    _exit(127);
  }
  int status = -1;
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
    ;
  sigaction(SIGINT, &old, NULL);
  return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The last entry, in a file of its own. */
static char *entry_file(Repl *r) {
  const char *tmp = getenv("TMPDIR");
  char *name = arena_printf(r->arena, "%s/tilesh-XXXXXX.tile", tmp && *tmp ? tmp : "/tmp");
  int fd = mkstemps(name, 5);
  size_t n = r->last ? strlen(r->last) : 0;
  if (fd < 0)
    return NULL;
  bool ok = n == 0 || write(fd, r->last, n) == (ssize_t)n;
  ok = write(fd, "\n", 1) == 1 && ok;
  if (close(fd) == 0 && ok)
    return name;
  unlink(name);
  return NULL;
}

/* As if it had been typed, line by line. */
static void run_entry_file(Repl *r, const char *path) {
  const char *why = NULL;
  size_t n = 0;
  char *text = io_read_file(r->arena, path, &n, &why);
  if (!text || n == 0)
    return;
  while (n > 1 && text[n - 1] == '\n' && text[n - 2] == '\n')
    n--;
  editor_remember(r, arena_strndup(r->arena, text, n - (text[n - 1] == '\n')));
  if (repl_entry(r, text, n))
    repl_say(r, "the entry is unfinished\n");
}

void prompt_edit(Repl *r, const char *rest) {
  const char *path = *rest ? rest : r->loaded;
  char *entry = path ? NULL : entry_file(r);
  if (r->o->safe) {
    repl_say(r, ":edit runs another program, which --safe does not allow\n");
  } else if (!path && !entry) {
    repl_say(r, arena_printf(r->arena, "no file can be made: %s\n", strerror(errno)));
  } else if (run_editor(r, path ? path : entry) != 0) {
    repl_say(r, "the editor failed ($VISUAL or $EDITOR names it); nothing was run\n");
  } else if (entry) {
    run_entry_file(r, entry);
  } else {
    prompt_load(r, arena_strdup(r->arena, path));
  }
  if (entry)
    unlink(entry);
}

/* Saving --------------------------------------------------------------------------------------- */

/* Entries end in END_MARK; a loaded file is FILE_MARK and its path. */
void repl_note(Repl *r, const char *text, size_t n) {
  if (!r->log)
    r->log = tmpfile();
  if (!r->log)
    return;
  fseek(r->log, 0, SEEK_END);
  fwrite(text, 1, n, r->log);
  fputc(END_MARK, r->log);
}

/* The text is read when it is saved: what counts is what the file says then. Once a file. */
void repl_note_file(Repl *r, const char *path) {
  const char *mark = arena_printf(r->arena, "%c%s", FILE_MARK, path);
  if (r->log) {
    const char *why = NULL;
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    bool known = false;
    (void)why;
    rewind(r->log);
    while (!known && (n = getdelim(&line, &cap, END_MARK, r->log)) > 0) {
      line[n - 1] = '\0';
      known = strcmp(line, mark) == 0;
    }
    free(line);
    if (known)
      return;
  }
  repl_note(r, mark, strlen(mark));
}

/* What only the prompt takes (a lone expression) stays as a comment. */
static void add_entry(Repl *r, const char *text, Str *out) {
  const char *why = NULL;
  size_t n = strlen(text);
  if (text[0] == FILE_MARK) {
    char *file = io_read_file(r->arena, text + 1, &n, &why);
    str_addf(out, "# %s\n", text + 1);
    if (file)
      str_addn(out, file, n);
    if (file && n && file[n - 1] != '\n')
      str_addc(out, '\n');
    return;
  }
  bool program = session_is_program(r->s, text, n);
  for (const char *p = text; *p;) {
    size_t line = strcspn(p, "\n");
    str_addf(out, "%s%.*s\n", program ? "" : "# ", (int)line, p);
    p += line + (p[line] == '\n');
  }
}

static void save_program(Repl *r, const char *path) {
  Str out = str_new(r->arena);
  char *line = NULL;
  size_t cap = 0;
  ssize_t n;
  const char *why = NULL;
  if (r->log)
    rewind(r->log);
  while (r->log && (n = getdelim(&line, &cap, END_MARK, r->log)) > 0) {
    line[n - 1] = '\0';
    add_entry(r, line, &out);
  }
  free(line);
  if (!io_write_file(r->arena, path, str_text(&out), out.n, &why))
    repl_say(r, arena_printf(r->arena, "%s cannot be written: %s\n", path, why));
  else
    repl_say(r, arena_printf(r->arena, "wrote %s, %zu bytes\n", path, out.n));
}

static void add_tensor(void *ctx, const char *name, const char *what) {
  size_t n = strcspn(what, "[");
  DType t;
  if (what[n] == '[' && dtype_parse(what, n, &t))
    str_addf(ctx, ", %s = %s", name, name);
}

/* By the builtin, so that the formats are its. */
static void save_tensors(Repl *r, const char *path) {
  Str names = str_new(r->arena);
  session_each_global(r->s, add_tensor, &names);
  if (names.n == 0) {
    repl_say(r, "no name holds a tensor\n");
    return;
  }
  const char *text = arena_printf(r->arena, "save(\"%s\"%s)", path, str_text(&names));
  repl_entry(r, text, strlen(text));
}

void prompt_save(Repl *r, const char *rest) {
  if (str_ends_in(rest, ".tile"))
    save_program(r, rest);
  else if (str_ends_in(rest, ".npz") || str_ends_in(rest, ".safetensors"))
    save_tensors(r, rest);
  else
    repl_say(r, ":save FILE.tile writes the entries, :save FILE.npz or FILE.safetensors the "
                "tensors\n");
}
