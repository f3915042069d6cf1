/* cost_mma.c: what a kernel whose products are single warps' takes of a multiprocessor.
 *
 * In: a tile-level kernel, not lowered. Out: the warps of its block, how many blocks a
 * multiprocessor holds, and whether a thread's registers and a block's shared memory suffice at
 * all: where they do not, the compiler spills or the schedule is the scalar one. Registers are
 * counted as compiled kernels of mma.sync have them (f16, i8, tf32, chained ones; within 15).
 * Tests: tests/lower/auto_warps.tile, tests/unit/check_gate.c.
 */
#include "cost.h"
#include "expand_dot.h"
#include "sched.h"

enum { MOST_RESULTS = 16, LEAST_STAGES = 2 };
/* Registers beside results and operands: addresses of copies on their way above all, which a single
 * product has in flight while it multiplies. */
enum { OTHERS = 95, OTHERS_CHAINED = 22 };

typedef struct Need {
  int threads;
  bool rows, ok;
  int products;
  const IrBuffer *result[MOST_RESULTS];
  int results;
  int64_t sums, operands, kept; /* registers of a thread: results, a step's operands, operands that
                                   lie in registers */
  int64_t shared;               /* bytes, with the least stages of those that are loaded ahead */
  bool ahead;                   /* in a pipelined loop */
} Need;

static void note_result(Need *x, const IrBuffer *c, int64_t registers) {
  for (int i = 0; i < x->results; i++)
    if (x->result[i] == c)
      return;
  if (x->results == MOST_RESULTS) {
    x->ok = false;
    return;
  }
  x->result[x->results++] = c;
  x->sums += registers;
}

/* f8 and f64 have registers of their own to count: their sizes stay the author's. */
static bool has_instruction(const IrDot *d) {
  DType t = d->a.buf->dtype;
  return d->b.buf->dtype == t &&
         (t == DT_F16 || t == DT_BF16 || t == DT_I8 || t == DT_U8 || (t == DT_F32 && d->tf32));
}

static void need_dot(Need *x, const IrDot *d) {
  int64_t m = ir_region_extent(&d->c, 0), n = ir_region_extent(&d->c, 1);
  int rows, columns;
  x->products++;
  if (!has_instruction(d) || !mma_split_warps(d, x->threads / 32, x->rows, &rows, &columns)) {
    x->ok = false;
    return;
  }
  int64_t words = 4 * (m / (MMA_ROWS * rows)) + 2 * (n / (MMA_COLUMNS * columns));
  x->operands = words > x->operands ? words : x->operands;
  note_result(x, d->c.buf, m * n / x->threads);
  if (d->a.buf->space == IRS_FRAGMENT)
    x->kept +=
        m * ir_region_extent(&d->a, 1) * (int64_t)dtype_size(d->a.buf->dtype) / 4 / x->threads;
}

static void need_block(Need *x, IrBlock *b) {
  IrBlock *inner;
  for (size_t i = 0; i < b->n; i++) {
    IrStmt *st = b->v[i];
    bool ahead = x->ahead;
    if (st->kind == IRK_DOT)
      need_dot(x, &st->as.dot);
    if (st->kind == IRK_ALLOC && st->as.alloc->space == IRS_SHARED)
      x->shared += sched_tile_bytes(st->as.alloc);
    if (st->kind == IRK_COPY && x->ahead && st->as.copy.dst.buf->space == IRS_SHARED &&
        st->as.copy.src.buf->space == IRS_GLOBAL)
      x->shared += (LEAST_STAGES - 1) * sched_tile_bytes(st->as.copy.dst.buf);
    x->ahead |= st->kind == IRK_FOR && st->as.loop.loop == IRF_PIPELINED && st->as.loop.stages != 1;
    for (int j = 0; st->kind != IRK_MAP && (inner = ir_nested(st, j)); j++)
      need_block(x, inner);
    x->ahead = ahead;
  }
}

bool cost_find_warps(const IrKernel *k, const Target *t, CostWarps *out) {
  IrKernel *body = (IrKernel *)(uintptr_t)k;
  Need x = {.threads = k->threads ? k->threads : expand_threads(k), .ok = true};
  x.rows = expand_keeps_rows(body);
  need_block(&x, &body->body);
  int64_t operands = x.operands <= MMA_AHEAD || x.products > 1 ? 2 * x.operands : x.operands;
  int64_t registers = x.sums + operands + x.kept + (x.products > 1 ? OTHERS_CHAINED : OTHERS);
  if (!x.ok || !x.products || registers > THREAD_REGISTERS ||
      !target_has_shared(t, x.shared + BARRIER_BYTES))
    return false;
  int64_t blocks = t->registers / (registers * x.threads);
  int64_t room = (int64_t)t->shared / (x.shared + BARRIER_BYTES);
  out->warps = x.threads / 32;
  out->blocks = (int)(blocks < room ? blocks : room);
  out->blocks = out->blocks < 1 ? 1 : out->blocks;
  return true;
}
