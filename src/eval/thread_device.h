/* thread_device.h: what a block of threads has besides registers; private to thread_*.c.
 *
 * The machine runs warps as agents; here are the devices behind the THREAD rows of ops.def: shared
 * memory with its shadow, barriers, the copy engine, the products of warpgroups. Data move when an
 * operation is issued, registers change when a product is waited for, and the shadow tells, without
 * any luck of timing, whether the program's waits and barriers order what it does:
 *
 * Who knows what is a vector clock a warp. Its components are warps (their releases), and the
 * asynchronous engines: products of a warpgroup, bulk stores and cp.async of a warp, phases of
 * named barriers and of mbarriers. A stamp {component, time} on a piece of shared memory says by
 * what it was written or may still be read; an access is ordered if the accessing warp's clock has
 * reached the stamp. Barriers carry clocks from those that arrive to those that wait. Tests:
 * tests/unit/check_thread*.c, tests/mutants.
 */
#ifndef TILESH_EVAL_THREAD_DEVICE_H
#define TILESH_EVAL_THREAD_DEVICE_H

#include "program.h"

enum {
  MOST_WARPS = 32,
  MOST_GROUPS = 8, /* warpgroups of 4 warps */
  MOST_NAMED = 16,
  MOST_MBARS = 128,
  GRANULE = 16, /* bytes */
  /* components of a clock */
  COMP_WARP = 0,
  COMP_PRODUCT = COMP_WARP + MOST_WARPS,
  COMP_BULK = COMP_PRODUCT + MOST_GROUPS,
  COMP_CP = COMP_BULK + MOST_WARPS,
  COMP_NAMED = COMP_CP + MOST_WARPS,
  COMP_MBAR = COMP_NAMED + MOST_NAMED,
  COMPS = 256
};
_Static_assert(COMP_MBAR + MOST_MBARS <= COMPS, "a component is one byte of a stamp");

typedef struct Clock {
  uint32_t t[COMPS];
} Clock;

/* A component in the upper 8 bits, a time of it in the lower 24. 0 is known to everyone. */
typedef uint32_t Stamp;

static inline Stamp stamp(int comp, uint32_t time) {
  return (uint32_t)comp << 24 | (time < 0xFFFFFF ? time : 0xFFFFFF);
}
static inline bool clock_knows(const Clock *c, Stamp s) {
  return c->t[s >> 24] >= (s & 0xFFFFFF);
}
static inline void clock_learn(Clock *c, Stamp s) {
  if (c->t[s >> 24] < (s & 0xFFFFFF))
    c->t[s >> 24] = s & 0xFFFFFF;
}
static inline void clock_join(Clock *into, const Clock *from) {
  for (int i = 0; i < COMPS; i++)
    into->t[i] = into->t[i] < from->t[i] ? from->t[i] : into->t[i];
}

/* ---------------------------------------------------------------- shared memory */

enum {                   /* Granule.flags */
       GR_BARRIER = 1,   /* some of it is an mbarrier: no ordinary access */
       GR_READ = 2,      /* something read it since it was written */
       GR_TMA = 4,       /* the copy engine wrote it */
       GR_UNFENCED = 8,  /* written by threads; no proxy fence since */
       GR_FENCED = 16,   /* written by threads, fenced at `fence` of their warp */
       GR_WORDS = 32,    /* writers differ by word: DevBlock.word_writer */
       GR_WORD_READ = 64 /* DevBlock.word_reader holds something */
};

/* 16 bytes of shared memory as the shadow sees them: what every access looks at. */
typedef struct Granule {
  Stamp writer;
  uint16_t written; /* a bit a byte */
  uint8_t flags;
  uint8_t source; /* tensor map it was loaded by, plus 1; 0: not known */
  uint32_t load;  /* then: serial number of the load */
  int32_t origin; /* … and offset in the tensor of its first byte, in 16 bytes, inside or not */
} Granule;

/* What few accesses look at. */
typedef struct GranuleMore {
  uint32_t thread;      /* last thread that wrote it */
  uint32_t fence;       /* time of the writing warp at its fence */
  uint32_t wrote, read; /* by threads, by bulk stores: the instruction, for reports */
} GranuleMore;

typedef struct Readers { /* asynchronous: products by warpgroup, bulk stores */
  Stamp by[4];
} Readers;

/* ---------------------------------------------------------------- barriers, engines */

typedef struct NamedBarrier {
  int arrived, expected; /* threads */
  uint32_t phase;        /* completed ones */
  uint32_t members;      /* warps that arrived in this phase */
  Clock gathered, done;
} NamedBarrier;

typedef struct Mbar {
  uint32_t address; /* byte offset */
  int count, pending;
  int64_t bytes;     /* still to come in this phase */
  int64_t expected;  /* announced in this phase */
  uint32_t phase;    /* completed ones */
  int loads;         /* issued in this phase and not complete */
  int64_t under_way; /* bytes of these */
  bool fenced;       /* its initialisation is visible to the copy engine */
  int warp;          /* that initialised it */
  Stamp made;
  Clock gathered, done;
} Mbar;

/* A box of a tensor and its place in shared memory. */
typedef struct Box {
  const EvalTmap *map;
  int64_t at[5];  /* coordinates of its first element */
  int64_t shared; /* byte offset */
  int64_t size;   /* bytes of an element */
  int64_t inner;  /* bytes of a row */
  int64_t rows;
  int64_t bits; /* swizzle: the 16-byte chunk's number ^= offset >> 7 & bits */
} Box;

typedef struct Record { /* of a load, for who asks where bytes came from */
  Box box;
  uint32_t serial, pc;
} Record;

typedef struct Load { /* of the copy engine, under way */
  int mbar;
  int warp;
  int64_t bytes;
  uint32_t phase; /* of the barrier when it was issued */
  uint32_t pc;
} Load;

typedef struct Store { /* bulk store whose reading was not waited for */
  int warp, lane;
  uint32_t time;  /* of COMP_BULK + warp */
  uint32_t group; /* of the lane, from 1; 0: not committed */
  uint32_t pc;
} Store;

enum { PRODUCTS = 64, NEEDS = 8, GROUP_RING = 64, LOADS = 1024, STORES = 512, RECORDS = 256 };

typedef struct Product { /* one wgmma of a warpgroup */
  bool from_registers;
  bool scale_d, trans_a, trans_b;
  DType type;
  int n;
  uint64_t a, b; /* descriptors */
  float *d[4];   /* accumulators, by warp of the group */
  const uint32_t *fragment[4];
  int issued; /* bit a warp */
  uint32_t pc;
  Stamp needs[NEEDS]; /* writers of the operands, for the warps that come later */
  int nneeds;
  uint32_t load[2]; /* boxes that A and B begin in; 0: not known */
  int32_t k[2];     /* their k there */
} Product;

typedef struct Warpgroup {
  Product product[PRODUCTS]; /* by number modulo PRODUCTS */
  uint32_t issued, done;     /* numbers: issued by some warp, computed */
} Warpgroup;

typedef struct RegisterState {
  uint32_t product;  /* last product that writes it */
  uint32_t fragment; /* last product that reads it as A */
  uint32_t touched;  /* DevWarp.touches when ordinary code last touched it */
} RegisterState;

typedef enum WaitKind {
  WAIT_NOTHING,
  WAIT_MBAR,
  WAIT_NAMED,
  WAIT_PRODUCT,
  WAIT_REGISTERS
} WaitKind;

typedef struct DevWarp {
  Clock clock;
  EvalArray *array;
  int narrays;
  int registers;            /* a thread, setmaxnreg */
  uint32_t touches;         /* counts accesses of registers by ordinary code … */
  uint32_t fenced;          /* … up to here a wgmma_fence has seen them */
  uint32_t product, waited; /* numbers: issued by this warp, known complete */
  uint32_t group_end[GROUP_RING];
  uint32_t groups; /* committed */
  uint32_t bulk_time, cp_time;
  uint32_t bulk_group[32], cp_group[32]; /* committed, by lane */
  uint32_t cp_end[32][16]; /* cp_time at the end of a lane's group, by group modulo 16 */
  uint32_t *dirty;         /* granules written and not fenced */
  size_t ndirty;
  bool arrived; /* at the named barrier that it waits for */
  uint32_t named_phase;
  WaitKind wait;    /* what it is blocked on, for the deadlock report */
  int wait_at;      /* mbarrier or named barrier */
  int64_t wait_for; /* parity, registers */
} DevWarp;

/* Elements of a batch of products: A of 64 x 256, B (eval_products_run keeps to it; one step of f8
 * is 32 x 256), C of 64 x 256. */
enum { PANEL_A = 64 * 256, PANEL_B = 16384, PANEL_C = 64 * 256 };

typedef struct DevBlock {
  bool check;  /* shadow state on */
  bool strict; /* CHECKS_ALL: also what is legal but surely not meant */
  bool counting;
  size_t bytes, granules;
  Granule *granule;
  GranuleMore *more;
  Readers *readers;
  Stamp *word_writer, *word_reader; /* four a granule */
  uint8_t *word_bytes;              /* bits of a word's bytes that its writer wrote */
  uint8_t *mbar_at;                 /* by 8 bytes: barrier's number plus 1 */
  Mbar *mbar;
  int nmbars;
  NamedBarrier named[MOST_NAMED];
  Warpgroup *group; /* MOST_GROUPS at most, as many as the block has */
  Load load[LOADS]; /* ring */
  uint32_t load_first, load_end;
  Store store[STORES];
  int nstores;
  int free_registers;
  bool *tmap_checked; /* by tensor map id */
  uint32_t serial;    /* of loads */
  Record *record;     /* of the last RECORDS loads, by serial number */
  uint16_t *raw;      /* panels of a batch of products, PANEL_A + PANEL_B … */
  float *panel;       /* … + PANEL_C elements */
} DevBlock;

static inline DevBlock *dev_block(const EvalAgent *a) {
  return a->block->device;
}
static inline DevWarp *dev_warp(const EvalAgent *a) {
  return a->device;
}
static inline DevWarp *dev_warp_of(const EvalBlock *b, int warp) {
  return b->agent[warp].device;
}
/* The warp's clock as a stamp on what it does now. */
static inline Stamp dev_now(const EvalAgent *a) {
  return stamp(COMP_WARP + a->id, dev_warp(a)->clock.t[COMP_WARP + a->id]);
}

/* ---------------------------------------------------------------- thread_report.c */

/* A fault whose place is instruction `pc`, of block b. */
EvalResult eval_fault_at(EvalAgent *a, uint32_t pc, DiagCode code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* "line 61" of an instruction, into a buffer; "an earlier operation" where it has no source. */
const char *eval_line(const EvalBlock *b, uint32_t pc, char *out, size_t size);
/* Blocks, noting why. */
EvalResult eval_blocked(EvalAgent *a, WaitKind kind, int at, int64_t what);
/* Faults unless all lanes take part. */
EvalResult eval_whole_warp(EvalAgent *a, const char *what);

/* ---------------------------------------------------------------- thread_shadow.c */

/* An access of threads to n bytes at a shared offset by lane `lane`; checks bounds, order, and
 * that what is read was written. Granules written are noted as not yet fenced. */
EvalResult eval_shadow_read(EvalAgent *a, int lane, int64_t offset, int n);
EvalResult eval_shadow_write(EvalAgent *a, int lane, int64_t offset, int n);
/* A granule filled by the copy engine, stamped with what its readers must wait for. */
typedef struct Alike {
  uint8_t flags;
  Stamp writer;
  Readers readers;
} Alike;
EvalResult eval_shadow_fill(EvalAgent *a, uint32_t granule, Stamp s, Alike *last);
/* A granule read by an engine (product, bulk store), which is done once `s` is known. */
EvalResult eval_shadow_engine_read(EvalAgent *a, uint32_t granule, Stamp s, const char *what);
/* Which of Readers.by an engine's stamps go to. */
static inline int reader_slot(Stamp s) {
  int comp = (int)(s >> 24);
  return comp >= COMP_BULK ? 3 : (comp - COMP_PRODUCT) % 3;
}
/* The common case in line: all of the granule was written by what wrote the one before. */
static inline bool shadow_engine_quick(DevBlock *d, int64_t k, Stamp s, Stamp known) {
  Granule *g = &d->granule[k];
  uint8_t odd = GR_BARRIER | GR_WORDS | GR_UNFENCED | GR_FENCED;
  if (g->writer != known || g->flags & odd || g->written != 0xFFFF)
    return false;
  d->readers[k].by[reader_slot(s)] = s;
  g->flags |= GR_READ;
  return true;
}
/* The instruction that wrote a granule. */
uint32_t eval_writer_pc(const DevBlock *d, uint32_t granule);
/* Bytes just written by eval_shadow_write get another stamp. */
void eval_shadow_restamp(EvalAgent *a, int64_t offset, int n, Stamp s);
/* Granules that this warp's lanes wrote are fenced now. */
void eval_shadow_fence(EvalAgent *a);
/* Bytes of a shared offset: inside, aligned. */
EvalResult eval_shared_place(EvalAgent *a, int64_t offset, int64_t n, int64_t alignment);
/* Counts the wavefronts of an access of `bytes` a lane (4, 8, 16 …). */
void eval_count_banks(EvalAgent *a, const int64_t *offset, int bytes);

/* ---------------------------------------------------------------- thread_wgmma.c, thread_desc.c */

/* Registers first … first + count - 1 touched by ordinary code. */
EvalResult eval_touch(EvalAgent *a, EvalArray *array, int first, int count, bool write);

/* One operand of a product in shared memory, decoded. */
typedef struct DescMatrix {
  bool trans;    /* contiguous along rows (M or N) instead of k */
  int rows;      /* 64, or N */
  int64_t start; /* byte offset, relative to shared memory */
  int64_t leading, stride;
  int span; /* bytes of the swizzle; 0: none */
  int base; /* base offset field */
} DescMatrix;
void eval_desc_decode(uint64_t desc, int rows, bool trans, DescMatrix *m);
/* Byte offset of the 16-byte chunk: trans 0: row r, k from 8c; trans 1: k row r, rows from 8c.
 * Swizzles XOR bits 4… with bits 7… of the final address, counted from where the pattern starts
 * (the base offset); the base of shared memory is a multiple of every pattern. Without a swizzle:
 * 8x8 matrices of 128 bytes, and for trans the two strides change places. */
static inline int64_t eval_desc_chunk(const DescMatrix *m, int r, int c) {
  if (!m->span)
    return m->start + (r / 8) * (m->trans ? m->leading : m->stride) + (r % 8) * 16 +
           c * (m->trans ? m->stride : m->leading);
  int64_t at = m->start + (r / 8) * m->stride + (int64_t)(r % 8) * m->span;
  int panel = m->trans ? m->span / 16 : 2; /* chunks of one pattern */
  at += c / panel * m->leading + c % panel * 16;
  return at ^ (((at >> 7) - m->base) & (m->span / 16 - 1)) << 4;
}
/* Chunks of one m64nNk16: *rows by *chunks. */
static inline void desc_shape(const DescMatrix *m, int *rows, int *chunks) {
  *rows = m->trans ? 16 : m->rows;
  *chunks = m->trans ? m->rows / 8 : 2;
}
/* Computes products up to number `last` of a warpgroup. */
void eval_products_run(EvalBlock *b, int group, uint32_t last);

/* ---------------------------------------------------------------- thread_mbar.c, thread_tma.c */

Mbar *eval_mbar_find(EvalAgent *a, int64_t offset);
/* Ends the phase if everything is in. `pc` and a: who made it so. */
EvalResult eval_mbar_settle(EvalAgent *a, Mbar *m, uint32_t pc);
/* The oldest load (shaken: any) is complete; false: none is under way. */
bool eval_load_complete(EvalBlock *b);
/* The record of the load that filled a granule; NULL where that is not known any more. */
const Record *eval_load_record(const DevBlock *d, const Granule *g);
/* Coordinates of a granule of a loaded box: along the second axis of the tensor, or along the first
 * (with panels that divide a row folded in). */
int64_t eval_box_coordinate(const Box *x, int64_t granule, bool second);
/* Whether n >= 1 elements from a memory offset on lie between the first and last of `mem`. */
bool eval_global_inside(const EvalMem *mem, int64_t first, int64_t n);
/* Marks elements from a memory offset on as written (0 or more were before, in this launch, by a
 * bulk store: then false). */
bool eval_global_written(const EvalMem *mem, int64_t element);
bool eval_mark_global(const EvalMem *mem, int64_t element, int64_t n, bool bulk);

/* ---------------------------------------------------------------- the rows, for thread_table.c */

#define EVAL_ROW(name) EvalResult eval_row_##name(EvalAgent *a, const EvalOperand *o, int n)
EVAL_ROW(syncthreads);
EVAL_ROW(nothing);
EVAL_ROW(bar_sync);
EVAL_ROW(bar_arrive);
EVAL_ROW(shfl_xor);
EVAL_ROW(shfl_idx);
EVAL_ROW(shfl_up);
EVAL_ROW(shfl_down);
EVAL_ROW(vote_any);
EVAL_ROW(vote_all);
EVAL_ROW(ld_shared);
EVAL_ROW(st_shared);
EVAL_ROW(ld_global);
EVAL_ROW(st_global);
EVAL_ROW(cp_async);
EVAL_ROW(cp_async_commit);
EVAL_ROW(cp_async_wait);
EVAL_ROW(ldmatrix);
EVAL_ROW(ldmatrix_t);
EVAL_ROW(stmatrix);
EVAL_ROW(stmatrix_t);
EVAL_ROW(mma_sync);
EVAL_ROW(mbar_init);
EVAL_ROW(mbar_fence_init);
EVAL_ROW(mbar_expect_tx);
EVAL_ROW(mbar_arrive);
EVAL_ROW(mbar_wait);
EVAL_ROW(tma_prefetch);
EVAL_ROW(tma_load);
EVAL_ROW(tma_store);
EVAL_ROW(bulk_commit);
EVAL_ROW(bulk_wait);
EVAL_ROW(fence_proxy_async);
EVAL_ROW(wgmma_fence);
EVAL_ROW(wgmma_ss);
EVAL_ROW(wgmma_rs);
EVAL_ROW(wgmma_commit);
EVAL_ROW(wgmma_wait);
EVAL_ROW(setmaxnreg_inc);
EVAL_ROW(setmaxnreg_dec);
EVAL_ROW(fault);

/* thread_mma.c: the types that tensor cores multiply (f32: as tf32); n elements of one to the cells
 * of the product's kernel; the product. */
bool eval_mma_takes(DType t);
void eval_mma_unpack(DType t, const void *raw, float *out, size_t n);
void eval_mma_multiply(const EvalBlock *b, DType t, EvalTile *x);

#endif
