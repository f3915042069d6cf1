/* index.c: x[…] on host values: elements, slices, and stores into them.
 *
 * In: an index expression and the value it indexes. Out: an element, a view, or a store. Tensors
 * follow NumPy: slices are views, bounds are cut at the ends, negative numbers count from the end,
 * None is a new axis. Tests: tests/lang.
 */
#include "impl.h"

#include <string.h>

/* The axes --------------------------------------------------------------------------------------
 */

/* A missing bound is told by *given; 0 stands in for it. */
static int64_t bound(Session *s, const AstExpr *e, const char *what, bool *given) {
  *given = e != NULL;
  return e ? host_int(s, host_eval(s, e), e->span, what) : 0;
}

/* `k:+n` is the slice from k of n elements, as in kernels. */
static TensorIndex read_axis(Session *s, const AstAxis *axis) {
  TensorIndex ix = {TIX_NEW, 0, 0, 1, false, false};
  bool given;
  switch (axis->kind) {
  case AXIS_NONE:
    return ix;
  case AXIS_SINGLE:
    ix.kind = TIX_INT;
    ix.start = bound(s, axis->start, "an index", &given);
    return ix;
  default:
    break;
  }
  ix.kind = TIX_SLICE;
  ix.start = bound(s, axis->start, "the start of a slice", &ix.has_start);
  ix.stop = bound(s, axis->stop, "the end of a slice", &ix.has_stop);
  ix.step = axis->step ? bound(s, axis->step, "the step of a slice", &given) : 1;
  if (axis->kind == AXIS_WIDTH && __builtin_add_overflow(ix.start, ix.stop, &ix.stop))
    host_fail(s, E0803, axis->span, "the slice ends past the greatest int");
  return ix;
}

/* A boolean or integer tensor as index would be a gather: not in the language. */
static void no_tensor_index(Session *s, const AstExpr *e) {
  for (size_t i = 0; i < e->as.index.n; i++)
    if (e->as.index.axes[i].kind == AXIS_SINGLE && !e->as.index.axes[i].start)
      host_fail(s, E0803, e->span, "an index is missing");
}

/* The view that x[…] names; rank 0 where every axis has one index. */
static Tensor *select_part(Session *s, const AstExpr *e, Value base) {
  size_t n = e->as.index.n;
  TensorIndex *ix = ARENA_ARRAY(session_scratch(s), TensorIndex, n);
  no_tensor_index(s, e);
  for (size_t i = 0; i < n; i++)
    ix[i] = read_axis(s, &e->as.index.axes[i]);
  Str why = session_str(s);
  Tensor *view = n > INT16_MAX ? NULL : tensor_index(base.as.tensor, ix, (int)n, &why);
  if (!view) {
    int bad = n > INT16_MAX ? -1 : tensor_index_refused(base.as.tensor, ix, (int)n);
    host_fail(s, E0803, bad < 0 ? e->span : e->as.index.axes[bad].span, "%s: %s",
              val_describe(s, base), str_text(&why));
  }
  return val_tensor(s, view).as.tensor;
}

/* Strings, lists, tuples: one int, or one slice with a step of 1. */
static size_t sequence_length(Value v) {
  return v.kind == VAL_STRING ? v.as.obj->as.string.n : v.as.obj->as.list.n;
}

/* Negative indices count from the end, as for tensors. */
static int64_t sequence_at(Session *s, const AstExpr *e, Value base) {
  const AstAxis *axis = &e->as.index.axes[0];
  int64_t n = (int64_t)sequence_length(base);
  int64_t i = host_int(s, host_eval(s, axis->start), axis->start->span, "an index");
  int64_t at = i < 0 ? i + n : i;
  if (at < 0 || at >= n)
    host_fail(s, E0803, axis->span, "the index %lld is outside %s of %lld elements", (long long)i,
              val_describe(s, base), (long long)n);
  return at;
}

/* A new list, tuple or string: slices of these are not views. */
static Value sequence_slice(Session *s, const AstExpr *e, Value base) {
  TensorIndex ix = read_axis(s, &e->as.index.axes[0]);
  int64_t n = (int64_t)sequence_length(base);
  if (ix.step != 1)
    host_fail(s, E0803, e->span, "slices of %s have no step", val_describe(s, base));
  int64_t from = !ix.has_start ? 0 : ix.start < 0 ? ix.start + n : ix.start;
  int64_t to = !ix.has_stop ? n : ix.stop < 0 ? ix.stop + n : ix.stop;
  from = from < 0 ? 0 : from > n ? n : from;
  to = to < from ? from : to > n ? n : to;
  size_t count = (size_t)(to - from);
  if (base.kind == VAL_STRING)
    return val_string(s, val_text(base) + from, count);
  const Value *v = base.as.obj->as.list.v + from;
  return base.kind == VAL_LIST ? val_list(s, v, count) : val_tuple(s, v, count);
}

/* Strings count bytes, as len does. */
static void check_sequence(Session *s, const AstExpr *e, Value base) {
  bool ok = val_is_sequence(base) || base.kind == VAL_STRING;
  if (!ok)
    host_fail_hint(s, E0803, e->span,
                   base.kind == VAL_KERNEL ? "k[BM = 64] sets a parameter" : NULL,
                   "%s cannot be indexed", val_describe(s, base));
  if (e->as.index.n != 1 || e->as.index.axes[0].kind == AXIS_NONE)
    host_fail(s, E0803, e->span, "%s takes one index", val_describe(s, base));
}

/* Reading ----------------------------------------------------------------------------------------
 */

/* One element of a tensor becomes a number, a selected part stays a view. */
static Value part_value(Session *s, Tensor *view, Span span) {
  if (view->rank > 0)
    return val_borrow(view);
  host_tensor(s, val_borrow(view), span, "what is read");
  return val_scalar(tensor_get(view, NULL), false);
}

/* The same for another language, whose indices are numbers already. */
static Tensor *part_of(Session *s, Value x, const TensorIndex *ix, size_t n, Span span) {
  Str why = session_str(s);
  Tensor *view = tensor_index(x.as.tensor, ix, (int)n, &why);
  if (!view)
    host_fail(s, E0803, span, "%s: %s", val_describe(s, x), str_text(&why));
  return val_tensor(s, view).as.tensor;
}

Value host_index(Session *s, Value x, const TensorIndex *ix, size_t n, Span span) {
  return part_value(s, part_of(s, x, ix, n, span), span);
}

bool host_has_length(Value v) {
  return val_is_sequence(v) || v.kind == VAL_RECORD ||
         (v.kind == VAL_TENSOR && v.as.tensor->rank > 0);
}

/* Of what host_element can take apart. */
size_t host_length(Value v) {
  if (v.kind == VAL_RECORD)
    return v.as.obj->as.record.n;
  return v.kind == VAL_TENSOR ? (size_t)v.as.tensor->extent[0] : v.as.obj->as.list.n;
}

/* A row of a tensor is a view, an element of a vector a number; a record gives its names. */
Value host_element(Session *s, Value v, size_t i, Span span) {
  if (v.kind == VAL_RECORD) {
    const char *name = v.as.obj->as.record.v[i].name;
    return val_string(s, name, strlen(name));
  }
  if (v.kind != VAL_TENSOR)
    return val_keep(s, v.as.obj->as.list.v[i]);
  TensorIndex ix = {TIX_INT, (int64_t)i, 0, 1, false, false};
  Str why = session_str(s);
  Tensor *view = tensor_index(v.as.tensor, &ix, 1, &why);
  return part_value(s, host_new_tensor(s, view, &why, span).as.tensor, span);
}

/* r["layers.0.weight"]: names in files need not be names of the language. */
static Value record_field(Session *s, const AstExpr *e, Value base) {
  const AstAxis *axis = &e->as.index.axes[0];
  const Object *o = base.as.obj;
  if (e->as.index.n != 1 || axis->kind != AXIS_SINGLE)
    host_fail(s, E0803, e->span, "a record takes one name: r[\"name\"]");
  Value key = host_eval(s, axis->start);
  if (key.kind != VAL_STRING)
    host_fail(s, E0801, axis->span, "the name of a record's field is a string, not %s",
              val_describe(s, key));
  const char **names = ARENA_ARRAY(session_scratch(s), const char *, o->as.record.n);
  for (size_t i = 0; i < o->as.record.n; i++) {
    names[i] = o->as.record.v[i].name;
    if (strcmp(names[i], val_text(key)) == 0)
      return val_keep(s, o->as.record.v[i].value);
  }
  const char *near = names_closest(val_text(key), names, o->as.record.n);
  host_fail_hint(s, E0814, axis->span,
                 near ? arena_printf(s->line, "did you mean \"%s\"?", near) : NULL,
                 "the record has no field named \"%s\"", val_text(key));
}

/* The value of x[…]. */
Value index_get(Session *s, const AstExpr *e, Value base) {
  if (base.kind == VAL_TENSOR)
    return part_value(s, select_part(s, e, base), e->span);
  if (base.kind == VAL_RECORD)
    return record_field(s, e, base);
  check_sequence(s, e, base);
  if (e->as.index.axes[0].kind != AXIS_SINGLE)
    return sequence_slice(s, e, base);
  int64_t at = sequence_at(s, e, base);
  if (base.kind == VAL_STRING)
    return val_string(s, val_text(base) + at, 1);
  return val_keep(s, base.as.obj->as.list.v[at]);
}

/* Writing ----------------------------------------------------------------------------------------
 */

/* Evaluates the indices once; x[f()] += 1 calls f a single time. */
Place index_place(Session *s, const AstExpr *e, Value base) {
  Place p = {base, NULL, 0};
  if (base.kind == VAL_TENSOR) {
    p.view = select_part(s, e, base);
    return p;
  }
  check_sequence(s, e, base);
  if (base.kind != VAL_LIST)
    host_fail(s, E0803, e->span, "the elements of %s do not change", val_describe(s, base));
  if (e->as.index.axes[0].kind != AXIS_SINGLE)
    host_fail(s, E0803, e->span, "slices of a list are not assigned to");
  p.at = sequence_at(s, e, base);
  return p;
}

/* What is there now, for an augmented assignment. */
Value index_load(Session *s, const Place *p) {
  if (p->base.kind == VAL_LIST)
    return val_keep(s, p->base.as.obj->as.list.v[p->at]);
  return part_value(s, p->view, (Span){NULL, 0, 0});
}

/* A scalar fills; a tensor is stretched to the place's shape and copied, converting. Overlap of
 * source and place is safe (tensor_copy). */
static void store_tensor(Session *s, Tensor *view, Value v, Span span) {
  host_tensor(s, val_borrow(view), span, "what is stored into");
  if (val_is_scalar(v)) {
    host_fill(s, view, arith_store(s, v, view->dtype, span));
    return;
  }
  Tensor *src = host_tensor(s, v, span, "what is stored");
  Str why = session_str(s);
  Tensor *wide = tensor_broadcast(src, view->rank, view->extent, &why);
  if (!wide)
    host_fail(s, E0802, span, "%s", str_text(&why));
  val_tensor(s, wide);
  if (!host_copy(s, view, wide, &why))
    host_fail(s, E0807, span, "%s", str_text(&why));
}

/* The list may have been stored elsewhere meanwhile, but never shrinks. */
void index_store(Session *s, const Place *p, Value v, Span span) {
  if (p->view) {
    store_tensor(s, p->view, v, span);
    return;
  }
  Object *list = p->base.as.obj;
  if ((size_t)p->at >= list->as.list.n) /* cannot be: lists never shrink */
    host_fail(s, E0803, span, "the list has changed");
  v.literal = false;
  Value old = list->as.list.v[p->at];
  list->as.list.v[p->at] = val_retain(v);
  val_release(old);
}

void host_index_store(Session *s, Value x, const TensorIndex *ix, size_t n, Value v, Span span) {
  store_tensor(s, part_of(s, x, ix, n, span), v, span);
}

/* `x[…] = v`. */
void index_set(Session *s, const AstExpr *e, Value base, Value value, Span value_span) {
  Place p = index_place(s, e, base);
  index_store(s, &p, value, value_span);
}
