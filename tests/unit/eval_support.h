/* eval_support.h: what the suites of src/eval share: a kernel from IR text, tensors with known
 * elements, a run, and the elements as doubles. References are written in the tests, in double. */
#ifndef TILESH_TESTS_EVAL_SUPPORT_H
#define TILESH_TESTS_EVAL_SUPPORT_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base_suite.h"
#include "eval/eval.h"

enum { MOST_ARGS = 8 };

typedef struct Ev {
  Arena *arena;
  DiagSink sink;
  IrKernel *kernel;
  EvalProgram *program;
  IrBinding *binding;
  EvalOptions options;
  Status status;
} Ev;

static inline const char *ev_errors(Ev *e) {
  Str s = str_new(e->arena);
  diag_format_all(&e->sink, false, &s);
  return str_text(&s);
}

/* Reads, verifies and compiles one kernel; fails the test with the diagnostics otherwise. */
static inline Ev *ev_new(const char *text) {
  Arena *a = arena_new(NULL, "test");
  Ev *e = ARENA_NEW(a, Ev);
  e->arena = a;
  diag_init(&e->sink, a);
  IrKernels kernels = {0};
  SrcFile *file = src_new(a, "test.ir", text, strlen(text));
  bool ok = ir_read(a, names_new(a), file, &e->sink, &kernels) && kernels.n == 1 &&
            ir_verify(kernels.v[0], &e->sink);
  ck_assert_msg(ok, "%s", ev_errors(e));
  e->kernel = kernels.v[0];
  e->program = eval_compile(a, e->kernel, &e->sink);
  ck_assert_msg(e->program != NULL, "%s", ev_errors(e));
  e->binding = ir_binding_new(a, e->kernel);
  e->options = (EvalOptions){.isa = OPS_BEST, .checks = CHECKS_DEFAULT};
  return e;
}

static inline void ev_free(Ev *e) {
  arena_free(e->arena);
}

static inline IrTensorArg *ev_tensor(Ev *e, const char *name) {
  for (size_t i = 0; i < e->kernel->params.n; i++) {
    IrBuffer *b = e->kernel->params.v[i].buf;
    if (b && !strcmp(b->name, name))
      return &e->binding->tensor[b->id];
  }
  ck_abort_msg("no tensor %s", name);
  return NULL;
}

static inline int64_t ev_count(const IrTensorArg *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++)
    n *= t->extent[i];
  return n;
}

static inline void ev_put(IrTensorArg *t, int64_t i, double x) {
  Scalar s = {.type = DT_F64, .as.f = x};
  scalar_store(scalar_convert(s, t->dtype), (char *)t->data + i * (int64_t)dtype_size(t->dtype));
}

static inline double ev_get(const IrTensorArg *t, int64_t i) {
  Scalar s = scalar_load(t->dtype, (char *)t->data + i * (int64_t)dtype_size(t->dtype));
  s = scalar_convert(s, DT_F64);
  return s.as.f;
}

static inline double ev_at(Ev *e, const char *name, int64_t i) {
  return ev_get(ev_tensor(e, name), i);
}

/* Gives a contiguous tensor; fill(i) is its i-th element in row-major order. */
static inline IrTensorArg *ev_give(Ev *e, const char *name, DType t, int rank,
                                   const int64_t *extent, double (*fill)(int64_t)) {
  IrTensorArg *x = ev_tensor(e, name);
  *x = (IrTensorArg){.rank = rank, .dtype = t};
  int64_t n = 1;
  for (int i = rank - 1; i >= 0; i--) {
    x->extent[i] = extent[i];
    x->stride[i] = n;
    n *= extent[i];
  }
  x->data = arena_alloc(e->arena, (size_t)n * dtype_size(t) + 64);
  for (int64_t i = 0; i < n; i++)
    ev_put(x, i, fill(i));
  return x;
}

static inline void ev_scalar(Ev *e, const char *name, double x) {
  for (size_t i = 0; i < e->kernel->params.n; i++) {
    IrVar *v = e->kernel->params.v[i].var;
    if (v && !strcmp(v->name, name)) {
      Scalar s = {.type = DT_F64, .as.f = x};
      e->binding->value[v->id] = scalar_convert(s, v->type);
      return;
    }
  }
  ck_abort_msg("no scalar %s", name);
}

/* Binds, makes the outputs (unwritten), runs. */
static inline Status ev_run(Ev *e) {
  ck_assert_msg(ir_bind(e->kernel, e->binding, 8, &e->sink), "%s", ev_errors(e));
  for (size_t i = 0; i < e->kernel->params.n; i++) {
    IrBuffer *b = e->kernel->params.v[i].buf;
    IrTensorArg *x = b ? &e->binding->tensor[b->id] : NULL;
    if (!x || b->role == IRR_IN || (b->role == IRR_INOUT && x->data))
      continue;
    size_t n = (size_t)ev_count(x);
    x->data = arena_alloc(e->arena, n * dtype_size(x->dtype) + 64);
    x->written = arena_alloc(e->arena, n + 64);
  }
  e->status = eval_run(e->program, e->binding, &e->options, &e->sink);
  return e->status;
}

static inline void ev_ok(Ev *e) {
  Status s = ev_run(e);
  ck_assert_msg(s == ST_OK, "status %d: %s", (int)s, ev_errors(e));
}

/* Runs and expects a fault whose text holds `part`, at the line (from 1) `line` of the kernel. */
static inline void ev_fault(Ev *e, DiagCode code, const char *part, uint32_t line) {
  Status s = ev_run(e);
  ck_assert_int_eq(s, ST_FAIL);
  ck_assert_uint_eq(e->sink.n, 1);
  const Diag *d = e->sink.v[0];
  uint32_t at = 0, column = 0;
  if (d->span.file)
    src_position(d->span.file, d->span.begin, &at, &column);
  ck_assert_msg(d->code == code && strstr(d->text, part) && at == line, "line %u: %s", at,
                ev_errors(e));
}

/* Small, irregular, exact in every type: -4 … 4; and reals in (-1, 1). */
static inline double ev_small(int64_t i) {
  return (double)((i * 7 + i / 9 * 5 + 3) % 9 - 4);
}
static inline double ev_positive(int64_t i) {
  return (double)((i * 5 + i / 7) % 8 + 1);
}
static inline double ev_real(int64_t i) {
  uint64_t x = (uint64_t)i * 0x9E3779B97F4A7C15u + 12345;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9u;
  x ^= x >> 32;
  return (double)(x >> 11) / 4503599627370496.0 - 1.0;
}

#endif
