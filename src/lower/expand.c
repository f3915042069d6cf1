/* expand.c: which statements are expanded, and by whom (see expand.h).
 *
 * In: a statement of the scheduled level. Out: thread-level statements where s->out is. Always
 * holds: what is not taken here goes the way of simple.h. Tests: tests/unit/check_lower.c.
 */
#include "expand_gather.h"
#include "hopper.h"
#include "ring.h"

/* Called with everything that s says set (where statements go, the role's threads); true: taken. */
typedef struct Hook {
  IrKind kind;
  bool (*take)(Simple *s, IrStmt *st);
} Hook;

/* Those that come with schedules stand first: a COPY with an engine, a DOT of a warpgroup. */
static const Hook hooks[] = {
    {IRK_ROLES, hopper_roles},     {IRK_TILE_LOOP, hopper_tile_loop},
    {IRK_CHANNEL, hopper_channel}, {IRK_ACQUIRE, hopper_channel},
    {IRK_COMMIT, hopper_channel},  {IRK_WAIT, hopper_channel},
    {IRK_RELEASE, hopper_channel}, {IRK_DOT_WAIT, hopper_wait},
    {IRK_STORE_WAIT, hopper_wait}, {IRK_SYNC, hopper_wait},
    {IRK_ALLOC, hopper_alloc},     {IRK_COPY, hopper_copy},
    {IRK_DOT, expand_ring_dot},    {IRK_DOT, hopper_dot},
    {IRK_MAP, hopper_map},         {IRK_MAP, expand_map},
    {IRK_MAP, expand_gather},      {IRK_MAP, expand_vector},
    {IRK_COPY, expand_copy},       {IRK_REDUCE, expand_reduce},
    {IRK_REDUCE, expand_arg},      {IRK_SCAN, expand_scan_registers},
    {IRK_SCAN, expand_scan},       {IRK_DOT, expand_dot},
    {IRK_FOR, expand_pipe},
};

bool expand_stmt(Simple *s, IrStmt *st) {
  if (s->in_map)
    return false;
  for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++)
    if (hooks[i].kind == st->kind && hooks[i].take(s, st))
      return true;
  return false;
}

ExpandRole expand_enter_role(Simple *s, int first_warp, int warps, int barrier) {
  ExpandRole before = {s->first_warp, s->threads, s->barrier, s->tid};
  s->first_warp = first_warp;
  s->threads = 32 * warps;
  s->barrier = barrier;
  low_number_threads(s);
  return before;
}

void expand_leave_role(Simple *s, const ExpandRole *before) {
  s->first_warp = before->first_warp;
  s->threads = before->threads;
  s->barrier = before->barrier;
  s->tid = before->tid;
}

/* ---------------------------------------------------------------- number of threads */

/* Stands for an extent that is only known at run time; to the fourth power it still fits. */
enum { MANY = 1 << 12 };

/* Elements of the largest fragment, and whether rows are reduced. */
typedef struct Size {
  int64_t most, most_rows;
  size_t element;
  bool reduces;
  int64_t points;       /* of the largest loop over elements, in groups, as far as known */
  int64_t rows, result; /* of products: least rows, most elements; 0: there are none */
} Size;

/* Iterations that a thread takes at once, as far as dtypes say (expand_vector.c); 1: atomics. */
typedef struct Group {
  size_t element;
  bool atomic;
} Group;

static bool measure_group(IrStmt *st, void *ctx) {
  Group *g = ctx;
  size_t n =
      st->kind == IRK_LOAD || st->kind == IRK_STORE ? dtype_size(st->as.access.at.buf->dtype) : 0;
  g->atomic |= st->kind == IRK_ATOMIC;
  if (n && st->as.access.at.buf->space == IRS_GLOBAL && (!g->element || n < g->element))
    g->element = n;
  return true;
}

static int64_t group_of(IrMap *m) {
  Group g = {0, false};
  ir_walk(&m->body, measure_group, &g);
  return g.atomic || !g.element ? 1 : 16 / (int64_t)g.element;
}

static bool measure(IrStmt *st, void *ctx) {
  Size *z = ctx;
  z->reduces |= st->kind == IRK_REDUCE;
  if (st->kind == IRK_DOT) {
    int64_t m = ir_region_extent(&st->as.dot.c, 0), e = m * ir_region_extent(&st->as.dot.c, 1);
    e *= dtype_size(st->as.dot.c.buf->dtype) > 4 ? 2 : 1; /* in registers */
    z->rows = !z->rows || m < z->rows ? m : z->rows;
    z->result = e > z->result ? e : z->result;
  }
  int64_t n = 1, c = 1;
  if (st->kind == IRK_MAP) {
    for (int i = 0; i < st->as.map.naxes; i++)
      n *= ir_is_const(st->as.map.extent[i], &c) && c < MANY ? c : MANY;
    n /= group_of(&st->as.map);
    z->points = n > z->points ? n : z->points;
    return true;
  }
  if (st->kind != IRK_ALLOC || st->as.alloc->space == IRS_LOCAL)
    return true;
  for (int d = 0; d < st->as.alloc->rank; d++) {
    ir_is_const(st->as.alloc->extent[d], &c);
    n *= c;
  }
  if (n > z->most) {
    z->most = n;
    z->most_rows = c > 0 ? n / c : 1;
  }
  return true;
}

/* The bytes of a tile's element in memory: the narrowest that a copy moves. */
static bool measure_copy(IrStmt *st, void *ctx) {
  Size *z = ctx;
  if (st->kind != IRK_COPY)
    return true;
  size_t a = dtype_size(st->as.copy.dst.buf->dtype), b = dtype_size(st->as.copy.src.buf->dtype);
  size_t n = a < b ? a : b;
  z->element = !z->element || n < z->element ? n : z->element;
  return true;
}

/* One access of 16 bytes for each thread of an elementwise kernel; several where rows are reduced,
 * so that a warp or two have a row and a block many loads in flight. */
int expand_threads(const IrKernel *k) {
  Size z = {0};
  IrKernel *body = (IrKernel *)(uintptr_t)k;
  ir_walk(&body->body, measure, &z);
  ir_walk(&body->body, measure_copy, &z);
  int64_t vector = 16 / (int64_t)(z.element ? z.element : 4);
  int64_t n = z.most / (z.reduces ? 32 : vector), threads = 32;
  int64_t limit = z.reduces ? 1024 : 256, rows = 32 * z.most_rows;
  if (!z.most) /* without tiles: a thread for each vector of elements */
    n = z.points;
  if (z.reduces && n < 128) { /* a warp for each row, while there are rows */
    n = rows < z.most / vector ? rows : z.most / vector;
    n = n > 128 ? 128 : n;
  }
  if (z.result) { /* 64 elements of the result a thread; whole rows by 16 to a warp */
    n = expand_keeps_rows(body) ? 2 * z.rows : z.result / 64;
    limit = 256;
  }
  while (threads * 2 <= n && threads < limit)
    threads *= 2;
  return (int)threads;
}
