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
  int64_t operand; /* and for the largest operand in registers: such are there one at a time */
  int64_t single;  /* registers that the compiler wants for the widest instruction alone */
  int products;
  Turned turned; /* of the product in hand */
  bool turns;    /* some product is turned */
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

/* Sums of 8-bit floats are taken to true f32 every so many of K, unless the author forgoes it. */
bool sched_promotes(const IrDot *d) {
  DType t = d->a.buf->dtype;
  return (t == DT_F8E4M3 || t == DT_F8E5M2) && d->promote != 0;
}

bool sched_adds_too_much(const IrDot *d) {
  int64_t most = d->promote > 0 ? d->promote : 128;
  return sched_promotes(d) && ir_region_extent(&d->a, 1) > most;
}

/* Integers of 8 bits. */
static bool is_byte(DType t) {
  return t == DT_I8 || t == DT_U8;
}

bool sched_has_types(const IrDot *d) {
  DType t = d->a.buf->dtype;
  bool known = t == DT_F16 || t == DT_BF16 || t == DT_F8E4M3 || t == DT_F8E5M2 || is_byte(t) ||
               (t == DT_F32 && d->tf32);
  return known && d->b.buf->dtype == t;
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

/* Types of operands that the tensor cores multiply, and what they add up in; f32 where the program
 * lets its last bits go. */
static bool types_ok(Select *s, const IrDot *d) {
  DType t = d->a.buf->dtype, acc = is_byte(t) ? DT_I32 : DT_F32;
  if (!sched_has_types(d))
    return decline(s, "is no operand of a type of the tensor cores like its partner", d->a.buf);
  if (dtype_size(t) != 2 && d->a.buf->space == IRS_FRAGMENT)
    return decline(s, "is an operand in registers, not of 16 bits, which would have to be shuffled",
                   d->a.buf);
  if (d->c.buf->dtype != acc || d->c.buf->space != IRS_FRAGMENT || !sched_whole(&d->c))
    return decline(s, "is not a whole fragment of the type that products add up in", d->c.buf);
  return true;
}

/* m64nNk, K by 32 bytes; 8-bit floats keep too few bits for more than 128 of K. */
static bool shape_ok(Select *s, const IrDot *d) {
  int64_t m = ir_region_extent(&d->c, s->turned == TURNED_B);
  int64_t n = ir_region_extent(&d->c, s->turned != TURNED_B);
  int64_t depth = ir_region_extent(&d->a, 1), step = 32 / (int64_t)dtype_size(d->a.buf->dtype);
  DType t = d->a.buf->dtype;
  if (!types_ok(s, d))
    return false;
  if (m % 64 || n % 8 || n > 256 || n == 0 || depth % step || depth == 0 || m == 0 ||
      (is_byte(t) && n > 24 && n % 16))
    return decline(s,
                   s->turned == TURNED_B
                       ? "is no result of columns by 64, rows by 8 up to 256, and K by 32 bytes"
                       : "is no result of rows by 64, columns by 8 up to 256, and K by 32 bytes",
                   d->c.buf);
  if (sched_adds_too_much(d))
    return decline(s, "adds more of K at once than its products are promoted by", d->c.buf);
  if (s->rows && s->rows != m)
    return decline(s, "has other rows than another product's result", d->c.buf);
  s->rows = m;
  int64_t single = n / 2 + (s->turned || d->a.buf->space == IRS_FRAGMENT ? 30 : 26);
  s->single = single > s->single ? single : s->single;
  return true;
}

/* A result that several products share counts once. */
static void note_result(Select *s, const IrBuffer *c) {
  for (size_t i = 0; i < s->results.n; i++)
    if (s->results.v[i] == c)
      return;
  VEC_PUSH(s->k->arena, &s->results, c);
  s->columns += sched_extent(c, s->turned != TURNED_B) / 2;
}

static void select_dot(Select *s, IrDot *d) {
  s->products++;
  s->turned = sched_turned(s->k, s->r, d);
  s->turns |= s->turned != TURNED_NONE;
  if (!shape_ok(s, d) || !operand_ok(s, &d->a, true) || !operand_ok(s, &d->b, false))
    return;
  d->unit = IRU_WGMMA;
  note_result(s, d->c.buf);
  if (sched_promotes(d) && d->accumulate)
    s->columns += sched_extent(d->c.buf, s->turned != TURNED_B) / 2; /* of the part */
  if (s->turned)
    s->columns += sched_turned_registers(d);
  if (d->a.buf->space == IRS_FRAGMENT && sched_extent(d->a.buf, 1) / 4 > s->operand)
    s->operand = sched_extent(d->a.buf, 1) / 4;
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

/* ---------------------------------------------------------------- parts of 8-bit floats */

/* acc[i, j] = acc[i, j] + part[i, j] */
static IrStmt *add_part(IrKernel *k, IrBuffer *acc, IrBuffer *part, Span span) {
  IrStmt *st = sched_stmt(k, IRK_MAP, span);
  IrMap *m = &st->as.map;
  IrAccess at[2] = {{.buf = acc}, {.buf = part}};
  IrExpr *x[2];
  m->naxes = 2;
  for (int d = 0; d < 2; d++) {
    m->index[d] = ir_var(k, IRV_INDEX, d ? "j" : "i", DT_I64);
    m->index[d]->lo = 0;
    m->index[d]->hi = sched_extent(acc, d) - 1;
    m->extent[d] = acc->extent[d];
    at[0].index[d] = at[1].index[d] = ir_ref(k, m->index[d]);
  }
  for (int i = 0; i < 2; i++) {
    IrStmt *load = ir_add(k, &m->body, IRK_LOAD, span);
    load->as.access.at = at[i];
    load->as.access.var = ir_var(k, IRV_LET, "x", DT_F32);
    x[i] = ir_ref(k, load->as.access.var);
  }
  IrStmt *store = ir_add(k, &m->body, IRK_STORE, span);
  store->as.access.at = at[0];
  store->as.access.value = ir_op2(k, OP_ADD, x[0], x[1]);
  return st;
}

/* The product goes into a part of its own, which is added in f32. */
void sched_promote(IrKernel *k, IrBlock *b) {
  IrBlock out = {0}, *inner;
  for (size_t i = 0; i < b->n; i++) {
    IrStmt *st = b->v[i];
    for (int j = 0; st->kind != IRK_MAP && (inner = ir_nested(st, j)); j++)
      sched_promote(k, inner);
    bool part = st->kind == IRK_DOT && sched_promotes(&st->as.dot) && st->as.dot.accumulate;
    if (!part) {
      sched_push(k, &out, st);
      continue;
    }
    IrBuffer *acc = st->as.dot.c.buf;
    IrBuffer *sum = ir_buffer(k, IRS_FRAGMENT, "part", DT_F32, 2, acc->extent);
    ir_add(k, &out, IRK_ALLOC, st->span)->as.alloc = sum;
    st->as.dot.c = ir_whole(k, sum);
    st->as.dot.accumulate = false;
    sched_push(k, &out, st);
    sched_push(k, &out, add_part(k, acc, sum, st->span));
  }
  *b = out;
}

/* ---------------------------------------------------------------- the kernel */

/* Where many products are chained, most of the rest is there while their results are not. */
int sched_other_registers(int products) {
  return products > 2 ? 32 : 40;
}

int sched_most_registers(int groups, bool most) {
  static const int limit[] = {0, 255, 232, 160};
  return groups == 2 && most ? 240 : limit[groups];
}

/* 64 rows each up to three; beyond that two of 128 rows. Registers: results, operands, and
 * everything else, of what a thread may have; with three groups an instruction alone has to fit
 * those that 512 threads begin with. */
static int count_groups(const Select *s) {
  enum { FIRST_OF_512 = 128 };
  int64_t blocks = s->rows / 64;
  int groups = blocks == 4 ? 2 : (int)blocks;
  int64_t registers = (s->columns + s->operand) * (blocks / groups);
  if (blocks > 4 ||
      registers + sched_other_registers(s->products) > sched_most_registers(groups, true) ||
      (groups == 3 && s->single > FIRST_OF_512))
    return 0;
  return groups;
}

IrKernel *low_select(Arena *a, const IrKernel *from, const LowerRequest *r, DiagSink *sink) {
  (void)sink;
  IrKernel *k = ir_kernel_clone(a, from);
  Select s = {.k = k, .r = r};
  k->level = IR_SCHEDULED;
  if (k->cooperative || k->resident)
    return sched_decline(r, "a cooperative or resident grid");
  ir_walk(&k->body, select_stmt, &s);
  if (s.declined)
    return NULL;
  if (!s.rows)
    return NULL; /* no product: nothing to say */
  if (s.turns && s.products > 1)
    return sched_decline(r, "several products, of which one has an operand that lies across");
  int groups = count_groups(&s);
  if (!groups)
    return sched_decline(r, "%" PRId64 " rows of results with %" PRId64 " registers a thread",
                         s.rows, s.columns + s.operand);
  if (k->threads && k->threads != (groups + 1) * GROUP_THREADS)
    return sched_decline(r, "threads = %d, but these rows take %d", k->threads,
                         (groups + 1) * GROUP_THREADS);
  k->threads = groups * GROUP_THREADS;
  sched_note(r, "%d warpgroup%s multiply with wgmma, %" PRId64 " rows each; one more loads", groups,
             groups > 1 ? "s" : "", s.rows / groups);
  sched_promote(k, &k->body);
  return k;
}
