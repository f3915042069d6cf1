/* check_gpu.c: the parts of src/gpu that need no GPU: digests, the cache, NVRTC, the gate, cubins,
 * tensor map rules, what is said when libraries are missing. Tests that compile are skipped (and
 * counted in the last line) where there is no NVRTC. */
#include <check.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/private.h"

typedef struct Fixture {
  Arena *a;
  GpuRt *rt;
  char dir[64];
} Fixture;

static void remove_tree(const char *dir) {
  char cmd[160];
  snprintf(cmd, sizeof cmd, "chmod -R u+rwx '%s' 2>/dev/null; rm -rf '%s'", dir, dir);
  ck_assert_int_eq(system(cmd), 0);
}

static Fixture open_with(GpuConfig cfg) {
  Fixture f = {.a = arena_new(NULL, "test")};
  snprintf(f.dir, sizeof f.dir, "/tmp/check_gpu.XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(f.dir));
  if (!cfg.cache_dir)
    cfg.cache_dir = f.dir;
  f.rt = gpu_rt_new(&cfg);
  ck_assert_ptr_nonnull(f.rt);
  return f;
}

static Fixture setup(void) {
  return open_with((GpuConfig){0});
}

static void teardown(Fixture *f) {
  gpu_rt_free(f->rt);
  arena_free(f->a);
  remove_tree(f->dir);
}

static bool no_nvrtc(Fixture *f) {
  if (gpu_nvrtc_version(f->rt, NULL))
    return false;
  teardown(f);
  return true;
}

/* ---- digests ------------------------------------------------------------------------------- */

static void check_digest(const char *text, size_t repeat, const char *want) {
  GpuHash h;
  char got[65];
  gpu_hash_begin(&h);
  for (size_t i = 0; i < repeat; i++)
    gpu_hash_add(&h, text, strlen(text));
  GpuKey k = gpu_hash_end(&h);
  for (int i = 0; i < 32; i++)
    snprintf(got + 2 * i, 3, "%02x", k.b[i]);
  ck_assert_str_eq(got, want);
}

START_TEST(digest_of_the_standard) {
  check_digest("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  check_digest("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  check_digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
               "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  check_digest("a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}
END_TEST

/* ---- the cache ----------------------------------------------------------------------------- */

static GpuKey key_of(const char *text) {
  GpuHash h;
  gpu_hash_begin(&h);
  gpu_hash_text(&h, text);
  return gpu_hash_end(&h);
}

static bool cache_holds(Fixture *f, const char *name, const char *want) {
  GpuKey k = key_of(name);
  const void *data;
  size_t n;
  return gpu_cache_get(f->rt, &k, f->a, &data, &n) && n == strlen(want) &&
         memcmp(data, want, n) == 0;
}

static void cache_store(Fixture *f, const char *name, const char *text) {
  GpuKey k = key_of(name);
  gpu_cache_put(f->rt, &k, text, strlen(text));
}

START_TEST(cache_gives_back_what_it_was_given) {
  Fixture f = setup();
  ck_assert(!cache_holds(&f, "a", "alpha"));
  cache_store(&f, "a", "alpha");
  cache_store(&f, "b", "");
  ck_assert(cache_holds(&f, "a", "alpha"));
  ck_assert(cache_holds(&f, "b", ""));
  cache_store(&f, "a", "other");
  ck_assert(cache_holds(&f, "a", "other"));
  GpuCacheInfo i = gpu_cache_info(f.rt);
  ck_assert_uint_eq(i.entries, 2);
  ck_assert(i.usable && i.bytes > 5);
  ck_assert_str_eq(i.dir, f.dir);
  ck_assert_uint_eq(gpu_cache_clear(f.rt), 2);
  ck_assert(!cache_holds(&f, "a", "other"));
  teardown(&f);
}
END_TEST

/* Runs a shell command with $D the folder of the cache. */
static void shell(Fixture *f, const char *command) {
  char cmd[512];
  snprintf(cmd, sizeof cmd, "D='%s'; %s", f->dir, command);
  ck_assert_int_eq(system(cmd), 0);
}

START_TEST(cache_ignores_damage) {
  static const char *const damage[] = {
      "for f in $D/cubin/*/*; do : > $f; done",            /* empty */
      "for f in $D/cubin/*/*; do truncate -s -1 $f; done", /* short */
      "for f in $D/cubin/*/*; do printf x >> $f; done",    /* long */
      "for f in $D/cubin/*/*; do printf X | dd of=$f bs=1 seek=60 conv=notrunc 2>/dev/null; done",
      "for f in $D/cubin/*/*; do head -c 200 /dev/zero > $f; done", /* zeros */
      "for f in $D/cubin/*/*; do rm $f; mkdir $f; done",            /* a folder in its place */
      "for f in $D/cubin/*/*; do rm -r $f; mkfifo $f; done",        /* what would block */
      "for f in $D/cubin/*/*; do rm $f; ln -s /etc/passwd $f; done",
  };
  for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
    Fixture f = setup();
    cache_store(&f, "a", "0123456789012345678901234567890123456789");
    shell(&f, damage[i]);
    ck_assert(!cache_holds(&f, "a", "0123456789012345678901234567890123456789"));
    teardown(&f);
  }
}
END_TEST

/* An entry under another's name is refused, for the digest covers the key. */
START_TEST(cache_ignores_misplaced_entries) {
  Fixture f = setup();
  cache_store(&f, "a", "alpha");
  shell(&f, "cd $D/cubin/*/ && g=$(ls | sed 's/..$/00/') && mv * $g");
  GpuCacheInfo i = gpu_cache_info(f.rt);
  ck_assert_uint_eq(i.entries, 1);
  GpuKey k = key_of("a");
  const void *data;
  size_t n;
  k.b[31] = 0;
  ck_assert(!gpu_cache_get(f.rt, &k, f.a, &data, &n));
  teardown(&f);
}
END_TEST

START_TEST(cache_without_a_place) {
  static const char *const places[] = {"/dev/null/x", "/proc/nowhere", "/nonexistent\001/\n/x"};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    Fixture f = open_with((GpuConfig){.cache_dir = places[i]});
    if (i < 2) {
      cache_store(&f, "a", "alpha");
      ck_assert(!cache_holds(&f, "a", "alpha"));
      GpuCacheInfo info = gpu_cache_info(f.rt);
      ck_assert(!info.usable && info.problem[0] && info.entries == 0);
    }
    teardown(&f);
  }
  Fixture f = open_with((GpuConfig){.no_cache = true});
  cache_store(&f, "a", "alpha");
  ck_assert(!cache_holds(&f, "a", "alpha"));
  teardown(&f);
}
END_TEST

START_TEST(cache_others_can_write_to_is_not_used) {
  Fixture f = setup();
  cache_store(&f, "a", "alpha");
  shell(&f, "mkdir -p $D/cubin/0; chmod 0777 $D/cubin/*");
  ck_assert(!cache_holds(&f, "a", "alpha"));
  ck_assert_str_eq(gpu_cache_info(f.rt).problem, "writable by other users");
  teardown(&f);
}
END_TEST

START_TEST(cache_read_only) {
  Fixture f = setup();
  cache_store(&f, "a", "alpha");
  shell(&f, "chmod -R a-w $D");
  ck_assert(cache_holds(&f, "a", "alpha"));
  cache_store(&f, "b", "beta"); /* root writes all the same: only that nothing breaks */
  (void)cache_holds(&f, "b", "beta");
  ck_assert(cache_holds(&f, "a", "alpha"));
  teardown(&f);
}
END_TEST

/* A limit on the size of files stands for a full disk: the write fails half-way. */
static int store_under_limit(const char *dir) {
  struct rlimit limit = {4096, 4096};
  GpuConfig cfg = {.cache_dir = dir};
  GpuRt *rt = gpu_rt_new(&cfg);
  GpuKey k = key_of("big");
  static char big[100000];
  signal(SIGXFSZ, SIG_IGN);
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
    return 1;
  gpu_cache_put(rt, &k, big, sizeof big);
  bool empty = gpu_cache_info(rt).entries == 0;
  gpu_rt_free(rt);
  return !empty;
}

START_TEST(cache_on_a_full_disk) {
  Fixture f = setup();
  int rc = 1;
  pid_t child = fork();
  if (child == 0)
    _exit(store_under_limit(f.dir));
  ck_assert_int_eq(waitpid(child, &rc, 0), child);
  ck_assert_int_eq(rc, 0);
  shell(&f, "test -z \"$(find $D -type f)\""); /* nor is a half-written one left */
  teardown(&f);
}
END_TEST

START_TEST(cache_is_bounded_and_drops_the_oldest) {
  Fixture f = open_with((GpuConfig){.cache_entries = 64, .cache_bytes = 1 << 20});
  char name[16];
  for (int i = 0; i < 400; i++) {
    snprintf(name, sizeof name, "entry %d", i);
    cache_store(&f, name, "some bytes");
  }
  GpuCacheInfo i = gpu_cache_info(f.rt);
  ck_assert_uint_le(i.entries, 64);
  ck_assert_uint_ge(i.entries, 48);
  ck_assert(cache_holds(&f, "entry 399", "some bytes"));
  ck_assert(!cache_holds(&f, "entry 0", "some bytes"));
  teardown(&f);
  f = open_with((GpuConfig){.cache_bytes = 16 * 1000});
  for (int k = 0; k < 400; k++) {
    char text[400];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    snprintf(name, sizeof name, "entry %d", k);
    cache_store(&f, name, text);
  }
  i = gpu_cache_info(f.rt);
  ck_assert_uint_le(i.bytes, 16 * 1000);
  ck_assert_uint_ge(i.entries, 16);
  teardown(&f);
}
END_TEST

/* Several processes store and read the same names: each read is whole or nothing. */
static int hammer(const char *dir, int seed) {
  GpuConfig cfg = {.cache_dir = dir, .cache_entries = 32};
  GpuRt *rt = gpu_rt_new(&cfg);
  Arena *a = arena_new(NULL, "child");
  int bad = 0;
  char name[16], text[3000];
  for (int i = 0; i < 600; i++) {
    int which = (i * 7 + seed * 13) % 40;
    const void *data;
    size_t n;
    snprintf(name, sizeof name, "n%d", which);
    memset(text, 'a' + which % 26, sizeof text);
    GpuKey k = key_of(name);
    if (gpu_cache_get(rt, &k, a, &data, &n))
      bad += n != sizeof text || memcmp(data, text, n) != 0;
    else
      gpu_cache_put(rt, &k, text, sizeof text);
    if (i % 100 == 99)
      arena_reset(a);
  }
  arena_free(a);
  gpu_rt_free(rt);
  return bad;
}

START_TEST(cache_with_several_processes) {
  Fixture f = setup();
  pid_t child[4];
  for (int i = 0; i < 4; i++) {
    child[i] = fork();
    if (child[i] == 0)
      _exit(hammer(f.dir, i) != 0);
  }
  for (int i = 0; i < 4; i++) {
    int rc = 1;
    ck_assert_int_eq(waitpid(child[i], &rc, 0), child[i]);
    ck_assert_int_eq(rc, 0);
  }
  GpuCacheInfo i = gpu_cache_info(f.rt);
  ck_assert_uint_le(i.entries, 32 + 4); /* a store and another's look may cross */
  teardown(&f);
}
END_TEST

/* ---- missing libraries --------------------------------------------------------------------- */

START_TEST(missing_libraries_are_named) {
  Fixture f = open_with((GpuConfig){.library_path = "/nonexistent:/tmp"});
  Str why = str_new(f.a);
  Gpu *g = NULL;
  GpuCompile job = {.name = "x.cu", .text = "", .arch = "sm_80"};
  GpuImage *image;
  ck_assert_int_eq(gpu_compile(f.rt, &job, f.a, &image, &why), ST_DEVICE);
  ck_assert_ptr_nonnull(strstr(str_text(&why), "install NVRTC"));
  str_clear(&why);
  ck_assert_int_eq(gpu_open(f.rt, 0, &g, &why), ST_DEVICE);
  ck_assert_ptr_null(g);
  ck_assert_ptr_nonnull(
      strstr(str_text(&why), gpu_built() ? "install NVIDIA's driver" : "without CUDA"));
  str_clear(&why);
  ck_assert_int_eq(gpu_count(f.rt, &why), 0);
  ck_assert_uint_gt(why.n, 10);
  gpu_start_async(f.rt, 0);
  gpu_start_async(f.rt, 0);
  ck_assert_int_eq(gpu_open(f.rt, 0, &g, NULL), ST_DEVICE);
  str_clear(&why);
  gpu_doctor(f.rt, &why);
  ck_assert_ptr_nonnull(strstr(str_text(&why), "NVRTC       missing"));
  ck_assert_ptr_nonnull(strstr(str_text(&why), f.dir));
  gpu_close(NULL);
  teardown(&f);
}
END_TEST

START_TEST(a_broken_library_is_named) {
  Fixture f = open_with((GpuConfig){.library_path = "/tmp/check_gpu_broken"});
  (void)mkdir("/tmp/check_gpu_broken", 0700);
  shell(&f, "echo no library > /tmp/check_gpu_broken/libnvrtc.so.12");
  Str why = str_new(f.a);
  ck_assert_ptr_null(gpu_nvrtc_version(f.rt, &why));
  ck_assert_ptr_nonnull(strstr(str_text(&why), "libnvrtc.so.12 does not load"));
  shell(&f, "rm -r /tmp/check_gpu_broken");
  teardown(&f);
}
END_TEST

START_TEST(environment_gives_places) {
  Arena *a = arena_new(NULL, "test");
  setenv("TILESH_CACHE_DIR", "/tmp/check_gpu_env", 1);
  setenv("TILESH_CUDA_PATH", "", 1);
  GpuRt *rt = gpu_rt_new(NULL);
  ck_assert_str_eq(gpu_cache_info(rt).dir, "/tmp/check_gpu_env");
  ck_assert_ptr_null(gpu_nvrtc_version(rt, NULL));
  gpu_rt_free(rt);
  unsetenv("TILESH_CUDA_PATH");
  unsetenv("TILESH_CACHE_DIR");
  setenv("XDG_CACHE_HOME", "/tmp/check_gpu_env", 1);
  rt = gpu_rt_new(NULL);
  ck_assert_str_eq(gpu_cache_info(rt).dir, "/tmp/check_gpu_env/tilesh");
  gpu_rt_free(rt);
  setenv("XDG_CACHE_HOME", "relative", 1);
  setenv("HOME", "/tmp/check_gpu_env", 1);
  rt = gpu_rt_new(NULL);
  ck_assert_str_eq(gpu_cache_info(rt).dir, "/tmp/check_gpu_env/.cache/tilesh");
  gpu_rt_free(rt);
  unsetenv("HOME");
  rt = gpu_rt_new(NULL);
  ck_assert(!gpu_cache_info(rt).usable);
  gpu_rt_free(rt);
  remove_tree("/tmp/check_gpu_env");
  arena_free(a);
}
END_TEST

/* ---- compiling and the gate ---------------------------------------------------------------- */

static const char add_text[] = "extern \"C\" __global__ void __launch_bounds__(256, 1)\n"
                               "add(const float *a, const float *b, float *c, int n) {\n"
                               "  __shared__ float s[32];\n"
                               "  int i = blockIdx.x * 256 + threadIdx.x;\n"
                               "  s[threadIdx.x & 31] = a[i & 7];\n"
                               "  __syncthreads();\n"
                               "  if (i < n) c[i] = a[i] + b[i] + s[(threadIdx.x + 1) & 31];\n"
                               "}\n";

static GpuImage *compile(Fixture *f, const char *text, const char *arch) {
  GpuCompile job = {.name = "test.cu", .text = text, .arch = arch};
  GpuImage *image = NULL;
  Str why = str_new(f->a);
  Status st = gpu_compile(f->rt, &job, f->a, &image, &why);
  ck_assert_msg(st == ST_OK, "%s", str_text(&why));
  return image;
}

START_TEST(compiles_for_each_architecture) {
  static const char *const archs[] = {"sm_80", "sm_86", "sm_89", "sm_90a"};
  Fixture f = setup();
  if (no_nvrtc(&f))
    return;
  for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
    GpuImage *m = compile(&f, add_text, archs[i]);
    const GpuFacts *k = gpu_image_kernel(m, "add");
    ck_assert(m->gate && !m->gate_why && !m->cached && m->nkernels == 1 && m->nwarnings == 0);
    ck_assert_ptr_nonnull(k);
    ck_assert_ptr_null(gpu_image_kernel(m, "ad"));
    ck_assert_uint_eq(k->local_bytes, 0);
    ck_assert_uint_eq(k->max_threads, 256);
    ck_assert_uint_eq(k->param_bytes, 28);
    ck_assert_uint_ge(k->shared_bytes, 128);
    ck_assert_uint_le(k->shared_bytes, 128 + 1024); /* sm_90 counts the reserved KiB */
    ck_assert(k->registers >= 8 && k->registers <= 40);
    ck_assert_uint_gt(gpu_image_count(m, "add", 0x984), 0); /* LDS */
    ck_assert_uint_eq(gpu_image_count(m, "add", 0x983), 0); /* LDL */
    ck_assert(compile(&f, add_text, archs[i])->cached);
  }
  teardown(&f);
}
END_TEST

START_TEST(gate_refuses_local_memory) {
  static const char stack[] = /* indexed at run time: local memory, and "0 bytes spill" */
      "extern \"C\" __global__ void stack(float *a, int n) {\n"
      "  float x[64];\n"
      "  for (int i = 0; i < 64; i++) x[i] = a[i];\n"
      "  for (int i = 0; i < n; i++) x[(int)a[i] & 63] += a[i];\n"
      "  for (int i = 0; i < 64; i++) a[i] = x[i];\n"
      "}\n";
  static const char spill[] = /* 200 live values and 64 registers */
      "extern \"C\" __global__ void __launch_bounds__(1024, 1) spill(float *a, int n) {\n"
      "  float x[200];\n"
      "#pragma unroll\n"
      "  for (int i = 0; i < 200; i++) x[i] = a[i * 1024 + threadIdx.x];\n"
      "  __syncthreads();\n"
      "#pragma unroll 1\n"
      "  for (int j = 0; j < n; j++) {\n"
      "#pragma unroll\n"
      "    for (int i = 0; i < 200; i++) x[i] = x[i] * x[(i + 7) % 200] + 1.0f;\n"
      "  }\n"
      "#pragma unroll\n"
      "  for (int i = 0; i < 200; i++) a[i * 1024 + threadIdx.x] = x[i];\n"
      "}\n";
  Fixture f = setup();
  if (no_nvrtc(&f))
    return;
  GpuImage *m = compile(&f, stack, "sm_90a");
  ck_assert(!m->gate);
  ck_assert_uint_eq(m->kernels[0].local_bytes, 256);
  ck_assert_str_eq(m->gate_why, "kernel `stack` needs 256 bytes of local memory a thread");
  m = compile(&f, spill, "sm_90a");
  ck_assert(!m->gate);
  ck_assert_uint_gt(m->kernels[0].local_bytes, 100);
  ck_assert_uint_gt(gpu_image_count(m, "spill", 0x983), 0);
  ck_assert(!compile(&f, spill, "sm_90a")->gate); /* from the cache too */
  teardown(&f);
}
END_TEST

#define WGMMA_HEAD                                                                                 \
  "extern \"C\" __device__ int printf(const char *, ...);\n"                                       \
  "extern \"C\" __global__ void __launch_bounds__(128, 1)\n"                                       \
  "w(float *o, unsigned long long da, unsigned long long db) {\n"                                  \
  "  float d[4] = {0, 0, 0, 0};\n"                                                                 \
  "  asm volatile(\"wgmma.fence.sync.aligned;\");\n"                                               \
  "  for (int i = 0; i < 4; i++)\n"                                                                \
  "    asm volatile(\"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, \"\n"  \
  "                 \"%4, %5, 1, 1, 1, 0, 0;\"\n"                                                  \
  "                 : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3])\n"                    \
  "                 : \"l\"(da + 2 * i), \"l\"(db));\n"                                            \
  "  asm volatile(\"wgmma.commit_group.sync.aligned;\");\n"                                        \
  "  asm volatile(\"wgmma.wait_group.sync.aligned 0;\");\n"
#define WGMMA_TAIL "  for (int i = 0; i < 4; i++) o[threadIdx.x * 4 + i] = d[i];\n}\n"

START_TEST(gate_refuses_serialised_products) {
  Fixture f = setup();
  if (no_nvrtc(&f))
    return;
  GpuImage *m = compile(&f, WGMMA_HEAD WGMMA_TAIL, "sm_90a");
  ck_assert(m->gate);
  ck_assert_uint_eq(gpu_image_count(m, "w", 0x9f0), 4); /* HGMMA */
  m = compile(&f, WGMMA_HEAD "  printf(\"%f\\n\", d[0]);\n" WGMMA_TAIL, "sm_90a");
  ck_assert(!m->gate);
  bool found = false;
  for (int i = 0; i < m->nwarnings; i++)
    found = found || (m->warnings[i].code == 7510 && m->warnings[i].refused);
  ck_assert(found);
  teardown(&f);
}
END_TEST

/* The codes, without waiting for ptxas to think of them. */
START_TEST(gate_knows_the_codes) {
  static const struct {
    int code;
    bool refused;
  } rows[] = {{7503, false}, {7504, true},  {7505, false}, {7508, true},
              {7509, true},  {7510, true},  {7511, true},  {7512, true},
              {7513, true},  {7514, true},  {7515, true},  {7516, false},
              {7517, false}, {7519, false}, {7520, true},  {7602, true}};
  Fixture f = setup();
  if (no_nvrtc(&f))
    return;
  GpuImage *m = compile(&f, add_text, "sm_90a");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char log[128];
    GpuImage again = {0};
    const char *why = NULL;
    snprintf(log, sizeof log, "ptxas info    : (C%d) something in the function 'add'\n",
             rows[i].code);
    ck_assert(gpu_image_read(m->cubin, m->cubin_n, log, f.a, &again, &why));
    ck_assert_int_eq(again.nwarnings, 1);
    ck_assert_int_eq(again.warnings[0].code, rows[i].code);
    ck_assert(again.gate == !rows[i].refused && again.warnings[0].refused == rows[i].refused);
  }
  teardown(&f);
}
END_TEST

START_TEST(errors_carry_the_log) {
  Fixture f = setup();
  if (no_nvrtc(&f))
    return;
  GpuImage *image = NULL;
  Str why = str_new(f.a);
  GpuCompile job = {.name = "bad.cu", .text = "void f() { foo( }", .arch = "sm_80"};
  ck_assert_int_eq(gpu_compile(f.rt, &job, f.a, &image, &why), ST_COMPILE);
  ck_assert_ptr_nonnull(strstr(str_text(&why), "bad.cu(1)"));
  str_clear(&why);
  job = (GpuCompile){.name = "w.cu", .text = WGMMA_HEAD WGMMA_TAIL, .arch = "sm_90"};
  ck_assert_int_eq(gpu_compile(f.rt, &job, f.a, &image, &why), ST_COMPILE);
  ck_assert_ptr_nonnull(strstr(str_text(&why), "wgmma"));
  str_clear(&why);
  job = (GpuCompile){.name = "a.cu", .text = add_text, .arch = "sm_42"};
  ck_assert_int_eq(gpu_compile(f.rt, &job, f.a, &image, &why), ST_DEVICE);
  ck_assert_ptr_nonnull(strstr(str_text(&why), "sm_42"));
  str_clear(&why);
  job = (GpuCompile){.name = "e.cu", .text = "int nothing;", .arch = "sm_80"};
  ck_assert_int_eq(gpu_compile(f.rt, &job, f.a, &image, &why), ST_COMPILE);
  ck_assert_uint_eq(gpu_cache_info(f.rt).entries, 0); /* failures are not kept */
  teardown(&f);
}
END_TEST

START_TEST(key_covers_everything) {
  Fixture f = setup();
  if (no_nvrtc(&f))
    return;
  static const char *const fast[] = {"--use_fast_math"};
  GpuCompile jobs[] = {
      {.name = "a.cu", .text = add_text, .arch = "sm_80"},
      {.name = "b.cu", .text = add_text, .arch = "sm_80"},
      {.name = "a.cu", .text = add_text, .arch = "sm_90a"},
      {.name = "a.cu", .text = add_text, .arch = "sm_80", .lineinfo = true},
      {.name = "a.cu", .text = add_text, .arch = "sm_80", .want_ptx = true},
      {.name = "a.cu", .text = add_text, .arch = "sm_80", .options = fast, .noptions = 1},
  };
  for (int round = 0; round < 2; round++)
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
      GpuImage *m;
      ck_assert_int_eq(gpu_compile(f.rt, &jobs[i], f.a, &m, NULL), ST_OK);
      ck_assert(m->cached == (round == 1));
      ck_assert((m->ptx != NULL) == jobs[i].want_ptx);
      if (m->ptx)
        ck_assert_ptr_nonnull(strstr(m->ptx, ".entry add"));
    }
  teardown(&f);
}
END_TEST

/* What a process of its own found, in which nothing was opened before. */
typedef struct Asked {
  Status status;
  bool opened; /* NVRTC, for the key of a job */
  GpuKey key;
  char path[256]; /* of NVRTC where it was opened */
} Asked;

static void ask(const GpuConfig *cfg, Asked *out) {
  GpuCompile job = {.name = "a.cu", .text = add_text, .arch = "sm_80"};
  GpuRt *rt = gpu_rt_new(cfg);
  Dl_info info;
  void *inside;
  out->status = gpu_compile_key(rt, &job, &out->key, NULL);
  out->opened = rt->nvrtc.lib.tried;
  memcpy(&inside, &rt->nvrtc.version, sizeof inside);
  if (inside && dladdr(inside, &info))
    snprintf(out->path, sizeof out->path, "%s", info.dli_fname);
  gpu_rt_free(rt);
}

static Asked key_in(const GpuConfig *cfg) {
  Asked asked = {0};
  int ends[2], status;
  ck_assert_int_eq(pipe(ends), 0);
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) {
    ask(cfg, &asked);
    _exit(write(ends[1], &asked, sizeof asked) == (ssize_t)sizeof asked ? 0 : 1);
  }
  close(ends[1]);
  ck_assert_int_eq(read(ends[0], &asked, sizeof asked), (ssize_t)sizeof asked);
  close(ends[0]);
  ck_assert(waitpid(child, &status, 0) == child && status == 0);
  return asked;
}

/* Links to a link to the library, as libnvrtc.so.13 and .12 in a folder of their own. */
static void link_nvrtc(const Fixture *f, const char *library, char folder[128], char real[128]) {
  snprintf(folder, 128, "%s/libraries", f->dir);
  snprintf(real, 128, "%s/real", f->dir);
  ck_assert_int_eq(mkdir(folder, 0700), 0);
  ck_assert_int_eq(symlink(library, real), 0);
  for (int i = 0; i < 2; i++) {
    char name[192];
    snprintf(name, sizeof name, "%s/libnvrtc.so.%d", folder, 13 - i);
    ck_assert_int_eq(symlink(real, name), 0);
  }
}

static void make_empty(const char *path) {
  int fd = open(path, O_CREAT | O_WRONLY, 0600);
  ck_assert_int_ge(fd, 0);
  ck_assert_int_eq(close(fd), 0);
}

/* The version is part of the key: it is known of a library that was opened before, and asked for
 * anew where anything has changed. */
START_TEST(version_without_opening) {
  Fixture f = setup();
  char folder[128], real[128], name[192];
  Asked first = key_in(&(GpuConfig){.no_cache = true}), next;
  if (first.status != ST_OK) { /* no NVRTC */
    teardown(&f);
    return;
  }
  link_nvrtc(&f, first.path, folder, real);
  GpuConfig cfg = {.cache_dir = f.dir, .library_path = folder};
  first = key_in(&cfg);
  ck_assert(first.status == ST_OK && first.opened);
  for (int i = 0; i < 2; i++) {
    next = key_in(&cfg);
    ck_assert(next.status == ST_OK && !next.opened);
    ck_assert_mem_eq(&next.key, &first.key, sizeof next.key);
  }
  snprintf(name, sizeof name, "%s/new", folder); /* something came into the folder */
  make_empty(name);
  next = key_in(&cfg);
  ck_assert(next.status == ST_OK && next.opened);
  ck_assert_mem_eq(&next.key, &first.key, sizeof next.key);
  ck_assert(!key_in(&cfg).opened);
  cfg.no_cache = true;
  ck_assert(key_in(&cfg).opened);
  cfg.no_cache = false;
  ck_assert_int_eq(unlink(real), 0); /* another library in its place, which is none */
  make_empty(real);
  next = key_in(&cfg);
  ck_assert(next.status == ST_DEVICE && next.opened);
  teardown(&f);
}
END_TEST

/* Where the loader would look in folders that are not named plainly, it is asked every time. */
START_TEST(version_is_asked_for_where_places_are_odd) {
  static const char *const odd[] = {"/nowhere;/nothing", ":/nowhere", "/nowhere:", "/a::/b",
                                    "$ORIGIN"};
  Fixture f = setup();
  GpuConfig cfg = {.cache_dir = f.dir};
  bool there = key_in(&cfg).status == ST_OK;
  for (size_t i = 0; i < sizeof odd / sizeof *odd && there; i++) {
    setenv("LD_LIBRARY_PATH", odd[i], 1);
    for (int again = 0; again < 2; again++)
      ck_assert(key_in(&cfg).opened);
  }
  unsetenv("LD_LIBRARY_PATH");
  teardown(&f);
}
END_TEST

/* The driver that was there the last time decides while it starts. */
START_TEST(an_older_driver_wants_an_older_compiler) {
  static const int drivers[] = {12040, 13000};
  Fixture f = setup();
  char folder[128], real[128], name[64];
  Asked there = key_in(&(GpuConfig){.no_cache = true});
  if (there.status == ST_OK) {
    link_nvrtc(&f, there.path, folder, real);
    for (int i = 0; i < 2; i++) {
      GpuConfig cfg = {.cache_dir = f.dir, .library_path = folder};
      GpuProps props = {.arch = "sm_90a", .sms = 132};
      GpuGuess guess;
      GpuRt *rt = gpu_rt_new(&cfg);
      rt->driver_version = drivers[i];
      gpu_guess_keep(rt, &props);
      gpu_rt_free(rt);
      rt = gpu_rt_new(&cfg);
      ck_assert(gpu_guess(rt, 0, f.a, &guess));
      ck_assert(guess.sms == 132 && guess.driver == drivers[i]);
      snprintf(name, sizeof name, "libnvrtc.so.%d", drivers[i] / 1000);
      ck_assert_ptr_nonnull(gpu_nvrtc(rt, NULL));
      ck_assert_ptr_nonnull(strstr(rt->nvrtc.lib.path, name));
      gpu_rt_free(rt);
    }
  }
  teardown(&f);
}
END_TEST

static bool asked; /* to stop */
static bool stop_asked(void *ctx) {
  (void)ctx;
  return asked;
}

START_TEST(compiling_is_interrupted) {
  Fixture f = open_with((GpuConfig){.interrupted = stop_asked});
  if (no_nvrtc(&f))
    return;
  GpuCompile job = {.name = "a.cu", .text = add_text, .arch = "sm_80"};
  GpuImage *m;
  bool can = strtol(gpu_nvrtc_version(f.rt, NULL), NULL, 10) >= 13; /* older ones may */
  asked = true;
  Status status = gpu_compile(f.rt, &job, f.a, &m, NULL);
  ck_assert(status == ST_INTERRUPTED || (!can && status == ST_OK));
  ck_assert_uint_eq(gpu_cache_info(f.rt).entries, status == ST_OK);
  asked = false;
  ck_assert_int_eq(gpu_compile(f.rt, &job, f.a, &m, NULL), ST_OK);
  ck_assert(m->gate);
  teardown(&f);
}
END_TEST

/* ---- compiling beside ---------------------------------------------------------------------- */

#define KERNEL(body) "extern \"C\" __global__ void k(float *p) { " body " }"

static GpuCompile job_for(const char *text) {
  return (GpuCompile){.name = "k.cu", .text = text, .arch = "sm_90a"};
}

/* Compilers wait here: a test sees them all at work. */
static atomic_bool gate_shut;
static bool wait_at_gate(void *ctx) {
  (void)ctx;
  while (atomic_load(&gate_shut))
    usleep(1000);
  return false;
}

/* The same bits as without a helper, in the cache as well, and never compiled twice. */
START_TEST(begun_beside_and_taken) {
  Fixture f = open_with((GpuConfig){.compilers = 2}), g = setup();
  if (no_nvrtc(&f)) {
    teardown(&g);
    return;
  }
  GpuCompile job = job_for(add_text);
  GpuImage *beside, *plain;
  ck_assert_int_eq(gpu_compile_start(g.rt, &job), GPU_START_NONE); /* it was not given any */
  ck_assert_int_eq(gpu_compile_start(f.rt, &job), GPU_START_BEGUN);
  ck_assert_int_eq(gpu_compile_start(f.rt, &job), GPU_START_BEGUN);
  ck_assert_int_eq(gpu_compile(f.rt, &job, f.a, &beside, NULL), ST_OK);
  ck_assert_int_eq(gpu_compile(g.rt, &job, g.a, &plain, NULL), ST_OK);
  ck_assert(!beside->cached && beside->gate);
  ck_assert_uint_eq(beside->cubin_n, plain->cubin_n);
  ck_assert(memcmp(beside->cubin, plain->cubin, plain->cubin_n) == 0);
  ck_assert_ptr_null(f.rt->ahead);
  ck_assert_int_eq(gpu_compile_start(f.rt, &job), GPU_START_CACHED);
  ck_assert_int_eq(gpu_compile(f.rt, &job, f.a, &beside, NULL), ST_OK);
  ck_assert(beside->cached);
  ck_assert_uint_eq(gpu_cache_info(f.rt).entries, 1);
  teardown(&g);
  teardown(&f);
}
END_TEST

/* No more at a time than were given; the next one when there is room. */
START_TEST(as_many_beside_as_may) {
  static const char *const text[] = {KERNEL("p[0] = 1;"), KERNEL("p[0] = 2;"), KERNEL("p[0] = 3;")};
  Fixture f = open_with((GpuConfig){.compilers = 2, .interrupted = wait_at_gate});
  if (no_nvrtc(&f))
    return;
  GpuCompile job[] = {job_for(text[0]), job_for(text[1]), job_for(text[2])};
  GpuImage *m;
  if (!gpu_nvrtc(f.rt, NULL)->set_flow) {
    teardown(&f);
    return;
  }
  atomic_store(&gate_shut, true);
  ck_assert_int_eq(gpu_compile_start(f.rt, &job[0]), GPU_START_BEGUN);
  ck_assert_int_eq(gpu_compile_start(f.rt, &job[1]), GPU_START_BEGUN);
  ck_assert_int_eq(gpu_compile_start(f.rt, &job[2]), GPU_START_NONE);
  ck_assert_int_eq(gpu_compile_start(f.rt, &job[1]), GPU_START_BEGUN);
  atomic_store(&gate_shut, false);
  ck_assert_int_eq(gpu_compile(f.rt, &job[0], f.a, &m, NULL), ST_OK);
  ck_assert_int_eq(gpu_compile_start(f.rt, &job[2]), GPU_START_BEGUN);
  for (int i = 1; i < 3; i++)
    ck_assert_int_eq(gpu_compile(f.rt, &job[i], f.a, &m, NULL), ST_OK);
  teardown(&f);
}
END_TEST

/* What failed beside fails where it is wanted, with its message; what nobody wants ends with rt. */
START_TEST(failures_beside_are_told_later) {
  Fixture f = open_with((GpuConfig){.compilers = 3});
  if (no_nvrtc(&f))
    return;
  GpuCompile wrong = job_for(KERNEL("p[0] = nothing;")), other = job_for(add_text);
  GpuImage *m;
  Str why = str_new(f.a);
  ck_assert_int_eq(gpu_compile_start(f.rt, &wrong), GPU_START_BEGUN);
  ck_assert_int_eq(gpu_compile_start(f.rt, &other), GPU_START_BEGUN);
  ck_assert_int_eq(gpu_compile(f.rt, &wrong, f.a, &m, &why), ST_COMPILE);
  ck_assert_ptr_nonnull(strstr(str_text(&why), "nothing"));
  teardown(&f);
}
END_TEST

static bool refused; /* set before the thread begins */
static bool stop_refused(void *ctx) {
  (void)ctx;
  return refused;
}

/* Ctrl-C ends those beside too; asked again, it is compiled. */
START_TEST(compiling_beside_is_interrupted) {
  Fixture f = open_with((GpuConfig){.compilers = 2, .interrupted = stop_refused});
  if (no_nvrtc(&f))
    return;
  GpuCompile job = job_for(add_text);
  GpuImage *m;
  bool can = gpu_nvrtc(f.rt, NULL)->set_flow != NULL;
  refused = true;
  ck_assert_int_eq(gpu_compile_start(f.rt, &job), GPU_START_BEGUN);
  Status status = gpu_compile(f.rt, &job, f.a, &m, NULL);
  ck_assert(status == ST_INTERRUPTED || (!can && status == ST_OK));
  refused = false;
  ck_assert_int_eq(gpu_compile(f.rt, &job, f.a, &m, NULL), ST_OK);
  ck_assert(m->gate);
  teardown(&f);
}
END_TEST

/* Products are not contracted into fma unless the text says so: one FMUL, one FADD. */
START_TEST(contraction_is_off) {
  Fixture f = setup();
  if (no_nvrtc(&f))
    return;
  GpuImage *m = compile(
      &f, "extern \"C\" __global__ void k(float *p) { p[0] = p[1] * p[2] + p[3]; }", "sm_90a");
  ck_assert_uint_eq(gpu_image_count(m, "k", 0x223), 0); /* FFMA */
  ck_assert_uint_eq(gpu_image_count(m, "k", 0x220), 1); /* FMUL */
  teardown(&f);
}
END_TEST

/* Any prefix and any flipped byte of a cubin is read without harm. */
START_TEST(damaged_cubins_are_read_safely) {
  Fixture f = setup();
  if (no_nvrtc(&f))
    return;
  GpuImage *m = compile(&f, add_text, "sm_90a");
  Arena *a = arena_new(NULL, "scratch");
  const char *why = NULL;
  for (size_t n = 0; n < m->cubin_n; n += n < 200 ? 1 : 37) {
    unsigned char *copy = malloc(n ? n : 1); /* exact, so that a sanitizer sees a step too far */
    GpuImage image = {0};
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, m->cubin, n);
    (void)gpu_image_read(copy, n, "", a, &image, &why);
    free(copy);
    arena_reset(a);
  }
  for (size_t i = 0; i < m->cubin_n; i += 3) {
    unsigned char *copy = malloc(m->cubin_n);
    GpuImage image = {0};
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, m->cubin, m->cubin_n);
    copy[i] ^= (unsigned char)(1u << (i % 8) | 0x80);
    if (gpu_image_read(copy, m->cubin_n, "", a, &image, &why))
      (void)gpu_image_count(&image, image.kernels[0].name, 0x9f0);
    free(copy);
    arena_reset(a);
  }
  arena_free(a);
  teardown(&f);
}
END_TEST

/* ---- tensor maps --------------------------------------------------------------------------- */

static const GpuTmap good_map = {.dtype = DT_BF16,
                                 .rank = 2,
                                 .base = 0x1000,
                                 .extent = {4096, 100},
                                 .stride = {0, 8192},
                                 .box = {64, 128},
                                 .swizzle = 128};

static void check_refused(Fixture *f, GpuTmap t, const char *words) {
  Str why = str_new(f->a);
  ck_assert(!gpu_tmap_check(&t, &why));
  ck_assert_msg(strstr(str_text(&why), words) != NULL, "%s", str_text(&why));
}

START_TEST(tensor_map_rules) {
  Fixture f = setup();
  GpuTmap t = good_map;
  ck_assert(gpu_tmap_check(&t, NULL));
  t.rank = 6, check_refused(&f, t, "rank"), t = good_map;
  t.rank = 0, check_refused(&f, t, "rank"), t = good_map;
  t.base = 0x1008, check_refused(&f, t, "address"), t = good_map;
  t.base = 0, check_refused(&f, t, "address"), t = good_map;
  t.extent[1] = 0, t.base = 0;
  ck_assert(gpu_tmap_check(&t, NULL));
  t = good_map;
  t.extent[0] = ((uint64_t)1 << 32) + 1, check_refused(&f, t, "extent"), t = good_map;
  t.stride[1] = 8200, check_refused(&f, t, "stride"), t = good_map;
  t.stride[1] = (uint64_t)1 << 40, check_refused(&f, t, "stride"), t = good_map;
  t.box[1] = 257, check_refused(&f, t, "box"), t = good_map;
  t.box[0] = 60, check_refused(&f, t, "16 bytes"), t = good_map;
  t.box[0] = 128, check_refused(&f, t, "swizzle"), t = good_map;
  t.swizzle = 100, check_refused(&f, t, "swizzle"), t = good_map;
  t.step[1] = 9, check_refused(&f, t, "stride"), t = good_map;
  t.dtype = DT_BOOL, check_refused(&f, t, "dtype"), t = good_map;
  t.swizzle = 0, t.box[0] = 128;
  ck_assert(gpu_tmap_check(&t, NULL));
  teardown(&f);
}
END_TEST

int main(void) {
  Suite *s = suite_create("gpu");
  TCase *c = tcase_create("gpu");
  tcase_set_timeout(c, 120);
  tcase_add_test(c, digest_of_the_standard);
  tcase_add_test(c, cache_gives_back_what_it_was_given);
  tcase_add_test(c, cache_ignores_damage);
  tcase_add_test(c, cache_ignores_misplaced_entries);
  tcase_add_test(c, cache_without_a_place);
  tcase_add_test(c, cache_others_can_write_to_is_not_used);
  tcase_add_test(c, cache_read_only);
  tcase_add_test(c, cache_on_a_full_disk);
  tcase_add_test(c, cache_is_bounded_and_drops_the_oldest);
  tcase_add_test(c, cache_with_several_processes);
  tcase_add_test(c, missing_libraries_are_named);
  tcase_add_test(c, a_broken_library_is_named);
  tcase_add_test(c, environment_gives_places);
  tcase_add_test(c, compiles_for_each_architecture);
  tcase_add_test(c, gate_refuses_local_memory);
  tcase_add_test(c, gate_refuses_serialised_products);
  tcase_add_test(c, gate_knows_the_codes);
  tcase_add_test(c, errors_carry_the_log);
  tcase_add_test(c, key_covers_everything);
  tcase_add_test(c, version_without_opening);
  tcase_add_test(c, version_is_asked_for_where_places_are_odd);
  tcase_add_test(c, an_older_driver_wants_an_older_compiler);
  tcase_add_test(c, compiling_is_interrupted);
  tcase_add_test(c, begun_beside_and_taken);
  tcase_add_test(c, as_many_beside_as_may);
  tcase_add_test(c, failures_beside_are_told_later);
  tcase_add_test(c, compiling_beside_is_interrupted);
  tcase_add_test(c, contraction_is_off);
  tcase_add_test(c, damaged_cubins_are_read_safely);
  tcase_add_test(c, tensor_map_rules);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
