/* typing.c: what happens when two numbers meet (the manual, Types).
 *
 * In: operands as SemaNum. Out: the operation's row, the types its operands convert to and the
 * result's type, or the text of the error. Pure: no scopes, no tree. The checker of kernels and the
 * interpreter of the host both ask here, so there is one set of rules.
 * The rules, in the order in which they are asked: bools meet nothing; two numbers without a type
 * stay without one; one without a type takes the other's (a literal must fit; an int known only at
 * run time makes a narrow integer scalar an i64, since it would not fit in general; a float makes
 * an integer a float); two typed ones give the wider float, the float, or the wider integer of one
 * sign. Tests: tests/unit/check_sema.c, tests/errors.
 */
#include "private.h"

#include <math.h>
#include <string.h>

/* A bool is none. */
static bool is_number(SemaNum x) {
  return x.dtype != DT_BOOL;
}
static bool is_float(SemaNum x) {
  return dtype_is_float(x.dtype);
}
/* `int`: the other untyped kind is float. */
static bool untyped_int(SemaNum x) {
  return x.untyped && !is_float(x);
}

/* The language's names, and `int` and `float` for those without a type. */
const char *sema_num_name(SemaNum x) {
  if (!x.untyped)
    return dtype_name(x.dtype);
  return is_float(x) ? "float" : "int";
}

/* Floats may lose digits but not become infinite; the last half step rounds down, hence 1.0625.
 */
bool sema_fits(Scalar v, DType t) {
  if (t == DT_BOOL)
    return v.type == DT_BOOL;
  if (dtype_is_float(v.type))
    return !dtype_is_float(t) || !isfinite(v.as.f) ||
           (isfinite(scalar_convert(v, t).as.f) && fabs(v.as.f) <= dtype_float_max(t) * 1.0625);
  if (dtype_is_float(t)) {
    Scalar f = scalar_convert(v, DT_F64);
    return fabs(f.as.f) <= dtype_float_max(t) * 1.0625 && isfinite(scalar_convert(f, t).as.f);
  }
  if (v.type == DT_U64)
    return v.as.u <= dtype_int_max(t);
  if (v.as.i < 0)
    return v.as.i >= dtype_int_min(t);
  return (uint64_t)v.as.i <= dtype_int_max(t);
}

/* Fails with a text; hint may be NULL. */
static bool fail(Arena *a, SemaRule *out, DiagCode code, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* Fails with a text; hint may be NULL. */
static bool fail(Arena *a, SemaRule *out, DiagCode code, const char *hint, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  out->error = arena_vprintf(a, fmt, ap);
  va_end(ap);
  out->code = code;
  out->hint = hint;
  return false;
}

/* "the i32" or "`n` is i32"-like description of an operand. */
static const char *operand(Arena *a, SemaNum x) {
  if (!x.text)
    return sema_num_name(x);
  return arena_printf(a, "%s is %s", x.text, sema_num_name(x));
}

/* Whether the first parenthesis of a text closes with its last character. */
static bool wrapped(const char *s) {
  int depth = 0;
  for (; *s; s++) {
    depth += (*s == '(') - (*s == ')');
    if (!depth)
      return s[1] == 0 && *s == ')';
  }
  return false;
}

/* The text of a conversion in a hint: f32(x), or f32(a + b) without double parentheses. */
static const char *conversion(Arena *a, const char *type, SemaNum x) {
  if (x.text && wrapped(x.text))
    return arena_printf(a, "%s%s", type, x.text);
  return arena_printf(a, "%s(%s)", type, x.text ? x.text : "x");
}

/* As the language writes it. */
static const char *number_text(Arena *a, Scalar v) {
  Str s = str_new(a);
  if (dtype_is_float(v.type))
    str_add_f64(&s, v.as.f);
  else if (v.type == DT_U64)
    str_addf(&s, "%llu", (unsigned long long)v.as.u);
  else
    str_addf(&s, "%lld", (long long)v.as.i);
  return str_text(&s);
}

/* Both operands and the result of one type. */
static void result(SemaRule *out, DType t, bool untyped) {
  out->left = out->right = out->dtype = t;
  out->untyped = untyped;
}

const char *sema_misfit(Arena *a, Scalar v, DType t) {
  const char *number = number_text(a, v), *type = dtype_name(t);
  if (dtype_is_int(t))
    return arena_printf(a, "%s does not fit %s, whose range is %lld to %llu", number, type,
                        (long long)dtype_int_min(t), (unsigned long long)dtype_int_max(t));
  Str s = str_new(a);
  str_add_f64(&s, dtype_float_max(t));
  return arena_printf(a, "%s does not fit %s, whose greatest value is %s", number, type,
                      str_text(&s));
}

static bool does_not_fit(Arena *a, SemaNum x, DType t, SemaRule *out) {
  return fail(a, out, E0204, NULL, "%s", sema_misfit(a, x.value, t));
}

/* An untyped number meets a typed one. */
static bool meet_typed(Arena *a, SemaSide side, SemaNum free, SemaNum typed, SemaRule *out) {
  DType t = typed.dtype;
  if (is_float(free) && !dtype_is_float(t)) {
    result(out, side == SEMA_HOST ? DT_F64 : DT_F32, false);
    return true;
  }
  if (free.constant && !sema_fits(free.value, t))
    return does_not_fit(a, free, t, out);
  /* i + n with n an extent: it would not fit an i8, and need not. */
  if (untyped_int(free) && dtype_is_int(t) && !free.constant && !typed.array)
    t = DT_I64;
  result(out, t, false);
  return true;
}

/* float beats int; where both are floats the wider, of two different ones of one width f32. */
static DType common_float(DType x, DType y) {
  if (x == y)
    return x;
  if (!dtype_is_float(x))
    return y;
  if (!dtype_is_float(y))
    return x;
  /* f16 and bf16: neither holds the other. */
  if (dtype_bits(x) == dtype_bits(y))
    return DT_F32;
  return dtype_bits(x) > dtype_bits(y) ? x : y;
}

/* The wider; of two signs only a wider signed one holds both. */
static bool meet_ints(Arena *a, SemaNum x, SemaNum y, SemaRule *out) {
  DType wide = dtype_bits(x.dtype) >= dtype_bits(y.dtype) ? x.dtype : y.dtype;
  if (dtype_is_signed(x.dtype) == dtype_is_signed(y.dtype)) {
    result(out, wide, false);
    return true;
  }
  SemaNum s = dtype_is_signed(x.dtype) ? x : y, u = dtype_is_signed(x.dtype) ? y : x;
  if (dtype_bits(s.dtype) > dtype_bits(u.dtype)) {
    result(out, s.dtype, false);
    return true;
  }
  const char *to_s = conversion(a, dtype_name(s.dtype), u);
  const char *to_u = conversion(a, dtype_name(u.dtype), s);
  return fail(a, out, E0203, arena_printf(a, "convert one of them: %s or %s", to_s, to_u),
              "a signed and an unsigned integer do not mix: %s, %s", operand(a, x), operand(a, y));
}

/* The hint writes the conversion to the number's type. */
static bool bool_meets(Arena *a, SemaNum x, SemaNum y, SemaRule *out) {
  SemaNum b = is_number(x) ? y : x;
  SemaNum n = is_number(x) ? x : y;
  const char *type = is_float(n) ? (n.untyped ? "f32" : dtype_name(n.dtype)) : "i32";
  return fail(a, out, E0202, conversion(a, type, b), "a bool does not mix with a number: %s, %s",
              operand(a, x), operand(a, y));
}

/* The order of the cases is the order of the language's sentences. */
bool sema_meet(Arena *a, SemaSide side, SemaNum x, SemaNum y, SemaRule *out) {
  memset(out, 0, sizeof *out);
  if (x.dtype == DT_BOOL && y.dtype == DT_BOOL) {
    result(out, DT_BOOL, false);
    return true;
  }
  if (!is_number(x) || !is_number(y))
    return bool_meets(a, x, y, out);
  if (x.untyped && y.untyped) {
    bool f = is_float(x) || is_float(y);
    result(out, f ? DT_F64 : DT_I64, true);
    return true;
  }
  if (x.untyped)
    return meet_typed(a, side, x, y, out);
  if (y.untyped)
    return meet_typed(a, side, y, x, out);
  if (is_float(x) || is_float(y)) {
    result(out, common_float(x.dtype, y.dtype), false);
    return true;
  }
  return meet_ints(a, x, y, out);
}

/* ---------------------------------------------------------------- operators */

/* Operators to rows; those without a row of their own are the caller's. */
static OpCode op_of(AstOp op) {
  static const OpCode table[AST_OP_COUNT] = {[AST_NO_OP] = OP_NONE,
                                             [AST_OR] = OP_OR,
                                             [AST_AND] = OP_AND,
                                             [AST_BITOR] = OP_OR,
                                             [AST_BITXOR] = OP_XOR,
                                             [AST_BITAND] = OP_AND,
                                             [AST_SHL] = OP_SHL,
                                             [AST_SHR] = OP_SHR,
                                             [AST_ADD] = OP_ADD,
                                             [AST_SUB] = OP_SUB,
                                             [AST_MUL] = OP_MUL,
                                             [AST_DIV] = OP_DIV,
                                             [AST_FLOORDIV] = OP_FLOORDIV,
                                             [AST_MOD] = OP_MOD,
                                             [AST_MATMUL] = OP_NONE,
                                             [AST_POW] = OP_POW,
                                             [AST_EQ] = OP_EQ,
                                             [AST_NE] = OP_NE,
                                             [AST_LT] = OP_LT,
                                             [AST_LE] = OP_LE,
                                             [AST_GT] = OP_GT,
                                             [AST_GE] = OP_GE,
                                             [AST_NEG] = OP_NEG,
                                             [AST_POS] = OP_NONE,
                                             [AST_BITNOT] = OP_NOT,
                                             [AST_NOT] = OP_NOT};
  return table[op];
}

/* The six comparisons stand together in ast.def. */
static bool is_compare(AstOp op) {
  return op >= AST_EQ && op <= AST_GE;
}

/* The operand's text in a hint. */
static const char *source(SemaNum x, const char *otherwise) {
  return x.text ? x.text : otherwise;
}

/* The left side alone decides the type. */
static bool shift(Arena *a, SemaNum x, SemaNum y, SemaRule *out) {
  if (!dtype_is_int(x.dtype) || !dtype_is_int(y.dtype))
    return fail(a, out, E0205, NULL, "a shift takes integers: %s, %s", operand(a, x),
                operand(a, y));
  out->left = out->dtype = x.dtype;
  out->right = y.dtype;
  out->untyped = x.untyped;
  return true;
}

/* Counting bools is common; the hint says how. */
static bool refuse_bools(Arena *a, AstOp op, SemaNum x, SemaNum y, SemaRule *out) {
  const char *hint =
      op == AST_ADD || op == AST_SUB || op == AST_MUL
          ? arena_printf(a, "i32(%s) %s i32(%s)", source(x, "x"), ast_op_text(op), source(y, "y"))
          : NULL;
  return fail(a, out, E0205, hint, "`%s` does not take a bool: %s, %s", ast_op_text(op),
              operand(a, x), operand(a, y));
}

/* Rules of single operators, once the operands have a common type. */
static bool operator_takes(Arena *a, AstOp op, SemaNum x, SemaNum y, SemaRule *out) {
  if (out->left == DT_BOOL && !is_compare(op) && op != AST_BITAND && op != AST_BITOR &&
      op != AST_BITXOR)
    return refuse_bools(a, op, x, y, out);
  if (op == AST_DIV && !dtype_is_float(out->left))
    return fail(a, out, E0206, arena_printf(a, "%s // %s", source(x, "x"), source(y, "y")),
                "`/` does not divide integers: %s, %s", operand(a, x), operand(a, y));
  if ((op == AST_BITAND || op == AST_BITOR || op == AST_BITXOR) && dtype_is_float(out->left))
    return fail(a, out, E0205, NULL, "`%s` takes integers or bools: %s, %s", ast_op_text(op),
                operand(a, x), operand(a, y));
  if (op == AST_POW && dtype_is_int(out->left) && y.constant && y.value.type != DT_U64 &&
      y.value.as.i < 0)
    return fail(a, out, E0207, arena_printf(a, "%s ** %s", conversion(a, "f32", x), source(y, "y")),
                "an integer cannot be raised to a negative power: %s, the power is %lld",
                operand(a, x), (long long)y.value.as.i);
  return true;
}

/* Comparisons compute in the common type and give a bool. */
bool sema_binary(Arena *a, SemaSide side, AstOp op, SemaNum x, SemaNum y, SemaRule *out) {
  memset(out, 0, sizeof *out);
  OpCode row = op_of(op);
  if (op == AST_SHL || op == AST_SHR) {
    out->op = row;
    return shift(a, x, y, out);
  }
  if (!sema_meet(a, side, x, y, out) || !operator_takes(a, op, x, y, out))
    return false;
  out->op = row;
  if (is_compare(op)) {
    out->dtype = DT_BOOL;
    out->untyped = false;
  }
  return true;
}

/* The type stays; only which operands are taken is to be checked. */
bool sema_unary(Arena *a, SemaSide side, AstOp op, SemaNum x, SemaRule *out) {
  (void)side;
  memset(out, 0, sizeof *out);
  result(out, x.dtype, x.untyped);
  out->op = op_of(op);
  if (op == AST_NOT && (x.dtype != DT_BOOL || x.array))
    return fail(a, out, E0205,
                x.array && x.dtype == DT_BOOL ? arena_printf(a, "~%s", source(x, "x"))
                                              : arena_printf(a, "%s == 0", source(x, "x")),
                "`not` takes a bool scalar: %s%s", operand(a, x), x.array ? " array" : "");
  if (op == AST_NOT)
    return true;
  if (op == AST_BITNOT && dtype_is_float(x.dtype))
    return fail(a, out, E0205, NULL, "`~` takes integers or bools: %s", operand(a, x));
  if (op != AST_BITNOT && x.dtype == DT_BOOL)
    return fail(a, out, E0205, arena_printf(a, "%si32(%s)", ast_op_text(op), source(x, "x")),
                "`%s` does not take a bool: %s", ast_op_text(op), operand(a, x));
  return true;
}

/* ---------------------------------------------------------------- operations by name */

/* Rows that programs write as operators, not as calls. */
static bool is_operator(OpCode op) {
  switch (op) {
  case OP_CONST:
  case OP_VAR:
  case OP_CAST:
  case OP_BITCAST:
  case OP_ADD:
  case OP_SUB:
  case OP_MUL:
  case OP_DIV:
  case OP_FLOORDIV:
  case OP_MOD:
  case OP_NEG:
  case OP_AND:
  case OP_OR:
  case OP_XOR:
  case OP_NOT:
  case OP_SHL:
  case OP_SHR:
    return true;
  default:
    return false;
  }
}

/* Everything of the table that is elementwise mathematics: adding a row makes its name callable.
 */
static bool callable(OpCode op) {
  const OpInfo *i = op_info(op);
  return i->cls == OPC_PURE && i->arity > 0 && i->accuracy != ACC_APPROX && !is_operator(op) &&
         i->rule != RULE_COMPARE && i->rule != RULE_PACK && i->rule != RULE_UNPACK &&
         i->rule != RULE_WORDS && i->rule != RULE_DESC && i->rule != RULE_I32;
}

/* Names of programs are the table's. */
OpCode sema_builtin(const char *name) {
  OpCode op = op_find(name);
  return op != OP_NONE && callable(op) ? op : OP_NONE;
}

/* In the table's order. */
const char *sema_builtin_name(size_t i) {
  for (int op = 0; op < (int)OP_COUNT; op++)
    if (callable((OpCode)op) && i-- == 0)
      return op_info((OpCode)op)->name;
  return NULL;
}

/* Meets all operands from `first` on in one type. */
static bool meet_all(Arena *a, SemaSide side, const SemaNum *x, int n, SemaRule *out) {
  memset(out, 0, sizeof *out);
  result(out, x[0].dtype, x[0].untyped);
  SemaNum sum = x[0];
  for (int i = 1; i < n; i++) {
    if (!sema_meet(a, side, sum, x[i], out))
      return false;
    sum.array = sum.array || x[i].array;
    sum.constant = sum.constant && x[i].constant;
    sum.dtype = out->dtype;
    sum.untyped = out->untyped;
  }
  /* (x, 1, h) with h an f16: A literal may have met an untyped number first and the typed one
   * later. */
  for (int i = 0; i < n && !out->untyped; i++)
    if (x[i].untyped && x[i].constant && !sema_fits(x[i].value, out->dtype))
      return does_not_fit(a, x[i], out->dtype, out);
  return true;
}

/* The row says which types it takes; the hint converts a lone integer. */
static bool takes(Arena *a, OpCode op, const SemaNum *x, int n, SemaRule *out) {
  DType t = out->left;
  if (op_takes(op, t))
    return true;
  const OpInfo *info = op_info(op);
  if (n == 1 && info->rule == RULE_FLOAT && dtype_is_int(t))
    return fail(a, out, E0208, arena_printf(a, "%s(%s)", info->name, conversion(a, "f32", x[0])),
                "%s takes a float: %s", info->name, operand(a, x[0]));
  const char *want = info->rule == RULE_FLOAT || info->rule == RULE_TEST  ? "floats"
                     : info->rule == RULE_INT || info->rule == RULE_COUNT ? "integers"
                     : info->rule == RULE_BITS                            ? "integers or bools"
                                                                          : "numbers";
  Str s = str_new(a);
  for (int i = 0; i < n; i++)
    str_addf(&s, "%s%s", i ? ", " : "", operand(a, x[i]));
  return fail(a, out, E0208, NULL, "%s takes %s: %s", info->name, want, str_text(&s));
}

/* where(c, x, y): x and y meet, c is a bool. */
static bool apply_select(Arena *a, SemaSide side, const SemaNum *x, SemaRule *out) {
  if (!sema_meet(a, side, x[1], x[2], out))
    return false;
  out->op = OP_SELECT;
  if (x[0].dtype != DT_BOOL)
    return fail(a, out, E0208, arena_printf(a, "where(%s != 0, …)", source(x[0], "c")),
                "the condition of where is a bool: %s", operand(a, x[0]));
  out->right = out->dtype;
  out->left = DT_BOOL;
  return true;
}

/* A function of floats makes a float of an int without a type: sqrt(2). */
bool sema_apply(Arena *a, SemaSide side, OpCode op, const SemaNum *x, int n, SemaRule *out) {
  memset(out, 0, sizeof *out);
  const OpInfo *info = op_info(op);
  if (op == OP_SELECT)
    return apply_select(a, side, x, out);
  if (!meet_all(a, side, x, n, out))
    return false;
  out->op = op;
  bool floats = info->rule == RULE_FLOAT || info->rule == RULE_TEST;
  if (floats && out->untyped)
    result(out, DT_F64, true);
  if (!takes(a, op, x, n, out))
    return false;
  DType t = op_result(op, out->left);
  out->untyped = out->untyped && t == out->left;
  out->dtype = t;
  return true;
}
