/* main.h: what main.c and commands.c share: the command line as read. */
#ifndef TILESH_MAIN_H
#define TILESH_MAIN_H

#include "lower/lower.h"
#include "session/session.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

typedef struct Cli {
  SessionOptions session;
  char *execute; /* the texts of all -e, one a line; main frees it */
  const char *output, *filter, *junit;
  const char *emit_args; /* --args: arguments or a call for --emit; NULL: the program's own */
  int color;             /* 0 auto, 1 always, 2 never */
  bool tap, fmt_check, no_init;
  int print_and_leave; /* the option (--help, --version) or -1 */
} Cli;

/* A session with the command line's options; NULL (said on standard error) if memory is short. */
Session *cli_session(const Cli *c, SessionMode mode);
/* Writes the session's diagnostics to standard error. */
void cli_report(const Cli *c, Session *s);

/* Each gets its words in argv[at] … argv[argc - 1] and returns the exit status. */
int command_check(Cli *c, int argc, char **argv, int at);
int command_test(Cli *c, int argc, char **argv, int at);
int command_bench(Cli *c, int argc, char **argv, int at);
int command_fmt(Cli *c, int argc, char **argv, int at);
int command_explain(Cli *c, int argc, char **argv, int at);
int command_doctor(Cli *c, int argc, char **argv, int at);
int command_cache(Cli *c, int argc, char **argv, int at);

#endif
