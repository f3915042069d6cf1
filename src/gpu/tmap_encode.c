/* tmap_encode.c: tensor maps in the hardware's form, by the driver, each once.
 *
 * Goes in: a GpuTmap. Comes out: 128 bytes. Always holds: the cache is keyed by the whole content
 * (address, extents, strides, box, swizzle, dtype, promotion), so memory that moved cannot meet a
 * stale map. Tests: tests/unit/check_gpu_fake.c, check_gpu_device.c (with a GPU).
 */
#include "driver.h"

#include <string.h>

enum { MAX_CACHED = 4096 };

/* 8-bit types travel as bytes: the accelerator only moves them. */
static CUtensorMapDataType cu_type(DType t) {
  switch (t) {
  case DT_F16:
    return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  case DT_BF16:
    return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  case DT_F32:
    return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  case DT_F64:
    return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
  case DT_I32:
    return CU_TENSOR_MAP_DATA_TYPE_INT32;
  case DT_U32:
    return CU_TENSOR_MAP_DATA_TYPE_UINT32;
  case DT_I64:
    return CU_TENSOR_MAP_DATA_TYPE_INT64;
  case DT_U64:
    return CU_TENSOR_MAP_DATA_TYPE_UINT64;
  case DT_I16:
  case DT_U16:
    return CU_TENSOR_MAP_DATA_TYPE_UINT16;
  default:
    return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  }
}

/* Not the numbering of wgmma's descriptors: there 1 is 128 bytes. */
static CUtensorMapSwizzle cu_swizzle(int bytes) {
  switch (bytes) {
  case 32:
    return CU_TENSOR_MAP_SWIZZLE_32B;
  case 64:
    return CU_TENSOR_MAP_SWIZZLE_64B;
  case 128:
    return CU_TENSOR_MAP_SWIZZLE_128B;
  default:
    return CU_TENSOR_MAP_SWIZZLE_NONE;
  }
}

static CUtensorMapL2promotion cu_promotion(int bytes) {
  switch (bytes) {
  case -1:
    return CU_TENSOR_MAP_L2_PROMOTION_NONE;
  case 64:
    return CU_TENSOR_MAP_L2_PROMOTION_L2_64B;
  case 128:
    return CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
  default:
    return CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
  }
}

/* What the cache loads for a piece of a row: twice 128 bytes, but for rows between these multiples,
 * of which each piece would bring in two such pairs (4000 x 4008 x 4016 of f16: 0.230 ms, 0.201).
 */
static int promotion_of(const GpuTmap *t) {
  enum { LINE = 128 };
  uint64_t bits = (uint64_t)t->base;
  for (int i = 1; i < t->rank; i++)
    bits |= t->stride[i];
  return t->l2 ? t->l2 : bits % LINE ? LINE : 2 * LINE;
}

/* The same description always gives the same bytes: padding and unused axes are zero. */
static void normalise(const GpuTmap *t, GpuTmap *key) {
  memset(key, 0, sizeof *key);
  key->dtype = t->dtype;
  key->rank = t->rank;
  key->base = t->base;
  key->swizzle = t->swizzle;
  key->l2 = promotion_of(t);
  for (int i = 0; i < t->rank; i++) {
    key->extent[i] = t->extent[i];
    key->stride[i] = i > 0 ? t->stride[i] : 0;
    key->box[i] = t->box[i];
    key->step[i] = t->step[i] ? t->step[i] : 1;
  }
}

static Status encode(Gpu *g, const GpuTmap *t, CUtensorMap *out) {
  cuuint64_t extent[GPU_TMAP_RANK], stride[GPU_TMAP_RANK];
  for (int i = 0; i < GPU_TMAP_RANK; i++) {
    extent[i] = t->extent[i];
    stride[i] = i + 1 < GPU_TMAP_RANK ? t->stride[i + 1] : 0; /* the driver's begin at axis 1 */
  }
  CUresult r = g->d->tmap_encode(out, cu_type(t->dtype), (cuuint32_t)t->rank,
                                 (void *)(uintptr_t)t->base, extent, stride, t->box, t->step,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, cu_swizzle(t->swizzle),
                                 cu_promotion(t->l2), CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return gpu_result(g, r, "encoding a tensor map", NULL);
}

/* A full cache is emptied whole: it refills in microseconds. */
static void cache(Gpu *g, const GpuTmap *key, const CUtensorMap *map) {
  if (g->tmaps && map_count(g->tmaps) >= MAX_CACHED) {
    arena_reset(g->tmap_arena);
    g->tmaps = NULL;
  }
  if (!g->tmaps)
    g->tmaps = map_new(g->tmap_arena);
  map_setn(g->tmaps, key, sizeof *key, arena_copy(g->tmap_arena, map, sizeof *map));
}

/* The hardware knows no extent of 0: the map of an empty tensor shows one element of a zeroed
 * buffer of ours, so loads give zeros everywhere and stores go nowhere. The buffer is zeroed anew
 * before each launch, for a store may have hit that element. */
static Status stand_in(Gpu *g, GpuTmap *t) {
  if (!g->empty)
    GPU_TRY(g, g->d->mem_alloc(&g->empty, 256), "the stand-in for empty tensors");
  t->base = g->empty;
  for (int i = 0; i < t->rank; i++) {
    t->extent[i] = 1;
    t->stride[i] = i > 0 ? 256 : 0;
  }
  return gpu_fill(g, g->empty, 4, 0, 64);
}

Status gpu_tmap_encode(Gpu *g, const GpuTmap *t, void *out) {
  GpuTmap key;
  CUtensorMap map;
  if (!gpu_alive(g))
    return ST_DEVICE;
  if (!g->props.tma)
    return gpu_refuse(g, ST_DEVICE, "%s has no tensor memory accelerator", g->props.name);
  str_clear(&g->why);
  if (!gpu_tmap_check(t, &g->why))
    return ST_DEVICE;
  normalise(t, &key);
  Status st = gpu_tmap_empty(t) ? stand_in(g, &key) : ST_OK;
  if (st != ST_OK)
    return st;
  const CUtensorMap *known = g->tmaps ? map_getn(g->tmaps, &key, sizeof key) : NULL;
  if (!known) {
    st = encode(g, &key, &map);
    if (st != ST_OK)
      return st;
    cache(g, &key, &map);
    known = &map;
  }
  memcpy(out, known, GPU_TMAP_BYTES);
  return ST_OK;
}

_Static_assert(sizeof(CUtensorMap) == GPU_TMAP_BYTES, "the hardware's tensor map has 128 bytes");
