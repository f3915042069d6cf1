/* diag_format.c: one diagnostic as text: place, words, the lines of the source, carets, a hint.
 *
 * In: a Diag. Out: lines that end in a newline. Always holds: every line of the source that a span
 * touches is shown once, in order, and of a span over many lines the first and the last; marks
 * stand below what they mark also behind tabs, wide and combining characters; no control byte of
 * the source reaches the terminal; a line of any length is cut to a window around its marks, and
 * the work is linear in it. Tests: tests/unit/check_base_diag.c.
 */
#include <string.h>

#include "diag.h"
#include "utf8.h"
#include "vec.h"

enum { WINDOW = 100, LEAD = 40, TAB = 4, MAX_SPANS = 5 };

/* The colours of a terminal; empty when not wanted. */
typedef struct Colors {
  const char *strong, *error, *warning, *note, *gutter, *other, *off;
} Colors;

static const Colors plain = {"", "", "", "", "", "", ""};
static const Colors bright = {"\033[1m",  "\033[1;31m", "\033[1;35m", "\033[1;36m",
                              "\033[34m", "\033[32m",   "\033[0m"};

typedef struct Marked { /* a span to show: the main one, or one of the notes */
  Span span;
  const char *text;
  char mark;
} Marked;

/* One diagnostic being written. */
typedef struct Printer {
  Str *out;
  const Colors *colors;
  const char *main_color;
  const SrcFile *file; /* whose lines are shown now */
  Marked spans[MAX_SPANS];
  int nspans;
  int gutter; /* columns of the line number */
} Printer;

/* ---- text without surprises ------------------------------------------------------------------ */

/* Names and paths come from files: no control byte of theirs may reach the terminal. */
static void add_clean(Str *out, const char *text) {
  for (const char *p = text; *p; p++) {
    bool control = (unsigned char)*p < 0x20 || *p == 0x7F;
    str_addc(out, control && *p != '\n' && *p != '\t' ? '?' : *p);
  }
}

/* Clean text in a color, without an empty escape where there is none. */
static void add_colored(Str *out, const char *color, const char *text, const Colors *c) {
  str_add(out, color);
  add_clean(out, text);
  if (*color)
    str_add(out, c->off);
}

/* ---- lines as they look ---------------------------------------------------------------------- */

/* Where the text of a line ends: before its \n, \r\n or \r. */
static uint32_t line_end(const SrcFile *f, uint32_t line) {
  if (line + 1 == f->nlines)
    return (uint32_t)f->n;
  uint32_t end = f->lines[line + 1] - 1;
  bool pair = f->text[end] == '\n' && end > f->lines[line] && f->text[end - 1] == '\r';
  return pair ? end - 1 : end;
}

/* Bytes and columns of what stands at byte `at`, when column `column` is reached there. */
static size_t step(const SrcFile *f, uint32_t at, uint32_t end, size_t column, size_t *columns) {
  uint32_t code;
  if (f->text[at] == '\t')
    return *columns = TAB - column % TAB, 1;
  size_t length = utf8_next(f->text + at, end - at, &code);
  bool shown = length > 1 ? code >= 0xA0 : length == 1 && code >= 0x20 && code != 0x7F;
  *columns = shown ? utf8_columns(code) : 1;
  return length ? length : 1;
}

/* The column, from 0, at which a byte of the line is shown; in the middle of a character, its own.
 */
static size_t column_of(const SrcFile *f, uint32_t line, uint32_t offset) {
  uint32_t at = f->lines[line], end = line_end(f, line);
  size_t column = 0, columns;
  while (at < offset && at < end) {
    size_t length = step(f, at, end, column, &columns);
    if (at + length > offset)
      break;
    at += (uint32_t)length;
    column += columns;
  }
  return column;
}

/* Writes the columns [from, from + WINDOW) of a line, with "..." where it was cut. */
static void add_line(Printer *p, uint32_t line, size_t from) {
  const SrcFile *f = p->file;
  uint32_t end = line_end(f, line);
  size_t column = 0, columns, length;
  if (from > 0)
    str_add(p->out, "...");
  for (uint32_t at = f->lines[line]; at < end; at += (uint32_t)length, column += columns) {
    length = step(f, at, end, column, &columns);
    if (column + columns > from + WINDOW) {
      str_add(p->out, "...");
      return;
    }
    if (column < from) {
      if (column + columns > from) /* cut in the middle of a wide character or tab */
        str_pad(p->out, ' ', column + columns - from);
      continue;
    }
    unsigned char c = (unsigned char)f->text[at];
    if (c == '\t')
      str_pad(p->out, ' ', columns);
    else if (c < 0x20 || c == 0x7F ||
             (c >= 0x80 && (length == 1 || (c == 0xC2 && (unsigned char)f->text[at + 1] < 0xA0))))
      str_addc(p->out, '?');
    else
      str_addn(p->out, f->text + at, length);
  }
}

/* ---- marks ----------------------------------------------------------------------------------- */

/* Whether a span touches a line; one that ends with a newline does not touch the line after it. */
static bool on_line(const Marked *m, const SrcFile *f, uint32_t line) {
  return m->span.file == f && src_line_of(f, m->span.begin) <= line &&
         line <= src_line_of(f, m->span.end > m->span.begin ? m->span.end - 1 : m->span.begin);
}

/* The columns [*begin, *end) of a span on a line; an empty span still takes one. On a later line
 * of a span its indentation is left out. */
static void span_columns(const Marked *m, const SrcFile *f, uint32_t line, size_t *begin,
                         size_t *end) {
  uint32_t start = f->lines[line], stop = line_end(f, line);
  if (m->span.begin > start) {
    start = m->span.begin;
  } else {
    while (start < stop && start > m->span.begin &&
           (f->text[start] == ' ' || f->text[start] == '\t'))
      start++;
  }
  *begin = column_of(f, line, start);
  *end = column_of(f, line, m->span.end < stop ? m->span.end : stop);
  if (*end <= *begin)
    *end = *begin + 1;
}

/* The left margin: a number, or nothing. */
static void add_gutter(Printer *p, const char *number) {
  str_addf(p->out, "%s%*s | %s", p->colors->gutter, p->gutter, number, p->colors->off);
}

/* Puts one kind of mark into a row of marks that starts at column `from`. */
static void put_marks(char *row, size_t from, size_t begin, size_t end, char mark) {
  for (size_t i = begin; i < end; i++)
    if (i >= from && i < from + WINDOW && row[i - from] == ' ')
      row[i - from] = mark;
}

/* One row of marks behind its margin, and words after it. A row that is all blank is left out: its
 * span lies outside the window. Each run of one mark is put into one color. */
static void add_marks(Printer *p, const char *row, bool cut, const char *text) {
  size_t n = WINDOW;
  while (n > 0 && row[n - 1] == ' ')
    n--;
  if (n == 0)
    return;
  add_gutter(p, "");
  if (cut)
    str_pad(p->out, ' ', 3);
  char last = '\0';
  for (size_t i = 0; i < n; i++) {
    if (row[i] != last && row[i] != ' ')
      str_add(p->out, row[i] == '^' ? p->main_color : p->colors->other);
    else if (row[i] != last && last)
      str_add(p->out, p->colors->off);
    str_addc(p->out, row[i]);
    last = row[i] == ' ' ? '\0' : row[i];
  }
  if (text) {
    str_addc(p->out, ' ');
    add_clean(p->out, text);
  }
  str_add(p->out, p->colors->off);
  str_addc(p->out, '\n');
}

/* One row for the main span and the notes without words, then one for each note with words. */
static void add_all_marks(Printer *p, uint32_t line, size_t from) {
  char row[WINDOW];
  size_t begin, end;
  memset(row, ' ', sizeof row);
  for (int i = 0; i < p->nspans; i++) {
    const Marked *m = &p->spans[i];
    if (m->text || !on_line(m, p->file, line))
      continue;
    span_columns(m, p->file, line, &begin, &end);
    put_marks(row, from, begin, end, m->mark);
  }
  add_marks(p, row, from > 0, NULL);
  for (int i = 0; i < p->nspans; i++) {
    const Marked *m = &p->spans[i];
    if (!m->text || !on_line(m, p->file, line))
      continue;
    memset(row, ' ', sizeof row);
    span_columns(m, p->file, line, &begin, &end);
    put_marks(row, from, begin, end, m->mark);
    bool words = line == src_line_of(p->file, m->span.begin);
    add_marks(p, row, from > 0, words ? m->text : NULL);
  }
}

/* The first column to show, so that the first mark of the line is inside the window. */
static size_t window_start(const Printer *p, uint32_t line) {
  size_t whole = column_of(p->file, line, line_end(p->file, line)), begin, end;
  if (whole <= WINDOW)
    return 0;
  for (int i = 0; i < p->nspans; i++) {
    if (!on_line(&p->spans[i], p->file, line))
      continue;
    span_columns(&p->spans[i], p->file, line, &begin, &end);
    if (end <= WINDOW)
      return 0;
    size_t last = whole - WINDOW + 1; /* one for a caret behind the end */
    return begin < LEAD ? 0 : begin - LEAD < last ? begin - LEAD : last;
  }
  return 0;
}

/* A line of the source, cut to the window that its marks choose, and the rows of marks below it. */
static void show_line(Printer *p, uint32_t line) {
  char number[16];
  snprintf(number, sizeof number, "%u", p->file->first_line + line);
  add_gutter(p, number);
  size_t from = window_start(p, line);
  add_line(p, line, from);
  str_addc(p->out, '\n');
  add_all_marks(p, line, from);
}

/* ---- the lines of one file ------------------------------------------------------------------- */

/* Keeps the list sorted and without doubles: several spans may touch one line. */
static void add_unique(uint32_t *lines, int *n, uint32_t line) {
  int at = 0;
  while (at < *n && lines[at] < line)
    at++;
  if (at < *n && lines[at] == line)
    return;
  memmove(lines + at + 1, lines + at, (size_t)(*n - at) * sizeof *lines);
  lines[at] = line;
  ++*n;
}

/* All of a span of up to three lines, else its first and its last. */
static void add_lines_of(const Printer *p, const Marked *m, uint32_t *lines, int *n) {
  uint32_t first = src_line_of(p->file, m->span.begin);
  uint32_t last =
      src_line_of(p->file, m->span.end > m->span.begin ? m->span.end - 1 : m->span.begin);
  add_unique(lines, n, first);
  if (last == first + 2)
    add_unique(lines, n, first + 1);
  if (last > first)
    add_unique(lines, n, last);
}

/* All lines that spans touch in one file, and "..." where some are left out between. */
static void show_file(Printer *p, const SrcFile *file) {
  uint32_t lines[3 * MAX_SPANS + 1];
  int n = 0;
  p->file = file;
  for (int i = 0; i < p->nspans; i++)
    if (p->spans[i].span.file == file)
      add_lines_of(p, &p->spans[i], lines, &n);
  if (n == 0)
    return;
  p->gutter = 4;
  for (uint32_t last = file->first_line + lines[n - 1]; last >= 10000; last /= 10)
    p->gutter++;
  for (int i = 0; i < n; i++) {
    if (i > 0 && lines[i] > lines[i - 1] + 1)
      str_addf(p->out, "%s%*s%s\n", p->colors->gutter, p->gutter, "...", p->colors->off);
    show_line(p, lines[i]);
  }
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* "file:line:column: ", or nothing where there is no file. */
static void add_place(Printer *p, Span span) {
  uint32_t line, column;
  if (!span.file)
    return;
  src_position(span.file, span.begin, &line, &column);
  str_add(p->out, p->colors->strong);
  add_clean(p->out, span.file->name);
  str_addf(p->out, ":%u:%u: %s", line, column, p->colors->off);
}

/* The span inside its file, whatever was given. */
static Span clamped(Span s) {
  if (!s.file)
    return s;
  if (s.begin > s.file->n)
    s.begin = (uint32_t)s.file->n;
  if (s.end > s.file->n)
    s.end = (uint32_t)s.file->n;
  if (s.end < s.begin)
    s.end = s.begin;
  return s;
}

/* A note in another file, or nowhere, gets a heading of its own. */
static void show_note(Printer *p, const DiagNote *note) {
  if (!note->text && !note->span.file)
    return;
  add_place(p, clamped(note->span));
  add_colored(p->out, p->colors->note, "note: ", p->colors);
  add_clean(p->out, note->text ? note->text : "here");
  str_addc(p->out, '\n');
  p->nspans = 0;
  p->spans[p->nspans++] = (Marked){clamped(note->span), NULL, '~'};
  if (note->span.file)
    show_file(p, note->span.file);
}

/* The first line: place, severity, code, what is wrong. */
static void show_heading(Printer *p, const Diag *d) {
  static const char *const words[] = {"error", "warning"};
  add_place(p, clamped(d->span));
  str_add(p->out, p->main_color);
  str_addf(p->out, "%s[%s]: ", words[d->severity], diag_name(d->code));
  str_add(p->out, p->colors->off);
  add_colored(p->out, p->colors->strong, d->text, p->colors);
  str_addc(p->out, '\n');
}

/* Text that was formatted before, on its way through another language. */
static void show_ready(const Diag *d, Str *out) {
  add_clean(out, d->text);
  if (out->n && out->s[out->n - 1] != '\n')
    str_addc(out, '\n');
}

/* Spans in the file of the main one are shown together, the others after it one by one. */
void diag_format(const Diag *d, bool color, Str *out) {
  Printer p = {.out = out, .colors = color ? &bright : &plain};
  if (d->ready) {
    show_ready(d, out);
    for (int i = 0; i < d->nnotes; i++)
      show_note(&p, &d->notes[i]);
    return;
  }
  const char *const severities[] = {p.colors->error, p.colors->warning};
  p.main_color = severities[d->severity];
  show_heading(&p, d);
  p.spans[p.nspans++] = (Marked){clamped(d->span), NULL, '^'};
  for (int i = 0; i < d->nnotes; i++)
    if (d->span.file && d->notes[i].span.file == d->span.file)
      p.spans[p.nspans++] = (Marked){clamped(d->notes[i].span), d->notes[i].text, '~'};
  if (d->span.file)
    show_file(&p, d->span.file);
  for (int i = 0; i < d->nnotes; i++)
    if (!d->span.file || d->notes[i].span.file != d->span.file)
      show_note(&p, &d->notes[i]);
  if (d->hint) {
    add_colored(out, p.colors->note, "hint: ", p.colors);
    add_clean(out, d->hint);
    str_addc(out, '\n');
  }
}
