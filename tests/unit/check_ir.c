/* check_ir.c: expressions, text, the verifier, uniformity, binding.
 *
 * Text: print, read, print is the identity on random kernels of every level and on the kernels of
 * tests/lower. The verifier's table gives a kernel and the code that it must report. Broken texts
 * are made by mutation: reading one may fail, never crash.
 */
#include <check.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "ir_random.h"

static const char *errors_of(Arena *a, const DiagSink *sink) {
  Str s = str_new(a);
  diag_format_all(sink, false, &s);
  return str_text(&s);
}

static bool try_read(Arena *a, const char *text, size_t n, DiagSink *sink, IrKernels *out) {
  return ir_read(a, names_new(a), src_new(a, "test.ir", text, n), sink, out);
}

static IrKernel *read_one(Arena *a, const char *text) {
  DiagSink sink;
  IrKernels ks = {0};
  diag_init(&sink, a);
  ck_assert_msg(try_read(a, text, strlen(text), &sink, &ks), "%s", errors_of(a, &sink));
  return ks.v[0];
}

static const char *print_one(Arena *a, const IrKernel *k) {
  Str s = str_new(a);
  ir_print(k, &s);
  return str_text(&s);
}

/* ---------------------------------------------------------------- expressions */

static Arena *arena;
static IrKernel *fresh;

static void set_up(void) {
  arena = arena_new(NULL, "test");
  fresh = ir_kernel_new(arena, names_new(arena), "k", IR_TILE);
}

static void tear_down(void) {
  arena_free(arena);
}

static IrExpr *var(const char *name, DType t) {
  return ir_ref(fresh, ir_var(fresh, IRV_LET, name, t));
}

START_TEST(equal_nodes_are_one) {
  IrExpr *x = var("x", DT_I32), *y = var("y", DT_I32);
  ck_assert_ptr_eq(ir_op2(fresh, OP_ADD, x, y), ir_op2(fresh, OP_ADD, y, x));
  ck_assert_ptr_ne(ir_op2(fresh, OP_SUB, x, y), ir_op2(fresh, OP_SUB, y, x));
  ck_assert_ptr_eq(ir_op2(fresh, OP_LT, x, y), ir_op2(fresh, OP_GT, y, x));
  ck_assert_ptr_ne(ir_float(fresh, DT_F32, 0.0), ir_float(fresh, DT_F32, -0.0));
  ck_assert_ptr_eq(ir_int(fresh, 7), ir_int_of(fresh, DT_I64, 7));
}
END_TEST

START_TEST(exact_simplifications) {
  IrExpr *x = var("x", DT_I32), *f = var("f", DT_F32), *b = var("b", DT_BOOL);
  IrExpr *zero = ir_int_of(fresh, DT_I32, 0), *one = ir_int_of(fresh, DT_I32, 1);
  ck_assert_ptr_eq(ir_op2(fresh, OP_ADD, x, zero), x);
  ck_assert_ptr_eq(ir_op2(fresh, OP_MUL, one, x), x);
  ck_assert_ptr_eq(ir_op2(fresh, OP_MUL, x, zero), zero);
  ck_assert_ptr_eq(ir_op2(fresh, OP_FLOORDIV, x, one), x);
  ck_assert_ptr_eq(ir_op2(fresh, OP_SUB, x, x), zero);
  ck_assert_ptr_eq(ir_op2(fresh, OP_LE, x, x), ir_bool(fresh, true));
  ck_assert_ptr_eq(ir_op1(fresh, OP_NOT, ir_op1(fresh, OP_NOT, b)), b);
  ck_assert_ptr_eq(ir_op3(fresh, OP_SELECT, ir_bool(fresh, true), x, zero), x);
  IrExpr *three = ir_int_of(fresh, DT_I32, 3);
  IrExpr *sum = ir_op2(fresh, OP_SUB, ir_op2(fresh, OP_ADD, x, one), three);
  ck_assert_ptr_eq(sum, ir_op2(fresh, OP_SUB, x, ir_int_of(fresh, DT_I32, 2)));
  /* not exact for floats: -0.0 + 0.0 is 0.0, and NaN is not itself */
  ck_assert_ptr_ne(ir_op2(fresh, OP_ADD, f, ir_float(fresh, DT_F32, 0.0)), f);
  ck_assert_int_ne(ir_op2(fresh, OP_EQ, f, f)->op, OP_CONST);
  ck_assert_ptr_eq(ir_op2(fresh, OP_MUL, f, ir_float(fresh, DT_F32, 1.0)), f);
}
END_TEST

START_TEST(faults_are_kept) {
  IrExpr *x = var("x", DT_I64), *zero = ir_int(fresh, 0);
  IrExpr *bad = ir_op2(fresh, OP_FLOORDIV, ir_int(fresh, 1), zero);
  ck_assert(bad->op == OP_FLOORDIV && bad->may_fault);
  ck_assert(ir_op2(fresh, OP_MUL, ir_op2(fresh, OP_MOD, zero, x), zero)->may_fault);
  ck_assert(!ir_op2(fresh, OP_MOD, x, ir_int(fresh, 3))->may_fault);
}
END_TEST

START_TEST(casts_nest) {
  IrExpr *x = var("x", DT_I32), *u = var("u", DT_U8);
  ck_assert_ptr_eq(ir_cast(fresh, ir_cast(fresh, x, DT_I64), DT_I32), x);
  IrExpr *narrow = ir_cast(fresh, ir_cast(fresh, x, DT_I16), DT_I32);
  ck_assert(narrow->op == OP_CAST && narrow->arg[0]->op == OP_CAST);
  ck_assert_ptr_eq(ir_cast(fresh, ir_cast(fresh, u, DT_I32), DT_I64), ir_cast(fresh, u, DT_I64));
}
END_TEST

/* Doubling forty times would be a tree of 2^40 nodes: refused, in no time. */
START_TEST(shared_parts_have_names) {
  DiagSink sink;
  diag_init(&sink, arena);
  IrKernel *k = read_one(arena, "kernel k tile(x: f32) {\n  let y: f32 = x\n}\n");
  IrExpr *e = k->body.v[0]->as.let.value;
  for (int i = 0; i < 40; i++)
    e = ir_op2(k, OP_MUL, e, e);
  k->body.v[0]->as.let.value = e;
  ck_assert(!ir_verify(k, &sink));
  ck_assert_int_eq(sink.v[0]->code, E0653);
}
END_TEST

START_TEST(ranges) {
  IrVar *v = ir_var(fresh, IRV_INDEX, "i", DT_I32);
  v->lo = 0;
  v->hi = 127;
  int64_t lo, hi;
  IrExpr *i = ir_ref(fresh, v), *c = ir_int_of(fresh, DT_I32, 32);
  ck_assert(ir_range(ir_op2(fresh, OP_FLOORDIV, i, c), &lo, &hi) && lo == 0 && hi == 3);
  ck_assert(ir_range(ir_op2(fresh, OP_MOD, i, c), &lo, &hi) && lo == 0 && hi == 31);
  ck_assert(ir_range(ir_op2(fresh, OP_SUB, c, i), &lo, &hi) && lo == -95 && hi == 32);
  IrExpr *large = ir_op2(fresh, OP_MUL, i, ir_int_of(fresh, DT_I32, 1 << 30));
  ck_assert(!ir_range(large, &lo, &hi)); /* it may wrap */
  ck_assert(!ir_range(var("x", DT_I32), &lo, &hi));
}
END_TEST

/* Every operation that keeps bounds, over all pairs of two small ranges: no value lies outside, and
 * both bounds of what is monotone are reached. */
START_TEST(ranges_hold) {
  static const struct {
    OpCode op;
    int tight; /* the bounds are reached */
  } rows[] = {{OP_ADD, 1},      {OP_SUB, 1}, {OP_MUL, 1}, {OP_MIN2, 1}, {OP_MAX2, 1},
              {OP_FLOORDIV, 1}, {OP_MOD, 0}, {OP_AND, 0}, {OP_OR, 0},   {OP_XOR, 0},
              {OP_CEILDIV, 1},  {OP_SHL, 1}, {OP_SHR, 1}};
  static const int64_t bound[][2] = {{-7, 9}, {0, 5}, {3, 4}, {1, 6}, {-9, -2}};
  for (int at = 0; at < 13 * 25; at++) {
    OpCode op = rows[at / 25].op;
    const int64_t *a = bound[at % 5], *b = bound[at / 5 % 5];
    IrVar *x = ir_var(fresh, IRV_INDEX, "x", DT_I32), *y = ir_var(fresh, IRV_INDEX, "y", DT_I32);
    x->lo = a[0], x->hi = a[1], y->lo = b[0], y->hi = b[1];
    int64_t lo, hi, least = INT64_MAX, most = INT64_MIN;
    if (!ir_range(ir_op2(fresh, op, ir_ref(fresh, x), ir_ref(fresh, y)), &lo, &hi)) {
      ck_assert(b[0] <= 0 || (a[0] < 0 && (op == OP_OR || op == OP_XOR)));
      continue;
    }
    for (int64_t i = a[0]; i <= a[1]; i++)
      for (int64_t j = b[0]; j <= b[1]; j++) {
        int64_t v = 0;
        ck_assert(ir_is_const(
            ir_op2(fresh, op, ir_int_of(fresh, DT_I32, i), ir_int_of(fresh, DT_I32, j)), &v));
        ck_assert_msg(v >= lo && v <= hi, "%s: %d and %d", op_info(op)->name, (int)i, (int)j);
        least = v < least ? v : least;
        most = v > most ? v : most;
      }
    ck_assert(!rows[at / 25].tight || (least == lo && most == hi));
  }
}
END_TEST

START_TEST(replacing) {
  IrVar *v = ir_var(fresh, IRV_LET, "i", DT_I64);
  IrExpr *e = ir_op2(fresh, OP_ADD, ir_op2(fresh, OP_MUL, ir_ref(fresh, v), ir_int(fresh, 4)),
                     ir_int(fresh, 1));
  IrExpr *to[16] = {0};
  to[v->id] = ir_int(fresh, 10);
  ck_assert_ptr_eq(ir_replace(fresh, e, to, v->id + 1), ir_int(fresh, 41));
}
END_TEST

/* ---------------------------------------------------------------- text */

/* The first line in which two texts differ, from both. */
static const char *difference(Arena *a, const char *x, const char *y) {
  size_t line = 0, i = 0;
  for (; x[i] && x[i] == y[i]; i++)
    line = x[i] == '\n' ? i + 1 : line;
  return arena_printf(a, "%.*s\n%.*s", (int)strcspn(x + line, "\n"), x + line,
                      (int)strcspn(y + line, "\n"), y + line);
}

static void check_round_trip(IrKernel *k, const char *what) {
  Arena *a = arena_new(NULL, "text");
  DiagSink sink;
  IrKernels again = {0};
  diag_init(&sink, a);
  const char *first = print_one(a, k);
  bool ok = try_read(a, first, strlen(first), &sink, &again);
  ck_assert_msg(ok && again.n == 1, "%s: %.3000s", what, errors_of(a, &sink));
  const char *second = print_one(a, again.v[0]);
  ck_assert_msg(!strcmp(first, second), "%s:\n%s", what, difference(a, first, second));
  const char *third = print_one(a, ir_kernel_clone(a, k));
  ck_assert_msg(!strcmp(first, third), "%s, cloned:\n%s", what, difference(a, first, third));
  arena_free(a);
}

START_TEST(random_kernels) {
  for (uint64_t seed = 0; seed < 400; seed++) {
    Arena *a = arena_new(NULL, "kernel");
    IrKernel *k = ir_random(a, names_new(a), seed, (IrLevel)_i);
    check_round_trip(k, arena_printf(a, "seed %llu of level %d", (unsigned long long)seed, _i));
    arena_free(a);
  }
}
END_TEST

/* The verifier holds no random kernel to be anything but a kernel: it answers, and does not crash;
 * what it accepts still prints the same. */
START_TEST(random_kernels_verified) {
  for (uint64_t seed = 1000; seed < 1200; seed++) {
    Arena *a = arena_new(NULL, "kernel");
    DiagSink sink;
    diag_init(&sink, a);
    IrKernel *k = ir_random(a, names_new(a), seed, (IrLevel)_i);
    const char *before = print_one(a, k);
    ir_verify(k, &sink);
    ck_assert_str_eq(before, print_one(a, k));
    arena_free(a);
  }
}
END_TEST

START_TEST(kernels_of_files) {
  DIR *dir = opendir(TILESH_SRCDIR "/tests/lower");
  int n = 0;
  ck_assert_ptr_nonnull(dir);
  for (struct dirent *d; (d = readdir(dir));) {
    size_t len = strlen(d->d_name);
    if (len < 4 || strcmp(d->d_name + len - 3, ".ir"))
      continue;
    Arena *a = arena_new(NULL, "file");
    DiagSink sink;
    IrKernels ks = {0};
    const char *why;
    size_t size;
    diag_init(&sink, a);
    char *text = io_read_file(a, arena_printf(a, "%s/tests/lower/%s", TILESH_SRCDIR, d->d_name),
                              &size, &why);
    ck_assert_msg(text && try_read(a, text, size, &sink, &ks), "%s: %s", d->d_name,
                  errors_of(a, &sink));
    for (size_t i = 0; i < ks.n; i++) {
      ck_assert_msg(ir_verify(ks.v[i], &sink), "%s: %s", d->d_name, errors_of(a, &sink));
      check_round_trip(ks.v[i], d->d_name);
    }
    n++;
    arena_free(a);
  }
  closedir(dir);
  ck_assert_int_gt(n, 3);
}
END_TEST

START_TEST(constants_keep_their_types) {
  static const char text[] = "kernel c tile(n: i32, q: u64) -> (X: f16[1]) {\n"
                             "  let a: i32 = n + 3\n"
                             "  let b: u64 = q << 3\n"
                             "  let c: f16 = 1.5\n"
                             "  let d: f64 = 0.1\n"
                             "  let e: bool = f32(n) > 0.25\n"
                             "  let f: i64 = i64(n * 7:i32)\n"
                             "  let g: u64 = 18446744073709551615\n"
                             "  let h: i64 = -9223372036854775808\n"
                             "  let i: f32 = -inf\n"
                             "  let j: i32 = 1 // (n - n)\n"
                             "}\n";
  IrKernel *k = read_one(arena, text);
  int64_t v;
  ck_assert(ir_is_const(k->body.v[6]->as.let.value, &v) && v == -1);
  ck_assert(ir_is_const(k->body.v[7]->as.let.value, &v) && v == INT64_MIN);
  ck_assert_int_eq(k->body.v[2]->as.let.value->type, DT_F16);
  check_round_trip(k, "constants");
}
END_TEST

START_TEST(names_hide_and_part) {
  IrKernel *k =
      read_one(arena, "const SIZE = 4 * 2\n"
                      "kernel n tile() -> (X: i64[SIZE]) {\n"
                      "  for i: i64 = 0, SIZE, 1 {\n    let x: i64 = i\n    store X[i] = x\n  }\n"
                      "  for i: i64 = 0, SIZE, 1 {\n    let x: i64 = i + 1\n"
                      "    if x > 3 {\n      let x: i64 = 5\n      store X[i] = x\n    }\n  }\n"
                      "}\n");
  const char *text = print_one(arena, k);
  ck_assert_ptr_nonnull(strstr(text, "let x_2: i64 = 5"));
  ck_assert_ptr_nonnull(strstr(text, "X: i64[8]"));
  check_round_trip(k, "names");
}
END_TEST

/* ---------------------------------------------------------------- errors of the text */

typedef struct Bad {
  const char *text;
  DiagCode code;
} Bad;

static const Bad bad_texts[] = {
    {"", E0601},
    {"kernel", E0601},
    {"kernel k tile(", E0601},
    {"kernel k tile() { let x: i32 = }", E0601},
    {"kernel k tile() { let x: i32 = (1 + 2 }", E0601},
    {"kernel k tile() { for i: i32 = 0, 3 { } }", E0601},
    {"kernel k tile() { let x: i32 = 99999999999999999999 }", E0602},
    {"kernel k tile() { print \"abc\n }", E0602},
    {"kernel k tile() { let x: i32 = 1 $ 2 }", E0602},
    {"kernel k tile() { frobnicate x }", E0603},
    {"kernel k tile() { let x: f32 = sine(1.0) }", E0603},
    {"kernel k tile() { let x: f32 = fma(1.0, 2.0) }", E0603},
    {"kernel k tile() { let x: i32 = y }", E0604},
    {"kernel k tile() { let x: i32 = 1 let x: i32 = 2 }", E0604},
    {"kernel k tile() { let x: i32 = 1 set x = 2 }", E0604},
    {"kernel k tile(A: f32[N]) { let x: f32 = A }", E0604},
    {"kernel k tile(A: f32[N]) { let x: i64 = A.stride3 }", E0604},
    {"kernel k tile(n: i32) { let x: i64 = n }", E0605},
    {"kernel k tile(n: i32) { let x: i8 = 300 }", E0605},
    {"kernel k tile(n: i32) { let x: i32 = 1.5 }", E0605},
    {"kernel k tile(n: i32, m: i64) { let x: i64 = n + m }", E0606},
    {"kernel k tile(x: f32) { let y: f32 = x & x }", E0606},
    {"kernel k tile(A: f32[N]) { tmap t = A dim [] stride [] box [] swizzle 0 }", E0607},
    {"const A = A + A\nkernel k tile() { let x: i64 = A }", E0603},
};

START_TEST(texts_with_errors) {
  for (size_t i = 0; i < sizeof bad_texts / sizeof *bad_texts; i++) {
    DiagSink sink;
    IrKernels ks = {0};
    diag_init(&sink, arena);
    const char *text = bad_texts[i].text;
    ck_assert_msg(!try_read(arena, text, strlen(text), &sink, &ks), "%s", text);
    ck_assert_msg(sink.n > 0 && sink.v[0]->code == bad_texts[i].code, "%s: %s", text,
                  errors_of(arena, &sink));
  }
}
END_TEST

START_TEST(many_errors_are_twenty) {
  Str s = str_new(arena);
  DiagSink sink;
  IrKernels ks = {0};
  diag_init(&sink, arena);
  str_add(&s, "kernel k tile() {\n");
  for (int i = 0; i < 100; i++)
    str_addf(&s, "let x%d: i32 = y%d\n", i, i);
  str_add(&s, "}\n");
  ck_assert(!try_read(arena, str_text(&s), s.n, &sink, &ks));
  ck_assert_uint_eq(sink.n, 20);
}
END_TEST

START_TEST(deep_texts) {
  static const char *const parts[] = {"(",       "-",    "if true {",
                                      "while {", "fma(", "role a warps 0:+4 {"};
  for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
    Str s = str_new(arena);
    DiagSink sink;
    IrKernels ks = {0};
    diag_init(&sink, arena);
    str_add(&s, "kernel k tile() { ");
    if (p == 0 || p == 1 || p == 4)
      str_add(&s, "let x: f32 = ");
    for (int i = 0; i < 100000; i++)
      str_add(&s, parts[p]);
    ck_assert(!try_read(arena, str_text(&s), s.n, &sink, &ks));
  }
}
END_TEST

static uint64_t rng = 12345;
static size_t pick(size_t n) {
  rng = rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (size_t)((rng >> 33) % n);
}

/* Cuts, repeats and overwrites pieces of a text. */
static char *mutate(Arena *a, const char *text, size_t *n) {
  char *s = arena_alloc(a, 2 * *n + 64);
  memcpy(s, text, *n);
  for (size_t m = 1 + pick(6); m > 0 && *n > 8; m--) {
    size_t from = pick(*n - 4), len = 1 + pick(*n - from - 1 < 40 ? *n - from - 1 : 40);
    if (pick(3) == 0) {
      memmove(s + from, s + from + len, *n - from - len);
      *n -= len;
    } else if (pick(2)) {
      size_t to = pick(*n - 1);
      memmove(s + to, s + from, len < *n - to ? len : *n - to);
    } else {
      s[from] = (char)pick(256);
    }
  }
  return s;
}

START_TEST(broken_texts) {
  for (uint64_t seed = 0; seed < 300; seed++) {
    Arena *a = arena_new(NULL, "kernel");
    DiagSink sink;
    IrKernels ks = {0};
    diag_init(&sink, a);
    IrKernel *k = ir_random(a, names_new(a), seed, (IrLevel)_i);
    const char *text = print_one(a, k);
    size_t n = strlen(text);
    char *broken = mutate(a, text, &n);
    if (try_read(a, broken, n, &sink, &ks))
      for (size_t i = 0; i < ks.n; i++) {
        check_round_trip(ks.v[i], "a mutated text that still reads");
        ir_verify(ks.v[i], &sink);
      }
    arena_free(a);
  }
}
END_TEST

/* ---------------------------------------------------------------- the verifier */

#define THREAD(body)                                                                               \
  "kernel k thread(A: f32[N]) -> (C: f32[N]) {\n  threads 256\n  shared_bytes 4096\n" body "}\n"
#define TILE(body) "kernel k tile(A: f32[N, 64], H: f16[N]) -> (C: f32[N, 64]) {\n" body "}\n"

static const Bad bad_kernels[] = {
    {"kernel k thread() { threads 100 }", E0650},
    {"kernel k thread() { let x: i32 = 1 }", E0650},
    {"kernel k tile(n: i32) { pre { if true { } } }", E0650},
    {TILE("syncthreads\n"), E0651},
    {TILE("dot_wait 0\n"), E0651},
    {TILE("shared s: f32[8, 8]\nfragment f: f32[8, 8]\ndot f = s @ s unit fma\n"), E0651},
    {TILE("let x: i32 = tid()\n"), E0651},
    {TILE("reg r: f32[4]\n"), E0651},
    {THREAD("fragment x: f32[4]\n"), E0651},
    {THREAD("copy C = A\n"), E0651},
    {TILE("load x: f32 = H[0]\n"), E0653},
    {TILE("store C[0, 0] = f32(1) == 1\n"), E0605},
    {TILE("shared s: f32[N]\n"), E0654},
    {TILE("shared s: f32[8]\ncopy s[4:+8] = A[0, 0:+8]\n"), E0654},
    {TILE("shared s: f32[8] layout swizzle(48)\n"), E0654},
    {TILE("shared s: f32[8, 8] layout rows columns\n"), E0654},
    {TILE("shared s: f32[8]\nshared t: f32[9]\ncopy s = t\n"), E0655},
    {TILE("shared s: f32[8]\ncopy s = A\n"), E0655},
    {TILE("shared a: f16[8, 4]\nshared b: f16[5, 8]\nfragment c: f32[8, 8]\ndot c = a @ b\n"),
     E0655},
    {TILE("copy A = C[0:+1, 0:+1]\n"), E0656},
    {TILE("store A[0, 0] = 1\n"), E0656},
    {TILE("break\n"), E0657},
    {TILE("map i in [4] { break }\n"), E0657},
    {TILE("var x: i32 = 0\nparallel i in [4] { set x = 1 }\n"), E0657},
    {TILE("map i in [4] { shared s: f32[4] }\n"), E0657},
    {TILE("map i in [4] { map j in [4] { } }\n"), E0657},
    {TILE("shared a: f16[8, 8]\nshared b: bf16[8, 8]\nfragment c: f32[8, 8]\ndot c = a @ b\n"),
     E0658},
    {TILE("shared s: f32[8]\nscan s = prod(s) axis 0\n"), E0658},
    {TILE("shared s: bf16[8]\natomic _ = atomic_max(s[0], 1)\n"), E0659},
    {THREAD("reg r: f32[8]\nfor i: i32 = 0, 8, 1 { store r[i] = 0 }\n"), E0660},
    {THREAD("reg r: f32[8]\nfor i: i32 = 0, 9, 1 unroll { store r[i] = 0 }\n"), E0660},
    {THREAD("reg r: f32[8]\nfor i: i32 = 0, 2, 1 unroll { ld_shared r[4*i + 2:+4], 0 }\n"), E0660},
    {THREAD("reg r: f32[8]\nload x: f32 = r[tid()]\n"), E0660},
    {THREAD("reg r: f32[8]\nld_shared r[0:+8], 0\n"), E0661},
    {THREAD("setmaxnreg_inc 100\n"), E0661},
    {THREAD("bar_sync 16, 128\n"), E0661},
    {THREAD("bar_sync 1, 100\n"), E0661},
    {THREAD("cp_async 0, &A[0], 12, 12\n"), E0661},
    {THREAD("reg d: f32[4]\nreg a: u32[2]\nmma_sync d[0:+4], a[0:+2], a[0:+2], f16\n"), E0661},
    {THREAD("reg d: f32[4]\nreg a: u32[4]\nmma_sync d[0:+4], a[0:+4], a[0:+2], u8\n"), E0661},
    {THREAD("reg d: f64[4]\nreg a: f64[4]\nmma_sync d[0:+4], a[0:+4], a[0:+1], f64\n"), E0661},
    {THREAD("if tid() == 0 { syncthreads }\n"), E0662},
    {THREAD("for i: i32 = 0, tid(), 1 { syncwarp }\n"), E0662},
    {THREAD("if warp() == 0 { syncthreads }\n"), E0662},
    {THREAD("for i: i32 = 0, 4, 1 { if tid() == i { break }\n syncwarp }\n"), E0662},
    {THREAD("load x: f32 = C[0]\nif x > 0.0 { syncthreads }\n"), E0662},
    {THREAD("roles { role a warps 0:+2 { setmaxnreg_dec 40 } }\n"), E0663},
    {THREAD("reg d: f32[4]\nlet a: u64 = desc(tid() // 32, 0, 0, 0)\n"
            "wgmma_ss d[0:+4], a, a, true, 8, f16, 0, 0\n"),
     E0664},
    {THREAD("reg d: f32[4]\nshfl_idx y: i32, tid(), 0\nlet a: u64 = desc(y, 0, 0, 0)\n"
            "wgmma_ss d[0:+4], a, a, true, 8, f16, 0, 0\n"),
     E0664},
    {THREAD("if warp() == 1 { setmaxnreg_dec 40 }\n"), E0663},
    {"kernel k thread() {\n  threads 96\n  wgmma_fence\n}\n", E0663},
    {THREAD("var x: i32 group = 0\nset x = warp()\n"), E0665},
    {THREAD("var x: i32 block = 0\nset x = warp()\n"), E0665},
    {THREAD("var x: i32 warp = 0\nif lane() == 0 { set x = 1 }\n"), E0665},
    {THREAD("reg r: f32[4]\nld_shared r[0:+4], 4084\n"), E0666},
    {THREAD("shared s: f32[4] at 4090\n"), E0666},
    {THREAD("mbar_init 12, 1\n"), E0666},
    {"kernel k thread(A: f16[M, N]) { tmap t = A dim [N, M] stride [N*2] box [128, 8] swizzle 128\n"
     "threads 32 }",
     E0667},
    {"kernel k thread(A: f16[M, N]) { tmap t = A dim [N, M] stride [24] box [8, 257] swizzle 0\n"
     "threads 32 }",
     E0667},
    {THREAD("roles { role a warps 0:+4 { } role b warps 3:+4 { } }\n"), E0668},
    {THREAD("roles { role a warps 0:+16 { } }\n"), E0668},
    {THREAD("roles { role a warps 0:+4 { roles { } } }\n"), E0668},
    {TILE("shared s: u64[2]\narrive s[0]\n"), E0669},
    {TILE("shared s: u64[2]\nshared t: f32[64]\ncopy t = A[0, 0:+64] signal s[0]\n"), E0669},
    {THREAD("shared s: u64[2] at 0 arrivals 1\nawait s[0] parity 0\n"), E0651},
};

START_TEST(kernels_with_errors) {
  for (size_t i = 0; i < sizeof bad_kernels / sizeof *bad_kernels; i++) {
    DiagSink sink;
    IrKernels ks = {0};
    diag_init(&sink, arena);
    const char *text = bad_kernels[i].text;
    bool read = try_read(arena, text, strlen(text), &sink, &ks);
    ck_assert_msg(!read || !ir_verify(ks.v[0], &sink), "accepted: %s", text);
    ck_assert_msg(sink.v[0]->code == bad_kernels[i].code, "%s: %s", text, errors_of(arena, &sink));
  }
}
END_TEST

static void let_in(IrKernel *k, IrBlock *block, IrVar *var, IrExpr *value) {
  IrStmt *s = ir_add(k, block, IRK_LET, (Span){NULL, 0, 0});
  s->as.let.var = var;
  s->as.let.value = value;
}

/* The reader finds names out of scope itself (E0604); what passes make the verifier sees. */
START_TEST(names_out_of_scope) {
  static const char *const say[] = {"`x` is used before it is defined", "`x` is defined twice",
                                    "`x` is used outside the block that defines it"};
  for (int i = 0; i < 3; i++) {
    DiagSink sink;
    diag_init(&sink, arena);
    IrKernel *k = ir_kernel_new(arena, names_new(arena), "k", IR_TILE);
    IrVar *x = ir_var(k, IRV_LET, "x", DT_I32), *y = ir_var(k, IRV_LET, "y", DT_I32);
    IrStmt *branch = ir_add(k, &k->body, IRK_IF, (Span){NULL, 0, 0});
    branch->as.if_.cond = ir_bool(k, true);
    if (i > 0)
      let_in(k, i == 1 ? &k->body : &branch->as.if_.then, x, ir_int_of(k, DT_I32, 1));
    if (i == 1)
      let_in(k, &k->body, x, ir_int_of(k, DT_I32, 2));
    let_in(k, &k->body, y, ir_ref(k, x));
    ck_assert(!ir_verify(k, &sink));
    ck_assert_int_eq(sink.v[0]->code, E0604);
    ck_assert_msg(strstr(sink.v[0]->text, say[i]) != NULL, "%s", sink.v[0]->text);
  }
}
END_TEST

static const char *const good_kernels[] = {
    THREAD("for i: i32 = 0, i32(N), 1 { syncthreads }\n"),
    THREAD("if warp() == 3 { syncwarp }\n"),
    THREAD("load x: f32 = A[0]\nif x > 0.0 { syncthreads }\n"),
    THREAD("shared s: f32[1] at 0\nload x: f32 = s[0]\nif x > 0.0 { syncthreads }\n"),
    THREAD("if warp() < 4 { wgmma_fence } else { setmaxnreg_dec 40 }\n"),
    THREAD("vote_any q: bool, tid() == 3\nif q { syncwarp }\n"),
    THREAD("let y: i32 = warp() // 4\nlet d: u64 = desc(y, 0, 0, 0)\nreg r: f32[4]\n"
           "wgmma_ss r[0:+4], d, d, true, 8, f16, 0, 0\n"),
    THREAD("var x: i32 = 0\nif lane() == 0 { set x = 1 }\n"),
    THREAD("if lane() == 0 {\n var x: i32 warp = 0\n set x = 1\n}\n"),
    THREAD("reg r: u32[4]\nfor i: i32 = 0, 4, 1 unroll { if tid() < i { store r[i // 2] = 1 } }\n"),
    THREAD("roles { role a warps 0:+4 { if tid() == 0 { } else { } syncwarp } role b warps 4:+4 { "
           "} }\n"),
};

START_TEST(kernels_without_errors) {
  for (size_t i = 0; i < sizeof good_kernels / sizeof *good_kernels; i++) {
    DiagSink sink;
    diag_init(&sink, arena);
    IrKernel *k = read_one(arena, good_kernels[i]);
    ck_assert_msg(ir_verify(k, &sink), "%s: %s", good_kernels[i], errors_of(arena, &sink));
  }
}
END_TEST

/* ---------------------------------------------------------------- binding */

static IrBinding *binding(const IrKernel *k, int n, const int64_t (*shape)[3]) {
  IrBinding *b = ir_binding_new(arena, k);
  int at = 0;
  for (size_t i = 0; i < k->params.n && at < n; i++) {
    const IrBuffer *buf = k->params.v[i].buf;
    if (!buf || (buf->role != IRR_IN && buf->role != IRR_INOUT))
      continue;
    IrTensorArg *t = &b->tensor[buf->id];
    t->rank = buf->rank;
    for (int d = 0; d < buf->rank; d++)
      t->extent[d] = shape[at][d];
    for (int64_t d = buf->rank - 1, s = 1; d >= 0; s *= t->extent[d--])
      t->stride[d] = s;
    at++;
  }
  return b;
}

START_TEST(binds_extents_and_outputs) {
  IrKernel *k = read_one(
      arena,
      "kernel k tile(A: f16[M, 2 * N + 1], B: f16[N, M]) -> (C: f32[ceildiv(M, 4), "
      "N], D: i32[]) {\n  pre { let t: i64 = M * N }\n  grid x, y = t, ceildiv(sms, 2)\n}\n");
  static const int64_t shape[][3] = {{10, 7}, {3, 10}};
  DiagSink sink;
  diag_init(&sink, arena);
  IrBinding *b = binding(k, 2, shape);
  ck_assert_msg(ir_bind(k, b, 132, &sink), "%s", errors_of(arena, &sink));
  const IrTensorArg *c = &b->tensor[k->params.v[2].buf->id];
  ck_assert(c->rank == 2 && c->extent[0] == 3 && c->extent[1] == 3 && c->stride[0] == 3);
  ck_assert_int_eq(b->tensor[k->params.v[3].buf->id].rank, 0);
  ck_assert(b->grid[0] == 30 && b->grid[1] == 66 && b->grid[2] == 1);
}
END_TEST

typedef struct BadBind {
  const char *text;
  int64_t shape[2][3];
  DiagCode code;
} BadBind;

static const BadBind bad_binds[] = {
    {"kernel k tile(A: f32[M, K], B: f32[K, N]) { }", {{4, 5}, {6, 7}}, E0380},
    {"kernel k tile(A: f32[2 * N]) { }", {{5}, {0}}, E0380},
    {"kernel k tile(A: f32[N + 9]) { }", {{5}, {0}}, E0380},
    {"kernel k tile(A: f32[8]) { }", {{9}, {0}}, E0380},
    {"kernel k tile(A: f32[N * M]) { }", {{9}, {0}}, E0381},
    {"kernel k tile(A: f32[N]) -> (C: f32[Q]) { }", {{9}, {0}}, E0381},
    {"kernel k tile(A: f32[N]) -> (C: f32[N - 10]) { }", {{9}, {0}}, E0383},
    {"kernel k tile(A: f32[N, M], B: f32[K, L]) -> (C: f32[N * M * K * L, N * M * K * L]) { }",
     {{1 << 20, 1 << 20}, {1, 1}},
     E0383},
    {"kernel k tile(A: f32[N]) { grid x = 100 // N }", {{0}, {0}}, E0385},
    {"kernel k tile(A: f32[N]) { grid x = N - 10 }", {{3}, {0}}, E0385},
    {"kernel k tile(A: f32[N]) { pre { let t: i64 = 1 % N } }", {{0}, {0}}, E0385},
};

START_TEST(binds_with_errors) {
  for (size_t i = 0; i < sizeof bad_binds / sizeof *bad_binds; i++) {
    DiagSink sink;
    diag_init(&sink, arena);
    IrKernel *k = read_one(arena, bad_binds[i].text);
    bool ok = ir_bind(k, binding(k, 2, bad_binds[i].shape), 132, &sink);
    ck_assert_msg(!ok && sink.v[0]->code == bad_binds[i].code, "%s: %s", bad_binds[i].text,
                  errors_of(arena, &sink));
  }
}
END_TEST

START_TEST(strides_that_are_not_asked_for) {
  IrKernel *k = read_one(arena, "kernel k tile(A: f32[M, N], B: f32[M, N] strided) { }");
  static const int64_t shape[][3] = {{4, 5}, {4, 5}};
  DiagSink sink;
  diag_init(&sink, arena);
  IrBinding *b = binding(k, 2, shape);
  b->tensor[1].stride[0] = 100;
  ck_assert(ir_bind(k, b, 132, &sink));
  ck_assert_int_eq(b->value[k->params.v[1].buf->stride[0]->id].as.i, 100);
  b->tensor[0].stride[0] = 100;
  ck_assert(!ir_bind(k, b, 132, &sink));
  ck_assert_int_eq(sink.v[0]->code, E0384);
}
END_TEST

/* ---------------------------------------------------------------- all */

static void add_text_cases(Suite *s) {
  TCase *c = tcase_create("text");
  tcase_add_checked_fixture(c, set_up, tear_down);
  tcase_set_timeout(c, 120);
  tcase_add_loop_test(c, random_kernels, 0, 3);
  tcase_add_loop_test(c, random_kernels_verified, 0, 3);
  tcase_add_loop_test(c, broken_texts, 0, 3);
  tcase_add_test(c, kernels_of_files);
  tcase_add_test(c, constants_keep_their_types);
  tcase_add_test(c, names_hide_and_part);
  tcase_add_test(c, texts_with_errors);
  tcase_add_test(c, many_errors_are_twenty);
  tcase_add_test(c, deep_texts);
  suite_add_tcase(s, c);
}

int main(void) {
  Suite *s = suite_create("ir");
  TCase *e = tcase_create("expressions"), *v = tcase_create("verifier");
  tcase_add_checked_fixture(e, set_up, tear_down);
  tcase_add_checked_fixture(v, set_up, tear_down);
  tcase_add_test(e, equal_nodes_are_one);
  tcase_add_test(e, exact_simplifications);
  tcase_add_test(e, faults_are_kept);
  tcase_add_test(e, casts_nest);
  tcase_add_test(e, shared_parts_have_names);
  tcase_add_test(e, ranges);
  tcase_add_test(e, ranges_hold);
  tcase_add_test(e, replacing);
  tcase_add_test(v, kernels_with_errors);
  tcase_add_test(v, names_out_of_scope);
  tcase_add_test(v, kernels_without_errors);
  tcase_add_test(v, binds_extents_and_outputs);
  tcase_add_test(v, binds_with_errors);
  tcase_add_test(v, strides_that_are_not_asked_for);
  suite_add_tcase(s, e);
  suite_add_tcase(s, v);
  add_text_cases(s);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? 1 : 0;
}
