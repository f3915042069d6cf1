/* sched_tools.c: questions about statements, and editing of blocks, for the scheduling passes.
 *
 * In: blocks and statements of a kernel that a pass owns. Out: counts, moved or copied statements.
 * Always holds: a copied block defines no variable that the original defines, so that both may
 * stand in one kernel. Tests: tests/unit/check_schedule.c.
 */
#include "sched.h"

#include <stdarg.h>
#include <string.h>

/* Two candidates begin with the same passes, which would say the same twice. */
__attribute__((format(printf, 3, 0))) static void
note_once(const LowerRequest *r, const char *before, const char *fmt, va_list ap) {
  Arena *a = r->notes->arena;
  const char *note = arena_printf(a, "%s%s", before, arena_vprintf(a, fmt, ap));
  for (size_t i = 0; i < r->notes->text.n; i++)
    if (!strcmp(r->notes->text.v[i], note))
      return;
  lower_note(r, "%s", note);
}

IrKernel *sched_decline(const LowerRequest *r, const char *fmt, ...) {
  if (!r->notes)
    return NULL;
  va_list ap;
  va_start(ap, fmt);
  note_once(r, "no warpgroup schedule: ", fmt, ap);
  va_end(ap);
  return NULL;
}

void sched_note(const LowerRequest *r, const char *fmt, ...) {
  if (!r->notes)
    return;
  va_list ap;
  va_start(ap, fmt);
  note_once(r, "", fmt, ap);
  va_end(ap);
}

/* ---------------------------------------------------------------- uses */

typedef struct Counting {
  const IrBuffer *buf;
  SchedUses uses;
  unsigned how; /* of the statement at hand */
} Counting;

static void count_buffer(IrBuffer **b, unsigned how, void *ctx) {
  Counting *c = ctx;
  if (*b == c->buf)
    c->how |= how;
}

/* Channel operations speak for the copies and products that are there as well. */
static bool count_stmt(IrStmt *s, void *ctx) {
  Counting *c = ctx;
  IrVisitor v = {.buffer = count_buffer, .ctx = c};
  if (s->kind >= IRK_CHANNEL && s->kind <= IRK_RELEASE)
    return true;
  c->how = 0;
  ir_visit(s, &v);
  c->uses.reads += (c->how & IR_READS) != 0;
  c->uses.writes += (c->how & IR_WRITES) != 0;
  c->uses.copies +=
      s->kind == IRK_COPY && c->how & IR_WRITES && s->as.copy.src.buf->space == IRS_GLOBAL;
  c->uses.dots += s->kind == IRK_DOT && (s->as.dot.a.buf == c->buf || s->as.dot.b.buf == c->buf);
  return true;
}

SchedUses sched_uses(IrBlock *b, const IrBuffer *buf) {
  Counting c = {.buf = buf};
  ir_walk(b, count_stmt, &c);
  return c.uses;
}

/* A block of one, for walks. */
static SchedUses uses_in(IrStmt *s, const IrBuffer *buf) {
  IrBlock one = {&s, 1, 1};
  return sched_uses(&one, buf);
}

bool sched_reads(IrStmt *s, const IrBuffer *buf) {
  return uses_in(s, buf).reads > 0;
}

bool sched_writes(IrStmt *s, const IrBuffer *buf) {
  return uses_in(s, buf).writes > 0;
}

int64_t sched_extent(const IrBuffer *b, int axis) {
  int64_t n = 0;
  return ir_is_const(b->extent[axis], &n) ? n : 0;
}

int64_t sched_side(const IrBuffer *b, int axis) {
  return sched_extent(b, b->rank - 2 + axis);
}

bool sched_matrix(const IrRegion *r) {
  int first = r->buf->rank - 2;
  int64_t lo;
  if ((first != 0 && first != 1) || (first && r->axis[0].keep))
    return false;
  for (int i = first; i < r->buf->rank; i++) {
    const IrAxis *x = &r->axis[i];
    if (!x->keep || x->step != 1 || x->stop || !ir_is_const(x->origin, &lo) || lo != 0 ||
        x->extent != sched_extent(r->buf, i))
      return false;
  }
  return true;
}

bool sched_whole(const IrRegion *r) {
  int64_t origin;
  for (int i = 0; i < r->buf->rank; i++) {
    const IrAxis *x = &r->axis[i];
    if (!x->keep || x->step != 1 || x->stop || !ir_is_const(x->origin, &origin) || origin != 0 ||
        x->extent != sched_extent(r->buf, i))
      return false;
  }
  return !r->trans;
}

/* ---------------------------------------------------------------- editing */

void sched_push(IrKernel *k, IrBlock *b, IrStmt *s) {
  VEC_PUSH(k->arena, b, s);
}

void sched_insert(IrKernel *k, IrBlock *b, size_t i, IrStmt *s) {
  VEC_PUSH(k->arena, b, s);
  for (size_t j = b->n - 1; j > i; j--)
    b->v[j] = b->v[j - 1];
  b->v[i] = s;
}

void sched_remove(IrBlock *b, size_t i) {
  for (b->n--; i < b->n; i++)
    b->v[i] = b->v[i + 1];
}

IrStmt *sched_stmt(IrKernel *k, IrKind kind, Span span) {
  IrBlock none = {0};
  return ir_add(k, &none, kind, span);
}

IrStmt *sched_take_alloc(IrBlock *b, const IrBuffer *buf) {
  for (size_t i = 0; i < b->n; i++) {
    IrStmt *s = b->v[i], *found = NULL;
    IrBlock *inner;
    if (s->kind == IRK_ALLOC && s->as.alloc == buf) {
      sched_remove(b, i);
      return s;
    }
    for (int j = 0; !found && (inner = ir_nested(s, j)); j++)
      found = sched_take_alloc(inner, buf);
    if (found)
      return found;
  }
  return NULL;
}

/* ---------------------------------------------------------------- copying */

typedef struct Renaming {
  IrKernel *k;
  IrExpr **to; /* by id of the original's variables */
  size_t n;
} Renaming;

static void rename_expr(IrExpr **e, void *ctx) {
  Renaming *r = ctx;
  *e = ir_replace(r->k, *e, r->to, r->n);
}

/* A SET changes what a LET of the copy has declared, if it did. */
static void rename_def(IrVar **v, void *ctx) {
  Renaming *r = ctx;
  const IrVar *old = *v;
  if (r->to[old->id]) {
    *v = r->to[old->id]->as.var;
    return;
  }
  IrVar *x = ir_var(r->k, old->kind, old->name, old->type);
  x->lo = old->lo;
  x->hi = old->hi;
  x->stated = old->stated;
  r->to[old->id] = ir_ref(r->k, x);
  *v = x;
}

static IrBlock copy_block(Renaming *r, const IrBlock *from);

static IrStmt *copy_stmt(Renaming *r, const IrStmt *from) {
  IrVisitor v = {rename_expr, rename_def, NULL, r};
  IrStmt *s = arena_copy(r->k->arena, from, sizeof *from);
  IrBlock *inner;
  ir_visit(s, &v);
  for (int i = 0; (inner = ir_nested(s, i)); i++) {
    IrBlock old = *inner;
    *inner = copy_block(r, &old);
  }
  return s;
}

static IrBlock copy_block(Renaming *r, const IrBlock *from) {
  IrBlock out = {0};
  for (size_t i = 0; i < from->n; i++)
    sched_push(r->k, &out, copy_stmt(r, from->v[i]));
  return out;
}

IrBlock sched_copy_block(IrKernel *k, const IrBlock *b) {
  Renaming r = {k, ARENA_ARRAY(k->arena, IrExpr *, k->vars.n + 1), k->vars.n};
  return copy_block(&r, b);
}

IrBlock sched_copy_block_with(IrKernel *k, const IrBlock *b, const IrVar *var, IrExpr *value) {
  Renaming r = {k, ARENA_ARRAY(k->arena, IrExpr *, k->vars.n + 1), k->vars.n};
  r.to[var->id] = value;
  return copy_block(&r, b);
}

/* ---------------------------------------------------------------- tiles */

int64_t sched_tile_bytes(const IrBuffer *b) {
  int64_t size = (int64_t)dtype_size(b->dtype), n = size;
  for (int i = 0; i < b->rank; i++)
    n *= sched_extent(b, i);
  if (!b->layout || b->layout->kind != IRL_SWIZZLE || b->rank != 2)
    return n;
  int64_t span = b->layout->amount, inner = sched_extent(b, !b->layout->columns) * size;
  return (inner + span - 1) / span * span * sched_extent(b, b->layout->columns);
}
