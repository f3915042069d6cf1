/* hopper_cast.c: operands in registers that are another fragment, rounded.
 *
 * In: MAPs that store every element of an f32 fragment, rounded to 16 bits, in another, which only
 * products take, as their first operand. Out: that fragment lies as the words that the products
 * want, and such a MAP packs two roundings an instruction into them. Always holds: every write and
 * every read of the fragment is of these kinds. Tests: tests/unit/check_schedule.c.
 */
#include "hopper.h"

/* `x[i, j]` with the map's own indices in order. */
static bool is_point(const IrMap *m, const IrAccess *a) {
  for (int i = 0; i < m->naxes; i++)
    if (a->index[i]->op != OP_VAR || a->index[i]->as.var != m->index[i])
      return false;
  return a->buf->rank == m->naxes;
}

/* The fragment that the MAP rounds into `to`; NULL: it does something else. */
static IrBuffer *rounded(Simple *s, const IrStmt *st, const IrBuffer *to) {
  const IrMap *m = &st->as.map;
  if (st->kind != IRK_MAP || m->body.n != 2 || m->body.v[0]->kind != IRK_LOAD ||
      m->body.v[1]->kind != IRK_STORE)
    return NULL;
  const IrStmt *load = m->body.v[0], *store = m->body.v[1];
  const IrExpr *value = store->as.access.value;
  IrBuffer *from = load->as.access.at.buf;
  if (store->as.access.at.buf != to || !is_point(m, &load->as.access.at) ||
      !is_point(m, &store->as.access.at) || value->op != OP_CAST || value->arg[0]->op != OP_VAR ||
      value->arg[0]->as.var != load->as.access.var)
    return NULL;
  const Place *p = low_place_of(s, from);
  return p->frag && from->dtype == DT_F32 ? from : NULL;
}

typedef struct Search {
  Simple *s;
  const IrBuffer *operand;
  bool fits;
} Search;

/* Outermost first: a MAP speaks for what is in it. */
static bool check_use(IrStmt *st, void *ctx) {
  Search *x = ctx;
  if (st->kind == IRK_MAP) {
    if (sched_reads(st, x->operand) ||
        (sched_writes(st, x->operand) && !rounded(x->s, st, x->operand)))
      x->fits = false;
    return false;
  }
  if (st->kind == IRK_DOT)
    x->fits = x->fits && st->as.dot.b.buf != x->operand && st->as.dot.c.buf != x->operand;
  else if (!ir_nested(st, 0))
    x->fits = x->fits && !sched_reads(st, x->operand) && !sched_writes(st, x->operand);
  return true;
}

static void note_operand(Simple *s, IrBlock *all, const IrBuffer *operand) {
  Search x = {s, operand, true};
  int64_t n = 0;
  if (!low_place_of(s, operand)->frag || hopper_words(s, operand))
    return;
  ir_walk(all, check_use, &x);
  ir_is_const(low_place_of(s, operand)->home->extent[0], &n);
  if (!x.fits || n % 2)
    return;
  IrExpr *extent = low_i64(s, n / 2);
  HopperCast c = {operand, ir_buffer(s->k, IRS_REG, operand->name, DT_U32, 1, &extent)};
  VEC_PUSH(s->arena, &s->hopper->casts, c);
}

static void find_in(Simple *s, IrBlock *b, IrBlock *all) {
  IrBlock *inner;
  for (size_t i = 0; i < b->n; i++) {
    if (b->v[i]->kind == IRK_DOT)
      note_operand(s, all, b->v[i]->as.dot.a.buf);
    for (int j = 0; b->v[i]->kind != IRK_MAP && (inner = ir_nested(b->v[i], j)); j++)
      find_in(s, inner, all);
  }
}

void hopper_find_casts(Simple *s, IrBlock *b) {
  find_in(s, b, b);
}

IrBuffer *hopper_words(const Simple *s, const IrBuffer *operand) {
  for (size_t i = 0; s->hopper && i < s->hopper->casts.n; i++)
    if (s->hopper->casts.v[i].operand == operand)
      return s->hopper->casts.v[i].words;
  return NULL;
}

void hopper_pack(Simple *s, DType t, IrBuffer *from, IrBuffer *words) {
  IrKernel *k = s->k;
  IrStmt *loop;
  IrVar *i = low_emit_for(s, "i", low_i32(s, 0), ir_cast(k, words->extent[0], DT_I32),
                          low_i32(s, 1), &loop);
  loop->as.loop.loop = IRF_UNROLL;
  IrBlock *before = low_enter(s, &loop->as.loop.body);
  IrExpr *at = low_mul(s, ir_ref(k, i), low_i32(s, 2)), *v[2];
  for (int j = 0; j < 2; j++) {
    IrAccess x = {.buf = from, .index = {low_add(s, at, low_i32(s, j))}};
    v[j] = ir_cast(k, ir_ref(k, low_emit_load(s, "x", x)), DT_F32);
  }
  IrAccess to = {.buf = words, .index = {ir_ref(k, i)}};
  low_emit_store(s, to, ir_op2(k, t == DT_BF16 ? OP_PACK_BF16 : OP_PACK_F16, v[0], v[1]));
  low_enter(s, before);
}

bool hopper_map(Simple *s, IrStmt *st) {
  for (size_t i = 0; s->hopper && i < s->hopper->casts.n; i++) {
    const HopperCast *c = &s->hopper->casts.v[i];
    IrBuffer *from = rounded(s, st, c->operand);
    if (!from)
      continue;
    hopper_pack(s, c->operand->dtype, low_place_of(s, from)->home, c->words);
    return true;
  }
  return false;
}
