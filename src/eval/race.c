/* race.c: the two detectors of races behind one hook, and what they report.
 *
 * In: each access of a launch with CHECKS_ALL, before it happens. Out: a fault that names the
 * element, both places and both iterations or blocks; or, where both stored the same value, a
 * warning, once for each pair of places. Tests: tests/races.
 */
#include <stdio.h>

#include "race.h"
#include "watch.h"

EvalRaces *eval_races_new(const EvalLaunch *l) {
  Arena *arena = arena_new(NULL, "races");
  EvalRaces *r = ARENA_NEW(arena, EvalRaces);
  *r = (EvalRaces){.program = l->program, .binding = l->binding, .arena = arena};
  r->map = eval_race_map_new(arena);
  r->blocks = eval_race_blocks_new(l);
  if (r->blocks)
    return r;
  eval_races_free(r);
  return NULL;
}

void eval_races_free(EvalRaces *r) {
  if (!r)
    return;
  eval_race_map_free(r->map);
  eval_race_blocks_free(r->blocks);
  arena_free(r->arena);
}

void eval_races_start(EvalBlock *b) {
  if (!eval_race_blocks_start(b))
    atomic_store(&b->launch->failed, ST_NOMEM);
}

/* ---------------------------------------------------------------- accesses */

/* Each lane's place in the map of what was written. */
static EvalResult places(EvalAgent *a, const EvalAccess *x, const EvalMem *m, Lanes l,
                         int64_t *map) {
  Place data, strip;
  int64_t at, one;
  if (!x->vector) {
    EvalResult r = eval_place_one(a, x, m, &at, &one);
    for (int i = 0; r == EVAL_OK && i < l.n; i++)
      map[i] = one;
    return r;
  }
  if (!eval_place_strip(a, x, m, &data, &strip))
    return eval_place_lanes(a, x, m, l, map);
  Walk w = eval_walk_start(a->map, &strip);
  for (int i = 0; i < l.n; i++, eval_walk_next(&w))
    map[i] = w.at;
  return EVAL_OK;
}

/* Tiles belong to one block, inputs are never written. */
static bool shared_by_blocks(const EvalMem *m) {
  return m->buf->space == IRS_GLOBAL && m->buf->role != IRR_IN;
}

/* The commonest of all: a strip that is one row of a tensor, stored for the first time. */
static bool fresh_strip(EvalAgent *a, const EvalInsn *in, const EvalAccess *x, const EvalMem *m,
                        Lanes l) {
  Place data, strip;
  if (!x->vector || !x->lanes || l.on || eval_watch_stores(a, in, x, l) ||
      !eval_place_strip(a, x, m, &data, &strip))
    return false;
  int last = a->map->code->naxes - 1;
  return a->map->cnt[last] == l.n &&
         eval_race_blocks_fresh(a, in, m, strip.at, strip.lane[last], l.n);
}

EvalResult eval_races_access(EvalAgent *a, const EvalInsn *in, const EvalAccess *x, EvalMem *m,
                             RaceKind kind) {
  bool iterations = x->races && a->map->code, blocks = shared_by_blocks(m);
  int64_t map[EVAL_STRIP];
  if (!iterations && !blocks)
    return EVAL_OK;
  Lanes l = eval_lanes_of(a, in);
  if (kind == RACE_WRITE && !iterations && fresh_strip(a, in, x, m, l))
    return EVAL_OK;
  EvalResult r = places(a, x, m, l, map);
  if (r == EVAL_OK && iterations)
    r = eval_race_map_access(a, in, x, m, kind, l, map);
  if (r == EVAL_OK && blocks)
    r = eval_race_blocks_access(a, in, x, m, kind, l, map);
  if (r == EVAL_OK && blocks && kind == RACE_WRITE)
    eval_watch_store(a, in, x, m, l, map);
  return r;
}

/* ---------------------------------------------------------------- reports */

static const char *const done[] = {"read", "written", "changed by an atomic"};

/* One pair of places is reported once, however many elements it concerns. */
bool eval_races_warned(const EvalRaces *r, uint32_t place, uint32_t other) {
  for (int i = 0; i < r->nwarnings; i++)
    if (r->warning[i].place == place && r->warning[i].other == other)
      return true;
  return r->nwarnings == RACE_WARNINGS;
}

static EvalResult warn(EvalRaces *r, const RaceWarning *w) {
  if (!eval_races_warned(r, w->place, w->other))
    r->warning[r->nwarnings++] = *w;
  return EVAL_OK;
}

EvalResult eval_races_found(EvalAgent *a, const EvalMem *m, int64_t element, RaceSide here,
                            RaceSide there, bool blocks, bool same) {
  EvalRaces *r = a->block->races;
  char what[256];
  eval_mem_name(m, element, what, sizeof what);
  if (same) {
    const char *text = arena_printf(r->arena, "%s gets the same value here from %s and from %s",
                                    what, here.by, there.by);
    return warn(r, &(RaceWarning){here.place, there.place, blocks, text});
  }
  const EvalProgram *p = a->block->program;
  eval_fault(a, blocks ? E0483 : E0482,
             "%s is %s here by %s and %s by %s, and nothing orders the two", what, done[here.kind],
             here.by, done[there.kind], there.by);
  EvalFault *f = &a->block->fault;
  f->block_named = blocks;
  if (there.place != here.place) {
    f->other = p->span[there.place];
    snprintf(f->other_text, sizeof f->other_text, "%s here", done[there.kind]);
  }
  return EVAL_FAULTED;
}

void eval_races_report(const EvalRaces *r, DiagSink *sink) {
  for (int i = 0; i < r->nwarnings; i++) {
    const RaceWarning *w = &r->warning[i];
    Diag *d = diag_add(sink, E0484, r->program->span[w->place], "%s", w->text);
    if (w->other != w->place)
      diag_also(sink, d, r->program->span[w->other], "written here");
  }
}
