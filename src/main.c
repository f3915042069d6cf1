/* main.c: the command line.
 *
 * In: arguments, environment, files. Out: results on standard output, everything else on standard
 * error, and an exit status: 0 well, 1 the program failed, 2 wrong usage or input/output, 3 it does
 * not compile, 4 the device failed. Options and commands are rows of options.def; each command is
 * one function here or in src/commands.c. The flag that Ctrl-C sets is the only mutable object of
 * file scope in the program. Tests: tests/cli.
 */
#include "main.h"

#include <errno.h>
#include <fcntl.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lua/lua.h"
#include "repl/repl.h"

static volatile sig_atomic_t tile_interrupted;

/* It only sets the flag. */
static void on_interrupt(int signal_number) {
  (void)signal_number;
  tile_interrupted = 1;
}

/* A mapped file was cut short by somebody else while a tensor stood on it: its elements are gone,
 * and no flag can bring them back. Only what a handler may call is called. */
static _Noreturn void on_lost_file(int signal_number) {
  static const char words[] =
      "tilesh: a file was shortened while a tensor that load mapped used it\n";
  (void)signal_number;
  ssize_t wrote = write(STDERR_FILENO, words, sizeof words - 1);
  _exit(wrote < 0 ? EXIT_FAILED : EXIT_USAGE);
}

/* Outside the prompt the second Ctrl-C, while the first has not been heeded, ends the process. */
static void set_signals(bool prompt) {
  struct sigaction action = {.sa_handler = on_interrupt,
                             .sa_flags = prompt ? 0 : (int)SA_RESETHAND};
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGBUS, &(struct sigaction){.sa_handler = on_lost_file}, NULL);
  signal(SIGPIPE, SIG_IGN); /* a reader that is gone is a failed write, exit status 2 */
  signal(SIGXFSZ, SIG_IGN); /* so is a file that may not grow */
}

/* A closed descriptor must not become that of the next file that is opened, or the program's output
 * would go into it. What takes its place cannot be written. */
static void hold_descriptors(void) {
  for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
    if (fcntl(fd, F_GETFD) >= 0)
      continue;
    int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (none < 0 || none == fd)
      continue;
    (void)dup2(none, fd);
    close(none);
  }
}

/* Options ------------------------------------------------------------------------------------ */

enum {
#define OPTION(id, name, letter, argument, help) OPT_##id,
#include "options.def"
  OPT_COUNT,
  OPT_BASE = 256 /* getopt's value of option i is OPT_BASE + i */
};

/* Whether an option takes an argument: its column in the table is a text, or NULL. (The address of
 * a literal as a condition is what clang warns of.) */
#define TAKES(argument) _Generic((argument), char * : 1, const char * : 1, default : 0)

static const struct option long_options[] = {
#define OPTION(id, name, letter, argument, help)                                                   \
  {name, TAKES(argument) ? required_argument : no_argument, NULL, OPT_BASE + OPT_##id},
#include "options.def"
    {NULL, 0, NULL, 0}};

static const char short_options[] = "+e:o:Vh";

/* One line and where to find more. */
static int usage(const char *text, const char *what) {
  fprintf(stderr, "tilesh: %s%s%s; `tilesh --help` lists what there is\n", text, what ? " " : "",
          what ? what : "");
  return EXIT_USAGE;
}

/* The whole text must be a number. */
static bool number(const char *text, long long *out) {
  char *end = NULL;
  errno = 0;
  *out = strtoll(text, &end, 10);
  return end != text && !*end && errno == 0;
}

/* One of the words of a NULL-ended list; -1 where it is none. */
static int word(const char *text, const char *const *words) {
  for (int i = 0; words[i]; i++)
    if (strcmp(text, words[i]) == 0)
      return i;
  return -1;
}

/* A second -e goes on below the first. */
static bool add_execute(Cli *c, const char *text) {
  size_t n = c->execute ? strlen(c->execute) : 0, more = strlen(text);
  char *all = realloc(c->execute, n + more + 2);
  if (!all)
    return false;
  if (c->execute)
    all[n++] = '\n';
  memcpy(all + n, text, more + 1);
  c->execute = all;
  return true;
}

static bool set_emit(Cli *c, const char *text) {
  static const char *const stages[] = {"ast",  "ir",  "scheduled", "lowered",
                                       "cuda", "ptx", "cubin",     NULL};
  int i = word(text, stages);
  c->session.emit = (SessionEmit)(EMIT_AST + i);
  return i >= 0;
}

static bool set_checks(Cli *c, const char *text) {
  static const char *const words[] = {"none", "default", "all", NULL};
  int i = word(text, words);
  c->session.checks = (EvalChecks)(CHECKS_NONE + i);
  c->session.checks_set = true;
  return i >= 0;
}

static bool set_color(Cli *c, const char *text) {
  static const char *const words[] = {"auto", "always", "never", NULL};
  c->color = word(text, words);
  return c->color >= 0;
}

/* Whether the device exists is found out when a kernel is first called. */
static bool set_device(Cli *c, const char *text) {
  c->session.device = text;
  return strcmp(text, "cpu") == 0 || strcmp(text, "cuda") == 0 || strncmp(text, "cuda:", 5) == 0;
}

static bool set_number(const char *text, long long least, long long most, long long *out) {
  return number(text, out) && *out >= least && *out <= most;
}

/* An instruction set that this machine lacks is refused here, not met as a fault later. */
static bool set_cpu(Cli *c, const char *text) {
  c->session.isa_set = true;
  return op_isa_parse(text, &c->session.isa) && op_isa_runs(c->session.isa);
}

static bool set_arch(Cli *c, const char *text) {
  c->session.arch = text;
  return target_find(text) != NULL;
}

/* Sets one option; false where its argument is not right. */
static bool set_option(Cli *c, int id, const char *text) {
  long long n = 0;
  bool ok = true;
  switch (id) {
  case OPT_EXECUTE:
    return add_execute(c, text);
  case OPT_DEVICE:
    return set_device(c, text);
  case OPT_ARCH:
    return set_arch(c, text);
  case OPT_EMIT:
    return set_emit(c, text);
  case OPT_ARGS:
    c->emit_args = text;
    break;
  case OPT_OUTPUT:
    c->output = text;
    break;
  case OPT_CHECKS:
    return set_checks(c, text);
  case OPT_VERIFYEACH:
    c->session.verify_each = true;
    break;
  case OPT_SHAKE:
    ok = set_number(text, 0, INT64_MAX, &n);
    c->session.shake = (uint64_t)n;
    break;
  case OPT_THREADS:
    ok = set_number(text, 1, 1024, &n);
    c->session.threads = (int)n;
    break;
  case OPT_CPU:
    return set_cpu(c, text);
  case OPT_COLOR:
    return set_color(c, text);
  case OPT_JSON:
    c->session.json = true;
    break;
  case OPT_VS:
    ok = strcmp(text, "cublas") == 0;
    c->session.vs_cublas = true;
    break;
  case OPT_BURSTS:
    ok = set_number(text, 1, 10000, &n);
    c->session.bench_bursts = (int)n;
    break;
  case OPT_FILTER:
    c->filter = text;
    break;
  case OPT_TAP:
    c->tap = true;
    break;
  case OPT_JUNIT:
    c->junit = text;
    break;
  case OPT_FMTCHECK:
    c->fmt_check = true;
    break;
  case OPT_NOINIT:
    c->no_init = true;
    break;
  case OPT_SAFE:
    c->session.safe = true;
    break;
  default:
    c->print_and_leave = id;
    break;
  }
  return ok;
}

/* The option by its name and what it takes, from the table. */
static int bad_value(int id, const char *text) {
  static const struct {
    const char *name, *takes;
  } rows[] = {
#define OPTION(id, name, letter, argument, help) {name, argument},
#include "options.def"
  };
  fprintf(stderr, "tilesh: --%s takes %s, not %s; `tilesh --help` lists what there is\n",
          rows[id].name, rows[id].takes, text);
  return EXIT_USAGE;
}

/* Letters come as themselves, long options as OPT_BASE and up. */
static int option_id(int got) {
  switch (got) {
  case 'e':
    return OPT_EXECUTE;
  case 'o':
    return OPT_OUTPUT;
  case 'V':
    return OPT_VERSION;
  case 'h':
    return OPT_HELP;
  default:
    return got - OPT_BASE;
  }
}

/* Reads options from argv[*at] on, up to the first word that is none. */
static int read_options(Cli *c, int argc, char **argv, int *at) {
  int got;
  optind = *at;
  while ((got = getopt_long(argc, argv, short_options, long_options, NULL)) != -1) {
    if (got == '?')
      return usage("that option is not known or lacks its argument", NULL);
    if (!set_option(c, option_id(got), optarg))
      return bad_value(option_id(got), optarg);
  }
  *at = optind;
  return 0;
}

/* From the tables of options.def, so it cannot be out of date. */
static int help(void) {
  Str s = str_new(arena_new(NULL, "help"));
  str_add(&s, "usage: tilesh [OPTION...] [FILE.tile [ARG...]]\n"
              "       tilesh [OPTION...] COMMAND ...\n\n"
              "Without a file: the prompt on a terminal, else a program from standard input.\n\n");
#define COMMAND(id, name, arguments, help_text)                                                    \
  str_addf(&s, "  %-8s %-18s %s\n", name, arguments, help_text);
#include "options.def"
  str_addc(&s, '\n');
#define OPTION(id, name, letter, argument, help_text)                                              \
  str_addf(&s, "  %c%c%c --%s%s%s\n        %s\n", (letter) ? '-' : ' ', (letter) ? (letter) : ' ', \
           (letter) ? ',' : ' ', name, TAKES(argument) ? " " : "",                                 \
           TAKES(argument) ? (const char *)(argument) : "", help_text);
#include "options.def"
  bool ok = io_write(stdout, str_text(&s), s.n) && fflush(stdout) == 0;
  arena_free(s.arena);
  return ok ? 0 : EXIT_USAGE;
}

/* Reporting ---------------------------------------------------------------------------------- */

/* Colours only where a terminal shows them, and never against NO_COLOR. */
static bool use_color(const Cli *c) {
  const char *term = getenv("TERM"), *no = getenv("NO_COLOR");
  if (c->color != 0)
    return c->color == 1;
  return isatty(STDERR_FILENO) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

void cli_report(const Cli *c, Session *s) {
  const DiagSink *sink = session_diags(s);
  Arena *a = arena_new(NULL, "report");
  Str text = str_new(a);
  fflush(stdout); /* so that both streams keep their order on a terminal */
  diag_format_all(sink, use_color(c), &text);
  io_write(stderr, str_text(&text), text.n);
  arena_free(a);
}

/* Flushes standard output; the exit status, 2 where writing failed. After all output: a write that
 * failed late, to a full disk, is seen here. */
static int finish(int status) {
  if (fflush(stdout) == 0 && !ferror(stdout))
    return status;
  if (status == 0)
    fputs("tilesh: the output cannot be written\n", stderr);
  return status ? status : EXIT_USAGE;
}

/* 80 where output is no terminal, so that files come out the same everywhere. */
static size_t terminal_width(void) {
  struct winsize size;
  if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  return 80;
}

/* Every command makes its sessions here. */
Session *cli_session(const Cli *c, SessionMode mode) {
  SessionOptions o = c->session;
  o.mode = mode;
  o.lua = luat_language();
  o.interrupt = &tile_interrupted;
  o.width = terminal_width();
  Session *s = session_new(&o);
  if (!s)
    fputs("tilesh: memory is short\n", stderr);
  return s;
}

/* Running ------------------------------------------------------------------------------------ */

/* Diagnostics first, then the session goes. */
static int end_session(const Cli *c, Session *s, Status status) {
  int code;
  cli_report(c, s);
  if (!session_exit_wanted(s, &code))
    code = session_exit_status(status);
  if (code == 0 && c->session.emit >= EMIT_IR && !c->emit_args && !session_emitted(s))
    code = usage("--emit shows the kernel of the first call, and nothing was called", NULL);
  session_free(s);
  return code;
}

/* Under --args nothing of a program runs but its definitions. Under --emit alone what it prints
 * before the call that is shown must not come into the text. */
static Session *program_session(const Cli *c) {
  Cli with = *c;
  if (c->emit_args) {
    with.session.emit = EMIT_NOTHING;
  } else if (c->session.emit) {
    with.session.emit_out = c->session.out ? c->session.out : stdout;
    with.session.out = stderr;
  }
  return cli_session(&with, c->emit_args ? MODE_DEFINE : MODE_RUN);
}

typedef struct Kernels { /* those of a program */
  const char *text;      /* of --args */
  const char *first;
  bool called; /* the text begins with the name of one */
} Kernels;

static void see_kernel(void *ctx, const char *name, const char *what) {
  Kernels *k = ctx;
  size_t n = strlen(name);
  if (strcmp(what, "a kernel") != 0)
    return;
  k->first = k->first ? k->first : name;
  k->called |= strncmp(k->text, name, n) == 0 && strchr("([ ", k->text[n]);
}

/* The stage of the call that --args describes; nothing is run but what its arguments need. */
static Status emit_args(const Cli *c, Session *s, Str *out) {
  Kernels k = {.text = c->emit_args};
  session_each_global(s, see_kernel, &k);
  const char *call =
      k.called || !k.first ? k.text : arena_printf(out->arena, "%s(%s)", k.first, k.text);
  Status status = session_emit_call(s, call, strlen(call), c->session.emit, out);
  if (status != ST_OK || session_write(s, str_text(out), out->n))
    return status;
  fputs("tilesh: the output cannot be written\n", stderr);
  return ST_USAGE;
}

/* Where the program's text has been read. */
static int end_program(const Cli *c, Session *s, Status status) {
  Arena *a = arena_new(NULL, "emit");
  Str out = str_new(a);
  if (status == ST_OK && c->emit_args)
    status = emit_args(c, s, &out);
  arena_free(a);
  return end_session(c, s, status);
}

static int run_text(const Cli *c, const char *name, const char *text, size_t n) {
  Session *s = program_session(c);
  if (!s)
    return EXIT_FAILED;
  return end_program(c, s, session_run_text(s, name, text, n));
}

/* The whole program is read before any of it runs. */
static int run_stdin(const Cli *c) {
  const char *why = NULL;
  size_t n = 0;
  Arena *a = arena_new(NULL, "input");
  bool open = fcntl(STDIN_FILENO, F_GETFD) >= 0; /* else /dev/stdin is "no such file" */
  char *text = open ? io_read_file(a, "/dev/stdin", &n, &why) : NULL;
  if (!text)
    fprintf(stderr, "tilesh: standard input cannot be read: %s\n", open ? why : "it is closed");
  int status = text ? run_text(c, "<stdin>", text, n) : EXIT_USAGE;
  arena_free(a);
  return status;
}

/* What stands after the file are the program's own arguments. */
static int run_file(Cli *c, int argc, char **argv, int at) {
  c->session.args = (const char *const *)(argv + at + 1);
  c->session.nargs = (size_t)(argc - at - 1);
  Session *s = program_session(c);
  if (!s)
    return EXIT_FAILED;
  return end_program(c, s, session_run_file(s, argv[at]));
}

/* From here on Ctrl-C never ends the process. */
static int run_prompt(const Cli *c, char **argv) {
  Session *s = cli_session(c, MODE_RUN);
  if (!s)
    return EXIT_FAILED;
  set_signals(true);
  ReplOptions o = {.color = use_color(c),
                   .no_init = c->no_init,
                   .argv = argv,
                   .safe = c->session.safe,
                   .interrupt = &tile_interrupted};
  int status = repl_run(s, &o);
  session_free(s);
  return status;
}

typedef struct CommandRow {
  const char *name;
  int (*run)(Cli *c, int argc, char **argv, int at);
} CommandRow;

static const CommandRow commands[] = {
    {"check", command_check}, {"test", command_test},       {"bench", command_bench},
    {"fmt", command_fmt},     {"explain", command_explain}, {"doctor", command_doctor},
    {"cache", command_cache},
};

/* The command a word names; a file of that name is run by ./NAME. */
static const CommandRow *find_command(const char *name) {
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (strcmp(commands[i].name, name) == 0)
      return &commands[i];
  return NULL;
}

/* Options may stand between a command's words. */
static int run_command(Cli *c, const CommandRow *row, int argc, char **argv, int at) {
  int n = 0;
  char **words = calloc((size_t)argc + 1, sizeof *words);
  if (!words)
    return usage("memory is short", NULL);
  for (int i = at + 1; i < argc;) {
    int bad = read_options(c, argc, argv, &i);
    if (bad) {
      free(words);
      return bad;
    }
    if (i < argc)
      words[n++] = argv[i++];
  }
  int status = row->run(c, n, words, 0);
  free(words);
  return status;
}

/* Opened before anything runs: a path that cannot be written costs no computation. */
static int open_output(Cli *c) {
  if (!c->output)
    return 0;
  c->session.out = fopen(c->output, "we");
  if (c->session.out)
    return 0;
  fprintf(stderr, "tilesh: %s cannot be written: %s\n", c->output, strerror(errno));
  return EXIT_USAGE;
}

/* A full disk may show only when the file is closed. */
static int close_output(const Cli *c, int status) {
  if (!c->session.out)
    return status;
  if (fclose(c->session.out) == 0)
    return status;
  fprintf(stderr, "tilesh: %s cannot be written: %s\n", c->output, strerror(errno));
  return status ? status : EXIT_USAGE;
}

/* Exactly one thing is done a call. */
static int dispatch(Cli *c, int argc, char **argv, int at) {
  if (c->print_and_leave == OPT_HELP)
    return help();
  if (c->print_and_leave == OPT_VERSION)
    return puts("tilesh " PACKAGE_VERSION) < 0 ? EXIT_USAGE : 0;
  if (c->emit_args && c->session.emit < EMIT_IR)
    return usage("--args is for --emit of a kernel's stage", NULL);
  if (c->execute) {
    c->session.args = (const char *const *)(argv + at);
    c->session.nargs = (size_t)(argc - at);
    return run_text(c, "<command line>", c->execute, strlen(c->execute));
  }
  if (at == argc)
    return isatty(STDIN_FILENO) ? run_prompt(c, argv) : run_stdin(c);
  const CommandRow *row = find_command(argv[at]);
  if (row)
    return run_command(c, row, argc, argv, at);
  return strcmp(argv[at], "-") == 0 ? run_stdin(c) : run_file(c, argc, argv, at);
}

int main(int argc, char **argv) {
  Cli c = {.print_and_leave = -1};
  int at = 1;
  hold_descriptors();
  set_signals(false);
  int status = read_options(&c, argc, argv, &at);
  if (!status)
    status = open_output(&c);
  if (!status)
    status = close_output(&c, dispatch(&c, argc, argv, at));
  free(c.execute);
  return finish(status);
}
