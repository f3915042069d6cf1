/* simple_place.c: where the program's tiles lie, accesses to them, bounds, barriers.
 *
 * In: a tile-level kernel that is being lowered. Out: offsets in shared memory by scope (tiles of
 * separate scopes share bytes); slabs of global scratch for the largest tiles where shared memory
 * has no room. Always holds: a block that declares tiles ends with a low_barrier, so that tiles
 * which share bytes never meet. Tests: tests/unit/check_lower.c.
 */
#include "hopper.h"
#include "ring.h"

enum { ALIGN = 16, BANKS_BYTES = 128, PATTERN_BYTES = 1024, ONCE_BYTES = 16 * DT_COUNT };

/* Vectors of 16 bytes may start at any tile. */
static int64_t aligned(int64_t n) {
  return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* Buffers that lowering makes have an empty place: they are no tiles of the program. */
Place *low_place_of(Simple *s, const IrBuffer *b) {
  while (s->place.n <= b->id)
    VEC_PUSH(s->arena, &s->place, ARENA_NEW(s->arena, Place));
  return s->place.v[b->id];
}

/* ---------------------------------------------------------------- planning */

/* Remembered before anything is moved: regions and checks go on speaking of the program's tile. */
void low_note_tile(Simple *s, const IrBuffer *b) {
  Place *p = low_place_of(s, b);
  int64_t n = 1;
  p->tile = true;
  p->fragment = b->space == IRS_FRAGMENT;
  p->rank = b->rank;
  for (int i = 0; i < b->rank; i++) {
    ir_is_const(b->extent[i], &p->extent[i]);
    n *= p->extent[i]; /* the verifier bounds the product */
  }
  p->bytes = n * (int64_t)dtype_size(b->dtype);
  while (s->owned.n <= b->id)
    VEC_PUSH(s->arena, &s->owned, false);
  s->owned.v[b->id] = s->registers && hopper_owns(s->k, b);
  p->operand = s->registers && ring_operand(s->k, b);
  if (s->owned.v[b->id] || p->operand)
    p->bytes = hopper_tile_bytes(b);
  if (p->operand)
    ring_lay(p, b);
}

/* ---- offsets: a tile lies where no tile lies that lives while it does ---- */

/* Tiles that live now, those of enclosing blocks included. */
typedef struct Live {
  Arena *arena;
  VEC(const IrBuffer *) tile;
} Live;

/* `local` arrays are each iteration's own and need no place. */
static bool is_tile_alloc(const IrStmt *st) {
  return st->kind == IRK_ALLOC && st->as.alloc->space != IRS_LOCAL;
}

/* The number of the last statement of a block that uses each tile, by buffer id, + 1. */
typedef struct LastUse {
  size_t *last;
  size_t now;
} LastUse;

/* Reading and writing both keep a tile alive. */
static void use_buffer(IrBuffer **b, unsigned how, void *ctx) {
  LastUse *u = ctx;
  (void)how;
  u->last[(*b)->id] = u->now + 1;
}

/* Nested statements count for the one that holds them. */
static bool use_stmt(IrStmt *st, void *ctx) {
  IrVisitor v = {NULL, NULL, use_buffer, ctx};
  ir_visit(st, &v);
  return true;
}

/* Bytes that a tile takes, all stages together; so that the next one begins at the first bank where
 * rows are laid out by banks. */
static int64_t taken(Simple *s, const IrBuffer *b) {
  const Place *p = low_place_of(s, b);
  int64_t n = aligned(p->bytes * (p->stages > 1 ? p->stages : 1));
  return s->registers ? (n + BANKS_BYTES - 1) / BANKS_BYTES * BANKS_BYTES : n;
}

/* First byte behind a tile. */
static int64_t end_of(Simple *s, const IrBuffer *b) {
  return b->offset + taken(s, b);
}

/* The lowest offset at which the tile meets none that lives: 0, or the end of one of these. */
static int64_t first_fit(Simple *s, const Live *live, const IrBuffer *b) {
  int64_t bytes = taken(s, b), best = -1;
  for (size_t c = 0; c <= live->tile.n; c++) {
    int64_t at = c ? end_of(s, live->tile.v[c - 1]) : 0;
    at = s->owned.v[b->id] || low_place_of(s, b)->operand
             ? (at + PATTERN_BYTES - 1) / PATTERN_BYTES * PATTERN_BYTES
             : at;
    bool free = best < 0 || at < best;
    for (size_t i = 0; i < live->tile.n && free; i++)
      free = end_of(s, live->tile.v[i]) <= at || live->tile.v[i]->offset >= at + bytes;
    if (free)
      best = at;
  }
  return best;
}

/* Tiles of this block whose last use is behind us, all of them where the block ends (u NULL);
 * enclosing blocks' tiles stay, and so does an mbarrier: once it is initialised, nothing else may
 * be where it is. */
static void end_lives(Live *live, size_t outer, const LastUse *u) {
  size_t n = outer;
  for (size_t i = outer; i < live->tile.n; i++) {
    const IrBuffer *b = live->tile.v[i];
    if (b->arrivals > 0 || (u && u->last[b->id] > u->now))
      live->tile.v[n++] = b;
  }
  live->tile.n = n;
}

/* For ir_walk: a tile that lives on. */
static bool keep_tile(IrStmt *st, void *ctx) {
  Live *live = ctx;
  if (is_tile_alloc(st))
    VEC_PUSH(live->arena, &live->tile, st->as.alloc);
  return true;
}

/* Places a block's tiles and those of its nested blocks; the greatest end. */
static int64_t plan_block(Simple *s, IrBlock *b, Live *live) {
  int64_t peak = 0;
  size_t outer = live->tile.n;
  LastUse u = {ARENA_ARRAY(s->arena, size_t, s->k->buffers.n), 0};
  for (; u.now < b->n; u.now++) {
    IrBlock one = {&b->v[u.now], 1, 1};
    ir_walk(&one, use_stmt, &u);
  }
  for (u.now = 0; u.now < b->n; u.now++) {
    IrStmt *st = b->v[u.now];
    IrBlock *inner;
    end_lives(live, outer, &u);
    if (is_tile_alloc(st) && !low_place_of(s, st->as.alloc)->spilled &&
        !low_place_of(s, st->as.alloc)->frag) {
      st->as.alloc->offset = first_fit(s, live, st->as.alloc);
      VEC_PUSH(s->arena, &live->tile, st->as.alloc);
      peak = end_of(s, st->as.alloc) > peak ? end_of(s, st->as.alloc) : peak;
    }
    for (int j = 0; (inner = ir_nested(st, j)); j++) {
      int64_t end = plan_block(s, inner, live);
      peak = end > peak ? end : peak;
      if (st->kind == IRK_ROLES) /* the roles run at once */
        ir_walk(inner, keep_tile, live);
    }
  }
  end_lives(live, outer, NULL);
  return peak;
}

/* In one walk, before any is moved. */
static bool find_tiles(IrStmt *st, void *ctx) {
  if (is_tile_alloc(st))
    low_note_tile(ctx, st->as.alloc);
  return true;
}

/* Anew after each move to scratch: the rest may lie closer together. */
static int64_t plan(Simple *s) {
  Live live = {.arena = s->arena};
  return plan_block(s, &s->k->body, &live);
}

/* Moving the largest first keeps most tiles in shared memory. Fragments go before shared tiles: of
 * those the author has said where they lie. */
static Place *largest(Simple *s) {
  Place *best = NULL;
  for (size_t i = 0; i < s->place.n; i++) {
    Place *p = s->place.v[i];
    if (!p->tile || p->spilled || !p->bytes)
      continue;
    bool first =
        best && p->fragment != best->fragment ? p->fragment : !best || p->bytes > best->bytes;
    if (first)
      best = p;
  }
  return best;
}

/* A tile moves to scratch: one slab for each slot, row-major. */
static void spill(Simple *s, IrBuffer *b, IrExpr *slots) {
  Place *p = low_place_of(s, b);
  IrExpr *extent[] = {slots, ir_int(s->k, p->bytes / (int64_t)dtype_size(b->dtype))};
  IrParam param = {ir_buffer(s->k, IRS_GLOBAL, b->name, b->dtype, 2, extent), NULL};
  param.buf->role = IRR_SCRATCH;
  VEC_PUSH(s->k->arena, &s->k->params, param);
  low_place_of(s, b)->home = param.buf;
}

/* As many blocks as multiprocessors take turns at the program's blocks, so that the slabs stay few;
 * a cooperative kernel's blocks wait for each other and so each has its own. */
static IrExpr *count_slots(Simple *s) {
  IrExpr *n = s->blocks;
  if (s->k->cooperative)
    return n;
  return ir_op2(s->k, OP_MIN2, n, ir_ref(s->k, ir_sms(s->k)));
}

/* Computed on the host, once a launch. */
static IrVar *pre_let(Simple *s, const char *name, IrExpr *value) {
  IrStmt *st = ir_add(s->k, &s->k->pre, IRK_LET, s->k->span);
  st->as.let.var = ir_var(s->k, IRV_LET, name, value->type);
  st->as.let.value = value;
  return st->as.let.var;
}

/* Blocks of the program become turns of as many slots as there are slabs. */
static void spill_all(Simple *s) {
  IrKernel *k = s->k;
  IrExpr *slots = ir_ref(k, pre_let(s, "slots", count_slots(s)));
  for (size_t i = 0; i < s->place.n; i++)
    if (s->place.v[i]->spilled)
      spill(s, k->buffers.v[i], slots);
  k->grid_rank = 1;
  k->stays = true;
  k->grid[0] = slots;
  s->slot = k->grid_index[0] = ir_var(k, IRV_GRID, "slot", DT_I64);
}

/* Its registers, and no bytes anywhere. */
static void to_registers(Simple *s, IrBuffer *b) {
  Place *p = low_place_of(s, b);
  IrExpr *n = ir_int(s->k, frag_registers(p->frag));
  IrBuffer *home = ir_buffer(s->k, IRS_REG, b->name, b->dtype, 1, &n);
  p->bytes = 0;
  p->home = home;
}

/* Its bytes as one row, in which elements lie where expand_offset says, stage by stage. */
static void to_ring(Simple *s, const IrBuffer *b) {
  Place *p = low_place_of(s, b);
  int64_t stages = p->stages > 1 ? p->stages : 1;
  IrExpr *n = ir_int(s->k, stages * p->bytes / (int64_t)dtype_size(b->dtype));
  IrBuffer *home = ir_buffer(s->k, IRS_SHARED, b->name, b->dtype, 1, &n);
  home->offset = b->offset;
  p->home = home;
}

/* Than row by row, in shared memory. */
static bool lies_otherwise(const Place *p) {
  return !p->spilled && !p->frag &&
         (p->stages > 1 || p->chunks > 1 || p->columns || p->pad || p->map || p->operand);
}

/* Moves the largest tile to scratch until the rest fits: without tiles nothing is left that could
 * be too much. */
bool low_place_tiles(Simple *s) {
  bool spilled = false;
  ir_walk(&s->k->body, find_tiles, s);
  low_stated_layouts(s);
  if (s->registers) {
    expand_lay_columns(s);
    expand_infer(s);
    s->inferred = true;
    expand_lay_columns(s);
    expand_stage_reads(s);
    expand_lay_tiles(s);
    expand_find_pipes(s);
    expand_stage_stores(s);
  }
  for (size_t i = 0; i < s->place.n; i++)
    if (s->place.v[i]->frag)
      to_registers(s, s->k->buffers.v[i]);
  while ((s->peak = plan(s)), !target_has_shared(s->target, s->peak + ONCE_BYTES)) {
    if (s->registers && expand_shorten_pipes(s))
      continue;
    if (s->registers) {
      lower_note(s->request, "shared memory of %s has no room for its tiles", s->target->name);
      return false;
    }
    largest(s)->spilled = spilled = true;
  }
  for (size_t i = 0; i < s->place.n; i++)
    if (s->place.v[i]->tile && !s->place.v[i]->frag)
      s->k->buffers.v[i]->space = IRS_SHARED;
  for (size_t i = 0; i < s->place.n; i++)
    if (lies_otherwise(s->place.v[i]))
      to_ring(s, s->k->buffers.v[i]);
  low_note_tiles(s);
  if (spilled)
    spill_all(s);
  return true;
}

/* ---------------------------------------------------------------- barriers */

/* Buffers are also made while lowering. */
static void grow(Simple *s, uint32_t id) {
  while (s->held.n <= id) {
    VEC_PUSH(s->arena, &s->held, 0);
    VEC_PUSH(s->arena, &s->now, 0);
  }
}

/* What is private to a thread, or an input that nothing writes, needs no barrier. */
void low_note_buffer(Simple *s, const IrBuffer *b, unsigned how) {
  bool input = b->space == IRS_GLOBAL && b->role == IRR_IN && !(how & IR_WRITES);
  if (input || b->space == IRS_LOCAL || b->space == IRS_REG || low_place_of(s, b)->frag ||
      low_place_of(s, b)->piped)
    return;
  grow(s, b->id);
  s->now.v[b->id] |= (uint8_t)how;
}

/* Of the threads of a role. */
static void emit_role_barrier(Simple *s) {
  IrStmt *st = low_emit(s, IRK_OP);
  IrOperand *o = ARENA_ARRAY(s->k->arena, IrOperand, 2);
  o[0] = (IrOperand){.kind = IRO_EXPR, .expr = ir_int_of(s->k, DT_I32, s->barrier)};
  o[1] = (IrOperand){.kind = IRO_EXPR, .expr = ir_int_of(s->k, DT_I32, s->threads)};
  st->as.op = (IrOp){OP_BAR_SYNC, o, 2};
}

/* Behind it nothing is held. */
void low_barrier(Simple *s) {
  if (s->barrier && !s->alone)
    emit_role_barrier(s);
  else if (!s->alone)
    low_emit_op(s, OP_SYNCTHREADS);
  for (size_t i = 0; i < s->held.n; i++)
    s->held.v[i] = 0;
}

/* Where what comes next is not known: behind jumps, at the ends of loops. */
void low_flush(Simple *s) {
  for (size_t i = 0; i < s->held.n; i++)
    if (s->held.v[i]) {
      low_barrier(s);
      return;
    }
}

void low_take_bytes(Simple *s, const IrBuffer *b) {
  for (size_t i = 0; i < s->held.n; i++) {
    const IrBuffer *o = s->k->buffers.v[i];
    bool shared = s->held.v[i] && o->space == IRS_SHARED && s->place.n > i && s->place.v[i]->tile &&
                  !s->place.v[i]->spilled;
    if (shared && o->offset < end_of(s, b) && b->offset < end_of(s, o)) {
      low_barrier(s);
      return;
    }
  }
}

/* A write conflicts with everything, a read with writes. */
void low_fence(Simple *s) {
  bool conflict = false;
  for (size_t i = 0; i < s->now.n; i++)
    conflict |=
        (s->held.v[i] & IR_WRITES && s->now.v[i]) || (s->held.v[i] && s->now.v[i] & IR_WRITES);
  if (conflict)
    low_barrier(s);
  for (size_t i = 0; i < s->now.n; i++) {
    s->held.v[i] |= s->now.v[i];
    s->now.v[i] = 0;
  }
}

/* ---------------------------------------------------------------- accesses */

/* A spilled tile keeps its own extents for bounds and regions. */
IrExpr *low_extent_of(Simple *s, const IrBuffer *b, int axis) {
  const Place *p = low_place_of(s, b);
  return p->tile ? ir_int(s->k, p->extent[axis]) : b->extent[axis];
}

/* An element of a tile that does not lie row by row, in the stage in hand. */
static IrAccess ring_access(Simple *s, const IrBuffer *b, IrExpr *const *index) {
  return (IrAccess){.buf = low_place_of(s, b)->home, .index = {expand_offset(s, b, index)}};
}

/* The program's indices to the place where the element lies now. */
IrAccess low_access_at(Simple *s, IrBuffer *b, IrExpr *const *index) {
  const Place *p = low_place_of(s, b);
  IrAccess a = {.buf = b};
  if (p->frag) {
    for (int i = 0; i < p->rank; i++)
      a.index[i] = index[i];
    a.index[0] = expand_element(s, &a);
    a.buf = p->home;
    return a;
  }
  if (p->home && p->home->space == IRS_SHARED)
    return ring_access(s, b, index);
  if (!p->home) {
    for (int i = 0; i < b->rank; i++)
      a.index[i] = index[i];
    return a;
  }
  IrExpr *at = ir_int(s->k, 0);
  for (int i = 0; i < p->rank; i++)
    at = ir_op2(s->k, OP_ADD, ir_op2(s->k, OP_MUL, at, ir_int(s->k, p->extent[i])),
                ir_cast(s->k, index[i], DT_I64));
  a.buf = p->home;
  a.index[0] = ir_ref(s->k, s->slot);
  a.index[1] = at;
  return a;
}

/* Returns the condition, so that a check is one expression for its caller. */
IrExpr *low_emit_fault(Simple *s, IrExpr *bad, IrSite site, IrExpr *x, IrExpr *y) {
  IrKernel *k = s->k;
  IrStmt *st = low_emit(s, IRK_OP);
  IrOperand *o = ARENA_ARRAY(k->arena, IrOperand, 4);
  o[0] = (IrOperand){.kind = IRO_EXPR, .expr = bad};
  o[1] =
      (IrOperand){.kind = IRO_EXPR, .expr = ir_int_of(k, DT_I32, ir_site(k, site.code, site.text))};
  o[2] = (IrOperand){.kind = IRO_EXPR, .expr = x};
  o[3] = (IrOperand){.kind = IRO_EXPR, .expr = y};
  st->as.op = (IrOp){OP_FAULT, o, 4};
  return bad;
}

/* Whether i lies outside [0, n); NULL where it cannot. */
static IrExpr *outside(Simple *s, IrExpr *i, IrExpr *n) {
  int64_t lo, hi, end, end_hi;
  bool known = ir_range(i, &lo, &hi);
  IrExpr *bad = NULL;
  if (!known || lo < 0)
    bad = ir_op2(s->k, OP_LT, i, ir_int_of(s->k, i->type, 0));
  if (known && ir_range(n, &end, &end_hi) && hi < end)
    return bad;
  IrExpr *past = ir_op2(s->k, OP_GE, i, n);
  return bad ? ir_op2(s->k, OP_OR, bad, past) : past;
}

/* An integer of the text, "_" where only the run knows it. */
static const char *known_text(Simple *s, const IrExpr *e) {
  int64_t n;
  return ir_is_const(e, &n) ? arena_printf(s->arena, "%lld", (long long)n) : "_";
}

const char *low_extent_text(Simple *s, const IrBuffer *b, int axis) {
  return known_text(s, low_extent_of(s, b, axis));
}

/* The record holds the index and the extent of the axis that is left; of the others only constants
 * are said. */
static const char *outside_text(Simple *s, const IrAccess *a, int axis) {
  Str index = str_new(s->arena), extents = str_new(s->arena);
  if (a->buf->arrivals)
    return arena_printf(s->arena, "index {0} is outside axis %d of barrier %s, whose extent is {1}",
                        axis, a->buf->name);
  for (int i = 0; i < a->buf->rank; i++) {
    const char *comma = i ? ", " : "";
    str_addf(&index, "%s%s", comma, i == axis ? "{0}" : known_text(s, a->index[i]));
    str_addf(&extents, "%s%s", comma, i == axis ? "{1}" : low_extent_text(s, a->buf, i));
  }
  return arena_printf(s->arena, "element [%s] of %s is outside its extents [%s]", str_text(&index),
                      a->buf->name, str_text(&extents));
}

/* A FAULT for each axis that may be left, so that it names the axis. */
IrExpr *low_check_access(Simple *s, const IrAccess *a) {
  IrExpr *bad = NULL;
  Span at = s->at;
  if (!a->check || a->buf->unchecked || s->k->unchecked)
    return NULL;
  if (a->span.file)
    s->at = a->span;
  for (int i = 0; i < a->buf->rank; i++) {
    IrExpr *index = ir_cast(s->k, a->index[i], DT_I64), *n = low_extent_of(s, a->buf, i);
    IrExpr *out = outside(s, index, n);
    if (!out)
      continue;
    out = ir_ref(s->k, low_emit_let(s, "outside", out));
    low_emit_fault(s, out, (IrSite){E0450, outside_text(s, a, i)}, index, n);
    bad = bad ? ir_op2(s->k, OP_OR, bad, out) : out;
  }
  s->at = at;
  return bad;
}
