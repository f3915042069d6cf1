/* select.c: pass: which instruction does each product, and how many warpgroups share its rows.
 *
 * In: a tile-level kernel. Out: the same at scheduled level, every product marked `unit wgmma`, the
 * block's threads those of the warpgroups that compute; or NULL where a product has no such
 * instruction. Always holds: the rows of all products' results are shared out alike, 64 or 128 to a
 * warpgroup, so that what is chained through fragments stays within one.
 * Tests: tests/unit/check_schedule.c.
 */
#include <inttypes.h>

#include "sched.h"

typedef struct Select {
  IrKernel *k;
  const LowerRequest *r;
  int64_t rows;    /* of the products' results; 0: none seen */
  int64_t columns; /* registers of a thread for the results, for each 64 rows of it, so far */
  VEC(const IrBuffer *) results;
  bool declined;
} Select;

/* All products are looked at, but the first reason is enough. */
static bool decline(Select *s, const char *why, const IrBuffer *b) {
  if (!s->declined)
    sched_decline(s->r, "`%s` %s", b->name, why);
  s->declined = true;
  return false;
}

/* K in registers comes from an accumulator, whose columns pair up as 16-bit operands want them. */
static bool operand_ok(Select *s, const IrRegion *x, bool first) {
  IrRegion straight = *x;
  straight.trans = false;
  if (x->buf->rank != 2 || !sched_whole(&straight))
    return decline(s, "is not used whole by a product", x->buf);
  if (x->buf->space == IRS_FRAGMENT && (!first || x->trans))
    return decline(s, "is an operand that only shared memory can hold", x->buf);
  return true;
}

/* m64nNk16 of f16 or bf16. */
static bool shape_ok(Select *s, const IrDot *d) {
  int64_t m = ir_region_extent(&d->c, 0), n = ir_region_extent(&d->c, 1);
  int64_t depth = ir_region_extent(&d->a, 1);
  DType t = d->a.buf->dtype;
  if ((t != DT_F16 && t != DT_BF16) || d->b.buf->dtype != t)
    return decline(s, "is no operand of 16-bit floats like its partner", d->a.buf);
  if (d->c.buf->dtype != DT_F32 || d->c.buf->space != IRS_FRAGMENT || !sched_whole(&d->c))
    return decline(s, "is not a whole f32 fragment", d->c.buf);
  if (m % 64 || n % 8 || n > 256 || n == 0 || depth % 16 || depth == 0 || m == 0)
    return decline(s, "is no result of rows by 64, columns by 8 up to 256, and K by 16", d->c.buf);
  if (s->rows && s->rows != m)
    return decline(s, "has other rows than another product's result", d->c.buf);
  s->rows = m;
  return true;
}

/* A result that several products share counts once. */
static void note_result(Select *s, const IrBuffer *c) {
  for (size_t i = 0; i < s->results.n; i++)
    if (s->results.v[i] == c)
      return;
  VEC_PUSH(s->k->arena, &s->results, c);
  s->columns += sched_extent(c, 1) / 2;
}

static void select_dot(Select *s, IrDot *d) {
  if (!shape_ok(s, d) || !operand_ok(s, &d->a, true) || !operand_ok(s, &d->b, false))
    return;
  d->unit = IRU_WGMMA;
  note_result(s, d->c.buf);
  if (d->a.buf->space == IRS_FRAGMENT)
    s->columns += sched_extent(d->a.buf, 1) / 4;
}

/* What the author has scheduled stays so. */
static bool select_stmt(IrStmt *st, void *ctx) {
  Select *s = ctx;
  if (st->kind == IRK_DOT)
    select_dot(s, &st->as.dot);
  else if (!s->declined &&
           (st->kind == IRK_RETURN || st->kind == IRK_ROLES || st->kind == IRK_ARRIVE ||
            st->kind == IRK_AWAIT || (st->kind == IRK_COPY && st->as.copy.signal.buf))) {
    sched_decline(s->r, "the program leaves early or schedules itself");
    s->declined = true;
  }
  return !s->declined;
}

/* 64 rows each up to three; beyond that two of 128 rows. Registers: results, operands, and 40 of
 * everything else, of what a thread may have. */
static int count_groups(const Select *s) {
  static const int limit[] = {0, 255, 240, 160};
  int64_t blocks = s->rows / 64;
  int groups = blocks == 4 ? 2 : (int)blocks;
  if (blocks > 4 || s->columns * (blocks / groups) + 40 > limit[groups])
    return 0;
  return groups;
}

IrKernel *low_select(Arena *a, const IrKernel *from, const LowerRequest *r, DiagSink *sink) {
  (void)sink;
  IrKernel *k = ir_kernel_clone(a, from);
  Select s = {.k = k, .r = r};
  k->level = IR_SCHEDULED;
  if (k->cooperative || k->resident || k->cluster[0] > 1 || k->cluster[1] > 1)
    return sched_decline(r, "a cooperative, resident or clustered grid");
  ir_walk(&k->body, select_stmt, &s);
  if (s.declined)
    return NULL;
  if (!s.rows)
    return sched_decline(r, "no product");
  int groups = count_groups(&s);
  if (!groups)
    return sched_decline(r, "%" PRId64 " rows of results with %" PRId64 " registers a thread",
                         s.rows, s.columns);
  if (k->threads && k->threads != (groups + 1) * GROUP_THREADS)
    return sched_decline(r, "threads = %d, but these rows take %d", k->threads,
                         (groups + 1) * GROUP_THREADS);
  k->threads = groups * GROUP_THREADS;
  return k;
}
