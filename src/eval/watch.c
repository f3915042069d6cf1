/* watch.c: the results of operations: NaN, infinities, integers that wrapped.
 *
 * In: operands and results of an instruction. Out: NaN results carry the mark of where they come
 * from; what did not fit is counted. Always holds: values other than NaN are left as they are. The
 * commonest case, nothing special in a strip, costs one pass over its exponents.
 * Unsigned integers wrap by design and are not counted. Tests: tests/races (special_*).
 */
#include "watch.h"

#include <math.h>
#include <string.h>

#include "tensor/tensor.h"

/* Payload of a marked NaN: a pattern that data are not likely to hold, then the mark. */
enum { MARK_BITS = 16, PATTERN = 0x2A };

EvalWatch *eval_watch_new(const EvalLaunch *l) {
  Arena *arena = arena_new(NULL, "watch");
  EvalWatch *w = ARENA_NEW(arena, EvalWatch);
  w->program = l->program;
  w->arena = arena;
  return w;
}

void eval_watch_free(EvalWatch *w) {
  if (w)
    arena_free(w->arena);
}

/* ---------------------------------------------------------------- marks */

/* f32's 22 bits of payload; those of f64 lie where a conversion puts them. */
uint32_t eval_watch_mark(DType compute, const void *cell) {
  uint32_t payload;
  if (compute == DT_F64) {
    uint64_t bits;
    memcpy(&bits, cell, sizeof bits);
    payload = (uint32_t)(bits >> 29) & 0x3FFFFF;
  } else {
    memcpy(&payload, cell, sizeof payload);
    payload &= 0x3FFFFF;
  }
  return payload >> MARK_BITS == PATTERN ? payload & 0xFFFF : 0;
}

void eval_watch_set_mark(DType compute, void *cell, uint32_t mark) {
  uint32_t payload = mark ? (uint32_t)PATTERN << MARK_BITS | mark : 0;
  uint32_t narrow = 0x7FC00000u | payload;
  uint64_t wide = UINT64_C(0x7FF8) << 48 | (uint64_t)payload << 29;
  if (compute == DT_F64)
    memcpy(cell, &wide, sizeof wide);
  else
    memcpy(cell, &narrow, sizeof narrow);
}

/* ---------------------------------------------------------------- words */

const char *eval_watch_text(const EvalAgent *a, DType t, const void *cell) {
  Str s = str_new(a->block->watch->arena);
  scalar_print(scalar_load_compute(t, cell), &s);
  return str_text(&s);
}

const char *eval_watch_where(const EvalAgent *a, int lane) {
  const EvalBlock *b = a->block;
  int rank = b->program->kernel->grid_rank;
  int64_t point[4] = {0};
  char list[128];
  Str s = str_new(b->watch->arena);
  if (lane >= 0) {
    int n = a->map->code->naxes;
    eval_map_point(a->map, lane, point);
    eval_list_text(point, n, list, sizeof list);
    str_addf(&s, n == 1 ? ", in iteration %s" : ", in iteration (%s)", list);
  }
  eval_list_text(b->index, rank, list, sizeof list);
  if (rank)
    str_addf(&s, rank == 1 ? "%s block %s" : "%s block (%s)", lane >= 0 ? " of" : ", in", list);
  return str_text(&s);
}

/* The types of an operation's operands follow from the instruction. */
static DType operand_type(const EvalInsn *in, int i) {
  if (in->op == OP_CAST || in->op == OP_BITCAST)
    return (DType)in->from;
  return in->op == OP_SELECT && i == 0 ? DT_BOOL : (DType)in->type;
}

/* "`div` of 0 and 0 gives nan, in iteration 3" */
static const char *describe(const EvalAgent *a, const EvalInsn *in, const void *const *src,
                            const void *out, int lane, bool lanes) {
  Str s = str_new(a->block->watch->arena);
  str_addf(&s, "`%s` of ", in->op == OP_CAST ? dtype_name((DType)in->type) : op_info(in->op)->name);
  for (int i = 0; i < in->nsrc; i++) {
    DType t = operand_type(in, i);
    const char *cell = (const char *)src[i] + (size_t)lane * dtype_compute_size(t);
    str_addf(&s, "%s%s",
             i == 0             ? ""
             : i + 1 < in->nsrc ? ", "
                                : " and ",
             eval_watch_text(a, t, cell));
  }
  size_t size = dtype_compute_size((DType)in->type);
  str_addf(&s, " gives %s%s",
           eval_watch_text(a, (DType)in->type, (const char *)out + (size_t)lane * size),
           eval_watch_where(a, lanes ? lane : -1));
  return str_text(&s);
}

/* ---------------------------------------------------------------- origins and counts */

uint32_t eval_watch_find_nan(const EvalAgent *a, int op) {
  const EvalWatch *w = a->block->watch;
  uint32_t place = machine_insn(a)->place;
  for (int i = 0; i < w->nnan; i++)
    if (w->nan[i].place == place && w->nan[i].op == op)
      return (uint32_t)i + 1;
  return 0;
}

uint32_t eval_watch_new_nan(EvalAgent *a, int op, const char *text) {
  EvalWatch *w = a->block->watch;
  uint32_t place = machine_insn(a)->place;
  if (w->nnan == WATCH_ORIGINS)
    return 0;
  w->nan[w->nnan++] = (WatchOrigin){place, op, text, 0};
  return (uint32_t)w->nnan;
}

bool eval_watch_find_inf(EvalAgent *a, int op) {
  EvalWatch *w = a->block->watch;
  uint32_t place = machine_insn(a)->place;
  for (int i = 0; i < w->ninf; i++)
    if (w->inf[i].place == place && w->inf[i].op == op) {
      w->inf[i].block = a->block->linear;
      return true;
    }
  return w->ninf == WATCH_INFS;
}

void eval_watch_new_inf(EvalAgent *a, int op, const char *text) {
  EvalWatch *w = a->block->watch;
  w->inf[w->ninf++] = (WatchOrigin){machine_insn(a)->place, op, text, a->block->linear};
}

WatchCount *eval_watch_count(EvalAgent *a, DType t, const char *what) {
  EvalWatch *w = a->block->watch;
  uint32_t place = machine_insn(a)->place;
  for (int i = 0; i < w->ncounts; i++)
    if (w->count[i].place == place && w->count[i].type == t && strcmp(w->count[i].what, what) == 0)
      return &w->count[i];
  if (w->ncounts == WATCH_COUNTS)
    return NULL;
  w->count[w->ncounts] = (WatchCount){.place = place, .type = t, .what = what};
  return &w->count[w->ncounts++];
}

/* ---------------------------------------------------------------- floats */

/* With all exponent bits set adding one at their lowest carries out of them. Sixteen at a time:
 * the compiler makes vectors of loops whose length it knows. */
static bool special32(const uint32_t *v, int64_t n) {
  uint32_t any[16] = {0}, rest = 0;
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int k = 0; k < 16; k++)
      any[k] |= (v[i + k] & 0x7F800000u) + 0x00800000u;
  for (; i < n; i++)
    rest |= (v[i] & 0x7F800000u) + 0x00800000u;
  for (int k = 0; k < 16; k++)
    rest |= any[k];
  return rest >> 31;
}

static bool special64(const uint64_t *v, int64_t n) {
  uint64_t any = 0;
  for (int64_t i = 0; i < n; i++)
    any |= (v[i] & UINT64_C(0x7FF) << 52) + (UINT64_C(1) << 52);
  return any >> 63;
}

bool eval_watch_special(DType compute, const void *cells, int64_t n) {
  return compute == DT_F64 ? special64(cells, n) : special32(cells, n);
}

typedef struct Lane {
  EvalAgent *a;
  const EvalInsn *in;
  const void *const *src;
  void *out;
  int lane;
  bool lanes;
} Lane;

/* A marked NaN among the operands, or any: then the result's comes from it. */
static bool nan_operand(const Lane *x, uint32_t *mark, bool *inf) {
  bool found = false;
  *mark = 0;
  *inf = false;
  for (int i = 0; i < x->in->nsrc; i++) {
    DType t = operand_type(x->in, i), c = dtype_compute(t);
    if (!dtype_is_float(t))
      continue;
    const void *cell = (const char *)x->src[i] + (size_t)x->lane * dtype_compute_size(t);
    double v = eval_float_at(c, cell);
    *inf = *inf || isinf(v);
    if (!isnan(v))
      continue;
    found = true;
    if (!*mark)
      *mark = eval_watch_mark(c, cell);
  }
  return found;
}

static const char *words(const Lane *x) {
  return describe(x->a, x->in, x->src, x->out, x->lane, x->lanes);
}

/* A result that is NaN or infinite. */
static void look_at(const Lane *x, DType compute, void *cell) {
  uint32_t mark;
  bool inf, nan = nan_operand(x, &mark, &inf);
  int op = (int)x->in->op;
  if (!isnan(eval_float_at(compute, cell))) {
    if (!inf && !eval_watch_find_inf(x->a, op))
      eval_watch_new_inf(x->a, op, words(x));
    return;
  }
  if (!nan && !(mark = eval_watch_find_nan(x->a, op)))
    mark = eval_watch_new_nan(x->a, op, words(x));
  eval_watch_set_mark(compute, cell, mark);
}

/* Up to half a step past the greatest value rounds down to it. */
double eval_watch_limit(DType to) {
  int bits = to == DT_F32 ? 23 : to == DT_F16 ? 10 : to == DT_BF16 ? 7 : to == DT_F8E4M3 ? 3 : 2;
  double most = dtype_float_max(to);
  return most + ldexp(1, ilogb(most) - bits - 1);
}

static const char *const beyond = "were beyond its range";
static const char *const wrapped = "wrapped around";

static bool lane_on(const EvalMask *m, int i) {
  return !m || m->on[i];
}

static void add_one(const Lane *x, DType t, const char *what) {
  WatchCount *c = eval_watch_count(x->a, t, what);
  if (c && !c->n++)
    c->first = words(x);
}

/* Finite values that a conversion made infinite, or that f8 saturated. */
static void count_overflows(Lane *x, const EvalMask *m, int n, DType to) {
  if (x->in->op != OP_CAST || dtype_size(to) >= dtype_size((DType)x->in->from))
    return;
  DType from = (DType)x->in->from, c = dtype_compute(from);
  size_t size = dtype_compute_size(from);
  double limit = eval_watch_limit(to);
  for (int i = 0; i < n && dtype_is_float(from); i++) {
    double v = eval_float_at(c, (const char *)x->src[0] + (size_t)i * size);
    if (!(fabs(v) >= limit) || !lane_on(m, i) || isinf(v))
      continue;
    x->lane = i;
    add_one(x, to, beyond);
  }
}

static void watch_floats(Lane *x, const EvalMask *m, int n) {
  DType t = (DType)x->in->type, c = dtype_compute(t);
  size_t size = dtype_compute_size(t);
  if (c != t || x->in->op == OP_CAST)
    count_overflows(x, m, n, t);
  if (!eval_watch_special(c, x->out, n))
    return;
  for (int i = 0; i < n && x->in->op != OP_BITCAST; i++) {
    void *cell = (char *)x->out + (size_t)i * size;
    x->lane = i;
    if (lane_on(m, i) && !isfinite(eval_float_at(c, cell)))
      look_at(x, c, cell);
  }
}

/* ---------------------------------------------------------------- integers */

/* Holds the sum and the product of any two integers. */
__extension__ typedef __int128 Wide;

static bool fits(DType t, Wide v) {
  return v >= dtype_int_min(t) && v <= (Wide)dtype_int_max(t);
}

/* Any integer type, with its value. */
static Wide wide(DType t, const void *cell) {
  int64_t v = eval_int_at(t, cell);
  return t == DT_U64 ? (Wide)(uint64_t)v : v;
}

static bool cast_fits(const Lane *x, DType to) {
  DType from = (DType)x->in->from;
  const char *cell = (const char *)x->src[0] + (size_t)x->lane * dtype_compute_size(from);
  if (!dtype_is_float(from))
    return fits(to, wide(from, cell));
  double v = eval_float_at(dtype_compute(from), cell);
  double low = (double)dtype_int_min(to), high = (double)dtype_int_max(to);
  return v > low - 1 && v < high + 1;
}

/* Whether the mathematical result has a place in the type. */
static bool integer_fits(const Lane *x, DType t) {
  size_t size = dtype_compute_size(t);
  if (x->in->op == OP_CAST)
    return cast_fits(x, t);
  Wide p = wide(t, (const char *)x->src[0] + (size_t)x->lane * size);
  Wide q = x->in->nsrc > 1 ? wide(t, (const char *)x->src[1] + (size_t)x->lane * size) : 0;
  switch (x->in->op) {
  case OP_ADD:
    return fits(t, p + q);
  case OP_SUB:
    return fits(t, p - q);
  case OP_MUL:
    return fits(t, p * q);
  case OP_NEG:
    return fits(t, -p);
  case OP_ABS:
    return fits(t, p < 0 ? -p : p);
  default:
    return true;
  }
}

static bool may_wrap(const EvalInsn *in) {
  DType t = (DType)in->type, from = (DType)in->from;
  if (in->op == OP_CAST)
    return dtype_is_float(from) || dtype_size(t) < dtype_size(from) ||
           (dtype_is_signed(t) != dtype_is_signed(from) && dtype_is_int(from));
  bool counts = in->op == OP_ADD || in->op == OP_SUB || in->op == OP_MUL || in->op == OP_NEG ||
                in->op == OP_ABS;
  return counts && dtype_is_signed(t);
}

static void watch_integers(Lane *x, const EvalMask *m, int n) {
  DType t = (DType)x->in->type;
  if (!may_wrap(x->in))
    return;
  for (int i = 0; i < n; i++) {
    x->lane = i;
    if (lane_on(m, i) && !integer_fits(x, t))
      add_one(x, t, x->in->op == OP_CAST ? beyond : wrapped);
  }
}

/* ---------------------------------------------------------------- instructions */

void eval_watch_values(EvalAgent *a, const EvalInsn *in, const void *const *src, void *out, int n) {
  bool lanes = in->code == BC_OP_LANES;
  const EvalMask *m = lanes && in->mask ? machine_reg(a, in->mask) : NULL;
  Lane x = {.a = a, .in = in, .src = src, .out = out, .lanes = lanes};
  if (dtype_is_float((DType)in->type))
    watch_floats(&x, m, n);
  else if (dtype_is_int((DType)in->type))
    watch_integers(&x, m, n);
}
