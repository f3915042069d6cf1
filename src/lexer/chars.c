/* chars.c: UTF-8, escapes, look-alike characters, and the end of a Lua block.
 *
 * In: bytes and a length. Out: see chars.h. Nothing is read past the length given.
 * None of this asks the locale: a program means the same everywhere.
 * Tests: tests/unit/check_lexer.c.
 */
#include "chars.h"

#include <string.h>

#include "base/base.h"

/* ASCII is nearly everything, so it is answered without a look at the table of UTF-8. */
size_t lex_utf8_length(const char *s, size_t n) {
  unsigned char lead = (unsigned char)*s;
  size_t len = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  return len == 1 || (n >= len && str_is_utf8(s, len)) ? len : 0;
}

/* Lead byte by length, then six bits a byte from the end. */
size_t lex_utf8_write(uint32_t c, char out[4]) {
  if (c < 0x80) {
    out[0] = (char)c;
    return 1;
  }
  size_t len = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  for (size_t i = len - 1; i > 0; i--, c >>= 6)
    out[i] = (char)(0x80 | (c & 0x3F));
  out[0] = (char)(lead[len] | c);
  return len;
}

/* `count` hex digits at s; false, with *len the digits that are there, if some are missing. */
static bool hex_digits(const char *s, size_t n, size_t count, size_t *len, uint32_t *value) {
  *value = 0;
  for (*len = 0; *len < count; ++*len) {
    int d = *len < n ? lex_hex_value(s[*len]) : -1;
    if (d < 0)
      return false;
    *value = *value * 16 + (uint32_t)d;
  }
  return true;
}

/* The length is found for wrong escapes too, so that one fault does not become several. */
bool lex_escape(const char *s, size_t n, size_t *len, uint32_t *value) {
  static const char plain[] = "n\nt\tr\r0\0\\\\\"\"";
  *len = 1;
  if (n < 2 || lex_is_line_end(s[1]))
    return false;
  for (size_t i = 0; i + 1 < sizeof plain; i += 2) {
    if (s[1] == plain[i]) {
      *len = 2;
      *value = (unsigned char)plain[i + 1];
      return true;
    }
  }
  if (s[1] != 'x' && s[1] != 'u') {
    size_t c = lex_utf8_length(s + 1, n - 1);
    *len = 1 + (c ? c : 1);
    return false;
  }
  size_t read = 0;
  bool ok = hex_digits(s + 2, n - 2, s[1] == 'x' ? 2 : 4, &read, value);
  *len = 2 + read;
  bool surrogate = s[1] == 'u' && *value >= 0xD800 && *value <= 0xDFFF;
  return ok && !surrogate;
}

/* Searched only for characters that are faults anyway; order does not matter. */
const Lookalike *lex_lookalike(const char *s) {
  static const Lookalike table[] = {
      /* quotation marks of word processors and of other languages */
      {"\xe2\x80\x9c", "a typographic quotation mark", "write `\"`"},
      {"\xe2\x80\x9d", "a typographic quotation mark", "write `\"`"},
      {"\xe2\x80\x9e", "a typographic quotation mark", "write `\"`"},
      {"\xe2\x80\x98", "a typographic quotation mark", "write `\"`"},
      {"\xe2\x80\x99", "a typographic quotation mark", "write `\"`"},
      {"\xc2\xab", "a quotation mark of another kind", "write `\"`"},
      {"\xc2\xbb", "a quotation mark of another kind", "write `\"`"},
      /* signs of mathematics */
      {"\xc3\x97", "a multiplication sign", "write `*`"},
      {"\xc2\xb7", "a middle dot", "write `*`"},
      {"\xe2\x8b\x85", "a dot operator", "write `*`"},
      {"\xc3\xb7", "a division sign", "write `/`, or `//` for integers"},
      {"\xe2\x88\x92", "a minus sign of another kind", "write `-`"},
      {"\xe2\x80\x93", "a dash", "write `-`"},
      {"\xe2\x80\x94", "a dash", "write `-`"},
      {"\xe2\x89\xa4", "a sign for less or equal", "write `<=`"},
      {"\xe2\x89\xa5", "a sign for greater or equal", "write `>=`"},
      {"\xe2\x89\xa0", "a sign for not equal", "write `!=`"},
      {"\xe2\x86\x92", "an arrow of another kind", "write `->`"},
      {"\xe2\x88\x9e", "a sign for infinity", "write `inf`"},
      {"\xe2\x80\xa6", "an ellipsis", "write what is left out"},
      /* wide forms of East Asian keyboards */
      {"\xef\xbc\x88", "a wide bracket", "write `(`"},
      {"\xef\xbc\x89", "a wide bracket", "write `)`"},
      {"\xef\xbc\x8c", "a wide comma", "write `,`"},
      {"\xef\xbc\x9b", "a wide semicolon", "write `;`"},
      {"\xef\xbc\x9a", "a wide colon", "write `:`"},
      /* spaces that are none of ours, mostly from web pages */
      {"\xc2\xa0", "a no-break space", "write an ordinary space"},
      {"\xe3\x80\x80", "a wide space", "write an ordinary space"},
      {"\xe2\x80\x8b", "an invisible space", "delete it"},
      {"\xef\xbb\xbf", "a byte order mark in the text", "delete it"},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    if (strncmp(s, table[i].utf8, strlen(table[i].utf8)) == 0)
      return &table[i];
  }
  return NULL;
}

/* Where a Lua long bracket (`[[`, `[=[`) opens at s[*pos], moves past its end, or to n. */
static bool lua_long_bracket(const char *s, size_t n, size_t *pos) {
  size_t level = 0, p = *pos + 1;
  while (p < n && s[p] == '=')
    p++, level++;
  if (*pos >= n || s[*pos] != '[' || p >= n || s[p] != '[')
    return false;
  for (p++; p < n; p++) {
    size_t q = p + 1;
    if (s[p] != ']')
      continue;
    while (q < n && s[q] == '=' && q - p <= level)
      q++;
    if (q < n && s[q] == ']' && q - p - 1 == level) {
      *pos = q + 1;
      return true;
    }
  }
  *pos = n;
  return true;
}

/* A long comment ends with its bracket, a short one with its line. */
static void lua_comment(const char *s, size_t n, size_t *pos) {
  *pos += 2;
  if (lua_long_bracket(s, n, pos))
    return;
  while (*pos < n && !lex_is_line_end(s[*pos]))
    ++*pos;
}

/* A quoted Lua string; an unescaped line end closes it too (Lua will say what is wrong). */
static void lua_string(const char *s, size_t n, size_t *pos) {
  char quote = s[(*pos)++];
  while (*pos < n && s[*pos] != quote && !lex_is_line_end(s[*pos])) {
    bool z = s[*pos] == '\\' && *pos + 1 < n && s[*pos + 1] == 'z';
    *pos += s[*pos] == '\\' && *pos + 1 < n ? 2 : 1;
    while (z && *pos < n && (lex_is_space(s[*pos]) || lex_is_line_end(s[*pos])))
      ++*pos;
  }
  if (*pos < n)
    ++*pos;
}

/* Only what can hide a brace is looked at; everything else of Lua is Lua's business. */
bool lex_lua_end(const char *s, size_t n, size_t *pos) {
  size_t depth = 1;
  while (*pos < n) {
    char c = s[*pos];
    if (c == '-' && *pos + 1 < n && s[*pos + 1] == '-') {
      lua_comment(s, n, pos);
      continue;
    }
    if (c == '"' || c == '\'') {
      lua_string(s, n, pos);
      continue;
    }
    if (c == '[' && lua_long_bracket(s, n, pos))
      continue;
    depth += c == '{';
    if (c == '}' && --depth == 0)
      return true;
    ++*pos;
  }
  return false;
}
