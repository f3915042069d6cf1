/* explain_layout.c: which element of a tile lies where: `:layout`.
 *
 * In: a kernel that was lowered, and a tile's name. Out: for shared memory the banks of the first
 * elements and what a warp's usual accesses cost, found by going through the 32 lanes; else the
 * place that lowering chose. A bank is 4 bytes wide; there are 32. Tests: tests/repl/explain.txt.
 */
#include <string.h>

#include "explain.h"

enum { BANKS = 32, BANK_BYTES = 4, LANES = 32, ROWS = 8, COLUMNS = 8 };

/* A tile as rows of the last axis. */
typedef struct Rows {
  const IrBuffer *buf;
  int64_t rows, columns, size; /* elements; bytes of one */
  int64_t pitch;               /* bytes from row to row */
} Rows;

static Rows rows_of(const IrBuffer *b) {
  Rows r = {.buf = b, .rows = 1, .columns = 1, .size = (int64_t)dtype_size(b->dtype)};
  for (int d = 0; d < b->rank; d++) {
    int64_t extent = 1;
    ir_is_const(b->extent[d], &extent);
    if (d == b->rank - 1)
      r.columns = extent;
    else
      r.rows *= extent;
  }
  r.pitch = r.columns * r.size;
  if (b->layout && b->layout->kind == IRL_PADDED)
    r.pitch += b->layout->amount * r.size;
  return r;
}

/* The hardware's swizzle: within 8 rows of `span` bytes the 16-byte chunk's number is exchanged by
 * the row's. Rows longer than the span lie in column blocks of it. */
static int64_t swizzled(const Rows *r, int64_t span, int64_t row, int64_t byte) {
  int64_t at = byte / span * (r->rows * span) + row * span + byte % span;
  int64_t chunks = span / 16;
  return at ^ ((at / 128 % chunks) * 16);
}

/* From the start of shared memory. A map of the program's own is a function of its indices, which
 * only the evaluator of expressions could follow: rows stand for it. */
static int64_t address(const Rows *r, int64_t row, int64_t column) {
  const IrLayout *l = r->buf->layout;
  int64_t byte = column * r->size;
  if (l && l->kind == IRL_SWIZZLE && r->pitch >= l->amount)
    return r->buf->offset + swizzled(r, l->amount, row, byte);
  return r->buf->offset + row * r->pitch + byte;
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

static const char *layout_name(const IrBuffer *b, Str *room) {
  const IrLayout *l = b->layout;
  if (!l || l->kind == IRL_ROWS)
    return "row by row";
  if (l->kind == IRL_MAP)
    return "by a map of the program's own (the banks below are those of rows)";
  str_addf(room, "%s(%lld)", l->kind == IRL_SWIZZLE ? "swizzle" : "padded", (long long)l->amount);
  return str_text(room);
}

static void add_shared(Explain *x, const IrBuffer *b, Str *out) {
  Rows r = rows_of(b);
  Str room = session_str(x->s);
  str_addf(out, "%s: shared ", b->name);
  explain_type(b, out);
  str_addf(out, ", %lld bytes at %lld, %s\n", (long long)(r.rows * r.pitch), (long long)b->offset,
           layout_name(b, &room));
  add_banks(&r, out);
  add_access(&r, false, out);
  add_access(&r, true, out);
  add_matrix(&r, out);
}

/* Lowering may have put `_1` to the name. */
static const IrBuffer *find(const IrKernel *k, const char *name) {
  size_t n = strlen(name);
  for (size_t i = 0; i < k->buffers.n; i++)
    if (strcmp(k->buffers.v[i]->name, name) == 0)
      return k->buffers.v[i];
  for (size_t i = 0; i < k->buffers.n; i++) {
    const char *other = k->buffers.v[i]->name;
    if (strncmp(other, name, n) == 0 && other[n] == '_' && other[n + 1] &&
        !other[n + 1 + strspn(other + n + 1, "0123456789")])
      return k->buffers.v[i];
  }
  return NULL;
}

static bool is_tile(const IrBuffer *b) {
  return b->space == IRS_SHARED || b->space == IRS_FRAGMENT;
}

/* The tiles that there are, for a name that none has. */
static void add_tiles(const Explain *x, const char *name, Str *out) {
  str_addf(out, "%s has no tile %s; it has", x->ir->name, name);
  int n = 0;
  for (size_t i = 0; i < x->ir->buffers.n; i++) {
    const IrBuffer *b = x->ir->buffers.v[i];
    if (is_tile(b) && explain_is_users(x, b))
      str_addf(out, "%s %s", n++ ? "," : "", b->name);
  }
  str_add(out, n ? "\n" : " none\n");
}

void explain_layout(Explain *x, const char *tile, Str *out) {
  const IrBuffer *written = find(x->ir, tile), *b = find(x->thread, tile);
  if (!written || (!is_tile(written) && x->ir->level != IR_THREAD)) {
    add_tiles(x, tile, out);
    return;
  }
  if (b && b->space == IRS_SHARED) {
    if (written->space == IRS_FRAGMENT)
      str_add(out, "a fragment that this schedule keeps in shared memory\n");
    add_shared(x, b, out);
    return;
  }
  str_addf(out, "%s: ", tile);
  explain_type(written, out);
  if (b && b->space == IRS_REG)
    str_addf(out, " in registers, %lld a thread\n",
             (long long)(explain_bytes(b) / (int64_t)dtype_size(b->dtype)));
  else
    str_add(out, b ? " in global memory: it found no room in shared memory\n"
                   : " is gone: nothing needs it after lowering\n");
}
