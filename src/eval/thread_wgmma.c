/* thread_wgmma.c: products of warpgroups: issue, groups, waits, and who may touch which register.
 *
 * Always holds: the four warps of a warpgroup issue the same products in the same order; a product
 * reads shared memory and changes registers when a wait covers its group, not before; from its
 * issue to that wait its registers belong to it, and its bytes to it until others know of the wait.
 * Tests: tests/unit/check_wgmma.c, tests/mutants.
 */
#include <string.h>

#include "thread_device.h"

/* ---------------------------------------------------------------- registers */

static const char *array_name(const EvalArray *x) {
  return x->buf->name;
}

/* Names the product, and says so if no group holds it: then no wait will ever cover it. */
static EvalResult fault_in_flight(EvalAgent *a, const EvalArray *x, int i, uint32_t number,
                                  const char *what) {
  char line[48];
  const Product *p = &dev_block(a)->group[a->id / 4].product[number % PRODUCTS];
  eval_fault(a, E0466, "register %d of %s is %s while the product of %s is in flight", i,
             array_name(x), what, eval_line(a->block, p->pc, line, sizeof line));
  if (number > dev_warp(a)->group_end[dev_warp(a)->groups % GROUP_RING])
    eval_fault_hint(a, "that product is in no group yet: wgmma_commit, then wgmma_wait");
  return EVAL_FAULTED;
}

/* Ordinary code may look at registers of finished products only, and what it touches needs a
 * fence before the next product. */
EvalResult eval_touch(EvalAgent *a, EvalArray *x, int first, int count, bool write) {
  DevWarp *w = dev_warp(a);
  RegisterState *s = x->device;
  if (!s || !dev_block(a)->check)
    return EVAL_OK;
  w->touches++;
  for (int i = first; i < first + count && i < x->count; i++) {
    if (s[i].product > w->waited)
      return fault_in_flight(a, x, i, s[i].product, write ? "written" : "read");
    if (write && s[i].fragment > w->waited)
      return fault_in_flight(a, x, i, s[i].fragment, "overwritten");
    s[i].touched = w->touches;
  }
  return EVAL_OK;
}

/* The machine's hook for LOAD and STORE of register arrays. */
EvalResult eval_device_registers(EvalAgent *a, EvalArray *array, int first, int count, bool write) {
  return eval_touch(a, array, first, count, write);
}

/* The fence orders register accesses too: without it the tensor cores may see old values. */
static EvalResult fault_unfenced(EvalAgent *a, const EvalOperand *o, int i) {
  return eval_fault(a, E0467,
                    "register %d of %s was touched by ordinary code (or never used) and "
                    "no wgmma_fence comes before this product",
                    i, array_name(o->array));
}

/* The accumulators: fenced, not another product's, written if they are added to. */
static EvalResult check_accumulators(EvalAgent *a, const EvalOperand *o, bool adds) {
  DevWarp *w = dev_warp(a);
  const RegisterState *s = o->array->device;
  const Warpgroup *g = &dev_block(a)->group[a->id / 4];
  for (int i = o->first; i < o->first + o->count; i++) {
    const Product *p = &g->product[s[i].product % PRODUCTS];
    bool chained = s[i].product > w->waited;
    if (chained && (p->d[a->id % 4] != o->out || p->n != 2 * o->count))
      return fault_in_flight(a, o->array, i, s[i].product, "part of another product");
    if (s[i].fragment > w->waited)
      return fault_in_flight(a, o->array, i, s[i].fragment, "overwritten");
    if (s[i].touched > w->fenced)
      return fault_unfenced(a, o, i);
    if (adds && !chained && !o->array->written[i])
      return eval_fault(a, E0451, "the product adds to register %d of %s, which nothing wrote", i,
                        array_name(o->array));
  }
  return EVAL_OK;
}

/* A in registers: neither another product's result in flight, nor touched since the fence. */
static EvalResult check_fragment(EvalAgent *a, const EvalOperand *o) {
  DevWarp *w = dev_warp(a);
  const RegisterState *s = o->array->device;
  for (int i = o->first; i < o->first + o->count; i++) {
    if (s[i].product > w->waited)
      return fault_in_flight(a, o->array, i, s[i].product, "read");
    if (s[i].touched > w->fenced)
      return fault_unfenced(a, o, i);
  }
  return EVAL_OK;
}

/* ---------------------------------------------------------------- shared operands */

/* Says which row and chunk breaks the pattern, and which element of the tensor stands there:
 * from these one sees which field is wrong. */
static EvalResult fault_matrix(EvalAgent *a, const char *name, int r, int c, int64_t at) {
  const DevBlock *d = dev_block(a);
  const Record *from = eval_load_record(d, &d->granule[at / GRANULE]);
  long long row = 0, col = 0;
  if (from) {
    row = (long long)eval_box_coordinate(&from->box, at / GRANULE, true);
    col = (long long)eval_box_coordinate(&from->box, at / GRANULE, false);
  }
  eval_fault(
      a, E0472,
      "%s of this product is not one matrix: its row %d, chunk %d is element [%lld, %lld] of "
      "the tensor, which does not follow from the rows and chunks before",
      name, r, c, row, col);
  eval_fault_hint(a, "the descriptor's offsets and swizzle must be those the box was loaded with");
  return EVAL_FAULTED;
}

/* A walk over the chunks of an operand, along whose rows the origin in the tensor must step evenly
 * as long as they come from one box. */
typedef struct Trace {
  bool known;
  uint8_t source;
  uint32_t load; /* box of the reference chunk */
  int r, c;      /* which chunk that is */
  int64_t origin;
  int64_t step; /* bytes from row to row; 0: not seen */
} Trace;

/* Boxes may come from anywhere (pages of a cache), but within one the rows must keep their step. */
static bool follows(Trace *t, const Granule *g, int r, int c) {
  if (!g->source) {
    t->known = false;
    return true;
  }
  if (!t->known || g->load != t->load) {
    int64_t step = t->known && t->source == g->source ? t->step : 0;
    *t = (Trace){true, g->source, g->load, r, c, g->origin, step};
    return true;
  }
  int64_t moved = (int64_t)g->origin - t->origin - (c - t->c);
  if (r != t->r && !t->step && moved % (r - t->r) == 0)
    t->step = moved / (r - t->r);
  return moved == t->step * (r - t->r);
}

/* The few stamps that an operand carries: warps that join later need no second walk. */
static void note_need(Product *p, const Granule *g) {
  for (int i = 0; i < p->nneeds && i < NEEDS; i++)
    if (p->needs[i] == g->writer)
      return;
  if (p->nneeds < NEEDS)
    p->needs[p->nneeds] = g->writer;
  p->nneeds++;
}

/* One chunk: in bounds, and read in order. *known: writer of the chunk before, known to the warp.
 */
static EvalResult check_chunk(EvalAgent *a, Product *p, int64_t at, Stamp s, Stamp *known) {
  DevBlock *d = dev_block(a);
  if (at >= 0 && at + 16 <= (int64_t)d->bytes && !(at & 15) &&
      shadow_engine_quick(d, at / GRANULE, s, *known))
    return EVAL_OK;
  EvalResult x = eval_shared_place(a, at, 16, 16);
  if (x == EVAL_OK)
    x = eval_shadow_engine_read(a, (uint32_t)(at / GRANULE), s, "a product");
  if (x != EVAL_OK)
    return x;
  const Granule *g = &d->granule[at / GRANULE];
  note_need(p, g);
  *known = g->writer;
  return EVAL_OK;
}

typedef struct Look { /* at the chunks of one operand */
  Product *p;
  const DescMatrix *m;
  Stamp s, known;
  Trace t;
  int which; /* 0 A, 1 B */
} Look;

/* Row r's chunks c to end of one panel. */
/* The first chunk tells where the operand begins, for check_k. */
static EvalResult check_row(EvalAgent *a, Look *l, int r, int c, int end) {
  static const char *const names[2] = {"A", "B"};
  const DescMatrix *m = l->m;
  for (; c < end; c++) {
    int64_t at = eval_desc_chunk(m, r, c);
    EvalResult x = check_chunk(a, l->p, at, l->s, &l->known);
    if (x != EVAL_OK)
      return x;
    const Granule *g = &dev_block(a)->granule[at / GRANULE];
    if (!follows(&l->t, g, r, c))
      return fault_matrix(a, names[l->which], m->trans ? 8 * c : r, m->trans ? r : c, at);
    const Record *from = r == 0 && c == 0 ? eval_load_record(dev_block(a), g) : NULL;
    if (from) {
      l->p->load[l->which] = g->load;
      l->p->k[l->which] = (int32_t)eval_box_coordinate(&from->box, at / GRANULE, m->trans);
    }
  }
  return EVAL_OK;
}

/* Panel by panel, so that chunks of one box come one after the other. */
static EvalResult check_matrix(EvalAgent *a, Product *p, const DescMatrix *m, Stamp s, int which) {
  Look l = {.p = p, .m = m, .s = s, .known = UINT32_MAX, .which = which};
  int rows, chunks;
  desc_shape(m, &rows, &chunks);
  int panel = m->trans && m->span ? m->span / 16 : chunks;
  for (int c = 0; c < chunks; c += panel)
    for (int r = 0; r < rows; r++)
      if (check_row(a, &l, r, c, c + panel < chunks ? c + panel : chunks) != EVAL_OK)
        return EVAL_FAULTED;
  return EVAL_OK;
}

/* Bounds alone, where no shadow is kept. */
static EvalResult check_bounds(EvalAgent *a, const DescMatrix *m) {
  int rows, chunks;
  EvalResult x = EVAL_OK;
  desc_shape(m, &rows, &chunks);
  for (int r = 0; r < rows && x == EVAL_OK; r++)
    for (int c = 0; c < chunks && x == EVAL_OK; c++)
      x = eval_shared_place(a, eval_desc_chunk(m, r, c), 16, 16);
  return x;
}

/* Within one pair of boxes, A and B step through k together. */
static EvalResult check_k(EvalAgent *a, const Warpgroup *g, const Product *p) {
  const Product *q = &g->product[(g->issued - 1) % PRODUCTS];
  if (!p->load[0] || !p->load[1] || memcmp(p->load, q->load, sizeof p->load) != 0 ||
      p->k[0] - p->k[1] == q->k[0] - q->k[1])
    return EVAL_OK;
  return eval_fault(a, E0472,
                    "A begins at k %d and B at k %d, where the product before began at %d "
                    "and %d of the same boxes",
                    (int)p->k[0], (int)p->k[1], (int)q->k[0], (int)q->k[1]);
}

/* Once a product, by the first warp that issues it; its stamps tell the writers when it is over. */
static EvalResult check_operands(EvalAgent *a, Warpgroup *g, Product *p, uint32_t number) {
  DevBlock *d = dev_block(a);
  Stamp s = stamp(COMP_PRODUCT + a->id / 4, number);
  DescMatrix m;
  EvalResult r = EVAL_OK;
  if (!p->from_registers) {
    eval_desc_decode(p->a, 64, p->trans_a, &m);
    r = d->check ? check_matrix(a, p, &m, s, 0) : check_bounds(a, &m);
  }
  eval_desc_decode(p->b, p->n, p->trans_b, &m);
  if (r == EVAL_OK)
    r = d->check ? check_matrix(a, p, &m, s, 1) : check_bounds(a, &m);
  return r == EVAL_OK && d->check ? check_k(a, g, p) : r;
}

/* ---------------------------------------------------------------- issue */

/* The hardware takes descriptors from uniform registers: lanes that differ are undefined there. */
static EvalResult uniform(EvalAgent *a, const EvalOperand *o, const char *what) {
  for (int i = 1; o->step && i < EVAL_WARP; i++)
    if (eval_operand_int(o, i) != eval_operand_int(o, 0))
      return eval_fault(a, E0473, "%s differs between the lanes of warp %d", what, a->id);
  return EVAL_OK;
}

/* Shapes that exist, in registers that fit them. */
static EvalResult check_form(EvalAgent *a, const EvalOperand *d, const Product *p) {
  DType acc = dtype_is_int(p->type) ? DT_I32 : DT_F32;
  if (p->n < 8 || p->n > 256 || p->n % 8 || d->count != p->n / 2 || d->type != acc)
    return eval_fault(a, E0473,
                      "a product of %d columns into %d registers of %s: N / 2 registers of "
                      "%s, N a multiple of 8 up to 256",
                      p->n, d->count, dtype_name(d->type), dtype_name(acc));
  bool wide = p->type == DT_F16 || p->type == DT_BF16;
  if (!eval_mma_takes(p->type))
    return eval_fault(a, E0490, "there is no product of %s", dtype_name(p->type));
  if (!wide && (p->trans_a || p->trans_b))
    return eval_fault(a, E0473, "only products of 16-bit types take transposed operands");
  if (a->id / 4 * 4 + 4 > a->block->nagents)
    return eval_fault(a, E0473, "warp %d is in no whole warpgroup of 4 warps", a->id);
  return eval_whole_warp(a, "a product");
}

/* The four warps must mean the same product, since the hardware executes one. */
static bool same_product(const Product *p, const Product *q) {
  return p->from_registers == q->from_registers && p->scale_d == q->scale_d &&
         p->trans_a == q->trans_a && p->trans_b == q->trans_b && p->type == q->type &&
         p->n == q->n && p->a == q->a && p->b == q->b;
}

/* A warp that comes after the first of its group: the same product, whose bytes it may read. */
static EvalResult join(EvalAgent *a, Product *p, const Product *mine, uint32_t number) {
  if (!same_product(p, mine))
    return eval_fault(a, E0473,
                      "warp %d issues another product than the first warp of its "
                      "warpgroup: other descriptors, shape or scale_d",
                      a->id);
  if (p->nneeds > NEEDS)
    return check_operands(a, &dev_block(a)->group[a->id / 4], p, number);
  for (int i = 0; i < p->nneeds; i++)
    if (!clock_knows(&dev_warp(a)->clock, p->needs[i]))
      return check_operands(a, &dev_block(a)->group[a->id / 4], p, number);
  return EVAL_OK;
}

/* Whether every product up to a number has its four warps. */
static bool all_issued(const Warpgroup *g, uint32_t last) {
  for (uint32_t i = g->done + 1; i <= last; i++)
    if (i > g->issued || g->product[i % PRODUCTS].issued != 15)
      return false;
  return true;
}

/* Room for one more: the oldest is computed once its four warps have issued it. */
static bool make_room(EvalAgent *a, const Warpgroup *g, uint32_t number) {
  if (number - g->done <= PRODUCTS - 1)
    return true;
  uint32_t oldest = number - (PRODUCTS - 1);
  if (!all_issued(g, oldest))
    return false;
  eval_products_run(a->block, a->id / 4, oldest);
  return true;
}

/* From here to the wait these registers are the product's. */
static void mark(EvalAgent *a, const EvalOperand *d, const EvalOperand *fragment, uint32_t number) {
  RegisterState *s = d->array->device;
  (void)a;
  for (int i = 0; i < d->count; i++)
    s[d->first + i].product = number;
  s = fragment ? fragment->array->device : NULL;
  for (int i = 0; s && i < fragment->count; i++)
    s[fragment->first + i].fragment = number;
}

/* One warp issues; the first of the warpgroup looks at the operands, the last makes it ready. */
static EvalResult issue(EvalAgent *a, Product *mine, const EvalOperand *d,
                        const EvalOperand *fragment) {
  DevWarp *w = dev_warp(a);
  Warpgroup *g = &dev_block(a)->group[a->id / 4];
  EvalResult r = check_form(a, d, mine);
  if (r != EVAL_OK)
    return r;
  uint32_t number = w->product + 1;
  if (!make_room(a, g, number))
    return eval_blocked(a, WAIT_PRODUCT, 0, 0);
  if (dev_block(a)->check) {
    r = check_accumulators(a, d, mine->scale_d);
    if (r == EVAL_OK && fragment)
      r = check_fragment(a, fragment);
    if (r != EVAL_OK)
      return r;
  }
  Product *p = &g->product[number % PRODUCTS];
  if (number > g->issued) {
    *p = *mine;
    p->pc = a->pc;
    g->issued = number;
    r = check_operands(a, g, p, number);
  } else {
    r = join(a, p, mine, number);
  }
  if (r != EVAL_OK)
    return r;
  p->issued |= 1 << a->id % 4;
  p->d[a->id % 4] = d->out;
  p->fragment[a->id % 4] = fragment ? fragment->out : NULL;
  w->product = number;
  mark(a, d, fragment, number);
  return EVAL_OK;
}

/* D, descriptors of A and B, scale_d, N, type, trans_a, trans_b. */
EVAL_ROW(wgmma_ss) {
  (void)n;
  Product p = {.a = (uint64_t)eval_operand_int(&o[1], 0),
               .b = (uint64_t)eval_operand_int(&o[2], 0),
               .scale_d = eval_operand_int(&o[3], 0) != 0,
               .n = (int)o[4].imm,
               .type = o[5].type,
               .trans_a = o[6].imm != 0,
               .trans_b = o[7].imm != 0};
  if (uniform(a, &o[1], "the descriptor of A") != EVAL_OK ||
      uniform(a, &o[2], "the descriptor of B") != EVAL_OK ||
      uniform(a, &o[3], "scale_d") != EVAL_OK)
    return EVAL_FAULTED;
  return issue(a, &p, &o[0], NULL);
}

/* D, registers of A, descriptor of B, scale_d, N, type, trans_b. */
EVAL_ROW(wgmma_rs) {
  (void)n;
  Product p = {.from_registers = true,
               .b = (uint64_t)eval_operand_int(&o[2], 0),
               .scale_d = eval_operand_int(&o[3], 0) != 0,
               .n = (int)o[4].imm,
               .type = o[5].type,
               .trans_b = o[6].imm != 0};
  if (uniform(a, &o[2], "the descriptor of B") != EVAL_OK ||
      uniform(a, &o[3], "scale_d") != EVAL_OK)
    return EVAL_FAULTED;
  if (o[1].count != 4 || dtype_compute_size(o[1].type) != 4)
    return eval_fault(a, E0473, "A of a product in %d registers of %s: 4 registers of 32 bits",
                      o[1].count, dtype_name(o[1].type));
  return issue(a, &p, &o[0], &o[1]);
}

/* ---------------------------------------------------------------- fences, groups, waits */

EVAL_ROW(wgmma_fence) {
  (void)o, (void)n;
  dev_warp(a)->fenced = dev_warp(a)->touches;
  return eval_whole_warp(a, "wgmma_fence");
}

/* A group is what this warp issued since the last commit; it may be empty. */
EVAL_ROW(wgmma_commit) {
  DevWarp *w = dev_warp(a);
  (void)o, (void)n;
  w->group_end[++w->groups % GROUP_RING] = w->product;
  return eval_whole_warp(a, "wgmma_commit");
}

/* Groups end in order. Products are computed here, at the last moment at which the program may
 * count on them, and every warp that waited knows that their operands are read. */
EVAL_ROW(wgmma_wait) {
  DevWarp *w = dev_warp(a);
  (void)n;
  EvalResult r = eval_whole_warp(a, "wgmma_wait");
  if (r != EVAL_OK || (int64_t)w->groups <= o[0].imm || o[0].imm >= GROUP_RING)
    return r;
  uint32_t last = w->group_end[(w->groups - (uint32_t)o[0].imm) % GROUP_RING];
  Warpgroup *g = &dev_block(a)->group[a->id / 4];
  if (!all_issued(g, last))
    return eval_blocked(a, WAIT_PRODUCT, 0, 0);
  eval_products_run(a->block, a->id / 4, last);
  w->waited = last > w->waited ? last : w->waited;
  clock_learn(&w->clock, stamp(COMP_PRODUCT + a->id / 4, last));
  return EVAL_OK;
}
