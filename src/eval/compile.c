/* compile.c: a verified kernel to an EvalProgram.
 *
 * In: a kernel of any level. Out: bytecode, register layout, tile layout, in the caller's arena.
 * The code before `start` runs once a worker and fills registers that the launch fixes. Tests:
 * tests/unit/check_eval.c.
 * Two decisions are made here from the kernel alone: whether the order of its blocks can show
 * (`in_order`: then one thread runs them all, so that the result is the same every time), and
 * whether they may wait for each other (`interleave`). Registers of one element lie together at the
 * start of the frame, those of lanes behind them.
 */
#include <string.h>

#include "compile.h"

/* One diagnostic a kernel: what follows from it would only confuse. */
void eval_unsupported(Compiler *c, const char *what) {
  if (!c->failed)
    diag_add(c->sink, E0490, c->span, "the evaluator cannot do %s", what);
  c->failed = true;
}

/* ---------------------------------------------------------------- instructions */

/* Instructions of one statement share one entry. */
static uint32_t place_of(Compiler *c) {
  if (c->spans.n) {
    const Span *last = &c->spans.v[c->spans.n - 1];
    if (last->file == c->span.file && last->begin == c->span.begin && last->end == c->span.end)
      return (uint32_t)c->spans.n - 1;
  }
  VEC_PUSH(c->arena, &c->spans, c->span);
  return (uint32_t)c->spans.n - 1;
}

/* Appends to the code that is being written now and returns the instruction's number there. */
size_t eval_emit(Compiler *c, EvalInsn in) {
  EvalCodes *code = c->code;
  in.place = place_of(c);
  VEC_PUSH(c->arena, code, in);
  return code->n - 1;
}

/* Relative, so that pieces of code can be appended elsewhere. */
void eval_patch_to(Compiler *c, size_t at, size_t target) {
  c->code->v[at].jump = (int32_t)((int64_t)target - (int64_t)at);
}

/* The next instruction to be written is where it jumps. */
void eval_patch(Compiler *c, size_t at) {
  eval_patch_to(c, at, c->code->n);
}

/* ---------------------------------------------------------------- what a launch fixes */

/* A register that prepare_agent fills once a worker. */
static void bind_launch(Compiler *c, IrVar *v) {
  Reg r = eval_reg_new(c, false, 8, true);
  eval_var_bind(c, v, r, false);
  eval_var_value(c, v)->level = LEVEL_LAUNCH;
  c->p->var[v->id] = r;
}

/* All that a launch binds; grid indices differ from block to block. */
static void bind_variables(Compiler *c) {
  IrKernel *k = c->k;
  c->p->var = ARENA_ARRAY(c->arena, Reg, k->vars.n + 1);
  for (size_t i = 0; i < k->vars.n; i++) {
    IrVar *v = k->vars.v[i];
    if (v->kind == IRV_PARAM || v->kind == IRV_EXTENT || v->kind == IRV_STRIDE ||
        v->kind == IRV_SMS)
      bind_launch(c, v);
  }
  for (size_t i = 0; i < k->pre.n; i++)
    if (k->pre.v[i]->kind == IRK_LET)
      bind_launch(c, k->pre.v[i]->as.let.var);
  for (int i = 0; i < k->grid_rank; i++)
    if (k->grid_index[i]) {
      bind_launch(c, k->grid_index[i]);
      eval_var_value(c, k->grid_index[i])->level = LEVEL_BLOCK;
    }
}

/* ---------------------------------------------------------------- what the order of blocks decides
 */

/* Sums of floats depend on the order; the rest, with the old value unused, does not. */
static bool commutes(OpCode op, DType t) {
  switch (op) {
  case OP_ATOMIC_ADD:
    return !dtype_is_float(t);
  case OP_ATOMIC_MAX:
  case OP_ATOMIC_MIN:
  case OP_ATOMIC_AND:
  case OP_ATOMIC_OR:
  case OP_ATOMIC_XOR:
    return true;
  default:
    return false;
  }
}

/* An old value that is looked at tells one order of blocks from another. */
static bool scan_order(IrStmt *s, void *ctx) {
  Compiler *c = ctx;
  if (s->kind == IRK_REPORT && s->as.report.kind == IRP_PRINT)
    c->p->prints = true;
  if (s->kind != IRK_ATOMIC)
    return true;
  const IrBuffer *b = s->as.atomic.region ? s->as.atomic.dst.buf : s->as.atomic.at.buf;
  if (b->space == IRS_GLOBAL && (s->as.atomic.old || !commutes(s->as.atomic.op, b->dtype)))
    c->p->in_order = true;
  if (b->space == IRS_GLOBAL && s->as.atomic.old)
    c->p->orders = true;
  return true;
}

/* ---------------------------------------------------------------- layout */

/* Masks need room for their head besides a byte a lane. */
static void lay_out_frame(Compiler *c) {
  EvalProgram *p = c->p;
  p->nregs = c->nreg;
  p->home = ARENA_ARRAY(c->arena, size_t, c->nreg + 1);
  size_t at = 0;
  for (int pass = 0; pass < 2; pass++) /* single elements first: they share lines */
    for (size_t r = 1; r < c->nreg; r++)
      if (c->reg[r].lanes == (pass == 1)) {
        size_t lanes = (size_t)p->lanes << c->reg[r].size;
        if (pass && c->reg[r].size == 3)
          lanes = (lanes > 448 ? lanes : 448) + sizeof(EvalMask);
        if (pass)
          at = (at + 63) & ~(size_t)63;
        p->home[r] = at;
        at += pass ? lanes : 8;
      }
  for (int i = 0; i < p->narrays; i++) {
    EvalArrayInfo *a = &p->array[i];
    at = (at + 63) & ~(size_t)63;
    a->offset = at;
    at += (size_t)a->count * (size_t)p->lanes * dtype_compute_size(a->buf->dtype);
    a->written_offset = at;
    at += (size_t)a->count * (c->thread ? 1 : (size_t)p->lanes);
  }
  p->frame = (at + 127) & ~(size_t)63;
}

/* The code that runs once a worker comes first and ends with BC_NEXT_PHASE. */
static void join(Compiler *c, const EvalCodes *body) {
  EvalProgram *p = c->p;
  c->code = &c->init;
  eval_emit(c, (EvalInsn){.code = BC_NEXT_PHASE});
  p->start = (uint32_t)c->init.n;
  p->ncode = c->init.n + body->n;
  p->code = ARENA_ARRAY(c->arena, EvalInsn, p->ncode);
  memcpy(p->code, c->init.v, c->init.n * sizeof *p->code);
  memcpy(p->code + c->init.n, body->v, body->n * sizeof *p->code);
  p->span = c->spans.v;
  p->nspans = c->spans.n;
}

/* ---------------------------------------------------------------- the kernel */

/* Only a `return` that some lanes take needs a mask around everything. */
static void compile_body(Compiler *c) {
  Exit root = {.kind = EXIT_ROOT};
  c->exit = &root;
  eval_scope_open(c);
  if (c->thread && eval_has_lane_exit(c, &c->k->body, IRK_RETURN)) {
    root.masked = true;
    root.body_mask = eval_reg_mask(c);
    eval_emit(c, (EvalInsn){.code = BC_MASK_ALL, .dst = root.body_mask});
    VEC_PUSH(c->arena, &c->masks, root.body_mask);
    c->mask = root.body_mask;
  }
  root.plain_mask = c->mask;
  eval_compile_block(c, &c->k->body);
  for (size_t i = 0; i < root.nexts.n; i++)
    eval_patch(c, root.nexts.v[i]);
  eval_emit(c, (EvalInsn){.code = BC_END});
  eval_scope_close(c);
}

/* The kernel may gain expressions (sums of coordinates), never statements. */
static EvalProgram *compile(Arena *a, IrKernel *k, bool stops, DiagSink *sink) {
  Compiler *c = ARENA_NEW(a, Compiler);
  EvalProgram *p = ARENA_NEW(a, EvalProgram);
  EvalCodes body = {0};
  *c = (Compiler){.arena = a, .k = k, .sink = sink, .p = p, .stops = stops};
  c->span = k->span;
  c->code = &body;
  c->thread = k->level == IR_THREAD;
  c->nreg = 0;
  eval_reg_new(c, false, 8, true); /* NO_REG */
  p->arena = a;
  p->kernel = k;
  p->lanes = c->thread ? EVAL_WARP : EVAL_STRIP;
  p->agents = c->thread ? (k->threads + EVAL_WARP - 1) / EVAL_WARP : 1;
  p->tile = ARENA_ARRAY(a, EvalTileInfo, k->buffers.n + 1);
  p->interleave = k->cooperative;
  p->in_order = p->interleave;
  if (c->thread)
    ir_uniform(k); /* decides what is one element and what is one a lane */
  ir_walk(&k->body, scan_order, c);
  p->sched = k->level == IR_SCHEDULED;
  if (k->level == IR_TILE)
    ir_walk(&k->body, eval_sched_needed, &p->sched);
  bind_variables(c);
  p->live = c->live;
  eval_value_count_uses(c, &k->body);
  compile_body(c);
  join(c, &body);
  lay_out_frame(c);
  p->stop = c->stop_list.v;
  p->nstops = c->stop_list.n;
  return c->failed ? NULL : p;
}

EvalProgram *eval_compile(Arena *a, IrKernel *k, DiagSink *sink) {
  return compile(a, k, false, sink);
}

/* The same code with a BC_STOP before each statement. */
EvalProgram *eval_compile_stepped(Arena *a, IrKernel *k, DiagSink *sink) {
  return compile(a, k, true, sink);
}
