/* The predefined operations, as loops over elements of one kind. Licence: MIT OR Apache-2.0.
 *
 * Each list below names the kinds of elements of a family; each operation is one expression over `a`, the element of
 * the first operand, and `b`, the element of the second. */
#include "op_kernels.h"
#include <complex.h>
#include <stdint.h>

typedef __int128 int128;
typedef _Complex float complex_float;
typedef _Complex double complex_double;
typedef _Complex long double complex_long_double;
typedef _Complex float __attribute__((mode(TC))) complex_float128;

#define PAIR(NAME, VALUE, INDEX)                                                                                       \
  typedef struct {                                                                                                     \
    VALUE value;                                                                                                       \
    INDEX index;                                                                                                       \
  } NAME;
PAIR(float_int, float, int)
PAIR(double_int, double, int)
PAIR(long_double_int, long double, int)
PAIR(short_int, short, int)
PAIR(long_int, long, int)
PAIR(two_int, int, int)
PAIR(two_float, float, float)
PAIR(two_double, double, double)

#define INTEGERS(X, OP)                                                                                                \
  X(OP, I8, int8_t)                                                                                                    \
  X(OP, I16, int16_t)                                                                                                  \
  X(OP, I32, int32_t)                                                                                                  \
  X(OP, I64, int64_t)                                                                                                  \
  X(OP, I128, int128)                                                                                                  \
  X(OP, U8, uint8_t)                                                                                                   \
  X(OP, U16, uint16_t)                                                                                                 \
  X(OP, U32, uint32_t)                                                                                                 \
  X(OP, U64, uint64_t)
#define FLOATS(X, OP)                                                                                                  \
  X(OP, F32, float)                                                                                                    \
  X(OP, F64, double)                                                                                                   \
  X(OP, F80, long double)                                                                                              \
  X(OP, F128, __float128)
#define COMPLEXES(X, OP)                                                                                               \
  X(OP, C32, complex_float)                                                                                            \
  X(OP, C64, complex_double)                                                                                           \
  X(OP, C80, complex_long_double)                                                                                      \
  X(OP, C128, complex_float128)
#define LOGICALS(X, OP)                                                                                                \
  X(OP, L8, int8_t)                                                                                                    \
  X(OP, L16, int16_t)                                                                                                  \
  X(OP, L32, int32_t)                                                                                                  \
  X(OP, L64, int64_t)                                                                                                  \
  X(OP, L128, int128)
#define BYTES(X, OP) X(OP, BYTE, uint8_t)
#define PAIRS(X, OP)                                                                                                   \
  X(OP, F32_INT, float_int)                                                                                            \
  X(OP, F64_INT, double_int)                                                                                           \
  X(OP, F80_INT, long_double_int)                                                                                      \
  X(OP, I16_INT, short_int)                                                                                            \
  X(OP, I64_INT, long_int)                                                                                             \
  X(OP, I32_I32, two_int)                                                                                              \
  X(OP, F32_F32, two_float)                                                                                            \
  X(OP, F64_F64, two_double)

/* The families for which MPI defines each operation. */
#define ORDERED(X, OP) INTEGERS(X, OP) FLOATS(X, OP)
#define NUMBERS(X, OP) INTEGERS(X, OP) FLOATS(X, OP) COMPLEXES(X, OP)
#define TRUTHS(X, OP) INTEGERS(X, OP) LOGICALS(X, OP)
#define BITS(X, OP) INTEGERS(X, OP) BYTES(X, OP)
#define OPERATIONS_OF(X)                                                                                               \
  ORDERED(X, MAX)                                                                                                      \
  ORDERED(X, MIN)                                                                                                      \
  NUMBERS(X, SUM)                                                                                                      \
  NUMBERS(X, PROD)                                                                                                     \
  TRUTHS(X, LAND)                                                                                                      \
  BITS(X, BAND) TRUTHS(X, LOR) BITS(X, BOR) TRUTHS(X, LXOR) BITS(X, BXOR) PAIRS(X, MINLOC) PAIRS(X, MAXLOC)

#define EXPRESSION_MAX(a, b) ((b) > (a) ? (b) : (a))
#define EXPRESSION_MIN(a, b) ((b) < (a) ? (b) : (a))
#define EXPRESSION_SUM(a, b) ((a) + (b))
#define EXPRESSION_PROD(a, b) ((a) * (b))
#define EXPRESSION_LAND(a, b) ((a) && (b))
#define EXPRESSION_BAND(a, b) ((a) & (b))
#define EXPRESSION_LOR(a, b) ((a) || (b))
#define EXPRESSION_BOR(a, b) ((a) | (b))
#define EXPRESSION_LXOR(a, b) (!(a) != !(b))
#define EXPRESSION_BXOR(a, b) ((a) ^ (b))
/* Of equal values, the one of the lower index. */
#define EXPRESSION_MINLOC(a, b)                                                                                        \
  ((a).value < (b).value || ((a).value == (b).value && (a).index < (b).index) ? (a) : (b))
#define EXPRESSION_MAXLOC(a, b)                                                                                        \
  ((a).value > (b).value || ((a).value == (b).value && (a).index < (b).index) ? (a) : (b))

#define KERNEL(OP, KIND, TYPE)                                                                                         \
  static void OP##_##KIND(const void *in, void *inout, size_t count) {                                                 \
    const TYPE *a = in;                                                                                                \
    TYPE *b = inout;                                                                                                   \
    for (size_t i = 0; i < count; i++) b[i] = EXPRESSION_##OP(a[i], b[i]);                                             \
  }
OPERATIONS_OF(KERNEL)

#define ENTRY(OP, KIND, TYPE) [OPERATION_##OP][ELEMENT_##KIND] = OP##_##KIND,
static kernel *const kernels[OPERATIONS][ELEMENTS] = {OPERATIONS_OF(ENTRY)};

kernel *kernel_find(enum operation operation, enum element element) { return kernels[operation][element]; }
