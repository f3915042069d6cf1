/* gate.c: decides whether a cubin is fit to run.
 *
 * Goes in: the log of the compiler and the facts of the kernels. Comes out: the warnings with their
 * codes, and a verdict with its first reason. "0 bytes spill" is not enough: an array indexed at
 * run time lives in local memory without a spill, so the whole local memory must be 0. The refused
 * codes are those by which ptxas says that it serialised the tensor core's pipeline (C7509 to
 * C7515, C7520), ignored setmaxnreg (C7504, C7508) or lacked registers (C7602). Tests:
 * tests/unit/check_gpu.c.
 */
#include "private.h"

#include <string.h>

/* The codes of the file head; other informational lines are kept but pass. */
static bool is_refused(int code) {
  return code == 7504 || (code >= 7508 && code <= 7515) || code == 7520 || code == 7602;
}

/* The number of "(C7510)", 0 if the line has none. */
static int code_of(const char *line, size_t n) {
  for (size_t i = 0; i + 4 < n; i++) {
    int code = 0;
    size_t k = i + 2;
    if (line[i] != '(' || line[i + 1] != 'C')
      continue;
    while (k < n && k < i + 8 && line[k] >= '0' && line[k] <= '9')
      code = code * 10 + (line[k++] - '0');
    if (k > i + 2 && k < n && line[k] == ')')
      return code;
  }
  return 0;
}

/* The front end marks its warnings by the word alone. */
static bool has_word(const char *line, size_t n, const char *w) {
  size_t wn = strlen(w);
  for (size_t i = 0; i + wn <= n; i++)
    if (memcmp(line + i, w, wn) == 0)
      return true;
  return false;
}

typedef VEC(GpuWarning) Warnings;

static void read_line(Warnings *v, const char *line, size_t n, Arena *a) {
  int code = code_of(line, n);
  if (code == 0 && !has_word(line, n, "warning"))
    return;
  GpuWarning w = {code, is_refused(code), arena_strndup(a, line, n)};
  VEC_PUSH(a, v, w);
}

static void read_log(GpuImage *image, Arena *a) {
  Warnings v = {0};
  for (const char *line = image->log; *line;) {
    size_t n = strcspn(line, "\n");
    read_line(&v, line, n, a);
    line += n + (line[n] == '\n');
  }
  image->warnings = v.v;
  image->nwarnings = (int)v.n;
}

/* Local memory first: it is the commoner one and says more. */
static const char *first_reason(const GpuImage *image, Arena *a) {
  for (int i = 0; i < image->nkernels; i++) {
    const GpuFacts *k = &image->kernels[i];
    if (k->local_bytes > 0)
      return arena_printf(a, "kernel `%s` needs %u bytes of local memory a thread", k->name,
                          k->local_bytes);
  }
  for (int i = 0; i < image->nwarnings; i++)
    if (image->warnings[i].refused)
      return arena_printf(a, "ptxas says %s", image->warnings[i].text);
  return NULL;
}

void gpu_gate(GpuImage *image, Arena *a) {
  read_log(image, a);
  image->gate_why = first_reason(image, a);
  image->gate = image->gate_why == NULL;
}
