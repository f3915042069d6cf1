/* arena.c: memory named by lifetime.
 *
 * In: sizes. Out: zeroed blocks that live until the arena is reset or freed. Always holds: the
 * bytes of a chunk above its cursor are zero, so a fresh block needs no clearing; a block of BIG
 * bytes or more has a chunk of its own, so that the system's untouched zero pages stay untouched.
 * Under AddressSanitizer everything not handed out is poisoned, with a gap after each block.
 * Tests: tests/unit/check_base_arena.c.
 */
#include "arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif
#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, n) ASAN_POISON_MEMORY_REGION((p), (n))
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION((p), (n))
enum { GAP = 16 };
/* A size nobody has is an error of the program that runs here, not of this one. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
  return "allocator_may_return_null=1";
}
#else
#ifdef __SANITIZE_THREAD__
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) {
  return "allocator_may_return_null=1";
}
#endif
#define POISON(p, n) ((void)(p), (void)(n))
#define UNPOISON(p, n) ((void)(p), (void)(n))
enum { GAP = 0 };
#endif

enum {
  ALIGN = 16,
  BIG = 4096, /* from here on aligned to a cache line, in a chunk of its own */
  BIG_ALIGN = 64,
  FIRST_CHUNK = 8192,
  LAST_CHUNK = 262144
};

typedef struct Chunk Chunk;
struct Chunk {
  Chunk *next;
  char *data;  /* aligned start of the usable bytes */
  size_t size; /* usable bytes */
  size_t used; /* cursor, from data */
};

/* Small blocks fill the head of one list; blocks of BIG bytes stand in another. */
struct Arena {
  Guard *guard;
  const char *name;
  Chunk *small; /* the head is the one being filled */
  Chunk *big;   /* one block each, the newest first */
  size_t bytes;
  size_t next_size;
};

/* Without a boundary there is nobody to tell: the caller asked for it by passing no guard. _Exit,
 * not exit, because handlers may want memory too. */
static _Noreturn void out_of_memory(Guard *guard, const char *name) {
  if (guard)
    guard_raise(guard, ST_NOMEM);
  fprintf(stderr, "tilesh: out of memory (%s)\n", name);
  _Exit(2);
}

/* The arena itself is not in a chunk, so that a reset leaves it alone. */
Arena *arena_new(Guard *guard, const char *name) {
  Arena *a = calloc(1, sizeof *a);
  if (!a)
    out_of_memory(guard, name);
  a->guard = guard;
  a->name = name;
  a->next_size = FIRST_CHUNK;
  return a;
}

/* A zeroed chunk of `size` usable bytes whose data is aligned to BIG_ALIGN. */
static Chunk *chunk_new(Arena *a, size_t size) {
  size_t extra = sizeof(Chunk) + BIG_ALIGN;
  Chunk *c = size <= SIZE_MAX / 2 ? calloc(1, size + extra) : NULL;
  if (!c)
    out_of_memory(a->guard, a->name);
  uintptr_t start = ((uintptr_t)(c + 1) + BIG_ALIGN - 1) & ~(uintptr_t)(BIG_ALIGN - 1);
  c->data = (char *)start;
  c->size = size;
  POISON(c->data, size);
  return c;
}

/* The allocator must be able to write into what it gets back. */
static void chunk_free(Chunk *c) {
  UNPOISON(c->data, c->size);
  free(c);
}

/* A whole list. */
static void chunks_free(Chunk *c) {
  while (c) {
    Chunk *next = c->next;
    chunk_free(c);
    c = next;
  }
}

void arena_reset(Arena *a) {
  chunks_free(a->big);
  a->big = NULL;
  a->bytes = 0;
  Chunk *keep = a->small;
  if (!keep)
    return;
  /* The newest chunk is the largest; keeping it makes a line-by-line arena cheap. */
  chunks_free(keep->next);
  keep->next = NULL;
  UNPOISON(keep->data, keep->used);
  memset(keep->data, 0, keep->used);
  keep->used = 0;
  POISON(keep->data, keep->size);
}

/* Every chunk, then the arena; its blocks are gone. */
void arena_free(Arena *a) {
  if (!a)
    return;
  chunks_free(a->big);
  chunks_free(a->small);
  free(a);
}

Guard *arena_guard(const Arena *a) {
  return a->guard;
}

void arena_set_guard(Arena *a, Guard *guard) {
  a->guard = guard;
}

size_t arena_bytes(const Arena *a) {
  return a->bytes;
}

/* What a small block takes: a multiple of ALIGN, with the gap that lets the sanitizer see a step
 * beyond the end. */
static size_t rounded(size_t size) {
  return (size + GAP + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

/* A block with a chunk of its own, first in the list. */
static void *alloc_big(Arena *a, size_t size) {
  Chunk *c = chunk_new(a, size);
  c->next = a->big;
  a->big = c;
  c->used = size;
  UNPOISON(c->data, size);
  return c->data;
}

/* The rest of a chunk that is too short for a block is left: chunks are much larger than blocks. */
void *arena_alloc(Arena *a, size_t size) {
  if (size >= BIG) {
    void *p = alloc_big(a, size);
    a->bytes += size;
    return p;
  }
  size_t need = rounded(size ? size : 1);
  Chunk *c = a->small;
  if (!c || c->size - c->used < need) {
    c = chunk_new(a, a->next_size);
    c->next = a->small;
    a->small = c;
    if (a->next_size < LAST_CHUNK)
      a->next_size *= 2;
  }
  void *p = c->data + c->used;
  c->used += need;
  a->bytes += size;
  UNPOISON(p, size);
  return p;
}

/* An overflow is a size that nobody has, so it ends as running out of memory does. */
void *arena_calloc(Arena *a, size_t n, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(n, size, &bytes))
    out_of_memory(a->guard, a->name);
  return arena_alloc(a, bytes);
}

void *arena_copy(Arena *a, const void *p, size_t size) {
  void *copy = arena_alloc(a, size);
  if (size)
    memcpy(copy, p, size);
  return copy;
}

/* Grows the newest small block where it stands; false where it cannot. */
static bool grow_in_place(Arena *a, void *p, size_t old_size, size_t new_size) {
  Chunk *c = a->small;
  size_t had = rounded(old_size ? old_size : 1), need = rounded(new_size);
  if (!c || old_size >= BIG || new_size >= BIG || (char *)p + had != c->data + c->used)
    return false;
  if (need - had > c->size - c->used)
    return false;
  c->used += need - had;
  a->bytes += new_size - old_size;
  UNPOISON(p, new_size);
  return true;
}

/* Three ways: it still fits, it is the newest small block, or it moves. A big block that moves
 * gives its chunk back if that was the newest, so that growing by doubling holds old and new only.
 */
void *arena_grow(Arena *a, void *p, size_t old_size, size_t new_size) {
  if (new_size <= old_size || (p && grow_in_place(a, p, old_size, new_size)))
    return p ? p : arena_alloc(a, new_size);
  Chunk *before = a->big;
  void *q = arena_alloc(a, new_size);
  if (old_size)
    memcpy(q, p, old_size);
  if (before && before->data == p && a->big != before) { /* its only block has moved away */
    a->big->next = before->next;
    a->bytes -= before->used;
    chunk_free(before);
  }
  return q;
}

/* The NUL is there already: blocks are zeroed. */
char *arena_strndup(Arena *a, const char *s, size_t n) {
  char *copy = arena_alloc(a, n + 1);
  if (n)
    memcpy(copy, s, n);
  return copy;
}

char *arena_strdup(Arena *a, const char *s) {
  return arena_strndup(a, s, strlen(s));
}

/* Formats twice, first to learn the length. */
char *arena_vprintf(Arena *a, const char *fmt, va_list ap) {
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  size_t size = n < 0 ? 1 : (size_t)n + 1;
  char *s = arena_alloc(a, size);
  if (n > 0)
    vsnprintf(s, size, fmt, again);
  va_end(again);
  return s;
}

char *arena_printf(Arena *a, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  char *s = arena_vprintf(a, fmt, ap);
  va_end(ap);
  return s;
}
