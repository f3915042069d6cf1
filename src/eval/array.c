/* array.c: LOCAL arrays (private to an iteration or thread) and REG arrays (registers).
 *
 * In: element numbers, one or one a lane. Out: lanes. Element e, lane l lies at e * lanes + l, in
 * compute form. Reading what nothing wrote is a fault: noted by element at thread level (a whole
 * register is written at once or lanes that did not take part are the program's affair), by element
 * and lane inside a MAP.
 * These arrays have no address, so nothing else can see them and nothing is told to the devices,
 * but for registers that a product in flight still reads or writes.
 * Tests: tests/unit/check_eval.c (local_arrays), tests/unit/check_thread.c.
 */
#include <stdio.h>
#include <string.h>

#include "run.h"

typedef struct ArrayView {
  EvalArray *array;
  size_t size;   /* of an element */
  int64_t lanes; /* capacity */
  const uint8_t *on;
  bool thread;
} ArrayView;

/* Looks up what all lanes share. */
static ArrayView view_of(EvalAgent *a, const EvalInsn *in, const EvalArrayAccess *x) {
  ArrayView v = {.array = &a->array[x->array]};
  const EvalProgram *p = a->block->program;
  v.size = dtype_compute_size(v.array->buf->dtype);
  v.lanes = p->lanes;
  v.thread = p->kernel->level == IR_THREAD;
  const EvalMask *m = in->mask ? machine_reg(a, in->mask) : NULL;
  v.on = m && m->n != a->lanes ? m->on : NULL;
  return v;
}

/* As for tensors: indices and extents. */
static EvalResult fault_outside(EvalAgent *a, const EvalArrayAccess *x, const IrBuffer *b,
                                const int64_t *index) {
  char at[160], extents[160];
  eval_list_text(index, x->rank, at, sizeof at);
  eval_list_text(x->extent, x->rank, extents, sizeof extents);
  return eval_fault(a, E0450, "element [%s] of %s is outside its extents [%s]", at, b->name,
                    extents);
}

/* The element that a lane means. */
static EvalResult element_of(EvalAgent *a, const EvalArrayAccess *x, const ArrayView *v, int lane,
                             int64_t *element) {
  int64_t index[IR_MAX_RANK], e = 0;
  bool out = false;
  for (int d = 0; d < x->rank; d++) {
    const EvalAffine *f = &x->index[d];
    index[d] =
        f->lanes ? ((const int64_t *)machine_reg(a, f->lanes))[lane] : machine_int(a, &f->base);
    out = out || index[d] < 0 || index[d] >= x->extent[d];
    e = (int64_t)((uint64_t)e * (uint64_t)x->extent[d] + (uint64_t)index[d]);
  }
  *element = e;
  return out ? fault_outside(a, x, v->array->buf, index) : EVAL_OK;
}

/* Lanes see the same element number, so it names all of them. */
static EvalResult fault_unwritten(EvalAgent *a, const ArrayView *v, int64_t element) {
  const IrBuffer *b = v->array->buf;
  char name[256];
  snprintf(name, sizeof name, "element %lld of %s", (long long)element, b->name);
  return eval_fault_unwritten(a, b, name);
}

/* All lanes the same element. */
static EvalResult row(EvalAgent *a, const EvalArrayAccess *x, const ArrayView *v, void *value,
                      bool write) {
  int64_t e;
  EvalResult r = element_of(a, x, v, 0, &e);
  if (r == EVAL_OK && v->thread && v->array->buf->space == IRS_REG)
    r = eval_device_registers(a, v->array, (int)e, 1, write);
  if (r != EVAL_OK)
    return r;
  size_t bytes = (size_t)a->lanes * v->size;
  char *at = (char *)v->array->data + (size_t)(e * v->lanes) * v->size;
  uint8_t *written = v->array->written + (v->thread ? e : e * a->lanes);
  int n = v->thread ? 1 : a->lanes;
  if (write) {
    if (!v->on)
      memcpy(at, value, bytes);
    for (int i = 0; v->on && i < a->lanes; i++)
      if (v->on[i])
        memcpy(at + (size_t)i * v->size, (char *)value + (size_t)i * v->size, v->size);
    for (int i = 0; i < n; i++)
      written[i] |= v->thread || !v->on || v->on[i];
    return EVAL_OK;
  }
  for (int i = 0; i < n; i++)
    if (!written[i] && (v->thread || !v->on || v->on[i]))
      return fault_unwritten(a, v, e);
  memcpy(value, at, bytes);
  return EVAL_OK;
}

/* Every lane its own element: a dynamic index into a private array. */
static EvalResult each(EvalAgent *a, const EvalArrayAccess *x, const ArrayView *v, char *value,
                       bool write) {
  for (int i = 0; i < a->lanes; i++) {
    int64_t e;
    if (v->on && !v->on[i])
      continue;
    if (element_of(a, x, v, i, &e) != EVAL_OK)
      return EVAL_FAULTED;
    char *at = (char *)v->array->data + (size_t)(e * v->lanes + i) * v->size;
    uint8_t *written = v->array->written + (v->thread ? e : e * a->lanes + i);
    if (write) {
      memcpy(at, value + (size_t)i * v->size, v->size);
      *written = 1;
    } else {
      if (!*written)
        return fault_unwritten(a, v, e);
      memcpy(value + (size_t)i * v->size, at, v->size);
    }
  }
  return EVAL_OK;
}

/* One element for all lanes is a row of memory; the verifier keeps REG arrays to that. */
EvalResult eval_access_array_load(EvalAgent *a, const EvalInsn *in) {
  const EvalArrayAccess *x = in->as.data;
  ArrayView v = view_of(a, in, x);
  if (x->vector)
    return each(a, x, &v, machine_reg(a, in->dst), false);
  return row(a, x, &v, machine_reg(a, in->dst), false);
}

/* The counterpart: lanes that are off keep what they had. */
EvalResult eval_access_array_store(EvalAgent *a, const EvalInsn *in) {
  const EvalArrayAccess *x = in->as.data;
  ArrayView v = view_of(a, in, x);
  if (x->vector)
    return each(a, x, &v, machine_reg(a, x->value), true);
  return row(a, x, &v, machine_reg(a, x->value), true);
}
