/* check_lua.c: tests of src/lua from C: blocks, the prompt, errors and interrupts again and again.
 */
#include "lua/lua.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static Session *s;
static char *output;
static size_t output_n;
static FILE *out;
static volatile sig_atomic_t flag;

static void setup(void) {
  flag = 0;
  out = open_memstream(&output, &output_n);
  s = session_new(&(SessionOptions){
      .out = out, .device = "cpu", .threads = 2, .interrupt = &flag, .lua = luat_language()});
  ck_assert_ptr_nonnull(s);
}

static void teardown(void) {
  session_free(s);
  fclose(out);
  free(output);
}

static Status run(const char *text) {
  return session_run_text(s, "t", text, strlen(text));
}

/* The status of a prompt entry of Lua, which must be complete. */
static Status entry(const char *text) {
  Status status = ST_OK;
  ck_assert_int_eq(session_prompt_lua(s, "lua:1", text, strlen(text), &status), PROMPT_DONE);
  return status;
}

static const char *printed(void) {
  fflush(out);
  return output;
}

static const char *message(void) {
  const DiagSink *d = session_diags(s);
  return d->n ? d->v[0]->text : "";
}

START_TEST(blocks_share_a_state) {
  ck_assert_int_eq(run("let x = 2\nlua { y = x + 1 }"), ST_OK);
  ck_assert_int_eq(run("lua { print(x, y) }"), ST_OK);
  ck_assert_str_eq(printed(), "2\t3\n");
}
END_TEST

START_TEST(the_prompt_shows_values) {
  ck_assert_int_eq(entry("1 + 1"), ST_OK);
  ck_assert_int_eq(entry("x = 5"), ST_OK);
  ck_assert_int_eq(entry("x, 'a'"), ST_OK);
  ck_assert_int_eq(entry("nil"), ST_OK);
  ck_assert_int_eq(entry("print('p')"), ST_OK);
  ck_assert_str_eq(printed(), "2\n5\ta\np\n");
}
END_TEST

START_TEST(the_prompt_asks_for_more) {
  static const char *const pieces[] = {"function f(",  "for i = 1, 3 do",   "x = {", "if x then",
                                       "local s = [[", "return function()", "x ="};
  for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
    Status status = ST_OK;
    ck_assert_int_eq(session_prompt_lua(s, "lua:1", pieces[i], strlen(pieces[i]), &status),
                     PROMPT_PENDING);
    ck_assert_uint_eq(session_diags(s)->n, 0);
  }
  ck_assert_int_eq(entry("for i = 1, 2 do\nprint(i)\nend"), ST_OK);
  ck_assert_str_eq(printed(), "1\n2\n");
  ck_assert_int_eq(entry("x = = 1"), ST_COMPILE);
  ck_assert_str_eq(message(), "unexpected symbol near '='");
}
END_TEST

/* Each way to fail, many times: nothing of Lua's or of the session's depth is used up. */
START_TEST(failing_leaves_nothing_behind) {
  static const char *const wrong[] = {
      "error('no')",
      "error({})",
      "tile.reshape(tile.ones('f32', 3), 2)",
      "tile.zeros()",
      "local function f() return 1 + f() end f()",
      "tile.eval('fn f(g) { return g() }').f(function() error('inside') end)",
      "tile.eval('fn f(g) { return g(g) }').f(function(g) return tile.ones('f32', 1) .. 1 end)"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    for (int k = 0; k < (i == 4 ? 2 : 300); k++) {
      ck_assert_int_eq(entry(wrong[i]), ST_FAIL);
      ck_assert_uint_gt(session_diags(s)->n, 0);
    }
  ck_assert_int_eq(run("lua { error('x') }"), ST_FAIL);
  /* results that are no values of the language, at the bottom of Lua's stack */
  ck_assert_int_eq(run("var f = nil\nlua { local t = {} for i = 1, 60 do t = {t} end\n"
                       "tile.globals.f = function() return 1, 2, t end }"),
                   ST_OK);
  for (int k = 0; k < 30000; k++)
    ck_assert_int_eq(run("f()"), ST_FAIL);
  ck_assert_int_eq(entry("1 + 1"), ST_OK);
  ck_assert_uint_eq(session_diags(s)->n, 0);
  ck_assert_str_eq(printed(), "2\n");
}
END_TEST

/* The flag is set as Ctrl-C would: whatever runs ends, at once and every time. */
START_TEST(interrupts_leave_nothing_behind) {
  static const char *const endless[] = {
      "while true do end", "while true do pcall(function() while true do end end) end",
      "tile.eval('fn f(g) { while true { g() } }').f(function() end)"};
  for (size_t i = 0; i < sizeof endless / sizeof *endless; i++)
    for (int k = 0; k < 200; k++) {
      flag = 1;
      ck_assert_int_eq(entry(endless[i]), ST_INTERRUPTED);
      ck_assert_uint_eq(session_diags(s)->n, 1); /* told once, however often it was caught */
      ck_assert_int_eq(session_diags(s)->v[0]->code, E0422);
    }
  flag = 0;
  ck_assert_int_eq(entry("tile.ones('i32', 2):sum()"), ST_OK);
  ck_assert_str_eq(printed(), "2\n");
}
END_TEST

/* Kilobytes of the process that are in memory. */
static long resident(void) {
  long pages = 0, in_memory = 0;
  FILE *f = fopen("/proc/self/statm", "re");
  if (!f || fscanf(f, "%ld %ld", &pages, &in_memory) != 2)
    in_memory = 0;
  if (f)
    fclose(f);
  return in_memory * 4;
}

#ifdef __SANITIZE_ADDRESS__ /* freed memory stays in its quarantine */
enum { ENTRIES = 2500, FREED_IS_FREE = false };
#else
enum { ENTRIES = 10000, FREED_IS_FREE = true };
#endif

/* Texts of old entries go, and what they defined goes with their names. */
START_TEST(entries_do_not_grow_memory) {
  char text[128];
  long before = 0;
  for (int i = 0; i < ENTRIES; i++) {
    if (i == 2000)
      before = resident();
    snprintf(text, sizeof text, "function f() return %d end x = f() + tile.ones('f32', 9)", i);
    ck_assert_int_eq(entry(text), ST_OK);
    snprintf(text, sizeof text, "let x = %d\nlua { y = x\nlocal s = %d }", i, i);
    ck_assert_int_eq(run(text), ST_OK);
  }
  ck_assert(resident() - before < 1024 || !FREED_IS_FREE);
}
END_TEST

/* What was caught does not show, neither in the run's diagnostics nor in its status. */
START_TEST(caught_errors_do_not_show) {
  ck_assert_int_eq(run("fn f(x) { return x + nothing }\n"
                       "lua { print(pcall(function() return f(1) end)) }"),
                   ST_OK);
  ck_assert_uint_eq(session_diags(s)->n, 0);
  ck_assert_ptr_nonnull(strstr(printed(), "false\tt:1:"));
}
END_TEST

START_TEST(os_exit_is_a_wish) {
  int status = 0;
  ck_assert(!session_exit_wanted(s, &status));
  ck_assert_int_ne(entry("pcall(os.exit, 3) print('not reached')"), ST_OK);
  ck_assert(session_exit_wanted(s, &status));
  ck_assert_int_eq(status, 3);
  ck_assert_str_eq(printed(), "");
}
END_TEST

/* Values of each language outlive what made them, in either order of release. */
START_TEST(values_are_counted) {
  ck_assert_int_eq(run("let f = nil\nlua { tile.globals.f = function(x) return x * 2 end\n"
                       "held = tile.eval('fn g(x) { return x }').g }"),
                   ST_OK);
  ck_assert_int_eq(run("let l = [f, f, ones(f32, 2)]\nlua { list = l; collectgarbage() }\n"
                       "print(f(4))\nlua { print(held(5), list[1] == list[2]) }"),
                   ST_OK);
  ck_assert_str_eq(printed(), "8\n5\ttrue\n");
}
END_TEST

START_TEST(without_lua_it_says_so) {
  session_free(s);
  s = session_new(&(SessionOptions){.out = out, .device = "cpu", .threads = 1});
  ck_assert_int_eq(run("lua { x = 1 }"), ST_FAIL);
  ck_assert_str_eq(message(), "this program runs without Lua");
  ck_assert_int_eq(entry("1"), ST_FAIL);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("lua");
  TCase *t = tcase_create("lua");
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_set_timeout(t, 120);
  tcase_add_test(t, blocks_share_a_state);
  tcase_add_test(t, the_prompt_shows_values);
  tcase_add_test(t, the_prompt_asks_for_more);
  tcase_add_test(t, failing_leaves_nothing_behind);
  tcase_add_test(t, interrupts_leave_nothing_behind);
  tcase_add_test(t, entries_do_not_grow_memory);
  tcase_add_test(t, caught_errors_do_not_show);
  tcase_add_test(t, os_exit_is_a_wish);
  tcase_add_test(t, values_are_counted);
  tcase_add_test(t, without_lua_it_says_so);
  suite_add_tcase(suite, t);
  SRunner *r = srunner_create(suite);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed != 0;
}
