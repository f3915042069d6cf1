/* compile_race.c: which accesses of a parallel loop cannot race, as far as that can be proved.
 *
 * In: the accesses of a MAP's body. Out: EvalAccess.races where iterations may meet, for all that
 * is known here; only those are watched when a launch asks for it. Proved is what most loops are:
 * every access of the buffer has, in some of its coordinates, the same multiple of one index of the
 * loop plus what the loop does not change, and these coordinates tell all indices apart. Then an
 * element belongs to one iteration, whatever the other coordinates are. Tests: tests/races.
 */
#include "compile.h"

/* One access of a buffer in the body. */
void eval_compile_race_use(Compiler *c, EvalAccess *x, const IrAccess *at, bool writes,
                           bool atomic) {
  if (!c->map || !c->map->as.map.parallel)
    return;
  RaceUse u = {.x = x, .buf = at->buf, .writes = writes, .atomic = atomic};
  for (int d = 0; d < at->buf->rank; d++) {
    u.index[d] = ir_cast(c->k, at->index[d], DT_I64);
    u.axis[d] = eval_index_axis(c, u.index[d]);
  }
  VEC_PUSH(c->arena, &c->uses_of_map, u);
}

/* Whether all accesses of the buffer agree in coordinates that tell the iterations apart. */
static bool apart(const Compiler *c, const RaceUse *first) {
  const IrMap *m = &c->map->as.map;
  unsigned told = 0;
  for (int d = 0; d < first->buf->rank; d++) {
    bool same = first->axis[d] >= 0;
    for (size_t i = 0; i < c->uses_of_map.n; i++) {
      const RaceUse *u = &c->uses_of_map.v[i];
      same = same && (u->buf != first->buf || u->index[d] == first->index[d]);
    }
    if (same)
      told |= 1u << first->axis[d];
  }
  for (int i = 0; i < m->naxes; i++) {
    int64_t n;
    if (ir_is_const(m->extent[i], &n) && n <= 1)
      told |= 1u << i;
  }
  return told == (1u << m->naxes) - 1;
}

/* Reads alone never race, nor do atomics alone. */
static bool may_race(const Compiler *c, const RaceUse *first) {
  bool writes = false, atomic = false, plain = false;
  for (size_t i = 0; i < c->uses_of_map.n; i++) {
    const RaceUse *u = &c->uses_of_map.v[i];
    if (u->buf != first->buf)
      continue;
    writes = writes || (u->writes && !u->atomic);
    atomic = atomic || u->atomic;
    plain = plain || !u->atomic;
  }
  return (writes || (atomic && plain)) && !apart(c, first);
}

/* At the end of the MAP's body. */
void eval_compile_races(Compiler *c) {
  for (size_t i = 0; i < c->uses_of_map.n; i++) {
    const RaceUse *u = &c->uses_of_map.v[i];
    u->x->races = may_race(c, u);
  }
  c->uses_of_map.n = 0;
}
