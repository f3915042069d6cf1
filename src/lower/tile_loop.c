/* tile_loop.c: pass: a grid of blocks becomes a loop of resident blocks over its tiles.
 *
 * In: a scheduled kernel whose body is one tile's. Out: the body in one TILE_LOOP, the grid as few
 * blocks as do the work in as many turns as all multiprocessors would. Always holds: each tile is
 * done once. Tests: tests/unit/check_schedule.c.
 */
#include "sched.h"

#include <string.h>

enum { GROUP = 16 }; /* rows of tiles that share what is in the cache */

static bool count_dot(IrStmt *s, void *ctx) {
  *(int *)ctx += s->kind == IRK_DOT;
  return true;
}

/* A single product reads rows and columns of tiles again and again, so that neighbours of both
 * kinds should run together; where products are chained, one axis alone is shared. Tiles whose
 * length goes with the first axis are taken length by length, from as many rows as the cache holds.
 */
static int raster(IrBlock *body, const IrKernel *k, bool uneven) {
  int dots = 0;
  ir_walk(body, count_dot, &dots);
  return k->raster ? k->raster : k->grid_rank > 1 && (dots == 1 || uneven) ? GROUP : 0;
}

static IrExpr *pre_let(IrKernel *k, const char *name, IrExpr *value) {
  IrStmt *s = ir_add(k, &k->pre, IRK_LET, k->span);
  s->as.let.var = ir_var(k, IRV_LET, name, DT_I64);
  s->as.let.var->lo = 0;
  s->as.let.value = value;
  return ir_ref(k, s->as.let.var);
}

/* ceildiv(tiles, turns): fewer blocks than multiprocessors where that costs no turn; the power that
 * idle ones leave becomes clock. */
static IrExpr *count_blocks(IrKernel *k, IrExpr *tiles) {
  IrExpr *turns = ir_op2(k, OP_CEILDIV, tiles, ir_ref(k, ir_sms(k)));
  return pre_let(k, "blocks",
                 ir_op2(k, OP_CEILDIV, tiles, ir_op2(k, OP_MAX2, turns, ir_int(k, 1))));
}

static IrExpr *divides(IrKernel *k, IrExpr *by, IrExpr *x) {
  return ir_op2(k, OP_EQ, ir_op2(k, OP_MOD, x, by), ir_int(k, 0));
}

/* Tiles go from long to short in each section, the rows of a group; rounds turn. Two rounds, there
 * and back, give all blocks the same work where they are full, and sections begin where pairs of
 * rounds do, or pairs where sections do. Nearly all multiprocessors have to have a block. */
static IrExpr *evens_out(IrKernel *k, IrExpr *tiles, IrExpr *turns, IrExpr *each, int group) {
  IrExpr *one = ir_int(k, 1), *most = ir_int(k, group ? group : 1);
  IrExpr *rows = k->grid_rank > 1 ? k->grid[1] : one;
  IrExpr *section = ir_op2(k, OP_MUL, k->grid[0], ir_op2(k, OP_MIN2, rows, most));
  section = pre_let(k, "section", ir_op2(k, OP_MAX2, section, one));
  IrExpr *pair = ir_op2(k, OP_MUL, each, ir_int(k, 2));
  IrExpr *fit = ir_op2(k, OP_OR, divides(k, pair, section), divides(k, section, pair));
  IrExpr *alike = ir_op2(k, OP_OR, divides(k, most, rows), ir_op2(k, OP_LT, rows, most));
  IrExpr *full = ir_op2(k, OP_AND, divides(k, turns, tiles), divides(k, ir_int(k, 2), turns));
  IrExpr *busy = ir_op2(k, OP_GE, ir_op2(k, OP_MUL, each, ir_int(k, 16)),
                        ir_op2(k, OP_MUL, ir_ref(k, ir_sms(k)), ir_int(k, 15)));
  return ir_op2(k, OP_AND, ir_op2(k, OP_AND, full, busy), ir_op2(k, OP_AND, fit, alike));
}

/* Where rounds do not even out, the hardware hands out the tiles, each to a block of its own, which
 * starts anew; short ones are not worth that, and so many that i32 does not count twice of them
 * must not be: a block steps past the last tile by the number of blocks. */
static IrExpr *count_uneven(IrKernel *k, IrExpr *tiles, int group) {
  enum { SHORT = 6, MOST = 1 << 30 };
  IrExpr *sms = ir_ref(k, ir_sms(k)), *one = ir_int(k, 1);
  IrExpr *turns = ir_op2(k, OP_MAX2, ir_op2(k, OP_CEILDIV, tiles, sms), one);
  turns = pre_let(k, "turns", turns);
  IrExpr *each = pre_let(k, "each", ir_op2(k, OP_MAX2, ir_op2(k, OP_FLOORDIV, tiles, turns), one));
  IrExpr *stay = ir_op2(k, OP_OR, ir_op2(k, OP_LE, k->grid[0], ir_int(k, SHORT)),
                        ir_op2(k, OP_GT, tiles, ir_int(k, MOST)));
  IrExpr *other = ir_op3(k, OP_SELECT, stay, ir_op2(k, OP_MIN2, tiles, sms), tiles);
  IrExpr *even = evens_out(k, tiles, turns, each, group);
  return pre_let(k, "blocks", ir_op3(k, OP_SELECT, even, each, other));
}

/* ---------------------------------------------------------------- tiles of unequal length */

/* How a value goes with a variable: not at all, up, down, or not plain to see. */
typedef enum Way { WAY_NONE, WAY_UP, WAY_DOWN, WAY_UNKNOWN } Way;

static Way both(Way a, Way b) {
  return a == WAY_NONE ? b : b == WAY_NONE || a == b ? a : WAY_UNKNOWN;
}

static Way turned(Way w) {
  return w == WAY_UP ? WAY_DOWN : w == WAY_DOWN ? WAY_UP : w;
}

static Way way_of(const IrExpr *e, const IrVar *v) {
  int64_t c = 0;
  if (e->op == OP_VAR)
    return e->as.var == v ? WAY_UP : WAY_NONE;
  Way a = e->nargs > 0 ? way_of(e->arg[0], v) : WAY_NONE;
  Way b = e->nargs > 1 ? way_of(e->arg[1], v) : WAY_NONE;
  switch (e->op) {
  case OP_ADD:
  case OP_MIN2:
  case OP_MAX2:
    return both(a, b);
  case OP_SUB:
    return both(a, turned(b));
  case OP_CEILDIV:
  case OP_FLOORDIV: /* by what is positive */
    if (ir_is_const(e->arg[1], &c) && c > 0)
      return a;
    return a == WAY_NONE && b == WAY_NONE ? WAY_NONE : WAY_UNKNOWN;
  case OP_MUL:
    if (ir_is_const(e->arg[1], &c) || ir_is_const(e->arg[0], &c))
      return c >= 0 ? both(a, b) : turned(both(a, b));
    return a == WAY_NONE && b == WAY_NONE ? WAY_NONE : WAY_UNKNOWN;
  case OP_CLAMP:
    return both(both(a, b), way_of(e->arg[2], v));
  case OP_CAST:
    return dtype_is_int(e->type) ? a : WAY_UNKNOWN;
  default:
    for (int i = 0; i < e->nargs; i++)
      if (way_of(e->arg[i], v) != WAY_NONE)
        return WAY_UNKNOWN;
    return WAY_NONE;
  }
}

typedef struct Length {
  const IrVar *index;
  Way way;
} Length;

/* Of loops with products in them, or anything else. */
static bool measure(IrStmt *s, void *ctx) {
  Length *x = ctx;
  if (s->kind == IRK_FOR)
    x->way = both(x->way,
                  both(way_of(s->as.loop.hi, x->index), turned(way_of(s->as.loop.lo, x->index))));
  return s->kind != IRK_MAP;
}

/* The program's index counts from the other end: long tiles come first. */
static void reverse(IrKernel *k, IrTileLoop *t) {
  IrVar *index = t->index[0], *number = ir_var(k, IRV_INDEX, "turn", index->type);
  IrStmt *let = sched_stmt(k, IRK_LET, k->span);
  number->lo = 0;
  index->kind = IRV_LET;
  index->lo = 0;
  t->index[0] = number;
  let->as.let.var = index;
  IrExpr *last =
      ir_op2(k, OP_SUB, ir_cast(k, t->count[0], index->type), ir_int_of(k, index->type, 1));
  let->as.let.value = ir_op2(k, OP_SUB, last, ir_ref(k, number));
  sched_insert(k, &t->body, 0, let);
}

/* A kernel without a grid is one tile already. */
IrKernel *low_tile_loop(Arena *a, const IrKernel *from, const LowerRequest *r, DiagSink *sink) {
  (void)sink;
  IrKernel *k = ir_kernel_clone(a, from);
  if (k->grid_rank == 0)
    return k;
  if (r->grid == LOWER_GRID_HUGE)
    return sched_decline(r, "more tiles than i32 counts");
  if (k->cluster[0] > 1 || k->cluster[1] > 1 || k->cluster[2] > 1) {
    sched_note(r, "cluster = is left out: blocks walk the tiles, each by itself");
    memset(k->cluster, 0, sizeof k->cluster);
  }
  IrBlock body = k->body;
  k->body = (IrBlock){0};
  IrStmt *loop = ir_add(k, &k->body, IRK_TILE_LOOP, k->span);
  IrTileLoop *t = &loop->as.tile_loop;
  *t = (IrTileLoop){.naxes = k->grid_rank, .group = 0};
  for (int i = 0; i < k->grid_rank; i++) {
    t->index[i] = k->grid_index[i];
    t->index[i]->kind = IRV_INDEX;
    t->count[i] = k->grid[i];
  }
  t->body = body;
  Length x = {t->index[0], WAY_NONE};
  ir_walk(&t->body, measure, &x);
  t->group = raster(&t->body, k, x.way != WAY_NONE);
  if (x.way == WAY_UP)
    reverse(k, t);
  t->turning = x.way == WAY_UP || x.way == WAY_DOWN; /* who had a long one has a short one next */
  sched_note(r, "blocks stay and walk the tiles%s%s", t->group ? " in groups of rows" : "",
             x.way == WAY_NONE ? "" : ", the longest first");
  k->raster = 0;
  IrExpr *tiles = k->grid[0];
  for (int i = 1; i < k->grid_rank; i++)
    tiles = ir_op2(k, OP_MUL, tiles, k->grid[i]);
  tiles = pre_let(k, "tiles", tiles);
  if (x.way == WAY_UNKNOWN)
    k->grid[0] = pre_let(k, "blocks", ir_op2(k, OP_MIN2, tiles, ir_ref(k, ir_sms(k))));
  else
    k->grid[0] = t->turning ? count_uneven(k, tiles, t->group) : count_blocks(k, tiles);
  k->grid_rank = 1;
  k->stays = true;
  k->grid_index[0] = ir_var(k, IRV_GRID, "block", DT_I64);
  return k;
}

enum {
  LARGE = 128 * 128
}; /* elements of a tile whose block has a multiprocessor nearly to itself */

static bool large_dot(IrStmt *s, void *ctx) {
  if (s->kind == IRK_DOT)
    *(bool *)ctx = ir_region_extent(&s->as.dot.c, 0) * ir_region_extent(&s->as.dot.c, 1) >= LARGE;
  return true;
}

/* Who schedules himself walks the tiles himself. */
static bool find_author(IrStmt *s, void *ctx) {
  *(bool *)ctx |= s->kind == IRK_ROLES || s->kind == IRK_AWAIT;
  return true;
}

/* For one role: only a single product gains, whose neighbouring tiles share what the cache holds;
 * of small tiles several blocks should be resident instead. */
IrKernel *low_turns(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink) {
  int dots = 0;
  bool large = false, author = false;
  IrBlock *body = (IrBlock *)(uintptr_t)&k->body;
  ir_walk(body, count_dot, &dots);
  ir_walk(body, large_dot, &large);
  ir_walk(body, find_author, &author);
  return dots == 1 && large && !author && k->grid_rank > 1 ? low_tile_loop(a, k, r, sink) : NULL;
}
