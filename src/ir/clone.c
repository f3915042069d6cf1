/* clone.c: a kernel copied whole into another arena, and its digest.
 *
 * In: any kernel. Out: an equal one, ids and all, that shares nothing with it but interned names
 * and source files. Tests: tests/unit/check_ir.c.
 */
#include <string.h>

#include "impl.h"

typedef struct Clone {
  IrKernel *to;
  const IrKernel *from;
} Clone;

/* Ids are kept, so the new object is found by the id of the old one.
 * The tables are filled by then. */
static IrExpr *new_expr(const Clone *c, const IrExpr *e) {
  return e ? c->to->table->all.v[e->id] : NULL;
}
/* NULL stays NULL: most objects have optional parts. */
static IrVar *new_var(const Clone *c, const IrVar *v) {
  return v ? c->to->vars.v[v->id] : NULL;
}
static IrBuffer *new_buffer(const Clone *c, const IrBuffer *b) {
  return b ? c->to->buffers.v[b->id] : NULL;
}

/* ---------------------------------------------------------------- tables */

/* Buffers do not exist yet; clone_buffers sets the variables' owners.
 * Names are interned and shared. */
static void clone_vars(Clone *c) {
  for (size_t i = 0; i < c->from->vars.n; i++) {
    IrVar *v = arena_copy(c->to->arena, c->from->vars.v[i], sizeof(IrVar));
    VEC_PUSH(c->to->arena, &c->to->vars, v);
  }
}

/* Operands come first by id, so one pass renews them all.
 * Interning finds no equal node, since the old table had none, so ids stay. */
static void clone_exprs(Clone *c) {
  const struct IrTable *t = c->from->table;
  for (size_t i = 0; i < t->all.n; i++) {
    IrExpr e = *t->all.v[i];
    for (int j = 0; j < e.nargs; j++)
      e.arg[j] = new_expr(c, e.arg[j]);
    if (e.op == OP_VAR)
      e.as.var = new_var(c, e.as.var);
    IrExpr *to = ir_intern(c->to, &e);
    to->uniform = e.uniform;
    ir_place_like(c->to, to, t->all.v[i]->places);
  }
  c->to->table->sms = new_var(c, t->sms);
}

/* A layout by a map has variables and an expression of its own.
 * Fragments have none. */
static void clone_layout(const Clone *c, IrBuffer *b) {
  if (!b->layout)
    return;
  b->layout = arena_copy(c->to->arena, b->layout, sizeof *b->layout);
  for (int i = 0; i < IR_MAX_RANK; i++)
    b->layout->index[i] = new_var(c, b->layout->index[i]);
  b->layout->offset = new_expr(c, b->layout->offset);
}

/* Extents first: expressions exist by now. Variables that belong to a buffer (its strides) get
 * their new owner at the end. */
static void clone_buffers(Clone *c) {
  for (size_t i = 0; i < c->from->buffers.n; i++) {
    IrBuffer *b = arena_copy(c->to->arena, c->from->buffers.v[i], sizeof(IrBuffer));
    for (int j = 0; j < b->rank; j++) {
      b->extent[j] = new_expr(c, b->extent[j]);
      b->stride[j] = new_var(c, b->stride[j]);
    }
    b->init = new_expr(c, b->init);
    clone_layout(c, b);
    VEC_PUSH(c->to->arena, &c->to->buffers, b);
  }
  for (size_t i = 0; i < c->to->vars.n; i++)
    c->to->vars.v[i]->buf = new_buffer(c, c->to->vars.v[i]->buf);
}

/* The innermost stride is NULL and stays so. */
static void clone_tmaps(Clone *c) {
  for (size_t i = 0; i < c->from->tmaps.n; i++) {
    IrTmap *t = arena_copy(c->to->arena, c->from->tmaps.v[i], sizeof(IrTmap));
    t->buf = new_buffer(c, t->buf);
    for (int j = 0; j < t->rank; j++) {
      t->dim[j] = new_expr(c, t->dim[j]);
      t->stride[j] = new_expr(c, t->stride[j]);
    }
    VEC_PUSH(c->to->arena, &c->to->tmaps, t);
  }
}

/* The list of tiles is the channel's own, and passes change it. */
static void clone_channels(Clone *c) {
  Arena *a = c->to->arena;
  for (size_t i = 0; i < c->from->channels.n; i++) {
    IrChannel *ch = arena_copy(a, c->from->channels.v[i], sizeof(IrChannel));
    ch->tile = arena_copy(a, ch->tile, (size_t)ch->ntiles * sizeof *ch->tile);
    for (int j = 0; j < ch->ntiles; j++)
      ch->tile[j] = new_buffer(c, ch->tile[j]);
    VEC_PUSH(a, &c->to->channels, ch);
  }
}

/* ---------------------------------------------------------------- statements */

/* The three callbacks of ir_visit: each slot gets the new kernel's object of the same id. */
static void renew_expr(IrExpr **e, void *ctx) {
  *e = new_expr(ctx, *e);
}
static void renew_var(IrVar **v, void *ctx) {
  *v = new_var(ctx, *v);
}
static void renew_buffer(IrBuffer **b, unsigned how, void *ctx) {
  (void)how;
  *b = new_buffer(ctx, *b);
}

/* Texts of reports live in the arena of the kernel that was read, so they move too.
 * A region of a part is the part's own. */
static void clone_parts(const Clone *c, IrReport *r) {
  Arena *a = c->to->arena;
  r->part = arena_copy(a, r->part, (size_t)r->nparts * sizeof *r->part);
  for (int i = 0; i < r->nparts; i++) {
    IrReportPart *part = &r->part[i];
    if (part->text)
      part->text = arena_strdup(a, part->text);
    if (part->region)
      part->region = arena_copy(a, part->region, sizeof *part->region);
  }
}

/* What ir_visit cannot renew: arrays that the statement owns, and objects that it does not visit.

 * Their lengths are in the statement. */
static void clone_owned(const Clone *c, IrStmt *s) {
  Arena *a = c->to->arena;
  if (s->kind == IRK_REPORT) {
    clone_parts(c, &s->as.report);
  } else if (s->kind == IRK_ALLOC) {
    s->as.alloc = new_buffer(c, s->as.alloc);
  } else if (s->kind == IRK_CHANNEL) {
    s->as.channel = c->to->channels.v[s->as.channel->id];
  } else if (s->kind >= IRK_ACQUIRE && s->kind <= IRK_RELEASE) {
    s->as.channel_op.channel = c->to->channels.v[s->as.channel_op.channel->id];
  } else if (s->kind == IRK_ROLES) {
    size_t bytes = (size_t)s->as.roles.nroles * sizeof(IrRoleBody);
    s->as.roles.role = arena_copy(a, s->as.roles.role, bytes);
  } else if (s->kind == IRK_OP) {
    IrOp *op = &s->as.op;
    op->operand = arena_copy(a, op->operand, (size_t)op->noperands * sizeof *op->operand);
    for (int i = 0; i < op->noperands; i++)
      if (op->operand[i].tmap)
        op->operand[i].tmap = c->to->tmaps.v[op->operand[i].tmap->id];
  }
}

static void clone_block(Clone *c, IrBlock *out, const IrBlock *from);

/* The copy is shallow first; then what it owns is copied, what it refers to is renewed.
 * Nested blocks are copied last. */
static IrStmt *clone_stmt(Clone *c, const IrStmt *from) {
  IrVisitor renew = {renew_expr, renew_var, renew_buffer, c};
  IrStmt *s = arena_copy(c->to->arena, from, sizeof *from);
  clone_owned(c, s);
  ir_visit(s, &renew);
  IrBlock *inner;
  for (int i = 0; (inner = ir_nested(s, i)); i++) {
    IrBlock old = *inner;
    *inner = (IrBlock){0};
    clone_block(c, inner, &old);
  }
  return s;
}

/* Statements in order; a block's spare capacity is not copied. */
static void clone_block(Clone *c, IrBlock *out, const IrBlock *from) {
  for (size_t i = 0; i < from->n; i++) {
    IrStmt *s = clone_stmt(c, from->v[i]);
    VEC_PUSH(c->to->arena, out, s);
  }
}

/* ---------------------------------------------------------------- the kernel */

/* The order of the signature is the order of the launch. */
static void clone_params(Clone *c) {
  for (size_t i = 0; i < c->from->params.n; i++) {
    IrParam p = c->from->params.v[i];
    p.buf = new_buffer(c, p.buf);
    p.var = new_var(c, p.var);
    VEC_PUSH(c->to->arena, &c->to->params, p);
  }
}

/* Everything that is a number or a flag; variables and expressions through the tables.
 * Memory of the old kernel is not pointed to. */
static void clone_head(Clone *c) {
  IrKernel *to = c->to;
  const IrKernel *k = c->from;
  to->span = k->span;
  to->grid_rank = k->grid_rank;
  to->threads = k->threads;
  to->shared_bytes = k->shared_bytes;
  memcpy(to->cluster, k->cluster, sizeof to->cluster);
  to->raster = k->raster;
  to->min_blocks = k->min_blocks;
  to->exact = k->exact;
  to->unchecked = k->unchecked;
  to->cooperative = k->cooperative;
  to->resident = k->resident;
  to->stays = k->stays;
  for (int i = 0; i < k->grid_rank; i++) {
    to->grid[i] = new_expr(c, k->grid[i]);
    to->grid_index[i] = new_var(c, k->grid_index[i]);
  }
}

/* Tables in the order in which they refer to each other, then statements. */
IrKernel *ir_kernel_clone(Arena *a, const IrKernel *k) {
  Clone c = {ir_kernel_new(a, k->names, k->name, k->level), k};
  clone_vars(&c);
  clone_exprs(&c);
  clone_buffers(&c);
  clone_tmaps(&c);
  clone_channels(&c);
  clone_params(&c);
  for (size_t i = 0; i < k->sites.n; i++) {
    IrSite site = {k->sites.v[i].code, arena_printf(a, "%s", k->sites.v[i].text)};
    VEC_PUSH(a, &c.to->sites, site);
  }
  clone_head(&c);
  clone_block(&c, &c.to->pre, &k->pre);
  clone_block(&c, &c.to->body, &k->body);
  return c.to;
}
