/* expand_cost.c: loops that are too much text to be unrolled.
 *
 * In: MAPs that go over registers. Out: whether compiling their unrolled form would take seconds;
 * those that read a product's result get a copy of it in shared memory, over which they stay a
 * loop. Always holds: a result that a product adds to stays in registers. Tests:
 * tests/unit/check_lower.c.
 */
#include "hopper.h"

/* In instructions, roughly: what a function of math.inc, a 64-bit division, an access and its check
 * come to; most: what NVRTC compiles in some tenths of a second. */
enum { FUNCTION = 25, DIVISION = 40, CONSTANT_DIVISION = 8, ACCESS = 4, CHECK = 6, MOST = 5000 };

static bool divides(OpCode op) {
  return op == OP_FLOORDIV || op == OP_MOD || op == OP_CEILDIV || op == OP_DIV;
}

static int64_t cost_of(const IrExpr *e) {
  int64_t c, n = e->nargs ? 1 : 0;
  if (divides(e->op))
    n = ir_is_const(e->arg[1], &c) ? CONSTANT_DIVISION : DIVISION;
  else if (e->nargs && op_info(e->op)->accuracy != ACC_EXACT)
    n = FUNCTION;
  for (int i = 0; i < e->nargs; i++)
    n += cost_of(e->arg[i]);
  return n;
}

typedef struct Cost {
  Simple *s;
  int64_t n;
} Cost;

static void add_expr(IrExpr **e, void *ctx) {
  ((Cost *)ctx)->n += cost_of(*e);
}

static bool add_stmt(IrStmt *st, void *ctx) {
  Cost *c = ctx;
  IrVisitor v = {add_expr, NULL, NULL, ctx};
  ir_visit(st, &v);
  if (st->kind == IRK_LOAD || st->kind == IRK_STORE) {
    const IrAccess *a = &st->as.access.at;
    bool memory = !low_place_of(c->s, a->buf)->fragment;
    c->n += memory ? ACCESS + (a->check ? CHECK * a->buf->rank : 0) : 0;
  }
  return true;
}

bool expand_is_costly(Simple *s, IrStmt *st) {
  const Frag *f = expand_map_frag(s, st);
  Cost c = {s, 0};
  ir_walk(&st->as.map.body, add_stmt, &c);
  return f && !hopper_groups(s->k) && frag_registers(f) > 1 && c.n * frag_registers(f) > MOST;
}

/* ---------------------------------------------------------------- results in shared memory */

typedef struct Reads {
  Simple *s;
  IrBlock *block; /* of the MAP */
  size_t at;
  bool writes;
  IrBuffer *from, *to; /* the fragment in hand and its copy */
} Reads;

/* Only what the loop reads can be copied. */
static bool find_result(IrStmt *st, void *ctx) {
  Reads *r = ctx;
  if (st->kind != IRK_LOAD && st->kind != IRK_STORE)
    return true;
  if (!low_place_of(r->s, st->as.access.at.buf)->frag)
    return true;
  r->writes |= st->kind == IRK_STORE;
  r->from = st->as.access.at.buf;
  return true;
}

static bool replace_result(IrStmt *st, void *ctx) {
  Reads *r = ctx;
  if (st->kind == IRK_LOAD && st->as.access.at.buf == r->from)
    st->as.access.at.buf = r->to;
  return true;
}

/* `shared copy; copy copy = fragment` before the loop, which reads that. */
static void copy_result(Reads *r) {
  Simple *s = r->s;
  IrKernel *k = s->k;
  Span span = r->block->v[r->at]->span;
  IrStmt *alloc = sched_stmt(k, IRK_ALLOC, span), *copy = sched_stmt(k, IRK_COPY, span);
  r->to = ir_buffer(k, IRS_SHARED, r->from->name, r->from->dtype, r->from->rank, r->from->extent);
  alloc->as.alloc = r->to;
  copy->as.copy = (IrCopy){.dst = ir_whole(k, r->to), .src = ir_whole(k, r->from)};
  ir_walk(&r->block->v[r->at]->as.map.body, replace_result, r);
  sched_insert(k, r->block, r->at, copy);
  sched_insert(k, r->block, r->at, alloc);
  r->at += 2;
  low_note_tile(s, r->to);
}

/* The MAP goes over no registers any more. */
static void forget_iteration(Simple *s, const IrStmt *st) {
  for (size_t i = 0; i < s->iterations.n; i++)
    if (s->iterations.v[i].st == st)
      s->iterations.v[i].st = NULL;
}

static void stage_map(Reads *r) {
  IrStmt *st = r->block->v[r->at];
  ir_walk(&st->as.map.body, find_result, r);
  if (r->writes || !expand_is_costly(r->s, st))
    return;
  forget_iteration(r->s, st);
  for (r->from = NULL; ir_walk(&st->as.map.body, find_result, r), r->from; r->from = NULL)
    copy_result(r);
}

static void stage_block(Simple *s, IrBlock *b) {
  for (size_t i = 0; i < b->n; i++) {
    IrStmt *st = b->v[i];
    IrBlock *inner;
    if (st->kind == IRK_MAP) {
      Reads r = {.s = s, .block = b, .at = i};
      stage_map(&r);
      i = r.at;
      continue;
    }
    for (int j = 0; (inner = ir_nested(st, j)); j++)
      stage_block(s, inner);
  }
}

void expand_stage_reads(Simple *s) {
  stage_block(s, &s->k->body);
}
