/* limits.c: kernels that ask for more than the target has: shared memory, blocks that are there
 * together.
 *
 * That is the program's to change, so it is said here, before anything is lowered and also where
 * the kernel runs on the CPU; what lowering adds it fits to the target without a word.
 *
 * In: a launch's specialisation and the session's target. Out: nothing, or a diagnostic. That of
 * shared memory lists every tile, the limit, and what would fit: a smaller value of a compile-time
 * parameter where there is one, else a shorter tile. What fits is found by compiling the kernel
 * with that value, so the hint is legal. The blocks of a cooperative grid wait for each other, so
 * one that is not resident with the others would hang the device: before lowering, what the program
 * says of itself bounds how many are; once it is compiled, its registers do too (device_launch.c).
 * Tests: tests/errors/shared_limit*.tile, tests/errors/cooperative_*.tile.
 */
#include <inttypes.h>

#include "kernel.h"

typedef struct Tiles {
  Str text;             /* "s: f32[256, 128] takes 131072, …" */
  const IrBuffer *most; /* the largest */
  int64_t most_bytes;
} Tiles;

void buffer_add_type(const IrBuffer *b, int64_t rows, Str *out) {
  int64_t extent[IR_MAX_RANK] = {0};
  for (int i = 0; i < b->rank; i++)
    ir_is_const(b->extent[i], &extent[i]);
  if (rows > 0)
    extent[0] = rows;
  tensor_add_type_of(b->dtype, b->rank, extent, out);
}

static void add_tile(void *ctx, const IrBuffer *b, int64_t n) {
  Tiles *t = ctx;
  if (t->text.n)
    str_add(&t->text, ", ");
  str_addf(&t->text, "%s: ", b->name);
  buffer_add_type(b, 0, &t->text);
  str_addf(&t->text, " takes %" PRId64, n);
  if (n > t->most_bytes) {
    t->most = b;
    t->most_bytes = n;
  }
}

/* The first parameter that, halved as often as it takes, makes the tiles fit; those first whose
 * author promises that the result does not depend on them. */
static bool smaller_parameter(const Launch *l, const SemaKernel *k, const Target *target,
                              Str *hint) {
  Session *s = l->s;
  for (size_t at = 0; at < 2 * k->nstatics; at++) {
    size_t i = at % k->nstatics;
    SemaValue v = {.kind = SV_UNSET};
    if (k->statics[i].is_auto != (at < k->nstatics))
      continue;
    sema_value(session_scratch(s), k, l->spec->sema, i, &v);
    for (int64_t x = v.num.as.i / 2; v.kind == SV_INT && x >= 1; x /= 2) {
      const IrKernel *ir =
          spec_ir_with(s, session_scratch(s), k, l->spec->sema, &(SpecStatic){i, x}, 1);
      int64_t n = ir ? eval_shared_bytes(ir, NULL, NULL) : 0;
      if (!ir || !target_has_shared(target, n))
        continue;
      str_addf(hint, "%s[%s = %" PRId64 "] takes %" PRId64 " bytes", l->name,
               k->statics[i].name.text, x, n);
      return true;
    }
  }
  return false;
}

/* The largest tile with as many rows as there is room for. */
static void shorter_tile(const Tiles *t, int64_t total, int64_t limit, Str *hint) {
  int64_t rows = 0, row;
  if (!ir_is_const(t->most->extent[0], &rows) || rows == 0)
    return;
  row = t->most_bytes / rows;
  rows = (limit - (total - t->most_bytes)) / row;
  if (rows > 0) {
    str_addf(hint, "shared %s: ", t->most->name);
    buffer_add_type(t->most, rows, hint);
    str_add(hint, " would fit");
  } else {
    str_addf(hint, "tiles of %" PRId64 " bytes together would fit", limit);
  }
}

void launch_fits(const Launch *l, const SemaKernel *k) {
  Session *s = l->s;
  const Target *target = session_target(s);
  int64_t limit = (int64_t)target->shared_limit, total = eval_shared_bytes(l->ir, NULL, NULL);
  if (l->ir->level == IR_THREAD || target_has_shared(target, total))
    return; /* a thread level says its bytes itself, and to cuda_print */
  Tiles t = {.text = session_str(s)};
  Str hint = session_str(s);
  eval_shared_bytes(l->ir, add_tile, &t);
  if (!k || !smaller_parameter(l, k, target, &hint))
    shorter_tile(&t, total, limit, &hint);
  Diag *d =
      diag_add(&s->diags, E0461, l->ir->span,
               "the shared tiles take %" PRId64 " bytes, and a block of %s has %" PRId64 ": %s",
               total, target->name, limit, str_text(&t.text));
  diag_hint(&s->diags, d, "%s", str_text(&hint));
  session_fail_call(s, ST_COMPILE, l->span, l->name);
}

/* Capped, so that no product of extents is too large. */
static int64_t blocks_of(const IrKernel *k, const IrBinding *b) {
  int64_t n = 1;
  for (int i = 0; i < k->grid_rank; i++)
    if (__builtin_mul_overflow(n, b->grid[i], &n))
      return INT64_MAX;
  return n;
}

void launch_resident(const Launch *l, const IrKernel *k, const IrBinding *b, int64_t at_a_time) {
  Session *s = l->s;
  int64_t blocks = blocks_of(k, b), sms = session_sms(s), most = at_a_time * sms;
  if (!k->cooperative || blocks <= most)
    return;
  Diag *d = diag_add(&s->diags, E0386, l->ir->span,
                     "this cooperative grid has %" PRId64 " blocks, and %" PRId64
                     " would be resident together: %" PRId64 " on each of the %" PRId64
                     " multiprocessors of %s",
                     blocks, most, at_a_time, sms, session_target(s)->name);
  diag_hint(&s->diags, d,
            "grid b = min(n, %" PRId64
            "), and `for t in persistent(n)` shares n parts out among them",
            most);
  session_fail_call(s, ST_FAIL, l->span, l->name);
}

void launch_resident_at_most(const Launch *l) {
  int threads = l->ir->threads > 0 ? l->ir->threads : 32;
  int64_t shared = l->ir->level == IR_THREAD ? 0 : eval_shared_bytes(l->ir, NULL, NULL);
  if (!l->ir->cooperative)
    return;
  launch_resident(l, l->ir, l->b,
                  blocks_at_a_time(session_target(l->s), 0, threads, (size_t)shared, false));
}
