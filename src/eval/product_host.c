/* product_host.c: eval_product, products of host matrices of any strides and types.
 *
 * In: matrices in stored form. Out: c in the accumulator's type. The rows and columns of c are cut
 * into tiles that workers take; each tile walks k in blocks, ascending, from packed panels, and
 * keeps its accumulators between blocks, so that the bits are those of one chain. The interrupt is
 * polled at every block. Tests: tests/unit/check_eval_product.c.
 * Sizes: a panel of b of 32 columns stays in the first-level cache, the packed tile of a in the
 * second. Packing costs about a tenth; without it rows a power of two apart would fall on the same
 * cache sets.
 */
#include <stdlib.h>
#include <string.h>

#include "run.h"

enum { ROWS = 224, COLUMNS = 512, DEPTH = 384 };

typedef struct Product {
  const EvalOptions *options;
  const EvalKernels *kernels;
  OpIsa isa;
  DType type, acc;
  OpStrip cast; /* stored type's compute form to acc's operands; NULL: they agree */
  int64_t m, n, k;
  EvalMatrix a, b, c;
  bool accumulate;
  int64_t across;    /* tiles along n */
  atomic_int failed; /* a Status */
  char **room;       /* by worker */
  size_t room_bytes;
} Product;

/* rows x cols from (i, j) of a stored matrix to row-major elements of acc's operands. */
static void pack(const Product *p, const EvalMatrix *x, int64_t i, int64_t j, int64_t rows,
                 int64_t cols, char *out, char *line) {
  EvalMem m = {.data = x->data, .dtype = p->type, .stored = true, .size = dtype_size(p->type)};
  size_t size = dtype_size(p->acc);
  const void *one[1] = {line};
  /* Along the denser axis: a transposed matrix is read by columns. */
  bool by_column = x->col != 1 && x->row == 1 && size == 4;
  if (by_column) {
    for (int64_t c = 0; c < cols; c++) {
      eval_mem_gather(&m, i * x->row + (j + c) * x->col, 1, line, rows);
      if (p->cast)
        p->cast((size_t)rows, line + 8 * (rows > cols ? rows : cols), one);
      const float *from = (const float *)(p->cast ? line + 8 * (rows > cols ? rows : cols) : line);
      float *to = (float *)out + c;
      for (int64_t r = 0; r < rows; r++)
        to[r * cols] = from[r];
    }
    return;
  }
  for (int64_t r = 0; r < rows; r++, out += (size_t)cols * size) {
    eval_mem_gather(&m, (i + r) * x->row + j * x->col, x->col, p->cast ? line : out, cols);
    if (p->cast)
      p->cast((size_t)cols, out, one);
  }
}

/* bf16 could underflow: only types of narrow range may multiply and add apart. */
static void kernel(const Product *p, EvalTile *t) {
  t->exact =
      p->isa == OPS_BASELINE && (p->type == DT_F16 || p->type == DT_F8E4M3 || p->type == DT_F8E5M2);
  if (p->acc == DT_F32)
    p->kernels->f32(t);
  else if (p->acc == DT_F64)
    p->kernels->f64(t);
  else if (p->acc == DT_I32)
    p->kernels->i32(t);
  else
    p->kernels->i64(t);
}

/* Any worker sees the interrupt within one block of k. */
static bool stopped(Product *p) {
  if (p->options->interrupt && *p->options->interrupt)
    atomic_store(&p->failed, ST_INTERRUPTED);
  return atomic_load(&p->failed) != 0;
}

/* Where the tile's accumulators are: in c itself, or in row-major room. */
static void *open_tile(const Product *p, int64_t i, int64_t j, int64_t m, int64_t n, char *room,
                       int64_t *row) {
  size_t size = dtype_size(p->acc);
  if (p->c.col == 1) {
    *row = p->c.row;
    return (char *)p->c.data + (size_t)(i * p->c.row + j) * size;
  }
  *row = n;
  for (int64_t r = 0; p->accumulate && r < m; r++)
    for (int64_t s = 0; s < n; s++)
      memcpy(room + (size_t)(r * n + s) * size,
             (char *)p->c.data + ((i + r) * p->c.row + (j + s) * p->c.col) * (int64_t)size, size);
  return room;
}

/* Where c lies by columns its tile was set aside. */
static void close_tile(const Product *p, int64_t i, int64_t j, int64_t m, int64_t n,
                       const char *room) {
  size_t size = dtype_size(p->acc);
  for (int64_t r = 0; p->c.col != 1 && r < m; r++)
    for (int64_t s = 0; s < n; s++)
      memcpy((char *)p->c.data + ((i + r) * p->c.row + (j + s) * p->c.col) * (int64_t)size,
             room + (size_t)(r * n + s) * size, size);
}

/* The packed panels belong to the worker and serve all its tiles. */
static void tile(void *ctx, size_t number, int worker) {
  Product *p = ctx;
  if (stopped(p))
    return;
  int64_t i = (int64_t)number / p->across * ROWS, j = (int64_t)number % p->across * COLUMNS;
  int64_t m = p->m - i < ROWS ? p->m - i : ROWS, n = p->n - j < COLUMNS ? p->n - j : COLUMNS;
  if (!p->room[worker])
    p->room[worker] = aligned_alloc(64, p->room_bytes);
  char *room = p->room[worker];
  if (!room) {
    atomic_store(&p->failed, ST_NOMEM);
    return;
  }
  size_t size = dtype_size(p->acc);
  char *a = room, *b = a + ROWS * DEPTH * size, *c = b + COLUMNS * DEPTH * size,
       *line = c + ROWS * COLUMNS * size;
  EvalTile t = {.m = m, .n = n};
  t.c = open_tile(p, i, j, m, n, c, &t.crs);
  t.accumulate = p->accumulate;
  int64_t q = 0;
  do {
    t.k = p->k - q < DEPTH ? p->k - q : DEPTH;
    t.a = a;
    t.ars = t.k;
    t.acs = 1;
    t.brs = n;
    t.b = b;
    pack(p, &p->b, q, j, t.k, n, b, line);
    pack(p, &p->a, i, q, m, t.k, a, line);
    kernel(p, &t);
    t.accumulate = true;
    q += DEPTH;
  } while (q < p->k && !stopped(p));
  close_tile(p, i, j, m, n, t.c);
}

/* Tiles are independent: any order, any worker, the same bits. */
static void run_tiles(Product *p, size_t tiles) {
  if (p->options->pool && tiles > 1)
    pool_run(p->options->pool, tiles, tile, p);
  else
    for (size_t i = 0; i < tiles; i++)
      tile(p, i, 0);
}

/* Room is made by each worker on its first tile. */
Status eval_product(const EvalOptions *o, DType t, int64_t m, int64_t n, int64_t k, EvalMatrix a,
                    EvalMatrix b, EvalMatrix c, bool accumulate) {
  Product p = {.options = o,
               .type = t,
               .acc = op_product_type(t, t),
               .m = m,
               .n = n,
               .k = k,
               .a = a,
               .b = b,
               .c = c,
               .accumulate = accumulate};
  if (m <= 0 || n <= 0)
    return ST_OK;
  p.isa = op_isa_choose(o->isa);
  p.kernels = eval_kernels(p.isa);
  if (dtype_compute(t) != p.acc)
    p.cast = op_strip_on(p.isa, OP_CAST, t, p.acc);
  p.across = (n + COLUMNS - 1) / COLUMNS;
  size_t tiles = (size_t)((m + ROWS - 1) / ROWS * p.across);
  size_t size = dtype_size(p.acc);
  p.room_bytes = (ROWS * DEPTH + COLUMNS * DEPTH + ROWS * COLUMNS) * size + 16 * COLUMNS + 64;
  p.room_bytes = (p.room_bytes + 63) & ~(size_t)63;
  int workers = o->pool ? pool_threads(o->pool) : 1;
  p.room = calloc((size_t)workers, sizeof *p.room);
  if (!p.room)
    return ST_NOMEM;
  atomic_init(&p.failed, 0);
  run_tiles(&p, tiles);
  for (int i = 0; i < workers; i++)
    free(p.room[i]);
  free(p.room);
  return (Status)atomic_load(&p.failed);
}
