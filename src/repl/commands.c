/* commands.c: what begins with `:` at the prompt: finding it, help, and the small ones.
 *
 * In: the text after the colon. Out: what the command shows. Rows of commands.def; those about
 * stages of a kernel are in stages.c, the edit-run loop in loop.c, walking a kernel in step.c,
 * settings in settings.c. Tests: tests/repl.
 */
#include <string.h>

#include "impl.h"

typedef void (*CommandFn)(Repl *r, const char *rest);

typedef struct Command {
  const char *name;
  CommandFn fn;
  const char *arguments, *help;
} Command;

static const Command commands[] = {
#define COMMAND(name, fn, arguments, help) {name, prompt_##fn, arguments, help},
#include "commands.def"
#undef COMMAND
};

enum { COUNT = sizeof commands / sizeof *commands };

/* Finding a command ---------------------------------------------------------------------------- */

/* For completion. */
const char *repl_command_name(size_t i) {
  return i < COUNT ? commands[i].name : NULL;
}

bool repl_command_help(const char *name, const char **arguments, const char **help) {
  for (size_t i = 0; i < COUNT; i++)
    if (strcmp(commands[i].name, name) == 0) {
      *arguments = commands[i].arguments;
      *help = commands[i].help;
      return true;
    }
  return false;
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

/* ":b could be :bench :back :break :block" */
static void say_many(Repl *r, const char *word, size_t n) {
  Str out = str_new(r->arena);
  str_addf(&out, ":%.*s could be", (int)n, word);
  for (size_t i = 0; i < COUNT; i++)
    if (strncmp(commands[i].name, word, n) == 0)
      str_addf(&out, " :%s", commands[i].name);
  str_addc(&out, '\n');
  repl_say(r, str_text(&out));
}

/* The rest of the line is the argument, blanks trimmed. */
void repl_command(Repl *r, const char *text) {
  text += strspn(text, " \t");
  size_t n = strcspn(text, " \t\r\n");
  bool many = false;
  const Command *c = n ? find(text, n, &many) : NULL;
  char *rest = arena_strdup(r->arena, text + n + strspn(text + n, " \t"));
  for (size_t end = strlen(rest); end > 0 && strchr(" \t\r\n", rest[end - 1]); end--)
    rest[end - 1] = '\0';
  if (c)
    c->fn(r, rest);
  else if (many)
    say_many(r, text, n);
  else if (!n)
    repl_say(r, "a command is wanted after the colon; :help lists them\n");
  else
    repl_say(r, arena_printf(r->arena, "there is no command :%.*s; :help lists the commands\n",
                             n < 40 ? (int)n : 40, text));
}

/* Help ----------------------------------------------------------------------------------------- */

/* Long lines of help go on below, under their column. */
static void add_wrapped(Str *out, const char *text, size_t indent, size_t width) {
  size_t at = indent;
  while (*text) {
    size_t n = strcspn(text, " ");
    if (at > indent && at + 1 + n > width) {
      str_addc(out, '\n');
      str_pad(out, ' ', indent);
      at = indent;
    } else if (at > indent) {
      str_addc(out, ' ');
      at++;
    }
    str_addn(out, text, n);
    at += n;
    text += n + strspn(text + n, " ");
  }
  str_addc(out, '\n');
}

static void list_commands(Str *out) {
  for (size_t i = 0; i < COUNT; i++) {
    size_t n = out->n;
    str_addf(out, ":%s %s", commands[i].name, commands[i].arguments);
    n = out->n - n;
    str_pad(out, ' ', n < 24 ? 24 - n : 1);
    add_wrapped(out, commands[i].help, n < 24 ? 24 : n + 1, 80);
  }
  str_add(out, "A unique beginning of a name will do. :help NAME says what anything else is.\n");
}

/* `:help load`, `:help :load`: the session's names come first, but for the colon. */
static bool help_command(Repl *r, const char *rest, Str *out) {
  bool many = false;
  const char *word = rest + (rest[0] == ':');
  const Command *c = find(word, strlen(word), &many);
  if (!c || (rest[0] != ':' && strcmp(c->name, word) != 0))
    return false;
  (void)r;
  str_addf(out, ":%s %s\n%s\n", c->name, c->arguments, c->help);
  return true;
}

/* A code of a diagnostic has a page. */
static bool help_code(const char *name, Str *out) {
  DiagCode code;
  if (!diag_find(name, &code))
    return false;
  diag_explain(code, out);
  return true;
}

void prompt_help(Repl *r, const char *rest) {
  Str out = str_new(r->arena);
  if (!*rest)
    list_commands(&out);
  else if (rest[0] == ':' ? !help_command(r, rest, &out)
                          : !session_help(r->s, rest, &out) && !help_command(r, rest, &out) &&
                                !help_code(rest, &out))
    str_addf(&out, "there is no help on %s\n", rest);
  repl_say(r, str_text(&out));
}

/* Values --------------------------------------------------------------------------------------- */

/* The expression is evaluated: it may print. */
void prompt_type(Repl *r, const char *rest) {
  Str out = str_new(r->arena);
  if (!*rest) {
    repl_say(r, ":type EXPR\n");
    return;
  }
  Status status = session_type_of(r->s, rest, strlen(rest), &out);
  if (status == ST_OK)
    str_addc(&out, '\n');
  repl_show(r, status, &out);
}

void prompt_info(Repl *r, const char *rest) {
  Str out = str_new(r->arena);
  if (!*rest)
    str_add(&out, ":info NAME\n");
  else if (!session_info(r->s, rest, &out))
    str_addf(&out, "nothing is named %s\n", rest);
  repl_say(r, str_text(&out));
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

/* Statements ----------------------------------------------------------------------------------- */

/* `:check f(a)` is the statement `check f(a)`. */
static void statement(Repl *r, const char *word, const char *rest) {
  const char *text = arena_printf(r->arena, "%s %s\n", word, rest);
  if (repl_entry(r, text, strlen(text)))
    repl_say(r, arena_printf(r->arena, ":%s f(a, b)\n", word));
}

/* Statements of the language, so that what they print and how they fail is the same. */
void prompt_check(Repl *r, const char *rest) {
  if (*rest)
    statement(r, "check", rest);
  else
    repl_say(r, ":check f(a, b)\n");
}
void prompt_bench(Repl *r, const char *rest) {
  if (*rest)
    statement(r, "bench", rest);
  else
    repl_say(r, ":bench f(a, b)\n");
}

static void add_time(Str *out, const char *what, double seconds, int *n) {
  if (seconds >= 5e-7)
    str_addf(out, "%s%s %.3f", (*n)++ ? ", " : ": ", what, 1e3 * seconds);
}

/* What is left is the host's own work: values, binding, printing. */
void prompt_time(Repl *r, const char *rest) {
  Str out = str_new(r->arena);
  if (!*rest) {
    repl_say(r, ":time STATEMENT\n");
    return;
  }
  session_times(r->s);
  double start = base_now();
  if (repl_entry(r, rest, strlen(rest))) {
    repl_say(r, "the statement is unfinished\n");
    return;
  }
  double all = base_now() - start;
  SessionTimes t = session_times(r->s);
  int n = 0;
  str_addf(&out, "%.3f ms", 1e3 * all);
  add_time(&out, "parse", t.parse, &n);
  add_time(&out, "compile", t.compile, &n);
  add_time(&out, "copy", t.copy, &n);
  add_time(&out, "launch", t.launch, &n);
  add_time(&out, "kernel", t.kernel, &n);
  add_time(&out, "host", all - t.parse - t.compile - t.copy - t.launch - t.kernel, &n);
  str_addc(&out, '\n');
  repl_say(r, str_text(&out));
}

/* As `exit`, `quit` and Ctrl-D. */
void prompt_quit(Repl *r, const char *rest) {
  (void)rest;
  r->leave = true;
}
