/* check_session.c: tests of src/session: life, errors, prompt, calls, tests, looking in. */
#include "session/device.h"
#include "session/session.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static Session *s;
static char *output;
static size_t output_n;
static FILE *out;
static volatile sig_atomic_t flag;

static void open_session(SessionMode mode) {
  out = open_memstream(&output, &output_n);
  s = session_new(&(SessionOptions){
      .out = out, .device = "cpu", .threads = 2, .mode = mode, .interrupt = &flag});
  ck_assert_ptr_nonnull(s);
}

static void setup(void) {
  flag = 0;
  open_session(MODE_RUN);
}

static void teardown(void) {
  session_free(s);
  fclose(out);
  free(output);
}

static Status run(const char *text) {
  return session_run_text(s, "t", text, strlen(text));
}

/* What was printed since the start. */
static const char *printed(void) {
  fflush(out);
  return output;
}

static const char *message(void) {
  const DiagSink *d = session_diags(s);
  return d->n ? d->v[0]->text : "";
}

static const char add_kernel[] = "kernel add(A: f32[N], B: f32[N]) -> (C: f32[N]) {\n"
                                 "  grid b = ceildiv(N, 64)\n"
                                 "  shared x: f32[64], y: f32[64]\n"
                                 "  copy(A[b*64], x)\n"
                                 "  copy(B[b*64], y)\n"
                                 "  copy(x + y, C[b*64])\n"
                                 "}\n";

START_TEST(runs_and_keeps) {
  ck_assert_int_eq(run("let x = 2"), ST_OK);
  ck_assert_int_eq(run("print(x + 1)"), ST_OK);
  ck_assert_str_eq(printed(), "3\n");
}
END_TEST

START_TEST(statuses) {
  ck_assert_int_eq(run("let x = "), ST_COMPILE);
  ck_assert_int_eq(session_exit_status(ST_COMPILE), 3);
  ck_assert_int_eq(run("assert 1 == 2"), ST_FAIL);
  ck_assert_str_eq(message(), "assertion failed: the left side is 1, the right side is 2");
  ck_assert_int_eq(run("print(1)"), ST_OK);
  ck_assert_uint_eq(session_diags(s)->n, 0);
  ck_assert_int_eq(session_run_file(s, "/nowhere/x.tile"), ST_USAGE);
  ck_assert_int_eq(session_run_file(s, "/"), ST_USAGE);
}
END_TEST

/* After an error the session is as before the statement that failed. */
START_TEST(error_leaves_nothing) {
  ck_assert_int_eq(run("let l = [zeros(f32, 8)]\nfn f(n) { let y = l; return y[n] }"), ST_OK);
  ck_assert_int_eq(run("let a, b = (l, f(3))"), ST_FAIL);
  ck_assert_int_eq(run("let b = 1\nprint(len(l), b)\nprint(a)"), ST_FAIL);
  ck_assert_str_eq(printed(), "1 1\n");
  ck_assert_str_eq(message(), "nothing is named a");
}
END_TEST

START_TEST(deep_recursion) {
  ck_assert_int_eq(run("fn f(n) { return f(n + 1) }\nf(0)"), ST_FAIL);
  ck_assert_ptr_nonnull(strstr(message(), "nested too deeply"));
  ck_assert_int_eq(run("fn g(n) { return 0 if n == 0 else 1 + g(n - 1) }\nprint(g(300))"), ST_OK);
  ck_assert_str_eq(printed(), "300\n");
}
END_TEST

START_TEST(prompt) {
  Status status;
  const char open[] = "if true {\n";
  ck_assert_int_eq(session_prompt(s, "t", open, strlen(open), &status), PROMPT_PENDING);
  const char *const lines[] = {"1 + 2\n", "_ * 2\n", "let y = 4\n", "y;\n", "\"a\"\n", "nil\n"};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    ck_assert_int_eq(session_prompt(s, "t", lines[i], strlen(lines[i]), &status), PROMPT_DONE);
    ck_assert_int_eq(status, ST_OK);
  }
  ck_assert_str_eq(printed(), "3\n6\n\"a\"\n");
}
END_TEST

START_TEST(interrupt) {
  flag = 1;
  ck_assert_int_eq(run("while true { }"), ST_INTERRUPTED);
  flag = 0;
  ck_assert_int_eq(run("print(1)"), ST_OK);
}
END_TEST

/* A command of the prompt runs no statement: the place of the last one, whose text is gone, is not
 * named. */
START_TEST(interrupted_without_a_statement) {
  Arena *a = arena_new(NULL, "test");
  Str text = str_new(a);
  const char call[] = "add(ones(f32, 4), ones(f32, 4))";
  ck_assert_int_eq(run(add_kernel), ST_OK);
  ck_assert_int_eq(run("let x = 1"), ST_OK);
  flag = 1;
  ck_assert_int_eq(session_emit_call(s, call, strlen(call), EMIT_IR, &text), ST_INTERRUPTED);
  ck_assert_uint_eq(session_diags(s)->n, 1);
  ck_assert_int_eq(session_diags(s)->v[0]->code, E0422);
  ck_assert_ptr_null(session_diags(s)->v[0]->span.file);
  arena_free(a);
}
END_TEST

/* Sizes that are not chosen to the end are no choice: the next call chooses anew. */
START_TEST(interrupt_of_a_choice) {
  ck_assert_int_eq(run("kernel never[B = auto(64)](x: f32[N]) -> (y: i32[1] = 0) {\n"
                       "  assert B == 3*N, \"thirds\"\n"
                       "}\n"
                       "kernel both[B = auto(64), C = auto(64)](x: f32[N]) -> (y: i32[2]) {\n"
                       "  assert B == N and C == 2*N, \"both\"\n"
                       "  y[0] = B\n"
                       "  y[1] = C\n"
                       "}\n"
                       "let x = ones(f32, 16)"),
                   ST_OK);
  for (int i = 0; i < 3; i++) {
    flag = 1;
    ck_assert_int_eq(run("never(x)"), ST_INTERRUPTED);
    ck_assert_int_eq(run("both(x)"), ST_INTERRUPTED);
    ck_assert_int_eq(session_diags(s)->v[0]->code, E0422);
    flag = 0;
  }
  ck_assert_int_eq(run("never(x)"), ST_FAIL);
  ck_assert_int_eq(session_diags(s)->v[0]->code, E0460);
  ck_assert_int_eq(run("let y = both(x)\nprint(y[0], y[1])"), ST_OK);
  ck_assert_str_eq(printed(), "16 32\n");
}
END_TEST

START_TEST(calls_kernels) {
  ck_assert_int_eq(run(add_kernel), ST_OK);
  ck_assert_int_eq(run("let a = randn(f32, 200)\nlet b = randn(f32, 200)\n"
                       "print(maxdiff(add(a, b), a + b), maxdiff(add(a, B = b), a + b))\n"
                       "let c = zeros(f32, 200)\nadd(a, b, out = c)\nprint(all(c == a + b))\n"
                       "print(all(add(a[::2], b[::-2]) == a[::2] + b[::-2]))"),
                   ST_OK);
  ck_assert_str_eq(printed(), "0.0 0.0\ntrue\ntrue\n");
}
END_TEST

START_TEST(kernel_arguments) {
  ck_assert_int_eq(run(add_kernel), ST_OK);
  ck_assert_int_ne(run("add(zeros(f32, 4), zeros(f32, 5))"), ST_OK);
  ck_assert_int_ne(run("add(zeros(f32, 4), zeros(f16, 4))"), ST_OK);
  ck_assert_int_ne(run("add(zeros(f32, 4), zeros(f32, 2, 2))"), ST_OK);
  ck_assert_int_eq(run("add(zeros(f32, 4))"), ST_FAIL);
  ck_assert_str_eq(message(), "add takes 2 arguments (A, B), not 1");
  ck_assert_int_eq(run("add(zeros(f32, 4), A = zeros(f32, 4))"), ST_FAIL);
  ck_assert_str_eq(message(), "A is given twice");
  ck_assert_int_eq(run("let x = zeros(f32, 8)\nadd(x[:4], x[4:], out = x[2:6])"), ST_FAIL);
  ck_assert_ptr_nonnull(strstr(message(), "shares elements"));
  ck_assert_int_eq(run("add(x[:4], x[4:], out = zeros(f32, 5))"), ST_FAIL);
  ck_assert_ptr_nonnull(strstr(message(), "out is f32[5], but C is f32[4]"));
}
END_TEST

/* A kernel may have inlined a function: a new definition must be seen. */
START_TEST(functions_replaced) {
  ck_assert_int_eq(run("fn g(x: f32) -> f32 { return x + 1 }\n"
                       "kernel k(A: f32[N]) -> (C: f32[N]) {\n"
                       "  for i in parallel(N) { C[i] = g(A[i]) }\n}\n"
                       "print(k(zeros(f32, 2)))\n"
                       "fn g(x: f32) -> f32 { return x + 2 }\n"
                       "print(k(zeros(f32, 2)))"),
                   ST_OK);
  ck_assert_str_eq(printed(), "f32[2] on cpu\n[1. 1.]\nf32[2] on cpu\n[2. 2.]\n");
}
END_TEST

typedef struct Seen {
  int passed, failed;
  char text[256];
} Seen;

static void see(void *ctx, const SessionTest *t) {
  Seen *seen = ctx;
  seen->passed += t->outcome == TEST_PASSED;
  seen->failed += t->outcome == TEST_FAILED;
  if (t->outcome == TEST_FAILED)
    snprintf(seen->text, sizeof seen->text, "%s", t->text);
}

START_TEST(runs_tests) {
  teardown();
  open_session(MODE_TEST);
  Seen seen = {0, 0, ""};
  ck_assert_int_eq(run("test \"a\" { assert later() == 1 }\n"
                       "test \"b\" { let x = 1; assert x == 2 }\n"
                       "test \"c\" { assert true }\n"
                       "fn later() { return 1 }"),
                   ST_OK);
  ck_assert_int_eq(session_run_tests(s, NULL, see, &seen), ST_FAIL);
  ck_assert(seen.passed == 2 && seen.failed == 1);
  ck_assert_ptr_nonnull(strstr(seen.text, "t:2:30: error[E0400]"));
}
END_TEST

START_TEST(filters_tests) {
  teardown();
  open_session(MODE_TEST);
  Seen seen = {0, 0, ""};
  ck_assert_int_eq(run("test \"sum\" { }\ntest \"product\" { assert false }"), ST_OK);
  ck_assert_int_eq(session_run_tests(s, "su", see, &seen), ST_OK);
  ck_assert(seen.passed == 1 && seen.failed == 0);
}
END_TEST

static void list_one(void *ctx, const char *name, const char *what) {
  str_addf(ctx, "%s: %s\n", name, what);
}

START_TEST(looks_in) {
  Arena *a = arena_new(NULL, "test");
  Str text = str_new(a);
  ck_assert_int_eq(
      run("let n = 3\nlet x = zeros(f16, 2, 3)\n## Adds one.\nfn inc(v) { return v + 1 }"), ST_OK);
  session_each_global(s, list_one, &text);
  ck_assert_str_eq(str_text(&text), "n: an int 3\nx: f16[2, 3] on cpu\ninc: a function\n");
  str_clear(&text);
  ck_assert_int_eq(session_type_of(s, "x.T", 3, &text), ST_OK);
  ck_assert_str_eq(str_text(&text), "f16[3, 2] on cpu");
  str_clear(&text);
  ck_assert(session_help(s, "inc", &text) && session_help(s, "zeros", &text));
  ck_assert_ptr_nonnull(strstr(str_text(&text), "fn inc(v)\nAdds one.\nzeros(dtype"));
  ck_assert(!session_help(s, "nothing_such", &text));
  arena_free(a);
}
END_TEST

START_TEST(emits_ir) {
  Arena *a = arena_new(NULL, "test");
  Str text = str_new(a);
  ck_assert_int_eq(run(add_kernel), ST_OK);
  const char call[] = "add(zeros(f32, 4), zeros(f32, 4))";
  ck_assert_int_eq(session_emit_call(s, call, strlen(call), EMIT_IR, &text), ST_OK);
  ck_assert_ptr_nonnull(strstr(str_text(&text), "kernel add tile("));
  ck_assert_int_ne(session_emit_call(s, "1 + 1", 5, EMIT_IR, &text), ST_OK);
  arena_free(a);
}
END_TEST

/* The driver's copies of rows take pitches below 2 GiB. Nothing of the tensors is touched. */
START_TEST(rows_far_apart_are_not_packed) {
  static const char product[] = "kernel mm(A: f16[M, K], B: f16[K, N]) -> (C: f32[M, N]) {\n"
                                "  grid bx, by = ceildiv(N, 128), ceildiv(M, 64)\n"
                                "  shared As: f16[64, 64], Bs: f16[64, 128]\n"
                                "  fragment acc: f32[64, 128] = 0\n"
                                "  for ko in pipelined(ceildiv(K, 64), 3) {\n"
                                "    copy(A[by*64, ko*64], As)\n"
                                "    copy(B[ko*64, bx*128], Bs)\n"
                                "    acc += As @ Bs\n"
                                "  }\n"
                                "  copy(acc, C[by*64, bx*128])\n"
                                "}\n"
                                "let b = zeros(f16, 901, 400000)\n"
                                "let near = zeros(f16, 2, 1073741823)\n"
                                "let far = zeros(f16, 2, 1073741825)\n";
  static const char *const call[] = {"mm(near[:, :901], b)", "mm(far[:, :901], b)"};
  ck_assert_int_eq(run(product), ST_OK);
  for (int i = 0; i < 2; i++) {
    Arena *a = arena_new(NULL, "test");
    Str text = str_new(a);
    Status status = session_explain(s, EXPLAIN_CHOICES, call[i], strlen(call[i]), &text);
    ck_assert_msg(status == ST_OK, "%s", message());
    ck_assert_msg((strstr(str_text(&text), "read through a copy") != NULL) == (i == 0), "%s",
                  str_text(&text));
    arena_free(a);
  }
}
END_TEST

START_TEST(full_device) {
  session_free(s);
  FILE *full = fopen("/dev/full", "w");
  s = session_new(&(SessionOptions){.out = full, .device = "cpu"});
  setvbuf(full, NULL, _IONBF, 0);
  ck_assert_int_eq(run("print(1)"), ST_USAGE);
  fclose(full);
}
END_TEST

/* As the data sheets have them, over multiprocessors and the highest clock: A100 312 TFLOP/s of
 * bf16, 624 of i8, 156 of tf32, 19.5 of f64; H100 989, 1979, 495 and 67. */
START_TEST(rates_of_products) {
  static const GpuProps a100 = {.major = 8, .minor = 0}, l40 = {.major = 8, .minor = 9},
                        h100 = {.major = 9, .minor = 0};
  static const struct {
    LowerProduct p;
    double a100, l40, h100;
  } row[] = {
      {{.size = 2, .type = DT_BF16, .result = DT_F32}, 2048, 1024, 4096},
      {{.size = 1, .type = DT_I8, .result = DT_I32}, 4096, 2048, 8192},
      {{.size = 1, .type = DT_F8E4M3, .result = DT_F32}, 2048, 2048, 8192},
      {{.size = 4, .type = DT_F32, .result = DT_F32}, 1024, 512, 2048},
      {{.size = 0, .type = DT_F32, .result = DT_F32}, 128, 256, 256},
      {{.size = 0, .type = DT_F64, .result = DT_F64}, 128, 4, 256},
      {{.size = 0, .type = DT_F64, .result = DT_F32}, 128, 256, 256},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ck_assert_double_eq(device_rate(&a100, &row[i].p), row[i].a100);
    ck_assert_double_eq(device_rate(&l40, &row[i].p), row[i].l40);
    ck_assert_double_eq(device_rate(&h100, &row[i].p), row[i].h100);
  }
}
END_TEST

/* NVRTC that refuses the text: its words at the call, and the text is a command away. */
START_TEST(compiler_refuses) {
  char cache[] = "/tmp/tilesh-refused-XXXXXX";
  ck_assert_ptr_nonnull(mkdtemp(cache));
  setenv("TILESH_CUDA_PATH", "tests/unit/refusing", 1);
  setenv("TILESH_CACHE_DIR", cache, 1);
  const char *call = "add(ones(f32, 100), ones(f32, 100))";
  Arena *a = arena_new(NULL, "test");
  Str text = str_new(a);
  ck_assert_int_eq(run(add_kernel), ST_OK);
  ck_assert_int_eq(session_emit_call(s, call, strlen(call), EMIT_CUBIN, &text), ST_COMPILE);
  const DiagSink *d = session_diags(s);
  ck_assert_uint_eq(d->n, 1);
  ck_assert_int_eq(d->v[0]->code, E0823);
  ck_assert_str_eq(d->v[0]->text, "NVRTC refuses add.cu (NVRTC_ERROR_COMPILATION):\n"
                                  "k.cu(7): error: a text that nothing compiles\n");
  ck_assert_ptr_nonnull(d->v[0]->span.file);
  ck_assert_int_eq(run("print(add(ones(f32, 2), ones(f32, 2)))"), ST_OK);
  ck_assert_int_eq(rmdir(cache), 0);
  arena_free(a);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("session");
  TCase *c = tcase_create("session");
  tcase_set_timeout(c, 60);
  tcase_add_checked_fixture(c, setup, teardown);
  const TTest *const tests[] = {runs_and_keeps,
                                statuses,
                                error_leaves_nothing,
                                deep_recursion,
                                prompt,
                                interrupt,
                                interrupt_of_a_choice,
                                calls_kernels,
                                kernel_arguments,
                                functions_replaced,
                                runs_tests,
                                filters_tests,
                                looks_in,
                                emits_ir,
                                full_device,
                                rates_of_products,
                                interrupted_without_a_statement,
                                rows_far_apart_are_not_packed,
                                compiler_refuses};
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
    tcase_add_test(c, tests[i]);
  suite_add_tcase(suite, c);
  SRunner *r = srunner_create(suite);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
