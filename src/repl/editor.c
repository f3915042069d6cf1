/* editor.c: reading a line: readline or libedit through the callback interface, or plain stdio.
 *
 * In: a prompt. Out: a line, the end of input, or an interrupt. Waiting is ours (poll), so Ctrl-C
 * only sets main's flag and is looked at here; nothing ever jumps out of the line editor. The flag
 * is cleared before the prompt is shown and never after: a Ctrl-C from then on is heeded, by the
 * prompt or by what the line runs. Several lines pasted at once, or recalled, come as one text.
 * Completion is in complete.c, history in history.c. Tests: tests/repl.
 */
#include "editor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { SIGNAL_MS = 50 }; /* how late a Ctrl-C may be heeded at the prompt */

#ifndef HAVE_READLINE

/* Byte by byte, so that no line waits in a buffer that poll knows nothing of. */
static void open_plain(void) {
  setvbuf(stdin, NULL, _IONBF, 0);
}

/* False: Ctrl-C came first. Not one wait without end: a signal just before it would be lost. */
static bool wait_for_line(Repl *r) {
  struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
  while (!*r->o->interrupt)
    if (poll(&in, 1, SIGNAL_MS) > 0)
      return true;
  return false;
}

/* As line editors do. */
static void drop_nul_bytes(char *line, size_t n) {
  size_t k = 0;
  for (size_t i = 0; i < n; i++)
    if (line[i])
      line[k++] = line[i];
  line[k] = '\0';
}

static bool read_plain(Repl *r, const char *prompt, bool *interrupted) {
  size_t cap = 0;
  r->line = NULL;
  repl_say(r, prompt);
  ssize_t n = wait_for_line(r) ? getline(&r->line, &cap, stdin) : -1;
  if (n < 0)
    clearerr(stdin);               /* Ctrl-D in an unfinished entry only ends that */
  if (n < 0 && *r->o->interrupt) { /* Ctrl-C is no end of input */
    free(r->line);
    r->line = NULL;
    *interrupted = true;
    repl_say(r, "\n");
    return true;
  }
  if (n < 0)
    return false;
  if (n > 0 && r->line[n - 1] == '\n')
    n--;
  drop_nul_bytes(r->line, (size_t)n);
  return true;
}

#endif

#ifdef HAVE_LINE_EDITOR

/* See Repl.name. */
Repl *editor_current(void) {
  return (Repl *)(uintptr_t)rl_readline_name;
}

#ifndef HAVE_READLINE
/* libedit gives no line where what it draws does not go to a terminal. */
static bool edits(void) {
  return isatty(STDOUT_FILENO);
}
#endif

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
  rl_initialize();
  if (!rl_executing_keyseq) { /* the one allocation that readline does not look at itself */
    fputs("tilesh: out of memory (line editor)\n", stderr);
    r->status = session_exit_status(ST_USAGE);
    r->leave = true;
  }
#else
  if (!edits())
    open_plain();
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

/* Ctrl-Z at the prompt: the terminal is the shell's while the program is stopped, with the modes
 * that the shell knows, and the line is drawn again when the program goes on. */
static void stop_if_asked(const sigset_t *stop) {
  sigset_t pending;
  if (sigpending(&pending) != 0 || !sigismember(&pending, SIGTSTP))
    return;
  rl_deprep_terminal();
  pthread_sigmask(SIG_UNBLOCK, stop, NULL); /* stops here */
  pthread_sigmask(SIG_BLOCK, stop, NULL);
  rl_prep_terminal(1);
  rl_forced_update_display();
}

/* Waits for a key or a signal; what readline makes of keys comes back through on_line. stop: the
 * signal of Ctrl-Z, which is blocked, so that nothing stops with the terminal in readline's modes.
 */
static bool read_keys(Repl *r, const sigset_t *stop, bool *interrupted) {
  int columns = 0;
  follow_size(&columns);
  while (!r->got_line) {
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    /* Not without end: a signal just before poll, or one that another thread got, wakes nobody. */
    int ready = poll(&in, 1, SIGNAL_MS);
    stop_if_asked(stop);
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

bool editor_read(Repl *r, const char *prompt, bool *interrupted) {
  sigset_t stop, old;
  *r->o->interrupt = 0;
#ifndef HAVE_READLINE
  if (!edits())
    return read_plain(r, prompt, interrupted);
#endif
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  r->got_line = false;
  r->line = NULL;
  pthread_sigmask(SIG_BLOCK, &stop, &old);
  rl_callback_handler_install(prompt, on_line);
  bool got = read_keys(r, &stop, interrupted);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return got;
}

#else /* no line editor */

void editor_open(Repl *r) {
  (void)r;
  open_plain();
}
void editor_close(Repl *r) {
  (void)r;
}
void editor_remember(Repl *r, const char *entry) {
  (void)r, (void)entry;
}

bool editor_read(Repl *r, const char *prompt, bool *interrupted) {
  *r->o->interrupt = 0;
  return read_plain(r, prompt, interrupted);
}

#endif
