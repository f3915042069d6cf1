/* report.c: print and assert inside kernels.
 *
 * In: texts, values, regions. Out: a line in the block's buffer, which run.c writes in the order of
 * the blocks; or a fault for an assertion that does not hold. Inside a MAP and at thread level each
 * lane that takes part reports by itself.
 * An assertion's message is evaluated only when it fails. Tiles print whole, as the tensor they
 * hold.
 * Tests: tests/unit/check_eval.c (assertions_and_regions, prints_come_in_block_order).
 */

#include "run.h"
#include "tensor/tensor.h"

/* A tensor of the same values: tiles print as tensors do. */
static void region_values(const EvalView *v, Tensor *t) {
  int64_t i[TENSOR_MAX_RANK] = {0};
  char room[8];
  bool more = tensor_count(t) > 0;
  while (more) {
    int64_t at = v->base;
    for (int d = 0; d < v->rank; d++)
      at += i[d] * v->stride[d];
    eval_mem_gather(v->mem, at, 1, room, 1);
    tensor_set(t, i, scalar_load_compute(v->mem->dtype, room));
    int d = v->rank - 1;
    while (d >= 0 && ++i[d] == v->extent[d])
      i[d--] = 0;
    more = d >= 0;
  }
}

/* The tensor's last line end is dropped: the report ends its own line. */
static EvalResult print_region(EvalAgent *a, const EvalRegion *r, Str *out) {
  EvalView v;
  EvalResult result = eval_region_resolve(a, r, NULL, &v);
  if (result == EVAL_OK)
    result = eval_region_read(a, &v);
  if (result != EVAL_OK)
    return result;
  if (!v.inside)
    return eval_fault(a, E0456, "a printed region reaches outside its tensor");
  Str why = str_new(out->arena);
  Tensor *t = tensor_new(v.mem->dtype, v.rank, v.extent, TENSOR_ZERO, &why);
  if (!t)
    return eval_fault(a, E0459, "out of memory");
  region_values(&v, t);
  TensorPrint how = {0};
  size_t n = out->n;
  tensor_print(t, &how, out);
  tensor_release(t);
  if (out->n > n && out->s[out->n - 1] == '\n')
    out->s[--out->n] = '\0';
  return EVAL_OK;
}

static const char *value_at(EvalAgent *a, const EvalReportCode *c, const EvalReportPart *p,
                            int lane) {
  size_t step = c->lanes ? dtype_compute_size(p->type) : 0;
  return (const char *)machine_reg(a, p->value) + (size_t)lane * step;
}

/* Separated by spaces, as `print` on the host does. */
static EvalResult add_parts(EvalAgent *a, const EvalReportCode *c, int lane, Str *out) {
  for (int i = 0; i < c->nparts - c->nblock; i++) {
    const EvalReportPart *p = &c->part[i];
    if (i)
      str_addc(out, ' ');
    if (p->text) {
      str_add(out, p->text);
    } else if (p->region) {
      EvalResult r = print_region(a, p->region, out);
      if (r != EVAL_OK)
        return r;
    } else {
      scalar_print(scalar_load_compute(p->type, value_at(a, c, p, lane)), out);
    }
  }
  return EVAL_OK;
}

/* The program's block, where the launch has other blocks: ", in block (2, 0)". */
static void add_block(EvalAgent *a, const EvalReportCode *c, int lane, Str *out) {
  int64_t index[3] = {0};
  for (int i = 0; i < c->nblock && i < 3; i++) {
    const EvalReportPart *p = &c->part[c->nparts - c->nblock + i];
    index[i] = eval_int_at(p->type, value_at(a, c, p, lane));
  }
  ir_say_block(index, c->nblock, out);
}

/* The message is part of the fault, not of the output. */
static EvalResult fault_assert(EvalAgent *a, const EvalReportCode *c, int lane) {
  Arena *arena = arena_new(NULL, "assert");
  Str text = str_new(arena);
  str_add(&text, "assertion failed");
  if (c->nparts > c->nblock)
    str_add(&text, ": ");
  EvalResult r = add_parts(a, c, lane, &text);
  if (c->nblock)
    add_block(a, c, lane, &text);
  if (r == EVAL_OK)
    eval_fault(a, E0460, "%s", str_text(&text));
  a->block->fault.block_named = c->nblock > 0;
  arena_free(arena);
  return EVAL_FAULTED;
}

/* An assertion in lanes fails at the first lane whose condition does not hold. */
static EvalResult report_lane(EvalAgent *a, const EvalReportCode *c, int lane) {
  if (c->kind == IRP_ASSERT) {
    const uint8_t *cond = machine_reg(a, c->cond);
    return cond[c->lanes ? lane : 0] ? EVAL_OK : fault_assert(a, c, lane);
  }
  EvalResult r = add_parts(a, c, lane, a->block->print);
  if (r == EVAL_OK) {
    str_addc(a->block->print, '\n');
    eval_print_more(a->block);
  }
  return r;
}

/* Lanes speak in order. */
EvalResult eval_report_run(EvalAgent *a, const EvalInsn *in) {
  const EvalReportCode *c = in->as.data;
  const EvalMask *m = in->mask ? machine_reg(a, in->mask) : NULL;
  int n = c->lanes ? a->lanes : 1;
  for (int i = 0; i < n; i++) {
    if (m && !m->on[i])
      continue;
    EvalResult r = report_lane(a, c, i);
    if (r != EVAL_OK)
      return r;
  }
  return EVAL_OK;
}
