/* print_stmt.c: the text of statements.
 *
 * In: a block of a kernel that print.c prints. Out: one line a statement, nested blocks indented.
 * Here are the parts of a line, control, elements and reports; print_tile.c has tiles, print_op.c
 * schedules and operations of threads. Always holds: what read_stmt.c reads back is the same
 * statement; options stand in one order and only where they are not the default. Tests:
 * tests/unit/check_ir.c.
 */
#include <inttypes.h>

#include "print.h"

/* ---------------------------------------------------------------- operands */

/* Through the table of unique names, never by the object's own name. */
const char *ir_var_shown(const Printer *p, const IrVar *v) {
  return p->names.var[v->id];
}
const char *ir_buffer_shown(const Printer *p, const IrBuffer *b) {
  return p->names.buffer[b->id];
}

/* A variable where it is defined says its type; elsewhere its name does.
 * `x: f32` */
void ir_put_def(Printer *p, const IrVar *v) {
  str_addf(p->out, "%s: %s", ir_var_shown(p, v), dtype_name(v->type));
}

/* As many indices as the buffer has axes; lone constants have the level's index type.
 * `A[i, j]` */
void ir_put_access(Printer *p, const IrAccess *a) {
  str_addf(p->out, "%s[", ir_buffer_shown(p, a->buf));
  ir_put_exprs(p, a->index, a->buf->rank, ir_put_index_type(p));
  str_addc(p->out, ']');
}

/* At thread level checks are statements, so no access has one. */
static void print_unchecked(Printer *p, const IrAccess *a) {
  str_add(p->out, a->check || p->k->level == IR_THREAD ? "" : " unchecked");
}

/* origin, origin:+extent, origin:+extent:step, perhaps a stop. */
static void print_axis(Printer *p, const IrAxis *x) {
  ir_put_expr(p, x->origin, ir_put_index_type(p));
  if (!x->keep)
    return;
  if (x->extent)
    str_addf(p->out, ":+%" PRId64, x->extent);
  else
    str_add(p->out, ":+_");
  if (x->step != 1)
    str_addf(p->out, ":%" PRId64, x->step);
  if (x->stop) {
    str_add(p->out, " stop ");
    ir_put_expr(p, x->stop, ir_put_index_type(p));
  }
}

/* `.T` of a whole tile is still the whole tile. */
static bool plain_whole(const IrRegion *r) {
  IrRegion copy = *r;
  copy.trans = false;
  return ir_region_is_whole(&copy);
}

/* A whole buffer by its name alone.
 * `A`, `A[i, k*64:+64]`, `A.T` */
void ir_put_region(Printer *p, const IrRegion *r) {
  str_add(p->out, ir_buffer_shown(p, r->buf));
  if (!plain_whole(r)) {
    str_addc(p->out, '[');
    for (int i = 0; i < r->buf->rank; i++) {
      str_add(p->out, i ? ", " : "");
      print_axis(p, &r->axis[i]);
    }
    str_addc(p->out, ']');
  }
  str_add(p->out, r->trans ? ".T" : "");
}

/* Other bytes than controls go through as they are: texts are UTF-8.
 * Quotes, backslashes and controls are escaped. */
void ir_put_string(Printer *p, const char *s) {
  str_addc(p->out, '"');
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\')
      str_addf(p->out, "\\%c", c);
    else if (c == '\n')
      str_add(p->out, "\\n");
    else if (c < 0x20 || c == 0x7f)
      str_addf(p->out, "\\x%02x", c);
    else
      str_addc(p->out, (char)c);
  }
  str_addc(p->out, '"');
}

/* ---------------------------------------------------------------- control */

void ir_put_indent(Printer *p, int level) {
  str_pad(p->out, ' ', (size_t)level * 2);
}

/* The caller has written what stands before the brace. */
void ir_put_braced(Printer *p, const IrBlock *b, int level) {
  str_add(p->out, "{\n");
  ir_put_block(p, b, level + 1);
  ir_put_indent(p, level);
  str_addc(p->out, '}');
}

/* A SET repeats no type.
 * `let x: i32 = e`, `var x: i32 warp = e`, `set x = e` */
static void print_let(Printer *p, const IrStmt *s) {
  static const char *const uniform[] = {"block", "group", "warp", "lane"};
  const IrVar *v = s->as.let.var;
  if (s->kind == IRK_SET) {
    str_addf(p->out, "set %s", ir_var_shown(p, v));
  } else {
    str_add(p->out, v->kind == IRV_MUT ? "var " : "let ");
    ir_put_def(p, v);
    if (v->kind == IRV_MUT && v->stated)
      str_addf(p->out, " %s", uniform[v->stated - 1]);
  }
  str_add(p->out, " = ");
  ir_put_expr(p, s->as.let.value, v->type);
}

/* Bounds have the index' type, so their constants need no suffix.
 * `for i: i32 = lo, hi, step unroll { … }` */
static void print_loop(Printer *p, const IrFor *f, int level) {
  static const char *const kinds[] = {"", "unroll", "vectorized", "pipelined", "persistent"};
  IrExpr *bounds[] = {f->lo, f->hi, f->step};
  str_add(p->out, "for ");
  ir_put_def(p, f->index);
  str_add(p->out, " = ");
  ir_put_exprs(p, bounds, 3, f->index->type);
  if (f->loop != IRF_SERIAL)
    str_addf(p->out, " %s", kinds[f->loop]);
  if (f->stages)
    str_addf(p->out, "(%d)", f->stages);
  str_addc(p->out, ' ');
  ir_put_braced(p, &f->body, level);
}

/* What the condition needs is computed in a block of its own, before each test.
 * `while { … } cond c { … }` */
static void print_while(Printer *p, const IrWhile *w, int level) {
  str_add(p->out, "while ");
  ir_put_braced(p, &w->cond_block, level);
  str_add(p->out, " cond ");
  ir_put_expr(p, w->cond, DT_BOOL);
  str_addc(p->out, ' ');
  ir_put_braced(p, &w->body, level);
}

/* An empty `else` is none.
 * `if c { … } else { … }` */
static void print_if(Printer *p, const IrIf *s, int level) {
  str_add(p->out, "if ");
  ir_put_expr(p, s->cond, DT_BOOL);
  str_addc(p->out, ' ');
  ir_put_braced(p, &s->then, level);
  if (s->other.n) {
    str_add(p->out, " else ");
    ir_put_braced(p, &s->other, level);
  }
}

/* The common head of map, parallel and tile_loop. */
void ir_put_axes(Printer *p, IrVar *const *index, IrExpr *const *extent, int n) {
  for (int i = 0; i < n; i++) {
    str_addf(p->out, "%s%s", i ? ", " : "", ir_var_shown(p, index[i]));
    if (index[i]->type != DT_I64)
      str_addf(p->out, ": %s", dtype_name(index[i]->type));
  }
  str_add(p->out, n ? " in [" : "in [");
  ir_put_exprs(p, extent, n, DT_I64);
  str_add(p->out, "] ");
}

/* ---------------------------------------------------------------- elements and reports */

/* Defines its variable, so the type is written.
 * `load x: f32 = A[i, j]` */
static void print_load(Printer *p, const IrStmt *s) {
  str_add(p->out, "load ");
  ir_put_def(p, s->as.access.var);
  str_add(p->out, " = ");
  ir_put_access(p, &s->as.access.at);
  print_unchecked(p, &s->as.access.at);
}

/* The value has the element's type: its constants need no suffix.
 * `store A[i, j] = e` */
static void print_store(Printer *p, const IrStmt *s) {
  str_add(p->out, "store ");
  ir_put_access(p, &s->as.access.at);
  str_add(p->out, " = ");
  ir_put_expr(p, s->as.access.value, s->as.access.at.buf->dtype);
  print_unchecked(p, &s->as.access.at);
}

/* Element or region; the name says which operation.
 * `atomic old: i32 = atomic_add(A[i], e)`, `atomic atomic_add(C[…], tile)` */
static void print_atomic(Printer *p, const IrAtomic *a) {
  const char *name = op_info(a->op)->name;
  str_add(p->out, "atomic ");
  if (a->region) {
    str_addf(p->out, "%s(", name);
    ir_put_region(p, &a->dst);
    str_add(p->out, ", ");
    ir_put_region(p, &a->src);
    str_addc(p->out, ')');
    return;
  }
  if (a->old)
    ir_put_def(p, a->old);
  else
    str_addc(p->out, '_');
  str_addf(p->out, " = %s(", name);
  ir_put_access(p, &a->at);
  if (a->expected) {
    str_add(p->out, ", ");
    ir_put_expr(p, a->expected, a->at.buf->dtype);
  }
  str_add(p->out, ", ");
  ir_put_expr(p, a->value, a->at.buf->dtype);
  str_addc(p->out, ')');
  print_unchecked(p, &a->at);
}

/* Parts that are texts, values and regions, in the order in which they are shown.
 * `assert c, "text", e block x, y` */
static void print_report(Printer *p, const IrReport *r) {
  str_add(p->out, r->kind == IRP_PRINT ? "print" : "assert ");
  if (r->kind == IRP_ASSERT)
    ir_put_expr(p, r->cond, DT_BOOL);
  for (int i = 0; i < r->nparts; i++) {
    bool block = r->nblock && i == r->nparts - r->nblock;
    str_add(p->out, block ? " block " : i || r->kind == IRP_ASSERT ? ", " : " ");
    if (r->part[i].text)
      ir_put_string(p, r->part[i].text);
    else if (r->part[i].value)
      ir_put_expr(p, r->part[i].value, DT_NONE);
    else
      ir_put_region(p, r->part[i].region);
  }
}

/* ---------------------------------------------------------------- dispatch */

/* One switch for each group of kinds, a file each. */
static void print_stmt(Printer *p, const IrStmt *s, int level) {
  switch (s->kind) {
  case IRK_LET:
  case IRK_SET:
    print_let(p, s);
    break;
  case IRK_FOR:
    print_loop(p, &s->as.loop, level);
    break;
  case IRK_WHILE:
    print_while(p, &s->as.while_, level);
    break;
  case IRK_IF:
    print_if(p, &s->as.if_, level);
    break;
  case IRK_LOAD:
    print_load(p, s);
    break;
  case IRK_STORE:
    print_store(p, s);
    break;
  case IRK_ATOMIC:
    print_atomic(p, &s->as.atomic);
    break;
  case IRK_REPORT:
    print_report(p, &s->as.report);
    break;
  default:
    ir_put_tile(p, s, level);
  }
}

/* For messages too, so every kind has a word. */
const char *ir_stmt_name(const IrStmt *s) {
  static const char *const names[IRK_COUNT] = {
      [IRK_LET] = "let",           [IRK_SET] = "set",         [IRK_FOR] = "for",
      [IRK_WHILE] = "while",       [IRK_IF] = "if",           [IRK_BREAK] = "break",
      [IRK_CONTINUE] = "continue", [IRK_RETURN] = "return",   [IRK_LOAD] = "load",
      [IRK_STORE] = "store",       [IRK_ATOMIC] = "atomic",   [IRK_REPORT] = "print",
      [IRK_ALLOC] = "tile",        [IRK_COPY] = "copy",       [IRK_MAP] = "map",
      [IRK_REDUCE] = "reduce",     [IRK_SCAN] = "scan",       [IRK_DOT] = "dot",
      [IRK_ROLES] = "roles",       [IRK_CHANNEL] = "channel", [IRK_TILE_LOOP] = "tile_loop",
      [IRK_ACQUIRE] = "acquire",   [IRK_COMMIT] = "commit",   [IRK_WAIT] = "wait",
      [IRK_RELEASE] = "release",   [IRK_SYNC] = "sync",       [IRK_DOT_WAIT] = "dot_wait",
      [IRK_RELAYOUT] = "relayout", [IRK_OP] = "op",           [IRK_STORE_WAIT] = "store_wait",
      [IRK_ARRIVE] = "arrive",     [IRK_AWAIT] = "await",
  };
  return s->kind == IRK_OP ? op_info(s->as.op.op)->name : names[s->kind];
}

/* Two spaces a level. */
void ir_put_block(Printer *p, const IrBlock *b, int level) {
  for (size_t i = 0; i < b->n; i++) {
    ir_put_indent(p, level);
    print_stmt(p, b->v[i], level);
    str_addc(p->out, '\n');
  }
}
