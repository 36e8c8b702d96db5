! FTI's module for Fortran, which saves with Mainstay. Licence: MIT OR Apache-2.0.
!
! Names and arguments are those of FTI's module; fti.h describes the functions.
module FTI
  use, intrinsic :: iso_c_binding
  implicit none
  private
  integer, parameter, public :: FTI_DONE = 1, FTI_SCES = 0, FTI_NSCS = -1, FTI_NREC = -2
  integer, parameter, public :: FTI_ATTRIBUTE_NAME = 1, FTI_ATTRIBUTE_DIM = 2
  ! Types by the bytes of an element, from FTI_Init on.
  integer, public :: FTI_CHARACTER1, FTI_LOGICAL1, FTI_LOGICAL2, FTI_LOGICAL4, FTI_LOGICAL8
  integer, public :: FTI_INTEGER1, FTI_INTEGER2, FTI_INTEGER4, FTI_INTEGER8
  integer, public :: FTI_REAL4, FTI_REAL8, FTI_REAL16, FTI_COMPLEX4, FTI_COMPLEX8, FTI_COMPLEX16
  public :: FTI_Init, FTI_Status, FTI_InitType, FTI_Protect, FTI_Checkpoint, FTI_Recover, FTI_Snapshot, FTI_Finalize
  public :: FTI_GetStoredSize, FTI_Realloc, FTI_RecoverVarInit, FTI_RecoverVar, FTI_RecoverVarFinalize
  public :: FTI_AddScalarField, FTI_AddVectorField, FTI_InitCompositeType, FTI_InitICP, FTI_AddVarICP, FTI_FinalizeICP
  public :: FTI_setIDFromString, FTI_getIDFromString, FTI_SetAttribute

  interface
    integer(c_int) function c_init(file, comm) bind(C, name="mainstay_fti_init")
      import
      character(kind=c_char), intent(in) :: file(*)
      integer(c_int), intent(inout) :: comm
    end function
    integer(c_int) function c_protect(id, data) bind(C, name="mainstay_fti_protect")
      import
      integer(c_int), value :: id
      type(*), dimension(..), intent(in) :: data
    end function
    integer(c_int) function c_type(bytes) bind(C, name="mainstay_fti_type")
      import
      integer(c_size_t), value :: bytes
    end function
    integer(c_int) function c_protect_at(id, data, count, type) bind(C, name="FTI_Protect")
      import
      integer(c_int), value :: id
      type(c_ptr), value :: data
      integer(c_int64_t), value :: count
      integer(c_int), value :: type
    end function
    integer(c_int) function c_status() bind(C, name="FTI_Status")
      import
    end function
    integer(c_int) function c_checkpoint(id, level) bind(C, name="FTI_Checkpoint")
      import
      integer(c_int), value :: id, level
    end function
    integer(c_int) function c_init_icp(id, level, activate) bind(C, name="FTI_InitICP")
      import
      integer(c_int), value :: id, level
      logical(c_bool), value :: activate
    end function
    integer(c_int) function c_add_icp(id) bind(C, name="FTI_AddVarICP")
      import
      integer(c_int), value :: id
    end function
    integer(c_int) function c_finalize_icp() bind(C, name="FTI_FinalizeICP")
      import
    end function
    integer(c_int) function c_recover() bind(C, name="FTI_Recover")
      import
    end function
    integer(c_int) function c_recover_init() bind(C, name="FTI_RecoverVarInit")
      import
    end function
    integer(c_int) function c_recover_var(id) bind(C, name="FTI_RecoverVar")
      import
      integer(c_int), value :: id
    end function
    integer(c_int) function c_recover_end() bind(C, name="FTI_RecoverVarFinalize")
      import
    end function
    integer(c_int) function c_snapshot() bind(C, name="FTI_Snapshot")
      import
    end function
    integer(c_int) function c_finalize() bind(C, name="FTI_Finalize")
      import
    end function
    integer(c_int64_t) function c_stored(id) bind(C, name="FTI_GetStoredSize")
      import
      integer(c_int), value :: id
    end function
    type(c_ptr) function c_realloc(id, data) bind(C, name="FTI_Realloc")
      import
      integer(c_int), value :: id
      type(c_ptr), value :: data
    end function
    integer(c_int) function c_set_id(name) bind(C, name="FTI_setIDFromString")
      import
      character(kind=c_char), intent(in) :: name(*)
    end function
    integer(c_int) function c_get_id(name) bind(C, name="FTI_getIDFromString")
      import
      character(kind=c_char), intent(in) :: name(*)
    end function
  end interface

  interface FTI_Protect
    module procedure protect_data, protect_at
  end interface
  interface FTI_SetAttribute
    module procedure set_name, set_lengths, set_long_lengths
  end interface
contains

  subroutine FTI_Init(config_file, global_comm, err)
    character(*), intent(in) :: config_file
    integer, intent(inout) :: global_comm
    integer, intent(out) :: err
    integer(c_int) :: comm
    comm = int(global_comm, c_int)
    err = c_init(trim(config_file) // c_null_char, comm)
    global_comm = comm
    FTI_CHARACTER1 = c_type(1_c_size_t)
    FTI_LOGICAL1 = FTI_CHARACTER1
    FTI_INTEGER1 = FTI_CHARACTER1
    FTI_LOGICAL2 = c_type(2_c_size_t)
    FTI_INTEGER2 = FTI_LOGICAL2
    FTI_LOGICAL4 = c_type(4_c_size_t)
    FTI_INTEGER4 = FTI_LOGICAL4
    FTI_REAL4 = FTI_LOGICAL4
    FTI_LOGICAL8 = c_type(8_c_size_t)
    FTI_INTEGER8 = FTI_LOGICAL8
    FTI_REAL8 = FTI_LOGICAL8
    FTI_COMPLEX4 = FTI_LOGICAL8
    FTI_REAL16 = c_type(16_c_size_t)
    FTI_COMPLEX8 = FTI_REAL16
    FTI_COMPLEX16 = c_type(32_c_size_t)
  end subroutine

  subroutine FTI_Status(status)
    integer, intent(out) :: status
    status = c_status()
  end subroutine

  ! The number of a type of `size_F` bytes.
  integer function FTI_InitType(size_F) result(type)
    integer(c_size_t), intent(in) :: size_F
    type = c_type(size_F)
  end function

  integer function FTI_InitCompositeType(name, size) result(type)
    character(*), intent(in) :: name
    integer(c_size_t), intent(in) :: size
    type = c_type(size + 0 * len(name))
  end function

  ! Fields do not matter to Mainstay.
  integer function FTI_AddScalarField(complex_tid, name, field_tid, offset) result(err)
    integer, intent(in) :: complex_tid, field_tid
    character(*), intent(in) :: name
    integer(c_size_t), intent(in) :: offset
    err = merge(FTI_SCES, FTI_NSCS, min(complex_tid, field_tid) >= 0 .and. offset >= 0 .and. len(name) >= 0)
  end function

  integer function FTI_AddVectorField(complex_tid, name, field_tid, offset, ndims, dim_length) result(err)
    integer, intent(in) :: complex_tid, field_tid, ndims
    character(*), intent(in) :: name
    integer(c_size_t), intent(in) :: offset
    integer, intent(in) :: dim_length(ndims)
    err = merge(FTI_SCES, FTI_NSCS, all(dim_length >= 0))
    if (err == FTI_SCES) err = FTI_AddScalarField(complex_tid, name, field_tid, offset)
  end function

  ! A scalar or an array of any type.
  subroutine protect_data(id_F, data, err)
    integer, intent(in) :: id_F
    type(*), dimension(..), intent(in), target :: data
    integer, intent(out) :: err
    err = c_protect(int(id_F, c_int), data)
  end subroutine

  subroutine protect_at(id_F, ptr, count_F, tid, err)
    integer, intent(in) :: id_F
    type(c_ptr), value :: ptr
    integer, intent(in) :: count_F, tid
    integer, intent(out) :: err
    err = c_protect_at(int(id_F, c_int), ptr, int(count_F, c_int64_t), int(tid, c_int))
  end subroutine

  subroutine FTI_Checkpoint(id_F, level, err)
    integer, intent(in) :: id_F, level
    integer, intent(out) :: err
    err = c_checkpoint(int(id_F, c_int), int(level, c_int))
  end subroutine

  subroutine FTI_InitICP(id_F, level, activate, err)
    integer, intent(in) :: id_F, level
    logical, intent(in) :: activate
    integer, intent(out) :: err
    err = c_init_icp(int(id_F, c_int), int(level, c_int), logical(activate, c_bool))
  end subroutine

  subroutine FTI_AddVarICP(id_F, err)
    integer, intent(in) :: id_F
    integer, intent(out) :: err
    err = c_add_icp(int(id_F, c_int))
  end subroutine

  subroutine FTI_FinalizeICP(err)
    integer, intent(out) :: err
    err = c_finalize_icp()
  end subroutine

  subroutine FTI_Recover(err)
    integer, intent(out) :: err
    err = c_recover()
  end subroutine

  subroutine FTI_RecoverVarInit(err)
    integer, intent(out) :: err
    err = c_recover_init()
  end subroutine

  subroutine FTI_RecoverVar(id, err)
    integer, intent(in) :: id
    integer, intent(out) :: err
    err = c_recover_var(int(id, c_int))
  end subroutine

  subroutine FTI_RecoverVarFinalize(err)
    integer, intent(out) :: err
    err = c_recover_end()
  end subroutine

  subroutine FTI_Snapshot(err)
    integer, intent(out) :: err
    err = c_snapshot()
  end subroutine

  subroutine FTI_Finalize(err)
    integer, intent(out) :: err
    err = c_finalize()
  end subroutine

  subroutine FTI_GetStoredSize(id_F, size)
    integer, intent(in) :: id_F
    integer(c_long), intent(out) :: size
    size = int(c_stored(int(id_F, c_int)), c_long)
  end subroutine

  subroutine FTI_Realloc(id_F, ptr, err)
    integer, intent(in) :: id_F
    type(c_ptr) :: ptr
    integer, intent(out) :: err
    ptr = c_realloc(int(id_F, c_int), ptr)
    err = merge(FTI_SCES, FTI_NSCS, c_associated(ptr))
  end subroutine

  subroutine FTI_setIDFromString(name, id)
    character(*), intent(in) :: name
    integer, intent(out) :: id
    id = c_set_id(trim(name) // c_null_char)
  end subroutine

  subroutine FTI_getIDFromString(name, id)
    character(*), intent(in) :: name
    integer, intent(out) :: id
    id = c_get_id(trim(name) // c_null_char)
  end subroutine

  ! Attributes do not matter to Mainstay.
  subroutine set_name(id, attribute, flag, err)
    integer, intent(in) :: id, flag
    character(*), intent(in) :: attribute
    integer, intent(out) :: err
    err = merge(FTI_SCES, FTI_NSCS, id >= 0 .and. flag >= 0 .and. len(attribute) >= 0)
  end subroutine

  subroutine set_lengths(id, attribute, flag, err)
    integer, intent(in) :: id, flag, attribute(:)
    integer, intent(out) :: err
    err = merge(FTI_SCES, FTI_NSCS, id >= 0 .and. flag >= 0 .and. size(attribute) >= 0)
  end subroutine

  subroutine set_long_lengths(id, attribute, flag, err)
    integer, intent(in) :: id, flag
    integer(8), intent(in) :: attribute(:)
    integer, intent(out) :: err
    err = merge(FTI_SCES, FTI_NSCS, id >= 0 .and. flag >= 0 .and. size(attribute) >= 0)
  end subroutine
end module
