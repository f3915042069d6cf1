/* build_expr.c: scalars of the typed tree to expressions and the statements before them.
 *
 * In: a scalar TExpr. Out: an IrExpr; loads, atomics, reductions and inlined bodies are statements
 * appended before. `and`, `or` and conditional values become plain operations where neither side
 * needs a statement nor can fault, else an IF that sets a variable.
 * Loads are statements in the IR, so an expression that loads has an order; pure ones have none and
 * are hash-consed. The order of evaluation is the tree's: left to right.
 * Tests: tests/lang (goldens .ir), tests/unit/check_sema.c.
 */
#include "build_impl.h"

/* What the builder made of a tile or tensor. */
IrBuffer *build_buf(const TBuf *t) {
  return t->ir;
}
/* What the builder made of a scalar. */
IrVar *build_var(const TVar *v) {
  return v->ir;
}

/* At the end of the block at hand, with the statement's place in the program. */
IrStmt *build_add(Build *b, IrKind kind) {
  return ir_add(b->k, b->out, kind, b->span);
}

/* Names a value; of IRV_MUT it declares the variable. */
IrVar *build_let(Build *b, IrVarKind kind, const char *name, IrExpr *value) {
  IrVar *v = ir_var(b->k, kind, name, value->type);
  IrStmt *s = build_add(b, IRK_LET);
  s->as.let.var = v;
  s->as.let.value = value;
  return v;
}

/* ---------------------------------------------------------------- elements */

/* The same element. */
static bool same_access(const IrAccess *a, const IrAccess *b) {
  if (a->buf != b->buf)
    return false;
  for (int i = 0; i < a->buf->rank; i++)
    if (a->index[i] != b->index[i])
      return false;
  return true;
}

/* In the body of a whole-tile MAP an element is loaded once, for nothing is stored before the
 * end. Elsewhere each load stands where it was written: an element may change between two. */
IrExpr *build_load(Build *b, const IrAccess *at) {
  /* Inside a branch of the body a load may not have run where another would use it. */
  bool keep = b->map && b->out == b->map;
  for (size_t i = 0; keep && i < b->loaded.n; i++)
    if (same_access(&b->loaded.v[i].at, at))
      return ir_ref(b->k, b->loaded.v[i].var);
  const char *name = arena_printf(b->k->arena, "%sv", at->buf->name);
  IrVar *v = ir_var(b->k, IRV_LET, name, at->buf->dtype);
  IrStmt *s = build_add(b, IRK_LOAD);
  s->as.access.var = v;
  s->as.access.at = *at;
  if (keep) {
    Loaded l = {.at = *at, .var = v};
    VEC_PUSH(b->k->arena, &b->loaded, l);
  }
  return ir_ref(b->k, v);
}

/* A prepared index was computed before the MAP, once. */
IrExpr *build_index(Build *b, const TExpr *e) {
  const Ready *r = e->ir;
  return r && r->scalar ? r->scalar : build_scalar(b, e);
}

/* All indices are single here; slices are build_region's. */
IrAccess build_access(Build *b, const TRegion *r) {
  IrAccess a = {.buf = build_buf(r->buf), .check = !b->k->unchecked, .span = r->span};
  for (int i = 0; i < r->buf->rank; i++)
    a.index[i] = build_index(b, r->axis[i].origin);
  return a;
}

/* A checked access, unless the kernel says @unchecked. */
static IrExpr *element(Build *b, const TExpr *e) {
  IrAccess a = build_access(b, &e->as.region);
  a.span = e->span;
  return build_load(b, &a);
}

/* One element of a computed tile. */
static IrExpr *value_element(Build *b, const TExpr *e) {
  IrExpr *index[SEMA_MAX_RANK];
  /* In a loop's iteration the operand has no parts that need it. */
  if (!b->parallel && !b->map)
    build_prepare(b, e->arg[0]);
  for (int i = 0; i < e->arg[0]->type.rank; i++)
    index[i] = build_index(b, e->as.region.axis[i].origin);
  return build_at(b, e->arg[0], index);
}

/* Index, expected value and value are evaluated before the one statement. */
IrStmt *build_atomic(Build *b, const TExpr *e) {
  IrAccess at = build_access(b, &e->as.atomic.at);
  IrExpr *expected = e->nargs > 1 ? build_scalar(b, e->arg[1]) : NULL;
  IrExpr *value = build_scalar(b, e->arg[0]);
  IrStmt *s = build_add(b, IRK_ATOMIC);
  s->as.atomic.op = e->as.atomic.op;
  s->as.atomic.at = at;
  s->as.atomic.value = value;
  s->as.atomic.expected = expected;
  return s;
}

static IrExpr *atomic_old(Build *b, const TExpr *e) {
  IrAtomic *a = &build_atomic(b, e)->as.atomic;
  a->old = ir_var(b->k, IRV_LET, "old", a->at.buf->dtype);
  return ir_ref(b->k, a->old);
}

/* ---------------------------------------------------------------- lazy values */

typedef struct Side { /* one side of a lazy operation, with what it needs before it */
  IrBlock block;
  IrExpr *value;
} Side;

/* Builds one side apart, to see whether it needs statements. */
static Side side(Build *b, const TExpr *e) {
  Side s = {.value = NULL};
  IrBlock *out = b->out;
  b->out = &s.block;
  s.value = build_scalar(b, e);
  b->out = out;
  return s;
}

/* Computing what would not have been asked for is allowed where nobody can tell. */
static bool eager(const Build *b, const Side *s) {
  return s->block.n == 0 && (b->pre || !s->value->may_fault);
}

/* At the end of one side. */
static void set_in(Build *b, IrBlock *block, IrVar *v, IrExpr *value) {
  IrBlock *out = b->out;
  b->out = block;
  IrStmt *s = build_add(b, IRK_SET);
  s->as.let.var = v;
  s->as.let.value = value;
  b->out = out;
}

/* The variable holds the left side; the right one is computed only where it decides. */
static IrExpr *lazy(Build *b, const TExpr *e) {
  bool is_or = e->kind == TE_OR;
  IrExpr *x = build_scalar(b, e->arg[0]);
  Side y = side(b, e->arg[1]);
  /* The usual case: a condition on indices. */
  if (eager(b, &y))
    return ir_op2(b->k, is_or ? OP_OR : OP_AND, x, y.value);
  IrVar *v = build_let(b, IRV_MUT, "cond", x);
  IrExpr *go = ir_ref(b->k, v);
  set_in(b, &y.block, v, y.value);
  IrStmt *s = build_add(b, IRK_IF);
  s->as.if_.cond = is_or ? ir_op1(b->k, OP_NOT, go) : go;
  s->as.if_.then = y.block;
  /* A LET that never changes: passes may move what reads it. */
  IrVar *fixed = build_let(b, IRV_LET, "cond", ir_ref(b->k, v));
  return ir_ref(b->k, fixed);
}

/* The variable starts at 0, which is never read. */
static IrExpr *choose(Build *b, const TExpr *e) {
  IrExpr *cond = build_scalar(b, e->arg[1]);
  Side x = side(b, e->arg[0]), y = side(b, e->arg[2]);
  if (eager(b, &x) && eager(b, &y))
    return ir_op3(b->k, OP_SELECT, cond, x.value, y.value);
  DType t = e->type.dtype;
  IrExpr *zero = ir_const(b->k, scalar_convert((Scalar){.type = DT_I64}, t));
  IrVar *v = build_let(b, IRV_MUT, "choice", zero);
  set_in(b, &x.block, v, x.value);
  set_in(b, &y.block, v, y.value);
  IrStmt *s = build_add(b, IRK_IF);
  s->as.if_.cond = cond;
  s->as.if_.then = x.block;
  s->as.if_.other = y.block;
  IrVar *fixed = build_let(b, IRV_LET, "choice", ir_ref(b->k, v));
  return ir_ref(b->k, fixed);
}

/* ---------------------------------------------------------------- the rest */

/* Casts go their own way: the type is the node's. */
IrExpr *build_op(Build *b, const TExpr *e, IrExpr *const *arg) {
  if (e->as.op == OP_CAST)
    return ir_cast(b->k, arg[0], e->type.dtype);
  IrExpr *made = ir_expr(b->k, e->as.op, e->type.dtype, arg, e->nargs);
  ir_place(b->k, made, e->span);
  return made;
}

static IrExpr *operation(Build *b, const TExpr *e) {
  IrExpr *arg[4];
  for (int i = 0; i < e->nargs; i++)
    arg[i] = build_scalar(b, e->arg[i]);
  return build_op(b, e, arg);
}

/* A fn's statements are its own: loads made before are not reused across them. */
void build_inlined(Build *b, const TStmts *body) {
  Span span = b->span;
  build_stmts(b, body);
  b->span = span;
}

/* Arguments, body, value, in this order. */
static IrExpr *inlined(Build *b, const TExpr *e) {
  for (int i = 0; i < e->nargs; i++) {
    TVar *p = e->as.inlined.params[i];
    p->ir = build_let(b, IRV_LET, p->name, build_scalar(b, e->arg[i]));
  }
  build_inlined(b, &e->as.inlined.body);
  return build_scalar(b, e->as.inlined.value);
}

/* An int from 2^63 on, which only printing can reach, stays unsigned. */
static IrExpr *constant(Build *b, const TExpr *e) {
  Scalar v = e->as.value;
  return ir_const(b->k, v.type == DT_U64 ? v : scalar_convert(v, e->type.dtype));
}

/* One case a kind of the typed tree. */
IrExpr *build_scalar(Build *b, const TExpr *e) {
  switch (e->kind) {
  case TE_CONST:
    return constant(b, e);
  case TE_VAR:
    return ir_ref(b->k, build_var(e->as.var));
  case TE_OP:
    return operation(b, e);
  case TE_AND:
  case TE_OR:
    return lazy(b, e);
  case TE_COND:
    return choose(b, e);
  case TE_ELEM:
    return element(b, e);
  case TE_SLICE:
    return value_element(b, e);
  case TE_REDUCE:
    return build_reduce_scalar(b, (TExpr *)(uintptr_t)e);
  case TE_APPLY:
  case TE_SEQ:
    return inlined(b, e);
  case TE_ATOMIC:
    return atomic_old(b, e);
  default: /* a tile where the checker promised a scalar: a bug of ours */
    diag_add(b->sink, E0651, e->span, "this value cannot be built: please report it");
    return ir_int(b->k, 0);
  }
}
