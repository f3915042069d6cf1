/* check_cuda.c: the CUDA printer: what it writes, and that NVRTC takes it and the gate passes it,
 * for every pure operation on every dtype and every operation of the thread level. Without NVRTC
 * the compiling half of each test is left out. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_kernels.h"
#include "gpu/private.h"

typedef struct Fixture {
  Arena *a;
  Names *names;
  DiagSink sink;
  GpuRt *rt;
} Fixture;

static Fixture setup(void) {
  Fixture f = {.a = arena_new(NULL, "test")};
  GpuConfig cfg = {.no_cache = true};
  f.names = names_new(f.a);
  diag_init(&f.sink, f.a);
  f.rt = gpu_rt_new(&cfg);
  return f;
}

static void teardown(Fixture *f) {
  gpu_rt_free(f->rt);
  arena_free(f->a);
}

static const char *diagnostics(Fixture *f) {
  Str s = str_new(f->a);
  diag_format_all(&f->sink, false, &s);
  return str_text(&s);
}

static IrKernel *read_kernel(Fixture *f, const char *name, const char *text) {
  IrKernels ks = {0};
  SrcFile *file = src_new(f->a, name, text, strlen(text));
  bool ok = ir_read(f->a, f->names, file, &f->sink, &ks);
  ck_assert_msg(ok && ks.n > 0, "%s", diagnostics(f));
  ok = ir_verify(ks.v[0], &f->sink);
  ck_assert_msg(ok, "%s", diagnostics(f));
  return ks.v[0];
}

/* Prints for the target; NULL where that fails. */
static CudaText *print_for(Fixture *f, const IrKernel *k, const char *arch) {
  return cuda_print(f->a, k, target_find(arch), &f->sink);
}

static CudaText *print_text(Fixture *f, const char *text) {
  CudaText *t = print_for(f, read_kernel(f, "test.ir", text), "sm_90a");
  ck_assert_msg(t != NULL, "%s", diagnostics(f));
  return t;
}

static GpuImage *compile(Fixture *f, const CudaText *t, const char *arch) {
  GpuCompile job = {.name = "test.cu", .text = t->text, .arch = arch};
  GpuImage *image = NULL;
  Str why = str_new(f->a);
  if (!gpu_nvrtc_version(f->rt, NULL))
    return NULL;
  Status st = gpu_compile(f->rt, &job, f->a, &image, &why);
  ck_assert_msg(st == ST_OK, "%.2000s", str_text(&why));
  ck_assert_msg(image->log[0] == '\0', "%s", image->log);
  return image;
}

static void check_has(const CudaText *t, const char *line) {
  ck_assert_msg(strstr(t->text, line) != NULL, "no `%s` in\n%s", line, t->text);
}

/* The body of a kernel around statements. */
static const char *kernel_of(Fixture *f, const char *head, const char *body) {
  return arena_printf(
      f->a,
      "kernel k thread(A: f32[N], J: i32[N], n: i32, s: f16, Z: inout i64[N]) -> (C: f32[N]) {\n"
      "%s\n%s\n}\n",
      head, body);
}

static CudaText *print_body(Fixture *f, const char *body) {
  return print_text(f, kernel_of(f, "threads 128", body));
}

/* ---- the hand-written kernels ---------------------------------------------------------------- */

static char *read_source(Fixture *f, const char *name) {
  const char *path = arena_printf(f->a, "%s/tests/lower/%s.ir", TILESH_SRCDIR, name), *why = NULL;
  size_t n = 0;
  char *text = io_read_file(f->a, path, &n, &why);
  ck_assert_msg(text != NULL, "%s: %s", path, why);
  return text;
}

START_TEST(hopper_kernels_pass_the_gate) {
  static const struct {
    const char *name;
    unsigned products; /* HGMMA instructions, both operands in shared memory or one in registers */
  } rows[] = {{"gemm_nt", 4}, {"gemm_nn", 4}, {"attn_full", 32}, {"attn_causal", 32}};
  Fixture f = setup();
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    IrKernel *k = read_kernel(&f, rows[i].name, read_source(&f, rows[i].name));
    CudaText *t = print_for(&f, k, "sm_90a");
    ck_assert_msg(t != NULL, "%s", diagnostics(&f));
    ck_assert_str_eq(t->text, print_for(&f, k, "sm_90a")->text);
    ck_assert_int_eq(t->threads, 384);
    GpuImage *m = compile(&f, t, "sm_90a");
    if (!m)
      continue;
    ck_assert_msg(m->gate, "%s: %s", rows[i].name, m->gate_why);
    ck_assert_uint_eq(gpu_image_count(m, t->entry, 0x9f0) + gpu_image_count(m, t->entry, 0xdf0),
                      rows[i].products);
    ck_assert_uint_eq(gpu_image_count(m, t->entry, 0x9c8), 2); /* setmaxnreg, both of them */
    ck_assert_ptr_null(print_for(&f, k, "sm_80"));
    ck_assert_str_eq(diag_name(f.sink.v[0]->code), "E0702"); /* shared memory first */
    diag_clear(&f.sink);
  }
  teardown(&f);
}
END_TEST

/* ---- every operation ------------------------------------------------------------------------- */

static void check_dtype(DType t, const char *arch) {
  Fixture f = setup();
  OpKernel o = op_kernel(f.a, f.names, t, 1024);
  ck_assert_uint_gt(o.cases.n, 20);
  bool ok = ir_verify(o.k, &f.sink);
  ck_assert_msg(ok, "%s", diagnostics(&f));
  CudaText *c = print_for(&f, o.k, arch);
  ck_assert_msg(c != NULL, "%s", diagnostics(&f));
  ck_assert_int_eq(c->nargs, 4 + (int)o.cases.n);
  (void)compile(&f, c, arch);
  teardown(&f);
}

START_TEST(every_pure_operation_compiles) {
  check_dtype((DType)_i, "sm_90a");
}
END_TEST

START_TEST(other_targets_compile_too) {
  check_dtype(DT_BF16, "sm_80");
  check_dtype(DT_F8E4M3, "sm_89");
  check_dtype(DT_I32, "sm_80");
  check_dtype(DT_F16, "sm_86");
  check_dtype(DT_F32, "sm_120a");
}
END_TEST

START_TEST(thread_operations_of_sm_80_compile) {
  Fixture f = setup();
  const char *text =
      "kernel k thread(A: f16[N], n: i32) -> (C: f32[N]) {\n"
      "  site E0450 \"{0} is not below {1}\"\n grid b = 4\n threads 128\n shared_bytes 4096\n"
      "  let l: i32 = lane()\n reg a: u32[4]\n reg q: u32[2]\n reg d: f32[4]\n reg h: f16[8]\n reg "
      "u: u32[1]\n"
      "  for i: i32 = 0, 4, 1 unroll { store d[i] = 0.0 }\n"
      "  cp_async 16*l, &A[8*l], 16, n\n cp_async 8*l, &A[4*l], 8, 8\n cp_async 4*l, &A[2*l], 4, "
      "4\n"
      "  cp_async_commit\n cp_async_wait 0\n syncthreads\n"
      "  ldmatrix a[0:+4], 16*l\n ldmatrix_t q[0:+2], 16*l\n ldmatrix u[0:+1], 16*l\n"
      "  mma_sync d[0:+4], a[0:+4], q[0:+2], f16\n mma_sync d[0:+4], a[0:+4], q[0:+2], bf16\n"
      "  ld_shared h[0:+8], 16*l\n st_shared 16*l, h[0:+8]\n ld_global h[0:+4], &A[4*l]\n"
      "  st_global &C[4*l], d[0:+4]\n st_global &C[2*l], d[2:+2]\n ld_shared a[0:+2], 8*l\n"
      "  load x: f32 = d[0]\n"
      "  shfl_xor y: f32, x, 1\n shfl_idx z: f32, y, 0\n shfl_up w: f32, z, 1\n shfl_down v: f32, "
      "w, 1\n"
      "  vote_any p: bool, v > 0.0\n vote_all r: bool, v > 1.0\n"
      "  bar_sync 1, 128\n bar_arrive 2, 128\n bar_sync 2, 128\n syncwarp\n membar\n"
      "  fault n > 5, 0, n, 5\n"
      "  if p & r { store C[l] = v }\n"
      "}\n";
  static const char *const archs[] = {"sm_80", "sm_89", "sm_90a"};
  IrKernel *k = read_kernel(&f, "ops.ir", text);
  for (int i = 0; i < 3; i++) {
    CudaText *t = print_for(&f, k, archs[i]);
    ck_assert_msg(t != NULL, "%s", diagnostics(&f));
    GpuImage *m = compile(&f, t, archs[i]);
    ck_assert(!m || m->gate);
    ck_assert_int_eq(t->nsites, 1);
    ck_assert_str_eq(t->site[0].text, "{0} is not below {1}");
    ck_assert_int_eq(t->site[0].code, E0450);
    ck_assert_int_eq(t->arg[t->nargs - 2].kind, CUDA_ARG_FAULT);
  }
  teardown(&f);
}
END_TEST

/* Every type that tensor cores multiply: mma.sync, and wgmma where the target has it. */
START_TEST(products_of_every_type_compile) {
  static const char *const types[] = {"f16", "bf16", "f32", "i8", "f8e4m3", "f8e5m2"};
  Fixture f = setup();
  for (int i = 0; i < 6; i++) {
    const char *acc = i == 3 ? "i32" : "f32", *t = types[i];
    char text[1024];
    int n = snprintf(text, sizeof text,
                     "kernel k thread(A: u32[N]) -> (C: %s[N]) {\n threads 128\n"
                     " shared_bytes 16384\n let t: i32 = tid()\n reg a: u32[4]\n reg b: u32[2]\n"
                     " reg c: %s[4]\n reg d: %s[16]\n for i: i32 = 0, 4, 1 unroll {\n"
                     "  load x: u32 = A[t + 128*i]\n store a[i] = x\n store c[i] = %s(0)\n }\n"
                     " ldmatrix b[0:+2], 16*t\n mma_sync c[0:+4], a[0:+4], b[0:+2], %s\n"
                     " load v: %s = c[0]\n store C[t] = v\n",
                     acc, acc, acc, i == 3 ? "i32" : "f32", t, acc);
    char *end = text + n;
    const char *old = i < 4 ? "sm_80" : "sm_89";
    snprintf(end, sizeof text - (size_t)n, "}\n");
    CudaText *plain = print_for(&f, read_kernel(&f, "mma.ir", text), old);
    ck_assert_msg(plain != NULL, "%s", diagnostics(&f));
    (void)compile(&f, plain, old);
    if (i >= 4)
      ck_assert_ptr_null(print_for(&f, read_kernel(&f, "mma.ir", text), "sm_80"));
    diag_clear(&f.sink);
    snprintf(end, sizeof text - (size_t)n,
             " let x: u64 = desc(1024, 16, 1024, 1)\n wgmma_fence\n"
             " wgmma_ss d[0:+16], x, x, false, 32, %s, 0, 0\n"
             " wgmma_rs d[0:+16], a[0:+4], x, true, 32, %s, 0\n wgmma_commit\n wgmma_wait 0\n"
             " load w: %s = d[3]\n store C[t] = w\n}\n",
             t, t, acc);
    CudaText *group = print_for(&f, read_kernel(&f, "wgmma.ir", text), "sm_90a");
    ck_assert_msg(group != NULL, "%s", diagnostics(&f));
    (void)compile(&f, group, "sm_90a");
  }
  teardown(&f);
}
END_TEST

/* Types that only mma.sync multiplies. */
START_TEST(products_of_warps_compile) {
  Fixture f = setup();
  const char *text =
      "kernel k thread(A: u32[N], B: f64[N]) -> (C: i32[N], D: f64[N]) {\n threads 32\n"
      " let t: i32 = tid()\n reg a: u32[4]\n reg b: u32[2]\n reg c: i32[4]\n reg x: f64[1]\n"
      " reg d: f64[2]\n for i: i32 = 0, 4, 1 unroll {\n  load x: u32 = A[t + 32*i]\n"
      "  store a[i] = x\n  store b[i // 2] = x\n  store c[i] = 0\n  store d[i // 2] = 0.0\n }\n"
      " load y: f64 = B[t]\n store x[0] = y\n mma_sync c[0:+4], a[0:+4], b[0:+2], u8\n"
      " mma_sync d[0:+2], x[0:+1], x[0:+1], f64\n load v: i32 = c[0]\n store C[t] = v\n"
      " load w: f64 = d[1]\n store D[t] = w\n}\n";
  static const char *const targets[] = {"sm_80", "sm_89", "sm_90a"};
  for (int i = 0; i < 3; i++) {
    CudaText *c = print_for(&f, read_kernel(&f, "mma.ir", text), targets[i]);
    ck_assert_msg(c != NULL, "%s", diagnostics(&f));
    (void)compile(&f, c, targets[i]);
  }
  teardown(&f);
}
END_TEST

/* 16 rows of f64, which only sm_90 has. */
START_TEST(tall_products_of_f64_compile) {
  Fixture f = setup();
  const char *text =
      "kernel k thread(A: f64[N]) -> (D: f64[N]) {\n threads 32\n"
      " let t: i32 = tid()\n reg a: f64[8]\n reg b: f64[4]\n reg d: f64[4]\n"
      " for i: i32 = 0, 8, 1 unroll {\n  load x: f64 = A[t + 32*i]\n  store a[i] = x\n"
      "  store b[i // 2] = x\n  store d[i // 2] = 0.0\n }\n"
      " mma_sync d[0:+4], a[0:+2], b[0:+1], f64\n mma_sync d[0:+4], a[0:+4], b[0:+2], f64\n"
      " mma_sync d[0:+4], a[0:+8], b[0:+4], f64\n load w: f64 = d[1]\n store D[t] = w\n}\n";
  IrKernel *k = read_kernel(&f, "mma.ir", text);
  CudaText *c = print_for(&f, k, "sm_90a");
  ck_assert_msg(c != NULL, "%s", diagnostics(&f));
  (void)compile(&f, c, "sm_90a");
  ck_assert_ptr_null(print_for(&f, k, "sm_89"));
  ck_assert_str_eq(diag_name(f.sink.v[0]->code), "E0701");
  ck_assert_ptr_nonnull(strstr(f.sink.v[0]->text, "of 16 rows of f64 does not exist on sm_89"));
  teardown(&f);
}
END_TEST

START_TEST(thread_operations_of_sm_90a_compile) {
  Fixture f = setup();
  const char *text =
      "kernel k thread(A: bf16[M, K]) -> (C: bf16[M, K]) {\n"
      "  tmap t1 = A dim [K] stride [] box [64] swizzle 0\n"
      "  tmap t2 = A dim [K, M] stride [K*2] box [64, 8] swizzle 128\n"
      "  tmap t3 = A dim [K, M, 1] stride [K*2, K*2] box [64, 8, 1] swizzle 128\n"
      "  tmap t4 = C dim [K, M] stride [K*2] box [64, 8] swizzle 128\n"
      "  tmap t6 = C dim [K] stride [] box [64] swizzle 0\n"
      "  tmap t5 = C dim [K, M, 1, 1, 1] stride [K*2, K*2, K*2, K*2] box [64, 8, 1, 1, 1] swizzle "
      "0\n"
      "  grid b = 1\n threads 128\n shared_bytes 65536\n"
      "  let t: i32 = tid()\n reg w: u32[4]\n reg d: f32[4]\n reg e: f32[64]\n reg a: u32[4]\n"
      "  if t == 0 {\n mbar_init 0, 1\n mbar_fence_init\n tma_prefetch t2\n mbar_expect_tx 0, "
      "1024\n"
      "    tma_load 1024, t1, 0, 0\n tma_load 1024, t2, 0, 0, 0\n tma_load 1024, t3, 0, 0, 0, 0\n"
      "    tma_load 1024, t5, 0, 0, 0, 0, 0, 0\n }\n"
      "  syncthreads\n grid_wait\n grid_launch\n mbar_arrive 0\n mbar_wait 0, 0\n"
      "  for i: i32 = 0, 4, 1 unroll { store a[i] = 0\n store w[i] = 0 }\n"
      "  let x: u64 = desc(1024, 16, 1024, 1)\n"
      "  wgmma_fence\n wgmma_ss d[0:+4], x, x, false, 8, f16, 0, 1\n wgmma_ss d[0:+4], x + 2, x, "
      "true, 8, f16, 0, 1\n"
      "  wgmma_rs e[0:+64], a[0:+4], x, false, 128, bf16, 0\n wgmma_commit\n wgmma_wait 0\n"
      "  stmatrix 1024 + 16*t, w[0:+4]\n stmatrix_t 1024 + 16*t, w[0:+2]\n stmatrix 1024 + 16*t, "
      "w[0:+1]\n"
      "  fence_proxy_async\n syncthreads\n"
      "  if t == 0 {\n tma_store t6, 1024, 0\n tma_store t4, 1024, 0, 0\n bulk_commit\n "
      "bulk_wait_read 0\n bulk_wait 0 }\n"
      "}\n";
  IrKernel *k = read_kernel(&f, "ops.ir", text);
  CudaText *t = print_for(&f, k, "sm_90a");
  ck_assert_msg(t != NULL, "%s", diagnostics(&f));
  (void)compile(&f, t, "sm_90a");
  ck_assert_ptr_null(print_for(&f, k, "sm_89"));
  ck_assert_str_eq(diag_name(f.sink.v[0]->code), "E0701");
  ck_assert_ptr_nonnull(strstr(f.sink.v[0]->text, "does not exist on sm_89"));
  teardown(&f);
}
END_TEST

/* ---- text ------------------------------------------------------------------------------------ */

START_TEST(plain_operators_where_nothing_wraps) {
  Fixture f = setup();
  CudaText *t =
      print_body(&f, "let i: i32 = tid()\n let j: i32 = i // 4 * 8 + i % 4\n"
                     "let m: i32 = n * 3 + i\n let q: i32 = n // 4\n let d: i64 = i64(i) * 5\n"
                     "let w: i64 = i64(n) * 500000000 + 1\n");
  check_has(t, "const int j = i / 4 * 8 + i % 4;");
  check_has(t, "const int m = (int)((unsigned)n * 3u + (unsigned)i);");
  check_has(t, "const int q = ts_floordiv_i32(n, 4);");
  check_has(t, "const int d = i * 5;");
  check_has(t, "const long long w = (long long)n * 500000000 + 1;");
  (void)compile(&f, t, "sm_90a");
  teardown(&f);
}
END_TEST

/* How many blocks there are is small where it goes by the multiprocessors, alone or a few for each.
 */
START_TEST(blocks_are_few_where_they_count_multiprocessors) {
  static const struct {
    const char *grid;
    bool few;
  } cases[] = {{"min(i64(n), sms)", true},
               {"sms * 8", true},
               {"ceildiv(i64(n), max(ceildiv(i64(n), sms), 1))", true},
               {"sms - 1", true},
               {"i64(n) * sms", false},
               {"max(i64(n), sms)", false},
               {"i64(n) - sms", false},
               {"min(i64(n) + sms, 2000000)", false},
               {"i64(n)", false}};
  Fixture f = setup();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *head = arena_printf(f.a, "grid b = %s\nthreads 128", cases[i].grid);
    CudaText *t = print_text(&f, kernel_of(&f, head, "let x: i32 = blocks_x() * 1000\n"));
    ck_assert_msg((strstr(t->text, "const int x = ts_blocks_x() * 1000;") != NULL) == cases[i].few,
                  "%s:\n%s", cases[i].grid, t->text);
  }
  teardown(&f);
}
END_TEST

/* What a u64 holds above int64 is negative as i64. */
START_TEST(large_unsigned_may_be_negative) {
  Fixture f = setup();
  CudaText *t =
      print_body(&f, "let u: u64 = u64(i64(n)) * u64(3)\n let v: i64 = i64(u)\n"
                     "let q: i64 = v // 4\n let r: i64 = i64(u64(i64(tid())) * u64(3)) // 4\n");
  check_has(t, "q = ts_floordiv_i64(v, 4);");
  check_has(t, "* 3ull) / 4;");
  (void)compile(&f, t, "sm_90a");
  teardown(&f);
}
END_TEST

START_TEST(loops) {
  Fixture f = setup();
  CudaText *t = print_body(&f, "for i: i32 = 0, n, 1 { store C[i] = 0.0 }\n"
                               "for i: i32 = n, 0, -2 unroll(4) { store C[i] = 1.0 }\n"
                               "for i: i32 = 0, 8, 1 unroll { store C[i] = 2.0 }\n"
                               "for i: i32 = 0, 100, tid() - 5 { store C[i] = 3.0 }\n"
                               "for i: i64 = 0, 64, 1 { store C[i] = 3.0 }\n"
                               "var e: i32 = 4\n for i: i32 = 0, e, 1 { set e = e - 1 }\n");
  check_has(t, "unsigned polls = 0;\n  #pragma unroll 1\n  for (int i = 0; i < n; ++i) {");
  check_has(t, "#pragma unroll 4\n  for (int i_1 = n; i_1 > 0; i_1 += -2) {");
  check_has(t, "#pragma unroll\n  for (int i_2 = 0; i_2 < 8; ++i_2) {");
  check_has(t, "i_3_step > 0 ? i_3 < 100 : i_3_step < 0 && i_3 > 100; i_3 += i_3_step) {");
  check_has(t, "for (int i_4 = 0; i_4 < 64; ++i_4) {");
  check_has(t, "const int i_5_end = e;");
  (void)compile(&f, t, "sm_90a");
  teardown(&f);
}
END_TEST

/* The step past the end does not fit: whether another round follows is asked before it is taken. */
START_TEST(loops_that_end_far) {
  Fixture f = setup();
  CudaText *t = print_body(&f, "for i: i32 = 0, n, 64 { store C[i] = 0.0 }\n"
                               "for i: i32 = n, 7, n { store C[i] = 1.0 }\n"
                               "for i: i32 = 0, n, -2 { store C[i] = 2.0 }\n"
                               "for i: i64 = 0, 9, 4294967296 { store C[i] = 3.0 }\n"
                               "for i: i64 = max(i64(n) * 65536, 0), 9, 1 { store C[i] = 4.0 }\n"
                               "for i: u32 = 0, u32(n), 2 { store C[i] = 5.0 }\n");
  check_has(t, "bool on = 0 < n;\n  #pragma unroll 1\n  for (int i = 0; on; "
               "on = (unsigned)n - (unsigned)i > (unsigned)64, "
               "i = (int)((unsigned)i + (unsigned)64)) {");
  check_has(t, "on_1 = n > 0 ? (unsigned)7 - (unsigned)i_1 > (unsigned)n : "
               "(unsigned)i_1 - (unsigned)7 > 0u - (unsigned)n, ");
  check_has(t, "on_2 = (unsigned)i_2 - (unsigned)n > 0u - (unsigned)-2, ");
  check_has(t, "for (long long i_3 = 0; i_3 < 9; i_3 += 4294967296ll) {");
  check_has(t, "for (long long i_4 = ");
  check_has(t, "on_3 = (unsigned)i_5_end - (unsigned)i_5 > (unsigned)2u, ");
  (void)compile(&f, t, "sm_90a");
  teardown(&f);
}
END_TEST

START_TEST(while_loops_poll_the_stop_word) {
  Fixture f = setup();
  CudaText *t = print_body(&f, "while { load z: i64 = Z[0] } cond z == 0 { membar }\n");
  check_has(t, "if (ts_stopped(stop, polls)) return;");
  check_has(t, "*(const volatile long long *)&Z[0]");
  check_has(t, "if (!(z == 0)) break;");
  ck_assert_int_eq(t->arg[t->nargs - 1].kind, CUDA_ARG_STOP);
  (void)compile(&f, t, "sm_90a");
  teardown(&f);
}
END_TEST

/* Where threads wait for each other nobody returns: waits end by themselves, a loop in which
 * threads meet is left by all of them together, another by each alone: the threads that did not
 * come to the loop could not be met there. */
START_TEST(waits_poll_the_stop_word) {
  Fixture f = setup();
  const char *body = "if tid() == 0 { mbar_init 0, 1\n mbar_fence_init }\n syncthreads\n"
                     "while { load z: i64 = Z[0] } cond z == 0 { membar }\n"
                     "mbar_wait 0, 1\n"
                     "var i: i32 = 0\n"
                     "while { } cond i < n { mbar_wait 0, 1\n syncthreads\n set i = i + 1 }\n"
                     "for k: i32 = 0, n, 1 { mbar_wait 0, 1 }\n"
                     "if tid() == 0 { var j: i32 = 0\n"
                     "while { } cond j < n { mbar_wait 0, 1\n set j = j + 1 } }\n"
                     "if warp() == 1 { var l: i32 = 0\n"
                     "while { } cond l < n { syncwarp\n set l = l + 1 } }\n"
                     "if warp() < 2 { var m: i32 = 0\n"
                     "while { } cond m < n { bar_sync 1, 64\n set m = m + 1 } }\n";
  CudaText *t = print_text(&f, kernel_of(&f, "threads 128\n shared_bytes 64", body));
  check_has(t, "unsigned stopped = 0;");
  check_has(t, "ts_mbar_wait(smem + 0u, 1, stop, stopped);");
  check_has(t, "if (stopped != 0u || ts_stopped(stop, polls)) {");
  check_has(t, "if (ts_leave(0, 128, stop, stopped, polls_1)) break;");
  check_has(t, "if (stopped != 0u || ts_stopped(stop, polls_2)) {");
  check_has(t, "if (ts_leave_warp(stop, stopped, polls_3)) break;");
  check_has(t, "unsigned polls_4 = 0;\n    while (true) {\n      if (!(m < n)) break;");
  ck_assert_int_eq(t->arg[t->nargs - 1].kind, CUDA_ARG_STOP);
  (void)compile(&f, t, "sm_90a");
  teardown(&f);
}
END_TEST

/* One that the ranges bound is not watched, nor one inside another that is. */
START_TEST(long_loops_poll_the_stop_word) {
  Fixture f = setup();
  CudaText *t =
      print_body(&f, "for i: i32 = 0, n, 1 { for j: i32 = 0, n, 1 { store C[i] = 0.0 } }\n"
                     "for k: i32 = 0, 1000, 1 { store C[k] = 0.0 }\n");
  check_has(t, "for (int i = 0; i < n; ++i) {\n    if (ts_stopped(stop, polls)) return;");
  ck_assert_ptr_null(strstr(t->text, "polls_1"));
  ck_assert_int_eq(t->arg[t->nargs - 1].kind, CUDA_ARG_STOP);
  t = print_body(&f, "for k: i32 = 0, 1000, 1 { store C[k] = 0.0 }\n");
  ck_assert_int_eq(t->arg[t->nargs - 1].kind, CUDA_ARG_TENSOR);
  IrKernel *k = read_kernel(&f, "gemm_nt", read_source(&f, "gemm_nt"));
  t = print_for(&f, k, "sm_90a"); /* leaving would strand who waits at a barrier */
  ck_assert_ptr_null(strstr(t->text, "ts_stopped"));
  teardown(&f);
}
END_TEST

START_TEST(names_that_cuda_has_taken) {
  Fixture f = setup();
  CudaText *t = print_body(
      &f, "let unsigned: i32 = tid()\n let smem: i32 = unsigned + 1\n let threadIdx: i32 = smem\n"
          "let ts_min: i32 = 3\n let max: i32 = max(ts_min, n)\n let __x: i32 = max\n"
          "let float: i32 = __x\n store C[float] = 1.0\n");
  GpuImage *m = compile(&f, t, "sm_90a");
  ck_assert(!m || m->gate);
  teardown(&f);
}
END_TEST

/* Each a kernel of its own: the functions among them have C linkage, as the entry has. */
START_TEST(kernels_named_as_what_nvrtc_declares) {
  static const char *const names[] = {"exp",  "norm",   "norm4df", "sinf", "max",
                                      "NULL", "printf", "size_t",  "std",  "cudaStreamDefault"};
  Fixture f = setup();
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const char *other = strcmp(names[i], "NULL") == 0 ? "CUDART_VERSION" : "NULL";
    Str kernel = str_new(f.a);
    str_addf(&kernel, "kernel %s thread(A: f32[N]) -> (C: f32[N]) {\n  threads 32\n", names[i]);
    str_addf(&kernel, "  load %s: f32 = A[tid()]\n  store C[tid()] = %s\n}\n", other, other);
    CudaText *t = print_text(&f, str_text(&kernel));
    ck_assert_str_ne(t->entry, names[i]);
    (void)compile(&f, t, "sm_90a");
  }
  CudaText *t = print_text(&f, "kernel exponent thread() -> (max: f32[N]) {\n  threads 32\n"
                               "  store max[tid()] = 1.0\n}\n");
  ck_assert_str_eq(t->entry, "exponent");
  check_has(t, "max[ts_tid()");
  teardown(&f);
}
END_TEST

START_TEST(parameters_are_what_is_used) {
  Fixture f = setup();
  CudaText *t = print_body(&f, "load x: f32 = A[n]\n store C[0] = x * f32(s)\n");
  ck_assert_int_eq(t->nargs, 4);
  ck_assert_int_eq(t->arg[0].kind, CUDA_ARG_TENSOR);
  ck_assert_str_eq(t->arg[0].buf->name, "A");
  ck_assert_str_eq(t->arg[1].buf->name, "C");
  ck_assert_int_eq(t->arg[2].kind, CUDA_ARG_SCALAR);
  ck_assert_str_eq(t->arg[3].var->name, "s");
  check_has(t, "const float *__restrict__ A");
  check_has(t, "unsigned short s_bits");
  check_has(t, "const float s = ts_load_f16(s_bits);");
  (void)compile(&f, t, "sm_90a");
  teardown(&f);
}
END_TEST

START_TEST(shared_nodes_are_bound_once) {
  Fixture f = setup();
  /* ((x + 1)^2)^2…: 2^40 leaves as a tree */
  IrKernel *k = read_kernel(&f, "t.ir",
                            kernel_of(&f, "threads 128", "load x: f32 = A[0]\n store C[0] = x\n"));
  IrExpr *v = ir_op2(k, OP_ADD, k->body.v[1]->as.access.value, ir_float(k, DT_F32, 1.0));
  for (int i = 0; i < 40; i++)
    v = ir_op2(k, OP_MUL, v, v);
  k->body.v[1]->as.access.value = v;
  CudaText *t = print_for(&f, k, "sm_90a");
  ck_assert_ptr_nonnull(t);
  ck_assert_uint_lt(strlen(t->text), 6000);
  check_has(t, "C[0] = t38 * t38;");
  (void)compile(&f, t, "sm_90a");
  teardown(&f);
}
END_TEST

START_TEST(atomics) {
  Fixture f = setup();
  const char *text =
      "kernel k thread(n: i32, I: inout i32[N], U: inout u32[N], L: inout i64[N], F: inout f32[N], "
      "H: inout f16[N], B: inout bf16[N], D: inout f64[N]) -> (C: f32[N]) {\n threads 128\n"
      "atomic a: i32 = atomic_add(I[n], 1)\n atomic b: i32 = atomic_max(I[n], a)\n atomic _ = "
      "atomic_min(I[n], b)\n"
      "atomic c: u32 = atomic_inc(U[0], 7)\n atomic _ = atomic_cas(U[0], c, 3)\n atomic _ = "
      "atomic_and(U[1], c)\n"
      "atomic _ = atomic_or(L[1], 5)\n atomic d: i64 = atomic_add(L[0], 5)\n atomic _ = "
      "atomic_max(L[0], d)\n"
      "atomic e: f32 = atomic_add(F[n], 1.0)\n atomic _ = atomic_max(F[n], e)\n atomic _ = "
      "atomic_exchange(F[n], e)\n"
      "atomic g: f16 = atomic_add(H[n], 1.0)\n atomic h: bf16 = atomic_add(B[n], 1.0)\n atomic k2: "
      "f64 = atomic_add(D[n], 1.0)\n"
      "store C[0] = e + f32(g) + f32(h) + f32(k2) }\n";
  CudaText *t = print_text(&f, text);
  check_has(t, "const int a = ts_atomic_add_i32(&I[n], 1);");
  check_has(t, "const unsigned c = ts_atomic_inc_u32(&U[0], 7u);");
  check_has(t, "const float g = ts_atomic_add_f16(&H[n], 1.0f);");
  (void)compile(&f, t, "sm_90a");
  (void)compile(&f, t, "sm_80");
  teardown(&f);
}
END_TEST

START_TEST(asserts_are_sites) {
  Fixture f = setup();
  CudaText *t =
      print_body(&f, "load x: f32 = A[0]\n"
                     "assert n > 0, \"n is\", n, \"and x\", x, \"and\", n\n assert n < 9\n");
  ck_assert_int_eq(t->nsites, 2);
  ck_assert_str_eq(t->site[0].text, "assertion failed: n is {0} and x {1f} and …");
  ck_assert_str_eq(t->site[1].text, "assertion failed");
  check_has(t, "if (!(n > 0)) ts_fault(fault, call, 0, (long long)n, "
               "(long long)__double_as_longlong((double)x));");
  check_has(t, "ts_fault(fault, call, 1, 0, 0);");
  check_has(t, "// test.ir:4: assert n > 0");
  ck_assert_int_eq(t->arg[t->nargs - 2].kind, CUDA_ARG_FAULT);
  ck_assert_int_eq(t->arg[t->nargs - 1].kind, CUDA_ARG_CALL);
  (void)compile(&f, t, "sm_90a");
  teardown(&f);
}
END_TEST

START_TEST(prints_go_to_the_ring) {
  Fixture f = setup();
  CudaText *t =
      print_body(&f, "load x: f32 = A[0]\n print \"x\", x, n, true, \"end\"\n print \"y\"\n");
  ck_assert_int_eq(t->nprints, 2);
  ck_assert_int_eq(t->print[0].report->nparts, 5);
  check_has(t, "ts_print(print, call, 0, 3)");
  check_has(t, "*line++ = (unsigned long long)__double_as_longlong((double)x);");
  check_has(t, "*line++ = (unsigned long long)(long long)n;");
  check_has(t, "*line++ = (unsigned long long)true;");
  check_has(t, "ts_print(print, call, 1, 0)");
  ck_assert_int_eq(t->arg[t->nargs - 2].kind, CUDA_ARG_PRINT);
  GpuImage *m = compile(&f, t, "sm_90a");
  ck_assert(!m || m->gate);
  teardown(&f);
}
END_TEST

START_TEST(limits_are_diagnosed) {
  Fixture f = setup();
  IrKernel *k = read_kernel(&f, "t.ir",
                            kernel_of(&f, "threads 128\n shared_bytes 200000", "store C[0] = 1.0"));
  ck_assert_ptr_nonnull(print_for(&f, k, "sm_90a"));
  ck_assert_ptr_null(print_for(&f, k, "sm_89"));
  ck_assert_ptr_nonnull(strstr(diagnostics(&f), "shared memory"));
  teardown(&f);
}
END_TEST

START_TEST(targets) {
  size_t n = 0;
  for (; target_at(n); n++)
    ck_assert_ptr_eq(target_find(target_at(n)->name), target_at(n));
  ck_assert_uint_ge(n, 3);
  ck_assert_ptr_null(target_find("sm_70"));
}
END_TEST

int main(void) {
  Suite *s = suite_create("cuda");
  TCase *c = tcase_create("cuda");
  tcase_set_timeout(c, 300);
  tcase_add_test(c, hopper_kernels_pass_the_gate);
  tcase_add_loop_test(c, every_pure_operation_compiles, 0, DT_COUNT);
  tcase_add_test(c, other_targets_compile_too);
  tcase_add_test(c, thread_operations_of_sm_80_compile);
  tcase_add_test(c, products_of_every_type_compile);
  tcase_add_test(c, products_of_warps_compile);
  tcase_add_test(c, thread_operations_of_sm_90a_compile);
  tcase_add_test(c, tall_products_of_f64_compile);
  tcase_add_test(c, plain_operators_where_nothing_wraps);
  tcase_add_test(c, blocks_are_few_where_they_count_multiprocessors);
  tcase_add_test(c, large_unsigned_may_be_negative);
  tcase_add_test(c, loops);
  tcase_add_test(c, loops_that_end_far);
  tcase_add_test(c, while_loops_poll_the_stop_word);
  tcase_add_test(c, waits_poll_the_stop_word);
  tcase_add_test(c, long_loops_poll_the_stop_word);
  tcase_add_test(c, names_that_cuda_has_taken);
  tcase_add_test(c, kernels_named_as_what_nvrtc_declares);
  tcase_add_test(c, parameters_are_what_is_used);
  tcase_add_test(c, shared_nodes_are_bound_once);
  tcase_add_test(c, atomics);
  tcase_add_test(c, asserts_are_sites);
  tcase_add_test(c, prints_go_to_the_ring);
  tcase_add_test(c, limits_are_diagnosed);
  tcase_add_test(c, targets);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
