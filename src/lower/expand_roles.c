/* expand_roles.c: fragments of the author's roles.
 *
 * In: a kernel with `specialize`. Out: fragments that one role alone uses are declared, and get
 * their first values, in that role, so that its threads can hold them in registers; what several
 * roles use lies in shared memory. Always holds: a role's fragments are laid out over that role's
 * threads. Tests: tests/unit/check_roles.c.
 */
#include "hopper.h"

/* The program's roles; NULL: it has none. They stand in the kernel's own block. */
IrRoles *expand_author_roles(const IrKernel *k) {
  for (size_t i = 0; i < k->body.n && !hopper_groups(k); i++)
    if (k->body.v[i]->kind == IRK_ROLES)
      return &k->body.v[i]->as.roles;
  return NULL;
}

typedef struct Seen { /* of a fragment */
  const IrBuffer *buf;
  bool uses, others; /* it, and any other fragment or tile */
} Seen;

static void see_buffer(IrBuffer **b, unsigned how, void *ctx) {
  Seen *x = ctx;
  (void)how;
  x->uses |= *b == x->buf;
  x->others |= *b != x->buf && (*b)->space != IRS_GLOBAL;
}

static bool see_stmt(IrStmt *st, void *ctx) {
  IrVisitor v = {NULL, NULL, see_buffer, ctx};
  ir_visit(st, &v);
  return true;
}

static Seen look(IrStmt *st, const IrBuffer *b) {
  Seen x = {b, false, false};
  IrBlock one = {&st, 1, 1};
  ir_walk(&one, see_stmt, &x);
  return x;
}

static bool uses_block(IrBlock *b, const IrBuffer *buf) {
  Seen x = {buf, false, false};
  ir_walk(b, see_stmt, &x);
  return x.uses;
}

/* The one role that uses it, where what stands before the roles only gives it values and nothing
 * behind them asks for it; -1: there is none. */
static int owner_of(IrKernel *k, size_t roles, const IrBuffer *b) {
  IrRoles *r = &k->body.v[roles]->as.roles;
  int owner = -1;
  for (size_t i = 0; i < k->body.n; i++) {
    Seen x = i == roles ? (Seen){0} : look(k->body.v[i], b);
    bool first = k->body.v[i]->kind == IRK_ALLOC || k->body.v[i]->kind == IRK_MAP;
    if (x.uses && (i > roles || !first || x.others))
      return -1;
  }
  for (int i = 0; i < r->nroles; i++) {
    if (!uses_block(&r->role[i].body, b))
      continue;
    if (owner >= 0)
      return -1;
    owner = i;
  }
  return owner;
}

/* Its declaration and values, in order, to the front of the role. */
static void move_into(IrKernel *k, size_t *roles, IrRoleBody *role, const IrBuffer *b) {
  size_t at = 0;
  for (size_t i = 0; i < *roles;) {
    if (!look(k->body.v[i], b).uses) {
      i++;
      continue;
    }
    sched_insert(k, &role->body, at++, k->body.v[i]);
    sched_remove(&k->body, i);
    (*roles)--;
  }
}

void expand_settle_roles(IrKernel *k) {
  size_t roles = 0;
  while (roles < k->body.n && k->body.v[roles]->kind != IRK_ROLES)
    roles++;
  if (roles == k->body.n)
    return;
  for (size_t i = 0; i < roles;) {
    IrStmt *st = k->body.v[i];
    int owner = st->kind == IRK_ALLOC && st->as.alloc->space == IRS_FRAGMENT
                    ? owner_of(k, roles, st->as.alloc)
                    : -1;
    if (owner < 0)
      i++;
    else
      move_into(k, &roles, &k->body.v[roles]->as.roles.role[owner], st->as.alloc);
  }
}
