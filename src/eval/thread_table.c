/* thread_table.c: THREAD rows by OpCode. Nothing of the thread level runs yet. */
#include "machine.h"

EvalThreadOp eval_thread_op(OpCode op) {
  (void)op;
  return NULL;
}

void *eval_device_new(EvalBlock *block) {
  return block->arena;
}

void *eval_device_agent(EvalAgent *a, EvalArray *arrays, int narrays) {
  (void)arrays;
  (void)narrays;
  return a;
}

void eval_device_start(EvalBlock *block) {
  (void)block;
}

EvalResult eval_device_finish(EvalBlock *block) {
  (void)block;
  return EVAL_OK;
}

bool eval_device_progress(EvalBlock *block) {
  (void)block;
  return false;
}

void eval_device_waits_for(const EvalAgent *a, Str *out) {
  (void)a;
  (void)out;
}

EvalResult eval_device_shared(EvalAgent *a, const int64_t *offset, int bytes, bool write) {
  (void)a;
  (void)offset;
  (void)bytes;
  (void)write;
  return EVAL_OK;
}

EvalResult eval_device_global(EvalAgent *a, const EvalMem *mem, const int64_t *element,
                              bool write) {
  (void)a;
  (void)mem;
  (void)element;
  (void)write;
  return EVAL_OK;
}

EvalResult eval_device_registers(EvalAgent *a, EvalArray *array, int first, int count, bool write) {
  (void)a;
  (void)array;
  (void)first;
  (void)count;
  (void)write;
  return EVAL_OK;
}
