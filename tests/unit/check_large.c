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

/* Blocks that the program has as many of as there are multiprocessors are the program's; those that
 * lowering makes of a loop, or of what blocks share, are not. */
START_TEST(blocks_that_stay_are_named_by_whom_they_are_of) {
  static const struct {
    const char *text;
    int rank; /* of what a fault names */
  } cases[] = {
      {"kernel k tile(n: i64, x: f32[N]) -> (y: f32[N]) {\npre {\nlet few: i64 = min(n, sms)\n}\n"
       "grid b = few\nfor t: i64 = b, n, few {\nload z: f32 = x[t * 3]\nstore y[t] = z\n"
       "assert z < 3.0\n}\n}\n",
       1},
      {"kernel k tile(n: i64, x: f32[N]) -> (y: f32[N]) {\n"
       "parallel t in [n] {\nload z: f32 = x[t * 3]\nstore y[t] = z\n}\n}\n",
       0},
      {"kernel k tile(n: i64, x: f32[N]) -> (y: f32[N]) {\ngrid b = n\nfragment f: f32[512, 1024]\n"
       "map i, j in [512, 1024] { store f[i, j] = f32(i) }\n"
       "load z: f32 = f[b % 7, b % 5]\nload w: f32 = x[b * 3]\nstore y[b] = z + w\n}\n",
       0}};
  static const char *const arch[] = {"sm_80", "sm_90a"};
  for (int i = 0; i < 6; i++) {
    Lowered x = lower_text(cases[i / 2].text, arch[i % 2], 999);
    Ev *e = x.plain;
    const CudaText *t = cuda_print(e->arena, x.kernel, target_find(arch[i % 2]), &e->sink);
    ck_assert_msg(t != NULL, "%s", ev_errors(e));
    ck_assert_int_gt(t->nsites, 0);
    for (int k = 0; k < t->nsites; k++)
      ck_assert_msg(t->site[k].rank == cases[i / 2].rank, "%d: %d\n%s", i, t->site[k].rank,
                    t->text);
    ev_free(e);
  }
}
END_TEST

/* A block steps past the last tile by the number of blocks, in i32: where each tile of unequal ones
 * had a block of its own, there may be 2^30 of them. */
START_TEST(many_tiles_of_unequal_length) {
  static const char text[] =
      "kernel k tile(A: f16[M, K], B: f16[K, N], n: i64) -> (C: f32[128, 128]) {\n"
      "grid bx, by = n, 8192\nshared a: f16[128, 64]\nshared b: f16[64, 128]\n"
      "fragment acc: f32[128, 128]\nmap i, j in [128, 128] { store acc[i, j] = 0.0 unchecked }\n"
      "for ko: i64 = 0, bx + 1, 1 pipelined(3) {\ncopy a = A[by * 128:+128, ko * 64:+64]\n"
      "copy b = B[ko * 64:+64, bx * 128:+128]\ndot acc += a @ b\n}\n"
      "copy C[by * 128:+128, bx * 128:+128] = acc\n}\n";
  static const int64_t n[] = {131072, 131073}, blocks[] = {1 << 30, 132}, extent[] = {128, 128};
  Lowered x = lower_text(text, "sm_90a", 0);
  says(&x, "the longest first");
  for (int i = 0; i < 2; i++) {
    Ev *e = ev_new(x.text);
    ev_give(e, "A", DT_F16, 2, extent, ev_small);
    ev_give(e, "B", DT_F16, 2, extent, ev_small);
    ev_scalar(e, "n", (double)n[i]);
    ck_assert_msg(ir_bind(e->kernel, e->binding, 132, &e->sink), "%s", ev_errors(e));
    ck_assert_int_eq(e->binding->grid[0], blocks[i]);
    ev_free(e);
  }
  ev_free(x.plain);
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
  const TTest *const tests[] = {folded_grids,
                                faults_of_folded_grids,
                                assertions_of_folded_grids,
                                blocks_that_stay_are_named_by_whom_they_are_of,
                                many_tiles_of_unequal_length,
                                offsets_of_64_bits,
                                NULL};
  return run_suite("large", tests);
}
