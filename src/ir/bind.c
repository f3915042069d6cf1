/* bind.c: what a launch binds: extents from shapes, strides, `pre`, the grid.
 *
 * In: a kernel, the shapes and scalars of its arguments. Out: the value of every variable that the
 * host knows, the shapes of the outputs, the number of blocks; or errors that name the arguments.
 * Always holds: all arithmetic is op_eval's; an extent that is an expression is solved for one
 * unbound name to the first power. Tests: tests/unit/check_ir.c.
 */
#include "impl.h"

#include <inttypes.h>

typedef struct Bind {
  const IrKernel *k;
  IrBinding *b;
  DiagSink *sink;
  Arena *arena;
  bool *known;         /* by variable id */
  const IrBuffer **by; /* by variable id: the parameter that bound it … */
  int *axis;           /* … and which of its axes */
  bool ok;
} Bind;

/* Everything unbound: values of their types, tensors without data.
 * In the caller's arena. */
IrBinding *ir_binding_new(Arena *a, const IrKernel *k) {
  IrBinding *b = ARENA_NEW(a, IrBinding);
  b->value = ARENA_ARRAY(a, Scalar, k->vars.n);
  b->tensor = ARENA_ARRAY(a, IrTensorArg, k->buffers.n);
  for (size_t i = 0; i < k->vars.n; i++)
    b->value[i].type = k->vars.v[i]->type;
  for (size_t i = 0; i < k->buffers.n; i++)
    b->tensor[i].dtype = k->buffers.v[i]->dtype;
  return b;
}

/* ---------------------------------------------------------------- host expressions */

typedef struct HostEval {
  const IrBinding *b;
  const bool *known; /* NULL: everything is bound */
  int budget;        /* operations: a hostile expression with shared parts is cut off */
} HostEval;

/* One result; the strips of ops do the arithmetic, as on every other level.
 * A division by zero is false, not a crash. */
static bool host_eval(HostEval *h, const IrExpr *e, Scalar *out) {
  if (e->op == OP_CONST) {
    *out = e->as.value;
    return true;
  }
  if (e->op == OP_VAR) {
    *out = h->b->value[e->as.var->id];
    return !h->known || h->known[e->as.var->id];
  }
  Scalar args[4];
  if (h->budget-- <= 0)
    return false;
  for (int i = 0; i < e->nargs; i++)
    if (!host_eval(h, e->arg[i], &args[i]))
      return false;
  return e->nargs > 0 && op_eval(e->op, e->type, args, e->nargs, out);
}

enum { HOST_BUDGET = 100000 };

/* For the launcher: extents of tensor maps, shared bytes that depend on arguments, and the like.
 * The budget is far beyond what any kernel of ours needs. */
bool ir_host_eval(const IrExpr *e, const IrBinding *b, Scalar *out) {
  HostEval h = {b, NULL, HOST_BUDGET};
  return host_eval(&h, e, out);
}

bool ir_known_eval(const IrExpr *e, const IrBinding *b, const bool *known, Scalar *out) {
  HostEval h = {b, known, HOST_BUDGET};
  return host_eval(&h, e, out);
}

/* The value of an integer expression whose variables are all bound so far.
 * False also where evaluating faults. */
static bool known_value(const Bind *x, const IrExpr *e, int64_t *out) {
  HostEval h = {x->b, x->known, HOST_BUDGET};
  Scalar s;
  if (!host_eval(&h, e, &s))
    return false;
  *out = s.as.i;
  return true;
}

/* ---------------------------------------------------------------- solving for one name */

/* e as scale * x + offset of its one unknown x (NULL: none). False where it is not so, or where the
 * numbers do not fit. */
typedef struct Linear {
  IrVar *x;
  int64_t scale, offset;
} Linear;

static bool linear(const Bind *x, const IrExpr *e, Linear *out, int depth);

/* a + b or a - b, where at most one unknown occurs in both together.
 * Overflow means that it cannot be solved. */
static bool linear_sum(Linear a, Linear b, bool minus, Linear *out) {
  if (a.x && b.x && a.x != b.x)
    return false;
  *out = (Linear){.x = a.x ? a.x : b.x};
  if (minus)
    return !__builtin_sub_overflow(a.scale, b.scale, &out->scale) &&
           !__builtin_sub_overflow(a.offset, b.offset, &out->offset);
  return !__builtin_add_overflow(a.scale, b.scale, &out->scale) &&
         !__builtin_add_overflow(a.offset, b.offset, &out->offset);
}

/* a * b, where at most one of them has the unknown: to the first power only.
 * The factor may be negative; the solution may not. */
static bool linear_product(Linear a, Linear b, Linear *out) {
  if (a.x && b.x)
    return false;
  if (b.x) {
    Linear swap = a;
    a = b;
    b = swap;
  }
  *out = (Linear){.x = a.x};
  return !__builtin_mul_overflow(a.scale, b.offset, &out->scale) &&
         !__builtin_mul_overflow(a.offset, b.offset, &out->offset);
}

/* Casts between integers keep the form: extents are far below the ends of their types.
 * +, -, *, negation, casts: all else is not linear. */
static bool linear_op(const Bind *x, const IrExpr *e, Linear *out, int depth) {
  Linear a, b, zero = {0};
  if (!linear(x, e->arg[0], &a, depth))
    return false;
  if (e->op == OP_NEG)
    return linear_sum(zero, a, true, out);
  if (e->op == OP_CAST) {
    *out = a;
    return dtype_is_int(e->type) && dtype_is_int(e->arg[0]->type);
  }
  if (!linear(x, e->arg[1], &b, depth))
    return false;
  return e->op == OP_MUL ? linear_product(a, b, out) : linear_sum(a, b, e->op == OP_SUB, out);
}

static bool linear(const Bind *x, const IrExpr *e, Linear *out, int depth) {
  int64_t value;
  if (depth > 50)
    return false;
  if (known_value(x, e, &value)) {
    *out = (Linear){.offset = value};
    return true;
  }
  if (e->op == OP_VAR) {
    *out = (Linear){e->as.var, 1, 0};
    return e->as.var->kind == IRV_EXTENT;
  }
  bool sum = e->op == OP_ADD || e->op == OP_SUB || e->op == OP_MUL || e->op == OP_NEG;
  return (sum || e->op == OP_CAST) && linear_op(x, e, out, depth + 1);
}

/* ---------------------------------------------------------------- messages */

/* An expression as the reader of a message knows it.
 * In the sink's arena: messages outlive the binding. */
static const char *expr_text(const Bind *x, const IrExpr *e) {
  Str s = str_new(x->sink->arena);
  while (e->op == OP_CAST) /* the program does not say i64(n) */
    e = e->arg[0];
  ir_print_expr(x->k, e, &s);
  return str_text(&s);
}

/* Every error of binding passes here, so that one flag says whether to go on. */
static Diag *fail(Bind *x, DiagCode code, Span at, const char *text) {
  x->ok = false;
  return diag_add(x->sink, code, at, "%s", text);
}

/* "extent K of matmul is 640 by axis 1 of A, but axis 0 of B is 512"
 * Three forms: two arguments disagree, an expression has another value, or no extent makes it so.
 * */
static void mismatch(Bind *x, const IrBuffer *buf, int axis, int64_t has) {
  const IrExpr *e = buf->extent[axis];
  int64_t want = 0;
  bool valued = known_value(x, e, &want);
  const IrVar *v = e->op == OP_VAR ? e->as.var : NULL;
  const IrBuffer *by = v ? x->by[v->id] : NULL;
  Arena *a = x->sink->arena;
  const char *text;
  if (by)
    text = arena_printf(a,
                        "extent %s of `%s` is %" PRId64 " by axis %d of `%s`, but axis %d of `%s` "
                        "has %" PRId64,
                        v->name, x->k->name, want, x->axis[v->id], by->name, axis, buf->name, has);
  else if (ir_is_const(e, &want))
    text = arena_printf(a, "axis %d of `%s` has %" PRId64 ", but `%s` takes %" PRId64, axis,
                        buf->name, has, x->k->name, want);
  else if (valued)
    text = arena_printf(a, "axis %d of `%s` has %" PRId64 ", but `%s` takes %s, which is %" PRId64,
                        axis, buf->name, has, x->k->name, expr_text(x, e), want);
  else
    text = arena_printf(a, "axis %d of `%s` has %" PRId64 ", but no extent makes %s that", axis,
                        buf->name, has, expr_text(x, e));
  fail(x, E0380, buf->span, text);
}

/* ---------------------------------------------------------------- extents */

/* From here on the name has a value, and messages know who gave it. */
static void set_extent(Bind *x, const IrVar *v, const IrBuffer *buf, int axis, int64_t value) {
  x->b->value[v->id] = (Scalar){.type = v->type, .as.i = value};
  x->known[v->id] = true;
  x->by[v->id] = buf;
  x->axis[v->id] = axis;
}

/* Solves one axis for its one unknown; true if that was possible.
 * An extent that is bound already is checked later, with all others. */
static bool solve(Bind *x, const IrBuffer *buf, int axis) {
  Linear l;
  int64_t value, has = x->b->tensor[buf->id].extent[axis];
  if (known_value(x, buf->extent[axis], &value))
    return false;
  if (!linear(x, buf->extent[axis], &l, 0) || !l.x || l.scale == 0)
    return false;
  if (__builtin_sub_overflow(has, l.offset, &value) || value % l.scale != 0 ||
      value / l.scale < 0 || value / l.scale > IR_MAX_EXTENT) {
    mismatch(x, buf, axis, has);
    return false;
  }
  set_extent(x, l.x, buf, axis, value / l.scale);
  return true;
}

/* Whether the caller brings the tensor, so that its shape binds names. */
static bool is_given(const IrParam *p) {
  return p->buf && (p->buf->role == IRR_IN || p->buf->role == IRR_INOUT);
}

/* Plain names first, so that messages speak of those; then expressions, until nothing moves.
 * A round that binds nothing ends it. */
static void solve_extents(Bind *x) {
  for (int round = 0; round < 2; round++) {
    bool moved;
    do {
      moved = false;
      for (size_t i = 0; i < x->k->params.n && x->ok; i++) {
        const IrParam *p = &x->k->params.v[i];
        for (int axis = 0; is_given(p) && axis < p->buf->rank; axis++)
          if (round == 1 || p->buf->extent[axis]->op == OP_VAR)
            moved |= solve(x, p->buf, axis);
      }
    } while (moved && x->ok);
  }
}

/* Once all names are bound, every axis must have the value that its expression gives. */
static void check_extents(Bind *x, const IrBuffer *buf) {
  const IrTensorArg *t = &x->b->tensor[buf->id];
  for (int axis = 0; axis < buf->rank; axis++) {
    int64_t value;
    if (!known_value(x, buf->extent[axis], &value))
      fail(x, E0381, buf->span,
           arena_printf(x->sink->arena, "axis %d of `%s`: %s is bound by no argument", axis,
                        buf->name, expr_text(x, buf->extent[axis])));
    else if (value != t->extent[axis])
      mismatch(x, buf, axis, t->extent[axis]);
  }
}

/* ---------------------------------------------------------------- outputs and strides */

/* Elements of a shape; -1 where that many bytes do not fit.
 * An empty shape has no elements, however large its other axes. */
static int64_t shape_count(const int64_t *extent, int rank, size_t size) {
  int64_t n = 1;
  for (int i = 0; i < rank; i++)
    if (extent[i] == 0)
      return 0;
  for (int i = 0; i < rank; i++)
    if (__builtin_mul_overflow(n, extent[i], &n))
      return -1;
  int64_t bytes;
  return __builtin_mul_overflow(n, (int64_t)size, &bytes) ? -1 : n;
}

/* An output that the caller brings (`out = c`) must have the shape; another gets it here.
 * Row-major strides for what the caller will allocate. */
static void output_shape(Bind *x, const IrBuffer *buf) {
  IrTensorArg *t = &x->b->tensor[buf->id];
  bool given = t->data != NULL;
  Arena *a = x->sink->arena;
  for (int axis = 0; axis < buf->rank; axis++) {
    int64_t value = 0;
    if (!known_value(x, buf->extent[axis], &value))
      fail(x, E0381, buf->span,
           arena_printf(a, "axis %d of output `%s`: %s is bound by no argument, or divides by zero",
                        axis, buf->name, expr_text(x, buf->extent[axis])));
    else if (value < 0 || value > IR_MAX_EXTENT)
      fail(x, E0383, buf->span,
           arena_printf(a,
                        "axis %d of output `%s`: %s is %" PRId64 "; extents lie between 0 and 2^48",
                        axis, buf->name, expr_text(x, buf->extent[axis]), value));
    else if (given && value != t->extent[axis])
      mismatch(x, buf, axis, t->extent[axis]);
    t->extent[axis] = value;
  }
  t->rank = buf->rank;
  t->dtype = buf->dtype;
  if (!x->ok || given)
    return;
  if (shape_count(t->extent, t->rank, dtype_size(t->dtype)) < 0) {
    fail(x, E0383, buf->span,
         arena_printf(a, "output `%s` would have more elements than memory can hold", buf->name));
    return;
  }
  for (int64_t axis = t->rank - 1, n = 1; axis >= 0; axis--) {
    t->stride[axis] = n;
    n *= t->extent[axis] ? t->extent[axis] : 1;
  }
}

/* Axes without a stride variable must lie as in a row-major, contiguous tensor.
 * A stride along an axis of one element is never used. */
static void bind_strides(Bind *x, const IrBuffer *buf) {
  const IrTensorArg *t = &x->b->tensor[buf->id];
  bool empty = shape_count(t->extent, t->rank, 1) == 0;
  int64_t n = 1;
  for (int axis = buf->rank - 1; axis >= 0; axis--) {
    const IrVar *v = buf->stride[axis];
    if (v) {
      x->b->value[v->id] = (Scalar){.type = v->type, .as.i = t->stride[axis]};
      x->known[v->id] = true;
    } else if (!empty && t->extent[axis] > 1 && t->stride[axis] != n) {
      fail(x, E0384, buf->span,
           arena_printf(x->sink->arena,
                        "`%s` of `%s` must be contiguous: the stride of axis %d is "
                        "%" PRId64 ", not %" PRId64,
                        buf->name, x->k->name, axis, t->stride[axis], n));
      return;
    }
    n *= t->extent[axis];
  }
}

/* ---------------------------------------------------------------- pre and grid */

/* In order, since a later one may use an earlier one.
 * A value that cannot be computed names its expression. */
static bool bind_pre(Bind *x) {
  for (size_t i = 0; i < x->k->pre.n; i++) {
    const IrStmt *s = x->k->pre.v[i];
    const IrVar *v = s->as.let.var;
    HostEval h = {x->b, x->known, HOST_BUDGET};
    if (!host_eval(&h, s->as.let.value, &x->b->value[v->id])) {
      fail(x, E0385, s->span,
           arena_printf(x->sink->arena, "`%s` of `%s` cannot be computed: %s divides by zero",
                        v->name, x->k->name, expr_text(x, s->as.let.value)));
      return false;
    }
    x->known[v->id] = true;
  }
  return true;
}

/* Why an axis is none; a number that was written is said once. */
static const char *grid_fault(const Bind *x, const IrExpr *e, bool known, int64_t n) {
  Arena *a = x->sink->arena;
  const char *text = expr_text(x, e);
  if (!known)
    return arena_printf(a, "%s divides by zero", text);
  const char *why = n < 0 ? "which is negative" : "more than 2147483647";
  int64_t same;
  return ir_is_const(e, &same) ? arena_printf(a, "%s, %s", text, why)
                               : arena_printf(a, "%s is %" PRId64 ", %s", text, n, why);
}

/* An axis of zero is right: such a grid runs nothing. 2147483647 is the hardware's limit on the
 * first axis; all blocks together are counted by i64. */
static void bind_grid(Bind *x) {
  const IrKernel *k = x->k;
  int64_t all = 1;
  for (int i = 0; i < 3; i++)
    x->b->grid[i] = 1;
  for (int i = 0; i < k->grid_rank; i++) {
    int64_t n = 0;
    bool known = known_value(x, k->grid[i], &n);
    if (!known || n < 0 || n > INT32_MAX)
      fail(x, E0385, k->span,
           arena_printf(x->sink->arena, "axis %d of the grid of `%s`: %s", i, k->name,
                        grid_fault(x, k->grid[i], known, n)));
    x->b->grid[i] = n;
  }
  for (int i = 0; i < k->grid_rank && x->ok; i++)
    if (__builtin_mul_overflow(all, x->b->grid[i], &all))
      fail(x, E0385, k->span,
           arena_printf(x->sink->arena,
                        "the grid of `%s` has %" PRId64 " x %" PRId64 " x %" PRId64
                        " blocks, more than 9223372036854775807",
                        k->name, x->b->grid[0], x->b->grid[1], x->b->grid[2]));
}

/* ---------------------------------------------------------------- all of it */

/* What needs no shape: scalar parameters (converted to their types) and the target.
 * A number of the host has been checked to fit before. */
static void know_scalars(Bind *x, int64_t sms) {
  for (size_t i = 0; i < x->k->vars.n; i++) {
    const IrVar *v = x->k->vars.v[i];
    if (v->kind == IRV_PARAM) {
      x->b->value[i] = scalar_convert(x->b->value[i], v->type);
      x->known[i] = true;
    } else if (v->kind == IRV_SMS) {
      x->b->value[i] = (Scalar){.type = DT_I64, .as.i = sms};
      x->known[i] = true;
    }
  }
}

/* Shapes and strides of what the launch makes: outputs or scratch.
 * In the order of the signature. */
static void bind_made(Bind *x, IrRole role) {
  for (size_t i = 0; i < x->k->params.n && x->ok; i++) {
    const IrBuffer *buf = x->k->params.v[i].buf;
    if (!buf || buf->role != role)
      continue;
    output_shape(x, buf);
    if (x->ok)
      bind_strides(x, buf);
  }
}

/* The order matters: shapes before names, names before what is computed from them, `pre` before
 * scratch and the grid, which may use it. */
static void bind_all(Bind *x, int64_t sms) {
  const IrKernel *k = x->k;
  know_scalars(x, sms);
  solve_extents(x);
  for (size_t i = 0; i < k->params.n && x->ok; i++)
    if (is_given(&k->params.v[i]))
      check_extents(x, k->params.v[i].buf);
  bind_made(x, IRR_OUT);
  for (size_t i = 0; i < k->params.n && x->ok; i++)
    if (is_given(&k->params.v[i]))
      bind_strides(x, k->params.v[i].buf);
  if (!x->ok || !bind_pre(x))
    return;
  bind_made(x, IRR_SCRATCH); /* its extents may use what `pre` computes */
  if (x->ok)
    bind_grid(x);
}

/* Scratch memory of this call only; what is bound stays in the caller's binding. */
bool ir_bind(const IrKernel *k, IrBinding *b, int64_t sms, DiagSink *sink) {
  Arena *a = arena_new(arena_guard(k->arena), "bind");
  Bind x = {.k = k, .b = b, .sink = sink, .arena = a, .ok = true};
  x.known = ARENA_ARRAY(a, bool, k->vars.n);
  x.by = ARENA_ARRAY(a, const IrBuffer *, k->vars.n);
  x.axis = ARENA_ARRAY(a, int, k->vars.n);
  bind_all(&x, sms);
  arena_free(a);
  return x.ok;
}
