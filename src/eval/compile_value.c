/* compile_value.c: registers, scopes, and pure expressions to bytecode.
 *
 * In: expressions. Out: the register that holds the value here. Always holds: a value is looked up
 * only while the code that computed it dominates; values of mutable variables last one statement;
 * the registers of `init` and of a prologue are never shared with the code they precede.
 * A register is free again after the last use of its value, where uses were counted (a MAP's body
 * and thread level), so that a long body works in a few registers that stay in the first-level
 * cache. Three tables by expression say what is known: where its value is, whether it varies, and
 * on what level of the program it depends. They grow, because taking coordinates apart makes
 * expressions.
 * Tests: tests/unit/check_eval.c, tests/unit/check_eval_tiles.c.
 */
#include <string.h>

#include "compile.h"

enum { NO_EXPR = -1 };

/* Whether values may differ between lanes here. */
bool eval_in_lanes(const Compiler *c) {
  return c->thread || c->map;
}

/* ---------------------------------------------------------------- registers */

/* Elements of one size can take each other's registers. */
static uint8_t size_class(size_t size) {
  return size <= 1 ? 0 : size <= 2 ? 1 : size <= 4 ? 2 : 3;
}

/* Numbers only; where a register lies is decided at the end. */
static Reg reg_make(Compiler *c, bool lanes, uint8_t class) {
  if (c->nreg == c->reg_cap)
    c->reg = vec_grow(c->arena, c->reg, &c->reg_cap, sizeof *c->reg);
  c->reg[c->nreg].lanes = lanes;
  c->reg[c->nreg].size = class;
  return (Reg)c->nreg++;
}

/* fresh: code that runs earlier may use it, so it must not have served code that runs later. */
Reg eval_reg_new(Compiler *c, bool lanes, size_t size, bool fresh) {
  uint8_t class = size_class(size);
  if (!fresh && lanes && c->free_lanes[class].n)
    return c->free_lanes[class].v[--c->free_lanes[class].n];
  if (!fresh && !lanes && c->free_one.n)
    return c->free_one.v[--c->free_one.n];
  return reg_make(c, lanes, class);
}

/* A mask is kept in a register of lanes of the largest elements, which has room for it. */
Reg eval_reg_mask(Compiler *c) {
  Reg r = eval_reg_new(c, true, 8, false);
  eval_reg_hold(c, r);
  return r;
}

/* Kept in a list by class; the last one freed is the warmest in the cache. */
static void reg_free(Compiler *c, Reg r) {
  if (r == NO_REG)
    return;
  if (c->reg[r].lanes)
    VEC_PUSH(c->arena, &c->free_lanes[c->reg[r].size], r);
  else
    VEC_PUSH(c->arena, &c->free_one, r);
}

/* ---------------------------------------------------------------- scopes */

/* The scope may lie outside the innermost: a value belongs to where its code is. */
static void log_add(Compiler *c, uint32_t depth, LogEntry e) {
  Scope *s = &c->scope[depth];
  VEC_PUSH(c->arena, s, e);
}

/* For registers that no expression owns. */
void eval_reg_hold(Compiler *c, Reg r) {
  log_add(c, c->depth, (LogEntry){.expr = UINT32_MAX, .reg = r});
}

/* Remembers how much tile memory was in use: tiles end with their scope. */
void eval_scope_open(Compiler *c) {
  if (c->depth + 1 >= sizeof c->scope / sizeof c->scope[0]) {
    eval_unsupported(c, "blocks nested this deeply");
    return;
  }
  Scope *s = &c->scope[++c->depth];
  s->n = 0;
  s->tile_bytes = c->tile_bytes;
  s->map_bytes = c->map_bytes;
}

/* Undoes the log backwards, so that a value hidden by a later one comes back. */
void eval_scope_close(Compiler *c) {
  Scope *s = &c->scope[c->depth];
  while (s->n) {
    LogEntry e = s->v[--s->n];
    if (e.expr != UINT32_MAX) {
      Value *v = &c->value[e.expr];
      if (e.lanes) {
        v->lanes = e.before.lanes;
        v->lanes_log = e.before.lanes_log;
        v->lanes_scope = e.before.lanes_scope;
      } else {
        v->one = e.before.one;
        v->one_log = e.before.one_log;
        v->one_scope = e.before.one_scope;
      }
      v->serial = e.before.serial;
    }
    reg_free(c, e.reg);
  }
  /* Roles run at once, and products outlive scopes: there tiles never share memory. */
  if (!c->p->sched) {
    c->tile_bytes = s->tile_bytes;
    c->map_bytes = s->map_bytes;
  }
  c->depth--;
}

/* ---------------------------------------------------------------- tables by expression */

/* Compiling makes new expressions: their ids grow past those of the kernel. */
static void tables_grow(Compiler *c, uint32_t id) {
  if (id < c->nvalue)
    return;
  size_t old = c->nvalue, n = old ? old : 256;
  while (n <= id)
    n *= 2;
  c->value = arena_grow(c->arena, c->value, old * sizeof *c->value, n * sizeof *c->value);
  c->varies = arena_grow(c->arena, c->varies, old, n);
  c->level = arena_grow(c->arena, c->level, old, n);
  c->faults = arena_grow(c->arena, c->faults, old, n);
  c->uses = arena_grow(c->arena, c->uses, old * sizeof *c->uses, n * sizeof *c->uses);
  memset(c->value + old, 0, (n - old) * sizeof *c->value);
  memset(c->varies + old, NO_EXPR, n - old);
  memset(c->level + old, NO_EXPR, n - old);
  memset(c->faults + old, NO_EXPR, n - old);
  memset(c->uses + old, 0, (n - old) * sizeof *c->uses);
  c->nvalue = n;
}

/* Grows on demand, like the tables by expression. */
VarValue *eval_var_value(Compiler *c, const IrVar *v) {
  if (v->id >= c->nvar) {
    size_t n = c->nvar ? c->nvar : 64;
    while (n <= v->id)
      n *= 2;
    c->var = arena_grow(c->arena, c->var, c->nvar * sizeof *c->var, n * sizeof *c->var);
    for (size_t i = c->nvar; i < n; i++)
      c->var[i] = (VarValue){.axis = -1};
    c->nvar = n;
  }
  return &c->var[v->id];
}

/* A variable is bound in one place; where that is decides how far it may be moved out. */
void eval_var_bind(Compiler *c, IrVar *v, Reg r, bool lanes) {
  VarValue *x = eval_var_value(c, v);
  *x = (VarValue){.reg = r, .lanes = lanes, .axis = -1, .mask = c->mask};
  x->level = c->map ? LEVEL_BODY : LEVEL_BLOCK;
  if (c->stops && !c->map)
    eval_live_var(c, v, r);
}

/* ---------------------------------------------------------------- what an expression depends on */

/* Asked only once all its variables are bound: the answer stays. */
bool eval_value_varies(Compiler *c, const IrExpr *e) {
  tables_grow(c, e->id);
  if (c->varies[e->id] != NO_EXPR)
    return c->varies[e->id];
  bool varies = false;
  if (e->op == OP_VAR)
    varies = eval_var_value(c, e->as.var)->lanes;
  else if (e->op == OP_TID || e->op == OP_LANE)
    varies = true;
  for (int i = 0; i < e->nargs && !varies; i++)
    varies = eval_value_varies(c, e->arg[i]);
  c->varies[e->id] = varies;
  return varies;
}

/* The highest level of what it depends on. */
ValueLevel eval_value_level(Compiler *c, const IrExpr *e) {
  tables_grow(c, e->id);
  if (c->level[e->id] != NO_EXPR)
    return (ValueLevel)c->level[e->id];
  ValueLevel level = LEVEL_LAUNCH;
  if (e->op == OP_VAR)
    level = eval_var_value(c, e->as.var)->level;
  else if (e->nargs == 0 && e->op != OP_CONST)
    level = LEVEL_BLOCK;
  for (int i = 0; i < e->nargs; i++) {
    ValueLevel below = eval_value_level(c, e->arg[i]);
    if (below > level)
      level = below;
  }
  c->level[e->id] = (int8_t)level;
  return level;
}

/* Whether computing it may fault: such a value stays where the program has it. */
static bool may_fault(Compiler *c, const IrExpr *e) {
  tables_grow(c, e->id);
  if (c->faults[e->id] != NO_EXPR)
    return c->faults[e->id];
  bool faults = false;
  if (e->nargs == 2 && op_can_fault(e->op, e->arg[0]->type)) {
    int64_t n;
    faults = !ir_is_const(e->arg[1], &n) || n <= 0;
  }
  for (int i = 0; i < e->nargs && !faults; i++)
    faults = may_fault(c, e->arg[i]);
  c->faults[e->id] = faults;
  return faults;
}

/* Each parent counts once: a value is computed once and found again after that. */
static void count(Compiler *c, const IrExpr *e) {
  if (!e)
    return;
  tables_grow(c, e->id);
  if (c->uses[e->id]++)
    return;
  for (int i = 0; i < e->nargs; i++)
    count(c, e->arg[i]);
}

/* Only what value_done is called for; the rest keeps its registers to the end of its scope. */
static bool count_stmt(IrStmt *s, void *ctx) {
  Compiler *c = ctx;
  switch (s->kind) {
  case IRK_LET:
  case IRK_SET:
    count(c, s->as.let.value);
    break;
  case IRK_IF:
    count(c, s->as.if_.cond);
    break;
  case IRK_STORE:
    count(c, s->as.access.value);
    break;
  default: /* their operands are kept until their scope ends */
    break;
  }
  return true;
}

/* Before anything is compiled. A count that is too low only costs a second computation. */
void eval_value_count_uses(Compiler *c, IrBlock *body) {
  ir_walk(body, count_stmt, c);
}

/* ---------------------------------------------------------------- computing */

/* Where a value of this level is computed, and which scope owns it. */
typedef struct Section {
  EvalCodes *code;
  uint32_t depth;
  bool fresh;
  Reg mask;
} Section;

/* What the launch fixes is computed once a worker, what the block fixes once a MAP. */
static Section section_of(Compiler *c, const IrExpr *e) {
  ValueLevel level = may_fault(c, e) ? LEVEL_BODY : eval_value_level(c, e);
  if (level == LEVEL_LAUNCH)
    return (Section){&c->init, 0, true, NO_REG};
  if (level == LEVEL_BLOCK && c->map)
    return (Section){c->prologue, c->map_depth, true, NO_REG};
  uint32_t depth = e->reads_mut ? c->depth : c->block_depth;
  return (Section){c->code, depth, false, c->mask};
}

/* The log brings back what was known before, when the scope ends. */
static void remember(Compiler *c, const IrExpr *e, bool lanes, Reg r, const Section *s) {
  Value *v = &c->value[e->id];
  LogEntry entry = {.expr = e->id, .lanes = lanes, .reg = r, .before = *v};
  uint32_t at = (uint32_t)c->scope[s->depth].n;
  log_add(c, s->depth, entry);
  if (e->reads_mut && s->depth == c->depth && v->serial != c->serial)
    v->one = v->lanes = NO_REG; /* of another statement */
  if (lanes) {
    v->lanes = r;
    v->lanes_log = at;
    v->lanes_scope = s->depth;
  } else {
    v->one = r;
    v->one_log = at;
    v->one_scope = s->depth;
  }
  bool lasting = !e->reads_mut || s->code == c->prologue;
  v->serial = lasting ? 0 : c->serial;
}

/* A value of a mutable variable is good for the statement that computed it, no longer. */
static bool usable(const Compiler *c, const Value *v) {
  return v->serial == 0 || v->serial == c->serial;
}

/* After the last use its register may take another value, but never while a loop could come back
 * to a use, nor where an instruction being built still reads it. */
void eval_value_done(Compiler *c, IrExpr *e) {
  Value *v = &c->value[e->id];
  if (c->uses[e->id])
    c->uses[e->id]--;
  if (v->pins)
    v->pins--;
  if (c->uses[e->id] || v->pins)
    return;
  if (v->lanes == NO_REG || v->lanes_scope < c->loop_depth || v->serial)
    return;
  if (v->lanes_scope == 0) /* computed once a worker: the next block needs it too */
    return;
  Scope *s = &c->scope[v->lanes_scope];
  if (v->lanes_log >= s->n || s->v[v->lanes_log].reg != v->lanes)
    return;
  if (c->code == c->prologue || c->code == &c->init)
    return;
  reg_free(c, v->lanes);
  s->v[v->lanes_log].reg = NO_REG;
  v->lanes = NO_REG;
}

/* Shifts are chosen by the count's type, selections by that of what they select. */
static const OpStrip *strips(Compiler *c, const IrExpr *e) {
  DType t = e->nargs ? e->arg[0]->type : e->type, to = e->type;
  OpRule rule = op_info(e->op)->rule;
  if (rule == RULE_SELECT)
    t = e->arg[1]->type;
  if (rule == RULE_SHIFT)
    to = e->arg[1]->type;
  OpStrip *f = ARENA_ARRAY(c->arena, OpStrip, 3);
  for (int isa = 0; isa < 3; isa++)
    f[isa] = op_strip_on((OpIsa)isa, e->op, t, to);
  if (!f[0]) {
    const char *what = arena_printf(c->arena, "%s of %s", op_info(e->op)->name, dtype_name(t));
    eval_unsupported(c, what);
  }
  return f;
}

/* Index arithmetic of the block is most of what runs on single elements. */
static EvalCode quick_code(const IrExpr *e) {
  if (e->type != DT_I64)
    return BC_OP_ONE;
  return e->op == OP_ADD   ? BC_ADD_I64
         : e->op == OP_SUB ? BC_SUB_I64
         : e->op == OP_MUL ? BC_MUL_I64
                           : BC_OP_ONE;
}

/* Leaves that are neither constants nor variables. */
static Reg leaf(Compiler *c, const IrExpr *e, const Section *s) {
  EvalInsn in = {.type = (uint8_t)e->type, .op = e->op};
  bool lanes = e->op == OP_TID || e->op == OP_LANE;
  switch (e->op) {
  case OP_TID:
    in.code = BC_TID;
    break;
  case OP_LANE:
    in.code = BC_LANE;
    break;
  case OP_WARP:
    in.code = BC_WARP;
    break;
  case OP_BLOCK_X:
  case OP_BLOCK_Y:
  case OP_BLOCK_Z:
    in.code = BC_BLOCK_INDEX;
    in.as.imm = (int)e->op - (int)OP_BLOCK_X;
    break;
  case OP_BLOCKS_X:
    in.code = BC_GRID_SIZE;
    break;
  default:
    eval_unsupported(c, op_info(e->op)->name);
    return NO_REG;
  }
  in.dst = eval_reg_new(c, lanes, dtype_compute_size(e->type), s->fresh);
  eval_emit(c, in);
  return in.dst;
}

/* Filled when the worker is made; no instruction. */
static Reg constant(Compiler *c, const IrExpr *e) {
  Reg r = eval_reg_new(c, false, 8, true);
  EvalProgram *p = c->p;
  size_t n = p->nconstants;
  if ((n & (n + 1)) == 0) /* 0, 1, 3, 7, …: room for n + 1 more */
    p->constant = arena_grow(c->arena, p->constant, n * sizeof *p->constant,
                             (2 * n + 1) * sizeof *p->constant);
  p->constant[n].reg = r;
  p->constant[n].value = e->as.value;
  p->constant[n].value.type = e->type;
  p->nconstants++;
  return r;
}

/* Each operand was pinned when it was fetched. */
static void operands_done(Compiler *c, IrExpr *e) {
  for (int i = 0; i < e->nargs; i++)
    eval_value_done(c, e->arg[i]);
}

/* Fetches the operands first: fetching may write code of its own. */
static Reg operation(Compiler *c, IrExpr *e, bool lanes, const Section *s) {
  EvalInsn in = {.op = e->op, .type = (uint8_t)e->type, .nsrc = e->nargs, .mask = c->mask};
  in.code = lanes ? BC_OP_LANES : (uint16_t)quick_code(e);
  in.from = (uint8_t)e->arg[0]->type;
  bool same_size = true;
  size_t size = dtype_compute_size(e->type);
  for (int i = 0; i < e->nargs; i++) {
    in.src[i] = lanes ? eval_value_lanes(c, e->arg[i]) : eval_value_one(c, e->arg[i]);
    same_size = same_size && dtype_compute_size(e->arg[i]->type) == size;
  }
  if (in.code == BC_OP_ONE || lanes)
    in.as.strip = strips(c, e);
  /* Where sizes agree the result may take an operand's register. */
  if (same_size && lanes)
    operands_done(c, e);
  in.dst = eval_reg_new(c, lanes, size, s->fresh);
  if (!same_size && lanes)
    operands_done(c, e);
  Span span = c->span;
  c->span = ir_place_of(e, span);
  eval_emit(c, in);
  c->span = span;
  return in.dst;
}

/* Code and mask of the section, then back: an invariant is computed whatever the mask. */
static Reg compute(Compiler *c, IrExpr *e, bool lanes) {
  Section s = section_of(c, e);
  EvalCodes *code = c->code;
  Reg mask = c->mask;
  c->code = s.code;
  c->mask = s.mask;
  Reg r;
  if (e->op == OP_CONST)
    r = constant(c, e);
  else if (e->nargs == 0)
    r = leaf(c, e, &s);
  else
    r = operation(c, e, lanes, &s);
  remember(c, e, lanes, r, &s);
  c->code = code;
  c->mask = mask;
  return r;
}

/* The strip's points along one axis; changes with every strip. */
static Reg map_index_lanes(Compiler *c, IrExpr *e, int axis) {
  Section s = {c->code, c->block_depth, false, NO_REG};
  Reg r = eval_reg_new(c, true, 8, false);
  eval_emit(c, (EvalInsn){.code = BC_INDEX, .dst = r, .type = DT_I64, .as.imm = axis});
  remember(c, e, true, r, &s);
  return r;
}

/* Expressions nest as deep as programs write them; the C stack has an end. */
static bool recursion(Compiler *c) {
  if (c->nested < 4000)
    return true;
  eval_unsupported(c, "an expression nested this deeply");
  return false;
}

/* The same for all lanes, or block level. */
Reg eval_value_one(Compiler *c, IrExpr *e) {
  tables_grow(c, e->id);
  if (e->op == OP_VAR) {
    VarValue *v = eval_var_value(c, e->as.var);
    if (v->reg == NO_REG || v->lanes)
      eval_unsupported(c, arena_printf(c->arena, "variable %s here", e->as.var->name));
    return v->reg;
  }
  const Value *v = &c->value[e->id];
  if (v->one != NO_REG && usable(c, v))
    return v->one;
  if (c->failed || !recursion(c))
    return NO_REG;
  c->nested++;
  Reg r = compute(c, e, false);
  c->nested--;
  return r;
}

/* One element to all lanes, once for as long as it does not change. */
static Reg splat(Compiler *c, IrExpr *e) {
  Section s = section_of(c, e);
  Reg one = eval_value_one(c, e);
  EvalCodes *code = c->code;
  c->code = s.code;
  Reg r = eval_reg_new(c, true, dtype_compute_size(e->type), s.fresh);
  eval_emit(c, (EvalInsn){.code = BC_SPLAT, .dst = r, .src = {one}, .type = (uint8_t)e->type});
  c->code = code;
  remember(c, e, true, r, &s);
  return r;
}

/* Computes it where it is not there yet. */
static Reg find_lanes(Compiler *c, IrExpr *e) {
  bool varies = eval_value_varies(c, e);
  const Value *v = &c->value[e->id];
  if (e->op == OP_VAR && varies) {
    VarValue *x = eval_var_value(c, e->as.var);
    if (x->reg != NO_REG)
      return x->reg;
    if (v->lanes != NO_REG)
      return v->lanes;
    if (x->axis >= 0)
      return map_index_lanes(c, e, x->axis);
    eval_unsupported(c, arena_printf(c->arena, "variable %s here", e->as.var->name));
    return NO_REG;
  }
  if (v->lanes != NO_REG && usable(c, v))
    return v->lanes;
  if (c->failed || !recursion(c))
    return NO_REG;
  c->nested++;
  Reg r = varies ? compute(c, e, true) : splat(c, e);
  c->nested--;
  return r;
}

/* Pinned until value_done: nothing computed meanwhile may take its register. */
Reg eval_value_lanes(Compiler *c, IrExpr *e) {
  Reg r = find_lanes(c, e);
  c->value[e->id].pins++;
  return r;
}

/* Coordinates and extents: constants need no register. */
EvalInt eval_value_int(Compiler *c, IrExpr *e) {
  int64_t n;
  if (!e)
    return (EvalInt){NO_REG, 0};
  e = ir_cast(c->k, e, DT_I64);
  if (ir_is_const(e, &n))
    return (EvalInt){NO_REG, n};
  return (EvalInt){eval_value_one(c, e), 0};
}
