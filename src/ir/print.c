/* print.c: the canonical text of a kernel (grammar: text.md).
 *
 * In: a kernel of any level. Out: text that ir_read turns back into a kernel with the same text.
 * Always holds: names are unique; a constant carries its type exactly where the reader, which knows
 * the other operand or the place, would not find it; two spaces a level, one statement a line.
 * Statements are in print_stmt.c, print_tile.c and print_op.c. Tests: tests/unit/check_ir.c.
 */
#include "print.h"

#include <inttypes.h>
#include <math.h>

/* ---------------------------------------------------------------- constants */

/* The shortest text that reads back as this value, also where reading rounds twice.
 * NaN prints as nan whatever its bits: constants have one. */
static void print_float(Str *out, DType t, double x) {
  size_t start = out->n;
  if (t == DT_F64) {
    str_add_f64(out, x);
    return;
  }
  str_add_f32(out, (float)x);
  const char *end;
  if (!isnan(x) && (double)(float)str_read_f64(out->s + start, &end) != x) {
    out->n = start;
    str_add_f64(out, x);
  }
}

/* u64 has values that i64 has not.
 * Integers in decimal. */
static void print_scalar(Str *out, Scalar s) {
  if (s.type == DT_BOOL)
    str_add(out, s.as.u ? "true" : "false");
  else if (dtype_is_float(s.type))
    print_float(out, s.type, s.as.f);
  else if (s.type == DT_U64)
    str_addf(out, "%" PRIu64, s.as.u);
  else
    str_addf(out, "%" PRId64, s.as.i);
}

/* The type that a reader takes for the constants of e where nothing else says.
 * Down to the first leaf: all leaves that decide have one type.
 * i64 for integers, f32 for floats. */
static DType default_type(const IrExpr *e) {
  while (e->op != OP_CONST && e->nargs)
    e = e->arg[e->op == OP_SELECT ? 1 : 0];
  return dtype_is_float(e->type) ? DT_F32 : e->type == DT_BOOL ? DT_BOOL : DT_I64;
}

/* A bool's text is its type; other constants need a suffix unless the place says it.
 * Suffixes are the exception: most constants stand beside something with a type. */
static void print_const(Printer *p, const IrExpr *e, DType want) {
  print_scalar(p->out, e->as.value);
  if (want == DT_NONE)
    want = default_type(e);
  bool obvious = e->type == DT_BOOL || e->type == want;
  if (!obvious)
    str_addf(p->out, ":%s", dtype_name(e->type));
}

/* ---------------------------------------------------------------- expressions */

static IrOperands operands_of(const IrExpr *e);

/* What the text of e says without its place. Constants alone say nothing: `3 + 4` has folded, but
 * `1 // 0` stays. */
static DType said_type(const IrExpr *e) {
  if (e->op == OP_CONST)
    return e->type == DT_BOOL ? DT_BOOL : DT_NONE;
  IrOperands o = operands_of(e);
  return ir_said_type(&o, e->type);
}

static IrOperands operands_of(const IrExpr *e) {
  IrOperands o = {.op = e->op, .n = e->nargs, .left = e->type};
  for (int i = 0; i < e->nargs; i++) {
    o.said[i] = said_type(e->arg[i]);
    o.floats |= o.said[i] == DT_NONE && dtype_is_float(e->arg[i]->type);
  }
  return o;
}

/* What the reader hands to operand i. */
static DType arg_want(const IrExpr *e, int i, DType want) {
  IrOperands o = operands_of(e);
  return ir_operand_want(&o, i, want);
}

static const Infix infix[] = {
    {OP_EQ, "==", 1},  {OP_NE, "!=", 1},      {OP_LT, "<", 1},  {OP_LE, "<=", 1}, {OP_GT, ">", 1},
    {OP_GE, ">=", 1},  {OP_OR, "|", 2},       {OP_XOR, "^", 3}, {OP_AND, "&", 4}, {OP_SHL, "<<", 5},
    {OP_SHR, ">>", 5}, {OP_ADD, "+", 6},      {OP_SUB, "-", 6}, {OP_MUL, "*", 7}, {OP_DIV, "/", 7},
    {OP_MOD, "%", 7},  {OP_FLOORDIV, "//", 7}};

/* The table is short and looked at once a node. */
const Infix *ir_infix_of(OpCode op) {
  for (size_t i = 0; i < sizeof infix / sizeof *infix; i++)
    if (infix[i].op == op)
      return &infix[i];
  return NULL;
}

/* For the reader; the printer and it share one table of operators. */
const Infix *ir_infix_spelled(const char *text, size_t n) {
  for (size_t i = 0; i < sizeof infix / sizeof *infix; i++)
    if (strlen(infix[i].text) == n && memcmp(infix[i].text, text, n) == 0)
      return &infix[i];
  return NULL;
}

static void print_at(Printer *p, const IrExpr *e, DType want, int level);

/* Parentheses only where the operand binds less tightly; comparisons do not chain.
 * Comparisons bind loosest and do not chain. */
static void print_infix(Printer *p, const IrExpr *e, DType want, int level) {
  const Infix *x = ir_infix_of(e->op);
  bool paren = x->level < level;
  str_add(p->out, paren ? "(" : "");
  print_at(p, e->arg[0], arg_want(e, 0, want), x->level + (x->level == 1));
  str_addf(p->out, " %s ", x->text);
  print_at(p, e->arg[1], arg_want(e, 1, want), x->level + 1);
  str_add(p->out, paren ? ")" : "");
}

/* Everything without an operator of its own, by its name in the table.
 * A cast is its type's name. */
static void print_call(Printer *p, const IrExpr *e, DType want) {
  if (e->op == OP_CAST)
    str_addf(p->out, "%s(", dtype_name(e->type));
  else if (e->op == OP_BITCAST)
    str_addf(p->out, "bitcast(%s, ", dtype_name(e->type));
  else
    str_addf(p->out, "%s(", op_info(e->op)->name);
  for (int i = 0; i < e->nargs; i++) {
    str_add(p->out, i ? ", " : "");
    print_at(p, e->arg[i], arg_want(e, i, want), 0);
  }
  str_addc(p->out, ')');
}

/* `level`: how tightly the text around it binds; 0 where nothing does.
 * The recursion is as deep as the expression; its size is bounded. */
static void print_at(Printer *p, const IrExpr *e, DType want, int level) {
  if (e->op == OP_CONST) {
    print_const(p, e, want);
  } else if (e->op == OP_VAR) {
    const IrVar *v = e->as.var;
    if (v->kind == IRV_STRIDE)
      str_addf(p->out, "%s.stride%d", ir_buffer_shown(p, v->buf), v->axis);
    else
      str_add(p->out, ir_var_shown(p, v));
  } else if (e->op == OP_NEG || e->op == OP_NOT) {
    str_add(p->out, e->op == OP_NEG ? "-" : "~");
    print_at(p, e->arg[0], arg_want(e, 0, want), 8);
  } else if (ir_infix_of(e->op)) {
    print_infix(p, e, want, level);
  } else {
    print_call(p, e, want);
  }
}

/* From the outside nothing binds: no parentheses around the whole. */
void ir_put_expr(Printer *p, const IrExpr *e, DType want) {
  print_at(p, e, want, 0);
}

/* Alone, for messages: as in a place that expects no type.
 * Names are those that the whole kernel would print. */
void ir_print_expr(const IrKernel *k, const IrExpr *e, Str *out) {
  Printer p = {.k = k, .out = out, .names = ir_names_apart(out->arena, k)};
  print_at(&p, e, DT_NONE, 0);
}

/* ---------------------------------------------------------------- the signature */

/* Mirrors ir_read_index_type. */
DType ir_put_index_type(const Printer *p) {
  return p->k->level == IR_THREAD ? DT_I32 : DT_I64;
}

void ir_put_exprs(Printer *p, IrExpr *const *e, int n, DType want) {
  for (int i = 0; i < n; i++) {
    str_add(p->out, i ? ", " : "");
    print_at(p, e[i], want, 0);
  }
}

/* The extents of a parameter, in which names may be symbolic. */
void ir_put_type(Printer *p, const IrBuffer *b) {
  str_addf(p->out, "%s[", dtype_name(b->dtype));
  ir_put_exprs(p, b->extent, b->rank, DT_I64);
  str_addc(p->out, ']');
}

/* Which axes have a stride of their own: ` strided` is all of them.
 * `strided`, `strided(0, 2)` */
static void print_strided(Printer *p, const IrBuffer *b) {
  int n = 0;
  for (int i = 0; i < b->rank; i++)
    n += b->stride[i] != NULL;
  if (n == 0)
    return;
  str_add(p->out, " strided");
  const char *before = "(";
  for (int i = 0; i < b->rank && n < b->rank; i++) {
    if (!b->stride[i])
      continue;
    str_addf(p->out, "%s%d", before, i);
    before = ", ";
  }
  str_add(p->out, n < b->rank ? ")" : "");
}

/* `name: type`, what its strides are, its initial value.
 * `A: inout f16[M, K] strided = 0` */
static void print_param(Printer *p, const IrParam *x) {
  if (x->var) {
    str_addf(p->out, "%s: %s", ir_var_shown(p, x->var), dtype_name(x->var->type));
    return;
  }
  const IrBuffer *b = x->buf;
  str_addf(p->out, "%s: %s", ir_buffer_shown(p, b), b->role == IRR_INOUT ? "inout " : "");
  ir_put_type(p, b);
  print_strided(p, b);
  str_add(p->out, b->unchecked ? " unchecked" : "");
  if (b->init) {
    str_add(p->out, " = ");
    print_at(p, b->init, b->dtype, 0);
  }
}

/* Nothing at all where the kernel has no parameter of that sort.
 * `take` picks the list. */
static void print_params(Printer *p, const char *open, bool (*take)(const IrParam *x)) {
  const IrKernel *k = p->k;
  const char *before = open;
  for (size_t i = 0; i < k->params.n; i++) {
    if (!take(&k->params.v[i]))
      continue;
    str_add(p->out, before);
    print_param(p, &k->params.v[i]);
    before = ", ";
  }
  if (before != open)
    str_addc(p->out, ')');
}

/* The three lists of a signature. */
static bool takes_scratch(const IrParam *x) {
  return x->buf && x->buf->role == IRR_SCRATCH;
}
static bool takes_output(const IrParam *x) {
  return x->buf && x->buf->role == IRR_OUT;
}
static bool takes_input(const IrParam *x) {
  return !takes_output(x) && !takes_scratch(x);
}

/* Inputs always have parentheses, the other lists only where they hold something.
 * `kernel NAME level(inputs) -> (outputs) scratch (buffers) {` */
static void print_signature(Printer *p) {
  static const char *const levels[] = {"tile", "scheduled", "thread"};
  str_addf(p->out, "kernel %s %s", p->k->name, levels[p->k->level]);
  size_t before = p->out->n;
  print_params(p, "(", takes_input);
  if (p->out->n == before)
    str_add(p->out, "()");
  print_params(p, " -> (", takes_output);
  print_params(p, " scratch (", takes_scratch);
  str_add(p->out, " {\n");
}

/* ---------------------------------------------------------------- the head of the body */

/* The innermost stride is implied and so not written.
 * `tmap ta = A dim [K, M] stride [K*2] box [64, 128] swizzle 128` */
static void print_tmap(Printer *p, const IrTmap *t) {
  str_addf(p->out, "  tmap %s = %s dim [", p->names.tmap[t->id], ir_buffer_shown(p, t->buf));
  ir_put_exprs(p, t->dim, t->rank, DT_I64);
  str_add(p->out, "] stride [");
  ir_put_exprs(p, t->stride + 1, t->rank - 1, DT_I64);
  str_add(p->out, "] box [");
  for (int i = 0; i < t->rank; i++)
    str_addf(p->out, "%s%" PRId64, i ? ", " : "", t->box[i]);
  str_addf(p->out, "] swizzle %" PRId64 "\n", t->swizzle);
}

/* Nothing where the kernel is one block.
 * `grid bx, by = ceildiv(N, 128), ceildiv(M, 128)` */
static void print_grid(Printer *p) {
  const IrKernel *k = p->k;
  if (k->grid_rank == 0)
    return;
  str_add(p->out, "  grid ");
  for (int i = 0; i < k->grid_rank; i++) {
    const IrVar *v = k->grid_index[i];
    str_addf(p->out, "%s%s", i ? ", " : "", ir_var_shown(p, v));
    if (v->type != DT_I64)
      str_addf(p->out, ": %s", dtype_name(v->type));
  }
  str_add(p->out, " = ");
  ir_put_exprs(p, k->grid, k->grid_rank, DT_I64);
  str_addc(p->out, '\n');
}

/* Where the launch's numbers stand: each on a line, left out where it is the default.
 * Defaults are left out, and read back as such. */
static void print_launch(Printer *p) {
  const IrKernel *k = p->k;
  Str *out = p->out;
  if (k->threads)
    str_addf(out, "  threads %d\n", k->threads);
  if (k->shared_bytes)
    str_addf(out, "  shared_bytes %" PRId64 "\n", k->shared_bytes);
  if (k->cluster[0] > 1 || k->cluster[1] > 1 || k->cluster[2] > 1)
    str_addf(out, "  cluster %d, %d, %d\n", k->cluster[0], k->cluster[1], k->cluster[2]);
  if (k->raster)
    str_addf(out, "  raster %d\n", k->raster);
  if (k->min_blocks)
    str_addf(out, "  min_blocks %d\n", k->min_blocks);
  str_add(out, k->cooperative ? "  cooperative\n" : "");
  str_add(out, k->resident ? "  resident\n" : "");
}

/* Scratch may use what `pre` computes, and the reader waits for it: `pre` stands first.
 * Tensor maps may map scratch, so they come after what declares it. */
static void print_head(Printer *p) {
  const IrKernel *k = p->k;
  str_add(p->out, k->exact ? "  @exact\n" : "");
  str_add(p->out, k->unchecked ? "  @unchecked\n" : "");
  if (k->pre.n) {
    str_add(p->out, "  pre {\n");
    ir_put_block(p, &k->pre, 2);
    str_add(p->out, "  }\n");
  }
  for (size_t i = 0; i < k->tmaps.n; i++)
    print_tmap(p, k->tmaps.v[i]);
  print_grid(p);
  print_launch(p);
  for (size_t i = 0; i < k->sites.n; i++) {
    bool known = k->sites.v[i].code != E0478;
    str_addf(p->out, "  site %s%s", known ? diag_name(k->sites.v[i].code) : "", known ? " " : "");
    ir_put_string(p, k->sites.v[i].text);
    str_addc(p->out, '\n');
  }
}

/* An empty line parts the head from the body, where there is a head.
 * Nothing of the kernel changes. */
void ir_print(const IrKernel *k, Str *out) {
  Printer p = {.k = k, .out = out, .names = ir_names_apart(out->arena, k)};
  print_signature(&p);
  size_t before = out->n;
  print_head(&p);
  if (out->n > before && k->body.n)
    str_addc(out, '\n');
  ir_put_block(&p, &k->body, 1);
  str_add(out, "}\n");
}
