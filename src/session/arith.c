/* arith.c: elementwise operations on host values.
 *
 * In: values and a row of ops.def. Out: a scalar or a new tensor. Typing is sema's (typing.c of
 * src/sema), arithmetic is the strips of src/ops: the same functions that the evaluator runs, so a
 * host expression and a kernel agree bit for bit. Here is only what lies between: broadcasting,
 * conversion to the operands' type in small pieces, and the pieces over the thread pool. Tests:
 * tests/lang/arith_*.tile, tests/unit/check_session.c.
 */
#include "impl.h"

#include <stdatomic.h>
#include <string.h>

enum { PIECE = 1024, PARALLEL_FROM = 1 << 16, PIECES_A_TASK = 16 };

/* Typing ----------------------------------------------------------------------------------- */

/* A literal is told from a computed number: only a literal takes the type that it meets without
 * becoming i64 beside a typed integer scalar. */
SemaNum arith_number(Value v) {
  SemaNum n = {.dtype = DT_NONE};
  if (v.kind == VAL_TENSOR) {
    n.dtype = v.as.tensor->dtype;
    n.array = true;
    return n;
  }
  n.value = val_to_scalar(v);
  n.dtype = n.value.type;
  n.untyped = v.typed == DT_NONE && v.kind != VAL_BOOL;
  n.constant = v.literal || v.big; /* the manual: a literal that does not fit is an error */
  if (n.untyped && n.dtype == DT_U64)
    n.dtype = DT_I64; /* an int; its value says that it is large */
  return n;
}

/* With its text in the program, where that is short enough for a message. */
static SemaNum described(Session *s, Value v, Span where) {
  enum { SHORT = 24 };
  SemaNum n = arith_number(v);
  size_t length = where.end - where.begin;
  if (where.file && length <= SHORT && !src_breaks(where.file->text + where.begin, length))
    n.text = arena_strndup(session_scratch(s), where.file->text + where.begin, length);
  return n;
}

/* What elementwise operations take at all; lists, strings and the like have a few operators of
 * their own, which are looked at before this. */
static bool is_operand(Value v) {
  return val_is_scalar(v) || v.kind == VAL_TENSOR;
}

/* Reports what typing refused, with the code and hint that typing chose: the same words as in a
 * kernel. */
static _Noreturn void bad_rule(Session *s, const SemaRule *rule, Span span) {
  host_fail_hint(s, rule->code, span, rule->hint, "%s", rule->error);
}

/* A list is the usual mistake, where NumPy would have made an array of it; the hint says how to. */
static _Noreturn void bad_operand(Session *s, const char *name, Value v, Span span) {
  const char *hint = v.kind == VAL_LIST ? "tensor(f32, [...]) makes a tensor of a list" : NULL;
  host_fail_hint(s, E0801, span, hint, "%s does not take %s", name, val_describe(s, v));
}

/* Scalars ---------------------------------------------------------------------------------- */

/* An int known at run time must still be in range of the type that it meets (the manual,
 * Types); a float known only at run time converts as a store does, to infinity where it is too
 * large. */
static void check_fit(Session *s, Value v, DType t, Span span) {
  if (v.kind == VAL_TENSOR || v.typed != DT_NONE || v.kind == VAL_BOOL)
    return;
  if (v.kind == VAL_FLOAT && !v.literal)
    return; /* what is known only at run time converts, as in a store */
  if (!sema_fits(val_to_scalar(v), t)) {
    Str text = session_str(s);
    scalar_print(val_to_scalar(v), &text);
    host_fail(s, E0811, span, "%s does not fit in %s", str_text(&text), dtype_name(t));
  }
}

/* Stricter than a store: a float never becomes an integer by itself, nor a bool a number. */
Scalar arith_fit(Session *s, Value v, DType t, Span span) {
  if (!val_is_scalar(v))
    host_fail(s, E0801, span, "%s where a scalar of type %s is wanted", val_describe(s, v),
              dtype_name(t));
  if (v.kind == VAL_FLOAT && dtype_is_int(t))
    host_fail_hint(s, E0811, span, arena_printf(s->line, "%s(x) truncates", dtype_name(t)),
                   "a float does not become %s by itself", dtype_name(t));
  if ((v.kind == VAL_BOOL) != (t == DT_BOOL))
    host_fail(s, E0811, span, "%s does not become %s by itself", val_describe(s, v), dtype_name(t));
  check_fit(s, v, t, span);
  return scalar_convert(val_to_scalar(v), t);
}

/* For element and slice stores and augmented assignments: floats truncate into integers there,
 * as copy does. */
Scalar arith_store(Session *s, Value v, DType t, Span span) {
  check_fit(s, v, t, span);
  return scalar_convert(val_to_scalar(v), t);
}

/* A typed scalar keeps its type from here on, so that host arithmetic on it rounds as a kernel
 * does. */
Value arith_convert(Session *s, Value v, DType t, Span span) {
  if (v.kind == VAL_TENSOR) {
    if (v.as.tensor->dtype == t)
      return v;
    return host_cast(s, host_tensor(s, v, span, "what is converted"), t, span);
  }
  if (!val_is_scalar(v))
    host_fail(s, E0801, span, "%s where a scalar of type %s is wanted", val_describe(s, v),
              dtype_name(t));
  check_fit(s, v, t, span);
  return val_scalar(scalar_convert(val_to_scalar(v), t), true);
}

/* Of an untyped number the result is untyped again, its exact value: f32(0.1) is a float that
 * prints all the digits of the rounded value. */
Value arith_cast(Session *s, Value v, DType t, Span span) {
  if (v.kind == VAL_TENSOR) {
    return host_cast(s, host_tensor(s, v, span, "what is converted"), t, span);
  }
  if (!val_is_scalar(v))
    bad_operand(s, dtype_name(t), v, span);
  return val_scalar(scalar_convert(val_to_scalar(v), t), v.typed != DT_NONE);
}

/* The two ways in which integers have no result (ops.h, op_can_fault). */
static _Noreturn void no_result(Session *s, OpCode op, Span span) {
  if (op == OP_POW)
    host_fail_hint(s, E0207, span, "convert the base: f32(x) ** n",
                   "an integer cannot be raised to a negative power");
  host_fail(s, E0401, span, "integer division by zero");
}

/* One lane of the same operation that strips do; op_eval keeps the two alike. The result stays a
 * literal where all operands were, so that -1 and 2 * 3 still adapt. */
static Value apply_scalars(Session *s, const Operation *o, const SemaRule *rule, const Value *v,
                           int n) {
  Scalar x[3], out = {DT_I64, {.i = 0}};
  bool literal = true;
  for (int i = 0; i < n; i++) {
    DType to = o->op == OP_SELECT && i == 0 ? DT_BOOL : i == 0 ? rule->left : rule->right;
    check_fit(s, v[i], to, o->where ? o->where[i] : o->span);
    x[i] = scalar_convert(val_to_scalar(v[i]), to);
    literal &= v[i].literal;
  }
  if (!op_eval(rule->op, rule->dtype, x, n, &out))
    no_result(s, rule->op, o->span);
  Value result = val_scalar(out, !rule->untyped && rule->dtype != DT_BOOL);
  result.literal = literal;
  return result;
}

/* Tensors ---------------------------------------------------------------------------------- */

/* One operand, read in pieces of compute form of type `to`. */
typedef struct Source {
  DType from, to;
  bool scalar;
  _Alignas(64) char constant[PIECE * 8]; /* of a scalar: filled once */
} Source;

typedef struct Job {
  TensorRuns runs; /* operand 0 is the result */
  Source source[3];
  int slot[3]; /* of the runs, or -1: a scalar */
  int n;
  OpStrip strip;
  DType result;
  char *out;     /* writable base of the result */
  size_t pieces; /* of a run */
  atomic_bool fault;
  const volatile sig_atomic_t *stop; /* looked at before each piece */
} Job;

/* n elements in compute form: where they lie already so, in place; else in buf. */
static const void *load(const Source *src, const char *p, ptrdiff_t step, size_t n, char *buf) {
  _Alignas(64) char stored[PIECE * 8], converted[PIECE * 8];
  size_t size = dtype_size(src->from);
  if (src->scalar)
    return src->constant;
  if (step != (ptrdiff_t)size) {
    dtype_gather(size, p, step, stored, n);
    p = stored;
  }
  if (src->from != src->to) {
    dtype_convert(src->from, p, src->to, converted, n);
    p = converted;
  }
  if (dtype_compute(src->to) != src->to) {
    dtype_unpack(src->to, p, buf, n);
    return buf;
  }
  if (p != stored && p != converted)
    return p;
  memcpy(buf, p, n * dtype_size(src->to));
  return buf;
}

/* One piece: operands to compute form, the strip, the result back to storage. Where storage is
 * the compute form the strip writes in place. Buffers lie on the stack of the worker. */
static void run_piece(Job *j, size_t i) {
  _Alignas(64) char buf[3][PIECE * 8], result[PIECE * 8];
  size_t run = i / j->pieces, first = i % j->pieces * PIECE;
  size_t n = (size_t)j->runs.length - first;
  n = n < PIECE ? n : PIECE;
  const char *p[TENSOR_MAX_OPERANDS];
  const void *src[3];
  tensor_runs_at(&j->runs, (int64_t)run, p);
  for (int k = 0; k < j->n; k++) {
    int at = j->slot[k];
    ptrdiff_t step = at < 0 ? 0 : j->runs.step[at];
    src[k] = load(&j->source[k], at < 0 ? NULL : p[at] + (ptrdiff_t)first * step, step, n, buf[k]);
  }
  char *out = j->out + (p[0] - j->runs.base[0]) + first * dtype_size(j->result);
  bool direct = dtype_compute(j->result) == j->result;
  if (j->strip(n, direct ? (void *)out : (void *)result, src) < n)
    atomic_store(&j->fault, true);
  if (!direct)
    dtype_pack(j->result, result, out, n);
}

/* A range of pieces; the unit that the pool hands out. */
static void run_pieces(void *ctx, size_t lo, size_t hi) {
  const Job *j = ctx;
  for (size_t i = lo; i < hi && !(j->stop && *j->stop); i++)
    run_piece(ctx, i);
}

typedef struct Split {
  void (*fn)(void *ctx, size_t lo, size_t hi);
  void *ctx;
  size_t n, piece;
} Split;

/* One task of the pool: a run of neighbouring pieces, so that workers stay apart in memory. */
static void run_split(void *ctx, size_t i, int worker) {
  (void)worker;
  Split *s = ctx;
  size_t lo = i * s->piece, hi = lo + s->piece < s->n ? lo + s->piece : s->n;
  s->fn(s->ctx, lo, hi);
}

/* Runs fn over [0, n) in pieces, on the pool where n is worth it. Results do not depend on how the
 * range is cut: every piece writes its own elements. */
static void in_pieces(Session *s, size_t n, size_t piece,
                      void (*fn)(void *ctx, size_t lo, size_t hi), void *ctx) {
  Split split = {fn, ctx, n, piece};
  if (n > piece)
    pool_run(session_pool(s), (n + piece - 1) / piece, run_split, &split);
  else if (n > 0)
    fn(ctx, 0, n);
}

/* A scalar operand becomes one piece of equal elements: strips know no scalars, and one fill a
 * call is cheap. */
static void fill_constant(Source *src, Value v) {
  Scalar x = scalar_convert(val_to_scalar(v), src->to);
  char cell[8];
  size_t size = dtype_compute_size(src->to);
  scalar_store_compute(x, cell);
  for (size_t i = 0; i < PIECE; i++)
    memcpy(src->constant + i * size, cell, size);
}

/* The common shape of the tensors among the operands; fails where there is none. */
static void common_shape(Session *s, const Operation *o, const Value *v, int n, int *rank,
                         int64_t *extent) {
  const Tensor *first = NULL;
  Tensor so_far = {.rank = 0};
  Str why = session_str(s);
  for (int i = 0; i < n; i++) {
    if (v[i].kind != VAL_TENSOR)
      continue;
    const Tensor *t = v[i].as.tensor;
    if (!first) {
      first = t;
      so_far = *t;
    } else if (tensor_broadcast_shape(&so_far, t, rank, extent, &why)) {
      so_far.rank = *rank;
      memcpy(so_far.extent, extent, sizeof so_far.extent);
    } else {
      host_fail(s, E0802, o->span, "operands of %s: %s", o->name, str_text(&why));
    }
  }
  *rank = so_far.rank;
  memcpy(extent, so_far.extent, sizeof so_far.extent);
}

/* Tensors are stretched to the result's shape by strides of 0, which runs read again and again;
 * scalars are filled into a buffer. The condition of where is bool whatever the other operands
 * are. */
static void set_sources(Session *s, Job *j, const Operation *o, const SemaRule *rule, Value *v,
                        Tensor *out) {
  const Tensor *operands[TENSOR_MAX_OPERANDS] = {out};
  int used = 1;
  Str why = session_str(s);
  for (int i = 0; i < j->n; i++) {
    Source *src = &j->source[i];
    Span span = o->where ? o->where[i] : o->span;
    src->to = o->op == OP_SELECT && i == 0 ? DT_BOOL : i == 0 ? rule->left : rule->right;
    src->scalar = v[i].kind != VAL_TENSOR;
    if (src->scalar) {
      check_fit(s, v[i], src->to, span);
      fill_constant(src, v[i]);
      j->slot[i] = -1;
      continue;
    }
    Tensor *t = host_tensor(s, v[i], span, "the operand");
    src->from = t->dtype;
    Tensor *view = tensor_broadcast(t, out->rank, out->extent, &why);
    operands[used] = host_new_tensor(s, view, &why, span).as.tensor;
    j->slot[i] = used++;
  }
  tensor_runs_init(&j->runs, operands, used);
}

/* The result is a new tensor, also where an operand could have been overwritten: nothing else
 * may see the change (the manual, `x += y`). */
static Value apply_tensors(Session *s, const Operation *o, const SemaRule *rule, Value *v, int n) {
  int rank = 0;
  int64_t extent[TENSOR_MAX_RANK] = {0};
  Str why = session_str(s);
  common_shape(s, o, v, n, &rank, extent);
  Value result = host_new_tensor(
      s, session_tensor(s, rule->dtype, rank, extent, TENSOR_UNSET, &why), &why, o->span);
  Tensor *out = result.as.tensor;
  Job *j = arena_alloc(session_scratch(s), sizeof *j);
  j->n = n;
  j->result = rule->dtype;
  j->stop = s->options.interrupt;
  bool shift = rule->op == OP_SHL || rule->op == OP_SHR;
  j->strip = op_strip(rule->op, rule->op == OP_SELECT ? rule->right : rule->left,
                      shift ? rule->right : rule->dtype);
  if (!j->strip)
    host_fail(s, E0801, o->span, "%s does not take %s", o->name, dtype_name(rule->left));
  set_sources(s, j, o, rule, v, out);
  if (tensor_count(out) == 0)
    return result;
  j->out = tensor_data_write(out);
  j->pieces = ((size_t)j->runs.length + PIECE - 1) / PIECE;
  size_t total = j->pieces * (size_t)j->runs.runs;
  bool large = tensor_count(out) >= PARALLEL_FROM;
  in_pieces(s, total, large ? (total + 4 * PIECES_A_TASK) / (4 * PIECES_A_TASK) : total, run_pieces,
            j);
  session_stop(s);
  if (atomic_load(&j->fault))
    no_result(s, rule->op, o->span);
  return result;
}

/* A RULE_FLOAT operation whose only operands are untyped ints computes in f64. */
static Value apply_rule(Session *s, const Operation *o, const SemaRule *rule, Value *v, int n) {
  if (rule->op == OP_NONE)
    return v[0]; /* unary + */
  Operation used = *o;
  used.op = rule->op;
  for (int i = 0; i < n; i++)
    if (v[i].kind == VAL_TENSOR)
      return apply_tensors(s, &used, rule, v, n);
  return apply_scalars(s, &used, rule, v, n);
}

/* Ints of which one is 2^63 or more, and none below 0, compute as u64 does; what they give is an
 * int again (a difference below 0: below_zero). */
static bool compute_large(Value *v, int n) {
  bool large = false;
  for (int i = 0; i < n; i++) {
    if (v[i].kind != VAL_INT || v[i].typed != DT_NONE || (!v[i].big && v[i].as.i < 0))
      return false;
    large |= v[i].big;
  }
  for (int i = 0; large && i < n; i++)
    v[i].typed = DT_U64;
  return large;
}

/* Operations called by name; the operators below ask typing in another way, but compute alike. */
Value arith_apply(Session *s, const Operation *o, Value *v, int n) {
  SemaNum x[3];
  SemaRule rule;
  bool large = compute_large(v, n);
  for (int i = 0; i < n; i++) {
    if (!is_operand(v[i]))
      bad_operand(s, o->name, v[i], o->where ? o->where[i] : o->span);
    x[i] = arith_number(v[i]);
  }
  if (!sema_apply(session_scratch(s), SEMA_HOST, o->op, x, n, &rule))
    bad_rule(s, &rule, o->span);
  Value out = apply_rule(s, o, &rule, v, n);
  if (large && out.kind == VAL_INT)
    out.typed = DT_NONE;
  return out;
}

/* An untyped number takes the type of its class that is as wide: bitcast(u32, 1.0) is of an f32. */
static DType bits_type(Value v, DType t) {
  static const DType of_float[] = {[2] = DT_F16, [4] = DT_F32, [8] = DT_F64};
  static const DType of_int[] = {[1] = DT_I8, [2] = DT_I16, [4] = DT_I32, [8] = DT_I64};
  size_t size = dtype_size(t);
  if (v.kind == VAL_TENSOR)
    return v.as.tensor->dtype;
  if (v.typed != DT_NONE || v.kind == VAL_BOOL)
    return val_to_scalar(v).type;
  if (v.kind == VAL_FLOAT)
    return size > 1 ? of_float[size] : DT_F64;
  return v.big ? DT_U64 : of_int[size];
}

Value arith_bitcast(Session *s, Value v, DType t, Span span, Span where) {
  if (!is_operand(v))
    bad_operand(s, "bitcast", v, where);
  SemaRule rule = {.op = OP_BITCAST, .dtype = t, .left = bits_type(v, t)};
  if (dtype_bits(rule.left) != dtype_bits(t))
    host_fail(s, E0208, span, "bitcast keeps the bits: %s has %u of them, %s %u",
              dtype_name(rule.left), dtype_bits(rule.left), dtype_name(t), dtype_bits(t));
  rule.untyped = v.kind != VAL_TENSOR && v.typed == DT_NONE;
  return apply_rule(s, &(Operation){OP_BITCAST, "bitcast", span, &where}, &rule, &v, 1);
}

/* Operators -------------------------------------------------------------------------------- */

/* `+` of two strings, lists or tuples makes a new one; neither operand changes. */
static Value join(Session *s, Value x, Value y) {
  Value out;
  if (x.kind == VAL_STRING) {
    Str text = session_str(s);
    str_addn(&text, val_text(x), x.as.obj->as.string.n);
    str_addn(&text, val_text(y), y.as.obj->as.string.n);
    return val_string(s, str_text(&text), text.n);
  }
  out = x.kind == VAL_LIST ? val_list(s, NULL, 0) : val_tuple(s, NULL, 0);
  const Object *both[] = {x.as.obj, y.as.obj};
  for (int k = 0; k < 2; k++)
    for (size_t i = 0; i < both[k]->as.list.n; i++, session_poll(s))
      val_push(s, out.as.obj, both[k]->as.list.v[i]);
  return out;
}

/* x - y of two that compute as u64, where an int below 0 holds it. */
static bool below_zero(AstOp op, const Value *v, Value *out) {
  uint64_t less = v[1].as.u - v[0].as.u, most = UINT64_C(1) << 63;
  if (op != AST_SUB || v[0].as.u >= v[1].as.u || less > most)
    return false;
  *out = val_int(less == most ? INT64_MIN : -(int64_t)less);
  out->literal = v[0].literal && v[1].literal;
  return true;
}

/* The literal text of the operands is only asked for when typing has failed: most operations
 * succeed, and a copy of the text each time would cost more than they do. */
static Value infix(Session *s, AstOp op, Value x, Value y, Span span, const Span *where) {
  Value v[] = {x, y};
  bool large = compute_large(v, 2);
  SemaRule rule;
  if (!sema_binary(session_scratch(s), SEMA_HOST, op, arith_number(v[0]), arith_number(v[1]),
                   &rule)) {
    sema_binary(session_scratch(s), SEMA_HOST, op, described(s, x, where[0]),
                described(s, y, where[1]), &rule); /* again, for a message with the texts */
    bad_rule(s, &rule, span);
  }
  Value out;
  if (large && below_zero(op, v, &out))
    return out;
  out = apply_rule(s, &(Operation){OP_NONE, ast_op_text(op), span, where}, &rule, v, 2);
  if (large && out.kind == VAL_INT)
    out.typed = DT_NONE;
  return out;
}

Value arith_binary(Session *s, AstOp op, Value x, Value y, Span span, const Span *where) {
  const char *name = ast_op_text(op);
  if (op == AST_ADD && x.kind == y.kind && (x.kind == VAL_STRING || val_is_sequence(x)))
    return join(s, x, y);
  if (op == AST_MATMUL)
    return arith_product(s, x, y, span, where);
  if (op == AST_ADD && (x.kind == VAL_STRING || y.kind == VAL_STRING))
    host_fail_hint(s, E0801, span, "str(x) makes a string of a value", "%s and %s do not add",
                   val_describe(s, x), val_describe(s, y));
  if (!is_operand(x))
    bad_operand(s, name, x, where[0]);
  if (!is_operand(y))
    bad_operand(s, name, y, where[1]);
  return infix(s, op, x, y, span, where);
}

/* `not` is not here: it takes one bool, as conditions do (expr.c). */
Value arith_unary(Session *s, AstOp op, Value x, Span span, Span where) {
  if (!is_operand(x))
    bad_operand(s, ast_op_text(op), x, where);
  SemaRule rule;
  if (!sema_unary(session_scratch(s), SEMA_HOST, op, arith_number(x), &rule))
    bad_rule(s, &rule, span);
  return apply_rule(s, &(Operation){OP_NONE, ast_op_text(op), span, &where}, &rule, &x, 1);
}

/* Comparisons ------------------------------------------------------------------------------ */

/* Bytes decide, so the order of UTF-8 text is that of its code points, whatever the locale. */
static int order_strings(Value x, Value y) {
  size_t m = x.as.obj->as.string.n, n = y.as.obj->as.string.n;
  int c = memcmp(val_text(x), val_text(y), m < n ? m : n);
  return c ? c : (m > n) - (m < n);
}

/* Turns an order (negative, 0, positive) into the answer of one comparison. */
static bool holds(AstOp op, int order) {
  switch (op) {
  case AST_EQ:
    return order == 0;
  case AST_NE:
    return order != 0;
  case AST_LT:
    return order < 0;
  case AST_LE:
    return order <= 0;
  case AST_GT:
    return order > 0;
  default:
    return order >= 0;
  }
}

/* Lists and tuples compare whole: the first elements that differ decide. */
static bool compare_sequences(Session *s, AstOp op, Value x, Value y, Span span,
                              const Span *where) {
  const Object *a = x.as.obj, *b = y.as.obj;
  size_t m = a->as.list.n, n = b->as.list.n;
  if (a == b) /* also one that holds itself */
    return holds(op, 0);
  if (!session_has_stack(s))
    host_fail(s, E0810, span, "the lists are nested too deeply to be compared");
  for (size_t i = 0; i < m && i < n; i++) {
    Value p = a->as.list.v[i], q = b->as.list.v[i];
    Value same = arith_compare(s, AST_EQ, p, q, span, where);
    if (same.kind != VAL_BOOL)
      host_fail(s, E0801, span, "sequences that hold tensors do not compare");
    if (same.as.b)
      continue;
    return op == AST_EQ   ? false
           : op == AST_NE ? true
                          : arith_compare(s, op, p, q, span, where).as.b;
  }
  return holds(op, (m > n) - (m < n));
}

/* Values without an order: nil, dtypes and builtins by value, all others by being the same
 * object. */
static bool same_identity(Value x, Value y) {
  if (x.kind != y.kind)
    return false;
  switch (x.kind) {
  case VAL_NIL:
    return true;
  case VAL_DTYPE:
    return x.as.dtype == y.as.dtype;
  case VAL_BUILTIN:
    return x.as.builtin == y.as.builtin;
  default:
    return x.as.obj == y.as.obj;
  }
}

/* Tensors compare element by element; everything else gives one bool. */
Value arith_compare(Session *s, AstOp op, Value x, Value y, Span span, const Span *where) {
  if (x.kind == VAL_STRING && y.kind == VAL_STRING)
    return val_bool(holds(op, order_strings(x, y)));
  if (val_is_sequence(x) && x.kind == y.kind)
    return val_bool(compare_sequences(s, op, x, y, span, where));
  if (is_operand(x) && is_operand(y))
    return infix(s, op, x, y, span, where);
  if (op != AST_EQ && op != AST_NE)
    host_fail(s, E0801, span, "%s and %s do not compare by %s", val_describe(s, x),
              val_describe(s, y), ast_op_text(op));
  bool same = same_identity(x, y);
  return val_bool(op == AST_EQ ? same : !same);
}
