/* check_tensor.c: tests of src/tensor: shapes, views, copies, random numbers, comparing, text. */
#include "tensor/impl.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static Arena *arena;
static Str why;

static void setup(void) {
  arena = arena_new(NULL, "test");
  why = str_new(arena);
}
static void teardown(void) {
  arena_free(arena);
}

static Scalar integer(int64_t i) {
  return (Scalar){DT_I64, {.i = i}};
}
static Scalar real(double f) {
  return (Scalar){DT_F64, {.f = f}};
}

/* i32 tensor with elements 0, 1, 2 … in row-major order. */
static Tensor *counting(int rank, const int64_t *extent) {
  Tensor *t = tensor_new(DT_I32, rank, extent, TENSOR_ZERO, &why);
  int32_t *p = tensor_data_write(t);
  for (int64_t i = 0; i < tensor_count(t); i++)
    p[i] = (int32_t)i;
  return t;
}

static int64_t at(const Tensor *t, int64_t i, int64_t j) {
  const int64_t index[] = {i, j};
  return tensor_get(t, index).as.i;
}

static TensorIndex whole(int64_t start, int64_t stop, int64_t step) {
  return (TensorIndex){TIX_SLICE, start, stop, step, true, true};
}

START_TEST(refuses_shapes) {
  const int64_t huge[] = {1000000, 1000000}, over[] = {INT64_MAX, 3}, minus[] = {2, -1};
  const int64_t hidden[] = {INT64_MAX, 0, INT64_MAX};
  ck_assert_ptr_null(tensor_new(DT_F32, 2, huge, TENSOR_ZERO, &why));
  ck_assert_ptr_nonnull(
      strstr(str_text(&why), "f32[1000000, 1000000] needs 3.6 TiB, more memory than is free"));
  str_clear(&why);
  ck_assert_ptr_null(tensor_new(DT_I8, 2, over, TENSOR_UNSET, &why));
  ck_assert_ptr_nonnull(strstr(str_text(&why), "more elements than"));
  ck_assert_ptr_null(tensor_new(DT_I8, 2, minus, TENSOR_UNSET, &why));
  ck_assert_ptr_null(tensor_new(DT_I8, 3, hidden, TENSOR_UNSET, &why));
  ck_assert_ptr_null(tensor_new(DT_I8, 9, huge, TENSOR_UNSET, &why));
  ck_assert_ptr_null(tensor_new(DT_I8, 2, over, TENSOR_UNSET, NULL));
}
END_TEST

START_TEST(aligned_and_empty) {
  const int64_t extent[] = {3, 0, 5}, some[] = {7};
  Tensor *t = tensor_new(DT_F16, 3, extent, TENSOR_ZERO, &why);
  ck_assert_int_eq(tensor_count(t), 0);
  Tensor *u = tensor_new(DT_I8, 1, some, TENSOR_UNSET, &why);
  ck_assert_uint_eq((uintptr_t)tensor_data(u) % 64, 0);
  ck_assert_str_eq(str_text(&why), "");
  tensor_release(t);
  tensor_release(u);
}
END_TEST

START_TEST(slices) {
  const int64_t extent[] = {4, 6};
  Tensor *t = counting(2, extent);
  TensorIndex ix[] = {whole(1, 99, 2), whole(-1, -99, -2)};
  Tensor *v = tensor_index(t, ix, 2, &why);
  ck_assert_int_eq(v->extent[0], 2);
  ck_assert_int_eq(v->extent[1], 3);
  ck_assert_int_eq(at(v, 0, 0), 11);
  ck_assert_int_eq(at(v, 1, 2), 19);
  TensorIndex row[] = {{TIX_INT, -1, 0, 0, false, false}, {TIX_NEW, 0, 0, 0, false, false}};
  Tensor *w = tensor_index(t, row, 2, &why);
  ck_assert_int_eq(w->rank, 2);
  ck_assert_int_eq(at(w, 0, 5), 23);
  TensorIndex out = {TIX_INT, 4, 0, 0, false, false}, none = whole(0, 2, 0);
  ck_assert_ptr_null(tensor_index(t, &out, 1, &why));
  TensorIndex far[] = {row[1], row[0], {TIX_INT, -7, 0, 0, false, false}, row[0]};
  ck_assert_int_eq(tensor_index_refused(t, &out, 1), 0);
  ck_assert_int_eq(tensor_index_refused(t, far, 3), 2); /* None takes no axis */
  ck_assert_int_eq(tensor_index_refused(t, far, 4), 3);
  far[2] = whole(-1, -99, -2);
  ck_assert_int_eq(tensor_index_refused(t, far, 3), -1);
  ck_assert_int_eq(tensor_index_refused(t, far, 4), 3); /* one too many */
  ck_assert_ptr_nonnull(strstr(str_text(&why), "index 4 is outside axis 0"));
  ck_assert_ptr_null(tensor_index(t, &none, 1, &why));
  ck_assert_int_eq(tensor_index_refused(t, &none, 1), 0);
  tensor_release(t);
  ck_assert_int_eq(at(v, 0, 0), 11); /* the storage outlives the tensor */
  tensor_release(v);
  tensor_release(w);
}
END_TEST

/* Every slice of a short axis against the same loop written out. */
START_TEST(slices_exhaustive) {
  const int64_t extent[] = {5};
  Tensor *t = counting(1, extent);
  for (int64_t a = -7; a <= 7; a++)
    for (int64_t b = -7; b <= 7; b++)
      for (int64_t s = -3; s <= 3; s++) {
        if (s == 0)
          continue;
        TensorIndex ix = whole(a, b, s);
        Tensor *v = tensor_index(t, &ix, 1, &why);
        int64_t from = a < 0 ? a + 5 : a, to = b < 0 ? b + 5 : b, n = 0;
        if (s > 0)
          from = from < 0 ? 0 : from, to = to > 5 ? 5 : to;
        else
          from = from > 4 ? 4 : from, to = to < -1 ? -1 : to;
        for (int64_t i = from; s > 0 ? i < to : i > to; i += s, n++) {
          ck_assert_int_lt(n, v->extent[0]);
          ck_assert_int_eq(tensor_get(v, &n).as.i, i);
        }
        ck_assert_int_eq(n, v->extent[0]);
        tensor_release(v);
      }
  tensor_release(t);
}
END_TEST

START_TEST(permutes_and_broadcasts) {
  const int64_t extent[] = {2, 3, 4}, one[] = {3, 1}, big[] = {2, 3, 5};
  Tensor *t = counting(3, extent);
  const int axes[] = {2, 0, -2}, twice[] = {0, 0, 1};
  Tensor *p = tensor_permute(t, axes, 3, &why);
  const int64_t i[] = {3, 1, 2};
  ck_assert_int_eq(tensor_get(p, i).as.i, 1 * 12 + 2 * 4 + 3);
  ck_assert(!tensor_is_contiguous(p));
  ck_assert_ptr_null(tensor_permute(t, twice, 3, &why));
  Tensor *c = tensor_contiguous(p, &why);
  ck_assert(tensor_is_contiguous(c) && !tensor_overlaps(c, p));
  ck_assert_int_eq(tensor_get(c, i).as.i, 23);
  Tensor *o = counting(2, one), *b = tensor_broadcast(o, 3, big, &why);
  const int64_t j[] = {1, 2, 4};
  ck_assert_int_eq(tensor_get(b, j).as.i, 2);
  ck_assert_ptr_null(tensor_broadcast(t, 3, big, &why));
  int rank;
  int64_t shape[8];
  ck_assert(tensor_broadcast_shape(o, b, &rank, shape, &why));
  str_clear(&why);
  ck_assert(!tensor_broadcast_shape(t, b, &rank, shape, &why));
  ck_assert_str_eq(str_text(&why),
                   "i32[2, 3, 4] and i32[2, 3, 5] do not broadcast: extents 4 and 5");
  Tensor *all[] = {t, p, c, o, b};
  for (size_t k = 0; k < 5; k++)
    tensor_release(all[k]);
}
END_TEST

START_TEST(reshapes) {
  const int64_t extent[] = {4, 6}, to[] = {2, -1, 3}, bad[] = {5, -1}, flat[] = {24};
  Tensor *t = counting(2, extent);
  Tensor *v = tensor_reshape(t, 3, to, &why);
  ck_assert_ptr_eq(v->storage, t->storage);
  ck_assert_int_eq(v->extent[1], 4);
  ck_assert_ptr_null(tensor_reshape(t, 2, bad, &why));
  Tensor *tt = tensor_swap_last(t, &why), *f = tensor_reshape(tt, 1, flat, &why);
  ck_assert_ptr_ne(f->storage, t->storage); /* strides cannot say it: a copy */
  const int64_t one = 1;
  ck_assert_int_eq(tensor_get(f, &one).as.i, 6);
  TensorIndex half[] = {whole(0, 4, 2)};
  Tensor *h = tensor_index(t, half, 1, &why);
  const int64_t split[] = {2, 1, 2, 3};
  Tensor *hs = tensor_reshape(h, 4, split, &why); /* row 0 and 2, each cut in two: still a view */
  ck_assert_ptr_eq(hs->storage, t->storage);
  const int64_t last[] = {1, 0, 1, 2};
  ck_assert_int_eq(tensor_get(hs, last).as.i, 17);
  Tensor *all[] = {t, v, tt, f, h, hs};
  for (size_t k = 0; k < 6; k++)
    tensor_release(all[k]);
}
END_TEST

START_TEST(copies_and_overlaps) {
  const int64_t extent[] = {10};
  Tensor *t = counting(1, extent);
  TensorIndex a = whole(0, 8, 1), b = whole(2, 10, 1), even = whole(0, 10, 2),
              odd = whole(1, 10, 2);
  Tensor *x = tensor_index(t, &a, 1, &why), *y = tensor_index(t, &b, 1, &why);
  Tensor *e = tensor_index(t, &even, 1, &why), *o = tensor_index(t, &odd, 1, &why);
  ck_assert(tensor_overlaps(x, y) && !tensor_overlaps(e, o) && tensor_overlaps(e, x));
  ck_assert(tensor_copy(y, x, &why)); /* as if the source had been read first */
  const int64_t nine = 9, two = 2;
  ck_assert_int_eq(tensor_get(t, &nine).as.i, 7);
  ck_assert_int_eq(tensor_get(t, &two).as.i, 0);
  Tensor *c = tensor_cast(e, DT_F16, &why);
  const int64_t four = 4;
  ck_assert_double_eq(tensor_get(c, &four).as.f, 6.0);
  tensor_fill(o, integer(-1));
  ck_assert_int_eq(tensor_get(t, &nine).as.i, -1);
  Tensor *all[] = {t, x, y, e, o, c};
  for (size_t k = 0; k < 6; k++)
    tensor_release(all[k]);
}
END_TEST

START_TEST(aranges) {
  Tensor *t = tensor_arange(DT_I8, integer(7), integer(-2), integer(-3), NULL, &why);
  ck_assert_int_eq(t->extent[0], 3);
  const int64_t two = 2, five = 5;
  ck_assert_int_eq(tensor_get(t, &two).as.i, 1);
  Tensor *f = tensor_arange(DT_F32, real(0.5), real(3.1), real(0.5), NULL, &why);
  ck_assert_int_eq(f->extent[0], 6);
  ck_assert_double_eq(tensor_get(f, &five).as.f, 3.0);
  Tensor *none = tensor_arange(DT_I32, integer(3), integer(3), integer(1), NULL, &why);
  ck_assert_int_eq(none->extent[0], 0);
  ck_assert_ptr_null(tensor_arange(DT_F32, real(0), real((double)INFINITY), real(1), NULL, &why));
  ck_assert_ptr_null(
      tensor_arange(DT_I64, integer(INT64_MIN), integer(INT64_MAX), integer(1), NULL, &why));
  Tensor *i = tensor_eye(DT_BF16, 3, 4, &why);
  ck_assert_str_eq(dtype_name(i->dtype), "bf16");
  ck_assert_double_eq(tensor_get(i, (const int64_t[]){2, 2}).as.f, 1.0);
  ck_assert_double_eq(tensor_get(i, (const int64_t[]){2, 3}).as.f, 0.0);
  Tensor *all[] = {t, f, none, i};
  for (size_t k = 0; k < 4; k++)
    tensor_release(all[k]);
}
END_TEST

/* Known answers of the Random123 suite for philox4x32-10. */
START_TEST(philox_known_answers) {
  uint32_t w[4];
  tensor_philox(0, 0, 0, w);
  const uint32_t zero[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  ck_assert_mem_eq(w, zero, sizeof zero);
  tensor_philox(UINT64_MAX, UINT64_MAX, UINT64_MAX, w);
  const uint32_t ones[] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
  ck_assert_mem_eq(w, ones, sizeof ones);
  tensor_philox(0x299f31d0a4093822u, 0x85a308d3243f6a88u, 0x0370734413198a2eu, w);
  const uint32_t pi[] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
  ck_assert_mem_eq(w, pi, sizeof pi);
}
END_TEST

START_TEST(random_moments) {
  const int64_t extent[] = {40000};
  TensorRandom r = {7, 0, NULL};
  Tensor *u = tensor_new(DT_F32, 1, extent, TENSOR_UNSET, &why);
  Tensor *n = tensor_new(DT_F64, 1, extent, TENSOR_UNSET, &why);
  Tensor *i = tensor_new(DT_I8, 1, extent, TENSOR_UNSET, &why);
  tensor_rand(u, &r, NULL);
  tensor_randn(n, &r, NULL);
  tensor_randint(i, integer(-3), integer(4), &r, NULL);
  double mean = 0, square = 0, third = 0, low = 1, high = 0, seen[7] = {0};
  for (int64_t k = 0; k < extent[0]; k++) {
    double x = tensor_get(n, &k).as.f, y = tensor_get(u, &k).as.f;
    mean += x, square += x * x, third += x * x * x;
    low = y < low ? y : low, high = y > high ? y : high;
    seen[tensor_get(i, &k).as.i + 3]++;
  }
  ck_assert_double_lt(fabs(mean / 40000), 0.02);
  ck_assert_double_lt(fabs(square / 40000 - 1), 0.03);
  ck_assert_double_lt(fabs(third / 40000), 0.06);
  ck_assert(low >= 0 && low < 1e-3 && high < 1 && high > 0.999);
  for (int k = 0; k < 7; k++)
    ck_assert_double_lt(fabs(seen[k] - 40000.0 / 7), 300);
  ck_assert_uint_eq(r.draw, 3);
  tensor_release(u);
  tensor_release(n);
  tensor_release(i);
}
END_TEST

/* The same numbers for ever: the words come from Philox, the functions from exact operations. */
START_TEST(random_is_fixed) {
  const int64_t extent[] = {4};
  TensorRandom r = {0, 0, NULL};
  Tensor *n = tensor_new(DT_F64, 1, extent, TENSOR_UNSET, &why);
  tensor_randn(n, &r, NULL);
  uint32_t w[4];
  tensor_philox(0, 0, 0, w);
  double u = ((double)(((uint64_t)w[1] << 32 | w[0]) >> 11) + 1) * 0x1p-53;
  double v = (double)(((uint64_t)w[3] << 32 | w[2]) >> 11) * 0x1p-53;
  double want = sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
  const int64_t zero = 0;
  ck_assert_double_lt(fabs(tensor_get(n, &zero).as.f - want), 1e-14);
  tensor_release(n);
}
END_TEST

START_TEST(compares) {
  const int64_t extent[] = {2, 3};
  Tensor *a = counting(2, extent), *b = tensor_cast(a, DT_F32, &why);
  TensorDiff d;
  bool close = false;
  ck_assert(tensor_maxdiff(a, b, NULL, &d, &why));
  ck_assert(d.max_abs == 0 && d.count == 0 && d.total == 6);
  tensor_set(b, (const int64_t[]){1, 2}, real(5.5));
  ck_assert(tensor_maxdiff(a, b, NULL, &d, &why));
  ck_assert_double_eq(d.max_abs, 0.5);
  ck_assert(d.where[0] == 1 && d.where[1] == 2 && d.count == 1);
  ck_assert(tensor_allclose(a, b, 0, 0.5, NULL, &close, NULL, &why) && close);
  ck_assert(tensor_allclose(a, b, 0, 0.4, NULL, &close, &d, &why) && !close);
  ck_assert_double_eq(d.b.as.f, 5.5);
  tensor_set(b, (const int64_t[]){0, 0}, real((double)NAN));
  ck_assert(tensor_allclose(b, b, 1, 1, NULL, &close, &d, &why) && !close);
  ck_assert(tensor_maxdiff(b, b, NULL, &d, &why) && d.max_abs == 0);
  tensor_set(b, (const int64_t[]){0, 0}, real((double)INFINITY));
  ck_assert(tensor_allclose(a, b, 1, 1, NULL, &close, NULL, &why) && !close);
  ck_assert(tensor_allclose(b, b, 0, 0, NULL, &close, NULL, &why) && close);
  tensor_release(a);
  tensor_release(b);
}
END_TEST

static void expect_text(const Tensor *t, const char *want) {
  Str s = str_new(arena);
  tensor_print(t, &(TensorPrint){.width = 40, .header = true}, &s);
  ck_assert_str_eq(str_text(&s), want);
}

static Tensor *vector(DType t, int n, const double *x) {
  const int64_t extent[] = {n};
  Tensor *v = tensor_new(t, 1, extent, TENSOR_ZERO, &why);
  for (int64_t i = 0; i < n; i++)
    tensor_set(v, &i, real(x[i]));
  return v;
}

START_TEST(prints_columns) {
  const int64_t extent[] = {2, 3}, deep[] = {2, 1, 2};
  Tensor *t = counting(2, extent);
  expect_text(t, "i32[2, 3] on cpu\n[[0 1 2]\n [3 4 5]]\n");
  tensor_release(t);
  t = counting(3, deep);
  expect_text(t, "i32[2, 1, 2] on cpu\n[[[0 1]]\n\n [[2 3]]]\n");
  tensor_release(t);
  t = vector(DT_F32, 4, (const double[]){0.5, -12.25, 3, 0.1});
  expect_text(t, "f32[4] on cpu\n[  0.5  -12.25   3.     0.1 ]\n");
  tensor_release(t);
  t = vector(DT_F16, 3, (const double[]){(double)NAN, (double)INFINITY, -1.5});
  expect_text(t, "f16[3] on cpu\n[ nan  inf -1.5]\n");
  tensor_release(t);
  t = vector(DT_F64, 3, (const double[]){1e-7, 2.5e10, 0});
  expect_text(t, "f64[3] on cpu\n[1.0e-07 2.5e+10 0.0e+00]\n");
  tensor_release(t);
  t = vector(DT_BOOL, 2, (const double[]){1, 0});
  expect_text(t, "bool[2] on cpu\n[ true false]\n");
  tensor_release(t);
  t = vector(DT_F32, 0, NULL);
  expect_text(t, "f32[0] on cpu\n[]\n");
  tensor_release(t);
}
END_TEST

START_TEST(prints_elided) {
  const int64_t extent[] = {1001}, wide[] = {20};
  Tensor *t = counting(1, extent);
  expect_text(t, "i32[1001] on cpu\n[   0    1    2 ...  998  999 1000]\n");
  tensor_release(t);
  t = counting(1, wide);
  expect_text(t,
              "i32[20] on cpu\n[ 0  1  2  3  4  5  6  7  8  9 10 11 12\n 13 14 15 16 17 18 19]\n");
  tensor_release(t);
  const int64_t square[] = {40, 40};
  t = tensor_new(DT_I8, 2, square, TENSOR_ZERO, &why);
  expect_text(t, "i8[40, 40] on cpu\n"
                 "[[0 0 0 ... 0 0 0]\n [0 0 0 ... 0 0 0]\n [0 0 0 ... 0 0 0]\n ...\n"
                 " [0 0 0 ... 0 0 0]\n [0 0 0 ... 0 0 0]\n [0 0 0 ... 0 0 0]]\n");
  tensor_release(t);
}
END_TEST

START_TEST(prints_scalars) {
  Str s = str_new(arena);
  scalar_print((Scalar){DT_F16, {.f = (double)f16_to_f32(f32_to_f16(0.1f))}}, &s);
  str_addc(&s, ' ');
  scalar_print((Scalar){DT_U64, {.u = UINT64_MAX}}, &s);
  str_addc(&s, ' ');
  scalar_print((Scalar){DT_BOOL, {.i = 1}}, &s);
  ck_assert_str_eq(str_text(&s), "0.1 18446744073709551615 true");
}
END_TEST

/* A device of the test's own: residency must follow what was written where. */
static int fetched, released;
static bool fetch(void *handle, void *host, size_t bytes, Str *w) {
  (void)w;
  fetched++;
  memset(host, *(int *)handle, bytes);
  return true;
}
static void release(void *handle) {
  (void)handle;
  released++;
}

START_TEST(residency) {
  static const StorageDevice device = {"fake:0", fetch, release};
  int byte = 3;
  const int64_t extent[] = {4};
  Tensor *t = tensor_new_on_device(DT_U8, 1, extent, &device, &byte, &why);
  ck_assert(!storage_on_host(t->storage) && storage_on_device(t->storage));
  ck_assert(tensor_to_host(t, &why) && tensor_to_host(t, &why));
  ck_assert_int_eq(fetched, 1);
  expect_text(t, "u8[4] on fake:0\n[3 3 3 3]\n");
  tensor_fill(t, integer(9));
  ck_assert(!storage_on_device(t->storage));
  storage_device_wrote(t->storage);
  ck_assert(tensor_to_host(t, &why));
  ck_assert_int_eq(fetched, 2);
  tensor_release(t);
  ck_assert_int_eq(released, 1);
}
END_TEST

int main(void) {
  Suite *s = suite_create("tensor");
  TCase *c = tcase_create("tensor");
  tcase_add_checked_fixture(c, setup, teardown);
  const TTest *const tests[] = {refuses_shapes,
                                aligned_and_empty,
                                slices,
                                slices_exhaustive,
                                permutes_and_broadcasts,
                                reshapes,
                                copies_and_overlaps,
                                aranges,
                                philox_known_answers,
                                random_moments,
                                random_is_fixed,
                                compares,
                                prints_columns,
                                prints_elided,
                                prints_scalars,
                                residency};
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
    tcase_add_test(c, tests[i]);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
