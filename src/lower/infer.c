/* infer.c: which fragments lie in registers, and how.
 *
 * In: the kernel's statements, the number of threads. Out: Place.frag of each fragment that every
 * statement can take from registers; the layout over which each MAP iterates. Always holds: all
 * fragments that a MAP touches have the layout that its iteration gives them, or lie in shared
 * memory, where any access finds them: a conflict costs time, never a result. Products give the
 * first layouts, then the largest copies to and from tensors; maps, copies and reductions hand them
 * on. Tests: tests/unit/check_lower.c.
 */
#include "hopper.h"

enum { MOST_REGISTERS = 160 };

typedef struct Infer {
  Simple *s;
  IrBlock *body;     /* of the kernel or of a role, whose threads are s->threads */
  size_t iterations; /* of other roles */
  bool changed, restart;
} Infer;

static void share(Infer *f, const IrBuffer *b, const char *why) {
  Place *p = low_place_of(f->s, b);
  if (!p->fragment || p->shared)
    return;
  p->shared = true;
  f->restart = true;
  lower_note(f->s->request, "fragment %s lies in shared memory: %s", b->name, why);
}

/* Still to be had in registers. */
static bool open_to(Infer *f, const IrBuffer *b) {
  Place *p = low_place_of(f->s, b);
  return p->fragment && !p->shared;
}

/* ---------------------------------------------------------------- what a MAP's accesses are */

bool expand_mapping(Simple *s, IrVar *const *var, const int64_t *extent, int naxes,
                    const IrAccess *a, int *from) {
  const Place *p = low_place_of(s, a->buf);
  unsigned used = 0;
  for (int d = 0; d < p->rank; d++) {
    const IrExpr *e = a->index[d];
    int64_t c;
    from[d] = -1;
    if (p->extent[d] == 1 && ir_is_const(e, &c) && c == 0)
      continue;
    for (int j = 0; j < naxes && e->op == OP_VAR; j++)
      if (e->as.var == var[j] && extent[j] == p->extent[d] && !(used >> j & 1))
        from[d] = j;
    if (from[d] < 0)
      return false;
    used |= 1U << from[d];
  }
  return true;
}

/* Constant extents of a map; false where one is not constant. */
static bool map_extents(const IrMap *m, int64_t *extent) {
  for (int i = 0; i < m->naxes; i++)
    if (!ir_is_const(m->extent[i], &extent[i]) || extent[i] < 1)
      return false;
  return m->naxes > 0;
}

/* ---------------------------------------------------------------- what needs shared memory */

static void scan(Infer *f, IrBlock *b, const IrMap *map);

static void scan_access(Infer *f, const IrStmt *st, const IrAccess *a, const IrMap *map) {
  int64_t extent[4];
  int from[IR_MAX_RANK];
  if (!open_to(f, a->buf))
    return;
  if (!map)
    share(f, a->buf, "one of its elements is used by itself");
  else if (st->kind == IRK_ATOMIC)
    share(f, a->buf, "atomics touch it");
  else if (!map_extents(map, extent) ||
           !expand_mapping(f->s, map->index, extent, map->naxes, a, from))
    share(f, a->buf, "an index is not the loop's own");
}

bool expand_whole(Simple *s, const IrRegion *r) {
  const Place *p = low_place_of(s, r->buf);
  for (int d = 0; d < p->rank; d++) {
    int64_t c;
    const IrAxis *x = &r->axis[d];
    if (!x->keep || x->stop || x->step != 1 || x->extent != p->extent[d] ||
        !ir_is_const(x->origin, &c) || c != 0)
      return false;
  }
  return !r->trans;
}

static void want_whole(Infer *f, const IrRegion *r) {
  if (r->buf && open_to(f, r->buf) && !expand_whole(f->s, r))
    share(f, r->buf, "a part of it, or its transpose, is an operand");
}

static void scan_reduce(Infer *f, const IrReduce *r) {
  want_whole(f, &r->src);
  want_whole(f, &r->dst);
  if ((r->op == OP_ARGMAX || r->op == OP_ARGMIN) && !r->dst.buf)
    share(f, r->src.buf, "the index of its best element is asked for");
  if (r->dst.buf && open_to(f, r->src.buf) != open_to(f, r->dst.buf)) {
    share(f, r->src.buf, "its reduction lies in shared memory");
    share(f, r->dst.buf, "what it reduces lies in shared memory");
  }
}

/* A warp's product takes its first operand from registers only as the accumulator of rows lies. */
static void scan_dot(Infer *f, const IrDot *d) {
  Frag c, a;
  bool mma = expand_is_mma(f->s, d) && open_to(f, d->c.buf) && expand_dot_frag(f->s, d, &c);
  bool fma = !mma && expand_is_fma(f->s, d) && open_to(f, d->c.buf);
  int warps = f->s->threads / 32;
  low_place_of(f->s, d->c.buf)->product = mma || fma;
  if (!mma && !fma)
    share(f, d->c.buf, "no product can add to it in registers");
  if (!mma || !expand_takes_fragment(d) || !expand_whole(f->s, &d->a) || d->a.buf->rank != 2 ||
      !frag_accumulator(&a, ir_region_extent(&d->a, 0), ir_region_extent(&d->a, 1), warps, 1))
    share(f, d->a.buf, "no product can take it from registers");
  share(f, d->b.buf, "it is the second operand of a product");
}

static void scan_stmt(Infer *f, IrStmt *st, const IrMap *map) {
  switch (st->kind) {
  case IRK_LOAD:
  case IRK_STORE:
    scan_access(f, st, &st->as.access.at, map);
    break;
  case IRK_ATOMIC:
    if (st->as.atomic.region)
      want_whole(f, &st->as.atomic.src);
    else
      scan_access(f, st, &st->as.atomic.at, map);
    break;
  case IRK_COPY:
    if (st->as.copy.dst.buf->id < f->s->owned.n && f->s->owned.v[st->as.copy.dst.buf->id])
      break; /* part by part into a staging tile */
    want_whole(f, &st->as.copy.dst);
    want_whole(f, &st->as.copy.src);
    break;
  case IRK_REDUCE:
    scan_reduce(f, &st->as.reduce);
    break;
  case IRK_SCAN:
    want_whole(f, &st->as.scan.src);
    want_whole(f, &st->as.scan.dst);
    break;
  case IRK_DOT:
    if (st->as.dot.unit != IRU_WGMMA)
      scan_dot(f, &st->as.dot);
    break;
  case IRK_REPORT:
    for (int i = 0; i < st->as.report.nparts; i++)
      if (st->as.report.part[i].region)
        low_place_of(f->s, st->as.report.part[i].region->buf)->printed = true;
    for (int i = 0; i < st->as.report.nparts; i++)
      if (st->as.report.part[i].region)
        share(f, st->as.report.part[i].region->buf, "it is printed");
    break;
  default:
    break;
  }
}

static void scan(Infer *f, IrBlock *b, const IrMap *map) {
  for (size_t i = 0; i < b->n; i++) {
    IrStmt *st = b->v[i];
    IrBlock *inner;
    if (st->kind == IRK_FOR)
      low_index_range(st->as.loop.index, st->as.loop.lo, st->as.loop.hi, st->as.loop.step);
    if (st->kind == IRK_LET)
      low_let_range(st->as.let.var, st->as.let.value);
    scan_stmt(f, st, map);
    for (int j = 0; (inner = ir_nested(st, j)); j++)
      scan(f, inner, st->kind == IRK_MAP ? &st->as.map : map);
  }
}

/* ---------------------------------------------------------------- handing layouts on */

static void give(Infer *f, const IrBuffer *b, const Frag *frag) {
  Place *p = low_place_of(f->s, b);
  if (p->frag) {
    if (!frag_equal(p->frag, frag) && f->s->pairs && !f->s->no_pairs)
      f->s->no_pairs = f->restart = true; /* products can do without */
    else if (!frag_equal(p->frag, frag))
      share(f, b, "two statements want it in different layouts");
    return;
  }
  int64_t words = dtype_size(b->dtype) > 4 ? 2 : 1;
  if (frag_registers(frag) * words > MOST_REGISTERS) {
    share(f, b, "it needs too many registers of a thread");
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
  if (t->iter || !open_to(t->f, a->buf) || !p->frag)
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
  if (!open_to(t->f, a->buf) ||
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
  if (!map_extents(t.map, t.extent) || expand_map_frag(f->s, st))
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
  if (!p->frag || p->shared || !r->dst.buf || !open_to(f, r->dst.buf))
    return;
  Frag g = reduced(f->s, r, p->frag);
  give(f, r->dst.buf, &g);
}

/* From one side to the other. */
static void hand_scan(Infer *f, const IrScan *c) {
  const Place *d = low_place_of(f->s, c->dst.buf), *p = low_place_of(f->s, c->src.buf);
  if (!open_to(f, c->dst.buf) || !open_to(f, c->src.buf))
    return;
  if (p->frag)
    give(f, c->dst.buf, p->frag);
  else if (d->frag)
    give(f, c->src.buf, d->frag);
}

static void hand_copy(Infer *f, const IrCopy *c) {
  if (!open_to(f, c->dst.buf) || !open_to(f, c->src.buf))
    return;
  const Place *d = low_place_of(f->s, c->dst.buf), *p = low_place_of(f->s, c->src.buf);
  if (d->rank != p->rank)
    share(f, c->dst.buf, "it is a copy of a tile of another rank");
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
  if (open_to(f, d->c.buf) && expand_is_mma(f->s, d) && expand_dot_frag(f->s, d, &c))
    give(f, d->c.buf, &c);
  if (open_to(f, d->a.buf) && expand_takes_fragment(d) &&
      frag_accumulator(&a, ir_region_extent(&d->a, 0), ir_region_extent(&d->a, 1),
                       f->s->threads / 32, 1))
    give(f, d->a.buf, &a);
}

/* A product without tensor cores takes its result as it lies. */
static bool give_fma(IrStmt *st, void *ctx) {
  Infer *f = ctx;
  const IrDot *d = &st->as.dot;
  if (st->kind != IRK_DOT || d->unit == IRU_WGMMA || !open_to(f, d->c.buf) ||
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
    if (open_to(f, side[i]) && hopper_frag(&st->as.dot, side[i], warps / GROUP_WARPS, &g))
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
  if (!open_to(seed->f, tile->buf) || p->frag)
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
  if (!open_to(seed->f, st->as.alloc) || p->frag || p->rank == 0 || n <= seed->count)
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

/* ---------------------------------------------------------------- what is left over */

/* A MAP over no registers, or with atomics to do once, finds its fragments in shared memory. */
static bool share_touched(IrStmt *st, void *ctx) {
  if (st->kind == IRK_LOAD || st->kind == IRK_STORE)
    share(ctx, st->as.access.at.buf, "a loop that touches it is spread otherwise");
  return true;
}

static bool finds_atomic(IrStmt *st, void *ctx) {
  *(bool *)ctx |= st->kind == IRK_ATOMIC || st->kind == IRK_REPORT;
  return true;
}

/* A loop of which so much text would be unrolled is better rolled, over shared memory. */
static bool share_costly(IrStmt *st, void *ctx) {
  Infer *f = ctx;
  const IrBuffer *b = st->as.access.at.buf;
  if ((st->kind == IRK_LOAD || st->kind == IRK_STORE) && !low_place_of(f->s, b)->product)
    share(f, b, "a loop that touches it is long to unroll");
  return true;
}

/* A scan goes over registers of one layout that has its axis in one piece, or over shared tiles. */
static void check_scan(Infer *f, const IrScan *c) {
  const Frag *d = low_place_of(f->s, c->dst.buf)->frag, *p = low_place_of(f->s, c->src.buf)->frag;
  if ((!d && !p) || (d && p && frag_equal(d, p) && expand_scans(p, c->axis)))
    return;
  share(f, c->src.buf, "a scan reads it");
  share(f, c->dst.buf, "a scan writes it");
}

/* Both sides of an operation lie in registers, or neither. */
static bool check_sides(Infer *f, IrStmt *st) {
  const IrReduce *r = &st->as.reduce;
  const IrCopy *c = &st->as.copy;
  bool uneven = st->kind == IRK_REDUCE && r->dst.buf &&
                !low_place_of(f->s, r->src.buf)->frag != !low_place_of(f->s, r->dst.buf)->frag;
  if (uneven) {
    share(f, r->src.buf, "its reduction lies in shared memory");
    share(f, r->dst.buf, "what it reduces lies in shared memory");
  }
  if (st->kind == IRK_SCAN)
    check_scan(f, &st->as.scan);
  if (st->kind == IRK_COPY && !hopper_groups(f->s->k) && !expand_takes_copy(f->s, c)) {
    share(f, c->dst.buf, "a copy writes it that is not known to lie inside");
    share(f, c->src.buf, "a copy reads it that is not known to lie inside");
  }
  return true;
}

static bool check_map(IrStmt *st, void *ctx) {
  Infer *f = ctx;
  bool atomic = false;
  if (st->kind != IRK_MAP)
    return check_sides(f, st);
  ir_walk(&st->as.map.body, finds_atomic, &atomic);
  if (atomic || !expand_map_frag(f->s, st) || expand_copies_differ(f->s, st))
    ir_walk(&st->as.map.body, share_touched, f);
  else if (expand_is_costly(f->s, st))
    ir_walk(&st->as.map.body, share_costly, f);
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
    scan(&f, b, NULL);
    ir_walk(b, give_dot, &f);
    ir_walk(b, give_fma, &f);
    do {
      f.changed = false;
      ir_walk(b, hand_on, &f);
    } while (!f.restart && (f.changed || plant(&f)));
    ir_walk(b, check_map, &f);
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
      share(&f, s->k->body.v[i]->as.alloc, "it is not one role's alone");
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
