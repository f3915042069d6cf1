/* channels.c: pass: tiles that copies fill for products become rings of stages.
 *
 * In: a scheduled kernel whose copies have engines. Out: channels; around the copies acquire and
 * commit, around what reads the tiles wait and release, in the block in which the copies stand, so
 * that a loop that runs no time moves nothing. Copies with the same first and last reader share a
 * channel. Always holds: the stages fit the target's shared memory.
 * Tests: tests/unit/check_schedule.c.
 */
#include <inttypes.h>

#include "sched.h"

enum { ONCE = -1, CHOSEN_STAGES = 4 };

typedef struct Channels {
  IrKernel *k;
  const LowerRequest *r;
  IrBlock head;          /* tiles and channels */
  VEC(IrChannel *) once; /* filled once a tile, outside of the program's loops */
  bool declined;
} Channels;

/* Copies of one run of a block that are waited for and released together. */
typedef struct Group {
  IrChannel *channel;
  size_t first, last; /* readers, by place in the block */
  IrBlock copies;
} Group;
typedef VEC(Group) Groups;

static bool is_load(const IrStmt *s) {
  return s->kind == IRK_COPY && s->as.copy.engine == IRE_TMA &&
         s->as.copy.dst.buf->space == IRS_SHARED;
}

/* ---------------------------------------------------------------- grouping */

/* Who reads the tile in this block; false where that is nobody, or somebody before the copy. */
static bool find_readers(const IrBlock *b, size_t copy, const IrBuffer *tile, Group *g) {
  bool found = false;
  for (size_t i = 0; i < b->n; i++) {
    if (i == copy || !sched_reads(b->v[i], tile))
      continue;
    if (i < copy)
      return false;
    g->first = found ? g->first : i;
    g->last = i;
    found = true;
  }
  return found;
}

static void note_group(Channels *c, Groups *groups, const Group *g, IrStmt *copy) {
  for (size_t i = 0; i < groups->n; i++) {
    Group *o = &groups->v[i];
    if (o->first == g->first && o->last == g->last) {
      sched_push(c->k, &o->copies, copy);
      return;
    }
  }
  Group fresh = *g;
  fresh.copies = (IrBlock){0};
  sched_push(c->k, &fresh.copies, copy);
  VEC_PUSH(c->k->arena, groups, fresh);
}

static bool group_copies(Channels *c, const IrBlock *b, Groups *groups) {
  for (size_t i = 0; i < b->n; i++) {
    Group g = {0};
    if (!is_load(b->v[i]))
      continue;
    const IrBuffer *tile = b->v[i]->as.copy.dst.buf;
    if (!find_readers(b, i, tile, &g)) {
      sched_decline(c->r, "`%s` is not read behind its copy, in the same block", tile->name);
      c->declined = true;
      return false;
    }
    note_group(c, groups, &g, b->v[i]);
  }
  return true;
}

/* ---------------------------------------------------------------- building */

static IrStmt *channel_op(Channels *c, IrKind kind, IrChannel *ch, Span span) {
  IrStmt *s = sched_stmt(c->k, kind, span);
  s->as.channel_op.channel = ch;
  return s;
}

/* The tiles' declarations move to the front of the kernel: roles share them. */
static void declare(Channels *c, Group *g, int stages) {
  IrKernel *k = c->k;
  IrBuffer **tile = ARENA_ARRAY(k->arena, IrBuffer *, g->copies.n);
  for (size_t i = 0; i < g->copies.n; i++) {
    tile[i] = g->copies.v[i]->as.copy.dst.buf;
    tile[i]->stages = stages;
    sched_push(k, &c->head, sched_take_alloc(&k->body, tile[i]));
  }
  g->channel =
      ir_channel(k, arena_printf(k->arena, "ch_%s", tile[0]->name), tile, (int)g->copies.n);
  g->channel->stages = stages;
  g->channel->producers = 1;
  g->channel->consumers = k->threads / GROUP_THREADS;
}

/* Where the group's first copy stands: acquire, all its copies, commit. */
static void push_fill(Channels *c, IrBlock *out, const Group *g) {
  Span span = g->copies.v[0]->span;
  sched_push(c->k, out, channel_op(c, IRK_ACQUIRE, g->channel, span));
  for (size_t i = 0; i < g->copies.n; i++)
    sched_push(c->k, out, g->copies.v[i]);
  sched_push(c->k, out, channel_op(c, IRK_COMMIT, g->channel, span));
}

/* A group's copies meet at the last of them, before its first reader: what is in between defines
 * what a later copy needs. */
static void rebuild(Channels *c, IrBlock *b, const Groups *groups) {
  IrBlock out = {0};
  for (size_t i = 0; i < b->n; i++) {
    IrStmt *s = b->v[i];
    for (size_t j = 0; j < groups->n; j++)
      if (groups->v[j].first == i)
        sched_push(c->k, &out, channel_op(c, IRK_WAIT, groups->v[j].channel, s->span));
    if (!is_load(s))
      sched_push(c->k, &out, s);
    for (size_t j = 0; j < groups->n; j++) {
      const Group *g = &groups->v[j];
      if (g->copies.v[g->copies.n - 1] == s)
        push_fill(c, &out, g);
      if (g->last == i)
        sched_push(c->k, &out, channel_op(c, IRK_RELEASE, g->channel, s->span));
    }
  }
  *b = out;
}

/* stages: of what is filled here; 0: the compiler's choice; ONCE: outside of all loops. */
static void plan_block(Channels *c, IrBlock *b, int stages) {
  Groups groups = {0};
  IrBlock *inner;
  for (size_t i = 0; i < b->n; i++) {
    const IrStmt *s = b->v[i];
    int inside = s->kind == IRK_FOR ? s->as.loop.stages : stages;
    for (int j = 0; (inner = ir_nested(b->v[i], j)) && s->kind != IRK_MAP; j++)
      plan_block(c, inner, inside);
  }
  if (!group_copies(c, b, &groups) || !groups.n)
    return;
  for (size_t i = 0; i < groups.n; i++) {
    declare(c, &groups.v[i], stages == ONCE ? 1 : stages ? stages : CHOSEN_STAGES);
    if (stages == ONCE)
      VEC_PUSH(c->k->arena, &c->once, groups.v[i].channel);
  }
}

/* The declarations are gone from the blocks by now, so that places in them are final. */
static void fill_block(Channels *c, IrBlock *b, size_t *next) {
  Groups groups = {0};
  IrBlock *inner;
  for (size_t i = 0; i < b->n; i++) {
    for (int j = 0; (inner = ir_nested(b->v[i], j)) && b->v[i]->kind != IRK_MAP; j++)
      fill_block(c, inner, next);
    if (b->v[i]->kind == IRK_FOR && b->v[i]->as.loop.loop == IRF_PIPELINED) {
      b->v[i]->as.loop.loop = IRF_SERIAL; /* the channels are the pipeline */
      b->v[i]->as.loop.stages = 0;
    }
  }
  if (!group_copies(c, b, &groups))
    return;
  for (size_t i = 0; i < groups.n; i++)
    groups.v[i].channel = c->k->channels.v[(*next)++];
  rebuild(c, b, &groups);
}

/* ---------------------------------------------------------------- room */

/* Everything shared, with its stages. */
static int64_t total_bytes(const IrKernel *k) {
  int64_t bytes = BARRIER_BYTES;
  for (size_t i = 0; i < k->buffers.n; i++) {
    const IrBuffer *b = k->buffers.v[i];
    if (b->space == IRS_SHARED)
      bytes += b->stages * ((sched_tile_bytes(b) + 1023) / 1024 * 1024);
  }
  return bytes;
}

static void set_stages(IrChannel *ch, int stages) {
  ch->stages = stages;
  for (int i = 0; i < ch->ntiles; i++)
    ch->tile[i]->stages = stages;
}

/* The deepest ring loses a stage, all its tiles alike; false where every ring has one. */
static bool shorten(IrKernel *k) {
  IrChannel *deepest = NULL;
  for (size_t i = 0; i < k->channels.n; i++)
    if (!deepest || k->channels.v[i]->stages > deepest->stages)
      deepest = k->channels.v[i];
  if (!deepest || deepest->stages < 2)
    return false;
  set_stages(deepest, deepest->stages - 1);
  return true;
}

/* "loaded ahead by TMA, 3 stages of 49152 bytes: As, Bs" */
static void note_channel(const Channels *c, const IrChannel *ch) {
  int64_t bytes = 0;
  Str tiles = str_new(c->k->arena);
  for (int i = 0; i < ch->ntiles; i++) {
    bytes += sched_tile_bytes(ch->tile[i]);
    str_addf(&tiles, "%s%s", i ? ", " : "", ch->tile[i]->name);
  }
  sched_note(c->r, "loaded ahead by TMA, %d stage%s of %" PRId64 " bytes: %s", ch->stages,
             ch->stages > 1 ? "s" : "", bytes, str_text(&tiles));
}

/* What is left takes the next tile's while this one's is read: without that, nothing of the next
 * tile is loaded before this one is done. */
static void load_ahead(Channels *c) {
  for (size_t i = 0; i < c->once.n && c->k->grid_rank > 0; i++) {
    set_stages(c->once.v[i], 2);
    if (!target_has_shared(c->r->target, total_bytes(c->k)))
      set_stages(c->once.v[i], 1);
  }
}

static bool fit(Channels *c) {
  while (!target_has_shared(c->r->target, total_bytes(c->k))) {
    if (!shorten(c->k)) {
      sched_decline(c->r, "the tiles take %" PRId64 " bytes of shared memory", total_bytes(c->k));
      return false;
    }
  }
  load_ahead(c);
  for (size_t i = 0; i < c->k->channels.n; i++)
    note_channel(c, c->k->channels.v[i]);
  return true;
}

/* ---------------------------------------------------------------- the kernel */

IrKernel *low_channels(Arena *a, const IrKernel *from, const LowerRequest *r, DiagSink *sink) {
  (void)sink;
  IrKernel *k = ir_kernel_clone(a, from);
  Channels c = {.k = k, .r = r};
  size_t next = 0;
  if (sched_jumps_around_fill(k)) /* a stage that is filled would not be released */
    return sched_decline(r, "break, continue or while around the copies");
  plan_block(&c, &k->body, ONCE);
  if (!c.declined && !k->channels.n)
    return sched_decline(r, "no copy from a tensor feeds the products");
  if (c.declined || !fit(&c))
    return NULL;
  fill_block(&c, &k->body, &next);
  for (size_t i = 0; i < k->channels.n; i++) {
    IrStmt *s = ir_add(k, &c.head, IRK_CHANNEL, k->span);
    s->as.channel = k->channels.v[i];
  }
  for (size_t i = 0; i < c.head.n; i++)
    sched_insert(k, &k->body, i, c.head.v[i]);
  return k;
}
