/* check_ops.c: every pure operation on every type it takes, against references written here in
 * integers of 128 bits and in double; the same bits from every instruction set; folds, rules and
 * the table. The mathematical functions' accuracy is in check_math.c.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "quick.h"

__extension__ typedef __int128 Big;

/* Values worth trying of any type: converted to it by the language's rules. */
static const double reals[] = {
    0.0,     -0.0,   1.0,         -1.0,        2.0,          3.0,         -3.0,
    0.5,     -0.5,   1.5,         2.5,         -2.5,         0.1,         -0.7,
    7.0,     -7.0,   100.0,       127.0,       128.0,        -128.0,      255.0,
    256.0,   -129.0, 447.0,       449.0,       1e4,          65504.0,     65520.0,
    -65536., 1e9,    2147483647., 2147483648., -2147483649., 4294967296., 9.3e18,
    1.9e19,  -1e19,  1e30,        -1e38,       3.5e38,       1e300,       6e-8,
    2e-9,    1e-20,  1e-45,       1e-310,      HUGE_VAL,     -HUGE_VAL,   (double)NAN};
enum { REALS = sizeof reals / sizeof reals[0] };

static Scalar real(DType t, double x) {
  Scalar s = {.type = DT_F64, .as.f = x};
  return scalar_convert(s, t);
}

/* n values of type t: the special ones, then random bits. */
static size_t values(DType t, Scalar *out, size_t n) {
  size_t k = 0;
  for (int i = 0; i < REALS && k < n; i++)
    out[k++] = real(t, reals[i]);
  uint64_t seed = 88172645463325252u;
  while (k < n) {
    seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
    uint64_t bits = seed & (t == DT_BOOL ? 1 : UINT64_MAX);
    if (k % 3 == 0 && !dtype_is_float(t))
      bits >>= (seed >> 58), bits &= t == DT_BOOL ? 1 : UINT64_MAX;
    out[k++] = scalar_load(t, &bits);
  }
  return n;
}

static bool same(Scalar a, Scalar b) {
  if (a.type != b.type)
    return false;
  if (!dtype_is_float(a.type))
    return a.as.u == b.as.u;
  if (isnan(a.as.f) || isnan(b.as.f))
    return isnan(a.as.f) && isnan(b.as.f);
  return a.as.f == b.as.f && signbit(a.as.f) == signbit(b.as.f);
}

static Scalar wrapped(DType t, Big x) {
  unsigned shift = 64 - dtype_bits(t);
  uint64_t u = (uint64_t)x << shift;
  Scalar s = {.type = t};
  if (dtype_is_signed(t))
    s.as.i = (int64_t)u >> shift;
  else
    s.as.u = u >> shift;
  return s;
}

static Big big(Scalar x) {
  return dtype_is_signed(x.type) ? (Big)x.as.i : (Big)x.as.u;
}

static Scalar boolean(bool b) {
  Scalar s = {.type = DT_BOOL, .as.u = b};
  return s;
}

/* ---- references --------------------------------------------------------------------------------
 */

static Big floor_div(Big a, Big b) {
  Big q = a / b;
  return a % b != 0 && (a % b < 0) != (b < 0) ? q - 1 : q;
}

/* Reference of two integers; *ok false where it faults. */
static Scalar ref_int(OpCode op, DType t, Scalar sa, Scalar sb, bool *ok) {
  Big a = big(sa), b = big(sb);
  *ok = true;
  switch (op) {
  case OP_ADD:
    return wrapped(t, a + b);
  case OP_SUB:
    return wrapped(t, a - b);
  case OP_MUL:
    return wrapped(t, (Big)((uint64_t)a * (uint64_t)b));
  case OP_FLOORDIV:
  case OP_MOD:
  case OP_CEILDIV:
    *ok = b != 0;
    if (!*ok)
      return wrapped(t, 0);
    if (op == OP_CEILDIV)
      return wrapped(t, -floor_div(-a, b));
    return wrapped(t, op == OP_MOD ? a - floor_div(a, b) * b : floor_div(a, b));
  case OP_MIN2:
    return a < b ? sa : sb;
  case OP_MAX2:
    return a > b ? sa : sb;
  case OP_MULHI: {
    if (dtype_bits(t) < 64)
      return wrapped(t, (a * b) >> dtype_bits(t));
    /* By halves: a = ah 2^32 + al. */
    Big ah = a >> 32, al = a & 0xFFFFFFFF, bh = b >> 32, bl = b & 0xFFFFFFFF;
    Big mid = ah * bl + ((al * bl) >> 32), low = (mid & 0xFFFFFFFF) + al * bh;
    return wrapped(t, ah * bh + (mid >> 32) + (low >> 32));
  }
  case OP_AND:
    return wrapped(t, a & b);
  case OP_OR:
    return wrapped(t, a | b);
  case OP_XOR:
    return wrapped(t, a ^ b);
  case OP_EQ:
    return boolean(a == b);
  case OP_NE:
    return boolean(a != b);
  case OP_LT:
    return boolean(a < b);
  case OP_LE:
    return boolean(a <= b);
  case OP_GT:
    return boolean(a > b);
  case OP_GE:
    return boolean(a >= b);
  case OP_POW: {
    *ok = b >= 0;
    uint64_t r = 1;
    if (b < 0)
      return wrapped(t, 0);
    for (Big i = 0; i < (b < 4000 ? b : 0); i++)
      r *= (uint64_t)a;
    if (b >= 4000) /* by squaring of the square: another order than the strip's */
      for (int bit = 63; bit >= 0; bit--)
        r = r * r * ((uint64_t)b >> bit & 1 ? (uint64_t)a : 1);
    return wrapped(t, (Big)r);
  }
  default:
    *ok = false;
    return wrapped(t, 0);
  }
}

static const OpCode int_ops[] = {
    OP_ADD, OP_SUB, OP_MUL, OP_FLOORDIV, OP_MOD, OP_CEILDIV, OP_MIN2, OP_MAX2, OP_MULHI, OP_AND,
    OP_OR,  OP_XOR, OP_EQ,  OP_NE,       OP_LT,  OP_LE,      OP_GT,   OP_GE,   OP_POW};
enum { INT_OPS = sizeof int_ops / sizeof int_ops[0], MANY = 160 };

START_TEST(integers) {
  DType t = (DType)_i;
  if (!dtype_is_int(t))
    return;
  Scalar v[MANY];
  values(t, v, MANY);
  for (int o = 0; o < INT_OPS; o++) {
    OpCode op = int_ops[o];
    ck_assert(op_takes(op, t));
    for (int i = 0; i < MANY; i++)
      for (int j = 0; j < MANY; j++) {
        Scalar args[2] = {v[i], v[j]}, got;
        bool ok, did = op_eval(op, op_result(op, t), args, 2, &got);
        Scalar want = ref_int(op, t, v[i], v[j], &ok);
        ck_assert_msg(did == ok && (!ok || same(got, want)), "%s %s of %lld %lld: %lld, not %lld",
                      op_info(op)->name, dtype_name(t), (long long)v[i].as.i, (long long)v[j].as.i,
                      (long long)got.as.i, (long long)want.as.i);
      }
  }
}
END_TEST

START_TEST(integers_unary) {
  DType t = (DType)_i;
  if (!dtype_is_int(t))
    return;
  Scalar v[MANY];
  values(t, v, MANY);
  for (int i = 0; i < MANY; i++) {
    Big a = big(v[i]);
    int ones = 0, zeros = 0;
    uint64_t u = v[i].as.u << (64 - dtype_bits(t));
    for (unsigned k = 0; k < dtype_bits(t); k++)
      ones += (int)(u >> (63 - k) & 1);
    while (zeros < (int)dtype_bits(t) && !(u >> (63 - zeros) & 1))
      zeros++;
    struct {
      OpCode op;
      Big want;
    } c[] = {{OP_NEG, -a}, {OP_ABS, a < 0 ? -a : a}, {OP_SIGN, (a > 0) - (a < 0)},
             {OP_NOT, ~a}, {OP_POPCOUNT, ones},      {OP_CLZ, zeros}};
    for (size_t k = 0; k < sizeof c / sizeof c[0]; k++) {
      Scalar got, want = wrapped(op_result(c[k].op, t), c[k].want);
      ck_assert(op_eval(c[k].op, t, &v[i], 1, &got));
      ck_assert_msg(same(got, want), "%s %s of %lld", op_info(c[k].op)->name, dtype_name(t),
                    (long long)v[i].as.i);
    }
  }
}
END_TEST

START_TEST(shifts) {
  DType t = (DType)_i;
  if (!dtype_is_int(t))
    return;
  Scalar v[MANY], counts[MANY];
  values(t, v, MANY);
  for (int c = 0; c < DT_COUNT; c++) {
    if (!dtype_is_int((DType)c))
      continue;
    values((DType)c, counts, MANY);
    for (int j = 0; j < 70; j++)
      counts[j] = wrapped((DType)c, j - 3);
    for (int i = 0; i < MANY; i++)
      for (int j = 0; j < MANY; j++) {
        Big x = big(v[i]), n = big(counts[j]);
        bool inside = n >= 0 && n < dtype_bits(t);
        Scalar args[2] = {v[i], counts[j]}, l, r;
        ck_assert(op_eval(OP_SHL, t, args, 2, &l) && op_eval(OP_SHR, t, args, 2, &r));
        Scalar wl = wrapped(t, inside ? (Big)((uint64_t)x << n) : 0);
        Scalar wr = wrapped(t, inside ? x >> n : x < 0 ? -1 : 0);
        ck_assert_msg(same(l, wl) && same(r, wr), "%s by %s: %lld by %lld", dtype_name(t),
                      dtype_name((DType)c), (long long)x, (long long)n);
      }
  }
}
END_TEST

/* ---- floats ------------------------------------------------------------------------------------
 */

/* The result of an exact or correctly rounded operation: in long double for f32 and below, which
 * holds sums and products of floats closely enough that one rounding to t remains. */
static Scalar ref_float(OpCode op, DType t, double a, double b) {
  bool nan = isnan(a) || isnan(b);
  switch (op) {
  case OP_ADD:
    return real(t, a + b);
  case OP_SUB:
    return real(t, a - b);
  case OP_MUL:
    return real(t, a * b);
  case OP_DIV:
    return real(t, a / b);
  case OP_MIN2:
    return real(t, nan ? (double)NAN : a == b ? (signbit(a) ? a : b) : a < b ? a : b);
  case OP_MAX2:
    return real(t, nan ? (double)NAN : a == b ? (signbit(a) ? b : a) : a > b ? a : b);
  case OP_EQ:
    return boolean(a == b);
  case OP_NE:
    return boolean(a != b);
  case OP_LT:
    return boolean(a < b);
  case OP_LE:
    return boolean(a <= b);
  case OP_GT:
    return boolean(a > b);
  case OP_GE:
    return boolean(a >= b);
  case OP_MOD: {
    if (isnan(fmod(a, b)))
      return real(t, (double)NAN);
    double r = fmod(a, b);
    if (r != 0 && (r < 0) != (b < 0))
      return real(t, (double)((long double)r + (long double)b));
    return real(t, copysign(r, b));
  }
  default:
    return real(t, (double)NAN);
  }
}

static const OpCode float_ops[] = {OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_MIN2, OP_MAX2, OP_EQ,
                                   OP_NE,  OP_LT,  OP_LE,  OP_GT,  OP_GE,   OP_MOD};
enum { FLOAT_OPS = sizeof float_ops / sizeof float_ops[0] };

START_TEST(floats) {
  DType t = (DType)_i;
  if (!dtype_is_float(t))
    return;
  Scalar v[MANY];
  values(t, v, MANY);
  for (int o = 0; o < FLOAT_OPS; o++) {
    OpCode op = float_ops[o];
    for (int i = 0; i < MANY; i++)
      for (int j = 0; j < MANY; j++) {
        Scalar args[2] = {v[i], v[j]}, got, want = ref_float(op, t, v[i].as.f, v[j].as.f);
        ck_assert(op_eval(op, t, args, 2, &got));
        ck_assert_msg(same(got, want), "%s %s of %a %a: %a, not %a", op_info(op)->name,
                      dtype_name(t), v[i].as.f, v[j].as.f, got.as.f, want.as.f);
      }
  }
}
END_TEST

/* floordiv: the exact quotient's floor, where a double holds it. */
START_TEST(floats_floordiv) {
  DType t = (DType)_i;
  if (!dtype_is_float(t) || t == DT_F64)
    return;
  Scalar v[MANY];
  values(t, v, MANY);
  for (int i = 0; i < MANY; i++)
    for (int j = 0; j < MANY; j++) {
      double a = v[i].as.f, b = v[j].as.f, q = floor(a / b);
      if (!(fabs(q) < 0x1p24) || isinf(b))
        continue;
      if (fma(-q, b, a) != 0 && (fma(-q, b, a) < 0) != (b < 0))
        q -= 1;
      Scalar args[2] = {v[i], v[j]}, got, want = real(t, q);
      ck_assert(op_eval(OP_FLOORDIV, t, args, 2, &got));
      ck_assert_msg(got.as.f == want.as.f, "floordiv %s of %a %a: %a, not %a", dtype_name(t), a, b,
                    got.as.f, want.as.f);
    }
  Scalar minus = real(t, -1), far = real(t, HUGE_VAL), args[2] = {minus, far}, got;
  if (!isinf(far.as.f))
    return;
  ck_assert(op_eval(OP_FLOORDIV, t, args, 2, &got) && got.as.f == -1);
  ck_assert(op_eval(OP_MOD, t, args, 2, &got) && isinf(got.as.f));
}
END_TEST

START_TEST(floats_unary) {
  DType t = (DType)_i;
  if (!dtype_is_float(t))
    return;
  Scalar v[MANY];
  values(t, v, MANY);
  for (int i = 0; i < MANY; i++) {
    double x = v[i].as.f;
    double root = t == DT_F64 ? sqrt(x) : (double)sqrtl((long double)x);
    struct {
      OpCode op;
      double want;
    } c[] = {{OP_NEG, -x},         {OP_ABS, fabs(x)},  {OP_SIGN, isnan(x) ? x : (x > 0) - (x < 0)},
             {OP_FLOOR, floor(x)}, {OP_CEIL, ceil(x)}, {OP_ROUND, nearbyint(x)},
             {OP_TRUNC, trunc(x)}, {OP_SQRT, root}};
    for (size_t k = 0; k < sizeof c / sizeof c[0]; k++) {
      Scalar got, want = real(t, c[k].want);
      ck_assert(op_eval(c[k].op, t, &v[i], 1, &got));
      ck_assert_msg(same(got, want) || (isnan(x) && isnan(got.as.f)), "%s %s of %a: %a, not %a",
                    op_info(c[k].op)->name, dtype_name(t), x, got.as.f, want.as.f);
    }
    Scalar b;
    ck_assert(op_eval(OP_ISNAN, DT_BOOL, &v[i], 1, &b) && same(b, boolean(isnan(x))));
    ck_assert(op_eval(OP_ISINF, DT_BOOL, &v[i], 1, &b) && same(b, boolean(isinf(x))));
  }
}
END_TEST

/* fma of narrow floats, where the exact sum fits 64 bits of mantissa, and clamp. */
START_TEST(floats_ternary) {
  DType t = (DType)_i;
  if (!dtype_is_float(t))
    return;
  Scalar v[MANY];
  values(t, v, MANY);
  for (int i = 0; i < 60; i++)
    for (int j = 0; j < MANY; j += 2)
      for (int k = 0; k < MANY; k += 3) {
        Scalar args[3] = {v[i], v[j], v[k]}, got;
        double a = v[i].as.f, b = v[j].as.f, c = v[k].as.f;
        ck_assert(op_eval(OP_FMA, t, args, 3, &got));
        double want = t == DT_F64   ? fma(a, b, c)
                      : t == DT_F32 ? (double)fmaf((float)a, (float)b, (float)c)
                                    : 0;
        long double exact = (long double)a * (long double)b + (long double)c;
        bool held = isfinite(exact) && exact - (long double)c == (long double)a * (long double)b &&
                    exact - (long double)a * (long double)b == (long double)c &&
                    (long double)(double)exact == exact;
        if (t != DT_F64 && t != DT_F32) {
          if (!held)
            continue;
          want = real(t, (double)exact).as.f;
        }
        ck_assert_msg((isnan(want) && isnan(got.as.f)) || want == got.as.f,
                      "fma %s of %a %a %a: %a, not %a", dtype_name(t), a, b, c, got.as.f, want);
        ck_assert(op_eval(OP_CLAMP, t, args, 3, &got));
        double low = isnan(a) || isnan(b) ? (double)NAN : a > b ? a : b;
        want = isnan(low) || isnan(c) ? (double)NAN : low < c ? low : c;
        ck_assert((isnan(want) && isnan(got.as.f)) || want == got.as.f);
      }
}
END_TEST

/* One rounding: 1 + 2^-11 (half of f16's last place) plus a hair must go up, less a hair down. */
START_TEST(fma_rounds_once) {
  Scalar one = real(DT_F16, 1), a = real(DT_F16, 0x1p-11), tiny = real(DT_F16, 0x1p-24), got;
  Scalar just = real(DT_F16, 1 + 0x1p-10);
  Scalar up[3] = {real(DT_F16, 0x1.004p-6), real(DT_F16, 0x1p-5), one};
  ck_assert(op_eval(OP_FMA, DT_F16, up, 3, &got) && got.as.f == just.as.f);
  Scalar tie[3] = {a, one, one};
  ck_assert(op_eval(OP_FMA, DT_F16, tie, 3, &got) && got.as.f == 1);
  Scalar hair[3] = {tiny, tiny, real(DT_F16, 1)};
  ck_assert(op_eval(OP_FMA, DT_F16, hair, 3, &got) && got.as.f == 1);
  /* 2^11 + 1 is a tie of f16, which f32 rounding of (2^11 + 1 + 2^-14) would forget. */
  Scalar near[3] = {real(DT_F16, 0x1.004p6), real(DT_F16, 0x1.ffcp4), real(DT_F16, 0)};
  ck_assert(op_eval(OP_FMA, DT_F16, near, 3, &got));
  ck_assert_double_eq(got.as.f, real(DT_F16, 0x1.004p6 * 0x1.ffcp4).as.f);
  Scalar far[3] = {real(DT_BF16, 0x1p-60), real(DT_BF16, 0x1p-60), real(DT_BF16, 1)};
  ck_assert(op_eval(OP_FMA, DT_BF16, far, 3, &got) && got.as.f == 1);
  Scalar odd[3] = {real(DT_BF16, 0x1p-4), real(DT_BF16, 0x1.02p-4), real(DT_BF16, 1)};
  ck_assert(op_eval(OP_FMA, DT_BF16, odd, 3, &got) && got.as.f == 1 + 0x1p-7);
  Scalar narrow[3] = {real(DT_BF16, 0x1p-70), real(DT_BF16, 0x1p-4), real(DT_BF16, 1)};
  ck_assert(op_eval(OP_FMA, DT_BF16, narrow, 3, &got) && got.as.f == 1);
}
END_TEST

/* ---- conversions, choice -----------------------------------------------------------------------
 */

START_TEST(casts) {
  DType t = (DType)_i;
  enum { N = 900 };
  static Scalar v[N];
  values(t, v, N);
  for (int d = 0; d < DT_COUNT; d++)
    for (int i = 0; i < N; i++) {
      Scalar got, want = scalar_convert(v[i], (DType)d);
      ck_assert(op_eval(OP_CAST, (DType)d, &v[i], 1, &got));
      ck_assert_msg(same(got, want), "%s to %s: value %d, %a %llx: %a %llx, not %a %llx",
                    dtype_name(t), dtype_name((DType)d), i, v[i].as.f,
                    (unsigned long long)v[i].as.u, got.as.f, (unsigned long long)got.as.u,
                    want.as.f, (unsigned long long)want.as.u);
    }
}
END_TEST

/* Facts, not scalar_convert again. */
START_TEST(casts_by_hand) {
  struct {
    DType from;
    double x;
    DType to;
    double want;
  } c[] = {{DT_F32, 3.99, DT_I32, 3},
           {DT_F32, -3.99, DT_I32, -3},
           {DT_F32, 3e9, DT_I32, 2147483647},
           {DT_F32, -3e9, DT_I32, -2147483648.0},
           {DT_F32, (double)NAN, DT_I32, 0},
           {DT_F32, -1, DT_U8, 0},
           {DT_F32, 300, DT_U8, 255},
           {DT_F64, HUGE_VAL, DT_I8, 127},
           {DT_F32, 1e4, DT_F8E4M3, 448},
           {DT_F32, -HUGE_VAL, DT_F8E4M3, -448},
           {DT_F32, HUGE_VAL, DT_F8E5M2, 57344},
           {DT_F32, 65519, DT_F16, 65504},
           {DT_F32, 65520, DT_F16, HUGE_VAL},
           {DT_F32, 0x1p-25, DT_F16, 0},
           {DT_F32, 0x1.8p-25, DT_F16, 0x1p-24},
           {DT_F64, 1 + 0x1p-11 + 0x1p-40, DT_F16, 1 + 0x1p-10},
           {DT_F64, 1 + 0x1p-8 + 0x1p-50, DT_BF16, 1 + 0x1p-7},
           {DT_F32, 0.3, DT_BF16, 0.30078125},
           {DT_F32, 17, DT_F8E4M3, 16},
           {DT_F32, 0x1p-10, DT_F8E4M3, 0},
           {DT_F32, 0x1.8p-10, DT_F8E4M3, 0x1p-9}};
  for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
    Scalar x = {.type = c[i].from, .as.f = c[i].from == DT_F32 ? (double)(float)c[i].x : c[i].x},
           got;
    ck_assert(op_eval(OP_CAST, c[i].to, &x, 1, &got));
    double g = dtype_is_float(c[i].to) ? got.as.f : (double)got.as.i;
    ck_assert_msg(g == c[i].want, "case %zu: %a", i, g);
  }
  Scalar large = {.type = DT_I64, .as.i = (INT64_C(1) << 40) + (INT64_C(1) << 32) + 1}, got;
  ck_assert(op_eval(OP_CAST, DT_BF16, &large, 1, &got) && got.as.f == 0x1p40 + 0x1p33);
  large.as.i = INT64_MAX;
  ck_assert(op_eval(OP_CAST, DT_F32, &large, 1, &got) && got.as.f == 0x1p63);
}
END_TEST

START_TEST(bitcasts) {
  DType t = (DType)_i;
  Scalar v[MANY];
  values(t, v, MANY);
  for (int d = 0; d < DT_COUNT; d++)
    for (int i = 0; i < MANY; i++) {
      if (dtype_size((DType)d) != dtype_size(t))
        continue;
      uint64_t bits = 0;
      scalar_store(v[i], &bits);
      Scalar got, want = scalar_load((DType)d, &bits);
      ck_assert(op_eval(OP_BITCAST, (DType)d, &v[i], 1, &got));
      ck_assert_msg(same(got, want), "%s as %s: %llx", dtype_name(t), dtype_name((DType)d),
                    (unsigned long long)bits);
    }
}
END_TEST

START_TEST(select_every_type) {
  DType t = (DType)_i;
  Scalar v[MANY];
  values(t, v, MANY);
  for (int i = 0; i + 1 < MANY; i++)
    for (int c = 0; c < 2; c++) {
      Scalar args[3] = {boolean(c), v[i], v[i + 1]}, got;
      ck_assert(op_eval(OP_SELECT, t, args, 3, &got) && same(got, args[c ? 1 : 2]));
    }
}
END_TEST

START_TEST(packing) {
  Scalar v[2] = {real(DT_F32, 1.5), real(DT_F32, -0.1)}, got, back;
  ck_assert(op_eval(OP_PACK_BF16, DT_U32, v, 2, &got));
  ck_assert_uint_eq(got.as.u, (uint32_t)f32_to_bf16(-0.1f) << 16 | f32_to_bf16(1.5f));
  ck_assert(op_eval(OP_HIGH_BF16, DT_F32, &got, 1, &back));
  ck_assert_double_eq(back.as.f, (double)bf16_to_f32(f32_to_bf16(-0.1f)));
  for (int i = 0; i < REALS; i++) {
    Scalar w[2] = {real(DT_F32, reals[i]), real(DT_F32, reals[REALS - 1 - i])};
    ck_assert(op_eval(OP_PACK_F16, DT_U32, w, 2, &got));
    uint32_t low = f32_to_f16((float)w[0].as.f), high = f32_to_f16((float)w[1].as.f);
    ck_assert_uint_eq(got.as.u, high << 16 | low);
    ck_assert(op_eval(OP_LOW_F16, DT_F32, &got, 1, &back));
    ck_assert(same(back, real(DT_F32, real(DT_F16, w[0].as.f).as.f)));
    ck_assert(op_eval(OP_HIGH_F16, DT_F32, &got, 1, &back));
    ck_assert(same(back, real(DT_F32, real(DT_F16, w[1].as.f).as.f)));
  }
  /* Every code of f16 survives unpacking and packing. */
  for (uint32_t h = 0; h < 0x10000; h++) {
    Scalar u = {.type = DT_U32, .as.u = h}, zero = real(DT_F32, 0);
    ck_assert(op_eval(OP_LOW_F16, DT_F32, &u, 1, &back));
    Scalar w[2] = {back, zero};
    ck_assert(op_eval(OP_PACK_F16, DT_U32, w, 2, &got));
    ck_assert(isnan(back.as.f) ? got.as.u == 0x7FFF : got.as.u == h);
  }
}
END_TEST

/* Bytes of either word, in any order, and signs. */
START_TEST(bytes_of_two_words) {
  static const uint32_t cases[][2] = {{0x3210, 0x83828180}, {0x7654, 0x07060584},
                                      {0x6420, 0x06848280}, {0x3175, 0x83810705},
                                      {0xC8F0, 0xFFFF0080}, {0xFFFF6420, 0x06848280}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Scalar v[3] = {{.type = DT_U32, .as.u = 0x83828180},
                   {.type = DT_U32, .as.u = 0x07060584},
                   {.type = DT_U32, .as.u = cases[i][0]}},
           got;
    ck_assert(op_eval(OP_PRMT, DT_U32, v, 3, &got));
    ck_assert_uint_eq(got.as.u, cases[i][1]);
  }
}
END_TEST

START_TEST(descriptors) {
  Scalar a[4], got;
  int64_t in[4] = {16384, 16, 1024, 1};
  for (int i = 0; i < 4; i++)
    a[i] = (Scalar){.type = DT_I32, .as.i = in[i]};
  ck_assert(op_eval(OP_DESC, DT_U64, a, 4, &got));
  ck_assert_uint_eq(got.as.u, UINT64_C(1) << 62 | UINT64_C(64) << 32 | 1u << 16 | 17408 / 16);
}
END_TEST

/* ---- strips: instruction sets, aliasing, faults ------------------------------------------------
 */

static const OpIsa sets[] = {OPS_BASELINE, OPS_V3, OPS_V4};

/* Fills n elements of compute form with values of t. */
static void fill(DType t, char *p, size_t n, uint64_t salt) {
  Scalar v[MANY];
  size_t size = dtype_compute_size(t);
  values(t, v, MANY);
  for (size_t i = 0; i < n; i++) {
    Scalar x = v[(i * 7 + salt * 13 + i * i * salt) % MANY];
    float f = dtype_is_float(t) ? (float)x.as.f : 0;
    if (dtype_compute(t) == DT_F32)
      memcpy(p + i * size, &f, size);
    else
      scalar_store(x, p + i * size);
  }
}

static bool alike(DType t, const char *a, const char *b, size_t n) {
  if (dtype_compute(t) != DT_F32 && t != DT_F64)
    return memcmp(a, b, n * dtype_compute_size(t)) == 0;
  for (size_t i = 0; i < n; i++) {
    double x = t == DT_F64 ? ((const double *)(const void *)a)[i]
                           : (double)((const float *)(const void *)a)[i];
    double y = t == DT_F64 ? ((const double *)(const void *)b)[i]
                           : (double)((const float *)(const void *)b)[i];
    if (!(isnan(x) && isnan(y)) && !(x == y && signbit(x) == signbit(y)))
      return false;
  }
  return true;
}

enum { N = 1500 };
static void check_strip(OpCode op, DType t, DType to) {
  _Alignas(64) static char in[4][N * 8], out[4][N * 8];
  const OpInfo *info = op_info(op);
  DType result = info->rule == RULE_CAST || info->rule == RULE_BITCAST ? to : op_result(op, t);
  const void *src[4];
  for (int k = 0; k < info->arity; k++) {
    DType kt = info->rule == RULE_SELECT && k == 0  ? DT_BOOL
               : info->rule == RULE_SHIFT && k == 1 ? to
                                                    : t;
    fill(kt, in[k], N, (uint64_t)k);
    src[k] = in[k];
  }
  size_t first = 0;
  for (int s = 0; s < 3; s++) {
    OpStrip strip = op_strip_on(sets[s], op, t, to);
    ck_assert_msg(strip != NULL, "%s %s", info->name, dtype_name(t));
    size_t r = strip(N, out[s], src);
    first = s ? first : r;
    ck_assert_msg(r == first && alike(result, out[0], out[s], N), "%s %s to %s, set %d", info->name,
                  dtype_name(t), dtype_name(to), s);
  }
  int last = info->arity - 1;
  DType lt = info->rule == RULE_SHIFT && last == 1 ? to : t;
  if (last < 0 || dtype_compute_size(lt) != dtype_compute_size(result))
    return;
  memcpy(out[3], in[last], sizeof out[3]); /* the result over the last source */
  src[last] = out[3];
  op_strip(op, t, to)(N, out[3], src);
  ck_assert_msg(alike(result, out[0], out[3], N), "%s %s in place", info->name, dtype_name(t));
}

START_TEST(instruction_sets) {
  DType t = (DType)_i;
  for (int o = 0; o < OP_COUNT; o++) {
    const OpInfo *info = op_info((OpCode)o);
    if (info->cls != OPC_PURE || !op_takes((OpCode)o, t))
      continue;
    for (int to = 0; to < DT_COUNT; to++) {
      bool fits = info->rule == RULE_CAST ||
                  (info->rule == RULE_SHIFT && dtype_is_int((DType)to)) ||
                  (info->rule == RULE_BITCAST && dtype_size((DType)to) == dtype_size(t)) ||
                  (info->rule != RULE_BITCAST && info->rule != RULE_SHIFT && to == (int)t);
      if (fits)
        check_strip((OpCode)o, t, (DType)to);
    }
  }
}
END_TEST

START_TEST(faults) {
  int32_t a[4] = {7, 8, INT32_MIN, 1}, b[4] = {2, 0, -1, 0}, d[4];
  const void *src[2] = {a, b};
  ck_assert_uint_eq(op_strip(OP_FLOORDIV, DT_I32, DT_I32)(4, d, src), 1);
  ck_assert(d[0] == 3 && d[1] == 0 && d[2] == INT32_MIN && d[3] == 0);
  ck_assert_uint_eq(op_strip(OP_MOD, DT_I32, DT_I32)(1, d, src), 1);
  ck_assert_int_eq(d[0], 1);
  ck_assert(op_can_fault(OP_MOD, DT_U8) && !op_can_fault(OP_MOD, DT_F32));
}
END_TEST

/* ---- reductions, table -------------------------------------------------------------------------
 */

START_TEST(folds) {
  DType t = (DType)_i;
  const OpCode ops[] = {OP_SUM, OP_PROD, OP_RMAX, OP_RMIN, OP_ABSMAX, OP_ANY, OP_ALL};
  _Alignas(64) static char in[N * 8], acc[N * 8], lanes[3][N * 8];
  fill(t, in, N, 3);
  for (int o = 0; o < 7; o++) {
    if (!op_takes(ops[o], t))
      continue;
    DType r = op_reduce_type(ops[o], t);
    size_t size = dtype_compute_size(r), from = dtype_compute_size(t);
    Scalar start = op_identity(ops[o], t);
    _Alignas(8) char whole[8] = {0}, parts[8] = {0}, one[8];
    float f = dtype_is_float(r) ? (float)start.as.f : 0;
    if (dtype_compute(r) == DT_F32)
      memcpy(whole, &f, 4);
    else
      scalar_store(start, whole);
    memcpy(parts, whole, 8), memcpy(one, whole, 8);
    op_fold(ops[o], t)(N, whole, in);
    for (size_t i = 0; i < N; i += 100)
      op_fold_on(sets[i / 100 % 3], ops[o], t)(100, parts, in + i * from);
    ck_assert_msg(alike(r, whole, parts, 1), "%s %s in parts", op_info(ops[o])->name,
                  dtype_name(t));
    for (int s = 0; s < 3; s++) {
      fill(r, lanes[s], N, 9);
      op_fold_lanes_on(sets[s], ops[o], t)(N, lanes[s], in);
      ck_assert(alike(r, lanes[0], lanes[s], N));
    }
    fill(r, acc, N, 9);
    for (size_t i = 0; i < 40; i++)
      op_fold(ops[o], t)(1, acc + i * size, in + i * from);
    ck_assert(alike(r, acc, lanes[0], 40));
  }
}
END_TEST

START_TEST(folds_by_hand) {
  int8_t a[4] = {100, 100, -7, 100};
  int32_t sum = 0;
  op_fold(OP_SUM, DT_I8)(4, &sum, a);
  ck_assert_int_eq(sum, 293);
  float b[4] = {1, (double)NAN, 3, -9}, top = -HUGE_VAL, big_ = 0;
  op_fold(OP_RMAX, DT_F32)(4, &top, b);
  op_fold(OP_ABSMAX, DT_F16)(1, &big_, b + 3);
  ck_assert(isnan(top) && big_ == 9);
  ck_assert(op_better(OP_ARGMAX, DT_F32, &b[2], &b[0]) &&
            !op_better(OP_ARGMAX, DT_F32, &b[2], &b[1]));
  ck_assert(op_better(OP_ARGMIN, DT_F32, &b[1], &b[3]) &&
            !op_better(OP_ARGMIN, DT_F32, &b[0], &b[0]));
  ck_assert(op_reduce_type(OP_SUM, DT_BF16) == DT_F32 && op_reduce_type(OP_SUM, DT_U16) == DT_I32 &&
            op_reduce_type(OP_RMAX, DT_F16) == DT_F16 &&
            op_reduce_type(OP_ARGMAX, DT_F16) == DT_I32);
}
END_TEST

START_TEST(table) {
  for (int i = 0; i < OP_COUNT; i++) {
    const OpInfo *info = op_info((OpCode)i);
    ck_assert(info->name && info->doc && info->sig && *info->name && *info->doc);
    ck_assert_msg(op_find(info->name) == (OpCode)i, "%s is not the only one", info->name);
    bool machine = info->rule == RULE_LEAF || info->rule == RULE_I32;
    if (info->cls == OPC_PURE && !machine)
      for (int t = 0; t < DT_COUNT; t++)
        ck_assert_msg(
            !op_takes((OpCode)i, (DType)t) ||
                op_strip((OpCode)i, (DType)t, info->rule == RULE_SHIFT ? DT_I32 : (DType)t),
            "%s of %s", info->name, dtype_name((DType)t));
  }
  ck_assert(op_find("no such operation") == OP_NONE);
  ck_assert(op_result(OP_LT, DT_F16) == DT_BOOL && op_result(OP_ADD, DT_F16) == DT_F16);
}
END_TEST

/* The manual, Atomics: 32 and 64 bits, and `add` of the two half floats. */
START_TEST(atomics) {
  static const OpCode of_all[] = {OP_ATOMIC_ADD, OP_ATOMIC_MAX, OP_ATOMIC_MIN, OP_ATOMIC_EXCHANGE,
                                  OP_ATOMIC_CAS};
  static const OpCode of_integers[] = {OP_ATOMIC_AND, OP_ATOMIC_OR, OP_ATOMIC_XOR, OP_ATOMIC_INC};
  for (int t = 0; t <= DT_COUNT; t++) {
    bool integer = t == DT_I32 || t == DT_U32 || t == DT_I64 || t == DT_U64;
    bool wide = integer || t == DT_F32 || t == DT_F64;
    for (int i = 0; i < 5; i++) {
      bool half = i == 0 && (t == DT_F16 || t == DT_BF16);
      ck_assert_msg(op_atomic_takes(of_all[i], (DType)t) == (wide || half), "%s of %s",
                    op_info(of_all[i])->name, dtype_name((DType)t));
    }
    for (int i = 0; i < 4; i++)
      ck_assert_msg(op_atomic_takes(of_integers[i], (DType)t) == integer, "%s of %s",
                    op_info(of_integers[i])->name, dtype_name((DType)t));
  }
}
END_TEST

int main(void) {
  Suite *s = suite_create("ops");
  TCase *c = tcase_create("ops");
  tcase_set_timeout(c, 120);
  tcase_add_loop_test(c, integers, 0, DT_COUNT);
  tcase_add_loop_test(c, integers_unary, 0, DT_COUNT);
  tcase_add_loop_test(c, shifts, 0, DT_COUNT);
  tcase_add_loop_test(c, floats, 0, DT_COUNT);
  tcase_add_loop_test(c, floats_floordiv, 0, DT_COUNT);
  tcase_add_loop_test(c, floats_unary, 0, DT_COUNT);
  tcase_add_loop_test(c, floats_ternary, 0, DT_COUNT);
  tcase_add_test(c, fma_rounds_once);
  tcase_add_loop_test(c, casts, 0, DT_COUNT);
  tcase_add_test(c, casts_by_hand);
  tcase_add_loop_test(c, bitcasts, 0, DT_COUNT);
  tcase_add_loop_test(c, select_every_type, 0, DT_COUNT);
  tcase_add_test(c, packing);
  tcase_add_test(c, bytes_of_two_words);
  tcase_add_test(c, descriptors);
  tcase_add_loop_test(c, instruction_sets, 0, DT_COUNT);
  tcase_add_test(c, faults);
  tcase_add_loop_test(c, folds, 0, DT_COUNT);
  tcase_add_test(c, folds_by_hand);
  tcase_add_test(c, table);
  tcase_add_test(c, atomics);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
