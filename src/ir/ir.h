/* ir.h: the one intermediate representation, at its three levels.
 *
 * A kernel is structured: blocks of statements over pure, hash-consed scalar expressions. The same
 * types serve the tile level (what the author wrote, names resolved), the scheduled level (roles,
 * channels, waits) and the thread level (what each GPU thread does); `level` says which kinds may
 * occur, and ir_verify holds to it. Any level prints as text, reads back to the same kernel, and
 * runs on the evaluator. Everything lives in the kernel's arena.
 *
 * Rules that always hold:
 * - An expression has no effect and no order; what can differ between two places (an element, a
 *   mutable variable's value) is read where the *statement* that holds the expression runs.
 *   Loads are statements. Hash-consing makes equal expressions equal pointers.
 * - Types are explicit: operands of an operation have the types its row of ops.def demands, with
 *   CASTs where the language converts.
 * - A tile operation is one statement whose operands are regions; one region type for all.
 * - Fragment, shared and local tiles have constant extents; global tensors may have symbolic ones.
 * Tests: tests/unit/check_ir.c; goldens tests/lower (every .ir file there is read, printed,
 * reread).
 */
#ifndef TILESH_IR_H
#define TILESH_IR_H

#include "nodes.h"

/* ---------------------------------------------------------------- building (ir.c) */

/* An empty kernel of that level, all of whose parts will lie in the arena. */
IrKernel *ir_kernel_new(Arena *a, Names *names, const char *name, IrLevel level);
/* Deep copy into another arena, with nothing shared. */
IrKernel *ir_kernel_clone(Arena *a, const IrKernel *k);

/* Each in the kernel's table, without a statement that declares it; arrays are copied. */
IrVar *ir_var(IrKernel *k, IrVarKind kind, const char *name, DType type);
IrBuffer *ir_buffer(IrKernel *k, IrSpace space, const char *name, DType dtype, int rank,
                    IrExpr *const *extent);
IrTmap *ir_tmap(IrKernel *k, const char *name, IrBuffer *buf, int rank);
IrChannel *ir_channel(IrKernel *k, const char *name, IrBuffer *const *tile, int ntiles);
/* The number of a FAULT's words in k->sites, added where they are new. */
int ir_site(IrKernel *k, DiagCode code, const char *text);
/* The words of a number, in the arena where the kernel has none for it; k NULL: no kernel is known.
 */
IrSite ir_site_said(Arena *a, const IrKernel *k, int64_t n);
/* Appends ", in block 3" or ", in block (2, 0)": of the program's grid of so many axes. */
void ir_say_block(const int64_t *index, int rank, Str *out);
/* The stride variable of an axis of a global buffer, made on first request. */
IrVar *ir_stride(IrKernel *k, IrBuffer *buf, int axis);
/* The number of multiprocessors, made on first request. */
IrVar *ir_sms(IrKernel *k);
/* Makes variables' and buffers' names unique by suffixes (`x`, `x_1`). */
void ir_name_apart(IrKernel *k);

/* Expressions: hash-consed, constants folded, and simplified where exact (x + 0, x * 1, nested
 * casts of integers, …). Operands must already have the row's types. */
IrExpr *ir_const(IrKernel *k, Scalar value);
IrExpr *ir_int(IrKernel *k, int64_t value); /* i64 */
IrExpr *ir_int_of(IrKernel *k, DType type, int64_t value);
IrExpr *ir_float(IrKernel *k, DType type, double value);
IrExpr *ir_bool(IrKernel *k, bool value);
IrExpr *ir_ref(IrKernel *k, IrVar *var);
IrExpr *ir_op1(IrKernel *k, OpCode op, IrExpr *a);
IrExpr *ir_op2(IrKernel *k, OpCode op, IrExpr *a, IrExpr *b);
IrExpr *ir_op3(IrKernel *k, OpCode op, IrExpr *a, IrExpr *b, IrExpr *c);
/* General form; type is used where the row does not decide it (CAST, BITCAST, leaves). */
IrExpr *ir_expr(IrKernel *k, OpCode op, DType type, IrExpr *const *args, int nargs);
IrExpr *ir_cast(IrKernel *k, IrExpr *e, DType type); /* e itself where it has the type */
bool ir_is_const(const IrExpr *e, int64_t *value);   /* an integer constant */
bool ir_is_zero_bits(
    const IrExpr *e); /* a constant that memory filled with zeros holds: not -0.0 */

/* Inclusive bounds of an integer expression, from constants and the variables' lo and hi; false
 * where nothing is known, or where it may wrap. */
bool ir_range(const IrExpr *e, int64_t *lo, int64_t *hi);

/* For who knows more of the variables, or looks more closely (range.c). */
typedef struct IrRange { /* inclusive */
  int64_t lo, hi;
} IrRange;
/* Gives the range of the computed value of an operand; false where nothing is known of it. */
typedef bool IrRangeOf(void *ctx, const IrExpr *e, IrRange *out);
/* Bounds of the mathematical value of e's own operation, from what `of` says of its operands; false
 * where nothing is known, as of variables and what else has no operands but constants. Where they
 * do not fit e's type the operation can wrap. */
bool ir_range_step(const IrExpr *e, IrRangeOf *of, void *ctx, IrRange *out);
/* What a type holds: of a float, and of u64 above int64, as much as int64 does. */
IrRange ir_range_of_type(DType t);
bool ir_range_fits(IrRange r, DType t); /* whether t holds all of it */

/* Notes that the text has e at this place, where e is an operation that may fault itself; nothing
 * else needs one. A place without a file is none. */
void ir_place(IrKernel *k, IrExpr *e, Span span);
/* Notes for e the places that another node, also of another kernel, had. */
void ir_place_like(IrKernel *k, IrExpr *e, const IrPlace *places);
/* Where the text has e: its one place, or of several the one within this statement's span; the
 * statement's span where that does not tell. */
Span ir_place_of(const IrExpr *e, Span stmt);

/* A new statement appended to the block; fill in `as`. */
IrStmt *ir_add(IrKernel *k, IrBlock *block, IrKind kind, Span span);
/* A region of the whole buffer (constant extents; for global tensors extent 0). */
IrRegion ir_whole(IrKernel *k, IrBuffer *buf);
/* Number of kept axes, and the constant extent of the i-th kept axis after .trans. */
int ir_region_rank(const IrRegion *r);
int64_t ir_region_extent(const IrRegion *r, int i);

/* Calls fn on every statement, outermost first; fn returns false to skip a statement's blocks. */
void ir_walk(IrBlock *block, bool (*fn)(IrStmt *s, void *ctx), void *ctx);
/* Whether it is a LET of a name that is bound once: not of a variable. */
bool ir_is_let(const IrStmt *s);
/* The nested blocks of a statement: the i-th, or NULL past the last. */
IrBlock *ir_nested(IrStmt *s, int i);
/* Visits what one statement itself holds (not what its nested blocks hold), each as a slot that may
 * be replaced: expressions in the order in which they are printed, variables that it defines (SET:
 * changes), buffers with how they are used (IR_READS …; of an ALLOC IR_DECLARES). A callback may be
 * NULL. */
enum { IR_READS = 1, IR_WRITES = 2, IR_DECLARES = 4 };
typedef struct IrVisitor {
  void (*expr)(IrExpr **e, void *ctx);
  void (*def)(IrVar **v, void *ctx);
  void (*buffer)(IrBuffer **b, unsigned how, void *ctx);
  void *ctx;
} IrVisitor;
void ir_visit(IrStmt *s, const IrVisitor *v);
/* The same kernel with this expression's variables replaced: to[id] where not NULL, by variable id
 * (n of them). Rebuilt through ir_expr, so it folds. */
IrExpr *ir_replace(IrKernel *k, IrExpr *e, IrExpr *const *to, size_t n);

/* ---------------------------------------------------------------- text, checking, binding */

/* Canonical text; reading it back gives a kernel that prints the same. Grammar: src/ir/text.md. */
void ir_print(const IrKernel *k, Str *out);
void ir_print_expr(const IrKernel *k, const IrExpr *e, Str *out); /* as it writes one */
/* Reads the kernels of a file, in order; false (and diagnostics E06xx) if it has errors. */
typedef VEC(IrKernel *) IrKernels;
bool ir_read(Arena *a, Names *names, const SrcFile *file, DiagSink *sink, IrKernels *out);
/* Checks everything this header promises, for the kernel's level. Infers uniformity at thread level
 * (ir_uniform) and refuses divergent collectives, varying descriptors, dynamic register indices. */
bool ir_verify(IrKernel *k, DiagSink *sink);
/* Thread level: sets `uniform` of variables and expressions to the least fixed point. */
void ir_uniform(IrKernel *k);

/* What a launch binds: one value a variable (by id), one tensor a global buffer (by id). */
typedef struct IrTensorArg {
  void *data; /* host or device address of element 0 */
  int64_t extent[IR_MAX_RANK];
  int64_t stride[IR_MAX_RANK]; /* elements */
  int rank;
  DType dtype;
  uint8_t *written; /* evaluator: one byte an element in row-major order, for outputs that
                       start unwritten; NULL: everything is written */
} IrTensorArg;
typedef struct IrBinding {
  Scalar *value;       /* by variable id: params, extents, strides, sms, `pre` lets */
  IrTensorArg *tensor; /* by buffer id (global ones) */
  int64_t grid[3];     /* blocks along each axis */
} IrBinding;
/* Binds extents from the shapes in b->tensor (inputs and inouts given, of their parameters' dtypes
 * and numbers of axes; outputs' shapes are computed into it, data left alone), scalar parameters
 * from b->value, then strides, `pre` and the grid. sms: of the target. Reports mismatches by the
 * parameters' names (E03xx). */
bool ir_bind(const IrKernel *k, IrBinding *b, int64_t sms, DiagSink *sink);
IrBinding *ir_binding_new(Arena *a, const IrKernel *k); /* nothing is bound yet */
/* Evaluates an expression of bound variables; false where it faults (division by zero). */
bool ir_host_eval(const IrExpr *e, const IrBinding *b, Scalar *out);
/* The same where only the variables of which known[id] is set are bound; false also where e has
 * another. */
bool ir_known_eval(const IrExpr *e, const IrBinding *b, const bool *known, Scalar *out);

#endif
