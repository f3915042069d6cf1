/* map.c: walks the points of a MAP in strips.
 *
 * In: extents known at run time. Out: strips of at most EvalMapCode.strip points, each a box whose
 * lanes are its points in row-major order; together they hold every point once. Shaken, strips are
 * smaller and come in another order. Tests: tests/unit/check_eval.c.
 * The walk keeps no list: a strip's number says where it is, so that any order is as good as the
 * natural one.
 */
#include "race.h"

/* Euclid; a stride without a common factor visits every strip once. */
static uint64_t gcd(uint64_t a, uint64_t b) {
  while (b) {
    uint64_t t = a % b;
    a = b;
    b = t;
  }
  return a;
}

/* The box of strip number m->number. */
static void place(EvalAgent *a, EvalMapState *m) {
  uint64_t number = (m->first + m->number * m->stride) % m->total;
  int64_t lanes = 1;
  for (int i = m->code->naxes - 1; i >= 0; i--) {
    uint64_t strips = (uint64_t)((m->extent[i] - 1) / m->step[i] + 1);
    m->pos[i] = (int64_t)(number % strips) * m->step[i];
    number /= strips;
    m->cnt[i] = m->extent[i] - m->pos[i] < m->step[i] ? m->extent[i] - m->pos[i] : m->step[i];
    lanes *= m->cnt[i];
  }
  a->lanes = (int)lanes;
}

/* Natural order is first 0, stride 1. */
static void set_order(EvalAgent *a, EvalMapState *m) {
  m->first = 0;
  m->stride = 1;
  if (!a->block->random || m->total < 2)
    return;
  m->first = eval_random(&a->block->random) % m->total;
  m->stride = 1 + eval_random(&a->block->random) % (m->total - 1);
  while (gcd(m->stride, m->total) != 1)
    m->stride++;
}

/* Whole inner axes first, then a part of the next: strips are as long as can be and never ragged
 * in more than one axis. */
bool eval_map_start(EvalAgent *a, const EvalMapCode *code) {
  EvalMapState *m = a->map;
  int64_t room = code->strip;
  if (a->block->random)
    room = 1 + (int64_t)(eval_random(&a->block->random) % (uint64_t)code->strip);
  m->code = code;
  m->number = 0;
  m->total = 1;
  for (int i = code->naxes - 1; i >= 0; i--) {
    m->extent[i] = machine_int(a, &code->extent[i]);
    if (m->extent[i] <= 0)
      return false;
    m->step[i] = m->extent[i] <= room ? m->extent[i] : room;
    room = m->step[i] < m->extent[i] ? 1 : room / m->step[i];
    uint64_t strips = (uint64_t)((m->extent[i] - 1) / m->step[i] + 1);
    if (__builtin_mul_overflow(m->total, strips, &m->total))
      m->total = UINT64_MAX; /* it will not end, but may be interrupted */
  }
  set_order(a, m);
  place(a, m);
  if (a->block->races && code->parallel)
    eval_race_map_start(a->block->races->map);
  return true;
}

/* What the body wrote as a whole is marked once. */
static void finish(EvalAgent *a, const EvalMapCode *code) {
  for (int i = 0; i < code->ncovers; i++) {
    EvalMem *mem = &a->block->mem[code->covers[i]];
    mem->state = WRITTEN_ALL;
  }
  a->lanes = 1;
}

/* The last strip done, what the body wrote as a whole is marked. */
bool eval_map_next(EvalAgent *a) {
  EvalMapState *m = a->map;
  if (++m->number == m->total) {
    finish(a, m->code);
    return false;
  }
  place(a, m);
  return true;
}

/* Each value lasts as long as the axes inside it, and the pattern repeats for those outside. */
void eval_map_index(const EvalAgent *a, int axis, int64_t *lanes) {
  const EvalMapState *m = a->map;
  int64_t inner = 1, period;
  for (int i = axis + 1; i < m->code->naxes; i++)
    inner *= m->cnt[i];
  int64_t n = 0, pos = m->pos[axis];
  for (int64_t v = 0; v < m->cnt[axis]; v++)
    for (int64_t i = 0; i < inner; i++)
      lanes[n++] = pos + v;
  period = n;
  for (; n < a->lanes; n++)
    lanes[n] = lanes[n - period];
}

/* The reverse of how lanes are numbered. */
void eval_map_point(const EvalMapState *m, int64_t lane, int64_t point[4]) {
  for (int i = m->code->naxes - 1; i >= 0; i--) {
    point[i] = m->pos[i] + lane % m->cnt[i];
    lane /= m->cnt[i];
  }
}

/* Least and greatest value over the strip; false where they leave i64. */
static bool range_of(const EvalAgent *a, const EvalAffine *f, int64_t *low, int64_t *high) {
  const EvalMapState *m = a->map;
  *low = *high = machine_int(a, &f->base);
  for (int i = 0; i < m->code->naxes; i++) {
    int64_t coef = machine_int(a, &f->coef[i]), first, reach;
    if (!coef)
      continue;
    if (__builtin_mul_overflow(coef, m->pos[i], &first) ||
        __builtin_mul_overflow(coef, m->cnt[i] - 1, &reach) ||
        __builtin_add_overflow(*low, first, low) || __builtin_add_overflow(*high, first, high) ||
        __builtin_add_overflow(reach < 0 ? *low : *high, reach, reach < 0 ? low : high))
      return false;
  }
  return true;
}

/* The sign of the difference over the whole box, where it has one. */
static int decide_compare(const EvalAgent *a, const EvalDecide *d) {
  int64_t low, high;
  if (!range_of(a, &d->diff, &low, &high))
    return -1;
  switch (d->op) {
  case OP_LT:
    return high < 0 ? 1 : low >= 0 ? 0 : -1;
  case OP_LE:
    return high <= 0 ? 1 : low > 0 ? 0 : -1;
  case OP_GT:
    return low > 0 ? 1 : high <= 0 ? 0 : -1;
  case OP_GE:
    return low >= 0 ? 1 : high < 0 ? 0 : -1;
  case OP_EQ:
    return low == 0 && high == 0 ? 1 : low > 0 || high < 0 ? 0 : -1;
  default: /* OP_NE */
    return low == 0 && high == 0 ? 0 : low > 0 || high < 0 ? 1 : -1;
  }
}

/* Three-valued logic: unknown stays unknown unless the other side settles it. */
int eval_map_decide(const EvalAgent *a, const EvalDecide *d) {
  int x, y;
  switch (d->op) {
  case OP_VAR:
    return *(const uint8_t *)machine_reg(a, d->reg) != 0;
  case OP_NOT:
    x = eval_map_decide(a, d->arg[0]);
    return x < 0 ? x : !x;
  case OP_AND:
    x = eval_map_decide(a, d->arg[0]);
    y = eval_map_decide(a, d->arg[1]);
    return x == 0 || y == 0 ? 0 : x == 1 && y == 1 ? 1 : -1;
  case OP_OR:
    x = eval_map_decide(a, d->arg[0]);
    y = eval_map_decide(a, d->arg[1]);
    return x == 1 || y == 1 ? 1 : x == 0 && y == 0 ? 0 : -1;
  default:
    return decide_compare(a, d);
  }
}
