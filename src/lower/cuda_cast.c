/* cuda_cast.c: conversions between dtypes, and between values and what memory holds.
 *
 * Goes in: CAST and BITCAST nodes, elements. Comes out: text that gives the language's conversion:
 * one rounding to nearest even, f8 saturating; floats to integers truncate and saturate, NaN gives
 * 0; integers wrap. C's own casts are used only where they say exactly that.
 * Tests: tests/unit/check_cuda.c, tests/gpu.
 */
#include "cuda_print.h"

/* They are computed with as f32 and rounded after every operation, as on the CPU. */
bool cuda_is_narrow(DType t) {
  return t == DT_F16 || t == DT_BF16 || t == DT_F8E4M3 || t == DT_F8E5M2;
}

/* One conversion there and back on the hardware; f8 by arithmetic where it has no instruction
 * (before sm_89). */
const char *cuda_rounder(Printer *p, DType t) {
  const char *name = arena_printf(p->a, "ts_round_%s", dtype_name(t));
  (void)cuda_part(p, name);
  return name;
}

/* "ts_load_f16", "ts_store_bf16"; NULL where memory holds the value as it is. */
static const char *mover(Printer *p, const char *which, DType t) {
  if (!cuda_is_narrow(t))
    return NULL;
  const char *name = arena_printf(p->a, "ts_%s_%s", which, dtype_name(t));
  (void)cuda_part(p, name);
  return name;
}

/* A bool in memory is a byte that may hold anything but 0 for true. */
void cuda_from_memory(Printer *p, DType t, const char *text, Str *out) {
  const char *fn = mover(p, "load", t);
  if (fn)
    str_addf(out, "%s(%s)", fn, text);
  else if (t == DT_BOOL)
    str_addf(out, "%s != 0", text);
  else
    str_add(out, text);
}

/* The value is on its grid already, so the store's rounding is exact; infinities of f8 saturate
 * here. */
void cuda_to_memory(Printer *p, DType t, const IrExpr *e, Str *out) {
  const char *fn = mover(p, "store", t);
  if (fn)
    str_addf(out, "%s(", fn);
  cuda_expr(p, e, PREC_COMMA, out);
  if (fn)
    str_addc(out, ')');
}

/* ---- conversions --------------------------------------------------------------------------- */

/* fn(x), asking for its part. */
static void call1(Printer *p, const char *fn, const IrExpr *x, Str *out) {
  (void)cuda_part(p, fn);
  str_addf(out, "%s(", fn);
  cuda_expr(p, x, PREC_COMMA, out);
  str_addc(out, ')');
}

/* Through int, then held to the limits: saturation at the narrow type. */
static void to_small(Printer *p, const IrExpr *x, DType to, const char *fn, Str *out) {
  (void)cuda_part(p, "ts_hold");
  str_add(out, "ts_hold(");
  call1(p, fn, x, out);
  str_addf(out, ", %lld, %lld)", (long long)dtype_int_min(to), (long long)dtype_int_max(to));
}

/* The hardware's conversions truncate and saturate; the prelude mends their NaN. */
static void float_to_int(Printer *p, const IrExpr *x, DType to, Str *out) {
  const char *stem = x->type == DT_F64 ? "ts_f64_to_" : "ts_to_";
  if (dtype_bits(to) >= 32)
    call1(p, arena_printf(p->a, "%s%s", stem, dtype_name(to)), x, out);
  else /* int holds every value of the narrower types, unsigned ones too */
    to_small(p, x, to, arena_printf(p->a, "%si32", stem), out);
}

/* Whether all of a small integer's values are on the grid: by the digits of its significand. */
static bool on_grid(Printer *p, const IrExpr *x, DType to) {
  int64_t most = to == DT_F16 ? 2048 : to == DT_BF16 ? 256 : to == DT_F8E4M3 ? 16 : 8;
  IrRange r = cuda_range(p, x);
  return r.lo >= -most && r.hi <= most;
}

/* In one rounding: f32 holds integers of 24 bits exactly, and of wider ones f16 and f8 overflow
 * wherever it does not; bf16 reaches further, so there the value is made odd first. */
static void int_to_narrow_float(Printer *p, const IrExpr *x, DType to, Str *out) {
  bool exact = dtype_bits(x->type) < 32 || to != DT_BF16;
  (void)cuda_part(p, "ts_f64_to_odd");
  str_addf(out, "%s(", cuda_rounder(p, to));
  if (exact)
    str_add(out, "(float)");
  else
    str_add(out, "ts_f64_to_odd(");
  if (!exact && dtype_bits(x->type) == 64)
    call1(p, dtype_is_signed(x->type) ? "ts_odd_i64" : "ts_odd_u64", x, out);
  else {
    str_add(out, exact ? "" : "(double)");
    cuda_expr(p, x, PREC_UNARY, out);
  }
  str_add(out, exact ? ")" : "))");
}

/* f8 has fewer bits and less range than f16 and bf16; f16 and bf16 hold none of each other. */
static bool holds(DType to, DType from) {
  if (from == to || to == DT_F32)
    return true;
  if (from == DT_F8E4M3 || from == DT_F8E5M2)
    return to == DT_F16 || to == DT_BF16;
  return false;
}

/* From f64 through a value rounded to odd, so that two roundings are one. */
static void float_to_float(Printer *p, const IrExpr *x, DType to, int prec, Str *out) {
  if (to == DT_F64 && x->type == DT_F64)
    cuda_expr(p, x, prec, out);
  else if (x->type != DT_F64 && to != DT_F64 && holds(to, x->type))
    cuda_expr(p, x, prec, out);
  else if (cuda_is_narrow(to)) {
    str_addf(out, "%s(", cuda_rounder(p, to));
    if (x->type == DT_F64)
      call1(p, "ts_f64_to_odd", x, out);
    else
      cuda_expr(p, x, PREC_COMMA, out);
    str_addc(out, ')');
  } else {
    str_add(out, to == DT_F64 ? "(double)" : "(float)");
    cuda_expr(p, x, PREC_UNARY, out);
  }
}

/* C's casts wrap, as the language does; none is written where the value fits anyway. */
static void int_to_int(Printer *p, const IrExpr *e, int prec, Str *out) {
  const IrExpr *x = e->arg[0];
  CType to = cuda_ctype(p, e), from = cuda_ctype(p, x);
  bool whole = cuda_exact(p, e) || dtype_bits(e->type) >= 32;
  if (to == from && whole) {
    cuda_expr(p, x, prec, out);
    return;
  }
  str_addf(out, "(%s)", whole ? cuda_cname(to) : cuda_memory(e->type));
  cuda_expr(p, x, PREC_UNARY, out);
}

/* NaN is true: it is not equal to zero. Integers to bool and back go through comparisons too. */
void cuda_cast(Printer *p, const IrExpr *e, int prec, Str *out) {
  const IrExpr *x = e->arg[0];
  bool from_float = dtype_is_float(x->type), to_float = dtype_is_float(e->type);
  if (e->type == x->type)
    cuda_expr(p, x, prec, out);
  else if (e->type == DT_BOOL) {
    str_add(out, prec > PREC_EQ ? "(" : "");
    cuda_expr(p, x, PREC_EQ + 1, out);
    str_add(out, from_float ? (x->type == DT_F64 ? " != 0.0" : " != 0.0f") : " != 0");
    str_add(out, prec > PREC_EQ ? ")" : "");
  } else if (from_float && to_float)
    float_to_float(p, x, e->type, prec, out);
  else if (from_float)
    float_to_int(p, x, e->type, out);
  else if (cuda_is_narrow(e->type) && !on_grid(p, x, e->type))
    int_to_narrow_float(p, x, e->type, out);
  else if (to_float) {
    str_addf(out, "(%s)", cuda_cname(cuda_ctype(p, e)));
    cuda_expr(p, x, PREC_UNARY, out);
  } else
    int_to_int(p, e, prec, out);
}

/* Through the unsigned type of the size: narrow floats leave and enter the float that carries them.
 */
void cuda_bitcast(Printer *p, const IrExpr *e, Str *out) {
  const IrExpr *x = e->arg[0];
  const char *load = mover(p, "load", e->type), *store = mover(p, "store", x->type);
  const char *to = e->type == DT_F32   ? "__uint_as_float((unsigned)"
                   : e->type == DT_F64 ? "__longlong_as_double((long long)"
                   : e->type == DT_BOOL
                       ? "((unsigned char)"
                       : arena_printf(p->a, "(%s)(%s", cuda_cname(cuda_ctype(p, e)),
                                      load ? "" : arena_printf(p->a, "(%s)", cuda_memory(e->type)));
  if (load)
    str_addf(out, "%s((%s)", load, cuda_memory(e->type));
  else
    str_add(out, to);
  if (store)
    str_addf(out, "%s(", store);
  else if (x->type == DT_F32)
    str_add(out, "__float_as_uint(");
  else if (x->type == DT_F64)
    str_add(out, "__double_as_longlong(");
  else
    str_addc(out, '(');
  cuda_expr(p, x, PREC_COMMA, out);
  str_add(out, e->type == DT_BOOL ? ") != 0)" : "))");
}
