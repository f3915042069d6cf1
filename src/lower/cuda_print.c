/* cuda_print.c: a thread-level kernel as self-contained CUDA C.
 *
 * Goes in: a verified thread-level kernel and a target. Comes out: CudaText: the prelude parts that
 * it uses, one extern "C" kernel, what the launcher must pass in the order of its parameters, and
 * the places a fault record can name. Always holds: the same kernel gives the same text; a
 * parameter is only what the body uses. Tests: tests/unit/check_cuda.c, goldens tests/lower,
 * tests/gpu.
 */
#include "cuda_print.h"

#include <string.h>

/* ---- names --------------------------------------------------------------------------------- */

/* Stride variables have no name of their own: A_stride0 is axis 0 of A. */
static const char *wish_of(Printer *p, const IrVar *v) {
  if (v->kind == IRV_STRIDE)
    return arena_printf(p->a, "%s_stride%d", v->buf->name, v->axis);
  return v->name ? v->name : "v";
}

/* Named on first use, which for a parameter also makes it one of the launch's arguments. */
const char *cuda_var(Printer *p, const IrVar *v) {
  p->var_used[v->id] = true;
  if (!p->var_name[v->id])
    p->var_name[v->id] = cuda_fresh(p, wish_of(p, v));
  return p->var_name[v->id];
}

/* A global buffer that nothing names (only a tensor map does) is no argument. */
const char *cuda_buffer(Printer *p, const IrBuffer *b) {
  if (b->space == IRS_GLOBAL)
    p->buf_arg[b->id] = true;
  if (!p->buf_name[b->id])
    p->buf_name[b->id] = cuda_fresh(p, b->name);
  return p->buf_name[b->id];
}

/* ---- addresses ----------------------------------------------------------------------------- */

/* Row-major, as the caller guarantees where no stride is asked for. */
static bool is_contiguous(const IrBuffer *b) {
  for (int i = 0; i < b->rank; i++)
    if (b->stride[i])
      return false;
  return true;
}

/* Whether the offsets of all elements fit in an int, with room to spare. */
static bool small_buffer(Printer *p, const IrBuffer *b) {
  int64_t count = 1;
  for (int i = 0; i < b->rank; i++) {
    IrRange r = cuda_range(p, b->extent[i]);
    if (r.lo < 0 || __builtin_mul_overflow(count, r.hi, &count) || count > 1 << 30)
      return false;
  }
  return true;
}

/* Horner's form, ((i0 * e1 + i1) * e2 + i2): one multiply-add an axis. The first index is widened
 * where a large tensor needs 64 bits. */
static void row_major(Printer *p, const IrBuffer *b, IrExpr *const *index, Str *out) {
  bool wide = b->rank > 1 && !small_buffer(p, b);
  for (int i = 2; i < b->rank; i++)
    str_addc(out, '(');
  str_add(out, wide ? "(long long)" : "");
  cuda_expr(p, index[0], wide || b->rank > 1 ? PREC_UNARY : PREC_COMMA, out);
  for (int i = 1; i < b->rank; i++) {
    str_add(out, " * ");
    cuda_expr(p, b->extent[i], PREC_UNARY, out);
    str_add(out, " + ");
    cuda_expr(p, index[i], PREC_ADD + 1, out);
    str_add(out, i + 1 < b->rank ? ")" : "");
  }
}

/* Each axis by its stride; unit strides of axes that were not asked for are spelled by the extents.
 */
static void strided(Printer *p, const IrBuffer *b, IrExpr *const *index, Str *out) {
  for (int i = 0; i < b->rank; i++) {
    str_add(out, i > 0 ? " + " : "");
    cuda_expr(p, index[i], PREC_MUL, out);
    if (b->stride[i])
      str_addf(out, " * %s", cuda_var(p, b->stride[i]));
    for (int k = i + 1; k < b->rank && !b->stride[i]; k++) { /* what row-major would have */
      str_add(out, " * ");
      cuda_expr(p, b->extent[k], PREC_UNARY, out);
    }
  }
}

/* Address arithmetic cannot overflow for an element that is there, so it needs no modular detour.
 */
void cuda_offset(Printer *p, const IrBuffer *b, IrExpr *const *index, int prec, Str *out) {
  bool paren = prec > PREC_COMMA && b->rank > 1;
  if (b->rank == 0) {
    str_addc(out, '0');
    return;
  }
  str_add(out, paren ? "(" : "");
  if (is_contiguous(b))
    row_major(p, b, index, out);
  else
    strided(p, b, index, out);
  str_add(out, paren ? ")" : "");
}

/* ---- set-up -------------------------------------------------------------------------------- */

/* Bound by the caller, not by the body. */
static bool is_parameter(const IrVar *v) {
  return v->kind == IRV_PARAM || v->kind == IRV_EXTENT || v->kind == IRV_STRIDE ||
         v->kind == IRV_SMS;
}

/* The IR's own bounds, and what hardware and shapes guarantee. */
static IrRange stated_range(const IrVar *v) {
  IrRange r = dtype_is_int(v->type) ? ir_range_of_type(v->type) : (IrRange){INT64_MIN, INT64_MAX};
  if (v->kind == IRV_EXTENT && r.lo < 0)
    r.lo = 0;
  if (v->kind == IRV_GRID)
    r = (IrRange){0, v->axis == 0 ? INT32_MAX - 1 : 65534};
  if (v->lo != IR_NO_RANGE_LO && v->lo > r.lo)
    r.lo = v->lo;
  if (v->hi != IR_NO_RANGE_HI && v->hi < r.hi)
    r.hi = v->hi;
  return r;
}

/* Whether a number of blocks goes by that of multiprocessors, so that the last tile's number and it
 * are no more than i32 has; `pre` has its parts. Of sums, products and the greater of two, both
 * have to; of a difference the first. */
static bool counts_sms(const IrKernel *k, const IrExpr *e) {
  enum { FEW = 64 };
  int64_t n;
  bool all = e->op == OP_ADD || e->op == OP_MUL || e->op == OP_MAX2 || e->op == OP_SHL;
  if (e->op == OP_VAR && e->as.var->kind == IRV_SMS)
    return true;
  for (size_t i = 0; e->op == OP_VAR && i < k->pre.n; i++)
    if (k->pre.v[i]->as.let.var == e->as.var)
      return counts_sms(k, k->pre.v[i]->as.let.value);
  for (int i = 0; i < (e->op == OP_SUB ? 1 : e->nargs); i++)
    if (counts_sms(k, e->arg[i]) ? !all : all && !(ir_is_const(e->arg[i], &n) && n <= FEW))
      return !all;
  return all;
}

/* Variables of `pre` are computed on the host and passed. */
static void set_up_vars(Printer *p) {
  size_t n = p->k->vars.n;
  p->var_range = ARENA_ARRAY(p->a, IrRange, n);
  p->var_name = ARENA_ARRAY(p->a, const char *, n);
  p->var_arg = ARENA_ARRAY(p->a, bool, n);
  p->var_wide = ARENA_ARRAY(p->a, bool, n);
  p->var_used = ARENA_ARRAY(p->a, bool, n);
  for (size_t i = 0; i < n; i++) {
    p->var_range[i] = stated_range(p->k->vars.v[i]);
    p->var_arg[i] = is_parameter(p->k->vars.v[i]);
  }
  for (size_t i = 0; i < p->k->pre.n; i++)
    p->var_arg[p->k->pre.v[i]->as.let.var->id] = true;
  p->few_blocks = p->k->grid_rank == 1 && counts_sms(p->k, p->k->grid[0]);
}

static bool find_wait(IrStmt *s, void *found) {
  if (s->kind == IRK_ROLES || (s->kind == IRK_OP && s->as.op.op == OP_MBAR_WAIT))
    *(bool *)found = true;
  return true;
}

/* Who reads registers: a vector store rounds narrow floats by itself. */
static bool find_kept(IrStmt *s, void *ctx) {
  Printer *p = ctx;
  const IrOp *op = &s->as.op;
  if (s->kind == IRK_LOAD)
    p->buf_kept[s->as.access.at.buf->id] = true;
  bool leaves = s->kind == IRK_OP && (op->op == OP_ST_GLOBAL || op->op == OP_ST_SHARED) &&
                op->operand[1].count > 1;
  for (int i = 0; s->kind == IRK_OP && i < op->noperands; i++)
    if (op->operand[i].buf && !(leaves && i == 1))
      p->buf_kept[op->operand[i].buf->id] = true;
  return true;
}

/* Tables by id, so that nothing is searched for while printing. */
static void set_up(Printer *p) {
  p->body = str_new(p->a);
  p->prelude = str_new(p->a);
  p->names = map_new(p->a);
  p->parts = map_new(p->a);
  p->indent = 1;
  ir_walk((IrBlock *)(uintptr_t)&p->k->body, find_wait, &p->waits);
  p->role_threads = p->k->threads;
  p->buf_name = ARENA_ARRAY(p->a, const char *, p->k->buffers.n);
  p->buf_arg = ARENA_ARRAY(p->a, bool, p->k->buffers.n);
  p->buf_kept = ARENA_ARRAY(p->a, bool, p->k->buffers.n);
  ir_walk((IrBlock *)(uintptr_t)&p->k->body, find_kept, p);
  p->tmap_name = ARENA_ARRAY(p->a, const char *, p->k->tmaps.n);
  p->tmap_arg = ARENA_ARRAY(p->a, bool, p->k->tmaps.n);
  set_up_vars(p);
}

/* ---- parameters ---------------------------------------------------------------------------- */

typedef VEC(CudaArg) Args;

/* The same order in the text and in the list that the launcher follows. */
static void parameter(Printer *p, Args *args, CudaArg arg, Str *out, const char *type,
                      const char *name) {
  str_addf(out, "%s%s%s", args->n > 0 ? ",\n    " : "\n    ", type, name);
  VEC_PUSH(p->a, args, arg);
}

/* __restrict__ with const lets the compiler load through the read-only path; the language forbids
 * overlap of what is written with anything else. inout and scratch may be shared between blocks. */
static void tensors(Printer *p, Args *args, Str *out) {
  for (size_t i = 0; i < p->k->buffers.n; i++) {
    const IrBuffer *b = p->k->buffers.v[i];
    if (!p->buf_arg[b->id])
      continue;
    /* inputs overlap nothing that is written; what several blocks share must not be assumed alone
     */
    const char *type =
        arena_printf(p->a, "%s%s *%s", b->role == IRR_IN ? "const " : "", cuda_memory(b->dtype),
                     b->role == IRR_IN || b->role == IRR_OUT ? "__restrict__ " : "");
    parameter(p, args, (CudaArg){CUDA_ARG_TENSOR, b, NULL, NULL}, out, type, p->buf_name[b->id]);
  }
}

/* Narrow floats are passed as memory holds them. */
static bool is_stored_otherwise(DType t) {
  return dtype_is_float(t) && t != DT_F32 && t != DT_F64;
}

/* In order of the variables, which is the order of their declaration. */
static void scalars(Printer *p, Args *args, Str *out, Str *first) {
  for (size_t i = 0; i < p->k->vars.n; i++) {
    const IrVar *v = p->k->vars.v[i];
    if (!p->var_arg[i] || !p->var_used[i])
      continue;
    const char *name = p->var_name[i];
    const char *type = v->type == DT_BOOL ? "bool" : cuda_memory(v->type);
    if (is_stored_otherwise(v->type)) { /* passed as memory holds it */
      Str value = str_new(p->a);
      name = cuda_fresh(p, arena_printf(p->a, "%s_bits", name));
      cuda_from_memory(p, v->type, name, &value);
      str_addf(first, "  const float %s = %s;\n", p->var_name[i], str_text(&value));
    }
    parameter(p, args, (CudaArg){CUDA_ARG_SCALAR, NULL, v, NULL}, out,
              arena_printf(p->a, "%s ", type), name);
  }
}

/* By value in the parameter space; 64-byte aligned by their type. */
static void maps(Printer *p, Args *args, Str *out) {
  for (size_t i = 0; i < p->k->tmaps.n; i++)
    if (p->tmap_arg[i])
      parameter(p, args, (CudaArg){CUDA_ARG_TMAP, NULL, NULL, p->k->tmaps.v[i]}, out,
                "const __grid_constant__ ts_tmap ", p->tmap_name[i]);
}

/* Only kernels that can fault or run for ever take these. */
static void words(Printer *p, Args *args, Str *out) {
  if (p->fault)
    parameter(p, args, (CudaArg){CUDA_ARG_FAULT, NULL, NULL, NULL}, out, "ts_fault_record *",
              "fault");
  if (p->print)
    parameter(p, args, (CudaArg){CUDA_ARG_PRINT, NULL, NULL, NULL}, out, "ts_print_ring *",
              "print");
  if (p->fault || p->print)
    parameter(p, args, (CudaArg){CUDA_ARG_CALL, NULL, NULL, NULL}, out, "unsigned ", "call");
  if (p->stop)
    parameter(p, args, (CudaArg){CUDA_ARG_STOP, NULL, NULL, NULL}, out, "const volatile unsigned *",
              "stop");
}

/* ---- the text ------------------------------------------------------------------------------ */

/* Block indices under the names of the program's grid. */
static void grid_indices(Printer *p, Str *first) {
  static const char axis[] = "xyz";
  for (int i = 0; i < p->k->grid_rank; i++) {
    const IrVar *v = p->k->grid_index[i];
    if (v && p->var_used[v->id])
      str_addf(first, "  const %s %s = (%s)blockIdx.%c;\n", cuda_cname(cuda_var_ctype(p, v)),
               p->var_name[v->id], cuda_cname(cuda_var_ctype(p, v)), axis[i]);
  }
}

/* At least one block a multiprocessor is always said: without it ptxas does not know the registers
 * at entry and ignores setmaxnreg (C7508). */
static void bounds(const IrKernel *k, Str *out) {
  int c[3];
  for (int i = 0; i < 3; i++)
    c[i] = k->cluster[i] > 1 ? k->cluster[i] : 1;
  str_addf(out, "extern \"C\" __global__ void __launch_bounds__(%d, %d)", k->threads,
           k->min_blocks > 0 ? k->min_blocks : 1);
  if (c[0] * c[1] * c[2] > 1)
    str_addf(out, " __cluster_dims__(%d, %d, %d)", c[0], c[1], c[2]);
}

/* The body was printed first: only then is known what it needs. */
static CudaText *assemble(Printer *p) {
  Args args = {0};
  Str params = str_new(p->a), first = str_new(p->a), out = str_new(p->a);
  CudaText *t = ARENA_NEW(p->a, CudaText);
  const char *entry = cuda_entry(p);
  tensors(p, &args, &params);
  scalars(p, &args, &params, &first);
  maps(p, &args, &params);
  words(p, &args, &params);
  grid_indices(p, &first);
  if (p->shared)
    str_add(&first, "  const unsigned smem = ts_smem();\n");
  if (p->waits)
    str_add(&first, "  unsigned stopped = 0;\n");
  str_addf(&out, "// %s for %s\n%s", p->k->name, p->target->name, str_text(&p->prelude));
  bounds(p->k, &out);
  str_addf(&out, "\n%s(%s) {\n%s%s}\n", entry, str_text(&params), str_text(&first),
           str_text(&p->body));
  t->text = str_text(&out);
  t->entry = entry;
  t->arg = args.v;
  t->nargs = (int)args.n;
  t->site = p->sites.v;
  t->nsites = (int)p->sites.n;
  t->print = p->prints.v;
  t->nprints = (int)p->prints.n;
  t->threads = p->k->threads;
  t->shared_bytes = p->k->shared_bytes;
  memcpy(t->cluster, p->k->cluster, sizeof t->cluster);
  return t;
}

/* What the target cannot have is said before the compiler says it worse. What lowering makes keeps
 * to the limits, and tile-level programs were compared before; IR written by hand meets them here
 * first. */
static bool check_limits(Printer *p) {
  const IrKernel *k = p->k;
  if (k->level != IR_THREAD)
    cuda_fail(p, k->span, "kernel %s is not at thread level", k->name);
  else if (k->threads < 1 || k->threads > p->target->max_threads)
    cuda_fail(p, k->span, "a block of %s can have 1 to %d threads, %s has %d", p->target->name,
              p->target->max_threads, k->name, k->threads);
  else if (!target_has_shared(p->target, k->shared_bytes))
    cuda_fail(p, k->span, "a block of %s can have %zu bytes of shared memory, %s has %lld",
              p->target->name, p->target->shared_limit, k->name, (long long)k->shared_bytes);
  return !p->failed;
}

/* One walk; what the body asked for on the way becomes the head of the text. */
CudaText *cuda_print(Arena *a, const IrKernel *k, const Target *t, DiagSink *sink) {
  Printer p = {.a = a, .k = k, .target = t, .sink = sink};
  set_up(&p);
  if (!check_limits(&p))
    return NULL;
  cuda_block(&p, &k->body);
  CudaText *text = assemble(&p);
  return p.failed ? NULL : text;
}
