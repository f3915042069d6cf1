/* repl.h: the prompt.
 *
 * In: a session and a terminal. Out: an exit status. Nothing of the line editor is touched before
 * repl_run. Tests: tests/repl, through a pseudo terminal.
 */
#ifndef TILESH_REPL_REPL_H
#define TILESH_REPL_REPL_H

#include "session/session.h"

typedef struct ReplOptions {
  bool color;
  bool no_init; /* do not read the start-up file */
  char **argv;  /* of the process, for `:device reset`; NULL: it cannot begin anew */
  bool safe;    /* no files but those named: no start-up file, no history */
  volatile sig_atomic_t *interrupt; /* set by Ctrl-C; cleared here before each line */
} ReplOptions;

/* Runs the start-up file ($XDG_CONFIG_HOME/tilesh/init.tile), then reads entries until the end of
 * input, `exit` or `quit`; returns the exit status. */
int repl_run(Session *s, const ReplOptions *o);

#endif
