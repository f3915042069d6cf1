/* tiles.c: where the program's tiles came to lie, for whoever explains it.
 *
 * In: the places that lowering chose. Out: LowerTiles in the request's notes; from one of them the
 * byte of an element in shared memory, or the thread and register that hold it. Tests:
 * tests/repl/run (test_explain).
 */
#include "expand.h"

static LowerTile tile_of(const Simple *s, const Place *p, const IrBuffer *b) {
  const IrLayout *l = b->layout;
  LowerTile t = {.name = b->name, .dtype = b->dtype, .rank = p->rank, .offset = b->offset};
  t.bytes = (int64_t)dtype_size(b->dtype);
  for (int d = 0; d < p->rank; d++) {
    t.extent[d] = p->extent[d];
    t.bytes *= p->extent[d];
  }
  t.home = p->frag ? LOWER_REGISTERS : p->spilled ? LOWER_SCRATCH : LOWER_SHARED;
  t.fragment = p->fragment;
  t.stages = p->stages > b->stages ? p->stages : b->stages;
  t.chunks = p->chunks;
  t.chunk_rows = p->chunk_rows;
  t.twist = p->twist;
  t.columns = p->columns || (l && l->columns);
  t.pad = p->pad;
  t.map = p->map_at;
  t.swizzle = !p->stated && l && l->kind == IRL_SWIZZLE ? l->amount : 0;
  t.frag = p->frag ? arena_copy(s->request->notes->arena, p->frag, sizeof *p->frag) : NULL;
  return t;
}

/* A candidate that gives up later is followed by one that notes its own. */
void low_note_tiles(Simple *s) {
  LowerNotes *notes = s->request->notes;
  if (!notes)
    return;
  notes->tile.n = 0;
  for (size_t i = 0; i < s->place.n; i++)
    if (s->place.v[i]->tile)
      VEC_PUSH(notes->arena, &notes->tile, tile_of(s, s->place.v[i], s->k->buffers.v[i]));
}

/* The hardware's swizzle: rows of `span` bytes, longer ones in column blocks of it; within 1024
 * bytes the number of a 16-byte chunk is exchanged by that of its 128-byte line. */
static int64_t swizzled(int64_t span, int64_t rows, int64_t row, int64_t byte) {
  int64_t at = byte / span * (rows * span) + row * span + byte % span;
  return at ^ (at / 128 % (span / 16) * 16);
}

/* As expand_offset and tensor maps have it. */
int64_t lower_tile_byte(const LowerTile *t, const int64_t *index) {
  int64_t row = 0, rows = 1, col = 0, pitch = 1, size = (int64_t)dtype_size(t->dtype);
  for (int i = 0; i < t->rank; i++) {
    int d = t->columns && i >= t->rank - 2 ? 2 * t->rank - 3 - i : i;
    if (i == t->rank - 1) {
      col = index[d];
      pitch = t->extent[d];
    } else {
      row = row * t->extent[d] + index[d];
      rows *= t->extent[d];
    }
  }
  if (t->map)
    return t->offset + t->map[row * pitch + col] * size;
  if (t->swizzle && pitch * size >= t->swizzle)
    return t->offset + swizzled(t->swizzle, rows, row, col * size);
  if (t->chunks > 1) {
    int64_t turn = row % ((int64_t)t->chunks * t->chunk_rows) / t->chunk_rows;
    turn = t->twist ? turn * 2 % t->chunks + turn * 2 / t->chunks : turn;
    col ^= turn * (16 / size);
  }
  return t->offset + (row * (pitch + t->pad) + col) * size;
}

/* Adds what a number's digits say to the coordinates. */
static void add_digits(const FragDigit *digit, int n, int64_t number, int64_t *at) {
  for (int i = 0; i < n; i++) {
    int64_t value = number % digit[i].extent;
    number /= digit[i].extent;
    if (digit[i].axis >= 0)
      at[digit[i].axis] += value * digit[i].step;
  }
}

int64_t lower_tile_registers(const LowerTile *t) {
  return t->frag ? frag_registers(t->frag) : 0;
}

int64_t lower_tile_threads(const LowerTile *t) {
  return t->frag ? frag_threads(t->frag) : 0;
}

/* The first of several that hold the same. */
void lower_tile_holders(const LowerTile *t, int64_t rows, int64_t columns, LowerHolder *out) {
  for (int64_t i = 0; i < rows * columns; i++)
    out[i] = (LowerHolder){-1, -1};
  for (int64_t thread = 0; thread < lower_tile_threads(t); thread++)
    for (int64_t reg = 0; reg < lower_tile_registers(t); reg++) {
      int64_t at[IR_MAX_RANK] = {0}, row = 0;
      add_digits(t->frag->thread, t->frag->nthread, thread, at);
      add_digits(t->frag->reg, t->frag->nreg, reg, at);
      for (int d = 0; d < t->rank - 1; d++)
        row = row * t->extent[d] + at[d];
      int64_t column = t->rank ? at[t->rank - 1] : 0;
      LowerHolder *h = row < rows && column < columns ? &out[row * columns + column] : NULL;
      if (h && h->thread < 0)
        *h = (LowerHolder){thread, reg};
    }
}
