/* hopper.c: roles, tiles, rings and waits of a Hopper schedule (see hopper.h).
 *
 * In: a scheduled kernel that the warpgroup passes made. Out: thread-level roles: one thread of the
 * producer loads, each warpgroup of consumers computes its rows; mbarriers full and empty a stage
 * of a channel, with the stage and the parity in variables of each role. Always holds: a consumer
 * releases by one thread behind the wait of all its warps, or by one of each warp that has read.
 * Tests: tests/unit/check_schedule.c.
 */
#include "hopper.h"

enum { WORD = 8, SPAN_MOST = 1024 }; /* bytes: of a barrier; alignment of the swizzle patterns */

/* ---------------------------------------------------------------- small things */

IrOperand hopper_e(IrExpr *e) {
  return (IrOperand){.kind = IRO_EXPR, .expr = e};
}

IrOperand hopper_i(Simple *s, int64_t n) {
  return hopper_e(low_i32(s, n));
}

void hopper_op(Simple *s, OpCode op, int n, const IrOperand *o) {
  IrStmt *st = low_emit(s, IRK_OP);
  st->as.op = (IrOp){op, arena_copy(s->k->arena, o, (size_t)n * sizeof *o), n};
}

int hopper_groups(const IrKernel *k) {
  for (size_t i = 0; i < k->body.n && k->channels.n; i++)
    if (k->body.v[i]->kind == IRK_ROLES && k->body.v[i]->as.roles.nroles == 2)
      return k->body.v[i]->as.roles.role[1].warps / GROUP_WARPS;
  return 0;
}

typedef struct Stores {
  const IrBuffer *tile;
  bool found;
} Stores;

static bool find_store(IrStmt *st, void *ctx) {
  Stores *x = ctx;
  x->found |= st->kind == IRK_COPY && st->as.copy.engine == IRE_TMA &&
              (st->as.copy.src.buf == x->tile || st->as.copy.dst.buf == x->tile);
  return !x->found;
}

bool hopper_owns(const IrKernel *k, const IrBuffer *tile) {
  Stores x = {tile, false};
  IrBlock body = k->body;
  for (size_t i = 0; i < k->channels.n; i++)
    for (int j = 0; j < k->channels.v[i]->ntiles; j++)
      x.found |= k->channels.v[i]->tile[j] == tile;
  ir_walk(&body, find_store, &x);
  return x.found;
}

int64_t hopper_matrix_bytes(const IrBuffer *b) {
  int64_t span = b->layout->amount;
  int64_t inner = sched_side(b, !b->layout->columns) * (int64_t)dtype_size(b->dtype);
  return (inner + span - 1) / span * span * sched_side(b, b->layout->columns);
}

/* One stage, so that the next one's pattern begins where patterns begin. */
static int64_t stage_bytes(const IrBuffer *b) {
  int64_t bytes = b->rank == 3 ? hopper_matrix_bytes(b) : sched_tile_bytes(b);
  return (bytes + SPAN_MOST - 1) / SPAN_MOST * SPAN_MOST;
}

int64_t hopper_tile_bytes(const IrBuffer *b) {
  return stage_bytes(b) * (b->rank == 3 ? sched_extent(b, 0) : b->stages);
}

IrExpr *hopper_tile_at(Simple *s, const IrBuffer *b) {
  const Place *p = low_place_of(s, b);
  IrExpr *base = low_i32(s, b->offset);
  return p->stage ? low_add(s, low_mul(s, p->stage, low_i32(s, stage_bytes(b))), base) : base;
}

IrExpr *hopper_region_at(Simple *s, const IrRegion *r) {
  if (r->buf->rank < 3)
    return hopper_tile_at(s, r->buf);
  IrExpr *stage = ir_cast(s->k, r->axis[0].origin, DT_I32);
  return low_add(s, low_mul(s, stage, low_i32(s, stage_bytes(r->buf))), low_i32(s, r->buf->offset));
}

/* Once, however many instructions name it; where it is not there, the first stands for it. */
IrRegion hopper_settled(Simple *s, const IrRegion *r) {
  IrRegion x = *r;
  IrExpr *ok = NULL;
  if (r->buf->rank < 3 || r->buf->space == IRS_GLOBAL)
    return x;
  low_check_region(s, r, &ok);
  IrExpr *stage = ir_cast(s->k, r->axis[0].origin, DT_I32);
  if (ok)
    stage = ir_op3(s->k, OP_SELECT, ok, stage, low_i32(s, 0));
  if (ok || stage->nargs > 0)
    stage = ir_ref(s->k, low_emit_let(s, "stage", stage));
  x.axis[0].origin = stage;
  return x;
}

IrExpr *hopper_barrier(Simple *s, int64_t base, const IrVar *stage) {
  IrExpr *at = low_mul(s, ir_ref(s->k, (IrVar *)(uintptr_t)stage), low_i32(s, WORD));
  return low_add(s, at, low_i32(s, base));
}

/* ---------------------------------------------------------------- rings */

/* Behind the tiles: for each channel the full barriers of its stages, then the empty ones. */
static void place_rings(Simple *s) {
  IrKernel *k = s->k;
  s->hopper->ring = ARENA_ARRAY(s->arena, HopperRing, k->channels.n + 1);
  s->peak = (s->peak + WORD - 1) / WORD * WORD;
  for (size_t i = 0; i < k->channels.n; i++) {
    HopperRing *r = &s->hopper->ring[i];
    int64_t bytes = WORD * k->channels.v[i]->stages;
    r->full = s->peak;
    r->empty = s->peak + bytes;
    s->peak += 2 * bytes;
  }
}

/* A product's operand that goes through registers is read by each warp itself. */
static bool find_turned(IrStmt *st, void *ctx) {
  if (st->kind == IRK_DOT && st->as.dot.unit == IRU_WGMMA)
    *(Turned *)ctx = sched_lies_turned(&st->as.dot);
  return true;
}

static void init_barriers(Simple *s, int64_t base, int stages, int arrivals) {
  IrStmt *loop;
  IrVar *i = low_emit_for(s, "i", low_i32(s, 0), low_i32(s, stages), low_i32(s, 1), &loop);
  loop->as.loop.loop = IRF_UNROLL;
  IrBlock *before = low_enter(s, &loop->as.loop.body);
  hopper_op(s, OP_MBAR_INIT, 2,
            (IrOperand[]){hopper_e(hopper_barrier(s, base, i)), hopper_i(s, arrivals)});
  low_enter(s, before);
}

/* By one thread, before anybody waits; the IF is returned, so that maps can be fetched in it. */
static IrStmt *init_rings(Simple *s) {
  IrStmt *st = low_emit_if(s, low_is_first(s));
  IrBlock *before = low_enter(s, &st->as.if_.then);
  for (size_t i = 0; i < s->k->channels.n; i++) {
    const IrChannel *c = s->k->channels.v[i];
    init_barriers(s, s->hopper->ring[i].full, c->stages, c->producers);
    init_barriers(s, s->hopper->ring[i].empty, c->stages,
                  c->consumers * (s->hopper->turned ? GROUP_WARPS : 1));
  }
  hopper_op(s, OP_MBAR_FENCE_INIT, 0, NULL);
  low_enter(s, before);
  low_barrier(s);
  return st;
}

/* A producer finds every stage free: the parity before the first. */
static void ring_variables(Simple *s, bool producer) {
  for (size_t i = 0; i < s->k->channels.n; i++) {
    HopperRing *r = &s->hopper->ring[i];
    r->stage = low_emit_var(s, "stage", low_i32(s, 0));
    r->phase = low_emit_var(s, "phase", low_i32(s, producer));
  }
}

/* The next stage; the parity turns with each round. */
static void advance(Simple *s, const IrChannel *c) {
  IrKernel *k = s->k;
  HopperRing *r = &s->hopper->ring[c->id];
  IrExpr *one = low_i32(s, 1);
  if (c->stages == 1) {
    low_emit_set(s, r->phase, ir_op2(k, OP_XOR, ir_ref(k, r->phase), one));
    return;
  }
  low_emit_set(s, r->stage, low_add(s, ir_ref(k, r->stage), one));
  IrExpr *end = ir_op2(k, OP_EQ, ir_ref(k, r->stage), low_i32(s, c->stages));
  IrBlock *before = low_enter(s, &low_emit_if(s, end)->as.if_.then);
  low_emit_set(s, r->stage, low_i32(s, 0));
  low_emit_set(s, r->phase, ir_op2(k, OP_XOR, ir_ref(k, r->phase), one));
  low_enter(s, before);
}

/* Tiles' names mean the stage in hand from here on. */
static void take_stage(Simple *s, const IrChannel *c) {
  HopperRing *r = &s->hopper->ring[c->id];
  for (int i = 0; i < c->ntiles; i++)
    low_place_of(s, c->tile[i])->stage = c->stages > 1 ? ir_ref(s->k, r->stage) : NULL;
}

static void wait_on(Simple *s, int64_t base, const HopperRing *r) {
  hopper_op(
      s, OP_MBAR_WAIT, 2,
      (IrOperand[]){hopper_e(hopper_barrier(s, base, r->stage)), hopper_e(ir_ref(s->k, r->phase))});
}

/* Boxes come whole, whatever of them lies outside the tensor. */
static void acquire(Simple *s, const IrChannel *c) {
  const HopperRing *r = &s->hopper->ring[c->id];
  int64_t bytes = 0;
  for (int i = 0; i < c->ntiles; i++)
    bytes += sched_tile_bytes(c->tile[i]);
  wait_on(s, r->empty, r);
  hopper_op(s, OP_MBAR_EXPECT_TX, 2,
            (IrOperand[]){hopper_e(hopper_barrier(s, r->full, r->stage)), hopper_i(s, bytes)});
  take_stage(s, c);
}

static void release(Simple *s, const IrChannel *c) {
  const HopperRing *r = &s->hopper->ring[c->id];
  IrExpr *lane = ir_expr(s->k, OP_LANE, DT_NONE, NULL, 0);
  IrStmt *st = low_emit_if(s, s->hopper->turned ? ir_op2(s->k, OP_EQ, lane, low_i32(s, 0))
                                                : ir_ref(s->k, s->hopper->first));
  IrBlock *before = low_enter(s, &st->as.if_.then);
  hopper_op(s, OP_MBAR_ARRIVE, 1, (IrOperand[]){hopper_e(hopper_barrier(s, r->empty, r->stage))});
  low_enter(s, before);
  advance(s, c);
}

bool hopper_channel(Simple *s, IrStmt *st) {
  if (!s->hopper)
    return st->kind == IRK_CHANNEL && hopper_groups(s->k) > 0;
  const IrChannel *c = st->kind == IRK_CHANNEL ? st->as.channel : st->as.channel_op.channel;
  switch (st->kind) {
  case IRK_ACQUIRE:
    acquire(s, c);
    break;
  case IRK_COMMIT:
    advance(s, c);
    break;
  case IRK_WAIT:
    wait_on(s, s->hopper->ring[c->id].full, &s->hopper->ring[c->id]);
    take_stage(s, c);
    break;
  case IRK_RELEASE:
    release(s, c);
    break;
  default:
    break;
  }
  return true;
}

/* Rings and staging tiles are reached by address alone. */
bool hopper_alloc(Simple *s, IrStmt *st) {
  IrBuffer *words = hopper_words(s, st->as.alloc);
  if (words) {
    low_emit(s, IRK_ALLOC)->as.alloc = words;
    return true;
  }
  return st->as.alloc->space == IRS_SHARED && s->owned.n > st->as.alloc->id &&
         s->owned.v[st->as.alloc->id];
}

/* ---------------------------------------------------------------- waits */

/* Barrier 1 is all consumers', 2 and up those of single warpgroups. */
static void sync_group(Simple *s) {
  IrExpr *id = low_add(s, ir_ref(s->k, s->hopper->group), low_i32(s, s->hopper->named));
  hopper_op(s, OP_BAR_SYNC, 2, (IrOperand[]){hopper_e(id), hopper_i(s, GROUP_THREADS)});
}

bool hopper_wait(Simple *s, IrStmt *st) {
  if (!s->hopper || !s->hopper->group)
    return false;
  if (st->kind == IRK_DOT_WAIT) {
    hopper_op(s, OP_WGMMA_WAIT, 1, (IrOperand[]){hopper_i(s, st->as.wait)});
  } else if (st->kind == IRK_STORE_WAIT) {
    IrStmt *own = low_emit_if(s, ir_ref(s->k, s->hopper->first));
    IrBlock *before = low_enter(s, &own->as.if_.then);
    OpCode op =
        s->loops ? OP_BULK_WAIT : OP_BULK_WAIT_READ; /* what is there twice stays in order */
    hopper_op(s, op, 1, (IrOperand[]){hopper_i(s, st->as.wait)});
    low_enter(s, before);
  } else {
    if (st->as.sync.proxy_async)
      hopper_op(s, OP_FENCE_PROXY_ASYNC, 0, NULL);
    if (st->as.sync.groups)
      sync_group(s);
    else
      low_barrier(s);
  }
  return true;
}

/* ---------------------------------------------------------------- the loop over tiles */

static IrExpr *named(Simple *s, const char *name, IrExpr *value) {
  IrVar *v = low_emit_let(s, name, value);
  if (v->lo < 0)
    v->lo = 0; /* counts and numbers of tiles */
  return ir_ref(s->k, v);
}

/* Column and row of a number within one plane, n[0] wide; the same as the evaluator's raster. */
static void raster(Simple *s, IrExpr *number, IrExpr *const *n, int group, IrExpr **at) {
  IrKernel *k = s->k;
  if (group <= 1) {
    at[0] = ir_op2(k, OP_MOD, number, n[0]);
    at[1] = ir_op2(k, OP_FLOORDIV, number, n[0]);
    return;
  }
  IrExpr *rows = low_i32(s, group), *per = low_mul(s, rows, n[0]);
  IrExpr *first = named(s, "first", low_mul(s, ir_op2(k, OP_FLOORDIV, number, per), rows));
  IrExpr *height = named(s, "height", ir_op2(k, OP_MIN2, ir_op2(k, OP_SUB, n[1], first), rows));
  IrExpr *rest = named(s, "rest", ir_op2(k, OP_MOD, number, per));
  at[0] = ir_op2(k, OP_FLOORDIV, rest, height);
  at[1] = low_add(s, first, ir_op2(k, OP_MOD, rest, height));
}

/* The program's indices, from the number of the tile. */
static void define_indices(Simple *s, const IrTileLoop *t, IrExpr *number, IrExpr *const *n) {
  IrKernel *k = s->k;
  IrExpr *at[3], *plane = number;
  if (t->naxes == 3) {
    IrExpr *size = low_mul(s, n[0], n[1]);
    at[2] = ir_op2(k, OP_FLOORDIV, number, size);
    plane = named(s, "plane", ir_op2(k, OP_MOD, number, size));
  }
  at[0] = plane;
  if (t->naxes > 1)
    raster(s, plane, n, t->group, at);
  for (int i = 0; i < t->naxes; i++) {
    IrStmt *let = low_emit(s, IRK_LET);
    t->index[i]->kind = IRV_LET;
    t->index[i]->lo = 0;
    let->as.let.var = t->index[i];
    let->as.let.value = ir_cast(k, at[i], t->index[i]->type);
  }
}

/* Of the rounds before the last every other one goes from the last block to the first; the same as
 * the evaluator's. */
static IrExpr *turned(Simple *s, IrExpr *number, IrExpr *tiles, IrExpr *block, IrExpr *blocks) {
  IrKernel *k = s->k;
  IrExpr *last = ir_op2(k, OP_FLOORDIV, ir_op2(k, OP_SUB, tiles, low_i32(s, 1)), blocks);
  IrExpr *rest = ir_op2(k, OP_SUB, last, ir_op2(k, OP_FLOORDIV, number, blocks));
  IrExpr *back = ir_op2(k, OP_EQ, ir_op2(k, OP_MOD, rest, low_i32(s, 2)), low_i32(s, 1));
  IrExpr *mirror =
      ir_op2(k, OP_SUB, ir_op2(k, OP_SUB, blocks, low_i32(s, 1)), low_mul(s, block, low_i32(s, 2)));
  return named(s, "turned", ir_op3(k, OP_SELECT, back, low_add(s, number, mirror), number));
}

/* As many tiles as i32 counts: each writes elements whose offsets fit 32 bits. */
bool hopper_tile_loop(Simple *s, IrStmt *st) {
  const IrTileLoop *t = &st->as.tile_loop;
  IrKernel *k = s->k;
  IrExpr *n[3], *tiles = low_i32(s, 1);
  IrStmt *loop;
  for (int i = 0; i < t->naxes; i++) {
    n[i] = named(s, "tiles", ir_cast(k, t->count[i], DT_I32));
    tiles = low_mul(s, tiles, n[i]);
  }
  IrExpr *block = ir_expr(k, OP_BLOCK_X, DT_NONE, NULL, 0);
  IrExpr *blocks = ir_expr(k, OP_BLOCKS_X, DT_NONE, NULL, 0);
  IrVar *number = low_emit_for(s, "tile", block, tiles, blocks, &loop);
  number->lo = 0;
  number->hi = LOWER_MOST_BLOCKS - 1;
  IrBlock *before = low_enter(s, &loop->as.loop.body);
  IrExpr *at = ir_ref(k, number);
  define_indices(s, t, t->turning ? turned(s, at, tiles, block, blocks) : at, n);
  low_points(s, &st->as.tile_loop.body);
  for (size_t i = 0; i < s->held.n; i++) { /* tiles are the program's blocks, in no order */
    const IrBuffer *b = k->buffers.v[i];
    if (b->space == IRS_GLOBAL && b->role != IRR_SCRATCH)
      s->held.v[i] = 0;
  }
  low_flush(s);
  low_enter(s, before);
  return true;
}

/* ---------------------------------------------------------------- roles */

static void set_registers(Simple *s, const IrRoleBody *r, bool producer) {
  if (r->registers)
    hopper_op(s, producer ? OP_SETMAXNREG_DEC : OP_SETMAXNREG_INC, 1,
              (IrOperand[]){hopper_i(s, r->registers)});
}

/* One thread acts; the others of its warpgroup have nothing to do. */
static void produce(Simple *s, const IrBlock *body) {
  s->hopper->group = s->hopper->first = NULL;
  IrBlock *before = low_enter(s, &low_emit_if(s, low_is_first(s))->as.if_.then);
  ring_variables(s, true);
  s->alone = true;
  low_points(s, body);
  low_flush(s);
  s->alone = false;
  low_enter(s, before);
}

/* Which warpgroup this is comes from the number of the warp, which is the same in all of it. */
static void number_groups(Simple *s, int first_warp) {
  IrKernel *k = s->k;
  IrExpr *warp = ir_expr(k, OP_WARP, DT_NONE, NULL, 0);
  IrExpr *group = ir_op2(k, OP_SUB, ir_op2(k, OP_FLOORDIV, warp, low_i32(s, GROUP_WARPS)),
                         low_i32(s, first_warp / GROUP_WARPS));
  s->hopper->group = low_emit_let(s, "group", group);
  s->hopper->group->lo = 0;
  s->hopper->group->hi = s->hopper->groups - 1;
  IrExpr *lane = ir_op2(k, OP_MOD, ir_ref(k, s->tid), low_i32(s, GROUP_THREADS));
  s->hopper->first = low_emit_let(s, "first_thread", ir_op2(k, OP_EQ, lane, low_i32(s, 0)));
}

static void consume(Simple *s, IrBlock *body, int first_warp) {
  number_groups(s, first_warp);
  ring_variables(s, false);
  hopper_find_casts(s, body);
  low_points(s, body);
}

void hopper_open_block(Simple *s) {
  s->hopper = ARENA_NEW(s->arena, Hopper);
  s->hopper->groups = s->threads / GROUP_THREADS;
  number_groups(s, 0);
}

typedef struct Work {
  bool copies, products; /* copies: loads by the accelerator */
} Work;

static bool find_work(IrStmt *st, void *ctx) {
  Work *w = ctx;
  w->copies |= st->kind == IRK_COPY && st->as.copy.engine == IRE_TMA &&
               st->as.copy.dst.buf->space == IRS_SHARED;
  w->products |= st->kind == IRK_DOT && st->as.dot.unit == IRU_WGMMA;
  return true;
}

bool hopper_open_author(Simple *s, IrRoleBody *r, IrBlock **before) {
  Work w = {false, false};
  *before = s->out;
  ir_walk(&r->body, find_work, &w);
  if (!w.copies && !w.products)
    return false;
  s->hopper = ARENA_NEW(s->arena, Hopper);
  s->hopper->groups = r->warps / GROUP_WARPS;
  if (s->hopper->groups == 1)
    s->hopper->named = s->barrier;
  else /* behind those of all roles */
    s->hopper->named = 1 + expand_author_roles(s->k)->nroles + r->first_warp / GROUP_WARPS;
  s->alone = w.copies;
  if (s->alone) {
    low_enter(s, &low_emit_if(s, low_is_first(s))->as.if_.then);
    return true;
  }
  number_groups(s, r->first_warp);
  hopper_find_casts(s, &r->body);
  return true;
}

typedef struct Arrivals {
  const IrBuffer *barrier;
  bool arrives, signals;
} Arrivals;

static bool find_arrival(IrStmt *st, void *ctx) {
  Arrivals *x = ctx;
  x->arrives |= st->kind == IRK_ARRIVE && st->as.barrier.at.buf == x->barrier;
  x->signals |= st->kind == IRK_COPY && st->as.copy.signal.buf == x->barrier;
  return true;
}

int hopper_arrivals(const IrKernel *k, const IrBuffer *barrier) {
  const IrRoles *r = expand_author_roles(k);
  IrBlock body = k->body;
  Arrivals all = {barrier, false, false};
  int groups = 1, roles = 0;
  ir_walk(&body, find_arrival, &all);
  for (int i = 0; r && i < r->nroles; i++) {
    Arrivals x = {barrier, false, false};
    Work w = {false, false};
    ir_walk(&r->role[i].body, find_arrival, &x);
    ir_walk(&r->role[i].body, find_work, &w);
    roles += x.arrives;
    if (x.arrives)
      groups = w.products ? r->role[i].warps / GROUP_WARPS : 1;
  }
  for (size_t i = 0; i < body.n; i++) { /* outside of these roles, in others too */
    Arrivals x = {barrier, false, false};
    IrBlock one = {&body.v[i], 1, 1};
    if (body.v[i]->kind != IRK_ROLES || &body.v[i]->as.roles != r)
      ir_walk(&one, find_arrival, &x);
    roles += x.arrives;
  }
  return roles == 1 && !all.signals ? groups : 1;
}

/* The wait for its products has shown each warpgroup that its own have read; what else the role did
 * is over at a barrier of all of it. */
bool hopper_arrive(Simple *s, const IrAccess *a) {
  if (!s->hopper || !s->hopper->group || hopper_arrivals(s->k, a->buf) != s->hopper->groups)
    return false;
  IrExpr *at = low_barrier_address(s, a);
  if (s->hopper->product == s->out)
    low_flush(s);
  else
    low_barrier(s);
  s->hopper->product = NULL;
  IrBlock *before = low_enter(s, &low_emit_if(s, ir_ref(s->k, s->hopper->first))->as.if_.then);
  hopper_op(s, OP_MBAR_ARRIVE, 1, (IrOperand[]){hopper_e(at)});
  low_enter(s, before);
  return true;
}

static void expand_role(Simple *s, IrRoleBody *from, IrRoleBody *to, bool producer) {
  *to = *from;
  to->registers = 0;
  to->body = (IrBlock){0};
  IrBlock *before = low_enter(s, &to->body);
  set_registers(s, from, producer);
  ExpandRole outer = expand_enter_role(s, from->first_warp, from->warps, 1);
  if (producer)
    produce(s, &from->body);
  else
    consume(s, &from->body, from->first_warp);
  expand_leave_role(s, &outer);
  low_enter(s, before);
}

/* Maps are known once the roles stand, so their fetching is put in last. */
bool hopper_roles(Simple *s, IrStmt *st) {
  int groups = hopper_groups(s->k);
  if (!groups || s->hopper)
    return false;
  s->hopper = ARENA_NEW(s->arena, Hopper);
  s->hopper->groups = groups;
  s->hopper->named = 2;
  ir_walk(&st->as.roles.role[1].body, find_turned, &s->hopper->turned);
  place_rings(s);
  IrStmt *init = init_rings(s);
  IrStmt *out = low_emit(s, IRK_ROLES);
  out->as.roles.nroles = 2;
  out->as.roles.role = ARENA_ARRAY(s->k->arena, IrRoleBody, 2);
  for (int i = 0; i < 2; i++)
    expand_role(s, &st->as.roles.role[i], &out->as.roles.role[i], i == 0);
  IrBlock *before = low_enter(s, &init->as.if_.then);
  for (size_t i = 0; i < s->k->tmaps.n; i++)
    hopper_op(s, OP_TMA_PREFETCH, 1, (IrOperand[]){{.kind = IRO_TMAP, .tmap = s->k->tmaps.v[i]}});
  low_enter(s, before);
  return true;
}
