/* check_roles.c: what the author schedules (`specialize`, barriers), lowered to threads: the bits
 * of the tile level at ragged extents, the registers that roles ask for, and what is said where a
 * better way is declined.
 */
#include "eval_support.h"
#include "lower/lower.h"

/* The thread level of a text, with every tensor's last axis of stride 1 and all aligned. */
typedef struct Lowered {
  Ev *plain;
  const char *text, *notes;
} Lowered;

static Lowered lower_text(const char *text, const char *arch, int candidate) {
  Lowered x = {.plain = ev_new(text)};
  Ev *e = x.plain;
  LowerNotes notes = {.arena = e->arena};
  LowerFact *fact = ARENA_ARRAY(e->arena, LowerFact, e->kernel->buffers.n + 1);
  for (size_t i = 0; i < e->kernel->buffers.n; i++)
    fact[i] = (LowerFact){(int8_t)(e->kernel->buffers.v[i]->rank - 1), 16, true};
  LowerRequest r = {target_find(arch), fact, candidate, &notes, NULL};
  IrKernel *k = lower_to(e->arena, e->kernel, IR_THREAD, &r, &e->sink);
  ck_assert_msg(k != NULL, "%s", ev_errors(e));
  Str out = str_new(e->arena), said = str_new(e->arena);
  ir_print(k, &out);
  for (size_t i = 0; i < notes.text.n; i++)
    str_addf(&said, "%s\n", notes.text.v[i]);
  x.text = str_text(&out);
  x.notes = str_text(&said);
  return x;
}

static void has(const Lowered *x, const char *part) {
  ck_assert_msg(strstr(x->text, part) != NULL, "no %s in\n%s\n%s", part, x->notes, x->text);
}

static void says(const Lowered *x, const char *part) {
  ck_assert_msg(strstr(x->notes, part) != NULL, "no note %s:\n%s", part, x->notes);
}

/* ---------------------------------------------------------------- registers */

#define HAND_OVER(producer, groups, consumer)                                                      \
  "kernel k tile(x: f32[N]) -> (y: f32[N]) {\nthreads 384\nshared t: f32[64]\n"                    \
  "shared full: u64[1] arrivals 1\nroles {\n"                                                      \
  "role producer warps 0:+4 registers " producer " { copy t = x[0:+64] signal full[0] }\n"         \
  "role consumer warps 4:+" groups " registers " consumer " { await full[0] parity 0\n"            \
  "copy y[0:+64] = t }\n}\n}\n"

START_TEST(registers_of_roles) {
  Lowered x = lower_text(HAND_OVER("24", "8", "240"), "sm_90a", 0);
  has(&x, "setmaxnreg_dec 24");
  has(&x, "setmaxnreg_inc 240");
  ev_free(x.plain);
  x = lower_text(HAND_OVER("168", "8", "160"), "sm_90a", 0); /* 168 is what there is at launch */
  ck_assert_ptr_null(strstr(x.text, "setmaxnreg_inc"));
  has(&x, "setmaxnreg_dec 160");
  ev_free(x.plain);
}
END_TEST

START_TEST(registers_left_out) {
  Lowered x = lower_text(HAND_OVER("40", "8", "240"), "sm_90a", 0);
  ck_assert_ptr_null(strstr(x.text, "setmaxnreg"));
  says(&x, "together the warpgroups would wait for more than the block has");
  ev_free(x.plain);
  x = lower_text(HAND_OVER("24", "6", "240"), "sm_90a", 0);
  ck_assert_ptr_null(strstr(x.text, "setmaxnreg"));
  says(&x, "no whole warpgroups");
  ev_free(x.plain);
}
END_TEST

int main(void) {
  const TTest *const tests[] = {registers_of_roles, registers_left_out, NULL};
  return run_suite("roles", tests);
}
