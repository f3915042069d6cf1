/* meet.c: `auto` sizes that a kernel's asserts allow.
 *
 * In: a specialisation and the arguments' shapes (Tuning). Out: the sizes to set first, in t->base:
 * one parameter twice or half as large as often as it takes, and others halved where that leaves no
 * room; where one is not enough, the parameters that the failing asserts share with each other and
 * with further asserts, all of them at once, as near to the author's as can be; a tile that has to
 * hold a row as short as that leaves it, and the tile's other axis as much larger. Always holds: of
 * doublings and halvings, a combination that holds every assert is found where there is one, and
 * where MOST_TRIES kernels are enough to see it; what is known to fail whatever follows is left out
 * early. Tests: tests/lang/auto_asserts.tile, tests/lang/auto_joint.tile.
 */
#include "tune.h"

#include <limits.h>
#include <string.h>

/* Bytes of a tile in registers: what leaves room for others, and what is ever chosen. */
enum { TILE_BYTES = 65536, MOST_TILE_BYTES = 131072, MOST_TRIES = 10000 };

/* Whether its asserts hold; also where nothing is known, or where the arguments do not fit. */
static bool suits(Tuning *t, const IrKernel *k) {
  IrBinding *b = tune_bind(t, k);
  return !b || kernel_suits(t->arena, k, b, NULL);
}

int64_t tune_tile(Tuning *t, const IrKernel *k) {
  int64_t most = 0;
  for (size_t i = 0; i < k->buffers.n; i++) {
    const IrBuffer *b = k->buffers.v[i];
    int64_t bytes = (int64_t)dtype_size(b->dtype), extent;
    for (int d = 0; d < b->rank && b->space == IRS_FRAGMENT; d++)
      bytes =
          ir_is_const(b->extent[d], &extent) && extent < MOST_EXTENT * 2 ? bytes * extent : bytes;
    most = b->space == IRS_FRAGMENT && bytes > most ? bytes : most;
  }
  return tune_fits_shared(t, k) ? most : INT64_MAX;
}

int64_t tune_own(Tuning *t, size_t i) {
  SemaValue v = {.kind = SV_UNSET};
  bool has = tune_is_free(t, i) && sema_value(t->arena, t->k, t->spec, i, &v);
  return has && v.kind == SV_INT && v.num.as.i > 0 && v.num.as.i <= MOST_EXTENT ? v.num.as.i : 0;
}

/* ---------------------------------------------------------------- one parameter */

static int64_t at_least_own(const Tuning *t, int64_t bytes) {
  return bytes > t->tile ? bytes : t->tile;
}

static bool is_based(const Tuning *t, size_t i) {
  for (size_t k = 0; k < t->nbase; k++)
    if (t->base[k].at == i)
      return true;
  return false;
}

/* The others half as large as often as it takes for the greatest tile to leave room. */
static int64_t make_room(Tuning *t, int64_t bytes) {
  int64_t room = at_least_own(t, TILE_BYTES);
  for (size_t i = 0; i < t->k->nstatics && t->nbase < MOST_AUTOS; i++) {
    size_t at = t->nbase;
    for (int64_t x = is_based(t, i) ? 0 : tune_own(t, i) / 2; x >= 1 && bytes > room; x /= 2) {
      SpecStatic set = {i, x};
      const IrKernel *k = tune_build(t, &set, 1);
      int64_t now = k && suits(t, k) ? tune_tile(t, k) : INT64_MAX;
      if (now >= bytes)
        break;
      bytes = now;
      t->base[at] = set;
      t->nbase = at + 1;
    }
  }
  return bytes;
}

static bool has_room(Tuning *t, int64_t bytes) {
  return make_room(t, bytes) <= at_least_own(t, MOST_TILE_BYTES);
}

/* One parameter's value; false, with nothing set: it is not allowed or its tiles are too large. */
static bool try_value(Tuning *t, size_t i, int64_t value) {
  t->base[0] = (SpecStatic){i, value};
  t->nbase = 1;
  const IrKernel *k = tune_build(t, NULL, 0);
  if (k && suits(t, k) && has_room(t, tune_tile(t, k)))
    return true;
  t->nbase = 0;
  return false;
}

/* The value that is `times` doublings (up) or halvings away; 0: there is none. */
static int64_t candidate(int64_t own, int times, bool up) {
  return !up ? own >> times : own << times <= MOST_EXTENT ? own << times : 0;
}

static bool meet_by_one(Tuning *t) {
  for (int times = 1; times <= DOUBLINGS; times++)
    for (size_t i = 0; i < t->k->nstatics; i++)
      for (int up = 1; up >= 0; up--) {
        int64_t x = candidate(tune_own(t, i), times, up);
        if (x && try_value(t, i, x))
          return true;
      }
  return false;
}

/* ---------------------------------------------------------------- several parameters */

typedef struct Joint {
  Tuning *t;
  Concerns concerns;
  uint64_t free, mask; /* parameters that may change; those that are searched */
  size_t n, at[MOST_AUTOS];
  int tries, best; /* best: how far the found ones are from the author's, all together */
  int over;        /* the same of those without room */
  SpecStatic found[MOST_AUTOS], *large;
  size_t nfound, nlarge;
} Joint;

uint64_t tune_free_mask(Tuning *t) {
  uint64_t mask = 0;
  for (size_t i = 0; i < t->k->nstatics && i < 64; i++)
    mask |= tune_own(t, i) ? UINT64_C(1) << i : 0;
  return mask;
}

uint64_t tune_mask_at(const Concerns *c, uint64_t free, const IrStmt *assert) {
  const Concern *at = concerns_at(c, assert->span);
  return free & (at ? at->mask : ~UINT64_C(0));
}

/* What the failing asserts depend on, and what is bound to that by further asserts. */
static void find_mask(Joint *j, const KernelSuits *own) {
  for (size_t i = 0; i < own->failing.n; i++)
    j->mask |= tune_mask_at(&j->concerns, j->free, own->failing.v[i]);
  for (uint64_t before = 0; before != j->mask;) {
    before = j->mask;
    for (size_t i = 0; i < j->concerns.v.n; i++)
      if (j->concerns.v.v[i].mask & j->mask)
        j->mask |= j->concerns.v.v[i].mask & j->free;
  }
}

/* How many of an assert's parameters are not among `done`, at least; 64: no assert has parameter
 * i. */
static int still_open(const Joint *j, size_t i, uint64_t done) {
  int least = 64;
  for (size_t k = 0; k < j->concerns.v.n; k++) {
    uint64_t mask = j->concerns.v.v[k].mask & j->mask;
    int open = __builtin_popcountll(mask & ~done);
    if (mask >> i & 1 && open < least)
      least = open;
  }
  return least;
}

/* First those that an assert has alone: what it forbids is left out before anything follows. */
static void order(Joint *j) {
  for (uint64_t done = 0; j->n < MOST_AUTOS && done != j->mask; j->n++) {
    int least = 65;
    for (size_t i = 0; i < 64; i++)
      if ((j->mask & ~done) >> i & 1 && still_open(j, i, done) < least) {
        least = still_open(j, i, done);
        j->at[j->n] = i;
      }
    done |= UINT64_C(1) << j->at[j->n];
  }
}

/* Whether an assert fails whatever those that are not set yet become. */
static bool is_lost(const Joint *j, const KernelSuits *now) {
  uint64_t done = 0;
  for (size_t i = 0; i < j->t->nbase; i++)
    done |= UINT64_C(1) << j->t->base[i].at;
  for (size_t i = 0; i < now->failing.n; i++) {
    uint64_t mask = tune_mask_at(&j->concerns, j->free, now->failing.v[i]);
    if (mask & j->mask && (j->t->nbase == j->n || !(mask & ~done)))
      return true;
  }
  return false;
}

/* The kernel with the first of them set. FALSE: it is lost, or nothing more may be tried. *bytes:
 * of its greatest tile; INT64_MAX also where the kernel cannot be built, which those that follow
 * may mend. */
static bool may_be(Joint *j, int64_t *bytes) {
  Tuning *t = j->t;
  KernelSuits now;
  *bytes = INT64_MAX;
  if (session_interrupted(t->s) || j->tries++ >= MOST_TRIES)
    return false;
  arena_reset(t->arena);
  const IrKernel *k = tune_build(t, NULL, 0);
  IrBinding *b = k ? tune_bind(t, k) : NULL;
  if (!b)
    return t->nbase < j->n;
  kernel_suits(t->arena, k, b, &now);
  *bytes = tune_tile(t, k);
  return !is_lost(j, &now);
}

/* Whether a block has room for the shared tiles, so that the sizes may be said in a hint. */
static bool may_be_said(Tuning *t) {
  const IrKernel *k = tune_build(t, NULL, 0);
  return k && tune_fits_shared(t, k);
}

/* Every assert holds. */
static void take(Joint *j, int far, int64_t bytes) {
  Tuning *t = j->t;
  size_t n = t->nbase;
  bool room = has_room(t, bytes);
  if (room) {
    memcpy(j->found, t->base, t->nbase * sizeof *t->base);
    j->nfound = t->nbase;
    j->best = far;
  }
  t->nbase = n; /* without what was halved to make room */
  if (!room && far < j->over && may_be_said(t)) {
    memcpy(j->large, t->base, n * sizeof *t->base);
    j->nlarge = n;
    j->over = far;
  }
}

/* Every value of the next one, the nearest first; t->base holds those before it. */
static void search(Joint *j, int far) {
  Tuning *t = j->t;
  size_t depth = t->nbase;
  int64_t bytes, own = tune_own(t, j->at[depth]);
  for (int times = 0; times <= DOUBLINGS && far + times < j->best; times++)
    for (int up = 1; up >= !times; up--) {
      int64_t x = candidate(own, times, up);
      t->base[depth] = (SpecStatic){j->at[depth], x};
      t->nbase = depth + 1;
      if (!x || far + times >= j->best || !may_be(j, &bytes))
        continue;
      if (t->nbase == j->n)
        take(j, far + times, bytes);
      else
        search(j, far + times);
    }
  t->nbase = depth;
}

/* In an arena of its own, which each try uses anew. */
static size_t meet_jointly(Tuning *t, SpecStatic *over) {
  Joint j = {.t = t, .free = tune_free_mask(t), .best = INT_MAX, .over = INT_MAX, .large = over};
  KernelSuits own;
  const IrKernel *plain = tune_build(t, NULL, 0);
  if (!plain) /* interrupted */
    return 0;
  concerns_find(&j.concerns, t->arena, t->k);
  kernel_suits(t->arena, plain, tune_bind(t, plain), &own);
  find_mask(&j, &own);
  order(&j);
  Arena *outer = t->arena;
  t->arena = arena_new(t->s->guard, "tile sizes, together");
  if (j.n)
    search(&j, 0);
  arena_free(t->arena);
  t->arena = outer;
  memcpy(t->base, j.found, j.nfound * sizeof *j.found);
  t->nbase = j.nfound;
  return j.nfound ? 0 : j.nlarge;
}

size_t tune_meet(Tuning *t, SpecStatic *over) {
  return meet_by_one(t) || t->k->nstatics > 64 ? 0 : meet_jointly(t, over);
}

/* ---------------------------------------------------------------- shorter rows */

/* What a kernel with one more parameter set is; NULL: its asserts forbid it. */
static const IrKernel *build_suiting(Tuning *t, size_t i, int64_t value) {
  const IrKernel *k = tune_build(t, &(SpecStatic){i, value}, 1);
  return k && suits(t, k) ? k : NULL;
}

typedef struct Row {
  const IrBinding *b;
  const bool *known;
  int64_t value, most; /* of the parameter; of the row's length, INT64_MAX: any */
} Row;

/* Whether the condition compares the value with the length of a row that it does not hold. */
static bool is_about_row(const Row *r, const IrExpr *cond) {
  if (cond->op == OP_AND || cond->op == OP_OR)
    return is_about_row(r, cond->arg[0]) || is_about_row(r, cond->arg[1]);
  if (cond->op == OP_NOT)
    return is_about_row(r, cond->arg[0]);
  if (cond->op != OP_LT && cond->op != OP_LE && cond->op != OP_GT && cond->op != OP_GE)
    return false;
  for (int i = 0; i < 2; i++) {
    int64_t own;
    Scalar other;
    if (ir_is_const(cond->arg[i], &own) && own == r->value && cond->arg[!i]->op != OP_CONST &&
        ir_known_eval(cond->arg[!i], r->b, r->known, &other) && other.as.i >= own &&
        other.as.i <= r->most)
      return true;
  }
  return false;
}

/* Whether a failing assert says so of a parameter's value; where it cannot be built, nothing is
 * said against any length. */
static bool cuts_row(Tuning *t, size_t i, int64_t value, int64_t most) {
  const IrKernel *k = tune_build(t, &(SpecStatic){i, value}, 1);
  IrBinding *b = k ? tune_bind(t, k) : NULL;
  KernelSuits now;
  if (!b)
    return most == INT64_MAX;
  kernel_suits(t->arena, k, b, &now);
  for (size_t f = 0; f < now.failing.n; f++) {
    const IrStmt *assert = now.failing.v[f];
    Row row = {b, kernel_known_at(t->arena, k, b, assert), value, most};
    if (is_about_row(&row, assert->as.report.cond))
      return true;
  }
  return false;
}

/* A row that twice the value holds, and half of it holds even less: the number in the assert is the
 * parameter, not one that happens to be equal. */
static bool is_row(Tuning *t, size_t i, int64_t value) {
  return cuts_row(t, i, value, 2 * value) && (value == 1 || cuts_row(t, i, value / 2, INT64_MAX));
}

/* How often a parameter may be halved until an assert says that it no longer holds a row; 0: not
 * once, or another assert forbids it first. */
static int halves_of(Tuning *t, size_t i) {
  int n = 0;
  for (int64_t x = tune_own(t, i) / 2; x > 0; x /= 2, n++)
    if (!build_suiting(t, i, x))
      return is_row(t, i, x) ? n : 0;
  return 0;
}

/* Whether it fills the multiprocessors twice, and no tile is larger than by the author's sizes. */
static bool stays_busy(Tuning *t, const IrKernel *k) {
  IrBinding *b = tune_bind(t, k);
  double blocks = b ? (double)b->grid[0] * (double)b->grid[1] * (double)b->grid[2] : 0;
  return blocks >= 2 * (double)session_sms(t->s) && tune_tile(t, k) <= t->tile;
}

/* More of what parameter j counts, as far as that makes the greatest tile larger again. */
static bool grow(Tuning *t, size_t j, int n) {
  const IrKernel *shorter = tune_build(t, NULL, 0);
  int64_t own = shorter ? tune_own(t, j) : 0, short_tile = own ? tune_tile(t, shorter) : 0;
  for (; own && n > 0; n--) {
    const IrKernel *k = own << n <= MOST_EXTENT ? build_suiting(t, j, own << n) : NULL;
    if (!k || tune_tile(t, k) <= short_tile || !stays_busy(t, k))
      continue;
    t->base[t->nbase++] = (SpecStatic){j, own << n};
    return true;
  }
  return false;
}

void tune_shorten(Tuning *t) {
  for (size_t i = 0; i < t->k->nstatics; i++) {
    int n = halves_of(t, i);
    if (!n)
      continue;
    t->base[t->nbase++] = (SpecStatic){i, tune_own(t, i) >> n};
    for (size_t j = 0; j < t->k->nstatics; j++)
      if (j != i && grow(t, j, n))
        return;
    return;
  }
}
