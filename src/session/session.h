/* session.h: a session: host programs run, their values, and what a call of a kernel is.
 *
 * In: program text or files, and options. Out: what the program prints (on options.out), a Status,
 * and diagnostics in the session's sink. A session owns all its values; after an error it is as
 * before the statement that failed, and goes on. What always holds: nothing here exits or writes to
 * standard error; no jump leaves a function of this header; CUDA, threads and Lua are not touched
 * before a program first needs them. Tests: tests/unit/check_session.c, tests/lang.
 */
#ifndef TILESH_SESSION_SESSION_H
#define TILESH_SESSION_SESSION_H

#include <signal.h>

#include "base/base.h"
#include "eval/eval.h"
#include "tensor/tensor.h"

typedef struct Session Session;

/* What running a file is for: which of its statements matter. */
typedef enum SessionMode {
  MODE_RUN,   /* tests are skipped; `check` and `bench` statements run */
  MODE_TEST,  /* bench statements are skipped, tests are collected for session_run_tests */
  MODE_CHECK, /* as MODE_RUN, but every kernel call is checked with all checkers; no bench */
  MODE_BENCH, /* tests and checks are skipped */
  MODE_DEFINE /* only what defines: kernels, functions, imports */
} SessionMode;

typedef enum SessionEmit {
  EMIT_NOTHING,
  EMIT_AST,
  EMIT_IR,
  EMIT_SCHEDULED,
  EMIT_LOWERED,
  EMIT_CUDA,
  EMIT_PTX,
  EMIT_CUBIN
} SessionEmit;

/* What src/lua offers the session (host.h); the session itself knows no Lua. */
typedef struct SessionLua SessionLua;

typedef struct SessionOptions { /* all zero: the defaults */
  const char *device;           /* "cpu", "cuda", "cuda:1"; NULL: cuda:0 if there, else cpu */
  const char *arch;             /* "sm_90a"; NULL: the device's, else sm_90a */
  OpIsa isa;                    /* instruction set of the evaluator */
  bool isa_set;                 /* false: the best one here, whatever isa holds */
  int threads;                  /* of the pool; 0: one a processor */
  EvalChecks checks;            /* CHECKS_NONE is only meant if checks_set */
  bool checks_set;              /* false: CHECKS_DEFAULT */
  uint64_t shake;               /* 0: natural order of blocks */
  bool verify_each;             /* kernel calls run what each pass of lowering makes, and compare */
  SessionMode mode;
  SessionEmit
      emit;  /* EMIT_IR and later: the first kernel call prints that stage and ends the run */
  bool safe; /* no files but those named */
  int bench_bursts; /* of `bench`; 0: until 0.2 s, at least 5 (7 on a GPU) */
  bool vs_cublas;   /* bench also times cuBLASLt where the kernel is a product */
  bool json;        /* bench statements print one JSON object a line */
  FILE *out;        /* results; NULL: stdout */
  FILE *emit_out;   /* the stage that emit asks for; NULL: where results go */
  size_t width;     /* columns of a printed line; 0: 80 */
  const volatile sig_atomic_t *interrupt; /* polled; not 0 stops what runs */
  const char *const *args;                /* what `args` holds in the program */
  size_t nargs;
  const SessionLua *lua; /* NULL: `lua { }` is an error */
} SessionOptions;

/* NULL only when memory is short. options is copied; the strings it names must outlive it. */
Session *session_new(const SessionOptions *options);
void session_free(Session *s); /* NULL is allowed */

/* Runs statements. name is shown in diagnostics. ST_OK or what session_diags then explains. */
Status session_run_text(Session *s, const char *name, const char *text, size_t n);
/* Runs a file in the session's global scope; paths of its imports start at its folder. A name that
 * ends in .lua is a Lua program. */
Status session_run_file(Session *s, const char *path);

typedef enum PromptResult { PROMPT_DONE, PROMPT_PENDING } PromptResult;
/* One entry of the prompt: expressions print their value (but nil, and after a trailing `;`), which
 * `_` then names. PENDING: the text is unfinished, nothing was run. */
PromptResult session_prompt(Session *s, const char *name, const char *text, size_t n,
                            Status *status);

/* One entry of Lua at the prompt (`:lua 1 + 1`): values of an expression are printed. */
PromptResult session_prompt_lua(Session *s, const char *name, const char *text, size_t n,
                                Status *status);

/* Diagnostics of the last run; cleared when the next begins. */
DiagSink *session_diags(Session *s);
/* The exit status of the command for a Status (tilesh(1)). */
int session_exit_status(Status status);
/* Whether the program asked to leave with an exit status of its own (os.exit in Lua). */
bool session_exit_wanted(const Session *s, int *status);
/* Whether a kernel's stage has been printed (SessionOptions.emit). */
bool session_emitted(const Session *s);
/* Writes the text to the program's output (SessionOptions.out); false where that failed. */
bool session_write(Session *s, const char *text, size_t n);

/* Tests ------------------------------------------------------------------------------------ */

typedef enum TestOutcome { TEST_PASSED, TEST_FAILED } TestOutcome;

typedef struct SessionTest { /* valid until the next run */
  const char *name;
  const char *file;
  uint32_t line;
  TestOutcome outcome;
  double seconds;
  const char *text; /* the diagnostics of a failed test, formatted without colour; else "" */
} SessionTest;

/* Runs the tests that running files in MODE_TEST collected, in order, each in a scope of its own,
 * and calls report after each. filter: only tests whose name holds it; NULL: all. Returns
 * ST_OK, ST_FAIL if one failed, ST_INTERRUPTED, or ST_USAGE (output could not be written). */
Status session_run_tests(Session *s, const char *filter,
                         void (*report)(void *ctx, const SessionTest *test), void *ctx);

/* Stepping --------------------------------------------------------------------------------- */

/* What the prompt's commands of these names do to the one call that is being stepped; each takes
 * text and adds to `out` what the prompt shows. */
typedef enum SessionDebug {
  DEBUG_STEP,     /* a call of a kernel: begins; empty: as NEXT */
  DEBUG_NEXT,     /* one statement */
  DEBUG_CONTINUE, /* until a break, a change of what is watched, the end, a fault, Ctrl-C */
  DEBUG_BACK,     /* to the statement before */
  DEBUG_BREAK,    /* "LINE", "LINE if CONDITION", "-LINE" takes it away, empty: lists them */
  DEBUG_BLOCK,    /* "X Y Z": begins anew at this block; empty: where it stands */
  DEBUG_PRINT,    /* an expression in the kernel's scope; empty: all names */
  DEBUG_WATCH     /* a name; empty: none any more */
} SessionDebug;
Status session_debug(Session *s, SessionDebug what, const char *text, size_t n, Str *out);
/* Whether a call is being stepped; name: NULL, or a tile, variable or tensor it must see. */
bool session_steps(Session *s, const char *name);

/* Looking at a session --------------------------------------------------------------------- */

/* Calls fn for each global in order of definition: its name and one line that describes the value
 * ("f16[3, 4] on cpu", "kernel", "int 3"). */
void session_each_global(Session *s, void (*fn)(void *ctx, const char *name, const char *what),
                         void *ctx);
/* Describes the type of an expression, which it evaluates (`:type`). */
Status session_type_of(Session *s, const char *text, size_t n, Str *out);
/* The documentation of a name, `module.name` too: signature and comment; false if there is none. */
bool session_help(Session *s, const char *name, Str *out);
/* Calls fn for the names a completion of `prefix` may take. */
/* One line, and the text of its comment or row (NULL: none): of a kernel, fn, builtin, statement.
 */
bool session_signature(Session *s, const char *name, Str *out, const char **doc);
/* Kind, place, and where it was defined (`:info`); false if there is no such name. */
bool session_info(Session *s, const char *name, Str *out);
void session_complete(Session *s, const char *prefix, void (*fn)(void *ctx, const char *name),
                      void *ctx);
/* The stage's text of a kernel call's kernel (`:ir f(a, b)`, --emit), or of a kernel by its
 * settings and defaults alone (`:ir f`). */
Status session_emit_call(Session *s, const char *text, size_t n, SessionEmit stage, Str *out);
/* How a kernel is compiled for the session's target; needs no device. text: a call, or a kernel
 * alone, whose extents are then assumed. */
typedef enum SessionExplain {
  EXPLAIN_CHOICES, /* what was chosen and why */
  EXPLAIN_SHARED,  /* shared memory by name */
  EXPLAIN_LAYOUT   /* text ends with a tile's name: who holds which element */
} SessionExplain;
Status session_explain(Session *s, SessionExplain what, const char *text, size_t n, Str *out);

/* What a running session can change: threads, checks, shake, arch, bursts, width. value NULL: only
 * whether there is such an option. False with words in why. */
bool session_set(Session *s, const char *name, const char *value, Str *why);
/* Calls fn for each option in order, with its value. */
void session_each_setting(Session *s, void (*fn)(void *ctx, const char *name, const char *value),
                          void *ctx);
/* Writes names, definitions and tensors into a folder of the caller's, where session_restore finds
 * them. What cannot be kept is added to lost, a line each. */
Status session_store(Session *s, const char *folder, Str *lost);
/* Takes them up again; the status is that of session_run_file. */
Status session_restore(Session *s, const char *folder);
/* Where the random numbers are; set: from here on they are there. */
void session_random(Session *s, uint64_t *seed, uint64_t *draw, bool set);
/* Names, imports, random numbers and `_` as at the start; device and settings stay. */
void session_reset(Session *s);
/* Whether a text is a program by itself: what only the prompt takes is not. */
bool session_is_program(Session *s, const char *text, size_t n);
/* Columns of the terminal; 0: 80. */
void session_set_width(Session *s, size_t columns);
/* Where the seconds went since they were last asked for; what is not in it went into the host's
 * own work. */
typedef struct SessionTimes {
  double parse, compile, copy, launch, kernel;
} SessionTimes;
SessionTimes session_times(Session *s);

/* "cpu" or "cuda:0". Choosing opens the device; ST_DEVICE if it is not there. */
const char *session_device(Session *s);
Status session_use_device(Session *s, const char *name);

#endif
