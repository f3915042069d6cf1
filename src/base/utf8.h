/* utf8.h: one character at a time; private to src/base. */
#ifndef TILESH_BASE_UTF8_H
#define TILESH_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Decodes the character at s (n > 0 bytes are there). Returns its bytes, or 0 where it is not
 * UTF-8 (cut short, overlong, a surrogate, beyond U+10FFFF). */
size_t utf8_next(const char *s, size_t n, uint32_t *code);
/* Columns of a character on a terminal: 0, 1 or 2; control characters have none. */
size_t utf8_columns(uint32_t code);

#endif
