/* str.h: text that carries its length and grows in an arena; numbers independent of the locale. */
#ifndef TILESH_BASE_STR_H
#define TILESH_BASE_STR_H

#include <stdio.h>

#include "arena.h"

/* s is always NUL-terminated once anything was added; s is NULL while n is 0 and nothing was. */
typedef struct Str {
  Arena *arena;
  char *s;
  size_t n, cap;
} Str;

/* An empty text that grows in the arena; clear makes it empty again and keeps its room. */
Str str_new(Arena *a);
void str_clear(Str *s);
/* Each adds to the end: a NUL-terminated text, n bytes of any kind, a character, what printf makes.
 */
void str_add(Str *s, const char *text);
void str_addn(Str *s, const char *text, size_t n);
void str_addc(Str *s, char c);
void str_addf(Str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void str_vaddf(Str *s, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
void str_pad(Str *s, char c, size_t n); /* n times c */
const char *str_text(const Str *s);     /* never NULL */

/* The shortest decimal text that reads back as the same double (or float): "0.1", "1e-05", "3.0",
 * "inf", "-inf", "nan". Always has a point, an exponent, or is a word. */
void str_add_f64(Str *s, double x);
void str_add_f32(Str *s, float x);
/* Reads a double at text, whatever the locale; *end is set past it. */
double str_read_f64(const char *text, const char **end);

/* Columns that n bytes of UTF-8 take on a terminal (wide characters 2, combining 0). */
size_t str_width(const char *s, size_t n);
/* Whether text is something and then `end`, as a file name and its suffix. */
bool str_ends_in(const char *text, const char *end);
/* Whether n bytes are well-formed UTF-8. */
bool str_is_utf8(const char *s, size_t n);

#endif
