/* tune.c: sizes that the author left to the compiler (`auto`).
 *
 * In: a specialisation whose dtypes and static extents are bound, and the arguments' shapes. Out:
 * sizes that the kernel's asserts allow (meet.c); the parameters that decide a product's tile set
 * to the sizes of least cost (lower_cost) of those that the asserts allow. Which parameter decides
 * what is found out by trying: the kernel is built with each one set to a value that nothing else
 * has. Always holds: what the program sets stays, results do not depend on what is chosen, and the
 * choice is made once for a kernel, its settings and the shapes; where no size is allowed, the call
 * fails and says of which assert (unmet.c). Tests: tests/lower/schedule_product.tile,
 * tests/lower/auto_*.tile, tests/lang/auto_asserts.tile, tests/lang/auto_joint*.tile.
 */
#include <inttypes.h>
#include <string.h>

#include "tune.h"

enum { MOST_CHOICES = 1024, ROW_BYTES = 128 };

/* ---------------------------------------------------------------- trying */

const IrKernel *tune_build(Tuning *t, const SpecStatic *set, size_t n) {
  SpecStatic all[MOST_AUTOS + SIDES];
  if (session_interrupted(t->s))
    return NULL;
  memcpy(all, t->base, t->nbase * sizeof *all);
  for (size_t i = 0; i < n; i++)
    all[t->nbase + i] = set[i];
  return spec_ir_with(t->s, t->arena, t->k, t->spec, all, t->nbase + n);
}

bool tune_is_free(const Tuning *t, size_t i) {
  return t->k->statics[i].is_auto && t->spec->statics[i].kind == SV_UNSET;
}

/* What a parameter decides, if it is one thing of the first product: what has its value when it is
 * set to one that nothing else has. */
static bool find_side(Tuning *t, const LowerProduct *plain, int index, int probe) {
  LowerProduct p;
  const IrKernel *k = tune_build(t, &(SpecStatic){(size_t)index, probe}, 1);
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
    if (tune_is_free(t, i)) {
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

IrBinding *tune_bind(Tuning *t, const IrKernel *k) {
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
  return ir_bind(k, b, session_sms(t->s), &sink) && !sink.errors ? b : NULL;
}

bool tune_fits_shared(Tuning *t, const IrKernel *k) {
  return target_has_shared(session_target(t->s), eval_shared_bytes(k, NULL, NULL));
}

/* A grid that scalars make empty is not known. Negative: nothing can be said, an assert forbids it,
 * or the program's own tiles do not fit. */
static double cost_of(Tuning *t, const IrKernel *k) {
  IrBinding *b = tune_bind(t, k);
  if (!b || !b->grid[0] || !b->grid[1] || !b->grid[2] || !kernel_suits(t->arena, k, b, NULL) ||
      !tune_fits_shared(t, k))
    return -1;
  return lower_cost(k, b, session_target(t->s), session_sms(t->s));
}

/* Stages that the rest of shared memory holds; results as narrow as the operands are staged. */
static int64_t room_for(Tuning *t, const LowerProduct *p) {
  int64_t staged = p->size < 4 ? p->size * p->m * p->n : 0;
  int64_t room = (int64_t)session_target(t->s)->shared_limit - 2048 - staged;
  int64_t stage = p->size * (p->m + p->n) * p->k;
  return stage ? room / stage : 1;
}

static int64_t stages_of(Tuning *t, const LowerProduct *p) {
  int64_t n = room_for(t, p);
  return n < 2 ? LOWER_LEAST_STAGES : n > 8 ? 8 : n;
}

typedef struct Choice { /* the best so far */
  double cost;          /* negative: of nothing yet */
  LowerProduct p;
  int64_t tile[3]; /* rows, columns, depth; depth 0: as it was */
} Choice;

/* Whether there is a number of stages to choose, and two are all that fit. */
static bool starves(Tuning *t, const LowerProduct *p) {
  return t->side[STAGES] >= 0 && p->products == 1 && room_for(t, p) < LOWER_LEAST_STAGES;
}

/* What is better by so little that it may be the model's error stays out. Tensor cores that two
 * stages leave waiting take half as much of K. */
static void consider(Tuning *t, Choice *best, const int64_t *tile) {
  SpecStatic set[] = {{(size_t)t->side[ROWS], tile[0]},
                      {(size_t)t->side[COLUMNS], tile[1]},
                      {(size_t)t->side[DEPTH], tile[2]}};
  LowerProduct q;
  const IrKernel *k = tune_build(t, set, tile[2] ? 3 : 2);
  double cost = k && lower_product(k, &q) ? cost_of(t, k) : -1;
  if (cost >= 0 && t->side[DEPTH] >= 0 && !tile[2] && q.k * q.size == ROW_BYTES && starves(t, &q)) {
    consider(t, best, (int64_t[]){tile[0], tile[1], q.k / 2});
    return;
  }
  if (cost < 0 || (best->cost >= 0 && cost >= best->cost * 0.995))
    return;
  *best = (Choice){cost, q, {tile[0], tile[1], tile[2]}};
}

/* Twice as much of K, where small tiles leave shared memory for that: half as many rounds. */
static void consider_deeper(Tuning *t, Choice *best) {
  LowerProduct twice = best->p;
  twice.k *= 2;
  if (t->side[DEPTH] >= 0 && best->cost >= 0 && twice.size == 2 &&
      twice.k * twice.size == 2 * ROW_BYTES && !starves(t, &twice))
    consider(t, best, (int64_t[]){twice.m, twice.n, twice.k});
}

/* K in whole rows of the swizzle, where narrow elements leave them half empty; 0: as it is. */
static int64_t deeper(const Tuning *t, const LowerProduct *p) {
  return t->side[DEPTH] >= 0 && p->size == 1 && p->k < ROW_BYTES ? ROW_BYTES : 0;
}

/* The pairs of rows and columns there are, with one depth. Those of `turned` have many rows: where
 * elements are not of 16 bits, products whose second operand lies across compute the transpose. */
static void consider_all(Tuning *t, Choice *best, const LowerProduct *p, int64_t deep) {
  static const int64_t tile[][2] = {{128, 256}, {128, 192}, {128, 128}, {256, 128}, {128, 224},
                                    {256, 160}, {128, 64},  {64, 256},  {64, 128},  {64, 64}};
  static const int64_t chained[][2] = {{192, 96}, {192, 64}, {128, 96}};
  static const int64_t turned[][2] = {{192, 128}, {176, 128}, {224, 128}, {256, 64}};
  for (size_t i = 0; i < sizeof tile / sizeof *tile; i++)
    consider(t, best, (int64_t[]){tile[i][0], tile[i][1], deep});
  for (size_t i = 0; p->size != 2 && i < sizeof turned / sizeof *turned; i++)
    consider(t, best, (int64_t[]){turned[i][0], turned[i][1], deep});
  bool groups = session_target(t->s)->arch >= ARCH_SM90A;
  for (size_t i = 0; groups && p->products > 1 && i < sizeof chained / sizeof *chained; i++)
    consider(t, best, (int64_t[]){chained[i][0], chained[i][1], deep});
}

/* The cheapest pair of rows and columns; where no pair is better, nothing is set. */
static void choose(Tuning *t, const IrKernel *plain, const LowerProduct *p, Tuned *out) {
  bool groups = session_target(t->s)->arch >= ARCH_SM90A;
  int64_t deep = groups ? deeper(t, p) : 0;
  Choice own = {.cost = cost_of(t, plain), .p = *p}, best = own;
  if (deep) /* the author's own has to be better to stay */
    best.cost = -1;
  consider_all(t, &best, p, deep);
  if (deep) /* K may be short */
    consider_all(t, &best, p, 0);
  if (groups)
    consider_deeper(t, &best);
  if (deep && own.cost >= 0 && (best.cost < 0 || own.cost < best.cost * 0.995))
    best = own;
  for (int i = 0; i < 3 && best.tile[0]; i++)
    if (best.tile[i])
      out->value[t->side[i < 2 ? i : DEPTH]] = best.tile[i];
  if (t->side[STAGES] >= 0 && best.cost >= 0 && p->products == 1 && groups)
    out->value[t->side[STAGES]] = stages_of(t, &best.p);
}

/* Without tensor cores: as many stages as rounds of that depth keep loads on their way for. */
static int64_t stages_at(const Tuning *t, int64_t depth) {
  return t->side[STAGES] < 0 ? 0 : depth <= 16 ? 4 : 3;
}

static void consider_fma(Tuning *t, Choice *best, const int64_t *tile) {
  SpecStatic set[SIDES];
  int side[SIDES] = {ROWS, COLUMNS, DEPTH, STAGES};
  int64_t value[SIDES] = {tile[0], tile[1], tile[2], tile[2] ? stages_at(t, tile[2]) : 0};
  size_t n = 0;
  for (int i = 0; i < SIDES; i++)
    if (value[i])
      set[n++] = (SpecStatic){(size_t)t->side[side[i]], value[i]};
  LowerProduct q;
  const IrKernel *k = tune_build(t, set, n);
  double cost = k && lower_product(k, &q) ? cost_of(t, k) : -1;
  if (cost >= 0 && (best->cost < 0 || cost < best->cost * 0.995))
    *best = (Choice){cost, q, {tile[0], tile[1], tile[2]}};
}

/* The same of a product that no tensor core multiplies: small tiles too, and any depth. */
static void choose_fma(Tuning *t, const IrKernel *plain, const LowerProduct *p, Tuned *out) {
  static const int64_t tile[][2] = {
      {128, 256}, {256, 128}, {128, 128}, {64, 256}, {256, 64}, {64, 128}, {128, 64}, {64, 64},
      {32, 128},  {128, 32},  {32, 64},   {64, 32},  {32, 32},  {16, 128}, {16, 64},  {16, 32}};
  static const int64_t depth[] = {32, 16, 64};
  Choice best = {.cost = cost_of(t, plain), .p = *p};
  for (size_t i = 0; i < sizeof tile / sizeof *tile; i++)
    for (size_t j = 0; j < (t->side[DEPTH] < 0 ? 1 : sizeof depth / sizeof *depth); j++)
      consider_fma(t, &best,
                   (int64_t[]){tile[i][0], tile[i][1], t->side[DEPTH] < 0 ? 0 : depth[j]});
  if (!best.tile[0])
    return;
  out->value[t->side[ROWS]] = best.tile[0];
  out->value[t->side[COLUMNS]] = best.tile[1];
  if (best.tile[2])
    out->value[t->side[DEPTH]] = best.tile[2];
  if (best.tile[2] && t->side[STAGES] >= 0)
    out->value[t->side[STAGES]] = stages_at(t, best.tile[2]);
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

/* Products whose sizes are chosen by target: the first tensor tells. */
static bool may_multiply(const Tuning *t) {
  size_t bits = 0;
  for (size_t i = 0; i < t->k->ninputs && !bits; i++)
    bits = t->args[i].given && t->args[i].tensor ? dtype_bits(t->args[i].dtype) : 0;
  bool gpu = t->s->options.arch || t->s->ahead ||
             (t->s->options.emit == EMIT_NOTHING && device_is_gpu(t->s));
  return gpu && session_target(t->s)->arch >= ARCH_SM80 && bits >= 8;
}

static void choose_product(Tuning *t, const IrKernel *plain, Tuned *out) {
  LowerProduct p;
  if (!lower_product(plain, &p) || plain->threads ||
      (!p.size && (p.products > 1 || p.result == DT_F64)))
    return;
  find_sides(t, &p);
  if (t->side[ROWS] >= 0 && t->side[COLUMNS] >= 0)
    (p.size ? choose : choose_fma)(t, plain, &p, out);
}

static Tuned *find(Tuning *t) {
  const IrKernel *plain = tune_build(t, NULL, 0);
  Tuned *out = ARENA_NEW(t->keep, Tuned);
  out->value = ARENA_ARRAY(t->keep, int64_t, t->k->nstatics + 1);
  LowerProduct p;
  IrBinding *b = plain ? tune_bind(t, plain) : NULL;
  KernelSuits own = {.asked = false};
  SpecStatic over[MOST_AUTOS];
  t->tile = plain ? tune_tile(t, plain) : 0;
  if (b && !kernel_suits(t->arena, plain, b, &own)) {
    size_t n = tune_meet(t, over);
    if (!t->nbase)
      tune_unmet(t, plain, over, n, out);
  } else if (own.asked && !lower_product(plain, &p)) {
    tune_shorten(t);
  }
  plain = t->nbase ? tune_build(t, NULL, 0) : plain;
  for (size_t i = 0; i < t->nbase; i++)
    out->value[t->base[i].at] = t->base[i].value;
  if (plain && may_multiply(t))
    choose_product(t, plain, out);
  return out;
}

static bool has_free(const Tuning *t) {
  for (size_t i = 0; i < t->k->nstatics; i++)
    if (tune_is_free(t, i))
      return true;
  return false;
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

static _Noreturn void fail(const Tuning *t, const Tuned *found, Span call) {
  Session *s = t->s;
  diag_hint(&s->diags, diag_add(&s->diags, E0460, found->at, "%s", found->why), "%s", found->hint);
  session_fail_call(s, ST_FAIL, call, t->k->ast->name.text);
}

void kernel_tune(Session *s, KernelInfo *info, SemaSpec *spec, const SemaArg *args, Span call) {
  Tuning t = {.s = s, .k = info->sema, .spec = spec, .args = args, .side = {-1, -1, -1, -1}};
  if (!has_free(&t))
    return;
  Str key = session_str(s);
  str_add(&key, may_multiply(&t) ? "products," : "");
  make_key(&t, &key);
  t.keep = remembered(s, info);
  Tuned *found = map_getn(info->tuned, str_text(&key), key.n);
  if (!found) {
    t.arena = arena_new(s->guard, "tile sizes");
    found = find(&t);
    arena_free(t.arena);
    session_stop(s); /* what was found until then is not the choice */
    map_setn(info->tuned, str_text(&key), key.n, found);
  }
  if (found->why)
    fail(&t, found, call);
  for (size_t i = 0; i < info->sema->nstatics; i++)
    if (found->value[i])
      spec_set(spec, i, found->value[i]);
}
