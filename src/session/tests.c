/* tests.c: `test "name" { … }` blocks under `tilesh test`.
 *
 * In: the blocks that running files collected. Out: one outcome each. A test runs in a scope of its
 * own under a boundary of its own, so a failing one leaves the session as it was. Tests:
 * tests/lang/test_*.tile, tests/unit/check_session.c.
 */
#include <string.h>

#include "kernel.h"

typedef struct Job {
  const PendingTest *test;
} Job;

/* A test waits for the device at its end: a fault belongs to the test that caused it. */
static void run_block(Session *s, void *ctx) {
  const PendingTest *t = ((Job *)ctx)->test;
  Value result = val_nil();
  s->module = t->module;
  s->frame = s->block = s->vars.n;
  host_block(s, &t->stmt->as.test.body, &result);
  device_finish(s);
}

/* Does the name hold the filter? Names may hold NUL bytes; filters do not. */
static bool matches(const AstStmt *st, const char *filter) {
  return !filter || memmem(st->as.test.name, st->as.test.name_n, filter, strlen(filter)) != NULL;
}

/* The text of a failure is kept for the report; the sink is cleared before the next test. */
static Status run_one(Session *s, const PendingTest *t, SessionTest *out) {
  uint32_t column = 0;
  Job job = {t};
  double start = base_now();
  Str text = str_new(s->line);
  diag_clear(&s->diags);
  Status status = session_protect(s, run_block, &job);
  out->seconds = base_now() - start;
  out->name = t->stmt->as.test.name;
  out->file = t->stmt->span.file->name;
  src_position(t->stmt->span.file, t->stmt->as.test.name_span.begin, &out->line, &column);
  out->outcome = status == ST_OK ? TEST_PASSED : TEST_FAILED;
  diag_format_all(&s->diags, false, &text);
  out->text = str_text(&text);
  return status;
}

/* Files were run before; here only their blocks are, in order. A failing test ends nothing but
 * itself, a failed write and an interrupt end all. */
Status session_run_tests(Session *s, const char *filter,
                         void (*report)(void *ctx, const SessionTest *test), void *ctx) {
  bool failed = false;
  session_begin(s);
  for (size_t i = 0; i < s->tests.n; i++) {
    SessionTest t = {.name = NULL};
    if (!matches(s->tests.v[i].stmt, filter))
      continue;
    Status status = run_one(s, &s->tests.v[i], &t);
    if (status == ST_INTERRUPTED || s->write_failed)
      return s->write_failed ? ST_USAGE : status;
    failed |= status != ST_OK;
    report(ctx, &t);
  }
  diag_clear(&s->diags);
  s->tests.n = 0;
  return failed ? ST_FAIL : ST_OK;
}
