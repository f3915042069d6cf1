/* fuzz_run.c: any bytes as a whole program, run on the evaluator.
 *
 * In: a program, or what is meant to be one. Holds: no crash; what does not run has a diagnostic
 * that can be shown; what runs too long ends when it is interrupted, as by Ctrl-C; after all of it
 * the session still runs a line. No file is opened (`safe`). A program may ask for any tensor, so
 * libFuzzer runs it with ASAN_OPTIONS=allocator_may_return_null=1:max_allocation_size_mb=2000 and
 * -malloc_limit_mb=0.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "session/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile sig_atomic_t stop; /* set by the timer */

static void require(bool ok, const char *what) {
  if (ok)
    return;
  fprintf(stderr, "fuzz_run: %s\n", what);
  abort();
}

static void on_timer(int signal) {
  (void)signal;
  stop = 1;
}

/* Milliseconds of real time from now; 0: none. */
static void set_timer(long ms) {
  struct itimerval t = {.it_value = {.tv_usec = ms * 1000}};
  setitimer(ITIMER_REAL, &t, NULL);
}

static void run_twice(Session *s, const char *text, size_t n) {
  Arena *a = arena_new(NULL, "shown");
  Str shown = str_new(a);
  stop = 0;
  set_timer(300);
  Status status = session_run_text(s, "input.tile", text, n);
  set_timer(0);
  diag_format_all(session_diags(s), false, &shown);
  require(status == ST_OK || status == ST_INTERRUPTED || status == ST_NOMEM ||
              session_diags(s)->errors > 0,
          "failed without a word");
  stop = 0;
  require(session_run_text(s, "after.tile", "let x = 1 + 1\nassert x == 2\n", 28) == ST_OK,
          "the session is broken");
  arena_free(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  FILE *out = fopen("/dev/null", "w");
  SessionOptions options = {.device = "cpu",
                            .threads = 1,
                            .safe = true,
                            .out = out,
                            .interrupt = &stop,
                            .bench_bursts = 1};
  Session *s = session_new(&options);
  if (s)
    run_twice(s, (const char *)data, size);
  session_free(s);
  fclose(out);
  return 0;
}
