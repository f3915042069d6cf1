/* compile_stmt.c: scalars and control flow to bytecode.
 *
 * In: statements. Out: instructions. Inside a MAP and at thread level control may differ between
 * lanes: an `if` then makes masks, a loop keeps the mask of the lanes still in it, and leaving
 * takes lanes out of every mask up to the loop's. Where the condition is the same for all lanes
 * plain jumps remain. Always holds: code under an empty mask is jumped over.
 * Masks form a stack that follows the nesting of statements, so which mask is in force at an
 * instruction is known when it is compiled. A mask register holds a byte a lane and their number,
 * so that full and empty masks cost one comparison. Uniform conditions inside a MAP stay plain
 * jumps: most guards and most loops are that.
 * Tests: tests/unit/check_eval.c (control by lanes).
 */
#include "compile.h"
#include "sched.h"

/* ---------------------------------------------------------------- masks */

/* The innermost mask is the one in force. */
static void mask_push(Compiler *c, Reg m) {
  VEC_PUSH(c->arena, &c->masks, m);
  c->mask = m;
}

/* Back to the mask around a statement. */
static void masks_cut(Compiler *c, size_t depth) {
  c->masks.n = depth;
  c->mask = depth ? c->masks.v[depth - 1] : NO_REG;
}

/* Lanes that are on leave every mask above `depth`. */
static void masks_leave(Compiler *c, size_t depth) {
  for (size_t i = depth; i + 1 < c->masks.n; i++)
    eval_emit(c, (EvalInsn){.code = BC_MASK_REMOVE, .dst = c->masks.v[i], .src = {c->mask}});
  if (c->masks.n > depth)
    eval_emit(c, (EvalInsn){.code = BC_MASK_CLEAR, .dst = c->mask});
}

typedef struct ExitScan {
  Compiler *c;
  IrKind kind;
  int lane_ifs; /* conditions around that may differ between lanes */
  bool found;
} ExitScan;

/* Whether an `if` may part the lanes, judged before its variables are bound. */
static bool may_part(const Compiler *c, const IrStmt *s) {
  return !c->thread || s->as.if_.cond->uniform == IR_LANE_VARYING;
}

/* BREAK and CONTINUE of inner loops are those loops' affair; a RETURN leaves all. */
static void scan_exits(ExitScan *x, IrBlock *b) {
  for (size_t i = 0; i < b->n; i++) {
    IrStmt *s = b->v[i];
    if (s->kind == x->kind && x->lane_ifs)
      x->found = true;
    bool loop = s->kind == IRK_FOR || s->kind == IRK_WHILE || s->kind == IRK_MAP;
    if (loop && x->kind != IRK_RETURN)
      continue;
    bool parts = s->kind == IRK_IF && may_part(x->c, s);
    x->lane_ifs += parts;
    for (int n = 0; ir_nested(s, n); n++)
      scan_exits(x, ir_nested(s, n));
    x->lane_ifs -= parts;
  }
}

/* Asked before a loop is opened: whether it needs a mask of the lanes still in it. */
bool eval_has_lane_exit(Compiler *c, IrBlock *body, IrKind kind) {
  ExitScan x = {.c = c, .kind = kind};
  scan_exits(&x, body);
  return x.found;
}

/* ---------------------------------------------------------------- let, set */

/* The value in a register of its own, or in the value's register where that lasts as long. */
static Reg let_register(Compiler *c, IrExpr *e, bool lanes, bool own) {
  Reg from = lanes ? eval_value_lanes(c, e) : eval_value_one(c, e);
  if (!own && !e->reads_mut)
    return from;
  Reg r = eval_reg_new(c, lanes, dtype_compute_size(e->type), false);
  eval_emit(c, (EvalInsn){.code = lanes ? BC_MOVE_LANES : BC_MOVE_ONE,
                          .dst = r,
                          .src = {from},
                          .type = (uint8_t)e->type});
  if (lanes)
    eval_value_done(c, e);
  return r;
}

/* A variable outlives the statement that binds it. */
static void hold_in_block(Compiler *c, Reg r) {
  uint32_t depth = c->depth;
  c->depth = c->block_depth;
  eval_reg_hold(c, r);
  c->depth = depth;
}

/* Inside a MAP a `var` has lanes even where its first value is the same for all: SET may differ. */
static void compile_let(Compiler *c, IrStmt *s) {
  IrVar *v = s->as.let.var;
  IrExpr *e = s->as.let.value;
  bool mut = v->kind == IRV_MUT;
  bool lanes = eval_value_varies(c, e) || (mut && c->map) ||
               (c->thread && mut && v->uniform == IR_LANE_VARYING);
  Reg r = let_register(c, e, lanes, mut);
  if (mut || e->reads_mut)
    hold_in_block(c, r);
  eval_var_bind(c, v, r, lanes);
  if (!mut && c->map && !e->reads_mut)
    eval_var_value(c, v)->def = e;
}

/* Lanes that are off keep their value. */
static void compile_set(Compiler *c, IrStmt *s) {
  VarValue *v = eval_var_value(c, s->as.let.var);
  IrExpr *e = s->as.let.value;
  Reg to = v->reg;
  bool lanes = v->lanes;
  EvalInsn in = {.code = lanes ? BC_MOVE_LANES : BC_MOVE_ONE, .dst = to, .type = (uint8_t)e->type};
  if (!lanes && eval_value_varies(c, e)) {
    eval_unsupported(c, "setting a uniform variable to a value that differs between lanes");
    return;
  }
  in.src[0] = lanes ? eval_value_lanes(c, e) : eval_value_one(c, e);
  in.mask = c->mask;
  eval_emit(c, in);
  if (lanes)
    eval_value_done(c, e);
}

/* ---------------------------------------------------------------- if */

/* All lanes go the same way: jumps do. */
static void compile_if_uniform(Compiler *c, IrStmt *s) {
  Reg cond = eval_value_one(c, s->as.if_.cond);
  size_t skip = eval_emit(c, (EvalInsn){.code = BC_JUMP_UNLESS, .src = {cond}});
  c->uniform_ifs++;
  eval_compile_block(c, &s->as.if_.then);
  if (s->as.if_.other.n) {
    size_t end = eval_emit(c, (EvalInsn){.code = BC_JUMP});
    eval_patch(c, skip);
    eval_compile_block(c, &s->as.if_.other);
    eval_patch(c, end);
  } else {
    eval_patch(c, skip);
  }
  c->uniform_ifs--;
}

/* The mask m of the lanes that are on and meet the condition; returns the jump taken where there is
 * none. Where the corners of the strip decide the condition its values are not computed. */
static size_t mask_if(Compiler *c, IrExpr *cond, Reg m, Reg outer, size_t *decided) {
  EvalDecide *d = eval_compile_decide(c, cond);
  uint32_t block_depth = c->block_depth;
  eval_scope_open(c);
  c->block_depth = c->depth;
  if (d)
    *decided = eval_emit(c, (EvalInsn){.code = BC_DECIDE, .dst = m, .src = {outer}, .as.data = d});
  Reg lanes = eval_value_lanes(c, cond);
  size_t skip = eval_emit(c, (EvalInsn){.code = BC_MASK_AND, .dst = m, .src = {outer, lanes}});
  eval_value_done(c, cond);
  if (d)
    c->code->v[*decided].src[1] = (Reg)(skip - *decided);
  c->block_depth = block_depth;
  eval_scope_close(c);
  return skip;
}

/* Without an `else` the corners of the strip may decide the condition. */
static void compile_then(Compiler *c, IrStmt *s, Reg outer) {
  size_t depth = c->masks.n, decided = SIZE_MAX;
  Reg m = eval_reg_mask(c);
  size_t skip = mask_if(c, s->as.if_.cond, m, outer, &decided);
  mask_push(c, m);
  eval_compile_block(c, &s->as.if_.then);
  masks_cut(c, depth);
  eval_patch(c, skip);
  if (decided != SIZE_MAX)
    eval_patch(c, decided);
}

/* With an `else` both masks come from one condition, which must be there for the second. */
static void compile_if_lanes(Compiler *c, IrStmt *s) {
  Reg outer = c->mask;
  if (!s->as.if_.other.n) {
    compile_then(c, s, outer);
    return;
  }
  Reg cond = eval_value_lanes(c, s->as.if_.cond);
  size_t depth = c->masks.n;
  Reg m = eval_reg_mask(c);
  size_t skip = eval_emit(c, (EvalInsn){.code = BC_MASK_AND, .dst = m, .src = {outer, cond}});
  mask_push(c, m);
  eval_compile_block(c, &s->as.if_.then);
  masks_cut(c, depth);
  eval_patch(c, skip);
  /* Lanes that left in the first branch are no longer in `outer`. */
  skip = eval_emit(c, (EvalInsn){.code = BC_MASK_ANDNOT, .dst = m, .src = {outer, cond}});
  mask_push(c, m);
  eval_compile_block(c, &s->as.if_.other);
  masks_cut(c, depth);
  eval_patch(c, skip);
  eval_value_done(c, s->as.if_.cond);
}

/* After a statement in which lanes may have left: where none remain the rest is jumped over. */
static void leave_if_empty(Compiler *c) {
  if (c->mask == NO_REG)
    return;
  size_t at = eval_emit(c, (EvalInsn){.code = BC_JUMP_NONE, .src = {c->mask}});
  VEC_PUSH(c->arena, &c->exit->nexts, at);
}

/* Of any kind and depth: cheap, and a mask too many does no harm. */
static bool has_exit(IrBlock *b) {
  for (size_t i = 0; i < b->n; i++) {
    IrKind kind = b->v[i]->kind;
    if (kind == IRK_BREAK || kind == IRK_CONTINUE || kind == IRK_RETURN)
      return true;
    for (int n = 0; ir_nested(b->v[i], n); n++)
      if (has_exit(ir_nested(b->v[i], n)))
        return true;
  }
  return false;
}

/* Whether lanes can part is known here, where the condition's variables are bound. */
static void compile_if(Compiler *c, IrStmt *s) {
  if (!eval_value_varies(c, s->as.if_.cond)) {
    compile_if_uniform(c, s);
  } else {
    compile_if_lanes(c, s);
  }
  if (has_exit(&s->as.if_.then) || has_exit(&s->as.if_.other))
    leave_if_empty(c);
}

/* ---------------------------------------------------------------- break, continue, return */

/* From a masked loop the lanes leave; from a plain one everything jumps. */
static void compile_exit(Compiler *c, IrStmt *s) {
  Exit *x = c->exit;
  if (s->kind == IRK_RETURN)
    while (x->outer)
      x = x->outer;
  bool breaks = s->kind == IRK_BREAK;
  if (x->masked) {
    size_t depth = x->mask_depth;
    if (x->kind == EXIT_LOOP && !breaks)
      depth++; /* the loop's own mask keeps the lanes that go on */
    masks_leave(c, depth);
    return;
  }
  if (c->mask != x->plain_mask && s->kind != IRK_RETURN) {
    eval_unsupported(c, "leaving a uniform loop from a branch that only some lanes take");
    return;
  }
  if (s->kind == IRK_RETURN) {
    eval_emit(c, (EvalInsn){.code = BC_END});
    return;
  }
  size_t at = eval_emit(c, (EvalInsn){.code = BC_JUMP});
  if (breaks)
    VEC_PUSH(c->arena, &x->breaks, at);
  else
    VEC_PUSH(c->arena, &x->nexts, at);
}

/* ---------------------------------------------------------------- loops */

/* All of them go to the next instruction. */
static void patch_all(Compiler *c, size_t *v, size_t n) {
  for (size_t i = 0; i < n; i++)
    eval_patch(c, v[i]);
}

typedef struct LoopState {
  Exit exit;
  uint32_t loop_depth;
  bool continues;
} LoopState;

/* Opens a loop whose lanes may part if `masked`: its mask starts as the mask around it. */
static void loop_open(Compiler *c, LoopState *l, IrBlock *body, bool masked) {
  l->loop_depth = c->loop_depth;
  l->exit = (Exit){.outer = c->exit, .kind = EXIT_LOOP, .masked = masked};
  l->exit.mask_depth = c->masks.n;
  l->continues = masked && has_exit(body);
  if (masked) {
    l->exit.loop_mask = eval_reg_mask(c);
    eval_emit(c, (EvalInsn){.code = BC_MASK_COPY, .dst = l->exit.loop_mask, .src = {c->mask}});
    if (l->continues)
      l->exit.body_mask = eval_reg_mask(c);
    mask_push(c, l->exit.loop_mask);
  }
  c->exit = &l->exit;
}

/* CONTINUE leaves the body's mask, which each iteration starts anew from the loop's. */
static void loop_body(Compiler *c, LoopState *l, IrBlock *body) {
  if (l->continues) {
    eval_emit(
        c, (EvalInsn){.code = BC_MASK_COPY, .dst = l->exit.body_mask, .src = {l->exit.loop_mask}});
    mask_push(c, l->exit.body_mask);
  }
  l->exit.plain_mask = c->mask;
  c->loop_depth = c->depth + 1;
  eval_compile_stop(c);
  eval_compile_block(c, body);
  if (l->continues)
    masks_cut(c, c->masks.n - 1);
  patch_all(c, l->exit.nexts.v, l->exit.nexts.n);
}

/* Breaks arrive here; the mask around the loop is in force again. */
static void loop_close(Compiler *c, LoopState *l) {
  patch_all(c, l->exit.breaks.v, l->exit.breaks.n);
  masks_cut(c, l->exit.mask_depth);
  c->exit = l->exit.outer;
  c->loop_depth = l->loop_depth;
}

/* Only lanes can part; blocks at tile level cannot. */
static bool loop_parts(Compiler *c, IrBlock *body) {
  return eval_in_lanes(c) &&
         (eval_has_lane_exit(c, body, IRK_BREAK) || eval_has_lane_exit(c, body, IRK_CONTINUE) ||
          (c->exit->kind == EXIT_ROOT && c->exit->masked &&
           eval_has_lane_exit(c, body, IRK_RETURN)));
}

/* The bounds in registers that last as long as the loop. */
static Reg bound(Compiler *c, IrExpr *e, bool lanes) {
  Reg r = let_register(c, e, lanes, e->reads_mut);
  if (e->reads_mut)
    eval_reg_hold(c, r);
  return r;
}

/* Its fault is a step of 0, which the text has where the step stands. */
static size_t emit_at_step(Compiler *c, const IrFor *f, EvalInsn in) {
  Span span = c->span;
  if (f->step_span.file)
    c->span = f->step_span;
  size_t at = eval_emit(c, in);
  c->span = span;
  return at;
}

/* Each lane counts by itself; the loop ends when none is left. */
static void compile_for_lanes(Compiler *c, IrStmt *s) {
  IrFor *f = &s->as.loop;
  DType t = f->index->type;
  Reg lo = bound(c, f->lo, true), hi = bound(c, f->hi, true), step = bound(c, f->step, true);
  Reg index = eval_reg_new(c, true, dtype_compute_size(t), false);
  eval_reg_hold(c, index);
  eval_emit(c, (EvalInsn){.code = BC_MOVE_LANES, .dst = index, .src = {lo}, .type = (uint8_t)t});
  LoopState l;
  loop_open(c, &l, &f->body, true);
  eval_var_bind(c, f->index, index, true);
  size_t top = c->code->n;
  EvalInsn in = {.type = (uint8_t)t, .src = {index, hi, step}, .dst = l.exit.loop_mask};
  in.code = BC_LANES_FOR_TEST;
  size_t test = eval_emit(c, in);
  loop_body(c, &l, &f->body);
  in.code = BC_LANES_FOR_NEXT;
  in.dst = index;
  in.mask = l.exit.loop_mask;
  emit_at_step(c, f, in);
  eval_patch_to(c, eval_emit(c, (EvalInsn){.code = BC_BACK}), top);
  eval_patch(c, test);
  loop_close(c, &l);
}

/* One count for all; lanes may still leave early, by the loop's mask. */
static void compile_for_uniform(Compiler *c, IrStmt *s) {
  IrFor *f = &s->as.loop;
  DType t = f->index->type;
  Reg lo = bound(c, f->lo, false), hi = bound(c, f->hi, false), step = bound(c, f->step, false);
  Reg index = eval_reg_new(c, false, 8, false);
  eval_reg_hold(c, index);
  EvalInsn in = {.type = (uint8_t)t, .dst = index, .src = {lo, hi, step}};
  in.code = BC_FOR_START;
  emit_at_step(c, f, in);
  if (f->loop == IRF_PERSISTENT) {
    in.code = BC_SHARE;
    eval_emit(c, in);
  }
  LoopState l;
  loop_open(c, &l, &f->body, loop_parts(c, &f->body));
  eval_var_bind(c, f->index, index, false);
  size_t top = c->code->n, empty = 0;
  in.code = BC_FOR_TEST;
  size_t test = eval_emit(c, in);
  if (l.exit.masked)
    empty = eval_emit(c, (EvalInsn){.code = BC_JUMP_NONE, .src = {l.exit.loop_mask}});
  loop_body(c, &l, &f->body);
  in.code = BC_FOR_NEXT;
  in.as.imm = f->loop == IRF_PERSISTENT;
  size_t next = eval_emit(c, in);
  eval_patch_to(c, eval_emit(c, (EvalInsn){.code = BC_BACK}), top);
  eval_patch(c, test);
  eval_patch(c, next);
  if (l.exit.masked)
    eval_patch(c, empty);
  loop_close(c, &l);
}

/* Bounds that differ between lanes make the index differ too. */
static void compile_for(Compiler *c, IrStmt *s) {
  IrFor *f = &s->as.loop;
  bool lanes =
      eval_value_varies(c, f->lo) || eval_value_varies(c, f->hi) || eval_value_varies(c, f->step);
  if (lanes)
    compile_for_lanes(c, s);
  else
    compile_for_uniform(c, s);
}

/* This block's share of the grid's tiles, one after the other. */
static void compile_tile_loop(Compiler *c, IrStmt *s) {
  IrTileLoop *t = &s->as.tile_loop;
  struct SchedTiles *tiles = eval_compile_tiles(c, t);
  eval_emit(c, (EvalInsn){.code = BC_TILE_START, .as.data = tiles});
  LoopState l;
  loop_open(c, &l, &t->body, false);
  for (int i = 0; i < t->naxes; i++)
    if (t->index[i])
      eval_var_bind(c, t->index[i], tiles->index[i], false);
  size_t top = c->code->n;
  size_t test = eval_emit(c, (EvalInsn){.code = BC_TILE, .as.data = tiles});
  loop_body(c, &l, &t->body);
  eval_emit(c, (EvalInsn){.code = BC_TILE_NEXT, .as.data = tiles});
  eval_patch_to(c, eval_emit(c, (EvalInsn){.code = BC_BACK}), top);
  eval_patch(c, test);
  loop_close(c, &l);
}

/* ---------------------------------------------------------------- while */

static void compile_stmt(Compiler *c, IrStmt *s);

/* The condition's block is part of every iteration, and its variables live through the body. */
static void compile_while(Compiler *c, IrStmt *s) {
  IrWhile *w = &s->as.while_;
  bool parts = eval_in_lanes(c) && (loop_parts(c, &w->body) || loop_parts(c, &w->cond_block));
  /* Whether the condition parts the lanes is known only once its block is bound. */
  bool spin = !c->thread && !c->map && eval_spins(s);
  bool turn = spin || (!c->map && c->p->interleave && eval_asks(s));
  if (spin)
    c->p->in_order = c->p->orders = true;
  parts = parts || c->map || (c->thread && w->cond->uniform == IR_LANE_VARYING);
  LoopState l;
  loop_open(c, &l, &w->body, parts);
  size_t top = c->code->n;
  c->loop_depth = c->depth + 1;
  /* cond_block's variables live through the condition: its scope closes after it. */
  uint32_t block_depth = c->block_depth;
  eval_scope_open(c);
  c->block_depth = c->depth;
  c->waiting = spin;
  for (size_t i = 0; i < w->cond_block.n; i++)
    compile_stmt(c, w->cond_block.v[i]);
  c->waiting = false;
  eval_scope_open(c);
  c->serial++;
  size_t test;
  if (parts) {
    Reg cond = eval_value_lanes(c, w->cond);
    EvalInsn in = {.code = BC_MASK_AND, .dst = l.exit.loop_mask};
    in.src[0] = l.exit.loop_mask;
    in.src[1] = cond;
    test = eval_emit(c, in);
    eval_value_done(c, w->cond);
  } else {
    Reg cond = eval_value_one(c, w->cond);
    test = eval_emit(c, (EvalInsn){.code = BC_JUMP_UNLESS, .src = {cond}});
  }
  eval_scope_close(c);
  loop_body(c, &l, &w->body);
  eval_scope_close(c);
  c->block_depth = block_depth;
  eval_patch_to(c, eval_emit(c, (EvalInsn){.code = turn ? BC_SPIN_BACK : BC_BACK}), top);
  eval_patch(c, test);
  loop_close(c, &l);
}

/* ---------------------------------------------------------------- roles */

/* Warps of other roles jump over the body. */
static void compile_roles(Compiler *c, IrStmt *s) {
  if (!c->thread) {
    eval_compile_fork(c, s);
    return;
  }
  for (int i = 0; i < s->as.roles.nroles; i++) {
    IrRoleBody *r = &s->as.roles.role[i];
    size_t skip =
        eval_emit(c, (EvalInsn){.code = BC_ROLE, .src = {(Reg)r->warps}, .as.imm = r->first_warp});
    eval_compile_block(c, &r->body);
    eval_patch(c, skip);
  }
}

/* ---------------------------------------------------------------- statements */

/* Each statement has a scope: values of mutable variables end with it. */
static void compile_stmt(Compiler *c, IrStmt *s) {
  Span span = c->span;
  const EvalLive *live = c->live;
  if (s->span.file)
    c->span = s->span;
  eval_compile_stop(c);
  c->serial++;
  eval_scope_open(c);
  eval_compile_touch(c, s);
  switch (s->kind) {
  case IRK_LET:
    compile_let(c, s);
    break;
  case IRK_SET:
    compile_set(c, s);
    break;
  case IRK_FOR:
    compile_for(c, s);
    break;
  case IRK_WHILE:
    compile_while(c, s);
    break;
  case IRK_IF:
    compile_if(c, s);
    break;
  case IRK_BREAK:
  case IRK_CONTINUE:
  case IRK_RETURN:
    compile_exit(c, s);
    break;
  case IRK_LOAD:
    eval_compile_load(c, s);
    break;
  case IRK_STORE:
    eval_compile_store(c, s);
    break;
  case IRK_ATOMIC:
    eval_compile_atomic(c, s);
    break;
  case IRK_REPORT:
    eval_compile_report(c, s);
    break;
  case IRK_ALLOC:
    eval_compile_alloc(c, s);
    break;
  case IRK_MAP:
    eval_compile_map(c, s);
    break;
  case IRK_TILE_LOOP:
    compile_tile_loop(c, s);
    break;
  case IRK_ROLES:
    compile_roles(c, s);
    break;
  case IRK_OP:
    eval_compile_thread_op(c, s);
    break;
  default:
    eval_compile_tile_op(c, s);
    break;
  }
  eval_scope_close(c);
  c->span = span;
  if (ir_nested(s, 0))
    c->live = live; /* a loop's index ends with the loop */
}

/* What follows an exit in a block is never reached and is not compiled. */
void eval_compile_block(Compiler *c, IrBlock *b) {
  uint32_t block_depth = c->block_depth;
  const EvalLive *live = c->live;
  eval_scope_open(c);
  c->block_depth = c->depth;
  for (size_t i = 0; i < b->n && !c->failed; i++) {
    compile_stmt(c, b->v[i]);
    IrKind kind = b->v[i]->kind;
    if (kind == IRK_BREAK || kind == IRK_CONTINUE || kind == IRK_RETURN)
      break; /* nothing after it is reached */
  }
  c->live = live;
  c->block_depth = block_depth;
  eval_scope_close(c);
}
