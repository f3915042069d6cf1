/* diag.c: the one diagnostics sink, and the table of codes.
 *
 * In: what went wrong where. Out: Diags in order of their coming. Always holds: at most `limit`
 * diagnostics of each severity are kept, so that no input makes the sink grow without bound; all
 * text is in the sink's arena. How one looks is in diag_format.c. Tests:
 * tests/unit/check_base_diag.c.
 */
#include "diag.h"

#include <stdlib.h>
#include <string.h>

#include "vec.h"

/* What a code carries besides its number. */
typedef struct DiagRow {
  const char *name, *title, *page;
  DiagSeverity severity;
} DiagRow;

/* One row a code, in order of diags.def. */
static const DiagRow rows[DIAG_COUNT] = {
#define DIAG(code, severity, title, page) [code] = {#code, title, page, severity},
#include "diags.def"
#undef DIAG
};

/* The arena must live as long as the diagnostics are read. */
void diag_init(DiagSink *sink, Arena *arena) {
  memset(sink, 0, sizeof *sink);
  sink->arena = arena;
  sink->limit = 20;
}

/* The limit is the caller's choice and stays; the text stays in the arena until that is reset. */
void diag_clear(DiagSink *sink) {
  size_t limit = sink->limit;
  diag_init(sink, sink->arena);
  sink->limit = limit;
}

/* Past the limit the text is not even formatted: a file of a million faults costs a counter. */
Diag *diag_add(DiagSink *sink, DiagCode code, Span span, const char *fmt, ...) {
  DiagSeverity severity = rows[code].severity;
  if (severity == SEV_ERROR)
    sink->errors++;
  if (sink->kept[severity] >= sink->limit) {
    memset(&sink->spare, 0, sizeof sink->spare);
    sink->spare.text = "";
    return &sink->spare;
  }
  sink->kept[severity]++;
  Diag *d = ARENA_NEW(sink->arena, Diag);
  d->code = code;
  d->severity = severity;
  d->span = span;
  va_list ap;
  va_start(ap, fmt);
  d->text = arena_vprintf(sink->arena, fmt, ap);
  va_end(ap);
  VEC_PUSH(sink->arena, sink, d);
  return d;
}

/* A hint is itself legal program text or a command: tests compile what the hints say. */
void diag_hint(DiagSink *sink, Diag *d, const char *fmt, ...) {
  if (d == &sink->spare)
    return;
  va_list ap;
  va_start(ap, fmt);
  d->hint = arena_vprintf(sink->arena, fmt, ap);
  va_end(ap);
}

/* A diagnostic holds four notes; a fifth would not be read. */
void diag_also(DiagSink *sink, Diag *d, Span span, const char *fmt, ...) {
  if (d == &sink->spare || d->nnotes == (int)(sizeof d->notes / sizeof *d->notes))
    return;
  DiagNote *note = &d->notes[d->nnotes++];
  note->span = span;
  note->text = NULL;
  if (!fmt)
    return;
  va_list ap;
  va_start(ap, fmt);
  note->text = arena_vprintf(sink->arena, fmt, ap);
  va_end(ap);
}

/* In order of coming, which for one file is nearly that of the text. */
void diag_format_all(const DiagSink *sink, bool color, Str *out) {
  for (size_t i = 0; i < sink->n; i++)
    diag_format(sink->v[i], color, out);
  size_t more = sink->errors - sink->kept[SEV_ERROR];
  if (more)
    str_addf(out, "%zu more error%s not shown\n", more, more == 1 ? "" : "s");
}

const char *diag_name(DiagCode code) {
  return rows[code].name;
}

const char *diag_title(DiagCode code) {
  return rows[code].title;
}

const char *diag_page(DiagCode code) {
  return rows[code].page;
}

const char *diag_example(DiagCode code) {
  static const char *const examples[DIAG_COUNT] = {
#define EXAMPLE(code, program) [code] = program,
#include "examples.def"
#undef EXAMPLE
  };
  return examples[code];
}

void diag_explain(DiagCode code, Str *out) {
  str_addf(out, "%s: %s\n\n%s", diag_name(code), diag_title(code), diag_page(code));
  const char *s = diag_example(code);
  if (s)
    str_add(out, "\nThis program gives it:\n\n");
  while (s && *s) {
    size_t n = strcspn(s, "\n");
    str_addf(out, "  %.*s\n", (int)n, s);
    s += n + (s[n] == '\n');
  }
}

/* Any way a person types a code; at most four digits, so the number cannot overflow. */
bool diag_find(const char *name, DiagCode *code) {
  const char *digits = name + (*name == 'E' || *name == 'e');
  size_t n = strlen(digits);
  if (n == 0 || n > 4 || strspn(digits, "0123456789") != n)
    return false;
  long number = strtol(digits, NULL, 10);
  for (int i = 0; i < DIAG_COUNT; i++)
    if (strtol(rows[i].name + 1, NULL, 10) == number)
      return *code = (DiagCode)i, true;
  return false;
}
