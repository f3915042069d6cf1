/* run.h: a launch under way; private to src/eval. */
#ifndef TILESH_EVAL_RUN_H
#define TILESH_EVAL_RUN_H

#include "program.h"

/* Looked at on every jump backwards: an interrupt, an earlier block's fault, the step limit. */
EvalResult eval_run_poll(EvalAgent *a);
/* n lanes of `size` bytes set to the element at src. */
void eval_fill_lanes(size_t size, void *dst, const void *src, int64_t n);

#endif
