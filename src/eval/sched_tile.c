/* sched_tile.c: which tile a persistent loop does next.
 *
 * In: TILE_LOOP's counts. Out: the indices of this block's tiles: numbers block, block + blocks, …
 * so that all blocks together do each tile once. `group n` walks n rows of tiles down before it
 * goes across; `turning` rounds go there and back; a dynamic loop hands out the same numbers, here
 * in the order that round robin gives. Tests: tests/unit/check_scheduled.c (each_tile_once),
 * tests/unit/check_eval.c.
 */
#include "sched.h"

/* All axes of the launch count. */
static int64_t blocks_of(const EvalBlock *b) {
  return b->binding->grid[0] * b->binding->grid[1] * b->binding->grid[2];
}

/* The first tile has the block's own number. */
void eval_sched_tile_start(EvalAgent *a, const SchedTiles *t) {
  eval_int_to(DT_I64, machine_reg(a, t->tile), a->block->linear);
}

/* Column and row of a number within one plane. */
static void raster(int64_t number, int64_t columns, int64_t rows, int64_t group, int64_t *x,
                   int64_t *y) {
  if (group <= 1 || rows <= 1) {
    *x = number % columns;
    *y = number / columns;
    return;
  }
  int64_t first = number / columns / group * group;
  int64_t height = rows - first < group ? rows - first : group;
  number -= first * columns;
  *x = number / height;
  *y = first + number % height;
}

/* `turning`: of the rounds before the last every other one goes from the last block to the first,
 * the last but one for sure. */
static int64_t turned(int64_t number, int64_t total, int64_t blocks) {
  int64_t round = number / blocks, rest = (total - 1) / blocks - round;
  return rest % 2 ? round * blocks + blocks - 1 - number % blocks : number;
}

/* Counts without a tile end the loop at once; more tiles than i64 counts cannot be. */
bool eval_sched_tile(EvalAgent *a, const SchedTiles *t) {
  int64_t count[3] = {1, 1, 1}, at[3], plane, total;
  for (int i = 0; i < t->naxes; i++)
    count[i] = machine_int(a, &t->count[i]);
  if (count[0] <= 0 || count[1] <= 0 || count[2] <= 0)
    return false;
  if (__builtin_mul_overflow(count[0], count[1], &plane) ||
      __builtin_mul_overflow(plane, count[2], &total))
    plane = total = INT64_MAX;
  int64_t number = eval_int_at(DT_I64, machine_reg(a, t->tile));
  if (number >= total)
    return false;
  if (t->turning)
    number = turned(number, total, blocks_of(a->block));
  at[2] = number / plane;
  raster(number % plane, count[0], count[1], t->group, &at[0], &at[1]);
  for (int i = 0; i < t->naxes; i++)
    eval_int_to(t->type[i], machine_reg(a, t->index[i]), at[i]);
  return true;
}

/* Past the end of i64 there is no tile. */
EvalResult eval_sched_tile_next(EvalAgent *a, const SchedTiles *t) {
  int64_t number = eval_int_at(DT_I64, machine_reg(a, t->tile));
  if (__builtin_add_overflow(number, blocks_of(a->block), &number))
    number = INT64_MAX;
  eval_int_to(DT_I64, machine_reg(a, t->tile), number);
  return EVAL_OK;
}
