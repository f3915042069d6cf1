/* chars.h: characters and small texts, whatever the locale; private to src/lexer.
 *
 * Pure functions over bytes, bounded by the length given. Tests: tests/unit/check_lexer.c.
 */
#ifndef TILESH_LEXER_CHARS_H
#define TILESH_LEXER_CHARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool lex_is_digit(char c) {
  return c >= '0' && c <= '9';
}
static inline bool lex_is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || lex_is_digit(c);
}
static inline bool lex_is_space(char c) {
  return c == ' ' || c == '\t' || c == '\f' || c == '\v';
}
/* \r alone ends a line too, so that no form of line end is ever an error. */
static inline bool lex_is_line_end(char c) {
  return c == '\n' || c == '\r';
}
/* 0 to 15, or -1. */
static inline int lex_hex_value(char c) {
  if (lex_is_digit(c))
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Bytes of the valid UTF-8 sequence at s, 1 to 4; 0 if there is none. n > 0. */
size_t lex_utf8_length(const char *s, size_t n);
/* Writes a code point below 0x110000 as UTF-8; returns the number of bytes. */
size_t lex_utf8_write(uint32_t c, char out[4]);

/* Reads the escape whose backslash is at s: *len gets its bytes (never a line end), *value the byte
 * or, for \u, the code point. False if strings have no such escape. */
bool lex_escape(const char *s, size_t n, size_t *len, uint32_t *value);

typedef struct Lookalike {
  const char *utf8;
  const char *what; /* "a multiplication sign" */
  const char *hint; /* "write `*`" */
} Lookalike;
/* The row for the character at s (NUL-terminated), or NULL. */
const Lookalike *lex_lookalike(const char *s);

/* From just after an opening brace of Lua text to its closing brace, which *pos is left at; false,
 * with *pos = n, if there is none. Braces in Lua's strings and comments do not count. */
bool lex_lua_end(const char *s, size_t n, size_t *pos);

#endif
