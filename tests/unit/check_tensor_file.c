/* check_tensor_file.c: .npy, .npz and .safetensors files, well-formed and not.
 *
 * Files are built here byte by byte from the formats' documents, so that reader and writer do not
 * vouch for each other; tests/files has files that NumPy and safetensors wrote.
 */
#include "tensor/impl.h"

#include <check.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

static Arena *arena;
static Str why;
static char dir[64];

static void setup(void) {
  arena = arena_new(NULL, "test");
  why = str_new(arena);
  snprintf(dir, sizeof dir, "/tmp/check_tensor_file.XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void) {
  pid_t pid = fork();
  if (pid == 0) {
    execlp("rm", "rm", "-rf", dir, (char *)NULL);
    _exit(127);
  }
  waitpid(pid, NULL, 0);
  arena_free(arena);
}

static const char *in_dir(const char *name) {
  return arena_printf(arena, "%s/%s", dir, name);
}

static int count_files(void) {
  FILE *f = popen(arena_printf(arena, "ls -A %s | wc -l", dir), "r");
  int n = -1;
  ck_assert_int_eq(fscanf(f, "%d", &n), 1);
  pclose(f);
  return n;
}

/* Reading bytes -------------------------------------------------------------------------------- */

/* All tensors of a file in memory are read and released. False, with why, where one is refused. */
static bool reads_all(const Str *bytes, size_t n, TensorFormat format) {
  Arena *a = arena_new(NULL, "file");
  TensorFile *f = tensor_file_new(a);
  char *copy = malloc(n + 1); /* of its exact size, for the sanitizers */
  if (n)
    memcpy(copy, bytes->s, n);
  str_clear(&why);
  bool ok = tensor_file_open_bytes(f, copy, n, format, &why);
  for (size_t i = 0; ok && i < tensor_file_count(f); i++) {
    str_clear(&why);
    Tensor *t = tensor_file_read(f, i, &why);
    ok = t != NULL;
    tensor_release(t);
  }
  ck_assert(ok || why.n > 0);
  tensor_file_close(f);
  arena_free(a);
  free(copy);
  return ok;
}

/* The tensor named so (NULL: the first), which the caller releases. */
static Tensor *read_one(const Str *bytes, TensorFormat format, const char *name) {
  TensorFile *f = tensor_file_new(arena);
  str_clear(&why);
  ck_assert_msg(tensor_file_open_bytes(f, bytes->s, bytes->n, format, &why), "%s", str_text(&why));
  size_t i = name ? tensor_file_find(f, name) : 0;
  ck_assert_uint_lt(i, tensor_file_count(f));
  Tensor *t = tensor_file_read(f, i, &why);
  ck_assert_msg(t != NULL, "%s", str_text(&why));
  tensor_file_close(f);
  return t;
}

static void refuses(const Str *bytes, TensorFormat format, const char *words) {
  ck_assert_msg(!reads_all(bytes, bytes->n, format), "read, but expected: %s", words);
  ck_assert_msg(strstr(str_text(&why), words) != NULL, "\"%s\" instead of \"%s\"", str_text(&why),
                words);
}

/* Cut off anywhere: an error each time. Any bit turned over: an error or a tensor, no worse. */
static void survives_damage(const Str *bytes, TensorFormat format, size_t header) {
  ck_assert_msg(reads_all(bytes, bytes->n, format), "%s", str_text(&why));
  for (size_t n = 0; n < bytes->n; n++)
    ck_assert_msg(!reads_all(bytes, n, format), "read with %zu of %zu bytes", n, bytes->n);
  for (size_t i = 0; i < bytes->n; i++)
    for (int bit = 0; bit < (i < header ? 8 : 1); bit++) {
      bytes->s[i] = (char)(bytes->s[i] ^ 1 << bit);
      reads_all(bytes, bytes->n, format);
      bytes->s[i] = (char)(bytes->s[i] ^ 1 << bit);
    }
}

/* .npy ----------------------------------------------------------------------------------------- */

/* A file of the given format, dictionary and data. */
static Str npy_file(int format, const char *dict, const void *data, size_t n) {
  Str out = str_new(arena);
  size_t length = strlen(dict);
  str_addn(&out, "\x93NUMPY", 6);
  str_addc(&out, (char)format);
  str_addc(&out, '\0');
  for (int i = 0; i < (format == 1 ? 2 : 4); i++)
    str_addc(&out, (char)(length >> 8 * i));
  str_add(&out, dict);
  if (n)
    str_addn(&out, data, n);
  return out;
}

static void expect_print(Tensor *t, const char *text) {
  Str out = str_new(arena);
  tensor_print(t, &(TensorPrint){.header = true}, &out);
  ck_assert_str_eq(str_text(&out), text);
  tensor_release(t);
}

START_TEST(npy_versions_and_spellings) {
  static const int16_t data[] = {1, 2, 3, 4, 5, 6};
  static const char *const dicts[] = {
      "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }   \n",
      "{\"shape\":(2,3),\"descr\":\"i2\",\"fortran_order\":False}",
      "  { 'shape' : ( 2L , 3L , ) , 'fortran_order' : False , 'descr' : '=i2' }\n\n",
      "{'descr': '|i2', 'fortran_order': False, 'shape': (2, 3)}\t"};
  for (int format = 1; format <= 3; format++)
    for (size_t i = 0; i < sizeof dicts / sizeof *dicts; i++) {
      Str file = npy_file(format, dicts[i], data, sizeof data);
      expect_print(read_one(&file, TENSOR_NPY, NULL), "i16[2, 3] on cpu\n[[1 2 3]\n [4 5 6]]\n");
    }
}
END_TEST

START_TEST(npy_orders) {
  static const unsigned char big[] = {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6};
  Str file =
      npy_file(1, "{'descr': '>i2', 'fortran_order': True, 'shape': (3, 2)}", big, sizeof big);
  expect_print(read_one(&file, TENSOR_NPY, NULL), "i16[3, 2] on cpu\n[[1 4]\n [2 5]\n [3 6]]\n");
  file = npy_file(1, "{'descr': '>u2', 'fortran_order': False, 'shape': ()}", big + 2, 2);
  expect_print(read_one(&file, TENSOR_NPY, NULL), "u16[] on cpu\n2\n");
  static const unsigned char one[] = {0x3f, 0x80, 0, 0}; /* f32 1 */
  file = npy_file(1, "{'descr': '>f4', 'fortran_order': True, 'shape': (1,)}", one, 4);
  expect_print(read_one(&file, TENSOR_NPY, NULL), "f32[1] on cpu\n[1.]\n");
  file = npy_file(1, "{'descr': '<f8', 'fortran_order': True, 'shape': (0, 3)}", NULL, 0);
  expect_print(read_one(&file, TENSOR_NPY, NULL), "f64[0, 3] on cpu\n[]\n");
  file = npy_file(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", "\0\1\7", 3);
  Tensor *t = read_one(&file, TENSOR_NPY, NULL);
  ck_assert_mem_eq(tensor_data(t), "\0\1\1", 3);
  tensor_release(t);
}
END_TEST

/* The codes of ml_dtypes: 1 and -2 in each. */
START_TEST(npy_narrow_floats) {
  Str file =
      npy_file(1, "{'descr': '<V2', 'fortran_order': False, 'shape': (2,)}", "\x80\x3f\0\xc0", 4);
  expect_print(read_one(&file, TENSOR_NPY, NULL), "bf16[2] on cpu\n[ 1. -2.]\n");
  file =
      npy_file(1, "{'descr': '>V2', 'fortran_order': False, 'shape': (2,)}", "\x3f\x80\xc0\0", 4);
  expect_print(read_one(&file, TENSOR_NPY, NULL), "bf16[2] on cpu\n[ 1. -2.]\n");
  file = npy_file(1, "{'descr': '|V1', 'fortran_order': False, 'shape': (2,)}", "\x38\xc0", 2);
  expect_print(read_one(&file, TENSOR_NPY, NULL), "f8e4m3[2] on cpu\n[ 1. -2.]\n");
  file = npy_file(1, "{'descr': '<f1', 'fortran_order': False, 'shape': (2,)}", "\x3c\xc0", 2);
  expect_print(read_one(&file, TENSOR_NPY, NULL), "f8e5m2[2] on cpu\n[ 1. -2.]\n");
}
END_TEST

START_TEST(npy_refusals) {
  static const struct {
    const char *dict, *words;
  } bad[] = {
      {"", "damaged"},
      {"{}", "damaged"},
      {"{'descr': '<f4', 'shape': (1,)}", "damaged"},
      {"{'descr': '<f4', 'fortran_order': False}", "damaged"},
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "damaged"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", "damaged"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "damaged"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1)}", "damaged"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1 1)}", "damaged"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,,)}", "damaged"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "damaged"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': [1]}", "damaged"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)", "damaged"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} 1", "damaged"},
      {"{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}", "damaged"},
      {"{'descr': <f4, 'fortran_order': False, 'shape': (1,)}", "damaged"},
      {"{'descr': '<f4, 'fortran_order': False, 'shape': (1,)}", "which tilesh does not have"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}", "damaged"},
      {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", "the type <c8, which tilesh"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "Python objects"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "records"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", "9 axes"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 1)}",
       "it ends early: f32[3, 1] takes 12 bytes, and 4 are there"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}",
       "it ends early: f32[1000000000000] takes 4000000000000 bytes, and 4 are there"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
       "more elements than any machine can hold"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 0)}",
       "than any machine can count"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    Str file = npy_file(1, bad[i].dict, "\0\0\0\0", 4);
    refuses(&file, TENSOR_NPY, bad[i].words);
  }
  Str file = npy_file(4, "{}", NULL, 0);
  refuses(&file, TENSOR_NPY, "the .npy format 4.0");
  str_clear(&file);
  str_add(&file, "no such file at all");
  refuses(&file, TENSOR_NPY, "no .npy file");
  file = npy_file(2, "{}", NULL, 0);
  file.s[10] = 127; /* a header of more than 8 MiB */
  refuses(&file, TENSOR_NPY, "at most 1048576 are read");
}
END_TEST

START_TEST(npy_damage) {
  static const double data[] = {1, 2, 3, 4, 5, 6};
  Str file = npy_file(1, "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3), }\n", data,
                      sizeof data);
  survives_damage(&file, TENSOR_NPY, file.n);
}
END_TEST

/* .npz ----------------------------------------------------------------------------------------- */

/* One member of an archive as the test builds it; changes of the well-formed one by `bad`. */
typedef struct Part {
  const char *name;
  Str data;
  bool deflate, late, zip64;
} Part;

static void add_le(Str *out, uint64_t x, int bytes) {
  for (int i = 0; i < bytes; i++)
    str_addc(out, (char)(x >> 8 * i));
}

static Str deflated(const Str *in) {
  Str out = str_new(arena);
  z_stream z = {.zalloc = NULL};
  ck_assert_int_eq(deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  str_pad(&out, '\0', in->n + 100);
  z.next_in = (unsigned char *)in->s;
  z.avail_in = (uInt)in->n;
  z.next_out = (unsigned char *)out.s;
  z.avail_out = (uInt)out.n;
  ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.n = z.total_out;
  deflateEnd(&z);
  return out;
}

/* What was written of a part: for the directory. */
typedef struct Written {
  uint64_t at, packed, size;
  uint32_t crc;
} Written;

static Written add_part(Str *out, const Part *p) {
  Str packed = p->deflate ? deflated(&p->data) : p->data;
  Written w = {out->n, packed.n, p->data.n,
               (uint32_t)crc32(0, (const unsigned char *)p->data.s, (uInt)p->data.n)};
  add_le(out, 0x04034b50, 4);
  add_le(out, p->zip64 ? 45 : 20, 2);
  add_le(out, p->late ? 8 : 0, 2);
  add_le(out, p->deflate ? 8 : 0, 2);
  add_le(out, 0x00210000, 4);
  add_le(out, p->late ? 0 : w.crc, 4);
  add_le(out, p->zip64 ? 0xffffffff : p->late ? 0 : w.packed, 4);
  add_le(out, p->zip64 ? 0xffffffff : p->late ? 0 : w.size, 4);
  add_le(out, strlen(p->name), 2);
  add_le(out, p->zip64 ? 20 : 0, 2);
  str_add(out, p->name);
  if (p->zip64) {
    add_le(out, 1, 2);
    add_le(out, 16, 2);
    add_le(out, w.size, 8);
    add_le(out, w.packed, 8);
  }
  str_addn(out, packed.s, packed.n);
  if (p->late) {
    add_le(out, 0x08074b50, 4);
    add_le(out, w.crc, 4);
    add_le(out, w.packed, 4);
    add_le(out, w.size, 4);
  }
  return w;
}

static void add_central(Str *out, const Part *p, const Written *w) {
  add_le(out, 0x02014b50, 4);
  add_le(out, 20, 2);
  add_le(out, p->zip64 ? 45 : 20, 2);
  add_le(out, p->late ? 8 : 0, 2);
  add_le(out, p->deflate ? 8 : 0, 2);
  add_le(out, 0x00210000, 4);
  add_le(out, w->crc, 4);
  add_le(out, p->zip64 ? 0xffffffff : w->packed, 4);
  add_le(out, p->zip64 ? 0xffffffff : w->size, 4);
  add_le(out, strlen(p->name), 2);
  add_le(out, p->zip64 ? 28 : 0, 2);
  add_le(out, 0, 2);
  add_le(out, 0, 2);
  add_le(out, 0, 2);
  add_le(out, 0, 4);
  add_le(out, p->zip64 ? 0xffffffff : w->at, 4);
  str_add(out, p->name);
  if (p->zip64) {
    add_le(out, 1, 2);
    add_le(out, 24, 2);
    add_le(out, w->size, 8);
    add_le(out, w->packed, 8);
    add_le(out, w->at, 8);
  }
}

static void add_end(Str *out, uint64_t start, size_t n, bool zip64, const char *comment) {
  uint64_t at = out->n;
  if (zip64) {
    add_le(out, 0x06064b50, 4);
    add_le(out, 44, 8);
    add_le(out, 45, 2);
    add_le(out, 45, 2);
    add_le(out, 0, 8);
    add_le(out, n, 8);
    add_le(out, n, 8);
    add_le(out, at - start, 8);
    add_le(out, start, 8);
    add_le(out, 0x07064b50, 4);
    add_le(out, 0, 4);
    add_le(out, at, 8);
    add_le(out, 1, 4);
  }
  add_le(out, 0x06054b50, 4);
  add_le(out, 0, 4);
  add_le(out, zip64 ? 0xffff : n, 2);
  add_le(out, zip64 ? 0xffff : n, 2);
  add_le(out, zip64 ? 0xffffffff : at - start, 4);
  add_le(out, zip64 ? 0xffffffff : start, 4);
  add_le(out, strlen(comment), 2);
  str_add(out, comment);
}

static Str npz_file(const Part *parts, size_t n, bool zip64, const char *comment) {
  Str out = str_new(arena);
  Written w[8];
  for (size_t i = 0; i < n; i++)
    w[i] = add_part(&out, &parts[i]);
  uint64_t start = out.n;
  for (size_t i = 0; i < n; i++)
    add_central(&out, &parts[i], &w[i]);
  add_end(&out, start, n, zip64, comment);
  return out;
}

/* An .npy file of n i32 elements 0, 1, 2 … */
static Str counting(int n) {
  int32_t data[64];
  for (int i = 0; i < n; i++)
    data[i] = i;
  return npy_file(
      1, arena_printf(arena, "{'descr': '<i4', 'fortran_order': False, 'shape': (%d,)}", n), data,
      (size_t)n * 4);
}

/* Every combination of how a member can be written. */
START_TEST(npz_forms) {
  for (int form = 0; form < 16; form++) {
    bool deflate = form & 1, late = form & 2, zip64 = form & 4;
    const Part parts[] = {{"a.npy", counting(3), deflate, late, zip64},
                          {"read me", counting(1), deflate, late, zip64},
                          {"layer/b.npy", counting(20), deflate, late, zip64}};
    Str file = npz_file(parts, 3, form & 8, form & 8 ? "a comment PK\5\6" : "");
    expect_print(read_one(&file, TENSOR_NPZ, "a"), "i32[3] on cpu\n[0 1 2]\n");
    tensor_release(read_one(&file, TENSOR_NPZ, "layer/b"));
    TensorFile *f = tensor_file_new(arena);
    ck_assert(tensor_file_open_bytes(f, file.s, file.n, TENSOR_NPZ, &why));
    ck_assert_uint_eq(tensor_file_count(f), 2);
    ck_assert_str_eq(tensor_file_name(f, 1), "layer/b");
    ck_assert_uint_eq(tensor_file_find(f, "read me"), SIZE_MAX);
    tensor_file_close(f);
  }
  Str empty = npz_file(NULL, 0, false, "");
  ck_assert(reads_all(&empty, empty.n, TENSOR_NPZ));
}
END_TEST

/* One byte of a stored archive of the member a.npy is changed; `from` counts from the start, from
 * the directory (after 10000) or from the end record (after 20000). */
static void npz_changed(Part part, int from, unsigned char to, const char *words) {
  Str file = npz_file(&part, 1, false, "");
  size_t end = file.n - 22, central = end - 46 - strlen(part.name);
  size_t at = from >= 20000   ? end + (size_t)from - 20000
              : from >= 10000 ? central + (size_t)from - 10000
                              : (size_t)from;
  file.s[at] = (char)to;
  refuses(&file, TENSOR_NPZ, words);
}

START_TEST(npz_refusals) {
  Part a = {"a.npy", counting(5), false, false, false};
  Part z = {"a.npy", counting(60), true, false, false};
  npz_changed(a, 0, 'Q', "a member's header and the directory differ");
  npz_changed(a, 30, 'b', "a member's header and the directory differ");
  npz_changed(a, 14, 77, "a member's header and the directory differ");
  npz_changed(a, 29, 77, "a member is longer than the archive");
  npz_changed(a, 110, 77, "checksum"); /* an element */
  npz_changed(z, 60, 0xff, "damaged");
  npz_changed(a, 10000, 'Q', "its directory ends early");
  npz_changed(a, 10008, 1, "a.npy is encrypted");
  npz_changed(a, 10010, 12, "differ");
  npz_changed(a, 10029, 1, "its directory ends early");
  npz_changed(a, 10033, 1, "its directory ends early");
  npz_changed(a, 10042, 9, "a member's header and the directory differ");
  npz_changed(a, 10044, 9, "a member is not where its directory says");
  npz_changed(a, 20000, 'Q', "no end of a directory");
  npz_changed(a, 20004, 1, "several parts");
  npz_changed(a, 20010, 2, "its directory ends early");
  npz_changed(a, 20010, 0, "more members than it says");
  npz_changed(a, 20012, 1, "not just before its end");
  npz_changed(a, 20019, 1, "not just before its end");
  npz_changed(a, 20020, 1, "no end of a directory");
}
END_TEST

START_TEST(npz_names) {
  static const char *const bad[] = {"/a.npy",   "../a.npy", "a/../b.npy", "a/..",
                                    "b\\a.npy", "",         "\xff.npy"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    Part part = {bad[i], counting(1), false, false, false};
    Str file = npz_file(&part, 1, false, "");
    refuses(&file, TENSOR_NPZ, "a member's name is no text, or leaves the archive");
  }
  Part good = {"a..b/.c...npy", counting(1), false, false, false};
  Str file = npz_file(&good, 1, false, "");
  ck_assert(reads_all(&file, file.n, TENSOR_NPZ));
  const Part twice[] = {good, good};
  file = npz_file(twice, 2, false, "");
  refuses(&file, TENSOR_NPZ, "two tensors named \"a..b/.c..\"");
}
END_TEST

/* A directory that names the same bytes twice, under one name each time more. */
START_TEST(npz_overlaps) {
  Str out = str_new(arena);
  Part part = {"a.npy", counting(5), false, false, false};
  Written w = add_part(&out, &part);
  uint64_t start = out.n;
  for (int i = 0; i < 3; i++)
    add_central(&out, &part, &w);
  add_end(&out, start, 3, false, "");
  refuses(&out, TENSOR_NPZ, "its members a.npy and a.npy overlap");
}
END_TEST

/* Sizes that lie: nothing is allocated for them. */
START_TEST(npz_bombs) {
  Str header =
      npy_file(1, "{'descr': '|i1', 'fortran_order': False, 'shape': (1000000000000,)}", NULL, 0);
  Part part = {"a.npy", header, true, false, true};
  Str out = str_new(arena);
  Written w = add_part(&out, &part);
  uint64_t start = out.n;
  w.size = UINT64_C(1000000000000) + header.n;
  add_central(&out, &part, &w);
  add_end(&out, start, 1, true, "");
  refuses(&out, TENSOR_NPZ, "more than they can");
  str_clear(&out);
  w = add_part(&out, &part);
  add_central(&out, &part, &w);
  add_end(&out, out.n - 46 - 5 - 28, 1, true, "");
  refuses(&out, TENSOR_NPZ, "it ends early: i8[1000000000000]");
  /* Zeros deflate a thousandfold; the shape has only one of them. */
  Str long_one = npy_file(1, "{'descr': '|i1', 'fortran_order': False, 'shape': (1,)}", NULL, 0);
  str_pad(&long_one, '\0', 100000);
  Part zeros = {"a.npy", long_one, true, false, false};
  out = npz_file(&zeros, 1, false, "");
  refuses(&out, TENSOR_NPZ, "longer than its shape says");
}
END_TEST

START_TEST(npz_damage) {
  const Part parts[] = {{"a.npy", counting(3), false, false, true},
                        {"b.npy", counting(20), true, true, false}};
  Str file = npz_file(parts, 2, true, "");
  survives_damage(&file, TENSOR_NPZ, file.n);
  file = npz_file(parts, 2, false, "");
  survives_damage(&file, TENSOR_NPZ, file.n);
}
END_TEST

/* .safetensors --------------------------------------------------------------------------------- */

static Str safe_file(const char *header, size_t data) {
  Str out = str_new(arena);
  add_le(&out, strlen(header), 8);
  str_add(&out, header);
  for (size_t i = 0; i < data; i++)
    str_addc(&out, (char)i);
  return out;
}

START_TEST(safetensors_reads) {
  Str file = safe_file("{\"b\":{\"dtype\":\"I16\",\"shape\":[2,1],\"data_offsets\":[3,7]},"
                       "\"__metadata__\":{\"format\":\"pt\"},"
                       "\"a.w\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                       "\"s\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[7,9]},"
                       "\"e\":{\"shape\":[0,5],\"dtype\":\"F64\",\"data_offsets\":[9,9]}}   ",
                       9);
  expect_print(read_one(&file, TENSOR_SAFETENSORS, NULL), "u8[3] on cpu\n[0 1 2]\n");
  expect_print(read_one(&file, TENSOR_SAFETENSORS, "b"), "i16[2, 1] on cpu\n[[1027]\n [1541]]\n");
  expect_print(read_one(&file, TENSOR_SAFETENSORS, "e"), "f64[0, 5] on cpu\n[]\n");
  survives_damage(&file, TENSOR_SAFETENSORS, file.n);
  file = safe_file("{}", 0);
  ck_assert(reads_all(&file, file.n, TENSOR_SAFETENSORS));
}
END_TEST

#define ONE(rest) "{\"a\":{" rest "}}"

START_TEST(safetensors_refusals) {
  static const struct {
    const char *header;
    size_t data;
    const char *words;
  } bad[] = {
      {" {}", 0, "does not begin with {"},
      {"{\"a\"}", 0, "no JSON"},
      {"{} {}", 0, "no JSON"},
      {"{\"a\":{},\"a\":{}}", 0, "duplicate object key"},
      {"{\"a\\u0000\":{}}", 0, "no JSON"},
      {"{\"\":{}}", 0, "has no name"},
      {"{\"a\":1}", 0, "is no object"},
      {"{\"__metadata__\":{\"a\":1}}", 0, "no object of strings"},
      {"{\"__metadata__\":[]}", 0, "no object of strings"},
      {ONE("\"shape\":[1],\"data_offsets\":[0,1]"), 1, "has no dtype"},
      {ONE("\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[0,8]"), 8, "has the dtype C64"},
      {ONE("\"dtype\":\"U8\",\"data_offsets\":[0,1]"), 1, "has no shape"},
      {ONE("\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]"), 1, "no list of extents"},
      {ONE("\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]"), 1, "no list of extents"},
      {ONE("\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]"), 1, "9 axes"},
      {ONE("\"dtype\":\"U8\",\"shape\":[1]"), 1, "has no data_offsets"},
      {ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]"), 1, "has no data_offsets"},
      {ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]"), 1, "has no data_offsets"},
      {ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]"), 1, "has no data_offsets"},
      {ONE("\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,9]"), 1,
       "\"a\" ends at byte 9 of the data, and there are 1"},
      {ONE("\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,1]"), 1,
       "\"a\" is u8[2], but its data_offsets span 1 bytes"},
      {ONE("\"dtype\":\"F16\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]"), 0,
       "span 0 bytes"},
      {ONE("\"dtype\":\"F16\",\"shape\":[1000000000000],\"data_offsets\":[0,2000000000000]"), 1,
       "ends at byte 2000000000000"},
      {ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,9223372036854775808]"), 1,
       "no JSON"},
      {ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]"), 2,
       "\"a\" begins at byte 1 of the data, after a hole at 0"},
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
       "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
       3, "\"b\" begins at byte 1 of the data, inside the tensor that ends at 2"},
      {ONE("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]"), 2,
       "1 bytes after the last tensor belong to none"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    Str file = safe_file(bad[i].header, bad[i].data);
    refuses(&file, TENSOR_SAFETENSORS, bad[i].words);
  }
  Str file = safe_file("{}", 0);
  file.s[0] = 3;
  refuses(&file, TENSOR_SAFETENSORS, "says that it is 3 bytes long; the file has 2");
  file.s[7] = 1;
  refuses(&file, TENSOR_SAFETENSORS, "the format's limit is 100000000");
  file.n = 9;
  refuses(&file, TENSOR_SAFETENSORS, "it has 9 bytes");
  Str deep = str_new(arena);
  str_add(&deep, "{\"a\":");
  str_pad(&deep, '[', 100000);
  file = safe_file(deep.s, 0);
  refuses(&file, TENSOR_SAFETENSORS, "no JSON");
}
END_TEST

/* Writing -------------------------------------------------------------------------------------- */

/* An element of each bit pattern that fits, of any dtype. */
static Tensor *patterns(DType t, int rank) {
  int64_t extent[TENSOR_MAX_RANK];
  for (int i = 0; i < rank; i++)
    extent[i] = 3 - i % 2;
  Tensor *out = tensor_new(t, rank, extent, TENSOR_ZERO, &why);
  unsigned char *p = tensor_data_write(out);
  for (size_t i = 0; i < (size_t)tensor_count(out) * dtype_size(t); i++)
    p[i] = t == DT_BOOL ? (unsigned char)(i % 3 == 0) : (unsigned char)(i * 37 + 11);
  return out;
}

static void expect_same(const Tensor *a, const Tensor *b) {
  ck_assert_int_eq(a->dtype, b->dtype);
  ck_assert_int_eq(a->rank, b->rank);
  ck_assert_mem_eq(a->extent, b->extent, (size_t)a->rank * sizeof *a->extent);
  Tensor *x = tensor_cast(a, a->dtype, &why), *y = tensor_cast(b, b->dtype, &why);
  ck_assert_mem_eq(tensor_data(x), tensor_data(y), (size_t)tensor_count(x) * dtype_size(x->dtype));
  tensor_release(x);
  tensor_release(y);
}

static void expect_saved(const char *path, const TensorSave *what) {
  str_clear(&why);
  ck_assert_msg(tensor_save(arena, path, what, &why), "%s", str_text(&why));
  TensorFile *f = tensor_file_new(arena);
  str_clear(&why);
  ck_assert_msg(tensor_file_open(f, path, what->format, NULL, &why), "%s", str_text(&why));
  ck_assert_uint_eq(tensor_file_count(f), what->n);
  for (size_t i = 0; i < what->n; i++) {
    size_t k = what->format == TENSOR_NPY ? 0 : tensor_file_find(f, what->v[i].name);
    Tensor *t = tensor_file_read(f, k, &why);
    ck_assert_msg(t != NULL, "%s", str_text(&why));
    expect_same(t, what->v[i].tensor);
    tensor_release(t);
  }
  tensor_file_close(f);
}

static const char *const ending[] = {"f.npy", "f.npz", "f.safetensors"};

/* Every dtype, every rank, and views. */
START_TEST(what_is_saved_comes_back) {
  for (int format = TENSOR_NPY; format < TENSOR_NO_FORMAT; format++)
    for (DType d = 0; d < DT_COUNT; d++)
      for (int rank = 0; rank <= TENSOR_MAX_RANK; rank += d == DT_F32 ? 1 : 3) {
        Tensor *t = patterns(d, rank);
        TensorNamed named = {"x", t};
        expect_saved(in_dir(ending[format]),
                     &(TensorSave){(TensorFormat)format, &named, 1, rank == 3, NULL});
        tensor_release(t);
      }
  ck_assert_int_eq(count_files(), 3);
}
END_TEST

START_TEST(views_and_many_tensors_are_saved) {
  Tensor *whole = patterns(DT_I64, 5), *row = tensor_swap_last(whole, &why);
  TensorIndex ix = {TIX_SLICE, 0, 0, -1, false, false};
  Tensor *back = tensor_index(row, &ix, 1, &why), *odd = patterns(DT_U8, 3);
  int64_t none[] = {0, 4}, big[] = {300, 301};
  Tensor *empty = tensor_new(DT_F32, 2, none, TENSOR_ZERO, &why);
  Tensor *large = tensor_new(DT_F64, 2, big, TENSOR_ZERO, &why);
  for (int64_t i = 0; i < 300 * 301; i++)
    ((double *)tensor_data_write(large))[i] = (double)i * 0.5;
  Tensor *wide = tensor_swap_last(large, &why);
  const TensorNamed v[] = {{"odd", odd},   {"layers.0/back", back}, {"empty", empty},
                           {"wide", wide}, {"\"\n\xc3\xa9", row},   {"large", large}};
  expect_saved(in_dir("f.npz"), &(TensorSave){TENSOR_NPZ, v, 6, false, NULL});
  expect_saved(in_dir("f.npz"), &(TensorSave){TENSOR_NPZ, v, 6, true, NULL});
  expect_saved(in_dir("f.safetensors"), &(TensorSave){TENSOR_SAFETENSORS, v, 6, false, NULL});
  expect_saved(in_dir("none.npz"), &(TensorSave){TENSOR_NPZ, NULL, 0, false, NULL});
  expect_saved(in_dir("none.safetensors"), &(TensorSave){TENSOR_SAFETENSORS, NULL, 0, false, NULL});
  for (size_t i = 0; i < 6; i++) {
    TensorNamed one = {NULL, v[i].tensor};
    expect_saved(in_dir("f.npy"), &(TensorSave){TENSOR_NPY, &one, 1, false, NULL});
  }
  Tensor *const all[] = {whole, row, back, odd, empty, large, wide};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    tensor_release(all[i]);
}
END_TEST

/* Header and elements of what is written, by the formats' documents. */
START_TEST(written_bytes) {
  static const char npy[] =
      "\x93NUMPY\1\0\x76\0{'descr': '<V2', 'fortran_order': False, 'shape': (2,), }";
  static const char safe[] = "\x38\0\0\0\0\0\0\0{\"w\":{\"dtype\":\"BF16\",\"shape\":[2],"
                             "\"data_offsets\":[0,4]}}";
  int64_t extent[] = {2};
  Tensor *t = tensor_new(DT_BF16, 1, extent, TENSOR_ZERO, &why);
  memcpy(tensor_data_write(t), "\x80\x3f\0\xc0", 4);
  TensorNamed named = {"w", t};
  const char *reason = NULL, *path = in_dir("f");
  size_t n;
  ck_assert(tensor_save(arena, path, &(TensorSave){TENSOR_NPY, &named, 1, false, NULL}, &why));
  char *p = io_read_file(arena, path, &n, &reason);
  ck_assert_uint_eq(n, 128 + 4);
  ck_assert_mem_eq(p, npy, sizeof npy - 1);
  ck_assert_mem_eq(p + 127, "\n\x80\x3f\0\xc0", 5);
  ck_assert(
      tensor_save(arena, path, &(TensorSave){TENSOR_SAFETENSORS, &named, 1, false, NULL}, &why));
  p = io_read_file(arena, path, &n, &reason);
  ck_assert_uint_eq(n, 64 + 4);
  ck_assert_mem_eq(p, safe, sizeof safe - 1);
  ck_assert_mem_eq(p + 64, "\x80\x3f\0\xc0", 4);
  tensor_release(t);
}
END_TEST

START_TEST(names_that_cannot_be_saved) {
  Tensor *t = patterns(DT_I8, 1);
  const TensorNamed twice[] = {{"a", t}, {"a", t}}, unnamed = {"", t}, no_text = {"\xff", t};
  const TensorNamed meta = {"__metadata__", t};
  const char *path = in_dir("f.npz"), *safe = in_dir("f.safetensors");
  ck_assert(!tensor_save(arena, path, &(TensorSave){TENSOR_NPZ, twice, 2, false, NULL}, &why));
  ck_assert_ptr_nonnull(strstr(why.s, "two tensors are named \"a\""));
  ck_assert(!tensor_save(arena, path, &(TensorSave){TENSOR_NPZ, &unnamed, 1, false, NULL}, &why));
  ck_assert(!tensor_save(arena, path, &(TensorSave){TENSOR_NPZ, &no_text, 1, false, NULL}, &why));
  ck_assert(
      !tensor_save(arena, safe, &(TensorSave){TENSOR_SAFETENSORS, &meta, 1, false, NULL}, &why));
  ck_assert_ptr_nonnull(strstr(why.s, "can be named __metadata__"));
  ck_assert_int_eq(count_files(), 0);
  tensor_release(t);
}
END_TEST

/* A file size limit stands for a full disk: the old file stays, and nothing beside it. */
START_TEST(a_full_disk_leaves_the_old_file) {
  int64_t extent[] = {100000};
  Tensor *small = patterns(DT_F32, 1), *large = tensor_new(DT_F64, 1, extent, TENSOR_ZERO, &why);
  double *p = tensor_data_write(large);
  for (int i = 0; i < 100000; i++)
    p[i] = 1.0 / (i + 1);
  const TensorNamed old = {"x", small}, new = {"x", large};
  for (int form = 0; form < 4; form++) {
    TensorFormat format = form < 3 ? (TensorFormat)form : TENSOR_NPZ;
    const char *path = in_dir(ending[format]);
    ck_assert(tensor_save(arena, path, &(TensorSave){format, &old, 1, false, NULL}, &why));
    pid_t pid = fork();
    if (pid == 0) {
      struct rlimit limit = {100000, 100000};
      signal(SIGXFSZ, SIG_IGN);
      setrlimit(RLIMIT_FSIZE, &limit);
      bool ok = tensor_save(arena, path, &(TensorSave){format, &new, 1, form == 3, NULL}, &why);
      _exit(ok ? 0 : strstr(why.s, "File too large") ? 3 : 4);
    }
    int status;
    waitpid(pid, &status, 0);
    ck_assert_int_eq(WEXITSTATUS(status), 3);
    TensorFile *f = tensor_file_new(arena);
    ck_assert(tensor_file_open(f, path, format, NULL, &why));
    Tensor *t = tensor_file_read(f, 0, &why);
    expect_same(t, small);
    tensor_release(t);
    tensor_file_close(f);
  }
  ck_assert_int_eq(count_files(), 3);
  tensor_release(small);
  tensor_release(large);
}
END_TEST

START_TEST(the_flag_stops) {
  volatile sig_atomic_t stop = 1;
  Tensor *t = patterns(DT_F32, 1);
  TensorNamed named = {"x", t};
  for (int format = TENSOR_NPY; format < TENSOR_NO_FORMAT; format++) {
    const char *path = in_dir(ending[format]);
    TensorSave what = {(TensorFormat)format, &named, 1, false, &stop};
    str_clear(&why);
    ck_assert(!tensor_save(arena, path, &what, &why));
    ck_assert_ptr_nonnull(strstr(why.s, "interrupted"));
    ck_assert_int_eq(count_files(), 0);
    what.stop = NULL;
    ck_assert(tensor_save(arena, path, &what, &why));
    str_clear(&why);
    TensorFile *f = tensor_file_new(arena);
    if (tensor_file_open(f, path, what.format, &stop, &why)) {
      str_clear(&why);
      ck_assert_ptr_null(tensor_file_read(f, 0, &why));
    }
    ck_assert_ptr_nonnull(strstr(why.s, "interrupted"));
    tensor_file_close(f);
    unlink(path);
  }
  tensor_release(t);
}
END_TEST

/* A pipe that nobody writes to: the flag ends the waiting. */
START_TEST(a_silent_pipe_is_left) {
  volatile sig_atomic_t stop = 1;
  const char *pipe = in_dir("p.npy");
  ck_assert_int_eq(mkfifo(pipe, 0600), 0);
  TensorFile *f = tensor_file_new(arena);
  ck_assert(!tensor_file_open(f, pipe, TENSOR_NPY, &stop, &why));
  ck_assert_ptr_nonnull(strstr(why.s, "interrupted"));
  tensor_file_close(f);
}
END_TEST

START_TEST(paths_that_are_no_files) {
  Tensor *t = patterns(DT_F32, 1);
  TensorNamed named = {"x", t};
  TensorSave what = {TENSOR_NPY, &named, 1, false, NULL};
  TensorFile *f = tensor_file_new(arena);
  ck_assert(!tensor_file_open(f, dir, TENSOR_NPY, NULL, &why));
  ck_assert_ptr_nonnull(strstr(why.s, "Is a directory"));
  tensor_file_close(f);
  ck_assert(!tensor_save(arena, dir, &what, &why));
  ck_assert(!tensor_save(arena, "/dev/full", &what, &why));
  ck_assert_ptr_nonnull(strstr(why.s, "No space left on device"));
  ck_assert(tensor_save(arena, "/dev/null", &what, &why));
  const char *pipe = in_dir("p.npy"); /* a pipe is read to its end */
  ck_assert_int_eq(mkfifo(pipe, 0600), 0);
  pid_t pid = fork();
  if (pid == 0)
    _exit(tensor_save(arena, pipe, &what, &why) ? 0 : 1);
  str_clear(&why);
  f = tensor_file_new(arena);
  ck_assert_msg(tensor_file_open(f, pipe, TENSOR_NPY, NULL, &why), "%s", str_text(&why));
  Tensor *back = tensor_file_read(f, 0, &why);
  expect_same(back, t);
  tensor_file_close(f);
  int status;
  waitpid(pid, &status, 0);
  ck_assert_int_eq(WEXITSTATUS(status), 0);
  tensor_release(back);
  tensor_release(t);
}
END_TEST

/* Mapping -------------------------------------------------------------------------------------- */

static long resident_kib(void) {
  FILE *f = fopen("/proc/self/statm", "r");
  long size = 0, resident = 0;
  ck_assert_int_eq(fscanf(f, "%ld %ld", &size, &resident), 2);
  fclose(f);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/* A sparse file of 96 MiB and a page: reading it costs no memory, and storing reaches no file. */
START_TEST(large_files_are_mapped) {
  const int64_t n = ((INT64_C(96) << 20) + 4096) / 4;
  Str head = npy_file(
      1,
      arena_printf(arena, "{'descr': '<i4', 'fortran_order': False, 'shape': (%" PRId64 ",)}%11s\n",
                   n, ""),
      NULL, 0);
  const char *reason, *path = in_dir("f.npy");
  ck_assert_uint_eq(head.n % 4, 0);
  ck_assert(io_write_file(arena, path, head.s, head.n, &reason));
  ck_assert_int_eq(truncate(path, (off_t)head.n + n * 4), 0);
  TensorFile *f = tensor_file_new(arena);
  ck_assert(tensor_file_open(f, path, TENSOR_NPY, NULL, &why));
  long before = resident_kib();
  Tensor *t = tensor_file_read(f, 0, &why);
  tensor_file_close(f);
  ck_assert_ptr_nonnull(t);
#if !defined(__SANITIZE_ADDRESS__)
  ck_assert_int_lt(resident_kib() - before, 8 << 10);
#else
  (void)before;
#endif
  int64_t last = n - 1;
  ck_assert_int_eq(tensor_get(t, &last).as.i, 0);
  tensor_set(t, &last, (Scalar){DT_I32, {.i = 7}});
  ck_assert_int_eq(tensor_get(t, &last).as.i, 7);
  const char *end = (const char *)tensor_data(t) + n * 4;
  for (int i = 0; i < 64; i++) /* vector loops read past the end */
    ck_assert_int_eq(end[i], 0);
  Tensor *again;
  f = tensor_file_new(arena);
  ck_assert(tensor_file_open(f, path, TENSOR_NPY, NULL, &why));
  again = tensor_file_read(f, 0, &why);
  ck_assert_int_eq(tensor_get(again, &last).as.i, 0);
  tensor_file_close(f);
  tensor_release(again);
  tensor_release(t);
}
END_TEST

int main(void) {
  Suite *s = suite_create("tensor_file");
  TCase *c = tcase_create("tensor_file");
  tcase_add_checked_fixture(c, setup, teardown);
  tcase_set_timeout(c, 120);
  const TTest *const tests[] = {npy_versions_and_spellings,
                                npy_orders,
                                npy_narrow_floats,
                                npy_refusals,
                                npy_damage,
                                npz_forms,
                                npz_refusals,
                                npz_names,
                                npz_overlaps,
                                npz_bombs,
                                npz_damage,
                                safetensors_reads,
                                safetensors_refusals,
                                what_is_saved_comes_back,
                                views_and_many_tensors_are_saved,
                                written_bytes,
                                names_that_cannot_be_saved,
                                a_full_disk_leaves_the_old_file,
                                the_flag_stops,
                                a_silent_pipe_is_left,
                                paths_that_are_no_files,
                                large_files_are_mapped};
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
    tcase_add_test(c, tests[i]);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
