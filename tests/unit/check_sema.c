/* check_sema.c: typing of two numbers, signatures, specialisation, constants, and what the builder
 * makes of small kernels. Diagnostics have their goldens in tests/errors. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "ir/build.h"

static Arena *arena;
static Names *names;
static DiagSink sink;
static const AstFile *file;

static void setup(void) {
  arena = arena_new(NULL, "test");
  names = names_new(arena);
  diag_init(&sink, arena);
}

static void teardown(void) {
  arena_free(arena);
}

/* ---------------------------------------------------------------- typing */

static SemaNum typed(DType t) {
  return (SemaNum){.dtype = t};
}
static SemaNum tile(DType t) {
  return (SemaNum){.dtype = t, .array = true};
}
static SemaNum run_int(void) {
  return (SemaNum){.dtype = DT_I64, .untyped = true};
}
static SemaNum literal(int64_t v) {
  return (SemaNum){.dtype = DT_I64, .untyped = true, .constant = true, .value = {DT_I64, {.i = v}}};
}
static SemaNum real(double v) {
  return (SemaNum){.dtype = DT_F64, .untyped = true, .constant = true, .value = {DT_F64, {.f = v}}};
}

/* "f32", "int", or the code of the error. */
static const char *sum(SemaSide side, SemaNum x, SemaNum y) {
  SemaRule r;
  if (!sema_binary(arena, side, AST_ADD, x, y, &r))
    return diag_name(r.code);
  return sema_num_name((SemaNum){.dtype = r.dtype, .untyped = r.untyped});
}

START_TEST(two_typed_floats_give_the_wider) {
  ck_assert_str_eq(sum(SEMA_KERNEL, typed(DT_F16), typed(DT_F32)), "f32");
  ck_assert_str_eq(sum(SEMA_KERNEL, typed(DT_F16), typed(DT_F16)), "f16");
  ck_assert_str_eq(sum(SEMA_KERNEL, typed(DT_F16), typed(DT_BF16)), "f32");
  ck_assert_str_eq(sum(SEMA_KERNEL, typed(DT_F64), typed(DT_F32)), "f64");
  ck_assert_str_eq(sum(SEMA_KERNEL, typed(DT_F8E4M3), typed(DT_F16)), "f16");
}
END_TEST

START_TEST(an_integer_with_a_float_gives_the_float) {
  ck_assert_str_eq(sum(SEMA_KERNEL, typed(DT_I64), typed(DT_F16)), "f16");
  ck_assert_str_eq(sum(SEMA_HOST, tile(DT_BF16), tile(DT_U8)), "bf16");
}
END_TEST

START_TEST(two_integers_give_the_wider_of_one_sign) {
  ck_assert_str_eq(sum(SEMA_KERNEL, typed(DT_I8), typed(DT_I32)), "i32");
  ck_assert_str_eq(sum(SEMA_KERNEL, typed(DT_U8), typed(DT_I16)), "i16");
  ck_assert_str_eq(sum(SEMA_KERNEL, typed(DT_U32), typed(DT_I32)), "E0203");
  ck_assert_str_eq(sum(SEMA_KERNEL, typed(DT_U64), typed(DT_I32)), "E0203");
}
END_TEST

START_TEST(mixed_signs_name_both_conversions) {
  SemaRule r;
  SemaNum i = typed(DT_I32), u = typed(DT_U32);
  i.text = "i";
  u.text = "u";
  ck_assert(!sema_binary(arena, SEMA_KERNEL, AST_ADD, i, u, &r));
  ck_assert_ptr_nonnull(strstr(r.hint, "i32(u)"));
  ck_assert_ptr_nonnull(strstr(r.hint, "u32(i)"));
}
END_TEST

START_TEST(a_number_without_a_type_takes_the_other_s) {
  ck_assert_str_eq(sum(SEMA_KERNEL, literal(3), typed(DT_I8)), "i8");
  ck_assert_str_eq(sum(SEMA_KERNEL, literal(300), typed(DT_I8)), "E0204");
  ck_assert_str_eq(sum(SEMA_KERNEL, literal(-1), typed(DT_U32)), "E0204");
  ck_assert_str_eq(sum(SEMA_KERNEL, run_int(), typed(DT_I8)), "i64");
  ck_assert_str_eq(sum(SEMA_KERNEL, run_int(), tile(DT_I8)), "i8");
  ck_assert_str_eq(sum(SEMA_KERNEL, literal(3), typed(DT_F16)), "f16");
  ck_assert_str_eq(sum(SEMA_KERNEL, real(0.1), typed(DT_F16)), "f16");
  ck_assert_str_eq(sum(SEMA_KERNEL, real(1e6), typed(DT_F16)), "E0204");
  ck_assert_str_eq(sum(SEMA_KERNEL, real(0.5), typed(DT_I32)), "f32");
  ck_assert_str_eq(sum(SEMA_HOST, real(0.5), tile(DT_I32)), "f64");
  ck_assert_str_eq(sum(SEMA_KERNEL, literal(1), real(0.5)), "float");
  ck_assert_str_eq(sum(SEMA_KERNEL, literal(1), run_int()), "int");
}
END_TEST

START_TEST(a_bool_meets_nothing) {
  ck_assert_str_eq(sum(SEMA_KERNEL, typed(DT_BOOL), literal(1)), "E0202");
  ck_assert_str_eq(sum(SEMA_KERNEL, typed(DT_F32), typed(DT_BOOL)), "E0202");
  ck_assert_str_eq(sum(SEMA_KERNEL, typed(DT_BOOL), typed(DT_BOOL)), "E0205");
}
END_TEST

START_TEST(literals_fit_exactly_to_the_ends) {
  Scalar least = {DT_I64, {.i = INT64_MIN}}, most = {DT_U64, {.u = UINT64_MAX}};
  ck_assert(sema_fits(least, DT_I64));
  ck_assert(!sema_fits(least, DT_I32));
  ck_assert(sema_fits(most, DT_U64));
  ck_assert(!sema_fits(most, DT_I64));
  ck_assert(sema_fits((Scalar){DT_I64, {.i = 255}}, DT_U8));
  ck_assert(!sema_fits((Scalar){DT_I64, {.i = 256}}, DT_U8));
  ck_assert(sema_fits((Scalar){DT_F64, {.f = 65504.0}}, DT_F16));
  ck_assert(!sema_fits((Scalar){DT_F64, {.f = 65536.0}}, DT_F16));
  ck_assert(sema_fits((Scalar){DT_F64, {.f = -1.0 / 0.0}}, DT_F16));
}
END_TEST

START_TEST(operators_refuse_what_they_do_not_take) {
  SemaRule r;
  ck_assert(!sema_binary(arena, SEMA_HOST, AST_DIV, literal(7), literal(2), &r));
  ck_assert_int_eq(r.code, E0206);
  ck_assert(!sema_binary(arena, SEMA_HOST, AST_POW, typed(DT_I32), literal(-1), &r));
  ck_assert_int_eq(r.code, E0207);
  ck_assert(!sema_binary(arena, SEMA_HOST, AST_BITAND, typed(DT_F32), literal(1), &r));
  ck_assert(!sema_unary(arena, SEMA_HOST, AST_NOT, literal(1), &r));
  ck_assert(sema_binary(arena, SEMA_HOST, AST_SHL, typed(DT_U8), typed(DT_I32), &r));
  ck_assert_int_eq(r.dtype, DT_U8);
  ck_assert_int_eq(r.right, DT_I32);
}
END_TEST

START_TEST(comparisons_give_bools) {
  SemaRule r;
  ck_assert(sema_binary(arena, SEMA_HOST, AST_LT, typed(DT_F16), literal(2), &r));
  ck_assert_int_eq(r.dtype, DT_BOOL);
  ck_assert_int_eq(r.left, DT_F16);
  ck_assert(!r.untyped);
}
END_TEST

START_TEST(functions_take_their_kinds) {
  SemaRule r;
  SemaNum two[3] = {typed(DT_BOOL), literal(1), typed(DT_F16)};
  SemaNum i = typed(DT_I32), n = literal(2);
  ck_assert(sema_apply(arena, SEMA_HOST, OP_SELECT, two, 3, &r));
  ck_assert_int_eq(r.dtype, DT_F16);
  ck_assert(!sema_apply(arena, SEMA_HOST, OP_SQRT, &i, 1, &r));
  ck_assert(sema_apply(arena, SEMA_HOST, OP_SQRT, &n, 1, &r));
  ck_assert(r.untyped && r.dtype == DT_F64);
  ck_assert_int_eq(sema_builtin("exp2"), OP_EXP2);
  ck_assert_int_eq(sema_builtin("tid"), OP_NONE);
  ck_assert_int_eq(sema_builtin("add"), OP_NONE);
}
END_TEST

START_TEST(products_have_their_accumulator) {
  ck_assert_int_eq(op_product_type(DT_F16, DT_F16), DT_F32);
  ck_assert_int_eq(op_product_type(DT_F64, DT_F64), DT_F64);
  ck_assert_int_eq(op_product_type(DT_I8, DT_I8), DT_I32);
  ck_assert_int_eq(op_product_type(DT_I16, DT_I16), DT_I64);
  ck_assert_int_eq(op_product_type(DT_F8E4M3, DT_F8E5M2), DT_F32);
  ck_assert_int_eq(op_product_type(DT_F16, DT_BF16), DT_NONE);
}
END_TEST

/* ---------------------------------------------------------------- kernels */

static SemaFn find_fn(void *ctx, const char *module, const char *name) {
  (void)ctx;
  for (size_t i = 0; !module && i < file->body.n; i++)
    if (file->body.v[i]->kind == STMT_FN && file->body.v[i]->as.fn->name.text == name)
      return (SemaFn){file->body.v[i]->as.fn, NULL};
  return (SemaFn){NULL, NULL};
}

static const SemaScope scope = {NULL, find_fn, NULL, NULL};

static SemaKernel *declare(const char *text) {
  AstFile *ast;
  ParseInput in = {.arena = arena, .names = names, .diags = &sink};
  in.file = src_new(arena, "t.tile", text, strlen(text));
  ck_assert_int_eq(parse_file(&in, &ast), PARSE_OK);
  file = ast;
  for (size_t i = 0; i < ast->body.n; i++)
    if (ast->body.v[i]->kind == STMT_KERNEL)
      return sema_declare(arena, ast->body.v[i]->as.kernel, &scope, &sink);
  return NULL;
}

static const char *built(const SemaKernel *k, const SemaSpec *s) {
  SemaTree *tree = sema_check(arena, k, s, &sink);
  IrKernel *ir = tree ? ir_build(arena, names, tree, &sink) : NULL;
  Str out = str_new(arena);
  if (!ir) {
    diag_format_all(&sink, false, &out);
    return str_text(&out);
  }
  ir_print(ir, &out);
  return str_text(&out);
}

static const char *build(const char *text) {
  SemaKernel *k = declare(text);
  ck_assert_ptr_nonnull(k);
  return built(k, sema_spec_new(arena, k));
}

#define HAS(text, part) ck_assert_msg(strstr(text, part) != NULL, "no `%s` in\n%s", part, text)
#define HAS_NOT(text, part) ck_assert_msg(strstr(text, part) == NULL, "`%s` in\n%s", part, text)

static int count(const char *text, const char *part) {
  int n = 0;
  for (; (text = strstr(text, part)); text++)
    n++;
  return n;
}

START_TEST(signature_is_read) {
  SemaKernel *k = declare("kernel f[BM = auto(8), E: dtype = f16, m](A: E[M, static D], n: i32)"
                          " -> (C: E[M, D] = 0) { }");
  ck_assert(k && k->ok);
  ck_assert_uint_eq(k->nstatics, 3);
  ck_assert(k->statics[0].is_auto && k->statics[0].value.num.as.i == 8);
  ck_assert(k->statics[1].from_argument && k->statics[1].value.dtype == DT_F16);
  ck_assert(!k->statics[2].has_default && k->statics[2].kind == SV_UNSET);
  ck_assert_uint_eq(k->ninputs, 2);
  ck_assert_int_eq(k->params[0].rank, 2);
  ck_assert(k->params[0].extent[1].is_static && !k->params[0].extent[0].is_static);
  ck_assert(!k->params[1].tensor && k->params[1].dtype == DT_I32);
  ck_assert(k->params[2].output);
  ck_assert_uint_eq(k->nextents, 1);
}
END_TEST

START_TEST(definition_tolerates_what_is_not_known) {
  SemaKernel *k = declare("kernel f[m](A: f32[M, static D]) -> (C: f32[M, D]) {\n"
                          "  fragment t: f32[m, D] = 0\n  if m > 3 { nowhere(t) }\n"
                          "  copy(t, C[0, 0])\n}");
  ck_assert(k && k->ok);
  SemaSpec *s = sema_spec_new(arena, k);
  s->extents[0] = 16;
  ck_assert_ptr_null(sema_check(arena, k, s, &sink)); /* m is not set */
  ck_assert_int_eq(sink.v[0]->code, E0305);
}
END_TEST

START_TEST(arguments_bind_dtypes_and_static_extents) {
  SemaKernel *k = declare("kernel f[E: dtype = f16](A: E[M, static D], B: E[D, N]) -> "
                          "(C: E[M, N]) { }");
  SemaSpec *s = sema_spec_new(arena, k);
  SemaArg a[3] = {{.given = true, .tensor = true, .dtype = DT_BF16, .rank = 2, .extent = {3, 64}},
                  {.given = true, .tensor = true, .dtype = DT_BF16, .rank = 2, .extent = {64, 5}},
                  {.given = false}};
  ck_assert(sema_bind(arena, k, s, a, k->ast->header, &sink));
  ck_assert_int_eq(sema_param_dtype(arena, k, s, 2), DT_BF16);
  ck_assert_int_eq(s->extents[0], 64);
  a[1].dtype = DT_F32;
  ck_assert(!sema_bind(arena, k, s, a, k->ast->header, &sink));
  ck_assert_int_eq(sink.v[0]->code, E0307);
}
END_TEST

START_TEST(settings_have_their_kinds) {
  SemaKernel *k = declare("kernel f[BM = 8, x: f32 = 1, E: dtype = f16](n: i32) { }");
  SemaSpec *s = sema_spec_new(arena, k);
  SemaValue v = {.kind = SV_INT, .num = {DT_I64, {.i = 64}}};
  Span at = k->ast->header;
  ck_assert(sema_set(k, s, "BM", v, at, &sink));
  ck_assert(sema_set(k, s, "x", v, at, &sink));
  ck_assert_int_eq(s->statics[1].kind, SV_FLOAT);
  ck_assert(!sema_set(k, s, "E", v, at, &sink));
  ck_assert(!sema_set(k, s, "BN", v, at, &sink));
  ck_assert_uint_eq(sink.errors, 2);
}
END_TEST

START_TEST(compile_time_branches_leave_what_is_taken) {
  const char *ir = build("kernel f[mode = \"a\", E: dtype = f16](n: i32) -> (y: i32[1]) {\n"
                         "  if mode == \"b\" { y[0] = nowhere }\n"
                         "  y[0] = 1 if E == f16 else nothing\n}");
  HAS(ir, "store y[0] = 1");
  HAS_NOT(ir, "if ");
}
END_TEST

START_TEST(a_product_added_accumulates) {
  const char *ir = build("kernel f(n: i32) {\n  shared a: f16[8, 8] = 1\n"
                         "  fragment c: f32[8, 8] = 0\n  c += a @ a.T\n  c = c + a @ a\n}");
  ck_assert_int_eq(count(ir, "dot c += "), 2);
  ck_assert_int_eq(count(ir, "tmp"), 0);
}
END_TEST

START_TEST(a_product_of_its_own_target_is_kept_apart) {
  const char *ir = build("kernel f(n: i32) {\n  fragment c: f32[8, 8] = 0\n  c = c @ c\n}");
  HAS(ir, "copy tmp = c");
  HAS(ir, "dot c = tmp @ tmp_1");
}
END_TEST

START_TEST(shifted_assignment_goes_through_a_temporary) {
  const char *ir = build("kernel f(n: i32) {\n  fragment t: f32[8] = 0\n"
                         "  t[1:8] = t[0:7] * 2\n  t = t * 2\n}");
  ck_assert_int_eq(count(ir, "fragment tmp"), 1);
  HAS(ir, "copy t[1:+7] = tmp");
}
END_TEST

START_TEST(only_the_chosen_side_is_read) {
  const char *ir = build("kernel f(x: f32[N], i: i32) -> (y: f32[1]) {\n"
                         "  y[0] = x[i] if 0 <= i < N else 0\n  y[0] = 2 if i > 0 else 3\n}");
  HAS(ir, "if (i >= 0) & (i64(i) < N)");
  HAS(ir, "where(i > 0, 2, 3)");
}
END_TEST

START_TEST(slices_know_their_extents) {
  const char *ir = build("kernel f(x: f32[N], n: i32) {\n  fragment t: f32[64] = 0\n"
                         "  let k = n * 4\n  let u = t[k + 1:k + 9]\n  let v = t[k:+3]\n"
                         "  let w = t[(k + 1) * 2:2 * k + 10:2]\n}");
  HAS(ir, "fragment u: f32[8]");
  HAS(ir, "fragment v: f32[3]");
  HAS(ir, "fragment w: f32[4]");
}
END_TEST

START_TEST(fns_apply_element_by_element) {
  const char *ir = build("fn f(x: f32, a) { if x > a { return x }\n return a * x }\n"
                         "kernel k(n: i32) {\n  fragment t: f32[4, 8] = 0, m: f32[4] = 1\n"
                         "  t = f(t, m[:, None])\n}");
  HAS(ir, "load mv: f32 = m[i0_2]");
  HAS(ir, "where(x > a, x, ");
}
END_TEST

START_TEST(inlining_is_bounded) {
  Str s = str_new(arena);
  str_add(&s, "fn f0(x: f32) -> f32 { let y = x * x\n return y }\n");
  for (int i = 1; i < 40; i++)
    str_addf(&s, "fn f%d(x: f32) -> f32 { let y = f%d(x) + f%d(x)\n return y }\n", i, i - 1, i - 1);
  str_add(&s, "kernel k(x: f32[N]) -> (y: f32[N]) { y[0] = f39(x[0]) }\n");
  SemaKernel *k = declare(str_text(&s));
  ck_assert(k && !k->ok);
  ck_assert_int_eq(sink.v[0]->code, E0109);
}
END_TEST

START_TEST(deep_nesting_ends) {
  Str s = str_new(arena);
  str_add(&s, "kernel k(n: i32) -> (y: i32[1]) { y[0] = ");
  for (int i = 0; i < 300; i++)
    str_add(&s, "(n + ");
  str_add(&s, "1");
  for (int i = 0; i < 300; i++)
    str_addc(&s, ')');
  str_add(&s, " }\n");
  SemaKernel *k = declare(str_text(&s));
  ck_assert(k && k->ok);
}
END_TEST

static TCase *typing_case(void) {
  TCase *t = tcase_create("typing");
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, two_typed_floats_give_the_wider);
  tcase_add_test(t, an_integer_with_a_float_gives_the_float);
  tcase_add_test(t, two_integers_give_the_wider_of_one_sign);
  tcase_add_test(t, mixed_signs_name_both_conversions);
  tcase_add_test(t, a_number_without_a_type_takes_the_other_s);
  tcase_add_test(t, a_bool_meets_nothing);
  tcase_add_test(t, literals_fit_exactly_to_the_ends);
  tcase_add_test(t, operators_refuse_what_they_do_not_take);
  tcase_add_test(t, comparisons_give_bools);
  tcase_add_test(t, functions_take_their_kinds);
  tcase_add_test(t, products_have_their_accumulator);
  return t;
}

static TCase *kernel_case(void) {
  TCase *t = tcase_create("kernels");
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, signature_is_read);
  tcase_add_test(t, definition_tolerates_what_is_not_known);
  tcase_add_test(t, arguments_bind_dtypes_and_static_extents);
  tcase_add_test(t, settings_have_their_kinds);
  tcase_add_test(t, compile_time_branches_leave_what_is_taken);
  tcase_add_test(t, a_product_added_accumulates);
  tcase_add_test(t, a_product_of_its_own_target_is_kept_apart);
  tcase_add_test(t, shifted_assignment_goes_through_a_temporary);
  tcase_add_test(t, only_the_chosen_side_is_read);
  tcase_add_test(t, slices_know_their_extents);
  tcase_add_test(t, fns_apply_element_by_element);
  tcase_add_test(t, inlining_is_bounded);
  tcase_add_test(t, deep_nesting_ends);
  return t;
}

int main(void) {
  Suite *s = suite_create("sema");
  suite_add_tcase(s, typing_case());
  suite_add_tcase(s, kernel_case());
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
