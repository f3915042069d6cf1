/* memory.c: device memory and copies.
 *
 * Goes in: sizes, host and device addresses. Comes out: memory of the stream-ordered pool (plain
 * allocation where the driver has none), bytes moved. Always holds: all of it is in the order of
 * the main stream, so small memory that was given back is handed out again without asking the
 * driver, which would take a microsecond for it; large copies go through two pinned buffers in
 * turn, so that one is filled while the other travels, and Ctrl-C is seen between pieces. Tests:
 * tests/unit/check_gpu_fake.c, check_gpu_device.c (with a GPU).
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory that was given back ------------------------------------------------------------ */

/* What is asked of the driver for so many bytes: small memory in the steps of its pool. */
static size_t rounded(size_t bytes) {
  if (bytes > KEPT_BLOCK)
    return bytes;
  return bytes ? (bytes + KEPT_UNIT - 1) / KEPT_UNIT * KEPT_UNIT : KEPT_UNIT;
}

/* One size has the place at a time; powers of two do not meet there. */
static Kept *kept_place(Gpu *g, size_t bytes) {
  return &g->kept[(uint32_t)(bytes / KEPT_UNIT) * UINT32_C(0x9e3779b1) >> 26];
}

static CUresult raw_free(Gpu *g, CUdeviceptr p) {
  return g->pool ? g->d->free_async(p, g->main) : g->d->mem_free(p);
}

/* Errors are not looked at: whoever needs the memory is told. */
static void kept_clear(Gpu *g, Kept *k) {
  while (k->n > 0 && !g->lost) {
    (void)raw_free(g, k->p[--k->n]);
    g->kept_bytes -= k->bytes;
  }
}

void gpu_kept_drop(Gpu *g) {
  for (size_t i = 0; i < KEPT_SIZES; i++)
    kept_clear(g, &g->kept[i]);
}

/* Room for one more of this size; false: it goes to the driver. Where all is full of other sizes,
 * which nobody may ask for any more, they go. */
static bool kept_room(Gpu *g, Kept *k, size_t bytes) {
  if (bytes > KEPT_BLOCK)
    return false;
  if (g->kept_bytes + bytes > KEPT_ALL && k->n > 0 && k->bytes == bytes)
    return false;
  if (g->kept_bytes + bytes > KEPT_ALL)
    gpu_kept_drop(g);
  if (k->bytes != bytes)
    kept_clear(g, k);
  k->bytes = bytes;
  if (k->n < k->cap)
    return true;
  size_t cap = k->cap ? 2 * k->cap : 8;
  CUdeviceptr *grown = realloc(k->p, cap * sizeof *grown);
  if (!grown)
    return false;
  k->p = grown;
  k->cap = cap;
  return true;
}

/* The one given back last: its lines may still be in a cache. */
static bool kept_take(Gpu *g, size_t bytes, CUdeviceptr *out) {
  Kept *k = kept_place(g, bytes);
  if (k->n == 0 || k->bytes != bytes)
    return false;
  *out = k->p[--k->n];
  g->kept_bytes -= bytes;
  return true;
}

/* ---- allocation ---------------------------------------------------------------------------- */

/* From the pool where there is one: a microsecond instead of a hundred. */
static CUresult raw_alloc(Gpu *g, CUdeviceptr *p, size_t bytes) {
  return g->pool ? g->d->alloc_async(p, bytes, g->main) : g->d->mem_alloc(p, bytes);
}

/* The figures tell whether less would have fitted. */
static Status out_of_memory(Gpu *g, size_t bytes, const char *what) {
  char want[24], have[24], all[24];
  size_t free_bytes = 0, total = 0;
  bool known = g->d->mem_info(&free_bytes, &total) == CUDA_SUCCESS;
  (void)gpu_refuse(g, ST_NOMEM, "out of memory on cuda:%d: %s needs %s", g->props.ordinal,
                   what ? what : "a buffer", gpu_size_text(bytes, want, sizeof want));
  if (known)
    str_addf(&g->why, ", %s of %s are free", gpu_size_text(free_bytes, have, sizeof have),
             gpu_size_text(total, all, sizeof all));
  return ST_NOMEM;
}

/* Gives unused memory of the pool back to the card.
 * Everything queued must have ended: memory that is still in use cannot be given back. */
static Status trim(Gpu *g) {
  if (!gpu_alive(g))
    return ST_DEVICE;
  gpu_kept_drop(g);
  GPU_TRY(g, g->d->stream_sync(g->main), NULL);
  if (g->pool)
    GPU_TRY(g, g->d->pool_trim(g->pool, 0), NULL);
  return ST_OK;
}

Status gpu_alloc(Gpu *g, size_t bytes, const char *what, GpuPtr *out) {
  CUdeviceptr p = 0;
  *out = 0;
  if (!gpu_alive(g))
    return ST_DEVICE;
  if (bytes > g->props.memory)
    return out_of_memory(g, bytes, what);
  size_t n = rounded(bytes);
  CUresult r = kept_take(g, n, &p) ? CUDA_SUCCESS : raw_alloc(g, &p, n);
  if (r == CUDA_ERROR_OUT_OF_MEMORY && trim(g) == ST_OK)
    r = raw_alloc(g, &p, n);
  if (r == CUDA_ERROR_OUT_OF_MEMORY)
    return out_of_memory(g, bytes, what);
  *out = p;
  return gpu_result(g, r, "allocating", what);
}

Status gpu_free(Gpu *g, GpuPtr p, size_t bytes) {
  size_t n = rounded(bytes);
  Kept *k = kept_place(g, n);
  if (p == 0)
    return ST_OK;
  if (!gpu_alive(g))
    return ST_DEVICE;
  if (!kept_room(g, k, n))
    return gpu_result(g, raw_free(g, p), "giving memory back", NULL);
  k->p[k->n++] = p;
  g->kept_bytes += n;
  return ST_OK;
}

Status gpu_memory(Gpu *g, size_t *free_bytes, size_t *used) {
  size_t total = 0;
  cuuint64_t mine = 0;
  if (!gpu_alive(g))
    return ST_DEVICE;
  GPU_TRY(g, g->d->mem_info(free_bytes, &total), NULL);
  if (g->pool)
    GPU_TRY(g, g->d->pool_get(g->pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &mine), NULL);
  *used = (size_t)mine > g->kept_bytes ? (size_t)mine - g->kept_bytes : 0;
  return ST_OK;
}

/* ---- copies -------------------------------------------------------------------------------- */

/* Made on first use: 8 MiB of pinned memory are not for programs that never copy much. */
static Status staging_take(Gpu *g, size_t i, Staging **out) {
  Staging *s = &g->staging[i & 1];
  if (!s->p)
    GPU_TRY(g, g->d->host_alloc(&s->p, STAGING_BYTES, 0), "pinned memory for copies");
  if (!s->done)
    GPU_TRY(g, g->d->event_new(&s->done, CU_EVENT_DISABLE_TIMING), NULL);
  *out = s;
  if (!s->busy)
    return ST_OK;
  Status st = gpu_wait(g, s->done, NULL);
  if (st == ST_OK)
    s->busy = false;
  return st;
}

/* After a copy from or to it was queued. Where nothing would tell that the copy has ended, its end
 * is waited for: the next piece must not come into its way. */
static Status staging_sent(Gpu *g, Staging *s) {
  CUresult r = g->d->event_record(s->done, g->main);
  s->busy = r == CUDA_SUCCESS;
  if (!s->busy)
    (void)g->d->stream_sync(g->main);
  return gpu_result(g, r, "marking the end of a copy", NULL);
}

/* Bytes of the piece that begins at `at`. */
static size_t piece(size_t n, size_t at) {
  return n - at < (size_t)STAGING_BYTES ? n - at : (size_t)STAGING_BYTES;
}

/* Small pieces go straight: the driver copies them before it returns. Large ones would make it wait
 * for the whole transfer from pageable memory, at half the speed. */
Status gpu_upload(Gpu *g, GpuPtr dst, const void *src, size_t n) {
  if (!gpu_alive(g))
    return ST_DEVICE;
  if (n == 0)
    return ST_OK;
  if (n <= DIRECT_BYTES) /* the driver takes its own copy before it returns */
    return gpu_result(g, g->d->upload(dst, src, n, g->main), "copying to the device", NULL);
  size_t i = 0;
  for (size_t at = 0; at < n; at += STAGING_BYTES, i++) {
    Staging *s;
    Status st = staging_take(g, i, &s);
    if (st != ST_OK)
      return st;
    memcpy(s->p, (const char *)src + at, piece(n, at));
    CUresult r = g->d->upload(dst + at, s->p, piece(n, at), g->main);
    st = gpu_result(g, r, "copying to the device", NULL);
    if (st == ST_OK)
      st = staging_sent(g, s);
    if (st != ST_OK)
      return st;
  }
  return ST_OK;
}

/* Starts the i-th piece on its way into its buffer. */
static Status queue_piece(Gpu *g, GpuPtr src, size_t n, size_t i) {
  Staging *s;
  size_t at = i * STAGING_BYTES;
  Status st = staging_take(g, i, &s);
  if (st != ST_OK)
    return st;
  CUresult r = g->d->download(s->p, src + at, piece(n, at), g->main);
  st = gpu_result(g, r, "copying from the device", NULL);
  return st == ST_OK ? staging_sent(g, s) : st;
}

/* The next piece travels while this one is copied out. */
static Status download_pieces(Gpu *g, char *dst, GpuPtr src, size_t n) {
  size_t pieces = (n + STAGING_BYTES - 1) / STAGING_BYTES;
  Status st = queue_piece(g, src, n, 0);
  for (size_t i = 0; i < pieces && st == ST_OK; i++) {
    if (i + 1 < pieces)
      st = queue_piece(g, src, n, i + 1);
    Staging *s;
    if (st == ST_OK)
      st = staging_take(g, i, &s); /* waits for its copy */
    if (st == ST_OK)
      memcpy(dst + i * STAGING_BYTES, s->p, piece(n, i * STAGING_BYTES));
  }
  return st;
}

Status gpu_download(Gpu *g, void *dst, GpuPtr src, size_t n) {
  Status st = gpu_sync(g);
  if (st != ST_OK || n == 0)
    return st;
  if (n > DIRECT_BYTES)
    return download_pieces(g, dst, src, n);
  CUresult r = g->d->download(dst, src, n, g->main);
  if (r == CUDA_SUCCESS)
    r = g->d->stream_sync(g->main);
  return gpu_result(g, r, "copying from the device", NULL);
}

Status gpu_copy(Gpu *g, GpuPtr dst, GpuPtr src, size_t n) {
  if (!gpu_alive(g))
    return ST_DEVICE;
  if (n > 0)
    GPU_TRY(g, g->d->copy(dst, src, n, g->main), NULL);
  return ST_OK;
}

Status gpu_copy_rows(Gpu *g, GpuRows dst, GpuRows src, size_t n, size_t rows) {
  CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                     .srcDevice = src.at,
                     .srcPitch = src.pitch,
                     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                     .dstDevice = dst.at,
                     .dstPitch = dst.pitch,
                     .WidthInBytes = n,
                     .Height = rows};
  if (!gpu_alive(g))
    return ST_DEVICE;
  if (n > 0 && rows > 0)
    GPU_TRY(g, g->d->copy_rows(&c, g->main), NULL);
  return ST_OK;
}

/* Widths the hardware can fill with; count is in words of that width. */
Status gpu_fill(Gpu *g, GpuPtr dst, unsigned width, uint32_t value, size_t count) {
  if (!gpu_alive(g))
    return ST_DEVICE;
  if (count == 0)
    return ST_OK;
  if (width == 1)
    GPU_TRY(g, g->d->fill8(dst, (unsigned char)value, count, g->main), NULL);
  else if (width == 2)
    GPU_TRY(g, g->d->fill16(dst, (unsigned short)value, count, g->main), NULL);
  else
    GPU_TRY(g, g->d->fill32(dst, value, count, g->main), NULL);
  return ST_OK;
}
