/* clock.c: seconds of the monotonic clock. Tests: tests/unit/check_base_io.c. */
#include "clock.h"

#include <time.h>

double base_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
