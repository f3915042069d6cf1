/* check_parser.c: the tree, the statuses, the bounds, and the formatter's promises. */
#include "base_suite.h"

#include <dirent.h>
#include <string.h>

#include "parser/parser.h"

static Arena *arena;
static DiagSink sink;

static void before(void) {
  arena = arena_new(NULL, "test");
}
static void after(void) {
  arena_free(arena);
}

static ParseStatus parse_n(const char *text, size_t n, bool prompt, AstFile **out) {
  diag_init(&sink, arena);
  ParseInput in = {arena, names_new(arena), &sink, src_new(arena, "x.tile", text, n), prompt};
  ParseStatus status = parse_file(&in, out);
  ck_assert_int_eq(status == PARSE_ERROR, sink.errors > 0);
  return status;
}

static ParseStatus status_of(const char *text, bool prompt) {
  AstFile *file;
  return parse_n(text, strlen(text), prompt, &file);
}

static AstFile *parse_ok(const char *text) {
  AstFile *file;
  ParseStatus status = parse_n(text, strlen(text), false, &file);
  Str why = str_new(arena);
  diag_format_all(&sink, false, &why);
  ck_assert_msg(status == PARSE_OK, "%s: %s", text, str_text(&why));
  return file;
}

static const char *tree_of(const AstFile *file) {
  Str s = str_new(arena);
  ast_print(file, &s);
  return str_text(&s);
}

/* The one expression of `let x = …`. */
static const AstExpr *value(const char *text) {
  AstFile *file = parse_ok(arena_printf(arena, "let x = %s\n", text));
  ck_assert_uint_eq(file->body.n, 1);
  return file->body.v[0]->as.let.value;
}

static void expect_value(const char *text, const char *tree) {
  Str s = str_new(arena);
  ast_print_expr(value(text), &s);
  ck_assert_str_eq(str_text(&s), tree);
}

/* ---- the tree ---- */

START_TEST(operators_group_as_the_page_says) {
  expect_value("a if b else c if d else e", "(if b a (if d c e))");
  expect_value("a or b and not c == d | e ^ f & g << h + i * j ** k",
               "(or a (and b (not (== c (| d (^ e (& f (<< g (+ h (* i (** j k)))))))))))");
  expect_value("-a ** -b ** c", "(- (** a (- (** b c))))");
  expect_value("-a.b[0](c)", "(- (call (index (. a b) 0) c))");
  expect_value("a - b - c", "(- (- a b) c)");
  expect_value("a @ b * c // d % e / f", "(/ (% (// (* (@ a b) c) d) e) f)");
  expect_value("0 <= i < n", "(chain 0 <= i < n)");
  expect_value("(0 <= i) < n", "(< (<= 0 i) n)");
  expect_value("not not a", "(not (not a))");
  expect_value("- - a + + b", "(+ (- (- a)) (+ b))");
}
END_TEST

START_TEST(indices_are_told_apart) {
  expect_value("x[a, :, b:, :c, ::d, a:b:c, k:+n, k:+n:2, None]",
               "(index x a (slice . . .) (slice b . .) (slice . c .) (slice . . d) (slice a b c) "
               "(width k n .) (width k n 2) None)");
  expect_value("x[]", "(index x)");
  expect_value("k[BM = 64, E = f16](a)", "(call (with k BM=64 E=f16) a)");
  expect_value("x[-1][(a, b)]", "(index (index x (- 1)) (tuple a b))");
}
END_TEST

START_TEST(arguments_are_split) {
  const AstExpr *e = value("f(a, b + 1, axis = 0, out = c,)");
  ck_assert_int_eq(e->kind, EXPR_CALL);
  ck_assert_uint_eq(e->as.call.args.n, 4);
  ck_assert_uint_eq(e->as.call.args.npos, 2);
  ck_assert_str_eq(e->as.call.args.v[2].name, "axis");
  ck_assert_ptr_null(e->as.call.args.v[1].name);
}
END_TEST

START_TEST(tuples_and_parentheses_differ) {
  expect_value("(a)", "a");
  expect_value("(a,)", "(tuple a)");
  expect_value("()", "(tuple)");
  expect_value("a, b", "(tuple a b)");
  expect_value("[a, [b,],]", "(list a (list b))");
  ck_assert(value("(a + b)")->paren);
  ck_assert(!value("a + b")->paren);
}
END_TEST

START_TEST(names_are_interned) {
  AstFile *file = parse_ok("let abc = abc\n");
  ck_assert_ptr_eq(file->body.v[0]->as.let.names.v[0].name.text,
                   file->body.v[0]->as.let.value->as.name);
}
END_TEST

/* The text under the span. */
static void expect_span(const AstFile *file, Span span, const char *text) {
  ck_assert_uint_eq(span.end - span.begin, strlen(text));
  ck_assert_mem_eq(file->file->text + span.begin, text, strlen(text));
}

START_TEST(spans_cover_the_text) {
  AstFile *file = parse_ok("f(x)\nlet a = (b + c) * d[0]   # c\n");
  const AstStmt *s = file->body.v[1];
  expect_span(file, s->span, "let a = (b + c) * d[0]");
  const AstExpr *e = s->as.let.value;
  expect_span(file, e->span, "(b + c) * d[0]");
  expect_span(file, e->as.binary.op_span, "*");
  expect_span(file, e->as.binary.x->span, "(b + c)");
  expect_span(file, e->as.binary.y->span, "d[0]");
  ck_assert_uint_eq(e->depth, 3);
}
END_TEST

START_TEST(a_kernel_has_its_parts) {
  AstFile *file = parse_ok("## Adds.\n## Twice.\n@exact\nkernel k[BM = 4](A: inout f32[static N]) "
                           "-> (B: f32[N] = 0) {\n  let n = 1\n  grid x = n, threads = 64\n}\n");
  const AstStmt *s = file->body.v[0];
  const AstKernel *k = s->as.kernel;
  ck_assert_str_eq(s->doc, "Adds.\nTwice.");
  ck_assert(k->exact && !k->unchecked);
  ck_assert(k->inputs.v[0].is_inout && k->inputs.v[0].type->extents[0].is_static);
  ck_assert_ptr_nonnull(k->outputs.v[0].init);
  ck_assert_ptr_eq(k->grid, k->body.v[1]);
  ck_assert_uint_eq(k->grid->as.grid.args.npos, 1);
  expect_span(file, k->header, "kernel k[BM = 4](A: inout f32[static N]) -> (B: f32[N] = 0)");
}
END_TEST

START_TEST(docs_belong_to_the_next_line_only) {
  AstFile *file = parse_ok("## a\n\nf()\n## b\nf()\nf() ## c\nf()\n# d\nf()\n");
  ck_assert_ptr_null(file->body.v[0]->doc);
  ck_assert_str_eq(file->body.v[1]->doc, "b");
  for (size_t i = 2; i < 5; i++)
    ck_assert_ptr_null(file->body.v[i]->doc);
}
END_TEST

START_TEST(imports_get_names) {
  AstFile *file = parse_ok("import a\nimport b as c\nimport \"x/d.tile\"\nimport \"e-f.lua\" as g");
  static const char *const names[] = {"a", "c", "d", "g"};
  for (size_t i = 0; i < 4; i++)
    ck_assert_str_eq(file->body.v[i]->as.import.name.text, names[i]);
}
END_TEST

/* ---- statuses ---- */

START_TEST(unfinished_text_is_pending_at_the_prompt) {
  static const char *const texts[] = {"kernel k(",
                                      "kernel k() {",
                                      "kernel k() {\n f()\n",
                                      "if a {\n",
                                      "f(1,",
                                      "let x =",
                                      "let x = 1 +",
                                      "x[",
                                      "[1, [2]",
                                      "lua { x",
                                      "fn f(x) -> f32 {",
                                      "test \"x\" {\n\n",
                                      "let a,",
                                      "(",
                                      "not",
                                      "a if b else",
                                      "@",
                                      "for i in range(3) {",
                                      "f(\n\n#c\n",
                                      "if a",
                                      "kernel k()",
                                      "specialize {",
                                      "a.",
                                      "if a { } else"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    if (strcmp(texts[i], "specialize {") == 0)
      continue; /* at top level it is wrong before it is unfinished */
    ck_assert_msg(status_of(texts[i], true) == PARSE_PENDING, "%s", texts[i]);
    ck_assert_uint_eq(sink.errors, 0);
    ck_assert_msg(status_of(texts[i], false) == PARSE_ERROR, "%s", texts[i]);
    ck_assert_uint_eq(sink.errors, 1);
  }
}
END_TEST

START_TEST(wrong_text_is_not_pending) {
  static const char *const texts[] = {"f(]", "let 3 = (", "a b {",    "f(1 2",  "\"abc",
                                      "let", "if {",      "x = )\n{", "}",      "let x\n",
                                      "$ (", "break\nf(", "else {",   "1 +\n}", "f($"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    ck_assert_msg(status_of(texts[i], true) == PARSE_ERROR, "%s", texts[i]);
}
END_TEST

START_TEST(a_fault_in_an_open_block_is_one_error_at_the_prompt) {
  ck_assert_int_eq(status_of("kernel k() {\n  f(]\n", true), PARSE_ERROR);
  ck_assert_uint_eq(sink.errors, 1);
  ck_assert_int_eq(status_of("kernel k() {\n  f(]\n", false), PARSE_ERROR);
  ck_assert_uint_eq(sink.errors, 2);
}
END_TEST

START_TEST(the_prompt_takes_any_expression) {
  ck_assert_int_eq(status_of("a + 1", true), PARSE_OK);
  ck_assert_int_eq(status_of("a + 1", false), PARSE_ERROR);
  ck_assert_int_eq(status_of("kernel k() { a + 1 }", true), PARSE_ERROR);
  AstFile *file;
  parse_n("a;", 2, true, &file);
  ck_assert(file->quiet);
  parse_n("a", 1, true, &file);
  ck_assert(!file->quiet);
}
END_TEST

/* `open` n times, a one, `close` n times. */
static char *nested(const char *open, const char *close, size_t n) {
  Str s = str_new(arena);
  str_add(&s, "let a = ");
  for (size_t i = 0; i < n; i++)
    str_add(&s, open);
  str_add(&s, "y");
  for (size_t i = 0; i < n; i++)
    str_add(&s, close);
  return s.s;
}

START_TEST(nesting_is_bounded) {
  static const struct {
    const char *open, *close;
  } rows[] = {{"(", ")"},     {"[", "]"},      {"-", ""},     {"not ", ""},
              {"f(", ")"},    {"x[", "]"},     {"2 ** ", ""}, {"1 + ", ""},
              {"", ".x"},     {"", "[0]"},     {"", "()"},    {"1 if a else ", ""},
              {"bench ", ""}, {"k[A = ", "]"}, {"(", ""},     {"1 if (", ") else 2"},
              {"", " + 1"},   {"x[1:", "]"},   {"", " or 1"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    size_t deep = i % 2 ? 100000 : 1000;
    ck_assert_int_eq(status_of(nested(rows[i].open, rows[i].close, deep), false), PARSE_ERROR);
    ck_assert_uint_eq(sink.errors, 1);
    if (i < 5)
      parse_ok(nested(rows[i].open, rows[i].close, 300));
    arena_reset(arena);
  }
}
END_TEST

START_TEST(blocks_are_bounded) {
  Str s = str_new(arena);
  for (size_t i = 0; i < 100000; i++)
    str_add(&s, "if a {\n");
  ck_assert_int_eq(status_of(s.s, false), PARSE_ERROR);
  ck_assert_uint_eq(sink.errors, 1);
}
END_TEST

START_TEST(long_flat_texts_are_fine) {
  Str s = str_new(arena);
  str_add(&s, "let a = [");
  for (size_t i = 0; i < 20000; i++)
    str_add(&s, "1, ");
  str_add(&s, "]\nif a { }");
  for (size_t i = 0; i < 20000; i++)
    str_add(&s, " else if a { }");
  str_add(&s, "\nlet b = 1");
  for (size_t i = 0; i < 20000; i++)
    str_add(&s, " < 2");
  parse_ok(s.s);
}
END_TEST

START_TEST(at_most_twenty_errors_are_kept) {
  Str s = str_new(arena);
  for (size_t i = 0; i < 1000; i++)
    str_add(&s, "let = 1\n");
  ck_assert_int_eq(status_of(s.s, false), PARSE_ERROR);
  ck_assert_uint_eq(sink.n, 20);
  ck_assert_uint_eq(sink.errors, 1000);
}
END_TEST

START_TEST(one_mistake_is_one_error) {
  static const char *const texts[] = {
      "kernel k(A: f32[N]) {\n  copy(A[0, As)\n  let x = 1\n  f(x)\n}\nlet y = 2\n",
      "f(a,\n  b c,\n  d)\ng(1)\n",
      "if x = 3 {\n  f()\n} else {\n  g()\n}\n",
      "for i in 0..3 {\n  f(i)\n}\n",
      "kernel k(A f32[N],\n  B: f32[N]) -> (C: f32[N]) {\n  return\n}\n",
      "let a = [1, 2\nlet b = 3\nlet c = [1]\n",
      "kernel k() {\n  shared As f32[4]\n  grid x = 1\n}\n",
      "let s = \"abc\nlet t = 1\n",
      "fn f(x) {\n  return x +\n}\nf(1)\n",
      "fn f(x)\n  return x\n",
      "f(x\n\n\nlet a = 1\nlet b = 2\n",
      "kernel k() { specialize { producer() { f( } } }\nlet x = 1\n",
      "if a { f() } g()\nlet b = 1\n",
      "def f(x):\n  if x:\n    return 1\n  return x\nlet a = 1\n"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    ck_assert_int_eq(status_of(texts[i], false), PARSE_ERROR);
    ck_assert_msg(sink.errors == 1, "%zu errors: %s", sink.errors, texts[i]);
  }
}
END_TEST

/* The example of a page: a line of its own, up to the comment that says what it is. */
static void check_example(DiagCode code, const char *line, size_t n, bool right) {
  AstFile *file;
  ParseStatus status = parse_n(line, n, false, &file);
  ck_assert_msg((status == PARSE_OK) == right, "%s: %.*s", diag_name(code), (int)n, line);
  ck_assert_msg(right || sink.v[0]->code == code, "%s: %.*s gives %s", diag_name(code), (int)n,
                line, diag_name(sink.v[0]->code));
}

START_TEST(pages_are_right_about_right_and_wrong) {
  size_t examples = 0;
  for (DiagCode code = 0; code < DIAG_COUNT; code++) {
    if (strncmp(diag_name(code), "E00", 3) != 0)
      continue;
    for (const char *s = diag_page(code); *s; s += strcspn(s, "\n"), s += *s == '\n') {
      size_t n = strcspn(s, "\n");
      bool right = n > 7 && strncmp(s + n - 7, "# right", 7) == 0;
      bool wrong = n > 7 && strncmp(s + n - 7, "# wrong", 7) == 0;
      if (!right && !wrong)
        continue;
      check_example(code, s, n, right);
      examples++;
    }
  }
  ck_assert_uint_ge(examples, 25);
}
END_TEST

/* ---- the formatter ---- */

static const char *format(const AstFile *file) {
  Str s = str_new(arena);
  fmt_format(arena, file, &s);
  return str_text(&s);
}

static void expect_format(const char *text, const char *want) {
  ck_assert_str_eq(format(parse_ok(text)), want);
  ck_assert_str_eq(format(parse_ok(want)), want);
}

START_TEST(layout_is_canonical) {
  expect_format("", "");
  expect_format("let   x=1+2*3", "let x = 1+2*3\n");
  expect_format("let x = a  +  b*c", "let x = a + b*c\n");
  expect_format("f( a,b = 1 )", "f(a, b = 1)\n");
  expect_format("x [ a : b , : : 2 , k : + n ]=1", "x[a:b, ::2, k:+n] = 1\n");
  expect_format("if a{f()}\nelse{g()}", "if a { f() } else { g() }\n");
  expect_format("if a {\nf() }", "if a {\n  f()\n}\n");
  expect_format("f();g()\n\n\n\nh()", "f(); g()\n\nh()\n");
  expect_format("fn f(){\nreturn(1)}\ng()", "fn f() {\n  return (1)\n}\n\ng()\n");
  expect_format("fn f(){}\ng()", "fn f() { }\ng()\n");
  expect_format("@exact kernel k(){}", "@exact\nkernel k() { }\n");
  expect_format("lua{ x }", "lua { x }\n");
  expect_format("let x = not a and-b", "let x = not a and -b\n");
}
END_TEST

START_TEST(long_lines_break_outside_in) {
  expect_format("let result = some_function(first_argument_name, second_argument_name, "
                "third_argument_name(nested, call))",
                "let result = some_function(\n  first_argument_name,\n  second_argument_name,\n"
                "  third_argument_name(nested, call)\n)\n");
  expect_format("let total = a_rather_long_name_of_a_value + another_rather_long_name_of_a_value + "
                "a_third_long_name * b",
                "let total = a_rather_long_name_of_a_value +\n"
                "  another_rather_long_name_of_a_value +\n  a_third_long_name * b\n");
  expect_format("f(\n a, b)", "f(\n  a,\n  b\n)\n");
}
END_TEST

START_TEST(comments_stay) {
  expect_format("#!/x\n# a\n\n## d\nfn f() { }  # t   \n", "#!/x\n# a\n\n## d\nfn f() { }  # t\n");
  expect_format("f(a, # one\n  # two\n  b # three\n  # four\n)",
                "f(\n  a,  # one\n  # two\n  b  # three\n  # four\n)\n");
  expect_format("let x = a + # why\n  b", "# why\nlet x = a + b\n");
  expect_format("f() # a\ngh() # b\n\ni() # c\n", "f()   # a\ngh()  # b\n\ni()  # c\n");
  expect_format("if a { # b\n# c\n}", "if a {  # b\n  # c\n}\n");
  expect_format("## d\nlet x = # e\n  1", "# e\n## d\nlet x = 1\n");
  expect_format("if a { }\n# b\nelse { f() }", "if a { } else {\n  # b\n  f()\n}\n");
}
END_TEST

/* What fmt_format promises of any text that parses. */
static void check_format(const AstFile *file, const char *name) {
  const char *tree = tree_of(file), *once = format(file);
  AstFile *again = parse_ok(once);
  ck_assert_msg(strcmp(tree, tree_of(again)) == 0, "%s: another tree", name);
  ck_assert_msg(strcmp(once, format(again)) == 0, "%s: not idempotent:\n%s", name, once);
  ck_assert_msg(file->tokens.ncomments == again->tokens.ncomments, "%s: comments", name);
}

START_TEST(every_construct_survives_formatting) {
  static const char *const dirs[] = {"tests/lang", "examples", "stdlib"};
  size_t files = 0;
  for (size_t i = 0; i < 3; i++) {
    const char *path = arena_printf(arena, "%s/%s", TILESH_SRCDIR, dirs[i]);
    DIR *dir = opendir(path);
    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
      size_t n = strlen(e->d_name);
      const char *why;
      if (n < 5 || strcmp(e->d_name + n - 5, ".tile") != 0)
        continue;
      char *text = io_read_file(arena, arena_printf(arena, "%s/%s", path, e->d_name), &n, &why);
      ck_assert_ptr_nonnull(text);
      check_format(parse_ok(text), e->d_name);
      files++;
    }
    if (dir)
      closedir(dir);
  }
  ck_assert_uint_ge(files, 14);
}
END_TEST

static uint32_t seed;

static uint32_t draw(uint32_t n) {
  seed = seed * 1664525 + 1013904223;
  return (seed >> 8) % n;
}

/* Words and operators in any order, mostly wrong: no crash, an end, and what parses is formatted.
 */
START_TEST(any_tokens_can_be_parsed) {
  static const char *const more[] = {"x",     "f",      "(",  ")",  "[", "]", "{",   "}",
                                     "1",     "\"s\"",  "\n", "\n", "=", ",", "f()", "if a { f() }",
                                     "# c\n", "## d\n", ";",  "2.5"};
  size_t ok = 0;
  for (int round = 0; round < 20000; round++) {
    seed = (uint32_t)round;
    Str s = str_new(arena);
    for (uint32_t k = draw(14) + 1; k > 0; k--) {
      TokenKind kind = (TokenKind)draw(T_COUNT);
      const char *word = draw(3) ? NULL : lex_spelling(kind);
      str_add(&s, word ? word : more[draw(sizeof more / sizeof *more)]);
      str_add(&s, draw(5) ? " " : "");
    }
    AstFile *file;
    parse_n(s.s, s.n, true, &file);
    if (parse_n(s.s, s.n, false, &file) == PARSE_OK) {
      check_format(file, s.s);
      ok++;
    }
    arena_reset(arena);
  }
  ck_assert_uint_ge(ok, 300);
}
END_TEST

START_TEST(any_bytes_can_be_parsed) {
  size_t n = 1 << 20;
  char *text = arena_alloc(arena, n);
  for (size_t i = 0; i < n; i++)
    text[i] = (char)draw(256);
  AstFile *file;
  ck_assert_int_eq(parse_n(text, n, false, &file), PARSE_ERROR);
  ck_assert_uint_ge(sink.n, 1);
}
END_TEST

static void add_name(const char *name, void *ctx) {
  str_addf(ctx, "%s ", name);
}

START_TEST(names_of_expressions) {
  static const char *const cases[][2] = {
      {"1 + 2.0", ""},
      {"-a ** b + a", "a b a "},
      {"0 <= i < n and not s", "i n s "},
      {"x if c else y", "x c y "},
      {"f(a, axis = k)", "f a k "},
      {"k[BM = n](a)", "k n a "},
      {"t[i, j:k, l:+m, None]", "t i j k l m "},
      {"m.f(x.T.to(d))", "m x d "},
      {"(a, [b, \"c\"], nil, true)", "a b "},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Str s = str_new(arena);
    ast_mentions(value(cases[i][0]), add_name, &s);
    ck_assert_str_eq(str_text(&s), cases[i][1]);
  }
  Str none = str_new(arena);
  ast_mentions(NULL, add_name, &none);
  ck_assert_uint_eq(none.n, 0);
}
END_TEST

int main(void) {
  const TTest *const tests[] = {operators_group_as_the_page_says,
                                indices_are_told_apart,
                                arguments_are_split,
                                tuples_and_parentheses_differ,
                                names_are_interned,
                                spans_cover_the_text,
                                a_kernel_has_its_parts,
                                docs_belong_to_the_next_line_only,
                                imports_get_names,
                                unfinished_text_is_pending_at_the_prompt,
                                wrong_text_is_not_pending,
                                a_fault_in_an_open_block_is_one_error_at_the_prompt,
                                the_prompt_takes_any_expression,
                                nesting_is_bounded,
                                blocks_are_bounded,
                                long_flat_texts_are_fine,
                                at_most_twenty_errors_are_kept,
                                one_mistake_is_one_error,
                                pages_are_right_about_right_and_wrong,
                                layout_is_canonical,
                                long_lines_break_outside_in,
                                comments_stay,
                                every_construct_survives_formatting,
                                any_tokens_can_be_parsed,
                                any_bytes_can_be_parsed,
                                names_of_expressions,
                                NULL};
  return run_suite_between("parser", tests, before, after);
}
