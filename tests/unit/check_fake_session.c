/* check_fake_session.c: a session on a driver without a GPU (fake_cuda.c): each function of the
 * driver fails once, at each of its calls in turn, in each of three ways; then the message is
 * clear, the session goes on, and nothing is left behind. Also residency, the pool, several
 * devices, the helper thread. Needs NVRTC for the kernels; 77, skipped, without. */
#include <check.h>
#include <dlfcn.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/private.h"
#include "session/session.h"

enum { NO_MEMORY = 2, ILLEGAL = 700, UNKNOWN = 999 }; /* the driver's numbers */

typedef struct Fake {
  int (*alive)(void), (*launches)(void);
  long (*calls)(void);
  void (*inject)(const char *name, int nth, int with);
  int (*waiting)(void);
  void (*renew)(void);
  bool (*started_elsewhere)(void);
} Fake;

static Fake fake;
static FILE *nowhere;
static char cache[] = "/tmp/tilesh-fake-XXXXXX";

static void find(void *lib, const char *name, void *fn) {
  void *p = dlsym(lib, name);
  ck_assert_ptr_nonnull(p);
  memcpy(fn, &p, sizeof p);
}

static void setup(void) {
  void *lib = dlopen("./libcuda.so.1", RTLD_NOW);
  ck_assert_msg(lib != NULL, "%s", dlerror());
  find(lib, "fake_cuda_alive", &fake.alive);
  find(lib, "fake_cuda_launches", &fake.launches);
  find(lib, "fake_cuda_calls", &fake.calls);
  find(lib, "fake_cuda_fail", &fake.inject);
  find(lib, "fake_cuda_waiting", &fake.waiting);
  find(lib, "fake_cuda_renew", &fake.renew);
  find(lib, "fake_cuda_started_elsewhere", &fake.started_elsewhere);
  nowhere = fopen("/dev/null", "w");
  ck_assert_ptr_nonnull(nowhere);
  fake.renew();
}

static void teardown(void) {
  fclose(nowhere);
}

static Session *open_threads(const char *device, int threads) {
  SessionOptions o = {.device = device, .threads = threads, .bench_bursts = 1, .out = nowhere};
  Session *s = session_new(&o);
  ck_assert_ptr_nonnull(s);
  return s;
}

static Session *open_session(const char *device) {
  return open_threads(device, 1);
}

static Status run(Session *s, const char *text) {
  return session_run_text(s, "t", text, strlen(text));
}

static const char *message(Session *s) {
  const DiagSink *d = session_diags(s);
  return d->n ? d->v[0]->text : "";
}

static void must(Session *s, const char *text) {
  Status status = run(s, text);
  ck_assert_msg(status == ST_OK, "%s", message(s));
}

/* The driver adds for `add`; what it does for other kernels is nothing. */
#define ADD                                                                                        \
  "kernel add(A: f32[N], B: f32[N]) -> (C: f32[N]) {\n"                                            \
  "  for i in parallel(N) { C[i] = A[i] + B[i] }\n"                                                \
  "}\n"
/* Copies by the tensor memory accelerator, more than 48 KiB of shared memory; a kernel that prints.
 */
#define OTHERS                                                                                     \
  "kernel mm(A: f16[M, K], B: f16[K, N]) -> (C: f32[M, N]) {\n"                                    \
  "  grid bx, by = ceildiv(N, 128), ceildiv(M, 128)\n"                                             \
  "  shared As: f16[128, 64], Bs: f16[64, 128]\n"                                                  \
  "  fragment acc: f32[128, 128] = 0\n"                                                            \
  "  for ko in pipelined(ceildiv(K, 64), 3) {\n"                                                   \
  "    copy(A[by*128, ko*64], As)\n"                                                               \
  "    copy(B[ko*64, bx*128], Bs)\n"                                                               \
  "    acc += As @ Bs\n"                                                                           \
  "  }\n"                                                                                          \
  "  copy(acc, C[by*128, bx*128])\n"                                                               \
  "}\n"                                                                                            \
  "kernel say(A: f32[N]) -> (C: f32[N]) {\n"                                                       \
  "  for i in parallel(N) { C[i] = A[i] }\n"                                                       \
  "  print(\"here\", N)\n"                                                                         \
  "}\n"

/* Everything that asks the driver for something: large and small copies both ways, several devices,
 * calls with and without outputs of their own, times, prints, tensor maps, what is empty. */
static const char everything[] = ADD OTHERS "let x = arange(f32, 4)\n"
                                            "let big = ones(f32, 20000)\n"
                                            "let none = zeros(f16, (0, 64))\n"
                                            "fn work() {\n"
                                            "  use_device(\"cuda:0\")\n"
                                            "  let a = add(x, x)\n"
                                            "  let c = add(big, big)\n"
                                            "  for i in range(3) { add(c, big, out = a2) }\n"
                                            "  assert all(a == x + x) and all(a2 == big * 3)\n"
                                            "  use_device(\"cuda:1\")\n"
                                            "  let d = add(a, c2)\n"
                                            "  assert all(d == x * 3)\n"
                                            "  use_device(\"cuda:0\")\n"
                                            "  let t = bench(add(x, x))\n"
                                            "  say(x)\n"
                                            "  mm(ones(f16, (128, 64)), ones(f16, (64, 128)))\n"
                                            "  mm(none, ones(f16, (64, 128)))\n"
                                            "}\n"
                                            "let a2 = zeros(f32, 20000)\n"
                                            "let c2 = arange(f32, 4)\n";

static const char *const functions[] = {
#define DRIVER(member, symbol, args) symbol,
#define DRIVER_LATER DRIVER
#include "gpu/driver.def"
};

typedef struct Trial {
  const char *function;
  int nth, with;
} Trial;

/* Words of the driver or of ours, never an empty message and never another error. */
static void check_message(Session *s, const Trial *t, Status status) {
  const char *text = message(s);
  bool words = strstr(text, "CUDA_ERROR_") || strstr(text, "out of memory") ||
               strstr(text, "the device") || strstr(text, "driver");
  ck_assert_msg((status == ST_DEVICE || status == ST_NOMEM) && words,
                "%s, call %d, error %d: status %d, \"%s\"", t->function, t->nth, t->with,
                (int)status, text);
}

/* One session in which that call fails; whether it came to that call. */
static bool survives(const Trial *t) {
  Session *s = open_session("cuda:0");
  fake.inject(t->function, t->nth, t->with);
  Status status = run(s, everything);
  bool defined = status == ST_OK;
  if (defined)
    status = run(s, "work()");
  bool failed = !fake.waiting();
  fake.inject(NULL, 0, 0);
  if (getenv("CHECK_FAKE_VERBOSE"))
    fprintf(stderr, "%s %d %d: %d %s\n", t->function, t->nth, t->with, (int)status, message(s));
  if (status != ST_OK)
    check_message(s, t, status);
  ck_assert_msg(failed || status == ST_OK, "%s: %s", t->function, message(s));
  (void)session_use_device(s, "cpu");
  if (!defined)
    must(s, everything);
  must(s, "assert all(add(x, x) == x + x)\nassert all(big == 1)\n");
  if (status != ST_OK && t->with != ILLEGAL && strcmp(t->function, "cuInit") != 0) {
    must(s, everything);
    must(s, "work()");
  }
  if (!failed && t->with != ILLEGAL) { /* what only closing calls */
    fake.inject(t->function, t->nth, t->with);
    session_free(s);
    failed = !fake.waiting();
    fake.inject(NULL, 0, 0);
  } else {
    session_free(s);
  }
  /* what could not be given back is left, once */
  bool frees = strstr(t->function, "CtxSetCurrent") || strstr(t->function, "Free") ||
               strstr(t->function, "Destroy") || strstr(t->function, "Unload") ||
               strstr(t->function, "Release");
  if (t->with != ILLEGAL)
    ck_assert_msg(fake.alive() <= (frees ? 1 : 0), "%s, call %d, error %d: %d left", t->function,
                  t->nth, t->with, fake.alive());
  fake.renew();
  return failed;
}

START_TEST(every_call_fails_once) {
  static const int with[] = {UNKNOWN, NO_MEMORY, ILLEGAL};
  setenv("FAKE_CUDA_MEMORY", "16000000", 1); /* bench has no room for its copy of 512 MiB */
  for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
    Trial t = {functions[f], 1, with[_i]};
    while (t.nth < 200 && survives(&t))
      t.nth++;
  }
}
END_TEST

/* ---- what is asked of the driver, and what is not
 * ------------------------------------------------ */

/* Runs the text and says whether the driver was asked for that function. */
static bool asks(Session *s, const char *function, const char *text) {
  fake.inject(function, 1 << 30, UNKNOWN);
  must(s, text);
  bool asked = fake.waiting() < 1 << 30;
  fake.inject(NULL, 0, 0);
  return asked;
}

#define ASKED(function, text) ck_assert_msg(asks(s, function, text), "%s: %s", function, text)
#define NOT_ASKED(function, text) ck_assert_msg(!asks(s, function, text), "%s: %s", function, text)

static const char upload[] = "cuMemcpyHtoDAsync_v2", download[] = "cuMemcpyDtoHAsync_v2",
                  pinned[] = "cuMemHostAlloc", query[] = "cuStreamQuery",
                  pool[] = "cuMemAllocAsync", plain[] = "cuMemAlloc_v2";

/* Data goes to the device when a kernel wants it, and back when the host does; each once. */
START_TEST(tensors_move_when_needed) {
  Session *s = open_session("cuda:0");
  must(s, ADD "let x = arange(f32, 4)\nvar z = add(x, x)\n");
  NOT_ASKED(upload, "z = add(x, x)");
  NOT_ASKED(download, "z = add(z, x)");
  ASKED(download, "assert all(z == x * 3)");
  NOT_ASKED(download, "assert all(z == x * 3)");
  NOT_ASKED(upload, "z = add(z, z)");
  must(s, "x[0] = 7.0");
  ASKED(upload, "z = add(x, x)");
  NOT_ASKED(upload, "add(x, x, out = z)");
  ASKED(download, "assert z[0] == 14 and z[3] == 6");
  session_free(s);
  ck_assert_int_eq(fake.alive(), 0);
}
END_TEST

/* Calls wait for nothing; the end of the text does. */
START_TEST(calls_are_queued) {
  Session *s = open_session("cuda:0");
  must(s, ADD "let x = arange(f32, 4)\nlet z = add(x, x)\n"
              "fn many() { for i in range(500) { add(x, x, out = z) } }\n"
              "fn fresh() { for i in range(500) { add(x, x) } }\n");
  int launches = fake.launches();
  long calls = fake.calls();
  must(s, "many()");
  ck_assert_int_eq(fake.launches() - launches, 500);
  ck_assert_int_le(fake.calls() - calls, 500 + 5);
  calls = fake.calls(); /* the memory of the call before is used again */
  must(s, "fresh()\nassert all(add(z, z) == 4 * x)");
  ck_assert_int_eq(fake.launches() - launches, 1001);
  ck_assert_int_le(fake.calls() - calls, 501 + 15);
  ASKED(query, "add(x, x, out = z)");
  session_free(s);
}
END_TEST

/* Large copies go through pinned memory, small ones do not. */
START_TEST(large_copies_are_staged) {
  Session *s = open_session("cuda:0");
  must(s, ADD
       "let small = ones(f32, 4)\nadd(small, small)\nlet x = ones(f32, 100000)\nlet y = x + 1\n");
  NOT_ASKED(pinned, "assert all(add(small, small) == 2)");
  ASKED(pinned, "let z = add(x, y)");
  NOT_ASKED(pinned, "assert all(z == 3)");
  session_free(s);
  ck_assert_int_eq(fake.alive(), 0);
}
END_TEST

START_TEST(memory_comes_from_the_pool_where_there_is_one) {
  static const char *const kinds[][2] = {{plain, pool}, {pool, plain}};
  for (int k = 0; k < 2; k++) {
    if (k == 1)
      setenv("FAKE_CUDA_NO_POOL", "1", 1);
    Session *s = open_session("cuda:0");
    must(s, ADD "let x = ones(f32, 4)\nlet y = add(x, x)\n");
    NOT_ASKED(kinds[k][0], "let z = add(x, x)\nassert all(z == 2)");
    ASKED(kinds[k][1], "let w = add(x, x)\nassert all(w == 2)");
    session_free(s);
    ck_assert_int_eq(fake.alive(), 0);
  }
}
END_TEST

/* What is short is named; memory that the pool only keeps is given back first; the session and its
 * tensors stay. */
START_TEST(out_of_memory_is_named) {
  setenv("FAKE_CUDA_MEMORY", "1000000", 1);
  Session *s = open_session("cuda:0");
  must(s, ADD "let x = ones(f32, 50000)\n");
  must(s, "let y = add(x, x)");
  Status status = run(s, "let z = add(y, y)\nlet w = add(z, y)\nlet v = add(w, z)");
  ck_assert_int_eq(status, ST_DEVICE);
  ck_assert_msg(strstr(message(s), "out of memory on cuda:0: C needs 195 KiB, ") != NULL, "%s",
                message(s));
  must(s, "assert all(y == 2) and all(w == 6)");
  session_free(s);
  s = open_session("cuda:0");
  must(s, ADD "for i in range(3) { let a = ones(f32, 50000 + i)\nassert all(add(a, a) == 2) }\n"
              "let b = ones(f32, 70000)\nassert all(add(b, b) == 2)\n");
  session_free(s);
  ck_assert_int_eq(fake.alive(), 0);
}
END_TEST

/* A product that reads rows of 901 elements through a copy reads them where they lie if there is no
 * room for that copy. */
START_TEST(packing_takes_no_memory_that_is_not_there) {
  const char *const memory[] = {"10000000", "40000000"};
  for (int i = 0; i < 2; i++) {
    setenv("FAKE_CUDA_MEMORY", memory[i], 1);
    Session *s = open_session("cuda:0");
    must(s, OTHERS "let a, b = (ones(f16, 1001, 901), ones(f16, 901, 1208))\n");
    int before = fake.launches();
    fake.inject("cuMemcpy2DAsync_v2", 1, UNKNOWN);
    Status status = run(s, "let c = mm(a, b)");
    ck_assert_msg(status == (i ? ST_DEVICE : ST_OK), "%d: %s", i, message(s));
    ck_assert_int_eq(fake.launches() - before, !i);
    session_free(s);
    fake.renew();
  }
}
END_TEST

/* Nor where what comes behind the copies has no room beside them: scratch of the same launch (a
 * tile of 1 MiB in each block), outputs of the statement's next call. */
START_TEST(packing_makes_room_for_what_follows) {
  static const char large[] = "kernel large(A: f16[M, K], B: f16[K, N]) -> (C: f32[M, N]) {\n"
                              "  grid bx, by = ceildiv(N, 128), ceildiv(M, 128)\n"
                              "  shared As: f16[128, 64], Bs: f16[64, 128]\n"
                              "  fragment acc: f32[128, 128] = 0, more: f32[1024, 256] = 1\n"
                              "  for ko in pipelined(ceildiv(K, 64), 3) {\n"
                              "    copy(A[by*128, ko*64], As)\n"
                              "    copy(B[ko*64, bx*128], Bs)\n"
                              "    acc += As @ Bs\n"
                              "  }\n"
                              "  acc += more[K % 3, K % 5]\n"
                              "  copy(acc, C[by*128, bx*128])\n"
                              "}\n";
  static const struct {
    const char *memory, *text;
    int launches;
  } cases[] = {{"94500000", "let c = large(a, b)", 1},
               {"15000000", "let c = (mm(a, b), mm(a, b))", 2}};
  for (int i = 0; i < 2; i++) {
    setenv("FAKE_CUDA_MEMORY", cases[i].memory, 1);
    Session *s = open_session("cuda:0");
    must(s, OTHERS "let a, b = (ones(f16, 1001, 901), ones(f16, 901, 1208))\n");
    must(s, large);
    int before = fake.launches();
    must(s, cases[i].text);
    ck_assert_int_eq(fake.launches() - before, cases[i].launches);
    session_free(s);
    fake.renew();
  }
}
END_TEST

/* Devices stay open, each with its context; tensors follow the kernel. */
START_TEST(several_devices) {
  Session *s = open_session("cuda:0");
  must(s, ADD "let x = arange(f32, 100)\nlet a = add(x, x)\n"
              "use_device(\"cuda:1\")\nlet b = add(a, x)\n"
              "use_device(\"cuda:0\")\nlet c = add(b, a)\n"
              "use_device(\"cuda:1\")\nadd(c, b, out = a)\n"
              "use_device(\"cpu\")\nassert all(a == x * 8) and all(c == x * 5)\n");
  session_free(s);
  ck_assert_int_eq(fake.alive(), 0);
}
END_TEST

/* Numbers count what the variable shows, and what it hides is not there. */
START_TEST(devices_that_are_visible) {
  setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  Session *s = open_session("cuda:0");
  must(s, ADD "let x = ones(f32, 4)\nassert all(add(x, x) == 2)");
  ck_assert_int_eq(run(s, "use_device(\"cuda:1\")"), ST_DEVICE);
  ck_assert_ptr_nonnull(strstr(message(s), "the driver shows 1"));
  session_free(s);
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  s = open_session("cuda:0");
  ck_assert_int_eq(run(s, "let y = 1"), ST_DEVICE);
  ck_assert_ptr_nonnull(strstr(message(s), "check CUDA_VISIBLE_DEVICES"));
  session_free(s);
  s = open_session(NULL); /* not asked for: the evaluator */
  must(s, ADD "let x = ones(f32, 4)\nassert all(add(x, x) == 2)");
  ck_assert_str_eq(session_device(s), "cpu");
  session_free(s);
}
END_TEST

/* A text with kernels starts the driver beside what is read; one without never asks for it. */
START_TEST(the_driver_starts_beside) {
  long calls = fake.calls();
  Session *s = open_session(NULL);
  must(s, "let x = ones(f32, 4)\nassert all(x + x == 2)");
  ck_assert_int_eq(fake.calls(), calls);
  must(s, ADD "assert all(add(x, x) == 2)");
  ck_assert_str_eq(session_device(s), "cuda:0");
  ck_assert(fake.started_elsewhere());
  session_free(s);
  ck_assert_int_eq(fake.alive(), 0);
}
END_TEST

/* After a fault that ends the context nothing asks the device any more, and what the host has
 * stays. */
START_TEST(a_lost_device_is_left_alone) {
  Session *s = open_session("cuda:0");
  must(s, ADD
       "kernel illegal(A: f32[N]) -> (C: f32[N]) { for i in parallel(N) { C[i] = A[i] } }\n"
       "let x = arange(f32, 4)\nlet y = add(x, x)\nassert all(y == x * 2)\nlet z = add(y, x)\n");
  ck_assert_int_eq(run(s, "illegal(x)"), ST_DEVICE);
  ck_assert_ptr_nonnull(strstr(message(s), "the device is lost"));
  long calls = fake.calls();
  ck_assert_int_eq(run(s, "add(x, x)"), ST_DEVICE);
  ck_assert_int_eq(run(s, "print(z)"), ST_DEVICE);
  ck_assert_int_eq(session_diags(s)->v[0]->code, E0420);
  must(s, "use_device(\"cpu\")\nassert all(add(x, y) == x * 3)");
  session_free(s);
  ck_assert_int_eq(fake.calls(), calls);
}
END_TEST

/* ---- the gate ------------------------------------------------------------------------------ */

/* The cubin that a call would run. */
static GpuImage image_of(Arena *a, const char *arch, const char *kernel, const char *call) {
  SessionOptions o = {.arch = arch, .threads = 1, .out = nowhere, .device = "cpu"};
  Session *s = session_new(&o);
  Str cubin = str_new(a);
  GpuImage image = {0};
  const char *why = NULL;
  must(s, kernel);
  ck_assert_int_eq(session_emit_call(s, call, strlen(call), EMIT_CUBIN, &cubin), ST_OK);
  ck_assert(gpu_image_read(str_text(&cubin), cubin.n, "", a, &image, &why));
  session_free(s);
  return image;
}

/* The first schedule of this size takes more registers than there are, the dense one before it does
 * no products: what comes out is one that the gate lets pass. */
START_TEST(refused_cubins_do_not_run) {
  Arena *a = arena_new(NULL, "test");
  GpuImage image = image_of(
      a, "sm_80",
      "kernel wide(A: f16[M, K], B: f16[K, N]) -> (C: f16[M, N]) {\n"
      "  grid bx, by = ceildiv(N, 256), ceildiv(M, 128)\n"
      "  shared As: f16[128, 64], Bs: f16[64, 256]\n"
      "  fragment acc: f32[128, 256] = 0\n"
      "  for ko in pipelined(ceildiv(K, 64), 3) {\n"
      "    copy(A[by*128, ko*64], As)\n    copy(B[ko*64, bx*256], Bs)\n    acc += As @ Bs\n  }\n"
      "  copy(acc, C[by*128, bx*256])\n"
      "}\n"
      "let a = zeros(f16, (512, 512))\n",
      "wide(a, a)");
  ck_assert_msg(image.gate, "%s", image.gate_why);
  arena_free(a);
}
END_TEST

/* 288 registers a thread spill a little, which is cheaper than plain code; 576 too much. */
#define KEEP(n)                                                                                    \
  "kernel keep(A: f32[M, N]) -> (X: f32[M, N], Y: f32[M, N], Z: f32[M, N]) {\n"                    \
  "  grid i = ceildiv(M, 128), threads = 128\n"                                                    \
  "  fragment a: f32[128, " n "], b: f32[128, " n "], c: f32[128, " n "]\n"                        \
  "  copy(A[i*128, 0], a)\n  copy(A[i*128, 1], b)\n  copy(A[i*128, 2], c)\n"                       \
  "  copy(c, X[i*128, 0])\n  copy(b, Y[i*128, 0])\n  copy(a, Z[i*128, 0])\n"                       \
  "}\n"                                                                                            \
  "let a = zeros(f32, (256, 256))\n"
START_TEST(a_little_local_memory_is_kept) {
  Arena *a = arena_new(NULL, "test");
  GpuImage little = image_of(a, "sm_80", KEEP("96"), "keep(a)"),
           much = image_of(a, "sm_80", KEEP("192"), "keep(a)");
  ck_assert(little.gate ||
            (little.kernels[0].local_bytes > 0 && little.kernels[0].local_bytes <= 1024));
  ck_assert_uint_gt(little.kernels[0].registers, 128); /* the fragments are there */
  ck_assert_msg(much.gate, "%s", much.gate_why);
  arena_free(a);
}
END_TEST

/* Two blocks of 512 threads that spill a few bytes, or one that spills none: the former, which is
 * faster on a card (bench/RESULTS.md, layernorm). */
START_TEST(more_threads_are_worth_a_few_bytes) {
  Arena *a = arena_new(NULL, "test");
  GpuImage image = image_of(a, "sm_90a",
                            "import \"" TILESH_SRCDIR "/stdlib/norm.tile\" as norm\n"
                            "let x = zeros(f32, (64, 4096))\nlet w = ones(f32, 4096)\n",
                            "norm.layernorm[B = 4096](x, w, w, 1e-5)");
  ck_assert_uint_eq(image.kernels[0].max_threads, 512);
  ck_assert_uint_le(image.kernels[0].registers, 64);
  ck_assert_uint_le(image.kernels[0].local_bytes, 64);
  arena_free(a);
}
END_TEST

/* ---- what is compiled before it is called -------------------------------------------------- */

/* A cache of the test's own. */
typedef struct Cache {
  char dir[64];
  GpuRt *rt;
} Cache;

static Cache new_cache(void) {
  Cache c;
  snprintf(c.dir, sizeof c.dir, "%s/ahead-XXXXXX", cache);
  ck_assert_ptr_nonnull(mkdtemp(c.dir));
  setenv("TILESH_CACHE_DIR", c.dir, 1);
  c.rt = gpu_rt_new(NULL);
  return c;
}

static unsigned cubins(const Cache *c) {
  return gpu_cache_info(c->rt).entries;
}

#define SCALE                                                                                      \
  "kernel scale[T = 1](A: f32[N], by: f32) -> (C: f32[N]) {\n"                                     \
  "  for i in parallel(N) { C[i] = A[i] * by + f32(T) }\n"                                         \
  "}\n"
/* What follows a call that must be compiled, and how many cubins there are then, the call's own
 * counted. */
typedef struct Following {
  const char *text;
  unsigned cubins;
} Following;

static const Following following[] = {
    {"let y = scale(a, 2.0)\n", 2},
    {"assert any(scale(a, 2.0) == x)\n", 2},
    {"let t = 3\nlet h = f16(1)\nlet y = scale[T = t + 1](ones(f32, (4,)), 2.0)\n", 2},
    {"fn f(v) {\n  let w = scale(v, 1.0)\n  return w\n}\n", 1},
    {"for i in range(3) {\n  let y = scale(a, 2.0)\n}\n", 2},
    {"bench scale(a.to(f32), 1.0)\n", 2},
    {"var u = x\nu = scale(u, 1.0)\nlet v = scale[T = 2](u, 1.0)\n", 3},
    {"let n = len(str(x))\nlet y = scale(a, n)\n", 1}, /* n is not known */
    {"let y = scale(ones(f16, 4), 1.0)\n", 1},         /* an error, at its time */
    {"use_device(\"cpu\")\nlet y = scale(a, 2.0)\n", 1},
    {"if all(x == 0) {\n  let y = scale(a, 2.0)\n}\n", 1},
};

/* The program ends before what was foreseen is called: only then is it certain who compiled it. A
 * cubin more than expected would be seen by the last look. */
START_TEST(what_follows_is_compiled_meanwhile) {
  const Following *t = &following[_i];
  char text[1024];
  Cache c = new_cache();
  Session *s = open_threads("cuda:0", 8);
  snprintf(text, sizeof text,
           ADD SCALE "let x = arange(f32, 4)\nlet a = add(x, x)\nassert false\n%s", t->text);
  ck_assert_int_eq(run(s, text), ST_FAIL);
  ck_assert_ptr_nonnull(strstr(message(s), "assertion"));
  while (cubins(&c) < t->cubins)
    usleep(1000);
  ck_assert_int_eq(fake.launches(), 1);
  session_free(s);
  ck_assert_int_eq(fake.alive(), 0);
  ck_assert_uint_eq(cubins(&c), t->cubins);
  gpu_rt_free(c.rt);
}
END_TEST

/* By what the device was the last time: here the driver does not start, and the cubins come all the
 * same. */
START_TEST(compilers_do_not_wait_for_the_driver) {
  Cache c = new_cache();
  Session *s = open_threads("cuda:0", 8);
  must(s, ADD "let x = ones(f32, 4)\nassert all(add(x, x) == 2)\n");
  session_free(s);
  ck_assert_uint_eq(cubins(&c), 1);
  s = open_threads("cuda:0", 8);
  fake.inject("cuInit", 1, UNKNOWN);
  int launches = fake.launches();
  ck_assert_int_eq(run(s, SCALE "let x = ones(f32, 4)\nlet y = scale(x, 1.0)\n"
                                "let z = scale[T = 2](y, 1.0)\n"),
                   ST_DEVICE);
  ck_assert_ptr_nonnull(strstr(message(s), "driver does not start"));
  while (cubins(&c) < 3)
    usleep(1000);
  ck_assert_int_eq(fake.launches(), launches);
  session_free(s);
  gpu_rt_free(c.rt);
}
END_TEST

/* The device is asked for the same things, and errors come where they came. */
START_TEST(what_is_foreseen_changes_nothing) {
  static const char *const tail[] = {"let d = add(c, b)\nassert all(d == x * 5)\n",
                                     "let d = add(c, 1)\n", "let d = ad(c, b)\n",
                                     "let d = add(c, ones(f32, 5))\n"};
  for (size_t i = 0; i < sizeof tail / sizeof *tail; i++) {
    char text[1024], said[2][512];
    long calls[2];
    for (int beside = 0; beside < 2; beside++) {
      Cache c = new_cache();
      Session *s = open_threads("cuda:0", beside ? 4 : 1);
      snprintf(text, sizeof text,
               ADD SCALE "let x = arange(f32, 4)\nlet a = add(x, x)\nlet b = add(a, x)\n"
                         "let y = scale(x, 1.0)\nlet c = add(a, zeros(f32, 4))\n%s",
               tail[i]);
      long before = fake.calls();
      (void)run(s, text);
      snprintf(said[beside], sizeof said[0], "%s", message(s));
      calls[beside] = fake.calls() - before;
      session_free(s);
      gpu_rt_free(c.rt);
    }
    ck_assert_str_eq(said[0], said[1]);
    ck_assert_int_eq(calls[0], calls[1]);
  }
  ck_assert_int_eq(fake.alive(), 0);
}
END_TEST

/* Without NVRTC nothing can be launched. */
static bool has_compiler(void) {
  Arena *a = arena_new(NULL, "test");
  GpuRt *rt = gpu_rt_new(NULL);
  Str out = str_new(a);
  gpu_doctor(rt, &out);
  bool has = !strstr(str_text(&out), "NVRTC       missing");
  gpu_rt_free(rt);
  arena_free(a);
  return has;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *walk) {
  (void)st, (void)kind, (void)walk;
  return remove(path);
}

int main(void) {
  setenv("TILESH_CUDA_PATH", ".:/usr/local/cuda/lib64:/usr/local/cuda/lib", 1);
  setenv("FAKE_CUDA_DEVICES", "2", 1);
  if (!gpu_built() || !has_compiler() || !mkdtemp(cache))
    return 77;
  setenv("TILESH_CACHE_DIR", cache, 1);
  Suite *suite = suite_create("session, fake driver");
  TCase *c = tcase_create("session, fake driver");
  tcase_set_timeout(c, 600);
  tcase_add_checked_fixture(c, setup, teardown);
  tcase_add_test(c, tensors_move_when_needed);
  tcase_add_test(c, calls_are_queued);
  tcase_add_test(c, large_copies_are_staged);
  tcase_add_test(c, memory_comes_from_the_pool_where_there_is_one);
  tcase_add_test(c, out_of_memory_is_named);
  tcase_add_test(c, packing_takes_no_memory_that_is_not_there);
  tcase_add_test(c, packing_makes_room_for_what_follows);
  tcase_add_test(c, several_devices);
  tcase_add_test(c, devices_that_are_visible);
  tcase_add_test(c, the_driver_starts_beside);
  tcase_add_test(c, a_lost_device_is_left_alone);
  tcase_add_test(c, refused_cubins_do_not_run);
  tcase_add_test(c, a_little_local_memory_is_kept);
  tcase_add_test(c, more_threads_are_worth_a_few_bytes);
  tcase_add_loop_test(c, what_follows_is_compiled_meanwhile, 0,
                      (int)(sizeof following / sizeof *following));
  tcase_add_test(c, compilers_do_not_wait_for_the_driver);
  tcase_add_test(c, what_is_foreseen_changes_nothing);
  tcase_add_loop_test(c, every_call_fails_once, 0, 3);
  suite_add_tcase(suite, c);
  SRunner *r = srunner_create(suite);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  (void)nftw(cache, remove_one, 8, FTW_DEPTH | FTW_PHYS);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
