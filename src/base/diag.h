/* diag.h: the one diagnostics sink.
 *
 * Library code never prints and never exits: it appends a Diag. Codes, severities and the pages
 * that `tilesh explain` shows are rows of diags.def. Shape of an error (tilesh(1)):
 *
 *   matmul.tile:9:12: error[E0231]: the inner extents of a product differ: As is …, Bs is …
 *      9 |     acc += As @ Bs
 *        |            ^^   ~~
 *   hint: …
 */
#ifndef TILESH_BASE_DIAG_H
#define TILESH_BASE_DIAG_H

#include "src.h"
#include "str.h"

typedef enum DiagSeverity { SEV_ERROR, SEV_WARNING } DiagSeverity;

typedef enum DiagCode {
#define DIAG(code, severity, title, page) code,
#include "diags.def"
#undef DIAG
  DIAG_COUNT
} DiagCode;

typedef struct DiagNote { /* a second place, with or without words */
  Span span;
  const char *text; /* may be NULL: then the span is only underlined with ~ */
} DiagNote;

typedef struct Diag {
  DiagCode code;
  DiagSeverity severity;
  Span span;
  const char *text;
  const char *hint; /* NULL, or a hint that is itself legal */
  DiagNote notes[4];
  int nnotes;
  bool ready; /* text is a diagnostic already, with its place: shown as it stands */
} Diag;

typedef struct DiagSink {
  Arena *arena; /* owns all text */
  Diag **v;
  size_t n, cap;
  size_t errors;
  size_t limit;   /* errors past it are counted, not kept; 20 by default; so are warnings */
  size_t kept[2]; /* by severity */
  Diag spare;     /* what diag_add returns past the limit */
} DiagSink;

/* An empty sink whose texts lie in the arena; clear empties it again, the texts stay. */
void diag_init(DiagSink *sink, Arena *arena);
void diag_clear(DiagSink *sink);
/* Appends. The result is never NULL (past the limit it is a scratch one), so hints can follow. */
Diag *diag_add(DiagSink *sink, DiagCode code, Span span, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The hint of d, which replaces an earlier one. */
void diag_hint(DiagSink *sink, Diag *d, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* A second span; fmt may be NULL. */
void diag_also(DiagSink *sink, Diag *d, Span span, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* The text of one diagnostic, as above, ending in a newline. */
void diag_format(const Diag *d, bool color, Str *out);
/* All of a sink, in order. */
void diag_format_all(const DiagSink *sink, bool color, Str *out);
const char *diag_name(DiagCode code);  /* "E0231" */
const char *diag_title(DiagCode code); /* one line */
const char *diag_page(DiagCode code);  /* why, and how to mend it */
/* A program that gives the diagnostic, from the golden tests (examples.def), or NULL. */
const char *diag_example(DiagCode code);
/* What `tilesh explain` prints: name, title, page, and the program where there is one, indented. */
void diag_explain(DiagCode code, Str *out);
/* "E0231", "e231" or "231" to a code; false if there is none. */
bool diag_find(const char *name, DiagCode *code);

#endif
