/* Pack and unpack, also in the format of all machines. */
#include "parts.h"

void packs(void) {
  char bytes[400], other[400];
  int at = 0, size, numbers[6], count = 0, filled, odd[2] = {0, 0};
  double half = 0.5 * rank, got = 0;
  MPI_Aint place = 0, whole;
  MPI_Datatype gapped;
  MPI_Status status;
  for (int i = 0; i < 6; i++) numbers[i] = value(rank, i, 13);
  MPI_Type_vector(2, 1, 3, MPI_INT, &gapped);
  MPI_Type_commit(&gapped);
  MPI_Pack_size(6, MPI_INT, MPI_COMM_WORLD, &size);
  CHECK(size >= 24 && size < 100);
  MPI_Pack(numbers, 1, gapped, bytes, sizeof bytes, &at, MPI_COMM_WORLD);
  MPI_Pack(&half, 1, MPI_DOUBLE, bytes, sizeof bytes, &at, MPI_COMM_WORLD);
  MPI_Sendrecv(bytes, at, MPI_PACKED, next, 1, other, sizeof other, MPI_PACKED, before, 1, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, MPI_PACKED, &filled);
  CHECK(filled == at);
  MPI_Unpack(other, filled, &count, odd, 2, MPI_INT, MPI_COMM_WORLD);
  MPI_Unpack(other, filled, &count, &got, 1, MPI_DOUBLE, MPI_COMM_WORLD);
  CHECK(count == at && odd[0] == value(before, 0, 13) && odd[1] == value(before, 3, 13) && got == 0.5 * before);
  /* What one rank packs, another may receive as numbers. */
  at = 0;
  MPI_Pack(numbers, 6, MPI_INT, bytes, sizeof bytes, &at, MPI_COMM_WORLD);
  int direct[6];
  MPI_Sendrecv(bytes, at, MPI_PACKED, next, 2, direct, 6, MPI_INT, before, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK(direct[5] == value(before, 5, 13));
  MPI_Pack_external_size("external32", 6, MPI_INT, &whole);
  CHECK(whole == 24);
  MPI_Pack_external("external32", (int[]){1, 0x01020304}, 2, MPI_INT, bytes, sizeof bytes, &place);
  CHECK(place == 8 && bytes[0] == 0 && bytes[3] == 1 && bytes[4] == 1 && bytes[7] == 4);
  MPI_Pack_external("external32", &half, 1, MPI_DOUBLE, bytes, sizeof bytes, &place);
  whole = 0, got = -1;
  MPI_Unpack_external("external32", bytes, place, &whole, direct, 2, MPI_INT);
  MPI_Unpack_external("external32", bytes, place, &whole, &got, 1, MPI_DOUBLE);
  CHECK(direct[1] == 0x01020304 && got == half && whole == place);
  MPI_Type_free(&gapped);
}
