/* expr.c: scalar expressions: hash-consing, constant folding, exact simplification.
 *
 * In: an operation and operands of the types its row demands. Out: the one node that stands for it.
 * Always holds: equal nodes are equal pointers; operands have lower ids than their users; a
 * constant stands on the right of a commutative operation, and `a + b` finds an existing `b + a`;
 * nothing is simplified that could change a value, a NaN, the sign of a zero, or drop a fault. All
 * arithmetic is op_eval's. Tests: tests/unit/check_ir.c.
 */
#include <math.h>
#include <string.h>

#include "impl.h"

/* ---------------------------------------------------------------- facts */

/* Of the operation itself; operands are joined by the caller.
 * A grid's index is the block's. */
static IrUniform own_uniform(const IrExpr *e) {
  switch (e->op) {
  case OP_TID:
  case OP_LANE:
    return IR_LANE_VARYING;
  case OP_WARP:
    return IR_WARP_UNIFORM;
  case OP_VAR:
    return e->as.var->uniform;
  default:
    return IR_BLOCK_UNIFORM;
  }
}

/* A division by a constant other than zero cannot fault; a power with a constant exponent of at
 * least zero neither.
 * Everything else that a row says can fault, does so only by its last operand. */
bool ir_own_fault(const IrExpr *e) {
  if (e->op == OP_CONST || e->op == OP_VAR || !op_can_fault(e->op, e->arg[0]->type))
    return false;
  int64_t c;
  bool known = e->nargs == 2 && ir_is_const(e->arg[1], &c);
  return !known || (e->op == OP_POW ? c < 0 && dtype_is_signed(e->type) : c == 0);
}

/* The warp's index, through casts.
 * Indices are cast to the width that arithmetic needs. */
static bool is_warp(const IrExpr *e) {
  while (e->op == OP_CAST)
    e = e->arg[0];
  return e->op == OP_WARP;
}

/* warp() // 4, and comparisons that cut the warps at a multiple of four: the same in a warpgroup.
 */
static bool group_uniform(const IrExpr *e) {
  int64_t c;
  if (e->nargs != 2 || !is_warp(e->arg[0]) || !ir_is_const(e->arg[1], &c) || c < 0)
    return false;
  switch (e->op) {
  case OP_FLOORDIV:
    return c > 0 && c % 4 == 0;
  case OP_SHR:
    return c >= 2;
  case OP_LT:
  case OP_GE:
    return c % 4 == 0;
  case OP_LE:
  case OP_GT:
    return c % 4 == 3;
  default:
    return false;
  }
}

/* Also called again by the uniformity analysis, in order of ids, once variables know better: a fact
 * depends on the operation, its operands' facts and the variable alone. */
void ir_facts(IrExpr *e) {
  e->uniform = own_uniform(e);
  e->reads_mut = e->op == OP_VAR && e->as.var->kind == IRV_MUT;
  e->may_fault = e->nargs > 0 && ir_own_fault(e);
  e->size = 1;
  for (int i = 0; i < e->nargs; i++) {
    const IrExpr *a = e->arg[i];
    e->reads_mut |= a->reads_mut;
    e->may_fault |= a->may_fault;
    e->size = e->size > IR_MAX_NODES ? e->size : e->size + a->size;
    if (a->uniform > e->uniform)
      e->uniform = a->uniform;
  }
  if (group_uniform(e))
    e->uniform = IR_GROUP_UNIFORM;
}

/* ---------------------------------------------------------------- hash-consing */

/* What makes two nodes equal; zeroed before filling, so that padding is equal too. */
typedef struct Key {
  uint64_t op, type, nargs;
  union {
    uint64_t bits;
    const void *p;
  } leaf;
  const IrExpr *arg[4];
} Key;

/* Operands enter by id, not by address: tables fill alike in every run.
 * The key is zeroed first: padding would differ from run to run. */
static uint64_t hash_node(const IrExpr *e) {
  Key key;
  memset(&key, 0, sizeof key);
  key.op = (uint64_t)e->op;
  key.type = (uint64_t)e->type;
  key.nargs = e->nargs;
  if (e->op == OP_CONST)
    key.leaf.bits = e->as.value.as.u;
  else if (e->op == OP_VAR)
    key.leaf.bits = e->as.var->id;
  uint64_t h = hash_bytes(&key, offsetof(Key, arg), 1);
  for (int i = 0; i < e->nargs; i++)
    h = h * UINT64_C(0x9E3779B97F4A7C15) + e->arg[i]->id + 1;
  return h ^ (h >> 29);
}

/* Pointers of operands are enough: they are interned themselves. */
static bool same_node(const IrExpr *a, const IrExpr *b) {
  if (a->op != b->op || a->type != b->type || a->nargs != b->nargs)
    return false;
  if (a->op == OP_CONST && a->as.value.as.u != b->as.value.as.u)
    return false;
  if (a->op == OP_VAR && a->as.var != b->as.var)
    return false;
  for (int i = 0; i < a->nargs; i++)
    if (a->arg[i] != b->arg[i])
      return false;
  return true;
}

/* The slot that holds an equal node, or the free one where it would go. */
static uint32_t *slot_of(const struct IrTable *t, const IrExpr *e) {
  for (size_t i = hash_node(e) & (t->nslots - 1);; i = (i + 1) & (t->nslots - 1))
    if (t->slots[i] == 0 || same_node(t->all.v[t->slots[i] - 1], e))
      return &t->slots[i];
}

/* Twice as large; nodes are entered again by their hashes.
 * At most half full, so that searches stay short. */
static void table_grow(IrKernel *k) {
  struct IrTable *t = k->table;
  t->nslots = t->nslots ? t->nslots * 2 : 64;
  t->slots = ARENA_ARRAY(k->arena, uint32_t, t->nslots);
  for (size_t i = 0; i < t->all.n; i++)
    *slot_of(t, t->all.v[i]) = (uint32_t)(i + 1);
}

/* The only place where nodes are made.
 * `like` is copied; it may lie on the stack. */
IrExpr *ir_intern(IrKernel *k, const IrExpr *like) {
  struct IrTable *t = k->table;
  if ((t->all.n + 1) * 2 > t->nslots)
    table_grow(k);
  uint32_t *slot = slot_of(t, like);
  if (*slot)
    return t->all.v[*slot - 1];
  IrExpr *e = arena_copy(k->arena, like, sizeof *like);
  e->places = NULL; /* of another kernel, perhaps */
  e->id = (uint32_t)t->all.n;
  ir_facts(e);
  VEC_PUSH(k->arena, &t->all, e);
  *slot = (uint32_t)t->all.n;
  return e;
}

/* An existing node that equals `like`, or NULL; nothing is made. */
static IrExpr *find_node(const IrKernel *k, const IrExpr *like) {
  const struct IrTable *t = k->table;
  uint32_t at = t->nslots ? *slot_of(t, like) : 0;
  return at ? t->all.v[at - 1] : NULL;
}

/* ---------------------------------------------------------------- leaves */

/* The value is brought to its type's grid first, so that 0.1 as f16 and the f16 nearest to 0.1 are
 * one constant.
 * A constant of a narrow float is the value on its grid. */
IrExpr *ir_const(IrKernel *k, Scalar value) {
  IrExpr e = {.op = OP_CONST, .type = value.type};
  e.as.value.type = value.type;
  e.as.value = scalar_convert(value, value.type);
  if (dtype_is_float(value.type) && isnan(e.as.value.as.f))
    e.as.value.as.f = (double)NAN; /* one NaN: its text does not tell them apart */
  return ir_intern(k, &e);
}

/* Wraps like a cast. */
IrExpr *ir_int_of(IrKernel *k, DType type, int64_t value) {
  Scalar s = {.type = DT_I64, .as.i = value};
  return ir_const(k, scalar_convert(s, type));
}

IrExpr *ir_int(IrKernel *k, int64_t value) {
  return ir_int_of(k, DT_I64, value);
}

IrExpr *ir_float(IrKernel *k, DType type, double value) {
  Scalar s = {.type = DT_F64, .as.f = value};
  return ir_const(k, scalar_convert(s, type));
}

IrExpr *ir_bool(IrKernel *k, bool value) {
  Scalar s = {.type = DT_BOOL, .as.u = value};
  return ir_const(k, s);
}

/* One node a variable, however often it is read. */
IrExpr *ir_ref(IrKernel *k, IrVar *var) {
  IrExpr e = {.op = OP_VAR, .type = var->type, .as.var = var};
  return ir_intern(k, &e);
}

/* Of any integer type; bools are no numbers here. */
bool ir_is_const(const IrExpr *e, int64_t *value) {
  if (e->op != OP_CONST || !dtype_is_int(e->type))
    return false;
  *value = e->as.value.as.i;
  return true;
}

bool ir_is_zero_bits(const IrExpr *e) {
  if (e->op != OP_CONST)
    return false;
  const Scalar *v = &e->as.value;
  return dtype_is_float(e->type) ? v->as.f == 0 && !signbit(v->as.f) : v->as.i == 0;
}

/* Constants are compared by value, so one test serves every integer type. */
static bool is_int_const(const IrExpr *e, int64_t want) {
  int64_t c;
  return ir_is_const(e, &c) && c == want;
}

static bool is_bool_const(const IrExpr *e, bool want) {
  return e->op == OP_CONST && e->type == DT_BOOL && (e->as.value.as.u != 0) == want;
}

/* By bits: 0.0 and -0.0 are different constants. */
static bool is_float_const(const IrExpr *e, double want) {
  if (e->op != OP_CONST || !dtype_is_float(e->type))
    return false;
  return memcmp(&e->as.value.as.f, &want, sizeof want) == 0;
}

/* ---------------------------------------------------------------- folding */

/* Operations whose value is not the evaluator's alone to say: hardware approximations, descriptors
 * (the base of shared memory), indices of threads. */
static bool foldable(OpCode op, int nargs) {
  return nargs > 0 && op != OP_DESC && op_info(op)->accuracy != ACC_APPROX;
}

/* NULL where an operand is no constant, or where evaluating faults (1 // 0 stays).
 * The evaluator, the host and this use one arithmetic: op_eval's. */
static IrExpr *fold(IrKernel *k, const IrExpr *e) {
  if (!foldable(e->op, e->nargs))
    return NULL;
  Scalar args[4], r;
  for (int i = 0; i < e->nargs; i++) {
    if (e->arg[i]->op != OP_CONST)
      return NULL;
    args[i] = e->arg[i]->as.value;
  }
  return op_eval(e->op, e->type, args, e->nargs, &r) ? ir_const(k, r) : NULL;
}

/* ---------------------------------------------------------------- simplifying */

/* a < b is b > a; OP_NONE where operands may not change places. */
static OpCode mirrored(OpCode op) {
  switch (op) {
  case OP_LT:
    return OP_GT;
  case OP_LE:
    return OP_GE;
  case OP_GT:
    return OP_LT;
  case OP_GE:
    return OP_LE;
  default:
    return op_is_commutative(op) ? op : OP_NONE;
  }
}

/* Constants to the right; of two orders the one that exists already.
 * The order that exists already is kept: text that is read back finds its own. */
static void order_operands(const IrKernel *k, IrExpr *e) {
  if (e->nargs != 2)
    return;
  OpCode other = mirrored(e->op);
  if (other == OP_NONE || e->arg[1]->op == OP_CONST)
    return;
  IrExpr swapped = *e;
  swapped.op = other;
  swapped.arg[0] = e->arg[1];
  swapped.arg[1] = e->arg[0];
  if (e->arg[0]->op == OP_CONST || (!find_node(k, e) && find_node(k, &swapped)))
    *e = swapped;
}

/* x + c with the constant's sign in the operation: `x - 3`, not `x + -3`.
 * The smallest integer has no negation and stays an addition. */
static IrExpr *add_const(IrKernel *k, IrExpr *x, int64_t c) {
  bool minus = c < 0 && c > dtype_int_min(x->type) && dtype_is_signed(x->type);
  IrExpr e = {.op = minus ? OP_SUB : OP_ADD, .type = x->type, .nargs = 2};
  e.arg[0] = x;
  e.arg[1] = ir_int_of(k, x->type, minus ? -c : c);
  return is_int_const(e.arg[1], 0) ? x : ir_intern(k, &e);
}

/* -c without overflow: INT64_MIN stays itself, as arithmetic that wraps wants it. */
static int64_t wrap_neg(int64_t c) {
  return (int64_t)(0 - (uint64_t)c);
}

/* The constant that a sum adds to its first operand; 0 where it is none. */
static int64_t added(const IrExpr *e) {
  int64_t c;
  if ((e->op != OP_ADD && e->op != OP_SUB) || !dtype_is_int(e->type) || !ir_is_const(e->arg[1], &c))
    return 0;
  return e->op == OP_SUB ? wrap_neg(c) : c;
}

/* Sums of constants gather at the end: (x + 3) - 1 is x + 2, mod 2^n as they wrap.
 * x - x is zero only for integers: NaN - NaN is NaN. */
static IrExpr *simplify_sum(IrKernel *k, const IrExpr *e) {
  IrExpr *x = e->arg[0], *y = e->arg[1];
  int64_t c;
  if (e->op == OP_SUB && x == y && !x->may_fault)
    return ir_int_of(k, e->type, 0);
  if (!ir_is_const(y, &c))
    return NULL;
  if (e->op == OP_SUB)
    c = wrap_neg(c);
  int64_t inner = added(x);
  Scalar sum = {.type = DT_I64, .as.u = (uint64_t)c + (uint64_t)inner};
  return add_const(k, inner ? x->arg[0] : x, scalar_convert(sum, e->type).as.i);
}

/* (x * 2) * 4 is x * 8; both wrap to the same bits.
 * x * 0 drops x, so x must not be able to fault. */
static IrExpr *simplify_product(IrKernel *k, const IrExpr *e) {
  IrExpr *x = e->arg[0], *y = e->arg[1];
  if (is_int_const(y, 1))
    return x;
  if (is_int_const(y, 0) && !x->may_fault)
    return y;
  if (y->op == OP_CONST && x->op == OP_MUL && x->arg[1]->op == OP_CONST)
    return ir_op2(k, OP_MUL, x->arg[0], ir_op2(k, OP_MUL, x->arg[1], y));
  return NULL;
}

/* x & x, x | 0, x ^ x and their kin, for bools too.
 * All ones is -1 for signed types and true for bool. */
static IrExpr *simplify_bits(IrKernel *k, const IrExpr *e) {
  IrExpr *x = e->arg[0], *y = e->arg[1];
  bool is_bool = e->type == DT_BOOL;
  bool zero = is_bool ? is_bool_const(y, false) : is_int_const(y, 0);
  bool ones = is_bool ? is_bool_const(y, true) : is_int_const(y, -1) && dtype_is_signed(e->type);
  switch (e->op) {
  case OP_AND:
    return x == y || ones ? x : zero && !x->may_fault ? y : NULL;
  case OP_OR:
    return x == y || zero ? x : ones && !x->may_fault ? y : NULL;
  default:
    if (x == y && !x->may_fault)
      return is_bool ? ir_bool(k, false) : ir_int_of(k, e->type, 0);
    return zero ? x : NULL;
  }
}

/* Division by one, shift by nothing. x // x is not 1 where x is 0.
 * x % 1 is 0 whatever x is, if x cannot fault. */
static IrExpr *simplify_integer(IrKernel *k, const IrExpr *e) {
  switch (e->op) {
  case OP_ADD:
  case OP_SUB:
    return simplify_sum(k, e);
  case OP_MUL:
    return simplify_product(k, e);
  case OP_FLOORDIV:
  case OP_CEILDIV:
    return is_int_const(e->arg[1], 1) ? e->arg[0] : NULL;
  case OP_MOD:
    return is_int_const(e->arg[1], 1) && !e->arg[0]->may_fault ? ir_int_of(k, e->type, 0) : NULL;
  case OP_SHL:
  case OP_SHR:
    return is_int_const(e->arg[1], 0) ? e->arg[0] : NULL;
  default:
    return NULL;
  }
}

/* Only what keeps every bit: -0.0 and NaN included.
 * x + 0.0 is not x for x = -0.0; x - 0.0 is. */
static IrExpr *simplify_float(const IrExpr *e) {
  switch (e->op) {
  case OP_MUL:
  case OP_DIV:
    return is_float_const(e->arg[1], 1.0) ? e->arg[0] : NULL;
  case OP_SUB:
    return is_float_const(e->arg[1], 0.0) ? e->arg[0] : NULL;
  default:
    return NULL;
  }
}

/* A float may be NaN, which does not equal itself.
 * Comparing a value with itself needs no value. */
static IrExpr *simplify_compare(IrKernel *k, const IrExpr *e) {
  if (e->arg[0] != e->arg[1] || e->arg[0]->may_fault || dtype_is_float(e->arg[0]->type))
    return NULL;
  return ir_bool(k, e->op == OP_EQ || e->op == OP_LE || e->op == OP_GE);
}

/* Both sides are evaluated, so a side that may fault is not dropped.
 * Equal sides make the condition pointless. */
static IrExpr *simplify_select(const IrExpr *e) {
  IrExpr *c = e->arg[0], *x = e->arg[1], *y = e->arg[2];
  if (x == y && !c->may_fault)
    return x;
  if (is_bool_const(c, true) && !y->may_fault)
    return x;
  return is_bool_const(c, false) && !x->may_fault ? y : NULL;
}

/* Whether every value of integer type a has the same value in integer type b.
 * An unsigned type needs one bit more to fit a signed one. */
static bool widens(DType a, DType b) {
  if (dtype_is_signed(a))
    return dtype_is_signed(b) && dtype_bits(b) >= dtype_bits(a);
  return dtype_bits(b) > dtype_bits(a) || (dtype_is_unsigned(b) && dtype_bits(b) == dtype_bits(a));
}

/* Integer casts wrap, so an inner one that loses nothing, or that the outer one undercuts, goes.
 * i32(i64(x)) is x; i8(i32(x)) of an i64 is i8(x). */
static IrExpr *simplify_cast(IrKernel *k, const IrExpr *e) {
  IrExpr *x = e->arg[0];
  if (x->type == e->type)
    return x;
  if (x->op != OP_CAST)
    return NULL;
  DType from = x->arg[0]->type, mid = x->type, to = e->type;
  if (!dtype_is_int(from) || !dtype_is_int(mid) || !dtype_is_int(to))
    return NULL;
  bool drop = widens(from, mid) || dtype_bits(to) <= dtype_bits(mid);
  return drop ? ir_cast(k, x->arg[0], to) : NULL;
}

/* Double negation, and casts that do nothing.
 * -(-x) keeps every bit. */
static IrExpr *simplify_unary(IrKernel *k, const IrExpr *e) {
  IrExpr *x = e->arg[0];
  if (e->op == OP_CAST)
    return simplify_cast(k, e);
  if (e->op == OP_BITCAST && x->type == e->type)
    return x;
  return (e->op == OP_NEG || e->op == OP_NOT) && x->op == e->op ? x->arg[0] : NULL;
}

/* By rule first, then by type: what is exact for integers is often not for floats. */
static IrExpr *simplify_binary(IrKernel *k, const IrExpr *e) {
  OpRule rule = op_info(e->op)->rule;
  if (rule == RULE_BITS || e->op == OP_XOR)
    return simplify_bits(k, e);
  if (rule == RULE_COMPARE)
    return simplify_compare(k, e);
  if ((e->op == OP_MIN2 || e->op == OP_MAX2) && e->arg[0] == e->arg[1])
    return e->arg[0];
  return dtype_is_int(e->type) ? simplify_integer(k, e) : simplify_float(e);
}

/* NULL where nothing applies. The result is in simplest form: it is not looked at again.
 * Operations of three operands but `where` are left alone. */
static IrExpr *simplify(IrKernel *k, const IrExpr *e) {
  if (e->op == OP_SELECT)
    return simplify_select(e);
  return e->nargs == 1 ? simplify_unary(k, e) : e->nargs == 2 ? simplify_binary(k, e) : NULL;
}

/* ---------------------------------------------------------------- operations */

/* The row decides; casts and leaves have the type that the caller gives.
 * TID and its kin have no operands: their row says i32. */
static DType result_type(OpCode op, DType given, IrExpr *const *args, int nargs) {
  OpRule rule = op_info(op)->rule;
  if (rule == RULE_CAST || rule == RULE_BITCAST || rule == RULE_LEAF)
    return given;
  if (rule == RULE_SELECT)
    return args[1]->type;
  return op_result(op, nargs ? args[0]->type : DT_I32);
}

/* Fold, order, simplify, intern. The result may be a node of another operation, or an operand
 * itself. */
IrExpr *ir_expr(IrKernel *k, OpCode op, DType type, IrExpr *const *args, int nargs) {
  IrExpr e = {.op = op, .nargs = (uint8_t)nargs};
  for (int i = 0; i < nargs; i++)
    e.arg[i] = args[i];
  e.type = result_type(op, type, args, nargs);
  IrExpr *done = fold(k, &e);
  if (done)
    return done;
  order_operands(k, &e);
  done = simplify(k, &e);
  return done ? done : ir_intern(k, &e);
}

IrExpr *ir_op1(IrKernel *k, OpCode op, IrExpr *a) {
  return ir_expr(k, op, DT_NONE, &a, 1);
}

IrExpr *ir_op2(IrKernel *k, OpCode op, IrExpr *a, IrExpr *b) {
  IrExpr *args[] = {a, b};
  return ir_expr(k, op, DT_NONE, args, 2);
}

IrExpr *ir_op3(IrKernel *k, OpCode op, IrExpr *a, IrExpr *b, IrExpr *c) {
  IrExpr *args[] = {a, b, c};
  return ir_expr(k, op, DT_NONE, args, 3);
}

/* The only conversion; passes call it freely, since it costs nothing where none is needed. */
IrExpr *ir_cast(IrKernel *k, IrExpr *e, DType type) {
  return e->type == type ? e : ir_expr(k, OP_CAST, type, &e, 1);
}

/* ---------------------------------------------------------------- replacing */

typedef struct Replace {
  IrKernel *k;
  IrExpr *const *to;
  size_t n;
  Map *done; /* node to its replacement: shared nodes are rebuilt once */
} Replace;

/* Depth first; shared nodes are rebuilt once, through `done`.
 * A node without variables comes back as it is. */
static IrExpr *replace(Replace *r, IrExpr *e) {
  if (e->op == OP_VAR)
    return e->as.var->id < r->n && r->to[e->as.var->id] ? r->to[e->as.var->id] : e;
  if (e->nargs == 0)
    return e;
  IrExpr *done = map_getn(r->done, &e->id, sizeof e->id), *args[4];
  if (done)
    return done;
  bool same = true;
  for (int i = 0; i < e->nargs; i++) {
    args[i] = replace(r, e->arg[i]);
    same &= args[i] == e->arg[i];
  }
  done = same ? e : ir_expr(r->k, e->op, e->type, args, e->nargs);
  if (!same)
    ir_place_like(r->k, done, e->places);
  map_setn(r->done, &e->id, sizeof e->id, done);
  return done;
}

/* A map of what is done keeps shared nodes shared. */
IrExpr *ir_replace(IrKernel *k, IrExpr *e, IrExpr *const *to, size_t n) {
  Replace r = {k, to, n, map_new(k->arena)};
  return replace(&r, e);
}
