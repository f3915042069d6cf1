/* race.h: races between the iterations of a `parallel` loop and between blocks, at tile level;
 * private to src/eval, for launches with CHECKS_ALL.
 *
 * Two accesses of one element race where one of them is no atomic and writes, they belong to
 * different iterations of one MAP or to different blocks, and nothing orders them. Iterations have
 * no order. Blocks are ordered by element atomics alone: what a block did before its atomic is
 * visible to a block after its own later atomic on the same element whose old value it looks at
 * (the manual, Execution); that is also how the blocks of a cooperative kernel wait for each other.
 * The blocks of such a launch run on one thread, so that what is reported is always the same.
 * Tests: tests/races, tests/unit/check_eval.c.
 */
#ifndef TILESH_EVAL_RACE_H
#define TILESH_EVAL_RACE_H

#include "access.h"

typedef enum RaceKind { RACE_READ, RACE_WRITE, RACE_ATOMIC } RaceKind;

/* One of the two accesses of a race, as a report names it. */
typedef struct RaceSide {
  RaceKind kind;
  uint32_t place; /* of the program's spans */
  const char *by; /* "iteration 3", "block (1, 0)" */
} RaceSide;

/* Two stores of one value to one element: reported, but the launch goes on. */
typedef struct RaceWarning {
  uint32_t place, other;
  bool blocks;
  const char *text;
} RaceWarning;

enum { RACE_WARNINGS = 16 };

struct EvalRaces {
  const EvalProgram *program;
  const IrBinding *binding;
  Arena *arena; /* of texts */
  struct RaceBlocks *blocks;
  struct RaceMap *map;
  RaceWarning warning[RACE_WARNINGS];
  int nwarnings;
};

/* NULL when memory is short. */
EvalRaces *eval_races_new(const EvalLaunch *l);
void eval_races_free(EvalRaces *r); /* NULL is allowed */
/* A block begins. */
void eval_races_start(EvalBlock *b);
/* An access of single elements, before it happens: all lanes that take part. Faults at a race. */
EvalResult eval_races_access(EvalAgent *a, const EvalInsn *in, const EvalAccess *x, EvalMem *m,
                             RaceKind kind);
/* A region of a global tensor, before it is read or written; once it is, eval_races_settle tells
 * stores of the same value from others. */
EvalResult eval_races_region(EvalAgent *a, const EvalView *v, RaceKind kind);
EvalResult eval_races_settle(EvalAgent *a);
/* The warnings, after the run. */
void eval_races_report(const EvalRaces *r, DiagSink *sink);

/* Faults: `here` meets what `there` did to the element of m (row-major). same: both stored the same
 * value, a warning. */
EvalResult eval_races_found(EvalAgent *a, const EvalMem *m, int64_t element, RaceSide here,
                            RaceSide there, bool blocks, bool same);

/* Whether stores of the same value at these places are reported already. */
bool eval_races_warned(const EvalRaces *r, uint32_t place, uint32_t other);

/* race_map.c: between the iterations of the MAP that runs. */
struct RaceMap *eval_race_map_new(Arena *arena);
void eval_race_map_free(struct RaceMap *m);
void eval_race_map_start(struct RaceMap *m); /* nothing is known of the MAP that begins */
/* map: offsets of the lanes in the map of m. */
EvalResult eval_race_map_access(EvalAgent *a, const EvalInsn *in, const EvalAccess *x,
                                const EvalMem *m, RaceKind kind, Lanes l, const int64_t *map);

/* race_block.c: between blocks. */
struct RaceBlocks *eval_race_blocks_new(const EvalLaunch *l);
void eval_race_blocks_free(struct RaceBlocks *r);
bool eval_race_blocks_start(EvalBlock *b);
EvalResult eval_race_blocks_access(EvalAgent *a, const EvalInsn *in, const EvalAccess *x,
                                   const EvalMem *m, RaceKind kind, Lanes l, const int64_t *map);

/* The same for a STORE to n elements from `at` on, `step` apart, that nobody touched yet; false
 * where somebody did: nothing is noted then. */
bool eval_race_blocks_fresh(EvalAgent *a, const EvalInsn *in, const EvalMem *m, int64_t at,
                            int64_t step, int64_t n);

/* race_order.c: what a block knows of the others, by atomics. */
typedef struct RaceOrder RaceOrder;
RaceOrder *eval_race_order_new(int64_t blocks, bool turns);
void eval_race_order_free(RaceOrder *o);
bool eval_race_order_start(RaceOrder *o, int64_t block); /* false: no memory; so below */
/* The stretch between two atomics of the block that an access now belongs to, from 1. */
uint32_t eval_race_order_epoch(RaceOrder *o, int64_t block);
/* Whether the block is after the other's stretch. */
bool eval_race_order_knows(const RaceOrder *o, int64_t block, int64_t other, uint32_t epoch);
/* An atomic of the block on the element that `key` names; acquires: it looks at the old value. */
bool eval_race_order_atomic(RaceOrder *o, int64_t block, uint64_t key, bool acquires);

#endif
