/* thread_table.c: THREAD rows by OpCode, and the state of the devices from block to block.
 * Tests: tests/unit/check_thread.c. */
#include <string.h>

#include "thread_device.h"

static const EvalThreadOp rows[OP_COUNT] = {
    [OP_SYNCTHREADS] = eval_row_syncthreads,
    [OP_SYNCWARP] = eval_row_nothing,
    [OP_BAR_SYNC] = eval_row_bar_sync,
    [OP_BAR_ARRIVE] = eval_row_bar_arrive,
    [OP_SHFL_XOR] = eval_row_shfl_xor,
    [OP_SHFL_IDX] = eval_row_shfl_idx,
    [OP_SHFL_UP] = eval_row_shfl_up,
    [OP_SHFL_DOWN] = eval_row_shfl_down,
    [OP_VOTE_ANY] = eval_row_vote_any,
    [OP_VOTE_ALL] = eval_row_vote_all,
    [OP_MEMBAR] = eval_row_nothing,
    [OP_LD_SHARED] = eval_row_ld_shared,
    [OP_ST_SHARED] = eval_row_st_shared,
    [OP_LD_GLOBAL] = eval_row_ld_global,
    [OP_ST_GLOBAL] = eval_row_st_global,
    [OP_CP_ASYNC] = eval_row_cp_async,
    [OP_CP_ASYNC_COMMIT] = eval_row_cp_async_commit,
    [OP_CP_ASYNC_WAIT] = eval_row_cp_async_wait,
    [OP_LDMATRIX] = eval_row_ldmatrix,
    [OP_LDMATRIX_T] = eval_row_ldmatrix_t,
    [OP_STMATRIX] = eval_row_stmatrix,
    [OP_STMATRIX_T] = eval_row_stmatrix_t,
    [OP_MMA_SYNC] = eval_row_mma_sync,
    [OP_MBAR_INIT] = eval_row_mbar_init,
    [OP_MBAR_FENCE_INIT] = eval_row_mbar_fence_init,
    [OP_MBAR_EXPECT_TX] = eval_row_mbar_expect_tx,
    [OP_MBAR_ARRIVE] = eval_row_mbar_arrive,
    [OP_MBAR_WAIT] = eval_row_mbar_wait,
    [OP_TMA_PREFETCH] = eval_row_nothing,
    [OP_TMA_LOAD] = eval_row_tma_load,
    [OP_TMA_STORE] = eval_row_tma_store,
    [OP_BULK_COMMIT] = eval_row_bulk_commit,
    [OP_BULK_WAIT] = eval_row_bulk_wait,
    [OP_BULK_WAIT_READ] = eval_row_bulk_wait,
    [OP_FENCE_PROXY_ASYNC] = eval_row_fence_proxy_async,
    [OP_WGMMA_FENCE] = eval_row_wgmma_fence,
    [OP_WGMMA_SS] = eval_row_wgmma_ss,
    [OP_WGMMA_RS] = eval_row_wgmma_rs,
    [OP_WGMMA_COMMIT] = eval_row_wgmma_commit,
    [OP_WGMMA_WAIT] = eval_row_wgmma_wait,
    [OP_SETMAXNREG_INC] = eval_row_setmaxnreg_inc,
    [OP_SETMAXNREG_DEC] = eval_row_setmaxnreg_dec,
    [OP_GRID_WAIT] = eval_row_nothing,
    [OP_GRID_LAUNCH] = eval_row_nothing,
    [OP_FAULT] = eval_row_fault,
};

/* The compiler asks once a statement; no row is looked up while a kernel runs. */
EvalThreadOp eval_thread_op(OpCode op) {
  return op < OP_COUNT ? rows[op] : NULL;
}

/* ---------------------------------------------------------------- state */

/* Everything that blocks will need, once a worker: a block allocates nothing. Without checks no
 * shadow is made at all. */
void *eval_device_new(EvalBlock *b) {
  Arena *arena = b->arena;
  const IrKernel *k = b->program->kernel;
  DevBlock *d = ARENA_NEW(arena, DevBlock);
  d->check = b->options->checks != CHECKS_NONE;
  d->strict = b->options->checks == CHECKS_ALL && !b->options->lowered;
  d->counting = b->options->counters != NULL;
  d->bytes = (size_t)k->shared_bytes;
  d->granules = (d->bytes + GRANULE - 1) / GRANULE;
  d->mbar_at = ARENA_ARRAY(arena, uint8_t, d->bytes / 8 + 1);
  d->mbar = d->bytes ? ARENA_ARRAY(arena, Mbar, MOST_MBARS) : NULL;
  d->record = ARENA_ARRAY(arena, Record, RECORDS);
  d->tmap_checked = ARENA_ARRAY(arena, bool, k->tmaps.n);
  d->group = ARENA_ARRAY(arena, Warpgroup, (b->nagents + 3) / 4);
  if (d->check) {
    d->granule = ARENA_ARRAY(arena, Granule, d->granules);
    d->more = ARENA_ARRAY(arena, GranuleMore, d->granules);
    d->readers = ARENA_ARRAY(arena, Readers, d->granules);
    d->word_writer = ARENA_ARRAY(arena, Stamp, 4 * d->granules);
    d->word_bytes = ARENA_ARRAY(arena, uint8_t, 4 * d->granules);
    d->word_reader = ARENA_ARRAY(arena, Stamp, 4 * d->granules);
  }
  if (d->bytes && b->nagents >= 4) {
    d->raw = ARENA_ARRAY(arena, uint16_t, PANEL_A + PANEL_B);
    d->panel = ARENA_ARRAY(arena, float, PANEL_A + PANEL_B + PANEL_C);
  }
  return d;
}

/* Registers of the program get a state each: which product they belong to, who touched them
 * last. */
void *eval_device_agent(EvalAgent *a, EvalArray *arrays, int narrays) {
  const DevBlock *d = dev_block(a);
  Arena *arena = a->block->arena;
  DevWarp *w = ARENA_NEW(arena, DevWarp);
  w->array = arrays;
  w->narrays = narrays;
  w->dirty = d->check ? ARENA_ARRAY(arena, uint32_t, d->granules) : NULL;
  for (int i = 0; i < narrays; i++)
    if (arrays[i].buf->space == IRS_REG)
      arrays[i].device = ARENA_ARRAY(arena, RegisterState, arrays[i].count);
  return w;
}

/* Time 1 of its own component, so that no stamp of it is known to the others; every register
 * counts as touched, since a kernel's first product needs a fence in any case. */
static void start_warp(EvalAgent *a, int registers) {
  DevWarp *w = a->device;
  EvalArray *array = w->array;
  uint32_t *dirty = w->dirty;
  int n = w->narrays;
  memset(w, 0, sizeof *w);
  w->array = array;
  w->narrays = n;
  w->dirty = dirty;
  w->registers = registers;
  w->clock.t[COMP_WARP + a->id] = 1;
  w->touches = 1;
  for (int i = 0; i < n; i++) {
    RegisterState *s = array[i].device;
    for (int j = 0; s && j < array[i].count; j++)
      s[j] = (RegisterState){.touched = 1};
  }
}

/* A block gets its registers at launch, as many a thread as fit; setmaxnreg moves these only. */
void eval_device_start(EvalBlock *b) {
  DevBlock *d = b->device;
  int registers = 65536 / (b->nagents * EVAL_WARP) / 8 * 8;
  registers = registers > 255 ? 255 : registers;
  d->free_registers = 0;
  if (d->check) {
    memset(d->granule, 0, d->granules * sizeof *d->granule);
    memset(d->readers, 0, d->granules * sizeof *d->readers);
    memset(d->word_reader, 0, 4 * d->granules * sizeof *d->word_reader);
    memset(b->shared, 0xAB, d->bytes);
  }
  memset(d->mbar_at, 0, d->bytes / 8 + 1);
  d->nmbars = 0;
  memset(d->named, 0, sizeof d->named);
  for (int i = 0; i < (b->nagents + 3) / 4; i++)
    d->group[i].issued = d->group[i].done = 0;
  d->load_first = d->load_end = 0;
  d->nstores = 0;
  d->serial = 0;
  for (int i = 0; i < b->nagents; i++)
    start_warp(&b->agent[i], registers);
}

/* ---------------------------------------------------------------- the end of a block */

/* A product that is never waited for may write registers of the warp that comes next. */
static EvalResult check_products(EvalBlock *b) {
  for (int i = 0; i < b->nagents; i++) {
    const DevWarp *w = dev_warp_of(b, i);
    const DevBlock *d = b->device;
    if (w->product > w->waited)
      return eval_fault_at(&b->agent[i], d->group[i / 4].product[w->product % PRODUCTS].pc, E0477,
                           "warp %d ends and never waited for this product", i);
  }
  return EVAL_OK;
}

/* Loads that nothing reads: legal, but a sign that an operand begins in the wrong place. */
static EvalResult check_unread(EvalBlock *b) {
  const DevBlock *d = b->device;
  for (size_t k = 0; d->strict && k < d->granules; k++) {
    const Granule *g = &d->granule[k];
    if ((g->flags & (GR_TMA | GR_READ)) == GR_TMA)
      return eval_fault_at(&b->agent[0], eval_writer_pc(d, (uint32_t)k), E0476,
                           "the shared bytes %zu to %zu that this "
                           "loads are never read",
                           k * GRANULE, k * GRANULE + GRANULE - 1);
  }
  return EVAL_OK;
}

/* Loads still under way are let in first: their barrier may end a phase that was promised
 * wrongly. */
EvalResult eval_device_finish(EvalBlock *b) {
  DevBlock *d = b->device;
  while (eval_load_complete(b))
    if (b->fault.set)
      return EVAL_FAULTED;
  if (!d->check)
    return EVAL_OK;
  if (d->nstores)
    return eval_fault_at(&b->agent[d->store[0].warp], d->store[0].pc, E0477,
                         "the block ends, and "
                         "thread %d never waited until this bulk store has read shared memory",
                         d->store[0].warp * EVAL_WARP + d->store[0].lane);
  EvalResult r = check_products(b);
  return r == EVAL_OK ? check_unread(b) : r;
}

bool eval_device_progress(EvalBlock *b) {
  return eval_load_complete(b);
}
