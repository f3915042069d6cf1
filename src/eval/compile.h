/* compile.h: what the parts of the bytecode compiler share; private to src/eval.
 *
 * Values live in registers. A value is computed where it is first needed and remembered until the
 * scope in which it was computed ends; what depends on nothing but the launch is computed once a
 * worker (`init`), what a MAP's body needs but does not change once a MAP (`prologue`).
 */
#ifndef TILESH_EVAL_COMPILE_H
#define TILESH_EVAL_COMPILE_H

#include "program.h"

/* Where a value can change: with the launch, with the block's progress, inside the MAP's body. */
typedef enum ValueLevel { LEVEL_LAUNCH, LEVEL_BLOCK, LEVEL_BODY } ValueLevel;

typedef struct Value {
  Reg one, lanes;              /* NO_REG: not there */
  uint32_t one_log, lanes_log; /* place in the log of the scope that owns it */
  uint32_t one_scope, lanes_scope;
  uint32_t pins;   /* uses of its lanes that are under way */
  uint32_t serial; /* of the statement, for values of mutable variables; 0: lasting */
} Value;

typedef struct VarValue {
  Reg reg; /* NO_REG: not bound here */
  bool lanes;
  ValueLevel level;
  IrExpr *def; /* of an immutable LET in a MAP's body, else NULL */
  int axis;    /* index of a MAP's axis, else -1 */
  Reg mask;    /* where it was declared */
} VarValue;

typedef struct LogEntry { /* what ends with a scope */
  uint32_t expr;          /* whose value, or UINT32_MAX: a plain register */
  bool lanes;
  Reg reg; /* to be free again; NO_REG: already */
  Value before;
} LogEntry;

typedef struct Scope {
  LogEntry *v;
  size_t n, cap;
  size_t tile_bytes, map_bytes; /* tile memory in use at its start */
} Scope;

/* A place that BREAK, CONTINUE or RETURN leaves. */
typedef struct Exit {
  struct Exit *outer;
  enum { EXIT_LOOP, EXIT_MAP, EXIT_ROOT } kind;
  bool masked;       /* lanes leave one by one, through masks */
  size_t mask_depth; /* masks that were active outside */
  Reg loop_mask, body_mask;
  Reg plain_mask;            /* the mask in force in its body where lanes do not leave alone */
  VEC(size_t) breaks, nexts; /* jumps to patch */
} Exit;

/* An access in the body of a parallel MAP (compile_race.c). */
typedef struct RaceUse {
  EvalAccess *x;
  const IrBuffer *buf;
  bool writes, atomic;
  IrExpr *index[IR_MAX_RANK];
  int axis[IR_MAX_RANK]; /* the one index of the MAP that it is a multiple of, or -1 */
} RaceUse;

typedef struct Compiler {
  Arena *arena;
  IrKernel *k;
  DiagSink *sink;
  EvalProgram *p;
  bool failed;
  bool thread;
  EvalCodes *code, init, *prologue;
  struct {
    bool lanes;
    uint8_t size; /* class: log2 of the element's bytes */
  } * reg;
  size_t nreg, reg_cap;
  VEC(Reg) free_one, free_lanes[4];
  Value *value;   /* by expression id */
  int8_t *varies; /* by expression id: -1 unknown */
  int8_t *level;
  int8_t *faults;
  uint32_t *uses;
  size_t nvalue;
  VarValue *var; /* by variable id */
  size_t nvar;
  Scope scope[2048];
  uint32_t depth;       /* of the innermost scope */
  uint32_t map_depth;   /* of the MAP's own scope */
  uint32_t loop_depth;  /* values of this scope and deeper may end at their last use */
  uint32_t block_depth; /* of the innermost block's scope (statements have their own) */
  uint32_t serial;
  VEC(Reg) masks; /* in force, outermost first; the last is `mask` */
  Reg mask;
  Exit *exit;
  IrStmt *map; /* the MAP whose body is being compiled */
  EvalMapCode *map_code;
  Span span;
  VEC(Span) spans;
  uint32_t place;
  size_t tile_bytes, map_bytes;
  int nested;
  VEC(RaceUse) uses_of_map;
  bool waiting;         /* inside the condition of a `while` that waits for another block */
  bool stops;           /* compiled for stepping */
  const EvalLive *live; /* stepping: names in scope, innermost first */
  VEC(EvalStop *) stop_list;
  int uniform_ifs; /* conditions around, inside the MAP, that are the same for all lanes */
} Compiler;

/* Instructions (compile.c) */
size_t eval_emit(Compiler *c, EvalInsn in);
void eval_patch(Compiler *c, size_t at); /* its jump goes to the next instruction */
void eval_patch_to(Compiler *c, size_t at, size_t target);
void eval_unsupported(Compiler *c, const char *what);

/* Registers and scopes (compile_value.c) */
Reg eval_reg_new(Compiler *c, bool lanes, size_t size, bool fresh);
Reg eval_reg_mask(Compiler *c);
void eval_reg_hold(Compiler *c, Reg r); /* free at the end of the current scope */
void eval_scope_open(Compiler *c);
void eval_scope_close(Compiler *c);
bool eval_value_varies(Compiler *c, const IrExpr *e);
ValueLevel eval_value_level(Compiler *c, const IrExpr *e);
Reg eval_value_one(Compiler *c, IrExpr *e);
/* Each use of lanes ends with eval_value_done, once the instruction that reads them is there. */
Reg eval_value_lanes(Compiler *c, IrExpr *e);
void eval_value_done(Compiler *c, IrExpr *e);
EvalInt eval_value_int(Compiler *c, IrExpr *e); /* as i64 */
void eval_value_count_uses(Compiler *c, IrBlock *body);
void eval_var_bind(Compiler *c, IrVar *v, Reg r, bool lanes);
VarValue *eval_var_value(Compiler *c, const IrVar *v);
bool eval_in_lanes(const Compiler *c); /* inside a MAP or at thread level */

/* Statements (compile_stmt.c, compile_access.c, compile_tile.c, compile_thread.c) */
void eval_compile_block(Compiler *c, IrBlock *b);
void eval_compile_load(Compiler *c, IrStmt *s);
void eval_compile_store(Compiler *c, IrStmt *s);
void eval_compile_atomic(Compiler *c, IrStmt *s);
void eval_compile_report(Compiler *c, IrStmt *s);
void eval_compile_alloc(Compiler *c, IrStmt *s);
void eval_compile_map(Compiler *c, IrStmt *s);
void eval_compile_tile_op(Compiler *c, IrStmt *s);
void eval_compile_thread_op(Compiler *c, IrStmt *s);
/* Scheduled level (compile_sched.c): what s touches; the agents of ROLES; a TILE_LOOP's registers;
 * other statements of that level, false where s is none. */
void eval_compile_touch(Compiler *c, IrStmt *s);
void eval_compile_fork(Compiler *c, IrStmt *s);
struct SchedTiles *eval_compile_tiles(Compiler *c, const IrTileLoop *l);
bool eval_compile_scheduled(Compiler *c, IrStmt *s);
/* The arrival at a barrier that a copy's end is. */
void eval_compile_signal(Compiler *c, const IrAccess *at);
/* For ir_walk; ctx: a bool, set where the kernel has roles or barriers. */
bool eval_sched_needed(IrStmt *s, void *ctx);
void eval_compile_region(Compiler *c, const IrRegion *r, EvalRegion *out);
void eval_compile_combine(Compiler *c, OpCode op, DType t, OpStrip out[3]);
int eval_compile_array(Compiler *c, const IrBuffer *b);
/* Stepping (compile_stop.c): a stop before what is compiled next; names that come into scope. */
void eval_compile_stop(Compiler *c);
void eval_live_var(Compiler *c, const IrVar *v, Reg r);
void eval_live_tile(Compiler *c, const IrBuffer *b);
/* Whether only another block can end this WHILE (compile_spin.c). */
bool eval_spins(IrStmt *s);
/* Whether the loop looks at global memory at all. */
bool eval_asks(IrStmt *s);
/* CONTINUE of a MAP or loop under a condition that may differ between lanes. */
bool eval_has_lane_exit(Compiler *c, IrBlock *body, IrKind kind);
/* The axis of the MAP that an i64 is a constant multiple of, but for what the MAP does not change;
 * -1: there is no such axis. */
int eval_index_axis(Compiler *c, IrExpr *e);
/* Races between iterations (compile_race.c): an access of the body; the end of the body. */
void eval_compile_race_use(Compiler *c, EvalAccess *x, const IrAccess *at, bool writes,
                           bool atomic);
void eval_compile_races(Compiler *c);
/* NULL where the strip's corners cannot decide the condition. */
EvalDecide *eval_compile_decide(Compiler *c, IrExpr *e);

#endif
