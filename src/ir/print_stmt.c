/* print_stmt.c: the text of statements.
 *
 * In: a block of a kernel that print.c prints. Out: one line a statement, nested blocks indented.
 * Always holds: what read_stmt.c reads back is the same statement; options stand in one order and
 * only where they are not the default. Tests: tests/unit/check_ir.c.
 */
#include <inttypes.h>

#include "print.h"

/* ---------------------------------------------------------------- operands */

/* Through the table of unique names, never by the object's own name. */
static const char *var_name(const Printer *p, const IrVar *v) {
  return p->names.var[v->id];
}
static const char *buf_name(const Printer *p, const IrBuffer *b) {
  return p->names.buffer[b->id];
}

/* A variable where it is defined says its type; elsewhere its name does.
 * `x: f32` */
static void print_def(Printer *p, const IrVar *v) {
  str_addf(p->out, "%s: %s", var_name(p, v), dtype_name(v->type));
}

/* As many indices as the buffer has axes; lone constants have the level's index type.
 * `A[i, j]` */
static void print_access(Printer *p, const IrAccess *a) {
  str_addf(p->out, "%s[", buf_name(p, a->buf));
  ir_put_exprs(p, a->index, a->buf->rank, ir_put_index_type(p));
  str_addc(p->out, ']');
}

/* At thread level checks are statements, so no access has one. */
static void print_unchecked(Printer *p, const IrAccess *a) {
  str_add(p->out, a->check || p->k->level == IR_THREAD ? "" : " unchecked");
}

/* origin, origin:+extent, origin:+extent:step, perhaps a stop. */
static void print_axis(Printer *p, const IrAxis *x) {
  ir_put_expr(p, x->origin, ir_put_index_type(p));
  if (!x->keep)
    return;
  if (x->extent)
    str_addf(p->out, ":+%" PRId64, x->extent);
  else
    str_add(p->out, ":+_");
  if (x->step != 1)
    str_addf(p->out, ":%" PRId64, x->step);
  if (x->stop) {
    str_add(p->out, " stop ");
    ir_put_expr(p, x->stop, ir_put_index_type(p));
  }
}

/* `.T` of a whole tile is still the whole tile. */
static bool plain_whole(const IrRegion *r) {
  IrRegion copy = *r;
  copy.trans = false;
  return ir_region_is_whole(&copy);
}

/* A whole buffer by its name alone.
 * `A`, `A[i, k*64:+64]`, `A.T` */
static void print_region(Printer *p, const IrRegion *r) {
  str_add(p->out, buf_name(p, r->buf));
  if (!plain_whole(r)) {
    str_addc(p->out, '[');
    for (int i = 0; i < r->buf->rank; i++) {
      str_add(p->out, i ? ", " : "");
      print_axis(p, &r->axis[i]);
    }
    str_addc(p->out, ']');
  }
  str_add(p->out, r->trans ? ".T" : "");
}

/* Other bytes than controls go through as they are: texts are UTF-8.
 * Quotes, backslashes and controls are escaped. */
void ir_put_string(Printer *p, const char *s) {
  str_addc(p->out, '"');
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\')
      str_addf(p->out, "\\%c", c);
    else if (c == '\n')
      str_add(p->out, "\\n");
    else if (c < 0x20 || c == 0x7f)
      str_addf(p->out, "\\x%02x", c);
    else
      str_addc(p->out, (char)c);
  }
  str_addc(p->out, '"');
}

/* ---------------------------------------------------------------- control */

static void indent(Printer *p, int level) {
  str_pad(p->out, ' ', (size_t)level * 2);
}

/* The caller has written what stands before the brace. */
static void print_braced(Printer *p, const IrBlock *b, int level) {
  str_add(p->out, "{\n");
  ir_put_block(p, b, level + 1);
  indent(p, level);
  str_addc(p->out, '}');
}

/* A SET repeats no type.
 * `let x: i32 = e`, `var x: i32 warp = e`, `set x = e` */
static void print_let(Printer *p, const IrStmt *s) {
  static const char *const uniform[] = {"block", "group", "warp", "lane"};
  const IrVar *v = s->as.let.var;
  if (s->kind == IRK_SET) {
    str_addf(p->out, "set %s", var_name(p, v));
  } else {
    str_add(p->out, v->kind == IRV_MUT ? "var " : "let ");
    print_def(p, v);
    if (v->kind == IRV_MUT && v->stated)
      str_addf(p->out, " %s", uniform[v->stated - 1]);
  }
  str_add(p->out, " = ");
  ir_put_expr(p, s->as.let.value, v->type);
}

/* Bounds have the index' type, so their constants need no suffix.
 * `for i: i32 = lo, hi, step unroll { … }` */
static void print_loop(Printer *p, const IrFor *f, int level) {
  static const char *const kinds[] = {"", "unroll", "vectorized", "pipelined", "persistent"};
  IrExpr *bounds[] = {f->lo, f->hi, f->step};
  str_add(p->out, "for ");
  print_def(p, f->index);
  str_add(p->out, " = ");
  ir_put_exprs(p, bounds, 3, f->index->type);
  if (f->loop != IRF_SERIAL)
    str_addf(p->out, " %s", kinds[f->loop]);
  if (f->stages)
    str_addf(p->out, "(%d)", f->stages);
  str_addc(p->out, ' ');
  print_braced(p, &f->body, level);
}

/* What the condition needs is computed in a block of its own, before each test.
 * `while { … } cond c { … }` */
static void print_while(Printer *p, const IrWhile *w, int level) {
  str_add(p->out, "while ");
  print_braced(p, &w->cond_block, level);
  str_add(p->out, " cond ");
  ir_put_expr(p, w->cond, DT_BOOL);
  str_addc(p->out, ' ');
  print_braced(p, &w->body, level);
}

/* An empty `else` is none.
 * `if c { … } else { … }` */
static void print_if(Printer *p, const IrIf *s, int level) {
  str_add(p->out, "if ");
  ir_put_expr(p, s->cond, DT_BOOL);
  str_addc(p->out, ' ');
  print_braced(p, &s->then, level);
  if (s->other.n) {
    str_add(p->out, " else ");
    print_braced(p, &s->other, level);
  }
}

/* The common head of map, parallel and tile_loop. */
static void print_axes(Printer *p, IrVar *const *index, IrExpr *const *extent, int n) {
  for (int i = 0; i < n; i++) {
    str_addf(p->out, "%s%s", i ? ", " : "", var_name(p, index[i]));
    if (index[i]->type != DT_I64)
      str_addf(p->out, ": %s", dtype_name(index[i]->type));
  }
  str_add(p->out, n ? " in [" : "in [");
  ir_put_exprs(p, extent, n, DT_I64);
  str_add(p->out, "] ");
}

/* Two words for one kind: iterations of `parallel` may be statements of the author.
 * `map i, j in [128, 64] { … }` */
static void print_map(Printer *p, const IrMap *m, int level) {
  str_add(p->out, m->parallel ? "parallel " : "map ");
  print_axes(p, m->index, m->extent, m->naxes);
  print_braced(p, &m->body, level);
}

/* Order and ticket before the brace, like a loop's schedule.
 * `tile_loop bx, by in [n, m] group 16 turning dynamic { … }` */
static void print_tile_loop(Printer *p, const IrTileLoop *t, int level) {
  str_add(p->out, "tile_loop ");
  print_axes(p, t->index, t->count, t->naxes);
  if (t->group)
    str_addf(p->out, "group %d ", t->group);
  str_add(p->out, t->turning ? "turning " : "");
  str_add(p->out, t->dynamic ? "dynamic " : "");
  print_braced(p, &t->body, level);
}

/* A role is a line of its own, one level in.
 * `roles { role producer warps 0:+4 registers 40 { … } … }` */
static void print_roles(Printer *p, const IrRoles *r, int level) {
  str_add(p->out, "roles {\n");
  for (int i = 0; i < r->nroles; i++) {
    const IrRoleBody *b = &r->role[i];
    indent(p, level + 1);
    str_addf(p->out, "role %s warps %d:+%d ", b->name, b->first_warp, b->warps);
    if (b->registers)
      str_addf(p->out, "registers %d ", b->registers);
    print_braced(p, &b->body, level + 1);
    str_addc(p->out, '\n');
  }
  indent(p, level);
  str_addc(p->out, '}');
}

/* ---------------------------------------------------------------- memory and reports */

/* As the manual writes it.
 * `layout swizzle(128) columns`, `layout (i, j) -> i*64 + j` */
static void print_layout(Printer *p, const IrLayout *l) {
  str_add(p->out, " layout ");
  if (l->kind == IRL_ROWS) {
    str_add(p->out, "rows");
  } else if (l->kind != IRL_MAP) {
    str_addf(p->out, "%s(%" PRId64 ")", l->kind == IRL_SWIZZLE ? "swizzle" : "padded", l->amount);
  } else {
    for (int i = 0; i < IR_MAX_RANK && l->index[i]; i++)
      str_addf(p->out, "%s%s", i ? ", " : "(", var_name(p, l->index[i]));
    str_add(p->out, ") -> ");
    ir_put_expr(p, l->offset, DT_I64);
  }
  str_add(p->out, l->columns ? " columns" : "");
}

/* An ALLOC is the declaration; what initialises the tile is a statement after it.
 * `shared As: f16[128, 64] at 4096`, `reg acc: f32[128]` */
static void print_alloc(Printer *p, const IrBuffer *b) {
  static const char *const spaces[] = {"global", "shared", "fragment", "local", "reg"};
  str_addf(p->out, "%s %s: ", spaces[b->space], buf_name(p, b));
  ir_put_type(p, b);
  if (p->k->level == IR_THREAD && b->space == IRS_SHARED)
    str_addf(p->out, " at %" PRId64, b->offset);
  if (b->layout)
    print_layout(p, b->layout);
  if (b->stages != 1)
    str_addf(p->out, " stages %d", b->stages);
  if (b->arrivals)
    str_addf(p->out, " arrivals %d", b->arrivals);
  str_add(p->out, b->unchecked ? " unchecked" : "");
}

/* Defines its variable, so the type is written.
 * `load x: f32 = A[i, j]` */
static void print_load(Printer *p, const IrStmt *s) {
  str_add(p->out, "load ");
  print_def(p, s->as.access.var);
  str_add(p->out, " = ");
  print_access(p, &s->as.access.at);
  print_unchecked(p, &s->as.access.at);
}

/* The value has the element's type: its constants need no suffix.
 * `store A[i, j] = e` */
static void print_store(Printer *p, const IrStmt *s) {
  str_add(p->out, "store ");
  print_access(p, &s->as.access.at);
  str_add(p->out, " = ");
  ir_put_expr(p, s->as.access.value, s->as.access.at.buf->dtype);
  print_unchecked(p, &s->as.access.at);
}

/* Element or region; the name says which operation.
 * `atomic old: i32 = atomic_add(A[i], e)`, `atomic atomic_add(C[…], tile)` */
static void print_atomic(Printer *p, const IrAtomic *a) {
  const char *name = op_info(a->op)->name;
  str_add(p->out, "atomic ");
  if (a->region) {
    str_addf(p->out, "%s(", name);
    print_region(p, &a->dst);
    str_add(p->out, ", ");
    print_region(p, &a->src);
    str_addc(p->out, ')');
    return;
  }
  if (a->old)
    print_def(p, a->old);
  else
    str_addc(p->out, '_');
  str_addf(p->out, " = %s(", name);
  print_access(p, &a->at);
  if (a->expected) {
    str_add(p->out, ", ");
    ir_put_expr(p, a->expected, a->at.buf->dtype);
  }
  str_add(p->out, ", ");
  ir_put_expr(p, a->value, a->at.buf->dtype);
  str_addc(p->out, ')');
  print_unchecked(p, &a->at);
}

/* Parts that are texts, values and regions, in the order in which they are shown.
 * `assert c, "text", e block x, y` */
static void print_report(Printer *p, const IrReport *r) {
  str_add(p->out, r->kind == IRP_PRINT ? "print" : "assert ");
  if (r->kind == IRP_ASSERT)
    ir_put_expr(p, r->cond, DT_BOOL);
  for (int i = 0; i < r->nparts; i++) {
    bool block = r->nblock && i == r->nparts - r->nblock;
    str_add(p->out, block ? " block " : i || r->kind == IRP_ASSERT ? ", " : " ");
    if (r->part[i].text)
      ir_put_string(p, r->part[i].text);
    else if (r->part[i].value)
      ir_put_expr(p, r->part[i].value, DT_NONE);
    else
      print_region(p, r->part[i].region);
  }
}

/* ---------------------------------------------------------------- tile operations */

const char *const ir_engine_names[] = {"auto", "tma", NULL};
const char *const ir_unit_names[] = {"auto", "fma", "wgmma", NULL};
const char *const ir_policy_names[] = {"auto", "rows", "columns", "square", NULL};

/* Options in the order in which read_copy_options takes them.
 * `copy dst = src pad e engine tma signal full[s]` */
static void print_copy(Printer *p, const IrCopy *c) {
  str_add(p->out, "copy ");
  print_region(p, &c->dst);
  str_add(p->out, " = ");
  print_region(p, &c->src);
  if (c->pad) {
    str_add(p->out, " pad ");
    ir_put_expr(p, c->pad, c->src.buf->dtype);
  }
  if (c->engine != IRE_AUTO)
    str_addf(p->out, " engine %s", ir_engine_names[c->engine]);
  if (c->signal.buf) {
    str_add(p->out, " signal ");
    print_access(p, &c->signal);
  }
}

/* To a scalar, which it defines, or to a region.
 * `reduce m = rmax(s) axis 1`, `reduce x: f32 = sum(s)` */
static void print_reduce(Printer *p, const IrReduce *r) {
  str_add(p->out, "reduce ");
  if (r->scalar)
    print_def(p, r->scalar);
  else
    print_region(p, &r->dst);
  str_addf(p->out, " = %s(", op_info(r->op)->name);
  print_region(p, &r->src);
  str_addc(p->out, ')');
  if (r->axis >= 0)
    str_addf(p->out, " axis %d", r->axis);
}

/* The axis is always written: a scan has one.
 * `scan d = sum(s) axis 1 reverse exclusive` */
static void print_scan(Printer *p, const IrScan *s) {
  str_add(p->out, "scan ");
  print_region(p, &s->dst);
  str_addf(p->out, " = %s(", op_info(s->op)->name);
  print_region(p, &s->src);
  str_addf(p->out, ") axis %d", s->axis);
  str_add(p->out, s->reverse ? " reverse" : "");
  str_add(p->out, s->exclusive ? " exclusive" : "");
}

/* `+=` is accumulation; `=` starts from zero.
 * `dot acc += As @ Bs.T policy rows promote 128 tf32 unit wgmma async` */
static void print_dot(Printer *p, const IrDot *d) {
  str_add(p->out, "dot ");
  print_region(p, &d->c);
  str_add(p->out, d->accumulate ? " += " : " = ");
  print_region(p, &d->a);
  str_add(p->out, " @ ");
  print_region(p, &d->b);
  if (d->policy != IRG_AUTO)
    str_addf(p->out, " policy %s", ir_policy_names[d->policy]);
  if (d->promote != -1)
    str_addf(p->out, " promote %d", d->promote);
  str_add(p->out, d->tf32 ? " tf32" : "");
  if (d->unit != IRU_AUTO)
    str_addf(p->out, " unit %s", ir_unit_names[d->unit]);
  str_add(p->out, d->async ? " async" : "");
}

/* ---------------------------------------------------------------- schedules */

/* Counts are always written, since nothing else in the text tells them.
 * `channel ch tiles As, Bs stages 3 producers 1 consumers 2` */
static void print_channel(Printer *p, const IrChannel *c) {
  str_addf(p->out, "channel %s tiles ", p->names.channel[c->id]);
  for (int i = 0; i < c->ntiles; i++)
    str_addf(p->out, "%s%s", i ? ", " : "", buf_name(p, c->tile[i]));
  str_addf(p->out, " stages %d producers %d consumers %d", c->stages, c->producers, c->consumers);
}

/* The four words differ in the statement's kind only.
 * `release ch behind 1` */
static void print_channel_op(Printer *p, const IrStmt *s) {
  const IrChannelOp *o = &s->as.channel_op;
  str_addf(p->out, "%s %s", ir_stmt_name(s), p->names.channel[o->channel->id]);
  if (o->behind)
    str_addf(p->out, " behind %d", o->behind);
}

/* `arrive empty[s]`, `await full[s] parity p` */
static void print_barrier(Printer *p, const IrStmt *s) {
  str_addf(p->out, "%s ", ir_stmt_name(s));
  print_access(p, &s->as.barrier.at);
  if (s->kind == IRK_ARRIVE)
    return;
  str_add(p->out, " parity ");
  ir_put_expr(p, s->as.barrier.parity, DT_I64);
}

/* No warps: all of them.
 * `sync warps 4:+8 groups proxy_async` */
static void print_sync(Printer *p, const IrSync *s) {
  str_add(p->out, "sync");
  if (s->warps)
    str_addf(p->out, " warps %d:+%d", s->first_warp, s->warps);
  str_add(p->out, s->groups ? " groups" : "");
  str_add(p->out, s->proxy_async ? " proxy_async" : "");
}

/* By kind; `want` is what a lone constant is read as.
 * `x + 1`, `y: f32`, `acc[4*i:+4]`, `&A[offset]`, a map's name, a dtype's */
static void print_operand(Printer *p, const IrOperand *o, DType want) {
  switch (o->kind) {
  case IRO_EXPR:
    ir_put_expr(p, o->expr, want);
    break;
  case IRO_VAR:
    print_def(p, o->var);
    break;
  case IRO_REGS:
    str_addf(p->out, "%s[", buf_name(p, o->buf));
    ir_put_expr(p, o->expr, DT_I32);
    str_addf(p->out, ":+%d]", o->count);
    break;
  case IRO_GLOBAL:
    str_addf(p->out, "&%s[", buf_name(p, o->buf));
    ir_put_expr(p, o->expr, DT_I32);
    str_addc(p->out, ']');
    break;
  case IRO_TMAP:
    str_add(p->out, p->names.tmap[o->tmap->id]);
    break;
  case IRO_DTYPE:
    str_add(p->out, dtype_name(o->dtype));
    break;
  }
}

/* A value that goes into a destination has its type (shfl_xor y: f32, 1.0, 16). */
static void print_op(Printer *p, const IrOp *o) {
  str_add(p->out, op_info(o->op)->name);
  for (int i = 0; i < o->noperands; i++) {
    bool moved = i == 1 && o->operand[0].kind == IRO_VAR;
    str_add(p->out, i ? ", " : " ");
    print_operand(p, &o->operand[i], moved ? o->operand[0].var->type : DT_I32);
  }
}

/* ---------------------------------------------------------------- dispatch */

/* Kinds of the scheduled level, and the three bare words. */
static void print_scheduled(Printer *p, const IrStmt *s, int level) {
  switch (s->kind) {
  case IRK_TILE_LOOP:
    print_tile_loop(p, &s->as.tile_loop, level);
    break;
  case IRK_ROLES:
    print_roles(p, &s->as.roles, level);
    break;
  case IRK_CHANNEL:
    print_channel(p, s->as.channel);
    break;
  case IRK_ACQUIRE:
  case IRK_COMMIT:
  case IRK_WAIT:
  case IRK_RELEASE:
    print_channel_op(p, s);
    break;
  case IRK_DOT_WAIT:
  case IRK_STORE_WAIT:
    str_addf(p->out, "%s %d", ir_stmt_name(s), s->as.wait);
    break;
  case IRK_RELAYOUT:
    str_add(p->out, "relayout ");
    print_region(p, &s->as.relayout.dst);
    str_add(p->out, " = ");
    print_region(p, &s->as.relayout.src);
    break;
  case IRK_SYNC:
    print_sync(p, &s->as.sync);
    break;
  case IRK_ARRIVE:
  case IRK_AWAIT:
    print_barrier(p, s);
    break;
  case IRK_OP:
    print_op(p, &s->as.op);
    break;
  default:
    str_add(p->out, ir_stmt_name(s)); /* break, continue, return */
  }
}

/* Kinds of the tile level. */
static void print_tile(Printer *p, const IrStmt *s, int level) {
  switch (s->kind) {
  case IRK_ALLOC:
    print_alloc(p, s->as.alloc);
    break;
  case IRK_LOAD:
    print_load(p, s);
    break;
  case IRK_STORE:
    print_store(p, s);
    break;
  case IRK_ATOMIC:
    print_atomic(p, &s->as.atomic);
    break;
  case IRK_REPORT:
    print_report(p, &s->as.report);
    break;
  case IRK_COPY:
    print_copy(p, &s->as.copy);
    break;
  case IRK_MAP:
    print_map(p, &s->as.map, level);
    break;
  case IRK_REDUCE:
    print_reduce(p, &s->as.reduce);
    break;
  case IRK_SCAN:
    print_scan(p, &s->as.scan);
    break;
  case IRK_DOT:
    print_dot(p, &s->as.dot);
    break;
  default:
    print_scheduled(p, s, level);
  }
}

/* One switch for each group of kinds, so that each stays a page. */
static void print_stmt(Printer *p, const IrStmt *s, int level) {
  switch (s->kind) {
  case IRK_LET:
  case IRK_SET:
    print_let(p, s);
    break;
  case IRK_FOR:
    print_loop(p, &s->as.loop, level);
    break;
  case IRK_WHILE:
    print_while(p, &s->as.while_, level);
    break;
  case IRK_IF:
    print_if(p, &s->as.if_, level);
    break;
  default:
    print_tile(p, s, level);
  }
}

/* For messages too, so every kind has a word. */
const char *ir_stmt_name(const IrStmt *s) {
  static const char *const names[IRK_COUNT] = {
      [IRK_LET] = "let",           [IRK_SET] = "set",         [IRK_FOR] = "for",
      [IRK_WHILE] = "while",       [IRK_IF] = "if",           [IRK_BREAK] = "break",
      [IRK_CONTINUE] = "continue", [IRK_RETURN] = "return",   [IRK_LOAD] = "load",
      [IRK_STORE] = "store",       [IRK_ATOMIC] = "atomic",   [IRK_REPORT] = "print",
      [IRK_ALLOC] = "tile",        [IRK_COPY] = "copy",       [IRK_MAP] = "map",
      [IRK_REDUCE] = "reduce",     [IRK_SCAN] = "scan",       [IRK_DOT] = "dot",
      [IRK_ROLES] = "roles",       [IRK_CHANNEL] = "channel", [IRK_TILE_LOOP] = "tile_loop",
      [IRK_ACQUIRE] = "acquire",   [IRK_COMMIT] = "commit",   [IRK_WAIT] = "wait",
      [IRK_RELEASE] = "release",   [IRK_SYNC] = "sync",       [IRK_DOT_WAIT] = "dot_wait",
      [IRK_RELAYOUT] = "relayout", [IRK_OP] = "op",           [IRK_STORE_WAIT] = "store_wait",
      [IRK_ARRIVE] = "arrive",     [IRK_AWAIT] = "await",
  };
  return s->kind == IRK_OP ? op_info(s->as.op.op)->name : names[s->kind];
}

/* Two spaces a level. */
void ir_put_block(Printer *p, const IrBlock *b, int level) {
  for (size_t i = 0; i < b->n; i++) {
    indent(p, level);
    print_stmt(p, b->v[i], level);
    str_addc(p->out, '\n');
  }
}
