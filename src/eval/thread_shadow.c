/* thread_shadow.c: what is known of each byte of shared memory, and whether an access is in order.
 *
 * In: accesses of threads, of the copy engine and of products, when they are issued. Out: a fault
 * with both places where nothing orders them. Writers are noted by granules of 16 bytes, by words
 * of 4 where threads write less; below a word only the latest writer is known, with its bytes: the
 * others' pass.
 * Tests: tests/unit/check_thread.c, tests/mutants.
 */
#include <stdio.h>
#include <string.h>

#include "thread_device.h"

/* ---------------------------------------------------------------- words */

/* Who a stamp stands for, with the line, into a buffer: warps by number, engines by what they
 * are. */
static const char *writer_name(const EvalBlock *b, Stamp s, uint32_t pc, char *out, size_t size) {
  char line[48];
  int comp = (int)(s >> 24);
  eval_line(b, pc, line, sizeof line);
  if (comp >= COMP_MBAR)
    snprintf(out, size, "the copy engine's load of %s", line);
  else if (comp >= COMP_CP)
    snprintf(out, size, "cp_async of warp %d, %s", comp - COMP_CP, line);
  else
    snprintf(out, size, "warp %d, %s", comp - COMP_WARP, line);
  return out;
}

/* A read that no barrier or wait puts after the write: it may see the old bytes or the new. */
static EvalResult fault_unordered_read(EvalAgent *a, int64_t offset, Stamp s, uint32_t pc) {
  char who[96];
  int comp = (int)(s >> 24);
  writer_name(a->block, s, pc, who, sizeof who);
  eval_fault(a, E0464,
             "warp %d reads the shared byte %lld, written by %s, and no %s orders the two", a->id,
             (long long)offset, who,
             comp >= COMP_MBAR ? "wait on its mbarrier" : "barrier or wait");
  return EVAL_FAULTED;
}

/* Two writes in no order: which one stays is chance. */
static EvalResult fault_unordered_write(EvalAgent *a, int64_t offset, Stamp s, uint32_t pc) {
  char who[96];
  writer_name(a->block, s, pc, who, sizeof who);
  return eval_fault(a, E0464,
                    "warp %d writes the shared byte %lld, which %s wrote, and nothing "
                    "orders the two",
                    a->id, (long long)offset, who);
}

/* A write that no wait puts after a reader: the reader may get bytes of the next stage. */
static EvalResult fault_overwrite(EvalAgent *a, int64_t offset, Stamp s, uint32_t pc) {
  char line[48];
  int comp = (int)(s >> 24);
  const char *what = comp >= COMP_BULK      ? "a bulk store of warp %d"
                     : comp >= COMP_PRODUCT ? "a product of warpgroup %d"
                                            : "warp %d";
  int number = comp >= COMP_BULK      ? comp - COMP_BULK
               : comp >= COMP_PRODUCT ? comp - COMP_PRODUCT
                                      : comp - COMP_WARP;
  char who[64];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  snprintf(who, sizeof who, what, number);
#pragma GCC diagnostic pop
  return eval_fault(a, E0465,
                    "warp %d overwrites the shared byte %lld, which %s may still read (%s)", a->id,
                    (long long)offset, who, eval_line(a->block, pc, line, sizeof line));
}

/* ---------------------------------------------------------------- places */

EvalResult eval_shared_place(EvalAgent *a, int64_t offset, int64_t n, int64_t alignment) {
  const DevBlock *d = dev_block(a);
  if (offset < 0 || n > (int64_t)d->bytes || offset > (int64_t)d->bytes - n)
    return eval_fault(a, E0463, "shared bytes %lld to %lld are outside the block's %zu",
                      (long long)offset, (long long)((uint64_t)offset + (uint64_t)n - 1), d->bytes);
  if (offset % alignment)
    return eval_fault(a, E0462, "the shared address %lld is not a multiple of %lld",
                      (long long)offset, (long long)alignment);
  return EVAL_OK;
}

/* The bits of the bytes of a granule that [offset, offset + n) has. */
static uint16_t bits_of(int64_t offset, int n, int64_t granule) {
  int64_t lo = offset - granule * GRANULE, hi = lo + n;
  lo = lo < 0 ? 0 : lo;
  hi = hi > GRANULE ? GRANULE : hi;
  return (uint16_t)((1u << hi) - (1u << lo));
}

/* Atomics of several warps on one word are in order by themselves. */
static bool is_atomic(const EvalAgent *a) {
  return machine_insn(a)->code == BC_ATOMIC;
}

/* ---------------------------------------------------------------- threads */

/* The state of an mbarrier lies in the hardware; its 8 bytes belong to nobody else. */
static EvalResult check_barrier(EvalAgent *a, const Granule *g, int64_t granule) {
  if (!(g->flags & GR_BARRIER))
    return EVAL_OK;
  return eval_fault(a, E0469,
                    "an ordinary access to the shared bytes %lld to %lld, where an "
                    "mbarrier is",
                    (long long)granule * GRANULE, (long long)granule * GRANULE + GRANULE - 1);
}

/* Writers of the words of a granule that `bits` touches. */
static EvalResult check_writers(EvalAgent *a, int64_t k, uint16_t bits, bool write) {
  DevBlock *d = dev_block(a);
  const Granule *g = &d->granule[k];
  const Clock *c = &dev_warp(a)->clock;
  for (int i = 0; i < 4; i++) {
    Stamp s = g->flags & GR_WORDS ? d->word_writer[4 * k + i] : g->writer;
    unsigned word = bits >> 4 * i & 15;
    unsigned wrote = g->flags & GR_WORDS ? d->word_bytes[4 * k + i] : 15;
    if (!word || clock_knows(c, s) || (write ? word != 15 : !(word & wrote)))
      continue;
    int64_t at = k * GRANULE + 4 * i;
    uint32_t pc = eval_writer_pc(d, (uint32_t)k);
    return write ? fault_unordered_write(a, at, s, pc) : fault_unordered_read(a, at, s, pc);
  }
  return EVAL_OK;
}

/* One lane's read: inside one warp lanes are in order, so only other warps and engines matter. */
EvalResult eval_shadow_read(EvalAgent *a, int lane, int64_t offset, int n) {
  DevBlock *d = dev_block(a);
  Stamp now = dev_now(a);
  (void)lane;
  for (int64_t k = offset / GRANULE; k * GRANULE < offset + n; k++) {
    Granule *g = &d->granule[k];
    uint16_t bits = bits_of(offset, n, k);
    EvalResult r = check_barrier(a, g, k);
    if (r == EVAL_OK && (g->written & bits) != bits)
      r = eval_fault(a, E0451, "shared bytes from %lld on are read before anything wrote them",
                     (long long)(offset > k * GRANULE ? offset : k * GRANULE));
    if (r == EVAL_OK && !is_atomic(a))
      r = check_writers(a, k, bits, false);
    if (r != EVAL_OK)
      return r;
    for (int i = 0; i < 4; i++)
      if (bits >> 4 * i & 15)
        d->word_reader[4 * k + i] = now;
    g->flags |= GR_READ | GR_WORD_READ;
    d->more[k].read = a->pc;
  }
  return EVAL_OK;
}

/* The instruction that a reader's stamp stands for. Of products the ring still holds the latest. */
static uint32_t reader_pc(const DevBlock *d, uint32_t k, Stamp s) {
  int comp = (int)(s >> 24);
  if (comp < COMP_PRODUCT || comp >= COMP_BULK)
    return d->more[k].read;
  const Warpgroup *w = &d->group[comp - COMP_PRODUCT];
  uint32_t number = s & 0xFFFFFF;
  return number + PRODUCTS > w->issued ? w->product[number % PRODUCTS].pc : UINT32_MAX;
}

/* Readers that may not be done: engines, and threads of other warps. */
static EvalResult check_readers(EvalAgent *a, int64_t k, uint16_t bits) {
  DevBlock *d = dev_block(a);
  const Granule *g = &d->granule[k];
  const Clock *c = &dev_warp(a)->clock;
  for (int i = 0; i < 4; i++)
    if (!clock_knows(c, d->readers[k].by[i]))
      return fault_overwrite(a, k * GRANULE, d->readers[k].by[i],
                             reader_pc(d, (uint32_t)k, d->readers[k].by[i]));
  for (int i = 0; i < 4 && g->flags & GR_WORD_READ; i++)
    if ((bits >> 4 * i & 15) == 15 && !clock_knows(c, d->word_reader[4 * k + i]))
      return fault_overwrite(a, k * GRANULE + 4 * i, d->word_reader[4 * k + i], d->more[k].read);
  return EVAL_OK;
}

/* Drops from the list what other warps have written since, and what stands there twice (seen by
 * its flag, taken away for the time being). */
static void tidy_dirty(EvalAgent *a) {
  DevBlock *d = dev_block(a);
  DevWarp *w = dev_warp(a);
  size_t kept = 0;
  for (size_t i = 0; i < w->ndirty; i++) {
    Granule *g = &d->granule[w->dirty[i]];
    if (!(g->flags & GR_UNFENCED) || d->more[w->dirty[i]].thread / EVAL_WARP != (uint32_t)a->id)
      continue;
    g->flags &= (uint8_t)~GR_UNFENCED;
    w->dirty[kept++] = w->dirty[i];
  }
  for (size_t i = 0; i < kept; i++)
    d->granule[w->dirty[i]].flags |= GR_UNFENCED;
  w->ndirty = kept;
}

/* Notes that the granule has bytes that no fence covers yet. */
static void note_unfenced(EvalAgent *a, int lane, Granule *g, int64_t k) {
  DevBlock *d = dev_block(a);
  DevWarp *w = dev_warp(a);
  GranuleMore *m = &d->more[k];
  bool noted = g->flags & GR_UNFENCED && m->thread / EVAL_WARP == (uint32_t)a->id;
  if (!noted && w->ndirty == d->granules)
    tidy_dirty(a);
  if (!noted)
    w->dirty[w->ndirty++] = (uint32_t)k;
  m->thread = (uint32_t)(a->id * EVAL_WARP + lane);
  g->flags = (uint8_t)((g->flags & ~GR_FENCED) | GR_UNFENCED);
}

/* The latest writer of a word, and which of its bytes: those of one time come together. */
static inline void set_word(DevBlock *d, int64_t word, unsigned bytes, Stamp now) {
  unsigned more = d->word_writer[word] == now ? d->word_bytes[word] : 0;
  d->word_bytes[word] = (uint8_t)(bytes | more);
  d->word_writer[word] = now;
}

/* Whole granules keep one stamp; the four words get their own once one of them is written alone. */
static void set_writer(DevBlock *d, int64_t k, uint16_t bits, Stamp now) {
  Granule *g = &d->granule[k];
  Stamp *word = &d->word_writer[4 * k];
  if (bits == 0xFFFF) {
    g->writer = now;
    g->flags &= (uint8_t)~GR_WORDS;
    return;
  }
  if (!(g->flags & GR_WORDS)) {
    for (int i = 0; i < 4; i++)
      word[i] = g->writer;
    memset(&d->word_bytes[4 * k], 15, 4);
    g->flags |= GR_WORDS;
  }
  for (int i = 0; i < 4; i++)
    if (bits >> 4 * i & 15)
      set_word(d, 4 * k + i, bits >> 4 * i & 15, now);
}

/* One lane's write: after every reader and writer that it replaces; what a load brought is
 * forgotten with it. */
EvalResult eval_shadow_write(EvalAgent *a, int lane, int64_t offset, int n) {
  DevBlock *d = dev_block(a);
  Stamp now = dev_now(a);
  for (int64_t k = offset / GRANULE; k * GRANULE < offset + n; k++) {
    Granule *g = &d->granule[k];
    uint16_t bits = bits_of(offset, n, k);
    EvalResult r = check_barrier(a, g, k);
    if (r == EVAL_OK && !is_atomic(a))
      r = check_readers(a, k, bits);
    if (r == EVAL_OK && !is_atomic(a))
      r = check_writers(a, k, bits, true);
    if (r != EVAL_OK)
      return r;
    set_writer(d, k, bits, now);
    note_unfenced(a, lane, g, k);
    g->written |= bits;
    g->source = 0;
    g->flags &= (uint8_t) ~(GR_TMA | GR_READ);
    d->more[k].wrote = a->pc;
  }
  return EVAL_OK;
}

/* cp.async writes as the lane does, but its bytes are there only once the copy is waited for. */
void eval_shadow_restamp(EvalAgent *a, int64_t offset, int n, Stamp s) {
  for (int64_t k = offset / GRANULE; k * GRANULE < offset + n; k++)
    set_writer(dev_block(a), k, bits_of(offset, n, k), s);
}

/* Lanes that take part have their writes seen to; what the other lanes wrote stays unfenced. */
void eval_shadow_fence(EvalAgent *a) {
  DevBlock *d = dev_block(a);
  DevWarp *w = dev_warp(a);
  size_t kept = 0;
  for (size_t i = 0; i < w->ndirty; i++) {
    Granule *g = &d->granule[w->dirty[i]];
    GranuleMore *m = &d->more[w->dirty[i]];
    bool mine = m->thread / EVAL_WARP == (uint32_t)a->id && g->flags & GR_UNFENCED;
    if (mine && !eval_lane_on(a, (int)(m->thread % EVAL_WARP))) {
      w->dirty[kept++] = w->dirty[i];
    } else if (mine) {
      g->flags = (uint8_t)((g->flags & ~GR_UNFENCED) | GR_FENCED);
      m->fence = w->clock.t[COMP_WARP + a->id];
    }
  }
  w->ndirty = kept;
}

/* ---------------------------------------------------------------- engines */

/* At the place of the load: that is where too much, or from the wrong place, was asked for. */
static EvalResult fault_unread(EvalAgent *a, uint32_t k) {
  return eval_fault_at(a, eval_writer_pc(dev_block(a), k), E0476,
                       "the shared bytes %u to %u that this loads are overwritten before anything "
                       "read them",
                       k * GRANULE, k * GRANULE + GRANULE - 1);
}

/* `last` is the granule that this load looked at before: most of a box is alike, and then the
 * stamps need no second look. */
EvalResult eval_shadow_fill(EvalAgent *a, uint32_t k, Stamp s, Alike *last) {
  DevBlock *d = dev_block(a);
  Granule *g = &d->granule[k];
  uint8_t odd = GR_BARRIER | GR_WORDS | GR_WORD_READ;
  bool alike = !((g->flags | last->flags) & odd) && g->writer == last->writer &&
               memcmp(&d->readers[k], &last->readers, sizeof last->readers) == 0;
  if (!alike) {
    EvalResult r = check_barrier(a, g, k);
    if (r == EVAL_OK)
      r = check_readers(a, k, 0xFFFF);
    if (r == EVAL_OK)
      r = check_writers(a, k, 0xFFFF, true);
    if (r != EVAL_OK)
      return r;
    *last = (Alike){g->flags, g->writer, d->readers[k]};
  }
  if (d->strict && (g->flags & (GR_TMA | GR_READ)) == GR_TMA)
    return fault_unread(a, k);
  g->writer = s;
  g->written = 0xFFFF;
  g->flags = GR_TMA;
  return EVAL_OK;
}

/* Loads leave their instruction in their record, so that a granule need not hold it. */
uint32_t eval_writer_pc(const DevBlock *d, uint32_t k) {
  const Granule *g = &d->granule[k];
  if (!(g->flags & GR_TMA))
    return d->more[k].wrote;
  const Record *r = eval_load_record(d, g);
  return r ? r->pc : UINT32_MAX;
}

/* The asynchronous proxy sees generic writes only after the writer's own fence, and a barrier
 * after that: a fence by the reader does nothing. */
static EvalResult fault_unfenced(EvalAgent *a, uint32_t k, const char *what) {
  char line[48];
  const GranuleMore *m = &dev_block(a)->more[k];
  eval_fault(a, E0468,
             "%s reads the shared bytes %u to %u, written by thread %u (%s), and no "
             "fence_proxy_async of that thread comes between",
             what, k * GRANULE, k * GRANULE + GRANULE - 1, m->thread,
             eval_line(a->block, m->wrote, line, sizeof line));
  eval_fault_hint(a, "fence_proxy_async by the threads that write, then a barrier");
  return EVAL_FAULTED;
}

/* Written, known, fenced: the three things an engine needs of every byte that it reads. */
EvalResult eval_shadow_engine_read(EvalAgent *a, uint32_t k, Stamp s, const char *what) {
  DevBlock *d = dev_block(a);
  Granule *g = &d->granule[k];
  const Clock *c = &dev_warp(a)->clock;
  EvalResult r = EVAL_OK;
  if (g->flags & (GR_BARRIER | GR_WORDS) || !clock_knows(c, g->writer)) {
    r = check_barrier(a, g, k);
    if (r == EVAL_OK)
      r = check_writers(a, k, 0xFFFF, false);
  }
  if (r == EVAL_OK && g->written != 0xFFFF)
    r = eval_fault(a, E0451, "%s reads the shared bytes %u to %u, which nothing wrote", what,
                   k * GRANULE, k * GRANULE + GRANULE - 1);
  if (r == EVAL_OK && g->flags & GR_UNFENCED)
    r = fault_unfenced(a, k, what);
  if (r == EVAL_OK && g->flags & GR_FENCED &&
      !clock_knows(c, stamp(COMP_WARP + (int)(d->more[k].thread / EVAL_WARP), d->more[k].fence)))
    r = fault_unfenced(a, k, what);
  if (r != EVAL_OK)
    return r;
  d->readers[k].by[reader_slot(s)] = s;
  g->flags |= GR_READ;
  d->more[k].read = a->pc;
  return EVAL_OK;
}

/* ---------------------------------------------------------------- the hooks of LOAD and STORE */

/* What the lanes of one access share. */
typedef struct Access {
  DevBlock *d;
  const Clock *clock;
  Stamp now;
  uint32_t thread, pc; /* thread of lane 0 */
  int n;               /* bytes */
  bool atomic;
} Access;

/* Reads within a word, by what is known to this warp: no report needed. */
static inline bool read_quickly(const Access *x, int64_t offset) {
  DevBlock *d = x->d;
  int64_t word = offset >> 2;
  Granule *g = &d->granule[word >> 2];
  unsigned bits = ((1u << x->n) - 1) << (offset & 15);
  Stamp writer = g->flags & GR_WORDS ? d->word_writer[word] : g->writer; /* of any byte of it */
  if (g->flags & GR_BARRIER || (g->written & bits) != bits || !clock_knows(x->clock, writer))
    return false;
  d->word_reader[word] = x->now;
  g->flags |= GR_READ | GR_WORD_READ;
  d->more[word >> 2].read = x->pc;
  return true;
}

/* Writes within a word that this warp was the last to write, or that it knows to be free. Only
 * where the granule is already told apart by words and noted as not fenced. */
static inline bool write_quickly(const Access *x, int lane, int64_t offset) {
  DevBlock *d = x->d;
  int64_t word = offset >> 2;
  Granule *g = &d->granule[word >> 2];
  const Readers *r = &d->readers[word >> 2];
  GranuleMore *m = &d->more[word >> 2];
  uint8_t odd = GR_BARRIER | GR_WORDS | GR_UNFENCED | GR_TMA;
  if ((g->flags & odd) != (GR_WORDS | GR_UNFENCED) || r->by[0] | r->by[1] | r->by[2] | r->by[3] ||
      m->thread >> 5 != x->thread >> 5 || !clock_knows(x->clock, d->word_writer[word]) ||
      (g->flags & GR_WORD_READ && !clock_knows(x->clock, d->word_reader[word])))
    return false;
  set_word(d, word, ((1u << x->n) - 1) << (offset & 3), x->now);
  m->thread = x->thread + (uint32_t)lane;
  m->wrote = x->pc;
  g->flags &= (uint8_t) ~(GR_FENCED | GR_READ);
  g->written |= (uint16_t)(((1u << x->n) - 1) << (offset & 15));
  g->source = 0;
  return true;
}

/* The hook's work by lane: the common cases in line, the others by the functions above, which
 * also say what is wrong. */
static EvalResult check_lanes(EvalAgent *a, const int64_t *offset, int bytes, bool write) {
  const Access x = {
      dev_block(a), &dev_warp(a)->clock, dev_now(a), (uint32_t)(a->id * EVAL_WARP), a->pc,
      bytes,        is_atomic(a)};
  bool small = bytes <= 4 && !x.atomic;
  int64_t same = -1; /* read by the lane before */
  for (int i = 0; i < EVAL_WARP; i++) {
    if (!eval_lane_on(a, i) || (offset[i] == same && !write))
      continue;
    same = offset[i];
    if (small && (write ? write_quickly(&x, i, offset[i]) : read_quickly(&x, offset[i])))
      continue;
    EvalResult r = write ? eval_shadow_write(a, i, offset[i], bytes)
                         : eval_shadow_read(a, i, offset[i], bytes);
    if (r != EVAL_OK)
      return r;
  }
  return EVAL_OK;
}

/* Places first, for all lanes, so that a fault leaves memory and shadow as they were. */
EvalResult eval_device_shared(EvalAgent *a, const int64_t *offset, int bytes, bool write) {
  const DevBlock *d = dev_block(a);
  uint64_t last = d->bytes >= (size_t)bytes ? d->bytes - (size_t)bytes : 0;
  if (d->counting)
    eval_count_banks(a, offset, bytes);
  for (int i = 0; i < EVAL_WARP; i++) {
    bool fits = (uint64_t)offset[i] <= last && !(offset[i] & (bytes - 1)) && d->bytes;
    if (!fits && eval_lane_on(a, i) && eval_shared_place(a, offset[i], bytes, bytes) != EVAL_OK)
      return EVAL_FAULTED;
  }
  return d->check ? check_lanes(a, offset, bytes, write) : EVAL_OK;
}

/* ---------------------------------------------------------------- counters */

/* Lanes go in groups of 128 bytes; a wavefront serves one word a bank, equal words at once. */
void eval_count_banks(EvalAgent *a, const int64_t *offset, int bytes) {
  int width = bytes < 4 ? 4 : bytes, group = 128 / width;
  EvalCounters *n = &a->block->counters;
  n->shared_accesses++;
  group = group < 1 ? 1 : group > EVAL_WARP ? EVAL_WARP : group;
  for (int first = 0; first < EVAL_WARP; first += group) {
    int64_t word[EVAL_WARP * 4];
    uint8_t load[32] = {0}, worst = 0;
    int seen = 0;
    for (int i = first; i < first + group; i++) {
      for (int b = 0; eval_lane_on(a, i) && b < width; b += 4) {
        int64_t x = (offset[i] + b) / 4;
        bool old = false;
        for (int j = 0; j < seen && !old; j++)
          old = word[j] == x;
        if (old)
          continue;
        word[seen++] = x;
        load[x & 31]++;
        worst = load[x & 31] > worst ? load[x & 31] : worst;
      }
    }
    n->bank_conflicts += worst ? worst - 1u : 0;
  }
}

/* Sectors of 32 bytes are what the memory system moves: lanes that share one count once. */
EvalResult eval_device_global(EvalAgent *a, const EvalMem *mem, const int64_t *element,
                              bool write) {
  int64_t seen[EVAL_WARP];
  int n = 0;
  (void)write;
  if (!dev_block(a)->counting)
    return EVAL_OK;
  for (int i = 0; i < EVAL_WARP; i++) {
    int64_t sector = element[i] * (int64_t)mem->size / 32;
    bool old = !eval_lane_on(a, i);
    for (int j = 0; j < n && !old; j++)
      old = seen[j] == sector;
    if (!old)
      seen[n++] = sector;
  }
  a->block->counters.sectors += (uint64_t)n;
  return EVAL_OK;
}
