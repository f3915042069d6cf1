/* product.h: the product kernel's three instruction sets, one source (product.inc); private. */
#ifndef TILESH_EVAL_PRODUCT_H
#define TILESH_EVAL_PRODUCT_H

#include "machine.h"

extern const EvalKernels eval_kernels_baseline;
extern const EvalKernels eval_kernels_v3;
extern const EvalKernels eval_kernels_v4;

#endif
