/* host.h: what another language stands on (src/lua): the session's values, calls, modules.
 *
 * In: a session, and C functions to run in it. Out: values, or the text of what went wrong. The
 * functions from host_fail on fail by leaving to the boundary of the host_enter below them: they
 * may be called only under one, and no frame of another language may lie between. What always
 * holds: an entry leaves the diagnostics, texts and temporaries of the run around it as they were.
 * Tests: tests/unit/check_lua.c, tests/lua.
 */
#ifndef TILESH_SESSION_HOST_H
#define TILESH_SESSION_HOST_H

#include "session.h"
#include "value.h"

/* Entries ---------------------------------------------------------------------------------- */

typedef struct HostRun { /* one entry */
  void (*fn)(Session *s, void *ctx);
  void *ctx;
  Span (*place)(void *where); /* where the other language is, asked only after an error without a
                                 place of its own */
  void *where;
  Status status;    /* out */
  const char *text; /* out, where status is not ST_OK: the diagnostics, ending in a newline, or "";
                       good until the next entry */
} HostRun;

/* Runs r->fn under a boundary of its own, inside whatever runs already. Values that are to outlive
 * the entry must be retained by fn. Costs no memory where nothing fails. */
Status host_enter(Session *s, HostRun *r);
/* Whether Ctrl-C was pressed since the run began. */
bool session_interrupted(const Session *s);
/* What the session was made with; --safe is there. */
const SessionOptions *host_options(const Session *s);
/* The program is to end with this exit status. */
void host_leave_with(Session *s, int status);
typedef struct HostError { /* of the other language, or passed on by it */
  bool ready;              /* text is that of an entry that failed: shown as it stands */
  bool interrupt;          /* Ctrl-C: E0422 */
  const char *text;
  Span span;         /* of an error that is not ready */
  const char *trace; /* the other language's stack, or NULL */
  Span call;         /* where the session called the other language; file NULL: it did not */
  const char *what;  /* "in this block of Lua" */
} HostError;
/* Adds it to the run's diagnostics. */
void host_add_error(Session *s, const HostError *e);

/* Failure (session.c) ---------------------------------------------------------------------- */

/* Adds an error at the place (and a hint, or NULL) and leaves to the boundary. */
_Noreturn void host_fail(Session *s, DiagCode code, Span span, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
_Noreturn void host_fail_hint(Session *s, DiagCode code, Span span, const char *hint,
                              const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* Leaves with the diagnostics that are already in the sink. */
_Noreturn void host_fail_with(Session *s, Status why);
/* Zeroed memory of malloc's; raises ST_NOMEM. */
void *session_alloc(Session *s, size_t n);
/* Writes to the program's output; raises where that failed. */
void session_print(Session *s, const Str *text);
/* What --emit asks for (SessionOptions.emit_out): nothing more is emitted. */
void session_print_stage(Session *s, const Str *text);
Str session_str(Session *s); /* text that lives as long as the statement or entry that runs */

/* Calls ------------------------------------------------------------------------------------ */

/* The arguments of one call, evaluated: positional first. */
typedef struct Args {
  Session *s;
  Span span;        /* of the whole call */
  const char *name; /* of what is called, for messages */
  Value *v;
  const char **names; /* by argument, interned; NULL where it is given by position */
  Span *spans;
  size_t n, npos;
  const AstExpr *call; /* NULL: a call from another language */
} Args;

enum { HOST_MAX_ARGS = 32 }; /* of a call from another language */

/* Calls anything that can be called; a->name is set to what it is. */
Value host_call(Session *s, Value fn, Args *a);
/* A name as values of the session hold it: equal names are one pointer. */
const char *host_intern(Session *s, const char *name, size_t n);

/* A function of the language that is always there; NULL past the last, or for another name. */
const Builtin *builtin_find(const char *name);
const Builtin *builtin_at(size_t i); /* in the order of builtins.def */
const char *builtin_name(const Builtin *b);

/* x op y, op x, x @ y of host values, by the language's rules. */
Value arith_binary(Session *s, AstOp op, Value x, Value y, Span span, const Span *where);
Value arith_unary(Session *s, AstOp op, Value x, Span span, Span where);
Value arith_compare(Session *s, AstOp op, Value x, Value y, Span span, const Span *where);
Value arith_product(Session *s, Value x, Value y, Span span, const Span *where);
/* A tensor's elements, or a number, in another type. */
Value arith_cast(Session *s, Value v, DType t, Span span);
/* A number as a call's argument of that type; fails where it does not fit. */
Scalar arith_fit(Session *s, Value v, DType t, Span span);

/* Tensors ---------------------------------------------------------------------------------- */

/* A tensor whose host copy is valid, or failure that says what it was for. */
Tensor *host_tensor(Session *s, Value v, Span span, const char *what);
/* Wraps a new tensor, or fails with why. */
Value host_new_tensor(Session *s, Tensor *t, const Str *why, Span span);
/* x[…]: an element as a number, else a view. And a store into it, converting. */
Value host_index(Session *s, Value x, const TensorIndex *ix, size_t n, Span span);
void host_index_store(Session *s, Value x, const TensorIndex *ix, size_t n, Value v, Span span);
/* x.T, x.shape …; false where tensors have no such attribute. */
bool host_attribute(Session *s, Tensor *t, const char *name, Span span, Value *out);

/* Kernels ---------------------------------------------------------------------------------- */

/* k[BM = 64]: a kernel value with n more settings. */
Value kernel_with(Session *s, Value kernel, const Field *settings, size_t n, Span span);
/* A compile-time parameter that takes a dtype: "f16" is one there, elsewhere a string. */
bool kernel_takes_dtype(Session *s, Value kernel, const char *name);
/* The figures of `check` and `bench` of a call, as records. */
Value kernel_check_call(Session *s, Value kernel, Args *a);
Value kernel_bench_call(Session *s, Value kernel, Args *a, int bursts); /* 0: as many as usual */
/* What the compiled kernel takes and does, as a record: registers, shared, blocks (of a
 * multiprocessor at a time), threads, flops, bytes. Needs the compiler, but no GPU. */
Value kernel_stats_call(Session *s, Value kernel, Args *a);
/* The text of a stage of the kernel that the call would run. */
void kernel_emit_call(Session *s, Value kernel, Args *a, SessionEmit stage, Str *out);

/* Programs --------------------------------------------------------------------------------- */

/* Runs a file (as it stands, else from the running file's folder) or a text in a new scope, which
 * is the value: a module. Its tests, checks and benches do not run. */
Value host_load(Session *s, const char *path, Span span);
Value host_run_text(Session *s, const char *name, const char *text, size_t n);
/* What `import NAME` or `import "PATH" as …` binds: each file runs once. */
Value host_import_module(Session *s, const char *path, Span span);
/* The i-th name of a module in order of definition, NULL past the last; and its value. */
const char *host_module_name(const Module *m, size_t i);
Value host_module_value(const Module *m, size_t i);
/* The value of a name where the program is; NULL where nothing has it. Builtins are not looked at.
 */
Value *host_lookup(Session *s, const char *name);
/* Binds a name at the top level of the running file. */
void host_set_global(Session *s, const char *name, Value v);
/* Waits for all queued calls; a fault of one fails at the call's place. */
void device_finish(Session *s);

/* Values of another language --------------------------------------------------------------- */

/* What the session asks of a value that is not its own (VAL_FOREIGN). handle: the owner's. call and
 * attribute may fail as everything here. */
struct ForeignOps {
  const char *what; /* "a Lua function" */
  Value (*call)(Session *s, void *handle, Args *a);
  /* x.name; VAL_NIL where there is none */
  Value (*attribute)(Session *s, void *handle, const char *name, Span span);
  void (*release)(void *handle);
};

/* Takes over the handle; where memory is short it is still the caller's. */
Value val_foreign(Session *s, const ForeignOps *ops, void *handle);

/* The other language, as it is put into SessionOptions.lua. State is made when a program first
 * needs it; all functions but open and close get it. */
struct SessionLua {
  void *(*open)(Session *s); /* NULL: memory is short */
  void (*close)(void *lua);  /* before the session's values go */
  /* Runs text in place; span: its place in a file of the program. Under the run's boundary. */
  void (*block)(void *lua, const char *text, size_t n, Span span);
  /* A file of the command line; nothing is below it. */
  Status (*file)(void *lua, const char *path, const char *text, size_t n);
  /* An entry of the prompt; true: its text is unfinished, nothing was run. */
  bool (*prompt)(void *lua, const char *name, const char *text, size_t n, Status *status);
  /* What `import "x.lua" as x` binds; path: its real path. */
  Value (*import)(void *lua, const char *path, const char *text, size_t n, Span span);
  void (*collect)(void *lua); /* gives back memory: a tensor could not be made */
};

/* Its state, opened where it is not yet; fails where the program runs without Lua. */
void *session_lua(Session *s, Span span);

#endif
