/* stmt.c: statements of kernels and of the fns they call.
 *
 * In: a block. Out: typed statements. Compile-time branches leave only what is taken. In parallel
 * loops: elements only, nothing from outside is assigned.
 * Statements go to c->out in order. Bodies of loops and branches have a list of their own and a
 * block of their own; what an expression needs before it (an inlined fn, a value kept aside) stands
 * before the statement that holds it. Tests: tests/lang/stmt_*.tile, loop_*.tile,
 * tests/errors/loop_*.tile.
 */
#include "private.h"

/* In the scope at hand. */
static void check_stmts(Check *c, const AstBlock *b) {
  for (size_t i = 0; i < b->n; i++)
    sema_check_stmt(c, b->v[i]);
}

/* Depth counts blocks, too. */
void sema_check_block(Check *c, const AstBlock *b) {
  Block scope;
  sema_block_push(c, &scope);
  if (sema_enter(c, b->span))
    check_stmts(c, b);
  sema_leave(c);
  sema_block_pop(c);
}

/* For bodies: loops, branches. */
void sema_check_block_into(Check *c, const AstBlock *b, TStmts *out) {
  TStmts *saved = c->out;
  c->out = out;
  sema_check_block(c, b);
  c->out = saved;
}

/* ---------------------------------------------------------------- the rest */

static void check_if(Check *c, const AstStmt *s, size_t k);

/* Each arm nests in the one before it. */
static void check_arms(Check *c, const AstStmt *s, size_t k) {
  if (sema_enter(c, s->span))
    check_if(c, s, k);
  sema_leave(c);
}

/* Arms from the k-th on: an `else if` is an IF in the other branch, with what its condition
 * needs. */
static void check_if(Check *c, const AstStmt *s, size_t k) {
  if (k == s->as.branch.n) {
    if (s->as.branch.has_other)
      sema_check_block(c, &s->as.branch.other);
    return;
  }
  TExpr *cond = sema_check_cond(c, s->as.branch.arms[k].cond);
  bool known;
  if (sema_known_bool(cond, &known)) {
    if (known)
      sema_check_block(c, &s->as.branch.arms[k].body);
    else
      check_arms(c, s, k + 1);
    return;
  }
  if (sema_is_error(cond))
    return;
  TStmt *t = ARENA_NEW(c->a, TStmt);
  *t = (TStmt){.kind = TS_IF, .span = s->span};
  t->as.branch.cond = cond;
  sema_check_block_into(c, &s->as.branch.arms[k].body, &t->as.branch.then);
  /* An `else if` runs its condition only there. */
  TStmts *out = c->out;
  c->out = &t->as.branch.other;
  check_arms(c, s, k + 1);
  c->out = out;
  VEC_PUSH(c->a, c->out, t);
}

/* The message may be a number: it is printed with the failure. */
static void check_assert(Check *c, const AstStmt *s) {
  TExpr *cond = sema_check_cond(c, s->as.assertion.cond);
  TExpr *message = s->as.assertion.message ? sema_check_expr(c, s->as.assertion.message) : NULL;
  if (sema_is_error(cond) || (message && sema_is_error(message)))
    return;
  if (message && message->kind != TE_STRING && !sema_is_num(message)) {
    diag_add(c->sink, E0213, s->as.assertion.message->span,
             "the message of assert is a string or number, this is %s", sema_describe(c, message));
    return;
  }
  TStmt *t = sema_tstmt_new(c, TS_ASSERT, s->span);
  t->as.report.cond = cond;
  t->as.report.part = ARENA_NEW(c->a, TExpr *);
  t->as.report.part[0] = message;
  t->as.report.nparts = message ? 1 : 0;
}

/* A call whose value is not used: atomics keep their effect, others their faults. */
static void check_call_stmt(Check *c, const AstStmt *s) {
  TExpr *v = sema_check_expr(c, s->as.expr);
  /* A pure value that nothing uses has no trace. */
  if (sema_is_error(v) || !sema_is_num(v) || sema_is_pure(v))
    return;
  TStmt *t = sema_tstmt_new(c, v->kind == TE_ATOMIC ? TS_ATOMIC : TS_EVAL, s->span);
  t->as.let.value = v;
}

/* Ends the block; in a fn, gives its value. */
static void check_return(Check *c, const AstStmt *s) {
  if (c->fn) {
    sema_loop_return(c, s); /* others are fn.c's, which never comes here with them */
  } else if (c->role) {
    Diag *d = diag_add(c->sink, E0317, s->span, "`return` ends the block, not one of its roles");
    diag_hint(c->sink, d, "a role ends with its last statement: if … { … } around the rest");
  } else if (c->parallel) {
    Diag *d = diag_add(c->sink, E0304, s->span,
                       "`return` ends the block, not one iteration of a "
                       "parallel loop");
    diag_hint(c->sink, d, "continue");
  } else {
    sema_tstmt_new(c, TS_RETURN, s->span);
  }
}

/* Out of a parallel loop there is no way: its iterations are independent. */
static void check_break(Check *c, const AstStmt *s) {
  if (c->parallel && !c->loops) {
    Diag *d = diag_add(c->sink, E0304, s->span,
                       "iterations of a parallel loop are independent: none can end the others");
    diag_hint(c->sink, d, "continue");
    return;
  }
  sema_tstmt_new(c, TS_BREAK, s->span);
}

/* The kernel's own grid was taken by check_head and never comes here. */
static void misplaced_grid(Check *c, const AstStmt *s) {
  if (s == c->kernel->ast->grid)
    return;
  Diag *d = diag_add(c->sink, E0301, s->span,
                     c->kernel->ast->grid ? "a kernel has one grid"
                                          : "grid stands directly in the kernel's body");
  if (c->kernel->ast->grid)
    diag_also(c->sink, d, c->kernel->ast->grid->span, NULL);
}

/* One case a kind. */
void sema_check_stmt(Check *c, const AstStmt *s) {
  switch (s->kind) {
  case STMT_EXPR:
    check_call_stmt(c, s);
    break;
  case STMT_ASSIGN:
    sema_check_assign(c, s);
    break;
  case STMT_LET:
    sema_check_let(c, s);
    break;
  case STMT_VAR:
    sema_check_var(c, s);
    break;
  case STMT_SHARED:
    sema_check_tiles(c, s, TB_SHARED);
    break;
  case STMT_FRAGMENT:
    sema_check_tiles(c, s, TB_FRAGMENT);
    break;
  case STMT_LOCAL:
    sema_check_tiles(c, s, TB_LOCAL);
    break;
  case STMT_LAYOUT:
    sema_check_layout(c, s);
    break;
  case STMT_GRID:
    misplaced_grid(c, s);
    break;
  case STMT_FOR:
    sema_check_for(c, s);
    break;
  case STMT_WHILE:
    sema_check_while(c, s);
    break;
  case STMT_IF:
    check_if(c, s, 0);
    break;
  case STMT_BREAK:
    check_break(c, s);
    break;
  case STMT_CONTINUE:
    sema_tstmt_new(c, TS_CONTINUE, s->span);
    break;
  case STMT_RETURN:
    check_return(c, s);
    break;
  case STMT_ASSERT:
    check_assert(c, s);
    break;
  case STMT_BARRIER:
    sema_check_barriers(c, s);
    break;
  case STMT_ROLES:
    sema_check_roles(c, s);
    break;
  default:
    break;
  }
}
