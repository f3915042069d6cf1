/* bench_eval.c: times the evaluator on the kernels of bench/eval: `bench_eval [-t threads]
 * [-c baseline|v3|v4|auto] [-n runs] [-a] [DIR]`. -a: what --checks all costs, instead.
 *
 * In: DIR (bench/eval of the source tree unless given). Out: a table of medians beside the targets,
 * and the ratio to OpenBLAS of the 2048^3 product in f32, both timed in turns; OpenBLAS is opened
 * at run time where it is installed. Exit status 1 where a kernel fails, never for a time.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "eval/eval.h"

enum { MOST_RUNS = 101, BIG = 2048 };

typedef struct Bench {
  Arena *arena;
  DiagSink sink;
  EvalOptions options;
  const char *dir;
  int runs;
  bool all;
} Bench;

typedef struct Row {
  const char *file, *kernel, *what;
  DType type;
  int rank, inputs;
  int64_t extent[3];
  double scale;  /* of the scalar parameter */
  double target; /* ms */
} Row;

static const Row rows[] = {
    {"add.ir", "add", "add f32 1 Mi, block 1024, tiles", DT_F32, 1, 2, {1 << 20}, 0, 1.5},
    {"add.ir", "add_elements", "add f32 1 Mi, block 1024, elements", DT_F32, 1, 2, {1 << 20}, 0, 0},
    {"matmul.ir", "matmul_128", "matmul f16 512^3, 128x128x32", DT_F16, 2, 2, {512, 512}, 0, 3.0},
    {"matmul.ir", "matmul_64", "matmul f16 512^3, 64x64x32", DT_F16, 2, 2, {512, 512}, 0, 3.5},
    {"attention.ir",
     "attention",
     "attention f16 H8 S512 D64, 64x64",
     DT_F16,
     3,
     3,
     {8, 512, 64},
     0.18,
     8.0},
};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* Processor time of all threads: what a run takes on a machine that others use too. */
static double busy(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *v, int n) {
  qsort(v, (size_t)n, sizeof *v, by_size);
  return v[n / 2];
}

static bool fail(Bench *b) {
  Str s = str_new(b->arena);
  diag_format_all(&b->sink, false, &s);
  fputs(str_text(&s), stderr);
  return false;
}

/* Values in (-1, 1), the same every time. */
static double value(uint64_t i) {
  uint64_t x = i * 0x9E3779B97F4A7C15u + 12345;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9u;
  x ^= x >> 32;
  return (double)(x >> 11) / 4503599627370496.0 - 1.0;
}

static void *elements(Bench *b, DType t, int64_t n) {
  char *p = arena_alloc(b->arena, (size_t)n * dtype_size(t) + 64);
  for (int64_t i = 0; i < n; i++) {
    Scalar s = {.type = DT_F64, .as.f = value((uint64_t)i)};
    scalar_store(scalar_convert(s, t), p + i * (int64_t)dtype_size(t));
  }
  return p;
}

static IrTensorArg tensor(Bench *b, const Row *r) {
  IrTensorArg x = {.rank = r->rank, .dtype = r->type};
  int64_t n = 1;
  for (int i = r->rank - 1; i >= 0; i--) {
    x.extent[i] = r->extent[i];
    x.stride[i] = n;
    n *= r->extent[i];
  }
  x.data = elements(b, r->type, n);
  return x;
}

static IrKernel *load(Bench *b, const Row *r) {
  const char *why = NULL;
  size_t n;
  char *path = arena_printf(b->arena, "%s/%s", b->dir, r->file);
  char *text = io_read_file(b->arena, path, &n, &why);
  IrKernels kernels = {0};
  if (!text) {
    fprintf(stderr, "%s: %s\n", path, why);
    return NULL;
  }
  SrcFile *file = src_new(b->arena, path, text, n);
  if (!ir_read(b->arena, names_new(b->arena), file, &b->sink, &kernels))
    return NULL;
  for (size_t i = 0; i < kernels.n; i++)
    if (!strcmp(kernels.v[i]->name, r->kernel) && ir_verify(kernels.v[i], &b->sink))
      return kernels.v[i];
  return NULL;
}

/* Inputs, the scalar, and outputs that start unwritten. */
static IrBinding *bind(Bench *b, IrKernel *k, const Row *r) {
  IrBinding *x = ir_binding_new(b->arena, k);
  for (size_t i = 0; i < k->params.n; i++) {
    IrParam p = k->params.v[i];
    if (p.buf && p.buf->role == IRR_IN)
      x->tensor[p.buf->id] = tensor(b, r);
    else if (p.var)
      x->value[p.var->id] = (Scalar){.type = p.var->type, .as.f = r->scale};
  }
  if (!ir_bind(k, x, 132, &b->sink))
    return NULL;
  for (size_t i = 0; i < k->params.n; i++) {
    IrBuffer *buf = k->params.v[i].buf;
    if (!buf || buf->role != IRR_OUT)
      continue;
    IrTensorArg *t = &x->tensor[buf->id];
    size_t n = 1;
    for (int d = 0; d < t->rank; d++)
      n *= (size_t)t->extent[d];
    t->data = arena_alloc(b->arena, n * dtype_size(t->dtype) + 64);
    t->written = arena_alloc(b->arena, n + 64);
  }
  return x;
}

/* With the checks that every launch has, and with all of them, in turns. */
static bool run_checks(Bench *b, const Row *r, EvalProgram *p, const IrBinding *x) {
  static const EvalChecks checks[2] = {CHECKS_DEFAULT, CHECKS_ALL};
  double ms[2][MOST_RUNS], cpu[2][MOST_RUNS];
  for (int i = -2; i < b->runs; i++)
    for (int c = 0; c < 2; c++) {
      EvalOptions o = b->options;
      o.checks = checks[c];
      double start = now(), work = busy();
      if (eval_run(p, x, &o, &b->sink) != ST_OK)
        return fail(b);
      if (i >= 0) {
        ms[c][i] = now() - start;
        cpu[c][i] = busy() - work;
      }
    }
  double plain = median(ms[0], b->runs), all = median(ms[1], b->runs);
  double work = median(cpu[0], b->runs), more = median(cpu[1], b->runs);
  printf("%-38s %8.3f ms, all checks %8.3f ms: %.1f times (processor %.3f, %.3f: %.1f times)\n",
         r->what, plain, all, all / plain, work, more, more / work);
  return true;
}

static bool run_row(Bench *b, const Row *r) {
  double ms[MOST_RUNS], cpu[MOST_RUNS];
  int threads = pool_threads(b->options.pool);
  IrKernel *k = load(b, r);
  EvalProgram *p = k ? eval_compile(b->arena, k, &b->sink) : NULL;
  IrBinding *x = p ? bind(b, k, r) : NULL;
  if (!x)
    return fail(b);
  if (b->all)
    return run_checks(b, r, p, x);
  for (int i = -2; i < b->runs; i++) {
    double start = now(), work = busy();
    if (eval_run(p, x, &b->options, &b->sink) != ST_OK)
      return fail(b);
    if (i >= 0)
      ms[i] = now() - start;
    if (i >= 0)
      cpu[i] = (busy() - work) / threads;
  }
  double mid = median(ms, b->runs), share = median(cpu, b->runs);
  printf("%-38s %8.3f ms  (least %7.3f; processor / threads %7.3f", r->what, mid, ms[0], share);
  if (r->target > 0)
    printf("; target %.1f: %.2f", r->target, mid / r->target);
  printf(")\n");
  return true;
}

/* ---------------------------------------------------------------- 2048^3 beside OpenBLAS */

typedef void (*Sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                      int lda, const float *b, int ldb, float beta, float *c, int ldc);

static Sgemm open_blas(int threads) {
  void *lib = dlopen("libopenblas.so.0", RTLD_NOW);
  void (*set)(int) = NULL;
  Sgemm f = NULL;
  if (!lib)
    return NULL;
  *(void **)&set = dlsym(lib, "openblas_set_num_threads");
  *(void **)&f = dlsym(lib, "cblas_sgemm");
  if (set)
    set(threads);
  return f;
}

static bool run_product(Bench *b, int threads) {
  Sgemm blas = open_blas(threads);
  float *x = elements(b, DT_F32, BIG * BIG), *y = elements(b, DT_F32, BIG * BIG);
  float *z = elements(b, DT_F32, BIG * BIG);
  EvalMatrix a = {x, BIG, 1}, c = {y, BIG, 1}, d = {z, BIG, 1};
  double ours[MOST_RUNS], theirs[MOST_RUNS] = {0};
  int runs = b->runs < 9 ? b->runs : 9;
  for (int i = -1; i < runs; i++) { /* in turns: what disturbs one disturbs the other */
    double start = now();
    if (eval_product(&b->options, DT_F32, BIG, BIG, BIG, a, c, d, false) != ST_OK)
      return false;
    double middle = now();
    if (blas)
      blas(101, 111, 111, BIG, BIG, BIG, 1, x, BIG, y, BIG, 0, z, BIG);
    if (i >= 0) {
      ours[i] = middle - start;
      theirs[i] = now() - middle;
    }
  }
  double m = median(ours, runs), o = median(theirs, runs);
  printf("%-38s %8.1f ms  (least %7.1f)\n", "product f32 2048^3, host", m, ours[0]);
  if (blas)
    printf("%-38s %8.1f ms  (least %7.1f; ours / theirs %.2f, of the least %.2f; target 1.35)\n",
           "  OpenBLAS", o, theirs[0], m / o, ours[0] / theirs[0]);
  else
    printf("  OpenBLAS is not here (Debian: libopenblas0-pthread)\n");
  return true;
}

int main(int argc, char **argv) {
  Bench b = {.arena = arena_new(NULL, "bench"), .dir = TILESH_SRCDIR "/bench/eval", .runs = 21};
  int threads = 0, option;
  b.options.isa = OPS_BEST;
  b.options.checks = CHECKS_DEFAULT;
  diag_init(&b.sink, b.arena);
  while ((option = getopt(argc, argv, "t:c:n:a")) != -1) {
    if (option == 't')
      threads = (int)strtol(optarg, NULL, 10);
    else if (option == 'n')
      b.runs = (int)strtol(optarg, NULL, 10);
    else if (option == 'a')
      b.all = true;
    else if (option != 'c' || !op_isa_parse(optarg, &b.options.isa))
      return 2;
  }
  if (b.runs < 1 || b.runs > MOST_RUNS)
    b.runs = 21;
  if (optind < argc)
    b.dir = argv[optind];
  b.options.pool = pool_new(threads);
  bool ok = true;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    ok &= run_row(&b, &rows[i]);
  if (!b.all)
    ok &= run_product(&b, pool_threads(b.options.pool));
  pool_free(b.options.pool);
  arena_free(b.arena);
  return ok ? 0 : 1;
}
