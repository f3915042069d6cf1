/* hopper.h: what the expansion of a Hopper schedule knows while it goes over the roles. Private.
 *
 * hopper.c: roles, the loop over tiles, rings of barriers, waits; hopper_tma.c: tensor maps, loads,
 * staged stores; hopper_wgmma.c: products of a warpgroup. Each takes statements of expand.h's
 * dispatch and only in kernels that have channels.
 * Shared memory: rings of tiles first, in multiples of 1024 bytes, behind all tiles the barriers.
 */
#ifndef TILESH_LOWER_HOPPER_H
#define TILESH_LOWER_HOPPER_H

#include "expand.h"
#include "sched.h"

typedef struct HopperRing { /* a channel, as the role in hand sees it */
  int64_t full, empty;      /* byte offsets of the barriers of stage 0 */
  IrVar *stage, *phase;     /* i32 variables of the role */
} HopperRing;

/* An operand in registers that MAPs make by rounding another fragment: it lies as words. */
typedef struct HopperCast {
  const IrBuffer *operand;
  IrBuffer *words; /* u32, two elements each */
} HopperCast;

typedef struct Hopper {
  HopperRing *ring; /* by channel id */
  int groups;       /* warpgroups that compute */
  int named;        /* the named barrier of the first of them alone */
  IrVar *group;     /* i32: which of them this is; NULL: the producer */
  IrVar *first;     /* bool: the first thread of its warpgroup */
  Turned turned;    /* operand of the product that goes through registers: each warp releases
                       stages, since its own loads read them */
  VEC(HopperCast) casts;
  const IrBlock
      *product; /* where the last wgmma stands: behind it no warp is far from the others */
} Hopper;

/* Warpgroups of the role that computes; 0: the kernel has no such roles. */
int hopper_groups(const IrKernel *k);
/* Whether a tile is a ring's, or stages results for the tensor memory accelerator: the program's
 * other shared tiles are as they are anywhere. */
bool hopper_owns(const IrKernel *k, const IrBuffer *tile);
/* Bytes of one stage of a swizzled tile as boxes fill it. */
int64_t hopper_matrix_bytes(const IrBuffer *b);
/* Bytes that a shared tile takes in such a kernel, all stages together. */
int64_t hopper_tile_bytes(const IrBuffer *b);

/* A role of the author's that copies by TMA (then one thread is in it) or multiplies with wgmma;
 * FALSE: neither, and nothing is opened. The caller enters *before again and forgets s->hopper. */
bool hopper_open_author(Simple *s, IrRoleBody *r, IrBlock **before);

/* The whole block multiplies with wgmma, in one role. */
void hopper_open_block(Simple *s);

/* How many threads arrive for each arrival that the program counts at a barrier: one of each
 * warpgroup, where one role that multiplies with wgmma is all that arrives; else 1. */
int hopper_arrivals(const IrKernel *k, const IrBuffer *barrier);
/* One thread of each warpgroup arrives; FALSE: it is not that kind of barrier. */
bool hopper_arrive(Simple *s, const IrAccess *a);

/* Hooks: true where they took the statement. */
bool hopper_roles(Simple *s, IrStmt *st);
bool hopper_tile_loop(Simple *s, IrStmt *st);
bool hopper_alloc(Simple *s, IrStmt *st);
bool hopper_channel(Simple *s, IrStmt *st); /* CHANNEL and the four operations */
bool hopper_wait(Simple *s, IrStmt *st);    /* DOT_WAIT, STORE_WAIT, SYNC */
bool hopper_copy(Simple *s, IrStmt *st);
bool hopper_dot(Simple *s, IrStmt *st);
bool hopper_map(Simple *s, IrStmt *st);

/* hopper_cast.c: finds the operands of a role's products that can lie as words, before its
 * statements are expanded; the words of an operand, or NULL. */
void hopper_find_casts(Simple *s, IrBlock *b);
IrBuffer *hopper_words(const Simple *s, const IrBuffer *operand);
/* Rounds pairs of registers to words of a 16-bit type. */
void hopper_pack(Simple *s, DType t, IrBuffer *from, IrBuffer *words);

/* hopper_wgmma.c: the layout of a product's result, or of its first operand in registers; FALSE
 * where none fits. */
bool hopper_frag(const IrDot *d, const IrBuffer *side, int groups, Frag *f);

/* hopper_turned.c: an operand that lies across, as words: four registers for each of `blocks` of 64
 * rows and, in it, each of `steps` of K by 32 bytes. */
IrBuffer *hopper_load_turned(Simple *s, const IrRegion *r, int64_t blocks, int64_t steps);
/* A fragment that lies as the transpose of a product into a staging tile, whose panels of
 * TURNED_COLUMNS are the warpgroups'; FALSE: it does not lie so. */
bool hopper_stage_turned(Simple *s, const IrCopy *c);

/* hopper_tma.c: two neighbours in a staging tile's row at address `at`, from register `first` and
 * the one `step` behind it, rounded as the copy rounds. */
void hopper_store_pair(Simple *s, const IrCopy *c, IrExpr *at, IrExpr *first, int step);

/* One thread-level operation of n operands. */
void hopper_op(Simple *s, OpCode op, int n, const IrOperand *o);
IrOperand hopper_e(IrExpr *e);
IrOperand hopper_i(Simple *s, int64_t n); /* an i32 constant */
/* Byte address of a tile's stage in hand, i32. */
IrExpr *hopper_tile_at(Simple *s, const IrBuffer *b);
/* The same of the stage that a region names, where the tile has an axis of stages. */
IrExpr *hopper_region_at(Simple *s, const IrRegion *r);
/* A region of a tile with stages, its stage computed and known to be there: a fault is recorded
 * where the program's is not. Other regions as they are. */
IrRegion hopper_settled(Simple *s, const IrRegion *r);
/* Byte address of a barrier of the stage in hand. */
IrExpr *hopper_barrier(Simple *s, int64_t base, const IrVar *stage);

#endif
