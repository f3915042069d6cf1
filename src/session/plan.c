/* plan.c: a warm call of a kernel on a device: what an earlier call like it worked out, kept.
 *
 * In: a kernel value and a call's arguments. Out: the launch, queued, where an earlier call had
 * arguments of the same dtypes, extents, strides, alignment and numbers; then only addresses
 * change. What always holds: a plan gives what launch_prepare and device_launch would give, or says
 * no and the long way is taken (anything unusual: named inputs, data that must move first,
 * outputs that share memory with an argument). Tests: tests/gpu/warm_*.tile, without a GPU through
 * tests/cli/run; test_arch of tests/repl/run; bench/gpu/latency.tile for its time.
 */
#include <stdlib.h>
#include <string.h>

#include "device.h"

enum { MOST_PLANS = 8, MOST_PARAMS = 16 };

/* What must be the same for the plan to hold. */
typedef struct PlanArg {
  bool tensor;
  DType dtype;
  int rank;
  uint8_t offset; /* bytes past a multiple of 16 */
  int64_t extent[IR_MAX_RANK], stride[IR_MAX_RANK];
  Value number; /* not a tensor */
} PlanArg;

/* One parameter of the printed kernel; its value is in the word of the same place. */
typedef struct PlanWord {
  CudaArgKind kind;
  size_t param; /* TENSOR, TMAP: of the launch */
  GpuTmap map;
  GpuPtr base;         /* TMAP: that `encoded` was made for */
  const void *encoded; /* 64-byte aligned */
} PlanWord;

typedef struct Plan Plan;
struct Plan {
  struct Plan *next;
  uint64_t generation, dropped; /* the session's, when it was made */
  SessionGpu *g;
  const char *arch; /* `:set arch` at the prompt changes the session's; its own object each time */
  const CudaText *text;
  const char *called; /* the kernel's name */
  size_t n, ninputs;  /* parameters of the launch; inputs and inouts, which stand first */
  bool given;         /* `out =` was */
  bool single;        /* one output */
  const char *out;    /* the name by which it was given: mostly the next call's as well */
  PlanArg arg[MOST_PARAMS];
  bool writes[MOST_PARAMS];
  const char *name[MOST_PARAMS];
  GpuLaunch launch;
  PlanWord *word;
  uint64_t *value; /* by word */
  void **args;     /* by word: its value or its map */
  int *changing;   /* words that differ from call to call */
  int nwords, nchanging;
};

/* Bytes of its first element behind the storage's; most tensors are no views. */
static uint64_t offset_of(const Tensor *t) {
  return t->offset ? (uint64_t)(t->offset * (int64_t)dtype_size(t->dtype)) : 0;
}

/* Keeps -------------------------------------------------------------------------------------- */

static void note_tensor(PlanArg *a, const Tensor *t) {
  a->tensor = true;
  a->dtype = t->dtype;
  a->rank = t->rank;
  a->offset = (uint8_t)(offset_of(t) % 16);
  memcpy(a->extent, t->extent, sizeof *a->extent * (size_t)t->rank);
  memcpy(a->stride, t->stride, sizeof *a->stride * (size_t)t->rank);
}

/* Whether the call is plain enough: every argument by position, or all outputs by `out =`, nothing
 * copied on the way, no scratch. */
static bool plain(const Launch *l, const Args *a, size_t ninputs) {
  bool given = a->n == ninputs + 1 && l->n == ninputs + 1 && strcmp(a->names[ninputs], "out") == 0;
  if (l->n > MOST_PARAMS || l->nscratch > 0 || l->packed || a->npos != ninputs ||
      (a->n != ninputs && !given))
    return false;
  for (size_t i = 0; i < l->n; i++)
    if (l->original[i] || (l->ir->params.v[i].buf && l->ir->params.v[i].buf->init))
      return false;
  return true;
}

static size_t count_inputs(const Launch *l) {
  size_t n = 0;
  while (n < l->n && (!l->ir->params.v[n].buf || l->ir->params.v[n].buf->role != IRR_OUT))
    n++;
  return n;
}

/* Maps of empty tensors are made anew for each launch. */
static bool note_words(Plan *p, const Launch *l, const DeviceProgram *g, const DevicePrepared *d) {
  p->nwords = g->text->nargs;
  p->word = calloc((size_t)p->nwords, sizeof *p->word);
  p->value = calloc((size_t)p->nwords, sizeof *p->value);
  p->args = calloc((size_t)p->nwords, sizeof *p->args);
  p->changing = calloc((size_t)p->nwords, sizeof *p->changing);
  if (!p->word || !p->value || !p->args || !p->changing)
    return false;
  for (int i = 0; i < p->nwords; i++) {
    const CudaArg *a = &g->text->arg[i];
    PlanWord *w = &p->word[i];
    w->kind = a->kind;
    p->args[i] = &p->value[i];
    if (a->kind == CUDA_ARG_TENSOR || a->kind == CUDA_ARG_TMAP || a->kind == CUDA_ARG_CALL)
      p->changing[p->nchanging++] = i;
    if (a->kind == CUDA_ARG_TMAP) {
      w->map = device_map(a->tmap, d->binding, 0);
      w->param = device_param(g->ir, a->tmap->buf);
      w->encoded = aligned_alloc(64, GPU_TMAP_BYTES);
      p->args[i] = (void *)(uintptr_t)w->encoded;
      if (!w->encoded || w->param >= l->n || gpu_tmap_empty(&w->map))
        return false;
    } else {
      memcpy(&p->value[i], d->launch.args[i], sizeof p->value[i]);
      w->param = a->kind == CUDA_ARG_TENSOR ? device_param(g->ir, a->buf) : 0;
      if (a->kind == CUDA_ARG_TENSOR && w->param >= l->n)
        return false;
    }
  }
  return true;
}

static void plan_free(Plan *p) {
  for (int i = 0; p->word && i < p->nwords; i++)
    free((void *)(uintptr_t)p->word[i].encoded);
  free(p->word);
  free(p->value);
  free(p->args);
  free(p->changing);
  free(p);
}

void plans_free(Plan *p) {
  for (Plan *next; p; p = next) {
    next = p->next;
    plan_free(p);
  }
}

/* The newest stand first; the oldest goes. */
static void keep(Value kernel, Plan *p) {
  Plan **list = &kernel.as.obj->as.kernel.plans;
  p->next = *list;
  *list = p;
  for (int i = 1; p; i++, p = p->next)
    if (i == MOST_PLANS && p->next) {
      plans_free(p->next);
      p->next = NULL;
    }
}

void plan_keep(Value kernel, const Args *a, const DevicePrepared *d) {
  const Launch *l = d->l;
  const DeviceProgram *g = d->program;
  size_t ninputs = count_inputs(l);
  Plan *p = d->empty || !plain(l, a, ninputs) ? NULL : calloc(1, sizeof *p);
  if (!p)
    return;
  p->generation = l->s->generation;
  p->dropped = l->s->dropped;
  p->g = l->s->gpu;
  p->arch = l->s->options.arch;
  p->text = g->text;
  p->called = l->name;
  p->n = l->n;
  p->ninputs = ninputs;
  p->given = a->n > ninputs;
  p->out = p->given ? a->names[ninputs] : NULL;
  p->single = l->n == ninputs + 1;
  p->launch = d->launch;
  for (size_t i = 0; i < l->n; i++) {
    if (l->tensor[i])
      note_tensor(&p->arg[i], l->tensor[i]);
    else
      p->arg[i].number = a->v[i];
    p->writes[i] = launch_writes(l, i);
    p->name[i] = l->ir->params.v[i].buf ? l->ir->params.v[i].buf->name : NULL;
  }
  if (!note_words(p, l, g, d)) {
    plan_free(p);
    return;
  }
  p->launch.args = p->args;
  p->launch.where = g->text->entry;
  keep(kernel, p);
}

/* Uses --------------------------------------------------------------------------------------- */

/* *at: where it lies. */
static bool same_tensor(const PlanArg *a, Value v, const SessionGpu *g, GpuPtr *at) {
  if (v.kind != VAL_TENSOR)
    return false;
  const Tensor *t = v.as.tensor;
  uint64_t offset = offset_of(t);
  if (t->dtype != a->dtype || t->rank != a->rank || offset % 16 != a->offset)
    return false;
  for (int i = 0; i < a->rank; i++) /* one or two: less than a call of memcmp */
    if (t->extent[i] != a->extent[i] || t->stride[i] != a->stride[i])
      return false;
  const Buffer *b = storage_device_data(t->storage);
  if (!b || b->g != g)
    return false;
  *at = b->p + offset;
  return true;
}

/* A number is part of the plan: grids, maps and outputs follow from it. */
static bool same_number(Value a, Value b) {
  return val_is_scalar(a) && a.kind == b.kind && a.typed == b.typed && a.literal == b.literal &&
         a.big == b.big && (a.kind == VAL_BOOL ? a.as.b == b.as.b : a.as.u == b.as.u);
}

/* Outputs given must share nothing with an input; whether they do is the long way's to say. */
static bool apart(const Plan *p, const Args *a) {
  for (size_t i = 0; i < a->n; i++)
    for (size_t k = 0; p->writes[i] && k < a->n; k++)
      if (k != i && p->arg[k].tensor && a->v[k].as.tensor->storage == a->v[i].as.tensor->storage)
        return false;
  return true;
}

/* at: the addresses of the tensors given. */
static bool fits(const Plan *p, Session *s, const Args *a, GpuPtr *at) {
  if (p->generation != s->generation || p->dropped != s->dropped || p->g != s->gpu ||
      p->arch != s->options.arch || a->npos != p->ninputs || a->n != p->ninputs + p->given ||
      (p->given && a->names[p->ninputs] != p->out && strcmp(a->names[p->ninputs], "out") != 0))
    return false;
  for (size_t i = 0; i < a->n; i++)
    if (p->arg[i].tensor ? !same_tensor(&p->arg[i], a->v[i], p->g, &at[i])
                         : !same_number(p->arg[i].number, a->v[i]))
      return false;
  return apart(p, a);
}

/* Addresses of this call's tensors; false where a map cannot be encoded. */
static bool fill_words(Plan *p, const GpuPtr *tensor) {
  for (int k = 0; k < p->nchanging; k++) {
    int i = p->changing[k];
    PlanWord *w = &p->word[i];
    if (w->kind == CUDA_ARG_CALL) {
      p->value[i] = p->g->nqueued;
    } else if (w->kind == CUDA_ARG_TENSOR) {
      p->value[i] = tensor[w->param];
    } else if (tensor[w->param] != w->base) {
      w->map.base = tensor[w->param];
      if (gpu_tmap_encode(p->g->gpu, &w->map, (void *)(uintptr_t)w->encoded) != ST_OK)
        return false;
      w->base = tensor[w->param];
    }
  }
  return true;
}

/* The call's outputs: fresh ones lie on the device only. */
static Value result_of(Session *s, const Plan *p, Tensor *const *tensor) {
  if (p->single)
    return val_borrow(tensor[p->ninputs]);
  Value out[MOST_PARAMS];
  size_t n = 0;
  for (size_t i = p->ninputs; i < p->n; i++)
    out[n++] = val_borrow(tensor[i]);
  return n == 0 ? val_nil() : val_tuple(s, out, n);
}

bool plan_call(Session *s, Value kernel, Args *a, Value *result) {
  Plan *p = kernel.as.obj->as.kernel.plans;
  GpuPtr at[MOST_PARAMS];
  Tensor *tensor[MOST_PARAMS];
  while (p && !fits(p, s, a, at))
    p = p->next;
  if (!p)
    return false;
  for (size_t i = 0; i < a->n; i++)
    tensor[i] = p->arg[i].tensor ? a->v[i].as.tensor : NULL;
  for (size_t i = a->n; i < p->n; i++) {
    tensor[i] =
        device_tensor(s, p->arg[i].dtype, p->arg[i].rank, p->arg[i].extent, p->name[i], a->span);
    at[i] = device_address(tensor[i]);
  }
  if (!fill_words(p, at) || gpu_launch(p->g->gpu, &p->launch) != ST_OK)
    device_failed(s, a->span);
  for (size_t i = 0; i < p->n; i++)
    if (p->writes[i])
      storage_device_wrote(tensor[i]->storage);
  *result = result_of(s, p, tensor);
  device_remember(s, a->span, p->called, p->text);
  return true;
}
