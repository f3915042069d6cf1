/* check_base_vec.c: vectors, maps, names. */
#include "base_suite.h"

START_TEST(vector_grows) {
  Arena *a = arena_new(NULL, "test");
  VEC(int) v = {0};
  for (int i = 0; i < 100000; i++)
    VEC_PUSH(a, &v, i);
  ck_assert_uint_eq(v.n, 100000);
  for (int i = 0; i < 100000; i++)
    ck_assert_int_eq(v.v[i], i);
  arena_free(a);
}
END_TEST

/* Against an array that is searched from end to end. */
START_TEST(map_against_a_list) {
  Arena *a = arena_new(NULL, "test");
  Map *m = map_new(a);
  static int values[500];
  int *model[200] = {NULL}, count = 0;
  unsigned random = 1;
  for (int step = 0; step < 20000; step++) {
    random = random * 1103515245u + 12345u;
    int k = (int)(random >> 16) % 200;
    const char *key = arena_printf(a, "key%d", k);
    if (random >> 8 & 1) {
      int *value = &values[step % 500];
      ck_assert_ptr_eq(map_set(m, key, value), model[k]);
      count += !model[k];
      model[k] = value;
    }
    ck_assert_ptr_eq(map_get(m, key), model[k]);
    ck_assert_uint_eq(map_count(m), (size_t)count);
  }
  arena_free(a);
}
END_TEST

START_TEST(map_iterates_in_order_of_insertion) {
  Arena *a = arena_new(NULL, "test");
  Map *m = map_new(a);
  int x;
  const char *keys[] = {"z", "a", "", "m", "b"};
  for (int i = 0; i < 5; i++)
    map_set(m, keys[i], &x);
  map_set(m, "a", &m);
  for (size_t i = 0; i < 5; i++)
    ck_assert_str_eq(map_key(m, i), keys[i]);
  ck_assert_ptr_eq(map_value(m, 1), &m);
  ck_assert_ptr_eq(map_get(m, ""), &x);
  arena_free(a);
}
END_TEST

START_TEST(map_keys_are_bytes) {
  Arena *a = arena_new(NULL, "test");
  Map *m = map_new(a);
  int x, y;
  map_setn(m, "a\0b", 3, &x);
  map_setn(m, "a\0c", 3, &y);
  ck_assert_ptr_eq(map_getn(m, "a\0b", 3), &x);
  ck_assert_ptr_eq(map_getn(m, "a\0c", 3), &y);
  ck_assert_ptr_null(map_get(m, "a"));
  arena_free(a);
}
END_TEST

START_TEST(hashes_spread) {
  static unsigned char seen[1 << 16];
  int collisions = 0;
  for (uint64_t i = 0; i < 10000; i++) { /* keys that differ in a few bits only */
    uint64_t key = i << 40;
    uint64_t h = hash_bytes(&key, sizeof key, 0) & 0xFFFF;
    collisions += seen[h]++ != 0;
  }
  ck_assert_int_lt(collisions, 1000); /* 720 expected of random ones */
  ck_assert(hash_bytes("a", 1, 0) != hash_bytes("a", 1, 1));
  ck_assert(hash_bytes("a\0", 2, 0) != hash_bytes("a", 1, 0));
  ck_assert(hash_bytes("", 0, 0) == hash_bytes(NULL, 0, 0));
}
END_TEST

START_TEST(names_are_one) {
  Arena *a = arena_new(NULL, "test");
  Names *names = names_new(a);
  const char *x = names_get(names, "tile", 4);
  ck_assert_str_eq(x, "tile");
  ck_assert_ptr_eq(names_get(names, "tiles", 4), x);
  ck_assert_ptr_ne(names_get(names, "tiles", 5), x);
  for (int i = 0; i < 1000; i++) {
    const char *text = arena_printf(a, "n%d", i % 100);
    const char *name = names_get(names, text, strlen(text));
    ck_assert_ptr_eq(names_get(names, name, strlen(name)), name);
  }
  ck_assert_ptr_eq(names_get(names, "tile", 4), x);
  arena_free(a);
}
END_TEST

START_TEST(closest_name) {
  static const char *const all[] = {"matmul", "softmax", "max", "x", "transpose"};
  ck_assert_str_eq(names_closest("matmull", all, 5), "matmul");
  ck_assert_str_eq(names_closest("mtamul", all, 5), "matmul"); /* a swap is one edit */
  ck_assert_str_eq(names_closest("sotfmx", all, 5), "softmax");
  ck_assert_str_eq(names_closest("mux", all, 5), "max");
  ck_assert_str_eq(names_closest("tanspos", all, 5), "transpose");
  ck_assert_ptr_null(names_closest("y", all, 5)); /* not below half its length */
  ck_assert_ptr_null(names_closest("my", all, 5));
  ck_assert_ptr_null(names_closest("attention", all, 5));
  ck_assert_ptr_null(names_closest("", all, 5));
  ck_assert_ptr_null(names_closest("matmul", all, 0));
}
END_TEST

START_TEST(name_here) {
  static const NamePair pairs[] = {{"def", "fn"}, {"True", "true"}, {"True", "never"}};
  ck_assert_str_eq(names_here("def", pairs, 3), "fn");
  ck_assert_str_eq(names_here("True", pairs, 3), "true"); /* the first of equals */
  ck_assert_ptr_null(names_here("fn", pairs, 3));         /* not by what is written here */
  ck_assert_ptr_null(names_here("de", pairs, 3));
  ck_assert_ptr_null(names_here("", pairs, 3));
  ck_assert_ptr_null(names_here("def", pairs, 0));
}
END_TEST

/* The usual table of all cells, for comparison with the band that names_closest walks. */
static int full_distance(const char *a, const char *b) {
  int t[12][12];
  int na = (int)strlen(a), nb = (int)strlen(b);
  for (int i = 0; i <= na; i++)
    for (int j = 0; j <= nb; j++) {
      if (i == 0 || j == 0) {
        t[i][j] = i + j;
        continue;
      }
      int best = t[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      best = t[i - 1][j] + 1 < best ? t[i - 1][j] + 1 : best;
      best = t[i][j - 1] + 1 < best ? t[i][j - 1] + 1 : best;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
          t[i - 2][j - 2] + 1 < best)
        best = t[i - 2][j - 2] + 1;
      t[i][j] = best;
    }
  return t[na][nb];
}

START_TEST(closest_name_against_the_full_table) {
  unsigned random = 7;
  for (int step = 0; step < 200000; step++) {
    char a[12] = "", b[12] = "";
    for (int side = 0; side < 2; side++) {
      random = random * 1103515245u + 12345u;
      int n = 5 + (int)(random >> 16) % 6;
      for (int i = 0; i < n; i++) {
        random = random * 1103515245u + 12345u;
        (side ? b : a)[i] = (char)('a' + (random >> 16) % 2);
      }
    }
    const char *candidates[1] = {b};
    int d = full_distance(a, b);
    bool expect = d > 0 && d <= 2 && (size_t)d * 2 < strlen(a);
    ck_assert_msg((names_closest(a, candidates, 1) != NULL) == expect, "%s %s %d", a, b, d);
  }
}
END_TEST

int main(void) {
  const TTest *const tests[] = {vector_grows,
                                map_against_a_list,
                                map_iterates_in_order_of_insertion,
                                map_keys_are_bytes,
                                hashes_spread,
                                names_are_one,
                                closest_name,
                                closest_name_against_the_full_table,
                                name_here,
                                NULL};
  return run_suite("base_vec", tests);
}
