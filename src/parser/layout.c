/* layout.c: chooses line breaks.
 *
 * In: boxes. Out: text in which a group stands on one line where that fits the width. Works off an
 * explicit stack, looks at most a line's width ahead, so it is linear and takes any depth. Comments
 * at the ends of neighbouring lines are put below each other last, when the lines are known.
 *
 * Whether a group fits is asked when it is met: its own text in one line, and what follows it up to
 * the first place where the line may break, which for the groups behind it is their first break. So
 * in `kernel k[…](…)` the first bracket stays whole as long as it and the next `(` fit.
 * Tests: tests/unit/check_parser.c.
 */
#include "layout.h"

#include <string.h>

/* Boxes are made from the inside out; this gathers the parts of the next one. */
Boxes fmt_boxes_new(Arena *a) {
  return (Boxes){.arena = a};
}

/* NULL is what an empty part is, so callers need not ask. */
void fmt_boxes_add(Boxes *b, const Box *box) {
  if (box)
    VEC_PUSH(b->arena, &b->v, box);
}

/* Width and brokenness are known at once, so that nothing is ever measured twice. */
static Box *make(Arena *a, BoxKind kind, const char *s, size_t n) {
  Box *b = ARENA_NEW(a, Box);
  b->kind = kind;
  b->s = s;
  b->n = n;
  b->width = kind == BOX_TEXT || kind == BOX_BREAK ? str_width(s, n) : 0;
  b->broken = kind == BOX_NEWLINE || kind == BOX_EMPTY || kind == BOX_COMMENT;
  return b;
}

/* Text never breaks. */
const Box *fmt_box_text(Arena *a, const char *s, size_t n) {
  return make(a, BOX_TEXT, s, n);
}
/* What it prints when it does not break may be nothing, a space, or `; `. */
const Box *fmt_box_break(Arena *a, const char *flat) {
  return make(a, BOX_BREAK, flat, strlen(flat));
}
/* Forces every group around it to break. */
const Box *fmt_box_line(Arena *a, BoxKind kind) {
  return make(a, kind, "", 0);
}
/* Forces a break too, because nothing can stand behind a comment. */
const Box *fmt_box_comment(Arena *a, const char *s, size_t n) {
  return make(a, BOX_COMMENT, s, n);
}

/* For words of the language, which live as long as the program. */
void fmt_boxes_text(Boxes *b, const char *s) {
  fmt_boxes_add(b, fmt_box_text(b->arena, s, strlen(s)));
}

/* A box is as wide as its parts, and broken if one of them is. */
const Box *fmt_boxes_end(Boxes *b, BoxKind kind) {
  Box *box = make(b->arena, kind, "", b->v.n);
  box->parts = b->v.v;
  for (size_t i = 0; i < b->v.n; i++) {
    box->broken |= b->v.v[i]->broken;
    box->width += b->v.v[i]->width;
  }
  return box;
}

/* One box still to be printed. */
typedef struct Item {
  const Box *box;
  size_t indent;
  bool flat;
} Item;

/* Where a comment at the end of a line goes: `at` in the text, behind `column` columns of code. */
typedef struct Mark {
  size_t at, column, line, indent;
} Mark;

typedef struct Printer {
  Arena *arena;
  Str *out;
  size_t width, column, pending; /* pending: spaces owed before the next text */
  size_t line, indent;           /* of the line being printed */
  VEC(Mark) marks;               /* comments so far */
  VEC(Item) stack;
  VEC(Item) ahead; /* what fits() still has to measure */
} Printer;

/* Whether `item`, and what follows it up to the next line break there may be, fits on the line.
 * Below `ahead`, the printer's stack is read. */
static bool fits(Printer *p, Item item) {
  size_t rest = p->stack.n, used = p->column + p->pending;
  p->ahead.n = 0;
  VEC_PUSH(p->arena, &p->ahead, item);
  while (used <= p->width) {
    if (p->ahead.n == 0) {
      if (rest == 0)
        return true;
      VEC_PUSH(p->arena, &p->ahead, p->stack.v[--rest]);
    }
    Item it = p->ahead.v[--p->ahead.n];
    const Box *b = it.box;
    bool flat = it.flat && !b->broken;
    if (b->kind == BOX_TEXT)
      used += b->width;
    else if (b->kind == BOX_COMMENT || b->kind == BOX_NEWLINE || b->kind == BOX_EMPTY)
      return true;
    else if (b->kind == BOX_BREAK && !flat)
      return true;
    else if (b->kind == BOX_BREAK)
      used += b->n;
    else
      for (size_t i = b->n; i > 0; i--)
        VEC_PUSH(p->arena, &p->ahead, ((Item){b->parts[i - 1], 0, flat}));
  }
  return false;
}

/* Spaces of the indentation are owed until there is something behind them: no line ends in one. */
static void put(Printer *p, const Box *b) {
  if (b->n == 0)
    return;
  str_pad(p->out, ' ', p->pending);
  p->column += p->pending + b->width;
  p->pending = 0;
  str_addn(p->out, b->s, b->n);
}

/* Indentation is only remembered: an empty line gets none. */
static void newline(Printer *p, size_t indent) {
  str_addc(p->out, '\n');
  p->line++;
  p->column = 0;
  p->pending = p->indent = indent;
}

/* The two spaces before it, or more, come at the end, when its neighbours are known. */
static void put_comment(Printer *p, const Box *b) {
  Mark mark = {p->out->n, p->column, p->line, p->indent};
  VEC_PUSH(p->arena, &p->marks, mark);
  str_addn(p->out, b->s, b->n);
}

/* In reverse, so that the first part is on top. */
static void push_parts(Printer *p, const Box *b, size_t indent, bool flat) {
  for (size_t i = b->n; i > 0; i--)
    VEC_PUSH(p->arena, &p->stack, ((Item){b->parts[i - 1], indent, flat}));
}

/* Prints one box, or puts its parts on the stack. */
static void step(Printer *p, Item it) {
  const Box *b = it.box;
  switch (b->kind) {
  case BOX_TEXT:
    put(p, b);
    break;
  case BOX_COMMENT:
    put_comment(p, b);
    break;
  case BOX_BREAK:
    if (it.flat)
      put(p, b);
    else
      newline(p, it.indent);
    break;
  case BOX_EMPTY:
    newline(p, it.indent);
    newline(p, it.indent);
    break;
  case BOX_NEWLINE:
    newline(p, it.indent);
    break;
  case BOX_GROUP:
    push_parts(p, b, it.indent, !b->broken && (it.flat || fits(p, (Item){b, 0, true})));
    break;
  default:
    push_parts(p, b, it.indent + (b->kind == BOX_INDENT ? 2 : 0), it.flat);
    break;
  }
}

/* Comments of lines that follow each other, at one indentation, stand below each other. A long line
 * does not push the others out. */
enum { ALIGN_UP_TO = 60 };

/* Only neighbours at one indentation belong together. */
static bool aligns(const Mark *above, const Mark *m) {
  return m->line == above->line + 1 && m->indent == above->indent && m->column <= ALIGN_UP_TO &&
         above->column <= ALIGN_UP_TO;
}

/* Copies the text, with the comments of marks[begin] to marks[end - 1] at one column. */
static void align_run(const Printer *p, size_t begin, size_t end, size_t *from, Str *out) {
  size_t column = 0;
  for (size_t i = begin; i < end; i++)
    column = p->marks.v[i].column > column ? p->marks.v[i].column : column;
  for (size_t i = begin; i < end; i++) {
    const Mark *m = &p->marks.v[i];
    str_addn(out, p->out->s + *from, m->at - *from);
    str_pad(out, ' ', column - m->column + 2);
    *from = m->at;
  }
}

/* Text between comments is copied as it is. */
static void align_comments(const Printer *p, Str *out) {
  size_t from = 0, end;
  for (size_t i = 0; i < p->marks.n; i = end) {
    for (end = i + 1; end < p->marks.n; end++) {
      if (!aligns(&p->marks.v[end - 1], &p->marks.v[end]))
        break;
    }
    align_run(p, i, end, &from, out);
  }
  str_addn(out, str_text(p->out) + from, p->out->n - from);
}

/* Two steps: the lines, then the columns of their comments. */
void fmt_box_print(Arena *scratch, const Box *box, size_t width, Str *out) {
  Str text = str_new(scratch);
  Printer p = {.arena = scratch, .out = &text, .width = width};
  VEC_PUSH(scratch, &p.stack, ((Item){box, 0, false}));
  while (p.stack.n > 0)
    step(&p, p.stack.v[--p.stack.n]);
  align_comments(&p, out);
}
