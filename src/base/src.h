/* src.h: source files, and spans of them. */
#ifndef TILESH_BASE_SRC_H
#define TILESH_BASE_SRC_H

#include "arena.h"

typedef struct SrcFile {
  const char *name; /* as shown in diagnostics: "matmul.tile", "<stdin>", "tile:3" */
  const char *text; /* NUL-terminated; may hold NUL bytes inside */
  size_t n;
  uint32_t first_line; /* number of the first line, 1 unless a snippet */
  uint32_t *lines;     /* byte offset of the start of each line */
  uint32_t nlines;
} SrcFile;

/* A piece of a file; file NULL where there is no source (IR built by a pass). begin <= end. */
typedef struct Span {
  const SrcFile *file;
  uint32_t begin, end; /* byte offsets, end excluded */
} Span;

/* text is copied into the arena, and so is name. NULL if there are 2^31 bytes or more. */
SrcFile *src_new(Arena *a, const char *name, const char *text, size_t n);
/* The index into lines of the line that holds a byte offset. */
uint32_t src_line_of(const SrcFile *f, uint32_t offset);
/* Line (from first_line) and column (from 1, in characters, not bytes) of a byte offset. */
void src_position(const SrcFile *f, uint32_t offset, uint32_t *line, uint32_t *column);
/* Whether n bytes of text hold the end of a line: \n, \r\n or \r. */
bool src_breaks(const char *text, size_t n);
Span span_join(Span a, Span b); /* from the begin of a to the end of b */

#endif
