/* eval.c: which strip computes an operation here, and single values by the same strips.
 *
 * Always holds: op_eval, folding and every strip give the same bits, since there is no other
 * arithmetic. The instruction set is asked of the processor each time: the answer is a load and
 * a test, and no mutable state is kept. Tests: tests/unit/check_ops.c.
 */
#include <math.h>
#include <string.h>

#include "tables.h"

/* ---- choice of the instruction set -------------------------------------------------------------
 */

/* The features that code compiled for the level may use and that old processors lack. */
bool op_isa_runs(OpIsa isa) {
  switch (isa) {
  case OPS_BASELINE:
  case OPS_BEST:
    return true;
#ifdef OPS_X86_64
  case OPS_V3:
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2");
  case OPS_V4:
    return op_isa_runs(OPS_V3) && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
#endif
  default:
    return false;
  }
}

/* The one policy: strips, folds and the evaluator's product kernels all ask here. */
OpIsa op_isa_choose(OpIsa wanted) {
  if (wanted != OPS_BEST && op_isa_runs(wanted))
    return wanted;
  return op_isa_runs(OPS_V4) ? OPS_V4 : op_isa_runs(OPS_V3) ? OPS_V3 : OPS_BASELINE;
}

static const char *const isa_names[] = {
    [OPS_BASELINE] = "baseline", [OPS_V3] = "v3", [OPS_V4] = "v4", [OPS_BEST] = "auto"};

const char *op_isa_name(OpIsa isa) {
  return isa_names[isa];
}

/* The words of --cpu. */
bool op_isa_parse(const char *name, OpIsa *isa) {
  for (int i = OPS_BASELINE; i <= OPS_BEST; i++)
    if (strcmp(name, isa_names[i]) == 0) {
      *isa = (OpIsa)i;
      return true;
    }
  return false;
}

#ifdef OPS_X86_64
#define PICK(isa, name)                                                                            \
  ((isa) == OPS_V4 ? name##_v4 : (isa) == OPS_V3 ? name##_v3 : name##_baseline)
#else
#define PICK(isa, name) ((void)(isa), name##_baseline)
#endif

/* Conversions and shifts have tables by two types; the rest by one, exact operations first. */
OpStrip op_strip_on(OpIsa isa, OpCode op, DType t, DType to) {
  if (!op_takes(op, t))
    return NULL;
  isa = op_isa_choose(isa);
  switch (op) {
  case OP_CAST: /* to itself a value moves: an infinity of f8e5m2 stays one */
    return t == to ? PICK(isa, strip_bitcast)[t][t] : PICK(isa, strip_cast)[t][to];
  case OP_BITCAST:
    return PICK(isa, strip_bitcast)[t][to];
  case OP_SHL:
    return PICK(isa, strip_shl)[t][to];
  case OP_SHR:
    return PICK(isa, strip_shr)[t][to];
  default: {
    OpStrip s = PICK(isa, strip_arith)[op][t];
    return s ? s : PICK(isa, strip_special)[op][t];
  }
  }
}

OpStrip op_strip(OpCode op, DType t, DType to) {
  return op_strip_on(OPS_BEST, op, t, to);
}

/* NULL, as for strips, where the operation does not take the type. */
OpFold op_fold_on(OpIsa isa, OpCode op, DType t) {
  return PICK(op_isa_choose(isa), fold_all)[op][t];
}

OpFold op_fold_lanes_on(OpIsa isa, OpCode op, DType t) {
  return PICK(op_isa_choose(isa), fold_lanes)[op][t];
}

OpFold op_fold(OpCode op, DType t) {
  return op_fold_on(OPS_BEST, op, t);
}

/* ---- single values -----------------------------------------------------------------------------
 */

typedef union Cell { /* one value in compute form */
  float f32;
  double f64;
  uint64_t u64;
} Cell;

/* Folding goes through the strips too, one lane wide: there is no second arithmetic to drift
 * from. */
bool op_eval(OpCode op, DType to, const Scalar *args, int nargs, Scalar *result) {
  if (nargs < 1 || nargs > 4)
    return false;
  const OpInfo *info = op_info(op);
  DType t = args[info->rule == RULE_SELECT ? 1 : 0].type;
  OpStrip strip = op_strip(op, t, info->rule == RULE_SHIFT ? args[1].type : to);
  if (!strip || nargs != info->arity)
    return false;
  Cell in[4], out = {.u64 = 0};
  const void *src[4];
  for (int i = 0; i < nargs; i++) {
    in[i].u64 = 0;
    scalar_store_compute(args[i], &in[i]);
    src[i] = &in[i];
  }
  if (strip(1, &out, src) != 1)
    return false;
  bool decided = info->rule == RULE_CAST || info->rule == RULE_BITCAST;
  *result = scalar_load_compute(decided ? to : op_result(op, t), &out);
  return true;
}

/* ---- reductions --------------------------------------------------------------------------------
 */

/* What every value beats: types without infinities start from their largest magnitude. */
static Scalar lowest(DType t) {
  Scalar x = {.type = t};
  if (dtype_is_float(t))
    x.as.f = t == DT_F8E4M3 || t == DT_F8E5M2 ? -dtype_float_max(t) : -(double)INFINITY;
  else
    x.as.i = dtype_int_min(t);
  return x;
}

/* The same from above. */
static Scalar highest(DType t) {
  Scalar x = {.type = t};
  if (dtype_is_float(t))
    x.as.f = -lowest(t).as.f;
  else
    x.as.u = dtype_int_max(t);
  return x;
}

/* In the type that the reduction gives. */
Scalar op_identity(OpCode op, DType t) {
  DType type = op_reduce_type(op, t);
  Scalar one = {.type = DT_I32, .as.i = 1}, zero = {.type = DT_I32};
  switch (op) {
  case OP_RMAX:
    return lowest(type);
  case OP_RMIN:
    return highest(type);
  case OP_PROD:
  case OP_ALL:
    return scalar_convert(one, type);
  default:
    return scalar_convert(zero, type);
  }
}

/* NaN beats everything and is beaten by nothing, so the first one stays. */
static bool better_float(bool greater, double x, double best) {
  if (isnan(x) || isnan(best))
    return isnan(x) && !isnan(best);
  return greater ? x > best : x < best;
}

/* x and best are in compute form, as the tile holds them. */
bool op_better(OpCode op, DType t, const void *x, const void *best) {
  Scalar a = scalar_load_compute(t, x), b = scalar_load_compute(t, best);
  bool greater = op == OP_ARGMAX;
  if (dtype_is_float(t))
    return better_float(greater, a.as.f, b.as.f);
  if (dtype_is_signed(t))
    return greater ? a.as.i > b.as.i : a.as.i < b.as.i;
  return greater ? a.as.u > b.as.u : a.as.u < b.as.u;
}
