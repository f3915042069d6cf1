/* str.c: text that carries its length and grows in an arena.
 *
 * In: pieces of text. Out: one NUL-terminated text, which may hold NUL bytes inside. Always holds:
 * s[n] is NUL once anything was added. Numbers are in num.c, UTF-8 in utf8.c, files in io.c.
 * Tests: tests/unit/check_base_str.c.
 */
#include "str.h"

#include <string.h>

/* Nothing is allocated until something is added. */
Str str_new(Arena *a) {
  Str s = {.arena = a};
  return s;
}

/* Keeps the room. */
void str_clear(Str *s) {
  s->n = 0;
  if (s->s)
    s->s[0] = '\0';
}

/* Room for `more` bytes and a NUL. */
static void reserve(Str *s, size_t more) {
  size_t need;
  if (__builtin_add_overflow(s->n, more, &need) || need == SIZE_MAX)
    need = SIZE_MAX - 1; /* the arena reports it */
  if (need + 1 <= s->cap)
    return;
  size_t cap = s->cap < 32 ? 64 : s->cap + s->cap / 2;
  if (cap < need + 1)
    cap = need + 1;
  s->s = arena_grow(s->arena, s->s, s->cap, cap);
  s->cap = cap;
}

/* text may lie inside s only as long as nothing grows: callers pass other text. */
void str_addn(Str *s, const char *text, size_t n) {
  reserve(s, n);
  if (n)
    memcpy(s->s + s->n, text, n);
  s->n += n;
  s->s[s->n] = '\0';
}

void str_add(Str *s, const char *text) {
  str_addn(s, text, strlen(text));
}

void str_addc(Str *s, char c) {
  str_addn(s, &c, 1);
}

/* Also the way to make room that is then written directly. */
void str_pad(Str *s, char c, size_t n) {
  reserve(s, n);
  memset(s->s + s->n, c, n);
  s->n += n;
  s->s[s->n] = '\0';
}

/* Formats twice, first to learn the length, so that no buffer is ever too short. */
void str_vaddf(Str *s, const char *fmt, va_list ap) {
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  if (n >= 0) {
    reserve(s, (size_t)n);
    vsnprintf(s->s + s->n, (size_t)n + 1, fmt, again);
    s->n += (size_t)n;
  }
  va_end(again);
}

void str_addf(Str *s, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  str_vaddf(s, fmt, ap);
  va_end(ap);
}

const char *str_text(const Str *s) {
  return s->s ? s->s : "";
}

bool str_ends_in(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n > m && strcmp(text + n - m, end) == 0;
}
