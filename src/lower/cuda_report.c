/* cuda_report.c: print and assert of thread-level kernels as CUDA C, the places of faults, and
 * operations that a target has not.
 *
 * Goes in: a REPORT. Comes out: inline code that records a fault, or a line in the print ring; the
 * host has the words (CudaSite, CudaPrint) and puts the values in. Always holds: no call that is
 * not inlined, no trap, no printf: any of these would make ptxas serialise the tensor core's
 * pipeline. Tests: tests/unit/check_cuda.c, tests/gpu/print.tile, tests/gpu/print_tile.tile.
 */
#include "cuda_print.h"

const char *cuda_site(Printer *p, CudaSite site) {
  (void)cuda_part(p, "ts_fault");
  p->fault = true;
  VEC_PUSH(p->a, &p->sites, site);
  return arena_printf(p->a, "fault, call, %zu", p->sites.n - 1);
}

int cuda_block_rank(const Printer *p) {
  return p->k->stays ? 0 : p->k->grid_rank;
}

/* The values of a report's parts, as many as there is room for; returns their number. */
static size_t report_values(const IrReport *r, IrExpr **value, size_t room) {
  size_t n = 0;
  for (int i = 0; i < r->nparts - r->nblock && n < room; i++)
    if (r->part[i].value)
      value[n++] = r->part[i].value;
  return n;
}

/* A value's 64 bits: integers extended, floats as f64. */
static const char *value_bits(Printer *p, IrExpr *e, const char *type) {
  Str s = str_new(p->a);
  if (dtype_is_float(e->type)) {
    str_addf(&s, "(%s)__double_as_longlong((double)", type);
    cuda_expr(p, e, PREC_UNARY, &s);
    str_addc(&s, ')');
  } else {
    bool widen = dtype_is_signed(e->type) && *type == 'u'; /* the sign first */
    str_addf(&s, "(%s)%s", type, widen ? "(long long)" : "");
    cuda_expr(p, e, PREC_UNARY, &s);
  }
  return str_text(&s);
}

/* The record of a fault has room for two values, {0} and {1}; {0f} is a float's. */
static const char *assert_text(Printer *p, const IrReport *r) {
  Str s = str_new(p->a);
  int values = 0;
  str_add(&s, "assertion failed");
  for (int i = 0; i < r->nparts - r->nblock; i++) {
    const IrReportPart *part = &r->part[i];
    str_add(&s, i == 0 ? ": " : " ");
    if (part->text)
      str_add(&s, part->text);
    else if (part->value && values < 2)
      str_addf(&s, "{%d%s}", values++, dtype_is_float(part->value->type) ? "f" : "");
    else
      str_add(&s, "…");
  }
  return str_text(&s);
}

/* A failing assert is a fault with words of its own; the kernel runs on, its results are dropped.
 * No trap and no call: either would make ptxas serialise the tensor core's pipeline. */
static void print_assert(Printer *p, const IrStmt *s) {
  const IrReport *r = &s->as.report;
  IrExpr *used[3] = {r->cond, NULL, NULL};
  int rank = r->nblock ? r->nblock : cuda_block_rank(p);
  const char *site = cuda_site(p, (CudaSite){s->span, E0460, assert_text(p, r), rank});
  size_t n = report_values(r, used + 1, 2);
  Str block = str_new(p->a);
  cuda_bind_shared(p, used, 3);
  for (int i = r->nparts - r->nblock; i < r->nparts; i++)
    str_addf(&block, ", %s", cuda_text_of(p, r->part[i].value));
  cuda_line(p, "if (!(%s)) ts_fault(%s, %s, %s%s);", cuda_text_of(p, r->cond), site,
            n > 0 ? value_bits(p, used[1], "long long") : "0",
            n > 1 ? value_bits(p, used[2], "long long") : "0", str_text(&block));
}

/* The elements of the line from `line[at]` on: its scalars, then the tiles in row-major order. */
static int64_t line_values(const IrReport *r) {
  int64_t n = 0;
  for (int i = 0; i < r->nparts; i++) {
    int64_t count = r->part[i].value ? 1 : 0;
    if (r->part[i].region) {
      count = 1;
      for (int d = 0; d < ir_region_rank(r->part[i].region); d++)
        count *= ir_region_extent(r->part[i].region, d);
    }
    n += count;
  }
  return n;
}

/* The text of a loaded element's 64 bits. */
static const char *memory_bits(Printer *p, DType t, const char *element) {
  Str s = str_new(p->a);
  if (dtype_is_float(t))
    str_add(&s, "(unsigned long long)__double_as_longlong((double)");
  else
    str_addf(&s, "(unsigned long long)%s", dtype_is_signed(t) ? "(long long)" : "");
  cuda_from_memory(p, t, element, &s);
  str_add(&s, dtype_is_float(t) ? ")" : "");
  return str_text(&s);
}

/* Which axis of the buffer the i-th axis of the printed text is. */
static int shown_axis(const IrRegion *r, int i) {
  int rank = ir_region_rank(r), kept = 0;
  if (r->trans && i >= rank - 2)
    i = i == rank - 1 ? rank - 2 : rank - 1;
  for (int d = 0; d < r->buf->rank; d++)
    if (r->axis[d].keep && kept++ == i)
      return d;
  return 0;
}

/* Row-major within the tile, whose extents are constants; `i0`, `i1` … walk the printed axes. */
static const char *element_offset(Printer *p, const IrRegion *r) {
  Str s = str_new(p->a);
  const char *index[IR_MAX_RANK] = {NULL};
  int64_t stride = 1;
  for (int i = 0; i < ir_region_rank(r); i++)
    index[shown_axis(r, i)] = arena_printf(p->a, "i%d", i);
  for (int d = r->buf->rank - 1; d >= 0; d--) {
    int64_t extent = 1;
    (void)ir_is_const(r->buf->extent[d], &extent);
    str_addf(&s, "%s((int)(%s)", s.n ? " + " : "", cuda_text_of(p, r->axis[d].origin));
    if (index[d])
      str_addf(&s, " + %s * %d", index[d], (int)r->axis[d].step);
    str_addf(&s, ") * %d", (int)stride);
    stride *= extent;
  }
  return s.n ? str_text(&s) : "0";
}

/* Loops over the tile where it lies in shared memory. */
static void print_region(Printer *p, const IrRegion *r) {
  const char *element = arena_printf(p->a, "%s[%s]", cuda_buffer(p, r->buf), element_offset(p, r));
  int rank = ir_region_rank(r);
  for (int i = 0; i < rank; i++) {
    cuda_line(p, "for (int i%d = 0; i%d < %d; i%d++)", i, i, (int)ir_region_extent(r, i), i);
    p->indent++;
  }
  cuda_line(p, "*line++ = %s;", memory_bits(p, r->buf->dtype, element));
  p->indent -= rank;
}

/* Inline code that claims room by one atomic; the host puts words and values together. printf would
 * cost a stack frame and the wgmma pipeline (C7510). */
static void print_print(Printer *p, const IrStmt *s) {
  const IrReport *r = &s->as.report;
  CudaPrint line = {s->span, r};
  IrExpr *used[32] = {NULL};
  size_t n = report_values(r, used, 32);
  int64_t words = line_values(r);
  if (words > 1 << 24) {
    cuda_fail(p, s->span, "a line of %lld values is more than a kernel can print",
              (long long)words);
    return;
  }
  (void)cuda_part(p, "ts_print");
  p->print = true;
  cuda_bind_shared(p, used, n);
  cuda_line(p, "if (unsigned long long *line = ts_print(print, call, %zu, %d)) {", p->prints.n,
            (int)words);
  p->indent++;
  for (int i = 0; i < r->nparts; i++) {
    if (r->part[i].value)
      cuda_line(p, "*line++ = %s;", value_bits(p, r->part[i].value, "unsigned long long"));
    else if (r->part[i].region)
      print_region(p, r->part[i].region);
  }
  p->indent--;
  cuda_line(p, "}");
  VEC_PUSH(p->a, &p->prints, line);
}

void cuda_report(Printer *p, const IrStmt *s) {
  if (s->as.report.kind == IRP_PRINT)
    print_print(p, s);
  else
    print_assert(p, s);
}

/* ---- what the target has not ---------------------------------------------------------------- */

/* Of the two heights that products of f64 have, the one of sm_90. */
bool cuda_is_tall_f64(const IrOp *op) {
  return op->op == OP_MMA_SYNC && op->operand[3].dtype == DT_F64 && op->operand[0].count == 4;
}

/* The row says from which class of targets on the operation exists; said here with the place in the
 * kernel, before ptxas says it without. */
bool cuda_available(Printer *p, const IrStmt *s) {
  const OpInfo *info = op_info(s->as.op.op);
  const IrOp *op = &s->as.op;
  bool f8 = op->op == OP_MMA_SYNC && dtype_bits(op->operand[3].dtype) == 8 &&
            dtype_is_float(op->operand[3].dtype);
  bool tall = cuda_is_tall_f64(op);
  OpArch least = f8 ? ARCH_SM89 : tall ? ARCH_SM90A : info->arch;
  if (least <= p->target->arch)
    return true;
  diag_add(p->sink, E0701, s->span, "`%s`%s does not exist on %s", info->name,
           f8     ? " of f8"
           : tall ? " of 16 rows of f64"
                  : "",
           p->target->name);
  p->failed = true;
  return false;
}
