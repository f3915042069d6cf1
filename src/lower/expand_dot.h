/* expand_dot.h: products by the tensor cores of each warp; what its two files share. Private.
 *
 * expand_dot.c: which products, who has which part of the result, the steps of K; expand_operand.c:
 * operands on their way to registers.
 */
#ifndef TILESH_LOWER_EXPAND_DOT_H
#define TILESH_LOWER_EXPAND_DOT_H

#include "expand.h"

enum { MMA_ROWS = 16, MMA_COLUMNS = 8 }; /* of a result that one step adds to: 4 registers */
/* Words of operands a thread that may wait for the next step, beside everything else. */
enum { MMA_AHEAD = 48 };

/* Threads of a warp along rows and columns of a result that no tensor core computes. */
enum { FMA_LANE_ROWS = 4, FMA_LANE_COLUMNS = 8 };

/* How operands of a dtype are multiplied. */
typedef struct MmaKind {
  DType type;     /* of the instruction */
  int step;       /* elements of K that it takes */
  int each;       /* neighbours along K in a register */
  int na, nb;     /* registers of 16 rows of A, of 8 columns of B */
  bool converted; /* f8 multiplied as f16, which holds all of them: element by element … */
  bool by_words; /* … or four at a time, in two instructions of 16 of K; e4m3 by 2^-8 too small */
} MmaKind;

typedef struct Mma {
  Simple *s;
  const IrDot *d;
  MmaKind kind;
  FragPairs pairs;    /* of the result */
  IrExpr *pick[2];    /* u32: bytes of two words that are a pair's first, and second, word */
  int rows, columns;  /* of warps */
  int64_t mg, ng, kg; /* blocks of 16 rows, of 8 columns of a warp; steps of K */
  IrExpr *lane, *row0, *col0; /* i32: the lane; where the warp's part of the result begins */
  IrBuffer *a, *b, *c;        /* registers of operands, step after step; of what is added to */
} Mma;

/* Rows and columns of warps that share out a product's result: the shape that loads the least;
 * FALSE where none fits. whole_rows: each warp has whole rows. */
bool mma_split_warps(const IrDot *d, int warps, bool whole_rows, int *rows, int *columns);
/* The same of a result without tensor cores, of extent[0] x extent[1], each thread of which has
 * width[0] rows, and width[1] columns, next to each other. */
bool fma_split_warps(int warps, bool whole_rows, const int64_t *extent, const int64_t *width,
                     int64_t *rows, int64_t *columns);
/* Loop over unrolled rounds, entered. */
IrExpr *mma_unrolled(Simple *s, const char *name, int64_t n, int64_t by);
/* Whether an operand is a part of a tile that is known to lie in it. */
bool mma_operand_ok(Simple *s, const IrRegion *r);
/* Whether ldmatrix brings an operand as the instruction wants it. */
bool mma_by_matrix(Simple *s, const MmaKind *kind, const IrRegion *r, bool first);
/* Whether an operand whose neighbours do not lie along K comes in pairs of them, as the result's
 * layout then has to have them. */
bool mma_by_pairs(Simple *s, const MmaKind *kind, const IrRegion *r, bool first);
/* What mma_load needs once. */
void mma_prepare(Mma *m);
/* The warp's operands of one step, i32, into m->a and m->b. */
void mma_load(Mma *m, IrExpr *step);

/* A product in rounds, one step's operands ahead: those of a round's first step (mma_load of 0)
 * come before mma_finish of the round before. False: it cannot be so. */
bool mma_begin_ahead(Simple *s, const IrDot *d, Mma *m);
void mma_run(Mma *m);    /* a round but its last products; reads all of its operands */
void mma_finish(Mma *m); /* its last products */

#endif
