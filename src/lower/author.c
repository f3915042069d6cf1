/* author.c: pass: the author's roles take the tensor memory accelerator and wgmma.
 *
 * In: a tile-level kernel with `specialize`: one role fills shared tiles by copies that signal,
 * others multiply them. Out: the same at scheduled level: these copies `engine tma`, their tiles
 * swizzled, every product `unit wgmma`; roles and barriers stay the author's. Or NULL with a note,
 * where a tile is used otherwise or a product has no such instruction. Always holds: a role that
 * copies does nothing else, so that one thread can be it; a tile with an axis of stages is read
 * stage by stage. Tests: tests/unit/check_roles.c.
 */
#include <inttypes.h>

#include "hopper.h"

typedef struct Author {
  IrKernel *k;
  const LowerRequest *r;
  const IrRoleBody *role; /* in hand */
  int products;
  bool copies, others; /* the role has such statements */
  bool declined;
} Author;

static bool decline(Author *x, const char *why, const IrBuffer *b) {
  if (!x->declined)
    sched_decline(x->r, "of the roles, `%s` %s", b->name, why);
  x->declined = true;
  return false;
}

/* ---------------------------------------------------------------- products */

static bool operand_ok(Author *x, const IrRegion *r, bool first) {
  if (r->buf->space == IRS_FRAGMENT)
    return (first && sched_whole(r) && dtype_size(r->buf->dtype) == 2) ||
           decline(x, "is an operand that registers cannot hold", r->buf);
  SchedUses u = sched_uses(&x->k->body, r->buf);
  if (!sched_matrix(r))
    return decline(x, "is not used whole, or not known which stage, by a product", r->buf);
  if (u.writes != u.copies || u.reads != u.dots)
    return decline(x, "is filled or read by more than copies and products", r->buf);
  return true;
}

static bool types_ok(Author *x, const IrDot *d) {
  bool byte = dtype_is_int(d->a.buf->dtype);
  if (!sched_has_types(d))
    return decline(x, "is no operand of such a type", d->a.buf);
  if (d->c.buf->dtype != (byte ? DT_I32 : DT_F32) || d->c.buf->space != IRS_FRAGMENT ||
      !sched_whole(&d->c))
    return decline(x, "is not a whole fragment of the type that products add up in", d->c.buf);
  return true;
}

/* Rows by 64 to each warpgroup of the role, up to 128. */
static bool shape_ok(Author *x, const IrDot *d) {
  int64_t groups = x->role->warps / GROUP_WARPS, rows = 64 * groups;
  int64_t m = ir_region_extent(&d->c, 0), n = ir_region_extent(&d->c, 1);
  int64_t depth = ir_region_extent(&d->a, 1), step = 32 / (int64_t)dtype_size(d->a.buf->dtype);
  bool byte = dtype_is_int(d->a.buf->dtype);
  if (x->role->warps % GROUP_WARPS || x->role->first_warp % GROUP_WARPS)
    return decline(x, "is computed by warps that are no warpgroups", d->c.buf);
  if (m % rows || m > 2 * rows || m == 0 || n % 8 || n == 0 || n > 256 || depth % step ||
      depth == 0 || (byte && n > 24 && n % 16))
    return decline(x, "has not 64 or 128 rows a warpgroup, columns by 8 up to 256, K by 32 bytes",
                   d->c.buf);
  if (sched_adds_too_much(d))
    return decline(x, "adds more of K at once than its products are promoted by", d->c.buf);
  return true;
}

static void take_product(Author *x, IrDot *d) {
  if (!types_ok(x, d) || !shape_ok(x, d) || !operand_ok(x, &d->a, true) ||
      !operand_ok(x, &d->b, false))
    return;
  d->unit = IRU_WGMMA;
  x->products++;
}

/* ---------------------------------------------------------------- roles */

static bool feeds(Author *x, const IrCopy *c) {
  return c->signal.buf && c->dst.buf->space == IRS_SHARED && c->src.buf->space == IRS_GLOBAL &&
         sched_uses(&x->k->body, c->dst.buf).dots > 0;
}

/* What one thread can do for all of its role. */
static bool is_control(const IrStmt *s) {
  return s->kind == IRK_FOR || s->kind == IRK_WHILE || s->kind == IRK_IF || s->kind == IRK_LET ||
         s->kind == IRK_SET || s->kind == IRK_BREAK || s->kind == IRK_CONTINUE ||
         s->kind == IRK_AWAIT || s->kind == IRK_ARRIVE ||
         (s->kind == IRK_LOAD && s->as.access.at.buf->space == IRS_GLOBAL &&
          s->as.access.at.buf->role == IRR_IN);
}

static bool take_stmt(IrStmt *s, void *ctx) {
  Author *x = ctx;
  if (s->kind == IRK_FOR)
    low_index_range(s->as.loop.index, s->as.loop.lo, s->as.loop.hi, s->as.loop.step);
  if (s->kind == IRK_LET)
    low_let_range(s->as.let.var, s->as.let.value);
  if (s->kind == IRK_COPY && feeds(x, &s->as.copy)) {
    x->copies = true;
    x->declined |= !x->declined && !low_plan_author_load(x->k, x->r, &s->as.copy);
  } else if (!is_control(s)) {
    x->others = true;
  }
  if (s->kind == IRK_DOT && !x->declined)
    take_product(x, &s->as.dot);
  return !x->declined;
}

static void take_role(Author *x, IrRoleBody *role) {
  x->role = role;
  x->copies = x->others = false;
  ir_walk(&role->body, take_stmt, x);
  if (!x->declined && x->copies && x->others) {
    sched_decline(x->r, "the role `%s` does more than copy", role->name);
    x->declined = true;
  }
}

/* A tile that products read is filled by the accelerator alone. */
static bool check_fill(IrStmt *s, void *ctx) {
  Author *x = ctx;
  const IrCopy *c = &s->as.copy;
  if (s->kind == IRK_COPY && c->dst.buf->space == IRS_SHARED && c->engine != IRE_TMA &&
      sched_uses(&x->k->body, c->dst.buf).dots > 0)
    decline(x, "is filled by a copy that signals no barrier, or is no role's", c->dst.buf);
  return !x->declined;
}

/* Products outside of the roles are nobody's. */
static bool find_unit(IrStmt *s, void *ctx) {
  *(int *)ctx += s->kind == IRK_DOT;
  return true;
}

IrKernel *low_author(Arena *a, const IrKernel *from, const LowerRequest *r, DiagSink *sink) {
  (void)sink;
  IrKernel *k = ir_kernel_clone(a, from);
  IrRoles *roles = expand_author_roles(k);
  Author x = {.k = k, .r = r};
  int all = 0;
  if (!roles)
    return NULL; /* nothing to say */
  k->level = IR_SCHEDULED;
  ir_walk(&k->body, find_unit, &all);
  if (!all)
    return NULL;
  expand_settle_roles(k);
  roles = expand_author_roles(k);
  for (int i = 0; i < roles->nroles && !x.declined; i++)
    take_role(&x, &roles->role[i]);
  if (!x.declined)
    ir_walk(&k->body, check_fill, &x);
  if (!x.declined && x.products != all)
    return sched_decline(r, "products outside of the roles");
  if (x.declined)
    return NULL;
  for (int i = 0; i < roles->nroles; i++)
    sched_promote(k, &roles->role[i].body);
  sched_note(r, "the author's roles copy by TMA and multiply with wgmma");
  return k;
}
