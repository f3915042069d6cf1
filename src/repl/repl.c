/* repl.c: the loop of the prompt.
 *
 * In: lines from the editor. Out: entries run in the session. An entry goes on, with another
 * prompt, while the parser says that it is unfinished. After an error the session is as before the
 * entry. Tests: tests/repl.
 */
#include "repl.h"

#include <stdlib.h>
#include <string.h>

#include "impl.h"

/* A write that fails ends the prompt. */
void repl_say(Repl *r, const char *text) {
  if (!session_write(r->s, text, strlen(text)))
    r->leave = true;
  fflush(stdout);
}

/* Diagnostics go to standard error, after what was printed before them. */
void repl_report(Repl *r) {
  Str text = str_new(r->arena);
  fflush(stdout);
  diag_format_all(session_diags(r->s), r->o->color, &text);
  io_write(stderr, str_text(&text), text.n);
}

/* The interrupt flag is cleared first: a Ctrl-C belongs to the entry it was pressed in. */
bool repl_entry(Repl *r, const char *text, size_t n) {
  Status status = ST_OK;
  char name[24];
  snprintf(name, sizeof name, "tile:%u", r->count);
  *r->o->interrupt = 0;
  if (session_prompt(r->s, name, text, n, &status) == PROMPT_PENDING)
    return true;
  if (status == ST_INTERRUPTED)
    repl_say(r, "interrupted\n");
  else
    repl_report(r);
  fflush(stdout);
  r->count++;
  return false;
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
  return strncmp(line, word, n) == 0 && line[n + strspn(line + n, " \t")] == '\0';
}

/* The lines of an entry live in its arena. */
static void end_entry(Repl *r) {
  arena_reset(r->arena);
  r->entry = str_new(r->arena);
}

/* A command only at the start of an entry; inside a block a colon is the program's. */
static void run_line(Repl *r, const char *line) {
  bool first = r->entry.n == 0;
  line = strip_prompt(line);
  if (first && (is_word(line, "exit") || is_word(line, "quit"))) {
    r->leave = true;
    return;
  }
  if (first && line[strspn(line, " \t")] == '\0')
    return;
  if (first && line[0] == ':') {
    editor_remember(r, line);
    repl_command(r, line + 1);
    end_entry(r);
    return;
  }
  str_add(&r->entry, line);
  str_addc(&r->entry, '\n');
  if (repl_entry(r, r->entry.s, r->entry.n))
    return;
  r->entry.s[r->entry.n - 1] = '\0'; /* history keeps it without the last newline */
  editor_remember(r, r->entry.s);
  end_entry(r);
}

/* Leaves at the end of input, on quit, and when the output cannot be written. */
int repl_run(Session *s, const ReplOptions *o) {
  Repl r = {.name = "tilesh", .s = s, .o = o, .count = 1};
  r.arena = arena_new(NULL, "entry");
  r.entry = str_new(r.arena);
  editor_open(&r);
  repl_say(&r, "tilesh: :help lists the commands, Ctrl-D leaves\n");
  while (!r.leave) {
    bool interrupted = false;
    if (!editor_read(&r, r.entry.n ? "  ... " : "tile> ", &interrupted)) {
      repl_say(&r, "\n");
      break;
    }
    if (interrupted) {
      end_entry(&r);
      continue;
    }
    run_line(&r, r.line);
    free(r.line);
    r.line = NULL;
  }
  free(r.line);
  free(r.loaded);
  editor_close(&r);
  arena_free(r.arena);
  return 0;
}
