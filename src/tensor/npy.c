/* npy.c: NumPy's .npy files.
 *
 * In: paths and tensors. Out: tensors and files. The header is a Python dictionary in ASCII,
 * written by many programs; what is read here is the three keys it must have, in any order, and
 * nothing is believed before it was checked against the file's size. Tests:
 * tests/unit/check_tensor.c, tests/fuzz.
 */
#include "impl.h"

#include <inttypes.h>
#include <string.h>

static const char magic[] = "\x93NUMPY";

/* Element types ------------------------------------------------------------------------------ */

typedef struct NpyType {
  DType dtype;
  const char *code; /* without the byte order */
} NpyType;

/* Writing takes the first row of a dtype. */
static const NpyType types[] = {
    {DT_BOOL, "b1"}, {DT_I8, "i1"},  {DT_I16, "i2"},  {DT_I32, "i4"},    {DT_I64, "i8"},
    {DT_U8, "u1"},   {DT_U16, "u2"}, {DT_U32, "u4"},  {DT_U64, "u8"},    {DT_F16, "f2"},
    {DT_F32, "f4"},  {DT_F64, "f8"}, {DT_BF16, "V2"}, {DT_F8E4M3, "V1"},
};

enum { NTYPES = sizeof types / sizeof *types };

/* Of every type that is written. */
static const char *code_of(DType t) {
  for (size_t i = 0; i < NTYPES; i++)
    if (types[i].dtype == t)
      return types[i].code;
  return "V1"; /* not reached: tensor_write_npy refuses the type that has no row */
}

/* "<f4", "|b1", ">i2". */
static bool parse_descr(const char *s, size_t n, DType *t, bool *swap) {
  if (n < 3 || !strchr("<>|=", s[0]))
    return false;
  for (size_t i = 0; i < NTYPES; i++)
    if (strlen(types[i].code) == n - 1 && memcmp(types[i].code, s + 1, n - 1) == 0) {
      *t = types[i].dtype;
      *swap = s[0] == '>' && dtype_size(*t) > 1;
      return true;
    }
  return false;
}

/* Header ------------------------------------------------------------------------------------- */

typedef struct Header {
  DType dtype;
  bool swap, fortran;
  int rank;
  int64_t extent[TENSOR_MAX_RANK];
} Header;

/* The text after `'key':`, or NULL. */
static const char *value_of(const char *text, const char *key) {
  char quoted[24];
  snprintf(quoted, sizeof quoted, "'%s'", key);
  const char *p = strstr(text, quoted);
  if (!p) {
    snprintf(quoted, sizeof quoted, "\"%s\"", key);
    p = strstr(text, quoted);
  }
  if (!p)
    return NULL;
  p += strlen(quoted);
  p += strspn(p, " ");
  return *p == ':' ? p + 1 + strspn(p + 1, " ") : NULL;
}

/* (3, 4), (3,) and () are the forms; anything else is damage. Extents past 64 bits and more than
 * 8 axes are refused here. */
static bool read_shape(const char *p, Header *h) {
  if (*p++ != '(')
    return false;
  for (h->rank = 0;; h->rank++) {
    p += strspn(p, " ,");
    if (*p == ')')
      return true;
    if (*p < '0' || *p > '9' || h->rank == TENSOR_MAX_RANK)
      return false;
    int64_t n = 0;
    for (; *p >= '0' && *p <= '9'; p++)
      if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *p - '0', &n))
        return false;
    p += *p == 'L'; /* files of Python 2 */
    h->extent[h->rank] = n;
  }
}

/* Extra keys are no fault; a missing one is. */
static bool read_header(const char *text, Header *h, Str *why) {
  const char *descr = value_of(text, "descr"), *order = value_of(text, "fortran_order");
  const char *shape = value_of(text, "shape");
  const char quote = descr ? *descr : '\0';
  const char *end = quote == '\'' || quote == '"' ? strchr(descr + 1, quote) : NULL;
  if (!order || !shape || !end || !read_shape(shape, h)) {
    tensor_why(why, "its header is damaged, or describes records");
    return false;
  }
  h->fortran = strncmp(order, "True", 4) == 0;
  if (parse_descr(descr + 1, (size_t)(end - descr - 1), &h->dtype, &h->swap))
    return true;
  tensor_why(why, "its elements have the type %.*s, which tilesh does not have",
             (int)(end - descr - 1), descr + 1);
  return false;
}

/* Finds the header's text (copied, NUL-terminated) and the start of the data. */
static char *find_header(Arena *a, const unsigned char *p, size_t n, size_t *data) {
  if (n < 12 || memcmp(p, magic, 6) != 0 || p[6] < 1 || p[6] > 3)
    return NULL;
  size_t at = p[6] == 1 ? 10 : 12, length = (size_t)p[8] | (size_t)p[9] << 8;
  if (p[6] > 1)
    length |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
  if (length > n - at || length > 1 << 20)
    return NULL;
  *data = at + length;
  return arena_strndup(a, (const char *)p + at, length);
}

/* Reading ------------------------------------------------------------------------------------ */

/* Files of big-endian machines. */
static void swap_bytes(char *p, size_t n, size_t size) {
  for (size_t i = 0; i < n; i++, p += size)
    for (size_t k = 0; k < size / 2; k++) {
      char c = p[k];
      p[k] = p[size - 1 - k];
      p[size - 1 - k] = c;
    }
}

/* Column-major data is a view with its axes in reverse order. */
static Tensor *from_fortran(Tensor *t, Str *why) {
  int axes[TENSOR_MAX_RANK];
  for (int i = 0; i < t->rank; i++)
    axes[i] = t->rank - 1 - i;
  Tensor *view = tensor_permute(t, axes, t->rank, why);
  tensor_release(t);
  return view;
}

/* The size is believed only as far as the file is long. */
static Tensor *make(Header *h, const char *data, size_t n, Str *why) {
  int64_t extent[TENSOR_MAX_RANK];
  for (int i = 0; i < h->rank; i++)
    extent[i] = h->extent[h->fortran ? h->rank - 1 - i : i];
  uint64_t bytes = dtype_size(h->dtype);
  for (int i = 0; i < h->rank; i++)
    if (__builtin_mul_overflow(bytes, (uint64_t)extent[i], &bytes))
      bytes = UINT64_MAX;
  if (bytes > n) { /* before any memory is asked for */
    tensor_why(why, "it ends early: its shape needs more bytes than it has");
    return NULL;
  }
  Tensor *t = tensor_new(h->dtype, h->rank, extent, TENSOR_UNSET, why);
  if (!t)
    return NULL;
  char *p = tensor_data_write(t);
  if (bytes)
    memcpy(p, data, (size_t)bytes);
  if (h->swap)
    swap_bytes(p, (size_t)tensor_count(t), dtype_size(h->dtype));
  if (h->dtype == DT_BOOL)
    for (int64_t i = 0; i < tensor_count(t); i++)
      p[i] = p[i] != 0;
  return h->fortran && h->rank > 1 ? from_fortran(t, why) : t;
}

/* The whole file is read first, so a file that shrinks meanwhile cannot fault. */
Tensor *tensor_read_npy(Arena *scratch, const char *path, Str *why) {
  size_t n = 0, data = 0;
  const char *reason = NULL;
  char *bytes = io_read_file(scratch, path, &n, &reason);
  tensor_why(why, "%s: ", path);
  if (!bytes) {
    tensor_why(why, "%s", reason);
    return NULL;
  }
  Header h = {.rank = 0};
  char *text = find_header(scratch, (const unsigned char *)bytes, n, &data);
  if (!text) {
    tensor_why(why, "it is no .npy file");
    return NULL;
  }
  return read_header(text, &h, why) ? make(&h, bytes + data, n - data, why) : NULL;
}

/* Writing ------------------------------------------------------------------------------------ */

/* Format 1, the one that every reader knows. */
static void add_header(const Tensor *t, Str *out) {
  Str h = str_new(out->arena);
  str_addf(&h, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
           dtype_size(t->dtype) == 1 ? '|' : '<', code_of(t->dtype));
  for (int i = 0; i < t->rank; i++)
    str_addf(&h, i ? " %" PRId64 "," : "%" PRId64 ",", t->extent[i]);
  if (t->rank > 1)
    h.n--; /* (3, 4) but (3,) */
  str_addn(&h, "), }", 4);
  str_pad(&h, ' ', (64 - (10 + h.n + 1) % 64) % 64); /* the data is aligned to 64 bytes */
  str_addc(&h, '\n');
  str_addn(out, magic, 6);
  str_addn(out, "\x01\x00", 2);
  str_addc(out, (char)(h.n & 0xff));
  str_addc(out, (char)(h.n >> 8));
  str_addn(out, h.s, h.n);
}

/* Views are written in row-major order of their own axes. Only one 8-bit float can be told from
 * its code: what would come back as another type is refused. */
bool tensor_write_npy(Arena *scratch, const Tensor *t, const char *path, Str *why) {
  if (t->dtype == DT_F8E5M2) {
    tensor_why(why, "%s: .npy has no name for f8e5m2; f16 holds its values: x.to(f16)", path);
    return false;
  }
  Str out = str_new(scratch);
  const char *reason = NULL;
  Tensor *flat = tensor_is_contiguous(t) ? NULL : tensor_cast(t, t->dtype, why);
  if (!flat && !tensor_is_contiguous(t))
    return false;
  add_header(t, &out);
  str_addn(&out, tensor_data(flat ? flat : t), (size_t)tensor_count(t) * dtype_size(t->dtype));
  tensor_release(flat);
  if (io_write_file(scratch, path, out.s, out.n, &reason))
    return true;
  tensor_why(why, "%s: %s", path, reason);
  return false;
}
