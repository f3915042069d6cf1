/* check_gpu_fake.c: the device half of src/gpu over a driver without a GPU (fake_cuda.c): copies,
 * out of memory, launches, a lost device, stopping, tensor maps, and that closing leaves nothing
 * behind. */
#include <check.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/private.h"

typedef struct Fixture {
  Arena *a;
  GpuRt *rt;
  Gpu *g;
  int polls, interrupt_at;
  int (*alive)(void), (*launches)(void);
  long (*calls)(void);
} Fixture;

static bool interrupted(void *ctx) {
  Fixture *f = ctx;
  return f->interrupt_at > 0 && ++f->polls >= f->interrupt_at;
}

static void find(Fixture *f, const char *name, void *fn) {
  void *lib = dlopen("./libcuda.so.1", RTLD_NOW);
  ck_assert_msg(lib != NULL, "%s", dlerror());
  void *p = dlsym(lib, name);
  ck_assert_ptr_nonnull(p);
  memcpy(fn, &p, sizeof p);
  (void)f;
}

static void setup(Fixture *f) {
  *f = (Fixture){.a = arena_new(NULL, "test")};
  GpuConfig cfg = {.no_cache = true, .library_path = ".", .interrupted = interrupted, .ctx = f};
  f->rt = gpu_rt_new(&cfg);
  Str why = str_new(f->a);
  gpu_start_async(f->rt, 0);
  Status st = gpu_open(f->rt, 0, &f->g, &why);
  ck_assert_msg(st == ST_OK, "%s", str_text(&why));
  find(f, "fake_cuda_alive", &f->alive);
  find(f, "fake_cuda_launches", &f->launches);
  find(f, "fake_cuda_calls", &f->calls);
}

static void teardown(Fixture *f, int left) {
  gpu_close(f->g);
  gpu_rt_free(f->rt);
  ck_assert_int_eq(f->alive(), left);
  arena_free(f->a);
}

static void ok(Fixture *f, Status st) {
  ck_assert_msg(st == ST_OK, "%s", gpu_why(f->g));
}

static GpuKernel *load(Fixture *f, const char *name) {
  GpuImage image = {.name = "test.cu", .arch = "sm_90a", .cubin = "\177ELF", .cubin_n = 4};
  GpuModule *m;
  GpuKernel *k, *again;
  ok(f, gpu_module_load(f->g, &image, &m));
  ok(f, gpu_module_kernel(f->g, m, name, &k));
  ok(f, gpu_module_kernel(f->g, m, name, &again));
  ck_assert_ptr_eq(k, again);
  return k;
}

START_TEST(opening_and_closing_leave_nothing) {
  Fixture f;
  setup(&f);
  ck_assert_str_eq(gpu_props(f.g)->name, "Fake 0");
  ck_assert_str_eq(gpu_props(f.g)->arch, "sm_90a");
  ck_assert_int_eq(gpu_count(f.rt, NULL), 1);
  teardown(&f, 0);
}
END_TEST

START_TEST(copies_of_all_sizes) {
  static const size_t sizes[] = {0, 1, 65535, 65536, 65537, 4194304, 4194305, 9000001};
  Fixture f;
  setup(&f);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    size_t n = sizes[i];
    unsigned char *x = calloc(n + 1, 1), *y = calloc(n + 1, 1);
    GpuPtr p, q;
    for (size_t k = 0; k < n; k++)
      x[k] = (unsigned char)(k * 7 + k / 251);
    ok(&f, gpu_alloc(f.g, n, "x", &p));
    ok(&f, gpu_alloc(f.g, n, "y", &q));
    ok(&f, gpu_upload(f.g, p, x, n));
    ok(&f, gpu_copy(f.g, q, p, n));
    ok(&f, gpu_download(f.g, y, q, n));
    ck_assert_mem_eq(x, y, n + 1);
    ok(&f, gpu_free(f.g, p, n));
    ok(&f, gpu_free(f.g, q, n));
    free(x);
    free(y);
  }
  teardown(&f, 0);
}
END_TEST

START_TEST(copies_of_rows) {
  unsigned char x[60], y[60] = {0};
  Fixture f;
  setup(&f);
  GpuPtr p, q;
  for (size_t i = 0; i < sizeof x; i++)
    x[i] = (unsigned char)(i + 1);
  ok(&f, gpu_alloc(f.g, sizeof x, "x", &p));
  ok(&f, gpu_alloc(f.g, sizeof y, "y", &q));
  ok(&f, gpu_upload(f.g, p, x, sizeof x));
  ok(&f, gpu_upload(f.g, q, y, sizeof y));
  ok(&f, gpu_copy_rows(f.g, (GpuRows){q, 16}, (GpuRows){p + 1, 7}, 6, 3));
  ok(&f, gpu_copy_rows(f.g, (GpuRows){q, 16}, (GpuRows){p, 7}, 0, 3));
  ok(&f, gpu_download(f.g, y, q, sizeof y));
  for (size_t i = 0; i < sizeof y; i++)
    ck_assert_int_eq(y[i], i % 16 < 6 && i < 48 ? x[1 + i / 16 * 7 + i % 16] : 0);
  ok(&f, gpu_free(f.g, p, sizeof x));
  ok(&f, gpu_free(f.g, q, sizeof y));
  teardown(&f, 0);
}
END_TEST

START_TEST(out_of_memory_names_the_tensor) {
  setenv("FAKE_CUDA_MEMORY", "1000000", 1);
  Fixture f;
  setup(&f);
  GpuPtr p, q;
  ck_assert_int_eq(gpu_alloc(f.g, 2000000, "`a`", &p), ST_NOMEM);
  ok(&f, gpu_alloc(f.g, 600000, "`a`", &p));
  ck_assert_int_eq(gpu_alloc(f.g, 600000, "`b`", &q), ST_NOMEM);
  ck_assert_ptr_nonnull(strstr(gpu_why(f.g), "`b` needs 586 KiB"));
  ok(&f, gpu_free(f.g, p, 600000));
  ok(&f, gpu_alloc(f.g, 600000, "`b`", &q));
  ok(&f, gpu_free(f.g, q, 600000));
  teardown(&f, 0);
}
END_TEST

/* The driver is asked for the first of a size only; what is still in use is never handed out. */
START_TEST(small_memory_is_used_again) {
  Fixture f;
  setup(&f);
  GpuPtr p, q, r;
  ok(&f, gpu_alloc(f.g, 4096, "x", &p));
  ok(&f, gpu_alloc(f.g, 4000, "y", &q));
  ck_assert_uint_ne(p, q);
  ok(&f, gpu_free(f.g, p, 4096));
  long before = f.calls();
  ok(&f, gpu_alloc(f.g, 4090, "z", &r));
  ck_assert_uint_eq(r, p);
  ok(&f, gpu_free(f.g, q, 4000));
  ok(&f, gpu_free(f.g, r, 4090));
  ok(&f, gpu_alloc(f.g, 3585, "a", &p));
  ok(&f, gpu_alloc(f.g, 4096, "b", &q));
  ck_assert_uint_ne(p, q);
  ck_assert_int_eq(f.calls(), before);
  ok(&f, gpu_alloc(f.g, 4096, "c", &r)); /* none is left */
  ck_assert(r != p && r != q);
  ok(&f, gpu_free(f.g, r, 4096));
  before = f.calls();
  ok(&f, gpu_alloc(f.g, 4097, "d", &r)); /* of another size */
  ck_assert_int_gt(f.calls(), before);
  ok(&f, gpu_free(f.g, r, 4097));
  ok(&f, gpu_free(f.g, p, 3585));
  ok(&f, gpu_free(f.g, q, 4096));
  teardown(&f, 0);
}
END_TEST

/* Of every size up to a megabyte, and more than is kept; what the driver has for others is all but
 * the bound. */
START_TEST(little_memory_is_kept) {
  enum { BLOCK = 1 << 20, BLOCKS = 80, KEPT = 64 };
  Fixture f;
  setup(&f);
  GpuPtr p[BLOCKS];
  size_t free_before, free_after, used_before, used_after;
  ok(&f, gpu_memory(f.g, &free_before, &used_before));
  for (int i = 0; i < BLOCKS; i++)
    ok(&f, gpu_alloc(f.g, BLOCK, "x", &p[i]));
  int alive = f.alive();
  for (int i = 0; i < BLOCKS; i++)
    ok(&f, gpu_free(f.g, p[i], BLOCK));
  ck_assert_int_eq(alive - f.alive(), BLOCKS - KEPT);
  ok(&f, gpu_memory(f.g, &free_after, &used_after));
  ck_assert_uint_eq(used_after, used_before);
  for (size_t n = 1; n < BLOCK; n = n * 5 / 3 + 1) {
    ok(&f, gpu_alloc(f.g, n, "x", &p[0]));
    ok(&f, gpu_free(f.g, p[0], n));
  }
  ck_assert_int_le(alive - f.alive(), BLOCKS);
  teardown(&f, 0);
}
END_TEST

/* Memory that is kept for one size is there for another, with a pool (0) and without. */
START_TEST(kept_memory_is_no_reason_to_be_short) {
  setenv("FAKE_CUDA_MEMORY", "1000000", 1);
  if (_i == 1)
    setenv("FAKE_CUDA_NO_POOL", "1", 1);
  Fixture f;
  setup(&f);
  GpuPtr p, q;
  ok(&f, gpu_alloc(f.g, 400000, "x", &p));
  ok(&f, gpu_alloc(f.g, 400000, "y", &q));
  ok(&f, gpu_free(f.g, p, 400000));
  ok(&f, gpu_free(f.g, q, 400000));
  ok(&f, gpu_alloc(f.g, 700000, "z", &p));
  ok(&f, gpu_free(f.g, p, 700000));
  teardown(&f, 0);
}
END_TEST

START_TEST(launches) {
  Fixture f;
  setup(&f);
  float x[4] = {1, 2, 3, 4}, y[4];
  GpuPtr p;
  int n = 4;
  ok(&f, gpu_alloc(f.g, sizeof x, "x", &p));
  ok(&f, gpu_upload(f.g, p, x, sizeof x));
  void *args[] = {&p, &p, &p, &n};
  GpuLaunch l = {.kernel = load(&f, "add"), .grid = {1, 1, 1}, .block = {4}, .args = args};
  ok(&f, gpu_launch(f.g, &l));
  l.grid[2] = 0;
  ok(&f, gpu_launch(f.g, &l));
  ck_assert_int_eq(f.launches(), 1);
  l.grid[2] = 1, l.cluster[0] = 2, l.pdl = true, l.shared = 200000;
  ok(&f, gpu_launch(f.g, &l));
  l.shared = 240000;
  ck_assert_int_eq(gpu_launch(f.g, &l), ST_DEVICE);
  ck_assert_ptr_nonnull(strstr(gpu_why(f.g), "kernel `add` needs 240000 bytes"));
  ok(&f, gpu_download(f.g, y, p, sizeof y));
  ck_assert(y[0] == 4 && y[3] == 16);
  GpuModule *m;
  GpuKernel *k;
  GpuImage bad = {.name = "bad.cu", .arch = "sm_90a", .cubin = "oops", .cubin_n = 4};
  ck_assert_int_eq(gpu_module_load(f.g, &bad, &m), ST_DEVICE);
  ck_assert_ptr_nonnull(strstr(gpu_why(f.g), "bad.cu"));
  bad.cubin = "\177ELF";
  ok(&f, gpu_module_load(f.g, &bad, &m));
  ck_assert_int_eq(gpu_module_kernel(f.g, m, "missing", &k), ST_DEVICE);
  gpu_module_unload(f.g, m);
  gpu_module_unload(f.g, m); /* not there any more: nothing */
  ok(&f, gpu_free(f.g, p, sizeof x));
  teardown(&f, 0);
}
END_TEST

static Status launch_it(void *ctx) {
  void **pair = ctx;
  return gpu_launch(pair[0], pair[1]);
}

START_TEST(timing) {
  Fixture f;
  setup(&f);
  GpuLaunch l = {.kernel = load(&f, "nothing"), .grid = {1, 1, 1}};
  void *pair[] = {f.g, &l};
  GpuTimeOptions o = {.warmup = 2, .bursts = 4, .launches = 5};
  GpuTiming t;
  ok(&f, gpu_time(f.g, &o, launch_it, pair, &t));
  ck_assert_int_eq(f.launches(), 2 + 4 * 5);
  ck_assert(t.bursts == 4 && t.median_ms > 0.39 && t.median_ms < 0.41 && t.spread == 0);
  teardown(&f, 0);
}
END_TEST

/* A launch of half a second: no burst of ten of them, and no more bursts than seconds allow. */
START_TEST(timing_of_long_launches) {
  Fixture f;
  setup(&f);
  GpuLaunch l = {.kernel = load(&f, "slow"), .grid = {1, 1, 1}};
  void *pair[] = {f.g, &l};
  GpuTiming t;
  ok(&f, gpu_time(f.g, NULL, launch_it, pair, &t));
  ck_assert_int_eq(t.bursts, 7);
  ck_assert_int_eq(f.launches(), 1 + 7);
  ck_assert(t.median_ms > 501 && t.median_ms < 503);
  teardown(&f, 0);
}
END_TEST

START_TEST(a_lost_device_refuses_everything) {
  Fixture f;
  setup(&f);
  GpuPtr p;
  ok(&f, gpu_alloc(f.g, 100, "x", &p));
  GpuLaunch l = {.kernel = load(&f, "illegal"), .grid = {1, 1, 1}};
  ok(&f, gpu_launch(f.g, &l));
  ck_assert(!gpu_lost(f.g));
  ck_assert_int_eq(gpu_sync(f.g), ST_DEVICE);
  ck_assert(gpu_lost(f.g));
  ck_assert_ptr_nonnull(strstr(gpu_why(f.g), "CUDA_ERROR_ILLEGAL_ADDRESS"));
  ck_assert_ptr_nonnull(strstr(gpu_why(f.g), "the device is lost"));
  int before = f.launches();
  uint32_t x;
  ck_assert_int_eq(gpu_launch(f.g, &l), ST_DEVICE);
  ck_assert_int_eq(gpu_alloc(f.g, 1, "x", &p), ST_DEVICE);
  ck_assert_int_eq(gpu_download(f.g, &x, p, 4), ST_DEVICE);
  ck_assert_int_eq(gpu_sync(f.g), ST_DEVICE);
  ck_assert_int_eq(f.launches(), before);
  gpu_close(f.g);
  gpu_rt_free(f.rt);
  arena_free(f.a);
}
END_TEST

START_TEST(an_endless_kernel_is_stopped) {
  Fixture f;
  setup(&f);
  GpuPtr stop = gpu_stop_word(f.g);
  void *args[] = {&stop};
  GpuLaunch l = {.kernel = load(&f, "endless"), .grid = {1, 1, 1}, .args = args};
  ok(&f, gpu_launch(f.g, &l));
  f.interrupt_at = 3;
  ck_assert_int_eq(gpu_sync(f.g), ST_INTERRUPTED);
  ck_assert_str_eq(gpu_why(f.g), "interrupted");
  f.interrupt_at = 0;
  ok(&f, gpu_sync(f.g));
  uint32_t word = 7;
  ok(&f, gpu_download(f.g, &word, stop, sizeof word));
  ck_assert_uint_eq(word, 0);
  teardown(&f, 0);
}
END_TEST

START_TEST(prints_are_taken_apart) {
  Fixture f;
  setup(&f);
  GpuPtr ring;
  ok(&f, gpu_print_ring(f.g, &ring));
  /* two lines out of order, then one cut off: {length | line, block, thread | call, values} */
  uint64_t w[] = {(uint64_t)4 << 32 | 1, 2, (uint64_t)9 << 32 | 6, 42, (uint64_t)3 << 32, 1, 5, 0};
  GpuPrintHead head = {.used = 8, .dropped = 2, .size = 1 << 17};
  ok(&f, gpu_upload(f.g, ring, &head, sizeof head));
  ok(&f, gpu_upload(f.g, ring + sizeof head, w, sizeof w));
  GpuPrintLine *line = NULL;
  size_t n = 0;
  uint32_t dropped = 0;
  ok(&f, gpu_print_take(f.g, f.a, &line, &n, &dropped));
  ck_assert(n == 2 && dropped == 2);
  ck_assert(line[0].call == 5 && line[0].block[0] == 1 && line[0].nvalues == 0);
  ck_assert(line[1].call == 6 && line[1].line == 1 && line[1].thread == 9);
  ck_assert_uint_eq(line[1].value[0], 42);
  ok(&f, gpu_print_take(f.g, f.a, &line, &n, &dropped));
  ck_assert(n == 0 && dropped == 0);
  teardown(&f, 0);
}
END_TEST

START_TEST(tensor_maps) {
  Fixture f;
  setup(&f);
  _Alignas(64) uint64_t m[16];
  GpuTmap t = {.dtype = DT_F16,
               .rank = 2,
               .base = 4096,
               .extent = {64, 8},
               .stride = {0, 128},
               .box = {64, 8},
               .swizzle = 128};
  ok(&f, gpu_tmap_encode(f.g, &t, m));
  ck_assert(m[0] == 4096 && m[1] == 64 && m[2] == 8);
  t.extent[1] = 0, t.base = 0; /* empty: one element of zeros */
  ok(&f, gpu_tmap_encode(f.g, &t, m));
  ck_assert(m[0] != 0 && m[1] == 1 && m[2] == 1);
  uint32_t word = 7;
  ok(&f, gpu_download(f.g, &word, m[0], sizeof word));
  ck_assert_uint_eq(word, 0);
  t.box[0] = 7;
  ck_assert_int_eq(gpu_tmap_encode(f.g, &t, m), ST_DEVICE);
  ck_assert_ptr_nonnull(strstr(gpu_why(f.g), "16 bytes"));
  teardown(&f, 0);
}
END_TEST

START_TEST(devices_that_are_not_there) {
  setenv("FAKE_CUDA_DEVICES", "2", 1);
  Fixture f;
  setup(&f);
  Gpu *g;
  Str why = str_new(f.a);
  ck_assert_int_eq(gpu_open(f.rt, 2, &g, &why), ST_DEVICE);
  ck_assert_str_eq(str_text(&why),
                   "there is no device cuda:2: the driver shows 2, from cuda:0 to cuda:1");
  teardown(&f, 0);
  setenv("FAKE_CUDA_DEVICES", "0", 1);
  GpuConfig cfg = {.library_path = ".", .no_cache = true};
  GpuRt *rt = gpu_rt_new(&cfg);
  Arena *a = arena_new(NULL, "test");
  why = str_new(a);
  ck_assert_int_eq(gpu_open(rt, 0, &g, &why), ST_DEVICE);
  ck_assert_ptr_nonnull(strstr(str_text(&why), "--gpus all"));
  gpu_rt_free(rt);
  setenv("FAKE_CUDA_BROKEN", "1", 1);
  rt = gpu_rt_new(&cfg);
  str_clear(&why);
  ck_assert_int_eq(gpu_open(rt, 0, &g, &why), ST_DEVICE);
  ck_assert_ptr_nonnull(strstr(str_text(&why), "does not start"));
  gpu_rt_free(rt);
  arena_free(a);
}
END_TEST

int main(void) {
  if (!gpu_built())
    return 77;
  Suite *s = suite_create("gpu, fake driver");
  TCase *c = tcase_create("gpu, fake driver");
  tcase_set_timeout(c, 60);
  tcase_add_test(c, opening_and_closing_leave_nothing);
  tcase_add_test(c, copies_of_all_sizes);
  tcase_add_test(c, out_of_memory_names_the_tensor);
  tcase_add_test(c, small_memory_is_used_again);
  tcase_add_test(c, little_memory_is_kept);
  tcase_add_loop_test(c, kept_memory_is_no_reason_to_be_short, 0, 2);
  tcase_add_test(c, copies_of_rows);
  tcase_add_test(c, launches);
  tcase_add_test(c, timing);
  tcase_add_test(c, timing_of_long_launches);
  tcase_add_test(c, a_lost_device_refuses_everything);
  tcase_add_test(c, an_endless_kernel_is_stopped);
  tcase_add_test(c, prints_are_taken_apart);
  tcase_add_test(c, tensor_maps);
  tcase_add_test(c, devices_that_are_not_there);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
