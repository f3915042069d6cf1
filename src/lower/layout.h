/* layout.h: which thread and which register hold which element of a tile. Private.
 *
 * A fragment's layout counts in digits: the number of a thread, and that of a register, are written
 * in mixed radix, and each digit adds its multiple of a step to the coordinate along one axis. So
 * the accumulators of mma and wgmma, operands in registers and rows of vectors are one type.
 * Coordinates beyond the tile's extent are dead elements: computed by nobody's wish, never stored,
 * the identity in reductions. A thread digit of no axis means copies: these threads hold the same.
 * Tests: tests/unit/check_layout.c.
 */
#ifndef TILESH_LOWER_LAYOUT_H
#define TILESH_LOWER_LAYOUT_H

#include "ir/ir.h"

enum { FRAG_DIGITS = 12 };

typedef struct FragDigit {
  int axis;       /* of the tile; -1: none (copies) */
  int64_t extent; /* the digit is 0 to extent - 1 */
  int64_t step;   /* elements along the axis, each */
} FragDigit;

typedef struct Frag {
  int rank;
  int64_t extent[IR_MAX_RANK]; /* of the tile */
  int nreg, nthread;
  FragDigit reg[FRAG_DIGITS];    /* lowest digit first */
  FragDigit thread[FRAG_DIGITS]; /* lowest digit first; their product is the number of threads */
} Frag;

/* Adds a digit above the last one; neighbours that continue each other become one. */
void frag_push(FragDigit *v, int *n, FragDigit d);
int64_t frag_registers(const Frag *f); /* of each thread */
int64_t frag_threads(const Frag *f);
/* Threads from one value of the i-th digit to the next. */
int64_t frag_thread_stride(const Frag *f, int i);
/* First coordinate past what the digits reach along an axis: more than the extent where some
 * elements are dead. */
int64_t frag_reach(const Frag *f, int axis);
/* Elements next to each other in a thread's registers along an axis: a power of two. */
int64_t frag_run(const Frag *f, int axis);
bool frag_copies(const Frag *f); /* whether several threads hold the same */
bool frag_equal(const Frag *a, const Frag *b);

/* The layout of a tile whose axis d has the coordinates of f's axis from[d] (-1: one element):
 * digits of other axes go: registers are dropped, threads become copies. */
Frag frag_project(const Frag *f, int rank, const int *from, const int64_t *extent);

/* Rows of vectors: `width` elements next to each other along `axis` in a thread's registers, then
 * neighbouring threads, so that a warp's access is contiguous; the other axes over the remaining
 * threads, the last one fastest. Digits are powers of two; threads beyond one hold copies. */
Frag frag_rows(int rank, const int64_t *extent, int axis, int64_t width, int threads);
/* The same with at most `lanes` threads along the vectors' axis. */
Frag frag_rows_of(int rank, const int64_t *extent, int axis, int64_t width, int threads,
                  int64_t lanes);

/* The f32 accumulator of m16n8 tiles over rows x columns of warps, [m, n]: thread's registers are
 * the pair of columns, the row + 8, then groups of 8 columns, then of rows. What mma.sync and (one
 * column of warps, the warp's rows 16 apart) wgmma m64nN write. FALSE where it does not fit. */
bool frag_accumulator(Frag *f, int64_t m, int64_t n, int row_warps, int column_warps);

/* Neighbours that one thread gets of an operand at once: rows of its result, columns. */
typedef struct FragPairs {
  bool rows, columns;
} FragPairs;
/* The same with neighbours in the place of what lies 8 apart: rows r and r + 8 of an instruction
 * are neighbours; columns c of two instructions are. A thread's registers then are four columns in
 * a row, the other row, then groups of 16 columns, then of rows. */
bool frag_paired(Frag *f, int64_t m, int64_t n, int row_warps, int column_warps, FragPairs pairs);

/* The accumulator of a warpgroup's product whose first operand turns from shared memory to
 * registers (hopper_turned.c): the instruction's rows lie along `axis` of [m, n], 64 to each of
 * `groups`; rows r and r + 8 of it are neighbours. wide: of elements of four bytes. FALSE where it
 * does not fit. */
bool frag_turned(Frag *f, int64_t m, int64_t n, int axis, int groups, bool wide);
/* How far along `axis` bit i, 0 to 4, of the thread's number behind its two lowest reaches there:
 * three bits of the lane, two of the warp. */
int64_t frag_turned_step(int i, bool wide);

/* "thread 8:1:4 32:0:1 …", for :explain: extent, axis, step of each digit. */
void frag_print(const Frag *f, Str *out);

#endif
