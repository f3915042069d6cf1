/* settings.c: what a running session can change, where its time goes, starting over.
 *
 * In: names and values as texts. Out: options that hold from the next statement on. Always holds:
 * no option changes a result. Tests: tests/repl/settings.txt, tests/unit/check_session.c.
 */
#include "kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Settings ------------------------------------------------------------------------------------- */

typedef struct Setting {
  const char *name, *takes;
  bool (*set)(Session *s, const char *value);
  void (*show)(const Session *s, Str *out);
} Setting;

/* The whole text must be a number in the range. */
static bool number(const char *text, long long least, long long most, long long *out) {
  char *end = NULL;
  errno = 0;
  *out = strtoll(text, &end, 10);
  return end != text && !*end && errno == 0 && *out >= least && *out <= most;
}

/* The pool is made anew when it is next needed. */
static bool set_threads(Session *s, const char *value) {
  long long n;
  if (!number(value, 1, 1024, &n))
    return false;
  pool_free(s->pool);
  s->pool = NULL;
  s->options.threads = (int)n;
  return true;
}
static void show_threads(const Session *s, Str *out) {
  if (s->options.threads)
    str_addf(out, "%d", s->options.threads);
  else
    str_add(out, "one a processor");
}

static const char *const checks[] = {"none", "default", "all"};

static bool set_checks(Session *s, const char *value) {
  for (int i = 0; i < 3; i++)
    if (strcmp(value, checks[i]) == 0) {
      s->options.checks = (EvalChecks)(CHECKS_NONE + i);
      s->options.checks_set = true;
      return true;
    }
  return false;
}
static void show_checks(const Session *s, Str *out) {
  str_add(out, s->options.checks_set ? checks[s->options.checks - CHECKS_NONE] : "default");
}

static bool set_shake(Session *s, const char *value) {
  long long n;
  if (!number(value, 0, INT64_MAX, &n))
    return false;
  s->options.shake = (uint64_t)n;
  return true;
}
static void show_shake(const Session *s, Str *out) {
  str_addf(out, "%llu", (unsigned long long)s->options.shake);
}

static bool set_arch(Session *s, const char *value) {
  const Target *t = target_find(value);
  if (t)
    s->options.arch = t->name;
  return t != NULL;
}
static void show_arch(const Session *s, Str *out) {
  str_add(out, session_target((Session *)(uintptr_t)s)->name);
}

static bool set_bursts(Session *s, const char *value) {
  long long n;
  bool ok = number(value, 0, 10000, &n);
  if (ok)
    s->options.bench_bursts = (int)n;
  return ok;
}
static void show_bursts(const Session *s, Str *out) {
  str_addf(out, "%d", s->options.bench_bursts);
}

static const Setting settings[] = {
    {"threads", "a number from 1 to 1024", set_threads, show_threads},
    {"checks", "none, default or all", set_checks, show_checks},
    {"shake", "a number; 0: natural order", set_shake, show_shake},
    {"arch", "sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_103a or sm_120a", set_arch, show_arch},
    {"bursts", "a number up to 10000, where 0 is until the figures are steady", set_bursts,
     show_bursts},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

bool session_set(Session *s, const char *name, const char *value, Str *why) {
  for (size_t i = 0; i < SETTINGS; i++) {
    if (strcmp(settings[i].name, name) != 0)
      continue;
    if (!value || settings[i].set(s, value))
      return true;
    str_addf(why, "%s takes %s, not %s", name, settings[i].takes, value);
    return false;
  }
  str_addf(why, "there is no option %s", name);
  return false;
}

void session_each_setting(Session *s, void (*fn)(void *ctx, const char *name, const char *value),
                          void *ctx) {
  Arena *a = arena_new(NULL, "settings");
  for (size_t i = 0; i < SETTINGS; i++) {
    Str value = str_new(a);
    settings[i].show(s, &value);
    fn(ctx, settings[i].name, str_text(&value));
  }
  arena_free(a);
}

void session_set_width(Session *s, size_t columns) {
  s->options.width = columns;
}

/* Time ----------------------------------------------------------------------------------------- */

SessionTimes session_times(Session *s) {
  SessionTimes t = s->times;
  s->times = (SessionTimes){0};
  return t;
}

/* Starting over -------------------------------------------------------------------------------- */

/* Modules are read again by the next import. */
void session_reset(Session *s) {
  session_begin(s);
  debug_free(s);
  val_release(s->last);
  s->last = val_nil();
  session_forget(s);
  s->main->globals = map_new(s->arena);
  memset(s->main->near, 0, sizeof s->main->near);
  s->main->next = NULL;
  s->modules = s->main;
  s->module = s->main;
  s->random = (TensorRandom){.seed = 0};
  s->generation++;
}

/* Parsed as a file is; nothing of it stays. */
bool session_is_program(Session *s, const char *text, size_t n) {
  Arena *a = arena_new(NULL, "text");
  DiagSink sink;
  diag_init(&sink, a);
  ParseInput in = {a, s->names, &sink, src_new(a, "", text, n), false};
  AstFile *f = NULL;
  bool ok = parse_file(&in, &f) == PARSE_OK;
  arena_free(a);
  return ok;
}
