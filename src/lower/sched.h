/* sched.h: what the passes from the tile level to the Hopper schedule share. Private.
 *
 * The form between passes is the scheduled IR itself: what a pass decides it writes into the kernel
 * (a product's unit, a copy's engine, a tile's layout and stages, the block's threads). A pass that
 * cannot do a kernel says so by sched_decline and gives NULL.
 * Tests: tests/unit/check_schedule.c.
 */
#ifndef TILESH_LOWER_SCHED_H
#define TILESH_LOWER_SCHED_H

#include "passes.h"

enum { GROUP_THREADS = 128, GROUP_WARPS = 4 }; /* of a warpgroup */
enum { BARRIER_BYTES = 1024 };                 /* of shared memory, for barriers beside the tiles */
enum { TURNED_COLUMNS = 64 }; /* of a result, side by side, that one has of the transpose's */

/* A note "warpgroup schedule: …"; returns NULL, for `return sched_decline(…)`. */
IrKernel *sched_decline(const LowerRequest *r, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* What a pass chose, once. */
void sched_note(const LowerRequest *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* sched_tools.c: what statements do to buffers. */
typedef struct SchedUses { /* of one buffer, over a block with everything nested in it */
  int reads, writes;       /* statements; declarations are neither */
  int dots;                /* products that read it */
  int copies;              /* copies of tensors that write it */
} SchedUses;
SchedUses sched_uses(IrBlock *b, const IrBuffer *buf);
bool sched_reads(IrStmt *s, const IrBuffer *buf); /* it or what is nested in it */
bool sched_writes(IrStmt *s, const IrBuffer *buf);
/* Whether a region is all of its tile, not transposed. */
bool sched_whole(const IrRegion *r);
/* Constant extent of a tile's axis. */
int64_t sched_extent(const IrBuffer *b, int axis);

/* Of a tile's last two axes, which a matrix is; the axis before them, if any, is of stages. */
int64_t sched_side(const IrBuffer *b, int axis);
/* Whether a region is all of a tile's matrix, transposed or not, in a stage, be it there or not. */
bool sched_matrix(const IrRegion *r);

/* roles.c: whether loads by the tensor memory accelerator stand where a jump could leave them out,
 * or leave out who reads them. */
bool sched_jumps_around_fill(IrKernel *k);

/* select.c: whether warpgroups' tensor cores multiply operands of these types. */
bool sched_has_types(const IrDot *d);
/* Whether a product of 8-bit floats adds more of K at once than it may before it is taken
 * to true f32; such products add to a part first, from here on. */
bool sched_adds_too_much(const IrDot *d);
/* Registers that a thread of so many warpgroups, 1 to 3, may have beside one that loads: with two,
 * what the loading one can do without goes to them where `most` is said. */
int sched_most_registers(int groups, bool most);
/* Registers of a thread for all but the results and operands of so many products. */
int sched_other_registers(int products);
/* Whether a product is of 8-bit floats whose sums are taken to true f32. */
bool sched_promotes(const IrDot *d);
void sched_promote(IrKernel *k, IrBlock *b);

/* turned.c: which operand of a product lies across, where elements are not of 16 bits: wgmma takes
 * that one from registers, as its first. Of products of which both do it takes none. */
typedef enum Turned { TURNED_NONE, TURNED_A, TURNED_B } Turned;
/* Registers of a thread, for each 64 rows of the instruction, that hold such an operand. */
int64_t sched_turned_registers(const IrDot *d);
/* As the tensors lie that its operands are copied from. */
Turned sched_turned(const IrKernel *k, const LowerRequest *r, const IrDot *d);
/* As its tiles lie. */
Turned sched_lies_turned(const IrDot *d);
/* The region of a tensor that a copy fills a tile from; NULL: there is none. */
const IrRegion *sched_fill_of(const IrKernel *k, const IrBuffer *tile);
/* Whether an operand's K is the axis that lies along the tensor's axis `unit`; first: A. */
bool sched_along_k(const IrRegion *operand, const IrRegion *from, int unit, bool first);

/* For ir_walk, ctx the IrRoleBody: barriers are that role's own from here on. */
bool sched_narrow_sync(IrStmt *s, void *ctx);

/* stores.c: whether what a COPY writes to a tensor is met by nothing that the block does later: no
 * read, no other write, no second round of a loop that writes there again. */
bool sched_stored_once(IrKernel *k, const IrStmt *store);
/* Whether it is the extent of a tensor: no negative number, however it is computed. */
bool sched_is_extent(const IrKernel *k, const IrExpr *e);
/* Whether a coordinate of the kernel's body cannot be negative, unless it has divided by zero. */
bool sched_not_negative(IrKernel *k, const IrExpr *e);

/* Plans one load by the tensor memory accelerator of a tile that may have stages (copies.c); FALSE
 * with a note. */
bool low_plan_author_load(IrKernel *k, const LowerRequest *r, IrCopy *x);

/* Blocks are changed by building them anew. */
void sched_push(IrKernel *k, IrBlock *b, IrStmt *s);
/* Puts s before the i-th statement. */
void sched_insert(IrKernel *k, IrBlock *b, size_t i, IrStmt *s);
void sched_remove(IrBlock *b, size_t i);
/* A statement that stands in no block yet. */
IrStmt *sched_stmt(IrKernel *k, IrKind kind, Span span);
/* Takes the ALLOC of a tile out of the body, wherever it is; NULL if there is none. */
IrStmt *sched_take_alloc(IrBlock *b, const IrBuffer *buf);
/* A copy of the block within the same kernel, which defines variables of its own. */
IrBlock sched_copy_block(IrKernel *k, const IrBlock *b);
/* The same with a variable's value in its place. */
IrBlock sched_copy_block_with(IrKernel *k, const IrBlock *b, const IrVar *var, IrExpr *value);

/* Bytes of one stage of a shared tile as it lies: rows of whole swizzle spans. */
int64_t sched_tile_bytes(const IrBuffer *b);

#endif
