/* check_base_str.c: growing text, UTF-8 and its columns. */
#include "base_suite.h"

START_TEST(pieces) {
  Arena *a = arena_new(NULL, "test");
  Str s = str_new(a);
  ck_assert_str_eq(str_text(&s), "");
  str_add(&s, "ab");
  str_addn(&s, "cde", 2);
  str_addc(&s, '!');
  str_addf(&s, "%d", 42);
  str_pad(&s, '-', 3);
  str_pad(&s, '-', 0);
  ck_assert_str_eq(s.s, "abcd!42---");
  ck_assert_uint_eq(s.n, 10);
  str_clear(&s);
  ck_assert_str_eq(str_text(&s), "");
  str_addn(&s, "", 0);
  ck_assert_str_eq(s.s, "");
  str_addn(&s, "a\0b", 3);
  ck_assert_uint_eq(s.n, 3);
  arena_free(a);
}
END_TEST

START_TEST(long_text) {
  Arena *a = arena_new(NULL, "test");
  Str s = str_new(a);
  for (int i = 0; i < 100000; i++)
    str_addf(&s, "%05d", i);
  ck_assert_uint_eq(s.n, 500000);
  ck_assert_uint_eq(strlen(s.s), 500000);
  ck_assert_int_eq(strncmp(s.s + 5 * 77777, "77777", 5), 0);
  arena_free(a);
}
END_TEST

static size_t width(const char *s) {
  return str_width(s, strlen(s));
}

START_TEST(columns) {
  ck_assert_uint_eq(width(""), 0);
  ck_assert_uint_eq(width("abc"), 3);
  ck_assert_uint_eq(width("äöü"), 3);
  ck_assert_uint_eq(width("世界"), 4);
  ck_assert_uint_eq(width("e\u0301"), 1); /* combining acute */
  ck_assert_uint_eq(width("한글"), 4);
  ck_assert_uint_eq(width("ｆ"), 2);
  ck_assert_uint_eq(width("\U0001F600"), 2);
  ck_assert_uint_eq(width("a\u200Bb"), 2);
  ck_assert_uint_eq(width("\xFF\xFE"), 2); /* not UTF-8: one each */
  ck_assert_uint_eq(width("\xE4\xB8"), 2); /* cut short */
  ck_assert_uint_eq(str_width("世", 2), 2);
}
END_TEST

START_TEST(utf8_or_not) {
  const char *good[] = {"", "abc", "ä", "\xF4\x8F\xBF\xBF", "\xEF\xBF\xBF", "\xED\x9F\xBF"};
  const char *bad[] = {"\x80",
                       "\xC0\x80",
                       "\xC1\xBF",
                       "\xE0\x80\x80",
                       "\xED\xA0\x80",
                       "\xF0\x80\x80\x80",
                       "\xF4\x90\x80\x80",
                       "\xF5\x80\x80\x80",
                       "\xE4\xB8",
                       "\xC3",
                       "\xC3(",
                       "\xFF"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    ck_assert_msg(str_is_utf8(good[i], strlen(good[i])), "good %zu", i);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    ck_assert_msg(!str_is_utf8(bad[i], strlen(bad[i])), "bad %zu", i);
}
END_TEST

/* Every code point, encoded here by the definition. */
START_TEST(every_code_point) {
  for (uint32_t c = 0; c < 0x110000; c++) {
    char s[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (n == 1) {
      s[0] = (char)c;
    } else {
      static const unsigned lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
      s[0] = (char)(lead[n] | c >> (6 * (n - 1)));
      for (size_t i = 1; i < n; i++)
        s[i] = (char)(0x80 | (c >> (6 * (n - 1 - i)) & 0x3F));
    }
    bool surrogate = c >= 0xD800 && c < 0xE000;
    ck_assert(str_is_utf8(s, n) == !surrogate);
    ck_assert_uint_le(str_width(s, n), surrogate ? 3 : 2);
  }
}
END_TEST

START_TEST(ends) {
  ck_assert(str_ends_in("a.tile", ".tile") && str_ends_in("x.tile.tile", ".tile"));
  ck_assert(!str_ends_in(".tile", ".tile")); /* a suffix alone is a name */
  ck_assert(!str_ends_in("a.tiles", ".tile") && !str_ends_in("e", ".tile"));
}
END_TEST

int main(void) {
  const TTest *const tests[] = {pieces,      long_text,        ends, columns,
                                utf8_or_not, every_code_point, NULL};
  return run_suite("base_str", tests);
}
