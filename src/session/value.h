/* value.h: the values of host programs.
 *
 * A Value is small and copied freely; what it points to is counted. Rule of ownership: a Value that
 * an evaluation returns is kept alive by the session's list of temporaries until its statement
 * ends; whoever stores one (a variable, a list) takes a reference of its own with val_retain.
 * An unwinding jump therefore leaks nothing: it cuts the list of temporaries back to a mark.
 */
#ifndef TILESH_SESSION_VALUE_H
#define TILESH_SESSION_VALUE_H

#include "parser/parser.h"
#include "tensor/tensor.h"

typedef struct Session Session;
typedef struct Value Value;
typedef struct Object Object;
typedef struct Module Module;

typedef enum ValueKind {
  VAL_NIL,     /* no value */
  VAL_BOOL,    /* true, false */
  VAL_INT,     /* 64 bits, or an unsigned value of 2^63 and more */
  VAL_FLOAT,   /* f64 */
  VAL_DTYPE,   /* f32, i8 … */
  VAL_BUILTIN, /* a row of the table of builtins */
  VAL_STRING,  /* from here on counted */
  VAL_TUPLE,   /* never changes */
  VAL_LIST,    /* shared by name, may change */
  VAL_KERNEL,  /* a definition with settings, or IR text */
  VAL_FN,      /* a function of the program */
  VAL_MODULE,  /* what an import bound */
  VAL_RECORD,  /* figures of check and bench */
  VAL_FOREIGN, /* of another language: host.h */
  VAL_CELL,    /* a local that functions share (closure.c): only on the stack, never a value */
  VAL_TENSOR   /* counted by src/tensor */
} ValueKind;

typedef struct Builtin Builtin;
typedef struct Unit Unit; /* a parsed text (unit.c) */
struct Plan;
void plans_free(struct Plan *p);      /* all of a kernel value; NULL is allowed (plan.c) */
typedef struct ForeignOps ForeignOps; /* host.h */

struct Value {
  ValueKind kind;
  DType typed; /* BOOL, INT, FLOAT: DT_NONE, or the type that a parameter or `let x: f32` gave it */
  bool literal; /* INT, FLOAT: written as a number, and so adapts to the type that it meets */
  bool big;     /* INT: an unsigned value of 2^63 or more, in as.u */
  union {
    bool b;
    int64_t i;
    uint64_t u;
    double f;
    DType dtype;            /* DTYPE */
    const Builtin *builtin; /* BUILTIN */
    Object *obj;            /* the counted kinds but tensors */
    Tensor *tensor;         /* TENSOR */
  } as;
};

typedef struct Field { /* of a record; a setting of a kernel */
  const char *name;    /* interned */
  Value value;
} Field;

/* Everything counted but tensors. The session keeps them in one list, in which cycles (a list that
 * holds itself) are found (cycles.c). */
struct Object {
  ValueKind kind;      /* never changes */
  size_t refs;         /* 0 only while it is being freed */
  Session *session;    /* whose lists it is in */
  Object *prev, *next; /* of the list of living objects */
  Object *way;         /* cycles.c's: a list of its own, … */
  size_t inside;       /* … how many references others of the list have to it, … */
  bool reached;        /* … and whether somebody holds it */
  union {
    struct {
      char *s; /* NUL-terminated; may hold NUL bytes */
      size_t n;
    } string;
    struct {
      Value *v;
      size_t n, cap;
    } list; /* TUPLE, LIST */
    struct {
      const AstKernel *ast; /* or NULL: read from IR text */
      const char *doc;      /* the ## comment, or NULL */
      struct IrKernel *ir;  /* read from IR text, or NULL */
      Module *module;       /* where it was defined */
      Unit *unit;           /* of its text, which stays as long as this does */
      Field *settings;      /* of k[BM = 64] */
      size_t nsettings;
      struct Plan *plans; /* of warm calls on a device (plan.c); its own */
    } kernel;
    struct {
      const AstFn *ast;
      const char *doc;
      Module *module;  /* whose globals its body sees */
      Unit *unit;      /* as a kernel's */
      bool local;      /* defined in a block: it sees itself */
      Field *captured; /* the block's variables that it names, in cells (closure.c) */
      size_t ncaptured;
    } fn;
    Value cell;     /* CELL */
    Module *module; /* MODULE */
    struct {
      Field *v;
      size_t n;
    } record; /* RECORD: fields in order */
    struct {
      const ForeignOps *ops;
      void *handle; /* released with the object */
    } foreign;
  } as;
};

/* Constants without memory. */
/* None of these allocates. */
Value val_nil(void);
Value val_bool(bool b);
Value val_int(int64_t i);
Value val_uint(uint64_t u); /* big where it does not fit in an int */
Value val_float(double f);
Value val_dtype(DType t);
/* The value of a scalar: typed if `typed`, else a plain int, float or bool. */
Value val_scalar(Scalar x, bool typed);
/* BOOL, INT and FLOAT as a Scalar (i64, u64, f64, bool, or the typed one). */
Scalar val_to_scalar(Value v);

/* New counted values; each is put on the session's list of temporaries. */
Value val_string(Session *s, const char *text, size_t n);
Value val_tuple(Session *s, const Value *v, size_t n); /* takes references */
Value val_list(Session *s, const Value *v, size_t n);
Value val_record(Session *s, const Field *v, size_t n);
Value val_object(Session *s, ValueKind kind); /* an empty object of that kind */
/* Takes over the caller's reference. NULL is a bug. */
Value val_tensor(Session *s, Tensor *t);
/* A Value of a tensor that something else keeps alive for the statement. */
Value val_borrow(Tensor *t);

/* One reference more, one less; the last one frees. */
Value val_retain(Value v);
void val_release(Value v);
/* Puts one more reference on the list of temporaries, which now owns it. */
Value val_keep(Session *s, Value v);
void val_push(Session *s, Object *list, Value v); /* appends to a list */

/* Kinds that often go together. */
static inline bool val_is_number(Value v) {
  return v.kind == VAL_INT || v.kind == VAL_FLOAT;
}
static inline bool val_is_scalar(Value v) {
  return val_is_number(v) || v.kind == VAL_BOOL;
}
static inline bool val_is_sequence(Value v) {
  return v.kind == VAL_TUPLE || v.kind == VAL_LIST;
}
/* The bytes of a string, NUL-terminated. */
static inline const char *val_text(Value v) {
  return v.as.obj->as.string.s;
}

/* "an int", "f16[3, 4]", "a kernel": for messages. */
const char *val_describe(Session *s, Value v);
/* As print shows it; quoted: strings in quotes (inside lists). Elements of tensors come from the
 * device where they lie there, and what went wrong there fails the statement. */
void val_print(Session *s, Value v, bool quoted, Str *out);

#endif
