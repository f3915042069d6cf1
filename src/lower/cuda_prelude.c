/* cuda_prelude.c: the parts of the prelude that a kernel uses, each once, needs first.
 *
 * Goes in: names of functions. Comes out: text appended to p->prelude. prelude_text.h is made from
 * prelude.cu and src/ops/math.inc by the makefile, a string a line. A part named NAME_@ is written
 * once for each integer type asked for. Tests: tests/unit/check_cuda.c.
 */
#include "cuda_print.h"

#include <string.h>

/* prelude.cu, then src/ops/math.inc; of two parts of one name the first is taken. */
static const char *const lines[] = {
#include "prelude_text.h"
};
enum { LINES = sizeof lines / sizeof *lines };

typedef struct Suffix {
  const char *s, *t, *u, *w, *a; /* a: the type CUDA's atomicAdd takes */
} Suffix;

static const Suffix suffixes[] = {
    {"i32", "int", "unsigned", "32", "int"},
    {"u32", "unsigned", "unsigned", "32", "unsigned"},
    {"i64", "long long", "unsigned long long", "64", "unsigned long long"},
    {"u64", "unsigned long long", "unsigned long long", "64", "unsigned long long"},
};

static bool is_head(const char *line) {
  return strncmp(line, "//@ ", 4) == 0;
}

/* The line on which the part opens, or -1. */
static int find(const char *name) {
  size_t n = strlen(name);
  for (int i = 0; i < LINES; i++)
    if (is_head(lines[i]) && strncmp(lines[i] + 4, name, n) == 0 && lines[i][4 + n] == ':')
      return i;
  return -1;
}

static void expand(Str *out, const char *line, const Suffix *s) {
  for (; *line; line++) {
    if (*line != '@' || !s) {
      str_addc(out, *line);
      continue;
    }
    line++;
    str_add(out, *line == 's'   ? s->s
                 : *line == 't' ? s->t
                 : *line == 'u' ? s->u
                 : *line == 'a' ? s->a
                                : s->w);
  }
}

static void add_needs(Printer *p, const char *head) {
  const char *at = strchr(head, ':') + 1;
  while (*at) {
    at += strspn(at, " \n");
    size_t n = strcspn(at, " \n");
    if (n > 0)
      (void)cuda_part(p, arena_strndup(p->a, at, n));
    at += n;
  }
}

/* A comment between parts belongs to none: it stands right before a head. */
static int end_of(int first) {
  int i = first;
  while (i < LINES && !is_head(lines[i]) && strncmp(lines[i], "/* ----", 7) != 0)
    i++;
  return i;
}

static void add_lines(Printer *p, int head, const Suffix *s) {
  if (head > find("math"))
    (void)cuda_part(p, "words");
  add_needs(p, lines[head]);
  for (int i = head + 1, end = end_of(head + 1); i < end; i++)
    expand(&p->prelude, lines[i], s);
}

/* "ts_min_i32": the part "ts_min_@" and the row of i32. */
static int find_generic(Printer *p, const char *name, const Suffix **s) {
  const char *last = strrchr(name, '_');
  for (size_t i = 0; last && i < sizeof suffixes / sizeof *suffixes; i++)
    if (strcmp(last + 1, suffixes[i].s) == 0) {
      *s = &suffixes[i];
      return find(arena_printf(p->a, "%.*s_@", (int)(last - name), name));
    }
  return -1;
}

bool cuda_part_known(const Printer *p, const char *name) {
  return map_get(p->parts, name) != NULL;
}

bool cuda_part(Printer *p, const char *name) {
  const Suffix *s = NULL;
  if (map_get(p->parts, name))
    return true;
  if (strcmp(name, "words") == 0)
    map_set(p->parts, "fn", p); /* it is one of the words */
  int head = find(name);
  if (head < 0)
    head = find_generic(p, name, &s);
  if (head < 0)
    return false;
  map_set(p->parts, name, p);
  add_lines(p, head, s);
  return true;
}

void cuda_part_add(Printer *p, const char *name, const Str *text) {
  (void)cuda_part(p, "fn");
  map_set(p->parts, name, p);
  str_addn(&p->prelude, text->s, text->n);
}

const char *cuda_part_of(Printer *p, const char *name, DType t) {
  static const char *const suffix[DT_COUNT] = {
      [DT_BOOL] = "",   [DT_I8] = "_i32",  [DT_I16] = "_i32", [DT_I32] = "_i32", [DT_I64] = "_i64",
      [DT_U8] = "_u32", [DT_U16] = "_u32", [DT_U32] = "_u32", [DT_U64] = "_u64", [DT_F16] = "",
      [DT_BF16] = "",   [DT_F32] = "",     [DT_F64] = "_f64", [DT_F8E4M3] = "",  [DT_F8E5M2] = "",
  };
  const char *full = arena_printf(p->a, "%s%s", name, suffix[t]);
  return cuda_part(p, full) ? full : NULL;
}
