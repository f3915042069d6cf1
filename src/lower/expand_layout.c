/* expand_layout.c: `layout` of shared tiles, as the author states it.
 *
 * In: the places of the program's tiles. Out: how the elements of those with a stated layout lie:
 * parts of rows that change places, rows further apart, any map. What cannot be is left out with a
 * note. Always holds: a layout moves elements, in any candidate that places them; what elements
 * are, and bounds, never depend on it. Tests: tests/unit/check_lower.c.
 */
#include <inttypes.h>

#include "expand.h"

enum { CHUNK = 16, LINE = 128, MOST_OFFSET = 1 << 20 };

static void leave_out(Simple *s, const IrBuffer *b, const char *why) {
  lower_note(s->request, "layout of %s is left out: %s", b->name, why);
}

/* Spans of the rows, whose 16-byte parts are exchanged by the row's number; rows of one span that
 * lie in one line of the banks change together. */
static void swizzle(Simple *s, const IrBuffer *b, Place *p) {
  int64_t span = b->layout->amount;
  int64_t pitch = p->rank ? p->extent[p->rank - 1] * (int64_t)dtype_size(b->dtype) : 0;
  if (p->rank < 2 || pitch % span) {
    leave_out(s, b, "its rows are not whole spans of the swizzle");
    return;
  }
  p->chunks = (int)(span / CHUNK);
  p->chunk_rows = pitch == span ? (int)(LINE / span) : 1;
}

static int64_t count_rows(const Place *p) {
  int64_t rows = 1;
  for (int d = 0; d < p->rank - 1; d++)
    rows *= p->extent[d];
  return rows;
}

/* So that a stage, or another tile behind it, begins where vectors may. */
static int64_t rounded_up(int64_t bytes) {
  return (bytes + CHUNK - 1) / CHUNK * CHUNK;
}

static void padded(const IrBuffer *b, Place *p) {
  if (p->rank < 1)
    return;
  p->pad = b->layout->amount;
  p->bytes =
      rounded_up(count_rows(p) * (p->extent[p->rank - 1] + p->pad) * (int64_t)dtype_size(b->dtype));
}

/* Indices of the n-th element in row-major order, as values of the map's parameters. */
static void bind_element(IrBinding *x, const IrLayout *l, const Place *p, int64_t n) {
  for (int d = p->rank - 1; d >= 0; d--) {
    x->value[l->index[d]->id] = (Scalar){.type = DT_I64, .as.i = n % p->extent[d]};
    n /= p->extent[d];
  }
}

/* The map's values, which say how much room it takes. */
static void map(Simple *s, const IrBuffer *b, Place *p) {
  int64_t n = p->rank ? count_rows(p) * p->extent[p->rank - 1] : 0, most = -1;
  int64_t *at =
      ARENA_ARRAY(s->request->notes ? s->request->notes->arena : s->arena, int64_t, n + 1);
  IrBinding *x = ir_binding_new(s->arena, s->k);
  for (int64_t i = 0; i < n; i++) {
    Scalar v = {.type = DT_I64};
    bind_element(x, b->layout, p, i);
    if (!ir_host_eval(b->layout->offset, x, &v) || v.as.i < 0 || v.as.i >= MOST_OFFSET) {
      leave_out(s, b, "its map leads far from the tile");
      return;
    }
    at[i] = v.as.i;
    most = v.as.i > most ? v.as.i : most;
  }
  p->map = b->layout;
  p->map_at = at;
  p->bytes = rounded_up((most + 1) * (int64_t)dtype_size(b->dtype));
}

static void place_stated(Simple *s, const IrBuffer *b, Place *p) {
  if (p->printed) {
    leave_out(s, b, "a tile that is printed lies row by row");
    return;
  }
  p->stated = b->layout->kind != IRL_ROWS;
  if (b->layout->kind == IRL_SWIZZLE)
    swizzle(s, b, p);
  else if (b->layout->kind == IRL_PADDED)
    padded(b, p);
  else if (b->layout->kind == IRL_MAP)
    map(s, b, p);
}

static bool note_printed(IrStmt *st, void *ctx) {
  for (int i = 0; st->kind == IRK_REPORT && i < st->as.report.nparts; i++)
    if (st->as.report.part[i].region)
      low_place_of(ctx, st->as.report.part[i].region->buf)->printed = true;
  return true;
}

/* The tiles of a Hopper schedule's rings lie as its passes say. */
void low_stated_layouts(Simple *s) {
  ir_walk(&s->k->body, note_printed, s);
  for (size_t i = 0; i < s->place.n && i < s->k->buffers.n; i++) {
    const IrBuffer *b = s->k->buffers.v[i];
    Place *p = s->place.v[i];
    bool owned = i < s->owned.n && s->owned.v[i];
    if (p->tile && !p->fragment && b->layout && !b->arrivals && !owned && !p->operand)
      place_stated(s, b, p);
  }
}

/* The element's offset by the author's map. */
IrExpr *expand_mapped(Simple *s, const Place *p, IrExpr *const *at) {
  size_t n = s->k->vars.n;
  IrExpr **to = ARENA_ARRAY(s->arena, IrExpr *, n + 1);
  for (int d = 0; d < p->rank; d++)
    to[p->map->index[d]->id] = ir_cast(s->k, at[d], DT_I64);
  return ir_cast(s->k, ir_replace(s->k, p->map->offset, to, n), DT_I32);
}
