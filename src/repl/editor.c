/* editor.c: reading a line: readline or libedit through the callback interface, or plain stdio.
 *
 * In: a prompt. Out: a line, the end of input, or an interrupt. Waiting is ours (poll), so Ctrl-C
 * only sets main's flag and is looked at here; nothing ever jumps out of the line editor. Several
 * lines pasted at once, or recalled, come as one text. Completion is in complete.c, history in
 * history.c. Tests: tests/repl.
 */
#include "editor.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#ifdef HAVE_LINE_EDITOR

enum { SIGNAL_MS = 50 }; /* how late a Ctrl-C may be heeded at the prompt */

/* See Repl.name. */
Repl *editor_current(void) {
  return (Repl *)(uintptr_t)rl_readline_name;
}

/* readline frees nothing of the line: it is ours. Removing the handler puts the terminal back
 * while the entry runs. */
static void on_line(char *line) {
  Repl *r = editor_current();
  r->line = line;
  r->got_line = true;
  rl_callback_handler_remove();
}

/* The first thing that touches the line editor. */
void editor_open(Repl *r) {
  rl_readline_name = r->name;
#ifdef HAVE_READLINE
  rl_catch_signals = 0;
  rl_variable_bind("enable-bracketed-paste", "on");
#endif
  complete_open();
  history_open(r);
}

void editor_close(Repl *r) {
  history_close(r);
  for (size_t i = 0; i < r->nmatches; i++)
    free(r->matches[i]);
  free(r->matches);
}

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

/* The signal of a resize may have come while an entry ran: the size itself is looked at. */
static void follow_size(int *columns) {
#ifdef HAVE_READLINE
  struct winsize size;
  if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == *columns)
    return;
  if (*columns)
    rl_resize_terminal();
  *columns = size.ws_col;
#else
  (void)columns;
#endif
}

/* Waits for a key or a signal; what readline makes of keys comes back through on_line. */
bool editor_read(Repl *r, const char *prompt, bool *interrupted) {
  int columns = 0;
  r->got_line = false;
  r->line = NULL;
  *r->o->interrupt = 0;
  rl_callback_handler_install(prompt, on_line);
  follow_size(&columns);
  while (!r->got_line) {
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    /* Not without end: a signal just before poll, or one that another thread got, wakes nobody. */
    int ready = poll(&in, 1, SIGNAL_MS);
    if (*r->o->interrupt) {
      abandon(r);
      *interrupted = true;
      r->line = NULL;
      return true;
    }
    if (ready < 0 && errno != EINTR)
      return false;
    follow_size(&columns);
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
    clearerr(stdin); /* Ctrl-D in an unfinished entry only ends that */
  if (n < 0)
    return false;
  if (n > 0 && r->line[n - 1] == '\n')
    r->line[n - 1] = '\0';
  return true;
}

#endif
