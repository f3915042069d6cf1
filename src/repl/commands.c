/* commands.c: what begins with `:` at the prompt; one small function a command.
 *
 * In: the text after the colon. Out: what the command shows. Rows of commands.def. Tests:
 * tests/repl.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "impl.h"

typedef void (*CommandFn)(Repl *r, const char *rest);

typedef struct Command {
  const char *name;
  CommandFn fn;
  const char *arguments, *help;
} Command;

/* Text that a session function made, or its diagnostics. */
static void show(Repl *r, Status status, const Str *out) {
  if (status != ST_OK)
    repl_report(r);
  repl_say(r, str_text(out));
}

/* The expression is evaluated: it may print. */
void prompt_type(Repl *r, const char *rest) {
  Str out = str_new(r->arena);
  Status status = session_type_of(r->s, rest, strlen(rest), &out);
  if (status == ST_OK)
    str_addc(&out, '\n');
  show(r, status, &out);
}

/* One name a line, aligned. */
static void show_var(void *ctx, const char *name, const char *what) {
  Str *out = ctx;
  str_addf(out, "%-12s %s\n", name, what);
}

/* In order of definition. */
void prompt_vars(Repl *r, const char *rest) {
  Str out = str_new(r->arena);
  (void)rest;
  session_each_global(r->s, show_var, &out);
  repl_say(r, str_text(&out));
}

/* Runs in the session's own scope: data stays between loads. */
static void load(Repl *r, const char *path) {
  *r->o->interrupt = 0;
  if (session_run_file(r->s, path) != ST_OK)
    repl_report(r);
}

/* Remembered for :reload. */
void prompt_load(Repl *r, const char *rest) {
  if (!*rest) {
    repl_say(r, ":load FILE\n");
    return;
  }
  free(r->loaded);
  r->loaded = strdup(rest);
  load(r, rest);
}

/* The edit-run loop. */
void prompt_reload(Repl *r, const char *rest) {
  (void)rest;
  if (r->loaded)
    load(r, r->loaded);
  else
    repl_say(r, "nothing was loaded yet\n");
}

/* The text of a stage, whatever runs on the device meanwhile. */
static void emit(Repl *r, const char *rest, SessionEmit stage) {
  Str out = str_new(r->arena);
  Status status = session_emit_call(r->s, rest, strlen(rest), stage, &out);
  show(r, status, &out);
}

/* One function a stage, since rows of the table take no argument of their own. */
void prompt_ast(Repl *r, const char *rest) {
  emit(r, rest, EMIT_AST);
}
void prompt_ir(Repl *r, const char *rest) {
  emit(r, rest, EMIT_IR);
}
void prompt_scheduled(Repl *r, const char *rest) {
  emit(r, rest, EMIT_SCHEDULED);
}
void prompt_lowered(Repl *r, const char *rest) {
  emit(r, rest, EMIT_LOWERED);
}
void prompt_cuda(Repl *r, const char *rest) {
  emit(r, rest, EMIT_CUDA);
}
void prompt_ptx(Repl *r, const char *rest) {
  emit(r, rest, EMIT_PTX);
}

/* `:check f(a)` is the statement `check f(a)`. */
static void statement(Repl *r, const char *word, const char *rest) {
  const char *text = arena_printf(r->arena, "%s %s\n", word, rest);
  if (repl_entry(r, text, strlen(text)))
    repl_say(r, "the call is unfinished\n");
}

/* Statements of the language, so that what they print and how they fail is the same. */
void prompt_check(Repl *r, const char *rest) {
  statement(r, "check", rest);
}
void prompt_bench(Repl *r, const char *rest) {
  statement(r, "bench", rest);
}

/* Everything: parsing, compiling, the run, the wait for the device. */
void prompt_time(Repl *r, const char *rest) {
  struct timespec from, to;
  clock_gettime(CLOCK_MONOTONIC, &from);
  if (repl_entry(r, rest, strlen(rest)))
    repl_say(r, "the statement is unfinished\n");
  clock_gettime(CLOCK_MONOTONIC, &to);
  double ms = 1e3 * (double)(to.tv_sec - from.tv_sec) + 1e-6 * (double)(to.tv_nsec - from.tv_nsec);
  repl_say(r, arena_printf(r->arena, "%.3f ms\n", ms));
}

/* Without a name it only says which. */
void prompt_device(Repl *r, const char *rest) {
  if (*rest && session_use_device(r->s, rest) != ST_OK)
    repl_report(r);
  else
    repl_say(r, arena_printf(r->arena, "%s\n", session_device(r->s)));
}

/* As `exit`, `quit` and Ctrl-D. */
void prompt_quit(Repl *r, const char *rest) {
  (void)rest;
  r->leave = true;
}

static const Command commands[] = {
#define COMMAND(name, fn, arguments, help) {name, prompt_##fn, arguments, help},
#include "commands.def"
#undef COMMAND
};

enum { COUNT = sizeof commands / sizeof *commands };

/* For completion. */
const char *repl_command_name(size_t i) {
  return i < COUNT ? commands[i].name : NULL;
}

/* Commands from the table; names from the session. */
void prompt_help(Repl *r, const char *rest) {
  Str out = str_new(r->arena);
  if (*rest) {
    if (!session_help(r->s, rest, &out))
      str_addf(&out, "there is no help on %s\n", rest);
  } else {
    for (size_t i = 0; i < COUNT; i++)
      str_addf(&out, ":%-10s %-10s %s\n", commands[i].name, commands[i].arguments,
               commands[i].help);
  }
  repl_say(r, str_text(&out));
}

/* The row whose name is, or uniquely begins with, the word; *many: several begin with it. */
static const Command *find(const char *word, size_t n, bool *many) {
  const Command *found = NULL;
  *many = false;
  for (size_t i = 0; i < COUNT; i++) {
    if (strncmp(commands[i].name, word, n) != 0)
      continue;
    if (commands[i].name[n] == '\0')
      return &commands[i];
    *many |= found != NULL;
    found = &commands[i];
  }
  return *many ? NULL : found;
}

/* The rest of the line is the argument, blanks trimmed. */
void repl_command(Repl *r, const char *text) {
  size_t n = strcspn(text, " \t");
  bool many = false;
  const Command *c = n ? find(text, n, &many) : NULL;
  char *rest = arena_strdup(r->arena, text + n + strspn(text + n, " \t"));
  for (size_t end = strlen(rest); end > 0 && strchr(" \t\r", rest[end - 1]); end--)
    rest[end - 1] = '\0';
  if (c)
    c->fn(r, rest);
  else
    repl_say(r, arena_printf(r->arena, "%s :%.*s; :help lists the commands\n",
                             many ? "several commands begin with" : "there is no command", (int)n,
                             text));
}
