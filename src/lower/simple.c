/* simple.c: the simplest lowering of a tile-level kernel to threads (see simple.h).
 *
 * In: a verified tile-level kernel and a target. Out: a thread-level kernel that computes the same
 * bits, slowly; or diagnostics (a tile or construct that has no place on the target). Block-level
 * scalars are computed by every thread alike; what may differ from one read to the next (a global
 * tensor that someone writes, an atomic) is read once, by thread 0, and told to the others.
 * Tests: tests/unit/check_lower.c (every construct, tile level against threads on the evaluator).
 */
#include "hopper.h"
#include "ring.h"

#include <stdarg.h>
#include <string.h>

/* Lowering goes on after it, so that all reasons are reported at once. */
void low_fail(Simple *s, DiagCode code, const char *fmt, ...) {
  Str text = str_new(s->sink->arena);
  va_list ap;
  va_start(ap, fmt);
  str_vaddf(&text, fmt, ap);
  va_end(ap);
  diag_add(s->sink, code, s->at, "%s", str_text(&text));
  s->failed = true;
}

/* ---------------------------------------------------------------- building */

/* Statements carry the span of the author's statement: diagnostics and the CUDA text show it. */
IrStmt *low_emit(Simple *s, IrKind kind) {
  return ir_add(s->k, s->out, kind, s->at);
}

/* The common half of let and var. */
static IrVar *define(Simple *s, IrVarKind kind, const char *name, IrExpr *value) {
  IrStmt *st = low_emit(s, IRK_LET);
  st->as.let.var = ir_var(s->k, kind, name, value->type);
  st->as.let.value = value;
  return st->as.let.var;
}

/* Keeps what is known of the value's range, so that later checks can be dropped. */
IrVar *low_emit_let(Simple *s, const char *name, IrExpr *value) {
  IrVar *v = define(s, IRV_LET, name, value);
  int64_t lo, hi;
  if (ir_range(value, &lo, &hi)) {
    v->lo = lo;
    v->hi = hi;
  }
  return v;
}

IrVar *low_emit_var(Simple *s, const char *name, IrExpr *value) {
  return define(s, IRV_MUT, name, value);
}

void low_emit_set(Simple *s, IrVar *var, IrExpr *value) {
  IrStmt *st = low_emit(s, IRK_SET);
  st->as.let.var = var;
  st->as.let.value = value;
}

/* Bounds are checked before, where they must be; the access itself never is. */
void low_load_to(Simple *s, IrVar *var, IrAccess a) {
  IrStmt *st = low_emit(s, IRK_LOAD);
  a.check = false;
  st->as.access.var = var;
  st->as.access.at = a;
}

/* A fresh variable for the element. */
IrVar *low_emit_load(Simple *s, const char *name, IrAccess a) {
  IrVar *v = ir_var(s->k, IRV_LET, name, a.buf->dtype);
  low_load_to(s, v, a);
  return v;
}

void low_emit_store(Simple *s, IrAccess a, IrExpr *value) {
  IrStmt *st = low_emit(s, IRK_STORE);
  a.check = false;
  st->as.access.at = a;
  st->as.access.value = value;
}

/* Barriers and fences. */
void low_emit_op(Simple *s, OpCode op) {
  low_emit(s, IRK_OP)->as.op = (IrOp){op, NULL, 0};
}

IrStmt *low_emit_if(Simple *s, IrExpr *cond) {
  IrStmt *st = low_emit(s, IRK_IF);
  st->as.if_.cond = cond;
  return st;
}

/* The pair of `enter` and entering what it returned replaces a stack. */
IrBlock *low_enter(Simple *s, IrBlock *into) {
  IrBlock *before = s->out;
  s->out = into;
  return before;
}

/* Bounds of a loop's index, where its own are known. */
void low_index_range(IrVar *v, const IrExpr *lo, const IrExpr *hi, const IrExpr *step) {
  int64_t a, b, c, d, e, f;
  if (!ir_range(lo, &a, &b) || !ir_range(hi, &c, &d) || !ir_range(step, &e, &f) || e <= 0)
    return;
  v->lo = a;
  v->hi = d > a ? d - 1 : a;
}

void low_let_range(IrVar *v, const IrExpr *value) {
  int64_t lo, hi;
  bool open = v->kind == IRV_LET && v->lo == IR_NO_RANGE_LO && v->hi == IR_NO_RANGE_HI;
  if (!open || !ir_range(value, &lo, &hi))
    return;
  v->lo = lo;
  v->hi = hi;
}

/* The loop is empty; the caller enters its body. */
IrVar *low_emit_for(Simple *s, const char *name, IrExpr *lo, IrExpr *hi, IrExpr *step,
                    IrStmt **loop) {
  IrStmt *st = low_emit(s, IRK_FOR);
  IrVar *v = ir_var(s->k, IRV_INDEX, name, lo->type);
  st->as.loop = (IrFor){.index = v, .lo = lo, .hi = hi, .step = step};
  low_index_range(v, lo, hi, step);
  *loop = st;
  return v;
}

/* The thread that acts where the block acts once. */
IrExpr *low_is_first(Simple *s) {
  return ir_op2(s->k, OP_EQ, ir_ref(s->k, s->tid), ir_int_of(s->k, DT_I32, 0));
}

/* ---------------------------------------------------------------- control */

static void lower_block(Simple *s, const IrBlock *in, IrBlock *out);

/* `return` while the block's threads still have other blocks to run: leave loop after loop. */
static void leave_loop(Simple *s) {
  IrBlock *before = low_enter(s, &low_emit_if(s, ir_ref(s->k, s->left))->as.if_.then);
  low_emit(s, s->loops ? IRK_BREAK : IRK_CONTINUE);
  low_enter(s, before);
}

/* A return inside a map does not exist. */
static bool finds_return(IrStmt *st, void *ctx) {
  *(bool *)ctx |= st->kind == IRK_RETURN;
  return true;
}

/* Whether a loop can be left by `return`, so that those around it must be left too. */
static bool has_return(IrStmt *st) {
  bool found = false;
  IrBlock *inner;
  for (int i = 0; (inner = ir_nested(st, i)); i++)
    ir_walk(inner, finds_return, &found);
  return found;
}

/* With slabs `return` is a way out of loops, one after the other. */
static void after_loop(Simple *s, IrStmt *st) {
  if (s->slot && s->left && has_return(st))
    leave_loop(s);
}

/* All threads leave together and with nothing held: what follows starts clean. */
static void lower_jump(Simple *s, const IrStmt *st) {
  if (!s->in_map)
    low_flush(s);
  if (st->kind == IRK_RETURN && s->left) {
    low_emit_set(s, s->left, ir_bool(s->k, true));
    low_emit(s, s->loops ? IRK_BREAK : IRK_CONTINUE);
    return;
  }
  low_emit(s, st->kind);
}

/* A step of zero would never end. Nothing after the fault is computed. */
static void check_step(Simple *s, const IrFor *f) {
  int64_t c;
  if (ir_is_const(f->step, &c) && c != 0)
    return;
  IrExpr *zero = ir_int_of(s->k, f->step->type, 0), *bad = ir_op2(s->k, OP_EQ, f->step, zero);
  Span at = s->at;
  s->at = f->step_span.file ? f->step_span : at;
  low_emit_fault(s, bad, (IrSite){E0454, "the step of this loop is 0"}, zero, zero);
  s->at = at;
  IrBlock *before = low_enter(s, &low_emit_if(s, bad)->as.if_.then);
  low_emit(s, IRK_RETURN);
  low_enter(s, before);
}

/* The program's index where the loop counts by another. */
static void bind_index(Simple *s, IrVar *v, IrExpr *value, IrBlock *body) {
  IrBlock *before = low_enter(s, body);
  IrStmt *let = low_emit(s, IRK_LET);
  v->kind = IRV_LET;
  let->as.let.var = v;
  let->as.let.value = value;
  low_enter(s, before);
}

/* Knobs of the schedule mean nothing here; the order of iterations is the program's. */
static void lower_for(Simple *s, IrStmt *st) {
  IrFor f = st->as.loop;
  check_step(s, &f);
  IrExpr *index = f.loop == IRF_PERSISTENT ? low_share_out(s, &f) : NULL;
  low_index_range(f.index, f.lo, f.hi, f.step);
  if (!(f.loop == IRF_UNROLL && s->in_map))
    f.loop = IRF_SERIAL;
  f.stages = f.loop == IRF_UNROLL ? f.stages : 0;
  IrStmt *out = low_emit(s, IRK_FOR);
  out->as.loop = f;
  out->as.loop.body = (IrBlock){0};
  size_t n = s->held.n;
  uint8_t *before = arena_copy(s->arena, s->held.v, n);
  s->loops++;
  if (index)
    bind_index(s, st->as.loop.index, index, &out->as.loop.body);
  lower_block(s, &st->as.loop.body, &out->as.loop.body);
  s->loops--;
  for (size_t i = 0; i < n; i++)
    s->held.v[i] |= before[i]; /* the loop may run no iteration */
  after_loop(s, st);
}

/* The condition's block runs before each test, so it starts with nothing held. */
static void lower_while(Simple *s, IrStmt *st) {
  if (!s->in_map)
    low_flush(s);
  IrStmt *out = low_emit(s, IRK_WHILE);
  out->as.while_.cond = st->as.while_.cond;
  s->loops++;
  lower_block(s, &st->as.while_.cond_block, &out->as.while_.cond_block);
  IrBlock *before = low_enter(s, &out->as.while_.cond_block);
  low_check_cond(s, st->as.while_.cond);
  low_enter(s, before);
  lower_block(s, &st->as.while_.body, &out->as.while_.body);
  s->loops--;
  after_loop(s, st);
}

/* What either branch holds is held after it. */
static void lower_if(Simple *s, IrStmt *st) {
  size_t n = s->held.n;
  uint8_t *before = arena_copy(s->arena, s->held.v, n);
  IrStmt *out = low_emit(s, IRK_IF);
  out->as.if_.cond = st->as.if_.cond;
  lower_block(s, &st->as.if_.then, &out->as.if_.then);
  uint8_t *after = arena_copy(s->arena, s->held.v, s->held.n);
  size_t nafter = s->held.n;
  for (size_t i = 0; i < s->held.n; i++)
    s->held.v[i] = i < n ? before[i] : 0;
  lower_block(s, &st->as.if_.other, &out->as.if_.other);
  for (size_t i = 0; i < nafter; i++)
    s->held.v[i] |= after[i];
}

/* ---------------------------------------------------------------- reports and declarations */

/* Printing reads, so what wrote the tile must be done. */
static void note_printed(IrBuffer **b, unsigned how, void *ctx) {
  low_note_buffer(ctx, *b, how);
}

/* A tile prints whole, from where it lies; one in scratch lies in another shape. */
static bool can_print(Simple *s, const IrReport *r) {
  for (int i = 0; i < r->nparts; i++)
    if (r->part[i].region && low_place_of(s, r->part[i].region->buf)->spilled)
      return false;
  return true;
}

/* An assertion is each thread's (the first fault is kept); a line is printed once. */
static void lower_report(Simple *s, IrStmt *st) {
  if (!can_print(s, &st->as.report)) {
    low_fail(s, E0712, "this tile lies in global scratch, where it cannot be printed");
    return;
  }
  if (s->in_map) {
    low_emit(s, IRK_REPORT)->as.report = st->as.report;
    return;
  }
  IrVisitor v = {NULL, NULL, note_printed, s};
  ir_visit(st, &v);
  low_fence(s);
  bool all = st->as.report.kind == IRP_ASSERT; /* every thread finds the same */
  IrBlock *before = all ? s->out : low_enter(s, &low_emit_if(s, low_is_first(s))->as.if_.then);
  low_emit(s, IRK_REPORT)->as.report = st->as.report;
  low_enter(s, before);
}

/* Spilled tiles are parameters; the others say their offset here. */
static void lower_alloc(Simple *s, const IrStmt *st) {
  IrBuffer *b = st->as.alloc;
  if (low_place_of(s, b)->frag) {
    low_emit(s, IRK_ALLOC)->as.alloc = low_place_of(s, b)->home;
    return;
  }
  if (!low_place_of(s, b)->operand)
    b->layout = NULL; /* a statement about speed; row-major serves */
  b->unchecked |= s->k->unchecked;
  if (low_place_of(s, b)->spilled)
    return;
  if (b->space == IRS_SHARED)
    low_take_bytes(s, b);
  IrBuffer *home = low_place_of(s, b)->home;
  low_emit(s, IRK_ALLOC)->as.alloc = home ? home : b;
  if (b->arrivals)
    low_init_barriers(s, b);
}

/* Block level and the bodies of maps alike; in_map tells them apart. */
static void lower_stmt(Simple *s, IrStmt *st) {
  s->at = st->span;
  low_check_exprs(s, st);
  if (s->registers && expand_stmt(s, st))
    return;
  switch (st->kind) {
  case IRK_LET:
    expand_learn(s, st->as.let.var, st->as.let.value);
    low_let_range(st->as.let.var, st->as.let.value);
    low_emit(s, st->kind)->as.let = st->as.let;
    break;
  case IRK_SET:
    low_emit(s, st->kind)->as.let = st->as.let;
    break;
  case IRK_FOR:
    lower_for(s, st);
    break;
  case IRK_WHILE:
    lower_while(s, st);
    break;
  case IRK_IF:
    lower_if(s, st);
    break;
  case IRK_BREAK:
  case IRK_CONTINUE:
  case IRK_RETURN:
    lower_jump(s, st);
    break;
  case IRK_LOAD:
    low_load(s, st);
    break;
  case IRK_STORE:
    low_store(s, st);
    break;
  case IRK_ATOMIC:
    if (st->as.atomic.region)
      low_tile(s, st);
    else
      low_atomic(s, st);
    break;
  case IRK_REPORT:
    lower_report(s, st);
    break;
  case IRK_ALLOC:
    lower_alloc(s, st);
    break;
  case IRK_MAP:
    low_map(s, st);
    break;
  case IRK_ROLES:
    low_author_roles(s, st);
    break;
  case IRK_ARRIVE:
    low_arrive(s, &st->as.barrier.at);
    break;
  case IRK_AWAIT:
    low_await(s, st);
    break;
  default:
    low_tile(s, st);
  }
}

/* Also a block's statements: what differs is `in_map`. */
void low_points(Simple *s, const IrBlock *in) {
  for (size_t i = 0; i < in->n; i++)
    lower_stmt(s, in->v[i]);
}

/* Behind a jump nothing is reached, so no barrier stands there. */
static bool ends_in_jump(const IrBlock *b) {
  return b->n && b->v[b->n - 1]->kind >= IRK_BREAK && b->v[b->n - 1]->kind <= IRK_RETURN;
}

/* A nested block. A loop's body ends with nothing held, so that its next iteration starts so; a
 * block with tiles too, because its neighbours use the same bytes. */
static void lower_block(Simple *s, const IrBlock *in, IrBlock *out) {
  IrBlock *before = low_enter(s, out);
  low_points(s, in);
  if (!s->in_map && !ends_in_jump(in) && s->loops)
    low_flush(s);
  low_enter(s, before);
}

/* ---------------------------------------------------------------- the kernel */

/* The program's grid, which slabs replace by one of slots. */
typedef struct Grid {
  int rank;
  IrExpr *extent[3];
  IrVar *index[3];
} Grid;

/* Linear index of a block, first axis fastest, and the number of blocks. */
static void number_blocks(Simple *s) {
  IrKernel *k = s->k;
  s->block = ir_int(k, 0);
  s->blocks = ir_int(k, 1);
  for (int i = 0; i < k->grid_rank; i++) {
    IrExpr *index = ir_cast(k, ir_ref(k, k->grid_index[i]), DT_I64);
    s->block = ir_op2(k, OP_ADD, s->block, ir_op2(k, OP_MUL, index, s->blocks));
    s->blocks = ir_op2(k, OP_MUL, s->blocks, k->grid[i]);
  }
}

/* With slabs the launch's blocks take turns at the program's blocks, whose indices are then
 * variables: the opened loop's body is entered. */
static void open_turns(Simple *s, const Grid *g, IrBlock *body) {
  IrKernel *k = s->k;
  IrStmt *loop;
  IrVar *turn = low_emit_for(s, "turn", ir_ref(k, s->slot), s->blocks, k->grid[0], &loop);
  low_enter(s, &loop->as.loop.body);
  IrExpr *rest = ir_ref(k, turn);
  for (int i = 0; i < g->rank; i++) {
    IrStmt *let = low_emit(s, IRK_LET);
    g->index[i]->kind = IRV_LET;
    let->as.let.var = g->index[i];
    let->as.let.value = i == g->rank - 1 ? rest : ir_op2(k, OP_MOD, rest, g->extent[i]);
    rest = ir_op2(k, OP_FLOORDIV, rest, g->extent[i]);
  }
  bool returns = false;
  ir_walk(body, finds_return, &returns);
  if (returns)
    s->left = low_emit_var(s, "left", ir_bool(k, false));
}

/* One block of the program, or turn after turn. */
static void lower_body(Simple *s, const Grid *g, IrBlock *body, IrBlock *out) {
  low_enter(s, out);
  s->at = s->k->span;
  if (s->slot)
    open_turns(s, g, body);
  if (s->registers)
    ring_open(s);
  low_points(s, body);
  if (s->slot)
    low_flush(s);
}

/* Declarations of the tiles through which threads tell each other come first. */
static void finish(Simple *s, const IrBlock *body) {
  IrKernel *k = s->k;
  IrBlock all = {0};
  for (size_t i = 0; i < s->start.n; i++)
    VEC_PUSH(k->arena, &all, s->start.v[i]);
  for (size_t i = 0; i < body->n; i++)
    VEC_PUSH(k->arena, &all, body->v[i]);
  k->body = all;
  k->shared_bytes = s->peak;
  k->level = IR_THREAD;
  ir_name_apart(k);
}

/* Index of the thread, of which there are so many from the first warp on. */
void low_number_threads(Simple *s) {
  IrExpr *first = ir_int_of(s->k, DT_I32, 32 * s->first_warp);
  s->tid =
      low_emit_let(s, "t", ir_op2(s->k, OP_SUB, ir_expr(s->k, OP_TID, DT_NONE, NULL, 0), first));
  s->tid->lo = 0;
  s->tid->hi = s->threads - 1;
}

/* The input stays as it is: everything happens in a clone. */
static IrKernel *lower(Arena *a, const IrKernel *from, const LowerRequest *r, bool registers,
                       DiagSink *sink) {
  enum { THREADS = 128 };
  IrKernel *k = ir_kernel_clone(a, from);
  if (registers)
    expand_settle_roles(k);
  Simple s = {.k = k, .request = r, .target = r->target, .sink = sink, .arena = a};
  s.registers = registers;
  int threads = k->threads ? k->threads : registers ? expand_threads(k) : THREADS;
  s.threads = k->threads = (threads + 31) / 32 * 32;
  s.spread = registers && expand_spread(k, r, s.threads);
  Grid g = {.rank = k->grid_rank};
  memcpy(g.extent, k->grid, sizeof g.extent);
  memcpy(g.index, k->grid_index, sizeof g.index);
  number_blocks(&s);
  if (!low_place_tiles(&s))
    return NULL;
  IrBlock body = k->body, out = {0};
  low_enter(&s, &s.start);
  low_number_threads(&s);
  lower_body(&s, &g, &body, &out);
  finish(&s, &out);
  return s.failed ? NULL : k;
}

IrKernel *low_simple(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink) {
  return lower(a, k, r, false, sink);
}

/* For ir_walk. */
static bool find_roles(IrStmt *st, void *ctx) {
  *(bool *)ctx |= st->kind == IRK_ROLES;
  return true;
}

IrKernel *low_expand(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink) {
  bool roles = false;
  ir_walk(&((IrKernel *)(uintptr_t)k)->body, find_roles, &roles);
  if (!roles || hopper_groups(k) || expand_author_roles(k))
    return lower(a, k, r, true, sink);
  lower_note(r, "registers: the program's roles stand inside other statements");
  return NULL;
}

/* Truthful because each tile-level kind means the same one level down. */
IrKernel *low_relabel(Arena *a, const IrKernel *k, const LowerRequest *r, DiagSink *sink) {
  (void)r;
  (void)sink;
  IrKernel *out = ir_kernel_clone(a, k);
  out->level = IR_SCHEDULED;
  return out;
}
