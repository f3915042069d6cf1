/* cpu.c: which instruction set the evaluator uses.
 *
 * Nothing else in the evaluator asks the processor anything. Tests run all three and compare bits.
 */
#include <string.h>

#include "product.h"

/* ops asks cpuid; both folders are compiled for the same three levels. */
bool eval_cpu_runs(EvalCpu cpu) {
  switch (cpu) {
  case CPU_V3:
    return op_isa_runs(OPS_V3);
  case CPU_V4:
    return op_isa_runs(OPS_V4);
  default:
    return true;
  }
}

/* Chosen at run time: the binary carries all three. */
EvalCpu eval_cpu_best(void) {
  return eval_cpu_runs(CPU_V4) ? CPU_V4 : eval_cpu_runs(CPU_V3) ? CPU_V3 : CPU_BASELINE;
}

/* The words of --cpu, in the order of EvalCpu. */
bool eval_cpu_parse(const char *name, EvalCpu *cpu) {
  static const char *const names[] = {"baseline", "v3", "v4", "auto"};
  for (int i = 0; i < 4; i++)
    if (strcmp(name, names[i]) == 0) {
      *cpu = (EvalCpu)i;
      return true;
    }
  return false;
}

/* A level that cannot run here is taken as the best that can. */
const EvalKernels *eval_kernels(EvalCpu cpu) {
  if (cpu == CPU_AUTO || !eval_cpu_runs(cpu))
    cpu = eval_cpu_best();
#if defined(__x86_64__)
  if (cpu == CPU_V4)
    return &eval_kernels_v4;
  if (cpu == CPU_V3)
    return &eval_kernels_v3;
#endif
  return &eval_kernels_baseline;
}
