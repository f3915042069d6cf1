/* read_op.c: schedules and thread-level operations of the IR's text.
 *
 * In: tokens after a statement's first word. Out: the statement. Always holds: a thread-level
 * operation has exactly the operands that its signature in ops.def asks for, each of its kind.
 * Tests: tests/unit/check_ir.c.
 */
#include "read.h"

/* ---------------------------------------------------------------- schedules */

/* Its indices are in scope in its body only.
 * `tile_loop bx, by in [n, m] group 16 turning dynamic { … }` */
static void read_tile_loop(Reader *r, IrBlock *out, Span at) {
  IrTileLoop t = {0};
  t.naxes = ir_read_axes(r, t.index, t.count, 3);
  if (t.naxes < 0)
    return;
  if (ir_tok_accept_word(r, "group"))
    t.group = (int)ir_tok_int(r, 0, 1 << 20, "a group of tiles");
  t.turning = !r->broken && ir_tok_accept_word(r, "turning");
  t.dynamic = !r->broken && ir_tok_accept_word(r, "dynamic");
  IrStmt *s = ir_add(r->k, out, IRK_TILE_LOOP, at);
  s->as.tile_loop = t;
  size_t mark = ir_read_scope_open(r);
  for (int i = 0; i < t.naxes; i++)
    ir_read_scope_def(r, t.index[i]);
  ir_read_block(r, &s->as.tile_loop.body);
  ir_read_scope_close(r, mark);
}

/* `4:+8` */
static bool read_warps(Reader *r, int *first, int *count) {
  *first = (int)ir_tok_int(r, 0, 1023, "the first warp");
  if (!ir_tok_expect(r, ":") || !ir_tok_expect(r, "+"))
    return false;
  *count = (int)ir_tok_int(r, 1, 1024, "a number of warps");
  return !r->broken;
}

/* The name is for people and the evaluator's reports.
 * `role producer warps 0:+4 registers 40 { … }` */
static bool read_role(Reader *r, IrRoleBody *b) {
  if (!ir_tok_expect_word(r, "role") || !(b->name = ir_tok_name(r, "the role's name")) ||
      !ir_tok_expect_word(r, "warps") || !read_warps(r, &b->first_warp, &b->warps))
    return false;
  if (ir_tok_accept_word(r, "registers"))
    b->registers = (int)ir_tok_int(r, 0, 256, "a number of registers");
  if (!r->broken)
    ir_read_block(r, &b->body);
  return !r->broken;
}

/* Nothing but roles inside.
 * `roles { role … role … }` */
static void read_roles(Reader *r, IrBlock *out, Span at) {
  VEC(IrRoleBody) roles = {0};
  if (!ir_tok_expect(r, "{"))
    return;
  while (!ir_tok_is(r, "}") && r->tok.kind != TK_END) {
    IrRoleBody b = {0};
    if (!read_role(r, &b))
      return;
    VEC_PUSH(r->k->arena, &roles, b);
  }
  if (!ir_tok_expect(r, "}"))
    return;
  IrStmt *s = ir_add(r->k, out, IRK_ROLES, at);
  s->as.roles.role = roles.v;
  s->as.roles.nroles = (int)roles.n;
}

/* A ring of shared tiles; its counts default to one.
 * `channel ch tiles As, Bs stages 3 producers 1 consumers 2` */
static void read_channel(Reader *r, IrBlock *out, Span at) {
  VEC(IrBuffer *) tiles = {0};
  Span name_at = r->tok.span;
  const char *name = ir_tok_name(r, "the channel's name");
  if (!name || !ir_tok_expect_word(r, "tiles"))
    return;
  do {
    IrBuffer *b = ir_read_scope_buffer(r);
    if (!b)
      return;
    VEC_PUSH(r->arena, &tiles, b);
  } while (ir_tok_accept(r, ","));
  IrChannel *c = ir_channel(r->k, name, tiles.v, (int)tiles.n);
  if (ir_tok_accept_word(r, "stages"))
    c->stages = (int)ir_tok_int(r, 1, 1 << 16, "a number of stages");
  if (!r->broken && ir_tok_accept_word(r, "producers"))
    c->producers = (int)ir_tok_int(r, 0, 1 << 16, "a number of arrivals");
  if (!r->broken && ir_tok_accept_word(r, "consumers"))
    c->consumers = (int)ir_tok_int(r, 0, 1 << 16, "a number of arrivals");
  ir_add(r->k, out, IRK_CHANNEL, at)->as.channel = c;
  ir_read_scope_add(r, (Entry){.kind = EN_CHANNEL, .name = name, .as.channel = c}, name_at);
}

/* The channel must be declared before, in the text.
 * `wait ch`, `release ch behind 1` */
static void read_channel_op(Reader *r, IrBlock *out, IrKind kind, Span at) {
  Span name_at = r->tok.span;
  const char *name = ir_tok_name(r, "a channel's name");
  if (!name)
    return;
  Entry *e = ir_read_scope_find(r, name);
  if (!e || e->kind != EN_CHANNEL) {
    ir_read_error(r, E0604, name_at, "there is no channel `%s` here", name);
    r->broken = true;
    return;
  }
  IrStmt *s = ir_add(r->k, out, kind, at);
  s->as.channel_op.channel = e->as.channel;
  if (ir_tok_accept_word(r, "behind"))
    s->as.channel_op.behind = (int)ir_tok_int(r, 0, 1 << 16, "a number of waits");
}

/* Without warps: the whole block.
 * `sync warps 4:+8 groups proxy_async` */
static void read_sync(Reader *r, IrBlock *out, Span at) {
  IrStmt *s = ir_add(r->k, out, IRK_SYNC, at);
  if (ir_tok_accept_word(r, "warps"))
    read_warps(r, &s->as.sync.first_warp, &s->as.sync.warps);
  s->as.sync.groups = !r->broken && ir_tok_accept_word(r, "groups");
  s->as.sync.proxy_async = !r->broken && ir_tok_accept_word(r, "proxy_async");
}

/* `arrive empty[s]`, `await full[s] parity p` */
static void read_barrier(Reader *r, IrBlock *out, IrKind kind, Span at) {
  IrAccess a = {0};
  IrExpr *parity = NULL;
  if (!ir_read_access(r, &a) || (kind == IRK_AWAIT && !ir_tok_expect_word(r, "parity")))
    return;
  if (kind == IRK_AWAIT)
    parity = ir_read_expr_of(r, DT_I64);
  IrStmt *s = ir_add(r->k, out, kind, at);
  s->as.barrier.at = a;
  s->as.barrier.parity = parity;
}

static void read_relayout(Reader *r, IrBlock *out, Span at) {
  IrRelayout x = {0};
  if (ir_read_region(r, &x.dst) && ir_tok_expect(r, "=") && ir_read_region(r, &x.src))
    ir_add(r->k, out, IRK_RELAYOUT, at)->as.relayout = x;
}

/* The four operations share a form.
 * Named like the states of a stage in its ring. */
static bool channel_kind(const char *word, IrKind *kind) {
  static const char *const words[] = {"acquire", "commit", "wait", "release"};
  static const IrKind kinds[] = {IRK_ACQUIRE, IRK_COMMIT, IRK_WAIT, IRK_RELEASE};
  for (int i = 0; i < 4; i++)
    if (!strcmp(word, words[i])) {
      *kind = kinds[i];
      return true;
    }
  return false;
}

/* False where the word is none of the scheduled level's.
 * dot_wait and store_wait have a number alone. */
bool ir_read_scheduled(Reader *r, IrBlock *out, const char *word, Span at) {
  IrKind kind;
  if (channel_kind(word, &kind))
    read_channel_op(r, out, kind, at);
  else if (!strcmp(word, "tile_loop"))
    read_tile_loop(r, out, at);
  else if (!strcmp(word, "roles"))
    read_roles(r, out, at);
  else if (!strcmp(word, "channel"))
    read_channel(r, out, at);
  else if (!strcmp(word, "sync"))
    read_sync(r, out, at);
  else if (!strcmp(word, "arrive") || !strcmp(word, "await"))
    read_barrier(r, out, word[1] == 'r' ? IRK_ARRIVE : IRK_AWAIT, at);
  else if (!strcmp(word, "relayout"))
    read_relayout(r, out, at);
  else if (!strcmp(word, "dot_wait") || !strcmp(word, "store_wait"))
    ir_add(r->k, out, word[0] == 'd' ? IRK_DOT_WAIT : IRK_STORE_WAIT, at)->as.wait =
        (int)ir_tok_int(r, 0, 1 << 16, "a number of pending operations");
  else
    return false;
  return true;
}

/* ---------------------------------------------------------------- thread-level operations */

/* `acc[4*i:+4]` */
static bool read_regs(Reader *r, IrOperand *o) {
  o->kind = IRO_REGS;
  o->buf = ir_read_scope_buffer(r);
  if (!o->buf || !ir_tok_expect(r, "["))
    return false;
  o->expr = ir_read_expr(r, DT_I32);
  if (r->broken || !ir_tok_expect(r, ":") || !ir_tok_expect(r, "+"))
    return false;
  o->count = (int)ir_tok_int(r, 1, 1 << 16, "a number of registers");
  return !r->broken && ir_tok_expect(r, "]");
}

/* `&A[offset]` */
static bool read_global(Reader *r, IrOperand *o) {
  o->kind = IRO_GLOBAL;
  if (!ir_tok_expect(r, "&") || !(o->buf = ir_read_scope_buffer(r)) || !ir_tok_expect(r, "["))
    return false;
  o->expr = ir_read_expr(r, DT_I32);
  return !r->broken && ir_tok_expect(r, "]");
}

/* Tensor maps are declared in the head.
 * A hostile name marks the statement broken, like a missing buffer. */
static bool read_tmap_name(Reader *r, IrOperand *o) {
  Span at = r->tok.span;
  const char *name = ir_tok_name(r, "a tensor map's name");
  Entry *e = name ? ir_read_scope_find(r, name) : NULL;
  o->kind = IRO_TMAP;
  if (name && (!e || e->kind != EN_TMAP)) {
    ir_read_error(r, E0604, at, "there is no tensor map `%s`", name);
    r->broken = true;
  }
  if (r->broken)
    return false;
  o->tmap = e->as.tmap;
  return true;
}

/* The letter of the signature says which kind must stand here.
 * e, i and s are expressions; what else they must be the verifier says. */
static bool read_operand(Reader *r, IrOperand *o, char letter, DType want) {
  switch (letter) {
  case 'd':
    o->kind = IRO_VAR;
    o->var = ir_read_def(r, IRV_LET);
    return o->var != NULL;
  case 'r':
  case 'R':
  case 'X':
    return read_regs(r, o);
  case 'g':
    return read_global(r, o);
  case 'm':
    return read_tmap_name(r, o);
  case 't':
    o->kind = IRO_DTYPE;
    o->dtype = ir_tok_dtype(r);
    return o->dtype != DT_NONE;
  default:
    o->kind = IRO_EXPR;
    o->expr = ir_read_expr(r, want);
    return !r->broken;
  }
}

/* Destinations come into scope after the operands: `shfl_xor x: f32, x, 1` reads the old x.
 * A letter with a star takes operands as long as commas follow. */
bool ir_read_op(Reader *r, IrBlock *out, const char *word, Span at) {
  OpCode op = op_find(word);
  if (op == OP_NONE || op_info(op)->cls != OPC_THREAD)
    return false;
  VEC(IrOperand) operands = {0};
  for (const char *sig = op_info(op)->sig; *sig;) {
    bool any = sig[1] == '*';
    if (operands.n && (any ? !ir_tok_accept(r, ",") : !ir_tok_expect(r, ",")))
      break;
    if (any && operands.n > 16) {
      ir_read_unexpected(r, "fewer operands");
      break;
    }
    IrOperand o = {.dtype = DT_NONE};
    bool moved = operands.n == 1 && operands.v[0].kind == IRO_VAR;
    if (!read_operand(r, &o, *sig, moved ? operands.v[0].var->type : DT_I32))
      break;
    VEC_PUSH(r->k->arena, &operands, o);
    sig += any ? 0 : 1;
  }
  if (r->broken)
    return true;
  IrStmt *s = ir_add(r->k, out, IRK_OP, at);
  s->as.op = (IrOp){op, operands.v, (int)operands.n};
  for (size_t i = 0; i < operands.n; i++)
    if (operands.v[i].kind == IRO_VAR)
      ir_read_scope_def(r, operands.v[i].var);
  return true;
}
