/* Reductions with each operation and kind of number, and with operations of the program's own. */
#include "parts.h"

#include <complex.h>
#include <stdint.h>

#define EACH(TYPE, KIND)                                                                                               \
  static void of_##KIND(void) {                                                                                        \
    TYPE mine[3], got[3], sum = 0, product = 1, least = (TYPE)90, most = 0;                                            \
    for (int of = 0; of < ranks; of++) {                                                                               \
      TYPE one = (TYPE)(1 + (of * 3 + 1) % 4);                                                                         \
      sum = (TYPE)(sum + one), product = (TYPE)(product * one);                                                        \
      least = one < least ? one : least, most = one > most ? one : most;                                               \
    }                                                                                                                  \
    for (int i = 0; i < 3; i++) mine[i] = (TYPE)(1 + (rank * 3 + 1) % 4);                                              \
    MPI_Allreduce(mine, got, 3, KIND, MPI_SUM, MPI_COMM_WORLD);                                                        \
    CHECK(got[0] == sum && got[2] == sum);                                                                             \
    MPI_Allreduce(mine, got, 3, KIND, MPI_PROD, MPI_COMM_WORLD);                                                       \
    CHECK(got[0] == product && got[2] == product);                                                                     \
    MPI_Allreduce(mine, got, 3, KIND, MPI_MIN, MPI_COMM_WORLD);                                                        \
    CHECK(got[1] == least);                                                                                            \
    MPI_Allreduce(mine, got, 3, KIND, MPI_MAX, MPI_COMM_WORLD);                                                        \
    CHECK(got[1] == most);                                                                                             \
  }

#define BITS(TYPE, KIND)                                                                                               \
  static void bits_of_##KIND(void) {                                                                                   \
    TYPE mine = (TYPE)(rank % 5 | 16), got, all = (TYPE) - 1, any = 0, odd = 0, truth = (TYPE)(rank == 1);             \
    for (int of = 0; of < ranks; of++) {                                                                               \
      TYPE one = (TYPE)(of % 5 | 16);                                                                                  \
      all &= one, any |= one, odd ^= one;                                                                              \
    }                                                                                                                  \
    MPI_Allreduce(&mine, &got, 1, KIND, MPI_BAND, MPI_COMM_WORLD);                                                     \
    CHECK(got == all);                                                                                                 \
    MPI_Allreduce(&mine, &got, 1, KIND, MPI_BOR, MPI_COMM_WORLD);                                                      \
    CHECK(got == any);                                                                                                 \
    MPI_Allreduce(&mine, &got, 1, KIND, MPI_BXOR, MPI_COMM_WORLD);                                                     \
    CHECK(got == odd);                                                                                                 \
    MPI_Allreduce(&truth, &got, 1, KIND, MPI_LAND, MPI_COMM_WORLD);                                                    \
    CHECK(got == (ranks == 1 && rank == 1));                                                                           \
    MPI_Allreduce(&truth, &got, 1, KIND, MPI_LOR, MPI_COMM_WORLD);                                                     \
    CHECK(got == (ranks > 1));                                                                                         \
    MPI_Allreduce(&truth, &got, 1, KIND, MPI_LXOR, MPI_COMM_WORLD);                                                    \
    CHECK(got == (ranks > 1));                                                                                         \
  }

#define INTEGERS(DO)                                                                                                   \
  DO(int, MPI_INT)                                                                                                     \
  DO(short, MPI_SHORT)                                                                                                 \
  DO(long, MPI_LONG) DO(unsigned, MPI_UNSIGNED) DO(unsigned long, MPI_UNSIGNED_LONG) DO(long long, MPI_LONG_LONG)      \
      DO(signed char, MPI_SIGNED_CHAR) DO(unsigned char, MPI_UNSIGNED_CHAR) DO(int8_t, MPI_INT8_T)                     \
          DO(int64_t, MPI_INT64_T) DO(uint16_t, MPI_UINT16_T) DO(uint64_t, MPI_UINT64_T) DO(MPI_Aint, MPI_AINT)        \
              DO(MPI_Count, MPI_COUNT)
#define REALS(DO) DO(float, MPI_FLOAT) DO(double, MPI_DOUBLE) DO(long double, MPI_LONG_DOUBLE)
#define CALL(TYPE, KIND) of_##KIND();
#define CALL_BITS(TYPE, KIND) bits_of_##KIND();

INTEGERS(EACH)
REALS(EACH)
INTEGERS(BITS)

static void with_places(void) {
  struct {
    double number;
    int place;
  } mine = {(rank * 7) % 4, rank}, got;
  struct {
    int number, place;
  } pair = {3 - rank % 3, rank}, got_pair;
  double most = 0;
  int place = 0, least = 9, least_place = 0;
  for (int of = ranks - 1; of >= 0; of--) {
    if ((of * 7) % 4 >= most) most = (of * 7) % 4, place = of;
    if (3 - of % 3 <= least) least = 3 - of % 3, least_place = of;
  }
  MPI_Allreduce(&mine, &got, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
  CHECK(got.number == most && got.place == place);
  MPI_Allreduce(&pair, &got_pair, 1, MPI_2INT, MPI_MINLOC, MPI_COMM_WORLD);
  CHECK(got_pair.number == least && got_pair.place == least_place);
  double complex one = 1 + rank * I, sum;
  MPI_Allreduce(&one, &sum, 1, MPI_C_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD);
  CHECK(creal(sum) == ranks && cimag(sum) == ranks * (ranks - 1) / 2);
}

/* Matrices of 2 by 2: the order of the ranks matters. */
static void multiply(void *left, void *both, int *count, MPI_Datatype *type) {
  int *a = left, *b = both;
  (void)type;
  for (int i = 0; i < *count; i++, a += 4, b += 4) {
    int product[4] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3], a[2] * b[0] + a[3] * b[2],
                      a[2] * b[1] + a[3] * b[3]};
    for (int j = 0; j < 4; j++) b[j] = product[j] % 10007;
  }
}

static void of_the_program(void) {
  int mine[8], got[8], expected[8], commutes;
  MPI_Op product;
  MPI_Datatype matrix;
  MPI_Type_contiguous(4, MPI_INT, &matrix);
  MPI_Type_commit(&matrix);
  MPI_Op_create(multiply, 0, &product);
  MPI_Op_commutative(product, &commutes);
  CHECK(!commutes);
  for (int of = ranks - 1; of >= 0; of--) {
    int one[8];
    for (int i = 0; i < 8; i++) one[i] = 1 + (of * 5 + i) % 9;
    if (of == rank) memcpy(mine, one, sizeof mine);
    if (of < ranks - 1)
      multiply(one, expected, &(int){2}, &matrix);
    else
      memcpy(expected, one, sizeof one);
  }
  MPI_Allreduce(mine, got, 2, matrix, product, MPI_COMM_WORLD);
  CHECK(!memcmp(got, expected, sizeof got));
  for (int root = 0; root < ranks; root++) {
    memset(got, 0, sizeof got);
    MPI_Reduce(mine, got, 2, matrix, product, root, MPI_COMM_WORLD);
    CHECK(rank != root || !memcmp(got, expected, sizeof got));
  }
  MPI_Scan(mine, got, 2, matrix, product, MPI_COMM_WORLD);
  CHECK(rank < ranks - 1 || !memcmp(got, expected, sizeof got));
  int pair[8] = {2, 0, 0, 2, 3, 0, 0, 3};
  memcpy(got, mine, sizeof got);
  MPI_Reduce_local(pair, got, 2, matrix, product);
  CHECK(got[0] == 2 * mine[0] && got[4] == 3 * mine[4]);
  MPI_Op_free(&product);
  CHECK(product == MPI_OP_NULL);
  MPI_Type_free(&matrix);
  MPI_Op_commutative(MPI_SUM, &commutes);
  CHECK(commutes);
}

void operations(void) {
  INTEGERS(CALL)
  REALS(CALL)
  INTEGERS(CALL_BITS)
  with_places();
  of_the_program();
}
