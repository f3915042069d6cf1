/* editor.h: what the parts of the line editor share; private to editor.c, complete.c, history.c. */
#ifndef TILESH_REPL_EDITOR_H
#define TILESH_REPL_EDITOR_H

#include "impl.h"

#if defined HAVE_READLINE || defined HAVE_EDITLINE
#define HAVE_LINE_EDITOR 1
#ifdef HAVE_READLINE
#include <readline/history.h>
#include <readline/readline.h>
#else
#include <editline/readline.h>
#endif

/* The prompt whose line is being read. */
Repl *editor_current(void);
/* complete.c: completion of names, commands and files, with signatures. */
void complete_open(void);
/* history.c: $XDG_STATE_HOME/tilesh/history, read and kept. */
void history_open(Repl *r);
void history_close(Repl *r);
#endif

#endif
