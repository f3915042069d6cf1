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
  bool color;   /* of diagnostics; :set changes it */
  bool history; /* entries are remembered */
  Arena *arena; /* of an entry */
  Str entry;    /* the lines so far */
  char *line;   /* what the editor just read; NULL at the end of input */
  bool got_line, leave;
  bool doc;       /* the entry is a `##` comment so far */
  bool lua;       /* the entry is a text of Lua: `:lua` began it */
  int status;     /* with which the prompt leaves */
  unsigned count; /* entries, for "tile:3" in diagnostics */
  char *loaded;   /* the file of the last :load */
  char *last;     /* the last entry, for :edit */
  FILE *log;      /* what :save writes: entries that ran well (loop.c); NULL: none yet */
  char **matches; /* of the completion that goes on */
  size_t nmatches;
  char *history_file; /* NULL: none */
} Repl;

/* The functions of the rows of commands.def; rest: the text after the name, blanks trimmed. */
#define COMMAND(name, fn, arguments, help) void prompt_##fn(Repl *r, const char *rest);
#include "commands.def"
#undef COMMAND

/* Runs a `:` command. */
void repl_command(Repl *r, const char *text);
/* Names of the commands, for completion; NULL past the last. */
const char *repl_command_name(size_t i);
/* "load FILE" and its line of help; false: there is no such command. */
bool repl_command_help(const char *name, const char **arguments, const char **help);

/* Writes to standard output, and diagnostics of the session to standard error; an interrupted run
 * is told in a word on standard output. */
void repl_say(Repl *r, const char *text);
void repl_report(Repl *r, Status status);
/* Shows text and, unless the status is ST_OK, why it ended. */
void repl_show(Repl *r, Status status, const Str *out);
/* Runs one entry, complete or not; true: more lines are wanted. */
bool repl_entry(Repl *r, const char *text, size_t n);
/* A line of what `:lua` began. */
void repl_lua_line(Repl *r, const char *line);
/* $XDG_STATE_HOME/tilesh or $XDG_CONFIG_HOME/tilesh, made where `make` says; NULL: no home. */
const char *repl_directory(Repl *r, const char *variable, const char *below_home, bool make);

/* loop.c: notes an entry, or the text of a file, for :save. */
void repl_note(Repl *r, const char *text, size_t n);
void repl_note_file(Repl *r, const char *path);
/* resume.c: puts a new process in this one's place, with this session; comes back only where that
 * failed. Takes up what an earlier process left; false: none did. */
void repl_restart(Repl *r);
bool repl_resume(Repl *r);
/* `:watch` of a name while a kernel is stepped (step.c); false: it is none. */
bool repl_watches(Repl *r, const char *rest);

/* The line editor (editor.c). read_line shows the prompt and gives a malloc'ed line without its
 * newline in r->line (with newlines in it where several were pasted or recalled); false at the end
 * of input; *interrupted: Ctrl-C threw the line away. */
void editor_open(Repl *r);
bool editor_read(Repl *r, const char *prompt, bool *interrupted);
void editor_remember(Repl *r, const char *entry);
void editor_close(Repl *r);

#endif
