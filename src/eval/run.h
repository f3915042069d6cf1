/* run.h: a launch under way; private to src/eval. */
#ifndef TILESH_EVAL_RUN_H
#define TILESH_EVAL_RUN_H

#include <pthread.h>

#include "program.h"

struct EvalLaunch {
  EvalProgram *program;
  const IrBinding *binding;
  const EvalOptions *options;
  int64_t blocks;
  uint64_t first, stride; /* order of the blocks, when shaken */
  atomic_llong faulty;    /* lowest block with a fault; blocks where none has */
  atomic_int failed;      /* a Status: interrupted, out of memory */
  pthread_mutex_t mutex;  /* over what follows */
  EvalFault fault;
  int64_t fault_index[3];
  EvalCounters counters;
  struct EvalWorker **worker; /* by worker number; made on first use */
  int64_t *chosen;            /* blocks to run where not all do */
  atomic_llong ran;
  int64_t segment;         /* first block of the piece of the grid that runs */
  bool first_done;         /* block 0 ran by itself, to be timed */
  bool serial;             /* one block after the other */
  Arena *text;             /* of the prints (print.c) */
  Str *print;              /* by block, or NULL: each block writes at once */
  bool *ended;             /* by block */
  int64_t turn;            /* the lowest block that has not ended */
  EvalRaces *races;        /* NULL: not looked for */
  EvalWatch *watch;        /* NULL: values are not watched */
  struct EvalDebug *debug; /* NULL unless it is stepped (debug.c) */
};

typedef struct EvalWorker {
  EvalBlock block;
  Arena *arena;
  void *memory; /* tiles, maps, frames, tables */
} EvalWorker;

/* NULL when memory is short. */
EvalWorker *eval_worker_new(EvalLaunch *l);
void eval_worker_free(EvalWorker *w); /* NULL is allowed */
/* Ready to run the block's code from its start. */
void eval_agent_start(EvalAgent *a);

/* print.c. False where there are too many blocks to keep their texts: they must run in order. */
bool eval_print_open(EvalLaunch *l);
void eval_print_more(EvalBlock *b); /* after each line */
void eval_print_end(EvalBlock *b);
void eval_print_close(EvalLaunch *l);

/* What stepping shares with a run (run.c). Blocks start at their first instruction. */
void eval_block_start(EvalBlock *b, int64_t linear);
bool eval_block_done(const EvalBlock *b); /* all its agents have ended */
void eval_launch_report(EvalLaunch *l, DiagSink *sink);
/* Runs a block until it ends (false) or waits for another one. *moved: it did something. */
bool eval_block_turn(EvalBlock *b, bool *moved);
/* Made by the worker itself; NULL when memory is short, which the launch then knows. */
EvalWorker *eval_launch_worker(EvalLaunch *l, size_t number);

/* Looked at on every jump backwards: an interrupt, an earlier block's fault, the step limit. */
EvalResult eval_run_poll(EvalAgent *a);
/* n lanes of `size` bytes set to the element at src. */
void eval_fill_lanes(size_t size, void *dst, const void *src, int64_t n);

#endif
