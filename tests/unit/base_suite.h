/* base_suite.h: what the suites of src/base share: one arena a test, and the main function. */
#ifndef TILESH_TESTS_BASE_SUITE_H
#define TILESH_TESTS_BASE_SUITE_H

/* The library's own declarations trip these: variadic failure macros, an unprototyped loop test. */
#pragma GCC diagnostic ignored "-Wpedantic"
#include <check.h>

#include "base/base.h"

/* Runs one suite made of the given tests, ending the list with NULL, each between before and
 * after, which may be NULL. */
static inline int run_suite_between(const char *name, const TTest *const *tests,
                                    void (*before)(void), void (*after)(void)) {
  Suite *suite = suite_create(name);
  TCase *tcase = tcase_create(name);
  tcase_add_checked_fixture(tcase, before, after);
  tcase_set_timeout(tcase, 120);
  for (; *tests; tests++)
    tcase_add_test(tcase, *tests);
  suite_add_tcase(suite, tcase);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}

static inline int run_suite(const char *name, const TTest *const *tests) {
  return run_suite_between(name, tests, NULL, NULL);
}

#endif
