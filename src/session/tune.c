/* tune.c: tile sizes that the author left to the compiler (`auto`).
 *
 * In: a specialisation whose dtypes and static extents are bound, and the arguments' shapes. Out:
 * the `auto` parameters that decide a product's tile set to the sizes of least cost (lower_cost).
 * Which parameter decides what is found out by trying: the kernel is built with each one set to a
 * value that nothing else has.
 * Always holds: what the program sets stays, results do not depend on what is chosen, and the
 * choice is made once for a kernel, its settings and the shapes. Tests:
 * tests/lower/schedule_product.tile, tests/lower/auto_*.tile.
 */
#include <inttypes.h>

#include "kernel.h"

enum { MOST_AUTOS = 8, MOST_CHOICES = 1024, ROW_BYTES = 128 };

/* What a parameter may decide. */
typedef enum Side { ROWS, COLUMNS, STAGES, DEPTH, SIDES } Side;

typedef struct Tuned { /* by index of statics: the value, 0: as it was */
  int64_t *value;
} Tuned;

typedef struct Tuning {
  Session *s;
  const SemaKernel *k;
  const SemaSpec *spec;
  const SemaArg *args;
  Arena *keep;     /* of what is chosen */
  Arena *arena;    /* of what is tried */
  int side[SIDES]; /* index of the parameter that decides it; -1: none */
} Tuning;

/* ---------------------------------------------------------------- trying */

static const IrKernel *try_build(Tuning *t, const SpecStatic *set, size_t n) {
  return spec_ir_with(t->s, t->arena, t->k, t->spec, set, n);
}

/* What a parameter decides, if it is one thing of the first product: what has its value when it is
 * set to one that nothing else has. */
static bool find_side(Tuning *t, const LowerProduct *plain, int index, int probe) {
  LowerProduct p;
  const IrKernel *k = try_build(t, &(SpecStatic){(size_t)index, probe}, 1);
  if (!k || !lower_product(k, &p))
    return false;
  bool is[SIDES] = {p.m == probe, p.n == probe, p.stages == probe, p.k == probe};
  bool other =
      (p.m != plain->m) + (p.n != plain->n) + (p.k != plain->k) + (p.stages != plain->stages) != 1;
  for (int i = 0; i < SIDES && !other; i++)
    if (is[i])
      t->side[i] = index;
  return true;
}

static void find_sides(Tuning *t, const LowerProduct *plain) {
  for (int i = 0; i < SIDES; i++)
    t->side[i] = -1;
  for (size_t i = 0, n = 0; i < t->k->nstatics && n < MOST_AUTOS; i++)
    if (t->k->statics[i].is_auto && t->spec->statics[i].kind == SV_UNSET) {
      if (!find_side(t, plain, (int)i, 320)) /* more stages than there may be */
        find_side(t, plain, (int)i, 7);
      n++;
    }
}

/* ---------------------------------------------------------------- costs */

/* The argument's strides, or those of a row-major tensor where it is not there yet. */
static IrTensorArg tensor_like(const SemaArg *arg) {
  IrTensorArg x = {.rank = arg->rank, .dtype = arg->dtype};
  for (int d = arg->rank - 1, first = 1; d >= 0; d--, first = 0) {
    x.extent[d] = arg->extent[d];
    x.stride[d] = first ? 1 : x.stride[d + 1] * (x.extent[d + 1] ? x.extent[d + 1] : 1);
  }
  for (int d = 0; d < arg->rank && arg->strided; d++)
    x.stride[d] = arg->stride[d];
  return x;
}

/* Scalars are 0, so that what is chosen does not change with them: a grid that they make empty is
 * not known. Negative: nothing can be said, or the program's own tiles do not fit. */
static double cost_of(Tuning *t, const IrKernel *k) {
  IrBinding *b = ir_binding_new(t->arena, k);
  for (size_t i = 0; i < k->params.n; i++) {
    const IrParam *p = &k->params.v[i];
    const SemaArg *arg = &t->args[i];
    if (p->var)
      b->value[p->var->id] = scalar_convert((Scalar){.type = DT_I64}, p->var->type);
    else if (!arg->given || !arg->tensor)
      continue;
    if (p->buf)
      b->tensor[p->buf->id] = tensor_like(arg);
  }
  DiagSink sink;
  diag_init(&sink, t->arena);
  if (!ir_bind(k, b, session_sms(t->s), &sink) || sink.errors || !b->grid[0] || !b->grid[1] ||
      !b->grid[2] || !target_has_shared(session_target(t->s), eval_shared_bytes(k, NULL, NULL)))
    return -1;
  return lower_cost(k, b, session_target(t->s), session_sms(t->s));
}

/* As many stages as the rest of shared memory holds; results as narrow as the operands are staged.
 */
static int64_t stages_of(Tuning *t, const LowerProduct *p) {
  int64_t staged = p->size < 4 ? p->size * p->m * p->n : 0;
  int64_t room = (int64_t)session_target(t->s)->shared_limit - 2048 - staged;
  int64_t stage = p->size * (p->m + p->n) * p->k, n = stage ? room / stage : 1;
  return n < 2 ? 3 : n > 8 ? 8 : n;
}

typedef struct Choice { /* the best so far */
  double cost;          /* negative: of nothing yet */
  LowerProduct p;
  int64_t tile[3]; /* rows, columns, depth; depth 0: as it was */
} Choice;

/* What is better by so little that it may be the model's error stays out. */
static void consider(Tuning *t, Choice *best, const int64_t *tile) {
  SpecStatic set[] = {{(size_t)t->side[ROWS], tile[0]},
                      {(size_t)t->side[COLUMNS], tile[1]},
                      {(size_t)t->side[DEPTH], tile[2]}};
  LowerProduct q;
  const IrKernel *k = try_build(t, set, tile[2] ? 3 : 2);
  double cost = k && lower_product(k, &q) ? cost_of(t, k) : -1;
  if (cost < 0 || (best->cost >= 0 && cost >= best->cost * 0.995))
    return;
  *best = (Choice){cost, q, {tile[0], tile[1], tile[2]}};
}

/* K in whole rows of the swizzle, where narrow elements leave them half empty; 0: as it is. */
static int64_t deeper(const Tuning *t, const LowerProduct *p) {
  return t->side[DEPTH] >= 0 && p->size == 1 && p->k < ROW_BYTES ? ROW_BYTES : 0;
}

/* The cheapest pair of rows and columns; where no pair is better, nothing is set. */
static Tuned *choose(Tuning *t, const IrKernel *plain, const LowerProduct *p) {
  static const int64_t tile[][2] = {{128, 256}, {128, 192}, {128, 128}, {256, 128}, {128, 224},
                                    {256, 160}, {128, 64},  {64, 256},  {64, 128},  {64, 64}};
  bool groups = session_target(t->s)->arch >= ARCH_SM90A;
  int64_t deep = groups ? deeper(t, p) : 0;
  Choice own = {.cost = cost_of(t, plain), .p = *p}, best = own;
  Tuned *out = ARENA_NEW(t->keep, Tuned);
  out->value = ARENA_ARRAY(t->keep, int64_t, t->k->nstatics + 1);
  if (deep) /* the author's own has to be better to stay */
    best.cost = -1;
  for (size_t i = 0; i < sizeof tile / sizeof *tile; i++)
    consider(t, &best, (int64_t[]){tile[i][0], tile[i][1], deep});
  for (size_t i = 0; deep && i < sizeof tile / sizeof *tile; i++) /* K may be short */
    consider(t, &best, (int64_t[]){tile[i][0], tile[i][1], 0});
  if (deep && own.cost >= 0 && (best.cost < 0 || own.cost < best.cost * 0.995))
    best = own;
  for (int i = 0; i < 3 && best.tile[0]; i++)
    if (best.tile[i])
      out->value[t->side[i < 2 ? i : DEPTH]] = best.tile[i];
  if (t->side[STAGES] >= 0 && best.cost >= 0 && p->products == 1 && groups)
    out->value[t->side[STAGES]] = stages_of(t, &best.p);
  return out;
}

/* ---------------------------------------------------------------- remembering */

static void add_number(Str *key, int64_t n) {
  str_addf(key, "%" PRId64 ",", n);
}

/* What the choice depends on: target, settings, shapes, dtypes and axes of stride 1. */
static void make_key(Tuning *t, Str *key) {
  str_add(key, session_target(t->s)->name);
  for (size_t i = 0; i < t->k->nstatics; i++) {
    const SemaValue *v = &t->spec->statics[i];
    add_number(key, v->kind);
    add_number(key, v->kind == SV_DTYPE ? (int64_t)v->dtype : v->num.as.i);
    if (v->kind == SV_STRING)
      str_addn(key, v->string, v->n);
  }
  for (size_t i = 0; i < t->k->ninputs + t->k->noutputs; i++) {
    const SemaArg *a = &t->args[i];
    add_number(key, a->given ? a->tensor ? (int64_t)a->dtype : -1 : -2);
    for (int d = 0; d < a->rank && a->tensor; d++) {
      add_number(key, a->extent[d]);
      add_number(key, a->strided && a->stride[d] == 1);
    }
  }
}

static Tuned *find(Tuning *t) {
  LowerProduct p;
  const IrKernel *plain = try_build(t, NULL, 0);
  if (!plain || !lower_product(plain, &p) || !p.size || plain->threads)
    return NULL;
  find_sides(t, &p);
  return t->side[ROWS] >= 0 && t->side[COLUMNS] >= 0 ? choose(t, plain, &p) : NULL;
}

/* Products that tensor cores may multiply: the first tensor tells. */
static bool worth_it(const Tuning *t) {
  size_t bits = 0;
  for (size_t i = 0; i < t->k->ninputs && !bits; i++)
    bits = t->args[i].given && t->args[i].tensor ? dtype_bits(t->args[i].dtype) : 0;
  bool autos = false;
  for (size_t i = 0; i < t->k->nstatics; i++)
    autos |= t->k->statics[i].is_auto && t->spec->statics[i].kind == SV_UNSET;
  return autos && bits >= 8 && bits <= 32;
}

/* The arena of a kernel's choices, under the boundary that is open now; past the bound all of them
 * are forgotten. */
static Arena *remembered(Session *s, KernelInfo *info) {
  if (!info->tuning)
    info->tuning = arena_new(s->guard, "chosen sizes");
  arena_set_guard(info->tuning, s->guard);
  if (info->tuned && map_count(info->tuned) == MOST_CHOICES) {
    info->tuned = NULL;
    arena_reset(info->tuning);
  }
  if (!info->tuned)
    info->tuned = map_new(info->tuning);
  return info->tuning;
}

void kernel_tune(Session *s, KernelInfo *info, SemaSpec *spec, const SemaArg *args) {
  Tuning t = {s, info->sema, spec, args, NULL, NULL, {-1, -1, -1, -1}};
  bool gpu = s->options.arch || s->ahead || (s->options.emit == EMIT_NOTHING && device_is_gpu(s));
  if (!gpu || session_target(s)->arch < ARCH_SM80 || !worth_it(&t))
    return;
  Str key = session_str(s);
  make_key(&t, &key);
  t.keep = remembered(s, info);
  Tuned *found = map_getn(info->tuned, str_text(&key), key.n);
  if (!found) {
    t.arena = arena_new(s->guard, "tile sizes");
    found = find(&t);
    arena_free(t.arena);
    map_setn(info->tuned, str_text(&key), key.n, found ? found : ARENA_NEW(t.keep, Tuned));
  }
  for (size_t i = 0; found && found->value && i < info->sema->nstatics; i++)
    if (found->value[i])
      spec_set(spec, i, found->value[i]);
}
