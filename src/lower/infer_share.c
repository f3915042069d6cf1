/* infer_share.c: which fragments cannot lie in registers.
 *
 * In: the statements that touch fragments, before any has a layout, and again when all have theirs.
 * Out: Place.shared of each that some statement finds in shared memory only, with a note that says
 * why. Always holds: what is shared stays so, so inference, which begins anew after each, ends.
 * Tests: tests/unit/check_lower.c.
 */
#include "hopper.h"
#include "infer.h"

void infer_share(Infer *f, const IrBuffer *b, const char *why) {
  Place *p = low_place_of(f->s, b);
  if (!p->fragment || p->shared)
    return;
  p->shared = true;
  f->restart = true;
  lower_note(f->s->request, "fragment %s lies in shared memory: %s", b->name, why);
}

bool infer_open(Infer *f, const IrBuffer *b) {
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

bool infer_extents(const IrMap *m, int64_t *extent) {
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
  if (!infer_open(f, a->buf))
    return;
  if (!map)
    infer_share(f, a->buf, "one of its elements is used by itself");
  else if (st->kind == IRK_ATOMIC)
    infer_share(f, a->buf, "atomics touch it");
  else if (!infer_extents(map, extent) ||
           !expand_mapping(f->s, map->index, extent, map->naxes, a, from))
    infer_share(f, a->buf, "an index is not the loop's own");
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
  if (r->buf && infer_open(f, r->buf) && !expand_whole(f->s, r))
    infer_share(f, r->buf, "a part of it, or its transpose, is an operand");
}

static void scan_reduce(Infer *f, const IrReduce *r) {
  want_whole(f, &r->src);
  want_whole(f, &r->dst);
  if ((r->op == OP_ARGMAX || r->op == OP_ARGMIN) && !r->dst.buf)
    infer_share(f, r->src.buf, "the index of its best element is asked for");
  if (r->dst.buf && infer_open(f, r->src.buf) != infer_open(f, r->dst.buf)) {
    infer_share(f, r->src.buf, "its reduction lies in shared memory");
    infer_share(f, r->dst.buf, "what it reduces lies in shared memory");
  }
}

/* A warp's product takes its first operand from registers only as the accumulator of rows lies. */
static void scan_dot(Infer *f, const IrDot *d) {
  Frag c, a;
  bool mma = expand_is_mma(f->s, d) && infer_open(f, d->c.buf) && expand_dot_frag(f->s, d, &c);
  bool fma = !mma && expand_is_fma(f->s, d) && infer_open(f, d->c.buf);
  int warps = f->s->threads / 32;
  low_place_of(f->s, d->c.buf)->product = mma || fma;
  if (!mma && !fma)
    infer_share(f, d->c.buf, "no product can add to it in registers");
  if (!mma || !expand_takes_fragment(d) || !expand_whole(f->s, &d->a) || d->a.buf->rank != 2 ||
      !frag_accumulator(&a, ir_region_extent(&d->a, 0), ir_region_extent(&d->a, 1), warps, 1))
    infer_share(f, d->a.buf, "no product can take it from registers");
  infer_share(f, d->b.buf, "it is the second operand of a product");
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
        infer_share(f, st->as.report.part[i].region->buf, "it is printed");
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

void infer_scan(Infer *f, IrBlock *b) {
  scan(f, b, NULL);
}

/* ---------------------------------------------------------------- what is left over */

/* A MAP over no registers, or with atomics to do once, finds its fragments in shared memory. */
static bool share_touched(IrStmt *st, void *ctx) {
  if (st->kind == IRK_LOAD || st->kind == IRK_STORE)
    infer_share(ctx, st->as.access.at.buf, "a loop that touches it is spread otherwise");
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
    infer_share(f, b, "a loop that touches it is long to unroll");
  return true;
}

/* A scan goes over registers of one layout that has its axis in one piece, or over shared tiles. */
static void check_scan(Infer *f, const IrScan *c) {
  const Frag *d = low_place_of(f->s, c->dst.buf)->frag, *p = low_place_of(f->s, c->src.buf)->frag;
  if ((!d && !p) || (d && p && frag_equal(d, p) && expand_scans(p, c->axis)))
    return;
  infer_share(f, c->src.buf, "a scan reads it");
  infer_share(f, c->dst.buf, "a scan writes it");
}

/* Both sides of an operation lie in registers, or neither. */
static bool check_sides(Infer *f, IrStmt *st) {
  const IrReduce *r = &st->as.reduce;
  const IrCopy *c = &st->as.copy;
  bool uneven = st->kind == IRK_REDUCE && r->dst.buf &&
                !low_place_of(f->s, r->src.buf)->frag != !low_place_of(f->s, r->dst.buf)->frag;
  if (uneven) {
    infer_share(f, r->src.buf, "its reduction lies in shared memory");
    infer_share(f, r->dst.buf, "what it reduces lies in shared memory");
  }
  if (st->kind == IRK_SCAN)
    check_scan(f, &st->as.scan);
  if (st->kind == IRK_COPY && !hopper_groups(f->s->k) && !expand_takes_copy(f->s, c)) {
    infer_share(f, c->dst.buf, "a copy writes it that is not known to lie inside");
    infer_share(f, c->src.buf, "a copy reads it that is not known to lie inside");
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

void infer_check(Infer *f, IrBlock *b) {
  ir_walk(b, check_map, f);
}
