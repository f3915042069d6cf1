/* kernel.c: kernel values, and the cache of their specialisations.
 *
 * In: a kernel value and the arguments of a call. Out: the IR for exactly these compile-time
 * values, dtypes and static extents, made once. A function that is defined anew makes
 * specialisations that may have inlined the old one stale. Tests: tests/unit/check_session.c,
 * tests/lang/kernel_*.tile.
 */
#include "kernel.h"
#include "device.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A definition's specialisations at most; past them the one used longest ago goes. */
enum { MOST_SPECS = 64 };

/* Programs of the device go before the device does. */
static void free_spec(Session *s, Spec *p) {
  for (Variant *v = p->variants; v; v = v->next)
    device_program_free(v->gpu);
  arena_free(p->arena);
  free(p);
  s->dropped++;
}

void kernels_free(Session *s, Unit *u) {
  for (KernelInfo *info = u->kernels; info; info = info->next) {
    for (Spec *p = info->specs, *next; p; p = next) {
      next = p->next;
      free_spec(s, p);
    }
    arena_free(info->tuning);
  }
  u->kernels = NULL;
}

/* What a kernel sees of the host ------------------------------------------------------------------
 */

/* `module.name` inside a kernel: only names that an import bound. */
static Module *module_named(Module *m, const char *name) {
  Value *v = host_global(m, name);
  return v && v->kind == VAL_MODULE ? v->as.obj->as.module : NULL;
}

static const SemaScope *scope_of(Module *m);

/* Looked up each time a body is checked: functions may be defined after the kernel. */
SemaFn kernel_fn(Module *from, const char *module, const char *name) {
  Module *m = module ? module_named(from, module) : from;
  Value *v = m ? host_global(m, name) : NULL;
  if (!v || v->kind != VAL_FN)
    return (SemaFn){NULL, NULL};
  return (SemaFn){v->as.obj->as.fn.ast, scope_of(v->as.obj->as.fn.module)};
}

/* SemaScope.find over a module's globals. */
static SemaFn find_fn(void *ctx, const char *module, const char *name) {
  return kernel_fn(ctx, module, name);
}

/* The i-th function of a module, in order of definition. */
const char *kernel_visible_name(const Module *m, size_t i) {
  for (size_t k = 0; k < map_count(m->globals); k++) {
    const Value *v = map_value(m->globals, k);
    if (v->kind == VAL_FN && i-- == 0)
      return map_key(m->globals, k);
  }
  return NULL;
}

/* SemaScope.name. */
static const char *visible_name(void *ctx, size_t i) {
  return kernel_visible_name(ctx, i);
}

/* Filled anew each time: a module never moves. */
static const SemaScope *scope_of(Module *m) {
  m->scope = (SemaScope){m, find_fn, visible_name, NULL};
  return &m->scope;
}

/* Information about a definition ----------------------------------------------------------- */

/* The diagnostics are in the sink; exit status 3. */
static _Noreturn void compile_failed(Session *s) {
  host_fail_with(s, ST_COMPILE);
}

/* Allocated from as long as the unit lives, under whichever boundary is open now. */
static Arena *unit_arena(Session *s, Unit *u) {
  arena_set_guard(u->arena, s->guard);
  return u->arena;
}

/* By the definition's address: two kernels of one name are two definitions. The signature is
 * read once; the body was checked when the text was read (declare.c) and is again at each new
 * specialisation, with its values. */
static KernelInfo *info_of(Session *s, Value kernel) {
  const Object *o = kernel.as.obj;
  Unit *u = o->as.kernel.unit;
  KernelInfo *info = u->kernels;
  while (info && (info->ast != o->as.kernel.ast || info->ir != o->as.kernel.ir))
    info = info->next;
  if (info)
    return info;
  Arena *a = unit_arena(s, u);
  info = ARENA_NEW(a, KernelInfo);
  info->ast = o->as.kernel.ast;
  info->ir = o->as.kernel.ir;
  if (info->ast) {
    info->sema = sema_read(a, info->ast, scope_of(o->as.kernel.module), &s->diags);
    if (!info->sema || s->diags.errors > 0)
      compile_failed(s);
  }
  info->next = u->kernels;
  u->kernels = info;
  return info;
}

/* Settings: k[BM = 64] --------------------------------------------------------------------- */

/* Strings are copied: the value may be dropped before the specialisation is. */
static SemaValue sema_value_of(Session *s, Value v, Span span) {
  SemaValue out = {.kind = SV_UNSET};
  switch (v.kind) {
  case VAL_INT:
    out.kind = SV_INT;
    out.num = (Scalar){v.big ? DT_U64 : DT_I64, {.u = v.as.u}};
    break;
  case VAL_FLOAT:
    out.kind = SV_FLOAT;
    out.num = (Scalar){DT_F64, {.f = v.as.f}};
    break;
  case VAL_BOOL:
    out.kind = SV_BOOL;
    out.num = (Scalar){DT_BOOL, {.i = v.as.b}};
    break;
  case VAL_DTYPE:
    out.kind = SV_DTYPE;
    out.dtype = v.as.dtype;
    break;
  case VAL_STRING:
    out.kind = SV_STRING;
    out.string = arena_strndup(session_scratch(s), val_text(v), v.as.obj->as.string.n);
    out.n = v.as.obj->as.string.n;
    break;
  default:
    host_fail(s, E0801, span, "a compile-time parameter is a number, bool, string or dtype, not %s",
              val_describe(s, v));
  }
  return out;
}

/* In the order they were given: the last setting of a name wins. */
static void apply_settings(Session *s, const KernelInfo *info, const Object *kernel, SemaSpec *spec,
                           Span span) {
  for (size_t i = 0; i < kernel->as.kernel.nsettings; i++) {
    const Field *f = &kernel->as.kernel.settings[i];
    if (!sema_set(info->sema, spec, f->name, sema_value_of(s, f->value, span), span, &s->diags))
      compile_failed(s);
  }
}

SemaSpec *kernel_settings(Session *s, Value kernel, Span span) {
  KernelInfo *info = info_of(s, kernel);
  SemaSpec *spec = sema_spec_new(session_scratch(s), info->sema);
  apply_settings(s, info, kernel.as.obj, spec, span);
  return spec;
}

/* A new kernel value; the old one keeps its settings. Wrong names fail here. */
Value kernel_with(Session *s, Value kernel, const Field *settings, size_t count, Span span) {
  const Object *old = kernel.as.obj;
  if (!old->as.kernel.ast)
    host_fail(s, E0820, span, "a kernel read from IR text has no compile-time parameters");
  size_t n = old->as.kernel.nsettings;
  Value out = val_object(s, VAL_KERNEL);
  Object *o = out.as.obj;
  o->as.kernel = old->as.kernel;
  o->as.kernel.unit->values++;
  o->as.kernel.plans = NULL;
  o->as.kernel.settings = NULL;
  o->as.kernel.nsettings = 0;
  o->as.kernel.settings = session_alloc(s, (n + count) * sizeof(Field));
  for (size_t i = 0; i < n; i++) {
    o->as.kernel.settings[o->as.kernel.nsettings++] = old->as.kernel.settings[i];
    val_retain(old->as.kernel.settings[i].value);
  }
  for (size_t i = 0; i < count; i++) {
    Field f = settings[i];
    f.value.literal = false;
    val_retain(f.value);
    o->as.kernel.settings[o->as.kernel.nsettings++] = f;
  }
  KernelInfo *info = info_of(s, out); /* wrong names are reported here, not at the call */
  apply_settings(s, info, o, sema_spec_new(session_scratch(s), info->sema), span);
  return out;
}

/* k[BM = 64]. */
Value kernel_specialize(Session *s, Value kernel, const AstExpr *e) {
  if (kernel.kind != VAL_KERNEL)
    host_fail(s, E0805, e->as.call.fn->span, "%s has no compile-time parameters",
              val_describe(s, kernel));
  const AstArgs *args = &e->as.call.args;
  Field *settings = ARENA_ARRAY(session_scratch(s), Field, args->n);
  for (size_t i = 0; i < args->n; i++)
    settings[i] = (Field){args->v[i].name, host_eval(s, args->v[i].value)};
  return kernel_with(s, kernel, settings, args->n, e->span);
}

/* So that "f16" from another language is the dtype where one is meant. */
bool kernel_takes_dtype(Session *s, Value kernel, const char *name) {
  const SemaKernel *k = kernel_sema(s, kernel);
  for (size_t i = 0; k && i < k->nstatics; i++)
    if (strcmp(k->statics[i].name.text, name) == 0)
      return k->statics[i].kind == SV_DTYPE;
  return false;
}

/* Specialisations -------------------------------------------------------------------------- */

/* A text that differs whenever the values do. */
static void add_value(const SemaValue *v, Str *key) {
  switch (v->kind) {
  case SV_INT:
  case SV_BOOL:
    str_addf(key, "%" PRId64, v->num.as.i);
    break;
  case SV_FLOAT:
    str_addf(key, "f%" PRIx64, v->num.as.u); /* the bits */
    break;
  case SV_DTYPE:
    str_add(key, dtype_name(v->dtype));
    break;
  case SV_STRING:
    str_addf(key, "%zu:", v->n);
    str_addn(key, v->string, v->n);
    break;
  default:
    str_addc(key, '?');
    break;
  }
}

/* All compile-time parameters, then static extents; dtypes that arguments bound are among the
 * parameters. */
static void make_key(Session *s, const KernelInfo *info, const SemaSpec *spec, Str *key) {
  Arena *a = session_scratch(s);
  for (size_t i = 0; i < info->sema->nstatics; i++) {
    SemaValue v = {.kind = SV_UNSET};
    sema_value(a, info->sema, spec, i, &v);
    add_value(&v, key);
    str_addc(key, ';');
  }
  for (size_t i = 0; i < info->sema->nextents; i++)
    str_addf(key, "%" PRId64 ",", spec->extents[i]);
}

/* Those past the bound, and those whose functions are old; what the device still runs of them is
 * waited for, where that may fail. */
static void bound_specs(Session *s, KernelInfo *info) {
  int n = 1;
  if (s->ahead)
    return;
  for (Spec **at = &info->specs; *at;) {
    Spec *p = *at;
    if ((n < MOST_SPECS && p->generation == s->generation) || p->held) {
      n++;
      at = &p->next;
      continue;
    }
    device_finish(s);
    *at = p->next;
    free_spec(s, p);
  }
}

/* An arena of its own: IR, bytecode and CUDA text of one specialisation go together. In the list
 * from the start, so that it goes with its kernel where a jump leaves it unfinished. */
static Spec *new_spec(Session *s, KernelInfo *info) {
  bound_specs(s, info);
  Spec *p = session_alloc(s, sizeof *p);
  p->generation = s->generation - 1; /* until it is whole */
  p->next = info->specs;
  info->specs = p;
  p->arena = arena_new(s->guard, "specialisation");
  return p;
}

/* From here on it is found. */
static Spec *whole_spec(Session *s, Spec *p, const Str *key) {
  p->key = arena_strndup(p->arena, str_text(key), key->n);
  p->nkey = key->n;
  p->generation = s->generation;
  return p;
}

Arena *spec_arena(const Launch *l) {
  arena_set_guard(l->spec->arena, l->s->guard);
  return l->spec->arena;
}

/* The only way from a specialisation to its IR. */
static IrKernel *spec_ir(Session *s, Arena *a, const SemaKernel *k, const SemaSpec *spec,
                         const SemaValue **statics, DiagSink *sink) {
  SemaTree *tree = sema_check(a, k, spec, sink);
  *statics = tree ? tree->statics : NULL;
  IrKernel *ir = tree && sink->errors == 0 ? ir_build(a, s->names, tree, sink) : NULL;
  return sink->errors == 0 ? ir : NULL;
}

void spec_set(SemaSpec *spec, size_t i, int64_t value) {
  spec->statics[i] = (SemaValue){.kind = SV_INT, .num = {DT_I64, {.i = value}}};
}

const IrKernel *spec_ir_with(Session *s, Arena *a, const SemaKernel *k, const SemaSpec *from,
                             const SpecStatic *set, size_t n) {
  DiagSink sink;
  const SemaValue *statics;
  SemaSpec *spec = sema_spec_copy(a, k, from);
  diag_init(&sink, a);
  for (size_t i = 0; i < n; i++)
    spec_set(spec, set[i].at, set[i].value);
  return spec_ir(s, a, k, spec, &statics, &sink);
}

/* As kernel_settings made it, with the strings, which lie with the statement. */
static SemaSpec *keep_settings(Arena *a, const SemaKernel *k, const SemaSpec *from) {
  SemaSpec *spec = sema_spec_copy(a, k, from);
  for (size_t i = 0; i < k->nstatics; i++) {
    SemaValue *v = &spec->statics[i];
    if (v->kind == SV_STRING)
      v->string = arena_strndup(a, v->string, v->n);
  }
  return spec;
}

/* Builds the IR of a specialisation. */
static void build(Session *s, const KernelInfo *info, const SemaSpec *spec, Spec *p) {
  double start = base_now();
  p->sema = keep_settings(p->arena, info->sema, spec);
  p->ir = spec_ir(s, p->arena, info->sema, p->sema, &p->statics, &s->diags);
  s->times.compile += base_now() - start;
  if (!p->ir)
    compile_failed(s);
}

/* The one made for these values, moved to the front; NULL: none, or one that is too old. */
static Spec *find_spec(Session *s, KernelInfo *info, const Str *key) {
  for (Spec **at = &info->specs, *p; (p = *at); at = &p->next) {
    if (p->generation != s->generation || p->nkey != key->n ||
        memcmp(p->key, str_text(key), key->n) != 0)
      continue;
    *at = p->next;
    p->next = info->specs;
    info->specs = p;
    arena_set_guard(p->arena, s->guard); /* ir_bind leaves to it, as to the open boundary */
    return p;
  }
  return NULL;
}

/* From the cache where the same values, dtypes and static extents were asked for before. */
Spec *kernel_spec(Session *s, Value kernel, const SemaArg *args, Span call) {
  KernelInfo *info = info_of(s, kernel);
  Arena *a = session_scratch(s);
  Str key = session_str(s);
  SemaSpec *spec = info->sema ? kernel_settings(s, kernel, call) : NULL;
  if (spec && !sema_bind(a, info->sema, spec, args, call, &s->diags))
    compile_failed(s);
  if (spec) {
    kernel_tune(s, info, spec, args, call);
    make_key(s, info, spec, &key);
  }
  Spec *p = find_spec(s, info, &key);
  if (p)
    return p;
  p = new_spec(s, info);
  if (spec)
    build(s, info, spec, p);
  else
    p->ir = kernel.as.obj->as.kernel.ir;
  return whole_spec(s, p, &key);
}

/* The signature, for binding arguments by name. */
SemaKernel *kernel_sema(Session *s, Value kernel) {
  return info_of(s, kernel)->sema;
}

/* read_ir ---------------------------------------------------------------------------------- */

/* A file with several kernels needs a name. */
static IrKernel *pick(Args *a, const IrKernels *all) {
  Session *s = a->s;
  if (a->npos == 1 && all->n == 1)
    return all->v[0];
  if (a->npos == 1)
    host_fail_hint(s, E0804, a->span, "read_ir(path, \"name\")", "the file holds %zu kernels",
                   all->n);
  for (size_t i = 0; i < all->n; i++)
    if (a->v[1].kind == VAL_STRING && strcmp(all->v[i]->name, val_text(a->v[1])) == 0)
      return all->v[i];
  host_fail(s, E0804, a->spans[1], "the file holds no kernel of that name");
}

/* Verified here, so that a call can rely on what ir.h promises. */
Value builtin_read_ir(Args *a) {
  Session *s = a->s;
  args_names(a, NULL, 0);
  args_count(a, 1, 2);
  if (a->v[0].kind != VAL_STRING)
    host_fail(s, E0801, a->spans[0], "read_ir takes a path, not %s", val_describe(s, a->v[0]));
  session_allow(s, val_text(a->v[0]), a->spans[0]);
  size_t n = 0;
  const char *why = NULL, *path = session_path(s, val_text(a->v[0]));
  char *text = io_read_file(s->line, path, &n, &why);
  if (!text)
    host_fail(s, E0831, a->spans[0], "%s cannot be read: %s", path, why);
  IrKernels all = {0};
  Unit *running = s->current, *u = unit_new(s);
  SrcFile *file = src_new(u->arena, path, text, n);
  u->file = file;
  if (!ir_read(u->arena, s->names, file, &s->diags, &all) || s->diags.errors > 0)
    compile_failed(s);
  IrKernel *k = pick(a, &all);
  if (!ir_verify(k, &s->diags))
    compile_failed(s);
  Value v = val_object(s, VAL_KERNEL);
  v.as.obj->as.kernel.unit = unit_enter(s, file);
  s->current = running;
  v.as.obj->as.kernel.ir = k;
  v.as.obj->as.kernel.module = s->module;
  return v;
}
