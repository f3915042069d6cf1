/* expand_gather_send.c: what threads do where a parallel loop fills or empties a tile.
 *
 * In: a Gather. Out: the rows' values in registers; groups of neighbours by cp.async, with zeros
 * for what is not there; groups from a tile to a tensor. Always holds: no address of an access
 * leaves the tensor, also where nothing is moved. Tests: tests/unit/check_lower.c, tests/lower.
 */
#include "expand_gather.h"

#include "expand_side.h"

/* Rows that a thread has, one register each; all axes but the last. */
static int64_t count_rows(const Gather *g) {
  int64_t n = 1;
  for (int i = 0; i < g->iter.nreg; i++)
    n *= g->iter.reg[i].axis < g->iter.rank - 1 ? g->iter.reg[i].extent : 1;
  return n;
}

static IrExpr *row_register(Simple *s, const Point *p) {
  return expand_register(s, p, p->frag->rank - 1, NULL);
}

/* The MAP's indices, in a table of what stands for variables. */
static IrExpr **table(Simple *s, const Gather *g, const Point *p, IrExpr *const *to, size_t n) {
  IrExpr **out = ARENA_ARRAY(s->arena, IrExpr *, s->k->vars.n + 1);
  for (size_t i = 0; i < n; i++)
    out[i] = to[i];
  for (int d = 0; d < g->map->naxes; d++)
    out[g->map->index[d]->id] = ir_cast(s->k, p->index[d], g->map->index[d]->type);
  return out;
}

/* ---------------------------------------------------------------- rows */

void gather_declare(Simple *s, Gather *g) {
  for (int i = 0; i < g->nrows; i++)
    g->row[i].regs = low_registers(s, "rows", g->row[i].value->type, count_rows(g));
}

/* Divisors are none of the loop's own: the first row's checks are those of all. */
static void check_rows(Simple *s, const Gather *g) {
  LowChecked seen = {0};
  IrExpr **to = ARENA_ARRAY(s->arena, IrExpr *, s->k->vars.n + 1);
  for (int d = 0; d < g->map->naxes; d++)
    to[g->map->index[d]->id] = ir_int_of(s->k, g->map->index[d]->type, 0);
  for (int i = 0; i < g->nrows; i++)
    low_check_once(s, ir_replace(s->k, g->row[i].value, to, s->k->vars.n), &seen);
}

/* What divisions can do wrong is told here, once for all rounds. */
void gather_rows(Simple *s, const Gather *g) {
  Point p;
  IrBlock *before, *outer = s->out;
  if (!g->nrows)
    return;
  check_rows(s, g);
  expand_open(s, &g->iter, g->width, &p, &before);
  IrExpr **to = table(s, g, &p, NULL, 0);
  for (int i = 0; i < g->nrows; i++) {
    IrExpr *value = ir_replace(s->k, g->row[i].value, to, s->k->vars.n);
    IrAccess at = {.buf = g->row[i].regs, .index = {row_register(s, &p)}};
    low_emit_store(s, at, value);
  }
  low_enter(s, outer);
}

/* ---------------------------------------------------------------- groups */

typedef struct Group {
  Point p;
  IrExpr **to;
  size_t n;
  IrExpr *offset;
  IrExpr *count; /* i32: elements that are there; NULL: all */
} Group;

/* Where a group lies, how much of it. */
static void describe(Simple *s, const Gather *g, Group *x) {
  IrKernel *k = s->k;
  IrExpr *in = NULL, *left = NULL, *all = low_i64(s, g->width);
  for (int i = 0; i < g->nrows; i++) {
    IrAccess at = {.buf = g->row[i].regs, .index = {row_register(s, &x->p)}};
    x->to[g->row[i].name->id] = ir_ref(k, low_emit_load(s, "of_row", at));
  }
  for (int i = 0; i < g->nguards; i++)
    in = low_both(s, in, ir_replace(k, g->guard[i], x->to, x->n));
  for (int i = 0; i < g->nends; i++) {
    IrExpr *e = ir_op3(k, OP_CLAMP, ir_replace(k, g->end[i], x->to, x->n), low_i64(s, 0), all);
    left = left ? ir_op2(k, OP_MIN2, left, e) : e;
  }
  left = left ? ir_cast(k, left, DT_I32) : low_i32(s, g->width);
  x->count = in ? ir_op3(k, OP_SELECT, in, left, low_i32(s, 0)) : g->nends ? left : NULL;
  x->offset = ir_replace(k, g->offset, x->to, x->n);
}

static void open_groups(Simple *s, const Gather *g, IrExpr *const *to, size_t n, Group *x) {
  IrBlock *before;
  *x = (Group){.n = 0};
  low_enter_if(s, expand_is_owner(s, &g->iter));
  expand_open(s, &g->iter, g->width, &x->p, &before);
  x->to = table(s, g, &x->p, to, n);
  x->n = s->k->vars.n;
  describe(s, g, x);
}

void gather_send(Simple *s, const Gather *g, IrExpr *const *to, size_t n) {
  IrKernel *k = s->k;
  Group x;
  IrBlock *outer = s->out;
  int64_t size = (int64_t)dtype_size(g->tile->dtype);
  open_groups(s, g, to, n, &x);
  IrOperand *o = ARENA_ARRAY(k->arena, IrOperand, 4);
  IrExpr *bytes = low_i32(s, g->width * size), *some = bytes, *from = x.offset;
  if (x.count) {
    some = ir_ref(k, low_emit_let(s, "bytes", low_mul(s, x.count, low_i32(s, size))));
    from = ir_op3(k, OP_SELECT, ir_op2(k, OP_EQ, some, low_i32(s, 0)), ir_int_of(k, from->type, 0),
                  from);
  }
  o[0] = (IrOperand){.kind = IRO_EXPR, .expr = expand_shared_address(s, g->tile, x.p.index)};
  o[1] = (IrOperand){.kind = IRO_GLOBAL, .buf = g->tensor, .expr = from};
  o[2] = (IrOperand){.kind = IRO_EXPR, .expr = bytes};
  o[3] = (IrOperand){.kind = IRO_EXPR, .expr = some};
  low_emit(s, IRK_OP)->as.op = (IrOp){OP_CP_ASYNC, o, 4};
  low_enter(s, outer);
}

/* ---------------------------------------------------------------- by itself */

static void operation(Simple *s, OpCode op, IrOperand a, IrOperand b) {
  IrOperand *o = ARENA_ARRAY(s->k->arena, IrOperand, 2);
  o[0] = a;
  o[1] = b;
  low_emit(s, IRK_OP)->as.op = (IrOp){op, o, 2};
}

static void store_element(Simple *s, const Gather *g, const Group *x, IrBuffer *regs, int64_t e) {
  IrExpr *at = low_add(s, x->offset, ir_int_of(s->k, x->offset->type, e));
  IrBlock *before =
      low_enter(s, &low_emit_if(s, ir_op2(s->k, OP_GT, x->count, low_i32(s, e)))->as.if_.then);
  operation(s, OP_ST_GLOBAL, (IrOperand){.kind = IRO_GLOBAL, .buf = g->tensor, .expr = at},
            low_regs(regs, low_i32(s, e), 1));
  low_enter(s, before);
}

/* Groups that are there whole go by one access, others element by element. */
static void take_all(Simple *s, const Gather *g) {
  Group x;
  IrKernel *k = s->k;
  IrBlock *outer = s->out;
  open_groups(s, g, NULL, 0, &x);
  IrBuffer *regs = low_registers(s, "group", g->tile->dtype, g->width);
  IrOperand all = low_regs(regs, low_i32(s, 0), g->width);
  operation(s, OP_LD_SHARED, all,
            (IrOperand){.kind = IRO_EXPR, .expr = expand_shared_address(s, g->tile, x.p.index)});
  if (x.count) {
    x.count = ir_ref(k, low_emit_let(s, "count", x.count));
    IrStmt *branch = low_emit_if(s, ir_op2(k, OP_EQ, x.count, low_i32(s, g->width)));
    low_enter(s, &branch->as.if_.other);
    for (int64_t e = 0; e < g->width; e++)
      store_element(s, g, &x, regs, e);
    low_enter(s, &branch->as.if_.then);
  }
  operation(s, OP_ST_GLOBAL, (IrOperand){.kind = IRO_GLOBAL, .buf = g->tensor, .expr = x.offset},
            all);
  low_enter(s, outer);
}

static void wait_all(Simple *s) {
  IrOperand *o = ARENA_ARRAY(s->k->arena, IrOperand, 1);
  low_emit_op(s, OP_CP_ASYNC_COMMIT);
  o[0] = (IrOperand){.kind = IRO_EXPR, .expr = low_i32(s, 0)};
  low_emit(s, IRK_OP)->as.op = (IrOp){OP_CP_ASYNC_WAIT, o, 1};
}

bool expand_gather(Simple *s, IrStmt *st) {
  Gather g;
  if (!gather_find(s, st, NULL, &g))
    return false;
  ir_walk(&st->as.map.body, low_note_inner, s);
  low_fence(s);
  IrBlock *before = s->out;
  IrExpr *wrong = NULL;
  gather_declare(s, &g);
  s->wrong = &wrong;
  gather_rows(s, &g);
  s->wrong = NULL;
  if (wrong) /* then indices mean nothing */
    low_enter_if(s, ir_op1(s->k, OP_NOT, wrong));
  if (g.out)
    take_all(s, &g);
  else
    gather_send(s, &g, NULL, 0);
  low_enter(s, before);
  if (!g.out)
    wait_all(s);
  return true;
}
