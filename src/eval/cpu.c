/* cpu.c: the product kernel for an instruction set. Which one runs is decided by op_isa_choose
 * (src/ops); the binary carries all. Tests: tests/unit/check_eval_product.c, which compares bits.
 */
#include "product.h"

const EvalKernels *eval_kernels(OpIsa isa) {
#if defined(__x86_64__)
  if (isa == OPS_V4)
    return &eval_kernels_v4;
  if (isa == OPS_V3)
    return &eval_kernels_v3;
#endif
  (void)isa;
  return &eval_kernels_baseline;
}
