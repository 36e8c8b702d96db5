/* The predefined operations, as loops over elements of one basic type. Licence: MIT OR Apache-2.0.
 *
 * Each list below names the basic types of a family; each operation is one expression over `a`, the element of
 * the first operand, and `b`, the element of the second. */
#include "op_kernels.h"

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

/* The type of halves exists where the compiler has it. */
#ifdef __FLT16_MANT_DIG__
typedef _Complex _Float16 complex_float16;
#define HALVES(X, OP) X(OP, FLOAT16, _Float16)
#define COMPLEX_HALVES(X, OP) X(OP, FLOAT16_COMPLEX, complex_float16)
#else
#define HALVES(X, OP)
#define COMPLEX_HALVES(X, OP)
#endif

#define INTEGERS(X, OP)                                                                                                \
  X(OP, CHAR, int8_t)                                                                                                  \
  X(OP, INT8, int8_t)                                                                                                  \
  X(OP, INT16, int16_t)                                                                                                \
  X(OP, INT32, int32_t)                                                                                                \
  X(OP, INT64, int64_t)                                                                                                \
  X(OP, INT128, int128)                                                                                                \
  X(OP, UINT8, uint8_t)                                                                                                \
  X(OP, UINT16, uint16_t)                                                                                              \
  X(OP, UINT32, uint32_t)                                                                                              \
  X(OP, UINT64, uint64_t)
#define FLOATS(X, OP)                                                                                                  \
  HALVES(X, OP)                                                                                                        \
  X(OP, FLOAT, float)                                                                                                  \
  X(OP, DOUBLE, double)                                                                                                \
  X(OP, LONG_DOUBLE, long double)                                                                                      \
  X(OP, FLOAT128, __float128)
#define COMPLEXES(X, OP)                                                                                               \
  COMPLEX_HALVES(X, OP)                                                                                                \
  X(OP, FLOAT_COMPLEX, complex_float)                                                                                  \
  X(OP, DOUBLE_COMPLEX, complex_double)                                                                                \
  X(OP, LONG_DOUBLE_COMPLEX, complex_long_double)                                                                      \
  X(OP, FLOAT128_COMPLEX, complex_float128)
#define LOGICALS(X, OP)                                                                                                \
  X(OP, BOOL, uint8_t)                                                                                                 \
  X(OP, LOGICAL8, int8_t)                                                                                              \
  X(OP, LOGICAL16, int16_t)                                                                                            \
  X(OP, LOGICAL32, int32_t)                                                                                            \
  X(OP, LOGICAL64, int64_t)                                                                                            \
  X(OP, LOGICAL128, int128)
#define BYTES(X, OP) X(OP, BYTE, uint8_t)
#define PAIRS(X, OP)                                                                                                   \
  X(OP, FLOAT_INT, float_int)                                                                                          \
  X(OP, DOUBLE_INT, double_int)                                                                                        \
  X(OP, LONG_DOUBLE_INT, long_double_int)                                                                              \
  X(OP, SHORT_INT, short_int)                                                                                          \
  X(OP, LONG_INT, long_int)                                                                                            \
  X(OP, INT_INT, two_int)                                                                                              \
  X(OP, 2INTEGER, two_int)                                                                                             \
  X(OP, 2REAL, two_float)                                                                                              \
  X(OP, 2DOUBLE, two_double)

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
#define EXPRESSION_MINLOC(a, b) ((a).value < (b).value || ((a).value == (b).value && (a).index < (b).index) ? (a) : (b))
#define EXPRESSION_MAXLOC(a, b) ((a).value > (b).value || ((a).value == (b).value && (a).index < (b).index) ? (a) : (b))

#define KERNEL(OP, KIND, TYPE)                                                                                         \
  static void OP##_##KIND(const void *in, void *inout, size_t count) {                                                 \
    const TYPE *a = in;                                                                                                \
    TYPE *b = inout;                                                                                                   \
    for (size_t i = 0; i < count; i++) b[i] = EXPRESSION_##OP(a[i], b[i]);                                             \
  }
OPERATIONS_OF(KERNEL)

#define ENTRY(OP, KIND, TYPE) [OPERATION_##OP][BASIC_##KIND] = OP##_##KIND,
static kernel *const kernels[OPERATION_NO_OP + 1][BASIC_BOUND + 1] = {OPERATIONS_OF(ENTRY)};

kernel *kernel_find(enum operation_code code, enum basic basic) { return kernels[code][basic]; }
