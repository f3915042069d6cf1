/* check_schedule.c: the passes from the tile level to the Hopper schedule: what every pass makes
 * runs on the evaluator and gives the bits of the plain program, for ragged extents, any stages and
 * loops that run no time; what cannot be scheduled so is declined with a note.
 */
#include <inttypes.h>

#include "eval_support.h"
#include "lower/lower.h"

enum { ROOM = 8192 };

/* ---------------------------------------------------------------- kernels and arguments */

/* A product of tiles; `a` and `b` say how an operand is stored: `n` as written, `t` the other way
 * round and used as `.T`, `v` a view whose first axis is the one of stride 1. */
typedef struct Gemm {
  const char *dtype;
  int bm, bn, bk, stages;
  char a, b;
  int64_t m, n, k;
} Gemm;

static const char *gemm_text(const Gemm *g) {
  static char text[ROOM];
  const char *at = g->a == 't' ? "K, M" : "M, K", *bt = g->b == 't' ? "N, K" : "K, N";
  char as[32], bs[32], ar[64], br[64];
  bool ta = g->a == 't', tb = g->b == 't';
  snprintf(as, sizeof as, "%d, %d", ta ? g->bk : g->bm, ta ? g->bm : g->bk);
  snprintf(bs, sizeof bs, "%d, %d", tb ? g->bn : g->bk, tb ? g->bk : g->bn);
  snprintf(ar, sizeof ar, ta ? "k*%d:+%d, by*%d:+%d" : "by*%d:+%d, k*%d:+%d", ta ? g->bk : g->bm,
           ta ? g->bk : g->bm, ta ? g->bm : g->bk, ta ? g->bm : g->bk);
  snprintf(br, sizeof br, tb ? "bx*%d:+%d, k*%d:+%d" : "k*%d:+%d, bx*%d:+%d", tb ? g->bn : g->bk,
           tb ? g->bn : g->bk, tb ? g->bk : g->bn, tb ? g->bk : g->bn);
  snprintf(text, sizeof text,
           "kernel g tile(A: %s[%s] strided, B: %s[%s] strided) -> (C: %s[M, N] strided) {\n"
           "grid bx, by = ceildiv(N, %d), ceildiv(M, %d)\n"
           "shared As: %s[%s]\nshared Bs: %s[%s]\nfragment acc: f32[%d, %d]\n"
           "map i, j in [%d, %d] { store acc[i, j] = 0.0 unchecked }\n"
           "for k: i64 = 0, ceildiv(K, %d), 1 pipelined(%d) {\n"
           "copy As = A[%s]\ncopy Bs = B[%s]\n"
           "dot acc += As%s @ Bs%s\n}\n"
           "copy C[by*%d:+%d, bx*%d:+%d] = acc\n}\n",
           g->dtype, at, g->dtype, bt, g->dtype, g->bn, g->bm, g->dtype, as, g->dtype, bs, g->bm,
           g->bn, g->bm, g->bn, g->bk, g->stages, ar, br, ta ? ".T" : "", tb ? ".T" : "", g->bm,
           g->bm, g->bn, g->bn);
  return text;
}

/* What lies in columns: extents stay, strides change places. */
static void turn(IrTensorArg *x) {
  x->stride[1] = x->extent[0];
  x->stride[0] = 1;
}

static void give_gemm(Ev *e, const Gemm *g, DType t) {
  int64_t a[2] = {g->m, g->k}, b[2] = {g->k, g->n};
  int64_t at[2] = {g->k, g->m}, bt[2] = {g->n, g->k};
  IrTensorArg *x = ev_give(e, "A", t, 2, g->a == 't' ? at : a, ev_small);
  IrTensorArg *y = ev_give(e, "B", t, 2, g->b == 't' ? bt : b, ev_small);
  if (g->a == 'v')
    turn(x);
  if (g->b == 'v')
    turn(y);
}

/* ---------------------------------------------------------------- lowering with eyes open */

typedef struct Pass {
  const char *name;
  const char *text;
} Pass;
typedef struct Passes {
  Arena *arena;
  VEC(Pass) v;
  bool done; /* the first candidate has ended */
} Passes;

static bool note_pass(IrKernel *after, const char *schedule, const char *name, void *ctx) {
  Passes *p = ctx;
  Str text = str_new(p->arena);
  (void)schedule;
  p->done |= !strcmp(name, "relabel");
  if (!strcmp(name, "select"))
    p->v.n = 0; /* another candidate */
  ir_print(after, &text);
  if (!p->done)
    VEC_PUSH(p->arena, &p->v, ((Pass){name, str_text(&text)}));
  return true;
}

/* unit: names of tensors whose axis 0 has stride 1, the others' last one has. */
static Passes lower_passes(Ev *e, const char *unit, LowerNotes *notes) {
  IrKernel *k = e->kernel;
  Passes p = {.arena = e->arena};
  LowerFact *fact = ARENA_ARRAY(e->arena, LowerFact, k->buffers.n + 1);
  for (size_t i = 0; i < k->buffers.n; i++) {
    const IrBuffer *b = k->buffers.v[i];
    bool first = unit && strstr(unit, b->name);
    fact[i] = (LowerFact){(int8_t)(first ? 0 : b->rank - 1), 16, true};
  }
  LowerHook hook = {note_pass, &p};
  notes->arena = e->arena;
  LowerRequest r = {.target = target_find("sm_90a"), .fact = fact, .notes = notes, .hook = &hook};
  ck_assert_msg(lower_to(e->arena, k, IR_THREAD, &r, &e->sink) != NULL, "%s", ev_errors(e));
  return p;
}

static const char *notes_of(Ev *e, const LowerNotes *n) {
  Str s = str_new(e->arena);
  for (size_t i = 0; i < n->text.n; i++)
    str_addf(&s, "%s\n", n->text.v[i]);
  return str_text(&s);
}

static void same_tensor(Ev *x, Ev *y, const char *name, const Pass *p) {
  IrTensorArg *a = ev_tensor(x, name), *b = ev_tensor(y, name);
  ck_assert_int_eq(ev_count(a), ev_count(b));
  size_t n = (size_t)ev_count(a) * dtype_size(a->dtype);
  ck_assert_msg(memcmp(a->data, b->data, n) == 0, "%s differs after %s:\n%.3000s", name, p->name,
                p->text);
}

/* Every pass' kernel against the plain one; the last one is a schedule with roles. */
static void check_gemm(const Gemm *g) {
  DType t = !strcmp(g->dtype, "bf16") ? DT_BF16 : DT_F16;
  Ev *plain = ev_new(gemm_text(g));
  LowerNotes notes = {0};
  char unit[3] = {g->a == 'v' ? 'A' : ' ', g->b == 'v' ? 'B' : ' ', 0};
  Passes p = lower_passes(plain, unit, &notes);
  ck_assert_msg(p.v.n >= 9, "%zu passes: %s", p.v.n, notes_of(plain, &notes));
  give_gemm(plain, g, t);
  ev_ok(plain);
  for (size_t i = 0; i < p.v.n; i++) {
    Ev *e = ev_new(p.v.v[i].text);
    e->options.shake = (uint64_t)(g->k + g->stages);
    give_gemm(e, g, t);
    ev_ok(e);
    same_tensor(plain, e, "C", &p.v.v[i]);
    ev_free(e);
  }
  ev_free(plain);
}

START_TEST(products_of_all_orders) {
  static const char order[] = {'n', 't', 'v'};
  for (int a = 0; a < 3; a++)
    for (int b = 0; b < 3; b++)
      check_gemm(&(Gemm){"f16", 128, 128, 64, 3, order[a], order[b], 200, 168, 136});
}
END_TEST

START_TEST(products_of_all_tiles) {
  static const int tile[][3] = {{64, 8, 16},   {64, 256, 64},  {128, 40, 48},
                                {192, 96, 32}, {256, 128, 64}, {128, 256, 64}};
  for (size_t i = 0; i < sizeof tile / sizeof *tile; i++)
    check_gemm(&(Gemm){"bf16", tile[i][0], tile[i][1], tile[i][2], 0, 'n', 'n', 264, 328, 120});
}
END_TEST

START_TEST(products_of_all_trips) {
  for (int stages = 1; stages <= 5; stages++)
    for (int trips = 0; trips <= 7; trips++)
      check_gemm(&(Gemm){"f16", 64, 32, 16, stages, 'n', 'n', 136, 72, trips * 16});
}
END_TEST

/* ---------------------------------------------------------------- any kernel */

/* All passes' kernels of a text with these arguments, over the tensors whose names are given. */
static void check_text(const char *text, void (*give)(Ev *), const char *const *outputs) {
  Ev *plain = ev_new(text);
  LowerNotes notes = {0};
  Passes p = lower_passes(plain, NULL, &notes);
  ck_assert_msg(p.v.n >= 9, "%zu passes: %s", p.v.n, notes_of(plain, &notes));
  give(plain);
  ev_ok(plain);
  for (size_t i = 0; i < p.v.n; i++) {
    Ev *e = ev_new(p.v.v[i].text);
    e->options.shake = i + 1;
    give(e);
    ev_ok(e);
    for (const char *const *o = outputs; *o; o++)
      same_tensor(plain, e, *o, &p.v.v[i]);
    ev_free(e);
  }
  ev_free(plain);
}

/* A bias of each column and an activation, on the accumulator. */
static const char linear[] =
    "kernel linear tile(A: f16[M, K], B: f16[K, N], bias: f16[N]) -> (C: f16[M, N]) {\n"
    "grid bx, by = ceildiv(N, 128), ceildiv(M, 128)\n"
    "shared As: f16[128, 64]\nshared Bs: f16[64, 128]\nfragment acc: f32[128, 128]\n"
    "map i, j in [128, 128] { store acc[i, j] = 0.0 unchecked }\n"
    "fragment b: f32[128]\ncopy b = bias[bx*128:+128]\n"
    "for k: i64 = 0, ceildiv(K, 64), 1 pipelined(3) {\n"
    "copy As = A[by*128:+128, k*64:+64]\ncopy Bs = B[k*64:+64, bx*128:+128]\n"
    "dot acc += As @ Bs\n}\n"
    "map i, j in [128, 128] { load x: f32 = acc[i, j] unchecked\nload y: f32 = b[j] unchecked\n"
    "store acc[i, j] = max(x + y, 0.0) unchecked }\n"
    "copy C[by*128:+128, bx*128:+128] = acc\n}\n";

static void give_linear(Ev *e) {
  static const int64_t a[2] = {200, 136}, b[2] = {136, 328}, n[1] = {328};
  ev_give(e, "A", DT_F16, 2, a, ev_small);
  ev_give(e, "B", DT_F16, 2, b, ev_small);
  ev_give(e, "bias", DT_F16, 1, n, ev_small);
}

/* A batch, and a result wider than the accumulator's staging. */
static const char batched[] =
    "kernel batched tile(A: bf16[Z, M, K], B: bf16[Z, N, K]) -> (C: f32[Z, M, N]) {\n"
    "grid bx, by, z = ceildiv(N, 96), ceildiv(M, 64), Z\n"
    "shared As: bf16[64, 32]\nshared Bs: bf16[96, 32]\nfragment acc: f32[64, 96]\n"
    "map i, j in [64, 96] { store acc[i, j] = 0.0 unchecked }\n"
    "for k: i64 = 0, ceildiv(K, 32), 1 {\n"
    "copy As = A[z, by*64:+64, k*32:+32]\ncopy Bs = B[z, bx*96:+96, k*32:+32]\n"
    "dot acc += As @ Bs.T\n}\n"
    "copy C[z, by*64:+64, bx*96:+96] = acc\n}\n";

static void give_batched(Ev *e) {
  static const int64_t a[3] = {3, 100, 72}, b[3] = {3, 200, 72};
  ev_give(e, "A", DT_BF16, 3, a, ev_small);
  ev_give(e, "B", DT_BF16, 3, b, ev_small);
}

/* K side by side on both sides, as types not of 16 bits want it; f8 is promoted tile by tile of K.
 */
#define LONG_K_TO(t, acc, c, bn, bk, how)                                                          \
  "kernel narrow tile(A: " t "[M, K], B: " t "[N, K]) -> (C: " c "[M, N]) {\n"                     \
  "grid bx, by = ceildiv(N, " bn "), ceildiv(M, 128)\n"                                            \
  "shared As: " t "[128, " bk "]\nshared Bs: " t "[" bn ", " bk "]\nfragment s: " acc "[128, " bn  \
  "]\n"                                                                                            \
  "map i, j in [128, " bn "] { store s[i, j] = " acc "(0) unchecked }\n"                           \
  "for k: i64 = 0, ceildiv(K, " bk "), 1 pipelined(3) {\n"                                         \
  "copy As = A[by*128:+128, k*" bk ":+" bk "]\n"                                                   \
  "copy Bs = B[bx*" bn ":+" bn ", k*" bk ":+" bk "]\n"                                             \
  "dot s += As @ Bs.T" how "\n}\n"                                                                 \
  "copy C[by*128:+128, bx*" bn ":+" bn "] = s\n}\n"
#define LONG_K(t, acc, bk, how) LONG_K_TO(t, acc, acc, "96", bk, how)
#define NARROW(t, acc) LONG_K(t, acc, "128", "")

static void give_narrow(Ev *e, DType t) {
  static const int64_t a[2] = {150, 336}, b[2] = {200, 336};
  ev_give(e, "A", t, 2, a, ev_small);
  ev_give(e, "B", t, 2, b, ev_small);
}
static void give_e4m3(Ev *e) {
  give_narrow(e, DT_F8E4M3);
}
static void give_e5m2(Ev *e) {
  give_narrow(e, DT_F8E5M2);
}
static void give_i8(Ev *e) {
  give_narrow(e, DT_I8);
}

static double bytes(int64_t i) {
  return (double)((i * 7 + i / 9 * 5 + 3) % 256);
}
static void give_u8(Ev *e) {
  static const int64_t a[2] = {150, 336}, b[2] = {200, 336};
  ev_give(e, "A", DT_U8, 2, a, bytes);
  ev_give(e, "B", DT_U8, 2, b, bytes);
}
static void give_f32(Ev *e) {
  give_narrow(e, DT_F32);
}

/* Rows of C in whole 16 bytes. */
static void give_staged(Ev *e) {
  static const int64_t a[2] = {150, 336}, b[2] = {208, 336};
  ev_give(e, "A", DT_F8E4M3, 2, a, ev_small);
  ev_give(e, "B", DT_F8E4M3, 2, b, ev_small);
}

START_TEST(eight_bits) {
  static const char *const c[] = {"C", NULL};
  check_text(NARROW("f8e4m3", "f32"), give_e4m3, c);
  check_text(NARROW("f8e5m2", "f32"), give_e5m2, c);
  check_text(NARROW("i8", "i32"), give_i8, c);
  check_text(NARROW("u8", "i32"), give_u8, c);
}
END_TEST

/* Results of one byte are staged: in whole rows of the swizzle, in panels, in plain rows. */
START_TEST(results_of_a_byte) {
  static const char *const c[] = {"C", NULL};
  check_text(LONG_K_TO("f8e4m3", "f32", "f8e4m3", "128", "128", ""), give_staged, c);
  check_text(LONG_K_TO("f8e4m3", "f32", "f8e5m2", "192", "128", ""), give_staged, c);
  check_text(LONG_K_TO("f8e4m3", "f32", "i8", "80", "128", ""), give_staged, c);
  check_text(LONG_K_TO("f8e4m3", "f32", "u8", "32", "64", ""), give_staged, c);
}
END_TEST

START_TEST(tf32_on_request) {
  static const char *const c[] = {"C", NULL};
  check_text(LONG_K("f32", "f32", "32", " tf32"), give_f32, c);
  check_text(LONG_K("f32", "f32", "24", " tf32"), give_f32, c);
}
END_TEST

START_TEST(epilogues_and_batches) {
  static const char *const c[] = {"C", NULL};
  check_text(linear, give_linear, c);
  check_text(batched, give_batched, c);
}
END_TEST

/* ---------------------------------------------------------------- attention */

/* Grouped heads, a mask by position, an online softmax between two chained products. */
static const char attention[] =
    "kernel a tile(Q: f16[B, H, S, 32], K: f16[B, G, R, 32], V: f16[B, G, R, 32], scale: f32)"
    " -> (O: f16[B, H, S, 32]) {\n"
    "grid bx, h, b = ceildiv(S, 64), H, B\n"
    "let g: i64 = h // (H // G)\n"
    "shared Qs: f16[64, 32]\nshared Ks: f16[64, 32]\nshared Vs: f16[64, 32]\n"
    "fragment acc: f32[64, 32]\nfragment m: f32[64]\nfragment l: f32[64]\n"
    "map i, c in [64, 32] { store acc[i, c] = 0.0 }\n"
    "map i in [64] { store m[i] = -inf\nstore l[i] = 0.0 }\n"
    "copy Qs = Q[b, h, bx*64:+64, 0:+32]\n"
    "for j: i64 = 0, ceildiv(min(R, (bx + 1)*64), 64), 1 pipelined(2) {\n"
    "copy Ks = K[b, g, j*64:+64, 0:+32]\ncopy Vs = V[b, g, j*64:+64, 0:+32]\n"
    "fragment s: f32[64, 64]\nfragment p: f16[64, 64]\nfragment t: f32[64]\nfragment al: f32[64]\n"
    "dot s = Qs @ Ks.T\n"
    "parallel r, c in [64, 64] { if (j*64 + c >= R) | (j*64 + c > bx*64 + r) { store s[r, c] = "
    "-inf } }\n"
    "reduce t = rmax(s) axis 1\n"
    "map i in [64] { load x: f32 = m[i]\nload y: f32 = t[i]\n"
    "store al[i] = exp2(x - max(x, y*scale))\nstore m[i] = max(x, y*scale) }\n"
    "map i, c in [64, 64] { load x: f32 = s[i, c]\nload y: f32 = m[i]\n"
    "store s[i, c] = exp2(x*scale - y) }\n"
    "reduce t = sum(s) axis 1\n"
    "map i in [64] { load x: f32 = l[i]\nload y: f32 = al[i]\nload z: f32 = t[i]\n"
    "store l[i] = x*y + z }\n"
    "map i, c in [64, 32] { load x: f32 = acc[i, c]\nload y: f32 = al[i]\nstore acc[i, c] = x*y }\n"
    "map i, c in [64, 64] { load x: f32 = s[i, c]\nstore p[i, c] = f16(x) }\n"
    "dot acc += p @ Vs\n}\n"
    "fragment o: f32[64, 32]\n"
    "map i, c in [64, 32] { load x: f32 = acc[i, c]\nload y: f32 = l[i]\nstore o[i, c] = x / y }\n"
    "copy O[b, h, bx*64:+64, 0:+32] = o\n}\n";

/* Rows of 32 of which few elements are not zero: scores are small integers, so that their powers of
 * two, and sums of these, are exact in any order. */
static double few(int64_t i) {
  return i % 32 < 4 ? (double)((i / 32 * 5 + i % 32 * 3) % 3 - 1) : 0;
}

static void give_attention(Ev *e) {
  static const int64_t q[4] = {2, 4, 150, 32}, k[4] = {2, 2, 170, 32};
  ev_give(e, "Q", DT_F16, 4, q, few);
  ev_give(e, "K", DT_F16, 4, k, few);
  ev_give(e, "V", DT_F16, 4, k, ev_small);
  ev_scalar(e, "scale", 1.0);
}

START_TEST(chained_products) {
  static const char *const o[] = {"O", NULL};
  check_text(attention, give_attention, o);
}
END_TEST

/* ---------------------------------------------------------------- what is declined */

static void declined(const Gemm *g, const char *part) {
  Ev *e = ev_new(gemm_text(g));
  LowerNotes notes = {0};
  Passes p = lower_passes(e, NULL, &notes);
  ck_assert_msg(strstr(notes_of(e, &notes), part), "%zu passes: %s", p.v.n, notes_of(e, &notes));
  ev_free(e);
}

/* Between a copy and who reads it: the ring would come out of step. */
START_TEST(jumps_are_declined) {
  Arena *a = arena_new(NULL, "text");
  Gemm g = {"f16", 128, 128, 64, 3, 'n', 'n', 1, 1, 1};
  const char *text = gemm_text(&g), *dot = strstr(text, "dot acc");
  Ev *e = ev_new(arena_printf(a, "%.*sif k == 1 { continue }\n%s", (int)(dot - text), text, dot));
  LowerNotes notes = {0};
  Passes p = lower_passes(e, NULL, &notes);
  for (size_t i = 0; i < p.v.n; i++)
    ck_assert_str_ne(p.v.v[i].name, "channels");
  ck_assert_ptr_nonnull(strstr(notes_of(e, &notes), "break, continue or while around the copies"));
  ev_free(e);
  arena_free(a);
}
END_TEST

START_TEST(declined_with_a_note) {
  declined(&(Gemm){"f16", 96, 128, 64, 3, 'n', 'n', 1, 1, 1}, "rows by 64");
  declined(&(Gemm){"f16", 128, 264, 64, 3, 'n', 'n', 1, 1, 1}, "columns by 8 up to 256");
  declined(&(Gemm){"f16", 128, 128, 24, 3, 'n', 'n', 1, 1, 1}, "K by 32 bytes");
  declined(&(Gemm){"f16", 256, 256, 64, 3, 'n', 'n', 1, 1, 1}, "registers a thread");
  declined(&(Gemm){"f16", 192, 208, 64, 3, 'n', 'n', 1, 1, 1}, "registers a thread");
  declined(&(Gemm){"f32", 128, 128, 64, 3, 'n', 'n', 1, 1, 1}, "type of the tensor cores");
}
END_TEST

int main(void) {
  const TTest *const tests[] = {products_of_all_orders,
                                products_of_all_tiles,
                                products_of_all_trips,
                                eight_bits,
                                results_of_a_byte,
                                tf32_on_request,
                                epilogues_and_batches,
                                chained_products,
                                declined_with_a_note,
                                jumps_are_declined,
                                NULL};
  return run_suite("schedule", tests);
}
