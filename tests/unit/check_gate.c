/* check_gate.c: what the schedules print compiles, keeps everything in registers, and none
 * of its products is serialised; where there is no NVRTC the tests are left out.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base_suite.h"
#include "gpu/private.h"
#include "lower/lower.h"

typedef struct Gate {
  Arena *arena;
  DiagSink sink;
  GpuRt *rt;
} Gate;

static Gate *gate_new(void) {
  GpuConfig config = {.no_cache = true};
  Arena *a = arena_new(NULL, "gate");
  Gate *g = ARENA_NEW(a, Gate);
  g->arena = a;
  diag_init(&g->sink, a);
  g->rt = gpu_rt_new(&config);
  return g;
}

static void gate_free(Gate *g) {
  gpu_rt_free(g->rt);
  arena_free(g->arena);
}

static bool has_compiler(Gate *g) {
  Str why = str_new(g->arena);
  return gpu_nvrtc_version(g->rt, &why) != NULL;
}

/* CUDA text of a kernel, with the last axes of stride 1 and everything aligned. */
static CudaText *print_grid(Gate *g, const char *arch, const char *text, LowerNotes *notes,
                            LowerGrid grid) {
  IrKernels ks = {0};
  SrcFile *file = src_new(g->arena, "test.ir", text, strlen(text));
  ck_assert(ir_read(g->arena, names_new(g->arena), file, &g->sink, &ks) &&
            ir_verify(ks.v[0], &g->sink));
  const IrKernel *k = ks.v[0];
  LowerFact *fact = ARENA_ARRAY(g->arena, LowerFact, k->buffers.n + 1);
  for (size_t i = 0; i < k->buffers.n; i++)
    fact[i] = (LowerFact){(int8_t)(k->buffers.v[i]->rank - 1), 16, true};
  notes->arena = g->arena;
  LowerRequest r = {.target = target_find(arch), .fact = fact, .notes = notes, .grid = grid};
  IrKernel *low = lower_to(g->arena, k, IR_THREAD, &r, &g->sink);
  CudaText *cuda = low ? cuda_print(g->arena, low, r.target, &g->sink) : NULL;
  ck_assert_msg(cuda != NULL, "%s", g->sink.n ? g->sink.v[0]->text : "not lowered");
  return cuda;
}

static CudaText *print(Gate *g, const char *arch, const char *text, LowerNotes *notes) {
  return print_grid(g, arch, text, notes, LOWER_GRID_FITS);
}

/* Instructions by the low 12 bits of their encoding. */
enum {
  HGMMA = 0x9f0,
  HGMMA_RS = 0xdf0, /* the first operand in registers */
  HMMA = 0x23c,
  LDSM = 0x83b,
  LDGSTS = 0xfae,
  LOCAL_LOAD = 0x983,
  DMMA = 0x23f,
  F2FP = 0x23e /* two floats to two narrow ones */
};

typedef struct Wants { /* at least so many of these */
  const char *arch;
  unsigned opcode, count;
} Wants;

static void passes_on(Wants w, const char *text, const char *schedule) {
  Gate *g = gate_new();
  LowerNotes notes = {0};
  CudaText *cuda = print(g, w.arch, text, &notes);
  ck_assert_str_eq(notes.text.v[notes.text.n - 1], schedule);
  if (has_compiler(g)) {
    GpuCompile job = {.name = "test.cu", .text = cuda->text, .arch = w.arch};
    GpuImage *m = NULL;
    Str why = str_new(g->arena);
    ck_assert_msg(gpu_compile(g->rt, &job, g->arena, &m, &why) == ST_OK, "%s", str_text(&why));
    ck_assert_msg(m->gate, "%s\n%s", m->gate_why, m->log);
    ck_assert_uint_ge(gpu_image_count(m, cuda->entry, w.opcode), w.count);
    ck_assert_uint_eq(gpu_image_count(m, cuda->entry, LOCAL_LOAD), 0);
  }
  gate_free(g);
}

/* hgmma: products with both operands in shared memory, at least so many instructions. */
static void passes(const char *text, const char *schedule, unsigned hgmma) {
  passes_on((Wants){"sm_90a", HGMMA, hgmma}, text, schedule);
}

#define PRODUCT(bm, bn, bk)                                                                        \
  "kernel g tile(A: bf16[M, K] strided, B: bf16[K, N] strided) -> (C: bf16[M, N] strided) {\n"     \
  "grid bx, by = ceildiv(N, " bn "), ceildiv(M, " bm ")\n"                                         \
  "shared As: bf16[" bm ", " bk "]\nshared Bs: bf16[" bk ", " bn "]\n"                             \
  "fragment acc: f32[" bm ", " bn "]\n"                                                            \
  "map i, j in [" bm ", " bn "] { store acc[i, j] = 0.0 unchecked }\n"                             \
  "for k: i64 = 0, ceildiv(K, " bk "), 1 pipelined(3) {\n"                                         \
  "copy As = A[by*" bm ":+" bm ", k*" bk ":+" bk "]\n"                                             \
  "copy Bs = B[k*" bk ":+" bk ", bx*" bn ":+" bn "]\n"                                             \
  "dot acc += As @ Bs\n}\n"                                                                        \
  "copy C[by*" bm ":+" bm ", bx*" bn ":+" bn "] = acc\n}\n"

START_TEST(plain_products) {
  passes(PRODUCT("128", "256", "64"), "schedule: warpgroup", 4);
  passes(PRODUCT("256", "128", "64"), "schedule: warpgroup", 8);
  passes(PRODUCT("64", "40", "32"), "schedule: warpgroup", 2);
}
END_TEST

/* What the model of tile sizes takes for the widest of warps; without room for two stages one has
 * to do, with tensor cores still. */
START_TEST(products_of_warps) {
  static const char *const archs[] = {"sm_80", "sm_89"};
  for (int i = 0; i < 2; i++) {
    passes_on((Wants){archs[i], HMMA, 96}, PRODUCT("128", "192", "64"),
              "schedule: registers, in turns");
    passes_on((Wants){archs[i], HMMA, 64}, PRODUCT("128", "128", "64"),
              "schedule: registers, in turns");
  }
  passes_on((Wants){"sm_89", HMMA, 64}, PRODUCT("128", "128", "128"),
            "schedule: registers, in turns");
}
END_TEST

#define NARROW(t, acc, n) NARROW_TO(t, acc, acc, n)
#define NARROW_TO(t, acc, c, n)                                                                    \
  "kernel narrow tile(A: " t "[M, K], B: " t "[N, K]) -> (C: " c "[M, N]) {\n"                     \
  "grid bx, by = ceildiv(N, " n "), ceildiv(M, 128)\n"                                             \
  "shared As: " t "[128, 128]\nshared Bs: " t "[" n ", 128]\nfragment s: " acc "[128, " n "]\n"    \
  "map i, j in [128, " n "] { store s[i, j] = " acc "(0) unchecked }\n"                            \
  "for k: i64 = 0, ceildiv(K, 128), 1 pipelined(3) {\n"                                            \
  "copy As = A[by*128:+128, k*128:+128]\ncopy Bs = B[bx*" n ":+" n ", k*128:+128]\n"               \
  "dot s += As @ Bs.T\n}\n"                                                                        \
  "copy C[by*128:+128, bx*" n ":+" n "] = s\n}\n"

static const char tf32[] =
    "kernel t tile(A: f32[M, K], B: f32[N, K]) -> (C: f32[M, N]) {\n"
    "grid bx, by = ceildiv(N, 128), ceildiv(M, 128)\n"
    "shared As: f32[128, 32]\nshared Bs: f32[128, 32]\nfragment s: f32[128, 128]\n"
    "map i, j in [128, 128] { store s[i, j] = 0.0 unchecked }\n"
    "for k: i64 = 0, ceildiv(K, 32), 1 pipelined(3) {\n"
    "copy As = A[by*128:+128, k*32:+32]\ncopy Bs = B[bx*128:+128, k*32:+32]\n"
    "dot s += As @ Bs.T tf32\n}\n"
    "copy C[by*128:+128, bx*128:+128] = s\n}\n";

START_TEST(tf32_on_request) {
  passes(tf32, "schedule: warpgroup", 4);
}
END_TEST

START_TEST(eight_bits) {
  passes(NARROW("f8e4m3", "f32", "128"), "schedule: warpgroup", 0); /* QGMMA */
  passes_on((Wants){"sm_90a", F2FP, 48}, NARROW_TO("f8e4m3", "f32", "f8e4m3", "192"),
            "schedule: warpgroup");
  passes(NARROW_TO("f8e5m2", "f32", "f16", "192"), "schedule: warpgroup", 0);
  passes(NARROW("i8", "i32", "128"), "schedule: warpgroup", 0); /* IGMMA */
  passes(NARROW("u8", "i32", "128"), "schedule: warpgroup", 0);
}
END_TEST

#define ACROSS(t, acc, m, n, k, how) ACROSS_TO(t, acc, acc, m, n, k, how)
#define ACROSS_TO(t, acc, c, m, n, k, how)                                                         \
  "kernel across tile(A: " t "[M, K], B: " t "[K, N]) -> (C: " c "[M, N]) {\n"                     \
  "grid bx, by = ceildiv(N, " n "), ceildiv(M, " m ")\n"                                           \
  "shared As: " t "[" m ", " k "]\nshared Bs: " t "[" k ", " n "]\n"                               \
  "fragment s: " acc "[" m ", " n "]\n"                                                            \
  "map i, j in [" m ", " n "] { store s[i, j] = " acc "(0) unchecked }\n"                          \
  "for k: i64 = 0, ceildiv(K, " k "), 1 pipelined(3) {\n"                                          \
  "copy As = A[by*" m ":+" m ", k*" k ":+" k "]\ncopy Bs = B[k*" k ":+" k ", bx*" n ":+" n "]\n"   \
  "dot s += As @ Bs" how "\n}\n"                                                                   \
  "copy C[by*" m ":+" m ", bx*" n ":+" n "] = s\n}\n"

/* The operand that lies across goes through registers. */
START_TEST(across) {
  passes_on((Wants){"sm_90a", HGMMA_RS, 4}, ACROSS("f32", "f32", "256", "128", "32", " tf32"),
            "schedule: warpgroup");
  passes_on((Wants){"sm_90a", HGMMA_RS, 8}, ACROSS("f32", "f32", "128", "256", "32", " tf32"),
            "schedule: warpgroup");
  passes_on((Wants){"sm_90a", LDSM, 4}, ACROSS("i8", "i32", "256", "128", "128", ""),
            "schedule: warpgroup");
  passes_on((Wants){"sm_90a", LDSM, 4}, ACROSS("f8e4m3", "f32", "176", "128", "128", ""),
            "schedule: warpgroup");
  passes_on((Wants){"sm_90a", F2FP, 44},
            ACROSS_TO("f8e4m3", "f32", "f8e4m3", "176", "128", "128", ""), "schedule: warpgroup");
}
END_TEST

/* By mma.sync, whatever the dtype; operands by ldmatrix where they lie along K. */
START_TEST(eight_bits_of_warps) {
  static const char *const archs[] = {"sm_80", "sm_89"};
  for (int i = 0; i < 2; i++) {
    const Wants w = {archs[i], LDSM, 8};
    passes_on(w, NARROW("i8", "i32", "128"), "schedule: registers, in turns");
    passes_on(w, NARROW("u8", "i32", "128"), "schedule: registers, in turns");
    passes_on(w, NARROW("f8e4m3", "f32", "128"), "schedule: registers, in turns");
    passes_on(w, NARROW("f8e5m2", "f32", "64"), "schedule: registers");
  }
}
END_TEST

#define WIDE(t, acc, bm, option)                                                                   \
  "kernel wide tile(A: " t "[M, K], B: " t "[K, N]) -> (C: " acc "[M, N]) {\n"                     \
  "grid bx, by = ceildiv(N, 64), ceildiv(M, " bm ")\n"                                             \
  "shared As: " t "[" bm ", 32]\nshared Bs: " t "[32, 64]\nfragment s: " acc "[" bm ", 64]\n"      \
  "map i, j in [" bm ", 64] { store s[i, j] = " acc "(0) unchecked }\n"                            \
  "for k: i64 = 0, ceildiv(K, 32), 1 pipelined(2) {\n"                                             \
  "copy As = A[by*" bm ":+" bm ", k*32:+32]\ncopy Bs = B[k*32:+32, bx*64:+64]\n"                   \
  "dot s += As @ Bs" option "\n}\n"                                                                \
  "copy C[by*" bm ":+" bm ", bx*64:+64] = s\n}\n"

START_TEST(wide_products_of_warps) {
  static const char *const archs[] = {"sm_80", "sm_89", "sm_90a"};
  for (int i = 0; i < 3; i++) {
    passes_on((Wants){archs[i], DMMA, 8}, WIDE("f64", "f64", "64", ""), "schedule: registers");
    if (i < 2)
      passes_on((Wants){archs[i], HMMA, 8}, WIDE("f32", "f32", "128", " tf32"),
                "schedule: registers");
  }
}
END_TEST

/* 128 queries by 128 keys of 128 elements: the products overlap within the registers. */
static const char attention[] =
    "kernel a tile(Q: f16[B, H, S, 128], K: f16[B, H, R, 128], V: f16[B, H, R, 128], scale: f32)"
    " -> (O: f16[B, H, S, 128]) {\n"
    "grid bx, h, b = ceildiv(S, 128), H, B\n"
    "shared Qs: f16[128, 128]\nshared Ks: f16[128, 128]\nshared Vs: f16[128, 128]\n"
    "fragment acc: f32[128, 128]\nfragment m: f32[128]\nfragment l: f32[128]\n"
    "map i, c in [128, 128] { store acc[i, c] = 0.0 unchecked }\n"
    "map i in [128] { store m[i] = -inf unchecked\nstore l[i] = 0.0 unchecked }\n"
    "copy Qs = Q[b, h, bx*128:+128, 0:+128]\n"
    "for j: i64 = 0, ceildiv(min(R, (bx + 1)*128), 128), 1 pipelined(2) {\n"
    "copy Ks = K[b, h, j*128:+128, 0:+128]\ncopy Vs = V[b, h, j*128:+128, 0:+128]\n"
    "fragment s: f32[128, 128]\nfragment p: f32[128, 128]\nfragment q: f16[128, 128]\n"
    "fragment t: f32[128]\nfragment al: f32[128]\nfragment n: f32[128]\n"
    "dot s = Qs @ Ks.T\n"
    "parallel r, c in [128, 128] { if (j*128 + c >= R) | (j*128 + c > bx*128 + r) { "
    "store s[r, c] = -inf } }\n"
    "reduce t = rmax(s) axis 1\n"
    "map i in [128] { load x: f32 = m[i] unchecked\nload y: f32 = t[i] unchecked\n"
    "store n[i] = max(x, y*scale) unchecked }\n"
    "map i, c in [128, 128] { load x: f32 = s[i, c] unchecked\nload y: f32 = n[i] unchecked\n"
    "store p[i, c] = exp2(x*scale - y) unchecked }\n"
    "map i in [128] { load x: f32 = m[i] unchecked\nload y: f32 = n[i] unchecked\n"
    "store al[i] = exp2(x - y) unchecked }\n"
    "reduce t = sum(p) axis 1\n"
    "map i in [128] { load x: f32 = l[i] unchecked\nload y: f32 = al[i] unchecked\n"
    "load z: f32 = t[i] unchecked\nstore l[i] = x*y + z unchecked }\n"
    "copy m = n\n"
    "map i, c in [128, 128] { load x: f32 = acc[i, c] unchecked\nload y: f32 = al[i] unchecked\n"
    "store acc[i, c] = x*y unchecked }\n"
    "map i, c in [128, 128] { load x: f32 = p[i, c] unchecked\n"
    "store q[i, c] = f16(x) unchecked }\n"
    "dot acc += q @ Vs\n}\n"
    "fragment o: f32[128, 128]\n"
    "map i, c in [128, 128] { load x: f32 = acc[i, c] unchecked\nload y: f32 = l[i] unchecked\n"
    "store o[i, c] = x / y unchecked }\n"
    "copy O[b, h, bx*128:+128, 0:+128] = o\n}\n";

/* The same shape of program with half of each extent. */
static const char attention_of_64[] =
    "kernel a tile(Q: f16[S, 64], K: f16[R, 64], V: f16[R, 64]) -> (O: f16[S, 64]) {\n"
    "grid bx = ceildiv(S, 64)\n"
    "shared Qs: f16[64, 64]\nshared Ks: f16[64, 64]\nshared Vs: f16[64, 64]\n"
    "fragment acc: f32[64, 64]\nmap i, c in [64, 64] { store acc[i, c] = 0.0 unchecked }\n"
    "copy Qs = Q[bx*64:+64, 0:+64]\n"
    "for j: i64 = 0, ceildiv(R, 64), 1 pipelined(2) {\n"
    "copy Ks = K[j*64:+64, 0:+64]\ncopy Vs = V[j*64:+64, 0:+64]\n"
    "fragment s: f32[64, 64]\nfragment q: f16[64, 64]\nfragment t: f32[64]\n"
    "dot s = Qs @ Ks.T\nreduce t = rmax(s) axis 1\n"
    "map i, c in [64, 64] { load x: f32 = s[i, c] unchecked\nload y: f32 = t[i] unchecked\n"
    "store q[i, c] = f16(exp2(x - y)) unchecked }\n"
    "dot acc += q @ Vs\n}\ncopy O[bx*64:+64, 0:+64] = acc\n}\n";

START_TEST(causal_attention) {
  passes(attention, "schedule: warpgroup, overlapped", 16);
}
END_TEST

/* One role, on the first target with tensor cores and cp.async. */
START_TEST(registers) {
  const char *product = PRODUCT("128", "128", "64");
  passes_on((Wants){"sm_80", HMMA, 64}, product, "schedule: registers, in turns");
  passes_on((Wants){"sm_80", LDSM, 24}, product, "schedule: registers, in turns");
  passes_on((Wants){"sm_80", LDGSTS, 16}, product, "schedule: registers, in turns");
  passes_on((Wants){"sm_80", HMMA, 64}, attention_of_64, "schedule: registers");
}
END_TEST

/* Memory-bound kernels: 16 bytes an access (0x981 is LDG, 0x986 STG), nothing in local memory. */
START_TEST(rows) {
  passes_on(
      (Wants){"sm_90a", 0x981, 8},
      "kernel softmax tile(X: f32[M, N] strided) -> (Y: f32[M, N] strided) {\n"
      "grid b = ceildiv(M, 4)\nfragment x: f32[4, 1024]\nfragment m: f32[4]\n"
      "fragment l: f32[4]\ncopy x = X[b*4:+4, 0:+1024] pad -inf\n"
      "reduce m = rmax(x) axis 1\n"
      "map i, j in [4, 1024] { load v: f32 = x[i, j] unchecked\nload w: f32 = m[i] unchecked\n"
      "store x[i, j] = exp(v - w) unchecked }\n"
      "reduce l = sum(x) axis 1\n"
      "map i, j in [4, 1024] { load v: f32 = x[i, j] unchecked\nload w: f32 = l[i] unchecked\n"
      "store x[i, j] = v / w unchecked }\n"
      "copy Y[b*4:+4, 0:+1024] = x\n}\n",
      "schedule: registers, dense");
  passes_on((Wants){"sm_90a", 0x986, 2},
            "kernel turn tile(X: f16[M, N] strided) -> (Y: f16[N, M] strided) {\n"
            "grid bx, by = ceildiv(N, 64), ceildiv(M, 64)\nshared t: f16[64, 64]\n"
            "copy t = X[by*64:+64, bx*64:+64]\ncopy Y[bx*64:+64, by*64:+64] = t.T\n}\n",
            "schedule: registers");
}
END_TEST

/* A product that the author shares out among a producer and two warpgroups. */
#define ROLES(t, rows)                                                                             \
  "kernel ws tile(A: " t "[M, K], B: " t "[K, N]) -> (C: " t "[M, N]) {\n"                         \
  "grid bx, by = ceildiv(N, 128), ceildiv(M, " rows ")\nthreads 384\n"                             \
  "shared As: " t "[3, " rows ", 64]\nshared Bs: " t "[3, 64, 128]\n"                              \
  "shared full: u64[3] arrivals 2\nshared empty: u64[3] arrivals 1\nroles {\n"                     \
  "role producer warps 0:+4 registers 40 {\nfor k: i64 = 0, ceildiv(K, 64), 1 {\n"                 \
  "let s: i64 = k % 3\nawait empty[s] parity k // 3 + 1\n"                                         \
  "copy As[s, 0:+" rows ", 0:+64] = A[by*" rows ":+" rows ", k*64:+64] signal full[s]\n"           \
  "copy Bs[s, 0:+64, 0:+128] = B[k*64:+64, bx*128:+128] signal full[s] }\n}\n"                     \
  "role consumer warps 4:+8 registers 232 {\nfragment acc: f32[" rows ", 128]\n"                   \
  "map i, j in [" rows ", 128] { store acc[i, j] = 0.0 unchecked }\n"                              \
  "for k: i64 = 0, ceildiv(K, 64), 1 {\nlet s: i64 = k % 3\nawait full[s] parity k // 3\n"         \
  "dot acc += As[s, 0:+" rows ", 0:+64] @ Bs[s, 0:+64, 0:+128]\narrive empty[s] }\n"               \
  "copy C[by*" rows ":+" rows ", bx*128:+128] = acc }\n}\n}\n"

START_TEST(roles_of_the_author) {
  Wants w = {"sm_90a", HMMA, 32};
  passes_on(w, ROLES("f16", "96"), "schedule: registers");
  passes(ROLES("bf16", "128"), "schedule: warpgroup, roles of the author", 4);
  passes(ROLES("f16", "256"), "schedule: warpgroup, roles of the author", 8);
}
END_TEST

/* A fault names the block by the program's indices. */
START_TEST(faults_of_folded_grids) {
  Gate *g = gate_new();
  LowerNotes notes = {0};
  CudaText *cuda = print_grid(g, "sm_80",
                              "kernel k tile(x: f32[N]) -> (y: f32[N]) {\ngrid bx, by = N, N\n"
                              "load v: f32 = x[bx * by]\nstore y[bx] = v\n}\n",
                              &notes, LOWER_GRID_HUGE);
  GpuCompile job = {.name = "test.cu", .text = cuda->text, .arch = "sm_80"};
  GpuImage *m = NULL;
  Str why = str_new(g->arena);
  ck_assert_ptr_nonnull(strstr(cuda->text, ", bx, by);"));
  if (has_compiler(g))
    ck_assert_msg(gpu_compile(g->rt, &job, g->arena, &m, &why) == ST_OK, "%s", str_text(&why));
  gate_free(g);
}
END_TEST

int main(void) {
  const TTest *const tests[] = {plain_products,
                                products_of_warps,
                                tf32_on_request,
                                eight_bits,
                                across,
                                eight_bits_of_warps,
                                wide_products_of_warps,
                                causal_attention,
                                registers,
                                rows,
                                roles_of_the_author,
                                faults_of_folded_grids,
                                NULL};
  return run_suite("gate", tests);
}
