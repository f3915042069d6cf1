/* walk.c: going over statements: nested blocks, and what one statement holds.
 *
 * In: a block or a statement. Out: calls. Always holds: this file and clone.c are the only places
 * that know where a kind keeps its operands; passes, the verifier and the uniformity analysis see
 * them through ir_visit. Tests: tests/unit/check_ir.c.
 */
#include "impl.h"

bool ir_is_let(const IrStmt *s) {
  return s->kind == IRK_LET && s->as.let.var->kind == IRV_LET;
}

/* In the order in which they run.
 * NULL past the last ends every caller's loop. */
IrBlock *ir_nested(IrStmt *s, int i) {
  switch (s->kind) {
  case IRK_FOR:
    return i == 0 ? &s->as.loop.body : NULL;
  case IRK_WHILE:
    return i == 0 ? &s->as.while_.cond_block : i == 1 ? &s->as.while_.body : NULL;
  case IRK_IF:
    return i == 0 ? &s->as.if_.then : i == 1 ? &s->as.if_.other : NULL;
  case IRK_MAP:
    return i == 0 ? &s->as.map.body : NULL;
  case IRK_TILE_LOOP:
    return i == 0 ? &s->as.tile_loop.body : NULL;
  case IRK_ROLES:
    return i < s->as.roles.nroles ? &s->as.roles.role[i].body : NULL;
  default:
    return NULL;
  }
}

/* Depth first; the callback sees a statement before what is nested in it, and may change it. */
void ir_walk(IrBlock *block, bool (*fn)(IrStmt *s, void *ctx), void *ctx) {
  for (size_t i = 0; i < block->n; i++) {
    IrStmt *s = block->v[i];
    if (!fn(s, ctx))
      continue;
    IrBlock *inner;
    for (int j = 0; (inner = ir_nested(s, j)); j++)
      ir_walk(inner, fn, ctx);
  }
}

/* ---------------------------------------------------------------- visiting */

/* An absent operand is no slot.
 * Callbacks may be NULL: a caller asks for what it needs. */
static void expr(const IrVisitor *v, IrExpr **e) {
  if (v->expr && *e)
    v->expr(e, v->ctx);
}

/* A definition is a slot too: passes replace variables. */
static void def(const IrVisitor *v, IrVar **var) {
  if (v->def && *var)
    v->def(var, v->ctx);
}

/* With how it is used, which is all that dependences need. */
static void buffer(const IrVisitor *v, IrBuffer **b, unsigned how) {
  if (v->buffer && *b)
    v->buffer(b, how, v->ctx);
}

/* Origins and stops are read whatever is done to the region.
 * An absent region has no buffer. */
static void region(const IrVisitor *v, IrRegion *r, unsigned how) {
  if (!r->buf)
    return;
  int rank = r->buf->rank;
  buffer(v, &r->buf, how);
  for (int i = 0; i < rank; i++) {
    expr(v, &r->axis[i].origin);
    expr(v, &r->axis[i].stop);
  }
}

/* All indices, in order.
 * Every index is an expression, also of registers. */
static void access(const IrVisitor *v, IrAccess *a, unsigned how) {
  int rank = a->buf->rank;
  buffer(v, &a->buf, how);
  for (int i = 0; i < rank; i++)
    expr(v, &a->index[i]);
}

/* Reads and writes what it touches; the old value is defined last.
 * `expected` before `value`, as it prints. */
static void visit_atomic(const IrVisitor *v, IrAtomic *a) {
  if (a->region) {
    region(v, &a->dst, IR_READS | IR_WRITES);
    region(v, &a->src, IR_READS);
    return;
  }
  access(v, &a->at, IR_READS | IR_WRITES);
  expr(v, &a->expected);
  expr(v, &a->value);
  def(v, &a->old);
}

/* A region that is printed is read.
 * The condition comes first. */
static void visit_report(const IrVisitor *v, IrReport *r) {
  expr(v, &r->cond);
  for (int i = 0; i < r->nparts; i++) {
    expr(v, &r->part[i].value);
    if (r->part[i].region)
      region(v, r->part[i].region, IR_READS);
  }
}

/* The source before the target, as it runs.
 * A barrier is read and written by all that name it. */
static void visit_copy(const IrVisitor *v, IrCopy *c) {
  region(v, &c->src, IR_READS);
  expr(v, &c->pad);
  region(v, &c->dst, IR_WRITES);
  if (c->signal.buf)
    access(v, &c->signal, IR_READS | IR_WRITES);
}

/* Extents are evaluated before any index exists.
 * The indices are definitions. */
static void visit_map(const IrVisitor *v, IrMap *m) {
  for (int i = 0; i < m->naxes; i++) {
    expr(v, &m->extent[i]);
    def(v, &m->index[i]);
  }
}

static void visit_tile_loop(const IrVisitor *v, IrTileLoop *t) {
  for (int i = 0; i < t->naxes; i++) {
    expr(v, &t->count[i]);
    def(v, &t->index[i]);
  }
}

/* Bounds are evaluated once, before the index exists. */
static void visit_loop(const IrVisitor *v, IrFor *f) {
  expr(v, &f->lo);
  expr(v, &f->hi);
  expr(v, &f->step);
  def(v, &f->index);
}

/* The slot is handed out too: a clone puts its own buffer there.
 * Extents are constants on tiles, but expressions all the same. */
static void visit_alloc(const IrVisitor *v, IrBuffer **slot) {
  IrBuffer *b = *slot;
  for (int i = 0; i < b->rank; i++)
    expr(v, &b->extent[i]);
  buffer(v, slot, IR_DECLARES);
}

/* Its tiles are written by one side and read by the other. */
static void visit_channel(const IrVisitor *v, IrChannel *c) {
  for (int i = 0; i < c->ntiles; i++)
    buffer(v, &c->tile[i], IR_READS | IR_WRITES);
}

/* Producers write, consumers read; dependences across roles follow.
 * The slot is a copy: a replaced buffer is replaced where the channel is declared. */
static void visit_channel_op(const IrVisitor *v, IrKind kind, IrChannel *c) {
  unsigned how = kind == IRK_ACQUIRE || kind == IRK_COMMIT ? IR_WRITES : IR_READS;
  for (int i = 0; i < c->ntiles; i++) {
    IrBuffer *b = c->tile[i]; /* the channel's own slot is visited where it is declared */
    buffer(v, &b, how);
  }
}

/* How registers are used is the letter's to say, of global elements the row's effects.
 * Tensor maps and dtypes are no slots: nothing replaces them. */
static void visit_operand(const IrVisitor *v, IrOperand *o, char letter, unsigned effects) {
  unsigned how = letter == 'r' ? IR_READS : letter == 'R' ? IR_WRITES : IR_READS | IR_WRITES;
  if (o->kind == IRO_GLOBAL)
    how = (effects & FX_WRITE_GLOBAL ? IR_WRITES : 0) | (effects & FX_READ_GLOBAL ? IR_READS : 0);
  buffer(v, &o->buf, how);
  expr(v, &o->expr);
  def(v, &o->var);
}

/* Destinations come last, so that a use in the same statement is of the value before it.
 * Two passes over the operands. */
static void visit_op(const IrVisitor *v, IrOp *op) {
  const OpInfo *info = op_info(op->op);
  for (int pass = 0; pass < 2; pass++) {
    const char *sig = info->sig;
    for (int i = 0; i < op->noperands && *sig; i++) {
      if ((op->operand[i].kind == IRO_VAR) == (pass == 1))
        visit_operand(v, &op->operand[i], *sig, info->effects);
      if (sig[1] != '*')
        sig++;
    }
  }
}

/* Elements and declarations.
 * Everything that names an element or a tile. */
static void visit_memory(IrStmt *s, const IrVisitor *v) {
  switch (s->kind) {
  case IRK_LOAD:
    access(v, &s->as.access.at, IR_READS);
    def(v, &s->as.access.var);
    break;
  case IRK_STORE:
    access(v, &s->as.access.at, IR_WRITES);
    expr(v, &s->as.access.value);
    break;
  case IRK_ATOMIC:
    visit_atomic(v, &s->as.atomic);
    break;
  case IRK_ALLOC:
    visit_alloc(v, &s->as.alloc);
    break;
  case IRK_REPORT:
    visit_report(v, &s->as.report);
    break;
  default:
    break;
  }
}

/* Whole-tile operations and channels.
 * A product that accumulates reads its target. */
static void visit_tile(IrStmt *s, const IrVisitor *v) {
  switch (s->kind) {
  case IRK_COPY:
    visit_copy(v, &s->as.copy);
    break;
  case IRK_REDUCE:
    region(v, &s->as.reduce.src, IR_READS);
    region(v, &s->as.reduce.dst, IR_WRITES);
    def(v, &s->as.reduce.scalar);
    break;
  case IRK_SCAN:
    region(v, &s->as.scan.src, IR_READS);
    region(v, &s->as.scan.dst, IR_WRITES);
    break;
  case IRK_DOT:
    region(v, &s->as.dot.a, IR_READS);
    region(v, &s->as.dot.b, IR_READS);
    region(v, &s->as.dot.c, s->as.dot.accumulate ? IR_READS | IR_WRITES : IR_WRITES);
    break;
  case IRK_ARRIVE:
  case IRK_AWAIT:
    access(v, &s->as.barrier.at, IR_READS | IR_WRITES);
    expr(v, &s->as.barrier.parity);
    break;
  case IRK_RELAYOUT:
    region(v, &s->as.relayout.src, IR_READS);
    region(v, &s->as.relayout.dst, IR_WRITES);
    break;
  case IRK_CHANNEL:
    visit_channel(v, s->as.channel);
    break;
  case IRK_ACQUIRE:
  case IRK_COMMIT:
  case IRK_WAIT:
  case IRK_RELEASE:
    visit_channel_op(v, s->kind, s->as.channel_op.channel);
    break;
  default:
    visit_memory(s, v);
  }
}

/* Control, and the rest by group.
 * What is nested in the statement is not visited. */
void ir_visit(IrStmt *s, const IrVisitor *v) {
  switch (s->kind) {
  case IRK_LET:
  case IRK_SET:
    expr(v, &s->as.let.value);
    def(v, &s->as.let.var);
    break;
  case IRK_FOR:
    visit_loop(v, &s->as.loop);
    break;
  case IRK_WHILE:
    expr(v, &s->as.while_.cond);
    break;
  case IRK_IF:
    expr(v, &s->as.if_.cond);
    break;
  case IRK_MAP:
    visit_map(v, &s->as.map);
    break;
  case IRK_TILE_LOOP:
    visit_tile_loop(v, &s->as.tile_loop);
    break;
  case IRK_OP:
    visit_op(v, &s->as.op);
    break;
  default:
    visit_tile(s, v);
  }
}
