/* check_lower.c: every tile-level construct, lowered to threads, against the tile level.
 *
 * Both run on the evaluator with the same random arguments (reals: the lowering keeps the order of
 * every operation, so the bits must agree); a kernel that faults must fault at both levels. Each
 * case runs for several targets: the smallest moves tiles to scratch.
 */
#include <check.h>
#include <string.h>

#include "eval/eval.h"
#include "lower/lower.h"
#include "lower_random.h"

/* ---------------------------------------------------------------- arguments */

typedef struct Fixed { /* "N=100,M=7" */
  const char *text;
} Fixed;

static uint64_t next_random(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  uint64_t x = *state;
  return (x ^ (x >> 29)) >> 8;
}

/* Small integers where the order of sums is not the tile level's. */
static Scalar random_scalar(DType t, bool integers, uint64_t *state) {
  Scalar s = {.type = DT_I64};
  if (dtype_is_float(t) && !integers) {
    s.type = DT_F64;
    s.as.f = ((double)(next_random(state) % 2000001) - 1e6) / 3e5;
  } else {
    s.as.i = (int64_t)(next_random(state) % 7) - (dtype_is_signed(t) ? 3 : 0);
  }
  return scalar_convert(s, t);
}

/* The value given for a name in "N=100,M=7"; -1 where there is none. */
static int64_t given(const char *args, const char *name) {
  size_t n = strlen(name);
  for (const char *p = args; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
    if (!strncmp(p, name, n) && p[n] == '=')
      return (int64_t)str_read_f64(p + n + 1, &p);
  return -1;
}

static int64_t count(const IrTensorArg *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++)
    n *= t->extent[i];
  return n;
}

static void row_major(IrTensorArg *t) {
  for (int64_t i = t->rank - 1, n = 1; i >= 0; i--) {
    t->stride[i] = n;
    n *= t->extent[i] ? t->extent[i] : 1;
  }
}

static void allocate(Arena *a, IrTensorArg *t) {
  char *p = arena_alloc(a, (size_t)count(t) * dtype_size(t->dtype) + 64);
  t->data = p + (16 - (uintptr_t)p % 16) % 16;
}

static void fill_random(IrTensorArg *t, bool integers, uint64_t seed) {
  uint64_t state = seed * 977 + 5;
  for (int64_t i = 0; i < count(t); i++) {
    Scalar s = random_scalar(t->dtype, integers, &state);
    scalar_store(s, (char *)t->data + (size_t)i * dtype_size(t->dtype));
  }
}

/* One way to lower, on one target. */
typedef struct Way {
  const Target *target;
  int candidate;
  bool integers; /* sums may be in another order */
  bool columns;  /* tensors of two axes lie by columns, where the kernel asks for strides */
} Way;

/* Inputs by the extents of args; data depends on the parameter's position only, so that both levels
 * see the same. */
static IrBinding *bind_args(Arena *a, const IrKernel *k, const char *args, const Way *w,
                            DiagSink *sink) {
  IrBinding *b = ir_binding_new(a, k);
  for (size_t i = 0; i < k->vars.n; i++) {
    const IrVar *v = k->vars.v[i];
    int64_t value = given(args, v->name);
    if ((v->kind == IRV_EXTENT || v->kind == IRV_PARAM) && value >= 0) {
      Scalar s = {.type = DT_I64, .as.i = value};
      b->value[i] = scalar_convert(s, v->type);
    }
  }
  for (size_t i = 0; i < k->params.n; i++) {
    const IrBuffer *buf = k->params.v[i].buf;
    if (!buf || (buf->role != IRR_IN && buf->role != IRR_INOUT))
      continue;
    IrTensorArg *t = &b->tensor[buf->id];
    t->rank = buf->rank;
    for (int d = 0; d < buf->rank; d++) {
      Scalar s;
      ck_assert(ir_host_eval(buf->extent[d], b, &s));
      t->extent[d] = s.as.i;
    }
    row_major(t);
    if (w->columns && t->rank == 2 && buf->stride[0] && buf->stride[1]) {
      t->stride[0] = 1;
      t->stride[1] = t->extent[0] ? t->extent[0] : 1;
    }
    allocate(a, t);
    fill_random(t, w->integers, i + 1);
  }
  if (!ir_bind(k, b, 132, sink))
    return NULL;
  for (size_t i = 0; i < k->params.n; i++) {
    const IrBuffer *buf = k->params.v[i].buf;
    if (buf && !b->tensor[buf->id].data) {
      allocate(a, &b->tensor[buf->id]);
      fill_random(&b->tensor[buf->id], w->integers, 77); /* what nothing writes stays equal */
      if (buf->role == IRR_SCRATCH)
        memset(b->tensor[buf->id].data, 0,
               (size_t)count(&b->tensor[buf->id]) * dtype_size(buf->dtype));
    }
  }
  return b;
}

/* ---------------------------------------------------------------- running and comparing */

static const char *errors_of(Arena *a, const DiagSink *sink) {
  Str s = str_new(a);
  diag_format_all(sink, false, &s);
  return str_text(&s);
}

static Status run(Arena *a, IrKernel *k, IrBinding *b, uint64_t shake, DiagSink *sink) {
  EvalOptions o = {.isa = OPS_BEST,
                   .checks = CHECKS_DEFAULT,
                   .print = stdout,
                   .max_steps = 200000000,
                   .shake = shake};
  EvalProgram *p = eval_compile(a, k, sink);
  ck_assert_msg(p != NULL, "%s does not compile: %s", k->name, errors_of(a, sink));
  return eval_run(p, b, &o, sink);
}

static IrKernel *read_kernel(Arena *a, const char *text, DiagSink *sink) {
  IrKernels ks = {0};
  SrcFile *f = src_new(a, "case.ir", text, strlen(text));
  bool ok = ir_read(a, names_new(a), f, sink, &ks);
  ck_assert_msg(ok, "%s", errors_of(a, sink));
  ck_assert_msg(ir_verify(ks.v[0], sink), "%s", errors_of(a, sink));
  return ks.v[0];
}

static void compare(Arena *a, const IrKernel *k, const IrBinding *x, const IrBinding *y) {
  for (size_t i = 0; i < k->params.n; i++) {
    const IrBuffer *buf = k->params.v[i].buf;
    if (!buf || buf->role == IRR_SCRATCH)
      continue;
    const IrTensorArg *s = &x->tensor[buf->id], *t = &y->tensor[buf->id];
    size_t size = dtype_size(buf->dtype);
    for (int64_t e = 0; e < count(s); e++) {
      const char *p = (const char *)s->data + (size_t)e * size;
      const char *q = (const char *)t->data + (size_t)e * size;
      Scalar u = scalar_load(buf->dtype, p), v = scalar_load(buf->dtype, q);
      bool nans = dtype_is_float(buf->dtype) && u.as.f != u.as.f && v.as.f != v.as.f;
      if (nans || !memcmp(p, q, size))
        continue;
      Str text = str_new(a);
      ir_print(k, &text);
      ck_abort_msg("%s of %s differs at element %lld: %g (%lld) and %g (%lld)\n%.3500s", buf->name,
                   k->name, (long long)e, dtype_is_float(buf->dtype) ? u.as.f : 0.0,
                   (long long)u.as.i, dtype_is_float(buf->dtype) ? v.as.f : 0.0, (long long)v.as.i,
                   str_text(&text));
    }
  }
}

/* A target with so little shared memory that every large tile moves to scratch. */
static const Target tiny = {.name = "tiny",
                            .arch = ARCH_ANY,
                            .sms = 3,
                            .shared_limit = 2048,
                            .registers = 65536,
                            .max_threads = 1024};

/* What is true of the arguments, as a caller finds it. */
static LowerFact fact_of(const IrTensorArg *t) {
  LowerFact f = {(int8_t)(t->rank - 1), 1, true};
  uintptr_t all = (uintptr_t)t->data;
  if (t->rank == 2 && t->stride[0] == 1)
    f.unit_axis = 0;
  for (int i = 0; i < t->rank; i++)
    if (i != f.unit_axis)
      all |= (uintptr_t)t->stride[i] * dtype_size(t->dtype);
  while (f.align < 16 && all % (2U * f.align) == 0)
    f.align = (uint8_t)(2 * f.align);
  return f;
}

static LowerFact *facts_of(Arena *a, const IrKernel *k, const IrBinding *b) {
  LowerFact *f = ARENA_ARRAY(a, LowerFact, k->buffers.n);
  for (size_t i = 0; i < k->buffers.n; i++)
    f[i] =
        k->buffers.v[i]->space == IRS_GLOBAL ? fact_of(&b->tensor[i]) : (LowerFact){-1, 1, false};
  return f;
}

static void check_on(const char *text, const char *args, const Way *w, Status want) {
  Arena *a = arena_new(NULL, "case");
  DiagSink sink;
  diag_init(&sink, a);
  IrKernel *k = read_kernel(a, text, &sink);
  IrBinding *x = bind_args(a, k, args, w, &sink);
  ck_assert_msg(x != NULL, "%s", errors_of(a, &sink));
  LowerRequest r = {.target = w->target, .candidate = w->candidate, .fact = facts_of(a, k, x)};
  IrKernel *low = lower_to(a, k, IR_THREAD, &r, &sink);
  ck_assert_msg(low != NULL, "%s", errors_of(a, &sink));
  IrBinding *y = bind_args(a, low, args, w, &sink);
  ck_assert_msg(y != NULL, "%s", errors_of(a, &sink));
  Status tile = run(a, k, x, 0, &sink);
  ck_assert_msg(tile == want, "tile level of %s ends with %d: %s", k->name, tile,
                errors_of(a, &sink));
  diag_clear(&sink);
  Status thread = run(a, low, y, w->target == &tiny ? 11 : 0, &sink); /* warps in another order */
  Str out = str_new(a);
  ir_print(low, &out);
  ck_assert_msg(thread == want, "threads of %s end with %d: %.1500s\n%.2000s", k->name, thread,
                errors_of(a, &sink), str_text(&out));
  if (want == ST_OK)
    compare(a, low, x, y);
  arena_free(a);
}

/* The scalar candidate keeps every order of the tile level, so reals must agree; the better ones
 * change that of sums. */
static void check_all(const char *text, const char *args, Status want) {
  enum { LAST = 1000 };
  const Way ways[] = {
      {target_find("sm_90a"), LAST, false, false}, {&tiny, LAST, false, true},
      {target_find("sm_90a"), 0, true, false},     {target_find("sm_80"), 0, true, false},
      {target_find("sm_80"), 0, true, true},       {&tiny, 0, true, false}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
    check_on(text, args, &ways[i], want);
}

static void same(const char *text, const char *args) {
  check_all(text, args, ST_OK);
}

static void faults(const char *text, const char *args) {
  check_all(text, args, ST_FAIL);
}

/* Without the lines that note a fault: what the kernel does behind them, on a device where it runs
 * on. */
static const char *without_faults(Arena *a, const IrKernel *k) {
  Str text = str_new(a), out = str_new(a);
  ir_print(k, &text);
  for (const char *line = str_text(&text); *line;) {
    size_t n = strcspn(line, "\n") + 1;
    if (strncmp(line + strspn(line, " "), "fault ", 6) != 0)
      str_addn(&out, line, n);
    line += n;
  }
  return str_text(&out);
}

/* The thread level loads rows asynchronously, ahead of the rounds that use them. runs: with its
 * faults only noted it runs to its end, and touches nothing outside of a tensor. */
static void fetches_ahead(const char *text, const char *args, bool runs) {
  static const char *const arch[] = {"sm_80", "sm_90a"};
  for (int i = 0; i < 2; i++) {
    Way w = {target_find(arch[i]), 0, true, false};
    Arena *a = arena_new(NULL, "case");
    DiagSink sink;
    diag_init(&sink, a);
    IrKernel *k = read_kernel(a, text, &sink);
    IrBinding *x = bind_args(a, k, args, &w, &sink);
    LowerRequest r = {.target = w.target, .fact = facts_of(a, k, x)};
    IrKernel *low = lower_to(a, k, IR_THREAD, &r, &sink);
    ck_assert_msg(low != NULL, "%s", errors_of(a, &sink));
    const char *on = without_faults(a, low);
    ck_assert_msg(strstr(on, "cp_async ") != NULL, "no gather:\n%.3000s", on);
    low = read_kernel(a, on, &sink);
    Status status = runs ? run(a, low, bind_args(a, low, args, &w, &sink), 0, &sink) : ST_OK;
    ck_assert_msg(status == ST_OK, "%.1500s\n%.3000s", errors_of(a, &sink), on);
    arena_free(a);
  }
}

/* ---------------------------------------------------------------- cases */

START_TEST(products) {
  static const char text[] =
      "kernel mm tile(A: f16[M, K] strided, B: f16[K, N] strided) -> (C: f16[M, N] strided) {\n"
      "  grid bx, by = ceildiv(N, 16), ceildiv(M, 32)\n"
      "  shared As: f16[32, 24]\n"
      "  shared Bs: f16[24, 16]\n"
      "  fragment acc: f32[32, 16]\n"
      "  map i, j in [32, 16] { store acc[i, j] = 0 }\n"
      "  for ko: i64 = 0, ceildiv(K, 24), 1 pipelined(3) {\n"
      "    copy As = A[by*32:+_, ko*24:+_]\n"
      "    copy Bs = B[ko*24:+_, bx*16:+_]\n"
      "    dot acc += As @ Bs\n"
      "  }\n"
      "  copy C[by*32:+_, bx*16:+_] = acc\n"
      "}\n";
  same(text, "M=37,N=33,K=50");
  same(text, "M=1,N=1,K=0");
  same(text, "M=0,N=9,K=3");
}
END_TEST

/* A loop that fills a tile by rows computed on the way, ahead of the rounds that use it: a division
 * by zero in it is one, unless there is no round. */
START_TEST(gathers) {
  static const char text[] =
      "kernel rows tile(X: f16[N, C], Z: f16[D], L: f16[M], B: f16[C, 16]) -> (Y: f32[M, 16]) {\n"
      "  grid b = ceildiv(M, 64)\n"
      "  shared t: f16[64, 32]\n"
      "  shared u: f16[32, 16]\n"
      "  fragment acc: f32[64, 16]\n"
      "  map i, j in [64, 16] { store acc[i, j] = 0 }\n"
      "  for c: i64 = 0, ceildiv(C, 32), 1 pipelined(3) {\n"
      "    parallel r, k in [64, 32] {\n"
      "      let row: i64 = (b * 64 + r) // D\n"
      "      if (row < N) & (c * 32 + k < C) {\n"
      "        load x: f16 = X[row, c * 32 + k] unchecked\n"
      "        store t[r, k] = x\n"
      "      } else {\n"
      "        store t[r, k] = 0\n"
      "      }\n"
      "    }\n"
      "    copy u = B[c*32:+_, 0:+_]\n"
      "    dot acc += t @ u\n"
      "  }\n"
      "  copy Y[b*64:+_, 0:+_] = acc\n"
      "}\n";
  same(text, "N=20,C=72,D=3,M=70");
  same(text, "N=9,C=40,D=1,M=33");
  same(text, "N=5,C=3,D=2,M=8");
  same(text, "N=5,C=0,D=0,M=8");
  faults(text, "N=5,C=8,D=0,M=8");
  fetches_ahead(text, "N=20,C=72,D=3,M=70", false);
}
END_TEST

/* The rows of a tensor in turn: of one that has none, no element may be touched. */
START_TEST(gathers_of_nothing) {
  static const char text[] =
      "kernel turn tile(A: f16[N, C], S: f16[D, M], B: f16[32, 16]) -> (Y: f32[M, 16]) {\n"
      "  grid b = ceildiv(M, 64)\n"
      "  shared t: f16[64, 32]\n"
      "  shared u: f16[32, 16]\n"
      "  fragment acc: f32[64, 16]\n"
      "  map i, j in [64, 16] { store acc[i, j] = 0 }\n"
      "  for s: i64 = 0, D, 1 pipelined(3) {\n"
      "    let row: i64 = s % N\n"
      "    parallel r, k in [64, 32] {\n"
      "      if s * 32 + k < C {\n"
      "        load x: f16 = A[row, s * 32 + k] unchecked\n"
      "        store t[r, k] = x\n"
      "      } else {\n"
      "        store t[r, k] = 0\n"
      "      }\n"
      "    }\n"
      "    copy u = B[0:+_, 0:+_]\n"
      "    dot acc += t @ u\n"
      "  }\n"
      "  copy Y[b*64:+_, 0:+_] = acc\n"
      "}\n";
  same(text, "N=2,C=72,D=5,M=64");
  same(text, "N=0,C=72,D=0,M=64");
  faults(text, "N=0,C=720,D=5,M=64");
  fetches_ahead(text, "N=0,C=720,D=5,M=64", true);
}
END_TEST

/* Shapes that the tensor cores take, every way round, with ragged edges and both float types. */
START_TEST(products_of_tensor_cores) {
  static const char *const ways[][2] = {
      {"As @ Bs", "f16"}, {"As @ Bt.T", "bf16"}, {"At.T @ Bs", "f16"}, {"At.T @ Bt.T", "bf16"}};
  static const char *const more[] = {"", "  threads 32\n", "  threads 96\n"};
  Arena *a = arena_new(NULL, "texts");
  for (int w = 0; w < 4; w++)
    for (int i = 0; i < 3; i++) {
      const char *t = ways[w][1];
      const char *text = arena_printf(
          a,
          "kernel mm tile(A: %s[M, K] strided, B: %s[K, N] strided) -> (C: %s[M, N] strided) {\n"
          "  grid bx, by = ceildiv(N, 48), ceildiv(M, 64)\n%s"
          "  shared As: %s[64, 32]\n  shared Bs: %s[32, 48]\n"
          "  shared At: %s[32, 64]\n  shared Bt: %s[48, 32]\n"
          "  fragment acc: f32[64, 48]\n"
          "  map i, j in [64, 48] { store acc[i, j] = 1.0 }\n"
          "  for ko: i64 = 0, ceildiv(K, 32), 1 pipelined(3) {\n"
          "    copy As = A[by*64:+_, ko*32:+_]\n"
          "    copy Bs = B[ko*32:+_, bx*48:+_]\n"
          "    copy At = As.T\n    copy Bt = Bs.T\n"
          "    dot acc += %s\n"
          "  }\n"
          "  copy C[by*64:+_, bx*48:+_] = acc\n"
          "}\n",
          t, t, t, more[i], t, t, t, t, ways[w][0]);
      same(text, "M=100,N=70,K=50");
      same(text, "M=1,N=1,K=0");
      same(text, "M=64,N=96,K=128");
    }
  arena_free(a);
}
END_TEST

/* Where elements lie changes nothing of what they are: products, copies, elements, reductions. */
START_TEST(layouts) {
  static const char *const lies[][2] = {
      {"layout swizzle(64)", "layout swizzle(128)"},
      {"layout swizzle(32)", "layout padded(8)"},
      {"layout padded(3)", "layout swizzle(32)"},
      {"layout (i, j) -> j*130 + 2*i", "layout padded(8)"},
      {"layout (i, j) -> i*32 + (j ^ i % 4 * 8)", "layout (i, j) -> i*64 + j"}};
  Arena *a = arena_new(NULL, "texts");
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
    const char *text = arena_printf(
        a,
        "kernel mm tile(A: f16[M, K] strided, B: f16[K, N] strided) -> (C: f16[M, N] strided, "
        "D: f32[M] strided) {\n"
        "  grid bx, by = ceildiv(N, 64), ceildiv(M, 64)\n"
        "  shared As: f16[64, 32] %s\n  shared Bs: f16[32, 64] %s\n"
        "  fragment acc: f32[64, 64]\n  fragment d: f32[64]\n"
        "  map i, j in [64, 64] { store acc[i, j] = 1.0 }\n"
        "  for ko: i64 = 0, ceildiv(K, 32), 1 pipelined(3) {\n"
        "    copy As = A[by*64:+_, ko*32:+_]\n    copy Bs = B[ko*32:+_, bx*64:+_]\n"
        "    dot acc += As @ Bs\n  }\n"
        "  copy As = A[by*64:+_, 0:+_]\n"
        "  parallel i, j in [32, 32] { load x: f16 = As[i, j]\nstore As[i, j] = x + 1.0:f16 }\n"
        "  reduce d = sum(As) axis 1\n"
        "  if bx == 0 { copy D[by*64:+_] = d }\n"
        "  copy C[by*64:+_, bx*64:+_] = acc\n"
        "}\n",
        lies[i][0], lies[i][1]);
    same(text, "M=100,N=70,K=50");
    same(text, "M=64,N=64,K=0");
  }
  arena_free(a);
}
END_TEST

/* The text of the best candidate of a target, for tensors that lie row by row, aligned. */
static const char *lowered(Arena *a, const char *text, const char *arch) {
  DiagSink sink;
  diag_init(&sink, a);
  IrKernel *k = read_kernel(a, text, &sink);
  LowerFact *fact = ARENA_ARRAY(a, LowerFact, k->buffers.n);
  for (size_t i = 0; i < k->buffers.n; i++)
    fact[i] = (LowerFact){(int8_t)(k->buffers.v[i]->rank - 1), 16, true};
  LowerRequest r = {.target = target_find(arch), .fact = fact};
  IrKernel *low = lower_to(a, k, IR_THREAD, &r, &sink);
  Str out = str_new(a);
  ck_assert_msg(low != NULL, "%s", errors_of(a, &sink));
  ir_print(low, &out);
  return str_text(&out);
}

/* One warp's steps of K of every width, operands either way round; columns and rows that no 16
 * bytes divide. Which instruction it is on sm_80 and on sm_89: f8 whose rows 16 bytes do not divide
 * goes as f16 on both. What lies across K comes in pairs, 8-bit by transposed matrices. */
START_TEST(products_of_other_types) {
  static const char *const types[][4] = {
      {"i8", "i32", "i8", "i8"},          {"u8", "i32", "u8", "u8"},
      {"f8e4m3", "f32", "f16", "f8e4m3"}, {"f8e5m2", "f32", "f16", "f8e5m2"},
      {"f32", "f32", "f32", "f32"},       {"f64", "f64", "f64", "f64"},
      {"f64", "f64", "f64", "f64"}};
  static const int depths[] = {64, 64, 64, 64, 32, 16, 12};
  static const char *const ways[] = {"As @ Bt.T", "As @ Bs", "At.T @ Bs",
                                     "Ao[0:+64, 4:+64] @ Bt.T"};
  Arena *a = arena_new(NULL, "texts");
  for (int i = 0; i < 7; i++)
    for (int w = 0; w < 4; w++) {
      const char *t = types[i][0], *acc = types[i][1];
      int k = depths[i];
      const char *text = arena_printf(
          a,
          "kernel mm tile(A: %s[M, K] strided, B: %s[K, N] strided) -> (C: %s[M, N] strided) {\n"
          "  grid bx, by = ceildiv(N, 48), ceildiv(M, 64)\n  threads 64\n"
          "  shared As: %s[64, %d]\n  shared Bs: %s[%d, 48]\n"
          "  shared At: %s[%d, 64]\n  shared Bt: %s[48, %d]\n  shared Ao: %s[64, %d]\n"
          "  fragment acc: %s[64, 48]\n"
          "  map i, j in [64, 48] { store acc[i, j] = %s(1) }\n"
          "  for ko: i64 = 0, ceildiv(K, %d), 1 pipelined(3) {\n"
          "    copy As = A[by*64:+_, ko*%d:+_]\n"
          "    copy Bs = B[ko*%d:+_, bx*48:+_]\n"
          "    copy At = As.T\n    copy Bt = Bs.T\n    copy Ao[0:+64, 4:+%d] = As\n"
          "    dot acc += %s%s\n"
          "  }\n"
          "  copy C[by*64:+_, bx*48:+_] = acc\n"
          "}\n",
          t, t, acc, t, k, t, k, t, k, t, k, t, k + 6, acc, acc, k, k, k, k,
          w < 3 ? ways[w] : arena_printf(a, "Ao[0:+64, 4:+%d] @ Bt.T", k), i == 4 ? " tf32" : "");
      same(text, "M=100,N=70,K=150");
      same(text, "M=1,N=1,K=1");
      check_on(text, "M=0,N=1,K=0", &(Way){target_find("sm_90a"), 0, true, false}, ST_OK);
      check_on(text, "M=65,N=49,K=129", &(Way){target_find("sm_89"), 0, true, false}, ST_OK);
      check_on(text, "M=65,N=49,K=129", &(Way){target_find("sm_90a"), 1, true, true}, ST_OK);
      for (int arch = 0; arch < 2; arch++) {
        const char *want = types[i][2 + (w < 3 && arch)], *op;
        const char *low = lowered(a, text, arch ? "sm_89" : "sm_80");
        bool across = i < 4 && (w == 1 || w == 2);
        ck_assert_int_eq(across, strstr(low, "prmt(") && strstr(low, "ldmatrix_t"));
        op = strstr(low, "mma_sync");
        ck_assert_msg(op && !strncmp(strchr(op, '\n') - strlen(want), want, strlen(want)),
                      "%s, %s: not by mma_sync of %s", t, ways[w], want);
      }
    }
  arena_free(a);
}
END_TEST

/* Products that no instruction takes stay in registers all the same: of f32, of other types, of odd
 * shapes. */
START_TEST(products_without_tensor_cores) {
  static const char *const types[][2] = {{"f32", "f32"}, {"f16", "f32"}, {"i8", "i32"},
                                         {"i16", "i64"}, {"u32", "i64"}, {"f8e5m2", "f32"}};
  static const int shapes[][3] = {{64, 64, 16}, {24, 20, 7}, {40, 72, 12}};
  static const char *const ways[] = {"As @ Bs", "At.T @ Bs", "As @ Bt.T"};
  Arena *a = arena_new(NULL, "texts");
  for (int i = 0; i < 6; i++)
    for (int w = 0; w < 3; w++) {
      const char *t = types[i][0], *acc = types[i][1];
      int m = shapes[i ? 1 + i % 2 : 0][0], n = shapes[i ? 1 + i % 2 : 0][1];
      int k = shapes[i ? 1 + i % 2 : 0][2];
      const char *text =
          arena_printf(a,
                       "kernel mm tile(A: %s[M, K] strided, B: %s[K, N] strided) -> (C: %s[M, N] "
                       "strided, R: %s[M]) "
                       "{\n  grid bx, by = ceildiv(N, %d), ceildiv(M, %d)\n"
                       "  shared As: %s[%d, %d]\n  shared Bs: %s[%d, %d]\n"
                       "  shared At: %s[%d, %d]\n  shared Bt: %s[%d, %d]\n"
                       "  fragment acc: %s[%d, %d]\n  fragment sums: %s[%d]\n"
                       "  map i, j in [%d, %d] { store acc[i, j] = %s(1) }\n"
                       "  for ko: i64 = 0, ceildiv(K, %d), 1 pipelined(3) {\n"
                       "    copy As = A[by*%d:+_, ko*%d:+_]\n    copy Bs = B[ko*%d:+_, bx*%d:+_]\n"
                       "    copy At = As.T\n    copy Bt = Bs.T\n    dot acc += %s\n  }\n"
                       "  reduce sums = sum(acc) axis 1\n"
                       "  if bx == 0 { copy R[by*%d:+_] = sums }\n"
                       "  copy C[by*%d:+_, bx*%d:+_] = acc\n}\n",
                       t, t, acc, acc, n, m, t, m, k, t, k, n, t, k, m, t, n, k, acc, m, n, acc, m,
                       m, n, acc, k, m, k, k, n, ways[w], m, m, n);
      same(text, "M=100,N=70,K=50");
      same(text, "M=1,N=1,K=0");
      ck_assert_ptr_nonnull(strstr(lowered(a, text, "sm_80"), "reg acc_1"));
    }
  arena_free(a);
}
END_TEST

/* A loop that is one product has the next round's first operands on their way before its last
 * products, whatever the number of rounds and stages. */
START_TEST(products_of_rings) {
  static const char *const types[][2] = {{"f16", "f32"}, {"i8", "i32"}, {"f64", "f64"}};
  static const char *const args[] = {"M=70,N=50,K=0",   "M=64,N=48,K=1",   "M=1,N=49,K=64",
                                     "M=65,N=48,K=130", "M=33,N=96,K=200", "M=64,N=1,K=640"};
  Arena *a = arena_new(NULL, "texts");
  for (int i = 0; i < 3; i++)
    for (int stages = 2; stages < 5; stages++) {
      const char *t = types[i][0], *acc = types[i][1];
      int k = i == 2 ? 8 : 64;
      const char *text = arena_printf(
          a,
          "kernel mm tile(A: %s[M, K] strided, B: %s[N, K] strided) -> (C: %s[M, N] strided) {\n"
          "  grid bx, by = ceildiv(N, 48), ceildiv(M, 64)\n  threads 128\n"
          "  shared As: %s[64, %d]\n  shared Bs: %s[48, %d]\n  fragment acc: %s[64, 48]\n"
          "  map i, j in [64, 48] { store acc[i, j] = %s(i) }\n"
          "  for ko: i64 = 0, ceildiv(K, %d), 1 pipelined(%d) {\n"
          "    copy As = A[by*64:+_, ko*%d:+_]\n    copy Bs = B[bx*48:+_, ko*%d:+_]\n"
          "    dot acc += As @ Bs.T\n  }\n"
          "  copy C[by*64:+_, bx*48:+_] = acc\n}\n",
          t, t, acc, t, k, t, k, acc, acc, k, stages, k, k);
      ck_assert_ptr_nonnull(strstr(lowered(a, text, "sm_80"), "let ahead_1: i32"));
      for (size_t j = 0; j < sizeof args / sizeof *args; j++)
        same(text, args[j]);
    }
  arena_free(a);
}
END_TEST

/* Every size of f8, subnormal numbers, infinities and NaN come through as they are. */
START_TEST(products_of_all_f8) {
  static const char *const types[][3] = {
      {"f8e4m3", "f8e4m3", "nan"}, {"f8e5m2", "f8e5m2", "inf"}, {"f8e5m2", "f8e4m3", "nan"}};
  Arena *a = arena_new(NULL, "texts");
  for (int i = 0; i < 3; i++) {
    const char *t = types[i][0], *u = types[i][1];
    const char *text = arena_printf(
        a,
        "kernel f8 tile() -> (C: f32[4, 16, 8]) {\n  grid b = 4\n"
        "  shared x: %s[16, 32]\n  shared y: %s[8, 32]\n  fragment c: f32[16, 8]\n"
        "  map i, j in [16, 32] {\n    let v: f32 = exp2(f32(i) - 9.0) * (1.0 + f32(j %% "
        "8)*0.125)\n"
        "    store x[i, j] = %s(where((i == 3) & (j == 5), %s, where(j > 15, -v, v))) }\n"
        "  map i, j in [8, 32] { store y[i, j] = %s(where(j == 4*i + b, -0.001953125, 0.0)) }\n"
        "  dot c = x @ y.T\n  copy C[b, 0:+_, 0:+_] = c\n}\n",
        t, u, t, types[i][2], u);
    same(text, "");
    check_on(text, "", &(Way){target_find("sm_89"), 0, true, false}, ST_OK);
  }
  arena_free(a);
}
END_TEST

/* A product whose result, reduced by rows and rounded, is the operand of the next. */
START_TEST(products_in_a_row) {
  static const char text[] =
      "kernel chain tile(Q: f16[S, 32] strided, K: f16[R, 32] strided, V: f16[R, 32] strided) -> "
      "(O: f16[S, 32] strided, L: f32[S] strided) {\n"
      "  grid bx = ceildiv(S, 64)\n"
      "  shared Qs: f16[64, 32]\n  shared Ks: f16[48, 32]\n  shared Vs: f16[48, 32]\n"
      "  fragment acc: f32[64, 32]\n  fragment l: f32[64]\n"
      "  map i, j in [64, 32] { store acc[i, j] = 0.0 }\n"
      "  map i in [64] { store l[i] = 0.0 }\n"
      "  copy Qs = Q[bx*64:+_, 0:+_]\n"
      "  for j: i64 = 0, ceildiv(R, 48), 1 pipelined(2) {\n"
      "    copy Ks = K[j*48:+_, 0:+_]\n    copy Vs = V[j*48:+_, 0:+_]\n"
      "    fragment s: f32[64, 48]\n    dot s = Qs @ Ks.T\n"
      "    parallel r, c in [64, 48] { if j*48 + c >= R { store s[r, c] = 0.0 } }\n"
      "    fragment m: f32[64]\n    reduce m = absmax(s) axis 1\n"
      "    fragment p: f16[64, 48]\n"
      "    map r, c in [64, 48] {\n      load x: f32 = s[r, c]\n      load y: f32 = m[r]\n"
      "      store p[r, c] = f16(where(y > 40.0, 0.0, where(x > 4.0, 1.0, -1.0)))\n    }\n"
      "    map r in [64] {\n      load x: f32 = m[r]\n      load y: f32 = l[r]\n"
      "      store l[r] = x + y\n    }\n"
      "    map r, c in [64, 32] {\n      load x: f32 = acc[r, c]\n      load y: f32 = m[r]\n"
      "      store acc[r, c] = where(y > 60.0, x * 0.5, x)\n    }\n"
      "    dot acc += p @ Vs\n"
      "  }\n"
      "  copy O[bx*64:+_, 0:+_] = acc\n  copy L[bx*64:+_] = l\n"
      "}\n";
  same(text, "S=100,R=100");
  same(text, "S=64,R=96");
  same(text, "S=1,R=1");
}
END_TEST

/* What the best candidate of sm_80 does when it runs. */
static EvalCounters counted(const char *text, const char *args, bool columns) {
  Arena *a = arena_new(NULL, "case");
  DiagSink sink;
  diag_init(&sink, a);
  const Way w = {target_find("sm_80"), 0, true, columns};
  IrKernel *k = read_kernel(a, text, &sink);
  LowerRequest r = {.target = w.target};
  r.fact = facts_of(a, k, bind_args(a, k, args, &w, &sink));
  IrKernel *low = lower_to(a, k, IR_THREAD, &r, &sink);
  ck_assert_msg(low != NULL, "%s", errors_of(a, &sink));
  EvalCounters counters = {0};
  EvalOptions o = {.print = stdout, .counters = &counters};
  IrBinding *b = bind_args(a, low, args, &w, &sink);
  ck_assert_int_eq(eval_run(eval_compile(a, low, &sink), b, &o, &sink), ST_OK);
  arena_free(a);
  return counters;
}

/* Extra wavefronts of shared memory. */
static uint64_t conflicts(const char *text, const char *args, bool columns) {
  EvalCounters c = counted(text, args, columns);
  ck_assert(c.shared_accesses > 0);
  return c.bank_conflicts;
}

/* Operands of every size, either way round; the last one without tensor cores. */
START_TEST(banks_of_products) {
  static const char *const types[][3] = {{"i8", "i32", ""},
                                         {"f8e4m3", "f32", ""},
                                         {"f32", "f32", " tf32"},
                                         {"f64", "f64", ""},
                                         {"f32", "f32", ""}};
  static const char *const ways[] = {"As @ Bs", "At.T @ Bs", "At.T @ Bt.T", "As @ Bt.T"};
  Arena *a = arena_new(NULL, "texts");
  for (int i = 0; i < 5; i++)
    for (int w = 0; w < 4; w++) {
      const char *t = types[i][0], *acc = types[i][1];
      bool rows = w == 0 || w == 3, columns = w < 2;
      const char *text = arena_printf(
          a,
          "kernel mm tile(A: %s[%s] strided, B: %s[%s] strided) -> (C: %s[M, N]) {\n"
          "  threads 128\n  shared As: %s[64, 32]\n  shared At: %s[32, 64]\n"
          "  shared Bs: %s[32, 64]\n  shared Bt: %s[64, 32]\n  fragment acc: %s[64, 64]\n"
          "  map i, j in [64, 64] { store acc[i, j] = 0 }\n"
          "  for ko: i64 = 0, ceildiv(K, 32), 1 pipelined(2) {\n"
          "    copy %s\n    copy %s\n    dot acc += %s%s\n  }\n"
          "  copy C = acc\n}\n",
          t, rows ? "M, K" : "K, M", t, columns ? "K, N" : "N, K", acc, t, t, t, t, acc,
          rows ? "As = A[0:+_, ko*32:+_]" : "At = A[ko*32:+_, 0:+_]",
          columns ? "Bs = B[ko*32:+_, 0:+_]" : "Bt = B[0:+_, ko*32:+_]", ways[w], types[i][2]);
      uint64_t met = conflicts(text, "M=64,N=64,K=64", false);
      ck_assert_msg(met == 0, "%s, %s: %d conflicts", t, ways[w], (int)met);
      same(text, "M=64,N=64,K=50");
      same(text, "M=64,N=64,K=0");
      same(text, "M=64,N=64,K=1");
    }
  arena_free(a);
}
END_TEST

/* Two products whose operands lie differently, into one result or into two that meet: both stay in
 * registers, without pairs where they cannot agree, and rows are reduced over either. */
START_TEST(products_that_meet) {
  static const char *const second[] = {"acc += As @ Bt.T", "more += As @ Bt.T",
                                       "more += At.T @ Bs"};
  static const char *const meet[] = {
      "", "  map i, j in [64, 32] { load x: i32 = acc[i, j]\nload y: i32 = more[i, j]\n"
          "    store acc[i, j] = x - y }\n"};
  Arena *a = arena_new(NULL, "texts");
  for (int i = 0; i < 3; i++)
    for (int m = 0; m < 2; m++) {
      const char *text = arena_printf(
          a,
          "kernel mm tile(A: i8[M, 32], B: i8[32, N]) -> (C: i32[M, N], D: i32[M, N], R: i32[M]) "
          "{\n  threads 64\n  shared As: i8[64, 32]\n  shared At: i8[32, 64]\n"
          "  shared Bs: i8[32, 32]\n  shared Bt: i8[32, 32]\n  fragment acc: i32[64, 32]\n"
          "  fragment more: i32[64, 32]\n  fragment sums: i32[64]\n"
          "  map i, j in [64, 32] { store acc[i, j] = 1 }\n"
          "  map i, j in [64, 32] { store more[i, j] = 2 }\n"
          "  copy As = A[0:+_, 0:+_]\n  copy Bs = B[0:+_, 0:+_]\n  copy At = As.T\n"
          "  copy Bt = Bs.T\n  dot acc += As @ Bs\n  dot %s\n%s"
          "  reduce sums = sum(acc) axis 1\n  copy R[0:+_] = sums\n"
          "  copy C[0:+_, 0:+_] = acc\n  copy D[0:+_, 0:+_] = more\n}\n",
          second[i], meet[m]);
      same(text, "M=64,N=32");
      same(text, "M=33,N=5");
      const char *low = lowered(a, text, "sm_80");
      ck_assert(strstr(low, "reg acc_1") && strstr(low, "mma_sync"));
      ck_assert_msg(i == 0 || strstr(low, "reg more_1"), "more %d %d", i, m);
      bool agree = i == 1 && m == 0;
      ck_assert_msg(!agree || strstr(low, "prmt("), "no pairs of a product that is alone");
      ck_assert_msg(i != 0 || !strstr(low, "prmt("), "pairs of one of two products");
    }
  arena_free(a);
}
END_TEST

/* What the layouts of shared tiles are for. */
START_TEST(banks) {
  static const char *const types[] = {"f32", "f16"};
  static const char *const product[] = {"As @ Bs", "As @ Bs.T"};
  Arena *a = arena_new(NULL, "texts");
  for (int i = 0; i < 2; i++) {
    const char *turn =
        arena_printf(a,
                     "kernel turn tile(X: %s[M, N] strided) -> (Y: %s[N, M] strided) {\n"
                     "  grid bx, by = ceildiv(N, 64), ceildiv(M, 64)\n  shared t: %s[64, 64]\n"
                     "  copy t = X[by*64:+_, bx*64:+_]\n  copy Y[bx*64:+_, by*64:+_] = t.T\n}\n",
                     types[i], types[i], types[i]);
    ck_assert_uint_eq(conflicts(turn, "M=128,N=128", false), 0);
    const char *mm = arena_printf(
        a,
        "kernel mm tile(A: f16[M, K] strided, B: f16[%s] strided) -> (C: f16[M, N]) {\n"
        "  grid bx, by = ceildiv(N, 128), ceildiv(M, 128)\n"
        "  shared As: f16[128, 64]\n  shared Bs: f16[%s]\n  fragment acc: f32[128, 128]\n"
        "  map i, j in [128, 128] { store acc[i, j] = 0 }\n"
        "  for ko: i64 = 0, ceildiv(K, 64), 1 pipelined(3) {\n"
        "    copy As = A[by*128:+_, ko*64:+_]\n    copy Bs = B[%s]\n    dot acc += %s\n  }\n"
        "  copy C[by*128:+_, bx*128:+_] = acc\n}\n",
        i ? "N, K" : "K, N", i ? "128, 64" : "64, 128",
        i ? "bx*128:+_, ko*64:+_" : "ko*64:+_, bx*128:+_", product[i]);
    ck_assert_uint_eq(conflicts(mm, "M=128,N=128,K=128", false), 0);
    ck_assert_uint_eq(conflicts(mm, "M=128,N=128,K=128", true), 0);
  }
  arena_free(a);
}
END_TEST

START_TEST(products_transposed_and_in_place) {
  same(
      "kernel nt tile(A: f32[8, 12], B: f32[12, 8], I: i8[8, 8]) -> (C: f32[8, 8], D: i32[8, 8], "
      "E: f16[8, 8]) {\n"
      "  shared a: f32[8, 12]\n  shared b: f32[12, 8]\n  shared s: i8[8, 8]\n"
      "  fragment c: f32[8, 8]\n  fragment d: i32[8, 8]\n  fragment h: f16[8, 8]\n"
      "  copy a = A\n  copy b = B\n  copy s = I\n"
      "  dot c = b.T @ a.T\n"
      "  dot c = c @ c[0:+8, 0:+8].T\n" /* the target is an operand: nothing half written is read */
      "  dot d = s @ s.T\n  dot d += s @ s\n"
      "  dot h = a @ b\n  dot h += a @ b\n"
      "  copy C = c\n  copy D = d\n  copy E = h\n}\n",
      "");
}
END_TEST

START_TEST(reductions) {
  static const char *const ops[] = {"sum", "prod", "rmax", "rmin", "absmax", "argmax", "argmin"};
  static const char *const types[] = {"f32", "f16", "i32", "i8", "u16", "f64"};
  Arena *a = arena_new(NULL, "texts");
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
      DType type;
      dtype_parse(types[t], strlen(types[t]), &type);
      const char *r = dtype_name(op_reduce_type(op_find(ops[i]), type));
      same(arena_printf(
               a,
               "kernel red_%s_%s tile(A: %s[5, 7, 3]) -> (X: %s[5, 3], Y: %s[5, 1, 3], Z: %s[5, "
               "7], W: %s[1]) {\n"
               "  shared s: %s[5, 7, 3]\n  fragment x: %s[5, 3]\n  fragment y: %s[5, 1, 3]\n"
               "  fragment z: %s[5, 7]\n"
               "  copy s = A\n"
               "  reduce x = %s(s) axis 1\n  reduce y = %s(s) axis 1\n  reduce z = %s(s) axis 2\n"
               "  reduce w: %s = %s(s)\n"
               "  copy X = x\n  copy Y = y\n  copy Z = z\n  store W[0] = w\n}\n",
               ops[i], types[t], types[t], r, r, r, r, types[t], r, r, r, ops[i], ops[i], ops[i], r,
               ops[i]),
           "");
    }
  arena_free(a);
}
END_TEST

/* Vectors that all rows meet are the block's, not each thread's. */
START_TEST(rows_and_vectors) {
  static const char text[] =
      "kernel rows tile(X: f16[M, N] strided, G: f16[N], H: f16[N]) -> (Y: f32[M, N] strided) {\n"
      "  grid b = ceildiv(M, 4)\n  fragment x: f32[4, 512]\n  fragment g: f32[512]\n"
      "  fragment h: f32[512]\n  fragment s: f32[4]\n"
      "  copy x = X[b*4:+_, 0:+_]\n  copy g = G[0:+_]\n  copy h = H[0:+_] pad 3\n"
      "  reduce s = sum(x) axis 1\n"
      "  map i, j in [4, 512] {\n    load v: f32 = x[i, j]\n    load w: f32 = g[j]\n"
      "    load y: f32 = h[j]\n    load z: f32 = s[i]\n    store x[i, j] = v * w + y * z\n  }\n"
      "  copy Y[b*4:+_, 0:+_] = x\n}\n";
  Arena *a = arena_new(NULL, "text");
  const char *out = lowered(a, text, "sm_80");
  ck_assert_ptr_nonnull(strstr(out, "shared g: f32[512]"));
  ck_assert_ptr_nonnull(strstr(out, "reg x_1"));
  ck_assert_ptr_nonnull(strstr(out, "min_blocks"));
  same(text, "M=9,N=512");
  same(text, "M=4,N=301");
  same(text, "M=1,N=0");
  arena_free(a);
}
END_TEST

START_TEST(reductions_of_bool_and_nan) {
  same("kernel any tile(A: f32[6, 9]) -> (X: i32[6], Y: i32[1], Z: i32[6]) {\n"
       "  shared s: f32[6, 9]\n  shared b: bool[6, 9]\n  fragment x: bool[6]\n"
       "  fragment z: i32[6]\n"
       "  copy s = A\n"
       "  map i, j in [6, 9] {\n    load v: f32 = s[i, j]\n    store b[i, j] = v > 2.0\n"
       "    store s[i, j] = where(v > 2.5, nan, v)\n  }\n"
       "  reduce x = any(b) axis 1\n  reduce y: bool = all(b)\n  reduce z = argmax(s) axis 1\n"
       "  map i in [6] {\n    load v: bool = x[i]\n    load q: i32 = z[i]\n"
       "    store X[i] = i32(v)\n    store Z[i] = q\n  }\n"
       "  store Y[0] = i32(y)\n}\n",
       "");
}
END_TEST

START_TEST(reductions_of_nothing) {
  faults("kernel none tile() -> (X: i32[1]) {\n  shared s: f32[0]\n  reduce x: i32 = argmax(s)\n"
         "  store X[0] = x\n}\n",
         "");
  same("kernel nothing tile() -> (X: f32[1], Y: f32[3]) {\n  shared s: f32[3, 0]\n"
       "  fragment y: f32[3]\n  reduce x: f32 = rmax(s)\n  reduce y = sum(s) axis 1\n"
       "  store X[0] = x\n  copy Y = y\n}\n",
       "");
}
END_TEST

START_TEST(scans) {
  static const char *const options[] = {"", "reverse", "exclusive", "reverse exclusive"};
  Arena *a = arena_new(NULL, "texts");
  for (int o = 0; o < 4; o++)
    for (int axis = 0; axis < 2; axis++)
      same(arena_printf(a,
                        "kernel scan tile(A: f32[19, 11], H: f16[19, 11]) -> (X: f32[19, 11], Y: "
                        "f32[19, 11], Z: f32[19, 11]) {\n"
                        "  shared s: f32[19, 11]\n  shared h: f16[19, 11]\n"
                        "  fragment x: f32[19, 11]\n  fragment z: f32[19, 11]\n"
                        "  copy s = A\n  copy h = H\n"
                        "  scan x = sum(s) axis %d %s\n"
                        "  scan s = rmax(s) axis %d %s\n" /* in place */
                        "  scan z = sum(h) axis %d %s\n"
                        "  copy X = x\n  copy Y = s\n  copy Z = z\n}\n",
                        axis, options[o], axis, options[o], axis, options[o]),
           "");
  arena_free(a);
}
END_TEST

/* Of fragments, over registers, lanes and warps: extents that fill them and that do not, along
 * either axis, of one and of several rounds. */
START_TEST(scans_of_registers) {
  static const char *const shapes[][3] = {{"8, 128", "0", "1"}, {"5, 70", "0", "1"},
                                          {"3, 600", "1", "1"}, {"64, 24", "0", "1"},
                                          {"2000", "0", "0"},   {"37", "0", "0"}};
  static const char *const types[][2] = {
      {"f32", "f32"}, {"f16", "f32"}, {"i8", "i32"}, {"f64", "f64"}};
  static const char *const options[] = {"", "reverse", "exclusive", "reverse exclusive"};
  Arena *a = arena_new(NULL, "texts");
  for (int i = 0; i < 6; i++)
    for (int o = 0; o < 4; o++) {
      const char *e = shapes[i][0], *t = types[(i + o) % 4][0], *sum = types[(i + o) % 4][1];
      const char *text =
          arena_printf(a,
                       "kernel lines tile(A: %s[%s]) -> (P: %s[%s], Q: %s[%s], R: %s[%s]) {\n"
                       "  fragment s: %s[%s]\n  fragment p: %s[%s]\n  fragment q: %s[%s]\n"
                       "  copy s = A\n  scan p = sum(s) axis %s %s\n  scan q = rmax(s) axis %s %s\n"
                       "  scan s = rmax(s) axis %s %s\n" /* in place */
                       "  copy P = p\n  copy Q = q\n  copy R = s\n}\n",
                       t, e, sum, e, t, e, t, e, t, e, sum, e, t, e, shapes[i][1], options[o],
                       shapes[i][2], options[o], shapes[i][1], options[o]);
      same(text, "");
      ck_assert_ptr_nonnull(strstr(lowered(a, text, "sm_80"), "reg run"));
    }
  arena_free(a);
}
END_TEST

/* The first NaN, else the first of the best, over registers, lanes and warps. */
START_TEST(best_of_registers) {
  static const char *const shapes[][3] = {{"8, 128", "8", "128"},
                                          {"5, 70", "5", "70"},
                                          {"3, 600", "3", "600"},
                                          {"64, 24", "64", "24"},
                                          {"1, 1000", "1", "1000"}};
  static const char *const types[] = {"f32", "f16", "i8", "f64", "u32"};
  Arena *a = arena_new(NULL, "texts");
  for (int i = 0; i < 5; i++)
    for (int o = 0; o < 5; o++) {
      const char *e = shapes[i][0], *rows = shapes[i][1], *cols = shapes[i][2], *t = types[o];
      const char *text = arena_printf(
          a,
          "kernel best tile(A: %s[%s]) -> (X: i32[%s], Y: i32[1, %s]) {\n"
          "  fragment s: %s[%s]\n  fragment x: i32[%s]\n  fragment y: i32[1, %s]\n  copy s = A\n"
          "  map i, j in [%s] { load v: %s = s[i, j]\n store s[i, j] = %s }\n"
          "  reduce x = %s(s) axis 1\n  reduce y = %s(s) axis 0\n  copy X = x\n  copy Y = y\n}\n",
          t, e, rows, cols, t, e, rows, cols, e, t,
          o ? "v" : "where((i == 1) & (j > 17) | (i == 2) & (j == 23), nan, v)",
          (i + o) % 2 ? "argmin" : "argmax", o % 2 ? "argmax" : "argmin");
      same(text, "");
      ck_assert_ptr_nonnull(strstr(lowered(a, text, "sm_80"), "reg best"));
    }
  arena_free(a);
}
END_TEST

/* Lines long enough for the lanes of a warp. */
START_TEST(long_lines) {
  static const char *const types[][2] = {
      {"f32", "f32"}, {"f16", "f32"}, {"i8", "i32"}, {"f64", "f64"}, {"u32", "u32"}};
  static const char *const options[] = {"", "reverse", "exclusive", "reverse exclusive"};
  Arena *a = arena_new(NULL, "texts");
  for (int i = 0; i < 5; i++)
    for (int o = 0; o < 4; o++) {
      const char *t = types[i][0], *sum = types[i][1];
      const char *text = arena_printf(
          a,
          "kernel lines tile(A: %s[5, 70], B: %s[64, 3]) -> (X: i32[5], Y: i32[1, 3], P: %s[5, "
          "70], Q: %s[64, 3], R: %s[64, 3]) {\n"
          "  shared s: %s[5, 70]\n  shared u: %s[64, 3]\n  fragment x: i32[5]\n"
          "  fragment y: i32[1, 3]\n  fragment p: %s[5, 70]\n  fragment q: %s[64, 3]\n"
          "  copy s = A\n  copy u = B\n"
          "  map i, j in [5, 70] { load v: %s = s[i, j]\n store s[i, j] = %s }\n"
          "  reduce x = %s(s) axis 1\n  reduce y = argmin(u) axis 0\n"
          "  scan p = sum(s) axis 1 %s\n  scan q = sum(u) axis 0 %s\n  scan u = rmax(u) axis 0 %s\n"
          "  copy X = x\n  copy Y = y\n  copy P = p\n  copy Q = q\n  copy R = u\n}\n",
          t, t, sum, sum, t, t, t, sum, sum, t,
          i != 0 ? "v" : "where((i == 1) & (j > 40) | (i == 2) & (j == 69), nan, v)",
          o % 2 ? "argmin" : "argmax", options[o], options[o], options[o]);
      same(text, "");
      ck_assert_ptr_nonnull(strstr(lowered(a, text, "sm_80"), "shfl_up"));
    }
  arena_free(a);
}
END_TEST

START_TEST(copies) {
  static const char text[] =
      "kernel copies tile(A: f32[B, M, N] strided) -> (X: f16[M, N], Y: f32[9, 4], Z: f32[4, 9]) "
      "{\n"
      "  grid b = ceildiv(M, 9)\n"
      "  shared s: f32[9, 16]\n  shared r: f16[9, 16]\n  shared y: f32[9, 4]\n"
      "  copy s = A[1, b*9 - 2:+_, 1:+_] pad -3.5\n" /* begins before its tensor */
      "  copy r = s\n"
      "  copy s[0:+4, 2:+8] = s[3:+4, 0:+8]\n" /* overlapping */
      "  copy y = A[0, 0:+_:2, 0:+_ stop min(N, 3)]\n"
      "  copy X[b*9:+_, 0:+_] = s\n"
      "  copy Y = y\n"
      "  copy Z = y.T\n"
      "  copy X[0:+_, 2:+_:3] = r[1:+2, 0:+3]\n"
      "}\n";
  same(text, "B=2,M=9,N=16");
  same(text, "B=2,M=7,N=5");
  same(text, "B=1,M=5,N=1");
}
END_TEST

/* Copies that registers cannot take: onto themselves, of nothing, from a place known at run time.
 */
START_TEST(copies_of_fragments) {
  same("kernel odd tile(A: f32[8, 16], n: i64) -> (X: f32[8, 16], Y: f32[4, 8], Z: f32[3]) {\n"
       "  fragment f: f32[8, 16]\n  shared s: f32[8, 16]\n  fragment g: f32[4, 8]\n"
       "  fragment e: f32[3, 0]\n  fragment z: f32[3]\n"
       "  copy f = A\n  copy f = f\n  copy s = f\n"
       "  copy g = s[n:+4, 3:+8]\n"
       "  reduce z = sum(e) axis 1\n"
       "  copy X = f\n  copy Y = g\n  copy Z = z\n}\n",
       "n=2");
}
END_TEST

/* A small fragment, which several threads hold: one of them changes memory that all would read. */
START_TEST(copies_of_threads) {
  same("kernel held tile(A: f32[14], B: f32[14]) -> (X: f32[14], Y: f32[14], Z: f32[14], W: "
       "f32[14] = "
       "0) {\n"
       "  threads 128\n"
       "  shared s: f32[14]\n  shared r: f32[14]\n  fragment f: f32[14]\n  fragment g: f32[14]\n"
       "  copy s = A\n  copy r = A\n  copy f = B\n  copy g = B\n"
       "  map i in [14] {\n    load v: f32 = s[i]\n    load w: f32 = f[i]\n"
       "    store s[i] = v - w\n  }\n"
       "  map i in [14] {\n    load v: f32 = r[i]\n    load w: f32 = g[i]\n"
       "    store r[i] = v + w\n    store g[i] = v * 2.0\n"
       "    load z: f32 = W[i]\n    store W[i] = z + v\n  }\n"
       "  map i in [14] {\n    local v: f32[2]\n    store v[0] = 1.0\n    store v[i % 2] = 2.0\n"
       "    load w: f32 = v[0]\n    load u: f32 = f[i]\n    store f[i] = u + w\n  }\n"
       "  copy X = s\n  copy Y = r\n  copy Z = g\n"
       "  map i in [14] {\n    load u: f32 = f[i]\n    load z: f32 = W[i]\n"
       "    store W[i] = z + u\n  }\n}\n",
       "");
}
END_TEST

/* An iteration that ends early goes on with the next, not with the loop around. */
START_TEST(iterations_end_early) {
  same("kernel early tile(A: f32[40], B: f32[1]) -> (X: f32[40] = 0, Y: f32[1] = 0) {\n"
       "  fragment f: f32[40]\n  fragment g: f32[1]\n  copy f = A\n  copy g = B\n"
       "  for k: i64 = 0, 3, 1 {\n"
       "    parallel i in [40] {\n      load v: f32 = f[i]\n      if v < 0.0 { continue }\n"
       "      for j: i64 = 0, 2, 1 { if j == k { continue }\n store f[i] = v + 1.0 }\n    }\n"
       "    parallel i in [1] {\n      load v: f32 = g[i]\n      if k == 1 { continue }\n"
       "      store g[i] = v + 1.0\n    }\n  }\n"
       "  copy X = f\n  copy Y = g\n}\n",
       "");
}
END_TEST

START_TEST(pads_convert) {
  same("kernel pads tile(A: i32[N], B: f32[N], H: f16[N]) -> (X: f32[16], Y: i32[16], Z: f64[16]) "
       "{\n"
       "  shared x: f32[16]\n  shared y: i32[16]\n  shared z: f64[16]\n"
       "  copy x = A[0:+_] pad 7\n  copy y = B[0:+_] pad inf\n  copy z = H[2:+_] pad 0.1\n"
       "  copy X = x\n  copy Y = y\n  copy Z = z\n}\n",
       "N=5");
}
END_TEST

START_TEST(elements_and_control) {
  static const char text[] =
      "kernel control tile(A: f32[N], n: i32) -> (X: f32[N], S: f32[8]) {\n"
      "  grid b = 1\n"
      "  shared s: f32[64]\n"
      "  copy s = A[0:+_]\n"
      "  load first: f32 = s[3]\n"
      "  load other: f32 = A[1]\n"
      "  var total: f32 = 0\n"
      "  for i: i32 = 0, n, 1 {\n"
      "    load v: f32 = s[i64(i)]\n"
      "    if v < 0.0 { continue }\n"
      "    set total = total + v\n"
      "    store s[i64(i) + 1] = total\n"
      "    if total > 20.0 { break }\n"
      "  }\n"
      "  var k: i32 = 0\n"
      "  while { load w: f32 = s[i64(k)] } cond (w != first) & (k < 60) { set k = k + 1 }\n"
      "  for i: i64 = 10, 0, -3 { store S[i // 3] = f32(i) }\n"
      "  store S[0] = total\n  store S[1] = other\n  store S[4] = f32(k)\n"
      "  load back: f32 = S[4]\n" /* the block's own stores */
      "  store S[5] = back + 1.0\n"
      "  parallel i in [N] {\n"
      "    if i % 3 == 1 { continue }\n"
      "    var x: f32 = 0\n"
      "    local v: f32[4]\n"
      "    for j: i64 = 0, 4, 1 unroll { store v[j] = f32(i * j) }\n"
      "    for j: i64 = 0, 4, 1 { load q: f32 = v[j]\n set x = x + q }\n"
      "    store X[i] = x\n"
      "  }\n"
      "  if total > 0.0 { return }\n"
      "  store S[2] = 5\n"
      "}\n";
  same(text, "N=64,n=50");
  same(text, "N=64,n=0");
}
END_TEST

/* Neighbours by vectors: every way to write such a loop; what is no such loop stays as it is. */
START_TEST(parallel_loops) {
  static const char *const bodies[] = {
      "parallel i in [N] {\n load x: T = A[0, i]\n load y: T = B[i]\n store C[0, i] = x + y }\n",
      "parallel j, i in [M, N] {\n load x: T = A[j, i]\n load y: T = B[i]\n load z: T = B[j %% N]\n"
      "store C[j, i] = x + y*z }\n",
      "parallel i in [512] {\n let at: i64 = b*512 + i\n if at < N {\n load x: T = A[0, at]\n"
      "let y: T = x * x\n store C[0, at] = y\n } }\n",
      "parallel i in [N - 4] {\n if (i >= 3) & (N > i + 8) {\n load x: T = A[0, i + 4]\n"
      "store C[0, i + 4] = x + 1.0 } }\n",
      "parallel i in [N - 1] {\n load x: T = A[0, i + 1]\n store C[0, i] = x }\n",
      "parallel i in [N] {\n load x: T = D[i]\n load y: T = B[i]\n store D[i] = x + y\n"
      "if x > 0.0 { store C[0, i] = y } }\n",
      "parallel i in [N] {\n load x: T = B[i]\n store D[i] = x\n load y: T = D[i]\n"
      "store C[0, i] = x + y }\n",
      "parallel i in [N] {\n load x: T = B[N - 1 - i]\n let at: i64 = (i * 2) %% N\n"
      "load y: T = B[at]\n load q: i32 = I[i]\n load z: T = B[i64(q) + 3]\n"
      "store C[0, i] = x - y + z }\n",
      "parallel i in [N] {\n load x: T = B[i]\n if x < 0.0 { continue }\n store C[0, i] = x }\n",
      "parallel i in [N] {\n var v: T = 0\n for j: i64 = 0, 3, 1 { load x: T = B[(i + j) %% N]\n"
      "set v = v + x }\n store C[0, i] = v\n store W[i] = f32(v) }\n"};
  static const char *const types[] = {"f32", "f16", "f64", "f8e4m3"};
  Arena *a = arena_new(NULL, "texts");
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
      for (int grid = 0; grid < 2; grid++) {
        Str text = str_new(a);
        str_addf(&text,
                 "kernel loop tile(A: T[M, N] strided, B: T[N] strided, I: i32[N], D: inout T[N]) "
                 "-> (C: "
                 "T[M, N] strided, W: f32[N]) {\n%s",
                 grid     ? "grid b = ceildiv(N, 512)\n"
                 : i == 2 ? "let b: i64 = 0\n"
                          : "");
        if (grid && i != 2)
          continue;
        str_addf(&text, "%s}\n", bodies[i]);
        Str typed = str_new(a);
        for (const char *p = str_text(&text); *p; p++)
          if (*p == 'T' && (p[1] == '[' || p[1] == ' '))
            str_add(&typed, types[t]);
          else if (!(*p == '%' && p[1] == '%'))
            str_addc(&typed, *p);
        same(str_text(&typed), "M=3,N=1029");
        same(str_text(&typed), "M=2,N=1024");
        same(str_text(&typed), "M=1,N=9");
      }
  arena_free(a);
}
END_TEST

/* Each byte is touched once, by vectors of 16 bytes. */
START_TEST(parallel_sectors) {
  static const char text[] =
      "kernel add tile(A: f32[M, N], B: f32[M, N]) -> (C: f32[M, N]) {\n"
      "  parallel i, j in [M, N] {\n    load x: f32 = A[i, j]\n    load y: f32 = B[i, j]\n"
      "    store C[i, j] = x + y\n  }\n}\n";
  static const char guarded[] =
      "kernel add tile(A: f32[N], B: f32[N]) -> (C: f32[N]) {\n  grid b = ceildiv(N, 1024)\n"
      "  parallel i in [1024] {\n    if b*1024 + i < N {\n      load x: f32 = A[b*1024 + i]\n"
      "      load y: f32 = B[b*1024 + i]\n      store C[b*1024 + i] = x + y\n    }\n  }\n}\n";
  const char *const texts[] = {text, guarded};
  for (int i = 0; i < 2; i++) {
    EvalCounters c = counted(texts[i], "M=16,N=8192", false);
    uint64_t bytes = 3 * 4 * UINT64_C(8192) * (i ? 1 : 16);
    ck_assert_uint_eq(c.sectors, bytes / 32);
    Arena *a = arena_new(NULL, "text");
    DiagSink sink;
    diag_init(&sink, a);
    const LowerFact fact = {(int8_t)(1 - i), 16, true}, facts[] = {fact, fact, fact};
    LowerRequest r = {.target = target_find("sm_80"), .fact = facts};
    Str out = str_new(a);
    ir_print(lower_to(a, read_kernel(a, texts[i], &sink), IR_THREAD, &r, &sink), &out);
    ck_assert_ptr_nonnull(strstr(str_text(&out), "ld_global A_1[0:+4]"));
    ck_assert_ptr_nonnull(strstr(str_text(&out), "ld_global B_1[0:+4]"));
    ck_assert_ptr_nonnull(strstr(str_text(&out), ", C_1[0:+4]"));
    arena_free(a);
  }
}
END_TEST

START_TEST(atomics) {
  static const char text[] =
      "kernel atoms tile(A: i32[N], T: f32[8, 8]) -> (X: i32[N]) scratch (Q: i32[4], P: f32[8, 8]) "
      "{\n"
      "  grid b = 1\n"
      "  shared h: i32[16]\n  shared t: f32[8, 8]\n"
      "  map i in [16] { store h[i] = 0 }\n"
      "  copy t = T\n"
      "  parallel i in [N] {\n"
      "    load v: i32 = A[i]\n"
      "    atomic _ = atomic_add(h[i64(v) + 8], 1)\n"
      "    atomic _ = atomic_max(Q[2], v)\n"
      "  }\n"
      "  atomic old: i32 = atomic_add(Q[0], 5)\n"
      "  atomic older: i32 = atomic_cas(Q[0], 5, 9)\n"
      "  atomic _ = atomic_exchange(Q[1], old + older)\n"
      "  atomic atomic_add(P[2:+_, 0:+_], t)\n"
      "  load q0: i32 = Q[0]\n  load q1: i32 = Q[1]\n  load q2: i32 = Q[2]\n"
      "  load p: f32 = P[3, 3]\n"
      "  store X[0] = q0\n  store X[1] = q1\n  store X[2] = q2\n  store X[3] = i32(p)\n"
      "  parallel i in [16] { load v: i32 = h[i]\n store X[i + 4] = v }\n"
      "}\n";
  same(text, "N=100");
}
END_TEST

START_TEST(blocks_share_out) {
  static const char text[] = "kernel share tile(A: f32[N], n: i64) -> (X: f32[N]) {\n"
                             "  grid bx, by, bz = 2, 3, n\n"
                             "  fragment s: f32[600]\n"
                             "  for i: i64 = 0, N, 1 persistent {\n"
                             "    map j in [600] { store s[j] = f32(j) }\n"
                             "    load v: f32 = A[i]\n"
                             "    load w: f32 = s[i % 600]\n"
                             "    if v > 1.0 { for q: i64 = 0, 3, 1 { if q == 1 { return } } }\n"
                             "    store X[i] = v + w\n"
                             "  }\n"
                             "}\n";
  same(text, "N=100,n=1");
  same(text, "N=3,n=4");
}
END_TEST

START_TEST(tiles_of_scopes_share_bytes) {
  same("kernel scopes tile(A: f32[64], n: i32) -> (X: f32[64]) {\n"
       "  shared a: f32[64]\n  copy a = A\n"
       "  for i: i32 = 0, n, 1 {\n"
       "    if i % 2 == 0 {\n      shared p: f32[64]\n"
       "      map j in [64] { load v: f32 = a[63 - j]\n store p[j] = v * 0.5 }\n"
       "      map j in [64] { load v: f32 = p[j]\n store a[j] = v + 1.0 }\n"
       "    } else {\n      shared q: f32[64]\n"
       "      map j in [64] { load v: f32 = a[j]\n store q[63 - j] = v }\n"
       "      map j in [64] { load v: f32 = q[j]\n store a[j] = v }\n    }\n"
       "  }\n"
       "  copy X = a\n}\n",
       "n=7");
}
END_TEST

START_TEST(tiles_of_lifetimes_share_bytes) {
  static const char text[] =
      "kernel lives tile(A: f32[64], n: i32) -> (X: f32[64], Y: f32[64]) {\n"
      "  shared a: f32[64]\n  copy a = A\n"
      "  shared b: f32[64]\n"
      "  map j in [64] { load v: f32 = a[63 - j]\n store b[j] = v * 0.5 }\n"
      "  shared c: f32[64]\n" /* may lie where a lay */
      "  map j in [64] { load v: f32 = b[63 - j]\n store c[(j + 32) % 64] = v }\n"
      "  shared d: f32[128]\n" /* may lie where b lay */
      "  for i: i32 = 0, n, 1 {\n"
      "    shared e: f32[64]\n"
      "    map j in [64] { load v: f32 = c[63 - j]\n store e[j] = v }\n"
      "    map j in [128] { load v: f32 = e[(j * 7) % 64]\n store d[127 - j] = v }\n"
      "  }\n"
      "  copy X = c\n  copy Y = d[32:+64]\n}\n";
  Arena *a = arena_new(NULL, "case");
  DiagSink sink;
  diag_init(&sink, a);
  IrKernel *low = lower_to(a, read_kernel(a, text, &sink), IR_THREAD,
                           &(LowerRequest){.target = target_find("sm_90a")}, &sink);
  ck_assert(low && low->shared_bytes < 5 * 64 * 4);
  same(text, "n=3");
  arena_free(a);
}
END_TEST

/* Where the text has what the first FAULT of the block, or of a block in it, is about. */
static bool first_fault(IrStmt *s, void *ctx) {
  Span *at = ctx;
  if (s->kind == IRK_OP && s->as.op.op == OP_FAULT && !at->file)
    *at = s->span;
  return !at->file;
}

static void check_fault_at(IrKernel *low, const char *text) {
  Span at = {NULL, 0, 0};
  ir_walk(&low->body, first_fault, &at);
  ck_assert(at.file && at.end - at.begin == strlen(text));
  ck_assert(!memcmp(at.file->text + at.begin, text, strlen(text)));
}

/* The GPU's own division says nothing, so the thread level does; where the range allows no zero it
 * costs nothing. */
static void check_division(void) {
  Arena *a = arena_new(NULL, "case");
  DiagSink sink;
  diag_init(&sink, a);
  const LowerRequest r = {.target = target_find("sm_80")};
  IrKernel *k = read_kernel(a,
                            "kernel q tile(d: i32) -> (C: i32[4], D: i32[4]) {\n"
                            "  parallel k in [4] {\n    store C[k] = i32(k) // d\n"
                            "    store D[k] = i32(k) // (d * d % 7 + 1)\n  }\n}\n",
                            &sink);
  IrKernel *low = lower_to(a, k, IR_THREAD, &r, &sink);
  ck_assert(low && low->sites.n == 1 && low->sites.v[0].code == E0452);
  check_fault_at(low, "i32(k) // d");
  arena_free(a);
}

/* Split K: what adds the result to a tensor takes it as it lies. */
START_TEST(atomics_of_products) {
  static const char text[] =
      "kernel part tile(A: f16[M, 64], B: f16[64, N]) -> (C: f32[M, N]) {\n"
      "  grid b = 1\n"
      "  shared a: f16[64, 64]\n  shared b_1: f16[64, 64]\n  fragment c: f32[64, 64]\n"
      "  map i, j in [64, 64] { store c[i, j] = 0 }\n"
      "  copy a = A[0:+_, 0:+_]\n  copy b_1 = B[0:+_, 0:+_]\n"
      "  dot c += a @ b_1\n"
      "  atomic atomic_add(C[3:+_, 5:+_], c)\n"
      "}\n";
  static const char *const archs[] = {"sm_80", "sm_89", "sm_90a"};
  for (size_t i = 0; i < 3; i++) {
    Arena *a = arena_new(NULL, "");
    const char *low = lowered(a, text, archs[i]);
    ck_assert_msg(strstr(low, "mma") != NULL, "%s: no product of a warp", archs[i]);
    arena_free(a);
  }
}
END_TEST

START_TEST(accesses_outside) {
  faults("kernel out tile(A: f32[N], n: i64) -> (X: f32[N]) {\n  load v: f32 = A[n]\n"
         "  store X[0] = v\n}\n",
         "N=5,n=5");
  faults("kernel out tile(A: f32[N], n: i64) -> (X: f32[N]) {\n"
         "  parallel i in [N] { store X[i + n] = 1 }\n}\n",
         "N=5,n=1");
  faults("kernel out tile(A: f32[8], n: i64) -> (X: f32[8]) {\n  shared s: f32[8]\n  copy s = A\n"
         "  copy X[0:+_] = s[n:+4]\n}\n",
         "n=5");
  faults("kernel zero tile(n: i64) -> (X: f32[8]) {\n"
         "  for i: i64 = 0, 8, n { store X[i] = 1 }\n}\n",
         "n=0");
  faults("kernel quotient tile(A: i32[N], d: i32) -> (C: i32[N]) {\n"
         "  parallel k in [N] {\n    load x: i32 = A[k]\n    store C[k] = x // d\n  }\n}\n",
         "N=5,d=0");
  check_division();
  faults("kernel claim tile(n: i64) -> (X: f32[8]) {\n  assert n > 3, \"n is\", n\n}\n", "n=2");
}
END_TEST

/* Programs that nobody thought of; `n` varies what runs. */
START_TEST(random_programs) {
  for (uint64_t seed = (uint64_t)_i * 20; seed < (uint64_t)_i * 20 + 20; seed++) {
    Arena *a = arena_new(NULL, "text");
    same(lower_random(a, seed), arena_printf(a, "M=11,N=9,n=%d", (int)(seed % 4)));
    arena_free(a);
  }
}
END_TEST

/* What cannot be done says so: a tile in scratch has another shape, from which nothing prints. */
START_TEST(refused) {
  Arena *a = arena_new(NULL, "case");
  DiagSink sink;
  diag_init(&sink, a);
  IrKernel *k = read_kernel(a,
                            "kernel p tile() -> (X: f32[999]) {\n  shared s: f32[999]\n"
                            "  map i in [999] { store s[i] = 1 }\n  print s\n  copy X = s\n}\n",
                            &sink);
  ck_assert_ptr_nonnull(
      lower_to(a, k, IR_THREAD, &(LowerRequest){.target = target_find("sm_80")}, &sink));
  ck_assert_ptr_null(lower_to(a, k, IR_THREAD, &(LowerRequest){.target = &tiny}, &sink));
  ck_assert_uint_eq(sink.errors, 1);
  ck_assert_int_eq(sink.v[0]->code, E0712);
  arena_free(a);
}
END_TEST

START_TEST(levels) {
  Arena *a = arena_new(NULL, "case");
  DiagSink sink;
  diag_init(&sink, a);
  IrKernel *k = read_kernel(a,
                            "kernel p tile(A: f32[4]) -> (X: f32[4]) {\n  shared s: f32[4]\n"
                            "  copy s = A\n  copy X = s\n}\n",
                            &sink);
  Str before = str_new(a), after = str_new(a);
  ir_print(k, &before);
  IrKernel *s =
      lower_to(a, k, IR_SCHEDULED, &(LowerRequest){.target = target_find("sm_90a")}, &sink);
  IrKernel *t = lower_to(a, s, IR_THREAD, &(LowerRequest){.target = target_find("sm_90a")}, &sink);
  ck_assert(s && s->level == IR_SCHEDULED && t && t->level == IR_THREAD);
  ir_print(k, &after);
  ck_assert_str_eq(str_text(&before), str_text(&after));
  arena_free(a);
}
END_TEST

/* Nobody writes an input, so that threads which only read it never wait for each other; one that
 * the block writes as well makes them wait in each round. */
START_TEST(inputs_need_no_barrier) {
  static const char *const role[] = {"", "inout "};
  Arena *a = arena_new(NULL, "texts");
  for (int i = 0; i < 2; i++) {
    const char *text = arena_printf(
        a,
        "kernel sums tile(A: %sf32[M, N] strided) -> (C: f32[M, 128] strided) {\n"
        "  grid b = ceildiv(M, 4)\n  fragment x: f32[4, 128]\n  fragment s: f32[4, 128]\n"
        "  map i, j in [4, 128] { store s[i, j] = 0.0 }\n"
        "  for o: i64 = 0, ceildiv(N, 128), 1 {\n    copy x = A[b*4:+_, o*128:+_]\n"
        "    map i, j in [4, 128] {\n      load v: f32 = x[i, j]\n      load w: f32 = s[i, j]\n"
        "      store s[i, j] = v + w\n    }\n%s  }\n  copy C[b*4:+_, 0:+_] = s\n}\n",
        role[i], i ? "    copy A[b*4:+_, o*128:+_] = s\n" : "");
    const char *low = lowered(a, text, "sm_80");
    ck_assert_ptr_nonnull(strstr(low, "reg s_1"));
    ck_assert_msg(!strstr(low, "syncthreads") == !i, "%s", low);
    same(text, "M=9,N=300");
  }
  arena_free(a);
}
END_TEST

int main(void) {
  Suite *s = suite_create("lower");
  TCase *c = tcase_create("simple");
  tcase_set_timeout(c, 120);
  tcase_add_test(c, products);
  tcase_add_test(c, gathers);
  tcase_add_test(c, gathers_of_nothing);
  tcase_add_test(c, products_of_tensor_cores);
  tcase_add_test(c, layouts);
  tcase_add_test(c, products_of_other_types);
  tcase_add_test(c, products_without_tensor_cores);
  tcase_add_test(c, products_of_rings);
  tcase_add_test(c, products_of_all_f8);
  tcase_add_test(c, products_in_a_row);
  tcase_add_test(c, banks);
  tcase_add_test(c, banks_of_products);
  tcase_add_test(c, products_that_meet);
  tcase_add_test(c, products_transposed_and_in_place);
  tcase_add_test(c, reductions);
  tcase_add_test(c, rows_and_vectors);
  tcase_add_test(c, reductions_of_bool_and_nan);
  tcase_add_test(c, reductions_of_nothing);
  tcase_add_test(c, scans);
  tcase_add_test(c, scans_of_registers);
  tcase_add_test(c, best_of_registers);
  tcase_add_test(c, long_lines);
  tcase_add_test(c, copies);
  tcase_add_test(c, copies_of_fragments);
  tcase_add_test(c, copies_of_threads);
  tcase_add_test(c, copies_of_threads);
  tcase_add_test(c, iterations_end_early);
  tcase_add_test(c, pads_convert);
  tcase_add_test(c, elements_and_control);
  tcase_add_test(c, parallel_loops);
  tcase_add_test(c, parallel_sectors);
  tcase_add_test(c, atomics);
  tcase_add_test(c, atomics_of_products);
  tcase_add_test(c, blocks_share_out);
  tcase_add_test(c, inputs_need_no_barrier);
  tcase_add_test(c, tiles_of_scopes_share_bytes);
  tcase_add_test(c, tiles_of_lifetimes_share_bytes);
  tcase_add_test(c, accesses_outside);
  tcase_add_loop_test(c, random_programs, 0, 4);
  tcase_add_test(c, refused);
  tcase_add_test(c, levels);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? 1 : 0;
}
