/* mutants.c: the thread-level kernels of tests/lower on the evaluator: clean and right as they are,
 * in the natural order and shaken; reported with a place for every seeded fault of mutants.tsv.
 *
 * `mutants SRCDIR [NAME]`: runs all rows, or those whose name holds NAME, and then shows the
 * reports. The last line says `N passed, N failed`. References are written here: products of small
 * integers, every partial sum exact; attention in double.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "eval/eval.h"

enum { MULTIPROCESSORS = 3, MOST = 1 << 20 };

typedef struct Case { /* a kernel on its data */
  Arena *arena;
  DiagSink sink;
  IrKernel *kernel;
  EvalProgram *program;
  IrBinding *binding;
  float *in[3];
  IrTensorArg *out;
} Case;

/* ---------------------------------------------------------------- data */

static float small_integer(uint64_t i) {
  return (float)((int)(i * 7 % 13 + i / 11 % 5) % 9 - 4);
}

static float real(uint64_t i) {
  uint64_t x = (i + 1) * 0x9E3779B97F4A7C15u;
  x ^= x >> 31;
  x *= 0xBF58476D1CE4E5B9u;
  return bf16_to_f32(f32_to_bf16((float)((double)(x >> 11) * 0x1p-51 - 2)));
}

/* A contiguous tensor in storage form; its elements as floats. */
static float *give(Case *c, IrTensorArg *t, int rank, const int64_t *extent,
                   float (*element)(uint64_t), uint64_t salt) {
  *t = (IrTensorArg){.dtype = DT_BF16, .rank = rank};
  int64_t n = 1;
  for (int i = rank - 1; i >= 0; i--) {
    t->extent[i] = extent[i];
    t->stride[i] = n;
    n *= extent[i];
  }
  float *x = ARENA_ARRAY(c->arena, float, n + 1024);
  uint16_t *stored = ARENA_ARRAY(c->arena, uint16_t, n + 4096);
  for (int64_t i = 0; i < n; i++) {
    x[i] = element((uint64_t)i + salt);
    stored[i] = f32_to_bf16(x[i]);
  }
  t->data = stored;
  return x;
}

static void give_outputs(Case *c) {
  for (size_t i = 0; i < c->kernel->params.n; i++) {
    const IrBuffer *b = c->kernel->params.v[i].buf;
    if (!b || b->role == IRR_IN)
      continue;
    IrTensorArg *t = &c->binding->tensor[b->id];
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++)
      n *= t->extent[d];
    t->data = arena_alloc(c->arena, (size_t)n * dtype_size(t->dtype) + 8192);
    if (b->role == IRR_OUT) {
      t->written = arena_alloc(c->arena, (size_t)n + 64);
      c->out = t;
    }
  }
}

enum { M = 400, N = 520, K = 392, HEADS = 3, S = 400, D = 128 };

static const float scale = 0.12753175f; /* log2(e) / sqrt(128) */

static bool bind(Case *c, bool attention, bool transposed) {
  static const int64_t a[2] = {M, K}, nt[2] = {N, K}, nn[2] = {K, N}, head[4] = {1, HEADS, S, D};
  IrBinding *b = c->binding = ir_binding_new(c->arena, c->kernel);
  for (size_t i = 0; i < c->kernel->params.n; i++) {
    const IrParam *p = &c->kernel->params.v[i];
    if (p->var)
      b->value[p->var->id] = (Scalar){.type = DT_F32, .as.f = (double)scale};
    if (!p->buf || p->buf->role != IRR_IN)
      continue;
    IrTensorArg *t = &b->tensor[p->buf->id];
    const int64_t *extent = attention ? head : i == 0 ? a : transposed ? nt : nn;
    c->in[i] = give(c, t, attention ? 4 : 2, extent, attention ? real : small_integer, i * 12345);
  }
  if (!ir_bind(c->kernel, b, MULTIPROCESSORS, &c->sink))
    return false;
  give_outputs(c);
  return true;
}

/* ---------------------------------------------------------------- references */

static bool right_product(const Case *c, bool transposed) {
  const uint16_t *out = c->out->data;
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      double sum = 0;
      for (int k = 0; k < K; k++)
        sum += (double)c->in[0][i * K + k] * (double)c->in[1][transposed ? j * K + k : k * N + j];
      if (!c->out->written[i * N + j] || out[i * N + j] != f64_to_bf16(sum))
        return false;
    }
  return true;
}

/* One row of one head; the result, rounded to bf16 from an f32 accumulation of terms whose factor P
 * is rounded to bf16, is off by at most 2^-7 of the largest value. */
static bool right_row(const Case *c, int h, int i, int keys) {
  double p[S], top = -HUGE_VAL, sum = 0;
  const float *q = c->in[0] + (h * S + i) * D;
  for (int j = 0; j < keys; j++) {
    p[j] = 0;
    for (int d = 0; d < D; d++)
      p[j] += (double)q[d] * (double)c->in[1][(h * S + j) * D + d];
    p[j] *= (double)scale;
    top = p[j] > top ? p[j] : top;
  }
  for (int j = 0; j < keys; j++)
    sum += p[j] = exp2(p[j] - top);
  for (int d = 0; d < D; d++) {
    double want = 0, got = (double)bf16_to_f32(((uint16_t *)c->out->data)[(h * S + i) * D + d]);
    for (int j = 0; j < keys; j++)
      want += p[j] * (double)c->in[2][(h * S + j) * D + d] / sum;
    if (!c->out->written[(h * S + i) * D + d] || !(fabs(got - want) <= 2 * 0x1p-7))
      return false;
  }
  return true;
}

static bool right_attention(const Case *c, bool causal) {
  for (int h = 0; h < HEADS; h++)
    for (int i = 0; i < S; i += 3)
      if (!right_row(c, h, i, causal ? i + 1 : S))
        return false;
  return true;
}

/* ---------------------------------------------------------------- running */

static bool load(Case *c, const char *name, const char *text) {
  IrKernels kernels = {0};
  diag_init(&c->sink, c->arena);
  SrcFile *file = src_new(c->arena, name, text, strlen(text));
  if (!file || !ir_read(c->arena, names_new(c->arena), file, &c->sink, &kernels) ||
      kernels.n != 1 || !ir_verify(kernels.v[0], &c->sink))
    return false;
  c->kernel = kernels.v[0];
  c->program = eval_compile(c->arena, c->kernel, &c->sink);
  return c->program != NULL;
}

/* Runs the text of a kernel of tests/lower; `right` says whether its results are. */
static Status run(Case *c, const char *name, const char *text, uint64_t shake, bool *right) {
  bool attention = strncmp(name, "attn", 4) == 0, transposed = strstr(name, "_nt") != NULL;
  EvalOptions o = {.isa = OPS_BEST, .checks = CHECKS_ALL, .shake = shake, .max_steps = MOST};
  *right = false;
  if (!load(c, name, text))
    return ST_COMPILE;
  if (!bind(c, attention, transposed))
    return ST_USAGE;
  Status s = eval_run(c->program, c->binding, &o, &c->sink);
  if (s == ST_OK)
    *right = attention ? right_attention(c, strstr(name, "causal") != NULL)
                       : right_product(c, transposed);
  return s;
}

static void show(Case *c) {
  Str s = str_new(c->arena);
  diag_format_all(&c->sink, false, &s);
  fputs(str_text(&s), stdout);
}

/* ---------------------------------------------------------------- the kernels as they are */

static char *read_kernel(Arena *a, const char *srcdir, const char *name) {
  const char *why = NULL;
  size_t n;
  char *text = io_read_file(a, arena_printf(a, "%s/tests/lower/%s", srcdir, name), &n, &why);
  if (!text)
    printf("%s: %s\n", name, why);
  return text;
}

static void clean(const char *srcdir, const char *name, int *passed, int *failed) {
  for (uint64_t shake = 0; shake < 4; shake++) {
    Case c = {.arena = arena_new(NULL, "case")};
    bool right = false;
    char *text = read_kernel(c.arena, srcdir, name);
    Status s = text ? run(&c, name, text, shake, &right) : ST_USAGE;
    if (s != ST_OK || !right) {
      printf("FAIL %s, shake %d: status %d, results %s\n", name, (int)shake, (int)s,
             right ? "right" : "wrong");
      show(&c);
    }
    *(s == ST_OK && right ? passed : failed) += 1;
    arena_free(c.arena);
  }
}

/* ---------------------------------------------------------------- mutants */

typedef struct Row {
  char *file, *name, *occurrence, *from, *to;
} Row;

/* `\n` in a field is a new line. */
static void unescape(char *s) {
  char *to = s;
  for (; *s; s++) {
    bool line = s[0] == '\\' && s[1] == 'n';
    *to++ = line ? '\n' : *s;
    s += line;
  }
  *to = '\0';
}

static char *field(char **rest) {
  char *start = *rest, *tab = start ? strchr(start, '\t') : NULL;
  *rest = tab ? tab + 1 : NULL;
  if (tab)
    *tab = '\0';
  return start;
}

static bool parse(char *line, Row *r) {
  char *rest = line;
  r->file = field(&rest);
  r->name = field(&rest);
  r->occurrence = field(&rest);
  r->from = field(&rest);
  r->to = field(&rest);
  if (!r->to)
    return false;
  unescape(r->from);
  unescape(r->to);
  return true;
}

/* The text with one occurrence (0: all) replaced; NULL if it is not there. */
static char *mutate(Arena *a, const char *text, const Row *r) {
  Str s = str_new(a);
  long wanted = strtol(r->occurrence, NULL, 10), seen = 0;
  bool done = false;
  for (const char *at; (at = strstr(text, r->from)) != NULL;) {
    bool here = wanted == 0 || ++seen == wanted;
    str_addn(&s, text, (size_t)(at - text));
    str_add(&s, here ? r->to : r->from);
    text = at + strlen(r->from);
    done = done || here;
  }
  str_add(&s, text);
  return done ? s.s : NULL;
}

static void mutant(const char *srcdir, const Row *r, bool shown, int *passed, int *failed) {
  Case c = {.arena = arena_new(NULL, "case")};
  bool right = false;
  char *text = read_kernel(c.arena, srcdir, r->file);
  text = text ? mutate(c.arena, text, r) : NULL;
  Status s = text ? run(&c, r->file, text, 0, &right) : ST_USAGE;
  bool reported = s == ST_FAIL && c.sink.n == 1 && c.sink.v[0]->span.file;
  if (!reported)
    printf("FAIL %s: %s\n", r->name, !text ? "its text is not in the kernel" : "not reported");
  if (shown || (!reported && text))
    show(&c);
  *(reported ? passed : failed) += 1;
  arena_free(c.arena);
}

static bool mutants(const char *srcdir, const char *only, int *passed, int *failed) {
  Arena *a = arena_new(NULL, "table");
  const char *why = NULL;
  size_t n;
  char *rest = io_read_file(a, arena_printf(a, "%s/tests/mutants/mutants.tsv", srcdir), &n, &why);
  bool ok = rest != NULL;
  while (rest) {
    char *line = rest, *end = strchr(rest, '\n');
    Row r;
    rest = end ? end + 1 : NULL;
    if (end)
      *end = '\0';
    if (*line && *line != '#' && parse(line, &r) && (!only || strstr(r.name, only)))
      mutant(srcdir, &r, only != NULL, passed, failed);
  }
  arena_free(a);
  return ok;
}

int main(int argc, char **argv) {
  static const char *const kernels[] = {"gemm_nt.ir", "gemm_nn.ir", "attn_full.ir",
                                        "attn_causal.ir"};
  int passed = 0, failed = 0;
  if (argc < 2)
    return 2;
  for (int i = 0; i < 4 && argc == 2; i++)
    clean(argv[1], kernels[i], &passed, &failed);
  if (!mutants(argv[1], argc > 2 ? argv[2] : NULL, &passed, &failed))
    failed++;
  printf("%d passed, %d failed\n", passed, failed);
  return failed || fflush(stdout) ? 1 : 0;
}
