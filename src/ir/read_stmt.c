/* read_stmt.c: control statements, definitions, accesses and regions of the IR's text.
 *
 * In: tokens of a block. Out: its statements. Always holds: after a syntax error reading goes on at
 * the next line that begins with a statement's word, or at the closing brace; each round takes at
 * least one token, so it ends. Tests: tests/unit/check_ir.c.
 */
#include "read.h"

/* ---------------------------------------------------------------- operands */

/* The caller puts it in scope once the rest of the statement is read.
 * `x: f32` */
IrVar *ir_read_def(Reader *r, IrVarKind kind) {
  const char *name = ir_tok_name(r, "a variable's name");
  if (!name || !ir_tok_expect(r, ":"))
    return NULL;
  DType t = ir_tok_dtype(r);
  return t == DT_NONE ? NULL : ir_var(r->k, kind, name, t);
}

/* NULL is allowed: the definition was broken. */
void ir_read_scope_def(Reader *r, IrVar *v) {
  if (v)
    ir_read_scope_add(r, (Entry){.kind = EN_VAR, .name = v->name, .as.var = v}, r->last.span);
}

/* As many indices as the buffer has axes.
 * `A[i, j]` */
bool ir_read_access(Reader *r, IrAccess *a) {
  a->check = r->k->level != IR_THREAD;
  a->buf = ir_read_scope_buffer(r);
  if (!a->buf || !ir_tok_expect(r, "["))
    return false;
  for (int i = 0; i < a->buf->rank; i++) {
    if (i && !ir_tok_expect(r, ","))
      return false;
    a->index[i] = ir_read_expr(r, ir_read_index_type(r));
    if (r->broken)
      return false;
  }
  return ir_tok_expect(r, "]");
}

/* Read at every level; at thread level it says what is true anyway. */
static void read_unchecked(Reader *r, IrAccess *a) {
  if (ir_tok_accept_word(r, "unchecked"))
    a->check = false;
}

/* What follows an axis' origin: `:+e`, `:+e:s`, `:+_`, `stop x`. */
static bool read_axis_extent(Reader *r, IrAxis *x) {
  x->keep = true;
  if (!ir_tok_expect(r, "+"))
    return false;
  if (!ir_tok_accept_word(r, "_"))
    x->extent = ir_tok_int(r, 0, INT64_MAX, "the axis' extent");
  else
    x->extent = 0;
  if (!r->broken && ir_tok_accept(r, ":"))
    x->step = ir_tok_int(r, 1, INT64_MAX, "the axis' step");
  if (!r->broken && ir_tok_accept_word(r, "stop"))
    x->stop = ir_read_expr(r, ir_read_index_type(r));
  return !r->broken;
}

/* An axis without `:+` is a single index, and dropped.
 * `o`, `o:+e`, `o:+e:s`, `o:+_`, `o:+e stop x` */
static bool read_axis(Reader *r, IrAxis *x) {
  *x = (IrAxis){.extent = 1, .step = 1};
  x->origin = ir_read_expr(r, ir_read_index_type(r));
  if (r->broken)
    return false;
  return !ir_tok_accept(r, ":") || read_axis_extent(r, x);
}

/* Without brackets: the whole buffer.
 * `[…]` and `.T` after the buffer's name, both optional */
static bool read_region_of(Reader *r, IrBuffer *buf, IrRegion *out) {
  if (!buf)
    return false;
  *out = ir_whole(r->k, buf);
  if (ir_tok_accept(r, "[")) {
    for (int i = 0; i < buf->rank; i++)
      if ((i && !ir_tok_expect(r, ",")) || !read_axis(r, &out->axis[i]))
        return false;
    if (!ir_tok_expect(r, "]"))
      return false;
  }
  if (ir_tok_accept(r, ".")) {
    if (!ir_tok_expect_word(r, "T"))
      return false;
    out->trans = true;
    if (ir_region_rank(out) < 2)
      ir_read_error(r, E0607, r->last.span, "`.T` needs a region of two axes or more");
  }
  return true;
}

bool ir_read_region(Reader *r, IrRegion *out) {
  return read_region_of(r, ir_read_scope_buffer(r), out);
}

/* Untyped: the caller knows which names they may use.
 * `[M, 64]` */
bool ir_read_extents(Reader *r, Node **node, int *rank) {
  *rank = 0;
  if (!ir_tok_expect(r, "["))
    return false;
  while (!ir_tok_is(r, "]")) {
    if (*rank == IR_MAX_RANK) {
      ir_read_unexpected(r, "at most eight axes");
      return false;
    }
    if (!(node[*rank] = ir_node_parse(r)))
      return false;
    ++*rank;
    if (!ir_tok_accept(r, ","))
      break;
  }
  return ir_tok_expect(r, "]");
}

/* ---------------------------------------------------------------- values */

/* Kept as what was written: the analysis finds what is true. */
static void read_uniform(Reader *r, IrVar *v) {
  static const char *const words[] = {"block", "group", "warp", "lane"};
  for (int i = 0; i < 4; i++)
    if (ir_tok_accept_word(r, words[i])) {
      v->stated = 1 + i;
      return;
    }
}

/* The variable comes into scope after its value, so `let x = x + 1` reads the outer one.
 * `let x: i32 = e`, `var x: i32 warp = e` */
static void read_let(Reader *r, IrBlock *out, bool mut, Span at) {
  IrVar *v = ir_read_def(r, mut ? IRV_MUT : IRV_LET);
  if (!v)
    return;
  if (mut)
    read_uniform(r, v);
  if (ir_tok_expect(r, "=")) {
    IrStmt *s = ir_add(r->k, out, IRK_LET, at);
    s->as.let.var = v;
    s->as.let.value = ir_read_expr_of(r, v->type);
  }
  ir_read_scope_def(r, v);
}

/* Only a `var` can be set; its type is its definition's.
 * `set x = e` */
static void read_set(Reader *r, IrBlock *out, Span at) {
  const char *name = ir_tok_name(r, "a variable's name");
  if (!name || !ir_tok_expect(r, "="))
    return;
  Span name_at = r->last.span;
  Entry *e = ir_read_scope_find(r, name);
  if (!e || e->kind != EN_VAR || e->as.var->kind != IRV_MUT) {
    ir_read_error(r, E0604, name_at, "`%s` is not a `var` of this place", name);
    ir_read_expr(r, DT_NONE);
    return;
  }
  IrVar *v = e->as.var;
  IrStmt *s = ir_add(r->k, out, IRK_SET, at);
  s->as.let.var = v;
  s->as.let.value = ir_read_expr_of(r, v->type);
}

/* ---------------------------------------------------------------- control */

/* None of the words: serial.
 * `unroll`, `unroll(4)`, `vectorized`, `pipelined(3)`, `persistent` */
static IrLoop read_loop_kind(Reader *r, int *stages) {
  static const char *const words[] = {NULL, "unroll", "vectorized", "pipelined", "persistent"};
  for (int i = 1; i < 5; i++) {
    if (!ir_tok_accept_word(r, words[i]))
      continue;
    if (ir_tok_accept(r, "(")) {
      *stages = (int)ir_tok_int(r, 0, 1 << 20, "a loop's number of stages");
      ir_tok_expect(r, ")");
    }
    return (IrLoop)i;
  }
  return IRF_SERIAL;
}

/* Bounds are read outside the loop's scope: they do not see its index.
 * `for i: i32 = lo, hi, step KIND { … }` */
static void read_for(Reader *r, IrBlock *out, Span at) {
  IrVar *v = ir_read_def(r, IRV_INDEX);
  if (!v || !ir_tok_expect(r, "="))
    return;
  IrExpr *bound[3];
  for (int i = 0; i < 3; i++) {
    if (i && !ir_tok_expect(r, ","))
      return;
    bound[i] = ir_read_expr_of(r, v->type);
    if (r->broken)
      return;
  }
  IrStmt *s = ir_add(r->k, out, IRK_FOR, at);
  IrFor *f = &s->as.loop;
  f->index = v;
  f->lo = bound[0];
  f->hi = bound[1];
  f->step = bound[2];
  f->loop = read_loop_kind(r, &f->stages);
  size_t mark = ir_read_scope_open(r);
  ir_read_scope_def(r, v);
  ir_read_block(r, &f->body);
  ir_read_scope_close(r, mark);
}

/* The condition and the body see what the condition's block defines.
 * `while { … } cond c { … }` */
static void read_while(Reader *r, IrBlock *out, Span at) {
  IrStmt *s = ir_add(r->k, out, IRK_WHILE, at);
  IrWhile *w = &s->as.while_;
  w->cond = ir_bool(r->k, false);
  size_t mark = ir_read_scope_open(r);
  if (ir_tok_expect(r, "{")) {
    ir_read_stmts(r, &w->cond_block);
    ir_tok_expect(r, "}");
  }
  if (!r->broken && ir_tok_expect_word(r, "cond")) {
    w->cond = ir_read_expr_of(r, DT_BOOL);
    if (!r->broken)
      ir_read_block(r, &w->body);
  }
  ir_read_scope_close(r, mark);
}

/* `else` belongs to the nearest `if`, as braces make plain.
 * `if c { … } else { … }` */
static void read_if(Reader *r, IrBlock *out, Span at) {
  IrExpr *cond = ir_read_expr_of(r, DT_BOOL);
  if (r->broken)
    return;
  IrStmt *s = ir_add(r->k, out, IRK_IF, at);
  s->as.if_.cond = cond;
  ir_read_block(r, &s->as.if_.then);
  if (!r->broken && ir_tok_accept_word(r, "else"))
    ir_read_block(r, &s->as.if_.other);
}

/* False where the word is another file's.
 * The words of control; none of them is a name in the language either. */
static bool read_control(Reader *r, IrBlock *out, const char *word, Span at) {
  static const char *const bare[] = {"break", "continue", "return"};
  static const IrKind kinds[] = {IRK_BREAK, IRK_CONTINUE, IRK_RETURN};
  for (int i = 0; i < 3; i++)
    if (!strcmp(word, bare[i])) {
      ir_add(r->k, out, kinds[i], at);
      return true;
    }
  if (!strcmp(word, "let") || !strcmp(word, "var"))
    read_let(r, out, word[0] == 'v', at);
  else if (!strcmp(word, "set"))
    read_set(r, out, at);
  else if (!strcmp(word, "for"))
    read_for(r, out, at);
  else if (!strcmp(word, "while"))
    read_while(r, out, at);
  else if (!strcmp(word, "if"))
    read_if(r, out, at);
  else
    return false;
  return true;
}

/* ---------------------------------------------------------------- blocks */

/* For finding a place to go on after an error. */
static bool starts_statement(const Reader *r) {
  static const char *const words[] = {
      "let",   "var",    "set",      "for",    "while",     "if",      "break",    "continue",
      "load",  "return", "store",    "atomic", "print",     "assert",  "shared",   "fragment",
      "local", "reg",    "copy",     "map",    "parallel",  "reduce",  "scan",     "dot",
      "roles", "role",   "channel",  "wait",   "tile_loop", "acquire", "dot_wait", "store_wait",
      "sync",  "commit", "relayout", "kernel", "release",   "const",   "arrive",   "await"};
  if (r->tok.kind != TK_NAME)
    return false;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (ir_tok_word(r, words[i]))
      return true;
  OpCode op = op_find(names_get(r->names, r->tok.text, r->tok.n));
  return op != OP_NONE && op_info(op)->cls == OPC_THREAD;
}

/* To the next statement on a later line, or the brace that closes this block.
 * Braces are matched on the way, so that an error inside a block does not end the kernel. */
static void skip_statement(Reader *r) {
  uint32_t line = r->tok.line;
  int depth = 0;
  while (r->tok.kind != TK_END) {
    if (ir_tok_is(r, "}") && depth-- == 0)
      break;
    if (depth == 0 && r->tok.line > line && starts_statement(r))
      break;
    depth += ir_tok_is(r, "{");
    ir_tok_next(r);
  }
  r->broken = false;
}

/* Kept as a tree and typed where it is used: it is text, for people.
 * `const NAME = expression` */
static void read_const(Reader *r) {
  Span at = r->tok.span;
  const char *name = ir_tok_name(r, "a constant's name");
  if (!name || !ir_tok_expect(r, "="))
    return;
  Node *n = ir_node_parse(r);
  if (n)
    ir_read_scope_add(r, (Entry){.kind = EN_CONST, .name = name, .as.value = n}, at);
}

/* The span reaches to the last token; of a loop only to its head. */
static void read_stmt(Reader *r, IrBlock *out) {
  Span at = r->tok.span;
  const char *word = ir_tok_name(r, "a statement");
  if (!word)
    return;
  size_t n = out->n;
  if (!strcmp(word, "const")) {
    read_const(r);
  } else if (!read_control(r, out, word, at) && !ir_read_memory(r, out, word, at) &&
             !ir_read_tile(r, out, word, at) && !ir_read_scheduled(r, out, word, at) &&
             !ir_read_op(r, out, word, at)) {
    ir_read_error(r, E0603, at, "no statement begins with `%s`", word);
    r->broken = true;
  }
  if (out->n > n)
    out->v[n]->span = span_join(at, ir_nested(out->v[n], 0) ? at : r->last.span);
}

/* Depth is counted here because every nested block passes, those of `while` too.
 * Each round takes a token at least, so a text of any kind ends. */
void ir_read_stmts(Reader *r, IrBlock *out) {
  if (++r->depth > READ_MAX_DEPTH)
    ir_read_unexpected(r, "blocks that are nested less deeply");
  while (r->depth <= READ_MAX_DEPTH && !ir_tok_is(r, "}") && r->tok.kind != TK_END &&
         !ir_tok_word(r, "kernel")) {
    read_stmt(r, out);
    if (r->broken)
      skip_statement(r);
  }
  r->depth--;
}

/* A scope of its own, closed also after an error. */
void ir_read_block(Reader *r, IrBlock *out) {
  if (!ir_tok_expect(r, "{"))
    return;
  size_t mark = ir_read_scope_open(r);
  ir_read_stmts(r, out);
  ir_read_scope_close(r, mark);
  ir_tok_expect(r, "}");
}

/* ---------------------------------------------------------------- element accesses */

/* The variable is known even where the access is broken.
 * `load x: f32 = A[i, j] unchecked` */
static void read_load(Reader *r, IrBlock *out, Span at) {
  IrAccess a = {0};
  IrVar *v = ir_read_def(r, IRV_LET);
  if (!v)
    return;
  if (ir_tok_expect(r, "=") && ir_read_access(r, &a)) {
    read_unchecked(r, &a);
    IrStmt *s = ir_add(r->k, out, IRK_LOAD, at);
    s->as.access.var = v;
    s->as.access.at = a;
  }
  ir_read_scope_def(r, v);
}

/* The element's dtype is what a lone constant becomes.
 * `store A[i, j] = e unchecked` */
static void read_store(Reader *r, IrBlock *out, Span at) {
  IrAccess a = {0};
  if (!ir_read_access(r, &a) || !ir_tok_expect(r, "="))
    return;
  IrExpr *value = ir_read_expr_of(r, a.buf->dtype);
  read_unchecked(r, &a);
  IrStmt *s = ir_add(r->k, out, IRK_STORE, at);
  s->as.access.at = a;
  s->as.access.value = value;
}

/* expected before value, as in the language.
 * `, expected, value)` or `, value)` */
static bool read_atomic_values(Reader *r, IrAtomic *a) {
  DType t = a->at.buf->dtype;
  if (!ir_tok_expect(r, ","))
    return false;
  if (a->op == OP_ATOMIC_CAS) {
    a->expected = ir_read_expr_of(r, t);
    if (r->broken || !ir_tok_expect(r, ","))
      return false;
  }
  a->value = ir_read_expr_of(r, t);
  return !r->broken && ir_tok_expect(r, ")");
}

/* Only rows of the table's atomic kind. */
static bool read_atomic_op(Reader *r, IrAtomic *a) {
  Span at = r->tok.span;
  const char *name = ir_tok_name(r, "an atomic operation");
  if (!name)
    return false;
  a->op = op_find(name);
  if (a->op == OP_NONE || op_info(a->op)->cls != OPC_ATOMIC) {
    ir_read_error(r, E0603, at, "there is no atomic operation `%s`", name);
    r->broken = true;
    return false;
  }
  return ir_tok_expect(r, "(");
}

/* `atomic x: i32 = …`, `atomic _ = …`; or `atomic atomic_add(C[…], tile)` on regions. */
static void read_atomic(Reader *r, IrBlock *out, Span at) {
  IrAtomic a = {.op = OP_NONE};
  OpCode op = op_find(names_get(r->names, r->tok.text, r->tok.kind == TK_NAME ? r->tok.n : 0));
  size_t next = r->at; /* an operation's name followed by `(`: regions */
  while (next < r->file->n && r->file->text[next] == ' ')
    next++;
  a.region = op != OP_NONE && next < r->file->n && r->file->text[next] == '(';
  if (a.region) {
    if (!read_atomic_op(r, &a) || !ir_read_region(r, &a.dst) || !ir_tok_expect(r, ",") ||
        !ir_read_region(r, &a.src) || !ir_tok_expect(r, ")"))
      return;
  } else {
    if (!ir_tok_is(r, "_") && !ir_tok_word(r, "_") && !(a.old = ir_read_def(r, IRV_LET)))
      return;
    if (!a.old)
      ir_tok_next(r);
    if (!ir_tok_expect(r, "=") || !read_atomic_op(r, &a) || !ir_read_access(r, &a.at) ||
        !read_atomic_values(r, &a))
      return;
    read_unchecked(r, &a.at);
  }
  ir_add(r->k, out, IRK_ATOMIC, at)->as.atomic = a;
  ir_read_scope_def(r, a.old);
}

/* A buffer's name begins a region; anything else is a value.
 * `"text"`, a region, or an expression */
static bool read_part(Reader *r, IrReportPart *part) {
  if (r->tok.kind == TK_STRING) {
    part->text = r->tok.string;
    ir_tok_next(r);
    return true;
  }
  Entry *e = r->tok.kind == TK_NAME
                 ? ir_read_scope_find(r, names_get(r->names, r->tok.text, r->tok.n))
                 : NULL;
  size_t at = r->at;
  bool stride = at < r->file->n && r->file->text[at] == '.' && strncmp(r->file->text + at, ".T", 2);
  if (e && e->kind == EN_BUFFER && !stride) {
    part->region = ARENA_NEW(r->k->arena, IrRegion);
    return ir_read_region(r, part->region);
  }
  part->value = ir_read_expr(r, DT_NONE);
  return !r->broken;
}

/* What follows the first part of each kind. */
static bool read_parts(Reader *r, IrReportPart **v, int *n) {
  VEC(IrReportPart) parts = {.v = *v, .n = (size_t)*n, .cap = (size_t)*n};
  IrReportPart part;
  do {
    part = (IrReportPart){0};
    if (!read_part(r, &part))
      return false;
    VEC_PUSH(r->k->arena, &parts, part);
  } while (ir_tok_accept(r, ","));
  *v = parts.v;
  *n = (int)parts.n;
  return true;
}

/* `print` alone prints an empty line.
 * `print part, …` and `assert c, part, … block x, y` */
static void read_report(Reader *r, IrBlock *out, IrReportKind kind, Span at) {
  IrReport rep = {.kind = kind};
  if (kind == IRP_ASSERT)
    rep.cond = ir_read_expr_of(r, DT_BOOL);
  bool more = !r->broken && (kind == IRP_PRINT ? !starts_statement(r) && !ir_tok_is(r, "}")
                                               : ir_tok_accept(r, ","));
  if (more && !read_parts(r, &rep.part, &rep.nparts))
    return;
  int shown = rep.nparts;
  if (!r->broken && kind == IRP_ASSERT && ir_tok_accept_word(r, "block") &&
      !read_parts(r, &rep.part, &rep.nparts))
    return;
  rep.nblock = rep.nparts - shown;
  if (r->broken)
    return;
  ir_add(r->k, out, IRK_REPORT, at)->as.report = rep;
}

bool ir_read_memory(Reader *r, IrBlock *out, const char *word, Span at) {
  if (!strcmp(word, "load"))
    read_load(r, out, at);
  else if (!strcmp(word, "store"))
    read_store(r, out, at);
  else if (!strcmp(word, "atomic"))
    read_atomic(r, out, at);
  else if (!strcmp(word, "print") || !strcmp(word, "assert"))
    read_report(r, out, word[0] == 'p' ? IRP_PRINT : IRP_ASSERT, at);
  else
    return false;
  return true;
}
