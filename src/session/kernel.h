/* kernel.h: what the files about kernels share: specialisations and launches.
 *
 * A KernelInfo belongs to a definition (or to a kernel read from IR text); a Spec to one set of
 * compile-time values, dtypes and static extents. A Launch is one call with everything bound: it is
 * prepared once and can be run several times (check, bench).
 */
#ifndef TILESH_SESSION_KERNEL_H
#define TILESH_SESSION_KERNEL_H

#include "impl.h"
#include "ir/build.h"
#include "lower/lower.h"

typedef struct DeviceProgram DeviceProgram; /* device.h: a specialisation compiled for the device */

/* A specialisation lowered for a target and for what is known of a call's tensors (variant.c). */
typedef struct Variant {
  const Target *target;
  const struct SessionGpu *device; /* whose module `gpu` is; NULL: none was open */
  LowerFact *fact;                 /* by id of the buffers of the specialisation's IR */
  LowerGrid grid;                  /* of the call */
  int candidate;                   /* how many schedules the gate has refused */
  bool last;                       /* `thread` is by the last there is */
  bool kept;                       /* it runs though the gate refused it */
  IrKernel *thread;                /* NULL until asked for */
  struct CudaText *text;           /* of thread; NULL until asked for */
  LowerNotes notes;                /* what was chosen and why, for :explain */
  EvalProgram *program;            /* of thread; NULL until run */
  DeviceProgram *gpu;              /* NULL until launched on the device */
  struct Variant *next;
} Variant;

typedef struct Spec {
  Arena *arena;             /* of everything here */
  IrKernel *ir;             /* as written: tile level, or the level of the IR text */
  const SemaSpec *sema;     /* what it was made for; NULL: read from IR text */
  const SemaValue *statics; /* compile-time parameters; NULL: read from IR text */
  EvalProgram *program;     /* of ir; NULL until run */
  EvalProgram *stepped;     /* of ir, with a pause before each statement; NULL until stepped */
  Variant *variants;        /* lowered from it */
  uint64_t generation; /* of the session's functions when it was made: inlined ones may change */
  bool held;           /* by the call that is stepped: stays */
  const char *key;     /* what it was made for, as text */
  size_t nkey;
  struct Spec *next; /* of its kernel, the last used first */
} Spec;

typedef struct KernelInfo {
  const AstKernel *ast;    /* or NULL */
  const IrKernel *ir;      /* or NULL */
  SemaKernel *sema;        /* or NULL */
  Spec *specs;             /* the last used first; bounded */
  Arena *tuning;           /* of what `tuned` holds; NULL: none yet */
  Map *tuned;              /* key text to Tuned (tune.c) */
  struct KernelInfo *next; /* of its unit, in whose arena it lies */
} KernelInfo;

typedef struct Launch {
  Session *s;
  Span span;
  const char *name; /* the kernel's, for messages */
  Spec *spec;
  const IrKernel *ir; /* spec->ir */
  int bursts;         /* that `bench` times; 0: as many as usual */
  IrBinding *b;       /* extents, strides, scalars, grid */
  size_t n;           /* parameters of ir */
  Tensor **tensor;    /* by parameter: what the kernel works on; NULL for scalars */
  Tensor *
      *original; /* by parameter: the caller's tensor where `tensor` is a copy of it, else NULL */
  bool *fresh;   /* by parameter: an output that this call allocated */
  const Span *where; /* by parameter: the argument's place */
  uint8_t **written; /* by parameter: which elements a run wrote; NULL: not known (launch_forget) */
  double budget; /* seconds for a run on the evaluator, past which only some blocks run; 0: all */
  int64_t blocks_run;
  EvalCounters *counters; /* of the thread level; NULL: nothing is counted */
  FILE *print;            /* where the kernel prints; NULL: to the program's output */
  uint64_t noise;         /* a seed; 0: none (eval.h) */
  uint64_t max_steps;     /* of a block; 0: no limit */
  bool together;          /* checks that need one block after the other are left out (eval.h) */
  bool *pack;             /* by parameter: lowered kernels read a packed copy; NULL: of none */
  Tensor **packed;        /* by parameter: that copy's room on the device, once it is there; NULL:
                             no copy was wanted, memory or not */
  Tensor **scratch;       /* of a lowered kernel: its parameters beyond the n (launch_rebind) */
  size_t nscratch;
} Launch;

/* Evaluates nothing: args are values. Fails with diagnostics. */
void launch_prepare(Session *s, Value kernel, Args *a, Launch *l);
/* The call's value: its outputs, once it ran. */
Value launch_result(Launch *l);
/* A tensor of that shape without elements, in no memory: what a call that is only foreseen takes
 * and gives. A temporary of the session. */
Tensor *ahead_tensor(Session *s, DType t, int rank, const int64_t *extent, Span span);
/* Replaces outputs by new ones and inout arguments by copies, so that a run changes nothing else.
 */
void launch_isolate(Launch *l);
/* Runs at a level on the evaluator; checks as given. Keeps in l->written what was written, until
 * launch_forget. */
void launch_evaluate(Launch *l, IrLevel level, EvalChecks checks);
/* The same of one kernel lowered from the launch's, compiled; what fails is in the sink. */
Status launch_evaluate_kernel(Launch *l, const IrKernel *k, EvalProgram *p, EvalChecks checks,
                              DiagSink *sink);
/* The launch's own level, nothing watched; what fails is in the sink. */
Status launch_evaluate_quietly(Launch *l, DiagSink *sink);
void launch_forget(Launch *l);
/* Puts the tensors' host memory into l->b, and fresh maps of what is written into l->written. */
void launch_arguments(Launch *l, EvalChecks checks);
/* The variant for the session's target and the launch's tensors. Valid as long as the
 * specialisation. */
Variant *launch_variant(Launch *l);
/* What to ask src/lower for. */
LowerRequest variant_request(Variant *v);
/* Its thread level; NULL where it cannot be lowered, with the reason in `sink`. */
const IrKernel *variant_thread(Launch *l, Variant *v, DiagSink *sink);
const IrKernel *launch_thread(Launch *l, DiagSink *sink); /* of the launch's variant */
/* Moves on to the next schedule, since the gate refused what the last one made. */
void variant_next(Variant *v);
/* What a binding says of a tensor: its shape and strides, without data. */
IrTensorArg tensor_arg(const Tensor *t);
/* What is known of a tensor alone, and of the launch's i-th as lowered kernels read it. */
LowerFact tensor_fact(const Tensor *t);
LowerFact launch_fact(const Launch *l, size_t i);
/* Decides which inputs lowered kernels read through packed copies (pack.c). */
void launch_pack(Launch *l);
/* Makes those copies on the host and puts them into b, a binding of k. */
void launch_pack_here(Launch *l, const IrKernel *k, IrBinding *b);
/* The launch's binding for a kernel lowered from its own; makes the scratch tensors that lowering
 * added as parameters. */
IrBinding *launch_rebind(Launch *l, const IrKernel *k);

/* The i-th parameter's tensor, valid on the host. */
Tensor *launch_host_tensor(const Launch *l, size_t i);
bool launch_writes(const Launch *l, size_t i); /* an output or inout tensor */
/* Runs the launch at every level and on the device, and reports where they differ (MODE_CHECK). */
void launch_check(Launch *l);
/* Lowers the launch for its target by every schedule that can do it and runs what each pass made,
 * on the evaluator, with the call's own arguments; fails the program where a result is not the tile
 * level's, and names the pass. Returns the greatest difference there was; where no schedule can do
 * it, says why in *not_lowered. */
double launch_verify_each(Launch *l, Str *not_lowered);
/* Fails where lowering stopped at a kernel that the verifier refuses: our own fault, not the
 * user's. why: what lower_to said. */
void launch_lowered_right(Launch *l, const DiagSink *why);
/* A fresh launch of the same call, with outputs of its own. */
Launch launch_again(const Launch *l);
/* After a run of some blocks only: what none of them wrote takes the reference's value. `before`:
 * the outputs as they were before the run. */
void launch_fill_unwritten(Launch *l, Tensor *const *reference, Tensor *const *before);
/* Blocks that meet in atomics may depend on each other: then all of them must run. */
bool launch_has_atomics(const Launch *l);
/* Whether the program wrote roles (tile level). */
bool launch_has_roles(const Launch *l);
/* Looks for races between such roles, which only threads show: runs them on the launch's tensors,
 * which are copies (launch_again). Fails as the call would. */
void launch_check_roles(Launch *l);
/* How far each element of the outputs may be from the tile level's and still be right. */
typedef struct LaunchBounds {
  Tensor *const *reference; /* the tile level's, by parameter */
  uint64_t steps; /* what all blocks took there: a loop which noise keeps from ending ends */
  bool much_work; /* few runs */
  int runs;       /* made so far */
  Tensor **bound; /* f64 of the output's shape, by parameter (NULL: no output); NULL at first */
} LaunchBounds;
/* The first element of `mine`, another run's output i, that is beyond its bound, and how many are.
 * Makes the bounds, temporaries, where they are needed: it runs the launch a few times, and again
 * before it says that one is beyond. */
TensorDiff launch_beyond(const Launch *l, LaunchBounds *b, size_t i, const Tensor *mine);
/* Evaluates a written call of a kernel and prepares it; what: "check", "bench". */
void launch_of_call(Session *s, const AstExpr *call, const char *what, Launch *l);
/* The options of every run on the evaluator. */
EvalOptions session_eval_options(Session *s, EvalChecks checks);
/* The specialisation for these arguments, made where it is not there yet. */
Spec *kernel_spec(Session *s, Value kernel, const SemaArg *args, Span call);
/* What is sure of a kernel's asserts. */
typedef struct KernelSuits {
  VEC(const IrStmt *) failing; /* each by itself, whatever stands before it */
  bool asked;                  /* one that was looked at depends on more than constants */
  const bool *known;           /* by variable id: known at the kernel's end, and in the binding */
} KernelSuits;
/* FALSE: an assert of the kernel's is sure to fail, by what the shapes bound in b, constants and
 * the target say. Binds what it learns of the kernel's own scalars in b too. out: or NULL. */
bool kernel_suits(Arena *a, const IrKernel *k, IrBinding *b, KernelSuits *out);
/* What is known where a failing assert stands, by variable id; the values there, in b. */
const bool *kernel_known_at(Arena *a, const IrKernel *k, IrBinding *b, const IrStmt *assert);
/* Sets the sizes that are `auto` and not set: to such as the kernel's asserts allow at the
 * arguments' extents; those of a product's tiles by its cost, where the target has a schedule that
 * the model knows. Fails (E0460) where an assert that depends on them holds for none that there
 * are. */
void kernel_tune(Session *s, KernelInfo *info, SemaSpec *spec, const SemaArg *args, Span call);
/* A compile-time parameter, by its index, and a value for it. */
typedef struct SpecStatic {
  size_t at;
  int64_t value;
} SpecStatic;
/* Gives the i-th parameter an integer. */
void spec_set(SemaSpec *spec, size_t i, int64_t value);
/* The tile-level IR of a specialisation like `from` but for n parameters, in the arena; NULL where
 * it cannot be built so, of which nobody is told. */
const IrKernel *spec_ir_with(Session *s, Arena *a, const SemaKernel *k, const SemaSpec *from,
                             const SpecStatic *set, size_t n);
/* What k[BM = 64] set; the rest is unset. */
SemaSpec *kernel_settings(Session *s, Value kernel, Span span);
SemaKernel *kernel_sema(Session *s, Value kernel); /* NULL: read from IR text */

/* Fails (E0461) where the kernel's shared tiles are more than the session's target has (limits.c).
 * k: its definition, or NULL. */
void launch_fits(const Launch *l, const SemaKernel *k);
/* Fails (E0386) where k, the launch's kernel at some level, is cooperative and has more blocks in b
 * than the device holds together. at_a_time: blocks that a multiprocessor holds. */
void launch_resident(const Launch *l, const IrKernel *k, const IrBinding *b, int64_t at_a_time);
/* The same by what the program itself says: threads and shared tiles. */
void launch_resident_at_most(const Launch *l);
/* "f16[128, 64]" of a tile; rows: of the first axis instead of its own, 0: its own. (limits.c) */
void buffer_add_type(const IrBuffer *b, int64_t rows, Str *out);

/* A function by its name in a module's scope, as kernels see it (kernel.c); ast NULL: none. */
SemaFn kernel_fn(Module *from, const char *module, const char *name);
/* The i-th function of a module's scope, or NULL past the last. */
const char *kernel_visible_name(const Module *m, size_t i);

/* Blocks that a multiprocessor of the target holds at a time. registers: of a thread, 0: not looked
 * at; bytes: of shared memory, with what the system reserves or without. (stats.c) */
int64_t blocks_at_a_time(const Target *t, unsigned registers, int threads, size_t bytes,
                         bool with_reserved);
/* What kernels are compiled for, and how many multiprocessors it has. */
const Target *session_target(Session *s);
int64_t session_sms(Session *s);
/* The arena of the launch's specialisation, leaving to the boundary that is open now: it may have
 * been made under one that is gone. */
Arena *spec_arena(const Launch *l);
/* How many blocks the grid of a bound launch has; INT64_MAX: more than can be counted. */
int64_t launch_blocks(const Launch *l);
/* Floating-point operations of a launch by its tile-level IR; 0 where they cannot be counted.
 * fetch: tables of integers that bounds depend on may be fetched from a device, which is waited
 * for; else only those on the host are known. */
double launch_flops(const Launch *l, bool fetch);
double launch_bytes(const Launch *l); /* of all tensors, each once */

/* Prints the stage (emit.c). */
void launch_emit(Launch *l, SessionEmit stage, Str *out);

#endif
