/* closure.c: functions defined in a block, which see that block's variables.
 *
 * In: a function value and the stack of locals. Out: the locals that its body names, held by the
 * function after their block has ended, and bound again wherever it is called. A captured local
 * lives in a cell that stack and functions share: what one assigns, the others see. Always: the
 * stack keeps its order and length. Tests: tests/lang/host_closure*.tile.
 */
#include "impl.h"

#include <stdlib.h>
#include <string.h>

static bool in_name(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Past a comment, or a string in its quotes; NULL where neither begins here. */
static const char *skipped(const char *p, const char *end) {
  char quote = *p;
  if (quote != '#' && quote != '"')
    return NULL;
  for (p++; p < end && *p != (quote == '#' ? '\n' : quote); p++)
    p += quote == '"' && *p == '\\' && p + 1 < end;
  return p < end ? p + 1 : end;
}

/* Whether the function's text has the name as a word. What it names of its own counts too: that
 * only keeps what is captured longer than need be. */
static bool mentions(const AstFn *fn, const char *name) {
  const char *text = fn->body.span.file->text, *end = text + fn->body.span.end;
  size_t n = strlen(name);
  for (const char *p = text + fn->body.span.begin; p + n <= end;) {
    const char *next = skipped(p, end);
    if (!next && memcmp(p, name, n) == 0 && !in_name(p[-1]) && (p + n == end || !in_name(p[n])))
      return true;
    p = next ? next : p + 1;
  }
  return false;
}

/* What it has captured by that name, or NULL. */
static Field *captured(const Object *fn, const char *name) {
  for (size_t i = 0; i < fn->as.fn.ncaptured; i++)
    if (fn->as.fn.captured[i].name == name)
      return &fn->as.fn.captured[i];
  return NULL;
}

/* The local's cell, made where it has none yet. */
static Value cell_of(Session *s, Var *local) {
  if (local->value.kind != VAL_CELL) {
    Value cell = val_object(s, VAL_CELL);
    cell.as.obj->as.cell = local->value; /* the stack's reference moves with it */
    local->value = val_retain(cell);
    s->cells++;
  }
  return local->value;
}

static void capture(Session *s, Object *fn, Var *local) {
  if (!mentions(fn->as.fn.ast, local->name))
    return;
  Value cell = val_retain(cell_of(s, local));
  Field *has = captured(fn, local->name);
  if (has) { /* what the name was further out */
    val_release(has->value);
    has->value = cell;
    return;
  }
  Field *grown = realloc(fn->as.fn.captured, (fn->as.fn.ncaptured + 1) * sizeof *grown);
  if (!grown) {
    val_release(cell);
    guard_raise(s->guard, ST_NOMEM);
  }
  fn->as.fn.captured = grown;
  grown[fn->as.fn.ncaptured++] = (Field){local->name, cell};
}

/* The function just bound, the last local, is what functions before it in its block may call:
 * bodies look names up when they are called. Two that call each other hold each other. */
void closure_define(Session *s, Object *fn) {
  Var *last = &s->vars.v[s->vars.n - 1];
  fn->as.fn.local = last->defined = true;
  for (size_t i = s->frame; i < s->vars.n - 1; i++) /* the innermost of a name last */
    capture(s, fn, &s->vars.v[i]);
  for (size_t i = s->block; i < s->vars.n - 1; i++) {
    Value v = var_value(&s->vars.v[i]);
    if (s->vars.v[i].defined && v.kind == VAL_FN)
      capture(s, v.as.obj, last);
  }
  if (s->cells >= s->cells_limit)
    cycles_collect(s);
}

void closure_enter(Session *s, Value fn) {
  const Object *o = fn.as.obj;
  for (size_t i = 0; i < o->as.fn.ncaptured; i++)
    host_bind(s, o->as.fn.captured[i].name, o->as.fn.captured[i].value);
  if (o->as.fn.local && !captured(o, o->as.fn.ast->name.text))
    host_bind(s, o->as.fn.ast->name.text, fn);
}
