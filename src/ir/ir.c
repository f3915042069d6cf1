/* ir.c: making kernels: variables, buffers, statements, regions.
 *
 * In: an arena and names. Out: the objects of ir.h, each in its kernel's table by id. Expressions
 * are made in expr.c. Always holds: ids are dense from 0; a kernel never points into another.
 * Tests: tests/unit/check_ir.c.
 */
#include "ir.h"

#include <string.h>

#include "impl.h"

/* Names live as long as the session: kernels in shorter-lived arenas point to them. */
static const char *intern(IrKernel *k, const char *name) {
  return names_get(k->names, name, strlen(name));
}

/* Empty: no parameters, one block, nothing to do. */
IrKernel *ir_kernel_new(Arena *a, Names *names, const char *name, IrLevel level) {
  IrKernel *k = ARENA_NEW(a, IrKernel);
  k->arena = a;
  k->names = names;
  k->name = intern(k, name);
  k->level = level;
  k->table = ARENA_NEW(a, struct IrTable);
  return k;
}

/* Kinds that the launch bounds get their range here, once for all passes.
 * Ids are dense, so tables by variable are arrays. */
IrVar *ir_var(IrKernel *k, IrVarKind kind, const char *name, DType type) {
  IrVar *v = ARENA_NEW(k->arena, IrVar);
  v->name = intern(k, name);
  v->id = (uint32_t)k->vars.n;
  v->type = type;
  v->kind = kind;
  v->lo = IR_NO_RANGE_LO;
  v->hi = IR_NO_RANGE_HI;
  if (kind == IRV_EXTENT || kind == IRV_GRID || kind == IRV_SMS) { /* ir_bind holds them to it */
    v->lo = kind == IRV_SMS;
    v->hi = kind == IRV_EXTENT ? IR_MAX_EXTENT : INT32_MAX - 1;
  }
  VEC_PUSH(k->arena, &k->vars, v);
  return v;
}

/* Row-major and checked until something says otherwise. */
IrBuffer *ir_buffer(IrKernel *k, IrSpace space, const char *name, DType dtype, int rank,
                    IrExpr *const *extent) {
  IrBuffer *b = ARENA_NEW(k->arena, IrBuffer);
  b->name = intern(k, name);
  b->id = (uint32_t)k->buffers.n;
  b->space = space;
  b->dtype = dtype;
  b->rank = rank;
  b->stages = 1;
  for (int i = 0; i < rank; i++)
    b->extent[i] = extent[i];
  VEC_PUSH(k->arena, &k->buffers, b);
  return b;
}

/* The caller fills in dimensions, strides and box. */
IrTmap *ir_tmap(IrKernel *k, const char *name, IrBuffer *buf, int rank) {
  IrTmap *t = ARENA_NEW(k->arena, IrTmap);
  t->name = intern(k, name);
  t->id = (uint32_t)k->tmaps.n;
  t->buf = buf;
  t->rank = rank;
  VEC_PUSH(k->arena, &k->tmaps, t);
  return t;
}

/* Counts start at one; the pass that makes roles sets them. */
IrChannel *ir_channel(IrKernel *k, const char *name, IrBuffer *const *tile, int ntiles) {
  IrChannel *c = ARENA_NEW(k->arena, IrChannel);
  c->name = intern(k, name);
  c->id = (uint32_t)k->channels.n;
  c->tile = arena_copy(k->arena, tile, (size_t)ntiles * sizeof *tile);
  c->ntiles = ntiles;
  c->stages = c->producers = c->consumers = 1;
  VEC_PUSH(k->arena, &k->channels, c);
  return c;
}

/* From now on the tensor may have any stride on this axis, and ir_bind gives its value. */
IrVar *ir_stride(IrKernel *k, IrBuffer *buf, int axis) {
  if (buf->stride[axis])
    return buf->stride[axis];
  const char *name = arena_printf(k->arena, "%s.stride%d", buf->name, axis);
  IrVar *v = ir_var(k, IRV_STRIDE, name, DT_I64);
  v->buf = buf;
  v->axis = axis;
  return buf->stride[axis] = v;
}

/* One variable a kernel; ir_bind gives it the target's number. */
IrVar *ir_sms(IrKernel *k) {
  if (!k->table->sms)
    k->table->sms = ir_var(k, IRV_SMS, "sms", DT_I64);
  return k->table->sms;
}

/* Statements never move: passes keep pointers to them. */
IrStmt *ir_add(IrKernel *k, IrBlock *block, IrKind kind, Span span) {
  IrStmt *s = ARENA_NEW(k->arena, IrStmt);
  s->kind = kind;
  s->span = span;
  VEC_PUSH(k->arena, block, s);
  return s;
}

/* ---------------------------------------------------------------- regions */

/* Tiles have constant extents, tensors may not: callers test for -1. */
int64_t ir_buffer_extent(const IrBuffer *b, int axis) {
  int64_t n;
  return ir_is_const(b->extent[axis], &n) ? n : -1;
}

int64_t ir_buffer_count(const IrBuffer *b) {
  int64_t n = 1;
  for (int i = 0; i < b->rank; i++) {
    int64_t e = ir_buffer_extent(b, i);
    if (e < 0 || __builtin_mul_overflow(n, e, &n))
      return -1;
  }
  return n;
}

/* Of a global tensor the other side of the operation gives the extents.
 * Origins are i64 at every level. */
IrRegion ir_whole(IrKernel *k, IrBuffer *buf) {
  IrRegion r = {.buf = buf};
  for (int i = 0; i < buf->rank; i++) {
    int64_t n = buf->space == IRS_GLOBAL ? 0 : ir_buffer_extent(buf, i);
    r.axis[i] = (IrAxis){ir_int(k, 0), n < 0 ? 0 : n, 1, true, NULL};
  }
  return r;
}

/* What prints as the bare name.
 * Every axis kept, from 0, of full extent, step one, no stop. */
bool ir_region_is_whole(const IrRegion *r) {
  if (r->trans)
    return false;
  for (int i = 0; i < r->buf->rank; i++) {
    const IrAxis *x = &r->axis[i];
    int64_t o, n = r->buf->space == IRS_GLOBAL ? 0 : ir_buffer_extent(r->buf, i);
    bool zero = x->origin && x->origin->type == DT_I64 && ir_is_const(x->origin, &o) && o == 0;
    if (!zero || x->extent != n || x->step != 1 || !x->keep || x->stop)
      return false;
  }
  return true;
}

/* Dropped axes do not count. */
int ir_region_rank(const IrRegion *r) {
  int n = 0;
  for (int i = 0; i < r->buf->rank; i++)
    n += r->axis[i].keep;
  return n;
}

/* Axes in the order of the operation: `.T` is applied to the number, not to the data.
 * 0 past the last kept axis. */
int64_t ir_region_extent(const IrRegion *r, int i) {
  int rank = ir_region_rank(r);
  if (r->trans && i >= rank - 2)
    i = i == rank - 1 ? rank - 2 : rank - 1;
  for (int axis = 0; axis < r->buf->rank; axis++)
    if (r->axis[axis].keep && i-- == 0)
      return r->axis[axis].extent;
  return 0;
}

/* ---------------------------------------------------------------- names */

/* The table of names given so far, and where suffixes of a base name go on. */
typedef struct Apart {
  Arena *arena;
  Map *taken; /* name to the number of the last suffix tried, as a pointer to int */
} Apart;

/* Suffixes of a name go on from the last one tried, so many equal names cost no search. */
static void reserve(Apart *x, const char *name) {
  map_set(x->taken, name, ARENA_NEW(x->arena, int));
}

/* The name itself if it is free, else the first of name_1, name_2, … that is.
 * A number of tries is remembered by name. */
static const char *give(Apart *x, const char *name) {
  int *last = map_get(x->taken, name);
  if (!last) {
    reserve(x, name);
    return name;
  }
  for (;;) {
    const char *tried = arena_printf(x->arena, "%s_%d", name, ++*last);
    if (!map_get(x->taken, tried)) {
      reserve(x, tried);
      return tried;
    }
  }
}

/* Words that an expression reads as something else than a variable.
 * `_` stands for a result that is not used. */
static void reserve_words(Apart *x) {
  static const char *const words[] = {"sms", "true", "false", "inf", "nan", "_"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    reserve(x, words[i]);
}

#define GIVE_ALL(out, list)                                                                        \
  for (size_t i = 0; i < (list).n; i++)                                                            \
    (out)[i] = give(&x, (list).v[i]->name);

/* The signature first, so that it keeps the author's names; then tiles, then scalars. Nothing is
 * changed: printing a kernel leaves it as it is.
 * Ids give the order, so equal kernels print alike. */
IrNames ir_names_apart(Arena *a, const IrKernel *k) {
  Apart x = {a, map_new(a)};
  IrNames n = {ARENA_ARRAY(a, const char *, k->vars.n), ARENA_ARRAY(a, const char *, k->buffers.n),
               ARENA_ARRAY(a, const char *, k->tmaps.n),
               ARENA_ARRAY(a, const char *, k->channels.n)};
  reserve_words(&x);
  for (size_t i = 0; i < k->params.n; i++) { /* the signature's names first: they stay */
    const IrParam *p = &k->params.v[i];
    if (p->buf)
      n.buffer[p->buf->id] = give(&x, p->buf->name);
    else
      n.var[p->var->id] = give(&x, p->var->name);
  }
  for (size_t i = 0; i < k->buffers.n; i++) /* tiles keep the author's names before scalars */
    if (!n.buffer[i])
      n.buffer[i] = give(&x, k->buffers.v[i]->name);
  for (size_t i = 0; i < k->vars.n; i++) {
    const IrVar *v = k->vars.v[i];
    if (v->kind == IRV_SMS || v->kind == IRV_STRIDE)
      n.var[i] = v->name;
    else if (!n.var[i])
      n.var[i] = give(&x, v->name);
  }
  GIVE_ALL(n.tmap, k->tmaps)
  GIVE_ALL(n.channel, k->channels)
  return n;
}

#define RENAME_ALL(list, from)                                                                     \
  for (size_t i = 0; i < (list).n; i++)                                                            \
    (list).v[i]->name = intern(k, (from)[i]);

/* A stride's name follows its buffer's.
 * Passes make names freely and call this at the end. */
void ir_name_apart(IrKernel *k) {
  IrNames n = ir_names_apart(k->arena, k);
  RENAME_ALL(k->vars, n.var)
  RENAME_ALL(k->buffers, n.buffer)
  RENAME_ALL(k->tmaps, n.tmap)
  RENAME_ALL(k->channels, n.channel)
  for (size_t i = 0; i < k->vars.n; i++) {
    IrVar *v = k->vars.v[i];
    if (v->kind == IRV_STRIDE)
      v->name = intern(k, arena_printf(k->arena, "%s.stride%d", v->buf->name, v->axis));
  }
}
