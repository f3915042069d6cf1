/* roles.c: pass: one warpgroup loads, the others compute.
 *
 * In: a scheduled kernel with channels, the program of one role. Out: ROLES: a producer with the
 * copies into channels and the control and addresses that these need, consumers with the rest.
 * Always holds: what the producer runs depends on parameters, indices and inputs that nobody
 * writes; each role defines variables of its own. Tests: tests/unit/check_schedule.c.
 */
#include "sched.h"

/* Elements that two warpgroups add to, and that they keep of chained products. */
enum { WIDE_PART = 128 * 176, WIDE_CHAIN = 128 * 352 };

static bool is_fill(const IrStmt *s) {
  return s->kind == IRK_ACQUIRE || s->kind == IRK_COMMIT ||
         (s->kind == IRK_COPY && s->as.copy.engine == IRE_TMA &&
          s->as.copy.dst.buf->space == IRS_SHARED);
}

static bool find_fill(IrStmt *s, void *ctx) {
  *(bool *)ctx |= is_fill(s);
  return true;
}

static bool has_fill(IrStmt *s) {
  IrBlock one = {&s, 1, 1};
  bool found = false;
  ir_walk(&one, find_fill, &found);
  return found;
}

/* ---------------------------------------------------------------- what cannot be split */

/* Jumps and loops with a condition depend on what only the consumer knows. */
static bool find_jump(IrStmt *s, void *ctx) {
  if (s->kind == IRK_MAP)
    return false;
  *(bool *)ctx |= s->kind == IRK_BREAK || s->kind == IRK_CONTINUE || s->kind == IRK_RETURN ||
                  (s->kind == IRK_WHILE && has_fill(s));
  return true;
}

bool sched_jumps_around_fill(IrKernel *k) {
  bool jumps = false;
  ir_walk(&k->body, find_jump, &jumps);
  return jumps;
}

typedef struct Defined {
  uint8_t *by; /* by variable id: defined in this role, or before it */
  const IrVar *missing;
} Defined;

static void define(IrVar **v, void *ctx) {
  Defined *d = ctx;
  d->by[(*v)->id] = (*v)->kind != IRV_MUT;
}

static void need(Defined *d, const IrExpr *e) {
  bool own = e->op == OP_VAR && (e->as.var->kind == IRV_LET || e->as.var->kind == IRV_INDEX ||
                                 e->as.var->kind == IRV_MUT);
  if (own && !d->by[e->as.var->id])
    d->missing = e->as.var;
  for (int i = 0; i < e->nargs; i++)
    need(d, e->arg[i]);
}

static void need_expr(IrExpr **e, void *ctx) {
  need(ctx, *e);
}

static bool visit_defined(IrStmt *s, void *ctx) {
  IrVisitor v = {need_expr, define, NULL, ctx};
  ir_visit(s, &v);
  return true;
}

/* A variable that the role uses and nobody defines for it. */
static const IrVar *find_missing(IrKernel *k, IrBlock *role) {
  Defined d = {ARENA_ARRAY(k->arena, uint8_t, k->vars.n + 1), NULL};
  ir_walk(&k->pre, visit_defined, &d);
  ir_walk(role, visit_defined, &d);
  return d.missing;
}

/* ---------------------------------------------------------------- taking apart */

/* Addresses may need any value that is computed from parameters and inputs. */
static bool may_feed(const IrStmt *s) {
  return ir_is_let(s) || (s->kind == IRK_LOAD && s->as.access.at.buf->space == IRS_GLOBAL &&
                          s->as.access.at.buf->role == IRR_IN);
}

/* Keeps what fills channels, the control around it, and what addresses may need. */
static void keep_fills(IrKernel *k, IrBlock *b) {
  IrBlock out = {0}, *inner;
  for (size_t i = 0; i < b->n; i++) {
    IrStmt *s = b->v[i];
    bool nest = s->kind == IRK_FOR || s->kind == IRK_IF || s->kind == IRK_TILE_LOOP;
    if (is_fill(s) || may_feed(s) || (nest && has_fill(s)))
      sched_push(k, &out, s);
    for (int j = 0; nest && (inner = ir_nested(s, j)); j++)
      keep_fills(k, inner);
  }
  *b = out;
}

static void drop_fills(IrKernel *k, IrBlock *b) {
  IrBlock out = {0}, *inner;
  for (size_t i = 0; i < b->n; i++) {
    IrStmt *s = b->v[i];
    if (!is_fill(s))
      sched_push(k, &out, s);
    for (int j = 0; (inner = ir_nested(s, j)); j++)
      drop_fills(k, inner);
  }
  *b = out;
}

typedef struct Used {
  uint32_t *count; /* by variable id */
} Used;

static void count_vars(Used *u, const IrExpr *e) {
  if (e->op == OP_VAR)
    u->count[e->as.var->id]++;
  for (int i = 0; i < e->nargs; i++)
    count_vars(u, e->arg[i]);
}

static void count_expr(IrExpr **e, void *ctx) {
  count_vars(ctx, *e);
}

static bool count_stmt(IrStmt *s, void *ctx) {
  IrVisitor v = {.expr = count_expr, .ctx = ctx};
  ir_visit(s, &v);
  return true;
}

/* Values of which nothing is left to use. `faults`: those too whose computing may fault, because
 * the other role computes them. */
static bool prune_block(IrKernel *k, IrBlock *b, const Used *u, bool faults) {
  IrBlock out = {0}, *inner;
  bool changed = false;
  for (size_t i = 0; i < b->n; i++) {
    IrStmt *s = b->v[i];
    const IrVar *x = s->kind == IRK_LET    ? s->as.let.var
                     : s->kind == IRK_LOAD ? s->as.access.var
                                           : NULL;
    bool dead = x && x->kind == IRV_LET && !u->count[x->id] &&
                (s->kind == IRK_LET ? faults || !s->as.let.value->may_fault
                                    : faults || !s->as.access.at.check);
    changed |= dead;
    if (!dead)
      sched_push(k, &out, s);
    for (int j = 0; !dead && (inner = ir_nested(s, j)); j++)
      changed |= prune_block(k, inner, u, faults);
  }
  *b = out;
  return changed;
}

static void prune(IrKernel *k, IrBlock *b, bool faults) {
  Used u;
  do {
    u.count = ARENA_ARRAY(k->arena, uint32_t, k->vars.n + 1);
    ir_walk(b, count_stmt, &u);
  } while (prune_block(k, b, &u, faults));
}

/* ---------------------------------------------------------------- the kernel */

bool sched_narrow_sync(IrStmt *s, void *ctx) {
  const IrRoleBody *role = ctx;
  if (s->kind == IRK_SYNC) {
    s->as.sync.first_warp = role->first_warp;
    s->as.sync.warps = role->warps;
  }
  return true;
}

typedef struct Wide { /* what takes nearly all registers */
  bool part;          /* a result and the part that is added to it */
  int products;       /* more than two that are chained … */
  int64_t elements;   /* … and their results */
} Wide;

static bool find_wide(IrStmt *s, void *ctx) {
  Wide *w = ctx;
  const IrDot *d = &s->as.dot;
  if (s->kind != IRK_DOT)
    return true;
  int64_t n = ir_region_extent(&d->c, 0) * ir_region_extent(&d->c, 1);
  w->part |= sched_promotes(d) && n >= WIDE_PART;
  w->products++;
  w->elements += n;
  return true;
}

/* What a thread may have when the roles are set apart: together they use up the multiprocessor's
 * registers. Two warpgroups have enough without. */
static void set_registers(IrRoles *roles, int groups) {
  Wide w = {0};
  if (groups < 2)
    return;
  ir_walk(&roles->role[1].body, find_wide, &w);
  bool wide = w.part || (w.products > 2 && w.elements >= WIDE_CHAIN);
  roles->role[0].registers = groups == 3 ? 32 : wide ? 24 : 40;
  roles->role[1].registers = sched_most_registers(groups, wide);
}

/* Declarations of shared tiles and channels are everybody's. */
static void split_head(IrKernel *k, IrBlock *head, IrBlock *rest) {
  for (size_t i = 0; i < k->body.n; i++) {
    IrStmt *s = k->body.v[i];
    bool shared =
        s->kind == IRK_CHANNEL || (s->kind == IRK_ALLOC && s->as.alloc->space == IRS_SHARED);
    sched_push(k, shared ? head : rest, s);
  }
}

IrKernel *low_roles(Arena *a, const IrKernel *from, const LowerRequest *r, DiagSink *sink) {
  (void)sink;
  IrKernel *k = ir_kernel_clone(a, from);
  IrBlock head = {0}, rest = {0}, fills;
  int groups = k->threads / GROUP_THREADS;
  split_head(k, &head, &rest);
  fills = sched_copy_block(k, &rest);
  keep_fills(k, &fills);
  prune(k, &fills, true);
  const IrVar *missing = find_missing(k, &fills);
  if (missing)
    return sched_decline(r, "the copies need `%s`, which the block computes", missing->name);
  drop_fills(k, &rest);
  prune(k, &rest, false);
  k->body = head;
  IrStmt *s = ir_add(k, &k->body, IRK_ROLES, k->span);
  IrRoles *roles = &s->as.roles;
  roles->nroles = 2;
  roles->role = ARENA_ARRAY(k->arena, IrRoleBody, 2);
  roles->role[0] = (IrRoleBody){.name = "producer", .warps = GROUP_WARPS, .body = fills};
  roles->role[1] = (IrRoleBody){
      .name = "consumer", .first_warp = GROUP_WARPS, .warps = groups * GROUP_WARPS, .body = rest};
  set_registers(roles, groups);
  ir_walk(&roles->role[1].body, sched_narrow_sync, &roles->role[1]);
  k->threads += GROUP_THREADS;
  ir_name_apart(k);
  return k;
}
