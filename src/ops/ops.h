/* ops.h: the one table of operations (ops.def) and what follows from a row.
 *
 * In: an OpCode and dtypes. Out: names, rules, documentation, and for pure operations the strip
 * function that computes n results at once. The strip functions are the only arithmetic in the
 * program: constant folding, the host's tensors and every level of the evaluator call them, and the
 * CUDA prelude spells the same rows. Tests: tests/unit/check_ops.c.
 */
#ifndef TILESH_OPS_H
#define TILESH_OPS_H

#include "base/base.h"

typedef enum OpCode {
#define PURE(E, name, arity, rule, acc, cuda, doc) OP_##E,
#define REDUCE(E, name, rule, doc) OP_##E,
#define ATOMIC(E, name, doc) OP_##E,
#define THREAD(E, name, sig, effects, arch, doc) OP_##E,
#include "ops.def"
#undef PURE
#undef REDUCE
#undef ATOMIC
#undef THREAD
  OP_COUNT,
  OP_NONE = OP_COUNT
} OpCode;

typedef enum OpClass { OPC_PURE, OPC_REDUCE, OPC_ATOMIC, OPC_THREAD } OpClass;

/* How the result type of a pure operation follows from its operands', which are already of one
 * type (sema converts them), or which operand types it takes. */
typedef enum OpRule {
  RULE_LEAF,    /* no operands, type given by the node: constants, variables */
  RULE_SAME,    /* numbers (integers and floats) to the same type */
  RULE_FLOAT,   /* floats to the same type */
  RULE_INT,     /* integers to the same type */
  RULE_BITS,    /* integers and bool to the same type */
  RULE_SHIFT,   /* integer, integer count of any type: the left one's type */
  RULE_COMPARE, /* two of one type to bool */
  RULE_BOOL,    /* bools to bool */
  RULE_TEST,    /* float to bool */
  RULE_SELECT,  /* bool, T, T to T */
  RULE_CAST,    /* any to the node's type, by the language's conversion */
  RULE_BITCAST, /* any to the node's type of the same size */
  RULE_COUNT,   /* integer to i32 */
  RULE_I32,     /* no operands or integers, to i32: indices of threads and blocks */
  RULE_PACK,    /* f32, f32 to u32 */
  RULE_UNPACK,  /* u32 to f32 */
  RULE_WORDS,   /* u32 to u32 */
  RULE_DESC     /* shared address and integers to u64 */
} OpRule;

/* Accuracy class of a pure operation, in f32. */
typedef enum OpAccuracy {
  ACC_EXACT, /* exact or correctly rounded: the same bits everywhere */
  ACC_POLY2, /* own polynomial, within 2 ulp: the same fused sequence, so the same bits, on CPU
                and GPU */
  ACC_POLY4, /* the same, within 4 ulp */
  ACC_APPROX /* a hardware approximation on the GPU (ex2, rcp, tanh): bits may differ, within the
                bound that the row's documentation states */
} OpAccuracy;

/* Effects of a thread-level operation, for dependence analysis and the verifier. */
enum {
  FX_READ_SHARED = 1,
  FX_WRITE_SHARED = 2,
  FX_READ_GLOBAL = 4,
  FX_WRITE_GLOBAL = 8,
  FX_ASYNC = 16,      /* completes later; a wait of its own kind orders it */
  FX_COLLECTIVE = 32, /* executed by all lanes of a warp together (warp-uniform control) */
  FX_WARPGROUP = 64,  /* by all four warps of a warpgroup */
  FX_BLOCK = 128,     /* by all threads of the block, or of the count that it names */
  FX_BARRIER = 256,   /* may block: waits for others */
  FX_ORDER = 512      /* orders memory: a fence */
};

typedef enum OpArch { ARCH_ANY, ARCH_SM80, ARCH_SM89, ARCH_SM90A } OpArch;

typedef struct OpInfo {
  const char *name; /* spelled so in tile programs, IR text and documentation */
  OpClass cls;
  int arity; /* operands of a pure operation */
  OpRule rule;
  OpAccuracy accuracy;
  const char *cuda; /* pure: template with $0 $1 $2 operands and $t the type's C name, or the name
                       of a prelude function ("ts_exp2") called with the operands */
  const char *sig;  /* thread: one letter an operand, see ops.def */
  unsigned effects;
  OpArch arch;
  const char *doc;
} OpInfo;

const OpInfo *op_info(OpCode op);
/* By the name in IR text and programs; OP_NONE if there is none. */
OpCode op_find(const char *name);
/* Whether a pure or reducing operation takes operands of this type. */
bool op_takes(OpCode op, DType t);
/* Result type of a pure operation on operands of type t (not for rules that the node decides). */
DType op_result(OpCode op, DType t);
/* Result type of a reduction of elements of type t (the manual, Reductions). */
DType op_reduce_type(OpCode op, DType t);
/* What a product of such operands accumulates in and gives: f32 of floats (f64 of f64), i32 of
 * 8-bit integers, i64 of wider; DT_NONE where they do not go together (only the two f8 types mix).
 */
DType op_product_type(DType a, DType b);
/* Whether an atomic works on elements of this type: 32 and 64 bits, adding of f16 and bf16 too;
 * bits and counters are integers. */
bool op_atomic_takes(OpCode op, DType t);
bool op_is_commutative(OpCode op); /* x op y is y op x */
/* Whether evaluating it can fault: integer division by zero, a negative power of an integer. */
bool op_can_fault(OpCode op, DType t);

/* Computes n results: dst and srcs in compute form (dtype_compute), unit stride, dst may be one of
 * the srcs (of the same element size). t: operand type (of the second operand for RULE_SELECT, of
 * the first for RULE_SHIFT). `to`: for RULE_CAST and RULE_BITCAST the result's type, for RULE_SHIFT
 * the count's type (any integer), otherwise not looked at. Narrow floats are rounded to their grid.
 * Where a lane faults (see op_can_fault) its result is 0 and the function returns the lowest such
 * lane; n otherwise. */
typedef size_t (*OpStrip)(size_t n, void *dst, const void *const *src);
/* NULL if the operation does not take t. */
OpStrip op_strip(OpCode op, DType t, DType to);
/* Instruction sets that the binary carries code for; all give the same bits. */
typedef enum OpIsa { OPS_BASELINE, OPS_V3, OPS_V4, OPS_BEST } OpIsa;
bool op_isa_runs(OpIsa isa);
/* What runs where `wanted` is asked for: that one, or the best one here where it is OPS_BEST or
 * cannot run. Never OPS_BEST. */
OpIsa op_isa_choose(OpIsa wanted);
const char *op_isa_name(OpIsa isa); /* "baseline", "v3", "v4", "auto" */
bool op_isa_parse(const char *name, OpIsa *isa);
/* op_strip for op_isa_choose(isa). */
OpStrip op_strip_on(OpIsa isa, OpCode op, DType t, DType to);
/* One result, for folding; false where it faults. args are of one type (see OpRule). */
bool op_eval(OpCode op, DType to, const Scalar *args, int nargs, Scalar *result);

/* Reductions over n elements in compute form of t; acc is of op_reduce_type(t) in compute form and
 * is updated, in ascending order of the elements. Start from op_identity. argmax and argmin are not
 * here: the caller keeps the index and compares by op_better. */
typedef void (*OpFold)(size_t n, void *acc, const void *src);
OpFold op_fold(OpCode op, DType t); /* NULL: the reduction does not take t */
OpFold op_fold_on(OpIsa isa, OpCode op, DType t);
/* Elementwise step: acc[i] = acc[i] (op) src[i] for n lanes. */
OpFold op_fold_lanes_on(OpIsa isa, OpCode op, DType t);
Scalar op_identity(OpCode op, DType t); /* of op_reduce_type(op, t) */
/* For argmax, argmin: whether x (index later) replaces best: NaN first, else strictly better. */
bool op_better(OpCode op, DType t, const void *x, const void *best);

#endif
