/* tables.h: the tables that each instruction set's copy of the strip files offers; private to
 * src/ops. op_strip picks a copy once per question by what the processor has.
 */
#ifndef TILESH_OPS_TABLES_H
#define TILESH_OPS_TABLES_H

#include "strip.h"

#define OPS_TABLES(isa)                                                                            \
  extern const OpStrip strip_arith_##isa[OP_COUNT][DT_COUNT]; /* [operation][operand] */           \
  extern const OpStrip strip_special_##isa[OP_COUNT][DT_COUNT];                                    \
  extern const OpStrip strip_cast_##isa[DT_COUNT][DT_COUNT];    /* [from][to] */                   \
  extern const OpStrip strip_bitcast_##isa[DT_COUNT][DT_COUNT]; /* [from][to] */                   \
  extern const OpStrip strip_shl_##isa[DT_COUNT][DT_COUNT];     /* [operand][count] */             \
  extern const OpStrip strip_shr_##isa[DT_COUNT][DT_COUNT];                                        \
  extern const OpFold fold_all_##isa[OP_COUNT][DT_COUNT];                                          \
  extern const OpFold fold_lanes_##isa[OP_COUNT][DT_COUNT];

OPS_TABLES(baseline)
OPS_TABLES(v3)
OPS_TABLES(v4)

#endif
