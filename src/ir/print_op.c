/* print_op.c: the text of schedules and of operations of threads.
 *
 * In: a statement that print_tile.c leaves. Out: its line, a role's or a loop's block indented.
 * Always holds: what read_op.c reads back is the same statement. Tests: tests/unit/check_ir.c.
 */
#include "print.h"

/* ---------------------------------------------------------------- schedules */

/* Order and ticket before the brace, like a loop's schedule.
 * `tile_loop bx, by in [n, m] group 16 turning dynamic { … }` */
static void print_tile_loop(Printer *p, const IrTileLoop *t, int level) {
  str_add(p->out, "tile_loop ");
  ir_put_axes(p, t->index, t->count, t->naxes);
  if (t->group)
    str_addf(p->out, "group %d ", t->group);
  str_add(p->out, t->turning ? "turning " : "");
  str_add(p->out, t->dynamic ? "dynamic " : "");
  ir_put_braced(p, &t->body, level);
}

/* A role is a line of its own, one level in.
 * `roles { role producer warps 0:+4 registers 40 { … } … }` */
static void print_roles(Printer *p, const IrRoles *r, int level) {
  str_add(p->out, "roles {\n");
  for (int i = 0; i < r->nroles; i++) {
    const IrRoleBody *b = &r->role[i];
    ir_put_indent(p, level + 1);
    str_addf(p->out, "role %s warps %d:+%d ", b->name, b->first_warp, b->warps);
    if (b->registers)
      str_addf(p->out, "registers %d ", b->registers);
    ir_put_braced(p, &b->body, level + 1);
    str_addc(p->out, '\n');
  }
  ir_put_indent(p, level);
  str_addc(p->out, '}');
}

/* Counts are always written, since nothing else in the text tells them.
 * `channel ch tiles As, Bs stages 3 producers 1 consumers 2` */
static void print_channel(Printer *p, const IrChannel *c) {
  str_addf(p->out, "channel %s tiles ", p->names.channel[c->id]);
  for (int i = 0; i < c->ntiles; i++)
    str_addf(p->out, "%s%s", i ? ", " : "", ir_buffer_shown(p, c->tile[i]));
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
  ir_put_access(p, &s->as.barrier.at);
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

/* ---------------------------------------------------------------- operations of threads */

/* By kind; `want` is what a lone constant is read as.
 * `x + 1`, `y: f32`, `acc[4*i:+4]`, `&A[offset]`, a map's name, a dtype's */
static void print_operand(Printer *p, const IrOperand *o, DType want) {
  switch (o->kind) {
  case IRO_EXPR:
    ir_put_expr(p, o->expr, want);
    break;
  case IRO_VAR:
    ir_put_def(p, o->var);
    break;
  case IRO_REGS:
    str_addf(p->out, "%s[", ir_buffer_shown(p, o->buf));
    ir_put_expr(p, o->expr, DT_I32);
    str_addf(p->out, ":+%d]", o->count);
    break;
  case IRO_GLOBAL:
    str_addf(p->out, "&%s[", ir_buffer_shown(p, o->buf));
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

void ir_put_op(Printer *p, const IrStmt *s, int level) {
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
    ir_put_region(p, &s->as.relayout.dst);
    str_add(p->out, " = ");
    ir_put_region(p, &s->as.relayout.src);
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
