/* impl.h: what the files of src/session share: the session's state, errors, the interpreter.
 *
 * Failure inside a session: host_fail(…) adds one diagnostic and leaves to the boundary that
 * session_protect opened; variables and temporaries above the boundary's marks are released there.
 */
#ifndef TILESH_SESSION_IMPL_H
#define TILESH_SESSION_IMPL_H

#include "ops/ops.h"
#include "sema/sema.h"
#include "host.h"

enum { MAX_DEPTH = 1024 };  /* of calls; base's guard stops a little earlier */
enum { MAX_ENTRIES = 256 }; /* of host_enter inside each other; Lua stops at 200 */

typedef struct Var { /* a local variable; the stack of them is the session's */
  const char *name;  /* interned */
  Value value;       /* or the cell that has it (closure.c) */
  bool defined;      /* a function, by its definition here */
} Var;

/* Where a global that was looked up lately has its value; names are interned. */
typedef struct Near {
  const char *name;
  Value *place;
} Near;
enum { NEAR_NAMES = 32 };

struct Module { /* a file's global scope */
  const char *name;
  const char *key;       /* the file's real path, NULL for the prompt and for text */
  const char *directory; /* where the paths of its imports start */
  Map *globals;          /* name to Value * in the session's arena */
  Near near[NEAR_NAMES]; /* of globals; a loop looks up the same few over and over */
  bool loading;          /* to find circles */
  SemaScope scope;       /* what kernels defined here see (kernel.c) */
  Module *next;
};

typedef struct CallFrame { /* a call of a function, on the C stack while it runs */
  const char *name;
  Span span;
  const struct CallFrame *up;
} CallFrame;

/* A parsed text and what was made of its kernels. Stays while a kernel or function value of it
 * lives, and while it runs (unit.c). */
struct Unit {
  Arena *arena;
  const SrcFile *file;
  size_t values;              /* that are defined in it */
  bool keep;                  /* as long as the session */
  bool inlines;               /* kernels may have inlined a function of it */
  struct KernelInfo *kernels; /* that were called (kernel.c) */
  Unit *next;
};

typedef struct Rest { /* the statements from one of a block on; block NULL: none */
  const AstBlock *block;
  size_t at;
} Rest;

typedef struct PendingTest {
  const AstStmt *stmt; /* a TEST */
  Module *module;
} PendingTest;

typedef struct SessionGpu SessionGpu; /* device.c */
typedef struct Debug Debug;           /* debug.c */

struct Session {
  SessionOptions options; /* copied; `device` may be changed by use_device */
  Arena *arena;           /* as long as the session */
  Arena *line;            /* scratch of a run: messages, diagnostics */
  /* Scratch of a statement, one arena a depth of calls, each reset when a statement at its depth
   * ends: nothing that a block, loop or function keeps across statements may lie there. */
  Arena *scratches[MAX_DEPTH];
  size_t nscratch, depth;
  Names *names;
  DiagSink diags;        /* of the run, in `line` */
  Guard *guard;          /* the innermost boundary */
  Pool *pool;            /* made on first use */
  Unit *units, *current; /* all; the one whose statements run */
  Module *main, *module; /* the scope that top-level statements run in; the one running now */
  Module *modules;
  VEC(Var) vars; /* locals of all frames */
  size_t frame;  /* first local of the running function … */
  size_t block;  /* … and of the running block */
  VEC(Value) temps;
  Object *objects; /* all counted objects */
  size_t cells,
      cells_limit; /* made since cycles were looked for; how many before that is done again */
  Object *dead;    /* those whose last reference just went (value.c) */
  bool burying;
  TensorRandom random;    /* seed and draws so far */
  VEC(PendingTest) tests; /* in the order of their files and lines */
  Value last;             /* `_` */
  TensorDiff close;       /* of the last allclose that was false: for assert's message */
  bool close_set;
  bool prompt, quiet; /* expressions print their value; but not this one (`;`) */
  int importing;      /* files being imported: their bench and check statements do not run */
  bool write_failed;
  bool emitted;     /* --emit has printed its stage: the rest of the program is skipped */
  Span doing;       /* the statement that runs, or none: an interrupt names it */
  uint32_t ticks;   /* statements since the interrupt flag was last looked at */
  char *stack_base; /* address near the boundary, to bound the C stack */
  size_t stack_room;
  uint64_t generation; /* counts definitions of functions: kernels may have inlined older ones */
  uint64_t dropped;    /* counts specialisations that were freed: plans may hold older ones */
  SessionGpu *gpu;     /* NULL until a device is first wanted */
  void *lua;           /* of options.lua->open; NULL until a program needs it */
  Arena *entries[MAX_ENTRIES]; /* the line arenas of entries (host.c); made when first needed */
  size_t nentries, entry;      /* how many there are, and how many are open */
  const CallFrame *calls;      /* of functions that run now, innermost first */
  Rest rest;                   /* the statement that runs, and what follows in its block */
  bool ahead;                  /* calls are prepared that may never be made (ahead.c) */
  bool leaving;                /* os.exit was called … */
  int exit_status;             /* … with this */
  Debug *debug;                /* the call that is stepped, or NULL */
  SessionTimes times;          /* since they were last asked for */
};

/* Errors (session.c) ----------------------------------------------------------------------- */

/* Leaves after the sink got an error that has no place in the program: this is its place. */
_Noreturn void session_fail_at(Session *s, Span span);
/* Leaves after a run of a kernel failed; names the call beside the place in the kernel. */
_Noreturn void session_fail_call(Session *s, Status why, Span span, const char *name);
/* Ctrl-C, with what it stopped: "interrupted while k ran". */
_Noreturn void session_interrupt(Session *s, Span span, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds E0422 at the statement that ran, where the sink does not tell of Ctrl-C yet. */
void session_say_interrupted(Session *s);
/* A file named in the program: as it stands, else from the folder of the running module's file. */
const char *session_path(Session *s, const char *path);
/* Fails where --safe keeps the file closed: it is not among the program's arguments. */
void session_allow(Session *s, const char *path, Span span);
_Noreturn void host_too_deep(Session *s, Span span);
/* Runs fn under a boundary of its own: variables and temporaries made below are gone after it. */
Status session_protect(Session *s, void (*fn)(Session *s, void *ctx), void *ctx);
void session_poll(Session *s); /* raises ST_INTERRUPTED where the flag is set */
void session_stop(Session *s); /* the same at once; between pieces of long work (pieces.c) */
/* Like tensor_fill, tensor_copy and tensor_cast, but stopped by Ctrl-C. */
void host_fill(Session *s, Tensor *t, Scalar x);
bool host_copy(Session *s, Tensor *dst, const Tensor *src, Str *why);
Value host_cast(Session *s, const Tensor *t, DType to, Span span);
/* A copy with the strides of t, which begins as many bytes beyond a multiple of 16 as t does. */
Value host_copy_as_it_lies(Session *s, const Tensor *t, Span span);
bool session_has_stack(const Session *s);  /* false where the C stack runs short … */
void session_stack(Session *s, Span span); /* … which fails as a call without an end */
Pool *session_pool(Session *s);
/* tensor_new; where memory is short it tries again after Lua has given back what it no longer uses.
 */
Tensor *session_tensor(Session *s, DType t, int rank, const int64_t *extent, TensorFill fill,
                       Str *why);
/* Lua collects its garbage: tensors may go. False where there is no Lua. */
bool session_collect(Session *s);
Arena *session_scratch(Session *s); /* of the statement that runs */
void session_begin(Session *s);     /* a new outermost run: old diagnostics and texts go */
/* A file of Lua on the command line (host.c). */
Status session_lua_file(Session *s, const char *path, const char *text, size_t n);
/* Units (unit.c): those newer than `until` go, if nothing needs them. */
void session_free_units(Session *s, const Unit *until);
void units_free(Session *s); /* all, at the end */
/* A new, empty one, which is the current one. */
Unit *unit_new(Session *s);
/* A value that the statement at the place defines belongs to that text: the text stays until as
 * many values have left it. Raises nothing. NULL is allowed. */
Unit *unit_enter(Session *s, const SrcFile *file);
void unit_leave(Unit *u);
/* Parses into a unit of its own. NULL with diagnostics. */
AstFile *session_parse(Session *s, const char *name, const char *text, size_t n, bool prompt,
                       ParseStatus *status);
/* A text that is one expression, as at the prompt; raises with a diagnostic where it is none, which
 * says what is wanted: "an expression". The name is shown as a file's; file: NULL, or gets the
 * tree. */
const AstExpr *session_expression(Session *s, const char *name, const char *text, size_t n,
                                  const char *wanted, const AstFile **file);
/* Runs a file's statements in the module's scope (raises on failure). */
void session_run_block(Session *s, const AstFile *f, Module *m);
/* Whether a declaration of them has the name, which is interned (declare.c). */
bool decls_have(const AstDecls *d, const char *name);
/* Checks all kernels of a text before it runs; raises ST_COMPILE with their errors (declare.c). */
void kernels_declare(Session *s, const AstFile *f, Module *m);
void session_keep(Session *s); /* the running unit stays as long as the session */
/* A new, empty scope. path: of its file, or NULL; key: its real path. */
Module *session_module(Session *s, const char *name, const char *path, const char *key);

/* Interpreter (interp.c, expr.c) ----------------------------------------------------------- */

typedef enum Flow { FLOW_NEXT, FLOW_BREAK, FLOW_CONTINUE, FLOW_RETURN } Flow;

/* Runs statements in order; *result is set (and kept) where the flow is RETURN. */
Flow host_block(Session *s, const AstBlock *b, Value *result);
Flow host_stmt(Session *s, const AstStmt *st, bool top, Value *result);
Value host_eval(Session *s, const AstExpr *e);
/* The value of a condition; anything but a bool fails with a hint. */
bool host_condition(Session *s, const AstExpr *e);
void host_bind(Session *s, const char *name, Value v); /* a new local */
/* Frees the objects that only each other hold. Whatever is in use is to be held by a reference. */
void cycles_collect(Session *s);
/* The same of all that are left, at the session's end. */
void cycles_break(Session *s);
/* The function just bound, which is the last local, takes hold of the locals that it names; a
 * function defined in its block that names it takes hold of it. */
void closure_define(Session *s, Object *fn);
/* Binds what a function defined in a block sees there: its captured locals, and itself. */
void closure_enter(Session *s, Value fn);
/* The value of a local, wherever it lies. */
static inline Value var_value(const Var *v) {
  return v->value.kind == VAL_CELL ? v->value.as.obj->as.cell : v->value;
}
/* A global at top level, else a local of the block. */
void host_define_here(Session *s, const char *name, Value v, bool top);
void host_define(Session *s, Module *m, const char *name, Value v); /* a global */
/* The place of a global, or NULL; it stays good as long as the session. */
Value *host_global(Module *m, const char *name);
/* Cut the stacks of locals and of temporaries back to a mark. */
void host_drop_vars(Session *s, size_t mark);
void host_drop_temps(Session *s, size_t mark);
/* Exactly n parts of a tuple, list or tensor into out; else fails. */
void host_unpack(Session *s, Value v, size_t n, Span span, Value *out);
/* Statements with files of their own: import.c, assert.c. */
void host_import(Session *s, const AstStmt *st, bool top);
void host_assert(Session *s, const AstStmt *st);
/* Elements of a list, a tuple, a tensor's first axis, or the names of a record. */
bool host_has_length(Value v);
size_t host_length(Value v);
Value host_element(Session *s, Value v, size_t i, Span span);
/* `a == b` and the like; chains give a bool, tensors element by element. */
Value host_compare_chain(Session *s, const AstExpr *e, Value *operands);

Value host_call_fn(Session *s, Value fn, Args *a); /* a `fn` of the program */
/* Evaluates the arguments of a CALL from left to right. */
void host_eval_args(Session *s, const AstExpr *call, Args *a);

/* Arithmetic (arith.c) -------------------------------------------------------------------- */

/* Applies an elementwise operation with broadcasting and the language's typing; where holds every
 * operand's place. name: as messages call it ("+", "exp"). */
typedef struct Operation {
  OpCode op;
  const char *name;
  Span span;
  const Span *where; /* of the operands, or NULL */
} Operation;

Value arith_apply(Session *s, const Operation *o, Value *v, int n);
/* What sema's typing knows of a value. */
SemaNum arith_number(Value v);
/* `bitcast(u32, x)`: the bits of a tensor's elements or of a number as another type as wide. */
Value arith_bitcast(Session *s, Value v, DType t, Span span, Span where);
/* Gives a value a written scalar type; tensors are converted element by element. */
Value arith_convert(Session *s, Value v, DType t, Span span);

/* Indexing (index.c) ----------------------------------------------------------------------- */

/* The value that x[…] names: a number, a view, an element. */
Value index_get(Session *s, const AstExpr *e, Value base);
/* Stores into x[…], converting to the element type. */
void index_set(Session *s, const AstExpr *e, Value base, Value value, Span value_span);
/* What x[…] names: evaluated once for `x[…] += y`. */
typedef struct Place {
  Value base;
  Tensor *view; /* of a tensor: the selected part (rank 0: one element) */
  int64_t at;   /* of a list */
} Place;
Place index_place(Session *s, const AstExpr *e, Value base);
/* What the place holds, and a store into it. */
Value index_load(Session *s, const Place *p);
void index_store(Session *s, const Place *p, Value v, Span span);

/* Builtins (builtins.c and the files that builtins.def names) ------------------------------ */

typedef Value (*BuiltinFn)(Args *a);
#define BUILTIN(name, fn, signature, doc) Value builtin_##fn(Args *a);
#include "builtins.def"
#undef BUILTIN
struct Builtin {
  const char *name;
  BuiltinFn fn;
  OpCode op; /* fn NULL: an elementwise operation */
  const char *signature, *doc;
};
/* Calls a row of the table; arguments are checked by the row's function. */
Value builtin_call(const Builtin *b, Args *a);

/* Argument access, each failing with the call's name and the argument's. i: position, or -1. */
void args_count(const Args *a, size_t least, size_t most); /* positional */
void args_names(const Args *a, const char *const *allowed, size_t n);
/* The value of a named argument, or NULL. */
const Value *args_named(const Args *a, const char *name);
/* The place of the i-th argument, or of the call. */
Span args_span(const Args *a, size_t i);
Tensor *args_tensor(const Args *a, size_t i); /* valid on the host */
/* The i-th argument, which must be of that kind. */
int64_t args_int(const Args *a, size_t i);
DType args_dtype(const Args *a, size_t i);
/* Named arguments with a default; args_int_named says whether it was given. */
double args_number_named(const Args *a, const char *name, double otherwise);
bool args_bool_named(const Args *a, const char *name, bool otherwise);
bool args_int_named(const Args *a, const char *name, int64_t *out);
/* Extents from argument i on: ints, or one tuple or list of ints. Returns the rank. */
int args_extents(const Args *a, size_t i, int64_t *extent);
/* An int in a value, or failure that names what it is for. */
int64_t host_int(Session *s, Value v, Span span, const char *what);

Scalar arith_store(Session *s, Value v, DType t, Span span); /* as a store converts */

/* Devices (device.c, device_fault.c)
 * ----------------------------------------------------------------------- */

/* A text with kernels was read: if they may run on a device, its driver starts in the background.
 */
void device_expect(Session *s);
/* A device was asked for by name that was there the last time: its driver starts in the background.
 * False: it is not known. */
bool device_expect_again(Session *s);
/* Chooses where kernels run, or fails with exit status 4. */
void device_use(Session *s, const char *name, Span span);
/* Waits for queued calls, whose faults are told no more. */
void device_forget(Session *s);
/* Gives back what the device holds; after the session's values are gone. */
void device_free(Session *s);
/* Makes the host copy valid and reports faults of calls that are still queued. */
bool device_settle(Session *s, Tensor *t, Str *why);
/* After it failed: what the device's copy ended with; ST_FAIL where host memory was short. */
Status device_fetch_status(const Tensor *t);
/* Whether kernels run on a GPU. Opens it on first use; fails where it was asked for by name and is
 * not there. */
bool device_is_gpu(Session *s);

/* Kernels (kernel.c, call.c, check.c, bench.c) --------------------------------------------- */

/* What was made of a text's kernels: before its unit goes. */
void kernels_free(Session *s, Unit *u);
void debug_free(Session *s);     /* stepping is over */
void session_forget(Session *s); /* the values of all globals go (session.c) */

/* A call: binds, runs, gives the outputs (several: a tuple). */
Value kernel_call(Session *s, Value kernel, Args *a);
/* k[BM = 64]: a kernel value with more settings. */
Value kernel_specialize(Session *s, Value kernel, const AstExpr *e);
/* The statements `check f(…)` and `bench f(…)`, and their values. */
Value kernel_check(Session *s, const AstExpr *call, bool as_value);
Value kernel_bench(Session *s, const AstExpr *call, bool as_value);

#endif
