/* roles.c: explicit warp specialisation: `barrier`, `specialize`, `arrive`, `wait`, `signal =`.
 *
 * In: declarations, roles, calls. Out: TS_ALLOC of an array of barriers, TS_ROLES, TS_ARRIVE,
 * TS_WAIT. Each role is a program of its own: it has its own scalars, and the fragments it uses are
 * its alone; shared tiles, barriers and tensors are everybody's.
 * How many arrivals end a phase is said by the author (`barrier b[2](arrivals = 3)`) or counted in
 * the text once it is checked: each `arrive` and each copy that signals is one, once a role; of two
 * branches the one with more. Tests: tests/lang/specialize_*.tile, tests/errors/specialize_*.tile,
 * tests/errors/barrier_*.tile.
 */
#include "private.h"

#include <string.h>

enum { MOST_BARRIERS = 1024, MOST_ARRIVALS = (1 << 20) - 1, MOST_REGISTERS = 65536 };

/* What acts for all threads of the block or role does not stand in one thread's iteration. */
static bool outside_parallel(Check *c, Span span, const char *what) {
  if (c->parallel)
    diag_add(c->sink, E0304, span,
             "%s is for all threads of the block or role: it does not stand "
             "in a parallel loop",
             what);
  return !c->parallel;
}

/* ---------------------------------------------------------------- declarations */

/* `full[stages]`: constant extents, so that its barriers can be laid out; none is one barrier. */
static bool barrier_type(Check *c, const AstDecl *d, SemaType *t) {
  *t = sema_type_num(DT_U64, false);
  t->kind = TY_TILE;
  t->rank = d->type ? (int)d->type->nextents : 0;
  if (t->rank > SEMA_MAX_RANK) {
    diag_add(c->sink, E0316, d->span, "an array of barriers has up to %d axes, %s has %zu",
             SEMA_MAX_RANK, d->name.text, d->type->nextents);
    return false;
  }
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) {
    if (!sema_check_const_int(c, d->type->extents[i].value, "an extent of an array of barriers",
                              &t->extent[i]))
      return false;
    n = t->extent[i] < 1 || t->extent[i] > MOST_BARRIERS ? 0 : n * t->extent[i];
    if (n < 1 || n > MOST_BARRIERS) {
      diag_add(c->sink, E0316, d->span, "an array of barriers has 1 to %d of them", MOST_BARRIERS);
      return false;
    }
  }
  return true;
}

/* 0: to be counted. */
static bool barrier_arrivals(Check *c, const AstDecl *d, int *out) {
  int64_t n = 0;
  if (d->init && !sema_check_const_int(c, d->init, "the number of arrivals", &n))
    return false;
  if (d->init && (n < 1 || n > MOST_ARRIVALS)) {
    diag_add(c->sink, E0316, d->init->span, "1 to %d arrivals end a phase, this says %lld",
             MOST_ARRIVALS, (long long)n);
    return false;
  }
  *out = (int)n;
  return true;
}

/* Outside roles: inside, only one role could see it. */
static void one_barrier(Check *c, const AstDecl *d, bool ok) {
  SemaType t;
  int arrivals = 0;
  ok = ok && barrier_type(c, d, &t) && barrier_arrivals(c, d, &arrivals);
  Sym *s = sema_sym_declare(c, d->name, ok ? SYM_BARRIER : SYM_POISON, "a barrier");
  if (!ok)
    return;
  TBarrier *b = ARENA_NEW(c->a, TBarrier);
  b->buf = sema_tbuf_new(c, TB_SHARED, d->name.text, &t, d->name.span);
  b->buf->arrivals = arrivals;
  b->buf->barrier = true;
  s->barrier = b;
  VEC_PUSH(c->a, &c->barriers, b);
  sema_tstmt_new(c, TS_ALLOC, d->span)->as.alloc = b->buf;
}

void sema_check_barriers(Check *c, const AstStmt *s) {
  bool ok = outside_parallel(c, s->span, "a barrier");
  if (ok && c->role) {
    Diag *d = diag_add(c->sink, E0316, s->span,
                       "a barrier is declared outside the roles that meet at it");
    diag_hint(c->sink, d, "move it above `specialize`");
    ok = false;
  }
  if (ok && c->loops) {
    Diag *d = diag_add(c->sink, E0316, s->span, "a barrier is declared once, outside loops");
    diag_hint(c->sink, d,
              "move it above the loop: its phases go on from one iteration to the next");
    ok = false;
  }
  for (size_t i = 0; i < s->as.decls.n; i++)
    one_barrier(c, &s->as.decls.v[i], ok);
}

/* ---------------------------------------------------------------- naming one */

/* `full`, `full[s]`: the barrier's symbol, or NULL after a report. */
static TBarrier *barrier_named(Check *c, const AstExpr *e) {
  const AstExpr *base = e->kind == EXPR_INDEX ? e->as.index.base : e;
  Sym *s = base->kind == EXPR_NAME ? sema_sym_find(c, base->as.name) : NULL;
  if (s && s->kind == SYM_BARRIER)
    return s->barrier;
  if (s && s->kind == SYM_POISON)
    return NULL;
  if (!s && base->kind == EXPR_NAME) {
    sema_unknown_name(c, base->as.name, base->span);
    return NULL;
  }
  Diag *d = diag_add(c->sink, E0316, e->span, "this is no barrier%s%s", s ? " but " : "",
                     s ? s->what : "");
  if (s && s->span.file)
    diag_also(c->sink, d, s->span, NULL);
  diag_hint(c->sink, d, "barrier full[2] declares two");
  return NULL;
}

/* One of an array takes an index for each axis. */
static bool barrier_axis(Check *c, const TBarrier *b, const AstAxis *a, int axis, TAxis *out) {
  int64_t at;
  if (a->kind != AXIS_SINGLE) {
    diag_add(c->sink, E0316, a->span, "a barrier of an array is named by single indices");
    return false;
  }
  *out = (TAxis){.origin = sema_check_int(c, a->start, "an index"), .extent = 1, .step = 1};
  if (sema_is_error(out->origin))
    return false;
  int64_t n = b->buf->extent[axis];
  if (!sema_is_const_int(out->origin, &at) || (at >= 0 && at < n))
    return true;
  diag_add(c->sink, E0218, a->span, "index %lld is outside axis %d of %s, whose extent is %lld",
           (long long)at, axis, b->buf->name, (long long)n);
  return false;
}

bool sema_check_barrier(Check *c, const AstExpr *e, TRegion *out) {
  TBarrier *b = barrier_named(c, e);
  if (!b)
    return false;
  size_t given = e->kind == EXPR_INDEX ? e->as.index.n : 0;
  if (given != (size_t)b->buf->rank) {
    Diag *d =
        diag_add(c->sink, E0316, e->span, "%s has %d ax%s, this gives %zu ind%s", b->buf->name,
                 b->buf->rank, b->buf->rank == 1 ? "is" : "es", given, given == 1 ? "ex" : "ices");
    diag_also(c->sink, d, b->buf->span, NULL);
    return false;
  }
  *out = (TRegion){.buf = b->buf};
  for (int i = 0; i < b->buf->rank; i++)
    if (!barrier_axis(c, b, &e->as.index.axes[i], i, &out->axis[i]))
      return false;
  return true;
}

/* ---------------------------------------------------------------- words */

/* They act for the whole block or role, and have an effect. */
static bool word_allowed(Check *c, const AstExpr *e, const char *name) {
  if (c->fn) {
    diag_add(c->sink, E0106, e->span, "a fn that a kernel calls is pure: it has no %s", name);
    return false;
  }
  return outside_parallel(c, e->span, name);
}

void sema_arrive(Check *c, const TRegion *at, Span span) {
  sema_tstmt_new(c, TS_ARRIVE, span)->as.barrier.at = *at;
}

/* arrive(b) */
TExpr *sema_check_arrive(Check *c, const AstExpr *e) {
  static const char *const params[] = {"barrier", NULL};
  Args args;
  TRegion at;
  if (!sema_take_args(c, e, "arrive", params, 1, 1, &args) || !word_allowed(c, e, "arrive") ||
      !sema_check_barrier(c, args.v[0], &at))
    return sema_texpr_error(c, e->span);
  sema_arrive(c, &at, e->span);
  return sema_texpr_none(c, e->span);
}

/* wait(b, parity): until the phase of that parity has ended. */
TExpr *sema_check_wait(Check *c, const AstExpr *e) {
  static const char *const params[] = {"barrier", "parity", NULL};
  Args args;
  TRegion at;
  if (!sema_take_args(c, e, "wait", params, 2, 2, &args) || !word_allowed(c, e, "wait") ||
      !sema_check_barrier(c, args.v[0], &at))
    return sema_texpr_error(c, e->span);
  TExpr *parity = sema_check_int(c, args.v[1], "a parity");
  if (sema_is_error(parity))
    return parity;
  for (size_t i = 0; i < c->barriers.n; i++)
    if (c->barriers.v[i]->buf == at.buf && !c->barriers.v[i]->waited.file)
      c->barriers.v[i]->waited = e->span;
  TStmt *s = sema_tstmt_new(c, TS_WAIT, e->span);
  s->as.barrier.at = at;
  s->as.barrier.parity = parity;
  return sema_texpr_none(c, e->span);
}

/* ---------------------------------------------------------------- roles */

static bool role_option(Check *c, const AstArg *a, TRole *r) {
  static const char *const names[] = {"warpgroups", "registers"};
  int64_t v;
  if (!a->name || (strcmp(a->name, names[0]) != 0 && strcmp(a->name, names[1]) != 0)) {
    Diag *d = diag_add(c->sink, E0317, a->name ? a->name_span : a->value->span,
                       a->name ? "a role has no option %s" : "the options of a role are by name",
                       a->name);
    const char *near = a->name ? names_closest(a->name, names, 2) : NULL;
    if (near)
      diag_hint(c->sink, d, "did you mean %s?", near);
    else
      diag_hint(c->sink, d, "producer(warpgroups = 1, registers = 40) { … }");
    return false;
  }
  if (!sema_check_const_int(c, a->value, a->name, &v))
    return false;
  bool groups = a->name[0] == 'w';
  if (groups ? v < 1 || v > 8 : v < 24 || v > 256 || v % 8) {
    Diag *d = diag_add(c->sink, E0317, a->value->span,
                       groups ? "a role has 1 to 8 warpgroups of 128 threads, this says %lld"
                              : "a thread has 24 to 256 registers, in steps of 8; this says %lld",
                       (long long)v);
    diag_hint(c->sink, d, groups ? "warpgroups = 1" : "registers = 40");
    return false;
  }
  *(groups ? &r->warpgroups : &r->registers) = (int)v;
  return true;
}

/* `break` and `return` end at a role; a `var` from outside is read as it was at `specialize`. */
static void role_body(Check *c, const AstRole *a, TRole *r, int first) {
  int role = c->role, loops = c->loops;
  c->role = first + 1;
  c->loops = 0;
  sema_check_block_into(c, &a->body, &r->body);
  c->role = role;
  c->loops = loops;
}

/* Roles take the block's warps from the first on, in the order of writing. */
static void block_threads(Check *c, const AstStmt *s, const TStmt *t, int warpgroups) {
  int threads = 128 * warpgroups, registers = 0;
  for (int i = 0; i < t->as.roles.n; i++)
    registers = !t->as.roles.v[i].registers || registers < 0
                    ? -1
                    : registers + t->as.roles.v[i].registers * t->as.roles.v[i].warpgroups * 128;
  if (threads > 1024)
    diag_add(c->sink, E0317, s->span, "the roles take %d threads, a block has up to 1024", threads);
  else if (c->threads_said && c->tree->threads < threads)
    diag_add(c->sink, E0317, s->span, "the roles take %d threads, `grid` says %d", threads,
             c->tree->threads);
  else if (registers > MOST_REGISTERS)
    diag_add(c->sink, E0317, s->span,
             "the roles' threads take %d registers, a multiprocessor has %d", registers,
             MOST_REGISTERS);
  else if (!c->threads_said && c->tree->threads < threads)
    c->tree->threads = threads;
}

static bool roles_allowed(Check *c, const AstStmt *s) {
  if (!outside_parallel(c, s->span, "specialize"))
    return false;
  if (!c->role)
    return true;
  diag_add(c->sink, E0317, s->span, "a role has no roles of its own");
  return false;
}

void sema_check_roles(Check *c, const AstStmt *s) {
  if (!roles_allowed(c, s))
    return;
  TStmt *t = ARENA_NEW(c->a, TStmt);
  *t = (TStmt){.kind = TS_ROLES, .span = s->span};
  t->as.roles.n = (int)s->as.roles.n;
  t->as.roles.v = ARENA_ARRAY(c->a, TRole, s->as.roles.n + 1);
  int warpgroups = 0;
  bool ok = true;
  for (int i = 0; i < t->as.roles.n; i++) {
    const AstRole *a = &s->as.roles.v[i];
    TRole *r = &t->as.roles.v[i];
    *r = (TRole){.producer = a->producer, .warpgroups = 1};
    for (size_t j = 0; j < a->options.n; j++)
      ok = role_option(c, &a->options.v[j], r) && ok;
    role_body(c, a, r, warpgroups);
    warpgroups += r->warpgroups;
  }
  if (ok)
    block_threads(c, s, t, warpgroups);
  VEC_PUSH(c->a, c->out, t);
}

/* A fragment lies in the registers of the role that uses it; a snapshot, which nobody writes, may
 * lie in those of each. */
bool sema_role_owns(Check *c, const Sym *s, Span span) {
  TBuf *b = s->value->as.region.buf;
  if (!c->role || s->role || s->value->kind != TE_REGION || b->space != TB_FRAGMENT || b->immutable)
    return true;
  if (!b->role) {
    b->role = c->role;
    b->role_span = span;
  }
  if (b->role == c->role)
    return true;
  Diag *d = diag_add(c->sink, E0318, span, "fragment %s is used by two roles", b->name);
  diag_also(c->sink, d, b->role_span, "here by the other");
  diag_hint(c->sink, d, "a shared tile is seen by all roles: shared %s: …", b->name);
  return false;
}

/* ---------------------------------------------------------------- counting arrivals */

static void count_block(const TStmts *s, const TBuf *b, int64_t *n, int64_t size, Arena *a);

/* A constant index names one barrier along its axis, any other may name each. */
static void count_one(const TRegion *r, int64_t *n, int64_t size) {
  for (int64_t e = 0; e < size; e++) {
    int64_t rest = e, at = 0;
    bool named = true;
    for (int d = r->buf->rank - 1; d >= 0; d--) {
      named =
          named && (!sema_is_const_int(r->axis[d].origin, &at) || at == rest % r->buf->extent[d]);
      rest /= r->buf->extent[d];
    }
    n[e] += named;
  }
}

/* Of two ways the one with more. */
static void count_branches(const TStmt *s, const TBuf *b, int64_t *n, int64_t size, Arena *a) {
  int64_t *x = ARENA_ARRAY(a, int64_t, size), *y = ARENA_ARRAY(a, int64_t, size);
  count_block(&s->as.branch.then, b, x, size, a);
  count_block(&s->as.branch.other, b, y, size, a);
  for (int64_t e = 0; e < size; e++)
    n[e] += x[e] > y[e] ? x[e] : y[e];
}

static void count_block(const TStmts *s, const TBuf *b, int64_t *n, int64_t size, Arena *a) {
  for (size_t i = 0; i < s->n; i++) {
    const TStmt *t = s->v[i];
    if (t->kind == TS_ARRIVE && t->as.barrier.at.buf == b)
      count_one(&t->as.barrier.at, n, size);
    else if (t->kind == TS_COPY && t->as.copy.signal.buf == b)
      count_one(&t->as.copy.signal, n, size);
    else if (t->kind == TS_FOR)
      count_block(&t->as.loop.body, b, n, size, a);
    else if (t->kind == TS_WHILE)
      count_block(&t->as.branch.then, b, n, size, a);
    else if (t->kind == TS_IF)
      count_branches(t, b, n, size, a);
    else if (t->kind == TS_ROLES)
      for (int r = 0; r < t->as.roles.n; r++)
        count_block(&t->as.roles.v[r].body, b, n, size, a);
  }
}

/* Barriers of one array end their phases after equally many arrivals, but for those at which
 * nobody arrives. */
static void count_arrivals(Check *c, const TBarrier *b) {
  int64_t size = 1, most = 0, least = 0;
  for (int i = 0; i < b->buf->rank; i++)
    size *= b->buf->extent[i];
  int64_t *n = ARENA_ARRAY(c->a, int64_t, size);
  count_block(&c->tree->body, b->buf, n, size, c->a);
  for (int64_t e = 0; e < size; e++) {
    most = n[e] > most ? n[e] : most;
    least = n[e] && (!least || n[e] < least) ? n[e] : least;
  }
  if (!most && b->waited.file) {
    Diag *d = diag_add(c->sink, E0316, b->waited, "nothing arrives at %s, so no phase of it ends",
                       b->buf->name);
    diag_also(c->sink, d, b->buf->span, NULL);
  } else if (most != least && !b->buf->arrivals) {
    Diag *d = diag_add(c->sink, E0316, b->buf->span,
                       "some barriers of %s get %lld arrivals in the text, others %lld",
                       b->buf->name, (long long)least, (long long)most);
    diag_hint(c->sink, d, "barrier %s[%lld](arrivals = %lld)", b->buf->name, (long long)size,
              (long long)most);
  }
  if (!b->buf->arrivals)
    b->buf->arrivals = most ? (int)most : 1;
}

void sema_count_arrivals(Check *c) {
  for (size_t i = 0; i < c->barriers.n; i++)
    count_arrivals(c, c->barriers.v[i]);
}
