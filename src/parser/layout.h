/* layout.h: text that knows where its lines may break; private to the formatter.
 *
 * A Box is text, a possible line break, or boxes in a row; a group breaks all of its own line
 * breaks or none, whichever fits the width. Boxes are immutable and live in an arena.
 * Tests: tests/unit/check_parser.c.
 */
#ifndef TILESH_PARSER_LAYOUT_H
#define TILESH_PARSER_LAYOUT_H

#include "base/base.h"

typedef enum BoxKind {
  BOX_TEXT,
  BOX_BREAK,   /* its text where the group fits on the line, else a line break */
  BOX_NEWLINE, /* always a line break */
  BOX_EMPTY,   /* always a line break and an empty line */
  BOX_COMMENT, /* text at the end of a line; a line break follows it, always */
  BOX_ROW,     /* parts, one after the other */
  BOX_GROUP,   /* a row that breaks or does not */
  BOX_INDENT   /* a row; line breaks in it are indented further */
} BoxKind;

typedef struct Box Box;
struct Box {
  BoxKind kind;
  bool broken; /* holds something that always breaks */
  const char *s;
  size_t n;     /* bytes of s, or number of parts */
  size_t width; /* on one line */
  const Box **parts;
};

/* Parts being gathered for a row. */
typedef struct Boxes {
  Arena *arena;
  VEC(const Box *) v;
} Boxes;

Boxes fmt_boxes_new(Arena *a);
void fmt_boxes_add(Boxes *b, const Box *box);
void fmt_boxes_text(Boxes *b, const char *s); /* s is kept by pointer */
/* The parts as one box of kind ROW, GROUP or INDENT. */
const Box *fmt_boxes_end(Boxes *b, BoxKind kind);

const Box *fmt_box_text(Arena *a, const char *s, size_t n);
const Box *fmt_box_break(Arena *a, const char *flat);
const Box *fmt_box_line(Arena *a, BoxKind kind); /* NEWLINE or EMPTY */
const Box *fmt_box_comment(Arena *a, const char *s, size_t n);

/* Prints the box at the given width; indentation is two spaces. */
void fmt_box_print(Arena *scratch, const Box *box, size_t width, Str *out);

#endif
