/* lower_support.h: what the suites of src/lower share that lower a text and run both levels. */
#ifndef TILESH_TESTS_LOWER_SUPPORT_H
#define TILESH_TESTS_LOWER_SUPPORT_H

#include "eval_support.h"
#include "lower/lower.h"

/* The thread level of a text, with every tensor's last axis of stride 1 and all aligned. */
typedef struct Lowered {
  Ev *plain;
  const IrKernel *kernel;
  const char *text, *notes;
  bool last; /* no schedule is behind it */
} Lowered;

static inline Lowered lower_grid(const char *text, const char *arch, int candidate,
                                 LowerGrid grid) {
  Lowered x = {.plain = ev_new(text)};
  Ev *e = x.plain;
  LowerNotes notes = {.arena = e->arena};
  LowerFact *fact = ARENA_ARRAY(e->arena, LowerFact, e->kernel->buffers.n + 1);
  for (size_t i = 0; i < e->kernel->buffers.n; i++)
    fact[i] = (LowerFact){(int8_t)(e->kernel->buffers.v[i]->rank - 1), 16, true};
  LowerRequest r = {.target = target_find(arch),
                    .fact = fact,
                    .candidate = candidate,
                    .last = &x.last,
                    .notes = &notes,
                    .grid = grid};
  IrKernel *k = lower_to(e->arena, e->kernel, IR_THREAD, &r, &e->sink);
  ck_assert_msg(k != NULL, "%s", ev_errors(e));
  Str out = str_new(e->arena), said = str_new(e->arena);
  ir_print(k, &out);
  for (size_t i = 0; i < notes.text.n; i++)
    str_addf(&said, "%s\n", notes.text.v[i]);
  x.kernel = k;
  x.text = str_text(&out);
  x.notes = str_text(&said);
  return x;
}

static inline Lowered lower_text(const char *text, const char *arch, int candidate) {
  return lower_grid(text, arch, candidate, LOWER_GRID_FITS);
}

static inline void has(const Lowered *x, const char *part) {
  ck_assert_msg(strstr(x->text, part) != NULL, "no %s in\n%.1500s\n%.1500s", part, x->notes,
                x->text);
}

static inline void says(const Lowered *x, const char *part) {
  ck_assert_msg(strstr(x->notes, part) != NULL, "no note %s:\n%.3000s", part, x->notes);
}

/* The thread level's bits are the tile level's. */
static inline void same_output(Lowered *x, void (*give)(Ev *), const char *name) {
  Ev *e = ev_new(x->text);
  give(x->plain);
  ev_ok(x->plain);
  give(e);
  e->options.shake = 3;
  ev_ok(e);
  const IrTensorArg *a = ev_tensor(x->plain, name), *b = ev_tensor(e, name);
  ck_assert_int_eq(ev_count(a), ev_count(b));
  for (int64_t i = 0; i < ev_count(a); i++) {
    ck_assert(!a->written[i] == !b->written[i]);
    ck_assert_msg(!a->written[i] || ev_get(a, i) == ev_get(b, i),
                  "%s differs at %d: %g and %g\n%.3000s", name, (int)i, ev_get(a, i), ev_get(b, i),
                  x->text);
  }
  ev_free(e);
}

/* A grid of three axes, some of whose blocks leave early: y holds which block wrote it. */
#define BLOCKS(attributes)                                                                         \
  "kernel k tile(n: i64, m: i64, x: f32[N]) -> (y: i64[n, m, 3]) {\n"                              \
  "grid bx, by, bz = m, n, 3\n" attributes "shared t: f32[64]\ncopy t = x[0:+64]\n"                \
  "if bx == 1 { return }\nload z: f32 = t[bz]\n"                                                   \
  "store y[by, bx, bz] = bx + 100*by + 10000*bz + i64(z)\n}\n"

static inline void give_blocks(Ev *e) {
  static const int64_t n[1] = {70};
  ev_give(e, "x", DT_F32, 1, n, ev_small);
  ev_scalar(e, "n", 5);
  ev_scalar(e, "m", 7);
}

#endif
