/* vec.h: growable arrays and hash maps in an arena.
 *
 *   VEC(int) v = {0};  VEC_PUSH(arena, &v, 42);  for (size_t i = 0; i < v.n; i++) use(v.v[i]);
 */
#ifndef TILESH_BASE_VEC_H
#define TILESH_BASE_VEC_H

#include "arena.h"

#define VEC(T)                                                                                     \
  struct {                                                                                         \
    T *v;                                                                                          \
    size_t n, cap;                                                                                 \
  }
#define VEC_PUSH(a, vec, x)                                                                        \
  do {                                                                                             \
    if ((vec)->n == (vec)->cap)                                                                    \
      (vec)->v = vec_grow((a), (vec)->v, &(vec)->cap, sizeof *(vec)->v);                           \
    (vec)->v[(vec)->n++] = (x);                                                                    \
  } while (0)

/* For VEC_PUSH: the elements in a block with room for more, whose number goes to *cap. */
void *vec_grow(Arena *a, void *v, size_t *cap, size_t elem);

/* A map from byte strings to pointers; keys are copied. Iterates in order of insertion. */
typedef struct Map Map;
Map *map_new(Arena *a);
/* The value under a key (NUL-terminated, or n bytes), or NULL. */
void *map_get(const Map *m, const char *key);
void *map_getn(const Map *m, const void *key, size_t n);
/* Sets or replaces; returns the value that was there, or NULL. */
void *map_set(Map *m, const char *key, void *value);
void *map_setn(Map *m, const void *key, size_t n, void *value);
size_t map_count(const Map *m);
/* i from 0 to map_count - 1, in order of insertion. */
const char *map_key(const Map *m, size_t i);
void *map_value(const Map *m, size_t i);

/* Interned names: equal text, equal pointer. */
typedef struct Names Names;
Names *names_new(Arena *a);
/* The one pointer for this text of n bytes, NUL-terminated. */
const char *names_get(Names *names, const char *s, size_t n);

/* The name in candidates closest to `name` (edit distance at most 2 and below half its length),
 * or NULL: for "did you mean". */
const char *names_closest(const char *name, const char *const *candidates, size_t n);

/* A name that other languages have, and how it is written here. */
typedef struct NamePair {
  const char *name, *here;
} NamePair;
/* What one of n pairs says of `name`, or NULL. */
const char *names_here(const char *name, const NamePair *pairs, size_t n);

/* Spreads n bytes over 64 bits; no digest: whoever wants equal hashes finds them. */
uint64_t hash_bytes(const void *p, size_t n, uint64_t seed);

#endif
