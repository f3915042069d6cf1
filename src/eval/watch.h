/* watch.h: where NaN and infinity come from, and what does not fit its type; private to src/eval,
 * for launches with CHECKS_ALL above thread level.
 *
 * A NaN that an operation makes of operands that are none is marked in its payload with a number
 * for that operation, so that the one which reaches a tensor tells where it comes from; the marks
 * are taken off there. Infinities have no payload: the operations that made one of finite operands
 * are kept, each with the last block in which it did; where several did in the block whose infinity
 * reaches a tensor, all of them are named.
 * Neither is reported unless it reaches a tensor, so what a mask or a `where` drops is no finding.
 * Tests: tests/races (special_*), tests/unit/check_eval.c.
 */
#ifndef TILESH_EVAL_WATCH_H
#define TILESH_EVAL_WATCH_H

#include "access.h"

EvalWatch *eval_watch_new(const EvalLaunch *l);
void eval_watch_free(EvalWatch *w); /* NULL is allowed */
/* What an operation gave at `out`, its operands still at src: n lanes, or one element. */
void eval_watch_values(EvalAgent *a, const EvalInsn *in, const void *const *src, void *out, int n);
/* A STORE to a tensor, before it happens; map: each lane's place. */
void eval_watch_store(EvalAgent *a, const EvalInsn *in, const EvalAccess *x, const EvalMem *m,
                      Lanes l, const int64_t *map);
/* Whether a STORE stores anything special at all. */
bool eval_watch_stores(const EvalAgent *a, const EvalInsn *in, const EvalAccess *x, Lanes l);
/* Whether any of n cells in compute form is NaN or infinite. */
bool eval_watch_special(DType compute, const void *cells, int64_t n);
/* A COPY, before it happens. */
void eval_watch_copy(EvalAgent *a, const EvalView *d, const EvalView *s);
/* What a view holds: a sum of these. */
enum { WATCH_NAN = 1, WATCH_INF = 2 };
unsigned eval_watch_look(const EvalView *v);
/* A tile operation, a product or a fold, whose operands held `had` has filled v: marks what is new.
 */
void eval_watch_result(EvalAgent *a, const char *what, const EvalView *v, unsigned had);
/* The same for a fold to a scalar. */
void eval_watch_scalar(EvalAgent *a, const char *what, DType t, void *cell, unsigned had);
/* The warnings, after the run. */
void eval_watch_report(const EvalWatch *w, DiagSink *sink);

/* watch.c's, for watch_store.c. */
typedef struct WatchOrigin {
  uint32_t place;
  int op;           /* OpCode, or -1 for a tile operation */
  const char *text; /* "`div` of 0 and 0 gives nan" */
  int64_t block;    /* of infinities: the last that made one here */
} WatchOrigin;
enum { WATCH_NAMED = 4 };
typedef struct WatchReach { /* the first of its kind that reached a tensor */
  uint32_t place;
  const char *element; /* NULL: none did */
  const WatchOrigin *origin[WATCH_NAMED];
  int norigins; /* may be more than are named */
} WatchReach;
typedef struct WatchCount { /* results that did not fit, by place and type */
  uint32_t place;
  DType type;
  const char *what, *first;
  uint64_t n;
} WatchCount;
enum { WATCH_ORIGINS = 1024, WATCH_INFS = 64, WATCH_COUNTS = 64 };
struct EvalWatch {
  const EvalProgram *program;
  Arena *arena; /* of texts */
  WatchOrigin nan[WATCH_ORIGINS], inf[WATCH_INFS];
  int nnan; /* marks are 1 … nnan */
  int ninf;
  WatchReach nan_at, inf_at;
  WatchCount count[WATCH_COUNTS];
  int ncounts;
};

/* The mark of a NaN (f32 or f64 cell); 0: it has none. */
uint32_t eval_watch_mark(DType compute, const void *cell);
void eval_watch_set_mark(DType compute, void *cell, uint32_t mark);
/* The mark of the operation at this place; 0: it has none yet. Text is made only for a new one. */
uint32_t eval_watch_find_nan(const EvalAgent *a, int op);
uint32_t eval_watch_new_nan(EvalAgent *a, int op, const char *text);
/* Whether the operation at this place is known to make infinities; from here on in this block too.
 */
bool eval_watch_find_inf(EvalAgent *a, int op);
void eval_watch_new_inf(EvalAgent *a, int op, const char *text);
/* The count of results of this place that did not fit, for the caller to add to, and to give words
 * for the first of them. NULL: too many places. */
WatchCount *eval_watch_count(EvalAgent *a, DType t, const char *what);
/* From here on a finite value rounds to more than the greatest of a narrower float. */
double eval_watch_limit(DType to);
/* ", in iteration 3 of block 1"; lane -1: not in a MAP. */
const char *eval_watch_where(const EvalAgent *a, int lane);
const char *eval_watch_text(const EvalAgent *a, DType t, const void *cell);

#endif
