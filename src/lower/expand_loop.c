/* expand_loop.c: pipelined loops of one role, by groups of cp.async.
 *
 * In: `for … pipelined(n)` whose body begins with copies of tensors that nobody writes, or with
 * gathers from such (expand_gather.h), into shared tiles that only this loop uses. Out: a ring of n
 * copies of each tile, which is filled n - 1 rounds ahead (expand_fill.c); one barrier a round.
 * Always holds: a round's copies are in their own group, empty where the loop ends before, so that
 * a wait for n - 2 pending groups is one for this round's; what is copied next goes where the round
 * before has read, behind this round's barrier. Tests: tests/unit/check_lower.c.
 */
#include "expand_count.h"
#include "expand_dot.h"
#include "expand_gather.h"
#include "expand_pipe.h"
#include "expand_side.h"
#include "hopper.h"
#include "ring.h"

enum { MOST_STAGES = 8, LEAST_BYTES = 4, MOST_STEP = 1 << 20 };

/* ---------------------------------------------------------------- which loops */

typedef struct Uses {
  const IrBuffer *buf;
  int all, writes, allocs;
} Uses;

static void count_use(IrBuffer **b, unsigned how, void *ctx) {
  Uses *u = ctx;
  if (*b != u->buf)
    return;
  u->allocs += (how & IR_DECLARES) != 0;
  u->all += !(how & IR_DECLARES);
  u->writes += (how & IR_WRITES) && !(how & IR_DECLARES);
}

static bool count_uses(IrStmt *st, void *ctx) {
  IrVisitor v = {NULL, NULL, count_use, ctx};
  ir_visit(st, &v);
  return true;
}

/* Only this loop touches the tile, declared outside it, and only the statement writes it. */
static bool own_tile(Simple *s, IrBlock *body, const IrBuffer *b, IrStmt *writer) {
  Uses in = {.buf = b}, all = {.buf = b}, own = {.buf = b};
  IrBlock one = {&writer, 1, 1};
  ir_walk(body, count_uses, &in);
  ir_walk(&s->k->body, count_uses, &all);
  ir_walk(&one, count_uses, &own);
  return in.writes == own.writes && own.all == own.writes && in.allocs == 0 && all.allocs == 1 &&
         in.all == all.all;
}

static bool steady(const IrExpr *e) {
  return !e || (!e->reads_mut && !e->may_fault);
}

bool pipe_source(Simple *s, const IrCopy *c, int64_t *width) {
  Shape shape = low_shape_of(s, &c->dst, &c->src);
  Frag f = side_layout(s, c, &shape);
  Side src = side_of(s, &c->src, &f), dst = side_of(s, &c->dst, &f);
  for (int d = 0; d < c->src.buf->rank; d++) {
    const IrAxis *x = &c->src.axis[d];
    int64_t lo, hi;
    if (!steady(x->origin) || !steady(x->stop) || x->step < 1)
      return false;
    if (d == side_unit_axis(s, c->src.buf) && (!ir_range(x->origin, &lo, &hi) || lo < 0))
      return false;
  }
  *width = src.width < dst.width ? src.width : dst.width;
  return src.axis >= 0 && src.axis == dst.axis &&
         *width * (int64_t)dtype_size(c->src.buf->dtype) >= LEAST_BYTES;
}

static bool can_prefetch(Simple *s, IrBlock *body, IrStmt *st) {
  const IrCopy *c = &st->as.copy;
  const Place *p = low_place_of(s, c->dst.buf);
  int64_t width;
  return c->src.buf->space == IRS_GLOBAL && c->src.buf->role == IRR_IN && p->tile && !p->fragment &&
         !p->printed && c->dst.buf->dtype == c->src.buf->dtype &&
         (!c->pad || ir_is_zero_bits(c->pad)) && !c->signal.buf && expand_whole(s, &c->dst) &&
         p->rank > 0 && p->bytes > 0 && own_tile(s, body, c->dst.buf, st) &&
         pipe_source(s, c, &width);
}

/* A parallel loop that brings a tile its elements, of which none is written by anybody. */
static bool can_gather(Simple *s, IrStmt *loop, IrStmt *st, Gather *g) {
  return gather_find(s, st, loop, g) && !g->out && g->tensor->role == IRR_IN &&
         own_tile(s, &loop->as.loop.body, g->tile, st);
}

IrBuffer *pipe_tile(const Pipe *p, int i) {
  return p->gather[i] ? p->gather[i]->tile : p->copy[i]->as.copy.dst.buf;
}

bool pipe_has(const Pipe *p, const IrStmt *st) {
  for (int i = 0; i < p->ncopies; i++)
    if (p->copy[i] == st)
      return true;
  return false;
}

static void add_gather(Simple *s, IrStmt *loop, IrStmt *st, Pipe *p) {
  Gather g;
  if (!can_gather(s, loop, st, &g))
    return;
  p->gather[p->ncopies] = arena_copy(s->arena, &g, sizeof g);
  p->copy[p->ncopies++] = st;
  p->prepares = true;
}

/* Copies and gathers at the body's begin; declarations may stand between. */
static void find_copies(Simple *s, IrStmt *st, Pipe *p) {
  IrBlock *body = &st->as.loop.body;
  bool *changes = ARENA_ARRAY(s->arena, bool, s->k->vars.n + 1);
  changes[st->as.loop.index->id] = true;
  for (size_t i = 0; i < body->n && p->ncopies < PIPE_COPIES; i++) {
    IrStmt *b = body->v[i];
    int before = p->ncopies;
    if (b->kind == IRK_COPY && can_prefetch(s, body, b))
      p->copy[p->ncopies++] = b;
    else if (b->kind == IRK_MAP)
      add_gather(s, st, b, p);
    bool let = count_plain_let(b, changes), other = b->kind == IRK_ALLOC || b->kind == IRK_COPY;
    if (p->ncopies == before && !other && !let)
      return;
    p->prepares |= let && b->as.let.value->may_fault;
  }
}

static bool find_pipe(IrStmt *st, void *ctx) {
  Simple *s = ctx;
  int64_t step;
  if (st->kind != IRK_FOR || st->as.loop.loop != IRF_PIPELINED ||
      st->as.loop.index->type == DT_U64 || !ir_is_const(st->as.loop.step, &step) || step < 1 ||
      step > MOST_STEP)
    return true;
  low_index_range(st->as.loop.index, st->as.loop.lo, st->as.loop.hi, st->as.loop.step);
  Pipe p = {.loop = st, .stages = st->as.loop.stages ? st->as.loop.stages : PIPE_STAGES};
  p.stages = p.stages > MOST_STAGES ? MOST_STAGES : p.stages;
  if (p.stages > 1)
    find_copies(s, st, &p);
  if (!p.ncopies)
    return true;
  VEC_PUSH(s->arena, &s->pipes, p);
  for (int i = 0; i < p.ncopies; i++)
    low_place_of(s, pipe_tile(&p, i))->stages = p.stages;
  return true;
}

void expand_find_pipes(Simple *s) {
  if (s->target->arch >= ARCH_SM80 && !hopper_groups(s->k) && !expand_author_roles(s->k))
    ir_walk(&s->k->body, find_pipe, s);
}

static void set_stages(Simple *s, Pipe *p, int stages) {
  p->stages = stages;
  for (int i = 0; i < p->ncopies; i++)
    low_place_of(s, pipe_tile(p, i))->stages = stages;
}

/* One stage less for those that have the most; of two stages none is left, and the loop loads as it
 * goes; false: there is none. */
bool expand_shorten_pipes(Simple *s) {
  Pipe *most = NULL;
  for (size_t i = 0; i < s->pipes.n; i++)
    if (!most || s->pipes.v[i].stages > most->stages)
      most = &s->pipes.v[i];
  if (!most)
    return false;
  set_stages(s, most, most->stages > 2 ? most->stages - 1 : 0);
  if (!most->stages) {
    lower_note(s->request, "a loop does not load ahead: there is no room for two stages");
    *most = s->pipes.v[--s->pipes.n];
  }
  return true;
}

/* ---------------------------------------------------------------- the loop */

static void wait_groups(Simple *s, int64_t n) {
  IrOperand *o = ARENA_ARRAY(s->k->arena, IrOperand, 1);
  o[0] = (IrOperand){.kind = IRO_EXPR, .expr = low_i32(s, n)};
  low_emit(s, IRK_OP)->as.op = (IrOp){OP_CP_ASYNC_WAIT, o, 1};
}

/* Before the loop and behind it the tiles are like any others; inside the ring keeps order. */
static void note_tiles(Simple *s, const Pipe *p, unsigned how, bool piped) {
  for (int i = 0; i < p->ncopies; i++) {
    Place *x = low_place_of(s, pipe_tile(p, i));
    x->piped = false;
    low_note_buffer(s, pipe_tile(p, i), how);
    x->piped = piped;
    x->stage = NULL;
  }
}

/* The rounds before the first. */
static void start(Simple *s, const Pipe *p, IrExpr *lo, IrExpr *end) {
  IrStmt *loop;
  IrVar *j = low_emit_for(s, "ahead", low_i32(s, 0), low_i32(s, p->ahead), low_i32(s, 1), &loop);
  IrBlock *before = low_enter(s, &loop->as.loop.body);
  IrExpr *by = low_mul(s, ir_cast(s->k, ir_ref(s->k, j), lo->type), p->loop->as.loop.step);
  lo = low_with_room(s->k, lo, low_way(p->loop, p->ahead));
  IrVar *index = low_emit_let(s, "next", low_add(s, lo, by));
  pipe_fill(s, p, ir_ref(s->k, index), end, ir_ref(s->k, j));
  low_enter(s, before);
}

static Pipe *pipe_of(Simple *s, const IrStmt *st) {
  for (size_t i = 0; i < s->pipes.n; i++)
    if (s->pipes.v[i].loop == st)
      return &s->pipes.v[i];
  return NULL;
}

/* Which stage the tiles have in what comes next. */
static void set_stage(Simple *s, const Pipe *p, IrExpr *stage) {
  for (int i = 0; i < p->ncopies; i++)
    low_place_of(s, pipe_tile(p, i))->stage = stage;
}

/* This round's copies are there, and all threads are past the round before. */
static void meet(Simple *s, const Pipe *p) {
  wait_groups(s, p->ahead - 1);
  if (p->groups)
    ring_fence(s);
  low_barrier(s);
}

/* Which stage this round has. */
static IrExpr *take_stage(Simple *s, const Pipe *p, const IrVar *stage) {
  IrExpr *now = ir_ref(s->k, low_emit_let(s, "now", ir_ref(s->k, (IrVar *)(uintptr_t)stage)));
  set_stage(s, p, now);
  return now;
}

/* Sends the round that is `ahead` of this one on its way, into the stage that was read longest ago;
 * the variable goes on to the next round's. */
static void send_ahead(Simple *s, const Pipe *p, IrVar *stage, IrExpr *now, IrExpr *index,
                       IrExpr *end) {
  IrKernel *k = s->k;
  int64_t back = p->stages - p->ahead, way = low_way(p->loop, p->ahead);
  IrExpr *wraps =
      back == 1 ? ir_op2(k, OP_EQ, now, low_i32(s, 0)) : ir_op2(k, OP_LT, now, low_i32(s, back));
  IrExpr *wrapped = back == 1 ? low_i32(s, p->ahead) : low_add(s, now, low_i32(s, p->ahead));
  IrExpr *put = ir_op3(k, OP_SELECT, wraps, wrapped, ir_op2(k, OP_SUB, now, low_i32(s, back)));
  put = ir_ref(k, low_emit_let(s, "put", put));
  IrExpr *last = ir_op2(k, OP_EQ, now, low_i32(s, p->stages - 1));
  low_emit_set(s, stage, ir_op3(k, OP_SELECT, last, low_i32(s, 0), low_add(s, now, low_i32(s, 1))));
  IrExpr *next = low_add(s, low_with_room(k, index, way), ir_int_of(k, index->type, way));
  pipe_fill(s, p, next, end, put);
  set_stage(s, p, now);
}

static IrExpr *open_round(Simple *s, const Pipe *p, IrVar *stage, IrExpr *index, IrExpr *end) {
  IrExpr *now = take_stage(s, p, stage);
  send_ahead(s, p, stage, now, index, end);
  return now;
}

/* The loop's one product, of two of its tiles, whose operands can be loaded a step ahead. */
static IrStmt *one_product_of(const Pipe *p, const IrBlock *rest) {
  IrStmt *st = rest->n ? rest->v[rest->n - 1] : NULL;
  if (!st || st->kind != IRK_DOT)
    return NULL;
  for (size_t i = 0; i + 1 < rest->n; i++)
    if (!ir_is_let(rest->v[i]))
      return NULL;
  const IrRegion *side[] = {&st->as.dot.a, &st->as.dot.b};
  for (int i = 0; i < 2; i++) {
    bool piped = false;
    for (int j = 0; j < p->ncopies; j++)
      piped |= pipe_tile(p, j) == side[i]->buf;
    for (int d = 0; d < side[i]->buf->rank; d++)
      piped &= side[i]->axis[d].origin->op == OP_CONST;
    if (!piped)
      return NULL;
  }
  return st;
}

/* One of warpgroups runs while the copies of a round to come are sent. */
static bool of_groups(Simple *s, const Pipe *p, const IrBlock *rest) {
  const IrStmt *st = one_product_of(p, rest);
  return st && p->stages > 2 && st->as.dot.accumulate && low_place_of(s, st->as.dot.b.buf)->operand;
}

static void round_of_groups(Simple *s, const Pipe *p, IrVar *stage, IrExpr *index, IrExpr *end,
                            IrStmt *dot) {
  meet(s, p);
  IrExpr *now = take_stage(s, p, stage);
  ring_start(s, dot);
  send_ahead(s, p, stage, now, index, end);
  ring_wait(s);
}

/* The next round's first operands are on their way before this round's last products; behind the
 * last round those of the same stage, which nobody uses. */
static void one_product(Simple *s, const Pipe *p, IrVar *stage, IrExpr *index, IrExpr *end,
                        Mma *m) {
  IrKernel *k = s->k;
  IrExpr *step = p->loop->as.loop.step, *now = open_round(s, p, stage, index, end);
  mma_run(m);
  meet(s, p);
  IrExpr *more = low_goes_on(k, index, end, step);
  IrVar *ahead = low_emit_let(s, "ahead", ir_op3(k, OP_SELECT, more, ir_ref(k, stage), now));
  set_stage(s, p, ir_ref(k, ahead));
  mma_load(m, low_i32(s, 0));
  mma_finish(m);
}

/* Before the first round, where there is one. */
static void load_first(Simple *s, const Pipe *p, IrExpr *lo, IrExpr *end, Mma *m) {
  meet(s, p);
  IrBlock *before = low_enter(s, &low_emit_if(s, ir_op2(s->k, OP_LT, lo, end))->as.if_.then);
  set_stage(s, p, low_i32(s, 0));
  mma_load(m, low_i32(s, 0));
  low_enter(s, before);
}

/* The checks of the first round's LETs. */
static void check_lets(Simple *s, const Pipe *p, IrExpr *lo) {
  size_t n = s->k->vars.n;
  const IrStmt *b;
  IrExpr **to = ARENA_ARRAY(s->arena, IrExpr *, n);
  to[p->loop->as.loop.index->id] = lo;
  for (size_t i = 0; (b = pipe_next_let(p, &i));) {
    IrStmt let = {.kind = IRK_LET, .span = b->span};
    let.as.let.value = to[b->as.let.var->id] = ir_replace(s->k, b->as.let.value, to, n);
    low_check_exprs(s, &let);
    (void)count_replace(s, p->counts, b->as.let.value); /* asks for the counters */
  }
}

/* A loop's end that can become its begin. */
static IrVar *end_where_wrong(Simple *s, const IrExpr *lo, IrExpr *end) {
  int64_t least, most, first, hi;
  IrVar *v = low_emit_var(s, "last", end);
  if (ir_range(end, &least, &most) && ir_range(lo, &first, &hi)) {
    v->lo = first < least ? first : least;
    v->hi = hi > most ? hi : most;
  }
  return v;
}

/* What gathers compute once, and the checks of the LETs between them: of the first round, if there
 * is one. Where it ends: a fault is only noted, so a loop that divides by zero has no round, whose
 * indices would mean nothing. */
static IrExpr *prepare(Simple *s, Pipe *p, IrExpr *lo, IrExpr *end) {
  IrBlock first = {0};
  IrExpr *wrong = NULL;
  if (!p->prepares)
    return end;
  p->counts = ARENA_NEW(s->arena, Counts);
  count_begin(s, p->counts, p->loop);
  for (int i = 0; i < p->ncopies; i++)
    if (p->gather[i])
      gather_declare(s, p->gather[i]);
  IrBlock *before = low_enter(s, &first);
  s->wrong = &wrong;
  check_lets(s, p, lo);
  for (int i = 0; i < p->ncopies; i++)
    if (p->gather[i])
      gather_rows(s, p->gather[i]);
  s->wrong = NULL;
  low_enter(s, before);
  IrVar *last = wrong ? end_where_wrong(s, lo, end) : NULL;
  IrStmt *any = low_emit_if(s, ir_op2(s->k, OP_LT, lo, end));
  any->as.if_.then = first;
  if (wrong) {
    low_enter(s, &any->as.if_.then);
    low_enter(s, &low_emit_if(s, wrong)->as.if_.then);
    low_emit_set(s, last, lo);
    low_enter(s, before);
    end = ir_ref(s->k, low_emit_let(s, "last", ir_ref(s->k, last)));
  }
  count_declare(s, p->counts);
  return end;
}

bool expand_pipe(Simple *s, IrStmt *st) {
  Pipe *p = pipe_of(s, st);
  if (!p)
    return false;
  IrKernel *k = s->k;
  const IrFor *f = &st->as.loop;
  note_tiles(s, p, IR_WRITES, true);
  low_fence(s);
  for (int i = 0; i < p->ncopies; i++) /* the rounds' barriers stand for it */
    s->held.v[pipe_tile(p, i)->id] = 0;
  size_t nheld = s->held.n;
  const uint8_t *held = arena_copy(s->arena, s->held.v, nheld);
  IrExpr *end = f->hi->nargs ? ir_ref(k, low_emit_let(s, "end", f->hi)) : f->hi;
  IrExpr *lo = f->lo->nargs ? ir_ref(k, low_emit_let(s, "first", f->lo)) : f->lo;
  IrBlock rest = {0};
  for (size_t i = 0; i < f->body.n; i++)
    if (!pipe_has(p, f->body.v[i]))
      VEC_PUSH(s->arena, &rest, f->body.v[i]);
  p->groups = of_groups(s, p, &rest);
  p->ahead = p->stages - 1;
  end = prepare(s, p, lo, end);
  start(s, p, lo, end);
  IrVar *stage = low_emit_var(s, "stage", low_i32(s, 0));
  stage->lo = 0;
  stage->hi = p->stages - 1;
  Mma m;
  IrStmt *dot = one_product_of(p, &rest);
  bool ahead = dot && !p->groups && mma_begin_ahead(s, &dot->as.dot, &m);
  if (ahead)
    load_first(s, p, lo, end, &m);
  IrStmt *loop = low_emit(s, IRK_FOR);
  loop->as.loop = *f;
  loop->as.loop.lo = lo;
  loop->as.loop.hi = end;
  loop->as.loop.loop = IRF_SERIAL;
  loop->as.loop.stages = 0;
  loop->as.loop.body = (IrBlock){0};
  IrBlock *before = low_enter(s, &loop->as.loop.body);
  s->loops++;
  if (ahead) {
    one_product(s, p, stage, ir_ref(k, f->index), end, &m);
  } else if (p->groups) {
    round_of_groups(s, p, stage, ir_ref(k, f->index), end, dot);
  } else {
    meet(s, p);
    open_round(s, p, stage, ir_ref(k, f->index), end);
    low_points(s, &rest); /* what it holds at its end the next round's barrier lets go */
  }
  s->loops--;
  low_enter(s, before);
  for (size_t i = 0; i < nheld; i++)
    s->held.v[i] |= held[i]; /* the loop may run no round */
  note_tiles(s, p, IR_READS, false);
  low_fence(s);
  wait_groups(s, 0); /* none is left unless the loop was left early */
  return true;
}
