/* bench_call.c: what a warm call of a kernel costs above the driver's own launch, without a GPU:
 * `bench_call [-n calls] [-r rounds] [-o row]`.
 *
 * In: the driver of the tests (libcuda.so.1 of the current folder, made by `make check`), whose
 * calls do next to nothing, and NVRTC. Out: nanoseconds of a bare launch, and what each way to call
 * the same kernel takes beyond it: the least of all rounds, which take turns. -o: that row alone,
 * for a tool that counts instructions. Exit status 1 where a call fails or launches are missing,
 * never for a time. bench/gpu/latency.* measure the same on a GPU.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lua/lua.h"
#include "session/session.h"

enum { MOST_ROUNDS = 1001 };

/* What is timed: text that the session runs once, which calls `calls` times. */
typedef enum Way { BARE, BARE_FRESH, TILE, LUA } Way;

typedef struct Row {
  const char *what;
  Way way;
  const char *text;
  int launches;  /* of each call */
  int above;     /* the row that is taken off */
  double target; /* us, 0: none */
} Row;

static const Row rows[] = {
    {"a bare launch", BARE, NULL, 1, -1, 0},
    {"... and memory taken and given back", BARE_FRESH, NULL, 1, -1, 0},
    {"a loop and an empty function", TILE, "empty()", 0, -1, 0},
    {"a call, out =", TILE, "given()", 1, 0, 0},
    {"a call, a new output", TILE, "fresh()", 1, 1, 0},
    {"Lua: a loop and an empty function", LUA, "empty()", 0, -1, 0},
    {"Lua: a call, out =", LUA, "given()", 1, 0, 1.5},
    {"Lua: a call, a new output", LUA, "fresh()", 1, 1, 3.0},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* `plus` is no kernel that the driver knows: launching it does nothing. */
static const char tile_text[] =
    "kernel plus(X: f32[N], Y: f32[N]) -> (Z: f32[N]) {\n"
    "  grid b = ceildiv(N, 1024)\n"
    "  for i in parallel(1024) {\n"
    "    if b*1024 + i < N { Z[b*1024 + i] = X[b*1024 + i] + Y[b*1024 + i] }\n"
    "  }\n"
    "}\n"
    "let n = int(args[0])\n"
    "let x = ones(f32, 1024)\n"
    "let y = ones(f32, 1024)\n"
    "let z = plus(x, y)\n"
    "fn nothing(a, b) { }\n"
    "fn given() { for i in range(n) { plus(x, y, out = z) } }\n"
    "fn fresh() { for i in range(n) { plus(x, y) } }\n"
    "fn empty() { for i in range(n) { nothing(x, y) } }\n"
    "lua {\n"
    "  local plus, nothing, x, y, to = plus, nothing, x, y, {out = z}\n"
    "  local n = tonumber(args[1])\n"
    "  function given() for _ = 1, n do plus(x, y, to) end end\n"
    "  function fresh() for _ = 1, n do plus(x, y) end end\n"
    "  function empty() for _ = 1, n do nothing(x, y) end end\n"
    "}\n";

typedef struct Bench {
  Session *s;
  int calls;
  CUfunction f;
  CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     unsigned, CUstream, void **, void **);
  CUresult (*take)(CUdeviceptr *, size_t, CUstream);
  CUresult (*give)(CUdeviceptr, CUstream);
  CUresult (*find)(CUfunction *, CUmodule, const char *);
  int (*launches)(void);
} Bench;

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static _Noreturn void give_up(const char *what, const char *why) {
  fprintf(stderr, "bench_call: %s: %s\n", what, why);
  exit(1);
}

static void symbol(void *lib, const char *name, void *fn) {
  void *p = dlsym(lib, name);
  if (!p)
    give_up(name, "not in this libcuda.so.1");
  memcpy(fn, &p, sizeof p);
}

/* The same library that the session opens, so both call the same functions. */
static void open_driver(Bench *b) {
  void *lib = dlopen("./libcuda.so.1", RTLD_NOW);
  if (!lib)
    give_up("the driver of the tests", "run it where `make check` has built");
  symbol(lib, "cuLaunchKernel", &b->launch);
  symbol(lib, "cuMemAllocAsync", &b->take);
  symbol(lib, "cuMemFreeAsync", &b->give);
  symbol(lib, "cuModuleGetFunction", &b->find);
  symbol(lib, "fake_cuda_launches", &b->launches);
  setenv("TILESH_CUDA_PATH", ".:/usr/local/cuda/lib64:/usr/local/cuda/lib", 0);
  (void)b->find(&b->f, NULL, "plus");
}

static void must(Bench *b, Status status, const char *what) {
  if (status == ST_OK)
    return;
  Arena *a = arena_new(NULL, "message");
  Str text = str_new(a);
  diag_format_all(session_diags(b->s), false, &text);
  give_up(what, str_text(&text));
}

static void bare(Bench *b, bool fresh) {
  uint64_t word[8] = {0};
  void *args[8];
  CUdeviceptr p;
  for (int i = 0; i < 8; i++)
    args[i] = &word[i];
  for (int i = 0; i < b->calls; i++) {
    if (fresh)
      (void)b->take(&p, 4096, NULL);
    if (b->launch(b->f, 1, 1, 1, 128, 1, 1, 0, NULL, args, NULL) != CUDA_SUCCESS)
      give_up("a launch", "refused");
    if (fresh)
      (void)b->give(p, NULL);
  }
}

/* Nanoseconds of one call. */
static double once(Bench *b, const Row *r) {
  int before = b->launches();
  size_t n = r->text ? strlen(r->text) : 0;
  Status status = ST_OK;
  double start = now_ns();
  if (r->way == LUA)
    (void)session_prompt_lua(b->s, "<lua>", r->text, n, &status);
  else if (r->way == TILE)
    status = session_run_text(b->s, "<bench>", r->text, n);
  else
    bare(b, r->way == BARE_FRESH);
  double ns = (now_ns() - start) / b->calls;
  must(b, status, r->what);
  if (b->launches() - before != r->launches * b->calls)
    give_up(r->what, "launches are missing");
  return ns;
}

static void report(const double *least) {
  printf("%-38s %8s %14s %8s\n", "nanoseconds of one", "all", "above the bare", "target");
  for (int i = 0; i < ROWS; i++) {
    const Row *r = &rows[i];
    printf("%-38s %8.0f", r->what, least[i]);
    if (r->above >= 0)
      printf(" %14.0f", least[i] - least[r->above]);
    if (r->target > 0)
      printf(" %8.0f", 1e3 * r->target);
    printf("\n");
  }
}

int main(int argc, char **argv) {
  Bench b = {.calls = 20000};
  int rounds = 15, only = -1;
  double least[ROWS];
  char number[16];
  const char *args[] = {number};
  for (int c; (c = getopt(argc, argv, "n:r:o:")) != -1;) {
    int x = c == '?' ? -1 : (int)strtol(optarg, NULL, 10);
    if (x < (c == 'o' ? 0 : 1) || x > (c == 'n' ? 10000000 : c == 'r' ? MOST_ROUNDS : ROWS - 1))
      return fprintf(stderr, "usage: bench_call [-n calls] [-r rounds] [-o row]\n"), 2;
    *(c == 'n' ? &b.calls : c == 'r' ? &rounds : &only) = x;
  }
  open_driver(&b);
  snprintf(number, sizeof number, "%d", b.calls);
  b.s = session_new(
      &(SessionOptions){.device = "cuda:0", .lua = luat_language(), .args = args, .nargs = 1});
  if (!b.s)
    give_up("a session", "memory is short");
  must(&b, session_run_text(b.s, "<bench>", tile_text, sizeof tile_text - 1), "the kernel");
  for (int round = 0; round < (only < 0 ? rounds : 1); round++)
    for (int i = 0; i < ROWS; i++) {
      double ns = only >= 0 && only != i ? 0 : once(&b, &rows[i]);
      least[i] = round == 0 || ns < least[i] ? ns : least[i];
    }
  if (only < 0)
    report(least);
  session_free(b.s);
  return 0;
}
