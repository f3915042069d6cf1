/* editor.c: reading a line: readline or libedit through the callback interface, or plain stdio.
 *
 * In: a prompt. Out: a line, the end of input, or an interrupt. Waiting is ours (poll), so Ctrl-C
 * only sets main's flag and is looked at here; nothing ever jumps out of the line editor. History
 * lies in the XDG state directory, without duplicates, entries of several lines whole. Tests:
 * tests/repl.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "impl.h"

#if defined HAVE_READLINE || defined HAVE_EDITLINE
#ifdef HAVE_READLINE
#include <readline/history.h>
#include <readline/readline.h>
#else
#include <editline/readline.h>
#endif

enum { HISTORY_ENTRIES = 2000 };

/* See Repl.name. */
static Repl *current(void) {
  return (Repl *)(uintptr_t)rl_readline_name;
}

/* readline frees nothing of the line: it is ours. Removing the handler puts the terminal back
 * while the entry runs. */
static void on_line(char *line) {
  Repl *r = current();
  r->line = line;
  r->got_line = true;
  rl_callback_handler_remove();
}

/* Completion ---------------------------------------------------------------------------------- */

/* Out of memory only means fewer proposals. */
static void add_match(void *ctx, const char *name) {
  Repl *r = ctx;
  char **grown = realloc(r->matches, (r->nmatches + 1) * sizeof *grown);
  if (!grown)
    return;
  r->matches = grown;
  r->matches[r->nmatches++] = strdup(name);
}

/* After a colon at the start, commands; else names of the session. */
static void gather(Repl *r, const char *prefix) {
  free(r->matches);
  r->matches = NULL;
  r->nmatches = 0;
  if (rl_line_buffer[0] != ':' || strchr(rl_line_buffer, ' ')) {
    session_complete(r->s, prefix, add_match, r);
    return;
  }
  for (size_t i = 0; repl_command_name(i); i++)
    if (strncmp(repl_command_name(i), prefix, strlen(prefix)) == 0)
      add_match(r, repl_command_name(i));
}

/* readline frees what it gets; what it does not ask for is freed by the next round or close. */
static char *next_match(const char *prefix, int state) {
  Repl *r = current();
  if (state == 0)
    gather(r, prefix);
  for (size_t i = 0; i < r->nmatches; i++)
    if (r->matches[i]) {
      char *m = r->matches[i];
      r->matches[i] = NULL;
      return m;
    }
  return NULL;
}

/* Inside a string, and after :load, readline's own completion of file names. */
static char **complete(const char *text, int start, int end) {
  (void)start, (void)end;
  bool in_string = false;
  for (const char *p = rl_line_buffer; p < rl_line_buffer + start; p++)
    in_string ^= *p == '"';
  if (in_string || strncmp(rl_line_buffer, ":load ", 6) == 0)
    return NULL; /* file names */
  rl_attempted_completion_over = 1;
  return rl_completion_matches(text, next_match);
}

/* History ------------------------------------------------------------------------------------- */

/* $XDG_STATE_HOME/tilesh/history, its folder made; NULL where there is no place for it. */
static const char *history_path(Repl *r) {
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  const char *base = state && *state ? arena_strdup(r->arena, state)
                     : home && *home ? arena_printf(r->arena, "%s/.local/state", home)
                                     : NULL;
  if (!base)
    return NULL;
  if (!(state && *state)) { /* the two folders above it may be missing in a new home */
    mkdir(arena_printf(r->arena, "%s/.local", home), 0700);
    mkdir(base, 0700);
  }
  mkdir(base, 0700);
  mkdir(arena_printf(r->arena, "%s/tilesh", base), 0700);
  return arena_printf(r->arena, "%s/tilesh/history", base);
}

/* An older equal entry goes, so that history has no duplicates. */
void editor_remember(Repl *r, const char *entry) {
  (void)r;
  for (int i = history_length; i-- > 0;) {
    const HIST_ENTRY *e = history_get(history_base + i);
    if (e && strcmp(e->line, entry) == 0) {
      HIST_ENTRY *old = remove_history(i);
      free(old ? (void *)(uintptr_t)old->line : NULL);
      free(old);
      break;
    }
  }
  add_history(entry);
}

/* The first thing that touches the line editor. */
void editor_open(Repl *r) {
  const char *path = history_path(r);
  rl_readline_name = r->name;
  rl_attempted_completion_function = complete;
#ifdef HAVE_READLINE
  rl_catch_signals = 0;
  history_comment_char = '#';
  history_write_timestamps = 1; /* they part entries, so several lines come back whole */
  rl_variable_bind("enable-bracketed-paste", "on");
#endif
  using_history();
  stifle_history(HISTORY_ENTRIES);
  if (path)
    read_history(path);
}

/* Failing to write history is no reason to fail. */
void editor_close(Repl *r) {
  const char *path = history_path(r);
  if (path)
    write_history(path);
  for (size_t i = 0; i < r->nmatches; i++)
    free(r->matches[i]);
  free(r->matches);
}

/* Reading ------------------------------------------------------------------------------------- */

/* Throws the line away after Ctrl-C and leaves the terminal as it was. */
static void abandon(Repl *r) {
#ifdef HAVE_READLINE
  rl_free_line_state();
  rl_callback_sigcleanup();
#endif
  rl_callback_handler_remove();
  *r->o->interrupt = 0;
  repl_say(r, "\n");
}

/* Waits for a key or a signal; what readline makes of keys comes back through on_line. */
bool editor_read(Repl *r, const char *prompt, bool *interrupted) {
  r->got_line = false;
  r->line = NULL;
  *r->o->interrupt = 0;
  rl_callback_handler_install(prompt, on_line);
  while (!r->got_line) {
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    int ready = poll(&in, 1, -1);
    if (*r->o->interrupt) {
      abandon(r);
      *interrupted = true;
      r->line = NULL;
      return true;
    }
    if (ready < 0 && errno != EINTR)
      return false;
    if (ready > 0)
      rl_callback_read_char();
  }
  return r->line != NULL;
}

#else /* no line editor */

void editor_open(Repl *r) {
  (void)r;
}
void editor_close(Repl *r) {
  (void)r;
}
void editor_remember(Repl *r, const char *entry) {
  (void)r, (void)entry;
}

bool editor_read(Repl *r, const char *prompt, bool *interrupted) {
  size_t cap = 0;
  r->line = NULL;
  repl_say(r, prompt);
  *r->o->interrupt = 0;
  ssize_t n = getline(&r->line, &cap, stdin);
  if (n < 0 && *r->o->interrupt) { /* Ctrl-C is no end of input */
    clearerr(stdin);
    free(r->line);
    r->line = NULL;
    *interrupted = true;
    return true;
  }
  if (n < 0)
    return false;
  if (n > 0 && r->line[n - 1] == '\n')
    r->line[n - 1] = '\0';
  return true;
}

#endif
