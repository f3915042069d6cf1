/* build.c: the typed tree of a kernel to tile-level IR: signature, grid, body.
 *
 * In: a SemaTree. Out: a verified IrKernel in the same arena as its names. Symbolic extents become
 * variables, tensors strided buffers (any view may be passed), `let`s before the grid the kernel's
 * `pre`.
 * The typed tree has decided everything about names and types; what is decided here is order: which
 * statements stand before which, and what is computed once.
 * Tests: tests/lang (goldens .ir), tests/unit/check_sema.c.
 */
#include "build.h"

#include "build_impl.h"

#include <string.h>

/* Variables first: shapes refer to them. */
static void extents(Build *b) {
  const SemaTree *t = b->tree;
  for (size_t i = 0; i < t->nextents; i++)
    t->extent[i]->ir = ir_var(b->k, IRV_EXTENT, t->extent[i]->name, DT_I64);
  if (t->sms)
    t->sms->ir = ir_sms(b->k);
}

/* Scalars before tensors, whose extents may use them. */
static void scalar_param(Build *b, size_t i) {
  TVar *v = b->tree->var[i];
  v->ir = ir_var(b->k, IRV_PARAM, v->name, v->type);
}

/* Every axis asks for its stride: any view may be passed; passes use that it is contiguous where
 * it is. */
static void tensor_param(Build *b, size_t i) {
  const SemaParam *p = &b->tree->kernel->params[i];
  TBuf *t = b->tree->buf[i];
  IrExpr *extent[SEMA_MAX_RANK];
  for (int j = 0; j < t->rank; j++)
    extent[j] = build_scalar(b, t->shape[j]);
  IrBuffer *buf = ir_buffer(b->k, IRS_GLOBAL, t->name, t->dtype, t->rank, extent);
  buf->role = p->output ? IRR_OUT : p->inout ? IRR_INOUT : IRR_IN;
  buf->span = t->span;
  buf->unchecked = b->k->unchecked;
  for (int j = 0; j < t->rank; j++)
    ir_stride(b->k, buf, j);
  if (b->tree->init[i])
    buf->init = build_scalar(b, b->tree->init[i]);
  t->ir = buf;
}

/* The order of the signature is the order of the launch. */
static void params(Build *b) {
  const SemaKernel *k = b->tree->kernel;
  size_t n = k->ninputs + k->noutputs;
  /* Scalars first: extents may be computed of them. */
  for (size_t i = 0; i < n; i++)
    if (b->tree->var[i])
      scalar_param(b, i);
  for (size_t i = 0; i < n; i++) {
    IrParam p = {NULL, NULL};
    if (b->tree->buf[i]) {
      tensor_param(b, i);
      p.buf = build_buf(b->tree->buf[i]);
    } else {
      p.var = build_var(b->tree->var[i]);
    }
    VEC_PUSH(b->k->arena, &b->k->params, p);
  }
}

/* Block indices exist only once all extents of the grid are built. */
static void grid(Build *b) {
  const SemaTree *t = b->tree;
  /* Computed once, on the host, at the launch. */
  b->out = &b->k->pre;
  b->pre = true;
  build_stmts(b, &t->pre);
  b->k->grid_rank = t->grid_rank;
  for (int i = 0; i < t->grid_rank; i++) {
    b->k->grid[i] = build_scalar(b, t->grid[i]);
    IrVar *v = ir_var(b->k, IRV_GRID, t->grid_index[i]->name, DT_I64);
    v->axis = i;
    b->k->grid_index[i] = v;
    t->grid_index[i]->ir = v;
  }
  b->pre = false;
}

/* What the author said; all else is left to the compiler (0). */
static void options(Build *b) {
  const SemaTree *t = b->tree;
  const AstKernel *ast = t->kernel->ast;
  b->k->span = ast->header;
  b->k->threads = t->threads;
  b->k->raster = t->raster;
  memcpy(b->k->cluster, t->cluster, sizeof b->k->cluster);
  /* A cluster that is said has all three axes. */
  for (int i = 0; i < 3 && t->cluster[0]; i++)
    b->k->cluster[i] = t->cluster[i] ? t->cluster[i] : 1;
  b->k->resident = t->resident;
  b->k->cooperative = t->cooperative;
  b->k->exact = ast->exact;
  b->k->unchecked = ast->unchecked;
}

/* A tree that verifies is a promise of the checker: an error of ir_verify here is a bug of ours.
 */
IrKernel *ir_build(Arena *a, Names *names, const SemaTree *tree, DiagSink *sink) {
  size_t errors = sink->errors;
  Build b = {.k = ir_kernel_new(a, names, tree->kernel->ast->name.text, IR_TILE),
             .sink = sink,
             .tree = tree,
             .span = tree->kernel->ast->header};
  options(&b);
  extents(&b);
  params(&b);
  grid(&b);
  b.out = &b.k->body;
  build_stmts(&b, &tree->body);
  if (sink->errors != errors || !ir_verify(b.k, sink))
    return NULL;
  return b.k;
}
