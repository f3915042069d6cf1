/* race_block.c: races between blocks.
 *
 * In: accesses of global tensors that the kernel writes. Out: a fault where two blocks touch one
 * element, one of them writing other than by an atomic, and no atomic orders them. An element has a
 * word for its last writer and, once the tensor is read, two for readers, so that a writer always
 * meets a reader that is not itself. The words take memory only where the tensor is touched.
 * A block's own accesses are in order. Tests: tests/races, tests/unit/check_eval.c.
 */
#include <stdlib.h>
#include <string.h>

#include "race.h"

/* Block + 1, stretch (race_order.c), whether by an atomic, place in the program. */
enum { BLOCK_AT = 32, EPOCH_AT = 17, ATOMIC_AT = 16, MOST_EPOCH = 0x7FFF, MOST_PLACE = 0xFFFF };

typedef struct Words {
  uint64_t *writer, *reader[2]; /* [elements]; NULL at first */
} Words;

/* A store of a region to an element that another block stored: judged once it has happened. */
typedef struct Pending {
  int64_t at, element; /* in memory; in the map */
  uint64_t before, other;
} Pending;

enum { MOST_PENDING = 1024 };

struct RaceBlocks {
  Words *words;     /* by buffer */
  RaceOrder *order; /* NULL: no atomic orders blocks */
  uint32_t nbuffers;
  bool off; /* more blocks than a word can number */
  const EvalMem *mem;
  Pending pending[MOST_PENDING];
  int npending;
};

struct RaceBlocks *eval_race_blocks_new(const EvalLaunch *l) {
  struct RaceBlocks *r = calloc(1, sizeof *r);
  if (!r)
    return NULL;
  r->nbuffers = (uint32_t)l->program->kernel->buffers.n;
  r->words = calloc(r->nbuffers + 1, sizeof *r->words);
  r->off = l->blocks >= UINT32_MAX;
  bool order = l->program->orders && !r->off;
  if (order)
    r->order = eval_race_order_new(l->blocks, l->program->interleave);
  if (r->words && (r->order || !order))
    return r;
  eval_race_blocks_free(r);
  return NULL;
}

void eval_race_blocks_free(struct RaceBlocks *r) {
  if (!r)
    return;
  for (uint32_t i = 0; r->words && i < r->nbuffers; i++) {
    free(r->words[i].writer);
    free(r->words[i].reader[0]);
    free(r->words[i].reader[1]);
  }
  eval_race_order_free(r->order);
  free(r->words);
  free(r);
}

bool eval_race_blocks_start(EvalBlock *b) {
  struct RaceBlocks *r = b->races->blocks;
  return !r->order || eval_race_order_start(r->order, b->linear);
}

/* Pages of zeros, which the system gives out as they are touched. */
static uint64_t *words(uint64_t **w, const EvalMem *m) {
  if (!*w)
    *w = calloc((size_t)m->count + 1, sizeof **w);
  return *w;
}

/* ---------------------------------------------------------------- words */

/* What an access of this block writes into an element's word. */
static uint64_t word_of(EvalAgent *a, uint32_t place, RaceKind kind) {
  const EvalBlock *b = a->block;
  RaceOrder *o = b->races->blocks->order;
  uint64_t epoch = o ? eval_race_order_epoch(o, b->linear) : 1;
  return (uint64_t)(b->linear + 1) << BLOCK_AT |
         (epoch < MOST_EPOCH ? epoch : MOST_EPOCH) << EPOCH_AT |
         (uint64_t)(kind == RACE_ATOMIC) << ATOMIC_AT | (place < MOST_PLACE ? place : MOST_PLACE);
}

static bool by_atomic(uint64_t w) {
  return w >> ATOMIC_AT & 1;
}

/* Whether what w tells of was done by a block that this one is not after. A stretch that could not
 * be numbered counts as over. */
static bool unordered(const EvalAgent *a, uint64_t w) {
  int64_t other = (int64_t)(w >> BLOCK_AT) - 1, self = a->block->linear;
  if (other < 0 || other == self)
    return false;
  const RaceOrder *o = a->block->races->blocks->order;
  uint32_t epoch = (uint32_t)(w >> EPOCH_AT) & MOST_EPOCH;
  return !o || (epoch < MOST_EPOCH && !eval_race_order_knows(o, self, other, epoch));
}

/* "block 3", "block (1, 0)" */
static const char *name(const EvalAgent *a, int64_t block) {
  const EvalRaces *r = a->block->races;
  int64_t index[3];
  char list[96];
  int rank = r->program->kernel->grid_rank;
  for (int i = 0; i < 3; i++) {
    index[i] = block % r->binding->grid[i];
    block /= r->binding->grid[i];
  }
  eval_list_text(index, rank, list, sizeof list);
  return arena_printf(r->arena, rank == 1 ? "block %s" : "block (%s)", list);
}

static EvalResult found(EvalAgent *a, const EvalMem *m, int64_t element, RaceKind kind,
                        uint32_t place, uint64_t other, RaceKind was, bool same) {
  if (same && eval_races_warned(a->block->races, place, other & MOST_PLACE))
    return EVAL_OK;
  RaceSide here = {kind, place, name(a, a->block->linear)};
  RaceSide there = {was, other & MOST_PLACE, name(a, (int64_t)(other >> BLOCK_AT) - 1)};
  return eval_races_found(a, m, element, here, there, true, same);
}

/* ---------------------------------------------------------------- one element */

typedef struct Access {
  EvalAgent *a;
  const EvalMem *m;
  Words *w;
  RaceKind kind;
  uint64_t word;
  uint32_t place;
} Access;

static EvalResult access_open(Access *x, EvalAgent *a, const EvalMem *m, RaceKind kind,
                              uint32_t place) {
  struct RaceBlocks *r = a->block->races->blocks;
  *x = (Access){a, m, &r->words[m->buf->id], kind, word_of(a, place, kind), place};
  bool room = words(&x->w->writer, m);
  if (kind == RACE_READ)
    room = room && words(&x->w->reader[0], m) && words(&x->w->reader[1], m);
  return room ? EVAL_OK : eval_fault(a, E0459, "out of memory");
}

/* Another block's store or atomic that this access is not after; 0: none. */
static uint64_t other_writer(const Access *x, int64_t e) {
  uint64_t w = x->w->writer[e];
  if (!w || w >> BLOCK_AT == x->word >> BLOCK_AT)
    return 0;
  return (x->kind == RACE_ATOMIC && by_atomic(w)) || !unordered(x->a, w) ? 0 : w;
}

static uint64_t other_reader(const Access *x, int64_t e) {
  for (int i = 0; i < 2 && x->w->reader[0]; i++)
    if (unordered(x->a, x->w->reader[i][e]))
      return x->w->reader[i][e];
  return 0;
}

/* A block's own plain store is not hidden by its atomic. */
static void note(const Access *x, int64_t e) {
  if (x->kind == RACE_READ) {
    uint64_t first = x->w->reader[0][e];
    x->w->reader[first && first >> BLOCK_AT != x->word >> BLOCK_AT][e] = x->word;
    return;
  }
  uint64_t w = x->w->writer[e];
  if (x->kind == RACE_WRITE || w >> BLOCK_AT != x->word >> BLOCK_AT || by_atomic(w))
    x->w->writer[e] = x->word;
}

/* Where the element of the map lies in memory. */
static int64_t memory_of(const EvalMem *m, int64_t e) {
  int64_t at = 0;
  for (int i = m->rank - 1; i >= 0; i--) {
    at += e % m->extent[i] * m->stride[i];
    e /= m->extent[i];
  }
  return at;
}

static uint64_t element_at(const EvalMem *m, int64_t at) {
  uint64_t bits = 0;
  eval_mem_gather(m, at, 1, &bits, 1);
  return bits;
}

/* value: what a store stores; NULL otherwise. */
static EvalResult check_one(const Access *x, int64_t e, const void *value) {
  uint64_t w = other_writer(x, e);
  if (w) {
    bool same = false;
    if (value && !by_atomic(w)) {
      uint64_t now = element_at(x->m, memory_of(x->m, e));
      same = memcmp(&now, value, dtype_compute_size(x->m->dtype)) == 0;
    }
    RaceKind was = by_atomic(w) ? RACE_ATOMIC : RACE_WRITE;
    if (found(x->a, x->m, e, x->kind, x->place, w, was, same) != EVAL_OK)
      return EVAL_FAULTED;
  }
  w = x->kind == RACE_READ ? 0 : other_reader(x, e);
  if (w)
    return found(x->a, x->m, e, x->kind, x->place, w, RACE_READ, false);
  note(x, e);
  return EVAL_OK;
}

/* ---------------------------------------------------------------- lanes */

/* Looked at by a `while` that waits: as good as an atomic that changes nothing. */
static EvalResult order_lanes(EvalAgent *a, const EvalAccess *x, Lanes l, const int64_t *map) {
  RaceOrder *o = a->block->races->blocks->order;
  for (int i = 0; o && i < l.n; i++)
    if (!l.on || l.on[i])
      if (!eval_race_order_atomic(o, a->block->linear,
                                  (uint64_t)(x->buf + 1) << 48 | (uint64_t)map[i],
                                  x->old || x->waits))
        return eval_fault(a, E0459, "out of memory");
  return EVAL_OK;
}

EvalResult eval_race_blocks_access(EvalAgent *a, const EvalInsn *in, const EvalAccess *x,
                                   const EvalMem *m, RaceKind kind, Lanes l, const int64_t *map) {
  Access t;
  if (a->block->races->blocks->off)
    return EVAL_OK;
  if (kind == RACE_READ && x->waits)
    kind = RACE_ATOMIC;
  if (access_open(&t, a, m, kind, in->place) != EVAL_OK)
    return EVAL_FAULTED;
  const char *value = kind == RACE_WRITE ? machine_reg(a, x->value) : NULL;
  size_t step = x->lanes ? dtype_compute_size(m->dtype) : 0;
  for (int i = 0; i < l.n; i++) {
    if (l.on && !l.on[i])
      continue;
    if (check_one(&t, map[i], value ? value + (size_t)i * step : NULL) != EVAL_OK)
      return EVAL_FAULTED;
  }
  return kind == RACE_ATOMIC ? order_lanes(a, x, l, map) : EVAL_OK;
}

/* ---------------------------------------------------------------- regions */

/* Kept until the store has happened; past the room the first ones decide. */
static void put_off(const Access *x, int64_t e, uint64_t other) {
  struct RaceBlocks *r = x->a->block->races->blocks;
  int64_t at = memory_of(x->m, e);
  r->mem = x->m;
  if (r->npending < MOST_PENDING)
    r->pending[r->npending++] = (Pending){at, e, element_at(x->m, at), other};
}

/* Stores of regions to what another block stored wait for their values. */
static EvalResult region_one(const Access *x, int64_t e) {
  uint64_t w = x->kind == RACE_WRITE ? other_writer(x, e) : 0;
  if (!w || by_atomic(w))
    return check_one(x, e, NULL);
  put_off(x, e, w);
  w = other_reader(x, e);
  if (w)
    return found(x->a, x->m, e, x->kind, x->place, w, RACE_READ, false);
  note(x, e);
  return EVAL_OK;
}

/* A row that nobody touched, in the commonest case of all: stores to an output. */
static bool fresh_row(const Access *x, int64_t at, int64_t step, int64_t n) {
  uint64_t seen = 0, *w = x->w->writer + at;
  if (x->kind != RACE_WRITE || x->w->reader[0])
    return false;
  for (int64_t i = 0; i < n; i++)
    seen |= w[i * step];
  if (seen)
    return false;
  for (int64_t i = 0; i < n; i++)
    w[i * step] = x->word;
  return true;
}

bool eval_race_blocks_fresh(EvalAgent *a, const EvalInsn *in, const EvalMem *m, int64_t at,
                            int64_t step, int64_t n) {
  Access x;
  if (a->block->races->blocks->off)
    return true;
  return access_open(&x, a, m, RACE_WRITE, in->place) == EVAL_OK && fresh_row(&x, at, step, n);
}

static EvalResult row(const Access *x, int64_t at, int64_t step, int64_t n) {
  if (fresh_row(x, at, step, n))
    return EVAL_OK;
  for (int64_t i = 0; i < n; i++)
    if (region_one(x, at + i * step) != EVAL_OK)
      return EVAL_FAULTED;
  return EVAL_OK;
}

EvalResult eval_races_region(EvalAgent *a, const EvalView *v, RaceKind kind) {
  EvalRaces *r = a->block->races;
  Access x;
  EvalRow rows;
  if (v->mem->buf->space != IRS_GLOBAL || v->mem->buf->role == IRR_IN || r->blocks->off)
    return EVAL_OK;
  r->blocks->npending = 0;
  EvalResult result = access_open(&x, a, v->mem, kind, machine_insn(a)->place);
  for (bool more = eval_rows_first(v, &rows); result == EVAL_OK && more;
       more = eval_rows_next(v, &rows))
    result = row(&x, rows.at, rows.step, rows.n);
  return result;
}

EvalResult eval_races_settle(EvalAgent *a) {
  struct RaceBlocks *r = a->block->races->blocks;
  uint32_t place = machine_insn(a)->place;
  int first = 0;
  if (!r->npending)
    return EVAL_OK;
  while (first < r->npending &&
         element_at(r->mem, r->pending[first].at) == r->pending[first].before)
    first++;
  bool same = first == r->npending;
  const Pending *p = &r->pending[same ? 0 : first];
  r->npending = 0;
  return found(a, r->mem, p->element, RACE_WRITE, place, p->other, RACE_WRITE, same);
}
