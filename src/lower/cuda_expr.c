/* cuda_expr.c: expressions as CUDA C.
 *
 * Goes in: hash-consed expressions. Comes out: text with C's precedence. Always holds: the value is
 * the evaluator's, bit for bit: integers wrap at their own width (through unsigned arithmetic
 * unless cuda_range.c shows that nothing can wrap), every operation on narrow floats is rounded to
 * its grid, nothing is contracted. Tests: tests/unit/check_cuda.c, tests/gpu.
 */
#include "cuda_print.h"

/* ---- types --------------------------------------------------------------------------------- */

/* A value that a 32-bit variable holds: addresses then cost one instruction instead of two, and the
 * text needs no `long long`. */
bool cuda_fits_int(IrRange r) {
  return r.lo >= INT32_MIN && r.hi <= INT32_MAX;
}

/* narrow: an i64 that is known to fit. */
static CType type_of(DType t, bool narrow) {
  switch (t) {
  case DT_BOOL:
    return C_BOOL;
  case DT_I8:
  case DT_I16:
  case DT_I32:
    return C_INT;
  case DT_U8:
  case DT_U16:
  case DT_U32:
    return C_UINT;
  case DT_I64:
    return narrow ? C_INT : C_LONG;
  case DT_U64:
    return C_ULONG;
  case DT_F64:
    return C_DOUBLE;
  default:
    return C_FLOAT;
  }
}

/* A parameter has its own type; an index needs room for where it begins and ends. */
CType cuda_var_ctype(Printer *p, const IrVar *v) {
  IrRange r = p->var_range[v->id];
  bool narrow = cuda_fits_int(r) && !p->var_arg[v->id];
  if (v->kind == IRV_INDEX)
    narrow = narrow && r.lo > -(1 << 30) && r.hi < 1 << 30 && !p->var_wide[v->id];
  return type_of(v->type, narrow);
}

/* An operation whose range fits may still have operands that do not: those keep their own width,
 * and C converts the result where it is stored. */
CType cuda_ctype(Printer *p, const IrExpr *e) {
  if (e->op == OP_VAR)
    return cuda_var_ctype(p, e->as.var);
  if (e->type != DT_I64)
    return type_of(e->type, false);
  if (e->op == OP_CONST)
    return type_of(DT_I64, cuda_fits_int(cuda_range(p, e)));
  if (e->op == OP_BITCAST || !cuda_exact(p, e))
    return C_LONG;
  return type_of(DT_I64, cuda_fits_int(cuda_range(p, e)));
}

/* C++ names, for the text is CUDA C++ without headers: no stdint.h, no cuda_fp16.h. */
const char *cuda_cname(CType t) {
  static const char *const name[] = {
      "bool", "int", "unsigned", "long long", "unsigned long long", "float", "double"};
  return name[t];
}

/* Registers hold values, memory holds bits: a bool is a bool here and a byte there. */
const char *cuda_register(DType t) {
  return cuda_cname(type_of(t, false));
}

/* 16-bit and 8-bit floats are moved as integers of their size; the prelude converts them. */
const char *cuda_memory(DType t) {
  static const char *const name[DT_COUNT] = {
      [DT_BOOL] = "unsigned char",
      [DT_I8] = "signed char",
      [DT_I16] = "short",
      [DT_I32] = "int",
      [DT_I64] = "long long",
      [DT_U8] = "unsigned char",
      [DT_U16] = "unsigned short",
      [DT_U32] = "unsigned",
      [DT_U64] = "unsigned long long",
      [DT_F16] = "unsigned short",
      [DT_BF16] = "unsigned short",
      [DT_F32] = "float",
      [DT_F64] = "double",
      [DT_F8E4M3] = "unsigned char",
      [DT_F8E5M2] = "unsigned char",
  };
  return name[t];
}

/* ---- constants ----------------------------------------------------------------------------- */

/* The shortest decimal that reads back the same, so that the text is readable and NVRTC, which
 * rounds correctly, gives the same bits; infinities and NaN have no literal. */
static void float_constant(Printer *p, DType t, double x, Str *out) {
  const char *suffix = t == DT_F64 ? "_f64" : "";
  bool special = x != x || x - x != 0.0;
  if (special) {
    const char *name = arena_printf(p->a, "%s%s", x != x ? "ts_nan" : "ts_inf", suffix);
    (void)cuda_part(p, name);
    str_addf(out, "%s%s()", x < 0 ? "-" : "", name);
  } else if (t == DT_F64)
    str_add_f64(out, x);
  else {
    str_add_f32(out, (float)x);
    str_addc(out, 'f');
  }
}

/* With the suffix of its type, so that C computes in it; the least values have no literal. */
static void int_constant(Printer *p, const IrExpr *e, Str *out) {
  int64_t v = e->as.value.as.i;
  switch (cuda_ctype(p, e)) {
  case C_BOOL:
    str_add(out, v ? "true" : "false");
    break;
  case C_UINT:
    str_addf(out, "%lluu", (unsigned long long)v);
    break;
  case C_ULONG:
    str_addf(out, "%lluull", (unsigned long long)v);
    break;
  case C_LONG:
    if (v == INT64_MIN)
      str_add(out, "(-9223372036854775807ll - 1)");
    else
      str_addf(out, "%lldll", (long long)v);
    break;
  default:
    if (v == INT32_MIN)
      str_add(out, "(-2147483647 - 1)");
    else
      str_addf(out, "%lld", (long long)v);
  }
}

/* Such a constant begins with a minus, which binds like a unary operator; -0.0 does too. */
static bool is_negative(const IrExpr *e) {
  if (e->op != OP_CONST || e->type == DT_U64)
    return false;
  return dtype_is_float(e->type) ? e->as.value.as.f < 0 || 1 / e->as.value.as.f < 0
                                 : e->as.value.as.i < 0;
}

/* A sign in front of a literal is an operator to C: `a - -1` and `-1 * b` need parentheses. */
static void constant(Printer *p, const IrExpr *e, int prec, Str *out) {
  bool paren = is_negative(e) && prec > PREC_ADD;
  if (paren)
    str_addc(out, '(');
  if (dtype_is_float(e->type))
    float_constant(p, e->type, e->as.value.as.f, out);
  else
    int_constant(p, e, out);
  if (paren)
    str_addc(out, ')');
}

/* ---- operators ----------------------------------------------------------------------------- */

/* How C spells an operation that it has, and how tightly it binds. */
typedef struct Operator {
  const char *text; /* " + " */
  int prec;
} Operator;

/* C's own table of precedence for the operations that it has; the rest are calls. */
static const Operator operators[OP_COUNT] = {
    [OP_ADD] = {" + ", PREC_ADD},    [OP_SUB] = {" - ", PREC_ADD},    [OP_MUL] = {" * ", PREC_MUL},
    [OP_AND] = {" & ", PREC_AND},    [OP_OR] = {" | ", PREC_OR},      [OP_XOR] = {" ^ ", PREC_XOR},
    [OP_EQ] = {" == ", PREC_EQ},     [OP_NE] = {" != ", PREC_EQ},     [OP_LT] = {" < ", PREC_REL},
    [OP_LE] = {" <= ", PREC_REL},    [OP_GT] = {" > ", PREC_REL},     [OP_GE] = {" >= ", PREC_REL},
    [OP_SHL] = {" << ", PREC_SHIFT}, [OP_SHR] = {" >> ", PREC_SHIFT},
};

/* Bit operators and shifts bind in C where nobody remembers how: their operands are always in
 * parentheses. Comparisons and arithmetic follow the usual reading. */
static int operand_prec(int prec) {
  return prec < PREC_ADD && prec != PREC_REL && prec != PREC_EQ ? PREC_UNARY : prec;
}

/* Kept apart from its partner so that what stands between may have any shape. */
static void open_paren(Str *out, bool yes) {
  if (yes)
    str_addc(out, '(');
}
static void close_paren(Str *out, bool yes) {
  if (yes)
    str_addc(out, ')');
}

/* The right operand needs one level more: a - (b - c). With `widen` the product of two ints is
 * computed in 64 bits, as the language computes it. */
static void infix(Printer *p, const IrExpr *e, Operator o, int prec, const char *widen, Str *out) {
  int inner = operand_prec(o.prec);
  open_paren(out, prec > o.prec);
  str_add(out, widen);
  cuda_expr(p, e->arg[0], *widen ? PREC_UNARY : inner, out);
  str_add(out, o.text);
  cuda_expr(p, e->arg[1], inner + (inner != PREC_UNARY), out);
  close_paren(out, prec > o.prec);
}

/* What wraps. */
static bool is_arithmetic(OpCode op) {
  return op == OP_ADD || op == OP_SUB || op == OP_MUL || op == OP_NEG;
}

/* Bits of the language's type, which the C type may exceed. */
static unsigned width(const IrExpr *e) {
  return dtype_bits(e->type);
}

/* A shift that C defines: the count is known to be below the width. */
static bool constant_shift(const IrExpr *e) {
  int64_t n = e->arg[1]->op == OP_CONST ? e->arg[1]->as.value.as.i : -1;
  return n >= 0 && n < (int64_t)width(e);
}

/* Sums, differences, products and left shifts depend on their operands only modulo 2^n: a whole
 * tree of them can be computed in unsigned arithmetic and converted once. A temporary is a leaf. */
static bool is_modular(Printer *p, const IrExpr *e) {
  if (!dtype_is_int(e->type) || cuda_fact(p, e)->temp)
    return false;
  return is_arithmetic(e->op) || (e->op == OP_SHL && constant_shift(e));
}

static void modular(Printer *p, const IrExpr *e, CType u, int prec, Str *out);

/* Negation is a difference from 0, so that no unsigned is negated (a warning in every compiler); a
 * shift count stays a plain number. */
static void modular_infix(Printer *p, const IrExpr *e, CType u, int prec, Str *out) {
  Operator o = e->op == OP_NEG ? operators[OP_SUB] : operators[e->op];
  open_paren(out, prec > o.prec);
  if (e->op == OP_NEG)
    str_addc(out, '0');
  else
    modular(p, e->arg[0], u, operand_prec(o.prec), out);
  str_add(out, o.text);
  const IrExpr *right = e->arg[e->nargs - 1];
  if (e->op == OP_SHL)
    str_addf(out, "%d", (int)right->as.value.as.i);
  else
    modular(p, right, u, o.prec + 1, out);
  close_paren(out, prec > o.prec);
}

/* e modulo 2^32 or 2^64, in unsigned (u is C_UINT or C_ULONG). */
static void modular(Printer *p, const IrExpr *e, CType u, int prec, Str *out) {
  bool same_width = (width(e) == 64) == (u == C_ULONG);
  if (e->op == OP_CONST && dtype_is_int(e->type) && e->as.value.as.i >= 0) {
    str_addf(out, "%llu%s", (unsigned long long)e->as.value.as.i, u == C_ULONG ? "ull" : "u");
    return;
  }
  if (is_modular(p, e) && same_width && width(e) >= 32 && !cuda_exact(p, e)) {
    modular_infix(p, e, u, prec, out);
    return;
  }
  if (cuda_ctype(p, e) == u) {
    cuda_expr(p, e, prec, out);
    return;
  }
  str_addf(out, "(%s)", cuda_cname(u));
  cuda_expr(p, e, PREC_UNARY, out);
}

void cuda_expr_u32(Printer *p, const IrExpr *e, int prec, Str *out) {
  modular(p, e, C_UINT, prec, out);
}

/* C promises nothing when a signed sum overflows, and NVRTC has no switch for it: where the ranges
 * do not exclude it the sum is done in unsigned. Types below 32 bits cannot overflow in int and are
 * cut to size afterwards. */
static void integer(Printer *p, const IrExpr *e, int prec, Str *out) {
  CType c = cuda_ctype(p, e);
  bool small = width(e) < 32;
  if (e->op != OP_SHL && (cuda_exact(p, e) || small || c == C_UINT || c == C_ULONG)) {
    bool cut = small && !cuda_exact(p, e);
    bool widen = c == C_LONG && cuda_ctype(p, e->arg[0]) != C_LONG &&
                 cuda_ctype(p, e->arg[e->nargs - 1]) != C_LONG;
    if (cut)
      str_addf(out, "(%s)(", cuda_memory(e->type));
    if (e->op == OP_NEG) {
      str_add(out, c == C_UINT    ? "(0u - "
                   : c == C_ULONG ? "(0ull - "
                   : widen        ? "(-(long long)"
                                  : "(-");
      cuda_expr(p, e->arg[0], PREC_UNARY, out);
      str_addc(out, ')');
    } else
      infix(p, e, operators[e->op], cut ? PREC_COMMA : prec, widen ? "(long long)" : "", out);
    if (cut)
      str_addc(out, ')');
    return;
  }
  CType u = width(e) == 64 ? C_ULONG : C_UINT;
  if (c == u) {
    modular_infix(p, e, u, prec, out);
    return;
  }
  str_addf(out, "(%s)(", small ? cuda_memory(e->type) : cuda_cname(c));
  modular_infix(p, e, u, PREC_COMMA, out);
  str_addc(out, ')');
}

/* ---- calls --------------------------------------------------------------------------------- */

/* The IR counts shared addresses from 0; wgmma wants the window's own: the block's base is added
 * (PTX ISA, "Asynchronous warpgroup level matrix shared memory layout"). */
static void descriptor(Printer *p, const IrExpr *e, Str *out) {
  (void)cuda_part(p, "ts_desc");
  p->shared = true;
  str_add(out, "ts_desc(smem + ");
  for (int i = 0; i < 4; i++) {
    str_add(out, i > 0 ? ", " : "");
    cuda_expr_u32(p, e->arg[i], i > 0 ? PREC_COMMA : PREC_ADD + 1, out);
  }
  str_addc(out, ')');
}

/* The type whose function is called is that of the operands; the 32-bit one where everything fits.
 * Counting bits is not the same at another width. */
static DType call_type(Printer *p, const IrExpr *e) {
  DType t = e->nargs > 0 ? e->arg[0]->type : e->type;
  bool narrow = t == DT_I64 && cuda_ctype(p, e) == C_INT;
  for (int i = 0; i < e->nargs && narrow; i++)
    narrow = cuda_ctype(p, e->arg[i]) == C_INT;
  if (e->nargs == 0 || e->op == OP_PACK_BF16 || e->op == OP_PACK_F16 || dtype_is_float(t))
    return t == DT_F64 ? DT_F64 : DT_F32;
  if ((e->op >= OP_LOW_BF16 && e->op <= OP_HIGH_F16) || e->op == OP_PRMT)
    return DT_F32; /* no suffix: there is one type only */
  return narrow && e->op != OP_POPCOUNT && e->op != OP_CLZ ? DT_I32 : t;
}

/* Rounding what is on the grid already would change nothing, but cost an instruction and a reader's
 * attention. */
static bool keeps_grid(OpCode op) { /* of narrow operands, the result is on their grid */
  switch (op) {
  case OP_NEG:
  case OP_ABS:
  case OP_SIGN:
  case OP_MIN2:
  case OP_MAX2:
  case OP_CLAMP:
  case OP_FLOOR:
  case OP_CEIL:
  case OP_ROUND:
  case OP_TRUNC:
  case OP_SELECT:
    return true;
  default:
    return false;
  }
}

/* popcount and clz of a narrow negative number must not see the copies of its sign in the int. */
static void arguments(Printer *p, const IrExpr *e, Str *out) {
  bool bits = e->op == OP_POPCOUNT || e->op == OP_CLZ;
  str_addc(out, '(');
  for (int i = 0; i < e->nargs; i++) {
    str_add(out, i > 0 ? ", " : "");
    if (bits && width(e->arg[i]) < 32) /* no copies of the sign */
      str_addf(out, "(unsigned %s)", width(e->arg[i]) == 8 ? "char" : "short");
    cuda_expr(p, e->arg[i], bits ? PREC_UNARY : PREC_COMMA, out);
  }
  str_addc(out, ')');
}

/* A division of 64 bits by what only a launch knows. */
static const char *long_division(Printer *p, const IrExpr *e, DType t) {
  if (t != DT_I64 || e->nargs != 2 || e->arg[1]->op == OP_CONST ||
      (e->op != OP_FLOORDIV && e->op != OP_MOD))
    return NULL;
  const char *name = e->op == OP_MOD ? "ts_mod_long" : "ts_floordiv_long";
  return cuda_part(p, name) ? name : NULL;
}

/* A call of the row's prelude function. Narrow floats: computed as f32 and rounded once; fma
 * through rounding to odd, since f32 alone would round twice. Narrow integers are cut to size. */
static void call(Printer *p, const IrExpr *e, Str *out) {
  const OpInfo *info = op_info(e->op);
  const char *stem = info->cuda;
  DType t = call_type(p, e);
  bool narrow = cuda_is_narrow(e->type);
  if (narrow && e->op == OP_FMA)
    stem = "ts_fma_odd"; /* one rounding in all */
  const char *fn = *stem && *stem != '$' ? cuda_part_of(p, stem, t) : NULL;
  bool small = dtype_is_int(e->type) && width(e) < 32;
  const char *division = long_division(p, e, t);
  fn = division ? division : fn;
  if (!fn) {
    cuda_fail(p, p->k->span, "there is no CUDA spelling of `%s` on %s", info->name, dtype_name(t));
    return;
  }
  if (narrow && !keeps_grid(e->op))
    str_addf(out, "%s(", cuda_rounder(p, e->type));
  if (small)
    str_addf(out, "(%s)", cuda_memory(e->type));
  str_add(out, fn);
  arguments(p, e, out);
  if (e->op == OP_CLZ && width(e->arg[0]) < 32)
    str_addf(out, " - %u", 32 - width(e->arg[0]));
  if (narrow && !keeps_grid(e->op))
    str_addc(out, ')');
}

/* C truncates, the language rounds down: the same for a non-negative dividend and positive divisor.
 */
static bool plain_division(Printer *p, const IrExpr *e) {
  if ((e->op != OP_FLOORDIV && e->op != OP_MOD) || !dtype_is_int(e->type))
    return false;
  return cuda_range(p, e->arg[0]).lo >= 0 && cuda_range(p, e->arg[1]).lo >= 1;
}

/* The whole product of narrow types fits in an int. */
static void small_mulhi(Printer *p, const IrExpr *e, Str *out) {
  str_addf(out, "(%s)((", cuda_memory(e->type));
  cuda_expr(p, e->arg[0], PREC_MUL, out);
  str_add(out, " * ");
  cuda_expr(p, e->arg[1], PREC_MUL + 1, out);
  str_addf(out, ") >> %u)", width(e));
}

/* ~ sets the bits above the width of a narrow unsigned; the cast takes them away. */
static void complement(Printer *p, const IrExpr *e, Str *out) {
  if (e->type == DT_BOOL)
    str_addc(out, '!');
  else if (width(e) < 32 && dtype_is_unsigned(e->type))
    str_addf(out, "(%s)~", cuda_memory(e->type));
  else
    str_addc(out, '~');
  cuda_expr(p, e->arg[0], PREC_UNARY, out);
}

/* The language evaluates both sides; they have no effect, so C may evaluate one. */
static void choice(Printer *p, const IrExpr *e, int prec, Str *out) {
  open_paren(out, prec > PREC_CHOICE);
  cuda_expr(p, e->arg[0], PREC_CHOICE + 1, out);
  str_add(out, " ? ");
  cuda_expr(p, e->arg[1], PREC_CHOICE + 1, out);
  str_add(out, " : ");
  cuda_expr(p, e->arg[2], PREC_CHOICE, out);
  close_paren(out, prec > PREC_CHOICE);
}

/* C's operators are exact enough for f32 and f64; narrow floats are rounded to their grid. */
static void float_arithmetic(Printer *p, const IrExpr *e, int prec, Str *out) {
  bool round = cuda_is_narrow(e->type) && e->op != OP_NEG;
  if (round)
    str_addf(out, "%s(", cuda_rounder(p, e->type));
  if (e->op == OP_NEG) {
    str_addc(out, '-');
    cuda_expr(p, e->arg[0], PREC_UNARY, out);
  } else
    infix(p, e, operators[e->op], round ? PREC_COMMA : prec, "", out);
  if (round)
    str_addc(out, ')');
}

/* By a known count an operator, else the prelude, which knows counts out of range. */
static void shift(Printer *p, const IrExpr *e, int prec, Str *out) {
  if (constant_shift(e) && e->op == OP_SHL)
    integer(p, e, prec, out);
  else if (constant_shift(e)) {
    open_paren(out, prec > PREC_SHIFT);
    cuda_expr(p, e->arg[0], PREC_UNARY, out);
    str_addf(out, " >> %d", (int)e->arg[1]->as.value.as.i);
    close_paren(out, prec > PREC_SHIFT);
  } else
    call(p, e, out);
}

/* Both operands are known to be non-negative: C truncates as the language rounds down. */
static void division(Printer *p, const IrExpr *e, int prec, Str *out) {
  static const Operator divide = {" / ", PREC_MUL}, remain = {" % ", PREC_MUL};
  infix(p, e, e->op == OP_MOD ? remain : divide, prec, "", out);
}

/* ---- any expression ------------------------------------------------------------------------ */

/* The operations that are not leaves and have no rule of their own. */
static void node(Printer *p, const IrExpr *e, int prec, Str *out) {
  if (is_arithmetic(e->op) && dtype_is_float(e->type))
    float_arithmetic(p, e, prec, out);
  else if (is_arithmetic(e->op))
    integer(p, e, prec, out);
  else if (e->op == OP_SHL || e->op == OP_SHR)
    shift(p, e, prec, out);
  else if (plain_division(p, e))
    division(p, e, prec, out);
  else if (operators[e->op].text)
    infix(p, e, operators[e->op], prec, "", out);
  else if (e->op == OP_MULHI && width(e) < 32)
    small_mulhi(p, e, out);
  else
    call(p, e, out);
}

/* Temporaries first: a node that was bound is spelled by its name from then on. */
void cuda_expr(Printer *p, const IrExpr *e, int prec, Str *out) {
  const char *temp = cuda_fact(p, e)->temp;
  if (temp) {
    str_add(out, temp);
    return;
  }
  switch (e->op) {
  case OP_CONST:
    constant(p, e, prec, out);
    break;
  case OP_VAR:
    str_add(out, cuda_var(p, e->as.var));
    break;
  case OP_CAST:
    cuda_cast(p, e, prec, out);
    break;
  case OP_BITCAST:
    cuda_bitcast(p, e, out);
    break;
  case OP_DESC:
    descriptor(p, e, out);
    break;
  case OP_NOT:
    complement(p, e, out);
    break;
  case OP_SELECT:
    choice(p, e, prec, out);
    break;
  default:
    node(p, e, prec, out);
  }
}

/* ---- what expressions share ---------------------------------------------------------------- */

/* Each node once: hash-consing makes graphs, and a graph of n nodes can be a tree of 2^n. */
static void count_uses(Printer *p, const IrExpr *e) {
  if (e->nargs == 0)
    return;
  ExprFact *f = cuda_fact(p, e);
  if (f->uses++ > 0)
    return;
  VEC_PUSH(p->a, &p->touched, e->id);
  for (int i = 0; i < e->nargs; i++)
    count_uses(p, e->arg[i]);
}

/* A name for `x + 1` saves nothing; for a call or two operations it does. */
static bool is_worth(const IrExpr *e) {
  for (int i = 0; i < e->nargs; i++)
    if (e->arg[i]->nargs > 0)
      return true;
  const char *spelling = op_info(e->op)->cuda;
  return spelling[0] == 't' && e->nargs > 0;
}

/* Operands first, so that a temporary is declared before the one that uses it. */
static void bind(Printer *p, const IrExpr *e) {
  if (e->nargs == 0 || cuda_fact(p, e)->temp)
    return;
  for (int i = 0; i < e->nargs; i++)
    bind(p, e->arg[i]);
  if (cuda_fact(p, e)->uses < 2 || !is_worth(e))
    return;
  Str text = str_new(p->a);
  const char *name = cuda_fresh(p, arena_printf(p->a, "t%d", p->temps++));
  cuda_expr(p, e, PREC_COMMA, &text);
  cuda_line(p, "const %s %s = %s;", cuda_cname(cuda_ctype(p, e)), name, str_text(&text));
  cuda_fact(p, e)->temp = name;
}

/* Counted over all expressions of the statement first: an address that both sides of a store use is
 * computed once. */
void cuda_bind_shared(Printer *p, IrExpr *const *e, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (e[i])
      count_uses(p, e[i]);
  for (size_t i = 0; i < n; i++)
    if (e[i])
      bind(p, e[i]);
}

/* Only the facts that were touched are looked at: a kernel has many more nodes than a statement. */
void cuda_unbind(Printer *p) {
  for (size_t i = 0; i < p->touched.n; i++) {
    ExprFact *f = &p->fact.v[p->touched.v[i]];
    f->uses = 0;
    f->temp = NULL;
  }
  p->touched.n = 0;
}
