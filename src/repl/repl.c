/* repl.c: the loop of the prompt.
 *
 * In: lines from the editor. Out: entries run in the session. An entry goes on, with another
 * prompt, while the parser says that it is unfinished. After an error the session is as before the
 * entry. What was pasted or recalled as several lines is taken as if it were typed line by line.
 * Tests: tests/repl.
 */
#include "repl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "impl.h"

/* Output --------------------------------------------------------------------------------------- */

/* A write that fails ends the prompt, and that is said once. */
void repl_say(Repl *r, const char *text) {
  static const char words[] = "tilesh: the output cannot be written\n";
  if (!session_write(r->s, text, strlen(text))) {
    if (!r->leave)
      io_write(stderr, words, sizeof words - 1);
    r->leave = true;
    r->status = session_exit_status(ST_USAGE);
  }
  fflush(stdout);
}

/* Diagnostics go to standard error, after what was printed before them. Who pressed Ctrl-C at the
 * prompt knows where: a word is enough. */
void repl_report(Repl *r, Status status) {
  Str text = str_new(r->arena);
  if (status == ST_INTERRUPTED) {
    repl_say(r, "interrupted\n");
    return;
  }
  fflush(stdout);
  diag_format_all(session_diags(r->s), r->color, &text);
  io_write(stderr, str_text(&text), text.n);
}

/* What was shown before an error belongs before it. */
void repl_show(Repl *r, Status status, const Str *out) {
  repl_say(r, str_text(out));
  repl_report(r, status);
}

/* The terminal may have been resized since the last entry. */
static void set_width(Repl *r) {
  struct winsize size;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    session_set_width(r->s, size.ws_col);
}

/* Folders -------------------------------------------------------------------------------------- */

const char *repl_directory(Repl *r, const char *variable, const char *below_home, bool make) {
  const char *base = getenv(variable), *home = getenv("HOME");
  char *path;
  if (base && base[0] == '/')
    path = arena_printf(r->arena, "%s/tilesh", base);
  else if (home && *home)
    path = arena_printf(r->arena, "%s/%s/tilesh", home, below_home);
  else
    return NULL;
  if (make)
    io_make_folders(path); /* all above it may be missing in a new home */
  return path;
}

/* Entries -------------------------------------------------------------------------------------- */

static bool run_text(Repl *r, const char *text, size_t n) {
  Status status = ST_OK;
  int wanted = 0;
  char name[24];
  Str none = str_new(r->arena);
  snprintf(name, sizeof name, r->lua ? "lua:%u" : "tile:%u", r->count);
  set_width(r);
  PromptResult result = r->lua ? session_prompt_lua(r->s, name, text, n, &status)
                               : session_prompt(r->s, name, text, n, &status);
  if (result == PROMPT_PENDING)
    return true;
  repl_show(r, status, &none);
  if (status == ST_OK && !r->lua)
    repl_note(r, text, n);
  if (session_exit_wanted(r->s, &wanted)) {
    r->leave = true;
    r->status = wanted;
  }
  r->count++;
  return false;
}

bool repl_entry(Repl *r, const char *text, size_t n) {
  return run_text(r, text, n);
}

/* A pasted line without the prompt that was copied with it. */
static const char *strip_prompt(const char *line) {
  if (strncmp(line, "tile> ", 6) == 0)
    return line + 6;
  return strncmp(line, "  ... ", 6) == 0 ? line + 6 : line;
}

/* Blanks around it do not count. */
static bool is_word(const char *line, const char *word) {
  size_t n = strlen(word);
  line += strspn(line, " \t");
  return strncmp(line, word, n) == 0 && line[n + strspn(line + n, " \t\r")] == '\0';
}

/* The lines of an entry live in its arena. */
static void end_entry(Repl *r) {
  r->lua = false;
  arena_reset(r->arena);
  r->entry = str_new(r->arena);
}

/* In history, and for :edit. A blank before it keeps it out of history, as in shells. */
static void remember(Repl *r, const char *entry) {
  char *copy = strdup(entry);
  free(r->last);
  r->last = copy;
  if (r->history && entry[0] != ' ')
    editor_remember(r, entry);
}

/* What users of other prompts type first: help, help(name), ?, ?name, name?; NULL: none of it. */
static const char *help_wanted(Repl *r, const char *line) {
  Str unused = str_new(r->arena);
  line += strspn(line, " \t");
  size_t n = strlen(line);
  while (n > 0 && strchr(" \t\r", line[n - 1]))
    n--;
  if (is_word(line, "help") || is_word(line, "help()") || is_word(line, "?"))
    return session_info(r->s, "help", &unused) ? NULL : "";
  if (line[0] == '?')
    return arena_strndup(r->arena, line + 1 + strspn(line + 1, " "), n - 1);
  if (n > 1 && line[n - 1] == '?' && !strpbrk(line, " (\""))
    return arena_strndup(r->arena, line, n - 1);
  if (n > 6 && strncmp(line, "help(", 5) == 0 && line[n - 1] == ')' &&
      !session_info(r->s, "help", &unused))
    return arena_strndup(r->arena, line + 5, n - 6);
  return NULL;
}

static bool leaves(const char *line) {
  static const char *const words[] = {"exit", "quit", "exit()", "quit()"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (is_word(line, words[i]))
      return true;
  return false;
}

/* Commands and words that only mean something where an entry begins; false: the line is none. */
static bool run_first(Repl *r, const char *line) {
  if (leaves(line)) {
    r->leave = true;
    return true;
  }
  const char *help = help_wanted(r, line);
  if (help) {
    prompt_help(r, help);
    end_entry(r);
    return true;
  }
  const char *start = line + strspn(line, " \t\r");
  if (*start == '\0')
    return true;
  if (*start != ':')
    return false;
  if (r->history && line[0] != ' ')
    editor_remember(r, line);
  set_width(r);
  repl_command(r, start + 1);
  if (!r->lua)
    end_entry(r);
  return true;
}

/* A `##` comment belongs to the kernel or function that follows. */
static bool is_doc(const char *line) {
  line += strspn(line, " \t");
  return line[0] == '#' && line[1] == '#';
}

/* One more line of the entry: it runs once it is whole. */
static void add_line(Repl *r, const char *line) {
  bool doc = !r->lua && is_doc(line) && (r->entry.n == 0 || r->doc);
  str_add(&r->entry, line);
  str_addc(&r->entry, '\n');
  r->doc = doc;
  if (doc)
    return;
  if (run_text(r, r->entry.s, r->entry.n))
    return;
  r->entry.s[r->entry.n - 1] = '\0'; /* history keeps it without the last newline */
  if (!r->lua)
    remember(r, r->entry.s);
  else if (strchr(r->entry.s, '\n')) /* its first line is there already, as a command */
    remember(r, arena_printf(r->arena, ":lua %s", r->entry.s));
  end_entry(r);
}

void repl_lua_line(Repl *r, const char *line) {
  r->lua = true;
  add_line(r, line);
}

/* A command only at the start of an entry; inside a block a colon is the program's. */
static void run_line(Repl *r, const char *line) {
  line = strip_prompt(line);
  if (r->entry.n > 0 || !run_first(r, line))
    add_line(r, line);
}

/* What the editor gave: one line, or several. Ctrl-C ends what is still to run of them. */
static void run_lines(Repl *r, char *text) {
  while (!r->leave) {
    char *end = strchr(text, '\n');
    if (end)
      *end = '\0';
    run_line(r, text);
    if (!end || *r->o->interrupt)
      return;
    text = end + 1;
    if (!*text)
      return;
  }
}

/* The prompt ----------------------------------------------------------------------------------- */

/* Errors in it are shown; the prompt begins all the same. */
static void run_init(Repl *r) {
  const char *folder =
      r->o->no_init || r->o->safe ? NULL : repl_directory(r, "XDG_CONFIG_HOME", ".config", false);
  const char *path = folder ? arena_printf(r->arena, "%s/init.tile", folder) : NULL;
  Str none = str_new(r->arena);
  if (path && access(path, F_OK) == 0)
    repl_show(r, session_run_file(r->s, path), &none);
}

/* One line. At the end of input an unfinished entry is given up first: the next end leaves. */
static void read_line(Repl *r) {
  bool interrupted = false, more = r->entry.n > 0;
  bool got = editor_read(r, more ? "  ... " : "tile> ", &interrupted);
  if (!got)
    repl_say(r, "\n");
  if (!got && !more)
    r->leave = true;
  if (!got || interrupted)
    end_entry(r);
  else
    run_lines(r, r->line);
  free(r->line);
  r->line = NULL;
}

/* Leaves at the end of input, on quit, and when the output cannot be written. */
int repl_run(Session *s, const ReplOptions *o) {
  Repl r = {.name = "tilesh", .s = s, .o = o, .count = 1, .color = o->color, .history = true};
  r.arena = arena_new(NULL, "entry");
  r.entry = str_new(r.arena);
  set_width(&r);
  editor_open(&r);
  if (!repl_resume(&r))
    run_init(&r);
  end_entry(&r);
  repl_say(&r, "tilesh: :help lists the commands, Ctrl-D leaves\n");
  while (!r.leave)
    read_line(&r);
  free(r.loaded);
  free(r.last);
  if (r.log)
    fclose(r.log);
  editor_close(&r);
  arena_free(r.arena);
  return r.status;
}
