/* arena.h: memory named by lifetime, and the boundary that bounds every deep failure.
 *
 * An arena hands out zeroed memory and gives it all back at once. Running out of memory, an
 * interrupt, or recursion that is too deep unwinds to the Guard the arena was made under; no Guard
 * boundary is ever crossed by a Lua frame or a worker thread (see src/lua, pool.h).
 */
#ifndef TILESH_BASE_ARENA_H
#define TILESH_BASE_ARENA_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a call across a module boundary (io, gpu, session) ended. The reason is in the DiagSink. */
typedef enum Status {
  ST_OK = 0,
  ST_FAIL,        /* the program failed: assert, fault, failed test; exit status 1 */
  ST_USAGE,       /* wrong usage or input/output; exit status 2 */
  ST_COMPILE,     /* the program does not compile; exit status 3 */
  ST_DEVICE,      /* the device failed or is missing; exit status 4 */
  ST_INTERRUPTED, /* Ctrl-C */
  ST_NOMEM        /* out of memory */
} Status;

typedef struct Guard Guard;
typedef struct Arena Arena;

/* Runs fn(ctx) under a new boundary and returns ST_OK, or the status given to guard_raise below
 * it. Boundaries nest; each belongs to the thread that opened it. */
Status guard_run(void (*fn)(Guard *guard, void *ctx), void *ctx);
/* Leaves to the boundary with `why` (never ST_OK). */
_Noreturn void guard_raise(Guard *guard, Status why);
/* One depth counter for everything recursive: enter raises nothing, returns false at the limit
 * (about 1000 levels, fewer on a small stack), where the caller reports "nested too deeply" and
 * backs out. */
bool guard_enter(Guard *guard);
void guard_leave(Guard *guard);

/* A new, empty arena; `name` says its lifetime ("session", "line", "scratch") and is kept by
 * pointer. guard may be NULL: then running out of memory ends the process with a message. */
Arena *arena_new(Guard *guard, const char *name);
/* Gives all memory back, keeps the arena. Memory is poisoned under AddressSanitizer. */
void arena_reset(Arena *a);
void arena_free(Arena *a); /* NULL is allowed */
/* Whom it leaves to where memory runs out; changed where another boundary is open now. */
Guard *arena_guard(const Arena *a);
void arena_set_guard(Arena *a, Guard *guard);
size_t arena_bytes(const Arena *a); /* handed out since the last reset */

/* Zeroed memory, aligned to 16 bytes (64 for sizes of 4096 and more). size 0 is allowed. */
void *arena_alloc(Arena *a, size_t size);
/* n * size with overflow checked. */
void *arena_calloc(Arena *a, size_t n, size_t size);
/* A copy of size bytes of anything. */
void *arena_copy(Arena *a, const void *p, size_t size);
/* Grows a block made by this arena (in place when it was the last one). */
void *arena_grow(Arena *a, void *p, size_t old_size, size_t new_size);
/* Texts: copies of n bytes and of a whole one, and as printf makes them; NUL-terminated. */
char *arena_strndup(Arena *a, const char *s, size_t n);
char *arena_strdup(Arena *a, const char *s);
char *arena_printf(Arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(Arena *a, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

#define ARENA_NEW(a, T) ((T *)arena_alloc((a), sizeof(T)))
#define ARENA_ARRAY(a, T, n) ((T *)arena_calloc((a), (size_t)(n), sizeof(T)))

#endif
