/* check_lexer.c: tokens, line ends, values of literals, comments, faults. */
#include "base_suite.h"

#include <math.h>
#include <string.h>

#include "lexer/lexer.h"

static Arena *arena;

static void before(void) {
  arena = arena_new(NULL, "test");
}
static void after(void) {
  arena_free(arena);
}

static Tokens lex_n(const char *text, size_t n) {
  Tokens t = lex_file(arena, src_new(arena, "x.tile", text, n));
  ck_assert_uint_ge(t.n, 1);
  ck_assert_uint_eq(t.v[t.n - 1].kind, T_EOF);
  uint32_t end = 0;
  for (size_t i = 0; i < t.n; i++) {
    ck_assert_uint_ge(t.v[i].begin, end);
    ck_assert_uint_ge(t.v[i].end, t.v[i].begin);
    end = t.v[i].end;
  }
  ck_assert_uint_le(end, n);
  return t;
}

static Tokens lex(const char *text) {
  return lex_n(text, strlen(text));
}

/* The kinds of a text's tokens are those listed, T_EOF last. */
static void expect_kinds(const char *text, const TokenKind *kinds) {
  Tokens t = lex(text);
  for (size_t i = 0; i < t.n; i++)
    ck_assert_msg(t.v[i].kind == kinds[i], "%s: token %zu is %s", text, i,
                  lex_describe((TokenKind)t.v[i].kind));
}

START_TEST(every_word_and_operator_is_one_token) {
  for (TokenKind k = 0; k < T_COUNT; k++) {
    const char *s = lex_spelling(k);
    if (!s)
      continue;
    Tokens t = lex(s);
    ck_assert_msg(t.v[0].kind == k && t.v[0].end == strlen(s), "%s", s);
    ck_assert_uint_eq(t.nfaults, 0);
  }
}
END_TEST

START_TEST(the_longest_operator_wins) {
  expect_kinds("a<<=b<<c<=d<e", (TokenKind[]){T_NAME, T_SHL_ASSIGN, T_NAME, T_SHL, T_NAME, T_LE,
                                              T_NAME, T_LT, T_NAME, T_EOF});
  expect_kinds("a//=b//c/d**e*f->g-h",
               (TokenKind[]){T_NAME, T_FLOORDIV_ASSIGN, T_NAME, T_FLOORDIV, T_NAME, T_SLASH, T_NAME,
                             T_POW, T_NAME, T_STAR, T_NAME, T_ARROW, T_NAME, T_MINUS, T_NAME,
                             T_EOF});
  expect_kinds("x[:+n]:", (TokenKind[]){T_NAME, T_LBRACKET, T_COLON, T_PLUS, T_NAME, T_RBRACKET,
                                        T_COLON, T_EOF});
}
END_TEST

START_TEST(words_are_whole_names) {
  expect_kinds("kernels kernel _if if_ None none",
               (TokenKind[]){T_NAME, T_KERNEL, T_NAME, T_NAME, T_NONE, T_NAME, T_EOF});
}
END_TEST

START_TEST(integers_have_their_values) {
  static const struct {
    const char *text;
    uint64_t value;
  } rows[] = {{"0", 0},
              {"42", 42},
              {"1_000", 1000},
              {"0xff", 255},
              {"0XDEAD_beef", 0xdeadbeef},
              {"0b101", 5},
              {"0b1_0", 2},
              {"0xffffffffffffffff", UINT64_MAX},
              {"18446744073709551615", UINT64_MAX}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Tokens t = lex(rows[i].text);
    ck_assert_uint_eq(t.v[0].kind, T_INT);
    ck_assert_uint_eq(t.nfaults, 0);
    ck_assert_uint_eq(lex_int(&t, &t.v[0]), rows[i].value);
  }
}
END_TEST

START_TEST(floats_have_their_values) {
  static const struct {
    const char *text;
    double value;
  } rows[] = {{"1.5", 1.5},        {"1e3", 1000},          {"1e-3", 1e-3},
              {"2.5E+10", 2.5e10}, {"1_0.2_5", 10.25},     {"0.1", 0.1},
              {"0.0", 0},          {"4.9e-324", 4.9e-324}, {"1e999", (double)INFINITY}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Tokens t = lex(rows[i].text);
    ck_assert_uint_eq(t.v[0].kind, T_FLOAT);
    ck_assert_uint_eq(t.nfaults, 0);
    ck_assert_double_eq(lex_float(arena, &t, &t.v[0]), rows[i].value);
  }
}
END_TEST

START_TEST(strings_have_their_bytes) {
  Tokens t = lex("\"a\\n\\t\\r\\0\\\\\\\"\\x41\\xfF\\u00e9\\u20ac€#\"");
  size_t n;
  const char *s = lex_string(arena, &t, &t.v[0], &n);
  static const char want[] = "a\n\t\r\0\\\"A\xff\xc3\xa9\xe2\x82\xac\xe2\x82\xac#";
  ck_assert_uint_eq(t.nfaults, 0);
  ck_assert_uint_eq(n, sizeof want - 1);
  ck_assert_mem_eq(s, want, sizeof want);
}
END_TEST

/* Every number, string or character that is wrong in one way, and that way. */
START_TEST(faults_are_found) {
  static const struct {
    const char *text;
    LexFaultKind kind;
  } rows[] = {
      {"$", LEX_CHARACTER},
      {"\x01", LEX_CHARACTER},
      {"é", LEX_CHARACTER},
      {"“", LEX_LOOKALIKE},
      {"\xc2\xa0", LEX_LOOKALIKE},
      {"\xff", LEX_UTF8},
      {"\xc0\x80", LEX_UTF8},
      {"\xed\xa0\x80", LEX_UTF8},
      {"\xe2\x82", LEX_UTF8},
      {"\"\xff\"", LEX_UTF8},
      {"# \xff", LEX_UTF8},
      {"\"abc", LEX_UNCLOSED},
      {"\"abc\\", LEX_ESCAPE},
      {"\"\\q\"", LEX_ESCAPE},
      {"\"\\x4\"", LEX_ESCAPE},
      {"\"\\u00e\"", LEX_ESCAPE},
      {"\"\\ud800\"", LEX_ESCAPE},
      {"'a'", LEX_QUOTE},
      {"1.5f", LEX_NUMBER},
      {"2x", LEX_NUMBER},
      {"0x", LEX_NUMBER},
      {"0b2", LEX_NUMBER},
      {"0xg", LEX_NUMBER},
      {"1e", LEX_NUMBER},
      {"1__0", LEX_UNDERSCORE},
      {"1_", LEX_UNDERSCORE},
      {"0x_1", LEX_UNDERSCORE},
      {"1_.5", LEX_UNDERSCORE},
      {"007", LEX_LEADING_ZERO},
      {"00", LEX_LEADING_ZERO},
      {"1.", LEX_POINT},
      {".5", LEX_POINT},
      {"1.e5", LEX_POINT},
      {"18446744073709551616", LEX_TOO_LARGE},
      {"0x10000000000000000", LEX_TOO_LARGE},
      {"lua { ", LEX_LUA},
      {"lua { \"}", LEX_LUA},
      {"lua { --[[ } ]] ", LEX_LUA},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Tokens t = lex(rows[i].text);
    ck_assert_msg(t.nfaults >= 1 && t.faults[0].kind == rows[i].kind, "%s: %zu faults, kind %d",
                  rows[i].text, t.nfaults, t.nfaults ? (int)t.faults[0].kind : -1);
    ck_assert(t.v[t.faults[0].token].faulty);
  }
}
END_TEST

START_TEST(every_fault_has_words) {
  static const char *const texts[] = {"$ \\ é \x01 “ \xff '",
                                      "\"abc",
                                      "\"\\q \\x1 \\u1 \\ud800\"",
                                      "'a'",
                                      "1.5f 0o1 0xg 2ab",
                                      "1_ 99999999999999999999 1. .5 00",
                                      "lua {"};
  DiagSink sink;
  diag_init(&sink, arena);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    Tokens t = lex(texts[i]);
    for (size_t k = 0; k < t.nfaults; k++) {
      size_t errors = sink.errors;
      lex_report(&t, &t.faults[k], &sink);
      ck_assert_uint_eq(sink.errors, errors + 1);
    }
  }
  ck_assert_uint_ge(sink.errors, 20);
}
END_TEST

/* One letter a token: n where a line end before it ends a statement, l where it only begins a line.
 */
static void expect_lines(const char *text, const char *marks) {
  Tokens t = lex(text);
  ck_assert_uint_eq(t.n, strlen(marks));
  for (size_t i = 0; i < t.n; i++) {
    char got = t.v[i].newline ? 'n' : t.v[i].line_start ? 'l' : '.';
    ck_assert_msg(got == marks[i], "%s: token %zu is %c", text, i, got);
  }
}

START_TEST(lines_go_on_where_they_should) {
  expect_lines("a\nb", "nnn");
  expect_lines("a +\nb", "n.ln");
  expect_lines("a,\nb =\nc ->\nd +=\ne", "n.l.l.l.ln");
  expect_lines("a and\nb or\nnot\nc if\nd else\ne", "n.l.ll.l.ln");
  expect_lines("a\n.b\n-> c\nelse d", "nl.l.l.n");
  expect_lines("a\n\n# c\n  .b", "nl.n");
  expect_lines("a\r\nb\rc", "nnnn");
  expect_lines("(\na\n)", "nnnn");
  expect_lines("{\na;\n}", "nn.nn");
  expect_lines("", "n");
}
END_TEST

START_TEST(comments_are_kept) {
  Tokens t = lex("#!x\n## doc\n  ## too\na ## not\n### nor\n#");
  ck_assert_uint_eq(t.ncomments, 6);
  static const bool doc[] = {false, true, true, false, false, false};
  static const bool own[] = {true, true, true, false, true, true};
  for (size_t i = 0; i < 6; i++) {
    ck_assert_int_eq(t.comments[i].doc, doc[i]);
    ck_assert_int_eq(t.comments[i].own_line, own[i]);
  }
  ck_assert_uint_eq(t.comments[0].end - t.comments[0].begin, 3);
  ck_assert_uint_eq(t.n, 2);
}
END_TEST

START_TEST(lua_ends_where_lua_says) {
  static const char *const texts[] = {
      "lua {}",          "lua { {} }",           "lua { '}' }",     "lua { \"\\\"}\" }",
      "lua { --}\n }",   "lua { --[[ } ]] }",    "lua { [[ } ]] }", "lua { [==[ ]] ]=] } ]==] }",
      "lua { a[b[1]] }", "lua { \"\\z \n }\" }", "lua { '\\\\' }",  "lua\n{ --[=x\n }"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    char *text = arena_printf(arena, "%s\nnext", texts[i]);
    Tokens t = lex(text);
    ck_assert_msg(t.n == 6 && t.v[2].kind == T_LUA_TEXT && t.v[3].kind == T_RBRACE &&
                      t.v[4].kind == T_NAME && t.nfaults == 0,
                  "%s", texts[i]);
    ck_assert_uint_eq(t.v[3].end, strlen(texts[i]));
  }
}
END_TEST

START_TEST(a_byte_order_mark_is_skipped) {
  Tokens t = lex("\xef\xbb\xbflet");
  ck_assert_uint_eq(t.v[0].kind, T_LET);
  ck_assert_uint_eq(t.nfaults, 0);
}
END_TEST

START_TEST(any_bytes_can_be_cut) {
  uint32_t seed = 1;
  char text[300];
  for (int round = 0; round < 3000; round++) {
    size_t n = (size_t)round % sizeof text;
    for (size_t i = 0; i < n; i++) {
      seed = seed * 1664525 + 1013904223;
      text[i] = (char)(seed >> 24);
    }
    lex_n(text, n);
    arena_reset(arena);
  }
}
END_TEST

int main(void) {
  const TTest *const tests[] = {every_word_and_operator_is_one_token,
                                the_longest_operator_wins,
                                words_are_whole_names,
                                integers_have_their_values,
                                floats_have_their_values,
                                strings_have_their_bytes,
                                faults_are_found,
                                every_fault_has_words,
                                lines_go_on_where_they_should,
                                comments_are_kept,
                                lua_ends_where_lua_says,
                                a_byte_order_mark_is_skipped,
                                any_bytes_can_be_cut,
                                NULL};
  return run_suite_between("lexer", tests, before, after);
}
