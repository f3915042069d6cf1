/* fmt.c: `tilesh fmt`: statements in canonical layout, and every comment in its place.
 *
 * In: an AstFile of a PARSE_OK. Out: its text: one statement a line (those that shared a line still
 * do if they fit), a block on one line if it stood so and fits, at most one empty line, one around
 * kernels, functions and tests. Always holds: formatting the result changes nothing; the tree is
 * the same; no comment is lost. A comment inside an expression, where no line of its own can be,
 * goes above the statement.
 *
 * How comments are kept in order without searching: they form one sequence, and so do the places
 * where one can go (before a statement, behind it, behind an element of a list, before a brace).
 * Each place takes what lies before it in the source and is still waiting; whatever a statement
 * leaves behind is put above it. A comment that moves like this is no doc comment afterwards.
 *
 * Tests: tests/unit/check_parser.c, tests/fuzz/fuzz_parser.c.
 */
#include "fmt.h"

#include <string.h>

enum { WIDTH = 100 };

/* ---- the source ---- */

/* The source outlives the boxes, so nothing is copied. */
const Box *fmt_source(Fmt *f, uint32_t begin, uint32_t end) {
  return fmt_box_text(f->arena, f->file->file->text + begin, end - begin);
}

/* By halving: lists ask for tokens all the time. */
const Token *fmt_token(const Fmt *f, uint32_t at) {
  const Tokens *t = &f->file->tokens;
  size_t low = 0, high = t->n - 1;
  while (low < high) {
    size_t mid = low + (high - low) / 2;
    if (t->v[mid].begin < at)
      low = mid + 1;
    else
      high = mid;
  }
  return &t->v[low];
}

/* Line ends from begin to end. */
static size_t lines_between(const Fmt *f, uint32_t begin, uint32_t end) {
  const char *s = f->file->file->text;
  size_t n = 0;
  for (uint32_t i = begin; i < end; i++)
    n += s[i] == '\n' || (s[i] == '\r' && s[i + 1] != '\n');
  return n;
}

/* ---- comments ---- */

/* NULL once all are placed. */
static const Comment *next_comment(const Fmt *f) {
  const Tokens *t = &f->file->tokens;
  return f->next < t->ncomments ? &t->comments[f->next] : NULL;
}

/* Comments are in order, so the next one answers for all. */
bool fmt_comment_before(const Fmt *f, uint32_t at) {
  const Comment *c = next_comment(f);
  return c && c->begin < at;
}

/* Spaces at the end of a line are the one thing of a comment that is not kept. `plain`: never as a
 * doc comment. */
static const Box *comment_text(Fmt *f, const Comment *c, bool plain) {
  const char *s = f->file->file->text;
  uint32_t begin = c->begin, end = c->end;
  while (end > begin + 1 && strchr(" \t\r\f\v", s[end - 1]))
    end--;
  bool doc = end - begin > 1 && s[begin + 1] == '#' && (end - begin == 2 || s[begin + 2] != '#');
  if (plain && doc)
    begin++;
  return fmt_source(f, begin, end);
}

/* Only the first can stand on the line that is there; each further one needs a line. */
bool fmt_comments_behind(Fmt *f, Boxes *b, uint32_t at) {
  bool first = true;
  for (; fmt_comment_before(f, at); f->next++, first = false) {
    const Comment *c = next_comment(f);
    const Box *text = comment_text(f, c, false);
    if (first && !c->own_line) {
      fmt_boxes_add(b, fmt_box_comment(f->arena, text->s, text->n));
      continue;
    }
    fmt_boxes_add(b, fmt_box_line(f->arena, BOX_NEWLINE));
    fmt_boxes_add(b, text);
  }
  return !first;
}

/* ---- a sequence of statements and comments ---- */

typedef struct Sequence {
  Boxes boxes;
  bool first;     /* nothing stands on the line yet */
  bool item;      /* the last thing wants an empty line behind it */
  uint32_t begin; /* comments before this are not docs of what follows */
} Sequence;

/* The line break, or breaks, before a thing that begins at `at` in the source. */
static void separate(Fmt *f, Sequence *q, uint32_t at, bool item) {
  bool blank = lines_between(f, f->last, at) > 1 || item || q->item;
  if (!q->first)
    fmt_boxes_add(&q->boxes, fmt_box_line(f->arena, blank ? BOX_EMPTY : BOX_NEWLINE));
  q->first = q->item = false;
}

/* The comments before `at`, on lines of their own. */
static void own_lines(Fmt *f, Sequence *q, uint32_t at, bool item) {
  for (; fmt_comment_before(f, at); f->next++, item = false) {
    const Comment *c = next_comment(f);
    separate(f, q, c->begin, item);
    fmt_boxes_add(&q->boxes, comment_text(f, c, c->begin < q->begin || !c->own_line));
    f->last = c->end;
  }
}

/* A comment behind the last thing, on its line. */
static void same_line(Fmt *f, Boxes *b, uint32_t from) {
  const Comment *c = next_comment(f);
  if (!c || c->own_line || lines_between(f, from, c->begin) > 0)
    return;
  const Box *text = comment_text(f, c, false);
  fmt_boxes_add(b, fmt_box_comment(f->arena, text->s, text->n));
  f->last = c->end;
  f->next++;
}

/* Each statement is a group of its own, so that one long line does not break its neighbours. */
static const Box *statement(Fmt *f, const AstStmt *s);

/* Comments that the statement's layout had no place for. */
static void leftovers(Fmt *f, Boxes *b, uint32_t end) {
  for (; fmt_comment_before(f, end); f->next++) {
    fmt_boxes_add(b, comment_text(f, next_comment(f), true));
    fmt_boxes_add(b, fmt_box_line(f->arena, BOX_NEWLINE));
  }
}

/* What a reader looks for when leafing through a file. */
static bool is_item(const AstStmt *s) {
  return s->kind == STMT_KERNEL || s->kind == STMT_FN || s->kind == STMT_TEST;
}

/* An item of several lines has an empty line around it. */
static bool stands_apart(const Fmt *f, const AstStmt *s, const Box *box) {
  return is_item(s) && (box->broken || 2 * f->depth + box->width > WIDTH);
}

/* Statements i up to the returned one stand on one line in the source, and may go on doing so. */
static size_t row_end(const Fmt *f, const AstBlock *block, size_t i) {
  for (i++; i < block->n; i++) {
    const AstStmt *s = block->v[i - 1], *t = block->v[i];
    if (is_item(s) || is_item(t) || lines_between(f, s->span.end, t->span.begin) > 0)
      break;
  }
  return i;
}

/* `above` gathers the comments that found no place in the statements. */
static const Box *row(Fmt *f, const AstBlock *block, size_t begin, size_t end, Boxes *above) {
  Boxes b = fmt_boxes_new(f->arena);
  for (size_t i = begin; i < end; i++) {
    if (i > begin)
      fmt_boxes_add(&b, fmt_box_break(f->arena, "; "));
    fmt_boxes_add(&b, statement(f, block->v[i]));
    leftovers(f, above, block->v[i]->span.end);
  }
  return fmt_boxes_end(&b, BOX_GROUP);
}

/* The row is built first, since only then is it known whether it stands apart; the comments before
 * it are placed after that, from where they were. */
static void sequence(Fmt *f, Sequence *q, const AstBlock *block) {
  for (size_t i = 0; i < block->n;) {
    const AstStmt *s = block->v[i];
    size_t end = row_end(f, block, i), first = f->next;
    uint32_t last = f->last;
    while (fmt_comment_before(f, s->span.begin))
      f->next++;
    Boxes above = fmt_boxes_new(f->arena);
    const Box *box = row(f, block, i, end, &above);
    bool item = stands_apart(f, s, box);
    size_t after = f->next;
    f->next = first;
    f->last = last;
    bool commented = fmt_comment_before(f, s->span.begin);
    if (s->doc && above.v.n > 0) { /* nothing may come between a doc and its item */
      separate(f, q, next_comment(f)->begin, item);
      fmt_boxes_add(&q->boxes, fmt_boxes_end(&above, BOX_ROW));
      above.v.n = 0;
      q->first = true;
      item = false;
    }
    own_lines(f, q, s->span.begin, item);
    f->next = after;
    separate(f, q, s->span.begin, item && !commented);
    fmt_boxes_add(&q->boxes, fmt_boxes_end(&above, BOX_ROW));
    fmt_boxes_add(&q->boxes, box);
    f->last = block->v[end - 1]->span.end;
    q->item = stands_apart(f, s, box);
    same_line(f, &q->boxes, f->last);
    i = end;
  }
}

/* ---- blocks ---- */

/* `{ … }`, to be put into a group: it breaks with what stands beside it. */
static const Box *braces(Fmt *f, const AstBlock *block) {
  Boxes all = fmt_boxes_new(f->arena), inner = fmt_boxes_new(f->arena);
  uint32_t open = block->span.begin + 1, close = block->span.end - 1;
  bool empty = block->n == 0 && !fmt_comment_before(f, close);
  if (empty) {
    fmt_boxes_text(&all, "{ }");
    return fmt_boxes_end(&all, BOX_ROW);
  }
  fmt_boxes_text(&all, "{");
  if (fmt_comment_before(f, close) && next_comment(f)->begin >= open)
    same_line(f, &all, open);
  bool broken = fmt_comment_before(f, close) || block->n == 0 ||
                fmt_token(f, block->v[0]->span.begin)->line_start;
  if (broken)
    fmt_boxes_add(&inner, fmt_box_line(f->arena, BOX_NEWLINE));
  else
    fmt_boxes_add(&inner, fmt_box_break(f->arena, " "));
  Sequence q = {.boxes = fmt_boxes_new(f->arena), .first = true, .begin = open};
  f->last = open;
  f->depth++;
  sequence(f, &q, block);
  own_lines(f, &q, close, false);
  f->depth--;
  f->last = block->span.end;
  fmt_boxes_add(&inner, fmt_boxes_end(&q.boxes, BOX_ROW));
  if (!q.first)
    fmt_boxes_add(&all, fmt_boxes_end(&inner, BOX_INDENT));
  fmt_boxes_add(&all, fmt_box_break(f->arena, " "));
  fmt_boxes_text(&all, "}");
  return fmt_boxes_end(&all, BOX_ROW);
}

/* ---- statements ---- */

/* A word, the value behind it, and the block that it rules. */
static void header_value(Fmt *f, Boxes *b, const char *word, const AstExpr *e,
                         const AstBlock *block) {
  fmt_boxes_text(b, word);
  fmt_boxes_add(b, fmt_expr(f, e));
  fmt_boxes_text(b, " ");
  fmt_boxes_add(b, braces(f, block));
}

/* All arms are one group: they break together or not at all. */
static void branch(Fmt *f, Boxes *b, const AstStmt *s) {
  for (size_t i = 0; i < s->as.branch.n; i++) {
    const AstArm *arm = &s->as.branch.arms[i];
    header_value(f, b, i ? " else if " : "if ", arm->cond, &arm->body);
  }
  if (s->as.branch.has_other) {
    fmt_boxes_text(b, " else ");
    fmt_boxes_add(b, braces(f, &s->as.branch.other));
  }
}

/* The names stand without parentheses, however many there are. */
static void loop(Fmt *f, Boxes *b, const AstStmt *s) {
  fmt_boxes_text(b, "for ");
  fmt_boxes_add(b, fmt_names(f, s->as.loop.names, s->as.loop.n));
  header_value(f, b, " in ", s->as.loop.range, &s->as.loop.body);
}

/* Attributes stand above, each on its line. */
static void kernel(Fmt *f, Boxes *b, const AstKernel *k) {
  for (size_t i = 0; i < k->nattributes; i++) {
    fmt_boxes_text(b, "@");
    fmt_boxes_text(b, k->attributes[i].text);
    fmt_boxes_add(b, fmt_box_line(f->arena, BOX_NEWLINE));
  }
  fmt_boxes_text(b, "kernel ");
  fmt_boxes_text(b, k->name.text);
  if (k->statics.n > 0)
    fmt_boxes_add(b, fmt_decls(f, "[", &k->statics, "]"));
  fmt_boxes_add(b, fmt_decls(f, "(", &k->inputs, ")"));
  if (k->outputs.n > 0) {
    fmt_boxes_text(b, " -> ");
    fmt_boxes_add(b, fmt_decls(f, "(", &k->outputs, ")"));
  }
  fmt_boxes_text(b, " ");
  fmt_boxes_add(b, braces(f, &k->body));
}

/* As a kernel, without attributes, outputs and compile-time parameters. */
static void function(Fmt *f, Boxes *b, const AstFn *fn) {
  fmt_boxes_text(b, "fn ");
  fmt_boxes_text(b, fn->name.text);
  fmt_boxes_add(b, fmt_decls(f, "(", &fn->params, ")"));
  if (fn->result) {
    fmt_boxes_text(b, " -> ");
    fmt_boxes_add(b, fmt_type(f, fn->result));
  }
  fmt_boxes_text(b, " ");
  fmt_boxes_add(b, braces(f, &fn->body));
}

/* Empty options are left out with their parentheses. */
static const Box *role(Fmt *f, const AstRole *r) {
  Boxes b = fmt_boxes_new(f->arena);
  fmt_boxes_text(&b, r->producer ? "producer" : "consumer");
  if (r->options.n > 0)
    fmt_boxes_add(&b, fmt_args(f, "(", &r->options, ")"));
  fmt_boxes_text(&b, " ");
  fmt_boxes_add(&b, braces(f, &r->body));
  return fmt_boxes_end(&b, BOX_GROUP);
}

/* Roles are no statements, so they are laid out here; never on one line. */
static void roles(Fmt *f, Boxes *b, const AstStmt *s) {
  Boxes inner = fmt_boxes_new(f->arena);
  Sequence q = {.boxes = fmt_boxes_new(f->arena), .first = true};
  fmt_boxes_text(b, "specialize {");
  f->last = s->span.begin;
  f->depth++;
  for (size_t i = 0; i < s->as.roles.n; i++) {
    const AstRole *r = &s->as.roles.v[i];
    own_lines(f, &q, r->span.begin, false);
    separate(f, &q, r->span.begin, false);
    fmt_boxes_add(&q.boxes, role(f, r));
    f->last = r->span.end;
    same_line(f, &q.boxes, f->last);
  }
  own_lines(f, &q, s->span.end - 1, false);
  f->depth--;
  fmt_boxes_add(&inner, fmt_box_line(f->arena, BOX_NEWLINE));
  fmt_boxes_add(&inner, fmt_boxes_end(&q.boxes, BOX_ROW));
  fmt_boxes_add(b, fmt_boxes_end(&inner, BOX_INDENT));
  fmt_boxes_add(b, fmt_box_line(f->arena, BOX_NEWLINE));
  fmt_boxes_text(b, "}");
}

/* `as` is printed only where it was written; otherwise the name comes from the path. */
static void import(Fmt *f, Boxes *b, const AstStmt *s) {
  fmt_boxes_text(b, "import ");
  fmt_boxes_add(b, fmt_source(f, s->as.import.what.begin, s->as.import.what.end));
  if (s->as.import.name.span.begin < s->as.import.what.end)
    return;
  fmt_boxes_text(b, " as ");
  fmt_boxes_text(b, s->as.import.name.text);
}

/* The name as it was written: its escapes are the author's. */
static void test(Fmt *f, Boxes *b, const AstStmt *s) {
  fmt_boxes_text(b, "test ");
  fmt_boxes_add(b, fmt_source(f, s->as.test.name_span.begin, s->as.test.name_span.end));
  fmt_boxes_text(b, " ");
  fmt_boxes_add(b, braces(f, &s->as.test.body));
}

/* Lua's text is not ours to change. */
static void lua(Fmt *f, Boxes *b, const AstStmt *s) {
  fmt_boxes_text(b, "lua {");
  Box *text = ARENA_NEW(f->arena, Box);
  *text = *fmt_box_text(f->arena, s->as.lua.text, s->as.lua.n);
  text->broken = src_breaks(s->as.lua.text, s->as.lua.n);
  fmt_boxes_add(b, text);
  fmt_boxes_text(b, "}");
}

/* Several targets unpack; they break as a list does. */
static void assign(Fmt *f, Boxes *b, const AstStmt *s) {
  fmt_boxes_add(b, fmt_exprs(f, "", s->as.assign.targets, s->as.assign.ntargets, ""));
  fmt_boxes_text(b, " ");
  fmt_boxes_text(b, ast_op_text(s->as.assign.op));
  fmt_boxes_text(b, "= ");
  fmt_boxes_add(b, fmt_expr(f, s->as.assign.value));
}

/* Statements that hold blocks or text of their own form. */
static void compound(Fmt *f, Boxes *b, const AstStmt *s) {
  switch (s->kind) {
  case STMT_FOR:
    loop(f, b, s);
    break;
  case STMT_WHILE:
    header_value(f, b, "while ", s->as.loop_while.cond, &s->as.loop_while.body);
    break;
  case STMT_IF:
    branch(f, b, s);
    break;
  case STMT_ROLES:
    roles(f, b, s);
    break;
  case STMT_KERNEL:
    kernel(f, b, s->as.kernel);
    break;
  case STMT_FN:
    function(f, b, s->as.fn);
    break;
  case STMT_IMPORT:
    import(f, b, s);
    break;
  case STMT_TEST:
    test(f, b, s);
    break;
  default:
    lua(f, b, s);
    break;
  }
}

/* Statements of one line, printed as their word and what follows it. */
static void simple(Fmt *f, Boxes *b, const AstStmt *s) {
  fmt_boxes_text(b, ast_stmt_name(s->kind));
  if (s->kind == STMT_BREAK || s->kind == STMT_CONTINUE ||
      (s->kind == STMT_RETURN && !s->as.result))
    return;
  fmt_boxes_text(b, " ");
  if (s->kind == STMT_LET || s->kind == STMT_VAR) {
    fmt_boxes_add(b, fmt_decls(f, "", &s->as.let.names, ""));
    fmt_boxes_text(b, " = ");
    fmt_boxes_add(b, fmt_expr(f, s->as.let.value));
  } else if (s->kind == STMT_GRID) {
    fmt_boxes_add(b, fmt_names(f, s->as.grid.names, s->as.grid.n));
    fmt_boxes_text(b, " = ");
    fmt_boxes_add(b, fmt_args(f, "", &s->as.grid.args, ""));
  } else if (s->kind == STMT_RETURN) {
    fmt_boxes_add(b, fmt_expr(f, s->as.result));
  } else if (s->kind == STMT_ASSERT) {
    AstExpr *parts[] = {s->as.assertion.cond, s->as.assertion.message};
    fmt_boxes_add(b, fmt_exprs(f, "", parts, parts[1] ? 2 : 1, ""));
  } else if (s->kind == STMT_BARRIER) {
    fmt_boxes_add(b, fmt_barriers(f, &s->as.decls));
  } else {
    fmt_boxes_add(b, fmt_decls(f, "", s->kind == STMT_LAYOUT ? &s->as.layout.v : &s->as.decls, ""));
  }
}

static const Box *statement(Fmt *f, const AstStmt *s) {
  static const bool is_simple[STMT_COUNT] = {
      [STMT_LET] = true,   [STMT_VAR] = true,      [STMT_SHARED] = true, [STMT_FRAGMENT] = true,
      [STMT_LOCAL] = true, [STMT_BARRIER] = true,  [STMT_GRID] = true,   [STMT_LAYOUT] = true,
      [STMT_BREAK] = true, [STMT_CONTINUE] = true, [STMT_RETURN] = true, [STMT_ASSERT] = true,
  };
  Boxes b = fmt_boxes_new(f->arena);
  if (s->kind == STMT_EXPR)
    fmt_boxes_add(&b, fmt_expr(f, s->as.expr));
  else if (s->kind == STMT_ASSIGN)
    assign(f, &b, s);
  else if (is_simple[s->kind])
    simple(f, &b, s);
  else
    compound(f, &b, s);
  return fmt_boxes_end(&b, BOX_GROUP);
}

/* The file is one sequence; it ends with exactly one line end, or is empty. */
void fmt_format(Arena *scratch, const AstFile *file, Str *out) {
  Fmt f = {.arena = scratch, .file = file};
  Sequence q = {.boxes = fmt_boxes_new(scratch), .first = true};
  uint32_t end = (uint32_t)file->file->n;
  sequence(&f, &q, &file->body);
  own_lines(&f, &q, end, false);
  if (q.first)
    return;
  fmt_boxes_add(&q.boxes, fmt_box_line(scratch, BOX_NEWLINE));
  fmt_box_print(scratch, fmt_boxes_end(&q.boxes, BOX_ROW), WIDTH, out);
}
