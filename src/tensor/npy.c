/* npy.c: the headers of NumPy's .npy files.
 *
 * In: a Stream at the file's first byte, or a tensor. Out: a FileLayout, or a header's bytes. The
 * header is a Python dictionary of exactly three keys, written by many programs; what is read here
 * is the part of Python's syntax that such a dictionary needs. Tests:
 * tests/unit/check_tensor_file.c, tests/fuzz.
 */
#include "file.h"

#include <inttypes.h>

enum { MAGIC_BYTES = 6, MOST_HEADER = 1 << 20 };

static const char magic[] = "\x93NUMPY";

/* Element types ------------------------------------------------------------------------------ */

typedef struct NpyType {
  DType dtype;
  char order;       /* as it is written: '|' has none */
  const char *code; /* without the byte order */
} NpyType;

/* Every dtype has a row; the last three are ml_dtypes' codes. */
static const NpyType types[] = {
    {DT_BOOL, '|', "b1"}, {DT_I8, '|', "i1"},     {DT_I16, '<', "i2"},    {DT_I32, '<', "i4"},
    {DT_I64, '<', "i8"},  {DT_U8, '|', "u1"},     {DT_U16, '<', "u2"},    {DT_U32, '<', "u4"},
    {DT_U64, '<', "u8"},  {DT_F16, '<', "f2"},    {DT_F32, '<', "f4"},    {DT_F64, '<', "f8"},
    {DT_BF16, '<', "V2"}, {DT_F8E4M3, '<', "V1"}, {DT_F8E5M2, '<', "f1"},
};

enum { NTYPES = sizeof types / sizeof *types };
_Static_assert(NTYPES == (int)DT_COUNT, "every dtype has a code");

static const NpyType *type_of(DType t) {
  size_t i = 0;
  while (types[i].dtype != t)
    i++;
  return &types[i];
}

/* "<f4", "|b1", ">i2", "f4". */
static bool parse_descr(const char *s, size_t n, FileLayout *l) {
  char order = n > 0 ? *s : '\0';
  if (order == '<' || order == '>' || order == '|' || order == '=') {
    s++;
    n--;
  }
  for (size_t i = 0; i < NTYPES; i++)
    if (n == 2 && memcmp(types[i].code, s, 2) == 0) {
      l->dtype = types[i].dtype;
      l->swap = order == '>' && dtype_size(l->dtype) > 1;
      return true;
    }
  return false;
}

/* The dictionary ----------------------------------------------------------------------------- */

/* A place in the header's text, and which keys were seen. */
typedef struct Dict {
  const char *p, *end;
  bool descr, order, shape;
  FileLayout *out;
  Str *why;
} Dict;

static void skip_blanks(Dict *d) {
  while (d->p < d->end && (*d->p == ' ' || *d->p == '\n' || *d->p == '\t'))
    d->p++;
}

static bool take(Dict *d, const char *word) {
  size_t n = strlen(word);
  skip_blanks(d);
  if ((size_t)(d->end - d->p) < n || memcmp(d->p, word, n) != 0)
    return false;
  d->p += n;
  return true;
}

/* Quoted text, without escapes: none of what is known here needs one. */
static bool take_string(Dict *d, const char **s, size_t *n) {
  skip_blanks(d);
  if (d->p == d->end || (*d->p != '\'' && *d->p != '"'))
    return false;
  *s = d->p + 1;
  const char *close = memchr(*s, *d->p, (size_t)(d->end - *s));
  if (!close)
    return false;
  *n = (size_t)(close - *s);
  d->p = close + 1;
  return true;
}

/* Past 64 bits is damage; an L at the end is Python 2's. */
static bool take_extent(Dict *d, int64_t *out) {
  skip_blanks(d);
  const char *start = d->p;
  *out = 0;
  for (; d->p < d->end && *d->p >= '0' && *d->p <= '9'; d->p++)
    if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, *d->p - '0', out))
      return false;
  bool any = d->p > start;
  if (any && d->p < d->end && *d->p == 'L')
    d->p++;
  return any;
}

/* (3, 4), (3,) and (): a tuple, so one extent has a comma after it. */
static bool take_shape(Dict *d) {
  FileLayout *l = d->out;
  bool comma = true;
  if (!take(d, "("))
    return false;
  for (l->rank = 0; !take(d, ")"); l->rank++) {
    int64_t n;
    if (!comma || !take_extent(d, &n))
      return false;
    if (l->rank < TENSOR_MAX_RANK)
      l->extent[l->rank] = n;
    comma = take(d, ",");
  }
  return comma || l->rank > 1;
}

/* Lists are the dtypes of records. */
static bool take_descr(Dict *d) {
  const char *s;
  size_t n;
  if (take(d, "[")) {
    tensor_why(d->why, "its elements are records, which tilesh does not have");
    return false;
  }
  if (!take_string(d, &s, &n)) {
    tensor_why(d->why, "its header is damaged");
    return false;
  }
  if (parse_descr(s, n, d->out))
    return true;
  if (n < 2 || n > 16 || !str_is_utf8(s, n))
    tensor_why(d->why, "its elements have a type that tilesh does not have");
  else if (memchr(s, 'O', n))
    tensor_why(d->why, "its elements are Python objects, which only Python can read");
  else
    tensor_why(d->why, "its elements have the type %.*s, which tilesh does not have", (int)n, s);
  return false;
}

/* One `key: value`, each once. Words are added to why only where they say more than "damaged". */
static bool take_item(Dict *d) {
  const char *key;
  size_t n;
  if (!take_string(d, &key, &n) || !take(d, ":"))
    return false;
  if (n == 5 && memcmp(key, "descr", n) == 0 && !d->descr)
    return d->descr = take_descr(d);
  if (n == 5 && memcmp(key, "shape", n) == 0 && !d->shape)
    return d->shape = take_shape(d);
  if (n == 13 && memcmp(key, "fortran_order", n) == 0 && !d->order) {
    d->out->fortran = take(d, "True");
    return d->order = d->out->fortran || take(d, "False");
  }
  return false;
}

/* Whole, with nothing but blanks after it. */
static bool take_dict(Dict *d) {
  bool comma = true;
  if (!take(d, "{"))
    return false;
  while (!take(d, "}")) {
    if (!comma || !take_item(d))
      return false;
    comma = take(d, ",");
  }
  skip_blanks(d);
  return d->p == d->end && d->descr && d->order && d->shape;
}

static bool read_dict(const char *text, size_t n, FileLayout *out, Str *why) {
  Dict d = {.p = text, .end = text + n, .out = out, .why = why};
  size_t before = why ? why->n : 0;
  if (!take_dict(&d)) {
    if (!why || why->n == before)
      tensor_why(why, "its header is damaged");
    return false;
  }
  if (out->rank <= TENSOR_MAX_RANK)
    return true;
  tensor_why(why, "it has %d axes, and a tensor has at most %d", out->rank, TENSOR_MAX_RANK);
  return false;
}

/* Reading ------------------------------------------------------------------------------------ */

/* The header's length has two bytes in format 1 and four in 2 and 3. */
static bool read_length(Stream *s, size_t *n, Str *why) {
  unsigned char head[12];
  if (s->left < 10 || !stream_read(s, head, 10, why) || memcmp(head, magic, MAGIC_BYTES) != 0) {
    tensor_why(why, "it is no .npy file");
    return false;
  }
  if (head[6] < 1 || head[6] > 3 || head[7] != 0) {
    tensor_why(why, "it has the .npy format %d.%d; tilesh reads 1.0, 2.0 and 3.0", head[6],
               head[7]);
    return false;
  }
  *n = (size_t)head[8] | (size_t)head[9] << 8;
  if (head[6] > 1) {
    if (!stream_read(s, head + 10, 2, why))
      return false;
    *n |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
  }
  return true;
}

bool npy_read_header(Arena *a, Stream *s, FileLayout *out, Str *why) {
  size_t n;
  *out = (FileLayout){.rank = 0};
  if (!read_length(s, &n, why))
    return false;
  if (n > MOST_HEADER) {
    tensor_why(why, "its header is %zu bytes long; at most %d are read", n, MOST_HEADER);
    return false;
  }
  char *text = arena_alloc(a, n + 1);
  return stream_read(s, text, n, why) && read_dict(text, n, out, why);
}

/* Writing ------------------------------------------------------------------------------------ */

/* Format 1, the one that every reader knows: with 8 axes the header is never longer than it can
 * say. */
void npy_add_header(const Tensor *t, Str *out) {
  const NpyType *type = type_of(t->dtype);
  Str h = str_new(out->arena);
  str_addf(&h, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", type->order, type->code);
  for (int i = 0; i < t->rank; i++)
    str_addf(&h, i ? " %" PRId64 "," : "%" PRId64 ",", t->extent[i]);
  if (t->rank > 1)
    h.n--; /* (3, 4) but (3,) */
  str_addn(&h, "), }", 4);
  str_pad(&h, ' ', (64 - (10 + h.n + 1) % 64) % 64); /* the data is aligned to 64 bytes */
  str_addc(&h, '\n');
  str_addn(out, magic, MAGIC_BYTES);
  str_addn(out, "\x01\x00", 2);
  str_addc(out, (char)(h.n & 0xff));
  str_addc(out, (char)(h.n >> 8));
  str_addn(out, h.s, h.n);
}

bool npy_write(Arena *a, FileWriter *w, const TensorSave *what, Str *why) {
  const Tensor *t = what->v[0].tensor;
  Str header = str_new(a);
  (void)why; /* what can fail is the writing */
  npy_add_header(t, &header);
  file_begin(a, w);
  file_put(w, header.s, header.n);
  return file_put_tensor(w, t);
}
