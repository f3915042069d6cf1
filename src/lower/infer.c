/* infer.c: which fragments lie in registers, and how.
 *
 * In: the kernel's statements, the number of threads. Out: Place.frag of each fragment that every
 * statement can take from registers; the layout over which each MAP iterates. Always holds: all
 * fragments that a MAP touches have the layout that its iteration gives them, or lie in shared
 * memory (infer_share.c), where any access finds them: a conflict costs time, never a result.
 * Products give the first layouts, then the largest copies to and from tensors; maps, copies and
 * reductions hand them on. Tests: tests/unit/check_lower.c.
 */
#include "infer.h"

#include "hopper.h"

enum { MOST_REGISTERS = 160 };

/* ---------------------------------------------------------------- handing layouts on */

static void give(Infer *f, const IrBuffer *b, const Frag *frag) {
  Place *p = low_place_of(f->s, b);
  if (p->frag) {
    if (!frag_equal(p->frag, frag) && f->s->pairs && !f->s->no_pairs)
      f->s->no_pairs = f->restart = true; /* products can do without */
    else if (!frag_equal(p->frag, frag))
      infer_share(f, b, "two statements want it in different layouts");
    return;
  }
  int64_t words = dtype_size(b->dtype) > 4 ? 2 : 1;
  if (frag_registers(frag) * words > MOST_REGISTERS) {
    infer_share(f, b, "it needs too many registers of a thread");
    return;
  }
  p->frag = arena_copy(f->s->arena, frag, sizeof *frag);
  f->changed = true;
}

/* Fragments that a MAP touches. */
typedef struct Touch {
  Infer *f;
  const IrMap *map;
  int64_t extent[4];
  const Frag *iter; /* layout of its iteration; NULL: not known yet */
  Frag own;
} Touch;

/* The iteration that gives the buffer its layout, where the buffer has all of its axes. */
static bool iteration_of(const Touch *t, const Frag *frag, const int *from, Frag *out) {
  int back[IR_MAX_RANK];
  for (int j = 0; j < t->map->naxes; j++)
    back[j] = -1;
  for (int d = 0; d < frag->rank; d++)
    if (from[d] >= 0)
      back[from[d]] = d;
  for (int j = 0; j < t->map->naxes; j++)
    if (back[j] < 0 && t->extent[j] > 1)
      return false;
  *out = frag_project(frag, t->map->naxes, back, t->extent);
  return true;
}

/* First round: does a fragment that it touches say how to iterate? */
static bool find_iteration(IrStmt *st, void *ctx) {
  Touch *t = ctx;
  int from[IR_MAX_RANK];
  if (st->kind != IRK_LOAD && st->kind != IRK_STORE)
    return true;
  const IrAccess *a = &st->as.access.at;
  const Place *p = low_place_of(t->f->s, a->buf);
  if (t->iter || !infer_open(t->f, a->buf) || !p->frag)
    return true;
  if (expand_mapping(t->f->s, t->map->index, t->extent, t->map->naxes, a, from) &&
      iteration_of(t, p->frag, from, &t->own))
    t->iter = &t->own;
  return true;
}

/* Second round: the others get theirs from the iteration. */
static bool give_iteration(IrStmt *st, void *ctx) {
  Touch *t = ctx;
  int from[IR_MAX_RANK];
  if (st->kind != IRK_LOAD && st->kind != IRK_STORE)
    return true;
  const IrAccess *a = &st->as.access.at;
  if (!infer_open(t->f, a->buf) ||
      !expand_mapping(t->f->s, t->map->index, t->extent, t->map->naxes, a, from))
    return true;
  const Place *p = low_place_of(t->f->s, a->buf);
  Frag g = frag_project(t->iter, p->rank, from, p->extent);
  give(t->f, a->buf, &g);
  return true;
}

const Frag *expand_map_frag(Simple *s, IrStmt *st) {
  for (size_t i = 0; i < s->iterations.n; i++)
    if (s->iterations.v[i].st == st)
      return s->iterations.v[i].frag;
  return NULL;
}

static void hand_map(Infer *f, IrStmt *st) {
  Touch t = {.f = f, .map = &st->as.map};
  if (!infer_extents(t.map, t.extent) || expand_map_frag(f->s, st))
    return;
  ir_walk(&st->as.map.body, find_iteration, &t);
  if (!t.iter)
    return;
  Iteration it = {st, arena_copy(f->s->arena, t.iter, sizeof *t.iter)};
  VEC_PUSH(f->s->arena, &f->s->iterations, it);
  f->changed = true;
  ir_walk(&st->as.map.body, give_iteration, &t);
}

/* The axes of the result, in the source's numbers. */
static Frag reduced(Simple *s, const IrReduce *r, const Frag *src) {
  const Place *d = low_place_of(s, r->dst.buf);
  int from[IR_MAX_RANK];
  for (int i = 0, j = 0; i < d->rank; i++, j++) {
    if (d->rank == src->rank && i == r->axis) {
      from[i] = -1;
      continue;
    }
    if (d->rank != src->rank && j == r->axis)
      j++;
    from[i] = j;
  }
  return frag_project(src, d->rank, from, d->extent);
}

static void hand_reduce(Infer *f, const IrReduce *r) {
  const Place *p = low_place_of(f->s, r->src.buf);
  if (!p->frag || p->shared || !r->dst.buf || !infer_open(f, r->dst.buf))
    return;
  Frag g = reduced(f->s, r, p->frag);
  give(f, r->dst.buf, &g);
}

/* From one side to the other. */
static void hand_scan(Infer *f, const IrScan *c) {
  const Place *d = low_place_of(f->s, c->dst.buf), *p = low_place_of(f->s, c->src.buf);
  if (!infer_open(f, c->dst.buf) || !infer_open(f, c->src.buf))
    return;
  if (p->frag)
    give(f, c->dst.buf, p->frag);
  else if (d->frag)
    give(f, c->src.buf, d->frag);
}

static void hand_copy(Infer *f, const IrCopy *c) {
  if (!infer_open(f, c->dst.buf) || !infer_open(f, c->src.buf))
    return;
  const Place *d = low_place_of(f->s, c->dst.buf), *p = low_place_of(f->s, c->src.buf);
  if (d->rank != p->rank)
    infer_share(f, c->dst.buf, "it is a copy of a tile of another rank");
  else if (p->frag)
    give(f, c->dst.buf, p->frag);
  else if (d->frag)
    give(f, c->src.buf, d->frag);
}

static bool hand_on(IrStmt *st, void *ctx) {
  if (st->kind == IRK_MAP)
    hand_map(ctx, st);
  else if (st->kind == IRK_REDUCE)
    hand_reduce(ctx, &st->as.reduce);
  else if (st->kind == IRK_SCAN)
    hand_scan(ctx, &st->as.scan);
  else if (st->kind == IRK_COPY)
    hand_copy(ctx, &st->as.copy);
  return true;
}

/* ---------------------------------------------------------------- first layouts */

/* The same of products of single warps. */
static void give_mma(Infer *f, const IrDot *d) {
  Frag c, a;
  if (infer_open(f, d->c.buf) && expand_is_mma(f->s, d) && expand_dot_frag(f->s, d, &c))
    give(f, d->c.buf, &c);
  if (infer_open(f, d->a.buf) && expand_takes_fragment(d) &&
      frag_accumulator(&a, ir_region_extent(&d->a, 0), ir_region_extent(&d->a, 1),
                       f->s->threads / 32, 1))
    give(f, d->a.buf, &a);
}

/* A product without tensor cores takes its result as it lies. */
static bool give_fma(IrStmt *st, void *ctx) {
  Infer *f = ctx;
  const IrDot *d = &st->as.dot;
  if (st->kind != IRK_DOT || d->unit == IRU_WGMMA || !infer_open(f, d->c.buf) ||
      low_place_of(f->s, d->c.buf)->frag)
    return true;
  Frag c = expand_fma_frag(f->s, d);
  give(f, d->c.buf, &c);
  return true;
}

/* What a warpgroup's product computes, and what it takes from registers. */
static bool give_dot(IrStmt *st, void *ctx) {
  Infer *f = ctx;
  if (st->kind == IRK_DOT && st->as.dot.unit != IRU_WGMMA)
    give_mma(f, &st->as.dot);
  if (st->kind != IRK_DOT || st->as.dot.unit != IRU_WGMMA)
    return true;
  const IrBuffer *side[] = {st->as.dot.c.buf, st->as.dot.a.buf};
  int groups = hopper_groups(f->s->k), warps = groups ? GROUP_WARPS * groups : f->s->threads / 32;
  for (int i = 0; i < 2; i++) {
    Frag g;
    if (infer_open(f, side[i]) && hopper_frag(&st->as.dot, side[i], warps / GROUP_WARPS, &g))
      give(f, side[i], &g);
  }
  return true;
}

/* The copy between a tensor and a fragment without a layout that moves the most. */
typedef struct Seed {
  Infer *f;
  const IrBuffer *best;
  int64_t count;
  int axis;
  int64_t width;
} Seed;

static void consider(Seed *seed, const IrRegion *tile, const IrRegion *other) {
  const Place *p = low_place_of(seed->f->s, tile->buf);
  int64_t n = 1;
  if (!infer_open(seed->f, tile->buf) || p->frag)
    return;
  for (int d = 0; d < p->rank; d++)
    n *= p->extent[d];
  if (n <= seed->count || p->rank == 0)
    return;
  seed->best = tile->buf;
  seed->count = n;
  seed->axis = p->rank - 1;
  seed->width = expand_vector_axis(seed->f->s, other, &seed->axis);
}

static bool find_seed(IrStmt *st, void *ctx) {
  if (st->kind == IRK_COPY) {
    const IrCopy *c = &st->as.copy;
    if (low_is_global(((Seed *)ctx)->f->s, &c->src))
      consider(ctx, &c->dst, &c->src);
    if (low_is_global(((Seed *)ctx)->f->s, &c->dst))
      consider(ctx, &c->src, &c->dst);
  }
  return true;
}

/* A fragment that no tensor meets. */
static bool find_any(IrStmt *st, void *ctx) {
  if (st->kind != IRK_ALLOC)
    return true;
  Seed *seed = ctx;
  const Place *p = low_place_of(seed->f->s, st->as.alloc);
  int64_t n = 1;
  for (int d = 0; d < p->rank; d++)
    n *= p->extent[d];
  if (!infer_open(seed->f, st->as.alloc) || p->frag || p->rank == 0 || n <= seed->count)
    return true;
  seed->best = st->as.alloc;
  seed->count = n;
  seed->axis = p->rank - 1;
  seed->width = 4;
  return true;
}

static bool plant(Infer *f) {
  Seed seed = {.f = f};
  ir_walk(f->body, find_seed, &seed);
  if (!seed.best)
    ir_walk(f->body, find_any, &seed);
  if (!seed.best)
    return false;
  const Place *p = low_place_of(f->s, seed.best);
  while (p->extent[seed.axis] % seed.width)
    seed.width /= 2;
  Frag g = frag_rows(p->rank, p->extent, seed.axis, seed.width, f->s->threads);
  give(f, seed.best, &g);
  return true;
}

/* ---------------------------------------------------------------- all of it */

static void forget(const Infer *f) {
  f->s->iterations.n = f->iterations;
  for (size_t i = 0; i < f->s->place.n; i++)
    if (!f->s->place.v[i]->settled)
      f->s->place.v[i]->frag = NULL;
}

/* For :explain: who holds what. */
static void note_layouts(Simple *s) {
  for (size_t i = 0; i < s->place.n && s->request->notes; i++) {
    Str text = str_new(s->arena);
    if (!s->place.v[i]->frag)
      continue;
    frag_print(s->place.v[i]->frag, &text);
    lower_note(s->request, "fragment %s in registers (extent:axis:step): %s",
               s->k->buffers.v[i]->name, str_text(&text));
  }
}

/* Every conflict moves a fragment to shared memory, so it ends. */
static void infer_block(Simple *s, IrBlock *b) {
  Infer f = {.s = s, .body = b, .iterations = s->iterations.n};
  do {
    f.restart = false;
    forget(&f);
    infer_scan(&f, b);
    ir_walk(b, give_dot, &f);
    ir_walk(b, give_fma, &f);
    do {
      f.changed = false;
      ir_walk(b, hand_on, &f);
    } while (!f.restart && (f.changed || plant(&f)));
    infer_check(&f, b);
  } while (f.restart);
  for (size_t i = 0; i < s->place.n; i++)
    s->place.v[i]->settled |= s->place.v[i]->frag != NULL;
}

/* What is declared outside belongs to no role. */
static void infer_roles(Simple *s, const IrRoles *r) {
  int threads = s->threads;
  Infer f = {.s = s};
  for (size_t i = 0; i < s->k->body.n; i++)
    if (s->k->body.v[i]->kind == IRK_ALLOC)
      infer_share(&f, s->k->body.v[i]->as.alloc, "it is not one role's alone");
  for (int i = 0; i < r->nroles; i++) {
    s->threads = 32 * r->role[i].warps;
    infer_block(s, &r->role[i].body);
  }
  s->threads = threads;
}

void expand_infer(Simple *s) {
  IrRoles *roles = expand_author_roles(s->k);
  if (roles)
    infer_roles(s, roles);
  else
    infer_block(s, &s->k->body);
  note_layouts(s);
}
