/* cuda_kernels.h: a kernel with every pure operation on one dtype, for check_cuda.c (it compiles)
 * and check_gpu_device.c (its results are those of the operations' strips, bit for bit). */
#ifndef TILESH_TESTS_CUDA_KERNELS_H
#define TILESH_TESTS_CUDA_KERNELS_H

#include "lower/lower.h"

typedef struct OpCase {
  OpCode op;
  DType to;      /* of the result */
  IrBuffer *out; /* its results */
} OpCase;

typedef struct OpKernel {
  IrKernel *k;
  DType t;
  IrBuffer *in[4]; /* three operands of t, shift counts (i32) */
  VEC(OpCase) cases;
} OpKernel;

static const Span nowhere = {NULL, 0, 0};

static IrBuffer *add_vector(IrKernel *k, const char *name, DType t, IrRole role, IrExpr *extent) {
  IrBuffer *b = ir_buffer(k, IRS_GLOBAL, name, t, 1, &extent);
  IrParam param = {b, NULL};
  b->role = role;
  VEC_PUSH(k->arena, &k->params, param);
  return b;
}

static IrExpr *add_load(IrKernel *k, IrBuffer *b, const char *name, IrExpr *index) {
  IrStmt *s = ir_add(k, &k->body, IRK_LOAD, nowhere);
  s->as.access.var = ir_var(k, IRV_LET, name, b->dtype);
  s->as.access.at.buf = b;
  s->as.access.at.index[0] = index;
  return ir_ref(k, s->as.access.var);
}

static void add_store(IrKernel *k, IrBuffer *b, IrExpr *index, IrExpr *value) {
  IrStmt *s = ir_add(k, &k->body, IRK_STORE, nowhere);
  s->as.access.at.buf = b;
  s->as.access.at.index[0] = index;
  s->as.access.value = value;
}

/* Blocks of 128 threads over n elements; n is a multiple of 128. */
static IrExpr *add_grid(IrKernel *k, int64_t n) {
  IrStmt *s = ir_add(k, &k->body, IRK_LET, nowhere);
  IrVar *b = ir_var(k, IRV_GRID, "b", DT_I64);
  k->threads = 128;
  k->grid_rank = 1;
  k->grid[0] = ir_int(k, n / 128);
  k->grid_index[0] = b;
  s->as.let.var = ir_var(k, IRV_LET, "i", DT_I64);
  s->as.let.value = ir_op2(k, OP_ADD, ir_op2(k, OP_MUL, ir_ref(k, b), ir_int(k, 128)),
                           ir_cast(k, ir_expr(k, OP_TID, DT_I32, NULL, 0), DT_I64));
  return ir_ref(k, s->as.let.var);
}

static bool is_plain_case(OpCode op, DType t) {
  OpRule rule = op_info(op)->rule;
  if (op_info(op)->cls != OPC_PURE || rule == RULE_LEAF || rule == RULE_I32 || rule == RULE_DESC ||
      rule == RULE_CAST || rule == RULE_BITCAST || !op_takes(op, t))
    return false;
  return op_strip(op, t, rule == RULE_SHIFT ? DT_I32 : op_result(op, t)) != NULL;
}

static void add_case(OpKernel *o, OpCode op, DType to, IrExpr *index, IrExpr *value) {
  OpCase c = {op, to, NULL};
  const char *name = arena_printf(o->k->arena, "O%zu_%s", o->cases.n, op_info(op)->name);
  c.out = add_vector(o->k, name, to, IRR_OUT, o->in[0]->extent[0]);
  add_store(o->k, c.out, index, value);
  VEC_PUSH(o->k->arena, &o->cases, c);
}

static void add_plain_cases(OpKernel *o, IrExpr *const x[4], IrExpr *index) {
  IrKernel *k = o->k;
  for (int i = 0; i < OP_COUNT; i++) {
    OpCode op = (OpCode)i;
    OpRule rule = op_info(op)->rule;
    if (!is_plain_case(op, o->t))
      continue;
    IrExpr *args[3] = {x[0], rule == RULE_SHIFT ? x[3] : x[1], x[2]};
    if (rule == RULE_SELECT) {
      args[0] = o->t == DT_BOOL ? x[2] : ir_op2(k, OP_LT, x[0], x[1]);
      args[1] = x[0], args[2] = x[1];
    }
    add_case(o, op, op_result(op, o->t), index,
             ir_expr(k, op, op_result(op, o->t), args, op_info(op)->arity));
  }
}

static void add_casts(OpKernel *o, IrExpr *x, IrExpr *index) {
  for (int i = 0; i < DT_COUNT; i++) {
    DType to = (DType)i;
    if (to == o->t)
      continue;
    add_case(o, OP_CAST, to, index, ir_cast(o->k, x, to));
    if (dtype_size(to) == dtype_size(o->t) && to != DT_BOOL && o->t != DT_BOOL)
      add_case(o, OP_BITCAST, to, index, ir_expr(o->k, OP_BITCAST, to, &x, 1));
  }
}

static OpKernel op_kernel(Arena *a, Names *names, DType t, int64_t n) {
  static const char *const name[] = {"A", "B", "C", "S"};
  OpKernel o = {.k = ir_kernel_new(a, names, arena_printf(a, "ops_%s", dtype_name(t)), IR_THREAD),
                .t = t};
  IrExpr *x[4];
  IrExpr *index = add_grid(o.k, n);
  for (int i = 0; i < 4; i++) {
    o.in[i] = add_vector(o.k, name[i], i < 3 ? t : DT_I32, IRR_IN, ir_int(o.k, n));
    x[i] = add_load(o.k, o.in[i], arena_printf(a, "x%d", i), index);
  }
  add_plain_cases(&o, x, index);
  add_casts(&o, x[0], index);
  return o;
}

#endif
