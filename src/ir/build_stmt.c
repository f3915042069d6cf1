/* build_stmt.c: statements of the typed tree to statements of the IR, one for one where they can
 * be.
 *
 * Every statement carries the author's span: diagnostics, the `.tile` lines of the CUDA text and
 * the stepper show it. Tests: tests/lang (goldens .ir), tests/unit/check_sema.c.
 */
#include "build_impl.h"

/* The statements of a nested block. */
static void block(Build *b, const TStmts *s, IrBlock *into) {
  IrBlock *out = b->out;
  b->out = into;
  build_stmts(b, s);
  b->out = out;
}

/* ---------------------------------------------------------------- names */

/* Initial value first: the name is not visible in it. The typed tree's place is the name; what
 * happens there is in the value too. */
static void let(Build *b, const TStmt *s) {
  Span value_at = s->as.let.value->span;
  if (value_at.file == b->span.file && value_at.end > b->span.end)
    b->span.end = value_at.end;
  TVar *v = s->as.let.var;
  IrExpr *value = build_scalar(b, s->as.let.value);
  v->ir = build_let(b, v->kind == TV_VAR ? IRV_MUT : IRV_LET, v->name, value);
}

/* The new value may use the old one. */
static void set(Build *b, const TStmt *s) {
  IrExpr *value = build_scalar(b, s->as.let.value);
  IrStmt *t = build_add(b, IRK_SET);
  t->as.let.var = build_var(s->as.let.var);
  t->as.let.value = value;
}

/* Kept only for what it may do: loads and atomics are there already, a fault needs a LET. */
static void evaluate(Build *b, const TStmt *s) {
  IrExpr *value = build_scalar(b, s->as.let.value);
  /* Loads and atomics are statements already; what is left is a division. */
  if (value->may_fault)
    build_let(b, IRV_LET, "unused", value);
}

/* The map's indices are variables of the layout alone. */
static IrLayout *layout(Build *b, const TBuf *t) {
  static const IrLayoutKind kinds[] = {[TL_NONE] = IRL_ROWS,
                                       [TL_SWIZZLE] = IRL_SWIZZLE,
                                       [TL_PADDED] = IRL_PADDED,
                                       [TL_MAP] = IRL_MAP};
  IrLayout *l = ARENA_NEW(b->k->arena, IrLayout);
  l->kind = kinds[t->layout];
  l->amount = t->layout_amount;
  if (t->layout != TL_MAP)
    return l;
  for (int i = 0; i < t->rank; i++) {
    TVar *v = t->layout_index[i];
    l->index[i] = ir_var(b->k, IRV_INDEX, v->name, DT_I64);
    l->index[i]->lo = v->lo;
    l->index[i]->hi = v->hi;
    v->ir = l->index[i];
  }
  l->offset = build_scalar(b, t->layout_map);
  return l;
}

/* A tile in a loop is new in each iteration: its ALLOC stands there. */
static void alloc(Build *b, const TStmt *s) {
  static const IrSpace spaces[] = {[TB_GLOBAL] = IRS_GLOBAL,
                                   [TB_SHARED] = IRS_SHARED,
                                   [TB_FRAGMENT] = IRS_FRAGMENT,
                                   [TB_LOCAL] = IRS_LOCAL};
  TBuf *t = s->as.alloc;
  IrBuffer *buf = build_tile(b, spaces[t->space], t->name, t->dtype, t->rank, t->extent);
  t->ir = buf;
  buf->arrivals = t->barrier ? t->arrivals : 0;
  if (t->layout != TL_NONE)
    buf->layout = layout(b, t);
}

/* ---------------------------------------------------------------- writes */

/* The place is found before the value. */
static void assign(Build *b, const TStmt *s) {
  IrRegion dst = build_region(b, &s->as.assign.dst);
  build_assign(b, &dst, s->as.assign.value);
}

/* Index, then value, then the store. */
static void store(Build *b, const TStmt *s) {
  IrAccess at = build_access(b, &s->as.assign.dst);
  IrExpr *value = build_scalar(b, s->as.assign.value);
  IrStmt *t = build_add(b, IRK_STORE);
  t->as.access.at = at;
  t->as.access.value = value;
}

/* For copies within one buffer that may overlap. */
static IrRegion through_temporary(Build *b, const IrRegion *src) {
  int64_t extent[SEMA_MAX_RANK];
  int rank = ir_region_rank(src);
  for (int i = 0; i < rank; i++)
    extent[i] = ir_region_extent(src, i);
  IrBuffer *t = build_tile(b, IRS_FRAGMENT, "tmp", src->buf->dtype, rank, extent);
  IrRegion r = ir_whole(b->k, t);
  IrStmt *c = build_add(b, IRK_COPY);
  c->as.copy.dst = r;
  c->as.copy.src = *src;
  return r;
}

/* A computed source goes to a tile as an assignment, to a tensor through a temporary. */
static void copy(Build *b, const TStmt *s) {
  IrRegion dst = build_region(b, &s->as.copy.dst), src;
  IrExpr *pad = s->as.copy.pad ? build_scalar(b, s->as.copy.pad) : NULL;
  IrAccess signal = {0};
  if (s->as.copy.signal.buf)
    signal = build_access(b, &s->as.copy.signal);
  /* Between tiles a copy of an expression is an assignment. */
  if (s->as.copy.value && dst.buf->space != IRS_GLOBAL) {
    build_assign(b, &dst, s->as.copy.value);
    return;
  }
  if (s->as.copy.value)
    src = build_operand(b, s->as.copy.value, dst.buf);
  else
    src = build_region(b, &s->as.copy.src);
  if (src.buf == dst.buf) /* the source is read whole before the destination is written */
    src = through_temporary(b, &src);
  IrStmt *t = build_add(b, IRK_COPY);
  t->as.copy.dst = dst;
  t->as.copy.src = src;
  t->as.copy.pad = pad;
  if (s->as.copy.signal.buf)
    t->as.copy.signal = signal;
}

/* Operands that read the accumulator's buffer are kept apart first. */
static void dot(Build *b, const TStmt *s) {
  static const IrPolicy policies[] = {[TP_AUTO] = IRG_AUTO,
                                      [TP_ROWS] = IRG_ROWS,
                                      [TP_COLUMNS] = IRG_COLUMNS,
                                      [TP_SQUARE] = IRG_SQUARE};
  IrRegion c = build_region(b, &s->as.dot.c);
  IrRegion x = build_operand(b, s->as.dot.a, c.buf), y = build_operand(b, s->as.dot.b, c.buf);
  IrStmt *t = build_add(b, IRK_DOT);
  t->as.dot = (IrDot){.a = x,
                      .b = y,
                      .c = c,
                      .accumulate = s->as.dot.accumulate,
                      .policy = policies[s->as.dot.policy],
                      .promote = s->as.dot.promote,
                      .tf32 = s->as.dot.tf32};
}

/* A computed source is made first. */
static void atomic_tile(Build *b, const TStmt *s) {
  IrRegion dst = build_region(b, &s->as.copy.dst);
  IrRegion src = build_operand(b, s->as.copy.value, dst.buf);
  IrStmt *t = build_add(b, IRK_ATOMIC);
  t->as.atomic.op = s->as.copy.op;
  t->as.atomic.region = true;
  t->as.atomic.dst = dst;
  t->as.atomic.src = src;
}

/* ---------------------------------------------------------------- control */

/* With what the checker knows of its range. */
static IrVar *index_var(Build *b, TVar *v) {
  IrVar *x = ir_var(b->k, IRV_INDEX, v->name, v->type);
  x->lo = v->lo;
  x->hi = v->hi;
  v->ir = x;
  return x;
}

/* Extents are evaluated once, before. */
static void parallel(Build *b, const TStmt *s) {
  IrExpr *extent[4];
  for (int i = 0; i < s->as.loop.naxes; i++)
    extent[i] = build_scalar(b, s->as.loop.hi[i]);
  IrStmt *t = build_add(b, IRK_MAP);
  IrMap *m = &t->as.map;
  m->naxes = s->as.loop.naxes;
  m->parallel = true;
  for (int i = 0; i < m->naxes; i++) {
    m->index[i] = index_var(b, s->as.loop.index[i]);
    m->extent[i] = extent[i];
  }
  /* From here on a statement is one iteration's. */
  b->parallel++;
  block(b, &s->as.loop.body, &m->body);
  b->parallel--;
}

/* Bounds are evaluated once, before, in the order of writing. */
static void loop(Build *b, const TStmt *s) {
  static const IrLoop kinds[] = {[TF_RANGE] = IRF_SERIAL,          [TF_UNROLL] = IRF_UNROLL,
                                 [TF_VECTORIZED] = IRF_VECTORIZED, [TF_PIPELINED] = IRF_PIPELINED,
                                 [TF_PERSISTENT] = IRF_PERSISTENT, [TF_PARALLEL] = IRF_SERIAL};
  if (s->as.loop.loop == TF_PARALLEL) {
    parallel(b, s);
    return;
  }
  IrExpr *lo = build_scalar(b, s->as.loop.lo), *hi = build_scalar(b, s->as.loop.hi[0]);
  IrExpr *step = build_scalar(b, s->as.loop.step);
  IrStmt *t = build_add(b, IRK_FOR);
  t->as.loop.index = index_var(b, s->as.loop.index[0]);
  t->as.loop.lo = lo;
  t->as.loop.hi = hi;
  t->as.loop.step = step;
  t->as.loop.step_span = s->as.loop.step->span;
  t->as.loop.loop = kinds[s->as.loop.loop];
  t->as.loop.stages = s->as.loop.stages;
  block(b, &s->as.loop.body, &t->as.loop.body);
}

/* What the condition needs stands in its block and runs again before each iteration. */
static void while_(Build *b, const TStmt *s) {
  IrStmt *t = build_add(b, IRK_WHILE);
  IrBlock *out = b->out;
  b->out = &t->as.while_.cond_block;
  t->as.while_.cond = build_scalar(b, s->as.branch.cond);
  b->out = out;
  block(b, &s->as.branch.then, &t->as.while_.body);
}

/* The condition's statements stand before the IF. */
static void if_(Build *b, const TStmt *s) {
  IrExpr *cond = build_scalar(b, s->as.branch.cond);
  IrStmt *t = build_add(b, IRK_IF);
  t->as.if_.cond = cond;
  block(b, &s->as.branch.then, &t->as.if_.then);
  block(b, &s->as.branch.other, &t->as.if_.other);
}

/* ---------------------------------------------------------------- roles */

/* Which barrier, then which phase. */
static void barrier(Build *b, const TStmt *s) {
  IrAccess at = build_access(b, &s->as.barrier.at);
  IrExpr *parity = s->kind == TS_WAIT ? build_scalar(b, s->as.barrier.parity) : NULL;
  IrStmt *t = build_add(b, s->kind == TS_WAIT ? IRK_AWAIT : IRK_ARRIVE);
  t->as.barrier.at = at;
  t->as.barrier.parity = parity;
}

/* Several of one kind are told apart in messages: consumer, consumer_2. */
static const char *role_name(Build *b, const TStmt *s, int i) {
  const char *name = s->as.roles.v[i].producer ? "producer" : "consumer";
  int same = 1;
  for (int j = 0; j < i; j++)
    same += s->as.roles.v[j].producer == s->as.roles.v[i].producer;
  return same == 1 ? name : arena_printf(b->k->arena, "%s_%d", name, same);
}

/* Warps in the order of writing, four a warpgroup. */
static void roles(Build *b, const TStmt *s) {
  IrStmt *t = build_add(b, IRK_ROLES);
  int n = s->as.roles.n, warp = 0;
  t->as.roles.role = ARENA_ARRAY(b->k->arena, IrRoleBody, n);
  t->as.roles.nroles = n;
  for (int i = 0; i < n; i++) {
    const TRole *from = &s->as.roles.v[i];
    IrRoleBody *r = &t->as.roles.role[i];
    *r = (IrRoleBody){.name = role_name(b, s, i),
                      .first_warp = warp,
                      .warps = 4 * from->warpgroups,
                      .registers = from->registers};
    warp += r->warps;
    block(b, &from->body, &r->body);
  }
}

/* ---------------------------------------------------------------- reports */

/* Words as text, tiles as regions, numbers as values. */
static void report_part(Build *b, TExpr *e, IrReportPart *p) {
  if (e->kind == TE_STRING)
    p->text = e->as.string.s;
  else if (e->kind == TE_DTYPE)
    p->text = dtype_name(e->type.dtype);
  else if (e->type.kind == TY_TILE) {
    p->region = ARENA_NEW(b->k->arena, IrRegion);
    *p->region = build_operand(b, e, NULL);
  } else {
    p->value = build_scalar(b, e);
  }
}

/* Parts are evaluated in order, before the statement. */
static void report(Build *b, const TStmt *s) {
  int n = s->as.report.nparts;
  IrReportPart *part = ARENA_ARRAY(b->k->arena, IrReportPart, n);
  IrExpr *cond = s->kind == TS_ASSERT ? build_scalar(b, s->as.report.cond) : NULL;
  for (int i = 0; i < n; i++)
    report_part(b, s->as.report.part[i], &part[i]);
  IrStmt *t = build_add(b, IRK_REPORT);
  t->as.report = (IrReport){.kind = s->kind == TS_ASSERT ? IRP_ASSERT : IRP_PRINT,
                            .cond = cond,
                            .part = part,
                            .nparts = n};
}

/* ---------------------------------------------------------------- all */

/* One case a kind. */
static void stmt(Build *b, const TStmt *s) {
  switch (s->kind) {
  case TS_LET:
    let(b, s);
    break;
  case TS_SET:
    set(b, s);
    break;
  case TS_ALLOC:
    alloc(b, s);
    break;
  case TS_ASSIGN:
    assign(b, s);
    break;
  case TS_STORE:
    store(b, s);
    break;
  case TS_COPY:
    copy(b, s);
    break;
  case TS_DOT:
    dot(b, s);
    break;
  case TS_ATOMIC:
    build_atomic(b, s->as.let.value);
    break;
  case TS_ATOMIC_TILE:
    atomic_tile(b, s);
    break;
  case TS_FOR:
    loop(b, s);
    break;
  case TS_WHILE:
    while_(b, s);
    break;
  case TS_IF:
    if_(b, s);
    break;
  case TS_BREAK:
    build_add(b, IRK_BREAK);
    break;
  case TS_CONTINUE:
    build_add(b, IRK_CONTINUE);
    break;
  case TS_RETURN:
    build_add(b, IRK_RETURN);
    break;
  case TS_ROLES:
    roles(b, s);
    break;
  case TS_ARRIVE:
  case TS_WAIT:
    barrier(b, s);
    break;
  case TS_PRINT:
  case TS_ASSERT:
    report(b, s);
    break;
  case TS_EVAL:
    evaluate(b, s);
    break;
  }
}

/* The span goes to every IR statement that comes of it. */
void build_stmts(Build *b, const TStmts *s) {
  for (size_t i = 0; i < s->n; i++) {
    b->span = s->v[i]->span;
    stmt(b, s->v[i]);
  }
}
