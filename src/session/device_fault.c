/* device_fault.c: waiting for queued calls, and what they left: faults and printed lines.
 *
 * In: the calls remembered since the last wait. Out: their prints, in order; the first fault as a
 * diagnostic at the kernel's line and at the call. After a wait nothing is queued. Tests:
 * tests/gpu.
 */
#include "device.h"

/* The record names the call and the check in it; code and words of the check are the printer's,
 * with its values put in: what the evaluator says, as far as the record goes. */
static void report_fault(Session *s, const GpuFault *f) {
  SessionGpu *g = s->gpu;
  const Queued *q = f->call < g->nqueued ? &g->queued[f->call] : NULL;
  bool known = q && f->site < (uint32_t)q->text->nsites;
  Str text = session_str(s);
  IrSite said = ir_site_said(text.arena, NULL, f->site);
  CudaSite site = known ? q->text->site[f->site] : (CudaSite){.code = said.code, .text = said.text};
  int64_t block[3] = {f->block[0], f->block[1], f->block[2]};
  scalar_print_in(site.text, f->value, &text);
  ir_say_block(block, site.rank, &text);
  diag_add(&s->diags, site.code, site.span, "%s", str_text(&text));
  Span call = q ? q->span : site.span;
  const char *name = q ? q->name : "the kernel";
  g->nqueued = 0;
  session_fail_call(s, ST_FAIL, call, name);
}

/* A value as it came through the ring, in its own type. */
static Scalar line_value(DType t, uint64_t bits) {
  Scalar x = {.type = dtype_is_float(t) ? DT_F64 : DT_I64, .as.u = bits};
  return scalar_convert(x, t);
}

/* A tile prints as the tensor that it holds; returns how many values it took. */
static size_t add_tile(const IrRegion *r, const uint64_t *value, size_t n, Str *out) {
  int64_t extent[IR_MAX_RANK], i[IR_MAX_RANK] = {0};
  int rank = ir_region_rank(r);
  for (int d = 0; d < rank; d++)
    extent[d] = ir_region_extent(r, d);
  Tensor *t = tensor_new(r->buf->dtype, rank, extent, TENSOR_ZERO, out);
  if (!t)
    return n;
  size_t count = (size_t)tensor_count(t) < n ? (size_t)tensor_count(t) : n;
  for (size_t k = 0; k < count; k++) {
    tensor_set(t, i, line_value(t->dtype, value[k]));
    for (int d = rank - 1; d >= 0 && ++i[d] == extent[d]; d--)
      i[d] = 0;
  }
  tensor_print(t, &(TensorPrint){0}, out);
  tensor_release(t);
  if (out->n > 0 && out->s[out->n - 1] == '\n') /* the report ends its own line */
    out->s[--out->n] = '\0';
  return count;
}

/* What the evaluator would print: texts, values and tiles, blanks between. */
static void add_line(const CudaPrint *print, const GpuPrintLine *line, Str *out) {
  const IrReport *r = print->report;
  size_t k = 0;
  for (int i = 0; i < r->nparts; i++) {
    const IrReportPart *part = &r->part[i];
    if (i > 0)
      str_addc(out, ' ');
    if (part->text)
      str_add(out, part->text);
    else if (part->value && k < line->nvalues)
      scalar_print(line_value(part->value->type, line->value[k++]), out);
    else if (part->region)
      k += add_tile(part->region, line->value + k, line->nvalues - k, out);
  }
  str_addc(out, '\n');
}

/* Writes what the queued calls printed; `last` is the place of the last of them. */
static void show_prints(Session *s, Span last) {
  SessionGpu *g = s->gpu;
  GpuPrintLine *line = NULL;
  size_t n = 0;
  uint32_t dropped = 0;
  Str out = session_str(s);
  bool any = false;
  for (size_t i = 0; i < g->nqueued; i++)
    any = any || g->queued[i].text->nprints > 0;
  if (any && gpu_print_take(g->gpu, s->line, &line, &n, &dropped) != ST_OK) {
    g->nqueued = 0;
    device_failed(s, last);
  }
  for (size_t i = 0; i < n; i++) {
    const CudaText *text = line[i].call < g->nqueued ? g->queued[line[i].call].text : NULL;
    if (text && line[i].line < (uint32_t)text->nprints)
      add_line(&text->print[line[i].line], &line[i], &out);
  }
  if (dropped > 0)
    str_addf(&out, "(%u more lines were printed than there is room for)\n", dropped);
  (void)session_write(s, str_text(&out), out.n);
}

/* After every wait: nothing is queued any more. */
static void check_faults(Session *s) {
  GpuFault fault;
  if (gpu_fault_take(s->gpu->gpu, &fault))
    report_fault(s, &fault);
  s->gpu->nqueued = 0;
}

/* Which of several calls did not end the device does not say: the first is named, as the others
 * wait for it or have ended. */
static _Noreturn void interrupted(Session *s) {
  SessionGpu *g = s->gpu;
  Queued first = g->queued[0];
  size_t more = g->nqueued - 1;
  if (more)
    session_interrupt(s, first.span,
                      "interrupted while %s or one of the %zu calls after it ran on %s", first.name,
                      more, g->name);
  session_interrupt(s, first.span, "interrupted while %s ran on %s", first.name, g->name);
}

/* Cheap where nothing is queued, so it is called at the end of every text, test and prompt
 * entry. */
void device_finish(Session *s) {
  if (!s->gpu || !s->gpu->gpu || s->gpu->nqueued == 0)
    return;
  Span last = s->gpu->queued[s->gpu->nqueued - 1].span;
  double start = base_now();
  Status status = gpu_sync(s->gpu->gpu);
  s->times.kernel += base_now() - start;
  if (status == ST_INTERRUPTED)
    interrupted(s);
  if (status != ST_OK) {
    s->gpu->nqueued = 0; /* a lost device is told of once; the CPU goes on */
    device_failed(s, last);
  }
  show_prints(s, last);
  check_faults(s);
}

/* The run that queued them has failed, and that was told. */
void device_forget(Session *s) {
  GpuFault fault;
  if (!s->gpu || !s->gpu->gpu || s->gpu->nqueued == 0)
    return;
  if (gpu_sync(s->gpu->gpu) == ST_OK)
    (void)gpu_fault_take(s->gpu->gpu, &fault);
  s->gpu->nqueued = 0;
}

/* A fault of the call that made the data comes before the data. */
bool device_settle(Session *s, Tensor *t, Str *why) {
  if (storage_on_host(t->storage))
    return true;
  device_finish(s);
  return tensor_to_host(t, why);
}

Status device_fetch_status(const Tensor *t) {
  const Buffer *b = storage_device_handle(t->storage);
  return b && b->fetched != ST_OK ? b->fetched : ST_FAIL;
}
