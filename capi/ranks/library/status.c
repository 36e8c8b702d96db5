/* Statuses: their layout in the two ABIs and in Fortran. Licence: MIT OR Apache-2.0. */
#include "point.h"
#include "types.h"

MPI_Fint *MPI_F_STATUS_IGNORE;
MPI_Fint *MPI_F_STATUSES_IGNORE;

#ifdef MAINSTAY_ABI_STANDARD
enum { BYTES_LOW, BYTES_HIGH, CANCELLED };

static void put_bytes(MPI_Status *status, MPI_Count bytes) {
  status->MPI_internal[BYTES_LOW] = (int)(uint32_t)bytes;
  status->MPI_internal[BYTES_HIGH] = (int)(bytes >> 32);
}

MPI_Count status_bytes(const MPI_Status *status) {
  return (MPI_Count)((uint64_t)(uint32_t)status->MPI_internal[BYTES_HIGH] << 32 |
                     (uint32_t)status->MPI_internal[BYTES_LOW]);
}

static void put_cancelled(MPI_Status *status, bool cancelled) { status->MPI_internal[CANCELLED] = cancelled; }
static bool is_cancelled(const MPI_Status *status) { return status->MPI_internal[CANCELLED] & 1; }
#else
static void put_bytes(MPI_Status *status, MPI_Count bytes) {
  status->count_lo = (int)(uint32_t)bytes;
  status->count_hi_and_cancelled = (int)((uint32_t)(bytes >> 32) << 1 | (status->count_hi_and_cancelled & 1));
}

/* The sign does not fit, so MPI_UNDEFINED is known by all its other bits. */
MPI_Count status_bytes(const MPI_Status *status) {
  uint32_t low = (uint32_t)status->count_lo, high = (uint32_t)status->count_hi_and_cancelled >> 1;
  if (high == INT32_MAX && low == (uint32_t)MPI_UNDEFINED) return MPI_UNDEFINED;
  return (MPI_Count)((uint64_t)high << 32 | low);
}

static void put_cancelled(MPI_Status *status, bool cancelled) {
  status->count_hi_and_cancelled = (status->count_hi_and_cancelled & ~1) | cancelled;
}
static bool is_cancelled(const MPI_Status *status) { return status->count_hi_and_cancelled & 1; }
#endif

void set_status(MPI_Status *status, const struct outcome *outcome) {
  if (status == MPI_STATUS_IGNORE) return;
  status->MPI_SOURCE = outcome->source;
  status->MPI_TAG = outcome->tag;
  put_bytes(status, outcome->bytes);
  put_cancelled(status, outcome->cancelled);
}

void set_empty_status(MPI_Status *status) {
  if (status == MPI_STATUS_IGNORE) return;
  set_status(status, &empty_outcome);
  status->MPI_ERROR = MPI_SUCCESS;
}

MPI(Status_set_cancelled)(MPI_Status *status, int flag) {
  put_cancelled(status, flag != 0);
  return MPI_SUCCESS;
}

MPI(Test_cancelled)(const MPI_Status *status, int *flag) {
  *flag = is_cancelled(status);
  return MPI_SUCCESS;
}

static int set_elements(MPI_Status *status, MPI_Datatype datatype, MPI_Count count) {
  struct datatype *type = type_of(datatype);
  if (!type) return MPI_ERR_TYPE;
  if (count != MPI_UNDEFINED && count < 0) return MPI_ERR_ARG;
  put_bytes(status, count == MPI_UNDEFINED ? MPI_UNDEFINED : type_bytes_of(type, count));
  return MPI_SUCCESS;
}

MPI(Status_set_elements)(MPI_Status *status, MPI_Datatype datatype, int count) {
  return fail(NULL, set_elements(status, datatype, count));
}
MPI(Status_set_elements_x)(MPI_Status *status, MPI_Datatype datatype, MPI_Count count) {
  return fail(NULL, set_elements(status, datatype, count));
}
MPI(Status_set_elements_c)(MPI_Status *status, MPI_Datatype datatype, MPI_Count count) {
  return fail(NULL, set_elements(status, datatype, count));
}

/* Returns MPI_UNDEFINED if the message holds a part of an element. */
static MPI_Count count_of(const MPI_Status *status, const struct datatype *type) {
  MPI_Count bytes = status_bytes(status);
  if (type->size == 0) return bytes == 0 ? 0 : MPI_UNDEFINED;
  return bytes < 0 || bytes % type->size ? MPI_UNDEFINED : bytes / type->size;
}

MPI(Get_count)(const MPI_Status *status, MPI_Datatype datatype, int *count) {
  struct datatype *type = type_of(datatype);
  MPI_Count found;
  if (!type) return fail(NULL, MPI_ERR_TYPE);
  found = count_of(status, type);
  *count = found > INT32_MAX ? MPI_UNDEFINED : (int)found;
  return MPI_SUCCESS;
}

MPI(Get_count_c)(const MPI_Status *status, MPI_Datatype datatype, MPI_Count *count) {
  struct datatype *type = type_of(datatype);
  if (!type) return fail(NULL, MPI_ERR_TYPE);
  *count = count_of(status, type);
  return MPI_SUCCESS;
}

#define FIELD(stem, member)                                                                                            \
  MPI(Status_get_##stem)(const MPI_Status *status, int *value) {                                                       \
    *value = status->member;                                                                                           \
    return MPI_SUCCESS;                                                                                                \
  }                                                                                                                    \
  MPI(Status_set_##stem)(MPI_Status * status, int value) {                                                             \
    status->member = value;                                                                                            \
    return MPI_SUCCESS;                                                                                                \
  }
FIELD(source, MPI_SOURCE)
FIELD(tag, MPI_TAG)
FIELD(error, MPI_ERROR)

/* A status of C, of Fortran and of Fortran 2008 have the same layout. */
#define COPY(stem, from_type, to_type)                                                                                 \
  MPI(Status_##stem)(const from_type *from, to_type *to) {                                                             \
    memcpy(to, from, sizeof(MPI_Status));                                                                              \
    return MPI_SUCCESS;                                                                                                \
  }
COPY(c2f, MPI_Status, MPI_Fint)
COPY(f2c, MPI_Fint, MPI_Status)
COPY(c2f08, MPI_Status, MPI_F08_status)
COPY(f082c, MPI_F08_status, MPI_Status)
COPY(f082f, MPI_F08_status, MPI_Fint)
COPY(f2f08, MPI_Fint, MPI_F08_status)
