/* race_order.c: which blocks are known to have come how far, by their atomics.
 *
 * In: atomics of blocks on elements. Out: whether one block is after a stretch of another. A
 * block's work is cut into stretches by its atomics, numbered from 1. An element keeps, by block,
 * the last stretch that was over when an atomic on it was done, directly or by way of other
 * elements; a block that looks at the old value knows all that the element keeps. Blocks that run
 * one after the other need no copy of what they learn: until such a block ends nobody else adds to
 * an element, so a list of the elements it asked is enough. Blocks that take turns copy. Tests:
 * tests/races, tests/unit/check_eval.c.
 */
#include <stdlib.h>

#include "race.h"

typedef struct Clock { /* of an element */
  uint64_t key;        /* 0: free */
  uint32_t *at;        /* [blocks] */
} Clock;

typedef struct BlockOrder {
  uint32_t epoch;
  bool used;       /* an access belongs to the stretch */
  uint32_t *known; /* [blocks], NULL at first; blocks that take turns */
} BlockOrder;

struct RaceOrder {
  bool turns;
  int64_t blocks;
  Clock *clock; /* open addressing */
  size_t n, cap;
  BlockOrder *block; /* [blocks], or one */
  uint32_t **asked;  /* one after the other: what the block that runs knows */
  size_t nasked, asked_cap;
};

RaceOrder *eval_race_order_new(int64_t blocks, bool turns) {
  RaceOrder *o = calloc(1, sizeof *o);
  if (!o)
    return NULL;
  *o = (RaceOrder){.turns = turns, .blocks = blocks, .cap = 64};
  o->clock = calloc(o->cap, sizeof *o->clock);
  o->block = calloc(turns ? (size_t)blocks : 1, sizeof *o->block);
  if (o->clock && o->block)
    return o;
  eval_race_order_free(o);
  return NULL;
}

void eval_race_order_free(RaceOrder *o) {
  if (!o)
    return;
  for (size_t i = 0; o->clock && i < o->cap; i++)
    free(o->clock[i].at);
  for (int64_t i = 0; o->block && o->turns && i < o->blocks; i++)
    free(o->block[i].known);
  free(o->clock);
  free(o->block);
  free(o->asked);
  free(o);
}

static BlockOrder *order_of(const RaceOrder *o, int64_t block) {
  return &o->block[o->turns ? block : 0];
}

bool eval_race_order_start(RaceOrder *o, int64_t block) {
  BlockOrder *b = order_of(o, block);
  b->epoch = 1;
  b->used = false;
  o->nasked = 0;
  return true;
}

uint32_t eval_race_order_epoch(RaceOrder *o, int64_t block) {
  BlockOrder *b = order_of(o, block);
  b->used = true;
  return b->epoch;
}

bool eval_race_order_knows(const RaceOrder *o, int64_t block, int64_t other, uint32_t epoch) {
  const BlockOrder *b = order_of(o, block);
  if (o->turns)
    return b->known && b->known[other] >= epoch;
  for (size_t i = 0; i < o->nasked; i++)
    if (o->asked[i][other] >= epoch)
      return true;
  return false;
}

/* Where the key is, or would be. The table is never full. */
static Clock *slot(Clock *v, size_t cap, uint64_t key) {
  size_t i = (size_t)(key * 0x9E3779B97F4A7C15u >> 20) & (cap - 1);
  while (v[i].key && v[i].key != key)
    i = (i + 1) & (cap - 1);
  return &v[i];
}

static bool grow(RaceOrder *o) {
  size_t cap = 2 * o->cap;
  Clock *v = calloc(cap, sizeof *v);
  if (!v)
    return false;
  for (size_t i = 0; i < o->cap; i++)
    if (o->clock[i].key)
      *slot(v, cap, o->clock[i].key) = o->clock[i];
  free(o->clock);
  o->clock = v;
  o->cap = cap;
  return true;
}

static uint32_t *clock_of(RaceOrder *o, uint64_t key) {
  if (2 * o->n >= o->cap && !grow(o))
    return NULL;
  Clock *c = slot(o->clock, o->cap, key);
  if (!c->key) {
    c->at = calloc((size_t)o->blocks, sizeof *c->at);
    if (!c->at)
      return NULL;
    c->key = key;
    o->n++;
  }
  return c->at;
}

static void join(uint32_t *to, const uint32_t *from, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    to[i] = to[i] > from[i] ? to[i] : from[i];
}

/* The element learns what the block did and knows. */
static void release(RaceOrder *o, BlockOrder *b, int64_t block, uint32_t *clock) {
  if (b->known)
    join(clock, b->known, o->blocks);
  for (size_t i = 0; i < o->nasked; i++)
    if (o->asked[i] != clock)
      join(clock, o->asked[i], o->blocks);
  if (b->used || clock[block] < b->epoch - 1)
    clock[block] = b->used ? b->epoch : b->epoch - 1;
  b->epoch += b->used;
  b->used = false;
}

/* The block learns what the element keeps. */
static bool acquire(RaceOrder *o, BlockOrder *b, uint32_t *clock) {
  if (o->turns) {
    if (!b->known)
      b->known = calloc((size_t)o->blocks, sizeof *b->known);
    if (b->known)
      join(b->known, clock, o->blocks);
    return b->known;
  }
  for (size_t i = 0; i < o->nasked; i++)
    if (o->asked[i] == clock)
      return true;
  if (o->nasked == o->asked_cap) {
    size_t cap = o->asked_cap ? 2 * o->asked_cap : 16;
    uint32_t **v = realloc(o->asked, cap * sizeof *v);
    if (!v)
      return false;
    o->asked = v;
    o->asked_cap = cap;
  }
  o->asked[o->nasked++] = clock;
  return true;
}

bool eval_race_order_atomic(RaceOrder *o, int64_t block, uint64_t key, bool acquires) {
  BlockOrder *b = order_of(o, block);
  uint32_t *clock = clock_of(o, key);
  if (!clock)
    return false;
  release(o, b, block, clock);
  return !acquires || acquire(o, b, clock);
}
