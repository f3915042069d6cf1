/* meant.c: names that stand for nothing here, and what their author may have meant.
 *
 * In: a name that no block, function or table of a kernel knows. Out: one diagnostic with a hint:
 * how the tile language says what other languages call so, else the closest name there is. Always
 * holds: a name is reported once a kernel, for its later uses would only repeat it. Tests:
 * tests/errors/name_*.tile, foreign_*.tile.
 */
#include "private.h"

#include <string.h>

typedef VEC(const char *) NameList;

/* Words of call.c that are no rows of ops.def, for "did you mean". */
static const char *const words[] = {
    "copy",       "fill",       "gemm",       "sum",        "prod",       "max",
    "min",        "absmax",     "any",        "all",        "argmax",     "argmin",
    "cumsum",     "cummax",     "iota",       "reshape",    "transpose",  "range",
    "parallel",   "pipelined",  "unroll",     "vectorized", "persistent", "atomic_add",
    "atomic_max", "atomic_min", "atomic_and", "atomic_or",  "atomic_xor", "atomic_exchange",
    "atomic_cas", "print",      "bitcast",    "int",        "float",      "sms",
    "arrive",     "wait"};

/* Everything a name could have meant here. */
static void visible_names(Check *c, NameList *out) {
  for (Block *b = c->block; b; b = b->up)
    for (size_t i = 0; i < b->syms.n; i++)
      VEC_PUSH(c->a, out, b->syms.v[i].name);
  if (c->scope && c->scope->name)
    for (size_t i = 0; c->scope->name(c->scope->ctx, i); i++)
      VEC_PUSH(c->a, out, c->scope->name(c->scope->ctx, i));
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    VEC_PUSH(c->a, out, words[i]);
  for (size_t i = 0; sema_builtin_name(i); i++)
    VEC_PUSH(c->a, out, sema_builtin_name(i));
  for (int t = 0; t < (int)DT_COUNT; t++)
    VEC_PUSH(c->a, out, dtype_name((DType)t));
}

/* What other languages of kernels have names for, and hosts. */
static const char *foreign_name(const char *name) {
  static const NamePair as[] = {
      {"zeros", "fragment t: f32[64] = 0"},
      {"ones", "fragment t: f32[64] = 1"},
      {"full", "fragment t: f32[64] = 0"},
      {"empty", "fragment t: f32[64]"},
      {"arange", "iota(n)"},
      {"program_id", "grid x, y = … names the block's indices"},
      {"num_programs", "grid x, y = … names the block's indices"},
      {"blockIdx", "grid x, y = … names the block's indices"},
      {"threadIdx", "for i in parallel(n) { … } spreads iterations over the threads"},
      {"blockDim", "for i in parallel(n) { … } spreads iterations over the threads"},
      {"gridDim", "grid x, y = … names the block's indices"},
      {"sync", "no barrier is written: a statement ends before the next begins"},
      {"sync_threads", "no barrier is written: a statement ends before the next begins"},
      {"syncthreads", "no barrier is written: a statement ends before the next begins"},
      {"__syncthreads", "no barrier is written: a statement ends before the next begins"},
      {"load", "copy(A[i, j], t), or an element: A[i, j]"},
      {"store", "copy(t, A[i, j]), or an element: A[i, j] = x"},
      {"dot", "acc += As @ Bs"},
      {"mma", "acc += As @ Bs"},
      {"matmul", "acc += As @ Bs"},
      {"alloc_shared", "shared As: f16[64, 32]"},
      {"alloc_fragment", "fragment acc: f32[64, 64] = 0"},
      {"alloc_local", "local v: f32[8]"},
      {"zeros_like", "fragment t: f32[64] = 0"},
      {"clear", "fill(t, 0)"},
      {"cdiv", "ceildiv(n, 128)"},
      {"Parallel", "for i, j in parallel(m, n) { … }"},
      {"Pipelined", "for k in pipelined(n, 3) { … }"},
      {"Serial", "for i in range(n) { … }"},
      {"serial", "for i in range(n) { … }"},
      {"static_range", "for i in unroll(n) { … }"},
      {"reduce_max", "max(t, axis = 1)"},
      {"reduce_min", "min(t, axis = 1)"},
      {"reduce_sum", "sum(t, axis = 1)"},
      {"maximum", "max(x, y)"},
      {"minimum", "min(x, y)"},
      {"fmaxf", "max(x, y)"},
      {"fminf", "min(x, y)"},
      {"expf", "exp(x)"},
      {"sqrtf", "sqrt(x)"},
      {"if_then_else", "x if c else y"},
      {"True", "write true"},
      {"False", "write false"},
      {"atomicAdd", "atomic_add(C[i, j], v)"},
      {"atomicSub", "atomic_add(C[i, j], -v)"},
      {"atomic_sub", "atomic_add(C[i, j], -v)"},
      {"atomicCAS", "atomic_cas(C[i, j], expected, v)"},
      {"printf", "print(x)"}};
  return names_here(name, as, sizeof as / sizeof *as);
}

/* Reductions and scans: what follows the tile is an axis. */
bool sema_takes_axis(const char *word) {
  static const char *const names[] = {"sum", "prod",   "max",    "min",    "absmax", "any",
                                      "all", "argmax", "argmin", "cumsum", "cummax"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(word, names[i]) == 0)
      return true;
  return false;
}

/* Functions of the host that kernels have not; what they make is passed as an argument. */
static bool of_host(const char *name) {
  static const char *const names[] = {"rand", "randn", "randint",  "eye",       "tensor", "load",
                                      "save", "len",   "allclose", "maxdiff",   "str",    "time",
                                      "sort", "cat",   "seed",     "contiguous"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0)
      return true;
  return false;
}

/* A word of kernels, in any of the tables that a call looks through. */
bool sema_is_word(const char *name) {
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcmp(name, words[i]) == 0)
      return true;
  return sema_builtin(name) != OP_NONE;
}

/* Arguments as PyTorch, Triton and TileLang call them. */
const char *sema_meant_argument(const char *name, const char *const *params, size_t n) {
  static const NamePair as[] = {{"dim", "axis"},           {"keepdim", "keepdims"},
                                {"keep_dims", "keepdims"}, {"num_stages", "stages"},
                                {"dims", "axis"},          {"other", "pad"},
                                {"allow_tf32", "tf32"}};
  const char *here = names_here(name, as, sizeof as / sizeof *as);
  for (size_t k = 0; here && k < n; k++)
    if (strcmp(params[k], here) == 0)
      return here;
  return names_closest(name, params, n);
}

/* What the name was meant for; without a near name, what a kernel sees at all. */
static const char *unknown_hint(Check *c, const char *name) {
  NameList list = {0};
  visible_names(c, &list);
  const char *other = foreign_name(name), *type = sema_meant_dtype(c->a, name);
  if (other)
    return other;
  if (c->kernel && strcmp(name, c->kernel->ast->name.text) == 0)
    return "a kernel calls no kernels, not itself either: the host calls them one after the other";
  if (of_host(name))
    return "it is the host's: a kernel gets what it makes as an argument";
  /* Over everything visible: a variable, a host fn, a word, a dtype. */
  const char *near = names_closest(name, list.v, list.n);
  if (near || type)
    return near ? arena_printf(c->a, "did you mean %s?", near) : type;
  return c->fn ? NULL : "a kernel sees its parameters, its own names and the host's fns";
}

/* A name is reported once: its later uses would say the same. */
bool sema_said(Check *c, const char *name) {
  for (size_t i = 0; i < c->unknown.n; i++)
    if (strcmp(c->unknown.v[i], name) == 0)
      return true;
  VEC_PUSH(c->a, &c->unknown, name);
  return false;
}

TExpr *sema_unknown_name(Check *c, const char *name, Span span) {
  if (sema_said(c, name))
    return sema_texpr_error(c, span);
  Diag *d = diag_add(c->sink, E0101, span, "there is no name %s here", name);
  const char *hint = unknown_hint(c, name);
  if (hint)
    diag_hint(c->sink, d, "%s", hint);
  return sema_texpr_error(c, span);
}

/* Words of kernels stand alone; T.copy, tl.sum and np.exp are other languages'. */
TExpr *sema_unknown_member(Check *c, const char *module, const char *name, Span span) {
  const char *full = arena_printf(c->a, "%s.%s", module, name);
  if (!sema_is_word(name) && !foreign_name(name))
    return sema_unknown_name(c, name, span);
  if (sema_said(c, full))
    return sema_texpr_error(c, span);
  Diag *d = diag_add(c->sink, E0101, span, "there is no name %s here", full);
  diag_hint(c->sink, d, sema_is_word(name) ? "no module stands before it: %s(…)" : "%s",
            sema_is_word(name) ? name : foreign_name(name));
  return sema_texpr_error(c, span);
}

/* What Python declares by assigning to it. The name counts as reported from here on. */
void sema_undeclared(Check *c, const AstExpr *target) {
  const char *name = target->as.name;
  if (sema_said(c, name))
    return;
  Diag *d = diag_add(c->sink, E0101, target->span, "there is no name %s here to assign to", name);
  NameList list = {0};
  visible_names(c, &list);
  const char *near = strlen(name) > 2 ? names_closest(name, list.v, list.n) : NULL;
  if (near)
    diag_hint(c->sink, d, "did you mean %s? A new name is declared: var %s: f32 = …", near, name);
  else
    diag_hint(c->sink, d, "declare it: let %s = …, or var %s: f32 = … if it changes", name, name);
}
