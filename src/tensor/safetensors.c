/* safetensors.c: the header of .safetensors files.
 *
 * In: a Source, or tensors. Out: entries, or a file. The file is a length, so many bytes of JSON,
 * and the tensors' bytes, which must fill the rest: no hole, no overlap, nothing after them. Always
 * holds: what the header says of a tensor agrees with how many bytes it has. A tensor may lie at
 * any offset; where its elements are not aligned it is read and not mapped. Tests:
 * tests/unit/check_tensor_file.c, tests/fuzz.
 */
#include "file.h"

#include <inttypes.h>

/* The format's own limit, and what a byte of JSON may cost in memory. */
enum { LENGTH_BYTES = 8, MOST_HEADER = 100000000, UNCHECKED_HEADER = 1 << 20, JSON_COST = 64 };

static const char metadata[] = "__metadata__";

typedef struct SafeType {
  DType dtype;
  const char *name;
} SafeType;

static const SafeType types[] = {
    {DT_BOOL, "BOOL"}, {DT_I8, "I8"},          {DT_I16, "I16"},        {DT_I32, "I32"},
    {DT_I64, "I64"},   {DT_U8, "U8"},          {DT_U16, "U16"},        {DT_U32, "U32"},
    {DT_U64, "U64"},   {DT_F16, "F16"},        {DT_BF16, "BF16"},      {DT_F32, "F32"},
    {DT_F64, "F64"},   {DT_F8E4M3, "F8_E4M3"}, {DT_F8E5M2, "F8_E5M2"},
};

enum { NTYPES = sizeof types / sizeof *types };
_Static_assert(NTYPES == (int)DT_COUNT, "every dtype has a name");

/* One entry of the header ---------------------------------------------------------------------- */

/* What the words of an error begin with. */
static bool wrong(const char *name, Str *why, const char *what) {
  tensor_why(why, "the header's entry \"%s\" %s", name, what);
  return false;
}

static bool read_type(const char *name, const json_t *v, FileLayout *l, Str *why) {
  const char *text = json_string_value(v);
  if (!text)
    return wrong(name, why, "has no dtype");
  for (size_t i = 0; i < NTYPES; i++)
    if (strcmp(types[i].name, text) == 0) {
      l->dtype = types[i].dtype;
      return true;
    }
  tensor_why(why, "\"%s\" has the dtype %.20s, which tilesh does not have", name, text);
  return false;
}

static bool read_shape(const char *name, const json_t *v, FileLayout *l, Str *why) {
  if (!json_is_array(v))
    return wrong(name, why, "has no shape");
  size_t rank = json_array_size(v);
  if (rank > TENSOR_MAX_RANK) {
    tensor_why(why, "\"%s\" has %zu axes, and a tensor has at most %d", name, rank,
               TENSOR_MAX_RANK);
    return false;
  }
  for (size_t i = 0; i < rank; i++) {
    const json_t *n = json_array_get(v, i);
    if (!json_is_integer(n) || json_integer_value(n) < 0)
      return wrong(name, why, "has a shape that is no list of extents");
    l->extent[i] = json_integer_value(n);
  }
  l->rank = (int)rank;
  return true;
}

/* `room`: bytes after the header. The shape and the offsets must say the same. */
static bool read_offsets(const char *name, const json_t *v, uint64_t room, FileEntry *e, Str *why) {
  const json_t *from = json_array_get(v, 0), *to = json_array_get(v, 1);
  uint64_t bytes;
  if (json_array_size(v) != 2 || !json_is_integer(from) || !json_is_integer(to) ||
      json_integer_value(from) < 0 || json_integer_value(to) < json_integer_value(from))
    return wrong(name, why, "has no data_offsets, a first byte and an end");
  e->at = (uint64_t)json_integer_value(from);
  e->size = e->length = (uint64_t)json_integer_value(to) - e->at;
  if (e->at + e->size > room) {
    tensor_why(why, "\"%s\" ends at byte %" PRIu64 " of the data, and there are %" PRIu64, name,
               e->at + e->size, room);
    return false;
  }
  if (layout_bytes(&e->layout, &bytes) && bytes == e->size)
    return true;
  tensor_why(why, "\"%s\" is %s", name, dtype_name(e->layout.dtype));
  if (why)
    tensor_add_shape(e->layout.rank, e->layout.extent, why);
  tensor_why(why, ", but its data_offsets span %" PRIu64 " bytes", e->size);
  return false;
}

static bool read_entry(Arena *a, const char *name, const json_t *v, uint64_t room, FileEntry *e,
                       Str *why) {
  *e = (FileEntry){.name = arena_strdup(a, name)};
  if (!json_is_object(v))
    return wrong(name, why, "is no object");
  return read_type(name, json_object_get(v, "dtype"), &e->layout, why) &&
         read_shape(name, json_object_get(v, "shape"), &e->layout, why) &&
         read_offsets(name, json_object_get(v, "data_offsets"), room, e, why);
}

/* The header ----------------------------------------------------------------------------------- */

static bool check_metadata(const json_t *v, Str *why) {
  const char *key;
  json_t *value;
  bool ok = json_is_object(v);
  json_object_foreach((json_t *)(uintptr_t)v, key, value) ok &= json_is_string(value);
  if (!ok)
    tensor_why(why, "the header's __metadata__ is no object of strings");
  return ok;
}

static bool read_entries(Arena *a, json_t *json, uint64_t room, FileEntries *out, Str *why) {
  const char *name;
  json_t *v;
  json_object_foreach(json, name, v) {
    FileEntry e;
    if (strcmp(name, metadata) == 0) {
      if (!check_metadata(v, why))
        return false;
    } else if (!*name) {
      return wrong(name, why, "has no name");
    } else if (read_entry(a, name, v, room, &e, why)) {
      VEC_PUSH(a, out, e);
    } else {
      return false;
    }
  }
  return true;
}

/* Empty tensors stand at the start of what follows them. */
static int by_place(const void *x, const void *y) {
  const FileEntry *a = x, *b = y;
  if (a->at != b->at)
    return a->at < b->at ? -1 : 1;
  return (a->size > b->size) - (a->size < b->size);
}

/* Every byte belongs to exactly one tensor. The entries end up in the order of the file. */
static bool check_cover(FileEntries *e, uint64_t start, uint64_t room, Str *why) {
  uint64_t at = 0;
  if (e->n)
    qsort(e->v, e->n, sizeof *e->v, by_place);
  for (size_t i = 0; i < e->n; i++) {
    FileEntry *x = &e->v[i];
    if (x->at != at) {
      tensor_why(why, "\"%s\" begins at byte %" PRIu64 " of the data, %s at %" PRIu64, x->name,
                 x->at, x->at < at ? "inside the tensor that ends" : "after a hole", at);
      return false;
    }
    at += x->size;
    x->at += start;
  }
  if (at != room)
    tensor_why(why, "%" PRIu64 " bytes after the last tensor belong to none", room - at);
  return at == room;
}

static json_t *parse_header(const char *text, size_t n, Str *why) {
  json_error_t error;
  json_t *json = NULL;
  if (n > UNCHECKED_HEADER && n > storage_free_memory() / JSON_COST) {
    tensor_why(why, "its header of %zu bytes needs more memory than is free", n);
    return NULL;
  }
  json = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
  if (!json && json_error_code(&error) == json_error_out_of_memory)
    tensor_why(why, "there is no memory for its header");
  else if (!json)
    tensor_why(why, "its header is no JSON: %s (byte %d of it)", error.text, error.position);
  else if (!json_is_object(json))
    tensor_why(why, "its header is no JSON object");
  return json;
}

/* The length is checked against the file before any memory is asked for. */
static bool read_length(const Source *s, size_t *n, Str *why) {
  unsigned char head[LENGTH_BYTES + 1];
  uint64_t length = 0;
  if (s->size < LENGTH_BYTES + 2) {
    tensor_why(why, "it is no .safetensors file: it has %" PRIu64 " bytes", s->size);
    return false;
  }
  if (!source_read(s, 0, head, sizeof head, why))
    return false;
  for (int i = LENGTH_BYTES; i-- > 0;)
    length = length << 8 | head[i];
  *n = (size_t)length;
  if (length > MOST_HEADER || length > s->size - LENGTH_BYTES)
    tensor_why(why, "its header says that it is %" PRIu64 " bytes long; %s %" PRIu64, length,
               length > MOST_HEADER ? "the format's limit is" : "the file has",
               length > MOST_HEADER ? (uint64_t)MOST_HEADER : s->size - LENGTH_BYTES);
  else if (head[LENGTH_BYTES] != '{')
    tensor_why(why, "it is no .safetensors file: its header does not begin with {");
  else
    return true;
  return false;
}

bool safetensors_read_directory(Arena *a, const Source *s, json_t **json, FileEntries *out,
                                Str *why) {
  size_t n;
  if (!read_length(s, &n, why))
    return false;
  char *text = arena_alloc(a, n);
  uint64_t start = LENGTH_BYTES + n, room = s->size - start;
  if (!source_read(s, LENGTH_BYTES, text, n, why))
    return false;
  *json = parse_header(text, n, why);
  bool ok = json_is_object(*json) && read_entries(a, *json, room, out, why) &&
            check_cover(out, start, room, why);
  json_decref(*json);
  *json = NULL;
  return ok;
}

/* Writing -------------------------------------------------------------------------------------- */

/* Widest elements first, as the format asks, so that each tensor is aligned. */
static const TensorNamed **in_order(Arena *a, const TensorSave *what) {
  const TensorNamed **v = ARENA_ARRAY(a, const TensorNamed *, what->n);
  size_t n = 0;
  for (size_t size = 8; size > 0; size /= 2)
    for (size_t i = 0; i < what->n; i++)
      if (dtype_size(what->v[i].tensor->dtype) == size)
        v[n++] = &what->v[i];
  return v;
}

static const char *type_name(DType t) {
  size_t i = 0;
  while (types[i].dtype != t)
    i++;
  return types[i].name;
}

/* NULL where memory is short. */
static json_t *describe(const Tensor *t, uint64_t at, uint64_t bytes) {
  json_t *shape = json_array();
  int bad = 0;
  for (int i = 0; i < t->rank; i++)
    bad |= json_array_append_new(shape, json_integer(t->extent[i]));
  json_t *v = json_pack("{s:s, s:o, s:[I, I]}", "dtype", type_name(t->dtype), "shape", shape,
                        "data_offsets", (json_int_t)at, (json_int_t)(at + bytes));
  if (!bad)
    return v;
  json_decref(v);
  return NULL;
}

/* The header's text, which the caller frees; NULL where memory is short. */
static char *header_text(const TensorNamed **v, size_t n) {
  json_t *header = json_object();
  uint64_t at = 0;
  int bad = header == NULL;
  for (size_t i = 0; i < n && !bad; i++) {
    const Tensor *t = v[i]->tensor;
    uint64_t bytes = (uint64_t)tensor_count(t) * dtype_size(t->dtype);
    bad |= json_object_set_new(header, v[i]->name, describe(t, at, bytes));
    at += bytes;
  }
  char *text = bad ? NULL : json_dumps(header, JSON_COMPACT);
  json_decref(header);
  return text;
}

/* Blanks after the JSON, which the format allows, bring the first tensor to a multiple of 64. */
static bool put_header(FileWriter *w, const char *text) {
  static const char blanks[64] = "                                                               ";
  size_t n = strlen(text), pad = (64 - (LENGTH_BYTES + n) % 64) % 64;
  unsigned char head[LENGTH_BYTES];
  for (int i = 0; i < LENGTH_BYTES; i++)
    head[i] = (unsigned char)((uint64_t)(n + pad) >> 8 * i);
  return file_put(w, head, sizeof head) && file_put(w, text, n) && file_put(w, blanks, pad);
}

bool safetensors_write(Arena *a, FileWriter *w, const TensorSave *what, Str *why) {
  for (size_t i = 0; i < what->n; i++)
    if (strcmp(what->v[i].name, metadata) == 0) {
      tensor_why(why, "no tensor of a .safetensors file can be named %s", metadata);
      return false;
    }
  const TensorNamed **v = in_order(a, what);
  file_begin(a, w);
  char *text = header_text(v, what->n);
  if (!text) {
    tensor_why(why, "there is no memory for its header");
    return false;
  }
  bool ok = put_header(w, text);
  free(text);
  for (size_t i = 0; i < what->n && ok; i++)
    ok = file_put_tensor(w, v[i]->tensor);
  return ok;
}
