/* check_base_diag.c: positions, the sink, and how a diagnostic looks, to the byte. */
#include "base_suite.h"

static Arena *arena;
static DiagSink sink;

static void before(void) {
  arena = arena_new(NULL, "test");
  diag_init(&sink, arena);
}

static void after(void) {
  arena_free(arena);
}

static SrcFile *file_of(const char *text) {
  return src_new(arena, "a.tile", text, strlen(text));
}

/* The span of the k-th (from 0) place where `what` stands. */
static Span span_of(const SrcFile *f, const char *what, int k) {
  const char *p = strstr(f->text, what);
  while (k-- > 0)
    p = strstr(p + 1, what);
  uint32_t begin = (uint32_t)(p - f->text);
  return (Span){f, begin, begin + (uint32_t)strlen(what)};
}

static void expect(const Diag *d, const char *text) {
  Str s = str_new(arena);
  diag_format(d, false, &s);
  ck_assert_str_eq(str_text(&s), text);
}

START_TEST(positions) {
  SrcFile *f = file_of("ab\näöx\n\nlast");
  static const struct {
    uint32_t offset, line, column;
  } cases[] = {{0, 1, 1}, {2, 1, 3}, {3, 2, 1},  {5, 2, 2},  {7, 2, 3},
               {8, 2, 4}, {9, 3, 1}, {10, 4, 1}, {14, 4, 5}, {99, 4, 5}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint32_t line, column;
    src_position(f, cases[i].offset, &line, &column);
    ck_assert_uint_eq(line, cases[i].line);
    ck_assert_uint_eq(column, cases[i].column);
  }
  f->first_line = 40;
  uint32_t line, column;
  src_position(f, 3, &line, &column);
  ck_assert_uint_eq(line, 41);
  ck_assert_uint_eq(src_new(arena, "x", "", 0)->nlines, 1);
  ck_assert_uint_eq(src_new(arena, "x", "a\n", 2)->nlines, 2);
}
END_TEST

START_TEST(line_ends) {
  static const uint32_t starts[] = {0, 2, 6, 8, 9, 11};
  SrcFile *f = file_of("a\rbc\r\nd\n\re\r");
  uint32_t line, column;
  ck_assert_uint_eq(f->nlines, 6);
  for (uint32_t i = 0; i < f->nlines; i++)
    ck_assert_uint_eq(f->lines[i], starts[i]);
  src_position(f, 3, &line, &column);
  ck_assert_uint_eq(line, 2);
  ck_assert_uint_eq(column, 2);
  expect(diag_add(&sink, E0231, (Span){f, 0, 1}, "no"),
         "a.tile:1:1: error[E0231]: no\n   1 | a\n     | ^\n");
  expect(diag_add(&sink, E0231, (Span){f, 2, 4}, "no"),
         "a.tile:2:1: error[E0231]: no\n   2 | bc\n     | ^^\n");
  expect(diag_add(&sink, E0231, (Span){f, 9, 10}, "no"),
         "a.tile:5:1: error[E0231]: no\n   5 | e\n     | ^\n");
  ck_assert(src_breaks("a\rb", 3) && src_breaks("a\n", 2) && src_breaks("\r\n", 2));
  ck_assert(!src_breaks("a\nb", 1) && !src_breaks("", 0));
}
END_TEST

START_TEST(joining) {
  SrcFile *f = file_of("abcdef"), *g = file_of("x");
  Span s = span_join((Span){f, 1, 2}, (Span){f, 4, 5});
  ck_assert_uint_eq(s.begin, 1);
  ck_assert_uint_eq(s.end, 5);
  ck_assert_ptr_eq(span_join((Span){NULL, 0, 0}, (Span){g, 0, 1}).file, g);
  ck_assert_ptr_eq(span_join((Span){f, 0, 1}, (Span){NULL, 0, 0}).file, f);
}
END_TEST

/* The example of the manual. */
START_TEST(main_and_second_span_on_one_line) {
  SrcFile *f = src_new(arena, "matmul.tile", "    acc += As @ Bs\n", 19);
  f->first_line = 9;
  Diag *d = diag_add(&sink, E0231, span_of(f, "As", 0), "As is f16[%d, %d]", 128, 64);
  diag_also(&sink, d, span_of(f, "Bs", 0), NULL);
  diag_hint(&sink, d, "As @ %s", "Bs.T");
  expect(d, "matmul.tile:9:12: error[E0231]: As is f16[128, 64]\n"
            "   9 |     acc += As @ Bs\n"
            "     |            ^^   ~~\n"
            "hint: As @ Bs.T\n");
}
END_TEST

START_TEST(second_span_with_words_elsewhere) {
  SrcFile *f = file_of("let x = 1\nlet y = 2\nlet z = 3\nlet x = 4\n");
  Diag *d = diag_add(&sink, E0231, span_of(f, "x", 1), "again");
  diag_also(&sink, d, span_of(f, "x", 0), "first %s", "here");
  expect(d, "a.tile:4:5: error[E0231]: again\n"
            "   1 | let x = 1\n"
            "     |     ~ first here\n"
            " ...\n"
            "   4 | let x = 4\n"
            "     |     ^\n");
}
END_TEST

START_TEST(words_on_the_line_of_the_caret) {
  SrcFile *f = file_of("a + b\n");
  Diag *d = diag_add(&sink, E0231, span_of(f, "+", 0), "no");
  diag_also(&sink, d, span_of(f, "b", 0), "this is i32");
  expect(d, "a.tile:1:3: error[E0231]: no\n"
            "   1 | a + b\n"
            "     |   ^\n"
            "     |     ~ this is i32\n");
}
END_TEST

START_TEST(other_files_and_no_file) {
  SrcFile *f = file_of("a\n"), *g = src_new(arena, "b.tile", "\n  bb\n", 6);
  Diag *d = diag_add(&sink, E0231, span_of(f, "a", 0), "no");
  diag_also(&sink, d, span_of(g, "bb", 0), "declared here");
  diag_also(&sink, d, (Span){0}, "somewhere");
  expect(d, "a.tile:1:1: error[E0231]: no\n"
            "   1 | a\n"
            "     | ^\n"
            "b.tile:2:3: note: declared here\n"
            "   2 |   bb\n"
            "     |   ~~\n"
            "note: somewhere\n");
  d = diag_add(&sink, E0231, (Span){0}, "nowhere");
  diag_also(&sink, d, (Span){0}, NULL);
  expect(d, "error[E0231]: nowhere\n");
}
END_TEST

START_TEST(empty_spans_and_the_end_of_the_file) {
  SrcFile *f = file_of("ab");
  expect(diag_add(&sink, E0231, (Span){f, 2, 2}, "end"), "a.tile:1:3: error[E0231]: end\n"
                                                         "   1 | ab\n"
                                                         "     |   ^\n");
  expect(diag_add(&sink, E0231, (Span){f, 1, 1}, "in"), "a.tile:1:2: error[E0231]: in\n"
                                                        "   1 | ab\n"
                                                        "     |  ^\n");
  f = file_of("");
  expect(diag_add(&sink, E0231, (Span){f, 0, 0}, "empty"), "a.tile:1:1: error[E0231]: empty\n"
                                                           "   1 | \n"
                                                           "     | ^\n");
  expect(diag_add(&sink, E0231, (Span){f, 70, 90}, "past"), "a.tile:1:1: error[E0231]: past\n"
                                                            "   1 | \n"
                                                            "     | ^\n");
}
END_TEST

START_TEST(tabs_wide_and_combining) {
  SrcFile *f = file_of("\tx\t= 世界 e\u0301 + y\r\n");
  Diag *d = diag_add(&sink, E0231, span_of(f, "x", 0), "no");
  diag_also(&sink, d, span_of(f, "世界", 0), NULL);
  diag_also(&sink, d, span_of(f, "y", 0), NULL);
  expect(d, "a.tile:1:2: error[E0231]: no\n"
            "   1 |     x   = 世界 e\u0301 + y\n"
            "     |     ^     ~~~~     ~\n");
}
END_TEST

START_TEST(control_bytes_never_reach_the_terminal) {
  const char text[] = "a\0b\033[2J\x07\xC2\x9B"
                      "31m\xFF c\n";
  SrcFile *f = src_new(arena, "a\033.tile", text, sizeof text - 1);
  Diag *d = diag_add(&sink, E0231, (Span){f, 15, 16}, "bad %s", "\033[1m");
  expect(d, "a?.tile:1:15: error[E0231]: bad ?[1m\n"
            "   1 | a?b?[2J??31m? c\n"
            "     |               ^\n");
}
END_TEST

START_TEST(spans_over_lines) {
  SrcFile *f = file_of("f(a,\n    b\n  )\n");
  Diag *d = diag_add(&sink, E0231, (Span){f, 0, 14}, "long");
  expect(d, "a.tile:1:1: error[E0231]: long\n"
            "   1 | f(a,\n"
            "     | ^^^^\n"
            "   2 |     b\n"
            "     |     ^\n"
            "   3 |   )\n"
            "     |   ^\n");
  f = file_of("{\na\nb\nc\n}\n");
  d = diag_add(&sink, E0231, (Span){f, 0, 9}, "longer");
  expect(d, "a.tile:1:1: error[E0231]: longer\n"
            "   1 | {\n"
            "     | ^\n"
            " ...\n"
            "   5 | }\n"
            "     | ^\n");
}
END_TEST

START_TEST(wide_line_numbers) {
  SrcFile *f = file_of("x\ny\n");
  f->first_line = 99999;
  Diag *d = diag_add(&sink, E0231, span_of(f, "x", 0), "no");
  diag_also(&sink, d, span_of(f, "y", 0), NULL);
  expect(d, "a.tile:99999:1: error[E0231]: no\n"
            " 99999 | x\n"
            "       | ^\n"
            "100000 | y\n"
            "       | ~\n");
}
END_TEST

/* Whatever the length of a line, what is shown is short, and the caret stands below its byte. */
START_TEST(long_lines_are_windowed) {
  size_t n = 1000000, places[] = {0, 50, 99, 100, 5000, 999900, 999960, 999999};
  char *text = arena_alloc(arena, n + 1);
  memset(text, 'x', n);
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    text[places[i]] = '@';
    SrcFile *f = src_new(arena, "a.tile", text, n);
    uint32_t at = (uint32_t)places[i];
    Str s = str_new(arena);
    diag_format(diag_add(&sink, E0231, (Span){f, at, at + 1}, "no"), false, &s);
    const char *line = strchr(s.s, '\n') + 1, *marks = strchr(line, '\n') + 1;
    ck_assert_int_le(marks - line, 7 + 3 + 100 + 3 + 1);
    ck_assert_uint_eq(strcspn(line, "@"), strcspn(marks, "^"));
    ck_assert(i == 0 || places[i] < 100 || strncmp(line, "   1 | ...x", 11) == 0);
    text[places[i]] = 'x';
  }
}
END_TEST

START_TEST(colour_changes_no_text) {
  SrcFile *f = file_of("let x = 1\nlet x = 4\n");
  Diag *d = diag_add(&sink, E0231, span_of(f, "x", 1), "again");
  diag_also(&sink, d, span_of(f, "x", 0), "first");
  diag_hint(&sink, d, "no");
  Str color = str_new(arena), bare = str_new(arena), stripped = str_new(arena);
  diag_format(d, true, &color);
  diag_format(d, false, &bare);
  int open = 0;
  for (const char *p = color.s; *p; p++) {
    if (*p != '\033') {
      ck_assert(*p != '\n' || !open); /* no line ends coloured */
      str_addc(&stripped, *p);
      continue;
    }
    open = p[2] != '0';
    p = strchr(p, 'm');
  }
  ck_assert_str_eq(stripped.s, bare.s);
  ck_assert_uint_gt(color.n, bare.n);
}
END_TEST

START_TEST(the_sink_is_bounded) {
  SrcFile *f = file_of("x");
  for (int i = 0; i < 100000; i++) {
    Diag *d = diag_add(&sink, E0231, span_of(f, "x", 0), "error %d", i);
    diag_hint(&sink, d, "hint %d", i);
    for (int k = 0; k < 10; k++)
      diag_also(&sink, d, span_of(f, "x", 0), "also %d", k);
  }
  ck_assert_uint_eq(sink.n, 20);
  ck_assert_uint_eq(sink.errors, 100000);
  ck_assert_uint_lt(arena_bytes(arena), 100000);
  ck_assert_str_eq(sink.v[19]->text, "error 19");
  ck_assert_int_eq(sink.v[0]->nnotes, 4);
  Str s = str_new(arena);
  diag_format_all(&sink, false, &s);
  ck_assert_ptr_nonnull(strstr(s.s, "\n99980 more errors not shown\n"));
  diag_clear(&sink);
  ck_assert_uint_eq(sink.n + sink.errors, 0);
  ck_assert_str_eq(diag_add(&sink, E0231, (Span){0}, "fresh")->text, "fresh");
}
END_TEST

START_TEST(every_code_is_found_and_explained) {
  for (int i = 0; i < DIAG_COUNT; i++) {
    DiagCode code = (DiagCode)i, found;
    const char *name = diag_name(code);
    ck_assert_uint_eq(strlen(name), 5);
    ck_assert(diag_find(name, &found) && found == code);
    ck_assert(diag_find(name + 1, &found) && found == code);
    ck_assert(i == 0 || strcmp(diag_name((DiagCode)(i - 1)), name) < 0);
    ck_assert_uint_gt(strlen(diag_title(code)), 5);
    size_t n = strlen(diag_page(code));
    ck_assert_msg(n > 20 && diag_page(code)[n - 1] == '\n', "%s", name);
  }
  DiagCode code;
  ck_assert(diag_find("e231", &code) && code == E0231);
  static const char *const none[] = {"", "E", "x", "E9999", "-1", "E0231x", " 231", "99999999999"};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++)
    ck_assert_msg(!diag_find(none[i], &code), "%s", none[i]);
}
END_TEST

int main(void) {
  const TTest *const tests[] = {positions,
                                line_ends,
                                joining,
                                main_and_second_span_on_one_line,
                                second_span_with_words_elsewhere,
                                words_on_the_line_of_the_caret,
                                other_files_and_no_file,
                                empty_spans_and_the_end_of_the_file,
                                tabs_wide_and_combining,
                                control_bytes_never_reach_the_terminal,
                                spans_over_lines,
                                wide_line_numbers,
                                long_lines_are_windowed,
                                colour_changes_no_text,
                                the_sink_is_bounded,
                                every_code_is_found_and_explained,
                                NULL};
  return run_suite_between("base_diag", tests, before, after);
}
