/* commands.c: the commands of the command line: check, test, bench, fmt, explain, doctor, cache.
 *
 * In: words after the command. Out: results on standard output, an exit status. Each file is run in
 * a session of its own, so one that fails does not stop the others. Tests: tests/cli.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gpu/gpu.h"
#include "lua/lua.h"
#include "lower/lower.h"
#include "main.h"
#include "parser/parser.h"

static int say(const char *text) {
  fprintf(stderr, "tilesh: %s\n", text);
  return EXIT_USAGE;
}

static int worse(int a, int b) {
  return a > b ? a : b;
}

/* check, bench ------------------------------------------------------------------------------- */

static int run_files(const Cli *c, SessionMode mode, int argc, char **argv, int at) {
  int status = 0;
  if (at == argc)
    return say("which file?");
  for (int i = at; i < argc; i++) {
    Session *s = cli_session(c, mode);
    if (!s)
      return EXIT_FAILED;
    Status one = session_run_file(s, argv[i]);
    int code;
    cli_report(c, s);
    if (!session_exit_wanted(s, &code))
      code = session_exit_status(one);
    session_free(s);
    status = worse(status, code);
    if (one == ST_INTERRUPTED)
      break;
  }
  return status;
}

int command_check(Cli *c, int argc, char **argv, int at) {
  return run_files(c, MODE_CHECK, argc, argv, at);
}

int command_bench(Cli *c, int argc, char **argv, int at) {
  return run_files(c, MODE_BENCH, argc, argv, at);
}

/* test --------------------------------------------------------------------------------------- */

typedef struct TestRun {
  const Cli *c;
  Arena *arena;
  long passed, failed, skipped, count;
  Str junit; /* the cases so far */
  bool io_failed;
} TestRun;

static void put(TestRun *r, const Str *text) {
  if (!io_write(stdout, str_text(text), text->n))
    r->io_failed = true;
}

/* Each line of text after a prefix. */
static void add_lines(Str *out, const char *prefix, const char *text) {
  while (*text) {
    size_t n = strcspn(text, "\n");
    str_add(out, prefix);
    str_addn(out, text, n);
    str_addc(out, '\n');
    text += n + (text[n] == '\n');
  }
}

static void add_xml(Str *out, const char *text) {
  for (; *text; text++)
    switch (*text) {
    case '<':
      str_add(out, "&lt;");
      break;
    case '>':
      str_add(out, "&gt;");
      break;
    case '&':
      str_add(out, "&amp;");
      break;
    case '"':
      str_add(out, "&quot;");
      break;
    default:
      str_addc(out, (unsigned char)*text < 32 && *text != '\n' ? ' ' : *text);
      break;
    }
}

static void add_junit(TestRun *r, const SessionTest *t) {
  str_add(&r->junit, "  <testcase classname=\"");
  add_xml(&r->junit, t->file);
  str_add(&r->junit, "\" name=\"");
  add_xml(&r->junit, t->name);
  str_addf(&r->junit, "\" time=\"%.6f\"", t->seconds);
  if (t->outcome == TEST_PASSED) {
    str_add(&r->junit, "/>\n");
    return;
  }
  str_add(&r->junit, ">\n    <failure message=\"failed\">");
  add_xml(&r->junit, t->text);
  str_add(&r->junit, "</failure>\n  </testcase>\n");
}

static void report_test(void *ctx, const SessionTest *t) {
  TestRun *r = ctx;
  Str out = str_new(r->arena);
  bool ok = t->outcome == TEST_PASSED;
  r->count++;
  r->passed += ok;
  r->failed += !ok;
  if (r->c->tap) {
    str_addf(&out, "%s %ld - %s:%u: %s\n", ok ? "ok" : "not ok", r->count, t->file, t->line,
             t->name);
    add_lines(&out, "# ", t->text);
  } else {
    str_addf(&out, "%s %s:%u: %s\n", ok ? "ok  " : "FAIL", t->file, t->line, t->name);
    add_lines(&out, "  ", t->text);
  }
  add_junit(r, t);
  put(r, &out);
}

/* A file that fails before its tests counts as one failed test of the file's name. */
static void report_broken(TestRun *r, Session *s, const char *path) {
  Str text = str_new(r->arena);
  diag_format_all(session_diags(s), false, &text);
  SessionTest t = {.name = "the file itself", .file = path, .line = 1, .outcome = TEST_FAILED};
  t.text = str_text(&text);
  report_test(r, &t);
}

static bool test_file(TestRun *r, const char *path) {
  Session *s = cli_session(r->c, MODE_TEST);
  if (!s)
    return false;
  Status status = session_run_file(s, path);
  if (status == ST_OK)
    status = session_run_tests(s, r->c->filter, report_test, r);
  else if (status != ST_INTERRUPTED)
    report_broken(r, s, path);
  session_free(s);
  return status != ST_INTERRUPTED;
}

static bool test_path(TestRun *r, const char *path, int depth);

static bool test_folder(TestRun *r, const char *path, int depth) {
  struct dirent **list = NULL;
  int n = depth < 32 ? scandir(path, &list, NULL, alphasort) : 0;
  bool go_on = true;
  if (n < 0) {
    fprintf(stderr, "tilesh: %s cannot be read: %s\n", path, strerror(errno));
    r->io_failed = true;
  }
  for (int i = 0; i < n; i++) {
    const char *name = list[i]->d_name;
    char *inner = arena_printf(r->arena, "%s/%s", path, name);
    struct stat st;
    bool wanted = name[0] != '.' && lstat(inner, &st) == 0 &&
                  (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && str_ends_in(name, ".tile")));
    if (go_on && wanted)
      go_on = test_path(r, inner, depth + 1);
    free(list[i]);
  }
  free(list);
  return go_on;
}

static bool test_path(TestRun *r, const char *path, int depth) {
  struct stat st;
  if (stat(path, &st) != 0) { /* no test that failed: wrong usage */
    fprintf(stderr, "tilesh: %s cannot be read: %s\n", path, strerror(errno));
    r->io_failed = true;
    return true;
  }
  return S_ISDIR(st.st_mode) ? test_folder(r, path, depth) : test_file(r, path);
}

static void write_junit(TestRun *r) {
  const char *why = NULL;
  Str out = str_new(r->arena);
  if (!r->c->junit)
    return;
  str_addf(&out,
           "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"tilesh\" "
           "tests=\"%ld\" failures=\"%ld\">\n",
           r->count, r->failed);
  str_addn(&out, str_text(&r->junit), r->junit.n);
  str_add(&out, "</testsuite>\n");
  if (io_write_file(r->arena, r->c->junit, str_text(&out), out.n, &why))
    return;
  fprintf(stderr, "tilesh: %s cannot be written: %s\n", r->c->junit, why);
  r->io_failed = true;
}

int command_test(Cli *c, int argc, char **argv, int at) {
  TestRun r = {.c = c, .arena = arena_new(NULL, "tests")};
  bool go_on = true;
  r.junit = str_new(r.arena);
  if (c->tap && fputs("TAP version 13\n", stdout) == EOF)
    r.io_failed = true;
  for (int i = at; go_on && i < argc; i++)
    go_on = test_path(&r, argv[i], 0);
  if (at == argc)
    go_on = test_path(&r, ".", 0);
  write_junit(&r);
  Str out = str_new(r.arena);
  if (c->tap)
    str_addf(&out, "1..%ld\n# ", r.count);
  str_addf(&out, "%ld passed, %ld failed", r.passed, r.failed);
  if (r.skipped)
    str_addf(&out, ", %ld skipped", r.skipped);
  str_addc(&out, '\n');
  put(&r, &out);
  int status = r.io_failed ? EXIT_USAGE : !go_on ? 130 : r.failed ? EXIT_FAILED : 0;
  arena_free(r.arena);
  return status;
}

/* fmt ---------------------------------------------------------------------------------------- */

/* The formatted text, or NULL after diagnostics. */
static const char *formatted(const Cli *c, Arena *a, const char *path, const char *text, size_t n,
                             size_t *out_n) {
  DiagSink sink;
  diag_init(&sink, a);
  ParseInput in = {a, names_new(a), &sink, src_new(a, path, text, n), false};
  AstFile *f = NULL;
  Str out = str_new(a);
  if (parse_file(&in, &f) == PARSE_OK) {
    fmt_format(a, f, &out);
    *out_n = out.n;
    return str_text(&out);
  }
  diag_format_all(&sink, c->color == 1, &out);
  io_write(stderr, str_text(&out), out.n);
  return NULL;
}

static int format_one(const Cli *c, Arena *a, const char *path) {
  bool standard = strcmp(path, "-") == 0;
  const char *why = NULL;
  size_t n = 0, m = 0;
  char *text = io_read_file(a, standard ? "/dev/stdin" : path, &n, &why);
  if (!text) {
    fprintf(stderr, "tilesh: %s cannot be read: %s\n", path, why);
    return EXIT_USAGE;
  }
  const char *out = formatted(c, a, path, text, n, &m);
  if (!out)
    return 3;
  bool same = n == m && memcmp(text, out, n) == 0;
  if (c->fmt_check) {
    if (!same)
      printf("%s\n", path);
    return same ? 0 : EXIT_FAILED;
  }
  if (standard)
    return io_write(stdout, out, m) ? 0 : EXIT_USAGE;
  if (same || io_write_file(a, path, out, m, &why))
    return 0;
  fprintf(stderr, "tilesh: %s cannot be written: %s\n", path, why);
  return EXIT_USAGE;
}

/* formatted() runs under a boundary: the parser reports too deep a nesting by leaving. */
typedef struct FormatJob {
  const Cli *c;
  const char *path;
  int status;
} FormatJob;

static void format_guarded(Guard *guard, void *ctx) {
  FormatJob *j = ctx;
  Arena *a = arena_new(guard, "format");
  j->status = format_one(j->c, a, j->path);
  arena_free(a);
}

int command_fmt(Cli *c, int argc, char **argv, int at) {
  int status = 0;
  if (at == argc)
    return say("which file? - is standard input");
  for (int i = at; i < argc; i++) {
    FormatJob j = {c, argv[i], EXIT_USAGE};
    if (guard_run(format_guarded, &j) != ST_OK)
      j.status = EXIT_FAILED;
    status = worse(status, j.status);
  }
  return status;
}

/* explain, doctor, cache --------------------------------------------------------------------- */

int command_explain(Cli *c, int argc, char **argv, int at) {
  DiagCode code;
  (void)c;
  if (at + 1 != argc)
    return say("explain takes one code, such as E0231");
  if (!diag_find(argv[at], &code)) {
    fprintf(stderr, "tilesh: there is no diagnostic %s\n", argv[at]);
    return EXIT_USAGE;
  }
  Arena *a = arena_new(NULL, "explain");
  Str out = str_new(a);
  diag_explain(code, &out);
  bool ok = io_write(stdout, str_text(&out), out.n);
  arena_free(a);
  return ok ? 0 : EXIT_USAGE;
}

int command_doctor(Cli *c, int argc, char **argv, int at) {
  (void)c, (void)argv;
  if (at < argc)
    return say("doctor takes nothing");
  Arena *a = arena_new(NULL, "doctor");
  Str out = str_new(a);
  GpuRt *rt = gpu_rt_new(NULL);
  str_addf(&out, "tilesh %s, %s\n", PACKAGE_VERSION,
           gpu_built() ? "built with CUDA" : "built without CUDA headers");
  str_addf(&out, "evaluator: instruction set %s\n", op_isa_name(op_isa_choose(OPS_BEST)));
  str_addf(&out, "Lua: %s\n",
           luat_version() ? luat_version() : "not in this build (--without-lua)");
  str_add(&out, "targets:");
  for (size_t i = 0; target_at(i); i++)
    str_addf(&out, " %s", target_at(i)->name);
  str_addc(&out, '\n');
  gpu_doctor(rt, &out);
  gpu_rt_free(rt);
  bool ok = io_write(stdout, str_text(&out), out.n);
  arena_free(a);
  return ok ? 0 : EXIT_USAGE;
}

int command_cache(Cli *c, int argc, char **argv, int at) {
  GpuRt *rt = gpu_rt_new(NULL);
  (void)c;
  int status = 0;
  if (at + 1 == argc && strcmp(argv[at], "clear") == 0) {
    printf("%u entries removed\n", gpu_cache_clear(rt));
  } else if (at < argc) {
    status = say("cache takes nothing or clear");
  } else {
    GpuCacheInfo info = gpu_cache_info(rt);
    printf("place    %s%s%s\nentries  %u\nbytes    %llu\n", info.dir[0] ? info.dir : "none",
           info.usable ? "" : ": ", info.usable ? "" : info.problem, info.entries,
           (unsigned long long)info.bytes);
  }
  gpu_rt_free(rt);
  return status;
}
