/* src.c: source files, and spans of them.
 *
 * In: the text of a file. Out: line and column of any byte. Always holds: lines[0] is 0, lines
 * increases, and there is one line more than there are line ends, so that the end of the text has a
 * place too. A line ends with \n, \r\n, or \r alone. Tests: tests/unit/check_base_diag.c.
 */
#include "src.h"

#include <string.h>

/* Past the first line end in [p, end), or NULL. */
static const char *next_line(const char *p, const char *end) {
  for (; p < end; p++)
    if (*p == '\n' || (*p == '\r' && !(p + 1 < end && p[1] == '\n')))
      return p + 1;
  return NULL;
}

bool src_breaks(const char *text, size_t n) {
  return next_line(text, text + n) != NULL;
}

/* At least one line, also in an empty text. */
static uint32_t count_lines(const char *text, size_t n) {
  uint32_t lines = 1;
  for (const char *p = text; (p = next_line(p, text + n)) != NULL;)
    lines++;
  return lines;
}

/* Two passes over the text, so that the table of lines has just its size. */
SrcFile *src_new(Arena *a, const char *name, const char *text, size_t n) {
  if (n > INT32_MAX)
    return NULL;
  SrcFile *f = ARENA_NEW(a, SrcFile);
  f->name = arena_strdup(a, name);
  f->text = arena_strndup(a, text, n);
  f->n = n;
  f->first_line = 1;
  f->nlines = count_lines(f->text, n);
  f->lines = ARENA_ARRAY(a, uint32_t, f->nlines);
  uint32_t line = 1;
  for (const char *p = f->text; (p = next_line(p, f->text + n)) != NULL;)
    f->lines[line++] = (uint32_t)(p - f->text);
  return f;
}

/* Binary search: the last line that starts at or before the offset. */
uint32_t src_line_of(const SrcFile *f, uint32_t offset) {
  uint32_t low = 0, high = f->nlines;
  while (high - low > 1) {
    uint32_t mid = low + (high - low) / 2;
    if (f->lines[mid] <= offset)
      low = mid;
    else
      high = mid;
  }
  return low;
}

/* A column is a character: continuation bytes of UTF-8 do not count. */
void src_position(const SrcFile *f, uint32_t offset, uint32_t *line, uint32_t *column) {
  if (offset > f->n)
    offset = (uint32_t)f->n;
  uint32_t i = src_line_of(f, offset);
  *line = f->first_line + i;
  *column = 1;
  for (uint32_t at = f->lines[i]; at < offset; at++)
    if (((unsigned char)f->text[at] & 0xC0) != 0x80)
      ++*column;
}

Span span_join(Span a, Span b) {
  if (!a.file || a.file != b.file)
    return a.file ? a : b;
  Span joined = {a.file, a.begin < b.begin ? a.begin : b.begin, a.end > b.end ? a.end : b.end};
  return joined;
}
