/* copy.c: COPY and atomics of regions.
 *
 * In: two views of equal extents. Out: every element of the destination that lies inside gets the
 * source's element, converted, or the pad where the source has none. Nothing else is touched. Axes
 * that lie alike on both sides are joined, so that rows are as long as can be.
 * Outside and inside are known by axis, so a row is at most three pieces: pad, copy, pad. A copy
 * within one tile goes through a copy of its source: every element is assigned once the right side
 * is complete.
 * Tests: tests/unit/check_eval.c (copies), tests/unit/check_eval_tiles.c (regions).
 */
#include <string.h>

#include "race.h"
#include "noise.h"
#include "watch.h"

enum { CHUNK = 512 };

typedef struct Axis {
  int64_t extent, dst, src;   /* elements; strides */
  int64_t dlo, dhi, slo, shi; /* inside */
} Axis;

typedef enum Move {
  MOVE_CONVERT,
  MOVE_UNPACK,
  MOVE_PACK,
  MOVE_GATHER,
  MOVE_SCATTER,
  MOVE_BYTES
} Move;

typedef struct Plan {
  EvalMem *dst, *src;
  int64_t dst_base, src_base;
  Axis axis[IR_MAX_RANK]; /* the last is the row */
  int n;
  bool empty;   /* the source has nothing */
  OpStrip cast; /* NULL: same type */
  bool pack;    /* f32 values go straight into a narrow float's stored form */
  Move move;
  uint64_t pad; /* compute form of the destination's type */
} Plan;

/* Every index is inside on both sides. */
static bool full(const Axis *x) {
  return x->dlo == 0 && x->slo == 0 && x->dhi == x->extent && x->shi == x->extent;
}

/* ---------------------------------------------------------------- rows */

/* Through compute form, a chunk that stays in the cache at a time. */
static void convert_row(const Plan *p, int64_t dst, int64_t dstep, int64_t src, int64_t sstep,
                        int64_t n) {
  double from[CHUNK], to[CHUNK];
  const void *one[1] = {from};
  for (int64_t i = 0; i < n; i += CHUNK) {
    int64_t k = n - i < CHUNK ? n - i : CHUNK;
    eval_mem_gather(p->src, src + i * sstep, sstep, from, k);
    if (p->cast)
      p->cast((size_t)k, to, one);
    eval_mem_scatter(p->dst, dst + i * dstep, dstep, p->cast ? to : from, k);
  }
}

/* How rows move, decided once. */
static Move choose(const Plan *p) {
  const Axis *x = &p->axis[p->n - 1];
  bool same = !p->cast && !p->pack;
  if (same && x->dst == 1 && !mem_packed(p->dst))
    return x->src == 1 && mem_packed(p->src) ? MOVE_UNPACK : MOVE_GATHER;
  if ((same || p->pack) && x->src == 1 && !mem_packed(p->src))
    return x->dst == 1 && mem_packed(p->dst) ? MOVE_PACK : MOVE_SCATTER;
  if (same && x->dst == 1 && x->src == 1)
    return MOVE_BYTES;
  return MOVE_CONVERT;
}

/* n elements from these places on. */
static void copy_row(const Plan *p, int64_t dst, int64_t src, int64_t n) {
  const Axis *x = &p->axis[p->n - 1];
  switch (p->move) {
  case MOVE_UNPACK:
    dtype_unpack(p->src->dtype, eval_mem_at(p->src, src), eval_mem_at(p->dst, dst), (size_t)n);
    break;
  case MOVE_PACK:
    dtype_pack(p->dst->dtype, eval_mem_at(p->src, src), eval_mem_at(p->dst, dst), (size_t)n);
    break;
  case MOVE_GATHER:
    eval_mem_gather(p->src, src, x->src, eval_mem_at(p->dst, dst), n);
    break;
  case MOVE_SCATTER:
    eval_mem_scatter(p->dst, dst, x->dst, eval_mem_at(p->src, src), n);
    break;
  case MOVE_BYTES:
    memcpy(eval_mem_at(p->dst, dst), eval_mem_at(p->src, src), (size_t)n * p->dst->size);
    break;
  case MOVE_CONVERT:
    convert_row(p, dst, x->dst, src, x->src, n);
  }
}

/* The pad is already of the destination's type. */
static void pad_row(const Plan *p, int64_t dst, int64_t dstep, int64_t n) {
  uint64_t value[CHUNK];
  size_t size = dtype_compute_size(p->dst->dtype);
  if (dstep == 1 && !mem_packed(p->dst)) {
    eval_fill_lanes(size, eval_mem_at(p->dst, dst), &p->pad, n);
    return;
  }
  eval_fill_lanes(size, value, &p->pad, n < CHUNK ? n : CHUNK);
  for (int64_t i = 0; i < n; i += CHUNK)
    eval_mem_scatter(p->dst, dst + i * dstep, dstep, value, n - i < CHUNK ? n - i : CHUNK);
}

/* lo wins where the range is empty. */
static int64_t clamp(int64_t x, int64_t lo, int64_t hi) {
  return x < lo ? lo : x > hi ? hi : x;
}

/* What lies before and after the source's inside is padded. */
static void run_row(const Plan *p, int64_t dst, int64_t src, bool outside) {
  const Axis *x = &p->axis[p->n - 1];
  int64_t a = clamp(x->slo, x->dlo, x->dhi), b = clamp(x->shi, a, x->dhi);
  if (outside)
    a = b = x->dhi;
  if (a > x->dlo)
    pad_row(p, dst + x->dlo * x->dst, x->dst, a - x->dlo);
  if (b > a)
    copy_row(p, dst + a * x->dst, src + a * x->src, b - a);
  if (x->dhi > b)
    pad_row(p, dst + b * x->dst, x->dst, x->dhi - b);
}

/* Rank 2 and nothing outside: the commonest by far. */
static bool run_plain(const Plan *p) {
  const Axis *x = &p->axis[0], *y = &p->axis[p->n - 1];
  if (p->n != 2 || p->empty || !full(x) || !full(y))
    return false;
  int64_t dst = p->dst_base, src = p->src_base;
  for (int64_t i = 0; i < x->extent; i++, dst += x->dst, src += x->src)
    copy_row(p, dst, src, y->extent);
  return true;
}

/* Offsets wrap: an origin far outside never becomes an address, its rows are outside. */
static void run_rows(const Plan *p) {
  int64_t i[IR_MAX_RANK];
  for (int d = 0; d < p->n; d++) {
    i[d] = p->axis[d].dlo;
    if (p->axis[d].dlo >= p->axis[d].dhi)
      return;
  }
  if (run_plain(p))
    return;
  for (;;) {
    uint64_t dst = (uint64_t)p->dst_base, src = (uint64_t)p->src_base;
    bool outside = p->empty;
    for (int d = 0; d < p->n - 1; d++) {
      const Axis *x = &p->axis[d];
      dst += (uint64_t)i[d] * (uint64_t)x->dst;
      src += (uint64_t)i[d] * (uint64_t)x->src;
      outside = outside || i[d] < x->slo || i[d] >= x->shi;
    }
    run_row(p, (int64_t)dst, (int64_t)src, outside);
    int d = p->n - 2;
    while (d >= 0 && ++i[d] == p->axis[d].dhi) {
      i[d] = p->axis[d].dlo;
      d--;
    }
    if (d < 0)
      return;
  }
}

/* ---------------------------------------------------------------- plans */

/* Puts the axis along which the destination is densest last, then joins neighbours. */
static void arrange(Plan *p) {
  int best = p->n - 1;
  for (int i = p->n - 2; i >= 0; i--)
    if (p->axis[best].dst != 1 && p->axis[i].dst == 1)
      best = i;
  if (best != p->n - 1) {
    Axis x = p->axis[best];
    memmove(&p->axis[best], &p->axis[best + 1], (size_t)(p->n - 1 - best) * sizeof x);
    p->axis[p->n - 1] = x;
  }
  while (p->n > 1) {
    Axis *in = &p->axis[p->n - 1], *out = &p->axis[p->n - 2];
    if (!full(in) || out->dst != in->dst * in->extent || out->src != in->src * in->extent)
      return;
    int64_t e = in->extent;
    *out = (Axis){out->extent * e, in->dst,      in->src,     out->dlo * e,
                  out->dhi * e,    out->slo * e, out->shi * e};
    p->n--;
  }
}

/* A region of single indices is one row of one element. */
static void plan_axes(Plan *p, const EvalView *d, const EvalView *s) {
  p->dst = d->mem;
  p->src = s->mem;
  p->dst_base = d->base;
  p->src_base = s->base;
  p->empty = s->empty;
  p->n = d->rank;
  for (int i = 0; i < p->n; i++)
    p->axis[i] =
        (Axis){d->extent[i], d->stride[i], s->stride[i], d->lo[i], d->hi[i], s->lo[i], s->hi[i]};
  if (p->n == 0)
    p->axis[p->n++] = (Axis){1, 1, 1, 0, 1, 0, 1};
  arrange(p);
}

/* The accumulator's f32 goes into f16 or f8 storage in one rounding. */
static void plan_types(Plan *p, OpIsa isa) {
  DType from = p->src->dtype, to = p->dst->dtype;
  p->cast = NULL;
  p->pack = false;
  if (from != to) {
    p->pack = from == DT_F32 && p->dst->stored && dtype_compute(to) == DT_F32;
    if (!p->pack)
      p->cast = op_strip_on(isa, OP_CAST, from, to);
  }
  p->move = choose(p);
}

/* Whether the other side must give an extent. */
static bool open_region(const EvalRegion *r) {
  for (int i = 0; i < r->rank; i++)
    if (r->axis[i].keep && !r->axis[i].extent)
      return true;
  return false;
}

/* Both sides; whichever states its extents first. */
static EvalResult resolve(EvalAgent *a, const EvalRegion *d, const EvalRegion *s, EvalView *dv,
                          EvalView *sv) {
  bool src_first = open_region(d) && !open_region(s);
  EvalResult r =
      src_first ? eval_region_resolve(a, s, NULL, sv) : eval_region_resolve(a, d, NULL, dv);
  if (r != EVAL_OK)
    return r;
  r = src_first ? eval_region_resolve(a, d, sv, dv) : eval_region_resolve(a, s, dv, sv);
  if (r != EVAL_OK)
    return r;
  bool same = dv->rank == sv->rank;
  for (int i = 0; same && i < dv->rank; i++)
    same = dv->extent[i] == sv->extent[i];
  return same ? EVAL_OK : eval_fault(a, E0456, "the two regions differ in shape");
}

/* The source's elements set aside, so that writing does not disturb what is still to be read. */
static EvalResult set_aside(EvalAgent *a, EvalView *s, EvalMem *copy) {
  int64_t n = 1;
  for (int i = 0; i < s->rank; i++)
    n *= s->extent[i];
  void *room = eval_block_scratch(a->block, (size_t)n * s->mem->size + 8);
  if (!room)
    return eval_fault(a, E0459, "out of memory");
  *copy = *s->mem;
  copy->data = room;
  EvalView d = *s;
  d.mem = copy;
  d.base = 0;
  int64_t step = 1;
  for (int i = s->rank - 1; i >= 0; i--) {
    d.stride[i] = step;
    d.lo[i] = 0;
    d.hi[i] = s->extent[i];
    step *= s->extent[i];
  }
  Plan p = {0};
  plan_axes(&p, &d, s);
  p.move = choose(&p);
  run_rows(&p);
  s->mem = copy;
  s->base = 0;
  memcpy(s->stride, d.stride, sizeof s->stride);
  return EVAL_OK;
}

/* Only what is copied must have been written: not what would land outside. */
static EvalResult check_source(EvalAgent *a, const EvalView *d, const EvalView *s) {
  EvalView part = *s;
  if (d->empty)
    return EVAL_OK;
  for (int i = 0; i < s->rank; i++) {
    part.lo[i] = s->lo[i] > d->lo[i] ? s->lo[i] : d->lo[i];
    part.hi[i] = s->hi[i] < d->hi[i] ? s->hi[i] : d->hi[i];
  }
  return eval_region_read(a, &part);
}

/* Shapes and what was written are checked before the first element moves. */
EvalResult eval_copy_run(EvalAgent *a, const EvalCopyCode *c) {
  EvalView d, s;
  EvalMem copy;
  Plan p = {0};
  EvalResult r = resolve(a, &c->dst, &c->src, &d, &s);
  if (r == EVAL_OK)
    r = check_source(a, &d, &s);
  if (r == EVAL_OK && d.mem->data == s.mem->data && d.mem == s.mem)
    r = set_aside(a, &s, &copy);
  if (r != EVAL_OK)
    return r;
  a->effects++;
  if (d.empty)
    return EVAL_OK;
  plan_axes(&p, &d, &s);
  plan_types(&p, a->block->isa);
  if (c->pad)
    memcpy(&p.pad, machine_reg(a, c->pad), sizeof p.pad);
  if (a->block->races && eval_races_region(a, &d, RACE_WRITE) != EVAL_OK)
    return EVAL_FAULTED;
  if (a->block->watch)
    eval_watch_copy(a, &d, &s);
  run_rows(&p);
  if (a->block->noise)
    eval_noise_copy(a, s.mem->dtype, &d);
  eval_region_mark_written(&d);
  return a->block->races ? eval_races_settle(a) : EVAL_OK;
}

/* ---------------------------------------------------------------- atomics */

static void atomic_one(EvalAgent *a, const EvalAtomicRegion *c, EvalMem *m, int64_t element,
                       const void *value) {
  uint64_t room;
  void *at = eval_mem_at(m, element);
  if (a->block->noise)
    value = eval_noise_atomic(a, c->op, m, at, value, &room);
  eval_atomic_apply(c->op, c->combine[a->block->isa], m->dtype, m->stored, at, value, NULL, NULL);
}

/* Only where both sides are inside. */
static void atomic_row(EvalAgent *a, const EvalAtomicRegion *c, const Plan *p, int64_t dst,
                       int64_t src) {
  const Axis *x = &p->axis[p->n - 1];
  double from[CHUNK], to[CHUNK];
  const void *one[1] = {from};
  size_t size = dtype_compute_size(p->dst->dtype);
  int64_t lo = x->dlo > x->slo ? x->dlo : x->slo, hi = x->dhi < x->shi ? x->dhi : x->shi;
  OpStrip cast = p->src->dtype == p->dst->dtype
                     ? NULL
                     : op_strip_on(a->block->isa, OP_CAST, p->src->dtype, p->dst->dtype);
  for (int64_t i = lo; i < hi; i += CHUNK) {
    int64_t k = hi - i < CHUNK ? hi - i : CHUNK;
    eval_mem_gather(p->src, src + i * x->src, x->src, from, k);
    if (cast)
      cast((size_t)k, to, one);
    for (int64_t j = 0; j < k; j++)
      atomic_one(a, c, p->dst, dst + (i + j) * x->dst,
                 (char *)(cast ? to : from) + (size_t)j * size);
  }
}

/* Row by row, in row-major order. */
EvalResult eval_copy_atomic(EvalAgent *a, const EvalAtomicRegion *c) {
  EvalView d, s;
  Plan p = {0};
  EvalResult r = resolve(a, &c->dst, &c->src, &d, &s);
  if (r == EVAL_OK)
    r = eval_region_read(a, &s);
  if (r == EVAL_OK)
    r = eval_region_check_written(a, &d);
  if (r == EVAL_OK && a->block->races)
    r = eval_races_region(a, &d, RACE_ATOMIC);
  if (r != EVAL_OK || d.empty || s.empty)
    return r;
  a->effects++;
  plan_axes(&p, &d, &s);
  int64_t i[IR_MAX_RANK];
  for (int k = 0; k < p.n; k++) {
    i[k] = p.axis[k].dlo;
    if (p.axis[k].dlo >= p.axis[k].dhi)
      return EVAL_OK;
  }
  for (;;) {
    int64_t dst = p.dst_base, src = p.src_base;
    bool outside = false;
    for (int k = 0; k < p.n - 1; k++) {
      dst += i[k] * p.axis[k].dst;
      src += i[k] * p.axis[k].src;
      outside = outside || i[k] < p.axis[k].slo || i[k] >= p.axis[k].shi;
    }
    if (!outside)
      atomic_row(a, c, &p, dst, src);
    int k = p.n - 2;
    while (k >= 0 && ++i[k] == p.axis[k].dhi) {
      i[k] = p.axis[k].dlo;
      k--;
    }
    if (k < 0)
      return EVAL_OK;
  }
}
