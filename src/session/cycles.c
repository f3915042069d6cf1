/* cycles.c: objects that only each other hold.
 *
 * In: the session's list of objects, whose references are counted. Out: functions of a block that
 * call each other, lists that hold themselves, and all that hangs on them, are freed. What is held
 * is told from what is not by counting: an object with more references than other objects have to
 * it is somebody's, and so is all that it leads to. Always holds: nothing that a stack, a global, a
 * temporary or Lua holds is touched, nor what that leads to. Tests: tests/lang/host_closure_cycles,
 * tests/memory.
 */
#include "impl.h"

typedef struct Walk {
  Object *next; /* reached, and what it holds is not yet: linked by `way` */
} Walk;

typedef void (*SeeHeld)(Object *o, Walk *w);

static void see_value(Value v, SeeHeld see, Walk *w) {
  if (v.kind != VAL_TENSOR && v.kind >= VAL_STRING)
    see(v.as.obj, w);
}

static void see_fields(const Field *v, size_t n, SeeHeld see, Walk *w) {
  for (size_t i = 0; i < n; i++)
    see_value(v[i].value, see, w);
}

/* Each reference that the object has to another. One that is not seen here makes its target
 * somebody's, for good. */
static void each_held(const Object *o, SeeHeld see, Walk *w) {
  switch (o->kind) {
  case VAL_TUPLE:
  case VAL_LIST:
    for (size_t i = 0; i < o->as.list.n; i++)
      see_value(o->as.list.v[i], see, w);
    break;
  case VAL_RECORD:
    see_fields(o->as.record.v, o->as.record.n, see, w);
    break;
  case VAL_KERNEL:
    see_fields(o->as.kernel.settings, o->as.kernel.nsettings, see, w);
    break;
  case VAL_FN:
    see_fields(o->as.fn.captured, o->as.fn.ncaptured, see, w);
    break;
  case VAL_CELL:
    see_value(o->as.cell, see, w);
    break;
  default:
    break;
  }
}

static void count(Object *o, Walk *w) {
  (void)w;
  o->inside++;
}

static void reach(Object *o, Walk *w) {
  if (o->reached)
    return;
  o->reached = true;
  o->way = w->next;
  w->next = o;
}

/* How many are somebody's; marks them. */
static size_t reach_all(Session *s) {
  Walk w = {0};
  size_t n = 0;
  for (Object *o = s->objects; o; o = o->next) {
    o->inside = 0;
    o->reached = false;
  }
  for (Object *o = s->objects; o; o = o->next)
    each_held(o, count, &w);
  for (Object *o = s->objects; o; o = o->next)
    if (o->refs > o->inside)
      reach(o, &w);
  for (; w.next; n++) {
    Object *o = w.next;
    w.next = o->way;
    each_held(o, reach, &w);
  }
  return n;
}

/* Whether a cycle may go through it: what it holds was put there after it was made. */
static bool ties(const Object *o) {
  return (o->kind == VAL_LIST && o->as.list.n > 0) ||
         (o->kind == VAL_CELL && o->as.cell.kind != VAL_NIL);
}

/* Lets go of what a list or a cell holds. */
static void empty(Object *o) {
  if (o->kind == VAL_CELL) {
    Value held = o->as.cell;
    o->as.cell = val_nil();
    val_release(held);
    return;
  }
  size_t n = o->as.list.n;
  o->as.list.n = 0;
  for (size_t i = 0; i < n; i++)
    val_release(o->as.list.v[i]);
}

/* Empties the lists and cells that nobody holds, and all of it falls. They are held meanwhile, so
 * that none goes while its neighbours are looked at. */
static void drop_unreached(Session *s) {
  Object *first = NULL;
  for (Object *o = s->objects; o; o = o->next)
    if (!o->reached && ties(o)) {
      o->refs++;
      o->way = first;
      first = o;
    }
  for (Object *o = first; o; o = o->way)
    empty(o);
  while (first) {
    Object *o = first;
    first = o->way;
    val_release((Value){.kind = o->kind, .typed = DT_NONE, .as.obj = o});
  }
}

void cycles_collect(Session *s) {
  enum {
    LEAST = 16,
    SHARE = 8
  }; /* so that a cell costs few visits, however many objects there are */
  s->cells = 0;
  s->cells_limit = LEAST + reach_all(s) / SHARE;
  drop_unreached(s);
}

void cycles_break(Session *s) {
  for (Object *o = s->objects; o; o = o->next)
    o->reached = false;
  drop_unreached(s);
}
