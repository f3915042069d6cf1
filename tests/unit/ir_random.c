/* ir_random.c: random kernels (see ir_random.h). */
#include "ir_random.h"

typedef struct Random {
  IrKernel *k;
  uint64_t state;
  VEC(IrVar *) vars;     /* in scope */
  VEC(IrBuffer *) tiles; /* in scope */
  VEC(IrBuffer *) tensors;
  VEC(IrBuffer *) regs;
  VEC(IrChannel *) channels;
  int depth;
  int left; /* statements that may still be made */
} Random;

static uint64_t bits(Random *g) {
  g->state = g->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (g->state ^ (g->state >> 31)) >> 16;
}
static int64_t below(Random *g, int64_t n) {
  return (int64_t)(bits(g) % (uint64_t)n);
}
static bool chance(Random *g, int percent) {
  return below(g, 100) < percent;
}

/* ---------------------------------------------------------------- expressions */

static DType any_type(Random *g) {
  return (DType)below(g, DT_COUNT);
}

static DType int_type(Random *g) {
  static const DType t[] = {DT_I32, DT_I64, DT_U32, DT_U64, DT_I8, DT_U16};
  return t[below(g, 6)];
}

static IrExpr *random_const(Random *g, DType t) {
  static const double floats[] = {0.0, -0.0, 1.0, 0.5, 3.14159, 1e30, -2.5e-7, 65504.0};
  Scalar s = {.type = DT_I64};
  if (dtype_is_float(t)) {
    s.type = DT_F64;
    s.as.f = chance(g, 10) ? __builtin_inf() : chance(g, 5) ? __builtin_nan("") : 0.0;
    if (s.as.f == 0.0)
      s.as.f = floats[below(g, 8)] * (chance(g, 50) ? 1.0 : (double)below(g, 1000) / 7);
  } else {
    s.as.i = chance(g, 10) ? INT64_MIN : chance(g, 80) ? below(g, 300) - 100 : (int64_t)bits(g);
  }
  return ir_const(g->k, scalar_convert(s, t));
}

static IrExpr *expr(Random *g, DType t, int depth);

static IrExpr *leaf(Random *g, DType t) {
  for (int tries = 0; tries < 6 && g->vars.n && chance(g, 80); tries++) {
    IrVar *v = g->vars.v[below(g, (int64_t)g->vars.n)];
    if (v->type == t)
      return ir_ref(g->k, v);
    if (tries == 5)
      return ir_cast(g->k, ir_ref(g->k, v), t);
  }
  return random_const(g, t);
}

static IrExpr *compare(Random *g, int depth) {
  DType t = any_type(g);
  OpCode op = (OpCode)(OP_EQ + below(g, t == DT_BOOL ? 2 : 6));
  return ir_op2(g->k, op, expr(g, t, depth), expr(g, t, depth));
}

/* Any operation of the table whose result is of type t. */
static IrExpr *operation(Random *g, DType t, int depth) {
  OpCode op = (OpCode)below(g, OP_COUNT);
  const OpInfo *info = op_info(op);
  IrExpr *arg[4];
  if (info->cls != OPC_PURE || info->arity == 0)
    return leaf(g, t);
  DType from = t;
  switch (info->rule) {
  case RULE_CAST:
    from = any_type(g);
    break;
  case RULE_BITCAST:
    if (t == DT_BOOL)
      return leaf(g, t);
    do
      from = any_type(g);
    while (from == DT_BOOL || dtype_bits(from) != dtype_bits(t));
    break;
  case RULE_COMPARE:
    return t == DT_BOOL ? compare(g, depth) : leaf(g, t);
  case RULE_TEST:
    from = DT_F32;
    break;
  case RULE_COUNT:
    from = int_type(g);
    break;
  case RULE_PACK:
    from = DT_F32;
    break;
  case RULE_UNPACK:
  case RULE_WORDS:
    from = DT_U32;
    break;
  case RULE_DESC:
    from = DT_I32;
    break;
  default:
    break;
  }
  bool fixed = info->rule == RULE_CAST || info->rule == RULE_BITCAST || info->rule == RULE_SELECT;
  if (!fixed && (!op_takes(op, from) || op_result(op, from) != t))
    return leaf(g, t);
  for (int i = 0; i < info->arity; i++)
    arg[i] = expr(g,
                  info->rule == RULE_SELECT && i == 0  ? DT_BOOL
                  : info->rule == RULE_SHIFT && i == 1 ? int_type(g)
                                                       : from,
                  depth);
  return ir_expr(g->k, op, t, arg, info->arity);
}

static IrExpr *expr(Random *g, DType t, int depth) {
  if (depth <= 0 || chance(g, 20))
    return leaf(g, t);
  return operation(g, t, depth - 1);
}

static IrExpr *index_expr(Random *g) {
  return expr(g, g->k->level == IR_THREAD && chance(g, 70) ? DT_I32 : DT_I64, 2);
}

/* ---------------------------------------------------------------- names */

static IrVar *new_var(Random *g, IrVarKind kind, DType t) {
  static const char *const names[] = {"x", "y", "count", "tid", "sum", "stop", "x_1", "f32"};
  return ir_var(g->k, kind, names[below(g, 8)], t);
}

static void in_scope(Random *g, IrVar *v) {
  VEC_PUSH(g->k->arena, &g->vars, v);
}

static IrBuffer *new_tile(Random *g, IrSpace space, int rank) {
  IrExpr *extent[IR_MAX_RANK];
  for (int i = 0; i < rank; i++)
    extent[i] = ir_int(g->k, below(g, 40));
  IrBuffer *b = ir_buffer(g->k, space, chance(g, 50) ? "tile" : "A", any_type(g), rank, extent);
  b->span = g->k->span;
  return b;
}

static IrBuffer *some_tile(Random *g) {
  if (g->tiles.n && chance(g, 70))
    return g->tiles.v[below(g, (int64_t)g->tiles.n)];
  return g->tensors.v[below(g, (int64_t)g->tensors.n)];
}

static IrStmt *add(Random *g, IrBlock *b, IrKind kind) {
  g->left--;
  return ir_add(g->k, b, kind, g->k->span);
}

/* ---------------------------------------------------------------- accesses and regions */

static IrAccess access_of(Random *g, IrBuffer *b) {
  IrAccess a = {.buf = b, .check = g->k->level != IR_THREAD && chance(g, 70)};
  for (int i = 0; i < b->rank; i++)
    a.index[i] = index_expr(g);
  return a;
}

static IrRegion region(Random *g) {
  IrBuffer *b = some_tile(g);
  IrRegion r = ir_whole(g->k, b);
  if (chance(g, 60))
    for (int i = 0; i < b->rank; i++) {
      bool keep = chance(g, 75);
      r.axis[i] = (IrAxis){index_expr(g), keep ? below(g, 20) : 1, keep ? 1 + below(g, 2) : 1, keep,
                           keep && chance(g, 20) ? index_expr(g) : NULL};
    }
  r.trans = ir_region_rank(&r) >= 2 && chance(g, 30);
  return r;
}

/* ---------------------------------------------------------------- statements */

static void block(Random *g, IrBlock *b);

/* A nested block, whose definitions go with it. */
static void nested(Random *g, IrBlock *b) {
  size_t vars = g->vars.n, tiles = g->tiles.n, regs = g->regs.n, channels = g->channels.n;
  g->depth++;
  block(g, b);
  g->depth--;
  g->vars.n = vars;
  g->tiles.n = tiles;
  g->regs.n = regs;
  g->channels.n = channels;
}

static void let(Random *g, IrBlock *b) {
  bool mut = chance(g, 40);
  DType t = any_type(g);
  IrStmt *s = add(g, b, IRK_LET);
  s->as.let.value = expr(g, t, 4);
  s->as.let.var = new_var(g, mut ? IRV_MUT : IRV_LET, t);
  if (mut && chance(g, 40)) {
    s->as.let.var->stated = 1 + (int)below(g, 4);
  }
  in_scope(g, s->as.let.var);
}

static void set(Random *g, IrBlock *b) {
  for (size_t i = 0; i < g->vars.n; i++)
    if (g->vars.v[i]->kind == IRV_MUT && chance(g, 50)) {
      IrStmt *s = add(g, b, IRK_SET);
      s->as.let.var = g->vars.v[i];
      s->as.let.value = expr(g, g->vars.v[i]->type, 3);
      return;
    }
  let(g, b);
}

static void loop(Random *g, IrBlock *b) {
  DType t = int_type(g);
  IrStmt *s = add(g, b, IRK_FOR);
  IrFor *f = &s->as.loop;
  f->lo = expr(g, t, 2);
  f->hi = expr(g, t, 2);
  f->step = expr(g, t, 1);
  f->index = new_var(g, IRV_INDEX, t);
  f->loop = (IrLoop)below(g, 5);
  f->stages = f->loop != IRF_SERIAL && chance(g, 50) ? (int)below(g, 5) : 0;
  in_scope(g, f->index);
  nested(g, &f->body);
  g->vars.n--;
}

static void while_loop(Random *g, IrBlock *b) {
  IrStmt *s = add(g, b, IRK_WHILE);
  size_t vars = g->vars.n, tiles = g->tiles.n, regs = g->regs.n, channels = g->channels.n;
  g->depth++;
  block(g, &s->as.while_.cond_block);
  g->depth--;
  s->as.while_.cond = expr(g, DT_BOOL, 3);
  nested(g, &s->as.while_.body);
  g->vars.n = vars;
  g->tiles.n = tiles;
  g->regs.n = regs;
  g->channels.n = channels;
}

static void branch(Random *g, IrBlock *b) {
  IrStmt *s = add(g, b, IRK_IF);
  s->as.if_.cond = expr(g, DT_BOOL, 3);
  nested(g, &s->as.if_.then);
  if (chance(g, 50))
    nested(g, &s->as.if_.other);
}

static void load_store(Random *g, IrBlock *b) {
  IrBuffer *buf =
      g->regs.n && chance(g, 40) ? g->regs.v[below(g, (int64_t)g->regs.n)] : some_tile(g);
  bool load = chance(g, 50);
  IrStmt *s = add(g, b, load ? IRK_LOAD : IRK_STORE);
  s->as.access.at = access_of(g, buf);
  if (load) {
    s->as.access.var = new_var(g, IRV_LET, buf->dtype);
    in_scope(g, s->as.access.var);
  } else {
    s->as.access.value = expr(g, buf->dtype, 3);
  }
}

static void atomic(Random *g, IrBlock *b) {
  IrAtomic a = {.op = (OpCode)(OP_ATOMIC_ADD + below(g, 9)), .region = chance(g, 25)};
  if (a.region) {
    a.dst = region(g);
    a.src = region(g);
  } else {
    a.at = access_of(g, some_tile(g));
    a.value = expr(g, a.at.buf->dtype, 2);
    if (a.op == OP_ATOMIC_CAS)
      a.expected = expr(g, a.at.buf->dtype, 2);
    if (chance(g, 50))
      a.old = new_var(g, IRV_LET, a.at.buf->dtype);
  }
  add(g, b, IRK_ATOMIC)->as.atomic = a;
  if (a.old)
    in_scope(g, a.old);
}

static void report(Random *g, IrBlock *b) {
  static const char *const texts[] = {"", "a \"quoted\"\n\ttext", "caf\xc3\xa9", "x"};
  IrReport r = {.kind = (IrReportKind)below(g, 2)};
  if (r.kind == IRP_ASSERT)
    r.cond = expr(g, DT_BOOL, 3);
  r.nparts = (int)below(g, 4);
  r.part = ARENA_ARRAY(g->k->arena, IrReportPart, r.nparts);
  for (int i = 0; i < r.nparts; i++) {
    int64_t what = below(g, 3);
    if (what == 0)
      r.part[i].text = texts[below(g, 4)];
    else if (what == 1)
      r.part[i].value = expr(g, any_type(g), 3);
    else {
      r.part[i].region = ARENA_NEW(g->k->arena, IrRegion);
      *r.part[i].region = region(g);
    }
  }
  add(g, b, IRK_REPORT)->as.report = r;
}

static void alloc(Random *g, IrBlock *b) {
  bool thread = g->k->level == IR_THREAD;
  static const IrSpace tile[] = {IRS_SHARED, IRS_FRAGMENT, IRS_LOCAL};
  IrSpace space = thread && chance(g, 60) ? IRS_REG : tile[below(g, 3)];
  IrBuffer *buf = new_tile(g, space, space == IRS_REG ? 1 : (int)below(g, 4));
  buf->offset = thread && space == IRS_SHARED ? below(g, 1000) * 16 : 0;
  buf->stages = thread ? 1 : 1 + (int)below(g, 3);
  buf->unchecked = chance(g, 20);
  if (chance(g, 40) && space == IRS_SHARED) {
    IrLayout *l = buf->layout = ARENA_NEW(g->k->arena, IrLayout);
    l->kind = (IrLayoutKind)below(g, buf->rank ? 4 : 3);
    l->amount = l->kind == IRL_SWIZZLE || l->kind == IRL_PADDED ? below(g, 129) : 0;
    size_t vars = g->vars.n;
    for (int i = 0; l->kind == IRL_MAP && i < buf->rank; i++)
      in_scope(g, l->index[i] = new_var(g, IRV_INDEX, DT_I64));
    if (l->kind == IRL_MAP)
      l->offset = expr(g, DT_I64, 4);
    g->vars.n = vars;
  }
  add(g, b, IRK_ALLOC)->as.alloc = buf;
  if (space == IRS_REG)
    VEC_PUSH(g->k->arena, &g->regs, buf);
  else
    VEC_PUSH(g->k->arena, &g->tiles, buf);
}

static void map(Random *g, IrBlock *b) {
  IrStmt *s = add(g, b, IRK_MAP);
  IrMap *m = &s->as.map;
  size_t vars = g->vars.n;
  m->naxes = (int)below(g, 5);
  m->parallel = chance(g, 50);
  for (int i = 0; i < m->naxes; i++)
    m->extent[i] = m->parallel ? expr(g, DT_I64, 2) : ir_int(g->k, below(g, 64));
  for (int i = 0; i < m->naxes; i++)
    in_scope(g, m->index[i] = new_var(g, IRV_INDEX, chance(g, 80) ? DT_I64 : DT_I32));
  nested(g, &m->body);
  g->vars.n = vars;
}

static void tile_op(Random *g, IrBlock *b) {
  bool scheduled = g->k->level == IR_SCHEDULED;
  switch (below(g, 4)) {
  case 0: {
    IrCopy c = {.dst = region(g), .src = region(g)};
    c.pad = chance(g, 40) ? expr(g, chance(g, 70) ? c.src.buf->dtype : c.dst.buf->dtype, 1) : NULL;
    c.engine = scheduled ? (IrEngine)below(g, 2) : IRE_AUTO;
    if (chance(g, 20))
      c.signal = access_of(g, some_tile(g));
    add(g, b, IRK_COPY)->as.copy = c;
    break;
  }
  case 1: {
    IrReduce r = {.op = (OpCode)(OP_SUM + below(g, 9)), .src = region(g), .axis = -1};
    if (chance(g, 50)) {
      r.scalar = new_var(g, IRV_LET, any_type(g));
    } else {
      r.dst = region(g);
      r.axis = (int)below(g, 3);
    }
    add(g, b, IRK_REDUCE)->as.reduce = r;
    if (r.scalar)
      in_scope(g, r.scalar);
    break;
  }
  case 2: {
    IrScan s = {chance(g, 50) ? OP_SUM : OP_RMAX,
                region(g),
                region(g),
                (int)below(g, 3),
                chance(g, 50),
                chance(g, 50)};
    add(g, b, IRK_SCAN)->as.scan = s;
    break;
  }
  default: {
    IrDot d = {.a = region(g), .b = region(g), .c = region(g), .promote = -1};
    d.accumulate = chance(g, 50);
    d.policy = (IrPolicy)below(g, 4);
    d.promote = chance(g, 50) ? -1 : (int)below(g, 256);
    d.tf32 = chance(g, 30);
    d.async = scheduled && chance(g, 50);
    d.unit = scheduled ? (IrUnit)below(g, 3) : IRU_AUTO;
    add(g, b, IRK_DOT)->as.dot = d;
  }
  }
}

static void roles(Random *g, IrBlock *b) {
  IrStmt *s = add(g, b, IRK_ROLES);
  IrRoles *r = &s->as.roles;
  r->nroles = (int)below(g, 3);
  r->role = ARENA_ARRAY(g->k->arena, IrRoleBody, r->nroles);
  for (int i = 0; i < r->nroles; i++) {
    r->role[i].name = i ? "consumer" : "producer";
    r->role[i].first_warp = 4 * i;
    r->role[i].warps = 4;
    r->role[i].registers = chance(g, 50) ? 8 * (int)below(g, 32) : 0;
    nested(g, &r->role[i].body);
  }
}

static void channel(Random *g, IrBlock *b) {
  IrBuffer *tile[3];
  int n = 1 + (int)below(g, 3);
  for (int i = 0; i < n; i++)
    tile[i] = some_tile(g);
  IrChannel *c = ir_channel(g->k, "ring", tile, n);
  c->stages = 1 + (int)below(g, 4);
  c->producers = (int)below(g, 3);
  c->consumers = (int)below(g, 3);
  add(g, b, IRK_CHANNEL)->as.channel = c;
  VEC_PUSH(g->k->arena, &g->channels, c);
}

static void schedule(Random *g, IrBlock *b) {
  IrStmt *s;
  int64_t what = below(g, 8);
  if (what == 0) {
    s = add(g, b, IRK_TILE_LOOP);
    s->as.tile_loop.naxes = 1;
    s->as.tile_loop.count[0] = expr(g, DT_I64, 2);
    s->as.tile_loop.group = (int)below(g, 3) * 8;
    s->as.tile_loop.dynamic = chance(g, 50);
    in_scope(g, s->as.tile_loop.index[0] = new_var(g, IRV_INDEX, DT_I64));
    nested(g, &s->as.tile_loop.body);
    g->vars.n--;
  } else if (what == 1 || g->channels.n == 0) {
    channel(g, b);
  } else if (what < 4) {
    s = add(g, b, (IrKind)(IRK_ACQUIRE + below(g, 4)));
    s->as.channel_op.channel = g->channels.v[below(g, (int64_t)g->channels.n)];
    s->as.channel_op.behind = s->kind == IRK_RELEASE ? (int)below(g, 2) : 0;
  } else if (what == 4) {
    s = add(g, b, chance(g, 50) ? IRK_DOT_WAIT : IRK_STORE_WAIT);
    s->as.wait = (int)below(g, 3);
  } else if (what == 5) {
    s = add(g, b, IRK_RELAYOUT);
    s->as.relayout.dst = region(g);
    s->as.relayout.src = region(g);
  } else if (what == 6) {
    s = add(g, b, chance(g, 50) ? IRK_ARRIVE : IRK_AWAIT);
    s->as.barrier.at = access_of(g, some_tile(g));
    s->as.barrier.parity = s->kind == IRK_AWAIT ? expr(g, DT_I64, 2) : NULL;
  } else {
    s = add(g, b, IRK_SYNC);
    s->as.sync.warps = chance(g, 50) ? 4 : 0;
    s->as.sync.first_warp = s->as.sync.warps ? 4 * (int)below(g, 2) : 0;
    s->as.sync.groups = chance(g, 50);
    s->as.sync.proxy_async = chance(g, 50);
  }
}

/* ---------------------------------------------------------------- thread-level operations */

static IrOperand operand(Random *g, char letter, DType moved) {
  IrOperand o = {.kind = IRO_EXPR, .dtype = DT_NONE};
  switch (letter) {
  case 'd':
    o.kind = IRO_VAR;
    o.var = new_var(g, IRV_LET, any_type(g));
    break;
  case 'i':
    o.expr = ir_int_of(g->k, DT_I32, below(g, 256));
    break;
  case 's':
    o.expr = expr(g, DT_I32, 3);
    break;
  case 'g':
    o.kind = IRO_GLOBAL;
    o.buf = g->tensors.v[below(g, (int64_t)g->tensors.n)];
    o.expr = index_expr(g);
    break;
  case 'm':
    o.kind = IRO_TMAP;
    o.tmap = g->k->tmaps.v[0];
    break;
  case 't':
    o.kind = IRO_DTYPE;
    o.dtype = any_type(g);
    break;
  case 'r':
  case 'R':
  case 'X':
    o.kind = IRO_REGS;
    o.buf = g->regs.v[below(g, (int64_t)g->regs.n)];
    o.expr = expr(g, DT_I32, 1);
    o.count = 1 + (int)below(g, 8);
    break;
  default:
    o.expr = expr(g, moved != DT_NONE ? moved : any_type(g), 3);
  }
  return o;
}

static void thread_op(Random *g, IrBlock *b) {
  OpCode op = (OpCode)below(g, OP_COUNT);
  if (op_info(op)->cls != OPC_THREAD || g->regs.n == 0) {
    alloc(g, b);
    return;
  }
  VEC(IrOperand) list = {0};
  for (const char *sig = op_info(op)->sig; *sig;) {
    bool any = sig[1] == '*';
    DType moved = list.n == 1 && list.v[0].kind == IRO_VAR ? list.v[0].var->type : DT_NONE;
    IrOperand o = operand(g, *sig, moved);
    VEC_PUSH(g->k->arena, &list, o);
    if (!any || chance(g, 40))
      sig += any ? 2 : 1;
  }
  add(g, b, IRK_OP)->as.op = (IrOp){op, list.v, (int)list.n};
  for (size_t i = 0; i < list.n; i++)
    if (list.v[i].kind == IRO_VAR)
      in_scope(g, list.v[i].var);
}

/* ---------------------------------------------------------------- blocks and kernels */

static void statement(Random *g, IrBlock *b) {
  bool deep = g->depth > 4;
  switch (below(g, 14)) {
  case 0:
  case 1:
    let(g, b);
    break;
  case 2:
    set(g, b);
    break;
  case 3:
    if (!deep)
      loop(g, b);
    break;
  case 4:
    if (!deep)
      branch(g, b);
    break;
  case 5:
    if (!deep)
      while_loop(g, b);
    break;
  case 6:
    load_store(g, b);
    break;
  case 7:
    atomic(g, b);
    break;
  case 8:
    report(g, b);
    break;
  case 9:
    alloc(g, b);
    break;
  case 10:
    add(g, b, (IrKind)(IRK_BREAK + below(g, 3)));
    break;
  default:
    if (g->k->level == IR_THREAD)
      chance(g, 85) || deep ? thread_op(g, b) : roles(g, b);
    else if (g->k->level == IR_SCHEDULED && chance(g, 50))
      chance(g, 80) || deep ? schedule(g, b) : roles(g, b);
    else
      chance(g, 60) || deep ? tile_op(g, b) : map(g, b);
  }
}

static void block(Random *g, IrBlock *b) {
  for (int64_t n = below(g, 7); n > 0 && g->left > 0; n--)
    statement(g, b);
}

static void tensor(Random *g, const char *name, IrRole role) {
  IrExpr *extent[3];
  int rank = (int)below(g, 4);
  for (int i = 0; i < rank; i++)
    extent[i] = i == 0 && role != IRR_SCRATCH && chance(g, 70)
                    ? ir_ref(g->k, ir_var(g->k, IRV_EXTENT, "N", DT_I64))
                    : expr(g, DT_I64, 2);
  IrBuffer *b = ir_buffer(g->k, IRS_GLOBAL, name, any_type(g), rank, extent);
  IrParam p = {.buf = b};
  b->role = role;
  b->unchecked = chance(g, 20);
  if (role == IRR_OUT && chance(g, 50))
    b->init = random_const(g, b->dtype);
  for (int i = 0; i < rank; i++)
    if (role != IRR_SCRATCH && chance(g, 50))
      in_scope(g, ir_stride(g->k, b, i));
  VEC_PUSH(g->k->arena, &g->k->params, p);
  VEC_PUSH(g->k->arena, &g->tensors, b);
}

static void head(Random *g) {
  IrKernel *k = g->k;
  k->exact = chance(g, 20);
  k->unchecked = chance(g, 20);
  k->threads = k->level == IR_THREAD ? 384 : (int)below(g, 3) * 64;
  k->shared_bytes = k->level == IR_THREAD ? 100000 : 0;
  k->cluster[0] = (int)below(g, 3);
  k->raster = (int)below(g, 3) * 8;
  k->min_blocks = (int)below(g, 2);
  k->cooperative = chance(g, 20);
  k->resident = chance(g, 20);
  for (int64_t i = below(g, 3); i > 0; i--)
    let(g, &k->pre);
  if (chance(g, 30))
    ir_site(k, E0450, "element [_, {0}] of A is outside its extents [_, {1}]");
  IrTmap *t = ir_tmap(k, "map", g->tensors.v[0], 2);
  for (int i = 0; i < 2; i++) {
    t->dim[i] = expr(g, DT_I64, 2);
    t->stride[i] = i ? expr(g, DT_I64, 2) : NULL;
    t->box[i] = 64;
  }
  t->swizzle = 128;
  k->grid_rank = (int)below(g, 4);
  for (int i = 0; i < k->grid_rank; i++)
    k->grid[i] = expr(g, DT_I64, 2);
  for (int i = 0; i < k->grid_rank; i++) {
    k->grid_index[i] = ir_var(k, IRV_GRID, "b", DT_I64);
    k->grid_index[i]->axis = i;
    in_scope(g, k->grid_index[i]);
  }
}

IrKernel *ir_random(Arena *a, Names *names, uint64_t seed, IrLevel level) {
  Random g = {.k = ir_kernel_new(a, names, "random", level), .state = seed * 7919 + 1, .left = 120};
  IrVar *n = ir_var(g.k, IRV_PARAM, "n", any_type(&g));
  IrParam p = {.var = n};
  VEC_PUSH(a, &g.k->params, p);
  in_scope(&g, n);
  if (chance(&g, 50))
    in_scope(&g, ir_sms(g.k));
  tensor(&g, "A", IRR_IN);
  tensor(&g, "B", chance(&g, 50) ? IRR_INOUT : IRR_IN);
  tensor(&g, "C", IRR_OUT);
  tensor(&g, "scratch", IRR_SCRATCH);
  head(&g);
  for (int i = 0; i < 6; i++)
    block(&g, &g.k->body);
  return g.k;
}
