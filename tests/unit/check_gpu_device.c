/* check_gpu_device.c: the parts of src/gpu that need a GPU, and the CUDA printer's arithmetic
 * against the operations' own strips, bit for bit. Without a device the whole suite is skipped
 * (status 77). */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_kernels.h"
#include "gpu/private.h"

typedef struct Fixture {
  Arena *a;
  GpuRt *rt;
  Gpu *g;
  int polls; /* calls of interrupted, and after how many it says yes (0: never) */
  int interrupt_at;
} Fixture;

static bool interrupted(void *ctx) {
  Fixture *f = ctx;
  return f->interrupt_at > 0 && ++f->polls >= f->interrupt_at;
}

static void setup(Fixture *f) {
  GpuConfig cfg = {.no_cache = true, .interrupted = interrupted, .ctx = f};
  *f = (Fixture){.a = arena_new(NULL, "test")};
  f->rt = gpu_rt_new(&cfg);
  gpu_start_async(f->rt, 0);
  Str why = str_new(f->a);
  Status st = gpu_open(f->rt, 0, &f->g, &why);
  ck_assert_msg(st == ST_OK, "%s", str_text(&why));
}

static void teardown(Fixture *f) {
  gpu_close(f->g);
  gpu_rt_free(f->rt);
  arena_free(f->a);
}

static void ok(Fixture *f, Status st) {
  ck_assert_msg(st == ST_OK, "%s", gpu_why(f->g));
}

static GpuKernel *load(Fixture *f, const char *text, const char *name) {
  GpuCompile job = {.name = "test.cu", .text = text, .arch = gpu_props(f->g)->arch};
  GpuImage *image;
  GpuModule *m;
  GpuKernel *k;
  Str why = str_new(f->a);
  Status st = gpu_compile(f->rt, &job, f->a, &image, &why);
  ck_assert_msg(st == ST_OK, "%s", str_text(&why));
  ok(f, gpu_module_load(f->g, image, &m));
  ok(f, gpu_module_kernel(f->g, m, name, &k));
  GpuFacts facts;
  ok(f, gpu_kernel_facts(f->g, k, &facts));
  const GpuFacts *ours = gpu_image_kernel(image, name);
  ck_assert_uint_eq(facts.registers, ours->registers);
  ck_assert_uint_eq(facts.local_bytes, ours->local_bytes);
  return k;
}

static GpuPtr device_copy(Fixture *f, const void *data, size_t n) {
  GpuPtr p;
  ok(f, gpu_alloc(f->g, n, "test", &p));
  ok(f, gpu_upload(f->g, p, data, n));
  return p;
}

/* ---- memory ---------------------------------------------------------------------------------- */

START_TEST(properties) {
  Fixture f;
  setup(&f);
  const GpuProps *p = gpu_props(f.g);
  ck_assert(p->name[0] && strncmp(p->arch, "sm_", 3) == 0);
  ck_assert(p->sms > 0 && p->memory > (size_t)1 << 30 && p->shared_block >= 48 << 10);
  ck_assert_int_gt(gpu_count(f.rt, NULL), 0);
  Gpu *none = NULL;
  ck_assert_int_eq(gpu_open(f.rt, 1000, &none, NULL), ST_DEVICE);
  Str out = str_new(f.a);
  gpu_doctor(f.rt, &out);
  ck_assert_ptr_nonnull(strstr(str_text(&out), p->name));
  teardown(&f);
}
END_TEST

START_TEST(copies_of_all_sizes) {
  static const size_t sizes[] = {0,     1,       3,       4096,     65535,   65536,
                                 65537, 4 << 20, 4194305, 13631489, 50000000};
  Fixture f;
  setup(&f);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    size_t n = sizes[i];
    unsigned char *out = malloc(n + 1), *back = malloc(n + 1);
    GpuPtr p, q;
    ck_assert(out && back);
    for (size_t k = 0; k < n; k++)
      out[k] = (unsigned char)(k * 7 + k / 251 + i);
    memset(back, 0, n + 1);
    ok(&f, gpu_alloc(f.g, n, "a", &p));
    ok(&f, gpu_alloc(f.g, n, "b", &q));
    ok(&f, gpu_upload(f.g, p, out, n));
    ok(&f, gpu_copy(f.g, q, p, n));
    ok(&f, gpu_download(f.g, back, q, n));
    ck_assert_mem_eq(out, back, n);
    ok(&f, gpu_free(f.g, p, n));
    ok(&f, gpu_free(f.g, q, n));
    free(out);
    free(back);
  }
  ok(&f, gpu_free(f.g, 0, 1));
  teardown(&f);
}
END_TEST

START_TEST(fills) {
  Fixture f;
  setup(&f);
  uint32_t back[64];
  GpuPtr p = device_copy(&f, memset(back, 0, sizeof back), sizeof back);
  ok(&f, gpu_fill(f.g, p, 4, 0x12345678, 32));
  ok(&f, gpu_fill(f.g, p + 128, 2, 0xabcd, 32));
  ok(&f, gpu_fill(f.g, p + 192, 1, 0x7f, 64));
  ok(&f, gpu_download(f.g, back, p, sizeof back));
  ck_assert_uint_eq(back[31], 0x12345678);
  ck_assert_uint_eq(back[32], 0xabcdabcd);
  ck_assert_uint_eq(back[48], 0x7f7f7f7f);
  teardown(&f);
}
END_TEST

START_TEST(out_of_memory_names_the_tensor) {
  Fixture f;
  setup(&f);
  GpuPtr p, held[64];
  size_t free_bytes, used;
  int n = 0;
  ck_assert_int_eq(gpu_alloc(f.g, gpu_props(f.g)->memory * 2, "`huge`", &p), ST_NOMEM);
  ck_assert_ptr_nonnull(strstr(gpu_why(f.g), "`huge` needs"));
  ok(&f, gpu_memory(f.g, &free_bytes, &used));
  while (n < 64 && gpu_alloc(f.g, free_bytes / 8, "`c`", &held[n]) == ST_OK)
    n++;
  ck_assert_int_lt(n, 9);
  ck_assert_ptr_nonnull(strstr(gpu_why(f.g), "`c` needs"));
  ck_assert(!gpu_lost(f.g));
  while (n > 0)
    ok(&f, gpu_free(f.g, held[--n], free_bytes / 8));
  ok(&f, gpu_alloc(f.g, free_bytes / 2, "again", &p)); /* and it goes on */
  teardown(&f);
}
END_TEST

/* ---- launches -------------------------------------------------------------------------------- */

static const char add_text[] =
    "extern \"C\" __global__ void add(const float *a, const float *b, float *c, int n) {\n"
    "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "  if (i < n) c[i] = a[i] + b[i];\n"
    "}\n"
    "extern \"C\" __global__ void big(float *c) {\n"
    "  extern __shared__ float s[];\n"
    "  s[threadIdx.x * 200] = threadIdx.x;\n"
    "  __syncthreads();\n"
    "  c[threadIdx.x] = s[(255 - threadIdx.x) * 200];\n"
    "}\n";

START_TEST(vector_add) {
  enum { N = 100000 };
  Fixture f;
  setup(&f);
  float *a = calloc(N, sizeof *a), *c = calloc(N, sizeof *c);
  ck_assert(a && c);
  for (int i = 0; i < N; i++)
    a[i] = (float)i * 0.5f;
  GpuPtr pa = device_copy(&f, a, N * sizeof *a), pc = device_copy(&f, c, N * sizeof *c);
  GpuKernel *k = load(&f, add_text, "add");
  int n = N;
  void *args[] = {&pa, &pa, &pc, &n};
  GpuLaunch l = {.kernel = k, .grid = {(N + 255) / 256, 1, 1}, .block = {256}, .args = args};
  ok(&f, gpu_launch(f.g, &l));
  ok(&f, gpu_download(f.g, c, pc, N * sizeof *c));
  for (int i = 0; i < N; i++)
    ck_assert(c[i] == (float)i);
  l.grid[1] = 0;
  ok(&f, gpu_launch(f.g, &l));
  l.grid[1] = 1;
  l.pdl = true; /* through cuLaunchKernelEx */
  ok(&f, gpu_launch(f.g, &l));
  ok(&f, gpu_sync(f.g));
  free(a);
  free(c);
  teardown(&f);
}
END_TEST

START_TEST(much_shared_memory) {
  Fixture f;
  setup(&f);
  GpuKernel *k = load(&f, add_text, "big");
  GpuPtr p;
  float c[256];
  size_t limit = gpu_props(f.g)->shared_block;
  ok(&f, gpu_alloc(f.g, sizeof c, "c", &p));
  void *args[] = {&p};
  size_t need = 256 * 200 * sizeof(float) < limit ? 256 * 200 * sizeof(float) : limit;
  GpuLaunch l = {.kernel = k,
                 .grid = {1, 1, 1},
                 .block = {(unsigned)(need / 800)},
                 .shared = need,
                 .args = args};
  if (l.block[0] == 256) {
    ok(&f, gpu_launch(f.g, &l));
    ok(&f, gpu_download(f.g, c, p, sizeof c));
    ck_assert(c[0] == 255 && c[255] == 0);
  }
  l.shared = limit + 1;
  ck_assert_int_eq(gpu_launch(f.g, &l), ST_DEVICE);
  ck_assert_ptr_nonnull(strstr(gpu_why(f.g), "shared memory"));
  teardown(&f);
}
END_TEST

typedef struct Round {
  Fixture *f;
  GpuLaunch l;
} Round;

static Status launch_round(void *ctx) {
  Round *r = ctx;
  return gpu_launch(r->f->g, &r->l);
}

START_TEST(events_and_timing) {
  Fixture f;
  setup(&f);
  GpuPtr p;
  int n = 1 << 24;
  ok(&f, gpu_alloc(f.g, (size_t)n * 4, "a", &p));
  ok(&f, gpu_fill(f.g, p, 4, 0, (size_t)n));
  void *args[] = {&p, &p, &p, &n};
  Round r = {
      &f,
      {.kernel = load(&f, add_text, "add"), .grid = {1 << 16, 1, 1}, .block = {256}, .args = args}};
  GpuEvent *from, *to;
  double ms = -1;
  ok(&f, gpu_event_new(f.g, &from));
  ok(&f, gpu_event_new(f.g, &to));
  ok(&f, gpu_event_record(f.g, from));
  ok(&f, launch_round(&r));
  ok(&f, gpu_event_record(f.g, to));
  ok(&f, gpu_event_ms(f.g, from, to, &ms));
  ok(&f, gpu_sync(f.g));
  ck_assert(ms > 0 && ms < 1000);
  GpuTiming t;
  GpuTimeOptions o = {.bursts = 5};
  ok(&f, gpu_time(f.g, &o, launch_round, &r, &t));
  ck_assert(t.min_ms > 0 && t.min_ms <= t.median_ms && t.median_ms <= t.max_ms && t.bursts == 5);
  ck_assert(t.median_ms < ms * 3 + 1);
  o = (GpuTimeOptions){.flush = true};
  ok(&f, gpu_time(f.g, &o, launch_round, &r, &t));
  ck_assert(t.min_ms > 0 && t.bursts >= 20);
  gpu_event_free(f.g, from);
  gpu_event_free(f.g, to);
  teardown(&f);
}
END_TEST

/* Integers, so that every order of adding gives the same; A lies in columns, B in rows. Without the
 * library there is nothing to compare with. */
START_TEST(the_peer_multiplies) {
  enum { M = 24, N = 40, K = 16 };
  Fixture f;
  setup(&f);
  static float a[K * M], b[K * N], c[M * N];
  for (int i = 0; i < K * M; i++)
    a[i] = (float)(i * 7 % 9 - 4);
  for (int i = 0; i < K * N; i++)
    b[i] = (float)(i * 5 % 9 - 4);
  GpuProduct q = {.dtype = DT_F32,
                  .result = DT_F32,
                  .batch = 1,
                  .a = {device_copy(&f, a, sizeof a), {M, K}, {1, M}, 0},
                  .b = {device_copy(&f, b, sizeof b), {K, N}, {N, 1}, 0},
                  .c = {device_copy(&f, c, sizeof c), {M, N}, {N, 1}, 0}};
  GpuMatmul *p;
  if (gpu_matmul_new(f.g, &q, &p) == ST_OK) {
    ok(&f, gpu_matmul_run(p));
    ok(&f, gpu_download(f.g, c, q.c.at, sizeof c));
    for (int i = 0; i < M; i++)
      for (int j = 0; j < N; j++) {
        float want = 0;
        for (int k = 0; k < K; k++)
          want += a[k * M + i] * b[k * N + j];
        ck_assert_msg(c[i * N + j] == want, "%d, %d: %g, not %g", i, j, (double)c[i * N + j],
                      (double)want);
      }
    gpu_matmul_free(p);
  } else {
    ck_assert_ptr_nonnull(strstr(gpu_why(f.g), "cublasLt"));
  }
  teardown(&f);
}
END_TEST

/* ---- stopping, faults ------------------------------------------------------------------------ */

/* It fills the whole card, so nothing that needs a multiprocessor could overtake it. */
START_TEST(an_endless_kernel_is_stopped) {
  Fixture f;
  setup(&f);
  GpuKernel *k =
      load(&f,
           "extern \"C\" __global__ void endless(const volatile unsigned *stop, int *n) {\n"
           "  while (*stop == 0) (*n)++;\n}\n",
           "endless");
  int zero = 0;
  GpuPtr stop = gpu_stop_word(f.g), n = device_copy(&f, &zero, sizeof zero);
  void *args[] = {&stop, &n};
  GpuLaunch l = {.kernel = k, .grid = {4000, 1, 1}, .block = {256}, .args = args};
  ok(&f, gpu_launch(f.g, &l));
  f.interrupt_at = 20;
  ck_assert_int_eq(gpu_sync(f.g), ST_INTERRUPTED);
  ck_assert_str_eq(gpu_why(f.g), "interrupted");
  f.interrupt_at = 0;
  ok(&f, gpu_sync(f.g));
  ok(&f, gpu_download(f.g, &zero, n, sizeof zero));
  ck_assert_int_gt(zero, 0);
  teardown(&f);
}
END_TEST

START_TEST(the_first_fault_is_kept) {
  Fixture f;
  setup(&f);
  DiagSink sink;
  diag_init(&sink, f.a);
  Names *names = names_new(f.a);
  IrKernel *k = ir_kernel_new(f.a, names, "faulty", IR_THREAD);
  IrExpr *i = add_grid(k, 256);
  IrStmt *s = ir_add(k, &k->body, IRK_OP, nowhere);
  IrExpr *operand[] = {ir_op2(k, OP_GE, i, ir_int(k, 200)), ir_int_of(k, DT_I32, 0), i,
                       ir_int(k, 200)};
  s->as.op.op = OP_FAULT;
  s->as.op.noperands = 4;
  s->as.op.operand = ARENA_ARRAY(f.a, IrOperand, 4);
  for (int n = 0; n < 4; n++)
    s->as.op.operand[n] = (IrOperand){.kind = IRO_EXPR, .expr = operand[n]};
  CudaText *t = cuda_print(f.a, k, target_find("sm_80"), &sink);
  ck_assert_ptr_nonnull(t);
  ck_assert_int_eq(t->nargs, 2);
  GpuPtr slot = gpu_fault_slot(f.g);
  unsigned call = 77;
  void *args[] = {&slot, &call};
  GpuFault fault;
  GpuLaunch l = {
      .kernel = load(&f, t->text, t->entry), .grid = {1, 1, 1}, .block = {128}, .args = args};
  ok(&f, gpu_launch(f.g, &l));
  ok(&f, gpu_sync(f.g));
  ck_assert(!gpu_fault_take(f.g, &fault));
  l.grid[0] = 2;
  ok(&f, gpu_launch(f.g, &l));
  ok(&f, gpu_sync(f.g));
  ck_assert(gpu_fault_take(f.g, &fault));
  ck_assert_uint_eq(fault.site, 0);
  ck_assert_uint_eq(fault.call, 77);
  ck_assert(fault.value[0] >= 200 && fault.value[0] < 256);
  ck_assert(fault.value[1] == 200 && fault.block[0] == 1 && fault.block[1] == 0);
  ck_assert(!gpu_fault_take(f.g, &fault));
  teardown(&f);
}
END_TEST

/* Every thread prints its index: all lines arrive, block by block, and what there is no room for is
 * counted. */
START_TEST(prints_arrive) {
  Fixture f;
  setup(&f);
  DiagSink sink;
  diag_init(&sink, f.a);
  IrKernel *k = ir_kernel_new(f.a, names_new(f.a), "talking", IR_THREAD);
  IrReportPart part[2] = {{.text = "i"}, {.value = add_grid(k, 256)}};
  ir_add(k, &k->body, IRK_REPORT, nowhere)->as.report =
      (IrReport){.kind = IRP_PRINT, .part = part, .nparts = 2};
  CudaText *t = cuda_print(f.a, k, target_find("sm_80"), &sink);
  ck_assert_ptr_nonnull(t);
  GpuPtr ring;
  ok(&f, gpu_print_ring(f.g, &ring));
  unsigned call = 5;
  void *args[] = {&ring, &call};
  GpuPrintLine *line = NULL;
  size_t n = 0;
  uint32_t dropped = 0;
  GpuLaunch l = {
      .kernel = load(&f, t->text, t->entry), .grid = {3, 1, 1}, .block = {128}, .args = args};
  for (int round = 0; round < 3; round++) {
    ok(&f, gpu_launch(f.g, &l));
    ok(&f, gpu_sync(f.g));
    ok(&f, gpu_print_take(f.g, f.a, &line, &n, &dropped));
    ck_assert(n == 384 && dropped == 0);
    for (size_t i = 0; i < n; i++) {
      ck_assert(line[i].call == 5 && line[i].line == 0 && line[i].nvalues == 1);
      ck_assert_uint_eq(line[i].block[0], i / 128);
      ck_assert_uint_eq(line[i].value[0], line[i].block[0] * 128 + line[i].thread);
    }
  }
  l.grid[0] = 10000;
  ok(&f, gpu_launch(f.g, &l));
  ok(&f, gpu_print_take(f.g, f.a, &line, &n, &dropped));
  ck_assert_uint_eq(n + dropped, 1280000);
  ck_assert_uint_gt(n, 20000);
  ok(&f, gpu_print_take(f.g, f.a, &line, &n, &dropped));
  ck_assert(n == 0 && dropped == 0);
  teardown(&f);
}
END_TEST

START_TEST(a_hardware_fault_loses_the_device) {
  Fixture f;
  setup(&f);
  GpuKernel *k = load(&f, "extern \"C\" __global__ void bad(int *p) { *p = 1; }\n", "bad");
  GpuPtr wild = 16;
  void *args[] = {&wild};
  GpuLaunch l = {.kernel = k, .grid = {1, 1, 1}, .block = {1}, .args = args};
  ok(&f, gpu_launch(f.g, &l));
  ck_assert_int_eq(gpu_sync(f.g), ST_DEVICE);
  ck_assert(gpu_lost(f.g));
  ck_assert_ptr_nonnull(strstr(gpu_why(f.g), "CUDA_ERROR_"));
  GpuPtr p;
  ck_assert_int_eq(gpu_alloc(f.g, 16, "x", &p), ST_DEVICE);
  ck_assert_int_eq(gpu_launch(f.g, &l), ST_DEVICE);
  teardown(&f);
}
END_TEST

/* ---- tensor maps ----------------------------------------------------------------------------- */

START_TEST(tensor_maps_are_encoded_once) {
  Fixture f;
  setup(&f);
  GpuPtr p;
  _Alignas(64) unsigned char a[GPU_TMAP_BYTES], b[GPU_TMAP_BYTES];
  ok(&f, gpu_alloc(f.g, 1 << 20, "a", &p));
  GpuTmap t = {.dtype = DT_BF16,
               .rank = 2,
               .base = p,
               .extent = {512, 1024},
               .stride = {0, 1024},
               .box = {64, 128},
               .swizzle = 128};
  if (!gpu_props(f.g)->tma) {
    ck_assert_int_eq(gpu_tmap_encode(f.g, &t, a), ST_DEVICE);
    teardown(&f);
    return;
  }
  ok(&f, gpu_tmap_encode(f.g, &t, a));
  for (int i = 0; i < 5000; i++) { /* past the bound of the cache */
    t.extent[1] = 1024 - (uint64_t)i % 1000;
    t.base = p + (uint64_t)i / 1000 * 16;
    ok(&f, gpu_tmap_encode(f.g, &t, b));
    ck_assert((memcmp(a, b, sizeof a) == 0) == (i == 0));
  }
  t.extent[0] = 0, t.base = 0;
  ok(&f, gpu_tmap_encode(f.g, &t, b));
  t.box[0] = 65;
  ck_assert_int_eq(gpu_tmap_encode(f.g, &t, b), ST_DEVICE);
  teardown(&f);
}
END_TEST

/* ---- the printer's arithmetic ---------------------------------------------------------------- */

enum { VALUES = 8192 };

/* Every kind of value: small, special, random bits; stored form. */
static void random_values(DType t, unsigned seed, unsigned char *out) {
  size_t size = dtype_size(t);
  uint64_t x = seed * 0x9e3779b97f4a7c15ull + 1;
  for (int i = 0; i < VALUES; i++) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    uint64_t bits = x;
    Scalar s = {.type = dtype_is_float(t) ? DT_F64 : DT_I64};
    if (i % 3 == 0) {
      if (dtype_is_float(t))
        s.as.f = (double)((int64_t)(x >> 20) % 2000) / 16.0 - 50.0;
      else
        s.as.i = (int64_t)(x >> 20) % 40 - 20;
      scalar_store(scalar_convert(s, t), out + (size_t)i * size);
    } else {
      if (t == DT_BOOL)
        bits &= 1;
      memcpy(out + (size_t)i * size, &bits, size);
    }
  }
}

static bool same_bits(DType t, const unsigned char *a, const unsigned char *b) {
  Scalar x = scalar_load(t, a), y = scalar_load(t, b);
  if (dtype_is_float(t) && x.as.f != x.as.f && y.as.f != y.as.f)
    return true; /* one NaN is as good as another */
  return memcmp(a, b, dtype_size(t)) == 0;
}

/* What the strip gives, in stored form. */
static void expect(const OpCase *c, DType t, unsigned char *const in[4], unsigned char *out) {
  static double wide[4][VALUES], result[VALUES];
  static unsigned char cond[VALUES];
  OpRule rule = op_info(c->op)->rule;
  const void *src[3] = {wide[0], rule == RULE_SHIFT ? wide[3] : wide[1], wide[2]};
  for (int i = 0; i < 4; i++)
    dtype_unpack(i < 3 ? t : DT_I32, in[i], wide[i], VALUES);
  if (rule == RULE_SELECT) {
    const void *two[2] = {wide[0], wide[1]};
    op_strip(OP_LT, t, DT_BOOL)(VALUES, cond, two);
    src[0] = t == DT_BOOL ? (const void *)wide[2] : cond;
    src[1] = wide[0], src[2] = wide[1];
  }
  OpStrip strip = op_strip(c->op, t, rule == RULE_SHIFT ? DT_I32 : c->to);
  ck_assert_msg(strip != NULL, "%s of %s", op_info(c->op)->name, dtype_name(t));
  (void)strip(VALUES, result, src);
  dtype_pack(c->to, result, out, VALUES);
}

/* The bits of a narrow NaN are nobody's promise: the hardware makes its own. */
static bool is_nan_bits(const OpCase *c, DType t, const unsigned char *x) {
  Scalar v = scalar_load(t, x);
  return c->op == OP_BITCAST && dtype_is_float(t) && v.as.f != v.as.f;
}

static bool is_inexact(OpCode op, DType t) { /* the hardware's own, or another library's */
  OpAccuracy acc = op_info(op)->accuracy;
  return acc == ACC_APPROX || (t == DT_F64 && acc != ACC_EXACT);
}

static void check_results(Fixture *f, const OpKernel *o, const OpCase *c,
                          unsigned char *const in[4], GpuPtr p) {
  static unsigned char got[VALUES * 8], want[VALUES * 8];
  size_t size = dtype_size(c->to);
  ok(f, gpu_download(f->g, got, p, VALUES * size));
  expect(c, o->t, in, want);
  for (size_t i = 0; i < VALUES && !is_inexact(c->op, o->t); i++)
    if (!same_bits(c->to, got + i * size, want + i * size) &&
        !is_nan_bits(c, o->t, in[0] + i * dtype_size(o->t))) {
      uint64_t x[3] = {0}, g = 0, w = 0;
      for (int k = 0; k < 3; k++)
        memcpy(&x[k], in[k] + i * dtype_size(o->t), dtype_size(o->t));
      memcpy(&g, got + i * size, size);
      memcpy(&w, want + i * size, size);
      ck_abort_msg("%s of %s to %s: %llx %llx %llx gives %llx, not %llx", op_info(c->op)->name,
                   dtype_name(o->t), dtype_name(c->to), (unsigned long long)x[0],
                   (unsigned long long)x[1], (unsigned long long)x[2], (unsigned long long)g,
                   (unsigned long long)w);
    }
}

START_TEST(arithmetic_is_the_evaluators) {
  DType t = (DType)_i;
  Fixture f;
  setup(&f);
  DiagSink sink;
  diag_init(&sink, f.a);
  OpKernel o = op_kernel(f.a, names_new(f.a), t, VALUES);
  const char *arch = gpu_props(f.g)->arch;
  const Target *target = target_find(arch) ? target_find(arch) : target_find("sm_80");
  ck_assert(ir_verify(o.k, &sink));
  CudaText *text = cuda_print(f.a, o.k, target, &sink);
  ck_assert_ptr_nonnull(text);
  GpuKernel *k = load(&f, text->text, text->entry);
  unsigned char *in[4];
  GpuPtr *p = ARENA_ARRAY(f.a, GpuPtr, text->nargs);
  void **args = ARENA_ARRAY(f.a, void *, text->nargs);
  for (int i = 0; i < text->nargs; i++) {
    const IrBuffer *b = text->arg[i].buf;
    size_t bytes = VALUES * dtype_size(b->dtype);
    ok(&f, gpu_alloc(f.g, bytes, b->name, &p[i]));
    args[i] = &p[i];
    for (int n = 0; n < 4; n++)
      if (b == o.in[n]) {
        in[n] = arena_alloc(f.a, bytes);
        random_values(b->dtype, (unsigned)(n + 10 * (int)t), in[n]);
        ok(&f, gpu_upload(f.g, p[i], in[n], bytes));
      }
  }
  GpuLaunch l = {.kernel = k, .grid = {VALUES / 128, 1, 1}, .block = {128}, .args = args};
  ok(&f, gpu_launch(f.g, &l));
  for (size_t i = 0; i < o.cases.n; i++)
    for (int n = 0; n < text->nargs; n++)
      if (text->arg[n].buf == o.cases.v[i].out)
        check_results(&f, &o, &o.cases.v[i], in, p[n]);
  teardown(&f);
}
END_TEST

/* Asked in a child: the driver does not survive a fork, and each test is one. */
static bool device_there(void) {
  int rc = 1;
  pid_t child = fork();
  if (child == 0) {
    GpuRt *rt = gpu_rt_new(NULL);
    _exit(gpu_count(rt, NULL) > 0 && gpu_nvrtc_version(rt, NULL) ? 0 : 1);
  }
  return child > 0 && waitpid(child, &rc, 0) == child && rc == 0;
}

int main(void) {
  if (!gpu_built() || !device_there())
    return 77;
  Suite *s = suite_create("gpu device");
  TCase *c = tcase_create("gpu device");
  tcase_set_timeout(c, 120);
  tcase_add_test(c, properties);
  tcase_add_test(c, copies_of_all_sizes);
  tcase_add_test(c, fills);
  tcase_add_test(c, out_of_memory_names_the_tensor);
  tcase_add_test(c, vector_add);
  tcase_add_test(c, much_shared_memory);
  tcase_add_test(c, events_and_timing);
  tcase_add_test(c, the_peer_multiplies);
  tcase_add_test(c, an_endless_kernel_is_stopped);
  tcase_add_test(c, the_first_fault_is_kept);
  tcase_add_test(c, prints_arrive);
  tcase_add_test(c, a_hardware_fault_loses_the_device);
  tcase_add_test(c, tensor_maps_are_encoded_once);
  tcase_add_loop_test(c, arithmetic_is_the_evaluators, 0, DT_COUNT);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
