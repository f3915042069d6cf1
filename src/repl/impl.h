/* impl.h: what the files of src/repl share: the prompt's state, the commands, the line editor. */
#ifndef TILESH_REPL_IMPL_H
#define TILESH_REPL_IMPL_H

#include "repl.h"

/* readline's callbacks take no context. Its rl_readline_name points to `name` here, the first
 * member, so a callback gets from that to the state without an object of file scope. */
typedef struct Repl {
  char name[8]; /* "tilesh" */
  Session *s;
  const ReplOptions *o;
  Arena *arena; /* of an entry */
  Str entry;    /* the lines so far */
  char *line;   /* what the editor just read; NULL at the end of input */
  bool got_line, leave;
  unsigned count; /* entries, for "tile:3" in diagnostics */
  char *loaded;   /* the file of the last :load */
  char **matches; /* of the completion that goes on */
  size_t nmatches;
} Repl;

/* Runs a `:` command. */
void repl_command(Repl *r, const char *text);
/* The functions of the rows of commands.def; rest: the text after the name, blanks trimmed. */
#define COMMAND(name, fn, arguments, help) void prompt_##fn(Repl *r, const char *rest);
#include "commands.def"
#undef COMMAND
/* `:watch` of a name while a kernel is stepped (step.c); false: it is none. */
bool repl_watches(Repl *r, const char *rest);
/* Names of the commands, for completion; NULL past the last. */
const char *repl_command_name(size_t i);
/* Writes to standard output, and diagnostics of the session to standard error. */
void repl_say(Repl *r, const char *text);
void repl_report(Repl *r);
/* Runs one entry, complete or not; true: more lines are wanted. */
bool repl_entry(Repl *r, const char *text, size_t n);

/* The line editor (editor.c). read_line shows the prompt and gives a malloc'ed line without its
 * newline in r->line; false at the end of input; *interrupted: Ctrl-C threw the line away. */
void editor_open(Repl *r);
bool editor_read(Repl *r, const char *prompt, bool *interrupted);
void editor_remember(Repl *r, const char *entry);
void editor_close(Repl *r);

#endif
