/* race_map.c: races between the iterations of a MAP.
 *
 * In: the lanes of each access of a buffer that compile_race.c could not prove free of races. Out:
 * a fault where two iterations touch one element and one of them writes, whatever the order they
 * ran in. What is known of an element lasts as long as its MAP: a stamp makes the table empty
 * again. Two readers are kept an element, so that a writer always meets one that is not itself.
 * Tests: tests/races.
 */
#include <stdlib.h>
#include <string.h>

#include "race.h"

typedef struct Touch { /* iterations are numbered from 1 here; 0: none */
  uint32_t by, place;
} Touch;

typedef struct Cell {
  uint64_t key;   /* buffer and element */
  uint32_t stamp; /* of the MAP it belongs to */
  bool atomic;    /* the writer's */
  Touch writer, reader[2];
  uint64_t value; /* what the writer stored, in compute form */
} Cell;

struct RaceMap {
  Cell *v;
  size_t n, cap;
  uint32_t stamp;
};

struct RaceMap *eval_race_map_new(Arena *arena) {
  return ARENA_NEW(arena, struct RaceMap);
}

void eval_race_map_free(struct RaceMap *m) {
  if (m)
    free(m->v);
}

void eval_race_map_start(struct RaceMap *m) {
  m->n = 0;
  if (++m->stamp == 0) { /* after four billion of them */
    memset(m->v, 0, m->cap * sizeof *m->v);
    m->stamp = 1;
  }
}

/* Its cell, or the free one where it would be. */
static Cell *slot(Cell *v, size_t cap, uint32_t stamp, uint64_t key) {
  size_t i = (size_t)(key * 0x9E3779B97F4A7C15u >> 24) & (cap - 1);
  while (v[i].stamp == stamp && v[i].key != key)
    i = (i + 1) & (cap - 1);
  return &v[i];
}

static bool grow(struct RaceMap *m) {
  size_t cap = m->cap ? 2 * m->cap : 4096;
  Cell *v = calloc(cap, sizeof *v);
  if (!v)
    return false;
  for (size_t i = 0; i < m->cap; i++)
    if (m->v[i].stamp == m->stamp)
      *slot(v, cap, m->stamp, m->v[i].key) = m->v[i];
  free(m->v);
  m->v = v;
  m->cap = cap;
  return true;
}

/* NULL when memory is short. */
static Cell *cell_of(struct RaceMap *m, uint64_t key) {
  if (2 * m->n >= m->cap && !grow(m))
    return NULL;
  Cell *c = slot(m->v, m->cap, m->stamp, key);
  if (c->stamp != m->stamp) {
    *c = (Cell){.key = key, .stamp = m->stamp};
    m->n++;
  }
  return c;
}

/* "iteration 3", "iteration (2, 3)" */
static const char *name(EvalAgent *a, uint32_t by) {
  const EvalMapState *s = a->map;
  int64_t at = by - 1, index[4] = {0};
  char list[128];
  int n = s->code->naxes;
  for (int i = n - 1; i >= 0; i--) {
    index[i] = at % s->extent[i];
    at /= s->extent[i];
  }
  eval_list_text(index, n, list, sizeof list);
  return arena_printf(a->block->races->arena, n == 1 ? "iteration %s" : "iteration (%s)", list);
}

typedef struct Access {
  EvalAgent *a;
  const EvalMem *m;
  int64_t element;
  RaceKind kind;
  Touch touch;
  uint64_t value;
} Access;

static EvalResult found(const Access *x, Touch other, RaceKind kind, bool same) {
  if (same && eval_races_warned(x->a->block->races, x->touch.place, other.place))
    return EVAL_OK;
  RaceSide here = {x->kind, x->touch.place, name(x->a, x->touch.by)};
  RaceSide there = {kind, other.place, name(x->a, other.by)};
  return eval_races_found(x->a, x->m, x->element, here, there, false, same);
}

/* What others did to the element before. */
static EvalResult meet(const Access *x, const Cell *c) {
  const Touch *w = &c->writer;
  if (w->by && w->by != x->touch.by && !(c->atomic && x->kind == RACE_ATOMIC)) {
    bool same = x->kind == RACE_WRITE && !c->atomic && c->value == x->value;
    if (found(x, *w, c->atomic ? RACE_ATOMIC : RACE_WRITE, same) != EVAL_OK)
      return EVAL_FAULTED;
  }
  for (int i = 0; x->kind != RACE_READ && i < 2; i++)
    if (c->reader[i].by && c->reader[i].by != x->touch.by)
      return found(x, c->reader[i], RACE_READ, false);
  return EVAL_OK;
}

/* An iteration's own plain store is not hidden by its atomic. */
static void note(const Access *x, Cell *c) {
  if (x->kind == RACE_READ) {
    int i = c->reader[0].by && c->reader[0].by != x->touch.by;
    c->reader[i] = x->touch;
    return;
  }
  if (x->kind == RACE_ATOMIC && c->writer.by == x->touch.by && !c->atomic)
    return;
  c->writer = x->touch;
  c->atomic = x->kind == RACE_ATOMIC;
  c->value = x->value;
}

/* The number of each lane's iteration in row-major order. */
static bool iterations(const EvalMapState *s, Place *p) {
  int64_t step = 1;
  *p = (Place){0};
  for (int i = s->code->naxes - 1; i >= 0; i--) {
    p->lane[i] = step;
    p->at += s->pos[i] * step;
    if (__builtin_mul_overflow(step, s->extent[i], &step) || step >= UINT32_MAX)
      return false;
  }
  return true;
}

EvalResult eval_race_map_access(EvalAgent *a, const EvalInsn *in, const EvalAccess *x,
                                const EvalMem *m, RaceKind kind, Lanes l, const int64_t *map) {
  Place p;
  if (!iterations(a->map, &p))
    return EVAL_OK; /* a loop of four billion iterations is not watched */
  Walk w = eval_walk_start(a->map, &p);
  size_t size = dtype_compute_size(m->dtype), step = x->lanes ? size : 0;
  const char *value = kind == RACE_WRITE ? machine_reg(a, x->value) : NULL;
  Access t = {.a = a, .m = m, .kind = kind, .touch.place = in->place};
  for (int i = 0; i < l.n; i++, eval_walk_next(&w)) {
    if (l.on && !l.on[i])
      continue;
    t.element = map[i];
    t.touch.by = (uint32_t)w.at + 1;
    if (value)
      memcpy(&t.value, value + (size_t)i * step, size);
    Cell *c = cell_of(a->block->races->map, (uint64_t)x->buf << 48 | (uint64_t)map[i]);
    if (!c)
      return eval_fault(a, E0459, "out of memory");
    if (meet(&t, c) != EVAL_OK)
      return EVAL_FAULTED;
    note(&t, c);
  }
  return EVAL_OK;
}
