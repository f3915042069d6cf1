/* thread_desc.c: matrix descriptors decoded, and the products that they name.
 *
 * In: the 64 bits that the hardware takes. Out: 16-byte chunks of shared memory, gathered into
 * panels, multiplied by the product kernel with k ascending and one fused step an element, so that
 * the bits are the tile level's. Swizzles XOR bits of the final address, as the hardware does.
 * Rules: PTX ISA, asynchronous warpgroup matrix descriptor. Tests: tests/unit/check_wgmma.c.
 */
#include <string.h>

#include "thread_device.h"

void eval_desc_decode(uint64_t desc, int rows, bool trans, DescMatrix *m) {
  static const int spans[4] = {0, 128, 64, 32};
  *m = (DescMatrix){.trans = trans, .rows = rows, .span = spans[desc >> 62]};
  m->start = (int64_t)(desc & 0x3FFF) * 16 - EVAL_SHARED_BASE;
  m->leading = (int64_t)(desc >> 16 & 0x3FFF) * 16;
  m->stride = (int64_t)(desc >> 32 & 0x3FFF) * 16;
  m->base = (int)(desc >> 49 & 7);
}

/* ---------------------------------------------------------------- panels */

/* A batch of products on the same accumulators: steps of 32 bytes of k. */
typedef struct Batch {
  const Product *product[8];
  int n, k; /* columns, elements of k */
  int steps;
  int size; /* bytes of an element of A and B */
} Batch;

static const void *chunk_at(const EvalBlock *b, const DescMatrix *m, int r, int c) {
  return b->shared + eval_desc_chunk(m, r, c);
}

/* A to raw[64][k]; only 16-bit types lie transposed. */
static void gather_a(const EvalBlock *b, const Batch *x, int step, uint8_t *raw) {
  const Product *p = x->product[step];
  DescMatrix m;
  int row = 32 * x->steps; /* bytes */
  eval_desc_decode(p->a, 64, p->trans_a, &m);
  raw += 32 * step;
  for (int r = 0; !m.trans && r < 64; r++)
    for (int c = 0; c < 2; c++)
      memcpy(raw + r * row + 16 * c, chunk_at(b, &m, r, c), 16);
  for (int k = 0; m.trans && k < 16; k++)
    for (int c = 0; c < 8; c++) {
      const uint8_t *from = chunk_at(b, &m, k, c);
      for (int i = 0; i < 8; i++)
        memcpy(raw + (8 * c + i) * row + 2 * k, from + 2 * i, 2);
    }
}

/* Register j of lane l holds row l/4 + 8 (j%2), four bytes from 4 (l%4) + 16 (j/2) on. */
static void gather_fragments(const Batch *x, int step, uint8_t *raw) {
  const Product *p = x->product[step];
  int bytes = 32 * x->steps;
  for (int w = 0; w < 4; w++)
    for (int j = 0; j < 4; j++)
      for (int l = 0; l < EVAL_WARP; l++) {
        int row = 16 * w + l / 4 + 8 * (j % 2), at = 32 * step + 4 * (l % 4) + 16 * (j / 2);
        memcpy(raw + row * bytes + at, &p->fragment[w][j * EVAL_WARP + l], 4);
      }
}

/* B, stored with k along its rows, to raw[k][n]: 16 bytes of k a chunk. */
#define TURN(name, T)                                                                              \
  static void name(const EvalBlock *b, const DescMatrix *m, int n, T *raw) {                       \
    enum { K = 16 / sizeof(T) };                                                                   \
    for (int c = 0; c < 2; c++)                                                                    \
      for (int r = 0; r < n; r++) {                                                                \
        T from[K], *to = raw + K * c * n + r;                                                      \
        memcpy(from, chunk_at(b, m, r, c), 16);                                                    \
        for (int i = 0; i < K; i++)                                                                \
          to[i * n] = from[i];                                                                     \
      }                                                                                            \
  }
TURN(turn_b8, uint8_t)
TURN(turn_b16, uint16_t)
TURN(turn_b32, uint32_t)

static void gather_b(const EvalBlock *b, const Batch *x, int step, uint16_t *raw) {
  const Product *p = x->product[step];
  DescMatrix m;
  int n = x->n;
  eval_desc_decode(p->b, n, p->trans_b, &m);
  raw += 16 * step * n; /* 32 bytes of k */
  if (x->size == 1)
    turn_b8(b, &m, n, (uint8_t *)raw);
  else if (x->size == 4)
    turn_b32(b, &m, n, (uint32_t *)(void *)raw);
  else if (!m.trans)
    turn_b16(b, &m, n, raw);
  for (int k = 0; m.trans && k < 16; k++)
    for (int c = 0; c < n / 8; c++)
      memcpy(raw + k * n + 8 * c, chunk_at(b, &m, k, c), 16);
}

/* Accumulators between registers and c[64][n]: register i of lane l of warp w is row
 * 16w + l/4 + 8 ((i/2)%2), column 8 (i/4) + 2 (l%4) + i%2. */
/* Where the product adds to what is there. */
static void take_accumulators(const Batch *x, float *c) {
  for (int w = 0; w < 4; w++) {
    const float *d = x->product[0]->d[w];
    for (int r = 0; r < 16; r++)
      for (int b = 0; b < x->n / 8; b++) {
        const float *even = d + (4 * b + r / 8 * 2) * EVAL_WARP + r % 8 * 4;
        float *to = c + (16 * w + r) * x->n + 8 * b;
        for (int q = 0; q < 4; q++) {
          to[2 * q] = even[q];
          to[2 * q + 1] = even[EVAL_WARP + q];
        }
      }
  }
}

/* The result, to the registers of the four warps. */
static void give_accumulators(const Batch *x, const float *c) {
  for (int w = 0; w < 4; w++) {
    float *d = x->product[0]->d[w];
    for (int r = 0; r < 16; r++)
      for (int b = 0; b < x->n / 8; b++) {
        float *even = d + (4 * b + r / 8 * 2) * EVAL_WARP + r % 8 * 4;
        const float *from = c + (16 * w + r) * x->n + 8 * b;
        for (int q = 0; q < 4; q++) {
          even[q] = from[2 * q];
          even[EVAL_WARP + q] = from[2 * q + 1];
        }
      }
  }
}

/* ---------------------------------------------------------------- computing */

/* Operands to panels of floats, one call of the product kernel, back to registers. */
static void compute(EvalBlock *b, const Batch *x) {
  DevBlock *d = b->device;
  const Product *p = x->product[0];
  uint16_t *raw_a = d->raw, *raw_b = d->raw + 64 * 16 * x->steps;
  float *a = d->panel, *bp = a + 64 * x->k, *c = bp + x->k * x->n;
  for (int s = 0; s < x->steps; s++) {
    if (p->from_registers)
      gather_fragments(x, s, (uint8_t *)raw_a);
    else
      gather_a(b, x, s, (uint8_t *)raw_a);
    gather_b(b, x, s, raw_b);
  }
  eval_mma_unpack(p->type, raw_a, a, (size_t)(64 * x->k));
  eval_mma_unpack(p->type, raw_b, bp, (size_t)(x->k * x->n));
  if (p->scale_d)
    take_accumulators(x, c);
  EvalTile t = {.m = 64,
                .n = x->n,
                .k = x->k,
                .a = a,
                .b = bp,
                .c = c,
                .ars = x->k,
                .acs = 1,
                .brs = x->n,
                .crs = x->n,
                .accumulate = p->scale_d};
  eval_mma_multiply(b, p->type, &t);
  give_accumulators(x, c);
}

/* Products on the same accumulators, one after the other, are one product with a longer k: the
 * chain of fused steps, hence every bit, is the same. */
static bool continues(const Product *p, const Product *q) {
  return q->scale_d && q->n == p->n && q->type == p->type &&
         q->from_registers == p->from_registers && memcmp(q->d, p->d, sizeof p->d) == 0;
}

/* In order of issue; as many at a time as continue each other and fit the panels. */
void eval_products_run(EvalBlock *b, int group, uint32_t last) {
  DevBlock *d = b->device;
  Warpgroup *g = &d->group[group];
  while (g->done < last) {
    const Product *first = &g->product[(g->done + 1) % PRODUCTS];
    Batch x = {.steps = 0, .n = first->n, .size = (int)dtype_size(first->type)};
    int k = 32 / x.size, wide = k > 16 ? k : 16; /* of the panels, of what is gathered */
    while (g->done < last && x.steps < 8) {
      const Product *p = &g->product[(g->done + 1) % PRODUCTS];
      if (x.steps && (!continues(first, p) || wide * (x.steps + 1) * x.n > PANEL_B))
        break;
      x.product[x.steps++] = p;
      g->done++;
    }
    x.k = k * x.steps;
    compute(b, &x);
  }
}
