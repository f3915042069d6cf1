/* vec.c: growable arrays, hash maps in order of insertion, interned names.
 *
 * In: keys of any bytes. Out: their values. Always holds: entries lie densely in order of insertion
 * (the i-th is found without searching); the table of slots is a power of two and at most half
 * full; a slot holds an entry's number plus one. Nothing is freed before the arena is. Tests:
 * tests/unit/check_base_vec.c.
 */
#include "vec.h"

#include <string.h>

/* Doubling from 8. A size that would overflow is passed on as one that no arena can give. */
void *vec_grow(Arena *a, void *v, size_t *cap, size_t elem) {
  size_t old = *cap, want = old ? old * 2 : 8, bytes;
  if (want < old || __builtin_mul_overflow(want, elem, &bytes))
    bytes = SIZE_MAX; /* the arena reports it */
  void *grown = arena_grow(a, v, old * elem, bytes);
  *cap = want;
  return grown;
}

/* ---- hashing ------------------------------------------------------------------------------- */

/* Spreads every bit over the word; a bijection, so that different words stay different. */
static uint64_t mix(uint64_t x) {
  x ^= x >> 31;
  x *= UINT64_C(0x9E3779B97F4A7C15);
  x ^= x >> 29;
  x *= UINT64_C(0xD1342543DE82EF95);
  return x ^ (x >> 32);
}

/* Eight bytes at a time; the length goes in first, so that trailing NULs count. */
uint64_t hash_bytes(const void *p, size_t n, uint64_t seed) {
  const unsigned char *s = p;
  uint64_t h = mix(seed ^ n);
  for (; n >= 8; s += 8, n -= 8) {
    uint64_t word;
    memcpy(&word, s, 8);
    h = mix(h ^ word) + word;
  }
  uint64_t tail = 0;
  if (n)
    memcpy(&tail, s, n);
  return mix(h ^ tail);
}

/* ---- maps ---------------------------------------------------------------------------------- */

typedef struct Entry {
  uint64_t hash;
  const char *key;
  size_t n;
  void *value;
} Entry;

struct Map {
  Arena *arena;
  VEC(Entry) entries;
  uint32_t *slots; /* 0 free, else index of the entry + 1 */
  size_t nslots;
};

/* Empty maps cost no table. */
Map *map_new(Arena *a) {
  Map *m = ARENA_NEW(a, Map);
  m->arena = a;
  return m;
}

/* The slot that holds the key, or the free one where it would go. The table is not empty. */
static uint32_t *find_slot(const Map *m, const void *key, size_t n, uint64_t hash) {
  size_t mask = m->nslots - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    uint32_t at = m->slots[i];
    if (at == 0)
      return &m->slots[i];
    const Entry *e = &m->entries.v[at - 1];
    if (e->hash == hash && e->n == n && (n == 0 || memcmp(e->key, key, n) == 0))
      return &m->slots[i];
  }
}

/* Enters all entries anew. Keys are known to differ, so only free slots are looked for. */
static void fill_slots(Map *m) {
  memset(m->slots, 0, m->nslots * sizeof *m->slots);
  size_t mask = m->nslots - 1;
  for (size_t e = 0; e < m->entries.n; e++) {
    size_t i = m->entries.v[e].hash & mask;
    while (m->slots[i])
      i = (i + 1) & mask;
    m->slots[i] = (uint32_t)(e + 1);
  }
}

/* The old table stays in the arena: together all of them are no larger than the last. */
static void grow_slots(Map *m) {
  size_t want = m->nslots ? m->nslots * 2 : 16;
  m->slots = ARENA_ARRAY(m->arena, uint32_t, want);
  m->nslots = want;
  fill_slots(m);
}

/* A stored NULL looks like an absence; who needs the difference stores something else. */
void *map_getn(const Map *m, const void *key, size_t n) {
  if (m->entries.n == 0)
    return NULL;
  uint32_t at = *find_slot(m, key, n, hash_bytes(key, n, 0));
  return at ? m->entries.v[at - 1].value : NULL;
}

void *map_get(const Map *m, const char *key) {
  return map_getn(m, key, strlen(key));
}

/* The table grows before the search, so that the slot found stays valid. */
void *map_setn(Map *m, const void *key, size_t n, void *value) {
  if ((m->entries.n + 1) * 2 > m->nslots)
    grow_slots(m);
  uint64_t hash = hash_bytes(key, n, 0);
  uint32_t *slot = find_slot(m, key, n, hash);
  if (*slot) {
    Entry *e = &m->entries.v[*slot - 1];
    void *old = e->value;
    e->value = value;
    return old;
  }
  Entry e = {hash, arena_strndup(m->arena, key, n), n, value};
  VEC_PUSH(m->arena, &m->entries, e);
  *slot = (uint32_t)m->entries.n;
  return NULL;
}

void *map_set(Map *m, const char *key, void *value) {
  return map_setn(m, key, strlen(key), value);
}

size_t map_count(const Map *m) {
  return m->entries.n;
}

const char *map_key(const Map *m, size_t i) {
  return m->entries.v[i].key;
}

void *map_value(const Map *m, size_t i) {
  return m->entries.v[i].value;
}

/* ---- names --------------------------------------------------------------------------------- */

struct Names {
  Map *map; /* text to the copy of it */
};

Names *names_new(Arena *a) {
  Names *names = ARENA_NEW(a, Names);
  names->map = map_new(a);
  return names;
}

/* The key's copy inside the map is the name; its own value points to it. */
const char *names_get(Names *names, const char *s, size_t n) {
  const char *known = map_getn(names->map, s, n);
  if (known)
    return known;
  map_setn(names->map, s, n, NULL);
  const char *copy = map_key(names->map, map_count(names->map) - 1);
  map_setn(names->map, s, n, (void *)(uintptr_t)copy); /* the value is only ever read */
  return copy;
}

/* Edit distance with swaps of neighbours, or FAR where it exceeds 2. Only the five cells next to
 * the diagonal of the usual table can hold 2 or less: row[d] is the cell of column i + d - 2. */
enum { FAR = 3, BAND = 5 };

static int least(int a, int b) {
  return a < b ? a : b;
}

/* The least of: replace, delete, insert, swap with the letter before. */
static int edit_cell(const char *a, const char *b, size_t i, size_t j, int diagonal, int above,
                     int left, int swap) {
  int best = diagonal + (a[i - 1] != b[j - 1]);
  best = least(best, least(above, left) + 1);
  if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
    best = least(best, swap + 1);
  return least(best, FAR);
}

static int edit_distance(const char *a, const char *b) {
  size_t na = strlen(a), nb = strlen(b);
  if (na > nb + 2 || nb > na + 2)
    return FAR;
  int row[3][BAND + 1] = {{FAR, FAR, FAR, FAR, FAR, FAR}, {FAR, FAR, 0, 1, 2, FAR}};
  for (size_t i = 1; i <= na; i++) {
    const int *two = row[(i + 2) % 3], *one = row[i % 3];
    int *now = row[(i + 1) % 3];
    for (size_t d = 0; d < BAND; d++) {
      if (i + d < 2 || i + d - 2 > nb)
        now[d] = FAR;
      else if (i + d == 2)
        now[d] = least((int)i, FAR);
      else
        now[d] = edit_cell(a, b, i, i + d - 2, one[d], one[d + 1], d ? now[d - 1] : FAR, two[d]);
    }
    now[BAND] = FAR;
  }
  return row[(na + 1) % 3][nb + 2 - na];
}

/* The first of several that are equally close. */
const char *names_closest(const char *name, const char *const *candidates, size_t n) {
  const char *best = NULL;
  int best_distance = FAR;
  size_t length = strlen(name);
  for (size_t i = 0; i < n; i++) {
    int d = edit_distance(name, candidates[i]);
    if (d > 0 && d < best_distance && (size_t)d * 2 < length) {
      best = candidates[i];
      best_distance = d;
    }
  }
  return best;
}

const char *names_here(const char *name, const NamePair *pairs, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(name, pairs[i].name) == 0)
      return pairs[i].here;
  return NULL;
}
