/* verify_op.c: thread-level operations, register slices, shared addresses, tensor maps.
 *
 * In: one IRK_OP or tensor map. Out: errors that state the hardware's rule (PTX ISA; CUDA driver
 * API, cuTensorMapEncodeTiled). Tests: tests/unit/check_ir.c.
 */
#include "verify.h"

#include <inttypes.h>

/* ---------------------------------------------------------------- static values */

/* The last index that the loop reaches, not its bound.
 * Only loops that the printer unrolls whole: their indices are constants in the text. */
static bool range_var(const Verify *v, const IrVar *x, IrRange *out) {
  const IrFor *f = v->unroll[x->id];
  int64_t lo, hi, step;
  if (!f || !ir_is_const(f->lo, &lo) || !ir_is_const(f->hi, &hi) || !ir_is_const(f->step, &step) ||
      step <= 0)
    return false;
  *out = (IrRange){lo, hi > lo ? hi - 1 - (hi - 1 - lo) % step : lo};
  return true;
}

/* What registers are indexed by in practice: sums, multiples, parts, and casts, which keep an index
 * as it is. The range of a choice or a mask can be wider than its values: what lies outside it
 * would be no error. */
static bool indexes(OpCode op) {
  return op == OP_CONST || op == OP_CAST || op == OP_ADD || op == OP_SUB || op == OP_MUL ||
         op == OP_FLOORDIV || op == OP_MOD;
}

/* Least and greatest value of an expression of constants and indices of unrolled loops with
 * constant bounds; false where it is anything else. Registers have no addresses: what cannot be
 * computed here cannot index them. */
static bool range_of(void *ctx, const IrExpr *e, IrRange *out) {
  const Verify *v = ctx;
  if (e->op == OP_VAR)
    return range_var(v, e->as.var, out);
  return indexes(e->op) && ir_range_step(e, range_of, ctx, out) && ir_range_fits(*out, e->type);
}

/* ---------------------------------------------------------------- registers and shared memory */

/* A register has no address, so its number must be known when the code is printed.
 * `first` may range over the iterations of unrolled loops; all of them lie inside. */
void ir_verify_regs(Verify *v, const IrBuffer *b, const IrExpr *first, int64_t count) {
  IrRange r;
  int64_t n = ir_buffer_count(b);
  if (!range_of(v, first, &r)) {
    ir_verify_error(
        v, E0660,
        "registers of `%s` are indexed by constants and indices of wholly unrolled loops "
        "with constant bounds only",
        b->name);
    return;
  }
  if (r.lo < 0 || count < 0 || r.hi > n - count)
    ir_verify_error(v, E0660,
                    "%" PRId64 " registers of `%s` from %" PRId64 " to %" PRId64
                    " on, but it has %" PRId64,
                    count, b->name, r.lo, r.hi, n);
}

/* An address whose range is known lies inside, with `bytes` from there on.
 * An address that is not known here is checked by the evaluator when it runs. */
static void check_shared(Verify *v, const IrExpr *address, int64_t bytes, int64_t align) {
  IrRange r;
  unsigned bits = dtype_bits(address->type);
  if (!dtype_is_int(address->type) || bits != 32) {
    ir_verify_error(v, E0661, "a shared address is a 32-bit integer, not %s",
                    dtype_name(address->type));
    return;
  }
  if (!range_of(v, address, &r))
    return;
  if (r.lo < 0 || r.hi > v->k->shared_bytes - bytes)
    ir_verify_error(v, E0666,
                    "shared addresses %" PRId64 " to %" PRId64 " with %" PRId64
                    " bytes reach beyond the block's %" PRId64,
                    r.lo, r.hi, bytes, v->k->shared_bytes);
  else if (r.lo == r.hi && r.lo % align)
    ir_verify_error(v, E0666, "shared address %" PRId64 " is not aligned to %" PRId64 " bytes",
                    r.lo, align);
}

/* ---------------------------------------------------------------- operands by kind */

/* The letters of ops.def.
 * e, i and s are expressions. */
static IrOperandKind wanted_kind(char letter) {
  switch (letter) {
  case 'd':
    return IRO_VAR;
  case 'r':
  case 'R':
  case 'X':
    return IRO_REGS;
  case 'g':
    return IRO_GLOBAL;
  case 'm':
    return IRO_TMAP;
  case 't':
    return IRO_DTYPE;
  default:
    return IRO_EXPR;
  }
}

/* A slice lies in one array, as a whole.
 * Only arrays of registers: `local` memory has addresses. */
static bool check_regs_operand(Verify *v, const IrOperand *o) {
  if (!ir_verify_buffer(v, o->buf) || !ir_verify_expr(v, o->expr, "a register's index"))
    return false;
  if (o->buf->space != IRS_REG) {
    ir_verify_error(v, E0661, "`%s` is no register array", o->buf->name);
    return false;
  }
  ir_verify_regs(v, o->buf, o->expr, o->count);
  return true;
}

/* What the letter asks for; false lets the caller say which operand it was.
 * `e` and `s` may be any expression here. */
static bool check_operand(Verify *v, const IrOperand *o, char letter) {
  int64_t c;
  switch (letter) {
  case 'd':
    return o->var && o->var->kind == IRV_LET;
  case 'r':
  case 'R':
  case 'X':
    return check_regs_operand(v, o);
  case 'g':
    if (!ir_verify_buffer(v, o->buf) || !ir_verify_expr(v, o->expr, "an element's offset"))
      return false;
    return o->buf->space == IRS_GLOBAL && dtype_is_int(o->expr->type);
  case 'm':
    return o->tmap && o->tmap->id < v->k->tmaps.n && v->k->tmaps.v[o->tmap->id] == o->tmap;
  case 't':
    return o->dtype < DT_COUNT;
  case 'i':
    return ir_verify_expr(v, o->expr, "an operand") && ir_is_const(o->expr, &c);
  default:
    return ir_verify_expr(v, o->expr, "an operand");
  }
}

/* In number and kind; the rules of each operation come after, and may rely on this.
 * Only then may a rule look at an operand without asking what it is. */
static bool check_operands(Verify *v, const IrOp *op) {
  const char *sig = op_info(op->op)->sig, *name = op_info(op->op)->name;
  int i = 0;
  for (; i < op->noperands && *sig; i++) {
    size_t errors = v->errors;
    if (op->operand[i].kind != wanted_kind(*sig) || !check_operand(v, &op->operand[i], *sig)) {
      if (v->errors == errors)
        ir_verify_error(v, E0661, "operand %d of `%s` is not what its row asks for (%s)", i + 1,
                        name, op_info(op->op)->sig);
      return false;
    }
    sig += sig[1] == '*' ? 0 : 1;
  }
  if (i == op->noperands && (*sig == '\0' || sig[1] == '*'))
    return true;
  ir_verify_error(v, E0661, "`%s` has %d operands, another number than its row (%s)", name,
                  op->noperands, op_info(op->op)->sig);
  return false;
}

/* ---------------------------------------------------------------- the hardware's rules */

/* Of an operand that the signature says is a constant.
 * Zero cannot come out wrong: check_operands has refused anything else. */
static int64_t constant(const IrOp *op, int i) {
  int64_t c = 0;
  ir_is_const(op->operand[i].expr, &c);
  return c;
}

/* Any width: the printer converts addresses and counts.
 * `what`: the operand as a message calls it. */
static void want_int(Verify *v, const IrOp *op, int i, const char *what) {
  if (!dtype_is_int(op->operand[i].expr->type))
    ir_verify_error(v, E0661, "%s of `%s` is an integer, not %s", what, op_info(op->op)->name,
                    dtype_name(op->operand[i].expr->type));
}

static void want_bool(Verify *v, const IrOp *op, int i) {
  if (op->operand[i].expr->type != DT_BOOL)
    ir_verify_error(v, E0661, "operand %d of `%s` is a condition, not %s", i + 1,
                    op_info(op->op)->name, dtype_name(op->operand[i].expr->type));
}

/* Immediates of the instruction, as PTX states them.
 * lo to hi, both allowed. */
static void want_range(Verify *v, const IrOp *op, int i, int64_t lo, int64_t hi, int64_t multiple) {
  int64_t c = constant(op, i);
  if (c < lo || c > hi || c % multiple)
    ir_verify_error(v, E0661,
                    "operand %d of `%s` is %" PRId64 ": a multiple of %" PRId64 " from %" PRId64
                    " to %" PRId64,
                    i + 1, op_info(op->op)->name, c, multiple, lo, hi);
}

/* The hardware fixes how many registers of how many bits an operand has.
 * mma.m16n8k16, wgmma: PTX ISA, register fragments. */
static void want_regs(Verify *v, const IrOp *op, int i, int64_t count, unsigned bits) {
  const IrOperand *o = &op->operand[i];
  if (o->count != count || dtype_bits(o->buf->dtype) != bits)
    ir_verify_error(v, E0661,
                    "operand %d of `%s` is %" PRId64 " registers of %u bits, not %d of %s", i + 1,
                    op_info(op->op)->name, count, bits, o->count, dtype_name(o->buf->dtype));
}

/* Ids 0 to 15; the number of threads counts whole warps of this block.
 * bar.sync a, b: a below 16, b a multiple of the warp's size. */
static void check_bar(Verify *v, const IrOp *op) {
  IrRange id;
  want_int(v, op, 0, "the barrier");
  if (range_of(v, op->operand[0].expr, &id) && (id.lo < 0 || id.hi > 15))
    ir_verify_error(v, E0661, "named barriers are 0 to 15, not %" PRId64,
                    id.lo < 0 ? id.lo : id.hi);
  want_range(v, op, 1, 32, v->k->threads, 32);
}

/* The value moves as it is, so the variable has its type.
 * shfl.sync: masks and distances below 32; any dtype, moved in words. */
static void check_shuffle(Verify *v, const IrOp *op) {
  const IrVar *d = op->operand[0].var;
  const IrExpr *e = op->operand[1].expr;
  if (d->type != e->type)
    ir_verify_error(v, E0653, "`%s` is %s, but the value is %s", d->name, dtype_name(d->type),
                    dtype_name(e->type));
  if (op->op == OP_SHFL_IDX)
    want_int(v, op, 2, "the lane");
  else
    want_range(v, op, 2, 0, 31, 1);
}

/* A condition of each lane, one answer for the warp. */
static void check_vote(Verify *v, const IrOp *op) {
  want_bool(v, op, 1);
  if (op->operand[0].var->type != DT_BOOL)
    ir_verify_error(v, E0653, "`%s` gives bool", op_info(op->op)->name);
}

/* 1, 2 or 4 registers of 1 to 16 bytes altogether, a power of two.
 * ld.shared.v4 and its kin; a shared address is aligned to what is moved. */
static void check_vector(Verify *v, const IrOp *op, int regs, int shared) {
  const IrOperand *o = &op->operand[regs];
  int64_t bytes = o->count * (int64_t)dtype_size(o->buf->dtype);
  bool power = (o->count & (o->count - 1)) == 0;
  if (!power || bytes > 16)
    ir_verify_error(v, E0661,
                    "`%s` moves a power of two of registers and at most 16 bytes, not %d of %s",
                    op_info(op->op)->name, o->count, dtype_name(o->buf->dtype));
  if (shared >= 0 && bytes > 0)
    check_shared(v, op->operand[shared].expr, bytes, bytes);
}

/* Each lane gives the address of a row of 16 bytes.
 * ldmatrix, stmatrix: 8x8 matrices of 16-bit elements. */
static void check_matrix(Verify *v, const IrOp *op, int regs, int shared) {
  const IrOperand *o = &op->operand[regs];
  if ((o->count != 1 && o->count != 2 && o->count != 4) || dtype_bits(o->buf->dtype) != 32)
    ir_verify_error(v, E0661, "`%s` moves 1, 2 or 4 registers of 32 bits, not %d of %s",
                    op_info(op->op)->name, o->count, dtype_name(o->buf->dtype));
  check_shared(v, op->operand[shared].expr, 16, 16);
}

/* Sizes and alignments of the instruction; fewer bytes are filled with zeros.
 * cp.async: 4, 8 or 16 bytes, both sides aligned to that. */
static void check_cp_async(Verify *v, const IrOp *op) {
  int64_t bytes = constant(op, 2);
  if (bytes != 4 && bytes != 8 && bytes != 16)
    ir_verify_error(v, E0661, "`cp_async` copies 4, 8 or 16 bytes, not %" PRId64, bytes);
  else
    check_shared(v, op->operand[0].expr, bytes, bytes);
  want_int(v, op, 3, "the number of bytes");
}

/* Bytes of a box; more than any shared memory where a box (reported elsewhere) is absurd.
 * What one TMA copy moves, also at the tensor's edge. */
static int64_t box_bytes(const IrTmap *t) {
  int64_t n = (int64_t)dtype_size(t->buf->dtype);
  for (int i = 0; i < t->rank; i++)
    if (__builtin_mul_overflow(n, t->box[i], &n))
      return INT32_MAX;
  return n;
}

/* One coordinate an axis; the box lies where its swizzle pattern begins.
 * 128 bytes without a swizzle, 8 rows of its span with one. */
static void check_tma(Verify *v, const IrOp *op, int map, int shared, int coordinates) {
  const IrTmap *t = op->operand[map].tmap;
  if (op->noperands - coordinates != t->rank)
    ir_verify_error(v, E0661, "`%s` through `%s` takes %d coordinates, not %d",
                    op_info(op->op)->name, t->name, t->rank, op->noperands - coordinates);
  for (int i = coordinates; i < op->noperands; i++)
    want_int(v, op, i, "a coordinate");
  check_shared(v, op->operand[shared].expr, box_bytes(t), t->swizzle ? 8 * t->swizzle : 128);
}

/* What the tensor cores multiply; f32 as tf32. */
static void check_mma_type(Verify *v, const IrOp *op, int i) {
  DType t = op->operand[i].dtype;
  if (t != DT_F16 && t != DT_BF16 && t != DT_F32 && t != DT_F8E4M3 && t != DT_F8E5M2 &&
      t != DT_I8 && t != DT_U8)
    ir_verify_error(v, E0661, "`%s` multiplies f16, bf16, f32 (as tf32), f8, i8 or u8, not %s",
                    op_info(op->op)->name, dtype_name(t));
}

/* Only 16-bit types have transposed operands. */
static void check_wgmma_type(Verify *v, const IrOp *op, int i) {
  DType t = op->operand[i].dtype;
  check_mma_type(v, op, i);
  if (dtype_bits(t) == 16)
    return;
  for (int k = i + 1; k < op->noperands; k++)
    if (constant(op, k) == 1)
      ir_verify_error(v, E0661, "`%s` takes no transposed operands of %s", op_info(op->op)->name,
                      dtype_name(t));
}

/* i: the operand that is the type of A and B. */
static void want_accumulators(Verify *v, const IrOp *op, int i) {
  DType t = op->operand[i].dtype, acc = t == DT_F64 ? DT_F64 : DT_F32;
  if (t == DT_I8 || t == DT_U8)
    acc = DT_I32;
  if (op->operand[0].buf->dtype != acc)
    ir_verify_error(v, E0661, "`%s` of %s accumulates in %s, not %s", op_info(op->op)->name,
                    dtype_name(t), dtype_name(acc), dtype_name(op->operand[0].buf->dtype));
}

/* A descriptor has 64 bits with fields of its own; plain addresses are 32. */
static void want_desc(Verify *v, const IrOp *op, int i) {
  if (op->operand[i].expr->type != DT_U64)
    ir_verify_error(v, E0661, "operand %d of `%s` is a descriptor (u64), not %s", i + 1,
                    op_info(op->op)->name, dtype_name(op->operand[i].expr->type));
}

/* m64nN, k of 32 bytes: N / 2 accumulators a thread, descriptors, immediates.
 * N is a multiple of 8 up to 256; transposition is an immediate. */
static void check_wgmma(Verify *v, const IrOp *op) {
  bool rs = op->op == OP_WGMMA_RS;
  int n = 4; /* both: D, A, B, scale_d, N */
  if (rs)
    want_regs(v, op, 1, 4, 32);
  else
    want_desc(v, op, 1);
  want_desc(v, op, 2);
  want_bool(v, op, 3);
  want_range(v, op, n, 8, 256, 8);
  want_regs(v, op, 0, constant(op, n) / 2, 32);
  want_accumulators(v, op, 5);
  check_wgmma_type(v, op, 5);
  want_range(v, op, 6, 0, 1, 1);
  if (!rs)
    want_range(v, op, 7, 0, 1, 1);
}

/* m16n8, k of 32 bytes: 4 accumulators, 4 and 2 registers of operands; f64 m8n8k4: 2, 1 and 1, or
 * m16n8 k4, k8, k16: 4, k/2 and k/4. */
static void check_mma_sync(Verify *v, const IrOp *op) {
  DType t = op->operand[3].dtype;
  bool wide = t == DT_F64;
  unsigned bits = wide ? 64 : 32;
  bool small = wide && op->operand[0].count == 2;
  int n = op->operand[2].count, nb = !wide ? 2 : small || n < 2 ? 1 : n < 4 ? 2 : 4;
  want_regs(v, op, 0, small ? 2 : 4, bits);
  want_regs(v, op, 1, small ? 1 : 2 * nb, bits);
  want_regs(v, op, 2, nb, bits);
  want_accumulators(v, op, 3);
  if (!wide && t != DT_U8)
    check_mma_type(v, op, 3);
}

/* Barriers, waits, shuffles, votes.
 * mbarriers are 8 bytes, aligned to 8. */
static bool check_sync_rules(Verify *v, const IrOp *op) {
  switch (op->op) {
  case OP_BAR_SYNC:
  case OP_BAR_ARRIVE:
    check_bar(v, op);
    return true;
  case OP_SHFL_XOR:
  case OP_SHFL_IDX:
  case OP_SHFL_UP:
  case OP_SHFL_DOWN:
    check_shuffle(v, op);
    return true;
  case OP_VOTE_ANY:
  case OP_VOTE_ALL:
    check_vote(v, op);
    return true;
  case OP_MBAR_INIT:
  case OP_MBAR_EXPECT_TX:
  case OP_MBAR_WAIT:
    want_int(v, op, 1, "the second operand");
    check_shared(v, op->operand[0].expr, 8, 8);
    return true;
  case OP_MBAR_ARRIVE:
    check_shared(v, op->operand[0].expr, 8, 8);
    return true;
  case OP_CP_ASYNC_WAIT:
  case OP_BULK_WAIT:
  case OP_BULK_WAIT_READ:
    want_range(v, op, 0, 0, INT32_MAX, 1);
    return true;
  case OP_WGMMA_WAIT:
    want_range(v, op, 0, 0, 7, 1);
    return true;
  case OP_SETMAXNREG_INC:
  case OP_SETMAXNREG_DEC:
    want_range(v, op, 0, 24, 256, 8);
    return true;
  default:
    return false;
  }
}

/* Loads, stores, copies, products; false cases fall to the other switch.
 * One case a row, in the order of ops.def. */
static void check_rules(Verify *v, const IrOp *op) {
  switch (op->op) {
  case OP_LD_SHARED:
    check_vector(v, op, 0, 1);
    break;
  case OP_ST_SHARED:
    check_vector(v, op, 1, 0);
    break;
  case OP_LD_GLOBAL:
    check_vector(v, op, 0, -1);
    break;
  case OP_ST_GLOBAL:
    check_vector(v, op, 1, -1);
    if (op->operand[0].buf->role == IRR_IN)
      ir_verify_error(v, E0656, "`%s` is an input", op->operand[0].buf->name);
    break;
  case OP_LDMATRIX:
  case OP_LDMATRIX_T:
    check_matrix(v, op, 0, 1);
    break;
  case OP_STMATRIX:
  case OP_STMATRIX_T:
    check_matrix(v, op, 1, 0);
    break;
  case OP_CP_ASYNC:
    check_cp_async(v, op);
    break;
  case OP_TMA_LOAD:
    check_tma(v, op, 1, 0, 3);
    check_shared(v, op->operand[2].expr, 8, 8);
    break;
  case OP_TMA_STORE:
    check_tma(v, op, 0, 1, 2);
    if (op->operand[0].tmap->buf->role == IRR_IN)
      ir_verify_error(v, E0656, "`%s` is an input", op->operand[0].tmap->buf->name);
    break;
  case OP_MMA_SYNC:
    check_mma_sync(v, op);
    break;
  case OP_WGMMA_SS:
  case OP_WGMMA_RS:
    check_wgmma(v, op);
    break;
  case OP_FAULT:
    want_bool(v, op, 0);
    want_range(v, op, 1, 0, INT32_MAX, 1);
    want_int(v, op, 2, "the first value");
    for (int i = 3; i < op->noperands; i++)
      want_int(v, op, i, i == 3 ? "the second value" : "an index of the block");
    if (op->noperands > 7)
      ir_verify_error(v, E0661, "`fault` names the block by up to three indices");
    break;
  default:
    check_sync_rules(v, op);
  }
}

/* Destinations are defined last: an operand may not use them.
 * Nothing of the operation is looked at before its class is right. */
void ir_verify_op(Verify *v, const IrOp *op) {
  if (op->op >= OP_COUNT || op_info(op->op)->cls != OPC_THREAD) {
    ir_verify_error(v, E0661, "a thread-level statement without an operation");
    return;
  }
  if (!check_operands(v, op))
    return;
  check_rules(v, op);
  for (int i = 0; i < op->noperands; i++)
    if (op->operand[i].kind == IRO_VAR)
      ir_verify_define(v, op->operand[i].var);
}

/* ---------------------------------------------------------------- tensor maps */

/* Limits of cuTensorMapEncodeTiled.
 * 1 to 256 an axis; rows of multiples of 16 bytes, no longer than the swizzle's span. */
static void check_box(Verify *v, const IrTmap *t) {
  int64_t size = (int64_t)dtype_size(t->buf->dtype);
  for (int i = 0; i < t->rank; i++)
    if (t->box[i] < 1 || t->box[i] > 256)
      ir_verify_error(v, E0667, "`%s`: box %" PRId64 " on axis %d: 1 to 256", t->name, t->box[i],
                      i);
  if (t->box[0] * size % 16)
    ir_verify_error(v, E0667, "`%s`: the innermost box is %" PRId64 " bytes, no multiple of 16",
                    t->name, t->box[0] * size);
  if (t->swizzle != 0 && t->swizzle != 32 && t->swizzle != 64 && t->swizzle != 128)
    ir_verify_error(v, E0667, "`%s`: a swizzle spans 0, 32, 64 or 128 bytes, not %" PRId64, t->name,
                    t->swizzle);
  else if (t->swizzle && t->box[0] * size > t->swizzle)
    ir_verify_error(v, E0667,
                    "`%s`: the innermost box is %" PRId64 " bytes, more than its swizzle's "
                    "%" PRId64,
                    t->name, t->box[0] * size, t->swizzle);
}

/* What can be known before a launch; the rest the driver checks when the map is made.
 * Strides that are constants are checked, those of shapes are the launch's. */
void ir_verify_tmap(Verify *v, const IrTmap *t) {
  v->at = t->span;
  if (!ir_verify_buffer(v, t->buf))
    return;
  if (t->buf->space != IRS_GLOBAL || t->rank < 1 || t->rank > 5) {
    ir_verify_error(v, E0667, "tensor map `%s` maps 1 to 5 axes of a global tensor", t->name);
    return;
  }
  for (int i = 0; i < t->rank; i++) {
    int64_t c;
    ir_verify_typed(v, t->dim[i], DT_I64, "a tensor map's dimension");
    if (i == 0 || !ir_verify_typed(v, t->stride[i], DT_I64, "a tensor map's stride"))
      continue;
    if (ir_is_const(t->stride[i], &c) && (c % 16 || c < 0 || c >= INT64_C(1) << 40))
      ir_verify_error(v, E0667, "`%s`: stride %" PRId64 " is no multiple of 16 bytes below 2^40",
                      t->name, c);
  }
  check_box(v, t);
}
