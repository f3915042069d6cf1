/* unit.c: parsed texts, and how long each stays.
 *
 * In: texts. Out: their trees, each in a unit, an arena of its own. A unit stays while it runs,
 * while a kernel, function or breakpoint that it defines lives, and for good where session_keep
 * says so (an imported file, a test); the others go when the next run begins. With a unit goes what
 * was made of its kernels. Always holds: what points into a text is a value that it defines, or is
 * gone before the next run begins. Tests: tests/memory/run, tests/unit/check_session.c.
 */
#include <stdlib.h>

#include "debug.h"

Unit *unit_new(Session *s) {
  Unit *u = session_alloc(s, sizeof *u);
  u->next = s->units;
  s->units = u; /* before its arena is made, which may leave */
  u->arena = arena_new(s->guard, "unit");
  s->current = u;
  return u;
}

static void unit_free(Session *s, Unit *u) {
  kernels_free(s, u);
  if (u->inlines)
    s->generation++;
  arena_free(u->arena);
  free(u);
}

/* The call that is stepped was compiled from units that were there when it began. */
static const Unit *stepped(const Session *s) {
  return s->debug ? s->debug->units : NULL;
}

/* Diagnostics that pointed into them were cleared. Inside a run, the device may still be at work on
 * what was made of a text's kernels. */
void session_free_units(Session *s, const Unit *until) {
  Unit **at = &s->units;
  while (*at && *at != until && *at != stepped(s)) {
    Unit *u = *at;
    if (u->keep || u->values > 0 || u == s->current || (until && u->kernels)) {
      at = &u->next;
      continue;
    }
    *at = u->next;
    unit_free(s, u);
  }
}

void units_free(Session *s) {
  for (Unit *u = s->units, *next; u; u = next) {
    next = u->next;
    unit_free(s, u);
  }
  s->units = NULL;
}

/* By the file, since what runs may be a function of an older text. */
Unit *unit_enter(Session *s, const SrcFile *file) {
  Unit *u = s->units;
  while (u && u->file != file)
    u = u->next;
  if (u)
    u->values++;
  return u;
}

void unit_leave(Unit *u) {
  if (u)
    u->values--;
}

/* The unit is the current one until the text has run: its arena leaves to the same boundary. */
AstFile *session_parse(Session *s, const char *name, const char *text, size_t n, bool prompt,
                       ParseStatus *status) {
  Unit *u = unit_new(s);
  SrcFile *file = src_new(u->arena, name, text, n);
  ParseInput in = {u->arena, s->names, &s->diags, file, prompt};
  AstFile *f = NULL;
  u->file = file;
  double start = base_now();
  *status = parse_file(&in, &f);
  s->times.parse += base_now() - start;
  return f;
}

const AstExpr *session_expression(Session *s, const char *name, const char *text, size_t n,
                                  const char *wanted, const AstFile **file) {
  ParseStatus status;
  AstFile *f = session_parse(s, name, text, n, true, &status);
  if (file)
    *file = f;
  if (status == PARSE_PENDING)
    host_fail(s, E0801, f->body.span, "the expression is not finished");
  if (status != PARSE_OK)
    host_fail_with(s, ST_COMPILE);
  if (f->body.n != 1 || f->body.v[0]->kind != STMT_EXPR)
    host_fail(s, E0801, f->body.span, "%s is wanted", wanted);
  return f->body.v[0]->as.expr;
}

void session_keep(Session *s) {
  if (s->current)
    s->current->keep = true;
}
