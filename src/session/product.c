/* product.c: `a @ b` of host tensors.
 *
 * In: two tensors of one dtype. Out: their matrix product over the leading axes, which broadcast.
 * It is the evaluator's own kernel (eval_product): chained fused multiply-adds, k ascending, so
 * that a host `a @ b` and a kernel's agree bit for bit. Tests: tests/lang/product_*.tile.
 */
#include "impl.h"

#include <string.h>

typedef struct Product {
  Session *s;
  Span span;
  Tensor *a, *b; /* at least two axes each */
  int64_t m, n, k;
  int batch; /* leading axes of the result */
} Product;

/* A vector becomes a row (left) or a column (right); the result loses that axis again. */
static Tensor *as_matrix(Session *s, Tensor *t, bool left, Span span) {
  TensorIndex row[] = {{TIX_NEW, 0, 0, 1, false, false}, {TIX_SLICE, 0, 0, 1, false, false}};
  TensorIndex column[] = {row[1], row[0]};
  if (t->rank != 1)
    return t;
  Str why = session_str(s);
  return host_new_tensor(s, tensor_index(t, left ? row : column, 2, &why), &why, span).as.tensor;
}

/* Both sides are underlined; `.T` is only proposed where it would fit. */
static _Noreturn void inner_mismatch(Session *s, const Tensor *a, const Tensor *b, Span span,
                                     const Span *where) {
  Str x = session_str(s), y = session_str(s);
  tensor_add_type(a, &x);
  tensor_add_type(b, &y);
  Diag *d = diag_add(&s->diags, E0231, where[0],
                     "the inner extents of a product differ: the left side is %s, the right side "
                     "is %s",
                     str_text(&x), str_text(&y));
  diag_also(&s->diags, d, where[1], NULL);
  int64_t k = a->extent[a->rank - 1];
  if (b->rank >= 2 && b->extent[b->rank - 1] == k)
    diag_hint(&s->diags, d, "the extents fit with the right side's last two axes swapped: `.T`");
  (void)span;
  host_fail_with(s, ST_FAIL);
}

/* Leading axes broadcast as elementwise operands do. */
static void batch_shape(Product *p, int64_t *extent) {
  Tensor x = *p->a, y = *p->b;
  x.rank -= 2;
  y.rank -= 2;
  Str why = session_str(p->s);
  if (!tensor_broadcast_shape(&x, &y, &p->batch, extent, &why))
    host_fail(p->s, E0802, p->span, "leading axes of a product: %s", str_text(&why));
}

/* The operand stretched over the batch. */
static Tensor *stretch(const Product *p, Tensor *t, const int64_t *batch) {
  int64_t extent[TENSOR_MAX_RANK];
  memcpy(extent, batch, (size_t)p->batch * sizeof *extent);
  extent[p->batch] = t->extent[t->rank - 2];
  extent[p->batch + 1] = t->extent[t->rank - 1];
  Str why = session_str(p->s);
  return host_new_tensor(p->s, tensor_broadcast(t, p->batch + 2, extent, &why), &why, p->span)
      .as.tensor;
}

/* The two-axis slice for one index of the leading axes. */
static EvalMatrix matrix_at(const Tensor *t, const int64_t *index, int batch, char *base) {
  int64_t at = 0;
  for (int i = 0; i < batch; i++)
    at += index[i] * t->stride[i];
  return (EvalMatrix){base + at * (int64_t)dtype_size(t->dtype), t->stride[batch],
                      t->stride[batch + 1]};
}

/* Small products stay on this thread: starting the pool costs more than they do. */
static void multiply(const Product *p, const Tensor *a, const Tensor *b, Tensor *c) {
  Session *s = p->s;
  EvalOptions o = {.pool = p->m * p->n * p->k > 1 << 18 ? session_pool(s) : NULL,
                   .isa = s->options.isa_set ? s->options.isa : OPS_BEST,
                   .interrupt = s->options.interrupt};
  int64_t index[TENSOR_MAX_RANK] = {0}, count = 1;
  char *out = tensor_data_write(c);
  for (int i = 0; i < p->batch; i++)
    count *= c->extent[i];
  for (int64_t b_at = 0; b_at < count && p->m > 0 && p->n > 0; b_at++) {
    int64_t rest = b_at;
    for (int i = p->batch; i-- > 0; rest /= c->extent[i])
      index[i] = rest % c->extent[i];
    /* eval_product only reads a and b */
    EvalMatrix ma = matrix_at(a, index, p->batch, (char *)(uintptr_t)tensor_data(a));
    EvalMatrix mb = matrix_at(b, index, p->batch, (char *)(uintptr_t)tensor_data(b));
    Status status = eval_product(&o, a->dtype, p->m, p->n, p->k, ma, mb,
                                 matrix_at(c, index, p->batch, out), false);
    if (status != ST_OK)
      host_fail_with(s, status);
  }
}

/* Drops the axes that as_matrix added; a product of two vectors is a number. */
static Value drop_axes(Session *s, Value c, bool row, bool column, Span span) {
  Tensor *t = c.as.tensor;
  TensorIndex ix[TENSOR_MAX_RANK];
  for (int i = 0; i < t->rank; i++)
    ix[i] = (TensorIndex){TIX_SLICE, 0, 0, 1, false, false};
  if (row)
    ix[t->rank - 2].kind = TIX_INT;
  if (column)
    ix[t->rank - 1].kind = TIX_INT;
  Str why = session_str(s);
  if (row || column)
    c = host_new_tensor(s, tensor_index(t, ix, t->rank, &why), &why, span);
  return c.as.tensor->rank ? c : val_scalar(tensor_get(c.as.tensor, NULL), false);
}

/* The result keeps f32 only inside; on the host it is rounded to the operands' type at the end. */
static DType product_type(Session *s, const Tensor *a, const Tensor *b, Span span) {
  DType t = op_product_type(a->dtype, b->dtype);
  if (t == DT_NONE) {
    const char *hint = arena_printf(s->line, "%s(a) @ b", dtype_name(b->dtype));
    host_fail_hint(s, E0816, span, hint, "the operands of a product have one dtype, not %s and %s",
                   dtype_name(a->dtype), dtype_name(b->dtype));
  }
  return t;
}

/* Vectors count as a row on the left and as a column on the right, as in NumPy; their axis is
 * not in the result. */
Value arith_product(Session *s, Value x, Value y, Span span, const Span *where) {
  Tensor *a = host_tensor(s, x, where[0], "the left side of @");
  Tensor *b = host_tensor(s, y, where[1], "the right side of @");
  if (a->rank == 0 || b->rank == 0)
    host_fail(s, E0802, span, "the operands of @ need an axis to sum over");
  DType acc = product_type(s, a, b, span);
  if (a->dtype != b->dtype) { /* of the two f8 types: no third one holds both, so it stays f32 */
    a = host_tensor(s, host_cast(s, a, acc, where[0]), where[0], "");
    b = host_tensor(s, host_cast(s, b, acc, where[1]), where[1], "");
  }
  bool row = a->rank == 1, column = b->rank == 1;
  if (a->extent[a->rank - 1] != b->extent[column ? 0 : b->rank - 2])
    inner_mismatch(s, a, b, span, where);
  Product p = {.s = s, .span = span};
  p.a = as_matrix(s, a, true, where[0]);
  p.b = as_matrix(s, b, false, where[1]);
  p.m = p.a->extent[p.a->rank - 2];
  p.k = p.a->extent[p.a->rank - 1];
  p.n = p.b->extent[p.b->rank - 1];
  int64_t extent[TENSOR_MAX_RANK];
  batch_shape(&p, extent);
  Tensor *wa = stretch(&p, p.a, extent), *wb = stretch(&p, p.b, extent);
  extent[p.batch] = p.m;
  extent[p.batch + 1] = p.n;
  Str why = session_str(s);
  Value c = host_new_tensor(s, session_tensor(s, acc, p.batch + 2, extent, TENSOR_ZERO, &why), &why,
                            span);
  multiply(&p, wa, wb, c.as.tensor);
  if (dtype_is_float(acc) && acc != a->dtype)
    c = host_cast(s, c.as.tensor, a->dtype, span);
  return drop_axes(s, c, row, column, span);
}
