/* simple.h: the simplest lowering of tile level to threads; what its files share. Private.
 *
 * simple.c: the kernel and control; simple_access.c: elements; simple_place.c: where tiles lie,
 * accesses, bounds, barriers; simple_region.c: shapes and regions; simple_tile.c and
 * simple_reduce.c: tile operations as loops of the block's threads; simple_roles.c: the author's
 * roles.
 *
 * One block of threads runs a block's statements in order. A tile is a shared tile of the block,
 * or, where shared memory has no room, a slab of global scratch. A tile operation is a loop in
 * which thread t takes the elements t, t + threads, …; each element is computed by one thread, in
 * the order of the tile level, so that the bits are the same. Barriers stand where a statement
 * touches what an earlier one wrote, or writes what it read.
 */
#ifndef TILESH_LOWER_SIMPLE_H
#define TILESH_LOWER_SIMPLE_H

#include "layout.h"
#include "passes.h"

/* Where a tile of the program lies. */
typedef struct Place {
  bool tile;                   /* a tile of the program (not a parameter) */
  bool fragment;               /* declared so: the compiler's to place */
  bool spilled;                /* in global scratch: row-major behind the block's slot */
  int rank;                    /* of the program's tile */
  int64_t extent[IR_MAX_RANK]; /* of the program's tile */
  int64_t bytes;
  const Frag *frag; /* lies in registers, so; NULL: in shared memory or scratch */
  IrBuffer *home;   /* its registers, its slabs of scratch, its bytes where they do not lie row by
                       row; NULL: the tile itself */
  bool product;     /* a product by mma adds to it, so it stays in registers */
  bool settled;     /* its layout is found: another role's are looked for */
  bool printed;     /* a report shows it, so it lies row by row */
  bool piped;       /* a pipeline's barriers order what touches it */
  int chunks;       /* 16-byte parts of a row that change places, by row; 0, 1: none do */
  int chunk_rows;   /* rows from one change to the next */
  bool twist;       /* neighbouring rows by an even number of parts, those half-way by one more */
  bool columns;     /* its last two axes lie the other way round */
  int64_t panel; /* elements of a row that lie side by side, all rows' before the next; 0: whole */
  bool operand;  /* warpgroups' products read it where generic accesses write it (ring.c) */
  bool stated;   /* the author says how it lies: */
  int64_t pad;   /* elements between rows, */
  const IrLayout *map;   /* or by this map, … */
  const int64_t *map_at; /* … whose values these are, in row-major order */
  bool shared;           /* a fragment that some statement needs in shared memory */
  int stages;            /* copies in shared memory, one behind the other; 0 and 1: one … */
  IrExpr *stage;         /* … and the one in hand, an i32; NULL: the first */
} Place;

struct Point; /* expand.h: the point of an iteration over registers in hand */

enum { PIPE_COPIES = 8 };

typedef struct Pipe { /* a loop that is a pipeline of cp.async (expand_loop.c) */
  IrStmt *loop;
  IrStmt *copy[PIPE_COPIES];
  /* expand_gather.h: what that statement is instead; NULL: a COPY */
  struct Gather *gather[PIPE_COPIES];
  int ncopies, stages;
  int ahead;             /* rounds that are on their way while one is computed */
  bool groups;           /* what it computes is one product of warpgroups */
  struct Counts *counts; /* expand_count.h */
  bool prepares;         /* something is computed or checked once, before the first round */
} Pipe;

typedef struct Iteration { /* how a MAP goes over registers */
  const IrStmt *st;
  const Frag *frag;
} Iteration;

typedef struct Simple {
  IrKernel *k;
  const LowerRequest *request;
  const Target *target;
  DiagSink *sink;
  Arena *arena; /* scratch of this pass */
  bool failed;
  IrBlock *out;         /* where statements go */
  Span at;              /* of the program's statement that they come from */
  IrVar *tid;           /* i32, index of the thread among those that run the statements … */
  int threads;          /* … and their number: the block's, or a role's */
  int first_warp;       /* of the role */
  int role_registers;   /* that a thread of the author's role has; 0: not said */
  int barrier;          /* the role's named barrier; 0: all of the block */
  bool rolled;          /* loops over registers stay loops: no register's number needs them */
  bool inferred;        /* fragments' layouts are found */
  bool pairs, no_pairs; /* some product has FragPairs; none may have them */
  struct Point *point;  /* inside an iteration over registers, else NULL */
  bool rows_known, whole_rows; /* expand_dot.c: whether warps keep whole rows of products */
  bool alone;                  /* one thread runs the statements: there is nobody to wait for */
  VEC(bool) owned;             /* by buffer id: rings and staging tiles of hopper.h */
  struct Hopper *hopper;       /* hopper.h; NULL: not inside its roles */
  bool registers;              /* fragments may lie in registers (expand.h) */
  VEC(Iteration) iterations;
  VEC(Pipe) pipes;
  VEC(int64_t) divisor;     /* by variable id: a power of two that divides it; 0: 1 */
  VEC(Place *) place;       /* by buffer id; a Place stays where it is while others come */
  VEC(uint8_t) held;        /* by buffer id: reads and writes since the last low_barrier */
  VEC(uint8_t) now;         /* by buffer id: what the statement being built does */
  IrBuffer *once[DT_COUNT]; /* one-element tiles through which one thread tells the others */
  IrBlock start;            /* what stands before everything: their declarations */
  int64_t peak;             /* bytes of shared memory of the program's tiles */
  IrVar *slot;              /* this block's slab of the spilled tiles; NULL: none spilled */
  IrVar *left;              /* bool var: `return` was reached (slabs only) */
  IrExpr *block, *blocks;   /* linear index of the block and number of blocks, i64 */
  bool spread;              /* all blocks share out the iterations of the one loop there is */
  IrExpr **wrong;           /* where checks of divisions note what they find; NULL: nowhere */
  int loops;                /* enclosing loops of the program, inside the loop over slabs */
  bool in_map; /* inside a parallel loop or whole-tile expression: one thread's program */
} Simple;

/* simple.c: statements. */
IrStmt *low_emit(Simple *s, IrKind kind);
IrVar *low_emit_let(Simple *s, const char *name, IrExpr *value); /* let name = value */
IrVar *low_emit_var(Simple *s, const char *name, IrExpr *value); /* var name = value */
void low_emit_set(Simple *s, IrVar *var, IrExpr *value);
void low_load_to(Simple *s, IrVar *var, IrAccess a); /* defines var by the element, unchecked */
void low_number_threads(Simple *s);                  /* defines s->tid here */
IrExpr *low_is_first(Simple *s);                     /* whether this is thread 0 */
IrVar *low_emit_load(Simple *s, const char *name, IrAccess a);
void low_emit_store(Simple *s, IrAccess a, IrExpr *value);
void low_emit_op(Simple *s, OpCode op);       /* without operands */
IrStmt *low_emit_if(Simple *s, IrExpr *cond); /* an empty one */
IrVar *low_emit_for(Simple *s, const char *name, IrExpr *lo, IrExpr *hi, IrExpr *step,
                    IrStmt **loop);
void low_let_range(IrVar *v, const IrExpr *value); /* of a LET's own variable */
void low_index_range(IrVar *v, const IrExpr *lo, const IrExpr *hi, const IrExpr *step);
/* simple_loop.c: the iterations of a persistent loop that fall to this block: every blocks-th from
 * its own on. Where their numbers might leave the index' type, the loop counts rounds instead, and
 * the index is what is returned; else NULL. */
IrExpr *low_share_out(Simple *s, IrFor *f);
/* From the index of a round of a loop with a constant step to that of the n-th behind it. */
int64_t low_way(const IrStmt *loop, int64_t n);
/* Whether another round follows this one; the step is a constant, not negative. */
IrExpr *low_goes_on(IrKernel *k, IrExpr *index, IrExpr *end, IrExpr *step);
IrBlock *low_enter(Simple *s, IrBlock *into); /* returns what was before */
void low_fail(Simple *s, DiagCode code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The statements of a parallel loop's or whole-tile expression's body. */
void low_points(Simple *s, const IrBlock *in);
/* simple_access.c: accesses of elements. */
void low_load(Simple *s, IrStmt *st);
void low_store(Simple *s, IrStmt *st);
void low_atomic(Simple *s, IrStmt *st);
/* Thread 0 does `then`; the value it returns goes to all threads, which define var with it. What
 * the caller has noted belongs to it. */
void low_broadcast(Simple *s, IrVar *var, IrExpr *(*then)(Simple *s, void *ctx), void *ctx);

/* simple_place.c: places and barriers. */
bool low_place_tiles(Simple *s);
void low_stated_layouts(Simple *s);               /* expand_layout.c: `layout` of shared tiles */
void low_note_tile(Simple *s, const IrBuffer *b); /* a tile that a pass of this lowering adds */
Place *low_place_of(Simple *s, const IrBuffer *b);
void low_note_buffer(Simple *s, const IrBuffer *b,
                     unsigned how); /* the statement being built uses it */
/* For ir_walk over a MAP's body, ctx the Simple: what its iterations touch, as one statement. */
bool low_note_inner(IrStmt *st, void *ctx);
void low_fence(
    Simple *s); /* a low_barrier where what was noted conflicts with what is held; holds it */
void low_flush(Simple *s); /* a low_barrier if anything is held */
void low_barrier(Simple *s);
/* Before a tile's declaration: a barrier where another that had its bytes is still held. */
void low_take_bytes(Simple *s, const IrBuffer *b);
IrAccess low_access_at(Simple *s, IrBuffer *b,
                       IrExpr *const *index); /* of the program's tile or tensor */
/* FAULTs for the axes that the indices may leave; NULL where they cannot, else whether they do. */
IrExpr *low_check_access(Simple *s, const IrAccess *a);
IrExpr *low_extent_of(Simple *s, const IrBuffer *b, int axis); /* i64, of the program's tile */
const char *low_extent_text(Simple *s, const IrBuffer *b, int axis); /* "_": at run time only */
IrExpr *low_emit_fault(Simple *s, IrExpr *bad, IrSite site, IrExpr *x, IrExpr *y);

/* Extents of a region or tile. */
typedef struct Shape {
  int rank;
  int64_t extent[IR_MAX_RANK];
} Shape;

/* What computes one element of a result, in the destination's dtype. */
typedef IrExpr *(*Produce)(Simple *s, const void *op, IrExpr *const *index);
typedef struct Write {
  const IrRegion *dst;
  Shape shape;
  Produce produce;
  const void *op;
  bool hold; /* an operand lies in the same tile: nothing is written before everything is read */
} Write;

/* simple_region.c: small expressions of the kernel; regions; results. */
IrExpr *low_i32(Simple *s, int64_t n);
/* n registers from `first` on, as an operand. */
IrOperand low_regs(IrBuffer *b, IrExpr *first, int64_t n);
/* n registers of each thread, declared here. */
IrBuffer *low_registers(Simple *s, const char *name, DType t, int64_t n);
IrExpr *low_i64(Simple *s, int64_t n);
IrExpr *low_zero_of(Simple *s, DType t);
IrExpr *low_add(Simple *s, IrExpr *a, IrExpr *b);
IrExpr *low_mul(Simple *s, IrExpr *a, IrExpr *b);
IrExpr *low_both(Simple *s, IrExpr *a, IrExpr *b);     /* a & b; NULL stands for true */
IrExpr *low_quotient(Simple *s, IrExpr *e, int64_t n); /* e // n, a constant where that is known */
int64_t low_count_of(const Shape *x);
bool low_is_global(Simple *s, const IrRegion *r); /* of a tensor, not of a tile wherever it lies */
/* Shape of a region; open extents come from the other side (NULL: there is none). */
Shape low_shape_of(Simple *s, const IrRegion *r, const IrRegion *other);
/* Defines the indices (i64) of the e-th element of a shape in row-major order. */
void low_split(Simple *s, IrExpr *e, const Shape *x, IrExpr **index);
/* Opens `for e = t, n, threads` (or `for name = from, n`), enters its body and gives its index; the
 * caller enters *before again. */
IrExpr *low_open_elements(Simple *s, int64_t n, IrBlock **before);
IrExpr *low_open_serial(Simple *s, const char *name, int64_t from, int64_t n, IrBlock **before);
/* Index along each axis of the buffer, from indices along the region's kept axes. */
void low_region_index(Simple *s, const IrRegion *r, IrExpr *const *index, IrExpr **out);
/* Whether the element at these indices of the buffer counts as inside; NULL: it always does. */
IrExpr *low_inside(Simple *s, const IrRegion *r, IrExpr *const *at);
IrVar *low_load_region(Simple *s, const char *name, const IrRegion *r, IrExpr *const *index);
/* Records a fault where a tile's region leaves the tile; adds what must hold to *ok. */
void low_check_region(Simple *s, const IrRegion *r, IrExpr **ok);
/* Enters an `if` of the condition; NULL: stays where it is. Returns the block before. */
IrBlock *low_enter_if(Simple *s, IrExpr *cond);
/* Each thread's n elements that wait to be written, and the barrier behind the reading. */
IrBuffer *low_hold(Simple *s, DType t, int64_t n);
void low_between_phases(Simple *s, const IrBuffer *dst);
void low_write_elements(Simple *s, const Write *w);

/* simple_reduce.c: REDUCE along an axis, SCAN; a whole tile's value is thread 0's (low_broadcast).
 */
void low_reduce(Simple *s, IrReduce *r);
IrExpr *low_better(Simple *s, OpCode op, IrExpr *x,
                   IrExpr *best); /* of argmax, argmin: comes first */
IrExpr *low_combine(Simple *s, OpCode op, IrExpr *acc, IrExpr *x); /* in acc's type */
void low_scan(Simple *s, const IrScan *c);
IrExpr *low_reduce_scalar(Simple *s, void *reduce);

/* simple_fault.c: FAULTs of divisions by zero, before the statement. */
void low_check_exprs(Simple *s, IrStmt *st);
void low_check_cond(Simple *s, IrExpr *cond);
/* Those of an expression but for parts that were seen already. */
typedef VEC(const IrExpr *) LowChecked;
void low_check_once(Simple *s, IrExpr *e, LowChecked *seen);

/* simple_roles.c: what the author schedules. */
void low_init_barriers(Simple *s, const IrBuffer *b); /* after its declaration */
void low_arrive(Simple *s, const IrAccess *a);
IrExpr *low_barrier_address(Simple *s, const IrAccess *a); /* in shared memory, i32 */
void low_await(Simple *s, const IrStmt *st);
void low_author_roles(Simple *s, const IrStmt *st);

/* simple_tile.c: tile operations. */
void low_tile(Simple *s, IrStmt *st);
void low_map(Simple *s, IrStmt *st);
/* Opens the loop of this thread's iterations and defines the map's indices in it; the caller enters
 * *before again. */
void low_open_points(Simple *s, const IrMap *m, IrBlock **before);

#endif
