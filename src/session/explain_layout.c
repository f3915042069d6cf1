/* explain_layout.c: which element of a tile lies where: `:layout`.
 *
 * In: a kernel that was lowered, and a tile's name. Out: for shared memory the banks of the first
 * elements and what a warp's usual accesses cost, found by going through the 32 lanes; else the
 * place that lowering chose. A bank is 4 bytes wide; there are 32.
 * Tests: tests/repl/run (test_explain).
 */
#include <string.h>

#include "explain.h"

enum { BANKS = 32, BANK_BYTES = 4, LANES = 32, ROWS = 8, COLUMNS = 8 };

/* A tile as rows of the last axis. */
typedef struct Rows {
  const LowerTile *tile;
  int64_t rows, columns, size; /* elements; bytes of one */
} Rows;

static Rows rows_of(const LowerTile *t) {
  Rows r = {.tile = t, .rows = 1, .columns = 1, .size = (int64_t)dtype_size(t->dtype)};
  for (int d = 0; d < t->rank; d++) {
    if (d == t->rank - 1)
      r.columns = t->extent[d];
    else
      r.rows *= t->extent[d];
  }
  return r;
}

static int64_t address(const Rows *r, int64_t row, int64_t column) {
  int64_t index[IR_MAX_RANK] = {0};
  for (int d = r->tile->rank - 2; d >= 0; d--) {
    index[d] = row % r->tile->extent[d];
    row /= r->tile->extent[d];
  }
  if (r->tile->rank)
    index[r->tile->rank - 1] = column;
  return lower_tile_byte(r->tile, index);
}

/* Wavefronts of one access: the most different words that any bank must give. */
static int wavefronts(const int64_t *word, int n) {
  int most = 0;
  for (int bank = 0; bank < BANKS; bank++) {
    int different = 0;
    for (int i = 0; i < n; i++) {
      bool counts = word[i] % BANKS == bank;
      for (int k = 0; k < i && counts; k++)
        counts = word[k] != word[i];
      different += counts;
    }
    most = different > most ? different : most;
  }
  return most;
}

/* 32 lanes along a row or down a column. */
static void add_access(const Rows *r, bool column, Str *out) {
  int64_t word[LANES], extent = column ? r->rows : r->columns;
  int n = extent < LANES ? (int)extent : LANES;
  for (int i = 0; i < n; i++)
    word[i] = (column ? address(r, i, 0) : address(r, 0, i)) / BANK_BYTES;
  int w = wavefronts(word, n);
  str_addf(out, "%d lanes %s: %d wavefront%s%s\n", n, column ? "down a column" : "along a row", w,
           w == 1 ? "" : "s", w > 1 ? ", bank conflicts" : ", no conflict");
}

/* Eight rows of 16 bytes, what ldmatrix and a product's operand read at once. */
static void add_matrix(const Rows *r, Str *out) {
  int64_t word[32];
  if (r->rows < 8 || r->columns * r->size < 16)
    return;
  for (int row = 0; row < 8; row++)
    for (int i = 0; i < 4; i++)
      word[row * 4 + i] = address(r, row, 0) / BANK_BYTES + i;
  int w = wavefronts(word, 32);
  str_addf(out, "8 rows of 16 bytes (ldmatrix): %d wavefront%s%s\n", w, w == 1 ? "" : "s",
           w > 1 ? ", bank conflicts" : ", no conflict");
}

/* The bank of each element, in steps of 16 bytes where there are many. */
static void add_banks(const Rows *r, Str *out) {
  int64_t step = r->columns * r->size > COLUMNS * BANK_BYTES ? 16 / r->size : 1;
  step = step < 1 ? 1 : step;
  str_add(out, "bank of element [i, j]\n  i \\ j");
  for (int64_t j = 0, n = 0; j < r->columns && n < COLUMNS; j += step, n++)
    str_addf(out, " %4lld", (long long)j);
  str_addc(out, '\n');
  for (int64_t i = 0; i < r->rows && i < ROWS; i++) {
    str_addf(out, "%7lld", (long long)i);
    for (int64_t j = 0, n = 0; j < r->columns && n < COLUMNS; j += step, n++)
      str_addf(out, " %4lld", (long long)(address(r, i, j) / BANK_BYTES % BANKS));
    str_addc(out, '\n');
  }
}

static void add_shared(const LowerTile *t, Str *out) {
  Rows r = rows_of(t);
  str_addf(out, "%s: %s ", t->name, t->fragment ? "a fragment, in shared memory:" : "shared");
  tensor_add_type_of(t->dtype, t->rank, t->extent, out);
  str_addf(out, ", %lld bytes at %lld", (long long)t->bytes, (long long)t->offset);
  if (t->stages > 1)
    str_addf(out, ", %d stages", t->stages);
  str_addf(out, ", %s", t->columns ? "column by column" : "row by row");
  if (t->swizzle)
    str_addf(out, ", swizzle(%lld)", (long long)t->swizzle);
  if (t->chunks > 1)
    str_addf(out, ", %d chunks of 16 bytes exchanged by row", t->chunks);
  str_addc(out, '\n');
  add_banks(&r, out);
  add_access(&r, false, out);
  add_access(&r, true, out);
  add_matrix(&r, out);
}

/* "12.3": register 3 of thread 12. */
static void add_registers(const LowerTile *t, Str *out) {
  enum { SHOWN = 8 };
  Rows r = rows_of(t);
  LowerHolder holder[SHOWN * SHOWN];
  int64_t rows = r.rows < SHOWN ? r.rows : SHOWN, columns = r.columns < SHOWN ? r.columns : SHOWN;
  str_addf(out, "%s: fragment ", t->name);
  tensor_add_type_of(t->dtype, t->rank, t->extent, out);
  str_addf(out, ", %lld registers of each of %lld threads\n", (long long)lower_tile_registers(t),
           (long long)lower_tile_threads(t));
  lower_tile_holders(t, rows, columns, holder);
  str_add(out, "thread.register of element [i, j]\n  i \\ j");
  for (int64_t j = 0; j < columns; j++)
    str_addf(out, " %7lld", (long long)j);
  for (int64_t i = 0; i < rows; i++) {
    str_addf(out, "\n%7lld", (long long)i);
    for (int64_t j = 0; j < columns; j++) {
      char cell[48];
      const LowerHolder *h = &holder[i * columns + j];
      snprintf(cell, sizeof cell, "%lld.%lld", (long long)h->thread, (long long)h->reg);
      str_addf(out, " %7s", h->thread < 0 ? "-" : cell);
    }
  }
  str_addc(out, '\n');
}

/* The tiles that there are, for a name that none has. */
static void add_tiles(const Explain *x, const char *name, Str *out) {
  int n = 0;
  str_addf(out, "%s has no tile %s; it has", x->ir->name, name);
  for (size_t i = 0; x->notes && i < x->notes->tile.n; i++) {
    const char *other = x->notes->tile.v[i].name;
    if (!x->ast || debug_declares(x->ast, other))
      str_addf(out, "%s %s", n++ ? "," : "", other);
  }
  str_add(out, n ? "\n" : " none\n");
}

void explain_layout(Explain *x, const char *tile, Str *out) {
  const LowerTile *t = NULL;
  for (size_t i = 0; x->notes && i < x->notes->tile.n && !t; i++)
    if (strcmp(x->notes->tile.v[i].name, tile) == 0)
      t = &x->notes->tile.v[i];
  if (!t)
    add_tiles(x, tile, out);
  else if (t->home == LOWER_SHARED)
    add_shared(t, out);
  else if (t->home == LOWER_REGISTERS)
    add_registers(t, out);
  else
    str_addf(out, "%s: in global memory; it found no room in shared memory\n", tile);
}
