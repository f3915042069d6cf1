/* check_large.c: more blocks than the hardware takes, and tensors whose offsets need 64 bits: rows
 * that lie so far apart that 32 bits would meet other rows, in memory of which only what is touched
 * is there.
 */
#include <sys/mman.h>

#include "lower_support.h"

/* ---------------------------------------------------------------- grids */

START_TEST(folded_grids) {
  static const LowerGrid how[] = {LOWER_GRID_LONG, LOWER_GRID_HUGE};
  for (int i = 0; i < 2; i++)
    for (int candidate = 0; candidate < 1000; candidate += 999) {
      Lowered x = lower_grid(BLOCKS(""), "sm_80", candidate, how[i]);
      has(&x, i ? "grid column, row = min(" : "grid column = ");
      says(&x, "folded into one");
      same_output(&x, give_blocks, "y");
      ev_free(x.plain);
    }
}
END_TEST

/* A fault names the program's block, whatever blocks the launch has. */
START_TEST(faults_of_folded_grids) {
  static const LowerGrid how[] = {LOWER_GRID_FITS, LOWER_GRID_LONG, LOWER_GRID_HUGE};
  for (int i = 0; i < 3; i++)
    for (int candidate = 0; candidate < 1000; candidate += 999) {
      Lowered x = lower_grid("kernel k tile(n: i64, m: i64, x: f32[N]) -> (y: i64[n, m, 3]) {\n"
                             "grid bx, by, bz = m, n, 3\nshared t: f32[64]\ncopy t = x[0:+64]\n"
                             "let at: i64 = (bx // 4) * (by // 3) * bz * 64\n"
                             "load z: f32 = t[at]\nstore y[by, bx, bz] = i64(z)\n}\n",
                             "sm_80", candidate, how[i]);
      Ev *e = ev_new(x.text);
      give_blocks(e);
      ck_assert_int_eq(ev_run(e), ST_FAIL);
      ck_assert_msg(strstr(ev_errors(e), "in block (4, 3, 1)") != NULL, "%s", ev_errors(e));
      ev_free(e);
      ev_free(x.plain);
    }
}
END_TEST

/* So does an assertion, with and without words, of which the block is no part. */
START_TEST(assertions_of_folded_grids) {
  static const LowerGrid how[] = {LOWER_GRID_FITS, LOWER_GRID_LONG, LOWER_GRID_HUGE};
  static const char *const words[] = {"", ", \"at\", bx, 2.5:f64"};
  static const char *const say[] = {"assertion failed, in block (4, 3, 1)",
                                    "assertion failed: at 4 2.5, in block (4, 3, 1)"};
  for (int i = 0; i < 6; i++) {
    char program[400];
    snprintf(program, sizeof program,
             "kernel k tile(n: i64, m: i64, x: f32[N]) -> (y: i64[n, m, 3]) {\n"
             "grid bx, by, bz = m, n, 3\n"
             "assert (bx // 4) * (by // 3) * bz == 0%s\nstore y[by, bx, bz] = bx\n}\n",
             words[i % 2]);
    Lowered x = lower_grid(program, "sm_80", 999, how[i / 2]);
    Ev *e = ev_new(x.text);
    give_blocks(e);
    ck_assert_int_eq(ev_run(e), ST_FAIL);
    ck_assert_msg(strstr(ev_errors(e), say[i % 2]) != NULL, "%s", ev_errors(e));
    ev_free(e);
    ev_free(x.plain);
  }
}
END_TEST

/* ---------------------------------------------------------------- offsets */

/* Elements from row to row; 32 bits of its multiples would be those of a small pitch. */
enum { ROWS = 5, COLUMNS = 70 };
static const int64_t pitch = (INT64_C(1) << 32) + 80;

static void *rows_apart(size_t size) {
  size_t bytes = ((size_t)pitch * (ROWS - 1) + COLUMNS) * size;
  void *p =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

/* false: the system has no such room. */
static bool far(IrTensorArg *t, DType dtype, bool fill) {
  *t = (IrTensorArg){.rank = 2, .dtype = dtype, .extent = {ROWS, COLUMNS}, .stride = {pitch, 1}};
  t->data = rows_apart(dtype_size(dtype));
  for (int64_t i = 0; t->data && fill && i < ROWS * COLUMNS; i++)
    ev_put(t, i / COLUMNS * pitch + i % COLUMNS, ev_small(i));
  return t->data != NULL;
}

static void give_back(IrTensorArg *t) {
  munmap(t->data, ((size_t)pitch * (ROWS - 1) + COLUMNS) * dtype_size(t->dtype));
}

/* Copies both ways, elements, a loop over elements. */
static const char text[] =
    "kernel k tile(A: f16[M, N] strided) -> (C: f16[M, N] strided, D: f32[M] strided) {\n"
    "grid bx, by = ceildiv(N, 32), ceildiv(M, 4)\n"
    "shared s: f16[4, 32]\nfragment f: f16[4, 32]\n"
    "copy s = A[by*4:+4, bx*32:+32]\ncopy f = s\n"
    "map i, j in [4, 32] { load x: f16 = f[i, j]\nstore f[i, j] = x * 2.0:f16 }\n"
    "copy C[by*4:+4, bx*32:+32] = f\n"
    "if bx == 0 { parallel i in [4] { if by*4 + i < M { load x: f16 = A[by*4 + i, N - 1]\n"
    "store D[by*4 + i] = f32(x) } } }\n}\n";

START_TEST(offsets_of_64_bits) {
  for (int candidate = 0; candidate < 1000; candidate += 999) {
    Ev *e = ev_new(text);
    LowerFact *fact = ARENA_ARRAY(e->arena, LowerFact, e->kernel->buffers.n + 1);
    for (size_t i = 0; i < e->kernel->buffers.n; i++)
      fact[i] = (LowerFact){(int8_t)(e->kernel->buffers.v[i]->rank - 1), 16, false};
    LowerRequest r = {.target = target_find("sm_90a"), .fact = fact, .candidate = candidate};
    IrKernel *k = lower_to(e->arena, e->kernel, IR_THREAD, &r, &e->sink);
    ck_assert_msg(k != NULL, "%s", ev_errors(e));
    Str out = str_new(e->arena);
    ir_print(k, &out);
    Ev *low = ev_new(str_text(&out));
    IrTensorArg *a = ev_tensor(low, "A"), *c = ev_tensor(low, "C");
    if (!far(a, DT_F16, true) || !far(c, DT_F16, false))
      return; /* no room for addresses */
    ck_assert_msg(ir_bind(low->kernel, low->binding, 8, &low->sink), "%s", ev_errors(low));
    IrTensorArg *d = ev_tensor(low, "D");
    d->data = arena_alloc(low->arena, ROWS * sizeof(float) + 64);
    ck_assert_msg(eval_run(low->program, low->binding, &low->options, &low->sink) == ST_OK, "%s",
                  ev_errors(low));
    for (int64_t i = 0; i < ROWS * COLUMNS; i++)
      ck_assert(ev_get(c, i / COLUMNS * pitch + i % COLUMNS) == 2 * ev_small(i));
    for (int64_t i = 0; i < ROWS; i++)
      ck_assert(ev_get(d, i) == ev_small((i + 1) * COLUMNS - 1));
    give_back(a);
    give_back(c);
    ev_free(low);
    ev_free(e);
  }
}
END_TEST

int main(void) {
  const TTest *const tests[] = {folded_grids, faults_of_folded_grids, assertions_of_folded_grids,
                                offsets_of_64_bits, NULL};
  return run_suite("large", tests);
}
