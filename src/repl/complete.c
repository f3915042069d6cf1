/* complete.c: what Tab proposes, and the signature that goes with it.
 *
 * In: the line so far. Out: names of the session, words of the language, dtypes, commands, files
 * (in a string, and after commands that take one). A list of proposals shows each with its
 * signature and one line of help; after an open bracket Tab shows the signature of what is called.
 * Tests: tests/repl/run.
 */
#include "editor.h"

#include <stdlib.h>
#include <string.h>

#ifdef HAVE_LINE_EDITOR

enum { MOST_WITH_HELP = 24 };

/* Where we are --------------------------------------------------------------------------------- */

static bool is_file_command(const char *line) {
  static const char *const names[] = {":load ", ":watch ", ":edit ", ":save "};
  line += strspn(line, " ");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strncmp(line, names[i], strlen(names[i])) == 0)
      return true;
  return false;
}

/* Whether a file's name is wanted at the point. */
static bool wants_file(const char *line, int point) {
  bool in_string = false;
  for (const char *p = line; p < line + point; p++)
    in_string ^= *p == '"';
  return in_string || is_file_command(line);
}

/* In `:lo` the name of a command. */
static bool in_command(const char *line) {
  line += strspn(line, " ");
  return line[0] == ':' && !strpbrk(line, " \t");
}

/* `:help lo` takes commands besides names. */
static bool in_help(const char *line) {
  return strncmp(line + strspn(line, " "), ":help ", 6) == 0;
}

#ifdef HAVE_READLINE
/* What ends a word: more where names are completed than where files are. */
static char *word_breaks(void) {
  static const char files[] = " \t\n\"", names[] = " \t\n\"'`@+-*/%<>=!;|&^~{}()[],:#?";
  return (char *)(uintptr_t)(wants_file(rl_line_buffer, rl_point) ? files : names);
}
#endif

/* Proposals ------------------------------------------------------------------------------------ */

/* Out of memory only means fewer proposals; a name comes once. */
static void add_match(void *ctx, const char *name) {
  Repl *r = ctx;
  for (size_t i = 0; i < r->nmatches; i++)
    if (strcmp(r->matches[i], name) == 0)
      return;
  char **grown = realloc(r->matches, (r->nmatches + 1) * sizeof *grown);
  if (!grown)
    return;
  r->matches = grown;
  char *copy = strdup(name);
  if (copy)
    r->matches[r->nmatches++] = copy;
}

static void forget(Repl *r) {
  for (size_t i = 0; i < r->nmatches; i++)
    free(r->matches[i]);
  free(r->matches);
  r->matches = NULL;
  r->nmatches = 0;
}

static void gather(Repl *r, const char *prefix) {
  bool command = in_command(rl_line_buffer);
  forget(r);
  if (!command)
    session_complete(r->s, prefix, add_match, r);
  for (size_t i = 0; (command || in_help(rl_line_buffer)) && repl_command_name(i); i++)
    if (strncmp(repl_command_name(i), prefix, strlen(prefix)) == 0)
      add_match(r, repl_command_name(i));
}

/* readline frees what it gets. The state counts the calls of one completion. */
static char *next_match(const char *prefix, int state) {
  Repl *r = editor_current();
  if (state == 0)
    gather(r, prefix);
  return (size_t)state < r->nmatches ? strdup(r->matches[state]) : NULL;
}

/* Signatures ----------------------------------------------------------------------------------- */

#ifdef HAVE_READLINE
/* "matmul(A: E[M, K], …) -> …   Blocked matrix product": one line for a name. */
static bool describe(Repl *r, const char *name, Str *out) {
  const char *doc = NULL, *arguments, *help;
  if (in_command(rl_line_buffer) && repl_command_help(name, &arguments, &help)) {
    str_addf(out, ":%s %s  %s", name, arguments, help);
    return true;
  }
  if (!session_signature(r->s, name, out, &doc))
    return false;
  if (doc)
    str_addf(out, "  %.*s", (int)strcspn(doc, "\n"), doc);
  return true;
}

/* The line is shown again below what was printed. */
static void show(Str *out) {
  fputc('\n', rl_outstream);
  io_write(rl_outstream, str_text(out), out->n);
  fflush(rl_outstream);
  rl_on_new_line();
}

/* No longer than the terminal is wide. */
static void add_line(const Str *line, Str *out) {
  int rows, columns;
  rl_get_screen_size(&rows, &columns);
  size_t n = line->n;
  while (columns > 8 && n > 0 && str_width(line->s, n) > (size_t)columns - 1)
    do
      n--;
    while (n > 0 && ((unsigned char)line->s[n] & 0xC0) == 0x80);
  str_addn(out, str_text(line), n);
  str_addc(out, '\n');
}

/* Many proposals, or files: as readline shows them. */
static void show_matches(char **matches, int n, int longest) {
  Repl *r = editor_current();
  if (n > MOST_WITH_HELP || wants_file(rl_line_buffer, rl_point)) {
    rl_display_match_list(matches, n, longest);
    rl_forced_update_display();
    return;
  }
  Arena *a = arena_new(NULL, "completion");
  Str out = str_new(a);
  for (int i = 1; i <= n; i++) {
    Str line = str_new(a);
    if (!describe(r, matches[i], &line)) {
      str_clear(&line);
      str_add(&line, matches[i]);
    }
    add_line(&line, &out);
  }
  show(&out);
  arena_free(a);
}

/* The name before the innermost open bracket; its length, 0 where there is none. */
static size_t callee(const char *line, int point, const char **name) {
  int depth = 0, i = point;
  while (i-- > 0) {
    depth += line[i] == ')' || line[i] == ']';
    if ((line[i] == '(' || line[i] == '[') && depth-- == 0)
      break;
  }
  int end = i;
  while (i > 0 &&
         (line[i - 1] == '_' || line[i - 1] == '.' || (line[i - 1] >= '0' && line[i - 1] <= '9') ||
          ((line[i - 1] | 32) >= 'a' && (line[i - 1] | 32) <= 'z')))
    i--;
  *name = line + i;
  return end > i && i >= 0 ? (size_t)(end - i) : 0;
}

/* Nothing is begun, and a call is open: its signature. */
static bool show_call(Repl *r) {
  const char *name;
  size_t n = callee(rl_line_buffer, rl_point, &name);
  if (n == 0)
    return false;
  Arena *a = arena_new(NULL, "signature");
  Str line = str_new(a), out = str_new(a);
  bool found = describe(r, arena_strndup(a, name, n), &line);
  if (found) {
    add_line(&line, &out);
    show(&out);
    rl_forced_update_display();
  }
  arena_free(a);
  return found;
}
#endif

/* What follows a lone proposal: a bracket for what is called, a blank for commands and words. */
static void set_append(Repl *r, const char *name) {
  Arena *a = arena_new(NULL, "signature");
  Str s = str_new(a);
  const char *doc;
  size_t n = strlen(name);
  bool known = session_signature(r->s, name, &s, &doc);
  bool called = known && ((s.n > n && strncmp(s.s, name, n) == 0 && s.s[n] == '(') ||
                          strncmp(s.s, "fn ", 3) == 0 || strncmp(s.s, "kernel ", 7) == 0);
  bool kernel_word = known && strcmp(name, "kernel") == 0;
  rl_completion_append_character = in_command(rl_line_buffer) ? ' '
                                   : called && !kernel_word   ? '('
                                   : known                    ? ' '
                                                              : '\0';
  arena_free(a);
}

/* Inside a string, and after commands that take a file, readline's own completion. */
static char **complete(const char *text, int start, int end) {
  Repl *r = editor_current();
  rl_completion_append_character = ' ';
  if (wants_file(rl_line_buffer, start))
    return NULL; /* file names */
  rl_attempted_completion_over = 1;
#ifdef HAVE_READLINE
  if (start == end && show_call(r))
    return NULL;
#else
  (void)end;
#endif
  char **matches = rl_completion_matches(text, next_match);
  if (matches && !matches[1])
    set_append(r, matches[0]);
  return matches;
}

void complete_open(void) {
  rl_attempted_completion_function = complete;
#ifdef HAVE_READLINE
  rl_completion_word_break_hook = word_breaks;
  rl_completion_display_matches_hook = show_matches;
#endif
}

#else
typedef int CompletionNeedsALineEditor; /* a file of C holds something */
#endif
