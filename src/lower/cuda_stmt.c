/* cuda_stmt.c: thread-level statements as CUDA C, a line or a block each.
 *
 * Goes in: blocks of statements. Comes out: lines of p->body, with the program's own lines as
 * comments. Always holds: a loop's bounds are evaluated once; loops are not unrolled unless the IR
 * says so (unrolling costs three times the compile time). Tests: tests/unit/check_cuda.c,
 * tests/gpu.
 */
#include "cuda_print.h"

#include <string.h>

/* The only way text gets into the body, so that indentation cannot go wrong. */
void cuda_line(Printer *p, const char *fmt, ...) {
  va_list ap;
  str_pad(&p->body, ' ', (size_t)p->indent * 2);
  va_start(ap, fmt);
  str_vaddf(&p->body, fmt, ap);
  va_end(ap);
  str_addc(&p->body, '\n');
}

/* Printing goes on after it: one run shows every statement that has no form on the GPU. */
void cuda_fail(Printer *p, Span span, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *text = arena_vprintf(p->a, fmt, ap);
  va_end(ap);
  diag_add(p->sink, E0702, span, "%s", text);
  p->failed = true;
}

/* For use as an argument of cuda_line; lives as long as the text. */
const char *cuda_text_of(Printer *p, const IrExpr *e) {
  Str s = str_new(p->a);
  cuda_expr(p, e, PREC_COMMA, &s);
  return str_text(&s);
}

/* ---- the program's lines ------------------------------------------------------------------- */

/* One comment a line of the program: several statements of a line stand below one. A backslash at
 * its end would make C continue the comment. */
static void comment(Printer *p, Span span) {
  uint32_t line, column;
  if (!span.file)
    return;
  src_position(span.file, span.begin, &line, &column);
  if (span.file == p->file && line == p->line)
    return;
  p->file = span.file;
  p->line = line;
  size_t at = line >= span.file->first_line ? line - span.file->first_line : 0;
  const char *text = span.file->text + span.file->lines[at];
  size_t n = strcspn(text, "\r\n"), skip = strspn(text, " \t");
  n = skip < n ? n - skip : 0;
  while (n > 0 && text[skip + n - 1] == '\\') /* would go on in the next line */
    n--;
  cuda_line(p, "// %s:%u: %.*s", span.file->name, (unsigned)line, (int)(n < 100 ? n : 100),
            text + skip);
}

/* ---- variables ----------------------------------------------------------------------------- */

/* const unless it is a `var`: the reader sees what changes. */
static void declare(Printer *p, const IrVar *v, const char *value) {
  cuda_line(p, "%s%s %s = %s;", v->kind == IRV_MUT ? "" : "const ",
            cuda_cname(cuda_var_ctype(p, v)), cuda_var(p, v), value);
}

/* The range is learned before the declaration, which picks the type by it. */
static void print_let(Printer *p, const IrStmt *s) {
  cuda_bind_shared(p, &s->as.let.value, 1);
  if (s->as.let.var->kind != IRV_MUT)
    cuda_range_let(p, s->as.let.var, s->as.let.value);
  declare(p, s->as.let.var, cuda_text_of(p, s->as.let.value));
}

/* Wraps like every expression: `set i = i + 1` on an unbounded var is unsigned arithmetic. */
static void print_set(Printer *p, const IrStmt *s) {
  cuda_bind_shared(p, &s->as.let.value, 1);
  cuda_line(p, "%s = %s;", cuda_var(p, s->as.let.var), cuda_text_of(p, s->as.let.value));
}

/* ---- memory -------------------------------------------------------------------------------- */

/* Held as values, not as memory: no conversion at a load or store. */
static bool in_registers(const IrBuffer *b) {
  return b->space == IRS_REG || b->space == IRS_LOCAL;
}

/* In a `while` another block's store must become visible: the access is volatile, so the compiler
 * neither keeps the value in a register nor moves the load out. Inputs are written by nobody. */
static bool is_polled(const Printer *p, const IrBuffer *b) {
  return p->whiles > 0 && b->space == IRS_GLOBAL && b->role != IRR_IN;
}

/* buffer[offset] */
static const char *element(Printer *p, const IrAccess *at) {
  Str s = str_new(p->a);
  str_addf(&s, "%s[", cuda_buffer(p, at->buf));
  cuda_offset(p, at->buf, at->index, PREC_COMMA, &s);
  str_addc(&s, ']');
  return str_text(&s);
}

/* A narrow float becomes a float on its grid here. */
static void print_load(Printer *p, const IrStmt *s) {
  const IrAccess *at = &s->as.access.at;
  Str value = str_new(p->a);
  cuda_bind_shared(p, at->index, (size_t)at->buf->rank);
  const char *text = element(p, at);
  if (is_polled(p, at->buf))
    text = arena_printf(p->a, "*(const volatile %s *)&%s", cuda_memory(at->buf->dtype), text);
  if (in_registers(at->buf))
    str_add(&value, text);
  else
    cuda_from_memory(p, at->buf->dtype, text, &value);
  declare(p, s->as.access.var, str_text(&value));
}

/* Without the rounding that a vector store does in its stead. */
static IrExpr *stored(const Printer *p, const IrStmt *s) {
  IrExpr *e = s->as.access.value;
  const IrBuffer *b = s->as.access.at.buf;
  bool rounds = e->op == OP_CAST && cuda_is_narrow(e->type) && e->type == b->dtype &&
                e->arg[0]->type == DT_F32;
  return rounds && b->space == IRS_REG && !p->buf_kept[b->id] ? e->arg[0] : e;
}

/* Index and value may share subexpressions: they are bound together. */
static void print_store(Printer *p, const IrStmt *s) {
  const IrAccess *at = &s->as.access.at;
  IrExpr *e = stored(p, s);
  IrExpr *used[IR_MAX_RANK + 1];
  Str value = str_new(p->a);
  memcpy(used, at->index, sizeof at->index);
  used[at->buf->rank] = e;
  cuda_bind_shared(p, used, (size_t)at->buf->rank + 1);
  const char *text = element(p, at);
  if (in_registers(at->buf))
    cuda_expr(p, e, PREC_COMMA, &value);
  else
    cuda_to_memory(p, at->buf->dtype, e, &value);
  cuda_line(p, "%s = %s;", text, str_text(&value));
}

/* NULL where the hardware has none of that type and the prelude neither. */
static const char *atomic_function(Printer *p, const IrAtomic *a) {
  DType t = a->at.buf->dtype;
  const char *stem = arena_printf(p->a, "ts_%s", op_info(a->op)->name);
  const char *fn = NULL;
  if (t == DT_F16 || t == DT_BF16) {
    fn = arena_printf(p->a, "%s_%s", stem, dtype_name(t));
    fn = cuda_part(p, fn) ? fn : NULL;
  } else if (dtype_bits(t) >= 32)
    fn = cuda_part_of(p, stem, t);
  return fn;
}

/* The prelude's functions return the old value; where nobody asks for it the hardware's reduction
 * is used, which the compiler picks by itself. */
static void print_atomic(Printer *p, const IrStmt *s) {
  const IrAtomic *a = &s->as.atomic;
  const char *fn = atomic_function(p, a);
  Str call = str_new(p->a);
  if (!fn || a->region) {
    cuda_fail(p, s->span, "there is no `%s` of %s on the GPU", op_info(a->op)->name,
              dtype_name(a->at.buf->dtype));
    return;
  }
  str_addf(&call, "%s(&%s", fn, element(p, &a->at));
  if (a->op == OP_ATOMIC_CAS)
    str_addf(&call, ", %s", cuda_text_of(p, a->expected));
  str_addf(&call, ", %s)", cuda_text_of(p, a->value));
  if (a->old)
    declare(p, a->old, str_text(&call));
  else
    cuda_line(p, "%s;", str_text(&call));
}

/* A shared tile is a typed pointer into the block's bytes; a register array is a C array all of
 * whose indices become constants when loops are unrolled, so that it needs no memory. */
static void print_alloc(Printer *p, const IrStmt *s) {
  const IrBuffer *b = s->as.alloc;
  int64_t count = 1, extent = 0;
  for (int i = 0; i < b->rank; i++)
    count *= ir_is_const(b->extent[i], &extent) ? extent : 0;
  if (b->space == IRS_SHARED) {
    p->shared = true;
    (void)cuda_part(p, "ts_smem");
    cuda_line(p, "%s *const %s = (%s *)(ts_shared + %lld);", cuda_memory(b->dtype),
              cuda_buffer(p, b), cuda_memory(b->dtype), (long long)b->offset);
  } else if (in_registers(b) && count > 0) {
    cuda_line(p, "%s %s[%lld];", cuda_register(b->dtype), cuda_buffer(p, b), (long long)count);
  } else
    cuda_fail(p, s->span, "tile %s has no place at thread level", b->name);
}

/* ---- control ------------------------------------------------------------------------------- */

/* A block one level deeper. Temporaries of the statement around it end here: inside, a variable
 * that they read may change. */
static void nested(Printer *p, const IrBlock *b) {
  cuda_unbind(p);
  p->indent++;
  cuda_block(p, b);
  p->indent--;
}

/* Bounds are evaluated once, before the loop: one that could change, or that costs something, gets
 * a name of its own. */
static const char *bound(Printer *p, const IrExpr *e, const char *wish) {
  if (e->nargs == 0 && !e->reads_mut)
    return cuda_text_of(p, e);
  const char *name = cuda_fresh(p, wish);
  cuda_line(p, "const %s %s = %s;", cuda_cname(cuda_ctype(p, e)), name, cuda_text_of(p, e));
  return name;
}

/* The direction is known for most loops; a step of 0 runs no iteration. */
static const char *condition(Printer *p, const IrFor *f, const char *i, const char *hi,
                             const char *step) {
  IrRange r = cuda_range(p, f->step);
  if (r.lo >= 1)
    return arena_printf(p->a, "%s < %s", i, hi);
  if (r.hi <= -1)
    return arena_printf(p->a, "%s > %s", i, hi);
  return arena_printf(p->a, "%s > 0 ? %s < %s : %s < 0 && %s > %s", step, i, hi, step, i, hi);
}

/* "unroll 1" is said too: left alone, the compiler unrolls long loops and takes three times as
 * long. */
static void unrolling(Printer *p, const IrFor *f) {
  if (f->loop == IRF_UNROLL && f->stages > 1)
    cuda_line(p, "#pragma unroll %d", f->stages);
  else if ((f->loop == IRF_UNROLL && f->stages == 0) || f->loop == IRF_VECTORIZED)
    cuda_line(p, "#pragma unroll");
  else
    cuda_line(p, "#pragma unroll 1");
}

/* Whether the ranges do not bound the rounds below 2^24: such a loop may run for minutes. */
static bool is_long(Printer *p, const IrFor *f) {
  IrRange lo = cuda_range(p, f->lo), hi = cuda_range(p, f->hi), step = cuda_range(p, f->step);
  int64_t way = 0, least = step.lo >= 1 ? step.lo : step.hi <= -1 ? -step.hi : 1;
  bool down = step.hi <= -1;
  if (__builtin_sub_overflow(down ? lo.hi : hi.hi, down ? hi.lo : lo.lo, &way))
    return true;
  return way / least >= 1 << 24;
}

/* The counter of a loop that looks at the stop word; NULL where it need not: inside another that
 * does, in few rounds, or where each wait inside it ends by itself. */
static const char *watch(Printer *p, const IrFor *f) {
  if (p->waits || p->watched > 0 || f->loop == IRF_UNROLL || !is_long(p, f))
    return NULL;
  const char *calls = cuda_fresh(p, "polls");
  cuda_line(p, "unsigned %s = 0;", calls);
  return calls;
}

static void look(Printer *p, const char *calls) {
  if (!calls)
    return;
  p->stop = true;
  (void)cuda_part(p, "ts_stopped");
  cuda_line(p, "  if (ts_stopped(stop, %s)) return;", calls);
}

/* What a loop's header is made of. */
typedef struct Header {
  const char *i, *lo, *hi, *step;
} Header;

/* Whether another round follows, and its index, in unsigned arithmetic: the way that is left is
 * longer than a step. */
static void print_far(Printer *p, const IrFor *f, const Header *h) {
  CType t = cuda_var_ctype(p, f->index), hi = cuda_ctype(p, f->hi), step = cuda_ctype(p, f->step);
  bool words = (t == C_INT || t == C_UINT) && (hi == C_INT || hi == C_UINT) &&
               (step == C_INT || step == C_UINT);
  const char *u = words ? "unsigned" : "unsigned long long", *on = cuda_fresh(p, "on");
  const char *up = arena_printf(p->a, "(%s)%s - (%s)%s > (%s)%s", u, h->hi, u, h->i, u, h->step);
  const char *down =
      arena_printf(p->a, "(%s)%s - (%s)%s > 0u - (%s)%s", u, h->i, u, h->hi, u, h->step);
  IrRange r = cuda_range(p, f->step);
  const char *more = r.lo >= 0    ? up
                     : r.hi <= -1 ? down
                                  : arena_printf(p->a, "%s > 0 ? %s : %s", h->step, up, down);
  cuda_line(p, "bool %s = %s;", on, condition(p, f, h->lo, h->hi, h->step));
  unrolling(p, f);
  cuda_line(p, "for (%s %s = %s; %s; %s = %s, %s = (%s)((%s)%s + (%s)%s)) {", cuda_cname(t), h->i,
            h->lo, on, on, more, h->i, cuda_cname(t), u, h->i, u, h->step);
}

/* Usual loops, whose ranges say that the step past the end fits. */
static void print_near(Printer *p, const IrFor *f, const Header *h) {
  IrRange r = cuda_range(p, f->step);
  const char *next = r.lo == 1 && r.hi == 1 ? arena_printf(p->a, "++%s", h->i)
                                            : arena_printf(p->a, "%s += %s", h->i, h->step);
  unrolling(p, f);
  cuda_line(p, "for (%s %s = %s; %s; %s) {", cuda_cname(cuda_var_ctype(p, f->index)), h->i, h->lo,
            condition(p, f, h->i, h->hi, h->step), next);
}

/* The index' range is known before the declaration picks its width. */
static void print_for(Printer *p, const IrStmt *s) {
  const IrFor *f = &s->as.loop;
  IrExpr *used[3] = {f->lo, f->hi, f->step};
  cuda_bind_shared(p, used, 3);
  cuda_range_loop(p, f);
  Header h = {.i = cuda_var(p, f->index)};
  bool far = cuda_loop_overflows(p, f);
  h.lo = far ? bound(p, f->lo, arena_printf(p->a, "%s_first", h.i)) : cuda_text_of(p, f->lo);
  h.hi = bound(p, f->hi, arena_printf(p->a, "%s_end", h.i));
  h.step = bound(p, f->step, arena_printf(p->a, "%s_step", h.i));
  const char *calls = watch(p, f);
  (far ? print_far : print_near)(p, f, &h);
  look(p, calls);
  p->watched += calls != NULL;
  nested(p, &f->body);
  p->watched -= calls != NULL;
  cuda_line(p, "}");
}

enum { MEETING = FX_COLLECTIVE | FX_WARPGROUP | FX_BLOCK };

/* Which threads meet in it. Waits for an mbarrier or for copies are no meeting: a stopped thread
 * passes the former, the latter end by themselves. */
static bool find_meeting(IrStmt *s, void *found) {
  if (s->kind == IRK_OP)
    *(unsigned *)found |= op_info(s->as.op.op)->effects & MEETING;
  return true;
}

static unsigned meeting(const IrWhile *w) {
  unsigned found = 0;
  ir_walk((IrBlock *)(uintptr_t)&w->cond_block, find_meeting, &found);
  ir_walk((IrBlock *)(uintptr_t)&w->body, find_meeting, &found);
  return found;
}

/* Where threads wait for each other none of them may end alone: it leaves the loop together with
 * those that go the same rounds as it, and passes what comes behind. Threads whose rounds may
 * differ though they meet do not look: at a meeting of our own some would not come. */
static void look_and_leave(Printer *p, const IrWhile *w, const char *calls) {
  unsigned met = meeting(w);
  p->stop = true;
  if (met && w->control == IR_BLOCK_UNIFORM) {
    (void)cuda_part(p, "ts_leave");
    cuda_line(p, "  if (ts_leave(%d, %d, stop, stopped, %s)) break;", p->role_barrier,
              p->role_threads, calls);
    return;
  }
  if (met == FX_COLLECTIVE && w->control < IR_LANE_VARYING) {
    (void)cuda_part(p, "ts_leave_warp");
    cuda_line(p, "  if (ts_leave_warp(stop, stopped, %s)) break;", calls);
    return;
  }
  if (met)
    return;
  (void)cuda_part(p, "ts_stopped");
  cuda_line(p, "  if (stopped != 0u || ts_stopped(stop, %s)) {", calls);
  cuda_line(p, "    stopped = 1u;");
  cuda_line(p, "    break;");
  cuda_line(p, "  }");
}

/* The stop word is read once in 1024 rounds by every thread, which costs nothing that can be
 * measured; a mapped word instead of device memory would cost a hundred times. */
static void open_while(Printer *p, const IrWhile *w) {
  const char *calls = cuda_fresh(p, "polls");
  cuda_line(p, "unsigned %s = 0;", calls);
  cuda_line(p, "while (true) {");
  if (p->waits)
    look_and_leave(p, w, calls);
  else
    look(p, calls);
}

/* A condition that is always true is a loop left by break. */
static void leave_unless(Printer *p, IrExpr *cond) {
  if (cond->op == OP_CONST && cond->as.value.as.i != 0)
    return;
  p->indent++;
  cuda_bind_shared(p, &cond, 1);
  cuda_line(p, "if (!(%s)) break;", cuda_text_of(p, cond));
  cuda_unbind(p);
  p->indent--;
}

/* cond_block belongs to each round, so the condition stands inside the loop. */
static void print_while(Printer *p, const IrStmt *s) {
  const IrWhile *w = &s->as.while_;
  open_while(p, w);
  p->whiles++;
  nested(p, &w->cond_block);
  leave_unless(p, w->cond);
  nested(p, &w->body);
  p->whiles--;
  cuda_line(p, "}");
}

/* No dangling else: blocks always have braces. */
static void print_if(Printer *p, const IrStmt *s) {
  const IrIf *i = &s->as.if_;
  cuda_bind_shared(p, (IrExpr *const *)&i->cond, 1);
  cuda_line(p, "if (%s) {", cuda_text_of(p, i->cond));
  nested(p, &i->then);
  if (i->other.n > 0) {
    cuda_line(p, "} else {");
    nested(p, &i->other);
  }
  cuda_line(p, "}");
}

enum { LAST_BARRIER = 15 }; /* roles take their own from the first on, to leave loops from this */

/* One chain of ifs over the broadcast warp index: every branch is warp-uniform and the compiler
 * knows it, which setmaxnreg and wgmma need. */
static void print_roles(Printer *p, const IrStmt *s) {
  const IrRoles *r = &s->as.roles;
  const char *warp = cuda_fresh(p, "role_warp");
  (void)cuda_part(p, "ts_warp");
  cuda_line(p, "const int %s = ts_warp();", warp);
  for (int i = 0; i < r->nroles; i++) {
    const IrRoleBody *b = &r->role[i];
    const char *from =
        b->first_warp > 0 ? arena_printf(p->a, "%s >= %d && ", warp, b->first_warp) : "";
    cuda_line(p, "%sif (%s%s < %d) { // %s", i > 0 ? "} else " : "", from, warp,
              b->first_warp + b->warps, b->name);
    p->role_barrier = LAST_BARRIER - i;
    p->role_threads = 32 * b->warps;
    nested(p, &b->body);
  }
  p->role_barrier = 0;
  p->role_threads = p->k->threads;
  if (r->nroles > 0)
    cuda_line(p, "}");
}

/* ---- any statement ------------------------------------------------------------------------- */

static void print_stmt(Printer *p, const IrStmt *s) {
  switch (s->kind) {
  case IRK_LET:
    print_let(p, s);
    break;
  case IRK_SET:
    print_set(p, s);
    break;
  case IRK_FOR:
    print_for(p, s);
    break;
  case IRK_WHILE:
    print_while(p, s);
    break;
  case IRK_IF:
    print_if(p, s);
    break;
  case IRK_BREAK:
    cuda_line(p, "break;");
    break;
  case IRK_CONTINUE:
    cuda_line(p, "continue;");
    break;
  case IRK_RETURN:
    cuda_line(p, "return;");
    break;
  case IRK_LOAD:
    print_load(p, s);
    break;
  case IRK_STORE:
    print_store(p, s);
    break;
  case IRK_ATOMIC:
    print_atomic(p, s);
    break;
  case IRK_REPORT:
    cuda_report(p, s);
    break;
  case IRK_ALLOC:
    print_alloc(p, s);
    break;
  case IRK_ROLES:
    print_roles(p, s);
    break;
  case IRK_OP:
    cuda_op(p, s);
    break;
  default:
    cuda_fail(p, s->span, "a statement of a higher level is left in %s", p->k->name);
  }
}

/* Statements in order; temporaries end with their statement. */
void cuda_block(Printer *p, const IrBlock *b) {
  for (size_t i = 0; i < b->n; i++) {
    comment(p, b->v[i]->span);
    print_stmt(p, b->v[i]);
    cuda_unbind(p);
  }
}
