/* clock.c: seconds of the monotonic clock, and of the thread's own. Tests:
 * tests/unit/check_base_io.c. */
#include "clock.h"

#include <time.h>

static double seconds_of(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double base_now(void) {
  return seconds_of(CLOCK_MONOTONIC);
}

double base_worked(void) {
  return seconds_of(CLOCK_THREAD_CPUTIME_ID);
}
