/* settings.c: `:set`, `:device`, `:reset`, `:lua`.
 *
 * In: the text after the command. Out: the session's settings, or the prompt's own (color,
 * history), changed or listed. Tests: tests/repl/settings.txt.
 */
#include <string.h>

#include "impl.h"

static void show_setting(void *ctx, const char *name, const char *value) {
  str_addf(ctx, "%-8s %s\n", name, value);
}

/* The session's, then the prompt's own. */
static void each_setting(Repl *r, void (*fn)(void *ctx, const char *name, const char *value),
                         void *ctx) {
  session_each_setting(r->s, fn, ctx);
  fn(ctx, "color", r->color ? "on" : "off");
  fn(ctx, "history", r->history ? "on" : "off");
  fn(ctx, "device", session_device(r->s));
}

typedef struct Wanted {
  const char *name;
  Str *out;
} Wanted;

static void show_wanted(void *ctx, const char *name, const char *value) {
  const Wanted *w = ctx;
  if (strcmp(name, w->name) == 0)
    show_setting(w->out, name, value);
}

/* `:set threads`: a setting by its name, false where there is none. */
static bool show_named(Repl *r, const char *name, Str *out) {
  Wanted w = {name, out};
  size_t n = out->n;
  each_setting(r, show_wanted, &w);
  return out->n > n;
}

/* The prompt's own: false where it is none of them. */
static bool set_own(Repl *r, const char *name, const char *value, Str *out) {
  bool *flag = strcmp(name, "color") == 0     ? &r->color
               : strcmp(name, "history") == 0 ? &r->history
                                              : NULL;
  if (!flag)
    return false;
  if (strcmp(value, "on") == 0 || strcmp(value, "off") == 0)
    *flag = value[1] == 'n';
  else
    str_addf(out, "%s takes on or off, not %s\n", name, value);
  return true;
}

void prompt_set(Repl *r, const char *rest) {
  Str out = str_new(r->arena);
  size_t n = strcspn(rest, " \t");
  const char *name = arena_strndup(r->arena, rest, n), *value = rest + n + strspn(rest + n, " \t");
  if (!*rest) {
    each_setting(r, show_setting, &out);
  } else if (!*value && show_named(r, name, &out)) {
    ; /* shown */
  } else if (strcmp(name, "device") == 0) {
    prompt_device(r, value);
  } else if (!set_own(r, name, value, &out)) {
    Str why = str_new(r->arena);
    if (!session_set(r->s, name, value, &why))
      str_addf(&out, "%s\n", str_text(&why));
  }
  repl_say(r, str_text(&out));
}

/* Without a name it only says which; reset is a new process (resume.c). */
void prompt_device(Repl *r, const char *rest) {
  bool reset = strcmp(rest, "reset") == 0;
  Status status = *rest && !reset ? session_use_device(r->s, rest) : ST_OK;
  if (reset)
    repl_restart(r);
  else if (status != ST_OK)
    repl_report(r, status);
  else
    repl_say(r, arena_printf(r->arena, "%s\n", session_device(r->s)));
}

void prompt_reset(Repl *r, const char *rest) {
  (void)rest;
  session_reset(r->s);
}

/* Lines follow while the text is unfinished; what it defines stays in the session's Lua. */
void prompt_lua(Repl *r, const char *rest) {
  if (!*rest) {
    repl_say(r, ":lua CODE: a line of Lua, or the first of several\n");
    return;
  }
  repl_lua_line(r, rest);
}
