/* Handles of MPI and the objects that they name: the values of the two ABIs. Licence: MIT OR Apache-2.0.
 *
 * MPICH's ABI: an int. The upper six bits say the kind; of an object of the program's, the lower ones are its place in
 * the table. The standard ABI: a pointer; values below 4096 name predefined objects, all others are the objects.
 * Fortran's handles are those of MPICH's ABI; in the standard one they are predefined values, or 4096 + the place. */
#include "internal.h"

#define PREDEFINED_MAX 0x400
static struct object *predefined[PREDEFINED_MAX];

#ifdef MAINSTAY_ABI_STANDARD

#define FIRST_OF_PROGRAM 0x1000

static int predefined_place(enum kind kind, uintptr_t handle) {
  (void)kind;
  return handle < PREDEFINED_MAX ? (int)handle : -1;
}

static void *find(enum kind kind, const void *handle) {
  uintptr_t value = (uintptr_t)handle;
  struct object *object;
  if (value < FIRST_OF_PROGRAM) {
    object = value < PREDEFINED_MAX ? predefined[value] : NULL;
    return object && object->kind == kind ? object : NULL;
  }
  object = (struct object *)value;
  return object->kind == kind && object_at(kind, object->id) == object ? object : NULL;
}

static void *name(const void *pointer) {
  const struct object *object = pointer;
  return object->predefined ? (void *)object->handle : (void *)pointer;
}

#define HANDLE(type, value) ((type)(value))

/* The number of Fortran for a handle, and back. */
static int to_number(enum kind kind, const void *handle) {
  const struct object *object = find(kind, handle);
  if (!object || object->predefined) return (int)(uintptr_t)handle;
  return FIRST_OF_PROGRAM + (int)object->id;
}

static void *from_number(enum kind kind, int number) {
  if (number >= 0 && number < FIRST_OF_PROGRAM) return (void *)(uintptr_t)number;
  return object_at(kind, (uint32_t)number - FIRST_OF_PROGRAM);
}

#else

#define PLACE_BITS 0x03ffffffu
#define KEYVAL_PLACE_BITS 0x003fffffu

static const uint32_t bases[KINDS] = {
    [KIND_COMM] = 0x84000000u,    [KIND_GROUP] = 0x88000000u,      [KIND_TYPE] = 0xcc000000u,
    [KIND_REQUEST] = 0xac000000u, [KIND_OPERATION] = 0x98000000u,  [KIND_MESSAGE] = 0xac000000u,
    [KIND_INFO] = 0x9c000000u,    [KIND_ERRHANDLER] = 0x94000000u,
};

/* The places of the kinds in `predefined`. Pairs of types follow the other types. */
static int predefined_place(enum kind kind, uintptr_t handle) {
  uint32_t value = (uint32_t)handle;
  switch (kind) {
  case KIND_TYPE:
    if ((value & 0xff000000u) == 0x4c000000u) return (int)(value & 0xff);
    return (value & 0xfffffff8u) == 0x8c000000u ? 0x100 + (int)(value & 7) : -1;
  case KIND_COMM:
    return (value & 0xfffffffeu) == 0x44000000u ? 0x110 + (int)(value & 1) : -1;
  case KIND_GROUP:
    return value == 0x48000000u ? 0x112 : -1;
  case KIND_ERRHANDLER:
    return (value & 0xfffffffcu) == 0x54000000u ? 0x114 + (int)(value & 3) : -1;
  case KIND_INFO:
    return value == 0x5c000001u ? 0x118 : -1;
  case KIND_OPERATION:
    return (value & 0xfffffff0u) == 0x58000000u ? 0x120 + (int)(value & 15) : -1;
  case KIND_MESSAGE:
    return value == 0x6c000000u ? 0x119 : -1;
  default:
    return -1;
  }
}

static void *find(enum kind kind, int handle) {
  uint32_t value = (uint32_t)handle;
  int place;
  if ((value & ~PLACE_BITS) == bases[kind]) return object_at(kind, value & PLACE_BITS);
  place = predefined_place(kind, value);
  if (place < 0 || !predefined[place] || (uint32_t)predefined[place]->handle != value) return NULL;
  return predefined[place];
}

static int name(const void *pointer) {
  const struct object *object = pointer;
  return object->predefined ? (int)object->handle : (int)(bases[object->kind] | object->id);
}

#define HANDLE(type, value) ((type)(value))
#define to_number(kind, handle) (handle)
#define from_number(kind, number) (number)

#endif

void *object_predefined(enum kind kind, size_t bytes, uintptr_t handle) {
  struct object *object = object_new(kind, bytes);
  object->predefined = true;
  object->handle = handle;
  predefined[predefined_place(kind, handle)] = object;
  return object;
}

#define LOOK_UP(stem, kind, structure, type)                                                                           \
  struct structure *stem##_of(type handle) { return find(kind, handle); }                                              \
  type stem##_handle(const struct structure *object) { return HANDLE(type, name(object)); }

LOOK_UP(comm, KIND_COMM, comm, MPI_Comm)
LOOK_UP(group, KIND_GROUP, group, MPI_Group)
LOOK_UP(type, KIND_TYPE, datatype, MPI_Datatype)
LOOK_UP(operation, KIND_OPERATION, operation, MPI_Op)
LOOK_UP(request, KIND_REQUEST, request, MPI_Request)
LOOK_UP(message, KIND_MESSAGE, message, MPI_Message)
LOOK_UP(info, KIND_INFO, info, MPI_Info)
LOOK_UP(errhandler, KIND_ERRHANDLER, errhandler, MPI_Errhandler)

/* A file's handle is a pointer in both ABIs. */
struct file *file_of(MPI_File handle) {
  struct object *object = (struct object *)handle;
  if ((uintptr_t)handle < 0x1000 || object->kind != KIND_FILE || object_at(KIND_FILE, object->id) != object)
    return NULL;
  return (struct file *)handle;
}

MPI_File file_handle(const struct file *file) { return (MPI_File)(uintptr_t)file; }

/* A keyval is an int in both ABIs. */
#define KEYVAL_BASE 0x60000000
struct keyval *keyval_of(int keyval) {
  return keyval < KEYVAL_BASE ? NULL : (struct keyval *)object_at(KIND_KEYVAL, (uint32_t)(keyval - KEYVAL_BASE));
}

int keyval_handle(const struct keyval *keyval) { return KEYVAL_BASE + (int)((const struct object *)keyval)->id; }

/* The conversions for Fortran, under their old names and those of MPI 5. */
#define OF_TYPE(type, name)                                                                                            \
  extern __typeof__(PMPI_##name) MPI_##name __attribute__((weak, alias("PMPI_" #name)));                               \
  type PMPI_##name
#define CONVERT(stem, kind, type)                                                                                      \
  OF_TYPE(MPI_Fint, stem##_c2f)(type handle) { return to_number(kind, handle); }                                       \
  OF_TYPE(type, stem##_f2c)(MPI_Fint number) { return HANDLE(type, from_number(kind, number)); }                       \
  MPI(stem##_toint)(type handle) { return to_number(kind, handle); }                                                   \
  OF_TYPE(type, stem##_fromint)(int number) { return HANDLE(type, from_number(kind, number)); }

CONVERT(Comm, KIND_COMM, MPI_Comm)
CONVERT(Group, KIND_GROUP, MPI_Group)
CONVERT(Type, KIND_TYPE, MPI_Datatype)
CONVERT(Op, KIND_OPERATION, MPI_Op)
CONVERT(Request, KIND_REQUEST, MPI_Request)
CONVERT(Message, KIND_MESSAGE, MPI_Message)
CONVERT(Info, KIND_INFO, MPI_Info)
CONVERT(Errhandler, KIND_ERRHANDLER, MPI_Errhandler)

/* Of files, Fortran's number is the place + 1; 0 is MPI_FILE_NULL. */
static MPI_Fint file_number(MPI_File handle) {
  struct file *file = file_of(handle);
  return file ? (MPI_Fint)((struct object *)file)->id + 1 : 0;
}

static MPI_File numbered_file(MPI_Fint number) {
  struct object *object = number > 0 ? object_at(KIND_FILE, (uint32_t)number - 1) : NULL;
  return object ? (MPI_File)object : MPI_FILE_NULL;
}

OF_TYPE(MPI_Fint, File_c2f)(MPI_File handle) { return file_number(handle); }
OF_TYPE(MPI_File, File_f2c)(MPI_Fint number) { return numbered_file(number); }
MPI(File_toint)(MPI_File handle) { return file_number(handle); }
OF_TYPE(MPI_File, File_fromint)(int number) { return numbered_file(number); }

/* Windows and sessions do not exist: only their NULL handles are converted. */
#define CONVERT_NULL(stem, type, null)                                                                                 \
  OF_TYPE(MPI_Fint, stem##_c2f)(type handle) { return (MPI_Fint)(intptr_t)handle; }                                    \
  OF_TYPE(type, stem##_f2c)(MPI_Fint number) { return (type)(intptr_t)number; }                                        \
  MPI(stem##_toint)(type handle) { return (int)(intptr_t)handle; }                                                     \
  OF_TYPE(type, stem##_fromint)(int number) { return (type)(intptr_t)number; }

CONVERT_NULL(Win, MPI_Win, MPI_WIN_NULL)
CONVERT_NULL(Session, MPI_Session, MPI_SESSION_NULL)
