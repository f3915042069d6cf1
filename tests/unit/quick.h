/* quick.h: assertions for suites that make millions of them. Check notes the place of every
 * assertion in a file, also of those that hold; these speak only when one fails.
 */
#ifndef TILESH_TESTS_QUICK_H
#define TILESH_TESTS_QUICK_H

#include <check.h>

#undef ck_assert
#undef ck_assert_msg
#define ck_assert(condition)                                                                       \
  do {                                                                                             \
    if (!(condition))                                                                              \
      ck_abort_msg("%s", #condition);                                                              \
  } while (0)
#define ck_assert_msg(condition, ...)                                                              \
  do {                                                                                             \
    if (!(condition))                                                                              \
      ck_abort_msg(__VA_ARGS__);                                                                   \
  } while (0)

#endif
