/* impl.h: what the files of src/lua share: the state, the boundary both ways, values both ways.
 *
 * Two kinds of functions: those that get a lua_State run under Lua's rules (they may raise Lua
 * errors and must not call what leaves to a session's boundary); those that get a Session run under
 * an entry (host.h; they may fail, and of Lua they call only what raises nothing: stack, raw
 * access, lua_pcall).
 */
#ifndef TILESH_LUA_IMPL_H
#define TILESH_LUA_IMPL_H

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "lua.h"

enum {
  LUAT_PENDING = 1024,    /* results on their way to Lua; nested calls are at most 200 deep */
  LUAT_NEST = 50,         /* tables in tables that become lists, and back */
  LUAT_BYTES = 128 << 20, /* of tensors between two cycles of the collector, at least */
  LUAT_CHUNKS = 64,       /* texts that are kept for carets */
  LUAT_TRACE = 12         /* levels of Lua that are looked through for a line */
};

/* Our userdata, by their metatable. */
typedef enum LuatType { LUAT_TENSOR, LUAT_KERNEL, LUAT_VALUE, LUAT_TYPES } LuatType;

typedef struct LuatChunk {
  Arena *arena;
  const SrcFile *file;
  struct LuatChunk *next;
} LuatChunk;

typedef struct Luat { /* a session's Lua */
  lua_State *main;    /* NULL once closed */
  lua_State *now;     /* the coroutine whose call is running in the session, else main */
  Session *s;
  int entered;                  /* entries of the session that are open below Lua */
  size_t refs;                  /* the session's, and one for each value of Lua's it holds */
  const void *meta[LUAT_TYPES]; /* metatables, for a cheap test */
  size_t alive, made;           /* bytes of tensors that Lua holds; made since the last cycle */
  size_t alive_before;          /* … and held after it */
  Status status;                /* of the entry that failed last */
  Span place;                   /* where Lua was when it raised its last error */
  bool stop;                    /* interrupted, leaving, or --emit is done: unwind everything */
  bool told;                    /* of an interrupt: the entry that it ended has words for it */
  LuatChunk *chunks;            /* texts, for carets: the newest first */
  const SrcFile *found;         /* of the line that was looked for last, or NULL … */
  int found_line;               /* … that line, and its place */
  Span found_place;
  Value pending[LUAT_PENDING]; /* references on their way to Lua */
  size_t npending;
} Luat;

/* Ours in the extra space of every coroutine. */
static inline Luat *luat_of(lua_State *L) {
  return *(Luat **)lua_getextraspace(L);
}

/* From Lua into the session (error.c) ------------------------------------------------------- */

/* Runs fn in the session; returns only where that went well, else raises its text. */
void luat_enter(lua_State *L, void (*fn)(Session *s, void *ctx), void *ctx);
/* Where Lua is: the line of the innermost Lua function whose text is known. */
Span luat_place(lua_State *L);
/* Remembers a chunk's text, so that its lines can be shown: the newest LUAT_CHUNKS of them. */
void luat_chunk(Luat *t, const char *name, const char *text, size_t n);
void luat_free_chunks(Luat *t);
/* Unwinds Lua as far as there is: pcall only delays it. */
void luat_stop(lua_State *L);
/* lua_sethook's, every LUAT_HOOK instructions: looks at Ctrl-C. */
void luat_hook(lua_State *L, lua_Debug *ar);
enum { LUAT_HOOK = 1000 };

/* From the session into Lua (error.c) ------------------------------------------------------- */

/* The state to call, with room for `slots` values on its stack; what a failed call left there is
 * dropped where nothing of Lua is running. Runs under an entry. */
lua_State *luat_begin(Luat *t, int slots);

/* lua_pcall that keeps Lua's stack: calls the function below its nargs arguments. Leaves nresults,
 * or an error message. Raises nothing. */
int luat_pcall(lua_State *L, int nargs, int nresults);
/* Place and stack of an error before are not those of the next. Raises nothing. */
void luat_forget(lua_State *L);
/* What luat_pcall left of a failure becomes the session's error; place: of the call in the program,
 * what: "in this block of Lua". Runs under an entry. */
_Noreturn void luat_fail(Luat *t, lua_State *L, int code, Span place, const char *what);
/* The same where no entry is below: diagnostics in the session's sink, and a status. */
Status luat_report(Luat *t, lua_State *L, int code);

/* Values (value.c) -------------------------------------------------------------------------- */

/* Pushes a value that something else keeps alive for the moment. A function or table of Lua's comes
 * back as itself. */
void luat_push(lua_State *L, Value v);
/* Pushes what an entry gave, with its reference; spread: a tuple as several values. The number of
 * values pushed. */
int luat_give(lua_State *L, Value v, bool spread);
/* The value at an index of the stack; fails with `what` in the words. Runs under an entry. */
Value luat_value(Luat *t, lua_State *L, int index);
/* NULL where the value there is no userdata of that type. */
Value *luat_test(lua_State *L, int index, LuatType type);
/* The same, raising a Lua error that names the argument. */
Value *luat_check(lua_State *L, int index, LuatType type);
/* Arguments [first, last] of a call as the session's: a table with names at the end holds named
 * arguments. dtypes: strings that name one are meant as dtypes. Runs under an entry. */
void luat_args(Luat *t, lua_State *L, int first, int last, bool dtypes, Args *a);
/* Metatables; called once. */
void luat_open_values(lua_State *L);
void luat_push_meta(lua_State *L, LuatType type); /* pushes one */

/* Tensors, kernels, the module (tensor.c, kernel.c, module.c) ------------------------------- */

void luat_open_tensor(lua_State *L);
void luat_open_kernel(lua_State *L);
int luat_open_module(lua_State *L);
/* Calls what stands below the arguments [first, last] and pushes what it gives. */
int luat_call(lua_State *L, Value fn, int first, int last);
/* tile.check(k, {a, b}), tile.bench(k, {a, b}, opts). */
int luat_kernel_check(lua_State *L);
int luat_kernel_bench(lua_State *L);
/* A function or table at an index as a value of the session. Runs under an entry. */
Value luat_foreign(Luat *t, lua_State *L, int index);
void luat_unref(Luat *t); /* one holder less of the state's memory */

#endif
