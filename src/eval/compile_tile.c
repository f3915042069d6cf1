/* compile_tile.c: tiles and tile operations to bytecode.
 *
 * In: ALLOC, MAP, COPY, REDUCE, SCAN, DOT, atomics of regions. Out: one instruction each with its
 * descriptor; a MAP becomes prologue, start, body, next. Tiles are laid out as a stack that follows
 * the scopes, so that tiles of separate scopes share memory.
 * A MAP's prologue holds what its body needs but cannot change: it runs once a MAP, not once a
 * strip. The body is compiled as if it ran once; that it runs for each strip is BC_MAP_NEXT's
 * affair.
 * Tests: tests/unit/check_eval.c, tests/unit/check_eval_tiles.c.
 */
#include <string.h>

#include "compile.h"
#include "sched.h"

/* Origins and stops become registers or constants; the rest is fixed. */
void eval_compile_region(Compiler *c, const IrRegion *r, EvalRegion *out) {
  memset(out, 0, sizeof *out);
  if (!r->buf)
    return;
  out->buf = r->buf->id;
  out->rank = r->buf->rank;
  out->trans = r->trans;
  out->span = r->span;
  for (int i = 0; i < out->rank; i++) {
    const IrAxis *a = &r->axis[i];
    EvalRegionAxis *x = &out->axis[i];
    x->origin = eval_value_int(c, a->origin);
    x->stop = a->stop ? eval_value_int(c, a->stop) : (EvalInt){NO_REG, INT64_MAX};
    x->extent = a->extent;
    x->step = a->step ? a->step : 1;
    x->keep = a->keep;
  }
}

/* ---------------------------------------------------------------- declarations */

/* Tile extents are constants (verifier). */
static int64_t tile_count(const IrBuffer *b) {
  int64_t n = 1;
  for (int i = 0; i < b->rank; i++) {
    int64_t extent = 0;
    ir_is_const(b->extent[i], &extent);
    n *= extent;
  }
  return n;
}

/* Tiles start on cache lines, so that blocks of other workers never share one. */
static size_t to_line(size_t n) {
  return (n + 63) & ~(size_t)63;
}

/* Nothing is cleared: only its state says that its elements are unwritten. */
void eval_compile_alloc(Compiler *c, IrStmt *s) {
  IrBuffer *b = s->as.alloc;
  if (b->space == IRS_LOCAL || b->space == IRS_REG) {
    int array = eval_compile_array(c, b);
    eval_emit(c, (EvalInsn){.code = BC_ARRAY_RESET, .mask = c->mask, .as.imm = array});
    return;
  }
  if (c->thread)
    return; /* its place is fixed; what lies there is the program's affair */
  eval_live_tile(c, b);
  /* It lasts as long as the block that declares it. */
  size_t n = (size_t)tile_count(b), bytes = n * dtype_compute_size(b->dtype);
  int stages = 1;
  eval_sched_channel_tile(c->k, b, &stages);
  EvalTileInfo *info = &c->p->tile[b->id];
  *info = (EvalTileInfo){c->tile_bytes, c->map_bytes, to_line(bytes) + 64, to_line(n)};
  c->tile_bytes += (size_t)stages * info->stage;
  c->map_bytes += (size_t)stages * info->map_stage;
  c->scope[c->depth].tile_bytes = c->tile_bytes; /* the statement's own scope gives nothing back */
  c->scope[c->depth].map_bytes = c->map_bytes;
  if (c->tile_bytes > c->p->tile_bytes)
    c->p->tile_bytes = c->tile_bytes;
  if (c->map_bytes > c->p->map_bytes)
    c->p->map_bytes = c->map_bytes;
  eval_emit(c, (EvalInsn){.code = b->arrivals ? BC_BARRIER : BC_ALLOC, .as.imm = b->id});
}

/* ---------------------------------------------------------------- map */

/* Arrays private to each iteration take room by lane: fewer lanes where they are large. */
static bool scan_locals(IrStmt *s, void *ctx) {
  int64_t *bytes = ctx;
  if (s->kind == IRK_ALLOC && s->as.alloc->space == IRS_LOCAL)
    *bytes += tile_count(s->as.alloc) * (int64_t)dtype_compute_size(s->as.alloc->dtype);
  return true;
}

/* 512 lanes keep a dozen registers in the first-level cache. */
static int64_t strip_of(IrMap *m) {
  int64_t bytes = 0, most = EVAL_STRIP;
  ir_walk(&m->body, scan_locals, &bytes);
  while (most > 16 && most * bytes > 65536)
    most /= 2;
  return most;
}

/* An index has lanes once something asks for it: most are only parts of coordinates. */
static void bind_axes(Compiler *c, IrMap *m) {
  for (int i = 0; i < m->naxes; i++) {
    eval_var_bind(c, m->index[i], NO_REG, true);
    eval_var_value(c, m->index[i])->axis = i;
  }
}

/* Jumps are relative: nothing needs mending. */
static void append(Compiler *c, const EvalCodes *more) {
  for (size_t i = 0; i < more->n; i++) {
    EvalCodes *code = c->code;
    VEC_PUSH(c->arena, code, more->v[i]);
  }
}

/* Body and prologue are written apart, because the body decides what the prologue must hold. */
void eval_compile_map(Compiler *c, IrStmt *s) {
  IrMap *m = &s->as.map;
  if (c->map) {
    eval_unsupported(c, "a parallel loop inside another");
    return;
  }
  EvalMapCode *x = ARENA_NEW(c->arena, EvalMapCode);
  EvalCodes prologue = {0}, body = {0}, *outer = c->code;
  x->naxes = m->naxes;
  x->parallel = m->parallel;
  x->strip = strip_of(m);
  for (int i = 0; i < m->naxes; i++)
    x->extent[i] = eval_value_int(c, m->extent[i]);
  Exit exit = {.outer = c->exit, .kind = EXIT_MAP};
  uint32_t loop_depth = c->loop_depth;
  int uniform_ifs = c->uniform_ifs;
  c->uniform_ifs = 0;
  c->map = s;
  c->map_code = x;
  c->prologue = &prologue;
  c->map_depth = c->depth; /* of the statement */
  c->code = &body;
  c->exit = &exit;
  c->loop_depth = c->depth + 1;
  bind_axes(c, m);
  if (eval_has_lane_exit(c, &m->body, IRK_CONTINUE)) {
    exit.masked = true;
    exit.body_mask = eval_reg_mask(c);
    eval_emit(c, (EvalInsn){.code = BC_MASK_ALL, .dst = exit.body_mask});
    VEC_PUSH(c->arena, &c->masks, exit.body_mask);
    c->mask = exit.body_mask;
  }
  exit.plain_mask = c->mask;
  eval_compile_block(c, &m->body);
  for (size_t i = 0; i < exit.nexts.n; i++)
    eval_patch(c, exit.nexts.v[i]);
  c->masks.n = 0;
  c->mask = NO_REG;
  eval_emit(c, (EvalInsn){.code = BC_MAP_NEXT, .jump = -(int32_t)body.n});
  eval_compile_races(c);
  c->exit = exit.outer;
  c->loop_depth = loop_depth;
  c->uniform_ifs = uniform_ifs;
  c->map = NULL;
  c->map_code = NULL;
  c->prologue = NULL;
  c->code = outer;
  append(c, &prologue);
  eval_emit(c, (EvalInsn){.code = BC_MAP, .as.data = x, .jump = (int32_t)body.n + 1});
  append(c, &body);
}

/* ---------------------------------------------------------------- the others */

/* The pad has the source's type and is converted once. */
static void compile_copy(Compiler *c, IrStmt *s) {
  EvalCopyCode *x = ARENA_NEW(c->arena, EvalCopyCode);
  eval_compile_region(c, &s->as.copy.dst, &x->dst);
  eval_compile_region(c, &s->as.copy.src, &x->src);
  if (s->as.copy.pad) {
    x->pad = eval_value_one(c, ir_cast(c->k, s->as.copy.pad, s->as.copy.dst.buf->dtype));
    x->pad_type = s->as.copy.dst.buf->dtype;
  }
  eval_emit(c, (EvalInsn){.code = BC_COPY, .as.data = x});
  if (s->as.copy.signal.buf)
    eval_compile_signal(c, &s->as.copy.signal);
}

/* A scalar result lives in a register like any `let`. */
static void compile_reduce(Compiler *c, IrStmt *s) {
  IrReduce *r = &s->as.reduce;
  EvalReduceCode *x = ARENA_NEW(c->arena, EvalReduceCode);
  x->op = r->op;
  x->axis = r->axis;
  x->type = r->src.buf->dtype;
  eval_compile_region(c, &r->src, &x->src);
  eval_compile_region(c, &r->dst, &x->dst);
  if (r->scalar) {
    uint32_t depth = c->depth;
    c->depth = c->block_depth;
    x->scalar = eval_reg_new(c, false, 8, false);
    eval_reg_hold(c, x->scalar);
    c->depth = depth;
    eval_var_bind(c, r->scalar, x->scalar, false);
  }
  eval_emit(c, (EvalInsn){.code = BC_REDUCE, .as.data = x});
}

/* Elements go forward or backward along the axis, each result with or without its own. */
static void compile_scan(Compiler *c, IrStmt *s) {
  IrScan *r = &s->as.scan;
  EvalScanCode *x = ARENA_NEW(c->arena, EvalScanCode);
  x->op = r->op;
  x->axis = r->axis;
  x->reverse = r->reverse;
  x->exclusive = r->exclusive;
  eval_compile_region(c, &r->src, &x->src);
  eval_compile_region(c, &r->dst, &x->dst);
  eval_emit(c, (EvalInsn){.code = BC_SCAN, .as.data = x});
}

/* Options that only steer a GPU do not change the result here. */
static void compile_dot(Compiler *c, IrStmt *s) {
  IrDot *d = &s->as.dot;
  EvalDotCode *x = ARENA_NEW(c->arena, EvalDotCode);
  eval_compile_region(c, &d->a, &x->a);
  eval_compile_region(c, &d->b, &x->b);
  eval_compile_region(c, &d->c, &x->c);
  x->accumulate = d->accumulate;
  x->promote = d->promote;
  x->tf32 = d->tf32;
  eval_emit(c, (EvalInsn){.code = d->async ? BC_DOT_ASYNC : BC_DOT, .as.data = x});
}

/* One atomic an element of the region. */
static void compile_atomic_region(Compiler *c, IrStmt *s) {
  EvalAtomicRegion *x = ARENA_NEW(c->arena, EvalAtomicRegion);
  IrAtomic *a = &s->as.atomic;
  x->op = a->op;
  eval_compile_region(c, &a->dst, &x->dst);
  eval_compile_region(c, &a->src, &x->src);
  eval_compile_combine(c, a->op, a->dst.buf->dtype, x->combine);
  eval_emit(c, (EvalInsn){.code = BC_ATOMIC_REGION, .as.data = x});
}

/* A relayout moves a tile to another place in registers: here it is a copy. */
static void compile_relayout(Compiler *c, IrStmt *s) {
  EvalCopyCode *x = ARENA_NEW(c->arena, EvalCopyCode);
  eval_compile_region(c, &s->as.relayout.dst, &x->dst);
  eval_compile_region(c, &s->as.relayout.src, &x->src);
  eval_emit(c, (EvalInsn){.code = BC_COPY, .as.data = x});
}

/* Tile operations belong to the whole block. */
void eval_compile_tile_op(Compiler *c, IrStmt *s) {
  if (eval_in_lanes(c)) {
    eval_unsupported(c, "a tile operation here");
    return;
  }
  switch (s->kind) {
  case IRK_COPY:
    compile_copy(c, s);
    break;
  case IRK_REDUCE:
    compile_reduce(c, s);
    break;
  case IRK_SCAN:
    compile_scan(c, s);
    break;
  case IRK_DOT:
    compile_dot(c, s);
    break;
  case IRK_ATOMIC:
    compile_atomic_region(c, s);
    break;
  case IRK_RELAYOUT:
    compile_relayout(c, s);
    break;
  default:
    if (!eval_compile_scheduled(c, s))
      eval_unsupported(c, "this statement");
  }
}
