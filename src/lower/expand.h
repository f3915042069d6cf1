/* expand.h: what the scheduled level becomes when fragments lie in registers. Private.
 *
 * The lowering of simple.h goes over the statements in order; a statement that expand_stmt takes is
 * expanded here, the others as there. expand.c: the dispatch; infer*.c: which fragments lie in
 * registers, and how; expand_map.c: iterations over registers; expand_vector.c: over tensors, in
 * vectors; expand_copy.c and expand_side.c: vectors between memory and registers; expand_reduce.c:
 * reductions by registers, lanes and warps; expand_lines.c: argmax and scans by warps; expand_dot.c
 * and expand_fma.c: products by mma.sync and without; expand_loop.c, expand_fill.c: rings of
 * cp.async; expand_gather.c, expand_gather_send.c: loops that fill a tile from a tensor, or empty
 * it; expand_store.c: results by way of shared memory; expand_cost.c: loops too long to unroll;
 * expand_dense.c: several blocks on a multiprocessor; expand_roles.c: fragments of the author's
 * roles. Barriers and places are those of simple.h, so a tile in shared memory is never wrong, only
 * slow.
 */
#ifndef TILESH_LOWER_EXPAND_H
#define TILESH_LOWER_EXPAND_H

#include "simple.h"

/* Whether the statement was expanded; else the scalar lowering takes it. */
bool expand_stmt(Simple *s, IrStmt *st);

/* A role's statements: s->first_warp, threads, tid and the barrier are the role's inside, and
 * nothing is held at either end. barrier: 1 to 15. */
typedef struct ExpandRole {
  int first_warp, threads, barrier;
  IrVar *tid;
} ExpandRole;
ExpandRole expand_enter_role(Simple *s, int first_warp, int warps, int barrier);
void expand_leave_role(Simple *s, const ExpandRole *before);

/* Threads for a kernel that does not say: a power of two of warps. */
int expand_threads(const IrKernel *k);

/* infer.c, infer_share.c */
void expand_infer(Simple *s);
/* Whether each axis of a tile's element is an index of the iteration with the tile's extent, or the
 * one element there is: from[d] is the index' number, or -1. */
bool expand_mapping(Simple *s, IrVar *const *var, const int64_t *extent, int naxes,
                    const IrAccess *a, int *from);
bool expand_whole(Simple *s, const IrRegion *r); /* the whole tile, as it lies */
/* The layout over which a MAP iterates; NULL: none, its fragments lie in shared memory. */
const Frag *expand_map_frag(Simple *s, IrStmt *st);

/* Whether no register is written by it: then one of the threads that hold the same does it all. */
bool expand_only_memory(Simple *s, IrStmt *st);
/* Whether threads that hold copies would read what one of them has written. */
bool expand_copies_differ(Simple *s, IrStmt *st);

/* expand_copy.c: elements that one access of a region can move, and along which kept axis. */
int64_t expand_vector_axis(Simple *s, const IrRegion *r, int *axis);
bool expand_copy(Simple *s, IrStmt *st);
bool expand_takes_copy(Simple *s, const IrCopy *c); /* also of fragments in registers */

int64_t expand_divisor(Simple *s, const IrExpr *e);            /* a power of two that divides it */
void expand_learn(Simple *s, const IrVar *v, const IrExpr *e); /* the variable is bound to e */
/* Offset of an element among those of a shared tile, with the stage in hand; i32 elements. */
IrExpr *expand_offset(Simple *s, const IrBuffer *b, IrExpr *const *at);
/* Byte address of an element of a shared tile, of the copy in hand; i32. */
IrExpr *expand_shared_address(Simple *s, const IrBuffer *b, IrExpr *const *at);

/* expand_dot.c: products by mma.sync */
bool expand_is_mma(Simple *s, const IrDot *d);
bool expand_takes_fragment(const IrDot *d);               /* as its first operand */
bool expand_dot_frag(Simple *s, const IrDot *d, Frag *f); /* of its result; false: none fits */
/* expand_fma.c: products without tensor cores, in registers */
bool expand_is_fma(Simple *s, const IrDot *d);
Frag expand_fma_frag(Simple *s, const IrDot *d);
bool expand_fma_along_k(Simple *s, const IrRegion *r, int side); /* how it reads A (0) or B (1) */
bool expand_fma(Simple *s, IrStmt *st);
bool expand_keeps_rows(IrKernel *k); /* whether a warp must have whole rows of products */
void expand_know_rows(Simple *s);    /* the same once, while fragments are still named so */
bool expand_dot(Simple *s, IrStmt *st);

/* expand_layout.c: the element's offset, i32, of a tile with a map of its own. */
IrExpr *expand_mapped(Simple *s, const Place *p, IrExpr *const *at);

/* Shared tiles lie as their copies and products want them: the way round, which products' results
 * depend on, before layouts are inferred (a fragment that is none, after); then the banks. */
void expand_lay_columns(Simple *s);
void expand_lay_tiles(Simple *s);

/* expand_loop.c: pipelined loops, of so many stages where the program does not say. */
enum { PIPE_STAGES = 3 };
void expand_find_pipes(Simple *s);
bool expand_shorten_pipes(Simple *s);
bool expand_pipe(Simple *s, IrStmt *st);

/* expand_count.c: notes by variable id, of n variables, those that the block defines. */
void expand_definitions(IrBlock *b, bool *defined, size_t n);

/* expand_roles.c: the author's roles, NULL: none; what one of them alone uses is declared in it. */
IrRoles *expand_author_roles(const IrKernel *k);
void expand_settle_roles(IrKernel *k);

/* expand_cost.c: whether a MAP's loop is too much text to be unrolled over its registers; what
 * becomes of such a loop that reads a product's result. */
bool expand_is_costly(Simple *s, IrStmt *st);
void expand_stage_reads(Simple *s);

/* expand_store.c: results that registers hold in short runs go through shared memory. */
void expand_stage_stores(Simple *s);

/* expand_map.c */
bool expand_map(Simple *s, IrStmt *st);
/* expand_vector.c: parallel loops over tensors, in vectors */
bool expand_vector(Simple *s, IrStmt *st);
/* Gives a kernel without a grid that is one such loop as many blocks as its iterations fill; what
 * low_open_points then deals out is a thread of the grid's share. */
bool expand_spread(IrKernel *k, const LowerRequest *r, int threads);
/* expand_reduce.c */
bool expand_reduce(Simple *s, IrStmt *st);

bool expand_scan_registers(Simple *s, IrStmt *st);
/* Whether a fragment that lies so can be scanned along the axis. */
bool expand_scans(const Frag *f, int axis);

/* expand_lines.c: lines of shared tiles by warps. */
/* Narrow numbers go through shuffles as wider ones that hold them. */
DType expand_wide(DType t);
bool expand_arg(Simple *s, IrStmt *st);
bool expand_scan(Simple *s, IrStmt *st);

/* A point of an iteration over a layout's registers. */
typedef struct Point {
  const Frag *frag;
  IrExpr *digit[FRAG_DIGITS]; /* value of each register digit, i32 */
  IrExpr *at[IR_MAX_RANK];    /* coordinates, i32 */
  IrExpr *index[IR_MAX_RANK]; /* the same, i64 */
  IrVar *const *var;          /* the MAP's indices that these are; or NULL */
  bool one;                   /* of the threads that hold the same only one is here */
} Point;

/* Opens loops over the layout's registers, `width` of them a point, and enters the innermost body;
 * dead elements are left out. The caller enters *before again. */
void expand_open(Simple *s, const Frag *f, int64_t width, Point *p, IrBlock **before);
/* The register of a tile with layout frag_project(p->frag, …, from, …), i32; from NULL: its axes
 * are the first of p->frag. */
IrExpr *expand_register(Simple *s, const Point *p, int rank, const int *from);
IrExpr *expand_element(Simple *s, const IrAccess *a); /* the same of an access in a MAP's body */
/* Whether this thread is the first of those that hold the same; NULL: it always is. */
IrExpr *expand_is_owner(Simple *s, const Frag *f);

/* tiles.c: where the program's tiles lie, into the request's notes. */
void low_note_tiles(Simple *s);

#endif
