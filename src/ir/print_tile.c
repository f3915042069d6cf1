/* print_tile.c: the text of declarations of tiles and of the tile operations.
 *
 * In: a statement that print_stmt.c comes to. Out: its line. Always holds: what read_tile.c reads
 * back is the same statement, with the options in the same order. Tests: tests/unit/check_ir.c.
 */
#include <inttypes.h>

#include "print.h"

/* ---------------------------------------------------------------- layouts and declarations */

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
      str_addf(p->out, "%s%s", i ? ", " : "(", ir_var_shown(p, l->index[i]));
    str_add(p->out, ") -> ");
    ir_put_expr(p, l->offset, DT_I64);
  }
  str_add(p->out, l->columns ? " columns" : "");
}

/* An ALLOC is the declaration; what initialises the tile is a statement after it.
 * `shared As: f16[128, 64] at 4096`, `reg acc: f32[128]` */
static void print_alloc(Printer *p, const IrBuffer *b) {
  static const char *const spaces[] = {"global", "shared", "fragment", "local", "reg"};
  str_addf(p->out, "%s %s: ", spaces[b->space], ir_buffer_shown(p, b));
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

/* ---------------------------------------------------------------- operations */

const char *const ir_engine_names[] = {"auto", "tma", NULL};
const char *const ir_unit_names[] = {"auto", "fma", "wgmma", NULL};
const char *const ir_policy_names[] = {"auto", "rows", "columns", "square", NULL};

/* Options in the order in which read_copy_options takes them.
 * `copy dst = src pad e engine tma signal full[s]` */
static void print_copy(Printer *p, const IrCopy *c) {
  str_add(p->out, "copy ");
  ir_put_region(p, &c->dst);
  str_add(p->out, " = ");
  ir_put_region(p, &c->src);
  if (c->pad) {
    str_add(p->out, " pad ");
    ir_put_expr(p, c->pad, c->src.buf->dtype);
  }
  if (c->engine != IRE_AUTO)
    str_addf(p->out, " engine %s", ir_engine_names[c->engine]);
  if (c->signal.buf) {
    str_add(p->out, " signal ");
    ir_put_access(p, &c->signal);
  }
}

/* Two words for one kind: iterations of `parallel` may be statements of the author.
 * `map i, j in [128, 64] { … }` */
static void print_map(Printer *p, const IrMap *m, int level) {
  str_add(p->out, m->parallel ? "parallel " : "map ");
  ir_put_axes(p, m->index, m->extent, m->naxes);
  ir_put_braced(p, &m->body, level);
}

/* To a scalar, which it defines, or to a region.
 * `reduce m = rmax(s) axis 1`, `reduce x: f32 = sum(s)` */
static void print_reduce(Printer *p, const IrReduce *r) {
  str_add(p->out, "reduce ");
  if (r->scalar)
    ir_put_def(p, r->scalar);
  else
    ir_put_region(p, &r->dst);
  str_addf(p->out, " = %s(", op_info(r->op)->name);
  ir_put_region(p, &r->src);
  str_addc(p->out, ')');
  if (r->axis >= 0)
    str_addf(p->out, " axis %d", r->axis);
}

/* The axis is always written: a scan has one.
 * `scan d = sum(s) axis 1 reverse exclusive` */
static void print_scan(Printer *p, const IrScan *s) {
  str_add(p->out, "scan ");
  ir_put_region(p, &s->dst);
  str_addf(p->out, " = %s(", op_info(s->op)->name);
  ir_put_region(p, &s->src);
  str_addf(p->out, ") axis %d", s->axis);
  str_add(p->out, s->reverse ? " reverse" : "");
  str_add(p->out, s->exclusive ? " exclusive" : "");
}

/* `+=` is accumulation; `=` starts from zero.
 * `dot acc += As @ Bs.T policy rows promote 128 tf32 unit wgmma async` */
static void print_dot(Printer *p, const IrDot *d) {
  str_add(p->out, "dot ");
  ir_put_region(p, &d->c);
  str_add(p->out, d->accumulate ? " += " : " = ");
  ir_put_region(p, &d->a);
  str_add(p->out, " @ ");
  ir_put_region(p, &d->b);
  if (d->policy != IRG_AUTO)
    str_addf(p->out, " policy %s", ir_policy_names[d->policy]);
  if (d->promote != -1)
    str_addf(p->out, " promote %d", d->promote);
  str_add(p->out, d->tf32 ? " tf32" : "");
  if (d->unit != IRU_AUTO)
    str_addf(p->out, " unit %s", ir_unit_names[d->unit]);
  str_add(p->out, d->async ? " async" : "");
}

void ir_put_tile(Printer *p, const IrStmt *s, int level) {
  switch (s->kind) {
  case IRK_ALLOC:
    print_alloc(p, s->as.alloc);
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
    ir_put_op(p, s, level);
  }
}
