/* simple_access.c: elements read and written by a block, and by its threads.
 *
 * In: LOAD, STORE, ATOMIC of elements. Out: inside a parallel loop the access of each thread; at
 * block level one access for the block: where all threads would read the same whenever they come,
 * all read, else thread 0 acts and tells the others through a shared tile of one element. Always
 * holds: an access outside its tensor is recorded and does not happen; what was to be read is then
 * zero. Tests: tests/unit/check_lower.c.
 */
#include "expand.h"

/* ---------------------------------------------------------------- one thread tells the others */

/* Declared before everything, behind the program's tiles: its bytes are nobody else's. */
static IrBuffer *once_tile(Simple *s, DType t) {
  if (s->once[t])
    return s->once[t];
  IrExpr *one = ir_int(s->k, 1);
  const char *name = arena_printf(s->arena, "once_%s", dtype_name(t));
  IrBuffer *b = ir_buffer(s->k, IRS_SHARED, name, t, 1, &one);
  b->offset = s->peak;
  s->peak += 16;
  ir_add(s->k, &s->start, IRK_ALLOC, s->k->span)->as.alloc = b;
  return s->once[t] = b;
}

/* Two barriers at most: one if the slot is still being read, one before it is read again. */
void low_broadcast(Simple *s, IrVar *var, IrExpr *(*then)(Simple *s, void *ctx), void *ctx) {
  IrBuffer *b = once_tile(s, var->type);
  IrExpr *zero = ir_int_of(s->k, DT_I32, 0);
  low_note_buffer(s, b, IR_WRITES);
  low_fence(s);
  IrBlock *before = low_enter(s, &low_emit_if(s, low_is_first(s))->as.if_.then);
  IrExpr *value = then(s, ctx);
  low_emit_store(s, low_access_at(s, b, &zero), value);
  low_enter(s, before);
  low_note_buffer(s, b, IR_READS);
  low_fence(s);
  low_load_to(s, var, low_access_at(s, b, &zero));
}

/* ---------------------------------------------------------------- element accesses */

/* Loads into var; where an index is outside, var becomes a `var` that stays zero. */
static void load_checked(Simple *s, IrVar *var, const IrAccess *a) {
  IrExpr *bad = low_check_access(s, a);
  IrAccess at = low_access_at(s, a->buf, a->index);
  if (!bad) {
    low_load_to(s, var, at);
    return;
  }
  Scalar zero = {.type = DT_I64};
  var->kind = IRV_MUT;
  IrStmt *let = low_emit(s, IRK_LET);
  let->as.let.var = var;
  let->as.let.value = ir_const(s->k, scalar_convert(zero, var->type));
  IrBlock *before = low_enter(s, &low_emit_if(s, ir_op1(s->k, OP_NOT, bad))->as.if_.then);
  low_emit_set(s, var, ir_ref(s->k, low_emit_load(s, "element", at)));
  low_enter(s, before);
}

/* By thread 0, which then tells the others. */
static IrExpr *load_once(Simple *s, void *ctx) {
  const IrStmt *st = ctx;
  IrVar *v = ir_var(s->k, IRV_LET, "element", st->as.access.var->type);
  load_checked(s, v, &st->as.access.at);
  if (s->k->cooperative)
    low_emit_op(s, OP_MEMBAR); /* what the other block wrote before this element is seen after it */
  return ir_ref(s->k, v);
}

/* Whether all threads that read an element at one place see the same, however long they take. */
static bool steady(Simple *s, const IrBuffer *b) {
  b = low_place_of(s, b)->home ? low_place_of(s, b)->home : b;
  return b->space != IRS_GLOBAL || b->role == IRR_IN;
}

/* A block-level load happens once, or gives all threads the same whenever they read. */
void low_load(Simple *s, IrStmt *st) {
  low_note_buffer(s, st->as.access.at.buf, IR_READS);
  if (s->in_map) {
    load_checked(s, st->as.access.var, &st->as.access.at);
    return;
  }
  if (!steady(s, st->as.access.at.buf)) {
    low_broadcast(s, st->as.access.var, load_once, st);
    return;
  }
  low_fence(s);
  load_checked(s, st->as.access.var, &st->as.access.at);
}

/* Outside: recorded, and nothing is stored. */
static void store_checked(Simple *s, const IrStmt *st) {
  IrExpr *bad = low_check_access(s, &st->as.access.at);
  IrAccess at = low_access_at(s, st->as.access.at.buf, st->as.access.at.index);
  IrExpr *ok = bad ? ir_op1(s->k, OP_NOT, bad) : NULL;
  bool memory = at.buf->space == IRS_GLOBAL || at.buf->space == IRS_SHARED;
  if (s->point && memory && !s->point->one) /* one of the threads that hold the same */
    ok = low_both(s, ok, expand_is_owner(s, s->point->frag));
  IrBlock *before = low_enter_if(s, ok);
  low_emit_store(s, at, st->as.access.value);
  low_enter(s, before);
}

/* Block level: once, by thread 0. */
void low_store(Simple *s, IrStmt *st) {
  if (s->in_map) {
    store_checked(s, st);
    return;
  }
  low_note_buffer(s, st->as.access.at.buf, IR_WRITES);
  low_fence(s);
  IrBlock *before = low_enter(s, &low_emit_if(s, low_is_first(s))->as.if_.then);
  store_checked(s, st);
  low_enter(s, before);
}

/* ---------------------------------------------------------------- atomics */

/* Fences of the device around it: what this block did before is seen by who sees the atomic, and
 * what others did before theirs is seen after. */
static void atomic_fenced(Simple *s, const IrAtomic *a, IrVar *old) {
  bool global = low_access_at(s, a->at.buf, a->at.index).buf->space == IRS_GLOBAL;
  if (global)
    low_emit_op(s, OP_MEMBAR);
  IrStmt *st = low_emit(s, IRK_ATOMIC);
  st->as.atomic = *a;
  st->as.atomic.old = old;
  st->as.atomic.at = low_access_at(s, a->at.buf, a->at.index);
  if (global)
    low_emit_op(s, OP_MEMBAR);
}

/* Where an index is outside, nothing happens and the old value reads as zero. */
static void atomic_checked(Simple *s, const IrAtomic *a, IrVar *old) {
  IrExpr *bad = low_check_access(s, &a->at);
  if (!bad) {
    atomic_fenced(s, a, old);
    return;
  }
  Scalar zero = {.type = DT_I64};
  if (old) {
    old->kind = IRV_MUT;
    IrStmt *let = low_emit(s, IRK_LET);
    let->as.let.var = old;
    let->as.let.value = ir_const(s->k, scalar_convert(zero, old->type));
  }
  IrBlock *before = low_enter(s, &low_emit_if(s, ir_op1(s->k, OP_NOT, bad))->as.if_.then);
  IrVar *inner = old ? ir_var(s->k, IRV_LET, "element", old->type) : NULL;
  atomic_fenced(s, a, inner);
  if (old)
    low_emit_set(s, old, ir_ref(s->k, inner));
  low_enter(s, before);
}

/* The old value goes to all threads, as a block-level scalar is everyone's. */
static IrExpr *atomic_once(Simple *s, void *ctx) {
  const IrAtomic *a = ctx;
  IrVar *v = ir_var(s->k, IRV_LET, "before", a->at.buf->dtype);
  atomic_checked(s, a, v);
  return ir_ref(s->k, v);
}

/* Once a block, after everything that the block did before it. */
void low_atomic(Simple *s, IrStmt *st) {
  IrAtomic *a = &st->as.atomic;
  if (s->in_map) {
    atomic_checked(s, a, a->old);
    return;
  }
  low_flush(s); /* everything that the block did is done before it */
  low_note_buffer(s, a->at.buf, IR_READS | IR_WRITES);
  if (a->old) {
    low_broadcast(s, a->old, atomic_once, a);
    return;
  }
  low_fence(s);
  IrBlock *before = low_enter(s, &low_emit_if(s, low_is_first(s))->as.if_.then);
  atomic_checked(s, a, NULL);
  low_enter(s, before);
}
