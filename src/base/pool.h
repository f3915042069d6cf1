/* pool.h: the thread pool: block ranges over POSIX threads, no OpenMP.
 *
 * Workers never jump and never raise: they report through what they are given, which also is how
 * the rest of a run is told to do nothing. The calling thread works too, as worker 0. Tests:
 * tests/unit/check_base_pool.c.
 */
#ifndef TILESH_BASE_POOL_H
#define TILESH_BASE_POOL_H

#include <stddef.h>

typedef struct Pool Pool;

/* threads <= 0: one per online processor. Threads start on the first pool_run. NULL: out of memory.
 */
Pool *pool_new(int threads);
/* Ends the threads; nobody may be inside pool_run. NULL is allowed. */
void pool_free(Pool *p);
int pool_threads(const Pool *p); /* the calling one counted */
/* Calls fn(ctx, i, worker) for every i in [0, n), each once, on some worker (0 <= worker <
 * pool_threads), in chunks handed out dynamically; returns when all are done. Not reentrant: a call
 * from inside fn runs serially. */
void pool_run(Pool *p, size_t n, void (*fn)(void *ctx, size_t i, int worker), void *ctx);

#endif
