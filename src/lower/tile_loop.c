/* tile_loop.c: pass: a grid of blocks becomes a loop of resident blocks over its tiles.
 *
 * In: a scheduled kernel whose body is one tile's. Out: the body in one TILE_LOOP, the grid as few
 * blocks as do the work in as many turns as all multiprocessors would. Always holds: each tile is
 * done once. Tests: tests/unit/check_schedule.c.
 */
#include "sched.h"

enum { GROUP = 16 }; /* rows of tiles that share what is in the cache */

static bool count_dot(IrStmt *s, void *ctx) {
  *(int *)ctx += s->kind == IRK_DOT;
  return true;
}

/* A single product reads rows and columns of tiles again and again, so that neighbours of both
 * kinds should run together; where products are chained, one axis alone is shared. */
static int raster(IrKernel *k) {
  int dots = 0;
  ir_walk(&k->body, count_dot, &dots);
  return k->raster ? k->raster : dots == 1 && k->grid_rank > 1 ? GROUP : 0;
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
static IrExpr *count_blocks(IrKernel *k) {
  IrExpr *tiles = k->grid[0];
  for (int i = 1; i < k->grid_rank; i++)
    tiles = ir_op2(k, OP_MUL, tiles, k->grid[i]);
  tiles = pre_let(k, "tiles", tiles);
  IrExpr *turns = ir_op2(k, OP_CEILDIV, tiles, ir_ref(k, ir_sms(k)));
  return pre_let(k, "blocks",
                 ir_op2(k, OP_CEILDIV, tiles, ir_op2(k, OP_MAX2, turns, ir_int(k, 1))));
}

/* A kernel without a grid is one tile already. */
IrKernel *low_tile_loop(Arena *a, const IrKernel *from, const LowerRequest *r, DiagSink *sink) {
  (void)r;
  (void)sink;
  IrKernel *k = ir_kernel_clone(a, from);
  if (k->grid_rank == 0)
    return k;
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
  t->group = raster(k);
  k->raster = 0;
  k->grid[0] = count_blocks(k);
  k->grid_rank = 1;
  k->grid_index[0] = ir_var(k, IRV_GRID, "block", DT_I64);
  return k;
}
