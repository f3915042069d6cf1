/* cuda_op.c: the thread-level operations: a call of the prelude function of the same name.
 *
 * Goes in: an IrOp. Comes out: a line. Functions that exist for many shapes (vector accesses, the
 * products of a warpgroup) are written here when first used. Always holds: an operation that the
 * target lacks is a diagnostic, never text. Tests: tests/unit/check_cuda.c, tests/gpu.
 */
#include "cuda_print.h"

#include <string.h>

/* ---- operands ------------------------------------------------------------------------------ */

/* A pointer into an array of registers: after inlining and unrolling every index is a constant, so
 * that ptxas sees registers; the gate refuses a kernel in which one was not. */
static void registers(Printer *p, const IrOperand *o, Str *out) {
  int64_t first = -1;
  if (ir_is_const(o->expr, &first) && first == 0) {
    str_add(out, cuda_buffer(p, o->buf));
    return;
  }
  str_addf(out, "&%s[", cuda_buffer(p, o->buf));
  cuda_expr(p, o->expr, PREC_COMMA, out);
  str_addc(out, ']');
}

/* In elements of the buffer; the hardware's 64-bit address is made by the pointer arithmetic. */
static void global(Printer *p, const IrOperand *o, Str *out) {
  int64_t first = -1;
  str_add(out, cuda_buffer(p, o->buf));
  if (ir_is_const(o->expr, &first) && first == 0)
    return;
  str_add(out, " + ");
  cuda_expr(p, o->expr, PREC_ADD + 1, out);
}

/* A plain access, by the pointer from which the compiler knows the state space: a constant behind
 * what is not negative is added by itself, and a sum in int that cannot overflow stays one, so that
 * constants become the instruction's own offset. */
static void shared(Printer *p, const IrExpr *e, Str *out) {
  int64_t c = -1;
  (void)cuda_part(p, "ts_smem");
  p->shared = true;
  str_add(out, "ts_shared + ");
  bool apart = e->op == OP_ADD && e->arg[0]->op == OP_VAR && e->arg[0]->as.var->lo >= 0 &&
               ir_is_const(e->arg[1], &c) && c >= 0;
  if (!apart && e->type == DT_I32 && cuda_exact(p, e) && cuda_range(p, e).lo >= 0)
    cuda_expr(p, e, PREC_ADD + 1, out);
  else
    cuda_expr_u32(p, apart ? e->arg[0] : e, PREC_ADD + 1, out);
  if (apart)
    str_addf(out, " + %d", (int)c);
}

/* The 32-bit address that asynchronous instructions take. */
static void shared_address(Printer *p, const IrExpr *address, Str *out) {
  (void)cuda_part(p, "ts_smem");
  p->shared = true;
  str_add(out, "smem + ");
  cuda_expr_u32(p, address, PREC_ADD + 1, out);
}

/* By address in the parameter space: tensor maps must stay where the launch put them
 * (PTX ISA, "Tensormap"; __grid_constant__). */
static void tensor_map(Printer *p, const IrTmap *t, Str *out) {
  if (!p->tmap_name[t->id])
    p->tmap_name[t->id] = cuda_fresh(p, t->name);
  p->tmap_arg[t->id] = true;
  (void)cuda_part(p, "ts_tmap");
  str_addf(out, "&%s", p->tmap_name[t->id]);
}

/* The i-th letter of a signature; the one before a `*` goes on for ever. */
static char letter(const char *sig, int i) {
  size_t n = strcspn(sig, "*");
  return (size_t)i < n ? sig[i] : sig[n - 1];
}

/* One operand by its letter. */
static void operand(Printer *p, char kind, const IrOperand *o, Str *out) {
  switch (kind) {
  case 's':
    shared_address(p, o->expr, out);
    break;
  case 'g':
    global(p, o, out);
    break;
  case 'm':
    tensor_map(p, o->tmap, out);
    break;
  case 'r':
  case 'R':
  case 'X':
    registers(p, o, out);
    break;
  default:
    cuda_expr(p, o->expr, PREC_COMMA, out);
  }
}

/* Operands from the i-th on, as arguments; template constants and dtypes are left out. */
static void arguments(Printer *p, const IrOp *op, int first, const char *skip, Str *out) {
  const char *sig = op_info(op->op)->sig;
  bool any = false;
  str_addc(out, '(');
  for (int i = first; i < op->noperands; i++) {
    char kind = letter(sig, i);
    if (strchr(skip, kind))
      continue;
    str_add(out, any ? ", " : "");
    operand(p, kind, &op->operand[i], out);
    any = true;
  }
  str_addc(out, ')');
}

/* The verifier has seen to it that it is one. */
static int64_t constant(const IrOp *op, int i) {
  int64_t v = 0;
  (void)ir_is_const(op->operand[i].expr, &v);
  return v;
}

/* A row of ops.def without a prelude function is our bug, but the user gets a diagnostic. */
static void need(Printer *p, const IrStmt *s, const char *fn) {
  if (!cuda_part(p, fn))
    cuda_fail(p, s->span, "there is no `%s` in the CUDA prelude", fn);
}

static const char *stem(Printer *p, const IrOp *op) {
  return arena_printf(p->a, "ts_%s", op_info(op->op)->name);
}

static void line_of(Printer *p, const char *fn, const Str *args) {
  cuda_line(p, "%s%s;", fn, str_text(args));
}

/* ---- calls of the prelude ------------------------------------------------------------------ */

/* ts_name(operands), the rule for every row that has no other. */
static void plain(Printer *p, const IrStmt *s) {
  const IrOp *op = &s->as.op;
  Str args = str_new(p->a);
  need(p, s, stem(p, op));
  arguments(p, op, 0, "", &args);
  line_of(p, stem(p, op), &args);
}

/* A wait that may last for ever also looks at the stop word. */
static void mbar_wait(Printer *p, const IrStmt *s) {
  Str args = str_new(p->a);
  need(p, s, "ts_mbar_wait");
  arguments(p, &s->as.op, 0, "", &args);
  p->stop = true;
  cuda_line(p, "ts_mbar_wait(%.*s, stop, stopped);", (int)strlen(str_text(&args)) - 2,
            str_text(&args) + 1);
}

/* Immediates of the instruction are template arguments: a register would not assemble. */
static void with_constant(Printer *p, const IrStmt *s) {
  const IrOp *op = &s->as.op;
  need(p, s, stem(p, op));
  cuda_line(p, "%s<%lld>();", stem(p, op), (long long)constant(op, 0));
}

/* The functions are templates over the type, so the call has no suffix; the lanes are all 32, which
 * the verifier has made sure of. */
static void value(Printer *p, const IrStmt *s) {
  const IrOp *op = &s->as.op;
  const IrVar *v = op->operand[0].var;
  Str args = str_new(p->a);
  need(p, s, stem(p, op));
  arguments(p, op, 1, "", &args);
  cuda_line(p, "const %s %s = %s%s;", cuda_cname(cuda_var_ctype(p, v)), cuda_var(p, v), stem(p, op),
            str_text(&args));
}

/* The number of 8x8 matrices is part of the instruction, so of the name: operand `at` has as many
 * registers. */
static void counted(Printer *p, const IrStmt *s, int at) {
  const IrOp *op = &s->as.op;
  Str args = str_new(p->a);
  const char *fn = arena_printf(p->a, "%s_%d", stem(p, op), op->operand[at].count);
  need(p, s, fn);
  arguments(p, op, 0, "", &args);
  line_of(p, fn, &args);
}

/* The rank is part of the instruction: as many coordinates as there are operands from `at` on. */
static void with_coordinates(Printer *p, const IrStmt *s, int at) {
  const IrOp *op = &s->as.op;
  Str args = str_new(p->a);
  const char *fn = arena_printf(p->a, "%s_%d", stem(p, op), op->noperands - at);
  need(p, s, fn);
  arguments(p, op, 0, "", &args);
  line_of(p, fn, &args);
}

/* The size is part of the instruction, so of the name. */
static void cp_async(Printer *p, const IrStmt *s) {
  const IrOp *op = &s->as.op;
  Str args = str_new(p->a);
  need(p, s, "ts_cp_async");
  arguments(p, op, 0, "i", &args);
  line_of(p, arena_printf(p->a, "ts_cp_async_%lld", (long long)constant(op, 2)), &args);
}

/* The dtype is part of the instruction. */
static void mma_sync(Printer *p, const IrStmt *s) {
  const IrOp *op = &s->as.op;
  Str args = str_new(p->a);
  const char *fn = arena_printf(p->a, "ts_mma_sync_%s", dtype_name(op->operand[3].dtype));
  if (cuda_is_tall_f64(op))
    fn = arena_printf(p->a, "%s_k%d", fn, 4 * op->operand[2].count);
  need(p, s, fn);
  arguments(p, op, 0, "t", &args);
  line_of(p, fn, &args);
}

/* The record names a site of ours, one a statement, so that it tells the place; the words are the
 * kernel's. */
static void fault(Printer *p, const IrStmt *s) {
  const IrOp *op = &s->as.op;
  IrSite said = ir_site_said(p->a, p->k, constant(op, 1));
  int rank = op->noperands > 4 ? op->noperands - 4 : cuda_block_rank(p);
  const char *site = cuda_site(p, (CudaSite){s->span, said.code, said.text, rank});
  Str cond = str_new(p->a), args = str_new(p->a);
  cuda_expr(p, op->operand[0].expr, PREC_COMMA, &cond);
  arguments(p, op, 2, "", &args);
  cuda_line(p, "if (%s) ts_fault(%s, %s;", str_text(&cond), site, str_text(&args) + 1);
}

/* ---- vectors of bytes ---------------------------------------------------------------------- */

/* The i-th word of a vector, or the one there is. */
static const char *word(Printer *p, int i, int words) {
  static const char *const field[] = {"x", "y", "z", "w"};
  return words == 1 ? "v" : arena_printf(p->a, "v.%s", field[i]);
}

/* The type whose access is one instruction of so many bytes. */
static const char *vector_type(size_t bytes) {
  return bytes == 1   ? "unsigned char"
         : bytes == 2 ? "unsigned short"
         : bytes == 4 ? "unsigned"
         : bytes == 8 ? "ts_b64"
                      : "ts_b128";
}

/* Elements are packed from the low end; 64-bit ones take two words, the low one first. */
static const char *element_bits(Printer *p, int i, size_t size, int words) {
  if (size == 8)
    return arena_printf(p->a, "(unsigned long long)%s << 32 | %s", word(p, 2 * i + 1, words),
                        word(p, 2 * i, words));
  int per = (int)(4 / size);
  int shift = i % per * 8 * (int)size;
  const char *w = word(p, i / per, words);
  return shift ? arena_printf(p->a, "%s >> %d", w, shift) : w;
}

/* Bits to the value: narrow floats become floats. */
static void load_element(Printer *p, DType t, int i, const char *bits, Str *out) {
  const char *m = cuda_memory(t);
  Str value = str_new(p->a);
  const char *as = t == DT_F32   ? arena_printf(p->a, "__uint_as_float(%s)", bits)
                   : t == DT_F64 ? arena_printf(p->a, "__longlong_as_double((long long)(%s))", bits)
                                 : arena_printf(p->a, "(%s)(%s)", m, bits);
  cuda_from_memory(p, t, as, &value);
  str_addf(out, "  r[%d] = %s;\n", i, str_text(&value));
}

/* One access, then shifts and casts that the compiler folds away. */
static void write_load(Printer *p, const char *name, DType t, int count) {
  size_t size = dtype_size(t), bytes = size * (size_t)count;
  int words = bytes > 4 ? (int)(bytes / 4) : 1;
  Str s = str_new(p->a);
  (void)cuda_part(p, "ts_bytes");
  str_addf(&s, "TS_FN void %s(%s *r, const void *from) {\n  const %s v = *(const %s *)from;\n",
           name, cuda_register(t), vector_type(bytes), vector_type(bytes));
  for (int i = 0; i < count; i++)
    load_element(p, t, i, element_bits(p, i, size, words), &s);
  str_add(&s, "}\n");
  cuda_part_add(p, name, &s);
}

/* A negative narrow integer is cut to its size before it is widened: the bits above belong to the
 * next element. */
static const char *store_element(Printer *p, DType t, int i) {
  const char *fn = t == DT_F16      ? "ts_store_f16"
                   : t == DT_BF16   ? "ts_store_bf16"
                   : t == DT_F8E4M3 ? "ts_store_f8e4m3"
                   : t == DT_F8E5M2 ? "ts_store_f8e5m2"
                                    : NULL;
  if (fn)
    (void)cuda_part(p, fn);
  if (t == DT_F32)
    return arena_printf(p->a, "__float_as_uint(r[%d])", i);
  if (t == DT_F64)
    return arena_printf(p->a, "(unsigned long long)__double_as_longlong(r[%d])", i);
  if (fn)
    return arena_printf(p->a, "(unsigned)%s(r[%d])", fn, i);
  if (dtype_size(t) == 8)
    return arena_printf(p->a, "(unsigned long long)r[%d]", i);
  return dtype_size(t) == 4
             ? arena_printf(p->a, "(unsigned)r[%d]", i)
             : arena_printf(p->a, "(unsigned)(%s)r[%d]",
                            dtype_size(t) == 1 ? "unsigned char" : "unsigned short", i);
}

/* Elements i and i + 1 of f8, by one instruction where the card has it. */
static const char *store_codes(Printer *p, DType t, int i) {
  const char *fn = t == DT_F8E4M3 ? "ts_two_f8e4m3" : "ts_two_f8e5m2";
  (void)cuda_part(p, fn);
  return arena_printf(p->a, "%s(r[%d], r[%d])", fn, i, i + 1);
}

/* The elements that lie in word w, put together. */
static void store_word(Printer *p, DType t, int w, int count, int words, Str *out) {
  size_t size = dtype_size(t);
  str_addf(out, "  %s = ", word(p, w, words));
  if (size == 8) {
    str_addf(out, "(unsigned)(%s%s);\n", store_element(p, t, w / 2), w % 2 ? " >> 32" : "");
    return;
  }
  int per = (int)(4 / size);
  bool codes = (t == DT_F8E4M3 || t == DT_F8E5M2) && count % 2 == 0;
  for (int i = 0; i < per && w * per + i < count; i += codes ? 2 : 1)
    str_addf(out, i > 0 ? " | %s << %d" : "%s",
             codes ? store_codes(p, t, w * per + i) : store_element(p, t, w * per + i),
             i * 8 * (int)size);
  str_add(out, ";\n");
}

/* The inverse of write_load. */
static void write_store(Printer *p, const char *name, DType t, int count) {
  size_t bytes = dtype_size(t) * (size_t)count;
  int words = bytes > 4 ? (int)(bytes / 4) : 1;
  Str s = str_new(p->a);
  (void)cuda_part(p, "ts_bytes");
  str_addf(&s, "TS_FN void %s(void *to, const %s *r) {\n  %s v;\n", name, cuda_register(t),
           bytes > 4 ? vector_type(bytes) : "unsigned");
  for (int w = 0; w < words; w++)
    store_word(p, t, w, count, words, &s);
  str_addf(&s, "  *(%s *)to = %sv;\n}\n", vector_type(bytes),
           bytes < 4 ? arena_printf(p->a, "(%s)", vector_type(bytes)) : "");
  cuda_part_add(p, name, &s);
}

/* The sizes one access can have, given at most 16 bytes. */
static bool is_power_of_two(size_t x) {
  return x > 0 && (x & (x - 1)) == 0;
}

/* ts_load_f16x8(registers, pointer), ts_store_f16x8(pointer, registers): one access of the whole
 * slice, whose address the IR promises to be aligned to its size. */
static void vector(Printer *p, const IrStmt *s, bool load, bool is_shared) {
  const IrOp *op = &s->as.op;
  const IrOperand *regs = &op->operand[load ? 0 : 1], *at = &op->operand[load ? 1 : 0];
  DType t = regs->buf->dtype;
  size_t bytes = dtype_size(t) * (size_t)regs->count;
  Str r = str_new(p->a), a = str_new(p->a);
  if (!is_power_of_two(bytes) || bytes > 16) {
    cuda_fail(p, s->span, "no instruction moves %zu bytes", bytes);
    return;
  }
  const char *name =
      arena_printf(p->a, "ts_%s_%sx%d", load ? "load" : "store", dtype_name(t), regs->count);
  if (!cuda_part_known(p, name)) {
    if (load)
      write_load(p, name, t, regs->count);
    else
      write_store(p, name, t, regs->count);
  }
  registers(p, regs, &r);
  if (is_shared)
    shared(p, at->expr, &a);
  else
    global(p, at, &a);
  cuda_line(p, "%s(%s, %s);", name, str_text(load ? &r : &a), str_text(load ? &a : &r));
}

/* ---- products of a warpgroup --------------------------------------------------------------- */

/* What distinguishes one wgmma function from another. */
typedef struct Wgmma {
  bool from_registers; /* A */
  bool fresh;          /* scale_d is known to be 0: D is written only */
  int n, trans_a, trans_b;
  DType t;
} Wgmma;

/* The constants that the name of the function is made of. */
static Wgmma wgmma_shape(const IrOp *op) {
  Wgmma w = {.from_registers = op->op == OP_WGMMA_RS};
  int64_t scale = 1;
  w.fresh = ir_is_const(op->operand[3].expr, &scale) && scale == 0;
  w.n = (int)constant(op, 4);
  w.t = op->operand[5].dtype;
  w.trans_a = w.from_registers ? 0 : (int)constant(op, 6);
  w.trans_b = (int)constant(op, w.from_registers ? 6 : 7);
  return w;
}

/* PTX' spelling; NULL where wgmma takes no such operands. */
static const char *wgmma_type(DType t) {
  switch (t) {
  case DT_F16:
    return "f16";
  case DT_BF16:
    return "bf16";
  case DT_F8E4M3:
    return "e4m3";
  case DT_F8E5M2:
    return "e5m2";
  case DT_F32:
    return "tf32";
  case DT_I8:
    return "s8";
  case DT_U8:
    return "u8";
  default:
    return NULL;
  }
}

/* m64nN: integers have fewer shapes (PTX ISA, "wgmma.mma_async", shapes). */
static bool wgmma_columns(const Wgmma *w) {
  return w->n >= 8 && w->n <= 256 && w->n % 8 == 0 &&
         (!dtype_is_int(w->t) || w->n <= 24 || w->n == 32 || w->n % 16 == 0);
}

/* One function a shape, so that the call site is short. */
static const char *wgmma_name(Printer *p, const Wgmma *w) {
  return arena_printf(p->a, "ts_wgmma_%s_n%d_%s_%d%d%s", w->from_registers ? "rs" : "ss", w->n,
                      dtype_name(w->t), w->trans_a, w->trans_b, w->fresh ? "_fresh" : "");
}

/* %0, %1, … eight a line. */
static void list(Str *s, int n) {
  for (int i = 0; i < n; i++) {
    str_add(s, i == 0 ? "" : i % 8 == 0 ? ",\"\n    \" " : ", ");
    str_addf(s, "%%%d", i);
  }
}

/* "=f" where the old values do not matter: the compiler need not keep them alive. */
static void outputs(Str *s, const Wgmma *w) {
  for (int i = 0; i < w->n / 2; i++)
    str_addf(s, "%s\"%s%s\"(d[%d])",
             i == 0       ? "    : "
             : i % 8 == 0 ? ",\n      "
                          : ", ",
             w->fresh ? "=" : "+", dtype_is_int(w->t) ? "r" : "f", i);
  str_addc(s, '\n');
}

/* One asm statement a product: D in and out, descriptors or registers of A, then scale-d, which is
 * a predicate and must be made inside. k is 32 bytes of the operands; only 16-bit types have the
 * transposition immediates (PTX ISA, "wgmma.mma_async"). volatile keeps the order of a batch. */
static void write_wgmma(Printer *p, const char *name, const Wgmma *w) {
  bool integer = dtype_is_int(w->t), turns = dtype_bits(w->t) == 16;
  int n = w->n / 2, a = w->from_registers ? 4 : 1;
  Str s = str_new(p->a);
  str_addf(&s, "TS_FN void %s(%s *d, %s a, unsigned long long b%s) {\n", name,
           integer ? "int" : "float", w->from_registers ? "const unsigned *" : "unsigned long long",
           w->fresh ? "" : ", bool scale_d");
  str_add(&s, "  asm volatile(\n    \"{.reg .pred scale;\"\n");
  if (w->fresh)
    str_add(&s, "    \" setp.ne.b32 scale, 0, 0;\"\n");
  else
    str_addf(&s, "    \" setp.ne.b32 scale, %%%d, 0;\"\n", n + a + 1);
  str_addf(&s, "    \" wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s {\"\n    \"", w->n,
           (int)(256 / dtype_bits(w->t)), integer ? "s32" : "f32", wgmma_type(w->t),
           wgmma_type(w->t));
  list(&s, n);
  if (w->from_registers)
    str_addf(&s, "}, {%%%d, %%%d, %%%d, %%%d}, %%%d, scale", n, n + 1, n + 2, n + 3, n + 4);
  else
    str_addf(&s, "}, %%%d, %%%d, scale", n, n + 1);
  str_add(&s, integer ? "" : ", 1, 1");
  if (turns && !w->from_registers)
    str_addf(&s, ", %d", w->trans_a);
  if (turns)
    str_addf(&s, ", %d", w->trans_b);
  str_add(&s, ";}\"\n");
  outputs(&s, w);
  if (w->from_registers)
    str_add(&s, "    : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"l\"(b)");
  else
    str_add(&s, "    : \"l\"(a), \"l\"(b)");
  str_add(&s, w->fresh ? ");\n}\n" : ", \"r\"((int)scale_d));\n}\n");
  cuda_part_add(p, name, &s);
}

/* Shapes that do not exist are refused here: ptxas would only say "not supported". */
static void wgmma(Printer *p, const IrStmt *s) {
  const IrOp *op = &s->as.op;
  Wgmma w = wgmma_shape(op);
  Str args = str_new(p->a);
  bool turns = dtype_bits(w.t) == 16;
  if (!wgmma_type(w.t) || !wgmma_columns(&w) || op->operand[0].count != w.n / 2 ||
      (!turns && (w.trans_a || w.trans_b))) {
    cuda_fail(p, s->span, "there is no wgmma of m64n%d of %s like this", w.n, dtype_name(w.t));
    return;
  }
  const char *name = wgmma_name(p, &w);
  if (!cuda_part_known(p, name))
    write_wgmma(p, name, &w);
  str_addc(&args, '(');
  registers(p, &op->operand[0], &args);
  for (int i = 1; i < (w.fresh ? 3 : 4); i++) {
    str_add(&args, ", ");
    operand(p, letter(op_info(op->op)->sig, i), &op->operand[i], &args);
  }
  str_addc(&args, ')');
  line_of(p, name, &args);
}

/* ---- any operation ------------------------------------------------------------------------- */

/* Addresses and coordinates; registers are named by constants and need no temporaries. */
static void bind_operands(Printer *p, const IrOp *op) {
  IrExpr *used[16];
  size_t n = 0;
  for (int i = 0; i < op->noperands && n < 16; i++)
    if (op->operand[i].expr && op->operand[i].kind != IRO_REGS)
      used[n++] = op->operand[i].expr;
  cuda_bind_shared(p, used, n);
}

void cuda_op(Printer *p, const IrStmt *s) {
  if (!cuda_available(p, s))
    return;
  bind_operands(p, &s->as.op);
  switch (s->as.op.op) {
  case OP_SHFL_XOR:
  case OP_SHFL_IDX:
  case OP_SHFL_UP:
  case OP_SHFL_DOWN:
  case OP_VOTE_ANY:
  case OP_VOTE_ALL:
    value(p, s);
    break;
  case OP_LD_SHARED:
    vector(p, s, true, true);
    break;
  case OP_ST_SHARED:
    vector(p, s, false, true);
    break;
  case OP_LD_GLOBAL:
    vector(p, s, true, false);
    break;
  case OP_ST_GLOBAL:
    vector(p, s, false, false);
    break;
  case OP_LDMATRIX:
  case OP_LDMATRIX_T:
    counted(p, s, 0);
    break;
  case OP_STMATRIX:
  case OP_STMATRIX_T:
    counted(p, s, 1);
    break;
  case OP_TMA_LOAD:
    with_coordinates(p, s, 3);
    break;
  case OP_TMA_STORE:
    with_coordinates(p, s, 2);
    break;
  case OP_CP_ASYNC:
    cp_async(p, s);
    break;
  case OP_MBAR_WAIT:
    mbar_wait(p, s);
    break;
  case OP_MMA_SYNC:
    mma_sync(p, s);
    break;
  case OP_WGMMA_SS:
  case OP_WGMMA_RS:
    wgmma(p, s);
    break;
  case OP_CP_ASYNC_WAIT:
  case OP_BULK_WAIT:
  case OP_BULK_WAIT_READ:
  case OP_WGMMA_WAIT:
  case OP_SETMAXNREG_INC:
  case OP_SETMAXNREG_DEC:
    with_constant(p, s);
    break;
  case OP_FAULT:
    fault(p, s);
    break;
  default:
    plain(p, s);
  }
}
