/* print.c: what kernels print.
 *
 * Goes in: a ring in device memory that kernels filled. Comes out: its lines, in an order that does
 * not depend on when blocks ran. Always holds: the ring is bounded; lines that find it full are
 * counted and lost, and the kernel runs on. Device memory, for its counters are hammered by
 * atomics; it is read only after calls that print. Tests: tests/unit/check_gpu_device.c,
 * tests/gpu/print.tile.
 */
#include "driver.h"

#include <stdlib.h>

enum { RING_WORDS = 1 << 17, HEAD_WORDS = 3 }; /* 1 MiB; of each line: length, block, call */

/* The words too: a line that was cut off by the end must read as nothing. */
static Status clear(Gpu *g, size_t words) {
  GpuPrintHead head = {.size = RING_WORDS};
  Status st = gpu_fill(g, g->ring + sizeof head, 4, 0, words * 2);
  return st == ST_OK ? gpu_upload(g, g->ring, &head, sizeof head) : st;
}

Status gpu_print_ring(Gpu *g, GpuPtr *out) {
  *out = 0;
  if (!gpu_alive(g))
    return ST_DEVICE;
  if (!g->ring) {
    size_t bytes = sizeof(GpuPrintHead) + RING_WORDS * sizeof(uint64_t);
    GPU_TRY(g, g->d->mem_alloc(&g->ring, bytes), "the ring that kernels print to");
    Status st = clear(g, RING_WORDS);
    if (st != ST_OK) { /* what lies there would be taken for lines */
      if (!g->lost)
        (void)g->d->mem_free(g->ring);
      g->ring = 0;
      return st;
    }
  }
  *out = g->ring;
  return ST_OK;
}

/* Takes the line at word `at` of n apart; false where the words make no sense. */
static bool read_line(const uint64_t *w, size_t at, size_t n, GpuPrintLine *out) {
  size_t length = at + HEAD_WORDS <= n ? (size_t)(w[at] >> 32) : 0;
  if (length < HEAD_WORDS || length > n - at)
    return false;
  *out = (GpuPrintLine){.line = (uint32_t)w[at],
                        .call = (uint32_t)w[at + 2],
                        .thread = (uint32_t)(w[at + 2] >> 32),
                        .value = w + at + HEAD_WORDS,
                        .nvalues = length - HEAD_WORDS};
  out->block[0] = (uint32_t)w[at + 1];
  out->block[1] = (uint32_t)(w[at + 1] >> 32) & 0xffff;
  out->block[2] = (uint32_t)(w[at + 1] >> 48);
  return true;
}

static int compare(uint32_t a, uint32_t b) {
  return (a > b) - (a < b);
}

/* By call, then block as the evaluator counts them, then place in the ring. */
static int by_origin(const void *pa, const void *pb) {
  const GpuPrintLine *a = pa, *b = pb;
  int c = compare(a->call, b->call);
  for (int i = 2; i >= 0 && c == 0; i--)
    c = compare(a->block[i], b->block[i]);
  return c ? c : (a->value > b->value) - (a->value < b->value);
}

static void read_lines(const uint64_t *w, size_t n, Arena *a, GpuPrintLine **lines, size_t *count) {
  VEC(GpuPrintLine) found = {0};
  GpuPrintLine line;
  for (size_t at = 0; read_line(w, at, n, &line); at += line.nvalues + HEAD_WORDS)
    VEC_PUSH(a, &found, line);
  if (found.n > 1)
    qsort(found.v, found.n, sizeof *found.v, by_origin);
  *lines = found.v;
  *count = found.n;
}

Status gpu_print_take(Gpu *g, Arena *a, GpuPrintLine **lines, size_t *n, uint32_t *dropped) {
  GpuPrintHead head;
  *n = 0;
  *dropped = 0;
  if (!g->ring)
    return ST_OK;
  Status st = gpu_download(g, &head, g->ring, sizeof head);
  if (st == ST_OK && head.used == 0)
    return st;
  /* the last line may have been cut off by the end: nothing was written of it */
  size_t words = st == ST_OK && head.used < RING_WORDS ? head.used : RING_WORDS;
  uint64_t *w = st == ST_OK ? arena_calloc(a, words, sizeof *w) : NULL;
  if (st == ST_OK)
    st = gpu_download(g, w, g->ring + sizeof head, words * sizeof *w);
  if (st != ST_OK) {
    if (!g->lost)
      (void)clear(g, words); /* these lines are lost: they are not those of later calls */
    return st;
  }
  read_lines(w, words, a, lines, n);
  *dropped = head.dropped;
  return clear(g, words);
}
