/* hopper_cast.c: operands in registers that are another fragment, rounded.
 *
 * In: a MAP that stores every element of an f32 fragment, rounded to 16 bits, in another, which one
 * product takes as its first operand. Out: nothing for the MAP; the product's operand is packed
 * from the f32 registers, two roundings an instruction. Always holds: nothing writes the source
 * between the MAP and the product. Tests: tests/unit/check_schedule.c.
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

/* The statement before the product that writes its operand, if nothing writes the source since. */
static void find_cast(Simple *s, IrBlock *b, size_t product) {
  const IrBuffer *to = b->v[product]->as.dot.a.buf;
  for (size_t i = product; i-- > 0;) {
    if (!sched_writes(b->v[i], to))
      continue;
    HopperCast c = {b->v[i], to, rounded(s, b->v[i], to)};
    for (size_t j = i + 1; j < product && c.from; j++)
      if (sched_writes(b->v[j], c.from))
        c.from = NULL;
    if (c.from)
      VEC_PUSH(s->arena, &s->hopper->casts, c);
    return;
  }
}

static bool used_once(Simple *s, IrBlock *b, const IrBuffer *operand) {
  SchedUses u = sched_uses(b, operand);
  return low_place_of(s, operand)->frag && u.writes == 1 && u.reads == 1;
}

static void find_in(Simple *s, IrBlock *b, IrBlock *all) {
  IrBlock *inner;
  for (size_t i = 0; i < b->n; i++) {
    if (b->v[i]->kind == IRK_DOT && used_once(s, all, b->v[i]->as.dot.a.buf))
      find_cast(s, b, i);
    for (int j = 0; b->v[i]->kind != IRK_MAP && (inner = ir_nested(b->v[i], j)); j++)
      find_in(s, inner, all);
  }
}

void hopper_find_casts(Simple *s, IrBlock *b) {
  find_in(s, b, b);
}

const IrBuffer *hopper_cast_source(const Simple *s, const IrBuffer *operand) {
  for (size_t i = 0; i < s->hopper->casts.n; i++)
    if (s->hopper->casts.v[i].to == operand)
      return s->hopper->casts.v[i].from;
  return operand;
}

bool hopper_map(Simple *s, IrStmt *st) {
  for (size_t i = 0; s->hopper && i < s->hopper->casts.n; i++)
    if (s->hopper->casts.v[i].map == st)
      return true;
  return false;
}
