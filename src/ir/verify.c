/* verify.c: whether a kernel is what ir.h promises: its head, names and scopes, control.
 *
 * In: any kernel, also one that a pass has broken. Out: true, or errors that say what a kernel's
 * author can do; uniformity is set (thread level). Always holds: it reads nothing that it has not
 * checked, so it never crashes on well-formed memory. Tests: tests/unit/check_ir.c.
 */
#include "verify.h"

#include <inttypes.h>
#include <stdarg.h>

/* At the statement, or at the kernel where the statement came from no text; the kernel's name tells
 * a pass' output from the author's text.
 * Errors are counted here and not in the sink, which may hold those of others. */
void ir_verify_error(Verify *v, DiagCode code, const char *fmt, ...) {
  Str text = str_new(v->sink->arena);
  va_list ap;
  va_start(ap, fmt);
  str_vaddf(&text, fmt, ap);
  va_end(ap);
  Span at = v->at.file ? v->at : v->k->span;
  diag_add(v->sink, code, at, "%s (kernel `%s`)", str_text(&text), v->k->name);
  v->errors++;
}

/* ---------------------------------------------------------------- names */

/* A variable is defined once in the whole kernel, so that tables by id need no scopes.
 * A variable of another kernel would have an id that means something else here. */
void ir_verify_define(Verify *v, const IrVar *var) {
  if (var->id >= v->k->vars.n || v->k->vars.v[var->id] != var) {
    ir_verify_error(v, E0604, "`%s` belongs to another kernel", var->name);
    return;
  }
  if (v->var[var->id] != DEF_NONE)
    ir_verify_error(v, E0604, "`%s` is defined twice", var->name);
  v->var[var->id] = DEF_SCOPE;
  VEC_PUSH(v->arena, &v->var_scope, var->id);
}

/* A buffer is declared once, by a parameter or an ALLOC.
 * Its extents have been checked before. */
void ir_verify_declare(Verify *v, const IrBuffer *b) {
  if (!b || b->id >= v->k->buffers.n || v->k->buffers.v[b->id] != b) {
    ir_verify_error(v, E0604, "a tile belongs to another kernel");
    return;
  }
  if (v->buffer[b->id] != DEF_NONE)
    ir_verify_error(v, E0604, "`%s` is declared twice", b->name);
  v->buffer[b->id] = DEF_SCOPE;
  VEC_PUSH(v->arena, &v->buffer_scope, b->id);
}

/* Called before anything else of the buffer is read.
 * Foreign pointers are recognised by the table, not read. */
bool ir_verify_buffer(Verify *v, const IrBuffer *b) {
  if (!b || b->id >= v->k->buffers.n || v->k->buffers.v[b->id] != b) {
    ir_verify_error(v, E0604, "the statement has no tensor or tile of this kernel");
    return false;
  }
  if (v->buffer[b->id] == DEF_SCOPE)
    return true;
  ir_verify_error(v, E0604,
                  v->buffer[b->id] ? "`%s` is used outside the block that declares it"
                                   : "`%s` is used before it is declared",
                  b->name);
  return false;
}

typedef struct Scope {
  size_t vars, buffers;
} Scope;

/* Variables and buffers leave together. */
static Scope scope_begin(const Verify *v) {
  return (Scope){v->var_scope.n, v->buffer_scope.n};
}

/* What the block defined is gone for good: ids are never defined again.
 * The vectors shrink to what the enclosing block had. */
static void scope_end(Verify *v, Scope s) {
  while (v->var_scope.n > s.vars)
    v->var[v->var_scope.v[--v->var_scope.n]] = DEF_GONE;
  while (v->buffer_scope.n > s.buffers)
    v->buffer[v->buffer_scope.v[--v->buffer_scope.n]] = DEF_GONE;
}

/* ---------------------------------------------------------------- control */

static void check_block(Verify *v, IrBlock *b);

/* For blocks that define nothing in their heads.
 * Branches of `if`, bodies of roles. */
static void check_scoped(Verify *v, IrBlock *b) {
  Scope s = scope_begin(v);
  check_block(v, b);
  scope_end(v, s);
}

/* A parallel iteration may set its own variables only.
 * A LET of a `var` declares it; only SET changes it. */
static void check_let(Verify *v, const IrStmt *s) {
  const IrVar *var = s->as.let.var;
  bool set = s->kind == IRK_SET;
  if (!var || (var->kind != IRV_MUT && (set || var->kind != IRV_LET))) {
    ir_verify_error(v, E0604,
                    set ? "`set` changes something that is no `var`"
                        : "`let` defines something that is no variable");
    return;
  }
  ir_verify_typed(v, s->as.let.value, var->type, var->name);
  if (!set) {
    ir_verify_define(v, var);
  } else if (v->var[var->id] != DEF_SCOPE) {
    ir_verify_error(v, E0604, "`%s` is set outside the block that defines it", var->name);
  } else if (v->map) {
    bool inside = false;
    for (size_t i = v->map_mark; i < v->var_scope.n; i++)
      inside |= v->var_scope.v[i] == var->id;
    if (!inside)
      ir_verify_error(v, E0657, "a parallel iteration sets `%s`, which lies outside it", var->name);
  }
}

/* Indices of wholly unrolled loops are remembered: they may index registers.
 * The index cannot be set: it is no `var`. */
static void check_for(Verify *v, IrFor *f) {
  if (!f->index || f->index->kind != IRV_INDEX || !dtype_is_int(f->index->type)) {
    ir_verify_error(v, E0657, "a loop's index is an integer variable of its own");
    return;
  }
  ir_verify_typed(v, f->lo, f->index->type, "the loop's first index");
  ir_verify_typed(v, f->hi, f->index->type, "the loop's end");
  ir_verify_typed(v, f->step, f->index->type, "the loop's step");
  Scope s = scope_begin(v);
  ir_verify_define(v, f->index);
  if (f->loop == IRF_UNROLL && f->stages == 0 && f->index->id < v->k->vars.n)
    v->unroll[f->index->id] = f;
  v->loops++;
  check_block(v, &f->body);
  v->loops--;
  scope_end(v, s);
}

/* The condition sees its block's variables, and so does the body.
 * One scope for the three parts. */
static void check_while(Verify *v, IrWhile *w) {
  Scope s = scope_begin(v);
  Span at = v->at;
  v->loops++;
  check_block(v, &w->cond_block);
  v->at = at;
  v->now++;
  ir_verify_typed(v, w->cond, DT_BOOL, "the condition");
  check_scoped(v, &w->body);
  v->loops--;
  scope_end(v, s);
}

/* Neither break nor return may leave it; continue ends an iteration.
 * Whole-tile expressions have constant extents, so that layouts can be chosen for them. */
static void check_map(Verify *v, IrMap *m) {
  if (v->map)
    ir_verify_error(v, E0657, "a parallel loop or whole-tile expression stands inside another");
  Scope s = scope_begin(v);
  for (int i = 0; i < m->naxes && i < 4; i++) {
    int64_t n;
    if (!m->index[i] || m->index[i]->kind != IRV_INDEX || !dtype_is_int(m->index[i]->type)) {
      ir_verify_error(v, E0657, "an index of a parallel loop is an integer variable of its own");
      continue;
    }
    bool ok = ir_verify_typed(v, m->extent[i], DT_I64, "an extent of the iteration space");
    if (ok && ir_is_const(m->extent[i], &n) && n < 0)
      ir_verify_error(v, E0657, "an extent of the iteration space is negative");
    if (ok && !m->parallel && m->extent[i]->op != OP_CONST)
      ir_verify_error(v, E0657, "a whole-tile expression has constant extents");
  }
  for (int i = 0; i < m->naxes && i < 4; i++)
    if (m->index[i])
      ir_verify_define(v, m->index[i]);
  const IrMap *outer = v->map;
  size_t mark = v->map_mark;
  int loops = v->loops;
  v->map = m;
  v->map_mark = v->var_scope.n;
  v->loops = 0;
  check_block(v, &m->body);
  v->map = outer;
  v->map_mark = mark;
  v->loops = loops;
  scope_end(v, s);
}

/* Like a map over the grid's tiles, but statements in it are the block's.
 * Counts are evaluated before any index exists. */
static void check_tile_loop(Verify *v, IrTileLoop *t) {
  Scope s = scope_begin(v);
  for (int i = 0; i < t->naxes && i < 3; i++)
    ir_verify_typed(v, t->count[i], DT_I64, "a count of tiles");
  for (int i = 0; i < t->naxes && i < 3; i++)
    if (t->index[i])
      ir_verify_define(v, t->index[i]);
  v->loops++;
  check_block(v, &t->body);
  v->loops--;
  scope_end(v, s);
}

/* A warp that two roles claim would run both.
 * Warps are numbered from 0 in the block. */
static void check_role(Verify *v, const IrRoles *r, int i) {
  const IrRoleBody *b = &r->role[i];
  if (b->first_warp < 0 || b->warps < 1 ||
      (v->block_warps && b->first_warp + b->warps > v->block_warps))
    ir_verify_error(v, E0668, "role `%s` has warps %d to %d, but the block has %d", b->name,
                    b->first_warp, b->first_warp + b->warps - 1, v->block_warps);
  for (int j = 0; j < i; j++) {
    const IrRoleBody *o = &r->role[j];
    if (b->first_warp < o->first_warp + o->warps && o->first_warp < b->first_warp + b->warps)
      ir_verify_error(v, E0668, "roles `%s` and `%s` share a warp", o->name, b->name);
  }
  if (b->registers && (b->registers < 24 || b->registers > 256 || b->registers % 8))
    ir_verify_error(v, E0668, "role `%s` asks for %d registers: a multiple of 8 from 24 to 256",
                    b->name, b->registers);
}

/* A break inside a role may not leave it: its warps would run another role's code.
 * Messages name the role. */
static void check_roles(Verify *v, IrRoles *r) {
  if (v->in_roles)
    ir_verify_error(v, E0668, "roles stand inside a role");
  bool outer = v->in_roles;
  int loops = v->loops;
  v->in_roles = true;
  v->loops = 0; /* no break may leave a role */
  for (int i = 0; i < r->nroles; i++) {
    check_role(v, r, i);
    check_scoped(v, &r->role[i].body);
  }
  v->loops = loops;
  v->in_roles = outer;
}

/* continue may also end a parallel iteration; return leaves everything but a map.
 * Loops outside a map or a role cannot be left from inside it. */
static void check_jump(Verify *v, const IrStmt *s) {
  bool ok = s->kind == IRK_RETURN  ? !v->map
            : s->kind == IRK_BREAK ? v->loops > 0
                                   : v->loops > 0 || (v->map && v->map->parallel);
  if (!ok)
    ir_verify_error(v, E0657, "`%s` has nothing here that it may leave", ir_stmt_name(s));
}

/* False where the kind is no control.
 * The blocks nested in it are checked from here. */
static bool check_control(Verify *v, IrStmt *s) {
  switch (s->kind) {
  case IRK_LET:
  case IRK_SET:
    check_let(v, s);
    return true;
  case IRK_FOR:
    check_for(v, &s->as.loop);
    return true;
  case IRK_WHILE:
    check_while(v, &s->as.while_);
    return true;
  case IRK_IF:
    ir_verify_typed(v, s->as.if_.cond, DT_BOOL, "the condition");
    check_scoped(v, &s->as.if_.then);
    check_scoped(v, &s->as.if_.other);
    return true;
  case IRK_BREAK:
  case IRK_CONTINUE:
  case IRK_RETURN:
    check_jump(v, s);
    return true;
  case IRK_MAP:
    check_map(v, &s->as.map);
    return true;
  case IRK_TILE_LOOP:
    check_tile_loop(v, &s->as.tile_loop);
    return true;
  case IRK_ROLES:
    check_roles(v, &s->as.roles);
    return true;
  default:
    return false;
  }
}

/* ---------------------------------------------------------------- levels */

/* Any level has control, elements and reports; the rest belongs to one or two.
 * ALLOC exists everywhere; its space is checked on its own. */
static bool kind_allowed(const IrStmt *s, IrLevel level) {
  if (s->kind <= IRK_REPORT || s->kind == IRK_ALLOC)
    return true;
  if (s->kind == IRK_ROLES)
    return true;
  if (s->kind == IRK_ARRIVE || s->kind == IRK_AWAIT)
    return level != IR_THREAD;
  if (s->kind == IRK_OP)
    return level == IR_THREAD;
  return s->kind <= IRK_DOT ? level != IR_THREAD : level == IR_SCHEDULED;
}

/* What may stand in the body of a map: no tile operation, no barrier of any kind.
 * An iteration has elements and scalars of its own, and `local` arrays. */
static bool kind_in_map(const IrStmt *s) {
  return s->kind <= IRK_REPORT ||
         (s->kind == IRK_ALLOC && s->as.alloc && s->as.alloc->space == IRS_LOCAL);
}

/* Messages of everything below are placed here.
 * `now` changes with each statement, so that expressions are gone over once in each. */
static void check_stmt(Verify *v, IrStmt *s) {
  v->at = s->span;
  v->now++;
  if (s->kind >= IRK_COUNT) {
    ir_verify_error(v, E0651, "a statement of no kind");
    return;
  }
  if (!kind_allowed(s, v->k->level)) {
    static const char *const levels[] = {"tile", "scheduled", "thread"};
    ir_verify_error(v, E0651, "`%s` does not exist at %s level", ir_stmt_name(s),
                    levels[v->k->level]);
    return;
  }
  if (v->map && s->kind != IRK_MAP && !kind_in_map(s))
    ir_verify_error(v, E0657, "`%s` stands inside a parallel loop or whole-tile expression",
                    ir_stmt_name(s));
  if (v->in_pre && s->kind != IRK_LET) {
    ir_verify_error(v, E0650, "`pre` holds nothing but `let`s");
    return;
  }
  if (!check_control(v, s))
    ir_verify_tile(v, s);
}

static void check_block(Verify *v, IrBlock *b) {
  for (size_t i = 0; i < b->n; i++)
    check_stmt(v, b->v[i]);
}

/* ---------------------------------------------------------------- the head */

/* A scalar's variable exists already; a tensor is declared here.
 * Extents may use names that later parameters bind. */
static void check_param(Verify *v, const IrParam *p) {
  if ((p->buf != NULL) == (p->var != NULL)) {
    ir_verify_error(v, E0650, "a parameter is a tensor or a scalar");
    return;
  }
  if (p->var) {
    if (p->var->kind != IRV_PARAM)
      ir_verify_error(v, E0650, "parameter `%s` is no parameter's variable", p->var->name);
    return; /* defined already */
  }
  v->at = p->buf->span;
  ir_verify_declare(v, p->buf);
  if (p->buf->space != IRS_GLOBAL || p->buf->role == IRR_NONE)
    ir_verify_error(v, E0650, "parameter `%s` is no global tensor with a role", p->buf->name);
  if (p->buf->rank < 0 || p->buf->rank > IR_MAX_RANK) {
    ir_verify_error(v, E0650, "`%s` has %d axes: at most 8", p->buf->name, p->buf->rank);
    return;
  }
  for (int i = 0; i < p->buf->rank; i++)
    ir_verify_typed(v, p->buf->extent[i], DT_I64, "an extent");
  if (p->buf->init)
    ir_verify_typed(v, p->buf->init, p->buf->dtype, "the initial value");
}

/* Variables that exist before anything runs.
 * Their values come from the launch. */
static void define_free(Verify *v) {
  for (size_t i = 0; i < v->k->vars.n; i++) {
    IrVarKind kind = v->k->vars.v[i]->kind;
    if (kind == IRV_PARAM || kind == IRV_EXTENT || kind == IRV_STRIDE || kind == IRV_SMS)
      v->var[i] = DEF_SCOPE;
  }
}

/* Indices come into being after all of the grid's extents.
 * They do not see each other: a block's indices are independent. */
static void check_grid(Verify *v) {
  const IrKernel *k = v->k;
  if (k->grid_rank < 0 || k->grid_rank > 3) {
    ir_verify_error(v, E0650, "a grid has at most three axes");
    return;
  }
  for (int i = 0; i < k->grid_rank; i++)
    ir_verify_typed(v, k->grid[i], DT_I64, "an axis of the grid");
  for (int i = 0; i < k->grid_rank; i++) {
    const IrVar *x = k->grid_index[i];
    if (!x || x->kind != IRV_GRID || !dtype_is_int(x->type))
      ir_verify_error(v, E0650, "axis %d of the grid has no index of its own", i);
    else
      ir_verify_define(v, x);
  }
}

/* Limits that every target has; those of one target are cuda_print's and the launcher's.
 * A cluster is at most 16 blocks, and only where the card allows it. */
static void check_launch(Verify *v) {
  const IrKernel *k = v->k;
  bool thread = k->level == IR_THREAD;
  if (k->threads < (thread ? 1 : 0) || k->threads > 1024)
    ir_verify_error(v, E0650, "a block has 1 to 1024 threads, not %d", k->threads);
  if (thread && k->threads % 32)
    ir_verify_error(v, E0650, "a block has whole warps: %d threads are not a multiple of 32",
                    k->threads);
  if (k->shared_bytes < 0 || k->shared_bytes > INT32_MAX)
    ir_verify_error(v, E0650, "%" PRId64 " bytes of shared memory", k->shared_bytes);
  int64_t blocks = 1;
  for (int i = 0; i < 3; i++)
    blocks *= k->cluster[i] > 1 ? k->cluster[i] : 1;
  if (blocks > 16)
    ir_verify_error(v, E0650, "a cluster has at most 16 blocks, not %" PRId64, blocks);
  v->block_warps = k->threads / 32;
}

/* Extents of scratch may use what `pre` computes; those of other parameters may not.
 * In the order of the signature. */
static void check_params(Verify *v, bool scratch) {
  for (size_t i = 0; i < v->k->params.n; i++) {
    const IrParam *p = &v->k->params.v[i];
    v->now++;
    if ((p->buf && p->buf->role == IRR_SCRATCH) == scratch)
      check_param(v, p);
  }
}

/* Types of all expressions first: nothing below looks into one that is malformed.
 * Head, then body, then what depends on how control flows. */
static void check_kernel(Verify *v) {
  IrKernel *k = v->k;
  v->at = k->span;
  ir_verify_all_types(v);
  if (v->errors)
    return;
  define_free(v);
  check_params(v, false);
  v->at = k->span;
  v->in_pre = true;
  check_block(v, &k->pre);
  v->in_pre = false;
  check_params(v, true);
  v->now++;
  v->at = k->span;
  check_launch(v);
  for (size_t i = 0; i < k->tmaps.n; i++)
    ir_verify_tmap(v, k->tmaps.v[i]);
  v->at = k->span;
  check_grid(v);
  check_block(v, &k->body);
  if (v->errors == 0)
    ir_verify_flow(v);
}

/* Tables by id in memory of its own, given back at the end. */
bool ir_verify(IrKernel *k, DiagSink *sink) {
  Arena *a = arena_new(arena_guard(k->arena), "verify");
  Verify v = {.k = k, .sink = sink, .arena = a};
  v.var = ARENA_ARRAY(a, uint8_t, k->vars.n);
  v.buffer = ARENA_ARRAY(a, uint8_t, k->buffers.n);
  v.channel = ARENA_ARRAY(a, uint8_t, k->channels.n);
  v.stamp = ARENA_ARRAY(a, uint32_t, k->table->all.n);
  v.unroll = ARENA_ARRAY(a, const IrFor *, k->vars.n);
  check_kernel(&v);
  arena_free(a);
  return v.errors == 0;
}
